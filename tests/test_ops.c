/* Operators: values, promotion, dtypes and errors as PyTorch has them. Every test runs in eager and
 * in lazy mode. */
#include <math.h>

#include "ir/support/memory.h"
#include "tests/support/tensors.h"

typedef kael_tensor *T;

static const kael_dtype dtypes[6] = {KAEL_BOOL, KAEL_U8, KAEL_I32, KAEL_I64, KAEL_F32, KAEL_F64};

static T ones(kael_dtype dtype, int ndim) { return MADE(kael_ones(ndim, (int64_t[]){2}, dtype)); }

static void check_dtype(T tensor, int expected, const char *what, int i, int j) {
  kl_test_made(tensor, what);
  ck_assert_msg(kael_dtype_of(tensor) == dtypes[expected], "%s of %s and %s gives %s", what,
                kael_dtype_name(dtypes[i]), j < 6 ? kael_dtype_name(dtypes[j]) : "a number",
                kael_dtype_name(kael_dtype_of(tensor)));
}

START_TEST(dtypes_promote_as_in_pytorch) {
  kl_test_begin(_i);
  /* Made with PyTorch: the index of the result's dtype for each pair. */
  static const int add[6][6] = {{0, 1, 2, 3, 4, 5}, {1, 1, 2, 3, 4, 5}, {2, 2, 2, 3, 4, 5},
                                {3, 3, 3, 3, 4, 5}, {4, 4, 4, 4, 4, 5}, {5, 5, 5, 5, 5, 5}};
  static const int with_0d[6][6] = {{0, 1, 2, 3, 4, 5}, {1, 1, 1, 1, 4, 5}, {2, 2, 2, 2, 4, 5},
                                    {3, 3, 3, 3, 4, 5}, {4, 4, 4, 4, 4, 4}, {5, 5, 5, 5, 5, 5}};
  static const int with_number[6][3] = {{0, 3, 4}, {1, 1, 4}, {2, 2, 4},
                                        {3, 3, 4}, {4, 4, 4}, {5, 5, 5}};
  const kael_scalar numbers[3] = {kael_b(true), kael_i(1), kael_f(1)};
  for (int i = 0; i < 6; i++) {
    T a = ones(dtypes[i], 1);
    for (int j = 0; j < 6; j++) {
      T b = ones(dtypes[j], 1);
      check_dtype(MADE(kael_add(a, b)), add[i][j], "add", i, j);
      check_dtype(MADE(kael_maximum(a, b)), add[i][j], "maximum", i, j);
      check_dtype(MADE(kael_div(a, b)), add[i][j] == 5 ? 5 : 4, "div", i, j);
      check_dtype(MADE(kael_lt(a, b)), 0, "lt", i, j);
      check_dtype(MADE(kael_logical_and(a, b)), 0, "logical_and", i, j);
      check_dtype(MADE(kael_add(a, ones(dtypes[j], 0))), with_0d[i][j], "add 0-d", i, j);
    }
    for (int j = 0; j < 3; j++)
      check_dtype(MADE(kael_add_scalar(a, numbers[j])), with_number[i][j], "add number", i, 6);
    check_dtype(MADE(kael_exp(a)), i == 5 ? 5 : 4, "exp", i, 6);
    check_dtype(MADE(kael_sum(a)), i < 4 ? 3 : i, "sum", i, 6);
    check_dtype(MADE(kael_any(a)), i == 1 ? 1 : 0, "any", i, 6);
    if (dtypes[i] == KAEL_BOOL)
      CHECK_NULL(kael_argmax(a), KAEL_ERR_RUNTIME, "does not support bool");
    else
      check_dtype(MADE(kael_argmax(a)), 3, "argmax", i, 6);
    check_dtype(MADE(kael_square(a)), i == 0 ? 3 : i, "square", i, 6);
  }
  kl_test_end();
}
END_TEST

