/* Elementwise instructions at any vector width: codegen/math through the verbs of verbs.h, and the
 * tables that find a function by operation and dtype. */
#include <stdio.h>

#include "codegen/llvm/emit.h"

#include "codegen/math/ops.h"

#include "codegen/llvm/verbs.h"

#include "codegen/math/all.def"

#include "codegen/math/verbs_undef.h"

typedef kl_ssa fn1(kl_emit *e, unsigned width, kl_ssa a);
typedef kl_ssa fn2(kl_emit *e, unsigned width, kl_ssa a, kl_ssa b);
typedef kl_ssa fn3(kl_emit *e, unsigned width, kl_ssa a, kl_ssa b, kl_ssa c);

#define ROW(OP, op, dt) [KL_OP_##OP][KL_MATH_DTYPE(dt)] = KL_MATH_FUNCTION(op, dt),
static fn1 *const unary[KL_OP_COUNT][KL_DTYPE_COUNT] = {KL_MATH_UNARY(ROW) KL_MATH_UNARY_RARE(ROW)
                                                            KL_MATH_COPY(ROW)};
static fn2 *const binary[KL_OP_COUNT][KL_DTYPE_COUNT] = {
    KL_MATH_BINARY(ROW) KL_MATH_BINARY_RARE(ROW) KL_MATH_COMPARE(ROW)};
static fn3 *const ternary[KL_OP_COUNT][KL_DTYPE_COUNT] = {KL_MATH_TERNARY(ROW) KL_MATH_SELECT(ROW)
                                                              KL_MATH_RANDOM(ROW)};
#undef ROW
#define ROW(from, to) [KL_MATH_DTYPE(from)][KL_MATH_DTYPE(to)] = kl_math_cast_##from##_##to,
static fn1 *const casts[KL_DTYPE_COUNT][KL_DTYPE_COUNT] = {KL_MATH_CAST(ROW)};
#undef ROW
#define ROW(from, to) [KL_MATH_DTYPE(from)][KL_MATH_DTYPE(to)] = kl_math_bitcast_##from##_##to,
static fn1 *const bitcasts[KL_DTYPE_COUNT][KL_DTYPE_COUNT] = {KL_MATH_BITCAST(ROW)};
#undef ROW

static kl_ssa emit_here(kl_emit *e, int op, kl_dtype key, kl_ssa *args, unsigned width) {
  if (unary[op][key]) return unary[op][key](e, width, args[0]);
  if (binary[op][key]) return binary[op][key](e, width, args[0], args[1]);
  if (ternary[op][key]) return ternary[op][key](e, width, args[0], args[1], args[2]);
  e->missing_op = op;
  return NULL;
}

/* Defines a function of the module that does the operation on vectors of this width. */
static kl_ssa define(kl_emit *e, const char *name, LLVMTypeRef type, int op, kl_dtype key,
                     unsigned width) {
  LLVMBasicBlockRef caller = LLVMGetInsertBlock(e->builder);
  kl_ssa outer = e->function, function = LLVMAddFunction(e->module, name, type);
  kl_ssa args[3] = {NULL, NULL, NULL};
  LLVMSetLinkage(function, LLVMInternalLinkage);
  kl_emit_attributes(e, function);
  e->function = function;
  LLVMPositionBuilderAtEnd(e->builder, kl_emit_block(e, "entry"));
  for (unsigned i = 0; i < kl_op_table[op].arity; i++) args[i] = LLVMGetParam(function, i);
  kl_ssa result = emit_here(e, op, key, args, width);
  if (result)
    LLVMBuildRet(e->builder, result);
  else
    LLVMBuildUnreachable(e->builder);
  e->function = outer;
  LLVMPositionBuilderAtEnd(e->builder, caller);
  return function;
}

/* In a long chain of costly operations each of them is a call, so that compile time stays linear:
 * the code generator's is not in the length of a block. */
static kl_ssa call(kl_emit *e, int op, kl_dtype key, kl_dtype to, kl_ssa *args, unsigned width) {
  unsigned n_args = kl_op_table[op].arity;
  LLVMTypeRef types[3];
  char name[64];
  for (unsigned i = 0; i < n_args; i++) types[i] = LLVMTypeOf(args[i]);
  LLVMTypeRef type = LLVMFunctionType(kl_emit_type(e, to, width), types, n_args, false);
  snprintf(name, sizeof name, "kl_%s_%s_%u", kl_op_table[op].text, kl_dtype_name(key), width);
  kl_ssa function = LLVMGetNamedFunction(e->module, name);
  if (!function) function = define(e, name, type, op, key, width);
  return LLVMBuildCall2(e->builder, type, function, args, n_args, "");
}

kl_ssa kl_emit_elem(kl_emit *e, int op, kl_dtype from, kl_dtype to, kl_ssa *args, unsigned width) {
  if (op == KL_OP_BITCAST && from == to) return args[0];
  if (op == KL_OP_CAST || op == KL_OP_BITCAST) {
    fn1 *convert = (op == KL_OP_CAST ? casts : bitcasts)[from][to];
    if (convert) return convert(e, width, args[0]);
  }
  /* A select is known by the dtype of what it selects. */
  kl_dtype key = op == KL_OP_SELECT ? to : from;
  if (e->calls && kl_emit_is_costly(op)) return call(e, op, key, to, args, width);
  kl_ssa value = emit_here(e, op, key, args, width);
  return value ? value : LLVMGetPoison(kl_emit_type(e, to, width));
}
