/* kael/factory.h: new tensors. All are contiguous, on the CPU, without history, and own a storage
 * of exactly their size. Each function returns an owned handle, or NULL after an error (a negative
 * size, more than KAEL_MAX_DIMS dims, a dtype that kael_dtype_is_supported denies, no memory).
 * `shape` has `ndim` sizes and may be NULL where ndim is 0. Nothing here materializes. */
#ifndef KAEL_FACTORY_H
#define KAEL_FACTORY_H

#include "kael/error.h"

#ifdef __cplusplus
extern "C" {
#endif

KAEL_API kael_tensor *kael_zeros(int ndim, const int64_t *shape, kael_dtype dtype);
KAEL_API kael_tensor *kael_ones(int ndim, const int64_t *shape, kael_dtype dtype);
/* One number everywhere. KAEL_ERR_RUNTIME where the dtype cannot hold it. */
KAEL_API kael_tensor *kael_full(int ndim, const int64_t *shape, kael_scalar value,
                                kael_dtype dtype);
/* start, start + step, ... up to, and without, end: ceil((end - start) / step) elements, element i
 * being start + i * step computed in the dtype; an integer dtype cuts start and step to integers
 * after that count. KAEL_ERR_RUNTIME for bool, a step of 0, or one that leads away from the end. */
KAEL_API kael_tensor *kael_arange(kael_scalar start, kael_scalar end, kael_scalar step,
                                  kael_dtype dtype);
/* n rows, m columns, ones on the diagonal. */
KAEL_API kael_tensor *kael_eye(int64_t n, int64_t m, kael_dtype dtype);
/* A copy of the caller's elements, row-major, of the tensor's dtype (bool: bytes 0 and 1). `data`
 * may be NULL where there are none. */
KAEL_API kael_tensor *kael_from_data(const void *data, int ndim, const int64_t *shape,
                                     kael_dtype dtype);
/* A 0-d tensor of one number. */
KAEL_API kael_tensor *kael_scalar_tensor(kael_scalar value, kael_dtype dtype);
/* As zeros, ones and full, with the shape and dtype of another tensor, contiguous. */
KAEL_API kael_tensor *kael_zeros_like(kael_tensor *self);
KAEL_API kael_tensor *kael_ones_like(kael_tensor *self);
KAEL_API kael_tensor *kael_full_like(kael_tensor *self, kael_scalar value);
/* Elements of any value, until they are written (now zero, so that every mode shows the same). */
KAEL_API kael_tensor *kael_empty(int ndim, const int64_t *shape, kael_dtype dtype);
KAEL_API kael_tensor *kael_empty_like(kael_tensor *self);
/* `n` numbers at equal distances from start to end, both met exactly; for integers rounded toward
 * zero. KAEL_ERR_RUNTIME for a negative n. */
KAEL_API kael_tensor *kael_linspace(double start, double end, int64_t n, kael_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif
