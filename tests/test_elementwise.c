/* The wider set of elementwise operators, and the small dtypes: values made with PyTorch. Every
 * test runs in eager and in lazy mode. */
#include <math.h>

#include "tests/support/tensors.h"

typedef kael_tensor *T;

static T vec(kael_dtype dtype, int n, const double *values) {
  return kl_test_vector(dtype, n, values);
}
#define F32(...) vec(KAEL_F32, VALUES(__VA_ARGS__))
#define I32(...) vec(KAEL_I32, VALUES(__VA_ARGS__))
#define F16(...) vec(KAEL_F16, VALUES(__VA_ARGS__))
#define BF16(...) vec(KAEL_BF16, VALUES(__VA_ARGS__))

START_TEST(all_dtypes_promote_as_in_pytorch) {
  kl_test_begin(_i);
  static const int expected[10][10] = {
      {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 1, 3, 3, 4, 5, 6, 7, 8, 9},
      {2, 3, 2, 3, 4, 5, 6, 7, 8, 9}, {3, 3, 3, 3, 4, 5, 6, 7, 8, 9},
      {4, 4, 4, 4, 4, 5, 6, 7, 8, 9}, {5, 5, 5, 5, 5, 5, 6, 7, 8, 9},
      {6, 6, 6, 6, 6, 6, 6, 8, 8, 9}, {7, 7, 7, 7, 7, 7, 8, 7, 8, 9},
      {8, 8, 8, 8, 8, 8, 8, 8, 8, 9}, {9, 9, 9, 9, 9, 9, 9, 9, 9, 9}};
  for (int i = 0; i < 10; i++)
    for (int j = 0; j < 10; j++) {
      T sum = MADE(kael_add(MADE(kael_ones(SHAPE(2), (kael_dtype)i)),
                            MADE(kael_ones(SHAPE(2), (kael_dtype)j))));
      ck_assert_int_eq(kael_dtype_of(sum), expected[i][j]);
      if (i > 0 || j > 0) CHECK_VALUES(sum, 2, 2);
    }
  kl_test_end();
}
END_TEST

START_TEST(small_integers_wrap_and_saturate) {
  kl_test_begin(_i);
  T a = vec(KAEL_I8, VALUES(100, -100));
  CHECK_VALUES(MADE(kael_add(a, a)), -56, 56);
  CHECK_VALUES(MADE(kael_mul_scalar(a, kael_i(2))), -56, 56);
  CHECK_VALUES(MADE(kael_div_scalar(a, kael_i(2))), 50, -50);
  CHECK_VALUES(MADE(kael_sum(a)), 0);
  CHECK_VALUES(MADE(kael_to_dtype(F32(1e9, -1e9, NAN, 3.9), KAEL_I8)), 127, -128, 0, 3);
  CHECK_VALUES(MADE(kael_to_dtype(F32(1e9, -1e9, NAN, -3.9), KAEL_I16)), 32767, -32768, 0, -3);
  CHECK_VALUES(MADE(kael_to_dtype(I32(300, -300), KAEL_I8)), 44, -44);
  CHECK_VALUES(MADE(kael_maximum(a, vec(KAEL_I16, VALUES(1000, -1000)))), 1000, -100);
  CHECK_NULL(kael_full(SHAPE(1), kael_i(128), KAEL_I8), KAEL_ERR_RUNTIME, "without overflow");
  int16_t data[2] = {-5, 300};
  T b = MADE(kael_from_data(data, SHAPE(2), KAEL_I16));
  OK(kael_neg_(b));
  char *text = kael_to_string(b);
  ck_assert_str_eq(text, "tensor([5, -300], dtype=int16)");
  kael_string_free(text);
  kl_test_end();
}
END_TEST

