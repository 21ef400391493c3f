/* Reductions that are composed: prod, extremes with their places, var, std, norm, logsumexp,
 * count_nonzero. f16 and bf16 are folded in f32 and rounded once. */
#include <math.h>

#include "frontend/compose.h"
#include "frontend/ops.h"
#include "frontend/raw.h"
#include "kael/reduce.h"

typedef kael_tensor T;

/* A call: what is folded, and how. */
typedef struct fold {
  kl_fn fn;
  const char *name;
  T *self;
  kl_fn_attrs attrs; /* mask, keepdim, number */
  T *(*make)(kl_raw *raw, const struct fold *fold, T *x);
} fold;

/* `dtype` is the result's, which is folded in it, or in f32 for a half. */
static kl_status run(fold *f, kl_dtype dtype, T **out) {
  kl_raw raw = {0};
  T *result;
  kl_set_site(f->name);
  T *made = f->make(&raw, f, kl_raw_cast(&raw, f->self, kl_compute_dtype(dtype)));
  KL_TRY(kl_raw_finish(&raw, made, dtype, &result));
  KL_TRY(kl_compose_track(f->fn, &f->self, 1, &f->attrs, &result));
  *out = result;
  return KL_OK;
}

static kl_status check_floating(const fold *f) {
  if (kl_dtype_is_float((kl_dtype)f->self->dtype)) return KL_OK;
  return kl_fail(KL_ERR_RUNTIME, "%s(): Expected a floating point tensor as input. Got %s", f->name,
                 kl_dtype_torch_name((kl_dtype)f->self->dtype));
}

/* Folds without a first value need an element. */
static kl_status check_not_empty(const fold *f) {
  const T *self = f->self;
  for (int d = 0; d < self->ndim; d++)
    if ((f->attrs.mask >> d & 1) && self->shape[d] == 0)
      return kl_fail(KL_ERR_INDEX,
                     "%s(): Expected reduction dim %d to have non-zero size; the shape is %s",
                     f->name, d, kl_shape_text(self->ndim, self->shape));
  return KL_OK;
}

static T *sum(kl_raw *raw, const fold *f, T *x) {
  return kl_raw_reduce(raw, KL_OP_REDUCE_SUM, x, f->attrs.mask, f->attrs.keepdim);
}

/* --- Products and extremes ----------------------------------------------------------------------
 */

static T *make_prod(kl_raw *raw, const fold *f, T *x) {
  return kl_raw_reduce(raw, KL_OP_REDUCE_PROD, x, f->attrs.mask, f->attrs.keepdim);
}
static T *make_amin(kl_raw *raw, const fold *f, T *x) {
  return kl_raw_reduce(raw, KL_OP_REDUCE_MIN, x, f->attrs.mask, f->attrs.keepdim);
}
static T *make_amax(kl_raw *raw, const fold *f, T *x) {
  return kl_raw_reduce(raw, KL_OP_REDUCE_MAX, x, f->attrs.mask, f->attrs.keepdim);
}

static kl_status prod(fold *f, T **out) {
  const kl_dtype dtype = (kl_dtype)f->self->dtype;
  f->make = make_prod;
  return run(f, kl_dtype_is_float(dtype) ? dtype : KL_I64, out);
}

kl_status kl_prod(T *self, uint32_t mask, T **out) {
  fold f = {
      .fn = KL_FN_PROD, .name = "prod", .self = self, .attrs = {.mask = mask, .keepdim = true}};
  return prod(&f, out);
}

static kl_status amin(fold *f, T **out) {
  f->make = f->fn == KL_FN_MAX ? make_amax : make_amin;
  KL_TRY(check_not_empty(f));
  return run(f, (kl_dtype)f->self->dtype, out);
}

static kl_status argmin(fold *f, T **out) {
  kl_set_site("argmin");
  if (f->self->dtype == KL_BOOL)
    return kl_fail(KL_ERR_RUNTIME, "argmin(): does not support bool input");
  KL_TRY(check_not_empty(f));
  return kl_record_reduce(KL_OP_REDUCE_ARGMIN, KL_I64, f->self, f->attrs.mask, f->attrs.keepdim,
                          out);
}

