/* The caching allocator of tensor bytes on the host.
 *
 * A freed block is kept for the next request of its size class, because fresh pages cost more than
 * the arithmetic done on them. Classes are powers of two with eight steps between. The cache is
 * bounded (the largest blocks go first), and emptied before a request fails. All functions are
 * thread-safe, and usable in a forked child.
 */
#ifndef KL_RUNTIME_ALLOCATOR_H
#define KL_RUNTIME_ALLOCATOR_H

#include <stddef.h>
#include <stdint.h>

#include "ir/support/status.h"

enum { KL_ALLOCATOR_ALIGNMENT = 64 };

/* At least `nbytes` bytes (0 counts as 1), aligned to 64, uninitialized. `out_capacity` is the
 * block's true size, to be handed back with it. KL_ERR_OUT_OF_MEMORY beyond the cap or when the
 * system has no more. */
kl_status kl_allocator_allocate(size_t nbytes, void **out_ptr, size_t *out_capacity) KL_MUST_CHECK;
/* `ptr` NULL is allowed. */
void kl_allocator_free(void *ptr, size_t capacity);

/* Gives every cached block back to the system. */
void kl_allocator_trim(void);
/* Cap on bytes in use and cached together; 0 is none. Starts as KAEL_MEMORY_LIMIT. */
void kl_allocator_set_limit(size_t nbytes);

/* Most bytes kept in the cache; starts as a quarter of the machine's memory. */
void kl_allocator_set_cache_limit(size_t nbytes);

typedef struct kl_allocator_stats {
  size_t in_use_nbytes, cached_nbytes;
  size_t peak_nbytes;      /* highest in_use_nbytes since the start or the last reset */
  size_t limit_nbytes;     /* 0: none */
  uint64_t n_allocations;  /* successful requests */
  uint64_t n_cache_hits;   /* of these, served from the cache */
  uint64_t n_live;         /* blocks in use now */
} kl_allocator_stats;

kl_allocator_stats kl_allocator_stats_get(void);
void kl_allocator_reset_peak(void);

#endif
