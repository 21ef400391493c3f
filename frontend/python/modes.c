/* When recorded operations run, and what the library says of itself. */
#include "frontend/python/kpy.h"

/* "default" sets the process's mode and gives up the thread's; "thread" sets the thread's. */
static PyObject *set_jit(PyObject *module, PyObject *args) {
  int mode, whole_process;
  (void)module;
  if (!PyArg_ParseTuple(args, "ip:_set_jit", &mode, &whole_process)) return NULL;
  kael_jit_mode before = kael_jit_override();
  kael_status status =
      whole_process ? kael_set_jit_default((kael_jit_mode)mode) : kael_set_jit((kael_jit_mode)mode);
  if (!status && whole_process) status = kael_set_jit(KAEL_JIT_DEFAULT);
  return kpy_ok(status) ? PyLong_FromLong(before) : NULL;
}

static PyObject *get_jit(PyObject *module, PyObject *unused) {
  (void)module, (void)unused;
  return PyLong_FromLong(kael_jit());
}

static PyObject *eval_tensors(PyObject *module, PyObject *tuple) {
  (void)module;
  Py_ssize_t n = PyTuple_Size(tuple);
  kael_tensor **tensors = n < 0 ? NULL : PyMem_Malloc((size_t)(n + 1) * sizeof *tensors);
  kael_status status = KAEL_OK;
  if (!tensors) return n < 0 ? NULL : PyErr_NoMemory();
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject *item = PyTuple_GetItem(tuple, i);
    if (!kpy_is_tensor(item)) {
      PyMem_Free(tensors);
      return PyErr_Format(PyExc_TypeError, "eval(): expected Tensors, got %R", Py_TYPE(item));
    }
    tensors[i] = kpy_impl(item);
  }
  KPY_RUN(status = kael_eval(tensors, (int)n));
  PyMem_Free(tensors);
  if (!kpy_ok(status)) return NULL;
  Py_RETURN_NONE;
}

static PyObject *explain(PyObject *module, PyObject *tensor) {
  (void)module;
  if (!kpy_is_tensor(tensor))
    return PyErr_Format(PyExc_TypeError, "explain(): expected a Tensor, not %R", Py_TYPE(tensor));
  char *text = kael_explain(kpy_impl(tensor));
  if (!text) return kpy_raise();
  PyObject *string = PyUnicode_FromString(text);
  kael_string_free(text);
  return string;
}

static PyObject *stats(PyObject *module, PyObject *unused) {
  kael_stats now = {.size = sizeof now};
  (void)module, (void)unused;
  if (!kpy_ok(kael_stats_get(&now))) return NULL;
#define LONG(name) #name, (long long)now.name
  return Py_BuildValue("{sLsLsLsLsLsLsLsLsLsLsLsL}", LONG(runs), LONG(kernels), LONG(bytes_read),
                       LONG(bytes_written), LONG(programs_built), LONG(cache_hits),
                       LONG(kernels_tier0), LONG(kernels_llvm), LONG(pending_values),
                       LONG(memory_in_use), LONG(memory_peak), LONG(memory_cached));
#undef LONG
}

PyMethodDef kpy_mode_functions[] = {
    {"_set_jit", set_jit, METH_VARARGS, NULL},
    {"_jit", get_jit, METH_NOARGS, NULL},
    {"_eval", eval_tensors, METH_O, NULL},
    {"explain", explain, METH_O,
     "explain(tensor) -> str\n\n"
     "The tensor, its storage, and why it is or is not lazy; its pending graph, or the kernels of "
     "the last run. Computes nothing."},
    {"stats", stats, METH_NOARGS,
     "stats() -> dict\n\nWhat the library has done and holds, in numbers, for the whole process."},
    {NULL, NULL, 0, NULL}};
