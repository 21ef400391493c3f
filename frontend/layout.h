/* Iteration spaces: in which order of dims an op walks its operands, and with how few dims. */
#ifndef KL_FRONTEND_LAYOUT_H
#define KL_FRONTEND_LAYOUT_H

#include "frontend/tensor.h"

enum { KL_MAX_WALKED = 4 }; /* operands, and what is written */

/* Dims, slowest first, and for each thing walked its strides. */
typedef struct kl_walk {
  int n_dims, n_walked;
  int64_t dims[KL_MAX_RANK];
  int64_t strides[KL_MAX_WALKED][KL_MAX_RANK];
} kl_walk;

/* The strides of `tensor` read as if it had the broadcast shape: 0 along repeated dims. */
void kl_layout_broadcast(const kael_tensor *tensor, int ndim, const int64_t *shape,
                         int64_t *out_strides);
/* Orders the dims of `walk` by PyTorch's rule for the results of elementwise operations (a later
 * dim goes faster; what several operands' strides say, the first one decides) and returns in
 * `order` the logical dim at each place, slowest first. */
void kl_layout_order(const kl_walk *walk, int *order);
/* Orders the dims of `walk` by the strides of the thing walked first, largest first. */
void kl_layout_order_by_first(const kl_walk *walk, int *order);
/* Strides of a dense tensor whose memory goes by `order`. */
void kl_layout_dense_strides(const kl_walk *walk, const int *order, int64_t *out_strides);
/* Rearranges the dims, leaves out those of size 1, and merges neighbours [first, n) that all things
 * walked pass without a jump. `order` NULL: as they stand. */
void kl_layout_compact(kl_walk *walk, const int *order);
/* Appends the dims of `tail` (of the same things) to `walk`. */
void kl_layout_append(kl_walk *walk, const kl_walk *tail);

#endif
