/* What composed operators share. */
#ifndef KL_FRONTEND_COMPOSE_H
#define KL_FRONTEND_COMPOSE_H

#include "frontend/autograd_hooks.h"

/* Gives *result its history where that is wanted; on failure *result is released. */
static inline kl_status kl_compose_track(kl_fn fn, kael_tensor *const *inputs, int n_inputs,
                                         const kl_fn_attrs *attrs, kael_tensor **result) {
  if (!kl_autograd_wanted(inputs, n_inputs)) return KL_OK;
  kl_status status = kl_autograd_track(fn, inputs, n_inputs, result, 1, attrs);
  if (status) kl_tensor_release(*result);
  return status;
}

kl_status kl_check_index_dtype(const kael_tensor *index) KL_MUST_CHECK;
/* Raw: the product of tensors that the caller need not have checked. */
kl_status kl_matmul_untracked(kael_tensor *a, kael_tensor *b, kael_tensor **out) KL_MUST_CHECK;

#endif
