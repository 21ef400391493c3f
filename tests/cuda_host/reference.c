/* A kernel's text run by tier 0, all units of a phase in one call: what CUDA must equal. */
#include "tests/cuda_host/reference.h"

#include <stdlib.h>

#include "ir/launch.h"
#include "ir/support/text.h"

static void count_units(const kl_section *section, const int64_t *ints, int64_t *rows,
                        int64_t *cols) {
  *rows = *cols = 1;
  for (unsigned d = 0; d < section->n_dims; d++)
    *(d < section->n_rows ? rows : cols) *= ints[section->extents_at + d];
}

static size_t scratch_nbytes(const kl_kernel *kernel, const kl_code *code, int64_t cols) {
  size_t nbytes = code->scratch_nbytes + 64;
  for (uint32_t b = 0; b < kernel->bufs.count; b++)
    if (kernel->bufs.data[b].kind == KL_BUF_SCRATCH)
      nbytes += kl_scratch_nbytes(cols, (kl_dtype)kernel->bufs.data[b].dtype);
  return nbytes / 64 * 64;
}

static kl_status run_section(const kl_kernel *kernel, uint32_t id, void *const *bufs,
                             const int64_t *ints, const kl_scalar *scalars) {
  const kl_section *section = &kernel->sections.data[id];
  kl_code *code;
  int64_t rows, cols;
  KL_TRY(kl_block_prepare(kernel, id, &code));
  count_units(section, ints, &rows, &cols);
  int64_t n_chunks = (cols + KL_CHUNK - 1) / KL_CHUNK, n_results = rows * section->n_reduces;
  char *scratch = aligned_alloc(64, scratch_nbytes(kernel, code, cols) + 64);
  kl_scalar *frame = calloc((size_t)n_results + 1, sizeof *frame);
  kl_scalar *partials = calloc((size_t)(n_results * n_chunks * 2) + 1, sizeof *partials);
  const kl_kernel_args args = {bufs, ints, scalars, frame, partials};
  for (uint32_t p = 0; p < section->phases.count; p++) {
    bool by_chunk = section->phases.data[p].kind == KL_PHASE_COLS;
    code->run(code, &args, scratch, (int)p, 0, by_chunk ? rows * n_chunks : rows);
  }
  free(scratch);
  free(frame);
  free(partials);
  code->destroy(code);
  return KL_OK;
}

const char *run_by_tier_0(const char *text, size_t nbytes, void *const *bufs, const int64_t *ints,
                          const uint64_t *scalars) {
  kl_kernel kernel;
  if (kl_kernel_parse(text, nbytes, &kernel) != KL_OK) return kl_error_message();
  kl_status status = kl_kernel_verify(&kernel);
  for (uint32_t s = 0; s < kernel.sections.count && status == KL_OK; s++)
    status = run_section(&kernel, s, bufs, ints, (const kl_scalar *)scalars);
  kl_kernel_finish(&kernel);
  return status == KL_OK ? NULL : kl_error_message();
}
