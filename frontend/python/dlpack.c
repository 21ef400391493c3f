/* DLPack, both ways: https://dmlc.github.io/dlpack (structures by its specification, version 1.1).
 *
 * A capsule handed out holds a reference to the tensor; whoever takes it renames it and calls its
 * deleter later, from any thread. A capsule that nobody took frees itself.
 */
#include "frontend/python/kpy.h"

#include <stdlib.h>

enum { CPU = 1, CODE_INT = 0, CODE_UINT = 1, CODE_FLOAT = 2, CODE_BFLOAT = 4, CODE_BOOL = 6 };
enum { FLAG_READ_ONLY = 1, FLAG_COPIED = 2 };

typedef struct dl_tensor {
  void *data;
  struct {
    int32_t type, id;
  } device;
  int32_t ndim;
  struct {
    uint8_t code, bits;
    uint16_t lanes;
  } dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} dl_tensor;

typedef struct dl_managed {
  dl_tensor tensor;
  void *context;
  void (*deleter)(struct dl_managed *);
} dl_managed;

typedef struct dl_versioned {
  struct {
    uint32_t major, minor;
  } version;
  void *context;
  void (*deleter)(struct dl_versioned *);
  uint64_t flags;
  dl_tensor tensor;
} dl_versioned;

static const struct {
  uint8_t code, bits;
} types[KPY_N_DTYPES] = {
    [KAEL_BOOL] = {CODE_BOOL, 8},  [KAEL_U8] = {CODE_UINT, 8},      [KAEL_I8] = {CODE_INT, 8},
    [KAEL_I16] = {CODE_INT, 16},   [KAEL_I32] = {CODE_INT, 32},     [KAEL_I64] = {CODE_INT, 64},
    [KAEL_F16] = {CODE_FLOAT, 16}, [KAEL_BF16] = {CODE_BFLOAT, 16}, [KAEL_F32] = {CODE_FLOAT, 32},
    [KAEL_F64] = {CODE_FLOAT, 64}};

/* --- Out ---------------------------------------------------------------------------------------
 */

/* What a capsule owns: either form of the structure, and the sizes that it points to. */
typedef struct export {
  dl_managed managed;
  dl_versioned versioned;
  kael_tensor *tensor;
  int64_t shape[KAEL_MAX_DIMS], strides[KAEL_MAX_DIMS];
}
export;

static void end_export(export *mine) {
  kael_release(mine->tensor);
  free(mine);
}
static void delete_managed(dl_managed *managed) { end_export(managed->context); }
static void delete_versioned(dl_versioned *versioned) { end_export(versioned->context); }

static void drop_managed(PyObject *capsule) {
  if (!PyCapsule_IsValid(capsule, "dltensor")) return;
  dl_managed *managed = PyCapsule_GetPointer(capsule, "dltensor");
  managed->deleter(managed);
}

static void drop_versioned(PyObject *capsule) {
  if (!PyCapsule_IsValid(capsule, "dltensor_versioned")) return;
  dl_versioned *versioned = PyCapsule_GetPointer(capsule, "dltensor_versioned");
  versioned->deleter(versioned);
}

/* The memory, to be written where it may be. NULL: the exception is set. */
static void *memory_of(kael_tensor *tensor, bool *out_read_only) {
  void *data;
  *out_read_only = false;
  KPY_RUN(data = kael_mutable_data_ptr(tensor));
  if (data || !kael_last_error().code) return data;
  kael_clear_error();
  KPY_RUN(data = (void *)(uintptr_t)kael_data_ptr(tensor));
  *out_read_only = true;
  if (!data) kpy_raise();
  return data;
}

static PyObject *make_capsule(kael_tensor *tensor, bool is_versioned, uint64_t flags) {
  bool read_only;
  kael_clear_error();
  void *data = memory_of(tensor, &read_only);
  if (PyErr_Occurred()) return NULL;
  if (read_only && !is_versioned) {
    PyErr_SetString(PyExc_BufferError,
                    "the tensor is read-only, which only a versioned capsule can say: ask for "
                    "max_version=(1, 0)");
    return NULL;
  }
  export *mine = calloc(1, sizeof *mine);
  if (!mine) return PyErr_NoMemory();
  kael_dtype dtype = kael_dtype_of(tensor);
  mine->tensor = kael_retain(tensor);
  dl_tensor *out = is_versioned ? &mine->versioned.tensor : &mine->managed.tensor;
  out->data = data;
  out->device.type = CPU;
  out->ndim = kael_ndim(tensor);
  out->dtype.code = types[dtype].code;
  out->dtype.bits = types[dtype].bits;
  out->dtype.lanes = 1;
  for (int d = 0; d < out->ndim; d++) {
    mine->shape[d] = kael_shape(tensor)[d];
    mine->strides[d] = mine->shape[d] == 1 ? 1 : kael_strides(tensor)[d];
  }
  out->shape = mine->shape;
  out->strides = mine->strides;
  PyObject *capsule;
  if (is_versioned) {
    mine->versioned.version.major = 1;
    mine->versioned.version.minor = 1;
    mine->versioned.context = mine;
    mine->versioned.deleter = delete_versioned;
    mine->versioned.flags = flags | (read_only ? FLAG_READ_ONLY : 0);
    capsule = PyCapsule_New(&mine->versioned, "dltensor_versioned", drop_versioned);
  } else {
    mine->managed.context = mine;
    mine->managed.deleter = delete_managed;
    capsule = PyCapsule_New(&mine->managed, "dltensor", drop_managed);
  }
  if (!capsule) end_export(mine);
  return capsule;
}

