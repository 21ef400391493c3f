/* kael/view.h: views: other shapes over the same storage, and copies.
 *
 * A view is a new tensor that shares the storage: a write through it is a write to the base. Making
 * one computes nothing and counts no write. Dims count from 0, or from -1 for the last one. Results
 * are owned handles, or NULL after an error (KAEL_ERR_INDEX: a dim or index out of range;
 * KAEL_ERR_RUNTIME: shapes that do not fit), or where self was NULL. Nothing here materializes.
 */
#ifndef KAEL_VIEW_H
#define KAEL_VIEW_H

#include "kael/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Another shape over the same elements in the same order; one size may be -1. An error where
 * strides cannot express it. */
KAEL_API kael_tensor *kael_view(kael_tensor *self, int ndim, const int64_t *shape);
/* The same, or a contiguous copy where a view is not possible. */
KAEL_API kael_tensor *kael_reshape(kael_tensor *self, int ndim, const int64_t *shape);
/* Dims [start, end] become one: a view where possible, else a copy. A 0-d tensor gets one dim. */
KAEL_API kael_tensor *kael_flatten(kael_tensor *self, int64_t start, int64_t end);
KAEL_API kael_tensor *kael_transpose(kael_tensor *self, int64_t dim0, int64_t dim1);
/* All dims in reverse order: of a matrix, its transpose. */
KAEL_API kael_tensor *kael_T(kael_tensor *self);
/* Dim i of the result is dim dims[i] of self; `ndim` must be self's. */
KAEL_API kael_tensor *kael_permute(kael_tensor *self, int ndim, const int64_t *dims);

/* For `start` and `end` of kael_slice: from the first, up to the last element. */
#define KAEL_BEGIN ((int64_t)0)
#define KAEL_END INT64_MAX
/* self[..., start:end:step, ...] along `dim`, by Python's rules: negative positions count from the
 * end, what is outside is cut off. KAEL_ERR_VALUE for a step below 1. */
KAEL_API kael_tensor *kael_slice(kael_tensor *self, int64_t dim, int64_t start, int64_t end,
                                 int64_t step);
/* Position `index` of `dim`, which is left out. */
KAEL_API kael_tensor *kael_select(kael_tensor *self, int64_t dim, int64_t index);
/* `length` positions from `start` on; must be inside. */
KAEL_API kael_tensor *kael_narrow(kael_tensor *self, int64_t dim, int64_t start, int64_t length);
/* Repeats dims of size 1, and puts new ones in front, by strides of 0; -1 keeps a size. In-place
 * operations on the result are an error. */
KAEL_API kael_tensor *kael_expand(kael_tensor *self, int ndim, const int64_t *shape);
/* expand to the shape of another tensor. */
KAEL_API kael_tensor *kael_expand_as(kael_tensor *self, kael_tensor *other);
/* Leaves out all dims of size 1; or dim `dim`, where its size is 1. */
KAEL_API kael_tensor *kael_squeeze(kael_tensor *self);
KAEL_API kael_tensor *kael_squeeze_dim(kael_tensor *self, int64_t dim);
/* Puts a dim of size 1 in at `dim`, which may be from -ndim - 1 to ndim. */
KAEL_API kael_tensor *kael_unsqueeze(kael_tensor *self, int64_t dim);
/* Any shape, strides and offset over self's storage; bounds are checked. */
KAEL_API kael_tensor *kael_as_strided(kael_tensor *self, int ndim, const int64_t *shape,
                                      const int64_t *strides, int64_t offset);
/* The elements of dims (dim1, dim2) at (i, i + offset), as a new last dim. */
KAEL_API kael_tensor *kael_diagonal(kael_tensor *self, int64_t offset, int64_t dim1, int64_t dim2);
/* The same elements, storage and version counter, without history and without requiring grad. */
KAEL_API kael_tensor *kael_detach(kael_tensor *self);

/* Fill `out_views` with owned handles: for each position of `dim`; for consecutive ranges of the
 * given sizes, which must add up to dim's size; for ranges of `size` (the last may be shorter). The
 * first writes size(dim) handles, the last ceil(size(dim) / size) of them, at least one. On failure
 * nothing was written. The views may not be changed in place while gradient mode is on and they are
 * tracked. */
KAEL_API kael_status kael_unbind(kael_tensor *self, int64_t dim, kael_tensor **out_views);
KAEL_API kael_status kael_split_sizes(kael_tensor *self, int n_sizes, const int64_t *sizes,
                                      int64_t dim, kael_tensor **out_views);
KAEL_API kael_status kael_split(kael_tensor *self, int64_t size, int64_t dim,
                                kael_tensor **out_views);
/* At most `n` ranges of one size, by ceil(size(dim) / n); writes their number to out_count. */
KAEL_API kael_status kael_chunk(kael_tensor *self, int64_t n, int64_t dim, kael_tensor **out_views,
                                int64_t *out_count);

/* A copy with a storage of its own: contiguous, offset 0, of exactly its size. */
KAEL_API kael_tensor *kael_clone(kael_tensor *self);
/* A second reference to self where it is contiguous, else a copy. */
KAEL_API kael_tensor *kael_contiguous(kael_tensor *self);

#ifdef __cplusplus
}
#endif
#endif
