/* Expressions of raw primitives, for operators that are composed of several.
 *
 * Results belong to the kl_raw until kl_raw_finish. A NULL operand gives NULL, and after a failure
 * everything does, so that only the end is looked at. f16 and bf16 operands are the caller's to
 * widen (kl_raw_cast), so that a composed operator rounds once.
 */
#ifndef KL_FRONTEND_RAW_H
#define KL_FRONTEND_RAW_H

#include "frontend/half.h"
#include "frontend/record.h"

enum { KL_RAW_TEMPS = 32 };

typedef struct kl_raw {
  kl_status status;
  int n_temps;
  kael_tensor *temps[KL_RAW_TEMPS];
} kl_raw;

/* Takes over a new tensor; NULL where the status is bad. */
kael_tensor *kl_raw_own(kl_raw *raw, kl_status status, kael_tensor *tensor);
kael_tensor *kl_raw_unary(kl_raw *raw, kl_op op, kael_tensor *a);
kael_tensor *kl_raw_binary(kl_raw *raw, kl_op op, kael_tensor *a, kael_tensor *b);
/* a op number, and number op a. */
kael_tensor *kl_raw_number(kl_raw *raw, kl_op op, kael_tensor *a, kael_scalar number);
kael_tensor *kl_raw_number_first(kl_raw *raw, kl_op op, kael_scalar number, kael_tensor *a);
kael_tensor *kl_raw_select(kl_raw *raw, kael_tensor *mask, kael_tensor *a, kael_tensor *b);
kael_tensor *kl_raw_select_number(kl_raw *raw, kael_tensor *mask, kael_tensor *a, double number);
kael_tensor *kl_raw_cast(kl_raw *raw, kael_tensor *a, kl_dtype dtype);
kael_tensor *kl_raw_reduce(kl_raw *raw, kl_op op, kael_tensor *a, uint32_t mask, bool keepdim);
/* Frees all but `result`, which *out gets, cast to `dtype`. */
kl_status kl_raw_finish(kl_raw *raw, kael_tensor *result, kl_dtype dtype,
                        kael_tensor **out) KL_MUST_CHECK;

#endif
