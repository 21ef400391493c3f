/* Host memory for the library's own records (not for tensor bytes: runtime/allocator.h).
 *
 * All of it goes through here, so that a test can make the Nth allocation fail, for every N.
 * NULL means out of memory; callers turn it into a status.
 */
#ifndef KL_IR_SUPPORT_MEMORY_H
#define KL_IR_SUPPORT_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

void *kl_malloc(size_t nbytes);
void *kl_calloc(size_t count, size_t nbytes);
void *kl_realloc(void *ptr, size_t nbytes);
void kl_free(void *ptr);

/* True when this allocation is the one a test chose to fail; counts it. */
bool kl_memory_should_fail(void);
/* The `nth` allocation from now on (1 is the next) fails once; 0 switches this off. Tests only. */
void kl_memory_fail_nth(long nth);

#endif
