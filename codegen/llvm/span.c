/* A run along the vector axis: full bodies of n_units vectors, then the rest.
 *
 * Folds over the axis live in memory, 32 lanes each. A full body of all 32 lanes carries them in
 * registers; any smaller body takes the lanes it covers from memory and puts them back.
 */
#include "codegen/llvm/emit.h"

/* One kind of body of the span: its width, and how many vectors. */
typedef struct piece {
  unsigned width, n_units;
  bool masked;
} piece;

static void set_units(kl_emit *e, const kl_span *s, const piece *p, kl_ssa index, kl_ssa stop,
                      kl_ssa column, kl_lanes *units) {
  LLVMBuilderRef b = e->builder;
  for (unsigned u = 0; u < p->n_units; u++) {
    kl_lanes *lanes = &units[u];
    *lanes = (kl_lanes){.width = p->width, .axis = s->axis, .unit = u, .values = e->unit_values[u]};
    for (int d = 0; d < e->section->n_dims; d++) lanes->coord[d] = s->coord[d];
    kl_ssa step = kl_emit_const(e, u * p->width);
    kl_ssa at = u ? LLVMBuildAdd(b, index, step, "") : index;
    if (s->axis >= 0) lanes->coord[s->axis] = at;
    if (column)
      lanes->column = LLVMBuildAdd(b, column, LLVMConstInt(e->i32, u * p->width, false), "");
    if (p->masked) lanes->mask = kl_emit_mask(e, p->width, LLVMBuildSub(b, stop, at, ""));
  }
}

static kl_ssa lane_of(kl_emit *e, kl_ssa column) {
  kl_ssa lane = LLVMBuildAnd(e->builder, column, LLVMConstInt(e->i32, KL_LANES - 1, false), "");
  return LLVMBuildZExt(e->builder, lane, e->i64, "");
}

/* Folds carried in registers: two phis each unit, the second for the position. */
typedef struct carry {
  kl_ssa *init, *phi;
} carry;

static bool carry_begin(kl_emit *e, const kl_span *s, const piece *p, carry *c) {
  unsigned n = (s->fold_end - s->fold) * p->n_units * 2;
  c->init = kl_arena_alloc(&e->arena, 2 * n * sizeof *c->init);
  if (!c->init) return false;
  c->phi = c->init + n;
  for (uint32_t f = s->fold; f < s->fold_end; f++)
    kl_fold_fetch(e, &e->folds[f], p->width, p->n_units, kl_emit_const(e, 0));
  return true;
}

static void carry_in(kl_emit *e, const kl_span *s, const piece *p, const kl_ir_loop *loop,
                     carry *c) {
  unsigned at = 0;
  for (uint32_t f = s->fold; f < s->fold_end; f++) {
    kl_fold *fold = &e->folds[f];
    for (unsigned u = 0; u < p->n_units; u++, at += 2) {
      c->init[at] = fold->acc[u];
      fold->acc[u] = c->phi[at] = kl_ir_loop_carry(e, loop, fold->acc[u]);
      if (!fold->positions) continue;
      c->init[at + 1] = fold->acc_pos[u];
      fold->acc_pos[u] = c->phi[at + 1] = kl_ir_loop_carry(e, loop, fold->acc_pos[u]);
    }
  }
}

static void carry_out(kl_emit *e, const kl_span *s, const piece *p, const kl_ir_loop *loop,
                      const carry *c) {
  unsigned at = 0;
  for (uint32_t f = s->fold; f < s->fold_end; f++) {
    kl_fold *fold = &e->folds[f];
    for (unsigned u = 0; u < p->n_units; u++, at += 2) {
      fold->acc[u] = kl_ir_loop_result(e, loop, c->phi[at], c->init[at], fold->acc[u]);
      if (fold->positions)
        fold->acc_pos[u] =
            kl_ir_loop_result(e, loop, c->phi[at + 1], c->init[at + 1], fold->acc_pos[u]);
    }
  }
  for (uint32_t f = s->fold; f < s->fold_end; f++)
    kl_fold_put(e, &e->folds[f], p->width, p->n_units, kl_emit_const(e, 0));
}

static kl_ssa column_at(kl_emit *e, kl_ssa column, kl_ssa start, kl_ssa index) {
  kl_ssa done = LLVMBuildSub(e->builder, index, start, "");
  return LLVMBuildAdd(e->builder, column, LLVMBuildTrunc(e->builder, done, e->i32, ""), "");
}

