/* The type kael.Tensor: one object for each tensor impl. */
#include "frontend/python/kpy.h"

#include <stdlib.h>
#include <structmember.h>

PyTypeObject *kpy_tensor_type;

/* --- Life --------------------------------------------------------------------------------------
 */

PyObject *kpy_wrap(kael_tensor *impl) {
  if (!impl) return kpy_raise();
  kael_own(impl);
  PyObject *wrapper = kael_wrapper_take(impl, KAEL_WRAPPER_PYTHON);
  if (wrapper) {
    Py_INCREF(wrapper);
    kael_wrapper_put(impl, KAEL_WRAPPER_PYTHON, wrapper);
    kael_release(impl);
    return wrapper;
  }
  kael_wrapper_put(impl, KAEL_WRAPPER_PYTHON, NULL);
  kpy_tensor *self = PyObject_New(kpy_tensor, kpy_tensor_type);
  if (!self) {
    kael_release(impl);
    return NULL;
  }
  self->impl = impl;
  self->weak = NULL;
  kael_wrapper_take(impl, KAEL_WRAPPER_PYTHON);
  kael_wrapper_put(impl, KAEL_WRAPPER_PYTHON, self);
  return (PyObject *)self;
}

PyObject *kpy_wrap_optional(kael_tensor *impl) {
  if (impl) return kpy_wrap(impl);
  Py_RETURN_NONE;
}

PyObject *kpy_returned_self(PyObject *self, kael_status status) {
  return kpy_ok(status) ? Py_NewRef(self) : NULL;
}

/* Tensor(t) of a subclass: an object of its own over an alias of t, as nn.Parameter needs. */
static PyObject *tensor_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
  (void)keywords;
  PyObject *data;
  if (type == kpy_tensor_type) {
    PyErr_SetString(PyExc_TypeError, "kael.Tensor has no constructor; use kael.tensor(data)");
    return NULL;
  }
  if (PyTuple_Size(args) < 1 || !(data = PyTuple_GetItem(args, 0)) || !kpy_is_tensor(data)) {
    PyErr_SetString(PyExc_TypeError, "a subclass of kael.Tensor is made of a Tensor");
    return NULL;
  }
  kael_tensor *impl = kael_detach(kpy_impl(data));
  if (!impl) return kpy_raise();
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  kpy_tensor *self = (kpy_tensor *)allocate(type, 0);
  if (!self) {
    kael_release(impl);
    return NULL;
  }
  self->impl = impl;
  kael_wrapper_take(impl, KAEL_WRAPPER_PYTHON);
  kael_wrapper_put(impl, KAEL_WRAPPER_PYTHON, self);
  return (PyObject *)self;
}

static void tensor_dealloc(PyObject *object) {
  kpy_tensor *self = (kpy_tensor *)object;
  PyTypeObject *type = Py_TYPE(object);
  if (self->weak) PyObject_ClearWeakRefs(object);
  if (self->impl) {
    void *wrapper = kael_wrapper_take(self->impl, KAEL_WRAPPER_PYTHON);
    kael_wrapper_put(self->impl, KAEL_WRAPPER_PYTHON, wrapper == self ? NULL : wrapper);
    kael_release(self->impl);
  }
  kpy_drop_owners();
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(object);
  Py_DECREF(type);
}

/* --- Small slots -------------------------------------------------------------------------------
 */

/* Tensors are keys by identity. */
static Py_hash_t tensor_hash(PyObject *self) {
  Py_hash_t hash = (Py_hash_t)((uintptr_t)self >> 4);
  return hash == -1 ? -2 : hash;
}

PyObject *kpy_python_function(PyObject **cache, const char *module, const char *name) {
  if (*cache) return *cache;
  PyObject *imported = PyImport_ImportModule(module);
  if (!imported) return NULL;
  *cache = PyObject_GetAttrString(imported, name);
  Py_DECREF(imported);
  return *cache;
}

