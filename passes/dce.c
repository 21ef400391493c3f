/* dce: removes what no output needs.
 *
 * Requires: a verified graph. Ensures: every node that is not marked dead is an output (KEEP) or an
 * operand of a later live node.
 */
#include "ir/support/memory.h"
#include "passes/pipeline.h"

kl_status kl_pass_dce(kl_graph *graph) {
  uint32_t n = graph->nodes.count;
  bool *needed = kl_calloc(n, sizeof *needed);
  if (!needed) return kl_fail_memory("dce", n);
  for (uint32_t i = n; i-- > 0;) {
    kl_node *node = &graph->nodes.data[i];
    if (node->flags & KL_NODE_KEEP) needed[i] = true;
    if (!needed[i]) {
      node->flags |= KL_NODE_DEAD;
      continue;
    }
    for (int k = 0; k < node->n_operands; k++)
      if (node->operands[k].node >= 0) needed[node->operands[k].node] = true;
  }
  kl_free(needed);
  return KL_OK;
}
