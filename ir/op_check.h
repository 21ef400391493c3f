/* The dtype rules of ir/op.def as one check, for both verifiers. */
#ifndef KL_IR_OP_CHECK_H
#define KL_IR_OP_CHECK_H

#include "ir/op.h"

/* What is wrong with `op` giving `result` from operands of these dtypes (as many as its arity),
 * as the end of a sentence; NULL when all is well. */
const char *kl_op_dtype_fault(kl_op op, kl_dtype result, const kl_dtype *operands);

#endif
