/* What the files of codegen/cuda share. */
#ifndef KL_CODEGEN_CUDA_EMIT_H
#define KL_CODEGEN_CUDA_EMIT_H

#include "codegen/cuda/cuda.h"

/* Who computes a unit of a phase. */
typedef enum kl_cuda_group { KL_CUDA_BY_THREAD, KL_CUDA_BY_WARP, KL_CUDA_BY_BLOCK } kl_cuda_group;

typedef struct kl_cuda_emit_state {
  const kl_kernel *kernel;
  const kl_section *section;
  uint32_t section_id;
  kl_text *out;
  kl_cuda_group group;
  int depth; /* of indentation */
} kl_cuda_emit_state;

/* codegen/math as CUDA C++: made by the build from math_source.h. */
extern const char kl_math_cuda_source[];
/* Trees, folds and argmax pairs, as text (prelude.c). */
extern const char kl_cuda_prelude[];

void kl_cuda_line(kl_cuda_emit_state *e, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

const char *kl_cuda_ctype(int dtype); /* "float" */
const char *kl_cuda_token(int dtype); /* "f32", with "b8" for bool: part of function names */
const char *kl_cuda_sync(
    const kl_cuda_emit_state *e); /* "__syncwarp();", or of a block; "" for a thread */

/* body.c: the statements of one instruction. Stores are made where `stores` is set; in a ROW loop
 * by one thread of the group. */
void kl_cuda_instr(kl_cuda_emit_state *e, uint32_t id, bool in_row_loop, bool stores);
/* The coordinates c<first> ... c<end - 1> of the position `from`, row-major. */
void kl_cuda_coordinates(kl_cuda_emit_state *e, unsigned first, unsigned end, const char *from);
/* fold.c: the struct that defines a reduction, kl_<op>_<dtype of its operand>. */
void kl_cuda_fold_types(kl_cuda_emit_state *e);
void kl_cuda_fold_name(const kl_section *section, uint32_t reduce, char name[48]);
/* phase.c: the functions of one phase. */
void kl_cuda_phase(kl_cuda_emit_state *e, uint32_t phase_id);

#endif
