/* The figures that kael promises, each beside its limit, in one run: medians, where competitors
 * are compared they take turns, and the ratio is the median of the ratios turn by turn.
 *
 * Cold compilation is timed in fresh processes: this program starts itself with the name of a
 * graph. To be run on an idle machine, of a release build. Exits with 1 when a figure is short.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/measure.h"
#include "kael/kael.h"
#include "runtime/threads.h"

/* Without LLVM there is no tier 1, and nothing to compile. */
static const int n_tiers = KL_WITH_LLVM ? 2 : 1;

static bool any_short;

/* A limit of 0 is none: the figure is printed for information. */
static void print_figure(const char *what, double measured, double limit, const char *unit,
                         bool more_is_better) {
  bool ok = more_is_better ? measured >= limit : measured <= limit;
  char limit_text[32] = "";
  if (limit > 0)
    snprintf(limit_text, sizeof limit_text, "%s %g", more_is_better ? ">=" : "<=", limit);
  if (limit > 0 && !ok) any_short = true;
  printf("%-58s %8s %9.2f %-3s %s\n", what, limit_text, measured, unit,
         limit > 0 ? (ok ? "ok" : "SHORT") : "");
  fflush(stdout);
}

static void must(bool fine) {
  if (fine) return;
  fprintf(stderr, "bench_figures: %s\n", kael_last_error().message);
  exit(2);
}

static void evaluate(kael_tensor *tensor) { must(kael_eval(&tensor, 1) == KAEL_OK); }

static kael_tensor *small_vector(float first, bool requires_grad) {
  float data[10];
  for (int i = 0; i < 10; i++) data[i] = first + 0.1f * (float)i;
  kael_tensor *tensor = kael_from_data(data, 1, (int64_t[]){10}, KAEL_F32);
  must(tensor != NULL);
  if (requires_grad) must(kael_requires_grad_(tensor, true) == KAEL_OK);
  return tensor;
}

/* --- Recording -------------------------------------------------------------------------------- */

/* A chain of additions: each call records one and releases the handle of the one before. What was
 * recorded is evaluated outside the timing. */
static double time_recording(bool requires_grad) {
  enum { ROUNDS = 31, OPS = 2000 };
  double times[ROUNDS];
  must(kael_set_jit(KAEL_JIT_LAZY) == KAEL_OK);
  kael_tensor *x = small_vector(1, requires_grad), *y = small_vector(2, false);
  for (int round = -2; round < ROUNDS; round++) {
    kael_tensor *sum = kael_retain(x);
    double start = bench_now_ns();
    for (int i = 0; i < OPS; i++) {
      kael_tensor *next = kael_add(sum, y);
      kael_release(sum);
      sum = next;
    }
    double end = bench_now_ns();
    if (round >= 0) times[round] = (end - start) / OPS;
    evaluate(sum);
    kael_release(sum);
  }
  kael_release(x);
  kael_release(y);
  return bench_median(times, ROUNDS);
}

/* The same with results that are dropped unread: nothing is ever run. */
static double time_dropped_recording(void) {
  enum { ROUNDS = 31, OPS = 2000 };
  double times[ROUNDS];
  kael_tensor *x = small_vector(1, false), *y = small_vector(2, false);
  for (int round = 0; round < ROUNDS; round++) {
    double start = bench_now_ns();
    for (int i = 0; i < OPS; i++) kael_release(kael_add(x, y));
    times[round] = (bench_now_ns() - start) / OPS;
  }
  kael_release(x);
  kael_release(y);
  return bench_median(times, ROUNDS);
}

/* --- One operation ---------------------------------------------------------------------------- */

/* From the call to the first byte of the result, and the release of its handle. */
static double time_one_op(kael_jit_mode mode) {
  enum { ROUNDS = 31, OPS = 2000 };
  double times[ROUNDS];
  must(kael_set_jit(mode) == KAEL_OK);
  kael_tensor *x = small_vector(1, false), *y = small_vector(2, false);
  volatile float sink = 0;
  for (int round = -2; round < ROUNDS; round++) {
    double start = bench_now_ns();
    for (int i = 0; i < OPS; i++) {
      kael_tensor *sum = kael_add(x, y);
      sink = *(const float *)kael_data_ptr(sum);
      kael_release(sum);
    }
    if (round >= 0) times[round] = (bench_now_ns() - start) / OPS;
  }
  (void)sink;
  kael_release(x);
  kael_release(y);
  return bench_median(times, ROUNDS);
}

