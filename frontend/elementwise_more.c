/* Elementwise operators that are composed of several primitives, or check what they divide by.
 *
 * Each is a row (its names, the function that composes it) and a call: promoted operands go in, one
 * tensor comes out, which is handed on as a new tensor or written to self. f16 and bf16 are widened
 * before and rounded once after. */
#include <math.h>

#include "frontend/element.h"
#include "frontend/ops.h"
#include "frontend/promote.h"
#include "frontend/raw.h"
#include "kael/ops.h"

typedef kael_tensor T;
struct call;

typedef struct composed {
  kl_fn fn;
  const char *name, *name_inplace;
  T *(*make)(kl_raw *raw, const struct call *call);
} composed;

typedef struct call {
  const composed *op;
  T *inputs[3]; /* the public operator's; NULL: absent */
  int n_inputs;
  kl_fn_attrs attrs;
  kl_dtype dtype;  /* of the result */
  T *x[3];         /* the inputs in the dtype that is computed in */
  bool is_logical; /* the result is bool */
} call;

static T *compose(kl_raw *raw, call *c) {
  const kl_dtype compute = kl_compute_dtype(c->dtype);
  for (int i = 0; i < c->n_inputs; i++)
    if (c->inputs[i])
      c->x[i] = c->is_logical ? c->inputs[i] : kl_raw_cast(raw, c->inputs[i], compute);
  return c->op->make(raw, c);
}

static kl_status call_new(call *c, T **out) {
  kl_raw raw = {0};
  T *result, *made = compose(&raw, c);
  KL_TRY(kl_raw_finish(&raw, made, c->is_logical ? KL_BOOL : c->dtype, &result));
  if (kl_autograd_wanted(c->inputs, c->n_inputs)) {
    kl_status status = kl_autograd_track(c->op->fn, c->inputs, c->n_inputs, &result, 1, &c->attrs);
    if (status) {
      kl_tensor_release(result);
      return status;
    }
  }
  *out = result;
  return KL_OK;
}

/* The result can be written to self: dtype and shape. */
static kl_status check_result(const call *c) {
  const T *self = c->inputs[0];
  if (!kl_can_cast(c->dtype, (kl_dtype)self->dtype))
    return kl_fail(KL_ERR_RUNTIME, "%s: result type %s can't be cast to the desired output type %s",
                   c->op->name_inplace, kl_dtype_torch_name(c->dtype),
                   kl_dtype_torch_name((kl_dtype)self->dtype));
  int ndim;
  int64_t shape[KL_MAX_RANK];
  KL_TRY(kl_broadcast_shapes(c->n_inputs, c->inputs, &ndim, shape));
  if (kl_shape_equal(ndim, shape, self->ndim, self->shape)) return KL_OK;
  return kl_fail(KL_ERR_RUNTIME, "%s: output with shape %s doesn't match the broadcast shape %s",
                 c->op->name_inplace, kl_shape_text(self->ndim, self->shape),
                 kl_shape_text(ndim, shape));
}

static kl_status call_inplace(call *c) {
  T *self = c->inputs[0], *data;
  kl_set_site(c->op->name_inplace);
  KL_TRY(check_result(c));
  KL_TRY(kl_check_inplace(self, c->op->name_inplace));
  struct kl_autograd_node *node = NULL;
  if (kl_autograd_sees(c->inputs, c->n_inputs))
    KL_TRY(kl_autograd_inplace_begin(c->op->fn, c->inputs, c->n_inputs, &c->attrs, &node));
  kl_set_site(c->op->name_inplace);
  kl_raw raw = {0};
  T *made = compose(&raw, c);
  kl_status status = kl_raw_finish(&raw, made, (kl_dtype)self->dtype, &data);
  if (!status) {
    kl_arg args[1] = {{.tensor = data}};
    status = kl_record_write(self, KL_OP_COPY, (kl_dtype)self->dtype, args, 1);
    kl_tensor_release(data);
  }
  return kl_autograd_inplace_finish(status, node, self);
}

static kl_status finish(call *c, T **out) { return out ? call_new(c, out) : call_inplace(c); }

static kl_status fail_dtype(const char *name, kl_dtype dtype) {
  return kl_fail(KL_ERR_NOT_IMPLEMENTED, "%s: not implemented for '%s'", name,
                 kl_dtype_torch_name(dtype));
}

