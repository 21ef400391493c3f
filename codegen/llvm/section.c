/* One section of a kernel as one function: a switch over its phases, each a nest of loops (nest.h).
 */
#include <string.h>

#include "codegen/llvm/nest.h"

/* Offsets of the fields of kl_kernel_args, all of them pointers. */
enum { ARG_BUFS, ARG_INTS, ARG_SCALARS, ARG_FRAME, ARG_PARTIALS };

const kl_loop *kl_emit_loop_at(const kl_emit *e, unsigned l) { return &e->section->loops.data[l]; }

kl_ssa kl_emit_add(kl_emit *e, kl_ssa a, kl_ssa b) { return LLVMBuildAdd(e->builder, a, b, ""); }

kl_ssa kl_emit_smaller(kl_emit *e, kl_ssa a, kl_ssa b) {
  kl_ssa less = LLVMBuildICmp(e->builder, LLVMIntSLT, a, b, "");
  return LLVMBuildSelect(e->builder, less, a, b, "");
}

/* The folds of a loop are neighbours: REDUCE instructions are numbered in order of appearance. */
void kl_emit_folds_of(const kl_emit *e, const kl_loop *loop, uint32_t *out_first,
                      uint32_t *out_end) {
  uint32_t first = 0;
  while (first < e->section->n_reduces && e->folds[first].instr < loop->first) first++;
  uint32_t end = first;
  while (end < e->section->n_reduces && e->folds[end].instr < loop->end) end++;
  *out_first = first;
  *out_end = end;
}

/* Marks what the loops of a phase need of ROW loops and reductions before them. A REPEAT is needed
 * whole or not at all. */
static void mark_needed(kl_emit *e, const kl_phase *phase) {
  const kl_section *section = e->section;
  memset(e->needed, 0, section->instrs.count * sizeof *e->needed);
  bool in_repeat = false;
  for (uint32_t i = section->instrs.count; i-- > 0;) {
    const kl_instr *instr = &section->instrs.data[i];
    unsigned l = e->loop_of[i];
    bool own = l >= phase->first_loop && l < phase->end_loop;
    if (instr->op == KL_OP_END && !own && section->loops.data[l].kind == KL_LOOP_ROW &&
        l < phase->end_loop)
      in_repeat = true; /* rarely in vain: a REPEAT outside COL loops */
    if (in_repeat) e->needed[i] = true;
    if (instr->op == KL_OP_REPEAT) in_repeat = false;
    if (!own && !e->needed[i]) continue;
    e->needed[i] = true;
    if (kl_op_is_reduce(instr->op) && !own) continue;
    unsigned n_args = instr->op == KL_OP_REPEAT || instr->op == KL_OP_SCALAR ||
                              instr->op == KL_OP_INT || instr->op == KL_OP_INDEX
                          ? 0
                          : 3;
    for (unsigned a = 0; a < n_args; a++)
      if (instr->arg[a] < section->instrs.count) e->needed[instr->arg[a]] = true;
  }
}

static void emit_phase(kl_emit *e, const kl_phase *phase, LLVMBasicBlockRef entry) {
  const kl_section *section = e->section;
  memset(e->int_values, 0, e->kernel->n_ints * sizeof *e->int_values);
  memset(e->buf_values, 0, e->kernel->bufs.count * sizeof *e->buf_values);
  memset(e->uniform, 0, section->instrs.count * sizeof *e->uniform);
  for (unsigned u = 0; u < KL_EMIT_UNROLL; u++)
    memset(e->unit_values[u], 0, section->instrs.count * sizeof *e->uniform);
  mark_needed(e, phase);
  LLVMPositionBuilderAtEnd(e->pre, entry);
  LLVMBasicBlockRef work = kl_emit_block(e, "work");
  LLVMPositionBuilderAtEnd(e->builder, work);
  e->n_cols = kl_emit_const(e, 1);
  for (int d = section->n_rows; d < section->n_dims; d++)
    e->n_cols =
        LLVMBuildMul(e->pre, e->n_cols, kl_emit_int(e, section->extents_at + (uint32_t)d), "");
  kl_ssa round_up = LLVMBuildAdd(e->pre, e->n_cols, kl_emit_const(e, KL_CHUNK - 1), "");
  e->n_chunks = LLVMBuildLShr(e->pre, round_up, kl_emit_const(e, 10), "");
  _Static_assert(KL_CHUNK == 1 << 10, "the shift above");
  e->rows_are_lanes = section->vector == KL_VECTOR_ROWS || section->n_dims == section->n_rows;
  if (phase->kind == KL_PHASE_COLS)
    kl_emit_cols(e, phase);
  else if (phase->kind == KL_PHASE_COMBINE)
    kl_emit_combine(e, phase);
  else if (e->rows_are_lanes)
    kl_emit_rows_as_lanes(e);
  else
    kl_emit_rows(e);
  LLVMBuildRetVoid(e->builder);
  LLVMBuildBr(e->pre, work);
}

