/* Type promotion: PyTorch's lattice and its three categories of operands. */
#include "frontend/promote.h"
#include "frontend/half.h"

#include <float.h>
#include <math.h>
#include <string.h>

kl_dtype kl_promote_dtypes(kl_dtype a, kl_dtype b) {
  if (a == b) return a;
  if (a > b) return kl_promote_dtypes(b, a);
  /* From here a stands before b in the enum, which goes from small to large. */
  if (a == KL_U8 && b == KL_I8) return KL_I16;
  if (a == KL_F16 && b == KL_BF16) return KL_F32;
  return b;
}

/* Of two categories the higher one decides, unless the lower has a higher kind of number. */
static int combine(int higher, int lower) {
  if (higher < 0) return lower;
  if (lower < 0 || kl_dtype_is_float((kl_dtype)higher)) return higher;
  if (higher == KL_BOOL || kl_dtype_is_float((kl_dtype)lower))
    return (int)kl_promote_dtypes((kl_dtype)higher, (kl_dtype)lower);
  return higher;
}

kl_dtype kl_result_type(kael_tensor *const *tensors, int n_tensors, const kael_scalar *number) {
  int with_dims = -1, zero_dims = -1, wrapped = -1;
  for (int i = 0; i < n_tensors; i++) {
    int *category = tensors[i]->ndim > 0 ? &with_dims : &zero_dims;
    kl_dtype dtype = (kl_dtype)tensors[i]->dtype;
    *category = *category < 0 ? (int)dtype : (int)kl_promote_dtypes((kl_dtype)*category, dtype);
  }
  if (number)
    wrapped = number->kind == KAEL_SCALAR_FLOAT ? KL_F32
              : number->kind == KAEL_SCALAR_INT ? KL_I64
                                                : KL_BOOL;
  return (kl_dtype)combine(with_dims, combine(zero_dims, wrapped));
}

bool kl_can_cast(kl_dtype from, kl_dtype to) {
  if (kl_dtype_is_float(from) && !kl_dtype_is_float(to)) return false;
  return from == KL_BOOL || to != KL_BOOL;
}

kl_status kl_check_dtype(const char *op, int dtype) {
  if (dtype < 0 || dtype >= KL_DTYPE_COUNT)
    return kl_fail(KL_ERR_VALUE, "%s: %d is no dtype", op, dtype);
  if (!kael_dtype_is_supported((kael_dtype)dtype))
    return kl_fail(KL_ERR_NOT_IMPLEMENTED, "%s: this version has no tensors of dtype %s", op,
                   kl_dtype_torch_name((kl_dtype)dtype));
  return KL_OK;
}

bool kl_number_is_zero(kael_scalar number) {
  if (number.kind == KAEL_SCALAR_FLOAT) return number.as.f == 0;
  return number.kind == KAEL_SCALAR_INT ? number.as.i == 0 : !number.as.b;
}

/* Least value of an integer dtype, and one more than its largest. */
static void integer_range(kl_dtype dtype, double *least, double *most) {
  int bits = 8 * (int)kl_dtype_size(dtype);
  *least = dtype == KL_U8 ? 0 : -ldexp(1, bits - 1);
  *most = ldexp(1, dtype == KL_U8 ? bits : bits - 1);
}

/* Whether PyTorch's checked conversion takes the number. An unsigned dtype takes the negatives of
 * its integers, which wrap; a float must lie between the least and the largest value itself. */
static bool number_fits(kael_scalar number, kl_dtype dtype) {
  double least, most;
  if (number.kind == KAEL_SCALAR_BOOL || dtype == KL_BOOL || dtype == KL_F64) return true;
  if (dtype == KL_F32)
    return number.kind == KAEL_SCALAR_INT || !isfinite(number.as.f) ||
           fabs(number.as.f) <= (double)FLT_MAX;
  if (kl_dtype_is_half(dtype)) {
    double size = fabs(number.kind == KAEL_SCALAR_INT ? (double)number.as.i : number.as.f);
    return !isfinite(size) || size <= (dtype == KL_F16 ? 65504 : 0x1.FEp127);
  }
  integer_range(dtype, &least, &most);
  if (number.kind == KAEL_SCALAR_FLOAT)
    return number.as.f >= least && number.as.f < most && number.as.f <= most - 1;
  if (dtype == KL_I64) return true;
  if (dtype == KL_U8) least = 1 - most;
  return (double)number.as.i >= least && (double)number.as.i < most;
}

