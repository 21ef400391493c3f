/* max and min: of all elements, along a dim with the places, or of two tensors. */
#include "frontend/python/kpy.h"

#define FAST(function) ((PyCFunction)(void (*)(void))(function)), METH_FASTCALL | METH_KEYWORDS

typedef struct extreme {
  const char *name;
  kael_tensor *(*all)(kael_tensor *);
  kael_tensor *(*both)(kael_tensor *, kael_tensor *);
  kael_status (*along)(kael_tensor *, int64_t, bool, kael_tensor **, kael_tensor **);
} extreme;

static const extreme largest = {"max", kael_max, kael_maximum, kael_max_dim};
static const extreme least = {"min", kael_min, kael_minimum, kael_min_dim};

/* A tuple with the names values and indices. */
static PyObject *values_and_places(kael_tensor *values, kael_tensor *places) {
  static PyObject *type;
  PyObject *make = kpy_python_function(&type, "kael._results", "ValuesAndIndices");
  PyObject *pair[2] = {kpy_wrap(values), kpy_wrap(places)};
  PyObject *result = make && pair[0] && pair[1]
                         ? PyObject_CallFunctionObjArgs(make, pair[0], pair[1], NULL)
                         : NULL;
  Py_XDECREF(pair[0]);
  Py_XDECREF(pair[1]);
  return result;
}

static PyObject *call(const extreme *which, PyObject *self, PyObject *const *args, Py_ssize_t n,
                      PyObject *keywords) {
  static const kpy_param params[] = {{"self", KPY_TENSOR, 1, 0, 0},
                                     {"dim", KPY_OBJECT, 0, 0, 0},
                                     {"keepdim", KPY_BOOL, 0, 0, 0},
                                     {"other", KPY_TENSOR_OPT, 0, 1, 0}};
  const kpy_signature signature = {which->name, 4, params};
  kpy_call call;
  kael_tensor *out, *values = NULL, *places = NULL;
  kael_status status;
  int64_t dim;
  if (!kpy_parse(&call, &signature, self, args, n, keywords)) return NULL;
  kpy_arg *a = call.args;
  kael_tensor *other = a[3].given ? a[3].tensor : NULL;
  if (a[1].given && kpy_is_tensor(a[1].object)) other = kpy_impl(a[1].object);
  if (other) {
    KPY_RUN(out = which->both(a[0].tensor, other));
    return kpy_wrap(out);
  }
  if (!a[1].given || a[1].object == Py_None) {
    KPY_RUN(out = which->all(a[0].tensor));
    return kpy_wrap(out);
  }
  if (!kpy_read_int(a[1].object, &dim)) return NULL;
  KPY_RUN(status = which->along(a[0].tensor, dim, a[2].flag, &values, &places));
  return kpy_ok(status) ? values_and_places(values, places) : NULL;
}

#define EXTREME(which)                                                                             \
  static PyObject *method_##which(PyObject *self, PyObject *const *args, Py_ssize_t n,             \
                                  PyObject *keywords) {                                            \
    return call(&which, self, args, n, keywords);                                                  \
  }                                                                                                \
  static PyObject *function_##which(PyObject *module, PyObject *const *args, Py_ssize_t n,         \
                                    PyObject *keywords) {                                          \
    (void)module;                                                                                  \
    return call(&which, NULL, args, n, keywords);                                                  \
  }
EXTREME(largest)
EXTREME(least)

#define DOC(name, word)                                                                            \
  name "(dim=None, keepdim=False) -> Tensor, or (values, indices)\n\n"                             \
       "The " word                                                                                 \
       " element; along a dim with its first places. With another tensor in "                      \
       "place of the dim the " word " of each two elements."

PyMethodDef kpy_extreme_methods[] = {{"max", FAST(method_largest), DOC("max", "largest")},
                                     {"min", FAST(method_least), DOC("min", "least")},
                                     {NULL, NULL, 0, NULL}};

PyMethodDef kpy_extreme_functions[] = {{"max", FAST(function_largest), DOC("max", "largest")},
                                       {"min", FAST(function_least), DOC("min", "least")},
                                       {NULL, NULL, 0, NULL}};