/* Runs bodies of one kind over [start, stop); `column` is that of `start`. */
static void run_piece(kl_emit *e, const kl_span *s, const piece *p, kl_ssa start, kl_ssa stop,
                      kl_ssa column) {
  bool folds = s->fold < s->fold_end;
  bool carried = folds && p->width * p->n_units == KL_LANES;
  carry c = {0};
  if (carried && !carry_begin(e, s, p, &c)) {
    e->failed = true;
    return;
  }
  kl_ir_loop loop;
  kl_ir_loop_guard(e, &loop, start, stop);
  s->prepare(e, s->user, p->width);
  kl_ir_loop_enter(e, &loop, start);
  if (carried) carry_in(e, s, p, &loop, &c);
  kl_ssa here = column ? column_at(e, column, start, loop.index) : NULL;
  kl_lanes units[KL_EMIT_UNROLL];
  set_units(e, s, p, loop.index, stop, here, units);
  for (uint32_t f = s->fold; !carried && f < s->fold_end; f++)
    kl_fold_fetch(e, &e->folds[f], p->width, p->n_units, lane_of(e, here));
  s->body(e, s->user, units, p->n_units);
  for (uint32_t f = s->fold; !carried && f < s->fold_end; f++)
    kl_fold_put(e, &e->folds[f], p->width, p->n_units, lane_of(e, here));
  kl_ssa step = kl_emit_const(e, p->width * p->n_units);
  kl_ir_loop_close(e, &loop, LLVMBuildAdd(e->builder, loop.index, step, ""));
  if (carried) carry_out(e, s, p, &loop, &c);
}

/* Where full bodies from `start` end. */
static kl_ssa full_end(kl_emit *e, unsigned step, kl_ssa start, kl_ssa stop) {
  LLVMBuilderRef b = e->builder;
  kl_ssa n = LLVMBuildSub(b, stop, start, "");
  kl_ssa full = LLVMBuildAnd(b, n, kl_emit_const(e, -(int64_t)step), "");
  return LLVMBuildAdd(b, start, full, "");
}

/* The run may start in any lane: single columns up to lane 0, full bodies, single columns. */
static void run_unaligned(kl_emit *e, const kl_span *s, const piece *full, kl_ssa start,
                          kl_ssa stop) {
  LLVMBuilderRef b = e->builder;
  piece single = {.width = 1, .n_units = 1};
  unsigned step = full->width * full->n_units;
  kl_ir_loop loop;
  kl_ir_loop_guard(e, &loop, start, stop);
  kl_ir_loop_enter(e, &loop, start);
  kl_ssa column = column_at(e, s->column, start, loop.index);
  kl_ssa in_step = LLVMBuildAnd(b, column, LLVMConstInt(e->i32, step - 1, false), "");
  kl_ssa aligned = LLVMBuildICmp(b, LLVMIntEQ, in_step, LLVMConstInt(e->i32, 0, false), "");
  kl_ssa middle = LLVMBuildSelect(b, aligned, full_end(e, step, loop.index, stop), loop.index, "");
  run_piece(e, s, full, loop.index, middle, column);
  kl_ssa rest = LLVMBuildSub(b, kl_emit_const(e, step), LLVMBuildZExt(b, in_step, e->i64, ""), "");
  kl_ssa next = LLVMBuildAdd(b, middle, rest, "");
  kl_ssa beyond = LLVMBuildICmp(b, LLVMIntSGT, next, stop, "");
  next = LLVMBuildSelect(b, beyond, stop, next, "");
  run_piece(e, s, &single, middle, next, column_at(e, column, loop.index, middle));
  kl_ir_loop_close(e, &loop, next);
}

void kl_emit_span(kl_emit *e, const kl_span *s, kl_ssa start, kl_ssa stop) {
  piece full = {.width = s->width, .n_units = s->n_units};
  unsigned step = s->width * s->n_units;
  if (step == 1) {
    run_piece(e, s, &full, start, stop, s->column);
    return;
  }
  if (!s->aligned) {
    run_unaligned(e, s, &full, start, stop);
    return;
  }
  kl_ssa middle = full_end(e, step, start, stop);
  run_piece(e, s, &full, start, middle, s->column);
  piece tail = {.width = s->masked ? s->width : 1, .n_units = 1, .masked = s->masked};
  kl_ssa column = s->column ? column_at(e, s->column, start, middle) : NULL;
  run_piece(e, s, &tail, middle, stop, column);
}
