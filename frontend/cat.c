/* cat: a new storage of any content, into which each tensor is written through a view. */
#include "frontend/compose.h"
#include "frontend/ops.h"
#include "frontend/promote.h"
#include "frontend/record_value.h"
#include "kael/nn.h"

/* PyTorch leaves out 1-d tensors without elements, whatever the other shapes are. */
static bool is_skipped(const kael_tensor *tensor) {
  return tensor->ndim == 1 && tensor->numel == 0;
}

/* The result's shape; ndim 0 means that all tensors are skipped, and then any dim will do. */
static kl_status cat_shape(kael_tensor *const *tensors, int n, int64_t dim, int *out_dim,
                           int *out_ndim, int64_t *out_shape) {
  const kael_tensor *first = NULL;
  for (int i = 0; i < n; i++) {
    const kael_tensor *tensor = tensors[i];
    if (tensor->ndim == 0)
      return kl_fail(KL_ERR_RUNTIME,
                     "cat: zero-dimensional tensor (at position %d) cannot be concatenated", i);
    if (is_skipped(tensor)) continue;
    if (!first) {
      first = tensor;
      KL_TRY(kl_dim_check(dim, tensor->ndim, out_dim));
      for (int d = 0; d < tensor->ndim; d++) out_shape[d] = d == *out_dim ? 0 : tensor->shape[d];
    }
    if (tensor->ndim != first->ndim)
      return kl_fail(KL_ERR_RUNTIME,
                     "cat: Tensors must have same number of dimensions: got %d and %d", first->ndim,
                     tensor->ndim);
    for (int d = 0; d < tensor->ndim; d++)
      if (d != *out_dim && tensor->shape[d] != out_shape[d])
        return kl_fail(
            KL_ERR_RUNTIME,
            "cat: Sizes of tensors must match except in dimension %d. Expected size %lld "
            "but got size %lld for tensor number %d in the list.",
            *out_dim, (long long)out_shape[d], (long long)tensor->shape[d], i);
    if (__builtin_add_overflow(out_shape[*out_dim], tensor->shape[*out_dim], &out_shape[*out_dim]))
      return kl_fail(KL_ERR_RUNTIME, "cat: the result is too large");
  }
  *out_ndim = first ? first->ndim : 0;
  return KL_OK;
}

/* Writes `tensor` at `start` along dim. */
static kl_status write_piece(kael_tensor *into, int dim, int64_t start, kael_tensor *tensor) {
  kael_tensor *piece;
  KL_TRY(kl_tensor_view(into, into->ndim, tensor->shape, into->strides,
                        into->offset + start * into->strides[dim], &piece));
  kl_op op = tensor->dtype == into->dtype ? KL_OP_COPY : KL_OP_CAST;
  kl_arg args[1] = {{.tensor = tensor}};
  kl_status status = kl_record_write(piece, op, (kl_dtype)into->dtype, args, 1);
  kl_tensor_release(piece);
  return status;
}

static kl_status raw_cat(kael_tensor *const *tensors, int n, int dim, kl_dtype dtype, int ndim,
                         const int64_t *shape, kael_tensor **out) {
  int64_t numel, start = 0;
  KL_TRY(kl_shape_check("cat", ndim, shape, &numel));
  kl_value *value;
  kael_tensor *result;
  KL_TRY(kl_value_create_empty(dtype, numel, &value));
  KL_TRY(kl_tensor_create_for_value(value, dtype, ndim, shape, NULL, &result));
  for (int i = 0; i < n; i++) {
    if (tensors[i]->numel == 0) continue;
    kl_status status = write_piece(result, dim, start, tensors[i]);
    if (status) {
      kl_tensor_release(result);
      return status;
    }
    start += tensors[i]->shape[dim];
  }
  atomic_store(&result->storage->version, 0); /* a new tensor has not been changed in place */
  *out = result;
  return KL_OK;
}

kl_status kl_cat(kael_tensor *const *tensors, int n, int64_t dim, kael_tensor **out) {
  kl_fn_attrs attrs = {0};
  int ndim = 0;
  int64_t shape[KL_MAX_RANK] = {0};
  kl_set_site("cat");
  if (n < 1) return kl_fail(KL_ERR_VALUE, "cat: expected a non-empty list of Tensors");
  KL_TRY(cat_shape(tensors, n, dim, &attrs.dim, &ndim, shape));
  kl_dtype dtype = kl_result_type(tensors, n, NULL);
  kael_tensor *result;
  if (ndim == 0) {
    KL_TRY(kl_record_fill(dtype, 1, shape, (kl_scalar){0}, &result));
  } else {
    KL_TRY(raw_cat(tensors, n, attrs.dim, dtype, ndim, shape, &result));
  }
  KL_TRY(kl_compose_track(KL_FN_CAT, tensors, n, &attrs, &result));
  *out = result;
  return KL_OK;
}

kael_tensor *kael_cat(kael_tensor *const *tensors, int n, int64_t dim) {
  if (n > 0 && kl_operand_missing((const kael_tensor *const *)tensors, n)) return NULL;
  kael_tensor *out = NULL;
  kl_status status = kl_cat(tensors, n, dim, &out);
  return kl_hand_out(status, out);
}
