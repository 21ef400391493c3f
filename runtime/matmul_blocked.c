/* The blocked float product: packs what is worth packing, then shares C's tiles among threads.
 *
 * Loops, outermost first: a stripe of n, a block of k, a stripe of m. In each, A's and B's part is
 * packed by all threads, then the tasks, parts of C, are computed by all threads. A block of k is
 * added to C as a whole and in order, so the tasks may be cut in any way.
 */
#include "runtime/allocator.h"
#include "runtime/matmul_internal.h"
#include "runtime/threads.h"

/* Rows or columns packed at a time: with 256 steps of k, 2 MiB of floats for each operand. */
enum { STRIPE = 2048 };

/* Task size in panels at most: the part of B (256 columns, 256 KiB of floats) stays in L2. */
enum { TASK_PANELS = 8 };

typedef struct blocked_product {
  const kl_matmul_kernels *kernels;
  const kl_matmul *spec;
  int64_t item;
  bool packs_a, packs_b;
  char *a_panels, *b_panels; /* the second holds B's edge panel where B is not packed */
  /* The current stripe: */
  const char *a, *b;
  char *c;
  int64_t m, n, kc;
  bool accumulate;
  int64_t a_panel_count, b_panel_count; /* to pack now */
  int64_t task_m, task_n, tasks_along_n;
  bool is_large;
} blocked_product;

static int64_t min_int64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* --- packing --- */

static void pack_a_panel(const blocked_product *p, int64_t panel) {
  const kl_matmul *s = p->spec;
  int64_t width = p->kernels->tile_m, first = panel * width;
  p->kernels->pack(p->a_panels + first * p->kc * p->item, width, p->a + first * s->a_m * p->item,
                   s->a_m, s->a_k, min_int64(width, p->m - first), p->kc);
}

static void pack_b_panel(const blocked_product *p, int64_t panel) {
  const kl_matmul *s = p->spec;
  int64_t width = p->kernels->tile_n, first = panel * width;
  p->kernels->pack(p->b_panels + first * p->kc * p->item, width, p->b + first * s->b_n * p->item,
                   s->b_n, s->b_k, min_int64(width, p->n - first), p->kc);
}

static void pack_b_edge(const blocked_product *p) {
  const kl_matmul *s = p->spec;
  int64_t width = p->kernels->tile_n, rest = p->n % width;
  if (rest == 0) return;
  p->kernels->pack(p->b_panels, width, p->b + (p->n - rest) * s->b_n * p->item, s->b_n, s->b_k,
                   rest, p->kc);
}

static void pack_panels(void *ctx, int64_t begin, int64_t end, int worker) {
  (void)worker;
  const blocked_product *p = ctx;
  for (int64_t i = begin; i < end; i++) {
    if (i < p->a_panel_count) {
      pack_a_panel(p, i);
    } else {
      pack_b_panel(p, i - p->a_panel_count);
    }
  }
}

/* --- computing --- */

static void compute_task(const blocked_product *p, int64_t task) {
  const kl_matmul *s = p->spec;
  int64_t i = task / p->tasks_along_n * p->task_m, j = task % p->tasks_along_n * p->task_n;
  int64_t a_at = p->packs_a ? i * p->kc : i * s->a_m;
  int64_t b_at = p->packs_b ? j * p->kc : j * s->b_n;
  kl_matmul_block block = {
      .m = min_int64(p->task_m, p->m - i),
      .n = min_int64(p->task_n, p->n - j),
      .kc = p->kc,
      .a = (p->packs_a ? p->a_panels : p->a) + a_at * p->item,
      .a_m = s->a_m,
      .a_k = s->a_k,
      .b = (p->packs_b ? p->b_panels : p->b) + b_at * p->item,
      .b_k = s->b_k,
      .b_edge = p->b_panels,
      .c = p->c + (i * s->c_m + j * s->c_n) * p->item,
      .c_m = s->c_m,
      .c_n = s->c_n,
      .a_packed = p->packs_a,
      .b_packed = p->packs_b,
      .accumulate = p->accumulate,
  };
  p->kernels->block(&block);
}

static void compute_tasks(void *ctx, int64_t begin, int64_t end, int worker) {
  (void)worker;
  for (int64_t task = begin; task < end; task++) compute_task(ctx, task);
}

