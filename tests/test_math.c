/* The scalar functions of codegen/math: against MPFR within the bounds of docs/numerics.md, and
 * against definitions written here for what is exact. scripts/math-sweep covers all floats. */
#include "tests/math_reference.h"

#include <check.h>
#include <stdbool.h>
#include <stdlib.h>

#include "ir/op.h"
#include "tests/support/runner.h"

#define N_SAMPLES 5000

static mpfr_t argument_1, argument_2, exact_value;

static void make_values(void) {
  mpfr_inits2(REFERENCE_BITS, argument_1, argument_2, exact_value, (mpfr_ptr)0);
}

static void clear_values(void) {
  mpfr_clears(argument_1, argument_2, exact_value, (mpfr_ptr)0);
  mpfr_free_cache();
}

static bool same_f32(float a, float b) {
  return (isnan(a) && isnan(b)) || f32_bits(a) == f32_bits(b);
}
static bool same_f64(double a, double b) {
  return (isnan(a) && isnan(b)) || f64_bits(a) == f64_bits(b);
}

/* Check's own assertions write to a pipe each time, which is too slow for millions. */
#define CHECK(condition, ...)                                                                      \
  do {                                                                                             \
    if (!(condition)) ck_abort_msg(__VA_ARGS__);                                                   \
  } while (0)
