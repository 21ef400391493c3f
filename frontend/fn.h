/* Facts about the public operators, from frontend/ops.def. */
#ifndef KL_FRONTEND_FN_H
#define KL_FRONTEND_FN_H

#include "frontend/tensor.h"

typedef enum kl_fn {
#define KL_FN(NAME, name, form, op, rule, args, inplace, grad, doc) KL_FN_##NAME,
#include "frontend/ops.def"
#undef KL_FN
  KL_FN_COUNT
} kl_fn;

typedef struct kl_fn_info {
  const char *name, *args, *grad, *doc;
  bool inplace;
} kl_fn_info;
extern const kl_fn_info kl_fn_table[KL_FN_COUNT];

/* The arguments of one call that are not tensors; a call sets what its operator has.
 *   dim       softmax, log_softmax, cat, index_select, gather, scatter_add, select, slice,
 * unsqueeze, squeeze (-1: all dims), unbind, split: wrapped, not negative; transpose: dim0 dim1
 * transpose, diagonal (with dim = its dim1, dim1 = its dim2) start, end, step   slice, narrow (as
 * slice), select (start), diagonal (start = offset), as_strided (start = offset) mask, keepdim
 * reductions: the axes as bits ndim, dims         view, expand, permute, as_strided (dims the
 * shape, strides too); split: sizes number    scalar forms of binary operators, pow, masked_fill,
 * fill reduction kael_reduction: nll_loss, cross_entropy `other_is_number`: a binary operator got
 * `number` instead of its second tensor. */
typedef struct kl_fn_attrs {
  int dim, dim1;
  int64_t start, end, step;
  uint32_t mask;
  bool keepdim;
  bool other_is_number;
  int reduction;
  kael_scalar number, number2; /* clamp: min and max, there where bits 0 and 1 of mask are set */
  int ndim;
  int64_t dims[KL_MAX_RANK];
  int64_t strides[KL_MAX_RANK];
} kl_fn_attrs;

#endif
