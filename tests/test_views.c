/* Views: shapes, strides and offsets as PyTorch has them, and their errors. Every test runs in
 * eager and in lazy mode. */
#include "tests/support/tensors.h"

typedef kael_tensor *T;

START_TEST(view_and_reshape_follow_strides) {
  kl_test_begin(_i);
  T a = kl_test_range(KAEL_F32, SHAPE(2, 3, 4));
  T v = MADE(kael_view(a, SHAPE(6, -1)));
  CHECK_SHAPE(v, 6, 4);
  ck_assert(kael_shares_storage(a, v));
  T t = MADE(kael_transpose(a, 0, 1)); /* (3, 2, 4), strides (4, 12, 1) */
  CHECK_STRIDES(MADE(kael_view(t, SHAPE(3, 2, 2, 2))), 4, 12, 2, 1);
  CHECK_NULL(kael_view(t, SHAPE(6, 4)), KAEL_ERR_RUNTIME,
             "view size is not compatible with input tensor's size and stride");
  T copy = MADE(kael_reshape(t, SHAPE(6, 4)));
  ck_assert(!kael_shares_storage(copy, a));
  CHECK_VALUES(MADE(kael_select(copy, 0, 1)), 12, 13, 14, 15);
  CHECK_NULL(kael_view(a, SHAPE(5, -1)), KAEL_ERR_RUNTIME, "is invalid for input of size 24");
  CHECK_NULL(kael_view(a, SHAPE(-1, -1)), KAEL_ERR_RUNTIME, "only one dimension can be inferred");
  CHECK_NULL(kael_view(MADE(kael_zeros(SHAPE(0, 2), KAEL_F32)), SHAPE(-1, 0)), KAEL_ERR_RUNTIME,
             "ambiguous");
  CHECK_SHAPE(MADE(kael_flatten(a, 1, -1)), 2, 12);
  CHECK_SHAPE(MADE(kael_flatten(MADE(kael_zeros(SCALAR_SHAPE, KAEL_F32)), 0, -1)), 1);
  CHECK_SHAPE(MADE(kael_view(MADE(kael_zeros(SCALAR_SHAPE, KAEL_F32)), SHAPE(1, 1))), 1, 1);
  kl_test_end();
}
END_TEST

START_TEST(dims_can_be_put_in_another_order) {
  kl_test_begin(_i);
  T a = kl_test_range(KAEL_I32, SHAPE(2, 3, 4));
  T p = MADE(kael_permute(a, SHAPE(2, 0, -2)));
  CHECK_SHAPE(p, 4, 2, 3);
  CHECK_STRIDES(p, 1, 12, 4);
  CHECK_VALUES(MADE(kael_select(p, 0, 1)), 1, 5, 9, 13, 17, 21);
  CHECK_STRIDES(MADE(kael_T(a)), 1, 4, 12);
  CHECK_VALUES(MADE(kael_clone(MADE(kael_T(kl_test_range(KAEL_F32, SHAPE(2, 2)))))), 0, 2, 1, 3);
  CHECK_NULL(kael_permute(a, SHAPE(0, 1)), KAEL_ERR_RUNTIME, "number of dimensions");
  CHECK_NULL(kael_permute(a, SHAPE(0, 1, 1)), KAEL_ERR_RUNTIME, "duplicate dims");
  CHECK_NULL(kael_transpose(a, 0, 3), KAEL_ERR_INDEX,
             "Dimension out of range (expected to be in range of [-3, 2], but got 3)");
  kl_test_end();
}
END_TEST

START_TEST(slices_follow_python) {
  kl_test_begin(_i);
  T a = kl_test_range(KAEL_F32, SHAPE(10));
  CHECK_VALUES(MADE(kael_slice(a, 0, 2, -3, 2)), 2, 4, 6);
  CHECK_VALUES(MADE(kael_slice(a, 0, -100, 3, 1)), 0, 1, 2);
  CHECK_VALUES(MADE(kael_slice(a, 0, 8, KAEL_END, INT64_MAX)), 8);
  CHECK_SHAPE(MADE(kael_slice(a, -1, 5, 2, 1)), 0);
  CHECK_STRIDES(MADE(kael_slice(a, 0, KAEL_BEGIN, KAEL_END, 3)), 3);
  CHECK_NULL(kael_slice(a, 0, 0, 3, 0), KAEL_ERR_VALUE, "slice step must be positive");
  CHECK_NULL(kael_slice(a, 0, 0, 3, -1), KAEL_ERR_VALUE, "slice step must be positive");
  CHECK_VALUES(MADE(kael_narrow(a, 0, -2, 2)), 8, 9);
  CHECK_NULL(kael_narrow(a, 0, 5, 6), KAEL_ERR_RUNTIME,
             "start (5) + length (6) exceeds dimension size (10).");
  CHECK_VALUES(MADE(kael_select(a, 0, -1)), 9);
  CHECK_NULL(kael_select(a, 0, 10), KAEL_ERR_INDEX, "index 10 out of range");
  CHECK_NULL(kael_select(MADE(kael_select(a, 0, 0)), 0, 0), KAEL_ERR_INDEX, "0-dim tensor");
  kl_test_end();
}
END_TEST

