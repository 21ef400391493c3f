/* The verbs that are more than one builder call (verb_functions.h). */
#include "codegen/llvm/verb_functions.h"

kl_ssa kl_verb_float(kl_emit *e, kl_dtype dtype, double value, unsigned width) {
  if (dtype == KL_F32) value = (float)value;
  return kl_emit_splat(e->builder, LLVMConstReal(kl_emit_type(e, dtype, 1), value), width);
}

kl_ssa kl_verb_int(kl_emit *e, kl_dtype dtype, uint64_t value, unsigned width) {
  if (dtype == KL_BOOL) value &= 1;
  return kl_emit_const_of(e, dtype, (kl_scalar){.bits = value}, width);
}

kl_ssa kl_verb_call(kl_emit *e, const char *name, kl_ssa a, kl_ssa b, kl_ssa c) {
  LLVMTypeRef type = LLVMTypeOf(a);
  kl_ssa args[] = {a, b, c};
  return kl_emit_intrinsic(e, name, &type, 1, args, c ? 3 : b ? 2 : 1);
}

/* The product of the low halves of i64 lanes. */
kl_ssa kl_verb_umul32(kl_emit *e, kl_ssa a, kl_ssa b, unsigned width) {
  kl_ssa low = kl_verb_int(e, KL_I64, 0xffffffff, width);
  return LLVMBuildMul(e->builder, LLVMBuildAnd(e->builder, a, low, ""),
                      LLVMBuildAnd(e->builder, b, low, ""), "");
}

/* For 64 bits by halves: no vector unit has the 128-bit product. */
kl_ssa kl_verb_umulh(kl_emit *e, kl_ssa a, kl_ssa b, unsigned bits, unsigned width) {
  LLVMBuilderRef builder = e->builder;
  if (bits == 32) {
    LLVMTypeRef wide = kl_emit_vector(e->i64, width);
    kl_ssa product = LLVMBuildMul(builder, LLVMBuildZExt(builder, a, wide, ""),
                                  LLVMBuildZExt(builder, b, wide, ""), "");
    kl_ssa high = LLVMBuildLShr(builder, product, kl_verb_int(e, KL_I64, 32, width), "");
    return LLVMBuildTrunc(builder, high, kl_emit_vector(e->i32, width), "");
  }
  kl_ssa half = kl_verb_int(e, KL_I64, 32, width);
  kl_ssa low = kl_verb_int(e, KL_I64, 0xffffffff, width);
  kl_ssa a_high = LLVMBuildLShr(builder, a, half, ""), b_high = LLVMBuildLShr(builder, b, half, "");
  kl_ssa low_low = kl_verb_umul32(e, a, b, width);
  kl_ssa high_low = kl_verb_umul32(e, a_high, b, width);
  kl_ssa low_high = kl_verb_umul32(e, a, b_high, width);
  kl_ssa carry = LLVMBuildAdd(builder, high_low, LLVMBuildLShr(builder, low_low, half, ""), "");
  kl_ssa middle = LLVMBuildAdd(builder, low_high, LLVMBuildAnd(builder, carry, low, ""), "");
  kl_ssa high = LLVMBuildAdd(builder, kl_verb_umul32(e, a_high, b_high, width),
                             LLVMBuildLShr(builder, carry, half, ""), "");
  return LLVMBuildAdd(builder, high, LLVMBuildLShr(builder, middle, half, ""), "");
}

static bool is_unsigned(kl_dtype dtype) { return dtype == KL_BOOL || dtype == KL_U8; }

kl_ssa kl_verb_resize(kl_emit *e, kl_dtype from, kl_dtype to, kl_ssa x, unsigned width) {
  LLVMTypeRef type = kl_emit_type(e, to, width);
  if (is_unsigned(from)) {
    if (LLVMTypeOf(x) == type) return x;
    return LLVMBuildZExt(e->builder, x, type, "");
  }
  return LLVMBuildIntCast2(e->builder, x, type, true, "");
}

kl_ssa kl_verb_itof(kl_emit *e, kl_dtype from, kl_dtype to, kl_ssa x, unsigned width) {
  LLVMTypeRef type = kl_emit_type(e, to, width);
  return is_unsigned(from) ? LLVMBuildUIToFP(e->builder, x, type, "")
                           : LLVMBuildSIToFP(e->builder, x, type, "");
}