START_TEST(unary_operators_have_their_values) {
  kl_test_begin(_i);
  T x = kl_test_vector(KAEL_F32, VALUES(-2, 0, 4, NAN));
  CHECK_VALUES(MADE(kael_neg(x)), 2, -0.0, -4, NAN);
  CHECK_VALUES(MADE(kael_abs(x)), 2, 0, 4, NAN);
  CHECK_VALUES(MADE(kael_relu(x)), 0, 0, 4, NAN);
  CHECK_VALUES(MADE(kael_sqrt(x)), NAN, 0, 2, NAN);
  CHECK_VALUES(MADE(kael_square(x)), 4, 0, 16, NAN);
  CHECK_VALUES(MADE(kael_reciprocal(x)), -0.5, INFINITY, 0.25, NAN);
  CHECK_VALUES(MADE(kael_logical_not(x)), 0, 1, 0, 0);
  CHECK_VALUES(MADE(kael_exp(MADE(kael_mul_scalar(x, kael_i(0))))), 1, 1, 1, NAN);
  CHECK_VALUES(MADE(kael_log(MADE(kael_abs(MADE(kael_narrow(x, 0, 1, 1)))))), -INFINITY);
  CHECK_VALUES(MADE(kael_sigmoid(MADE(kael_narrow(x, 0, 1, 1)))), 0.5);
  CHECK_VALUES(MADE(kael_tanh(MADE(kael_narrow(x, 0, 1, 1)))), 0);
  CHECK_VALUES(MADE(kael_abs(kl_test_vector(KAEL_I32, VALUES(INT32_MIN, -3)))), INT32_MIN, 3);
  CHECK_NULL(kael_neg(ones(KAEL_BOOL, 1)), KAEL_ERR_RUNTIME, "Negation, the `-` operator");
  CHECK_NULL(kael_sub(ones(KAEL_BOOL, 1), ones(KAEL_BOOL, 1)), KAEL_ERR_RUNTIME,
             "Subtraction, the `-` operator, with two bool tensors");
  CHECK_NULL(kael_sub(ones(KAEL_I32, 1), ones(KAEL_BOOL, 1)), KAEL_ERR_RUNTIME,
             "Subtraction, the `-` operator, with a bool tensor");
  kl_test_end();
}
END_TEST

START_TEST(binary_operators_have_their_values_and_their_form_in_place) {
  kl_test_begin(_i);
  T a = kl_test_vector(KAEL_I32, VALUES(7, -7, 0)), b = kl_test_vector(KAEL_I32, VALUES(2, 2, 5));
  CHECK_VALUES(MADE(kael_add(a, b)), 9, -5, 5);
  CHECK_VALUES(MADE(kael_sub(a, b)), 5, -9, -5);
  CHECK_VALUES(MADE(kael_mul(a, b)), 14, -14, 0);
  CHECK_VALUES(MADE(kael_div(a, b)), 3.5, -3.5, 0);
  CHECK_VALUES(MADE(kael_maximum(a, b)), 7, 2, 5);
  CHECK_VALUES(MADE(kael_minimum(a, b)), 2, -7, 0);
  CHECK_VALUES(MADE(kael_eq(a, a)), 1, 1, 1);
  CHECK_VALUES(MADE(kael_ne(a, b)), 1, 1, 1);
  CHECK_VALUES(MADE(kael_lt(a, b)), 0, 1, 1);
  CHECK_VALUES(MADE(kael_le_scalar(a, kael_f(-6.5))), 0, 1, 0);
  CHECK_VALUES(MADE(kael_gt(a, b)), 1, 0, 0);
  CHECK_VALUES(MADE(kael_ge_scalar(a, kael_i(0))), 1, 0, 1);
  CHECK_VALUES(MADE(kael_logical_and(a, b)), 1, 1, 0);
  CHECK_VALUES(MADE(kael_logical_or_scalar(a, kael_i(0))), 1, 1, 0);
  CHECK_VALUES(MADE(kael_logical_xor(a, b)), 0, 0, 1);
  CHECK_VALUES(MADE(kael_add(ones(KAEL_BOOL, 1), ones(KAEL_BOOL, 1))), 1, 1);
  OK(kael_sub_(a, b));
  OK(kael_maximum_scalar_(a, kael_i(-5)));
  CHECK_VALUES(a, 5, -5, -5);
  OK(kael_lt_(a, b));
  CHECK_VALUES(a, 0, 1, 1);
  OK(kael_logical_not_(a));
  CHECK_VALUES(a, 1, 0, 0);
  ck_assert_uint_eq(kael_version(a), 4);
  T big = MADE(kael_scalar_tensor(kael_i(INT64_C(9007199254740993)), KAEL_I64));
  int64_t exact;
  OK(kael_item_int(MADE(kael_add_scalar(big, kael_i(2))), &exact));
  ck_assert_int_eq(exact, INT64_C(9007199254740995));
  CHECK_VALUES(
      MADE(kael_add(kl_test_range(KAEL_F32, SHAPE(2, 1)), kl_test_range(KAEL_F32, SHAPE(3)))), 0, 1,
      2, 1, 2, 3);
  kl_test_end();
}
END_TEST

