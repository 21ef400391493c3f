/* Reductions in their defined order (docs/numerics.md).
 *
 * A chunk of columns is folded into one partial result a row; partial results are merged like a
 * binary counter, which is the binary tree split at the largest power of two: entry i of the stack
 * holds 2^i chunks. With row vectors the lanes and the entries are vectors of rows. Argmax and
 * argmin keep the best value and its column. */
#include <string.h>

#include "codegen/block/run.h"

enum { SHORT_ROWS = 8 };

typedef struct fold_state {
  int64_t n_chunks; /* folded so far */
  char pad[56];
  char data[]; /* lanes or best values, then the stack */
} fold_state;

/* With row vectors: either all lanes of few rows side by side, or one lane of many rows and the tree
 * of those before it. With column vectors: a tile of short rows, transposed. */
static size_t lanes_nbytes(const kl_block_reduce *reduce, bool row_vectors) {
  if (!row_vectors) return (size_t)KL_CHUNK * reduce->esize;
  size_t all = (size_t)KL_LANES * KL_BLOCK_DIRECT_ROWS * reduce->esize;
  size_t one = (size_t)KL_BLOCK_LANE_LEVELS * KL_BLOCK_VECTOR_NBYTES;
  return all > one ? all : one;
}

size_t kl_block_fold_nbytes(const kl_block_reduce *reduce, bool row_vectors) {
  size_t vector = row_vectors ? KL_BLOCK_VECTOR_NBYTES : sizeof(kl_scalar);
  if (reduce->arg) return sizeof(fold_state) + 3 * (size_t)KL_CHUNK * reduce->esize;
  return sizeof(fold_state) + lanes_nbytes(reduce, row_vectors) + KL_BLOCK_STACK * vector;
}

static kl_scalar integer_limit(kl_dtype dtype, bool largest) {
  kl_scalar v = {0};
  switch (dtype) {
    case KL_BOOL: v.u8 = largest; break;
    case KL_U8: v.u8 = largest ? UINT8_MAX : 0; break;
    case KL_I8: v.u8 = (uint8_t)(largest ? INT8_MAX : INT8_MIN); break;
    case KL_I16: v.bits = (uint16_t)(largest ? INT16_MAX : INT16_MIN); break;
    case KL_I32: v.i32 = largest ? INT32_MAX : INT32_MIN; break;
    default: v.i64 = largest ? INT64_MAX : INT64_MIN; break;
  }
  return v;
}

kl_scalar kl_block_fold_start(kl_op op, kl_dtype dtype) {
  kl_scalar v = {0};
  switch (op) {
    case KL_OP_REDUCE_PROD:
      if (dtype == KL_F32) v.f32 = 1;
      else if (dtype == KL_F64) v.f64 = 1;
      else v.i64 = 1;
      break;
    case KL_OP_REDUCE_ALL: v.u8 = 1; break;
    case KL_OP_REDUCE_MAX:
    case KL_OP_REDUCE_MIN: {
      bool largest = op == KL_OP_REDUCE_MIN;
      if (dtype == KL_F32) v.f32 = largest ? __builtin_inff() : -__builtin_inff();
      else if (dtype == KL_F64) v.f64 = largest ? __builtin_inf() : -__builtin_inf();
      else v = integer_limit(dtype, largest);
      break;
    }
    default: break;
  }
  return v;
}

static fold_state *state_of(const kl_block_run_state *run, const kl_block_reduce *reduce) {
  return (fold_state *)kl_block_at(run, reduce->state);
}

/* The stack of partial results: vectors of `n` elements, entries KL_BLOCK_VECTOR_NBYTES or a scalar apart. */
typedef struct stack {
  char *entries;
  size_t pitch;
  int64_t n;
} stack;

static stack stack_of(const kl_block_run_state *run, const kl_block_reduce *reduce) {
  fold_state *state = state_of(run, reduce);
  size_t pitch = run->row_vectors ? KL_BLOCK_VECTOR_NBYTES : sizeof(kl_scalar);
  return (stack){state->data + lanes_nbytes(reduce, run->row_vectors), pitch, run->row_vectors ? run->rows : 1};
}

