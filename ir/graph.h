/* Graph IR: the values of one run, in topological order (operands come first).
 *
 * A node's value is a piece of memory of `numel` elements. An ordinary node computes one element
 * for each point of its iteration space `dims` less the trailing n_reduced ones, and its memory is
 * that space, contiguous and row-major. A writer's memory is its operand 0's, in which the points
 * of the iteration space are put at out_offset + sum of out_strides (of the dims before the
 * n_reduced trailing ones for SCATTER*; plus index_stride times operand 2).
 *
 * An operand is read at the element `offset + sum strides[d] * coordinate[d]` of its node's memory:
 * views, broadcasting and transposition are nothing else. Sizes are concrete here; the kernels
 * made from a graph hold them as arguments.
 */
#ifndef KL_IR_GRAPH_H
#define KL_IR_GRAPH_H

#include "ir/kernel.h"
#include "ir/op.h"
#include "ir/support/arena.h"
#include "ir/support/status.h"
#include "ir/support/vec.h"

#define KL_NO_SLOT UINT32_MAX

typedef struct kl_operand {
  int32_t node;         /* an earlier node; -1: the scalar in slot `scalar` */
  uint32_t scalar;
  uint8_t dtype;        /* of the scalar; unused for a node */
  uint32_t offset_slot; /* of a leaf read: run argument added to `offset`; KL_NO_SLOT: none */
  int64_t offset;
  int64_t *strides;     /* n_dims, NULL for a scalar; of a writer's operand 0 unused (NULL) */
} kl_operand;

enum {
  KL_NODE_KEEP = 1, /* an output of the run */
  KL_NODE_DEAD = 2  /* removed by a pass; nothing may refer to it */
};

typedef struct kl_node {
  uint16_t op;
  uint8_t dtype;
  uint8_t n_operands;
  uint8_t n_dims;    /* iteration dims, the reduced ones last */
  uint8_t n_reduced; /* REDUCE: >= 0; MATMUL: 1 (dims are batch..., m, n | k); SCATTER*: the one that
                        ascends; else 0 */
  uint8_t flags;
  uint32_t attr;     /* INDEX: the dim; LEAF: its number in `leaves` */
  int32_t home;      /* KEEP: the leaf in whose bytes the value must end, -1: anywhere */
  int64_t numel;
  int64_t *dims;
  kl_operand operands[3];
  int64_t out_offset;   /* writers */
  int64_t *out_strides; /* writers: n_dims */
  int64_t index_stride; /* GATHER, SCATTER*: elements for a step of the index */
  int64_t index_extent; /* valid indices are [0, index_extent); checked before the run */
} kl_node;

typedef struct kl_leaf {
  uint8_t dtype;
  bool reusable;  /* nothing outside the run needs its old bytes: a writer may work in place */
  bool may_alias; /* external memory: other leaves with this flag may overlap it */
  int64_t numel;
} kl_leaf;

typedef struct kl_graph {
  KL_VEC(kl_node) nodes;
  KL_VEC(kl_leaf) leaves;
  uint32_t n_scalars; /* each with its own slot, whatever its value */
  uint32_t n_offsets;
  kl_arena arena; /* dims and strides */
} kl_graph;

/* A zeroed kl_graph is empty. */
void kl_graph_finish(kl_graph *graph);
/* Appends a node with its arrays allocated (dims, strides of each operand, out_strides for writers). */
kl_status kl_graph_add(kl_graph *graph, kl_op op, kl_dtype dtype, int n_dims, int n_reduced,
                       int32_t *out_node) KL_MUST_CHECK;
int64_t *kl_graph_array(kl_graph *graph, int count); /* from the arena; NULL: no memory */

kl_status kl_graph_print(const kl_graph *graph, struct kl_text *out) KL_MUST_CHECK;
kl_status kl_graph_parse(const char *text, size_t nbytes, kl_graph *out_graph) KL_MUST_CHECK;
/* Topological order, arity and dtypes by ir/op.def, every read inside its operand's memory, every
 * write inside its own (out of range only where the iteration space is empty). */
kl_status kl_graph_verify(const kl_graph *graph) KL_MUST_CHECK;

#endif
