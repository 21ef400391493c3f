/* kpy.h: what the sources of the Python extension share.
 *
 * The extension uses the public C API of kael only, and of Python the stable ABI of 3.11. There is
 * one Python object for each tensor impl while anybody refers to that object: the impl's wrapper
 * slot points to it (borrowed), the object owns one reference to the impl.
 */
#ifndef KAEL_KPY_H
#define KAEL_KPY_H

#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030b0000
#endif
#include <Python.h>

#include <string.h>

#include "kael/kael.h"

#define KPY_HIDDEN __attribute__((visibility("hidden")))
#pragma GCC visibility push(hidden)

/* --- Tensors (tensor_type.c) -------------------------------------------------------------------
 */

typedef struct kpy_tensor {
  PyObject_HEAD kael_tensor *impl; /* owned; never NULL once made */
  PyObject *weak;                  /* list of weak references */
} kpy_tensor;

extern PyTypeObject *kpy_tensor_type;

static inline bool kpy_is_tensor(PyObject *object) {
  return Py_TYPE(object) == kpy_tensor_type || PyType_IsSubtype(Py_TYPE(object), kpy_tensor_type);
}
static inline kael_tensor *kpy_impl(PyObject *tensor) { return ((kpy_tensor *)tensor)->impl; }

/* The wrapper of `impl`, whose reference is taken over. NULL stands for a failed call: the
 * library's error becomes the exception. */
PyObject *kpy_wrap(kael_tensor *impl);
/* The same; None for NULL. */
PyObject *kpy_wrap_optional(kael_tensor *impl);
/* `self`, with a new reference, after an in-place call; or the exception. */
PyObject *kpy_returned_self(PyObject *self, kael_status status);
int kpy_add_tensor_type(PyObject *module);
/* A torch.Size-like tuple of integers. */
PyObject *kpy_ints(int n, const int64_t *values);

/* --- Errors (errors.c) --------------------------------------------------------------------------
 */

/* Raises the library's stored error; returns NULL. */
PyObject *kpy_raise(void);
extern PyObject *kpy_memory_error; /* both a MemoryError and a RuntimeError */
/* The same for a status: false, with the exception set, where it is an error. */
bool kpy_ok(kael_status status);
/* Turns the exception that is set into the library's stored error, for callbacks: its message, and
 * the exception itself, which the next kpy_raise on this thread raises again. */
kael_status kpy_keep_exception(void);

/* Work of the library runs without the interpreter's lock, so that other threads go on. */
#define KPY_RUN(statement)                                                                         \
  do {                                                                                             \
    PyThreadState *kpy_state_ = PyEval_SaveThread();                                               \
    statement;                                                                                     \
    PyEval_RestoreThread(kpy_state_);                                                              \
  } while (0)

/* --- Dtypes and numbers (dtype.c) ---------------------------------------------------------------
 */

enum { KPY_N_DTYPES = KAEL_F64 + 1 };
/* The object of a dtype, a new reference. */
PyObject *kpy_dtype(kael_dtype dtype);
bool kpy_is_dtype(PyObject *object);
/* Reads a dtype object, or Python's float, int or bool. */
bool kpy_read_dtype(PyObject *object, kael_dtype *out_dtype);
int kpy_add_dtypes(PyObject *module);
kael_dtype kpy_default_dtype(void);
static inline bool kpy_is_floating(kael_dtype dtype) { return dtype >= KAEL_F16; }

/* Whether the object is a number: of Python, or of NumPy. */
bool kpy_is_number(PyObject *object);
/* Reads it with its kind; an exception where it is none, or too large for 64 bits. */
bool kpy_read_number(PyObject *object, kael_scalar *out_number);
/* The dtype of the result of an operation between a number and a tensor. */
kael_dtype kpy_promote_number(kael_dtype tensor, kael_scalar number);
/* A 0-d tensor of a number beside a tensor: its dtype leaves the promotion as the number would. */
kael_tensor *kpy_number_tensor(kael_scalar number, kael_dtype beside);

/* --- Arguments (args.c) -------------------------------------------------------------------------
 */

typedef enum kpy_kind {
  KPY_TENSOR,     /* a tensor */
  KPY_TENSOR_OPT, /* a tensor, or None: KAEL_NONE */
  KPY_OTHER,      /* a tensor or a number (then `tensor` is NULL) */
  KPY_NUMBER,     /* a number; a 0-d tensor is read */
  KPY_NUMBER_OPT,
  KPY_INT,
  KPY_FLOAT,
  KPY_BOOL,
  KPY_DTYPE,     /* a dtype, or None */
  KPY_INTS,      /* an integer or a sequence of them; None where the default is */
  KPY_SIZES,     /* the same, or several positional integers: the last positional parameter */
  KPY_TENSORS,   /* a sequence of tensors */
  KPY_REDUCTION, /* 'none', 'mean' or 'sum' */
  KPY_OBJECT     /* anything, borrowed; NULL where absent */
} kpy_kind;

typedef struct kpy_param {
  const char *name;
  uint8_t kind;     /* kpy_kind */
  uint8_t required; /* else `value` stands for an absent one, `given` is false */
  uint8_t keyword_only;
  int64_t value;
} kpy_param;

typedef struct kpy_signature {
  const char *name;
  int n_params;
  const kpy_param *params;
} kpy_signature;

typedef struct kpy_arg {
  bool given; /* present and not None */
  union {
    kael_tensor *tensor;
    int64_t integer;
    double real;
    bool flag;
    kael_dtype dtype;
    PyObject *object;
    int64_t *ints;         /* n of them */
    kael_tensor **tensors; /* n of them */
  };
  int n;
  kael_scalar number;
} kpy_arg;

enum { KPY_MAX_PARAMS = 10, KPY_INTS_ARGS = 3 };

