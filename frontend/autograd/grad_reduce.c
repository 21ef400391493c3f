/* Gradients of reductions and of what is composed of them. */
#include "frontend/autograd/grad.h"

#define GRADIENT(name) kl_status kl_backward_##name(kl_grad_call *c)

typedef kael_tensor T;

/* With the folded dims put back as dims of size 1. */
static T *with_folded_dims(kl_grad_call *c, T *a) {
  const kl_autograd_spec *in = kl_expr_spec(c, 0);
  if (!a || a->ndim == in->ndim) return a;
  int64_t shape[KL_MAX_RANK];
  for (int d = 0; d < in->ndim; d++) shape[d] = c->node->args.mask >> d & 1 ? 1 : in->shape[d];
  return kl_expr_reshape(c, a, in->ndim, shape);
}

static T *spread(kl_grad_call *c, T *grad) {
  const kl_autograd_spec *in = kl_expr_spec(c, 0);
  return kl_expr_expand(c, with_folded_dims(c, grad), in->ndim, in->shape);
}

GRADIENT(sum) {
  kl_expr_give(c, 0, spread(c, kl_expr_grad(c)));
  return c->status;
}

GRADIENT(mean) {
  const kl_autograd_spec *in = kl_expr_spec(c, 0);
  int64_t count = 1;
  for (int d = 0; d < in->ndim; d++)
    if (c->node->args.mask >> d & 1) count *= in->shape[d];
  kl_expr_give(c, 0, spread(c, kl_expr_div_number(c, kl_expr_grad(c), kael_i(count))));
  return c->status;
}

/* Elements that are the largest share evenly. */
GRADIENT(amax) {
  T *largest = with_folded_dims(c, kl_expr_saved(c, KL_SAVED_RESULT));
  T *grad = with_folded_dims(c, kl_expr_grad(c));
  T *mask = kl_expr_eq(c, kl_expr_saved(c, 0), largest);
  if (!mask) return c->status;
  T *ones = kl_expr_cast(c, mask, (kl_dtype)grad->dtype);
  T *count = kl_expr_sum(c, ones, c->node->args.mask, true);
  kl_expr_give(c, 0, kl_expr_mul(c, ones, kl_expr_div(c, grad, count)));
  return c->status;
}

/* A 0-d tensor is treated as one of one element. */
static uint32_t axis_of(const kl_grad_call *c) {
  return kl_expr_grad(c)->ndim ? 1u << c->node->args.dim : 0;
}

static T *sum_axis(kl_grad_call *c, T *a) {
  return axis_of(c) ? kl_expr_sum(c, a, axis_of(c), true) : a;
}

GRADIENT(softmax) {
  T *grad = kl_expr_grad(c), *y = kl_expr_saved(c, KL_SAVED_RESULT);
  T *sum = sum_axis(c, kl_expr_mul(c, grad, y));
  kl_expr_give(c, 0, kl_expr_mul(c, kl_expr_sub(c, grad, sum), y));
  return c->status;
}

GRADIENT(log_softmax) {
  T *grad = kl_expr_grad(c), *sum = sum_axis(c, grad);
  T *y = kl_expr_exp(c, kl_expr_saved(c, KL_SAVED_RESULT));
  kl_expr_give(c, 0, kl_expr_sub(c, grad, kl_expr_mul(c, y, sum)));
  return c->status;
}
