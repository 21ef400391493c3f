/* Measures the scalar functions against MPFR. Not part of CI: scripts/math-sweep builds and runs
 * it.
 *
 *   math_sweep op f32           all 2^32 arguments
 *   math_sweep op f64 [count]   so many random ones
 *
 * MPFR needs microseconds, so over all floats our own f64 results find the places that are worse
 * than anything before, and MPFR judges those, and one argument of 9,973 whatever it is, lest the
 * two precisions share a mistake. */
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

/* Whether got may be further than `worst` ULP from `near`, a double close to the exact result. */
static inline bool is_suspect(float got, double near, double worst) {
  uint64_t exponent = (f64_bits(near) >> 52) & 0x7ff;
  uint64_t least = 1023 - 126;
  /* 2^23 units a power of two: the reciprocal of the unit at `near`. */
  double units = f64_of((2 * 1023 + 23 - (exponent < least ? least : exponent)) << 52);
  bool close = fabs((double)got - near) * units <= worst;
  bool both_nan = (got != got) & (near != near);
  return !(close | both_nan | (got == (float)near));
}

#define BLOCK 1024

static void sweep_f32(const unary_case *c, worst *w) {
  static float x[BLOCK], got[BLOCK];
  static double near[BLOCK];
  mpfr_t argument, exact;
  mpfr_inits2(REFERENCE_BITS, argument, exact, (mpfr_ptr)0);
  for (uint64_t start = 0; start >> 32 == 0; start += BLOCK) {
    for (int i = 0; i < BLOCK; i++) x[i] = f32_of((uint32_t)(start + (uint64_t)i));
    c->block(x, got, near, BLOCK);
    int n_suspects = 0;
    for (int i = 0; i < BLOCK; i++) n_suspects += is_suspect(got[i], near[i], w->ulp + 1e-7);
    for (int i = 0; i < BLOCK; i++) {
      bool judged = n_suspects > 0 && is_suspect(got[i], near[i], w->ulp + 1e-7);
      if (judged || (start + (uint64_t)i) % 9973 == 0) {
        judge_f32(c, x[i], got[i], argument, exact, w);
      }
    }
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
  uint64_t count = argc > 3 ? strtoull(argv[3], NULL, 0) : 1000000;
  for (size_t i = 0; i < N_UNARY_CASES; i++) {
    const unary_case *c = &unary_cases[i];
    if (strcmp(argv[1], c->name) != 0) continue;
    worst w = {single ? 0.5 : 0, 0, 0}; /* half a unit is correct rounding */
    if (single) {
      sweep_f32(c, &w);
    } else {
      sweep_f64(c, count, &w);
    }
    double bound = single ? c->max_ulp : c->max_ulp_f64;
    printf("%-10s %s  %.4f ULP at %-24.17g (%s %llu judged by MPFR, bound %g)%s\n", c->name,
           argv[2], w.ulp, w.argument, single ? "floats," : "samples,",
           (unsigned long long)w.n_judged, bound, w.ulp <= bound ? "" : "  FAILED");
    return w.ulp <= bound ? 0 : 1;
  }
  return fprintf(stderr, "no such operation\n"), 2;
}
