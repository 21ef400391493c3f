/* Threads that help with a caller's task. The caller never waits for a helper that has not begun:
 * on a crowded machine it does the work alone, at no loss.
 *
 * Not thread-safe: one call at a time, as runtime/threads.c sees to.
 */
#ifndef KL_RUNTIME_POOL_H
#define KL_RUNTIME_POOL_H

/* Works until nothing is left to do. Called by each participant with its own worker index, below
 * the number of threads; the caller's is 0. Once one has returned, later ones may return at
 * once. */
typedef void (*kl_pool_task)(void *ctx, int worker);

typedef struct kl_pool kl_pool;

/* NULL when there is no memory or not a single thread to be had. `n_threads` counts the caller;
 * fewer than asked may be made. Signals are blocked on the pool's threads. */
kl_pool *kl_pool_create(int n_threads);
/* Joins the threads. NULL is allowed. */
void kl_pool_destroy(kl_pool *pool);
/* Runs `task` as worker 0 and on those helpers with an index below `max_workers` that come while
 * it does; returns when every participant has returned. */
void kl_pool_run(kl_pool *pool, int max_workers, kl_pool_task task, void *ctx);

#endif
