/* Chooses the target machine and what the emitter makes of its features. */
#include "codegen/llvm/target.h"

#include <llvm-c/Core.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <pthread.h>
#include <string.h>

static pthread_once_t llvm_once = PTHREAD_ONCE_INIT;

/* Only the native target: each of the others would cost its tables. The emitter's addresses are in
 * the form x86 wants, and strength reduction of loops would be a quarter of the compile time; it
 * can be left out only for the whole process, so only where LLVM is the plugin's own. */
static void init_llvm(void) {
  LLVMInitializeNativeTarget();
  LLVMInitializeNativeAsmPrinter();
#if KL_LLVM_STATIC && defined(__x86_64__)
  const char *const arguments[] = {"kael", "-disable-lsr"};
  LLVMParseCommandLineOptions(2, arguments, "");
#endif
}

static bool has_feature(const char *features, const char *name) {
  size_t length = strlen(name);
  bool found = false;
  for (const char *at = features; at && *at; at = strchr(at, ','), at = at ? at + 1 : NULL) {
    if ((at[0] == '+' || at[0] == '-') && strncmp(at + 1, name, length) == 0 &&
        (at[1 + length] == ',' || at[1 + length] == '\0'))
      found = at[0] == '+';
  }
  return found;
}

/* A CPU given by name without features says nothing that the C API could ask for, so x86-64 levels
 * are known by name and any other CPU is taken for a plain one. */
static unsigned vector_nbytes_of(const char *cpu, const char *features) {
  bool avx512 = has_feature(features, "avx512f") && has_feature(features, "avx512bw") &&
                has_feature(features, "avx512dq") && has_feature(features, "avx512vl");
  if (avx512 || strcmp(cpu, "x86-64-v4") == 0) return 64;
  if (has_feature(features, "avx2") || strcmp(cpu, "x86-64-v3") == 0) return 32;
  return 16;
}

kl_status kl_target_init(kl_target *target, const char *cpu, const char *features) {
  *target = (kl_target){0};
  pthread_once(&llvm_once, init_llvm);
  bool host = !cpu || !*cpu;
  target->cpu = host ? LLVMGetHostCPUName() : LLVMCreateMessage(cpu);
  target->features = host && (!features || !*features)
                         ? LLVMGetHostCPUFeatures()
                         : LLVMCreateMessage(features ? features : "");
  char *triple = LLVMGetDefaultTargetTriple();
  char *message = NULL;
  LLVMTargetRef found;
  if (LLVMGetTargetFromTriple(triple, &found, &message)) {
    kl_status status = kl_fail(KL_ERR_COMPILER, "LLVM has no target for %s: %s", triple, message);
    LLVMDisposeMessage(message);
    LLVMDisposeMessage(triple);
    kl_target_finish(target);
    return status;
  }
  target->vector_nbytes = vector_nbytes_of(target->cpu, target->features);
  target->masked = target->vector_nbytes == 64;
  target->machine = LLVMCreateTargetMachine(found, triple, target->cpu, target->features,
                                            LLVMCodeGenLevelLess, LLVMRelocPIC, LLVMCodeModelSmall);
  LLVMDisposeMessage(triple);
  if (target->machine) return KL_OK;
  kl_target_finish(target);
  return kl_fail(KL_ERR_COMPILER, "LLVM could not make a target machine for this CPU");
}

void kl_target_finish(kl_target *target) {
  if (target->machine) LLVMDisposeTargetMachine(target->machine);
  if (target->cpu) LLVMDisposeMessage(target->cpu);
  if (target->features) LLVMDisposeMessage(target->features);
  *target = (kl_target){0};
}
