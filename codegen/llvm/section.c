/* One section of a kernel as one function: a switch over its phases, each a nest of loops.
 *
 * Two shapes. Where lanes are columns, rows go one by one with scalars, and each COL loop is a span
 * along the last column dim. Where lanes are rows, units are taken by spans along the last row dim,
 * and all loops run for a vector of rows at a time, columns one by one.
 */
#include <string.h>

#include "codegen/llvm/emit.h"

/* Offsets of the fields of kl_kernel_args, all of them pointers. */
enum { ARG_BUFS, ARG_INTS, ARG_SCALARS, ARG_FRAME, ARG_PARTIALS };

static const kl_loop *loop_at(const kl_emit *e, unsigned l) { return &e->section->loops.data[l]; }

static kl_ssa add(kl_emit *e, kl_ssa a, kl_ssa b) { return LLVMBuildAdd(e->builder, a, b, ""); }

static kl_ssa smaller(kl_emit *e, kl_ssa a, kl_ssa b) {
  kl_ssa less = LLVMBuildICmp(e->builder, LLVMIntSLT, a, b, "");
  return LLVMBuildSelect(e->builder, less, a, b, "");
}

/* The folds of a loop are neighbours: REDUCE instructions are numbered in order of appearance. */
static void folds_of(const kl_emit *e, const kl_loop *loop, uint32_t *out_first,
                     uint32_t *out_end) {
  uint32_t first = 0;
  while (first < e->section->n_reduces && e->folds[first].instr < loop->first) first++;
  uint32_t end = first;
  while (end < e->section->n_reduces && e->folds[end].instr < loop->end) end++;
  *out_first = first;
  *out_end = end;
}

/* ------------------------------------------------------------------ lanes are columns */

/* What a COL loop's span needs to know of its loop. */
typedef struct columns {
  const kl_loop *loop;
  kl_ssa coord[KL_MAX_RANK];
  uint32_t fold, fold_end;
  unsigned width, n_units;
} columns;

/* Makes vectors of the values from outside that the loop uses. */
static void prepare_columns(kl_emit *e, void *user, unsigned width) {
  const kl_loop *loop = ((columns *)user)->loop;
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
  columns *c = user;
  for (unsigned u = 0; u < n_units; u++) kl_emit_body(e, c->loop, &units[u], true);
}

/* Runs columns [start, stop); with folds they lie in the chunk that begins at `chunk_start`. */
static void emit_columns(kl_emit *e, columns *c, kl_ssa start, kl_ssa stop, kl_ssa chunk_start) {
  const kl_section *section = e->section;
  int axis = section->n_dims - 1, first = section->n_rows;
  bool folds = c->fold < c->fold_end;
  kl_span span = {.width = c->width, .n_units = c->n_units,
                  .masked = kl_emit_loop_maskable(e, c->loop, axis),
                  .aligned = !folds || axis == first, .fold = c->fold, .fold_end = c->fold_end,
                  .axis = axis, .coord = c->coord, .prepare = prepare_columns,
                  .body = body_columns, .user = c};
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
  kl_ssa length = smaller(e, LLVMBuildSub(e->builder, extent, at, ""), left);
  if (folds) {
    kl_ssa column = LLVMBuildSub(e->builder, walk.loop.index, chunk_start, "");
    span.column = LLVMBuildTrunc(e->builder, column, e->i32, "");
  }
  kl_emit_addresses(e, c->loop, c->coord, axis);
  kl_emit_span(e, &span, at, add(e, at, length));
  kl_walk_close(e, &walk, length);
}

/* Few long bodies rather than many: a heavy body gains nothing from neighbours, and each costs
 * compile time. A light one with folds covers all 32 lanes, to carry them in registers. */
static void choose_units(const kl_emit *e, columns *c) {
  unsigned weight = kl_emit_loop_weight(e, c->loop);
  c->width = c->loop->kind == KL_LOOP_SEQ ? 1 : kl_emit_loop_width(e, c->loop, e->section->n_dims - 1);
  c->n_units = 1;
  if (c->width == 1) return;
  unsigned all = KL_LANES / c->width;
  if (c->fold < c->fold_end)
    c->n_units = all * weight <= 192 && all * (c->fold_end - c->fold) <= 16 ? all : 1;
  else
    c->n_units = weight <= 16 ? 2 : 1;
}

static void open_columns(kl_emit *e, columns *c, const kl_loop *loop, const kl_ssa *coord) {
  c->loop = loop;
  memcpy(c->coord, coord, sizeof c->coord);
  folds_of(e, loop, &c->fold, &c->fold_end);
  choose_units(e, c);
  for (uint32_t f = c->fold; f < c->fold_end; f++)
    kl_fold_allocate(e, &e->folds[f], c->width, c->n_units);
}

