/* The public statistics, gathered from those who count. */
#include "kael/stats.h"

#include <string.h>

#include "frontend/compiler.h"
#include "frontend/materialize.h"
#include "runtime/allocator.h"

kael_status kael_stats_get(kael_stats *out_stats) {
  if (!out_stats || out_stats->size <= sizeof out_stats->size)
    return (kael_status)kl_fail(KL_ERR_VALUE,
                                "stats_get: set the member `size` to sizeof(kael_stats) first");
  kl_run_stats runs = kl_run_stats_get();
  kl_compiler_stats compiler = kl_compiler_stats_get();
  kl_allocator_stats memory = kl_allocator_stats_get();
  kael_stats stats = {
      .size = out_stats->size,
      .runs = runs.n_runs,
      .kernels = runs.n_launches,
      .bytes_read = runs.bytes_read,
      .bytes_written = runs.bytes_written,
      .programs_built = compiler.n_programs,
      .cache_hits = compiler.n_program_hits,
      .kernels_tier0 = compiler.n_tier0,
      .kernels_llvm = compiler.n_tier1,
      .pending_values = kl_value_pending_count(),
      .memory_in_use = memory.in_use_nbytes,
      .memory_peak = memory.peak_nbytes,
      .memory_cached = memory.cached_nbytes,
  };
  /* A program built with an older header has a shorter structure, one with a newer a longer one. */
  size_t nbytes = out_stats->size < sizeof stats ? out_stats->size : sizeof stats;
  memcpy(out_stats, &stats, nbytes);
  return KAEL_OK;
}

void kael_stats_reset_peak(void) { kl_allocator_reset_peak(); }