/* --- Cold compilation ------------------------------------------------------------------------- */

static kael_tensor *matrix(int64_t rows, int64_t columns, float scale) {
  float *data = malloc(sizeof *data * (size_t)(rows * columns));
  must(data != NULL);
  for (int64_t i = 0; i < rows * columns; i++) data[i] = scale * (float)(i % 97);
  kael_tensor *tensor = kael_from_data(data, 2, (int64_t[]){rows, columns}, KAEL_F32);
  free(data);
  must(tensor != NULL);
  return tensor;
}

static kael_tensor *build_chain(void) {
  must(kael_scope_begin() == KAEL_OK);
  kael_tensor *a = matrix(10, 100, 0.01f), *b = matrix(10, 100, 0.02f);
  kael_tensor *x = kael_add(kael_mul(a, b), a);
  x = kael_sub(kael_exp(kael_neg(x)), b);
  x = kael_tanh(kael_mul_scalar(x, kael_f(0.5)));
  x = kael_keep(kael_maximum(kael_sqrt(kael_abs(x)), a));
  must(kael_scope_end() == KAEL_OK);
  return x;
}

static kael_tensor *build_softmax(void) {
  kael_tensor *a = matrix(10, 100, 0.01f), *x = kael_softmax(a, -1);
  kael_release(a);
  return x;
}

/* x_n = x_{n-1} + x_{n-2}: as a tree it would have hundreds of millions of nodes. */
static kael_tensor *build_fibonacci(void) {
  kael_tensor *before = matrix(10, 100, 0.01f), *x = matrix(10, 100, 0.02f);
  for (int n = 2; n <= 40; n++) {
    kael_tensor *next = kael_add(x, before);
    kael_release(before);
    before = x;
    x = next;
  }
  kael_release(before);
  return x;
}

static const struct cold_graph {
  const char *name;
  kael_tensor *(*build)(void);
} cold_graphs[] = {
    {"chain", build_chain}, {"softmax", build_softmax}, {"fibonacci", build_fibonacci}};

/* In the child: the nanoseconds from the first request for bytes to their being there. */
static int run_cold(const char *name) {
  must(kael_set_jit(KAEL_JIT_SYNC) == KAEL_OK);
  for (size_t i = 0; i < sizeof cold_graphs / sizeof *cold_graphs; i++) {
    if (strcmp(name, cold_graphs[i].name) != 0) continue;
    kael_tensor *result = cold_graphs[i].build();
    must(result != NULL);
    double start = bench_now_ns();
    evaluate(result);
    printf("%.0f\n", bench_now_ns() - start);
    kael_release(result);
    return 0;
  }
  return 2;
}

/* Milliseconds of one run in a fresh process. */
static double start_cold(const char *name) {
  char command[4200], self[4096];
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  if (n < 0) exit(2);
  self[n] = 0;
  snprintf(command, sizeof command, "'%s' --cold %s", self, name);
  FILE *pipe = popen(command, "r");
  double ns = 0;
  bool fine = pipe && fscanf(pipe, "%lf", &ns) == 1;
  if (!pipe || pclose(pipe) != 0 || !fine) exit(2);
  return ns * 1e-6;
}

static double time_cold(const char *name) {
  enum { ROUNDS = 9 };
  double times[ROUNDS];
  start_cold(name); /* the plugin's file is read into memory */
  for (int round = 0; round < ROUNDS; round++) times[round] = start_cold(name);
  return bench_median(times, ROUNDS);
}

/* --- Throughput ------------------------------------------------------------------------------- */

enum { LARGE = 1 << 24, GRAIN = 1 << 12 };

typedef struct large_run {
  kael_tensor *a, *b, *c;
  const float *a_data, *b_data;
  float *c_data;
} large_run;

static void run_plain_range(void *ctx, int64_t begin, int64_t end, int worker) {
  const large_run *run = ctx;
  (void)worker;
  bench_plain_loop()(run->a_data + begin, run->b_data + begin, run->c_data + begin, end - begin);
}

static double time_plain(large_run *run) {
  double start = bench_now_ns();
  kl_parallel_for(LARGE, GRAIN, run_plain_range, run);
  return bench_now_ns() - start;
}

