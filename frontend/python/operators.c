/* Python's operators on tensors.
 *
 * A number on the left of an operator that does not commute becomes a 0-d tensor, with a dtype that
 * takes the number's part in the promotion. What the library has no function for raises
 * NotImplementedError. The tables kpy_op_* are generated from the public headers.
 */
#include "frontend/python/kael/ops_table.h"
#include "frontend/python/kpy.h"

/* --- Calls -------------------------------------------------------------------------------------
 */

static PyObject *missing(const kpy_binary *op) {
  PyErr_Format(PyExc_NotImplementedError, "%s is not part of this version of kael", op->name);
  return NULL;
}

PyObject *kpy_binary_call(const kpy_binary *op, PyObject *self, PyObject *other) {
  kael_tensor *out;
  if (kpy_is_tensor(other)) {
    if (!op->plain) return missing(op);
    KPY_RUN(out = op->plain(kpy_impl(self), kpy_impl(other)));
    return kpy_wrap(out);
  }
  kael_scalar number;
  if (!kpy_read_number(other, &number)) return NULL;
  if (op->scalar) {
    KPY_RUN(out = op->scalar(kpy_impl(self), number));
    return kpy_wrap(out);
  }
  if (!op->plain) return missing(op);
  kael_tensor *right = kpy_number_tensor(number, kael_dtype_of(kpy_impl(self)));
  KPY_RUN(out = op->plain(kpy_impl(self), right));
  kael_release(right);
  return kpy_wrap(out);
}

PyObject *kpy_binary_call_(const kpy_binary *op, PyObject *self, PyObject *other) {
  kael_status status;
  kael_scalar number;
  if (kpy_is_tensor(other)) {
    if (!op->inplace) return missing(op);
    KPY_RUN(status = op->inplace(kpy_impl(self), kpy_impl(other)));
  } else {
    if (!kpy_read_number(other, &number)) return NULL;
    if (!op->inplace_scalar) return missing(op);
    KPY_RUN(status = op->inplace_scalar(kpy_impl(self), number));
  }
  return kpy_returned_self(self, status);
}

static PyObject *scaled(PyObject *self, PyObject *other, kael_scalar alpha) {
  if (!kpy_is_tensor(other)) {
    PyObject *factor = alpha.kind == KAEL_SCALAR_FLOAT ? PyFloat_FromDouble(alpha.as.f)
                                                       : PyLong_FromLongLong(alpha.as.i);
    PyObject *product = factor ? PyNumber_Multiply(other, factor) : NULL;
    Py_XDECREF(factor);
    return product;
  }
  kael_tensor *out;
  kael_dtype dtype = kael_dtype_of(kpy_impl(other));
  if (alpha.kind == KAEL_SCALAR_FLOAT && !kpy_is_floating(dtype) &&
      !kpy_is_floating(kael_dtype_of(kpy_impl(self)))) {
    PyErr_SetString(PyExc_RuntimeError,
                    "For integral input tensors, argument alpha must not be a floating point "
                    "number.");
    return NULL;
  }
  /* The factor has no part in the promotion of two bools. */
  KPY_RUN({
    kael_tensor *product = kael_mul_scalar(kpy_impl(other), alpha);
    out = dtype == KAEL_BOOL && alpha.kind != KAEL_SCALAR_FLOAT ? kael_to_dtype(product, dtype)
                                                                : kael_retain(product);
    kael_release(product);
  });
  return kpy_wrap(out);
}

PyObject *kpy_scaled_call(const kpy_binary *op, PyObject *self, PyObject *other,
                          kael_scalar alpha) {
  PyObject *product = scaled(self, other, alpha);
  PyObject *result = product ? kpy_binary_call(op, self, product) : NULL;
  Py_XDECREF(product);
  return result;
}

PyObject *kpy_scaled_call_(const kpy_binary *op, PyObject *self, PyObject *other,
                           kael_scalar alpha) {
  PyObject *product = scaled(self, other, alpha);
  PyObject *result = product ? kpy_binary_call_(op, self, product) : NULL;
  Py_XDECREF(product);
  return result;
}

