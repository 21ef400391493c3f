/* Nodes of the backward graph: one for each call of a public operator that autograd tracks.
 *
 * A node owns its edges (to the nodes of what the operator read), the saved tensors, and the shapes
 * of its outputs. Nothing in it refers to the output tensors, so there are no cycles; a node of a
 * leaf (AccumulateGrad) owns the leaf, which refers back weakly. Counted; freed without recursion.
 */
#ifndef KL_FRONTEND_AUTOGRAD_NODE_H
#define KL_FRONTEND_AUTOGRAD_NODE_H

#include "frontend/autograd_hooks.h"

typedef struct kl_autograd_node kl_autograd_node;

typedef struct kl_autograd_edge {
  kl_autograd_node *node; /* owned; NULL: no gradient is wanted */
  uint32_t slot;          /* which output of that node */
} kl_autograd_edge;

/* What a gradient must look like. */
typedef struct kl_autograd_spec {
  const int64_t *shape; /* inside the node's block, or the leaf's own */
  uint8_t ndim, dtype;
} kl_autograd_spec;

enum { KL_SAVED_RESULT = 3 }; /* sources 0 to 2 are inputs */

/* A tensor as it was when the operator ran. */
typedef struct kl_saved_tensor {
  kl_storage *storage; /* owned; NULL before it is saved and after it was freed */
  uint64_t version;
  int64_t offset;
  int64_t *shape, *strides; /* inside the node's block */
  uint8_t ndim, dtype, source;
} kl_saved_tensor;

/* What a gradient needs of the call's attributes; see kl_fn_attrs. */
typedef struct kl_node_args {
  int dim, dim1, reduction;
  uint32_t mask;
  int64_t start, end, step;
  bool keepdim, other_is_number;
  kael_scalar number, number2;
} kl_node_args;

struct kl_grad_call;

/* A row of gradients.def. */
typedef struct kl_gradient {
  const char *name;
  kl_status (*apply)(struct kl_grad_call *call);
  uint8_t save[3]; /* input i is saved where an input of these bits requires a gradient */
  bool save_result;
} kl_gradient;

struct kl_autograd_meta;
struct kl_hook_entry;

struct kl_autograd_node {
  atomic_int refs;
  uint16_t fn;   /* kl_fn */
  bool released; /* the saved tensors were freed by a backward pass */
  const kl_gradient *gradient;
  uint64_t sequence; /* order of creation */
  uint32_t n_edges, n_outputs, n_saved, n_extra, block_nbytes;
  kl_autograd_edge *edges;
  kl_autograd_spec *outputs;
  kl_saved_tensor *saved;
  int64_t *extra; /* sizes and strides that only some operators need: see node.c */
  kl_node_args args;
  kael_tensor *variable;              /* AccumulateGrad: the leaf, owned */
  kl_autograd_node *inner;            /* CopySlices: the operation in place, owned */
  kl_autograd_node *outer;            /* of such an operation: its CopySlices, borrowed */
  struct kl_hook_entry *hooks;        /* on its outputs, in order; owned */
  struct kl_autograd_meta *retainers; /* tensors that want their gradient kept; borrowed */
  kl_autograd_node *next;             /* list of the dying */
};

/* The row for `fn`; its `apply` is NULL where the operator has no gradient. */
const kl_gradient *kl_gradient_of(kl_fn fn);
extern const kl_gradient kl_gradient_accumulate, kl_gradient_copy_slices;

/* A node for a call: edges to the inputs' history, specs of the outputs, and the inputs that the
 * gradient needs, saved. In place, outputs[0] is inputs[0], of whose contents a copy is saved. */
kl_status kl_node_create(kl_fn fn, kael_tensor *const *inputs, int n_inputs,
                         kael_tensor *const *outputs, int n_outputs, const kl_fn_attrs *attrs,
                         bool inplace, kl_autograd_node **out_node) KL_MUST_CHECK;
/* A node without a call, all its arrays zeroed. `n_ints` int64 follow for specs and saved tensors.
 */
kl_status kl_node_alloc(const kl_gradient *gradient, uint32_t n_edges, uint32_t n_outputs,
                        uint32_t n_saved, uint32_t n_extra, uint32_t n_ints,
                        kl_autograd_node **out_node, int64_t **out_ints) KL_MUST_CHECK;
static inline kl_autograd_node *kl_node_retain(kl_autograd_node *node) {
  atomic_fetch_add_explicit(&node->refs, 1, memory_order_relaxed);
  return node;
}
void kl_node_release(kl_autograd_node *node); /* NULL is fine */
/* PyTorch's name for it: "MulBackward0". */
const char *kl_node_name(const kl_autograd_node *node);
/* What the gradient that goes over `edge` must look like. */
static inline const kl_autograd_spec *kl_edge_spec(const kl_autograd_edge *edge) {
  return &edge->node->outputs[edge->slot];
}

/* Saved tensors (saved.c). */
void kl_saved_pack(kl_saved_tensor *saved, const kael_tensor *tensor);
void kl_node_save_result(kl_autograd_node *node, const kael_tensor *result);
/* An error where a saved tensor's contents have changed since, or where a backward pass has freed
 * it; whether it is needed or not, as in PyTorch. */
kl_status kl_node_check_saved(const kl_autograd_node *node) KL_MUST_CHECK;
/* The tensor saved from `source`, with its history where gradient mode is on. Checked before. */
kl_status kl_node_unpack(const kl_autograd_node *node, int source,
                         kael_tensor **out_tensor) KL_MUST_CHECK;
void kl_node_free_saved(kl_autograd_node *node);

#endif
