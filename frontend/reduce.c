/* Reductions over axes: dtypes, empty cases, autograd; and their public forms. */
#include "kael/reduce.h"
#include "frontend/half.h"
#include "frontend/ops.h"
#include "frontend/promote.h"

static kl_status track(kl_status status, kl_fn fn, kael_tensor *self, uint32_t mask, bool keepdim,
                       kael_tensor *result, kael_tensor **out) {
  if (status) return status;
  if (kl_autograd_wanted(&self, 1)) {
    kl_fn_attrs attrs = {.mask = mask, .keepdim = keepdim};
    status = kl_autograd_track(fn, &self, 1, &result, 1, &attrs);
    if (status) {
      kl_tensor_release(result);
      return status;
    }
  }
  *out = result;
  return KL_OK;
}

/* Folds self after a cast to `dtype`. */
static kl_status cast_and_fold(kl_op op, kl_dtype dtype, kl_dtype result_dtype, kael_tensor *self,
                               uint32_t mask, bool keepdim, kael_tensor **out) {
  kael_tensor *cast;
  KL_TRY(kl_record_cast(self, dtype, &cast));
  kl_status status = kl_record_reduce(op, result_dtype, cast, mask, keepdim, out);
  kl_tensor_release(cast);
  return status;
}

static int64_t folded_count(const kael_tensor *self, uint32_t mask) {
  int64_t count = 1;
  for (int d = 0; d < self->ndim; d++)
    if (mask >> d & 1) count *= self->shape[d];
  return count;
}

kl_status kl_sum(kael_tensor *self, uint32_t mask, bool keepdim, kael_tensor **out) {
  kl_set_site("sum");
  kl_dtype dtype = kl_dtype_is_float((kl_dtype)self->dtype) ? (kl_dtype)self->dtype : KL_I64;
  kael_tensor *result = NULL;
  kl_status status = cast_and_fold(KL_OP_REDUCE_SUM, dtype, dtype, self, mask, keepdim, &result);
  return track(status, KL_FN_SUM, self, mask, keepdim, result, out);
}

kl_status kl_mean(kael_tensor *self, uint32_t mask, bool keepdim, kael_tensor **out) {
  kl_set_site("mean");
  kl_dtype dtype = (kl_dtype)self->dtype;
  if (!kl_dtype_is_float(dtype))
    return kl_fail(
        KL_ERR_RUNTIME,
        "mean(): could not infer output dtype. Input dtype must be either a floating point "
        "or complex dtype. Got: %s",
        kl_dtype_torch_name(dtype));
  const kl_dtype compute = kl_compute_dtype(dtype);
  kael_tensor *sum, *quotient = NULL, *result = NULL;
  KL_TRY(cast_and_fold(KL_OP_REDUCE_SUM, compute, compute, self, mask, keepdim, &sum));
  kl_scalar count = kl_scalar_from_int(folded_count(self, mask), compute);
  kl_status status = kl_record_binary_scalar(KL_OP_DIV, sum, count, &quotient);
  if (!status) status = kl_record_cast(quotient, dtype, &result);
  kl_tensor_release(sum);
  kl_tensor_release(quotient);
  return track(status, KL_FN_MEAN, self, mask, keepdim, result, out);
}

/* Folds without a first value need an element. */
static kl_status check_not_empty(const char *name, const kael_tensor *self, uint32_t mask) {
  if (self->numel > 0) return KL_OK;
  for (int d = 0; d < self->ndim; d++)
    if ((mask >> d & 1) && self->shape[d] == 0)
      return kl_fail(KL_ERR_INDEX,
                     "%s(): Expected reduction dim %d to have non-zero size; the shape is %s", name,
                     d, kl_shape_text(self->ndim, self->shape));
  return KL_OK;
}

kl_status kl_amax(kael_tensor *self, uint32_t mask, bool keepdim, kael_tensor **out) {
  kl_set_site("amax");
  KL_TRY(check_not_empty("amax", self, mask));
  kael_tensor *result = NULL;
  kl_status status =
      kl_record_reduce(KL_OP_REDUCE_MAX, (kl_dtype)self->dtype, self, mask, keepdim, &result);
  return track(status, KL_FN_AMAX, self, mask, keepdim, result, out);
}

kl_status kl_argmax(kael_tensor *self, uint32_t mask, bool keepdim, kael_tensor **out) {
  kl_set_site("argmax");
  if (self->dtype == KL_BOOL)
    return kl_fail(KL_ERR_RUNTIME, "argmax(): does not support bool input");
  KL_TRY(check_not_empty("argmax", self, mask));
  return kl_record_reduce(KL_OP_REDUCE_ARGMAX, KL_I64, self, mask, keepdim, out);
}

