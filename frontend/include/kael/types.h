/* kael/types.h: handles, element types, numbers and the constants that the other headers share. */
#ifndef KAEL_TYPES_H
#define KAEL_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define KAEL_API __attribute__((visibility("default")))
#else
#define KAEL_API
#endif

/* One counted reference to a tensor: shape, strides, offset, dtype, device, autograd state and a
 * storage. Copying the pointer copies nothing; kael_retain makes a second reference. */
typedef struct kael_tensor kael_tensor;

/* The bytes that tensors share, with their version. */
typedef struct kael_storage kael_storage;

/* Element types. The enum only grows. In this version kael_dtype_is_supported says which work. */
typedef enum kael_dtype {
  KAEL_BOOL = 0,
  KAEL_U8 = 1,
  KAEL_I8 = 2,
  KAEL_I16 = 3,
  KAEL_I32 = 4,
  KAEL_I64 = 5,
  KAEL_F16 = 6,
  KAEL_BF16 = 7,
  KAEL_F32 = 8,
  KAEL_F64 = 9
} kael_dtype;

typedef enum kael_device { KAEL_CPU = 0 } kael_device;

typedef enum kael_scalar_kind {
  KAEL_SCALAR_BOOL = 0,
  KAEL_SCALAR_INT = 1,
  KAEL_SCALAR_FLOAT = 2
} kael_scalar_kind;

/* A number with its kind. In promotion a number counts only by its kind, as in PyTorch: an integer
 * leaves any tensor's dtype but bool as it is; a double leaves any floating dtype as it is. */
typedef struct kael_scalar {
  kael_scalar_kind kind;
  union {
    bool b;
    int64_t i;
    double f;
  } as;
} kael_scalar;

/* Makes a number of each kind: kael_f(0.5), kael_i(3), kael_b(true). */
static inline kael_scalar kael_f(double value) {
  kael_scalar s;
  s.kind = KAEL_SCALAR_FLOAT;
  s.as.f = value;
  return s;
}
static inline kael_scalar kael_i(int64_t value) {
  kael_scalar s;
  s.kind = KAEL_SCALAR_INT;
  s.as.i = value;
  return s;
}
static inline kael_scalar kael_b(bool value) {
  kael_scalar s;
  s.kind = KAEL_SCALAR_BOOL;
  s.as.i = 0;
  s.as.b = value;
  return s;
}

/* An optional tensor operand that is left out. NULL never means this: NULL means "failed". */
KAEL_API extern kael_tensor *const KAEL_NONE;

/* Most dims of a tensor. */
enum { KAEL_MAX_DIMS = 16 };

/* "float32", "int64", ...: PyTorch's name, static; NULL for a value outside the enum. */
KAEL_API const char *kael_dtype_name(kael_dtype dtype);
/* Bytes an element; 0 for a value outside the enum. */
KAEL_API size_t kael_dtype_size(kael_dtype dtype);
/* Whether tensors of this dtype can be made by this version. */
KAEL_API bool kael_dtype_is_supported(kael_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif
