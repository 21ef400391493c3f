/* Operators that rearrange, build or compare whole tensors: like-factories, linspace, stack, flip,
 * roll, tril, triu, products and losses composed of others. */
#include <math.h>

#include "frontend/compose.h"
#include "frontend/element.h"
#include "frontend/ops.h"
#include "frontend/promote.h"
#include "frontend/raw.h"
#include "ir/support/memory.h"
#include "kael/factory.h"
#include "kael/nn.h"
#include "kael/ops.h"
#include "kael/view.h"

typedef kael_tensor T;

/* Calls an operator of ops.h in an expression; its result belongs to `raw`. */
#define CALL(raw, function, ...)                                                                   \
  ({                                                                                               \
    T *made_ = NULL;                                                                               \
    kl_status status_ = (raw)->status ? (raw)->status : function(__VA_ARGS__, &made_);             \
    kl_raw_own((raw), status_, made_);                                                             \
  })
#define HAND_OUT(call)                                                                             \
  T *out = NULL;                                                                                   \
  kl_status status = (call);                                                                       \
  return kl_hand_out(status, out)

/* The result of an expression of operators: nothing is cast. */
static kl_status finish(kl_raw *raw, T *result, T **out) {
  return kl_raw_finish(raw, result, result ? (kl_dtype)result->dtype : KL_F32, out);
}

/* --- Factories ----------------------------------------------------------------------------------
 */

kael_tensor *kael_full_like(T *self, kael_scalar value) {
  if (KL_MISSING(self)) return NULL;
  HAND_OUT(kl_full_like(self, value, &out));
}
kael_tensor *kael_zeros_like(T *self) { return kael_full_like(self, kael_i(0)); }
kael_tensor *kael_ones_like(T *self) { return kael_full_like(self, kael_i(1)); }
kael_tensor *kael_empty_like(T *self) { return kael_full_like(self, kael_i(0)); }
kael_tensor *kael_empty(int ndim, const int64_t *shape, kael_dtype dtype) {
  return kael_zeros(ndim, shape, dtype);
}

/* From the nearer end, so that both ends are met exactly. */
static kl_status linspace(double start, double end, int64_t n, kl_dtype dtype, T **out) {
  kl_set_site("linspace");
  KL_TRY(kl_check_dtype("linspace", (int)dtype));
  if (n < 0) return kl_fail(KL_ERR_RUNTIME, "linspace: number of steps must be non-negative");
  if (dtype == KL_BOOL) return kl_fail(KL_ERR_TYPE, "linspace: not supported for dtype bool");
  if (n < 2) return kl_full(dtype, 1, &n, kael_f(start), out);
  kl_raw raw = {0};
  const kl_dtype compute = kl_dtype_is_float(dtype) ? kl_compute_dtype(dtype) : KL_F64;
  const double step = compute == KL_F32 ? (double)(((float)end - (float)start) / (float)(n - 1))
                                        : (end - start) / (double)(n - 1);
  T *place = CALL(&raw, kl_record_index, n), *at = kl_raw_cast(&raw, place, compute);
  T *front = kl_raw_number(&raw, KL_OP_MUL, at, kael_f(step));
  front = kl_raw_number(&raw, KL_OP_ADD, front, kael_f(start));
  T *rest = kl_raw_number_first(&raw, KL_OP_SUB, kael_i(n - 1), place);
  T *back = kl_raw_number(&raw, KL_OP_MUL, kl_raw_cast(&raw, rest, compute), kael_f(step));
  back = kl_raw_number_first(&raw, KL_OP_SUB, kael_f(end), back);
  T *in_front = kl_raw_number(&raw, KL_OP_LT, place, kael_i(n / 2));
  return kl_raw_finish(&raw, kl_raw_select(&raw, in_front, front, back), dtype, out);
}

kael_tensor *kael_linspace(double start, double end, int64_t n, kael_dtype dtype) {
  HAND_OUT(linspace(start, end, n, (kl_dtype)dtype, &out));
}

/* --- Rearranging --------------------------------------------------------------------------------
 */

kael_tensor *kael_expand_as(T *self, T *other) {
  if (KL_MISSING(self, other)) return NULL;
  HAND_OUT(kl_expand(self, other->ndim, other->shape, &out));
}

