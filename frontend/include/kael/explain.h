/* kael/explain.h: what a tensor is, and what stands behind it. */
#ifndef KAEL_EXPLAIN_H
#define KAEL_EXPLAIN_H

#include "kael/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Text for people: the tensor; its storage with `references: N` (the tensors that refer to it),
 * version and state; why it is or is not lazy; and the pending graph, or, where there is none, the
 * kernels of the last run (of any tensor and thread), a line each: index space, primitives, the
 * operations that they come from, bytes. A string to be released with kael_string_free; NULL after an
 * error. Never materializes. */
KAEL_API char *kael_explain(const kael_tensor *tensor);

#ifdef __cplusplus
}
#endif
#endif
