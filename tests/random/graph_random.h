/* Random graphs with the data of their leaves.
 *
 * A graph is a function of a tape (tests/random/tape.h), always passes kl_graph_verify, and its
 * indices are in range. Leaves lie in one block of memory with guard bytes between them, so that a
 * comparison of whole blocks sees every write out of bounds. */
#ifndef TESTS_RANDOM_GRAPH_RANDOM_H
#define TESTS_RANDOM_GRAPH_RANDOM_H

#include "ir/graph.h"
#include "tests/random/tape.h"

enum {
  RANDOM_MAX_NODES = 160,
  RANDOM_MAX_LEAVES = 32,
  RANDOM_MAX_SLOTS = 64,
  RANDOM_GUARD = 64 /* bytes before and after each leaf */
};

typedef struct random_graph {
  kl_graph graph;
  kl_scalar scalars[RANDOM_MAX_SLOTS];
  int64_t offsets[RANDOM_MAX_SLOTS];
  int64_t leaf_at[RANDOM_MAX_LEAVES]; /* byte in the block */
  unsigned char *block;               /* the leaves' bytes before the run */
  int64_t block_nbytes, block_capacity;
} random_graph;

/* Whole graphs of about `n_steps` steps (an elementwise op, a softmax, a cat, ...). */
void random_graph_make(random_graph *g, tape *t, int n_steps);
void random_graph_finish(random_graph *g);

/* A fresh copy of the block, to be freed, and the addresses of the leaves in it. */
unsigned char *random_graph_leaves(const random_graph *g, void **out_leaves);

/* What was read how, over all graphs made so far. */
typedef enum random_layout {
  RANDOM_READ_SCALAR,
  RANDOM_READ_SAME,      /* row-major, all of the memory */
  RANDOM_READ_PART,      /* row-major, a part of it */
  RANDOM_READ_BROADCAST, /* some stride is 0 */
  RANDOM_READ_PERMUTED,  /* strides do not descend */
  RANDOM_READ_GAPPED,
  RANDOM_READ_EMPTY,
  RANDOM_LAYOUT_COUNT
} random_layout;

typedef struct random_coverage {
  long ops[KL_OP_COUNT][KL_DTYPE_COUNT];        /* by the dtype of operand 0, else of the result */
  long reads[KL_OP_COUNT][RANDOM_LAYOUT_COUNT]; /* by the reading op */
  long keeps, homes, reusable_leaves, aliased_leaves, offset_slots;
} random_coverage;

void random_graph_count(const random_graph *g, random_coverage *coverage);
void random_coverage_print(const random_coverage *coverage);

#endif