static kl_status stack_all(kl_raw *raw, T *const *tensors, int n, int64_t dim, T **rows, T **out) {
  for (int i = 0; i < n; i++) {
    if (!kl_shape_equal(tensors[i]->ndim, tensors[i]->shape, tensors[0]->ndim, tensors[0]->shape))
      return kl_fail(
          KL_ERR_RUNTIME,
          "stack expects each tensor to be equal size, but got %s at entry 0 and %s at entry %d",
          kl_shape_text(tensors[0]->ndim, tensors[0]->shape),
          kl_shape_text(tensors[i]->ndim, tensors[i]->shape), i);
    KL_TRY(kl_unsqueeze(tensors[i], dim, &rows[i]));
  }
  if (dim < 0) dim += rows[0]->ndim;
  return finish(raw, CALL(raw, kl_cat, rows, n, dim), out);
}

static kl_status stack(T *const *tensors, int n, int64_t dim, T **out) {
  kl_raw raw = {0};
  if (n < 1) return kl_fail(KL_ERR_RUNTIME, "stack expects a non-empty TensorList");
  T **rows = kl_calloc((size_t)n, sizeof *rows);
  if (!rows) return kl_fail_memory("stack", sizeof *rows * (size_t)n);
  kl_status status = stack_all(&raw, tensors, n, dim, rows, out);
  for (int i = 0; i < n; i++) kl_tensor_release(rows[i]);
  kl_free(rows);
  return status;
}

kael_tensor *kael_stack(T *const *tensors, int n, int64_t dim) {
  if (n > 0 && !tensors) {
    kl_fail(KL_ERR_VALUE, "stack: the list of tensors is NULL");
    return NULL;
  }
  if (n > 0 && kl_operand_missing((const T *const *)tensors, n)) return NULL;
  HAND_OUT(stack(tensors, n, dim, &out));
}

/* n - 1, ..., 0 laid along `dim`, repeated over all other dims. */
static T *reversed_index(kl_raw *raw, const T *like, int dim) {
  const int64_t n = like->shape[dim];
  T *index = CALL(raw, kl_record_index, n);
  index = kl_raw_number_first(raw, KL_OP_SUB, kael_i(n - 1), index);
  int64_t strides[KL_MAX_RANK] = {0};
  strides[dim] = 1;
  return index ? CALL(raw, kl_tensor_view, index, like->ndim, like->shape, strides, 0) : NULL;
}

kl_status kl_flip(T *self, uint32_t mask, T **out) {
  kl_raw raw = {0};
  T *result = self;
  kl_set_site("flip");
  for (int d = 0; d < self->ndim && result; d++)
    if (mask >> d & 1) {
      T *index = reversed_index(&raw, result, d);
      result = index ? CALL(&raw, kl_record_gather, result, d, index) : NULL;
    }
  if (result == self) result = CALL(&raw, kl_record_copy, self, KL_LAYOUT_CONTIGUOUS);
  KL_TRY(finish(&raw, result, &result));
  kl_fn_attrs attrs = {.mask = mask};
  KL_TRY(kl_compose_track(KL_FN_FLIP, &self, 1, &attrs, &result));
  *out = result;
  return KL_OK;
}

kael_tensor *kael_flip(T *self, int n_dims, const int64_t *dims) {
  T *out = NULL;
  uint32_t mask = 0;
  if (KL_MISSING(self)) return NULL;
  kl_set_site("flip");
  kl_status status = n_dims > 0 ? kl_axes_check(dims, n_dims, self->ndim, &mask) : KL_OK;
  if (!status) status = kl_flip(self, mask, &out);
  return kl_hand_out(status, out);
}

static T *roll_dim(kl_raw *raw, T *x, int64_t shift, int64_t dim) {
  int at = 0;
  if (!x) return NULL;
  if (!raw->status) raw->status = kl_dim_check(dim, x->ndim, &at);
  if (raw->status || x->ndim == 0 || x->shape[at] == 0) return x;
  const int64_t n = x->shape[at], by = (shift % n + n) % n;
  if (by == 0) return x;
  T *parts[2] = {CALL(raw, kl_narrow, x, at, n - by, by), CALL(raw, kl_narrow, x, at, 0, n - by)};
  return parts[0] && parts[1] ? CALL(raw, kl_cat, parts, 2, at) : NULL;
}

static kl_status roll(T *self, int n, const int64_t *shifts, int n_dims, const int64_t *dims,
                      T **out) {
  kl_raw raw = {0};
  T *x = self;
  kl_set_site("roll");
  if (n < 1 || (n_dims != n && !(n_dims == 0 && n == 1)))
    return kl_fail(KL_ERR_RUNTIME, "roll: shifts and dimensions must align. shifts: %d, dims:%d", n,
                   n_dims);
  if (n > 8) return kl_fail(KL_ERR_RUNTIME, "roll: more than 8 shifts");
  if (n_dims == 0) {
    x = CALL(&raw, kl_reshape, self, 1, &(int64_t){-1});
    x = roll_dim(&raw, x, shifts[0], 0);
    x = x ? CALL(&raw, kl_reshape, x, self->ndim, self->shape) : NULL;
  }
  for (int i = 0; i < n_dims; i++) x = roll_dim(&raw, x, shifts[i], dims[i]);
  if (x) x = CALL(&raw, kl_clone, x);
  return finish(&raw, x, out);
}

