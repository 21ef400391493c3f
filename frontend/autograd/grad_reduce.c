/* Gradients of reductions and of what is composed of them. */
#include <math.h>

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

/* P is the product of what is not zero, k the number of zeros: an element that is not zero gets
 * P / x where k = 0, a zero gets P where it is the only one. */
GRADIENT(prod) {
  T *x = kl_expr_saved(c, 0), *is_zero = kl_expr_eq_number(c, x, kael_i(0));
  if (!is_zero) return c->status;
  const uint32_t mask = c->node->args.mask;
  const kl_dtype dtype = (kl_dtype)x->dtype;
  T *safe = kl_expr_masked_fill(c, x, is_zero, 1), *product = NULL;
  kl_status status = safe ? kl_prod(safe, mask, &product) : c->status;
  T *count = kl_expr_sum(c, kl_expr_cast(c, is_zero, dtype), mask, true);
  T *none = kl_expr_cast(c, kl_expr_eq_number(c, count, kael_i(0)), dtype);
  T *one = kl_expr_cast(c, kl_expr_eq_number(c, count, kael_i(1)), dtype);
  T *others = kl_expr_div(c, kl_expr_own(c, status, product), safe);
  T *share = kl_expr_mul(c, others, kl_expr_where(c, is_zero, one, none));
  kl_expr_give(c, 0, kl_expr_mul(c, with_folded_dims(c, kl_expr_grad(c)), share));
  return c->status;
}

/* 2 (x - mean) / (count - correction) */
static T *slope_of_var(kl_grad_call *c) {
  const kl_autograd_spec *in = kl_expr_spec(c, 0);
  T *x = kl_expr_saved(c, 0);
  double count = 1;
  for (int d = 0; d < in->ndim; d++)
    if (c->node->args.mask >> d & 1) count *= (double)in->shape[d];
  T *mean = kl_expr_div_number(c, kl_expr_sum(c, x, c->node->args.mask, true), kael_f(count));
  const double rest = count - c->node->args.number.as.f;
  return kl_expr_mul_number(c, kl_expr_sub(c, x, mean), kael_f(2 / (rest > 0 ? rest : 0)));
}

GRADIENT(var) {
  kl_expr_give(c, 0, kl_expr_mul(c, with_folded_dims(c, kl_expr_grad(c)), slope_of_var(c)));
  return c->status;
}

/* var's, over twice the result; nothing where that is 0. */
GRADIENT(std) {
  T *y = with_folded_dims(c, kl_expr_saved(c, KL_SAVED_RESULT));
  T *grad = with_folded_dims(c, kl_expr_grad(c));
  T *share = kl_expr_div(c, grad, kl_expr_mul_number(c, y, kael_i(2)));
  share = kl_expr_masked_fill(c, share, kl_expr_eq_number(c, y, kael_i(0)), 0);
  kl_expr_give(c, 0, kl_expr_mul(c, share, slope_of_var(c)));
  return c->status;
}

/* sign(x) |x|^(p-1) / norm^(p-1), and 0 where the norm is; for p = inf evenly among the largest. */
GRADIENT(norm) {
  const double p = c->node->args.number.as.f;
  T *x = kl_expr_saved(c, 0), *grad = with_folded_dims(c, kl_expr_grad(c));
  T *y = with_folded_dims(c, kl_expr_saved(c, KL_SAVED_RESULT));
  if (!x || !grad || !y) return c->status;
  T *slope = kl_expr_sign(c, x);
  if (p == 0) {
    slope = kl_expr_zeros_like(c, x);
  } else if (isinf(p)) {
    T *hit = kl_expr_eq(c, kl_expr_abs(c, x), y);
    T *ones = hit ? kl_expr_cast(c, hit, (kl_dtype)x->dtype) : NULL;
    T *count = kl_expr_sum(c, ones, c->node->args.mask, true);
    slope = kl_expr_mul(c, slope, kl_expr_div(c, ones, count));
  } else if (p == 2) {
    slope = kl_expr_masked_fill(c, kl_expr_div(c, x, y), kl_expr_eq_number(c, y, kael_i(0)), 0);
  } else if (p != 1) {
    T *ratio = kl_expr_div(c, kl_expr_abs(c, x), y);
    T *power = kl_expr_pow(c, ratio, kael_f(p - 1));
    power = kl_expr_masked_fill(c, power, kl_expr_eq_number(c, y, kael_i(0)), 0);
    slope = kl_expr_mul(c, slope, power);
  }
  kl_expr_give(c, 0, kl_expr_mul(c, grad, slope));
  return c->status;
}

GRADIENT(logsumexp) {
  T *y = with_folded_dims(c, kl_expr_saved(c, KL_SAVED_RESULT));
  T *share = kl_expr_exp(c, kl_expr_sub(c, kl_expr_saved(c, 0), y));
  kl_expr_give(c, 0, kl_expr_mul(c, with_folded_dims(c, kl_expr_grad(c)), share));
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
