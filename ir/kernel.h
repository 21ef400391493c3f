/* Kernel IR: what the tier-0 executor and the code generators read.
 *
 * A kernel is one launch: sections that run one after the other, each over its own index space of
 * row dims and column dims (row-major, the last dim fastest). Sizes are symbolic: extents, strides
 * and offsets are int arguments, so that one kernel serves all sizes of its form.
 *
 * A section is a list of loops. A ROW loop runs its instructions once a row; a COL loop once for
 * each (row, column); a SEQ loop the same with the columns strictly ascending. Instructions are
 * SSA: a value is known by its index in `instrs`. A loop may use values of its own, those of ROW
 * loops before it, and results of reductions in COL loops before it; a reduction folds its operand
 * over the columns in the defined order and is a row value once its loop is over. Values of another
 * COL loop cannot be used: what must pass from one to the next goes through a SCRATCH buffer.
 */
#ifndef KL_IR_KERNEL_H
#define KL_IR_KERNEL_H

#include "ir/op.h"
#include "ir/support/status.h"
#include "ir/support/vec.h"

enum {
  KL_MAX_RANK = 16,   /* dims of a tensor, and of an index space */
  KL_CHUNK = 1024,    /* columns in a chunk of a reduction, elements in a block of tier 0 */
  KL_LANES = 32,      /* lanes in a chunk: column k goes to lane k mod 32 */
};
#define KL_NO_VALUE UINT32_MAX

typedef enum kl_stride_class {
  KL_STRIDE_ZERO, /* the int argument is 0 and need not be read */
  KL_STRIDE_ONE,  /* it is 1 and need not be read */
  KL_STRIDE_ANY   /* any value: negative, 0 and 1 included */
} kl_stride_class;

typedef enum kl_buf_kind {
  KL_BUF_GLOBAL, /* an argument */
  KL_BUF_SCRATCH /* private to the worker: one row, a product of the column extents long; ROWS
                    phases with column vectors only; accesses have row strides 0 */
} kl_buf_kind;

typedef struct kl_kernel_buf {
  uint8_t dtype;
  uint8_t kind;
  bool read;
  bool written;
  /* Not reached through any other buffer of this launch: loads and stores of other buffers do not
   * touch it. A buffer both read and written is always read, in one loop, at the element that the
   * same loop iteration writes, or in an earlier loop or section. */
  bool noalias;
} kl_kernel_buf;

/* address (in elements) = ints[ints_at] + sum over dims d of ints[ints_at + 1 + d] * coordinate d
 * (+ ints[ints_at + 1 + n_dims] * dynamic index, where the instruction has one). */
typedef struct kl_access {
  uint32_t buf;
  uint32_t ints_at;
  bool dynamic;
  uint8_t stride[KL_MAX_RANK]; /* kl_stride_class for each dim of the section */
} kl_access;

typedef struct kl_instr {
  uint16_t op;    /* kl_op: ELEM, REDUCE, INDEX or KERNEL */
  uint8_t dtype;  /* of the result; for STORE the dtype stored */
  uint32_t attr;  /* LOAD, STORE: access; INDEX: dim; SCALAR: slot; INT, REPEAT: int slot; NEXT: carry */
  uint32_t arg[3]; /* value ids, KL_NO_VALUE where absent */
} kl_instr;

typedef enum kl_loop_kind { KL_LOOP_ROW, KL_LOOP_COL, KL_LOOP_SEQ } kl_loop_kind;

typedef struct kl_loop {
  uint8_t kind;
  uint32_t first, end; /* instructions [first, end) */
} kl_loop;

/* How a section is run; set by passes/schedule.c.
 *   ROWS     unit = a row: all loops for that row. The only phase, where rows are many.
 *   COLS     unit = (row, chunk of 1,024 columns): one COL loop; ROW values that it needs are
 *            computed again from the frame; reductions leave a partial a chunk in `partials`.
 *   COMBINE  unit = a row: combines the partials of the loop before into the frame, then runs the
 *            ROW loops [first_loop, end_loop), stores included.
 * A section is either one ROWS phase, or a sequence of COLS and COMBINE phases. */
typedef enum kl_phase_kind { KL_PHASE_ROWS, KL_PHASE_COLS, KL_PHASE_COMBINE } kl_phase_kind;

typedef struct kl_phase {
  uint8_t kind;
  uint16_t first_loop, end_loop; /* for COMBINE of loop l: first_loop = l + 1 */
} kl_phase;

typedef enum kl_vector_axis {
  KL_VECTOR_COLS, /* the last column dim (the last row dim where there are no columns) */
  KL_VECTOR_ROWS  /* the last row dim: columns are walked one by one for a vector of rows */
} kl_vector_axis;

typedef struct kl_section {
  uint8_t n_rows; /* row dims; dims [n_rows, n_dims) are columns */
  uint8_t n_dims;
  uint8_t vector;      /* kl_vector_axis; ROWS only in a ROWS phase without scratch */
  uint32_t extents_at; /* ints[extents_at + d] is the extent of dim d */
  uint32_t n_reduces;  /* REDUCE instructions, numbered in order of appearance */
  KL_VEC(kl_instr) instrs;
  KL_VEC(kl_loop) loops;
  KL_VEC(kl_access) accesses;
  KL_VEC(kl_phase) phases;
} kl_section;

typedef struct kl_kernel {
  KL_VEC(kl_kernel_buf) bufs;
  KL_VEC(kl_section) sections;
  uint32_t n_ints;
  uint32_t n_scalars;
} kl_kernel;

void kl_kernel_finish(kl_kernel *kernel); /* frees the arrays, leaves a zeroed kernel */

/* Text in and out. The text form has everything but argument values. */
struct kl_text; /* ir/support/text.h */
kl_status kl_kernel_print(const kl_kernel *kernel, struct kl_text *out) KL_MUST_CHECK;
kl_status kl_kernel_parse(const char *text, size_t nbytes, kl_kernel *out_kernel) KL_MUST_CHECK;
/* Everything the head comment says, operand dtypes by ir/op.def, scratch and phase rules. */
kl_status kl_kernel_verify(const kl_kernel *kernel) KL_MUST_CHECK;

/* The form of a kernel as bytes, equal exactly when one compiled code serves both: key of the
 * code caches. */
kl_status kl_kernel_key(const kl_kernel *kernel, struct kl_text *out) KL_MUST_CHECK;

#endif
