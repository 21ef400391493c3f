/* New tensors: of Python's data, of one number, of random numbers. */
#include "frontend/python/kpy.h"

/* --- kael.tensor -------------------------------------------------------------------------------
 */

/* What a pass over nested data finds: its shape, and the kinds of numbers in it. */
typedef struct survey {
  int ndim;
  int64_t shape[KAEL_MAX_DIMS];
  bool any_bool, any_int, any_float;
  bool has_dtype; /* a tensor in the data: its dtype counts */
  kael_dtype dtype;
} survey;

static bool is_nested(PyObject *object) {
  if (kpy_is_tensor(object)) return kael_ndim(kpy_impl(object)) > 0;
  return PySequence_Check(object) && !PyUnicode_Check(object) && !PyBytes_Check(object);
}

static bool survey_number(PyObject *object, survey *found) {
  kael_scalar number;
  if (kpy_is_tensor(object)) {
    found->has_dtype = true;
    if (kael_dtype_of(kpy_impl(object)) > found->dtype)
      found->dtype = kael_dtype_of(kpy_impl(object));
    return true;
  }
  if (PyFloat_Check(object))
    found->any_float = true;
  else if (PyBool_Check(object))
    found->any_bool = true;
  else if (PyLong_Check(object))
    found->any_int = true;
  else {
    if (!kpy_is_number(object)) {
      PyErr_Format(PyExc_TypeError, "new(): invalid data type %R", Py_TYPE(object));
      return false;
    }
    if (!kpy_read_number(object, &number)) return false;
    if (number.kind == KAEL_SCALAR_FLOAT)
      found->any_float = true;
    else if (number.kind == KAEL_SCALAR_INT)
      found->any_int = true;
    else
      found->any_bool = true;
  }
  return true;
}

/* Finds the shape along the first entries. */
static bool survey_shape(PyObject *data, survey *found) {
  PyObject *at = Py_NewRef(data);
  while (is_nested(at)) {
    Py_ssize_t n = PySequence_Size(at);
    if (n < 0 || found->ndim == KAEL_MAX_DIMS) {
      if (n >= 0) PyErr_SetString(PyExc_ValueError, "tensor(): too many nested levels");
      Py_DECREF(at);
      return false;
    }
    found->shape[found->ndim++] = n;
    if (n == 0) break;
    PyObject *first = PySequence_GetItem(at, 0);
    Py_DECREF(at);
    if (!first) return false;
    at = first;
  }
  Py_DECREF(at);
  return true;
}

/* Checks that all entries have the shape, and notes the kinds of the numbers. */
static bool survey_entries(PyObject *data, int dim, survey *found) {
  if (dim == found->ndim) {
    if (!is_nested(data)) return survey_number(data, found);
    PyErr_Format(PyExc_ValueError, "expected a number at dim %d, got %R", dim, Py_TYPE(data));
    return false;
  }
  if (!is_nested(data)) {
    if (PyUnicode_Check(data))
      PyErr_Format(PyExc_TypeError, "new(): invalid data type 'str'");
    else
      PyErr_Format(PyExc_TypeError, "not a sequence: %R at dim %d", Py_TYPE(data), dim);
    return false;
  }
  Py_ssize_t n = PySequence_Size(data);
  if (n != (Py_ssize_t)found->shape[dim]) {
    if (n >= 0)
      PyErr_Format(PyExc_ValueError, "expected sequence of length %lld at dim %d (got %zd)",
                   (long long)found->shape[dim], dim, n);
    return false;
  }
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *item = PySequence_GetItem(data, i);
    if (!item) return false;
    bool ok = survey_entries(item, dim + 1, found);
    Py_DECREF(item);
    if (!ok) return false;
  }
  return true;
}

static kael_dtype infer(const survey *found) {
  if (found->has_dtype && !found->any_float) return found->dtype;
  if (found->any_float) return found->has_dtype && found->dtype == KAEL_F64 ? KAEL_F64 : KAEL_F32;
  if (found->any_int) return KAEL_I64;
  return found->any_bool ? KAEL_BOOL : kpy_default_dtype();
}

/* --- Elements ----------------------------------------------------------------------------------
 */

static const struct {
  int64_t least, most;
} ranges[] = {[KAEL_BOOL] = {INT64_MIN, INT64_MAX}, [KAEL_U8] = {-255, UINT8_MAX},
              [KAEL_I8] = {INT8_MIN, INT8_MAX},     [KAEL_I16] = {INT16_MIN, INT16_MAX},
              [KAEL_I32] = {INT32_MIN, INT32_MAX},  [KAEL_I64] = {INT64_MIN, INT64_MAX}};

