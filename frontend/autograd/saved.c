/* Saved tensors: put away at the call, taken out by the backward pass with a check of the version.
 *
 * A saved tensor holds the storage, not the impl: a tensor that is moved or forgotten meanwhile
 * changes nothing, and the result of an operator does not keep its own node alive. */
#include <stdio.h>
#include <string.h>

#include "frontend/autograd/meta.h"

void kl_saved_pack(kl_saved_tensor *saved, const kael_tensor *tensor) {
  saved->storage = kl_storage_retain(tensor->storage);
  saved->version = atomic_load_explicit(&tensor->storage->version, memory_order_relaxed);
  saved->offset = tensor->offset;
  saved->ndim = tensor->ndim;
  saved->dtype = tensor->dtype;
  memcpy(saved->shape, tensor->shape, tensor->ndim * sizeof(int64_t));
  memcpy(saved->strides, tensor->strides, tensor->ndim * sizeof(int64_t));
}

void kl_node_save_result(kl_autograd_node *node, const kael_tensor *result) {
  if (node->gradient->save_result) kl_saved_pack(&node->saved[node->n_saved - 1], result);
}

static kl_status check_version(const kl_autograd_node *node, const kl_saved_tensor *saved) {
  const uint64_t version = atomic_load_explicit(&saved->storage->version, memory_order_relaxed);
  if (version == saved->version) return KL_OK;
  char what[48] = "its result";
  if (saved->source != KL_SAVED_RESULT) snprintf(what, sizeof what, "operand %d", saved->source);
  return kl_fail(KL_ERR_RUNTIME,
                 "one of the variables needed for gradient computation has been modified by an "
                 "inplace operation: the %s tensor of shape %s, which %s (%s) saved as %s, is at "
                 "version %llu; expected version %llu instead. Use the operation that is not in "
                 "place, or change a clone()",
                 kl_dtype_torch_name((kl_dtype)saved->dtype),
                 kl_shape_text(saved->ndim, saved->shape), kl_fn_table[node->fn].name,
                 kl_node_name(node), what, (unsigned long long)version,
                 (unsigned long long)saved->version);
}

/* The history of a result that was changed in place through a view: the base's, seen through it. */
static kl_status edge_of_view_result(const kl_autograd_node *node, const kl_saved_tensor *saved,
                                     kl_autograd_edge *out_edge) {
  kl_autograd_node *outer = node->outer, *strided;
  const uint32_t base_ndim = outer->outputs[0].ndim;
  int64_t *ints;
  KL_TRY(kl_node_alloc(kl_gradient_of(KL_FN_AS_STRIDED), 1, 1, 0, 1 + base_ndim + saved->ndim,
                       saved->ndim, &strided, &ints));
  strided->fn = KL_FN_AS_STRIDED;
  strided->edges[0] = (kl_autograd_edge){kl_node_retain(outer), 0};
  strided->args.start = saved->offset;
  memcpy(strided->extra, outer->extra, (1 + base_ndim) * sizeof(int64_t));
  memcpy(strided->extra + 1 + base_ndim, saved->strides, saved->ndim * sizeof(int64_t));
  memcpy(ints, saved->shape, saved->ndim * sizeof(int64_t));
  strided->outputs[0] = (kl_autograd_spec){ints, saved->ndim, saved->dtype};
  *out_edge = (kl_autograd_edge){strided, 0};
  return KL_OK;
}

static kl_status give_history(const kl_autograd_node *node, const kl_saved_tensor *saved,
                              kael_tensor *tensor) {
  kl_autograd_edge edge = {0};
  if (saved->source != KL_SAVED_RESULT)
    edge = node->edges[saved->source];
  else if (!node->outer)
    edge.node = (kl_autograd_node *)node;
  if (edge.node)
    kl_node_retain(edge.node);
  else if (saved->source == KL_SAVED_RESULT)
    KL_TRY(edge_of_view_result(node, saved, &edge));
  else
    return KL_OK;
  kl_autograd_meta *meta;
  kl_status status = kl_meta_ensure(tensor, &meta);
  if (status)
    kl_node_release(edge.node);
  else
    kl_meta_set_history(tensor, edge.node, edge.slot);
  return status;
}

static kl_status fail_freed(const kl_autograd_node *node) {
  return kl_fail(KL_ERR_RUNTIME,
                 "%s: Trying to backward through the graph a second time (or directly access "
                 "saved tensors after they have already been freed). Saved intermediate values "
                 "of the graph are freed when you call backward or grad. Specify "
                 "retain_graph=True if you need to backward through the graph a second time",
                 kl_node_name(node));
}

kl_status kl_node_check_saved(const kl_autograd_node *node) {
  /* PyTorch saves a number as a tensor, where it would save the second operand. */
  if (node->released && node->args.other_is_number && node->gradient->save[0])
    return fail_freed(node);
  for (uint32_t i = 0; i < node->n_saved; i++) {
    if (!node->saved[i].storage) return fail_freed(node);
    KL_TRY(check_version(node, &node->saved[i]));
  }
  return KL_OK;
}

kl_status kl_node_unpack(const kl_autograd_node *node, int source, kael_tensor **out_tensor) {
  const kl_saved_tensor *saved = node->saved;
  const kl_saved_tensor *end = saved + node->n_saved;
  while (saved < end && saved->source != source) saved++;
  if (saved == end)
    return kl_fail(KL_ERR_INTERNAL, "%s did not save operand %d", kl_node_name(node), source);
  kael_tensor *tensor;
  KL_TRY(kl_tensor_create(kl_storage_retain(saved->storage), (kl_dtype)saved->dtype, saved->ndim,
                          saved->shape, saved->strides, saved->offset, &tensor));
  if (!kl_thread.grad_disabled) {
    kl_status status = give_history(node, saved, tensor);
    if (status) {
      kl_tensor_release(tensor);
      return status;
    }
  }
  *out_tensor = tensor;
  return KL_OK;
}

void kl_node_free_saved(kl_autograd_node *node) {
  for (uint32_t i = 0; i < node->n_saved; i++) {
    kl_storage_release(node->saved[i].storage);
    node->saved[i].storage = NULL;
  }
}