/* One chunk of a loop with folds; leaves its partial results in the folds' accumulators. */
static void emit_chunk(kl_emit *e, columns *c, kl_ssa chunk) {
  kl_ssa start = LLVMBuildMul(e->builder, chunk, kl_emit_const(e, KL_CHUNK), "");
  kl_ssa stop = smaller(e, add(e, start, kl_emit_const(e, KL_CHUNK)), e->n_cols);
  for (uint32_t f = c->fold; f < c->fold_end; f++) kl_fold_init(e, &e->folds[f], c->width, 1);
  emit_columns(e, c, start, stop, start);
  for (uint32_t f = c->fold; f < c->fold_end; f++)
    kl_fold_lanes(e, &e->folds[f], c->width, 1, start);
}

/* All columns of a row. */
static void emit_col_loop(kl_emit *e, const kl_loop *loop, const kl_ssa *coord) {
  columns c;
  open_columns(e, &c, loop, coord);
  kl_ssa zero = kl_emit_const(e, 0);
  if (c.fold == c.fold_end) {
    emit_columns(e, &c, zero, e->n_cols, zero);
    return;
  }
  kl_ir_loop chunks;
  kl_ir_loop_guard(e, &chunks, zero, e->n_chunks);
  kl_ir_loop_enter(e, &chunks, zero);
  emit_chunk(e, &c, chunks.index);
  for (uint32_t f = c.fold; f < c.fold_end; f++)
    kl_fold_push(e, &e->folds[f], 1, 1, chunks.index);
  kl_ir_loop_close(e, &chunks, add(e, chunks.index, kl_emit_const(e, 1)));
  for (uint32_t f = c.fold; f < c.fold_end; f++) {
    kl_fold *fold = &e->folds[f];
    kl_fold_finish(e, fold, 1, 1, e->n_chunks);
    e->uniform[fold->instr] = fold->positions ? fold->acc_pos[0] : fold->acc[0];
  }
}

static void emit_row_loop(kl_emit *e, const kl_loop *loop, const kl_ssa *coord, bool all) {
  kl_lanes lanes = {.width = 1, .axis = -1, .values = e->uniform};
  memcpy(lanes.coord, coord, sizeof lanes.coord);
  kl_emit_addresses(e, loop, coord, -1);
  kl_emit_body(e, loop, &lanes, all);
}

static void emit_rows(kl_emit *e) {
  kl_walk walk;
  kl_ssa coord[KL_MAX_RANK] = {0};
  kl_walk_open(e, &walk, 0, e->section->n_rows, e->begin, e->end, coord);
  for (unsigned l = 0; l < e->section->loops.count; l++) {
    if (loop_at(e, l)->kind == KL_LOOP_ROW)
      emit_row_loop(e, loop_at(e, l), coord, true);
    else
      emit_col_loop(e, loop_at(e, l), coord);
  }
  kl_walk_close(e, &walk, kl_emit_const(e, 1));
}

/* ------------------------------------------------------------------ COLS and COMBINE */

static kl_ssa slot_address(kl_emit *e, kl_ssa base, kl_ssa slot) {
  return kl_emit_gep(e, e->i64, base, slot);
}

/* row * n_reduces + the number of the fold */
static kl_ssa frame_slot(kl_emit *e, kl_ssa row, uint32_t f) {
  kl_ssa n = kl_emit_const(e, e->section->n_reduces);
  return add(e, LLVMBuildMul(e->builder, row, n, ""), kl_emit_const(e, f));
}

static kl_ssa partial_slot(kl_emit *e, kl_ssa row, uint32_t f, kl_ssa chunk) {
  kl_ssa at = LLVMBuildMul(e->builder, frame_slot(e, row, f), e->n_chunks, "");
  return LLVMBuildMul(e->builder, add(e, at, chunk), kl_emit_const(e, 2), "");
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
    if (loop_at(e, l)->kind == KL_LOOP_ROW) emit_row_loop(e, loop_at(e, l), coord, false);
}

