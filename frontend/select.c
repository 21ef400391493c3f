/* Elementwise operators written by hand: pow, where, masked_fill, casts, copies, fills. */
#include "frontend/half.h"
#include "frontend/ops.h"
#include "frontend/promote.h"
#include "kael/ops.h"
#include "kael/view.h"

/* Gives a new tensor its history; on failure it is released. */
static kl_status track(kl_status status, kl_fn fn, kael_tensor *const *inputs, int n_inputs,
                       const kl_fn_attrs *attrs, kael_tensor *result, kael_tensor **out) {
  if (status) return status;
  if (kl_autograd_wanted(inputs, n_inputs)) {
    status = kl_autograd_track(fn, inputs, n_inputs, &result, 1, attrs);
    if (status) {
      kl_tensor_release(result);
      return status;
    }
  }
  *out = result;
  return KL_OK;
}

/* Checks self and the operands of an in-place operator, and tells autograd. */
static kl_status begin_inplace(kl_fn fn, const char *name, kael_tensor *const *inputs, int n_inputs,
                               const kl_fn_attrs *attrs, struct kl_autograd_node **out_node) {
  *out_node = NULL;
  KL_TRY(kl_check_inplace(inputs[0], name));
  if (kl_autograd_sees(inputs, n_inputs))
    KL_TRY(kl_autograd_inplace_begin(fn, inputs, n_inputs, attrs, out_node));
  kl_set_site(name);
  return KL_OK;
}

/* --- pow -------------------------------------------------------------------------------------- */

typedef struct pow_plan {
  kl_dtype result;
  kl_dtype dtype; /* that it is computed in */
  double exponent;
  kl_scalar scalar; /* the exponent in the dtype */
} pow_plan;

static kl_status plan_pow(const char *name, kael_tensor *self, kael_scalar exponent,
                          pow_plan *plan) {
  plan->result = kl_result_type(&self, 1, &exponent);
  plan->dtype = kl_compute_dtype(plan->result);
  if (exponent.kind == KAEL_SCALAR_INT && exponent.as.i < 0 && !kl_dtype_is_float(plan->dtype))
    return kl_fail(KL_ERR_RUNTIME, "%s: Integers to negative integer powers are not allowed.",
                   name);
  KL_TRY(kl_check_number(name, exponent, plan->dtype));
  plan->exponent = exponent.kind == KAEL_SCALAR_FLOAT ? exponent.as.f
                   : exponent.kind == KAEL_SCALAR_INT ? (double)exponent.as.i
                                                      : (double)exponent.as.b;
  plan->scalar = kl_scalar_from(exponent, plan->dtype);
  return KL_OK;
}

/* The last primitive of the power, whose operands it returns in args; what must be computed before
 * goes into *temp. `x` has the plan's dtype. */
static kl_status pow_primitive(const pow_plan *plan, kael_tensor *x, kael_tensor **temp, kl_op *op,
                               kl_arg *args, int *n_args) {
  bool is_float = kl_dtype_is_float(plan->dtype);
  args[0] = args[1] = kl_arg_tensor(x);
  *n_args = 1;
  if (plan->exponent == 1) {
    *op = KL_OP_COPY;
  } else if (plan->dtype == KL_BOOL) { /* the exponent is false, and the power 1 */
    *op = KL_OP_OR;
    args[1] = kl_arg_scalar(kl_scalar_from_int(1, KL_BOOL));
    *n_args = 2;
  } else if (plan->exponent == 0.5 && is_float) {
    *op = KL_OP_SQRT;
  } else if (plan->exponent == -1 && is_float) {
    *op = KL_OP_RECIPROCAL;
  } else if (plan->exponent == -2 && is_float) {
    KL_TRY(kl_record_binary(KL_OP_MUL, x, x, temp));
    args[0] = kl_arg_tensor(*temp);
    *op = KL_OP_RECIPROCAL;
  } else if (plan->exponent == 2 || plan->exponent == 3) {
    *op = KL_OP_MUL;
    *n_args = 2;
    if (plan->exponent == 3) {
      KL_TRY(kl_record_binary(KL_OP_MUL, x, x, temp));
      args[0] = kl_arg_tensor(*temp);
    }
  } else {
    *op = KL_OP_POW;
    args[1] = kl_arg_scalar(plan->scalar);
    *n_args = 2;
  }
  return KL_OK;
}

