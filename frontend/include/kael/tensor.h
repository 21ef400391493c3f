/* kael/tensor.h: tensors and storages: making them of memory, looking at them, reading their bytes.
 *
 * Several tensors may share one storage (kael/view.h); a write through one is seen by all. Strides
 * and offsets count elements.
 *
 * A storage is SHARED once a pointer to its bytes that may be written was given out, or where it is
 * external memory that the caller may touch: then what is recorded of it runs at the call.
 */
#ifndef KAEL_TENSOR_H
#define KAEL_TENSOR_H

#include "kael/scope.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- Storages --------------------------------------------------------------------------------- */

typedef void (*kael_deleter)(void *ptr, void *user);

typedef enum kael_storage_flags {
  KAEL_STORAGE_OWNED = 0,    /* external memory that the caller will not touch while it lives */
  KAEL_STORAGE_READONLY = 1, /* writing through a tensor is an error */
  KAEL_STORAGE_SHARED = 2    /* the caller may read and write it between calls */
} kael_storage_flags;

/* A storage of `nbytes` zero bytes. Owned; NULL: no memory. */
KAEL_API kael_storage *kael_storage_create(size_t nbytes);
/* Wraps memory of the caller's, without a copy. `ptr` must be aligned for the dtypes used on it. It
 * must stay valid until `deleter` (may be NULL) was called with it and `user`: once, when nothing
 * refers to the memory any more, by whichever thread is last. Owned; NULL after an error, and then
 * the deleter is not called. Two external storages may overlap. */
KAEL_API kael_storage *kael_storage_external(void *ptr, size_t nbytes, kael_deleter deleter,
                                             void *user, unsigned flags);
/* Counting, as for tensors; a tensor holds its storage by itself. NULL is fine. */
KAEL_API kael_storage *kael_storage_retain(kael_storage *storage);
KAEL_API void kael_storage_release(kael_storage *storage);
/* Size in bytes; 0 for NULL. */
KAEL_API size_t kael_storage_nbytes(const kael_storage *storage);
/* Tensors that refer to the storage; 0 for NULL. */
KAEL_API int kael_storage_references(const kael_storage *storage);

/* A tensor over a storage (not taken over). Validates: ranks, nothing negative, no overflow, the
 * last reachable element inside the storage. Owned; NULL after an error. */
KAEL_API kael_tensor *kael_tensor_from_parts(kael_storage *storage, int ndim, const int64_t *shape,
                                             const int64_t *strides, int64_t offset,
                                             kael_dtype dtype);
/* The storage of a tensor: borrowed, valid while the tensor keeps it (kael_move_to_ changes it).
 * NULL for NULL. */
KAEL_API kael_storage *kael_tensor_storage(const kael_tensor *tensor);

/* --- Looking at a tensor; NULL gives 0, false or NULL -------------------------------------------
 */

KAEL_API int kael_ndim(const kael_tensor *tensor);
/* `ndim` sizes or strides: borrowed, valid while the tensor lives and is not moved. */
KAEL_API const int64_t *kael_shape(const kael_tensor *tensor);
KAEL_API const int64_t *kael_strides(const kael_tensor *tensor);
/* Size or stride of one dim; negative dims count from the end; 0 outside. */
KAEL_API int64_t kael_size(const kael_tensor *tensor, int dim);
KAEL_API int64_t kael_stride(const kael_tensor *tensor, int dim);
KAEL_API int64_t kael_offset(const kael_tensor *tensor);
KAEL_API int64_t kael_numel(const kael_tensor *tensor);
KAEL_API kael_dtype kael_dtype_of(const kael_tensor *tensor);
KAEL_API kael_device kael_device_of(const kael_tensor *tensor);
KAEL_API bool kael_is_contiguous(const kael_tensor *tensor);
/* In-place operations on the storage so far, through any tensor. */
KAEL_API uint64_t kael_version(const kael_tensor *tensor);
/* References to the tensor, without those of autograd (a view's base, the leaf of a history). */
KAEL_API int kael_references(const kael_tensor *tensor);
/* The two handles are one tensor. */
KAEL_API bool kael_is_same(const kael_tensor *a, const kael_tensor *b);
/* A write through one tensor can be seen through the other. */
KAEL_API bool kael_shares_storage(const kael_tensor *a, const kael_tensor *b);

/* --- Bytes: these materialize -------------------------------------------------------------------
 */

/* The first element. The memory is read by the tensor's strides; valid until the storage is next
 * written or dies. NULL after an error. */
KAEL_API const void *kael_data_ptr(const kael_tensor *tensor);
/* The same to be written. The address stays for the storage's life, and the storage is SHARED from
 * now on. Writes through it do not count in the version. NULL after an error (read-only memory). */
KAEL_API void *kael_mutable_data_ptr(kael_tensor *tensor);
/* The only element of a tensor, as a double or an int64 (cast as by kael_to_dtype).
 * KAEL_ERR_RUNTIME where it has not exactly one. */
KAEL_API kael_status kael_item(const kael_tensor *tensor, double *out_value);
KAEL_API kael_status kael_item_int(const kael_tensor *tensor, int64_t *out_value);
/* All elements, row-major, in the tensor's dtype. `nbytes` must be numel times the element size. */
KAEL_API kael_status kael_copy_to_host(const kael_tensor *tensor, void *buffer, size_t nbytes);

/* Moves the tensor itself: elements, contiguous, in a new storage of exactly their size on `device`
 * (also where it is there already), so that every handle sees the move. Views made before keep the
 * old storage. KAEL_ERR_DEVICE for a device that this build has not. */
KAEL_API kael_status kael_move_to_(kael_tensor *self, kael_device device);

/* --- For bindings -------------------------------------------------------------------------------
 */

/* A tensor has one pointer for each of these, NULL at first, in which the binding finds the object
 * that it made for the tensor: so the same tensor is the same object every time. */
typedef enum kael_wrapper { KAEL_WRAPPER_CXX = 0, KAEL_WRAPPER_PYTHON = 1 } kael_wrapper;
/* Takes the pointer out of a slot and locks the slot; kael_wrapper_put stores one (the same, another
 * or NULL) and unlocks. Other threads wait in between: a few instructions, no call that may take or
 * wait for anything else. The library never reads, keeps or frees what the pointer leads to: an object
 * that dies takes its pointer out first, while it still holds its reference to the tensor. Neither
 * fails; the tensor must not be NULL or KAEL_NONE, nor the slot outside the enum. */
KAEL_API void *kael_wrapper_take(kael_tensor *tensor, kael_wrapper slot);
KAEL_API void kael_wrapper_put(kael_tensor *tensor, kael_wrapper slot, void *wrapper);

/* The elements as text, as PyTorch prints them in essence, large tensors shortened. A string to be
 * released with kael_string_free; NULL after an error. */
KAEL_API char *kael_to_string(const kael_tensor *tensor);
KAEL_API void kael_string_free(char *string);

#ifdef __cplusplus
}
#endif
#endif
