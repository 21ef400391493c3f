/* Running units of a phase: cuts them into tiles of at most KL_CHUNK elements. */
#include "codegen/block/run.h"

/* --- Views ----------------------------------------------------------------------------------- */

static int64_t stride_of(const kl_block_run_state *run, const kl_block_form *form, int dim) {
  if (form->access == NULL) return dim == form->dim;
  switch (form->access->stride[dim]) {
    case KL_STRIDE_ZERO: return 0;
    case KL_STRIDE_ONE: return form->esize;
    default: return run->args->ints[form->access->ints_at + 1 + (uint32_t)dim] * form->esize;
  }
}

/* Dims [first, end), the last one fastest. */
static void add_dims(const kl_block_run_state *run, const kl_block_form *form, int first, int end,
                     bool fresh, kl_block_view *view) {
  const int64_t *extents = run->args->ints + run->section->extents_at;
  for (int d = end; d-- > first; fresh = false)
    kl_block_view_dim(view, extents[d], stride_of(run, form, d), fresh);
}

/* Where the SCRATCH buffer after the first `n` begins; after the last, tier 0's own scratch. */
static size_t scratch_offset(const kl_block_run_state *run, uint32_t n) {
  size_t nbytes = 0;
  for (uint32_t i = 0; i < n; i++)
    nbytes += kl_scratch_nbytes(run->n_cols, (kl_dtype)run->code->scratch_dtypes.data[i]);
  return nbytes;
}

static void make_view(const kl_block_run_state *run, const kl_block_form *form,
                      kl_block_view *view) {
  const kl_section *section = run->section;
  view->base = NULL;
  view->index_stride = 0;
  view->n_dims = 0;
  if (form->access != NULL) {
    const int64_t *ints = run->args->ints + form->access->ints_at;
    view->base = form->scratch ? run->scratch + scratch_offset(run, form->scratch - 1u)
                               : (char *)run->args->bufs[form->access->buf];
    view->base += ints[0] * form->esize;
    if (form->access->dynamic) view->index_stride = ints[1 + section->n_dims] * form->esize;
  }
  if (!form->columns) {
    add_dims(run, form, 0, section->n_rows, false, view);
  } else if (run->row_vectors) {
    add_dims(run, form, 0, section->n_rows, false, view);
    if (view->n_dims == 0) kl_block_view_dim(view, 1, 0, false);
    view->n_inner = view->n_dims;
    add_dims(run, form, section->n_rows, section->n_dims, true, view);
    return;
  } else if (form->scratch) { /* the rows of a tile lie one behind the other */
    add_dims(run, form, section->n_rows, section->n_dims, false, view);
    kl_block_view_dim(view, run->n_rows, run->n_cols * form->esize, false);
  } else {
    add_dims(run, form, 0, section->n_dims, false, view);
  }
  if (view->n_dims == 0) kl_block_view_dim(view, 1, 0, false);
  view->n_inner = view->n_dims;
}

/* Scratch buffers hold the rows of the tile only. */
static void move_scratch_views(kl_block_run_state *run, int64_t rows) {
  if (run->code->scratch_dtypes.count == 0) return;
  for (uint32_t i = 0; i < run->program->forms.count; i++) {
    const kl_block_form *form = &run->program->forms.data[i];
    if (form->scratch) run->views[i].base -= rows * run->n_cols * form->esize;
  }
}

static int64_t product(const int64_t *extents, int first, int end) {
  int64_t n = 1;
  for (int d = first; d < end; d++) n *= extents[d];
  return n;
}

static void start_run(kl_block_run_state *run, const kl_block_code *code,
                      const kl_kernel_args *args, char *scratch, int phase) {
  const kl_section *section = code->section;
  const int64_t *extents = args->ints + section->extents_at;
  run->section = section;
  run->program = &code->programs[phase];
  run->args = args;
  run->row_vectors = section->vector == KL_VECTOR_ROWS;
  run->n_rows = product(extents, 0, section->n_rows);
  run->n_cols = product(extents, section->n_rows, section->n_dims);
  run->n_chunks = (run->n_cols + KL_CHUNK - 1) / KL_CHUNK;
  run->code = code;
  run->scratch = scratch;
  char *own = scratch + scratch_offset(run, code->scratch_dtypes.count);
  run->values = (kl_block_value *)(own + (size_t)run->program->values_at * 64);
  run->views = (kl_block_view *)(own + (size_t)run->program->views_at * 64);
  run->blocks = own + (size_t)run->program->blocks_at * 64;
  for (uint32_t i = 0; i < run->program->forms.count; i++)
    make_view(run, &run->program->forms.data[i], &run->views[i]);
}

