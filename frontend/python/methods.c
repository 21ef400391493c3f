/* Methods of tensors that are no operators: sizes, reading, dtypes. */
#include "frontend/python/kpy.h"

#define FAST(function) ((PyCFunction)(void (*)(void))(function)), METH_FASTCALL | METH_KEYWORDS
#define NOARGS(name) static PyObject *name(PyObject *self, PyObject *unused)

/* --- Layout ------------------------------------------------------------------------------------
 */

static PyObject *one_or_all(const char *name, PyObject *self, PyObject *const *args, Py_ssize_t n,
                            PyObject *keywords, const int64_t *values) {
  const kpy_param params[] = {{"self", KPY_TENSOR, 1, 0, 0}, {"dim", KPY_INT, 0, 0, 0}};
  const kpy_signature signature = {name, 2, params};
  kpy_call call;
  int ndim = kael_ndim(kpy_impl(self));
  if (!kpy_parse(&call, &signature, self, args, n, keywords)) return NULL;
  if (!call.args[1].given) return values ? kpy_ints(ndim, values) : Py_NewRef(Py_None);
  int64_t dim = call.args[1].integer;
  if (dim < -ndim || dim >= ndim) {
    PyErr_Format(PyExc_IndexError,
                 "Dimension out of range (expected to be in range of [%d, %d], but got %lld)",
                 ndim ? -ndim : -1, ndim ? ndim - 1 : 0, (long long)dim);
    return NULL;
  }
  return PyLong_FromLongLong(values[dim < 0 ? dim + ndim : dim]);
}

static PyObject *size(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *keywords) {
  if (n == 0 && !keywords) return PyObject_GetAttrString(self, "shape");
  return one_or_all("size", self, args, n, keywords, kael_shape(kpy_impl(self)));
}

static PyObject *stride(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *keywords) {
  return one_or_all("stride", self, args, n, keywords, kael_strides(kpy_impl(self)));
}

NOARGS(dim) {
  (void)unused;
  return PyLong_FromLong(kael_ndim(kpy_impl(self)));
}
NOARGS(numel) {
  (void)unused;
  return PyLong_FromLongLong(kael_numel(kpy_impl(self)));
}
NOARGS(storage_offset) {
  (void)unused;
  return PyLong_FromLongLong(kael_offset(kpy_impl(self)));
}
NOARGS(element_size) {
  (void)unused;
  return PyLong_FromSize_t(kael_dtype_size(kael_dtype_of(kpy_impl(self))));
}

static PyObject *is_contiguous(PyObject *self, PyObject *const *args, Py_ssize_t n,
                               PyObject *keywords) {
  (void)args, (void)n, (void)keywords; /* memory_format: there is one */
  return PyBool_FromLong(kael_is_contiguous(kpy_impl(self)));
}

static PyObject *pointer(const void *data, kael_tensor *tensor) {
  if (!data && kael_numel(tensor)) return kpy_raise();
  return PyLong_FromVoidPtr((void *)(uintptr_t)data);
}

NOARGS(data_ptr) {
  (void)unused;
  const void *data;
  KPY_RUN(data = kael_data_ptr(kpy_impl(self)));
  return pointer(data, kpy_impl(self));
}

NOARGS(mutable_data_ptr) {
  (void)unused;
  void *data;
  KPY_RUN(data = kael_mutable_data_ptr(kpy_impl(self)));
  return pointer(data, kpy_impl(self));
}

NOARGS(storage_nbytes) {
  (void)unused;
  return PyLong_FromSize_t(kael_storage_nbytes(kael_tensor_storage(kpy_impl(self))));
}

NOARGS(storage_references) {
  (void)unused;
  return PyLong_FromLong(kael_storage_references(kael_tensor_storage(kpy_impl(self))));
}

NOARGS(references) {
  (void)unused;
  return PyLong_FromLong(kael_references(kpy_impl(self)));
}

/* --- Identity ----------------------------------------------------------------------------------
 */

static PyObject *compare(PyObject *self, PyObject *other,
                         bool (*same)(const kael_tensor *, const kael_tensor *)) {
  if (kpy_is_tensor(other)) return PyBool_FromLong(same(kpy_impl(self), kpy_impl(other)));
  return PyErr_Format(PyExc_TypeError, "expected a Tensor, not %R", Py_TYPE(other));
}

