/* Matrix products against the definition, bit for bit: shapes, layouts, batches, threads, levels.
 *
 * The reference here is written from docs/numerics.md alone and shares nothing with runtime/.
 * Levels below the machine's are run by the program calling itself with KAEL_ISA set.
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ir/support/memory.h"
#include "runtime/allocator.h"
#include "runtime/cpu_features.h"
#include "runtime/matmul.h"
#include "runtime/threads.h"
#include "tests/support/runner.h"

static uint64_t random_state = 88172645463325252u;

static uint64_t next_random(void) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return random_state;
}

static int64_t pick(int64_t n) { return (int64_t)((next_random() >> 16) % (uint64_t)n); }

/* --- the reference --- */

static float dot_f32(const float *a, int64_t a_k, const float *b, int64_t b_k, int64_t n) {
  float result = 0;
  for (int64_t first = 0; first < n; first += 256) {
    float t = 0;
    for (int64_t k = first; k < n && k < first + 256; k++) t = fmaf(a[k * a_k], b[k * b_k], t);
    result = first == 0 ? t : result + t;
  }
  return result;
}

static double dot_f64(const double *a, int64_t a_k, const double *b, int64_t b_k, int64_t n) {
  double result = 0;
  for (int64_t first = 0; first < n; first += 256) {
    double t = 0;
    for (int64_t k = first; k < n && k < first + 256; k++) t = fma(a[k * a_k], b[k * b_k], t);
    result = first == 0 ? t : result + t;
  }
  return result;
}

static uint64_t read_integer(const char *at, size_t item) {
  uint64_t value = 0;
  memcpy(&value, at, item);
  return value;
}

static void dot_integer(const char *a, int64_t a_k, const char *b, int64_t b_k, int64_t n,
                        size_t item, char *out) {
  uint64_t sum = 0;
  for (int64_t k = 0; k < n; k++)
    sum += read_integer(a + k * a_k * (int64_t)item, item) *
           read_integer(b + k * b_k * (int64_t)item, item);
  memcpy(out, &sum, item);
}

static void reference_element(const kl_matmul *s, const char *a, const char *b, char *out) {
  float f;
  double d;
  switch (s->dtype) {
    case KL_F32:
      f = dot_f32((const float *)a, s->a_k, (const float *)b, s->b_k, s->k);
      memcpy(out, &f, sizeof f);
      break;
    case KL_F64:
      d = dot_f64((const double *)a, s->a_k, (const double *)b, s->b_k, s->k);
      memcpy(out, &d, sizeof d);
      break;
    default: dot_integer(a, s->a_k, b, s->b_k, s->k, kl_dtype_size(s->dtype), out);
  }
}

/* --- random products --- */

typedef struct operand {
  char *bytes;
  int64_t n_elems;
  int64_t offset; /* of element (0, ..., 0) */
} operand;

/* Strides of `rank` dimensions laid out in a random order, with gaps, some broadcast, some
 * reversed. `may_repeat` is false for C. Returns the extent in elements and the start. */
static void random_layout(int rank, const int64_t *sizes, int64_t *const *strides, bool may_repeat,
                          operand *out) {
  int order[KL_MATMUL_MAX_BATCH + 2];
  for (int i = 0; i < rank; i++) order[i] = i;
  if (pick(2) && rank >= 2) { /* the usual layouts: rows or columns adjacent */
    if (pick(2)) order[rank - 1] = rank - 2, order[rank - 2] = rank - 1;
  } else {
    for (int i = rank - 1; i > 0; i--) {
      int j = (int)pick(i + 1), kept = order[i];
      order[i] = order[j], order[j] = kept;
    }
  }
  bool gaps = pick(3) == 0;
  int64_t stride = gaps && pick(2) ? 2 : 1;
  out->offset = 0;
  for (int i = rank - 1; i >= 0; i--) {
    int d = order[i];
    if (may_repeat && pick(d < rank - 2 ? 3 : 12) == 0) {
      *strides[d] = 0;
      continue;
    }
    *strides[d] = stride;
    if (may_repeat && pick(12) == 0 && sizes[d] > 0) {
      *strides[d] = -stride;
      out->offset += (sizes[d] - 1) * stride;
    }
    stride *= sizes[d] > 0 ? sizes[d] : 1;
    if (gaps) stride += pick(5);
  }
  out->n_elems = stride + 1;
}

