/* The machine that code is generated for. */
#ifndef KL_CODEGEN_LLVM_TARGET_H
#define KL_CODEGEN_LLVM_TARGET_H

#include <llvm-c/TargetMachine.h>
#include <stdbool.h>

#include "ir/support/status.h"

typedef struct kl_target {
  LLVMTargetMachineRef machine;
  char *cpu, *features;   /* as LLVM writes them; freed by kl_target_finish */
  unsigned vector_nbytes; /* of the registers to use */
  bool masked;            /* loads and stores under a mask cost as much as others; gathers exist */
} kl_target;

/* NULL or "" for the CPU: this machine's, with its features. */
kl_status kl_target_init(kl_target *target, const char *cpu, const char *features) KL_MUST_CHECK;
void kl_target_finish(kl_target *target);

#endif
