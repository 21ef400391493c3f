/* The autograd state of tensors: flags, history with its renewal for views, and leaves' nodes. */
#include "frontend/autograd/meta.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "frontend/autograd/hook.h"
#include "ir/support/fork.h"
#include "ir/support/slab.h"

/* Guards `accumulator` of every meta: a leaf refers to its node weakly. */
static pthread_mutex_t accumulators_lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void keep_lock(void) {
  kl_fork_keep(KL_LOCK_ACCUMULATORS, &accumulators_lock, NULL);
}

kl_status kl_meta_ensure(kael_tensor *tensor, kl_autograd_meta **out_meta) {
  if (!tensor->autograd) {
    kl_autograd_meta *meta = kl_slab_alloc(sizeof *meta);
    if (!meta) return kl_fail_memory("the autograd state of a tensor", sizeof *meta);
    memset(meta, 0, sizeof *meta);
    tensor->autograd = meta;
  }
  *out_meta = tensor->autograd;
  return KL_OK;
}

static void leave_retainers(kl_autograd_meta *meta) {
  if (!meta->retains_grad || !meta->grad_fn) return;
  kl_autograd_meta **link = &meta->grad_fn->retainers;
  while (*link && *link != meta) link = &(*link)->next_retainer;
  if (*link) *link = meta->next_retainer;
}

void kl_autograd_meta_destroy(kl_autograd_meta *meta) {
  leave_retainers(meta);
  kl_node_release(meta->grad_fn);
  kl_tensor_release(meta->grad);
  kl_tensor_drop(meta->base);
  kl_hooks_free(meta->hooks);
  kl_slab_free(meta, sizeof *meta);
}

bool kl_autograd_requires_grad(const kael_tensor *tensor) {
  const kl_autograd_meta *meta = tensor->autograd;
  if (meta->requires_grad || meta->grad_fn) return true;
  return meta->base && meta->base->autograd && kl_autograd_requires_grad(meta->base);
}

/* --- History -----------------------------------------------------------------------------------
 */

void kl_meta_set_history(kael_tensor *tensor, kl_autograd_node *node, uint32_t slot) {
  kl_autograd_meta *meta = tensor->autograd;
  leave_retainers(meta);
  kl_node_release(meta->grad_fn);
  meta->grad_fn = node;
  meta->slot = slot;
  meta->version = atomic_load_explicit(&tensor->storage->version, memory_order_relaxed);
  if (node && meta->retains_grad) {
    meta->next_retainer = node->retainers;
    node->retainers = meta;
  }
}

/* "Mul" of "MulBackward0", as PyTorch's messages call an operator. */
static int short_name(const char *name) {
  const char *end = strstr(name, "Backward");
  return end && end > name ? (int)(end - name) : (int)strlen(name);
}

/* What PyTorch says of a view that may not be changed, in three parts. */
kl_status kl_meta_check_view(const kl_autograd_meta *meta, bool indirect) {
  if (meta->view_kind <= KL_VIEW_NORMAL) return KL_OK;
  const kl_autograd_node *node = meta->grad_fn;
  const bool inference = meta->view_kind == KL_VIEW_INFERENCE;
  const bool multi = meta->view_kind == KL_VIEW_MULTI;
  const char *mode = inference ? "inference" : "no_grad";
  char output[128] = "A view was created in";
  if (node) {
    const char *name = kl_node_name(node);
    snprintf(output, sizeof output, "Output %u of %.*s is a view%s", meta->slot, short_name(name),
             name, multi ? "" : " of a view which was created in");
  }
  char made[32] = "", when[40] = "";
  if (!multi || !node) {
    snprintf(made, sizeof made, " %s mode", mode);
    snprintf(when, sizeof when, " %s", inference ? "in normal mode" : "with grad mode enabled");
  }
  char advice[320];
  if (multi)
    snprintf(advice, sizeof advice,
             "This view is the output of a function that returns multiple views. Such functions do "
             "not allow the output views to be modified inplace. You should replace the inplace "
             "operation by an out-of-place one.");
  else
    snprintf(advice, sizeof advice,
             "Given that this use case is ambiguous and error-prone, it is forbidden. You can "
             "clarify your code by moving both the view and the inplace either both inside the %s "
             "block (if you don't want the inplace to be tracked) or both outside (if you want the "
             "inplace to be tracked).",
             inference ? "inference_mode" : "no_grad");
  return kl_fail(KL_ERR_RUNTIME, "%s%s and %s modified inplace%s. %s", output, made,
                 indirect ? "its base or another view of its base has been" : "is being", when,
                 advice);
}

