/* Tier 0's figures, on one thread: elementwise chains against a plain C loop, softmax, a column sum
 * against the bandwidth of reading, and the time of a call on ten elements. Medians of 9. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "bench/measure.h"
#include "codegen/block/block.h"
#include "ir/launch.h"

enum { HUGE_PAGE = 2 << 20 };

typedef struct bench {
  kl_kernel kernel;
  kl_code *code;
  kl_kernel_args args;
  char *scratch;
} bench;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bench new_bench(const char *text, void *const *bufs, const int64_t *ints,
                       const kl_scalar *scalars, size_t scratch_nbytes) {
  bench b = {.args = {.bufs = bufs, .ints = ints, .scalars = scalars}};
  if (kl_kernel_parse(text, strlen(text), &b.kernel) != KL_OK ||
      kl_kernel_verify(&b.kernel) != KL_OK || kl_block_prepare(&b.kernel, 0, &b.code) != KL_OK) {
    fprintf(stderr, "%s\n", kl_error_message());
    exit(1);
  }
  b.scratch = aligned_alloc(64, (b.code->scratch_nbytes + scratch_nbytes + 63) / 64 * 64);
  return b;
}

static void end_bench(bench *b) {
  b->code->destroy(b->code);
  kl_kernel_finish(&b->kernel);
  free(b->scratch);
}

/* Median seconds of a run of `units` units. */
static double time_run(const bench *b, int64_t units) {
  double times[9];
  for (int i = -1; i < 9; i++) {
    double start = now();
    b->code->run(b->code, &b->args, b->scratch, 0, 0, units);
    if (i >= 0) times[i] = now() - start;
  }
  return bench_median(times, 9);
}

static double time_plain(const float *a, const float *b, float *c, int64_t n) {
  bench_plain_fn *plain_loop = bench_plain_loop();
  double times[9];
  for (int i = -1; i < 9; i++) {
    double start = now();
    plain_loop(a, b, c, n);
    if (i >= 0) times[i] = now() - start;
  }
  return bench_median(times, 9);
}

static __attribute__((noinline)) uint64_t read_all(const uint64_t *x, int64_t n) {
  uint64_t sum = 0;
  for (int64_t i = 0; i < n; i++) sum ^= x[i];
  return sum;
}

static double time_read(const void *x, int64_t nbytes) {
  double times[9];
  volatile uint64_t sink = 0;
  for (int i = -1; i < 9; i++) {
    double start = now();
    sink = sink ^ read_all(x, nbytes / 8);
    if (i >= 0) times[i] = now() - start;
  }
  return bench_median(times, 9);
}

static const char chain_text[] =
    "kernel ints=7 scalars=1 {\n"
    "  buf b0 f32 read noalias\n"
    "  buf b1 f32 read noalias\n"
    "  buf b2 f32 write noalias\n"
    "  section rows=0 dims=1 extents=i0 vector=cols {\n"
    "    cols {\n"
    "      v0 = load.f32 b0 [i1; one]\n"
    "      v1 = load.f32 b1 [i3; one]\n"
    "      v2 = mul.f32 v0, v1\n"
    "      v3 = scalar.f32 s0\n"
    "      v4 = add.f32 v2, v3\n"
    "%s"
    "      store.f32 b2 [i5; one], v%d\n"
    "    }\n"
    "    phase cols\n"
    "  }\n"
    "}\n";

static void bench_chains(float *a, float *b, float *c, int64_t n) {
  void *bufs[] = {a, b, c};
  int64_t ints[] = {n, 0, 1, 0, 1, 0, 1};
  kl_scalar scalars[] = {{.f32 = 1}};
  double plain = time_plain(a, b, c, n);
  printf("c[i] = a[i]*b[i]+1, plain C, %lld floats: %.2f ms, %.1f GB/s\n", (long long)n,
         plain * 1e3, 12e-9 * (double)n / plain);
  for (int with_exp = 0; with_exp < 2; with_exp++) {
    char text[1500];
    snprintf(text, sizeof text, chain_text, with_exp ? "      v5 = exp.f32 v4\n" : "",
             4 + with_exp);
    bench x = new_bench(text, bufs, ints, scalars, 0);
    double time = time_run(&x, (n + KL_CHUNK - 1) / KL_CHUNK);
    printf("tier 0, (a*b+1)%s: %.2f ms, %.0f %% of the plain loop's speed\n",
           with_exp ? ".exp()" : "", time * 1e3, 100 * plain / time);
    end_bench(&x);
  }
}

static void bench_call(float *a, float *b, float *c) {
  void *bufs[] = {a, b, c};
  int64_t ints[] = {10, 0, 1, 0, 1, 0, 1};
  kl_scalar scalars[] = {{.f32 = 1}};
  static const char text[] =
      "kernel ints=7 scalars=0 {\n"
      "  buf b0 f32 read noalias\n"
      "  buf b1 f32 read noalias\n"
      "  buf b2 f32 write noalias\n"
      "  section rows=0 dims=1 extents=i0 vector=cols {\n"
      "    cols {\n"
      "      v0 = load.f32 b0 [i1; one]\n"
      "      v1 = load.f32 b1 [i3; one]\n"
      "      v2 = add.f32 v0, v1\n"
      "      store.f32 b2 [i5; one], v2\n"
      "    }\n"
      "    phase cols\n"
      "  }\n"
      "}\n";
  bench x = new_bench(text, bufs, ints, scalars, 0);
  for (int64_t n = 10; n <= 1000; n *= 10) {
    ints[0] = n;
    enum { CALLS = 200000 };
    double start = now();
    for (int i = 0; i < CALLS; i++) x.code->run(x.code, &x.args, x.scratch, 0, 0, 1);
    printf("an add of %lld floats: %.0f ns a call\n", (long long)n, (now() - start) / CALLS * 1e9);
  }
  end_bench(&x);
}

