/* Operators on whole tensors: values made with PyTorch, errors; in eager and in lazy mode. */
#include <math.h>

#include "tests/support/tensors.h"

typedef kael_tensor *T;

START_TEST(factories_like_another_and_at_equal_distances) {
  kl_test_begin(_i);
  T x = kl_test_range(KAEL_I16, SHAPE(1, 2));
  CHECK_VALUES(MADE(kael_zeros_like(x)), 0, 0);
  CHECK_VALUES(MADE(kael_ones_like(x)), 1, 1);
  CHECK_VALUES(MADE(kael_full_like(x, kael_i(7))), 7, 7);
  ck_assert_int_eq(kael_dtype_of(MADE(kael_empty_like(x))), KAEL_I16);
  CHECK_SHAPE(MADE(kael_empty(SHAPE(2, 3), KAEL_F32)), 2, 3);
  CHECK_VALUES(MADE(kael_linspace(0, 1, 5, KAEL_F32)), 0, 0.25, 0.5, 0.75, 1);
  CHECK_VALUES(MADE(kael_linspace(-3, 7, 4, KAEL_F32)), -3, 0.33333325386047363, 3.6666667461395264,
               7);
  CHECK_VALUES(MADE(kael_linspace(0, 10, 4, KAEL_I64)), 0, 3, 6, 10);
  CHECK_VALUES(MADE(kael_linspace(3, 10, 1, KAEL_F64)), 3);
  CHECK_SHAPE(MADE(kael_linspace(3, 10, 0, KAEL_F64)), 0);
  CHECK_NULL(kael_linspace(0, 1, -1, KAEL_F32), KAEL_ERR_RUNTIME, "non-negative");
  kl_test_end();
}
END_TEST

START_TEST(rearrangements) {
  kl_test_begin(_i);
  T x = kl_test_range(KAEL_F32, SHAPE(2, 3));
  CHECK_VALUES(MADE(kael_stack((T[]){x, x}, 2, -1)), 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5);
  CHECK_SHAPE(MADE(kael_stack((T[]){x, x}, 2, 0)), 2, 2, 3);
  CHECK_NULL(kael_stack((T[]){x, MADE(kael_T(x))}, 2, 0), KAEL_ERR_RUNTIME, "equal size");
  CHECK_NULL(kael_stack(NULL, 0, 0), KAEL_ERR_RUNTIME, "non-empty");
  CHECK_NULL(kael_stack((T[]){x}, 1, 3), KAEL_ERR_INDEX, "");
  CHECK_VALUES(MADE(kael_flip(x, SHAPE(1))), 2, 1, 0, 5, 4, 3);
  CHECK_VALUES(MADE(kael_flip(MADE(kael_T(x)), SHAPE(0, -1))), 5, 2, 4, 1, 3, 0);
  CHECK_VALUES(MADE(kael_flip(x, 0, NULL)), 0, 1, 2, 3, 4, 5);
  CHECK_NULL(kael_flip(x, SHAPE(2)), KAEL_ERR_INDEX, "out of range");
  CHECK_VALUES(MADE(kael_roll(x, SHAPE(1), SHAPE(1))), 2, 0, 1, 5, 3, 4);
  CHECK_VALUES(MADE(kael_roll(x, SHAPE(-1), 0, NULL)), 1, 2, 3, 4, 5, 0);
  CHECK_VALUES(MADE(kael_roll(x, SHAPE(1, 4), SHAPE(0, 1))), 5, 3, 4, 2, 0, 1);
  CHECK_NULL(kael_roll(x, SHAPE(1, 2), SHAPE(1)), KAEL_ERR_RUNTIME, "must align");
  CHECK_VALUES(MADE(kael_tril(x, 0)), 0, 0, 0, 3, 4, 0);
  CHECK_VALUES(MADE(kael_triu(x, 1)), 0, 1, 2, 0, 0, 5);
  CHECK_NULL(kael_tril(MADE(kael_ones(SHAPE(2), KAEL_F32)), 0), KAEL_ERR_RUNTIME, "at least 2 dim");
  CHECK_SHAPE(MADE(kael_expand_as(MADE(kael_ones(SHAPE(3), KAEL_F32)), x)), 2, 3);
  kl_test_end();
}
END_TEST

