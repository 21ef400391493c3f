/* Autograd as operations are called: versions, writes in place and views, flags and modes. Every
 * test runs in eager and in lazy mode. */
#include "tests/support/autograd.h"

/* --- Versions ----------------------------------------------------------------------------------
 */

START_TEST(autograd_version_modifying_saved_input_throws) {
  begin(_i);
  T x = leaf(VEC(1, 2)), c = VEC(3, 4);
  T y = made(kael_sum(kael_mul(x, c)));
  OK(kael_add_scalar_(c, kael_f(1)));
  failed_with(
      backward(y),
      "one of the variables needed for gradient computation has been modified by an inplace "
      "operation");
  ck_assert_ptr_null(kael_grad(x));
  end();
}
END_TEST

START_TEST(the_version_error_names_operation_shape_and_versions) {
  begin(_i);
  T x = leaf(VEC(1, 2)), c = VEC(3, 4);
  T y = made(kael_sum(kael_mul(x, c)));
  OK(kael_add_scalar_(c, kael_f(1)));
  OK(kael_mul_scalar_(c, kael_f(2)));
  ck_assert_int_ne(backward(y), KAEL_OK);
  const char *message = kael_last_error().message;
  ck_assert_ptr_nonnull(strstr(message, "mul (MulBackward0)"));
  ck_assert_ptr_nonnull(strstr(message, "[2]"));
  ck_assert_ptr_nonnull(strstr(message, "is at version 2; expected version 0 instead"));
  end();
}
END_TEST

START_TEST(autograd_version_modifying_saved_output_through_detach_throws) {
  begin(_i);
  T a = leaf(VEC(1, 2)), s = made(kael_sigmoid(a));
  OK(kael_zero_(made(kael_detach(s))));
  failed_with(backward(made(kael_sum(s))), "modified by an inplace operation");
  end();
}
END_TEST

START_TEST(a_saved_view_shares_the_version_of_its_base) {
  begin(_i);
  T x = matrix(2, 3, 1), w = leaf(matrix(2, 2, 1));
  T y = made(kael_sum(kael_matmul(kael_T(x), w)));
  OK(kael_add_scalar_(x, kael_f(1)));
  failed_with(backward(y), "modified by an inplace operation");
  end();
}
END_TEST

START_TEST(operations_save_only_what_pytorch_saves) {
  begin(_i);
  T x = leaf(VEC(1, 2)), y = twice(x);
  T sum = made(kael_add(y, y)), e = made(kael_exp(y));
  T product = made(kael_mul(y, VEC(3, 4)));
  OK(kael_add_scalar_(y, kael_f(1))); /* neither add nor exp nor this mul saved y */
  OK(backward(made(kael_sum(kael_add(kael_add(sum, product), kael_mul_scalar(e, kael_f(0)))))));
  HOLDS(kael_grad(x), 10, 12);
  end();
}
END_TEST

START_TEST(writes_under_no_grad_bump_versions_too) {
  begin(_i);
  T x = leaf(VEC(1, 2)), w = leaf(VEC(3, 4)), y = made(kael_sum(kael_mul(x, w)));
  const bool former = kael_set_grad_enabled(false);
  OK(kael_add_scalar_(w, kael_f(1)));
  kael_set_grad_enabled(former);
  failed_with(backward(y), "modified by an inplace operation");
  end();
}
END_TEST

/* --- Writes in place ---------------------------------------------------------------------------
 */

START_TEST(leaves_and_their_views_refuse_writes) {
  begin(_i);
  T x = leaf(matrix(2, 2, 1)), y = VEC(1, 1);
  failed_with(kael_add_scalar_(x, kael_f(1)),
              "a leaf Variable that requires grad is being used in an in-place operation.");
  failed_with(
      kael_add_scalar_(kael_select(x, 0, 0), kael_f(1)),
      "a view of a leaf Variable that requires grad is being used in an in-place operation.");
  const bool former = kael_set_grad_enabled(false);
  OK(kael_add_scalar_(x, kael_f(1)));
  kael_set_grad_enabled(former);
  HOLDS(kael_detach(x), 2, 3, 4, 5);
  T view = made(kael_view(y, 1, (int64_t[]){2}));
  OK(kael_requires_grad_(view, true)); /* a leaf that is a view */
  failed_with(kael_add_scalar_(view, kael_f(1)), "a view of a leaf Variable");
  end();
}
END_TEST

