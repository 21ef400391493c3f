/* What the loops of the per-level files share: names of a level, promises to the vectorizer. */
#ifndef KL_CODEGEN_BLOCK_LOOPS_H
#define KL_CODEGEN_BLOCK_LOOPS_H

#define KL_BLOCK_PASTE_(a, b) a##b
#define KL_BLOCK_PASTE(a, b) KL_BLOCK_PASTE_(a, b)
/* kl_block_elem_ -> kl_block_elem_v3 */
#define KL_BLOCK_LEVEL_NAME(prefix) KL_BLOCK_PASTE(prefix, KL_LEVEL)

/* Result and operands are the same block or apart, so no iteration reads what another one wrote. */
#if defined(__clang__)
#define KL_BLOCK_FOR(i, n)                                                                         \
  _Pragma("clang loop vectorize(assume_safety)") for (int64_t i = 0; i < (n); i++)
#else
#define KL_BLOCK_FOR(i, n) _Pragma("GCC ivdep") for (int64_t i = 0; i < (n); i++)
#endif

#endif
