/* The object model: handles, storages, copies, writes, versions, scopes, errors, memory of the
 * caller's. Every test runs in eager and in lazy mode. */
#include <stdlib.h>
#include <string.h>

#include "tests/support/tensors.h"

typedef kael_tensor *T;

/* --- The named cases of the object model --------------------------------------------------------
 */

START_TEST(tensor_copy_shares_data) {
  kl_test_begin(_i);
  T a = kl_test_range(KAEL_F32, SHAPE(3));
  T b = kael_retain(a);
  ck_assert(kael_is_same(a, b));
  ck_assert_int_eq(kael_storage_references(kael_tensor_storage(a)), 1);
  OK(kael_fill_(b, kael_f(7)));
  CHECK_VALUES(a, 7, 7, 7);
  OK(kael_release(b));
  kl_test_end();
}
END_TEST

START_TEST(tensor_clone_does_not_share_data) {
  kl_test_begin(_i);
  T a = kl_test_range(KAEL_F32, SHAPE(3));
  T c = MADE(kael_clone(a));
  ck_assert(!kael_is_same(a, c));
  ck_assert(!kael_shares_storage(a, c));
  OK(kael_fill_(a, kael_f(9)));
  CHECK_VALUES(c, 0, 1, 2);
  OK(kael_fill_(c, kael_f(5)));
  CHECK_VALUES(a, 9, 9, 9);
  kl_test_end();
}
END_TEST

START_TEST(tensor_from_impl_validates) {
  kl_test_begin(_i);
  kael_storage *s = kael_storage_create(24);
  int64_t two = 2, huge = INT64_MAX / 4;
  CHECK_VALUES(kael_tensor_from_parts(s, SHAPE(2, 3), (int64_t[]){3, 1}, 0, KAEL_F32), 0, 0, 0, 0,
               0, 0);
  CHECK_NULL(kael_tensor_from_parts(s, SHAPE(2, 3), (int64_t[]){3, 1}, 1, KAEL_F32),
             KAEL_ERR_RUNTIME, "out of bounds for storage of size 24");
  CHECK_NULL(kael_tensor_from_parts(s, SHAPE(2, 3), (int64_t[]){4, 1}, 0, KAEL_F32),
             KAEL_ERR_RUNTIME, "out of bounds");
  CHECK_NULL(kael_tensor_from_parts(s, SHAPE(-1), (int64_t[]){1}, 0, KAEL_F32), KAEL_ERR_RUNTIME,
             "negative dimension");
  CHECK_NULL(kael_tensor_from_parts(s, SHAPE(2), (int64_t[]){-1}, 1, KAEL_F32), KAEL_ERR_RUNTIME,
             "Negative strides");
  CHECK_NULL(kael_tensor_from_parts(s, SHAPE(2), (int64_t[]){1}, -1, KAEL_F32), KAEL_ERR_RUNTIME,
             "must not be negative");
  CHECK_NULL(kael_tensor_from_parts(s, 1, &two, &huge, 0, KAEL_F32), KAEL_ERR_RUNTIME,
             "out of bounds");
  CHECK_NULL(kael_tensor_from_parts(s, 1, &huge, &two, 0, KAEL_F64), KAEL_ERR_RUNTIME, "larger");
  CHECK_NULL(kael_tensor_from_parts(s, 17, (int64_t[17]){0}, (int64_t[17]){0}, 0, KAEL_F32),
             KAEL_ERR_VALUE, "0 to 16 dims");
  CHECK_NULL(kael_tensor_from_parts(NULL, SHAPE(2), (int64_t[]){1}, 0, KAEL_F32), KAEL_ERR_VALUE,
             "NULL");
  kael_storage_release(s);
  kl_test_end();
}
END_TEST

START_TEST(tensor_clone_of_offset_tensor_starts_at_zero) {
  kl_test_begin(_i);
  T base = kl_test_range(KAEL_I64, SHAPE(5));
  T part = MADE(kael_narrow(base, 0, 2, 3));
  ck_assert_int_eq(kael_offset(part), 2);
  T copy = MADE(kael_clone(part));
  ck_assert_int_eq(kael_offset(copy), 0);
  ck_assert_uint_eq(kael_storage_nbytes(kael_tensor_storage(copy)), 24);
  CHECK_VALUES(copy, 2, 3, 4);
  kl_test_end();
}
END_TEST