/* --- Division ----------------------------------------------------------------------------------
 */

/* Integers must not be divided by zero; found out at the call in every mode. */
static kl_status check_divisor(const char *name, T *divisor) {
  if (divisor->numel == 0) return KL_OK;
  kl_raw raw = {0};
  T *found, *zeros = kl_raw_number(&raw, KL_OP_EQ, divisor, kael_i(0));
  KL_TRY(kl_raw_finish(&raw, kl_raw_reduce(&raw, KL_OP_REDUCE_ANY, zeros, UINT32_MAX, false),
                       KL_BOOL, &found));
  kl_buffer *held = NULL;
  const char *first = NULL;
  kl_status status = kl_tensor_bytes(found, &held, &first);
  const bool divides_by_zero = !status && *first;
  kl_buffer_release(held);
  kl_tensor_release(found);
  if (divides_by_zero) return kl_fail(KL_ERR_RUNTIME, "%s: ZeroDivisionError", name);
  kl_set_site(name);
  return status;
}

static kl_op primitive_of(kl_fn fn) {
  switch (fn) {
    case KL_FN_REMAINDER:
      return KL_OP_REMAINDER;
    case KL_FN_FMOD:
      return KL_OP_FMOD;
    case KL_FN_FLOOR_DIVIDE:
      return KL_OP_FLOOR_DIV;
    case KL_FN_BITWISE_LEFT_SHIFT:
      return KL_OP_SHL;
    default:
      return KL_OP_SHR;
  }
}

static T *make_primitive(kl_raw *raw, const call *c) {
  const kl_op op = primitive_of(c->op->fn);
  if (c->attrs.other_is_number) return kl_raw_number(raw, op, c->x[0], c->attrs.number);
  return kl_raw_binary(raw, op, c->x[0], c->x[1]);
}

/* With a tensor (`number` NULL) or a number as the second operand. */
static kl_status with_integers(const composed *op, T *self, T *other, const kael_scalar *number,
                               T **out) {
  call c = {.op = op, .inputs = {self, other}, .n_inputs = 1 + !number};
  const bool shifts = op->fn == KL_FN_BITWISE_LEFT_SHIFT || op->fn == KL_FN_BITWISE_RIGHT_SHIFT;
  kl_set_site(op->name);
  c.dtype = kl_result_type(c.inputs, c.n_inputs, number);
  if (number) {
    c.attrs.other_is_number = true;
    c.attrs.number = *number;
  }
  if (c.dtype == KL_BOOL || (shifts && kl_dtype_is_float(c.dtype)))
    return fail_dtype(op->name, c.dtype);
  if (!shifts && !kl_dtype_is_float(c.dtype)) {
    if (number && kl_number_is_zero(*number))
      return kl_fail(KL_ERR_RUNTIME, "%s: ZeroDivisionError", op->name);
    if (!number) KL_TRY(check_divisor(op->name, other));
  }
  return finish(&c, out);
}

#define WITH_INTEGERS(NAME, name)                                                                  \
  static const composed name##_row = {KL_FN_##NAME, #name, #name "_", make_primitive};             \
  kl_status kl_##name(T *self, T *other, T **out) {                                                \
    return with_integers(&name##_row, self, other, NULL, out);                                     \
  }                                                                                                \
  kael_tensor *kael_##name(T *self, T *other) {                                                    \
    T *out = NULL;                                                                                 \
    if (KL_MISSING(self, other)) return NULL;                                                      \
    kl_status status = with_integers(&name##_row, self, other, NULL, &out);                        \
    return kl_hand_out(status, out);                                                               \
  }                                                                                                \
  kael_tensor *kael_##name##_scalar(T *self, kael_scalar other) {                                  \
    T *out = NULL;                                                                                 \
    if (KL_MISSING(self)) return NULL;                                                             \
    kl_status status = with_integers(&name##_row, self, NULL, &other, &out);                       \
    return kl_hand_out(status, out);                                                               \
  }                                                                                                \
  kael_status kael_##name##_(T *self, T *other) {                                                  \
    if (KL_MISSING(self, other)) return kael_last_error().code;                                    \
    return (kael_status)with_integers(&name##_row, self, other, NULL, NULL);                       \
  }                                                                                                \
  kael_status kael_##name##_scalar_(T *self, kael_scalar other) {                                  \
    if (KL_MISSING(self)) return kael_last_error().code;                                           \
    return (kael_status)with_integers(&name##_row, self, NULL, &other, NULL);                      \
  }
