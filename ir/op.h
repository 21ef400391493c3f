/* Facts about primitives, from ir/op.def. */
#ifndef KL_IR_OP_H
#define KL_IR_OP_H

#include "ir/dtype.h"

typedef enum kl_op {
#define KL_OP(NAME, text, kind, arity, result, classes) KL_OP_##NAME,
#include "ir/op.def"
#undef KL_OP
  KL_OP_COUNT
} kl_op;

typedef enum kl_op_kind {
  KL_KIND_ELEM,
  KL_KIND_REDUCE,
  KL_KIND_GRAPH,
  KL_KIND_WRITE,
  KL_KIND_KERNEL
} kl_op_kind;

typedef enum kl_op_result {
  KL_RESULT_SAME,
  KL_RESULT_SECOND,
  KL_RESULT_BOOL,
  KL_RESULT_I64,
  KL_RESULT_I32,
  KL_RESULT_FREE
} kl_op_result;

typedef struct kl_op_info {
  const char *text;
  uint8_t kind;   /* kl_op_kind */
  uint8_t arity;
  uint8_t result; /* kl_op_result */
  const char *classes;
} kl_op_info;

extern const kl_op_info kl_op_table[KL_OP_COUNT];

static inline bool kl_op_is_elem(int op) { return kl_op_table[op].kind == KL_KIND_ELEM; }
static inline bool kl_op_is_reduce(int op) { return kl_op_table[op].kind == KL_KIND_REDUCE; }
static inline bool kl_op_is_write(int op) { return kl_op_table[op].kind == KL_KIND_WRITE; }

bool kl_op_from_text(const char *text, size_t length, kl_op *out_op);
/* Whether operand 0 may have this dtype. */
bool kl_op_takes(kl_op op, kl_dtype dtype);

#endif
