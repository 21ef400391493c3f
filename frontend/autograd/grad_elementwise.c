/* Gradients of elementwise operators. The engine sums what was broadcast and casts. */
#include "frontend/autograd/grad.h"

#define GRADIENT(name) kl_status kl_backward_##name(kl_grad_call *c)

typedef kael_tensor T;

static T *times(kl_grad_call *c, T *a, double number) {
  return kl_expr_mul_number(c, a, kael_f(number));
}

static T *zero(kl_grad_call *c, kl_dtype dtype) { return kl_expr_zeros(c, 0, NULL, dtype); }

/* --- One operand -------------------------------------------------------------------------------
 */

GRADIENT(neg) {
  kl_expr_give(c, 0, kl_expr_neg(c, kl_expr_grad(c)));
  return c->status;
}

GRADIENT(abs) {
  T *sign = kl_expr_sign(c, kl_expr_saved(c, 0));
  kl_expr_give(c, 0, kl_expr_mul(c, kl_expr_grad(c), sign));
  return c->status;
}

GRADIENT(exp) {
  kl_expr_give(c, 0, kl_expr_mul(c, kl_expr_grad(c), kl_expr_saved(c, KL_SAVED_RESULT)));
  return c->status;
}

GRADIENT(log) {
  kl_expr_give(c, 0, kl_expr_div(c, kl_expr_grad(c), kl_expr_saved(c, 0)));
  return c->status;
}

GRADIENT(sqrt) {
  T *twice = times(c, kl_expr_saved(c, KL_SAVED_RESULT), 2);
  kl_expr_give(c, 0, kl_expr_div(c, kl_expr_grad(c), twice));
  return c->status;
}

GRADIENT(tanh) {
  T *square = kl_expr_square(c, kl_expr_saved(c, KL_SAVED_RESULT));
  kl_expr_give(c, 0, kl_expr_mul(c, kl_expr_grad(c), kl_expr_number_sub(c, 1, square)));
  return c->status;
}

GRADIENT(sigmoid) {
  T *y = kl_expr_saved(c, KL_SAVED_RESULT);
  T *slope = kl_expr_mul(c, kl_expr_number_sub(c, 1, y), y);
  kl_expr_give(c, 0, kl_expr_mul(c, kl_expr_grad(c), slope));
  return c->status;
}

GRADIENT(reciprocal) {
  T *square = kl_expr_square(c, kl_expr_saved(c, KL_SAVED_RESULT));
  kl_expr_give(c, 0, kl_expr_mul(c, kl_expr_neg(c, kl_expr_grad(c)), square));
  return c->status;
}

/* A NaN lets the gradient through, as in PyTorch. */
GRADIENT(relu) {
  T *below = kl_expr_le_number(c, kl_expr_saved(c, KL_SAVED_RESULT), kael_i(0));
  kl_expr_give(c, 0, kl_expr_masked_fill(c, kl_expr_grad(c), below, 0));
  return c->status;
}

GRADIENT(square) {
  T *twice = times(c, kl_expr_saved(c, 0), 2);
  kl_expr_give(c, 0, kl_expr_mul(c, kl_expr_grad(c), twice));
  return c->status;
}

/* n x^(n-1), and 0 for n = 0 whatever x is. */
GRADIENT(pow) {
  kael_scalar n = c->node->args.number, lower = n;
  const bool is_float = n.kind == KAEL_SCALAR_FLOAT;
  if (is_float ? n.as.f == 0 : n.as.i == 0) {
    kl_expr_give(c, 0, kl_expr_zeros_like(c, kl_expr_grad(c)));
    return c->status;
  }
  if (is_float)
    lower.as.f -= 1;
  else
    lower = kael_i(n.as.i - 1);
  T *slope = kl_expr_mul_number(c, kl_expr_pow(c, kl_expr_saved(c, 0), lower), n);
  kl_expr_give(c, 0, kl_expr_mul(c, kl_expr_grad(c), slope));
  return c->status;
}

static kl_status pass_on(kl_grad_call *c) {
  kl_expr_give(c, 0, kl_expr_grad(c));
  return c->status;
}
GRADIENT(to_dtype) { return pass_on(c); }
GRADIENT(clone) { return pass_on(c); }

GRADIENT(fill) {
  kl_expr_give(c, 0, kl_expr_zeros_like(c, kl_expr_grad(c)));
  return c->status;
}

GRADIENT(copy) {
  if (kl_expr_wants(c, 0)) kl_expr_give(c, 0, kl_expr_zeros_like(c, kl_expr_grad(c)));
  kl_expr_give(c, 1, kl_expr_grad(c));
  return c->status;
}