START_TEST(in_place_on_expanded_tensor_throws) {
  kl_test_begin(_i);
  T a = kl_test_range(KAEL_F32, SHAPE(3, 1));
  T e = MADE(kael_expand(a, SHAPE(3, 4)));
  CHECK_STATUS(kael_add_scalar_(e, kael_i(1)), KAEL_ERR_RUNTIME, "call clone() first");
  CHECK_STATUS(kael_zero_(e), KAEL_ERR_RUNTIME, "call clone() first");
  CHECK_STATUS(kael_copy_(e, MADE(kael_clone(e))), KAEL_ERR_RUNTIME, "call clone() first");
  ck_assert_uint_eq(kael_version(a), 0);
  T overlapping = MADE(kael_as_strided(a, SHAPE(2, 2), (int64_t[]){1, 1}, 0));
  CHECK_STATUS(kael_zero_(overlapping), KAEL_ERR_RUNTIME, "call clone() first");
  OK(kael_zero_(MADE(kael_expand(a, SHAPE(3, 1)))));
  kl_test_end();
}
END_TEST

static T leaf(T tensor) {
  OK(kael_requires_grad_(tensor, true));
  return tensor;
}

START_TEST(autograd_version_modifying_saved_input_throws) {
  kl_test_begin(_i);
  T x = leaf(kl_test_vector(KAEL_F32, VALUES(1, 2)));
  T c = kl_test_vector(KAEL_F32, VALUES(3, 4));
  T y = MADE(kael_sum(MADE(kael_mul(x, c))));
  OK(kael_add_scalar_(c, kael_i(1)));
  CHECK_STATUS(
      kael_backward(y, KAEL_NONE, false, false), KAEL_ERR_RUNTIME,
      "one of the variables needed for gradient computation has been modified by an inplace "
      "operation");
  kl_test_end();
}
END_TEST

START_TEST(autograd_version_modifying_saved_output_through_detach_throws) {
  kl_test_begin(_i);
  T x = leaf(kl_test_vector(KAEL_F32, VALUES(1, 2)));
  T e = MADE(kael_exp(x));
  T y = MADE(kael_sum(e));
  OK(kael_zero_(MADE(kael_detach(e))));
  ck_assert_uint_eq(kael_version(e), 1);
  CHECK_STATUS(kael_backward(y, KAEL_NONE, false, false), KAEL_ERR_RUNTIME,
               "modified by an inplace operation");
  kl_test_end();
}
END_TEST

START_TEST(a_move_is_seen_by_every_handle_while_an_older_view_keeps_the_old_storage) {
  kl_test_begin(_i);
  T a = kl_test_range(KAEL_F32, SHAPE(2, 3));
  T turned = MADE(kael_T(a));
  T same = kael_retain(turned);
  kael_storage *old = kael_tensor_storage(a);
  OK(kael_move_to_(turned, KAEL_CPU));
  ck_assert(kael_tensor_storage(same) == kael_tensor_storage(turned));
  ck_assert(kael_tensor_storage(turned) != old);
  ck_assert(kael_tensor_storage(a) == old);
  CHECK_STRIDES(same, 2, 1);
  CHECK_VALUES(same, 0, 3, 1, 4, 2, 5);
  OK(kael_fill_(same, kael_f(1)));
  CHECK_VALUES(a, 0, 1, 2, 3, 4, 5);
  CHECK_STATUS(kael_move_to_(a, (kael_device)7), KAEL_ERR_DEVICE, "no device");
  OK(kael_release(same));
  kl_test_end();
}
END_TEST

