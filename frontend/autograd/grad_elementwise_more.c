/* Gradients of the elementwise operators beyond the everyday ones. */
#include <math.h>

#include "frontend/autograd/grad.h"

#define GRADIENT(name) kl_status kl_backward_##name(kl_grad_call *c)

typedef kael_tensor T;

static T *times(kl_grad_call *c, T *a, double number) {
  return kl_expr_mul_number(c, a, kael_f(number));
}
static T *plus(kl_grad_call *c, T *a, double number) {
  return kl_expr_add_number(c, a, kael_f(number));
}
/* grad times slope goes to input i. */
static kl_status give_times(kl_grad_call *c, uint32_t i, T *slope) {
  kl_expr_give(c, i, kl_expr_mul(c, kl_expr_grad(c), slope));
  return c->status;
}
static kl_status give_quotient(kl_grad_call *c, T *divisor) {
  kl_expr_give(c, 0, kl_expr_div(c, kl_expr_grad(c), divisor));
  return c->status;
}
static T *result(kl_grad_call *c) { return kl_expr_saved(c, KL_SAVED_RESULT); }

/* --- One operand --------------------------------------------------------------------------------
 */

GRADIENT(sin) { return give_times(c, 0, kl_expr_cos(c, kl_expr_saved(c, 0))); }
GRADIENT(cos) { return give_times(c, 0, kl_expr_neg(c, kl_expr_sin(c, kl_expr_saved(c, 0)))); }
GRADIENT(tan) { return give_times(c, 0, plus(c, kl_expr_square(c, result(c)), 1)); }
GRADIENT(exp2) { return give_times(c, 0, times(c, result(c), M_LN2)); }
GRADIENT(expm1) { return give_times(c, 0, plus(c, result(c), 1)); }
GRADIENT(log2) { return give_quotient(c, times(c, kl_expr_saved(c, 0), M_LN2)); }
GRADIENT(log10) { return give_quotient(c, times(c, kl_expr_saved(c, 0), M_LN10)); }
GRADIENT(log1p) { return give_quotient(c, plus(c, kl_expr_saved(c, 0), 1)); }

/* exp(-x^2) */
static T *bell(kl_grad_call *c, T *x) {
  return kl_expr_exp(c, kl_expr_neg(c, kl_expr_square(c, x)));
}
GRADIENT(erf) { return give_times(c, 0, times(c, bell(c, kl_expr_saved(c, 0)), M_2_SQRTPI)); }
GRADIENT(rsqrt) { return give_times(c, 0, times(c, kl_expr_pow(c, result(c), kael_i(3)), -0.5)); }

static kl_status nothing(kl_grad_call *c) {
  kl_expr_give(c, 0, kl_expr_zeros_like(c, kl_expr_grad(c)));
  return c->status;
}
GRADIENT(floor) { return nothing(c); }
GRADIENT(ceil) { return nothing(c); }
GRADIENT(round) { return nothing(c); }
GRADIENT(trunc) { return nothing(c); }
GRADIENT(sign) { return nothing(c); }

/* --- Two operands -------------------------------------------------------------------------------
 */

/* The second operand: a number as a 0-d tensor. */
static T *other(kl_grad_call *c) {
  const kl_node_args *args = &c->node->args;
  if (!args->other_is_number) return kl_expr_saved(c, 1);
  T *number = NULL;
  kl_status status = kl_full((kl_dtype)kl_expr_grad(c)->dtype, 0, NULL, args->number, &number);
  return kl_expr_own(c, status, number);
}

GRADIENT(atan2) {
  T *y = kl_expr_saved(c, 0), *x = other(c);
  T *square = kl_expr_add(c, kl_expr_square(c, y), kl_expr_square(c, x));
  T *share = kl_expr_mul(c, kl_expr_grad(c), kl_expr_reciprocal(c, square));
  if (kl_expr_wants(c, 0)) kl_expr_give(c, 0, kl_expr_mul(c, share, x));
  if (kl_expr_wants(c, 1)) kl_expr_give(c, 1, kl_expr_mul(c, share, kl_expr_neg(c, y)));
  return c->status;
}

