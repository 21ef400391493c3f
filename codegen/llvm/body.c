/* The instructions of a loop, for one vector of lanes. */
#include "codegen/llvm/emit.h"

enum { MAX_REPEATS = 8 }; /* nested; the verifier allows fewer */

/* A REPEAT being emitted. */
typedef struct repeat {
  LLVMBasicBlockRef head, exit, before;
  kl_ssa iteration, outer;
  uint32_t first_carry, n_carried;
} repeat;

typedef struct body {
  kl_emit *e;
  kl_lanes *lanes;
  repeat repeats[MAX_REPEATS];
  unsigned depth;
} body;

/* A value of this loop, or one that is the same for all its columns. */
kl_ssa kl_emit_value(const kl_emit *e, const kl_lanes *lanes, uint32_t id) {
  if (lanes->values[id]) return lanes->values[id];
  return lanes->width > 1 ? e->splat[id] : e->uniform[id];
}

static kl_ssa scalar_value(body *b, const kl_instr *instr) {
  kl_emit *e = b->e;
  LLVMBuilderRef builder = b->depth ? e->builder : e->pre;
  kl_ssa slot = kl_emit_const(e, instr->attr);
  if (b->depth && instr->arg[0] != 0 && instr->arg[0] != KL_NO_VALUE) {
    kl_ssa step = kl_emit_const(e, instr->arg[0]);
    slot = LLVMBuildAdd(builder, slot, LLVMBuildMul(builder, e->iteration, step, ""), "");
  } else {
    builder = e->pre;
  }
  kl_dtype dtype = (kl_dtype)instr->dtype;
  kl_ssa address = LLVMBuildGEP2(builder, e->i64, e->scalars, &slot, 1, "");
  kl_ssa value = LLVMBuildLoad2(builder, kl_emit_memory_type(e, dtype, 1), address, "");
  if (dtype == KL_BOOL) value = LLVMBuildICmp(builder, LLVMIntNE, value, LLVMConstNull(e->i8), "");
  return kl_emit_splat(builder, value, b->lanes->width);
}

static kl_ssa index_value(body *b, const kl_instr *instr) {
  kl_emit *e = b->e;
  kl_lanes *lanes = b->lanes;
  kl_ssa at = kl_emit_splat(e->builder, lanes->coord[instr->attr], lanes->width);
  if ((int)instr->attr != lanes->axis || lanes->width == 1) return at;
  return LLVMBuildAdd(e->builder, at, kl_emit_iota(e, e->i64, lanes->width), "");
}

static void open_repeat(body *b, const kl_instr *instr, uint32_t id) {
  kl_emit *e = b->e;
  repeat *r = &b->repeats[b->depth++];
  kl_ssa count = kl_emit_int(e, instr->attr);
  r->first_carry = id + 1;
  r->n_carried = instr->arg[1];
  r->before = LLVMGetInsertBlock(e->builder);
  r->head = kl_emit_block(e, "repeat");
  r->exit = kl_emit_block(e, "repeated");
  r->outer = e->iteration;
  LLVMBasicBlockRef inner = kl_emit_block(e, "round");
  LLVMBuildBr(e->builder, r->head);
  LLVMPositionBuilderAtEnd(e->builder, r->head);
  kl_ssa zero = kl_emit_const(e, 0);
  r->iteration = e->iteration = LLVMBuildPhi(e->builder, e->i64, "");
  LLVMAddIncoming(r->iteration, &zero, &r->before, 1);
  for (uint32_t c = 0; c < r->n_carried; c++) {
    const kl_instr *carry = &e->section->instrs.data[r->first_carry + c];
    kl_ssa first = kl_emit_value(e, b->lanes, carry->arg[0]);
    kl_ssa phi = LLVMBuildPhi(e->builder, LLVMTypeOf(first), "");
    LLVMAddIncoming(phi, &first, &r->before, 1);
    b->lanes->values[r->first_carry + c] = phi;
  }
  kl_ssa more = LLVMBuildICmp(e->builder, LLVMIntSLT, r->iteration, count, "");
  LLVMBuildCondBr(e->builder, more, inner, r->exit);
  LLVMPositionBuilderAtEnd(e->builder, inner);
}

static void close_repeat(body *b, uint32_t id) {
  kl_emit *e = b->e;
  repeat *r = &b->repeats[--b->depth];
  LLVMBasicBlockRef latch = LLVMGetInsertBlock(e->builder);
  kl_ssa next = LLVMBuildAdd(e->builder, r->iteration, kl_emit_const(e, 1), "");
  LLVMAddIncoming(r->iteration, &next, &latch, 1);
  for (uint32_t c = 0; c < r->n_carried; c++) {
    const kl_instr *instr = &e->section->instrs.data[id - r->n_carried + c];
    kl_ssa value = kl_emit_value(e, b->lanes, instr->arg[0]);
    LLVMAddIncoming(b->lanes->values[instr->attr], &value, &latch, 1);
  }
  LLVMBuildBr(e->builder, r->head);
  LLVMPositionBuilderAtEnd(e->builder, r->exit);
  e->iteration = r->outer;
}

