/* Public storages, and tensors made of their parts. */
#include <string.h>

#include "frontend/materialize.h"
#include "frontend/ops.h"
#include "frontend/promote.h"
#include "frontend/strides.h"
#include "kael/tensor.h"

/* The public type is the internal one. */
static kl_storage *inside(const kael_storage *storage) { return (kl_storage *)(uintptr_t)storage; }

static kl_status storage_over(kl_buffer *buffer, unsigned flags, kl_storage **out_storage) {
  kl_value *value;
  KL_TRY(kl_value_create_real(KL_U8, (int64_t)buffer->nbytes, buffer, &value));
  kl_status status = kl_storage_create(value, buffer->nbytes, out_storage);
  if (status) {
    kl_value_release(value);
    return status;
  }
  (*out_storage)->flags = flags;
  if (flags & KL_STORAGE_EXTERNAL) (*out_storage)->pinned = kl_buffer_retain(buffer);
  return KL_OK;
}

kael_storage *kael_storage_create(size_t nbytes) {
  kl_buffer *buffer;
  kl_storage *storage = NULL;
  if (nbytes > INT64_MAX) {
    kl_fail_memory("storage_create", nbytes);
    return NULL;
  }
  if (kl_buffer_create(nbytes, &buffer)) return NULL;
  memset(buffer->ptr, 0, nbytes);
  kl_status status = storage_over(buffer, 0, &storage);
  kl_buffer_release(buffer);
  return status ? NULL : (kael_storage *)storage;
}

kael_storage *kael_storage_external(void *ptr, size_t nbytes, kael_deleter deleter, void *user,
                                    unsigned flags) {
  if ((!ptr && nbytes) || nbytes > INT64_MAX ||
      (flags & ~(unsigned)(KAEL_STORAGE_READONLY | KAEL_STORAGE_SHARED))) {
    kl_fail(KL_ERR_VALUE, "storage_external: %s",
            !ptr && nbytes ? "the pointer is NULL" : "the size or a flag is impossible");
    return NULL;
  }
  unsigned storage_flags = KL_STORAGE_EXTERNAL;
  uint32_t buffer_flags = 0;
  if (flags & KAEL_STORAGE_READONLY) {
    storage_flags |= KL_STORAGE_READONLY;
    buffer_flags |= KL_BUFFER_READONLY;
  }
  if (flags & KAEL_STORAGE_SHARED) {
    storage_flags |= KL_STORAGE_SHARED;
    buffer_flags |= KL_BUFFER_SHARED;
  }
  kl_buffer *buffer;
  kl_storage *storage = NULL;
  if (kl_buffer_create_external(ptr, nbytes, deleter, user, buffer_flags, &buffer)) return NULL;
  kl_status status = storage_over(buffer, storage_flags, &storage);
  if (status) buffer->deleter = NULL; /* after a failure the bytes are still the caller's */
  kl_buffer_release(buffer);
  return status ? NULL : (kael_storage *)storage;
}

kael_storage *kael_storage_retain(kael_storage *storage) {
  if (storage) kl_storage_retain(inside(storage));
  return storage;
}

void kael_storage_release(kael_storage *storage) {
  if (storage) kl_storage_release(inside(storage));
}

size_t kael_storage_nbytes(const kael_storage *storage) {
  return storage ? inside(storage)->nbytes : 0;
}

int kael_storage_references(const kael_storage *storage) {
  return storage ? atomic_load(&inside(storage)->impl_refs) : 0;
}

/* Bytes beyond the last whole element would be lost when a new value replaced the storage's: such a
 * storage keeps its buffer, and is written at the call. */
static kl_status keep_odd_bytes(kl_storage *storage, kl_dtype dtype) {
  if (storage->pinned || storage->nbytes % kl_dtype_size(dtype) == 0) return KL_OK;
  KL_TRY(kl_materialize_for_export(storage));
  storage->flags |= KL_STORAGE_SHARED;
  return KL_OK;
}

static kl_status from_parts(kl_storage *storage, int ndim, const int64_t *shape,
                            const int64_t *strides, int64_t offset, kl_dtype dtype,
                            kael_tensor **out) {
  kl_set_site("tensor_from_parts");
  KL_TRY(kl_check_dtype("tensor_from_parts", (int)dtype));
  KL_TRY(
      kl_check_bounds("tensor_from_parts", ndim, shape, strides, offset, dtype, storage->nbytes));
  if (storage->pinned && (uintptr_t)storage->pinned->ptr % kl_dtype_size(dtype) != 0)
    return kl_fail(KL_ERR_VALUE, "tensor_from_parts: the memory is not aligned for dtype %s",
                   kl_dtype_torch_name(dtype));
  KL_TRY(keep_odd_bytes(storage, dtype));
  return kl_tensor_create(kl_storage_retain(storage), dtype, ndim, shape, strides, offset, out);
}

kael_tensor *kael_tensor_from_parts(kael_storage *storage, int ndim, const int64_t *shape,
                                    const int64_t *strides, int64_t offset, kael_dtype dtype) {
  kael_tensor *out = NULL;
  if (!storage) {
    if (kl_error_code() == KL_OK) kl_fail(KL_ERR_VALUE, "tensor_from_parts: the storage is NULL");
    return NULL;
  }
  kl_status status =
      from_parts(inside(storage), ndim, shape, strides, offset, (kl_dtype)dtype, &out);
  return kl_hand_out(status, out);
}

kael_storage *kael_tensor_storage(const kael_tensor *tensor) {
  return tensor && tensor != KAEL_NONE ? (kael_storage *)tensor->storage : NULL;
}
