/* kael/nn.h: matrix products, indexing, and what neural networks are made of.
 *
 * Results are owned, contiguous new tensors; NULL after an error, or where an operand was NULL. An
 * index out of range is an error of the call in every mode: where its bounds are not known, the
 * index (nothing else) is computed there.
 */
#ifndef KAEL_NN_H
#define KAEL_NN_H

#include "kael/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Matrix product as in PyTorch: vectors, matrices, and batches of matrices, whose batch dims
 * broadcast. Equal dtypes, not bool. The order of additions is defined (docs/numerics.md).
 * KAEL_ERR_RUNTIME for shapes or dtypes that do not fit. */
KAEL_API kael_tensor *kael_matmul(kael_tensor *self, kael_tensor *other);
/* input (..., in) times weight (out, in) transposed, plus bias (out), which may be KAEL_NONE. */
KAEL_API kael_tensor *kael_linear(kael_tensor *input, kael_tensor *weight, kael_tensor *bias);

/* exp(x - max) / sum of it along `dim`, and its logarithm x - max - log(sum(exp(x - max))).
 * Floating dtypes only. */
KAEL_API kael_tensor *kael_softmax(kael_tensor *self, int64_t dim);
KAEL_API kael_tensor *kael_log_softmax(kael_tensor *self, int64_t dim);

/* The `n` tensors one after the other along `dim`; the other sizes must agree, dtypes promote.
 * Tensors of shape (0) are left out. */
KAEL_API kael_tensor *kael_cat(kael_tensor *const *tensors, int n, int64_t dim);
/* self's slices along `dim` in the order of `index` (0-d or 1-d, int64 or int32). KAEL_ERR_INDEX
 * for an index outside [0, size). */
KAEL_API kael_tensor *kael_index_select(kael_tensor *self, int64_t dim, kael_tensor *index);
/* out[i][j][k] = self[i][index[i][j][k]][k] (for dim 1): the index, of int64, has self's rank, and
 * in the other dims at most self's sizes. KAEL_ERR_INDEX for an index outside [0, size). */
KAEL_API kael_tensor *kael_gather(kael_tensor *self, int64_t dim, kael_tensor *index);
/* self with src[i][j][k] added at [i][index[i][j][k]][k], sources in ascending order. */
KAEL_API kael_tensor *kael_scatter_add(kael_tensor *self, int64_t dim, kael_tensor *index,
                                       kael_tensor *src);
KAEL_API kael_status kael_scatter_add_(kael_tensor *self, int64_t dim, kael_tensor *index,
                                       kael_tensor *src);

typedef enum kael_reduction {
  KAEL_REDUCTION_NONE = 0,
  KAEL_REDUCTION_MEAN = 1,
  KAEL_REDUCTION_SUM = 2
} kael_reduction;

/* -input[i][target[i]] for input (n, classes) and target (n) of int64, or for (classes) and a 0-d
 * target. KAEL_ERR_INDEX for a target outside [0, classes); there is no ignored class. */
KAEL_API kael_tensor *kael_nll_loss(kael_tensor *input, kael_tensor *target,
                                    kael_reduction reduction);
/* nll_loss of log_softmax over the classes. */
KAEL_API kael_tensor *kael_cross_entropy(kael_tensor *input, kael_tensor *target,
                                         kael_reduction reduction);

#ifdef __cplusplus
}
#endif
#endif
