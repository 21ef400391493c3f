/* The public functions of kael/autograd.h. */
#include "frontend/autograd/engine.h"
#include "frontend/autograd/hook.h"
#include "frontend/ops.h"
#include "ir/support/memory.h"

/* --- Modes -------------------------------------------------------------------------------------
 */

static _Thread_local bool inference;

bool kl_inference_enabled(void) { return inference; }

bool kael_set_grad_enabled(bool enabled) {
  const bool former = !kl_thread.grad_disabled;
  kl_thread.grad_disabled = !enabled;
  return former;
}

bool kael_is_grad_enabled(void) { return !kl_thread.grad_disabled; }

/* Leaving it turns gradient mode on again only where entering turned it off. */
bool kael_set_inference_mode(bool enabled) {
  static _Thread_local bool was_disabled;
  const bool former = inference;
  if (enabled && !former) was_disabled = kl_thread.grad_disabled;
  if (enabled) kl_thread.grad_disabled = true;
  if (!enabled && former) kl_thread.grad_disabled = was_disabled;
  inference = enabled;
  return former;
}

bool kael_is_inference_mode(void) { return inference; }

/* --- Tensors -----------------------------------------------------------------------------------
 */

static bool is_missing(const kael_tensor *tensor) { return kl_operand_missing(&tensor, 1); }

static kl_status missing_status(void) {
  const kl_status status = kl_error_code();
  return status ? status : KL_ERR_RUNTIME;
}

bool kael_requires_grad(const kael_tensor *self) {
  return self && self != KAEL_NONE && self->autograd && kl_autograd_requires_grad(self);
}

static kl_status set_requires_grad(kael_tensor *self, bool required) {
  if (required && !kl_dtype_is_float((kl_dtype)self->dtype))
    return kl_fail(KL_ERR_RUNTIME,
                   "only Tensors of floating point dtype can require gradients; this one is %s",
                   kl_dtype_torch_name((kl_dtype)self->dtype));
  kl_autograd_node *node;
  uint32_t slot;
  KL_TRY(kl_meta_history(self, &node, &slot));
  if (node && !required)
    return kl_fail(
        KL_ERR_RUNTIME,
        "you can only change requires_grad flags of leaf variables. If you want to use a "
        "computed variable in a subgraph that doesn't require differentiation use "
        "var_no_grad = var.detach().");
  if (node || (!required && !self->autograd)) return KL_OK;
  kl_autograd_meta *meta;
  KL_TRY(kl_meta_ensure(self, &meta));
  meta->requires_grad = required;
  return KL_OK;
}

kael_status kael_requires_grad_(kael_tensor *self, bool requires_grad) {
  if (is_missing(self)) return (kael_status)missing_status();
  return (kael_status)set_requires_grad(self, requires_grad);
}

bool kael_is_leaf(kael_tensor *self) {
  if (is_missing(self)) return false;
  kl_autograd_node *node;
  uint32_t slot;
  return kl_meta_history(self, &node, &slot) == KL_OK && !node;
}

const char *kael_grad_fn_name(kael_tensor *self) {
  kl_autograd_node *node;
  uint32_t slot;
  if (is_missing(self) || kl_meta_history(self, &node, &slot) != KL_OK) return NULL;
  return node ? kl_node_name(node) : NULL;
}

static kl_status detach_in_place(kael_tensor *self) {
  kl_autograd_meta *meta = self->autograd;
  if (!meta) return KL_OK;
  if (meta->base)
    return kl_fail(KL_ERR_RUNTIME, "Can't detach views in-place. Use detach() instead");
  kl_meta_set_history(self, NULL, 0);
  meta->requires_grad = false;
  return KL_OK;
}

kael_status kael_detach_(kael_tensor *self) {
  if (is_missing(self)) return (kael_status)missing_status();
  return (kael_status)detach_in_place(self);
}

/* --- Gradients ---------------------------------------------------------------------------------
 */

kael_tensor *kael_grad(kael_tensor *self) {
  if (is_missing(self) || !self->autograd || !self->autograd->grad) return NULL;
  return kl_hand_out(KL_OK, kl_tensor_retain(self->autograd->grad));
}

