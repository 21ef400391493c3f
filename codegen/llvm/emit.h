/* What the files of the LLVM emitter share: the state of one section's compilation.
 *
 * Names: a `lanes` is where a body's instructions run: `width` neighbours along the vector axis,
 * of which `mask` picks those that exist. Width 1 means scalars, never vectors of one element. In
 * SSA a bool is i1 (i8 in memory), f16 and bf16 are i16, and signs of integers are in the dtype.
 */
#ifndef KL_CODEGEN_LLVM_EMIT_H
#define KL_CODEGEN_LLVM_EMIT_H

#include <llvm-c/Core.h>

#include "codegen/llvm/target.h"
#include "ir/kernel.h"
#include "ir/support/arena.h"

enum {
  KL_EMIT_UNROLL = 16, /* most vectors that one body covers */
  KL_EMIT_COSTLY = 32, /* weight of an operation that is many instructions */
  KL_EMIT_INLINE = 16, /* costly operations of a section that are not calls */
  KL_EMIT_LEVELS = 64, /* of the tree that combines chunks: one for each bit of their count */
};

typedef LLVMValueRef kl_ssa;

typedef struct kl_lanes {
  unsigned width;
  kl_ssa mask;               /* <width x i1>; NULL: all */
  int axis;                  /* the dim along which lanes lie; -1: none */
  kl_ssa coord[KL_MAX_RANK]; /* i64 by dim, along `axis` of lane 0; NULL: none */
  kl_ssa column;             /* i32 column of lane 0 within its chunk, for argmax and argmin */
  kl_ssa *values;            /* by instruction */
  unsigned unit;             /* which of the body's vectors: its column in kl_emit.acc */
} kl_lanes;

/* How one REDUCE instruction is carried out. */
typedef struct kl_fold {
  uint32_t instr;
  uint16_t op;
  uint8_t dtype;  /* of the operand */
  bool positions; /* argmax, argmin */
  /* Where lanes are columns, `lanes` holds the 32 lanes, and a partial result is one scalar. Where
   * lanes are rows it holds 32 times n_units vectors, and a partial result is n_units vectors. */
  kl_ssa lanes, lane_pos; /* alloca, by lane; positions (i32) are columns within the chunk */
  kl_ssa tree, tree_pos;  /* alloca, by level; positions (i64) are columns */
  kl_ssa acc[KL_EMIT_UNROLL], acc_pos[KL_EMIT_UNROLL];
} kl_fold;

typedef struct kl_emit {
  const kl_kernel *kernel;
  const kl_section *section;
  const kl_target *target;
  kl_arena arena;
  LLVMContextRef context;
  LLVMModuleRef module;
  LLVMBuilderRef builder;
  LLVMBuilderRef pre; /* appends to the entry of the phase: what is the same for all of it */
  LLVMValueRef function;
  LLVMBasicBlockRef allocas;
  LLVMTypeRef i1, i8, i16, i32, i64, f32, f64, ptr;
  unsigned kind_invariant, kind_scope, kind_noalias;
  LLVMValueRef *scope, *others; /* alias metadata by buffer, NULL where it may be aliased */

  /* arguments */
  kl_ssa args, scratch, begin, end;
  kl_ssa bufs, ints, scalars, frame, partials; /* loaded from args */

  /* of the phase */
  const kl_phase *phase;
  kl_ssa *int_values; /* by int slot, loaded in `pre` */
  kl_ssa *buf_values; /* by buffer */
  kl_ssa n_cols, n_chunks;
  bool *needed;        /* instructions of ROW loops that this phase computes */
  bool rows_are_lanes; /* KL_VECTOR_ROWS, or no columns: every value is a vector of rows */
  bool failed;         /* out of memory on the way */
  bool calls;          /* costly operations are functions of the module */
  int missing_op;      /* an operation that is not defined for its dtype; 0: none */
  kl_ssa iteration;    /* of the innermost REPEAT, NULL outside */

  /* of the loop */
  uint16_t *loop_of; /* by instruction */
  kl_ssa *uniform;   /* values that are the same for all columns: ROW values, results, scalars */
  kl_ssa *splat;     /* the same as vectors of the current width */
  kl_ssa *address;   /* by access: pointer at coordinate 0 of the axis */
  kl_ssa *unit_values[KL_EMIT_UNROLL];
  kl_fold *folds;   /* n_reduces */
  int32_t *fold_of; /* by instruction, -1: no REDUCE */
} kl_emit;

