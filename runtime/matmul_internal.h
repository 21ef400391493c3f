/* What the files of the matrix product share; nobody else includes this. */
#ifndef KL_RUNTIME_MATMUL_INTERNAL_H
#define KL_RUNTIME_MATMUL_INTERNAL_H

#include "runtime/matmul.h"
#include "runtime/matmul_kernels.h"

/* The kernels of a float dtype for this machine; NULL where there are none. */
const kl_matmul_kernels *kl_matmul_kernels_get(kl_dtype dtype);

/* Each computes one product (the spec's batch fields are ignored) whose m, n, k are not 0. */
kl_status kl_matmul_blocked(const kl_matmul_kernels *kernels, const kl_matmul *spec, const void *a,
                            const void *b, void *c);
kl_status kl_matmul_row(const kl_matmul_kernels *kernels, const kl_matmul *spec, const void *a,
                        const void *b, void *c); /* m = 1, b_n or b_k = 1 */
kl_status kl_matmul_plain(const kl_matmul *spec, const void *a, const void *b, void *c);
kl_status kl_matmul_integer(const kl_matmul *spec, const void *a, const void *b, void *c);
kl_status kl_matmul_openblas(const kl_matmul *spec, const void *a, const void *b, void *c);

/* Multiply-adds below which a product stays on one thread: some ten microseconds. */
enum { KL_MATMUL_PARALLEL_WORK = 1 << 19 };

#endif
