/* Reading operands under the lock, dtype views, bounds, and the end of every recording. */
#include "frontend/record_value.h"

#include "frontend/materialize.h"

/* No bytes are there from the start: nothing need be run for them. */
static kl_status create_without_elements(kl_dtype dtype, kl_value **out_value) {
  kl_buffer *buffer;
  KL_TRY(kl_buffer_create(0, &buffer));
  kl_status status = kl_value_create_real(dtype, 0, buffer, out_value);
  kl_buffer_release(buffer);
  return status;
}

kl_status kl_value_create_empty(kl_dtype dtype, int64_t numel, kl_value **out_value) {
  if (numel == 0) return create_without_elements(dtype, out_value);
  KL_TRY(kl_value_create(KL_OP_EMPTY, dtype, 1, 0, out_value));
  kl_value_set_dims(*out_value, 1, &numel);
  (*out_value)->numel = numel;
  (*out_value)->site = kl_thread.site;
  return KL_OK;
}

static kl_status bitcast(kl_value *value, kl_dtype dtype, kl_value **out_value) {
  KL_TRY(kl_value_create(KL_OP_BITCAST, dtype, 1, 0, out_value));
  int64_t one = 1;
  kl_value_set_dims(*out_value, 1, &value->numel);
  (*out_value)->numel = value->numel;
  (*out_value)->site = kl_thread.site;
  kl_value_set_operand(*out_value, 0, kl_value_retain(value), 0, &one);
  return KL_OK;
}

kl_status kl_value_reinterpret(kl_value *value, kl_dtype dtype, size_t nbytes,
                               kl_value **out_value) {
  kl_status status;
  size_t size = kl_dtype_size(dtype), value_size = kl_dtype_size((kl_dtype)value->dtype);
  if (size == value_size && value->state != KL_VALUE_REAL) {
    status = bitcast(value, dtype, out_value);
  } else {
    status = kl_materialize(&value, 1);
    if (!status)
      /* Of all bytes: those beyond the last whole element of the old dtype are there too, since
       * such a storage keeps its buffer. */
      status = kl_value_create_real(dtype, (int64_t)(nbytes / size), value->buffer, out_value);
  }
  kl_value_release(value);
  return status;
}

void kl_reads_release(kl_read *reads, int n_args) {
  for (int i = 0; i < n_args; i++) kl_value_release(reads[i].value);
}

kl_status kl_reads_take(const kl_arg *args, int n_args, kl_read *out_reads, bool *out_shared) {
  bool reinterpret = false;
  kl_graph_lock();
  for (int i = 0; i < n_args; i++) {
    const kael_tensor *tensor = args[i].tensor;
    out_reads[i].value = tensor ? kl_value_retain(tensor->storage->value) : NULL;
    if (!tensor) continue;
    if (out_reads[i].value->dtype != tensor->dtype) reinterpret = true;
    if (kl_storage_is_shared(tensor->storage)) *out_shared = true;
  }
  kl_graph_unlock();
  for (int i = 0; reinterpret && i < n_args; i++) {
    if (!args[i].tensor || out_reads[i].value->dtype == args[i].tensor->dtype) continue;
    kl_value *value = out_reads[i].value;
    out_reads[i].value = NULL;
    const kael_tensor *tensor = args[i].tensor;
    kl_status status = kl_value_reinterpret(value, (kl_dtype)tensor->dtype, tensor->storage->nbytes,
                                            &out_reads[i].value);
    if (status) {
      kl_reads_release(out_reads, n_args);
      return status;
    }
  }
  return KL_OK;
}

void kl_value_set_bounds_of_scalar(kl_value *value, kl_scalar scalar) {
  switch ((kl_dtype)value->dtype) {
    case KL_BOOL:
    case KL_U8:
      value->least = value->most = scalar.u8;
      break;
    case KL_I32:
      value->least = value->most = scalar.i32;
      break;
    case KL_I64:
      value->least = value->most = scalar.i64;
      break;
    default:
      break;
  }
}

kl_status kl_record_finish(kl_value *value, kl_dtype dtype, int ndim, const int64_t *shape,
                           const int64_t *strides, bool reads_shared, kael_tensor **out) {
  kael_tensor *tensor;
  KL_TRY(kl_tensor_create_for_value(value, dtype, ndim, shape, strides, &tensor));
  kl_status status = kl_recorded(tensor->storage, reads_shared);
  if (status) {
    kl_tensor_release(tensor);
    return status;
  }
  *out = tensor;
  return KL_OK;
}