static void *array(kl_emit *e, size_t count, size_t nbytes) {
  void *items = kl_arena_alloc(&e->arena, (count + 1) * nbytes);
  if (!items) e->failed = true;
  return items;
}

static void find_folds(kl_emit *e) {
  const kl_section *section = e->section;
  uint32_t n = 0;
  for (unsigned l = 0; l < section->loops.count; l++) {
    for (uint32_t i = kl_emit_loop_at(e, l)->first; i < kl_emit_loop_at(e, l)->end; i++) {
      const kl_instr *instr = &section->instrs.data[i];
      e->loop_of[i] = (uint16_t)l;
      e->fold_of[i] = -1;
      if (!kl_op_is_reduce(instr->op) || n == section->n_reduces) continue;
      e->fold_of[i] = (int32_t)n;
      kl_fold *fold = &e->folds[n++];
      fold->instr = i;
      fold->op = instr->op;
      fold->dtype = section->instrs.data[instr->arg[0]].dtype;
      fold->positions = instr->op == KL_OP_REDUCE_ARGMAX || instr->op == KL_OP_REDUCE_ARGMIN;
    }
  }
}

static bool allocate(kl_emit *e) {
  size_t n = e->section->instrs.count;
  e->loop_of = array(e, n, sizeof *e->loop_of);
  e->fold_of = array(e, n, sizeof *e->fold_of);
  e->folds = array(e, e->section->n_reduces, sizeof *e->folds);
  e->uniform = array(e, n, sizeof(kl_ssa));
  e->splat = array(e, n, sizeof(kl_ssa));
  e->needed = array(e, n, sizeof(bool));
  e->address = array(e, e->section->accesses.count, sizeof(kl_ssa));
  e->int_values = array(e, e->kernel->n_ints, sizeof(kl_ssa));
  e->buf_values = array(e, e->kernel->bufs.count, sizeof(kl_ssa));
  e->scope = array(e, e->kernel->bufs.count, sizeof(kl_ssa));
  e->others = array(e, e->kernel->bufs.count, sizeof(kl_ssa));
  for (unsigned u = 0; u < KL_EMIT_UNROLL; u++) e->unit_values[u] = array(e, n, sizeof(kl_ssa));
  return !e->failed;
}

/* A scope for each buffer that nothing else reaches; each is told apart from all the others. */
static void make_scopes(kl_emit *e) {
  uint32_t n = e->kernel->bufs.count;
  LLVMMetadataRef *scopes = array(e, n, sizeof *scopes), *others = array(e, n, sizeof *others);
  if (e->failed || n > 64) return; /* quadratic in what it says */
  LLVMMetadataRef domain_name = LLVMMDStringInContext2(e->context, "kernel", 6);
  LLVMMetadataRef domain = LLVMMDNodeInContext2(e->context, &domain_name, 1);
  for (uint32_t i = 0; i < n; i++) {
    char name[16] = {'b', (char)('0' + i / 10), (char)('0' + i % 10)};
    LLVMMetadataRef parts[] = {LLVMMDStringInContext2(e->context, name, 3), domain};
    scopes[i] = LLVMMDNodeInContext2(e->context, parts, 2);
  }
  for (uint32_t i = 0; i < n; i++) {
    uint32_t count = 0;
    if (!e->kernel->bufs.data[i].noalias && e->kernel->bufs.data[i].kind != KL_BUF_SCRATCH)
      continue;
    for (uint32_t j = 0; j < n; j++)
      if (j != i) others[count++] = scopes[j];
    e->scope[i] = LLVMMetadataAsValue(e->context, LLVMMDNodeInContext2(e->context, &scopes[i], 1));
    if (count)
      e->others[i] =
          LLVMMetadataAsValue(e->context, LLVMMDNodeInContext2(e->context, others, count));
  }
}