static PyObject *is_same(PyObject *self, PyObject *other) {
  return compare(self, other, kael_is_same);
}
static PyObject *shares_storage(PyObject *self, PyObject *other) {
  return compare(self, other, kael_shares_storage);
}

/* --- Dtypes ------------------------------------------------------------------------------------
 */

static PyObject *to_dtype(PyObject *self, kael_dtype dtype) {
  kael_tensor *out;
  KPY_RUN(out = kael_to_dtype(kpy_impl(self), dtype));
  return kpy_wrap(out);
}

/* What one argument of to() asks for. */
static bool read_target(PyObject *target, kael_dtype *dtype) {
  if (kpy_is_tensor(target)) {
    *dtype = kael_dtype_of(kpy_impl(target));
    return true;
  }
  if (!PyUnicode_Check(target)) return target == Py_None || kpy_read_dtype(target, dtype);
  if (PyUnicode_CompareWithASCIIString(target, "cpu") == 0) return true;
  PyErr_Format(PyExc_RuntimeError, "device '%U' is not in this build of kael, which has: cpu",
               target);
  return false;
}

static PyObject *to(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *keywords) {
  static const kpy_param params[] = {
      {"self", KPY_TENSOR, 1, 0, 0},       {"target", KPY_OBJECT, 0, 0, 0},
      {"second", KPY_OBJECT, 0, 0, 0},     {"dtype", KPY_OBJECT, 0, 1, 0},
      {"device", KPY_OBJECT, 0, 1, 0},     {"other", KPY_OBJECT, 0, 1, 0},
      {"non_blocking", KPY_BOOL, 0, 1, 0}, {"copy", KPY_BOOL, 0, 1, 0}};
  static const kpy_signature signature = {"to", 8, params};
  kpy_call call;
  kael_tensor *tensor = kpy_impl(self), *out;
  kael_dtype dtype = kael_dtype_of(tensor);
  if (!kpy_parse(&call, &signature, self, args, n, keywords)) return NULL;
  for (int i = 1; i <= 5; i++)
    if (call.args[i].given && !read_target(call.args[i].object, &dtype)) return NULL;
  if (dtype != kael_dtype_of(tensor) || !call.args[7].flag) return to_dtype(self, dtype);
  KPY_RUN(out = kael_clone(tensor));
  return kpy_wrap(out);
}

NOARGS(is_floating_point) {
  (void)unused;
  return PyBool_FromLong(kpy_is_floating(kael_dtype_of(kpy_impl(self))));
}

#define CAST(name, dtype)                                                                          \
  NOARGS(name) {                                                                                   \
    (void)unused;                                                                                  \
    return to_dtype(self, dtype);                                                                  \
  }
CAST(as_float, KAEL_F32)
CAST(as_double, KAEL_F64)
CAST(as_half, KAEL_F16)
CAST(as_bfloat16, KAEL_BF16)
CAST(as_int, KAEL_I32)
CAST(as_long, KAEL_I64)
CAST(as_short, KAEL_I16)
CAST(as_char, KAEL_I8)
CAST(as_byte, KAEL_U8)
CAST(as_bool, KAEL_BOOL)

NOARGS(itself) {
  (void)unused;
  return Py_NewRef(self);
}

/* --- Copies ------------------------------------------------------------------------------------
 */

static const kpy_param copy_params[] = {{"self", KPY_TENSOR, 1, 0, 0},
                                        {"memory_format", KPY_OBJECT, 0, 1, 0}};

static PyObject *clone(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *keywords) {
  static const kpy_signature signature = {"clone", 2, copy_params};
  kpy_call call;
  kael_tensor *out;
  if (!kpy_parse(&call, &signature, self, args, n, keywords)) return NULL;
  KPY_RUN(out = kael_clone(call.args[0].tensor));
  return kpy_wrap(out);
}

static PyObject *contiguous(PyObject *self, PyObject *const *args, Py_ssize_t n,
                            PyObject *keywords) {
  static const kpy_signature signature = {"contiguous", 2, copy_params};
  kpy_call call;
  kael_tensor *out;
  if (!kpy_parse(&call, &signature, self, args, n, keywords)) return NULL;
  KPY_RUN(out = kael_contiguous(call.args[0].tensor));
  return kpy_wrap(out);
}