/* Adds the partial result of one more chunk; it may change it. */
static void push_partial(const kl_block_reduce *reduce, fold_state *state, stack s, void *partial) {
  int level = 0;
  for (; state->n_chunks >> level & 1; level++)
    reduce->fold.merge(partial, s.entries + (size_t)level * s.pitch, partial, partial, s.n, 0);
  memcpy(s.entries + (size_t)level * s.pitch, partial, (size_t)s.n * reduce->esize);
  state->n_chunks++;
}

/* What is on the stack, the youngest first, into `out`. */
static void fold_stack(const kl_block_reduce *reduce, const fold_state *state, stack s, void *out) {
  int64_t left = state->n_chunks;
  if (left == 0) {
    kl_block_fill(out, &reduce->start, reduce->esize, s.n);
    return;
  }
  int level = __builtin_ctzll((uint64_t)left);
  memcpy(out, s.entries + (size_t)level * s.pitch, (size_t)s.n * reduce->esize);
  for (level++; left >> level; level++)
    if (left >> level & 1)
      reduce->fold.merge(out, s.entries + (size_t)level * s.pitch, out, out, s.n, 0);
}

void kl_block_fold_begin(kl_block_run_state *run, const kl_block_reduce *reduce) {
  state_of(run, reduce)->n_chunks = 0;
  if (!reduce->arg) return;
  int64_t *position = (int64_t *)kl_block_at(run, reduce->block);
  for (int64_t r = 0; r < run->rows; r++) position[r] = -1;
}

/* --- Row vectors ----------------------------------------------------------------------------- */

/* The lanes of a chunk, of which `live` were reached, by halves; those not reached hold the start
 * value, which changes nothing: a lane that began at +0 is never -0. */
static void fold_lanes(const kl_block_reduce *reduce, char *lanes, int64_t live, int64_t rows) {
  int64_t nbytes = rows * reduce->esize;
  for (int64_t half = KL_LANES / 2; half > 0; half /= 2) {
    if (live <= half) continue;
    reduce->fold.merge(lanes, lanes, lanes + half * nbytes, lanes, (live - half) * rows, 0);
    live = half;
  }
}

/* Columns [col, col + cols) of one chunk, each `rows` long, into their lanes, which lie side by
 * side: neighbouring columns go to neighbouring lanes at once. */
static void fold_columns(kl_block_run_state *run, const kl_block_reduce *reduce, const char *x) {
  fold_state *state = state_of(run, reduce);
  int64_t rows = run->rows, nbytes = rows * reduce->esize, at = run->col % KL_CHUNK;
  for (int64_t k = 0; k < run->cols;) {
    int64_t lane = (at + k) % KL_LANES;
    int64_t n = KL_LANES - lane < run->cols - k ? KL_LANES - lane : run->cols - k;
    char *to = state->data + lane * nbytes;
    if (at + k < KL_LANES)
      reduce->fold.merge(to, &reduce->start, x + k * nbytes, to, n * rows, 1);
    else
      reduce->fold.merge(to, to, x + k * nbytes, to, n * rows, 0);
    k += n;
  }
  int64_t in_chunk = at + run->cols;
  if (in_chunk < KL_CHUNK && run->col + run->cols < run->n_cols) return;
  fold_lanes(reduce, state->data, in_chunk < KL_LANES ? in_chunk : KL_LANES, rows);
  push_partial(reduce, state, stack_of(run, reduce), state->data);
}

void kl_block_fold_lane(kl_block_run_state *run, const kl_block_reduce *reduce, const char *x,
                        int64_t pitch, int64_t n) {
  char *lane = state_of(run, reduce)->data;
  kl_block_fill(lane, &reduce->start, reduce->esize, run->rows);
  reduce->fold.columns(lane, x, pitch, n, run->rows);
}

/* A column of the lane at hand. */
static void fold_lane_column(kl_block_run_state *run, const kl_block_reduce *reduce, const char *x) {
  char *lane = state_of(run, reduce)->data;
  if (run->col % KL_CHUNK < KL_LANES)
    reduce->fold.merge(lane, &reduce->start, x, lane, run->rows, 1);
  else
    reduce->fold.merge(lane, lane, x, lane, run->rows, 0);
}

/* Lanes come in the order 0, 16, 8, 24, 4, ..., in which combining by halves merges neighbours: the
 * tree of a binary counter. */
