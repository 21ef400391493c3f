/* The folding functions of one level: one chunk in its defined order, argmax and argmin. */
#include <string.h>

#include "codegen/block/functions.h"
#include "codegen/block/loops.h"
#include "codegen/math/math.h"

#define NAME(op, dt) KL_MATH_PASTE(op##_, dt)

/* x[at + l] into lane l for all lanes of `n_rows` rows of 32: the loop over lanes is outside, so
 * that a lane stays in a register over 8 rows. */
#define FOLD_8(f, lanes, x)                                                                        \
  KL_BLOCK_FOR(l, KL_LANES) {                                                                      \
    lanes[l] = f(f(f(f(f(f(f(f(lanes[l], x[l]), x[32 + l]), x[64 + l]), x[96 + l]), x[128 + l]),   \
                     x[160 + l]), x[192 + l]), x[224 + l]);                                        \
  }

#define FOLD_4(f, v, i) f(f(f(f(v, x0[i]), x1[i]), x2[i]), x3[i])

/* Lanes start at `start`; combined by halves. A row of 32 columns and more of them are looped over
 * 8 rows of lanes at once, then one by one, then what is left, filled up with `start`: that changes
 * nothing, as a lane that began at +0 is never -0. */
#define CHUNK(name, merge, dt, start)                                                              \
  static void NAME(chunk_##name, dt)(const void *x_, int64_t rows, int64_t cols, void *out_) {     \
    typedef KL_MATH_CTYPE(dt) T;                                                                   \
    const T *x = x_;                                                                               \
    T *out = out_;                                                                                 \
    for (int64_t r = 0; r < rows; r++, x += cols) {                                                \
      T lanes[KL_LANES];                                                                           \
      KL_BLOCK_FOR(l, KL_LANES) lanes[l] = start;                                                  \
      int64_t k = 0;                                                                               \
      for (; k + 8 * KL_LANES <= cols; k += 8 * KL_LANES) {                                        \
        const T *y = x + k;                                                                        \
        FOLD_8(KL_MATH_FUNCTION(merge, dt), lanes, y)                                              \
      }                                                                                            \
      for (; k + KL_LANES <= cols; k += KL_LANES)                                                  \
        KL_BLOCK_FOR(l, KL_LANES) lanes[l] = KL_MATH_FUNCTION(merge, dt)(lanes[l], x[k + l]);      \
      if (k < cols) {                                                                              \
        T rest[KL_LANES];                                                                          \
        KL_BLOCK_FOR(l, KL_LANES) rest[l] = start;                                                 \
        memcpy(rest, x + k, (size_t)(cols - k) * sizeof *x);                                       \
        KL_BLOCK_FOR(l, KL_LANES) lanes[l] = KL_MATH_FUNCTION(merge, dt)(lanes[l], rest[l]);       \
      }                                                                                            \
      KL_BLOCK_FOR(l, 16) lanes[l] = KL_MATH_FUNCTION(merge, dt)(lanes[l], lanes[16 + l]);         \
      KL_BLOCK_FOR(l, 8) lanes[l] = KL_MATH_FUNCTION(merge, dt)(lanes[l], lanes[8 + l]);           \
      KL_BLOCK_FOR(l, 4) lanes[l] = KL_MATH_FUNCTION(merge, dt)(lanes[l], lanes[4 + l]);           \
      KL_BLOCK_FOR(l, 2) lanes[l] = KL_MATH_FUNCTION(merge, dt)(lanes[l], lanes[2 + l]);           \
      out[r] = KL_MATH_FUNCTION(merge, dt)(lanes[0], lanes[1]);                                    \
    }                                                                                              \
  }                                                                                                \
  static void NAME(merge_##name, dt)(void *out_, const void *a_, const void *b_, const void *c_,   \
                                     int64_t n, unsigned uniform) {                                \
    typedef KL_MATH_CTYPE(dt) T;                                                                   \
    const T *a = a_, *b = b_, a0 = *a;                                                             \
    T *out = out_;                                                                                 \
    (void)c_;                                                                                      \
    if (uniform)                                                                                   \
      KL_BLOCK_FOR(i, n) out[i] = KL_MATH_FUNCTION(merge, dt)(a0, b[i]);                           \
    else                                                                                           \
      KL_BLOCK_FOR(i, n) out[i] = KL_MATH_FUNCTION(merge, dt)(a[i], b[i]);                         \
  }                                                                                                \
  static void NAME(columns_##name, dt)(void *lane_, const void *x_, int64_t pitch, int64_t cols,   \
                                       int64_t rows) {                                             \
    typedef KL_MATH_CTYPE(dt) T;                                                                   \
    T *lane = lane_;                                                                               \
    const char *x = x_;                                                                            \
    for (; cols >= 4; cols -= 4, x += 4 * pitch) {                                                 \
      const T *x0 = (const T *)x, *x1 = (const T *)(x + pitch);                                    \
      const T *x2 = (const T *)(x + 2 * pitch), *x3 = (const T *)(x + 3 * pitch);                  \
      KL_BLOCK_FOR(i, rows) lane[i] = FOLD_4(KL_MATH_FUNCTION(merge, dt), lane[i], i);             \
    }                                                                                              \
    for (; cols > 0; cols--, x += pitch) {                                                         \
      const T *x0 = (const T *)x;                                                                  \
      KL_BLOCK_FOR(i, rows) lane[i] = KL_MATH_FUNCTION(merge, dt)(lane[i], x0[i]);                 \
    }                                                                                              \
  }

