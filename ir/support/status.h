/* Status codes and the thread's last error.
 *
 * A fallible function returns kl_status; KL_OK is 0. Whoever finds a fault calls kl_fail once,
 * which stores code and message for this thread and returns the code; callers only pass it on
 * with KL_TRY. Storing allocates nothing, so that running out of memory can be reported.
 */
#ifndef KL_IR_SUPPORT_STATUS_H
#define KL_IR_SUPPORT_STATUS_H

typedef enum kl_status {
  KL_OK = 0,
  KL_ERR_RUNTIME,         /* arguments that do not go together: shapes, devices, leaf checks */
  KL_ERR_INDEX,           /* an index or a dimension out of range */
  KL_ERR_TYPE,            /* a dtype or kind of argument that the operation does not take */
  KL_ERR_VALUE,           /* a single argument with an impossible value */
  KL_ERR_NOT_IMPLEMENTED, /* defined by the API, absent in this build */
  KL_ERR_OUT_OF_MEMORY,
  KL_ERR_COMPILER, /* code generation failed or is not built in */
  KL_ERR_IO,
  KL_ERR_DEVICE,
  KL_ERR_INTERNAL, /* our own bug, found by a verifier */
} kl_status;

#define KL_MUST_CHECK __attribute__((warn_unused_result))

#define KL_TRY(expr)                                                                               \
  do {                                                                                             \
    kl_status kl_try_status_ = (expr);                                                             \
    if (__builtin_expect(kl_try_status_ != KL_OK, 0)) return kl_try_status_;                       \
  } while (0)

#define KL_TRY_GOTO(status_var, expr, label)                                                       \
  do {                                                                                             \
    (status_var) = (expr);                                                                         \
    if (__builtin_expect((status_var) != KL_OK, 0)) goto label;                                    \
  } while (0)

/* Stores the thread's error (printf format, cut at KL_ERROR_CAPACITY - 1 bytes); returns `code`. */
enum { KL_ERROR_CAPACITY = 2048 };
kl_status kl_fail(kl_status code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same for an allocation of `nbytes` that failed. */
kl_status kl_fail_memory(const char *what, unsigned long long nbytes);

/* Puts `prefix` in front of the stored message, to name the operation the fault occurred in. */
void kl_error_prefix(const char *prefix);

kl_status kl_error_code(void);
const char *kl_error_message(void); /* "" when no error is stored; valid until the next one */
const char *kl_status_name(kl_status code);
void kl_error_clear(void);

/* For a caller that goes on after a failure: what was stored before it, for the user to see. */
typedef struct kl_error {
  kl_status code;
  char message[KL_ERROR_CAPACITY];
} kl_error;
void kl_error_save(kl_error *out_error);
void kl_error_restore(const kl_error *error);

#endif