START_TEST(the_worked_example) {
  kl_test_begin(_i);
  T a = MADE(kael_zeros(SHAPE(2, 3), KAEL_F32));
  T b = kael_retain(a);
  T t = MADE(kael_T(a));
  T c = MADE(kael_clone(a));
  ck_assert_int_eq(kael_references(a), 2);
  ck_assert_int_eq(kael_storage_references(kael_tensor_storage(a)), 2);
  ck_assert_int_eq(kael_offset(t) + kael_stride(t, 0) + kael_stride(t, 1), 4);
  OK(kael_fill_(MADE(kael_select(MADE(kael_select(t, 0, 1)), 0, 1)), kael_i(42)));
  CHECK_VALUES(a, 0, 0, 0, 0, 42, 0);
  CHECK_VALUES(b, 0, 0, 0, 0, 42, 0);
  CHECK_VALUES(t, 0, 0, 0, 42, 0, 0);
  CHECK_VALUES(c, 0, 0, 0, 0, 0, 0);
  ck_assert_uint_eq(kael_version(t), 1);
  OK(kael_release(b));
  kl_test_end();
}
END_TEST

/* --- Writes -------------------------------------------------------------------------------------
 */

START_TEST(a_reader_recorded_before_a_write_sees_the_old_value) {
  kl_test_begin(_i);
  T a = kl_test_range(KAEL_F32, SHAPE(3));
  T before = MADE(kael_add_scalar(a, kael_i(1)));
  OK(kael_mul_scalar_(a, kael_i(10)));
  T after = MADE(kael_add_scalar(a, kael_i(1)));
  CHECK_VALUES(after, 1, 11, 21);
  CHECK_VALUES(before, 1, 2, 3);
  kl_test_end();
}
END_TEST

START_TEST(a_write_through_a_view_of_a_pending_tensor_reaches_its_base) {
  kl_test_begin(_i);
  T a = MADE(kael_add_scalar(kl_test_range(KAEL_I32, SHAPE(2, 3)), kael_i(10)));
  T column = MADE(kael_select(a, 1, 1));
  OK(kael_neg_(column));
  CHECK_VALUES(a, 10, -11, 12, 13, -14, 15);
  OK(kael_copy_(MADE(kael_T(a)), MADE(kael_T(MADE(kael_zeros(SHAPE(2, 3), KAEL_I32))))));
  CHECK_VALUES(column, 0, 0);
  ck_assert_uint_eq(kael_version(a), 2);
  kl_test_end();
}
END_TEST

START_TEST(writes_through_gapped_views_keep_the_other_elements) {
  kl_test_begin(_i);
  T a = kl_test_range(KAEL_F64, SHAPE(8));
  OK(kael_fill_(MADE(kael_slice(a, 0, 1, KAEL_END, 3)), kael_f(-1)));
  OK(kael_add_scalar_(MADE(kael_narrow(a, 0, 3, 3)), kael_f(100)));
  CHECK_VALUES(a, 0, -1, 2, 103, 99, 105, 6, -1);
  kl_test_end();
}
END_TEST

START_TEST(an_operand_that_overlaps_the_output_is_read_as_it_was_before) {
  kl_test_begin(_i);
  T a = kl_test_range(KAEL_F32, SHAPE(6));
  OK(kael_add_(MADE(kael_narrow(a, 0, 1, 5)), MADE(kael_narrow(a, 0, 0, 5))));
  CHECK_VALUES(a, 0, 1, 3, 5, 7, 9);
  T m = kl_test_range(KAEL_F32, SHAPE(2, 2));
  OK(kael_copy_(m, MADE(kael_T(m))));
  CHECK_VALUES(m, 0, 2, 1, 3);
  kl_test_end();
}
END_TEST

START_TEST(a_result_in_place_is_cast_to_the_dtype_of_self) {
  kl_test_begin(_i);
  T f = kl_test_range(KAEL_F32, SHAPE(3));
  OK(kael_add_(f, kl_test_vector(KAEL_F64, VALUES(0.5, 0.25, 0.125))));
  CHECK_VALUES(f, 0.5, 1.25, 2.125);
  OK(kael_gt_scalar_(f, kael_f(1)));
  CHECK_VALUES(f, 0, 1, 1);
  T i = kl_test_range(KAEL_I32, SHAPE(3));
  CHECK_STATUS(kael_add_scalar_(i, kael_f(0.5)), KAEL_ERR_RUNTIME,
               "result type float32 can't be cast to the desired output type int32");
  CHECK_STATUS(kael_exp_(i), KAEL_ERR_RUNTIME, "can't be cast");
  CHECK_STATUS(kael_add_(i, kl_test_range(KAEL_I32, SHAPE(2, 3))), KAEL_ERR_RUNTIME,
               "output with shape [3] doesn't match the broadcast shape [2, 3]");
  ck_assert_uint_eq(kael_version(i), 0);
  CHECK_VALUES(i, 0, 1, 2);
  kl_test_end();
}
END_TEST

