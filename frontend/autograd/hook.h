/* Hooks: functions of the user that see, and may replace, the gradient of a tensor. A leaf's stand
 * in its meta, another tensor's in the node that made it; a handle and a list share the hook. */
#ifndef KL_FRONTEND_AUTOGRAD_HOOK_H
#define KL_FRONTEND_AUTOGRAD_HOOK_H

#include "frontend/autograd/meta.h"
#include "kael/autograd.h"

typedef struct kl_hook_entry {
  struct kael_hook *hook; /* owned reference */
  uint32_t slot;
  struct kl_hook_entry *next;
} kl_hook_entry;

/* Runs those of a slot of the node on *grad, which they may exchange. */
kl_status kl_hooks_run(const kl_hook_entry *hooks, uint32_t slot, kael_tensor **grad) KL_MUST_CHECK;
void kl_hooks_free(kl_hook_entry *hooks);

#endif
