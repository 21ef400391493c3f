/* Shapes and strides of views, without making them. */
#ifndef KL_FRONTEND_STRIDES_H
#define KL_FRONTEND_STRIDES_H

#include "frontend/tensor.h"

/* Fills in a size of -1; the shape must have `numel` elements. */
kl_status kl_infer_shape(const char *op, int ndim, const int64_t *shape, int64_t numel,
                         int64_t *out_shape) KL_MUST_CHECK;
/* Strides that show self's elements in another shape; false where there are none. */
bool kl_view_strides(const kael_tensor *self, int ndim, const int64_t *shape, int64_t *out_strides);
/* The shape (with -1 for sizes to keep) and strides of an expanded self. */
kl_status kl_expand_shape(const kael_tensor *self, int ndim, const int64_t *shape,
                          int64_t *out_shape, int64_t *out_strides) KL_MUST_CHECK;
/* Ranks, signs, overflow, and the last reachable element against the storage's size. */
kl_status kl_check_bounds(const char *op, int ndim, const int64_t *shape, const int64_t *strides,
                          int64_t offset, kl_dtype dtype, size_t storage_nbytes) KL_MUST_CHECK;

#endif
