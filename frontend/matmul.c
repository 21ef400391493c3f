/* Matrix products: the cases of torch.matmul become one batched product; linear. */
#include "frontend/compose.h"
#include "frontend/ops.h"
#include "frontend/strides.h"
#include "kael/nn.h"

/* --- Checks ----------------------------------------------------------------------------------- */

static kl_status check_dtypes(const kael_tensor *a, const kael_tensor *b) {
  if (a->dtype != b->dtype)
    return kl_fail(KL_ERR_RUNTIME,
                   "%s: expected m1 and m2 to have the same dtype, but got: %s != %s",
                   kl_thread.site, kl_dtype_torch_name((kl_dtype)a->dtype),
                   kl_dtype_torch_name((kl_dtype)b->dtype));
  if (a->dtype == KL_BOOL)
    return kl_fail(KL_ERR_NOT_IMPLEMENTED, "%s: not implemented for 'bool'", kl_thread.site);
  return KL_OK;
}

static kl_status check_shapes(const kael_tensor *a, const kael_tensor *b) {
  if (a->ndim == 0 || b->ndim == 0)
    return kl_fail(KL_ERR_RUNTIME,
                   "%s: both arguments to matmul need to be at least 1D, but they are %dD and %dD",
                   kl_thread.site, a->ndim, b->ndim);
  int64_t inner_a = a->shape[a->ndim - 1];
  int64_t inner_b = b->shape[b->ndim > 1 ? b->ndim - 2 : 0];
  if (inner_a != inner_b)
    return kl_fail(KL_ERR_RUNTIME,
                   "%s: mat1 and mat2 shapes cannot be multiplied (%s and %s): the inner sizes are "
                   "%lld and %lld",
                   kl_thread.site, kl_shape_text(a->ndim, a->shape),
                   kl_shape_text(b->ndim, b->shape), (long long)inner_a, (long long)inner_b);
  return KL_OK;
}

/* --- Bringing the operands to (batch..., m, k) and (batch..., k, n) -----------------------------
 */

typedef struct matrix {
  int ndim;
  int64_t shape[KL_MAX_RANK], strides[KL_MAX_RANK];
} matrix;

/* A vector becomes a row (left operand) or a column (right operand). */
static matrix as_matrix(const kael_tensor *tensor, bool is_left) {
  matrix result = {.ndim = tensor->ndim};
  for (int d = 0; d < tensor->ndim; d++) {
    result.shape[d] = tensor->shape[d];
    result.strides[d] = tensor->strides[d];
  }
  if (tensor->ndim > 1) return result;
  int vector = is_left ? 1 : 0;
  result.ndim = 2;
  result.shape[vector] = tensor->shape[0];
  result.strides[vector] = tensor->strides[0];
  result.shape[1 - vector] = 1;
  result.strides[1 - vector] = 0;
  return result;
}

/* Batches times one matrix are one larger matrix times it, where strides can say so. */
static void merge_batches(const kael_tensor *tensor, matrix *a, const matrix *b) {
  if (a->ndim < 3 || b->ndim > 2 || tensor->numel == 0) return;
  int64_t k = a->shape[a->ndim - 1], strides[2];
  int64_t shape[2] = {tensor->numel / k, k};
  if (!kl_view_strides(tensor, 2, shape, strides)) return;
  *a = (matrix){.ndim = 2, .shape = {shape[0], k}, .strides = {strides[0], strides[1]}};
}

/* Repeats the batch dims of `m` to the common batch shape. */
static void repeat_batches(matrix *m, int n_batch, const int64_t *batch) {
  matrix from = *m;
  int lead = n_batch + 2 - from.ndim;
  m->ndim = n_batch + 2;
  for (int d = 0; d < m->ndim; d++) {
    m->shape[d] = d < n_batch ? batch[d] : from.shape[d - lead];
    bool repeated = d < lead || (d < n_batch && from.shape[d - lead] == 1 && batch[d] != 1);
    m->strides[d] = repeated ? 0 : from.strides[d - lead];
  }
}

static kl_status broadcast_batches(const matrix *a, const matrix *b, int *out_n_batch,
                                   int64_t *out_batch) {
  int n_batch = (a->ndim > b->ndim ? a->ndim : b->ndim) - 2;
  for (int d = 0; d < n_batch; d++) {
    int at_a = d - (n_batch + 2 - a->ndim), at_b = d - (n_batch + 2 - b->ndim);
    int64_t size_a = at_a >= 0 ? a->shape[at_a] : 1, size_b = at_b >= 0 ? b->shape[at_b] : 1;
    if (size_a != size_b && size_a != 1 && size_b != 1)
      return kl_fail(KL_ERR_RUNTIME,
                     "%s: The size of tensor a (%lld) must match the size of tensor b (%lld) at "
                     "non-singleton dimension %d",
                     kl_thread.site, (long long)size_a, (long long)size_b, d);
    out_batch[d] = size_a == 1 ? size_b : size_a;
  }
  *out_n_batch = n_batch;
  return KL_OK;
}

/* The shape that the caller sees: batch dims, and m and n where the operands are no vectors. */
static int result_shape(const kael_tensor *a, const kael_tensor *b, int n_batch,
                        const int64_t *batch, int64_t *out_shape) {
  int ndim = 0;
  for (int d = 0; d < n_batch; d++) out_shape[ndim++] = batch[d];
  if (a->ndim > 1) out_shape[ndim++] = a->shape[a->ndim - 2];
  if (b->ndim > 1) out_shape[ndim++] = b->shape[b->ndim - 1];
  return ndim;
}

