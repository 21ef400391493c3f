/* The wrapper slots of a tensor: where bindings find the object that they made for it. A slot is
 * locked while it holds `locked`. */
#include <sched.h>

#include "frontend/tensor.h"
#include "kael/tensor.h"

_Static_assert((int)KAEL_WRAPPER_CXX == (int)KL_WRAPPER_CXX, "slots are the same numbers");
_Static_assert((int)KAEL_WRAPPER_PYTHON == (int)KL_WRAPPER_PYTHON, "slots are the same numbers");

static char locked_place;
#define LOCKED ((void *)&locked_place)

void *kael_wrapper_take(kael_tensor *tensor, kael_wrapper slot) {
  for (;;) {
    void *wrapper =
        atomic_exchange_explicit(&tensor->wrappers[slot], LOCKED, memory_order_acquire);
    if (wrapper != LOCKED) return wrapper;
    /* Holders put it back after a few instructions, unless their thread was interrupted. */
    sched_yield();
  }
}

void kael_wrapper_put(kael_tensor *tensor, kael_wrapper slot, void *wrapper) {
  atomic_store_explicit(&tensor->wrappers[slot], wrapper, memory_order_release);
}