/* --- Tiles ----------------------------------------------------------------------------------- */

static void run_row_stage(kl_block_run_state *run, const kl_block_stage *stage) {
  run->tile = (kl_block_tile){run->row, run->rows, 0, 1, run->rows};
  run->long_tile = false;
  kl_block_run_steps(run, stage);
}

/* The tile of columns [col, col + cols) of the rows at hand; more than one row only with all
 * columns, or with row vectors. */
static void run_columns(kl_block_run_state *run, const kl_block_stage *stage, int64_t col,
                        int64_t cols) {
  run->col = col;
  run->cols = cols;
  int64_t n = run->rows * cols;
  run->long_tile = n > KL_CHUNK;
  if (run->row_vectors)
    run->tile = (kl_block_tile){run->row, run->rows, col, cols, n};
  else
    run->tile = (kl_block_tile){run->row * run->n_cols + col, n, 0, 1, n};
  kl_block_run_steps(run, stage);
}

/* --- Long tiles ------------------------------------------------------------------------------ */

/* Whether the tile of a chain passes from memory to memory. */
static bool passes_in_place(kl_block_run_state *run, const kl_block_stage *stage,
                            const kl_block_tile *tile) {
  kl_block_value *values = run->values;
  for (uint32_t i = stage->first; i < stage->end; i++) {
    const kl_block_step *step = &run->program->steps.data[i];
    uint32_t view = step->kind == KL_STEP_ELEM ? step->into : step->view;
    char *place;
    bool one = true, all_uniform = true;
    if (view != KL_BLOCK_NONE &&
        !kl_block_view_direct(&run->views[view], tile, step->esize, &place, &one))
      return false;
    if (step->kind == KL_STEP_STORE) continue;
    if (step->kind == KL_STEP_EXPAND) one = values[step->arg[0]].uniform;
    if (step->kind == KL_STEP_EXPAND && !one) return false;
    if (step->kind == KL_STEP_ELEM) {
      for (int a = 0; step->mask >> a & 1; a++) all_uniform &= values[step->arg[a]].uniform;
      if (all_uniform || (view != KL_BLOCK_NONE && one)) return false;
      one = false;
    }
    values[step->dst].uniform = one;
  }
  return true;
}

/* Whether the tile of a bare stage is folded where it lies in memory: its operands need no block,
 * so that the tile may be larger than one. */
static bool lies_in_place(const kl_block_run_state *run, const kl_block_stage *stage,
                          const kl_block_tile *tile) {
  for (uint32_t i = stage->first; i < stage->end; i++) {
    const kl_block_step *step = &run->program->steps.data[i];
    char *place;
    bool one;
    if (!kl_block_view_direct(&run->views[step->view], tile, step->esize, &place, &one) || one)
      return false;
  }
  return true;
}

/* Chunks, from `chunk` on and `most` at most, that a tile of one row takes: several where no block
 * needs to hold them. */
static int64_t chunks_in_place(kl_block_run_state *run, const kl_block_stage *stage, int64_t chunk,
                               int64_t most) {
  if (!(stage->bare || stage->chain) || run->row_vectors || run->rows != 1 || most <= 1) return 1;
  if (most > KL_BLOCK_CHUNKS) most = KL_BLOCK_CHUNKS;
  int64_t col = chunk * KL_CHUNK, n = most * KL_CHUNK;
  if (run->n_cols - col < n) n = run->n_cols - col;
  kl_block_tile tile = {run->row * run->n_cols + col, n, 0, 1, n};
  bool fits = stage->bare ? lies_in_place(run, stage, &tile) : passes_in_place(run, stage, &tile);
  return fits ? most : 1;
}

/* --- Columns --------------------------------------------------------------------------------- */

/* Columns that the tile at column `col` takes. With row vectors: a power of two, so that no tile
 * crosses the end of a chunk. */