/* section.c: what each function says of its target; defines `symbol` in e->module. */
void kl_emit_attributes(kl_emit *e, LLVMValueRef function);
kl_status kl_emit_section(kl_emit *e, const char *symbol) KL_MUST_CHECK;

/* types.c: types and small pieces of code */
LLVMTypeRef kl_emit_type(const kl_emit *e, kl_dtype dtype, unsigned width);
LLVMTypeRef kl_emit_memory_type(const kl_emit *e, kl_dtype dtype, unsigned width);
LLVMTypeRef kl_emit_vector(LLVMTypeRef elem, unsigned width);
kl_ssa kl_emit_const(const kl_emit *e, int64_t value); /* i64 */
kl_ssa kl_emit_const_of(const kl_emit *e, kl_dtype dtype, kl_scalar value, unsigned width);
kl_ssa kl_emit_splat(LLVMBuilderRef b, kl_ssa scalar, unsigned width);
kl_ssa kl_emit_iota(const kl_emit *e, LLVMTypeRef elem, unsigned width);
kl_ssa kl_emit_to_memory(const kl_emit *e, kl_dtype dtype, kl_ssa value, unsigned width);
kl_ssa kl_emit_from_memory(const kl_emit *e, kl_dtype dtype, kl_ssa value, unsigned width);
kl_ssa kl_emit_alloca(const kl_emit *e, LLVMTypeRef elem, unsigned count);
kl_ssa kl_emit_gep(const kl_emit *e, LLVMTypeRef elem, kl_ssa base, kl_ssa index);
kl_ssa kl_emit_load(const kl_emit *e, LLVMTypeRef type, kl_ssa address, unsigned align);
void kl_emit_store(const kl_emit *e, kl_ssa value, kl_ssa address, unsigned align);
kl_ssa kl_emit_intrinsic(kl_emit *e, const char *name, LLVMTypeRef *types, unsigned n_types,
                         kl_ssa *args, unsigned n_args);
kl_ssa kl_emit_int(kl_emit *e, uint32_t slot); /* i64 value of an int argument */
LLVMBasicBlockRef kl_emit_block(const kl_emit *e, const char *name);

/* loop.c: loops and walks over an index space */
typedef struct kl_ir_loop {
  LLVMBasicBlockRef guard, enter, body, exit;
  kl_ssa index, end;
} kl_ir_loop;

/* Opens `for (index = start; index < end; index = next)`; after guard the builder stands where
 * code runs once before the first round, after enter in the body. */
void kl_ir_loop_guard(kl_emit *e, kl_ir_loop *loop, kl_ssa start, kl_ssa end);
void kl_ir_loop_enter(kl_emit *e, kl_ir_loop *loop, kl_ssa start);
void kl_ir_loop_close(kl_emit *e, kl_ir_loop *loop, kl_ssa next);
/* A value carried from round to round: its phi in the body, its value after the loop. */
kl_ssa kl_ir_loop_carry(kl_emit *e, const kl_ir_loop *loop, kl_ssa init);
kl_ssa kl_ir_loop_result(kl_emit *e, const kl_ir_loop *loop, kl_ssa phi, kl_ssa init, kl_ssa next);

/* Walks dims [first, end) row-major through positions [start, stop), keeping their coordinates in
 * coord[]; each round may cover several positions along the last dim. */
