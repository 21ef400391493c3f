/* The table of primitives, expanded from ir/op.def. */
#include "ir/op.h"

#include <string.h>

const kl_op_info kl_op_table[KL_OP_COUNT] = {
#define KL_OP(NAME, text, kind, arity, result, classes)                                            \
  {text, KL_KIND_##kind, arity, KL_RESULT_##result, classes},
#include "ir/op.def"
#undef KL_OP
};

bool kl_op_from_text(const char *text, size_t length, kl_op *out_op) {
  for (int op = 0; op < KL_OP_COUNT; op++) {
    const char *name = kl_op_table[op].text;
    if (strlen(name) == length && memcmp(name, text, length) == 0) {
      *out_op = (kl_op)op;
      return true;
    }
  }
  return false;
}

bool kl_op_takes(kl_op op, kl_dtype dtype) {
  static const char classes[KL_DTYPE_COUNT] = {
#define X(enumerator, name, nbytes, cls) [enumerator] = cls,
      KL_DTYPES(X)
#undef X
  };
  return strchr(kl_op_table[op].classes, classes[dtype]) != NULL;
}
