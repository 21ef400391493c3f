/* kael/ops.h: elementwise operations.
 *
 * Operands broadcast as in PyTorch, and dtypes promote as in PyTorch: tensors with dims count
 * before 0-d ones, those before numbers. A result is a new tensor, owned by the caller; it keeps a
 * dense permuted layout of the operands. NULL: an error is stored (shapes that do not broadcast, a
 * dtype that the operation does not take, no memory), or an operand was NULL.
 *
 * The form with an underscore writes the result into self, through whatever view it is, and counts
 * one write in the storage's version. Further errors: the broadcast shape is not self's, the
 * result's dtype cannot be cast to self's, several positions of self are one element, self is a
 * leaf that requires grad while gradient mode is on.
 *
 * The forms `_scalar` and `_scalar_` take a number for the second operand. None of these functions
 * materializes, unless the mode is eager or an operand's memory is shared (kael/tensor.h).
 */
#ifndef KAEL_OPS_H
#define KAEL_OPS_H

#include "kael/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The elements with the sign turned. Result: the promoted dtype; bool is an error. */
KAEL_API kael_tensor *kael_neg(kael_tensor *self);
KAEL_API kael_status kael_neg_(kael_tensor *self);

/* Absolute values (of the least integer, itself). Result: the same dtype. */
KAEL_API kael_tensor *kael_abs(kael_tensor *self);
KAEL_API kael_status kael_abs_(kael_tensor *self);

/* e to the power of each element. Integers and bool become float32. */
KAEL_API kael_tensor *kael_exp(kael_tensor *self);
KAEL_API kael_status kael_exp_(kael_tensor *self);

/* Natural logarithm. Integers and bool become float32. */
KAEL_API kael_tensor *kael_log(kael_tensor *self);
KAEL_API kael_status kael_log_(kael_tensor *self);

/* Square root; NaN below zero. Integers and bool become float32. */
KAEL_API kael_tensor *kael_sqrt(kael_tensor *self);
KAEL_API kael_status kael_sqrt_(kael_tensor *self);

/* Hyperbolic tangent. Integers and bool become float32. */
KAEL_API kael_tensor *kael_tanh(kael_tensor *self);
KAEL_API kael_status kael_tanh_(kael_tensor *self);

/* 1 / (1 + exp(-x)). Integers and bool become float32. */
KAEL_API kael_tensor *kael_sigmoid(kael_tensor *self);
KAEL_API kael_status kael_sigmoid_(kael_tensor *self);

/* 1 / x. Integers and bool become float32. */
KAEL_API kael_tensor *kael_reciprocal(kael_tensor *self);
KAEL_API kael_status kael_reciprocal_(kael_tensor *self);

/* max(x, 0); NaN stays NaN. Result: the promoted dtype; bool is an error. */
KAEL_API kael_tensor *kael_relu(kael_tensor *self);
KAEL_API kael_status kael_relu_(kael_tensor *self);

/* x * x. Result: the promoted dtype. */
KAEL_API kael_tensor *kael_square(kael_tensor *self);
KAEL_API kael_status kael_square_(kael_tensor *self);

/* Whether the element is zero. Any dtype, result bool. In place: 0 and 1 in self's dtype. */
KAEL_API kael_tensor *kael_logical_not(kael_tensor *self);
KAEL_API kael_status kael_logical_not_(kael_tensor *self);

/* Sum; of bool operands their or. Result: the promoted dtype. */
KAEL_API kael_tensor *kael_add(kael_tensor *self, kael_tensor *other);
KAEL_API kael_tensor *kael_add_scalar(kael_tensor *self, kael_scalar other);
KAEL_API kael_status kael_add_(kael_tensor *self, kael_tensor *other);
KAEL_API kael_status kael_add_scalar_(kael_tensor *self, kael_scalar other);

/* Difference. Result: the promoted dtype; a bool operand is an error. */
KAEL_API kael_tensor *kael_sub(kael_tensor *self, kael_tensor *other);
KAEL_API kael_tensor *kael_sub_scalar(kael_tensor *self, kael_scalar other);
KAEL_API kael_status kael_sub_(kael_tensor *self, kael_tensor *other);
KAEL_API kael_status kael_sub_scalar_(kael_tensor *self, kael_scalar other);

