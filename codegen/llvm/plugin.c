/* The plugin's entry: compiles one section to an object in memory (ir/plugin.h).
 *
 * The code is emitted in the form it shall have, so no pass pipeline runs over it, only LLVM's
 * code generator.
 */
#include "ir/plugin.h"

#include <llvm-c/Analysis.h>
#include <llvm/Config/llvm-config.h>
#include <stdio.h>
#include <string.h>

#include "codegen/llvm/emit.h"
#include "ir/support/memory.h"

static void open_types(kl_emit *e) {
  LLVMContextRef c = e->context;
  e->i1 = LLVMInt1TypeInContext(c);
  e->i8 = LLVMInt8TypeInContext(c);
  e->i16 = LLVMInt16TypeInContext(c);
  e->i32 = LLVMInt32TypeInContext(c);
  e->i64 = LLVMInt64TypeInContext(c);
  e->f32 = LLVMFloatTypeInContext(c);
  e->f64 = LLVMDoubleTypeInContext(c);
  e->ptr = LLVMPointerTypeInContext(c, 0);
  e->kind_invariant = LLVMGetMDKindIDInContext(c, "invariant.load", 14);
  e->kind_scope = LLVMGetMDKindIDInContext(c, "alias.scope", 11);
  e->kind_noalias = LLVMGetMDKindIDInContext(c, "noalias", 7);
}

static kl_status open_emit(kl_emit *e, const kl_target *target, const kl_kernel *kernel,
                           uint32_t section) {
  *e = (kl_emit){.kernel = kernel, .section = &kernel->sections.data[section], .target = target};
  e->context = LLVMContextCreate();
  if (!e->context) return kl_fail_memory("compiling a kernel", 0);
  e->module = LLVMModuleCreateWithNameInContext("kernel", e->context);
  e->builder = LLVMCreateBuilderInContext(e->context);
  e->pre = LLVMCreateBuilderInContext(e->context);
  char *triple = LLVMGetTargetMachineTriple(target->machine);
  LLVMSetTarget(e->module, triple);
  LLVMDisposeMessage(triple);
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(target->machine);
  LLVMSetModuleDataLayout(e->module, layout);
  LLVMDisposeTargetData(layout);
  open_types(e);
  return KL_OK;
}

static void close_emit(kl_emit *e) {
  if (e->builder) LLVMDisposeBuilder(e->builder);
  if (e->pre) LLVMDisposeBuilder(e->pre);
  if (e->module) LLVMDisposeModule(e->module);
  if (e->context) LLVMContextDispose(e->context);
  kl_arena_finish(&e->arena);
}

static kl_status fail_llvm(const char *what, char *message) {
  kl_status status = kl_fail(KL_ERR_COMPILER, "LLVM: %s: %s", what, message ? message : "unknown");
  if (message) LLVMDisposeMessage(message);
  return status;
}

static kl_status dump_ir(const kl_emit *e, const kl_compile_options *options) {
  if (!options->dump) return KL_OK;
  char *text = LLVMPrintModuleToString(e->module);
  options->dump(options->dump_user, "llvm", text);
  LLVMDisposeMessage(text);
  return KL_OK;
}

/* Assembly is printed from a copy: the code generator changes the module it is given. */
static kl_status dump_asm(const kl_emit *e, const kl_compile_options *options) {
  if (!options->dump) return KL_OK;
  LLVMModuleRef copy = LLVMCloneModule(e->module);
  LLVMMemoryBufferRef buffer = NULL;
  char *message = NULL;
  if (LLVMTargetMachineEmitToMemoryBuffer(e->target->machine, copy, LLVMAssemblyFile, &message,
                                          &buffer)) {
    LLVMDisposeModule(copy);
    return fail_llvm("printing assembly", message);
  }
  options->dump(options->dump_user, "asm", LLVMGetBufferStart(buffer));
  LLVMDisposeMemoryBuffer(buffer);
  LLVMDisposeModule(copy);
  return KL_OK;
}

static kl_status emit_object(const kl_emit *e, kl_object *out_object) {
  LLVMMemoryBufferRef buffer = NULL;
  char *message = NULL;
  if (LLVMTargetMachineEmitToMemoryBuffer(e->target->machine, e->module, LLVMObjectFile, &message,
                                          &buffer))
    return fail_llvm("emitting an object", message);
  size_t nbytes = LLVMGetBufferSize(buffer);
  void *bytes = kl_malloc(nbytes);
  if (bytes) memcpy(bytes, LLVMGetBufferStart(buffer), nbytes);
  LLVMDisposeMemoryBuffer(buffer);
  if (!bytes) return kl_fail_memory("the object of a kernel", nbytes);
  *out_object = (kl_object){.bytes = bytes, .nbytes = nbytes};
  return KL_OK;
}

/* LLVM's verifier runs where asserts do. */
static kl_status verify(const kl_emit *e) {
#ifndef NDEBUG
  char *message = NULL;
  if (LLVMVerifyModule(e->module, LLVMReturnStatusAction, &message))
    return fail_llvm("the emitted code is not valid", message);
  if (message) LLVMDisposeMessage(message);
#else
  (void)e;
#endif
  return KL_OK;
}

static kl_status compile(const kl_kernel *kernel, uint32_t section,
                         const kl_compile_options *options, kl_object *out_object) {
  kl_target target;
  kl_emit e = {0};
  if (section >= kernel->sections.count)
    return kl_fail(KL_ERR_INTERNAL, "section %u of a kernel of %u", section,
                   kernel->sections.count);
  KL_TRY(kl_target_init(&target, options->cpu, options->features));
  kl_status status;
  KL_TRY_GOTO(status, open_emit(&e, &target, kernel, section), done);
  KL_TRY_GOTO(status, kl_emit_section(&e, options->symbol), done);
  KL_TRY_GOTO(status, dump_ir(&e, options), done);
  KL_TRY_GOTO(status, verify(&e), done);
  KL_TRY_GOTO(status, dump_asm(&e, options), done);
  KL_TRY_GOTO(status, emit_object(&e, out_object), done);
done:
  close_emit(&e);
  kl_target_finish(&target);
  return status;
}

static void release(kl_object *object) {
  kl_free(object->bytes);
  *object = (kl_object){0};
}

/* C++ registers its destructors here, and in this library nothing is destroyed: a process may end
 * while a thread compiles, and LLVM's global objects must live as long as that. Libraries that the
 * plugin links dynamically have the usual function. */
int __cxa_atexit(void (*destroy)(void *object), void *object, void *library);

int __cxa_atexit(void (*destroy)(void *object), void *object, void *library) {
  (void)destroy, (void)object, (void)library;
  return 0;
}

__attribute__((visibility("default"))) const kl_llvm_plugin *kl_llvm_plugin_entry(void);

const kl_llvm_plugin *kl_llvm_plugin_entry(void) {
  static const kl_llvm_plugin table = {
      .abi = KL_PLUGIN_ABI,
      .build = KL_VERSION,
      .llvm_version = LLVM_VERSION_STRING,
      .compile = compile,
      .release = release,
      .error_message = kl_error_message,
  };
  return &table;
}
