/* Views that make one tensor: shapes and strides computed, bounds checked, autograd told. */
#include "kael/view.h"
#include "frontend/ops.h"
#include "frontend/strides.h"

/* Makes a view and tells autograd of it. */
static kl_status make_view(kl_fn fn, kael_tensor *base, int ndim, const int64_t *shape,
                           const int64_t *strides, int64_t offset, const kl_fn_attrs *attrs,
                           kael_tensor **out) {
  kael_tensor *view;
  KL_TRY(kl_tensor_view(base, ndim, shape, strides, offset, &view));
  kl_status status = kl_autograd_track_view(fn, base, &view, 1, attrs);
  if (status)
    kl_tensor_release(view);
  else
    *out = view;
  return status;
}

static void set_dims(kl_fn_attrs *attrs, int ndim, const int64_t *dims) {
  attrs->ndim = ndim;
  for (int d = 0; d < ndim; d++) attrs->dims[d] = dims[d];
}

/* --- view, reshape ---------------------------------------------------------------------------- */

kl_status kl_view(kael_tensor *self, int ndim, const int64_t *shape, kael_tensor **out) {
  kl_fn_attrs attrs = {0};
  int64_t strides[KL_MAX_RANK];
  kl_set_site("view");
  KL_TRY(kl_infer_shape("view", ndim, shape, self->numel, attrs.dims));
  int64_t numel; /* sizes beside one of 0 may still be too large */
  KL_TRY(kl_shape_check("view", ndim, attrs.dims, &numel));
  attrs.ndim = ndim;
  if (!kl_view_strides(self, ndim, attrs.dims, strides))
    return kl_fail(
        KL_ERR_RUNTIME,
        "view: view size is not compatible with input tensor's size and stride (at least "
        "one dimension spans across two contiguous subspaces). Use .reshape(...) instead: "
        "shape %s, strides %s, asked for %s",
        kl_shape_text(self->ndim, self->shape), kl_shape_text(self->ndim, self->strides),
        kl_shape_text(ndim, attrs.dims));
  return make_view(KL_FN_VIEW, self, ndim, attrs.dims, strides, self->offset, &attrs, out);
}

kl_status kl_reshape(kael_tensor *self, int ndim, const int64_t *shape, kael_tensor **out) {
  int64_t full[KL_MAX_RANK], strides[KL_MAX_RANK], numel;
  kl_set_site("reshape");
  KL_TRY(kl_infer_shape("reshape", ndim, shape, self->numel, full));
  KL_TRY(kl_shape_check("reshape", ndim, full, &numel));
  if (kl_view_strides(self, ndim, full, strides)) return kl_view(self, ndim, full, out);
  kael_tensor *copy;
  KL_TRY(kl_clone(self, &copy));
  kl_status status = kl_view(copy, ndim, full, out);
  kl_tensor_release(copy);
  return status;
}

static kl_status flatten(kael_tensor *self, int64_t start, int64_t end, kael_tensor **out) {
  int first = 0, last = 0;
  int64_t shape[KL_MAX_RANK] = {1};
  KL_TRY(kl_dim_check(start, self->ndim, &first));
  KL_TRY(kl_dim_check(end, self->ndim, &last));
  if (first > last)
    return kl_fail(KL_ERR_RUNTIME,
                   "flatten() has invalid args: start_dim cannot come after end_dim");
  if (self->ndim == 0) return kl_reshape(self, 1, shape, out);
  if (first == last) {
    *out = kl_tensor_retain(self);
    return KL_OK;
  }
  int ndim = 0;
  for (int d = 0; d < self->ndim; d++) {
    if (d > first && d <= last)
      shape[ndim - 1] *= self->shape[d];
    else
      shape[ndim++] = self->shape[d];
  }
  return kl_reshape(self, ndim, shape, out);
}

/* --- The order of dims ------------------------------------------------------------------------ */

kl_status kl_permute(kael_tensor *self, int ndim, const int64_t *dims, kael_tensor **out) {
  kl_fn_attrs attrs = {.ndim = ndim};
  int64_t shape[KL_MAX_RANK], strides[KL_MAX_RANK];
  uint32_t seen = 0;
  kl_set_site("permute");
  if (ndim != self->ndim)
    return kl_fail(
        KL_ERR_RUNTIME,
        "permute: number of dimensions in the tensor input does not match the length of "
        "the desired ordering of dimensions: input.dim() = %d is not equal to len(dims) = "
        "%d",
        self->ndim, ndim);
  if (ndim > 0 && !dims) return kl_fail(KL_ERR_VALUE, "permute: the list of dims is NULL");
  for (int d = 0; d < ndim; d++) {
    int from = 0;
    KL_TRY(kl_dim_check(dims[d], ndim, &from));
    if (seen >> from & 1)
      return kl_fail(KL_ERR_RUNTIME, "permute: duplicate dims are not allowed: %s",
                     kl_shape_text(ndim, dims));
    seen |= UINT32_C(1) << from;
    attrs.dims[d] = from;
    shape[d] = self->shape[from];
    strides[d] = self->strides[from];
  }
  return make_view(KL_FN_PERMUTE, self, ndim, shape, strides, self->offset, &attrs, out);
}