kl_status kl_pow(kael_tensor *self, kael_scalar exponent, kael_tensor **out) {
  kl_set_site("pow");
  pow_plan plan;
  KL_TRY(plan_pow("pow", self, exponent, &plan));
  kael_tensor *x, *temp = NULL, *result = NULL;
  KL_TRY(kl_record_cast(self, plan.dtype, &x));
  kl_op op;
  kl_arg args[2];
  int n_args;
  kl_status status = pow_primitive(&plan, x, &temp, &op, args, &n_args);
  if (!status) status = kl_record_elem(op, plan.dtype, args, n_args, KL_LAYOUT_KEEP, &result);
  kl_tensor_release(x);
  kl_tensor_release(temp);
  if (!status && plan.dtype != plan.result) {
    kael_tensor *wide = result;
    status = kl_record_cast(wide, plan.result, &result);
    kl_tensor_release(wide);
  }
  kl_fn_attrs attrs = {.number = exponent};
  return track(status, KL_FN_POW, &self, 1, &attrs, result, out);
}

kl_status kl_pow_(kael_tensor *self, kael_scalar exponent) {
  kl_set_site("pow_");
  pow_plan plan;
  KL_TRY(plan_pow("pow_", self, exponent, &plan));
  if (!kl_can_cast(plan.result, (kl_dtype)self->dtype))
    return kl_fail(KL_ERR_RUNTIME,
                   "pow_: result type %s can't be cast to the desired output type %s",
                   kl_dtype_torch_name(plan.result), kl_dtype_torch_name((kl_dtype)self->dtype));
  kl_fn_attrs attrs = {.number = exponent};
  struct kl_autograd_node *node;
  KL_TRY(begin_inplace(KL_FN_POW, "pow_", &self, 1, &attrs, &node));
  kael_tensor *x = NULL, *temp = NULL;
  kl_op op;
  kl_arg args[2];
  int n_args;
  kl_status status = kl_record_cast(self, plan.dtype, &x);
  if (!status) status = pow_primitive(&plan, x, &temp, &op, args, &n_args);
  if (!status) status = kl_record_write(self, op, plan.dtype, args, n_args);
  kl_tensor_release(x);
  kl_tensor_release(temp);
  return kl_autograd_inplace_finish(status, node, self);
}

/* --- where and masked_fill -------------------------------------------------------------------- */

kl_status kl_where(kael_tensor *condition, kael_tensor *self, kael_tensor *other,
                   kael_tensor **out) {
  kl_set_site("where");
  if (condition->dtype != KL_BOOL && condition->dtype != KL_U8)
    return kl_fail(KL_ERR_RUNTIME, "where: expected condition to be a boolean tensor, but got %s",
                   kl_dtype_torch_name((kl_dtype)condition->dtype));
  kael_tensor *choices[2] = {self, other};
  kl_dtype dtype = kl_result_type(choices, 2, NULL);
  kael_tensor *mask = NULL, *a = NULL, *b = NULL, *result = NULL;
  kl_status status = kl_record_cast(condition, KL_BOOL, &mask);
  if (!status) status = kl_record_cast(self, dtype, &a);
  if (!status) status = kl_record_cast(other, dtype, &b);
  if (!status) {
    kl_arg args[3] = {{.tensor = mask}, {.tensor = a}, {.tensor = b}};
    status = kl_record_elem(KL_OP_SELECT, dtype, args, 3, KL_LAYOUT_KEEP, &result);
  }
  kl_tensor_release(mask);
  kl_tensor_release(a);
  kl_tensor_release(b);
  kael_tensor *inputs[3] = {condition, self, other};
  kl_fn_attrs attrs = {0};
  return track(status, KL_FN_WHERE, inputs, 3, &attrs, result, out);
}

