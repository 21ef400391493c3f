/* Recording of elementwise ops: operands are read, an iteration space is chosen, a value is made.
 *
 * The lock is held only while the operands' current values are taken. The common case (contiguous
 * operands of one shape, and numbers) has a path of its own, because recording must stay cheap.
 */
#include "frontend/record.h"

#include <string.h>

#include "frontend/half.h"
#include "frontend/layout.h"
#include "frontend/record_value.h"

enum { MAX_ARGS = 3 };

kl_status kl_broadcast_shapes(int n, kael_tensor *const *tensors, int *out_ndim,
                              int64_t *out_shape) {
  int ndim = 0;
  for (int i = 0; i < n; i++)
    if (tensors[i] && tensors[i]->ndim > ndim) ndim = tensors[i]->ndim;
  for (int d = 0; d < ndim; d++) out_shape[d] = 1;
  for (int i = 0; i < n; i++) {
    if (!tensors[i]) continue;
    int lead = ndim - tensors[i]->ndim;
    for (int d = lead; d < ndim; d++) {
      int64_t size = tensors[i]->shape[d - lead];
      if (size == 1 || size == out_shape[d]) continue;
      if (out_shape[d] != 1)
        return kl_fail(KL_ERR_RUNTIME,
                       "%s: The size of tensor a (%lld) must match the size of tensor b (%lld) at "
                       "non-singleton dimension %d: the shapes %s and %s cannot be broadcast",
                       kl_thread.site, (long long)out_shape[d], (long long)size, d,
                       kl_shape_text(ndim, out_shape),
                       kl_shape_text(tensors[i]->ndim, tensors[i]->shape));
      out_shape[d] = size;
    }
  }
  *out_ndim = ndim;
  return KL_OK;
}

/* What an elementwise op will make. */
typedef struct elem_plan {
  int ndim;
  const int64_t *shape;
  bool simple; /* one dim, all strides 1 */
  int64_t shape_room[KL_MAX_RANK];
  int64_t strides[KL_MAX_RANK]; /* of the result, unless simple */
  kl_walk walk;                 /* of the operands that are tensors, unless simple */
} elem_plan;

/* All tensors are contiguous and have one shape. */
static bool is_simple(const kl_arg *args, int n_args) {
  const kael_tensor *first = NULL;
  for (int i = 0; i < n_args; i++) {
    const kael_tensor *tensor = args[i].tensor;
    if (!tensor) continue;
    if (!kl_tensor_is_contiguous(tensor)) return false;
    if (first && !kl_tensor_same_shape(first, tensor)) return false;
    first = tensor;
  }
  return first != NULL;
}

/* All tensors have the same strides, of a dense layout, and the result's shape. */
static const kael_tensor *common_dense_layout(const kl_arg *args, int n_args,
                                              const elem_plan *plan) {
  const kael_tensor *first = NULL;
  for (int i = 0; i < n_args; i++) {
    const kael_tensor *tensor = args[i].tensor;
    if (!tensor) return NULL; /* a number broadcasts: PyTorch takes the general way */
    if (!kl_shape_equal(tensor->ndim, tensor->shape, plan->ndim, plan->shape)) return NULL;
    if (first && memcmp(first->strides, tensor->strides, sizeof(int64_t) * (size_t)plan->ndim))
      return NULL;
    if (!first && !kl_tensor_is_dense(tensor)) return NULL;
    first = tensor;
  }
  return first;
}

static void walk_args(const kl_arg *args, int n_args, elem_plan *plan) {
  kl_walk *walk = &plan->walk;
  walk->n_dims = plan->ndim;
  walk->n_walked = 0;
  for (int d = 0; d < plan->ndim; d++) walk->dims[d] = plan->shape[d];
  for (int i = 0; i < n_args; i++)
    if (args[i].tensor)
      kl_layout_broadcast(args[i].tensor, plan->ndim, plan->shape, walk->strides[walk->n_walked++]);
}