kael_tensor *kael_roll(T *self, int n, const int64_t *shifts, int n_dims, const int64_t *dims) {
  if (KL_MISSING(self)) return NULL;
  HAND_OUT(roll(self, n, shifts, n_dims, dims, &out));
}

/* Where column - row <= diagonal, or for the upper part >=, x; else 0. */
static T *make_triangle(kl_raw *raw, bool upper, int64_t diagonal, T *x) {
  const int64_t n = x->shape[x->ndim - 2], m = x->shape[x->ndim - 1];
  const int64_t shape[2] = {n, 1}, strides[2] = {1, 1};
  T *rows = CALL(raw, kl_record_index, n), *columns = CALL(raw, kl_record_index, m);
  T *standing = rows ? CALL(raw, kl_tensor_view, rows, 2, shape, strides, 0) : NULL;
  T *distance = kl_raw_binary(raw, KL_OP_SUB, columns, standing);
  T *stays = kl_raw_number(raw, upper ? KL_OP_GE : KL_OP_LE, distance, kael_i(diagonal));
  return kl_raw_select_number(raw, stays, x, 0);
}

kl_status kl_triangle(T *self, bool upper, int64_t diagonal, T **out) {
  kl_raw raw = {0};
  T *result;
  kl_set_site(upper ? "triu" : "tril");
  if (self->ndim < 2)
    return kl_fail(KL_ERR_RUNTIME, "%s: input tensor must have at least 2 dimensions",
                   kl_thread.site);
  KL_TRY(kl_raw_finish(&raw, make_triangle(&raw, upper, diagonal, self), (kl_dtype)self->dtype,
                       &result));
  kl_fn_attrs attrs = {.start = diagonal};
  KL_TRY(kl_compose_track(upper ? KL_FN_TRIU : KL_FN_TRIL, &self, 1, &attrs, &result));
  *out = result;
  return KL_OK;
}

kael_tensor *kael_tril(T *self, int64_t diagonal) {
  if (KL_MISSING(self)) return NULL;
  HAND_OUT(kl_triangle(self, false, diagonal, &out));
}
kael_tensor *kael_triu(T *self, int64_t diagonal) {
  if (KL_MISSING(self)) return NULL;
  HAND_OUT(kl_triangle(self, true, diagonal, &out));
}

/* --- Products -----------------------------------------------------------------------------------
 */

static kl_status check_rank(const char *name, const T *tensor, int rank) {
  if (tensor->ndim == rank) return KL_OK;
  return kl_fail(KL_ERR_RUNTIME, "%s: expected a %dD tensor, but got shape %s", name, rank,
                 kl_shape_text(tensor->ndim, tensor->shape));
}

static kl_status bmm(T *self, T *other, T **out) {
  KL_TRY(check_rank("bmm", self, 3));
  KL_TRY(check_rank("bmm", other, 3));
  if (self->shape[0] != other->shape[0])
    return kl_fail(KL_ERR_RUNTIME, "bmm: the batch sizes of %s and %s differ",
                   kl_shape_text(3, self->shape), kl_shape_text(3, other->shape));
  return kl_matmul(self, other, out);
}

static kl_status outer(T *self, T *other, T **out) {
  kl_raw raw = {0};
  KL_TRY(check_rank("outer", self, 1));
  KL_TRY(check_rank("outer", other, 1));
  T *standing = CALL(&raw, kl_unsqueeze, self, 1);
  return finish(&raw, standing ? CALL(&raw, kl_mul, standing, other) : NULL, out);
}

static bool is_number(kael_scalar number, int64_t value) {
  return number.kind == KAEL_SCALAR_FLOAT ? number.as.f == (double)value
         : number.kind == KAEL_SCALAR_INT ? number.as.i == value
                                          : number.as.b == value;
}

/* With beta = 0 self is not read, so its NaNs do not count. */
static kl_status addmm(T *self, T *a, T *b, kael_scalar beta, kael_scalar alpha, T **out) {
  kl_raw raw = {0};
  KL_TRY(check_rank("addmm", a, 2));
  KL_TRY(check_rank("addmm", b, 2));
  T *product = CALL(&raw, kl_matmul, a, b);
  T *wide = product ? CALL(&raw, kl_expand, self, 2, product->shape) : NULL;
  if (product && !is_number(alpha, 1)) product = CALL(&raw, kl_mul_scalar, product, alpha);
  if (wide && is_number(beta, 0)) return finish(&raw, product, out);
  if (wide && !is_number(beta, 1)) wide = CALL(&raw, kl_mul_scalar, wide, beta);
  return finish(&raw, wide && product ? CALL(&raw, kl_add, wide, product) : NULL, out);
}