static void fill_random(operand *o, kl_dtype dtype) {
  size_t item = kl_dtype_size(dtype);
  o->bytes = malloc((size_t)o->n_elems * item);
  if (!o->bytes) exit(EXIT_FAILURE);
  /* Two small operands have products that are subnormal or vanish. */
  double scale = pick(3) ? 1 : dtype == KL_F32 ? 0x1p-70 : 0x1p-530;
  for (int64_t i = 0; i < o->n_elems; i++) {
    double value = (double)(int64_t)next_random() * 0x1p-62 * scale;
    if (pick(50) == 0) value = pick(2) ? -0.0 : 0x1p-120; /* zeros' signs and subnormal products */
    uint64_t word = next_random();
    float narrow = (float)value;
    if (dtype == KL_F32) memcpy(o->bytes + i * 4, &narrow, 4);
    else if (dtype == KL_F64) memcpy(o->bytes + i * 8, &value, 8);
    else memcpy(o->bytes + (size_t)i * item, &word, item);
  }
}

static char *element(const operand *o, int64_t at, size_t item) {
  return o->bytes + (o->offset + at) * (int64_t)item;
}

/* Computes C by the definition into `c`, which the caller has filled like the library's. */
static void reference(const kl_matmul *s, const operand *a, const operand *b, operand *c) {
  size_t item = kl_dtype_size(s->dtype);
  int64_t n_items = 1;
  for (int d = 0; d < s->n_batch; d++) n_items *= s->batch[d];
  for (int64_t index = 0; index < n_items; index++) {
    int64_t rest = index, a_at = 0, b_at = 0, c_at = 0;
    for (int d = s->n_batch - 1; d >= 0; d--) {
      int64_t i = rest % s->batch[d];
      rest /= s->batch[d];
      a_at += i * s->a_batch[d], b_at += i * s->b_batch[d], c_at += i * s->c_batch[d];
    }
    for (int64_t i = 0; i < s->m; i++)
      for (int64_t j = 0; j < s->n; j++)
        reference_element(s, element(a, a_at + i * s->a_m, item),
                          element(b, b_at + j * s->b_n, item),
                          element(c, c_at + i * s->c_m + j * s->c_n, item));
  }
}

static void describe(const kl_matmul *s, int threads, char *out, size_t capacity) {
  int at = snprintf(out, capacity,
                    "%s m %ld n %ld k %ld, strides a (%ld %ld) b (%ld %ld) c (%ld %ld), %d threads",
                    kl_dtype_name(s->dtype), (long)s->m, (long)s->n, (long)s->k, (long)s->a_m,
                    (long)s->a_k, (long)s->b_k, (long)s->b_n, (long)s->c_m, (long)s->c_n, threads);
  for (int d = 0; d < s->n_batch; d++)
    at += snprintf(out + at, capacity - (size_t)at, ", batch %ld (%ld %ld %ld)", (long)s->batch[d],
                   (long)s->a_batch[d], (long)s->b_batch[d], (long)s->c_batch[d]);
}

/* Wrong products so far. They are counted, not asserted, since the levels run outside of Check. */
static int n_wrong;

/* Runs the product of the spec's sizes in random layouts; compares all of C, gaps included. */
static void check_random_layouts(kl_matmul s) {
  int rank = s.n_batch + 2;
  int64_t a_sizes[KL_MATMUL_MAX_BATCH + 2], b_sizes[KL_MATMUL_MAX_BATCH + 2];
  int64_t c_sizes[KL_MATMUL_MAX_BATCH + 2];
  int64_t *a_strides[KL_MATMUL_MAX_BATCH + 2], *b_strides[KL_MATMUL_MAX_BATCH + 2];
  int64_t *c_strides[KL_MATMUL_MAX_BATCH + 2];
  for (int d = 0; d < s.n_batch; d++) {
    a_sizes[d] = b_sizes[d] = c_sizes[d] = s.batch[d];
    a_strides[d] = &s.a_batch[d], b_strides[d] = &s.b_batch[d], c_strides[d] = &s.c_batch[d];
  }
  a_sizes[rank - 2] = s.m, a_strides[rank - 2] = &s.a_m;
  a_sizes[rank - 1] = s.k, a_strides[rank - 1] = &s.a_k;
  b_sizes[rank - 2] = s.k, b_strides[rank - 2] = &s.b_k;
  b_sizes[rank - 1] = s.n, b_strides[rank - 1] = &s.b_n;
  c_sizes[rank - 2] = s.m, c_strides[rank - 2] = &s.c_m;
  c_sizes[rank - 1] = s.n, c_strides[rank - 1] = &s.c_n;
  operand a, b, c, expected;
  random_layout(rank, a_sizes, a_strides, true, &a);
  random_layout(rank, b_sizes, b_strides, true, &b);
  random_layout(rank, c_sizes, c_strides, false, &c);
  size_t item = kl_dtype_size(s.dtype);
  fill_random(&a, s.dtype);
  fill_random(&b, s.dtype);
  fill_random(&c, s.dtype);
  expected = c;
  expected.bytes = malloc((size_t)c.n_elems * item);
  memcpy(expected.bytes, c.bytes, (size_t)c.n_elems * item);
  reference(&s, &a, &b, &expected);
  for (int threads = 1; threads <= 3; threads++) {
    kl_threads_set(threads);
    char text[1024];
    describe(&s, threads, text, sizeof text);
    kl_status status =
        kl_matmul_run(&s, element(&a, 0, item), element(&b, 0, item), element(&c, 0, item));
    if (status == KL_OK && memcmp(c.bytes, expected.bytes, (size_t)c.n_elems * item) == 0) continue;
    if (n_wrong++ < 5) fprintf(stderr, "wrong: %s (%s)\n", text, kl_status_name(status));
  }
  free(a.bytes), free(b.bytes), free(c.bytes), free(expected.bytes);
}

