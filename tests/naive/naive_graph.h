/* The naive evaluator: what a graph means, node by node and element by element.
 *
 * It follows ir/graph.h and the defined orders of docs/numerics.md with loops of its own, in the
 * plainest way, and shares no code with the passes, the executors or the runtime. Where it and the
 * library differ, one of the two is wrong. */
#ifndef TESTS_NAIVE_GRAPH_H
#define TESTS_NAIVE_GRAPH_H

#include "ir/graph.h"

/* Evaluates every node. `leaves[l]` are the bytes of leaf l, which are read before anything is
 * written; at the end the values of nodes with a home are put there. `out_values[n]` becomes the
 * value of node n where it is kept (to be freed with free), else NULL. Returns NULL, or what is
 * wrong with the graph or its data (an index out of range); then nothing was written. */
const char *naive_eval(const kl_graph *graph, void *const *leaves, const kl_scalar *scalars,
                       const int64_t *offsets, void **out_values);

/* The folds of a row of n values in the defined order. */
kl_scalar naive_reduce(kl_op op, kl_dtype dtype, const kl_scalar *values, int64_t n);
/* The sum of products of n pairs in the order of matrix products. */
kl_scalar naive_dot(kl_dtype dtype, const kl_scalar *a, const kl_scalar *b, int64_t n);

#endif
