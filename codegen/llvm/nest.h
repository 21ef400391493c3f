/* The nests of loops that phases are made of. Two shapes: where lanes are columns, rows go one by
 * one with scalars, and each COL loop is a span along the last column dim; where lanes are rows,
 * units are taken by spans along the last row dim, and all loops run for a vector of rows at a
 * time. */
#ifndef KL_CODEGEN_LLVM_NEST_H
#define KL_CODEGEN_LLVM_NEST_H

#include "codegen/llvm/emit.h"

/* A COL loop where lanes are columns: what its spans need to know. */
typedef struct kl_columns {
  const kl_loop *loop;
  kl_ssa coord[KL_MAX_RANK];
  uint32_t fold, fold_end; /* its folds */
  unsigned width, n_units;
} kl_columns;

/* columns.c */
void kl_open_columns(kl_emit *e, kl_columns *c, const kl_loop *loop, const kl_ssa *coord);
/* Runs columns [start, stop); with folds they lie in the chunk that begins at `chunk_start`. */
void kl_emit_columns(kl_emit *e, kl_columns *c, kl_ssa start, kl_ssa stop, kl_ssa chunk_start);
/* One chunk of a loop with folds; leaves its partial results in the folds' accumulators. */
void kl_emit_chunk(kl_emit *e, kl_columns *c, kl_ssa chunk);
/* The instructions of a ROW loop, as scalars: all, or only those that the phase needs. */
void kl_emit_row_loop(kl_emit *e, const kl_loop *loop, const kl_ssa *coord, bool all);

/* The phases: columns.c, chunks.c, rows.c */
void kl_emit_rows(kl_emit *e);
void kl_emit_cols(kl_emit *e, const kl_phase *phase);
void kl_emit_combine(kl_emit *e, const kl_phase *phase);
void kl_emit_rows_as_lanes(kl_emit *e);

/* section.c */
const kl_loop *kl_emit_loop_at(const kl_emit *e, unsigned l);
kl_ssa kl_emit_add(kl_emit *e, kl_ssa a, kl_ssa b);
kl_ssa kl_emit_smaller(kl_emit *e, kl_ssa a, kl_ssa b);
/* The folds [first, end) of a loop. */
void kl_emit_folds_of(const kl_emit *e, const kl_loop *loop, uint32_t *out_first,
                      uint32_t *out_end);

#endif
