/* One random graph after the other through the library and the naive evaluator. */
#ifndef TESTS_RANDOM_GRAPH_CHECK_H
#define TESTS_RANDOM_GRAPH_CHECK_H

#include "tests/random/graph_random.h"

typedef struct graph_check_options {
  int n_steps;   /* of each graph, at most */
  bool llvm;     /* by tier 1 as well */
  bool no_reuse; /* no leaf is reusable, no value has a home */
} graph_check_options;

typedef struct graph_check_totals {
  random_coverage coverage;
  long graphs, nodes, kernels, matmuls, copies, sections, reduces, in_place, split_sections,
      scratch;
  long most_nodes_in_a_kernel;
  uint64_t seed; /* of the graph being checked */
} graph_check_totals;

/* Checks seeds [first, first + count) in a child process; a graph that differs, or crashes, is
 * shrunk and printed. False when there was one. */
bool graph_check_range(uint64_t first, long count, const graph_check_options *options,
                       graph_check_totals *totals);
void graph_check_print(const graph_check_totals *totals);

#endif
