/* The expression functions that gradients are written with, and the call of a gradient. */
#include "frontend/autograd/grad.h"

#include <string.h>

#include "ir/support/memory.h"

kl_status kl_grad_apply(kl_autograd_node *node, kael_tensor *const *grads, const bool *wanted,
                        kael_tensor **out) {
  bool any_wanted = false;
  for (uint32_t k = 0; k < node->n_edges; k++) any_wanted |= wanted[k];
  KL_TRY(kl_node_check_saved(node));
  if (!any_wanted) return KL_OK; /* then a gradient function would have no spec to look at */
  kl_grad_call call = {.node = node, .grads = grads, .out = out, .wanted = wanted};
  call.temps = call.first_temps;
  call.temps_capacity = KL_GRAD_TEMPS;
  kl_status status = node->gradient->apply(&call);
  if (!status) status = call.status;
  for (uint32_t i = 0; i < call.n_temps; i++) kl_tensor_release(call.temps[i]);
  if (call.temps != call.first_temps) kl_free(call.temps);
  for (uint32_t k = 0; status && k < node->n_edges; k++) {
    kl_tensor_release(out[k]);
    out[k] = NULL;
  }
  return status;
}

/* --- Results -----------------------------------------------------------------------------------
 */

static bool reserve_temp(kl_grad_call *call) {
  if (call->n_temps < call->temps_capacity) return true;
  const uint32_t capacity = call->temps_capacity * 2;
  kael_tensor **temps = kl_malloc(capacity * sizeof *temps);
  if (!temps) return false;
  memcpy(temps, call->temps, call->n_temps * sizeof *temps);
  if (call->temps != call->first_temps) kl_free(call->temps);
  call->temps = temps;
  call->temps_capacity = capacity;
  return true;
}

kael_tensor *kl_expr_own(kl_grad_call *call, kl_status status, kael_tensor *tensor) {
  if (!status && !reserve_temp(call)) {
    kl_tensor_release(tensor);
    status = kl_fail_memory("a gradient", sizeof tensor);
  }
  if (status) {
    if (!call->status) call->status = status;
    return NULL;
  }
  return call->temps[call->n_temps++] = tensor;
}

void kl_expr_give(kl_grad_call *call, uint32_t i, kael_tensor *tensor) {
  if (!tensor || !kl_expr_wants(call, i)) return;
  call->out[i] = kl_tensor_retain(tensor);
}

kael_tensor *kl_expr_saved(kl_grad_call *call, int source) {
  kael_tensor *tensor = NULL;
  kl_status status = kl_node_unpack(call->node, source, &tensor);
  return kl_expr_own(call, status, tensor);
}

/* --- Operators ---------------------------------------------------------------------------------
 */

/* Calls the operator unless something failed before; the result belongs to the call. */
#define EXPR(operands_are_there, call_to_out)                                                      \
  kael_tensor *out = NULL;                                                                         \
  if (call->status || !(operands_are_there)) return NULL;                                          \
  kl_status status = (call_to_out);                                                                \
  return kl_expr_own(call, status, out)

#define X(name)                                                                                    \
  kael_tensor *kl_expr_##name(kl_grad_call *call, kael_tensor *a) { EXPR(a, kl_##name(a, &out)); }
KL_EXPR_UNARY(X)
#undef X
#define X(name)                                                                                    \
  kael_tensor *kl_expr_##name(kl_grad_call *call, kael_tensor *a, kael_tensor *b) {                \
    EXPR(a &&b, kl_##name(a, b, &out));                                                            \
  }
KL_EXPR_BINARY(X)
#undef X
#define X(name)                                                                                    \
  kael_tensor *kl_expr_##name##_number(kl_grad_call *call, kael_tensor *a, kael_scalar b) {        \
    EXPR(a, kl_##name##_scalar(a, b, &out));                                                       \
  }
KL_EXPR_NUMBER(X)
#undef X

kael_tensor *kl_expr_number_sub(kl_grad_call *call, double number, kael_tensor *a) {
  EXPR(a, kl_rsub_scalar(a, kael_f(number), &out));
}

