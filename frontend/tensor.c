/* Tensor impls from slabs, in two sizes: up to four dims, and any rank. */
#include "frontend/tensor.h"

#include <string.h>

#include "frontend/autograd_hooks.h"
#include "ir/support/slab.h"

enum { SMALL_RANK = 4 };

static size_t block_nbytes(int capacity) {
  return sizeof(kael_tensor) + 2 * (size_t)capacity * sizeof(int64_t);
}

kl_status kl_tensor_create(kl_storage *storage, kl_dtype dtype, int ndim, const int64_t *shape,
                           const int64_t *strides, int64_t offset, kael_tensor **out_tensor) {
  int capacity = ndim <= SMALL_RANK ? SMALL_RANK : KL_MAX_RANK;
  kael_tensor *tensor = kl_slab_alloc(block_nbytes(capacity));
  if (!tensor) {
    kl_storage_release(storage);
    return kl_fail_memory("tensor", block_nbytes(capacity));
  }
  memset(tensor, 0, sizeof *tensor);
  tensor->refs = 1;
  tensor->ndim = (uint8_t)ndim;
  tensor->dtype = (uint8_t)dtype;
  tensor->device = storage->device;
  tensor->capacity = (uint8_t)capacity;
  tensor->offset = offset;
  tensor->storage = storage;
  atomic_fetch_add_explicit(&storage->impl_refs, 1, memory_order_relaxed);
  tensor->shape = tensor->dims;
  tensor->strides = tensor->dims + capacity;
  for (int d = 0; d < ndim; d++) tensor->shape[d] = shape[d];
  if (strides) {
    for (int d = 0; d < ndim; d++) tensor->strides[d] = strides[d];
    kl_tensor_refresh(tensor);
  } else {
    kl_shape_contiguous(ndim, shape, tensor->strides);
    tensor->numel = 1;
    for (int d = 0; d < ndim; d++) tensor->numel *= shape[d];
    tensor->flags = KL_TENSOR_CONTIGUOUS;
  }
  *out_tensor = tensor;
  return KL_OK;
}

kl_status kl_tensor_create_for_value(kl_value *value, kl_dtype dtype, int ndim,
                                     const int64_t *shape, const int64_t *strides,
                                     kael_tensor **out_tensor) {
  kl_storage *storage;
  size_t nbytes = (size_t)value->numel * kl_dtype_size(dtype);
  kl_status status = kl_storage_create(value, nbytes, &storage);
  if (status) {
    kl_value_release(value);
    return status;
  }
  return kl_tensor_create(storage, dtype, ndim, shape, strides, 0, out_tensor);
}

kl_status kl_tensor_view(const kael_tensor *base, int ndim, const int64_t *shape,
                         const int64_t *strides, int64_t offset, kael_tensor **out_view) {
  return kl_tensor_create(kl_storage_retain(base->storage), (kl_dtype)base->dtype, ndim, shape,
                          strides, offset, out_view);
}

kl_status kl_tensor_alias(const kael_tensor *base, kael_tensor **out_alias) {
  return kl_tensor_view(base, base->ndim, base->shape, base->strides, base->offset, out_alias);
}

void kl_tensor_release(kael_tensor *tensor) {
  if (!tensor || atomic_fetch_sub_explicit(&tensor->refs, 1, memory_order_acq_rel) != 1) return;
  if (tensor->autograd) kl_autograd_meta_destroy(tensor->autograd);
  atomic_fetch_sub_explicit(&tensor->storage->impl_refs, 1, memory_order_relaxed);
  kl_storage_release(tensor->storage);
  kl_slab_free(tensor, block_nbytes(tensor->capacity));
}

kael_tensor *kl_tensor_hold(kael_tensor *tensor) {
  atomic_fetch_add_explicit(&tensor->held_refs, 1, memory_order_relaxed);
  return kl_tensor_retain(tensor);
}

