/* The context: the process default of the mode, thread overrides, the random generator. */
#include "frontend/context.h"

#include <pthread.h>
#include <stdatomic.h>

#include "kael/jit.h"
#include "kael/random.h"

#include "ir/support/fork.h"

_Thread_local kl_thread_state kl_thread = {.site = ""};

static atomic_int default_mode = -1; /* -1: as KAEL_JIT says */

static struct {
  pthread_mutex_t mutex;
  int64_t seed, counter;
} generator = {.mutex = PTHREAD_MUTEX_INITIALIZER};

__attribute__((constructor)) static void keep_lock(void) {
  kl_fork_keep(KL_LOCK_GENERATOR, &generator.mutex, NULL);
}

kl_jit_mode kl_jit_current(void) {
  if (kl_thread.jit) return (kl_jit_mode)(kl_thread.jit - 1);
  int mode = atomic_load_explicit(&default_mode, memory_order_relaxed);
  return mode >= 0 ? (kl_jit_mode)mode : (kl_jit_mode)kl_options_get()->jit;
}

_Static_assert((int)KAEL_JIT_EAGER == (int)KL_JIT_OFF && (int)KAEL_JIT_LAZY == (int)KL_JIT_ON &&
                   (int)KAEL_JIT_SYNC == (int)KL_JIT_SYNC,
               "public and internal modes are the same numbers");

static kl_status check_mode(kael_jit_mode mode) {
  if (mode == KAEL_JIT_DEFAULT || mode == KAEL_JIT_EAGER || mode == KAEL_JIT_LAZY) return KL_OK;
  if (mode != KAEL_JIT_SYNC) return kl_fail(KL_ERR_VALUE, "set_jit: %d is no mode", (int)mode);
  if (!KL_WITH_LLVM)
    return kl_fail(KL_ERR_COMPILER, "set_jit: mode sync needs LLVM, which this build is without");
  return KL_OK;
}

kael_status kael_set_jit(kael_jit_mode mode) {
  kl_status status = check_mode(mode);
  if (!status) kl_thread.jit = (int8_t)(mode == KAEL_JIT_DEFAULT ? 0 : (int)mode + 1);
  return (kael_status)status;
}

kael_status kael_set_jit_default(kael_jit_mode mode) {
  kl_status status = check_mode(mode);
  if (!status) atomic_store(&default_mode, mode == KAEL_JIT_DEFAULT ? -1 : (int)mode);
  return (kael_status)status;
}

kael_jit_mode kael_jit(void) { return (kael_jit_mode)kl_jit_current(); }

kael_jit_mode kael_jit_override(void) { return (kael_jit_mode)(kl_thread.jit - 1); }

void kael_manual_seed(uint64_t seed) {
  pthread_mutex_lock(&generator.mutex);
  generator.seed = (int64_t)seed;
  generator.counter = 0;
  pthread_mutex_unlock(&generator.mutex);
}

void kl_generator_take(int64_t n_elems, int64_t *out_seed, int64_t *out_counter) {
  pthread_mutex_lock(&generator.mutex);
  *out_seed = generator.seed;
  *out_counter = generator.counter;
  generator.counter = (int64_t)((uint64_t)generator.counter + ((uint64_t)n_elems + 3) / 4);
  pthread_mutex_unlock(&generator.mutex);
}
