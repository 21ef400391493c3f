/* Arithmetic of views. */
#include "frontend/strides.h"

kl_status kl_infer_shape(const char *op, int ndim, const int64_t *shape, int64_t numel,
                         int64_t *out_shape) {
  if (ndim < 0 || ndim > KL_MAX_RANK || (ndim > 0 && !shape))
    return kl_fail(KL_ERR_VALUE, "%s: a shape has 0 to %d dims, not %d", op, KL_MAX_RANK, ndim);
  int unknown = -1;
  int64_t known = 1;
  bool fits = true;
  for (int d = 0; d < ndim; d++) {
    out_shape[d] = shape[d];
    if (shape[d] == -1) {
      if (unknown >= 0)
        return kl_fail(KL_ERR_RUNTIME, "%s: only one dimension can be inferred", op);
      unknown = d;
    } else if (shape[d] < 0) {
      return kl_fail(KL_ERR_RUNTIME, "%s: invalid shape dimension %lld", op, (long long)shape[d]);
    } else if (__builtin_mul_overflow(known, shape[d], &known)) {
      fits = false;
    }
  }
  if (fits && unknown >= 0 && known == 0)
    return kl_fail(
        KL_ERR_RUNTIME,
        "%s: cannot reshape tensor of %lld elements into shape %s because the unspecified "
        "dimension size -1 can be any value and is ambiguous",
        op, (long long)numel, kl_shape_text(ndim, shape));
  fits = fits && (unknown >= 0 ? numel % known == 0 : known == numel);
  if (!fits)
    return kl_fail(KL_ERR_RUNTIME, "%s: shape '%s' is invalid for input of size %lld", op,
                   kl_shape_text(ndim, shape), (long long)numel);
  if (unknown >= 0) out_shape[unknown] = numel / known;
  return KL_OK;
}

/* Walks self's dims from the last one, gathering those that follow each other without a jump; each
 * such piece must be a product of new sizes. */
bool kl_view_strides(const kael_tensor *self, int ndim, const int64_t *shape,
                     int64_t *out_strides) {
  if (self->numel == 0) {
    /* No element to place; an unchanged shape keeps its strides, as PyTorch has it. */
    if (kl_shape_equal(ndim, shape, self->ndim, self->shape))
      for (int d = 0; d < ndim; d++) out_strides[d] = self->strides[d];
    else
      kl_shape_contiguous(ndim, shape, out_strides);
    return true;
  }
  int into = ndim - 1;
  int64_t piece_stride = self->ndim ? self->strides[self->ndim - 1] : 1;
  int64_t piece = 1, covered = 1;
  for (int d = self->ndim - 1; d >= 0; d--) {
    piece *= self->shape[d];
    bool ends = d == 0 || (self->shape[d - 1] != 1 && self->strides[d - 1] != piece * piece_stride);
    if (!ends) continue;
    for (; into >= 0 && (covered < piece || shape[into] == 1); into--) {
      out_strides[into] = covered * piece_stride;
      covered *= shape[into];
    }
    if (covered != piece) return false;
    if (d > 0) {
      piece_stride = self->strides[d - 1];
      piece = covered = 1;
    }
  }
  if (self->ndim == 0)
    for (; into >= 0; into--) out_strides[into] = 1;
  return into < 0;
}

kl_status kl_expand_shape(const kael_tensor *self, int ndim, const int64_t *shape,
                          int64_t *out_shape, int64_t *out_strides) {
  if (ndim > KL_MAX_RANK || ndim < self->ndim || (ndim > 0 && !shape))
    return kl_fail(
        KL_ERR_RUNTIME,
        "expand: the number of sizes provided (%d) must be greater or equal to the number "
        "of dimensions in the tensor (%d), and at most %d",
        ndim, self->ndim, KL_MAX_RANK);
  int lead = ndim - self->ndim;
  int64_t next_stride = 1;
  for (int d = ndim - 1; d >= 0; d--) {
    int64_t size = d < lead ? 1 : self->shape[d - lead];
    int64_t stride = d < lead ? next_stride : self->strides[d - lead];
    int64_t wanted = shape[d];
    if (wanted == -1 && d < lead)
      return kl_fail(
          KL_ERR_RUNTIME,
          "The expanded size of the tensor (-1) isn't allowed in a leading, non-existing "
          "dimension %d",
          d);
    if (wanted == -1) wanted = size;
    if (wanted < 0)
      return kl_fail(KL_ERR_RUNTIME, "expand: sizes must not be negative: %s",
                     kl_shape_text(ndim, shape));
    if (wanted != size && size != 1)
      return kl_fail(
          KL_ERR_RUNTIME,
          "The expanded size of the tensor (%lld) must match the existing size (%lld) at "
          "non-singleton dimension %d.  Target sizes: %s.  Tensor sizes: %s",
          (long long)wanted, (long long)size, d, kl_shape_text(ndim, shape),
          kl_shape_text(self->ndim, self->shape));
    out_shape[d] = wanted;
    out_strides[d] = wanted != size ? 0 : stride;
    next_stride = stride * size;
  }
  int64_t numel;
  return kl_shape_check("expand", ndim, out_shape, &numel);
}

kl_status kl_check_bounds(const char *op, int ndim, const int64_t *shape, const int64_t *strides,
                          int64_t offset, kl_dtype dtype, size_t storage_nbytes) {
  int64_t numel;
  KL_TRY(kl_shape_check(op, ndim, shape, &numel));
  if (ndim > 0 && !strides) return kl_fail(KL_ERR_VALUE, "%s: the strides are NULL", op);
  if (offset < 0)
    return kl_fail(KL_ERR_RUNTIME, "%s: the offset must not be negative, got %lld", op,
                   (long long)offset);
  int64_t last = offset, total = offset, reach;
  bool overflows = false;
  for (int d = 0; d < ndim; d++) {
    if (strides[d] < 0)
      return kl_fail(KL_ERR_RUNTIME,
                     "%s: Negative strides are not supported at the moment, got strides: %s", op,
                     kl_shape_text(ndim, strides));
    /* Views of the tensor multiply and add its strides, whether there are elements or not. */
    overflows |= __builtin_mul_overflow(strides[d], shape[d] > 0 ? shape[d] : 1, &reach);
    overflows |= __builtin_add_overflow(total, reach, &total);
    if (numel > 0 && !overflows) last += reach - strides[d];
  }
  int64_t n_elems = (int64_t)(storage_nbytes / kl_dtype_size(dtype));
  if (!overflows && (numel == 0 ? offset <= n_elems : last < n_elems)) return KL_OK;
  return kl_fail(
      KL_ERR_RUNTIME,
      "%s: setStorage: sizes %s, strides %s, storage offset %lld, and itemsize %zu are out "
      "of bounds for storage of size %zu",
      op, kl_shape_text(ndim, shape), kl_shape_text(ndim, strides), (long long)offset,
      kl_dtype_size(dtype), storage_nbytes);
}
