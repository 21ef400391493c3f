/* Gradients against finite differences in float64, first and second order: the cases are a table.
 *
 * A case is a function f of some inputs. First order: the gradients of L = sum(w * f(x)), for fixed
 * weights w, against (L(x + h) - L(x - h)) / 2h. Second order: the same for M = sum_i(v_i *
 * dL/dx_i). A line whose functions are linear has no second order, where no input of M requires a
 * gradient. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kael/autograd.h"
#include "kael/factory.h"
#include "kael/jit.h"
#include "kael/nn.h"
#include "kael/ops.h"
#include "kael/reduce.h"
#include "kael/scope.h"
#include "kael/tensor.h"
#include "kael/view.h"
#include "tests/support/runner.h"

typedef kael_tensor *T;

enum { MAX_INPUTS = 3, MAX_ELEMENTS = 64, MAX_RANK = 4 };

typedef struct input_spec {
  int ndim;
  int64_t shape[MAX_RANK];
  double low, high;
} input_spec;

typedef struct grad_case {
  const char *name;
  T (*fn)(T *x);
  int n_inputs;
  input_spec inputs[MAX_INPUTS];
} grad_case;

#define OK(call) ck_assert_msg((call) == KAEL_OK, "%s: %s", #call, kael_last_error().message)

/* --- The functions -----------------------------------------------------------------------------
 */

static T whole(int64_t n, const int64_t *values) { return kael_from_data(values, 1, &n, KAEL_I64); }
#define INTS(...)                                                                                  \
  whole((int64_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})
#define SHAPE(...)                                                                                 \
  (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }

static T mask23(void) {
  return kael_reshape(kael_eq(kael_from_data((double[]){1, 0, 0, 1, 1, 0}, SHAPE(6), KAEL_F64),
                              kael_ones(SHAPE(6), KAEL_F64)),
                      SHAPE(2, 3));
}
/* A copy without its own storage's history, to be changed in place. */
static T own(T x) { return kael_mul_scalar(x, kael_f(1)); }
static T after(kael_status status, T x) { return status == KAEL_OK ? x : NULL; }
/* What is computed of a tensor that was changed in place: called after the change. */
static T square_after(kael_status status, T x) { return status == KAEL_OK ? kael_mul(x, x) : NULL; }

#define UNARY(X)                                                                                   \
  X(neg) X(abs) X(exp) X(log) X(sqrt) X(tanh) X(sigmoid) X(reciprocal) X(relu) X(square)           \
  X(sin) X(cos) X(tan) X(erf) X(rsqrt) X(exp2) X(expm1) X(log2) X(log10) X(log1p) X(silu)
#define X(name)                                                                                    \
  static T f_##name(T *x) { return kael_##name(x[0]); }                                            \
  static T f_##name##_in_place(T *x) {                                                             \
    T y = own(x[0]);                                                                               \
    return after(kael_##name##_(y), y);                                                            \
  }                                                                                                \
  static T f_##name##_through_view(T *x) {                                                         \
    T y = own(x[0]);                                                                               \
    return after(kael_##name##_(kael_slice(y, 1, 0, 3, 2)), y);                                    \
  }
UNARY(X)
#undef X
#define BINARY(X) X(add) X(sub) X(mul) X(div) X(maximum) X(minimum) X(atan2) X(copysign)
#define X(name)                                                                                    \
  static T f_##name(T *x) { return kael_##name(x[0], x[1]); }                                      \
  static T f_##name##_number(T *x) { return kael_##name##_scalar(x[0], kael_f(1.7)); }             \
  static T f_##name##_in_place(T *x) {                                                             \
    T y = own(x[0]);                                                                               \
    return after(kael_##name##_(y, x[1]), y);                                                      \
  }                                                                                                \
  static T f_##name##_through_view(T *x) {                                                         \
    T y = own(x[0]);                                                                               \
    return after(kael_##name##_(kael_select(kael_T(y), 0, 1), kael_select(x[1], 1, 0)), y);        \
  }
BINARY(X)
#undef X