/* Saturating: clamped while still a float, as far as floats go; NaN is 0. */
kl_ssa kl_verb_ftoi(kl_emit *e, kl_dtype from, kl_dtype to, kl_ssa x, unsigned width) {
  LLVMBuilderRef b = e->builder;
  unsigned bits = (unsigned)kl_dtype_size(to) * 8;
  double past = to == KL_U8 ? 256.0 : bits == 64 ? 0x1p63 : (double)(UINT64_C(1) << (bits - 1));
  double least = to == KL_U8 ? 0.0 : -past;
  double greatest = past - 1; /* as a float it may round to `past`, then it is the float below */
  int digits = from == KL_F32 ? 24 : 53;
  if ((int)bits - 1 > digits) greatest = past - (from == KL_F32 ? past * 0x1p-24 : past * 0x1p-53);
  kl_ssa low = kl_verb_float(e, from, least, width), high = kl_verb_float(e, from, greatest, width);
  kl_ssa is_number = LLVMBuildFCmp(b, LLVMRealORD, x, x, "");
  kl_ssa beyond = LLVMBuildFCmp(b, LLVMRealOGE, x, kl_verb_float(e, from, past, width), "");
  kl_ssa number = LLVMBuildSelect(b, is_number, x, kl_verb_float(e, from, 0, width), "");
  kl_ssa under = LLVMBuildFCmp(b, LLVMRealOLT, number, low, "");
  number = LLVMBuildSelect(b, under, low, number, "");
  kl_ssa over = LLVMBuildFCmp(b, LLVMRealOGT, number, high, "");
  number = LLVMBuildSelect(b, over, high, number, "");
  if (bits < 32) {
    kl_ssa whole = LLVMBuildFPToSI(b, number, kl_emit_vector(e->i32, width), "");
    return LLVMBuildTrunc(b, whole, kl_emit_type(e, to, width), "");
  }
  kl_ssa whole = LLVMBuildFPToSI(b, number, kl_emit_type(e, to, width), "");
  uint64_t largest = (UINT64_C(1) << (bits - 1)) - 1;
  return LLVMBuildSelect(b, beyond, kl_verb_int(e, to, largest, width), whole, "");
}

kl_ssa kl_verb_is_not_zero(kl_emit *e, kl_dtype from, kl_ssa x) {
  kl_ssa zero = LLVMConstNull(LLVMTypeOf(x));
  if (from == KL_BOOL) return x;
  if (kl_dtype_is_float(from)) return LLVMBuildFCmp(e->builder, LLVMRealUNE, x, zero, "");
  return LLVMBuildICmp(e->builder, LLVMIntNE, x, zero, "");
}

kl_ssa kl_verb_reinterpret(kl_emit *e, kl_dtype from, kl_dtype to, kl_ssa x, unsigned width) {
  LLVMTypeRef type = kl_emit_type(e, to, width);
  if (from == KL_BOOL) return LLVMBuildZExt(e->builder, x, type, "");
  return LLVMBuildBitCast(e->builder, x, type, "");
}

void kl_rare_begin(kl_emit *e, kl_rare *rare, kl_ssa mask, kl_ssa common, unsigned width) {
  LLVMBuilderRef b = e->builder;
  kl_ssa any = mask;
  if (width > 1) {
    LLVMTypeRef bits = LLVMIntTypeInContext(e->context, width);
    any = LLVMBuildBitCast(b, mask, bits, "");
    any = LLVMBuildICmp(b, LLVMIntNE, any, LLVMConstNull(bits), "");
  }
  rare->mask = mask;
  rare->common = common;
  rare->before = LLVMGetInsertBlock(b);
  rare->after = kl_emit_block(e, "common");
  LLVMBasicBlockRef block = kl_emit_block(e, "rare");
  LLVMBuildCondBr(b, any, block, rare->after);
  LLVMPositionBuilderAtEnd(b, block);
}

kl_ssa kl_rare_end(kl_emit *e, kl_rare *rare, kl_ssa rare_value) {
  LLVMBuilderRef b = e->builder;
  kl_ssa mixed = LLVMBuildSelect(b, rare->mask, rare_value, rare->common, "");
  LLVMBasicBlockRef from = LLVMGetInsertBlock(b);
  LLVMBuildBr(b, rare->after);
  LLVMPositionBuilderAtEnd(b, rare->after);
  kl_ssa result = LLVMBuildPhi(b, LLVMTypeOf(mixed), "");
  LLVMAddIncoming(result, &rare->common, &rare->before, 1);
  LLVMAddIncoming(result, &mixed, &from, 1);
  return result;
}
