/* Creates, counts and frees buffers over the caching allocator. */
#include "runtime/buffer.h"

#include "runtime/allocator.h"

enum { HEADER_NBYTES = 64 };
_Static_assert(sizeof(kl_buffer) <= HEADER_NBYTES, "bytes behind the header must stay aligned");

/* Above this, header and bytes are two blocks: 64 more bytes would cost a whole size class. */
static const size_t joined_max_nbytes = (size_t)64 << 10;

static kl_status create_header(size_t n_extra_bytes, kl_buffer **out_buffer) {
  void *block;
  size_t capacity;
  KL_TRY(kl_allocator_allocate(HEADER_NBYTES + n_extra_bytes, &block, &capacity));
  kl_buffer *buffer = block;
  atomic_init(&buffer->refs, 1);
  atomic_init(&buffer->flags, 0);
  buffer->ptr = (char *)block + HEADER_NBYTES;
  buffer->nbytes = n_extra_bytes;
  buffer->block_nbytes = capacity;
  buffer->bytes_capacity = 0;
  buffer->deleter = NULL;
  buffer->user = NULL;
  *out_buffer = buffer;
  return KL_OK;
}

kl_status kl_buffer_create(size_t nbytes, kl_buffer **out_buffer) {
  if (nbytes <= joined_max_nbytes) return create_header(nbytes, out_buffer);
  kl_buffer *buffer;
  KL_TRY(create_header(0, &buffer));
  kl_status status = kl_allocator_allocate(nbytes, &buffer->ptr, &buffer->bytes_capacity);
  if (status != KL_OK) {
    kl_allocator_free(buffer, buffer->block_nbytes);
    return status;
  }
  buffer->nbytes = nbytes;
  *out_buffer = buffer;
  return KL_OK;
}

kl_status kl_buffer_create_external(void *ptr, size_t nbytes, kl_buffer_deleter deleter, void *user,
                                    uint32_t flags, kl_buffer **out_buffer) {
  kl_buffer *buffer;
  KL_TRY(create_header(0, &buffer));
  buffer->ptr = ptr;
  buffer->nbytes = nbytes;
  atomic_init(&buffer->flags, flags | KL_BUFFER_EXTERNAL);
  buffer->deleter = deleter;
  buffer->user = user;
  *out_buffer = buffer;
  return KL_OK;
}

kl_buffer *kl_buffer_retain(kl_buffer *buffer) {
  if (buffer) atomic_fetch_add_explicit(&buffer->refs, 1, memory_order_relaxed);
  return buffer;
}

static void destroy(kl_buffer *buffer) {
  if (buffer->deleter) buffer->deleter(buffer->ptr, buffer->user);
  if (buffer->bytes_capacity) kl_allocator_free(buffer->ptr, buffer->bytes_capacity);
  kl_allocator_free(buffer, buffer->block_nbytes);
}

void kl_buffer_release(kl_buffer *buffer) {
  if (!buffer) return;
  /* Release, then acquire: every write made under any reference comes before the bytes go. */
  if (atomic_fetch_sub_explicit(&buffer->refs, 1, memory_order_acq_rel) == 1) destroy(buffer);
}

int kl_buffer_is_unique(const kl_buffer *buffer) {
  return atomic_load_explicit(&buffer->refs, memory_order_acquire) == 1;
}
