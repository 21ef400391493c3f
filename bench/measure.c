#include "bench/measure.h"

#include <stdlib.h>
#include <time.h>

#include "runtime/cpu_features.h"

double bench_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double bench_median(double *values, int n) {
  qsort(values, (size_t)n, sizeof *values, by_size);
  return values[n / 2];
}

#if defined(__x86_64__)
bench_plain_fn bench_plain_v2, bench_plain_v3, bench_plain_v4;

bench_plain_fn *bench_plain_loop(void) {
  kl_cpu_level level = kl_cpu_level_get();
  return level >= KL_CPU_V4 ? bench_plain_v4 : level >= KL_CPU_V3 ? bench_plain_v3 : bench_plain_v2;
}
#else
bench_plain_fn bench_plain_base;

bench_plain_fn *bench_plain_loop(void) { return bench_plain_base; }
#endif