static void add_attribute(kl_emit *e, LLVMValueRef function, const char *key, const char *value) {
  LLVMAttributeRef attribute = LLVMCreateStringAttribute(e->context, key, (unsigned)strlen(key),
                                                         value, (unsigned)strlen(value));
  LLVMAddAttributeAtIndex(function, LLVMAttributeFunctionIndex, attribute);
}

void kl_emit_attributes(kl_emit *e, LLVMValueRef function) {
  add_attribute(e, function, "target-cpu", e->target->cpu);
  add_attribute(e, function, "target-features", e->target->features);
  add_attribute(e, function, "no-jump-tables", "true");
  if (e->target->vector_nbytes == 64) add_attribute(e, function, "prefer-vector-width", "512");
  unsigned nounwind = LLVMGetEnumAttributeKindForName("nounwind", 8);
  LLVMAddAttributeAtIndex(function, LLVMAttributeFunctionIndex,
                          LLVMCreateEnumAttribute(e->context, nounwind, 0));
}

static void declare(kl_emit *e, const char *symbol) {
  LLVMTypeRef params[] = {e->ptr, e->ptr, e->ptr, e->i32, e->i64, e->i64};
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(e->context), params, 6, false);
  e->function = LLVMAddFunction(e->module, symbol, type);
  kl_emit_attributes(e, e->function);
  unsigned n_costly = 0;
  for (uint32_t i = 0; i < e->section->instrs.count; i++)
    n_costly += kl_emit_is_costly(e->section->instrs.data[i].op);
  e->calls = n_costly > KL_EMIT_INLINE;
}

static kl_ssa load_arg(kl_emit *e, unsigned field) {
  kl_ssa address = kl_emit_gep(e, e->ptr, e->args, kl_emit_const(e, field));
  return LLVMBuildLoad2(e->builder, e->ptr, address, "");
}

kl_status kl_emit_section(kl_emit *e, const char *symbol) {
  if (!allocate(e)) return kl_fail_memory("compiling a kernel", e->section->instrs.count);
  find_folds(e);
  declare(e, symbol);
  make_scopes(e);
  e->allocas = kl_emit_block(e, "entry");
  LLVMBasicBlockRef dispatch = kl_emit_block(e, "dispatch");
  LLVMPositionBuilderAtEnd(e->builder, dispatch);
  e->args = LLVMGetParam(e->function, 1);
  e->scratch = LLVMGetParam(e->function, 2);
  e->begin = LLVMGetParam(e->function, 4);
  e->end = LLVMGetParam(e->function, 5);
  e->bufs = load_arg(e, ARG_BUFS);
  e->ints = load_arg(e, ARG_INTS);
  e->scalars = load_arg(e, ARG_SCALARS);
  e->frame = load_arg(e, ARG_FRAME);
  e->partials = load_arg(e, ARG_PARTIALS);
  unsigned n = e->section->phases.count;
  LLVMBasicBlockRef none = kl_emit_block(e, "none");
  kl_ssa choice = LLVMBuildSwitch(e->builder, LLVMGetParam(e->function, 3), none, n);
  LLVMPositionBuilderAtEnd(e->builder, none);
  LLVMBuildRetVoid(e->builder);
  for (unsigned p = 0; p < n; p++) {
    LLVMBasicBlockRef entry = kl_emit_block(e, "phase");
    LLVMAddCase(choice, LLVMConstInt(e->i32, p, false), entry);
    emit_phase(e, &e->section->phases.data[p], entry);
  }
  LLVMPositionBuilderAtEnd(e->builder, e->allocas);
  LLVMBuildBr(e->builder, dispatch);
  if (e->missing_op)
    return kl_fail(KL_ERR_COMPILER, "no code for the operation %s with this dtype",
                   kl_op_table[e->missing_op].text);
  return e->failed ? kl_fail_memory("compiling a kernel", e->section->instrs.count) : KL_OK;
}
