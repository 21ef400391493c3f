/* Indexing with integers, slices, None and ... gives views, here; all else is composed of
 * operators by kael/_index.py. */
#include "frontend/python/kpy.h"

/* --- Views -------------------------------------------------------------------------------------
 */

/* Integers, and 0-d integer tensors, which count as such. A bool is a mask. */
static bool is_integer(PyObject *key) {
  if (PyLong_Check(key)) return !PyBool_Check(key);
  if (kpy_is_tensor(key)) {
    kael_dtype dtype = kael_dtype_of(kpy_impl(key));
    return kael_ndim(kpy_impl(key)) == 0 && dtype != KAEL_BOOL && !kpy_is_floating(dtype);
  }
  return PyIndex_Check(key) && !PySequence_Check(key);
}

static bool is_basic(PyObject *key) {
  return is_integer(key) || PySlice_Check(key) || key == Py_None || key == Py_Ellipsis;
}

static bool all_basic(PyObject *tuple) {
  for (Py_ssize_t i = 0, n = PyTuple_Size(tuple); i < n; i++)
    if (!is_basic(PyTuple_GetItem(tuple, i))) return false;
  return true;
}

/* The same tensor seen once more: a view with nothing left out. */
static kael_tensor *whole_view(kael_tensor *self) {
  return kael_expand(self, kael_ndim(self), kael_shape(self));
}

/* Applies one part at `*dim` and moves it on; NULL with the exception set. */
static kael_tensor *apply_part(kael_tensor *self, PyObject *part, int64_t *dim) {
  kael_tensor *out;
  if (part == Py_None) {
    out = kael_unsqueeze(self, (*dim)++);
  } else if (PySlice_Check(part)) {
    Py_ssize_t start, stop, step;
    if (PySlice_Unpack(part, &start, &stop, &step) < 0) return NULL;
    if (step <= 0) {
      PyErr_SetString(PyExc_ValueError, "step must be greater than zero");
      return NULL;
    }
    out = kael_slice(self, (*dim)++, start, stop, step);
  } else {
    int64_t index;
    if (!kpy_read_int(part, &index)) return NULL;
    out = kael_select(self, *dim, index);
  }
  if (!out) kpy_raise();
  return out;
}

/* Dims that the parts of a key take; -1 for two ellipses. */
static int64_t dims_taken(PyObject *const *parts, Py_ssize_t n) {
  int64_t taken = 0;
  int n_ellipses = 0;
  for (Py_ssize_t i = 0; i < n; i++) {
    if (parts[i] == Py_Ellipsis)
      n_ellipses++;
    else if (parts[i] != Py_None)
      taken++;
  }
  return n_ellipses > 1 ? -1 : taken;
}

static bool check_taken(kael_tensor *self, int64_t taken) {
  if (taken < 0)
    PyErr_SetString(PyExc_IndexError, "an index can only have a single ellipsis ('...')");
  else if (taken > kael_ndim(self) && kael_ndim(self) == 0)
    PyErr_SetString(PyExc_IndexError,
                    "invalid index of a 0-dim tensor. Use `tensor.item()` to convert it to a "
                    "Python number");
  else if (taken > kael_ndim(self))
    PyErr_Format(PyExc_IndexError, "too many indices for tensor of dimension %d", kael_ndim(self));
  else
    return true;
  return false;
}

/* The view of a key of basic parts: owned, or NULL with the exception set. */
static kael_tensor *basic_view(kael_tensor *self, PyObject *key) {
  PyObject *parts[2 * KAEL_MAX_DIMS + 1] = {key};
  Py_ssize_t n = 1;
  if (PyTuple_Check(key)) {
    n = PyTuple_Size(key);
    if (n > (Py_ssize_t)(sizeof parts / sizeof *parts)) {
      PyErr_SetString(PyExc_IndexError, "too many indices");
      return NULL;
    }
    for (Py_ssize_t i = 0; i < n; i++) parts[i] = PyTuple_GetItem(key, i);
  }
  int64_t taken = dims_taken(parts, n), dim = 0;
  if (!check_taken(self, taken)) return NULL;
  kael_tensor *view = self;
  for (Py_ssize_t i = 0; i < n; i++) {
    if (parts[i] == Py_Ellipsis) {
      dim += kael_ndim(self) - taken;
      continue;
    }
    kael_tensor *next = apply_part(view, parts[i], &dim);
    if (view != self) kael_release(view);
    if (!next) return NULL;
    view = next;
  }
  if (view != self) return view;
  view = whole_view(self);
  if (!view) kpy_raise();
  return view;
}

