/* Looking at tensors, and reading their bytes. */
#include <string.h>

#include "frontend/element.h"
#include "frontend/materialize.h"
#include "frontend/ops.h"
#include "frontend/promote.h"
#include "kael/jit.h"
#include "kael/tensor.h"

/* KAEL_NONE is no tensor to look at. */
static bool is_tensor(const kael_tensor *tensor) { return tensor && tensor != KAEL_NONE; }

int kael_ndim(const kael_tensor *tensor) { return is_tensor(tensor) ? tensor->ndim : 0; }

const int64_t *kael_shape(const kael_tensor *tensor) { return is_tensor(tensor) ? tensor->shape : NULL; }

const int64_t *kael_strides(const kael_tensor *tensor) { return is_tensor(tensor) ? tensor->strides : NULL; }

static int64_t at_dim(const kael_tensor *tensor, const int64_t *array, int dim) {
  if (dim < 0) dim += tensor->ndim;
  return dim >= 0 && dim < tensor->ndim ? array[dim] : 0;
}

int64_t kael_size(const kael_tensor *tensor, int dim) {
  return is_tensor(tensor) ? at_dim(tensor, tensor->shape, dim) : 0;
}

int64_t kael_stride(const kael_tensor *tensor, int dim) {
  return is_tensor(tensor) ? at_dim(tensor, tensor->strides, dim) : 0;
}

int64_t kael_offset(const kael_tensor *tensor) { return is_tensor(tensor) ? tensor->offset : 0; }

int64_t kael_numel(const kael_tensor *tensor) { return is_tensor(tensor) ? tensor->numel : 0; }

kael_dtype kael_dtype_of(const kael_tensor *tensor) {
  return is_tensor(tensor) ? (kael_dtype)tensor->dtype : (kael_dtype)0;
}

kael_device kael_device_of(const kael_tensor *tensor) {
  return is_tensor(tensor) ? (kael_device)tensor->device : KAEL_CPU;
}

bool kael_is_contiguous(const kael_tensor *tensor) {
  return is_tensor(tensor) && kl_tensor_is_contiguous(tensor);
}

uint64_t kael_version(const kael_tensor *tensor) {
  return is_tensor(tensor) ? atomic_load_explicit(&tensor->storage->version, memory_order_relaxed) : 0;
}

int kael_references(const kael_tensor *tensor) {
  return is_tensor(tensor) ? atomic_load(&tensor->refs) - atomic_load(&tensor->held_refs) : 0;
}

bool kael_is_same(const kael_tensor *a, const kael_tensor *b) { return is_tensor(a) && a == b; }

bool kael_shares_storage(const kael_tensor *a, const kael_tensor *b) {
  return is_tensor(a) && is_tensor(b) && a->storage == b->storage;
}

/* --- Bytes ------------------------------------------------------------------------------------ */

kl_status kl_tensor_bytes(const kael_tensor *tensor, kl_buffer **out_held,
                          const char **out_first) {
  KL_TRY(kl_materialize_storage(tensor->storage, out_held));
  *out_first = (const char *)(*out_held)->ptr +
               (size_t)tensor->offset * kl_dtype_size((kl_dtype)tensor->dtype);
  return KL_OK;
}

const void *kael_data_ptr(const kael_tensor *tensor) {
  kl_buffer *held;
  const char *first;
  if (KL_MISSING(tensor) || kl_tensor_bytes(tensor, &held, &first)) return NULL;
  kl_buffer_release(held); /* the storage has its own reference, until it is written */
  return first;
}

void *kael_mutable_data_ptr(kael_tensor *tensor) {
  if (KL_MISSING(tensor)) return NULL;
  kl_storage *storage = tensor->storage;
  if (storage->flags & KL_STORAGE_READONLY) {
    kl_fail(KL_ERR_RUNTIME, "mutable_data_ptr: the memory of this tensor is read-only");
    return NULL;
  }
  if (kl_materialize_for_export(storage)) return NULL;
  storage->flags |= KL_STORAGE_SHARED;
  return (char *)storage->pinned->ptr +
         (size_t)tensor->offset * kl_dtype_size((kl_dtype)tensor->dtype);
}

static kl_status only_element(const kael_tensor *tensor, const void *out_value,
                              kl_buffer **out_held, const char **out_element) {
  if (!out_value) return kl_fail(KL_ERR_VALUE, "item: the place for the value is NULL");
  if (tensor->numel != 1)
    return kl_fail(KL_ERR_RUNTIME,
                   "item: a Tensor with %lld elements cannot be converted to Scalar",
                   (long long)tensor->numel);
  return kl_tensor_bytes(tensor, out_held, out_element);
}

