/* The innermost functions of float matrix products, one table for each type and level.
 *
 * matmul_kernels.inc is their one source; it is compiled for every (type, level). All strides
 * count elements, all pointers are to the table's element type. None of them allocates.
 */
#ifndef KL_RUNTIME_MATMUL_KERNELS_H
#define KL_RUNTIME_MATMUL_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

/* One block of k (kc <= 256) of an m x n part of C. A packed operand is a row of panels: panel p
 * holds rows (columns) [p * width, (p + 1) * width) as kc lines of `width` elements, where those of
 * the last one are filled up with zeros to whole vectors. */
typedef struct kl_matmul_block {
  int64_t m, n, kc;
  const void *a;
  int64_t a_m, a_k; /* unused where packed */
  const void *b;
  int64_t b_k;        /* unused where packed; else b's elements are adjacent along n */
  const void *b_edge; /* where b is not packed and n % tile_n != 0: its last panel, packed */
  void *c;
  int64_t c_m, c_n;
  bool a_packed, b_packed;
  bool accumulate; /* false: C = t, for the first block; true: C = C + t */
} kl_matmul_block;

typedef struct kl_matmul_kernels {
  int tile_m, tile_n; /* widths of the panels of A and of B */
  void (*block)(const kl_matmul_block *block);
  /* Packs `count` <= width rows (columns) into one panel. */
  void (*pack)(void *panel, int64_t width, const void *source, int64_t stride, int64_t stride_k,
               int64_t count, int64_t kc);
  /* t[j] = chain over k of a[k * a_k] * b[k * b_k + j], for j < n: reads each row of b once. */
  void (*row)(void *t, const void *a, int64_t a_k, const void *b, int64_t b_k, int64_t n,
              int64_t kc);
  /* t[j] = chain over k of a[j * a_step + k * a_k] * b[j * b_step + k * b_k], for j < n. */
  void (*dots)(void *t, const void *a, int64_t a_step, int64_t a_k, const void *b, int64_t b_step,
               int64_t b_k, int64_t n, int64_t kc);
  /* c[j * c_n] = t[j], or c[j * c_n] + t[j]. */
  void (*merge)(void *c, int64_t c_n, const void *t, int64_t n, bool accumulate);
} kl_matmul_kernels;

#define KL_MATMUL_KERNELS(type, level) kl_matmul_kernels_##type##_##level

#if defined(__x86_64__)
extern const kl_matmul_kernels kl_matmul_kernels_f32_v2, kl_matmul_kernels_f64_v2;
extern const kl_matmul_kernels kl_matmul_kernels_f32_v3, kl_matmul_kernels_f64_v3;
extern const kl_matmul_kernels kl_matmul_kernels_f32_v4, kl_matmul_kernels_f64_v4;
#else
extern const kl_matmul_kernels kl_matmul_kernels_f32_base, kl_matmul_kernels_f64_base;
#endif

#endif
