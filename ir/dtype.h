/* Element types: their order, sizes and classes. The public enum (kael/dtype.h) has the same
 * values; frontend/ asserts it. */
#ifndef KL_IR_DTYPE_H
#define KL_IR_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(enumerator, text name, bytes, class letter: b bool, u unsigned, i signed, f float) */
#define KL_DTYPES(X)                                                                               \
  X(KL_BOOL, "bool", 1, 'b')                                                                       \
  X(KL_U8, "u8", 1, 'u')                                                                           \
  X(KL_I8, "i8", 1, 'i')                                                                           \
  X(KL_I16, "i16", 2, 'i')                                                                         \
  X(KL_I32, "i32", 4, 'i')                                                                         \
  X(KL_I64, "i64", 8, 'i')                                                                         \
  X(KL_F16, "f16", 2, 'f')                                                                         \
  X(KL_BF16, "bf16", 2, 'f')                                                                       \
  X(KL_F32, "f32", 4, 'f')                                                                         \
  X(KL_F64, "f64", 8, 'f')

typedef enum kl_dtype {
#define X(enumerator, name, nbytes, cls) enumerator,
  KL_DTYPES(X)
#undef X
      KL_DTYPE_COUNT
} kl_dtype;

size_t kl_dtype_size(kl_dtype dtype);       /* bytes an element */
const char *kl_dtype_name(kl_dtype dtype);  /* "f32" */
const char *kl_dtype_torch_name(kl_dtype dtype); /* "float32" */
bool kl_dtype_from_name(const char *name, size_t length, kl_dtype *out_dtype);
bool kl_dtype_is_float(kl_dtype dtype);
bool kl_dtype_is_integer(kl_dtype dtype); /* bool is not */

/* One value of any dtype, in the low bytes of a 64-bit slot (little endian); bool is 0 or 1. */
typedef union kl_scalar {
  uint64_t bits;
  double f64;
  float f32;
  int64_t i64;
  int32_t i32;
  uint8_t u8;
} kl_scalar;

#endif