static bool overflow(kael_dtype dtype) {
  PyErr_Format(PyExc_RuntimeError, "value cannot be converted to type %s without overflow",
               kael_dtype_name(dtype));
  return false;
}

static bool put_integer(char *place, kael_dtype dtype, int64_t value) {
  if (value < ranges[dtype].least || value > ranges[dtype].most) return overflow(dtype);
  switch (dtype) {
    case KAEL_BOOL:
      *(uint8_t *)place = value != 0;
      break;
    case KAEL_U8:
      *(uint8_t *)place = (uint8_t)value;
      break;
    case KAEL_I8:
      *(int8_t *)place = (int8_t)value;
      break;
    case KAEL_I16:
      *(int16_t *)place = (int16_t)value;
      break;
    case KAEL_I32:
      *(int32_t *)place = (int32_t)value;
      break;
    default:
      *(int64_t *)place = value;
      break;
  }
  return true;
}

static bool put_number(char *place, kael_dtype dtype, PyObject *object) {
  kael_scalar number;
  bool is_tensor = kpy_is_tensor(object);
  PyObject *item = is_tensor ? kpy_item(object, NULL) : Py_NewRef(object);
  bool ok = item && kpy_read_number(item, &number);
  Py_XDECREF(item);
  if (!ok) return false;
  double real = number.kind == KAEL_SCALAR_FLOAT ? number.as.f
                : number.kind == KAEL_SCALAR_INT ? (double)number.as.i
                                                 : (double)number.as.b;
  if (dtype == KAEL_F32)
    *(float *)place = (float)real;
  else if (dtype == KAEL_F64)
    *(double *)place = real;
  else if (number.kind != KAEL_SCALAR_FLOAT)
    return put_integer(place, dtype, number.kind == KAEL_SCALAR_INT ? number.as.i : number.as.b);
  else if (dtype == KAEL_BOOL)
    *(uint8_t *)place = real != 0;
  else if (!(real >= -9223372036854775808.0 && real < 9223372036854775808.0))
    return overflow(dtype);
  else
    return put_integer(place, dtype, (int64_t)real);
  return true;
}

static bool put_entries(PyObject *data, int dim, int ndim, kael_dtype dtype, char **place) {
  if (dim == ndim) {
    bool ok = put_number(*place, dtype, data);
    *place += kael_dtype_size(dtype);
    return ok;
  }
  Py_ssize_t n = PySequence_Size(data);
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *item = PySequence_GetItem(data, i);
    if (!item) return false;
    bool ok = put_entries(item, dim + 1, ndim, dtype, place);
    Py_DECREF(item);
    if (!ok) return false;
  }
  return n >= 0;
}

static kael_tensor *narrowed(kael_tensor *wide, kael_dtype dtype) {
  kael_tensor *out = kael_to_dtype(wide, dtype);
  kael_release(wide);
  return out;
}

static PyObject *from_nested(PyObject *data, const kael_dtype *wanted) {
  survey found = {0};
  if (!survey_shape(data, &found)) return NULL;
  if (!survey_entries(data, 0, &found)) return NULL;
  kael_dtype dtype = wanted ? *wanted : infer(&found);
  /* Half floats are rounded from float32 by the library. */
  kael_dtype made = dtype == KAEL_F16 || dtype == KAEL_BF16 ? KAEL_F32 : dtype;
  size_t n_bytes = kael_dtype_size(made);
  for (int d = 0; d < found.ndim; d++) n_bytes *= (size_t)found.shape[d];
  char *bytes = PyMem_Malloc(n_bytes ? n_bytes : 1), *place = bytes;
  if (!bytes) return PyErr_NoMemory();
  PyObject *result = NULL;
  if (put_entries(data, 0, found.ndim, made, &place)) {
    kael_tensor *out = kael_from_data(bytes, found.ndim, found.shape, made);
    result = kpy_wrap(made == dtype ? out : narrowed(out, dtype));
  }
  PyMem_Free(bytes);
  return result;
}

/* The elements of a tensor or of a buffer, as a tensor without history, of its own. */
static PyObject *copy_of(PyObject *data) {
  if (!kpy_is_tensor(data)) return kpy_from_buffer(data, true);
  kael_tensor *plain = kael_detach(kpy_impl(data)), *out;
  KPY_RUN(out = kael_clone(plain));
  kael_release(plain);
  return kpy_wrap(out);
}