static kl_status multiply(const kael_tensor *a, const matrix *ma, const kael_tensor *b,
                          const matrix *mb, kael_tensor **out) {
  kael_tensor *left = NULL, *right = NULL;
  int64_t numel;
  KL_TRY(kl_shape_check(kl_thread.site, ma->ndim, ma->shape, &numel));
  KL_TRY(kl_shape_check(kl_thread.site, mb->ndim, mb->shape, &numel));
  kl_status status = kl_tensor_view(a, ma->ndim, ma->shape, ma->strides, a->offset, &left);
  if (!status) status = kl_tensor_view(b, mb->ndim, mb->shape, mb->strides, b->offset, &right);
  if (!status) status = kl_record_matmul(left, right, out);
  kl_tensor_release(left);
  kl_tensor_release(right);
  return status;
}

kl_status kl_matmul_untracked(kael_tensor *a, kael_tensor *b, kael_tensor **out) {
  KL_TRY(check_dtypes(a, b));
  KL_TRY(check_shapes(a, b));
  matrix ma = as_matrix(a, true), mb = as_matrix(b, false);
  int n_batch;
  int64_t batch[KL_MAX_RANK], shape[KL_MAX_RANK];
  KL_TRY(broadcast_batches(&ma, &mb, &n_batch, batch));
  int ndim = result_shape(a, b, n_batch, batch, shape);
  merge_batches(a, &ma, &mb);
  KL_TRY(broadcast_batches(&ma, &mb, &n_batch, batch));
  repeat_batches(&ma, n_batch, batch);
  repeat_batches(&mb, n_batch, batch);
  kael_tensor *product;
  KL_TRY(multiply(a, &ma, b, &mb, &product));
  if (kl_shape_equal(ndim, shape, product->ndim, product->shape)) {
    *out = product;
    return KL_OK;
  }
  kl_status status = kl_tensor_create(kl_storage_retain(product->storage), (kl_dtype)product->dtype,
                                      ndim, shape, NULL, 0, out);
  kl_tensor_release(product);
  return status;
}

/* --- The operators ---------------------------------------------------------------------------- */

kl_status kl_matmul(kael_tensor *self, kael_tensor *other, kael_tensor **out) {
  kl_set_site("matmul");
  kael_tensor *result;
  KL_TRY(kl_matmul_untracked(self, other, &result));
  kael_tensor *inputs[2] = {self, other};
  kl_fn_attrs attrs = {0};
  KL_TRY(kl_compose_track(KL_FN_MATMUL, inputs, 2, &attrs, &result));
  *out = result;
  return KL_OK;
}

static kl_status check_linear(const kael_tensor *input, const kael_tensor *weight,
                              const kael_tensor *bias) {
  if (weight->ndim != 2)
    return kl_fail(KL_ERR_RUNTIME, "linear: the weight must have 2 dims (out, in), not shape %s",
                   kl_shape_text(weight->ndim, weight->shape));
  if (bias && bias->dtype != input->dtype)
    return kl_fail(
        KL_ERR_RUNTIME, "linear: input and bias must have the same dtype, but got: %s != %s",
        kl_dtype_torch_name((kl_dtype)input->dtype), kl_dtype_torch_name((kl_dtype)bias->dtype));
  if (bias && (bias->ndim != 1 || (bias->shape[0] != weight->shape[0] && bias->shape[0] != 1)))
    return kl_fail(KL_ERR_RUNTIME, "linear: the bias must have shape [%lld], not %s",
                   (long long)weight->shape[0], kl_shape_text(bias->ndim, bias->shape));
  return KL_OK;
}

kl_status kl_linear(kael_tensor *input, kael_tensor *weight, kael_tensor *bias, kael_tensor **out) {
  kl_set_site("linear");
  KL_TRY(check_linear(input, weight, bias));
  int64_t shape[2] = {weight->shape[1], weight->shape[0]};
  int64_t strides[2] = {weight->strides[1], weight->strides[0]};
  kael_tensor *turned, *result = NULL;
  KL_TRY(kl_tensor_view(weight, 2, shape, strides, weight->offset, &turned));
  kl_status status = kl_matmul_untracked(input, turned, &result);
  kl_tensor_release(turned);
  if (!status && bias) {
    kael_tensor *product = result;
    status = kl_record_binary(KL_OP_ADD, product, bias, &result);
    kl_tensor_release(product);
  }
  if (status) return status;
  kael_tensor *inputs[3] = {input, weight, bias};
  kl_fn_attrs attrs = {0};
  KL_TRY(kl_compose_track(KL_FN_LINEAR, inputs, 3, &attrs, &result));
  *out = result;
  return KL_OK;
}

kael_tensor *kael_matmul(kael_tensor *self, kael_tensor *other) {
  if (KL_MISSING(self, other)) return NULL;
  kael_tensor *out = NULL;
  kl_status status = kl_matmul(self, other, &out);
  return kl_hand_out(status, out);
}

kael_tensor *kael_linear(kael_tensor *input, kael_tensor *weight, kael_tensor *bias) {
  if (KL_MISSING(input, weight)) return NULL;
  if (bias != KAEL_NONE && KL_MISSING(bias)) return NULL;
  kael_tensor *out = NULL;
  kl_status status = kl_linear(input, weight, bias == KAEL_NONE ? NULL : bias, &out);
  return kl_hand_out(status, out);
}