kael_tensor *kl_expr_pow(kl_grad_call *call, kael_tensor *a, kael_scalar exponent) {
  EXPR(a, kl_pow(a, exponent, &out));
}

kael_tensor *kl_expr_sign(kl_grad_call *call, kael_tensor *a) {
  EXPR(a, kl_record_unary(KL_OP_SIGN, a, &out));
}

kael_tensor *kl_expr_where(kl_grad_call *call, kael_tensor *mask, kael_tensor *a, kael_tensor *b) {
  EXPR(mask && a && b, kl_where(mask, a, b, &out));
}

kael_tensor *kl_expr_masked_fill(kl_grad_call *call, kael_tensor *a, kael_tensor *mask,
                                 double number) {
  EXPR(a && mask, kl_masked_fill(a, mask, kael_f(number), &out));
}

kael_tensor *kl_expr_cast(kl_grad_call *call, kael_tensor *a, kl_dtype dtype) {
  EXPR(a, kl_to_dtype(a, dtype, &out));
}

kael_tensor *kl_expr_sum(kl_grad_call *call, kael_tensor *a, uint32_t mask, bool keepdim) {
  EXPR(a, kl_sum(a, mask, keepdim, &out));
}

kael_tensor *kl_expr_zeros(kl_grad_call *call, int ndim, const int64_t *shape, kl_dtype dtype) {
  EXPR(true, kl_full(dtype, ndim, shape, kael_f(0), &out));
}

kael_tensor *kl_expr_zeros_like(kl_grad_call *call, const kael_tensor *a) {
  EXPR(a, kl_full_like(a, kael_f(0), &out));
}

kael_tensor *kl_expr_reshape(kl_grad_call *call, kael_tensor *a, int ndim, const int64_t *shape) {
  EXPR(a, kl_reshape(a, ndim, shape, &out));
}

kael_tensor *kl_expr_expand(kl_grad_call *call, kael_tensor *a, int ndim, const int64_t *shape) {
  EXPR(a, kl_expand(a, ndim, shape, &out));
}

kael_tensor *kl_expr_transpose(kl_grad_call *call, kael_tensor *a, int dim0, int dim1) {
  EXPR(a, kl_transpose(a, dim0, dim1, &out));
}

kael_tensor *kl_expr_permute(kl_grad_call *call, kael_tensor *a, const int64_t *dims) {
  EXPR(a, kl_permute(a, a->ndim, dims, &out));
}

kael_tensor *kl_expr_unsqueeze(kl_grad_call *call, kael_tensor *a, int dim) {
  EXPR(a, kl_unsqueeze(a, dim, &out));
}

kael_tensor *kl_expr_narrow(kl_grad_call *call, kael_tensor *a, int dim, int64_t start,
                            int64_t length) {
  EXPR(a, kl_narrow(a, dim, start, length, &out));
}

kael_tensor *kl_expr_cat(kl_grad_call *call, kael_tensor *const *tensors, int n, int dim) {
  EXPR(true, kl_cat(tensors, n, dim, &out));
}

kael_tensor *kl_expr_gather(kl_grad_call *call, kael_tensor *a, int dim, kael_tensor *index) {
  EXPR(a && index, kl_gather(a, dim, index, &out));
}

kael_tensor *kl_expr_scatter_add(kl_grad_call *call, kael_tensor *a, int dim, kael_tensor *index,
                                 kael_tensor *src) {
  EXPR(a && index && src, kl_scatter_add(a, dim, index, src, &out));
}

kael_tensor *kl_expr_as_strided(kl_grad_call *call, kael_tensor *a, int ndim, const int64_t *shape,
                                const int64_t *strides, int64_t offset) {
  EXPR(a, kl_as_strided(a, ndim, shape, strides, offset, &out));
}

bool kl_expr_copy_into(kl_grad_call *call, kael_tensor *a, kael_tensor *src) {
  if (call->status || !a || !src) return false;
  call->status = kl_copy_(a, src);
  return call->status == KL_OK;
}
