/* Rules of graphs (ir/graph.h): requires nothing, ensures that passes need no checks of their own.
 * A broken rule is our own bug: KL_ERR_INTERNAL, with the node. Time is linear in the graph. */
#include <inttypes.h>

#include "ir/graph.h"
#include "ir/op_check.h"

static kl_status fail_node(const kl_graph *graph, const kl_node *node, const char *what) {
  return kl_fail(KL_ERR_INTERNAL, "graph node n%d (%s): %s", (int)(node - graph->nodes.data),
                 node->op < KL_OP_COUNT ? kl_op_table[node->op].text : "?", what);
}

/* The least and the greatest element that an affine map reaches. */
typedef struct span {
  int64_t low, high;
} span;

/* Adds the steps 0 ... n_steps - 1 of `stride`; false when the reach has no 64-bit value. */
static bool span_extend(span *reach, int64_t n_steps, int64_t stride) {
  int64_t far;
  if (__builtin_mul_overflow(n_steps - 1, stride, &far)) return false;
  return far < 0 ? !__builtin_add_overflow(reach->low, far, &reach->low)
                 : !__builtin_add_overflow(reach->high, far, &reach->high);
}

static bool span_of_map(const kl_node *node, int n_dims, int64_t offset, const int64_t *strides,
                        span *out_reach) {
  span reach = {offset, offset};
  for (int d = 0; d < n_dims; d++)
    if (!span_extend(&reach, node->dims[d], strides[d])) return false;
  *out_reach = reach;
  return true;
}

static bool space_is_empty(const kl_node *node) {
  for (int d = 0; d < node->n_dims; d++)
    if (node->dims[d] == 0) return true;
  return false;
}

static bool has_index(const kl_node *node) {
  return node->op == KL_OP_GATHER || node->op == KL_OP_SCATTER || node->op == KL_OP_SCATTER_ADD;
}

/* ------------------------------------------------------------------ shape */

static bool n_reduced_fits(const kl_node *node) {
  if (kl_op_is_reduce(node->op)) return node->n_reduced <= node->n_dims;
  switch (node->op) {
    case KL_OP_MATMUL:
      return node->n_reduced == 1 && node->n_dims >= 3;
    case KL_OP_SCATTER:
    case KL_OP_SCATTER_ADD:
      return node->n_reduced == 1 && node->n_dims >= 1;
    default:
      return node->n_reduced == 0;
  }
}

static kl_status check_dims(const kl_graph *graph, const kl_node *node) {
  int64_t n_points = 1, n_kept = 1;
  if (node->n_dims > KL_MAX_RANK) return fail_node(graph, node, "it has too many dims");
  if (!n_reduced_fits(node))
    return fail_node(graph, node, "the number of reduced dims does not fit");
  for (int d = 0; d < node->n_dims; d++) {
    if (node->dims[d] < 0) return fail_node(graph, node, "a dim is negative");
    if (d == node->n_dims - node->n_reduced) n_kept = n_points;
    if (__builtin_mul_overflow(n_points, node->dims[d], &n_points))
      return fail_node(graph, node, "its iteration space is too large");
  }
  if (node->n_reduced == 0) n_kept = n_points;
  if (node->op != KL_OP_LEAF && !kl_op_is_write(node->op) && node->numel != n_kept)
    return fail_node(graph, node, "numel is not the product of its dims");
  return KL_OK;
}

/* ------------------------------------------------------------------ operands */

static bool must_be_node(const kl_node *node, int a) {
  return node->op == KL_OP_MATMUL ||
         (a == 0 && (node->op == KL_OP_GATHER || kl_op_is_write(node->op)));
}

static kl_status check_scalar_operand(const kl_graph *graph, const kl_node *node, int a) {
  const kl_operand *operand = &node->operands[a];
  if (operand->node != -1) return fail_node(graph, node, "an operand does not exist");
  if (must_be_node(node, a)) return fail_node(graph, node, "an operand cannot be a scalar");
  if (operand->scalar >= graph->n_scalars)
    return fail_node(graph, node, "the scalar slot of an operand does not exist");
  if (operand->dtype >= KL_DTYPE_COUNT)
    return fail_node(graph, node, "the dtype of a scalar does not exist");
  return KL_OK;
}

/* What is read, dynamic indices included, is inside the operand's memory. A run-time offset is
 * checked by whoever gives it; here only that the reach is not wider than the memory. */
static kl_status check_reach(const kl_graph *graph, const kl_node *node, int a) {
  const kl_operand *operand = &node->operands[a];
  int64_t numel = graph->nodes.data[operand->node].numel;
  span reach;
  if (node->n_dims && !operand->strides) return fail_node(graph, node, "an operand has no strides");
  if (space_is_empty(node)) return KL_OK;
  bool known = span_of_map(node, node->n_dims, operand->offset, operand->strides, &reach);
  if (known && a == 0 && node->op == KL_OP_GATHER)
    known = node->index_extent > 0 && span_extend(&reach, node->index_extent, node->index_stride);
  if (known && operand->offset_slot != KL_NO_SLOT) {
    known = !__builtin_sub_overflow(reach.high, reach.low, &reach.high);
    reach.low = 0;
  }
  if (!known || reach.low < 0 || reach.high >= numel)
    return fail_node(graph, node, "it reads outside an operand's memory");
  return KL_OK;
}

