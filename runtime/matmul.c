/* kl_matmul_run: brings a product into a simple form and hands it to whoever computes it.
 *
 * The form: no batch dimensions of size 1, broadcast ones folded into m or n where strides allow,
 * and C's elements adjacent along n where they are adjacent at all (else A and B change places:
 * C' = B' A', and fma(a, b, t) = fma(b, a, t)).
 */
#include "runtime/matmul.h"

#include <string.h>

#include "ir/support/options.h"
#include "runtime/cpu_features.h"
#include "runtime/matmul_internal.h"
#include "runtime/threads.h"

const kl_matmul_kernels *kl_matmul_kernels_get(kl_dtype dtype) {
  bool is_f32 = dtype == KL_F32;
#if defined(__x86_64__)
  switch (kl_cpu_level_get()) {
    case KL_CPU_V4: return is_f32 ? &kl_matmul_kernels_f32_v4 : &kl_matmul_kernels_f64_v4;
    case KL_CPU_V3: return is_f32 ? &kl_matmul_kernels_f32_v3 : &kl_matmul_kernels_f64_v3;
    case KL_CPU_V2: return is_f32 ? &kl_matmul_kernels_f32_v2 : &kl_matmul_kernels_f64_v2;
    default: return NULL;
  }
#else
  return is_f32 ? &kl_matmul_kernels_f32_base : &kl_matmul_kernels_f64_base;
#endif
}

/* --- the simple form --- */

static void swap_strides(int64_t *x, int64_t *y) {
  int64_t kept = *x;
  *x = *y;
  *y = kept;
}

/* Transposes the whole product; the caller exchanges the pointers of A and B. */
static void transpose(kl_matmul *spec) {
  swap_strides(&spec->m, &spec->n);
  swap_strides(&spec->a_m, &spec->b_n);
  swap_strides(&spec->a_k, &spec->b_k);
  swap_strides(&spec->c_m, &spec->c_n);
  for (int d = 0; d < spec->n_batch; d++) swap_strides(&spec->a_batch[d], &spec->b_batch[d]);
}

static void drop_single_batches(kl_matmul *spec) {
  int kept = 0;
  for (int d = 0; d < spec->n_batch; d++) {
    if (spec->batch[d] == 1) continue;
    spec->batch[kept] = spec->batch[d];
    spec->a_batch[kept] = spec->a_batch[d];
    spec->b_batch[kept] = spec->b_batch[d];
    spec->c_batch[kept] = spec->c_batch[d];
    kept++;
  }
  spec->n_batch = kept;
}

/* The innermost batch dimension joins the rows where all its products share B and the rows of A
 * and C go on: (batch, m, k) x (k, n) is one product of batch * m rows. */
static bool fold_batch_into_rows(kl_matmul *spec) {
  int d = spec->n_batch - 1;
  if (d < 0 || spec->b_batch[d] != 0) return false;
  if (spec->m == 1) {
    spec->a_m = spec->a_batch[d];
    spec->c_m = spec->c_batch[d];
  } else if (spec->a_batch[d] != spec->m * spec->a_m || spec->c_batch[d] != spec->m * spec->c_m) {
    return false;
  }
  spec->m *= spec->batch[d];
  spec->n_batch--;
  return true;
}

static bool rows_are_better_columns(const kl_matmul *spec) {
  if (spec->m == 1) return false;
  if (spec->n == 1) return true; /* m = 1 is the case that has kernels of its own */
  return spec->c_n != 1 && spec->c_m == 1;
}

static void simplify(kl_matmul *spec, const void **a, const void **b) {
  drop_single_batches(spec);
  while (fold_batch_into_rows(spec)) continue;
  transpose(spec);
  while (fold_batch_into_rows(spec)) continue;
  transpose(spec);
  if (!rows_are_better_columns(spec)) return;
  transpose(spec);
  const void *kept = *a;
  *a = *b;
  *b = kept;
}

/* --- running --- */

typedef struct product {
  const kl_matmul *spec;
  const kl_matmul_kernels *kernels; /* NULL for integers and for OpenBLAS */
  const char *a, *b;
  char *c;
  size_t item;
  kl_status (*run)(const struct product *product, const void *a, const void *b, void *c);
  kl_status status; /* of the batch; any failure is out of memory, so which one does not matter */
} product;

