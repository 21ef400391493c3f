/* One row times a matrix: vector-matrix, matrix-vector (transposed by the caller) and dot products.
 *
 * They are bound by reading B, so nothing is packed. Work is cut into units (a block of k, a strip
 * of columns); each unit computes its part of t aside, then C takes the blocks in order.
 */
#include "runtime/allocator.h"
#include "runtime/matmul_internal.h"
#include "runtime/threads.h"

enum {
  STRIP = 1024,          /* columns of a unit: t stays in L1 */
  UNIT_WORK = 1 << 16,   /* multiply-adds a chunk of units should have at least */
  DOT_BLOCKS = 8,        /* blocks of k that a dot product computes side by side */
};

typedef struct row_product {
  const kl_matmul_kernels *kernels;
  const kl_matmul *spec;
  const char *a, *b;
  char *c;
  char *t; /* one line of n for each block of k */
  int64_t item;
  int64_t n_blocks, n_strips;
} row_product;

static int64_t min_int64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

static void compute_unit(const row_product *p, int64_t block, int64_t strip) {
  const kl_matmul *s = p->spec;
  int64_t k = block * KL_MATMUL_K_BLOCK, j = strip * STRIP;
  int64_t kc = min_int64(KL_MATMUL_K_BLOCK, s->k - k), n = min_int64(STRIP, s->n - j);
  const char *a = p->a + k * s->a_k * p->item;
  const char *b = p->b + (k * s->b_k + j * s->b_n) * p->item;
  char *t = p->t + (block * s->n + j) * p->item;
  if (s->b_n == 1) {
    p->kernels->row(t, a, s->a_k, b, s->b_k, n, kc);
  } else {
    p->kernels->dots(t, a, 0, s->a_k, b, s->b_n, s->b_k, n, kc);
  }
}

static void compute_units(void *ctx, int64_t begin, int64_t end, int worker) {
  (void)worker;
  const row_product *p = ctx;
  for (int64_t unit = begin; unit < end; unit++)
    compute_unit(p, unit / p->n_strips, unit % p->n_strips);
}

/* n = 1: whole blocks are the lines of a matrix, and several of them are computed side by side. */
static void compute_dot_blocks(void *ctx, int64_t begin, int64_t end, int worker) {
  (void)worker;
  const row_product *p = ctx;
  const kl_matmul *s = p->spec;
  int64_t first = begin * DOT_BLOCKS, last = min_int64(end * DOT_BLOCKS, p->n_blocks);
  int64_t n_whole = min_int64(last, s->k / KL_MATMUL_K_BLOCK) - first;
  int64_t a_step = KL_MATMUL_K_BLOCK * s->a_k, b_step = KL_MATMUL_K_BLOCK * s->b_k;
  const char *a = p->a + first * a_step * p->item, *b = p->b + first * b_step * p->item;
  p->kernels->dots(p->t + first * p->item, a, a_step, s->a_k, b, b_step, s->b_k, n_whole,
                   KL_MATMUL_K_BLOCK);
  if (first + n_whole < last)
    p->kernels->dots(p->t + (first + n_whole) * p->item, a + n_whole * a_step * p->item, 0, s->a_k,
                     b + n_whole * b_step * p->item, 0, s->b_k, 1, s->k % KL_MATMUL_K_BLOCK);
}

static void add_blocks(const row_product *p) {
  for (int64_t block = 0; block < p->n_blocks; block++)
    p->kernels->merge(p->c, p->spec->c_n, p->t + block * p->spec->n * p->item, p->spec->n,
                      block > 0);
}

kl_status kl_matmul_row(const kl_matmul_kernels *kernels, const kl_matmul *spec, const void *a,
                        const void *b, void *c) {
  int64_t item = (int64_t)kl_dtype_size(spec->dtype);
  row_product p = {.kernels = kernels, .spec = spec, .a = a, .b = b, .c = c, .item = item};
  p.n_blocks = ceil_div(spec->k, KL_MATMUL_K_BLOCK);
  p.n_strips = ceil_div(spec->n, STRIP);
  double small[64];
  void *scratch = NULL;
  size_t capacity = 0;
  int64_t nbytes = p.n_blocks * spec->n * item;
  if (nbytes > (int64_t)sizeof small)
    KL_TRY(kl_allocator_allocate((size_t)nbytes, &scratch, &capacity));
  p.t = scratch ? scratch : (char *)small;
  if (spec->n == 1) {
    kl_parallel_for(ceil_div(p.n_blocks, DOT_BLOCKS), UNIT_WORK / (KL_MATMUL_K_BLOCK * DOT_BLOCKS),
                    compute_dot_blocks, &p);
  } else {
    int64_t unit_work = min_int64(spec->n, STRIP) * min_int64(spec->k, KL_MATMUL_K_BLOCK);
    kl_parallel_for(p.n_blocks * p.n_strips, ceil_div(UNIT_WORK, unit_work), compute_units, &p);
  }
  add_blocks(&p);
  kl_allocator_free(scratch, capacity);
  return KL_OK;
}