static T f_pow(T *x) { return kael_pow(x[0], kael_f(2.5)); }
static T f_pow_integer(T *x) { return kael_pow(x[0], kael_i(3)); }
static T f_pow_in_place(T *x) {
  T y = own(x[0]);
  return after(kael_pow_(y, kael_i(3)), y);
}
static T f_where(T *x) { return kael_where(mask23(), x[0], x[1]); }
static T f_masked_fill(T *x) { return kael_masked_fill(x[0], mask23(), kael_f(5)); }
static T f_masked_fill_in_place(T *x) {
  T y = own(x[0]);
  return square_after(kael_masked_fill_(y, mask23(), kael_f(5)), y);
}
static T f_clone(T *x) { return kael_mul(kael_clone(x[0]), x[0]); }
static T f_contiguous(T *x) { return kael_contiguous(kael_T(x[0])); }
static T f_copy(T *x) {
  T y = own(x[0]);
  return square_after(kael_copy_(kael_narrow(y, 1, 1, 2), x[1]), y);
}
static T f_fill(T *x) {
  T y = kael_add(kael_exp(x[0]), x[0]);
  return square_after(kael_fill_(kael_select(y, 0, 1), kael_f(3)), y);
}
static T f_zero(T *x) {
  T y = kael_add(x[0], x[0]);
  return square_after(kael_zero_(kael_select(y, 1, 1)), y);
}

static T f_floor(T *x) { return kael_mul(kael_floor(x[0]), x[0]); }
static T f_remainder(T *x) { return kael_remainder(x[0], x[1]); }
static T f_fmod(T *x) { return kael_fmod(x[0], x[1]); }
static T f_fmax(T *x) { return kael_fmax(x[0], x[1]); }
static T f_fmin(T *x) { return kael_fmin(x[0], x[1]); }
static const kael_scalar low = {KAEL_SCALAR_FLOAT, {.f = -0.7}}, high = {KAEL_SCALAR_FLOAT, {.f = 0.9}};
static T f_clamp(T *x) { return kael_square(kael_clamp(x[0], &low, &high)); }
static T f_clamp_below(T *x) { return kael_square(kael_clamp(x[0], &low, NULL)); }
static T f_clamp_in_place(T *x) {
  T y = own(x[0]);
  return square_after(kael_clamp_(y, NULL, &high), y);
}
static T f_clamp_tensor(T *x) { return kael_square(kael_clamp_tensor(x[0], x[1], x[2])); }
static T f_clamp_tensor_above(T *x) { return kael_square(kael_clamp_tensor(x[0], KAEL_NONE, x[1])); }
static T f_lerp(T *x) { return kael_lerp(x[0], x[1], kael_f(0.3)); }
static T f_lerp_tensor(T *x) { return kael_lerp_tensor(x[0], x[1], x[2]); }
static T f_lerp_in_place(T *x) {
  T y = own(x[0]);
  return square_after(kael_lerp_(y, x[1], kael_f(0.8)), y);
}
static T f_addcmul(T *x) { return kael_addcmul(x[0], x[1], x[2], kael_f(1.5)); }
static T f_addcdiv(T *x) { return kael_addcdiv(x[0], x[1], x[2], kael_f(1.5)); }
static T f_addcmul_in_place(T *x) {
  T y = own(x[0]);
  return after(kael_addcmul_(y, x[0], x[1], kael_f(2)), y);
}
static T f_gelu(T *x) { return kael_gelu(x[0], false); }
static T f_gelu_tanh(T *x) { return kael_gelu(x[0], true); }

