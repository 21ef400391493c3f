/* The extremes of index tensors: known, read from real bytes, or evaluated. */
#include "frontend/bounds.h"

#include "frontend/element.h"
#include "frontend/materialize.h"

/* What is known of the tensor's value; false when nothing is. */
static bool known_bounds(const kael_tensor *index, int64_t *out_least, int64_t *out_most) {
  if (kl_storage_is_shared(index->storage)) return false; /* its bytes may change unseen */
  kl_graph_lock();
  const kl_value *value = index->storage->value;
  bool known = value->dtype == index->dtype && kl_value_has_bounds(value);
  *out_least = value->least;
  *out_most = value->most;
  kl_graph_unlock();
  return known;
}

/* What was found holds for the whole value when the tensor shows all of it, and stays true, since
 * values do not change; only bytes that the caller may touch do. */
static void remember(const kael_tensor *index, int64_t least, int64_t most) {
  if (!kl_tensor_covers_storage(index) || kl_storage_is_shared(index->storage)) return;
  kl_graph_lock();
  kl_value *value = index->storage->value;
  if (value->dtype == index->dtype) {
    value->least = least;
    value->most = most;
  }
  kl_graph_unlock();
}

static kl_status extreme(kl_op op, kael_tensor *index, kael_tensor **out) {
  return kl_record_reduce(op, (kl_dtype)index->dtype, index, UINT32_MAX, false, out);
}

static kl_status evaluate(kael_tensor *index, int64_t *out_least, int64_t *out_most) {
  kael_tensor *least = NULL, *most = NULL;
  kl_buffer *least_held = NULL, *most_held = NULL;
  const char *least_bytes, *most_bytes;
  kl_status status;
  KL_TRY_GOTO(status, extreme(KL_OP_REDUCE_MIN, index, &least), done);
  KL_TRY_GOTO(status, extreme(KL_OP_REDUCE_MAX, index, &most), done);
  kl_value *values[2] = {least->storage->value, most->storage->value};
  KL_TRY_GOTO(status, kl_materialize(values, 2), done);
  KL_TRY_GOTO(status, kl_tensor_bytes(least, &least_held, &least_bytes), done);
  KL_TRY_GOTO(status, kl_tensor_bytes(most, &most_held, &most_bytes), done);
  *out_least = kl_element_int(least_bytes, (kl_dtype)index->dtype);
  *out_most = kl_element_int(most_bytes, (kl_dtype)index->dtype);
done:
  kl_buffer_release(least_held);
  kl_buffer_release(most_held);
  kl_tensor_release(least);
  kl_tensor_release(most);
  return status;
}

/* All elements of the storage as one tensor; its extremes, once known, serve every view of it. */
static kl_status whole_storage(const kael_tensor *index, kael_tensor **out) {
  int64_t numel = (int64_t)(index->storage->nbytes / kl_dtype_size((kl_dtype)index->dtype));
  return kl_tensor_create(kl_storage_retain(index->storage), (kl_dtype)index->dtype, 1, &numel, NULL,
                          0, out);
}

static bool may_remember(const kael_tensor *index) {
  if (kl_storage_is_shared(index->storage)) return false;
  kl_graph_lock();
  const kl_value *value = index->storage->value;
  bool real = value->state == KL_VALUE_REAL && value->dtype == index->dtype;
  kl_graph_unlock();
  return real;
}

kl_status kl_index_bounds(kael_tensor *index, int64_t extent, int64_t *out_least,
                          int64_t *out_most) {
  bool covers = kl_tensor_covers_storage(index);
  bool known = known_bounds(index, out_least, out_most);
  if (!known && !covers && may_remember(index)) {
    kael_tensor *whole;
    KL_TRY(whole_storage(index, &whole));
    kl_status status = evaluate(whole, out_least, out_most);
    if (!status) remember(whole, *out_least, *out_most);
    kl_tensor_release(whole);
    KL_TRY(status);
    known = true;
  }
  /* What is known may be wider than what is there: of argmax, the whole dim. */
  if (known && *out_least >= 0 && *out_most < extent) return KL_OK;
  KL_TRY(evaluate(index, out_least, out_most));
  remember(index, *out_least, *out_most);
  return KL_OK;
}