START_TEST(views_of_a_function_with_several_views_refuse_writes) {
  begin(_i);
  T x = leaf(matrix(2, 2, 1)), y = twice(x), rows[2];
  OK(kael_unbind(y, 0, rows));
  grad_fn_is(rows[1], "UnbindBackward0");
  failed_with(
      kael_add_scalar_(rows[1], kael_f(1)),
      "Output 1 of Unbind is a view and is being modified inplace. This view is the output of "
      "a function that returns multiple views.");
  OK(kael_add_scalar_(y, kael_f(1)));
  ck_assert(kael_requires_grad(rows[0]));
  ck_assert_ptr_null(kael_grad_fn_name(rows[0]));
  failed_with(kael_last_error().code,
              "Output 0 of Unbind is a view and its base or another view of its base has been "
              "modified inplace.");
  end();
}
END_TEST

START_TEST(views_made_under_no_grad_refuse_writes_later) {
  begin(_i);
  T w = leaf(VEC(1, 2)), base = matrix(2, 2, 1);
  kael_set_grad_enabled(false);
  T view = made(kael_select(base, 0, 0));
  kael_set_grad_enabled(true);
  OK(kael_add_scalar_(view, kael_f(1))); /* nothing that requires grad takes part */
  failed_with(kael_mul_(view, w),
              "A view was created in no_grad mode and is being modified inplace");
  OK(kael_mul_(base, w));
  ck_assert(kael_requires_grad(view));
  ck_assert_ptr_null(kael_grad_fn_name(view));
  failed_with(kael_last_error().code, "its base or another view of its base has been modified");
  end();
}
END_TEST

START_TEST(views_made_in_inference_mode_refuse_writes_later) {
  begin(_i);
  T w = leaf(VEC(1, 2)), y = matrix(2, 2, 1);
  ck_assert(!kael_set_inference_mode(true));
  ck_assert(!kael_is_grad_enabled());
  T view = made(kael_select(y, 0, 0));
  ck_assert(kael_set_inference_mode(false));
  ck_assert(kael_is_grad_enabled());
  failed_with(kael_mul_(view, w), "A view was created in inference mode and is being modified");
  end();
}
END_TEST

START_TEST(a_write_through_a_view_becomes_history_of_the_base) {
  begin(_i);
  T w = leaf(VEC(3, 5)), base = matrix(2, 2, 1);
  T row = made(kael_select(base, 0, 0)), first = made(kael_narrow(row, 0, 0, 1));
  OK(kael_mul_(row, w));
  ck_assert(kael_requires_grad(base));
  grad_fn_is(base, "CopySlices");
  grad_fn_is(row, "AsStridedBackward0");
  grad_fn_is(first, "AsStridedBackward0");
  OK(backward(made(kael_sum(kael_mul(base, base)))));
  HOLDS(kael_grad(w), 6, 40); /* d/dw sum((x w)^2) = 2 x^2 w */
  end();
}
END_TEST

START_TEST(gradients_of_the_untouched_part_pass_by) {
  begin(_i);
  T x = leaf(matrix(2, 2, 1)), y = made(kael_mul_scalar(x, kael_f(3)));
  T column = made(kael_select(y, 1, 1));
  OK(kael_mul_scalar_(column, kael_f(10)));
  OK(kael_zero_(made(kael_narrow(column, 0, 0, 1))));
  OK(backward(made(kael_sum(y))));
  HOLDS(kael_grad(x), 3, 0, 3, 30);
  end();
}
END_TEST

START_TEST(a_view_made_before_a_write_to_the_base_sees_its_history) {
  begin(_i);
  T x = leaf(matrix(2, 2, 1)), y = twice(x), t = made(kael_T(y));
  OK(kael_mul_(y, matrix(2, 2, 1)));
  OK(backward(made(kael_sum(kael_select(t, 0, 1)))));
  HOLDS(kael_grad(x), 0, 4, 0, 8);
  end();
}
END_TEST

START_TEST(a_transposed_view_may_be_written_with_an_expanded_operand) {
  begin(_i);
  T w = leaf(VEC(2)), base = matrix(2, 3, 1), t = made(kael_T(base));
  OK(kael_mul_(t, kael_expand(w, 2, (int64_t[]){3, 2})));
  OK(backward(made(kael_sum(base))));
  HOLDS(kael_grad(w), 21);
  end();
}
END_TEST

/* PyTorch's rule: the view's history is renewed when it is asked for, and not by a write. */
START_TEST(a_view_counts_as_a_leaf_until_its_history_is_renewed) {
  begin(_i);
  T w = leaf(VEC(3, 5)), base = matrix(2, 2, 1), row = made(kael_select(base, 0, 1));
  OK(kael_mul_(base, w));
  failed_with(kael_mul_scalar_(row, kael_f(10)),
              "a leaf Variable that requires grad is being used");
  ck_assert(!kael_is_leaf(row));
  OK(kael_mul_scalar_(row, kael_f(10)));
  OK(backward(made(kael_sum(base))));
  HOLDS(kael_grad(w), 31, 42);
  end();
}
END_TEST

