/* The buffer protocol, both ways: a tensor's memory for NumPy and others, and theirs as a tensor.
 *
 * Memory that may be written through a buffer makes the tensor's storage SHARED (kael/tensor.h):
 * its pending readers and writer run, and later ones run at the call.
 */
#include "frontend/python/kpy.h"

#include <stdlib.h>

/* --- Out ---------------------------------------------------------------------------------------
 */

static const char *const formats[KPY_N_DTYPES] = {"?", "B", "b",  "h", "i",
                                                  "q", "e", NULL, "f", "d"};

/* What a buffer points into besides the elements. */
typedef struct layout {
  Py_ssize_t shape[KAEL_MAX_DIMS], strides[KAEL_MAX_DIMS];
} layout;

static int refuse(Py_buffer *view, const char *why) {
  view->obj = NULL;
  PyErr_SetString(PyExc_BufferError, why);
  return -1;
}

int kpy_get_buffer(PyObject *self, Py_buffer *view, int flags) {
  kael_tensor *tensor = kpy_impl(self);
  kael_dtype dtype = kael_dtype_of(tensor);
  void *data;
  view->obj = NULL;
  if (!formats[dtype]) return refuse(view, "a bfloat16 tensor has no buffer");
  if (kael_requires_grad(tensor))
    return refuse(view, "a tensor that requires grad has no buffer; use tensor.detach()");
  if (!(flags & PyBUF_STRIDES & ~PyBUF_ND) && !kael_is_contiguous(tensor))
    return refuse(view, "the tensor is not contiguous");
  KPY_RUN(data = kael_mutable_data_ptr(tensor));
  view->readonly = 0;
  if (!data && kael_numel(tensor)) {
    if (flags & PyBUF_WRITABLE) return refuse(view, kael_last_error().message);
    KPY_RUN(data = (void *)(uintptr_t)kael_data_ptr(tensor));
    view->readonly = 1;
    if (!data) return refuse(view, kael_last_error().message);
  }
  layout *dims = malloc(sizeof *dims);
  if (!dims) return refuse(view, "no memory");
  view->itemsize = (Py_ssize_t)kael_dtype_size(dtype);
  view->ndim = kael_ndim(tensor);
  for (int d = 0; d < view->ndim; d++) {
    dims->shape[d] = (Py_ssize_t)kael_shape(tensor)[d];
    dims->strides[d] = (Py_ssize_t)kael_strides(tensor)[d] * view->itemsize;
  }
  view->buf = data ? data : dims; /* of no elements: any address */
  view->len = (Py_ssize_t)kael_numel(tensor) * view->itemsize;
  view->format = flags & PyBUF_FORMAT ? (char *)(uintptr_t)formats[dtype] : NULL;
  view->shape = flags & PyBUF_ND ? dims->shape : NULL;
  view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? dims->strides : NULL;
  view->suboffsets = NULL;
  view->internal = dims;
  view->obj = Py_NewRef(self);
  return 0;
}

void kpy_release_buffer(PyObject *self, Py_buffer *view) {
  (void)self;
  free(view->internal);
}

/* --- In ----------------------------------------------------------------------------------------
 */

static const char capsule_name[] = "kael.buffer";

static void release_capsule(PyObject *capsule) {
  Py_buffer *view = PyCapsule_GetPointer(capsule, capsule_name);
  PyBuffer_Release(view);
  free(view);
}

static bool dtype_of_format(const Py_buffer *view, kael_dtype *out_dtype) {
  const char *format = view->format ? view->format : "B";
  Py_ssize_t size = view->itemsize;
  if (*format == '@' || *format == '=' || *format == '<') format++;
  int found = -1;
  if (strchr("bhilqn", *format))
    found = size == 1 ? KAEL_I8 : size == 2 ? KAEL_I16 : size == 4 ? KAEL_I32 : KAEL_I64;
  else if (*format == '?')
    found = KAEL_BOOL;
  else if (*format == 'B')
    found = KAEL_U8;
  else if (*format == 'e')
    found = KAEL_F16;
  else if (*format == 'f')
    found = KAEL_F32;
  else if (*format == 'd')
    found = KAEL_F64;
  if (*format && format[1] == '\0' && found >= 0) {
    *out_dtype = (kael_dtype)found;
    return true;
  }
  PyErr_Format(PyExc_TypeError,
               "an array of format '%s' cannot be a tensor; kael has float64, float32, float16, "
               "int64, int32, int16, int8, uint8 and bool, in this machine's byte order",
               view->format ? view->format : "");
  return false;
}

