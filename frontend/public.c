/* The public forms of pow, where, masked_fill, casts, copies and fills. */
#include "frontend/ops.h"
#include "kael/ops.h"
#include "kael/view.h"

kael_tensor *kael_pow(kael_tensor *self, kael_scalar exponent) {
  if (KL_MISSING(self)) return NULL;
  kael_tensor *out = NULL;
  kl_status status = kl_pow(self, exponent, &out);
  return kl_hand_out(status, out);
}

kael_status kael_pow_(kael_tensor *self, kael_scalar exponent) {
  if (KL_MISSING(self)) return kael_last_error().code;
  return (kael_status)kl_pow_(self, exponent);
}

kael_tensor *kael_where(kael_tensor *condition, kael_tensor *self, kael_tensor *other) {
  if (KL_MISSING(condition, self, other)) return NULL;
  kael_tensor *out = NULL;
  kl_status status = kl_where(condition, self, other, &out);
  return kl_hand_out(status, out);
}

kael_tensor *kael_masked_fill(kael_tensor *self, kael_tensor *mask, kael_scalar value) {
  if (KL_MISSING(self, mask)) return NULL;
  kael_tensor *out = NULL;
  kl_status status = kl_masked_fill(self, mask, value, &out);
  return kl_hand_out(status, out);
}

kael_status kael_masked_fill_(kael_tensor *self, kael_tensor *mask, kael_scalar value) {
  if (KL_MISSING(self, mask)) return kael_last_error().code;
  return (kael_status)kl_masked_fill_(self, mask, value);
}

kael_tensor *kael_to_dtype(kael_tensor *self, kael_dtype dtype) {
  if (KL_MISSING(self)) return NULL;
  kael_tensor *out = NULL;
  kl_status status = kl_to_dtype(self, (kl_dtype)dtype, &out);
  return kl_hand_out(status, out);
}

kael_tensor *kael_clone(kael_tensor *self) {
  if (KL_MISSING(self)) return NULL;
  kael_tensor *out = NULL;
  kl_status status = kl_clone(self, &out);
  return kl_hand_out(status, out);
}

kael_tensor *kael_contiguous(kael_tensor *self) {
  if (KL_MISSING(self)) return NULL;
  kael_tensor *out = NULL;
  kl_status status = kl_contiguous(self, &out);
  return kl_hand_out(status, out);
}

kael_status kael_fill_(kael_tensor *self, kael_scalar value) {
  if (KL_MISSING(self)) return kael_last_error().code;
  return (kael_status)kl_fill_(self, value);
}

kael_status kael_zero_(kael_tensor *self) {
  if (KL_MISSING(self)) return kael_last_error().code;
  return (kael_status)kl_zero_(self);
}

kael_status kael_copy_(kael_tensor *self, kael_tensor *src) {
  if (KL_MISSING(self, src)) return kael_last_error().code;
  return (kael_status)kl_copy_(self, src);
}
