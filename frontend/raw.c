/* Expressions of raw primitives: the results are kept in a list and freed together. */
#include "frontend/raw.h"

#include <assert.h>

kael_tensor *kl_raw_own(kl_raw *raw, kl_status status, kael_tensor *tensor) {
  if (status) {
    if (!raw->status) raw->status = status;
    return NULL;
  }
  assert(raw->n_temps < KL_RAW_TEMPS);
  return raw->temps[raw->n_temps++] = tensor;
}

/* Bool for a comparison, else operand 0's. */
static kl_dtype result_dtype(kl_op op, const kael_tensor *a) {
  return kl_op_table[op].result == KL_RESULT_BOOL ? KL_BOOL : (kl_dtype)a->dtype;
}

static kael_tensor *record(kl_raw *raw, kl_op op, kl_dtype dtype, const kl_arg *args, int n_args) {
  kael_tensor *result = NULL;
  if (raw->status) return NULL;
  kl_status status = kl_record_elem(op, dtype, args, n_args, KL_LAYOUT_KEEP, &result);
  return kl_raw_own(raw, status, result);
}

kael_tensor *kl_raw_unary(kl_raw *raw, kl_op op, kael_tensor *a) {
  if (!a) return NULL;
  kl_arg args[1] = {{.tensor = a}};
  return record(raw, op, (kl_dtype)a->dtype, args, 1);
}

kael_tensor *kl_raw_binary(kl_raw *raw, kl_op op, kael_tensor *a, kael_tensor *b) {
  if (!a || !b) return NULL;
  kl_arg args[2] = {{.tensor = a}, {.tensor = b}};
  return record(raw, op, result_dtype(op, a), args, 2);
}

kael_tensor *kl_raw_number(kl_raw *raw, kl_op op, kael_tensor *a, kael_scalar number) {
  if (!a) return NULL;
  kl_arg args[2] = {{.tensor = a}, {.scalar = kl_scalar_from(number, (kl_dtype)a->dtype)}};
  return record(raw, op, result_dtype(op, a), args, 2);
}

kael_tensor *kl_raw_number_first(kl_raw *raw, kl_op op, kael_scalar number, kael_tensor *a) {
  if (!a) return NULL;
  kl_arg args[2] = {{.scalar = kl_scalar_from(number, (kl_dtype)a->dtype)}, {.tensor = a}};
  return record(raw, op, result_dtype(op, a), args, 2);
}

kael_tensor *kl_raw_select(kl_raw *raw, kael_tensor *mask, kael_tensor *a, kael_tensor *b) {
  if (!mask || !a || !b) return NULL;
  kl_arg args[3] = {{.tensor = mask}, {.tensor = a}, {.tensor = b}};
  return record(raw, KL_OP_SELECT, (kl_dtype)a->dtype, args, 3);
}

kael_tensor *kl_raw_select_number(kl_raw *raw, kael_tensor *mask, kael_tensor *a, double number) {
  if (!mask || !a) return NULL;
  kl_arg args[3] = {{.tensor = mask},
                    {.tensor = a},
                    {.scalar = kl_scalar_from_double(number, (kl_dtype)a->dtype)}};
  return record(raw, KL_OP_SELECT, (kl_dtype)a->dtype, args, 3);
}

kael_tensor *kl_raw_cast(kl_raw *raw, kael_tensor *a, kl_dtype dtype) {
  kael_tensor *result = NULL;
  if (raw->status || !a) return NULL;
  kl_status status = kl_record_cast(a, dtype, &result);
  return kl_raw_own(raw, status, result);
}

kael_tensor *kl_raw_reduce(kl_raw *raw, kl_op op, kael_tensor *a, uint32_t mask, bool keepdim) {
  kael_tensor *result = NULL;
  if (raw->status || !a) return NULL;
  const bool is_index = op == KL_OP_REDUCE_ARGMAX || op == KL_OP_REDUCE_ARGMIN;
  kl_status status =
      kl_record_reduce(op, is_index ? KL_I64 : (kl_dtype)a->dtype, a, mask, keepdim, &result);
  return kl_raw_own(raw, status, result);
}

kl_status kl_raw_finish(kl_raw *raw, kael_tensor *result, kl_dtype dtype, kael_tensor **out) {
  result = kl_raw_cast(raw, result, dtype);
  /* The cast is the last of the list. */
  const int n_dropped = raw->status ? raw->n_temps : raw->n_temps - 1;
  for (int i = 0; i < n_dropped; i++) kl_tensor_release(raw->temps[i]);
  if (raw->status) return raw->status;
  *out = result;
  return KL_OK;
}
