/* The verbs of codegen/math/README.md as C expressions; with KL_MATH_CUDA defined, as CUDA C++ that
 * includes nothing. A value of type V is a float or double, I an integer of the same width (or of
 * the integer dtype itself), M a bool. Every definition here is undone by verbs_undef.h. */
#ifndef KL_PASTE
#define KL_PASTE_(a, b) a##b
#define KL_PASTE(a, b) KL_PASTE_(a, b)
#endif

/* dtype token -> the type that holds it, its unsigned twin, and the type its sums wrap in */
#ifdef KL_MATH_CUDA
#define KL_CTYPE_b8 unsigned char
#define KL_CTYPE_u8 unsigned char
#define KL_CTYPE_i8 signed char
#define KL_CTYPE_i16 short
#define KL_CTYPE_i32 int
#define KL_CTYPE_i64 long long
#define KL_CTYPE_f16 unsigned short
#define KL_CTYPE_bf16 unsigned short
#define KL_UTYPE_64 unsigned long long
#define KL_UTYPE_32 unsigned int
#define KL_UTYPE_16 unsigned short
#define KL_UTYPE_8 unsigned char
#define KL_MTYPE bool
#define KL_MATH_FN static __device__ __forceinline__ __attribute__((unused))
#else
#define KL_UTYPE_64 uint64_t
#define KL_UTYPE_32 uint32_t
#define KL_UTYPE_16 uint16_t
#define KL_UTYPE_8 uint8_t
#define KL_MTYPE _Bool
#define KL_CTYPE_b8 uint8_t
#define KL_CTYPE_u8 uint8_t
#define KL_CTYPE_i8 int8_t
#define KL_CTYPE_i16 int16_t
#define KL_CTYPE_i32 int32_t
#define KL_CTYPE_i64 int64_t
#define KL_CTYPE_f16 uint16_t
#define KL_CTYPE_bf16 uint16_t
#define KL_MATH_FN static inline __attribute__((always_inline, unused))
#endif
#define KL_CTYPE_f32 float
#define KL_CTYPE_f64 double
#define KL_UWRAP_64 KL_UTYPE_64
#define KL_UWRAP_32 KL_UTYPE_32
#define KL_UWRAP_16 KL_UTYPE_32
#define KL_UWRAP_8 KL_UTYPE_32
#define KL_ITYPE_b8 KL_CTYPE_b8
#define KL_ITYPE_u8 KL_CTYPE_u8
#define KL_ITYPE_i8 KL_CTYPE_i8
#define KL_ITYPE_i16 KL_CTYPE_i16
#define KL_ITYPE_i32 KL_CTYPE_i32
#define KL_ITYPE_i64 KL_CTYPE_i64
#define KL_ITYPE_f32 KL_CTYPE_i32
#define KL_ITYPE_f64 KL_CTYPE_i64

#define KL_CT(dt) KL_PASTE(KL_CTYPE_, dt)
#define KL_T KL_CT(KL_DT)
#define KL_I KL_PASTE(KL_ITYPE_, KL_DT)
#define KL_U KL_PASTE(KL_UTYPE_, KL_W)
#define KL_UW KL_PASTE(KL_UWRAP_, KL_W)
#define KL_FN_NAME(op) KL_PASTE(kl_math_##op##_, KL_DT)
#define KL_CAST_NAME(from, to) KL_PASTE(KL_PASTE(kl_math_cast_, from), KL_PASTE(_, to))

/* functions */
#define FN1(op, x) KL_MATH_FN KL_T KL_FN_NAME(op)(KL_T x) {
#define FN2(op, x, y) KL_MATH_FN KL_T KL_FN_NAME(op)(KL_T x, KL_T y) {
#define FN3(op, x, y, z) KL_MATH_FN KL_T KL_FN_NAME(op)(KL_T x, KL_T y, KL_T z) {
#define PRED1(op, x) KL_MATH_FN KL_MTYPE KL_FN_NAME(op)(KL_T x) {
#define PRED2(op, x, y) KL_MATH_FN KL_MTYPE KL_FN_NAME(op)(KL_T x, KL_T y) {
#define FN_COPY(x) KL_MATH_FN KL_T KL_FN_NAME(copy)(KL_T x) {
#define FN_SELECT(c, x, y) KL_MATH_FN KL_T KL_FN_NAME(select)(KL_CTYPE_b8 c, KL_T x, KL_T y) {
#define FN_CAST(from, to, x) KL_MATH_FN KL_CT(to) KL_CAST_NAME(from, to)(KL_CT(from) x) {
#define FN_BITCAST(from, to, x)                                                                    \
  KL_MATH_FN KL_CT(to) kl_math_bitcast_##from##_##to(KL_CT(from) x) {
