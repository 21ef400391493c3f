/* COLS and COMBINE phases: chunks of a row as units of work, and what is made of their partials. */
#include "codegen/llvm/nest.h"

static kl_ssa slot_address(kl_emit *e, kl_ssa base, kl_ssa slot) {
  return kl_emit_gep(e, e->i64, base, slot);
}

/* row * n_reduces + the number of the fold */
static kl_ssa frame_slot(kl_emit *e, kl_ssa row, uint32_t f) {
  kl_ssa n = kl_emit_const(e, e->section->n_reduces);
  return kl_emit_add(e, LLVMBuildMul(e->builder, row, n, ""), kl_emit_const(e, f));
}

static kl_ssa partial_slot(kl_emit *e, kl_ssa row, uint32_t f, kl_ssa chunk) {
  kl_ssa at = LLVMBuildMul(e->builder, frame_slot(e, row, f), e->n_chunks, "");
  return LLVMBuildMul(e->builder, kl_emit_add(e, at, chunk), kl_emit_const(e, 2), "");
}

static kl_dtype result_dtype(const kl_fold *fold) {
  return fold->positions ? KL_I64 : (kl_dtype)fold->dtype;
}

static kl_ssa load_slot(kl_emit *e, kl_dtype dtype, kl_ssa address) {
  kl_ssa value = kl_emit_load(e, kl_emit_memory_type(e, dtype, 1), address, 8);
  return kl_emit_from_memory(e, dtype, value, 1);
}

/* The whole slot is written, so that its upper bytes are never those of an earlier use. */
static void store_slot(kl_emit *e, kl_dtype dtype, kl_ssa value, kl_ssa address) {
  value = kl_emit_to_memory(e, dtype, value, 1);
  if (dtype == KL_F32) value = LLVMBuildBitCast(e->builder, value, e->i32, "");
  if (dtype != KL_F64) value = LLVMBuildZExt(e->builder, value, e->i64, "");
  kl_emit_store(e, value, address, 8);
}

/* Results of earlier loops come from the frame, ROW values that are needed are computed again. */
static void emit_needed(kl_emit *e, const kl_ssa *coord, kl_ssa row, unsigned end_loop) {
  for (uint32_t f = 0; f < e->section->n_reduces; f++) {
    kl_fold *fold = &e->folds[f];
    if (!e->needed[fold->instr] || e->loop_of[fold->instr] >= end_loop) continue;
    e->uniform[fold->instr] =
        load_slot(e, result_dtype(fold), slot_address(e, e->frame, frame_slot(e, row, f)));
  }
  for (unsigned l = 0; l < end_loop; l++)
    if (kl_emit_loop_at(e, l)->kind == KL_LOOP_ROW)
      kl_emit_row_loop(e, kl_emit_loop_at(e, l), coord, false);
}

void kl_emit_cols(kl_emit *e, const kl_phase *phase) {
  kl_ir_loop units;
  kl_ssa coord[KL_MAX_RANK] = {0};
  LLVMBuilderRef b = e->builder;
  kl_ir_loop_guard(e, &units, e->begin, e->end);
  kl_ir_loop_enter(e, &units, e->begin);
  kl_ssa row = LLVMBuildUDiv(b, units.index, e->n_chunks, "");
  kl_ssa chunk = LLVMBuildSub(b, units.index, LLVMBuildMul(b, row, e->n_chunks, ""), "");
  kl_ssa rest = row;
  for (int d = e->section->n_rows - 1; d >= 0; d--) {
    kl_ssa extent = kl_emit_int(e, e->section->extents_at + (uint32_t)d);
    coord[d] = d ? LLVMBuildURem(b, rest, extent, "") : rest;
    if (d) rest = LLVMBuildUDiv(b, rest, extent, "");
  }
  emit_needed(e, coord, row, phase->first_loop);
  kl_columns c;
  kl_open_columns(e, &c, kl_emit_loop_at(e, phase->first_loop), coord);
  if (c.fold < c.fold_end) {
    kl_emit_chunk(e, &c, chunk);
  } else {
    kl_ssa start = LLVMBuildMul(b, chunk, kl_emit_const(e, KL_CHUNK), "");
    kl_ssa stop = kl_emit_smaller(e, kl_emit_add(e, start, kl_emit_const(e, KL_CHUNK)), e->n_cols);
    kl_emit_columns(e, &c, start, stop, start);
  }
  for (uint32_t f = c.fold; f < c.fold_end; f++) {
    kl_fold *fold = &e->folds[f];
    kl_ssa slot = partial_slot(e, row, f, chunk);
    store_slot(e, (kl_dtype)fold->dtype, fold->acc[0], slot_address(e, e->partials, slot));
    slot = kl_emit_add(e, slot, kl_emit_const(e, 1));
    if (fold->positions)
      store_slot(e, KL_I64, fold->acc_pos[0], slot_address(e, e->partials, slot));
  }
  kl_ir_loop_close(e, &units, kl_emit_add(e, units.index, kl_emit_const(e, 1)));
}

/* Combines the partials of one fold in a row, and stores the result in the frame. */
static void combine(kl_emit *e, uint32_t f, kl_ssa row) {
  kl_fold *fold = &e->folds[f];
  kl_ir_loop chunks;
  kl_ssa zero = kl_emit_const(e, 0), one = kl_emit_const(e, 1);
  kl_fold_allocate(e, fold, 1, 1);
  kl_ir_loop_guard(e, &chunks, zero, e->n_chunks);
  kl_ir_loop_enter(e, &chunks, zero);
  kl_ssa slot = partial_slot(e, row, f, chunks.index);
  fold->acc[0] = load_slot(e, (kl_dtype)fold->dtype, slot_address(e, e->partials, slot));
  if (fold->positions)
    fold->acc_pos[0] =
        load_slot(e, KL_I64, slot_address(e, e->partials, kl_emit_add(e, slot, one)));
  kl_fold_push(e, fold, 1, 1, chunks.index);
  kl_ir_loop_close(e, &chunks, kl_emit_add(e, chunks.index, one));
  kl_fold_finish(e, fold, 1, 1, e->n_chunks);
  kl_ssa result = fold->positions ? fold->acc_pos[0] : fold->acc[0];
  store_slot(e, result_dtype(fold), result, slot_address(e, e->frame, frame_slot(e, row, f)));
  e->uniform[fold->instr] = result;
}

void kl_emit_combine(kl_emit *e, const kl_phase *phase) {
  kl_walk walk;
  kl_ssa coord[KL_MAX_RANK] = {0};
  kl_walk_open(e, &walk, 0, e->section->n_rows, e->begin, e->end, coord);
  uint32_t fold = 0, fold_end = 0;
  if (phase->first_loop)
    kl_emit_folds_of(e, kl_emit_loop_at(e, phase->first_loop - 1u), &fold, &fold_end);
  for (uint32_t f = fold; f < fold_end; f++) combine(e, f, walk.loop.index);
  for (uint32_t f = fold; f < fold_end; f++) e->needed[e->folds[f].instr] = false;
  emit_needed(e, coord, walk.loop.index, phase->first_loop);
  for (unsigned l = phase->first_loop; l < phase->end_loop; l++)
    kl_emit_row_loop(e, kl_emit_loop_at(e, l), coord, true);
  kl_walk_close(e, &walk, kl_emit_const(e, 1));
}
