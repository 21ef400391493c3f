/* The operators inside the library: as the public ones, tracked by autograd while gradient mode is
 * on, but they return a status, and their results belong to the caller whatever scopes are open.
 * No operand may be NULL where not said. Gradients are written with these. */
#ifndef KL_FRONTEND_OPS_H
#define KL_FRONTEND_OPS_H

#include "frontend/autograd_hooks.h"
#include "frontend/record.h"

/* UNARY:  kl_neg(self, &out)           kl_neg_(self)
 * BINARY: kl_add(self, other, &out)    kl_add_(self, other)
 *         kl_add_scalar(self, number, &out)    kl_add_scalar_(self, number) */
#define KL_FORM_UNARY(name)                                                                        \
  kl_status kl_##name(kael_tensor *self, kael_tensor **out) KL_MUST_CHECK;                         \
  kl_status kl_##name##_(kael_tensor *self) KL_MUST_CHECK;
#define KL_FORM_BINARY(name)                                                                       \
  kl_status kl_##name(kael_tensor *self, kael_tensor *other, kael_tensor **out) KL_MUST_CHECK;     \
  kl_status kl_##name##_(kael_tensor *self, kael_tensor *other) KL_MUST_CHECK;                     \
  kl_status kl_##name##_scalar(kael_tensor *self, kael_scalar other, kael_tensor **out)            \
      KL_MUST_CHECK;                                                                               \
  kl_status kl_##name##_scalar_(kael_tensor *self, kael_scalar other) KL_MUST_CHECK;
#define KL_FORM_OTHER(name)
#define KL_FORM_VIEW(name)
#define KL_FN(NAME, name, form, op, rule, args, inplace, grad, doc) KL_FORM_##form(name)
#include "frontend/ops.def"
#undef KL_FN
#undef KL_FORM_UNARY
#undef KL_FORM_BINARY
#undef KL_FORM_OTHER
#undef KL_FORM_VIEW

/* number - self and number / self; not public operators, tracked as sub and div of a filled tensor.
 */
kl_status kl_rsub_scalar(kael_tensor *self, kael_scalar number, kael_tensor **out) KL_MUST_CHECK;
kl_status kl_rdiv_scalar(kael_tensor *self, kael_scalar number, kael_tensor **out) KL_MUST_CHECK;

kl_status kl_pow(kael_tensor *self, kael_scalar exponent, kael_tensor **out) KL_MUST_CHECK;
kl_status kl_pow_(kael_tensor *self, kael_scalar exponent) KL_MUST_CHECK;
kl_status kl_where(kael_tensor *condition, kael_tensor *self, kael_tensor *other,
                   kael_tensor **out) KL_MUST_CHECK;
kl_status kl_masked_fill(kael_tensor *self, kael_tensor *mask, kael_scalar value,
                         kael_tensor **out) KL_MUST_CHECK;
kl_status kl_masked_fill_(kael_tensor *self, kael_tensor *mask, kael_scalar value) KL_MUST_CHECK;
kl_status kl_to_dtype(kael_tensor *self, kl_dtype dtype, kael_tensor **out) KL_MUST_CHECK;
kl_status kl_clone(kael_tensor *self, kael_tensor **out) KL_MUST_CHECK;
kl_status kl_contiguous(kael_tensor *self, kael_tensor **out) KL_MUST_CHECK;
kl_status kl_copy_(kael_tensor *self, kael_tensor *src) KL_MUST_CHECK;
kl_status kl_fill_(kael_tensor *self, kael_scalar value) KL_MUST_CHECK;
kl_status kl_zero_(kael_tensor *self) KL_MUST_CHECK;

kl_status kl_remainder(kael_tensor *self, kael_tensor *other, kael_tensor **out) KL_MUST_CHECK;
kl_status kl_fmod(kael_tensor *self, kael_tensor *other, kael_tensor **out) KL_MUST_CHECK;
kl_status kl_floor_divide(kael_tensor *self, kael_tensor *other, kael_tensor **out) KL_MUST_CHECK;
kl_status kl_bitwise_left_shift(kael_tensor *self, kael_tensor *other,
                                kael_tensor **out) KL_MUST_CHECK;
kl_status kl_bitwise_right_shift(kael_tensor *self, kael_tensor *other,
                                 kael_tensor **out) KL_MUST_CHECK;

/* New tensors without history. `like`: its shape and dtype, contiguous. */
kl_status kl_full(kl_dtype dtype, int ndim, const int64_t *shape, kael_scalar value,
                  kael_tensor **out) KL_MUST_CHECK;
kl_status kl_full_like(const kael_tensor *like, kael_scalar value, kael_tensor **out) KL_MUST_CHECK;

/* Reductions over the axes of a mask (bit d: dim d); kl_axes_check makes masks. */
kl_status kl_sum(kael_tensor *self, uint32_t mask, bool keepdim, kael_tensor **out) KL_MUST_CHECK;
kl_status kl_mean(kael_tensor *self, uint32_t mask, bool keepdim, kael_tensor **out) KL_MUST_CHECK;
kl_status kl_amax(kael_tensor *self, uint32_t mask, bool keepdim, kael_tensor **out) KL_MUST_CHECK;
kl_status kl_argmax(kael_tensor *self, uint32_t mask, bool keepdim,
                    kael_tensor **out) KL_MUST_CHECK;
