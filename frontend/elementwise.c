/* The elementwise operators of one and two operands, made from frontend/ops.def: promotion, the
 * primitive, autograd, and the form in place. */
#include "frontend/half.h"
#include "frontend/ops.h"
#include "frontend/promote.h"
#include "kael/ops.h"

typedef enum rule { RULE_SAME, RULE_NUMBER, RULE_FLOAT, RULE_COMPARE, RULE_LOGICAL, RULE_BITS } rule;

/* An operator as its line of the table says. */
typedef struct elem_fn {
  kl_fn fn;
  kl_op op;
  rule rule;
  const char *name, *name_inplace;
} elem_fn;

/* A call of it, on the way to a primitive. */
typedef struct elem_call {
  const elem_fn *fn;
  kael_tensor *inputs[2];
  int n_inputs;
  const kael_scalar *number; /* in place of the second tensor, or NULL */
  kl_op op;
  kl_dtype dtype;  /* of the primitive's result */
  kl_dtype result; /* of the operator's, which is rounded once from that of f32 where it is half */
  kl_arg args[2];
  int n_args;
  kael_tensor *temps[2]; /* casts of the inputs; owned */
} elem_call;

static kl_status check_rule(const elem_call *call, kl_dtype common) {
  if (call->fn->rule == RULE_BITS && kl_dtype_is_float(common))
    return kl_fail(KL_ERR_NOT_IMPLEMENTED, "%s: not implemented for '%s'", call->fn->name,
                   kl_dtype_torch_name(common));
  if (call->fn->rule != RULE_NUMBER) return KL_OK;
  if (call->fn->fn == KL_FN_SUB) {
    bool other_is_bool =
        call->number ? call->number->kind == KAEL_SCALAR_BOOL : call->inputs[1]->dtype == KL_BOOL;
    if (call->inputs[0]->dtype != KL_BOOL && !other_is_bool) return KL_OK;
    if (call->inputs[0]->dtype == KL_BOOL && other_is_bool)
      return kl_fail(KL_ERR_RUNTIME,
                     "sub: Subtraction, the `-` operator, with two bool tensors is not supported. "
                     "Use the `^` or `logical_xor()` operator instead.");
    return kl_fail(
        KL_ERR_RUNTIME,
        "sub: Subtraction, the `-` operator, with a bool tensor is not supported. If you "
        "are trying to invert a mask, use the `~` or `logical_not()` operator instead.");
  }
  if (common != KL_BOOL) return KL_OK;
  if (call->fn->fn == KL_FN_NEG)
    return kl_fail(KL_ERR_RUNTIME,
                   "neg: Negation, the `-` operator, on a bool tensor is not supported. If you are "
                   "trying to invert a mask, use the `~` or `logical_not()` operator instead.");
  return kl_fail(KL_ERR_RUNTIME, "%s: not supported for bool tensors", call->fn->name);
}

/* The dtype of the operands after promotion. */
static kl_dtype common_dtype(const elem_call *call) {
  kl_dtype common;
  if (call->n_inputs == 2 && call->inputs[0]->dtype == call->inputs[1]->dtype)
    common = (kl_dtype)call->inputs[0]->dtype;
  else
    common = kl_result_type(call->inputs, call->n_inputs, call->number);
  switch (call->fn->rule) {
    case RULE_FLOAT:
      return kl_dtype_is_float(common) ? common : KL_F32;
    case RULE_LOGICAL:
      return KL_BOOL;
    default:
      return common;
  }
}

/* The primitive for this dtype, and operands that the public operator does not have. */
static void choose_primitive(elem_call *call, kl_dtype common) {
  call->op = call->fn->op;
  call->dtype = call->fn->rule == RULE_COMPARE ? KL_BOOL : common;
  if (common == KL_BOOL && call->op == KL_OP_ADD) call->op = KL_OP_OR;
  if (common == KL_BOOL && call->op == KL_OP_MUL) call->op = KL_OP_AND;
  /* Integers are whole, and the only bool above zero is 1. */
  if (!kl_dtype_is_float(common) && call->op >= KL_OP_FLOOR && call->op <= KL_OP_TRUNC)
    call->op = KL_OP_COPY;
  if (common == KL_BOOL && call->op == KL_OP_SIGN) call->op = KL_OP_COPY;
  if (call->fn->fn == KL_FN_RELU)
    call->args[call->n_args++] = kl_arg_scalar(kl_scalar_from_int(0, common));
  if (call->fn->fn == KL_FN_SQUARE) call->args[call->n_args++] = call->args[0];
}

static void finish_call(elem_call *call) {
  kl_tensor_release(call->temps[0]);
  kl_tensor_release(call->temps[1]);
}

/* The number as the operator computes with it: to compare, it becomes an element first. */
static kl_scalar number_of(const elem_call *call, kl_dtype common, kl_dtype compute) {
  kl_scalar scalar = kl_scalar_from(*call->number, compute);
  if (call->fn->rule == RULE_COMPARE && compute != common)
    scalar.f32 = kl_half_to_float(kl_half_from_float(scalar.f32, common), common);
  return scalar;
}