START_TEST(expand_repeats_by_strides_of_zero) {
  kl_test_begin(_i);
  T a = kl_test_range(KAEL_F32, SHAPE(3, 1));
  T e = MADE(kael_expand(a, SHAPE(2, -1, 2)));
  CHECK_SHAPE(e, 2, 3, 2);
  CHECK_STRIDES(e, 0, 1, 0);
  CHECK_VALUES(e, 0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2);
  CHECK_NULL(
      kael_expand(a, SHAPE(4, 1)), KAEL_ERR_RUNTIME,
      "The expanded size of the tensor (4) must match the existing size (3) at non-singleton "
      "dimension 0.  Target sizes: [4, 1].  Tensor sizes: [3, 1]");
  CHECK_NULL(kael_expand(a, SHAPE(-1, 3, 1)), KAEL_ERR_RUNTIME,
             "leading, non-existing dimension 0");
  CHECK_NULL(kael_expand(a, SHAPE(3)), KAEL_ERR_RUNTIME, "number of sizes provided (1)");
  kl_test_end();
}
END_TEST

START_TEST(dims_of_size_one_come_and_go) {
  kl_test_begin(_i);
  T a = kl_test_range(KAEL_F32, SHAPE(1, 3, 1));
  CHECK_SHAPE(MADE(kael_squeeze(a)), 3);
  CHECK_SHAPE(MADE(kael_squeeze_dim(a, 0)), 3, 1);
  CHECK_SHAPE(MADE(kael_squeeze_dim(a, 1)), 1, 3, 1);
  T u = MADE(kael_unsqueeze(kl_test_range(KAEL_F32, SHAPE(2, 3)), 1));
  CHECK_SHAPE(u, 2, 1, 3);
  CHECK_STRIDES(u, 3, 3, 1);
  CHECK_STRIDES(MADE(kael_unsqueeze(kl_test_range(KAEL_F32, SHAPE(2, 3)), -1)), 3, 1, 1);
  CHECK_NULL(kael_unsqueeze(a, 4), KAEL_ERR_INDEX, "[-4, 3]");
  kl_test_end();
}
END_TEST

START_TEST(diagonals_are_views) {
  kl_test_begin(_i);
  T a = kl_test_range(KAEL_F32, SHAPE(3, 4));
  CHECK_VALUES(MADE(kael_diagonal(a, 0, 0, 1)), 0, 5, 10);
  CHECK_VALUES(MADE(kael_diagonal(a, 2, 0, 1)), 2, 7);
  CHECK_VALUES(MADE(kael_diagonal(a, -1, 0, 1)), 4, 9);
  CHECK_SHAPE(MADE(kael_diagonal(a, 4, 0, 1)), 0);
  CHECK_SHAPE(MADE(kael_diagonal(a, INT64_MIN, 0, 1)), 0);
  CHECK_SHAPE(MADE(kael_diagonal(kl_test_range(KAEL_F32, SHAPE(2, 3, 4)), 0, 0, -1)), 3, 2);
  OK(kael_zero_(MADE(kael_diagonal(a, 0, 0, 1))));
  CHECK_VALUES(a, 0, 1, 2, 3, 4, 0, 6, 7, 8, 9, 0, 11);
  CHECK_NULL(kael_diagonal(a, 0, 1, -1), KAEL_ERR_RUNTIME, "cannot be identical");
  kl_test_end();
}
END_TEST

START_TEST(as_strided_stays_inside_the_storage) {
  kl_test_begin(_i);
  T a = kl_test_range(KAEL_F32, SHAPE(6));
  CHECK_VALUES(MADE(kael_as_strided(a, SHAPE(2, 2), (int64_t[]){1, 2}, 1)), 1, 3, 2, 4);
  CHECK_VALUES(MADE(kael_as_strided(MADE(kael_narrow(a, 0, 4, 1)), SHAPE(2), (int64_t[]){1}, 0)), 0,
               1);
  CHECK_NULL(kael_as_strided(a, SHAPE(2, 2), (int64_t[]){3, 2}, 1), KAEL_ERR_RUNTIME,
             "out of bounds");
  CHECK_NULL(kael_as_strided(a, SHAPE(2), (int64_t[]){INT64_MAX}, 1), KAEL_ERR_RUNTIME,
             "out of bounds");
  kl_test_end();
}
END_TEST

