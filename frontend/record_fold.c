/* Recording of what has an iteration space larger than its result, or reads by an index:
 * reductions, matrix products, gathers. */
#include "frontend/half.h"
#include "frontend/layout.h"
#include "frontend/record_value.h"

/* --- Reductions ------------------------------------------------------------------------------- */

/* What an empty fold gives. */
static kl_scalar first_value(kl_op op, kl_dtype dtype) {
  return kl_scalar_from_int(op == KL_OP_REDUCE_PROD || op == KL_OP_REDUCE_ALL, dtype);
}

/* Splits the dims into kept and folded ones and computes the result's shape. */
static int split_dims(const kael_tensor *a, uint32_t mask, bool keepdim, kl_walk *kept,
                      kl_walk *folded, int64_t *out_shape) {
  int ndim = 0;
  *kept = *folded = (kl_walk){.n_walked = 1};
  for (int d = 0; d < a->ndim; d++) {
    bool folds = mask >> d & 1;
    kl_walk *into = folds ? folded : kept;
    into->dims[into->n_dims] = a->shape[d];
    into->strides[0][into->n_dims++] = a->strides[d];
    if (!folds || keepdim) out_shape[ndim++] = folds ? 1 : a->shape[d];
  }
  return ndim;
}

static int64_t product(int n, const int64_t *sizes) {
  int64_t result = 1;
  for (int i = 0; i < n; i++) result *= sizes[i];
  return result;
}

/* f16 and bf16 are folded in f32 and rounded once. */
static kl_status reduce_half(kl_op op, kl_dtype dtype, kael_tensor *a, uint32_t mask, bool keepdim,
                             kael_tensor **out) {
  kael_tensor *wide, *result;
  KL_TRY(kl_record_cast(a, KL_F32, &wide));
  kl_status status = kl_record_reduce(op, kl_compute_dtype(dtype), wide, mask, keepdim, &result);
  kl_tensor_release(wide);
  if (status) return status;
  status = kl_record_cast(result, dtype, out);
  kl_tensor_release(result);
  return status;
}

kl_status kl_record_reduce(kl_op op, kl_dtype dtype, kael_tensor *a, uint32_t mask, bool keepdim,
                           kael_tensor **out) {
  if (kl_dtype_is_half((kl_dtype)a->dtype)) return reduce_half(op, dtype, a, mask, keepdim, out);
  kl_walk kept, folded;
  int64_t shape[KL_MAX_RANK];
  int ndim = split_dims(a, mask, keepdim, &kept, &folded, shape);
  int64_t numel = product(ndim, shape);
  if (a->numel == 0 || numel == 0)
    return kl_record_fill(dtype, ndim, shape, first_value(op, dtype), out);
  kl_layout_compact(&kept, NULL);
  kl_layout_compact(&folded, NULL);
  kl_layout_append(&kept, &folded);
  kl_arg arg = kl_arg_tensor(a);
  kl_read read;
  bool reads_shared = false;
  KL_TRY(kl_reads_take(&arg, 1, &read, &reads_shared));
  kl_value *value;
  kl_status status = kl_value_create(op, dtype, kept.n_dims, folded.n_dims, &value);
  if (status) {
    kl_reads_release(&read, 1);
    return status;
  }
  value->numel = numel;
  value->site = kl_thread.site;
  kl_value_set_dims(value, kept.n_dims, kept.dims);
  kl_value_set_operand(value, 0, read.value, a->offset, kept.strides[0]);
  if (op == KL_OP_REDUCE_ARGMAX || op == KL_OP_REDUCE_ARGMIN) {
    value->least = 0;
    value->most = product(folded.n_dims, folded.dims) - 1;
  }
  return kl_record_finish(value, dtype, ndim, shape, NULL, reads_shared, out);
}

/* --- Matrix products -------------------------------------------------------------------------- */

static void append_dim(kl_walk *walk, int64_t size, int64_t stride_a, int64_t stride_b) {
  int place = walk->n_dims++;
  walk->dims[place] = size;
  walk->strides[0][place] = stride_a;
  walk->strides[1][place] = stride_b;
}

