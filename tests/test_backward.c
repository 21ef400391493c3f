/* Backward passes: accumulation, retained graphs, grad, hooks, long chains. Every test runs in
 * eager and in lazy mode. */
#include "tests/support/autograd.h"

/* --- Engine ------------------------------------------------------------------------------------
 */

START_TEST(gradients_accumulate_over_passes_and_paths) {
  begin(_i);
  T x = leaf(VEC(1, 2)), y = made(kael_add(kael_mul(x, x), x));
  OK(backward(made(kael_sum(y))));
  HOLDS(kael_grad(x), 3, 5);
  OK(backward(made(kael_sum(twice(x)))));
  HOLDS(kael_grad(x), 5, 7);
  end();
}
END_TEST

START_TEST(equal_leaves_have_gradients_of_their_own) {
  begin(_i);
  T a = leaf(VEC(3)), b = leaf(VEC(3));
  OK(backward(made(kael_add(a, b))));
  HOLDS(kael_grad(a), 1);
  HOLDS(kael_grad(b), 1);
  ck_assert(!kael_shares_storage(kael_grad(a), kael_grad(b)));
  end();
}
END_TEST

/* Case A075 of the shared programs. */
START_TEST(the_users_seed_is_never_aliased) {
  begin(_i);
  T a = leaf(VEC(0, 0)), b = leaf(VEC(0, 0)), seed = VEC(1, 1);
  OK(kael_backward(kael_add(a, b), seed, false, false));
  OK(kael_add_scalar_(kael_grad(a), kael_f(10)));
  HOLDS(kael_grad(a), 11, 11);
  HOLDS(kael_grad(b), 1, 1);
  HOLDS(seed, 1, 1);
  T c = leaf(matrix(2, 2, 1)), turned = matrix(2, 2, 1);
  OK(kael_backward(kael_T(c), turned, false, false));
  OK(kael_zero_(kael_grad(c)));
  HOLDS(turned, 1, 2, 3, 4);
  end();
}
END_TEST

START_TEST(grad_is_the_same_tensor_every_time) {
  begin(_i);
  T x = leaf(VEC(1, 2));
  ck_assert_ptr_null(kael_grad(x));
  OK(backward(made(kael_sum(twice(x)))));
  T first = kael_grad(x);
  ck_assert(kael_is_same(first, kael_grad(x)));
  OK(backward(made(kael_sum(twice(x)))));
  ck_assert(kael_is_same(first, kael_grad(x)));
  HOLDS(first, 4, 4);
  OK(kael_set_grad(x, KAEL_NONE));
  ck_assert_ptr_null(kael_grad(x));
  failed_with(kael_set_grad(x, VEC(1)), "attempting to assign a gradient of size '[1]'");
  end();
}
END_TEST

START_TEST(gradients_have_the_leafs_layout) {
  begin(_i);
  T x = leaf(made(kael_detach(kael_T(matrix(2, 3, 1)))));
  OK(backward(made(kael_sum(kael_mul(x, matrix(3, 2, 0))))));
  ck_assert_int_eq(kael_stride(kael_grad(x), 0), 1);
  ck_assert_int_eq(kael_stride(kael_grad(x), 1), 3);
  HOLDS(kael_grad(x), 0, 1, 2, 3, 4, 5);
  T y = leaf(matrix(2, 2, 1));
  OK(backward(made(kael_sum(y)))); /* the gradient comes as an expanded scalar */
  ck_assert(kael_is_contiguous(kael_grad(y)));
  end();
}
END_TEST

START_TEST(a_second_pass_needs_retain_graph) {
  begin(_i);
  T x = leaf(VEC(1, 2)), y = made(kael_sum(kael_mul(x, x)));
  OK(kael_backward(y, KAEL_NONE, true, false));
  OK(backward(y));
  HOLDS(kael_grad(x), 4, 8);
  failed_with(backward(y), "Trying to backward through the graph a second time");
  T z = made(kael_sum(kael_add(x, x))); /* saves nothing */
  OK(backward(z));
  OK(backward(z));
  end();
}
END_TEST

