/* One instruction after the other, each over a whole tile. */
#include <string.h>

#include "codegen/block/run.h"

/* Elementwise steps wait until something else needs memory as they leave it; then all of them take
 * turns, strip by strip. Each element still passes through them in their order, and the elements
 * of a tile do not depend on each other. The results of a long tile that stay in blocks only pass
 * from step to step: all strips use the same part of the block. */
static void run_calls(kl_block_run_state *run) {
  uint32_t n_calls = run->n_calls;
  int64_t n = run->tile.n, strip = n_calls > 1 ? KL_BLOCK_STRIP : KL_CHUNK;
  for (int64_t at = 0; at < n && n_calls > 0; at += strip) {
    int64_t len = n - at < strip ? n - at : strip;
    for (uint32_t i = 0; i < n_calls; i++) {
      const kl_block_call *call = &run->calls[i];
      call->fn(call->out + at * call->pitch, call->arg[0] + at * call->arg_pitch[0],
               call->arg[1] + at * call->arg_pitch[1], call->arg[2] + at * call->arg_pitch[2], len,
               call->uniform);
    }
  }
  run->n_calls = 0;
}

static void add_call(kl_block_run_state *run, const kl_block_step *step, char *out,
                     unsigned uniform, bool passing) {
  if (run->n_calls == KL_BLOCK_CALLS) run_calls(run);
  kl_block_call *call = &run->calls[run->n_calls++];
  call->fn = step->fn;
  call->out = out;
  call->pitch = passing ? 0 : step->esize;
  call->uniform = uniform;
  for (int a = 0; a < 3; a++) {
    const kl_block_value *value = &run->values[step->arg[a]];
    call->arg[a] = value->ptr;
    if (uniform >> a & 1) { /* its block may be the result's, and be written before the last turn */
      memcpy(&call->one[a], value->ptr, step->arg_esize[a]);
      call->arg[a] = (const char *)&call->one[a];
    }
    call->arg_pitch[a] = value->passing || uniform >> a & 1 ? 0 : step->arg_esize[a];
  }
}

static void step_elem(kl_block_run_state *run, const kl_block_step *step) {
  kl_block_value *values = run->values;
  const kl_block_value *a = &values[step->arg[0]], *b = &values[step->arg[1]],
                       *c = &values[step->arg[2]];
  unsigned uniform = (unsigned)(a->uniform | b->uniform << 1 | c->uniform << 2) & step->mask;
  bool passing = run->long_tile;
  char *out = kl_block_at(run, step->block);
  if (uniform == step->mask) {
    run_calls(run);
    step->fn(out, a->ptr, b->ptr, c->ptr, 1, 0);
    values[step->dst] = (kl_block_value){out, 1, 0};
    return;
  }
  if (step->into != KL_BLOCK_NONE) {
    char *place;
    bool one;
    if (kl_block_view_direct(&run->views[step->into], &run->tile, step->esize, &place, &one) &&
        !one) {
      out = place;
      passing = false;
    }
  }
  add_call(run, step, out, uniform, passing);
  values[step->dst] = (kl_block_value){out, 0, passing};
}

static void step_load(kl_block_run_state *run, const kl_block_step *step) {
  const kl_block_view *view = &run->views[step->view];
  kl_block_value *dst = &run->values[step->dst];
  const int64_t *index = NULL;
  int64_t shift = 0;
  bool index_uniform = true;
  if (step->arg[0] != KL_BLOCK_NONE) {
    run_calls(run);
    index = (const int64_t *)run->values[step->arg[0]].ptr;
    index_uniform = run->values[step->arg[0]].uniform;
    shift = index_uniform ? *index * view->index_stride : 0;
  }
  char *block = kl_block_at(run, step->block), *place;
  bool one;
  if (index_uniform && kl_block_view_direct(view, &run->tile, step->esize, &place, &one)) {
    one |= run->tile.n == 1;
    *dst = (kl_block_value){place + shift, one, 0};
    if (!step->copies) return;
    run_calls(run);
    memcpy(block, place + shift, (one ? 1 : (size_t)run->tile.n) * step->esize);
    dst->ptr = block;
    return;
  }
  run_calls(run);
  kl_block_gather(view, &run->tile, step->esize, index, index_uniform, block);
  *dst = (kl_block_value){block, run->tile.n == 1, 0};
}

/* One index a row: each row of the tile is a plain load of its own. */
static void step_load_rows(kl_block_run_state *run, const kl_block_step *step) {
  const kl_block_value *index = &run->values[step->arg[0]];
  if (index->uniform || run->rows == 1) {
    step_load(run, step);
    return;
  }
  char *block = kl_block_at(run, step->block);
  kl_block_tile row = run->tile;
  row.len = row.n = run->cols;
  for (int64_t r = 0; r < run->rows; r++) {
    kl_block_gather(&run->views[step->view], &row, step->esize, (int64_t *)index->ptr + r, true,
                    block + (size_t)(r * run->cols) * step->esize);
    row.first += run->cols;
  }
  run->values[step->dst] = (kl_block_value){block, run->tile.n == 1, 0};
}