static kl_status prepare_call(elem_call *call) {
  kl_dtype promoted = common_dtype(call);
  if (call->fn->fn == KL_FN_SQUARE && promoted == KL_BOOL) promoted = KL_I64; /* as pow(x, 2) */
  KL_TRY(check_rule(call, promoted));
  const kl_dtype common = kl_compute_dtype(promoted);
  for (int i = 0; i < call->n_inputs; i++) {
    kael_tensor *input = call->inputs[i];
    if (input->dtype != common) {
      kl_status status = kl_record_cast(input, common, &call->temps[i]);
      if (status) {
        finish_call(call);
        return status;
      }
      input = call->temps[i];
    }
    call->args[call->n_args++] = kl_arg_tensor(input);
  }
  if (call->number)
    call->args[call->n_args++] = kl_arg_scalar(number_of(call, promoted, common));
  choose_primitive(call, common);
  call->result = call->fn->rule == RULE_COMPARE ? KL_BOOL : promoted;
  if (call->fn->fn == KL_FN_ABS && common == KL_BOOL) call->op = KL_OP_COPY;
  return KL_OK;
}

static kl_fn_attrs attrs_of(const elem_call *call) {
  kl_fn_attrs attrs = {.other_is_number = call->number != NULL};
  if (call->number) attrs.number = *call->number;
  return attrs;
}

static kl_status call_new(const elem_fn *fn, kael_tensor *self, kael_tensor *other,
                          const kael_scalar *number, kael_tensor **out) {
  elem_call call = {
      .fn = fn, .inputs = {self, other}, .n_inputs = 1 + (other != NULL), .number = number};
  kl_set_site(fn->name);
  KL_TRY(prepare_call(&call));
  kael_tensor *result;
  kl_status status =
      kl_record_elem(call.op, call.dtype, call.args, call.n_args, KL_LAYOUT_KEEP, &result);
  finish_call(&call);
  if (!status && call.dtype != call.result) {
    kael_tensor *wide = result;
    status = kl_record_cast(wide, call.result, &result);
    kl_tensor_release(wide);
  }
  if (status) return status;
  if (kl_autograd_wanted(call.inputs, call.n_inputs)) {
    kl_fn_attrs attrs = attrs_of(&call);
    status = kl_autograd_track(fn->fn, call.inputs, call.n_inputs, &result, 1, &attrs);
    if (status) {
      kl_tensor_release(result);
      return status;
    }
  }
  *out = result;
  return KL_OK;
}

/* The result can be written to self: dtype and shape. */
static kl_status check_result(const elem_call *call) {
  const kael_tensor *self = call->inputs[0];
  if (!kl_can_cast(call->result, (kl_dtype)self->dtype) && call->fn->rule != RULE_COMPARE &&
      call->fn->rule != RULE_LOGICAL)
    return kl_fail(KL_ERR_RUNTIME, "%s: result type %s can't be cast to the desired output type %s",
                   call->fn->name_inplace, kl_dtype_torch_name(call->result),
                   kl_dtype_torch_name((kl_dtype)self->dtype));
  if (call->n_inputs < 2) return KL_OK;
  int ndim;
  int64_t shape[KL_MAX_RANK];
  KL_TRY(kl_broadcast_shapes(2, call->inputs, &ndim, shape));
  if (kl_shape_equal(ndim, shape, self->ndim, self->shape)) return KL_OK;
  return kl_fail(KL_ERR_RUNTIME, "%s: output with shape %s doesn't match the broadcast shape %s",
                 call->fn->name_inplace, kl_shape_text(self->ndim, self->shape),
                 kl_shape_text(ndim, shape));
}

static kl_status write_call(elem_call *call) {
  kael_tensor *self = call->inputs[0];
  struct kl_autograd_node *node = NULL;
  KL_TRY(check_result(call));
  KL_TRY(kl_check_inplace(self, call->fn->name_inplace));
  /* PyTorch's logical operators are outside of autograd: even a leaf may be written so. */
  if (call->fn->rule != RULE_LOGICAL && kl_autograd_sees(call->inputs, call->n_inputs)) {
    kl_fn_attrs attrs = attrs_of(call);
    KL_TRY(kl_autograd_inplace_begin(call->fn->fn, call->inputs, call->n_inputs, &attrs, &node));
    kl_set_site(call->fn->name_inplace); /* what was saved may have been recorded */
  }
  kl_status status = kl_record_write(self, call->op, call->dtype, call->args, call->n_args);
  return kl_autograd_inplace_finish(status, node, self);
}

static kl_status call_inplace(const elem_fn *fn, kael_tensor *self, kael_tensor *other,
                              const kael_scalar *number) {
  elem_call call = {
      .fn = fn, .inputs = {self, other}, .n_inputs = 1 + (other != NULL), .number = number};
  kl_set_site(fn->name_inplace);
  KL_TRY(prepare_call(&call));
  kl_status status = write_call(&call);
  finish_call(&call);
  return status;
}

