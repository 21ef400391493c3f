/* Makes and frees nodes. `extra` holds, by operator:
 *   permute     the dims
 *   cat         each tensor's size along the dim
 *   as_strided  the input's offset and strides, then the output's strides
 *   CopySlices  the base's offset and strides, then the view's offset, shape and strides */
#include <string.h>

#include "frontend/autograd/hook.h"
#include "frontend/record.h"
#include "ir/support/slab.h"

static atomic_uint_fast64_t next_sequence = 1;

/* --- Rows and names ----------------------------------------------------------------------------
 */

#define KL_GRADIENT(name, text, save0, save1, save2, result)                                       \
  kl_status kl_backward_##name(struct kl_grad_call *call);                                         \
  static const kl_gradient gradient_##name = {                                                     \
      text, kl_backward_##name, {save0, save1, save2}, result};
#include "frontend/autograd/gradients.def"
#undef KL_GRADIENT
/* Composed of tracked operators: no node of its own. */
static const kl_gradient gradient_cross_entropy = {"CrossEntropyBackward0", NULL, {0}, false};
static const kl_gradient gradient_NONE = {"NoneBackward0", NULL, {0}, false};

static const kl_gradient *const gradients[KL_FN_COUNT] = {
#define KL_FN(NAME, name, form, op, rule, args, inplace, grad, doc)                                \
  [KL_FN_##NAME] = &gradient_##grad,
#include "frontend/ops.def"
#undef KL_FN
};

const kl_gradient *kl_gradient_of(kl_fn fn) { return gradients[fn]; }

static const char *matmul_name(const kl_autograd_node *node) {
  const int ndim = node->outputs[0].ndim;
  return ndim == 0 ? "DotBackward0" : ndim == 2 ? "MmBackward0" : node->gradient->name;
}

const char *kl_node_name(const kl_autograd_node *node) {
  if (node->variable || node->inner) return node->gradient->name;
  switch ((kl_fn)node->fn) {
    case KL_FN_ZERO:
      return "ZeroBackward0";
    case KL_FN_UNSQUEEZE:
      return "UnsqueezeBackward0";
    case KL_FN_SUM:
      return node->outputs[0].ndim ? "SumBackward1" : node->gradient->name;
    case KL_FN_MEAN:
      return node->outputs[0].ndim ? "MeanBackward1" : node->gradient->name;
    case KL_FN_MATMUL:
      return matmul_name(node);
    default:
      return node->gradient->name;
  }
}

/* --- Making ------------------------------------------------------------------------------------
 */

kl_status kl_node_alloc(const kl_gradient *gradient, uint32_t n_edges, uint32_t n_outputs,
                        uint32_t n_saved, uint32_t n_extra, uint32_t n_ints,
                        kl_autograd_node **out_node, int64_t **out_ints) {
  const size_t nbytes = sizeof(kl_autograd_node) + n_edges * sizeof(kl_autograd_edge) +
                        n_outputs * sizeof(kl_autograd_spec) + n_saved * sizeof(kl_saved_tensor) +
                        ((size_t)n_extra + n_ints) * sizeof(int64_t);
  kl_autograd_node *node = nbytes <= UINT32_MAX ? kl_slab_alloc(nbytes) : NULL;
  if (!node) return kl_fail_memory("a node of the backward graph", nbytes);
  memset(node, 0, nbytes);
  atomic_store_explicit(&node->refs, 1, memory_order_relaxed);
  node->gradient = gradient;
  node->sequence = atomic_fetch_add_explicit(&next_sequence, 1, memory_order_relaxed);
  node->block_nbytes = (uint32_t)nbytes;
  node->n_edges = n_edges;
  node->n_outputs = n_outputs;
  node->n_saved = n_saved;
  node->n_extra = n_extra;
  node->edges = (kl_autograd_edge *)(node + 1);
  node->saved = (kl_saved_tensor *)(node->edges + n_edges);
  node->outputs = (kl_autograd_spec *)(node->saved + n_saved);
  node->extra = (int64_t *)(node->outputs + n_outputs);
  *out_ints = node->extra + n_extra;
  *out_node = node;
  return KL_OK;
}

static bool requires_grad(const kael_tensor *tensor) {
  return tensor && tensor->autograd && kl_autograd_requires_grad(tensor);
}

/* Bit i: input i is to be saved; KL_SAVED_RESULT: the result. */
static unsigned saved_sources(const kl_gradient *gradient, kael_tensor *const *inputs,
                              int n_inputs) {
  unsigned required = 0, sources = gradient->save_result ? 1u << KL_SAVED_RESULT : 0;
  const int n = n_inputs < 3 ? n_inputs : 3;
  for (int i = 0; i < n; i++)
    if (requires_grad(inputs[i])) required |= 1u << i;
  for (int i = 0; i < n; i++)
    if (inputs[i] && (gradient->save[i] & required)) sources |= 1u << i;
  return sources;
}

static uint32_t count_extra(kl_fn fn, kael_tensor *const *inputs, int n_inputs,
                            kael_tensor *const *outputs) {
  switch (fn) {
    case KL_FN_PERMUTE:
      return inputs[0]->ndim;
    case KL_FN_CAT:
      return (uint32_t)n_inputs;
    case KL_FN_AS_STRIDED:
      return 1u + inputs[0]->ndim + outputs[0]->ndim;
    default:
      return 0;
  }
}

static void fill_extra(kl_autograd_node *node, kael_tensor *const *inputs, int n_inputs,
                       kael_tensor *const *outputs, const kl_fn_attrs *attrs) {
  int64_t *extra = node->extra;
  const kael_tensor *in = inputs[0];
  switch ((kl_fn)node->fn) {
    case KL_FN_PERMUTE:
      memcpy(extra, attrs->dims, in->ndim * sizeof *extra);
      break;
    case KL_FN_CAT:
      for (int i = 0; i < n_inputs; i++)
        extra[i] = inputs[i]->ndim > attrs->dim ? inputs[i]->shape[attrs->dim] : 0;
      break;
    case KL_FN_AS_STRIDED:
      extra[0] = in->offset;
      memcpy(extra + 1, in->strides, in->ndim * sizeof *extra);
      memcpy(extra + 1 + in->ndim, outputs[0]->strides, outputs[0]->ndim * sizeof *extra);
      break;
    default:
      break;
  }
}

static void fill_args(kl_node_args *args, const kl_fn_attrs *attrs) {
  *args = (kl_node_args){.dim = attrs->dim,
                         .dim1 = attrs->dim1,
                         .reduction = attrs->reduction,
                         .mask = attrs->mask,
                         .start = attrs->start,
                         .end = attrs->end,
                         .step = attrs->step,
                         .keepdim = attrs->keepdim,
                         .other_is_number = attrs->other_is_number,
                         .number = attrs->number,
                         .number2 = attrs->number2};
}

/* In place, self's contents are saved as a copy: its storage is about to be written. */
static kl_status save_input(kl_saved_tensor *saved, kael_tensor *input, bool copy) {
  if (!copy) {
    kl_saved_pack(saved, input);
    return KL_OK;
  }
  kael_tensor *old;
  KL_TRY(kl_record_copy(input, KL_LAYOUT_KEEP, &old));
  kl_saved_pack(saved, old);
  kl_tensor_release(old);
  return KL_OK;
}

static kl_status save_sources(kl_autograd_node *node, unsigned sources, kael_tensor *const *inputs,
                              kael_tensor *result, bool inplace, int64_t **ints) {
  kl_saved_tensor *saved = node->saved;
  for (int source = 0; source <= KL_SAVED_RESULT; source++) {
    if (!(sources >> source & 1)) continue;
    const bool is_result = source == KL_SAVED_RESULT;
    const uint8_t ndim = is_result ? result->ndim : inputs[source]->ndim;
    saved->source = (uint8_t)source;
    saved->shape = *ints;
    saved->strides = *ints + ndim;
    *ints += 2 * ndim;
    if (!is_result) KL_TRY(save_input(saved, inputs[source], inplace && source == 0));
    saved++;
  }
  return KL_OK;
}

static uint32_t count_ints(unsigned sources, kael_tensor *const *inputs,
                           kael_tensor *const *outputs, int n_outputs) {
  uint32_t n_ints = 0;
  for (int i = 0; i < n_outputs; i++) n_ints += outputs[i]->ndim;
  for (int source = 0; source < KL_SAVED_RESULT; source++)
    if (sources >> source & 1) n_ints += 2u * inputs[source]->ndim;
  if (sources >> KL_SAVED_RESULT & 1) n_ints += 2u * outputs[0]->ndim;
  return n_ints;
}

kl_status kl_node_create(kl_fn fn, kael_tensor *const *inputs, int n_inputs,
                         kael_tensor *const *outputs, int n_outputs, const kl_fn_attrs *attrs,
                         bool inplace, kl_autograd_node **out_node) {
  static const kl_fn_attrs no_attrs;
  if (!attrs) attrs = &no_attrs;
  const kl_gradient *gradient = gradients[fn];
  if (!gradient->apply)
    return kl_fail(KL_ERR_NOT_IMPLEMENTED, "%s has no gradient of its own", kl_fn_table[fn].name);
  const unsigned sources = saved_sources(gradient, inputs, n_inputs);
  kl_autograd_node *node;
  int64_t *ints;
  KL_TRY(kl_node_alloc(gradient, (uint32_t)n_inputs, (uint32_t)n_outputs,
                       (uint32_t)__builtin_popcount(sources),
                       count_extra(fn, inputs, n_inputs, outputs),
                       count_ints(sources, inputs, outputs, n_outputs), &node, &ints));
  node->fn = (uint16_t)fn;
  fill_args(&node->args, attrs);
  fill_extra(node, inputs, n_inputs, outputs, attrs);
  for (int i = 0; i < n_outputs; i++) {
    memcpy(ints, outputs[i]->shape, outputs[i]->ndim * sizeof *ints);
    node->outputs[i] = (kl_autograd_spec){ints, outputs[i]->ndim, outputs[i]->dtype};
    ints += outputs[i]->ndim;
  }
  kl_status status = KL_OK;
  for (int i = 0; i < n_inputs; i++)
    if (inputs[i] && inputs[i]->autograd)
      KL_TRY_GOTO(status, kl_meta_edge(inputs[i], &node->edges[i]), failed);
  KL_TRY_GOTO(status, save_sources(node, sources, inputs, outputs[0], inplace, &ints), failed);
  *out_node = node;
  return KL_OK;
failed:
  kl_node_release(node);
  return status;
}

/* --- Freeing -----------------------------------------------------------------------------------
 */

static _Thread_local kl_autograd_node *dying;
static _Thread_local bool burying;

static void free_node(kl_autograd_node *node) {
  kl_node_free_saved(node);
  for (uint32_t i = 0; i < node->n_edges; i++) kl_node_release(node->edges[i].node);
  kl_node_release(node->inner);
  kl_hooks_free(node->hooks);
  kl_tensor_drop(node->variable);
  kl_slab_free(node, node->block_nbytes);
}

/* Whatever dies because a node does comes back here and is put on the list, so that the depth is
 * bounded however long the history is. */
void kl_node_release(kl_autograd_node *node) {
  if (!node || atomic_fetch_sub_explicit(&node->refs, 1, memory_order_acq_rel) != 1) return;
  if (node->variable) kl_meta_forget_accumulator(node);
  node->next = dying;
  dying = node;
  if (burying) return;
  burying = true;
  while (dying) {
    kl_autograd_node *first = dying;
    dying = first->next;
    free_node(first);
  }
  burying = false;
}