/* max_version=(1, x) asks for the versioned form. */
static bool wants_versioned(PyObject *max_version, bool *out_versioned) {
  *out_versioned = false;
  if (!max_version || max_version == Py_None) return true;
  PyObject *major = PySequence_GetItem(max_version, 0);
  if (!major) return false;
  *out_versioned = PyLong_AsLong(major) >= 1;
  Py_DECREF(major);
  return !PyErr_Occurred();
}

static PyObject *tensor_dlpack(PyObject *self, PyObject *const *args, Py_ssize_t n,
                               PyObject *keywords) {
  static const kpy_param params[] = {{"self", KPY_TENSOR, 1, 0, 0},
                                     {"stream", KPY_OBJECT, 0, 1, 0},
                                     {"max_version", KPY_OBJECT, 0, 1, 0},
                                     {"dl_device", KPY_OBJECT, 0, 1, 0},
                                     {"copy", KPY_OBJECT, 0, 1, 0}};
  static const kpy_signature signature = {"__dlpack__", 5, params};
  kpy_call call;
  bool is_versioned;
  if (!kpy_parse(&call, &signature, self, args, n, keywords)) return NULL;
  kpy_arg *a = call.args;
  kael_tensor *tensor = a[0].tensor;
  if (a[1].object && a[1].object != Py_None) {
    PyErr_SetString(PyExc_BufferError, "a stream means nothing on the CPU: stream must be None");
    return NULL;
  }
  if (a[3].object && a[3].object != Py_None) {
    PyObject *cpu = Py_BuildValue("(ii)", CPU, 0);
    int same = cpu ? PyObject_RichCompareBool(a[3].object, cpu, Py_EQ) : -1;
    Py_XDECREF(cpu);
    if (same == 0) PyErr_SetString(PyExc_BufferError, "the tensor is on the CPU");
    if (same <= 0) return NULL;
  }
  if (kael_requires_grad(tensor)) {
    PyErr_SetString(PyExc_BufferError,
                    "Can't export tensors that require gradient, use tensor.detach()");
    return NULL;
  }
  if (!wants_versioned(a[2].object, &is_versioned)) return NULL;
  if (a[4].object != Py_True) return make_capsule(tensor, is_versioned, 0);
  kael_tensor *copy;
  KPY_RUN(copy = kael_clone(tensor));
  if (!copy) return kpy_raise();
  PyObject *capsule = make_capsule(copy, is_versioned, FLAG_COPIED);
  kael_release(copy);
  return capsule;
}

static PyObject *tensor_dlpack_device(PyObject *self, PyObject *unused) {
  (void)self, (void)unused;
  return Py_BuildValue("(ii)", CPU, 0);
}

/* --- In ----------------------------------------------------------------------------------------
 */

static const char owner_name[] = "kael.dlpack";

/* Capsules whose death ends what was imported; the deleter runs under the interpreter's lock. */
static void end_managed(PyObject *capsule) {
  dl_managed *managed = PyCapsule_GetPointer(capsule, owner_name);
  if (managed->deleter) managed->deleter(managed);
}
static void end_versioned(PyObject *capsule) {
  dl_versioned *versioned = PyCapsule_GetPointer(capsule, owner_name);
  if (versioned->deleter) versioned->deleter(versioned);
}

static bool read_dtype(const dl_tensor *in, kael_dtype *out_dtype) {
  for (int i = 0; i < KPY_N_DTYPES && in->dtype.lanes == 1; i++)
    if (types[i].code == in->dtype.code && types[i].bits == in->dtype.bits) {
      *out_dtype = (kael_dtype)i;
      return true;
    }
  PyErr_Format(PyExc_RuntimeError, "from_dlpack: no dtype for code %d with %d bits, %d lanes",
               in->dtype.code, in->dtype.bits, in->dtype.lanes);
  return false;
}

static bool check_tensor(const dl_tensor *in, kael_dtype *out_dtype) {
  if (in->device.type != CPU) {
    PyErr_Format(PyExc_RuntimeError, "from_dlpack: the data is on device type %d, not on the CPU",
                 (int)in->device.type);
    return false;
  }
  if (in->ndim > KAEL_MAX_DIMS) {
    PyErr_Format(PyExc_RuntimeError, "from_dlpack: a tensor has at most %d dims", KAEL_MAX_DIMS);
    return false;
  }
  return read_dtype(in, out_dtype);
}

