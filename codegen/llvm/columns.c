/* ROWS phases where lanes are columns: row by row, each COL loop by vectors of columns. */
#include <string.h>

#include "codegen/llvm/nest.h"

/* Makes vectors of the values from outside that the loop uses. */
static void prepare_columns(kl_emit *e, void *user, unsigned width) {
  const kl_loop *loop = ((kl_columns *)user)->loop;
  for (uint32_t i = loop->first; width > 1 && i < loop->end; i++) {
    const kl_instr *instr = &e->section->instrs.data[i];
    unsigned n = instr->op == KL_OP_REPEAT || instr->op == KL_OP_SCALAR ? 0 : 3;
    for (unsigned a = 0; a < n; a++) {
      uint32_t id = instr->arg[a];
      if (id < loop->first && e->uniform[id])
        e->splat[id] = kl_emit_splat(e->builder, e->uniform[id], width);
    }
  }
}

static void body_columns(kl_emit *e, void *user, kl_lanes *units, unsigned n_units) {
  kl_columns *c = user;
  for (unsigned u = 0; u < n_units; u++) kl_emit_body(e, c->loop, &units[u], true);
}

/* Runs columns [start, stop); with folds they lie in the chunk that begins at `chunk_start`. */
void kl_emit_columns(kl_emit *e, kl_columns *c, kl_ssa start, kl_ssa stop, kl_ssa chunk_start) {
  const kl_section *section = e->section;
  int axis = section->n_dims - 1, first = section->n_rows;
  bool folds = c->fold < c->fold_end;
  kl_span span = {.width = c->width,
                  .n_units = c->n_units,
                  .masked = kl_emit_loop_maskable(e, c->loop, axis),
                  .aligned = !folds || axis == first,
                  .fold = c->fold,
                  .fold_end = c->fold_end,
                  .axis = axis,
                  .coord = c->coord,
                  .prepare = prepare_columns,
                  .body = body_columns,
                  .user = c};
  if (axis == first) {
    kl_emit_addresses(e, c->loop, c->coord, axis);
    if (folds) span.column = LLVMConstInt(e->i32, 0, false);
    kl_emit_span(e, &span, start, stop);
    return;
  }
  /* Several column dims: run after run along the last one. */
  kl_walk walk;
  kl_walk_open(e, &walk, first, section->n_dims, start, stop, c->coord);
  kl_ssa extent = kl_emit_int(e, section->extents_at + (uint32_t)axis);
  kl_ssa at = c->coord[axis];
  kl_ssa left = LLVMBuildSub(e->builder, stop, walk.loop.index, "");
  kl_ssa length = kl_emit_smaller(e, LLVMBuildSub(e->builder, extent, at, ""), left);
  if (folds) {
    kl_ssa column = LLVMBuildSub(e->builder, walk.loop.index, chunk_start, "");
    span.column = LLVMBuildTrunc(e->builder, column, e->i32, "");
  }
  kl_emit_addresses(e, c->loop, c->coord, axis);
  kl_emit_span(e, &span, at, kl_emit_add(e, at, length));
  kl_walk_close(e, &walk, length);
}

/* Few long bodies rather than many: a heavy body gains nothing from neighbours, and each costs
 * compile time. A light one with folds covers all 32 lanes, to carry them in registers. */
static void choose_units(const kl_emit *e, kl_columns *c) {
  unsigned weight = kl_emit_loop_weight(e, c->loop);
  c->width =
      c->loop->kind == KL_LOOP_SEQ ? 1 : kl_emit_loop_width(e, c->loop, e->section->n_dims - 1);
  c->n_units = 1;
  if (c->width == 1) return;
  unsigned all = KL_LANES / c->width;
  if (c->fold < c->fold_end)
    c->n_units = all * weight <= 192 && all * (c->fold_end - c->fold) <= 16 ? all : 1;
  else
    c->n_units = weight <= 16 ? 2 : 1;
}

void kl_open_columns(kl_emit *e, kl_columns *c, const kl_loop *loop, const kl_ssa *coord) {
  c->loop = loop;
  memcpy(c->coord, coord, sizeof c->coord);
  kl_emit_folds_of(e, loop, &c->fold, &c->fold_end);
  choose_units(e, c);
  for (uint32_t f = c->fold; f < c->fold_end; f++)
    kl_fold_allocate(e, &e->folds[f], c->width, c->n_units);
}

/* One chunk of a loop with folds; leaves its partial results in the folds' accumulators. */
void kl_emit_chunk(kl_emit *e, kl_columns *c, kl_ssa chunk) {
  kl_ssa start = LLVMBuildMul(e->builder, chunk, kl_emit_const(e, KL_CHUNK), "");
  kl_ssa stop = kl_emit_smaller(e, kl_emit_add(e, start, kl_emit_const(e, KL_CHUNK)), e->n_cols);
  for (uint32_t f = c->fold; f < c->fold_end; f++) kl_fold_init(e, &e->folds[f], c->width, 1);
  kl_emit_columns(e, c, start, stop, start);
  for (uint32_t f = c->fold; f < c->fold_end; f++)
    kl_fold_lanes(e, &e->folds[f], c->width, 1, start);
}

/* All columns of a row. */
static void emit_col_loop(kl_emit *e, const kl_loop *loop, const kl_ssa *coord) {
  kl_columns c;
  kl_open_columns(e, &c, loop, coord);
  kl_ssa zero = kl_emit_const(e, 0);
  if (c.fold == c.fold_end) {
    kl_emit_columns(e, &c, zero, e->n_cols, zero);
    return;
  }
  kl_ir_loop chunks;
  kl_ir_loop_guard(e, &chunks, zero, e->n_chunks);
  kl_ir_loop_enter(e, &chunks, zero);
  kl_emit_chunk(e, &c, chunks.index);
  for (uint32_t f = c.fold; f < c.fold_end; f++) kl_fold_push(e, &e->folds[f], 1, 1, chunks.index);
  kl_ir_loop_close(e, &chunks, kl_emit_add(e, chunks.index, kl_emit_const(e, 1)));
  for (uint32_t f = c.fold; f < c.fold_end; f++) {
    kl_fold *fold = &e->folds[f];
    kl_fold_finish(e, fold, 1, 1, e->n_chunks);
    e->uniform[fold->instr] = fold->positions ? fold->acc_pos[0] : fold->acc[0];
  }
}

void kl_emit_row_loop(kl_emit *e, const kl_loop *loop, const kl_ssa *coord, bool all) {
  kl_lanes lanes = {.width = 1, .axis = -1, .values = e->uniform};
  memcpy(lanes.coord, coord, sizeof lanes.coord);
  kl_emit_addresses(e, loop, coord, -1);
  kl_emit_body(e, loop, &lanes, all);
}

void kl_emit_rows(kl_emit *e) {
  kl_walk walk;
  kl_ssa coord[KL_MAX_RANK] = {0};
  kl_walk_open(e, &walk, 0, e->section->n_rows, e->begin, e->end, coord);
  for (unsigned l = 0; l < e->section->loops.count; l++) {
    if (kl_emit_loop_at(e, l)->kind == KL_LOOP_ROW)
      kl_emit_row_loop(e, kl_emit_loop_at(e, l), coord, true);
    else
      emit_col_loop(e, kl_emit_loop_at(e, l), coord);
  }
  kl_walk_close(e, &walk, kl_emit_const(e, 1));
}