/* --- Two operands ------------------------------------------------------------------------------
 */

GRADIENT(add) {
  kl_expr_give(c, 0, kl_expr_grad(c));
  kl_expr_give(c, 1, kl_expr_grad(c));
  return c->status;
}

GRADIENT(sub) {
  kl_expr_give(c, 0, kl_expr_grad(c));
  if (kl_expr_wants(c, 1)) kl_expr_give(c, 1, kl_expr_neg(c, kl_expr_grad(c)));
  return c->status;
}

GRADIENT(mul) {
  const kl_node_args *args = &c->node->args;
  T *grad = kl_expr_grad(c);
  if (args->other_is_number) {
    kl_expr_give(c, 0, kl_expr_mul_number(c, grad, args->number));
    return c->status;
  }
  if (kl_expr_wants(c, 0)) kl_expr_give(c, 0, kl_expr_mul(c, grad, kl_expr_saved(c, 1)));
  if (kl_expr_wants(c, 1)) kl_expr_give(c, 1, kl_expr_mul(c, grad, kl_expr_saved(c, 0)));
  return c->status;
}

GRADIENT(div) {
  const kl_node_args *args = &c->node->args;
  T *grad = kl_expr_grad(c);
  if (args->other_is_number) {
    kl_expr_give(c, 0, kl_expr_div_number(c, grad, args->number));
    return c->status;
  }
  T *other = kl_expr_saved(c, 1);
  if (kl_expr_wants(c, 0)) kl_expr_give(c, 0, kl_expr_div(c, grad, other));
  if (!kl_expr_wants(c, 1)) return c->status;
  T *slope = kl_expr_div(c, kl_expr_div(c, kl_expr_saved(c, 0), other), other);
  kl_expr_give(c, 1, kl_expr_mul(c, kl_expr_neg(c, grad), slope));
  return c->status;
}

/* Half each where the operands are equal, nothing to the one that `loses`. A NaN in either: to
 * both. */
static T *share(kl_grad_call *c, T *equal, T *loses) {
  T *grad = kl_expr_grad(c);
  T *shared = kl_expr_where(c, equal, times(c, grad, 0.5), grad);
  return kl_expr_masked_fill(c, shared, loses, 0);
}

static kl_status choose(kl_grad_call *c, bool larger_wins) {
  const kl_node_args *args = &c->node->args;
  T *a = kl_expr_saved(c, 0);
  if (args->other_is_number) {
    T *loses =
        larger_wins ? kl_expr_lt_number(c, a, args->number) : kl_expr_gt_number(c, a, args->number);
    kl_expr_give(c, 0, share(c, kl_expr_eq_number(c, a, args->number), loses));
    return c->status;
  }
  T *b = kl_expr_saved(c, 1), *equal = kl_expr_eq(c, a, b);
  T *less = kl_expr_lt(c, a, b), *greater = kl_expr_gt(c, a, b);
  if (kl_expr_wants(c, 0)) kl_expr_give(c, 0, share(c, equal, larger_wins ? less : greater));
  if (kl_expr_wants(c, 1)) kl_expr_give(c, 1, share(c, equal, larger_wins ? greater : less));
  return c->status;
}
GRADIENT(maximum) { return choose(c, true); }
GRADIENT(minimum) { return choose(c, false); }

/* A comparison has a history in place only, where its result is of a floating dtype. It ends in
 * zeros, for both operands. */
static kl_status nothing(kl_grad_call *c) {
  for (uint32_t i = 0; i < c->node->n_edges; i++)
    if (kl_expr_wants(c, i)) kl_expr_give(c, i, kl_expr_zeros_like(c, kl_expr_grad(c)));
  return c->status;
}
GRADIENT(eq) { return nothing(c); }
GRADIENT(ne) { return nothing(c); }
GRADIENT(lt) { return nothing(c); }
GRADIENT(le) { return nothing(c); }
GRADIENT(gt) { return nothing(c); }
GRADIENT(ge) { return nothing(c); }

/* --- Choices -----------------------------------------------------------------------------------
 */

GRADIENT(where) {
  T *grad = kl_expr_grad(c), *mask = kl_expr_saved(c, 0);
  T *none = zero(c, (kl_dtype)grad->dtype);
  if (kl_expr_wants(c, 1)) kl_expr_give(c, 1, kl_expr_where(c, mask, grad, none));
  if (kl_expr_wants(c, 2)) kl_expr_give(c, 2, kl_expr_where(c, mask, none, grad));
  return c->status;
}

GRADIENT(masked_fill) {
  kl_expr_give(c, 0, kl_expr_masked_fill(c, kl_expr_grad(c), kl_expr_saved(c, 1), 0));
  return c->status;
}
