/* A buffer: the counted bytes behind a storage, our own or an external owner's.
 *
 * Header and bytes of a small buffer are one block of the caching allocator; a large one has its
 * bytes apart, so that they can be huge pages. Counting is atomic; the bytes are not guarded.
 */
#ifndef KL_RUNTIME_BUFFER_H
#define KL_RUNTIME_BUFFER_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "ir/support/status.h"

typedef enum kl_buffer_flag {
  KL_BUFFER_EXTERNAL = 1u << 0, /* the bytes belong to someone else; the deleter tells them */
  KL_BUFFER_READONLY = 1u << 1, /* must not be written */
  KL_BUFFER_SHARED = 1u << 2,   /* others may read or write the bytes at any time */
  KL_BUFFER_PINNED = 1u << 3,   /* the address was given out and must stay */
} kl_buffer_flag;

/* Called once, by the last release, with the pointer and `user` given at creation. */
typedef void (*kl_buffer_deleter)(void *ptr, void *user);

typedef struct kl_buffer {
  atomic_long refs;
  void *ptr; /* never NULL for an owned buffer, also of size 0 */
  size_t nbytes;
  _Atomic uint32_t flags; /* kl_buffer_flag */
  size_t block_nbytes;    /* capacity of the header's block */
  size_t bytes_capacity;  /* capacity of the separate bytes; 0: in the header's block or external */
  kl_buffer_deleter deleter;
  void *user;
} kl_buffer;

/* One reference, uninitialized bytes aligned to 64. KL_ERR_OUT_OF_MEMORY. */
kl_status kl_buffer_create(size_t nbytes, kl_buffer **out_buffer) KL_MUST_CHECK;
/* Wraps `ptr`; `flags` may add READONLY and SHARED. `deleter` may be NULL. On failure the deleter
 * is not called: the caller still owns the bytes. */
kl_status kl_buffer_create_external(void *ptr, size_t nbytes, kl_buffer_deleter deleter, void *user,
                                    uint32_t flags, kl_buffer **out_buffer) KL_MUST_CHECK;

kl_buffer *kl_buffer_retain(kl_buffer *buffer); /* returns `buffer`; NULL stays NULL */
void kl_buffer_release(kl_buffer *buffer);      /* NULL is allowed */
/* The only reference is the caller's: nobody else can see a change of the bytes by way of kael. */
int kl_buffer_is_unique(const kl_buffer *buffer);

#endif
