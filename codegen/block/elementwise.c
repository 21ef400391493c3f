/* The elementwise functions of one level, from the scalar functions of codegen/math.
 *
 * A function has a loop for each form of its operands, so that one value for all is never spread
 * over a block. Operands are read before the result is written, as it may take their place. */
#include "codegen/block/functions.h"
#include "codegen/block/loops.h"
#include "codegen/math/math.h"

#define NAME(op, dt) KL_MATH_PASTE(elem_##op##_, dt)
#define CAST_NAME(from, to) KL_MATH_PASTE(KL_MATH_PASTE(cast_, from), KL_MATH_PASTE(_, to))
#define CAST_FUNCTION(from, to)                                                                    \
  KL_MATH_PASTE(KL_MATH_PASTE(kl_math_cast_, from), KL_MATH_PASTE(_, to))
#define PARAMETERS                                                                                 \
  (void *out_, const void *a_, const void *b_, const void *c_, int64_t n, unsigned uniform)

#define UNARY_LOOP(f, A, R)                                                                        \
  const A *a = a_;                                                                                 \
  R *out = out_;                                                                                   \
  (void)b_, (void)c_, (void)uniform;                                                               \
  KL_BLOCK_FOR(i, n) out[i] = f(a[i]);

#define UNARY(OP, op, dt)                                                                          \
  static void NAME(op, dt) PARAMETERS {                                                            \
    UNARY_LOOP(KL_MATH_FUNCTION(op, dt), KL_MATH_CTYPE(dt), KL_MATH_CTYPE(dt))                     \
  }

#define CAST(from, to)                                                                             \
  static void CAST_NAME(from, to) PARAMETERS {                                                     \
    UNARY_LOOP(CAST_FUNCTION(from, to), KL_MATH_CTYPE(from), KL_MATH_CTYPE(to))                    \
  }