WITH_INTEGERS(REMAINDER, remainder)
WITH_INTEGERS(FMOD, fmod)
WITH_INTEGERS(FLOOR_DIVIDE, floor_divide)
WITH_INTEGERS(BITWISE_LEFT_SHIFT, bitwise_left_shift)
WITH_INTEGERS(BITWISE_RIGHT_SHIFT, bitwise_right_shift)

/* --- Choices ------------------------------------------------------------------------------------
 */

/* The other one where one is NaN. */
static T *make_fmax(kl_raw *raw, const call *c) {
  const kl_op op = c->op->fn == KL_FN_FMAX ? KL_OP_MAX : KL_OP_MIN;
  T *a = c->x[0], *b = c->x[1];
  T *both = kl_raw_binary(raw, op, a, b);
  T *no_b = kl_raw_select(raw, kl_raw_binary(raw, KL_OP_NE, b, b), a, both);
  return kl_raw_select(raw, kl_raw_binary(raw, KL_OP_NE, a, a), b, no_b);
}

static const composed fmax_row = {KL_FN_FMAX, "fmax", NULL, make_fmax};
static const composed fmin_row = {KL_FN_FMIN, "fmin", NULL, make_fmax};

static kael_tensor *choose(const composed *op, T *self, T *other) {
  T *out = NULL;
  if (KL_MISSING(self, other)) return NULL;
  call c = {.op = op, .inputs = {self, other}, .n_inputs = 2};
  kl_set_site(op->name);
  c.dtype = kl_result_type(c.inputs, 2, NULL);
  kl_status status = call_new(&c, &out);
  return kl_hand_out(status, out);
}
kael_tensor *kael_fmax(T *self, T *other) { return choose(&fmax_row, self, other); }
kael_tensor *kael_fmin(T *self, T *other) { return choose(&fmin_row, self, other); }

static T *make_clamp(kl_raw *raw, const call *c) {
  T *x = c->x[0];
  if (c->attrs.mask & 1) x = kl_raw_number(raw, KL_OP_MAX, x, c->attrs.number);
  if (c->attrs.mask & 2) x = kl_raw_number(raw, KL_OP_MIN, x, c->attrs.number2);
  return x == c->x[0] ? kl_raw_unary(raw, KL_OP_COPY, x) : x;
}

static T *make_clamp_tensor(kl_raw *raw, const call *c) {
  T *x = c->x[0];
  if (c->x[1]) x = kl_raw_binary(raw, KL_OP_MAX, x, c->x[1]);
  if (c->x[2]) x = kl_raw_binary(raw, KL_OP_MIN, x, c->x[2]);
  return x;
}

static const composed clamp_row = {KL_FN_CLAMP, "clamp", "clamp_", make_clamp};
static const composed clamp_tensor_row = {KL_FN_CLAMP_TENSOR, "clamp", "clamp_", make_clamp_tensor};

static kl_status clamp(T *self, const kael_scalar *min, const kael_scalar *max, T **out) {
  call c = {.op = &clamp_row, .inputs = {self}, .n_inputs = 1, .dtype = (kl_dtype)self->dtype};
  kl_set_site("clamp");
  if (!min && !max)
    return kl_fail(KL_ERR_VALUE, "clamp: At least one of 'min' or 'max' must not be None");
  if (min) {
    c.attrs.number = *min;
    c.attrs.mask |= 1;
    c.dtype = kl_promote_dtypes(c.dtype, kl_result_type(&self, 1, min));
  }
  if (max) {
    c.attrs.number2 = *max;
    c.attrs.mask |= 2;
    c.dtype = kl_promote_dtypes(c.dtype, kl_result_type(&self, 1, max));
  }
  if (c.dtype == KL_BOOL) return fail_dtype("clamp", c.dtype);
  return finish(&c, out);
}

kael_tensor *kael_clamp(T *self, const kael_scalar *min, const kael_scalar *max) {
  T *out = NULL;
  if (KL_MISSING(self)) return NULL;
  kl_status status = clamp(self, min, max, &out);
  return kl_hand_out(status, out);
}

kael_status kael_clamp_(T *self, const kael_scalar *min, const kael_scalar *max) {
  if (KL_MISSING(self)) return kael_last_error().code;
  return (kael_status)clamp(self, min, max, NULL);
}