/* --- Memory of the caller's ---------------------------------------------------------------------
 */

static void count_call(void *ptr, void *user) {
  (void)ptr;
  ++*(int *)user;
}

START_TEST(external_memory_is_used_in_place_and_given_back_once) {
  kl_test_begin(_i);
  float data[4] = {1, 2, 3, 4};
  int n_deleted = 0;
  kael_storage *s =
      kael_storage_external(data, sizeof data, count_call, &n_deleted, KAEL_STORAGE_SHARED);
  T a = kael_retain(MADE(kael_tensor_from_parts(s, SHAPE(4), (int64_t[]){1}, 0, KAEL_F32)));
  kael_storage_release(s);
  OK(kael_mul_scalar_(a, kael_i(2)));
  ck_assert_float_eq(data[3], 8);
  T sum = MADE(kael_sum(a)); /* runs at the call, because the caller may write */
  data[0] = 100;
  CHECK_VALUES(sum, 20);
  CHECK_VALUES(a, 100, 4, 6, 8);
  OK(kael_release(a));
  OK(kael_scope_end());
  ck_assert_int_eq(n_deleted, 1);
  OK(kael_scope_begin());
  kl_test_end();
}
END_TEST

START_TEST(chained_writes_to_external_memory_end_in_it) {
  kl_test_begin(_i);
  float data[4] = {1, 2, 3, 4};
  kael_storage *s = kael_storage_external(data, sizeof data, NULL, NULL, KAEL_STORAGE_OWNED);
  T a = MADE(kael_tensor_from_parts(s, SHAPE(4), (int64_t[]){1}, 0, KAEL_F32));
  kael_storage_release(s);
  OK(kael_add_scalar_(a, kael_i(1)));
  OK(kael_fill_(MADE(kael_narrow(a, 0, 1, 1)), kael_i(9)));
  OK(kael_neg_(MADE(kael_narrow(a, 0, 3, 1))));
  CHECK_VALUES(a, 2, 9, 4, -5);
  ck_assert_float_eq(data[1], 9);
  ck_assert_float_eq(data[3], -5);
  ck_assert_ptr_eq(kael_data_ptr(a), data);
  kl_test_end();
}
END_TEST

START_TEST(read_only_memory_is_not_written) {
  kl_test_begin(_i);
  static const double data[2] = {1, 2};
  kael_storage *s = kael_storage_external((void *)(uintptr_t)data, sizeof data, NULL, NULL,
                                          KAEL_STORAGE_READONLY);
  T a = MADE(kael_tensor_from_parts(s, SHAPE(2), (int64_t[]){1}, 0, KAEL_F64));
  kael_storage_release(s);
  CHECK_STATUS(kael_zero_(a), KAEL_ERR_RUNTIME, "read-only");
  ck_assert_ptr_null(kael_mutable_data_ptr(a));
  kael_clear_error();
  CHECK_VALUES(MADE(kael_neg(a)), -1, -2);
  kl_test_end();
}
END_TEST

START_TEST(a_mutable_pointer_stays_and_sees_later_writes) {
  kl_test_begin(_i);
  T a = kl_test_range(KAEL_F32, SHAPE(4));
  T tail = MADE(kael_narrow(a, 0, 2, 2));
  T before = MADE(kael_add_scalar(a, kael_i(0)));
  float *pointer = kael_mutable_data_ptr(tail);
  ck_assert_ptr_nonnull(pointer);
  pointer[0] = 50;
  CHECK_VALUES(before, 0, 1, 2, 3);
  CHECK_VALUES(a, 0, 1, 50, 3);
  OK(kael_add_scalar_(a, kael_i(1)));
  ck_assert_float_eq(pointer[1], 4);
  ck_assert_ptr_eq(kael_mutable_data_ptr(tail), pointer);
  ck_assert_uint_eq(kael_version(a), 1);
  kl_test_end();
}
END_TEST

