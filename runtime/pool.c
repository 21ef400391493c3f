/* The pool behind kl_parallel_for.
 *
 * `state` holds everything that caller and helpers agree on: the number of the job, whether it is
 * open, and how many helpers are at it. A helper joins an open job by one compare-and-swap; the
 * caller, when its own part is done, closes the job and waits only for those who joined. Idle
 * helpers spin for some tens of microseconds and then sleep.
 */
#include "runtime/pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ir/support/memory.h"

enum { SPINS_BEFORE_SLEEP = 2000, SPINS_BEFORE_YIELD = 2000 };

/* state = job number << 32 | OPEN | helpers at the job */
static const uint64_t state_open = UINT64_C(1) << 31;
static const uint64_t state_helpers = (UINT64_C(1) << 31) - 1;
static const int state_job_shift = 32;

typedef struct helper {
  kl_pool *pool;
  pthread_t thread;
  int worker;
} helper;

struct kl_pool {
  _Atomic uint64_t state;
  atomic_bool stopping;
  atomic_int n_sleeping;
  /* The open job; written by the caller while the job is closed and no helper is at it. */
  kl_pool_task task;
  void *ctx;
  atomic_int max_workers; /* read before joining, by helpers that may be late: hence atomic */
  pthread_mutex_t lock;   /* for sleeping only */
  pthread_cond_t wake;
  int n_helpers;
  helper helpers[];
};

static void pause_briefly(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static bool has_news(kl_pool *pool, uint64_t last_job) {
  uint64_t state = atomic_load(&pool->state);
  return atomic_load(&pool->stopping) ||
         ((state & state_open) && state >> state_job_shift != last_job);
}

/* The order matters: a helper counts itself as sleeping before it looks for the last time, and the
 * caller opens the job before it looks for sleepers. */
static void sleep_until_news(kl_pool *pool, uint64_t last_job) {
  pthread_mutex_lock(&pool->lock);
  atomic_fetch_add(&pool->n_sleeping, 1);
  while (!has_news(pool, last_job)) pthread_cond_wait(&pool->wake, &pool->lock);
  atomic_fetch_sub(&pool->n_sleeping, 1);
  pthread_mutex_unlock(&pool->lock);
}

static void wait_for_news(kl_pool *pool, uint64_t last_job) {
  for (int i = 0; i < SPINS_BEFORE_SLEEP; i++) {
    if (has_news(pool, last_job)) return;
    pause_briefly();
  }
  sleep_until_news(pool, last_job);
}

/* Joins the open job that is not `*last_job`; false when there is none or it does not want us. */
static bool join_job(kl_pool *pool, int worker, uint64_t *last_job) {
  uint64_t state = atomic_load(&pool->state);
  while ((state & state_open) && state >> state_job_shift != *last_job) {
    if (worker >= atomic_load(&pool->max_workers)) {
      *last_job = state >> state_job_shift;
      return false;
    }
    if (atomic_compare_exchange_weak(&pool->state, &state, state + 1)) {
      *last_job = state >> state_job_shift;
      return true;
    }
  }
  return false;
}

static void *help(void *opaque) {
  helper *self = opaque;
  kl_pool *pool = self->pool;
  uint64_t last_job = 0;
  for (;;) {
    wait_for_news(pool, last_job);
    if (atomic_load(&pool->stopping)) return NULL;
    if (!join_job(pool, self->worker, &last_job)) continue;
    pool->task(pool->ctx, self->worker);
    atomic_fetch_sub(&pool->state, 1);
  }
}

static void wake_sleepers(kl_pool *pool) {
  if (atomic_load(&pool->n_sleeping) == 0) return;
  pthread_mutex_lock(&pool->lock);
  pthread_cond_broadcast(&pool->wake);
  pthread_mutex_unlock(&pool->lock);
}

void kl_pool_run(kl_pool *pool, int max_workers, kl_pool_task task, void *ctx) {
  pool->task = task;
  pool->ctx = ctx;
  atomic_store(&pool->max_workers, max_workers);
  uint64_t job = (atomic_load(&pool->state) >> state_job_shift) + 1;
  atomic_store(&pool->state, job << state_job_shift | state_open);
  wake_sleepers(pool);
  task(ctx, 0);
  atomic_fetch_and(&pool->state, ~state_open);
  for (int i = 0; (atomic_load(&pool->state) & state_helpers) != 0; i++) {
    if (i < SPINS_BEFORE_YIELD) {
      pause_briefly();
    } else {
      sched_yield(); /* a helper at work may need this very CPU */
    }
  }
}

/* Signals are the program's, and are to arrive on its own threads. */
static void start_helpers(kl_pool *pool, int n_wanted) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (int i = 0; i < n_wanted; i++) {
    helper *next = &pool->helpers[i];
    next->pool = pool;
    next->worker = i + 1;
    if (pthread_create(&next->thread, NULL, help, next) != 0) break;
    pool->n_helpers++;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

kl_pool *kl_pool_create(int n_threads) {
  size_t n_helpers = n_threads > 1 ? (size_t)n_threads - 1 : 0;
  if (n_helpers == 0) return NULL;
  kl_pool *pool = kl_calloc(1, sizeof *pool + n_helpers * sizeof pool->helpers[0]);
  if (!pool) return NULL;
  pthread_mutex_init(&pool->lock, NULL);
  pthread_cond_init(&pool->wake, NULL);
  start_helpers(pool, (int)n_helpers);
  if (pool->n_helpers > 0) return pool;
  kl_pool_destroy(pool);
  return NULL;
}

void kl_pool_destroy(kl_pool *pool) {
  if (!pool) return;
  atomic_store(&pool->stopping, true);
  pthread_mutex_lock(&pool->lock);
  pthread_cond_broadcast(&pool->wake);
  pthread_mutex_unlock(&pool->lock);
  for (int i = 0; i < pool->n_helpers; i++) pthread_join(pool->helpers[i].thread, NULL);
  pthread_cond_destroy(&pool->wake);
  pthread_mutex_destroy(&pool->lock);
  kl_free(pool);
}