START_TEST(halves_are_computed_in_f32_and_rounded_once) {
  kl_test_begin(_i);
  T h = F16(1.0, 0.1, 60000, -2.7), b = BF16(1.0, 0.1, 3.14159, -2.7);
  CHECK_VALUES(h, 1, 0.0999755859375, 60000, -2.69921875);
  CHECK_VALUES(b, 1, 0.10009765625, 3.140625, -2.703125);
  CHECK_VALUES(MADE(kael_add_scalar(h, kael_f(0.0007))), 1.0009765625, 0.10064697265625, 60000,
               -2.69921875);
  CHECK_VALUES(MADE(kael_mul(h, h)), 1, 0.0099945068359375, INFINITY, 7.28515625);
  CHECK_VALUES(MADE(kael_sum(h)), 60000);
  CHECK_VALUES(MADE(kael_mean(h)), 15000);
  CHECK_VALUES(MADE(kael_softmax(MADE(kael_narrow(h, 0, 0, 2)), 0)), 0.7109375, 0.2890625);
  CHECK_VALUES(MADE(kael_eq_scalar(h, kael_f(0.1))), 0, 1, 0, 0);
  CHECK_VALUES(MADE(kael_exp(h)), 2.71875, 1.10546875, INFINITY, 0.0672607421875);
  CHECK_VALUES(MADE(kael_mul_scalar(b, kael_f(1.01))), 1.0078125, 0.10107421875, 3.171875,
               -2.734375);
  CHECK_VALUES(MADE(kael_sin(b)), 0.83984375, 0.10009765625, 0.00096893310546875, -0.423828125);
  CHECK_VALUES(MADE(kael_pow(b, kael_i(3))), 1, 0.00099945068359375, 31, -19.75);
  CHECK_VALUES(MADE(kael_pow(h, kael_i(3))), 1, 0.00099945068359375, INFINITY, -19.671875);
  CHECK_VALUES(MADE(kael_to_dtype(b, KAEL_F16)), 1, 0.10009765625, 3.140625, -2.703125);
  CHECK_VALUES(MADE(kael_argmax(h)), 2);
  T m = MADE(kael_reshape(h, SHAPE(2, 2)));
  CHECK_VALUES(MADE(kael_matmul(MADE(kael_eye(2, 2, KAEL_F16)), m)), 1, 0.0999755859375, 60000,
               -2.69921875);
  OK(kael_add_scalar_(h, kael_i(1)));
  CHECK_VALUES(h, 2, 1.099609375, 60000, -1.69921875);
  OK(kael_sub_(h, h));
  CHECK_VALUES(h, 0, 0, 0, 0);
  double item;
  OK(kael_item(MADE(kael_full(SCALAR_SHAPE, kael_f(5.9604644775390625e-8), KAEL_F16)), &item));
  ck_assert_double_eq(item, 5.9604644775390625e-8);
  CHECK_NULL(kael_full(SHAPE(1), kael_f(65520), KAEL_F16), KAEL_ERR_RUNTIME, "without overflow");
  char *text = kael_to_string(MADE(kael_full(SHAPE(2), kael_f(0.5), KAEL_BF16)));
  ck_assert_str_eq(text, "tensor([0.5, 0.5], dtype=bfloat16)");
  kael_string_free(text);
  kl_test_end();
}
END_TEST