kael_status kael_item(const kael_tensor *tensor, double *out_value) {
  const char *element = NULL;
  kl_buffer *held = NULL;
  if (KL_MISSING(tensor)) return kael_last_error().code;
  kl_status status = only_element(tensor, out_value, &held, &element);
  if (!status) *out_value = kl_element_double(element, (kl_dtype)tensor->dtype);
  kl_buffer_release(held);
  return (kael_status)status;
}

kael_status kael_item_int(const kael_tensor *tensor, int64_t *out_value) {
  const char *element = NULL;
  kl_buffer *held = NULL;
  if (KL_MISSING(tensor)) return kael_last_error().code;
  kl_status status = only_element(tensor, out_value, &held, &element);
  if (!status) *out_value = kl_element_int(element, (kl_dtype)tensor->dtype);
  kl_buffer_release(held);
  return (kael_status)status;
}

/* Copies the elements of a view one by one. */
static void gather_elements(const kael_tensor *tensor, const char *first, char *into) {
  size_t size = kl_dtype_size((kl_dtype)tensor->dtype);
  int64_t at[KL_MAX_RANK] = {0};
  for (int64_t i = 0, place = 0; i < tensor->numel; i++) {
    memcpy(into + (size_t)i * size, first + (size_t)place * size, size);
    for (int d = tensor->ndim - 1; d >= 0; d--) {
      place += tensor->strides[d];
      if (++at[d] < tensor->shape[d]) break;
      place -= tensor->strides[d] * tensor->shape[d];
      at[d] = 0;
    }
  }
}

static kl_status copy_to_host(const kael_tensor *tensor, void *buffer, size_t nbytes) {
  size_t expected = (size_t)tensor->numel * kl_dtype_size((kl_dtype)tensor->dtype);
  if (nbytes != expected)
    return kl_fail(KL_ERR_VALUE, "copy_to_host: the tensor has %zu bytes, the buffer %zu", expected,
                   nbytes);
  if (nbytes == 0) return KL_OK;
  if (!buffer) return kl_fail(KL_ERR_VALUE, "copy_to_host: the buffer is NULL");
  kl_buffer *held;
  const char *first;
  KL_TRY(kl_tensor_bytes(tensor, &held, &first));
  if (kl_tensor_is_contiguous(tensor))
    memcpy(buffer, first, nbytes);
  else
    gather_elements(tensor, first, buffer);
  kl_buffer_release(held);
  return KL_OK;
}

kael_status kael_copy_to_host(const kael_tensor *tensor, void *buffer, size_t nbytes) {
  if (KL_MISSING(tensor)) return kael_last_error().code;
  return (kael_status)copy_to_host(tensor, buffer, nbytes);
}

static kl_status eval(kael_tensor *const *tensors, int n) {
  if (n <= 0) return KL_OK;
  kl_value **values = kl_malloc(sizeof *values * (size_t)n);
  if (!values) return kl_fail_memory("eval", sizeof *values * (size_t)n);
  for (int i = 0; i < n; i++) values[i] = kl_storage_get_value(tensors[i]->storage);
  kl_status status = kl_materialize(values, n);
  for (int i = 0; i < n; i++) kl_value_release(values[i]);
  kl_free(values);
  return status;
}

kael_status kael_eval(kael_tensor *const *tensors, int n) {
  if (kl_operand_missing((const kael_tensor *const *)tensors, n)) return kael_last_error().code;
  return (kael_status)eval(tensors, n);
}

/* --- Moving ----------------------------------------------------------------------------------- */

static kl_status move_to(kael_tensor *self, kael_device device) {
  kl_set_site("move_to_");
  if (device != KAEL_CPU)
    return kl_fail(KL_ERR_DEVICE, "move_to_: this build has no device %d", (int)device);
  kael_tensor *copy;
  KL_TRY(kl_record_copy(self, KL_LAYOUT_CONTIGUOUS, &copy));
  kl_storage *old = self->storage;
  self->storage = kl_storage_retain(copy->storage);
  atomic_fetch_add_explicit(&self->storage->impl_refs, 1, memory_order_relaxed);
  atomic_fetch_sub_explicit(&old->impl_refs, 1, memory_order_relaxed);
  self->device = copy->device;
  self->offset = 0;
  kl_shape_contiguous(self->ndim, self->shape, self->strides);
  kl_tensor_refresh(self);
  kl_storage_release(old);
  kl_tensor_release(copy);
  return KL_OK;
}

kael_status kael_move_to_(kael_tensor *self, kael_device device) {
  if (KL_MISSING(self)) return kael_last_error().code;
  return (kael_status)move_to(self, device);
}