static kl_status check_grad(const kael_tensor *self, const kael_tensor *grad) {
  if (!kl_tensor_same_shape(self, grad))
    return kl_fail(KL_ERR_RUNTIME,
                   "attempting to assign a gradient of size '%s' to a tensor of size '%s'. Please "
                   "ensure that the gradient and the tensor are the same size",
                   kl_shape_text(grad->ndim, grad->shape), kl_shape_text(self->ndim, self->shape));
  if (grad->dtype != self->dtype || grad->device != self->device)
    return kl_fail(
        KL_ERR_RUNTIME, "attempting to assign a gradient with dtype %s to a tensor with dtype %s",
        kl_dtype_torch_name((kl_dtype)grad->dtype), kl_dtype_torch_name((kl_dtype)self->dtype));
  return grad == self ? kl_fail(KL_ERR_RUNTIME, "can't assign a tensor as its own gradient")
                      : KL_OK;
}

static kl_status set_grad(kael_tensor *self, kael_tensor *grad) {
  if (grad) KL_TRY(check_grad(self, grad));
  if (!grad && !self->autograd) return KL_OK;
  kl_autograd_meta *meta;
  KL_TRY(kl_meta_ensure(self, &meta));
  kael_tensor *former = meta->grad;
  meta->grad = grad ? kl_tensor_retain(grad) : NULL;
  kl_tensor_release(former);
  return KL_OK;
}

kael_status kael_set_grad(kael_tensor *self, kael_tensor *grad) {
  if (is_missing(self) || (!grad && is_missing(grad))) return (kael_status)missing_status();
  return (kael_status)set_grad(self, grad == KAEL_NONE ? NULL : grad);
}

static kl_status retain_grad(kael_tensor *self) {
  if (!kael_requires_grad(self))
    return kl_fail(KL_ERR_RUNTIME, "can't retain_grad on Tensor that has requires_grad=False");
  kl_autograd_node *node;
  uint32_t slot;
  KL_TRY(kl_meta_history(self, &node, &slot));
  kl_autograd_meta *meta = self->autograd;
  if (!node || meta->retains_grad) return KL_OK;
  meta->retains_grad = true;
  meta->next_retainer = node->retainers;
  node->retainers = meta;
  return KL_OK;
}

kael_status kael_retain_grad(kael_tensor *self) {
  if (is_missing(self)) return (kael_status)missing_status();
  return (kael_status)retain_grad(self);
}

bool kael_retains_grad(const kael_tensor *self) {
  return self && self != KAEL_NONE && self->autograd && self->autograd->retains_grad;
}

/* --- Backward ----------------------------------------------------------------------------------
 */

/* The edges and seeds that a pass starts from, and what it catches; all owned. */
typedef struct request {
  kl_autograd_edge *roots, *inputs;
  kael_tensor **seeds, **caught;
  size_t n_roots, n_inputs;
} request;

static void free_request(request *r) {
  for (size_t i = 0; r->roots && i < r->n_roots; i++) kl_node_release(r->roots[i].node);
  for (size_t i = 0; r->seeds && i < r->n_roots; i++) kl_tensor_release(r->seeds[i]);
  for (size_t i = 0; r->inputs && i < r->n_inputs; i++) kl_node_release(r->inputs[i].node);
  kl_free(r->roots);
  kl_free(r->seeds);
  kl_free(r->inputs);
  kl_free(r->caught);
}

static kl_status alloc_request(request *r, size_t n_roots, size_t n_inputs) {
  *r = (request){.n_roots = n_roots, .n_inputs = n_inputs};
  r->roots = kl_calloc(n_roots, sizeof *r->roots);
  r->seeds = kl_calloc(n_roots, sizeof *r->seeds);
  if (n_inputs) {
    r->inputs = kl_calloc(n_inputs, sizeof *r->inputs);
    r->caught = kl_calloc(n_inputs, sizeof *r->caught);
  }
  if (r->roots && r->seeds && (!n_inputs || (r->inputs && r->caught))) return KL_OK;
  free_request(r);
  return kl_fail_memory("a backward pass", (n_roots + n_inputs) * sizeof *r->roots);
}

static kl_status make_seed(const kael_tensor *root, kael_tensor *grad, size_t i,
                           kael_tensor **out_seed) {
  if (grad && grad != KAEL_NONE) {
    if (!kl_tensor_same_shape(grad, root))
      return kl_fail(KL_ERR_RUNTIME,
                     "Mismatch in shape: grad_output[%zu] has a shape of %s and output[%zu] has a "
                     "shape of %s.",
                     i, kl_shape_text(grad->ndim, grad->shape), i,
                     kl_shape_text(root->ndim, root->shape));
    *out_seed = kl_tensor_retain(grad);
    return KL_OK;
  }
  if (root->numel != 1)
    return kl_fail(KL_ERR_RUNTIME,
                   "grad can be implicitly created only for scalar outputs; this one has shape %s",
                   kl_shape_text(root->ndim, root->shape));
  return kl_full_like(root, kael_f(1), out_seed);
}