static void bench_softmax(float *a, float *c, int64_t rows, int64_t cols) {
  static const char text[] =
      "kernel ints=8 scalars=0 {\n"
      "  buf b0 f32 read noalias\n"
      "  buf b1 f32 write noalias\n"
      "  buf b2 f32 scratch\n"
      "  section rows=1 dims=2 extents=i0 vector=cols {\n"
      "    cols {\n"
      "      v0 = load.f32 b0 [i2; any, one]\n"
      "      v1 = reduce_max.f32 v0\n"
      "    }\n"
      "    cols {\n"
      "      v2 = load.f32 b0 [i2; any, one]\n"
      "      v3 = sub.f32 v2, v1\n"
      "      v4 = exp.f32 v3\n"
      "      store.f32 b2 [i5; zero, one], v4\n"
      "      v5 = reduce_sum.f32 v4\n"
      "    }\n"
      "    cols {\n"
      "      v6 = load.f32 b2 [i5; zero, one]\n"
      "      v7 = div.f32 v6, v5\n"
      "      store.f32 b1 [i2; any, one], v7\n"
      "    }\n"
      "    phase rows\n"
      "  }\n"
      "}\n";
  void *bufs[] = {a, c, NULL};
  int64_t ints[] = {rows, cols, 0, cols, 1, 0, 0, 1};
  bench x = new_bench(text, bufs, ints, NULL, kl_scratch_nbytes(cols, KL_F32));
  double time = time_run(&x, rows);
  printf("softmax %lldx%lld: %.2f ms, %.1f GB/s, %.2f ns an element\n", (long long)rows,
         (long long)cols, time * 1e3, 8e-9 * (double)(rows * cols) / time,
         time * 1e9 / (double)(rows * cols));
  end_bench(&x);
}

static void bench_sum(float *a, float *c, int64_t rows, int64_t cols, bool by_columns) {
  char text[1000];
  snprintf(text, sizeof text,
           "kernel ints=8 scalars=0 {\n"
           "  buf b0 f32 read noalias\n"
           "  buf b1 f32 write noalias\n"
           "  section rows=1 dims=2 extents=i0 vector=%s {\n"
           "    cols {\n"
           "      v0 = load.f32 b0 [i2; any, any]\n"
           "      v1 = reduce_sum.f32 v0\n"
           "    }\n"
           "    row {\n"
           "      store.f32 b1 [i5; one, zero], v1\n"
           "    }\n"
           "    phase rows\n"
           "  }\n"
           "}\n",
           by_columns ? "rows" : "cols");
  void *bufs[] = {a, c};
  int64_t ints[] = {rows, cols, 0, by_columns ? 1 : cols, by_columns ? rows : 1, 0, 1, 0};
  bench x = new_bench(text, bufs, ints, NULL, 0);
  double time = time_run(&x, rows), gigabytes = 4e-9 * (double)(rows * cols);
  printf("%s sum of %lldx%lld: %.2f ms, %.1f GB/s\n", by_columns ? "column" : "row",
         (long long)(by_columns ? cols : rows), (long long)(by_columns ? rows : cols), time * 1e3,
         gigabytes / time);
  end_bench(&x);
}

/* In huge pages, as the library's allocator has it. */
static float *new_array(size_t n) {
  float *x = aligned_alloc(HUGE_PAGE, n * sizeof *x);
  if (x == NULL) exit(1);
  madvise(x, n * sizeof *x, MADV_HUGEPAGE);
  return x;
}

int main(void) {
  enum { N = 1 << 24 };
  float *a = new_array(N), *b = new_array(N), *c = new_array(N);
  for (int64_t i = 0; i < N; i++) {
    a[i] = (float)(i % 1000) * 1e-3f;
    b[i] = (float)(i % 777) * 1e-2f - 3;
    c[i] = 0;
  }
  printf("level %d\n", kl_block_set_level(4));
  bench_call(a, b, c);
  bench_chains(a, b, c, N);
  bench_softmax(a, c, 4096, 1024);
  bench_softmax(a, c, 409600, 10);
  double read = time_read(a, N * 4);
  printf("reading %d MB: %.2f ms, %.1f GB/s\n", N * 4 / 1000000, read * 1e3, N * 4e-9 / read);
  bench_sum(a, c, 4096, 4096, true);
  bench_sum(a, c, 4096, 4096, false);
  bench_sum(a, c, 10, N / 16, true);
  bench_sum(a, c, N / 16, 10, false);
  free(a), free(b), free(c);
  return 0;
}