static const int64_t sizes[] = {0, 1, 2, 3, 5, 16, 17, 31, 64, 100, 255, 256, 257, 513};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

static kl_matmul random_sizes(kl_dtype dtype, int64_t work_max) {
  kl_matmul s = {.dtype = dtype};
  do {
    s.m = sizes[pick(N_SIZES)], s.n = sizes[pick(N_SIZES)], s.k = sizes[pick(N_SIZES)];
  } while (s.m * s.n * s.k > work_max);
  return s;
}

static void check_float_products(kl_dtype dtype, int n) {
  for (int i = 0; i < n; i++) check_random_layouts(random_sizes(dtype, 4000000));
  for (int i = 0; i < n / 4; i++) { /* one row, one column, dot products of many blocks */
    kl_matmul s = random_sizes(dtype, 4000000);
    s.m = 1;
    if (i % 3 == 0) s.n = 1, s.k = s.k * 100 + pick(300);
    if (i % 3 == 1) s.n = s.n * 5;
    if (pick(2)) s.m = s.n, s.n = 1;
    check_random_layouts(s);
  }
}

static void check_batches(kl_dtype dtype) {
  for (int i = 0; i < 80; i++) {
    kl_matmul s = random_sizes(dtype, 100000);
    s.n_batch = 1 + (int)pick(3);
    for (int d = 0; d < s.n_batch; d++) s.batch[d] = i % 20 == 0 ? pick(3) : 1 + pick(4);
    check_random_layouts(s);
  }
}

static void check_all_float(void) {
  check_float_products(KL_F32, 100);
  check_float_products(KL_F64, 100);
  check_batches(KL_F32);
  check_batches(KL_F64);
}

START_TEST(float_products_are_the_defined_chain_in_every_layout) {
  check_float_products(_i == 0 ? KL_F32 : KL_F64, 250);
  ck_assert_int_eq(n_wrong, 0);
}
END_TEST

START_TEST(batched_products_are_the_defined_chain) {
  check_batches(_i == 0 ? KL_F32 : KL_F64);
  ck_assert_int_eq(n_wrong, 0);
}
END_TEST

START_TEST(large_products_cross_stripes_with_the_same_bits) {
  static const int64_t shapes[][3] = {{2100, 40, 300}, {40, 2100, 300}, {2060, 2060, 20}};
  for (int i = 0; i < 3; i++)
    check_random_layouts(
        (kl_matmul){.dtype = KL_F32, .m = shapes[i][0], .n = shapes[i][1], .k = shapes[i][2]});
  ck_assert_int_eq(n_wrong, 0);
}
END_TEST

START_TEST(integer_products_wrap_around) {
  static const kl_dtype dtypes[] = {KL_U8, KL_I8, KL_I16, KL_I32, KL_I64};
  for (int i = 0; i < 100; i++) {
    kl_matmul s = random_sizes(dtypes[i % 5], 200000);
    if (pick(2)) s.n_batch = 1, s.batch[0] = 1 + pick(3);
    check_random_layouts(s);
  }
  ck_assert_int_eq(n_wrong, 0);
}
END_TEST

START_TEST(an_empty_sum_is_positive_zero) {
  float c[6] = {1, 2, 3, 4, 5, 6}, zero[6] = {0};
  kl_matmul s = {.dtype = KL_F32, .m = 2, .n = 3, .k = 0, .a_k = 1, .b_k = 3, .b_n = 1, .c_m = 3,
                 .c_n = 1};
  ck_assert_int_eq(kl_matmul_run(&s, c, c, c), KL_OK);
  ck_assert_mem_eq(c, zero, sizeof c);
}
END_TEST