kl_status kl_transpose(kael_tensor *self, int64_t dim0, int64_t dim1, kael_tensor **out) {
  kl_fn_attrs attrs = {0};
  int64_t shape[KL_MAX_RANK], strides[KL_MAX_RANK];
  kl_set_site("transpose");
  KL_TRY(kl_dim_check(dim0, self->ndim, &attrs.dim));
  KL_TRY(kl_dim_check(dim1, self->ndim, &attrs.dim1));
  for (int d = 0; d < self->ndim; d++) {
    int from = d == attrs.dim ? attrs.dim1 : d == attrs.dim1 ? attrs.dim : d;
    shape[d] = self->shape[from];
    strides[d] = self->strides[from];
  }
  return make_view(KL_FN_TRANSPOSE, self, self->ndim, shape, strides, self->offset, &attrs, out);
}

static kl_status reverse_dims(kael_tensor *self, kael_tensor **out) {
  int64_t dims[KL_MAX_RANK];
  for (int d = 0; d < self->ndim; d++) dims[d] = self->ndim - 1 - d;
  return kl_permute(self, self->ndim, dims, out);
}

/* --- Parts of dims ---------------------------------------------------------------------------- */

/* A position as Python's slices take it: from the end where negative, cut off where outside. */
static int64_t clamp_position(int64_t position, int64_t size) {
  if (position < 0) position += size;
  return position < 0 ? 0 : position > size ? size : position;
}

static kl_status slice_of(kael_tensor *self, int dim, int64_t start, int64_t end, int64_t step,
                          kael_tensor **out) {
  kl_fn_attrs attrs = {.dim = dim, .start = start, .end = end, .step = step};
  int64_t shape[KL_MAX_RANK], strides[KL_MAX_RANK];
  for (int d = 0; d < self->ndim; d++) {
    shape[d] = self->shape[d];
    strides[d] = self->strides[d];
  }
  shape[dim] = (end - start + (step - 1)) / step;
  /* A single position needs no step, which could be too large to multiply by. */
  strides[dim] = shape[dim] > 1 || step <= self->shape[dim] ? strides[dim] * step : strides[dim];
  int64_t offset = self->offset + start * self->strides[dim];
  return make_view(KL_FN_SLICE, self, self->ndim, shape, strides, offset, &attrs, out);
}

kl_status kl_slice(kael_tensor *self, int64_t dim, int64_t start, int64_t end, int64_t step,
                   kael_tensor **out) {
  int at = 0;
  kl_set_site("slice");
  if (self->ndim == 0)
    return kl_fail(KL_ERR_RUNTIME, "slice() cannot be applied to a 0-dim tensor.");
  KL_TRY(kl_dim_check(dim, self->ndim, &at));
  if (step < 1) return kl_fail(KL_ERR_VALUE, "slice step must be positive");
  int64_t size = self->shape[at];
  start = clamp_position(start, size);
  end = clamp_position(end, size);
  if (end < start) end = start;
  if (step > size && size > 0) step = size; /* the same positions, and no overflow below */
  return slice_of(self, at, start, end, step, out);
}

kl_status kl_narrow(kael_tensor *self, int64_t dim, int64_t start, int64_t length,
                    kael_tensor **out) {
  int at = 0;
  kl_set_site("narrow");
  if (self->ndim == 0)
    return kl_fail(KL_ERR_RUNTIME, "narrow() cannot be applied to a 0-dim tensor.");
  KL_TRY(kl_dim_check(dim, self->ndim, &at));
  int64_t size = self->shape[at];
  if (length < 0) return kl_fail(KL_ERR_RUNTIME, "narrow(): length must be non-negative.");
  if (start < -size || start > size)
    return kl_fail(KL_ERR_INDEX,
                   "narrow: start out of range (expected to be in range of [%lld, "
                   "%lld], but got %lld)",
                   (long long)-size, (long long)size, (long long)start);
  if (start < 0) start += size;
  if (length > size - start)
    return kl_fail(KL_ERR_RUNTIME, "start (%lld) + length (%lld) exceeds dimension size (%lld).",
                   (long long)start, (long long)length, (long long)size);
  return slice_of(self, at, start, start + length, 1, out);
}

