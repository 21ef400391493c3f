/* kael/reduce.h: reductions.
 *
 * The short forms fold all dims to a 0-d tensor. The forms with `n_dims` dims fold those (negative
 * ones count from the end; n_dims 0 means all), which `keepdim` leaves as dims of size 1. The order
 * of floating additions is defined by the logical shape alone (docs/numerics.md). Results are
 * owned, contiguous tensors; NULL after an error (KAEL_ERR_INDEX: a dim out of range;
 * KAEL_ERR_RUNTIME: a dim given twice, a dtype), or where self was NULL. Nothing materializes, but
 * in eager mode.
 */
#ifndef KAEL_REDUCE_H
#define KAEL_REDUCE_H

#include "kael/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sums; integers and bool are summed in int64. */
KAEL_API kael_tensor *kael_sum(kael_tensor *self);
KAEL_API kael_tensor *kael_sum_dims(kael_tensor *self, int n_dims, const int64_t *dims,
                                    bool keepdim);
/* Sum divided by the number of elements folded; of none: NaN. Floating dtypes only. */
KAEL_API kael_tensor *kael_mean(kael_tensor *self);
KAEL_API kael_tensor *kael_mean_dims(kael_tensor *self, int n_dims, const int64_t *dims,
                                     bool keepdim);
/* The largest element; NaN wins. Result: self's dtype. KAEL_ERR_INDEX for a dim of size 0,
 * KAEL_ERR_RUNTIME for a tensor without elements and no dims. Its
 * gradient is shared evenly among equal largest elements. */
KAEL_API kael_tensor *kael_amax(kael_tensor *self, int n_dims, const int64_t *dims, bool keepdim);
/* Where the largest element stands first, as int64: in the flattened tensor, or along `dim`. */
KAEL_API kael_tensor *kael_argmax(kael_tensor *self);
KAEL_API kael_tensor *kael_argmax_dim(kael_tensor *self, int64_t dim, bool keepdim);
/* Whether some element, or every element, is not zero. Result: bool, but uint8 for uint8. */
KAEL_API kael_tensor *kael_any(kael_tensor *self);
KAEL_API kael_tensor *kael_any_dims(kael_tensor *self, int n_dims, const int64_t *dims,
                                    bool keepdim);
KAEL_API kael_tensor *kael_all(kael_tensor *self);
KAEL_API kael_tensor *kael_all_dims(kael_tensor *self, int n_dims, const int64_t *dims,
                                    bool keepdim);
/* Products; integers and bool are multiplied in int64. Of none: 1. */
KAEL_API kael_tensor *kael_prod(kael_tensor *self);
KAEL_API kael_tensor *kael_prod_dim(kael_tensor *self, int64_t dim, bool keepdim);
/* The least element, as kael_amax. */
KAEL_API kael_tensor *kael_amin(kael_tensor *self, int n_dims, const int64_t *dims, bool keepdim);
/* Where the least element stands first, as kael_argmax. */
KAEL_API kael_tensor *kael_argmin(kael_tensor *self);
KAEL_API kael_tensor *kael_argmin_dim(kael_tensor *self, int64_t dim, bool keepdim);
/* The largest, the least of all elements; NaN wins. KAEL_ERR_INDEX where there is none. */
KAEL_API kael_tensor *kael_max(kael_tensor *self);
KAEL_API kael_tensor *kael_min(kael_tensor *self);
/* The largest (least) elements along `dim` and where they stand first, as int64. Both results are
 * owned. A value's gradient goes to that one place. */
KAEL_API kael_status kael_max_dim(kael_tensor *self, int64_t dim, bool keepdim,
                                  kael_tensor **out_values, kael_tensor **out_indices);
KAEL_API kael_status kael_min_dim(kael_tensor *self, int64_t dim, bool keepdim,
                                  kael_tensor **out_values, kael_tensor **out_indices);
/* The sum of squared distances from the mean over max(0, count - correction), and its square root.
 * Two passes over the data. Floating dtypes only (KAEL_ERR_RUNTIME). */
KAEL_API kael_tensor *kael_var(kael_tensor *self, int n_dims, const int64_t *dims,
                               double correction, bool keepdim);
KAEL_API kael_tensor *kael_std(kael_tensor *self, int n_dims, const int64_t *dims,
                               double correction, bool keepdim);
/* (sum of |x|^p)^(1/p); for p = inf and -inf the largest and the least |x|, for p = 0 the number of
 * elements that are not zero. Floating dtypes only (KAEL_ERR_RUNTIME). */
KAEL_API kael_tensor *kael_norm(kael_tensor *self, double p, int n_dims, const int64_t *dims,
                                bool keepdim);
/* log(sum(exp(x - max))) + max. Integers and bool become float32. */
KAEL_API kael_tensor *kael_logsumexp(kael_tensor *self, int n_dims, const int64_t *dims,
                                     bool keepdim);
/* How many elements are not zero, as int64. */
KAEL_API kael_tensor *kael_count_nonzero(kael_tensor *self, int n_dims, const int64_t *dims);

#ifdef __cplusplus
}
#endif
#endif
