/* softmax, log_softmax, nll_loss, cross_entropy: composed, each tracked as one operator. */
#include "kael/nn.h"
#include "frontend/bounds.h"
#include "frontend/compose.h"
#include "frontend/half.h"
#include "frontend/ops.h"

static kl_status check_floating(const kael_tensor *self) {
  if (kl_dtype_is_float((kl_dtype)self->dtype)) return KL_OK;
  return kl_fail(KL_ERR_NOT_IMPLEMENTED, "%s: not implemented for '%s': the dtype must be floating",
                 kl_thread.site, kl_dtype_torch_name((kl_dtype)self->dtype));
}

static kl_status contiguous_binary(kl_op op, kael_tensor *a, kael_tensor *b, kael_tensor **out) {
  kl_arg args[2] = {{.tensor = a}, {.tensor = b}};
  return kl_record_elem(op, (kl_dtype)a->dtype, args, 2, KL_LAYOUT_CONTIGUOUS, out);
}

/* x - max, exp of it, and its sum along dim: what both softmaxes are made of. Owned by the caller,
 * NULL after a failure. */
typedef struct exps {
  kael_tensor *shifted, *exp, *sum;
} exps;

static kl_status make_exps(kael_tensor *x, int dim, exps *out) {
  kl_dtype dtype = (kl_dtype)x->dtype;
  uint32_t mask = UINT32_C(1) << dim;
  kael_tensor *max;
  KL_TRY(kl_record_reduce(KL_OP_REDUCE_MAX, dtype, x, mask, true, &max));
  kl_status status = contiguous_binary(KL_OP_SUB, x, max, &out->shifted);
  kl_tensor_release(max);
  if (!status) status = kl_record_unary(KL_OP_EXP, out->shifted, &out->exp);
  if (!status) status = kl_record_reduce(KL_OP_REDUCE_SUM, dtype, out->exp, mask, true, &out->sum);
  return status;
}

static void drop_exps(exps *parts) {
  kl_tensor_release(parts->shifted);
  kl_tensor_release(parts->exp);
  kl_tensor_release(parts->sum);
}

static kl_status empty_like(kael_tensor *x, kael_tensor **out) {
  return kl_record_fill((kl_dtype)x->dtype, x->ndim, x->shape, (kl_scalar){0}, out);
}

static kl_status raw_softmax(kael_tensor *x, int dim, kael_tensor **out) {
  if (x->numel == 0) return empty_like(x, out);
  exps parts = {0};
  kl_status status = make_exps(x, dim, &parts);
  if (!status) status = contiguous_binary(KL_OP_DIV, parts.exp, parts.sum, out);
  drop_exps(&parts);
  return status;
}

static kl_status raw_log_softmax(kael_tensor *x, int dim, kael_tensor **out) {
  if (x->numel == 0) return empty_like(x, out);
  exps parts = {0};
  kael_tensor *log = NULL;
  kl_status status = make_exps(x, dim, &parts);
  if (!status) status = kl_record_unary(KL_OP_LOG, parts.sum, &log);
  if (!status) status = contiguous_binary(KL_OP_SUB, parts.shifted, log, out);
  kl_tensor_release(log);
  drop_exps(&parts);
  return status;
}

static kl_status softmax_by(kl_status (*raw)(kael_tensor *, int, kael_tensor **), kl_fn fn,
                            const char *name, kael_tensor *self, int64_t dim, kael_tensor **out) {
  kl_fn_attrs attrs = {0};
  kl_set_site(name);
  KL_TRY(check_floating(self));
  KL_TRY(kl_dim_check(dim, self->ndim, &attrs.dim));
  kael_tensor *wide, *made = NULL, *result = NULL;
  KL_TRY(kl_record_cast(self, kl_compute_dtype((kl_dtype)self->dtype), &wide));
  kl_status status = raw(wide, attrs.dim, &made);
  if (!status) status = kl_record_cast(made, (kl_dtype)self->dtype, &result);
  kl_tensor_release(wide);
  kl_tensor_release(made);
  if (status) return status;
  KL_TRY(kl_compose_track(fn, &self, 1, &attrs, &result));
  *out = result;
  return KL_OK;
}