static int64_t columns_of_tile(kl_block_run_state *run, const kl_block_stage *stage, int64_t col) {
  if (stage->one_by_one) return 1;
  int64_t most = KL_CHUNK / run->rows;
  if (!run->row_vectors && run->rows > 1) return run->n_cols;
  if (!run->row_vectors) {
    int64_t chunk = col / KL_CHUNK;
    return KL_CHUNK * chunks_in_place(run, stage, chunk, run->n_chunks - chunk);
  }
  if (run->rows >= KL_BLOCK_DIRECT_ROWS || most <= 1) return 1;
  return (int64_t)1 << (63 - __builtin_clzll((uint64_t)most));
}

static bool columns_lie_in_place(const kl_block_run_state *run, const kl_block_stage *stage) {
  kl_block_tile tile = {run->row, run->rows, 0, 1, run->rows};
  if (!stage->bare || !lies_in_place(run, stage, &tile)) return false;
  for (uint32_t i = stage->first; i < stage->end; i++) {
    const kl_block_view *view = &run->views[run->program->steps.data[i].view];
    if (view->n_dims != view->n_inner + 1) return false; /* not of an even pitch */
  }
  return true;
}

/* All `n` columns of the lane that begins at column `col`. */
static void fold_lane_in_place(kl_block_run_state *run, const kl_block_stage *stage, int64_t col,
                               int64_t n) {
  kl_block_tile tile = {run->row, run->rows, col, 1, run->rows};
  for (uint32_t i = stage->first; i < stage->end; i++) {
    const kl_block_step *step = &run->program->steps.data[i];
    const kl_block_view *view = &run->views[step->view];
    char *x;
    bool one;
    if (step->kind != KL_STEP_REDUCE) continue;
    kl_block_view_direct(view, &tile, step->esize, &x, &one);
    kl_block_fold_lane(run, &run->program->reduces.data[step->attr], x,
                       KL_LANES * view->stride[view->n_inner], n);
  }
}

/* Columns one by one, but lane after lane, so that a reduction touches one vector of rows instead of
 * 32: lanes in the order in which combining them by halves merges neighbours. */
static void run_by_lanes(kl_block_run_state *run, const kl_block_stage *stage) {
  const kl_block_reduce *reduces = run->program->reduces.data;
  bool in_place = columns_lie_in_place(run, stage);
  for (int64_t chunk = 0; chunk < run->n_cols; chunk += KL_CHUNK) {
    int64_t end = run->n_cols - chunk < KL_CHUNK ? run->n_cols : chunk + KL_CHUNK;
    for (int place = 0; place < KL_LANES; place++) {
      int lane = (place & 1) << 4 | (place & 2) << 2 | (place & 4) | (place & 8) >> 2 | place >> 4;
      bool reached = chunk + lane < end;
      for (int64_t col = chunk + lane; col < end && !in_place; col += KL_LANES)
        run_columns(run, stage, col, 1);
      if (reached && in_place)
        fold_lane_in_place(run, stage, chunk + lane, (end - chunk - lane + KL_LANES - 1) / KL_LANES);
      for (uint32_t r = stage->first_reduce; r < stage->end_reduce; r++)
        kl_block_fold_lane_end(run, &reduces[r], place, reached);
    }
  }
}

/* Whether all that the stage folds may be folded so: positions must ascend. */
static bool can_go_by_lanes(const kl_block_run_state *run, const kl_block_stage *stage) {
  if (!run->row_vectors || stage->kind == KL_LOOP_SEQ || stage->first_reduce == stage->end_reduce)
    return false;
  for (uint32_t r = stage->first_reduce; r < stage->end_reduce; r++)
    if (run->program->reduces.data[r].arg) return false;
  return run->rows >= KL_BLOCK_DIRECT_ROWS;
}

static void run_column_stage(kl_block_run_state *run, const kl_block_stage *stage) {
  const kl_block_reduce *reduces = run->program->reduces.data;
  for (uint32_t r = stage->first_reduce; r < stage->end_reduce; r++)
    kl_block_fold_begin(run, &reduces[r]);
  run->by_lanes = can_go_by_lanes(run, stage);
  if (run->by_lanes) {
    run_by_lanes(run, stage);
  } else {
    for (int64_t col = 0, n; col < run->n_cols; col += n) {
      n = columns_of_tile(run, stage, col);
      if (n > run->n_cols - col) n = run->n_cols - col;
      run_columns(run, stage, col, n);
    }
  }
  for (uint32_t r = stage->first_reduce; r < stage->end_reduce; r++)
    kl_block_fold_end(run, &reduces[r]);
}

