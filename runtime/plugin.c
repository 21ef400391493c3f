/* Finds and opens the LLVM plugin, and turns its objects into code (plugin.h). */
#include "runtime/plugin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "ir/support/fork.h"
#include "ir/support/log.h"
#include "ir/support/memory.h"
#include "ir/support/options.h"
#include "runtime/loader.h"

#ifndef KL_PLUGIN_DIR
#define KL_PLUGIN_DIR "/usr/local/lib/kael"
#endif
#define PLUGIN_FILE "libkael_llvm.so"
#define CODE_SYMBOL "kl_code"

enum { PATH_CAPACITY = 4096 };

static struct {
  pthread_mutex_t lock;
  _Atomic(const kl_llvm_plugin *) table; /* NULL until it is open; never closed */
} plugin = {.lock = PTHREAD_MUTEX_INITIALIZER};

__attribute__((constructor)) static void keep_lock(void) {
  kl_fork_keep(KL_LOCK_PLUGIN, &plugin.lock, NULL);
}

/* Reasons are collected, so that the message says all that was tried. */
typedef struct search {
  char tried[1024];
  size_t length;
} search;

static void note(search *s, const char *path, const char *why) {
  bool named = why && strstr(why, path); /* dlerror names the file mostly */
  int n =
      snprintf(s->tried + s->length, sizeof s->tried - s->length, "%s%s%s%s", s->length ? "; " : "",
               named ? "" : path, named ? "" : ": ", why ? why : "unknown error");
  if (n > 0) s->length += (size_t)n;
  if (s->length >= sizeof s->tried) s->length = sizeof s->tried - 1;
}

static const kl_llvm_plugin *try_file(search *s, const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    note(s, path, dlerror());
    return NULL;
  }
  kl_llvm_plugin_entry_fn *entry;
  void *symbol = dlsym(library, KL_PLUGIN_ENTRY);
  memcpy(&entry, &symbol, sizeof entry);
  const kl_llvm_plugin *table = entry ? entry() : NULL;
  if (table && table->abi == KL_PLUGIN_ABI && strcmp(table->build, KL_VERSION) == 0) return table;
  note(s, path, table ? "made by another version of kael" : "not a plugin of kael");
  dlclose(library);
  return NULL;
}

/* Tries `folder`/libkael_llvm.so for the folder of the file this code is in, and some below. */
static const kl_llvm_plugin *try_beside(search *s) {
  static const char *const below[] = {"kael/", "", "../codegen/llvm/"};
  Dl_info info;
  if (!dladdr((void *)kl_plugin_get, &info) || !info.dli_fname) return NULL;
  const char *slash = strrchr(info.dli_fname, '/');
  int folder = slash ? (int)(slash - info.dli_fname) + 1 : 0;
  for (size_t i = 0; i < sizeof below / sizeof *below; i++) {
    char path[PATH_CAPACITY];
    int n = snprintf(path, sizeof path, "%.*s%s" PLUGIN_FILE, folder, info.dli_fname, below[i]);
    if (n < 0 || (size_t)n >= sizeof path || !strchr(path, '/')) continue;
    const kl_llvm_plugin *table = try_file(s, path);
    if (table) return table;
  }
  return NULL;
}

static kl_status open_plugin(const kl_llvm_plugin **out_plugin) {
  search s = {{0}, 0};
  const char *chosen = kl_options_get()->llvm_plugin;
  const kl_llvm_plugin *table = NULL;
  if (chosen) {
    table = try_file(&s, chosen);
  } else {
    table = try_beside(&s);
    if (!table) table = try_file(&s, KL_PLUGIN_DIR "/" PLUGIN_FILE);
  }
  if (!table)
    return kl_fail(KL_ERR_COMPILER,
                   "the LLVM plugin cannot be opened (%s); set KAEL_LLVM_PLUGIN to "
                   "its path, or build kael with LLVM",
                   s.tried);
  *out_plugin = table;
  return KL_OK;
}

kl_status kl_plugin_get(const kl_llvm_plugin **out_plugin) {
  kl_status status = KL_OK;
  const kl_llvm_plugin *table = plugin.table;
  if (!table) {
    pthread_mutex_lock(&plugin.lock);
    table = plugin.table;
    if (!table && (status = open_plugin(&table)) == KL_OK) plugin.table = table;
    pthread_mutex_unlock(&plugin.lock);
  }
  if (status == KL_OK) *out_plugin = table;
  return status;
}

kl_status kl_plugin_compile(const kl_kernel *kernel, uint32_t section,
                            const kl_compile_options *options, kl_object *out_object) {
  const kl_llvm_plugin *table;
  KL_TRY(kl_plugin_get(&table));
  kl_status status = table->compile(kernel, section, options, out_object);
  /* The plugin keeps its errors in its own copy of status.c. */
  if (status != KL_OK) return kl_fail(status, "%s", table->error_message());
  return KL_OK;
}

void kl_plugin_release(kl_object *object) {
  const kl_llvm_plugin *table = plugin.table;
  if (table) table->release(object);
}

typedef struct loaded_code {
  kl_code code;
  kl_module *module;
} loaded_code;

static void destroy_loaded(kl_code *code) {
  loaded_code *loaded = (loaded_code *)code;
  kl_module_unload(loaded->module);
  kl_free(loaded);
}

kl_status kl_code_from_object(const kl_object *object, const char *symbol, kl_code **out_code) {
  loaded_code *loaded = kl_calloc(1, sizeof *loaded);
  if (!loaded) return kl_fail_memory("compiled code", sizeof *loaded);
  kl_status status = kl_loader_map(object->bytes, object->nbytes, symbol, &loaded->module);
  if (status != KL_OK) {
    kl_free(loaded);
    return status;
  }
  void *run = kl_module_symbol(loaded->module);
  memcpy(&loaded->code.run, &run, sizeof run);
  loaded->code.scratch_nbytes = object->scratch_nbytes;
  loaded->code.destroy = destroy_loaded;
  *out_code = &loaded->code;
  return KL_OK;
}

/* KAEL_DEBUG=4. */
static void log_listing(void *user, const char *what, const char *text) {
  (void)user;
  kl_log_message(4, "%s of a kernel:\n%s", what, text);
}

kl_status kl_llvm_prepare(const kl_kernel *kernel, uint32_t section, kl_code **out_code) {
  kl_object object = {0};
  kl_compile_options options = {.symbol = CODE_SYMBOL};
  if (kl_log_enabled(4)) options.dump = log_listing;
  KL_TRY(kl_plugin_compile(kernel, section, &options, &object));
  kl_status status = kl_code_from_object(&object, CODE_SYMBOL, out_code);
  kl_plugin_release(&object);
  return status;
}