kl_status kl_check_number(const char *op, kael_scalar number, kl_dtype dtype) {
  if (number_fits(number, dtype)) return KL_OK;
  double value = number.kind == KAEL_SCALAR_INT ? (double)number.as.i : number.as.f;
  return kl_fail(KL_ERR_RUNTIME, "%s: value %g cannot be converted to type %s without overflow", op,
                 value, kl_dtype_torch_name(dtype));
}

static int64_t saturate(double number, kl_dtype dtype) {
  double least, most;
  integer_range(dtype, &least, &most);
  if (number != number) return 0;
  if (number >= most) return dtype == KL_I64 ? INT64_MAX : (int64_t)(most - 1);
  return number <= least ? (dtype == KL_I64 ? INT64_MIN : (int64_t)least) : (int64_t)number;
}

kl_scalar kl_scalar_from_int(int64_t number, kl_dtype dtype) {
  kl_scalar scalar = {0};
  switch (dtype) {
    case KL_BOOL:
      scalar.u8 = number != 0;
      break;
    case KL_F32:
      scalar.f32 = (float)number;
      break;
    case KL_F64:
      scalar.f64 = (double)number;
      break;
    case KL_F16:
    case KL_BF16:
      scalar.bits = kl_half_from_float((float)number, dtype);
      break;
    case KL_I32:
      scalar.i32 = (int32_t)number;
      break;
    case KL_I64:
      scalar.i64 = number;
      break;
    case KL_U8:
    case KL_I8:
      scalar.bits = (uint8_t)number;
      break;
    default:
      scalar.bits = (uint16_t)number;
      break;
  }
  return scalar;
}

kl_scalar kl_scalar_from_double(double number, kl_dtype dtype) {
  kl_scalar scalar = {0};
  if (dtype == KL_F64)
    scalar.f64 = number;
  else if (dtype == KL_F32)
    scalar.f32 = (float)number;
  else if (kl_dtype_is_half(dtype))
    scalar.bits = kl_half_from_float((float)number, dtype);
  else if (dtype == KL_BOOL)
    scalar.u8 = number != 0;
  else
    scalar = kl_scalar_from_int(saturate(number, dtype), dtype);
  return scalar;
}

kl_scalar kl_scalar_from(kael_scalar number, kl_dtype dtype) {
  if (number.kind == KAEL_SCALAR_FLOAT) return kl_scalar_from_double(number.as.f, dtype);
  return kl_scalar_from_int(number.kind == KAEL_SCALAR_INT ? number.as.i : number.as.b, dtype);
}

const char *kael_dtype_name(kael_dtype dtype) {
  return (unsigned)dtype < KL_DTYPE_COUNT ? kl_dtype_torch_name((kl_dtype)dtype) : NULL;
}

size_t kael_dtype_size(kael_dtype dtype) {
  return (unsigned)dtype < KL_DTYPE_COUNT ? kl_dtype_size((kl_dtype)dtype) : 0;
}

bool kael_dtype_is_supported(kael_dtype dtype) {
  return (unsigned)dtype < KL_DTYPE_COUNT;
}

#define SAME(public, internal)                                                                     \
  _Static_assert((int)(public) == (int)(internal),                                                 \
                 "public and internal dtypes are the same numbers")
SAME(KAEL_BOOL, KL_BOOL);
SAME(KAEL_U8, KL_U8);
SAME(KAEL_I8, KL_I8);
SAME(KAEL_I16, KL_I16);
SAME(KAEL_I32, KL_I32);
SAME(KAEL_I64, KL_I64);
SAME(KAEL_F16, KL_F16);
SAME(KAEL_BF16, KL_BF16);
SAME(KAEL_F32, KL_F32);
SAME(KAEL_F64, KL_F64);