static PyObject *copy_buffer(const Py_buffer *view, kael_dtype dtype, const int64_t *shape) {
  char *bytes = PyMem_Malloc(view->len ? (size_t)view->len : 1);
  PyObject *result = NULL;
  if (!bytes) return PyErr_NoMemory();
  if (PyBuffer_ToContiguous(bytes, view, view->len, 'C') == 0)
    result = kpy_wrap(kael_from_data(bytes, view->ndim, shape, dtype));
  PyMem_Free(bytes);
  return result;
}

static bool read_layout(const Py_buffer *view, int64_t *shape, int64_t *strides, size_t *out_size) {
  bool empty = view->len == 0;
  *out_size = empty ? 0 : (size_t)view->itemsize;
  for (int d = 0; d < view->ndim; d++) {
    shape[d] = view->shape ? view->shape[d] : view->len / view->itemsize;
    Py_ssize_t stride = view->strides ? view->strides[d] : view->itemsize;
    if (stride < 0 && shape[d] > 1) {
      PyErr_SetString(PyExc_ValueError,
                      "At least one stride in the given numpy array is negative, and tensors with "
                      "negative strides are not supported. Copy the array first: array.copy()");
      return false;
    }
    if (stride % view->itemsize && shape[d] > 1) {
      PyErr_SetString(PyExc_ValueError,
                      "a stride of the given array is not a multiple of its element size");
      return false;
    }
    strides[d] = shape[d] > 1 ? stride / view->itemsize : 1;
    if (!empty) *out_size += (size_t)(shape[d] - 1) * (size_t)(stride < 0 ? 0 : stride);
  }
  return true;
}

/* A tensor over the buffer, which is taken over: released when the last tensor is gone. */
static PyObject *wrap_buffer(Py_buffer *view, kael_dtype dtype) {
  int64_t shape[KAEL_MAX_DIMS], strides[KAEL_MAX_DIMS];
  size_t n_bytes;
  kael_tensor *tensor = NULL;
  PyObject *capsule = PyCapsule_New(view, capsule_name, release_capsule);
  if (!capsule) {
    PyBuffer_Release(view);
    free(view);
    return NULL;
  }
  void *note = read_layout(view, shape, strides, &n_bytes) ? kpy_owner_note(capsule) : NULL;
  Py_DECREF(capsule);
  if (!note) return NULL;
  unsigned flags = KAEL_STORAGE_SHARED | (view->readonly ? KAEL_STORAGE_READONLY : 0);
  kael_storage *storage =
      kael_storage_external(view->buf, n_bytes, kpy_owner_deleter(), note, flags);
  if (!storage) {
    kpy_raise();
    kpy_owner_forget(note);
    return NULL;
  }
  tensor = kael_tensor_from_parts(storage, view->ndim, shape, strides, 0, dtype);
  kael_storage_release(storage);
  return kpy_wrap(tensor);
}

PyObject *kpy_from_buffer(PyObject *object, bool copy) {
  kael_dtype dtype;
  Py_buffer *view = malloc(sizeof *view);
  PyObject *result = NULL;
  if (!view) return PyErr_NoMemory();
  if (PyObject_GetBuffer(object, view, PyBUF_FULL_RO) < 0) {
    free(view);
    return NULL;
  }
  bool ok = dtype_of_format(view, &dtype);
  if (ok && view->ndim > KAEL_MAX_DIMS) {
    PyErr_Format(PyExc_RuntimeError, "a tensor has at most %d dims", KAEL_MAX_DIMS);
    ok = false;
  }
  if (ok && !copy) return wrap_buffer(view, dtype);
  if (ok) {
    int64_t shape[KAEL_MAX_DIMS];
    for (int d = 0; d < view->ndim; d++) shape[d] = view->shape[d];
    result = copy_buffer(view, dtype, shape);
  }
  PyBuffer_Release(view);
  free(view);
  return result;
}

static PyObject *from_numpy(PyObject *module, PyObject *array) {
  (void)module;
  if (PyObject_CheckBuffer(array) && !kpy_is_tensor(array)) return kpy_from_buffer(array, false);
  PyErr_Format(PyExc_TypeError, "expected np.ndarray (got %R)", Py_TYPE(array));
  return NULL;
}

/* --- NumPy arrays ------------------------------------------------------------------------------
 */

static PyObject *to_numpy(PyObject *tensor) {
  static PyObject *asarray;
  PyObject *make = kpy_python_function(&asarray, "numpy", "asarray");
  PyObject *view = make ? PyMemoryView_FromObject(tensor) : NULL;
  PyObject *array = view ? PyObject_CallFunctionObjArgs(make, view, NULL) : NULL;
  Py_XDECREF(view);
  return array;
}

static bool can_be_array(PyObject *self) {
  kael_tensor *tensor = kpy_impl(self);
  if (kael_requires_grad(tensor))
    PyErr_SetString(PyExc_RuntimeError,
                    "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() "
                    "instead.");
  else if (!formats[kael_dtype_of(tensor)])
    PyErr_SetString(PyExc_TypeError, "Got unsupported ScalarType BFloat16");
  else
    return true;
  return false;
}

