/* Where gradients end: in leaves, and in tensors with retain_grad. */
#include <pthread.h>

#include "frontend/autograd/engine.h"
#include "frontend/autograd/grad.h"
#include "ir/support/fork.h"

const kl_gradient kl_gradient_accumulate = {.name = "AccumulateGrad"};

/* The dims of a dense tensor from the largest stride to the smallest. */
static void order_in_memory(const kael_tensor *tensor, int64_t *order) {
  for (int d = 0; d < tensor->ndim; d++) {
    int i = d;
    for (; i > 0 && tensor->strides[order[i - 1]] < tensor->strides[d]; i--)
      order[i] = order[i - 1];
    order[i] = d;
  }
}

/* The gradient of a dense leaf has its strides, of any other it is contiguous. */
static bool has_layout_of(const kael_tensor *grad, const kael_tensor *leaf) {
  if (!kl_tensor_is_dense(leaf)) return kl_tensor_is_contiguous(grad);
  if (kl_tensor_is_contiguous(leaf)) return kl_tensor_is_contiguous(grad);
  for (int d = 0; d < leaf->ndim; d++)
    if (leaf->shape[d] > 1 && grad->strides[d] != leaf->strides[d]) return false;
  return true;
}

static kl_status clone_like(kael_tensor *grad, const kael_tensor *leaf, kael_tensor **out) {
  if (kl_tensor_is_contiguous(leaf) || !kl_tensor_is_dense(leaf)) return kl_clone(grad, out);
  int64_t order[KL_MAX_RANK], back[KL_MAX_RANK];
  order_in_memory(leaf, order);
  for (int d = 0; d < leaf->ndim; d++) back[order[d]] = d;
  kael_tensor *ordered, *copy;
  KL_TRY(kl_permute(grad, grad->ndim, order, &ordered));
  kl_status status = kl_clone(ordered, &copy);
  kl_tensor_release(ordered);
  KL_TRY(status);
  status = kl_permute(copy, copy->ndim, back, out);
  kl_tensor_release(copy);
  return status;
}

/* Nobody else has the tensor or its storage, and its elements lie as the leaf's would. */
static bool may_be_taken(const kael_tensor *grad, const kael_tensor *leaf) {
  return atomic_load_explicit(&grad->refs, memory_order_relaxed) == 1 &&
         atomic_load_explicit(&grad->storage->refs, memory_order_relaxed) == 1 &&
         !grad->storage->flags && !grad->autograd && kl_tensor_covers_storage(grad) &&
         has_layout_of(grad, leaf);
}

/* A view that only the pass knows is as good as a tensor of its own, once its base is let go. */
static kl_status forget_base(kael_tensor **grad) {
  if (!(*grad)->autograd || atomic_load(&(*grad)->refs) != 1) return KL_OK;
  kael_tensor *alias;
  KL_TRY(kl_tensor_alias(*grad, &alias));
  kl_tensor_release(*grad);
  *grad = alias;
  return KL_OK;
}

/* Passes of several threads may share a leaf. */
static pthread_mutex_t accumulate_mutex = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool accumulating;

static bool is_accumulating(void) { return accumulating; }

__attribute__((constructor)) static void keep_lock(void) {
  kl_fork_keep(KL_LOCK_ACCUMULATE, &accumulate_mutex, is_accumulating);
}

static kl_status accumulate(kael_tensor *leaf, kael_tensor **grad) {
  kl_autograd_meta *meta = leaf->autograd;
  kael_tensor *sum;
  if (kl_thread.grad_disabled) KL_TRY(forget_base(grad));
  if (meta->grad && kl_thread.grad_disabled) return kl_add_(meta->grad, *grad);
  if (meta->grad) {
    KL_TRY(kl_add(meta->grad, *grad, &sum));
  } else if (kl_thread.grad_disabled && may_be_taken(*grad, leaf)) {
    sum = *grad;
    *grad = NULL;
  } else {
    KL_TRY(clone_like(*grad, leaf, &sum));
  }
  kl_tensor_release(meta->grad);
  meta->grad = sum;
  return KL_OK;
}

/* The owner of external memory that is given back on the way may call us again. */
kl_status kl_accumulate(kael_tensor *leaf, kael_tensor **grad) {
  if (!kl_autograd_requires_grad(leaf)) return KL_OK; /* it was a leaf once, when it was used */
  if (accumulating) return accumulate(leaf, grad);
  pthread_mutex_lock(&accumulate_mutex);
  accumulating = true;
  kl_status status = accumulate(leaf, grad);
  accumulating = false;
  pthread_mutex_unlock(&accumulate_mutex);
  return status;
}

kl_status kl_retain_grads(const kl_autograd_node *node, uint32_t slot, kael_tensor *grad) {
  for (kl_autograd_meta *meta = node->retainers; meta; meta = meta->next_retainer) {
    if (meta->slot != slot) continue;
    kael_tensor *kept;
    KL_TRY(meta->grad ? kl_add(meta->grad, grad, &kept) : kl_clone(grad, &kept));
    kl_tensor_release(meta->grad);
    meta->grad = kept;
  }
  return KL_OK;
}
