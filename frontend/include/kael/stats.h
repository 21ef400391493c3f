/* kael/stats.h: what the library has done and what it holds, in numbers, for the whole process. */
#ifndef KAEL_STATS_H
#define KAEL_STATS_H

#include "kael/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Counts since the start of the process, over all threads; take the difference of two calls for a
 * stretch of code. Later versions add members at the end. */
typedef struct kael_stats {
  size_t size; /* sizeof(kael_stats), set by the caller */

  /* Runs: evaluations of recorded operations. In eager mode each operation is one. */
  int64_t runs;
  int64_t kernels;       /* launches in them: kernels, matrix products, copies of buffers */
  int64_t bytes_read;    /* by these launches; each counts every element that it touches once, */
  int64_t bytes_written; /* wherever the bytes were (in a cache, or in memory) */

  /* Compilation. */
  int64_t programs_built; /* runs whose graph was new and went through the passes */
  int64_t cache_hits;     /* runs whose graph was known */
  int64_t kernels_tier0;  /* kernels prepared for the block executor */
  int64_t kernels_llvm;   /* kernels compiled to machine code by LLVM */

  /* Now. */
  int64_t pending_values;    /* recorded and not computed */
  size_t memory_in_use;      /* bytes of tensors, and of runs in progress */
  size_t memory_peak;        /* the most bytes in use since the start or kael_stats_reset_peak */
  size_t memory_cached;      /* bytes kept for later tensors: not in use, not given back */
} kael_stats;

/* Fills *out_stats, as far as out_stats->size goes. KAEL_ERR_VALUE for NULL, or a size that has no
 * room for a member. Never materializes. */
KAEL_API kael_status kael_stats_get(kael_stats *out_stats);
/* Lets memory_peak start again from the bytes in use now. */
KAEL_API void kael_stats_reset_peak(void);

#ifdef __cplusplus
}
#endif
#endif