/* --- The functions ---------------------------------------------------------------------------- */

#define DEFINE_FN(NAME, name, op, rule)                                                            \
  static const elem_fn fn_##name = {KL_FN_##NAME, KL_OP_##op, RULE_##rule, #name, #name "_"};

#define KL_FORM_UNARY(NAME, name, op, rule)                                                        \
  DEFINE_FN(NAME, name, op, rule)                                                                  \
  kl_status kl_##name(kael_tensor *self, kael_tensor **out) {                                      \
    return call_new(&fn_##name, self, NULL, NULL, out);                                            \
  }                                                                                                \
  kl_status kl_##name##_(kael_tensor *self) { return call_inplace(&fn_##name, self, NULL, NULL); } \
  kael_tensor *kael_##name(kael_tensor *self) { return hand_out_unary(kl_##name, self); }          \
  kael_status kael_##name##_(kael_tensor *self) { return public_unary_(kl_##name##_, self); }

#define KL_FORM_BINARY(NAME, name, op, rule)                                                       \
  DEFINE_FN(NAME, name, op, rule)                                                                  \
  kl_status kl_##name(kael_tensor *self, kael_tensor *other, kael_tensor **out) {                  \
    return call_new(&fn_##name, self, other, NULL, out);                                           \
  }                                                                                                \
  kl_status kl_##name##_(kael_tensor *self, kael_tensor *other) {                                  \
    return call_inplace(&fn_##name, self, other, NULL);                                            \
  }                                                                                                \
  kl_status kl_##name##_scalar(kael_tensor *self, kael_scalar other, kael_tensor **out) {          \
    return call_new(&fn_##name, self, NULL, &other, out);                                          \
  }                                                                                                \
  kl_status kl_##name##_scalar_(kael_tensor *self, kael_scalar other) {                            \
    return call_inplace(&fn_##name, self, NULL, &other);                                           \
  }                                                                                                \
  kael_tensor *kael_##name(kael_tensor *self, kael_tensor *other) {                                \
    return hand_out_binary(kl_##name, self, other);                                                \
  }                                                                                                \
  kael_status kael_##name##_(kael_tensor *self, kael_tensor *other) {                              \
    return public_binary_(kl_##name##_, self, other);                                              \
  }                                                                                                \
  kael_tensor *kael_##name##_scalar(kael_tensor *self, kael_scalar other) {                        \
    return hand_out_scalar(kl_##name##_scalar, self, other);                                       \
  }                                                                                                \
  kael_status kael_##name##_scalar_(kael_tensor *self, kael_scalar other) {                        \
    return public_scalar_(kl_##name##_scalar_, self, other);                                       \
  }

#define KL_FORM_OTHER(NAME, name, op, rule)
#define KL_FORM_VIEW(NAME, name, op, rule)

static kael_tensor *hand_out_unary(kl_status (*fn)(kael_tensor *, kael_tensor **),
                                   kael_tensor *self) {
  if (KL_MISSING(self)) return NULL;
  kael_tensor *out = NULL;
  kl_status status = fn(self, &out);
  return kl_hand_out(status, out);
}

static kael_tensor *hand_out_binary(kl_status (*fn)(kael_tensor *, kael_tensor *, kael_tensor **),
                                    kael_tensor *self, kael_tensor *other) {
  if (KL_MISSING(self, other)) return NULL;
  kael_tensor *out = NULL;
  kl_status status = fn(self, other, &out);
  return kl_hand_out(status, out);
}

static kael_tensor *hand_out_scalar(kl_status (*fn)(kael_tensor *, kael_scalar, kael_tensor **),
                                    kael_tensor *self, kael_scalar number) {
  if (KL_MISSING(self)) return NULL;
  kael_tensor *out = NULL;
  kl_status status = fn(self, number, &out);
  return kl_hand_out(status, out);
}

static kael_status public_unary_(kl_status (*fn)(kael_tensor *), kael_tensor *self) {
  return KL_MISSING(self) ? kael_last_error().code : (kael_status)fn(self);
}

static kael_status public_binary_(kl_status (*fn)(kael_tensor *, kael_tensor *), kael_tensor *self,
                                  kael_tensor *other) {
  return KL_MISSING(self, other) ? kael_last_error().code : (kael_status)fn(self, other);
}

static kael_status public_scalar_(kl_status (*fn)(kael_tensor *, kael_scalar), kael_tensor *self,
                                  kael_scalar number) {
  return KL_MISSING(self) ? kael_last_error().code : (kael_status)fn(self, number);
}

#define KL_FN(NAME, name, form, op, rule, args, inplace, grad, doc)                                \
  KL_FORM_##form(NAME, name, op, rule)
#include "frontend/ops.def"
#undef KL_FN
