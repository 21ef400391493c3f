/* Random tensors: words of Philox at counters taken at the call, made into floats exactly.
 *
 * A float takes as many low bits of its words as its mantissa holds: 24 of one word for f32, 53 of
 * two for f64, so that every multiple of 2^-24 (2^-53) in [0, 1) is as likely. The normal ones take
 * one bit less and add a half, which keeps 0 and 1 out. */
#include "kael/random.h"
#include "frontend/ops.h"
#include "frontend/promote.h"

/* The steps of one tensor: what is made replaces what it was made of. */
static kl_status step(kl_status status, kl_op op, kl_dtype dtype, kael_tensor **tensor,
                      kael_tensor *other, kl_scalar number, bool has_number) {
  if (status) return status;
  kl_arg args[2] = {{.tensor = *tensor}, {.tensor = other, .scalar = number}};
  kael_tensor *made;
  int n_args = 1 + (other || has_number);
  KL_TRY(kl_record_elem(op, dtype, args, n_args, KL_LAYOUT_KEEP, &made));
  kl_tensor_release(*tensor);
  *tensor = made;
  return KL_OK;
}

static kl_status step_int(kl_status status, kl_op op, kael_tensor **tensor, int64_t number) {
  if (status) return status;
  kl_dtype dtype = (kl_dtype)(*tensor)->dtype;
  return step(KL_OK, op, dtype, tensor, NULL, kl_scalar_from_int(number, dtype), true);
}

static kl_status step_double(kl_status status, kl_op op, kael_tensor **tensor, double number) {
  if (status) return status;
  kl_dtype dtype = (kl_dtype)(*tensor)->dtype;
  return step(KL_OK, op, dtype, tensor, NULL, kl_scalar_from_double(number, dtype), true);
}

static kl_status step_cast(kl_status status, kl_dtype dtype, kael_tensor **tensor) {
  return step(status, KL_OP_CAST, dtype, tensor, NULL, (kl_scalar){0}, false);
}

static kl_status random_words(kl_op op, kael_tensor *index, int64_t seed, int64_t counter,
                              kael_tensor **out) {
  kl_arg args[3] = {{.tensor = index}, {.scalar.i64 = counter}, {.scalar.i64 = seed}};
  return kl_record_elem(op, KL_I32, args, 3, KL_LAYOUT_KEEP, out);
}

/* The low `n_bits` of the words of each element, as integers in a dtype that holds them. */
static kl_status random_bits(kael_tensor *index, bool two_words, int n_bits, int64_t seed,
                             int64_t counter, kael_tensor **out) {
  kael_tensor *low, *high = NULL;
  KL_TRY(random_words(KL_OP_RANDOM, index, seed, counter, &low));
  kl_status status = KL_OK;
  if (!two_words) {
    status = step_int(status, KL_OP_AND, &low, (INT64_C(1) << n_bits) - 1);
  } else {
    status = step_cast(status, KL_I64, &low);
    status = step_int(status, KL_OP_AND, &low, INT64_C(0xFFFFFFFF));
    if (!status) status = random_words(KL_OP_RANDOM_HIGH, index, seed, counter, &high);
    status = step_cast(status, KL_I64, &high);
    status = step_int(status, KL_OP_AND, &high, (INT64_C(1) << (n_bits - 32)) - 1);
    status = step_int(status, KL_OP_SHL, &high, 32);
    status = step(status, KL_OP_OR, KL_I64, &low, high, (kl_scalar){0}, false);
  }
  kl_tensor_release(high);
  if (status)
    kl_tensor_release(low);
  else
    *out = low;
  return status;
}

static kl_status random_floats(int64_t numel, kl_dtype dtype, bool normal, kael_tensor **out) {
  int64_t seed, counter;
  kl_generator_take(numel, &seed, &counter);
  kael_tensor *index, *floats = NULL;
  KL_TRY(kl_record_index(numel, &index));
  bool two_words = dtype == KL_F64;
  int n_bits = (two_words ? 53 : 24) - normal;
  kl_status status = random_bits(index, two_words, n_bits, seed, counter, &floats);
  kl_tensor_release(index);
  status = step_cast(status, dtype, &floats);
  if (normal) status = step_double(status, KL_OP_ADD, &floats, 0.5);
  double unit = 1.0 / (double)(INT64_C(1) << n_bits);
  status = step_double(status, KL_OP_MUL, &floats, unit);
  if (normal) status = step(status, KL_OP_NDTRI, dtype, &floats, NULL, (kl_scalar){0}, false);
  if (status)
    kl_tensor_release(floats);
  else
    *out = floats;
  return status;
}

static kl_status random_tensor(const char *name, int ndim, const int64_t *shape, kl_dtype dtype,
                               bool normal, kael_tensor **out) {
  int64_t numel;
  kl_set_site(name);
  KL_TRY(kl_check_dtype(name, (int)dtype));
  if (!kl_dtype_is_float(dtype))
    return kl_fail(KL_ERR_RUNTIME, "%s: not implemented for '%s': the dtype must be floating", name,
                   kl_dtype_torch_name(dtype));
  KL_TRY(kl_shape_check(name, ndim, shape, &numel));
  kael_tensor *flat;
  KL_TRY(random_floats(numel, dtype, normal, &flat));
  kl_status status =
      kl_tensor_create(kl_storage_retain(flat->storage), dtype, ndim, shape, NULL, 0, out);
  kl_tensor_release(flat);
  return status;
}

kael_tensor *kael_rand(int ndim, const int64_t *shape, kael_dtype dtype) {
  kael_tensor *out = NULL;
  kl_status status = random_tensor("rand", ndim, shape, (kl_dtype)dtype, false, &out);
  return kl_hand_out(status, out);
}

kael_tensor *kael_randn(int ndim, const int64_t *shape, kael_dtype dtype) {
  kael_tensor *out = NULL;
  kl_status status = random_tensor("randn", ndim, shape, (kl_dtype)dtype, true, &out);
  return kl_hand_out(status, out);
}
