/* Options of the process, read once from the environment: KAEL_OPTIONS below is the only list.
 *
 * Under AT_SECURE (a setuid program) the environment is ignored. A value that cannot be read keeps
 * the default and is logged. Nothing else in the library may call getenv.
 */
#ifndef KL_IR_SUPPORT_OPTIONS_H
#define KL_IR_SUPPORT_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum kl_jit_mode { KL_JIT_OFF = 0, KL_JIT_ON = 1, KL_JIT_SYNC = 2 } kl_jit_mode;
typedef enum kl_matmul_provider { KL_MATMUL_KAEL, KL_MATMUL_OPENBLAS } kl_matmul_provider;

/* X(kind, field, variable, default as text, documentation).
 * Kinds: CHOICE a word of a list, COUNT a number in a range, BYTES a number with an optional
 * suffix K, M or G, TEXT any string (an unset one is NULL). */
#define KL_OPTIONS(X)                                                                              \
  X(CHOICE, jit, "KAEL_JIT", "1", "0: eager; 1: record, fuse, run; sync: also compile at once")     \
  X(COUNT, debug, "KAEL_DEBUG", "0", "0..4: how much is logged, by default to stderr")             \
  X(TEXT, dump, "KAEL_DUMP", NULL, "print the IR after the pass of this name")                     \
  X(COUNT, threads, "KAEL_THREADS", "0", "threads used by the library; 0: not set")                \
  X(COUNT, omp_threads, "OMP_NUM_THREADS", "0", "the same, where KAEL_THREADS is not set")         \
  X(CHOICE, matmul, "KAEL_MATMUL", "kael", "kael or openblas: who computes float matrix products") \
  X(TEXT, cache_dir, "KAEL_CACHE_DIR", NULL, "directory of compiled kernels")                      \
  X(COUNT, flush_nodes, "KAEL_FLUSH_NODES", "16384", "pending nodes at which the graph is run")    \
  X(BYTES, flush_bytes, "KAEL_FLUSH_BYTES", "64M", "bytes held for pending values, the same way")  \
  X(BYTES, memory_limit, "KAEL_MEMORY_LIMIT", "0", "cap on tensor memory in bytes; 0: none")       \
  X(CHOICE, isa, "KAEL_ISA", "", "v2, v3 or v4: highest x86-64 level used by precompiled code")    \
  X(TEXT, llvm_plugin, "KAEL_LLVM_PLUGIN", NULL, "path of the code generator's plugin")

typedef struct kl_options {
#define KL_OPTION_TYPE_CHOICE int
#define KL_OPTION_TYPE_COUNT int64_t
#define KL_OPTION_TYPE_BYTES int64_t
#define KL_OPTION_TYPE_TEXT const char *
#define X(kind, field, variable, fallback, doc) KL_OPTION_TYPE_##kind field;
  KL_OPTIONS(X)
#undef X
  bool debug_is_set; /* KAEL_DEBUG is in the environment, be it 0 */
} kl_options;
/* `jit` is a kl_jit_mode, `matmul` a kl_matmul_provider, `isa` 2, 3, 4 or 0 for no cap. */

/* The options, read at the first call; thread-safe, never NULL, valid for ever. */
const kl_options *kl_options_get(void);

/* One row of the table, for documentation and `kael info`. NULL past the end. */
typedef struct kl_option_doc {
  const char *variable, *fallback, *doc;
} kl_option_doc;
const kl_option_doc *kl_option_doc_at(size_t index);

#endif