/* exp(a * b + 1), recorded and evaluated; its memory comes mapped from the allocator's cache. */
static double time_kael(const large_run *run, kael_jit_mode mode) {
  must(kael_set_jit(mode) == KAEL_OK);
  double start = bench_now_ns();
  kael_tensor *product = kael_mul(run->a, run->b), *sum = kael_add_scalar(product, kael_f(1));
  kael_tensor *result = kael_exp(sum);
  kael_release(product);
  kael_release(sum);
  evaluate(result);
  double end = bench_now_ns();
  kael_release(result);
  return end - start;
}

static kael_tensor *large_vector(float from) {
  kael_tensor *range = kael_arange(kael_f(0), kael_f(LARGE), kael_f(1), KAEL_F32);
  kael_tensor *scaled = kael_mul_scalar(range, kael_f(1.0 / LARGE));
  kael_tensor *tensor = kael_add_scalar(scaled, kael_f(from));
  evaluate(tensor);
  kael_release(range);
  kael_release(scaled);
  return tensor;
}

static void print_throughput(large_run *run, int threads, bool promised) {
  enum { TURNS = 15 };
  double plain[TURNS], ratio[2][TURNS];
  kl_threads_set(threads);
  for (int turn = -2; turn < TURNS; turn++) {
    double plain_ns[2], kael_ns[2];
    for (int tier = 0; tier < n_tiers; tier++) {
      plain_ns[tier] = time_plain(run);
      kael_ns[tier] = time_kael(run, tier == 0 ? KAEL_JIT_LAZY : KAEL_JIT_SYNC);
    }
    if (turn < 0) continue;
    plain[turn] = plain_ns[0];
    for (int tier = 0; tier < n_tiers; tier++)
      ratio[tier][turn] = 100 * plain_ns[tier] / kael_ns[tier];
  }
  char what[80];
  snprintf(what, sizeof what, "a[i]*b[i]+1 in plain C, 16.7 M floats, %d thread%s", threads,
           threads > 1 ? "s" : "");
  print_figure(what, bench_median(plain, TURNS) * 1e-6, 0, "ms", false);
  for (int tier = 0; tier < n_tiers; tier++) {
    snprintf(what, sizeof what, "  (a*b+1).exp() in tier %d, of plain C's speed", tier);
    print_figure(what, bench_median(ratio[tier], TURNS), promised ? 85 : 0, "%", true);
  }
}

static void print_throughputs(void) {
  must(kael_set_jit(KAEL_JIT_LAZY) == KAEL_OK);
  large_run run = {.a = large_vector(0), .b = large_vector(0.25f), .c = large_vector(1)};
  run.a_data = kael_data_ptr(run.a);
  run.b_data = kael_data_ptr(run.b);
  run.c_data = kael_mutable_data_ptr(run.c);
  must(run.a_data && run.b_data && run.c_data);
  int threads = kl_thread_count();
  print_throughput(&run, threads, true);
  if (threads > 1) print_throughput(&run, 1, false);
  kael_release(run.a);
  kael_release(run.b);
  kael_release(run.c);
}

int main(int n_args, char **args) {
  if (n_args == 3 && !strcmp(args[1], "--cold")) return run_cold(args[2]);
  printf("%-58s %8s %9s\n", "figure", "limit", "measured");
  print_figure("record an op, without grad", time_recording(false), 150, "ns", false);
  print_figure("  the same, dropped unread", time_dropped_recording(), 150, "ns", false);
  print_figure("record an op, with grad", time_recording(true), 500, "ns", false);
  print_figure("one-op graph of 10 floats, result ready, lazy", time_one_op(KAEL_JIT_LAZY) * 1e-3,
               0.7, "us", false);
  print_figure("  the same, eager", time_one_op(KAEL_JIT_EAGER) * 1e-3, 0.7, "us", false);
  if (n_tiers > 1) {
    print_figure("cold compile: ten elementwise ops", time_cold("chain"), 20, "ms", false);
    print_figure("cold compile: softmax", time_cold("softmax"), 40, "ms", false);
    print_figure("cold compile: Fibonacci-shaped, n = 40", time_cold("fibonacci"), 50, "ms", false);
  }
  print_throughputs();
  return any_short;
}
