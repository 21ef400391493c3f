/* Building graphs: nodes in one growing array, their index arrays in the arena. */
#include "ir/graph.h"

int64_t *kl_graph_array(kl_graph *graph, int count) {
  return kl_arena_alloc(&graph->arena, sizeof(int64_t) * (size_t)(count > 0 ? count : 1));
}

kl_status kl_graph_add(kl_graph *graph, kl_op op, kl_dtype dtype, int n_dims, int n_reduced,
                       int32_t *out_node) {
  kl_node node = {.op = (uint16_t)op,
                  .dtype = (uint8_t)dtype,
                  .n_operands = kl_op_table[op].arity,
                  .n_dims = (uint8_t)n_dims,
                  .n_reduced = (uint8_t)n_reduced,
                  .home = -1};
  bool writes = kl_op_is_write(op);
  int n_arrays = 1 + node.n_operands + writes;
  int64_t *arrays = kl_graph_array(graph, n_arrays * n_dims);
  if (!arrays) return kl_fail_memory("graph", sizeof(int64_t) * (size_t)(n_arrays * n_dims));
  node.dims = arrays;
  for (int i = 0; i < node.n_operands; i++) {
    node.operands[i] = (kl_operand){.node = -1, .offset_slot = KL_NO_SLOT};
    node.operands[i].strides = arrays += n_dims;
  }
  if (writes) node.out_strides = arrays + n_dims;
  if (!kl_vec_push(&graph->nodes, node)) return kl_fail_memory("graph", sizeof node);
  *out_node = (int32_t)graph->nodes.count - 1;
  return KL_OK;
}

void kl_graph_finish(kl_graph *graph) {
  kl_vec_finish(&graph->nodes);
  kl_vec_finish(&graph->leaves);
  kl_arena_finish(&graph->arena);
  graph->n_scalars = graph->n_offsets = 0;
}
