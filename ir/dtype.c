/* Element types: the tables behind ir/dtype.h. */
#include "ir/dtype.h"

#include <string.h>

static const struct {
  const char *name;
  uint8_t nbytes;
  char cls;
} dtypes[KL_DTYPE_COUNT] = {
#define X(enumerator, name, nbytes, cls) [enumerator] = {name, nbytes, cls},
    KL_DTYPES(X)
#undef X
};

size_t kl_dtype_size(kl_dtype dtype) { return dtypes[dtype].nbytes; }

const char *kl_dtype_name(kl_dtype dtype) { return dtypes[dtype].name; }

const char *kl_dtype_torch_name(kl_dtype dtype) {
  static const char *const names[KL_DTYPE_COUNT] = {
      [KL_BOOL] = "bool",   [KL_U8] = "uint8",       [KL_I8] = "int8",     [KL_I16] = "int16",
      [KL_I32] = "int32",   [KL_I64] = "int64",      [KL_F16] = "float16", [KL_BF16] = "bfloat16",
      [KL_F32] = "float32", [KL_F64] = "float64",
  };
  return names[dtype];
}

bool kl_dtype_from_name(const char *name, size_t length, kl_dtype *out_dtype) {
  for (int i = 0; i < KL_DTYPE_COUNT; i++) {
    if (strlen(dtypes[i].name) == length && memcmp(dtypes[i].name, name, length) == 0) {
      *out_dtype = (kl_dtype)i;
      return true;
    }
  }
  return false;
}

bool kl_dtype_is_float(kl_dtype dtype) { return dtypes[dtype].cls == 'f'; }

bool kl_dtype_is_integer(kl_dtype dtype) {
  return dtypes[dtype].cls == 'i' || dtypes[dtype].cls == 'u';
}