static kl_status make_plan(const kl_arg *args, int n_args, kl_layout layout, elem_plan *plan) {
  if (is_simple(args, n_args)) {
    const kael_tensor *first = NULL;
    for (int i = 0; !first; i++) first = args[i].tensor;
    plan->simple = true;
    plan->ndim = first->ndim;
    plan->shape = first->shape;
    return KL_OK;
  }
  kael_tensor *tensors[MAX_ARGS];
  for (int i = 0; i < n_args; i++) tensors[i] = args[i].tensor;
  plan->simple = false;
  plan->shape = plan->shape_room;
  KL_TRY(kl_broadcast_shapes(n_args, tensors, &plan->ndim, plan->shape_room));
  int64_t numel;
  KL_TRY(kl_shape_check(kl_thread.site, plan->ndim, plan->shape, &numel));
  walk_args(args, n_args, plan);
  if (layout == KL_LAYOUT_CONTIGUOUS) {
    kl_shape_contiguous(plan->ndim, plan->shape, plan->strides);
    kl_layout_compact(&plan->walk, NULL);
    return KL_OK;
  }
  int order[KL_MAX_RANK];
  kl_layout_order(&plan->walk, order);
  const kael_tensor *common = common_dense_layout(args, n_args, plan);
  if (common)
    memcpy(plan->strides, common->strides, sizeof(int64_t) * (size_t)plan->ndim);
  else
    kl_layout_dense_strides(&plan->walk, order, plan->strides);
  kl_layout_compact(&plan->walk, order);
  return KL_OK;
}

static int64_t plan_numel(const elem_plan *plan) {
  int64_t numel = 1;
  for (int d = 0; d < plan->ndim; d++) numel *= plan->shape[d];
  return numel;
}

/* A copy or a widening cast has its operand's bounds. */
static void inherit_bounds(kl_value *value, const kl_value *from) {
  kl_dtype dtype = (kl_dtype)value->dtype;
  if (!kl_dtype_is_integer(dtype)) return;
  bool widens = dtype == from->dtype || kl_dtype_size(dtype) > kl_dtype_size((kl_dtype)from->dtype);
  if (widens && from->least <= from->most) {
    value->least = from->least;
    value->most = from->most;
  }
}

/* Makes the value of a plan; the reads are moved into it. */
static kl_status make_value(kl_op op, kl_dtype dtype, const elem_plan *plan, const kl_arg *args,
                            int n_args, kl_read *reads, kl_value **out_value) {
  int64_t numel = plan_numel(plan);
  if (numel == 0) {
    kl_reads_release(reads, n_args);
    return kl_value_create_empty(dtype, 0, out_value);
  }
  int n_dims = plan->simple ? (numel > 1) : plan->walk.n_dims;
  kl_status status = kl_value_create(op, dtype, n_dims, 0, out_value);
  if (status) {
    kl_reads_release(reads, n_args);
    return status;
  }
  kl_value *value = *out_value;
  value->numel = numel;
  value->site = kl_thread.site;
  int64_t one = 1;
  kl_value_set_dims(value, n_dims, plan->simple ? &numel : plan->walk.dims);
  for (int i = 0, walked = 0; i < n_args; i++) {
    if (args[i].tensor)
      kl_value_set_operand(value, i, reads[i].value, args[i].tensor->offset,
                           plan->simple ? &one : plan->walk.strides[walked++]);
    else
      kl_value_set_scalar(value, i, args[i].scalar);
  }
  if ((op == KL_OP_COPY || op == KL_OP_CAST) && reads[0].value)
    inherit_bounds(value, reads[0].value);
  return KL_OK;
}

/* Whether the primitive would compute with f16 or bf16, which only moves may see. */
static bool computes_with_half(kl_op op, const kl_arg *args, int n_args) {
  if (op == KL_OP_COPY || op == KL_OP_CAST || op == KL_OP_BITCAST || op == KL_OP_SELECT) return false;
  for (int i = 0; i < n_args; i++)
    if (args[i].tensor && kl_dtype_is_half((kl_dtype)args[i].tensor->dtype)) return true;
  return false;
}

/* The same in f32, rounded at the end. */
static kl_status record_half(kl_op op, kl_dtype dtype, const kl_arg *args, int n_args,
                             kl_layout layout, kael_tensor **out) {
  kl_arg wide[MAX_ARGS] = {{0}};
  kael_tensor *result = NULL;
  kl_dtype half = KL_F16;
  for (int i = 0; i < n_args; i++)
    if (args[i].tensor) half = (kl_dtype)args[i].tensor->dtype;
  kl_status status = KL_OK;
  for (int i = 0; i < n_args && !status; i++) {
    if (args[i].tensor)
      status = kl_record_cast(args[i].tensor, KL_F32, &wide[i].tensor);
    else
      wide[i].scalar.f32 = kl_half_to_float((uint16_t)args[i].scalar.bits, half);
  }
  if (!status)
    status = kl_record_elem(op, kl_compute_dtype(dtype), wide, n_args, layout, &result);
  if (!status) status = kl_record_cast(result, dtype, out);
  kl_tensor_release(result);
  for (int i = 0; i < n_args; i++) kl_tensor_release(wide[i].tensor);
  return status;
}

