/* Two caches: executables by the structure of their graph, kernels' code by their form, so that a
 * new size costs passes but no compilation. Both are emptied when they grow past a bound. */
#include "frontend/compiler.h"

#include <stdatomic.h>
#include <string.h>
#include <xxhash.h>

#include "ir/support/log.h"
#include "ir/support/memory.h"
#include "ir/support/options.h"
#include "ir/support/text.h"
#include "passes/pipeline.h"
#include "runtime/plugin.h"
#include "runtime/threads.h"

typedef struct cache_entry {
  struct cache_entry *next;
  uint64_t hash;
  void *payload;
  uint32_t key_nbytes;
  char key[];
} cache_entry;

typedef struct cache {
  cache_entry **buckets;
  uint32_t n_buckets, count;
} cache;

enum { N_BUCKETS = 4096, MOST_EXECUTABLES = 4096, MOST_CODES = 4096 };

static cache executables[2], codes[2]; /* by tier */

static struct {
  _Atomic int64_t programs, program_hits, tier0, tier1;
} counts;

static void *cache_find(const cache *c, uint64_t hash, const void *key, uint32_t nbytes) {
  if (!c->buckets) return NULL;
  for (cache_entry *entry = c->buckets[hash % c->n_buckets]; entry; entry = entry->next)
    if (entry->hash == hash && entry->key_nbytes == nbytes && !memcmp(entry->key, key, nbytes))
      return entry->payload;
  return NULL;
}

static void cache_clear(cache *c, void (*destroy)(void *payload)) {
  for (uint32_t i = 0; c->buckets && i < c->n_buckets; i++) {
    for (cache_entry *entry = c->buckets[i]; entry;) {
      cache_entry *next = entry->next;
      destroy(entry->payload);
      kl_free(entry);
      entry = next;
    }
  }
  kl_free(c->buckets);
  *c = (cache){0};
}

static kl_status cache_add(cache *c, uint64_t hash, const void *key, uint32_t nbytes, void *payload) {
  if (!c->buckets) {
    c->buckets = kl_calloc(N_BUCKETS, sizeof *c->buckets);
    if (!c->buckets) return kl_fail_memory("cache", N_BUCKETS * sizeof *c->buckets);
    c->n_buckets = N_BUCKETS;
  }
  cache_entry *entry = kl_malloc(sizeof *entry + nbytes);
  if (!entry) return kl_fail_memory("cache", sizeof *entry + nbytes);
  *entry = (cache_entry){.next = c->buckets[hash % c->n_buckets], .hash = hash, .payload = payload,
                         .key_nbytes = nbytes};
  memcpy(entry->key, key, nbytes);
  c->buckets[hash % c->n_buckets] = entry;
  c->count++;
  return KL_OK;
}

static void destroy_compiled(void *payload) {
  kl_compiled *compiled = payload;
  if (!compiled) return;
  kl_executable_destroy(compiled->executable);
  kl_report_release(compiled->report);
  kl_free(compiled);
}

static void release_code(void *payload) { kl_kernel_code_release(payload); }

/* --- kernels ---------------------------------------------------------------------------------- */

static kl_status prepare_sections(kl_kernel_code *code, kl_tier tier) {
  uint32_t n = code->kernel.sections.count;
  code->sections = kl_calloc(n, sizeof *code->sections);
  if (!code->sections) return kl_fail_memory("compile", sizeof *code->sections * n);
  for (uint32_t s = 0; s < n; s++) {
    if (tier == KL_TIER_LLVM)
      KL_TRY(kl_llvm_prepare(&code->kernel, s, &code->sections[s]));
    else
      KL_TRY(kl_block_prepare(&code->kernel, s, &code->sections[s]));
  }
  atomic_fetch_add(tier == KL_TIER_LLVM ? &counts.tier1 : &counts.tier0, 1);
  return KL_OK;
}