static PyObject *tensor_repr(PyObject *self) {
  static PyObject *function;
  PyObject *format = kpy_python_function(&function, "kael._repr", "tensor_text");
  return format ? PyObject_CallFunctionObjArgs(format, self, NULL) : NULL;
}

PyObject *kpy_ints(int n, const int64_t *values) {
  PyObject *tuple = PyTuple_New(n);
  for (int i = 0; tuple && i < n; i++) {
    PyObject *value = PyLong_FromLongLong(values[i]);
    if (!value || PyTuple_SetItem(tuple, i, value) < 0) Py_CLEAR(tuple);
  }
  return tuple;
}

/* --- The type ----------------------------------------------------------------------------------
 */

static PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(kpy_tensor, weak), READONLY, NULL},
    {NULL, 0, 0, 0, NULL}};

static PyType_Slot base_slots[] = {
    {Py_tp_new, tensor_new},
    {Py_tp_dealloc, tensor_dealloc},
    {Py_tp_repr, tensor_repr},
    {Py_tp_hash, tensor_hash},
    {Py_tp_members, members},
    {Py_tp_getset, NULL},  /* kpy_tensor_getset */
    {Py_tp_methods, NULL}, /* collected */
    {Py_tp_doc, "An array of numbers of one dtype, with the semantics of PyTorch's Tensor."},
    {Py_tp_iter, kpy_iter},
    {Py_mp_length, kpy_len},
    {Py_mp_subscript, kpy_get_item},
    {Py_mp_ass_subscript, kpy_set_item},
    {Py_sq_item, kpy_sequence_item},
    {Py_bf_getbuffer, kpy_get_buffer},
    {Py_bf_releasebuffer, kpy_release_buffer},
    {0, NULL}};

/* One table of all methods; lives as long as the type. Earlier lists win. */
static PyMethodDef *collect_methods(void) {
  PyMethodDef *lists[] = {kpy_tensor_methods, kpy_autograd_methods, kpy_view_methods,
                          kpy_buffer_methods, kpy_dlpack_methods,   kpy_extreme_methods,
                          kpy_op_methods};
  size_t n = 0, n_lists = sizeof lists / sizeof *lists;
  for (size_t l = 0; l < n_lists; l++)
    for (PyMethodDef *m = lists[l]; m->ml_name; m++) n++;
  PyMethodDef *all = calloc(n + 1, sizeof *all);
  if (!all) return NULL;
  n = 0;
  for (size_t l = 0; l < n_lists; l++)
    for (PyMethodDef *m = lists[l]; m->ml_name; m++) {
      bool known = false;
      for (size_t i = 0; i < n && !known; i++) known = strcmp(all[i].ml_name, m->ml_name) == 0;
      if (!known) all[n++] = *m;
    }
  return all;
}

int kpy_add_tensor_type(PyObject *module) {
  enum { MAX_SLOTS = 80 };
  static PyType_Slot slots[MAX_SLOTS];
  int n = 0;
  PyMethodDef *methods = collect_methods();
  if (!methods) {
    PyErr_NoMemory();
    return -1;
  }
  for (PyType_Slot *slot = base_slots; slot->slot; slot++) {
    slots[n] = *slot;
    if (slot->slot == Py_tp_getset) slots[n].pfunc = kpy_tensor_getset;
    if (slot->slot == Py_tp_methods) slots[n].pfunc = methods;
    n++;
  }
  for (PyType_Slot *slot = kpy_operator_slots; slot->slot && n < MAX_SLOTS - 1; slot++)
    slots[n++] = *slot;
  PyType_Spec spec = {.name = "kael.Tensor",
                      .basicsize = sizeof(kpy_tensor),
                      .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                      .slots = slots};
  kpy_tensor_type = (PyTypeObject *)PyType_FromSpec(&spec);
  if (!kpy_tensor_type) return -1;
  return PyModule_AddObjectRef(module, "Tensor", (PyObject *)kpy_tensor_type);
}
