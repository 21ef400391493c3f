/* Storages: the bytes that tensors share, their version, and while lazy their pending value.
 *
 * `value` is always there: REAL, or PENDING. Writing in place gives the storage another value; the
 * old one lives on as long as something pending reads it. A pinned storage (a pointer to its bytes
 * was given out, or the memory is external) keeps its buffer for life: what is computed for it ends
 * in that buffer.
 */
#ifndef KL_RUNTIME_STORAGE_H
#define KL_RUNTIME_STORAGE_H

#include "runtime/value.h"

typedef struct kl_storage {
  atomic_int refs;         /* everything that keeps it alive */
  atomic_int impl_refs;    /* tensor impls among them: explain's `references` */
  _Atomic uint32_t flags;  /* KL_STORAGE_* */
  uint8_t device;
  _Atomic uint64_t version;
  size_t nbytes;
  kl_value *value;         /* owned */
  kl_buffer *pinned;       /* owned; NULL while the bytes may move */
  atomic_int exports;      /* > 0: SHARED, reads and writes run at the call */
  struct kl_storage *pending_before, *pending_after; /* list of those whose value was recorded */
} kl_storage;

enum {
  KL_STORAGE_EXTERNAL = 1, /* memory of the caller's */
  KL_STORAGE_READONLY = 2, /* writing is an error */
  KL_STORAGE_SHARED = 4    /* SHARED for good (from_numpy, kael_storage_external with SHARED) */
};

/* Takes over the reference to `value`. */
kl_status kl_storage_create(kl_value *value, size_t nbytes, kl_storage **out_storage) KL_MUST_CHECK;
kl_storage *kl_storage_retain(kl_storage *storage);
void kl_storage_release(kl_storage *storage);
/* Makes `value` (reference taken over) the current one and returns the old one, which the caller now
 * owns; under the recording lock. Releasing it may free external memory: after the lock. */
kl_value *kl_storage_exchange_value(kl_storage *storage, kl_value *value);
/* Makes `old` (a reference is taken), which a pending value has replaced, the current one again;
 * under the recording lock. The run of that value has failed, so no byte was written. */
void kl_storage_undo_write(kl_storage *storage, kl_value *old);
/* The current value, retained; takes the lock. */
kl_value *kl_storage_get_value(kl_storage *storage);
/* The same with both under the lock: makes `value` (reference taken over) the current one; releases the old one. */
void kl_storage_set_value(kl_storage *storage, kl_value *value);
/* The pending values of all storages, retained, in an array for kl_free. */
kl_status kl_storage_take_pending(kl_value ***out_values, int *out_n) KL_MUST_CHECK;
bool kl_storage_is_shared(const kl_storage *storage);

#endif
