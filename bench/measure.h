/* What the programs of bench/ share: the clock, medians, and a plain C loop to compare with. */
#ifndef KL_BENCH_MEASURE_H
#define KL_BENCH_MEASURE_H

#include <stdint.h>

double bench_now_ns(void);
/* Sorts `values`. */
double bench_median(double *values, int n);

/* c[i] = a[i] * b[i] + 1, compiled with -O3 for the best level that this machine has. */
typedef void bench_plain_fn(const float *a, const float *b, float *c, int64_t n);
bench_plain_fn *bench_plain_loop(void);

#endif
