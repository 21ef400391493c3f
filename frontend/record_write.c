/* In-place recording: new data for a storage, whole or through a view. */
#include "frontend/layout.h"
#include "frontend/materialize.h"
#include "frontend/record_value.h"

enum { MAX_ARGS = 3 };

kl_status kl_check_inplace(const kael_tensor *self, const char *op) {
  if (self->storage->flags & KL_STORAGE_READONLY)
    return kl_fail(KL_ERR_RUNTIME, "%s: the memory of this tensor is read-only; call clone() first",
                   op);
  if (kl_tensor_overlaps_itself(self))
    return kl_fail(KL_ERR_RUNTIME,
                   "%s: unsupported operation: more than one element of the written-to tensor "
                   "refers to a single memory location; call clone() first (shape %s, strides %s)",
                   op, kl_shape_text(self->ndim, self->shape),
                   kl_shape_text(self->ndim, self->strides));
  return KL_OK;
}

/* The order in which data for self is laid out: that of self's memory. */
static void order_of(const kael_tensor *self, int *order) {
  kl_walk walk = {.n_dims = self->ndim, .n_walked = 1};
  for (int d = 0; d < self->ndim; d++) {
    walk.dims[d] = self->shape[d];
    walk.strides[0][d] = self->strides[d];
  }
  kl_layout_order_by_first(&walk, order);
}

/* The op's result, over self's shape in self's order, as a value; takes the reads over. */
static kl_status make_data(const kael_tensor *self, const int *order, kl_op op, kl_dtype dtype,
                           const kl_arg *args, int n_args, kl_read *reads, kl_value **out_data) {
  kl_walk walk = {.n_dims = self->ndim};
  for (int d = 0; d < self->ndim; d++) walk.dims[d] = self->shape[d];
  for (int i = 0; i < n_args; i++)
    if (args[i].tensor)
      kl_layout_broadcast(args[i].tensor, self->ndim, self->shape, walk.strides[walk.n_walked++]);
  kl_layout_compact(&walk, order);
  kl_status status = kl_value_create(op, dtype, walk.n_dims, 0, out_data);
  if (status) {
    kl_reads_release(reads, n_args);
    return status;
  }
  kl_value *data = *out_data;
  data->numel = self->numel;
  data->site = kl_thread.site;
  kl_value_set_dims(data, walk.n_dims, walk.dims);
  for (int i = 0, walked = 0; i < n_args; i++) {
    if (args[i].tensor)
      kl_value_set_operand(data, i, reads[i].value, args[i].tensor->offset, walk.strides[walked++]);
    else
      kl_value_set_scalar(data, i, args[i].scalar);
  }
  return KL_OK;
}

/* Casts a whole value; takes the reference over. */
static kl_status cast_data(kl_value *data, kl_dtype dtype, kl_value **out_data) {
  int64_t one = 1;
  kl_status status = kl_value_create(KL_OP_CAST, dtype, data->numel > 1, 0, out_data);
  if (status) {
    kl_value_release(data);
    return status;
  }
  (*out_data)->numel = data->numel;
  (*out_data)->site = kl_thread.site;
  kl_value_set_dims(*out_data, data->numel > 1, &data->numel);
  kl_value_set_operand(*out_data, 0, data, 0, &one);
  return KL_OK;
}

/* write_view(old, data) at self's places; takes both references over. */
static kl_status make_write(const kael_tensor *self, const int *order, kl_value *old,
                            kl_value *data, kl_value **out_value) {
  kl_walk walk = {.n_dims = self->ndim, .n_walked = 2};
  for (int d = 0; d < self->ndim; d++) {
    walk.dims[d] = self->shape[d];
    walk.strides[1][d] = self->strides[d];
  }
  kl_layout_dense_strides(&walk, order, walk.strides[0]);
  kl_layout_compact(&walk, order);
  kl_status status =
      kl_value_create(KL_OP_WRITE_VIEW, (kl_dtype)old->dtype, walk.n_dims, 0, out_value);
  if (status) {
    kl_value_release(old);
    kl_value_release(data);
    return status;
  }
  kl_value *value = *out_value;
  value->numel = old->numel;
  value->site = kl_thread.site;
  kl_value_set_dims(value, walk.n_dims, walk.dims);
  value->operands[0].value = old;
  kl_value_set_operand(value, 1, data, 0, walk.strides[0]);
  value->out_offset = self->offset;
  int64_t *out_strides = (int64_t *)value->out_strides;
  for (int d = 0; d < walk.n_dims; d++) out_strides[d] = walk.strides[1][d];
  return KL_OK;
}

/* The storage's current value in self's dtype. */
static kl_status read_old(const kael_tensor *self, kl_value **out_old) {
  kl_value *value = kl_storage_get_value(self->storage);
  if (value->dtype == self->dtype) {
    *out_old = value;
    return KL_OK;
  }
  return kl_value_reinterpret(value, (kl_dtype)self->dtype, self->storage->nbytes, out_old);
}