START_TEST(pow_where_masked_fill_and_casts) {
  kl_test_begin(_i);
  T x = kl_test_vector(KAEL_F32, VALUES(-2, 0.25, 4));
  CHECK_VALUES(MADE(kael_pow(x, kael_i(2))), 4, 0.0625, 16);
  CHECK_VALUES(MADE(kael_pow(x, kael_i(3))), -8, 0.015625, 64);
  CHECK_VALUES(MADE(kael_pow(x, kael_f(0.5))), NAN, 0.5, 2);
  CHECK_VALUES(MADE(kael_pow(x, kael_i(-1))), -0.5, 4, 0.25);
  CHECK_VALUES(MADE(kael_pow(x, kael_i(-2))), 0.25, 16, 0.0625);
  CHECK_VALUES(MADE(kael_pow(x, kael_i(0))), 1, 1, 1);
  T n = kl_test_vector(KAEL_I64, VALUES(-3, 2));
  CHECK_VALUES(MADE(kael_pow(n, kael_i(5))), -243, 32);
  CHECK_NULL(kael_pow(n, kael_i(-1)), KAEL_ERR_RUNTIME, "negative integer powers");
  OK(kael_pow_(n, kael_i(2)));
  CHECK_VALUES(n, 9, 4);
  T mask = MADE(kael_gt_scalar(x, kael_i(0)));
  CHECK_VALUES(MADE(kael_where(mask, x, MADE(kael_scalar_tensor(kael_i(9), KAEL_I64)))), 9, 0.25,
               4);
  CHECK_NULL(kael_where(x, x, x), KAEL_ERR_RUNTIME, "expected condition to be a boolean tensor");
  CHECK_VALUES(MADE(kael_masked_fill(x, mask, kael_f(0.5))), -2, 0.5, 0.5);
  CHECK_NULL(kael_masked_fill(x, x, kael_i(0)), KAEL_ERR_RUNTIME, "only supports boolean masks");
  OK(kael_masked_fill_(x, mask, kael_i(7)));
  CHECK_VALUES(x, -2, 7, 7);
  T f = kl_test_vector(KAEL_F64, VALUES(1e20, -1e20, NAN, 300.7));
  CHECK_VALUES(MADE(kael_to_dtype(f, KAEL_I32)), INT32_MAX, INT32_MIN, 0, 300);
  CHECK_VALUES(MADE(kael_to_dtype(f, KAEL_BOOL)), 1, 1, 1, 1);
  ck_assert(kael_is_same(MADE(kael_to_dtype(f, KAEL_F64)), f));
  CHECK_NULL(kael_to_dtype(f, (kael_dtype)10), KAEL_ERR_VALUE, "10 is no dtype");
  CHECK_STATUS(kael_fill_(MADE(kael_zeros(SHAPE(2), KAEL_U8)), kael_i(256)), KAEL_ERR_RUNTIME,
               "without overflow");
  kl_test_end();
}
END_TEST

START_TEST(ranges_of_integers_cut_their_numbers) {
  kl_test_begin(_i);
  CHECK_VALUES(MADE(kael_arange(kael_i(3), kael_i(-4), kael_f(-1.5), KAEL_I64)), 3, 2, 1, 0, -1);
  CHECK_VALUES(MADE(kael_arange(kael_f(-1.5), kael_f(2.25), kael_f(1), KAEL_I32)), -1, 0, 1, 2);
  CHECK_VALUES(MADE(kael_arange(kael_f(-1.5), kael_f(2.25), kael_i(3), KAEL_U8)), 255, 2);
  CHECK_VALUES(MADE(kael_arange(kael_i(0), kael_f(2), kael_f(0.5), KAEL_I32)), 0, 0, 0, 0);
  CHECK_NULL(kael_arange(kael_i(0), kael_i(2), kael_f(0), KAEL_I64), KAEL_ERR_RUNTIME, "nonzero");
  CHECK_NULL(kael_arange(kael_f(NAN), kael_i(2), kael_i(1), KAEL_I64), KAEL_ERR_RUNTIME, "arange");
  CHECK_NULL(kael_arange(kael_i(0), kael_i(2), kael_i(1), KAEL_BOOL), KAEL_ERR_RUNTIME, "bool");
  kl_test_end();
}
END_TEST

START_TEST(odd_operands_of_cat_and_of_indexing_are_those_of_pytorch) {
  kl_test_begin(_i);
  T none = MADE(kael_zeros(SHAPE(0), KAEL_F32)), one = MADE(kael_ones(0, NULL, KAEL_F32));
  CHECK_SHAPE(MADE(kael_cat((T[]){none, none}, 2, 5)), 0); /* nothing to look for a dim in */
  T two = kl_test_vector(KAEL_I64, VALUES(0, 0));
  CHECK_NULL(kael_index_select(one, 0, two), KAEL_ERR_RUNTIME, "can have only 1 value");
  T empty = MADE(kael_zeros(SHAPE(0), KAEL_F64)), a = kl_test_range(KAEL_F32, SHAPE(3));
  CHECK_SHAPE(MADE(kael_gather(a, 0, empty)), 0); /* an index of no element has any dtype */
  CHECK_NULL(kael_gather(a, 0, a), KAEL_ERR_RUNTIME, "dtype int32/int64");
  CHECK_VALUES(MADE(kael_scatter_add(a, 0, empty, a)), 0, 1, 2);
  kl_test_end();
}
END_TEST

