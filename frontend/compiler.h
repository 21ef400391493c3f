/* From graphs to executables, with their caches in memory. */
#ifndef KL_FRONTEND_COMPILER_H
#define KL_FRONTEND_COMPILER_H

#include "frontend/extract.h"
#include "frontend/report.h"
#include "runtime/executable.h"

typedef struct kl_compiler_stats {
  int64_t n_programs;     /* graphs that went through the passes */
  int64_t n_program_hits; /* runs that found their executable */
  int64_t n_tier0, n_tier1; /* kernels prepared for the block executor, compiled by LLVM */
} kl_compiler_stats;

typedef enum kl_tier { KL_TIER_BLOCK, KL_TIER_LLVM } kl_tier;

/* A graph made ready to run. */
typedef struct kl_compiled {
  kl_executable *executable;
  kl_report *report; /* what its launches are */
} kl_compiled;

/* The executable for an extraction, from the cache or built. It stays owned by the cache, and valid
 * until the next call. Callers are serialized (frontend/materialize.c). */
kl_status kl_compiler_executable(const kl_extraction *extraction, kl_tier tier, bool *out_hit,
                                 const kl_compiled **out_compiled) KL_MUST_CHECK;
kl_compiler_stats kl_compiler_stats_get(void);
/* Empties the caches. */
void kl_compiler_clear(void);

#endif
