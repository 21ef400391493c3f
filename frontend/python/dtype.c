/* Dtype objects (kael.float32, ...), and numbers of Python with their kind. */
#include "frontend/python/kpy.h"

typedef struct dtype_object {
  PyObject_HEAD int dtype;
} dtype_object;

static PyTypeObject *dtype_type;
static PyObject *dtype_objects[KPY_N_DTYPES];

/* --- Dtypes ------------------------------------------------------------------------------------
 */

static kael_dtype dtype_of(PyObject *self) { return (kael_dtype)((dtype_object *)self)->dtype; }

static PyObject *dtype_repr(PyObject *self) {
  return PyUnicode_FromFormat("kael.%s", kael_dtype_name(dtype_of(self)));
}

static PyObject *dtype_itemsize(PyObject *self, void *closure) {
  (void)closure;
  return PyLong_FromSize_t(kael_dtype_size(dtype_of(self)));
}

static PyObject *dtype_is_floating_point(PyObject *self, void *closure) {
  (void)closure;
  return PyBool_FromLong(kpy_is_floating(dtype_of(self)));
}

static PyObject *dtype_is_signed(PyObject *self, void *closure) {
  (void)closure;
  return PyBool_FromLong(dtype_of(self) != KAEL_BOOL && dtype_of(self) != KAEL_U8);
}

static PyObject *dtype_is_complex(PyObject *self, void *closure) {
  (void)self, (void)closure;
  Py_RETURN_FALSE;
}

/* Pickled as the name that the module has for it. */
static PyObject *dtype_reduce(PyObject *self, PyObject *unused) {
  (void)unused;
  return PyUnicode_FromString(kael_dtype_name(dtype_of(self)));
}

static PyGetSetDef dtype_getset[] = {
    {"itemsize", dtype_itemsize, NULL, "Bytes an element.", NULL},
    {"is_floating_point", dtype_is_floating_point, NULL, "Whether it is a floating dtype.", NULL},
    {"is_signed", dtype_is_signed, NULL, "Whether it has negative numbers.", NULL},
    {"is_complex", dtype_is_complex, NULL, "False: there are no complex dtypes.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyMethodDef dtype_methods[] = {{"__reduce__", dtype_reduce, METH_NOARGS, NULL},
                                      {NULL, NULL, 0, NULL}};

static PyType_Slot dtype_slots[] = {{Py_tp_repr, dtype_repr},
                                    {Py_tp_getset, dtype_getset},
                                    {Py_tp_methods, dtype_methods},
                                    {Py_tp_doc, "The element type of a tensor."},
                                    {0, NULL}};

static PyType_Spec dtype_spec = {
    .name = "kael.dtype",
    .basicsize = sizeof(dtype_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = dtype_slots};

PyObject *kpy_dtype(kael_dtype dtype) { return Py_NewRef(dtype_objects[dtype]); }

bool kpy_is_dtype(PyObject *object) { return Py_TYPE(object) == dtype_type; }

bool kpy_read_dtype(PyObject *object, kael_dtype *out_dtype) {
  if (kpy_is_dtype(object))
    *out_dtype = dtype_of(object);
  else if (object == (PyObject *)&PyFloat_Type)
    *out_dtype = KAEL_F64;
  else if (object == (PyObject *)&PyLong_Type)
    *out_dtype = KAEL_I64;
  else if (object == (PyObject *)&PyBool_Type)
    *out_dtype = KAEL_BOOL;
  else {
    PyErr_Format(PyExc_TypeError, "expected a kael.dtype, not %R", object);
    return false;
  }
  return true;
}

/* Other names of some dtypes, as PyTorch has them. */
static const struct {
  const char *name;
  kael_dtype dtype;
} aliases[] = {{"float", KAEL_F32}, {"double", KAEL_F64}, {"half", KAEL_F16},
               {"int", KAEL_I32},   {"long", KAEL_I64},   {"short", KAEL_I16}};

int kpy_add_dtypes(PyObject *module) {
  dtype_type = (PyTypeObject *)PyType_FromSpec(&dtype_spec);
  if (!dtype_type || PyModule_AddObjectRef(module, "dtype", (PyObject *)dtype_type) < 0) return -1;
  for (int i = 0; i < KPY_N_DTYPES; i++) {
    dtype_object *object = PyObject_New(dtype_object, dtype_type);
    if (!object) return -1;
    object->dtype = i;
    dtype_objects[i] = (PyObject *)object;
    if (PyModule_AddObjectRef(module, kael_dtype_name((kael_dtype)i), dtype_objects[i]) < 0)
      return -1;
  }
  for (size_t i = 0; i < sizeof aliases / sizeof *aliases; i++)
    if (PyModule_AddObjectRef(module, aliases[i].name, dtype_objects[aliases[i].dtype]) < 0)
      return -1;
  return 0;
}

kael_dtype kpy_default_dtype(void) { return KAEL_F32; }

/* --- Numbers -----------------------------------------------------------------------------------
 */

/* NumPy's numbers are no Python numbers, but for float64; they have __float__ and __index__. Arrays
 * have them too, and a length. */
static bool is_foreign_number(PyObject *object) {
  return !PySequence_Check(object) && (PyIndex_Check(object) || PyNumber_Check(object)) &&
         !PyComplex_Check(object) && !kpy_is_tensor(object);
}

bool kpy_is_number(PyObject *object) {
  return PyFloat_Check(object) || PyLong_Check(object) || is_foreign_number(object);
}

/* NumPy's bool has neither __index__ nor the type of Python's. */
static bool is_foreign_bool(PyObject *object) {
  PyObject *name = PyType_GetName(Py_TYPE(object));
  bool is_bool = name && (PyUnicode_CompareWithASCIIString(name, "bool_") == 0 ||
                          PyUnicode_CompareWithASCIIString(name, "bool") == 0);
  if (!name) PyErr_Clear();
  Py_XDECREF(name);
  return is_bool;
}

bool kpy_read_number(PyObject *object, kael_scalar *out_number) {
  if (PyFloat_Check(object)) {
    *out_number = kael_f(PyFloat_AsDouble(object));
    return true;
  }
  if (PyBool_Check(object)) {
    *out_number = kael_b(object == Py_True);
    return true;
  }
  if (PyLong_Check(object) || PyIndex_Check(object)) {
    int64_t value;
    if (!kpy_read_int(object, &value)) return false;
    *out_number = kael_i(value);
    return true;
  }
  if (!is_foreign_number(object)) {
    PyErr_Format(PyExc_TypeError, "expected a number, not %R", Py_TYPE(object));
    return false;
  }
  double value = PyFloat_AsDouble(object);
  if (value == -1 && PyErr_Occurred()) return false;
  *out_number = is_foreign_bool(object) ? kael_b(value != 0) : kael_f(value);
  return true;
}

kael_dtype kpy_promote_number(kael_dtype tensor, kael_scalar number) {
  if (kpy_is_floating(tensor) || number.kind == KAEL_SCALAR_BOOL) return tensor;
  if (number.kind == KAEL_SCALAR_FLOAT) return kpy_default_dtype();
  return tensor == KAEL_BOOL ? KAEL_I64 : tensor;
}

kael_tensor *kpy_number_tensor(kael_scalar number, kael_dtype beside) {
  return kael_scalar_tensor(number, kpy_promote_number(beside, number));
}