/* The sign's change, and nothing at zero. */
GRADIENT(copysign) {
  if (kl_expr_wants(c, 1)) kl_expr_give(c, 1, kl_expr_zeros_like(c, kl_expr_grad(c)));
  if (!kl_expr_wants(c, 0)) return c->status;
  T *self = kl_expr_saved(c, 0), *ratio = kl_expr_div(c, result(c), self);
  T *is_zero = kl_expr_eq_number(c, self, kael_i(0));
  return give_times(c, 0, kl_expr_masked_fill(c, ratio, is_zero, 0));
}

GRADIENT(remainder) {
  kl_expr_give(c, 0, kl_expr_grad(c));
  if (!kl_expr_wants(c, 1)) return c->status;
  T *quotient = kl_expr_floor(c, kl_expr_div(c, kl_expr_saved(c, 0), kl_expr_saved(c, 1)));
  return give_times(c, 1, kl_expr_neg(c, quotient));
}

GRADIENT(fmod) {
  kl_expr_give(c, 0, kl_expr_grad(c));
  if (!kl_expr_wants(c, 1)) return c->status;
  T *quotient = kl_expr_trunc(c, kl_expr_div(c, kl_expr_saved(c, 0), kl_expr_saved(c, 1)));
  return give_times(c, 1, kl_expr_neg(c, quotient));
}

/* To self where it is chosen, be it as equal, else to the other one. */
static kl_status choose(kl_grad_call *c, T *(*reaches)(kl_grad_call *, T *, T *)) {
  T *a = kl_expr_saved(c, 0), *b = kl_expr_saved(c, 1), *grad = kl_expr_grad(c);
  T *is_self = kl_expr_logical_or(c, reaches(c, a, b), kl_expr_ne(c, b, b));
  if (kl_expr_wants(c, 0))
    kl_expr_give(c, 0, kl_expr_masked_fill(c, grad, kl_expr_logical_not(c, is_self), 0));
  if (kl_expr_wants(c, 1)) kl_expr_give(c, 1, kl_expr_masked_fill(c, grad, is_self, 0));
  return c->status;
}
GRADIENT(fmax) { return choose(c, kl_expr_ge); }
GRADIENT(fmin) { return choose(c, kl_expr_le); }

/* --- Bounds -------------------------------------------------------------------------------------
 */

static T *both(kl_grad_call *c, T *a, T *b) {
  return a && b ? kl_expr_logical_and(c, a, b) : a ? a : b;
}

/* `grad` where the mask holds, else 0. */
static T *only(kl_grad_call *c, T *mask) {
  T *grad = kl_expr_grad(c);
  return kl_expr_where(c, mask, grad, kl_expr_zeros(c, 0, NULL, (kl_dtype)grad->dtype));
}

GRADIENT(clamp) {
  const kl_node_args *args = &c->node->args;
  T *x = kl_expr_saved(c, 0), *above = NULL, *below = NULL;
  if (args->mask & 1) above = kl_expr_ge_number(c, x, args->number);
  if (args->mask & 2) below = kl_expr_le_number(c, x, args->number2);
  kl_expr_give(c, 0, only(c, both(c, above, below)));
  return c->status;
}

static T *saved_if_there(kl_grad_call *c, int source) {
  for (uint32_t i = 0; i < c->node->n_saved; i++)
    if (c->node->saved[i].source == source) return kl_expr_saved(c, source);
  return NULL;
}

/* Where self is outside the bounds, the one it is set to; where they are crossed, that is max. */
GRADIENT(clamp_tensor) {
  T *x = kl_expr_saved(c, 0), *min = saved_if_there(c, 1), *max = saved_if_there(c, 2);
  if (c->status) return c->status;
  T *crossed = min && max ? kl_expr_lt(c, max, min) : NULL;
  if (kl_expr_wants(c, 0)) {
    T *above = min ? kl_expr_ge(c, x, min) : NULL, *below = max ? kl_expr_le(c, x, max) : NULL;
    kl_expr_give(c, 0, only(c, both(c, above, below)));
  }
  if (kl_expr_wants(c, 1)) {
    T *ordered = max ? kl_expr_lt(c, min, max) : NULL;
    kl_expr_give(c, 1, only(c, both(c, kl_expr_lt(c, x, min), ordered)));
  }
  if (kl_expr_wants(c, 2)) {
    T *above = kl_expr_gt(c, x, max);
    kl_expr_give(c, 2, only(c, crossed ? kl_expr_logical_or(c, above, crossed) : above));
  }
  return c->status;
}

/* --- Three operands -----------------------------------------------------------------------------
 */

