/* Scalar primitives by one switch over op and dtype. See naive_ops.h. */
#include "tests/naive/naive_ops.h"

#include <math.h>
#include <string.h>

#include "codegen/math/math.h"

/* dtype token, enumerator, C type: the tokens are those of math.h */
#define HALF_TYPES(E, f) E(f, f16, KL_F16, uint16_t) E(f, bf16, KL_BF16, uint16_t)
#define BOOL_TYPES(E, f) E(f, b8, KL_BOOL, uint8_t)
#define FLOAT_TYPES(E, f) E(f, f32, KL_F32, float) E(f, f64, KL_F64, double)
#define SIGNED_TYPES(E, f)                                                                         \
  E(f, i8, KL_I8, int8_t)                                                                          \
  E(f, i16, KL_I16, int16_t) E(f, i32, KL_I32, int32_t) E(f, i64, KL_I64, int64_t)
#define INT_TYPES(E, f) E(f, u8, KL_U8, uint8_t) SIGNED_TYPES(E, f)
#define NUMBER_TYPES(E, f) INT_TYPES(E, f) FLOAT_TYPES(E, f)
#define BOOL_INT_TYPES(E, f) BOOL_TYPES(E, f) INT_TYPES(E, f)
#define ALL_TYPES(E, f) BOOL_TYPES(E, f) NUMBER_TYPES(E, f)

/* All once more, for a list inside a list. */
#define TARGET_TYPES(E, f)                                                                         \
  E(f, b8, KL_BOOL)                                                                                \
  E(f, u8, KL_U8) E(f, i8, KL_I8) E(f, i16, KL_I16) E(f, i32, KL_I32) E(f, i64, KL_I64)            \
      E(f, f16, KL_F16) E(f, bf16, KL_BF16) E(f, f32, KL_F32) E(f, f64, KL_F64)

#define ACCESS(f, token, DTYPE, T)                                                                 \
  static T get_##token(kl_scalar scalar) {                                                         \
    T value;                                                                                       \
    memcpy(&value, &scalar, sizeof value);                                                         \
    return value;                                                                                  \
  }                                                                                                \
  static kl_scalar put_##token(T value) {                                                          \
    kl_scalar scalar = {.bits = 0};                                                                \
    memcpy(&scalar, &value, sizeof value);                                                         \
    return scalar;                                                                                 \
  }
ALL_TYPES(ACCESS, )
HALF_TYPES(ACCESS, )
#undef ACCESS

#define CASE_1(f, token, DTYPE, T)                                                                 \
  case DTYPE:                                                                                      \
    return put_##token(kl_math_##f##_##token(get_##token(args[0])));
#define CASE_2(f, token, DTYPE, T)                                                                 \
  case DTYPE:                                                                                      \
    return put_##token(kl_math_##f##_##token(get_##token(args[0]), get_##token(args[1])));
#define CASE_3(f, token, DTYPE, T)                                                                 \
  case DTYPE:                                                                                      \
    return put_##token(                                                                            \
        kl_math_##f##_##token(get_##token(args[0]), get_##token(args[1]), get_##token(args[2])));
