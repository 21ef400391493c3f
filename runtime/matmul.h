/* Matrix products in the defined order (docs/numerics.md, "Matrix product").
 *
 * C[batch, i, j] = sum over k of A[batch, i, k] * B[batch, k, j]. For f32 and f64, k is cut into
 * blocks of 256, each is one ascending chain of fma from +0, and block results are added in
 * ascending order: no layout, thread count, batch size or instruction set changes a bit.
 * Integers (u8, i8, i16, i32, i64) wrap around.
 */
#ifndef KL_RUNTIME_MATMUL_H
#define KL_RUNTIME_MATMUL_H

#include <stdint.h>

#include "ir/dtype.h"
#include "ir/support/status.h"

enum { KL_MATMUL_MAX_BATCH = 14, KL_MATMUL_K_BLOCK = 256 };

/* All strides count elements; those of A and B may be 0 (broadcast) or negative. C's elements must
 * be distinct and must not overlap A or B. */
typedef struct kl_matmul {
  kl_dtype dtype;
  int n_batch;
  int64_t batch[KL_MATMUL_MAX_BATCH]; /* outermost first */
  int64_t a_batch[KL_MATMUL_MAX_BATCH], b_batch[KL_MATMUL_MAX_BATCH], c_batch[KL_MATMUL_MAX_BATCH];
  int64_t m, n, k;
  int64_t a_m, a_k;
  int64_t b_k, b_n;
  int64_t c_m, c_n;
} kl_matmul;

/* Computes C on the library's threads, with the provider that KAEL_MATMUL names. k = 0 gives +0.
 * KL_ERR_TYPE for another dtype. Without room for packed operands it is slower, not a failure; only
 * OpenBLAS, when it cannot be opened, makes the call fail, with C unwritten. */
kl_status kl_matmul_run(const kl_matmul *spec, const void *a, const void *b, void *c) KL_MUST_CHECK;

#endif