kl_status kl_any(kael_tensor *self, uint32_t mask, bool keepdim, kael_tensor **out) KL_MUST_CHECK;
kl_status kl_all(kael_tensor *self, uint32_t mask, bool keepdim, kael_tensor **out) KL_MUST_CHECK;
/* The axes folded stay as dims of size 1. */
kl_status kl_prod(kael_tensor *self, uint32_t mask, kael_tensor **out) KL_MUST_CHECK;
/* Sums a gradient down to a shape that was broadcast to self's; itself where equal. */
kl_status kl_sum_to_shape(kael_tensor *self, int ndim, const int64_t *shape,
                          kael_tensor **out) KL_MUST_CHECK;

kl_status kl_softmax(kael_tensor *self, int64_t dim, kael_tensor **out) KL_MUST_CHECK;
kl_status kl_log_softmax(kael_tensor *self, int64_t dim, kael_tensor **out) KL_MUST_CHECK;
kl_status kl_matmul(kael_tensor *self, kael_tensor *other, kael_tensor **out) KL_MUST_CHECK;
kl_status kl_linear(kael_tensor *input, kael_tensor *weight, kael_tensor *bias_or_null,
                    kael_tensor **out) KL_MUST_CHECK;
kl_status kl_cat(kael_tensor *const *tensors, int n, int64_t dim, kael_tensor **out) KL_MUST_CHECK;
/* Reverses the dims of the mask; the lower or upper triangle of the last two dims. */
kl_status kl_flip(kael_tensor *self, uint32_t mask, kael_tensor **out) KL_MUST_CHECK;
kl_status kl_triangle(kael_tensor *self, bool upper, int64_t diagonal,
                      kael_tensor **out) KL_MUST_CHECK;
kl_status kl_index_select(kael_tensor *self, int64_t dim, kael_tensor *index,
                          kael_tensor **out) KL_MUST_CHECK;
kl_status kl_gather(kael_tensor *self, int64_t dim, kael_tensor *index,
                    kael_tensor **out) KL_MUST_CHECK;
/* self plus src's elements at index along dim; an index expanded over the other dims makes it the
 * index_add that undoes index_select. */
kl_status kl_scatter_add(kael_tensor *self, int64_t dim, kael_tensor *index, kael_tensor *src,
                         kael_tensor **out) KL_MUST_CHECK;
kl_status kl_nll_loss(kael_tensor *input, kael_tensor *target, int reduction,
                      kael_tensor **out) KL_MUST_CHECK;
kl_status kl_cross_entropy(kael_tensor *input, kael_tensor *target, int reduction,
                           kael_tensor **out) KL_MUST_CHECK;

/* Views. */
kl_status kl_view(kael_tensor *self, int ndim, const int64_t *shape,
                  kael_tensor **out) KL_MUST_CHECK;
kl_status kl_reshape(kael_tensor *self, int ndim, const int64_t *shape,
                     kael_tensor **out) KL_MUST_CHECK;
kl_status kl_transpose(kael_tensor *self, int64_t dim0, int64_t dim1,
                       kael_tensor **out) KL_MUST_CHECK;
kl_status kl_permute(kael_tensor *self, int ndim, const int64_t *dims,
                     kael_tensor **out) KL_MUST_CHECK;
kl_status kl_slice(kael_tensor *self, int64_t dim, int64_t start, int64_t end, int64_t step,
                   kael_tensor **out) KL_MUST_CHECK;
kl_status kl_select(kael_tensor *self, int64_t dim, int64_t index, kael_tensor **out) KL_MUST_CHECK;
kl_status kl_narrow(kael_tensor *self, int64_t dim, int64_t start, int64_t length,
                    kael_tensor **out) KL_MUST_CHECK;
kl_status kl_expand(kael_tensor *self, int ndim, const int64_t *shape,
                    kael_tensor **out) KL_MUST_CHECK;
kl_status kl_squeeze(kael_tensor *self, kael_tensor **out) KL_MUST_CHECK;
kl_status kl_squeeze_dim(kael_tensor *self, int64_t dim, kael_tensor **out) KL_MUST_CHECK;
kl_status kl_unsqueeze(kael_tensor *self, int64_t dim, kael_tensor **out) KL_MUST_CHECK;
kl_status kl_as_strided(kael_tensor *self, int ndim, const int64_t *shape, const int64_t *strides,
                        int64_t offset, kael_tensor **out) KL_MUST_CHECK;
kl_status kl_diagonal(kael_tensor *self, int64_t offset, int64_t dim1, int64_t dim2,
                      kael_tensor **out) KL_MUST_CHECK;
kl_status kl_detach(kael_tensor *self, kael_tensor **out) KL_MUST_CHECK;

/* A public function's result: registered with the open scope, NULL after a failure. */
kael_tensor *kl_hand_out(kl_status status, kael_tensor *tensor);
/* True when an operand of a public function is NULL, or KAEL_NONE where none may be; then an error
 * is stored (an earlier one is kept). */
bool kl_operand_missing(const kael_tensor *const *operands, int n_operands);
#define KL_MISSING(...)                                                                            \
  kl_operand_missing(                                                                              \
      (const kael_tensor *const[]){__VA_ARGS__},                                                   \
      (int)(sizeof((const kael_tensor *const[]){__VA_ARGS__}) / sizeof(const kael_tensor *)))

#endif