static void emit_cols(kl_emit *e, const kl_phase *phase) {
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
  columns c;
  open_columns(e, &c, loop_at(e, phase->first_loop), coord);
  if (c.fold < c.fold_end) {
    emit_chunk(e, &c, chunk);
  } else {
    kl_ssa start = LLVMBuildMul(b, chunk, kl_emit_const(e, KL_CHUNK), "");
    kl_ssa stop = smaller(e, add(e, start, kl_emit_const(e, KL_CHUNK)), e->n_cols);
    emit_columns(e, &c, start, stop, start);
  }
  for (uint32_t f = c.fold; f < c.fold_end; f++) {
    kl_fold *fold = &e->folds[f];
    kl_ssa slot = partial_slot(e, row, f, chunk);
    store_slot(e, (kl_dtype)fold->dtype, fold->acc[0], slot_address(e, e->partials, slot));
    slot = add(e, slot, kl_emit_const(e, 1));
    if (fold->positions)
      store_slot(e, KL_I64, fold->acc_pos[0], slot_address(e, e->partials, slot));
  }
  kl_ir_loop_close(e, &units, add(e, units.index, kl_emit_const(e, 1)));
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
    fold->acc_pos[0] = load_slot(e, KL_I64, slot_address(e, e->partials, add(e, slot, one)));
  kl_fold_push(e, fold, 1, 1, chunks.index);
  kl_ir_loop_close(e, &chunks, add(e, chunks.index, one));
  kl_fold_finish(e, fold, 1, 1, e->n_chunks);
  kl_ssa result = fold->positions ? fold->acc_pos[0] : fold->acc[0];
  store_slot(e, result_dtype(fold), result, slot_address(e, e->frame, frame_slot(e, row, f)));
  e->uniform[fold->instr] = result;
}

static void emit_combine(kl_emit *e, const kl_phase *phase) {
  kl_walk walk;
  kl_ssa coord[KL_MAX_RANK] = {0};
  kl_walk_open(e, &walk, 0, e->section->n_rows, e->begin, e->end, coord);
  uint32_t fold = 0, fold_end = 0;
  if (phase->first_loop) folds_of(e, loop_at(e, phase->first_loop - 1u), &fold, &fold_end);
  for (uint32_t f = fold; f < fold_end; f++) combine(e, f, walk.loop.index);
  for (uint32_t f = fold; f < fold_end; f++) e->needed[e->folds[f].instr] = false;
  emit_needed(e, coord, walk.loop.index, phase->first_loop);
  for (unsigned l = phase->first_loop; l < phase->end_loop; l++)
    emit_row_loop(e, loop_at(e, l), coord, true);
  kl_walk_close(e, &walk, kl_emit_const(e, 1));
}

/* ------------------------------------------------------------------ lanes are rows */

static void no_prepare(kl_emit *e, void *user, unsigned width) {
  (void)e, (void)user, (void)width;
}

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
  for (uint32_t f = fold; f < fold_end; f++)
    kl_fold_fetch(e, &e->folds[f], width, n_units, offset);
  for (unsigned u = 0; u < n_units; u++) {
    for (int d = e->section->n_rows; d < e->section->n_dims; d++) units[u].coord[d] = coord[d];
    units[u].column = LLVMBuildTrunc(e->builder, column, e->i32, "");
    kl_emit_body(e, loop, &units[u], true);
  }
  for (uint32_t f = fold; f < fold_end; f++)
    kl_fold_put(e, &e->folds[f], width, n_units, offset);
  kl_walk_close(e, &walk, kl_emit_const(e, 1));
}

static void rows_col_loop(kl_emit *e, const kl_loop *loop, kl_lanes *units, unsigned n_units) {
  uint32_t fold, fold_end;
  unsigned width = units[0].width;
  kl_ssa zero = kl_emit_const(e, 0);
  folds_of(e, loop, &fold, &fold_end);
  if (fold == fold_end) {
    walk_columns(e, loop, units, n_units, zero, e->n_cols, 0, 0);
    return;
  }
  for (uint32_t f = fold; f < fold_end; f++) kl_fold_allocate(e, &e->folds[f], width, n_units);
  kl_ir_loop chunks;
  kl_ir_loop_guard(e, &chunks, zero, e->n_chunks);
  kl_ir_loop_enter(e, &chunks, zero);
  kl_ssa start = LLVMBuildMul(e->builder, chunks.index, kl_emit_const(e, KL_CHUNK), "");
  kl_ssa stop = smaller(e, add(e, start, kl_emit_const(e, KL_CHUNK)), e->n_cols);
  for (uint32_t f = fold; f < fold_end; f++) kl_fold_init(e, &e->folds[f], width, n_units);
  walk_columns(e, loop, units, n_units, start, stop, fold, fold_end);
  for (uint32_t f = fold; f < fold_end; f++) {
    kl_fold_lanes(e, &e->folds[f], width, n_units, start);
    kl_fold_push(e, &e->folds[f], width, n_units, chunks.index);
  }
  kl_ir_loop_close(e, &chunks, add(e, chunks.index, kl_emit_const(e, 1)));
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
    const kl_loop *loop = loop_at(e, l);
    if (loop->kind != KL_LOOP_ROW) {
      rows_col_loop(e, loop, units, n_units);
      continue;
    }
    kl_emit_addresses(e, loop, units[0].coord, units[0].axis);
    for (unsigned u = 0; u < n_units; u++) kl_emit_body(e, loop, &units[u], true);
  }
}

