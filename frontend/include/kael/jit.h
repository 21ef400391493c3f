/* kael/jit.h: when recorded operations run. The mode cannot be seen in any result. */
#ifndef KAEL_JIT_H
#define KAEL_JIT_H

#include "kael/error.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum kael_jit_mode {
  KAEL_JIT_DEFAULT = -1, /* kael_set_jit: no override; kael_set_jit_default: as KAEL_JIT says */
  KAEL_JIT_EAGER = 0,    /* each operation runs as it is called */
  KAEL_JIT_LAZY = 1,     /* operations are recorded, fused, and run when a value is needed */
  KAEL_JIT_SYNC = 2      /* the same, always with compiled code, compiled in the foreground */
} kael_jit_mode;

/* Sets the mode of the calling thread. Values already pending stay so. KAEL_ERR_VALUE for a number
 * outside the enum, KAEL_ERR_COMPILER for SYNC in a build without LLVM. */
KAEL_API kael_status kael_set_jit(kael_jit_mode mode);
/* Sets the mode of all threads without one of their own; at first the environment's KAEL_JIT (0, 1
 * or sync), else 1. Errors as above. */
KAEL_API kael_status kael_set_jit_default(kael_jit_mode mode);
/* The mode in force on the calling thread; never DEFAULT. */
KAEL_API kael_jit_mode kael_jit(void);
/* What kael_set_jit last set on the calling thread, to be set again later; DEFAULT at first. */
KAEL_API kael_jit_mode kael_jit_override(void);

/* Computes what the `n` tensors need, in one run. NULL entries are an error. A failure (out of
 * memory, compiler) leaves every value pending, and the call can be repeated. */
KAEL_API kael_status kael_eval(kael_tensor *const *tensors, int n);

#ifdef __cplusplus
}
#endif
#endif
