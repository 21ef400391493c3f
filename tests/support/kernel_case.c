/*
 * kernel_case.c: data, arguments and phases for one section of kernel IR (kernel_case.h).
 */
#include "tests/support/kernel_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD_ELEMS = 64 };

static int64_t product(const int64_t *extents, int first, int end) {
  int64_t n = 1;
  for (int d = first; d < end; d++) n *= extents[d];
  return n;
}

static unsigned access_slot(const kernel_case *c, int access) {
  return (unsigned)(c->n_dims + access * (c->n_dims + 2));
}

static int n_accesses(const kernel_case *c) {
  int n = 0;
  while (n < CASE_MAX_ACCESSES && c->accesses[n]) n++;
  return n;
}

static unsigned own_slot(const kernel_case *c) { return access_slot(c, n_accesses(c)); }

static void append_access(const kernel_case *c, int access, char *out, size_t capacity) {
  size_t at =
      (size_t)snprintf(out, capacity, "b%d [i%u", c->access_buf[access], access_slot(c, access));
  for (int d = 0; d < c->n_dims; d++) {
    char kind = c->accesses[access][d];
    const char *cls = kind == '1' ? "one" : kind == '0' ? "zero" : "any";
    at += (size_t)snprintf(out + at, capacity - at, "%s%s", d ? ", " : "; ", cls);
  }
  snprintf(out + at, capacity - at, "]%s", c->accesses[access][c->n_dims] == '*' ? " at" : "");
}

char *case_text(const kernel_case *c) {
  size_t capacity = strlen(c->text) * 8 + 4096;
  char *text = calloc(1, capacity);
  size_t at = (size_t)snprintf(text, capacity, "kernel ints=%u scalars=16 {\n", own_slot(c) + 8);
  for (const char *s = c->text; *s; s++) {
    if (*s == '@') {
      int access = s[1] - '0';
      append_access(c, access, text + at, capacity - at);
      at += strlen(text + at);
      s++;
    } else if (*s == '$') {
      at += (size_t)snprintf(text + at, capacity - at, "i%u", own_slot(c) + (unsigned)(s[1] - '0'));
      s++;
    } else {
      text[at++] = *s;
    }
  }
  snprintf(text + at, capacity - at, "}\n");
  return text;
}

/* Strides and the offset of one access; returns the elements it can reach. */
static int64_t lay_out(const kernel_case *c, int access, int64_t *ints) {
  const char *kinds = c->accesses[access];
  unsigned slot = access_slot(c, access);
  int64_t size = 1, offset = 0;
  const char *one = memchr(kinds, '1', (size_t)c->n_dims);
  int innermost = one ? (int)(one - kinds) : c->n_dims - 1;
  for (int at = 0; at < c->n_dims; at++) {
    /* The dim of stride ONE first, then the others from the last. */
    int d = at == 0 ? innermost : c->n_dims - at - (c->n_dims - at <= innermost);
    int64_t step = kinds[d] == '2' ? 2 : 1, extent = c->extents[d];
    int64_t stride = kinds[d] == '0' ? 0 : size * step;
    if (kinds[d] != '0') size *= step * (extent ? extent : 1);
    if (kinds[d] == 'r') {
      stride = -stride;
      offset -= stride * (extent ? extent - 1 : 0);
    }
    ints[slot + 1 + (unsigned)d] = stride;
  }
  ints[slot] = offset;
  if (kinds[c->n_dims] == '*') {
    ints[slot + 1 + (unsigned)c->n_dims] = size;
    size *= c->dynamic_extent;
  }
  return size;
}

kl_status case_open(const kernel_case *c, case_run *out_run) {
  *out_run = (case_run){0};
  char *text = case_text(c);
  kl_status status = kl_kernel_parse(text, strlen(text), &out_run->kernel);
  free(text);
  if (status != KL_OK) return status;
  status = kl_kernel_verify(&out_run->kernel);
  if (status != KL_OK) {
    kl_kernel_finish(&out_run->kernel);
    return status;
  }
  int64_t reach[CASE_MAX_BUFS] = {0};
  for (int d = 0; d < c->n_dims; d++) out_run->ints[d] = c->extents[d];
  for (int a = 0; a < n_accesses(c); a++) {
    int64_t n = lay_out(c, a, out_run->ints);
    if (n > reach[c->access_buf[a]]) reach[c->access_buf[a]] = n;
  }
  for (int i = 0; i < 8; i++) out_run->ints[own_slot(c) + (unsigned)i] = c->own_ints[i];
  for (uint32_t b = 0; b < out_run->kernel.bufs.count; b++) {
    size_t size = kl_dtype_size((kl_dtype)out_run->kernel.bufs.data[b].dtype);
    out_run->nbytes[b] = ((size_t)reach[b] + 2 * GUARD_ELEMS) * size;
    out_run->guard[b] = GUARD_ELEMS * size;
  }
  return KL_OK;
}

void case_close(case_run *run) { kl_kernel_finish(&run->kernel); }

