/* Runs a program as plainly as its contract allows: one thread, the units of each phase in uneven
 * pieces and in any order, all memory filled with rubbish before use. */
#ifndef TESTS_RANDOM_PROGRAM_RUNNER_H
#define TESTS_RANDOM_PROGRAM_RUNNER_H

#include "ir/launch.h"
#include "ir/program.h"

typedef kl_status runner_prepare_fn(const kl_kernel *kernel, uint32_t section, kl_code **out_code);

typedef struct runner_run {
  void **slots; /* address of each slot */
  unsigned char *memory;
  int64_t memory_nbytes;
} runner_run;

/* `leaves`: their addresses. `variant` decides pieces and order. On success out_run has the slots'
 * addresses, to be freed by runner_finish. */
kl_status runner_run_program(const kl_program *program, runner_prepare_fn *prepare,
                             void *const *leaves, const kl_scalar *scalars, const int64_t *offsets,
                             uint64_t variant, runner_run *out_run) KL_MUST_CHECK;
/* False when bytes next to the temporaries or the outputs were written. */
bool runner_guards_hold(const kl_program *program, const runner_run *run);
void runner_finish(runner_run *run);

#endif
