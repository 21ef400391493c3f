/* CUDA C++ from kernel IR.
 *
 * The text includes nothing: for NVRTC, with --fmad=false. Each phase of each section becomes
 * __global__ functions of blocks of 256 threads, on any grid (units are taken in strides of it):
 *   ROWS, vector=rows   kl_s<section>_p<phase>_thread   a thread for each row
 *   ROWS, vector=cols   ..._warp and ..._block          a warp, or a block, for each row
 *   COLS                ..._warp or ..._block           a warp for each chunk of 1,024 columns
 * where the loop reduces, else a block COMBINE             ..._block                       a block
 * for each row Their one argument is a struct kl_args, by value or, where it is larger than
 * KL_CUDA_ARGS_NBYTES, by address: bufs, ints, scalars (each array at least one long), frame,
 * partials, scratch, scratch_stride (see ir/launch.h; a worker is a warp or block of the grid). All
 * is in the defined order of docs/numerics.md, so the results have the bits of every other tier. */
#ifndef KL_CODEGEN_CUDA_CUDA_H
#define KL_CODEGEN_CUDA_CUDA_H

#include "ir/kernel.h"
#include "ir/support/text.h"

enum { KL_CUDA_BLOCK = 256, KL_CUDA_ARGS_NBYTES = 4000 };

/* Appends the translation unit of a verified and scheduled kernel, scalar math included. */
kl_status kl_cuda_emit(const kl_kernel *kernel, kl_text *out) KL_MUST_CHECK;

#endif
