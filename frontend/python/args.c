/* Arguments of calls, read by a table of parameters.
 *
 * Names that PyTorch takes from NumPy's users (axis, keepdims, x) are accepted too. The first
 * parameter of a function, `self` here, is PyTorch's `input`.
 */
#include "frontend/python/kpy.h"

static const struct {
  const char *alias, *name;
} aliases[] = {{"axis", "dim"},         {"keepdims", "keepdim"}, {"input", "self"},
               {"x", "self"},           {"axis", "dims"},        {"size", "shape"},
               {"size", "sizes"},       {"source", "src"},       {"tensor", "src"},
               {"split_size", "sizes"}, {"stride", "strides"},   {"storage_offset", "offset"}};

bool kpy_read_int(PyObject *object, int64_t *out_value) {
  if (kpy_is_tensor(object)) {
    PyObject *number = kpy_as_int(object);
    if (!number) return false;
    *out_value = PyLong_AsLongLong(number);
    Py_DECREF(number);
  } else if (PyLong_Check(object)) {
    *out_value = PyLong_AsLongLong(object);
  } else {
    PyObject *number = PyNumber_Index(object);
    if (!number) return false;
    *out_value = PyLong_AsLongLong(number);
    Py_DECREF(number);
  }
  return *out_value != -1 || !PyErr_Occurred();
}

bool kpy_read_ints(PyObject *object, const char *what, int64_t *out_values, int *out_n) {
  if (PyIndex_Check(object) && !PySequence_Check(object)) {
    *out_n = 1;
    return kpy_read_int(object, out_values);
  }
  if (kpy_is_tensor(object) && kael_ndim(kpy_impl(object)) == 0) {
    *out_n = 1;
    return kpy_read_int(object, out_values);
  }
  if (!PySequence_Check(object)) {
    PyErr_Format(PyExc_TypeError, "%s must be an int or a sequence of ints, not %R", what,
                 Py_TYPE(object));
    return false;
  }
  Py_ssize_t n = PySequence_Size(object);
  if (n < 0) return false;
  if (n > KAEL_MAX_DIMS) {
    PyErr_Format(PyExc_RuntimeError, "%s has %zd entries; a tensor has at most %d dims", what, n,
                 KAEL_MAX_DIMS);
    return false;
  }
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *item = PySequence_GetItem(object, i);
    if (!item) return false;
    bool ok = kpy_read_int(item, &out_values[i]);
    Py_DECREF(item);
    if (!ok) return false;
  }
  *out_n = (int)n;
  return true;
}

/* --- One argument ------------------------------------------------------------------------------
 */

static bool wrong_type(const kpy_signature *signature, const kpy_param *param, const char *want,
                       PyObject *object) {
  PyErr_Format(PyExc_TypeError, "%s(): argument '%s' must be %s, not %R", signature->name,
               param->name, want, Py_TYPE(object));
  return false;
}

/* A number, or a 0-d tensor, which is read. */
static bool read_number_argument(PyObject *object, kael_scalar *out_number) {
  if (!kpy_is_tensor(object)) return kpy_read_number(object, out_number);
  PyObject *number = kpy_item(object, NULL);
  if (!number) return false;
  bool ok = kpy_read_number(number, out_number);
  Py_DECREF(number);
  return ok;
}

static bool read_tensors(kpy_call *call, const kpy_signature *signature, const kpy_param *param,
                         PyObject *object, kpy_arg *arg) {
  if (kpy_is_tensor(object) || !PySequence_Check(object))
    return wrong_type(signature, param, "a sequence of Tensors", object);
  PyObject *tuple = PySequence_Tuple(object);
  if (!tuple) return false;
  Py_ssize_t n = PyTuple_Size(tuple);
  kael_tensor **tensors = PyMem_Malloc((size_t)(n ? n : 1) * sizeof *tensors);
  call->keep[call->n_keep] = tuple;
  call->blocks[call->n_keep++] = tensors;
  if (!tensors) {
    PyErr_NoMemory();
    return false;
  }
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *item = PyTuple_GetItem(tuple, i);
    if (!kpy_is_tensor(item)) return wrong_type(signature, param, "a sequence of Tensors", item);
    tensors[i] = kpy_impl(item);
  }
  arg->tensors = tensors;
  arg->n = (int)n;
  return true;
}