START_TEST(a_row_times_a_shared_matrix_has_the_bits_it_has_in_a_batch) {
  /* Batch invariance: the row of a batch of 300 against the same row alone. */
  enum { M = 300, K = 600, N = 70 };
  float *a = malloc(M * K * sizeof(float)), *b = malloc(K * N * sizeof(float));
  float *c = malloc(M * N * sizeof(float)), alone[N];
  for (int i = 0; i < M * K; i++) a[i] = (float)pick(1000) * 0.37f - 150;
  for (int i = 0; i < K * N; i++) b[i] = (float)pick(1000) * 0.11f - 40;
  kl_matmul s = {.dtype = KL_F32, .m = M, .n = N, .k = K, .a_m = K, .a_k = 1, .b_k = N, .b_n = 1,
                 .c_m = N, .c_n = 1};
  ck_assert_int_eq(kl_matmul_run(&s, a, b, c), KL_OK);
  s.m = 1;
  for (int i = 0; i < M; i += 7) {
    ck_assert_int_eq(kl_matmul_run(&s, a + i * K, b, alone), KL_OK);
    ck_assert_mem_eq(alone, c + i * N, sizeof alone);
  }
  free(a), free(b), free(c);
}
END_TEST

START_TEST(infinities_and_nans_are_not_hidden_by_padding) {
  enum { M = 13, K = 5, N = 33 };
  float a[M * K], b[K * N], c[M * N];
  for (int i = 0; i < M * K; i++) a[i] = 1;
  for (int i = 0; i < K * N; i++) b[i] = 2;
  a[(M - 1) * K + K - 1] = INFINITY; /* the last row, times the last column's zero: NaN */
  b[(K - 1) * N + N - 1] = 0;
  kl_matmul s = {.dtype = KL_F32, .m = M, .n = N, .k = K, .a_m = K, .a_k = 1, .b_k = N, .b_n = 1,
                 .c_m = N, .c_n = 1};
  ck_assert_int_eq(kl_matmul_run(&s, a, b, c), KL_OK);
  for (int i = 0; i < M; i++) {
    for (int j = 0; j < N; j++) {
      float expected = i < M - 1 ? (j < N - 1 ? 10 : 8) : INFINITY;
      if (i == M - 1 && j == N - 1) ck_assert(isnan(c[i * N + j]));
      else ck_assert_float_eq(c[i * N + j], expected);
    }
  }
}
END_TEST

START_TEST(a_failing_allocation_costs_time_but_no_bit_and_no_byte) {
  enum { N = 130, MOST_BATCHES = 8, ALLOCATIONS = 12 };
  size_t nbytes = sizeof(float) * N * N * MOST_BATCHES;
  float *a = malloc(sizeof(float) * N * N), *c = malloc(nbytes), *expected = malloc(nbytes);
  for (int i = 0; i < N * N; i++) a[i] = (float)(i % 251) * 0.37f - 40;
  for (int batch = 1; batch <= MOST_BATCHES; batch += MOST_BATCHES - 1) {
    kl_matmul s = {.dtype = KL_F32, .m = N, .n = N, .k = N, .a_m = 1, .a_k = N, .b_k = 1, .b_n = N,
                   .c_m = N, .c_n = 1, .n_batch = 1, .batch = {batch}, .c_batch = {N * N}};
    size_t used = sizeof(float) * N * N * (size_t)batch;
    ck_assert_int_eq(kl_matmul_run(&s, a, a, expected), KL_OK);
    uint64_t n_live = kl_allocator_stats_get().n_live;
    for (long nth = 1; nth <= ALLOCATIONS; nth++) {
      memset(c, 0xee, used);
      kl_memory_fail_nth(nth);
      kl_status status = kl_matmul_run(&s, a, a, c);
      kl_memory_fail_nth(0);
      ck_assert_int_eq(status, KL_OK);
      ck_assert_mem_eq(c, expected, used);
      ck_assert_uint_eq(kl_allocator_stats_get().n_live, n_live);
    }
  }
  free(a), free(c), free(expected);
}
END_TEST

START_TEST(a_dtype_without_products_is_a_type_error) {
  kl_matmul s = {.dtype = KL_BOOL, .m = 1, .n = 1, .k = 1};
  char byte = 1;
  ck_assert_int_eq(kl_matmul_run(&s, &byte, &byte, &byte), KL_ERR_TYPE);
}
END_TEST

/* --- the program calls itself --- */

static char program[4096];

