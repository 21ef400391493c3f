/* Addresses, loads and stores: by vectors where neighbours lie side by side, one element for all
 * where they coincide, gathers and scatters elsewhere. */
#include "codegen/llvm/emit.h"

#include "ir/launch.h"

/* How the lanes of an access lie in memory. */
typedef struct place {
  kl_dtype dtype;
  LLVMTypeRef elem;
  unsigned align;
  uint8_t stride; /* class along the axis */
  kl_ssa base;    /* pointer of lane 0 where `offsets` is NULL, else of the offsets */
  kl_ssa offsets; /* <width x i64>, in elements; NULL where the lanes are side by side or one */
} place;

static kl_ssa scratch_address(kl_emit *e, uint32_t buf) {
  /* Scratch buffers stand in the order of kernel bufs: kl_scratch_nbytes, as code. */
  kl_ssa offset = kl_emit_const(e, 0);
  kl_ssa block = kl_emit_const(e, KL_CHUNK);
  kl_ssa more = LLVMBuildICmp(e->pre, LLVMIntSGT, e->n_cols, block, "");
  kl_ssa n = LLVMBuildSelect(e->pre, more, e->n_cols, block, "");
  for (uint32_t i = 0; i < buf; i++) {
    const kl_kernel_buf *other = &e->kernel->bufs.data[i];
    if (other->kind != KL_BUF_SCRATCH) continue;
    kl_ssa size = kl_emit_const(e, (int64_t)kl_dtype_size((kl_dtype)other->dtype));
    kl_ssa bytes = LLVMBuildMul(e->pre, n, size, "");
    bytes = LLVMBuildAdd(e->pre, bytes, kl_emit_const(e, 63), "");
    bytes = LLVMBuildAnd(e->pre, bytes, kl_emit_const(e, ~INT64_C(63)), "");
    offset = LLVMBuildAdd(e->pre, offset, bytes, "");
  }
  return LLVMBuildGEP2(e->pre, e->i8, e->scratch, &offset, 1, "");
}

static kl_ssa buf_address(kl_emit *e, uint32_t buf) {
  if (e->buf_values[buf]) return e->buf_values[buf];
  if (e->kernel->bufs.data[buf].kind == KL_BUF_SCRATCH)
    return e->buf_values[buf] = scratch_address(e, buf);
  kl_ssa index = kl_emit_const(e, buf);
  kl_ssa slot = LLVMBuildGEP2(e->pre, e->ptr, e->bufs, &index, 1, "");
  return e->buf_values[buf] = LLVMBuildLoad2(e->pre, e->ptr, slot, "");
}

static kl_ssa stride_value(kl_emit *e, const kl_access *access, int dim) {
  if (access->stride[dim] == KL_STRIDE_ZERO) return kl_emit_const(e, 0);
  if (access->stride[dim] == KL_STRIDE_ONE) return kl_emit_const(e, 1);
  return kl_emit_int(e, access->ints_at + 1 + (uint32_t)dim);
}

static kl_ssa address_of(kl_emit *e, const kl_access *access, const kl_ssa *coord, int axis) {
  kl_ssa offset = kl_emit_int(e, access->ints_at);
  for (int d = 0; d < e->section->n_dims; d++) {
    if (d == axis || !coord[d] || access->stride[d] == KL_STRIDE_ZERO) continue;
    kl_ssa term = coord[d];
    if (access->stride[d] == KL_STRIDE_ANY)
      term = LLVMBuildMul(e->builder, term, stride_value(e, access, d), "");
    offset = LLVMBuildAdd(e->builder, offset, term, "");
  }
  kl_dtype dtype = (kl_dtype)e->kernel->bufs.data[access->buf].dtype;
  return kl_emit_gep(e, kl_emit_memory_type(e, dtype, 1), buf_address(e, access->buf), offset);
}

static bool has_access(const kl_instr *instr) {
  return instr->op == KL_OP_LOAD || instr->op == KL_OP_STORE || instr->op == KL_OP_STORE_ADD;
}

void kl_emit_addresses(kl_emit *e, const kl_loop *loop, const kl_ssa *coord, int axis) {
  for (uint32_t i = loop->first; i < loop->end; i++) {
    const kl_instr *instr = &e->section->instrs.data[i];
    if (!has_access(instr)) continue;
    e->address[instr->attr] = address_of(e, &e->section->accesses.data[instr->attr], coord, axis);
  }
}

