/* kael/autograd.h: gradients.
 *
 * While gradient mode is on, every operation on a floating tensor that requires a gradient is
 * remembered, in eager and in lazy mode alike. A backward pass walks what was remembered, at the
 * call, and records the gradients as ordinary operations: they are as lazy as all others.
 * Where a function below fails, it stores an error (kael/error.h); none materializes.
 */
#ifndef KAEL_AUTOGRAD_H
#define KAEL_AUTOGRAD_H

#include "kael/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- Modes of the calling thread. Each setter returns the former mode, to be set again later. ----
 */

/* Off: nothing is remembered ("no_grad"), and leaves may be changed in place. */
KAEL_API bool kael_set_grad_enabled(bool enabled);
KAEL_API bool kael_is_grad_enabled(void);
/* On: as with gradient mode off; a view made so may not be changed in place later, while gradient
 * mode is on. */
KAEL_API bool kael_set_inference_mode(bool enabled);
KAEL_API bool kael_is_inference_mode(void);

/* --- Tensors. ------------------------------------------------------------------------------------
 */

/* Whether gradients flow to the tensor; false for NULL. */
KAEL_API bool kael_requires_grad(const kael_tensor *self);
/* Sets the flag of a leaf. Errors: a dtype that is not floating; false for a tensor with history.
 */
KAEL_API kael_status kael_requires_grad_(kael_tensor *self, bool requires_grad);
/* Whether no operation that autograd remembers made the tensor. */
KAEL_API bool kael_is_leaf(kael_tensor *self);
/* The name of the operation that made it, as PyTorch's ("MulBackward0"), static; NULL for a leaf,
 * or where a view may no longer be used (then an error is stored). */
KAEL_API const char *kael_grad_fn_name(kael_tensor *self);
/* Forgets the history. Error: self is a view. */
KAEL_API kael_status kael_detach_(kael_tensor *self);

/* The gradient that backward left: an owned handle to the same tensor every time. NULL when there
 * is none, without an error (or when self is NULL). */
KAEL_API kael_tensor *kael_grad(kael_tensor *self);
/* Sets it (another reference is taken), or with KAEL_NONE takes it away. Errors: another shape,
 * dtype or device than self's. */
KAEL_API kael_status kael_set_grad(kael_tensor *self, kael_tensor *grad);
/* Makes backward keep the gradient of a tensor with history. Error: it requires none. */
KAEL_API kael_status kael_retain_grad(kael_tensor *self);
KAEL_API bool kael_retains_grad(const kael_tensor *self);

/* --- Hooks. --------------------------------------------------------------------------------------
 */

typedef struct kael_hook kael_hook;
/* Sees a tensor's gradient before it flows on. `grad` is borrowed and must not be changed in place.
 * It may set *out_grad, which is NULL at first, to an owned tensor of the same shape and dtype,
 * which then stands for the gradient. Any status but KAEL_OK ends the backward pass with it. */
typedef kael_status (*kael_hook_fn)(kael_tensor *grad, void *user, kael_tensor **out_grad);
/* Hooks run in the order of registering. `destroy` (or NULL) is called on `user` when the hook is
 * removed or can no longer run. Returns an owned handle; NULL after an error: self requires no
 * gradient. Hooks stay with the value that they were registered for when self changes in place. */
KAEL_API kael_hook *kael_register_hook(kael_tensor *self, kael_hook_fn fn, void *user,
                                       void (*destroy)(void *user));
/* Removes the hook and frees the handle. NULL is fine. */
KAEL_API void kael_hook_remove(kael_hook *hook);
/* Frees the handle; the hook stays. NULL is fine. */
KAEL_API void kael_hook_release(kael_hook *hook);

/* --- Backward. -----------------------------------------------------------------------------------
 */

/* Adds to the gradient of every leaf that self depends on. `grad` is self's gradient, or KAEL_NONE
 * for 1, where self has one element. `retain_graph` keeps what a second pass needs; `create_graph`
 * also remembers the operations of the pass, so that gradients can be differentiated.
 * Errors: self requires no gradient, a gradient of another shape, saved tensors that were freed or
 * changed in place since; hooks'. Gradients already added before an error stay. */
KAEL_API kael_status kael_backward(kael_tensor *self, kael_tensor *grad, bool retain_graph,
                                   bool create_graph);
/* The same from several tensors in one pass. `grads` NULL: KAEL_NONE for each. */
KAEL_API kael_status kael_backward_all(kael_tensor *const *tensors, kael_tensor *const *grads,
                                       size_t n_tensors, bool retain_graph, bool create_graph);

typedef struct kael_grad_options {
  size_t size; /* sizeof(kael_grad_options) */
  bool retain_graph, create_graph;
  bool allow_unused; /* an input that no output depends on gets NULL; else it is an error */
} kael_grad_options;
/* Gradients of `outputs` with respect to `inputs`, which need not be leaves; nothing is
 * accumulated. `grads` as in kael_backward_all. out_grads[i] becomes an owned handle, or NULL where
 * unused; on failure it is untouched. `options` NULL: all false. */
KAEL_API kael_status kael_autograd_grad(kael_tensor *const *outputs, kael_tensor *const *grads,
                                        size_t n_outputs, kael_tensor *const *inputs,
                                        size_t n_inputs, const kael_grad_options *options,
                                        kael_tensor **out_grads);

#ifdef __cplusplus
}
#endif
#endif