void kl_block_fold_lane_end(kl_block_run_state *run, const kl_block_reduce *reduce, int place,
                            bool reached) {
  fold_state *state = state_of(run, reduce);
  char *lane = state->data, *tree = lane;
  if (!reached) kl_block_fill(lane, &reduce->start, reduce->esize, run->rows);
  for (; place & 1; place >>= 1) {
    tree += KL_BLOCK_VECTOR_NBYTES;
    reduce->fold.merge(lane, tree, lane, lane, run->rows, 0);
  }
  if (tree == lane + (KL_BLOCK_LANE_LEVELS - 1) * KL_BLOCK_VECTOR_NBYTES)
    push_partial(reduce, state, stack_of(run, reduce), lane);
  else
    memcpy(tree + KL_BLOCK_VECTOR_NBYTES, lane, (size_t)run->rows * reduce->esize);
}

static void fold_arg_columns(kl_block_run_state *run, const kl_block_reduce *reduce,
                             const char *x) {
  int64_t *position = (int64_t *)kl_block_at(run, reduce->block);
  for (int64_t k = 0; k < run->cols; k++)
    reduce->fold.better(x + k * run->rows * reduce->esize, run->rows, run->col + k,
                        state_of(run, reduce)->data, position);
}

/* --- Column vectors -------------------------------------------------------------------------- */

/* Many rows shorter than the lanes: a vector of rows for each column is faster than a vector of
 * columns for each row. */
static bool is_short(const kl_block_run_state *run) {
  return run->rows >= SHORT_ROWS && run->cols <= KL_LANES;
}

static void transpose(const kl_block_run_state *run, const char *x, size_t esize, char *out) {
  int64_t pitch = run->cols * (int64_t)esize;
  kl_block_view view = {.base = (char *)x, .n_inner = 1, .n_dims = 2};
  view.extent[0] = run->rows, view.stride[0] = pitch;
  view.extent[1] = run->cols, view.stride[1] = (int64_t)esize;
  kl_block_tile tile = {0, run->rows, 0, run->cols, run->rows * run->cols};
  kl_block_gather(&view, &tile, esize, NULL, true, out);
}

static void fold_short_rows(kl_block_run_state *run, const kl_block_reduce *reduce, const char *x) {
  char *lanes = state_of(run, reduce)->data;
  int64_t rows = run->rows;
  transpose(run, x, reduce->esize, lanes);
  reduce->fold.merge(lanes, &reduce->start, lanes, lanes, rows * run->cols, 1);
  fold_lanes(reduce, lanes, run->cols, rows);
  memcpy(kl_block_at(run, reduce->block), lanes, (size_t)rows * reduce->esize);
}

static void fold_short_arg_rows(kl_block_run_state *run, const kl_block_reduce *reduce,
                                const char *x) {
  char *columns = state_of(run, reduce)->data + 2 * (size_t)KL_CHUNK * reduce->esize;
  transpose(run, x, reduce->esize, columns);
  fold_arg_columns(run, reduce, columns);
}

static void fold_arg_rows(kl_block_run_state *run, const kl_block_reduce *reduce, const char *x,
                          char *best, int64_t *position) {
  char *extremes = state_of(run, reduce)->data + (size_t)KL_CHUNK * reduce->esize;
  size_t esize = reduce->esize;
  reduce->fold.chunk(x, run->rows, run->cols, extremes);
  for (int64_t r = 0; r < run->rows; r++) {
    const char *row = x + (size_t)(r * run->cols) * esize, *extreme = extremes + (size_t)r * esize;
    int64_t at = run->col + reduce->fold.find(row, run->cols, extreme);
    reduce->fold.better(extreme, 1, at, best + (size_t)r * esize, position + r);
  }
}

/* The chunks of a tile of one row, one behind the other; returns how many. */
static int64_t fold_chunks(const kl_block_run_state *run, const kl_block_reduce *reduce,
                           const char *x, void *out) {
  int64_t whole = run->cols / KL_CHUNK, rest = run->cols % KL_CHUNK;
  if (whole > 0) reduce->fold.chunk(x, whole, KL_CHUNK, out);
  if (rest == 0) return whole;
  reduce->fold.chunk(x + whole * KL_CHUNK * reduce->esize, 1, rest,
                     (char *)out + whole * reduce->esize);
  return whole + 1;
}