START_TEST(products_losses_and_tables) {
  kl_test_begin(_i);
  T x = kl_test_range(KAEL_F32, SHAPE(2, 3)), v = kl_test_range(KAEL_F32, SHAPE(2));
  T batch = MADE(kael_reshape(x, SHAPE(1, 2, 3)));
  CHECK_VALUES(MADE(kael_bmm(batch, MADE(kael_transpose(batch, 1, 2)))), 5, 14, 14, 50);
  CHECK_NULL(kael_bmm(x, batch), KAEL_ERR_RUNTIME, "3D");
  CHECK_VALUES(MADE(kael_outer(v, MADE(kael_select(x, 0, 1)))), 0, 0, 0, 3, 4, 5);
  CHECK_VALUES(MADE(kael_addmm(v, x, MADE(kael_T(x)), kael_i(2), kael_i(1))), 5, 16, 14, 52);
  T nan = MADE(kael_full(SHAPE(2), kael_f(NAN), KAEL_F32));
  CHECK_VALUES(MADE(kael_addmm(nan, x, MADE(kael_T(x)), kael_i(0), kael_f(2))), 10, 28, 28, 100);
  CHECK_VALUES(MADE(kael_mse_loss(x, MADE(kael_ones_like(x)), KAEL_REDUCTION_SUM)), 31);
  CHECK_VALUES(MADE(kael_mse_loss(v, MADE(kael_ones_like(v)), KAEL_REDUCTION_NONE)), 1, 0);
  T index = kl_test_vector(KAEL_I64, VALUES(1, 0));
  CHECK_VALUES(MADE(kael_embedding(x, index)), 3, 4, 5, 0, 1, 2);
  CHECK_NULL(kael_embedding(x, kl_test_vector(KAEL_I64, VALUES(2))), KAEL_ERR_INDEX,
             "out of bounds");
  CHECK_VALUES(MADE(kael_one_hot(index, 3)), 0, 1, 0, 1, 0, 0);
  CHECK_VALUES(MADE(kael_one_hot(index, -1)), 0, 1, 1, 0);
  CHECK_VALUES(
      MADE(kael_one_hot(MADE(kael_argmax(kl_test_vector(KAEL_F32, VALUES(1, 2, 0, 0)))), -1)), 0,
      1);
  CHECK_NULL(kael_one_hot(index, 1), KAEL_ERR_RUNTIME, "smaller than num_classes");
  CHECK_NULL(kael_one_hot(kl_test_vector(KAEL_I64, VALUES(-1)), 3), KAEL_ERR_RUNTIME,
             "non-negative");
  kl_test_end();
}
END_TEST

START_TEST(comparisons_of_whole_tensors) {
  kl_test_begin(_i);
  bool holds;
  T x = kl_test_vector(KAEL_F32, VALUES(1, INFINITY)),
    y = kl_test_vector(KAEL_F32, VALUES(1.000001, INFINITY));
  T nan = kl_test_vector(KAEL_F32, VALUES(1, NAN));
#define CHECK_HOLDS(expected, call)                                                                \
  do {                                                                                             \
    OK(call);                                                                                      \
    ck_assert_int_eq(holds, expected);                                                             \
  } while (0)
  CHECK_HOLDS(true, kael_equal(x, x, &holds));
  CHECK_HOLDS(false, kael_equal(x, y, &holds));
  CHECK_HOLDS(false, kael_equal(nan, nan, &holds));
  CHECK_HOLDS(false, kael_equal(x, MADE(kael_unsqueeze(x, 0)), &holds));
  CHECK_HOLDS(true, kael_allclose(x, y, 1e-5, 1e-8, false, &holds));
  CHECK_HOLDS(false, kael_allclose(x, y, 1e-7, 0, false, &holds));
  CHECK_HOLDS(false, kael_allclose(nan, nan, 1, 1, false, &holds));
  CHECK_HOLDS(true, kael_allclose(nan, nan, 0, 0, true, &holds));
  CHECK_HOLDS(false, kael_allclose(x, MADE(kael_neg(x)), 1, 10, false, &holds));
  CHECK_STATUS(kael_equal(x, y, NULL), KAEL_ERR_VALUE, "NULL");
  CHECK_STATUS(kael_allclose(x, MADE(kael_to_dtype(x, KAEL_F64)), 0, 0, false, &holds),
               KAEL_ERR_RUNTIME, "did not match");
  kl_test_end();
}
END_TEST

START_TEST(an_index_is_judged_by_its_elements_not_by_what_it_could_be) {
  kl_test_begin(_i);
  T x = kl_test_range(KAEL_F32, SHAPE(3));
  T place = MADE(kael_argmax_dim(kl_test_vector(KAEL_F32, VALUES(1, 2, 0, 0, 0)), 0, true));
  CHECK_VALUES(MADE(kael_index_select(x, 0, place)), 1);
  T far = MADE(kael_argmax_dim(kl_test_vector(KAEL_F32, VALUES(1, 2, 0, 3, 0)), 0, true));
  CHECK_NULL(kael_index_select(x, 0, far), KAEL_ERR_INDEX, "index 3 is out of bounds");
  kl_test_end();
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("shape_ops");
  TCase *t = tcase_create("eager and lazy");
  tcase_add_loop_test(t, factories_like_another_and_at_equal_distances, 0, 2);
  tcase_add_loop_test(t, rearrangements, 0, 2);
  tcase_add_loop_test(t, products_losses_and_tables, 0, 2);
  tcase_add_loop_test(t, comparisons_of_whole_tensors, 0, 2);
  tcase_add_loop_test(t, an_index_is_judged_by_its_elements_not_by_what_it_could_be, 0, 2);
  suite_add_tcase(s, t);
  return s;
}

int main(void) { return kl_test_run(suite()); }