START_TEST(in_place_operations_save_the_old_contents) {
  begin(_i);
  T x = leaf(VEC(1, 2)), w = leaf(VEC(3, 4)), y = twice(x);
  OK(kael_mul_(y, w));
  OK(backward(made(kael_sum(y))));
  HOLDS(kael_grad(x), 6, 8);
  HOLDS(kael_grad(w), 2, 4);
  end();
}
END_TEST

START_TEST(in_place_operations_save_their_result) {
  begin(_i);
  T x = leaf(VEC(-1, 2, 8)), y = twice(x);
  OK(kael_relu_(y));
  OK(backward(made(kael_sum(y))));
  HOLDS(kael_grad(x), 0, 2, 2);
  T z = leaf(VEC(7, 2)), w = twice(z), last = made(kael_narrow(w, 0, 1, 1));
  OK(kael_sqrt_(last)); /* through a view, sqrt(4) = 2 */
  OK(backward(made(kael_sum(w))));
  HOLDS(kael_grad(z), 2, 0.5);
  end();
}
END_TEST

START_TEST(an_operand_that_is_self_counts_as_modified) {
  begin(_i);
  T x = leaf(VEC(1, 2)), y = twice(x);
  OK(kael_mul_(y, y));
  failed_with(backward(made(kael_sum(y))), "modified by an inplace operation");
  end();
}
END_TEST

START_TEST(overwritten_contents_get_a_zero_gradient) {
  begin(_i);
  T x = leaf(VEC(1, 2)), y = twice(x), b = leaf(VEC(5, 6)), z = twice(x);
  OK(kael_copy_(y, b));
  OK(kael_fill_(z, kael_f(1)));
  OK(kael_copy_(z, z));
  ck_assert_int_eq(kael_version(z), 2);
  OK(backward(made(kael_sum(kael_add(y, z)))));
  HOLDS(kael_grad(x), 0, 0);
  HOLDS(kael_grad(b), 1, 1);
  end();
}
END_TEST

START_TEST(detach_in_place_forgets_the_history) {
  begin(_i);
  T x = leaf(VEC(1, 1)), y = twice(x);
  OK(kael_detach_(y));
  ck_assert(!kael_requires_grad(y));
  ck_assert(!kael_requires_grad(made(kael_add_scalar(y, kael_f(1)))));
  ck_assert(kael_is_leaf(y));
  failed_with(kael_detach_(made(kael_select(twice(x), 0, 0))), "Can't detach views in-place.");
  end();
}
END_TEST

/* --- Flags and modes ---------------------------------------------------------------------------
 */

START_TEST(requires_grad_checks_dtype_and_leaf) {
  begin(_i);
  T x = leaf(VEC(1, 2)), y = twice(x);
  failed_with(kael_requires_grad_(made(kael_ones(1, (int64_t[]){2}, KAEL_I64)), true),
              "only Tensors of floating point dtype can require gradients");
  failed_with(kael_requires_grad_(y, false), "you can only change requires_grad flags of leaf");
  OK(kael_requires_grad_(y, true));
  ck_assert(!kael_is_leaf(y));
  ck_assert(kael_is_leaf(x));
  OK(kael_requires_grad_(x, false));
  ck_assert(!kael_requires_grad(x));
  end();
}
END_TEST

START_TEST(no_grad_and_enable_grad_nest) {
  begin(_i);
  T x = leaf(VEC(1, 1, 1));
  ck_assert(kael_set_grad_enabled(false));
  ck_assert(!kael_set_grad_enabled(true));
  T a = made(kael_add_scalar(x, kael_f(1)));
  kael_set_grad_enabled(false);
  T b = made(kael_add_scalar(x, kael_f(1)));
  kael_set_grad_enabled(true);
  OK(kael_add_scalar_(b, kael_f(5)));
  ck_assert(kael_requires_grad(a));
  ck_assert(!kael_requires_grad(b));
  HOLDS(kael_detach(a), 2, 2, 2);
  HOLDS(b, 7, 7, 7);
  end();
}
END_TEST

START_TEST(operations_without_a_gradient_are_not_tracked) {
  begin(_i);
  T x = leaf(VEC(1, 2));
  ck_assert(!kael_requires_grad(made(kael_gt_scalar(x, kael_f(1)))));
  ck_assert(!kael_requires_grad(made(kael_argmax(x))));
  ck_assert(!kael_requires_grad(made(kael_detach(x))));
  T y = twice(x);
  OK(kael_ge_scalar_(y, kael_f(3))); /* in place they end the history */
  OK(backward(made(kael_sum(y))));
  HOLDS(kael_grad(x), 0, 0);
  end();
}
END_TEST

