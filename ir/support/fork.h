/* Locks that fork takes: a child gets every lock of the library free, and what they guard whole.
 *
 * Each file with a lock registers it in a constructor. The ranks are the order in which locks are
 * taken, here as in the code: who holds one takes only those further down.
 */
#ifndef KL_IR_SUPPORT_FORK_H
#define KL_IR_SUPPORT_FORK_H

#include <pthread.h>
#include <stdbool.h>

typedef enum kl_lock_rank {
  KL_LOCK_ACCUMULATE,   /* adding to gradients of leaves */
  KL_LOCK_RUN,          /* one evaluation at a time: fork waits for its end */
  KL_LOCK_PLUGIN,       /* opening the LLVM plugin */
  KL_LOCK_ACCUMULATORS, /* leaves and the nodes of their gradients */
  KL_LOCK_GRAPH,        /* the recording lock */
  KL_LOCK_REPORT,
  KL_LOCK_GENERATOR,
  KL_LOCK_SLAB,
  KL_LOCK_HEAP,
  KL_LOCK_LOG,
  KL_LOCK_COUNT
} kl_lock_rank;

/* `is_held` says whether the calling thread has the lock already, which fork then leaves as it is;
 * NULL where nothing that may fork is called under the lock. */
void kl_fork_keep(kl_lock_rank rank, pthread_mutex_t *mutex, bool (*is_held)(void));

#endif
