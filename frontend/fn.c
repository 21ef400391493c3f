/* The table of public operators, expanded from frontend/ops.def. */
#include "frontend/fn.h"

#define YES true
#define NO false

const kl_fn_info kl_fn_table[KL_FN_COUNT] = {
#define KL_FN(NAME, name, form, op, rule, args, inplace, grad, doc)                                \
  {#name, args, #grad, doc, inplace},
#include "frontend/ops.def"
#undef KL_FN
};