/* Several rows make one tile with all of their columns; one row is folded chunk by chunk. */
static void fold_rows(kl_block_run_state *run, const kl_block_reduce *reduce, const char *x) {
  fold_state *state = state_of(run, reduce);
  if (run->rows > 1) {
    state->n_chunks = 1;
    if (is_short(run)) {
      fold_short_rows(run, reduce, x);
      return;
    }
    reduce->fold.chunk(x, run->rows, run->cols, kl_block_at(run, reduce->block));
    return;
  }
  kl_scalar partials[KL_BLOCK_CHUNKS];
  int64_t n = fold_chunks(run, reduce, x, partials);
  for (int64_t i = 0; i < n; i++)
    push_partial(reduce, state, stack_of(run, reduce), (char *)partials + i * reduce->esize);
}

void kl_block_fold_tile(kl_block_run_state *run, const kl_block_reduce *reduce, const char *x) {
  if (reduce->arg && run->row_vectors)
    fold_arg_columns(run, reduce, x);
  else if (reduce->arg && is_short(run))
    fold_short_arg_rows(run, reduce, x);
  else if (reduce->arg)
    fold_arg_rows(run, reduce, x, state_of(run, reduce)->data,
                  (int64_t *)kl_block_at(run, reduce->block));
  else if (run->by_lanes)
    fold_lane_column(run, reduce, x);
  else if (run->row_vectors)
    fold_columns(run, reduce, x);
  else
    fold_rows(run, reduce, x);
}

void kl_block_fold_end(kl_block_run_state *run, const kl_block_reduce *reduce) {
  fold_state *state = state_of(run, reduce);
  char *out = kl_block_at(run, reduce->block);
  if (reduce->arg) {
    int64_t *position = (int64_t *)out;
    for (int64_t r = 0; r < run->rows; r++)
      if (position[r] < 0) position[r] = 0;
  } else if (run->row_vectors || run->rows == 1) {
    fold_stack(reduce, state, stack_of(run, reduce), out);
  } else if (state->n_chunks == 0) {
    kl_block_fill(out, &reduce->start, reduce->esize, run->rows);
  }
  run->values[reduce->dst] = (kl_block_value){out, run->rows == 1, 0};
}

/* --- Chunks apart ---------------------------------------------------------------------------- */

static kl_scalar *partial_at(const kl_block_run_state *run, const kl_block_reduce *reduce,
                             int64_t chunk) {
  int64_t fold = run->row * run->section->n_reduces + reduce->number;
  return &run->args->partials[(fold * run->n_chunks + chunk) * 2];
}

void kl_block_fold_partial(kl_block_run_state *run, const kl_block_reduce *reduce, const char *x) {
  kl_scalar *partial = partial_at(run, reduce, run->col / KL_CHUNK), chunks[KL_BLOCK_CHUNKS];
  if (reduce->arg) {
    partial[0].bits = 0;
    partial[1].i64 = -1;
    fold_arg_rows(run, reduce, x, (char *)&partial[0], &partial[1].i64);
    return;
  }
  int64_t n = fold_chunks(run, reduce, x, chunks);
  for (int64_t i = 0; i < n; i++, partial += 2) {
    partial[0].bits = 0;
    partial[1].i64 = -1;
    memcpy(partial, (char *)chunks + i * reduce->esize, reduce->esize);
  }
}

void kl_block_fold_combine(kl_block_run_state *run, const kl_block_reduce *reduce) {
  kl_scalar *result = &run->args->frame[run->row * run->section->n_reduces + reduce->number];
  kl_scalar best = {0}, folded = {0};
  int64_t position = -1;
  fold_state *state = state_of(run, reduce);
  state->n_chunks = 0;
  for (int64_t chunk = 0; chunk < run->n_chunks; chunk++) {
    kl_scalar *from = partial_at(run, reduce, chunk), partial = *from;
    if (reduce->arg)
      reduce->fold.better(&partial, 1, from[1].i64, &best, &position);
    else
      push_partial(reduce, state, stack_of(run, reduce), &partial);
  }
  if (reduce->arg)
    folded.i64 = position < 0 ? 0 : position;
  else
    fold_stack(reduce, state, stack_of(run, reduce), &folded);
  *result = folded;
}