/* Product; of bool operands their and. Result: the promoted dtype. */
KAEL_API kael_tensor *kael_mul(kael_tensor *self, kael_tensor *other);
KAEL_API kael_tensor *kael_mul_scalar(kael_tensor *self, kael_scalar other);
KAEL_API kael_status kael_mul_(kael_tensor *self, kael_tensor *other);
KAEL_API kael_status kael_mul_scalar_(kael_tensor *self, kael_scalar other);

/* True quotient. Integers and bool become float32. */
KAEL_API kael_tensor *kael_div(kael_tensor *self, kael_tensor *other);
KAEL_API kael_tensor *kael_div_scalar(kael_tensor *self, kael_scalar other);
KAEL_API kael_status kael_div_(kael_tensor *self, kael_tensor *other);
KAEL_API kael_status kael_div_scalar_(kael_tensor *self, kael_scalar other);

/* The larger one; NaN wins. Result: the promoted dtype. */
KAEL_API kael_tensor *kael_maximum(kael_tensor *self, kael_tensor *other);
KAEL_API kael_tensor *kael_maximum_scalar(kael_tensor *self, kael_scalar other);
KAEL_API kael_status kael_maximum_(kael_tensor *self, kael_tensor *other);
KAEL_API kael_status kael_maximum_scalar_(kael_tensor *self, kael_scalar other);

/* The smaller one; NaN wins. Result: the promoted dtype. */
KAEL_API kael_tensor *kael_minimum(kael_tensor *self, kael_tensor *other);
KAEL_API kael_tensor *kael_minimum_scalar(kael_tensor *self, kael_scalar other);
KAEL_API kael_status kael_minimum_(kael_tensor *self, kael_tensor *other);
KAEL_API kael_status kael_minimum_scalar_(kael_tensor *self, kael_scalar other);

/* self == other. Result: bool. In place: 0 and 1 in self's dtype. */
KAEL_API kael_tensor *kael_eq(kael_tensor *self, kael_tensor *other);
KAEL_API kael_tensor *kael_eq_scalar(kael_tensor *self, kael_scalar other);
KAEL_API kael_status kael_eq_(kael_tensor *self, kael_tensor *other);
KAEL_API kael_status kael_eq_scalar_(kael_tensor *self, kael_scalar other);

/* self != other. Result: bool. In place: 0 and 1 in self's dtype. */
KAEL_API kael_tensor *kael_ne(kael_tensor *self, kael_tensor *other);
KAEL_API kael_tensor *kael_ne_scalar(kael_tensor *self, kael_scalar other);
KAEL_API kael_status kael_ne_(kael_tensor *self, kael_tensor *other);
KAEL_API kael_status kael_ne_scalar_(kael_tensor *self, kael_scalar other);

/* self < other. Result: bool. In place: 0 and 1 in self's dtype. */
KAEL_API kael_tensor *kael_lt(kael_tensor *self, kael_tensor *other);
KAEL_API kael_tensor *kael_lt_scalar(kael_tensor *self, kael_scalar other);
KAEL_API kael_status kael_lt_(kael_tensor *self, kael_tensor *other);
KAEL_API kael_status kael_lt_scalar_(kael_tensor *self, kael_scalar other);

/* self <= other. Result: bool. In place: 0 and 1 in self's dtype. */
KAEL_API kael_tensor *kael_le(kael_tensor *self, kael_tensor *other);
KAEL_API kael_tensor *kael_le_scalar(kael_tensor *self, kael_scalar other);
KAEL_API kael_status kael_le_(kael_tensor *self, kael_tensor *other);
KAEL_API kael_status kael_le_scalar_(kael_tensor *self, kael_scalar other);

/* self > other. Result: bool. In place: 0 and 1 in self's dtype. */
KAEL_API kael_tensor *kael_gt(kael_tensor *self, kael_tensor *other);
KAEL_API kael_tensor *kael_gt_scalar(kael_tensor *self, kael_scalar other);
KAEL_API kael_status kael_gt_(kael_tensor *self, kael_tensor *other);
KAEL_API kael_status kael_gt_scalar_(kael_tensor *self, kael_scalar other);

