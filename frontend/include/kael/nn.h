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
/* The `n` tensors, of one shape, one after the other along a new dim `dim`. */
KAEL_API kael_tensor *kael_stack(kael_tensor *const *tensors, int n, int64_t dim);
/* A copy with the elements of these dims in reverse order. */
KAEL_API kael_tensor *kael_flip(kael_tensor *self, int n_dims, const int64_t *dims);
/* A copy with the elements moved on by shifts[i] along dims[i], those at the end to the front; with
 * no dims (and one shift) along the flattened tensor. */
KAEL_API kael_tensor *kael_roll(kael_tensor *self, int n, const int64_t *shifts, int n_dims,
                                const int64_t *dims);
/* The elements with column - row <= diagonal (tril), or >= diagonal (triu), else zero, of the
 * matrices in the last two dims. */
KAEL_API kael_tensor *kael_tril(kael_tensor *self, int64_t diagonal);
KAEL_API kael_tensor *kael_triu(kael_tensor *self, int64_t diagonal);
/* matmul for two 3-d tensors of equal batch sizes; all products of two vectors' elements. */
KAEL_API kael_tensor *kael_bmm(kael_tensor *self, kael_tensor *other);
KAEL_API kael_tensor *kael_outer(kael_tensor *self, kael_tensor *other);
/* beta self + alpha (mat1 times mat2); self broadcasts, and is not read where beta is 0. */
KAEL_API kael_tensor *kael_addmm(kael_tensor *self, kael_tensor *mat1, kael_tensor *mat2,
                                 kael_scalar beta, kael_scalar alpha);
/* (input - target)^2, broadcast, and its mean or sum. */
KAEL_API kael_tensor *kael_mse_loss(kael_tensor *input, kael_tensor *target,
                                    kael_reduction reduction);
/* The rows of `weight` (n, d) at `index`: shape (index..., d). KAEL_ERR_INDEX outside [0, n). */
KAEL_API kael_tensor *kael_embedding(kael_tensor *weight, kael_tensor *index);
/* 1 where the class is the index (int64), else 0, as int64 along a new last dim of `n_classes`; -1:
 * the largest index and one. The index is computed at the call. */
KAEL_API kael_tensor *kael_one_hot(kael_tensor *self, int64_t n_classes);

/* Whether shapes and all elements are equal; a NaN equals nothing. Materializes. */
KAEL_API kael_status kael_equal(kael_tensor *self, kael_tensor *other, bool *out_equal);
/* Whether |self - other| <= atol + rtol |other| everywhere, broadcast; equal infinities are close,
 * and NaNs where `equal_nan`. Equal dtypes (KAEL_ERR_RUNTIME). Materializes. */
KAEL_API kael_status kael_allclose(kael_tensor *self, kael_tensor *other, double rtol, double atol,
                                   bool equal_nan, bool *out_close);

#ifdef __cplusplus
}
#endif
#endif
