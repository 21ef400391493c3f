/* Bump allocation in blocks that double up to 1 MiB. */
#include "ir/support/arena.h"

#include <string.h>

#include "ir/support/memory.h"

typedef struct kl_arena_block {
  struct kl_arena_block *older;
  size_t nbytes;
  _Alignas(16) char bytes[];
} kl_arena_block;

enum { FIRST_BLOCK = 4096, LARGEST_BLOCK = 1 << 20 };

static void use_block(kl_arena *arena, kl_arena_block *block) {
  arena->blocks = block;
  arena->next = block->bytes;
  arena->end = block->bytes + block->nbytes;
}

void *kl_arena_alloc(kl_arena *arena, size_t nbytes) {
  nbytes = (nbytes + 7) & ~(size_t)7;
  if (!arena->blocks || (size_t)(arena->end - arena->next) < nbytes) {
    size_t capacity = arena->blocks ? arena->blocks->nbytes * 2 : FIRST_BLOCK;
    if (capacity > LARGEST_BLOCK) capacity = LARGEST_BLOCK;
    if (capacity < nbytes) capacity = nbytes;
    kl_arena_block *block = kl_malloc(sizeof *block + capacity);
    if (!block) return NULL;
    block->older = arena->blocks;
    block->nbytes = capacity;
    use_block(arena, block);
  }
  void *result = arena->next;
  arena->next += nbytes;
  return memset(result, 0, nbytes);
}

void kl_arena_reset(kl_arena *arena) {
  if (!arena->blocks) return;
  kl_arena_block *kept = arena->blocks;
  for (kl_arena_block *block = kept->older; block;) {
    kl_arena_block *older = block->older;
    kl_free(block);
    block = older;
  }
  kept->older = NULL;
  use_block(arena, kept);
}

void kl_arena_finish(kl_arena *arena) {
  kl_arena_reset(arena);
  kl_free(arena->blocks);
  *arena = (kl_arena){0};
}