kl_status kl_select(kael_tensor *self, int64_t dim, int64_t index, kael_tensor **out) {
  kl_fn_attrs attrs = {0};
  int64_t shape[KL_MAX_RANK], strides[KL_MAX_RANK];
  kl_set_site("select");
  if (self->ndim == 0)
    return kl_fail(KL_ERR_INDEX, "select() cannot be applied to a 0-dim tensor.");
  KL_TRY(kl_dim_check(dim, self->ndim, &attrs.dim));
  int64_t size = self->shape[attrs.dim];
  if (index < -size || index >= size)
    return kl_fail(KL_ERR_INDEX,
                   "select(): index %lld out of range for tensor of size %s at dimension %d",
                   (long long)index, kl_shape_text(self->ndim, self->shape), attrs.dim);
  attrs.start = index < 0 ? index + size : index;
  int ndim = 0;
  for (int d = 0; d < self->ndim; d++) {
    if (d == attrs.dim) continue;
    shape[ndim] = self->shape[d];
    strides[ndim++] = self->strides[d];
  }
  int64_t offset = self->offset + attrs.start * self->strides[attrs.dim];
  return make_view(KL_FN_SELECT, self, ndim, shape, strides, offset, &attrs, out);
}

kl_status kl_diagonal(kael_tensor *self, int64_t offset, int64_t dim1, int64_t dim2,
                      kael_tensor **out) {
  kl_fn_attrs attrs = {.start = offset};
  int64_t shape[KL_MAX_RANK], strides[KL_MAX_RANK];
  kl_set_site("diagonal");
  KL_TRY(kl_dim_check(dim1, self->ndim, &attrs.dim));
  KL_TRY(kl_dim_check(dim2, self->ndim, &attrs.dim1));
  if (attrs.dim == attrs.dim1)
    return kl_fail(KL_ERR_RUNTIME, "diagonal dimensions cannot be identical %lld, %lld",
                   (long long)dim1, (long long)dim2);
  int64_t rows = self->shape[attrs.dim], columns = self->shape[attrs.dim1];
  int64_t start = self->offset, length;
  /* Compared before anything is subtracted: the offset may be any number. */
  if (offset >= 0)
    length = offset >= columns ? 0 : rows < columns - offset ? rows : columns - offset;
  else
    length = offset <= -rows ? 0 : columns < rows + offset ? columns : rows + offset;
  if (length > 0)
    start += offset >= 0 ? offset * self->strides[attrs.dim1] : -offset * self->strides[attrs.dim];
  int ndim = 0;
  for (int d = 0; d < self->ndim; d++) {
    if (d == attrs.dim || d == attrs.dim1) continue;
    shape[ndim] = self->shape[d];
    strides[ndim++] = self->strides[d];
  }
  shape[ndim] = length;
  strides[ndim++] = self->strides[attrs.dim] + self->strides[attrs.dim1];
  return make_view(KL_FN_DIAGONAL, self, ndim, shape, strides, start, &attrs, out);
}

/* --- Dims of size 1 --------------------------------------------------------------------------- */

kl_status kl_expand(kael_tensor *self, int ndim, const int64_t *shape, kael_tensor **out) {
  kl_fn_attrs attrs = {.ndim = ndim};
  int64_t strides[KL_MAX_RANK];
  kl_set_site("expand");
  KL_TRY(kl_expand_shape(self, ndim, shape, attrs.dims, strides));
  return make_view(KL_FN_EXPAND, self, ndim, attrs.dims, strides, self->offset, &attrs, out);
}

static kl_status squeeze_mask(kael_tensor *self, uint32_t mask, int dim, kael_tensor **out) {
  kl_fn_attrs attrs = {.dim = dim};
  int64_t shape[KL_MAX_RANK], strides[KL_MAX_RANK];
  int ndim = 0;
  for (int d = 0; d < self->ndim; d++) {
    if (self->shape[d] == 1 && (mask >> d & 1)) continue;
    shape[ndim] = self->shape[d];
    strides[ndim++] = self->strides[d];
  }
  return make_view(KL_FN_SQUEEZE, self, ndim, shape, strides, self->offset, &attrs, out);
}

kl_status kl_squeeze(kael_tensor *self, kael_tensor **out) {
  kl_set_site("squeeze");
  return squeeze_mask(self, UINT32_MAX, -1, out);
}

kl_status kl_squeeze_dim(kael_tensor *self, int64_t dim, kael_tensor **out) {
  int at = 0;
  kl_set_site("squeeze");
  KL_TRY(kl_dim_check(dim, self->ndim, &at));
  return squeeze_mask(self, UINT32_C(1) << at, at, out);
}

