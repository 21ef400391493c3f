/* What MPFR says of the scalar functions of codegen/math, and the distance of a result from it. For
 * tests/test_math.c and tests/math_sweep.c. */
#ifndef TESTS_MATH_REFERENCE_H
#define TESTS_MATH_REFERENCE_H

#include <math.h>
#include <mpfr.h>
#include <stdint.h>
#include <string.h>

#include "codegen/math/math.h"

#define REFERENCE_BITS 200

typedef void exact_unary(mpfr_t out, const mpfr_t x);

typedef struct unary_case {
  const char *name;
  double max_ulp; /* what docs/numerics.md promises */
  double max_ulp_f64;
  float (*f32)(float);
  double (*f64)(double);
  exact_unary *exact;
  /* f32 results of n arguments and our f64 results, which find the bad places of f32 quickly */
  void (*block)(const float *x, float *got, double *near, int n);
  double low, high; /* where random arguments are taken from, besides all exponents */
} unary_case;

#define EXACT(name, call)                                                                          \
  static void exact_##name(mpfr_t out, const mpfr_t x) { call; }
EXACT(exp, mpfr_exp(out, x, MPFR_RNDN))
EXACT(exp2, mpfr_exp2(out, x, MPFR_RNDN))
EXACT(expm1, mpfr_expm1(out, x, MPFR_RNDN))
EXACT(log, mpfr_log(out, x, MPFR_RNDN))
EXACT(log2, mpfr_log2(out, x, MPFR_RNDN))
EXACT(log10, mpfr_log10(out, x, MPFR_RNDN))
EXACT(log1p, mpfr_log1p(out, x, MPFR_RNDN))
EXACT(sin, mpfr_sin(out, x, MPFR_RNDN))
EXACT(cos, mpfr_cos(out, x, MPFR_RNDN))
EXACT(tan, mpfr_tan(out, x, MPFR_RNDN))
EXACT(tanh, mpfr_tanh(out, x, MPFR_RNDN))
EXACT(erf, mpfr_erf(out, x, MPFR_RNDN))
EXACT(sqrt, mpfr_sqrt(out, x, MPFR_RNDN))
EXACT(rsqrt, (mpfr_sqrt(out, x, MPFR_RNDN), mpfr_ui_div(out, 1, out, MPFR_RNDN)))
EXACT(reciprocal, mpfr_ui_div(out, 1, x, MPFR_RNDN))

static void exact_sigmoid(mpfr_t out, const mpfr_t x) {
  mpfr_neg(out, x, MPFR_RNDN);
  mpfr_exp(out, out, MPFR_RNDN);
  mpfr_add_ui(out, out, 1, MPFR_RNDN);
  mpfr_ui_div(out, 1, out, MPFR_RNDN);
}

/* Newton's iteration on erfc(-z / sqrt 2) / 2 = x from our own f64 result; it converges to the root
 * from any start near it, so the start does not matter for what is judged. */
static void exact_ndtri(mpfr_t out, const mpfr_t x) {
  mpfr_t z, value, slope;
  mpfr_inits2(REFERENCE_BITS, z, value, slope, (mpfr_ptr)0);
  mpfr_set_d(z, kl_math_ndtri_f64(mpfr_get_d(x, MPFR_RNDN)), MPFR_RNDN);
  for (int i = 0; i < 4 && mpfr_number_p(z); i++) {
    mpfr_set_ui(value, 2, MPFR_RNDN);
    mpfr_sqrt(value, value, MPFR_RNDN);
    mpfr_div(value, z, value, MPFR_RNDN);
    mpfr_neg(value, value, MPFR_RNDN);
    mpfr_erfc(value, value, MPFR_RNDN);
    mpfr_div_ui(value, value, 2, MPFR_RNDN);
    mpfr_sub(value, value, x, MPFR_RNDN);
    mpfr_sqr(slope, z, MPFR_RNDN);
    mpfr_div_si(slope, slope, -2, MPFR_RNDN);
    mpfr_exp(slope, slope, MPFR_RNDN);
    mpfr_const_pi(out, MPFR_RNDN);
    mpfr_mul_ui(out, out, 2, MPFR_RNDN);
    mpfr_sqrt(out, out, MPFR_RNDN);
    mpfr_div(slope, slope, out, MPFR_RNDN);
    mpfr_div(value, value, slope, MPFR_RNDN);
    mpfr_sub(z, z, value, MPFR_RNDN);
  }
  mpfr_set(out, z, MPFR_RNDN);
  mpfr_clears(z, value, slope, (mpfr_ptr)0);
}

/* As functions with addresses, which the inlined ones need not have. */
#define NAMED(op)                                                                                  \
  static float ours_##op##_f32(float x) { return kl_math_##op##_f32(x); }                          \
  static double ours_##op##_f64(double x) { return kl_math_##op##_f64(x); }                        \
  static void block_##op(const float *x, float *got, double *near, int n) {                        \
    for (int i = 0; i < n; i++) got[i] = kl_math_##op##_f32(x[i]);                                 \
    for (int i = 0; i < n; i++) near[i] = kl_math_##op##_f64((double)x[i]);                        \
  }