static kl_status clamp_tensor(T *self, T *min, T *max, T **out) {
  call c = {.op = &clamp_tensor_row, .inputs = {self, min, max}, .n_inputs = 3};
  kl_set_site("clamp");
  if (!min && !max)
    return kl_fail(KL_ERR_VALUE, "clamp: At least one of 'min' or 'max' must not be None");
  T *present[3] = {self, min ? min : max, max ? max : min};
  c.dtype = kl_result_type(present, 3, NULL);
  if (c.dtype == KL_BOOL) return fail_dtype("clamp", c.dtype);
  return finish(&c, out);
}

/* NULL has failed; KAEL_NONE is absent. */
static bool bound_is_missing(const T *bound) { return bound != KAEL_NONE && KL_MISSING(bound); }
static T *optional(T *tensor) { return tensor == KAEL_NONE ? NULL : tensor; }

kael_tensor *kael_clamp_tensor(T *self, T *min, T *max) {
  T *out = NULL;
  if (KL_MISSING(self) || bound_is_missing(min) || bound_is_missing(max)) return NULL;
  kl_status status = clamp_tensor(self, optional(min), optional(max), &out);
  return kl_hand_out(status, out);
}

kael_status kael_clamp_tensor_(T *self, T *min, T *max) {
  if (KL_MISSING(self) || bound_is_missing(min) || bound_is_missing(max))
    return kael_last_error().code;
  return (kael_status)clamp_tensor(self, optional(min), optional(max), NULL);
}

/* --- Kinds of numbers ---------------------------------------------------------------------------
 */

static T *make_kind(kl_raw *raw, const call *c) {
  T *x = c->x[0];
  const bool finite = c->op->fn == KL_FN_ISFINITE;
  if (c->op->fn == KL_FN_ISNAN || !kl_dtype_is_float((kl_dtype)x->dtype))
    return kl_raw_binary(raw, finite ? KL_OP_EQ : KL_OP_NE, x, x);
  return kl_raw_number(raw, finite ? KL_OP_LT : KL_OP_EQ, kl_raw_unary(raw, KL_OP_ABS, x),
                       kael_f(INFINITY));
}

static const composed isnan_row = {KL_FN_ISNAN, "isnan", NULL, make_kind};
static const composed isinf_row = {KL_FN_ISINF, "isinf", NULL, make_kind};
static const composed isfinite_row = {KL_FN_ISFINITE, "isfinite", NULL, make_kind};

static kael_tensor *kind(const composed *op, T *self) {
  T *out = NULL;
  if (KL_MISSING(self)) return NULL;
  call c = {.op = op, .inputs = {self}, .n_inputs = 1, .dtype = KL_BOOL, .is_logical = true};
  kl_set_site(op->name);
  kl_status status = call_new(&c, &out);
  return kl_hand_out(status, out);
}
kael_tensor *kael_isnan(T *self) { return kind(&isnan_row, self); }
kael_tensor *kael_isinf(T *self) { return kind(&isinf_row, self); }
kael_tensor *kael_isfinite(T *self) { return kind(&isfinite_row, self); }

/* --- Three operands -----------------------------------------------------------------------------
 */

static double as_double(kael_scalar number) {
  return number.kind == KAEL_SCALAR_FLOAT ? number.as.f
         : number.kind == KAEL_SCALAR_INT ? (double)number.as.i
                                          : (double)number.as.b;
}

/* From the nearer end, as PyTorch: a + w (b - a), or b - (b - a) (1 - w) from w = 0.5 on. */
static T *make_lerp(kl_raw *raw, const call *c) {
  T *a = c->x[0], *b = c->x[1], *difference = kl_raw_binary(raw, KL_OP_SUB, b, a);
  const double weight = as_double(c->attrs.number);
  if (fabs(weight) < 0.5)
    return kl_raw_binary(raw, KL_OP_ADD, a,
                         kl_raw_number(raw, KL_OP_MUL, difference, c->attrs.number));
  return kl_raw_binary(raw, KL_OP_SUB, b,
                       kl_raw_number(raw, KL_OP_MUL, difference, kael_f(1 - weight)));
}

