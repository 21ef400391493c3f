/* Autograd: gradients of tensors, backward, hooks, and the modes of the thread. */
#include "frontend/python/kpy.h"

#define FAST(function) ((PyCFunction)(void (*)(void))(function)), METH_FASTCALL | METH_KEYWORDS

/* --- Hooks -------------------------------------------------------------------------------------
 */

typedef struct hook_object {
  PyObject_HEAD kael_hook *hook; /* owned; NULL once removed */
} hook_object;

static PyTypeObject *hook_type;

static kael_status call_hook(kael_tensor *grad, void *user, kael_tensor **out_grad) {
  PyGILState_STATE state = PyGILState_Ensure();
  kael_status status = KAEL_OK;
  PyObject *argument = kpy_wrap(kael_retain(grad));
  PyObject *result =
      argument ? PyObject_CallFunctionObjArgs(kpy_owner_of(user), argument, NULL) : NULL;
  if (result && kpy_is_tensor(result))
    *out_grad = kael_retain(kpy_impl(result));
  else if (result && result != Py_None)
    PyErr_Format(PyExc_TypeError, "expected a hook to return a Tensor or None, not %R",
                 Py_TYPE(result));
  if (PyErr_Occurred()) status = kpy_keep_exception();
  Py_XDECREF(argument);
  Py_XDECREF(result);
  PyGILState_Release(state);
  return status;
}

static void forget_hook(void *user) { kpy_owner_deleter()(NULL, user); }

static PyObject *hook_remove(PyObject *self, PyObject *unused) {
  hook_object *hook = (hook_object *)self;
  (void)unused;
  kael_hook_remove(hook->hook);
  hook->hook = NULL;
  kpy_drop_owners();
  Py_RETURN_NONE;
}

static void hook_dealloc(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  kael_hook_release(((hook_object *)self)->hook);
  PyObject_Free(self);
  Py_DECREF(type);
}

static PyMethodDef hook_methods[] = {{"remove", hook_remove, METH_NOARGS, "Takes the hook away."},
                                     {NULL, NULL, 0, NULL}};
static PyType_Slot hook_slots[] = {{Py_tp_dealloc, hook_dealloc},
                                   {Py_tp_methods, hook_methods},
                                   {Py_tp_doc, "A registered hook."},
                                   {0, NULL}};
static PyType_Spec hook_spec = {.name = "kael.RemovableHandle",
                                .basicsize = sizeof(hook_object),
                                .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                .slots = hook_slots};

static PyObject *register_hook(PyObject *self, PyObject *function) {
  if (!PyCallable_Check(function)) {
    PyErr_SetString(PyExc_TypeError, "register_hook(): the hook must be callable");
    return NULL;
  }
  void *note = kpy_owner_note(function);
  if (!note) return NULL;
  kael_hook *hook = kael_register_hook(kpy_impl(self), call_hook, note, forget_hook);
  if (!hook) {
    kpy_owner_forget(note);
    return kpy_raise();
  }
  hook_object *handle = PyObject_New(hook_object, hook_type);
  if (!handle) {
    kael_hook_remove(hook);
    return NULL;
  }
  handle->hook = hook;
  return (PyObject *)handle;
}

/* --- Tensors -----------------------------------------------------------------------------------
 */

static PyObject *requires_grad_(PyObject *self, PyObject *const *args, Py_ssize_t n,
                                PyObject *keywords) {
  static const kpy_param params[] = {{"self", KPY_TENSOR, 1, 0, 0},
                                     {"requires_grad", KPY_BOOL, 0, 0, 1}};
  static const kpy_signature signature = {"requires_grad_", 2, params};
  kpy_call call;
  if (!kpy_parse(&call, &signature, self, args, n, keywords)) return NULL;
  return kpy_returned_self(self, kael_requires_grad_(kpy_impl(self), call.args[1].flag));
}

static PyObject *detach_(PyObject *self, PyObject *unused) {
  (void)unused;
  return kpy_returned_self(self, kael_detach_(kpy_impl(self)));
}

static PyObject *retain_grad(PyObject *self, PyObject *unused) {
  (void)unused;
  if (!kpy_ok(kael_retain_grad(kpy_impl(self)))) return NULL;
  Py_RETURN_NONE;
}

static PyObject *backward(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *keywords) {
  static const kpy_param params[] = {{"self", KPY_TENSOR, 1, 0, 0},
                                     {"gradient", KPY_TENSOR_OPT, 0, 0, 0},
                                     {"retain_graph", KPY_BOOL, 0, 0, 0},
                                     {"create_graph", KPY_BOOL, 0, 0, 0}};
  static const kpy_signature signature = {"backward", 4, params};
  kpy_call call;
  kael_status status;
  if (!kpy_parse(&call, &signature, self, args, n, keywords)) return NULL;
  kpy_arg *a = call.args;
  bool retain = a[2].given ? a[2].flag : a[3].flag;
  KPY_RUN(status = kael_backward(a[0].tensor, a[1].tensor, retain, a[3].flag));
  if (!kpy_ok(status)) return NULL;
  Py_RETURN_NONE;
}