typedef struct kpy_call {
  PyObject *self; /* the first argument, borrowed */
  kpy_arg args[KPY_MAX_PARAMS];
  int64_t ints[KPY_INTS_ARGS][KAEL_MAX_DIMS];
  int n_ints;
  PyObject *keep[2]; /* what the arguments point into */
  void *blocks[2];
  int n_keep;
} kpy_call;

/* Reads a vectorcall's arguments. `self` is put before the positional ones, unless NULL. On failure
 * the exception is set and nothing needs to be finished. */
bool kpy_parse(kpy_call *call, const kpy_signature *signature, PyObject *self,
               PyObject *const *args, Py_ssize_t n_args, PyObject *keywords);
/* Gives up what the call keeps; returns `result`. */
PyObject *kpy_finish(kpy_call *call, PyObject *result);
bool kpy_read_int(PyObject *object, int64_t *out_value);
/* A sequence of integers (or one integer) into an array of KAEL_MAX_DIMS. */
bool kpy_read_ints(PyObject *object, const char *what, int64_t *out_values, int *out_n);

/* --- Operators (operators.c, and the generated ops_table.c) -------------------------------------
 */

/* The forms of a binary operator; NULL for what the library has not. */
typedef struct kpy_binary {
  const char *name;
  kael_tensor *(*plain)(kael_tensor *, kael_tensor *);
  kael_tensor *(*scalar)(kael_tensor *, kael_scalar);
  kael_status (*inplace)(kael_tensor *, kael_tensor *);
  kael_status (*inplace_scalar)(kael_tensor *, kael_scalar);
} kpy_binary;

PyObject *kpy_binary_call(const kpy_binary *op, PyObject *self, PyObject *other);
PyObject *kpy_binary_call_(const kpy_binary *op, PyObject *self, PyObject *other);

/* With the second operand multiplied by `alpha` first. */
PyObject *kpy_scaled_call(const kpy_binary *op, PyObject *self, PyObject *other, kael_scalar alpha);
PyObject *kpy_scaled_call_(const kpy_binary *op, PyObject *self, PyObject *other,
                           kael_scalar alpha);
/* Division with PyTorch's rounding_mode: NULL or None, 'floor' or 'trunc'. */
PyObject *kpy_divide_call(PyObject *self, PyObject *other, PyObject *mode);
PyObject *kpy_divide_call_(PyObject *self, PyObject *other, PyObject *mode);
/* A tuple of the results of one call, which are taken over; NULL among them: the exception is set.
 */
PyObject *kpy_results(int n, PyObject *const *results);

extern PyType_Slot kpy_operator_slots[]; /* ends with {0, NULL} */
extern PyMethodDef kpy_op_methods[];     /* generated */
extern PyMethodDef kpy_op_functions[];   /* generated */

/* --- The other parts ---------------------------------------------------------------------------
 */

extern PyMethodDef kpy_tensor_methods[];   /* methods.c */
extern PyMethodDef kpy_autograd_methods[]; /* grad.c: of tensors */
extern PyMethodDef kpy_extreme_methods[];  /* extremes.c */
extern PyMethodDef kpy_view_methods[];     /* views.c */
extern PyMethodDef kpy_buffer_methods[];   /* buffer.c: of tensors */
extern PyMethodDef kpy_dlpack_methods[];   /* dlpack.c: of tensors */
extern PyGetSetDef kpy_tensor_getset[];    /* properties.c */
extern PyMethodDef kpy_make_functions[];   /* make.c */
extern PyMethodDef kpy_grad_functions[];   /* grad.c */
extern PyMethodDef kpy_mode_functions[];   /* modes.c */
extern PyMethodDef kpy_extreme_functions[];
extern PyMethodDef kpy_view_functions[];   /* views.c */
extern PyMethodDef kpy_buffer_functions[]; /* buffer.c */
extern PyMethodDef kpy_dlpack_functions[]; /* dlpack.c */
extern PyMethodDef kpy_index_functions[];  /* index.c */

/* Elements as Python numbers (read.c). */
PyObject *kpy_tolist(PyObject *self, PyObject *unused);
PyObject *kpy_item(PyObject *self, PyObject *unused);
PyObject *kpy_as_float(PyObject *self);
PyObject *kpy_as_int(PyObject *self);
int kpy_as_bool(PyObject *self);

/* Indexing (index.c). */
Py_ssize_t kpy_len(PyObject *self);
PyObject *kpy_get_item(PyObject *self, PyObject *key);
int kpy_set_item(PyObject *self, PyObject *key, PyObject *value);
PyObject *kpy_sequence_item(PyObject *self, Py_ssize_t i);

/* Buffers (buffer.c). */
int kpy_get_buffer(PyObject *self, Py_buffer *view, int flags);
void kpy_release_buffer(PyObject *self, Py_buffer *view);
/* A tensor over the memory of an object with the buffer protocol, or a copy of it. */
PyObject *kpy_from_buffer(PyObject *object, bool copy);

/* What kept external memory alive is given up later, when this thread holds the interpreter's lock:
 * deleters run on any thread (owners.c). */
kael_deleter kpy_owner_deleter(void);
/* The deleter's `user` for an owner, of which a reference is taken; NULL: no memory, exception set.
 */
void *kpy_owner_note(PyObject *owner);
PyObject *kpy_owner_of(void *note); /* borrowed */
void kpy_owner_forget(void *note);  /* where the deleter will not be called */
void kpy_drop_owners(void);
PyObject *kpy_iter(PyObject *self); /* views.c */
int kpy_add_hook_type(PyObject *module);
/* A Python function of the package, by module and name, kept for later; borrowed. */
PyObject *kpy_python_function(PyObject **cache, const char *module, const char *name);

#pragma GCC visibility pop
#endif