/* PyTorch saves a number as a tensor, and needs it for the second pass. */
START_TEST(a_product_with_a_number_needs_retain_graph_too) {
  begin(_i);
  T x = leaf(VEC(1, 2)), y = made(kael_sum(kael_mul_scalar(x, kael_f(2))));
  OK(backward(y));
  failed_with(backward(y), "Trying to backward through the graph a second time");
  end();
}
END_TEST

START_TEST(saved_tensors_are_checked_even_where_they_are_not_needed) {
  begin(_i);
  T a = leaf(VEC(1, 2)), w = leaf(VEC(3, 4)), x = twice(a), y = made(kael_sum(kael_mul(x, w))),
    grad;
  OK(kael_add_scalar_(x, kael_f(1)));
  failed_with(kael_autograd_grad(&y, NULL, 1, &a, 1, NULL, &grad),
              "modified by an inplace operation");
  end();
}
END_TEST

START_TEST(a_view_made_under_no_grad_of_a_leaf_ends_the_gradient) {
  begin(_i);
  T x = leaf(matrix(2, 2, 1)), w = leaf(VEC(3, 4)), columns[2];
  kael_set_grad_enabled(false);
  T row = made(kael_select(x, 0, 0));
  kael_set_grad_enabled(true);
  OK(kael_unbind(row, 0, columns)); /* its node has no edge */
  OK(backward(made(kael_sum(kael_mul(w, columns[1])))));
  HOLDS(kael_grad(w), 2, 2);
  ck_assert_ptr_null(kael_grad(x));
  end();
}
END_TEST

START_TEST(roots_are_checked) {
  begin(_i);
  T x = leaf(VEC(1, 2));
  failed_with(backward(made(kael_sum(VEC(1, 2)))), "element 0 of tensors does not require grad");
  failed_with(backward(twice(x)), "grad can be implicitly created only for scalar outputs");
  failed_with(
      kael_backward(twice(x), VEC(1, 1, 1), false, false),
      "Mismatch in shape: grad_output[0] has a shape of [3] and output[0] has a shape of [2]");
  end();
}
END_TEST

START_TEST(grad_gives_gradients_without_accumulating) {
  begin(_i);
  T x = leaf(VEC(1, 2)), w = leaf(VEC(3, 4)), y = made(kael_mul(x, w)),
    z = made(kael_sum(kael_exp(y)));
  T inputs[2] = {x, y}, grads[2];
  const kael_grad_options keep = {sizeof keep, true, false, false};
  OK(kael_autograd_grad(&z, NULL, 1, inputs, 2, &keep, grads));
  ck_assert_ptr_nonnull(grads[0]);
  ck_assert_ptr_nonnull(grads[1]);
  ck_assert_ptr_null(kael_grad(x));
  ck_assert_ptr_null(kael_grad(w));
  T other = leaf(VEC(1));
  failed_with(kael_autograd_grad(&z, NULL, 1, &other, 1, &keep, grads),
              "appears to not have been used in the graph");
  const kael_grad_options unused = {sizeof unused, false, false, true};
  OK(kael_autograd_grad(&z, NULL, 1, &other, 1, &unused, grads));
  ck_assert_ptr_null(grads[0]);
  T plain = VEC(1);
  failed_with(kael_autograd_grad(&z, NULL, 1, &plain, 1, NULL, grads),
              "One of the differentiated Tensors does not require grad");
  end();
}
END_TEST

START_TEST(gradients_can_be_differentiated_again) {
  begin(_i);
  T x = leaf(VEC(2, 3)), y = made(kael_sum(kael_pow(x, kael_i(3)))), g, h;
  const kael_grad_options create = {sizeof create, false, true, false};
  OK(kael_autograd_grad(&y, NULL, 1, &x, 1, &create, &g));
  ck_assert(kael_requires_grad(g));
  HOLDS(kael_detach(g), 12, 27);
  T sum = made(kael_sum(g));
  OK(kael_autograd_grad(&sum, NULL, 1, &x, 1, &create, &h));
  HOLDS(kael_detach(h), 12, 18);
  OK(backward(made(kael_sum(h))));
  HOLDS(kael_grad(x), 6, 6);
  end();
}
END_TEST