/* The code of a kernel, with a reference for the caller; the kernel is taken over. */
static kl_status code_for(kl_kernel *kernel, kl_tier tier, kl_kernel_code **out_code) {
  kl_text key = {0};
  kl_kernel_code *code = NULL;
  kl_status status = kl_kernel_key(kernel, &key);
  if (status != KL_OK) goto done;
  uint64_t hash = XXH3_64bits(key.data, key.nbytes);
  code = cache_find(&codes[tier], hash, key.data, (uint32_t)key.nbytes);
  if (code) {
    atomic_fetch_add(&code->refs, 1);
    *out_code = code;
    code = NULL;
    goto done;
  }
  code = kl_calloc(1, sizeof *code);
  if (!code) {
    status = kl_fail_memory("compile", sizeof *code);
    goto done;
  }
  code->refs = 1;
  code->tier = (int)tier;
  code->kernel = *kernel;
  *kernel = (kl_kernel){0};
  KL_TRY_GOTO(status, prepare_sections(code, tier), done);
  if (codes[tier].count >= MOST_CODES) cache_clear(&codes[tier], release_code);
  KL_TRY_GOTO(status, cache_add(&codes[tier], hash, key.data, (uint32_t)key.nbytes, code), done);
  atomic_fetch_add(&code->refs, 1);
  *out_code = code;
  code = NULL;
done:
  kl_kernel_code_release(code);
  kl_kernel_finish(kernel);
  kl_text_finish(&key);
  return status;
}

/* --- executables ------------------------------------------------------------------------------ */

static void dump_pass(void *user, const char *pass, const char *text) {
  (void)user;
  kl_log_message(0, "after %s:\n%s", pass, text); /* asked for by name, at any level */
}

static kl_status make_program(const kl_extraction *extraction, kl_program *out_program,
                              kl_report **out_report) {
  kl_graph graph = {0};
  KL_TRY(kl_extract_graph(extraction, &graph));
  const kl_options *options = kl_options_get();
  kl_pass_options passes = {.n_threads = kl_thread_count(),
                            .dump = options->debug >= 3 ? "all" : options->dump,
                            .dump_fn = dump_pass};
#ifndef NDEBUG
  passes.verify = true;
#endif
  kl_status status = kl_passes_run(&graph, &passes, out_program);
  if (status == KL_OK) {
    status = kl_report_create(extraction, &graph, out_program, out_report);
    if (status != KL_OK) kl_program_finish(out_program);
  }
  kl_graph_finish(&graph);
  return status;
}

/* The program is taken over, on failure too. */
static kl_status make_executable(kl_program *program, kl_tier tier, kl_executable **out_executable) {
  uint32_t n = program->kernels.count, done = 0;
  kl_kernel_code **made = kl_calloc(n + 1, sizeof *made);
  kl_status status = made ? KL_OK : kl_fail_memory("compile", sizeof *made * n);
  for (; done < n && status == KL_OK; done++)
    status = code_for(&program->kernels.data[done], tier, &made[done]);
  if (status == KL_OK) status = kl_executable_create(program, made, out_executable);
  if (status != KL_OK)
    for (uint32_t i = 0; i < done; i++) kl_kernel_code_release(made[i]);
  kl_free(made);
  kl_program_finish(program);
  return status;
}

static kl_status build(const kl_extraction *extraction, kl_tier tier, kl_compiled **out_compiled) {
  kl_compiled *compiled = kl_calloc(1, sizeof *compiled);
  if (!compiled) return kl_fail_memory("compile", sizeof *compiled);
  kl_program program;
  kl_status status = make_program(extraction, &program, &compiled->report);
  if (status == KL_OK) {
    atomic_fetch_add(&counts.programs, 1);
    status = make_executable(&program, tier, &compiled->executable);
  }
  if (status == KL_OK)
    *out_compiled = compiled;
  else
    destroy_compiled(compiled);
  return status;
}

kl_status kl_compiler_executable(const kl_extraction *extraction, kl_tier tier, bool *out_hit,
                                 const kl_compiled **out_compiled) {
  const void *key = extraction->key.data;
  uint32_t nbytes = extraction->key.count;
  uint64_t hash = XXH3_64bits(key, nbytes);
  kl_compiled *compiled = cache_find(&executables[tier], hash, key, nbytes);
  *out_hit = compiled != NULL;
  if (compiled) {
    atomic_fetch_add_explicit(&counts.program_hits, 1, memory_order_relaxed);
  } else {
    KL_TRY(build(extraction, tier, &compiled));
    if (executables[tier].count >= MOST_EXECUTABLES) cache_clear(&executables[tier], destroy_compiled);
    kl_status status = cache_add(&executables[tier], hash, key, nbytes, compiled);
    if (status != KL_OK) {
      destroy_compiled(compiled);
      return status;
    }
  }
  *out_compiled = compiled;
  return KL_OK;
}

kl_compiler_stats kl_compiler_stats_get(void) {
  return (kl_compiler_stats){counts.programs, counts.program_hits, counts.tier0, counts.tier1};
}

void kl_compiler_clear(void) {
  for (int tier = 0; tier < 2; tier++) {
    cache_clear(&executables[tier], destroy_compiled);
    cache_clear(&codes[tier], release_code);
  }
}