PyMethodDef kpy_autograd_methods[] = {
    {"requires_grad_", FAST(requires_grad_),
     "requires_grad_(requires_grad=True) -> Tensor\n\nSets whether gradients flow to a leaf."},
    {"detach_", detach_, METH_NOARGS, "detach_() -> Tensor\n\nForgets the history."},
    {"retain_grad", retain_grad, METH_NOARGS,
     "retain_grad()\n\nMakes backward keep the gradient of a tensor with history."},
    {"register_hook", register_hook, METH_O,
     "register_hook(hook) -> RemovableHandle\n\n"
     "Calls hook(grad) before the gradient flows on; a Tensor that it returns stands for it."},
    {"backward", FAST(backward),
     "backward(gradient=None, retain_graph=None, create_graph=False)\n\n"
     "Adds to the gradient of every leaf that the tensor depends on."},
    {NULL, NULL, 0, NULL}};

/* --- kael.autograd -----------------------------------------------------------------------------
 */

/* Tensors of a tuple; None becomes KAEL_NONE. NULL with the exception set. */
static kael_tensor **tensors_of(PyObject *tuple, Py_ssize_t *out_n) {
  Py_ssize_t n = PyTuple_Size(tuple);
  kael_tensor **tensors = n < 0 ? NULL : PyMem_Malloc((size_t)(n + 1) * sizeof *tensors);
  if (!tensors) return n < 0 ? NULL : (kael_tensor **)PyErr_NoMemory();
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *item = PyTuple_GetItem(tuple, i);
    if (item != Py_None && !kpy_is_tensor(item)) {
      PyErr_Format(PyExc_TypeError, "expected a Tensor, not %R", Py_TYPE(item));
      PyMem_Free(tensors);
      return NULL;
    }
    tensors[i] = item == Py_None ? KAEL_NONE : kpy_impl(item);
  }
  *out_n = n;
  return tensors;
}

static PyObject *gradients(kael_tensor **grads, Py_ssize_t n) {
  PyObject *tuple = PyTuple_New(n);
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *grad = kpy_wrap_optional(grads[i]);
    if (tuple && grad)
      PyTuple_SetItem(tuple, i, grad);
    else
      Py_CLEAR(tuple);
  }
  return tuple;
}

/* _grad(outputs, grads, inputs, retain_graph, create_graph, allow_unused): tuples; `inputs` empty:
 * backward of all outputs. */
static PyObject *grad_of(PyObject *module, PyObject *args) {
  PyObject *tuples[3], *result = NULL;
  int flags[3];
  Py_ssize_t n[3] = {0};
  kael_tensor **lists[3] = {NULL}, **grads = NULL;
  kael_status status;
  (void)module;
  if (!PyArg_ParseTuple(args, "OOOppp:_grad", &tuples[0], &tuples[1], &tuples[2], &flags[0],
                        &flags[1], &flags[2]))
    return NULL;
  for (int i = 0; i < 3; i++)
    if (!(lists[i] = tensors_of(tuples[i], &n[i]))) goto done;
  if (n[1] != n[0]) {
    PyErr_SetString(PyExc_RuntimeError, "one gradient is needed for each output");
    goto done;
  }
  if (n[2] == 0) {
    KPY_RUN(status =
                kael_backward_all(lists[0], lists[1], (size_t)n[0], flags[0] != 0, flags[1] != 0));
    if (kpy_ok(status)) result = Py_NewRef(Py_None);
    goto done;
  }
  kael_grad_options options = {sizeof options, flags[0] != 0, flags[1] != 0, flags[2] != 0};
  grads = PyMem_Calloc((size_t)n[2], sizeof *grads);
  if (!grads) {
    PyErr_NoMemory();
    goto done;
  }
  KPY_RUN(status = kael_autograd_grad(lists[0], lists[1], (size_t)n[0], lists[2], (size_t)n[2],
                                      &options, grads));
  if (kpy_ok(status)) result = gradients(grads, n[2]);
done:
  for (int i = 0; i < 3; i++) PyMem_Free(lists[i]);
  PyMem_Free(grads);
  return result;
}

/* --- Modes -------------------------------------------------------------------------------------
 */

static PyObject *set_grad_mode(PyObject *module, PyObject *on) {
  (void)module;
  int flag = PyObject_IsTrue(on);
  return flag < 0 ? NULL : PyBool_FromLong(kael_set_grad_enabled(flag != 0));
}

static PyObject *set_inference(PyObject *module, PyObject *on) {
  (void)module;
  int flag = PyObject_IsTrue(on);
  return flag < 0 ? NULL : PyBool_FromLong(kael_set_inference_mode(flag != 0));
}

static PyObject *is_grad_enabled(PyObject *module, PyObject *unused) {
  (void)module, (void)unused;
  return PyBool_FromLong(kael_is_grad_enabled());
}

static PyObject *is_inference(PyObject *module, PyObject *unused) {
  (void)module, (void)unused;
  return PyBool_FromLong(kael_is_inference_mode());
}

PyMethodDef kpy_grad_functions[] = {
    {"_grad", grad_of, METH_VARARGS, NULL},
    {"_set_grad_enabled", set_grad_mode, METH_O, NULL},
    {"_set_inference_mode", set_inference, METH_O, NULL},
    {"is_grad_enabled", is_grad_enabled, METH_NOARGS, "Whether operations are remembered."},
    {"is_inference_mode_enabled", is_inference, METH_NOARGS, "Whether inference mode is on."},
    {NULL, NULL, 0, NULL}};

int kpy_add_hook_type(PyObject *module) {
  hook_type = (PyTypeObject *)PyType_FromSpec(&hook_spec);
  return hook_type ? PyModule_AddObjectRef(module, "RemovableHandle", (PyObject *)hook_type) : -1;
}
