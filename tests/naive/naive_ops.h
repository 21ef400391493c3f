/* One element of every primitive: the scalar side of the naive evaluator.
 *
 * It calls the scalar functions of codegen/math/math.h, which MPFR alone judges, and nothing else
 * of the library. */
#ifndef TESTS_NAIVE_OPS_H
#define TESTS_NAIVE_OPS_H

#include "ir/op.h"

/* The value of an elementwise op on scalars; `from` is the dtype of operand 0, `to` the result's.
 * *known becomes false for a pair of op and dtype that no table of math.h has. */
kl_scalar naive_apply(kl_op op, kl_dtype from, kl_dtype to, const kl_scalar *args, bool *known);

/* Element `at` of an array of a dtype; unused high bytes are 0. */
kl_scalar naive_load(kl_dtype dtype, const void *bytes, int64_t at);
void naive_store(kl_dtype dtype, void *bytes, int64_t at, kl_scalar value);

/* Whether two elements are the same bits, all NaNs counting as one value. */
bool naive_same(kl_dtype dtype, kl_scalar a, kl_scalar b);
bool naive_is_nan(kl_dtype dtype, kl_scalar value);

/* Where a fold starts: the value that changes nothing. */
kl_scalar naive_fold_start(kl_op op, kl_dtype dtype);
/* One step of a fold that has a value a step: all but argmax and argmin. */
kl_scalar naive_fold(kl_op op, kl_dtype dtype, kl_scalar a, kl_scalar b);

#endif
