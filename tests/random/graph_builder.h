/* The building blocks of random graphs: shapes, leaves, index maps, nodes. */
#ifndef TESTS_RANDOM_GRAPH_BUILDER_H
#define TESTS_RANDOM_GRAPH_BUILDER_H

#include "tests/random/graph_random.h"

enum { BUILDER_MAX_RANK = 5 };

typedef struct shape {
  int rank;
  int64_t dims[BUILDER_MAX_RANK + 1];
} shape;

/* What the generator knows of a node. */
typedef struct node_facts {
  shape shape;         /* of its memory */
  int64_t index_bound; /* i64: all values are in [0, index_bound); 0: unknown */
  bool hidden;         /* undefined in part: not to be read or kept */
  bool clean_nan;      /* its NaNs are a leaf's, whose bits are defined */
} node_facts;

typedef struct builder {
  tape *t;
  random_graph *g;
  node_facts facts[RANDOM_MAX_NODES];
} builder;

int64_t shape_numel(const shape *s);
void shape_strides(const shape *s, int64_t *strides); /* row-major */

shape builder_shape(builder *b);
kl_dtype builder_dtype(builder *b);
/* Another leaf, with data; index_bound > 0: i64 values below it. */
int32_t builder_leaf(builder *b, kl_dtype dtype, const shape *s, int64_t index_bound);
/* A readable node of a dtype with at least one element, new ones first; maybe a new leaf. */
int32_t builder_pick(builder *b, kl_dtype dtype);
int32_t builder_pick_any(builder *b);
/* An i64 node whose values index an extent. */
int32_t builder_pick_index(builder *b, int64_t extent);

const kl_node *builder_node(const builder *b, int32_t id);
/* A node whose iteration dims are `s`; all operands are to be set. */
int32_t builder_add(builder *b, kl_op op, kl_dtype dtype, const shape *s, int n_reduced);

/* Operand `a` becomes a scalar; or a node through a random map; or through the map that takes
 * iteration dim d to the node's own dim axes[d] (-1: broadcast). Dims in zero_mask get stride 0. */
void builder_scalar(builder *b, int32_t id, int a, kl_dtype dtype, kl_scalar value);
void builder_scalar_random(builder *b, int32_t id, int a, kl_dtype dtype);
void builder_read(builder *b, int32_t id, int a, int32_t node, uint32_t zero_mask);
void builder_read_axes(builder *b, int32_t id, int a, int32_t node, const int *axes);
/* A scalar or some node of the dtype. */
void builder_operand(builder *b, int32_t id, int a, kl_dtype dtype);
/* A random map in which no two points are one element. */
bool builder_injective(builder *b, int64_t numel, int rank, const int64_t *dims, int64_t *offset,
                       int64_t *strides);

/* One random step; may add several nodes. */
void builder_step(builder *b);

#endif
