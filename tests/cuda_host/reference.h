/* Tier 0 for a C++ caller whose union kl_scalar is that of a CUDA unit. */
#ifndef TESTS_CUDA_HOST_REFERENCE_H
#define TESTS_CUDA_HOST_REFERENCE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
/* NULL, or what went wrong. */
const char *run_by_tier_0(const char *text, size_t nbytes, void *const *bufs, const int64_t *ints,
                          const uint64_t *scalars);
#ifdef __cplusplus
}
#endif

#endif