kael_tensor *kael_bmm(T *self, T *other) {
  if (KL_MISSING(self, other)) return NULL;
  HAND_OUT(bmm(self, other, &out));
}
kael_tensor *kael_outer(T *self, T *other) {
  if (KL_MISSING(self, other)) return NULL;
  HAND_OUT(outer(self, other, &out));
}
kael_tensor *kael_addmm(T *self, T *mat1, T *mat2, kael_scalar beta, kael_scalar alpha) {
  if (KL_MISSING(self, mat1, mat2)) return NULL;
  HAND_OUT(addmm(self, mat1, mat2, beta, alpha, &out));
}

/* --- Losses and tables --------------------------------------------------------------------------
 */

static kl_status mse_loss(T *input, T *target, int reduction, T **out) {
  kl_raw raw = {0};
  if (reduction < KAEL_REDUCTION_NONE || reduction > KAEL_REDUCTION_SUM)
    return kl_fail(KL_ERR_VALUE, "mse_loss: %d is not a valid value for reduction", reduction);
  T *distance = CALL(&raw, kl_sub, input, target);
  T *loss = distance ? CALL(&raw, kl_square, distance) : NULL;
  if (loss && reduction == KAEL_REDUCTION_MEAN) loss = CALL(&raw, kl_mean, loss, UINT32_MAX, false);
  if (loss && reduction == KAEL_REDUCTION_SUM) loss = CALL(&raw, kl_sum, loss, UINT32_MAX, false);
  return finish(&raw, loss, out);
}

kael_tensor *kael_mse_loss(T *input, T *target, kael_reduction reduction) {
  if (KL_MISSING(input, target)) return NULL;
  HAND_OUT(mse_loss(input, target, (int)reduction, &out));
}

static kl_status embedding(T *weight, T *index, T **out) {
  kl_raw raw = {0};
  KL_TRY(check_rank("embedding", weight, 2));
  int64_t shape[KL_MAX_RANK];
  if (index->ndim >= KL_MAX_RANK)
    return kl_fail(KL_ERR_RUNTIME, "embedding: the index has too many dims");
  for (int d = 0; d < index->ndim; d++) shape[d] = index->shape[d];
  shape[index->ndim] = weight->shape[1];
  T *flat = CALL(&raw, kl_reshape, index, 1, &(int64_t){index->numel});
  T *rows = flat ? CALL(&raw, kl_index_select, weight, 0, flat) : NULL;
  return finish(&raw, rows ? CALL(&raw, kl_view, rows, index->ndim + 1, shape) : NULL, out);
}

kael_tensor *kael_embedding(T *weight, T *index) {
  if (KL_MISSING(weight, index)) return NULL;
  HAND_OUT(embedding(weight, index, &out));
}

/* Exactly, unlike the bounds that are known of a value. */
static kl_status extreme_of(kl_op op, T *index, int64_t *out_value) {
  kl_raw raw = {0};
  T *found;
  KL_TRY(kl_raw_finish(&raw, kl_raw_reduce(&raw, op, index, UINT32_MAX, false), KL_I64, &found));
  kl_buffer *held = NULL;
  const char *first = NULL;
  kl_status status = kl_tensor_bytes(found, &held, &first);
  if (!status) *out_value = kl_element_int(first, KL_I64);
  kl_buffer_release(held);
  kl_tensor_release(found);
  return status;
}

static kl_status check_classes(T *index, int64_t *n_classes) {
  int64_t least = 0, most = -1;
  if (index->dtype != KL_I64)
    return kl_fail(KL_ERR_RUNTIME,
                   "one_hot is only applicable to index tensor of type LongTensor.");
  if (index->numel == 0 && *n_classes < 1)
    return kl_fail(KL_ERR_RUNTIME, "Can not infer total number of classes from empty tensor.");
  if (index->numel > 0) {
    KL_TRY(extreme_of(KL_OP_REDUCE_MIN, index, &least));
    KL_TRY(extreme_of(KL_OP_REDUCE_MAX, index, &most));
  }
  if (least < 0) return kl_fail(KL_ERR_RUNTIME, "one_hot: Class values must be non-negative.");
  if (*n_classes == -1) *n_classes = most + 1;
  if (most < *n_classes) return KL_OK;
  return kl_fail(KL_ERR_RUNTIME, "one_hot: Class values must be smaller than num_classes.");
}

