/* The verbs that are more than one builder call. */
#ifndef KL_CODEGEN_LLVM_VERB_FUNCTIONS_H
#define KL_CODEGEN_LLVM_VERB_FUNCTIONS_H

#include "codegen/llvm/emit.h"

kl_ssa kl_verb_float(kl_emit *e, kl_dtype dtype, double value, unsigned width);
kl_ssa kl_verb_int(kl_emit *e, kl_dtype dtype, uint64_t value, unsigned width);
/* An intrinsic overloaded on the type of its operands; absent ones are NULL. */
kl_ssa kl_verb_call(kl_emit *e, const char *name, kl_ssa a, kl_ssa b, kl_ssa c);
kl_ssa kl_verb_umul32(kl_emit *e, kl_ssa a, kl_ssa b, unsigned width);
kl_ssa kl_verb_umulh(kl_emit *e, kl_ssa a, kl_ssa b, unsigned bits, unsigned width);
kl_ssa kl_verb_resize(kl_emit *e, kl_dtype from, kl_dtype to, kl_ssa x, unsigned width);
kl_ssa kl_verb_itof(kl_emit *e, kl_dtype from, kl_dtype to, kl_ssa x, unsigned width);
kl_ssa kl_verb_ftoi(kl_emit *e, kl_dtype from, kl_dtype to, kl_ssa x, unsigned width);
kl_ssa kl_verb_is_not_zero(kl_emit *e, kl_dtype from, kl_ssa x);
kl_ssa kl_verb_reinterpret(kl_emit *e, kl_dtype from, kl_dtype to, kl_ssa x, unsigned width);

/* A branch taken where any lane has a rare argument; the others keep their common answer. */
typedef struct kl_rare {
  kl_ssa mask, common;
  LLVMBasicBlockRef before, after;
} kl_rare;
void kl_rare_begin(kl_emit *e, kl_rare *rare, kl_ssa mask, kl_ssa common, unsigned width);
kl_ssa kl_rare_end(kl_emit *e, kl_rare *rare, kl_ssa rare_value);

#endif
