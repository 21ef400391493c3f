/* views: reads go straight to where the bytes come from.
 *
 * Requires: a verified graph. Ensures: where index maps can be composed, no node reads a COPY (it
 * reads the copied value itself), none reads a COPY of a scalar (it takes the scalar), and a read
 * of a WRITE_VIEW goes to the data where it lies within what was written, to the old value where it
 * lies apart from it. Outputs are left in place; what nobody reads any more falls to dce.
 */
#include <string.h>

#include "passes/pipeline.h"
#include "passes/space.h"

static kl_space node_space(const kl_node *node) {
  kl_space space = {.n_dims = node->n_dims};
  memcpy(space.extent, node->dims, sizeof(int64_t) * node->n_dims);
  return space;
}

static kl_address operand_address(const kl_node *node, const kl_operand *operand) {
  kl_address address = {.offset = operand->offset};
  memcpy(address.stride, operand->strides, sizeof(int64_t) * node->n_dims);
  return address;
}

/* Points `operand` of `node` at `target`, an operand of the producer, seen through `map`. */
static void redirect(kl_node *node, kl_operand *operand, const kl_operand *target, const kl_map *map) {
  int64_t *strides = operand->strides;
  *operand = *target;
  operand->strides = strides;
  if (target->node < 0) return;
  kl_address address = kl_map_address(map, target->offset, target->strides);
  operand->offset = address.offset;
  memcpy(strides, address.stride, sizeof(int64_t) * node->n_dims);
}

static bool through_copy(kl_node *node, kl_operand *operand, const kl_node *copy) {
  const kl_operand *source = &copy->operands[0];
  if (source->node < 0) { /* a scalar is the same at every place */
    if (!kl_op_is_elem(node->op)) return false;
    redirect(node, operand, source, NULL);
    return true;
  }
  kl_space space = node_space(node);
  kl_address address = operand_address(node, operand);
  kl_map map;
  int dim;
  int64_t inner;
  if (kl_map_from_address(&space, &address, copy->dims, copy->n_dims, &map, &dim, &inner) !=
      KL_FIT_YES)
    return false;
  redirect(node, operand, source, &map);
  return true;
}

/* The range of addresses that dims with these strides reach. */
static void address_range(const int64_t *extents, const int64_t *strides, int n, int64_t offset,
                          int64_t *out_low, int64_t *out_high) {
  *out_low = *out_high = offset;
  for (int d = 0; d < n; d++) {
    int64_t reach = strides[d] * (extents[d] - 1);
    *(reach < 0 ? out_low : out_high) += reach;
  }
}

/* Whether a read and a write, each over its own dims, cannot meet: apart as ranges, or of one
 * common step and different places within it. */
static bool disjoint(const kl_node *node, const kl_operand *operand, const kl_node *write) {
  int64_t read_low, read_high, write_low, write_high;
  address_range(node->dims, operand->strides, node->n_dims, operand->offset, &read_low, &read_high);
  address_range(write->dims, write->out_strides, write->n_dims, write->out_offset, &write_low,
                &write_high);
  if (read_high < write_low || write_high < read_low) return true;
  /* Both in rows of the largest common stride: compare the columns that they touch. */
  int64_t row = 0;
  for (int d = 0; d < write->n_dims; d++)
    if (write->dims[d] > 1 && write->out_strides[d] > row) row = write->out_strides[d];
  if (row <= 1) return false;
  int64_t read_column = operand->offset % row, write_column = write->out_offset % row;
  int64_t read_width = 1, write_width = 1;
  for (int d = 0; d < node->n_dims; d++)
    if (node->dims[d] > 1 && operand->strides[d] % row != 0) {
      if (operand->strides[d] < 0) return false;
      read_width += operand->strides[d] * (node->dims[d] - 1);
    }
  for (int d = 0; d < write->n_dims; d++)
    if (write->dims[d] > 1 && write->out_strides[d] % row != 0) {
      if (write->out_strides[d] < 0) return false;
      write_width += write->out_strides[d] * (write->dims[d] - 1);
    }
  if (read_column + read_width > row || write_column + write_width > row) return false;
  return read_column + read_width <= write_column || write_column + write_width <= read_column;
}

