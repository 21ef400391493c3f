/* What the operators tell autograd; implemented in frontend/autograd/.
 *
 * A tensor whose `autograd` is NULL requires no gradient, is no tracked view and has no history.
 * Calls come in this order:
 *   a new tensor    the op is recorded raw, then kl_autograd_track
 *   a view          kl_tensor_view, then kl_autograd_track_view
 *   in place        kl_check_inplace, kl_autograd_inplace_begin, the raw write (bumps the
 *                   version), kl_autograd_inplace_end (or _cancel where the write failed)
 */
#ifndef KL_FRONTEND_AUTOGRAD_HOOKS_H
#define KL_FRONTEND_AUTOGRAD_HOOKS_H

#include "frontend/context.h"
#include "frontend/fn.h"

/* Whether `tensor` requires a gradient (leaf or not). Only called where autograd is not NULL. */
bool kl_autograd_requires_grad(const kael_tensor *tensor);

/* Gradient mode is on and an input requires a gradient: what decides about kl_autograd_track. */
static inline bool kl_autograd_wanted(kael_tensor *const *inputs, int n_inputs) {
  if (kl_thread.grad_disabled) return false;
  for (int i = 0; i < n_inputs; i++)
    if (inputs[i] && inputs[i]->autograd && kl_autograd_requires_grad(inputs[i])) return true;
  return false;
}

/* `outputs` were made by `fn` from `inputs` (the public operator's tensor arguments in order, an
 * absent optional one NULL): gives them history. Called only if kl_autograd_wanted. Outputs that
 * are not floating get none. `attrs` and `inputs` are borrowed. */
kl_status kl_autograd_track(kl_fn fn, kael_tensor *const *inputs, int n_inputs,
                            kael_tensor *const *outputs, int n_outputs,
                            const kl_fn_attrs *attrs) KL_MUST_CHECK;

/* `views` were made from `base` by one call of `fn`. Called for every view but detach, in every
 * mode (an in-place operation on a view may give history to its base later). Several views
 * (unbind, split) are outputs of a function with several views. */
kl_status kl_autograd_track_view(kl_fn fn, kael_tensor *base, kael_tensor *const *views,
                                 int n_views, const kl_fn_attrs *attrs) KL_MUST_CHECK;

/* `fn` is about to change `self` in place. inputs[0] is self, the rest its other tensor arguments.
 * Does the leaf and view checks; saves what the gradient needs of the old contents (a clone of
 * self, where that is it); *out_node is NULL where nothing is tracked. Called when gradient mode is
 * on and any input has `autograd`, or self has. */
struct kl_autograd_node;
kl_status kl_autograd_inplace_begin(kl_fn fn, kael_tensor *const *inputs, int n_inputs,
                                    const kl_fn_attrs *attrs,
                                    struct kl_autograd_node **out_node) KL_MUST_CHECK;
/* The write is recorded: makes the node self's history (of its base, where self is a view). */
kl_status kl_autograd_inplace_end(struct kl_autograd_node *node, kael_tensor *self) KL_MUST_CHECK;
void kl_autograd_inplace_cancel(struct kl_autograd_node *node);

/* Whether kl_autograd_inplace_begin must be called. */
static inline bool kl_autograd_sees(kael_tensor *const *inputs, int n_inputs) {
  if (kl_thread.grad_disabled) return false;
  for (int i = 0; i < n_inputs; i++)
    if (inputs[i] && inputs[i]->autograd) return true;
  return false;
}

/* After the write, with its status. */
static inline kl_status kl_autograd_inplace_finish(kl_status status, struct kl_autograd_node *node,
                                                   kael_tensor *self) {
  if (!node) return status;
  if (status == KL_OK) return kl_autograd_inplace_end(node, self);
  kl_autograd_inplace_cancel(node);
  return status;
}

/* The tensor dies: frees its meta. Must not recurse however long the history is. */
void kl_autograd_meta_destroy(struct kl_autograd_meta *meta);
/* For explain: writes a few words ("leaf, requires grad", "grad_fn=MulBackward") into `text`. */
void kl_autograd_describe(const kael_tensor *tensor, char *text, size_t capacity);

#endif
