/* Products without vectors: integers, and floats on a machine for which no kernels are built. */
#include <math.h>

#include "runtime/matmul_internal.h"
#include "runtime/threads.h"

typedef struct plain_product {
  const kl_matmul *spec;
  const void *a, *b;
  void *c;
} plain_product;

static int64_t min_int64(int64_t a, int64_t b) { return a < b ? a : b; }

/* The definition itself, one element at a time. */
#define DEFINE_FLOAT_ROWS(type, fma_function)                                                      \
  static void type##_rows(void *ctx, int64_t begin, int64_t end, int worker) {                     \
    (void)worker;                                                                                  \
    const plain_product *p = ctx;                                                                  \
    const kl_matmul *s = p->spec;                                                                  \
    for (int64_t i = begin; i < end; i++) {                                                        \
      for (int64_t j = 0; j < s->n; j++) {                                                         \
        const type *a = (const type *)p->a + i * s->a_m, *b = (const type *)p->b + j * s->b_n;     \
        type sum = 0;                                                                              \
        for (int64_t k = 0; k < s->k; k += KL_MATMUL_K_BLOCK) {                                    \
          type t = 0;                                                                              \
          int64_t stop = min_int64(k + KL_MATMUL_K_BLOCK, s->k);                                   \
          for (int64_t q = k; q < stop; q++) t = fma_function(a[q * s->a_k], b[q * s->b_k], t);    \
          sum = k == 0 ? t : sum + t;                                                              \
        }                                                                                          \
        ((type *)p->c)[i * s->c_m + j * s->c_n] = sum;                                             \
      }                                                                                            \
    }                                                                                              \
  }

DEFINE_FLOAT_ROWS(float, fmaf)
DEFINE_FLOAT_ROWS(double, fma)

/* Unsigned arithmetic wraps around, and gives the bits of the signed types as well. Row i of C
 * collects a[i, k] times row k of B, a loop that vectorizes where rows are adjacent. */
#define DEFINE_INTEGER_ROWS(type)                                                                  \
  static void add_##type##_row(type *c, int64_t c_n, type a, const type *b, int64_t b_n,           \
                               int64_t n) {                                                        \
    if (c_n == 1 && b_n == 1) {                                                                    \
      for (int64_t j = 0; j < n; j++) c[j] = (type)(c[j] + (uint64_t)a * b[j]);                    \
    } else {                                                                                       \
      for (int64_t j = 0; j < n; j++)                                                              \
        c[j * c_n] = (type)(c[j * c_n] + (uint64_t)a * b[j * b_n]);                                \
    }                                                                                              \
  }                                                                                                \
  static void type##_rows(void *ctx, int64_t begin, int64_t end, int worker) {                     \
    (void)worker;                                                                                  \
    const plain_product *p = ctx;                                                                  \
    const kl_matmul *s = p->spec;                                                                  \
    for (int64_t i = begin; i < end; i++) {                                                        \
      const type *a = (const type *)p->a + i * s->a_m;                                             \
      type *c = (type *)p->c + i * s->c_m;                                                         \
      for (int64_t j = 0; j < s->n; j++) c[j * s->c_n] = 0;                                        \
      for (int64_t k = 0; k < s->k; k++)                                                           \
        add_##type##_row(c, s->c_n, a[k * s->a_k], (const type *)p->b + k * s->b_k, s->b_n, s->n); \
    }                                                                                              \
  }

DEFINE_INTEGER_ROWS(uint8_t)
DEFINE_INTEGER_ROWS(uint16_t)
DEFINE_INTEGER_ROWS(uint32_t)
DEFINE_INTEGER_ROWS(uint64_t)

static void run_rows(kl_range_fn rows, const kl_matmul *spec, const void *a, const void *b,
                     void *c) {
  plain_product p = {spec, a, b, c};
  double row_work = (double)spec->n * (double)spec->k;
  int64_t grain = (int64_t)((double)KL_MATMUL_PARALLEL_WORK / 8 / row_work) + 1;
  kl_parallel_for(spec->m, grain, rows, &p);
}

kl_status kl_matmul_plain(const kl_matmul *spec, const void *a, const void *b, void *c) {
  run_rows(spec->dtype == KL_F32 ? float_rows : double_rows, spec, a, b, c);
  return KL_OK;
}

kl_status kl_matmul_integer(const kl_matmul *spec, const void *a, const void *b, void *c) {
  switch (kl_dtype_size(spec->dtype)) {
    case 1: run_rows(uint8_t_rows, spec, a, b, c); return KL_OK;
    case 2: run_rows(uint16_t_rows, spec, a, b, c); return KL_OK;
    case 4: run_rows(uint32_t_rows, spec, a, b, c); return KL_OK;
    default: run_rows(uint64_t_rows, spec, a, b, c); return KL_OK;
  }
}