void kl_tensor_drop(kael_tensor *tensor) {
  if (!tensor) return;
  atomic_fetch_sub_explicit(&tensor->held_refs, 1, memory_order_relaxed);
  kl_tensor_release(tensor);
}

bool kl_tensor_same_shape(const kael_tensor *a, const kael_tensor *b) {
  return kl_shape_equal(a->ndim, a->shape, b->ndim, b->shape);
}

void kl_tensor_refresh(kael_tensor *tensor) {
  int64_t numel = 1, expected = 1;
  bool contiguous = true;
  for (int d = tensor->ndim - 1; d >= 0; d--) {
    int64_t size = tensor->shape[d];
    if (size != 1 && tensor->strides[d] != expected) contiguous = false;
    expected *= size;
    numel *= size;
  }
  tensor->numel = numel;
  tensor->flags = contiguous || numel == 0 ? KL_TENSOR_CONTIGUOUS : 0;
}

/* Dims of more than one position, largest stride first; returns their number. */
static int dims_by_stride(const kael_tensor *tensor, int *dims) {
  int n = 0;
  for (int d = 0; d < tensor->ndim; d++) {
    if (tensor->shape[d] == 1) continue;
    int at = n++;
    for (; at > 0 && tensor->strides[dims[at - 1]] < tensor->strides[d]; at--)
      dims[at] = dims[at - 1];
    dims[at] = d;
  }
  return n;
}

bool kl_tensor_is_dense(const kael_tensor *tensor) {
  if (kl_tensor_is_contiguous(tensor)) return true;
  int dims[KL_MAX_RANK];
  int64_t expected = 1;
  for (int n = dims_by_stride(tensor, dims); n > 0; n--) {
    if (tensor->strides[dims[n - 1]] != expected) return false;
    expected *= tensor->shape[dims[n - 1]];
  }
  return true;
}

bool kl_tensor_covers_storage(const kael_tensor *tensor) {
  return tensor->offset == 0 &&
         (size_t)tensor->numel * kl_dtype_size((kl_dtype)tensor->dtype) ==
             tensor->storage->nbytes &&
         kl_tensor_is_dense(tensor);
}

/* Marks every position in a bitmap over the elements that the view can reach. Only for strides that
 * interleave, which as_strided alone makes. When there is no memory for it, says yes: refusing a
 * write is safe. */
static bool overlaps_by_marking(const kael_tensor *tensor, int64_t span) {
  uint64_t *marks = kl_calloc((size_t)(span / 64 + 1), sizeof *marks);
  if (!marks) return true;
  int64_t at[KL_MAX_RANK] = {0};
  bool overlaps = false;
  for (int64_t i = 0, place = 0; i < tensor->numel && !overlaps; i++) {
    uint64_t bit = UINT64_C(1) << (place % 64);
    overlaps = (marks[place / 64] & bit) != 0;
    marks[place / 64] |= bit;
    for (int d = tensor->ndim - 1; d >= 0; d--) {
      place += tensor->strides[d];
      if (++at[d] < tensor->shape[d]) break;
      place -= tensor->strides[d] * tensor->shape[d];
      at[d] = 0;
    }
  }
  kl_free(marks);
  return overlaps;
}

bool kl_tensor_overlaps_itself(const kael_tensor *tensor) {
  if (kl_tensor_is_contiguous(tensor)) return false;
  int dims[KL_MAX_RANK];
  int64_t span = 0; /* the farthest place reached by the dims looked at so far */
  bool interleaves = false;
  for (int n = dims_by_stride(tensor, dims); n > 0; n--) {
    int64_t stride = tensor->strides[dims[n - 1]];
    if (stride == 0) return true;
    if (stride <= span) interleaves = true;
    span += stride * (tensor->shape[dims[n - 1]] - 1);
  }
  if (!interleaves) return false;
  return tensor->numel > span + 1 || overlaps_by_marking(tensor, span + 1);
}
