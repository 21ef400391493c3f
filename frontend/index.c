/* Operators with an index tensor: index_select, gather, scatter_add. */
#include "frontend/bounds.h"
#include "frontend/compose.h"
#include "frontend/ops.h"
#include "frontend/promote.h"
#include "kael/nn.h"

kl_status kl_check_index_dtype(const kael_tensor *index) {
  if (index->dtype == KL_I64 || index->dtype == KL_I32) return KL_OK;
  return kl_fail(KL_ERR_RUNTIME, "%s(): Expected dtype int32/int64 for index, but got %s",
                 kl_thread.site, kl_dtype_torch_name((kl_dtype)index->dtype));
}

static kl_status check_index(kael_tensor *index, int dim, int64_t extent) {
  int64_t least, most;
  const char *site = kl_thread.site;
  if (index->numel == 0) return KL_OK;
  KL_TRY(kl_index_bounds(index, extent, &least, &most));
  kl_set_site(site);
  if (least >= 0 && most < extent) return KL_OK;
  return kl_fail(KL_ERR_INDEX, "%s: index %lld is out of bounds for dimension %d with size %lld",
                 site, (long long)(least < 0 ? least : most), dim, (long long)extent);
}

static int64_t extent_of(const kael_tensor *self, int dim) {
  return self->ndim ? self->shape[dim] : 1;
}

/* --- index_select ----------------------------------------------------------------------------- */

/* The index laid along `dim` of the result, repeated along all other dims. */
static kl_status spread_index(kael_tensor *self, int dim, kael_tensor *index, kael_tensor **out) {
  int64_t shape[KL_MAX_RANK], strides[KL_MAX_RANK], numel;
  for (int d = 0; d < self->ndim; d++) {
    shape[d] = d == dim ? index->numel : self->shape[d];
    strides[d] = d == dim && index->ndim ? index->strides[0] : 0;
  }
  KL_TRY(kl_shape_check(kl_thread.site, self->ndim, shape, &numel));
  return kl_tensor_view(index, self->ndim, shape, strides, index->offset, out);
}

kl_status kl_index_select(kael_tensor *self, int64_t dim, kael_tensor *index, kael_tensor **out) {
  kl_fn_attrs attrs = {0};
  kael_tensor *spread = NULL, *wide = NULL, *result = NULL;
  kl_set_site("index_select");
  KL_TRY(kl_dim_check(dim, self->ndim, &attrs.dim));
  KL_TRY(kl_check_index_dtype(index));
  if (index->ndim > 1)
    return kl_fail(KL_ERR_INDEX,
                   "index_select(): Index is supposed to be a vector, but got dim: %d",
                   index->ndim);
  if (self->ndim == 0 && index->numel != 1)
    return kl_fail(KL_ERR_RUNTIME,
                   "index_select(): Index to scalar can have only 1 value, got %lld value(s)",
                   (long long)index->numel);
  KL_TRY(check_index(index, attrs.dim, extent_of(self, attrs.dim)));
  kl_status status;
  KL_TRY_GOTO(status, spread_index(self, attrs.dim, index, &spread), done);
  KL_TRY_GOTO(status, kl_record_cast(spread, KL_I64, &wide), done);
  KL_TRY_GOTO(status, kl_record_gather(self, attrs.dim, wide, &result), done);
  kael_tensor *inputs[2] = {self, index};
  status = kl_compose_track(KL_FN_INDEX_SELECT, inputs, 2, &attrs, &result);
done:
  kl_tensor_release(spread);
  kl_tensor_release(wide);
  if (!status) *out = result;
  return status;
}

/* --- gather ----------------------------------------------------------------------------------- */

/* The index has self's rank (0-d counts as one dim) and fits in all dims but `dim`. */
static kl_status check_index_shape(const kael_tensor *self, int dim, const kael_tensor *index) {
  int rank = self->ndim ? self->ndim : 1, index_rank = index->ndim ? index->ndim : 1;
  if (index->numel > 0 && rank != index_rank)
    return kl_fail(KL_ERR_RUNTIME,
                   "%s: Index tensor must have the same number of dimensions as input tensor: %d "
                   "and %d",
                   kl_thread.site, index->ndim, self->ndim);
  for (int d = 0; d < rank && d < index_rank; d++) /* 0-d counts as one dim of size 1 */
    if (d != dim && (index->ndim ? index->shape[d] : 1) > (self->ndim ? self->shape[d] : 1))
      return kl_fail(
          KL_ERR_RUNTIME,
          "%s: Size does not match at dimension %d expected index %s to be no larger than "
          "self %s apart from dimension %d",
          kl_thread.site, d, kl_shape_text(index->ndim, index->shape),
          kl_shape_text(self->ndim, self->shape), dim);
  return KL_OK;
}

kl_status kl_gather(kael_tensor *self, int64_t dim, kael_tensor *index, kael_tensor **out) {
  kl_fn_attrs attrs = {0};
  kl_set_site("gather");
  KL_TRY(kl_dim_check(dim, self->ndim, &attrs.dim));
  if (index->numel > 0) KL_TRY(kl_check_index_dtype(index)); /* as PyTorch: else any dtype goes */
  KL_TRY(check_index_shape(self, attrs.dim, index));
  KL_TRY(check_index(index, attrs.dim, extent_of(self, attrs.dim)));
  kael_tensor *wide, *result = NULL;
  KL_TRY(kl_record_cast(index, KL_I64, &wide));
  kl_status status = kl_record_gather(self, attrs.dim, wide, &result);
  kl_tensor_release(wide);
  if (status) return status;
  kael_tensor *inputs[2] = {self, index};
  KL_TRY(kl_compose_track(KL_FN_GATHER, inputs, 2, &attrs, &result));
  *out = result;
  return KL_OK;
}