static void step_store(kl_block_run_state *run, const kl_block_step *step) {
  const kl_block_value *src = &run->values[step->arg[0]];
  const kl_block_view *view = &run->views[step->view];
  const int64_t *index = NULL;
  bool index_uniform = true, one;
  if (step->arg[1] != KL_BLOCK_NONE) {
    index = (const int64_t *)run->values[step->arg[1]].ptr;
    index_uniform = run->values[step->arg[1]].uniform;
  }
  if (step->kind == KL_STEP_STORE_ADD) {
    kl_block_scatter_add(view, &run->tile, (kl_dtype)step->dtype, index, index_uniform, src->ptr,
                         src->uniform);
    return;
  }
  char *place;
  if (index == NULL && !src->uniform &&
      kl_block_view_direct(view, &run->tile, step->esize, &place, &one) && !one) {
    if (place != src->ptr) memmove(place, src->ptr, (size_t)run->tile.n * step->esize);
    return;
  }
  kl_block_scatter(view, &run->tile, step->esize, index, index_uniform, src->ptr, src->uniform);
}

/* A row value for each place of the tile. */
static void step_expand(kl_block_run_state *run, const kl_block_step *step) {
  const kl_block_value *src = &run->values[step->arg[0]];
  kl_block_value *dst = &run->values[step->dst];
  size_t esize = step->esize;
  char *to = kl_block_at(run, step->block);
  if (src->uniform || run->tile.n == run->rows) {
    *dst = *src;
    return;
  }
  run_calls(run);
  if (run->row_vectors) {
    for (int64_t k = 0; k < run->cols; k++, to += (size_t)run->rows * esize)
      memcpy(to, src->ptr, (size_t)run->rows * esize);
  } else {
    for (int64_t r = 0; r < run->rows; r++, to += (size_t)run->cols * esize)
      kl_block_fill(to, src->ptr + (size_t)r * esize, esize, run->cols);
  }
  *dst = (kl_block_value){kl_block_at(run, step->block), 0, 0};
}

/* Into the slot's own block, in full. */
static void step_copy(kl_block_run_state *run, const kl_block_step *step) {
  kl_block_value src = run->values[step->arg[0]];
  char *block = kl_block_at(run, step->block);
  if (src.uniform && run->tile.n > 1) {
    uint64_t element = 0; /* it may lie in the block itself */
    memcpy(&element, src.ptr, step->esize);
    kl_block_fill(block, &element, step->esize, run->tile.n);
  } else if (src.ptr != block) {
    memcpy(block, src.ptr, (size_t)run->tile.n * step->esize);
  }
  run->values[step->dst] = (kl_block_value){block, run->tile.n == 1, 0};
}

static void step_index(kl_block_run_state *run, const kl_block_step *step) {
  char *block = kl_block_at(run, step->block);
  kl_block_coordinates(&run->views[step->view], &run->tile, (int64_t *)block);
  run->values[step->dst] = (kl_block_value){block, run->tile.n == 1, 0};
}

static void step_reduce(kl_block_run_state *run, const kl_block_step *step) {
  const kl_block_reduce *reduce = &run->program->reduces.data[step->attr];
  const kl_block_value *src = &run->values[step->arg[0]];
  const char *x = src->ptr;
  if (src->uniform && run->tile.n > 1) {
    char *block = kl_block_at(run, step->block);
    kl_block_fill(block, src->ptr, step->esize, run->tile.n);
    x = block;
  }
  if (run->program->kind == KL_PHASE_COLS)
    kl_block_fold_partial(run, reduce, x);
  else
    kl_block_fold_tile(run, reduce, x);
}

/* A scalar, an int or a result in the frame: where it lies. */
static char *argument(const kl_block_run_state *run, const kl_block_step *step) {
  const kl_kernel_args *args = run->args;
  if (step->kind == KL_STEP_INT) return (char *)&args->ints[step->attr];
  if (step->kind == KL_STEP_FRAME)
    return (char *)&args->frame[run->row * run->section->n_reduces + step->attr];
  int64_t shift = step->extra ? step->extra * run->iteration[step->depth - 1] : 0;
  return (char *)&args->scalars[step->attr + shift];
}

/* All but those that often only set addresses. */
static void run_other(kl_block_run_state *run, const kl_block_step *step) {
  run_calls(run);
  switch ((kl_block_step_kind)step->kind) {
    case KL_STEP_LOAD_ROWS: step_load_rows(run, step); break;
    case KL_STEP_STORE:
    case KL_STEP_STORE_ADD: step_store(run, step); break;
    case KL_STEP_INDEX: step_index(run, step); break;
    case KL_STEP_REDUCE: step_reduce(run, step); break;
    case KL_STEP_COPY: step_copy(run, step); break;
    default: break;
  }
}

void kl_block_run_steps(kl_block_run_state *run, const kl_block_stage *stage) {
  const kl_block_step *steps = run->program->steps.data;
  run->n_calls = 0;
  for (uint32_t i = stage->first; i < stage->end; i++) {
    const kl_block_step *step = &steps[i];
    switch ((kl_block_step_kind)step->kind) {
      case KL_STEP_ELEM: step_elem(run, step); break;
      case KL_STEP_LOAD: step_load(run, step); break;
      case KL_STEP_EXPAND: step_expand(run, step); break;
      case KL_STEP_SCALAR:
      case KL_STEP_INT:
      case KL_STEP_FRAME:
        run->values[step->dst] = (kl_block_value){argument(run, step), 1, 0};
        break;
      case KL_STEP_REPEAT:
        run->iteration[step->depth] = 0;
        if (run->args->ints[step->attr] <= 0) i = step->extra;
        break;
      case KL_STEP_END:
        if (++run->iteration[step->depth] < run->args->ints[steps[step->extra].attr])
          i = step->extra; /* its REPEAT; goes on behind it */
        break;
      default: run_other(run, step); break;
    }
  }
  run_calls(run);
}
