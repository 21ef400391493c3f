/* Hooks: counted by their handle and by the list they stand in. */
#include "frontend/autograd/hook.h"

#include "frontend/ops.h"
#include "ir/support/memory.h"

struct kael_hook {
  atomic_int refs;
  atomic_bool removed;
  kael_hook_fn fn;
  void *user;
  void (*destroy)(void *user);
};

/* The user's data dies once, with the removal or with the last reference. */
static void disable(kael_hook *hook) {
  if (atomic_exchange(&hook->removed, true)) return;
  if (hook->destroy) hook->destroy(hook->user);
}

void kael_hook_release(kael_hook *hook) {
  if (!hook || atomic_fetch_sub_explicit(&hook->refs, 1, memory_order_acq_rel) != 1) return;
  disable(hook);
  kl_free(hook);
}

void kael_hook_remove(kael_hook *hook) {
  if (!hook) return;
  disable(hook);
  kael_hook_release(hook);
}

void kl_hooks_free(kl_hook_entry *hooks) {
  while (hooks) {
    kl_hook_entry *next = hooks->next;
    kael_hook_release(hooks->hook);
    kl_free(hooks);
    hooks = next;
  }
}

static kl_status register_hook(kael_tensor *self, kael_hook_fn fn, void *user,
                               void (*destroy)(void *user), kael_hook **out_hook) {
  if (!fn) return kl_fail(KL_ERR_VALUE, "register_hook: the function is NULL");
  if (!self->autograd || !kl_autograd_requires_grad(self))
    return kl_fail(KL_ERR_RUNTIME,
                   "cannot register a hook on a tensor that doesn't require gradient");
  kl_autograd_node *node;
  uint32_t slot;
  KL_TRY(kl_meta_history(self, &node, &slot));
  kael_hook *hook = kl_calloc(1, sizeof *hook);
  kl_hook_entry *entry = kl_calloc(1, sizeof *entry);
  if (!hook || !entry) {
    kl_free(hook);
    kl_free(entry);
    return kl_fail_memory("a hook", sizeof *hook + sizeof *entry);
  }
  *hook = (kael_hook){.refs = 2, .fn = fn, .user = user, .destroy = destroy};
  *entry = (kl_hook_entry){.hook = hook, .slot = node ? slot : 0};
  kl_hook_entry **end = node ? &node->hooks : &self->autograd->hooks;
  while (*end) end = &(*end)->next;
  *end = entry;
  *out_hook = hook;
  return KL_OK;
}

kael_hook *kael_register_hook(kael_tensor *self, kael_hook_fn fn, void *user,
                              void (*destroy)(void *user)) {
  const kael_tensor *operands[1] = {self};
  if (kl_operand_missing(operands, 1)) return NULL;
  kael_hook *hook = NULL;
  return register_hook(self, fn, user, destroy, &hook) == KL_OK ? hook : NULL;
}

static kl_status run_hook(kael_hook *hook, kael_tensor **grad) {
  kael_tensor *other = NULL;
  kl_status status = (kl_status)hook->fn(*grad, hook->user, &other);
  if (!status && other && !kl_tensor_same_shape(other, *grad))
    status = kl_fail(KL_ERR_RUNTIME, "a hook has changed the size of value: from %s to %s",
                     kl_shape_text((*grad)->ndim, (*grad)->shape),
                     kl_shape_text(other->ndim, other->shape));
  if (!status && other && other->dtype != (*grad)->dtype)
    status = kl_fail(KL_ERR_TYPE, "a hook has changed the type of value: from %s to %s",
                     kl_dtype_torch_name((kl_dtype)(*grad)->dtype),
                     kl_dtype_torch_name((kl_dtype)other->dtype));
  if (status) {
    kl_tensor_release(other);
    return status;
  }
  if (other) {
    kl_tensor_release(*grad);
    *grad = other;
  }
  return KL_OK;
}

kl_status kl_hooks_run(const kl_hook_entry *hooks, uint32_t slot, kael_tensor **grad) {
  for (; hooks; hooks = hooks->next) {
    kael_hook *hook = hooks->hook;
    if (hooks->slot != slot || atomic_load(&hook->removed)) continue;
    atomic_fetch_add(&hook->refs, 1); /* it may remove itself */
    kl_status status = run_hook(hook, grad);
    kael_hook_release(hook);
    KL_TRY(status);
  }
  return KL_OK;
}