GRADIENT(lerp) {
  const kael_scalar number = c->node->args.number;
  const double weight = number.kind == KAEL_SCALAR_FLOAT ? number.as.f
                        : number.kind == KAEL_SCALAR_INT ? (double)number.as.i
                                                         : (double)number.as.b;
  if (kl_expr_wants(c, 0)) kl_expr_give(c, 0, times(c, kl_expr_grad(c), 1 - weight));
  if (kl_expr_wants(c, 1)) kl_expr_give(c, 1, times(c, kl_expr_grad(c), weight));
  return c->status;
}

GRADIENT(lerp_tensor) {
  T *grad = kl_expr_grad(c);
  if (kl_expr_wants(c, 0))
    kl_expr_give(c, 0, kl_expr_mul(c, grad, kl_expr_number_sub(c, 1, kl_expr_saved(c, 2))));
  if (kl_expr_wants(c, 1)) kl_expr_give(c, 1, kl_expr_mul(c, grad, kl_expr_saved(c, 2)));
  if (kl_expr_wants(c, 2))
    kl_expr_give(c, 2,
                 kl_expr_mul(c, grad, kl_expr_sub(c, kl_expr_saved(c, 1), kl_expr_saved(c, 0))));
  return c->status;
}

GRADIENT(addcmul) {
  const kael_scalar value = c->node->args.number;
  kl_expr_give(c, 0, kl_expr_grad(c));
  for (uint32_t i = 1; i < 3; i++)
    if (kl_expr_wants(c, i))
      give_times(c, i, kl_expr_mul_number(c, kl_expr_saved(c, 3 - (int)i), value));
  return c->status;
}

GRADIENT(addcdiv) {
  T *grad = kl_expr_grad(c), *divisor = NULL;
  kl_expr_give(c, 0, grad);
  if (kl_expr_wants(c, 1) || kl_expr_wants(c, 2)) divisor = kl_expr_saved(c, 2);
  T *scaled = kl_expr_div(c, kl_expr_mul_number(c, grad, c->node->args.number), divisor);
  if (kl_expr_wants(c, 1)) kl_expr_give(c, 1, scaled);
  if (kl_expr_wants(c, 2))
    kl_expr_give(
        c, 2, kl_expr_neg(c, kl_expr_mul(c, scaled, kl_expr_div(c, kl_expr_saved(c, 1), divisor))));
  return c->status;
}

/* --- Activations --------------------------------------------------------------------------------
 */

/* Of 0.5 x (1 + tanh(u)): 0.5 (1 + t) + 0.5 x (1 - t^2) u'. */
static T *slope_of_tanh_form(kl_grad_call *c, T *x) {
  const double scale = M_SQRT2 * M_2_SQRTPI * 0.5, cubic = 0.044715;
  T *square = kl_expr_square(c, x);
  T *inner = times(c, kl_expr_mul(c, x, plus(c, times(c, square, cubic), 1)), scale);
  T *t = kl_expr_tanh(c, inner), *half = times(c, plus(c, t, 1), 0.5);
  T *inner_slope = times(c, plus(c, times(c, square, 3 * cubic), 1), scale);
  T *bend = kl_expr_mul(c, times(c, x, 0.5), kl_expr_number_sub(c, 1, kl_expr_square(c, t)));
  return kl_expr_add(c, half, kl_expr_mul(c, bend, inner_slope));
}

/* The distribution function plus x times the density. */
GRADIENT(gelu) {
  T *x = kl_expr_saved(c, 0);
  if (c->node->args.keepdim) return give_times(c, 0, slope_of_tanh_form(c, x));
  T *distribution = times(c, plus(c, kl_expr_erf(c, times(c, x, M_SQRT1_2)), 1), 0.5);
  T *density = kl_expr_exp(c, times(c, kl_expr_square(c, x), -0.5));
  density = times(c, density, M_2_SQRTPI * M_SQRT1_2 * 0.5);
  return give_times(c, 0, kl_expr_add(c, distribution, kl_expr_mul(c, x, density)));
}

/* s (1 + x (1 - s)) */
GRADIENT(silu) {
  T *x = kl_expr_saved(c, 0), *s = kl_expr_sigmoid(c, x);
  T *bend = plus(c, kl_expr_mul(c, x, kl_expr_number_sub(c, 1, s)), 1);
  return give_times(c, 0, kl_expr_mul(c, s, bend));
}
