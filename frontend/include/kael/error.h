/* kael/error.h: how calls fail.
 *
 * A function that makes a tensor returns an owned handle, or NULL after it stored an error for the
 * calling thread. NULL given as an operand returns NULL and keeps the stored error, so that a chain
 * of calls needs one check at its end. Other fallible functions return a kael_status and store the
 * same error. The library never exits on bad input and prints nothing by itself.
 */
#ifndef KAEL_ERROR_H
#define KAEL_ERROR_H

#include "kael/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The enum only grows. */
typedef enum kael_status {
  KAEL_OK = 0,
  KAEL_ERR_RUNTIME,         /* arguments that do not go together: shapes, devices, gradient checks */
  KAEL_ERR_INDEX,           /* an index or a dim out of range */
  KAEL_ERR_TYPE,            /* a dtype that the operation does not take */
  KAEL_ERR_VALUE,           /* a single argument with an impossible value */
  KAEL_ERR_NOT_IMPLEMENTED, /* defined by the API, absent in this build */
  KAEL_ERR_OUT_OF_MEMORY,
  KAEL_ERR_COMPILER,        /* code generation failed or is not built in */
  KAEL_ERR_IO,
  KAEL_ERR_DEVICE,
  KAEL_ERR_INTERNAL         /* a bug of the library */
} kael_status;

typedef struct kael_error {
  kael_status code;    /* KAEL_OK when nothing is stored */
  const char *message; /* never NULL; names the operation, what clashed, and what to do */
} kael_error;

/* The thread's stored error; the message is valid until the thread's next error. A later failure
 * replaces an earlier one, but a NULL operand does not. */
KAEL_API kael_error kael_last_error(void);
/* Forgets it. */
KAEL_API void kael_clear_error(void);
/* "runtime error", ...: static; never NULL. */
KAEL_API const char *kael_status_name(kael_status status);

/* Receives the library's diagnostics. `level` 0 is a warning, 1 to 4 those of KAEL_DEBUG. May be
 * called from any thread, and in the middle of an evaluation: it must not evaluate tensors, which
 * then is KAEL_ERR_RUNTIME, nor run a backward pass. */
typedef void (*kael_log_callback)(int level, const char *message, void *user);
/* Sends diagnostics to `callback`; NULL brings back the default: stderr, and only when KAEL_DEBUG is
 * set in the environment. `user` is handed on and must outlive the callback. */
KAEL_API void kael_set_log_callback(kael_log_callback callback, void *user);

#ifdef __cplusplus
}
#endif
#endif
