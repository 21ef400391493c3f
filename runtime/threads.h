/* One pool of threads for the library, and the floating-point state its work runs under.
 *
 * A range is cut into fixed chunks that workers take in turn; who computes a chunk must not matter.
 * The pool is made at the first use; a forked child makes its own. Nested calls run inline.
 */
#ifndef KL_RUNTIME_THREADS_H
#define KL_RUNTIME_THREADS_H

#include <stdint.h>

/* Works on units [begin, end). `worker` is below kl_thread_count() and unlike that of any other
 * chunk running at the same time for the same call: an index into the call's own scratch. */
typedef void (*kl_range_fn)(void *ctx, int64_t begin, int64_t end, int worker);

/* Runs `fn` over [0, n_units) and returns when all is done. A chunk has a multiple of `grain`
 * units, the last one excepted; when n_units <= grain, with one thread, or inside another call, it
 * runs here as worker 0. Several threads may call at once: one uses the pool, the others run
 * inline. Every chunk runs under the default floating-point state. */
void kl_parallel_for(int64_t n_units, int64_t grain, kl_range_fn fn, void *ctx);
/* The same with worker < max_workers, for scratch that was sized before. */
void kl_parallel_for_at_most(int64_t n_units, int64_t grain, int max_workers, kl_range_fn fn,
                             void *ctx);

/* Threads used, the calling one included: the number set by call, else KAEL_THREADS, else
 * OMP_NUM_THREADS, else the CPUs this process may run on. */
int kl_thread_count(void);
/* 0 goes back to the environment's number. Takes effect at the next kl_parallel_for. */
void kl_threads_set(int n_threads);
/* Ends the pool's threads; a later call makes new ones. Must not race with kl_parallel_for. */
void kl_threads_shutdown(void);

/* The control word of floating-point arithmetic: rounding mode, flush to zero. */
typedef uint64_t kl_fp_state;
/* Sets the default state (round to nearest, subnormals kept, no traps) and returns the old one. */
kl_fp_state kl_fp_enter(void);
void kl_fp_leave(kl_fp_state saved);

#endif
