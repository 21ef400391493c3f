/* Elements as Python's numbers: item, tolist, bool, float, int. These materialize. */
#include "frontend/python/kpy.h"

/* Elements of dtypes that C has not are read in one that it has, and holds them exactly. */
static kael_dtype readable(kael_dtype dtype) {
  return dtype == KAEL_F16 || dtype == KAEL_BF16 ? KAEL_F32 : dtype;
}

static PyObject *number_at(const char *element, kael_dtype dtype) {
  switch (dtype) {
    case KAEL_BOOL:
      return PyBool_FromLong(*(const uint8_t *)element);
    case KAEL_U8:
      return PyLong_FromLong(*(const uint8_t *)element);
    case KAEL_I8:
      return PyLong_FromLong(*(const int8_t *)element);
    case KAEL_I16:
      return PyLong_FromLong(*(const int16_t *)element);
    case KAEL_I32:
      return PyLong_FromLong(*(const int32_t *)element);
    case KAEL_I64:
      return PyLong_FromLongLong(*(const int64_t *)element);
    case KAEL_F32:
      return PyFloat_FromDouble(*(const float *)element);
    default:
      return PyFloat_FromDouble(*(const double *)element);
  }
}

/* All elements, row-major, in a block for PyMem_Free. */
static char *copy_elements(kael_tensor *tensor, kael_dtype *out_dtype) {
  kael_dtype dtype = kael_dtype_of(tensor);
  size_t n_bytes;
  char *elements = NULL;
  kael_status status = KAEL_OK;
  *out_dtype = readable(dtype);
  n_bytes = (size_t)kael_numel(tensor) * kael_dtype_size(*out_dtype);
  elements = PyMem_Malloc(n_bytes ? n_bytes : 1);
  if (!elements) {
    PyErr_NoMemory();
    return NULL;
  }
  KPY_RUN({
    if (*out_dtype == dtype) {
      status = kael_copy_to_host(tensor, elements, n_bytes);
    } else {
      kael_tensor *wide = kael_to_dtype(tensor, *out_dtype);
      status = wide ? kael_copy_to_host(wide, elements, n_bytes) : kael_last_error().code;
      kael_release(wide);
    }
  });
  if (kpy_ok(status)) return elements;
  PyMem_Free(elements);
  return NULL;
}

static PyObject *nested(const char **at, kael_dtype dtype, int ndim, const int64_t *shape) {
  if (ndim == 0) {
    PyObject *number = number_at(*at, dtype);
    *at += kael_dtype_size(dtype);
    return number;
  }
  PyObject *list = PyList_New((Py_ssize_t)shape[0]);
  for (int64_t i = 0; list && i < shape[0]; i++) {
    PyObject *item = nested(at, dtype, ndim - 1, shape + 1);
    if (!item || PyList_SetItem(list, (Py_ssize_t)i, item) < 0) Py_CLEAR(list);
  }
  return list;
}

PyObject *kpy_tolist(PyObject *self, PyObject *unused) {
  (void)unused;
  kael_tensor *tensor = kpy_impl(self);
  kael_dtype dtype;
  char *elements = copy_elements(tensor, &dtype);
  if (!elements) return NULL;
  const char *at = elements;
  PyObject *list = nested(&at, dtype, kael_ndim(tensor), kael_shape(tensor));
  PyMem_Free(elements);
  return list;
}

PyObject *kpy_item(PyObject *self, PyObject *unused) {
  (void)unused;
  kael_tensor *tensor = kpy_impl(self);
  kael_dtype dtype = kael_dtype_of(tensor);
  kael_status status;
  if (kael_numel(tensor) != 1) {
    PyErr_Format(PyExc_RuntimeError, "a Tensor with %lld elements cannot be converted to Scalar",
                 (long long)kael_numel(tensor));
    return NULL;
  }
  if (kpy_is_floating(dtype)) {
    double value = 0;
    KPY_RUN(status = kael_item(tensor, &value));
    return kpy_ok(status) ? PyFloat_FromDouble(value) : NULL;
  }
  int64_t value = 0;
  KPY_RUN(status = kael_item_int(tensor, &value));
  if (!kpy_ok(status)) return NULL;
  return dtype == KAEL_BOOL ? PyBool_FromLong(value != 0) : PyLong_FromLongLong(value);
}

PyObject *kpy_as_float(PyObject *self) {
  PyObject *number = kpy_item(self, NULL);
  if (!number || PyFloat_Check(number)) return number;
  PyObject *result = PyNumber_Float(number);
  Py_DECREF(number);
  return result;
}

PyObject *kpy_as_int(PyObject *self) {
  PyObject *number = kpy_item(self, NULL);
  if (!number) return NULL;
  PyObject *result = PyNumber_Long(number); /* a bool becomes an int proper */
  Py_DECREF(number);
  return result;
}

int kpy_as_bool(PyObject *self) {
  int64_t n = kael_numel(kpy_impl(self));
  if (n != 1) {
    PyErr_SetString(PyExc_RuntimeError,
                    n ? "Boolean value of Tensor with more than one value is ambiguous"
                      : "Boolean value of Tensor with no values is ambiguous");
    return -1;
  }
  PyObject *number = kpy_item(self, NULL);
  if (!number) return -1;
  int truth = PyObject_IsTrue(number);
  Py_DECREF(number);
  return truth;
}