static kl_status matmul_half(kael_tensor *a, kael_tensor *b, kael_tensor **out) {
  kael_tensor *left, *right = NULL, *product = NULL;
  KL_TRY(kl_record_cast(a, KL_F32, &left));
  kl_status status = kl_record_cast(b, KL_F32, &right);
  if (!status) status = kl_record_matmul(left, right, &product);
  if (!status) status = kl_record_cast(product, (kl_dtype)a->dtype, out);
  kl_tensor_release(left);
  kl_tensor_release(right);
  kl_tensor_release(product);
  return status;
}

kl_status kl_record_matmul(kael_tensor *a, kael_tensor *b, kael_tensor **out) {
  if (kl_dtype_is_half((kl_dtype)a->dtype)) return matmul_half(a, b, out);
  int n_batch = a->ndim - 2;
  int64_t shape[KL_MAX_RANK];
  kl_walk walk = {.n_walked = 2};
  for (int d = 0; d < n_batch; d++) {
    shape[d] = a->shape[d];
    append_dim(&walk, a->shape[d], a->strides[d], b->strides[d]);
  }
  int64_t m = a->shape[n_batch], k = a->shape[n_batch + 1], n = b->shape[n_batch + 1];
  shape[n_batch] = m;
  shape[n_batch + 1] = n;
  kl_dtype dtype = (kl_dtype)a->dtype;
  int64_t numel;
  KL_TRY(kl_shape_check(kl_thread.site, a->ndim, shape, &numel));
  if (numel == 0 || k == 0)
    return kl_record_fill(dtype, a->ndim, shape, kl_scalar_from_int(0, dtype), out);
  kl_layout_compact(&walk, NULL);
  append_dim(&walk, m, a->strides[n_batch], 0);
  append_dim(&walk, n, 0, b->strides[n_batch + 1]);
  append_dim(&walk, k, a->strides[n_batch + 1], b->strides[n_batch]);
  kl_arg args[2] = {{.tensor = a}, {.tensor = b}};
  kl_read reads[2];
  bool reads_shared = false;
  KL_TRY(kl_reads_take(args, 2, reads, &reads_shared));
  kl_value *value;
  kl_status status = kl_value_create(KL_OP_MATMUL, dtype, walk.n_dims, 1, &value);
  if (status) {
    kl_reads_release(reads, 2);
    return status;
  }
  value->numel = numel;
  value->site = kl_thread.site;
  kl_value_set_dims(value, walk.n_dims, walk.dims);
  kl_value_set_operand(value, 0, reads[0].value, a->offset, walk.strides[0]);
  kl_value_set_operand(value, 1, reads[1].value, b->offset, walk.strides[1]);
  return kl_record_finish(value, dtype, a->ndim, shape, NULL, reads_shared, out);
}

/* --- Gathers ---------------------------------------------------------------------------------- */

kl_status kl_record_gather(kael_tensor *a, int dim, kael_tensor *index, kael_tensor **out) {
  kl_walk walk = {.n_dims = index->ndim, .n_walked = 2};
  for (int d = 0; d < index->ndim; d++) {
    walk.dims[d] = index->shape[d];
    walk.strides[0][d] = d == dim || a->ndim == 0 ? 0 : a->strides[d];
    walk.strides[1][d] = index->strides[d];
  }
  kl_dtype dtype = (kl_dtype)a->dtype;
  if (index->numel == 0)
    return kl_record_fill(dtype, index->ndim, index->shape, (kl_scalar){0}, out);
  kl_layout_compact(&walk, NULL);
  kl_arg args[2] = {{.tensor = a}, {.tensor = index}};
  kl_read reads[2];
  bool reads_shared = false;
  KL_TRY(kl_reads_take(args, 2, reads, &reads_shared));
  kl_value *value;
  kl_status status = kl_value_create(KL_OP_GATHER, dtype, walk.n_dims, 0, &value);
  if (status) {
    kl_reads_release(reads, 2);
    return status;
  }
  value->numel = index->numel;
  value->site = kl_thread.site;
  kl_value_set_dims(value, walk.n_dims, walk.dims);
  kl_value_set_operand(value, 0, reads[0].value, a->offset, walk.strides[0]);
  kl_value_set_operand(value, 1, reads[1].value, index->offset, walk.strides[1]);
  value->index_stride = a->ndim ? a->strides[dim] : 0;
  value->index_extent = a->ndim ? a->shape[dim] : 1;
  return kl_record_finish(value, dtype, index->ndim, index->shape, NULL, reads_shared, out);
}