/* self >= other. Result: bool. In place: 0 and 1 in self's dtype. */
KAEL_API kael_tensor *kael_ge(kael_tensor *self, kael_tensor *other);
KAEL_API kael_tensor *kael_ge_scalar(kael_tensor *self, kael_scalar other);
KAEL_API kael_status kael_ge_(kael_tensor *self, kael_tensor *other);
KAEL_API kael_status kael_ge_scalar_(kael_tensor *self, kael_scalar other);

/* Both are not zero. Any dtype, result bool. In place: 0 and 1 in self's dtype. */
KAEL_API kael_tensor *kael_logical_and(kael_tensor *self, kael_tensor *other);
KAEL_API kael_tensor *kael_logical_and_scalar(kael_tensor *self, kael_scalar other);
KAEL_API kael_status kael_logical_and_(kael_tensor *self, kael_tensor *other);
KAEL_API kael_status kael_logical_and_scalar_(kael_tensor *self, kael_scalar other);

/* One is not zero. Any dtype, result bool. In place: 0 and 1 in self's dtype. */
KAEL_API kael_tensor *kael_logical_or(kael_tensor *self, kael_tensor *other);
KAEL_API kael_tensor *kael_logical_or_scalar(kael_tensor *self, kael_scalar other);
KAEL_API kael_status kael_logical_or_(kael_tensor *self, kael_tensor *other);
KAEL_API kael_status kael_logical_or_scalar_(kael_tensor *self, kael_scalar other);

/* Just one is not zero. Any dtype, result bool. In place: 0 and 1 in self's dtype. */
KAEL_API kael_tensor *kael_logical_xor(kael_tensor *self, kael_tensor *other);
KAEL_API kael_tensor *kael_logical_xor_scalar(kael_tensor *self, kael_scalar other);
KAEL_API kael_status kael_logical_xor_(kael_tensor *self, kael_tensor *other);
KAEL_API kael_status kael_logical_xor_scalar_(kael_tensor *self, kael_scalar other);

/* Sine of radians. Integers and bool become float32. */
KAEL_API kael_tensor *kael_sin(kael_tensor *self);
KAEL_API kael_status kael_sin_(kael_tensor *self);

/* Cosine of radians. Integers and bool become float32. */
KAEL_API kael_tensor *kael_cos(kael_tensor *self);
KAEL_API kael_status kael_cos_(kael_tensor *self);

/* Tangent of radians. Integers and bool become float32. */
KAEL_API kael_tensor *kael_tan(kael_tensor *self);
KAEL_API kael_status kael_tan_(kael_tensor *self);

/* The error function. Integers and bool become float32. */
KAEL_API kael_tensor *kael_erf(kael_tensor *self);
KAEL_API kael_status kael_erf_(kael_tensor *self);

/* 1 / sqrt(x); NaN below zero. Integers and bool become float32. */
KAEL_API kael_tensor *kael_rsqrt(kael_tensor *self);
KAEL_API kael_status kael_rsqrt_(kael_tensor *self);

/* 2 to the power of each element. Integers and bool become float32. */
KAEL_API kael_tensor *kael_exp2(kael_tensor *self);
KAEL_API kael_status kael_exp2_(kael_tensor *self);

/* exp(x) - 1, exact near zero. Integers and bool become float32. */
KAEL_API kael_tensor *kael_expm1(kael_tensor *self);
KAEL_API kael_status kael_expm1_(kael_tensor *self);

/* Logarithm to the base 2. Integers and bool become float32. */
KAEL_API kael_tensor *kael_log2(kael_tensor *self);
KAEL_API kael_status kael_log2_(kael_tensor *self);

/* Logarithm to the base 10. Integers and bool become float32. */
KAEL_API kael_tensor *kael_log10(kael_tensor *self);
KAEL_API kael_status kael_log10_(kael_tensor *self);

