/* Reductions in the one defined order (DESIGN 6, docs/numerics.md): column k of a chunk of 1,024
 * goes to lane k mod 32; the 32 lanes are combined by halves, the chunks by a binary tree split at
 * the largest power of two.
 *
 * The tree is built as a binary counter: when chunk c is done, it is merged with one finished
 * subtree for each trailing one bit of c; what is left at the end is merged from the smallest
 * subtree up. That is the same tree, and needs one slot a level.
 */
#include "codegen/llvm/emit.h"

#include <string.h>

static LLVMTypeRef memory(const kl_emit *e, const kl_fold *fold, unsigned width) {
  return kl_emit_memory_type(e, (kl_dtype)fold->dtype, width);
}

static bool is_float(const kl_fold *fold) { return kl_dtype_is_float((kl_dtype)fold->dtype); }

static bool wants_max(const kl_fold *fold) {
  return fold->op == KL_OP_REDUCE_MAX || fold->op == KL_OP_REDUCE_ARGMAX;
}

/* The value that changes nothing: what a lane starts with. */
static kl_scalar neutral(const kl_fold *fold) {
  unsigned bits = (unsigned)kl_dtype_size((kl_dtype)fold->dtype) * 8;
  bool max = wants_max(fold), unsigned_ = fold->dtype == KL_U8 || fold->dtype == KL_BOOL;
  switch (fold->op) {
    case KL_OP_REDUCE_SUM:
    case KL_OP_REDUCE_ANY:
      return (kl_scalar){.bits = 0};
    case KL_OP_REDUCE_ALL:
      return (kl_scalar){.bits = 1};
    case KL_OP_REDUCE_PROD:
      if (fold->dtype == KL_F32) return (kl_scalar){.f32 = 1};
      if (fold->dtype == KL_F64) return (kl_scalar){.f64 = 1};
      return (kl_scalar){.bits = 1};
    default:
      break;
  }
  if (fold->dtype == KL_F32) return (kl_scalar){.f32 = max ? -__builtin_inff() : __builtin_inff()};
  if (fold->dtype == KL_F64) return (kl_scalar){.f64 = max ? -__builtin_inf() : __builtin_inf()};
  if (fold->dtype == KL_BOOL) return (kl_scalar){.bits = !max};
  if (unsigned_) return (kl_scalar){.bits = max ? 0 : ~UINT64_C(0)};
  uint64_t least = UINT64_C(1) << (bits - 1);
  return (kl_scalar){.bits = max ? least : least - 1};
}

static int elem_op(const kl_fold *fold) {
  switch (fold->op) {
    case KL_OP_REDUCE_SUM:
      return KL_OP_ADD;
    case KL_OP_REDUCE_PROD:
      return KL_OP_MUL;
    case KL_OP_REDUCE_MAX:
      return KL_OP_MAX;
    case KL_OP_REDUCE_MIN:
      return KL_OP_MIN;
    case KL_OP_REDUCE_ANY:
      return KL_OP_OR;
    default:
      return KL_OP_AND;
  }
}

/* Whether b beats a: strictly better, or a NaN where a is none. */
static kl_ssa beats(kl_emit *e, const kl_fold *fold, kl_ssa a, kl_ssa b) {
  LLVMBuilderRef builder = e->builder;
  bool max = wants_max(fold);
  if (is_float(fold)) {
    kl_ssa better = LLVMBuildFCmp(builder, max ? LLVMRealUGT : LLVMRealULT, b, a, "");
    return LLVMBuildAnd(builder, better, LLVMBuildFCmp(builder, LLVMRealORD, a, a, ""), "");
  }
  bool is_signed = fold->dtype != KL_U8 && fold->dtype != KL_BOOL;
  LLVMIntPredicate predicate =
      max ? (is_signed ? LLVMIntSGT : LLVMIntUGT) : (is_signed ? LLVMIntSLT : LLVMIntULT);
  return LLVMBuildICmp(builder, predicate, b, a, "");
}