#define CASE_PREDICATE(f, token, DTYPE, T)                                                         \
  case DTYPE:                                                                                      \
    return put_b8(kl_math_##f##_##token(get_##token(args[0]), get_##token(args[1])));
#define OP(NAME, name, CASE, TYPES)                                                                \
  case KL_OP_##NAME:                                                                               \
    switch (from) {                                                                                \
      TYPES(CASE, name)                                                                            \
      default:                                                                                     \
        break;                                                                                     \
    }                                                                                              \
    break;

static kl_scalar unknown(bool *known) {
  *known = false;
  return (kl_scalar){.bits = 0};
}

static kl_scalar apply_unary(kl_op op, kl_dtype from, const kl_scalar *args, bool *known) {
  switch (op) {
    OP(NEG, neg, CASE_1, NUMBER_TYPES)
    OP(ABS, abs, CASE_1, NUMBER_TYPES)
    OP(SIGN, sign, CASE_1, NUMBER_TYPES)
    OP(NOT, not, CASE_1, BOOL_INT_TYPES)
    OP(RECIPROCAL, reciprocal, CASE_1, FLOAT_TYPES)
    OP(SQRT, sqrt, CASE_1, FLOAT_TYPES)
    OP(RSQRT, rsqrt, CASE_1, FLOAT_TYPES)
    OP(EXP, exp, CASE_1, FLOAT_TYPES)
    OP(EXP2, exp2, CASE_1, FLOAT_TYPES)
    OP(EXPM1, expm1, CASE_1, FLOAT_TYPES)
    OP(LOG, log, CASE_1, FLOAT_TYPES)
    OP(LOG2, log2, CASE_1, FLOAT_TYPES)
    OP(LOG10, log10, CASE_1, FLOAT_TYPES)
    OP(LOG1P, log1p, CASE_1, FLOAT_TYPES)
    OP(SIN, sin, CASE_1, FLOAT_TYPES)
    OP(COS, cos, CASE_1, FLOAT_TYPES)
    OP(TAN, tan, CASE_1, FLOAT_TYPES)
    OP(TANH, tanh, CASE_1, FLOAT_TYPES)
    OP(SIGMOID, sigmoid, CASE_1, FLOAT_TYPES)
    OP(ERF, erf, CASE_1, FLOAT_TYPES)
    OP(NDTRI, ndtri, CASE_1, FLOAT_TYPES)
    OP(FLOOR, floor, CASE_1, FLOAT_TYPES)
    OP(CEIL, ceil, CASE_1, FLOAT_TYPES)
    OP(ROUND, round, CASE_1, FLOAT_TYPES)
    OP(TRUNC, trunc, CASE_1, FLOAT_TYPES)
    default:
      break;
  }
  return unknown(known);
}

static kl_scalar apply_binary(kl_op op, kl_dtype from, const kl_scalar *args, bool *known) {
  switch (op) {
    OP(ADD, add, CASE_2, NUMBER_TYPES)
    OP(SUB, sub, CASE_2, NUMBER_TYPES)
    OP(MUL, mul, CASE_2, NUMBER_TYPES)
    OP(DIV, div, CASE_2, FLOAT_TYPES)
    OP(FLOOR_DIV, floor_div, CASE_2, NUMBER_TYPES)
    OP(TRUNC_DIV, trunc_div, CASE_2, INT_TYPES)
    OP(REMAINDER, remainder, CASE_2, NUMBER_TYPES)
    OP(FMOD, fmod, CASE_2, NUMBER_TYPES)
    OP(MAX, max, CASE_2, ALL_TYPES)
    OP(MIN, min, CASE_2, ALL_TYPES)
    OP(POW, pow, CASE_2, NUMBER_TYPES)
    OP(ATAN2, atan2, CASE_2, FLOAT_TYPES)
    OP(COPYSIGN, copysign, CASE_2, FLOAT_TYPES)
    OP(AND, and, CASE_2, BOOL_INT_TYPES)
    OP(OR, or, CASE_2, BOOL_INT_TYPES)
    OP(XOR, xor, CASE_2, BOOL_INT_TYPES)
    OP(SHL, shl, CASE_2, INT_TYPES)
    OP(SHR, shr, CASE_2, INT_TYPES)
    OP(EQ, eq, CASE_PREDICATE, ALL_TYPES)
    OP(NE, ne, CASE_PREDICATE, ALL_TYPES)
    OP(LT, lt, CASE_PREDICATE, ALL_TYPES)
    OP(LE, le, CASE_PREDICATE, ALL_TYPES)
    OP(GT, gt, CASE_PREDICATE, ALL_TYPES)
    OP(GE, ge, CASE_PREDICATE, ALL_TYPES)
    default:
      break;
  }
  return unknown(known);
}

#define CASE_CAST_TO(from_token, token, DTYPE)                                                     \
  case DTYPE:                                                                                      \
    return put_##token(kl_math_cast_##from_token##_##token(value));
#define CAST_FROM(f, token, DTYPE, T)                                                              \
  static kl_scalar cast_from_##token(T value, kl_dtype to, bool *known) {                          \
    switch (to) {                                                                                  \
      TARGET_TYPES(CASE_CAST_TO, token)                                                            \
      default:                                                                                     \
        return unknown(known);                                                                     \
    }                                                                                              \
  }
ALL_TYPES(CAST_FROM, )
HALF_TYPES(CAST_FROM, )
#define CASE_CAST_FROM(f, token, DTYPE, T)                                                         \
  case DTYPE:                                                                                      \
    return cast_from_##token(get_##token(value), to, known);

static kl_scalar apply_cast(kl_dtype from, kl_dtype to, kl_scalar value, bool *known) {
  if (from == to) return value;
  switch (from) {
    ALL_TYPES(CASE_CAST_FROM, )
    HALF_TYPES(CASE_CAST_FROM, )
    default:
      return unknown(known);
  }
}

static kl_scalar apply_random(kl_op op, const kl_scalar *args) {
  int64_t i = args[0].i64, counter = args[1].i64, seed = args[2].i64;
  return put_i32(op == KL_OP_RANDOM ? kl_math_random_i64(i, counter, seed)
                                    : kl_math_random_high_i64(i, counter, seed));
}

