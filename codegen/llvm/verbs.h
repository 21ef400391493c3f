/* The verbs of codegen/math as LLVM builder calls: what verbs_c.h is for C.
 *
 * A math function becomes a C function that emits it: its values are SSA values of kl_w_ lanes, and
 * kl_e_ is where they go. V is a float, I an integer of the same width, M an i1. Constants are
 * folded by the builder, repeated subexpressions by the code generator.
 */
#include "codegen/llvm/verb_functions.h"

#define KL_PASTE_(a, b) a##b
#define KL_PASTE(a, b) KL_PASTE_(a, b)
#define KL_D_b8 KL_BOOL
#define KL_D_u8 KL_U8
#define KL_D_i8 KL_I8
#define KL_D_i16 KL_I16
#define KL_D_i32 KL_I32
#define KL_D_i64 KL_I64
#define KL_D_f16 KL_F16
#define KL_D_bf16 KL_BF16
#define KL_D_f32 KL_F32
#define KL_D_f64 KL_F64
#define KL_D(dt) KL_PASTE(KL_D_, dt)
/* The dtype of an I: that of a float's bits, or the integer dtype itself. */
#define KL_DI_b8 KL_BOOL
#define KL_DI_u8 KL_U8
#define KL_DI_i8 KL_I8
#define KL_DI_i16 KL_I16
#define KL_DI_i32 KL_I32
#define KL_DI_i64 KL_I64
#define KL_DI_f32 KL_I32
#define KL_DI_f64 KL_I64
#define KL_DI KL_PASTE(KL_DI_, KL_DT)

