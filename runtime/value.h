/* Values: the recorded nodes of the lazy graph, counted, from slabs.
 *
 * A value stands for a piece of memory, as ir/graph.h says of a node, and never changes. It is
 * PENDING (how to compute it: op and operands), or REAL (its bytes: a buffer; the operands are
 * released). A storage refers to its current value; a pending value refers to its operands.
 * Everything is freed without recursion, so that chains of a million values are no problem.
 */
#ifndef KL_RUNTIME_VALUE_H
#define KL_RUNTIME_VALUE_H

#include <stdatomic.h>

#include "ir/op.h"
#include "ir/support/status.h"
#include "runtime/buffer.h"

typedef enum kl_value_state { KL_VALUE_PENDING, KL_VALUE_RUNNING, KL_VALUE_REAL } kl_value_state;

typedef struct kl_value kl_value;

typedef struct kl_value_operand {
  kl_value *value;  /* owned reference; NULL: the scalar */
  kl_scalar scalar; /* in the operand's dtype */
  int64_t offset;
  const int64_t *strides; /* n_dims, inside the value's block; NULL for a scalar and for a writer's
                             operand 0 */
} kl_value_operand;

struct kl_value {
  atomic_int refs;
  uint16_t op;
  uint8_t dtype;
  uint8_t n_operands, n_dims, n_reduced;
  uint8_t state;
  uint8_t device;
  uint32_t attr;
  uint32_t mark;        /* evaluation: index in the run, valid where mark_epoch is the run's */
  uint64_t mark_epoch;
  uint64_t seq;         /* order of recording; operands have smaller ones */
  int64_t numel;
  kl_buffer *buffer;    /* REAL: owned */
  struct kl_storage *storage; /* whose current value this is, or NULL; borrowed */
  int64_t out_offset, index_stride, index_extent;
  const int64_t *dims, *out_strides;
  kl_value_operand *operands;
  kl_value *next;       /* free list, work lists */
  const char *site;     /* name of the public op that recorded it, static */
  int64_t least, most;  /* integers: bounds of the elements, where least <= most */
  uint32_t block_nbytes; /* of the value's block */
  bool orphan;           /* counted in kl_value_held_nbytes */
  bool undoable;         /* one reference is that of a write which may still fail; guarded by the lock */
};

/* The recording lock. It guards what storages hold as their value, `storage` of values, and the
 * operands of pending values against whoever extracts a graph. Short: nothing compiles, runs,
 * waits or calls a user's function under it. */
void kl_graph_lock(void);
void kl_graph_unlock(void);

/* A new PENDING value with one reference, all arrays allocated in its block and zeroed for the
 * caller to fill (cast away const once, here): operands NULL/0. */
kl_status kl_value_create(kl_op op, kl_dtype dtype, int n_dims, int n_reduced, kl_value **out_value)
    KL_MUST_CHECK;
/* A REAL value over `buffer` (a reference is taken). */
kl_status kl_value_create_real(kl_dtype dtype, int64_t numel, kl_buffer *buffer, kl_value **out_value)
    KL_MUST_CHECK;
static inline kl_value *kl_value_retain(kl_value *value) {
  atomic_fetch_add_explicit(&value->refs, 1, memory_order_relaxed);
  return value;
}
void kl_value_release(kl_value *value); /* NULL is fine */
/* Bounds of an integer value are known. */
static inline bool kl_value_has_bounds(const kl_value *value) { return value->least <= value->most; }
/* PENDING or RUNNING -> REAL: takes a reference to `buffer`, releases the operands. */
void kl_value_become_real(kl_value *value, kl_buffer *buffer);

/* No storage refers to this REAL value any more: its bytes count as held by pending readers, until
 * it dies. Under the recording lock. */
void kl_value_orphaned(kl_value *value);
/* A storage refers to it again. Under the recording lock. */
void kl_value_adopted(kl_value *value);
int64_t kl_value_held_nbytes(void);
/* Counts for the automatic flush and for statistics. */
int64_t kl_value_pending_count(void);

#endif
