/* kl_parallel_for: participants draw chunks from a shared counter until none is left.
 *
 * `pool_busy` is a lock that is only ever tried: whoever finds it taken runs inline, hence no call
 * waits for another and none can deadlock.
 */
#include "runtime/threads.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "ir/support/options.h"
#include "runtime/pool.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

/* More chunks than threads, so that a thread held up by other work does not hold up the rest. */
enum { CHUNKS_PER_THREAD = 4, MAX_THREADS = 1024 };

static atomic_int threads_by_call; /* 0: not set */
static atomic_bool pool_busy;
static kl_pool *pool; /* guarded by pool_busy; NULL when there is none */
static int pool_size;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static _Thread_local bool inside_call;

/* --- floating-point state --- */

#if defined(__x86_64__)
static kl_fp_state read_fp_state(void) { return _mm_getcsr(); }
static void write_fp_state(kl_fp_state state) { _mm_setcsr((unsigned)state); }
static const kl_fp_state default_fp_state = 0x1f80; /* all exceptions masked, nothing else */
static const kl_fp_state sticky_fp_bits = 0x3f;     /* exception flags, which change nothing */
#elif defined(__aarch64__)
static kl_fp_state read_fp_state(void) {
  uint64_t state;
  __asm__ volatile("mrs %0, fpcr" : "=r"(state));
  return state;
}
static void write_fp_state(kl_fp_state state) {
  __asm__ volatile("msr fpcr, %0" : : "r"(state) : "memory");
}
static const kl_fp_state default_fp_state = 0;
static const kl_fp_state sticky_fp_bits = 0;
#else
static kl_fp_state read_fp_state(void) { return 0; }
static void write_fp_state(kl_fp_state state) { (void)state; }
static const kl_fp_state default_fp_state = 0;
static const kl_fp_state sticky_fp_bits = 0;
#endif

/* Writing the control word stalls the pipeline and reading it does not: write only a change. */
kl_fp_state kl_fp_enter(void) {
  kl_fp_state saved = read_fp_state();
  if ((saved & ~sticky_fp_bits) != default_fp_state) write_fp_state(default_fp_state);
  return saved;
}

void kl_fp_leave(kl_fp_state saved) {
  if ((saved & ~sticky_fp_bits) != default_fp_state) write_fp_state(saved);
}

/* --- number of threads --- */

static int affinity_count(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  int count = CPU_COUNT(&set);
  return count < 1 ? 1 : count;
}

static int standard_count(void) {
  static atomic_int known;
  int count = atomic_load_explicit(&known, memory_order_relaxed);
  if (count == 0) {
    const kl_options *options = kl_options_get();
    count = options->threads > 0       ? (int)options->threads
            : options->omp_threads > 0 ? (int)options->omp_threads
                                       : affinity_count();
    if (count > MAX_THREADS) count = MAX_THREADS;
    atomic_store_explicit(&known, count, memory_order_relaxed);
  }
  return count;
}

int kl_thread_count(void) {
  int count = atomic_load_explicit(&threads_by_call, memory_order_relaxed);
  return count > 0 ? count : standard_count();
}

void kl_threads_set(int n_threads) {
  if (n_threads < 0) n_threads = 0;
  if (n_threads > MAX_THREADS) n_threads = MAX_THREADS;
  atomic_store_explicit(&threads_by_call, n_threads, memory_order_relaxed);
}

/* --- the pool --- */

/* The child has none of the pool's threads, so the pool cannot be destroyed there: it is dropped,
 * and with it a lock that another thread of the parent may have held. */
static void drop_pool_in_child(void) {
  pool = NULL;
  pool_size = 0;
  inside_call = false;
  atomic_store(&pool_busy, false);
}

static void watch_forks(void) { pthread_atfork(NULL, NULL, drop_pool_in_child); }

static bool try_lock_pool(void) { return !atomic_exchange(&pool_busy, true); }
static void unlock_pool(void) { atomic_store(&pool_busy, false); }

/* Makes the pool the wanted size; caller holds pool_busy. False when threads cannot be had. */
static bool prepare_pool(int size) {
  if (pool && pool_size == size) return true;
  pthread_once(&fork_once, watch_forks);
  kl_pool_destroy(pool);
  pool = kl_pool_create(size);
  pool_size = pool ? size : 0;
  return pool != NULL;
}

void kl_threads_shutdown(void) {
  if (!try_lock_pool()) return;
  kl_pool_destroy(pool);
  pool = NULL;
  pool_size = 0;
  unlock_pool();
}

/* The library may be unloaded, and the pool's threads run its code. */
__attribute__((destructor)) static void end_threads(void) { kl_threads_shutdown(); }

/* --- calls --- */

typedef struct parallel_call {
  kl_range_fn fn;
  void *ctx;
  int64_t n_units, chunk;
  atomic_int_fast64_t next;
} parallel_call;

static void run_chunks(void *opaque, int worker) {
  parallel_call *call = opaque;
  bool was_inside = inside_call;
  inside_call = true;
  kl_fp_state saved = kl_fp_enter();
  for (;;) {
    int64_t begin = atomic_fetch_add_explicit(&call->next, call->chunk, memory_order_relaxed);
    if (begin >= call->n_units) break;
    int64_t left = call->n_units - begin;
    call->fn(call->ctx, begin, begin + (left < call->chunk ? left : call->chunk), worker);
  }
  kl_fp_leave(saved);
  inside_call = was_inside;
}

static void run_inline(int64_t n_units, kl_range_fn fn, void *ctx) {
  kl_fp_state saved = kl_fp_enter();
  fn(ctx, 0, n_units, 0);
  kl_fp_leave(saved);
}

static int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }

static int64_t chunk_units(int64_t n_units, int64_t grain, int n_workers) {
  int64_t even = ceil_div(n_units, (int64_t)n_workers * CHUNKS_PER_THREAD);
  return ceil_div(even, grain) * grain;
}

void kl_parallel_for_at_most(int64_t n_units, int64_t grain, int max_workers, kl_range_fn fn,
                             void *ctx) {
  if (n_units <= 0) return;
  if (grain < 1) grain = 1;
  int n_threads = kl_thread_count();
  int n_workers = n_threads < max_workers ? n_threads : max_workers;
  if (n_units <= grain || n_workers <= 1 || inside_call || !try_lock_pool()) {
    run_inline(n_units, fn, ctx);
    return;
  }
  if (!prepare_pool(n_threads)) {
    unlock_pool();
    run_inline(n_units, fn, ctx);
    return;
  }
  parallel_call call = {fn, ctx, n_units, chunk_units(n_units, grain, n_workers), 0};
  kl_pool_run(pool, n_workers, run_chunks, &call);
  unlock_pool();
}

void kl_parallel_for(int64_t n_units, int64_t grain, kl_range_fn fn, void *ctx) {
  kl_parallel_for_at_most(n_units, grain, MAX_THREADS, fn, ctx);
}
