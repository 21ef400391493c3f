/* kael/scope.h: ownership of handles, one by one and in scopes. */
#ifndef KAEL_SCOPE_H
#define KAEL_SCOPE_H

#include "kael/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One more reference to the same tensor; returns it. NULL stays NULL. The new reference is the
 * caller's, whatever scopes are open. */
KAEL_API kael_tensor *kael_retain(kael_tensor *tensor);
/* Gives up one reference; with the last the tensor dies. NULL and KAEL_NONE are fine.
 * KAEL_ERR_RUNTIME, and nothing happens, when all references belong to open scopes. */
KAEL_API kael_status kael_release(kael_tensor *tensor);

/* Until the matching kael_scope_end, every handle that a function of this library hands out on this
 * thread belongs to the scope, which releases it: nested expressions do not leak. Scopes nest.
 * KAEL_ERR_OUT_OF_MEMORY. */
KAEL_API kael_status kael_scope_begin(void);
/* Releases the handles of the innermost scope. KAEL_ERR_RUNTIME where none is open. */
KAEL_API kael_status kael_scope_end(void);
/* Moves a handle out of the innermost scope, to the enclosing one, else to the caller, who then owns
 * it; returns it. A handle that the scope does not own is returned as it is. NULL stays NULL. */
KAEL_API kael_tensor *kael_keep(kael_tensor *tensor);
/* Moves a handle out of all open scopes to the caller, who then owns it; returns it. For bindings,
 * whose objects may outlive the scopes around them. NULL stays NULL. */
KAEL_API kael_tensor *kael_own(kael_tensor *tensor);

#ifdef __cplusplus
}
#endif
#endif