/* The layout; the bytes that it reaches from its first element on. Strides are not negative. */
static bool read_layout(const dl_tensor *in, size_t item, int64_t *strides, size_t *out_size) {
  int64_t dense = 1, last = 0;
  bool empty = false;
  for (int d = in->ndim - 1; d >= 0; d--) {
    strides[d] = in->strides ? in->strides[d] : dense;
    dense *= in->shape[d];
    if (in->shape[d] == 0) empty = true;
    if (in->shape[d] <= 1) strides[d] = 1;
    if (strides[d] < 0) {
      PyErr_SetString(PyExc_ValueError, "from_dlpack: negative strides are not supported");
      return false;
    }
    last += (in->shape[d] - 1) * strides[d];
  }
  *out_size = empty ? 0 : (size_t)(last + 1) * item;
  return true;
}

/* Wraps what `owner` keeps alive. */
static PyObject *import_tensor(const dl_tensor *in, kael_dtype dtype, bool read_only,
                               PyObject *owner) {
  int64_t strides[KAEL_MAX_DIMS];
  size_t n_bytes;
  if (!read_layout(in, kael_dtype_size(dtype), strides, &n_bytes)) return NULL;
  void *note = kpy_owner_note(owner);
  if (!note) return NULL;
  unsigned flags = KAEL_STORAGE_SHARED | (read_only ? KAEL_STORAGE_READONLY : 0);
  kael_storage *storage = kael_storage_external((char *)in->data + in->byte_offset, n_bytes,
                                                kpy_owner_deleter(), note, flags);
  if (!storage) {
    kpy_owner_forget(note);
    return kpy_raise();
  }
  kael_tensor *tensor = kael_tensor_from_parts(storage, in->ndim, in->shape, strides, 0, dtype);
  kael_storage_release(storage);
  return kpy_wrap(tensor);
}

/* Takes the structure out of the capsule, whose new name says that it is spent. */
static PyObject *take_capsule(PyObject *capsule, const char *used_name, void *structure,
                              PyCapsule_Destructor end, const dl_tensor *in, bool read_only) {
  kael_dtype dtype;
  if (!check_tensor(in, &dtype)) return NULL;
  PyObject *owner = PyCapsule_New(structure, owner_name, end);
  if (!owner) return NULL;
  if (PyCapsule_SetName(capsule, used_name) < 0) {
    PyCapsule_SetDestructor(owner, NULL);
    Py_DECREF(owner);
    return NULL;
  }
  PyObject *tensor = import_tensor(in, dtype, read_only, owner);
  Py_DECREF(owner);
  return tensor;
}

static PyObject *take(PyObject *capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    dl_versioned *versioned = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    if (versioned->version.major > 1) {
      PyErr_Format(PyExc_BufferError, "from_dlpack: version %u.%u of DLPack is not known",
                   (unsigned)versioned->version.major, (unsigned)versioned->version.minor);
      return NULL;
    }
    return take_capsule(capsule, "used_dltensor_versioned", versioned, end_versioned,
                        &versioned->tensor, (versioned->flags & FLAG_READ_ONLY) != 0);
  }
  if (PyCapsule_IsValid(capsule, "dltensor")) {
    dl_managed *managed = PyCapsule_GetPointer(capsule, "dltensor");
    return take_capsule(capsule, "used_dltensor", managed, end_managed, &managed->tensor, false);
  }
  PyErr_SetString(
      PyExc_RuntimeError,
      "from_dlpack received an invalid capsule. Note that DLTensor capsules can be "
      "consumed only once, so you might have already constructed a tensor from it once.");
  return NULL;
}

/* Asks a producer for its capsule: in a versioned form where it knows of such. */
static PyObject *capsule_of(PyObject *producer) {
  PyObject *method = PyObject_GetAttrString(producer, "__dlpack__");
  if (!method) return NULL;
  PyObject *none = PyTuple_New(0), *keywords = Py_BuildValue("{s:(ii)}", "max_version", 1, 1);
  PyObject *capsule = none && keywords ? PyObject_Call(method, none, keywords) : NULL;
  if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {
    PyErr_Clear();
    capsule = PyObject_CallNoArgs(method);
  }
  Py_XDECREF(none);
  Py_XDECREF(keywords);
  Py_DECREF(method);
  return capsule;
}

static PyObject *from_dlpack(PyObject *module, PyObject *source) {
  (void)module;
  if (PyCapsule_CheckExact(source)) return take(source);
  PyObject *capsule = capsule_of(source);
  PyObject *tensor = capsule ? take(capsule) : NULL;
  Py_XDECREF(capsule);
  return tensor;
}

#define FAST(function) ((PyCFunction)(void (*)(void))(function)), METH_FASTCALL | METH_KEYWORDS

PyMethodDef kpy_dlpack_methods[] = {
    {"__dlpack__", FAST(tensor_dlpack), "A DLPack capsule over the tensor's memory."},
    {"__dlpack_device__", tensor_dlpack_device, METH_NOARGS, "The device, as DLPack names it."},
    {NULL, NULL, 0, NULL}};

PyMethodDef kpy_dlpack_functions[] = {
    {"from_dlpack", from_dlpack, METH_O,
     "from_dlpack(source) -> Tensor\n\n"
     "A tensor over the memory of an object with __dlpack__, or of a capsule."},
    {NULL, NULL, 0, NULL}};
