/* New tensors: fills, ranges, the caller's data, random numbers. */
#include "kael/factory.h"

#include <math.h>
#include <string.h>

#include "frontend/ops.h"
#include "frontend/promote.h"
#include "frontend/record_value.h"
#include "kael/random.h"

kl_status kl_full(kl_dtype dtype, int ndim, const int64_t *shape, kael_scalar value,
                  kael_tensor **out) {
  kl_set_site("full");
  KL_TRY(kl_check_dtype("full", (int)dtype));
  KL_TRY(kl_check_number("full", value, dtype));
  return kl_record_fill(dtype, ndim, shape, kl_scalar_from(value, dtype), out);
}

kl_status kl_full_like(const kael_tensor *like, kael_scalar value, kael_tensor **out) {
  return kl_full((kl_dtype)like->dtype, like->ndim, like->shape, value, out);
}

kael_tensor *kael_full(int ndim, const int64_t *shape, kael_scalar value, kael_dtype dtype) {
  kael_tensor *out = NULL;
  kl_status status = kl_full((kl_dtype)dtype, ndim, shape, value, &out);
  return kl_hand_out(status, out);
}

kael_tensor *kael_zeros(int ndim, const int64_t *shape, kael_dtype dtype) {
  return kael_full(ndim, shape, kael_i(0), dtype);
}

kael_tensor *kael_ones(int ndim, const int64_t *shape, kael_dtype dtype) {
  return kael_full(ndim, shape, kael_i(1), dtype);
}

kael_tensor *kael_scalar_tensor(kael_scalar value, kael_dtype dtype) {
  return kael_full(0, NULL, value, dtype);
}

/* --- Ranges ----------------------------------------------------------------------------------- */

static double number_as_double(kael_scalar number) {
  if (number.kind == KAEL_SCALAR_FLOAT) return number.as.f;
  return number.kind == KAEL_SCALAR_INT ? (double)number.as.i : (double)number.as.b;
}

static bool number_is_exact(kael_scalar number) { return number.kind != KAEL_SCALAR_FLOAT; }

static int64_t number_as_int(kael_scalar number) {
  return number.kind == KAEL_SCALAR_INT ? number.as.i : (int64_t)number.as.b;
}

/* ceil((end - start) / step): exactly where all three are integers. */
static kl_status range_length(kael_scalar start, kael_scalar end, kael_scalar step,
                              int64_t *out_length) {
  double from = number_as_double(start), to = number_as_double(end), by = number_as_double(step);
  if (by == 0) return kl_fail(KL_ERR_RUNTIME, "arange: step must be nonzero");
  if (!isfinite(from) || !isfinite(to) || isnan(by))
    return kl_fail(KL_ERR_RUNTIME, "arange: unsupported range: %g -> %g", from, to);
  if ((by > 0 && from > to) || (by < 0 && from < to))
    return kl_fail(
        KL_ERR_RUNTIME,
        "arange: upper bound and lower bound inconsistent with step sign: %g to %g by %g", from, to,
        by);
  if (number_is_exact(start) && number_is_exact(end) && number_is_exact(step)) {
    __int128 span = (__int128)number_as_int(end) - number_as_int(start);
    __int128 stride = number_as_int(step);
    __int128 length = (span + stride - (stride > 0 ? 1 : -1)) / stride;
    if (length > INT64_MAX) return kl_fail(KL_ERR_RUNTIME, "arange: the range is too long");
    *out_length = (int64_t)length;
    return KL_OK;
  }
  double length = ceil((to - from) / by);
  if (!(length < 0x1p62)) return kl_fail(KL_ERR_RUNTIME, "arange: the range is too long");
  *out_length = (int64_t)length;
  return KL_OK;
}

/* The bounds of start + i * step over an integer dtype, where nothing wraps around. */
static void set_range_bounds(kael_tensor *range, int64_t start, int64_t step, int64_t length) {
  int64_t last;
  if (range->dtype != KL_I64 || length < 1) return;
  if (__builtin_mul_overflow(step, length - 1, &last)) return;
  if (__builtin_add_overflow(start, last, &last)) return;
  kl_graph_lock();
  kl_value *value = range->storage->value;
  value->least = start < last ? start : last;
  value->most = start < last ? last : start;
  kl_graph_unlock();
}

/* As PyTorch has it, a range of integers starts and steps by the numbers cut to integers, while its
 * length is that of the numbers given. */
