/* Values in slab blocks of one piece each: the struct, its operands, its dims and strides. */
#include "runtime/value.h"

#include <pthread.h>
#include <string.h>

#include "ir/support/fork.h"
#include "ir/support/slab.h"

static pthread_mutex_t graph_mutex = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint64_t next_seq;
static _Atomic int64_t pending_count, held_nbytes;

__attribute__((constructor)) static void keep_lock(void) {
  kl_fork_keep(KL_LOCK_GRAPH, &graph_mutex, NULL);
}

void kl_value_orphaned(kl_value *value) {
  if (value->state != KL_VALUE_REAL || value->orphan) return;
  value->orphan = true;
  atomic_fetch_add_explicit(&held_nbytes, (int64_t)value->buffer->nbytes, memory_order_relaxed);
}

void kl_value_adopted(kl_value *value) {
  if (!value->orphan) return;
  value->orphan = false;
  atomic_fetch_sub_explicit(&held_nbytes, (int64_t)value->buffer->nbytes, memory_order_relaxed);
}

int64_t kl_value_held_nbytes(void) {
  return atomic_load_explicit(&held_nbytes, memory_order_relaxed);
}

void kl_graph_lock(void) { pthread_mutex_lock(&graph_mutex); }

void kl_graph_unlock(void) { pthread_mutex_unlock(&graph_mutex); }

static kl_value *new_value(size_t nbytes) {
  kl_value *value = kl_slab_alloc(nbytes);
  if (!value) return NULL;
  memset(value, 0, nbytes);
  value->refs = 1;
  value->block_nbytes = (uint32_t)nbytes;
  value->seq = atomic_fetch_add_explicit(&next_seq, 1, memory_order_relaxed);
  value->most = -1;
  return value;
}

kl_status kl_value_create(kl_op op, kl_dtype dtype, int n_dims, int n_reduced,
                          kl_value **out_value) {
  int n_operands = kl_op_table[op].arity;
  bool writes = kl_op_is_write(op);
  size_t operands_nbytes = (size_t)n_operands * sizeof(kl_value_operand);
  size_t n_arrays = 1u + (size_t)n_operands + writes;
  size_t nbytes = sizeof(kl_value) + operands_nbytes + n_arrays * (size_t)n_dims * sizeof(int64_t);
  kl_value *value = new_value(nbytes);
  if (!value) return kl_fail_memory(kl_op_table[op].text, nbytes);
  value->op = (uint16_t)op;
  value->dtype = (uint8_t)dtype;
  value->n_operands = (uint8_t)n_operands;
  value->n_dims = (uint8_t)n_dims;
  value->n_reduced = (uint8_t)n_reduced;
  value->state = KL_VALUE_PENDING;
  value->operands = (kl_value_operand *)(void *)(value + 1);
  int64_t *arrays = (int64_t *)(void *)((char *)(value + 1) + operands_nbytes);
  value->dims = arrays;
  for (int i = 0; i < n_operands; i++) value->operands[i].strides = arrays += n_dims;
  if (writes) {
    value->out_strides = arrays + n_dims;
    value->operands[0].strides = NULL; /* read whole; its array stays unused */
  }
  atomic_fetch_add_explicit(&pending_count, 1, memory_order_relaxed);
  *out_value = value;
  return KL_OK;
}

kl_status kl_value_create_real(kl_dtype dtype, int64_t numel, kl_buffer *buffer,
                               kl_value **out_value) {
  kl_value *value = new_value(sizeof(kl_value));
  if (!value) return kl_fail_memory("value", sizeof(kl_value));
  value->op = KL_OP_LEAF;
  value->dtype = (uint8_t)dtype;
  value->state = KL_VALUE_REAL;
  value->numel = numel;
  value->buffer = kl_buffer_retain(buffer);
  *out_value = value;
  return KL_OK;
}

/* Gives up one reference; a value that dies goes to the front of the list. */
static kl_value *drop(kl_value *value, kl_value *dead) {
  if (!value) return dead;
  /* Nobody else can revive the last reference, so it needs no atomic subtraction. */
  if (atomic_load_explicit(&value->refs, memory_order_acquire) != 1 &&
      atomic_fetch_sub_explicit(&value->refs, 1, memory_order_acq_rel) != 1)
    return dead;
  value->next = dead;
  return value;
}

static kl_value *drop_operands(kl_value *value, kl_value *dead) {
  for (int i = 0; i < value->n_operands; i++) {
    dead = drop(value->operands[i].value, dead);
    value->operands[i].value = NULL;
  }
  return dead;
}

static void free_all(kl_value *dead) {
  int64_t n_pending = 0;
  while (dead) {
    kl_value *value = dead;
    dead = value->next;
    if (value->state != KL_VALUE_REAL) n_pending++;
    if (value->orphan)
      atomic_fetch_sub_explicit(&held_nbytes, (int64_t)value->buffer->nbytes, memory_order_relaxed);
    dead = drop_operands(value, dead);
    kl_buffer_release(value->buffer);
    kl_slab_free(value, value->block_nbytes);
  }
  if (n_pending) atomic_fetch_sub_explicit(&pending_count, n_pending, memory_order_relaxed);
}

void kl_value_release(kl_value *value) { free_all(drop(value, NULL)); }

void kl_value_become_real(kl_value *value, kl_buffer *buffer) {
  if (value->state == KL_VALUE_REAL) return;
  value->buffer = kl_buffer_retain(buffer);
  value->state = KL_VALUE_REAL;
  atomic_fetch_sub_explicit(&pending_count, 1, memory_order_relaxed);
  kl_value *dead = drop_operands(value, NULL);
  value->n_operands = 0;
  free_all(dead);
}

int64_t kl_value_pending_count(void) {
  return atomic_load_explicit(&pending_count, memory_order_relaxed);
}