/* Coordinates in the written view of each place read; by decomposing addresses, relative to the
 * view's offset, in the view's own strides. Needs those nested: each stride at least the reach of
 * the finer ones. */
static bool map_into_view(const kl_node *node, const kl_operand *operand, const kl_node *write,
                          kl_map *out_map) {
  int order[KL_MAX_RANK], n = 0;
  for (int d = 0; d < write->n_dims; d++) {
    if (write->dims[d] == 1) continue;
    if (write->out_strides[d] <= 0) return false;
    int at = n++;
    while (at > 0 && write->out_strides[order[at - 1]] < write->out_strides[d]) {
      order[at] = order[at - 1];
      at--;
    }
    order[at] = d;
  }
  for (int i = 0; i + 1 < n; i++) { /* places of different coordinates differ */
    int64_t reach = 0;
    for (int k = i + 1; k < n; k++) reach += write->out_strides[order[k]] * (write->dims[order[k]] - 1);
    if (write->out_strides[order[i]] <= reach) return false;
  }
  memset(out_map, 0, sizeof *out_map);
  out_map->n_out = write->n_dims;
  out_map->n_dims = node->n_dims;
  int64_t low[KL_MAX_RANK] = {0}, high[KL_MAX_RANK] = {0};
  int64_t rest = operand->offset - write->out_offset;
  for (int i = 0; i < n; i++) {
    int p = order[i];
    int64_t stride = write->out_strides[p];
    out_map->origin[p] = rest >= 0 ? rest / stride : -((-rest + stride - 1) / stride);
    rest -= out_map->origin[p] * stride;
    low[p] = high[p] = out_map->origin[p];
  }
  if (rest != 0) return false;
  for (int d = 0; d < node->n_dims; d++) {
    if (node->dims[d] <= 1) continue;
    int64_t step = operand->strides[d];
    for (int i = 0; i < n; i++) {
      int p = order[i];
      int64_t part = step / write->out_strides[p];
      step -= part * write->out_strides[p];
      out_map->step[p][d] = part;
      int64_t reach = part * (node->dims[d] - 1);
      *(reach < 0 ? &low[p] : &high[p]) += reach;
    }
    if (step != 0) return false;
  }
  for (int p = 0; p < write->n_dims; p++)
    if (low[p] < 0 || high[p] >= write->dims[p]) return false;
  return true;
}

static bool through_write(kl_node *node, kl_operand *operand, const kl_node *write) {
  if (disjoint(node, operand, write)) {
    operand->node = write->operands[0].node;
    operand->offset_slot = write->operands[0].offset_slot;
    return true;
  }
  kl_map map;
  if (!map_into_view(node, operand, write, &map)) return false;
  const kl_operand *data = &write->operands[1];
  if (data->node < 0 && !kl_op_is_elem(node->op)) return false;
  redirect(node, operand, data, &map);
  return true;
}

static bool reads_through(kl_graph *graph, kl_node *node, kl_operand *operand) {
  const kl_node *producer = &graph->nodes.data[operand->node];
  if (kl_extent_product(node->dims, node->n_dims) == 0) return false;
  if (producer->op == KL_OP_COPY) return through_copy(node, operand, producer);
  if (producer->op == KL_OP_WRITE_VIEW) return through_write(node, operand, producer);
  return false;
}

kl_status kl_pass_views(kl_graph *graph) {
  for (uint32_t i = 0; i < graph->nodes.count; i++) {
    kl_node *node = &graph->nodes.data[i];
    if (node->flags & KL_NODE_DEAD) continue;
    for (int k = 0; k < node->n_operands; k++) {
      if (k == 0 && (kl_op_is_write(node->op) || node->op == KL_OP_GATHER)) continue;
      while (node->operands[k].node >= 0 && reads_through(graph, node, &node->operands[k])) {
      }
    }
  }
  return kl_pass_dce(graph);
}
