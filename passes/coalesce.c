/* coalesce: chains of writes to one place become one write.
 *
 * Requires: a verified graph. Ensures: no live WRITE_VIEW overwrites exactly the places that the
 * value before it wrote, where nobody else reads that value: the earlier write is skipped.
 */
#include <string.h>

#include "ir/support/memory.h"
#include "passes/pipeline.h"

static bool same_place(const kl_node *a, const kl_node *b) {
  if (a->op != KL_OP_WRITE_VIEW || b->op != KL_OP_WRITE_VIEW || a->n_dims != b->n_dims) return false;
  return a->out_offset == b->out_offset &&
         memcmp(a->dims, b->dims, sizeof(int64_t) * a->n_dims) == 0 &&
         memcmp(a->out_strides, b->out_strides, sizeof(int64_t) * a->n_dims) == 0;
}

static uint32_t *count_uses(const kl_graph *graph) {
  uint32_t *uses = kl_calloc(graph->nodes.count + 1, sizeof *uses);
  for (uint32_t i = 0; uses && i < graph->nodes.count; i++) {
    const kl_node *node = &graph->nodes.data[i];
    for (int k = 0; k < node->n_operands && !(node->flags & KL_NODE_DEAD); k++)
      if (node->operands[k].node >= 0) uses[node->operands[k].node]++;
  }
  return uses;
}

kl_status kl_pass_coalesce(kl_graph *graph) {
  uint32_t *uses = count_uses(graph);
  if (!uses) return kl_fail_memory("coalesce", sizeof *uses * graph->nodes.count);
  for (uint32_t i = 0; i < graph->nodes.count; i++) {
    kl_node *node = &graph->nodes.data[i];
    if ((node->flags & KL_NODE_DEAD) || node->op != KL_OP_WRITE_VIEW) continue;
    for (;;) {
      int32_t old = node->operands[0].node;
      const kl_node *before = &graph->nodes.data[old];
      if (!same_place(node, before) || uses[old] != 1 || (before->flags & KL_NODE_KEEP)) break;
      node->operands[0].node = before->operands[0].node;
    }
  }
  kl_free(uses);
  return kl_pass_dce(graph);
}