static T f_sum(T *x) { return kael_sum(x[0]); }
static T f_sum_dims(T *x) { return kael_sum_dims(x[0], SHAPE(0, -1), false); }
static T f_sum_keepdim(T *x) { return kael_sum_dims(x[0], SHAPE(1), true); }
static T f_mean(T *x) { return kael_square(kael_mean(x[0])); }
static T f_mean_dims(T *x) { return kael_mean_dims(x[0], SHAPE(1), false); }
static T f_amax(T *x) { return kael_amax(x[0], SHAPE(1), false); }
static T f_amax_all(T *x) { return kael_square(kael_amax(x[0], 0, NULL, false)); }
static T f_stack(T *x) { return kael_stack((T[]){x[0], x[1], x[0]}, 3, -1); }
static T f_flip(T *x) { return kael_mul(kael_flip(x[0], SHAPE(0, 1)), x[0]); }
static T f_roll(T *x) { return kael_mul(kael_roll(x[0], SHAPE(1), SHAPE(1)), x[0]); }
static T f_tril(T *x) { return kael_square(kael_tril(x[0], 0)); }
static T f_triu(T *x) { return kael_square(kael_triu(x[0], 1)); }
static T f_outer(T *x) { return kael_outer(x[0], x[1]); }
static T f_addmm(T *x) { return kael_addmm(x[0], x[1], x[2], kael_f(0.5), kael_i(2)); }
static T f_mse(T *x) { return kael_mse_loss(x[0], x[1], KAEL_REDUCTION_MEAN); }
static T f_embedding(T *x) { return kael_embedding(x[0], kael_reshape(INTS(1, 0, 1, 1), SHAPE(2, 2))); }
static T f_prod(T *x) { return kael_prod(x[0]); }
static T f_prod_dim(T *x) { return kael_prod_dim(x[0], 1, true); }
static T f_prod_with_zero(T *x) {
  return kael_prod_dim(kael_mul(x[0], kael_from_data((double[]){1, 0, 1}, SHAPE(3), KAEL_F64)), 1, false);
}
static T f_amin(T *x) { return kael_amin(x[0], SHAPE(1), false); }
static T f_min(T *x) { return kael_square(kael_min(x[0])); }
static T f_max_dim(T *x) {
  T values, indices;
  if (kael_max_dim(x[0], 1, false, &values, &indices)) return NULL;
  return values;
}
static T f_min_dim(T *x) {
  T values, indices;
  if (kael_min_dim(kael_square(x[0]), 0, true, &values, &indices)) return NULL;
  return values;
}
static T f_var(T *x) { return kael_var(x[0], 0, NULL, 1, false); }
static T f_var_dim(T *x) { return kael_var(x[0], SHAPE(1), 0, true); }
static T f_std(T *x) { return kael_std(x[0], SHAPE(1), 1, false); }
static T f_norm(T *x) { return kael_norm(x[0], 2, 0, NULL, false); }
static T f_norm_1(T *x) { return kael_norm(x[0], 1, SHAPE(1), false); }
static T f_norm_3(T *x) { return kael_norm(x[0], 3, SHAPE(0), true); }
static T f_norm_inf(T *x) { return kael_norm(x[0], INFINITY, SHAPE(1), false); }
static T f_logsumexp(T *x) { return kael_logsumexp(x[0], SHAPE(1), false); }
static T f_softmax(T *x) { return kael_softmax(x[0], -1); }
static T f_softmax_first(T *x) { return kael_softmax(x[0], 0); }
static T f_log_softmax(T *x) { return kael_log_softmax(x[0], 1); }
static T f_nll(T *x) { return kael_nll_loss(x[0], INTS(2, 0), KAEL_REDUCTION_MEAN); }
static T f_nll_none(T *x) { return kael_nll_loss(x[0], INTS(2, 0), KAEL_REDUCTION_NONE); }
static T f_nll_sum(T *x) { return kael_nll_loss(x[0], INTS(1, 1), KAEL_REDUCTION_SUM); }
static T f_nll_vector(T *x) {
  return kael_nll_loss(x[0], kael_select(INTS(1), 0, 0), KAEL_REDUCTION_MEAN);
}
static T f_cross_entropy(T *x) { return kael_cross_entropy(x[0], INTS(2, 0), KAEL_REDUCTION_MEAN); }
static T f_cross_entropy_none(T *x) {
  return kael_cross_entropy(x[0], INTS(2, 0), KAEL_REDUCTION_NONE);
}

static T f_matmul(T *x) { return kael_matmul(x[0], x[1]); }
static T f_matmul_transposed(T *x) { return kael_matmul(kael_T(x[0]), kael_T(x[1])); }
static T f_linear(T *x) { return kael_linear(x[0], x[1], x[2]); }
static T f_linear_without_bias(T *x) { return kael_linear(x[0], x[1], KAEL_NONE); }

static T f_cat(T *x) { return kael_cat((T[]){x[0], x[1], x[0]}, 3, 1); }
static T f_cat_with_empty(T *x) {
  return kael_cat((T[]){kael_zeros(SHAPE(0), KAEL_F64), x[0]}, 2, 0);
}
static T f_index_select(T *x) { return kael_index_select(x[0], 1, INTS(2, 0, 2)); }
static T f_gather(T *x) {
  return kael_gather(x[0], 1, kael_reshape(INTS(2, 2, 0, 1), SHAPE(2, 2)));
}
static T f_scatter_add(T *x) {
  return kael_scatter_add(x[0], 1, kael_reshape(INTS(2, 2, 0, 1), SHAPE(2, 2)), x[1]);
}
static T f_scatter_add_in_place(T *x) {
  T y = kael_square(x[0]);
  return after(kael_scatter_add_(y, 1, kael_reshape(INTS(2, 2, 0, 1), SHAPE(2, 2)), x[1]), y);
}