START_TEST(a_comparison_in_place_gives_zeros_to_both_operands) {
  begin(_i);
  T x = leaf(VEC(1, 2)), w = leaf(VEC(2)), y = twice(x);
  OK(kael_lt_(y, w));
  grad_fn_is(y, "LtBackward0");
  OK(backward(made(kael_sum(y))));
  HOLDS(kael_grad(x), 0, 0);
  HOLDS(kael_grad(w), 0);
  T plain = VEC(1, 2);
  OK(kael_ne_(plain, w));
  ck_assert(kael_requires_grad(plain));
  end();
}
END_TEST

START_TEST(logical_operators_in_place_are_outside_of_autograd) {
  begin(_i);
  T x = leaf(VEC(3, 0)), y = twice(x), plain = VEC(0, 1);
  OK(kael_logical_not_(x)); /* a leaf, too */
  HOLDS(kael_detach(x), 0, 1);
  OK(kael_logical_and_(made(kael_select(y, 0, 0)), made(kael_select(x, 0, 0))));
  grad_fn_is(y, "MulBackward0");
  OK(backward(made(kael_sum(y))));
  HOLDS(kael_grad(x), 2, 2);
  OK(kael_logical_xor_(plain, x));
  ck_assert(!kael_requires_grad(plain));
  end();
}
END_TEST

START_TEST(a_leaf_that_no_longer_requires_grad_gets_none) {
  begin(_i);
  T x = leaf(VEC(1, 2)), w = leaf(VEC(3, 4)), y = made(kael_mul(x, w));
  OK(kael_requires_grad_(x, false));
  OK(backward(made(kael_sum(y))));
  ck_assert_ptr_null(kael_grad(x));
  HOLDS(kael_grad(w), 1, 2);
  end();
}
END_TEST

START_TEST(nodes_have_pytorchs_names) {
  begin(_i);
  T x = leaf(matrix(2, 2, 1));
  grad_fn_is(x, NULL);
  grad_fn_is(kael_add(x, x), "AddBackward0");
  grad_fn_is(kael_square(x), "PowBackward0");
  grad_fn_is(kael_sum(x), "SumBackward0");
  grad_fn_is(kael_sum_dims(x, 1, (int64_t[]){1}, false), "SumBackward1");
  grad_fn_is(kael_matmul(x, x), "MmBackward0");
  grad_fn_is(kael_view(x, 1, (int64_t[]){4}), "ViewBackward0");
  grad_fn_is(kael_unsqueeze(x, 0), "UnsqueezeBackward0");
  grad_fn_is(kael_cross_entropy(x, kael_zeros(1, (int64_t[]){2}, KAEL_I64), KAEL_REDUCTION_MEAN),
             "NllLossBackward0");
  end();
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("autograd");
  TCase *t = tcase_create("both modes");
#define BOTH(name) tcase_add_loop_test(t, name, 0, 2)
  BOTH(autograd_version_modifying_saved_input_throws);
  BOTH(the_version_error_names_operation_shape_and_versions);
  BOTH(autograd_version_modifying_saved_output_through_detach_throws);
  BOTH(a_saved_view_shares_the_version_of_its_base);
  BOTH(operations_save_only_what_pytorch_saves);
  BOTH(writes_under_no_grad_bump_versions_too);
  BOTH(leaves_and_their_views_refuse_writes);
  BOTH(views_of_a_function_with_several_views_refuse_writes);
  BOTH(views_made_under_no_grad_refuse_writes_later);
  BOTH(views_made_in_inference_mode_refuse_writes_later);
  BOTH(a_write_through_a_view_becomes_history_of_the_base);
  BOTH(gradients_of_the_untouched_part_pass_by);
  BOTH(a_view_made_before_a_write_to_the_base_sees_its_history);
  BOTH(a_transposed_view_may_be_written_with_an_expanded_operand);
  BOTH(a_view_counts_as_a_leaf_until_its_history_is_renewed);
  BOTH(in_place_operations_save_the_old_contents);
  BOTH(in_place_operations_save_their_result);
  BOTH(an_operand_that_is_self_counts_as_modified);
  BOTH(overwritten_contents_get_a_zero_gradient);
  BOTH(detach_in_place_forgets_the_history);
  BOTH(requires_grad_checks_dtype_and_leaf);
  BOTH(no_grad_and_enable_grad_nest);
  BOTH(operations_without_a_gradient_are_not_tracked);
  BOTH(a_comparison_in_place_gives_zeros_to_both_operands);
  BOTH(logical_operators_in_place_are_outside_of_autograd);
  BOTH(a_leaf_that_no_longer_requires_grad_gets_none);
  BOTH(nodes_have_pytorchs_names);
  suite_add_tcase(s, t);
  return s;
}

int main(void) { return kl_test_run(suite()); }