/* log(1 + x), exact near zero. Integers and bool become float32. */
KAEL_API kael_tensor *kael_log1p(kael_tensor *self);
KAEL_API kael_status kael_log1p_(kael_tensor *self);

/* The largest whole number not above the element. Integers stay; bool is an error. */
KAEL_API kael_tensor *kael_floor(kael_tensor *self);
KAEL_API kael_status kael_floor_(kael_tensor *self);

/* The least whole number not below the element. Integers stay; bool is an error. */
KAEL_API kael_tensor *kael_ceil(kael_tensor *self);
KAEL_API kael_status kael_ceil_(kael_tensor *self);

/* The nearest whole number, halves to the even one. Integers stay; bool is an error. */
KAEL_API kael_tensor *kael_round(kael_tensor *self);
KAEL_API kael_status kael_round_(kael_tensor *self);

/* The next whole number toward zero. Integers stay; bool is an error. */
KAEL_API kael_tensor *kael_trunc(kael_tensor *self);
KAEL_API kael_status kael_trunc_(kael_tensor *self);

/* -1, 0 or 1, as the element's sign; 0 for NaN. Result: the same dtype. */
KAEL_API kael_tensor *kael_sign(kael_tensor *self);
KAEL_API kael_status kael_sign_(kael_tensor *self);

/* All bits turned; of bool: logical. KAEL_ERR_NOT_IMPLEMENTED for floating dtypes. */
KAEL_API kael_tensor *kael_bitwise_not(kael_tensor *self);
KAEL_API kael_status kael_bitwise_not_(kael_tensor *self);

/* The angle of the point (other, self), in [-pi, pi]. Integers and bool become float32. */
KAEL_API kael_tensor *kael_atan2(kael_tensor *self, kael_tensor *other);
KAEL_API kael_tensor *kael_atan2_scalar(kael_tensor *self, kael_scalar other);
KAEL_API kael_status kael_atan2_(kael_tensor *self, kael_tensor *other);
KAEL_API kael_status kael_atan2_scalar_(kael_tensor *self, kael_scalar other);

/* self's size with other's sign. Integers and bool become float32. */
KAEL_API kael_tensor *kael_copysign(kael_tensor *self, kael_tensor *other);
KAEL_API kael_tensor *kael_copysign_scalar(kael_tensor *self, kael_scalar other);
KAEL_API kael_status kael_copysign_(kael_tensor *self, kael_tensor *other);
KAEL_API kael_status kael_copysign_scalar_(kael_tensor *self, kael_scalar other);

/* Bits that both have; of bool: logical. KAEL_ERR_NOT_IMPLEMENTED for floating dtypes. */
KAEL_API kael_tensor *kael_bitwise_and(kael_tensor *self, kael_tensor *other);
KAEL_API kael_tensor *kael_bitwise_and_scalar(kael_tensor *self, kael_scalar other);
KAEL_API kael_status kael_bitwise_and_(kael_tensor *self, kael_tensor *other);
KAEL_API kael_status kael_bitwise_and_scalar_(kael_tensor *self, kael_scalar other);

/* Bits that one of them has; as bitwise_and. */
KAEL_API kael_tensor *kael_bitwise_or(kael_tensor *self, kael_tensor *other);
KAEL_API kael_tensor *kael_bitwise_or_scalar(kael_tensor *self, kael_scalar other);
KAEL_API kael_status kael_bitwise_or_(kael_tensor *self, kael_tensor *other);
KAEL_API kael_status kael_bitwise_or_scalar_(kael_tensor *self, kael_scalar other);

/* Bits that just one of them has; as bitwise_and. */
KAEL_API kael_tensor *kael_bitwise_xor(kael_tensor *self, kael_tensor *other);
KAEL_API kael_tensor *kael_bitwise_xor_scalar(kael_tensor *self, kael_scalar other);
KAEL_API kael_status kael_bitwise_xor_(kael_tensor *self, kael_tensor *other);
KAEL_API kael_status kael_bitwise_xor_scalar_(kael_tensor *self, kael_scalar other);

/* self's bits moved up by `other` places; 0 for a count outside [0, bits). Integers only
 * (KAEL_ERR_NOT_IMPLEMENTED). */