static PyObject *copy_(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *keywords) {
  static const kpy_param params[] = {{"self", KPY_TENSOR, 1, 0, 0},
                                     {"src", KPY_OTHER, 1, 0, 0},
                                     {"non_blocking", KPY_BOOL, 0, 0, 0}};
  static const kpy_signature signature = {"copy_", 3, params};
  kpy_call call;
  kael_status status;
  if (!kpy_parse(&call, &signature, self, args, n, keywords)) return NULL;
  kpy_arg *src = &call.args[1];
  KPY_RUN(status = src->tensor ? kael_copy_(kpy_impl(self), src->tensor)
                               : kael_fill_(kpy_impl(self), src->number));
  return kpy_returned_self(self, status);
}

#define DOC_CAST(dtype) "The elements as " dtype "; the tensor itself where they are that already."

PyMethodDef kpy_tensor_methods[] = {
    {"item", kpy_item, METH_NOARGS, "item() -> number\n\nThe only element as a Python number."},
    {"tolist", kpy_tolist, METH_NOARGS, "tolist() -> list\n\nThe elements as nested lists."},
    {"size", FAST(size), "size(dim=None) -> Size or int\n\nThe sizes of the dims, or of one."},
    {"stride", FAST(stride), "stride(dim=None) -> tuple or int\n\nThe strides, in elements."},
    {"dim", dim, METH_NOARGS, "dim() -> int\n\nThe number of dims."},
    {"ndimension", dim, METH_NOARGS, "ndimension() -> int\n\nThe number of dims."},
    {"numel", numel, METH_NOARGS, "numel() -> int\n\nThe number of elements."},
    {"nelement", numel, METH_NOARGS, "nelement() -> int\n\nThe number of elements."},
    {"storage_offset", storage_offset, METH_NOARGS,
     "storage_offset() -> int\n\nThe place of the first element in the storage, in elements."},
    {"element_size", element_size, METH_NOARGS, "element_size() -> int\n\nBytes an element."},
    {"is_contiguous", FAST(is_contiguous),
     "is_contiguous() -> bool\n\nWhether the elements lie row-major without gaps."},
    {"data_ptr", data_ptr, METH_NOARGS,
     "data_ptr() -> int\n\n"
     "The address of the first element, to be read only, and valid until the next write."},
    {"_mutable_data_ptr", mutable_data_ptr, METH_NOARGS, NULL},
    {"_storage_nbytes", storage_nbytes, METH_NOARGS, NULL},
    {"_storage_references", storage_references, METH_NOARGS, NULL},
    {"_references", references, METH_NOARGS, NULL},
    {"is_same", is_same, METH_O, "is_same(other) -> bool\n\nWhether both are one tensor."},
    {"is_set_to", is_same, METH_O, "is_set_to(other) -> bool\n\nWhether both are one tensor."},
    {"shares_storage", shares_storage, METH_O,
     "shares_storage(other) -> bool\n\nWhether a write to one can be seen through the other."},
    {"is_floating_point", is_floating_point, METH_NOARGS,
     "is_floating_point() -> bool\n\nWhether the dtype is floating."},
    {"to", FAST(to),
     "to(dtype) -> Tensor\n\n"
     "The elements in another dtype; the tensor itself where nothing changes. Also to(device) and "
     "to(other), with copy=False."},
    {"float", as_float, METH_NOARGS, DOC_CAST("float32")},
    {"double", as_double, METH_NOARGS, DOC_CAST("float64")},
    {"half", as_half, METH_NOARGS, DOC_CAST("float16")},
    {"bfloat16", as_bfloat16, METH_NOARGS, DOC_CAST("bfloat16")},
    {"int", as_int, METH_NOARGS, DOC_CAST("int32")},
    {"long", as_long, METH_NOARGS, DOC_CAST("int64")},
    {"short", as_short, METH_NOARGS, DOC_CAST("int16")},
    {"char", as_char, METH_NOARGS, DOC_CAST("int8")},
    {"byte", as_byte, METH_NOARGS, DOC_CAST("uint8")},
    {"bool", as_bool, METH_NOARGS, DOC_CAST("bool")},
    {"cpu", itself, METH_NOARGS, "cpu() -> Tensor\n\nThe tensor itself."},
    {"clone", FAST(clone), "clone() -> Tensor\n\nA copy with a storage of its own."},
    {"contiguous", FAST(contiguous),
     "contiguous() -> Tensor\n\nItself where contiguous, else a copy."},
    {"copy_", FAST(copy_), "copy_(src) -> Tensor\n\nWrites src's elements, cast and broadcast."},
    {NULL, NULL, 0, NULL}};
