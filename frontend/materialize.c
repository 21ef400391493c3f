/* Evaluation: one run at a time, the recording lock held only to extract and to publish. */
#include "frontend/materialize.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#include "frontend/compiler.h"
#include "frontend/context.h"
#include "ir/support/fork.h"
#include "ir/support/log.h"
#include "ir/support/memory.h"

/* Serializes runs. Whoever needs a value that another thread is computing waits here. */
static pthread_mutex_t run_mutex = PTHREAD_MUTEX_INITIALIZER;
static kl_extraction extraction; /* guarded by run_mutex */
static _Thread_local bool inside_run;

static bool is_inside_run(void) { return inside_run; }

__attribute__((constructor)) static void keep_lock(void) {
  kl_fork_keep(KL_LOCK_RUN, &run_mutex, is_inside_run);
}

kl_status kl_run_lock(void) {
  /* Only a log callback comes here with the lock taken. */
  if (inside_run)
    return kl_fail(KL_ERR_RUNTIME, "evaluation: a log callback cannot evaluate tensors");
  pthread_mutex_lock(&run_mutex);
  inside_run = true;
  return KL_OK;
}

void kl_run_unlock(void) {
  inside_run = false;
  pthread_mutex_unlock(&run_mutex);
}

typedef KL_VEC(kl_buffer *) buffer_list;

/* External memory must not be given back under a lock: its owner's function may call us. And what
 * is computed into a pinned storage needs its memory, even if another thread lets go of it. */
static bool hold_buffers(buffer_list *held) {
  for (uint32_t i = 0; i < extraction.leaves.count; i++) {
    const kl_run_leaf *leaf = &extraction.leaves.data[i];
    if (!leaf->may_alias && !leaf->is_home) continue;
    if (!kl_vec_push(held, leaf->buffer)) return false;
    kl_buffer_retain(leaf->buffer);
  }
  return true;
}

static void release_held(buffer_list *held) {
  for (uint32_t i = 0; i < held->count; i++) kl_buffer_release(held->data[i]);
  kl_vec_finish(held);
}

static void publish(const kl_program *program, kl_buffer **outputs) {
  uint32_t n_leaves = extraction.leaves.count;
  kl_graph_lock();
  for (uint32_t i = 0; i < program->outputs.count; i++) {
    uint32_t at = (uint32_t)program->outputs.data[i].node - n_leaves;
    kl_value_become_real(extraction.values.data[at].value, outputs[i]);
  }
  kl_graph_unlock();
  for (uint32_t i = 0; i < program->outputs.count; i++) kl_buffer_release(outputs[i]);
}

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void log_run(const kl_program *program, kl_tier tier, bool hit, int64_t start_ns) {
  int64_t read = 0, written = 0;
  for (uint32_t i = 0; i < program->launches.count; i++) {
    read += program->launches.data[i].bytes_read;
    written += program->launches.data[i].bytes_written;
  }
  kl_log_message(1, "run for %s: %u ops, %u kernels, tier %d, %s, %lld us, %lld bytes read, %lld written",
         kl_thread.site, extraction.values.count, program->launches.count, (int)tier,
         hit ? "cache hit" : "new graph", (long long)(now_ns() - start_ns) / 1000, (long long)read,
         (long long)written);
}

static _Atomic int64_t total_runs, total_launches, total_read, total_written;

static void count_run(const kl_program *program) {
  total_runs++;
  total_launches += program->launches.count;
  for (uint32_t i = 0; i < program->launches.count; i++) {
    total_read += program->launches.data[i].bytes_read;
    total_written += program->launches.data[i].bytes_written;
  }
}

kl_run_stats kl_run_stats_get(void) {
  return (kl_run_stats){total_runs, total_launches, total_read, total_written};
}