START_TEST(unbind_split_and_chunk_cover_a_dim) {
  kl_test_begin(_i);
  T a = kl_test_range(KAEL_F32, SHAPE(2, 5)), views[5];
  int64_t count = 0;
  OK(kael_unbind(a, 1, views));
  CHECK_VALUES(views[4], 4, 9);
  OK(kael_split(a, 2, 1, views));
  CHECK_SHAPE(views[1], 2, 2);
  CHECK_VALUES(views[2], 4, 9);
  OK(kael_split_sizes(a, SHAPE(1, 4), 1, views));
  CHECK_VALUES(MADE(kael_select(views[1], 0, 0)), 1, 2, 3, 4);
  OK(kael_chunk(a, 4, 1, views, &count)); /* ceil(5 / 4) = 2 wide: three of them */
  ck_assert_int_eq(count, 3);
  CHECK_VALUES(views[2], 4, 9);
  CHECK_STATUS(kael_split_sizes(a, SHAPE(1, 3), 1, views), KAEL_ERR_RUNTIME, "sum exactly to 5");
  CHECK_STATUS(kael_split(a, 0, 1, views), KAEL_ERR_RUNTIME, "split_size=0");
  CHECK_STATUS(kael_chunk(a, 0, 1, views, &count), KAEL_ERR_RUNTIME, "greater than 0");
  OK(kael_fill_(views[0], kael_i(-1)));
  CHECK_VALUES(a, -1, -1, 2, 3, 4, -1, -1, 7, 8, 9);
  kl_test_end();
}
END_TEST

START_TEST(detach_shares_everything_but_history) {
  kl_test_begin(_i);
  T a = kl_test_range(KAEL_F32, SHAPE(2));
  T d = MADE(kael_detach(a));
  ck_assert(!kael_is_same(a, d) && kael_shares_storage(a, d));
  OK(kael_zero_(d));
  ck_assert_uint_eq(kael_version(a), 1);
  CHECK_VALUES(a, 0, 0);
  kl_test_end();
}
END_TEST

START_TEST(contiguous_copies_only_what_is_not) {
  kl_test_begin(_i);
  T a = kl_test_range(KAEL_F32, SHAPE(2, 3));
  ck_assert(kael_is_same(MADE(kael_contiguous(a)), a));
  T c = MADE(kael_contiguous(MADE(kael_T(a))));
  CHECK_STRIDES(c, 2, 1);
  CHECK_VALUES(c, 0, 3, 1, 4, 2, 5);
  kl_test_end();
}
END_TEST

START_TEST(results_keep_a_dense_permuted_layout) {
  kl_test_begin(_i);
  T a = kl_test_range(KAEL_F32, SHAPE(2, 3, 4));
  T p = MADE(kael_permute(a, SHAPE(1, 2, 0))); /* (3, 4, 2), strides (4, 1, 12) */
  CHECK_STRIDES(MADE(kael_neg(p)), 4, 1, 12);
  CHECK_STRIDES(MADE(kael_add(p, p)), 4, 1, 12);
  CHECK_STRIDES(MADE(kael_mul_scalar(p, kael_i(2))), 4, 1, 12);
  CHECK_STRIDES(MADE(kael_add(p, MADE(kael_contiguous(p)))), 4, 1, 12); /* the first one decides */
  CHECK_STRIDES(MADE(kael_add(MADE(kael_contiguous(p)), p)), 8, 2, 1);
  CHECK_STRIDES(MADE(kael_to_dtype(p, KAEL_F64)), 4, 1, 12);
  CHECK_STRIDES(MADE(kael_neg(MADE(
                    kael_slice(MADE(kael_T(kl_test_range(KAEL_F32, SHAPE(4, 4)))), 1, 0, 4, 2)))),
                1, 4); /* gaps are closed, the order stays */
  CHECK_STRIDES(MADE(kael_sum_dims(p, SHAPE(0), false)), 2, 1);
  CHECK_STRIDES(MADE(kael_softmax(p, 1)), 8, 2, 1);
  CHECK_VALUES(MADE(kael_select(MADE(kael_sub(MADE(kael_add(p, p)), p)), 0, 1)), 4, 16, 5, 17, 6,
               18, 7, 19);
  kl_test_end();
}
END_TEST

int main(void) {
  const TTest *const tests[] = {
      view_and_reshape_follow_strides,
      dims_can_be_put_in_another_order,
      slices_follow_python,
      expand_repeats_by_strides_of_zero,
      dims_of_size_one_come_and_go,
      diagonals_are_views,
      as_strided_stays_inside_the_storage,
      unbind_split_and_chunk_cover_a_dim,
      detach_shares_everything_but_history,
      contiguous_copies_only_what_is_not,
      results_keep_a_dense_permuted_layout,
  };
  Suite *suite = suite_create("views");
  TCase *both = tcase_create("eager and lazy");
  for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
    tcase_add_loop_test(both, tests[i], 0, 2);
  suite_add_tcase(suite, both);
  return kl_test_run(suite);
}
