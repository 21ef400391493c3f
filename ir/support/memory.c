/* malloc and friends with one hook: the Nth allocation can be made to fail. */
#include "ir/support/memory.h"

#include <stdatomic.h>
#include <stdlib.h>

static atomic_long allocations_until_failure; /* 0: off */

bool kl_memory_should_fail(void) {
  if (atomic_load_explicit(&allocations_until_failure, memory_order_relaxed) == 0) return false;
  long left = atomic_fetch_sub(&allocations_until_failure, 1);
  if (left < 1) atomic_fetch_add(&allocations_until_failure, 1); /* another thread used it up */
  return left == 1;
}

void kl_memory_fail_nth(long nth) { atomic_store(&allocations_until_failure, nth); }

void *kl_malloc(size_t nbytes) {
  return kl_memory_should_fail() ? NULL : malloc(nbytes ? nbytes : 1);
}

void *kl_calloc(size_t count, size_t nbytes) {
  return kl_memory_should_fail() ? NULL : calloc(count ? count : 1, nbytes ? nbytes : 1);
}

void *kl_realloc(void *ptr, size_t nbytes) {
  return kl_memory_should_fail() ? NULL : realloc(ptr, nbytes ? nbytes : 1);
}

void kl_free(void *ptr) { free(ptr); }