static PyObject *tensor_numpy(PyObject *self, PyObject *const *args, Py_ssize_t n,
                              PyObject *keywords) {
  static const kpy_param params[] = {{"self", KPY_TENSOR, 1, 0, 0}, {"force", KPY_BOOL, 0, 1, 0}};
  static const kpy_signature signature = {"numpy", 2, params};
  kpy_call call;
  if (!kpy_parse(&call, &signature, self, args, n, keywords)) return NULL;
  if (!call.args[1].flag) return can_be_array(self) ? to_numpy(self) : NULL;
  PyObject *plain = kpy_wrap(kael_detach(kpy_impl(self)));
  PyObject *array = plain && can_be_array(plain) ? to_numpy(plain) : NULL;
  Py_XDECREF(plain);
  return array;
}

static PyObject *tensor_array(PyObject *self, PyObject *const *args, Py_ssize_t n,
                              PyObject *keywords) {
  static const kpy_param params[] = {
      {"self", KPY_TENSOR, 1, 0, 0}, {"dtype", KPY_OBJECT, 0, 0, 0}, {"copy", KPY_OBJECT, 0, 1, 0}};
  static const kpy_signature signature = {"__array__", 3, params};
  kpy_call call;
  if (!kpy_parse(&call, &signature, self, args, n, keywords)) return NULL;
  if (!can_be_array(self)) return NULL;
  PyObject *array = to_numpy(self), *dtype = call.args[1].object, *copy = call.args[2].object;
  if (array && dtype && dtype != Py_None) {
    PyObject *cast = PyObject_CallMethod(array, "astype", "O", dtype);
    Py_DECREF(array);
    array = cast;
  } else if (array && copy && copy != Py_None && PyObject_IsTrue(copy)) {
    PyObject *copied = PyObject_CallMethod(array, "copy", NULL);
    Py_DECREF(array);
    array = copied;
  }
  return array;
}

/* --- Bytes, for pickles ------------------------------------------------------------------------
 */

static PyObject *to_bytes(PyObject *module, PyObject *self) {
  (void)module;
  if (!kpy_is_tensor(self)) return PyErr_Format(PyExc_TypeError, "expected a Tensor");
  kael_tensor *tensor = kpy_impl(self);
  size_t size = (size_t)kael_numel(tensor) * kael_dtype_size(kael_dtype_of(tensor));
  char *block = PyMem_Malloc(size ? size : 1);
  kael_status status;
  if (!block) return PyErr_NoMemory();
  KPY_RUN(status = kael_copy_to_host(tensor, block, size));
  PyObject *bytes = kpy_ok(status) ? PyBytes_FromStringAndSize(block, (Py_ssize_t)size) : NULL;
  PyMem_Free(block);
  return bytes;
}

static PyObject *from_bytes(PyObject *module, PyObject *args) {
  PyObject *dtype_object, *shape_object;
  const char *bytes;
  Py_ssize_t size;
  kael_dtype dtype;
  int64_t shape[KAEL_MAX_DIMS];
  int ndim;
  (void)module;
  if (!PyArg_ParseTuple(args, "y#OO:_from_bytes", &bytes, &size, &dtype_object, &shape_object) ||
      !kpy_read_dtype(dtype_object, &dtype) || !kpy_read_ints(shape_object, "shape", shape, &ndim))
    return NULL;
  size_t want = kael_dtype_size(dtype);
  for (int d = 0; d < ndim; d++) want *= shape[d] < 0 ? 0 : (size_t)shape[d];
  if (want != (size_t)size)
    return PyErr_Format(PyExc_ValueError, "%zd bytes are not a tensor of this shape", size);
  return kpy_wrap(kael_from_data(bytes, ndim, shape, dtype));
}

#define FAST(function) ((PyCFunction)(void (*)(void))(function)), METH_FASTCALL | METH_KEYWORDS

PyMethodDef kpy_buffer_methods[] = {
    {"numpy", FAST(tensor_numpy),
     "numpy(*, force=False) -> numpy.ndarray\n\nAn array over the same memory."},
    {"__array__", FAST(tensor_array), NULL},
    {NULL, NULL, 0, NULL}};

PyMethodDef kpy_buffer_functions[] = {
    {"_to_bytes", to_bytes, METH_O, NULL},
    {"_from_bytes", from_bytes, METH_VARARGS, NULL},
    {"from_numpy", from_numpy, METH_O,
     "from_numpy(array) -> Tensor\n\n"
     "A tensor over the array's memory. Writes are seen on both sides; a read-only array gives a "
     "tensor that may not be written."},
    {NULL, NULL, 0, NULL}};