/* Neither beats the other: equal, or both NaN. */
static kl_ssa ties(kl_emit *e, const kl_fold *fold, kl_ssa a, kl_ssa b) {
  if (!is_float(fold)) return LLVMBuildICmp(e->builder, LLVMIntEQ, a, b, "");
  kl_ssa equal = LLVMBuildFCmp(e->builder, LLVMRealOEQ, a, b, "");
  kl_ssa a_nan = LLVMBuildFCmp(e->builder, LLVMRealUNO, a, a, "");
  kl_ssa b_nan = LLVMBuildFCmp(e->builder, LLVMRealUNO, b, b, "");
  return LLVMBuildOr(e->builder, equal, LLVMBuildAnd(e->builder, a_nan, b_nan, ""), "");
}

/* (*a, *a_pos) = the two combined; the place of a tie is the smaller one. */
static void merge(kl_emit *e, const kl_fold *fold, kl_ssa *a, kl_ssa *a_pos, kl_ssa b, kl_ssa b_pos,
                  unsigned width) {
  LLVMBuilderRef builder = e->builder;
  if (!fold->positions) {
    kl_ssa args[] = {*a, b, NULL};
    *a = kl_emit_elem(e, elem_op(fold), (kl_dtype)fold->dtype, (kl_dtype)fold->dtype, args, width);
    return;
  }
  kl_ssa earlier = LLVMBuildICmp(builder, LLVMIntSLT, b_pos, *a_pos, "");
  kl_ssa tie = LLVMBuildAnd(builder, ties(e, fold, *a, b), earlier, "");
  kl_ssa take = LLVMBuildOr(builder, beats(e, fold, *a, b), tie, "");
  *a = LLVMBuildSelect(builder, take, b, *a, "");
  *a_pos = LLVMBuildSelect(builder, take, b_pos, *a_pos, "");
}

void kl_fold_update(kl_emit *e, kl_fold *fold, const kl_lanes *lanes, kl_ssa value) {
  LLVMBuilderRef b = e->builder;
  kl_ssa *acc = &fold->acc[lanes->unit], *pos = &fold->acc_pos[lanes->unit];
  unsigned width = lanes->width;
  if (!fold->positions) {
    kl_ssa args[] = {*acc, value, NULL};
    kl_dtype dtype = (kl_dtype)fold->dtype;
    kl_ssa next = kl_emit_elem(e, elem_op(fold), dtype, dtype, args, width);
    bool by_column = lanes->mask && !e->rows_are_lanes;
    *acc = by_column ? LLVMBuildSelect(b, lanes->mask, next, *acc, "") : next;
    return;
  }
  /* Columns of a lane ascend, so what is there already is the first of a tie. */
  kl_ssa take = beats(e, fold, *acc, value);
  if (lanes->mask && !e->rows_are_lanes) take = LLVMBuildAnd(b, take, lanes->mask, "");
  kl_ssa column = kl_emit_splat(b, lanes->column, width);
  if (!e->rows_are_lanes) column = LLVMBuildAdd(b, column, kl_emit_iota(e, e->i32, width), "");
  *acc = LLVMBuildSelect(b, take, value, *acc, "");
  *pos = LLVMBuildSelect(b, take, column, *pos, "");
}

void kl_fold_allocate(kl_emit *e, kl_fold *fold, unsigned width, unsigned n_units) {
  unsigned partial = e->rows_are_lanes ? width * n_units : 1;
  fold->lanes = kl_emit_alloca(e, memory(e, fold, 1), KL_LANES * partial);
  fold->tree = kl_emit_alloca(e, memory(e, fold, 1), KL_EMIT_LEVELS * partial);
  if (!fold->positions) return;
  fold->lane_pos = kl_emit_alloca(e, e->i32, KL_LANES * partial);
  fold->tree_pos = kl_emit_alloca(e, e->i64, KL_EMIT_LEVELS * partial);
}