START_TEST(numbers_must_fit_the_dtype_as_in_pytorch) {
  kl_test_begin(_i);
  T u = MADE(kael_zeros(SHAPE(2), KAEL_U8)), f = MADE(kael_zeros(SHAPE(2), KAEL_F32));
  T n = MADE(kael_zeros(SHAPE(2), KAEL_I32)), b = MADE(kael_ones(SHAPE(2), KAEL_BOOL));
  T first = kl_test_vector(KAEL_BOOL, VALUES(1, 0));
  OK(kael_fill_(u, kael_i(-255))); /* integers wrap in an unsigned dtype */
  CHECK_VALUES(u, 1, 1);
  OK(kael_fill_(u, kael_f(254.75)));
  CHECK_VALUES(u, 254, 254);
  static const double too_much[] = {255.5, -0.5, NAN, INFINITY};
  for (int i = 0; i < 4; i++)
    CHECK_STATUS(kael_fill_(u, kael_f(too_much[i])), KAEL_ERR_RUNTIME, "without overflow");
  CHECK_STATUS(kael_fill_(u, kael_i(256)), KAEL_ERR_RUNTIME, "without overflow");
  CHECK_STATUS(kael_fill_(u, kael_i(-256)), KAEL_ERR_RUNTIME, "without overflow");
  CHECK_STATUS(kael_fill_(f, kael_f(1e40)), KAEL_ERR_RUNTIME, "without overflow");
  CHECK_NULL(kael_full(0, NULL, kael_f(-1e40), KAEL_F32), KAEL_ERR_RUNTIME, "without overflow");
  OK(kael_fill_(f, kael_f(-INFINITY)));
  CHECK_VALUES(f, -INFINITY, -INFINITY);
  CHECK_VALUES(MADE(kael_masked_fill(n, first, kael_f(-1.75))), -1, 0);
  CHECK_NULL(kael_masked_fill(n, first, kael_f(NAN)), KAEL_ERR_RUNTIME, "without overflow");
  CHECK_VALUES(MADE(kael_masked_fill(first, b, kael_f(0.25))), 1, 1);
  CHECK_NULL(kael_pow(u, kael_i(300)), KAEL_ERR_RUNTIME, "without overflow");
  CHECK_VALUES(MADE(kael_pow(first, kael_b(true))), 1, 0);
  CHECK_VALUES(MADE(kael_pow(first, kael_b(false))), 1, 1);
  kl_test_end();
}
END_TEST

START_TEST(masked_fill_takes_an_expanded_tensor) {
  kl_test_begin(_i);
  T a = kl_test_range(KAEL_F32, SHAPE(3, 1)), wide = MADE(kael_expand(a, SHAPE(2, 3, 2)));
  T mask = MADE(kael_zeros(SHAPE(3, 2), KAEL_BOOL));
  OK(kael_fill_(MADE(kael_select(MADE(kael_select(mask, 0, 1)), 0, 1)), kael_b(true)));
  OK(kael_masked_fill_(wide, mask, kael_i(7)));
  CHECK_VALUES(a, 0, 7, 2);
  ck_assert_uint_eq(kael_version(a), 1);
  T overlapping = MADE(kael_as_strided(a, SHAPE(2, 2), (int64_t[]){1, 1}, 0));
  CHECK_STATUS(kael_masked_fill_(overlapping, kl_test_vector(KAEL_BOOL, VALUES(1, 0)), kael_i(1)),
               KAEL_ERR_RUNTIME, "call clone() first");
  T turned = MADE(kael_T(kl_test_range(KAEL_F32, SHAPE(2, 3))));
  ck_assert(kael_is_contiguous(
      MADE(kael_masked_fill(turned, MADE(kael_eye(3, 2, KAEL_BOOL)), kael_i(0)))));
  kl_test_end();
}
END_TEST