/* bool, but uint8 for uint8, as PyTorch has it. */
static kl_status fold_bools(kl_op op, kael_tensor *self, uint32_t mask, bool keepdim,
                            kael_tensor **out) {
  if (self->dtype != KL_U8) return cast_and_fold(op, KL_BOOL, KL_BOOL, self, mask, keepdim, out);
  kael_tensor *folded;
  KL_TRY(cast_and_fold(op, KL_BOOL, KL_BOOL, self, mask, keepdim, &folded));
  kl_status status = kl_record_cast(folded, KL_U8, out);
  kl_tensor_release(folded);
  return status;
}

kl_status kl_any(kael_tensor *self, uint32_t mask, bool keepdim, kael_tensor **out) {
  kl_set_site("any");
  return fold_bools(KL_OP_REDUCE_ANY, self, mask, keepdim, out);
}

kl_status kl_all(kael_tensor *self, uint32_t mask, bool keepdim, kael_tensor **out) {
  kl_set_site("all");
  return fold_bools(KL_OP_REDUCE_ALL, self, mask, keepdim, out);
}

kl_status kl_sum_to_shape(kael_tensor *self, int ndim, const int64_t *shape, kael_tensor **out) {
  if (kl_shape_equal(self->ndim, self->shape, ndim, shape)) {
    *out = kl_tensor_retain(self);
    return KL_OK;
  }
  int lead = self->ndim - ndim;
  uint32_t mask = 0;
  for (int d = 0; d < self->ndim; d++)
    if (d < lead || (shape[d - lead] == 1 && self->shape[d] != 1)) mask |= UINT32_C(1) << d;
  if (lead == 0) return kl_sum(self, mask, true, out);
  kael_tensor *sum;
  KL_TRY(kl_sum(self, mask, true, &sum));
  kl_status status = kl_view(sum, ndim, shape, out);
  kl_tensor_release(sum);
  return status;
}

/* --- The public functions --------------------------------------------------------------------- */

typedef kl_status reduce_fn(kael_tensor *self, uint32_t mask, bool keepdim, kael_tensor **out);

static kael_tensor *over_axes(reduce_fn *fn, kael_tensor *self, const int64_t *dims, int n_dims,
                              bool keepdim) {
  if (KL_MISSING(self)) return NULL;
  uint32_t mask = 0;
  kael_tensor *out = NULL;
  /* A 0-d tensor takes dim 0 and -1, which folds nothing. */
  kl_status status = kl_axes_check(dims, n_dims, self->ndim, &mask);
  if (!status) status = fn(self, mask, keepdim, &out);
  return kl_hand_out(status, out);
}

kael_tensor *kael_sum(kael_tensor *self) { return over_axes(kl_sum, self, NULL, 0, false); }
kael_tensor *kael_mean(kael_tensor *self) { return over_axes(kl_mean, self, NULL, 0, false); }
kael_tensor *kael_argmax(kael_tensor *self) { return over_axes(kl_argmax, self, NULL, 0, false); }
kael_tensor *kael_any(kael_tensor *self) { return over_axes(kl_any, self, NULL, 0, false); }
kael_tensor *kael_all(kael_tensor *self) { return over_axes(kl_all, self, NULL, 0, false); }

kael_tensor *kael_sum_dims(kael_tensor *self, int n_dims, const int64_t *dims, bool keepdim) {
  return over_axes(kl_sum, self, dims, n_dims, keepdim);
}
kael_tensor *kael_mean_dims(kael_tensor *self, int n_dims, const int64_t *dims, bool keepdim) {
  return over_axes(kl_mean, self, dims, n_dims, keepdim);
}
kael_tensor *kael_amax(kael_tensor *self, int n_dims, const int64_t *dims, bool keepdim) {
  if (!KL_MISSING(self) && n_dims == 0 && self->numel == 0) {
    kl_fail(KL_ERR_RUNTIME,
            "amax(): Expected reduction dim to be specified for input.numel() == 0. "
            "Specify the reduction dim with the 'dim' argument.");
    return NULL;
  }
  return over_axes(kl_amax, self, dims, n_dims, keepdim);
}
kael_tensor *kael_any_dims(kael_tensor *self, int n_dims, const int64_t *dims, bool keepdim) {
  return over_axes(kl_any, self, dims, n_dims, keepdim);
}
kael_tensor *kael_all_dims(kael_tensor *self, int n_dims, const int64_t *dims, bool keepdim) {
  return over_axes(kl_all, self, dims, n_dims, keepdim);
}
kael_tensor *kael_argmax_dim(kael_tensor *self, int64_t dim, bool keepdim) {
  return over_axes(kl_argmax, self, &dim, 1, keepdim);
}
