/* Graph IR as text. The form, by example (ir/graph_parse.c reads it back):
 *
 *   graph scalars=1 offsets=1 {
 *     leaf l0 f32 6 reusable
 *     n0 = leaf.f32 l0
 *     n1 = mul.f32 [2, 3] n0 (o0 + 0; 3, 1), s0.f32
 *     n2 = reduce_sum.f32 [2 | 3] n1 (0; 3, 1) keep
 *     n3 = write_view.f32 [2] n0, n2 (0; 1) into (1; 3) keep home=l0
 * Dims stand in brackets, the reduced ones after '|'; of an operand the offset and the strides. A
 * node's number is its index; removed nodes are left out. */
#include <inttypes.h>

#include "ir/graph.h"
#include "ir/support/text.h"

static void print_list(const int64_t *values, unsigned first, unsigned end, kl_text *out) {
  for (unsigned i = first; i < end; i++)
    kl_text_add(out, "%s%" PRId64, i > first ? ", " : "", values[i]);
}

/* [2, 3 | 4] */
static void print_dims(const kl_node *node, kl_text *out) {
  unsigned n_kept =
      node->n_dims - (node->n_reduced < node->n_dims ? node->n_reduced : node->n_dims);
  kl_text_add(out, " [");
  print_list(node->dims, 0, n_kept, out);
  if (node->n_reduced) {
    kl_text_add(out, n_kept ? " | " : "| ");
    print_list(node->dims, n_kept, node->n_dims, out);
  }
  kl_text_add(out, "]");
}

/* (o0 + 4; 3, 1) */
static void print_map(uint32_t offset_slot, int64_t offset, const int64_t *strides, unsigned n_dims,
                      kl_text *out) {
  kl_text_add(out, " (");
  if (offset_slot != KL_NO_SLOT) kl_text_add(out, "o%" PRIu32 " + ", offset_slot);
  kl_text_add(out, "%" PRId64, offset);
  if (n_dims) kl_text_add(out, "; ");
  print_list(strides, 0, n_dims, out);
  kl_text_add(out, ")");
}

static const char *dtype_name(int dtype) {
  return dtype < KL_DTYPE_COUNT ? kl_dtype_name((kl_dtype)dtype) : "bad_dtype";
}

static void print_operand(const kl_node *node, int a, kl_text *out) {
  const kl_operand *operand = &node->operands[a];
  kl_text_add(out, a ? ", " : " ");
  if (operand->node < 0) {
    kl_text_add(out, "s%" PRIu32 ".%s", operand->scalar, dtype_name(operand->dtype));
    return;
  }
  kl_text_add(out, "n%" PRId32, operand->node);
  /* A writer reads all of its operand 0, which therefore has no map. */
  if (a == 0 && kl_op_is_write(node->op)) return;
  print_map(operand->offset_slot, operand->offset, operand->strides, node->n_dims, out);
}

static void print_node(uint32_t id, const kl_node *node, kl_text *out) {
  if (node->op >= KL_OP_COUNT) {
    kl_text_add(out, "  n%" PRIu32 " = bad_op_%u\n", id, node->op);
    return;
  }
  kl_text_add(out, "  n%" PRIu32 " = %s.%s", id, kl_op_table[node->op].text,
              dtype_name(node->dtype));
  if (node->op != KL_OP_LEAF || node->n_dims) print_dims(node, out);
  if (node->op == KL_OP_LEAF) kl_text_add(out, " l%" PRIu32, node->attr);
  if (node->op == KL_OP_INDEX) kl_text_add(out, " d%" PRIu32, node->attr);
  for (int a = 0; a < node->n_operands && a < 3; a++) print_operand(node, a, out);
  if (kl_op_is_write(node->op)) {
    kl_text_add(out, " into");
    print_map(KL_NO_SLOT, node->out_offset, node->out_strides, node->n_dims, out);
  }
  if (node->op == KL_OP_GATHER || node->op == KL_OP_SCATTER || node->op == KL_OP_SCATTER_ADD)
    kl_text_add(out, " index=%" PRId64 " of %" PRId64, node->index_stride, node->index_extent);
  if (node->flags & KL_NODE_KEEP) kl_text_add(out, " keep");
  if (node->home >= 0) kl_text_add(out, " home=l%" PRId32, node->home);
  kl_text_add(out, "\n");
}

kl_status kl_graph_print(const kl_graph *graph, kl_text *out) {
  kl_text_add(out, "graph scalars=%" PRIu32 " offsets=%" PRIu32 " {\n", graph->n_scalars,
              graph->n_offsets);
  for (uint32_t i = 0; i < graph->leaves.count; i++) {
    const kl_leaf *leaf = &graph->leaves.data[i];
    kl_text_add(out, "  leaf l%" PRIu32 " %s %" PRId64 "%s%s\n", i, dtype_name(leaf->dtype),
                leaf->numel, leaf->reusable ? " reusable" : "",
                leaf->may_alias ? " may_alias" : "");
  }
  for (uint32_t i = 0; i < graph->nodes.count; i++)
    if (!(graph->nodes.data[i].flags & KL_NODE_DEAD)) print_node(i, &graph->nodes.data[i], out);
  kl_text_add(out, "}\n");
  return kl_text_status(out);
}
