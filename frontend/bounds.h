/* Checks that depend on data: done at the call in every mode. */
#ifndef KL_FRONTEND_BOUNDS_H
#define KL_FRONTEND_BOUNDS_H

#include "frontend/record.h"

/* The least and the largest element of an integer tensor that has elements: as known for its value
 * (then perhaps further apart), else found by evaluating them. `extent`: what is known is good
 * enough where it lies inside [0, extent). */
kl_status kl_index_bounds(kael_tensor *index, int64_t extent, int64_t *out_least,
                          int64_t *out_most) KL_MUST_CHECK;

#endif