KAEL_API kael_tensor *kael_bitwise_left_shift(kael_tensor *self, kael_tensor *other);
KAEL_API kael_tensor *kael_bitwise_left_shift_scalar(kael_tensor *self, kael_scalar other);
KAEL_API kael_status kael_bitwise_left_shift_(kael_tensor *self, kael_tensor *other);
KAEL_API kael_status kael_bitwise_left_shift_scalar_(kael_tensor *self, kael_scalar other);

/* self's bits moved down by `other` places, the sign kept; a count outside [0, bits) leaves the
 * sign alone. Integers only (KAEL_ERR_NOT_IMPLEMENTED). */
KAEL_API kael_tensor *kael_bitwise_right_shift(kael_tensor *self, kael_tensor *other);
KAEL_API kael_tensor *kael_bitwise_right_shift_scalar(kael_tensor *self, kael_scalar other);
KAEL_API kael_status kael_bitwise_right_shift_(kael_tensor *self, kael_tensor *other);
KAEL_API kael_status kael_bitwise_right_shift_scalar_(kael_tensor *self, kael_scalar other);

/* self - floor(self / other) * other: the sign is other's. Result: the promoted dtype, not bool.
 * KAEL_ERR_RUNTIME for integers where other has a zero, which is looked for at the call (other is
 * computed there). */
KAEL_API kael_tensor *kael_remainder(kael_tensor *self, kael_tensor *other);
KAEL_API kael_tensor *kael_remainder_scalar(kael_tensor *self, kael_scalar other);
KAEL_API kael_status kael_remainder_(kael_tensor *self, kael_tensor *other);
KAEL_API kael_status kael_remainder_scalar_(kael_tensor *self, kael_scalar other);

/* self - trunc(self / other) * other: the sign is self's. As remainder. */
KAEL_API kael_tensor *kael_fmod(kael_tensor *self, kael_tensor *other);
KAEL_API kael_tensor *kael_fmod_scalar(kael_tensor *self, kael_scalar other);
KAEL_API kael_status kael_fmod_(kael_tensor *self, kael_tensor *other);
KAEL_API kael_status kael_fmod_scalar_(kael_tensor *self, kael_scalar other);

/* The quotient rounded down. As remainder; it has no gradient. */
KAEL_API kael_tensor *kael_floor_divide(kael_tensor *self, kael_tensor *other);
KAEL_API kael_tensor *kael_floor_divide_scalar(kael_tensor *self, kael_scalar other);
KAEL_API kael_status kael_floor_divide_(kael_tensor *self, kael_tensor *other);
KAEL_API kael_status kael_floor_divide_scalar_(kael_tensor *self, kael_scalar other);

/* The larger, the smaller one; NaN only where both are. Result: the promoted dtype. */
KAEL_API kael_tensor *kael_fmax(kael_tensor *self, kael_tensor *other);
KAEL_API kael_tensor *kael_fmin(kael_tensor *self, kael_tensor *other);

/* min(max(x, min), max); NaN stays NaN. A bound that is NULL is absent; one must be there
 * (KAEL_ERR_VALUE). Result: the dtype promoted with the bounds, not bool. */
KAEL_API kael_tensor *kael_clamp(kael_tensor *self, const kael_scalar *min, const kael_scalar *max);
KAEL_API kael_status kael_clamp_(kael_tensor *self, const kael_scalar *min, const kael_scalar *max);
/* The same with tensors as bounds, which broadcast; KAEL_NONE is absent. */
KAEL_API kael_tensor *kael_clamp_tensor(kael_tensor *self, kael_tensor *min, kael_tensor *max);
KAEL_API kael_status kael_clamp_tensor_(kael_tensor *self, kael_tensor *min, kael_tensor *max);

/* Whether the element is NaN, is infinite, is neither. Any dtype, result bool. */
KAEL_API kael_tensor *kael_isnan(kael_tensor *self);
KAEL_API kael_tensor *kael_isinf(kael_tensor *self);
KAEL_API kael_tensor *kael_isfinite(kael_tensor *self);

