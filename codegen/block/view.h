/* How a block maps to memory: an access of the kernel resolved for one run, and walks along it.
 *
 * A tile is what one step works on: `n_outer` runs of `len` consecutive places of the inner space,
 * the outer index ascending. With column vectors the inner space is all dims in row-major order and
 * there is one run; with row vectors the inner space is the rows, the outer one the columns.
 */
#ifndef KL_CODEGEN_BLOCK_VIEW_H
#define KL_CODEGEN_BLOCK_VIEW_H

#include "ir/kernel.h"

typedef struct kl_block_tile {
  int64_t first, len;      /* linear places [first, first + len) of the inner space */
  int64_t outer, n_outer;  /* linear places of the outer space, each a run */
  int64_t n;               /* len * n_outer */
} kl_block_tile;

/* Dims innermost first, neighbours that form one even stride merged: inner ones (at least one),
 * then outer ones. Strides in bytes. */
typedef struct kl_block_view {
  char *base;
  int64_t index_stride; /* for a step of the dynamic index */
  int32_t n_inner, n_dims;
  int64_t extent[KL_MAX_RANK + 1], stride[KL_MAX_RANK + 1];
} kl_block_view;

/* Appends a dim that is slower than those before; `fresh` keeps it apart from them. */
void kl_block_view_dim(kl_block_view *view, int64_t extent, int64_t stride, bool fresh);

/* True when the tile is dense in memory (*out_uniform: or one element for all places), so that
 * *out_ptr can stand for a block. */
bool kl_block_view_direct(const kl_block_view *view, const kl_block_tile *tile, size_t esize,
                          char **out_ptr, bool *out_uniform);

/* The runs of even stride (view->stride[0]) that make up a tile, in order. */
typedef struct kl_block_walk {
  const kl_block_view *view;
  const kl_block_tile *tile;
  char *addr, *outer_addr, *inner_addr; /* the next place; parts of its address */
  int64_t left;                         /* places left in this run of the tile */
  int64_t outer_left;
  int64_t at[KL_MAX_RANK + 1];
} kl_block_walk;

void kl_block_walk_start(kl_block_walk *walk, const kl_block_view *view, const kl_block_tile *tile);
/* The next run; 0 at the end. */
int64_t kl_block_walk_next(kl_block_walk *walk, char **out_addr);

/* Copies between a tile and a block; `index` (or NULL) has the dynamic indices, one for each place
 * or one for all. A uniform source stands for a block filled with it. */
void kl_block_gather(const kl_block_view *view, const kl_block_tile *tile, size_t esize,
                     const int64_t *index, bool index_uniform, void *out);
void kl_block_scatter(const kl_block_view *view, const kl_block_tile *tile, size_t esize,
                      const int64_t *index, bool index_uniform, const void *src, bool uniform);
/* Adds to what is there, place after place. */
void kl_block_scatter_add(const kl_block_view *view, const kl_block_tile *tile, kl_dtype dtype,
                          const int64_t *index, bool index_uniform, const void *src, bool uniform);
/* out[i] = the coordinate that the view's base and strides spell, counted in bytes from NULL. */
void kl_block_coordinates(const kl_block_view *view, const kl_block_tile *tile, int64_t *out);

/* n copies of one element. */
void kl_block_fill(void *out, const void *value, size_t esize, int64_t n);

#endif
