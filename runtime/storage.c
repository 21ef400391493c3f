/* Storages: counting, and the exchange of values. */
#include "runtime/storage.h"

#include <string.h>

#include "ir/support/memory.h"
#include "ir/support/slab.h"
#include "ir/support/vec.h"

/* Storages that got a pending value, in a ring; guarded by the recording lock. One whose value has
 * become real meanwhile leaves it when the ring is next walked. */
static kl_storage ring = {.pending_before = &ring, .pending_after = &ring};

static void leave_ring(kl_storage *storage) {
  if (!storage->pending_after) return;
  storage->pending_before->pending_after = storage->pending_after;
  storage->pending_after->pending_before = storage->pending_before;
  storage->pending_before = storage->pending_after = NULL;
}

static void join_ring(kl_storage *storage) {
  if (storage->pending_after || storage->value->state == KL_VALUE_REAL) return;
  storage->pending_before = ring.pending_before;
  storage->pending_after = &ring;
  ring.pending_before->pending_after = storage;
  ring.pending_before = storage;
}

kl_status kl_storage_take_pending(kl_value ***out_values, int *out_n) {
  kl_status status = KL_OK;
  KL_VEC(kl_value *) values = {0};
  kl_graph_lock();
  for (kl_storage *storage = ring.pending_after; storage != &ring;) {
    kl_storage *next = storage->pending_after;
    if (storage->value->state == KL_VALUE_REAL) {
      leave_ring(storage);
    } else if (kl_vec_push(&values, storage->value)) {
      kl_value_retain(storage->value);
    } else {
      status = kl_fail_memory("evaluation", sizeof(kl_value *) * values.count);
      break;
    }
    storage = next;
  }
  kl_graph_unlock();
  if (status != KL_OK) {
    for (uint32_t i = 0; i < values.count; i++) kl_value_release(values.data[i]);
    kl_vec_finish(&values);
    return status;
  }
  *out_values = values.data;
  *out_n = (int)values.count;
  return KL_OK;
}

kl_status kl_storage_create(kl_value *value, size_t nbytes, kl_storage **out_storage) {
  kl_storage *storage = kl_slab_alloc(sizeof *storage);
  if (!storage) return kl_fail_memory("storage", sizeof *storage);
  memset(storage, 0, sizeof *storage);
  storage->refs = 1;
  storage->device = value->device;
  storage->nbytes = nbytes;
  storage->value = value;
  value->storage = storage;
  if (value->state != KL_VALUE_REAL) {
    kl_graph_lock();
    join_ring(storage);
    kl_graph_unlock();
  }
  *out_storage = storage;
  return KL_OK;
}

kl_storage *kl_storage_retain(kl_storage *storage) {
  atomic_fetch_add_explicit(&storage->refs, 1, memory_order_relaxed);
  return storage;
}

void kl_storage_release(kl_storage *storage) {
  if (!storage || atomic_fetch_sub_explicit(&storage->refs, 1, memory_order_acq_rel) != 1) return;
  kl_graph_lock();
  kl_value *value = storage->value;
  if (value->storage == storage) value->storage = NULL;
  leave_ring(storage);
  kl_value_orphaned(value);
  kl_graph_unlock();
  kl_value_release(value);
  kl_buffer_release(storage->pinned);
  kl_slab_free(storage, sizeof *storage);
}

kl_value *kl_storage_exchange_value(kl_storage *storage, kl_value *value) {
  kl_value *old = storage->value;
  if (old->storage == storage) old->storage = NULL;
  kl_value_orphaned(old);
  value->storage = storage;
  storage->value = value;
  join_ring(storage);
  return old;
}

void kl_storage_undo_write(kl_storage *storage, kl_value *old) {
  if (old->storage) return;
  /* The run that failed may have moved the old bytes away for the sake of other readers. */
  if (storage->pinned && old->state == KL_VALUE_REAL && old->buffer != storage->pinned) {
    kl_buffer_release(old->buffer);
    old->buffer = kl_buffer_retain(storage->pinned);
  }
  kl_value_adopted(old);
  kl_value_release(kl_storage_exchange_value(storage, kl_value_retain(old)));
}

kl_value *kl_storage_get_value(kl_storage *storage) {
  kl_graph_lock();
  kl_value *value = kl_value_retain(storage->value);
  kl_graph_unlock();
  return value;
}

void kl_storage_set_value(kl_storage *storage, kl_value *value) {
  kl_graph_lock();
  kl_value *old = kl_storage_exchange_value(storage, value);
  kl_graph_unlock();
  kl_value_release(old);
}

bool kl_storage_is_shared(const kl_storage *storage) {
  return (storage->flags & KL_STORAGE_SHARED) != 0 ||
         atomic_load_explicit(&storage->exports, memory_order_relaxed) > 0;
}