static bool read_reduction(PyObject *object, kpy_arg *arg) {
  static const char *const names[] = {"none", "mean", "sum"}; /* in kael_reduction's order */
  if (PyUnicode_Check(object))
    for (int i = 0; i < 3; i++)
      if (PyUnicode_CompareWithASCIIString(object, names[i]) == 0) {
        arg->integer = i;
        return true;
      }
  PyErr_Format(PyExc_ValueError, "%R is not a valid value for reduction", object);
  return false;
}

static bool read_argument(kpy_call *call, const kpy_signature *signature, int i, PyObject *object) {
  const kpy_param *param = &signature->params[i];
  kpy_arg *arg = &call->args[i];
  bool optional = !param->required || param->kind == KPY_TENSOR_OPT;
  if (object == Py_None && optional && param->kind != KPY_OBJECT) return true;
  arg->given = true;
  switch ((kpy_kind)param->kind) {
    case KPY_TENSOR:
    case KPY_TENSOR_OPT:
      if (!kpy_is_tensor(object)) return wrong_type(signature, param, "a Tensor", object);
      arg->tensor = kpy_impl(object);
      return true;
    case KPY_OTHER:
      arg->tensor = kpy_is_tensor(object) ? kpy_impl(object) : NULL;
      if (arg->tensor) return true;
      if (!kpy_is_number(object))
        return wrong_type(signature, param, "a Tensor or a number", object);
      return kpy_read_number(object, &arg->number);
    case KPY_NUMBER:
    case KPY_NUMBER_OPT:
      return read_number_argument(object, &arg->number);
    case KPY_INT:
      return kpy_read_int(object, &arg->integer);
    case KPY_FLOAT:
      arg->real = PyFloat_AsDouble(object);
      return arg->real != -1 || !PyErr_Occurred();
    case KPY_BOOL: {
      int truth = PyObject_IsTrue(object);
      arg->flag = truth > 0;
      return truth >= 0;
    }
    case KPY_DTYPE:
      return kpy_read_dtype(object, &arg->dtype);
    case KPY_INTS:
    case KPY_SIZES:
      arg->ints = call->ints[call->n_ints++];
      return kpy_read_ints(object, param->name, arg->ints, &arg->n);
    case KPY_TENSORS:
      return read_tensors(call, signature, param, object, arg);
    case KPY_REDUCTION:
      return read_reduction(object, arg);
    case KPY_OBJECT:
      arg->object = object;
      return true;
  }
  return false;
}

static void set_default(kpy_arg *arg, const kpy_param *param) {
  arg->given = false;
  arg->n = 0;
  switch ((kpy_kind)param->kind) {
    case KPY_TENSOR_OPT:
      arg->tensor = KAEL_NONE;
      break;
    case KPY_OTHER:
      arg->tensor = NULL;
      arg->number = kael_i(param->value);
      break;
    case KPY_INT:
    case KPY_REDUCTION:
      arg->integer = param->value;
      break;
    case KPY_BOOL:
      arg->flag = param->value != 0;
      break;
    case KPY_FLOAT:
      arg->real = (double)param->value;
      break;
    case KPY_NUMBER:
      arg->number = kael_i(param->value);
      break;
    case KPY_DTYPE:
      arg->dtype = (kael_dtype)param->value;
      break;
    default:
      arg->object = NULL;
      break;
  }
}

/* --- All of them -------------------------------------------------------------------------------
 */

static bool keyword_is(PyObject *keyword, const char *name) {
  if (PyUnicode_CompareWithASCIIString(keyword, name) == 0) return true;
  for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
    if (strcmp(aliases[i].name, name) == 0 &&
        PyUnicode_CompareWithASCIIString(keyword, aliases[i].alias) == 0)
      return true;
  return false;
}