static void load_units(kl_emit *e, kl_fold *fold, kl_ssa values, kl_ssa positions,
                       LLVMTypeRef pos_type, unsigned width, unsigned n_units, kl_ssa offset) {
  unsigned nbytes = (unsigned)kl_dtype_size((kl_dtype)fold->dtype);
  kl_ssa at = kl_emit_gep(e, memory(e, fold, 1), values, offset);
  kl_ssa at_pos = fold->positions ? kl_emit_gep(e, pos_type, positions, offset) : NULL;
  for (unsigned u = 0; u < n_units; u++) {
    kl_ssa step = kl_emit_const(e, u * width);
    kl_ssa value = kl_emit_load(e, memory(e, fold, width),
                                kl_emit_gep(e, memory(e, fold, 1), at, step), nbytes);
    fold->acc[u] = kl_emit_from_memory(e, (kl_dtype)fold->dtype, value, width);
    if (fold->positions)
      fold->acc_pos[u] = kl_emit_load(e, kl_emit_vector(pos_type, width),
                                      kl_emit_gep(e, pos_type, at_pos, step), 4);
  }
}

static void store_units(kl_emit *e, kl_fold *fold, kl_ssa values, kl_ssa positions,
                        LLVMTypeRef pos_type, unsigned width, unsigned n_units, kl_ssa offset) {
  unsigned nbytes = (unsigned)kl_dtype_size((kl_dtype)fold->dtype);
  kl_ssa at = kl_emit_gep(e, memory(e, fold, 1), values, offset);
  kl_ssa at_pos = fold->positions ? kl_emit_gep(e, pos_type, positions, offset) : NULL;
  for (unsigned u = 0; u < n_units; u++) {
    kl_ssa step = kl_emit_const(e, u * width);
    kl_ssa value = kl_emit_to_memory(e, (kl_dtype)fold->dtype, fold->acc[u], width);
    kl_emit_store(e, value, kl_emit_gep(e, memory(e, fold, 1), at, step), nbytes);
    if (fold->positions)
      kl_emit_store(e, fold->acc_pos[u], kl_emit_gep(e, pos_type, at_pos, step), 4);
  }
}

void kl_fold_fetch(kl_emit *e, kl_fold *fold, unsigned width, unsigned n_units, kl_ssa offset) {
  load_units(e, fold, fold->lanes, fold->lane_pos, e->i32, width, n_units, offset);
}

void kl_fold_put(kl_emit *e, kl_fold *fold, unsigned width, unsigned n_units, kl_ssa offset) {
  store_units(e, fold, fold->lanes, fold->lane_pos, e->i32, width, n_units, offset);
}

/* A lane of an argmax starts at its own first column: right if it holds the neutral value, and
 * where it doesn't exist, larger than that of every lane that does. */
void kl_fold_init(kl_emit *e, kl_fold *fold, unsigned width, unsigned n_units) {
  kl_ssa init = kl_emit_const_of(e, (kl_dtype)fold->dtype, neutral(fold), width);
  if (!e->rows_are_lanes) {
    for (unsigned lane = 0; lane < KL_LANES; lane += width) {
      fold->acc[0] = init;
      fold->acc_pos[0] =
          LLVMBuildAdd(e->builder, kl_emit_iota(e, e->i32, width),
                       kl_emit_splat(e->builder, LLVMConstInt(e->i32, lane, false), width), "");
      kl_fold_put(e, fold, width, 1, kl_emit_const(e, lane));
    }
    return;
  }
  kl_ir_loop loop;
  kl_ssa start = kl_emit_const(e, 0);
  kl_ir_loop_guard(e, &loop, start, kl_emit_const(e, KL_LANES));
  kl_ir_loop_enter(e, &loop, start);
  kl_ssa lane = LLVMBuildTrunc(e->builder, loop.index, e->i32, "");
  for (unsigned u = 0; u < n_units; u++) {
    fold->acc[u] = init;
    fold->acc_pos[u] = kl_emit_splat(e->builder, lane, width);
  }
  kl_ssa offset = LLVMBuildMul(e->builder, loop.index, kl_emit_const(e, width * n_units), "");
  kl_fold_put(e, fold, width, n_units, offset);
  kl_ir_loop_close(e, &loop, LLVMBuildAdd(e->builder, loop.index, kl_emit_const(e, 1), ""));
}

/* Rows are lanes: for each of the first `half` lanes, combines it with the one `half` further on.
 */
