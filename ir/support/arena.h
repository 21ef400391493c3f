/* A bump allocator: many small records with one lifetime, freed together. */
#ifndef KL_IR_SUPPORT_ARENA_H
#define KL_IR_SUPPORT_ARENA_H

#include <stddef.h>

typedef struct kl_arena {
  struct kl_arena_block *blocks; /* newest first */
  char *next;
  char *end;
} kl_arena;

/* A zeroed kl_arena is ready for use. */
void *kl_arena_alloc(kl_arena *arena, size_t nbytes); /* zeroed, 8-byte aligned; NULL: no memory */
void kl_arena_reset(kl_arena *arena);                 /* frees all but one block */
void kl_arena_finish(kl_arena *arena);                /* frees everything */

#endif