#define FN_RANDOM(op, i, c, s) KL_MATH_FN KL_CTYPE_i32 kl_math_##op##_i64(KL_I i, KL_I c, KL_I s) {
#define RETURN(x) return x;
#define END }
#define CALL1(op, x) KL_FN_NAME(op)(x)
#define CALL2(op, x, y) KL_FN_NAME(op)(x, y)
#define CAST(from, to, x) KL_CAST_NAME(from, to)(x)
#ifdef KL_MATH_CUDA
#define KL_RARELY(m) (m)
#else
#define KL_RARELY(m) __builtin_expect((m), 0)
#endif
#define RARE1(op)                                                                                  \
  KL_MATH_FN KL_T KL_FN_NAME(op)(KL_T x) {                                                         \
    return KL_RARELY(KL_FN_NAME(op##_is_rare)(x)) ? KL_FN_NAME(op##_rare)(x)                       \
                                                  : KL_FN_NAME(op##_common)(x);                    \
  }
#define RARE2(op)                                                                                  \
  KL_MATH_FN KL_T KL_FN_NAME(op)(KL_T x, KL_T y) {                                                 \
    return KL_RARELY(KL_FN_NAME(op##_is_rare)(x, y)) ? KL_FN_NAME(op##_rare)(x, y)                 \
                                                     : KL_FN_NAME(op##_common)(x, y);              \
  }

/* names */
#define V(name) const KL_T name
#define I(name) const KL_I name
#define M(name) const KL_MTYPE name
#define V_MUT(name) KL_T name
#define I_MUT(name) KL_I name
#define SET(name) name
#define LOOP(i, n) for (int i = 0; i < (n); i++) {
#define ENDLOOP }

/* floats */
#define C(k) ((KL_T)(k))
#define ADD(a, b) ((a) + (b))
#define SUB(a, b) ((a) - (b))
#define MUL(a, b) ((a) * (b))
#define DIV(a, b) ((a) / (b))
#define NEG(a) (-(a))
#define SEL(m, a, b) ((m) ? (a) : (b))
#define EQ(a, b) ((a) == (b))
#define NE(a, b) ((a) != (b))
#define LT(a, b) ((a) < (b))
#define LE(a, b) ((a) <= (b))
#define GT(a, b) ((a) > (b))
#define GE(a, b) ((a) >= (b))
#define FMA(a, b, c) KL_PASTE(kl_fma_, KL_DT)(a, b, c)
#define SQRT(a) KL_PASTE(kl_sqrt_, KL_DT)(a)
#define FLOOR(a) KL_PASTE(kl_floor_, KL_DT)(a)
#define CEIL(a) KL_PASTE(kl_ceil_, KL_DT)(a)
#define TRUNC(a) KL_PASTE(kl_trunc_, KL_DT)(a)
#define RINT(a) KL_PASTE(kl_rint_, KL_DT)(a)
#define ABS(a) KL_PASTE(kl_abs_, KL_DT)(a)
#define COPYSIGN(a, b) KL_PASTE(kl_copysign_, KL_DT)(a, b)
#define BITS(a) KL_PASTE(kl_bits_, KL_DT)(a)
#define FLOAT(i) KL_PASTE(kl_float_, KL_DT)(i)

/* integers */
#define IC(k) ((KL_I)(k))
#define IADD(a, b) ((KL_I)((KL_UW)(a) + (KL_UW)(b)))
#define ISUB(a, b) ((KL_I)((KL_UW)(a) - (KL_UW)(b)))
#define IMUL(a, b) ((KL_I)((KL_UW)(a) * (KL_UW)(b)))
#define IAND(a, b) ((KL_I)((a) & (b)))
#define IOR(a, b) ((KL_I)((a) | (b)))
#define IXOR(a, b) ((KL_I)((a) ^ (b)))
#define ISHL(a, n) ((KL_I)((KL_UW)(a) << (n)))
#define ISHR(a, n) ((KL_I)((a) >> (n)))
#define USHR(a, n) ((KL_I)((KL_U)(a) >> (n)))
#define IDIV(a, b) ((KL_I)((a) / (b)))
#define IREM(a, b) ((KL_I)((a) % (b)))
#define UMULH(a, b) KL_PASTE(kl_umulh_, KL_W)(a, b)
#define UMUL32(a, b) ((KL_I)((KL_U)(KL_UTYPE_32)(a) * (KL_U)(KL_UTYPE_32)(b)))
#define IEQ(a, b) ((a) == (b))
#define INE(a, b) ((a) != (b))
#define ILT(a, b) ((a) < (b))
#define ILE(a, b) ((a) <= (b))
#define IGT(a, b) ((a) > (b))
#define IGE(a, b) ((a) >= (b))
#define ULT(a, b) ((KL_U)(a) < (KL_U)(b))
#define ISEL(m, a, b) ((KL_I)((m) ? (a) : (b)))

/* masks */
#define MAND(a, b) ((KL_MTYPE)((int)(a) & (int)(b)))
#define MOR(a, b) ((KL_MTYPE)((int)(a) | (int)(b)))
#define MXOR(a, b) ((a) != (b))
#define MNOT(a) (!(a))

/* conversions between dtypes */
#define RESIZE(from, to, x) ((KL_CT(to))(x))
#define ITOF(from, to, x) ((KL_CT(to))(x))
#define FTOF(from, to, x) ((KL_CT(to))(x))
#define FTOI(from, to, x) KL_PASTE(KL_PASTE(kl_saturate_, from), KL_PASTE(_, to))(x)
#define IS_NOT_ZERO(from, to, x) ((KL_CT(to))((x) != 0))
#define REINTERPRET(from, to, x) KL_PASTE(KL_PASTE(kl_reinterpret_, from), KL_PASTE(_, to))(x)
#define SELECT_ANY(c, x, y) ((c) ? (x) : (y))
#define FROM_16(x) ((KL_I)(x))
#define TO_16(i) ((KL_UTYPE_16)(i))

/* What the verbs above need as functions. */
#ifdef KL_MATH_CUDA
#define KL_REINTERPRET(from, to)                                                                   \
  KL_MATH_FN KL_CT(to) kl_reinterpret_##from##_##to(KL_CT(from) x) {                               \
    union {                                                                                        \
      KL_CT(from) in;                                                                              \
      KL_CT(to) out;                                                                               \
    } both;                                                                                        \
    both.in = x;                                                                                   \
    return both.out;                                                                               \
  }
#else
#define KL_REINTERPRET(from, to)                                                                   \
  KL_MATH_FN KL_CT(to) kl_reinterpret_##from##_##to(KL_CT(from) x) {                               \
    KL_CT(to) out;                                                                                 \
    __builtin_memcpy(&out, &x, sizeof out);                                                        \
    return out;                                                                                    \
  }
#endif
KL_REINTERPRET(b8, u8)
KL_REINTERPRET(b8, i8)
KL_REINTERPRET(u8, i8)
KL_REINTERPRET(i8, u8)
KL_REINTERPRET(i16, f16)
KL_REINTERPRET(i16, bf16)
KL_REINTERPRET(f16, i16)
KL_REINTERPRET(f16, bf16)
KL_REINTERPRET(bf16, i16)
KL_REINTERPRET(bf16, f16)
KL_REINTERPRET(i32, f32)
KL_REINTERPRET(f32, i32)
KL_REINTERPRET(i64, f64)
KL_REINTERPRET(f64, i64)

/* C leaves a conversion out of range undefined, hence the comparisons before it. */
#define KL_SATURATE(from, to, low, past, least, greatest)                                          \
  KL_MATH_FN KL_CT(to) kl_saturate_##from##_##to(KL_CT(from) x) {                                  \
    return x != x ? 0 : x < low ? least : x >= past ? greatest : (KL_CT(to))x;                     \
  }
#define KL_SATURATES(from)                                                                         \
  KL_SATURATE(from, u8, 0, 256, 0, 255)                                                            \
  KL_SATURATE(from, i8, -128, 128, -128, 127)                                                      \
  KL_SATURATE(from, i16, -32768, 32768, -32768, 32767)                                             \
  KL_SATURATE(from, i32, -2147483648.0f, 2147483648.0f, -2147483647 - 1, 2147483647)               \
  KL_SATURATE(from, i64, -9223372036854775808.0f, 9223372036854775808.0f,                          \
              -9223372036854775807LL - 1, 9223372036854775807LL)
KL_SATURATES(f32)
KL_SATURATES(f64)

#define KL_PRIMITIVES(dt, fma, sqrt, floor, ceil, trunc, rint, abs, copysign)                      \
  KL_MATH_FN KL_CT(dt) kl_fma_##dt(KL_CT(dt) a, KL_CT(dt) b, KL_CT(dt) c) { return fma(a, b, c); } \
  KL_MATH_FN KL_CT(dt) kl_sqrt_##dt(KL_CT(dt) a) { return sqrt(a); }                               \
  KL_MATH_FN KL_CT(dt) kl_floor_##dt(KL_CT(dt) a) { return floor(a); }                             \
  KL_MATH_FN KL_CT(dt) kl_ceil_##dt(KL_CT(dt) a) { return ceil(a); }                               \
  KL_MATH_FN KL_CT(dt) kl_trunc_##dt(KL_CT(dt) a) { return trunc(a); }                             \
  KL_MATH_FN KL_CT(dt) kl_rint_##dt(KL_CT(dt) a) { return rint(a); }                               \
  KL_MATH_FN KL_CT(dt) kl_abs_##dt(KL_CT(dt) a) { return abs(a); }                                 \
  KL_MATH_FN KL_CT(dt) kl_copysign_##dt(KL_CT(dt) a, KL_CT(dt) b) { return copysign(a, b); }       \
  KL_MATH_FN KL_ITYPE_##dt kl_bits_##dt(KL_CT(dt) a) { return KL_BITS_##dt(a); }                   \
  KL_MATH_FN KL_CT(dt) kl_float_##dt(KL_ITYPE_##dt i) { return KL_FLOAT_##dt(i); }
#define KL_BITS_f32 kl_reinterpret_f32_i32
#define KL_BITS_f64 kl_reinterpret_f64_i64
#define KL_FLOAT_f32 kl_reinterpret_i32_f32
#define KL_FLOAT_f64 kl_reinterpret_i64_f64
#ifdef KL_MATH_CUDA
KL_PRIMITIVES(f32, __fmaf_rn, __fsqrt_rn, floorf, ceilf, truncf, rintf, fabsf, copysignf)
KL_PRIMITIVES(f64, __fma_rn, __dsqrt_rn, floor, ceil, trunc, rint, fabs, copysign)
#define KL_UMULH_32 __umulhi
#define KL_UMULH_64 __umul64hi
#else
KL_PRIMITIVES(f32, __builtin_fmaf, __builtin_sqrtf, __builtin_floorf, __builtin_ceilf,
              __builtin_truncf, __builtin_rintf, __builtin_fabsf, __builtin_copysignf)
KL_PRIMITIVES(f64, __builtin_fma, __builtin_sqrt, __builtin_floor, __builtin_ceil, __builtin_trunc,
              __builtin_rint, __builtin_fabs, __builtin_copysign)
#define KL_UMULH_32(a, b) (((uint64_t)(a) * (b)) >> 32)
#define KL_UMULH_64(a, b) (((unsigned __int128)(a) * (b)) >> 64)
#endif
KL_MATH_FN KL_CTYPE_i32 kl_umulh_32(KL_UTYPE_32 a, KL_UTYPE_32 b) {
  return (KL_CTYPE_i32)KL_UMULH_32(a, b);
}
KL_MATH_FN KL_CTYPE_i64 kl_umulh_64(KL_UTYPE_64 a, KL_UTYPE_64 b) {
  return (KL_CTYPE_i64)KL_UMULH_64(a, b);
}