/* Makes `value` (taken over) the storage's, counts the write, and runs it where it must. A failure
 * leaves the storage as it was, so that the caller can write again. */
static kl_status install(kael_tensor *self, kl_value *value, bool reads_shared) {
  kl_storage *storage = self->storage;
  kl_graph_lock();
  kl_value *old = kl_storage_exchange_value(storage, value);
  bool runs = kl_runs_when_recorded(storage, reads_shared);
  old->undoable = runs;
  kl_graph_unlock();
  atomic_fetch_add_explicit(&storage->version, 1, memory_order_relaxed);
  if (!runs) {
    kl_value_release(old); /* now: the flush goes by the bytes that are held */
    return kl_recorded(storage, reads_shared);
  }
  kl_status status = kl_recorded(storage, reads_shared);
  kl_graph_lock();
  old->undoable = false;
  if (status && storage->value == value && value->state != KL_VALUE_REAL) {
    kl_storage_undo_write(storage, old);
    atomic_fetch_sub_explicit(&storage->version, 1, memory_order_relaxed);
  }
  kl_graph_unlock();
  kl_value_release(old);
  return status;
}

kl_status kl_record_write(kael_tensor *self, kl_op op, kl_dtype dtype, const kl_arg *args,
                          int n_args) {
  if (self->numel == 0) {
    atomic_fetch_add_explicit(&self->storage->version, 1, memory_order_relaxed);
    return KL_OK;
  }
  int order[KL_MAX_RANK];
  order_of(self, order);
  kl_read reads[MAX_ARGS];
  bool reads_shared = false;
  KL_TRY(kl_reads_take(args, n_args, reads, &reads_shared));
  kl_value *value;
  KL_TRY(make_data(self, order, op, dtype, args, n_args, reads, &value));
  if (value->dtype != self->dtype) KL_TRY(cast_data(value, (kl_dtype)self->dtype, &value));
  if (!kl_tensor_covers_storage(self)) {
    kl_value *old;
    kl_status status = read_old(self, &old);
    if (status) {
      kl_value_release(value);
      return status;
    }
    KL_TRY(make_write(self, order, old, value, &value));
  }
  return install(self, value, reads_shared);
}

/* Dims of a scatter: all but `dim`, merged where possible, then `dim`, which ascends. */
static void walk_scatter(const kael_tensor *self, int dim, const kael_tensor *index,
                         const kael_tensor *src, kl_walk *walk) {
  kl_walk tail = {.n_dims = 1, .n_walked = 3};
  *walk = (kl_walk){.n_walked = 3};
  for (int d = 0; d < index->ndim; d++) {
    kl_walk *into = d == dim ? &tail : walk;
    int place = d == dim ? 0 : walk->n_dims++;
    into->dims[place] = index->shape[d];
    into->strides[0][place] = d == dim ? 0 : self->strides[d];
    into->strides[1][place] = src->strides[d];
    into->strides[2][place] = index->strides[d];
  }
  kl_layout_compact(walk, NULL);
  kl_layout_append(walk, &tail);
}

kl_status kl_record_scatter(kl_op op, kael_tensor *self, int dim, kael_tensor *index,
                            kael_tensor *src) {
  if (index->numel == 0) {
    atomic_fetch_add_explicit(&self->storage->version, 1, memory_order_relaxed);
    return KL_OK;
  }
  kl_walk walk;
  walk_scatter(self, dim, index, src, &walk);
  kl_arg args[2] = {{.tensor = src}, {.tensor = index}};
  kl_read reads[2];
  bool reads_shared = false;
  KL_TRY(kl_reads_take(args, 2, reads, &reads_shared));
  kl_value *old, *value;
  kl_status status = read_old(self, &old);
  if (!status) {
    status = kl_value_create(op, (kl_dtype)self->dtype, walk.n_dims, 1, &value);
    if (status) kl_value_release(old);
  }
  if (status) {
    kl_reads_release(reads, 2);
    return status;
  }
  value->numel = old->numel;
  value->site = kl_thread.site;
  kl_value_set_dims(value, walk.n_dims, walk.dims);
  value->operands[0].value = old;
  kl_value_set_operand(value, 1, reads[0].value, src->offset, walk.strides[1]);
  kl_value_set_operand(value, 2, reads[1].value, index->offset, walk.strides[2]);
  value->out_offset = self->offset;
  int64_t *out_strides = (int64_t *)value->out_strides;
  for (int d = 0; d < walk.n_dims; d++) out_strides[d] = walk.strides[0][d];
  value->index_stride = self->strides[dim];
  value->index_extent = self->shape[dim];
  return install(self, value, reads_shared);
}