static kl_status cut(kael_scalar *number) {
  KL_TRY(kl_check_number("arange", *number, KL_I64));
  if (number->kind == KAEL_SCALAR_FLOAT) *number = kael_i((int64_t)number->as.f);
  return KL_OK;
}

static kl_status arange(kael_scalar start, kael_scalar end, kael_scalar step, kl_dtype dtype,
                        kael_tensor **out) {
  kl_set_site("arange");
  KL_TRY(kl_check_dtype("arange", (int)dtype));
  if (dtype == KL_BOOL) return kl_fail(KL_ERR_RUNTIME, "arange: not supported for dtype bool");
  int64_t length = 0;
  KL_TRY(range_length(start, end, step, &length));
  if (kl_dtype_is_integer(dtype)) {
    KL_TRY(cut(&start));
    KL_TRY(cut(&step));
  }
  kael_tensor *index, *numbers = NULL, *scaled = NULL;
  KL_TRY(kl_record_index(length, &index));
  kl_status status = kl_record_cast(index, dtype, &numbers);
  if (!status)
    status = kl_record_binary_scalar(KL_OP_MUL, numbers, kl_scalar_from(step, dtype), &scaled);
  if (!status)
    status = kl_record_binary_scalar(KL_OP_ADD, scaled, kl_scalar_from(start, dtype), out);
  if (!status && number_is_exact(start) && number_is_exact(step))
    set_range_bounds(*out, number_as_int(start), number_as_int(step), length);
  kl_tensor_release(index);
  kl_tensor_release(numbers);
  kl_tensor_release(scaled);
  return status;
}

kael_tensor *kael_arange(kael_scalar start, kael_scalar end, kael_scalar step, kael_dtype dtype) {
  kael_tensor *out = NULL;
  kl_status status = arange(start, end, step, (kl_dtype)dtype, &out);
  return kl_hand_out(status, out);
}

/* rows == columns, as a table of bool, then cast. */
static kl_status eye(int64_t n, int64_t m, kl_dtype dtype, kael_tensor **out) {
  kl_set_site("eye");
  KL_TRY(kl_check_dtype("eye", (int)dtype));
  if (n < 0 || m < 0)
    return kl_fail(KL_ERR_RUNTIME, "eye: n and m must be greater or equal to 0, got %lld and %lld",
                   (long long)n, (long long)m);
  int64_t shape[2] = {n, 1}, strides[2] = {1, 1};
  kael_tensor *rows, *columns = NULL, *standing = NULL, *equal = NULL;
  KL_TRY(kl_record_index(n, &rows));
  kl_status status = kl_record_index(m, &columns);
  if (!status) status = kl_tensor_view(rows, 2, shape, strides, 0, &standing);
  if (!status) status = kl_record_binary(KL_OP_EQ, standing, columns, &equal);
  if (!status) status = kl_record_cast(equal, dtype, out);
  kl_tensor_release(rows);
  kl_tensor_release(columns);
  kl_tensor_release(standing);
  kl_tensor_release(equal);
  return status;
}

kael_tensor *kael_eye(int64_t n, int64_t m, kael_dtype dtype) {
  kael_tensor *out = NULL;
  kl_status status = eye(n, m, (kl_dtype)dtype, &out);
  return kl_hand_out(status, out);
}

/* --- The caller's data ------------------------------------------------------------------------ */

static kl_status from_data(const void *data, int ndim, const int64_t *shape, kl_dtype dtype,
                           kael_tensor **out) {
  int64_t numel;
  kl_set_site("from_data");
  KL_TRY(kl_check_dtype("from_data", (int)dtype));
  KL_TRY(kl_shape_check("from_data", ndim, shape, &numel));
  if (numel > 0 && !data) return kl_fail(KL_ERR_VALUE, "from_data: data is NULL");
  size_t nbytes = (size_t)numel * kl_dtype_size(dtype);
  kl_buffer *buffer;
  KL_TRY(kl_buffer_create(nbytes, &buffer));
  if (nbytes) memcpy(buffer->ptr, data, nbytes);
  kl_value *value;
  kl_status status = kl_value_create_real(dtype, numel, buffer, &value);
  kl_buffer_release(buffer);
  if (status) return status;
  return kl_tensor_create_for_value(value, dtype, ndim, shape, NULL, out);
}

kael_tensor *kael_from_data(const void *data, int ndim, const int64_t *shape, kael_dtype dtype) {
  kael_tensor *out = NULL;
  kl_status status = from_data(data, ndim, shape, (kl_dtype)dtype, &out);
  return kl_hand_out(status, out);
}