/* The base has been written since: the view's history is the base's, seen through the geometry. */
static kl_status renew_history(kael_tensor *view) {
  kl_autograd_meta *meta = view->autograd;
  kael_tensor *base = meta->base;
  KL_TRY(kl_meta_check_view(meta, true));
  const kl_fn_attrs attrs = {.start = view->offset};
  kl_autograd_node *node;
  KL_TRY(kl_node_create(KL_FN_AS_STRIDED, &base, 1, &view, 1, &attrs, false, &node));
  kl_meta_set_history(view, node, 0);
  return KL_OK;
}

kl_status kl_meta_history(kael_tensor *tensor, kl_autograd_node **out_node, uint32_t *out_slot) {
  kl_autograd_meta *meta = tensor->autograd;
  if (meta && meta->base &&
      meta->version != atomic_load_explicit(&tensor->storage->version, memory_order_relaxed) &&
      (meta->grad_fn || (meta->base->autograd && kl_autograd_requires_grad(meta->base))))
    KL_TRY(renew_history(tensor));
  *out_node = meta ? meta->grad_fn : NULL;
  *out_slot = meta ? meta->slot : 0;
  return KL_OK;
}

/* --- Leaves ------------------------------------------------------------------------------------
 */

static kl_status create_accumulator(kael_tensor *leaf, kl_autograd_node **out_node) {
  kl_autograd_node *node;
  int64_t *ints;
  KL_TRY(kl_node_alloc(&kl_gradient_accumulate, 0, 1, 0, 0, 0, &node, &ints));
  node->sequence = UINT64_MAX;
  node->variable = kl_tensor_hold(leaf);
  node->outputs[0] = (kl_autograd_spec){leaf->shape, leaf->ndim, leaf->dtype};
  *out_node = node;
  return KL_OK;
}

/* A reference, unless the count has reached zero already. */
static bool retain_alive(kl_autograd_node *node) {
  int refs = atomic_load_explicit(&node->refs, memory_order_relaxed);
  while (refs > 0)
    if (atomic_compare_exchange_weak_explicit(&node->refs, &refs, refs + 1, memory_order_acquire,
                                              memory_order_relaxed))
      return true;
  return false;
}

static kl_status accumulator_of(kael_tensor *leaf, kl_autograd_node **out_node) {
  kl_autograd_meta *meta = leaf->autograd;
  kl_status status = KL_OK;
  pthread_mutex_lock(&accumulators_lock);
  if (meta->accumulator && retain_alive(meta->accumulator)) {
    *out_node = meta->accumulator;
  } else {
    status = create_accumulator(leaf, out_node);
    if (!status) meta->accumulator = *out_node;
  }
  pthread_mutex_unlock(&accumulators_lock);
  return status;
}

void kl_meta_forget_accumulator(kl_autograd_node *node) {
  kl_autograd_meta *meta = node->variable->autograd;
  pthread_mutex_lock(&accumulators_lock);
  if (meta->accumulator == node) meta->accumulator = NULL;
  pthread_mutex_unlock(&accumulators_lock);
}

kl_status kl_meta_edge(kael_tensor *tensor, kl_autograd_edge *out_edge) {
  kl_autograd_node *node;
  uint32_t slot;
  KL_TRY(kl_meta_history(tensor, &node, &slot));
  if (node)
    kl_node_retain(node);
  else if (tensor->autograd && tensor->autograd->requires_grad)
    KL_TRY(accumulator_of(tensor, &node));
  *out_edge = (kl_autograd_edge){node, node ? slot : 0};
  return KL_OK;
}

void kl_autograd_describe(const kael_tensor *tensor, char *text, size_t capacity) {
  const kl_autograd_meta *meta = tensor->autograd;
  if (!meta || !kl_autograd_requires_grad(tensor))
    snprintf(text, capacity, "no grad");
  else if (meta->grad_fn)
    snprintf(text, capacity, "grad_fn=%s", kl_node_name(meta->grad_fn));
  else
    snprintf(text, capacity, "leaf, requires grad");
}
