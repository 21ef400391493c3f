/* The LLVM plugin as the library sees it: opened at the first use, then kept. */
#ifndef KL_RUNTIME_PLUGIN_H
#define KL_RUNTIME_PLUGIN_H

#include "ir/launch.h"
#include "ir/plugin.h"

/* The plugin's table, opened if need be; thread-safe. It is sought in the file that the option
 * KAEL_LLVM_PLUGIN names; else beside the library's own file, in kael/ there, in the build tree;
 * else where it was installed. Not found: KL_ERR_COMPILER, and the next call tries again. */
kl_status kl_plugin_get(const kl_llvm_plugin **out_plugin) KL_MUST_CHECK;

/* Compiles a section to an object, for a cache; kl_plugin_release frees it. */
kl_status kl_plugin_compile(const kl_kernel *kernel, uint32_t section,
                            const kl_compile_options *options, kl_object *out_object) KL_MUST_CHECK;
void kl_plugin_release(kl_object *object);

/* Code from an object, which is not needed afterwards. */
kl_status kl_code_from_object(const kl_object *object, const char *symbol,
                              kl_code **out_code) KL_MUST_CHECK;

/* Both: tier 1's counterpart of kl_block_prepare, for this machine. */
kl_status kl_llvm_prepare(const kl_kernel *kernel, uint32_t section,
                          kl_code **out_code) KL_MUST_CHECK;

#endif