#define CHECK_INT(got, want)                                                                       \
  do {                                                                                             \
    int64_t got_ = (got), want_ = (want);                                                          \
    CHECK(got_ == want_, "%s is %lld and not %lld", #got, (long long)got_, (long long)want_);      \
  } while (0)
#define ASSERT_F32(got, want)                                                                      \
  do {                                                                                             \
    float got_ = (got), want_ = (want);                                                            \
    CHECK(same_f32(got_, want_), "%s is %a and not %a", #got, got_, want_);                        \
  } while (0)
#define ASSERT_F64(got, want)                                                                      \
  do {                                                                                             \
    double got_ = (got), want_ = (want);                                                           \
    CHECK(same_f64(got_, want_), "%s is %a and not %a", #got, got_, want_);                        \
  } while (0)

START_TEST(unary_functions_of_f32_keep_their_bounds) {
  const unary_case *c = &unary_cases[_i];
  uint64_t state = 11;
  for (int i = 0; i < N_SAMPLES; i++) {
    float x = random_argument_f32(c, &state);
    mpfr_set_flt(argument_1, x, MPFR_RNDN);
    c->exact(exact_value, argument_1);
    double ulp = ulp_distance_f32(c->f32(x), exact_value);
    CHECK(ulp <= c->max_ulp, "%s(%a) = %a is off by %g ULP", c->name, x, c->f32(x), ulp);
  }
}
END_TEST

START_TEST(unary_functions_of_f64_keep_their_bounds) {
  const unary_case *c = &unary_cases[_i];
  uint64_t state = 12;
  for (int i = 0; i < N_SAMPLES; i++) {
    double x = random_argument(c, &state);
    mpfr_set_d(argument_1, x, MPFR_RNDN);
    c->exact(exact_value, argument_1);
    double ulp = ulp_distance_f64(c->f64(x), exact_value);
    CHECK(ulp <= c->max_ulp_f64, "%s(%a) = %a is off by %g ULP", c->name, x, c->f64(x), ulp);
  }
}
END_TEST

START_TEST(unary_functions_are_right_at_edges) {
  const unary_case *c = &unary_cases[_i];
  static const double edges[] = {
      0.0,           -0.0,     1,        -1,        0.5,       -0.5,    2,      0x1p-149,
      -0x1p-149,     0x1p-126, 0x1p-130, 0x1p-1074, 0x1p-1022, 1e300,   -1e300, 88.7,
      88.8,          -87.5,    -103.9,   -104.1,    709.7,     709.8,   -745.1, -745.2,
      127.99,        128,      -149.5,   -150.5,    1024,      -1075.5, 131072, 131073,
      68719476736.0, 1e22,     INFINITY, -INFINITY, NAN};
  for (size_t i = 0; i < sizeof edges / sizeof *edges; i++) {
    mpfr_set_d(argument_1, edges[i], MPFR_RNDN);
    c->exact(exact_value, argument_1);
    double ulp = ulp_distance_f64(c->f64(edges[i]), exact_value);
    CHECK(ulp <= c->max_ulp_f64, "f64 %s(%a) = %a", c->name, edges[i], c->f64(edges[i]));
    float x = (float)edges[i];
    mpfr_set_flt(argument_1, x, MPFR_RNDN);
    c->exact(exact_value, argument_1);
    ulp = ulp_distance_f32(c->f32(x), exact_value);
    CHECK(ulp <= c->max_ulp, "f32 %s(%a) = %a", c->name, x, c->f32(x));
    if (mpfr_zero_p(exact_value) && strcmp(c->name, "ndtri") != 0) {
      bool negative = mpfr_signbit(exact_value) != 0;
      ck_assert_msg((signbit(c->f32(x)) != 0) == negative, "sign of f32 %s(%a)", c->name, x);
    }
  }
}
END_TEST

START_TEST(odd_functions_keep_the_sign_of_zero) {
  static const char *const odd[] = {"expm1", "log1p", "sin", "tan", "tanh", "erf", "sqrt"};
  size_t n_checked = 0;
  for (size_t i = 0; i < N_UNARY_CASES; i++) {
    for (size_t j = 0; j < sizeof odd / sizeof *odd; j++) {
      if (strcmp(unary_cases[i].name, odd[j]) != 0) continue;
      ASSERT_F32(unary_cases[i].f32(-0.0f), -0.0f);
      ASSERT_F32(unary_cases[i].f32(0.0f), 0.0f);
      ASSERT_F64(unary_cases[i].f64(-0.0), -0.0);
      ASSERT_F64(unary_cases[i].f64(0.0), 0.0);
      n_checked++;
    }
  }
  ck_assert_uint_eq(n_checked, sizeof odd / sizeof *odd);
}
END_TEST

/* --- Functions of two floats --- */

static void check_pow_f32(float x, float y) {
  mpfr_set_flt(argument_1, x, MPFR_RNDN);
  mpfr_set_flt(argument_2, y, MPFR_RNDN);
  mpfr_pow(exact_value, argument_1, argument_2, MPFR_RNDN);
  float got = kl_math_pow_f32(x, y);
  double ulp = ulp_distance_f32(got, exact_value);
  CHECK(ulp <= 2, "pow(%a, %a) = %a is off by %g ULP", x, y, got, ulp);
}

static void check_pow_f64(double x, double y) {
  mpfr_set_d(argument_1, x, MPFR_RNDN);
  mpfr_set_d(argument_2, y, MPFR_RNDN);
  mpfr_pow(exact_value, argument_1, argument_2, MPFR_RNDN);
  double got = kl_math_pow_f64(x, y);
  double ulp = ulp_distance_f64(got, exact_value);
  CHECK(ulp <= 2, "pow(%a, %a) = %a is off by %g ULP", x, y, got, ulp);
}

static double random_unit(uint64_t *state) { return (double)(next_random(state) >> 11) * 0x1p-53; }

START_TEST(pow_keeps_its_bound) {
  uint64_t state = 13;
  for (int i = 0; i < N_SAMPLES; i++) {
    float any = f32_of((uint32_t)next_random(&state));
    double base = exp2(random_unit(&state) * 40 - 20);
    /* An exponent that takes the result over the whole range, and any one. */
    double exponent = (random_unit(&state) * 2 - 1) * 1080 / fabs(log2(base));
    check_pow_f32((float)base, (float)(exponent / 7));
    check_pow_f64(base, exponent);
    check_pow_f32(fabsf(any), (float)exponent / 40);
    check_pow_f64(1 + random_unit(&state) * 1e-5, exponent * 1e3);
    check_pow_f32(-(float)base, (float)(int)(random_unit(&state) * 30));
    check_pow_f64(-base, (double)(int)(random_unit(&state) * 90));
  }
}
END_TEST

START_TEST(pow_treats_special_values_as_c99) {
  static const double edges[] = {0.0,      -0.0,     1,          -1,        2,    -2,
                                 0.5,      -0.5,     3,          -3,        1.5,  -1.5,
                                 0x1p-149, 0x1p24,   0x1p24 + 2, -0x1p24,   1e38, -1e38,
                                 0x1p-126, 33554433, INFINITY,   -INFINITY, NAN};
  size_t n = sizeof edges / sizeof *edges;
  for (size_t i = 0; i < n * n; i++) {
    double x = edges[i / n], y = edges[i % n];
    double want = pow(x, y), got = kl_math_pow_f64(x, y);
    ck_assert_msg(same_f64(got, want) || fabs(got - want) <= 0x1p-51 * fabs(want),
                  "pow(%a, %a) = %a, not %a", x, y, got, want);
    float want_f32 = powf((float)x, (float)y), got_f32 = kl_math_pow_f32((float)x, (float)y);
    CHECK(same_f32(got_f32, want_f32) || fabsf(got_f32 - want_f32) <= 0x1p-22f * fabsf(want_f32),
          "powf(%a, %a) = %a, not %a", x, y, got_f32, want_f32);
    ck_assert(signbit(got) == signbit(want) || isnan(want));
  }
}
END_TEST

START_TEST(atan2_keeps_its_bound) {
  uint64_t state = 14;
  for (int i = 0; i < N_SAMPLES; i++) {
    bool any = i % 4 == 0;
    double y = any ? f64_of(next_random(&state)) : random_unit(&state) * 2 - 1;
    double x = any ? f64_of(next_random(&state)) : random_unit(&state) * 2 - 1;
    mpfr_set_d(argument_1, y, MPFR_RNDN);
    mpfr_set_d(argument_2, x, MPFR_RNDN);
    mpfr_atan2(exact_value, argument_1, argument_2, MPFR_RNDN);
    double ulp = ulp_distance_f64(kl_math_atan2_f64(y, x), exact_value);
    CHECK(ulp <= 2, "atan2(%a, %a) is off by %g ULP", y, x, ulp);
    mpfr_set_flt(argument_1, (float)y, MPFR_RNDN);
    mpfr_set_flt(argument_2, (float)x, MPFR_RNDN);
    mpfr_atan2(exact_value, argument_1, argument_2, MPFR_RNDN);
    ulp = ulp_distance_f32(kl_math_atan2_f32((float)y, (float)x), exact_value);
    CHECK(ulp <= 2, "atan2f(%a, %a) is off by %g ULP", y, x, ulp);
  }
  static const double edges[] = {0.0,       -0.0, 1,        -1,        0x1p-149,
                                 -0x1p-149, 1e38, INFINITY, -INFINITY, NAN};
  size_t n = sizeof edges / sizeof *edges;
  for (size_t i = 0; i < n * n; i++) {
    double y = edges[i / n], x = edges[i % n], want = atan2(y, x), got = kl_math_atan2_f64(y, x);
    ck_assert_msg(same_f64(got, want) || fabs(got - want) < 1e-15, "atan2(%a, %a) = %a, not %a", y,
                  x, got, want);
    ck_assert(signbit(got) == signbit(want) || isnan(want));
  }
}
END_TEST

static const double modulo_edges[] = {
    0.0,       -0.0, 1,     -1,       3,         -3,        7.5,      -7.5,       0.1,
    1e-3,      1e10, 1e30,  -3.3e38,  0x1p-149,  -0x1p-149, 0x1p-126, 0x1.8p-127, INFINITY,
    -INFINITY, NAN,  1e300, -1.7e308, 0x1p-1074, 0x1p-1022, 0x1p23,   0x1p52 + 1};
#define N_MODULO_EDGES (sizeof modulo_edges / sizeof *modulo_edges)

/* Python's definitions, from C's fmod. */
static double python_remainder(double x, double y) {
  double rest = fmod(x, y);
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

static double python_floor_div(double x, double y) {
  if (y == 0) return x / y;
  double rest = fmod(x, y);
  double quotient = (x - rest) / y;
  if (rest != 0 && (rest < 0) != (y < 0)) quotient -= 1;
  if (quotient == 0) return copysign(0, x / y);
  double floored = floor(quotient);
  return quotient - floored > 0.5 ? floored + 1 : floored;
}

static float python_remainder_f32(float x, float y) {
  float rest = fmodf(x, y);
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

static float python_floor_div_f32(float x, float y) {
  if (y == 0) return x / y;
  float rest = fmodf(x, y);
  float quotient = (x - rest) / y;
  if (rest != 0 && (rest < 0) != (y < 0)) quotient -= 1;
  if (quotient == 0) return copysignf(0, x / y);
  float floored = floorf(quotient);
  return quotient - floored > 0.5f ? floored + 1 : floored;
}

static void check_modulo(double x, double y) {
  ASSERT_F64(kl_math_fmod_f64(x, y), fmod(x, y));
  ASSERT_F64(kl_math_remainder_f64(x, y), python_remainder(x, y));
  ASSERT_F64(kl_math_floor_div_f64(x, y), python_floor_div(x, y));
  float a = (float)x, b = (float)y;
  ASSERT_F32(kl_math_fmod_f32(a, b), fmodf(a, b));
  ASSERT_F32(kl_math_remainder_f32(a, b), python_remainder_f32(a, b));
  ASSERT_F32(kl_math_floor_div_f32(a, b), python_floor_div_f32(a, b));
}

START_TEST(float_modulo_is_exact) {
  for (size_t i = 0; i < N_MODULO_EDGES * N_MODULO_EDGES; i++) {
    check_modulo(modulo_edges[i / N_MODULO_EDGES], modulo_edges[i % N_MODULO_EDGES]);
  }
  uint64_t state = 15;
  for (int i = 0; i < N_SAMPLES; i++) {
    double x = f64_of(next_random(&state)), y = f64_of(next_random(&state));
    check_modulo(x, y);
    check_modulo(f32_of((uint32_t)next_random(&state)), f32_of((uint32_t)next_random(&state)));
    check_modulo((random_unit(&state) - 0.5) * 1000, (random_unit(&state) - 0.5) * 10);
    check_modulo((double)(int)(random_unit(&state) * 1000),
                 (double)(int)(random_unit(&state) * 20) / 4);
  }
}
END_TEST

START_TEST(rare_arguments_are_the_only_ones_that_need_the_rare_code) {
  uint64_t state = 16;
  for (int i = 0; i < N_SAMPLES; i++) {
    float x = f32_of((uint32_t)next_random(&state)), y = f32_of((uint32_t)next_random(&state));
    if (!kl_math_sin_is_rare_f32(x)) ASSERT_F32(kl_math_sin_common_f32(x), kl_math_sin_f32(x));
    if (!kl_math_fmod_is_rare_f32(x, y)) {
      ASSERT_F32(kl_math_fmod_common_f32(x, y), fmodf(x, y));
      if (isfinite(x) && isfinite(y)) ASSERT_F32(kl_math_fmod_rare_f32(x, y), fmodf(x, y));
    }
  }
  ck_assert(!kl_math_sin_is_rare_f32(1e5f) && kl_math_sin_is_rare_f32(1e6f));
}
END_TEST

START_TEST(maximum_and_minimum_follow_ieee_754_2019) {
  ASSERT_F32(kl_math_max_f32(0.0f, -0.0f), 0.0f);
  ASSERT_F32(kl_math_max_f32(-0.0f, 0.0f), 0.0f);
  ASSERT_F32(kl_math_max_f32(-0.0f, -0.0f), -0.0f);
  ASSERT_F32(kl_math_min_f32(0.0f, -0.0f), -0.0f);
  ASSERT_F32(kl_math_min_f32(-0.0f, 0.0f), -0.0f);
  ASSERT_F32(kl_math_min_f32(0.0f, 0.0f), 0.0f);
  static const double values[] = {-INFINITY, -1.5, -0x1p-149, 0, 2.25, INFINITY};
  for (size_t i = 0; i < 36; i++) {
    double a = values[i / 6], b = values[i % 6];
    ASSERT_F64(kl_math_max_f64(a, b), a > b ? a : b);
    ASSERT_F64(kl_math_min_f64(a, b), a < b ? a : b);
    ck_assert(isnan(kl_math_max_f64(a, NAN)) && isnan(kl_math_max_f64(NAN, a)));
    ck_assert(isnan(kl_math_min_f32((float)a, NAN)) && isnan(kl_math_min_f32(NAN, (float)a)));
  }
}
END_TEST

START_TEST(sign_rounding_and_sign_bits_are_exact) {
  ASSERT_F32(kl_math_sign_f32(-0.0f), 0.0f);
  ASSERT_F32(kl_math_sign_f32(NAN), 0.0f);
  ASSERT_F64(kl_math_sign_f64(-INFINITY), -1.0);
  ASSERT_F32(kl_math_round_f32(2.5f), 2.0f);
  ASSERT_F32(kl_math_round_f32(-3.5f), -4.0f);
  ASSERT_F32(kl_math_round_f32(-0.25f), -0.0f);
  ASSERT_F64(kl_math_floor_f64(-0.5), -1.0);
  ASSERT_F64(kl_math_ceil_f64(-0.5), -0.0);
  ASSERT_F64(kl_math_trunc_f64(-1.75), -1.0);
  ASSERT_F64(kl_math_neg_f64(0.0), -0.0);
  ASSERT_F64(kl_math_abs_f64(-0.0), 0.0);
  ASSERT_F64(kl_math_copysign_f64(3, -0.0), -3.0);
  ASSERT_F32(kl_math_fma_f32(0x1.000002p0f, 0x1.fffffep-1f, -1.0f),
             fmaf(0x1.000002p0f, 0x1.fffffep-1f, -1.0f));
}
END_TEST

START_TEST(comparisons_with_nan_are_false_except_ne) {
  ck_assert(!kl_math_eq_f32(NAN, NAN) && kl_math_ne_f32(NAN, NAN) && !kl_math_lt_f64(NAN, 1));
  ck_assert(!kl_math_le_f64(1, NAN) && !kl_math_gt_f32(NAN, 0) && !kl_math_ge_f32(0, NAN));
  ck_assert(kl_math_eq_f32(0.0f, -0.0f) && kl_math_le_f64(1, 1) && !kl_math_lt_f64(1, 1));
  ck_assert(kl_math_lt_i8(-1, 1) && !kl_math_lt_u8(255, 1) && kl_math_ge_b8(1, 0));
}
END_TEST

/* --- Integers: definitions over 64 bits, cut to size --- */

static int64_t floor_quotient(int64_t x, int64_t y) {
  int64_t quotient = x / y;
  return x % y != 0 && (x < 0) != (y < 0) ? quotient - 1 : quotient;
}

static uint64_t naive_power(int64_t x, int64_t y) {
  uint64_t result = 1;
  for (int64_t i = 0; i < y; i++) result *= (uint64_t)x;
  return result;
}

#define CHECK_INTEGERS(dt, ctype, bits, x, y)                                                      \
  do {                                                                                             \
    ctype a = (ctype)(x), b = (ctype)(y);                                                          \
    int64_t wide_a = a, wide_b = b;                                                                \
    CHECK_INT(kl_math_add_##dt(a, b), (ctype)(wide_a + wide_b));                                   \
    CHECK_INT(kl_math_sub_##dt(a, b), (ctype)(wide_a - wide_b));                                   \
    CHECK_INT(kl_math_mul_##dt(a, b), (ctype)(wide_a * wide_b));                                   \
    CHECK_INT(kl_math_max_##dt(a, b), a > b ? a : b);                                              \
    CHECK_INT(kl_math_min_##dt(a, b), a < b ? a : b);                                              \
    CHECK_INT(kl_math_neg_##dt(a), (ctype)-wide_a);                                                \
    CHECK_INT(kl_math_abs_##dt(a), (ctype)(wide_a < 0 ? -wide_a : wide_a));                        \
    CHECK_INT(kl_math_sign_##dt(a), (ctype)((wide_a > 0) - (wide_a < 0)));                         \
    CHECK_INT(kl_math_not_##dt(a), (ctype)~wide_a);                                                \
    CHECK_INT(kl_math_xor_##dt(a, b), (ctype)(wide_a ^ wide_b));                                   \
    CHECK_INT(kl_math_trunc_div_##dt(a, b), b == 0 ? 0 : (ctype)(wide_a / wide_b));                \
    CHECK_INT(kl_math_fmod_##dt(a, b), b == 0 ? 0 : (ctype)(wide_a % wide_b));                     \
    int64_t floored = b == 0 ? 0 : floor_quotient(wide_a, wide_b);                                 \
    CHECK_INT(kl_math_floor_div_##dt(a, b), (ctype)floored);                                       \
    CHECK_INT(kl_math_remainder_##dt(a, b), b == 0 ? 0 : (ctype)(wide_a - floored * wide_b));      \
    bool inside = wide_b >= 0 && wide_b < (bits);                                                  \
    CHECK_INT(kl_math_shl_##dt(a, b), inside ? (ctype)(wide_a * (INT64_C(1) << wide_b)) : 0);      \
    CHECK_INT(kl_math_shr_##dt(a, b), (ctype)(wide_a >> (inside ? wide_b : 63)));                  \
  } while (0)

START_TEST(byte_arithmetic_is_right_for_all_pairs) {
  for (int x = 0; x < 256; x++) {
    for (int y = 0; y < 256; y++) {
      CHECK_INTEGERS(u8, uint8_t, 8, x, y);
      CHECK_INTEGERS(i8, int8_t, 8, x, y);
    }
  }
}
END_TEST

static const int64_t integer_edges[] = {
    0,  1,  -1,        2,         -2,        7,         -7,    15,     16,      31,
    32, 33, INT16_MIN, INT16_MAX, INT32_MIN, INT32_MAX, 65536, -65537, 1000003, -99991};
#define N_INTEGER_EDGES (sizeof integer_edges / sizeof *integer_edges)

START_TEST(integer_arithmetic_is_right_at_edges) {
  for (size_t i = 0; i < N_INTEGER_EDGES * N_INTEGER_EDGES; i++) {
    int64_t x = integer_edges[i / N_INTEGER_EDGES], y = integer_edges[i % N_INTEGER_EDGES];
    CHECK_INTEGERS(i16, int16_t, 16, x, y);
    CHECK_INTEGERS(i32, int32_t, 32, x, y);
  }
}
END_TEST

START_TEST(wide_integers_wrap_around_and_never_trap) {
  ck_assert_int_eq(kl_math_add_i64(INT64_MAX, 1), INT64_MIN);
  ck_assert_int_eq(kl_math_sub_i64(INT64_MIN, 1), INT64_MAX);
  ck_assert_int_eq(kl_math_mul_i64(INT64_MAX, 2), -2);
  ck_assert_int_eq(kl_math_neg_i64(INT64_MIN), INT64_MIN);
  ck_assert_int_eq(kl_math_abs_i64(INT64_MIN), INT64_MIN);
  ck_assert_int_eq(kl_math_floor_div_i64(INT64_MIN, -1), INT64_MIN);
  ck_assert_int_eq(kl_math_trunc_div_i64(INT64_MIN, -1), INT64_MIN);
  ck_assert_int_eq(kl_math_remainder_i64(INT64_MIN, -1), 0);
  ck_assert_int_eq(kl_math_fmod_i64(INT64_MIN, -1), 0);
  ck_assert_int_eq(kl_math_floor_div_i64(5, 0), 0);
  ck_assert_int_eq(kl_math_remainder_i64(5, 0), 0);
  ck_assert_int_eq(kl_math_floor_div_i64(-7, 2), -4);
  ck_assert_int_eq(kl_math_remainder_i64(-7, 2), 1);
  ck_assert_int_eq(kl_math_fmod_i64(-7, 2), -1);
  ck_assert_int_eq(kl_math_shl_i64(1, 63), INT64_MIN);
  ck_assert_int_eq(kl_math_shl_i64(1, 64), 0);
  ck_assert_int_eq(kl_math_shl_i64(1, -1), 0);
  ck_assert_int_eq(kl_math_shr_i64(-8, 1), -4);
  ck_assert_int_eq(kl_math_shr_i64(-8, 64), -1);
  ck_assert_int_eq(kl_math_shr_i64(8, -1), 0);
}
END_TEST

START_TEST(integer_powers_wrap_around) {
  for (int x = -20; x <= 20; x++) {
    for (int y = 0; y < 70; y++) {
      CHECK_INT(kl_math_pow_i64(x, y), (int64_t)naive_power(x, y));
      CHECK_INT(kl_math_pow_i32(x, y), (int32_t)naive_power(x, y));
      CHECK_INT(kl_math_pow_i8((int8_t)x, (int8_t)y), (int8_t)naive_power(x, y));
      CHECK_INT(kl_math_pow_u8((uint8_t)x, (uint8_t)y), (uint8_t)naive_power((uint8_t)x, y));
    }
  }
  ck_assert_int_eq(kl_math_pow_i32(1, -5), 1);
  ck_assert_int_eq(kl_math_pow_i32(-1, -5), -1);
  ck_assert_int_eq(kl_math_pow_i32(-1, -4), 1);
  ck_assert_int_eq(kl_math_pow_i64(2, -1), 0);
  ck_assert_int_eq(kl_math_pow_i64(0, -1), 0);
  ck_assert_int_eq(kl_math_pow_i64(-1, INT64_MIN), 1);
}
END_TEST

START_TEST(logic_on_bool_gives_zero_or_one) {
  for (uint8_t i = 0; i < 4; i++) {
    uint8_t a = i & 1, b = i >> 1;
    ck_assert_uint_eq(kl_math_and_b8(a, b), a && b);
    ck_assert_uint_eq(kl_math_or_b8(a, b), a || b);
    ck_assert_uint_eq(kl_math_xor_b8(a, b), a != b);
    ck_assert_uint_eq(kl_math_not_b8(a), !a);
    ck_assert_uint_eq(kl_math_max_b8(a, b), a || b);
    ck_assert_uint_eq(kl_math_min_b8(a, b), a && b);
  }
}
END_TEST

/* --- Conversions --- */

START_TEST(float_to_integer_saturates) {
  ck_assert_int_eq(kl_math_cast_f32_i32(NAN), 0);
  ck_assert_int_eq(kl_math_cast_f32_i32(2147483648.0f), INT32_MAX);
  ck_assert_int_eq(kl_math_cast_f32_i32(2147483520.0f), 2147483520);
  ck_assert_int_eq(kl_math_cast_f32_i32(-INFINITY), INT32_MIN);
  ck_assert_int_eq(kl_math_cast_f32_i64(INFINITY), INT64_MAX);
  ck_assert_int_eq(kl_math_cast_f64_i64(-9.3e18), INT64_MIN);
  ck_assert_int_eq(kl_math_cast_f64_i64(-3.99), -3);
  ck_assert_int_eq(kl_math_cast_f64_i32(2147483647.9), INT32_MAX);
  ck_assert_int_eq(kl_math_cast_f64_i32(-2147483648.9), INT32_MIN);
  ck_assert_int_eq(kl_math_cast_f32_u8(-1.0f), 0);
  ck_assert_int_eq(kl_math_cast_f32_u8(255.9f), 255);
  ck_assert_int_eq(kl_math_cast_f32_u8(256.0f), 255);
  ck_assert_int_eq(kl_math_cast_f32_i8(-128.9f), -128);
  ck_assert_int_eq(kl_math_cast_f32_i8(-300.0f), -128);
  ck_assert_int_eq(kl_math_cast_f64_i16(1e9), 32767);
  ck_assert_int_eq(kl_math_cast_f64_u8(NAN), 0);
}
END_TEST

START_TEST(casts_to_bool_ask_for_nonzero) {
  ck_assert_uint_eq(kl_math_cast_f32_b8(NAN), 1);
  ck_assert_uint_eq(kl_math_cast_f32_b8(-0.0f), 0);
  ck_assert_uint_eq(kl_math_cast_f64_b8(0x1p-1074), 1);
  ck_assert_uint_eq(kl_math_cast_i64_b8(INT64_C(1) << 40), 1);
  ck_assert_uint_eq(kl_math_cast_f16_b8(0x8000), 0);
  ck_assert_uint_eq(kl_math_cast_bf16_b8(0x0001), 1);
}
END_TEST

START_TEST(integer_casts_cut_and_extend) {
  ck_assert_int_eq(kl_math_cast_i64_i8(0x1ff), -1);
  ck_assert_int_eq(kl_math_cast_i8_u8(-1), 255);
  ck_assert_int_eq(kl_math_cast_u8_i64(255), 255);
  ck_assert_int_eq(kl_math_cast_i8_i64(-2), -2);
  ck_assert_int_eq(kl_math_cast_b8_i32(1), 1);
  ASSERT_F32(kl_math_cast_i32_f32(16777217), 16777216.0f);
  ASSERT_F32(kl_math_cast_i64_f32(INT64_MAX), 0x1p63f);
  ASSERT_F64(kl_math_cast_u8_f64(200), 200.0);
  ASSERT_F32(kl_math_cast_f64_f32(1e300), INFINITY);
}
END_TEST

/* The value of a small float from its fields, by the definition of the format. */
static double value_of_small(uint16_t bits, int mantissa_bits, int bias) {
  int exponent = (bits & 0x7fff) >> mantissa_bits, fraction = bits & ((1 << mantissa_bits) - 1);
  int special = (0x7fff >> mantissa_bits);
  double size = exponent == special ? (fraction ? NAN : INFINITY)
                : exponent == 0
                    ? ldexp(fraction, 1 - bias - mantissa_bits)
                    : ldexp(fraction + (1 << mantissa_bits), exponent - bias - mantissa_bits);
  return bits & 0x8000 ? -size : size;
}

/* Each float between two neighbours goes to the nearer, halfway to the even one. */
static void check_narrowing(uint16_t bits, int mantissa_bits, int bias, uint16_t (*narrow)(float)) {
  uint16_t next = (uint16_t)(bits + 1);
  double low = value_of_small(bits, mantissa_bits, bias),
         high = value_of_small(next, mantissa_bits, bias);
  if (isinf(high)) high = low + (low - value_of_small((uint16_t)(bits - 1), mantissa_bits, bias));
  float middle = (float)((low + high) / 2);
  if ((double)middle != (low + high) / 2) return; /* past the floats: bf16's least subnormals */
  CHECK_INT(narrow((float)low), bits);
  CHECK_INT(narrow(middle), bits & 1 ? next : bits);
  CHECK_INT(narrow(nextafterf(middle, 0)), bits);
  CHECK_INT(narrow(nextafterf(middle, INFINITY)), next);
  CHECK_INT(narrow(-middle), 0x8000 | (bits & 1 ? next : bits));
}

static uint16_t to_f16(float x) { return kl_math_cast_f32_f16(x); }
static uint16_t to_bf16(float x) { return kl_math_cast_f32_bf16(x); }

START_TEST(half_formats_convert_exactly_and_round_to_even) {
  for (uint32_t bits = 0; bits < 0x10000; bits++) {
    ASSERT_F32(kl_math_cast_f16_f32((uint16_t)bits), (float)value_of_small((uint16_t)bits, 10, 15));
    ASSERT_F32(kl_math_cast_bf16_f32((uint16_t)bits),
               (float)value_of_small((uint16_t)bits, 7, 127));
  }
  for (uint16_t bits = 0; bits < 0x7c00; bits++) check_narrowing(bits, 10, 15, to_f16);
  for (uint16_t bits = 0; bits < 0x7f80; bits++) check_narrowing(bits, 7, 127, to_bf16);
  ck_assert_uint_eq(to_f16(INFINITY), 0x7c00);
  ck_assert_uint_eq(to_f16(-1e30f), 0xfc00);
  ck_assert_uint_eq(to_f16(NAN) & 0x7fff, 0x7e00);
  ck_assert_uint_eq(to_bf16(-INFINITY), 0xff80);
  ck_assert_uint_gt(to_bf16(NAN) & 0x7fff, 0x7f80);
  ck_assert_uint_gt(to_bf16(f32_of(0x7f800001)) & 0x7fff, 0x7f80);
  ck_assert_uint_eq(kl_math_cast_i32_f16(65520), 0x7c00);
  ck_assert_int_eq(kl_math_cast_f16_i8(0xd800), -128);
}
END_TEST

START_TEST(moves_keep_the_bits_of_nan) {
  uint32_t odd_nan = 0x7fa12345;
  ck_assert_uint_eq((uint32_t)kl_math_bitcast_f32_i32(f32_of(odd_nan)), odd_nan);
  ck_assert_uint_eq(f32_bits(kl_math_bitcast_i32_f32((int32_t)odd_nan)), odd_nan);
  ck_assert_uint_eq(f32_bits(kl_math_select_f32(1, f32_of(odd_nan), 2)), odd_nan);
  ck_assert_uint_eq(f32_bits(kl_math_select_f32(0, 2, f32_of(odd_nan))), odd_nan);
  ck_assert_uint_eq(kl_math_select_f16(0, 1, 0x7d01), 0x7d01);
  ck_assert_uint_eq(f64_bits(kl_math_copy_f64(f64_of(0x7ff4000000000001))), 0x7ff4000000000001);
}
END_TEST

/* --- Random numbers --- */

/* Philox as its paper states it, word by word. */
static void naive_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
  uint32_t x[4], k[2] = {key[0], key[1]};
  memcpy(x, counter, sizeof x);
  for (int round = 0; round < 10; round++) {
    uint64_t p = (uint64_t)x[0] * 0xd2511f53, q = (uint64_t)x[2] * 0xcd9e8d57;
    uint32_t y[4] = {(uint32_t)(q >> 32) ^ x[1] ^ k[0], (uint32_t)q,
                     (uint32_t)(p >> 32) ^ x[3] ^ k[1], (uint32_t)p};
    memcpy(x, y, sizeof x);
    k[0] += 0x9e3779b9;
    k[1] += 0xbb67ae85;
  }
  memcpy(out, x, sizeof x);
}

START_TEST(the_naive_philox_gives_the_published_answers) {
  /* The known answers of Random123's distribution (philox4x32, 10 rounds). */
  static const uint32_t known[3][10] = {
      {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
      {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x408f276d,
       0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
      {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09,
       0x94fdcceb, 0x5001e420, 0x24126ea1},
  };
  for (int i = 0; i < 3; i++) {
    uint32_t out[4];
    naive_philox(known[i], known[i] + 4, out);
    ck_assert_mem_eq(out, known[i] + 6, sizeof out);
  }
}
END_TEST

START_TEST(random_is_the_word_of_philox_that_the_op_table_says) {
  uint64_t state = 17;
  for (int i = 0; i < 2000; i++) {
    int64_t element = i < 8 ? i : (int64_t)(next_random(&state) >> (1 + i % 40));
    int64_t first = i < 8 ? 0 : (int64_t)next_random(&state),
            seed = i < 8 ? 0 : (int64_t)next_random(&state);
    uint64_t counter = (uint64_t)first + (uint64_t)element / 4;
    uint32_t words[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0};
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)((uint64_t)seed >> 32)}, out[4];
    naive_philox(words, key, out);
    ck_assert_int_eq(kl_math_random_i64(element, first, seed), (int32_t)out[element % 4]);
    words[3] = 1;
    naive_philox(words, key, out);
    ck_assert_int_eq(kl_math_random_high_i64(element, first, seed), (int32_t)out[element % 4]);
  }
  ck_assert_int_eq(kl_math_random_i64(0, 0, 0), 0x6627e8d5);
}
END_TEST

/* --- The list of instances --- */

typedef struct instance {
  int op;
  int dtype;
} instance;

START_TEST(every_elementwise_op_has_each_of_its_dtypes_once) {
#define X(OP, op, dt) {KL_OP_##OP, KL_MATH_DTYPE(dt)},
  static const instance instances[] = {KL_MATH_UNARY(X) KL_MATH_UNARY_RARE(X) KL_MATH_BINARY(
      X) KL_MATH_BINARY_RARE(X) KL_MATH_COMPARE(X) KL_MATH_TERNARY(X)};
#undef X
  static const int special[] = {KL_OP_COPY,   KL_OP_CAST,        KL_OP_BITCAST, KL_OP_SELECT,
                                KL_OP_RANDOM, KL_OP_RANDOM_HIGH, KL_OP_INDEX};
  for (int op = 0; op < KL_OP_COUNT; op++) {
    bool is_special = !kl_op_is_elem(op);
    for (size_t i = 0; i < sizeof special / sizeof *special; i++) is_special |= special[i] == op;
    for (int dtype = 0; dtype < KL_DTYPE_COUNT && !is_special; dtype++) {
      int n_found = 0;
      for (size_t i = 0; i < sizeof instances / sizeof *instances; i++) {
        n_found += instances[i].op == op && instances[i].dtype == dtype;
      }
      bool wanted = kl_op_takes((kl_op)op, (kl_dtype)dtype) && dtype != KL_F16 && dtype != KL_BF16;
      ck_assert_msg(n_found == wanted, "%s of %s", kl_op_table[op].text,
                    kl_dtype_name((kl_dtype)dtype));
    }
  }
}
END_TEST

static Suite *math_suite(void) {
  Suite *suite = suite_create("math");
  TCase *bounds = tcase_create("bounds");
  tcase_add_checked_fixture(bounds, make_values, clear_values);
  tcase_add_loop_test(bounds, unary_functions_of_f32_keep_their_bounds, 0, (int)N_UNARY_CASES);
  tcase_add_loop_test(bounds, unary_functions_of_f64_keep_their_bounds, 0, (int)N_UNARY_CASES);
  tcase_add_loop_test(bounds, unary_functions_are_right_at_edges, 0, (int)N_UNARY_CASES);
  tcase_add_test(bounds, pow_keeps_its_bound);
  tcase_add_test(bounds, atan2_keeps_its_bound);
  suite_add_tcase(suite, bounds);

  TCase *exact = tcase_create("exact");
  tcase_add_test(exact, odd_functions_keep_the_sign_of_zero);
  tcase_add_test(exact, pow_treats_special_values_as_c99);
  tcase_add_test(exact, float_modulo_is_exact);
  tcase_add_test(exact, rare_arguments_are_the_only_ones_that_need_the_rare_code);
  tcase_add_test(exact, maximum_and_minimum_follow_ieee_754_2019);
  tcase_add_test(exact, sign_rounding_and_sign_bits_are_exact);
  tcase_add_test(exact, comparisons_with_nan_are_false_except_ne);
  tcase_add_test(exact, byte_arithmetic_is_right_for_all_pairs);
  tcase_add_test(exact, integer_arithmetic_is_right_at_edges);
  tcase_add_test(exact, wide_integers_wrap_around_and_never_trap);
  tcase_add_test(exact, integer_powers_wrap_around);
  tcase_add_test(exact, logic_on_bool_gives_zero_or_one);
  tcase_add_test(exact, float_to_integer_saturates);
  tcase_add_test(exact, casts_to_bool_ask_for_nonzero);
  tcase_add_test(exact, integer_casts_cut_and_extend);
  tcase_add_test(exact, half_formats_convert_exactly_and_round_to_even);
  tcase_add_test(exact, moves_keep_the_bits_of_nan);
  tcase_add_test(exact, the_naive_philox_gives_the_published_answers);
  tcase_add_test(exact, random_is_the_word_of_philox_that_the_op_table_says);
  tcase_add_test(exact, every_elementwise_op_has_each_of_its_dtypes_once);
  suite_add_tcase(suite, exact);
  return suite;
}

int main(void) { return kl_test_run(math_suite()); }
