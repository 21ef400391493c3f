/* Views with several results, and others that the table of operators has not: split, chunk, unbind,
 * t, narrow, as_strided, view of a dtype. */
#include "frontend/python/kael/ops_table.h"
#include "frontend/python/kpy.h"

#define FAST(function) ((PyCFunction)(void (*)(void))(function)), METH_FASTCALL | METH_KEYWORDS
/* A method and a function from one body with `signature`. */
#define BOTH(name)                                                                                 \
  static PyObject *method_##name(PyObject *self, PyObject *const *args, Py_ssize_t n,              \
                                 PyObject *keywords) {                                             \
    return call_##name(self, args, n, keywords);                                                   \
  }                                                                                                \
  static PyObject *function_##name(PyObject *module, PyObject *const *args, Py_ssize_t n,          \
                                   PyObject *keywords) {                                           \
    (void)module;                                                                                  \
    return call_##name(NULL, args, n, keywords);                                                   \
  }

/* A tuple of the views, which are taken over. */
static PyObject *tuple_of(kael_status status, kael_tensor **views, int64_t n) {
  PyObject *tuple = kpy_ok(status) ? PyTuple_New((Py_ssize_t)n) : NULL;
  if (!tuple) n = status ? 0 : n;
  for (int64_t i = 0; i < n; i++) {
    PyObject *view = kpy_wrap(views[i]);
    if (tuple && view)
      PyTuple_SetItem(tuple, (Py_ssize_t)i, view);
    else
      Py_CLEAR(tuple);
  }
  PyMem_Free(views);
  return tuple;
}

static kael_tensor **room_for(int64_t n) {
  kael_tensor **views = PyMem_Calloc((size_t)n + 1, sizeof *views);
  if (!views) PyErr_NoMemory();
  return views;
}

/* The size of a dim that the library will check; 0 where there is none. */
static int64_t extent(kael_tensor *self, int64_t dim) {
  int ndim = kael_ndim(self);
  if (ndim == 0 || dim < -ndim || dim >= ndim) return 0;
  return kael_size(self, (int)dim);
}

static PyObject *unbind(kael_tensor *self, int64_t dim) {
  int64_t n = extent(self, dim);
  kael_tensor **views = room_for(n);
  if (!views) return NULL;
  return tuple_of(kael_unbind(self, dim, views), views, n);
}

static PyObject *call_unbind(PyObject *self, PyObject *const *args, Py_ssize_t n,
                             PyObject *keywords) {
  static const kpy_param params[] = {{"self", KPY_TENSOR, 1, 0, 0}, {"dim", KPY_INT, 0, 0, 0}};
  static const kpy_signature signature = {"unbind", 2, params};
  kpy_call call;
  if (!kpy_parse(&call, &signature, self, args, n, keywords)) return NULL;
  return unbind(call.args[0].tensor, call.args[1].integer);
}
BOTH(unbind)

PyObject *kpy_iter(PyObject *self) {
  if (kael_ndim(kpy_impl(self)) == 0) {
    PyErr_SetString(PyExc_TypeError, "iteration over a 0-d tensor");
    return NULL;
  }
  PyObject *views = unbind(kpy_impl(self), 0);
  PyObject *iterator = views ? PyObject_GetIter(views) : NULL;
  Py_XDECREF(views);
  return iterator;
}

static PyObject *call_split(PyObject *self, PyObject *const *args, Py_ssize_t n,
                            PyObject *keywords) {
  static const kpy_param params[] = {{"self", KPY_TENSOR, 1, 0, 0},
                                     {"split_size_or_sections", KPY_OBJECT, 1, 0, 0},
                                     {"dim", KPY_INT, 0, 0, 0}};
  static const kpy_signature signature = {"split", 3, params};
  kpy_call call;
  if (!kpy_parse(&call, &signature, self, args, n, keywords)) return NULL;
  kael_tensor *tensor = call.args[0].tensor, **views;
  PyObject *how = call.args[1].object;
  int64_t dim = call.args[2].integer, size, total = extent(tensor, dim);
  if (!PySequence_Check(how) || kpy_is_tensor(how)) {
    if (!kpy_read_int(how, &size)) return NULL;
    int64_t count = size > 0 && total > 0 ? (total + size - 1) / size : 1;
    if (!(views = room_for(count))) return NULL;
    return tuple_of(kael_split(tensor, size, dim, views), views, count);
  }
  Py_ssize_t count = PySequence_Size(how);
  int64_t *sizes = count < 0 ? NULL : PyMem_Calloc((size_t)count + 1, sizeof *sizes);
  if (!sizes) return count < 0 ? NULL : PyErr_NoMemory();
  PyObject *result = NULL;
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject *item = PySequence_GetItem(how, i);
    bool ok = item && kpy_read_int(item, &sizes[i]);
    Py_XDECREF(item);
    if (!ok) goto done;
  }
  if ((views = room_for(count)))
    result = tuple_of(kael_split_sizes(tensor, (int)count, sizes, dim, views), views, count);
done:
  PyMem_Free(sizes);
  return result;
}
BOTH(split)

static PyObject *call_chunk(PyObject *self, PyObject *const *args, Py_ssize_t n,
                            PyObject *keywords) {
  static const kpy_param params[] = {
      {"self", KPY_TENSOR, 1, 0, 0}, {"chunks", KPY_INT, 1, 0, 0}, {"dim", KPY_INT, 0, 0, 0}};
  static const kpy_signature signature = {"chunk", 3, params};
  kpy_call call;
  if (!kpy_parse(&call, &signature, self, args, n, keywords)) return NULL;
  kael_tensor *tensor = call.args[0].tensor;
  int64_t chunks = call.args[1].integer, count = 0, most = extent(tensor, call.args[2].integer);
  kael_tensor **views = room_for(chunks > most ? chunks : most);
  if (!views) return NULL;
  kael_status status = kael_chunk(tensor, chunks, call.args[2].integer, views, &count);
  return tuple_of(status, views, count);
}
BOTH(chunk)