static kl_status check_masked_fill(const char *name, const kael_tensor *self,
                                   const kael_tensor *mask, kael_scalar value) {
  if (mask->dtype != KL_BOOL)
    return kl_fail(KL_ERR_RUNTIME, "%s only supports boolean masks, but got mask with dtype %s",
                   name, kl_dtype_torch_name((kl_dtype)mask->dtype));
  return kl_check_number(name, value, (kl_dtype)self->dtype);
}

kl_status kl_masked_fill(kael_tensor *self, kael_tensor *mask, kael_scalar value,
                         kael_tensor **out) {
  kl_set_site("masked_fill");
  KL_TRY(check_masked_fill("masked_fill", self, mask, value));
  kl_dtype dtype = (kl_dtype)self->dtype;
  kl_arg args[3] = {{.tensor = mask}, {.scalar = kl_scalar_from(value, dtype)}, {.tensor = self}};
  kael_tensor *result = NULL;
  kl_status status = kl_record_elem(KL_OP_SELECT, dtype, args, 3, KL_LAYOUT_CONTIGUOUS, &result);
  kael_tensor *inputs[2] = {self, mask};
  kl_fn_attrs attrs = {.number = value};
  return track(status, KL_FN_MASKED_FILL, inputs, 2, &attrs, result, out);
}

/* `src` broadcasts to self's shape. */
static kl_status check_fits(const char *name, kael_tensor *self, kael_tensor *src) {
  kael_tensor *tensors[2] = {self, src};
  int ndim;
  int64_t shape[KL_MAX_RANK];
  KL_TRY(kl_broadcast_shapes(2, tensors, &ndim, shape));
  if (kl_shape_equal(ndim, shape, self->ndim, self->shape)) return KL_OK;
  return kl_fail(KL_ERR_RUNTIME, "%s: output with shape %s doesn't match the broadcast shape %s",
                 name, kl_shape_text(self->ndim, self->shape), kl_shape_text(ndim, shape));
}

/* One number, so it does not matter how many positions are one element: as in PyTorch, an expanded
 * tensor may be written. `out_into` has each of its elements once, and `out_mask` holds where the
 * mask does at any of an element's positions. Both are owned. */
static kl_status without_repeats(kael_tensor *self, kael_tensor *mask, kael_tensor **out_into,
                                 kael_tensor **out_mask) {
  uint32_t repeats = 0;
  int64_t shape[KL_MAX_RANK];
  for (int d = 0; d < self->ndim; d++) {
    const bool repeated = self->strides[d] == 0 && self->shape[d] > 1;
    shape[d] = repeated ? 1 : self->shape[d];
    repeats |= (uint32_t)repeated << d;
  }
  if (!repeats) {
    *out_into = kl_tensor_retain(self);
    *out_mask = kl_tensor_retain(mask);
    return KL_OK;
  }
  kael_tensor *wide, *any;
  KL_TRY(kl_expand(mask, self->ndim, self->shape, &wide));
  kl_status status = kl_any(wide, repeats, true, &any);
  kl_tensor_release(wide);
  if (status) return status;
  status = kl_tensor_view(self, self->ndim, shape, self->strides, self->offset, out_into);
  if (status)
    kl_tensor_release(any);
  else
    *out_mask = any;
  return status;
}

static kl_status masked_write(kael_tensor *self, kael_tensor *mask, kael_scalar value) {
  kl_dtype dtype = (kl_dtype)self->dtype;
  kl_arg args[3] = {{.tensor = mask}, {.scalar = kl_scalar_from(value, dtype)}, {.tensor = self}};
  return kl_record_write(self, KL_OP_SELECT, dtype, args, 3);
}

kl_status kl_masked_fill_(kael_tensor *self, kael_tensor *mask, kael_scalar value) {
  static const char name[] = "masked_fill_";
  kl_set_site(name);
  KL_TRY(check_masked_fill(name, self, mask, value));
  KL_TRY(check_fits(name, self, mask));
  kael_tensor *into, *where, *inputs[2] = {self, mask};
  KL_TRY(without_repeats(self, mask, &into, &where));
  kl_fn_attrs attrs = {.number = value};
  struct kl_autograd_node *node = NULL;
  kl_status status = kl_check_inplace(into, name);
  if (!status && kl_autograd_sees(inputs, 2))
    status = kl_autograd_inplace_begin(KL_FN_MASKED_FILL, inputs, 2, &attrs, &node);
  kl_set_site(name);
  if (!status) status = masked_write(into, where, value);
  kl_tensor_release(into);
  kl_tensor_release(where);
  return kl_autograd_inplace_finish(status, node, self);
}