START_TEST(a_storage_can_be_seen_in_several_dtypes) {
  kl_test_begin(_i);
  T a = kl_test_vector(KAEL_F32, VALUES(1, -2));
  T bits =
      MADE(kael_tensor_from_parts(kael_tensor_storage(a), SHAPE(2), (int64_t[]){1}, 0, KAEL_I32));
  T bytes =
      MADE(kael_tensor_from_parts(kael_tensor_storage(a), SHAPE(8), (int64_t[]){1}, 0, KAEL_U8));
  CHECK_VALUES(bits, 0x3f800000, -0x40000000);
  CHECK_VALUES(bytes, 0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0);
  OK(kael_fill_(MADE(kael_narrow(bytes, 0, 7, 1)), kael_i(0x40)));
  CHECK_VALUES(a, 1, 2);
  OK(kael_mul_scalar_(a, kael_i(2)));
  CHECK_VALUES(bits, 0x40000000, 0x40800000);
  kl_test_end();
}
END_TEST

START_TEST(bytes_beyond_the_last_element_survive_a_write) {
  kl_test_begin(_i);
  kael_storage *s = kael_storage_create(10);
  T bytes = MADE(kael_tensor_from_parts(s, SHAPE(10), (int64_t[]){1}, 0, KAEL_U8));
  OK(kael_fill_(bytes, kael_i(7)));
  T floats = MADE(kael_tensor_from_parts(s, SHAPE(2), (int64_t[]){1}, 0, KAEL_F32));
  OK(kael_zero_(floats));
  OK(kael_zero_(MADE(kael_narrow(floats, 0, 1, 1))));
  CHECK_VALUES(bytes, 0, 0, 0, 0, 0, 0, 0, 0, 7, 7);
  kael_storage_release(s);
  kl_test_end();
}
END_TEST

/* --- Handles, scopes, errors --------------------------------------------------------------------
 */

START_TEST(a_scope_releases_what_was_not_kept) {
  kl_test_begin(_i);
  T a = MADE(kael_zeros(SHAPE(2), KAEL_F32));
  OK(kael_scope_begin());
  T view = MADE(kael_narrow(a, 0, 0, 1));
  T kept = MADE(kael_add(a, a));
  ck_assert_int_eq(kael_storage_references(kael_tensor_storage(a)), 2);
  CHECK_STATUS(kael_release(view), KAEL_ERR_RUNTIME, "open scope");
  ck_assert_ptr_eq(kael_keep(kept), kept);
  OK(kael_scope_end());
  ck_assert_int_eq(kael_storage_references(kael_tensor_storage(a)), 1);
  CHECK_STATUS(kael_release(kept), KAEL_ERR_RUNTIME, "open scope"); /* the outer one's now */
  kael_keep(kept);
  CHECK_VALUES(kept, 0, 0);
  OK(kael_release(kept));
  kl_test_end();
  CHECK_STATUS(kael_scope_end(), KAEL_ERR_RUNTIME, "no scope is open");
}
END_TEST

START_TEST(null_goes_through_a_chain_and_the_first_error_stays) {
  kl_test_begin(_i);
  T a = kl_test_range(KAEL_F32, SHAPE(2)), b = kl_test_range(KAEL_F32, SHAPE(3));
  T c = kael_sum(kael_mul(kael_exp(kael_add(a, b)), b));
  CHECK_NULL(c, KAEL_ERR_RUNTIME,
             "The size of tensor a (2) must match the size of tensor b (3) at non-singleton "
             "dimension 0");
  CHECK_NULL(kael_neg(NULL), KAEL_ERR_VALUE, "NULL");
  CHECK_NULL(kael_add(a, KAEL_NONE), KAEL_ERR_VALUE, "KAEL_NONE");
  CHECK_STATUS(kael_add_(a, NULL), KAEL_ERR_VALUE, "NULL");
  ck_assert_int_eq(kael_last_error().code, KAEL_OK);
  kl_test_end();
}
END_TEST