static int run_self(const char *variable, const char *value, const char *mode) {
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    setenv(variable, value, 1);
    execl(program, program, mode, (char *)NULL);
    _exit(127);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

START_TEST(every_level_of_this_machine_gives_the_defined_bits) {
  static const char *const levels[] = {"v2", "v3", "v4"};
  kl_cpu_level host = kl_cpu_level_host();
  if (host < KL_CPU_V2) KL_TEST_SKIP("this machine has one level only");
  for (int i = 0; i <= (int)host - KL_CPU_V2; i++)
    ck_assert_msg(run_self("KAEL_ISA", levels[i], "--bits") == 0, "level %s", levels[i]);
}
END_TEST

START_TEST(openblas_serves_float_products_on_request) {
  int status = run_self("KAEL_MATMUL", "openblas", "--openblas");
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) KL_TEST_SKIP("OpenBLAS is not installed");
  ck_assert_int_eq(status, 0);
}
END_TEST

static bool is_close(kl_dtype dtype, const char *x, const char *y) {
  if (dtype == KL_F64) {
    double p, q;
    memcpy(&p, x, 8), memcpy(&q, y, 8);
    return fabs(p - q) <= 1e-11 * (1 + fabs(q));
  }
  float p, q;
  memcpy(&p, x, 4), memcpy(&q, y, 4);
  return fabsf(p - q) <= 1e-3f * (1 + fabsf(q));
}

/* Small products in three layouts of A, B and C; 77 where there is no library. */
static int check_openblas(void) {
  enum { M = 7, N = 5, K = 300 };
  static double room[3][4 * K * M];
  for (int i = 0; i < 64; i++) {
    kl_dtype dtype = i & 1 ? KL_F32 : KL_F64;
    size_t item = kl_dtype_size(dtype);
    kl_matmul s = {.dtype = dtype, .m = M, .n = N, .k = K};
    s.a_m = i & 2 ? K : 1, s.a_k = i & 2 ? 1 : M;
    s.b_k = i & 4 ? N : 1, s.b_n = i & 4 ? 1 : K;
    s.c_m = i & 8 ? N : 1, s.c_n = i & 8 ? 1 : M;
    if (i & 16) s.a_m *= 2, s.a_k *= 2, s.c_m *= 2, s.c_n *= 2;
    if (i & 32) s.b_k *= 2, s.b_n *= 2;
    operand a = {.n_elems = 2 * M * K}, b = {.n_elems = 2 * N * K}, expected = {.n_elems = 0};
    fill_random(&a, dtype);
    fill_random(&b, dtype);
    memset(room, 0, sizeof room);
    expected.bytes = (char *)room[1];
    reference(&s, &a, &b, &expected);
    kl_status status = kl_matmul_run(&s, a.bytes, b.bytes, room[0]);
    free(a.bytes), free(b.bytes);
    if (status == KL_ERR_NOT_IMPLEMENTED) return 77;
    if (status != KL_OK) return 1;
    for (int64_t j = 0; j < 2 * M * N; j++) {
      char *x = (char *)room[0] + (size_t)j * item, *y = (char *)room[1] + (size_t)j * item;
      if (!is_close(dtype, x, y)) return 2;
    }
  }
  return 0;
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "--bits") == 0) {
    check_all_float();
    return n_wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
  }
  if (argc > 1 && strcmp(argv[1], "--openblas") == 0) return check_openblas();
  if (readlink("/proc/self/exe", program, sizeof program - 1) < 0) return EXIT_FAILURE;
  Suite *suite = suite_create("matmul");
  TCase *tc = tcase_create("matmul");
  tcase_set_timeout(tc, 240);
  tcase_add_loop_test(tc, float_products_are_the_defined_chain_in_every_layout, 0, 2);
  tcase_add_loop_test(tc, batched_products_are_the_defined_chain, 0, 2);
  tcase_add_test(tc, large_products_cross_stripes_with_the_same_bits);
  tcase_add_test(tc, integer_products_wrap_around);
  tcase_add_test(tc, an_empty_sum_is_positive_zero);
  tcase_add_test(tc, a_row_times_a_shared_matrix_has_the_bits_it_has_in_a_batch);
  tcase_add_test(tc, infinities_and_nans_are_not_hidden_by_padding);
  tcase_add_test(tc, a_failing_allocation_costs_time_but_no_bit_and_no_byte);
  tcase_add_test(tc, a_dtype_without_products_is_a_type_error);
  tcase_add_test(tc, every_level_of_this_machine_gives_the_defined_bits);
  tcase_add_test(tc, openblas_serves_float_products_on_request);
  suite_add_tcase(suite, tc);
  return kl_test_run(suite);
}