static kl_status run_extraction(void) {
  enum { LOCAL = 32 };
  kl_tier tier = kl_jit_current() == KL_JIT_SYNC ? KL_TIER_LLVM : KL_TIER_BLOCK;
  int64_t start_ns = kl_log_enabled(1) ? now_ns() : 0;
  const kl_compiled *compiled;
  bool hit;
  KL_TRY(kl_compiler_executable(&extraction, tier, &hit, &compiled));
  const kl_program *program = kl_executable_program(compiled->executable);
  kl_buffer *local_leaves[LOCAL], *local_outputs[LOCAL];
  uint32_t n_leaves = extraction.leaves.count, n_outputs = program->outputs.count;
  kl_buffer **leaves = local_leaves, **outputs = local_outputs;
  if (n_leaves > LOCAL || n_outputs > LOCAL) {
    leaves = kl_malloc(sizeof *leaves * (n_leaves + n_outputs));
    if (!leaves) return kl_fail_memory("evaluation", sizeof *leaves * n_leaves);
    outputs = leaves + n_leaves;
  }
  for (uint32_t i = 0; i < n_leaves; i++) leaves[i] = extraction.leaves.data[i].buffer;
  kl_bindings bindings = {.leaves = leaves, .outputs = outputs, .scalars = extraction.scalars.data,
                          .offsets = extraction.offsets.data};
  /* Without memory for the times there are none. */
  if (kl_log_enabled(2))
    bindings.launch_ns = kl_calloc(program->launches.count + 1, sizeof *bindings.launch_ns);
  kl_status status = kl_executable_run(compiled->executable, &bindings);
  if (status == KL_OK) {
    publish(program, outputs);
    count_run(program);
    kl_report_set_last(compiled->report);
    if (kl_log_enabled(1)) log_run(program, tier, hit, start_ns);
    if (bindings.launch_ns) kl_report_log(compiled->report, bindings.launch_ns);
  }
  kl_free(bindings.launch_ns);
  if (leaves != local_leaves) kl_free(leaves);
  return status;
}

kl_status kl_materialize(kl_value *const *values, int n_values) {
  buffer_list held = {0};
  KL_TRY(kl_run_lock());
  kl_graph_lock();
  kl_status status = kl_extract(values, n_values, &extraction);
  if (status == KL_OK && !hold_buffers(&held)) status = kl_fail_memory("evaluation", sizeof held);
  kl_graph_unlock();
  if (status == KL_OK && extraction.values.count > 0) status = run_extraction();
  kl_run_unlock();
  release_held(&held);
  return status;
}

kl_status kl_materialize_storage(kl_storage *storage, kl_buffer **out_buffer) {
  kl_value *value = kl_storage_get_value(storage);
  kl_status status = kl_materialize(&value, 1);
  if (status == KL_OK && out_buffer) {
    kl_graph_lock();
    *out_buffer = kl_buffer_retain(value->buffer);
    kl_graph_unlock();
  }
  kl_value_release(value);
  return status;
}

kl_status kl_materialize_all(void) {
  kl_value **values;
  int n_values;
  KL_TRY(kl_storage_take_pending(&values, &n_values));
  kl_status status = kl_materialize(values, n_values);
  for (int i = 0; i < n_values; i++) kl_value_release(values[i]);
  kl_free(values);
  return status;
}

/* More is pending than the options allow, in values or in bytes that only they keep alive. */
static bool flush_is_due(void) {
  const kl_options *options = kl_options_get();
  return kl_value_pending_count() >= options->flush_nodes ||
         kl_value_held_nbytes() >= options->flush_bytes;
}

bool kl_runs_when_recorded(const kl_storage *written, bool reads_shared) {
  return kl_jit_current() == KL_JIT_OFF || reads_shared || kl_storage_is_shared(written) ||
         (written->flags & KL_STORAGE_EXTERNAL);
}

kl_status kl_recorded(kl_storage *written, bool reads_shared) {
  if (kl_jit_current() == KL_JIT_OFF || reads_shared || kl_storage_is_shared(written)) {
    return kl_materialize_storage(written, NULL);
  }
  /* Another storage may see the same external memory: its pending readers go first, now. */
  if (written->flags & KL_STORAGE_EXTERNAL) return kl_materialize_all();
  if (!flush_is_due()) return KL_OK;
  /* What fails here stays pending, and fails again for whoever asks for the value. */
  kl_error former;
  kl_error_save(&former);
  if (kl_materialize_all() != KL_OK) kl_error_restore(&former);
  return KL_OK;
}

kl_status kl_materialize_for_export(kl_storage *storage) {
  KL_TRY(kl_materialize_all());
  for (bool pinned = false; !pinned;) {
    KL_TRY(kl_materialize_storage(storage, NULL));
    kl_graph_lock();
    /* Another thread may have written meanwhile: then there are no bytes to pin yet. */
    if (!storage->pinned && storage->value->state == KL_VALUE_REAL) {
      storage->pinned = kl_buffer_retain(storage->value->buffer);
      atomic_fetch_or(&storage->pinned->flags, KL_BUFFER_PINNED);
    }
    pinned = storage->pinned != NULL;
    kl_graph_unlock();
  }
  return KL_OK;
}
