/* Calls that a careless or hostile caller makes: each is an error with a message, or does what the
 * header says; none reads or writes outside a tensor. Every test runs in eager and in lazy mode. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/tensors.h"

typedef kael_tensor *T;

#define BIG (INT64_C(1) << 40)

/* --- Operands that are missing -------------------------------------------------------------------
 */

#define UNARY(X) X(neg) X(abs) X(exp) X(log) X(sqrt) X(tanh) X(sigmoid) X(reciprocal) X(relu)      \
  X(square) X(logical_not)
#define BINARY(X) X(add) X(sub) X(mul) X(div) X(maximum) X(minimum) X(eq) X(ne) X(lt) X(le) X(gt)  \
  X(ge) X(logical_and) X(logical_or) X(logical_xor)

/* NULL keeps the stored error; KAEL_NONE is one of its own. */
#define NO_RESULT(call_with)                                                                       \
  do {                                                                                             \
    T missing = NULL;                                                                              \
    kael_clear_error();                                                                            \
    ck_assert_ptr_null(call_with);                                                                 \
    ck_assert_int_eq(kael_last_error().code, KAEL_ERR_VALUE);                                      \
    ck_assert_ptr_null(kael_view(x, 1, (int64_t[]){77}));                                          \
    kael_error first = kael_last_error();                                                          \
    ck_assert_ptr_null(call_with);                                                                 \
    ck_assert_int_eq(kael_last_error().code, first.code);                                          \
    ck_assert_ptr_nonnull(strstr(kael_last_error().message, "77"));                                \
    missing = KAEL_NONE;                                                                           \
    ck_assert_ptr_null(call_with);                                                                 \
    ck_assert_ptr_nonnull(strstr(kael_last_error().message, "KAEL_NONE"));                         \
    kael_clear_error();                                                                            \
  } while (0)
#define NO_STATUS(call_with) NO_RESULT((void *)(uintptr_t)((call_with) == KAEL_OK))