/* --- Casts and copies ------------------------------------------------------------------------- */

kl_status kl_to_dtype(kael_tensor *self, kl_dtype dtype, kael_tensor **out) {
  kl_set_site("to_dtype");
  KL_TRY(kl_check_dtype("to_dtype", (int)dtype));
  kael_tensor *result = NULL;
  KL_TRY(kl_record_cast(self, dtype, &result));
  if (result == self) {
    *out = result;
    return KL_OK;
  }
  kl_fn_attrs attrs = {0};
  return track(KL_OK, KL_FN_TO_DTYPE, &self, 1, &attrs, result, out);
}

kl_status kl_clone(kael_tensor *self, kael_tensor **out) {
  kl_set_site("clone");
  kael_tensor *result = NULL;
  kl_status status = kl_record_copy(self, KL_LAYOUT_CONTIGUOUS, &result);
  kl_fn_attrs attrs = {0};
  return track(status, KL_FN_CLONE, &self, 1, &attrs, result, out);
}

kl_status kl_contiguous(kael_tensor *self, kael_tensor **out) {
  if (!kl_tensor_is_contiguous(self)) return kl_clone(self, out);
  *out = kl_tensor_retain(self);
  return KL_OK;
}

kl_status kl_copy_(kael_tensor *self, kael_tensor *src) {
  kl_set_site("copy_");
  KL_TRY(check_fits("copy_", self, src));
  kael_tensor *inputs[2] = {self, src};
  kl_fn_attrs attrs = {0};
  struct kl_autograd_node *node;
  KL_TRY(begin_inplace(KL_FN_COPY, "copy_", inputs, 2, &attrs, &node));
  kl_op op = src->dtype == self->dtype ? KL_OP_COPY : KL_OP_CAST;
  kl_arg args[1] = {{.tensor = src}};
  return kl_autograd_inplace_finish(kl_record_write(self, op, (kl_dtype)self->dtype, args, 1), node,
                                    self);
}

static kl_status fill(kl_fn fn, const char *name, kael_tensor *self, kael_scalar value) {
  kl_set_site(name);
  KL_TRY(kl_check_number(name, value, (kl_dtype)self->dtype));
  kl_fn_attrs attrs = {.number = value};
  struct kl_autograd_node *node;
  KL_TRY(begin_inplace(fn, name, &self, 1, &attrs, &node));
  kl_arg args[1] = {{.scalar = kl_scalar_from(value, (kl_dtype)self->dtype)}};
  return kl_autograd_inplace_finish(
      kl_record_write(self, KL_OP_COPY, (kl_dtype)self->dtype, args, 1), node, self);
}

kl_status kl_fill_(kael_tensor *self, kael_scalar value) {
  return fill(KL_FN_FILL, "fill_", self, value);
}

kl_status kl_zero_(kael_tensor *self) { return fill(KL_FN_ZERO, "zero_", self, kael_i(0)); }

static kl_status from_number(kl_status (*fn)(kael_tensor *, kael_tensor *, kael_tensor **),
                             kael_tensor *self, kael_scalar number, kael_tensor **out) {
  kl_dtype dtype = kl_result_type(&self, 1, &number);
  kael_tensor *filled;
  KL_TRY(kl_full(dtype, 0, NULL, number, &filled));
  kl_status status = fn(filled, self, out);
  kl_tensor_release(filled);
  return status;
}

kl_status kl_rsub_scalar(kael_tensor *self, kael_scalar number, kael_tensor **out) {
  return from_number(kl_sub, self, number, out);
}

kl_status kl_rdiv_scalar(kael_tensor *self, kael_scalar number, kael_tensor **out) {
  return from_number(kl_div, self, number, out);
}
