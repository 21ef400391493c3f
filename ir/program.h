/* A program: what the passes make of a graph, and what runtime/executable.c runs.
 *
 * Launches run in order. Their buffers are slots: a leaf's bytes, a new buffer that becomes an
 * output, or a piece of the run's temporary memory.
 */
#ifndef KL_IR_PROGRAM_H
#define KL_IR_PROGRAM_H

#include "ir/graph.h"
#include "ir/kernel.h"

typedef enum kl_slot_kind { KL_SLOT_LEAF, KL_SLOT_OUTPUT, KL_SLOT_TEMP } kl_slot_kind;

typedef struct kl_slot {
  uint8_t kind;
  uint32_t leaf;       /* LEAF */
  int64_t nbytes;
  int64_t temp_offset; /* TEMP: bytes into the temporary memory, 64-byte aligned */
} kl_slot;

typedef enum kl_launch_kind {
  KL_LAUNCH_KERNEL,
  /* slots A, B, C; ints: n_batch, m, n, k, batch extents...; A: offset, batch strides..., m, k;
   * B: offset, batch strides..., k, n; C: offset, batch strides..., m, n (all in elements) */
  KL_LAUNCH_MATMUL,
  KL_LAUNCH_COPY /* slots from, to: all bytes of `from` */
} kl_launch_kind;

typedef struct kl_int_patch {
  uint32_t int_at;      /* this int of the launch ... */
  uint32_t offset_slot; /* ... has this run offset added */
} kl_int_patch;

typedef struct kl_launch {
  uint8_t kind;
  uint8_t dtype;   /* MATMUL */
  uint32_t kernel; /* KERNEL: index into kernels */
  KL_VEC(uint32_t) slots;
  KL_VEC(int64_t) ints;
  KL_VEC(uint32_t) scalars; /* run scalar slot for each kernel scalar slot */
  KL_VEC(kl_int_patch) patches;
  int64_t bytes_read, bytes_written; /* each element touched counted once; for reports */
  KL_VEC(int32_t) nodes;             /* graph nodes that went into it; for reports */
} kl_launch;

typedef struct kl_program_output {
  int32_t node;  /* as numbered in the graph given to the pipeline */
  uint32_t slot; /* OUTPUT, or LEAF where it was computed in place */
} kl_program_output;

typedef struct kl_program {
  KL_VEC(kl_kernel) kernels;
  KL_VEC(kl_launch) launches;
  KL_VEC(kl_slot) slots;
  KL_VEC(kl_program_output) outputs;
  int64_t temp_nbytes;
} kl_program;

void kl_launch_finish(kl_launch *launch);
void kl_program_finish(kl_program *program);

#endif