typedef struct kl_walk {
  kl_ir_loop loop;
  int first, end;
  kl_ssa *coord;
  kl_ssa phi[KL_MAX_RANK], init[KL_MAX_RANK];
} kl_walk;

void kl_walk_open(kl_emit *e, kl_walk *walk, int first, int end, kl_ssa start, kl_ssa stop,
                  kl_ssa *coord);
void kl_walk_close(kl_emit *e, kl_walk *walk, kl_ssa step);

/* span.c: a run along the vector axis, as full bodies and a tail. */
typedef struct kl_span {
  unsigned width, n_units;
  bool masked;             /* the tail is masked vectors, else scalars */
  bool aligned;            /* the run starts in lane 0, or has no folds */
  uint32_t fold, fold_end; /* folds over the axis, that the body updates */
  int axis;
  const kl_ssa *coord; /* of the other dims */
  kl_ssa column;       /* i32 column in its chunk at the start; NULL without folds */
  /* What a body of this width needs, emitted before its loop; then the body. */
  void (*prepare)(kl_emit *e, void *user, unsigned width);
  void (*body)(kl_emit *e, void *user, kl_lanes *units, unsigned n_units);
  void *user;
} kl_span;

void kl_emit_span(kl_emit *e, const kl_span *span, kl_ssa start, kl_ssa stop);

/* access.c: addresses of the accesses of a loop at coordinate 0 of the axis; loads and stores. */
void kl_emit_addresses(kl_emit *e, const kl_loop *loop, const kl_ssa *coord, int axis);
kl_ssa kl_emit_load_access(kl_emit *e, const kl_lanes *lanes, const kl_instr *instr);
void kl_emit_store_access(kl_emit *e, const kl_lanes *lanes, const kl_instr *instr);
kl_ssa kl_emit_mask(const kl_emit *e, unsigned width, kl_ssa count);

/* body.c: the instructions of a loop; all of them, or only those that the phase needs. */
void kl_emit_body(kl_emit *e, const kl_loop *loop, kl_lanes *lanes, bool all);
kl_ssa kl_emit_value(const kl_emit *e, const kl_lanes *lanes, uint32_t id);
/* The elements a vector of this loop has, and a rough count of what it computes. */
unsigned kl_emit_loop_width(const kl_emit *e, const kl_loop *loop, int axis);
bool kl_emit_is_costly(int op);
unsigned kl_emit_loop_weight(const kl_emit *e, const kl_loop *loop);
bool kl_emit_loop_maskable(const kl_emit *e, const kl_loop *loop, int axis);

/* elem.c: elementwise instructions at any width. */
kl_ssa kl_emit_elem(kl_emit *e, int op, kl_dtype from, kl_dtype to, kl_ssa *args, unsigned width);

/* fold.c: reductions in the defined order. `offset` (i64) is an element of fold->lanes. */
void kl_fold_allocate(kl_emit *e, kl_fold *fold, unsigned width, unsigned n_units);
void kl_fold_init(kl_emit *e, kl_fold *fold, unsigned width, unsigned n_units);
void kl_fold_fetch(kl_emit *e, kl_fold *fold, unsigned width, unsigned n_units, kl_ssa offset);
void kl_fold_put(kl_emit *e, kl_fold *fold, unsigned width, unsigned n_units, kl_ssa offset);
void kl_fold_update(kl_emit *e, kl_fold *fold, const kl_lanes *lanes, kl_ssa value);
/* The lanes of a chunk become fold->acc (acc_pos: i64). */
void kl_fold_lanes(kl_emit *e, kl_fold *fold, unsigned width, unsigned n_units,
                   kl_ssa first_column);
/* fold->acc is the result of chunk `chunk`; later, of all `n_chunks`. */
void kl_fold_push(kl_emit *e, kl_fold *fold, unsigned width, unsigned n_units, kl_ssa chunk);
void kl_fold_finish(kl_emit *e, kl_fold *fold, unsigned width, unsigned n_units, kl_ssa n_chunks);

#endif