START_TEST(every_half_survives_the_way_through_f32) {
  kl_test_begin(_i);
  static uint16_t bits[65536], back[65536];
  for (int i = 0; i < 65536; i++) bits[i] = (uint16_t)i;
  for (int dtype = KAEL_F16; dtype <= KAEL_BF16; dtype++) {
    T x = MADE(kael_from_data(bits, SHAPE(65536), (kael_dtype)dtype));
    T same = MADE(kael_to_dtype(MADE(kael_to_dtype(x, KAEL_F32)), (kael_dtype)dtype));
    OK(kael_copy_to_host(same, back, sizeof back));
    const int exponent = dtype == KAEL_F16 ? 0x7c00 : 0x7f80;
    for (int i = 0; i < 65536; i++) {
      const bool is_nan = (i & 0x7fff) > exponent;
      ck_assert_msg(back[i] == i || (is_nan && (back[i] & 0x7fff) > exponent), "%x became %x", i,
                    back[i]);
    }
    for (int i = 0; i < 65536; i += 257) { /* what the host makes of it is the same */
      double value;
      float wide;
      OK(kael_item(MADE(kael_select(x, 0, i)), &value));
      OK(kael_copy_to_host(MADE(kael_select(MADE(kael_to_dtype(x, KAEL_F32)), 0, i)), &wide,
                           sizeof wide));
      ck_assert(value == (double)wide || (isnan(value) && isnan(wide)));
      if (isfinite(value)) {
        OK(kael_copy_to_host(MADE(kael_full(SCALAR_SHAPE, kael_f(value), (kael_dtype)dtype)), back,
                             2));
        ck_assert_int_eq(back[0], i);
      }
    }
  }
  kl_test_end();
}
END_TEST

START_TEST(rounding_and_signs) {
  kl_test_begin(_i);
  T x = F32(-2.5, 0.5, 1.5, NAN);
  CHECK_VALUES(MADE(kael_floor(x)), -3, 0, 1, NAN);
  CHECK_VALUES(MADE(kael_ceil(x)), -2, 1, 2, NAN);
  CHECK_VALUES(MADE(kael_round(x)), -2, 0, 2, NAN);
  CHECK_VALUES(MADE(kael_trunc(x)), -2, 0, 1, NAN);
  CHECK_VALUES(MADE(kael_sign(F32(-2.5, 0, 1.5, NAN))), -1, 0, 1, 0);
  CHECK_VALUES(MADE(kael_floor(I32(-3, 4))), -3, 4);
  ck_assert_int_eq(kael_dtype_of(MADE(kael_round(I32(-3, 4)))), KAEL_I32);
  CHECK_NULL(kael_floor(MADE(kael_ones(SHAPE(1), KAEL_BOOL))), KAEL_ERR_RUNTIME, "bool");
  CHECK_VALUES(MADE(kael_sign(MADE(kael_ones(SHAPE(1), KAEL_BOOL)))), 1);
  OK(kael_trunc_(x));
  CHECK_VALUES(x, -2, 0, 1, NAN);
  CHECK_VALUES(MADE(kael_isnan(x)), 0, 0, 0, 1);
  T y = F32(INFINITY, -INFINITY, 1, NAN);
  CHECK_VALUES(MADE(kael_isinf(y)), 1, 1, 0, 0);
  CHECK_VALUES(MADE(kael_isfinite(y)), 0, 0, 1, 0);
  CHECK_VALUES(MADE(kael_isfinite(I32(1, 2))), 1, 1);
  CHECK_VALUES(MADE(kael_isinf(I32(1, 2))), 0, 0);
  CHECK_VALUES(MADE(kael_isinf(F16(INFINITY, 2))), 1, 0);
  CHECK_VALUES(MADE(kael_copysign(F32(1, -2, 3), F32(-1, 1, -0.0))), -1, 2, -3);
  CHECK_VALUES(MADE(kael_atan2(F32(0, 0), F32(1, 0))), 0, 0);
  kl_test_end();
}
END_TEST

