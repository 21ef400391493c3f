/* See block_launch.h. */
#include "tests/support/block_launch.h"

enum { LOWEST_LEVEL = 2, HIGHEST_LEVEL = 4 };

static _Alignas(64) char scratch[1 << 20];

static int64_t product(const int64_t *extents, int first, int end) {
  int64_t n = 1;
  for (int d = first; d < end; d++) n *= extents[d];
  return n;
}

static size_t scratch_bytes(const kl_kernel *kernel, int64_t n_cols, const kl_code *code) {
  size_t nbytes = code->scratch_nbytes;
  for (uint32_t b = 0; b < kernel->bufs.count; b++)
    if (kernel->bufs.data[b].kind == KL_BUF_SCRATCH)
      nbytes += kl_scratch_nbytes(n_cols, (kl_dtype)kernel->bufs.data[b].dtype);
  return nbytes;
}

static void run_section(const kl_kernel *kernel, uint32_t index, const launch *l) {
  const kl_section *section = &kernel->sections.data[index];
  const int64_t *extents = l->ints + section->extents_at;
  int64_t n_rows = product(extents, 0, section->n_rows);
  int64_t n_cols = product(extents, section->n_rows, section->n_dims);
  int64_t n_chunks = (n_cols + KL_CHUNK - 1) / KL_CHUNK;
  kl_code *code = NULL;
  ck_assert_int_eq(kl_block_prepare(kernel, index, &code), KL_OK);
  size_t n_folds = (size_t)(n_rows * section->n_reduces) + 1;
  size_t nbytes = scratch_bytes(kernel, n_cols, code);
  ck_assert_uint_lt(nbytes, sizeof scratch);
  kl_kernel_args args = {.bufs = l->bufs,
                         .ints = l->ints,
                         .scalars = l->scalars,
                         .frame = calloc(n_folds, sizeof(kl_scalar)),
                         .partials = calloc(n_folds * (size_t)(n_chunks + 1) * 2, sizeof(kl_scalar))};
  for (uint32_t p = 0; p < section->phases.count; p++) {
    int64_t n_units = section->phases.data[p].kind == KL_PHASE_COLS ? n_rows * n_chunks : n_rows;
    int64_t step = l->units > 0 ? l->units : n_units > 0 ? n_units : 1;
    for (int64_t u = 0; u < n_units; u += step) {
      memset(scratch, 0xa5, nbytes + 1); /* nothing may be left from another call */
      code->run(code, &args, scratch, (int)p, u, u + step < n_units ? u + step : n_units);
      if (scratch[nbytes] != (char)0xa5) ck_abort_msg("it wrote past its scratch");
    }
  }
  code->destroy(code);
  free(args.frame);
  free(args.partials);
}

void run_launch(const launch *l) {
  kl_kernel kernel = {0};
  kl_status status = kl_kernel_parse(l->text, strlen(l->text), &kernel);
  if (status == KL_OK) status = kl_kernel_verify(&kernel);
  ck_assert_msg(status == KL_OK, "%s", kl_error_message());
  for (uint32_t s = 0; s < kernel.sections.count; s++) run_section(&kernel, s, l);
  kl_kernel_finish(&kernel);
}

/* Check writes a record for each assertion, so there is one only where the bits differ. */
void assert_f32_eq(const float *got, const float *want, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    if (memcmp(&got[i], &want[i], 4) == 0 || (isnan(got[i]) && isnan(want[i]))) continue;
    ck_abort_msg("element %lld: %a, should be %a", (long long)i, (double)got[i], (double)want[i]);
  }
}

void assert_i64_eq(const int64_t *got, const int64_t *want, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    if (got[i] == want[i]) continue;
    ck_abort_msg("element %lld: %lld, should be %lld", (long long)i, (long long)got[i],
                 (long long)want[i]);
  }
}

void check_f32(launch *l, float *out, const float *want, int64_t n) {
  static const int64_t units[] = {0, 1, 3, 100};
  for (int level = LOWEST_LEVEL; level <= HIGHEST_LEVEL; level++) {
    kl_block_set_level(level);
    for (int u = 0; u < 4; u++) {
      memset(out, 0x55, (size_t)n * 4);
      l->units = units[u];
      run_launch(l);
      assert_f32_eq(out, want, n);
    }
  }
}

void check_i64(launch *l, int64_t *out, const int64_t *want, int64_t n) {
  static const int64_t units[] = {0, 1, 3, 100};
  for (int level = LOWEST_LEVEL; level <= HIGHEST_LEVEL; level++) {
    kl_block_set_level(level);
    for (int u = 0; u < 4; u++) {
      memset(out, 0x55, (size_t)n * 8);
      l->units = units[u];
      run_launch(l);
      assert_i64_eq(out, want, n);
    }
  }
}

float *random_f32(int64_t n, uint32_t seed) {
  float *x = malloc((size_t)(n + 1) * sizeof *x);
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (int64_t i = 0; i < n; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    double unit = (double)(state >> 40) / 0x1p24 - 0.5;
    x[i] = state >> 33 & 31 ? (float)ldexp(unit, (int)(state >> 20 & 7)) : -0.0f;
  }
  return x;
}

float *new_f32(int64_t n) { return calloc((size_t)n + 1, sizeof(float)); }

/* The defined order, as docs/numerics.md has it. */
static float sum_chunk(const float *x, int64_t n, int64_t stride) {
  float lanes[32] = {0};
  for (int64_t k = 0; k < n; k++) lanes[k % 32] += x[k * stride];
  for (int half = 16; half > 0; half /= 2)
    for (int l = 0; l < half; l++) lanes[l] += lanes[l + half];
  return lanes[0];
}

static float sum_chunks(const float *x, int64_t n, int64_t stride, int64_t first, int64_t count) {
  if (count == 1) {
    int64_t k = first * 1024;
    return sum_chunk(x + k * stride, n - k < 1024 ? n - k : 1024, stride);
  }
  int64_t left = 1;
  while (left * 2 < count) left *= 2;
  float a = sum_chunks(x, n, stride, first, left);
  return a + sum_chunks(x, n, stride, first + left, count - left);
}

float sum_ordered(const float *x, int64_t n, int64_t stride) {
  return n == 0 ? 0 : sum_chunks(x, n, stride, 0, (n + 1023) / 1024);
}
