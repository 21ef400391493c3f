/* Small records by size class: values, storages, tensors, nodes of autograd.
 *
 * A freed block goes to its thread's list, from which the next one is taken, so that recording does
 * not pay for malloc. Lists exchange batches over a global one; memory goes back to the system at
 * no time. Built with AddressSanitizer, every block is malloc's, so that misuse is found.
 */
#ifndef KL_IR_SUPPORT_SLAB_H
#define KL_IR_SUPPORT_SLAB_H

#include <stddef.h>

/* Uninitialized, 16-byte aligned; NULL: no memory. Sizes above 1,024 bytes come from malloc. */
void *kl_slab_alloc(size_t nbytes);
/* With the size of the allocation. NULL is fine. */
void kl_slab_free(void *block, size_t nbytes);

#endif
