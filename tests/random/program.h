/* Random programs over the public C API, as data: statements over a few registers of tensors.
 *
 * A program is concrete: sizes, dims and numbers stand in it, so that it runs in the same way in
 * every mode, whether or not its calls succeed, and can be printed as C. */
#ifndef TESTS_RANDOM_PROGRAM_H
#define TESTS_RANDOM_PROGRAM_H

#include "ir/support/text.h"
#include "kael/kael.h"

enum { PROGRAM_REGISTERS = 12, PROGRAM_MAX_INTS = 12, PROGRAM_MAX_STATEMENTS = 40 };

typedef enum statement_kind {
  /* makers */
  S_FROM_DATA,
  S_FULL,
  S_ARANGE,
  S_RAND,
  S_RANDN,
  /* elementwise; `fn` is a row of program_fns */
  S_UNARY,
  S_UNARY_INPLACE,
  S_BINARY,
  S_BINARY_INPLACE,
  S_SCALAR,
  S_SCALAR_INPLACE,
  S_POW,
  S_POW_INPLACE,
  S_WHERE,
  S_MASKED_FILL,
  S_MASKED_FILL_INPLACE,
  S_TO_DTYPE,
  S_CLONE,
  S_CONTIGUOUS,
  S_FILL_INPLACE,
  S_ZERO_INPLACE,
  S_COPY_INPLACE,
  /* reductions: ints are the dims, flag keepdim */
  S_SUM,
  S_MEAN,
  S_AMAX,
  S_ARGMAX,
  S_ANY,
  S_ALL,
  /* networks and indexing: ints[0] the dim */
  S_SOFTMAX,
  S_LOG_SOFTMAX,
  S_MATMUL,
  S_LINEAR,
  S_CAT,
  S_INDEX_SELECT,
  S_GATHER,
  S_SCATTER_ADD,
  S_SCATTER_ADD_INPLACE,
  S_NLL_LOSS,
  S_CROSS_ENTROPY,
  /* views */
  S_VIEW,
  S_RESHAPE,
  S_TRANSPOSE,
  S_PERMUTE,
  S_SLICE,
  S_SELECT,
  S_EXPAND,
  S_SQUEEZE,
  S_UNSQUEEZE,
  S_AS_STRIDED,
  S_DIAGONAL,
  S_DETACH,
  S_UNBIND_FIRST,
  S_SPLIT_FIRST,
  /* handles, autograd, looking */
  S_ALIAS,
  S_RELEASE,
  S_REQUIRES_GRAD,
  S_DETACH_INPLACE,
  S_GRAD_MODE,
  S_RETAIN_GRAD,
  S_BACKWARD,
  S_GRAD,
  S_READ,
  S_ITEM,
  S_EVAL,
  S_POINTER,
  S_POKE,
  S_KIND_COUNT
} statement_kind;

typedef struct statement {
  uint8_t kind, fn, dtype, n_ints;
  bool flag, flag2;
  int8_t dst, a, b, c; /* registers; dst is released before it is overwritten */
  int64_t ints[PROGRAM_MAX_INTS];
  kael_scalar number;
} statement;

/* Plain memory, which processes can share. */
typedef struct program {
  int n;
  statement statements[PROGRAM_MAX_STATEMENTS];
} program;

/* The elementwise functions of frontend/ops.def. */
typedef struct program_fn {
  const char *name;
  bool binary;
  uint16_t op;      /* kl_op */
  const char *rule; /* "SAME", ... */
  kael_tensor *(*unary)(kael_tensor *);
  kael_status (*unary_)(kael_tensor *);
  kael_tensor *(*with)(kael_tensor *, kael_tensor *);
  kael_status (*with_)(kael_tensor *, kael_tensor *);
  kael_tensor *(*scalar)(kael_tensor *, kael_scalar);
  kael_status (*scalar_)(kael_tensor *, kael_scalar);
} program_fn;
extern const program_fn program_fns[];
extern const int program_n_fns;

/* The tensors while a program runs. */
typedef struct machine {
  kael_tensor *t[PROGRAM_REGISTERS];
  bool made;         /* the last statement put a new handle into its register */
  char message[256]; /* of the last statement that failed */
} machine;

/* Element i of the data that S_FROM_DATA fills a tensor with: `pattern` < 0 gives integers in
 * [0, -pattern), else it chooses a kind. */
void program_data(kael_dtype dtype, int64_t pattern, int64_t n, void *out);

void machine_start(machine *m, kael_jit_mode mode);
/* Runs one statement, and writes what can be seen of it to `trace` (NULL: nothing). */
kael_status machine_run(machine *m, const statement *s, kl_text *trace);
/* Writes all that can be seen of all registers. */
void machine_describe(machine *m, kl_text *trace);
void machine_finish(machine *m);

/* One line of C (without a newline). */
void statement_print(const statement *s, kl_text *out);
/* A whole C program. */
void program_print(const program *p, kael_jit_mode mode, kl_text *out);

const char *statement_name(const statement *s);

#endif
