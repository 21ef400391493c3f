/* f16 and bf16 as numbers of the host: 16 bits, computed with as f32 (DESIGN.md 6). */
#ifndef KL_FRONTEND_HALF_H
#define KL_FRONTEND_HALF_H

#include "ir/dtype.h"

static inline bool kl_dtype_is_half(kl_dtype dtype) { return dtype == KL_F16 || dtype == KL_BF16; }
/* The dtype that a public operator computes in: f32 for the halves. */
static inline kl_dtype kl_compute_dtype(kl_dtype dtype) {
  return kl_dtype_is_half(dtype) ? KL_F32 : dtype;
}
/* To nearest even, overflow to infinity, NaN to a quiet NaN. */
uint16_t kl_half_from_float(float number, kl_dtype dtype);
float kl_half_to_float(uint16_t bits, kl_dtype dtype);

#endif