START_TEST(a_failing_pass_leaves_gradient_mode_as_it_was) {
  begin(_i);
  T x = leaf(VEC(1, 2)), c = VEC(3, 4), y = made(kael_sum(kael_mul(x, c)));
  OK(kael_zero_(c));
  ck_assert_int_ne(backward(y), KAEL_OK);
  ck_assert(kael_is_grad_enabled());
  end();
}
END_TEST

START_TEST(retain_grad_keeps_gradients_of_results) {
  begin(_i);
  T x = leaf(VEC(1, 2)), y = twice(x);
  failed_with(kael_retain_grad(VEC(1)), "can't retain_grad on Tensor that has requires_grad=False");
  OK(kael_retain_grad(y));
  ck_assert(kael_retains_grad(y));
  OK(kael_mul_scalar_(y, kael_f(5))); /* it is the new contents' gradient that is kept */
  T dropped = twice(x);
  OK(kael_retain_grad(dropped));
  OK(backward(made(kael_sum(kael_mul_scalar(y, kael_f(3))))));
  HOLDS(kael_grad(y), 3, 3);
  HOLDS(kael_grad(x), 30, 30);
  end();
}
END_TEST

/* --- Hooks -------------------------------------------------------------------------------------
 */

typedef struct hook_log {
  int calls, order, destroyed;
  double factor;
} hook_log;
static int hook_clock;

static kael_status scale(T grad, void *user, T *out_grad) {
  hook_log *log = user;
  log->calls++;
  log->order = ++hook_clock;
  if (log->factor == 1) return KAEL_OK;
  *out_grad = kael_mul_scalar(grad, kael_f(log->factor));
  if (*out_grad) kael_retain(*out_grad); /* the scope has the first reference */
  return *out_grad ? KAEL_OK : KAEL_ERR_RUNTIME;
}
static void destroy_log(void *user) { ((hook_log *)user)->destroyed++; }

START_TEST(hooks_run_in_order_and_replace_the_gradient) {
  begin(_i);
  hook_log first = {.factor = 3}, second = {.factor = 1}, on_leaf = {.factor = 10};
  T x = leaf(VEC(1, 2)), y = twice(x);
  kael_hook_release(kael_register_hook(y, scale, &first, destroy_log));
  kael_hook_release(kael_register_hook(y, scale, &second, destroy_log));
  kael_hook_release(kael_register_hook(x, scale, &on_leaf, destroy_log));
  OK(kael_retain_grad(y));
  OK(backward(made(kael_sum(y))));
  ck_assert_int_eq(first.calls, 1);
  ck_assert_int_lt(first.order, second.order);
  ck_assert_int_lt(second.order, on_leaf.order);
  HOLDS(kael_grad(y), 3, 3);
  HOLDS(kael_grad(x), 60, 60);
  end();
  ck_assert_int_eq(first.destroyed, 1);
  ck_assert_int_eq(on_leaf.destroyed, 1);
}
END_TEST

START_TEST(a_removed_hook_no_longer_runs) {
  begin(_i);
  hook_log log = {.factor = 3};
  T x = leaf(VEC(1, 2));
  kael_hook *hook = kael_register_hook(x, scale, &log, destroy_log);
  ck_assert_ptr_nonnull(hook);
  kael_hook_remove(hook);
  ck_assert_int_eq(log.destroyed, 1);
  OK(backward(made(kael_sum(twice(x)))));
  ck_assert_int_eq(log.calls, 0);
  HOLDS(kael_grad(x), 2, 2);
  ck_assert_ptr_null(kael_register_hook(VEC(1), scale, &log, NULL));
  failed_with(kael_last_error().code, "cannot register a hook on a tensor that doesn't require");
  end();
}
END_TEST