/* self + weight (end - self), computed from the nearer end. Equal floating dtypes
 * (KAEL_ERR_RUNTIME). */
KAEL_API kael_tensor *kael_lerp(kael_tensor *self, kael_tensor *end, kael_scalar weight);
KAEL_API kael_status kael_lerp_(kael_tensor *self, kael_tensor *end, kael_scalar weight);
KAEL_API kael_tensor *kael_lerp_tensor(kael_tensor *self, kael_tensor *end, kael_tensor *weight);
KAEL_API kael_status kael_lerp_tensor_(kael_tensor *self, kael_tensor *end, kael_tensor *weight);

/* self + value tensor1 tensor2, and self + value tensor1 / tensor2 (floating: KAEL_ERR_RUNTIME for
 * two integer operands). Result: the promoted dtype, not bool. */
KAEL_API kael_tensor *kael_addcmul(kael_tensor *self, kael_tensor *tensor1, kael_tensor *tensor2,
                                   kael_scalar value);
KAEL_API kael_status kael_addcmul_(kael_tensor *self, kael_tensor *tensor1, kael_tensor *tensor2,
                                   kael_scalar value);
KAEL_API kael_tensor *kael_addcdiv(kael_tensor *self, kael_tensor *tensor1, kael_tensor *tensor2,
                                   kael_scalar value);
KAEL_API kael_status kael_addcdiv_(kael_tensor *self, kael_tensor *tensor1, kael_tensor *tensor2,
                                   kael_scalar value);

/* x times the normal distribution function of x, by erf or by its approximation with tanh
 * (Hendrycks and Gimpel, 2016). Floating dtypes only. */
KAEL_API kael_tensor *kael_gelu(kael_tensor *self, bool approximate_tanh);
/* x sigmoid(x), computed as x / (1 + exp(-x)). Floating dtypes only. */
KAEL_API kael_tensor *kael_silu(kael_tensor *self);
KAEL_API kael_status kael_silu_(kael_tensor *self);

/* self to the power of a number. Result: the promoted dtype. KAEL_ERR_RUNTIME for an integer tensor
 * and a negative integer exponent. The exponents 0.5, 1, 2, 3, -1 and -2 are computed as sqrt, x,
 * x*x, x*x*x, 1/x and 1/(x*x), as PyTorch does. */
KAEL_API kael_tensor *kael_pow(kael_tensor *self, kael_scalar exponent);
KAEL_API kael_status kael_pow_(kael_tensor *self, kael_scalar exponent);

/* condition ? self : other, all three broadcast. `condition` is bool or uint8. Result: the promoted
 * dtype of self and other. */
KAEL_API kael_tensor *kael_where(kael_tensor *condition, kael_tensor *self, kael_tensor *other);

/* `value` where the bool tensor `mask` holds, else self; both broadcast. Result: self's dtype,
 * contiguous. KAEL_ERR_RUNTIME for a value that self's dtype cannot hold. In place the mask must
 * broadcast to self's shape; self may be expanded: an element is written where the mask holds at
 * any of its positions. */
KAEL_API kael_tensor *kael_masked_fill(kael_tensor *self, kael_tensor *mask, kael_scalar value);
KAEL_API kael_status kael_masked_fill_(kael_tensor *self, kael_tensor *mask, kael_scalar value);

/* The elements in another dtype: floats to integers saturate, NaN gives 0, anything not zero is
 * true. Where the dtype is the same already, a second reference to self. */
KAEL_API kael_tensor *kael_to_dtype(kael_tensor *self, kael_dtype dtype);

/* Writes one number to every element. KAEL_ERR_RUNTIME where the dtype cannot hold it. */
KAEL_API kael_status kael_fill_(kael_tensor *self, kael_scalar value);
/* Writes zero to every element. */
KAEL_API kael_status kael_zero_(kael_tensor *self);
/* Writes src's elements, cast to self's dtype; src broadcasts to self's shape and may overlap it.
 */
KAEL_API kael_status kael_copy_(kael_tensor *self, kael_tensor *src);

#ifdef __cplusplus
}
#endif
#endif
