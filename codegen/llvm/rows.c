/* ROWS phases where lanes are rows: all loops for a vector of rows, columns one by one. */
#include <string.h>

#include "codegen/llvm/nest.h"

static void no_prepare(kl_emit *e, void *user, unsigned width) { (void)e, (void)user, (void)width; }

/* Columns [start, stop) one by one, for the rows of `units`. */
static void walk_columns(kl_emit *e, const kl_loop *loop, kl_lanes *units, unsigned n_units,
                         kl_ssa start, kl_ssa stop, uint32_t fold, uint32_t fold_end) {
  kl_walk walk;
  kl_ssa coord[KL_MAX_RANK];
  unsigned width = units[0].width;
  int axis = units[0].axis;
  memcpy(coord, units[0].coord, sizeof coord);
  kl_walk_open(e, &walk, e->section->n_rows, e->section->n_dims, start, stop, coord);
  kl_ssa column = LLVMBuildSub(e->builder, walk.loop.index, start, "");
  kl_ssa lane = LLVMBuildAnd(e->builder, column, kl_emit_const(e, KL_LANES - 1), "");
  kl_ssa offset = LLVMBuildMul(e->builder, lane, kl_emit_const(e, width * n_units), "");
  kl_emit_addresses(e, loop, coord, axis);
  for (uint32_t f = fold; f < fold_end; f++) kl_fold_fetch(e, &e->folds[f], width, n_units, offset);
  for (unsigned u = 0; u < n_units; u++) {
    for (int d = e->section->n_rows; d < e->section->n_dims; d++) units[u].coord[d] = coord[d];
    units[u].column = LLVMBuildTrunc(e->builder, column, e->i32, "");
    kl_emit_body(e, loop, &units[u], true);
  }
  for (uint32_t f = fold; f < fold_end; f++) kl_fold_put(e, &e->folds[f], width, n_units, offset);
  kl_walk_close(e, &walk, kl_emit_const(e, 1));
}

static void rows_col_loop(kl_emit *e, const kl_loop *loop, kl_lanes *units, unsigned n_units) {
  uint32_t fold, fold_end;
  unsigned width = units[0].width;
  kl_ssa zero = kl_emit_const(e, 0);
  kl_emit_folds_of(e, loop, &fold, &fold_end);
  if (fold == fold_end) {
    walk_columns(e, loop, units, n_units, zero, e->n_cols, 0, 0);
    return;
  }
  for (uint32_t f = fold; f < fold_end; f++) kl_fold_allocate(e, &e->folds[f], width, n_units);
  kl_ir_loop chunks;
  kl_ir_loop_guard(e, &chunks, zero, e->n_chunks);
  kl_ir_loop_enter(e, &chunks, zero);
  kl_ssa start = LLVMBuildMul(e->builder, chunks.index, kl_emit_const(e, KL_CHUNK), "");
  kl_ssa stop = kl_emit_smaller(e, kl_emit_add(e, start, kl_emit_const(e, KL_CHUNK)), e->n_cols);
  for (uint32_t f = fold; f < fold_end; f++) kl_fold_init(e, &e->folds[f], width, n_units);
  walk_columns(e, loop, units, n_units, start, stop, fold, fold_end);
  for (uint32_t f = fold; f < fold_end; f++) {
    kl_fold_lanes(e, &e->folds[f], width, n_units, start);
    kl_fold_push(e, &e->folds[f], width, n_units, chunks.index);
  }
  kl_ir_loop_close(e, &chunks, kl_emit_add(e, chunks.index, kl_emit_const(e, 1)));
  for (uint32_t f = fold; f < fold_end; f++) {
    kl_fold *done = &e->folds[f];
    kl_fold_finish(e, done, width, n_units, e->n_chunks);
    for (unsigned u = 0; u < n_units; u++)
      units[u].values[done->instr] = done->positions ? done->acc_pos[u] : done->acc[u];
  }
}

static void body_rows(kl_emit *e, void *user, kl_lanes *units, unsigned n_units) {
  (void)user;
  for (unsigned l = 0; l < e->section->loops.count; l++) {
    const kl_loop *loop = kl_emit_loop_at(e, l);
    if (loop->kind != KL_LOOP_ROW) {
      rows_col_loop(e, loop, units, n_units);
      continue;
    }
    kl_emit_addresses(e, loop, units[0].coord, units[0].axis);
    for (unsigned u = 0; u < n_units; u++) kl_emit_body(e, loop, &units[u], true);
  }
}

/* A light body that walks columns takes a good part of each page that it touches. */
static unsigned choose_units(unsigned weight, bool walks) {
  if (weight > 16) return 1;
  if (!walks || weight > 8) return 2;
  return weight > 4 ? 4 : 8;
}

void kl_emit_rows_as_lanes(kl_emit *e) {
  const kl_section *section = e->section;
  int axis = section->n_rows - 1;
  kl_ssa coord[KL_MAX_RANK] = {0};
  unsigned width = KL_LANES, weight = 0;
  bool masked = true;
  for (unsigned l = 0; l < section->loops.count; l++) {
    unsigned own = kl_emit_loop_width(e, kl_emit_loop_at(e, l), axis);
    width = own < width ? own : width;
    weight += kl_emit_loop_weight(e, kl_emit_loop_at(e, l));
    masked = masked && axis >= 0 && kl_emit_loop_maskable(e, kl_emit_loop_at(e, l), axis);
  }
  unsigned n_units = width == 1 ? 1 : choose_units(weight, section->n_dims > section->n_rows);
  kl_span span = {.width = width,
                  .n_units = n_units,
                  .masked = masked,
                  .aligned = true,
                  .axis = axis,
                  .coord = coord,
                  .prepare = no_prepare,
                  .body = body_rows};
  if (section->n_rows <= 1) {
    kl_emit_span(e, &span, e->begin, e->end);
    return;
  }
  kl_walk walk;
  kl_walk_open(e, &walk, 0, section->n_rows, e->begin, e->end, coord);
  kl_ssa at = coord[axis];
  kl_ssa extent = kl_emit_int(e, section->extents_at + (uint32_t)axis);
  kl_ssa left = LLVMBuildSub(e->builder, e->end, walk.loop.index, "");
  kl_ssa length = kl_emit_smaller(e, LLVMBuildSub(e->builder, extent, at, ""), left);
  kl_emit_span(e, &span, at, kl_emit_add(e, at, length));
  kl_walk_close(e, &walk, length);
}
