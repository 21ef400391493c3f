/* Matrix products of kael against OpenBLAS, opened here, in one run with the same thread count.
 *
 * The two take turns of several rounds; medians over all rounds are printed. After a turn
 * OpenBLAS's threads are given time to sleep: they spin for a tenth of a second after their last
 * task, on CPUs that kael's would use. OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE are unset first, so
 * that the peer chooses by itself. Usage: bench_matmul [threads] [f64]
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/measure.h"
#include "runtime/allocator.h"
#include "runtime/cpu_features.h"
#include "runtime/matmul.h"
#include "runtime/threads.h"

enum { TURNS = 5, ROUNDS = 21, ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };

typedef void (*sgemm_fn)(int, int, int, int, int, int, float, const float *, int, const float *,
                         int, float, float *, int);

typedef void (*dgemm_fn)(int, int, int, int, int, int, double, const double *, int, const double *,
                         int, double, double *, int);

static sgemm_fn sgemm; /* both NULL without OpenBLAS */
static dgemm_fn dgemm;
static kl_dtype dtype = KL_F32;

static bool open_peer(int threads) {
  unsetenv("OPENBLAS_CORETYPE");
  unsetenv("OPENBLAS_L2_SIZE");
  void *library = dlopen("libopenblas.so.0", RTLD_NOW);
  if (!library) return false;
  void (*set_num_threads)(int) = NULL;
  *(void **)&set_num_threads = dlsym(library, "openblas_set_num_threads");
  *(void **)&dgemm = dlsym(library, "cblas_dgemm");
  *(void **)&sgemm = dgemm ? dlsym(library, "cblas_sgemm") : NULL;
  if (set_num_threads) set_num_threads(threads);
  return sgemm != NULL;
}

typedef struct shape {
  int m, n, k;
  bool b_transposed; /* B is stored as n x k, as the weight of a linear layer is */
} shape;

static const shape shapes[] = {
    {16, 64, 32, false},      {16, 64, 32, true},     {64, 64, 64, false},
    {64, 10, 128, true},      {128, 128, 64, true},   {128, 128, 128, false},
    {256, 256, 256, false},   {256, 256, 256, true},  {384, 384, 384, false},
    {512, 512, 512, false},   {512, 512, 512, true},  {1024, 1024, 1024, false},
    {1024, 1024, 1024, true}, {2048, 64, 512, false}, {64, 2048, 512, true},
    {4, 1024, 1024, true},    {1, 1024, 1024, false}, {1, 1024, 1024, true},
    {1024, 1, 1024, false},   {1, 4096, 4096, false}, {1, 4096, 4096, true},
    {1, 1, 1000000, false},
};

static void *random_matrix(size_t n) {
  void *ptr;
  size_t capacity;
  if (kl_allocator_allocate(n * kl_dtype_size(dtype), &ptr, &capacity) != KL_OK) exit(EXIT_FAILURE);
  for (size_t i = 0; i < n; i++) {
    double value = (rand() % 2001 - 1000) * 1e-3;
    if (dtype == KL_F32)
      ((float *)ptr)[i] = (float)value;
    else
      ((double *)ptr)[i] = value;
  }
  return ptr;
}

static kl_matmul spec_of(shape s) {
  return (kl_matmul){.dtype = dtype,
                     .m = s.m,
                     .n = s.n,
                     .k = s.k,
                     .a_m = s.k,
                     .a_k = 1,
                     .b_k = s.b_transposed ? 1 : s.n,
                     .b_n = s.b_transposed ? s.k : 1,
                     .c_m = s.n,
                     .c_n = 1};
}

typedef struct operands {
  shape s;
  kl_matmul spec;
  void *a, *b, *c;
} operands;

static void call_kael(const operands *o) {
  if (kl_matmul_run(&o->spec, o->a, o->b, o->c) != KL_OK) exit(EXIT_FAILURE);
}

static void call_peer(const operands *o) {
  shape s = o->s;
  int trans_b = s.b_transposed ? TRANS : NO_TRANS, ldb = s.b_transposed ? s.k : s.n;
  if (dtype == KL_F32) {
    sgemm(ROW_MAJOR, NO_TRANS, trans_b, s.m, s.n, s.k, 1, o->a, s.k, o->b, ldb, 0, o->c, s.n);
  } else {
    dgemm(ROW_MAJOR, NO_TRANS, trans_b, s.m, s.n, s.k, 1, o->a, s.k, o->b, ldb, 0, o->c, s.n);
  }
}

/* ROUNDS times of one call, each the mean of `repeats`; the first calls only warm up. */
static void take_turn(void (*call)(const operands *), const operands *o, int repeats,
                      double *times) {
  for (int i = 0; i < 3; i++) call(o);
  for (int round = 0; round < ROUNDS; round++) {
    double start = bench_now_ns();
    for (int i = 0; i < repeats; i++) call(o);
    times[round] = (bench_now_ns() - start) / repeats;
  }
}

static void take_turns(const operands *o, int repeats, double *ours, double *theirs) {
  take_turn(call_kael, o, repeats, ours);
  kl_threads_shutdown();
  if (!sgemm) return;
  take_turn(call_peer, o, repeats, theirs);
  nanosleep(&(struct timespec){.tv_nsec = 150000000}, NULL);
}

static void run_shape(shape s) {
  operands o = {s, spec_of(s), random_matrix((size_t)s.m * (size_t)s.k),
                random_matrix((size_t)s.k * (size_t)s.n), random_matrix((size_t)s.m * (size_t)s.n)};
  double flop = 2.0 * s.m * s.n * s.k;
  int repeats = (int)(2e6 / flop) + 1; /* a round lasts at least some ten microseconds */
  double ours[TURNS * ROUNDS], theirs[TURNS * ROUNDS];
  for (int turn = 0; turn < TURNS; turn++)
    take_turns(&o, repeats, ours + turn * ROUNDS, theirs + turn * ROUNDS);
  double t = bench_median(ours, TURNS * ROUNDS);
  printf("%5d %5d %7d  %-3s %10.2f us %7.1f", s.m, s.n, s.k, s.b_transposed ? "B'" : "B", t * 1e-3,
         flop / t);
  if (sgemm) {
    double peer = bench_median(theirs, TURNS * ROUNDS);
    printf("   %10.2f us %7.1f  %5.0f %%   (best %.2f, %.2f us)", peer * 1e-3, flop / peer,
           100 * peer / t, ours[0] * 1e-3, theirs[0] * 1e-3);
  }
  printf("\n");
  fflush(stdout);
}

int main(int argc, char **argv) {
  if (argc > 1) kl_threads_set(atoi(argv[1]));
  if (argc > 2 && strcmp(argv[2], "f64") == 0) dtype = KL_F64;
  int threads = kl_thread_count();
  if (!open_peer(threads)) printf("OpenBLAS is not installed: no peer\n");
  printf("%s, %d threads, %s; GFLOP/s of kael and of OpenBLAS, kael's in %% of OpenBLAS's\n",
         kl_dtype_name(dtype), threads, kl_cpu_level_name(kl_cpu_level_get()));
  printf("    m     n       k\n");
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) run_shape(shapes[i]);
  return EXIT_SUCCESS;
}
