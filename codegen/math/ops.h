/* The instances of codegen/math/all.def as X-macro lists, for tables of functions. In X(OP, op, dt)
 * OP is the name in ir/op.def, op the name of the function and dt the dtype token of the operands;
 * KL_MATH_DTYPE(dt) is its kl_dtype and KL_MATH_CTYPE(dt) the C type that holds it. */
#ifndef KL_CODEGEN_MATH_OPS_H
#define KL_CODEGEN_MATH_OPS_H

#define KL_MATH_PASTE_(a, b) a##b
#define KL_MATH_PASTE(a, b) KL_MATH_PASTE_(a, b)
#define KL_MATH_DTYPE(dt) KL_MATH_PASTE(KL_MATH_DTYPE_, dt)
#define KL_MATH_CTYPE(dt) KL_MATH_PASTE(KL_MATH_CTYPE_, dt)
/* kl_math_<op>_<dt> of tokens that may be macros themselves */
#define KL_MATH_FUNCTION(op, dt) KL_MATH_PASTE(kl_math_##op##_, dt)

#define KL_MATH_DTYPE_b8 KL_BOOL
#define KL_MATH_DTYPE_u8 KL_U8
#define KL_MATH_DTYPE_i8 KL_I8
#define KL_MATH_DTYPE_i16 KL_I16
#define KL_MATH_DTYPE_i32 KL_I32
#define KL_MATH_DTYPE_i64 KL_I64
#define KL_MATH_DTYPE_f16 KL_F16
#define KL_MATH_DTYPE_bf16 KL_BF16
#define KL_MATH_DTYPE_f32 KL_F32
#define KL_MATH_DTYPE_f64 KL_F64
#define KL_MATH_CTYPE_b8 uint8_t
#define KL_MATH_CTYPE_u8 uint8_t
#define KL_MATH_CTYPE_i8 int8_t
#define KL_MATH_CTYPE_i16 int16_t
#define KL_MATH_CTYPE_i32 int32_t
#define KL_MATH_CTYPE_i64 int64_t
#define KL_MATH_CTYPE_f16 uint16_t
#define KL_MATH_CTYPE_bf16 uint16_t
#define KL_MATH_CTYPE_f32 float
#define KL_MATH_CTYPE_f64 double

/* T kl_math_<op>_<dt>(T) */
#define KL_MATH_UNARY_BOTH(X, dt)                                                                  \
  X(NEG, neg, dt)                                                                                  \
  X(ABS, abs, dt)                                                                                  \
  X(SIGN, sign, dt)
#define KL_MATH_UNARY_INTEGER(X, dt)                                                               \
  KL_MATH_UNARY_BOTH(X, dt)                                                                        \
  X(NOT, not, dt)
#define KL_MATH_UNARY_FLOAT(X, dt)                                                                 \
  KL_MATH_UNARY_BOTH(X, dt)                                                                        \
  X(RECIPROCAL, reciprocal, dt)                                                                    \
  X(SQRT, sqrt, dt)                                                                                \
  X(RSQRT, rsqrt, dt)                                                                              \
  X(EXP, exp, dt)                                                                                  \
  X(EXP2, exp2, dt)                                                                                \
  X(EXPM1, expm1, dt)                                                                              \
  X(LOG, log, dt)                                                                                  \
  X(LOG2, log2, dt)                                                                                \
  X(LOG10, log10, dt)                                                                              \
  X(LOG1P, log1p, dt)                                                                              \
  X(TANH, tanh, dt)                                                                                \
  X(SIGMOID, sigmoid, dt)                                                                          \
  X(ERF, erf, dt)                                                                                  \
  X(NDTRI, ndtri, dt)                                                                              \
  X(FLOOR, floor, dt)                                                                              \
  X(CEIL, ceil, dt)                                                                                \
  X(ROUND, round, dt)                                                                              \
  X(TRUNC, trunc, dt)
#define KL_MATH_UNARY(X)                                                                           \
  X(NOT, not, b8)                                                                                  \
  KL_MATH_UNARY_INTEGER(X, u8)                                                                     \
  KL_MATH_UNARY_INTEGER(X, i8)                                                                     \
  KL_MATH_UNARY_INTEGER(X, i16)                                                                    \
  KL_MATH_UNARY_INTEGER(X, i32)                                                                    \
  KL_MATH_UNARY_INTEGER(X, i64)                                                                    \
  KL_MATH_UNARY_FLOAT(X, f32)                                                                      \
  KL_MATH_UNARY_FLOAT(X, f64)