START_TEST(a_missing_operand_is_an_error_of_every_function) {
  kl_test_begin(_i);
  T x = kl_test_range(KAEL_F32, SHAPE(2, 2)), out[4];
  T index = kl_test_vector(KAEL_I64, VALUES(0, 1));
  int64_t dims[4] = {0}, count;
  double number;
#define CHECK(name)                                                                                \
  NO_RESULT(kael_##name(missing));                                                                 \
  NO_STATUS(kael_##name##_(missing));
  UNARY(CHECK)
#undef CHECK
#define CHECK(name)                                                                                \
  NO_RESULT(kael_##name(missing, x));                                                              \
  NO_RESULT(kael_##name(x, missing));                                                              \
  NO_RESULT(kael_##name##_scalar(missing, kael_i(1)));                                             \
  NO_STATUS(kael_##name##_(missing, x));                                                           \
  NO_STATUS(kael_##name##_(x, missing));                                                           \
  NO_STATUS(kael_##name##_scalar_(missing, kael_i(1)));
  BINARY(CHECK)
#undef CHECK
  NO_RESULT(kael_pow(missing, kael_i(2)));
  NO_STATUS(kael_pow_(missing, kael_i(2)));
  NO_RESULT(kael_where(missing, x, x));
  NO_RESULT(kael_where(x, missing, x));
  NO_RESULT(kael_where(x, x, missing));
  NO_RESULT(kael_masked_fill(missing, x, kael_i(1)));
  NO_RESULT(kael_masked_fill(x, missing, kael_i(1)));
  NO_STATUS(kael_masked_fill_(x, missing, kael_i(1)));
  NO_RESULT(kael_to_dtype(missing, KAEL_F64));
  NO_STATUS(kael_fill_(missing, kael_i(1)));
  NO_STATUS(kael_zero_(missing));
  NO_STATUS(kael_copy_(missing, x));
  NO_STATUS(kael_copy_(x, missing));
  NO_RESULT(kael_view(missing, 1, dims));
  NO_RESULT(kael_reshape(missing, 1, dims));
  NO_RESULT(kael_flatten(missing, 0, 0));
  NO_RESULT(kael_transpose(missing, 0, 0));
  NO_RESULT(kael_T(missing));
  NO_RESULT(kael_permute(missing, 1, dims));
  NO_RESULT(kael_slice(missing, 0, 0, 1, 1));
  NO_RESULT(kael_select(missing, 0, 0));
  NO_RESULT(kael_narrow(missing, 0, 0, 1));
  NO_RESULT(kael_expand(missing, 1, dims));
  NO_RESULT(kael_squeeze(missing));
  NO_RESULT(kael_squeeze_dim(missing, 0));
  NO_RESULT(kael_unsqueeze(missing, 0));
  NO_RESULT(kael_as_strided(missing, 1, dims, dims, 0));
  NO_RESULT(kael_diagonal(missing, 0, 0, 1));
  NO_RESULT(kael_detach(missing));
  NO_RESULT(kael_clone(missing));
  NO_RESULT(kael_contiguous(missing));
  NO_STATUS(kael_unbind(missing, 0, out));
  NO_STATUS(kael_split_sizes(missing, 1, dims, 0, out));
  NO_STATUS(kael_split(missing, 1, 0, out));
  NO_STATUS(kael_chunk(missing, 1, 0, out, &count));
  NO_RESULT(kael_sum(missing));
  NO_RESULT(kael_sum_dims(missing, 1, dims, true));
  NO_RESULT(kael_mean(missing));
  NO_RESULT(kael_mean_dims(missing, 1, dims, true));
  NO_RESULT(kael_amax(missing, 0, NULL, false));
  NO_RESULT(kael_argmax(missing));
  NO_RESULT(kael_argmax_dim(missing, 0, false));
  NO_RESULT(kael_any(missing));
  NO_RESULT(kael_any_dims(missing, 1, dims, true));
  NO_RESULT(kael_all(missing));
  NO_RESULT(kael_all_dims(missing, 1, dims, true));
  NO_RESULT(kael_matmul(missing, x));
  NO_RESULT(kael_matmul(x, missing));
  NO_RESULT(kael_linear(missing, x, KAEL_NONE));
  NO_RESULT(kael_linear(x, missing, KAEL_NONE));
  NO_RESULT(kael_softmax(missing, 0));
  NO_RESULT(kael_log_softmax(missing, 0));
  NO_RESULT(kael_cat((T[]){x, missing}, 2, 0));
  NO_RESULT(kael_index_select(missing, 0, index));
  NO_RESULT(kael_index_select(x, 0, missing));
  NO_RESULT(kael_gather(missing, 0, index));
  NO_RESULT(kael_gather(x, 0, missing));
  NO_RESULT(kael_scatter_add(missing, 0, index, x));
  NO_RESULT(kael_scatter_add(x, 0, missing, x));
  NO_RESULT(kael_scatter_add(x, 0, index, missing));
  NO_STATUS(kael_scatter_add_(x, 0, index, missing));
  NO_RESULT(kael_nll_loss(missing, index, KAEL_REDUCTION_SUM));
  NO_RESULT(kael_nll_loss(x, missing, KAEL_REDUCTION_SUM));
  NO_RESULT(kael_cross_entropy(missing, index, KAEL_REDUCTION_SUM));
  NO_RESULT(kael_cross_entropy(x, missing, KAEL_REDUCTION_SUM));
  NO_RESULT((void *)(uintptr_t)kael_data_ptr(missing));
  NO_RESULT(kael_mutable_data_ptr(missing));
  NO_STATUS(kael_item(missing, &number));
  NO_STATUS(kael_copy_to_host(missing, &number, 8));
  NO_STATUS(kael_move_to_(missing, KAEL_CPU));
  NO_RESULT(kael_to_string(missing));
  NO_RESULT(kael_explain(missing));
  NO_STATUS(kael_eval((T[]){x, missing}, 2));
  NO_STATUS(kael_requires_grad_(missing, true));
  NO_STATUS(kael_detach_(missing));
  NO_STATUS(kael_set_grad(missing, x));
  NO_STATUS(kael_retain_grad(missing));
  NO_RESULT(kael_register_hook(missing, NULL, NULL, NULL));
  NO_STATUS(kael_backward(missing, KAEL_NONE, false, false));
  kl_test_end();
}
END_TEST

START_TEST(lists_and_places_that_are_null_are_errors) {
  kl_test_begin(_i);
  T x = kl_test_range(KAEL_F32, SHAPE(2, 2)), one = MADE(kael_sum(x)), out[4];
  int64_t count;
  CHECK_NULL(kael_cat(NULL, 2, 0), KAEL_ERR_VALUE, "NULL");
  CHECK_NULL(kael_cat(&x, 0, 0), KAEL_ERR_VALUE, "non-empty");
  CHECK_NULL(kael_cat(&x, -1, 0), KAEL_ERR_VALUE, "non-empty");
  CHECK_STATUS(kael_eval(NULL, 2), KAEL_ERR_VALUE, "NULL");
  CHECK_STATUS(kael_item(one, NULL), KAEL_ERR_VALUE, "NULL");
  CHECK_STATUS(kael_item_int(one, NULL), KAEL_ERR_VALUE, "NULL");
  CHECK_STATUS(kael_copy_to_host(x, NULL, 16), KAEL_ERR_VALUE, "NULL");
  CHECK_STATUS(kael_unbind(x, 0, NULL), KAEL_ERR_VALUE, "NULL");
  CHECK_STATUS(kael_split(x, 1, 0, NULL), KAEL_ERR_VALUE, "NULL");
  CHECK_STATUS(kael_split_sizes(x, 2, NULL, 0, out), KAEL_ERR_VALUE, "NULL");
  CHECK_STATUS(kael_split_sizes(x, -1, NULL, 0, out), KAEL_ERR_VALUE, "negative");
  CHECK_STATUS(kael_chunk(x, 2, 0, out, NULL), KAEL_ERR_VALUE, "NULL");
  CHECK_STATUS(kael_chunk(x, 2, 0, NULL, &count), KAEL_ERR_VALUE, "NULL");
  CHECK_NULL(kael_permute(x, 2, NULL), KAEL_ERR_VALUE, "NULL");
  CHECK_NULL(kael_view(x, 2, NULL), KAEL_ERR_VALUE, "");
  CHECK_NULL(kael_expand(x, 2, NULL), KAEL_ERR_RUNTIME, "");
  CHECK_NULL(kael_as_strided(x, 2, NULL, NULL, 0), KAEL_ERR_VALUE, "NULL");
  CHECK_NULL(kael_as_strided(x, 1, (int64_t[]){1}, NULL, 0), KAEL_ERR_VALUE, "NULL");
  CHECK_NULL(kael_sum_dims(x, 2, NULL, false), KAEL_ERR_VALUE, "NULL");
  CHECK_NULL(kael_sum_dims(x, -3, NULL, false), KAEL_ERR_VALUE, "negative");
  CHECK_NULL(kael_zeros(2, NULL, KAEL_F32), KAEL_ERR_VALUE, "NULL");
  CHECK_NULL(kael_from_data(NULL, SHAPE(2), KAEL_F32), KAEL_ERR_VALUE, "NULL");
  CHECK_STATUS(kael_backward_all(NULL, NULL, 2, false, false), KAEL_ERR_VALUE, "NULL");
  CHECK_STATUS(kael_autograd_grad(NULL, NULL, 1, &x, 1, NULL, out), KAEL_ERR_VALUE, "NULL");
  CHECK_STATUS(kael_autograd_grad(&x, NULL, 1, NULL, 1, NULL, out), KAEL_ERR_VALUE, "NULL");
  CHECK_STATUS(kael_autograd_grad(&x, NULL, 1, &x, 1, NULL, NULL), KAEL_ERR_VALUE, "NULL");
  OK(kael_backward_all(NULL, NULL, 0, false, false));
  OK(kael_eval(NULL, 0));
  kael_string_free(NULL);
  kael_hook_remove(NULL);
  kl_test_end();
}
END_TEST

/* Functions that only look answer for no tensor as for NULL. */
START_TEST(looking_at_no_tensor_finds_nothing) {
  const T nothing[] = {NULL, KAEL_NONE};
  kael_clear_error();
  for (int i = 0; i < 2; i++) {
    T none = nothing[i];
    ck_assert_int_eq(kael_ndim(none), 0);
    ck_assert_ptr_null(kael_shape(none));
    ck_assert_ptr_null(kael_strides(none));
    ck_assert_int_eq(kael_size(none, 0) + kael_stride(none, -1) + kael_offset(none), 0);
    ck_assert_int_eq(kael_numel(none), 0);
    ck_assert_int_eq(kael_dtype_of(none), 0);
    ck_assert_int_eq(kael_device_of(none), KAEL_CPU);
    ck_assert(!kael_is_contiguous(none));
    ck_assert_uint_eq(kael_version(none), 0);
    ck_assert_int_eq(kael_references(none), 0);
    ck_assert(!kael_is_same(none, none));
    ck_assert(!kael_shares_storage(none, none));
    ck_assert_ptr_null(kael_tensor_storage(none));
    ck_assert(!kael_requires_grad(none));
    ck_assert(!kael_retains_grad(none));
    ck_assert(kael_retain(none) == none);
    ck_assert(kael_keep(none) == none);
    OK(kael_release(none));
  }
  ck_assert_int_eq(kael_last_error().code, KAEL_OK);
}
END_TEST

/* --- Sizes --------------------------------------------------------------------------------------
 */

START_TEST(shapes_larger_than_memory_are_errors_at_the_call) {
  kl_test_begin(_i);
  CHECK_NULL(kael_zeros(SHAPE(BIG, BIG), KAEL_U8), KAEL_ERR_RUNTIME, "larger than memory");
  CHECK_NULL(kael_zeros(SHAPE((INT64_C(1) << 42) + 1, 1 << 22), KAEL_U8), KAEL_ERR_RUNTIME, "larger");
  CHECK_NULL(kael_zeros(SHAPE(0, BIG, BIG), KAEL_U8), KAEL_ERR_RUNTIME, "larger");
  CHECK_NULL(kael_zeros(SHAPE(INT64_MAX), KAEL_U8), KAEL_ERR_RUNTIME, "larger");
  CHECK_NULL(kael_zeros(SHAPE(INT64_MIN), KAEL_U8), KAEL_ERR_RUNTIME, "negative");
  CHECK_NULL(kael_zeros(17, (int64_t[17]){1}, KAEL_U8), KAEL_ERR_VALUE, "0 to 16 dims");
  CHECK_NULL(kael_zeros(-1, (int64_t[1]){1}, KAEL_U8), KAEL_ERR_VALUE, "0 to 16 dims");
  CHECK_NULL(kael_rand(SHAPE(BIG, BIG), KAEL_F32), KAEL_ERR_RUNTIME, "larger");
  ck_assert_ptr_null(kael_eye(BIG, BIG, KAEL_U8)); /* in eager mode the rows run out of memory first */
  kael_clear_error();
  CHECK_NULL(kael_eye(INT64_MAX, 1, KAEL_U8), KAEL_ERR_RUNTIME, "larger");
  CHECK_NULL(kael_arange(kael_i(0), kael_i(INT64_MAX), kael_i(1), KAEL_U8), KAEL_ERR_RUNTIME, "larger");
  CHECK_NULL(kael_arange(kael_i(INT64_MIN), kael_i(INT64_MAX), kael_i(1), KAEL_I64),
             KAEL_ERR_RUNTIME, "too long");
  CHECK_NULL(kael_arange(kael_f(0), kael_f(1e300), kael_f(1e-300), KAEL_F32), KAEL_ERR_RUNTIME, "");
  CHECK_NULL(kael_arange(kael_f(0), kael_f(1), kael_f(0.0 / 0.0), KAEL_F32), KAEL_ERR_RUNTIME, "");
  kl_test_end();
}
END_TEST

/* Views of one element may be as large as numbers reach; what is made of them may not. */
START_TEST(results_larger_than_memory_are_errors_at_the_call) {
  kl_test_begin(_i);
  T one = kl_test_range(KAEL_F32, SHAPE(1, 1));
  T tall = MADE(kael_expand(one, SHAPE(BIG, 1))), wide = MADE(kael_expand(one, SHAPE(1, BIG)));
  T rows = MADE(kael_expand(MADE(kael_zeros(SHAPE(1), KAEL_I64)), SHAPE(BIG)));
  CHECK_NULL(kael_expand(one, SHAPE(BIG, BIG)), KAEL_ERR_RUNTIME, "larger");
  CHECK_NULL(kael_add(tall, wide), KAEL_ERR_RUNTIME, "larger");
  CHECK_NULL(kael_where(kael_gt_scalar(one, kael_i(0)), tall, wide), KAEL_ERR_RUNTIME, "larger");
  CHECK_NULL(kael_matmul(tall, wide), KAEL_ERR_RUNTIME, "larger");
  CHECK_NULL(kael_linear(tall, kael_T(wide), KAEL_NONE), KAEL_ERR_RUNTIME, "larger");
  CHECK_NULL(kael_index_select(wide, 0, rows), KAEL_ERR_RUNTIME, "larger");
  CHECK_NULL(kael_cat((T[]){kael_expand(one, 2, (int64_t[]){1, INT64_MAX / 8}),
                            kael_expand(one, 2, (int64_t[]){1, INT64_MAX / 8})},
                      2, 1),
             KAEL_ERR_RUNTIME, "larger");
  T empty = MADE(kael_zeros(SHAPE(0), KAEL_F32));
  CHECK_NULL(kael_view(empty, SHAPE(0, BIG, BIG)), KAEL_ERR_RUNTIME, "larger");
  CHECK_NULL(kael_reshape(empty, SHAPE(0, BIG, BIG)), KAEL_ERR_RUNTIME, "larger");
  T out[1];
  int64_t count;
  CHECK_STATUS(kael_chunk(empty, (INT64_C(1) << 61) + 1, 0, out, &count), KAEL_ERR_OUT_OF_MEMORY, "");
  T host = MADE(kael_zeros(SHAPE(1), KAEL_U8));
  CHECK_STATUS(kael_unbind(kael_expand(host, 1, (int64_t[]){BIG << 19}), 0, out),
               KAEL_ERR_OUT_OF_MEMORY, "");
  kl_test_end();
}
END_TEST

/* In lazy mode the size is noticed when there is memory to be had, and stays an error. */
START_TEST(a_result_that_fits_no_memory_fails_and_does_no_harm) {
  kl_test_begin(_i);
  T one = kl_test_range(KAEL_U8, SHAPE(1));
  T wide = MADE(kael_expand(one, SHAPE(BIG << 19)));
  T copy = kael_to_dtype(wide, KAEL_F64);
  if (copy) ck_assert_int_eq(kael_eval(&copy, 1), KAEL_ERR_OUT_OF_MEMORY);
  ck_assert_int_eq(kael_last_error().code, KAEL_ERR_OUT_OF_MEMORY);
  kael_clear_error();
  CHECK_VALUES(one, 0);
  kl_test_end();
}
END_TEST

START_TEST(strides_that_overflow_are_errors_with_and_without_elements) {
  kl_test_begin(_i);
  T x = kl_test_range(KAEL_F32, SHAPE(6));
  int64_t huge = INT64_MAX;
  CHECK_NULL(kael_as_strided(x, SHAPE(0, 5), (int64_t[]){1, huge}, 0), KAEL_ERR_RUNTIME, "out of bounds");
  CHECK_NULL(kael_as_strided(x, SHAPE(1, 1), (int64_t[]){huge, huge}, 0), KAEL_ERR_RUNTIME, "out of bounds");
  CHECK_NULL(kael_as_strided(x, SHAPE(2), (int64_t[]){huge}, 0), KAEL_ERR_RUNTIME, "out of bounds");
  CHECK_NULL(kael_as_strided(x, SHAPE(1), (int64_t[]){1}, huge), KAEL_ERR_RUNTIME, "out of bounds");
  CHECK_NULL(kael_as_strided(x, SHAPE(7), (int64_t[]){1}, 0), KAEL_ERR_RUNTIME, "out of bounds");
  CHECK_NULL(kael_as_strided(x, SHAPE(0), (int64_t[]){1}, 7), KAEL_ERR_RUNTIME, "out of bounds");
  T far = MADE(kael_as_strided(x, SHAPE(0, 3), (int64_t[]){BIG << 20, 1}, 6));
  CHECK_SHAPE(MADE(kael_slice(far, 0, 0, KAEL_END, INT64_MAX)), 0, 3);
  CHECK_SHAPE(MADE(kael_diagonal(far, 0, 0, 1)), 0);
  CHECK_SHAPE(MADE(kael_unsqueeze(far, 0)), 1, 0, 3);
  CHECK_SHAPE(MADE(kael_add(far, far)), 0, 3);
  T single = MADE(kael_as_strided(x, SHAPE(1, 3), (int64_t[]){BIG << 20, 1}, 0));
  CHECK_VALUES(MADE(kael_slice(single, 0, 0, KAEL_END, INT64_MAX)), 0, 1, 2);
  CHECK_VALUES(MADE(kael_add(MADE(kael_T(single)), MADE(kael_T(single)))), 0, 2, 4);
  CHECK_VALUES(MADE(kael_expand(single, SHAPE(2, 1, 3))), 0, 1, 2, 0, 1, 2);
  kl_test_end();
}
END_TEST

START_TEST(positions_at_the_ends_of_their_type_are_errors_or_cut_off) {
  kl_test_begin(_i);
  T x = kl_test_range(KAEL_F32, SHAPE(2, 3));
  const int64_t ends[] = {INT64_MIN, INT64_MIN + 1, INT64_MAX - 1, INT64_MAX};
  T out[8];
  for (int i = 0; i < 4; i++) {
    int64_t end = ends[i];
    CHECK_NULL(kael_transpose(x, end, 0), KAEL_ERR_INDEX, "out of range");
    CHECK_NULL(kael_permute(x, SHAPE(0, end)), KAEL_ERR_INDEX, "out of range");
    CHECK_NULL(kael_select(x, end, 0), KAEL_ERR_INDEX, "out of range");
    CHECK_NULL(kael_select(x, 0, end), KAEL_ERR_INDEX, "out of range");
    CHECK_NULL(kael_narrow(x, 0, end, 1), KAEL_ERR_INDEX, "out of range");
    CHECK_NULL(kael_narrow(x, 0, 1, end), KAEL_ERR_RUNTIME, "");
    CHECK_NULL(kael_unsqueeze(x, end), KAEL_ERR_INDEX, "out of range");
    CHECK_NULL(kael_squeeze_dim(x, end), KAEL_ERR_INDEX, "out of range");
    CHECK_NULL(kael_flatten(x, end, 0), KAEL_ERR_INDEX, "out of range");
    CHECK_NULL(kael_softmax(x, end), KAEL_ERR_INDEX, "out of range");
    CHECK_NULL(kael_argmax_dim(x, end, false), KAEL_ERR_INDEX, "out of range");
    CHECK_NULL(kael_cat(&x, 1, end), KAEL_ERR_INDEX, "out of range");
    CHECK_NULL(kael_view(x, SHAPE(end)), KAEL_ERR_RUNTIME, "");
    CHECK_NULL(kael_view(x, SHAPE(end, -1)), KAEL_ERR_RUNTIME, "");
    CHECK_NULL(kael_expand(x, SHAPE(end, 2, 3)), KAEL_ERR_RUNTIME, "");
    CHECK_STATUS(kael_unbind(x, end, out), KAEL_ERR_INDEX, "out of range");
    CHECK_STATUS(kael_split_sizes(x, SHAPE(end, 1), 0, out), KAEL_ERR_RUNTIME, "");
    ck_assert_int_eq(kael_numel(MADE(kael_diagonal(x, end, 0, 1))), 0);
    ck_assert_int_le(kael_numel(MADE(kael_slice(x, 0, end, INT64_MAX, 1))), 6);
    ck_assert_int_le(kael_numel(MADE(kael_slice(x, 0, INT64_MIN, end, INT64_MAX))), 3);
    T index = MADE(kael_full(SHAPE(1), kael_i(end), KAEL_I64));
    CHECK_NULL(kael_index_select(x, 0, index), KAEL_ERR_INDEX, "out of bounds");
    CHECK_NULL(kael_nll_loss(kael_select(x, 0, 0), kael_select(index, 0, 0), KAEL_REDUCTION_SUM),
               KAEL_ERR_INDEX, "out of bounds");
  }
  CHECK_NULL(kael_slice(x, 0, 0, 1, 0), KAEL_ERR_VALUE, "step");
  CHECK_NULL(kael_slice(x, 0, 0, 1, INT64_MIN), KAEL_ERR_VALUE, "step");
  kl_test_end();
}
END_TEST

START_TEST(dtypes_and_modes_outside_their_enum_are_errors) {
  kl_test_begin(_i);
  T x = kl_test_range(KAEL_F32, SHAPE(2)), index = kl_test_range(KAEL_I64, SHAPE(2));
  const int numbers[] = {-1, 10, 255, 256, 1 << 30};
  for (int i = 0; i < 5; i++) {
    kael_dtype dtype = (kael_dtype)numbers[i];
    CHECK_NULL(kael_zeros(SHAPE(2), dtype), KAEL_ERR_VALUE, "no dtype");
    CHECK_NULL(kael_rand(SHAPE(2), dtype), KAEL_ERR_VALUE, "no dtype");
    CHECK_NULL(kael_eye(2, 2, dtype), KAEL_ERR_VALUE, "no dtype");
    CHECK_NULL(kael_arange(kael_i(0), kael_i(2), kael_i(1), dtype), KAEL_ERR_VALUE, "no dtype");
    CHECK_NULL(kael_from_data("", SHAPE(0), dtype), KAEL_ERR_VALUE, "no dtype");
    CHECK_NULL(kael_to_dtype(x, dtype), KAEL_ERR_VALUE, "no dtype");
    ck_assert_ptr_null(kael_dtype_name(dtype));
    ck_assert_uint_eq(kael_dtype_size(dtype), 0);
    ck_assert(!kael_dtype_is_supported(dtype));
    CHECK_STATUS(kael_set_jit((kael_jit_mode)(numbers[i] + (i == 0 ? -1 : 0))), KAEL_ERR_VALUE, "mode");
    CHECK_STATUS(kael_move_to_(x, (kael_device)(i + 1)), KAEL_ERR_DEVICE, "device");
    CHECK_NULL(kael_nll_loss(x, kael_select(index, 0, 0), (kael_reduction)(numbers[i] | 64)),
               KAEL_ERR_VALUE, "");
    ck_assert_ptr_nonnull(kael_status_name((kael_status)numbers[i]));
  }
  kl_test_end();
}
END_TEST

/* --- Nothing in every operation -----------------------------------------------------------------
 */

static void check_empty(T e, T m) {
  T flat = MADE(kael_flatten(e, 0, -1)), index = MADE(kael_zeros(SHAPE(0), KAEL_I64)), out[4];
  int64_t count;
  CHECK_SHAPE(MADE(kael_exp(e)), 0, 3);
  CHECK_SHAPE(MADE(kael_add(e, m)), 0, 3);
  OK(kael_add_(e, m));
  OK(kael_copy_(e, m));
  OK(kael_fill_(e, kael_i(1)));
  ck_assert_uint_eq(kael_version(e), 3);
  CHECK_VALUES(MADE(kael_sum(e)), 0);
  CHECK_VALUES(MADE(kael_mean(e)), (double)NAN);
  CHECK_VALUES(MADE(kael_sum_dims(e, SHAPE(0), false)), 0, 0, 0);
  CHECK_VALUES(MADE(kael_all(e)), 1);
  CHECK_VALUES(MADE(kael_any(e)), 0);
  CHECK_NULL(kael_amax(e, 0, NULL, false), KAEL_ERR_RUNTIME, "reduction dim");
  CHECK_NULL(kael_argmax(e), KAEL_ERR_INDEX, "non-zero size");
  CHECK_SHAPE(MADE(kael_amax(e, SHAPE(1), false)), 0);
  CHECK_SHAPE(MADE(kael_softmax(e, 0)), 0, 3);
  CHECK_SHAPE(MADE(kael_log_softmax(e, 1)), 0, 3);
  CHECK_SHAPE(MADE(kael_matmul(e, kael_T(e))), 0, 0);
  CHECK_VALUES(MADE(kael_matmul(kael_T(e), e)), 0, 0, 0, 0, 0, 0, 0, 0, 0);
  CHECK_SHAPE(MADE(kael_linear(e, kl_test_range(KAEL_F32, SHAPE(2, 3)), KAEL_NONE)), 0, 2);
  CHECK_SHAPE(MADE(kael_cat((T[]){e, e, flat}, 3, 0)), 0, 3);
  CHECK_SHAPE(MADE(kael_index_select(e, 0, index)), 0, 3);
  CHECK_SHAPE(MADE(kael_index_select(e, 1, index)), 0, 0);
  CHECK_SHAPE(MADE(kael_gather(e, 0, kael_zeros(SHAPE(0, 3), KAEL_I64))), 0, 3);
  CHECK_SHAPE(MADE(kael_nll_loss(e, index, KAEL_REDUCTION_NONE)), 0);
  CHECK_VALUES(MADE(kael_nll_loss(e, index, KAEL_REDUCTION_SUM)), 0);
  CHECK_VALUES(MADE(kael_cross_entropy(e, index, KAEL_REDUCTION_MEAN)), (double)NAN);
  OK(kael_split(e, 2, 0, out));
  OK(kael_chunk(e, 3, 0, out, &count));
  ck_assert_int_eq(count, 3);
  OK(kael_unbind(e, 0, out));
  OK(kael_eval(&e, 1));
  OK(kael_move_to_(e, KAEL_CPU));
  OK(kael_copy_to_host(e, NULL, 0));
  kael_string_free(kael_to_string(e));
  kael_string_free(kael_explain(e));
  CHECK_STATUS(kael_item(e, &(double){0}), KAEL_ERR_RUNTIME, "0 elements");
}

START_TEST(tensors_without_elements_pass_through_every_operation) {
  kl_test_begin(_i);
  check_empty(MADE(kael_zeros(SHAPE(0, 3), KAEL_F32)), MADE(kael_ones(SHAPE(1, 3), KAEL_F32)));
  T x = kl_test_range(KAEL_F32, SHAPE(0, 3));
  OK(kael_requires_grad_(x, true));
  T loss = MADE(kael_add(MADE(kael_sum(MADE(kael_matmul(kael_T(x), x)))),
                         MADE(kael_cross_entropy(x, kael_zeros(SHAPE(0), KAEL_I64), KAEL_REDUCTION_SUM))));
  OK(kael_backward(loss, KAEL_NONE, false, false));
  CHECK_SHAPE(MADE(kael_grad(x)), 0, 3);
  kl_test_end();
}
END_TEST

/* --- Operands that are the result ----------------------------------------------------------------
 */

START_TEST(operands_that_alias_the_result_are_read_as_they_were) {
  kl_test_begin(_i);
  T x = kl_test_range(KAEL_F32, SHAPE(3, 3));
  OK(kael_add_(x, x));
  CHECK_VALUES(x, 0, 2, 4, 6, 8, 10, 12, 14, 16);
  OK(kael_copy_(x, kael_T(x)));
  CHECK_VALUES(x, 0, 6, 12, 2, 8, 14, 4, 10, 16);
  OK(kael_sub_(kael_T(x), x));
  CHECK_VALUES(x, 0, 4, 8, -4, 0, 4, -8, -4, 0);
  T flat = MADE(kael_view(x, SHAPE(9)));
  OK(kael_copy_(MADE(kael_narrow(flat, 0, 1, 8)), MADE(kael_narrow(flat, 0, 0, 8))));
  CHECK_VALUES(flat, 0, 0, 4, 8, -4, 0, 4, -8, -4);
  T twice = MADE(kael_cat((T[]){kael_select(x, 0, 0), kael_select(x, 0, 0), kael_select(x, 1, 0)}, 3, 0));
  OK(kael_copy_(flat, twice));
  CHECK_VALUES(x, 0, 0, 4, 0, 0, 4, 0, 8, 4);
  OK(kael_masked_fill_(x, kael_eq(x, kael_T(x)), kael_i(7)));
  CHECK_VALUES(x, 7, 7, 4, 7, 7, 4, 0, 8, 7);
  T index = kl_test_range(KAEL_I64, SHAPE(3));
  OK(kael_scatter_add_(index, 0, index, index));
  CHECK_VALUES(index, 0, 2, 4);
  OK(kael_mul_(x, kael_select(x, 0, 0)));
  CHECK_VALUES(x, 49, 49, 16, 49, 49, 16, 0, 56, 28);
  kl_test_end();
}
END_TEST

/* --- Ownership ----------------------------------------------------------------------------------
 */

START_TEST(handles_of_scopes_are_kept_and_released_once) {
  OK(kael_set_jit(_i ? KAEL_JIT_LAZY : KAEL_JIT_EAGER));
  T mine = MADE(kael_ones(SHAPE(2), KAEL_F32));
  ck_assert(kael_keep(mine) == mine); /* no scope: already the caller's */
  OK(kael_scope_begin());
  ck_assert(kael_keep(mine) == mine); /* not this scope's */
  T a = MADE(kael_neg(mine));
  CHECK_STATUS(kael_release(a), KAEL_ERR_RUNTIME, "kael_keep");
  OK(kael_scope_begin());
  T b = MADE(kael_neg(a));
  ck_assert(kael_keep(a) == a); /* the outer scope's: stays there */
  ck_assert(kael_keep(b) == b);
  CHECK_STATUS(kael_release(b), KAEL_ERR_RUNTIME, "kael_keep");
  ck_assert_ptr_null(kael_view(b, SHAPE(5)));
  OK(kael_scope_end());
  CHECK_VALUES(b, 1, 1);
  ck_assert(kael_retain(b) == b);
  OK(kael_release(b));
  CHECK_STATUS(kael_release(b), KAEL_ERR_RUNTIME, "kael_keep");
  ck_assert(kael_keep(b) == b);
  OK(kael_scope_end());
  CHECK_STATUS(kael_scope_end(), KAEL_ERR_RUNTIME, "no scope");
  ck_assert_int_eq(kael_references(b), 1);
  OK(kael_release(b));
  OK(kael_release(mine));
}
END_TEST

/* --- Errors -------------------------------------------------------------------------------------
 */

START_TEST(a_success_leaves_the_stored_error_alone) {
  kl_test_begin(_i);
  T x = kl_test_range(KAEL_F32, SHAPE(2, 3));
  ck_assert_ptr_null(kael_add(x, kl_test_range(KAEL_F32, SHAPE(2, 4))));
  ck_assert_ptr_nonnull(strstr(kael_last_error().message, "add: "));
  ck_assert_ptr_nonnull(strstr(kael_last_error().message, "[2, 3]"));
  ck_assert_ptr_nonnull(strstr(kael_last_error().message, "[2, 4]"));
  char message[512];
  snprintf(message, sizeof message, "%s", kael_last_error().message);
  T index = kl_test_vector(KAEL_I64, VALUES(1, 0));
  MADE(kael_index_select(x, 0, index));
  OK(kael_requires_grad_(x, true));
  OK(kael_backward(kael_sum(kael_matmul(x, kael_T(x))), KAEL_NONE, false, false));
  OK(kael_eval(&x, 1));
  kael_string_free(kael_explain(x));
  kael_string_free(kael_to_string(x));
  ck_assert_int_eq(kael_last_error().code, KAEL_ERR_RUNTIME);
  ck_assert_str_eq(kael_last_error().message, message);
  kael_clear_error();
  ck_assert_str_eq(kael_last_error().message, "");
  kl_test_end();
}
END_TEST

/* --- Memory of the caller's ----------------------------------------------------------------------
 */

START_TEST(external_memory_is_checked_and_read_only_memory_never_written) {
  kl_test_begin(_i);
  double memory[4] = {1, 2, 3, 4};
  CHECK_NULL(kael_storage_external(NULL, 8, NULL, NULL, 0), KAEL_ERR_VALUE, "NULL");
  CHECK_NULL(kael_storage_external(memory, 32, NULL, NULL, 64), KAEL_ERR_VALUE, "flag");
  CHECK_NULL(kael_storage_external(memory, SIZE_MAX, NULL, NULL, 0), KAEL_ERR_VALUE, "size");
  CHECK_NULL(kael_storage_create(SIZE_MAX), KAEL_ERR_OUT_OF_MEMORY, "");
  CHECK_NULL(kael_storage_create(SIZE_MAX / 2), KAEL_ERR_OUT_OF_MEMORY, "");
  kael_storage *odd = kael_storage_external((char *)memory + 1, 30, NULL, NULL, 0);
  CHECK_NULL(kael_tensor_from_parts(odd, SHAPE(1), (int64_t[]){1}, 0, KAEL_F64), KAEL_ERR_VALUE, "aligned");
  CHECK_NULL(kael_tensor_from_parts(odd, SHAPE(31), (int64_t[]){1}, 0, KAEL_U8), KAEL_ERR_RUNTIME, "out of bounds");
  MADE(kael_tensor_from_parts(odd, SHAPE(30), (int64_t[]){1}, 0, KAEL_U8));
  kael_storage_release(odd);
  kael_storage *fixed = kael_storage_external(memory, 32, NULL, NULL, KAEL_STORAGE_READONLY);
  T t = MADE(kael_tensor_from_parts(fixed, SHAPE(2, 2), (int64_t[]){2, 1}, 0, KAEL_F64));
  kael_storage_release(fixed);
  T views[] = {t, MADE(kael_T(t)), MADE(kael_select(t, 0, 1)), MADE(kael_detach(t))};
  for (int i = 0; i < 4; i++) {
    T v = views[i];
    CHECK_STATUS(kael_add_scalar_(v, kael_i(1)), KAEL_ERR_RUNTIME, "read-only");
    CHECK_STATUS(kael_copy_(v, kael_neg(v)), KAEL_ERR_RUNTIME, "read-only");
    CHECK_STATUS(kael_zero_(v), KAEL_ERR_RUNTIME, "read-only");
    CHECK_STATUS(kael_masked_fill_(v, kael_gt_scalar(v, kael_i(0)), kael_i(1)), KAEL_ERR_RUNTIME, "read-only");
    CHECK_NULL(kael_mutable_data_ptr(v), KAEL_ERR_RUNTIME, "read-only");
  }
  CHECK_STATUS(kael_scatter_add_(t, 0, kael_zeros(SHAPE(1, 1), KAEL_I64), t), KAEL_ERR_RUNTIME, "read-only");
  CHECK_VALUES(MADE(kael_add_scalar(t, kael_i(1))), 2, 3, 4, 5);
  OK(kael_move_to_(t, KAEL_CPU));
  OK(kael_zero_(t));
  CHECK_VALUES(views[1], 1, 3, 2, 4);
  ck_assert_double_eq(memory[3], 4);
  kl_test_end();
}
END_TEST

START_TEST(one_storage_serves_dtypes_of_several_sizes) {
  kl_test_begin(_i);
  kael_storage *s = kael_storage_create(11);
  T bytes = MADE(kael_tensor_from_parts(s, SHAPE(11), (int64_t[]){1}, 0, KAEL_U8));
  T words = MADE(kael_tensor_from_parts(s, SHAPE(2), (int64_t[]){1}, 0, KAEL_I32));
  T wide = MADE(kael_tensor_from_parts(s, SHAPE(1), (int64_t[]){1}, 0, KAEL_I64));
  CHECK_NULL(kael_tensor_from_parts(s, SHAPE(2), (int64_t[]){1}, 0, KAEL_I64), KAEL_ERR_RUNTIME, "out of bounds");
  kael_storage_release(s);
  OK(kael_add_scalar_(bytes, kael_i(1)));
  CHECK_VALUES(words, 0x01010101, 0x01010101);
  OK(kael_fill_(kael_select(words, 0, 1), kael_i(-1)));
  CHECK_VALUES(bytes, 1, 1, 1, 1, 255, 255, 255, 255, 1, 1, 1);
  OK(kael_copy_(words, kael_narrow(bytes, 0, 3, 2)));
  CHECK_VALUES(wide, (double)((INT64_C(255) << 32) + 1));
  OK(kael_add_(wide, wide));
  CHECK_VALUES(bytes, 2, 0, 0, 0, 254, 1, 0, 0, 1, 1, 1);
  CHECK_STATUS(kael_add_scalar_(words, kael_f(0.5)), KAEL_ERR_RUNTIME, "cast");
  kl_test_end();
}
END_TEST

START_TEST(an_export_of_a_pending_view_runs_readers_and_writers_in_order) {
  kl_test_begin(_i);
  T x = kl_test_range(KAEL_F32, SHAPE(4));
  T before = MADE(kael_mul_scalar(x, kael_i(2)));
  T tail = MADE(kael_narrow(x, 0, 2, 2));
  OK(kael_add_scalar_(x, kael_i(1)));
  float *bytes = kael_mutable_data_ptr(tail);
  ck_assert_float_eq(bytes[0], 3);
  bytes[1] = 50;
  CHECK_VALUES(before, 0, 2, 4, 6);
  T after = MADE(kael_add_scalar(x, kael_i(0)));
  bytes[1] = 60;
  OK(kael_add_scalar_(tail, kael_i(1)));
  ck_assert_float_eq(bytes[1], 61);
  ck_assert(kael_data_ptr(tail) == bytes);
  CHECK_VALUES(after, 1, 2, 3, 50);
  OK(kael_move_to_(tail, KAEL_CPU));
  bytes[1] = 70;
  CHECK_VALUES(tail, 4, 61);
  CHECK_VALUES(x, 1, 2, 4, 70);
  kl_test_end();
}
END_TEST

START_TEST(text_of_every_state_names_the_storage) {
  kl_test_begin(_i);
  T x = kl_test_range(KAEL_F32, SHAPE(2, 2));
  OK(kael_requires_grad_(x, true));
  T tensors[] = {x,
                 MADE(kael_exp(x)),
                 MADE(kael_T(kael_exp(x))),
                 MADE(kael_detach(x)),
                 MADE(kael_zeros(0, NULL, KAEL_BOOL)),
                 MADE(kael_zeros(SHAPE(2, 0, 3), KAEL_I64)),
                 MADE(kael_ones(SHAPE(2000), KAEL_U8)),
                 MADE(kael_expand(kael_ones(SHAPE(1), KAEL_I32), SHAPE(BIG))),
                 MADE(kael_ones(16, (int64_t[]){1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2}, KAEL_F64))};
  for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
    for (int again = 0; again < 2; again++) {
      char *explained = kael_explain(tensors[i]);
      ck_assert_ptr_nonnull(explained);
      ck_assert_ptr_nonnull(strstr(explained, "references: "));
      kael_string_free(explained);
      char *text = kael_to_string(tensors[i]);
      ck_assert_ptr_nonnull(text);
      ck_assert_ptr_nonnull(strstr(text, "tensor("));
      kael_string_free(text);
    }
  }
  kl_test_end();
}
END_TEST

int main(void) {
  const TTest *const tests[] = {
      a_missing_operand_is_an_error_of_every_function,
      lists_and_places_that_are_null_are_errors,
      looking_at_no_tensor_finds_nothing,
      shapes_larger_than_memory_are_errors_at_the_call,
      results_larger_than_memory_are_errors_at_the_call,
      a_result_that_fits_no_memory_fails_and_does_no_harm,
      strides_that_overflow_are_errors_with_and_without_elements,
      positions_at_the_ends_of_their_type_are_errors_or_cut_off,
      dtypes_and_modes_outside_their_enum_are_errors,
      tensors_without_elements_pass_through_every_operation,
      operands_that_alias_the_result_are_read_as_they_were,
      handles_of_scopes_are_kept_and_released_once,
      a_success_leaves_the_stored_error_alone,
      external_memory_is_checked_and_read_only_memory_never_written,
      one_storage_serves_dtypes_of_several_sizes,
      an_export_of_a_pending_view_runs_readers_and_writers_in_order,
      text_of_every_state_names_the_storage,
  };
  Suite *suite = suite_create("misuse");
  TCase *both = tcase_create("eager and lazy");
  for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
    tcase_add_loop_test(both, tests[i], 0, 2);
  suite_add_tcase(suite, both);
  return kl_test_run(suite);
}