/* Tasks as large as the caches like, but enough of them to keep all threads at work. */
static int64_t plan_tasks(blocked_product *p) {
  int64_t tile_m = p->kernels->tile_m, tile_n = p->kernels->tile_n;
  int64_t wanted = p->is_large ? 4 * (int64_t)kl_thread_count() : 1;
  int64_t panels_m = TASK_PANELS, panels_n = TASK_PANELS;
  for (;;) {
    p->task_m = panels_m * tile_m;
    p->task_n = panels_n * tile_n;
    p->tasks_along_n = ceil_div(p->n, p->task_n);
    int64_t n_tasks = ceil_div(p->m, p->task_m) * p->tasks_along_n;
    if (n_tasks >= wanted || (panels_m == 1 && panels_n == 1)) return n_tasks;
    if (panels_n >= panels_m) {
      panels_n /= 2;
    } else {
      panels_m /= 2;
    }
  }
}

static void compute_stripe(blocked_product *p, bool b_is_new) {
  p->a_panel_count = p->packs_a ? ceil_div(p->m, p->kernels->tile_m) : 0;
  p->b_panel_count = p->packs_b && b_is_new ? ceil_div(p->n, p->kernels->tile_n) : 0;
  int64_t n_panels = p->a_panel_count + p->b_panel_count;
  kl_parallel_for(n_panels, p->is_large ? 1 : n_panels, pack_panels, p);
  if (!p->packs_b && b_is_new) pack_b_edge(p);
  int64_t n_tasks = plan_tasks(p);
  kl_parallel_for(n_tasks, p->is_large ? 1 : n_tasks, compute_tasks, p);
}

static void compute_all(blocked_product *p, const char *a, const char *b, char *c) {
  const kl_matmul *s = p->spec;
  for (int64_t j = 0; j < s->n; j += STRIPE) {
    p->n = min_int64(STRIPE, s->n - j);
    for (int64_t k = 0; k < s->k; k += KL_MATMUL_K_BLOCK) {
      p->kc = min_int64(KL_MATMUL_K_BLOCK, s->k - k);
      p->accumulate = k > 0;
      p->b = b + (k * s->b_k + j * s->b_n) * p->item;
      for (int64_t i = 0; i < s->m; i += STRIPE) {
        p->m = min_int64(STRIPE, s->m - i);
        p->a = a + (i * s->a_m + k * s->a_k) * p->item;
        p->c = c + (i * s->c_m + j * s->c_n) * p->item;
        compute_stripe(p, i == 0);
      }
    }
  }
}

/* --- what to pack --- */

/* A is read by single elements along k: packing pays where several panels of B meet it and its
 * rows do not lie in few lines that stay in L1. */
static bool should_pack_a(const kl_matmul_kernels *kernels, const kl_matmul *s, int64_t item) {
  if (s->n <= 2 * kernels->tile_n) return false;
  return s->m * min_int64(s->k, KL_MATMUL_K_BLOCK) * item > (16 << 10);
}

/* B must be packed where its rows are not adjacent, and is worth it when several panels of A meet
 * more of it than L1 holds. */
static bool should_pack_b(const kl_matmul_kernels *kernels, const kl_matmul *s, int64_t item) {
  if (s->b_n != 1) return true;
  if (s->m <= 2 * kernels->tile_m) return false;
  return s->n * min_int64(s->k, KL_MATMUL_K_BLOCK) * item > (32 << 10);
}

static int64_t panels_nbytes(int64_t n_lines, int64_t width, int64_t kc, int64_t item) {
  return ceil_div(min_int64(n_lines, STRIPE), width) * width * kc * item;
}

kl_status kl_matmul_blocked(const kl_matmul_kernels *kernels, const kl_matmul *spec, const void *a,
                            const void *b, void *c) {
  int64_t item = (int64_t)kl_dtype_size(spec->dtype);
  blocked_product p = {.kernels = kernels, .spec = spec, .item = item};
  p.packs_a = should_pack_a(kernels, spec, item);
  p.packs_b = should_pack_b(kernels, spec, item);
  p.is_large =
      (double)spec->m * (double)spec->n * (double)spec->k >= (double)KL_MATMUL_PARALLEL_WORK;
  int64_t kc = min_int64(spec->k, KL_MATMUL_K_BLOCK);
  int64_t a_nbytes = p.packs_a ? panels_nbytes(spec->m, kernels->tile_m, kc, item) : 0;
  int64_t b_nbytes = p.packs_b ? panels_nbytes(spec->n, kernels->tile_n, kc, item)
                     : spec->n % kernels->tile_n ? kernels->tile_n * kc * item
                                                 : 0;
  void *scratch = NULL;
  size_t capacity = 0;
  if (a_nbytes + b_nbytes > 0)
    KL_TRY(kl_allocator_allocate((size_t)(a_nbytes + b_nbytes), &scratch, &capacity));
  p.b_panels = scratch;
  p.a_panels = scratch ? (char *)scratch + b_nbytes : NULL;
  compute_all(&p, a, b, c);
  kl_allocator_free(scratch, capacity);
  return KL_OK;
}