kl_status kl_softmax(kael_tensor *self, int64_t dim, kael_tensor **out) {
  return softmax_by(raw_softmax, KL_FN_SOFTMAX, "softmax", self, dim, out);
}

kl_status kl_log_softmax(kael_tensor *self, int64_t dim, kael_tensor **out) {
  return softmax_by(raw_log_softmax, KL_FN_LOG_SOFTMAX, "log_softmax", self, dim, out);
}

/* --- Losses ----------------------------------------------------------------------------------- */

static kl_status check_target(kael_tensor *input, kael_tensor *target, int reduction) {
  const char *site = kl_thread.site;
  KL_TRY(check_floating(input));
  if (reduction < KAEL_REDUCTION_NONE || reduction > KAEL_REDUCTION_SUM)
    return kl_fail(KL_ERR_VALUE, "%s: %d is not a valid value for reduction", site, reduction);
  if (input->ndim < 1 || input->ndim > 2)
    return kl_fail(KL_ERR_RUNTIME, "%s: input tensor should be 1D or 2D, not of shape %s", site,
                   kl_shape_text(input->ndim, input->shape));
  if (target->ndim != input->ndim - 1 || (target->ndim && target->shape[0] != input->shape[0]))
    return kl_fail(
        KL_ERR_VALUE,
        "%s: Expected input batch_size to match target batch_size: the shapes are %s and "
        "%s",
        site, kl_shape_text(input->ndim, input->shape), kl_shape_text(target->ndim, target->shape));
  if (target->dtype != KL_I64)
    return kl_fail(KL_ERR_RUNTIME, "%s: expected target dtype int64 but got %s", site,
                   kl_dtype_torch_name((kl_dtype)target->dtype));
  if (target->numel == 0) return KL_OK;
  int64_t n_classes = input->shape[input->ndim - 1], least, most;
  KL_TRY(kl_index_bounds(target, n_classes, &least, &most));
  kl_set_site(site);
  if (least >= 0 && most < n_classes) return KL_OK;
  return kl_fail(KL_ERR_INDEX, "%s: Target %lld is out of bounds.", site,
                 (long long)(least < 0 ? least : most));
}

/* -input[i, target[i]], in the target's shape, as a sum along the classes of what is 0 elsewhere: a
 * reduction joins the kernel of the softmax before it, where a gather would need the whole in
 * memory. */
static kl_status pick_losses(kael_tensor *input, kael_tensor *target, kael_tensor **out) {
  int64_t shape[2] = {target->ndim ? target->shape[0] : 1, 1};
  int64_t strides[2] = {target->ndim ? target->strides[0] : 0, 0};
  int dim = input->ndim - 1;
  kael_tensor *column = NULL, *row = NULL, *is_target = NULL, *picked = NULL, *sum = NULL;
  kl_status status;
  KL_TRY_GOTO(status, kl_record_index(input->shape[dim], &column), done);
  KL_TRY_GOTO(status,
              kl_tensor_view(target, input->ndim, dim ? shape : shape + 1, strides, target->offset, &row),
              done);
  KL_TRY_GOTO(status, kl_record_binary(KL_OP_EQ, column, row, &is_target), done);
  kl_arg args[3] = {{.tensor = is_target}, {.tensor = input}, {.scalar = {0}}};
  KL_TRY_GOTO(status,
              kl_record_elem(KL_OP_SELECT, (kl_dtype)input->dtype, args, 3, KL_LAYOUT_CONTIGUOUS,
                             &picked),
              done);
  KL_TRY_GOTO(status,
              kl_record_reduce(KL_OP_REDUCE_SUM, (kl_dtype)input->dtype, picked,
                               UINT32_C(1) << dim, false, &sum),
              done);
  status = kl_record_unary(KL_OP_NEG, sum, out);
done:
  kl_tensor_release(column);
  kl_tensor_release(row);
  kl_tensor_release(is_target);
  kl_tensor_release(picked);
  kl_tensor_release(sum);
  return status;
}