START_TEST(factories_make_what_they_say) {
  kl_test_begin(_i);
  CHECK_VALUES(MADE(kael_ones(SHAPE(2, 1), KAEL_BOOL)), 1, 1);
  CHECK_VALUES(MADE(kael_full(SCALAR_SHAPE, kael_f(2.5), KAEL_I32)), 2);
  CHECK_VALUES(MADE(kael_arange(kael_i(5), kael_i(-2), kael_i(-3), KAEL_I64)), 5, 2, -1);
  CHECK_VALUES(MADE(kael_arange(kael_f(0), kael_f(1), kael_f(0.25), KAEL_F32)), 0, 0.25, 0.5, 0.75);
  CHECK_VALUES(MADE(kael_arange(kael_i(3), kael_i(4), kael_i(1), KAEL_F64)), 3);
  CHECK_SHAPE(MADE(kael_arange(kael_i(3), kael_i(3), kael_i(1), KAEL_I64)), 0);
  CHECK_NULL(kael_arange(kael_i(0), kael_i(3), kael_i(0), KAEL_I64), KAEL_ERR_RUNTIME, "nonzero");
  CHECK_NULL(kael_arange(kael_i(0), kael_i(3), kael_i(-1), KAEL_I64), KAEL_ERR_RUNTIME,
             "step sign");
  CHECK_VALUES(MADE(kael_eye(2, 3, KAEL_F32)), 1, 0, 0, 0, 1, 0);
  CHECK_VALUES(MADE(kael_eye(1, 1, KAEL_I32)), 1);
  CHECK_SHAPE(MADE(kael_eye(0, 3, KAEL_F32)), 0, 3);
  CHECK_NULL(kael_zeros(SHAPE(2, -1), KAEL_F32), KAEL_ERR_RUNTIME, "negative dimension");
  CHECK_NULL(kael_zeros(SHAPE(INT64_MAX, 2), KAEL_F32), KAEL_ERR_RUNTIME, "larger than memory");
  CHECK_NULL(kael_zeros(SHAPE(2), (kael_dtype)99), KAEL_ERR_VALUE, "no dtype");
  CHECK_NULL(kael_from_data(NULL, SHAPE(2), KAEL_F32), KAEL_ERR_VALUE, "data is NULL");
  kl_test_end();
}
END_TEST

START_TEST(random_numbers_are_a_function_of_the_seed) {
  kl_test_begin(_i);
  enum { N = 1001 };
  static double first[N], again[N];
  for (int dtype = KAEL_F32; dtype <= KAEL_F64; dtype++) {
    for (int round = 0; round < 2; round++) {
      kael_manual_seed(42);
      T dropped = kael_rand(SHAPE(6), (kael_dtype)dtype); /* takes two counters though never run */
      ck_assert_ptr_nonnull(dropped);
      T u = MADE(kael_to_dtype(MADE(kael_rand(SHAPE(N), (kael_dtype)dtype)), KAEL_F64));
      OK(kael_copy_to_host(u, round ? again : first, sizeof first));
    }
    double mean = 0;
    for (int i = 0; i < N; i++) {
      ck_assert_double_eq(first[i], again[i]);
      ck_assert(first[i] >= 0 && first[i] < 1);
      mean += first[i] / N;
    }
    ck_assert_double_eq_tol(mean, 0.5, 0.05);
    T z = MADE(kael_to_dtype(MADE(kael_randn(SHAPE(N), (kael_dtype)dtype)), KAEL_F64));
    double variance;
    OK(kael_item(MADE(kael_mean(MADE(kael_square(z)))), &variance));
    ck_assert_double_eq_tol(variance, 1, 0.15);
  }
  CHECK_NULL(kael_rand(SHAPE(2), KAEL_I64), KAEL_ERR_RUNTIME, "must be floating");
  kl_test_end();
}
END_TEST

START_TEST(reductions_fold_the_dims_they_are_given) {
  kl_test_begin(_i);
  T a = kl_test_range(KAEL_F32, SHAPE(2, 3, 2));
  CHECK_VALUES(MADE(kael_sum(a)), 66);
  CHECK_VALUES(MADE(kael_sum_dims(a, SHAPE(0, -1), false)), 14, 22, 30);
  CHECK_SHAPE(MADE(kael_sum_dims(a, SHAPE(0, -1), true)), 1, 3, 1);
  CHECK_VALUES(MADE(kael_sum_dims(MADE(kael_T(a)), SHAPE(1), false)), 6, 24, 9, 27);
  CHECK_VALUES(MADE(kael_mean_dims(a, SHAPE(1), false)), 2, 3, 8, 9);
  CHECK_VALUES(MADE(kael_amax(a, SHAPE(1), false)), 4, 5, 10, 11);
  CHECK_VALUES(MADE(kael_amax(kl_test_vector(KAEL_F32, VALUES(1, NAN, 2)), 0, NULL, false)), NAN);
  CHECK_VALUES(MADE(kael_argmax(MADE(kael_T(a)))), 11);
  CHECK_VALUES(MADE(kael_argmax_dim(kl_test_vector(KAEL_F32, VALUES(1, 3, 3)), 0, true)), 1);
  CHECK_VALUES(MADE(kael_any_dims(a, SHAPE(0), false)), 1, 1, 1, 1, 1, 1);
  CHECK_VALUES(MADE(kael_all_dims(a, SHAPE(1, 2), false)), 0, 1);
  T none = MADE(kael_zeros(SHAPE(2, 0), KAEL_F32));
  CHECK_NULL(kael_amax(none, 0, NULL, false), KAEL_ERR_RUNTIME, "reduction dim to be specified");
  CHECK_NULL(kael_amax(none, SHAPE(1), false), KAEL_ERR_INDEX, "non-zero size");
  CHECK_VALUES(MADE(kael_sum_dims(none, SHAPE(1), false)), 0, 0);
  CHECK_VALUES(MADE(kael_mean(none)), NAN);
  CHECK_VALUES(MADE(kael_all(none)), 1);
  CHECK_NULL(kael_amax(none, SHAPE(1), false), KAEL_ERR_INDEX, "Expected reduction dim 1");
  CHECK_SHAPE(MADE(kael_amax(none, SHAPE(0), false)), 0);
  CHECK_VALUES(MADE(kael_sum_dims(MADE(kael_scalar_tensor(kael_i(3), KAEL_F32)), SHAPE(-1), false)),
               3);
  CHECK_NULL(kael_sum_dims(a, SHAPE(0, 0), false), KAEL_ERR_RUNTIME, "appears multiple times");
  CHECK_NULL(kael_sum_dims(a, SHAPE(3), false), KAEL_ERR_INDEX, "Dimension out of range");
  CHECK_NULL(kael_mean(kl_test_range(KAEL_I64, SHAPE(2))), KAEL_ERR_RUNTIME,
             "could not infer output dtype");
  kl_test_end();
}
END_TEST

