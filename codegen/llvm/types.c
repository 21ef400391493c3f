/* Types of the emitted code, and the small pieces it is made of. */
#include <string.h>

#include "codegen/llvm/emit.h"

LLVMTypeRef kl_emit_vector(LLVMTypeRef elem, unsigned width) {
  return width == 1 ? elem : LLVMVectorType(elem, width);
}

LLVMTypeRef kl_emit_memory_type(const kl_emit *e, kl_dtype dtype, unsigned width) {
  LLVMTypeRef elem = e->i64;
  switch (dtype) {
    case KL_BOOL:
    case KL_U8:
    case KL_I8:
      elem = e->i8;
      break;
    case KL_I16:
    case KL_F16:
    case KL_BF16:
      elem = e->i16;
      break;
    case KL_I32:
      elem = e->i32;
      break;
    case KL_F32:
      elem = e->f32;
      break;
    case KL_F64:
      elem = e->f64;
      break;
    default:
      break;
  }
  return kl_emit_vector(elem, width);
}

LLVMTypeRef kl_emit_type(const kl_emit *e, kl_dtype dtype, unsigned width) {
  return dtype == KL_BOOL ? kl_emit_vector(e->i1, width) : kl_emit_memory_type(e, dtype, width);
}

kl_ssa kl_emit_const(const kl_emit *e, int64_t value) {
  return LLVMConstInt(e->i64, (unsigned long long)value, true);
}

static kl_ssa const_vector(kl_ssa scalar, unsigned width) {
  if (width == 1) return scalar;
  kl_ssa elems[KL_LANES];
  for (unsigned i = 0; i < width; i++) elems[i] = scalar;
  return LLVMConstVector(elems, width);
}

kl_ssa kl_emit_const_of(const kl_emit *e, kl_dtype dtype, kl_scalar value, unsigned width) {
  LLVMTypeRef type = kl_emit_type(e, dtype, 1);
  unsigned bits = (unsigned)kl_dtype_size(dtype) * 8;
  uint64_t mask = bits == 64 ? ~UINT64_C(0) : (UINT64_C(1) << bits) - 1;
  kl_ssa scalar;
  if (dtype == KL_F32 || dtype == KL_F64) {
    /* By its bits, so that a NaN keeps its own. */
    LLVMTypeRef whole = dtype == KL_F32 ? e->i32 : e->i64;
    scalar = LLVMConstBitCast(LLVMConstInt(whole, value.bits & mask, false), type);
  } else {
    scalar = LLVMConstInt(type, value.bits & mask, false);
  }
  return const_vector(scalar, width);
}

kl_ssa kl_emit_splat(LLVMBuilderRef b, kl_ssa scalar, unsigned width) {
  if (width == 1) return scalar;
  if (LLVMIsConstant(scalar)) return const_vector(scalar, width);
  LLVMTypeRef type = LLVMVectorType(LLVMTypeOf(scalar), width);
  LLVMTypeRef i32 = LLVMInt32TypeInContext(LLVMGetTypeContext(type));
  kl_ssa first =
      LLVMBuildInsertElement(b, LLVMGetPoison(type), scalar, LLVMConstInt(i32, 0, false), "");
  return LLVMBuildShuffleVector(b, first, LLVMGetPoison(type),
                                LLVMConstNull(LLVMVectorType(i32, width)), "");
}

kl_ssa kl_emit_iota(const kl_emit *e, LLVMTypeRef elem, unsigned width) {
  (void)e;
  if (width == 1) return LLVMConstInt(elem, 0, false);
  kl_ssa elems[KL_LANES];
  for (unsigned i = 0; i < width; i++) elems[i] = LLVMConstInt(elem, i, false);
  return LLVMConstVector(elems, width);
}

kl_ssa kl_emit_to_memory(const kl_emit *e, kl_dtype dtype, kl_ssa value, unsigned width) {
  if (dtype != KL_BOOL) return value;
  return LLVMBuildZExt(e->builder, value, kl_emit_vector(e->i8, width), "");
}

kl_ssa kl_emit_from_memory(const kl_emit *e, kl_dtype dtype, kl_ssa value, unsigned width) {
  if (dtype != KL_BOOL) return value;
  kl_ssa zero = LLVMConstNull(kl_emit_vector(e->i8, width));
  return LLVMBuildICmp(e->builder, LLVMIntNE, value, zero, "");
}

kl_ssa kl_emit_alloca(const kl_emit *e, LLVMTypeRef elem, unsigned count) {
  LLVMBuilderRef b = LLVMCreateBuilderInContext(e->context);
  LLVMPositionBuilderAtEnd(b, e->allocas);
  kl_ssa memory = LLVMBuildAlloca(b, LLVMArrayType(elem, count), "");
  LLVMSetAlignment(memory, 64);
  LLVMDisposeBuilder(b);
  return memory;
}

kl_ssa kl_emit_gep(const kl_emit *e, LLVMTypeRef elem, kl_ssa base, kl_ssa index) {
  return LLVMBuildGEP2(e->builder, elem, base, &index, 1, "");
}

kl_ssa kl_emit_load(const kl_emit *e, LLVMTypeRef type, kl_ssa address, unsigned align) {
  kl_ssa value = LLVMBuildLoad2(e->builder, type, address, "");
  LLVMSetAlignment(value, align);
  return value;
}

void kl_emit_store(const kl_emit *e, kl_ssa value, kl_ssa address, unsigned align) {
  LLVMSetAlignment(LLVMBuildStore(e->builder, value, address), align);
}

kl_ssa kl_emit_intrinsic(kl_emit *e, const char *name, LLVMTypeRef *types, unsigned n_types,
                         kl_ssa *args, unsigned n_args) {
  unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
  LLVMValueRef callee = LLVMGetIntrinsicDeclaration(e->module, id, types, n_types);
  LLVMTypeRef type = LLVMIntrinsicGetType(e->context, id, types, n_types);
  return LLVMBuildCall2(e->builder, type, callee, args, n_args, "");
}

kl_ssa kl_emit_int(kl_emit *e, uint32_t slot) {
  if (!e->int_values[slot]) {
    kl_ssa index = kl_emit_const(e, slot);
    kl_ssa value =
        LLVMBuildLoad2(e->pre, e->i64, LLVMBuildGEP2(e->pre, e->i64, e->ints, &index, 1, ""), "");
    LLVMSetMetadata(value, e->kind_invariant,
                    LLVMMetadataAsValue(e->context, LLVMMDNodeInContext2(e->context, NULL, 0)));
    e->int_values[slot] = value;
  }
  return e->int_values[slot];
}

LLVMBasicBlockRef kl_emit_block(const kl_emit *e, const char *name) {
  return LLVMAppendBasicBlockInContext(e->context, e->function, name);
}
