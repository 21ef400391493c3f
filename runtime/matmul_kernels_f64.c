/* The float64 copy of the matrix product's kernels, compiled once for each level. */
#define ELEMENT_F64 1
#include "runtime/matmul_kernels.inc"