static kl_status run_float(const product *p, const void *a, const void *b, void *c) {
  const kl_matmul *spec = p->spec;
  if (!p->kernels) return kl_matmul_plain(spec, a, b, c);
  bool is_row = spec->m == 1 && (spec->b_n == 1 || spec->b_k == 1 || spec->n == 1);
  kl_error former;
  kl_error_save(&former);
  kl_status status = is_row ? kl_matmul_row(p->kernels, spec, a, b, c)
                            : kl_matmul_blocked(p->kernels, spec, a, b, c);
  if (status != KL_ERR_OUT_OF_MEMORY) return status;
  /* A run that has begun cannot fail: without room for packed operands it takes longer. */
  kl_error_restore(&former);
  return kl_matmul_plain(spec, a, b, c);
}

static kl_status run_integer(const product *p, const void *a, const void *b, void *c) {
  return kl_matmul_integer(p->spec, a, b, c);
}

static kl_status run_openblas(const product *p, const void *a, const void *b, void *c) {
  return kl_matmul_openblas(p->spec, a, b, c);
}

static kl_status run_item(const product *p, int64_t index) {
  const kl_matmul *spec = p->spec;
  int64_t a = 0, b = 0, c = 0;
  for (int d = spec->n_batch - 1; d >= 0; d--) {
    int64_t i = index % spec->batch[d];
    index /= spec->batch[d];
    a += i * spec->a_batch[d];
    b += i * spec->b_batch[d];
    c += i * spec->c_batch[d];
  }
  int64_t item = (int64_t)p->item;
  return p->run(p, p->a + a * item, p->b + b * item, p->c + c * item);
}

static void run_items(void *ctx, int64_t begin, int64_t end, int worker) {
  (void)worker;
  product *p = ctx;
  for (int64_t i = begin; i < end; i++) {
    kl_status status = run_item(p, i);
    if (status != KL_OK) __atomic_store_n(&p->status, status, __ATOMIC_RELAXED);
  }
}

/* Small products go whole to a thread each; large ones one after the other to all threads. */
static kl_status run_batch(product *p, int64_t n_items) {
  const kl_matmul *spec = p->spec;
  double work = (double)spec->m * (double)spec->n * (double)spec->k;
  if (n_items == 1) return run_item(p, 0);
  if (work >= KL_MATMUL_PARALLEL_WORK && n_items < 2 * (int64_t)kl_thread_count()) {
    for (int64_t i = 0; i < n_items; i++) KL_TRY(run_item(p, i));
    return KL_OK;
  }
  int64_t grain = (int64_t)(KL_MATMUL_PARALLEL_WORK / 4 / work) + 1;
  kl_parallel_for(n_items, grain, run_items, p);
  /* The message was stored for the thread that met the fault, so it is made again for this one. */
  return p->status == KL_OK ? KL_OK : kl_fail(p->status, "matmul: %s", kl_status_name(p->status));
}

static void fill_zero(const kl_matmul *spec, char *c, size_t item, int64_t n_items) {
  for (int64_t index = 0; index < n_items; index++) {
    int64_t at = 0, rest = index;
    for (int d = spec->n_batch - 1; d >= 0; d--) {
      at += rest % spec->batch[d] * spec->c_batch[d];
      rest /= spec->batch[d];
    }
    for (int64_t i = 0; i < spec->m; i++)
      for (int64_t j = 0; j < spec->n; j++)
        memset(c + (at + i * spec->c_m + j * spec->c_n) * (int64_t)item, 0, item);
  }
}

kl_status kl_matmul_run(const kl_matmul *given, const void *a, const void *b, void *c) {
  kl_matmul spec = *given;
  product p = {.spec = &spec, .c = c, .item = kl_dtype_size(spec.dtype), .status = KL_OK};
  bool is_float = spec.dtype == KL_F32 || spec.dtype == KL_F64;
  if (!is_float && !kl_dtype_is_integer(spec.dtype))
    return kl_fail(KL_ERR_TYPE, "matmul: not defined for dtype %s",
                   kl_dtype_torch_name(spec.dtype));
  simplify(&spec, &a, &b);
  p.a = a;
  p.b = b;
  int64_t n_items = 1;
  for (int d = 0; d < spec.n_batch; d++) n_items *= spec.batch[d];
  if (n_items == 0 || spec.m == 0 || spec.n == 0) return KL_OK;
  if (spec.k == 0) {
    fill_zero(&spec, c, p.item, n_items);
    return KL_OK;
  }
  if (!is_float) {
    p.run = run_integer;
  } else if (kl_options_get()->matmul == KL_MATMUL_OPENBLAS) {
    p.run = run_openblas;
  } else {
    p.run = run_float;
    p.kernels = kl_matmul_kernels_get(spec.dtype);
  }
  return run_batch(&p, n_items);
}