/* --- Phases ---------------------------------------------------------------------------------- */

/* Rows that a tile takes. */
static int64_t rows_of_tile(const kl_block_run_state *run) {
  const kl_block_program *program = run->program;
  if (!run->row_vectors)
    return run->n_cols == 0 ? KL_CHUNK : run->n_cols > KL_CHUNK ? 1 : KL_CHUNK / run->n_cols;
  int64_t rows = KL_CHUNK;
  for (uint32_t r = 0; r < program->reduces.count; r++) {
    int64_t most = KL_BLOCK_VECTOR_NBYTES / program->reduces.data[r].esize;
    if (most < rows) rows = most;
  }
  return rows;
}

static bool must_go_one_by_one(const kl_block_program *program) {
  for (uint32_t s = 0; s < program->stages.count; s++)
    if (program->stages.data[s].one_by_one) return true;
  return false;
}

static void run_rows(kl_block_run_state *run, int64_t begin, int64_t end) {
  const kl_block_program *program = run->program;
  int64_t most = rows_of_tile(run);
  if (!run->row_vectors && must_go_one_by_one(program)) most = 1;
  for (int64_t row = begin; row < end; row += run->rows) {
    run->row = row;
    run->rows = end - row < most ? end - row : most;
    move_scratch_views(run, row);
    for (uint32_t s = 0; s < program->stages.count; s++) {
      if (program->stages.data[s].kind == KL_LOOP_ROW)
        run_row_stage(run, &program->stages.data[s]);
      else
        run_column_stage(run, &program->stages.data[s]);
    }
    move_scratch_views(run, -row);
  }
}

/* The last stage is the COL loop; those before it give the row values that it needs. */
static void run_chunks(kl_block_run_state *run, int64_t begin, int64_t end) {
  const kl_block_program *program = run->program;
  uint32_t last = program->stages.count - 1;
  const kl_block_stage *stage = &program->stages.data[last];
  int64_t row = begin / run->n_chunks, chunk = begin % run->n_chunks;
  run->row = -1;
  run->rows = 1;
  for (int64_t unit = begin, n; unit < end; unit += n) {
    if (run->row != row) {
      run->row = row;
      for (uint32_t s = 0; s < last; s++) run_row_stage(run, &program->stages.data[s]);
    }
    n = run->n_chunks - chunk < end - unit ? run->n_chunks - chunk : end - unit;
    n = chunks_in_place(run, stage, chunk, n);
    int64_t col = chunk * KL_CHUNK, left = run->n_cols - col;
    run_columns(run, stage, col, left < n * KL_CHUNK ? left : n * KL_CHUNK);
    chunk += n;
    if (chunk == run->n_chunks) row++, chunk = 0;
  }
}

static void run_combines(kl_block_run_state *run, int64_t begin, int64_t end) {
  const kl_block_program *program = run->program;
  run->rows = 1;
  for (run->row = begin; run->row < end; run->row++) {
    for (uint32_t r = 0; r < program->reduces.count; r++)
      kl_block_fold_combine(run, &program->reduces.data[r]);
    for (uint32_t s = 0; s < program->stages.count; s++)
      run_row_stage(run, &program->stages.data[s]);
  }
}

void kl_block_run(const kl_code *base, const kl_kernel_args *args, char *scratch, int phase,
                  int64_t begin, int64_t end) {
  const kl_block_code *code = (const kl_block_code *)base;
  kl_block_run_state run;
  if (begin >= end || code->programs[phase].stages.count == 0) return;
  start_run(&run, code, args, scratch, phase);
  switch ((kl_phase_kind)run.program->kind) {
    case KL_PHASE_ROWS: run_rows(&run, begin, end); break;
    case KL_PHASE_COLS: run_chunks(&run, begin, end); break;
    case KL_PHASE_COMBINE: run_combines(&run, begin, end); break;
  }
}