static bool read_keyword(kpy_call *call, const kpy_signature *signature, PyObject *keyword,
                         PyObject *object, uint32_t *seen) {
  for (int i = 0; i < signature->n_params; i++) {
    if (!keyword_is(keyword, signature->params[i].name)) continue;
    if (*seen & (1u << i)) {
      PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument '%U'", signature->name,
                   keyword);
      return false;
    }
    *seen |= 1u << i;
    return read_argument(call, signature, i, object);
  }
  PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument '%U'", signature->name,
               keyword);
  return false;
}

/* Several positional integers where the last positional parameter is a shape: view(2, 3). */
static bool read_spread_sizes(kpy_call *call, const kpy_signature *signature, int i,
                              PyObject *const *args, Py_ssize_t n) {
  kpy_arg *arg = &call->args[i];
  if (n > KAEL_MAX_DIMS) {
    PyErr_Format(PyExc_RuntimeError, "%s(): a tensor has at most %d dims", signature->name,
                 KAEL_MAX_DIMS);
    return false;
  }
  arg->ints = call->ints[call->n_ints++];
  arg->given = true;
  arg->n = (int)n;
  for (Py_ssize_t k = 0; k < n; k++)
    if (!kpy_read_int(args[k], &arg->ints[k])) return false;
  return true;
}

static bool too_many(const kpy_signature *signature, Py_ssize_t n) {
  PyErr_Format(PyExc_TypeError, "%s() takes fewer than %zd positional arguments", signature->name,
               n);
  return false;
}

static bool read_all(kpy_call *call, const kpy_signature *signature, PyObject *self,
                     PyObject *const *args, Py_ssize_t n_args, PyObject *keywords) {
  uint32_t seen = 0;
  int at = 0;
  if (self) {
    seen |= 1u;
    if (!read_argument(call, signature, at++, self)) return false;
  }
  for (Py_ssize_t k = 0; k < n_args; k++, at++) {
    if (at >= signature->n_params || signature->params[at].keyword_only)
      return too_many(signature, n_args + (self != NULL));
    seen |= 1u << at;
    if (signature->params[at].kind == KPY_SIZES && PyIndex_Check(args[k]) &&
        !PySequence_Check(args[k])) {
      if (!read_spread_sizes(call, signature, at, args + k, n_args - k)) return false;
      break;
    }
    if (!read_argument(call, signature, at, args[k])) return false;
    if (at == 0) call->self = args[k];
  }
  Py_ssize_t n_keywords = keywords ? PyTuple_Size(keywords) : 0;
  for (Py_ssize_t k = 0; k < n_keywords; k++) {
    PyObject *keyword = PyTuple_GetItem(keywords, k), *object = args[n_args + k];
    if (!read_keyword(call, signature, keyword, object, &seen)) return false;
    if (!call->self && (seen & 1u)) call->self = object;
  }
  for (int i = 0; i < signature->n_params; i++)
    if (signature->params[i].required && !(seen & (1u << i))) {
      PyErr_Format(PyExc_TypeError, "%s() missing required argument '%s'", signature->name,
                   signature->params[i].name);
      return false;
    }
  return true;
}

bool kpy_parse(kpy_call *call, const kpy_signature *signature, PyObject *self,
               PyObject *const *args, Py_ssize_t n_args, PyObject *keywords) {
  call->self = self;
  call->n_ints = call->n_keep = 0;
  for (int i = 0; i < signature->n_params; i++) set_default(&call->args[i], &signature->params[i]);
  if (read_all(call, signature, self, args, n_args, keywords)) return true;
  kpy_finish(call, NULL);
  return false;
}

PyObject *kpy_finish(kpy_call *call, PyObject *result) {
  for (int i = 0; i < call->n_keep; i++) {
    PyMem_Free(call->blocks[i]);
    Py_DECREF(call->keep[i]);
  }
  return result;
}
