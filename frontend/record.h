/* Raw recording: primitives of ir/op.def become values, and values tensors.
 *
 * Raw means: nothing is tracked by autograd, no version is bumped but by kl_record_write*, dtypes
 * are not promoted: the caller casts. Everything above composes these. In eager mode what was
 * recorded has also run on return. Out tensors are owned and own their storage alone, except where
 * a function says that it may return its operand once more.
 */
#ifndef KL_FRONTEND_RECORD_H
#define KL_FRONTEND_RECORD_H

#include "frontend/context.h"
#include "frontend/tensor.h"

/* An operand: a tensor, or (tensor NULL) a scalar in the operand's dtype. */
typedef struct kl_arg {
  kael_tensor *tensor;
  kl_scalar scalar;
} kl_arg;

static inline kl_arg kl_arg_tensor(kael_tensor *tensor) { return (kl_arg){.tensor = tensor}; }
static inline kl_arg kl_arg_scalar(kl_scalar scalar) { return (kl_arg){.scalar = scalar}; }
/* A number in the given dtype, converted as by a cast. */
kl_scalar kl_scalar_from(kael_scalar number, kl_dtype dtype);
kl_scalar kl_scalar_from_double(double number, kl_dtype dtype);
kl_scalar kl_scalar_from_int(int64_t number, kl_dtype dtype);

typedef enum kl_layout {
  KL_LAYOUT_KEEP,      /* PyTorch's rule: a dense permuted layout of the operands is kept */
  KL_LAYOUT_CONTIGUOUS /* row-major */
} kl_layout;

/* An elementwise op over the broadcast shape. `dtype` is the result's. */
kl_status kl_record_elem(kl_op op, kl_dtype dtype, const kl_arg *args, int n_args, kl_layout layout,
                         kael_tensor **out) KL_MUST_CHECK;
static inline kl_status kl_record_unary(kl_op op, kael_tensor *a, kael_tensor **out) {
  kl_arg args[1] = {{.tensor = a}};
  return kl_record_elem(op, (kl_dtype)a->dtype, args, 1, KL_LAYOUT_KEEP, out);
}
/* Operands of one dtype; the result has it too (BOOL for comparisons). */
kl_status kl_record_binary(kl_op op, kael_tensor *a, kael_tensor *b,
                           kael_tensor **out) KL_MUST_CHECK;
kl_status kl_record_binary_scalar(kl_op op, kael_tensor *a, kl_scalar b,
                                  kael_tensor **out) KL_MUST_CHECK;
/* Another dtype; the tensor itself, retained, where it has it already. */
kl_status kl_record_cast(kael_tensor *a, kl_dtype dtype, kael_tensor **out) KL_MUST_CHECK;
/* The same elements in a storage of their own. */
kl_status kl_record_copy(kael_tensor *a, kl_layout layout, kael_tensor **out) KL_MUST_CHECK;
/* Every element the same. */
kl_status kl_record_fill(kl_dtype dtype, int ndim, const int64_t *shape, kl_scalar number,
                         kael_tensor **out) KL_MUST_CHECK;
/* 0, 1, ..., n - 1 as i64. */
kl_status kl_record_index(int64_t n, kael_tensor **out) KL_MUST_CHECK;

/* Folds the axes of `mask`; the result has the kept dims (with keepdim: and 1 for the folded ones),
 * contiguous. `dtype` is the result's. An empty fold gives the op's first value; of max, min and
 * the arg ones it is the caller's error. */
kl_status kl_record_reduce(kl_op op, kl_dtype dtype, kael_tensor *a, uint32_t mask, bool keepdim,
                           kael_tensor **out) KL_MUST_CHECK;
/* (batch..., m, k) times (batch..., k, n): equal batch shapes (expanded views are fine). */
kl_status kl_record_matmul(kael_tensor *a, kael_tensor *b, kael_tensor **out) KL_MUST_CHECK;
/* out[i..., j, k...] = a[i..., index[i..., j, k...], k...]; `a` agrees with the index in all dims
 * but `dim` (or is larger); index is i64 and checked before. */
kl_status kl_record_gather(kael_tensor *a, int dim, kael_tensor *index,
                           kael_tensor **out) KL_MUST_CHECK;

/* In place: the op's result, cast to self's dtype, is written through self's view; operands are
 * read as they were before. Operands broadcast to self's shape. The checks that need no autograd
 * are the caller's (kl_check_inplace). Bumps the version once. */
kl_status kl_record_write(kael_tensor *self, kl_op op, kl_dtype dtype, const kl_arg *args,
                          int n_args) KL_MUST_CHECK;
/* self[..., index[..., j, ...], ...] = or += src[..., j, ...] along `dim`; bumps the version once.
 */
kl_status kl_record_scatter(kl_op op, kael_tensor *self, int dim, kael_tensor *index,
                            kael_tensor *src) KL_MUST_CHECK;

/* The broadcast shape; error text as PyTorch's. */
kl_status kl_broadcast_shapes(int n, kael_tensor *const *tensors, int *out_ndim,
                              int64_t *out_shape) KL_MUST_CHECK;

/* Guards of in-place operations: memory may be written, and no two positions are one element. */
kl_status kl_check_inplace(const kael_tensor *self, const char *op) KL_MUST_CHECK;

#endif