static T *make_lerp_tensor(kl_raw *raw, const call *c) {
  T *a = c->x[0], *b = c->x[1], *w = c->x[2], *difference = kl_raw_binary(raw, KL_OP_SUB, b, a);
  T *near_a = kl_raw_binary(raw, KL_OP_ADD, a, kl_raw_binary(raw, KL_OP_MUL, w, difference));
  T *rest = kl_raw_number_first(raw, KL_OP_SUB, kael_f(1), w);
  T *near_b = kl_raw_binary(raw, KL_OP_SUB, b, kl_raw_binary(raw, KL_OP_MUL, difference, rest));
  T *is_near = kl_raw_number(raw, KL_OP_LT, kl_raw_unary(raw, KL_OP_ABS, w), kael_f(0.5));
  return kl_raw_select(raw, is_near, near_a, near_b);
}

static T *make_addc(kl_raw *raw, const call *c) {
  const kl_op op = c->op->fn == KL_FN_ADDCMUL ? KL_OP_MUL : KL_OP_DIV;
  T *scaled = kl_raw_number(raw, KL_OP_MUL, c->x[1], c->attrs.number);
  return kl_raw_binary(raw, KL_OP_ADD, c->x[0], kl_raw_binary(raw, op, scaled, c->x[2]));
}

static const composed lerp_row = {KL_FN_LERP, "lerp", "lerp_", make_lerp};
static const composed lerp_tensor_row = {KL_FN_LERP_TENSOR, "lerp", "lerp_", make_lerp_tensor};
static const composed addcmul_row = {KL_FN_ADDCMUL, "addcmul", "addcmul_", make_addc};
static const composed addcdiv_row = {KL_FN_ADDCDIV, "addcdiv", "addcdiv_", make_addc};

static kl_status lerp(const composed *op, T *self, T *end, T *weight, kael_scalar number, T **out) {
  call c = {.op = op, .inputs = {self, end, weight}, .n_inputs = 2 + (weight != NULL)};
  kl_set_site("lerp");
  c.attrs.number = number;
  c.dtype = (kl_dtype)self->dtype;
  for (int i = 1; i < c.n_inputs; i++)
    if (c.inputs[i]->dtype != self->dtype)
      return kl_fail(KL_ERR_RUNTIME, "lerp: expected dtype %s for `%s` but got dtype %s",
                     kl_dtype_torch_name(c.dtype), i == 1 ? "end" : "weight",
                     kl_dtype_torch_name((kl_dtype)c.inputs[i]->dtype));
  if (!kl_dtype_is_float(c.dtype)) return fail_dtype("lerp", c.dtype);
  return finish(&c, out);
}

static kl_status addc(const composed *op, T *self, T *a, T *b, kael_scalar value, T **out) {
  call c = {.op = op, .inputs = {self, a, b}, .n_inputs = 3, .attrs = {.number = value}};
  kl_set_site(op->name);
  c.dtype = kl_result_type(c.inputs, 3, NULL);
  if (c.dtype == KL_BOOL) return fail_dtype(op->name, c.dtype);
  if (op->fn == KL_FN_ADDCDIV && !kl_dtype_is_float((kl_dtype)a->dtype) &&
      !kl_dtype_is_float((kl_dtype)b->dtype))
    return kl_fail(KL_ERR_RUNTIME,
                   "addcdiv: Integer division with addcdiv is no longer supported: cast an operand "
                   "to a floating dtype");
  if (value.kind == KAEL_SCALAR_FLOAT && !kl_dtype_is_float(c.dtype))
    return kl_fail(KL_ERR_RUNTIME,
                   "%s: For integral input tensors, argument value must not be a floating point "
                   "number.",
                   op->name);
  return finish(&c, out);
}

#define HAND_OUT(name, ...)                                                                        \
  T *out = NULL;                                                                                   \
  if (KL_MISSING(__VA_ARGS__)) return NULL;                                                        \
  kl_status status = (name);                                                                       \
  return kl_hand_out(status, out)

