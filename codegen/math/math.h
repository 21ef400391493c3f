/* Scalar math in C: static inline kl_math_<op>_<dtype>, e.g. kl_math_exp_f32, kl_math_add_i32,
 * kl_math_cast_f32_i64, kl_math_select_f32(cond, a, b), kl_math_random_i64(i, counter, seed).
 * Dtype tokens: b8 (bool, a byte of 0 or 1) u8 i8 i16 i32 i64 f16 bf16 (as uint16_t bits) f32 f64.
 * Comparisons return 0 or 1 as _Bool. Which instances exist: codegen/math/ops.h.
 * An op that has rare arguments comes in parts as well: kl_math_sin_common_f32 has no branch, and
 * is right where kl_math_sin_is_rare_f32 is false. Without FMA hardware fmaf and fma are called. */
#ifndef KL_CODEGEN_MATH_MATH_H
#define KL_CODEGEN_MATH_MATH_H

#include <stdint.h>

#include "codegen/math/ops.h"

#include "codegen/math/verbs_c.h"

#include "codegen/math/all.def"

#include "codegen/math/verbs_undef.h"

#endif