START_TEST(integer_division_and_bits) {
  kl_test_begin(_i);
  T a = I32(7, -7, 7, -7), d = I32(2, 2, -2, -2);
  CHECK_VALUES(MADE(kael_remainder(a, d)), 1, 1, -1, -1);
  CHECK_VALUES(MADE(kael_fmod(a, d)), 1, -1, 1, -1);
  CHECK_VALUES(MADE(kael_floor_divide(a, d)), 3, -4, -4, 3);
  CHECK_VALUES(MADE(kael_floor_divide_scalar(a, kael_i(2))), 3, -4, 3, -4);
  CHECK_VALUES(MADE(kael_remainder_scalar(F32(5.5, -5.5), kael_i(2))), 1.5, 0.5);
  CHECK_VALUES(MADE(kael_floor_divide(F32(1, -1), F32(0, 0))), INFINITY, -INFINITY);
  CHECK_VALUES(MADE(kael_bitwise_left_shift_scalar(a, kael_i(1))), 14, -14, 14, -14);
  CHECK_VALUES(MADE(kael_bitwise_right_shift_scalar(a, kael_i(1))), 3, -4, 3, -4);
  CHECK_VALUES(MADE(kael_bitwise_and(a, d)), 2, 0, 6, -8);
  CHECK_VALUES(MADE(kael_bitwise_or_scalar(a, kael_i(8))), 15, -7, 15, -7);
  CHECK_VALUES(MADE(kael_bitwise_xor(a, a)), 0, 0, 0, 0);
  CHECK_VALUES(MADE(kael_bitwise_not(a)), -8, 6, -8, 6);
  CHECK_NULL(kael_remainder(a, I32(1, 0, 1, 1)), KAEL_ERR_RUNTIME, "ZeroDivisionError");
  CHECK_NULL(kael_fmod_scalar(a, kael_i(0)), KAEL_ERR_RUNTIME, "ZeroDivisionError");
  CHECK_NULL(kael_bitwise_and(F32(1), F32(1)), KAEL_ERR_NOT_IMPLEMENTED, "float32");
  CHECK_NULL(kael_bitwise_left_shift(F32(1), F32(1)), KAEL_ERR_NOT_IMPLEMENTED, "float32");
  CHECK_STATUS(kael_remainder_scalar_(a, kael_f(2.5)), KAEL_ERR_RUNTIME, "can't be cast");
  OK(kael_floor_divide_(a, d));
  CHECK_VALUES(a, 3, -4, -4, 3);
  OK(kael_bitwise_right_shift_scalar_(a, kael_i(1)));
  CHECK_VALUES(a, 1, -2, -2, 1);
  ck_assert_uint_eq(kael_version(a), 2);
  kl_test_end();
}
END_TEST

START_TEST(bounds_and_mixtures) {
  kl_test_begin(_i);
  const kael_scalar one = kael_i(1), two = kael_i(2), half = kael_f(0.5), nan = kael_f(NAN);
  T x = F32(0, 1.5, 3, NAN);
  CHECK_VALUES(MADE(kael_clamp(x, &one, &two)), 1, 1.5, 2, NAN);
  CHECK_VALUES(MADE(kael_clamp(x, &two, &one)), 1, 1, 1, NAN);
  CHECK_VALUES(MADE(kael_clamp(x, NULL, &half)), 0, 0.5, 0.5, NAN);
  CHECK_VALUES(MADE(kael_clamp(x, &nan, NULL)), NAN, NAN, NAN, NAN);
  T n = I32(0, 5);
  CHECK_VALUES(MADE(kael_clamp(n, &half, NULL)), 0.5, 5);
  CHECK_STATUS(kael_clamp_(n, &half, NULL), KAEL_ERR_RUNTIME, "can't be cast");
  CHECK_NULL(kael_clamp(x, NULL, NULL), KAEL_ERR_VALUE, "At least one");
  OK(kael_clamp_(n, &one, &two));
  CHECK_VALUES(n, 1, 2);
  CHECK_VALUES(MADE(kael_clamp_tensor(F32(0, 5), F32(1, 1), KAEL_NONE)), 1, 5);
  CHECK_NULL(kael_clamp_tensor(x, KAEL_NONE, KAEL_NONE), KAEL_ERR_VALUE, "At least one");
  T f = F32(1, NAN, 3), g = F32(2, 2, NAN);
  CHECK_VALUES(MADE(kael_fmax(f, g)), 2, 2, 3);
  CHECK_VALUES(MADE(kael_fmin(f, g)), 1, 2, 3);
  CHECK_VALUES(MADE(kael_lerp(F32(1, 2), F32(3, 5), kael_f(0.25))), 1.5, 2.75);
  CHECK_VALUES(MADE(kael_lerp_tensor(F32(1, 2), F32(3, 5), F32(0.25, 1))), 1.5, 5);
  CHECK_NULL(kael_lerp(F32(1), I32(1), one), KAEL_ERR_RUNTIME, "expected dtype float32 for `end`");
  CHECK_VALUES(MADE(kael_addcmul(F32(1, 2), F32(3, 4), F32(5, 6), two)), 31, 50);
  CHECK_VALUES(MADE(kael_addcdiv(F32(1, 2), F32(3, 4), F32(4, 8), two)), 2.5, 3);
  CHECK_NULL(kael_addcdiv(n, n, n, one), KAEL_ERR_RUNTIME, "no longer supported");
  CHECK_NULL(kael_addcmul(n, n, n, half), KAEL_ERR_RUNTIME, "must not be a floating point");
  T y = F32(1, 2);
  OK(kael_addcmul_(y, y, y, one));
  CHECK_VALUES(y, 2, 6);
  kl_test_end();
}
END_TEST

