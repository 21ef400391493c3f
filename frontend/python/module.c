/* The module kael._C: the type, the dtypes, and all functions. */
#include "frontend/python/kpy.h"

PyObject *kpy_memory_error;

static int add_functions(PyObject *module, PyMethodDef *functions) {
  return PyModule_AddFunctions(module, functions);
}

/* A tensor that does not fit in memory: a MemoryError, and for PyTorch's users a RuntimeError. */
static int add_memory_error(PyObject *module) {
  PyObject *bases = PyTuple_Pack(2, PyExc_MemoryError, PyExc_RuntimeError);
  if (!bases) return -1;
  kpy_memory_error = PyErr_NewExceptionWithDoc(
      "kael.OutOfMemoryError", "The memory for a tensor cannot be had.", bases, NULL);
  Py_DECREF(bases);
  if (!kpy_memory_error) return -1;
  return PyModule_AddObjectRef(module, "OutOfMemoryError", kpy_memory_error);
}

static int fill(PyObject *module) {
  PyMethodDef *lists[] = {kpy_make_functions,    kpy_grad_functions,   kpy_mode_functions,
                          kpy_view_functions,    kpy_buffer_functions, kpy_dlpack_functions,
                          kpy_extreme_functions, kpy_op_functions};
  if (kpy_add_dtypes(module) < 0 || kpy_add_tensor_type(module) < 0 ||
      kpy_add_hook_type(module) < 0 || add_memory_error(module) < 0)
    return -1;
  /* Later lists do not replace what earlier ones define. */
  for (size_t i = sizeof lists / sizeof *lists; i > 0; i--)
    if (add_functions(module, lists[i - 1]) < 0) return -1;
  return 0;
}

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "kael._C",
                                        .m_doc = "The compiled part of kael.", .m_size = -1};

PyMODINIT_FUNC PyInit__C(void) {
  PyObject *module = PyModule_Create(&definition);
  if (module && fill(module) < 0) Py_CLEAR(module);
  return module;
}
