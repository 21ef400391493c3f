/* The prepared form of a section: what codegen/block/prepare.c makes and run.c executes.
 *
 * Each phase becomes a program of its own: stages (a loop each), whose steps are its instructions.
 * A value lives in a slot, which at run time holds an address and whether one element stands for
 * all of the tile. Slots of ROW stages hold one element a row of the tile; a COL stage that uses
 * one first expands it. Prepared code never changes; all that a run writes is in its scratch.
 */
#ifndef KL_CODEGEN_BLOCK_CODE_H
#define KL_CODEGEN_BLOCK_CODE_H

#include "codegen/block/functions.h"
#include "codegen/block/view.h"
#include "ir/launch.h"

#define KL_BLOCK_NONE UINT32_MAX

enum {
  KL_BLOCK_STACK = 32,      /* levels of a reduction's tree of chunks: 2^42 columns */
  KL_BLOCK_NESTING = 8,     /* of repeats */
  KL_BLOCK_VECTOR_NBYTES = 4096, /* most of a vector of rows that a reduction folds */
  /* With row vectors, from this many rows on a column is a tile of its own, loaded in place. */
  KL_BLOCK_DIRECT_ROWS = 128,
  KL_BLOCK_LANE_LEVELS = 6, /* of the tree over 32 lanes */
  /* Elementwise steps that follow each other take turns over this many elements: few enough that
   * the processor still computes one strip while it waits for the memory of the next. */
  KL_BLOCK_STRIP = 256,
  KL_BLOCK_CALLS = 16, /* of elementwise functions that take turns */
  KL_BLOCK_CHUNKS = 32 /* of a row, that a tile in memory takes */
};

typedef enum kl_block_step_kind {
  KL_STEP_ELEM,
  KL_STEP_LOAD,
  KL_STEP_LOAD_ROWS, /* a dynamic index that is one a row, in a COL stage of column vectors */
  KL_STEP_STORE,
  KL_STEP_STORE_ADD,
  KL_STEP_SCALAR,
  KL_STEP_INT,
  KL_STEP_INDEX,
  KL_STEP_EXPAND, /* a row slot for each element of the tile */
  KL_STEP_FRAME,  /* the result of a reduction of an earlier phase */
  KL_STEP_REDUCE,
  KL_STEP_REPEAT,
  KL_STEP_COPY, /* into a slot's own block, in full: CARRY, NEXT */
  KL_STEP_END
} kl_block_step_kind;

typedef struct kl_block_step {
  uint8_t kind;
  uint8_t op;      /* REDUCE: kl_op */
  uint8_t dtype;   /* of the elements: of the result; STORE, REDUCE: of the operand */
  uint8_t esize;   /* its bytes */
  uint8_t mask;    /* ELEM: a bit for each operand */
  uint8_t depth;   /* REPEAT, END, SCALAR: nesting */
  uint8_t arg_esize[3]; /* ELEM: bytes of an element of each operand */
  bool copies;     /* LOAD: never in place, because a store may come before the last use */
  uint32_t dst;    /* slot */
  uint32_t arg[3]; /* slots; the slot of absent operands exists and is not read */
  uint32_t attr;   /* SCALAR, INT, REPEAT: slot of the arguments; FRAME, REDUCE: number */
  uint32_t extra;  /* SCALAR: step; REPEAT: its END; END: its REPEAT */
  uint32_t view;   /* LOAD, STORE, STORE_ADD, INDEX; REDUCE in a bare stage: its operand's LOAD */
  uint32_t into;   /* ELEM: view of the STORE whose place the result may be written to at once */
  uint32_t block;  /* place in scratch of the result, in units of 64 bytes */
  kl_block_elem_fn *fn;
} kl_block_step;

/* What a run makes a kl_block_view of. */
typedef struct kl_block_form {
  const kl_access *access; /* NULL: the coordinate along `dim` */
  uint8_t dim, esize;
  bool columns; /* of a COL stage: over all dims; else over the row dims */
  uint8_t scratch; /* 0: a global buffer; n: the nth SCRATCH buffer of the kernel */
} kl_block_form;

typedef struct kl_block_reduce {
  uint8_t op, dtype, esize, result_esize;
  bool arg; /* argmax or argmin */
  uint32_t number;
  uint32_t dst;     /* slot of the row value; NONE in a COLS phase */
  uint32_t block;   /* of the row value */
  uint32_t state;   /* in units of 64 bytes: running values, see fold.c */
  kl_scalar start;  /* value of an empty fold */
  kl_block_fold fold;
} kl_block_reduce;

typedef struct kl_block_stage {
  uint8_t kind; /* kl_loop_kind */
  bool one_by_one; /* SEQ: an iteration may load what the one before stored */
  bool bare;       /* does nothing but fold what it loads, no argmax or argmin among it */
  bool chain;      /* one turn of elementwise steps from loads to stores, computed in place */
  uint32_t first, end;               /* steps */
  uint32_t first_reduce, end_reduce; /* reductions whose folding this stage does */
} kl_block_stage;

typedef struct kl_block_program {
  uint8_t kind; /* kl_phase_kind */
  KL_VEC(kl_block_step) steps;
  KL_VEC(kl_block_stage) stages;
  KL_VEC(kl_block_form) forms;
  KL_VEC(kl_block_reduce) reduces; /* COMBINE: those whose partials it combines */
  uint32_t n_slots;
  uint32_t values_at, views_at, blocks_at, end_at; /* layout of scratch, in units of 64 bytes */
} kl_block_program;

typedef struct kl_block_code {
  kl_code base;
  const kl_section *section;
  const kl_block_level *level;
  KL_VEC(uint8_t) scratch_dtypes; /* of the kernel's SCRATCH buffers */
  uint32_t n_programs;
  kl_block_program *programs;
} kl_block_code;

/* place.c: gives every slot its block, decides which loads and stores work in place, and lays out
 * the scratch of a program. */
kl_status kl_block_place(const kl_kernel *kernel, kl_block_program *program, bool row_vectors)
    KL_MUST_CHECK;
/* Bytes that a reduction needs for its running values. */
size_t kl_block_fold_nbytes(const kl_block_reduce *reduce, bool row_vectors);
/* The value of a fold of nothing. */
kl_scalar kl_block_fold_start(kl_op op, kl_dtype dtype);

kl_code_fn kl_block_run;

#endif
