/* Where each value lies in memory, and in which order the groups run. */
#ifndef KL_PASSES_PLAN_H
#define KL_PASSES_PLAN_H

#include "ir/program.h"
#include "passes/fuse.h"

typedef struct kl_step {
  int32_t group;     /* -1: a copy of one slot to another */
  uint32_t from, to; /* slots of a copy */
} kl_step;

typedef struct kl_plan {
  uint32_t *slot_of; /* for each node; KL_NO_SLOT: it has no memory */
  KL_VEC(kl_step) steps;
} kl_plan;

/* Requires: the groups of kl_fuse (orderings are added to them). Ensures: slots in the program, one
 * for each value in memory. A writer works in place where nobody needs the old bytes later, else on
 * a copy; outputs with a home end there; temporaries whose lives do not meet share bytes. */
kl_status kl_plan_make(kl_fusion *fusion, kl_program *program, kl_plan *out_plan) KL_MUST_CHECK;
void kl_plan_finish(kl_plan *plan);

#endif
