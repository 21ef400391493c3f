/* The wider set of reductions: values made with PyTorch, in eager and in lazy mode. */
#include <math.h>

#include "tests/support/tensors.h"

typedef kael_tensor *T;

static T table(kael_dtype dtype) {
  return MADE(kael_reshape(kl_test_vector(dtype, VALUES(3, 1, 2, 0, 5, 4)), SHAPE(2, 3)));
}

START_TEST(products_and_extremes) {
  kl_test_begin(_i);
  T x = table(KAEL_F32), values, indices;
  CHECK_VALUES(MADE(kael_prod(x)), 0);
  CHECK_VALUES(MADE(kael_prod_dim(x, 0, false)), 0, 5, 8);
  T p = MADE(kael_prod(table(KAEL_U8)));
  ck_assert_int_eq(kael_dtype_of(p), KAEL_I64);
  CHECK_VALUES(MADE(kael_prod(MADE(kael_zeros(SHAPE(0), KAEL_F32)))), 1);
  CHECK_VALUES(MADE(kael_amin(x, SHAPE(1), false)), 1, 0);
  CHECK_VALUES(MADE(kael_max(x)), 5);
  CHECK_VALUES(MADE(kael_min(x)), 0);
  CHECK_VALUES(MADE(kael_argmin(x)), 3);
  CHECK_VALUES(MADE(kael_argmin_dim(x, 1, true)), 1, 0);
  OK(kael_max_dim(x, 1, false, &values, &indices));
  CHECK_VALUES(values, 3, 5);
  CHECK_VALUES(indices, 0, 1);
  OK(kael_min_dim(table(KAEL_I16), 0, true, &values, &indices));
  CHECK_SHAPE(values, 1, 3);
  CHECK_VALUES(values, 0, 1, 2);
  CHECK_VALUES(indices, 1, 0, 0);
  ck_assert_int_eq(kael_dtype_of(values), KAEL_I16);
  OK(kael_max_dim(MADE(kael_scalar_tensor(kael_i(3), KAEL_F32)), 0, false, &values, &indices));
  CHECK_VALUES(values, 3);
  CHECK_VALUES(indices, 0);
  T nothing = MADE(kael_zeros(SHAPE(0, 2), KAEL_F32));
  CHECK_NULL(kael_max(nothing), KAEL_ERR_INDEX, "non-zero size");
  CHECK_NULL(kael_argmin(nothing), KAEL_ERR_INDEX, "non-zero size");
  CHECK_STATUS(kael_max_dim(x, 2, false, &values, &indices), KAEL_ERR_INDEX, "out of range");
  CHECK_STATUS(kael_max_dim(x, 0, false, NULL, &indices), KAEL_ERR_VALUE, "NULL");
  kl_test_end();
}
END_TEST

START_TEST(moments_and_norms) {
  kl_test_begin(_i);
  T x = table(KAEL_F64);
  CHECK_VALUES(MADE(kael_var(x, 0, NULL, 1, false)), 3.5);
  CHECK_VALUES(MADE(kael_var(x, SHAPE(1), 1, false)), 1, 7);
  CHECK_VALUES(MADE(kael_std(x, SHAPE(0), 0, true)), 1.5, 2, 1);
  CHECK_VALUES(MADE(kael_var(MADE(kael_ones(SHAPE(1), KAEL_F32)), 0, NULL, 1, false)), NAN);
  CHECK_VALUES(MADE(kael_norm(kl_test_vector(KAEL_F32, VALUES(3, -4)), 2, 0, NULL, false)), 5);
  CHECK_VALUES(MADE(kael_norm(x, 1, SHAPE(0), false)), 3, 6, 6);
  CHECK_VALUES(MADE(kael_norm(x, INFINITY, 0, NULL, false)), 5);
  CHECK_VALUES(MADE(kael_norm(x, -INFINITY, 0, NULL, false)), 0);
  CHECK_VALUES(MADE(kael_norm(x, 0, SHAPE(1), false)), 3, 2);
  CHECK_VALUES(MADE(kael_norm(kl_test_vector(KAEL_F16, VALUES(300, 400)), 2, 0, NULL, false)), 500);
  CHECK_VALUES(
      MADE(kael_logsumexp(kl_test_vector(KAEL_F32, VALUES(1000, -INFINITY)), SHAPE(0), false)),
      1000);
  CHECK_VALUES(
      MADE(kael_logsumexp(kl_test_vector(KAEL_F32, VALUES(-INFINITY, -INFINITY)), SHAPE(0), false)),
      -INFINITY);
  CHECK_VALUES(MADE(kael_count_nonzero(x, 0, NULL)), 5);
  CHECK_VALUES(MADE(kael_count_nonzero(x, SHAPE(0))), 1, 2, 2);
  CHECK_NULL(kael_var(table(KAEL_I32), 0, NULL, 1, false), KAEL_ERR_RUNTIME, "floating point");
  CHECK_NULL(kael_norm(table(KAEL_I32), 2, 0, NULL, false), KAEL_ERR_RUNTIME, "floating point");
  kl_test_end();
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("reduce");
  TCase *t = tcase_create("eager and lazy");
  tcase_add_loop_test(t, products_and_extremes, 0, 2);
  tcase_add_loop_test(t, moments_and_norms, 0, 2);
  suite_add_tcase(s, t);
  return s;
}

int main(void) { return kl_test_run(suite()); }