/* The same; there are also kl_math_<op>_common_<dt>, _rare_ and _is_rare_. */
#define KL_MATH_UNARY_RARE_OF(X, dt)                                                               \
  X(SIN, sin, dt)                                                                                  \
  X(COS, cos, dt)                                                                                  \
  X(TAN, tan, dt)
#define KL_MATH_UNARY_RARE(X)                                                                      \
  KL_MATH_UNARY_RARE_OF(X, f32)                                                                    \
  KL_MATH_UNARY_RARE_OF(X, f64)

/* T kl_math_<op>_<dt>(T, T) */
#define KL_MATH_BINARY_LOGIC(X, dt)                                                                \
  X(AND, and, dt)                                                                                  \
  X(OR, or, dt)                                                                                    \
  X(XOR, xor, dt)                                                                                  \
  X(MAX, max, dt)                                                                                  \
  X(MIN, min, dt)
#define KL_MATH_BINARY_INTEGER(X, dt)                                                              \
  KL_MATH_BINARY_LOGIC(X, dt)                                                                      \
  X(ADD, add, dt)                                                                                  \
  X(SUB, sub, dt)                                                                                  \
  X(MUL, mul, dt)                                                                                  \
  X(FLOOR_DIV, floor_div, dt)                                                                      \
  X(TRUNC_DIV, trunc_div, dt)                                                                      \
  X(REMAINDER, remainder, dt)                                                                      \
  X(FMOD, fmod, dt)                                                                                \
  X(POW, pow, dt)                                                                                  \
  X(SHL, shl, dt)                                                                                  \
  X(SHR, shr, dt)
#define KL_MATH_BINARY_FLOAT(X, dt)                                                                \
  X(ADD, add, dt)                                                                                  \
  X(SUB, sub, dt)                                                                                  \
  X(MUL, mul, dt)                                                                                  \
  X(DIV, div, dt)                                                                                  \
  X(MAX, max, dt)                                                                                  \
  X(MIN, min, dt)                                                                                  \
  X(POW, pow, dt)                                                                                  \
  X(ATAN2, atan2, dt)                                                                              \
  X(COPYSIGN, copysign, dt)
#define KL_MATH_BINARY(X)                                                                          \
  KL_MATH_BINARY_LOGIC(X, b8)                                                                      \
  KL_MATH_BINARY_INTEGER(X, u8)                                                                    \
  KL_MATH_BINARY_INTEGER(X, i8)                                                                    \
  KL_MATH_BINARY_INTEGER(X, i16)                                                                   \
  KL_MATH_BINARY_INTEGER(X, i32)                                                                   \
  KL_MATH_BINARY_INTEGER(X, i64)                                                                   \
  KL_MATH_BINARY_FLOAT(X, f32)                                                                     \
  KL_MATH_BINARY_FLOAT(X, f64)

/* The same, with the parts named above. */
#define KL_MATH_BINARY_RARE_OF(X, dt)                                                              \
  X(FLOOR_DIV, floor_div, dt)                                                                      \
  X(REMAINDER, remainder, dt)                                                                      \
  X(FMOD, fmod, dt)
#define KL_MATH_BINARY_RARE(X)                                                                     \
  KL_MATH_BINARY_RARE_OF(X, f32)                                                                   \
  KL_MATH_BINARY_RARE_OF(X, f64)

/* _Bool kl_math_<op>_<dt>(T, T) */
#define KL_MATH_COMPARE_OF(X, dt)                                                                  \
  X(EQ, eq, dt)                                                                                    \
  X(NE, ne, dt)                                                                                    \
  X(LT, lt, dt)                                                                                    \
  X(LE, le, dt)                                                                                    \
  X(GT, gt, dt)                                                                                    \
  X(GE, ge, dt)