static uint64_t next_random(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  uint64_t x = *state ^ (*state >> 33);
  return x * UINT64_C(0xff51afd7ed558ccd) >> 7;
}

static double random_float(uint64_t *state, bool specials) {
  uint64_t r = next_random(state);
  static const double odd[] = {0.0,    -0.0,         INFINITY, -INFINITY, NAN,  1e-310,
                               -1e-40, 3e38,         -1e300,   0.5,       2.5,  -1.5,
                               1e9,    2147483648.0, -129.0,   255.5,     88.8, -104.5};
  if (specials && r % 4 == 0) return odd[(r >> 8) % (sizeof odd / sizeof *odd)];
  return ((double)(r & 0xfffffff) / 0x8000000 - 1.0) * 4.0;
}

static void fill(const kernel_case *c, kl_dtype dtype, char *bytes, size_t nbytes,
                 uint64_t *state) {
  size_t size = kl_dtype_size(dtype);
  for (size_t i = 0; i < nbytes / size; i++) {
    double value = random_float(state, c->specials);
    uint64_t bits = next_random(state);
    float f32 = (float)value;
    if (dtype == KL_BOOL) bits &= 1;
    if (dtype == KL_I64 && c->index_limit) bits %= (uint64_t)c->index_limit;
    if (dtype == KL_I64 && !c->index_limit && bits % 3)
      bits = (uint64_t)((int64_t)(bits % 41) - 20);
    if (dtype == KL_F32) memcpy(&bits, &f32, 4);
    if (dtype == KL_F64) memcpy(&bits, &value, 8);
    memcpy(bytes + i * size, &bits, size);
  }
}

static void run_phase(const kl_code *code, const kl_kernel_args *args, char *scratch, int phase,
                      int64_t n_units, int64_t piece) {
  for (int64_t at = 0; at < n_units; at += piece)
    code->run(code, args, scratch, phase, at, at + piece < n_units ? at + piece : n_units);
  if (n_units == 0) code->run(code, args, scratch, phase, 0, 0);
}

void case_execute(const kernel_case *c, const case_run *run, const kl_code *code, unsigned seed,
                  int64_t piece, char *out_bufs[CASE_MAX_BUFS]) {
  const kl_section *section = &run->kernel.sections.data[0];
  int64_t rows = product(c->extents, 0, c->n_rows);
  int64_t cols = product(c->extents, c->n_rows, c->n_dims);
  int64_t chunks = (cols + KL_CHUNK - 1) / KL_CHUNK;
  size_t scratch_nbytes = 0;
  void *bufs[CASE_MAX_BUFS] = {0};
  uint64_t state = seed * UINT64_C(2654435761) + 1;
  for (uint32_t b = 0; b < run->kernel.bufs.count; b++) {
    const kl_kernel_buf *buf = &run->kernel.bufs.data[b];
    out_bufs[b] = NULL;
    if (buf->kind == KL_BUF_SCRATCH) {
      scratch_nbytes += kl_scratch_nbytes(cols, (kl_dtype)buf->dtype);
      continue;
    }
    out_bufs[b] = malloc(run->nbytes[b]);
    fill(c, (kl_dtype)buf->dtype, out_bufs[b], run->nbytes[b], &state);
    bufs[b] = out_bufs[b] + run->guard[b];
  }
  size_t slots = (size_t)(rows * section->n_reduces) + 1;
  char *scratch =
      aligned_alloc(64, ((scratch_nbytes + code->scratch_nbytes + 63) & ~(size_t)63) + 64);
  kl_scalar *frame = calloc(slots, sizeof *frame);
  kl_scalar *partials = calloc(slots * (size_t)(chunks + 1) * 2, sizeof *partials);
  kl_kernel_args args = {bufs, run->ints, c->scalars, frame, partials};
  for (uint32_t p = 0; p < section->phases.count; p++) {
    bool cols_phase = section->phases.data[p].kind == KL_PHASE_COLS;
    run_phase(code, &args, scratch, (int)p, cols_phase ? rows * chunks : rows, piece);
  }
  free(partials);
  free(frame);
  free(scratch);
}

static bool is_nan(kl_dtype dtype, const char *at) {
  uint64_t bits = 0;
  memcpy(&bits, at, kl_dtype_size(dtype));
  switch (dtype) {
    case KL_F16:
      return (bits & 0x7fff) > 0x7c00;
    case KL_BF16:
      return (bits & 0x7fff) > 0x7f80;
    case KL_F32:
      return (bits & 0x7fffffff) > 0x7f800000;
    case KL_F64:
      return (bits & INT64_MAX) > UINT64_C(0x7ff0000000000000);
    default:
      return false;
  }
}

int64_t case_first_difference(kl_dtype dtype, const char *a, const char *b, size_t nbytes) {
  size_t size = kl_dtype_size(dtype);
  for (size_t i = 0; i + size <= nbytes; i += size) {
    if (memcmp(a + i, b + i, size) == 0) continue;
    if (is_nan(dtype, a + i) && is_nan(dtype, b + i)) continue;
    return (int64_t)(i / size);
  }
  return -1;
}
