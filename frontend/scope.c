/* Handles: references, scopes that own them, and the errors of public calls. */
#include "kael/scope.h"

#include "frontend/ops.h"
#include "ir/support/log.h"
#include "ir/support/vec.h"

/* An open scope of a thread; `outer` is the enclosing one. */
typedef struct kl_scope {
  struct kl_scope *outer;
  KL_VEC(kael_tensor *) handles;
} kl_scope;

static char none_place;
kael_tensor *const KAEL_NONE = (kael_tensor *)(void *)&none_place;

/* --- Scopes ----------------------------------------------------------------------------------- */

/* Puts an owned handle into a scope; on failure the handle is released. */
static kl_status put(kl_scope *scope, kael_tensor *tensor) {
  if (!kl_vec_push(&scope->handles, tensor)) {
    kl_tensor_release(tensor);
    return kl_fail_memory("scope", sizeof tensor);
  }
  atomic_fetch_add_explicit(&tensor->scope_refs, 1, memory_order_relaxed);
  return KL_OK;
}

kael_tensor *kl_hand_out(kl_status status, kael_tensor *tensor) {
  if (status) return NULL;
  if (kl_thread.scope && put(kl_thread.scope, tensor)) return NULL;
  return tensor;
}

kael_status kael_scope_begin(void) {
  kl_scope *scope = kl_calloc(1, sizeof *scope);
  if (!scope) return (kael_status)kl_fail_memory("scope_begin", sizeof *scope);
  scope->outer = kl_thread.scope;
  kl_thread.scope = scope;
  return KAEL_OK;
}

kael_status kael_scope_end(void) {
  kl_scope *scope = kl_thread.scope;
  if (!scope) return (kael_status)kl_fail(KL_ERR_RUNTIME, "scope_end: no scope is open");
  kl_thread.scope = scope->outer;
  for (uint32_t i = scope->handles.count; i > 0; i--) {
    kael_tensor *tensor = scope->handles.data[i - 1];
    atomic_fetch_sub_explicit(&tensor->scope_refs, 1, memory_order_relaxed);
    kl_tensor_release(tensor);
  }
  kl_vec_finish(&scope->handles);
  kl_free(scope);
  return KAEL_OK;
}

/* Takes one handle of the tensor out of a scope; false where the scope has none. */
static bool take(kl_scope *scope, kael_tensor *tensor) {
  /* What is kept was made lately, most times. */
  for (uint32_t i = scope->handles.count; i > 0; i--) {
    if (scope->handles.data[i - 1] != tensor) continue;
    for (; i < scope->handles.count; i++) scope->handles.data[i - 1] = scope->handles.data[i];
    scope->handles.count--;
    atomic_fetch_sub_explicit(&tensor->scope_refs, 1, memory_order_relaxed);
    return true;
  }
  return false;
}

kael_tensor *kael_keep(kael_tensor *tensor) {
  kl_scope *scope = kl_thread.scope;
  if (!tensor || tensor == KAEL_NONE || !scope) return tensor;
  if (take(scope, tensor) && scope->outer && put(scope->outer, tensor)) return NULL;
  return tensor;
}

kael_tensor *kael_own(kael_tensor *tensor) {
  for (kl_scope *scope = kl_thread.scope; scope; scope = scope->outer)
    if (take(scope, tensor)) break;
  return tensor;
}

/* --- References ------------------------------------------------------------------------------- */

kael_tensor *kael_retain(kael_tensor *tensor) {
  if (tensor && tensor != KAEL_NONE) kl_tensor_retain(tensor);
  return tensor;
}

kael_status kael_release(kael_tensor *tensor) {
  if (!tensor || tensor == KAEL_NONE) return KAEL_OK;
  if (atomic_load_explicit(&tensor->refs, memory_order_relaxed) <=
      atomic_load_explicit(&tensor->scope_refs, memory_order_relaxed))
    return (kael_status)kl_fail(KL_ERR_RUNTIME,
                                "release: the handle belongs to an open scope, which will release "
                                "it; call kael_keep first");
  kl_tensor_release(tensor);
  return KAEL_OK;
}

/* --- Errors ----------------------------------------------------------------------------------- */

bool kl_operand_missing(const kael_tensor *const *operands, int n_operands) {
  if (!operands && n_operands > 0) {
    kl_fail(KL_ERR_VALUE, "the list of tensors is NULL");
    return true;
  }
  for (int i = 0; i < n_operands; i++) {
    if (operands[i] && operands[i] != KAEL_NONE) continue;
    if (operands[i])
      kl_fail(KL_ERR_VALUE, "KAEL_NONE was given for an operand that is not optional");
    else if (kl_error_code() == KL_OK)
      kl_fail(KL_ERR_VALUE, "an operand is NULL, and no earlier error is stored");
    return true;
  }
  return false;
}

#define SAME(public, internal)                                                                     \
  _Static_assert((int)(public) == (int)(internal), "public and internal codes are the same "       \
                                                   "numbers")
SAME(KAEL_OK, KL_OK);
SAME(KAEL_ERR_RUNTIME, KL_ERR_RUNTIME);
SAME(KAEL_ERR_INDEX, KL_ERR_INDEX);
SAME(KAEL_ERR_TYPE, KL_ERR_TYPE);
SAME(KAEL_ERR_VALUE, KL_ERR_VALUE);
SAME(KAEL_ERR_NOT_IMPLEMENTED, KL_ERR_NOT_IMPLEMENTED);
SAME(KAEL_ERR_OUT_OF_MEMORY, KL_ERR_OUT_OF_MEMORY);
SAME(KAEL_ERR_COMPILER, KL_ERR_COMPILER);
SAME(KAEL_ERR_IO, KL_ERR_IO);
SAME(KAEL_ERR_DEVICE, KL_ERR_DEVICE);
SAME(KAEL_ERR_INTERNAL, KL_ERR_INTERNAL);

kael_error kael_last_error(void) {
  return (kael_error){(kael_status)kl_error_code(), kl_error_message()};
}

void kael_clear_error(void) { kl_error_clear(); }

const char *kael_status_name(kael_status status) { return kl_status_name((kl_status)status); }

void kael_set_log_callback(kael_log_callback callback, void *user) {
  kl_log_set_callback(callback, user);
}
