/* From groups to kernels and launches. */
#ifndef KL_PASSES_LOWER_H
#define KL_PASSES_LOWER_H

#include "passes/plan.h"
#include "passes/schedule.h"

/* Appends to the program the launch of one group (and its kernel, but for a matrix product). */
kl_status kl_lower_group(const kl_fusion *fusion, const kl_plan *plan, const kl_schedule *schedule,
                         int32_t group, kl_program *program) KL_MUST_CHECK;
/* Appends a launch that copies one slot to another. */
kl_status kl_lower_copy(uint32_t from, uint32_t to, kl_program *program) KL_MUST_CHECK;

#endif
