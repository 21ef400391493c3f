/* The thread pool: every unit once, forked children, nesting, callers at once, arithmetic state. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/threads.h"
#include "tests/support/runner.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

enum { MAX_UNITS = 10000 };

typedef struct record {
  atomic_int n_visits[MAX_UNITS];
  atomic_int n_bad_workers, n_bad_chunks;
  int64_t n_units, grain;
  int n_workers;
} record;

static void visit(void *ctx, int64_t begin, int64_t end, int worker) {
  record *r = ctx;
  if (worker < 0 || worker >= r->n_workers) atomic_fetch_add(&r->n_bad_workers, 1);
  if (begin % r->grain != 0 || (end != r->n_units && (end - begin) % r->grain != 0) || begin >= end)
    atomic_fetch_add(&r->n_bad_chunks, 1);
  for (int64_t i = begin; i < end; i++) atomic_fetch_add(&r->n_visits[i], 1);
}

static int count_wrong(int64_t n_units, int64_t grain) {
  /* Not from malloc, which a sanitizer may leave locked in a forked child. */
  static _Thread_local record room;
  record *r = &room;
  memset(r, 0, sizeof *r);
  r->n_units = n_units;
  r->grain = grain;
  r->n_workers = kl_thread_count();
  kl_parallel_for(n_units, grain, visit, r);
  int n_wrong = r->n_bad_workers + r->n_bad_chunks;
  for (int64_t i = 0; i < MAX_UNITS; i++) n_wrong += r->n_visits[i] != (i < n_units);
  return n_wrong;
}

START_TEST(every_unit_is_visited_once_in_chunks_of_the_grain) {
  static const int64_t sizes[] = {0, 1, 2, 7, 64, 1000, MAX_UNITS};
  static const int64_t grains[] = {1, 3, 16, 5000};
  for (int threads = 1; threads <= 4; threads++) {
    kl_threads_set(threads);
    ck_assert_int_eq(kl_thread_count(), threads);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
      for (size_t g = 0; g < sizeof grains / sizeof *grains; g++)
        ck_assert_msg(count_wrong(sizes[s], grains[g]) == 0, "%d threads, %ld units, grain %ld",
                      threads, (long)sizes[s], (long)grains[g]);
  }
  kl_threads_shutdown();
}
END_TEST

static void note_thread(void *ctx, int64_t begin, int64_t end, int worker) {
  (void)worker;
  pthread_t *threads = ctx;
  for (int64_t i = begin; i < end; i++) threads[i] = pthread_self();
}

START_TEST(a_small_call_runs_on_the_calling_thread) {
  kl_threads_set(3);
  pthread_t threads[8];
  kl_parallel_for(8, 8, note_thread, threads);
  for (int i = 0; i < 8; i++) ck_assert(pthread_equal(threads[i], pthread_self()));
}
END_TEST

typedef struct meeting {
  pthread_barrier_t barrier;
  atomic_int n_met;
} meeting;

static void meet(void *ctx, int64_t begin, int64_t end, int worker) {
  (void)begin, (void)end, (void)worker;
  meeting *m = ctx;
  pthread_barrier_wait(&m->barrier);
  atomic_fetch_add(&m->n_met, 1);
}

START_TEST(workers_run_at_the_same_time) {
  /* Two units wait for each other: one thread alone would never come back. */
  kl_threads_set(2);
  meeting m = {.n_met = 0};
  pthread_barrier_init(&m.barrier, NULL, 2);
  kl_parallel_for(2, 1, meet, &m);
  ck_assert_int_eq(m.n_met, 2);
  pthread_barrier_destroy(&m.barrier);
}
END_TEST

static void nest(void *ctx, int64_t begin, int64_t end, int worker) {
  (void)worker;
  atomic_int *n_elsewhere = ctx;
  for (int64_t i = begin; i < end; i++) {
    pthread_t threads[64];
    kl_parallel_for(64, 1, note_thread, threads);
    for (int j = 0; j < 64; j++)
      if (!pthread_equal(threads[j], pthread_self())) atomic_fetch_add(n_elsewhere, 1);
  }
}

START_TEST(nested_calls_run_inline) {
  kl_threads_set(3);
  atomic_int n_elsewhere = 0;
  kl_parallel_for(16, 1, nest, &n_elsewhere);
  ck_assert_int_eq(n_elsewhere, 0);
}
END_TEST