#define KL_FN_NAME(op) KL_PASTE(kl_math_##op##_, KL_DT)
#define KL_CAST_NAME(from, to) KL_PASTE(KL_PASTE(kl_math_cast_, from), KL_PASTE(_, to))
#define KL_BITCAST_NAME(from, to) KL_PASTE(KL_PASTE(kl_math_bitcast_, from), KL_PASTE(_, to))
#define KL_VERB_FN static __attribute__((unused)) kl_ssa
#define KL_CONTEXT kl_emit *kl_e_, unsigned kl_w_
#define KL_BEGIN                                                                                   \
  {                                                                                                \
    (void)kl_e_, (void)kl_w_;

/* functions */
#define FN1(op, x) KL_VERB_FN KL_FN_NAME(op)(KL_CONTEXT, kl_ssa x) KL_BEGIN
#define FN2(op, x, y) KL_VERB_FN KL_FN_NAME(op)(KL_CONTEXT, kl_ssa x, kl_ssa y) KL_BEGIN
#define FN3(op, x, y, z)                                                                           \
  KL_VERB_FN KL_FN_NAME(op)(KL_CONTEXT, kl_ssa x, kl_ssa y, kl_ssa z) KL_BEGIN
#define PRED1(op, x) FN1(op, x)
#define PRED2(op, x, y) FN2(op, x, y)
#define FN_COPY(x) FN1(copy, x)
#define FN_SELECT(c, x, y) FN3(select, c, x, y)
#define FN_CAST(from, to, x) KL_VERB_FN KL_CAST_NAME(from, to)(KL_CONTEXT, kl_ssa x) KL_BEGIN
#define FN_BITCAST(from, to, x) KL_VERB_FN KL_BITCAST_NAME(from, to)(KL_CONTEXT, kl_ssa x) KL_BEGIN
#define FN_RANDOM(op, i, c, s) FN3(op, i, c, s)
#define RETURN(x) return x;
#define END }
#define CALL1(op, x) KL_FN_NAME(op)(kl_e_, kl_w_, x)
#define CALL2(op, x, y) KL_FN_NAME(op)(kl_e_, kl_w_, x, y)
#define CAST(from, to, x) KL_CAST_NAME(from, to)(kl_e_, kl_w_, x)
#define RARE1(op)                                                                                  \
  FN1(op, x)                                                                                       \
    kl_rare kl_r_;                                                                                 \
    kl_rare_begin(kl_e_, &kl_r_, CALL1(op##_is_rare, x), CALL1(op##_common, x), kl_w_);            \
    return kl_rare_end(kl_e_, &kl_r_, CALL1(op##_rare, x));                                        \
  END
#define RARE2(op)                                                                                  \
  FN2(op, x, y)                                                                                    \
    kl_rare kl_r_;                                                                                 \
    kl_rare_begin(kl_e_, &kl_r_, CALL2(op##_is_rare, x, y), CALL2(op##_common, x, y), kl_w_);      \
    return kl_rare_end(kl_e_, &kl_r_, CALL2(op##_rare, x, y));                                     \
  END

/* names */
#define V(name) const kl_ssa name
#define I(name) const kl_ssa name
#define M(name) const kl_ssa name
#define V_MUT(name) kl_ssa name
#define I_MUT(name) kl_ssa name
#define SET(name) name
#define LOOP(i, n) for (int i = 0; i < (n); i++) {
#define ENDLOOP }

/* floats */
#define KL_B kl_e_->builder
#define C(k) kl_verb_float(kl_e_, KL_D(KL_DT), (double)(k), kl_w_)
#define ADD(a, b) LLVMBuildFAdd(KL_B, a, b, "")
#define SUB(a, b) LLVMBuildFSub(KL_B, a, b, "")
#define MUL(a, b) LLVMBuildFMul(KL_B, a, b, "")
#define DIV(a, b) LLVMBuildFDiv(KL_B, a, b, "")
#define NEG(a) LLVMBuildFNeg(KL_B, a, "")
#define SEL(m, a, b) LLVMBuildSelect(KL_B, m, a, b, "")
#define EQ(a, b) LLVMBuildFCmp(KL_B, LLVMRealOEQ, a, b, "")
#define NE(a, b) LLVMBuildFCmp(KL_B, LLVMRealUNE, a, b, "")
#define LT(a, b) LLVMBuildFCmp(KL_B, LLVMRealOLT, a, b, "")
#define LE(a, b) LLVMBuildFCmp(KL_B, LLVMRealOLE, a, b, "")
#define GT(a, b) LLVMBuildFCmp(KL_B, LLVMRealOGT, a, b, "")
#define GE(a, b) LLVMBuildFCmp(KL_B, LLVMRealOGE, a, b, "")
#define FMA(a, b, c) kl_verb_call(kl_e_, "llvm.fma", a, b, c)
#define SQRT(a) kl_verb_call(kl_e_, "llvm.sqrt", a, NULL, NULL)
#define FLOOR(a) kl_verb_call(kl_e_, "llvm.floor", a, NULL, NULL)
#define CEIL(a) kl_verb_call(kl_e_, "llvm.ceil", a, NULL, NULL)
#define TRUNC(a) kl_verb_call(kl_e_, "llvm.trunc", a, NULL, NULL)
#define RINT(a) kl_verb_call(kl_e_, "llvm.rint", a, NULL, NULL)
#define ABS(a) kl_verb_call(kl_e_, "llvm.fabs", a, NULL, NULL)
#define COPYSIGN(a, b) kl_verb_call(kl_e_, "llvm.copysign", a, b, NULL)
#define BITS(a) LLVMBuildBitCast(KL_B, a, kl_emit_type(kl_e_, KL_DI, kl_w_), "")
#define FLOAT(i) LLVMBuildBitCast(KL_B, i, kl_emit_type(kl_e_, KL_D(KL_DT), kl_w_), "")

/* integers */
#define IC(k) kl_verb_int(kl_e_, KL_DI, (uint64_t)(k), kl_w_)
#define IADD(a, b) LLVMBuildAdd(KL_B, a, b, "")
#define ISUB(a, b) LLVMBuildSub(KL_B, a, b, "")
#define IMUL(a, b) LLVMBuildMul(KL_B, a, b, "")
#define IAND(a, b) LLVMBuildAnd(KL_B, a, b, "")
#define IOR(a, b) LLVMBuildOr(KL_B, a, b, "")
#define IXOR(a, b) LLVMBuildXor(KL_B, a, b, "")
#define ISHL(a, n) LLVMBuildShl(KL_B, a, n, "")
#define ISHR(a, n) (KL_SIGNED ? LLVMBuildAShr : LLVMBuildLShr)(KL_B, a, n, "")
#define USHR(a, n) LLVMBuildLShr(KL_B, a, n, "")
#define IDIV(a, b) (KL_SIGNED ? LLVMBuildSDiv : LLVMBuildUDiv)(KL_B, a, b, "")
#define IREM(a, b) (KL_SIGNED ? LLVMBuildSRem : LLVMBuildURem)(KL_B, a, b, "")
#define UMULH(a, b) kl_verb_umulh(kl_e_, a, b, KL_W, kl_w_)
#define UMUL32(a, b) kl_verb_umul32(kl_e_, a, b, kl_w_)
#define KL_ICMP(s, u, a, b) LLVMBuildICmp(KL_B, KL_SIGNED ? s : u, a, b, "")
#define IEQ(a, b) LLVMBuildICmp(KL_B, LLVMIntEQ, a, b, "")
#define INE(a, b) LLVMBuildICmp(KL_B, LLVMIntNE, a, b, "")
#define ILT(a, b) KL_ICMP(LLVMIntSLT, LLVMIntULT, a, b)
#define ILE(a, b) KL_ICMP(LLVMIntSLE, LLVMIntULE, a, b)
#define IGT(a, b) KL_ICMP(LLVMIntSGT, LLVMIntUGT, a, b)
#define IGE(a, b) KL_ICMP(LLVMIntSGE, LLVMIntUGE, a, b)
#define ULT(a, b) LLVMBuildICmp(KL_B, LLVMIntULT, a, b, "")
#define ISEL(m, a, b) LLVMBuildSelect(KL_B, m, a, b, "")

/* masks */
#define MAND(a, b) LLVMBuildAnd(KL_B, a, b, "")
#define MOR(a, b) LLVMBuildOr(KL_B, a, b, "")
#define MXOR(a, b) LLVMBuildXor(KL_B, a, b, "")
#define MNOT(a) LLVMBuildNot(KL_B, a, "")

/* conversions between dtypes */
#define RESIZE(from, to, x) kl_verb_resize(kl_e_, KL_D(from), KL_D(to), x, kl_w_)
#define ITOF(from, to, x) kl_verb_itof(kl_e_, KL_D(from), KL_D(to), x, kl_w_)
#define FTOF(from, to, x) LLVMBuildFPCast(KL_B, x, kl_emit_type(kl_e_, KL_D(to), kl_w_), "")
#define FTOI(from, to, x) kl_verb_ftoi(kl_e_, KL_D(from), KL_D(to), x, kl_w_)
#define IS_NOT_ZERO(from, to, x) kl_verb_is_not_zero(kl_e_, KL_D(from), x)
#define REINTERPRET(from, to, x) kl_verb_reinterpret(kl_e_, KL_D(from), KL_D(to), x, kl_w_)
#define SELECT_ANY(c, x, y) LLVMBuildSelect(KL_B, c, x, y, "")
#define FROM_16(x) LLVMBuildZExt(KL_B, x, kl_emit_type(kl_e_, KL_DI, kl_w_), "")
#define TO_16(i) LLVMBuildTrunc(KL_B, i, kl_emit_type(kl_e_, KL_I16, kl_w_), "")