kl_ssa kl_emit_mask(const kl_emit *e, unsigned width, kl_ssa count) {
  kl_ssa n = LLVMBuildTrunc(e->builder, count, e->i32, "");
  return LLVMBuildICmp(e->builder, LLVMIntSLT, kl_emit_iota(e, e->i32, width),
                       kl_emit_splat(e->builder, n, width), "");
}

/* `index` is the dynamic index or KL_NO_VALUE. One that is the same for all lanes only moves the
 * base, so that a row gathered by number is still read by vectors. */
static place place_of(kl_emit *e, const kl_lanes *lanes, uint32_t access_id, uint32_t index) {
  LLVMBuilderRef b = e->builder;
  const kl_access *access = &e->section->accesses.data[access_id];
  place at = {.dtype = (kl_dtype)e->kernel->bufs.data[access->buf].dtype,
              .stride = KL_STRIDE_ZERO,
              .base = e->address[access_id]};
  at.elem = kl_emit_memory_type(e, at.dtype, 1);
  at.align = (unsigned)kl_dtype_size(at.dtype);
  kl_ssa dynamic = NULL;
  if (access->dynamic && index != KL_NO_VALUE) {
    kl_ssa step = kl_emit_int(e, access->ints_at + 1 + e->section->n_dims);
    bool uniform = lanes->width == 1 || (!e->rows_are_lanes && e->uniform[index]);
    kl_ssa value = uniform && e->uniform[index] && !e->rows_are_lanes
                       ? e->uniform[index]
                       : kl_emit_value(e, lanes, index);
    if (uniform)
      at.base = kl_emit_gep(e, at.elem, at.base, LLVMBuildMul(b, value, step, ""));
    else
      dynamic = LLVMBuildMul(b, value, kl_emit_splat(b, step, lanes->width), "");
  }
  if (lanes->axis < 0) return at;
  at.stride = access->stride[lanes->axis];
  kl_ssa j = lanes->coord[lanes->axis];
  if (!dynamic && at.stride == KL_STRIDE_ZERO) return at;
  if (!dynamic && at.stride == KL_STRIDE_ONE) {
    at.base = kl_emit_gep(e, at.elem, at.base, j);
    return at;
  }
  kl_ssa step = stride_value(e, access, lanes->axis);
  at.base = kl_emit_gep(e, at.elem, at.base, LLVMBuildMul(b, j, step, ""));
  if (lanes->width == 1) return at;
  kl_ssa offsets = LLVMBuildMul(b, kl_emit_iota(e, e->i64, lanes->width),
                                kl_emit_splat(b, step, lanes->width), "");
  at.offsets = dynamic ? LLVMBuildAdd(b, offsets, dynamic, "") : offsets;
  return at;
}

/* Values of a buffer that nothing else in the launch reaches. */
static void tell_alias(kl_emit *e, kl_ssa instr, uint32_t access_id) {
  uint32_t buf = e->section->accesses.data[access_id].buf;
  if (!e->scope[buf]) return;
  LLVMSetMetadata(instr, e->kind_scope, e->scope[buf]);
  if (e->others[buf]) LLVMSetMetadata(instr, e->kind_noalias, e->others[buf]);
}

static kl_ssa i32_const(const kl_emit *e, unsigned value) {
  return LLVMConstInt(e->i32, value, false);
}

static kl_ssa gather(kl_emit *e, const kl_lanes *lanes, const place *at, LLVMTypeRef type) {
  LLVMBuilderRef b = e->builder;
  if (e->target->masked && at->align >= 4) {
    LLVMTypeRef types[] = {type, LLVMVectorType(e->ptr, lanes->width)};
    kl_ssa all = LLVMConstAllOnes(LLVMVectorType(e->i1, lanes->width));
    kl_ssa args[] = {kl_emit_gep(e, at->elem, at->base, at->offsets), i32_const(e, at->align),
                     lanes->mask ? lanes->mask : all, LLVMConstNull(type)};
    return kl_emit_intrinsic(e, "llvm.masked.gather", types, 2, args, 4);
  }
  kl_ssa result = LLVMGetPoison(type);
  for (unsigned i = 0; i < lanes->width; i++) {
    kl_ssa offset = LLVMBuildExtractElement(b, at->offsets, i32_const(e, i), "");
    kl_ssa value = kl_emit_load(e, at->elem, kl_emit_gep(e, at->elem, at->base, offset), at->align);
    result = LLVMBuildInsertElement(b, result, value, i32_const(e, i), "");
  }
  return result;
}