/* Where no argument of the block is rare, which is nearly always, the loop has no branch. */
#define UNARY_RARE(OP, op, dt)                                                                     \
  static void NAME(op, dt) PARAMETERS {                                                            \
    const KL_MATH_CTYPE(dt) *x = a_;                                                               \
    int rare = 0;                                                                                  \
    for (int64_t i = 0; i < n; i++) rare |= KL_MATH_FUNCTION(op##_is_rare, dt)(x[i]);              \
    if (rare) {                                                                                    \
      UNARY_LOOP(KL_MATH_FUNCTION(op, dt), KL_MATH_CTYPE(dt), KL_MATH_CTYPE(dt))                   \
    } else {                                                                                       \
      UNARY_LOOP(KL_MATH_FUNCTION(op##_common, dt), KL_MATH_CTYPE(dt), KL_MATH_CTYPE(dt))          \
    }                                                                                              \
  }

#define BINARY_LOOPS(f, T, R)                                                                      \
  const T *a = a_, *b = b_, a0 = *a, b0 = *b;                                                      \
  R *out = out_;                                                                                   \
  (void)c_;                                                                                        \
  if (uniform == 0) {                                                                              \
    KL_BLOCK_FOR(i, n) out[i] = f(a[i], b[i]);                                                     \
  } else if (uniform == 1) {                                                                       \
    KL_BLOCK_FOR(i, n) out[i] = f(a0, b[i]);                                                       \
  } else {                                                                                         \
    KL_BLOCK_FOR(i, n) out[i] = f(a[i], b0);                                                       \
  }

#define BINARY(OP, op, dt)                                                                         \
  static void NAME(op, dt) PARAMETERS {                                                            \
    BINARY_LOOPS(KL_MATH_FUNCTION(op, dt), KL_MATH_CTYPE(dt), KL_MATH_CTYPE(dt))                   \
  }
#define COMPARE(OP, op, dt)                                                                        \
  static void NAME(op, dt) PARAMETERS {                                                            \
    BINARY_LOOPS(KL_MATH_FUNCTION(op, dt), KL_MATH_CTYPE(dt), uint8_t)                             \
  }

#define BINARY_RARE(OP, op, dt)                                                                    \
  static void NAME(op, dt) PARAMETERS {                                                            \
    const KL_MATH_CTYPE(dt) *x = a_, *y = b_;                                                      \
    int64_t x_step = !(uniform & 1), y_step = !(uniform & 2);                                      \
    int rare = 0;                                                                                  \
    for (int64_t i = 0; i < n; i++)                                                                \
      rare |= KL_MATH_FUNCTION(op##_is_rare, dt)(x[i * x_step], y[i * y_step]);                    \
    if (rare) {                                                                                    \
      BINARY_LOOPS(KL_MATH_FUNCTION(op, dt), KL_MATH_CTYPE(dt), KL_MATH_CTYPE(dt))                 \
    } else {                                                                                       \
      BINARY_LOOPS(KL_MATH_FUNCTION(op##_common, dt), KL_MATH_CTYPE(dt), KL_MATH_CTYPE(dt))        \
    }                                                                                              \
  }

#define TERNARY_LOOPS(f, C, T, R)                                                                  \
  const C *a = a_, a0 = *a;                                                                        \
  const T *b = b_, *c = c_, b0 = *b, c0 = *c;                                                      \
  R *out = out_;                                                                                   \
  switch (uniform) {                                                                               \
    case 0: KL_BLOCK_FOR(i, n) out[i] = f(a[i], b[i], c[i]); break;                                \
    case 1: KL_BLOCK_FOR(i, n) out[i] = f(a0, b[i], c[i]); break;                                  \
    case 2: KL_BLOCK_FOR(i, n) out[i] = f(a[i], b0, c[i]); break;                                  \
    case 3: KL_BLOCK_FOR(i, n) out[i] = f(a0, b0, c[i]); break;                                    \
    case 4: KL_BLOCK_FOR(i, n) out[i] = f(a[i], b[i], c0); break;                                  \
    case 5: KL_BLOCK_FOR(i, n) out[i] = f(a0, b[i], c0); break;                                    \
    default: KL_BLOCK_FOR(i, n) out[i] = f(a[i], b0, c0); break;                                   \
  }

#define TERNARY(OP, op, dt)                                                                        \
  static void NAME(op, dt) PARAMETERS {                                                            \
    TERNARY_LOOPS(KL_MATH_FUNCTION(op, dt), KL_MATH_CTYPE(dt), KL_MATH_CTYPE(dt),                  \
                  KL_MATH_CTYPE(dt))                                                               \
  }
#define SELECT(OP, op, dt)                                                                         \
  static void NAME(op, dt) PARAMETERS {                                                            \
    TERNARY_LOOPS(KL_MATH_FUNCTION(op, dt), uint8_t, KL_MATH_CTYPE(dt), KL_MATH_CTYPE(dt))         \
  }
#define RANDOM(OP, op, dt)                                                                         \
  static void NAME(op, dt) PARAMETERS {                                                            \
    TERNARY_LOOPS(KL_MATH_FUNCTION(op, dt), int64_t, int64_t, int32_t)                             \
  }

KL_MATH_UNARY(UNARY)
KL_MATH_UNARY_RARE(UNARY_RARE)
KL_MATH_BINARY(BINARY)
KL_MATH_BINARY_RARE(BINARY_RARE)
KL_MATH_COMPARE(COMPARE)
KL_MATH_TERNARY(TERNARY)
KL_MATH_SELECT(SELECT)
KL_MATH_RANDOM(RANDOM)
KL_MATH_CAST(CAST)

KL_BLOCK_DECLARE_LEVEL(KL_LEVEL)

#define ENTRY(OP, op, dt) [KL_OP_##OP][KL_MATH_DTYPE(dt)] = NAME(op, dt),
kl_block_elem_fn *const KL_BLOCK_LEVEL_NAME(kl_block_elem_)[KL_OP_COUNT][KL_DTYPE_COUNT] = {
    KL_MATH_UNARY(ENTRY)       /**/
    KL_MATH_UNARY_RARE(ENTRY)  /**/
    KL_MATH_BINARY(ENTRY)      /**/
    KL_MATH_BINARY_RARE(ENTRY) /**/
    KL_MATH_COMPARE(ENTRY)     /**/
    KL_MATH_TERNARY(ENTRY)     /**/
    KL_MATH_SELECT(ENTRY)      /**/
    KL_MATH_RANDOM(ENTRY)      /**/
};

#define CAST_ENTRY(from, to) [KL_MATH_DTYPE(from)][KL_MATH_DTYPE(to)] = CAST_NAME(from, to),
kl_block_elem_fn *const KL_BLOCK_LEVEL_NAME(kl_block_cast_)[KL_DTYPE_COUNT][KL_DTYPE_COUNT] = {
    KL_MATH_CAST(CAST_ENTRY)};
