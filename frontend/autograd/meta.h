/* What autograd keeps with a tensor: whether it requires a gradient, its history, its gradient, and
 * for a view the tensor that it is a view of.
 *
 * A view's history follows its base: where the storage's version has moved on since it was made, it
 * is made again from the base's (kl_meta_history), as in PyTorch.
 */
#ifndef KL_FRONTEND_AUTOGRAD_META_H
#define KL_FRONTEND_AUTOGRAD_META_H

#include "frontend/autograd/node.h"

typedef enum kl_view_kind {
  KL_VIEW_NONE, /* no view, or one that nothing tracks */
  KL_VIEW_NORMAL,
  KL_VIEW_MULTI,    /* of a function with several views */
  KL_VIEW_NO_GRAD,  /* made while gradient mode was off */
  KL_VIEW_INFERENCE /* made in inference mode */
} kl_view_kind;

typedef struct kl_autograd_meta {
  bool requires_grad; /* a leaf's flag */
  bool retains_grad;
  uint8_t view_kind;
  uint32_t slot;                          /* of grad_fn */
  kl_autograd_node *grad_fn;              /* owned; NULL: a leaf */
  kl_autograd_node *accumulator;          /* weak; under the accumulators' lock */
  kael_tensor *grad;                      /* owned */
  kael_tensor *base;                      /* views: owned, never a view itself */
  uint64_t version;                       /* views: the storage's when grad_fn was made */
  struct kl_hook_entry *hooks;            /* of a leaf; owned */
  struct kl_autograd_meta *next_retainer; /* in the list of grad_fn */
} kl_autograd_meta;

/* The tensor's meta, made where there is none. */
kl_status kl_meta_ensure(kael_tensor *tensor, kl_autograd_meta **out_meta) KL_MUST_CHECK;
/* What made the tensor (borrowed; NULL for a leaf) and which of its outputs it is. */
kl_status kl_meta_history(kael_tensor *tensor, kl_autograd_node **out_node,
                          uint32_t *out_slot) KL_MUST_CHECK;
/* Where the tensor's gradient goes: an owned edge, empty where it requires none. */
kl_status kl_meta_edge(kael_tensor *tensor, kl_autograd_edge *out_edge) KL_MUST_CHECK;
/* Makes output `slot` of `node` the history (the reference is taken over; NULL: a leaf). */
void kl_meta_set_history(kael_tensor *tensor, kl_autograd_node *node, uint32_t slot);
/* The node of a leaf is dying: forgets it. False where another thread has just revived it. */
void kl_meta_forget_accumulator(kl_autograd_node *node);

/* The error for a view that is changed in place and may not be; `indirect`: through its base. */
kl_status kl_meta_check_view(const kl_autograd_meta *meta, bool indirect) KL_MUST_CHECK;

/* Inference mode of this thread. */
bool kl_inference_enabled(void);

#endif
