/* fold: exact algebra on single nodes.
 *
 * Requires: a verified graph. Ensures: no CAST to the dtype it comes from, no NEG of NEG, no NOT of
 * NOT, no BITCAST of BITCAST, no write of no places; each such node has become a COPY of the value it equals, which the
 * views pass then reads through. Only identities that hold for every bit pattern are used: nothing
 * that could change a NaN, an infinity or the sign of zero, and nothing that looks at a scalar.
 */
#include "passes/pipeline.h"

#include <string.h>

/* The node that operand 0 reads whole, in order; -1 if it reads otherwise. */
static int32_t read_whole(const kl_graph *graph, const kl_node *node) {
  const kl_operand *operand = &node->operands[0];
  if (operand->node < 0 || operand->offset != 0 || operand->offset_slot != KL_NO_SLOT) return -1;
  int64_t stride = 1;
  for (int d = node->n_dims - 1; d >= 0; d--) {
    if (node->dims[d] != 1 && operand->strides[d] != stride) return -1;
    stride *= node->dims[d];
  }
  return graph->nodes.data[operand->node].numel == stride ? operand->node : -1;
}

static void become_copy_of_operand(kl_node *node, const kl_node *source) {
  memcpy(node->operands[0].strides, source->operands[0].strides,
         sizeof(int64_t) * source->n_dims);
  int64_t *strides = node->operands[0].strides;
  node->operands[0] = source->operands[0];
  node->operands[0].strides = strides;
  memcpy(node->dims, source->dims, sizeof(int64_t) * source->n_dims);
  node->n_dims = source->n_dims;
  node->op = KL_OP_COPY;
}

static kl_dtype operand_dtype(const kl_graph *graph, const kl_operand *operand) {
  return (kl_dtype)(operand->node < 0 ? operand->dtype : graph->nodes.data[operand->node].dtype);
}

/* A write of no places leaves the old value. */
static kl_status fold_empty_write(kl_graph *graph, kl_node *node) {
  int64_t *arrays = kl_graph_array(graph, 2);
  if (!arrays) return kl_fail_memory("fold", 2 * sizeof *arrays);
  arrays[0] = node->numel;
  arrays[1] = 1;
  node->op = KL_OP_COPY;
  node->n_operands = node->n_dims = 1;
  node->n_reduced = 0;
  node->dims = arrays;
  node->operands[0].offset = 0;
  node->operands[0].strides = arrays + 1;
  node->out_strides = NULL;
  return KL_OK;
}

static bool writes_nothing(const kl_node *node) {
  if (!kl_op_is_write(node->op)) return false;
  for (int d = 0; d < node->n_dims; d++)
    if (node->dims[d] == 0) return true;
  return false;
}

static void fold_node(kl_graph *graph, kl_node *node) {
  if ((node->op == KL_OP_CAST || node->op == KL_OP_BITCAST) &&
      operand_dtype(graph, &node->operands[0]) == node->dtype) {
    node->op = KL_OP_COPY;
    return;
  }
  if (node->op != KL_OP_NEG && node->op != KL_OP_NOT && node->op != KL_OP_BITCAST) return;
  int32_t inner = read_whole(graph, node);
  if (inner < 0) return;
  const kl_node *source = &graph->nodes.data[inner];
  if (source->op != node->op || source->n_dims > node->n_dims) return;
  if (node->op == KL_OP_BITCAST) {
    /* Back to the first dtype it is the value itself; else one BITCAST does for both. */
    bool back = operand_dtype(graph, &source->operands[0]) == node->dtype;
    become_copy_of_operand(node, source);
    if (!back) node->op = KL_OP_BITCAST;
    return;
  }
  become_copy_of_operand(node, source);
}

kl_status kl_pass_fold(kl_graph *graph) {
  for (uint32_t i = 0; i < graph->nodes.count; i++) {
    kl_node *node = &graph->nodes.data[i];
    if (node->flags & KL_NODE_DEAD) continue;
    if (writes_nothing(node)) KL_TRY(fold_empty_write(graph, node));
    fold_node(graph, node);
  }
  return KL_OK;
}
