/* Addresses of tiles: merging dims, dense tiles in place, walking the others run by run. */
#include "codegen/block/view.h"

#include <string.h>

void kl_block_view_dim(kl_block_view *view, int64_t extent, int64_t stride, bool fresh) {
  int last = view->n_dims - 1;
  if (extent == 1 && !fresh && last >= 0) return;
  if (!fresh && last >= 0) {
    if (view->extent[last] == 1) { /* its stride says nothing: take its place */
      view->extent[last] = extent;
      view->stride[last] = stride;
      return;
    }
    if (view->extent[last] * view->stride[last] == stride) {
      view->extent[last] *= extent;
      return;
    }
  }
  view->extent[view->n_dims] = extent;
  view->stride[view->n_dims] = stride;
  view->n_dims++;
}

/* The address part of linear place `linear` of dims [first, end); their coordinates go to `at`. */
static int64_t seek(const kl_block_view *view, int first, int end, int64_t linear, int64_t *at) {
  int64_t bytes = 0;
  for (int d = first; d < end; d++) {
    int64_t coordinate = linear;
    if (d + 1 < end) {
      coordinate = linear % view->extent[d];
      linear /= view->extent[d];
    }
    at[d] = coordinate;
    bytes += coordinate * view->stride[d];
  }
  return bytes;
}

bool kl_block_view_direct(const kl_block_view *view, const kl_block_tile *tile, size_t esize,
                          char **out_ptr, bool *out_uniform) {
  int64_t at[KL_MAX_RANK + 1];
  int64_t stride = view->stride[0];
  if (stride != (int64_t)esize && stride != 0 && tile->len > 1) return false;
  int64_t bytes;
  if (view->n_inner == 1) {
    bytes = tile->first * stride;
  } else {
    bytes = seek(view, 0, view->n_inner, tile->first, at);
    if (at[0] + tile->len > view->extent[0]) return false;
  }
  bool one = tile->len == 1, uniform = stride == 0 && !one;
  if (view->n_dims > view->n_inner)
    bytes += seek(view, view->n_inner, view->n_dims, tile->outer, at);
  if (tile->n_outer > 1) {
    int64_t step = view->n_dims > view->n_inner ? view->stride[view->n_inner] : 0;
    if (view->n_dims - view->n_inner > 1) return false;
    if (step == 0 && (stride == 0 || one))
      uniform = true;
    else if (uniform || step != tile->len * (int64_t)esize)
      return false;
  }
  *out_ptr = view->base + bytes;
  *out_uniform = uniform;
  return true;
}

void kl_block_walk_start(kl_block_walk *walk, const kl_block_view *view,
                         const kl_block_tile *tile) {
  walk->view = view;
  walk->tile = tile;
  walk->outer_addr = view->base + seek(view, view->n_inner, view->n_dims, tile->outer, walk->at);
  walk->addr = walk->outer_addr + seek(view, 0, view->n_inner, tile->first, walk->at);
  walk->left = tile->len;
  walk->outer_left = tile->n_outer - 1;
}

/* One step in dims [first, end), whose dim `first` has just been passed; returns the new address. */
static char *carry_over(kl_block_walk *walk, char *addr, int first, int end) {
  const kl_block_view *view = walk->view;
  for (int d = first; d + 1 < end && walk->at[d] == view->extent[d]; d++) {
    addr += view->stride[d + 1] - view->extent[d] * view->stride[d];
    walk->at[d] = 0;
    walk->at[d + 1]++;
  }
  return addr;
}

/* Enters the next run of the tile. */
static bool next_outer(kl_block_walk *walk) {
  const kl_block_view *view = walk->view;
  if (walk->outer_left == 0) return false;
  walk->outer_left--;
  if (view->n_dims > view->n_inner) {
    walk->at[view->n_inner]++;
    walk->outer_addr += view->stride[view->n_inner];
    walk->outer_addr = carry_over(walk, walk->outer_addr, view->n_inner, view->n_dims);
  }
  walk->addr = walk->outer_addr + seek(view, 0, view->n_inner, walk->tile->first, walk->at);
  walk->left = walk->tile->len;
  return true;
}

int64_t kl_block_walk_next(kl_block_walk *walk, char **out_addr) {
  const kl_block_view *view = walk->view;
  if (walk->left == 0 && !next_outer(walk)) return 0;
  int64_t run = walk->left;
  if (view->n_inner > 1 && view->extent[0] - walk->at[0] < run) run = view->extent[0] - walk->at[0];
  *out_addr = walk->addr;
  walk->left -= run;
  walk->at[0] += run;
  walk->addr = carry_over(walk, walk->addr + run * view->stride[0], 0, view->n_inner);
  return run;
}

void kl_block_coordinates(const kl_block_view *view, const kl_block_tile *tile, int64_t *out) {
  kl_block_walk walk;
  kl_block_walk_start(&walk, view, tile);
  char *addr;
  for (int64_t run; (run = kl_block_walk_next(&walk, &addr)) > 0; out += run) {
    int64_t first = (int64_t)(intptr_t)addr, stride = view->stride[0];
    for (int64_t i = 0; i < run; i++) out[i] = first + i * stride;
  }
}
