/* What the operators report: new tensors, views, and writes in place. */
#include <string.h>

#include "frontend/autograd/meta.h"

kl_status kl_autograd_track(kl_fn fn, kael_tensor *const *inputs, int n_inputs,
                            kael_tensor *const *outputs, int n_outputs, const kl_fn_attrs *attrs) {
  if (!kl_gradient_of(fn)->apply) return KL_OK;
  if (!kl_dtype_is_float((kl_dtype)outputs[0]->dtype)) return KL_OK;
  kl_autograd_node *node;
  KL_TRY(kl_node_create(fn, inputs, n_inputs, outputs, n_outputs, attrs, false, &node));
  kl_node_save_result(node, outputs[0]);
  kl_status status = KL_OK;
  for (int i = 0; i < n_outputs; i++) {
    kl_autograd_meta *meta;
    KL_TRY_GOTO(status, kl_meta_ensure(outputs[i], &meta), done);
    kl_meta_set_history(outputs[i], kl_node_retain(node), (uint32_t)i);
  }
done:
  kl_node_release(node);
  return status;
}

/* --- Views -------------------------------------------------------------------------------------
 */

static kl_view_kind kind_of_views(int n_views, kl_fn fn, const kl_autograd_meta *base) {
  if (kl_inference_enabled()) return KL_VIEW_INFERENCE;
  if (kl_thread.grad_disabled) return KL_VIEW_NO_GRAD;
  if (n_views > 1 || fn == KL_FN_UNBIND || fn == KL_FN_SPLIT) return KL_VIEW_MULTI;
  return base && base->base ? (kl_view_kind)base->view_kind : KL_VIEW_NORMAL;
}

static kl_status make_view(kael_tensor *base, kl_view_kind kind, kael_tensor *view) {
  kl_autograd_meta *meta;
  KL_TRY(kl_meta_ensure(view, &meta));
  kael_tensor *root = base->autograd && base->autograd->base ? base->autograd->base : base;
  meta->base = kl_tensor_hold(root);
  meta->view_kind = (uint8_t)kind;
  meta->version = atomic_load_explicit(&view->storage->version, memory_order_relaxed);
  return KL_OK;
}

kl_status kl_autograd_track_view(kl_fn fn, kael_tensor *base, kael_tensor *const *views,
                                 int n_views, const kl_fn_attrs *attrs) {
  const kl_view_kind kind = kind_of_views(n_views, fn, base->autograd);
  for (int i = 0; i < n_views; i++) KL_TRY(make_view(base, kind, views[i]));
  if (n_views == 0 || !kl_autograd_wanted(&base, 1)) return KL_OK;
  return kl_autograd_track(fn, &base, 1, views, n_views, attrs);
}

/* --- In place ----------------------------------------------------------------------------------
 */

static bool any_requires_grad(kael_tensor *const *inputs, int n_inputs) {
  for (int i = 0; i < n_inputs; i++)
    if (inputs[i] && inputs[i]->autograd && kl_autograd_requires_grad(inputs[i])) return true;
  return false;
}

/* PyTorch looks at the history a view has, without renewing it: so does this. */
static kl_status check_leaf_and_view(const kael_tensor *self) {
  const kl_autograd_meta *meta = self->autograd;
  if (!meta) return KL_OK;
  const bool required = kl_autograd_requires_grad(self);
  if (meta->base) {
    KL_TRY(kl_meta_check_view(meta, false));
    const kl_autograd_meta *base = meta->base->autograd;
    if (required && (!base || !base->grad_fn))
      return kl_fail(KL_ERR_RUNTIME,
                     "a view of a leaf Variable that requires grad is being used in an in-place "
                     "operation. Do it under no_grad, or on a clone()");
  }
  if (required && !meta->grad_fn)
    return kl_fail(KL_ERR_RUNTIME,
                   "a leaf Variable that requires grad is being used in an in-place operation. Do "
                   "it under no_grad, or on a clone()");
  return KL_OK;
}

kl_status kl_autograd_inplace_begin(kl_fn fn, kael_tensor *const *inputs, int n_inputs,
                                    const kl_fn_attrs *attrs, kl_autograd_node **out_node) {
  *out_node = NULL;
  if (kl_thread.grad_disabled || !any_requires_grad(inputs, n_inputs)) return KL_OK;
  KL_TRY(check_leaf_and_view(inputs[0]));
  if (!kl_dtype_is_float((kl_dtype)inputs[0]->dtype)) return KL_OK;
  return kl_node_create(fn, inputs, n_inputs, inputs, 1, attrs, true, out_node);
}

/* The history of a base of which a view was written: CopySlices, around the operation. */
static kl_status create_copy_slices(kl_autograd_node *inner, kael_tensor *base,
                                    const kael_tensor *view, kl_autograd_node **out_node) {
  kl_autograd_node *node;
  int64_t *ints;
  KL_TRY(kl_node_alloc(&kl_gradient_copy_slices, inner->n_edges, 1, 0,
                       2u + base->ndim + 2u * view->ndim, base->ndim, &node, &ints));
  memcpy(ints, base->shape, base->ndim * sizeof *ints);
  node->outputs[0] = (kl_autograd_spec){ints, base->ndim, base->dtype};
  int64_t *extra = node->extra;
  *extra++ = base->offset;
  memcpy(extra, base->strides, base->ndim * sizeof *extra);
  extra += base->ndim;
  *extra++ = view->offset;
  memcpy(extra, view->shape, view->ndim * sizeof *extra);
  memcpy(extra + view->ndim, view->strides, view->ndim * sizeof *extra);
  kl_status status = kl_meta_edge(base, &node->edges[0]);
  if (status) {
    kl_node_release(node);
    return status;
  }
  for (uint32_t i = 1; i < inner->n_edges; i++) {
    node->edges[i] = inner->edges[i];
    if (node->edges[i].node) kl_node_retain(node->edges[i].node);
  }
  node->fn = inner->fn;
  node->inner = kl_node_retain(inner);
  inner->outer = node;
  *out_node = node;
  return KL_OK;
}

static kl_status rebase_view(kl_autograd_node *inner, kael_tensor *self) {
  kael_tensor *base = self->autograd->base;
  kl_autograd_meta *meta;
  KL_TRY(kl_meta_ensure(base, &meta));
  kl_autograd_node *node;
  KL_TRY(create_copy_slices(inner, base, self, &node));
  kl_meta_set_history(base, node, 0);
  uint32_t slot;
  return kl_meta_history(self, &node, &slot);
}

kl_status kl_autograd_inplace_end(kl_autograd_node *node, kael_tensor *self) {
  if (!node) return KL_OK;
  kl_node_save_result(node, self);
  if (self->autograd && self->autograd->base) {
    kl_status status = rebase_view(node, self);
    kl_node_release(node);
    return status;
  }
  kl_autograd_meta *meta;
  kl_status status = kl_meta_ensure(self, &meta);
  if (status)
    kl_node_release(node);
  else
    kl_meta_set_history(self, node, 0);
  return status;
}

void kl_autograd_inplace_cancel(kl_autograd_node *node) { kl_node_release(node); }