static PyObject *call_t(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *keywords) {
  static const kpy_param params[] = {{"self", KPY_TENSOR, 1, 0, 0}};
  static const kpy_signature signature = {"t", 1, params};
  kpy_call call;
  if (!kpy_parse(&call, &signature, self, args, n, keywords)) return NULL;
  kael_tensor *tensor = call.args[0].tensor;
  if (kael_ndim(tensor) <= 2) return kpy_wrap(kael_T(tensor));
  return PyErr_Format(PyExc_RuntimeError,
                      "t() expects a tensor with <= 2 dimensions, but self is %dD",
                      kael_ndim(tensor));
}
BOTH(t)

static PyObject *call_as_strided(PyObject *self, PyObject *const *args, Py_ssize_t n,
                                 PyObject *keywords) {
  static const kpy_param params[] = {{"self", KPY_TENSOR, 1, 0, 0},
                                     {"shape", KPY_INTS, 1, 0, 0},
                                     {"strides", KPY_INTS, 1, 0, 0},
                                     {"offset", KPY_INT, 0, 0, 0}};
  static const kpy_signature signature = {"as_strided", 4, params};
  kpy_call call;
  if (!kpy_parse(&call, &signature, self, args, n, keywords)) return NULL;
  kpy_arg *a = call.args;
  if (a[1].n != a[2].n) {
    PyErr_SetString(PyExc_RuntimeError, "mismatch in length of strides and shape");
    return NULL;
  }
  int64_t offset = a[3].given ? a[3].integer : kael_offset(a[0].tensor);
  return kpy_wrap(kael_as_strided(a[0].tensor, a[1].n, a[1].ints, a[2].ints, offset));
}
BOTH(as_strided)

/* Tensors only; kael.where also takes numbers. */
static PyObject *where(PyObject *module, PyObject *args) {
  PyObject *items[3];
  kael_tensor *out;
  (void)module;
  if (!PyArg_ParseTuple(args, "OOO:where", &items[0], &items[1], &items[2])) return NULL;
  for (int i = 0; i < 3; i++)
    if (!kpy_is_tensor(items[i]))
      return PyErr_Format(PyExc_TypeError, "where(): expected a Tensor, not %R", Py_TYPE(items[i]));
  KPY_RUN(out = kael_where(kpy_impl(items[0]), kpy_impl(items[1]), kpy_impl(items[2])));
  return kpy_wrap(out);
}

/* view(*shape), or view(dtype). */
static PyObject *method_view(PyObject *self, PyObject *const *args, Py_ssize_t n,
                             PyObject *keywords) {
  static const kpy_param params[] = {{"self", KPY_TENSOR, 1, 0, 0}, {"shape", KPY_SIZES, 1, 0, 0}};
  static const kpy_signature signature = {"view", 2, params};
  kpy_call call;
  if (n == 1 && kpy_is_dtype(args[0])) {
#ifdef KPY_HAVE_kael_view_dtype
    kael_dtype dtype;
    if (!kpy_read_dtype(args[0], &dtype)) return NULL;
    return kpy_wrap(kael_view_dtype(kpy_impl(self), dtype));
#else
    PyErr_SetString(PyExc_NotImplementedError,
                    "view(dtype) is not part of this version of kael; use to(dtype) to convert");
    return NULL;
#endif
  }
  if (!kpy_parse(&call, &signature, self, args, n, keywords)) return NULL;
  return kpy_wrap(kael_view(call.args[0].tensor, call.args[1].n, call.args[1].ints));
}

#define DOC_SPLIT                                                                                  \
  "split(split_size_or_sections, dim=0) -> tuple\n\nViews of consecutive ranges of a dim."
#define DOC_CHUNK "chunk(chunks, dim=0) -> tuple\n\nViews of at most so many ranges of one size."
#define DOC_UNBIND "unbind(dim=0) -> tuple\n\nA view for each position of a dim."
#define DOC_T "t() -> Tensor\n\nThe transpose of a matrix, as a view."
#define DOC_STRIDED                                                                                \
  "as_strided(size, stride, storage_offset=None) -> Tensor\n\n"                                    \
  "Any shape and strides over the storage, as a view."

PyMethodDef kpy_view_methods[] = {{"split", FAST(method_split), DOC_SPLIT},
                                  {"chunk", FAST(method_chunk), DOC_CHUNK},
                                  {"unbind", FAST(method_unbind), DOC_UNBIND},
                                  {"t", FAST(method_t), DOC_T},
                                  {"as_strided", FAST(method_as_strided), DOC_STRIDED},
                                  {"view", FAST(method_view),
                                   "view(*shape) -> Tensor\n\n"
                                   "Another shape over the same elements, or with a dtype the same "
                                   "bytes as another dtype."},
                                  {NULL, NULL, 0, NULL}};

PyMethodDef kpy_view_functions[] = {{"split", FAST(function_split), DOC_SPLIT},
                                    {"chunk", FAST(function_chunk), DOC_CHUNK},
                                    {"unbind", FAST(function_unbind), DOC_UNBIND},
                                    {"t", FAST(function_t), DOC_T},
                                    {"_where", where, METH_VARARGS, NULL},
                                    {"as_strided", FAST(function_as_strided), DOC_STRIDED},
                                    {NULL, NULL, 0, NULL}};
