/* cse: equal nodes become one.
 *
 * Requires: a verified graph. Ensures: no two live nodes that are not outputs compute the same thing
 * from the same operands. Outputs keep a memory of their own (two tensors never share bytes because
 * their values agree), and EMPTY is never merged. Scalars are equal only when they are one slot:
 * their values are arguments of the run.
 */
#include <string.h>
#include <xxhash.h>

#include "ir/support/memory.h"
#include "passes/pipeline.h"

/* Everything that makes two nodes equal, as bytes. */
static size_t node_key(const kl_node *node, int64_t *out_words) {
  size_t n = 0;
  out_words[n++] = node->op | (int64_t)node->dtype << 16 | (int64_t)node->n_dims << 24 |
                   (int64_t)node->n_reduced << 32 | (int64_t)node->n_operands << 40;
  out_words[n++] = node->attr;
  out_words[n++] = node->out_offset;
  out_words[n++] = node->index_stride;
  for (int d = 0; d < node->n_dims; d++) out_words[n++] = node->dims[d];
  for (int k = 0; k < node->n_operands; k++) {
    const kl_operand *operand = &node->operands[k];
    out_words[n++] = operand->node;
    out_words[n++] = operand->node < 0 ? operand->scalar : operand->offset;
    out_words[n++] = operand->node < 0 ? operand->dtype : operand->offset_slot;
    for (int d = 0; operand->node >= 0 && d < node->n_dims; d++)
      out_words[n++] = operand->strides ? operand->strides[d] : 0;
  }
  for (int d = 0; node->out_strides && d < node->n_dims; d++) out_words[n++] = node->out_strides[d];
  return n * sizeof(int64_t);
}

enum { KEY_WORDS = 4 + 5 * KL_MAX_RANK + 3 * 3 };

typedef struct cse_table {
  int32_t *slots; /* node or -1 */
  uint32_t mask;
} cse_table;

static int32_t find_or_add(const kl_graph *graph, cse_table *table, int32_t id) {
  int64_t key[KEY_WORDS], other[KEY_WORDS];
  size_t nbytes = node_key(&graph->nodes.data[id], key);
  for (uint32_t at = (uint32_t)XXH3_64bits(key, nbytes) & table->mask;; at = (at + 1) & table->mask) {
    int32_t candidate = table->slots[at];
    if (candidate < 0) {
      table->slots[at] = id;
      return id;
    }
    if (node_key(&graph->nodes.data[candidate], other) == nbytes && !memcmp(key, other, nbytes))
      return candidate;
  }
}

kl_status kl_pass_cse(kl_graph *graph) {
  uint32_t n = graph->nodes.count;
  cse_table table = {.mask = 15};
  while (table.mask < 2 * n) table.mask = table.mask * 2 + 1;
  table.slots = kl_malloc(sizeof(int32_t) * (table.mask + 1));
  int32_t *same_as = kl_malloc(sizeof(int32_t) * (n + 1));
  kl_status status = KL_OK;
  if (!table.slots || !same_as) {
    status = kl_fail_memory("cse", sizeof(int32_t) * table.mask);
    goto done;
  }
  memset(table.slots, 0xff, sizeof(int32_t) * (table.mask + 1));
  for (uint32_t i = 0; i < n; i++) {
    kl_node *node = &graph->nodes.data[i];
    same_as[i] = (int32_t)i;
    if (node->flags & KL_NODE_DEAD) continue;
    for (int k = 0; k < node->n_operands; k++)
      if (node->operands[k].node >= 0) node->operands[k].node = same_as[node->operands[k].node];
    if (node->op == KL_OP_LEAF || node->op == KL_OP_EMPTY || (node->flags & KL_NODE_KEEP)) continue;
    if (kl_op_is_write(node->op)) continue; /* a place of its own may be written further */
    same_as[i] = find_or_add(graph, &table, (int32_t)i);
    if (same_as[i] != (int32_t)i) node->flags |= KL_NODE_DEAD;
  }
done:
  kl_free(table.slots);
  kl_free(same_as);
  return status;
}