static void halve_memory(kl_emit *e, kl_fold *fold, unsigned width, unsigned n_units,
                         unsigned half) {
  LLVMBuilderRef b = e->builder;
  unsigned partial = width * n_units;
  kl_ir_loop loop;
  kl_ssa start = kl_emit_const(e, 0);
  kl_ir_loop_guard(e, &loop, start, kl_emit_const(e, (int64_t)half * partial));
  kl_ir_loop_enter(e, &loop, start);
  kl_ssa upper = LLVMBuildAdd(b, loop.index, kl_emit_const(e, (int64_t)half * partial), "");
  kl_fold_fetch(e, fold, width, 1, upper);
  kl_ssa high = fold->acc[0], high_pos = fold->acc_pos[0];
  kl_fold_fetch(e, fold, width, 1, loop.index);
  merge(e, fold, &fold->acc[0], &fold->acc_pos[0], high, high_pos, width);
  kl_fold_put(e, fold, width, 1, loop.index);
  kl_ir_loop_close(e, &loop, LLVMBuildAdd(b, loop.index, kl_emit_const(e, width), ""));
}

static kl_ssa upper_half(kl_emit *e, kl_ssa vector, unsigned width) {
  kl_ssa index[KL_LANES];
  for (unsigned i = 0; i < width / 2; i++) index[i] = LLVMConstInt(e->i32, i + width / 2, false);
  LLVMValueRef mask = width == 2 ? LLVMConstVector(index, 1) : LLVMConstVector(index, width / 2);
  return LLVMBuildShuffleVector(e->builder, vector, LLVMGetPoison(LLVMTypeOf(vector)), mask, "");
}

static kl_ssa lower_half(kl_emit *e, kl_ssa vector, unsigned width) {
  kl_ssa index[KL_LANES];
  for (unsigned i = 0; i < width / 2; i++) index[i] = LLVMConstInt(e->i32, i, false);
  return LLVMBuildShuffleVector(e->builder, vector, LLVMGetPoison(LLVMTypeOf(vector)),
                                LLVMConstVector(index, width / 2), "");
}

static kl_ssa element(kl_emit *e, kl_ssa vector, unsigned at) {
  return LLVMBuildExtractElement(e->builder, vector, LLVMConstInt(e->i32, at, false), "");
}

/* Columns are lanes: whole vectors while there are two, then halves of one. */
static void halve_registers(kl_emit *e, kl_fold *fold, unsigned width) {
  kl_ssa *acc = fold->acc, *pos = fold->acc_pos;
  unsigned n = KL_LANES / width;
  kl_fold_fetch(e, fold, width, n, kl_emit_const(e, 0));
  for (unsigned half = n / 2; half > 0; half /= 2)
    for (unsigned u = 0; u < half; u++)
      merge(e, fold, &acc[u], &pos[u], acc[u + half], pos[u + half], width);
  for (; width > 2; width /= 2) {
    kl_ssa high = upper_half(e, acc[0], width);
    acc[0] = lower_half(e, acc[0], width);
    kl_ssa high_pos = fold->positions ? upper_half(e, pos[0], width) : NULL;
    if (fold->positions) pos[0] = lower_half(e, pos[0], width);
    merge(e, fold, &acc[0], &pos[0], high, high_pos, width / 2);
  }
  if (width == 1) return;
  kl_ssa high = element(e, acc[0], 1);
  kl_ssa high_pos = fold->positions ? element(e, pos[0], 1) : NULL;
  acc[0] = element(e, acc[0], 0);
  if (fold->positions) pos[0] = element(e, pos[0], 0);
  merge(e, fold, &acc[0], &pos[0], high, high_pos, 1);
}

void kl_fold_lanes(kl_emit *e, kl_fold *fold, unsigned width, unsigned n_units,
                   kl_ssa first_column) {
  if (e->rows_are_lanes) {
    for (unsigned half = KL_LANES / 2; half > 0; half /= 2)
      halve_memory(e, fold, width, n_units, half);
    kl_fold_fetch(e, fold, width, n_units, kl_emit_const(e, 0));
  } else {
    halve_registers(e, fold, width < 2 ? 1 : width);
    width = n_units = 1;
  }
  for (unsigned u = 0; fold->positions && u < n_units; u++) {
    kl_ssa pos = LLVMBuildSExt(e->builder, fold->acc_pos[u], kl_emit_vector(e->i64, width), "");
    kl_ssa first = kl_emit_splat(e->builder, first_column, width);
    fold->acc_pos[u] = LLVMBuildAdd(e->builder, pos, first, "");
  }
}

