/* One set of fork handlers over all registered locks. */
#include "ir/support/fork.h"

#include <stddef.h>

typedef struct kept_lock {
  pthread_mutex_t *mutex;
  bool (*is_held)(void);
  bool taken; /* by the fork in progress; guarded by the lock itself */
} kept_lock;

static kept_lock locks[KL_LOCK_COUNT];

static void take_all(void) {
  for (size_t i = 0; i < KL_LOCK_COUNT; i++) {
    kept_lock *lock = &locks[i];
    if (!lock->mutex || (lock->is_held && lock->is_held())) continue;
    pthread_mutex_lock(lock->mutex);
    lock->taken = true;
  }
}

static void give_all(void) {
  for (size_t i = KL_LOCK_COUNT; i > 0; i--) {
    kept_lock *lock = &locks[i - 1];
    if (!lock->taken) continue;
    lock->taken = false;
    pthread_mutex_unlock(lock->mutex);
  }
}

/* Constructors run one after the other, before any thread of the library's users calls it. */
void kl_fork_keep(kl_lock_rank rank, pthread_mutex_t *mutex, bool (*is_held)(void)) {
  static bool watching;
  locks[rank] = (kept_lock){.mutex = mutex, .is_held = is_held};
  if (!watching) watching = pthread_atfork(take_all, give_all, give_all) == 0;
}
