/* The library's errors as Python exceptions, and exceptions of callbacks as the library's errors.
 */
#include "frontend/python/kpy.h"

/* An exception that a hook raised, on its way through the library. */
static _Thread_local PyObject *kept_type, *kept_value, *kept_trace;

static PyObject *exception_of(kael_status code) {
  switch (code) {
    case KAEL_ERR_INDEX:
      return PyExc_IndexError;
    case KAEL_ERR_TYPE:
      return PyExc_TypeError;
    case KAEL_ERR_VALUE:
      return PyExc_ValueError;
    case KAEL_ERR_NOT_IMPLEMENTED:
      return PyExc_NotImplementedError;
    case KAEL_ERR_IO:
      return PyExc_OSError;
    default:
      return PyExc_RuntimeError;
  }
}

static void raise_code(kael_status code, const char *message) {
  /* Too large a tensor is a RuntimeError for PyTorch's users; MemoryError is one for Python's. The
   * class made at import is both. */
  PyObject *type = code == KAEL_ERR_OUT_OF_MEMORY ? kpy_memory_error : exception_of(code);
  PyErr_SetString(type, message);
}

PyObject *kpy_raise(void) {
  kael_error error = kael_last_error();
  if (kept_type) {
    PyObject *type = kept_type, *value = kept_value, *trace = kept_trace;
    kept_type = kept_value = kept_trace = NULL;
    PyErr_Restore(type, value, trace);
  } else {
    raise_code(error.code, error.code ? error.message : "a call of the library failed");
  }
  kael_clear_error();
  return NULL;
}

bool kpy_ok(kael_status status) {
  if (status == KAEL_OK) return true;
  kpy_raise();
  return false;
}

kael_status kpy_keep_exception(void) {
  Py_CLEAR(kept_type);
  Py_CLEAR(kept_value);
  Py_CLEAR(kept_trace);
  PyErr_Fetch(&kept_type, &kept_value, &kept_trace);
  return KAEL_ERR_RUNTIME;
}