kael_tensor *kael_lerp(T *self, T *end, kael_scalar weight) {
  HAND_OUT(lerp(&lerp_row, self, end, NULL, weight, &out), self, end);
}
kael_tensor *kael_lerp_tensor(T *self, T *end, T *weight) {
  HAND_OUT(lerp(&lerp_tensor_row, self, end, weight, kael_i(0), &out), self, end, weight);
}
kael_tensor *kael_addcmul(T *self, T *tensor1, T *tensor2, kael_scalar value) {
  HAND_OUT(addc(&addcmul_row, self, tensor1, tensor2, value, &out), self, tensor1, tensor2);
}
kael_tensor *kael_addcdiv(T *self, T *tensor1, T *tensor2, kael_scalar value) {
  HAND_OUT(addc(&addcdiv_row, self, tensor1, tensor2, value, &out), self, tensor1, tensor2);
}
kael_status kael_lerp_(T *self, T *end, kael_scalar weight) {
  if (KL_MISSING(self, end)) return kael_last_error().code;
  return (kael_status)lerp(&lerp_row, self, end, NULL, weight, NULL);
}
kael_status kael_lerp_tensor_(T *self, T *end, T *weight) {
  if (KL_MISSING(self, end, weight)) return kael_last_error().code;
  return (kael_status)lerp(&lerp_tensor_row, self, end, weight, kael_i(0), NULL);
}
kael_status kael_addcmul_(T *self, T *tensor1, T *tensor2, kael_scalar value) {
  if (KL_MISSING(self, tensor1, tensor2)) return kael_last_error().code;
  return (kael_status)addc(&addcmul_row, self, tensor1, tensor2, value, NULL);
}
kael_status kael_addcdiv_(T *self, T *tensor1, T *tensor2, kael_scalar value) {
  if (KL_MISSING(self, tensor1, tensor2)) return kael_last_error().code;
  return (kael_status)addc(&addcdiv_row, self, tensor1, tensor2, value, NULL);
}

/* --- Activations --------------------------------------------------------------------------------
 */

/* x 0.5 (1 + erf(x / sqrt(2))), or with tanh(sqrt(2 / pi) (x + 0.044715 x^3)) in place of erf
 * (Hendrycks and Gimpel, 2016). */
static T *make_gelu(kl_raw *raw, const call *c) {
  T *x = c->x[0], *inner;
  if (c->attrs.keepdim) {
    T *cube = kl_raw_binary(raw, KL_OP_MUL, kl_raw_binary(raw, KL_OP_MUL, x, x), x);
    T *sum =
        kl_raw_binary(raw, KL_OP_ADD, x, kl_raw_number(raw, KL_OP_MUL, cube, kael_f(0.044715)));
    inner = kl_raw_unary(raw, KL_OP_TANH,
                         kl_raw_number(raw, KL_OP_MUL, sum, kael_f(M_SQRT2 * M_2_SQRTPI * 0.5)));
  } else {
    inner = kl_raw_unary(raw, KL_OP_ERF, kl_raw_number(raw, KL_OP_MUL, x, kael_f(M_SQRT1_2)));
  }
  T *half = kl_raw_number(raw, KL_OP_MUL, x, kael_f(0.5));
  return kl_raw_binary(raw, KL_OP_MUL, half, kl_raw_number(raw, KL_OP_ADD, inner, kael_f(1)));
}

static T *make_silu(kl_raw *raw, const call *c) {
  T *e = kl_raw_unary(raw, KL_OP_EXP, kl_raw_unary(raw, KL_OP_NEG, c->x[0]));
  return kl_raw_binary(raw, KL_OP_DIV, c->x[0], kl_raw_number(raw, KL_OP_ADD, e, kael_f(1)));
}

static const composed gelu_row = {KL_FN_GELU, "gelu", NULL, make_gelu};
static const composed silu_row = {KL_FN_SILU, "silu", "silu_", make_silu};

static kl_status activation(const composed *op, T *self, bool tanh_form, T **out) {
  call c = {.op = op, .inputs = {self}, .n_inputs = 1, .dtype = (kl_dtype)self->dtype};
  kl_set_site(op->name);
  c.attrs.keepdim = tanh_form; /* the only flag that attributes have */
  if (!kl_dtype_is_float(c.dtype)) return fail_dtype(op->name, c.dtype);
  return finish(&c, out);
}

kael_tensor *kael_gelu(T *self, bool approximate_tanh) {
  HAND_OUT(activation(&gelu_row, self, approximate_tanh, &out), self);
}
kael_tensor *kael_silu(T *self) { HAND_OUT(activation(&silu_row, self, false, &out), self); }
kael_status kael_silu_(T *self) {
  if (KL_MISSING(self)) return kael_last_error().code;
  return (kael_status)activation(&silu_row, self, false, NULL);
}