/* The quotient cut towards zero. Of integers it is exact: (a - fmod(a, b)) // b. */
static PyObject *truncated(PyObject *self, PyObject *other) {
  kael_dtype second = kpy_is_tensor(other) ? kael_dtype_of(kpy_impl(other)) : KAEL_BOOL;
  bool real = kpy_is_floating(kael_dtype_of(kpy_impl(self))) || kpy_is_floating(second) ||
              PyFloat_Check(other);
  PyObject *quotient = NULL, *first = real ? kpy_binary_call(&kpy_op_div, self, other)
                                           : kpy_binary_call(&kpy_op_fmod, self, other);
  if (first && real) {
    kael_tensor *out;
    KPY_RUN(out = kael_trunc(kpy_impl(first)));
    quotient = kpy_wrap(out);
  } else if (first) {
    PyObject *multiple = kpy_binary_call(&kpy_op_sub, self, first);
    if (multiple) quotient = kpy_binary_call(&kpy_op_floor_divide, multiple, other);
    Py_XDECREF(multiple);
  }
  Py_XDECREF(first);
  return quotient;
}

/* 0: none, 1: floor, 2: trunc, -1: an exception is set. */
static int rounding(PyObject *mode) {
  if (!mode || mode == Py_None) return 0;
  if (PyUnicode_Check(mode) && PyUnicode_CompareWithASCIIString(mode, "floor") == 0) return 1;
  if (PyUnicode_Check(mode) && PyUnicode_CompareWithASCIIString(mode, "trunc") == 0) return 2;
  PyErr_Format(PyExc_RuntimeError,
               "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found %R",
               mode);
  return -1;
}

PyObject *kpy_divide_call(PyObject *self, PyObject *other, PyObject *mode) {
  switch (rounding(mode)) {
    case 0:
      return kpy_binary_call(&kpy_op_div, self, other);
    case 1:
      return kpy_binary_call(&kpy_op_floor_divide, self, other);
    case 2:
      return truncated(self, other);
    default:
      return NULL;
  }
}

PyObject *kpy_divide_call_(PyObject *self, PyObject *other, PyObject *mode) {
  kael_status status;
  switch (rounding(mode)) {
    case 0:
      return kpy_binary_call_(&kpy_op_div, self, other);
    case 1:
      return kpy_binary_call_(&kpy_op_floor_divide, self, other);
    case 2:
      break;
    default:
      return NULL;
  }
  PyObject *quotient = truncated(self, other);
  if (!quotient) return NULL;
  KPY_RUN(status = kael_copy_(kpy_impl(self), kpy_impl(quotient)));
  Py_DECREF(quotient);
  return kpy_returned_self(self, status);
}

PyObject *kpy_results(int n, PyObject *const *results) {
  PyObject *tuple = PyTuple_New(n);
  bool ok = tuple != NULL;
  for (int i = 0; i < n; i++) {
    if (!results[i])
      ok = false;
    else if (tuple)
      PyTuple_SetItem(tuple, i, results[i]);
    else
      Py_DECREF(results[i]);
  }
  if (!ok) Py_CLEAR(tuple);
  return tuple;
}

/* number OP tensor. */
static PyObject *call_reflected(const kpy_binary *op, PyObject *number_object, PyObject *tensor) {
  kael_scalar number;
  kael_tensor *out;
  if (!op->plain) return missing(op);
  if (!kpy_read_number(number_object, &number)) return NULL;
  kael_tensor *left = kpy_number_tensor(number, kael_dtype_of(kpy_impl(tensor)));
  KPY_RUN(out = op->plain(left, kpy_impl(tensor)));
  kael_release(left);
  return kpy_wrap(out);
}

static bool is_operand(PyObject *object) { return kpy_is_tensor(object) || kpy_is_number(object); }

/* One of the two is a tensor: Python calls the slot of either's type. */
static PyObject *binary(const kpy_binary *op, bool commutes, PyObject *left, PyObject *right) {
  if (!is_operand(left) || !is_operand(right)) Py_RETURN_NOTIMPLEMENTED;
  if (kpy_is_tensor(left)) return kpy_binary_call(op, left, right);
  return commutes ? kpy_binary_call(op, right, left) : call_reflected(op, left, right);
}

