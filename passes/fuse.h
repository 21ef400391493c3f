/* Groups of nodes that become one launch each, and where each node lies in its group's space. */
#ifndef KL_PASSES_FUSE_H
#define KL_PASSES_FUSE_H

#include "ir/graph.h"
#include "passes/space.h"

enum {
  KL_FUSE_LIMIT = 512,       /* operations in a kernel */
  KL_FUSE_REDUCTIONS = 32    /* of them reductions */
};

typedef struct kl_group {
  kl_space space;
  /* With reductions: dims [0, n_rows) are rows, the others columns, in the order of the reduction.
   * Without: -1, all dims are columns. */
  int n_rows;
  int32_t seed;
  int n_reductions;
  uint32_t n_counted; /* members that take room in the kernel: all but repetitions */
  KL_VEC(int32_t) members;   /* node indices, descending */
  KL_VEC(int32_t) consumers; /* groups that must run after: readers of what this one stores, and
                                writers over what this one reads */
  uint64_t visited;
} kl_group;

typedef struct kl_use {
  int32_t node;    /* the reader */
  int32_t operand; /* which of its operands */
} kl_use;

typedef struct kl_fusion {
  kl_graph *graph;
  int32_t *group_of; /* for each node; -1: none (leaf, inlined, dead) */
  kl_map **maps;     /* for each member: its iteration coordinates from those of the group */
  bool *stored;      /* the node's value is put in memory */
  bool *repeats;     /* the node will be an iteration of a loop (passes/roll.h) */
  uint8_t *stage;    /* loops of the group that must be over before it: reductions between */
  uint32_t *first_use; /* uses of node n: uses[first_use[n] .. first_use[n + 1]) */
  kl_use *uses;
  KL_VEC(kl_group) groups;
  kl_arena arena;
  uint64_t epoch;
} kl_fusion;

/* Requires: a verified graph without dead operands. Ensures: every live node that computes is in
 * one group or inlined where it is used; groups form no cycle; what one group reads of another is
 * stored. On failure call kl_fusion_finish all the same. */
kl_status kl_fuse(kl_graph *graph, kl_fusion *out_fusion) KL_MUST_CHECK;
void kl_fusion_finish(kl_fusion *fusion);

/* A node computed anew wherever it is used: the coordinates of INDEX, a filled COPY of a scalar. */
bool kl_node_is_inlined(const kl_fusion *fusion, int32_t node);

/* Whether a member's value differs along the columns of its group; else it is a row value. */
bool kl_member_is_full(const kl_fusion *fusion, int32_t node);

/* Whether an operand is read from memory, not computed in the reader's own group. */
bool kl_operand_is_memory(const kl_fusion *fusion, int32_t node, int operand);

/* The address of a memory operand over the space of the reader's group. */
kl_address kl_operand_address(const kl_fusion *fusion, int32_t node, int operand);
/* The address at which a stored member puts its value. */
kl_address kl_store_address(const kl_fusion *fusion, int32_t node);
/* Position of a member in group->members. */
uint32_t kl_group_position(const kl_group *group, int32_t node);
/* A path from one group to another along reads and orderings. */
bool kl_group_reaches(kl_fusion *fusion, int32_t from, int32_t to);

static inline bool kl_node_computes(const kl_node *node) {
  return !(node->flags & KL_NODE_DEAD) && node->op != KL_OP_LEAF && node->op != KL_OP_EMPTY;
}
static inline int kl_node_kept_dims(const kl_node *node) { return node->n_dims - node->n_reduced; }

#endif
