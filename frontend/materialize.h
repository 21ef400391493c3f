/* Materialization: from pending values to bytes. The one place where the stages are wired:
 * extract the graph, look up or build the executable (passes, codegen), run, publish. */
#ifndef KL_FRONTEND_MATERIALIZE_H
#define KL_FRONTEND_MATERIALIZE_H

#include "runtime/storage.h"

/* Makes the given values REAL (with all they need, and intermediates that others still refer to).
 * On failure every value stays as it was and the call can be repeated. */
kl_status kl_materialize(kl_value *const *values, int n_values) KL_MUST_CHECK;
/* Evaluates the storage's pending value. *out_buffer (out_buffer may be NULL) becomes a reference to
 * its bytes: another thread may write the storage at any time, and give it others. */
kl_status kl_materialize_storage(kl_storage *storage, kl_buffer **out_buffer) KL_MUST_CHECK;
/* The same for every storage whose value is pending. */
kl_status kl_materialize_all(void) KL_MUST_CHECK;
/* Called after recording: in eager mode, and for storages that are SHARED (the one written, or one
 * read), runs at once; else applies the automatic flush. */
kl_status kl_recorded(kl_storage *written, bool reads_shared) KL_MUST_CHECK;
/* Whether that runs something for `written`, and so may fail. */
bool kl_runs_when_recorded(const kl_storage *written, bool reads_shared);
/* Before the memory of `storage` is given out: runs the pending readers of its current bytes and
 * its own value, then pins it. */
kl_status kl_materialize_for_export(kl_storage *storage) KL_MUST_CHECK;

/* The lock of evaluation, for those who extract a graph without running it: an extraction marks the
 * values that it meets. An error where the calling thread has it. */
kl_status kl_run_lock(void) KL_MUST_CHECK;
void kl_run_unlock(void);

/* Totals since the start; bytes as each launch reads and writes them, every element once. */
typedef struct kl_run_stats {
  int64_t n_runs, n_launches, bytes_read, bytes_written;
} kl_run_stats;
kl_run_stats kl_run_stats_get(void);

#endif