START_TEST(matmul_takes_vectors_matrices_and_batches) {
  kl_test_begin(_i);
  T m = kl_test_range(KAEL_F32, SHAPE(2, 3)), v = kl_test_range(KAEL_F32, SHAPE(3));
  CHECK_VALUES(MADE(kael_matmul(v, v)), 5);
  CHECK_VALUES(MADE(kael_matmul(m, v)), 5, 14);
  CHECK_VALUES(MADE(kael_matmul(kl_test_range(KAEL_F32, SHAPE(2)), m)), 3, 4, 5);
  CHECK_VALUES(MADE(kael_matmul(m, MADE(kael_T(m)))), 5, 14, 14, 50);
  T batch = kl_test_range(KAEL_F32, SHAPE(2, 1, 2, 3));
  T product = MADE(kael_matmul(batch, MADE(kael_expand(MADE(kael_T(m)), SHAPE(3, 3, 2)))));
  CHECK_SHAPE(product, 2, 3, 2, 2);
  CHECK_VALUES(MADE(kael_select(MADE(kael_select(product, 0, 1)), 0, 2)), 23, 86, 32, 122);
  CHECK_VALUES(MADE(kael_matmul(MADE(kael_squeeze_dim(batch, 1)), v)), 5, 14, 23, 32);
  CHECK_VALUES(
      MADE(kael_matmul(kl_test_range(KAEL_I64, SHAPE(1, 2)), kl_test_range(KAEL_I64, SHAPE(2, 1)))),
      1);
  CHECK_VALUES(MADE(kael_matmul(MADE(kael_zeros(SHAPE(1, 0), KAEL_F32)),
                                MADE(kael_zeros(SHAPE(0, 2), KAEL_F32)))),
               0, 0);
  CHECK_VALUES(MADE(kael_linear(v, m, kl_test_vector(KAEL_F32, VALUES(1, 2)))), 6, 16);
  CHECK_VALUES(MADE(kael_linear(MADE(kael_T(MADE(kael_T(m)))), m, KAEL_NONE)), 5, 14, 14, 50);
  CHECK_NULL(kael_matmul(m, m), KAEL_ERR_RUNTIME,
             "mat1 and mat2 shapes cannot be multiplied ([2, 3] and [2, 3])");
  CHECK_NULL(kael_matmul(m, MADE(kael_sum(m))), KAEL_ERR_RUNTIME, "at least 1D");
  CHECK_NULL(kael_matmul(m, MADE(kael_to_dtype(v, KAEL_F64))), KAEL_ERR_RUNTIME,
             "expected m1 and m2 to have the same dtype");
  CHECK_NULL(kael_linear(v, m, NULL), KAEL_ERR_VALUE, "NULL");
  kl_test_end();
}
END_TEST

