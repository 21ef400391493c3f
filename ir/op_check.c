/* Dtype rules of primitives: classes and results from ir/op.def, and its exceptions by name. */
#include "ir/op_check.h"

/* f16 and bf16 are moved and converted; arithmetic on them is done in f32. */
static bool moves_only(kl_op op) {
  switch (op) {
    case KL_OP_COPY:
    case KL_OP_CAST:
    case KL_OP_BITCAST:
    case KL_OP_SELECT:
    case KL_OP_STORE:
    case KL_OP_GATHER:
    case KL_OP_WRITE_VIEW:
    case KL_OP_SCATTER:
      return true;
    default:
      return false;
  }
}

/* Operand `a` > 0, given operands 0 and 1. */
static bool operand_fits(kl_op op, int a, const kl_dtype *operands) {
  switch (op) {
    case KL_OP_SELECT:
      return operands[a] == operands[1];
    case KL_OP_GATHER:
      return operands[a] == KL_I64;
    case KL_OP_SCATTER:
    case KL_OP_SCATTER_ADD:
      return operands[a] == (a == 2 ? KL_I64 : operands[0]);
    default:
      return operands[a] == operands[0];
  }
}

static bool result_fits(kl_op op, kl_dtype result, const kl_dtype *operands) {
  switch (kl_op_table[op].result) {
    case KL_RESULT_SAME:
      return result == operands[0];
    case KL_RESULT_SECOND:
      return result == operands[1];
    case KL_RESULT_BOOL:
      return result == KL_BOOL;
    case KL_RESULT_I64:
      return result == KL_I64;
    case KL_RESULT_I32:
      return result == KL_I32;
    default:
      return true;
  }
}

const char *kl_op_dtype_fault(kl_op op, kl_dtype result, const kl_dtype *operands) {
  int arity = kl_op_table[op].arity;
  if (arity > 0) {
    bool is_half = operands[0] == KL_F16 || operands[0] == KL_BF16;
    if (!kl_op_takes(op, operands[0]) || (is_half && !moves_only(op)))
      return "it does not take operands of this dtype";
    if ((op == KL_OP_RANDOM || op == KL_OP_RANDOM_HIGH) && operands[0] != KL_I64)
      return "its operands must be i64";
  }
  for (int a = 1; a < arity; a++)
    if (!operand_fits(op, a, operands)) return "the dtypes of its operands do not go together";
  if (op == KL_OP_BITCAST && kl_dtype_size(operands[0]) != kl_dtype_size(result))
    return "the sizes of its dtypes differ";
  /* A bool is a byte of 0 or 1, which other dtypes do not promise. */
  if (op == KL_OP_BITCAST && result == KL_BOOL && operands[0] != KL_BOOL)
    return "it makes a bool of bytes that may be neither 0 nor 1";
  if (!result_fits(op, result, operands))
    return "the dtype of the result does not follow from the operation";
  return NULL;
}