static bool has_basic_key(PyObject *key) {
  return PyTuple_Check(key) ? all_basic(key) : is_basic(key);
}

/* --- Reading -----------------------------------------------------------------------------------
 */

PyObject *kpy_get_item(PyObject *self, PyObject *key) {
  static PyObject *function;
  if (has_basic_key(key)) {
    kael_tensor *view = basic_view(kpy_impl(self), key);
    return view ? kpy_wrap(view) : NULL;
  }
  PyObject *get = kpy_python_function(&function, "kael._index", "get");
  return get ? PyObject_CallFunctionObjArgs(get, self, key, NULL) : NULL;
}

PyObject *kpy_sequence_item(PyObject *self, Py_ssize_t i) {
  kael_tensor *tensor = kpy_impl(self);
  if (kael_ndim(tensor) && i < kael_size(tensor, 0)) return kpy_wrap(kael_select(tensor, 0, i));
  PyErr_SetString(PyExc_IndexError, "index out of range");
  return NULL;
}

Py_ssize_t kpy_len(PyObject *self) {
  kael_tensor *tensor = kpy_impl(self);
  if (kael_ndim(tensor)) return (Py_ssize_t)kael_size(tensor, 0);
  PyErr_SetString(PyExc_TypeError, "len() of a 0-d tensor");
  return -1;
}

/* --- Writing -----------------------------------------------------------------------------------
 */

/* Leading dims of size 1 that the view has not are left out, as in PyTorch. */
static kael_tensor *without_leading_ones(kael_tensor *value, int ndim) {
  kael_tensor *at = kael_retain(value);
  while (at && kael_ndim(at) > ndim && kael_size(at, 0) == 1) {
    kael_tensor *next = kael_select(at, 0, 0);
    kael_release(at);
    at = next;
  }
  return at;
}

static kael_status write_view(kael_tensor *view, PyObject *value, kael_scalar number) {
  kael_status status;
  if (!kpy_is_tensor(value)) {
    KPY_RUN(status = kael_fill_(view, number));
    return status;
  }
  KPY_RUN({
    kael_tensor *source = without_leading_ones(kpy_impl(value), kael_ndim(view));
    status = source ? kael_copy_(view, source) : kael_last_error().code;
    kael_release(source);
  });
  return status;
}

int kpy_set_item(PyObject *self, PyObject *key, PyObject *value) {
  static PyObject *function;
  kael_scalar number = kael_i(0);
  if (!value) {
    PyErr_SetString(PyExc_TypeError, "Tensor does not support deleting items");
    return -1;
  }
  if (!kpy_is_tensor(value) && !kpy_is_number(value)) {
    PyErr_Format(PyExc_TypeError, "can't assign a %R to a kael.Tensor", Py_TYPE(value));
    return -1;
  }
  if (has_basic_key(key)) {
    if (!kpy_is_tensor(value) && !kpy_read_number(value, &number)) return -1;
    kael_tensor *view = basic_view(kpy_impl(self), key);
    if (!view) return -1;
    kael_status status = write_view(view, value, number);
    bool ok = kpy_ok(status);
    kael_release(view);
    return ok ? 0 : -1;
  }
  PyObject *set = kpy_python_function(&function, "kael._index", "set");
  PyObject *done = set ? PyObject_CallFunctionObjArgs(set, self, key, value, NULL) : NULL;
  Py_XDECREF(done);
  return done ? 0 : -1;
}