static PyObject *binary_(const kpy_binary *op, PyObject *self, PyObject *other) {
  if (!is_operand(other)) Py_RETURN_NOTIMPLEMENTED;
  return kpy_binary_call_(op, self, other);
}

/* --- Arithmetic --------------------------------------------------------------------------------
 */

#define BINARY(slot, op, commutes)                                                                 \
  static PyObject *slot(PyObject *left, PyObject *right) {                                         \
    return binary(&kpy_op_##op, commutes, left, right);                                            \
  }
#define INPLACE(slot, op)                                                                          \
  static PyObject *slot(PyObject *self, PyObject *other) {                                         \
    return binary_(&kpy_op_##op, self, other);                                                     \
  }

BINARY(nb_add, add, true)
BINARY(nb_subtract, sub, false)
BINARY(nb_multiply, mul, true)
BINARY(nb_floor_divide, floor_divide, false)
BINARY(nb_remainder, remainder, false)
BINARY(nb_lshift, bitwise_left_shift, false)
BINARY(nb_rshift, bitwise_right_shift, false)
INPLACE(nb_inplace_add, add)
INPLACE(nb_inplace_subtract, sub)
INPLACE(nb_inplace_multiply, mul)
INPLACE(nb_inplace_true_divide, div)
INPLACE(nb_inplace_floor_divide, floor_divide)
INPLACE(nb_inplace_remainder, remainder)
INPLACE(nb_inplace_lshift, bitwise_left_shift)
INPLACE(nb_inplace_rshift, bitwise_right_shift)

/* number / tensor is reciprocal(tensor) * number, as PyTorch computes it. */
static PyObject *nb_true_divide(PyObject *left, PyObject *right) {
  if (!is_operand(left) || !is_operand(right)) Py_RETURN_NOTIMPLEMENTED;
  if (kpy_is_tensor(left)) return kpy_binary_call(&kpy_op_div, left, right);
  kael_scalar number;
  kael_tensor *out;
  if (!kpy_read_number(left, &number)) return NULL;
  KPY_RUN({
    kael_tensor *inverse = kael_reciprocal(kpy_impl(right));
    out = kael_mul_scalar(inverse, number);
    kael_release(inverse);
  });
  return kpy_wrap(out);
}

static PyObject *nb_matrix_multiply(PyObject *left, PyObject *right) {
  kael_tensor *out;
  if (!kpy_is_tensor(left) || !kpy_is_tensor(right)) Py_RETURN_NOTIMPLEMENTED;
  KPY_RUN(out = kael_matmul(kpy_impl(left), kpy_impl(right)));
  return kpy_wrap(out);
}

static PyObject *nb_power(PyObject *left, PyObject *right, PyObject *modulus) {
  if (modulus != Py_None || !is_operand(left) || !is_operand(right)) Py_RETURN_NOTIMPLEMENTED;
  if (kpy_is_tensor(left)) return kpy_binary_call(&kpy_op_pow, left, right);
  return call_reflected(&kpy_op_pow, left, right);
}

static PyObject *nb_inplace_power(PyObject *self, PyObject *other, PyObject *modulus) {
  if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
  return binary_(&kpy_op_pow, self, other);
}

/* --- Bits: of bool tensors they are the logical operators --------------------------------------
 */

static bool is_bool(PyObject *object) {
  return kpy_is_tensor(object) ? kael_dtype_of(kpy_impl(object)) == KAEL_BOOL
                               : PyBool_Check(object);
}

#define BITS(name)                                                                                 \
  static PyObject *nb_##name(PyObject *left, PyObject *right) {                                    \
    bool logical = !kpy_op_bitwise_##name.plain && is_bool(left) && is_bool(right);                \
    return binary(logical ? &kpy_op_logical_##name : &kpy_op_bitwise_##name, true, left, right);   \
  }                                                                                                \
  static PyObject *nb_inplace_##name(PyObject *self, PyObject *other) {                            \
    bool logical = !kpy_op_bitwise_##name.inplace && is_bool(self) && is_bool(other);              \
    return binary_(logical ? &kpy_op_logical_##name : &kpy_op_bitwise_##name, self, other);        \
  }
BITS(and)
BITS(or)
BITS(xor)

static PyObject *nb_invert(PyObject *self) {
  kael_tensor *out;
  if (kpy_op_bitwise_not) {
    KPY_RUN(out = kpy_op_bitwise_not(kpy_impl(self)));
    return kpy_wrap(out);
  }
  if (is_bool(self)) {
    KPY_RUN(out = kael_logical_not(kpy_impl(self)));
    return kpy_wrap(out);
  }
  PyErr_SetString(PyExc_NotImplementedError, "bitwise_not is not part of this version of kael");
  return NULL;
}

/* --- One operand -------------------------------------------------------------------------------
 */

static PyObject *nb_negative(PyObject *self) {
  kael_tensor *out;
  KPY_RUN(out = kael_neg(kpy_impl(self)));
  return kpy_wrap(out);
}

static PyObject *nb_absolute(PyObject *self) {
  kael_tensor *out;
  KPY_RUN(out = kael_abs(kpy_impl(self)));
  return kpy_wrap(out);
}

static PyObject *nb_positive(PyObject *self) { return Py_NewRef(self); }

static PyObject *nb_index(PyObject *self) {
  kael_dtype dtype = kael_dtype_of(kpy_impl(self));
  if (!kpy_is_floating(dtype) && kael_numel(kpy_impl(self)) == 1) return kpy_as_int(self);
  PyErr_SetString(PyExc_TypeError,
                  "only integer tensors of a single element can be converted to an index");
  return NULL;
}

/* --- Comparisons -------------------------------------------------------------------------------
 */

static PyObject *rich_compare(PyObject *self, PyObject *other, int what) {
  const kpy_binary *op = NULL;
  switch (what) {
    case Py_LT:
      op = &kpy_op_lt;
      break;
    case Py_LE:
      op = &kpy_op_le;
      break;
    case Py_EQ:
      op = &kpy_op_eq;
      break;
    case Py_NE:
      op = &kpy_op_ne;
      break;
    case Py_GT:
      op = &kpy_op_gt;
      break;
    default:
      op = &kpy_op_ge;
      break;
  }
  if (!is_operand(other)) Py_RETURN_NOTIMPLEMENTED;
  return kpy_binary_call(op, self, other);
}

PyType_Slot kpy_operator_slots[] = {{Py_tp_richcompare, rich_compare},
                                    {Py_nb_add, nb_add},
                                    {Py_nb_subtract, nb_subtract},
                                    {Py_nb_multiply, nb_multiply},
                                    {Py_nb_true_divide, nb_true_divide},
                                    {Py_nb_floor_divide, nb_floor_divide},
                                    {Py_nb_remainder, nb_remainder},
                                    {Py_nb_power, nb_power},
                                    {Py_nb_matrix_multiply, nb_matrix_multiply},
                                    {Py_nb_lshift, nb_lshift},
                                    {Py_nb_rshift, nb_rshift},
                                    {Py_nb_and, nb_and},
                                    {Py_nb_or, nb_or},
                                    {Py_nb_xor, nb_xor},
                                    {Py_nb_invert, nb_invert},
                                    {Py_nb_negative, nb_negative},
                                    {Py_nb_positive, nb_positive},
                                    {Py_nb_absolute, nb_absolute},
                                    {Py_nb_bool, kpy_as_bool},
                                    {Py_nb_float, kpy_as_float},
                                    {Py_nb_int, kpy_as_int},
                                    {Py_nb_index, nb_index},
                                    {Py_nb_inplace_add, nb_inplace_add},
                                    {Py_nb_inplace_subtract, nb_inplace_subtract},
                                    {Py_nb_inplace_multiply, nb_inplace_multiply},
                                    {Py_nb_inplace_true_divide, nb_inplace_true_divide},
                                    {Py_nb_inplace_floor_divide, nb_inplace_floor_divide},
                                    {Py_nb_inplace_remainder, nb_inplace_remainder},
                                    {Py_nb_inplace_power, nb_inplace_power},
                                    {Py_nb_inplace_lshift, nb_inplace_lshift},
                                    {Py_nb_inplace_rshift, nb_inplace_rshift},
                                    {Py_nb_inplace_and, nb_inplace_and},
                                    {Py_nb_inplace_or, nb_inplace_or},
                                    {Py_nb_inplace_xor, nb_inplace_xor},
                                    {0, NULL}};
