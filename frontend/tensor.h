/* The tensor impl: what a handle `kael_tensor *` points to.
 *
 * A handle is one counted reference. Shape, strides and storage never change, but by move_to_;
 * what a write changes is the storage's value. Functions here know nothing of autograd: a tensor
 * made by them requires no gradient and is tracked by nobody.
 */
#ifndef KL_FRONTEND_TENSOR_H
#define KL_FRONTEND_TENSOR_H

#include "ir/kernel.h" /* KL_MAX_RANK */
#include "kael/types.h"
#include "runtime/storage.h"

struct kl_autograd_meta; /* frontend/autograd/ */

enum { KL_TENSOR_CONTIGUOUS = 1 }; /* row-major; strides of dims of size 1 do not count */
enum { KL_WRAPPER_CXX, KL_WRAPPER_PYTHON, KL_WRAPPER_COUNT };

struct kael_tensor {
  atomic_int refs;
  atomic_int scope_refs; /* those of `refs` that open scopes own */
  atomic_int held_refs;  /* those that autograd holds: a view's base, the leaf of an accumulator */
  uint8_t ndim, dtype, device, flags;
  uint8_t capacity; /* dims that its block has room for */
  int64_t numel;
  int64_t offset;                    /* in elements of dtype */
  kl_storage *storage;               /* owned */
  struct kl_autograd_meta *autograd; /* owned; NULL for most */
  _Atomic(void *) wrappers[KL_WRAPPER_COUNT];
  int64_t *shape, *strides; /* inside the block */
  int64_t dims[];
};

/* A new tensor over `storage`, whose reference is taken over, on failure too. `strides` NULL:
 * contiguous. Checks nothing. */
kl_status kl_tensor_create(kl_storage *storage, kl_dtype dtype, int ndim, const int64_t *shape,
                           const int64_t *strides, int64_t offset,
                           kael_tensor **out_tensor) KL_MUST_CHECK;
/* The same over a new storage of exactly that size with this value (reference taken over). */
kl_status kl_tensor_create_for_value(kl_value *value, kl_dtype dtype, int ndim,
                                     const int64_t *shape, const int64_t *strides,
                                     kael_tensor **out_tensor) KL_MUST_CHECK;
/* A view of `base`: the same storage and dtype. Untracked. */
kl_status kl_tensor_view(const kael_tensor *base, int ndim, const int64_t *shape,
                         const int64_t *strides, int64_t offset,
                         kael_tensor **out_view) KL_MUST_CHECK;
/* An untracked alias: the same storage, shape, strides and offset. */
kl_status kl_tensor_alias(const kael_tensor *base, kael_tensor **out_alias) KL_MUST_CHECK;

static inline kael_tensor *kl_tensor_retain(kael_tensor *tensor) {
  atomic_fetch_add_explicit(&tensor->refs, 1, memory_order_relaxed);
  return tensor;
}
void kl_tensor_release(kael_tensor *tensor); /* NULL is fine */
/* References that the user did not make, and that kael_references does not count. */
kael_tensor *kl_tensor_hold(kael_tensor *tensor);
void kl_tensor_drop(kael_tensor *tensor); /* NULL is fine */

static inline bool kl_tensor_is_contiguous(const kael_tensor *tensor) {
  return (tensor->flags & KL_TENSOR_CONTIGUOUS) != 0;
}
bool kl_tensor_same_shape(const kael_tensor *a, const kael_tensor *b);
/* Sets CONTIGUOUS and numel again after strides or shape were written. */
void kl_tensor_refresh(kael_tensor *tensor);
/* The elements are exactly those of the storage, each once, in whatever order of dims. */
bool kl_tensor_covers_storage(const kael_tensor *tensor);
/* Each position is an element of its own, and the elements are consecutive. */
bool kl_tensor_is_dense(const kael_tensor *tensor);
/* Several positions are one element. */
bool kl_tensor_overlaps_itself(const kael_tensor *tensor);

/* Shapes. */
/* Ranks, negatives, overflow, for elements of any dtype. */
kl_status kl_shape_check(const char *op, int ndim, const int64_t *shape,
                         int64_t *out_numel) KL_MUST_CHECK;
void kl_shape_contiguous(int ndim, const int64_t *shape, int64_t *out_strides);
bool kl_shape_equal(int ndim_a, const int64_t *a, int ndim_b, const int64_t *b);
/* "[2, 3]" in one of a few rotating thread-local buffers, for messages. */
const char *kl_shape_text(int ndim, const int64_t *shape);
/* Wraps a negative dim; error text as PyTorch's. A 0-d tensor takes -1 and 0. */
kl_status kl_dim_check(int64_t dim, int ndim, int *out_dim) KL_MUST_CHECK;
/* Reduction axes as a bit mask; n_axes 0 means all. Duplicates are an error. */
kl_status kl_axes_check(const int64_t *axes, int n_axes, int ndim,
                        uint32_t *out_mask) KL_MUST_CHECK;

#endif
