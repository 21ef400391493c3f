/* The language that gradients are written in.
 *
 * kl_expr_* are the operators of ops.h on a call's tensors: a result lives until the gradient
 * function returns, and a NULL operand gives NULL, so that only the end of an expression is looked
 * at (kl_expr_give). The first failure stays in `status`. All are tracked while gradient mode is
 * on, which makes gradients differentiable.
 */
#ifndef KL_FRONTEND_AUTOGRAD_GRAD_H
#define KL_FRONTEND_AUTOGRAD_GRAD_H

#include "frontend/autograd/node.h"
#include "frontend/ops.h"

enum { KL_GRAD_TEMPS = 24 };

typedef struct kl_grad_call {
  kl_autograd_node *node;
  kael_tensor *const *grads; /* one for each output of the node; not all NULL */
  kael_tensor **out;         /* one for each edge, owned; NULL: no gradient */
  const bool *wanted;        /* for each edge */
  kl_status status;
  kael_tensor *first_temps[KL_GRAD_TEMPS];
  kael_tensor **temps;
  uint32_t n_temps, temps_capacity;
} kl_grad_call;

/* Applies `node`: fills out[i] for the wanted edges. */
kl_status kl_grad_apply(kl_autograd_node *node, kael_tensor *const *grads, const bool *wanted,
                        kael_tensor **out) KL_MUST_CHECK;

/* Takes over a new tensor; NULL where the status is bad. */
kael_tensor *kl_expr_own(kl_grad_call *call, kl_status status, kael_tensor *tensor);
/* `tensor` is the gradient of input i, to be fitted by the engine to its shape and dtype. */
void kl_expr_give(kl_grad_call *call, uint32_t i, kael_tensor *tensor);
static inline bool kl_expr_wants(const kl_grad_call *call, uint32_t i) {
  return i < call->node->n_edges && call->wanted[i];
}
static inline kael_tensor *kl_expr_grad(const kl_grad_call *call) { return call->grads[0]; }
/* Of a wanted input. */
static inline const kl_autograd_spec *kl_expr_spec(const kl_grad_call *call, uint32_t i) {
  return kl_edge_spec(&call->node->edges[i]);
}
kael_tensor *kl_expr_saved(kl_grad_call *call, int source);

#define KL_EXPR_UNARY(X)                                                                           \
  X(neg) X(exp) X(square) X(logical_not) X(clone) X(sin) X(cos) X(erf) X(tanh) X(sigmoid)          \
  X(reciprocal) X(floor) X(trunc) X(abs) X(sqrt)
#define X(name) kael_tensor *kl_expr_##name(kl_grad_call *call, kael_tensor *a);
KL_EXPR_UNARY(X)
#undef X
#define KL_EXPR_BINARY(X)                                                                          \
  X(add) X(sub) X(mul) X(div) X(eq) X(ne) X(lt) X(le) X(gt) X(ge) X(matmul) X(logical_and)         \
  X(logical_or)
#define X(name) kael_tensor *kl_expr_##name(kl_grad_call *call, kael_tensor *a, kael_tensor *b);
KL_EXPR_BINARY(X)
#undef X
#define KL_EXPR_NUMBER(X) X(add) X(mul) X(div) X(eq) X(lt) X(le) X(gt) X(ge)
#define X(name)                                                                                    \
  kael_tensor *kl_expr_##name##_number(kl_grad_call *call, kael_tensor *a, kael_scalar b);
KL_EXPR_NUMBER(X)
#undef X
kael_tensor *kl_expr_number_sub(kl_grad_call *call, double number, kael_tensor *a);
kael_tensor *kl_expr_pow(kl_grad_call *call, kael_tensor *a, kael_scalar exponent);
kael_tensor *kl_expr_sign(kl_grad_call *call,
                          kael_tensor *a); /* constant: its derivative is zero */
kael_tensor *kl_expr_where(kl_grad_call *call, kael_tensor *mask, kael_tensor *a, kael_tensor *b);
kael_tensor *kl_expr_masked_fill(kl_grad_call *call, kael_tensor *a, kael_tensor *mask,
                                 double number);
kael_tensor *kl_expr_cast(kl_grad_call *call, kael_tensor *a, kl_dtype dtype);
kael_tensor *kl_expr_sum(kl_grad_call *call, kael_tensor *a, uint32_t mask, bool keepdim);
kael_tensor *kl_expr_zeros(kl_grad_call *call, int ndim, const int64_t *shape, kl_dtype dtype);
kael_tensor *kl_expr_zeros_like(kl_grad_call *call, const kael_tensor *a);
kael_tensor *kl_expr_reshape(kl_grad_call *call, kael_tensor *a, int ndim, const int64_t *shape);
kael_tensor *kl_expr_expand(kl_grad_call *call, kael_tensor *a, int ndim, const int64_t *shape);
kael_tensor *kl_expr_transpose(kl_grad_call *call, kael_tensor *a, int dim0, int dim1);
kael_tensor *kl_expr_permute(kl_grad_call *call, kael_tensor *a, const int64_t *dims);
kael_tensor *kl_expr_unsqueeze(kl_grad_call *call, kael_tensor *a, int dim);
kael_tensor *kl_expr_narrow(kl_grad_call *call, kael_tensor *a, int dim, int64_t start,
                            int64_t length);
kael_tensor *kl_expr_cat(kl_grad_call *call, kael_tensor *const *tensors, int n, int dim);
kael_tensor *kl_expr_gather(kl_grad_call *call, kael_tensor *a, int dim, kael_tensor *index);
kael_tensor *kl_expr_scatter_add(kl_grad_call *call, kael_tensor *a, int dim, kael_tensor *index,
                                 kael_tensor *src);
kael_tensor *kl_expr_as_strided(kl_grad_call *call, kael_tensor *a, int ndim, const int64_t *shape,
                                const int64_t *strides, int64_t offset);
/* Writes src into `a` in place; false after a failure. */
bool kl_expr_copy_into(kl_grad_call *call, kael_tensor *a, kael_tensor *src);

/* The gradients, by the name in the last but one column of ops.def. */
#define KL_GRADIENT(name, text, save0, save1, save2, result)                                       \
  kl_status kl_backward_##name(kl_grad_call *call) KL_MUST_CHECK;
#include "frontend/autograd/gradients.def"
#undef KL_GRADIENT
kl_status kl_backward_copy_slices(kl_grad_call *call) KL_MUST_CHECK;

#endif