static kl_status one_hot(T *index, int64_t n_classes, T **out) {
  kl_raw raw = {0};
  kl_set_site("one_hot");
  KL_TRY(check_classes(index, &n_classes));
  kl_set_site("one_hot");
  T *classes = CALL(&raw, kl_record_index, n_classes),
    *column = CALL(&raw, kl_unsqueeze, index, -1);
  return kl_raw_finish(&raw, kl_raw_binary(&raw, KL_OP_EQ, column, classes), KL_I64, out);
}

kael_tensor *kael_one_hot(T *index, int64_t n_classes) {
  if (KL_MISSING(index)) return NULL;
  HAND_OUT(one_hot(index, n_classes, &out));
}

/* --- Comparing ----------------------------------------------------------------------------------
 */

/* Whether all of a bool tensor's elements hold; computes it. */
static kl_status all_hold(kl_raw *raw, T *holds, bool *out_all) {
  T *all;
  KL_TRY(kl_raw_finish(raw, kl_raw_reduce(raw, KL_OP_REDUCE_ALL, holds, UINT32_MAX, false), KL_BOOL,
                       &all));
  kl_buffer *held = NULL;
  const char *first = NULL;
  kl_status status = kl_tensor_bytes(all, &held, &first);
  if (!status) *out_all = *first != 0;
  kl_buffer_release(held);
  kl_tensor_release(all);
  return status;
}

static void promote_pair(kl_raw *raw, T **a, T **b) {
  T *pair[2] = {*a, *b};
  const kl_dtype dtype = kl_compute_dtype(kl_result_type(pair, 2, NULL));
  *a = kl_raw_cast(raw, *a, dtype);
  *b = kl_raw_cast(raw, *b, dtype);
}

kael_status kael_equal(T *self, T *other, bool *out_equal) {
  kl_raw raw = {0};
  if (KL_MISSING(self, other)) return kael_last_error().code;
  if (!out_equal)
    return (kael_status)kl_fail(KL_ERR_VALUE, "equal: the place for the result is NULL");
  *out_equal = false;
  kl_set_site("equal");
  if (!kl_shape_equal(self->ndim, self->shape, other->ndim, other->shape)) return KAEL_OK;
  promote_pair(&raw, &self, &other);
  return (kael_status)all_hold(&raw, kl_raw_binary(&raw, KL_OP_EQ, self, other), out_equal);
}

/* |a - b| <= atol + rtol |b|, or equal (infinities), or both NaN where that counts. */
kael_status kael_allclose(T *self, T *other, double rtol, double atol, bool equal_nan,
                          bool *out_close) {
  kl_raw raw = {0};
  if (KL_MISSING(self, other)) return kael_last_error().code;
  if (!out_close)
    return (kael_status)kl_fail(KL_ERR_VALUE, "allclose: the place for the result is NULL");
  kl_set_site("allclose");
  if (self->dtype != other->dtype)
    return (kael_status)kl_fail(KL_ERR_RUNTIME, "allclose: %s did not match %s",
                                kl_dtype_torch_name((kl_dtype)self->dtype),
                                kl_dtype_torch_name((kl_dtype)other->dtype));
  T *a = self, *b = other;
  promote_pair(&raw, &a, &b);
  T *holds = kl_raw_binary(&raw, KL_OP_EQ, a, b);
  if (a && kl_dtype_is_float((kl_dtype)a->dtype) && b) {
    T *distance = kl_raw_unary(&raw, KL_OP_ABS, kl_raw_binary(&raw, KL_OP_SUB, a, b));
    T *margin = kl_raw_number(&raw, KL_OP_MUL, kl_raw_unary(&raw, KL_OP_ABS, b), kael_f(rtol));
    margin = kl_raw_number(&raw, KL_OP_ADD, margin, kael_f(atol));
    T *near = kl_raw_binary(&raw, KL_OP_LE, distance, margin);
    T *finite = kl_raw_number(&raw, KL_OP_LT, distance, kael_f(INFINITY));
    holds = kl_raw_binary(&raw, KL_OP_OR, holds, kl_raw_binary(&raw, KL_OP_AND, near, finite));
    if (equal_nan)
      holds = kl_raw_binary(&raw, KL_OP_OR, holds,
                            kl_raw_binary(&raw, KL_OP_AND, kl_raw_binary(&raw, KL_OP_NE, a, a),
                                          kl_raw_binary(&raw, KL_OP_NE, b, b)));
  }
  return (kael_status)all_hold(&raw, holds, out_close);
}
