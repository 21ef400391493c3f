/* Python objects that keep external memory alive.
 *
 * The library calls a deleter on whichever thread is last, perhaps under a run, and that thread may
 * not have the interpreter's lock and must not wait for it: another thread may hold the lock and
 * wait for the run. So a deleter only notes the owner; it is given up by the next tensor that dies,
 * or by the interpreter between two instructions.
 */
#include "frontend/python/kpy.h"

#include <stdatomic.h>
#include <stdlib.h>

typedef struct note {
  struct note *next;
  PyObject *owner; /* a capsule or another object whose death frees the memory */
} note;

static _Atomic(note *) notes;

static int drop_pending(void *unused) {
  (void)unused;
  kpy_drop_owners();
  return 0;
}

/* `user` is a note, made with the tensor: here nothing may fail. */
static void delete_owner(void *ptr, void *user) {
  (void)ptr;
  note *mine = user, *head = atomic_load(&notes);
  do mine->next = head;
  while (!atomic_compare_exchange_weak(&notes, &head, mine));
  if (Py_IsInitialized()) Py_AddPendingCall(drop_pending, NULL);
}

kael_deleter kpy_owner_deleter(void) { return delete_owner; }

void *kpy_owner_note(PyObject *owner) {
  note *mine = malloc(sizeof *mine);
  if (!mine) return PyErr_NoMemory();
  mine->owner = Py_NewRef(owner);
  return mine;
}

PyObject *kpy_owner_of(void *user) { return ((note *)user)->owner; }

void kpy_owner_forget(void *user) {
  note *mine = user;
  Py_DECREF(mine->owner);
  free(mine);
}

void kpy_drop_owners(void) {
  if (!atomic_load_explicit(&notes, memory_order_relaxed)) return;
  note *mine = atomic_exchange(&notes, NULL);
  while (mine) {
    note *next = mine->next;
    kpy_owner_forget(mine);
    mine = next;
  }
}
