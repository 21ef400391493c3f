/* How a group is run: loops, phases, vector axis, what is kept from one loop to the next. */
#ifndef KL_PASSES_SCHEDULE_H
#define KL_PASSES_SCHEDULE_H

#include "passes/fuse.h"
#include "passes/plan.h"

typedef struct kl_schedule {
  int n_rows;      /* row dims: dims [0, n_rows) of the group's space */
  int n_stages;    /* loops over the columns */
  bool sequential; /* columns in order: a scatter */
  bool split;      /* few long rows: their columns are shared among threads */
  uint8_t vector;  /* kl_vector_axis */
  /* By position in group->members: for each column loop (bit) whether the value is needed there,
   * and whether it passes from the first such loop to later ones through scratch. */
  uint64_t *needed;
  bool *scratch;
} kl_schedule;

/* Requires: the group's members have stages. Ensures: every value that a loop needs is computed in
 * it, a row value, stored by an earlier loop, or marked scratch. */
kl_status kl_schedule_make(const kl_fusion *fusion, const kl_plan *plan, int32_t group, int n_threads,
                           kl_schedule *out_schedule) KL_MUST_CHECK;
void kl_schedule_finish(kl_schedule *schedule);

#endif
