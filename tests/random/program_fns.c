/* The elementwise functions by name, from the library's own list of operators. */
#include "ir/op.h"
#include "tests/random/program.h"

#define FN_UNARY(id, name_, op_, rule_)                                                            \
  {.name = #name_,                                                                                 \
   .op = KL_OP_##op_,                                                                              \
   .rule = #rule_,                                                                                 \
   .unary = kael_##name_,                                                                          \
   .unary_ = kael_##name_##_},
#define FN_BINARY(id, name_, op_, rule_)                                                           \
  {.name = #name_,                                                                                 \
   .binary = true,                                                                                 \
   .op = KL_OP_##op_,                                                                              \
   .rule = #rule_,                                                                                 \
   .with = kael_##name_,                                                                           \
   .with_ = kael_##name_##_,                                                                       \
   .scalar = kael_##name_##_scalar,                                                                \
   .scalar_ = kael_##name_##_scalar_},
#define FN_OTHER(id, name_, op_, rule_)
#define FN_VIEW(id, name_, op_, rule_)

const program_fn program_fns[] = {
#define KL_FN(NAME, name, form, op, rule, args, inplace, grad, doc) FN_##form(NAME, name, op, rule)
#include "frontend/ops.def"
#undef KL_FN
};

const int program_n_fns = sizeof program_fns / sizeof *program_fns;
