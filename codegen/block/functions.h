/* The precompiled vector functions of tier 0, and the choice among their levels.
 *
 * One function for each (operation, dtype), over a block of up to KL_CHUNK elements. They are
 * compiled once for each level of the instruction set from the same source, codegen/math, so all
 * levels give the same bits. The choice is made when code is prepared.
 */
#ifndef KL_CODEGEN_BLOCK_FUNCTIONS_H
#define KL_CODEGEN_BLOCK_FUNCTIONS_H

#include "ir/kernel.h"

/* out[i] = op(a[i], b[i], c[i]) for i < n. Bit j of `uniform` says that operand j is one value for
 * all i; never all of them (that is n = 1 and no bit). `out` may be an operand, but not overlap
 * one otherwise. Operands that the operation does not have are not touched. */
typedef void kl_block_elem_fn(void *out, const void *a, const void *b, const void *c, int64_t n,
                              unsigned uniform);

/* out[r] = x[r][0..cols) folded in the defined order; cols <= KL_CHUNK: one chunk a row. */
typedef void kl_block_chunk_fn(const void *x, int64_t rows, int64_t cols, void *out);

/* lane[r] = op(lane[r], x[k][r]) for r < rows, for each of the columns k < cols in turn; they lie
 * `pitch` bytes apart. */
typedef void kl_block_columns_fn(void *lane, const void *x, int64_t pitch, int64_t cols,
                                 int64_t rows);

/* Takes one more column of n rows into a running argmax or argmin: where x[i] beats best[i] (or
 * position[i] is -1, nothing seen yet), best[i] = x[i] and position[i] = at. */
typedef void kl_block_better_fn(const void *x, int64_t n, int64_t at, void *best, int64_t *position);

/* The first place in x[0..n) that holds *value (NaN: that is a NaN); it must be there. */
typedef int64_t kl_block_find_fn(const void *x, int64_t n, const void *value);

typedef struct kl_block_fold {
  kl_block_chunk_fn *chunk; /* arg reductions: the extreme value itself */
  kl_block_elem_fn *merge;  /* combines two partial results (not for arg reductions) */
  kl_block_columns_fn *columns; /* (not for arg reductions) */
  kl_block_better_fn *better; /* arg reductions only */
  kl_block_find_fn *find;     /* arg reductions only */
} kl_block_fold;

enum { KL_BLOCK_FOLDS = KL_OP_REDUCE_ARGMIN - KL_OP_REDUCE_SUM + 1 };

/* All functions of a level; NULL where the operation does not take the dtype. */
typedef struct kl_block_level {
  kl_block_elem_fn *const (*elem)[KL_DTYPE_COUNT];       /* [op][dtype of operand 0] */
  kl_block_elem_fn *const (*cast)[KL_DTYPE_COUNT];       /* [from][to] */
  const kl_block_fold (*fold)[KL_DTYPE_COUNT];           /* [op - REDUCE_SUM][dtype] */
} kl_block_level;

/* The tables of one level, defined by the files compiled for it. */
#define KL_BLOCK_DECLARE_LEVEL(level) KL_BLOCK_DECLARE_LEVEL_(level)
#define KL_BLOCK_DECLARE_LEVEL_(level)                                                             \
  extern kl_block_elem_fn *const kl_block_elem_##level[KL_OP_COUNT][KL_DTYPE_COUNT];               \
  extern kl_block_elem_fn *const kl_block_cast_##level[KL_DTYPE_COUNT][KL_DTYPE_COUNT];            \
  extern const kl_block_fold kl_block_fold_##level[KL_BLOCK_FOLDS][KL_DTYPE_COUNT];

/* The functions for code prepared now. */
const kl_block_level *kl_block_level_get(void);

#endif