static kl_status fill_roots(request *r, kael_tensor *const *tensors, kael_tensor *const *grads) {
  for (size_t i = 0; i < r->n_roots; i++) {
    if (is_missing(tensors[i]) || (grads && !grads[i] && is_missing(NULL))) return missing_status();
    if (!kael_requires_grad(tensors[i]))
      return kl_fail(KL_ERR_RUNTIME,
                     "element %zu of tensors does not require grad and does not have a grad_fn", i);
    KL_TRY(kl_meta_edge(tensors[i], &r->roots[i]));
    if (!r->roots[i].node)
      return kl_fail(KL_ERR_RUNTIME, "element %zu of tensors is a view without a history", i);
    KL_TRY(make_seed(tensors[i], grads ? grads[i] : NULL, i, &r->seeds[i]));
  }
  return KL_OK;
}

static kl_status fill_inputs(request *r, kael_tensor *const *inputs) {
  for (size_t i = 0; i < r->n_inputs; i++) {
    if (is_missing(inputs[i])) return missing_status();
    if (!kael_requires_grad(inputs[i]))
      return kl_fail(KL_ERR_RUNTIME, "One of the differentiated Tensors does not require grad");
    KL_TRY(kl_meta_edge(inputs[i], &r->inputs[i]));
  }
  return KL_OK;
}

static kl_status check_used(const request *r) {
  for (size_t i = 0; i < r->n_inputs; i++)
    if (!r->caught[i])
      return kl_fail(KL_ERR_RUNTIME,
                     "The differentiated Tensor at index %zu appears to not have been used in the "
                     "graph. Set allow_unused=True if this is the desired behavior.",
                     i);
  return KL_OK;
}

static kl_status run_pass(kael_tensor *const *tensors, kael_tensor *const *grads, size_t n_tensors,
                          kael_tensor *const *inputs, size_t n_inputs,
                          const kael_grad_options *options, kael_tensor **out_grads) {
  request r;
  if (!tensors || (n_inputs && (!inputs || !out_grads)))
    return kl_fail(KL_ERR_VALUE, "backward: a list of tensors is NULL");
  KL_TRY(alloc_request(&r, n_tensors, n_inputs));
  kl_status status = fill_roots(&r, tensors, grads);
  if (!status) status = fill_inputs(&r, inputs);
  const kl_backward_run run = {.roots = r.roots,
                               .seeds = r.seeds,
                               .n_roots = (uint32_t)n_tensors,
                               .inputs = r.inputs,
                               .caught = r.caught,
                               .n_inputs = (uint32_t)n_inputs,
                               .retain_graph = options->retain_graph || options->create_graph,
                               .create_graph = options->create_graph};
  if (!status) status = kl_engine_run(&run);
  if (!status && !options->allow_unused) status = check_used(&r);
  for (size_t i = 0; i < n_inputs; i++) {
    if (status)
      kl_tensor_release(r.caught[i]);
    else
      out_grads[i] = r.caught[i] ? kl_hand_out(KL_OK, r.caught[i]) : NULL;
  }
  free_request(&r);
  return status;
}

kael_status kael_backward_all(kael_tensor *const *tensors, kael_tensor *const *grads,
                              size_t n_tensors, bool retain_graph, bool create_graph) {
  if (n_tensors == 0) return KAEL_OK;
  const kael_grad_options options = {sizeof options, retain_graph, create_graph, true};
  return (kael_status)run_pass(tensors, grads, n_tensors, NULL, 0, &options, NULL);
}

kael_status kael_backward(kael_tensor *self, kael_tensor *grad, bool retain_graph,
                          bool create_graph) {
  return kael_backward_all(&self, &grad, 1, retain_graph, create_graph);
}

kael_status kael_autograd_grad(kael_tensor *const *outputs, kael_tensor *const *grads,
                               size_t n_outputs, kael_tensor *const *inputs, size_t n_inputs,
                               const kael_grad_options *options, kael_tensor **out_grads) {
  const kael_grad_options none = {sizeof none, false, false, false};
  if (options && options->size < sizeof *options)
    return (kael_status)kl_fail(KL_ERR_VALUE, "kael_autograd_grad: options.size is not set");
  if (n_outputs == 0 || n_inputs == 0)
    return (kael_status)kl_fail(KL_ERR_VALUE, "grad requires non-empty outputs and inputs");
  return (kael_status)run_pass(outputs, grads, n_outputs, inputs, n_inputs,
                               options ? options : &none, out_grads);
}
