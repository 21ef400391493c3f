/* Freeing programs. */
#include "ir/program.h"

void kl_launch_finish(kl_launch *launch) {
  kl_vec_finish(&launch->slots);
  kl_vec_finish(&launch->ints);
  kl_vec_finish(&launch->scalars);
  kl_vec_finish(&launch->patches);
  kl_vec_finish(&launch->nodes);
}

void kl_program_finish(kl_program *program) {
  for (uint32_t i = 0; i < program->kernels.count; i++) kl_kernel_finish(&program->kernels.data[i]);
  for (uint32_t i = 0; i < program->launches.count; i++)
    kl_launch_finish(&program->launches.data[i]);
  kl_vec_finish(&program->kernels);
  kl_vec_finish(&program->launches);
  kl_vec_finish(&program->slots);
  kl_vec_finish(&program->outputs);
  program->temp_nbytes = 0;
}