/* --- scatter_add ------------------------------------------------------------------------------ */

static kl_status check_scatter(const char *name, kael_tensor *self, int64_t dim, kael_tensor *index,
                               kael_tensor *src, int *out_dim) {
  kl_set_site(name);
  KL_TRY(kl_dim_check(dim, self->ndim, out_dim));
  if (index->numel > 0) KL_TRY(kl_check_index_dtype(index)); /* as PyTorch: else any dtype goes */
  if (self->dtype != src->dtype)
    return kl_fail(KL_ERR_RUNTIME, "%s(): Expected self.dtype to be equal to src.dtype: %s and %s",
                   name, kl_dtype_torch_name((kl_dtype)self->dtype),
                   kl_dtype_torch_name((kl_dtype)src->dtype));
  if (self->dtype == KL_BOOL) return kl_fail(KL_ERR_TYPE, "%s: not supported for dtype bool", name);
  KL_TRY(check_index_shape(self, *out_dim, index));
  KL_TRY(check_index_shape(src, -1, index));
  return check_index(index, *out_dim, extent_of(self, *out_dim));
}

/* A view that has one dim where the tensor is 0-d, and the shape of the index where it is larger.
 */
static kl_status fit_to_index(kael_tensor *tensor, const kael_tensor *index, bool crop,
                              kael_tensor **out) {
  int64_t one = 1;
  if (tensor->ndim == 0) return kl_tensor_view(tensor, 1, &one, &one, tensor->offset, out);
  return kl_tensor_view(tensor, tensor->ndim, crop && index->ndim ? index->shape : tensor->shape,
                        tensor->strides, tensor->offset, out);
}

static kl_status scatter_into(kael_tensor *self, int dim, kael_tensor *index, kael_tensor *src) {
  kael_tensor *into = NULL, *from = NULL, *at = NULL, *wide = NULL;
  kl_status status;
  KL_TRY_GOTO(status, kl_record_cast(index, KL_I64, &wide), done);
  KL_TRY_GOTO(status, fit_to_index(wide, wide, false, &at), done);
  KL_TRY_GOTO(status, fit_to_index(self, at, false, &into), done);
  KL_TRY_GOTO(status, fit_to_index(src, at, true, &from), done);
  status = kl_record_scatter(KL_OP_SCATTER_ADD, into, dim, at, from);
done:
  kl_tensor_release(into);
  kl_tensor_release(from);
  kl_tensor_release(at);
  kl_tensor_release(wide);
  return status;
}

kl_status kl_scatter_add(kael_tensor *self, int64_t dim, kael_tensor *index, kael_tensor *src,
                         kael_tensor **out) {
  kl_fn_attrs attrs = {0};
  KL_TRY(check_scatter("scatter_add", self, dim, index, src, &attrs.dim));
  kael_tensor *result;
  KL_TRY(kl_record_copy(self, KL_LAYOUT_CONTIGUOUS, &result));
  kl_status status = scatter_into(result, attrs.dim, index, src);
  if (status) {
    kl_tensor_release(result);
    return status;
  }
  atomic_store(&result->storage->version, 0); /* a new tensor has not been changed in place */
  kael_tensor *inputs[3] = {self, index, src};
  KL_TRY(kl_compose_track(KL_FN_SCATTER_ADD, inputs, 3, &attrs, &result));
  *out = result;
  return KL_OK;
}

static kl_status scatter_add_(kael_tensor *self, int64_t dim, kael_tensor *index,
                              kael_tensor *src) {
  kl_fn_attrs attrs = {0};
  KL_TRY(check_scatter("scatter_add_", self, dim, index, src, &attrs.dim));
  KL_TRY(kl_check_inplace(self, "scatter_add_"));
  kael_tensor *inputs[3] = {self, index, src};
  struct kl_autograd_node *node = NULL;
  if (kl_autograd_sees(inputs, 3))
    KL_TRY(kl_autograd_inplace_begin(KL_FN_SCATTER_ADD, inputs, 3, &attrs, &node));
  kl_set_site("scatter_add_");
  return kl_autograd_inplace_finish(scatter_into(self, attrs.dim, index, src), node, self);
}

/* --- The public functions --------------------------------------------------------------------- */

kael_tensor *kael_index_select(kael_tensor *self, int64_t dim, kael_tensor *index) {
  if (KL_MISSING(self, index)) return NULL;
  kael_tensor *out = NULL;
  kl_status status = kl_index_select(self, dim, index, &out);
  return kl_hand_out(status, out);
}

kael_tensor *kael_gather(kael_tensor *self, int64_t dim, kael_tensor *index) {
  if (KL_MISSING(self, index)) return NULL;
  kael_tensor *out = NULL;
  kl_status status = kl_gather(self, dim, index, &out);
  return kl_hand_out(status, out);
}

kael_tensor *kael_scatter_add(kael_tensor *self, int64_t dim, kael_tensor *index,
                              kael_tensor *src) {
  if (KL_MISSING(self, index, src)) return NULL;
  kael_tensor *out = NULL;
  kl_status status = kl_scatter_add(self, dim, index, src, &out);
  return kl_hand_out(status, out);
}

kael_status kael_scatter_add_(kael_tensor *self, int64_t dim, kael_tensor *index,
                              kael_tensor *src) {
  if (KL_MISSING(self, index, src)) return kael_last_error().code;
  return (kael_status)scatter_add_(self, dim, index, src);
}