kl_status kl_record_elem(kl_op op, kl_dtype dtype, const kl_arg *args, int n_args, kl_layout layout,
                         kael_tensor **out) {
  if (computes_with_half(op, args, n_args))
    return record_half(op, dtype, args, n_args, layout, out);
  elem_plan plan;
  KL_TRY(make_plan(args, n_args, layout, &plan));
  kl_read reads[MAX_ARGS];
  bool reads_shared = false;
  KL_TRY(kl_reads_take(args, n_args, reads, &reads_shared));
  kl_value *value;
  KL_TRY(make_value(op, dtype, &plan, args, n_args, reads, &value));
  return kl_record_finish(value, dtype, plan.ndim, plan.shape, plan.simple ? NULL : plan.strides,
                          reads_shared, out);
}

kl_status kl_record_binary(kl_op op, kael_tensor *a, kael_tensor *b, kael_tensor **out) {
  kl_arg args[2] = {{.tensor = a}, {.tensor = b}};
  kl_dtype dtype = kl_op_table[op].result == KL_RESULT_BOOL ? KL_BOOL : (kl_dtype)a->dtype;
  return kl_record_elem(op, dtype, args, 2, KL_LAYOUT_KEEP, out);
}

kl_status kl_record_binary_scalar(kl_op op, kael_tensor *a, kl_scalar b, kael_tensor **out) {
  kl_arg args[2] = {{.tensor = a}, {.scalar = b}};
  kl_dtype dtype = kl_op_table[op].result == KL_RESULT_BOOL ? KL_BOOL : (kl_dtype)a->dtype;
  return kl_record_elem(op, dtype, args, 2, KL_LAYOUT_KEEP, out);
}

kl_status kl_record_cast(kael_tensor *a, kl_dtype dtype, kael_tensor **out) {
  if (a->dtype == dtype) {
    *out = kl_tensor_retain(a);
    return KL_OK;
  }
  kl_arg args[1] = {{.tensor = a}};
  return kl_record_elem(KL_OP_CAST, dtype, args, 1, KL_LAYOUT_KEEP, out);
}

kl_status kl_record_copy(kael_tensor *a, kl_layout layout, kael_tensor **out) {
  kl_arg args[1] = {{.tensor = a}};
  return kl_record_elem(KL_OP_COPY, (kl_dtype)a->dtype, args, 1, layout, out);
}

kl_status kl_record_fill(kl_dtype dtype, int ndim, const int64_t *shape, kl_scalar number,
                         kael_tensor **out) {
  int64_t numel;
  KL_TRY(kl_shape_check(kl_thread.site, ndim, shape, &numel));
  kl_value *value;
  if (numel == 0) {
    KL_TRY(kl_value_create_empty(dtype, 0, &value));
  } else {
    KL_TRY(kl_value_create(KL_OP_COPY, dtype, numel > 1, 0, &value));
    value->numel = numel;
    value->site = kl_thread.site;
    kl_value_set_dims(value, numel > 1, &numel);
    kl_value_set_scalar(value, 0, number);
    kl_value_set_bounds_of_scalar(value, number);
  }
  return kl_record_finish(value, dtype, ndim, shape, NULL, false, out);
}

kl_status kl_record_index(int64_t n, kael_tensor **out) {
  if (n <= 1) return kl_record_fill(KL_I64, 1, &n, (kl_scalar){0}, out);
  int64_t numel;
  KL_TRY(kl_shape_check(kl_thread.site, 1, &n, &numel));
  kl_value *value;
  KL_TRY(kl_value_create(KL_OP_INDEX, KL_I64, 1, 0, &value));
  value->numel = n;
  value->site = kl_thread.site;
  value->least = 0;
  value->most = n - 1;
  kl_value_set_dims(value, 1, &n);
  return kl_record_finish(value, KL_I64, 1, &n, NULL, false, out);
}
