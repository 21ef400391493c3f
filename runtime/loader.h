/* Maps a relocatable ELF64 object from memory so that its code can be called.
 *
 * For objects of our own code generator, fresh or from the disk cache: x86-64 and AArch64, a few
 * relocation kinds, a fixed table of functions that code may call. Pages are writable or
 * executable, never both at once. Everything in the object is checked before it is used: a damaged
 * object is a status, never a crash (but wrong code is still wrong code; caches have checksums).
 */
#ifndef KL_RUNTIME_LOADER_H
#define KL_RUNTIME_LOADER_H

#include <stddef.h>

#include "ir/support/status.h"

typedef struct kl_module kl_module;

/* Maps the object, in which `symbol` must be a defined function. The bytes are copied. */
kl_status kl_loader_map(const void *bytes, size_t nbytes, const char *symbol,
                        kl_module **out_module) KL_MUST_CHECK;
/* The address of the function that the module was mapped for. */
void *kl_module_symbol(const kl_module *module);
/* Start and length of the code, for listings. */
const void *kl_module_code(const kl_module *module, size_t *out_nbytes);
/* Nothing may be running in it. NULL is ignored. */
void kl_module_unload(kl_module *module);

#endif