static void emit_rows_as_lanes(kl_emit *e) {
  const kl_section *section = e->section;
  int axis = section->n_rows - 1;
  kl_ssa coord[KL_MAX_RANK] = {0};
  unsigned width = KL_LANES, weight = 0;
  bool masked = true;
  for (unsigned l = 0; l < section->loops.count; l++) {
    unsigned own = kl_emit_loop_width(e, loop_at(e, l), axis);
    width = own < width ? own : width;
    weight += kl_emit_loop_weight(e, loop_at(e, l));
    masked = masked && axis >= 0 && kl_emit_loop_maskable(e, loop_at(e, l), axis);
  }
  /* With columns several vectors of rows at once, so that whole cache lines are used. */
  bool walks = section->n_dims > section->n_rows;
  unsigned n_units = weight > 16 || width == 1 ? 1 : walks && weight <= 8 ? 4 : 2;
  kl_span span = {.width = width, .n_units = n_units, .masked = masked, .aligned = true,
                  .axis = axis, .coord = coord, .prepare = no_prepare, .body = body_rows};
  if (section->n_rows <= 1) {
    kl_emit_span(e, &span, e->begin, e->end);
    return;
  }
  kl_walk walk;
  kl_walk_open(e, &walk, 0, section->n_rows, e->begin, e->end, coord);
  kl_ssa at = coord[axis];
  kl_ssa extent = kl_emit_int(e, section->extents_at + (uint32_t)axis);
  kl_ssa left = LLVMBuildSub(e->builder, e->end, walk.loop.index, "");
  kl_ssa length = smaller(e, LLVMBuildSub(e->builder, extent, at, ""), left);
  kl_emit_span(e, &span, at, add(e, at, length));
  kl_walk_close(e, &walk, length);
}

/* ------------------------------------------------------------------ the function */

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
                      instr->op == KL_OP_INT || instr->op == KL_OP_INDEX ? 0 : 3;
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
    e->n_cols = LLVMBuildMul(e->pre, e->n_cols, kl_emit_int(e, section->extents_at + (uint32_t)d), "");
  kl_ssa round_up = LLVMBuildAdd(e->pre, e->n_cols, kl_emit_const(e, KL_CHUNK - 1), "");
  e->n_chunks = LLVMBuildLShr(e->pre, round_up, kl_emit_const(e, 10), "");
  _Static_assert(KL_CHUNK == 1 << 10, "the shift above");
  e->rows_are_lanes = section->vector == KL_VECTOR_ROWS || section->n_dims == section->n_rows;
  if (phase->kind == KL_PHASE_COLS)
    emit_cols(e, phase);
  else if (phase->kind == KL_PHASE_COMBINE)
    emit_combine(e, phase);
  else if (e->rows_are_lanes)
    emit_rows_as_lanes(e);
  else
    emit_rows(e);
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
    for (uint32_t i = loop_at(e, l)->first; i < loop_at(e, l)->end; i++) {
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
    if (!e->kernel->bufs.data[i].noalias && e->kernel->bufs.data[i].kind != KL_BUF_SCRATCH) continue;
    for (uint32_t j = 0; j < n; j++)
      if (j != i) others[count++] = scopes[j];
    e->scope[i] = LLVMMetadataAsValue(e->context, LLVMMDNodeInContext2(e->context, &scopes[i], 1));
    if (count)
      e->others[i] = LLVMMetadataAsValue(e->context, LLVMMDNodeInContext2(e->context, others, count));
  }
}

static void add_attribute(kl_emit *e, const char *key, const char *value) {
  LLVMAttributeRef attribute = LLVMCreateStringAttribute(
      e->context, key, (unsigned)strlen(key), value, (unsigned)strlen(value));
  LLVMAddAttributeAtIndex(e->function, LLVMAttributeFunctionIndex, attribute);
}

static void declare(kl_emit *e, const char *symbol) {
  LLVMTypeRef params[] = {e->ptr, e->ptr, e->ptr, e->i32, e->i64, e->i64};
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(e->context), params, 6, false);
  e->function = LLVMAddFunction(e->module, symbol, type);
  add_attribute(e, "target-cpu", e->target->cpu);
  add_attribute(e, "target-features", e->target->features);
  add_attribute(e, "no-jump-tables", "true");
  if (e->target->vector_nbytes == 64) add_attribute(e, "prefer-vector-width", "512");
  unsigned nounwind = LLVMGetEnumAttributeKindForName("nounwind", 8);
  LLVMAddAttributeAtIndex(e->function, LLVMAttributeFunctionIndex,
                          LLVMCreateEnumAttribute(e->context, nounwind, 0));
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
