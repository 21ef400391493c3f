/* Measures the scalar functions against MPFR. Not part of CI: scripts/math-sweep builds and runs
 * it.
 *
 *   math_sweep op f32 [step]    every step-th of the 2^32 arguments, all by default
 *   math_sweep op f64 [count]   so many random ones
 *
 * MPFR needs microseconds, so over all floats libm's double results find the places that are worse
 * than anything before, and MPFR judges those. */
#include "tests/math_reference.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct worst {
  double ulp;
  double argument;
  uint64_t n_judged;
} worst;

static void judge_f32(const unary_case *c, float x, float got, mpfr_t argument, mpfr_t exact,
                      worst *w) {
  mpfr_set_flt(argument, x, MPFR_RNDN);
  c->exact(exact, argument);
  double ulp = ulp_distance_f32(got, exact);
  w->n_judged++;
  if (ulp > w->ulp) *w = (worst){ulp, x, w->n_judged};
}

/* The distance from a double near the exact result, in units of the last place of a float. */
static double rough_ulp(float got, double near) {
  if (isnan(got) || isnan(near)) return isnan(got) && isnan(near) ? 0 : INFINITY;
  if (isinf(got) || isinf(near)) return (double)got == (double)(float)near ? 0 : INFINITY;
  int exponent;
  frexp(near, &exponent);
  if (exponent < -125) exponent = -125;
  return fabs((double)got - near) * ldexp(1, 24 - exponent);
}

static void sweep_f32(const unary_case *c, uint64_t step, worst *w) {
  mpfr_t argument, exact;
  mpfr_inits2(REFERENCE_BITS, argument, exact, (mpfr_ptr)0);
  for (uint64_t i = 0; i >> 32 == 0; i += step) {
    float x = f32_of((uint32_t)i);
    float got = c->f32(x);
    bool candidate = !c->near ? i % 65521 == 0 : rough_ulp(got, c->near(x)) > w->ulp + 1e-7;
    if (candidate) judge_f32(c, x, got, argument, exact, w);
  }
  mpfr_clears(argument, exact, (mpfr_ptr)0);
}

static void sweep_f64(const unary_case *c, uint64_t count, worst *w) {
  mpfr_t argument, exact;
  mpfr_inits2(REFERENCE_BITS, argument, exact, (mpfr_ptr)0);
  uint64_t state = 1;
  for (uint64_t i = 0; i < count; i++) {
    double x = random_argument(c, &state);
    mpfr_set_d(argument, x, MPFR_RNDN);
    c->exact(exact, argument);
    double ulp = ulp_distance_f64(c->f64(x), exact);
    w->n_judged++;
    if (ulp > w->ulp) *w = (worst){ulp, x, w->n_judged};
  }
  mpfr_clears(argument, exact, (mpfr_ptr)0);
}

int main(int argc, char **argv) {
  if (argc < 3) return fprintf(stderr, "usage: math_sweep op f32|f64 [count]\n"), 2;
  bool single = strcmp(argv[2], "f32") == 0;
  uint64_t number = argc > 3 ? strtoull(argv[3], NULL, 0) : single ? 1 : 1000000;
  for (size_t i = 0; i < N_UNARY_CASES; i++) {
    const unary_case *c = &unary_cases[i];
    if (strcmp(argv[1], c->name) != 0) continue;
    worst w = {single && c->near ? 0.5 : 0, 0, 0}; /* half a unit is correct rounding */
    if (single) {
      sweep_f32(c, number, &w);
    } else {
      sweep_f64(c, number, &w);
    }
    double bound = single ? c->max_ulp : c->max_ulp_f64;
    printf("%-10s %s  %.4f ULP at %-24.17g (%s %llu judged by MPFR, bound %g)%s\n", c->name,
           argv[2], w.ulp, w.argument, single ? "floats," : "samples,",
           (unsigned long long)w.n_judged, bound, w.ulp <= bound ? "" : "  FAILED");
    return w.ulp <= bound ? 0 : 1;
  }
  return fprintf(stderr, "no such operation\n"), 2;
}