START_TEST(softmax_and_losses) {
  kl_test_begin(_i);
  T x = MADE(kael_log(kl_test_vector(KAEL_F64, VALUES(1, 1, 1, 1)))); /* four zeros */
  CHECK_VALUES(MADE(kael_softmax(x, 0)), 0.25, 0.25, 0.25, 0.25);
  CHECK_VALUES(MADE(kael_softmax(kl_test_vector(KAEL_F32, VALUES(1000, 1000)), -1)), 0.5, 0.5);
  CHECK_VALUES(MADE(kael_log_softmax(kl_test_vector(KAEL_F32, VALUES(-1e30, 5)), 0)), (float)-1e30,
               0);
  CHECK_NULL(kael_softmax(kl_test_range(KAEL_I64, SHAPE(2)), 0), KAEL_ERR_NOT_IMPLEMENTED,
             "floating");
  T p = kl_test_range(KAEL_F32, SHAPE(2, 3)), target = kl_test_vector(KAEL_I64, VALUES(2, 0));
  CHECK_VALUES(MADE(kael_nll_loss(p, target, KAEL_REDUCTION_NONE)), -2, -3);
  CHECK_VALUES(MADE(kael_nll_loss(p, target, KAEL_REDUCTION_SUM)), -5);
  CHECK_VALUES(MADE(kael_nll_loss(p, target, KAEL_REDUCTION_MEAN)), -2.5);
  CHECK_VALUES(MADE(kael_nll_loss(MADE(kael_select(p, 0, 1)), MADE(kael_select(target, 0, 0)),
                                  KAEL_REDUCTION_MEAN)),
               -5);
  T uniform = MADE(kael_zeros(SHAPE(2, 4), KAEL_F64));
  CHECK_VALUES(MADE(kael_cross_entropy(uniform, target, KAEL_REDUCTION_MEAN)), log(4));
  CHECK_NULL(kael_nll_loss(p, kl_test_vector(KAEL_I64, VALUES(1, 3)), KAEL_REDUCTION_MEAN),
             KAEL_ERR_INDEX, "Target 3 is out of bounds.");
  CHECK_NULL(kael_cross_entropy(p, MADE(kael_neg(target)), KAEL_REDUCTION_MEAN), KAEL_ERR_INDEX,
             "Target -2 is out of bounds.");
  CHECK_NULL(kael_nll_loss(p, kl_test_range(KAEL_I64, SHAPE(3)), KAEL_REDUCTION_MEAN),
             KAEL_ERR_VALUE, "match target batch_size");
  kl_test_end();
}
END_TEST

START_TEST(indexing_checks_its_bounds_at_the_call) {
  kl_test_begin(_i);
  T a = kl_test_range(KAEL_F32, SHAPE(3, 2));
  T rows = kl_test_vector(KAEL_I64, VALUES(2, 0, 2));
  CHECK_VALUES(MADE(kael_index_select(a, 0, rows)), 4, 5, 0, 1, 4, 5);
  CHECK_VALUES(MADE(kael_index_select(MADE(kael_T(a)), 1, MADE(kael_to_dtype(rows, KAEL_I32)))), 4,
               0, 4, 5, 1, 5);
  CHECK_VALUES(
      MADE(kael_index_select(a, 0, MADE(kael_arange(kael_i(1), kael_i(3), kael_i(1), KAEL_I64)))),
      2, 3, 4, 5);
  T later = MADE(kael_add_scalar(rows, kael_i(1))); /* pending in lazy mode */
  CHECK_NULL(kael_index_select(a, 0, later), KAEL_ERR_INDEX,
             "index 3 is out of bounds for dimension 0 with size 3");
  CHECK_VALUES(MADE(kael_index_select(a, 0, MADE(kael_narrow(later, 0, 1, 1)))), 2, 3);
  CHECK_NULL(kael_index_select(a, 0, MADE(kael_neg(rows))), KAEL_ERR_INDEX, "index -2");
  T index = MADE(kael_view(kl_test_vector(KAEL_I64, VALUES(1, 0, 0)), SHAPE(3, 1)));
  CHECK_VALUES(MADE(kael_gather(a, 1, index)), 1, 2, 4);
  CHECK_NULL(kael_gather(a, 1, rows), KAEL_ERR_RUNTIME, "same number of dimensions");
  CHECK_NULL(kael_gather(a, 1, a), KAEL_ERR_RUNTIME, "Expected dtype int32/int64 for index");
  T sums = MADE(kael_scatter_add(MADE(kael_zeros(SHAPE(3), KAEL_F32)), 0, rows,
                                 kl_test_vector(KAEL_F32, VALUES(1, 10, 100))));
  CHECK_VALUES(sums, 10, 0, 101);
  ck_assert_uint_eq(kael_version(sums), 0);
  CHECK_STATUS(kael_scatter_add_(a, 1, index, kl_test_vector(KAEL_F32, VALUES(0))),
               KAEL_ERR_RUNTIME, "same number of dimensions");
  OK(kael_scatter_add_(a, 1, index, kl_test_range(KAEL_F32, SHAPE(3, 1))));
  CHECK_VALUES(a, 0, 1, 3, 3, 6, 5);
  kl_test_end();
}
END_TEST