static kl_status check_operand(const kl_graph *graph, const kl_node *node, int a) {
  const kl_operand *operand = &node->operands[a];
  if (operand->node < 0) return check_scalar_operand(graph, node, a);
  const kl_node *read = &graph->nodes.data[operand->node];
  if (operand->node >= node - graph->nodes.data)
    return fail_node(graph, node, "an operand does not stand above it");
  if (read->flags & KL_NODE_DEAD) return fail_node(graph, node, "an operand has been removed");
  if (a == 0 && kl_op_is_write(node->op)) return KL_OK;
  if (operand->offset_slot != KL_NO_SLOT &&
      (operand->offset_slot >= graph->n_offsets || read->op != KL_OP_LEAF))
    return fail_node(graph, node, "a run-time offset does not exist, or is not into a leaf");
  return check_reach(graph, node, a);
}

static kl_status check_operands(const kl_graph *graph, const kl_node *node) {
  kl_dtype dtypes[3] = {KL_BOOL};
  if (node->n_operands != kl_op_table[node->op].arity)
    return fail_node(graph, node, "the number of operands is not the operation's");
  for (int a = 0; a < node->n_operands; a++) {
    const kl_operand *operand = &node->operands[a];
    KL_TRY(check_operand(graph, node, a));
    dtypes[a] =
        (kl_dtype)(operand->node < 0 ? operand->dtype : graph->nodes.data[operand->node].dtype);
  }
  const char *fault = kl_op_dtype_fault((kl_op)node->op, (kl_dtype)node->dtype, dtypes);
  return fault ? fail_node(graph, node, fault) : KL_OK;
}

/* ------------------------------------------------------------------ one node */

static kl_status check_leaf(const kl_graph *graph, const kl_node *node) {
  if (node->attr >= graph->leaves.count) return fail_node(graph, node, "its leaf does not exist");
  const kl_leaf *leaf = &graph->leaves.data[node->attr];
  if (node->dtype != leaf->dtype || node->numel != leaf->numel)
    return fail_node(graph, node, "its dtype or numel is not the leaf's");
  return KL_OK;
}

static kl_status check_writer(const kl_graph *graph, const kl_node *node) {
  int n_placed = node->n_dims - node->n_reduced;
  span reach;
  if (node->numel != graph->nodes.data[node->operands[0].node].numel)
    return fail_node(graph, node, "numel is not that of the value it writes to");
  if (node->n_dims && !node->out_strides) return fail_node(graph, node, "it has no strides");
  for (int d = n_placed; d < node->n_dims; d++)
    if (node->out_strides[d]) return fail_node(graph, node, "an ascending dim has a stride");
  if (space_is_empty(node)) return KL_OK;
  bool known = span_of_map(node, n_placed, node->out_offset, node->out_strides, &reach);
  if (known && has_index(node))
    known = node->index_extent > 0 && span_extend(&reach, node->index_extent, node->index_stride);
  if (!known || reach.low < 0 || reach.high >= node->numel)
    return fail_node(graph, node, "it writes outside its memory");
  return KL_OK;
}

/* The first operand has no column, the second no row. */
static kl_status check_matmul(const kl_graph *graph, const kl_node *node) {
  int m = node->n_dims - 3, n = node->n_dims - 2;
  if ((node->dims[n] > 1 && node->operands[0].strides[n]) ||
      (node->dims[m] > 1 && node->operands[1].strides[m]))
    return fail_node(graph, node, "an operand moves along a dim that it does not have");
  return KL_OK;
}

static kl_status check_home(const kl_graph *graph, const kl_node *node) {
  if (node->home == -1) return KL_OK;
  if (node->home < 0 || (uint32_t)node->home >= graph->leaves.count)
    return fail_node(graph, node, "its home does not exist");
  if (!(node->flags & KL_NODE_KEEP)) return fail_node(graph, node, "it has a home but is not kept");
  const kl_leaf *leaf = &graph->leaves.data[node->home];
  if (node->numel != leaf->numel ||
      kl_dtype_size((kl_dtype)node->dtype) != kl_dtype_size((kl_dtype)leaf->dtype))
    return fail_node(graph, node, "its home is of another size");
  return KL_OK;
}

static kl_status check_node(const kl_graph *graph, const kl_node *node) {
  if (node->op >= KL_OP_COUNT || kl_op_table[node->op].kind == KL_KIND_KERNEL)
    return fail_node(graph, node, "it is no operation of graphs");
  if (node->dtype >= KL_DTYPE_COUNT) return fail_node(graph, node, "its dtype does not exist");
  KL_TRY(check_dims(graph, node));
  KL_TRY(check_operands(graph, node));
  if (node->op == KL_OP_LEAF) KL_TRY(check_leaf(graph, node));
  if (node->op == KL_OP_INDEX && node->attr >= node->n_dims)
    return fail_node(graph, node, "it has no such dim");
  if (node->op == KL_OP_MATMUL) KL_TRY(check_matmul(graph, node));
  if (kl_op_is_write(node->op)) KL_TRY(check_writer(graph, node));
  return check_home(graph, node);
}

kl_status kl_graph_verify(const kl_graph *graph) {
  for (uint32_t i = 0; i < graph->leaves.count; i++)
    if (graph->leaves.data[i].dtype >= KL_DTYPE_COUNT || graph->leaves.data[i].numel < 0)
      return kl_fail(KL_ERR_INTERNAL, "graph leaf l%" PRIu32 ": its dtype or numel is impossible",
                     i);
  for (uint32_t i = 0; i < graph->nodes.count; i++) {
    const kl_node *node = &graph->nodes.data[i];
    if (!(node->flags & KL_NODE_DEAD)) KL_TRY(check_node(graph, node));
  }
  return KL_OK;
}