static kl_ssa level_offset(kl_emit *e, kl_ssa level, unsigned partial) {
  return LLVMBuildMul(e->builder, level, kl_emit_const(e, partial), "");
}

static void fetch_level(kl_emit *e, kl_fold *fold, unsigned width, unsigned n_units, kl_ssa level) {
  load_units(e, fold, fold->tree, fold->tree_pos, e->i64, width, n_units,
             level_offset(e, level, width * n_units));
}

/* What a fold carries around a loop: its accumulators, by unit. */
typedef struct carried {
  kl_ssa init[KL_EMIT_UNROLL], init_pos[KL_EMIT_UNROLL];
  kl_ssa phi[KL_EMIT_UNROLL], phi_pos[KL_EMIT_UNROLL];
} carried;

static void open_phis(kl_emit *e, kl_fold *fold, carried *c, unsigned n_units,
                      LLVMBasicBlockRef from) {
  memcpy(c->init, fold->acc, sizeof c->init);
  memcpy(c->init_pos, fold->acc_pos, sizeof c->init_pos);
  for (unsigned u = 0; u < n_units; u++) {
    c->phi[u] = LLVMBuildPhi(e->builder, LLVMTypeOf(c->init[u]), "");
    LLVMAddIncoming(c->phi[u], &c->init[u], &from, 1);
    if (!fold->positions) continue;
    c->phi_pos[u] = LLVMBuildPhi(e->builder, LLVMTypeOf(c->init_pos[u]), "");
    LLVMAddIncoming(c->phi_pos[u], &c->init_pos[u], &from, 1);
  }
}

static void close_phis(kl_fold *fold, carried *c, unsigned n_units, LLVMBasicBlockRef from) {
  for (unsigned u = 0; u < n_units; u++) {
    LLVMAddIncoming(c->phi[u], &fold->acc[u], &from, 1);
    if (fold->positions) LLVMAddIncoming(c->phi_pos[u], &fold->acc_pos[u], &from, 1);
  }
}

static void use_phis(kl_fold *fold, const carried *c) {
  memcpy(fold->acc, c->phi, sizeof c->phi);
  memcpy(fold->acc_pos, c->phi_pos, sizeof c->phi_pos);
}

static void merge_units(kl_emit *e, kl_fold *fold, const carried *right, unsigned width,
                        unsigned n_units) {
  for (unsigned u = 0; u < n_units; u++)
    merge(e, fold, &fold->acc[u], &fold->acc_pos[u], right->phi[u], right->phi_pos[u], width);
}

void kl_fold_push(kl_emit *e, kl_fold *fold, unsigned width, unsigned n_units, kl_ssa chunk) {
  LLVMBuilderRef b = e->builder;
  if (!e->rows_are_lanes) width = n_units = 1;
  LLVMBasicBlockRef before = LLVMGetInsertBlock(b);
  LLVMBasicBlockRef head = kl_emit_block(e, "carry");
  LLVMBasicBlockRef body = kl_emit_block(e, "merge");
  LLVMBasicBlockRef done = kl_emit_block(e, "merged");
  LLVMBuildBr(b, head);
  LLVMPositionBuilderAtEnd(b, head);
  kl_ssa zero = kl_emit_const(e, 0), one = kl_emit_const(e, 1);
  kl_ssa level = LLVMBuildPhi(b, e->i64, ""), bits = LLVMBuildPhi(b, e->i64, "");
  LLVMAddIncoming(level, &zero, &before, 1);
  LLVMAddIncoming(bits, &chunk, &before, 1);
  carried c;
  open_phis(e, fold, &c, n_units, before);
  kl_ssa odd = LLVMBuildTrunc(b, bits, e->i1, "");
  LLVMBuildCondBr(b, odd, body, done);
  LLVMPositionBuilderAtEnd(b, body);
  fetch_level(e, fold, width, n_units, level);
  merge_units(e, fold, &c, width, n_units);
  kl_ssa next_level = LLVMBuildAdd(b, level, one, ""), next_bits = LLVMBuildLShr(b, bits, one, "");
  LLVMBuildBr(b, head);
  LLVMBasicBlockRef latch = LLVMGetInsertBlock(b);
  LLVMAddIncoming(level, &next_level, &latch, 1);
  LLVMAddIncoming(bits, &next_bits, &latch, 1);
  close_phis(fold, &c, n_units, latch);
  LLVMPositionBuilderAtEnd(b, done);
  use_phis(fold, &c);
  store_units(e, fold, fold->tree, fold->tree_pos, e->i64, width, n_units,
              level_offset(e, level, width * n_units));
}