/* The values stand where the indices say: they are gathered, and so is their gradient scattered. */
static kl_status extreme_along(bool largest, T *self, int64_t dim, bool keepdim, T **out_values,
                               T **out_indices) {
  fold f = {.name = largest ? "max" : "min", .self = self};
  int at = 0;
  kl_set_site(f.name);
  KL_TRY(kl_dim_check(dim, self->ndim, &at));
  if (self->ndim > 0) f.attrs.mask = UINT32_C(1) << at;
  KL_TRY(check_not_empty(&f));
  T *raw_indices = NULL, *wide = NULL, *values = NULL;
  const kl_op op = largest ? KL_OP_REDUCE_ARGMAX : KL_OP_REDUCE_ARGMIN;
  kl_status status;
  KL_TRY_GOTO(status,
              kl_record_cast(self, self->dtype == KL_BOOL ? KL_U8 : (kl_dtype)self->dtype, &wide),
              done);
  KL_TRY_GOTO(status, kl_record_reduce(op, KL_I64, wide, f.attrs.mask, true, &raw_indices), done);
  KL_TRY_GOTO(status, kl_gather(self, at, raw_indices, &values), done);
  if (keepdim || self->ndim == 0) {
    *out_values = kl_tensor_retain(values);
    *out_indices = kl_tensor_retain(raw_indices);
    goto done;
  }
  KL_TRY_GOTO(status, kl_squeeze_dim(values, at, out_values), done);
  status = kl_squeeze_dim(raw_indices, at, out_indices);
  if (status) {
    kl_tensor_release(*out_values);
    *out_values = NULL;
  }
done:
  kl_tensor_release(wide);
  kl_tensor_release(raw_indices);
  kl_tensor_release(values);
  return status;
}

/* --- Moments and norms --------------------------------------------------------------------------
 */

static int64_t count_of(const fold *f) {
  int64_t count = 1;
  for (int d = 0; d < f->self->ndim; d++)
    if (f->attrs.mask >> d & 1) count *= f->self->shape[d];
  return count;
}

/* The sum of squared distances from the mean, over max(0, count - correction). */
static T *make_var(kl_raw *raw, const fold *f, T *x) {
  const double count = (double)count_of(f), rest = count - f->attrs.number.as.f;
  T *total = kl_raw_reduce(raw, KL_OP_REDUCE_SUM, x, f->attrs.mask, true);
  T *mean = kl_raw_number(raw, KL_OP_DIV, total, kael_f(count));
  T *distance = kl_raw_binary(raw, KL_OP_SUB, x, mean);
  T *squares = sum(raw, f, kl_raw_binary(raw, KL_OP_MUL, distance, distance));
  T *var = kl_raw_number(raw, KL_OP_DIV, squares, kael_f(rest > 0 ? rest : 0));
  return f->fn == KL_FN_STD ? kl_raw_unary(raw, KL_OP_SQRT, var) : var;
}

static kl_status var(fold *f, T **out) {
  f->make = make_var;
  KL_TRY(check_floating(f));
  return run(f, (kl_dtype)f->self->dtype, out);
}

/* (sum |x|^p)^(1/p); the largest, the least size for p = inf, -inf; what is not zero for p = 0. */
static T *make_norm(kl_raw *raw, const fold *f, T *x) {
  const double p = f->attrs.number.as.f;
  if (p == 2)
    return kl_raw_unary(raw, KL_OP_SQRT, sum(raw, f, kl_raw_binary(raw, KL_OP_MUL, x, x)));
  if (p == 0)
    return sum(raw, f,
               x ? kl_raw_cast(raw, kl_raw_number(raw, KL_OP_NE, x, kael_i(0)), (kl_dtype)x->dtype)
                 : NULL);
  T *size = kl_raw_unary(raw, KL_OP_ABS, x);
  if (isinf(p)) return (p > 0 ? make_amax : make_amin)(raw, f, size);
  if (p == 1) return sum(raw, f, size);
  T *total = sum(raw, f, kl_raw_number(raw, KL_OP_POW, size, kael_f(p)));
  return kl_raw_number(raw, KL_OP_POW, total, kael_f(1 / p));
}

static kl_status norm(fold *f, T **out) {
  f->make = make_norm;
  KL_TRY(check_floating(f));
  if (isinf(f->attrs.number.as.f)) KL_TRY(check_not_empty(f));
  return run(f, (kl_dtype)f->self->dtype, out);
}

/* log(sum(exp(x - max))) + max, where an infinite max counts as 0. */
static T *make_logsumexp(kl_raw *raw, const fold *f, T *x) {
  T *max = kl_raw_reduce(raw, KL_OP_REDUCE_MAX, x, f->attrs.mask, true);
  T *is_finite = kl_raw_number(raw, KL_OP_NE, kl_raw_unary(raw, KL_OP_ABS, max), kael_f(INFINITY));
  max = kl_raw_select_number(raw, is_finite, max, 0);
  T *exps = kl_raw_unary(raw, KL_OP_EXP, kl_raw_binary(raw, KL_OP_SUB, x, max));
  T *log = kl_raw_unary(raw, KL_OP_LOG, sum(raw, f, exps));
  /* max over its dims of size 1 is itself, in the result's shape */
  T *shift = kl_raw_reduce(raw, KL_OP_REDUCE_MAX, max, f->attrs.mask, f->attrs.keepdim);
  return kl_raw_binary(raw, KL_OP_ADD, log, shift);
}

