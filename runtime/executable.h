/* Executables: a program with its code, run on buffers.
 *
 * Everything that depends on sizes alone is worked out once, at creation; a run binds addresses,
 * scalars and offsets, obtains its memory, and only then launches.
 */
#ifndef KL_RUNTIME_EXECUTABLE_H
#define KL_RUNTIME_EXECUTABLE_H

#include "ir/launch.h"
#include "ir/program.h"
#include "runtime/buffer.h"

/* Code of all sections of one kernel; counted, shared between executables. */
typedef struct kl_kernel_code {
  atomic_int refs;
  kl_kernel kernel; /* owned; the sections' code borrows it */
  kl_code **sections;
  int tier; /* 0: block executor, 1: LLVM */
} kl_kernel_code;

void kl_kernel_code_release(kl_kernel_code *code); /* NULL is fine */

typedef struct kl_executable kl_executable;

typedef struct kl_bindings {
  kl_buffer *const *leaves;  /* by leaf number */
  kl_buffer **outputs;       /* out: by position in program->outputs, a reference each */
  const kl_scalar *scalars;  /* run scalar slots */
  const int64_t *offsets;    /* run offset slots */
  int64_t *launch_ns;        /* out: the time that each launch took; NULL: nobody asks */
} kl_bindings;

/* Takes over the program (left empty) and a reference to each code, codes[i] for kernel i; on
 * failure the caller keeps both. */
kl_status kl_executable_create(kl_program *program, kl_kernel_code *const *codes,
                               kl_executable **out_executable) KL_MUST_CHECK;
void kl_executable_destroy(kl_executable *executable);
const kl_program *kl_executable_program(const kl_executable *executable);
kl_kernel_code *const *kl_executable_codes(const kl_executable *executable);

/* On failure nothing has been launched, and the outputs are untouched. */
kl_status kl_executable_run(const kl_executable *executable, const kl_bindings *bindings) KL_MUST_CHECK;

#endif