#define KL_MATH_COMPARE(X)                                                                         \
  KL_MATH_COMPARE_OF(X, b8)                                                                        \
  KL_MATH_COMPARE_OF(X, u8)                                                                        \
  KL_MATH_COMPARE_OF(X, i8)                                                                        \
  KL_MATH_COMPARE_OF(X, i16)                                                                       \
  KL_MATH_COMPARE_OF(X, i32)                                                                       \
  KL_MATH_COMPARE_OF(X, i64)                                                                       \
  KL_MATH_COMPARE_OF(X, f32)                                                                       \
  KL_MATH_COMPARE_OF(X, f64)

/* T kl_math_<op>_<dt>(T, T, T) */
#define KL_MATH_TERNARY(X)                                                                         \
  X(FMA, fma, f32)                                                                                 \
  X(FMA, fma, f64)

/* int32_t kl_math_<op>_i64(int64_t i, int64_t counter, int64_t seed) */
#define KL_MATH_RANDOM(X)                                                                          \
  X(RANDOM, random, i64)                                                                           \
  X(RANDOM_HIGH, random_high, i64)

/* T kl_math_copy_<dt>(T) */
#define KL_MATH_COPY(X)                                                                            \
  X(COPY, copy, b8)                                                                                \
  X(COPY, copy, u8)                                                                                \
  X(COPY, copy, i8)                                                                                \
  X(COPY, copy, i16)                                                                               \
  X(COPY, copy, i32)                                                                               \
  X(COPY, copy, i64)                                                                               \
  X(COPY, copy, f16)                                                                               \
  X(COPY, copy, bf16)                                                                              \
  X(COPY, copy, f32)                                                                               \
  X(COPY, copy, f64)

/* T kl_math_select_<dt>(uint8_t condition, T, T) */
#define KL_MATH_SELECT(X)                                                                          \
  X(SELECT, select, b8)                                                                            \
  X(SELECT, select, u8)                                                                            \
  X(SELECT, select, i8)                                                                            \
  X(SELECT, select, i16)                                                                           \
  X(SELECT, select, i32)                                                                           \
  X(SELECT, select, i64)                                                                           \
  X(SELECT, select, f16)                                                                           \
  X(SELECT, select, bf16)                                                                          \
  X(SELECT, select, f32)                                                                           \
  X(SELECT, select, f64)

/* X(from, to): To kl_math_cast_<from>_<to>(From), all 100 */
#define KL_MATH_CAST_TO_EACH(X, from)                                                              \
  X(from, b8)                                                                                      \
  X(from, u8)                                                                                      \
  X(from, i8)                                                                                      \
  X(from, i16)                                                                                     \
  X(from, i32)                                                                                     \
  X(from, i64)                                                                                     \
  X(from, f16)                                                                                     \
  X(from, bf16)                                                                                    \
  X(from, f32)                                                                                     \
  X(from, f64)

#define KL_MATH_CAST(X)                                                                            \
  KL_MATH_CAST_TO_EACH(X, b8)                                                                      \
  KL_MATH_CAST_TO_EACH(X, u8)                                                                      \
  KL_MATH_CAST_TO_EACH(X, i8)                                                                      \
  KL_MATH_CAST_TO_EACH(X, i16)                                                                     \
  KL_MATH_CAST_TO_EACH(X, i32)                                                                     \
  KL_MATH_CAST_TO_EACH(X, i64)                                                                     \
  KL_MATH_CAST_TO_EACH(X, f16)                                                                     \
  KL_MATH_CAST_TO_EACH(X, bf16)                                                                    \
  KL_MATH_CAST_TO_EACH(X, f32)                                                                     \
  KL_MATH_CAST_TO_EACH(X, f64)

/* X(from, to): To kl_math_bitcast_<from>_<to>(From); a bitcast to the same dtype is a copy */
#define KL_MATH_BITCAST(X)                                                                         \
  X(b8, u8)                                                                                        \
  X(b8, i8)                                                                                        \
  X(u8, i8)                                                                                        \
  X(i8, u8)                                                                                        \
  X(i16, f16)                                                                                      \
  X(i16, bf16)                                                                                     \
  X(f16, i16)                                                                                      \
  X(f16, bf16)                                                                                     \
  X(bf16, i16)                                                                                     \
  X(bf16, f16)                                                                                     \
  X(i32, f32)                                                                                      \
  X(f32, i32)                                                                                      \
  X(i64, f64)                                                                                      \
  X(f64, i64)

#endif