static void *call_often(void *arg) {
  int *n_wrong = arg;
  for (int i = 0; i < 100; i++) *n_wrong += count_wrong(1000 + i, 7);
  return NULL;
}

START_TEST(four_user_threads_may_call_at_once) {
  kl_threads_set(2);
  pthread_t threads[4];
  int n_wrong[4] = {0};
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, call_often, &n_wrong[i]);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < 4; i++) ck_assert_int_eq(n_wrong[i], 0);
}
END_TEST

#if defined(__SANITIZE_THREAD__)
#define SKIP_UNDER_TSAN() KL_TEST_SKIP("ThreadSanitizer allows no threads in a forked child")
#else
#define SKIP_UNDER_TSAN() ((void)0)
#endif

static int child_status(void) {
  pid_t child = fork();
  if (child == 0) {
    alarm(60); /* a hanging child fails the test instead of stopping it */
    _exit(count_wrong(5000, 7) == 0 && kl_thread_count() == 2 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

START_TEST(a_forked_child_makes_its_own_pool) {
  SKIP_UNDER_TSAN();
  kl_threads_set(2);
  ck_assert_int_eq(count_wrong(5000, 7), 0); /* so the parent has a pool */
  ck_assert_int_eq(child_status(), 0);
  ck_assert_int_eq(count_wrong(5000, 7), 0); /* and it still works */
}
END_TEST

static atomic_bool stop_calling;

static void *call_until_stopped(void *arg) {
  int *n_wrong = arg;
  while (!stop_calling) *n_wrong += count_wrong(2000, 1);
  return NULL;
}

START_TEST(a_child_forked_while_the_pool_works_can_use_its_own) {
  SKIP_UNDER_TSAN();
  kl_threads_set(2);
  pthread_t caller;
  int n_wrong = 0;
  stop_calling = false;
  pthread_create(&caller, NULL, call_until_stopped, &n_wrong);
  for (int i = 0; i < 20; i++) ck_assert_int_eq(child_status(), 0);
  stop_calling = true;
  pthread_join(caller, NULL);
  ck_assert_int_eq(n_wrong, 0);
}
END_TEST

#if defined(__x86_64__)
static void halve_subnormals(void *ctx, int64_t begin, int64_t end, int worker) {
  (void)worker;
  atomic_int *n_flushed = ctx;
  for (int64_t i = begin; i < end; i++) {
    volatile float small = 0x1p-130f;
    volatile float half = small * 0.5f;
    if (half != 0x1p-131f) atomic_fetch_add(n_flushed, 1);
  }
}
#endif

START_TEST(chunks_keep_subnormals_whatever_the_caller_has_set) {
#if defined(__x86_64__)
  const unsigned flush_to_zero = 0x8040, before = _mm_getcsr();
  for (int threads = 1; threads <= 3; threads++) {
    kl_threads_set(threads);
    atomic_int n_flushed = 0;
    _mm_setcsr(before | flush_to_zero);
    kl_parallel_for(64, 1, halve_subnormals, &n_flushed);
    kl_parallel_for(64, 64, halve_subnormals, &n_flushed);
    unsigned after = _mm_getcsr();
    _mm_setcsr(before);
    ck_assert_int_eq(n_flushed, 0);
    ck_assert_uint_eq(after & flush_to_zero, flush_to_zero);
  }
#else
  KL_TEST_SKIP("the control word is set by hand for x86-64 only");
#endif
}
END_TEST

int main(void) {
  Suite *suite = suite_create("threads");
  TCase *tc = tcase_create("threads");
  tcase_set_timeout(tc, 120);
  tcase_add_test(tc, every_unit_is_visited_once_in_chunks_of_the_grain);
  tcase_add_test(tc, a_small_call_runs_on_the_calling_thread);
  tcase_add_test(tc, workers_run_at_the_same_time);
  tcase_add_test(tc, nested_calls_run_inline);
  tcase_add_test(tc, four_user_threads_may_call_at_once);
  tcase_add_test(tc, a_forked_child_makes_its_own_pool);
  tcase_add_test(tc, a_child_forked_while_the_pool_works_can_use_its_own);
  tcase_add_test(tc, chunks_keep_subnormals_whatever_the_caller_has_set);
  suite_add_tcase(suite, tc);
  return kl_test_run(suite);
}