kl_scalar naive_apply(kl_op op, kl_dtype from, kl_dtype to, const kl_scalar *args, bool *known) {
  switch (op) {
    case KL_OP_COPY:
    case KL_OP_BITCAST:
      return args[0];
    case KL_OP_CAST:
      return apply_cast(from, to, args[0], known);
    case KL_OP_SELECT:
      return args[0].u8 ? args[1] : args[2];
    case KL_OP_RANDOM:
    case KL_OP_RANDOM_HIGH:
      return apply_random(op, args);
      OP(FMA, fma, CASE_3, FLOAT_TYPES)
    default:
      break;
  }
  if (kl_op_table[op].arity == 1) return apply_unary(op, from, args, known);
  if (kl_op_table[op].arity == 2) return apply_binary(op, from, args, known);
  return unknown(known);
}

kl_scalar naive_load(kl_dtype dtype, const void *bytes, int64_t at) {
  size_t size = kl_dtype_size(dtype);
  kl_scalar value = {.bits = 0};
  memcpy(&value, (const char *)bytes + (size_t)at * size, size);
  return value;
}

void naive_store(kl_dtype dtype, void *bytes, int64_t at, kl_scalar value) {
  size_t size = kl_dtype_size(dtype);
  memcpy((char *)bytes + (size_t)at * size, &value, size);
}

bool naive_is_nan(kl_dtype dtype, kl_scalar value) {
  switch (dtype) {
    case KL_F32:
      return isnan(value.f32);
    case KL_F64:
      return isnan(value.f64);
    case KL_F16:
      return (value.bits & 0x7fff) > 0x7c00;
    case KL_BF16:
      return (value.bits & 0x7fff) > 0x7f80;
    default:
      return false;
  }
}

bool naive_same(kl_dtype dtype, kl_scalar a, kl_scalar b) {
  return a.bits == b.bits || (naive_is_nan(dtype, a) && naive_is_nan(dtype, b));
}

/* The least value of a dtype, with minus infinity for floats. */
static kl_scalar least(kl_dtype dtype) {
  switch (dtype) {
    case KL_I8:
      return put_i8(INT8_MIN);
    case KL_I16:
      return put_i16(INT16_MIN);
    case KL_I32:
      return put_i32(INT32_MIN);
    case KL_I64:
      return put_i64(INT64_MIN);
    case KL_F32:
      return put_f32(-INFINITY);
    case KL_F64:
      return put_f64(-(double)INFINITY);
    default:
      return (kl_scalar){.bits = 0};
  }
}

static kl_scalar greatest(kl_dtype dtype) {
  switch (dtype) {
    case KL_BOOL:
      return put_b8(1);
    case KL_U8:
      return put_u8(UINT8_MAX);
    case KL_I8:
      return put_i8(INT8_MAX);
    case KL_I16:
      return put_i16(INT16_MAX);
    case KL_I32:
      return put_i32(INT32_MAX);
    case KL_I64:
      return put_i64(INT64_MAX);
    case KL_F32:
      return put_f32(INFINITY);
    case KL_F64:
      return put_f64((double)INFINITY);
    default:
      return (kl_scalar){.bits = 0};
  }
}

kl_scalar naive_fold_start(kl_op op, kl_dtype dtype) {
  switch (op) {
    case KL_OP_REDUCE_PROD:
      return dtype == KL_F32 ? put_f32(1) : dtype == KL_F64 ? put_f64(1) : put_i64(1);
    case KL_OP_REDUCE_MAX:
      return least(dtype);
    case KL_OP_REDUCE_MIN:
      return greatest(dtype);
    case KL_OP_REDUCE_ALL:
      return put_b8(1);
    default:
      return (kl_scalar){.bits = 0};
  }
}

kl_scalar naive_fold(kl_op op, kl_dtype dtype, kl_scalar a, kl_scalar b) {
  static const struct {
    kl_op fold, step;
  } steps[] = {{KL_OP_REDUCE_SUM, KL_OP_ADD}, {KL_OP_REDUCE_PROD, KL_OP_MUL},
               {KL_OP_REDUCE_MAX, KL_OP_MAX}, {KL_OP_REDUCE_MIN, KL_OP_MIN},
               {KL_OP_REDUCE_ANY, KL_OP_OR},  {KL_OP_REDUCE_ALL, KL_OP_AND}};
  kl_scalar args[2] = {a, b};
  bool known = true;
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
    if (steps[i].fold == op) return naive_apply(steps[i].step, dtype, dtype, args, &known);
  return a;
}
