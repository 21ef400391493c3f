/* How compiled code of every tier is called: the contract between codegen/ and runtime/. */
#ifndef KL_IR_LAUNCH_H
#define KL_IR_LAUNCH_H

#include "ir/kernel.h"

typedef struct kl_kernel_args {
  void *const *bufs;        /* one for each kernel buf: the first byte; SCRATCH: NULL */
  const int64_t *ints;      /* extents, offsets, strides, counts (see kl_access) */
  const kl_scalar *scalars; /* value in the low bytes, by the dtype of the instruction */
  kl_scalar *frame;    /* COLS and COMBINE: frame[row * n_reduces + r] is the result of reduction r */
  kl_scalar *partials; /* COLS and COMBINE: partials[((row * n_reduces + r) * n_chunks + chunk) * 2],
                          a second slot for the position (i64 column) of argmax and argmin */
} kl_kernel_args;

/* Runs units [begin, end) of phase `phase`. `scratch` is this worker's: the SCRATCH buffers in the
 * order of kernel bufs, each kl_scratch_nbytes long, then code->scratch_nbytes of its own;
 * 64-byte aligned. Never fails, allocates nothing. */
typedef struct kl_code kl_code;
typedef void kl_code_fn(const kl_code *code, const kl_kernel_args *args, char *scratch, int phase,
                        int64_t begin, int64_t end);

struct kl_code { /* the code of one section */
  kl_code_fn *run;
  size_t scratch_nbytes;
  void (*destroy)(kl_code *code);
};

/* Bytes of one SCRATCH buffer of `n_cols` columns: never less than a block, in multiples of 64. */
static inline size_t kl_scratch_nbytes(int64_t n_cols, kl_dtype dtype) {
  size_t n = (size_t)(n_cols > KL_CHUNK ? n_cols : KL_CHUNK) * kl_dtype_size(dtype);
  return (n + 63) & ~(size_t)63;
}

/* Tier 0 (codegen/block): prepares a section for the block executor. The section stays borrowed. */
kl_status kl_block_prepare(const kl_kernel *kernel, uint32_t section, kl_code **out_code) KL_MUST_CHECK;

#endif