NAMED(exp)
NAMED(exp2)
NAMED(expm1)
NAMED(log)
NAMED(log2)
NAMED(log10)
NAMED(log1p)
NAMED(sin)
NAMED(cos)
NAMED(tan)
NAMED(tanh)
NAMED(sigmoid)
NAMED(erf)
NAMED(ndtri)
NAMED(sqrt)
NAMED(rsqrt)
NAMED(reciprocal)

#define CASE(op, max_f32, max_f64, low, high)                                                      \
  { #op, max_f32, max_f64, ours_##op##_f32, ours_##op##_f64, exact_##op, block_##op, low, high }
static const unary_case unary_cases[] = {
    CASE(exp, 1, 1, -750, 720),
    CASE(exp2, 1, 1, -1080, 1030),
    CASE(expm1, 2, 2, -50, 720),
    CASE(log, 1, 1, 0.4, 3),
    CASE(log2, 1, 1, 0.4, 3),
    CASE(log10, 2, 2, 0.4, 3),
    CASE(log1p, 2, 2, -1, 3),
    CASE(sin, 2, 2, -100, 100),
    CASE(cos, 2, 2, -100, 100),
    CASE(tan, 2, 2, -100, 100),
    CASE(tanh, 2, 2, -3, 3),
    CASE(sigmoid, 2, 2, -750, 40),
    CASE(erf, 2, 2, -7, 7),
    CASE(ndtri, 8, 8, 0, 1),
    CASE(sqrt, 0.5, 0.5, 0, 100),
    CASE(rsqrt, 2, 2, 0, 100),
    CASE(reciprocal, 0.5, 0.5, -10, 10),
};
#undef CASE
#undef NAMED
#undef EXACT
#define N_UNARY_CASES (sizeof unary_cases / sizeof *unary_cases)

/* |got - exact| in units of the last place of a format of `bits` bits and least exponent
 * `least` (that of its smallest subnormal) at `exact`. An infinite result counts as the power of
 * two past the greatest number (`top`), as in rounding; NaN must meet NaN. */
static double ulp_distance(double got, const mpfr_t exact, int bits, int least, int top) {
  if (mpfr_nan_p(exact) || isnan(got)) return mpfr_nan_p(exact) && isnan(got) ? 0 : INFINITY;
  if (mpfr_inf_p(exact)) return isinf(got) && (got > 0) == (mpfr_sgn(exact) > 0) ? 0 : INFINITY;
  mpfr_t difference, value;
  mpfr_inits2(REFERENCE_BITS, difference, value, (mpfr_ptr)0);
  if (isinf(got)) {
    mpfr_set_si_2exp(value, got > 0 ? 1 : -1, top, MPFR_RNDN);
  } else {
    mpfr_set_d(value, got, MPFR_RNDN);
  }
  long exponent = mpfr_zero_p(exact) ? least : mpfr_get_exp(exact) - bits;
  if (exponent < least) exponent = least;
  if (exponent > top - bits) exponent = top - bits;
  /* Past the format every finite result is wrong, and infinity right. */
  mpfr_t limit;
  mpfr_init2(limit, REFERENCE_BITS);
  mpfr_set_ui_2exp(limit, 1, top, MPFR_RNDN);
  double distance;
  if (isinf(got) && mpfr_cmpabs(exact, limit) >= 0) {
    distance = (got > 0) == (mpfr_sgn(exact) > 0) ? 0 : INFINITY;
  } else {
    mpfr_sub(difference, value, exact, MPFR_RNDN);
    mpfr_div_2si(difference, difference, exponent, MPFR_RNDN);
    distance = fabs(mpfr_get_d(difference, MPFR_RNDN));
  }
  mpfr_clears(difference, value, limit, (mpfr_ptr)0);
  return distance;
}

static double ulp_distance_f32(float got, const mpfr_t exact) {
  return ulp_distance(got, exact, 24, -149, 128);
}

static double ulp_distance_f64(double got, const mpfr_t exact) {
  return ulp_distance(got, exact, 53, -1074, 1024);
}

static uint32_t f32_bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static float f32_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static uint64_t f64_bits(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static double f64_of(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* A stream of 64-bit numbers: splitmix64 (Steele, Lea and Flood, OOPSLA 2014). */
static uint64_t next_random(uint64_t *state) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/* Half of the arguments from the case's own range, half of all bit patterns. */
static double random_argument(const unary_case *c, uint64_t *state) {
  uint64_t bits = next_random(state);
  double unit = (double)(next_random(state) >> 11) * 0x1p-53;
  return bits & 1 ? c->low + (c->high - c->low) * unit : f64_of(next_random(state));
}

static float random_argument_f32(const unary_case *c, uint64_t *state) {
  uint64_t bits = next_random(state);
  return bits & 1 ? (float)random_argument(c, state) : f32_of((uint32_t)(bits >> 32));
}

#endif