START_TEST(item_wants_one_element) {
  kl_test_begin(_i);
  double d;
  int64_t i;
  T big = MADE(kael_scalar_tensor(kael_i(INT64_MAX), KAEL_I64));
  OK(kael_item_int(big, &i));
  ck_assert_int_eq(i, INT64_MAX);
  OK(kael_item(MADE(kael_full(SHAPE(1, 1), kael_f(0.5), KAEL_F32)), &d));
  ck_assert_double_eq(d, 0.5);
  OK(kael_item_int(MADE(kael_scalar_tensor(kael_f(1e300), KAEL_F64)), &i));
  ck_assert_int_eq(i, INT64_MAX);
  CHECK_STATUS(kael_item(kl_test_range(KAEL_F32, SHAPE(2)), &d), KAEL_ERR_RUNTIME,
               "a Tensor with 2 elements cannot be converted to Scalar");
  float two[2];
  CHECK_STATUS(kael_copy_to_host(kl_test_range(KAEL_F32, SHAPE(3)), two, sizeof two),
               KAEL_ERR_VALUE, "12 bytes");
  kl_test_end();
}
END_TEST

START_TEST(explain_counts_the_references_of_the_storage) {
  kl_test_begin(_i);
  T a = MADE(kael_zeros(SHAPE(2, 3), KAEL_F32));
  T b = MADE(kael_T(a));
  char *text = kael_explain(b);
  ck_assert_ptr_nonnull(text);
  ck_assert_msg(strstr(text, "references: 2,") != NULL, "%s", text);
  ck_assert_msg(strstr(text, "[3, 2]") != NULL, "%s", text);
  ck_assert_msg(strstr(text, _i ? "PENDING" : "REAL") != NULL, "%s", text);
  ck_assert_msg((strstr(text, "pending graph: 1 nodes") != NULL) == (_i == 1), "%s", text);
  kael_string_free(text);
  text = kael_to_string(kl_test_range(KAEL_I64, SHAPE(2, 2)));
  ck_assert_str_eq(text, "tensor([[0, 1],\n        [2, 3]])");
  kael_string_free(text);
  kl_test_end();
}
END_TEST

START_TEST(a_chain_of_a_million_pending_operations_is_freed_and_runs) {
  kl_test_begin(_i);
  T x = kael_retain(MADE(kael_zeros(SHAPE(4), KAEL_F32)));
  for (int i = 0; i < (_i ? 1000000 : 2000); i++) OK(kael_add_scalar_(x, kael_f(1)));
  double first;
  OK(kael_item(MADE(kael_select(x, 0, 0)), &first));
  ck_assert_double_eq(first, _i ? 1000000 : 2000);
  ck_assert_uint_eq(kael_version(x), _i ? 1000000 : 2000);
  OK(kael_release(x));
  kl_test_end();
}
END_TEST

int main(void) {
  const TTest *const tests[] = {
      tensor_copy_shares_data,
      tensor_clone_does_not_share_data,
      tensor_from_impl_validates,
      tensor_clone_of_offset_tensor_starts_at_zero,
      in_place_on_expanded_tensor_throws,
      autograd_version_modifying_saved_input_throws,
      autograd_version_modifying_saved_output_through_detach_throws,
      a_move_is_seen_by_every_handle_while_an_older_view_keeps_the_old_storage,
      the_worked_example,
      a_reader_recorded_before_a_write_sees_the_old_value,
      a_write_through_a_view_of_a_pending_tensor_reaches_its_base,
      writes_through_gapped_views_keep_the_other_elements,
      an_operand_that_overlaps_the_output_is_read_as_it_was_before,
      a_result_in_place_is_cast_to_the_dtype_of_self,
      external_memory_is_used_in_place_and_given_back_once,
      chained_writes_to_external_memory_end_in_it,
      read_only_memory_is_not_written,
      a_mutable_pointer_stays_and_sees_later_writes,
      a_storage_can_be_seen_in_several_dtypes,
      bytes_beyond_the_last_element_survive_a_write,
      a_scope_releases_what_was_not_kept,
      null_goes_through_a_chain_and_the_first_error_stays,
      item_wants_one_element,
      explain_counts_the_references_of_the_storage,
      a_chain_of_a_million_pending_operations_is_freed_and_runs,
  };
  Suite *suite = suite_create("tensor");
  TCase *both = tcase_create("eager and lazy");
  for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
    tcase_add_loop_test(both, tests[i], 0, 2);
  suite_add_tcase(suite, both);
  return kl_test_run(suite);
}