static T f_view(T *x) { return kael_view(x[0], SHAPE(3, 2)); }
static T f_reshape_copying(T *x) { return kael_reshape(kael_T(x[0]), SHAPE(6)); }
static T f_flatten(T *x) { return kael_flatten(x[0], 0, -1); }
static T f_transpose(T *x) { return kael_transpose(x[0], 0, 1); }
static T f_permute(T *x) { return kael_permute(x[0], SHAPE(2, 0, 1)); }
static T f_slice(T *x) { return kael_slice(x[0], 1, 0, 3, 2); }
static T f_narrow(T *x) { return kael_narrow(x[0], 1, 1, 2); }
static T f_select(T *x) { return kael_select(x[0], 1, -1); }
static T f_expand(T *x) { return kael_expand(x[0], SHAPE(2, 2, 3)); }
static T f_squeeze(T *x) { return kael_squeeze(x[0]); }
static T f_squeeze_dim(T *x) { return kael_squeeze_dim(x[0], 0); }
static T f_unsqueeze(T *x) { return kael_unsqueeze(x[0], 1); }
static T f_as_strided(T *x) { return kael_as_strided(x[0], SHAPE(2, 2), (int64_t[]){2, 1}, 1); }
static T f_as_strided_overlapping(T *x) {
  return kael_as_strided(x[0], SHAPE(3, 3), (int64_t[]){1, 1}, 0);
}
static T f_as_strided_of_expanded(T *x) {
  T wide = kael_expand(x[0], SHAPE(2, 3));
  return kael_as_strided(wide, SHAPE(2), (int64_t[]){1}, 1);
}
static T f_diagonal(T *x) { return kael_diagonal(x[0], 1, 0, 1); }
static T f_unbind(T *x) {
  T rows[2];
  if (kael_unbind(x[0], 0, rows) != KAEL_OK) return NULL;
  return kael_mul(rows[0], kael_exp(rows[0]));
}
static T f_unbind_both(T *x) {
  T columns[3];
  if (kael_unbind(x[0], 1, columns) != KAEL_OK) return NULL;
  return kael_mul(columns[2], columns[0]);
}
static T f_split(T *x) {
  T parts[2];
  if (kael_split(x[0], 2, 1, parts) != KAEL_OK) return NULL;
  return kael_mul(parts[0], parts[1]);
}
static T f_chain_in_place(T *x) {
  T y = own(x[0]), row = kael_select(y, 0, 0);
  if (kael_mul_(row, x[1]) || kael_neg_(y) || kael_exp_(kael_narrow(row, 0, 1, 2))) return NULL;
  return kael_mul(y, row);
}

/* --- The table ---------------------------------------------------------------------------------
 */

#define D0(low, high)                                                                              \
  { 0, {0}, low, high }
#define D1(n, low, high)                                                                           \
  { 1, {n}, low, high }
#define D2(n, m, low, high)                                                                        \
  { 2, {n, m}, low, high }
#define D3(n, m, k, low, high)                                                                     \
  { 3, {n, m, k}, low, high }
#define D4(n, m, k, l, low, high)                                                                  \
  { 4, {n, m, k, l}, low, high }
/* The inputs are braced lists, so they come as what is left of the arguments. */
#define CASE1(fn, ...)                                                                             \
  {                                                                                                \
#fn, f_##fn, 1, { __VA_ARGS__ }                                                                \
  }
#define CASE2(fn, ...)                                                                             \
  {                                                                                                \
#fn, f_##fn, 2, { __VA_ARGS__ }                                                                \
  }
#define CASE3(fn, ...)                                                                             \
  {                                                                                                \
#fn, f_##fn, 3, { __VA_ARGS__ }                                                                \
  }
