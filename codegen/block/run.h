/* The state of one run of a program; all of it lies in the worker's scratch or on the stack. */
#ifndef KL_CODEGEN_BLOCK_RUN_H
#define KL_CODEGEN_BLOCK_RUN_H

#include "codegen/block/code.h"

/* Where a slot's elements are now: one for each place of the tile, or one for all (`uniform`; also
 * where the tile has only one place). */
typedef struct kl_block_value {
  char *ptr;
  int32_t uniform;
  int32_t passing; /* the block has the elements of the strip at hand only, see steps.c */
} kl_block_value;

/* An elementwise function over all of the tile, not yet called. */
typedef struct kl_block_call {
  kl_block_elem_fn *fn;
  char *out;
  const char *arg[3];
  uint64_t one[3]; /* the elements of uniform operands */
  unsigned uniform;
  uint32_t pitch, arg_pitch[3]; /* bytes an element; 0: each strip has the same place */
} kl_block_call;

typedef struct kl_block_run_state {
  const kl_block_code *code;
  const kl_section *section;
  const kl_block_program *program;
  const kl_kernel_args *args;
  kl_block_value *values;
  kl_block_view *views;
  char *blocks;
  char *scratch; /* as given: the SCRATCH buffers first */
  bool row_vectors;
  int64_t n_rows, n_cols, n_chunks;
  int64_t row, rows; /* the rows of the tile: [row, row + rows) */
  int64_t col, cols; /* its columns, in a COL stage */
  bool by_lanes;     /* the columns come lane by lane, see run.c */
  bool long_tile;    /* the tile may be larger than a block, see run.c */
  kl_block_tile tile;
  int64_t iteration[KL_BLOCK_NESTING];
  uint32_t n_calls;
  kl_block_call calls[KL_BLOCK_CALLS]; /* waiting, see steps.c */
} kl_block_run_state;

static inline char *kl_block_at(const kl_block_run_state *run, uint32_t place) {
  return run->blocks + (size_t)place * 64;
}

/* steps.c: the steps of a stage, for the tile at hand. */
void kl_block_run_steps(kl_block_run_state *run, const kl_block_stage *stage);

/* fold.c: reductions over the tiles of a COL stage, the result in the reduction's row slot. */
void kl_block_fold_begin(kl_block_run_state *run, const kl_block_reduce *reduce);
void kl_block_fold_tile(kl_block_run_state *run, const kl_block_reduce *reduce, const char *x);
/* Row vectors, lane after lane, in memory: `n` columns of the lane at hand, from its first one on,
 * `pitch` bytes apart. */
void kl_block_fold_lane(kl_block_run_state *run, const kl_block_reduce *reduce, const char *x,
                        int64_t pitch, int64_t n);
/* Row vectors, a column a tile, lane after lane: the lane at place `place` of the order is
 * over; `reached` by a column, or not. */
void kl_block_fold_lane_end(kl_block_run_state *run, const kl_block_reduce *reduce, int place,
                            bool reached);
void kl_block_fold_end(kl_block_run_state *run, const kl_block_reduce *reduce);
/* The same in COLS and COMBINE phases: the chunks of a tile of one row, and all chunks of one row. */
void kl_block_fold_partial(kl_block_run_state *run, const kl_block_reduce *reduce, const char *x);
void kl_block_fold_combine(kl_block_run_state *run, const kl_block_reduce *reduce);

#endif
