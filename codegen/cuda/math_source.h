/* Preprocessed by the build, this is the scalar math of every CUDA unit as text that includes
 * nothing (kl_math_cuda_source); it is not compiled. */
#define KL_MATH_CUDA 1
#include "codegen/math/verbs_c.h"

#include "codegen/math/all.def"

#include "codegen/math/verbs_undef.h"