static kl_ssa load_place(kl_emit *e, const kl_lanes *lanes, const place *at, uint32_t access_id) {
  LLVMTypeRef type = kl_emit_memory_type(e, at->dtype, lanes->width);
  kl_ssa value;
  if (at->offsets) return gather(e, lanes, at, type);
  if (at->stride == KL_STRIDE_ZERO || lanes->width == 1) {
    value = kl_emit_load(e, at->elem, at->base, at->align);
    tell_alias(e, value, access_id);
    return kl_emit_splat(e->builder, value, lanes->width);
  }
  if (lanes->mask) {
    LLVMTypeRef types[] = {type, e->ptr};
    kl_ssa args[] = {at->base, i32_const(e, at->align), lanes->mask, LLVMConstNull(type)};
    value = kl_emit_intrinsic(e, "llvm.masked.load", types, 2, args, 4);
  } else {
    value = kl_emit_load(e, type, at->base, at->align);
  }
  tell_alias(e, value, access_id);
  return value;
}

kl_ssa kl_emit_load_access(kl_emit *e, const kl_lanes *lanes, const kl_instr *instr) {
  place at = place_of(e, lanes, instr->attr, instr->arg[0]);
  kl_ssa value = load_place(e, lanes, &at, instr->attr);
  return kl_emit_from_memory(e, at.dtype, value, lanes->width);
}

/* Lanes in ascending order, so that the last write to a place stays. */
static void scatter(kl_emit *e, const kl_lanes *lanes, const place *at, kl_ssa value) {
  LLVMBuilderRef b = e->builder;
  if (e->target->masked && at->align >= 4) {
    LLVMTypeRef types[] = {LLVMTypeOf(value), LLVMVectorType(e->ptr, lanes->width)};
    kl_ssa all = LLVMConstAllOnes(LLVMVectorType(e->i1, lanes->width));
    kl_ssa args[] = {value, kl_emit_gep(e, at->elem, at->base, at->offsets),
                     i32_const(e, at->align), lanes->mask ? lanes->mask : all};
    kl_emit_intrinsic(e, "llvm.masked.scatter", types, 2, args, 4);
    return;
  }
  for (unsigned i = 0; i < lanes->width; i++) {
    kl_ssa offset = LLVMBuildExtractElement(b, at->offsets, i32_const(e, i), "");
    kl_ssa one = LLVMBuildExtractElement(b, value, i32_const(e, i), "");
    kl_emit_store(e, one, kl_emit_gep(e, at->elem, at->base, offset), at->align);
  }
}

void kl_emit_store_access(kl_emit *e, const kl_lanes *lanes, const kl_instr *instr) {
  place at = place_of(e, lanes, instr->attr, instr->arg[1]);
  kl_ssa value = kl_emit_value(e, lanes, instr->arg[0]);
  if (instr->op == KL_OP_STORE_ADD) {
    kl_ssa old =
        kl_emit_from_memory(e, at.dtype, load_place(e, lanes, &at, instr->attr), lanes->width);
    kl_ssa args[] = {old, value, NULL};
    value = kl_emit_elem(e, KL_OP_ADD, at.dtype, at.dtype, args, lanes->width);
  }
  value = kl_emit_to_memory(e, at.dtype, value, lanes->width);
  if (lanes->width > 1 && !at.offsets && at.stride == KL_STRIDE_ZERO)
    at.offsets = LLVMConstNull(LLVMVectorType(e->i64, lanes->width));
  if (at.offsets) {
    scatter(e, lanes, &at, value);
    return;
  }
  kl_ssa store;
  if (lanes->mask) {
    LLVMTypeRef types[] = {LLVMTypeOf(value), e->ptr};
    kl_ssa args[] = {value, at.base, i32_const(e, at.align), lanes->mask};
    store = kl_emit_intrinsic(e, "llvm.masked.store", types, 2, args, 4);
  } else {
    store = LLVMBuildStore(e->builder, value, at.base);
    LLVMSetAlignment(store, at.align);
  }
  tell_alias(e, store, instr->attr);
}
