/* The one context: modes, the random generator, and what the thread is doing.
 *
 * The lock of the graph of values (kl_graph_lock, runtime/value.h) is the recording lock: it is
 * held while operands are read and a value is made, never while something compiles or runs.
 */
#ifndef KL_FRONTEND_CONTEXT_H
#define KL_FRONTEND_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "ir/support/options.h"
#include "ir/support/status.h"

/* Thread state that the hot paths look at. */
typedef struct kl_thread_state {
  const char *site;       /* name of the public op being recorded, static; never NULL */
  bool grad_disabled;     /* no_grad: nothing is tracked */
  int8_t jit;             /* kl_jit_mode of this thread + 1; 0: the process default holds */
  struct kl_scope *scope; /* innermost open scope, or NULL */
} kl_thread_state;

extern _Thread_local kl_thread_state kl_thread;

static inline void kl_set_site(const char *name) { kl_thread.site = name; }

/* The mode in force on this thread. */
kl_jit_mode kl_jit_current(void);

/* Philox counters (an i64 sequence) for `n_elems` random elements, and the seed they go with. */
void kl_generator_take(int64_t n_elems, int64_t *out_seed, int64_t *out_counter);

#endif