/* The first subtree found is taken as it is, each larger one stands to its left. */
void kl_fold_finish(kl_emit *e, kl_fold *fold, unsigned width, unsigned n_units, kl_ssa n_chunks) {
  LLVMBuilderRef b = e->builder;
  if (!e->rows_are_lanes) width = n_units = 1;
  for (unsigned u = 0; u < n_units; u++) {
    fold->acc[u] = kl_emit_const_of(e, (kl_dtype)fold->dtype, neutral(fold), width);
    fold->acc_pos[u] = LLVMConstNull(kl_emit_vector(e->i64, width));
  }
  LLVMBasicBlockRef before = LLVMGetInsertBlock(b);
  LLVMBasicBlockRef head = kl_emit_block(e, "subtrees");
  LLVMBasicBlockRef body = kl_emit_block(e, "subtree");
  LLVMBasicBlockRef done = kl_emit_block(e, "folded");
  LLVMBuildBr(b, head);
  LLVMPositionBuilderAtEnd(b, head);
  kl_ssa zero = kl_emit_const(e, 0), one = kl_emit_const(e, 1);
  kl_ssa yes = LLVMConstInt(e->i1, 1, false), no = LLVMConstInt(e->i1, 0, false);
  kl_ssa level = LLVMBuildPhi(b, e->i64, ""), bits = LLVMBuildPhi(b, e->i64, "");
  kl_ssa first = LLVMBuildPhi(b, e->i1, "");
  LLVMAddIncoming(level, &zero, &before, 1);
  LLVMAddIncoming(bits, &n_chunks, &before, 1);
  LLVMAddIncoming(first, &yes, &before, 1);
  carried c;
  open_phis(e, fold, &c, n_units, before);
  kl_ssa more = LLVMBuildICmp(b, LLVMIntNE, bits, zero, "");
  LLVMBuildCondBr(b, more, body, done);

  LLVMPositionBuilderAtEnd(b, body);
  fetch_level(e, fold, width, n_units, level);
  kl_ssa left[KL_EMIT_UNROLL], left_pos[KL_EMIT_UNROLL];
  memcpy(left, fold->acc, sizeof left);
  memcpy(left_pos, fold->acc_pos, sizeof left_pos);
  merge_units(e, fold, &c, width, n_units);
  kl_ssa set = LLVMBuildTrunc(b, bits, e->i1, "");
  for (unsigned u = 0; u < n_units; u++) {
    fold->acc[u] = LLVMBuildSelect(b, first, left[u], fold->acc[u], "");
    fold->acc[u] = LLVMBuildSelect(b, set, fold->acc[u], c.phi[u], "");
    if (!fold->positions) continue;
    fold->acc_pos[u] = LLVMBuildSelect(b, first, left_pos[u], fold->acc_pos[u], "");
    fold->acc_pos[u] = LLVMBuildSelect(b, set, fold->acc_pos[u], c.phi_pos[u], "");
  }
  kl_ssa next_first = LLVMBuildSelect(b, set, no, first, "");
  kl_ssa next_level = LLVMBuildAdd(b, level, one, ""), next_bits = LLVMBuildLShr(b, bits, one, "");
  LLVMBuildBr(b, head);
  LLVMBasicBlockRef latch = LLVMGetInsertBlock(b);
  LLVMAddIncoming(level, &next_level, &latch, 1);
  LLVMAddIncoming(bits, &next_bits, &latch, 1);
  LLVMAddIncoming(first, &next_first, &latch, 1);
  close_phis(fold, &c, n_units, latch);
  LLVMPositionBuilderAtEnd(b, done);
  use_phis(fold, &c);
}
