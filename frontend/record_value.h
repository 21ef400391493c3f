/* What the files that record share: reading operands, filling values in, finishing. */
#ifndef KL_FRONTEND_RECORD_VALUE_H
#define KL_FRONTEND_RECORD_VALUE_H

#include <string.h>

#include "frontend/record.h"

/* An operand's value, retained, in the tensor's dtype; NULL for a scalar. */
typedef struct kl_read {
  kl_value *value;
} kl_read;

/* Takes the current values of all tensors; nothing is held on failure. `*out_shared` is set where a
 * storage is SHARED. */
kl_status kl_reads_take(const kl_arg *args, int n_args, kl_read *out_reads,
                        bool *out_shared) KL_MUST_CHECK;
void kl_reads_release(kl_read *reads, int n_args);

/* The value of a storage of `nbytes` seen in another dtype: a bitcast where the sizes are equal,
 * else its bytes, computed. The reference to `value` is taken over, on failure too. */
kl_status kl_value_reinterpret(kl_value *value, kl_dtype dtype, size_t nbytes,
                               kl_value **out_value) KL_MUST_CHECK;

/* `numel` elements of any content, to be written wholly; where there are none, a REAL value. No
 * other recorded node has an empty iteration space. */
kl_status kl_value_create_empty(kl_dtype dtype, int64_t numel, kl_value **out_value) KL_MUST_CHECK;

static inline void kl_value_set_dims(kl_value *value, int n_dims, const int64_t *dims) {
  int64_t *into = (int64_t *)value->dims;
  for (int d = 0; d < n_dims; d++) into[d] = dims[d];
}

/* The reference to `operand` is taken over. */
static inline void kl_value_set_operand(kl_value *value, int at, kl_value *operand, int64_t offset,
                                        const int64_t *strides) {
  value->operands[at].value = operand;
  value->operands[at].offset = offset;
  int64_t *into = (int64_t *)value->operands[at].strides;
  for (int d = 0; d < value->n_dims; d++) into[d] = strides[d];
}

static inline void kl_value_set_scalar(kl_value *value, int at, kl_scalar scalar) {
  value->operands[at].scalar = scalar;
  value->operands[at].strides = NULL;
}

/* An integer value all of whose elements are `scalar`. */
void kl_value_set_bounds_of_scalar(kl_value *value, kl_scalar scalar);

/* A new tensor for `value` (taken over, on failure too), and kl_recorded. */
kl_status kl_record_finish(kl_value *value, kl_dtype dtype, int ndim, const int64_t *shape,
                           const int64_t *strides, bool reads_shared,
                           kael_tensor **out) KL_MUST_CHECK;

#endif