static kl_status logsumexp(fold *f, T **out) {
  const kl_dtype dtype = (kl_dtype)f->self->dtype;
  f->make = make_logsumexp;
  if (count_of(f) == 0)
    return kl_full(kl_dtype_is_float(dtype) ? dtype : KL_F32, 0, NULL, kael_f(-INFINITY), out);
  return run(f, kl_dtype_is_float(dtype) ? dtype : KL_F32, out);
}

static T *make_count(kl_raw *raw, const fold *f, T *x) {
  (void)x;
  T *is_counted = kl_raw_cast(raw, f->self, KL_BOOL);
  return sum(raw, f, kl_raw_cast(raw, is_counted, KL_I64));
}

static kl_status count_nonzero(fold *f, T **out) {
  f->make = make_count;
  return run(f, KL_I64, out);
}

/* --- The public functions -----------------------------------------------------------------------
 */

static T *over(kl_status (*fn)(fold *, T **), fold f, int n_dims, const int64_t *dims) {
  T *out = NULL;
  if (KL_MISSING(f.self)) return NULL;
  kl_status status = kl_axes_check(dims, n_dims, f.self->ndim, &f.attrs.mask);
  if (!status) status = fn(&f, &out);
  return kl_hand_out(status, out);
}

#define FOLD(NAME, text, ...)                                                                      \
  (fold) {                                                                                         \
    .fn = KL_FN_##NAME, .name = text, .self = self, .attrs = { __VA_ARGS__ }                       \
  }

kael_tensor *kael_prod(T *self) { return over(prod, FOLD(PROD, "prod", 0), 0, NULL); }
kael_tensor *kael_prod_dim(T *self, int64_t dim, bool keepdim) {
  return over(prod, FOLD(PROD, "prod", .keepdim = keepdim), 1, &dim);
}
kael_tensor *kael_amin(T *self, int n_dims, const int64_t *dims, bool keepdim) {
  return over(amin, FOLD(AMIN, "amin", .keepdim = keepdim), n_dims, dims);
}
kael_tensor *kael_max(T *self) { return over(amin, FOLD(MAX, "max", 0), 0, NULL); }
kael_tensor *kael_min(T *self) { return over(amin, FOLD(MIN, "min", 0), 0, NULL); }
kael_tensor *kael_argmin(T *self) { return over(argmin, FOLD(ARGMIN, "argmin", 0), 0, NULL); }
kael_tensor *kael_argmin_dim(T *self, int64_t dim, bool keepdim) {
  return over(argmin, FOLD(ARGMIN, "argmin", .keepdim = keepdim), 1, &dim);
}
kael_tensor *kael_var(T *self, int n_dims, const int64_t *dims, double correction, bool keepdim) {
  return over(var, FOLD(VAR, "var", .number = kael_f(correction), .keepdim = keepdim), n_dims,
              dims);
}
kael_tensor *kael_std(T *self, int n_dims, const int64_t *dims, double correction, bool keepdim) {
  return over(var, FOLD(STD, "std", .number = kael_f(correction), .keepdim = keepdim), n_dims,
              dims);
}
kael_tensor *kael_norm(T *self, double p, int n_dims, const int64_t *dims, bool keepdim) {
  return over(norm, FOLD(NORM, "norm", .number = kael_f(p), .keepdim = keepdim), n_dims, dims);
}
kael_tensor *kael_logsumexp(T *self, int n_dims, const int64_t *dims, bool keepdim) {
  return over(logsumexp, FOLD(LOGSUMEXP, "logsumexp", .keepdim = keepdim), n_dims, dims);
}
kael_tensor *kael_count_nonzero(T *self, int n_dims, const int64_t *dims) {
  return over(count_nonzero, FOLD(COUNT_NONZERO, "count_nonzero", 0), n_dims, dims);
}

static kael_status public_extreme(bool largest, T *self, int64_t dim, bool keepdim, T **out_values,
                                  T **out_indices) {
  T *values = NULL, *indices = NULL;
  if (KL_MISSING(self)) return kael_last_error().code;
  if (!out_values || !out_indices)
    return (kael_status)kl_fail(KL_ERR_VALUE, "the place for the results is NULL");
  kl_status status = extreme_along(largest, self, dim, keepdim, &values, &indices);
  if (status) return (kael_status)status;
  *out_values = kl_hand_out(status, values);
  *out_indices = kl_hand_out(status, indices);
  return *out_values && *out_indices ? KAEL_OK : kael_last_error().code;
}
kael_status kael_max_dim(T *self, int64_t dim, bool keepdim, T **out_values, T **out_indices) {
  return public_extreme(true, self, dim, keepdim, out_values, out_indices);
}
kael_status kael_min_dim(T *self, int64_t dim, bool keepdim, T **out_values, T **out_indices) {
  return public_extreme(false, self, dim, keepdim, out_values, out_indices);
}