static PyObject *cast(PyObject *tensor, kael_dtype dtype) {
  kael_tensor *out;
  if (!tensor) return NULL;
  KPY_RUN(out = kael_to_dtype(kpy_impl(tensor), dtype));
  Py_DECREF(tensor);
  return kpy_wrap(out);
}

static PyObject *with_grad(PyObject *tensor, bool requires_grad) {
  if (!tensor || !requires_grad) return tensor;
  if (kpy_ok(kael_requires_grad_(kpy_impl(tensor), true))) return tensor;
  Py_DECREF(tensor);
  return NULL;
}

static PyObject *make_tensor(PyObject *module, PyObject *const *args, Py_ssize_t n,
                             PyObject *keywords) {
  static const kpy_param params[] = {{"data", KPY_OBJECT, 1, 0, 0},
                                     {"dtype", KPY_DTYPE, 0, 1, 0},
                                     {"device", KPY_OBJECT, 0, 1, 0},
                                     {"requires_grad", KPY_BOOL, 0, 1, 0},
                                     {"pin_memory", KPY_BOOL, 0, 1, 0}};
  static const kpy_signature signature = {"tensor", 5, params};
  kpy_call call;
  (void)module;
  if (!kpy_parse(&call, &signature, NULL, args, n, keywords)) return NULL;
  PyObject *data = call.args[0].object, *tensor;
  if (kpy_is_tensor(data) ||
      (PyObject_CheckBuffer(data) && !PyBytes_Check(data) && !kpy_is_number(data))) {
    tensor = copy_of(data);
    if (call.args[1].given) tensor = cast(tensor, call.args[1].dtype);
  } else {
    tensor = from_nested(data, call.args[1].given ? &call.args[1].dtype : NULL);
  }
  return kpy_finish(&call, with_grad(tensor, call.args[3].flag));
}

/* --- Filled tensors ----------------------------------------------------------------------------
 */

enum { OPTIONS = 4 };
#define OPTION_PARAMS                                                                              \
  {"dtype", KPY_DTYPE, 0, 1, 0}, {"requires_grad", KPY_BOOL, 0, 1, 0},                             \
      {"device", KPY_OBJECT, 0, 1, 0}, {                                                           \
    "layout", KPY_OBJECT, 0, 1, 0                                                                  \
  }

static kael_dtype dtype_or(const kpy_arg *dtype, kael_dtype otherwise) {
  return dtype->given ? dtype->dtype : otherwise;
}

typedef kael_tensor *(*make_fn)(int, const int64_t *, kael_dtype);

static PyObject *make_sized(const kpy_signature *signature, make_fn make, PyObject *const *args,
                            Py_ssize_t n, PyObject *keywords) {
  kpy_call call;
  kael_tensor *out;
  if (!kpy_parse(&call, signature, NULL, args, n, keywords)) return NULL;
  kpy_arg *a = call.args;
  kael_dtype dtype = dtype_or(&a[1], kpy_default_dtype());
  KPY_RUN(out = make(a[0].n, a[0].ints, dtype));
  return kpy_finish(&call, with_grad(kpy_wrap(out), a[2].flag));
}

static const kpy_param sized_params[] = {{"size", KPY_SIZES, 1, 0, 0}, OPTION_PARAMS};

