/* The float32 copy of the matrix product's kernels, compiled once for each level. */
#define ELEMENT_F32 1
#include "runtime/matmul_kernels.inc"