static void close_to(T tensor, int n, const double *expected) {
  double got[8];
  OK(kael_copy_to_host(tensor, got, sizeof(double) * (size_t)n));
  for (int i = 0; i < n; i++) ck_assert_double_eq_tol(got[i], expected[i], 1e-15);
}

START_TEST(activations_and_functions_are_close_to_pytorchs) {
  kl_test_begin(_i);
  T z = vec(KAEL_F64, VALUES(-1, 0, 2));
  close_to(MADE(kael_gelu(z, false)), VALUES(-0.15865525393145702, 0, 1.9544997361036416));
  close_to(MADE(kael_gelu(z, true)), VALUES(-0.15880800939172324, 0, 1.954597694087775));
  close_to(MADE(kael_silu(z)), VALUES(-0.2689414213699951, 0, 1.7615941559557646));
  close_to(MADE(kael_erf(z)), VALUES(-0.8427007929497149, 0, 0.9953222650189527));
  close_to(MADE(kael_expm1(z)), VALUES(-0.6321205588285577, 0, 6.38905609893065));
  CHECK_VALUES(MADE(kael_exp2(I32(3, -1))), 8, 0.5);
  CHECK_VALUES(MADE(kael_log2(I32(8, 1))), 3, 0);
  CHECK_VALUES(MADE(kael_rsqrt(F32(4, 0))), 0.5, INFINITY);
  CHECK_NULL(kael_gelu(I32(1), false), KAEL_ERR_NOT_IMPLEMENTED, "int32");
  OK(kael_silu_(z));
  close_to(z, VALUES(-0.2689414213699951, 0, 1.7615941559557646));
  kl_test_end();
}
END_TEST

static Suite *suite(void) {
  Suite *s = suite_create("elementwise");
  TCase *t = tcase_create("eager and lazy");
  tcase_add_loop_test(t, all_dtypes_promote_as_in_pytorch, 0, 2);
  tcase_add_loop_test(t, small_integers_wrap_and_saturate, 0, 2);
  tcase_add_loop_test(t, halves_are_computed_in_f32_and_rounded_once, 0, 2);
  tcase_add_loop_test(t, every_half_survives_the_way_through_f32, 0, 2);
  tcase_add_loop_test(t, rounding_and_signs, 0, 2);
  tcase_add_loop_test(t, integer_division_and_bits, 0, 2);
  tcase_add_loop_test(t, bounds_and_mixtures, 0, 2);
  tcase_add_loop_test(t, activations_and_functions_are_close_to_pytorchs, 0, 2);
  suite_add_tcase(s, t);
  return s;
}

int main(void) { return kl_test_run(suite()); }
