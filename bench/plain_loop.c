/* The loop that kael's throughput is measured against; compiled once for each level. */
#include "bench/measure.h"

#define NAME_OF(level) bench_plain_##level
#define NAME(level) NAME_OF(level)

bench_plain_fn NAME(KL_LEVEL);

void NAME(KL_LEVEL)(const float *restrict a, const float *restrict b, float *restrict c,
                    int64_t n) {
  for (int64_t i = 0; i < n; i++) c[i] = a[i] * b[i] + 1;
}
