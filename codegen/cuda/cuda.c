/* A whole CUDA unit: scalar math, prelude, the argument struct, reductions, functions. */
#include "codegen/cuda/cuda.h"

#include <stdarg.h>
#include <stdio.h>

#include "codegen/cuda/emit.h"

void kl_cuda_line(kl_cuda_emit_state *e, const char *format, ...) {
  char line[512];
  va_list args;
  va_start(args, format);
  vsnprintf(line, sizeof line, format, args);
  va_end(args);
  if (line[0]) kl_text_add(e->out, "%*s%s", 2 * e->depth, "", line);
  kl_text_add(e->out, "\n");
}

const char *kl_cuda_ctype(int dtype) {
  static const char *const names[KL_DTYPE_COUNT] = {[KL_BOOL] = "unsigned char",
                                                    [KL_U8] = "unsigned char",
                                                    [KL_I8] = "signed char",
                                                    [KL_I16] = "short",
                                                    [KL_I32] = "int",
                                                    [KL_I64] = "long long",
                                                    [KL_F16] = "unsigned short",
                                                    [KL_BF16] = "unsigned short",
                                                    [KL_F32] = "float",
                                                    [KL_F64] = "double"};
  return names[dtype];
}

const char *kl_cuda_token(int dtype) {
  return dtype == KL_BOOL ? "b8" : kl_dtype_name((kl_dtype)dtype);
}

const char *kl_cuda_sync(const kl_cuda_emit_state *e) {
  switch (e->group) {
    case KL_CUDA_BY_WARP:
      return "__syncwarp();";
    case KL_CUDA_BY_BLOCK:
      return "__syncthreads();";
    default:
      return "";
  }
}

static uint32_t at_least_one(uint32_t count) { return count ? count : 1; }

/* Launch arguments are few enough to go by value as a rule; a long chain has more. */
static void argument_struct(kl_cuda_emit_state *e) {
  uint32_t n_bufs = at_least_one(e->kernel->bufs.count), n_ints = at_least_one(e->kernel->n_ints),
           n_scalars = at_least_one(e->kernel->n_scalars);
  kl_cuda_line(e, "struct kl_args {");
  kl_cuda_line(e, "  void *bufs[%u];", n_bufs);
  kl_cuda_line(e, "  long long ints[%u];", n_ints);
  kl_cuda_line(e, "  union kl_scalar scalars[%u], *frame, *partials;", n_scalars);
  kl_cuda_line(e, "  char *scratch;");
  kl_cuda_line(e, "  long long scratch_stride; /* bytes a worker */");
  kl_cuda_line(e, "};");
  if (8ull * ((uint64_t)n_bufs + n_ints + n_scalars + 4) <= KL_CUDA_ARGS_NBYTES) {
    kl_cuda_line(e, "#define KL_ARGS_PARAMETER const struct kl_args args");
    kl_cuda_line(e, "#define KL_ARGS_HERE");
  } else {
    kl_cuda_line(e, "#define KL_ARGS_PARAMETER const struct kl_args *const args_at");
    kl_cuda_line(e, "#define KL_ARGS_HERE const struct kl_args &args = *args_at;");
  }
  kl_cuda_line(e, "%s", "");
}

kl_status kl_cuda_emit(const kl_kernel *kernel, kl_text *out) {
  kl_cuda_emit_state e = {.kernel = kernel, .out = out};
  for (uint32_t s = 0; s < kernel->sections.count; s++)
    if (kernel->sections.data[s].phases.count == 0)
      return kl_fail(KL_ERR_VALUE, "kernel section %u has no phases: it is not scheduled", s);
  /* Every unit has all of the math and names all of its variables, whatever it uses. */
  kl_text_add(out, "#pragma nv_diag_suppress 177\n%s\n%s", kl_math_cuda_source, kl_cuda_prelude);
  argument_struct(&e);
  kl_cuda_fold_types(&e);
  for (e.section_id = 0; e.section_id < kernel->sections.count; e.section_id++) {
    e.section = &kernel->sections.data[e.section_id];
    for (uint32_t p = 0; p < e.section->phases.count; p++) kl_cuda_phase(&e, p);
  }
  return kl_text_status(out);
}
