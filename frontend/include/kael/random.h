/* kael/random.h: random tensors, from Philox 4x32-10 (Salmon et al., SC 2011) by counters: the same
 * seed gives the same numbers in every mode. One generator serves the process. */
#ifndef KAEL_RANDOM_H
#define KAEL_RANDOM_H

#include "kael/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Starts the generator again from `seed`. The seed is 0 until the first call. */
KAEL_API void kael_manual_seed(uint64_t seed);
/* Uniform on [0, 1): f32 multiples of 2^-24, f64 of 2^-53. `dtype` floating. Owned; NULL: error
 * (shape, dtype). Takes ceil(numel / 4) counters at the call. Never materializes. */
KAEL_API kael_tensor *kael_rand(int ndim, const int64_t *shape, kael_dtype dtype);
/* Standard normal, by the inverse of the distribution function. Otherwise as kael_rand. */
KAEL_API kael_tensor *kael_randn(int ndim, const int64_t *shape, kael_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif
