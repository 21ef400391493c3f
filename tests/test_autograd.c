/* Autograd's machinery: versions, views and writes in place, hooks, the engine. Every test runs in
 * eager and in lazy mode. */
#include <math.h>
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

#define OK(call) ck_assert_msg((call) == KAEL_OK, "%s: %s", #call, kael_last_error().message)

static void begin(int mode) {
  OK(kael_set_jit(mode ? KAEL_JIT_LAZY : KAEL_JIT_EAGER));
  OK(kael_scope_begin());
}
static void end(void) {
  OK(kael_scope_end());
  OK(kael_set_jit(KAEL_JIT_DEFAULT));
}

/* Checks that the last call failed with a message that contains `text`. */
static void failed_with(kael_status status, const char *text) {
  ck_assert_int_ne(status, KAEL_OK);
  ck_assert_msg(strstr(kael_last_error().message, text) != NULL, "message: %s",
                kael_last_error().message);
  kael_clear_error();
}

static T made(T tensor) {
  ck_assert_msg(tensor != NULL, "%s", kael_last_error().message);
  return tensor;
}

static T vec(int n, const double *values) {
  const int64_t shape[1] = {n};
  float data[64];
  for (int i = 0; i < n; i++) data[i] = (float)values[i];
  return made(kael_from_data(data, 1, shape, KAEL_F32));
}
#define VEC(...)                                                                                   \
  vec((int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (double[]){__VA_ARGS__})

static T matrix(int rows, int cols, double first) {
  const int64_t shape[2] = {rows, cols};
  float data[64];
  for (int i = 0; i < rows * cols; i++) data[i] = (float)(first + i);
  return made(kael_from_data(data, 2, shape, KAEL_F32));
}

static T leaf(T tensor) {
  OK(kael_requires_grad_(tensor, true));
  return tensor;
}

static void holds(T tensor, int n, const double *expected) {
  made(tensor);
  float data[64];
  ck_assert_int_eq(kael_numel(tensor), n);
  OK(kael_copy_to_host(tensor, data, (size_t)n * sizeof(float)));
  for (int i = 0; i < n; i++)
    ck_assert_msg(data[i] == (float)expected[i], "element %d is %g, expected %g", i, data[i],
                  expected[i]);
}
#define HOLDS(tensor, ...)                                                                         \
  holds(tensor, (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (double[]){__VA_ARGS__})

static kael_status backward(T tensor) { return kael_backward(tensor, KAEL_NONE, false, false); }
static T twice(T x) { return made(kael_mul_scalar(x, kael_f(2))); }

static void grad_fn_is(T tensor, const char *name) {
  const char *actual = kael_grad_fn_name(tensor);
  if (!name)
    ck_assert_ptr_null(actual);
  else
    ck_assert_msg(actual && strcmp(actual, name) == 0, "grad_fn is %s, expected %s",
                  actual ? actual : "none", name);
}

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
  BOTH(nodes_have_pytorchs_names);
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