#define UNARY_CASES(fn, ...)                                                                       \
  CASE1(fn, __VA_ARGS__), CASE1(fn##_in_place, __VA_ARGS__), CASE1(fn##_through_view, __VA_ARGS__)
#define ANY D2(2, 3, -2, 2)
#define POSITIVE D2(2, 3, 0.5, 3)

static const grad_case cases[] = {
    UNARY_CASES(neg, ANY),
    UNARY_CASES(abs, ANY),
    UNARY_CASES(exp, ANY),
    UNARY_CASES(log, POSITIVE),
    UNARY_CASES(sqrt, POSITIVE),
    UNARY_CASES(tanh, ANY),
    UNARY_CASES(sigmoid, ANY),
    UNARY_CASES(reciprocal, POSITIVE),
    UNARY_CASES(relu, ANY),
    UNARY_CASES(square, ANY),
    UNARY_CASES(sin, ANY),
    UNARY_CASES(cos, ANY),
    UNARY_CASES(tan, D2(2, 3, -1, 1)),
    UNARY_CASES(erf, ANY),
    UNARY_CASES(rsqrt, POSITIVE),
    UNARY_CASES(exp2, ANY),
    UNARY_CASES(expm1, ANY),
    UNARY_CASES(log2, POSITIVE),
    UNARY_CASES(log10, POSITIVE),
    UNARY_CASES(log1p, POSITIVE),
    UNARY_CASES(silu, ANY),
    CASE1(floor, ANY),
    CASE2(remainder, POSITIVE, D1(3, 0.3, 0.45)),
    CASE2(fmod, POSITIVE, D1(3, 0.3, 0.45)),
    CASE2(fmax, ANY, D1(3, -2, 2)),
    CASE2(fmin, ANY, D1(3, -2, 2)),
    CASE1(clamp, ANY),
    CASE1(clamp_below, ANY),
    CASE1(clamp_in_place, ANY),
    CASE3(clamp_tensor, ANY, D1(3, -1.5, -0.5), D0(0.5, 1)),
    CASE2(clamp_tensor_above, ANY, D1(3, -1, 1)),
    CASE2(lerp, ANY, ANY),
    CASE3(lerp_tensor, ANY, ANY, D1(3, 0.1, 0.9)),
    CASE2(lerp_in_place, ANY, ANY),
    CASE3(addcmul, ANY, ANY, D1(3, -2, 2)),
    CASE3(addcdiv, ANY, ANY, D1(3, 0.5, 3)),
    CASE2(addcmul_in_place, ANY, ANY),
    CASE1(gelu, ANY),
    CASE1(gelu_tanh, ANY),
#define BINARY_CASES(fn)                                                                           \
  CASE2(fn, POSITIVE, POSITIVE), CASE2(fn, POSITIVE, D1(3, 0.5, 3)),                               \
      CASE2(fn, D2(2, 1, 0.5, 3), D3(2, 1, 3, 0.5, 3)), CASE2(fn, POSITIVE, D0(0.9, 2)),           \
      CASE1(fn##_number, POSITIVE), CASE2(fn##_in_place, POSITIVE, D2(2, 1, 0.5, 3)),              \
      CASE2(fn##_through_view, POSITIVE, POSITIVE)
#define X(name) BINARY_CASES(name),
    BINARY(X)
#undef X
        CASE1(pow, POSITIVE),
    CASE1(pow_integer, ANY),
    CASE1(pow_in_place, ANY),
    CASE2(where, ANY, ANY),
    CASE2(where, D1(3, -2, 2), D2(2, 1, -2, 2)),
    CASE1(masked_fill, ANY),
    CASE1(masked_fill_in_place, ANY),
    CASE1(clone, ANY),
    CASE1(contiguous, ANY),
    CASE2(copy, ANY, D1(2, -2, 2)),
    CASE1(fill, ANY),
    CASE1(zero, ANY),
    CASE1(sum, ANY),
    CASE1(sum_dims, D3(2, 2, 3, -2, 2)),
    CASE1(sum_keepdim, ANY),
    CASE1(mean, ANY),
    CASE1(mean_dims, ANY),
    CASE1(amax, ANY),
    CASE1(amax_all, ANY),
    CASE2(stack, ANY, ANY),
    CASE1(flip, ANY),
    CASE1(roll, ANY),
    CASE1(tril, ANY),
    CASE1(triu, D3(2, 3, 3, -2, 2)),
    CASE2(outer, D1(2, -2, 2), D1(3, -2, 2)),
    CASE3(addmm, D1(2, -2, 2), D2(2, 3, -2, 2), D2(3, 2, -2, 2)),
    CASE2(mse, ANY, D1(3, -2, 2)),
    CASE1(embedding, ANY),
    CASE1(prod, POSITIVE),
    CASE1(prod_dim, ANY),
    CASE1(prod_with_zero, POSITIVE),
    CASE1(amin, ANY),
    CASE1(min, ANY),
    CASE1(max_dim, ANY),
    CASE1(min_dim, ANY),
    CASE1(var, ANY),
    CASE1(var_dim, ANY),
    CASE1(std, ANY),
    CASE1(norm, ANY),
    CASE1(norm_1, ANY),
    CASE1(norm_3, ANY),
    CASE1(norm_inf, ANY),
    CASE1(logsumexp, ANY),
    CASE1(softmax, ANY),
    CASE1(softmax_first, D3(3, 2, 2, -2, 2)),
    CASE1(log_softmax, ANY),
    CASE1(nll, ANY),
    CASE1(nll_none, ANY),
    CASE1(nll_sum, ANY),
    CASE1(nll_vector, D1(4, -2, 2)),
    CASE1(cross_entropy, ANY),
    CASE1(cross_entropy_none, ANY),
    CASE2(matmul, D1(3, -2, 2), D1(3, -2, 2)),
    CASE2(matmul, D2(2, 3, -2, 2), D1(3, -2, 2)),
    CASE2(matmul, D1(2, -2, 2), D2(2, 3, -2, 2)),
    CASE2(matmul, D2(2, 3, -2, 2), D2(3, 2, -2, 2)),
    CASE2(matmul, D3(2, 2, 3, -2, 2), D1(3, -2, 2)),
    CASE2(matmul, D1(2, -2, 2), D3(2, 2, 3, -2, 2)),
    CASE2(matmul, D3(2, 2, 3, -2, 2), D2(3, 2, -2, 2)),
    CASE2(matmul, D2(2, 3, -2, 2), D3(2, 3, 2, -2, 2)),
    CASE2(matmul, D3(2, 2, 2, -2, 2), D3(2, 2, 3, -2, 2)),
    CASE2(matmul, D4(2, 1, 2, 2, -2, 2), D3(2, 2, 2, -2, 2)),
    CASE2(matmul_transposed, D2(3, 2, -2, 2), D2(2, 3, -2, 2)),
    CASE3(linear, D2(2, 3, -2, 2), D2(2, 3, -2, 2), D1(2, -2, 2)),
    CASE3(linear, D3(2, 2, 3, -2, 2), D2(2, 3, -2, 2), D1(2, -2, 2)),
    CASE3(linear, D1(3, -2, 2), D2(2, 3, -2, 2), D1(2, -2, 2)),
    CASE2(linear_without_bias, D2(2, 3, -2, 2), D2(2, 3, -2, 2)),
    CASE2(cat, ANY, D2(2, 1, -2, 2)),
    CASE1(cat_with_empty, ANY),
    CASE1(index_select, ANY),
    CASE1(gather, ANY),
    CASE2(scatter_add, ANY, D2(2, 2, -2, 2)),
    CASE2(scatter_add_in_place, ANY, D2(2, 2, -2, 2)),
    CASE1(view, ANY),
    CASE1(reshape_copying, ANY),
    CASE1(flatten, ANY),
    CASE1(transpose, ANY),
    CASE1(permute, D3(2, 2, 3, -2, 2)),
    CASE1(slice, ANY),
    CASE1(narrow, ANY),
    CASE1(select, ANY),
    CASE1(expand, D2(2, 1, -2, 2)),
    CASE1(squeeze, D3(1, 2, 1, -2, 2)),
    CASE1(squeeze_dim, D2(1, 3, -2, 2)),
    CASE1(unsqueeze, ANY),
    CASE1(as_strided, ANY),
    CASE1(as_strided_overlapping, ANY),
    CASE1(as_strided_of_expanded, D1(3, -2, 2)),
    CASE1(diagonal, D3(2, 3, 2, -2, 2)),
    CASE1(unbind, ANY),
    CASE1(unbind_both, ANY),
    CASE1(split, D2(2, 4, -2, 2)),
    CASE2(chain_in_place, ANY, D1(3, -1, 1)),
};
enum { N_CASES = sizeof cases / sizeof *cases };

/* --- The check ---------------------------------------------------------------------------------
 */

typedef struct checker {
  const grad_case *c;
  double values[MAX_INPUTS][MAX_ELEMENTS];
  bool second; /* the function checked is M, else L */
} checker;

static uint64_t random_state;
static double uniform(void) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (double)(random_state >> 11) / 9007199254740992.0;
}

static int64_t numel_of(const input_spec *spec) {
  int64_t n = 1;
  for (int d = 0; d < spec->ndim; d++) n *= spec->shape[d];
  return n;
}

/* Away from 0, and from each other, where functions have kinks. */
static void draw_values(checker *k) {
  random_state = 12345;
  for (int i = 0; i < k->c->n_inputs; i++) {
    const input_spec *spec = &k->c->inputs[i];
    for (int64_t e = 0; e < numel_of(spec); e++) {
      double value = spec->low + (spec->high - spec->low) * uniform();
      if (fabs(value) < 0.1) value = value < 0 ? value - 0.1 : value + 0.1;
      k->values[i][e] = value;
    }
  }
}

static T need(const checker *k, T tensor) {
  ck_assert_msg(tensor != NULL, "%s: %s", k->c->name, kael_last_error().message);
  return tensor;
}

/* sum(w * t) with weights that depend on `salt` and the position alone. */
static T weighted(const checker *k, T t, int salt) {
  double weights[256];
  const int64_t n = kael_numel(t);
  ck_assert_int_le(n, 256);
  for (int64_t i = 0; i < n; i++) weights[i] = sin(1.0 + 0.7 * (double)i + 1.3 * salt);
  T w = need(k, kael_from_data(weights, kael_ndim(t), kael_shape(t), KAEL_F64));
  return need(k, kael_sum(kael_mul(w, t)));
}

static void make_inputs(const checker *k, T *inputs) {
  for (int i = 0; i < k->c->n_inputs; i++) {
    const input_spec *spec = &k->c->inputs[i];
    inputs[i] = need(k, kael_from_data(k->values[i], spec->ndim, spec->shape, KAEL_F64));
    OK(kael_requires_grad_(inputs[i], true));
  }
}

/* L, or M: NULL where the gradients depend on no input. */
static T evaluate(const checker *k, T *inputs) {
  T loss = weighted(k, need(k, k->c->fn(inputs)), 0);
  if (!k->second) return loss;
  T grads[MAX_INPUTS], sum = NULL;
  const kael_grad_options options = {sizeof options, false, true, false};
  OK(kael_autograd_grad(&loss, NULL, 1, inputs, (size_t)k->c->n_inputs, &options, grads));
  for (int i = 0; i < k->c->n_inputs; i++) {
    T term = weighted(k, grads[i], i + 1);
    sum = sum ? need(k, kael_add(sum, term)) : term;
  }
  return kael_requires_grad(sum) ? sum : NULL;
}

static double value_at(checker *k, int i, int64_t e, double value) {
  const double former = k->values[i][e];
  T inputs[MAX_INPUTS];
  double result;
  OK(kael_scope_begin());
  k->values[i][e] = value;
  make_inputs(k, inputs);
  OK(kael_item(evaluate(k, inputs), &result));
  k->values[i][e] = former;
  OK(kael_scope_end());
  return result;
}

static void compare(checker *k, int i, const double *grad) {
  const double step = 1e-5;
  for (int64_t e = 0; e < numel_of(&k->c->inputs[i]); e++) {
    const double x = k->values[i][e];
    const double slope = (value_at(k, i, e, x + step) - value_at(k, i, e, x - step)) / (2 * step);
    ck_assert_msg(fabs(slope - grad[e]) <= 2e-6 * (1 + fabs(slope)),
                  "%s, order %d, input %d, element %lld: gradient %.9g, finite difference %.9g",
                  k->c->name, k->second ? 2 : 1, i, (long long)e, grad[e], slope);
  }
}

/* Whether there was something to check. */
static bool check_order(checker *k) {
  double grads[MAX_INPUTS][MAX_ELEMENTS] = {{0}};
  T inputs[MAX_INPUTS];
  OK(kael_scope_begin());
  make_inputs(k, inputs);
  T result = evaluate(k, inputs);
  const bool any = result != NULL;
  if (any) OK(kael_backward(result, KAEL_NONE, false, false));
  for (int i = 0; any && i < k->c->n_inputs; i++) {
    T grad = kael_grad(inputs[i]);
    if (!grad) continue; /* M does not depend on this one */
    ck_assert_int_eq(kael_ndim(grad), k->c->inputs[i].ndim);
    ck_assert_int_eq(kael_numel(grad), numel_of(&k->c->inputs[i]));
    OK(kael_copy_to_host(grad, grads[i], (size_t)kael_numel(grad) * sizeof(double)));
  }
  OK(kael_scope_end());
  for (int i = 0; any && i < k->c->n_inputs; i++) compare(k, i, grads[i]);
  return any;
}

static void check_case(int index, kael_jit_mode mode) {
  checker k = {.c = &cases[index]};
  OK(kael_set_jit(mode));
  draw_values(&k);
  ck_assert_msg(check_order(&k), "%s: no gradient", k.c->name);
  k.second = true;
  check_order(&k);
}

START_TEST(gradients_agree_with_finite_differences_eager) { check_case(_i, KAEL_JIT_EAGER); }
END_TEST
START_TEST(gradients_agree_with_finite_differences_lazy) { check_case(_i, KAEL_JIT_LAZY); }
END_TEST

/* --- Values at the edges -----------------------------------------------------------------------
 */

static T leaf(int n, const double *values) {
  const int64_t shape[1] = {n};
  T x = kael_from_data(values, 1, shape, KAEL_F64);
  OK(kael_requires_grad_(x, true));
  return x;
}
#define LEAF(...)                                                                                  \
  leaf((int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (double[]){__VA_ARGS__})

static void grad_is(T x, int n, const double *expected) {
  double grad[MAX_ELEMENTS];
  T g = kael_grad(x);
  ck_assert_ptr_nonnull(g);
  OK(kael_copy_to_host(g, grad, (size_t)n * sizeof(double)));
  for (int i = 0; i < n; i++)
    ck_assert_msg(grad[i] == expected[i] || (isnan(grad[i]) && isnan(expected[i])),
                  "element %d is %g, expected %g", i, grad[i], expected[i]);
}
#define GRAD_IS(x, ...)                                                                            \
  grad_is(x, (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (double[]){__VA_ARGS__})

static void backward_of_sum(T y) {
  ck_assert_msg(y != NULL, "%s", kael_last_error().message);
  OK(kael_backward(kael_sum(y), KAEL_NONE, false, false));
}

START_TEST(ties_share_the_gradient) {
  OK(kael_scope_begin());
  T a = LEAF(1, 2, 3), b = LEAF(1, 3, 2), x = LEAF(3, 3, 1), y = LEAF(1.7, 1, 2);
  backward_of_sum(kael_maximum(a, b));
  GRAD_IS(a, 0.5, 0, 1);
  GRAD_IS(b, 0.5, 1, 0);
  backward_of_sum(kael_amax(x, 0, NULL, false));
  GRAD_IS(x, 0.5, 0.5, 0);
  backward_of_sum(kael_minimum_scalar(y, kael_f(1.7)));
  GRAD_IS(y, 0.5, 1, 0);
  OK(kael_scope_end());
}
END_TEST

START_TEST(a_nan_lets_gradients_through_as_in_pytorch) {
  OK(kael_scope_begin());
  T a = LEAF(NAN, 1), b = LEAF(1, NAN), r = LEAF(NAN, 0);
  backward_of_sum(kael_maximum(a, b));
  GRAD_IS(a, 1, 1);
  GRAD_IS(b, 1, 1);
  backward_of_sum(kael_relu(r));
  GRAD_IS(r, 1, 0);
  OK(kael_scope_end());
}
END_TEST

START_TEST(powers_at_zero_have_pytorchs_gradients) {
  OK(kael_scope_begin());
  T x = LEAF(0, 2), y = LEAF(0, 3), z = LEAF(0, 4), one = LEAF(0, 5), s = LEAF(0, 4);
  backward_of_sum(kael_pow(x, kael_i(0)));
  GRAD_IS(x, 0, 0);
  backward_of_sum(kael_pow(y, kael_i(2)));
  GRAD_IS(y, 0, 6);
  backward_of_sum(kael_pow(z, kael_f(0.5)));
  GRAD_IS(z, INFINITY, 0.25);
  backward_of_sum(kael_pow(one, kael_i(1)));
  GRAD_IS(one, 1, 1);
  backward_of_sum(kael_abs(s));
  GRAD_IS(s, 0, 1);
  OK(kael_scope_end());
}
END_TEST

START_TEST(masked_gradients_are_zero_where_the_mask_hides_infinities) {
  OK(kael_scope_begin());
  T x = LEAF(0, 4), safe = kael_masked_fill(x, kael_eq_scalar(x, kael_i(0)), kael_f(1));
  backward_of_sum(kael_log(safe));
  GRAD_IS(x, 0, 0.25);
  OK(kael_scope_end());
}
END_TEST

START_TEST(gradients_have_the_dtype_of_what_they_belong_to) {
  OK(kael_scope_begin());
  T x = LEAF(1, 2), narrow = kael_to_dtype(x, KAEL_F32);
  OK(kael_retain_grad(narrow));
  backward_of_sum(kael_mul(narrow, LEAF(3, 4)));
  ck_assert_int_eq(kael_dtype_of(kael_grad(narrow)), KAEL_F32);
  ck_assert_int_eq(kael_dtype_of(kael_grad(x)), KAEL_F64);
  GRAD_IS(x, 3, 4);
  OK(kael_scope_end());
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("gradients");
  TCase *t = tcase_create("finite differences");
  tcase_add_loop_test(t, gradients_agree_with_finite_differences_eager, 0, N_CASES);
  tcase_add_loop_test(t, gradients_agree_with_finite_differences_lazy, 0, N_CASES);
  suite_add_tcase(s, t);
  TCase *edges = tcase_create("edges");
  tcase_add_test(edges, ties_share_the_gradient);
  tcase_add_test(edges, a_nan_lets_gradients_through_as_in_pytorch);
  tcase_add_test(edges, powers_at_zero_have_pytorchs_gradients);
  tcase_add_test(edges, masked_gradients_are_zero_where_the_mask_hides_infinities);
  tcase_add_test(edges, gradients_have_the_dtype_of_what_they_belong_to);
  suite_add_tcase(s, edges);
  return s;
}

int main(void) { return kl_test_run(suite()); }