START_TEST(cat_joins_and_promotes) {
  kl_test_begin(_i);
  T a = kl_test_range(KAEL_I32, SHAPE(2, 1)), b = kl_test_range(KAEL_F32, SHAPE(2, 2));
  T nothing = MADE(kael_zeros(SHAPE(0), KAEL_F32));
  T joined = MADE(kael_cat((T[]){a, nothing, MADE(kael_T(b)), a}, 4, -1));
  CHECK_SHAPE(joined, 2, 4);
  CHECK_VALUES(joined, 0, 0, 2, 0, 1, 1, 3, 1);
  ck_assert_uint_eq(kael_version(joined), 0);
  ck_assert_int_eq(kael_dtype_of(joined), KAEL_F32);
  CHECK_VALUES(MADE(kael_cat(&a, 1, 0)), 0, 1);
  CHECK_NULL(
      kael_cat((T[]){a, kl_test_range(KAEL_I32, SHAPE(3, 1))}, 2, 1), KAEL_ERR_RUNTIME,
      "Sizes of tensors must match except in dimension 1. Expected size 2 but got size 3 for "
      "tensor number 1 in the list.");
  CHECK_NULL(kael_cat(NULL, 0, 0), KAEL_ERR_VALUE, "non-empty list");
  kl_test_end();
}
END_TEST

/* A program that reaches most of the front end; false when a call failed. */
static bool run_program(T a, T rows, double *out_value) {
  T m = kael_matmul(a, kael_T(a));
  T c = kael_cat((T[]){kael_softmax(m, 1), kael_index_select(m, 0, rows)}, 2, 0);
  T w = kael_where(kael_gt_scalar(c, kael_i(1)), c,
                   kael_arange(kael_i(0), kael_i(2), kael_i(1), KAEL_I32));
  if (kael_add_(kael_select(w, 0, 0), kael_rand(2, (int64_t[]){1, 1}, KAEL_F32)) == KAEL_OK)
    return false;
  if (kael_add_scalar_(kael_select(w, 1, 0), kael_i(1)) != KAEL_OK) return false;
  if (kael_masked_fill_(w, kael_eye(4, 2, KAEL_BOOL), kael_i(2)) != KAEL_OK) return false;
  return kael_item(kael_sum(kael_pow(kael_reshape(kael_T(w), 1, (int64_t[]){8}), kael_i(3))),
                   out_value) == KAEL_OK;
}

START_TEST(any_allocation_may_fail) {
  kl_test_begin(_i);
  T a = kl_test_range(KAEL_F32, SHAPE(2, 2)), rows = kl_test_vector(KAEL_I64, VALUES(1, 0));
  OK(kael_eval((T[]){a, rows}, 2));
  double expected, found = 0;
  ck_assert_msg(run_program(a, rows, &expected), "%s", kael_last_error().message);
  int n_failures = 0;
  for (long nth = 1;; nth++) {
    kael_clear_error();
    if (kael_scope_begin() != KAEL_OK) continue;
    kl_memory_fail_nth(nth);
    bool done = run_program(a, rows, &found);
    kl_memory_fail_nth(0);
    if (!done) {
      n_failures++;
      ck_assert_msg(kael_last_error().code == KAEL_ERR_OUT_OF_MEMORY, "allocation %ld: %s", nth,
                    kael_last_error().message);
    }
    OK(kael_scope_end());
    if (done && nth > 200 && n_failures < nth - 100) break;
    ck_assert_int_lt(nth, 100000);
  }
  ck_assert_int_gt(n_failures, 50);
  ck_assert_double_eq(found, expected);
  CHECK_VALUES(a, 0, 1, 2, 3);
  kl_test_end();
}
END_TEST

int main(void) {
  const TTest *const tests[] = {
      dtypes_promote_as_in_pytorch,
      unary_operators_have_their_values,
      binary_operators_have_their_values_and_their_form_in_place,
      pow_where_masked_fill_and_casts,
      ranges_of_integers_cut_their_numbers,
      odd_operands_of_cat_and_of_indexing_are_those_of_pytorch,
      numbers_must_fit_the_dtype_as_in_pytorch,
      masked_fill_takes_an_expanded_tensor,
      factories_make_what_they_say,
      random_numbers_are_a_function_of_the_seed,
      reductions_fold_the_dims_they_are_given,
      matmul_takes_vectors_matrices_and_batches,
      softmax_and_losses,
      indexing_checks_its_bounds_at_the_call,
      cat_joins_and_promotes,
      any_allocation_may_fail,
  };
  Suite *suite = suite_create("ops");
  TCase *both = tcase_create("eager and lazy");
  for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
    tcase_add_loop_test(both, tests[i], 0, 2);
  suite_add_tcase(suite, both);
  return kl_test_run(suite);
}
