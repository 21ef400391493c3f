/* Products by OpenBLAS on request (KAEL_MATMUL=openblas): opened at the first use, one thread.
 *
 * Its results are not those of the defined order. Operands that no BLAS layout describes, C
 * included, go through a contiguous copy.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "runtime/allocator.h"
#include "runtime/matmul_internal.h"

enum { CBLAS_ROW_MAJOR = 101, CBLAS_NO_TRANS = 111, CBLAS_TRANS = 112 };

typedef void (*sgemm_fn)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                         const float *a, int lda, const float *b, int ldb, float beta, float *c,
                         int ldc);
typedef void (*dgemm_fn)(int order, int trans_a, int trans_b, int m, int n, int k, double alpha,
                         const double *a, int lda, const double *b, int ldb, double beta,
                         double *c, int ldc);

static struct {
  pthread_once_t once;
  sgemm_fn sgemm;
  dgemm_fn dgemm;
} blas = {.once = PTHREAD_ONCE_INIT};

/* A function pointer out of dlsym, in the one way that C and POSIX both allow. */
static void find_function(void *library, const char *name, void *out_function) {
  void *found = dlsym(library, name);
  memcpy(out_function, &found, sizeof found);
}

static void open_blas(void) {
  void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (!library) library = dlopen("libopenblas.so", RTLD_NOW | RTLD_LOCAL);
  if (!library) return;
  void (*set_num_threads)(int) = NULL;
  find_function(library, "openblas_set_num_threads", &set_num_threads);
  if (set_num_threads) set_num_threads(1);
  find_function(library, "cblas_sgemm", &blas.sgemm);
  find_function(library, "cblas_dgemm", &blas.dgemm);
}

/* A matrix as BLAS sees it. `copy` is the block of a copy made for it, else NULL. */
typedef struct blas_matrix {
  void *ptr;
  int trans, ld;
  void *copy;
  size_t capacity;
} blas_matrix;

static bool fits_int(int64_t value) { return value >= 0 && value <= INT32_MAX; }

/* rows x columns with these strides is row-major, or column-major, with a leading dimension. */
static bool describe(int64_t rows, int64_t columns, int64_t stride_r, int64_t stride_c,
                     blas_matrix *out) {
  if (rows == 1) stride_r = columns;
  if (columns == 1) stride_c = rows;
  if ((stride_c == 1 || columns == 1) && fits_int(stride_r) && stride_r >= columns) {
    out->trans = CBLAS_NO_TRANS;
    out->ld = (int)stride_r;
    return true;
  }
  if (stride_r == 1 && fits_int(stride_c) && stride_c >= rows) {
    out->trans = CBLAS_TRANS;
    out->ld = (int)stride_c;
    return true;
  }
  return false;
}

static void copy_matrix(char *to, int64_t to_r, int64_t to_c, const char *from, int64_t from_r,
                        int64_t from_c, int64_t rows, int64_t columns, int64_t item) {
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++)
      memcpy(to + (i * to_r + j * to_c) * item, from + (i * from_r + j * from_c) * item,
             (size_t)item);
}

static kl_status make_room(int64_t rows, int64_t columns, int64_t item, blas_matrix *out) {
  KL_TRY(kl_allocator_allocate((size_t)(rows * columns * item), &out->copy, &out->capacity));
  out->ptr = out->copy;
  out->trans = CBLAS_NO_TRANS;
  out->ld = (int)columns;
  return KL_OK;
}

static kl_status take_operand(const void *ptr, int64_t rows, int64_t columns, int64_t stride_r,
                              int64_t stride_c, int64_t item, blas_matrix *out) {
  out->ptr = (void *)(uintptr_t)ptr;
  if (describe(rows, columns, stride_r, stride_c, out)) return KL_OK;
  KL_TRY(make_room(rows, columns, item, out));
  copy_matrix(out->copy, columns, 1, ptr, stride_r, stride_c, rows, columns, item);
  return KL_OK;
}

static void call_blas(const kl_matmul *s, const blas_matrix *a, const blas_matrix *b,
                      const blas_matrix *c) {
  int m = (int)s->m, n = (int)s->n, k = (int)s->k;
  if (s->dtype == KL_F32) {
    blas.sgemm(CBLAS_ROW_MAJOR, a->trans, b->trans, m, n, k, 1.0f, a->ptr, a->ld, b->ptr, b->ld,
               0.0f, c->ptr, c->ld);
  } else {
    blas.dgemm(CBLAS_ROW_MAJOR, a->trans, b->trans, m, n, k, 1.0, a->ptr, a->ld, b->ptr, b->ld,
               0.0, c->ptr, c->ld);
  }
}

kl_status kl_matmul_openblas(const kl_matmul *s, const void *a, const void *b, void *c) {
  pthread_once(&blas.once, open_blas);
  if (!blas.sgemm || !blas.dgemm)
    return kl_fail(KL_ERR_NOT_IMPLEMENTED,
                   "matmul: KAEL_MATMUL=openblas, but libopenblas.so.0 with cblas_sgemm and "
                   "cblas_dgemm cannot be opened");
  if (!fits_int(s->m) || !fits_int(s->n) || !fits_int(s->k))
    return kl_fail(KL_ERR_VALUE, "matmul: a dimension is too large for OpenBLAS");
  int64_t item = (int64_t)kl_dtype_size(s->dtype);
  blas_matrix ma = {0}, mb = {0}, mc = {.ptr = c};
  kl_status status = KL_OK;
  KL_TRY_GOTO(status, take_operand(a, s->m, s->k, s->a_m, s->a_k, item, &ma), done);
  KL_TRY_GOTO(status, take_operand(b, s->k, s->n, s->b_k, s->b_n, item, &mb), done);
  if (!describe(s->m, s->n, s->c_m, s->c_n, &mc) || mc.trans != CBLAS_NO_TRANS)
    KL_TRY_GOTO(status, make_room(s->m, s->n, item, &mc), done);
  call_blas(s, &ma, &mb, &mc);
  if (mc.copy) copy_matrix(c, s->c_m, s->c_n, mc.copy, s->n, 1, s->m, s->n, item);
done:
  kl_allocator_free(ma.copy, ma.capacity);
  kl_allocator_free(mb.copy, mb.capacity);
  kl_allocator_free(mc.copy, mc.capacity);
  return status;
}
