/* The backward pass. */
#ifndef KL_FRONTEND_AUTOGRAD_ENGINE_H
#define KL_FRONTEND_AUTOGRAD_ENGINE_H

#include "frontend/autograd/meta.h"

typedef struct kl_backward_run {
  const kl_autograd_edge *roots; /* where the pass starts */
  kael_tensor *const *seeds;     /* with these gradients; borrowed */
  uint32_t n_roots;
  const kl_autograd_edge *inputs; /* none: gradients go to the leaves; else they are caught here */
  kael_tensor **caught;           /* one for each input, owned by the caller; NULL at first */
  uint32_t n_inputs;
  bool retain_graph, create_graph;
} kl_backward_run;

/* Walks the graph from the roots, the latest node first. On failure what was caught is released. */
kl_status kl_engine_run(const kl_backward_run *run) KL_MUST_CHECK;

/* Adds `*grad` to the leaf's gradient; may take the tensor itself where nobody else has it. */
kl_status kl_accumulate(kael_tensor *leaf, kael_tensor **grad) KL_MUST_CHECK;
/* Runs the retain_grad of output `slot` of the node. */
kl_status kl_retain_grads(const kl_autograd_node *node, uint32_t slot,
                          kael_tensor *grad) KL_MUST_CHECK;

#endif