/* -0 and +0 tie, NaN beats all but NaN; x != x is false for integers. */
#define BETTER(name, compare, dt)                                                                  \
  static void NAME(better_##name, dt)(const void *x_, int64_t n, int64_t at, void *best_,          \
                                      int64_t *position) {                                         \
    typedef KL_MATH_CTYPE(dt) T;                                                                   \
    const T *x = x_;                                                                               \
    T *best = best_;                                                                               \
    KL_BLOCK_FOR(i, n) {                                                                           \
      int beats = (x[i] compare best[i]) | ((x[i] != x[i]) & (best[i] == best[i])) |               \
                  (position[i] < 0);                                                               \
      best[i] = beats ? x[i] : best[i];                                                            \
      position[i] = beats ? at : position[i];                                                      \
    }                                                                                              \
  }

#define FIND(dt)                                                                                   \
  static int64_t NAME(find, dt)(const void *x_, int64_t n, const void *value_) {                   \
    const KL_MATH_CTYPE(dt) *x = x_, value = *(const KL_MATH_CTYPE(dt) *)value_;                   \
    int64_t i = 0;                                                                                 \
    if (value != value)                                                                            \
      while (i < n - 1 && x[i] == x[i]) i++;                                                       \
    else                                                                                           \
      while (i < n - 1 && x[i] != value) i++;                                                      \
    return i;                                                                                      \
  }

#define SUMS(X) X(u8) X(i8) X(i16) X(i32) X(i64) X(f32) X(f64)
#define EXTREMES(X)                                                                                \
  X(b8, 0, 1)                                                                                      \
  X(u8, 0, UINT8_MAX)                                                                              \
  X(i8, INT8_MIN, INT8_MAX)                                                                        \
  X(i16, INT16_MIN, INT16_MAX)                                                                     \
  X(i32, INT32_MIN, INT32_MAX)                                                                     \
  X(i64, INT64_MIN, INT64_MAX)                                                                     \
  X(f32, -__builtin_inff(), __builtin_inff())                                                      \
  X(f64, -__builtin_inf(), __builtin_inf())

#define DEFINE_SUM(dt) CHUNK(sum, add, dt, 0) CHUNK(prod, mul, dt, 1)
#define DEFINE_EXTREME(dt, least, greatest)                                                        \
  CHUNK(max, max, dt, least)                                                                       \
  CHUNK(min, min, dt, greatest)                                                                    \
  BETTER(argmax, >, dt)                                                                            \
  BETTER(argmin, <, dt)                                                                            \
  FIND(dt)

SUMS(DEFINE_SUM)
EXTREMES(DEFINE_EXTREME)

KL_BLOCK_DECLARE_LEVEL(KL_LEVEL)

#define AT(OP, dt) [KL_OP_REDUCE_##OP - KL_OP_REDUCE_SUM][KL_MATH_DTYPE(dt)]
#define FOLD(OP, name, dt) AT(OP, dt) = {NAME(chunk_##name, dt), NAME(merge_##name, dt), NAME(columns_##name, dt), NULL, NULL},
#define ARG(OP, name, arg, dt)                                                                     \
  AT(OP, dt) = {NAME(chunk_##name, dt), NULL, NULL, NAME(better_##arg, dt), NAME(find, dt)},
#define SUM_ENTRIES(dt) FOLD(SUM, sum, dt) FOLD(PROD, prod, dt)
#define EXTREME_ENTRIES(dt, least, greatest)                                                       \
  FOLD(MAX, max, dt) FOLD(MIN, min, dt) ARG(ARGMAX, max, argmax, dt) ARG(ARGMIN, min, argmin, dt)

const kl_block_fold KL_BLOCK_LEVEL_NAME(kl_block_fold_)[KL_BLOCK_FOLDS][KL_DTYPE_COUNT] = {
    SUMS(SUM_ENTRIES)         /**/
    EXTREMES(EXTREME_ENTRIES) /**/
    FOLD(ANY, max, b8)        /**/
    FOLD(ALL, min, b8)        /**/
};