#define SIZED(name)                                                                                \
  static PyObject *make_##name(PyObject *module, PyObject *const *args, Py_ssize_t n,              \
                               PyObject *keywords) {                                               \
    static const kpy_signature signature = {#name, 1 + OPTIONS, sized_params};                     \
    (void)module;                                                                                  \
    return make_sized(&signature, kael_##name, args, n, keywords);                                 \
  }
SIZED(zeros)
SIZED(ones)
SIZED(rand)
SIZED(randn)

/* Memory is not handed out uninitialised: what a program reads of it would differ from run to run.
 */
static PyObject *make_empty(PyObject *module, PyObject *const *args, Py_ssize_t n,
                            PyObject *keywords) {
  static const kpy_signature signature = {"empty", 1 + OPTIONS, sized_params};
  (void)module;
  return make_sized(&signature, kael_zeros, args, n, keywords);
}

static kael_dtype dtype_of_number(kael_scalar number) {
  if (number.kind == KAEL_SCALAR_FLOAT) return kpy_default_dtype();
  return number.kind == KAEL_SCALAR_INT ? KAEL_I64 : KAEL_BOOL;
}

static PyObject *make_full(PyObject *module, PyObject *const *args, Py_ssize_t n,
                           PyObject *keywords) {
  static const kpy_param params[] = {
      {"size", KPY_INTS, 1, 0, 0}, {"fill_value", KPY_NUMBER, 1, 0, 0}, OPTION_PARAMS};
  static const kpy_signature signature = {"full", 2 + OPTIONS, params};
  kpy_call call;
  kael_tensor *out;
  (void)module;
  if (!kpy_parse(&call, &signature, NULL, args, n, keywords)) return NULL;
  kpy_arg *a = call.args;
  kael_dtype dtype = dtype_or(&a[2], dtype_of_number(a[1].number));
  KPY_RUN(out = kael_full(a[0].n, a[0].ints, a[1].number, dtype));
  return kpy_finish(&call, with_grad(kpy_wrap(out), a[3].flag));
}

/* zeros_like and the like: the shape of a tensor, and its dtype unless another is given. */
static const kpy_param like_params[] = {
    {"self", KPY_TENSOR, 1, 0, 0}, OPTION_PARAMS, {"memory_format", KPY_OBJECT, 0, 1, 0}};

static PyObject *make_like(const kpy_signature *signature, make_fn make, PyObject *const *args,
                           Py_ssize_t n, PyObject *keywords) {
  kpy_call call;
  kael_tensor *out;
  if (!kpy_parse(&call, signature, NULL, args, n, keywords)) return NULL;
  kael_tensor *like = call.args[0].tensor;
  kael_dtype dtype = dtype_or(&call.args[1], kael_dtype_of(like));
  KPY_RUN(out = make(kael_ndim(like), kael_shape(like), dtype));
  return kpy_finish(&call, with_grad(kpy_wrap(out), call.args[2].flag));
}

#define LIKE(name, make)                                                                           \
  static PyObject *make_##name(PyObject *module, PyObject *const *args, Py_ssize_t n,              \
                               PyObject *keywords) {                                               \
    static const kpy_signature signature = {#name, 2 + OPTIONS, like_params};                      \
    (void)module;                                                                                  \
    return make_like(&signature, make, args, n, keywords);                                         \
  }
LIKE(zeros_like, kael_zeros)
LIKE(ones_like, kael_ones)
LIKE(empty_like, kael_zeros)
LIKE(rand_like, kael_rand)
LIKE(randn_like, kael_randn)

static PyObject *make_full_like(PyObject *module, PyObject *const *args, Py_ssize_t n,
                                PyObject *keywords) {
  static const kpy_param params[] = {{"self", KPY_TENSOR, 1, 0, 0},
                                     {"fill_value", KPY_NUMBER, 1, 0, 0},
                                     OPTION_PARAMS,
                                     {"memory_format", KPY_OBJECT, 0, 1, 0}};
  static const kpy_signature signature = {"full_like", 3 + OPTIONS, params};
  kpy_call call;
  kael_tensor *out;
  (void)module;
  if (!kpy_parse(&call, &signature, NULL, args, n, keywords)) return NULL;
  kpy_arg *a = call.args;
  kael_tensor *like = a[0].tensor;
  kael_dtype dtype = dtype_or(&a[2], kael_dtype_of(like));
  KPY_RUN(out = kael_full(kael_ndim(like), kael_shape(like), a[1].number, dtype));
  return kpy_finish(&call, with_grad(kpy_wrap(out), a[3].flag));
}

static PyObject *make_arange(PyObject *module, PyObject *const *args, Py_ssize_t n,
                             PyObject *keywords) {
  static const kpy_param params[] = {{"start", KPY_NUMBER_OPT, 0, 0, 0},
                                     {"end", KPY_NUMBER_OPT, 0, 0, 0},
                                     {"step", KPY_NUMBER, 0, 0, 1},
                                     OPTION_PARAMS};
  static const kpy_signature signature = {"arange", 3 + OPTIONS, params};
  kpy_call call;
  kael_tensor *out;
  (void)module;
  if (!kpy_parse(&call, &signature, NULL, args, n, keywords)) return NULL;
  kpy_arg *a = call.args;
  if (!a[0].given && !a[1].given) {
    PyErr_SetString(PyExc_TypeError, "arange() missing required argument 'end'");
    return NULL;
  }
  kael_scalar start = a[1].given && a[0].given ? a[0].number : kael_i(0);
  kael_scalar end = a[1].given ? a[1].number : a[0].number, step = a[2].number;
  bool real = start.kind == KAEL_SCALAR_FLOAT || end.kind == KAEL_SCALAR_FLOAT ||
              step.kind == KAEL_SCALAR_FLOAT;
  kael_dtype dtype = dtype_or(&a[3], real ? kpy_default_dtype() : KAEL_I64);
  KPY_RUN(out = kael_arange(start, end, step, dtype));
  return kpy_finish(&call, with_grad(kpy_wrap(out), a[4].flag));
}

static PyObject *make_eye(PyObject *module, PyObject *const *args, Py_ssize_t n,
                          PyObject *keywords) {
  static const kpy_param params[] = {
      {"n", KPY_INT, 1, 0, 0}, {"m", KPY_INT, 0, 0, -1}, OPTION_PARAMS};
  static const kpy_signature signature = {"eye", 2 + OPTIONS, params};
  kpy_call call;
  kael_tensor *out;
  (void)module;
  if (!kpy_parse(&call, &signature, NULL, args, n, keywords)) return NULL;
  kpy_arg *a = call.args;
  int64_t columns = a[1].given ? a[1].integer : a[0].integer;
  kael_dtype dtype = dtype_or(&a[2], kpy_default_dtype());
  KPY_RUN(out = kael_eye(a[0].integer, columns, dtype));
  return kpy_finish(&call, with_grad(kpy_wrap(out), a[3].flag));
}

static PyObject *manual_seed(PyObject *module, PyObject *seed) {
  (void)module;
  PyObject *integer = PyNumber_Index(seed);
  if (!integer) return NULL;
  uint64_t value = PyLong_AsUnsignedLongLongMask(integer);
  Py_DECREF(integer);
  if (PyErr_Occurred()) return NULL;
  kael_manual_seed(value);
  Py_RETURN_NONE;
}

#define FAST(function) ((PyCFunction)(void (*)(void))(function)), METH_FASTCALL | METH_KEYWORDS

PyMethodDef kpy_make_functions[] = {
    {"tensor", FAST(make_tensor),
     "tensor(data, *, dtype=None, requires_grad=False) -> Tensor\n\n"
     "A copy of nested lists, a number, an array or a tensor, without history."},
    {"zeros", FAST(make_zeros),
     "zeros(*size, dtype=None, requires_grad=False) -> Tensor\n\nZeros."},
    {"ones", FAST(make_ones), "ones(*size, dtype=None, requires_grad=False) -> Tensor\n\nOnes."},
    {"empty", FAST(make_empty),
     "empty(*size, dtype=None, requires_grad=False) -> Tensor\n\n"
     "A tensor to be written; its elements are zeros."},
    {"full", FAST(make_full),
     "full(size, fill_value, *, dtype=None, requires_grad=False) -> Tensor\n\n"
     "One number everywhere."},
    {"zeros_like", FAST(make_zeros_like),
     "zeros_like(input, *, dtype=None) -> Tensor\n\nZeros of input's shape and dtype."},
    {"ones_like", FAST(make_ones_like),
     "ones_like(input, *, dtype=None) -> Tensor\n\nOnes of input's shape and dtype."},
    {"empty_like", FAST(make_empty_like),
     "empty_like(input, *, dtype=None) -> Tensor\n\nA tensor of input's shape to be written."},
    {"full_like", FAST(make_full_like),
     "full_like(input, fill_value, *, dtype=None) -> Tensor\n\nOne number in input's shape and "
     "dtype."},
    {"rand_like", FAST(make_rand_like),
     "rand_like(input, *, dtype=None) -> Tensor\n\nUniform random numbers in input's shape."},
    {"randn_like", FAST(make_randn_like),
     "randn_like(input, *, dtype=None) -> Tensor\n\nNormal random numbers in input's shape."},
    {"rand", FAST(make_rand),
     "rand(*size, dtype=None, requires_grad=False) -> Tensor\n\nUniform random numbers on [0, 1)."},
    {"randn", FAST(make_randn),
     "randn(*size, dtype=None, requires_grad=False) -> Tensor\n\nStandard normal random numbers."},
    {"arange", FAST(make_arange),
     "arange(start=0, end, step=1, *, dtype=None, requires_grad=False) -> Tensor\n\n"
     "start, start + step, ... up to, and without, end."},
    {"eye", FAST(make_eye),
     "eye(n, m=None, *, dtype=None, requires_grad=False) -> Tensor\n\nOnes on the diagonal."},
    {"_manual_seed", manual_seed, METH_O, "Starts the random generator again from a seed."},
    {NULL, NULL, 0, NULL}};
