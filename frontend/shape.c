/* Shapes: products, row-major strides, and the checks of dims, with PyTorch's texts. */
#include <stdio.h>

#include "frontend/tensor.h"

/* The bytes are counted as if each element had eight, the most that any dtype has: so that a cast,
 * or an index over the same shape, cannot overflow where the tensor did not. */
kl_status kl_shape_check(const char *op, int ndim, const int64_t *shape, int64_t *out_numel) {
  if (ndim < 0 || ndim > KL_MAX_RANK)
    return kl_fail(KL_ERR_VALUE, "%s: a tensor has 0 to %d dims, not %d", op, KL_MAX_RANK, ndim);
  if (ndim > 0 && !shape) return kl_fail(KL_ERR_VALUE, "%s: the shape is NULL", op);
  int64_t numel = 1, nbytes = sizeof(int64_t);
  bool overflows = false;
  for (int d = 0; d < ndim; d++) {
    if (shape[d] < 0)
      return kl_fail(KL_ERR_RUNTIME, "%s: Trying to create tensor with negative dimension %lld: %s",
                     op, (long long)shape[d], kl_shape_text(ndim, shape));
    /* A size of 0 must not hide an overflow of the others: strides are made of them. */
    int64_t size = shape[d] ? shape[d] : 1;
    overflows |= __builtin_mul_overflow(nbytes, size, &nbytes);
    numel *= overflows ? 1 : shape[d];
  }
  if (overflows)
    return kl_fail(KL_ERR_RUNTIME, "%s: a tensor of shape %s is larger than memory can be", op,
                   kl_shape_text(ndim, shape));
  *out_numel = numel;
  return KL_OK;
}

void kl_shape_contiguous(int ndim, const int64_t *shape, int64_t *out_strides) {
  int64_t stride = 1;
  for (int d = ndim - 1; d >= 0; d--) {
    out_strides[d] = stride;
    stride *= shape[d] > 0 ? shape[d] : 1;
  }
}

bool kl_shape_equal(int ndim_a, const int64_t *a, int ndim_b, const int64_t *b) {
  if (ndim_a != ndim_b) return false;
  for (int d = 0; d < ndim_a; d++)
    if (a[d] != b[d]) return false;
  return true;
}

const char *kl_shape_text(int ndim, const int64_t *shape) {
  enum { BUFFERS = 4, CAPACITY = KL_MAX_RANK * 22 + 4 };
  static _Thread_local char buffers[BUFFERS][CAPACITY];
  static _Thread_local unsigned turn;
  char *text = buffers[turn++ % BUFFERS];
  int at = snprintf(text, CAPACITY, "[");
  for (int d = 0; d < ndim && d < KL_MAX_RANK; d++)
    at += snprintf(text + at, (size_t)(CAPACITY - at), d ? ", %lld" : "%lld", (long long)shape[d]);
  snprintf(text + at, (size_t)(CAPACITY - at), "]");
  return text;
}

kl_status kl_dim_check(int64_t dim, int ndim, int *out_dim) {
  int n = ndim > 0 ? ndim : 1;
  if (dim < -n || dim >= n)
    return kl_fail(KL_ERR_INDEX,
                   "Dimension out of range (expected to be in range of [%d, %d], but got %lld)", -n,
                   n - 1, (long long)dim);
  *out_dim = (int)(dim < 0 ? dim + n : dim);
  return KL_OK;
}

kl_status kl_axes_check(const int64_t *axes, int n_axes, int ndim, uint32_t *out_mask) {
  uint32_t mask = 0;
  if (n_axes < 0) return kl_fail(KL_ERR_VALUE, "the number of dims is negative: %d", n_axes);
  if (n_axes > 0 && !axes) return kl_fail(KL_ERR_VALUE, "the list of dims is NULL");
  for (int i = 0; i < n_axes; i++) {
    int dim = 0;
    KL_TRY(kl_dim_check(axes[i], ndim, &dim));
    if (mask >> dim & 1)
      return kl_fail(KL_ERR_RUNTIME, "dim %d appears multiple times in the list of dims", dim);
    mask |= UINT32_C(1) << dim;
  }
  *out_mask = n_axes > 0 ? mask : (UINT32_C(1) << ndim) - 1;
  return KL_OK;
}