static kl_ssa elem_value(body *b, const kl_instr *instr) {
  kl_emit *e = b->e;
  kl_ssa args[3] = {NULL, NULL, NULL};
  for (unsigned i = 0; i < kl_op_table[instr->op].arity; i++)
    args[i] = kl_emit_value(e, b->lanes, instr->arg[i]);
  kl_dtype from = (kl_dtype)e->section->instrs.data[instr->arg[0]].dtype;
  return kl_emit_elem(e, instr->op, from, (kl_dtype)instr->dtype, args, b->lanes->width);
}

static void emit_instr(body *b, uint32_t id) {
  kl_emit *e = b->e;
  const kl_instr *instr = &e->section->instrs.data[id];
  kl_ssa *value = &b->lanes->values[id];
  switch (instr->op) {
    case KL_OP_LOAD:
      *value = kl_emit_load_access(e, b->lanes, instr);
      break;
    case KL_OP_STORE:
    case KL_OP_STORE_ADD:
      kl_emit_store_access(e, b->lanes, instr);
      break;
    case KL_OP_SCALAR:
      *value = scalar_value(b, instr);
      break;
    case KL_OP_INT:
      *value = kl_emit_splat(e->pre, kl_emit_int(e, instr->attr), b->lanes->width);
      break;
    case KL_OP_INDEX:
      *value = index_value(b, instr);
      break;
    case KL_OP_REPEAT:
      open_repeat(b, instr, id);
      break;
    case KL_OP_CARRY:
    case KL_OP_NEXT:
      break; /* with their REPEAT and END */
    case KL_OP_END:
      close_repeat(b, id);
      break;
    default:
      if (kl_op_is_reduce(instr->op))
        kl_fold_update(e, &e->folds[e->fold_of[id]], b->lanes,
                       kl_emit_value(e, b->lanes, instr->arg[0]));
      else
        *value = elem_value(b, instr);
  }
}

void kl_emit_body(kl_emit *e, const kl_loop *loop, kl_lanes *lanes, bool all) {
  body b = {.e = e, .lanes = lanes};
  for (uint32_t i = loop->first; i < loop->end; i++) lanes->values[i] = NULL;
  for (uint32_t i = loop->first; i < loop->end; i++)
    if (all || e->needed[i]) emit_instr(&b, i);
}

static bool is_access(const kl_instr *instr) {
  return instr->op == KL_OP_LOAD || instr->op == KL_OP_STORE || instr->op == KL_OP_STORE_ADD;
}

/* The widest type decides how many lanes fill a register. A store_add that may hit one place from
 * several lanes goes element by element. */
unsigned kl_emit_loop_width(const kl_emit *e, const kl_loop *loop, int axis) {
  size_t widest = 1;
  if (axis < 0) return 1;
  for (uint32_t i = loop->first; i < loop->end; i++) {
    const kl_instr *instr = &e->section->instrs.data[i];
    size_t nbytes = kl_dtype_size((kl_dtype)instr->dtype);
    if (is_access(instr)) {
      const kl_access *access = &e->section->accesses.data[instr->attr];
      nbytes = kl_dtype_size((kl_dtype)e->kernel->bufs.data[access->buf].dtype);
      if (instr->op == KL_OP_STORE_ADD &&
          (access->dynamic || access->stride[axis] != KL_STRIDE_ONE))
        return 1;
    } else if (kl_op_is_reduce(instr->op)) {
      nbytes = kl_dtype_size((kl_dtype)e->section->instrs.data[instr->arg[0]].dtype);
      if (e->folds[e->fold_of[i]].positions && nbytes < 4) nbytes = 4;
    } else if (instr->op == KL_OP_REPEAT || instr->op == KL_OP_END) {
      continue;
    }
    if (nbytes > widest) widest = nbytes;
  }
  unsigned width = e->target->vector_nbytes / (unsigned)widest;
  return width > KL_LANES ? KL_LANES : width;
}

bool kl_emit_is_costly(int op) {
  return (op >= KL_OP_EXP && op <= KL_OP_NDTRI) || op == KL_OP_POW || op == KL_OP_ATAN2 ||
         op == KL_OP_FMOD || op == KL_OP_REMAINDER || op == KL_OP_RANDOM || op == KL_OP_RANDOM_HIGH;
}

unsigned kl_emit_loop_weight(const kl_emit *e, const kl_loop *loop) {
  unsigned weight = 0;
  for (uint32_t i = loop->first; i < loop->end; i++) {
    int op = e->section->instrs.data[i].op;
    weight += kl_emit_is_costly(op) || op == KL_OP_REPEAT ? KL_EMIT_COSTLY : 1;
  }
  return weight;
}

/* Gathers and scatters under a mask exist for elements of 4 and 8 bytes. */
bool kl_emit_loop_maskable(const kl_emit *e, const kl_loop *loop, int axis) {
  if (!e->target->masked) return false;
  for (uint32_t i = loop->first; i < loop->end; i++) {
    const kl_instr *instr = &e->section->instrs.data[i];
    if (!is_access(instr)) continue;
    const kl_access *access = &e->section->accesses.data[instr->attr];
    size_t nbytes = kl_dtype_size((kl_dtype)e->kernel->bufs.data[access->buf].dtype);
    bool apart = access->dynamic || access->stride[axis] == KL_STRIDE_ANY ||
                 (instr->op != KL_OP_LOAD && access->stride[axis] == KL_STRIDE_ZERO);
    if (apart && nbytes < 4) return false;
  }
  return true;
}