static kl_status raw_nll_loss(kael_tensor *input, kael_tensor *target, int reduction,
                              kael_tensor **out) {
  kael_tensor *losses, *sum = NULL;
  KL_TRY(pick_losses(input, target, &losses));
  if (reduction == KAEL_REDUCTION_NONE) {
    *out = losses;
    return KL_OK;
  }
  kl_dtype dtype = (kl_dtype)losses->dtype;
  kl_status status = kl_record_reduce(KL_OP_REDUCE_SUM, dtype, losses, UINT32_MAX, false, &sum);
  if (!status && reduction == KAEL_REDUCTION_MEAN)
    status = kl_record_binary_scalar(KL_OP_DIV, sum, kl_scalar_from_int(losses->numel, dtype), out);
  else if (!status)
    *out = kl_tensor_retain(sum);
  kl_tensor_release(losses);
  kl_tensor_release(sum);
  return status;
}

static kl_status tracked_nll_loss(kael_tensor *input, kael_tensor *target, int reduction,
                                  kael_tensor **out) {
  kael_tensor *result;
  KL_TRY(raw_nll_loss(input, target, reduction, &result));
  kael_tensor *inputs[2] = {input, target};
  kl_fn_attrs attrs = {.reduction = reduction};
  KL_TRY(kl_compose_track(KL_FN_NLL_LOSS, inputs, 2, &attrs, &result));
  *out = result;
  return KL_OK;
}

kl_status kl_nll_loss(kael_tensor *input, kael_tensor *target, int reduction, kael_tensor **out) {
  kl_set_site("nll_loss");
  KL_TRY(check_target(input, target, reduction));
  return tracked_nll_loss(input, target, reduction, out);
}

/* Its history is that of its two parts, as in PyTorch: what is saved is the log of the softmax, so
 * the input may be changed in place afterwards. */
kl_status kl_cross_entropy(kael_tensor *input, kael_tensor *target, int reduction,
                           kael_tensor **out) {
  kl_set_site("cross_entropy");
  KL_TRY(check_target(input, target, reduction));
  kael_tensor *log_probabilities;
  KL_TRY(kl_log_softmax(input, input->ndim - 1, &log_probabilities));
  kl_set_site("cross_entropy");
  kl_status status = tracked_nll_loss(log_probabilities, target, reduction, out);
  kl_tensor_release(log_probabilities);
  return status;
}

/* --- The public functions --------------------------------------------------------------------- */

kael_tensor *kael_softmax(kael_tensor *self, int64_t dim) {
  if (KL_MISSING(self)) return NULL;
  kael_tensor *out = NULL;
  kl_status status = kl_softmax(self, dim, &out);
  return kl_hand_out(status, out);
}

kael_tensor *kael_log_softmax(kael_tensor *self, int64_t dim) {
  if (KL_MISSING(self)) return NULL;
  kael_tensor *out = NULL;
  kl_status status = kl_log_softmax(self, dim, &out);
  return kl_hand_out(status, out);
}

kael_tensor *kael_nll_loss(kael_tensor *input, kael_tensor *target, kael_reduction reduction) {
  if (KL_MISSING(input, target)) return NULL;
  kael_tensor *out = NULL;
  kl_status status = kl_nll_loss(input, target, (int)reduction, &out);
  return kl_hand_out(status, out);
}

kael_tensor *kael_cross_entropy(kael_tensor *input, kael_tensor *target, kael_reduction reduction) {
  if (KL_MISSING(input, target)) return NULL;
  kael_tensor *out = NULL;
  kl_status status = kl_cross_entropy(input, target, (int)reduction, &out);
  return kl_hand_out(status, out);
}
