/* The one interface between libkael_jit and its LLVM plugin, libkael_llvm.so.
 *
 * The plugin has its own copy of ir/ and shares no symbol with the library, so everything passes
 * through the table that its only exported symbol returns: also the error, which each side keeps in
 * a variable of its own. The records of ir/kernel.h cross by address, so both sides must come from
 * one build: `build` says so.
 */
#ifndef KL_IR_PLUGIN_H
#define KL_IR_PLUGIN_H

#include "ir/kernel.h"

enum { KL_PLUGIN_ABI = 1 };
#define KL_PLUGIN_ENTRY "kl_llvm_plugin_entry"

/* A relocatable ELF object in memory, that defines one function of type kl_code_fn. */
typedef struct kl_object {
  void *bytes;
  size_t nbytes;
  size_t scratch_nbytes; /* for kl_code.scratch_nbytes */
} kl_object;

typedef struct kl_compile_options {
  const char *cpu;      /* LLVM's name of the CPU; NULL or "": this machine's, with its features */
  const char *features; /* "+avx2,-avx512f"; NULL or "": what the CPU has */
  const char *symbol;   /* name of the function */
  /* Called with the text of the LLVM IR ("llvm") and of the assembly ("asm"); may be NULL. */
  void (*dump)(void *user, const char *what, const char *text);
  void *dump_user;
} kl_compile_options;

typedef struct kl_llvm_plugin {
  uint32_t abi; /* KL_PLUGIN_ABI */
  const char *build;
  const char *llvm_version; /* "19.1.7" */
  /* Compiles one section of a verified kernel. Thread-safe. */
  kl_status (*compile)(const kl_kernel *kernel, uint32_t section, const kl_compile_options *options,
                       kl_object *out_object);
  void (*release)(kl_object *object); /* frees the bytes; a zeroed object is ignored */
  const char *(*error_message)(void); /* of the last call on this thread that failed */
} kl_llvm_plugin;

typedef const kl_llvm_plugin *kl_llvm_plugin_entry_fn(void);

#endif
