/* What random graphs have covered. See graph_random.h. */
#include <stdio.h>

#include "tests/random/graph_random.h"

static random_layout layout_of(const kl_node *reader, const kl_operand *operand, int64_t numel) {
  int64_t expected = 1, points = 1;
  bool row_major = true, repeats = false, descends = true;
  for (int d = reader->n_dims - 1; d >= 0; d--) {
    points *= reader->dims[d];
    if (reader->dims[d] <= 1) continue;
    row_major &= operand->strides[d] == expected;
    repeats |= operand->strides[d] == 0;
    for (int e = d + 1; e < reader->n_dims; e++)
      descends &= reader->dims[e] <= 1 || operand->strides[e] <= operand->strides[d];
    expected *= reader->dims[d];
  }
  if (points == 0) return RANDOM_READ_EMPTY;
  if (row_major) return points == numel ? RANDOM_READ_SAME : RANDOM_READ_PART;
  if (repeats) return RANDOM_READ_BROADCAST;
  return descends ? RANDOM_READ_GAPPED : RANDOM_READ_PERMUTED;
}

void random_graph_count(const random_graph *g, random_coverage *coverage) {
  for (uint32_t i = 0; i < g->graph.nodes.count; i++) {
    const kl_node *node = &g->graph.nodes.data[i];
    kl_dtype dtype = (kl_dtype)node->dtype;
    for (int a = node->n_operands - 1; a >= 0; a--) {
      const kl_operand *operand = &node->operands[a];
      if (operand->node < 0) {
        dtype = (kl_dtype)operand->dtype;
        coverage->reads[node->op][RANDOM_READ_SCALAR]++;
        continue;
      }
      const kl_node *read = &g->graph.nodes.data[operand->node];
      dtype = (kl_dtype)read->dtype;
      if (a > 0 || !kl_op_is_write(node->op))
        coverage->reads[node->op][layout_of(node, operand, read->numel)]++;
    }
    coverage->ops[node->op][dtype]++;
    coverage->keeps += (node->flags & KL_NODE_KEEP) != 0;
    coverage->homes += node->home >= 0;
  }
  for (uint32_t l = 0; l < g->graph.leaves.count; l++) {
    coverage->reusable_leaves += g->graph.leaves.data[l].reusable;
    coverage->aliased_leaves += g->graph.leaves.data[l].may_alias;
  }
  coverage->offset_slots += g->graph.n_offsets;
}

void random_coverage_print(const random_coverage *coverage) {
  static const char *layouts[] = {"scalar",   "same",   "part", "broadcast",
                                  "permuted", "gapped", "empty"};
  int n_pairs = 0, n_ops = 0, n_reads = 0;
  for (int op = 0; op < KL_OP_COUNT; op++) {
    long total = 0;
    for (int d = 0; d < KL_DTYPE_COUNT; d++) {
      total += coverage->ops[op][d];
      n_pairs += coverage->ops[op][d] > 0;
    }
    if (!total) continue;
    n_ops++;
    printf("  %-14s", kl_op_table[op].text);
    for (int d = 0; d < KL_DTYPE_COUNT; d++)
      if (coverage->ops[op][d]) printf(" %s:%ld", kl_dtype_name((kl_dtype)d), coverage->ops[op][d]);
    printf(" |");
    for (int l = 0; l < RANDOM_LAYOUT_COUNT; l++) {
      n_reads += coverage->reads[op][l] > 0;
      if (coverage->reads[op][l]) printf(" %s:%ld", layouts[l], coverage->reads[op][l]);
    }
    printf("\n");
  }
  printf(
      "coverage: %d ops, %d (op, dtype), %d (op, layout), %ld kept, %ld homes, %ld reusable, "
      "%ld aliased, %ld run-time offsets\n",
      n_ops, n_pairs, n_reads, coverage->keeps, coverage->homes, coverage->reusable_leaves,
      coverage->aliased_leaves, coverage->offset_slots);
}
