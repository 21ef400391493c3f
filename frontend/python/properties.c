/* Attributes of tensors. */
#include "frontend/python/kael/ops_table.h"
#include "frontend/python/kpy.h"

#define GETTER(name) static PyObject *name(PyObject *self, void *closure)

static PyObject *shape_of(PyObject *self) {
  kael_tensor *tensor = kpy_impl(self);
  static PyObject *type;
  PyObject *size_type = kpy_python_function(&type, "kael._size", "Size");
  PyObject *ints = size_type ? kpy_ints(kael_ndim(tensor), kael_shape(tensor)) : NULL;
  if (!ints) return NULL;
  PyObject *shape = PyObject_CallFunctionObjArgs(size_type, ints, NULL);
  Py_DECREF(ints);
  return shape;
}

GETTER(get_shape) {
  (void)closure;
  return shape_of(self);
}
GETTER(get_dtype) {
  (void)closure;
  return kpy_dtype(kael_dtype_of(kpy_impl(self)));
}
GETTER(get_ndim) {
  (void)closure;
  return PyLong_FromLong(kael_ndim(kpy_impl(self)));
}
GETTER(get_version) {
  (void)closure;
  return PyLong_FromUnsignedLongLong(kael_version(kpy_impl(self)));
}
GETTER(get_is_leaf) {
  (void)closure;
  return PyBool_FromLong(kael_is_leaf(kpy_impl(self)));
}
GETTER(get_requires_grad) {
  (void)closure;
  return PyBool_FromLong(kael_requires_grad(kpy_impl(self)));
}
GETTER(get_retains_grad) {
  (void)closure;
  return PyBool_FromLong(kael_retains_grad(kpy_impl(self)));
}
GETTER(get_itemsize) {
  (void)closure;
  return PyLong_FromSize_t(kael_dtype_size(kael_dtype_of(kpy_impl(self))));
}
GETTER(get_nbytes) {
  (void)closure;
  kael_tensor *tensor = kpy_impl(self);
  return PyLong_FromLongLong(kael_numel(tensor) * (int64_t)kael_dtype_size(kael_dtype_of(tensor)));
}
GETTER(get_device) {
  (void)closure, (void)self;
  return PyUnicode_FromString("cpu");
}
GETTER(get_false) {
  (void)closure, (void)self;
  Py_RETURN_FALSE;
}
GETTER(get_array_priority) {
  (void)closure, (void)self;
  return PyFloat_FromDouble(1000); /* NumPy's operators leave the work to ours */
}

GETTER(get_grad) {
  (void)closure;
  return kpy_wrap_optional(kael_grad(kpy_impl(self)));
}

static int set_grad(PyObject *self, PyObject *value, void *closure) {
  (void)closure;
  if (value && value != Py_None && !kpy_is_tensor(value)) {
    PyErr_Format(PyExc_TypeError, "assigned grad must be a Tensor or None, not %R", Py_TYPE(value));
    return -1;
  }
  kael_tensor *grad = value && value != Py_None ? kpy_impl(value) : KAEL_NONE;
  return kpy_ok(kael_set_grad(kpy_impl(self), grad)) ? 0 : -1;
}

/* An object with the name of the operation. */
GETTER(get_grad_fn) {
  (void)closure;
  static PyObject *type;
  kael_clear_error();
  const char *name = kael_grad_fn_name(kpy_impl(self));
  if (!name) {
    if (kael_last_error().code) return kpy_raise();
    Py_RETURN_NONE;
  }
  PyObject *make = kpy_python_function(&type, "kael.autograd", "_node");
  PyObject *text = make ? PyUnicode_FromString(name) : NULL;
  PyObject *node = text ? PyObject_CallFunctionObjArgs(make, text, self, NULL) : NULL;
  Py_XDECREF(text);
  return node;
}

static int set_requires_grad(PyObject *self, PyObject *value, void *closure) {
  (void)closure;
  int on = value ? PyObject_IsTrue(value) : 0;
  if (on < 0) return -1;
  return kpy_ok(kael_requires_grad_(kpy_impl(self), on != 0)) ? 0 : -1;
}

GETTER(get_data) {
  (void)closure;
  return kpy_wrap(kael_detach(kpy_impl(self)));
}

static int set_data(PyObject *self, PyObject *value, void *closure) {
  (void)self, (void)value, (void)closure;
#ifdef KPY_HAVE_SET_DATA
  if (value && kpy_is_tensor(value))
    return kpy_ok(kael_set_data(kpy_impl(self), kpy_impl(value))) ? 0 : -1;
  PyErr_SetString(PyExc_TypeError, "data must be a Tensor");
#else
  PyErr_SetString(PyExc_NotImplementedError, "data cannot be assigned yet; use copy_");
#endif
  return -1;
}

/* --- Views that are written as attributes ------------------------------------------------------
 */

GETTER(get_T) {
  (void)closure;
  return kpy_wrap(kael_T(kpy_impl(self)));
}

GETTER(get_mT) {
  (void)closure;
  if (kael_ndim(kpy_impl(self)) >= 2) return kpy_wrap(kael_transpose(kpy_impl(self), -2, -1));
  PyErr_Format(PyExc_RuntimeError,
               "tensor.mT is only supported on matrices or batches of matrices. Got %d-D tensor.",
               kael_ndim(kpy_impl(self)));
  return NULL;
}

PyGetSetDef kpy_tensor_getset[] = {
    {"shape", get_shape, NULL, "The sizes of the dims.", NULL},
    {"dtype", get_dtype, NULL, "The element type.", NULL},
    {"ndim", get_ndim, NULL, "The number of dims.", NULL},
    {"device", get_device, NULL, "Where the elements are.", NULL},
    {"grad", get_grad, set_grad, "The gradient that backward left, or None.", NULL},
    {"grad_fn", get_grad_fn, NULL, "The operation that made the tensor, or None.", NULL},
    {"requires_grad", get_requires_grad, set_requires_grad, "Whether gradients flow to it.", NULL},
    {"is_leaf", get_is_leaf, NULL, "Whether no recorded operation made it.", NULL},
    {"retains_grad", get_retains_grad, NULL, "Whether backward keeps its gradient.", NULL},
    {"data", get_data, set_data, "The same elements without history.", NULL},
    {"_version", get_version, NULL, "In-place operations on the storage so far.", NULL},
    {"itemsize", get_itemsize, NULL, "Bytes an element.", NULL},
    {"nbytes", get_nbytes, NULL, "Bytes of all elements.", NULL},
    {"is_cuda", get_false, NULL, "Whether the elements are on a CUDA device.", NULL},
    {"is_sparse", get_false, NULL, "False: every tensor is dense.", NULL},
    {"T", get_T, NULL, "A view with the dims in reverse order.", NULL},
    {"mT", get_mT, NULL, "A view with the last two dims exchanged.", NULL},
    {"__array_priority__", get_array_priority, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL}};
