/* Storages: counting, and the exchange of values. */
#include "runtime/storage.h"

#include <string.h>

#include "ir/support/slab.h"

kl_status kl_storage_create(kl_value *value, size_t nbytes, kl_storage **out_storage) {
  kl_storage *storage = kl_slab_alloc(sizeof *storage);
  if (!storage) return kl_fail_memory("storage", sizeof *storage);
  memset(storage, 0, sizeof *storage);
  storage->refs = 1;
  storage->device = value->device;
  storage->nbytes = nbytes;
  storage->value = value;
  value->storage = storage;
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
  kl_graph_unlock();
  kl_value_release(value);
  kl_buffer_release(storage->pinned);
  kl_slab_free(storage, sizeof *storage);
}

kl_value *kl_storage_exchange_value(kl_storage *storage, kl_value *value) {
  kl_value *old = storage->value;
  if (old->storage == storage) old->storage = NULL;
  value->storage = storage;
  storage->value = value;
  return old;
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