kl_status kl_unsqueeze(kael_tensor *self, int64_t dim, kael_tensor **out) {
  kl_fn_attrs attrs = {0};
  int64_t shape[KL_MAX_RANK + 1], strides[KL_MAX_RANK + 1];
  kl_set_site("unsqueeze");
  KL_TRY(kl_dim_check(dim, self->ndim + 1, &attrs.dim));
  if (self->ndim == KL_MAX_RANK)
    return kl_fail(KL_ERR_RUNTIME, "unsqueeze: a tensor has at most %d dims", KL_MAX_RANK);
  for (int d = 0, from = 0; d <= self->ndim; d++) {
    bool is_new = d == attrs.dim;
    bool is_last = from == self->ndim;
    shape[d] = is_new ? 1 : self->shape[from];
    strides[d] = !is_new   ? self->strides[from]
                 : is_last ? 1
                           : self->shape[from] * self->strides[from];
    from += !is_new;
  }
  return make_view(KL_FN_UNSQUEEZE, self, self->ndim + 1, shape, strides, self->offset, &attrs,
                   out);
}

/* --- as_strided, detach ----------------------------------------------------------------------- */

kl_status kl_as_strided(kael_tensor *self, int ndim, const int64_t *shape, const int64_t *strides,
                        int64_t offset, kael_tensor **out) {
  kl_set_site("as_strided");
  KL_TRY(kl_check_bounds("as_strided", ndim, shape, strides, offset, (kl_dtype)self->dtype,
                         self->storage->nbytes));
  kl_fn_attrs attrs = {.start = offset};
  set_dims(&attrs, ndim, shape);
  for (int d = 0; d < ndim; d++) attrs.strides[d] = strides[d];
  return make_view(KL_FN_AS_STRIDED, self, ndim, shape, strides, offset, &attrs, out);
}

kl_status kl_detach(kael_tensor *self, kael_tensor **out) { return kl_tensor_alias(self, out); }

/* --- The public functions --------------------------------------------------------------------- */

#define HAND_OUT(call)                                                                             \
  if (KL_MISSING(self)) return NULL;                                                               \
  kael_tensor *out = NULL;                                                                         \
  kl_status status = call;                                                                         \
  return kl_hand_out(status, out)

kael_tensor *kael_view(kael_tensor *self, int ndim, const int64_t *shape) {
  HAND_OUT(kl_view(self, ndim, shape, &out));
}
kael_tensor *kael_reshape(kael_tensor *self, int ndim, const int64_t *shape) {
  HAND_OUT(kl_reshape(self, ndim, shape, &out));
}
kael_tensor *kael_flatten(kael_tensor *self, int64_t start, int64_t end) {
  HAND_OUT(flatten(self, start, end, &out));
}
kael_tensor *kael_transpose(kael_tensor *self, int64_t dim0, int64_t dim1) {
  HAND_OUT(kl_transpose(self, dim0, dim1, &out));
}
kael_tensor *kael_T(kael_tensor *self) { HAND_OUT(reverse_dims(self, &out)); }
kael_tensor *kael_permute(kael_tensor *self, int ndim, const int64_t *dims) {
  HAND_OUT(kl_permute(self, ndim, dims, &out));
}
kael_tensor *kael_slice(kael_tensor *self, int64_t dim, int64_t start, int64_t end, int64_t step) {
  HAND_OUT(kl_slice(self, dim, start, end, step, &out));
}
kael_tensor *kael_select(kael_tensor *self, int64_t dim, int64_t index) {
  HAND_OUT(kl_select(self, dim, index, &out));
}
kael_tensor *kael_narrow(kael_tensor *self, int64_t dim, int64_t start, int64_t length) {
  HAND_OUT(kl_narrow(self, dim, start, length, &out));
}
kael_tensor *kael_expand(kael_tensor *self, int ndim, const int64_t *shape) {
  HAND_OUT(kl_expand(self, ndim, shape, &out));
}
kael_tensor *kael_squeeze(kael_tensor *self) { HAND_OUT(kl_squeeze(self, &out)); }
kael_tensor *kael_squeeze_dim(kael_tensor *self, int64_t dim) {
  HAND_OUT(kl_squeeze_dim(self, dim, &out));
}
kael_tensor *kael_unsqueeze(kael_tensor *self, int64_t dim) {
  HAND_OUT(kl_unsqueeze(self, dim, &out));
}
kael_tensor *kael_as_strided(kael_tensor *self, int ndim, const int64_t *shape,
                             const int64_t *strides, int64_t offset) {
  HAND_OUT(kl_as_strided(self, ndim, shape, strides, offset, &out));
}
kael_tensor *kael_diagonal(kael_tensor *self, int64_t offset, int64_t dim1, int64_t dim2) {
  HAND_OUT(kl_diagonal(self, offset, dim1, dim2, &out));
}
kael_tensor *kael_detach(kael_tensor *self) { HAND_OUT(kl_detach(self, &out)); }