START_TEST(a_hook_stays_with_the_value_it_was_registered_for) {
  begin(_i);
  hook_log before = {.factor = 1}, after = {.factor = 1};
  T x = leaf(VEC(1, 2)), y = twice(x);
  kael_hook_release(kael_register_hook(y, scale, &before, NULL));
  OK(kael_mul_scalar_(y, kael_f(3)));
  kael_hook_release(kael_register_hook(y, scale, &after, NULL));
  OK(backward(made(kael_sum(y))));
  ck_assert_int_eq(before.calls, 1);
  ck_assert_int_eq(after.calls, 1);
  ck_assert_int_lt(after.order, before.order);
  end();
}
END_TEST

static kael_status wrong_shape(T grad, void *user, T *out_grad) {
  (void)grad;
  *out_grad = kael_retain((T)user);
  return KAEL_OK;
}
static kael_status nested(T grad, void *user, T *out_grad) {
  (void)grad;
  (void)out_grad;
  return backward((T)user);
}

START_TEST(hooks_may_fail_and_may_run_a_pass_of_their_own) {
  begin(_i);
  T x = leaf(VEC(1, 2)), y = twice(x), z = twice(x), other = leaf(VEC(5));
  kael_hook_release(kael_register_hook(y, wrong_shape, VEC(1, 2, 3), NULL));
  failed_with(backward(made(kael_sum(y))), "has changed the size of value");
  kael_hook_release(kael_register_hook(z, nested, twice(other), NULL));
  OK(backward(made(kael_sum(z))));
  HOLDS(kael_grad(other), 2);
  HOLDS(kael_grad(x), 2, 2);
  end();
}
END_TEST

/* --- Length ------------------------------------------------------------------------------------
 */

/* The chain's stack of 8 MiB would not hold a million frames. */
START_TEST(a_chain_of_a_million_nodes_is_differentiated_and_freed) {
  OK(kael_set_jit(_i ? KAEL_JIT_LAZY : KAEL_JIT_EAGER));
  T x = made(kael_scalar_tensor(kael_f(1), KAEL_F32)), y = kael_retain(leaf(x));
  const int n = _i ? 1000000 : 100000;
  for (int i = 0; i < n; i++) {
    T next = kael_add_scalar(y, kael_f(1));
    kael_release(y);
    y = made(next);
  }
  OK(backward(y));
  double grad;
  T g = made(kael_grad(x));
  OK(kael_item(g, &grad));
  ck_assert(grad == 1);
  kael_release(g);
  kael_release(y); /* frees the nodes */
  kael_release(x);
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("backward");
  TCase *t = tcase_create("both modes");
#define BOTH(name) tcase_add_loop_test(t, name, 0, 2)
  BOTH(gradients_accumulate_over_passes_and_paths);
  BOTH(equal_leaves_have_gradients_of_their_own);
  BOTH(the_users_seed_is_never_aliased);
  BOTH(grad_is_the_same_tensor_every_time);
  BOTH(gradients_have_the_leafs_layout);
  BOTH(a_second_pass_needs_retain_graph);
  BOTH(a_product_with_a_number_needs_retain_graph_too);
  BOTH(saved_tensors_are_checked_even_where_they_are_not_needed);
  BOTH(a_view_made_under_no_grad_of_a_leaf_ends_the_gradient);
  BOTH(roots_are_checked);
  BOTH(grad_gives_gradients_without_accumulating);
  BOTH(gradients_can_be_differentiated_again);
  BOTH(a_failing_pass_leaves_gradient_mode_as_it_was);
  BOTH(retain_grad_keeps_gradients_of_results);
  BOTH(hooks_run_in_order_and_replace_the_gradient);
  BOTH(a_removed_hook_no_longer_runs);
  BOTH(a_hook_stays_with_the_value_it_was_registered_for);
  BOTH(hooks_may_fail_and_may_run_a_pass_of_their_own);
  BOTH(a_chain_of_a_million_nodes_is_differentiated_and_freed);
  suite_add_tcase(s, t);
  return s;
}

int main(void) { return kl_test_run(suite()); }
