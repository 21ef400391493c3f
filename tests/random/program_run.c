/* Runs statements through the public API and writes down all that can be seen. See program.h. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/naive/naive_ops.h"
#include "tests/random/program.h"

void program_data(kael_dtype dtype, int64_t pattern, int64_t n, void *out) {
  static const double specials[] = {0, -0.0, 1, -1, INFINITY, -INFINITY, NAN, 1e-40, 3e38, 0.5};
  uint64_t state = (uint64_t)pattern * 0x9e3779b97f4a7c15 + 1;
  for (int64_t i = 0; i < n; i++) {
    state = state * 6364136223846793005 + 1442695040888963407;
    uint64_t bits = state >> 33;
    int64_t whole = pattern < 0 ? (int64_t)(bits % (uint64_t)-pattern) : (int64_t)(bits % 9) - 4;
    double real = pattern < 0 ? (double)whole : (double)(int64_t)(bits % 4001) / 1000 - 2;
    if (pattern == 0) whole = i % 50, real = (double)(i % 50);
    if (pattern % 5 == 4 && bits % 4 == 0) real = specials[bits / 4 % 10];
    kl_scalar value = {.bits = 0};
    switch (dtype) {
      case KAEL_F32:
        value.f32 = (float)real;
        break;
      case KAEL_F64:
        value.f64 = real;
        break;
      case KAEL_BOOL:
        value.u8 = whole & 1;
        break;
      case KAEL_I32:
        value.i32 = (int32_t)whole;
        break;
      case KAEL_U8:
        value.u8 = (uint8_t)whole;
        break;
      default:
        value.i64 = whole;
        break;
    }
    naive_store((kl_dtype)dtype, out, i, value);
  }
}

/* ------------------------------------------------------------------ describing */

static void describe_list(const int64_t *values, int n, kl_text *out) {
  for (int d = 0; d < n; d++) kl_text_add(out, "%s%" PRId64, d ? "," : "", values[d]);
}

static void describe_meta(kael_tensor *t, kl_text *out) {
  if (!t) {
    kl_text_add(out, "NULL");
    return;
  }
  kl_text_add(out, "%s [", kael_dtype_name(kael_dtype_of(t)));
  describe_list(kael_shape(t), kael_ndim(t), out);
  kl_text_add(out, "] (");
  describe_list(kael_strides(t), kael_ndim(t), out);
  kl_text_add(out, ")+%" PRId64 " version %" PRIu64, kael_offset(t), kael_version(t));
  const char *fn = kael_grad_fn_name(t);
  if (kael_requires_grad(t))
    kl_text_add(out, " requires_grad%s %s", kael_is_leaf(t) ? " leaf" : "", fn ? fn : "-");
  kael_error error = kael_last_error();
  if (error.code != KAEL_OK) kl_text_add(out, " error %s", error.message);
  kael_clear_error();
}

/* The first elements and a hash of all; all NaNs are one value. */
static void describe_values(kael_tensor *t, kl_text *out) {
  kl_dtype dtype = (kl_dtype)kael_dtype_of(t);
  int64_t n = kael_numel(t);
  size_t nbytes = (size_t)n * kl_dtype_size(dtype);
  void *bytes = malloc(nbytes + 1);
  uint64_t hash = 14695981039346656037u;
  if (kael_copy_to_host(t, bytes, nbytes) != KAEL_OK) {
    kl_text_add(out, " unreadable: %s", kael_last_error().message);
    kael_clear_error();
    n = 0;
  }
  for (int64_t i = 0; i < n; i++) {
    kl_scalar value = naive_load(dtype, bytes, i);
    bool is_nan = naive_is_nan(dtype, value);
    if (is_nan) value.bits = 0x7ff8;
    hash = (hash ^ value.bits) * 1099511628211u;
    if (i >= 6) continue;
    if (is_nan)
      kl_text_add(out, " nan");
    else if (kl_dtype_is_float(dtype))
      kl_text_add(out, " %a", dtype == KL_F32 ? (double)value.f32 : value.f64);
    else
      kl_text_add(out, " %" PRId64, dtype == KL_I32 ? value.i32 : value.i64);
  }
  kl_text_add(out, " #%016" PRIx64, hash);
  free(bytes);
}

void machine_describe(machine *m, kl_text *trace) {
  for (int r = 0; r < PROGRAM_REGISTERS; r++) {
    kael_tensor *t = m->t[r];
    if (!t) continue;
    kl_text_add(trace, "t%d: ", r);
    describe_meta(t, trace);
    describe_values(t, trace);
    kael_tensor *grad = kael_grad(t);
    kael_clear_error();
    if (grad) {
      kl_text_add(trace, "\n  grad ");
      describe_meta(grad, trace);
      describe_values(grad, trace);
      kael_release(grad);
    }
    for (int q = 0; q < r; q++)
      if (m->t[q] && kael_shares_storage(t, m->t[q]))
        kl_text_add(trace, " %s t%d", kael_is_same(t, m->t[q]) ? "is" : "shares with", q);
    kl_text_add(trace, "\n");
  }
}

/* ------------------------------------------------------------------ running */

void machine_start(machine *m, kael_jit_mode mode) {
  memset(m, 0, sizeof *m);
  kael_set_jit(mode);
  kael_set_grad_enabled(true);
  kael_manual_seed(7);
  kael_clear_error();
}

void machine_finish(machine *m) {
  for (int r = 0; r < PROGRAM_REGISTERS; r++) kael_release(m->t[r]);
  memset(m, 0, sizeof *m);
  kael_set_grad_enabled(true);
  kael_clear_error();
}

static kael_tensor *make(const statement *s) {
  int64_t numel = 1;
  for (int d = 1; d < s->n_ints; d++) numel *= s->ints[d];
  void *data = malloc((size_t)numel * 8 + 1);
  program_data((kael_dtype)s->dtype, s->ints[0], numel, data);
  kael_tensor *t = kael_from_data(data, s->n_ints - 1, s->ints + 1, (kael_dtype)s->dtype);
  free(data);
  return t;
}

static kael_tensor *first_of(kael_status status, kael_tensor **views, int64_t n) {
  if (status != KAEL_OK) return NULL;
  for (int64_t i = 1; i < n; i++) kael_release(views[i]);
  return n > 0 ? views[0] : NULL;
}

static int64_t dim_size(kael_tensor *a, int64_t dim) {
  int rank = a ? kael_ndim(a) : 0;
  if (dim < 0) dim += rank;
  return dim >= 0 && dim < rank ? kael_size(a, (int)dim) : 0;
}

static kael_tensor *unbind_first(kael_tensor *a, int64_t dim) {
  int64_t n = dim_size(a, dim);
  kael_tensor **views = calloc((size_t)n + 1, sizeof *views);
  kael_tensor *first = first_of(kael_unbind(a, dim, views), views, n);
  free(views);
  return first;
}

static kael_tensor *split_first(kael_tensor *a, int64_t size, int64_t dim) {
  int64_t n = (dim_size(a, dim) + size - 1) / size;
  kael_tensor **views = calloc((size_t)n + 2, sizeof *views);
  kael_tensor *first = first_of(kael_split(a, size, dim, views), views, n > 0 ? n : 1);
  free(views);
  return first;
}

/* Statements that make a tensor; false when the kind is none of them. */
static bool run_maker(const statement *s, kael_tensor *a, kael_tensor *b, kael_tensor *c,
                      kael_tensor **out) {
  const program_fn *fn = &program_fns[s->fn];
  const int64_t *ints = s->ints;
  kael_tensor *pair[2] = {a, b};
  kael_dtype dtype = (kael_dtype)s->dtype;
  switch (s->kind) {
    case S_FROM_DATA:
      *out = make(s);
      break;
    case S_FULL:
      *out = kael_full(s->n_ints, ints, s->number, dtype);
      break;
    case S_ARANGE:
      *out = kael_arange(kael_i(ints[0]), kael_i(ints[1]), kael_i(ints[2]), dtype);
      break;
    case S_RAND:
      *out = kael_rand(s->n_ints, ints, dtype);
      break;
    case S_RANDN:
      *out = kael_randn(s->n_ints, ints, dtype);
      break;
    case S_UNARY:
      *out = fn->unary(a);
      break;
    case S_BINARY:
      *out = fn->with(a, b);
      break;
    case S_SCALAR:
      *out = fn->scalar(a, s->number);
      break;
    case S_POW:
      *out = kael_pow(a, s->number);
      break;
    case S_WHERE:
      *out = kael_where(a, b, c);
      break;
    case S_MASKED_FILL:
      *out = kael_masked_fill(a, b, s->number);
      break;
    case S_TO_DTYPE:
      *out = kael_to_dtype(a, dtype);
      break;
    case S_CLONE:
      *out = kael_clone(a);
      break;
    case S_CONTIGUOUS:
      *out = kael_contiguous(a);
      break;
    case S_SUM:
      *out = kael_sum_dims(a, s->n_ints, ints, s->flag);
      break;
    case S_MEAN:
      *out = kael_mean_dims(a, s->n_ints, ints, s->flag);
      break;
    case S_AMAX:
      *out = kael_amax(a, s->n_ints, ints, s->flag);
      break;
    case S_ARGMAX:
      *out = s->n_ints ? kael_argmax_dim(a, ints[0], s->flag) : kael_argmax(a);
      break;
    case S_ANY:
      *out = kael_any_dims(a, s->n_ints, ints, s->flag);
      break;
    case S_ALL:
      *out = kael_all_dims(a, s->n_ints, ints, s->flag);
      break;
    case S_SOFTMAX:
      *out = kael_softmax(a, ints[0]);
      break;
    case S_LOG_SOFTMAX:
      *out = kael_log_softmax(a, ints[0]);
      break;
    case S_MATMUL:
      *out = kael_matmul(a, b);
      break;
    case S_LINEAR:
      *out = kael_linear(a, b, s->flag ? c : KAEL_NONE);
      break;
    case S_CAT:
      *out = kael_cat(pair, 2, ints[0]);
      break;
    case S_INDEX_SELECT:
      *out = kael_index_select(a, ints[0], b);
      break;
    case S_GATHER:
      *out = kael_gather(a, ints[0], b);
      break;
    case S_SCATTER_ADD:
      *out = kael_scatter_add(a, ints[0], b, c);
      break;
    case S_NLL_LOSS:
      *out = kael_nll_loss(a, b, (kael_reduction)ints[0]);
      break;
    case S_CROSS_ENTROPY:
      *out = kael_cross_entropy(a, b, (kael_reduction)ints[0]);
      break;
    case S_VIEW:
      *out = kael_view(a, s->n_ints, ints);
      break;
    case S_RESHAPE:
      *out = kael_reshape(a, s->n_ints, ints);
      break;
    case S_TRANSPOSE:
      *out = kael_transpose(a, ints[0], ints[1]);
      break;
    case S_PERMUTE:
      *out = kael_permute(a, s->n_ints, ints);
      break;
    case S_SLICE:
      *out = kael_slice(a, ints[0], ints[1], ints[2], ints[3]);
      break;
    case S_SELECT:
      *out = kael_select(a, ints[0], ints[1]);
      break;
    case S_EXPAND:
      *out = kael_expand(a, s->n_ints, ints);
      break;
    case S_SQUEEZE:
      *out = kael_squeeze(a);
      break;
    case S_UNSQUEEZE:
      *out = kael_unsqueeze(a, ints[0]);
      break;
    case S_AS_STRIDED:
      *out = kael_as_strided(a, s->n_ints / 2, ints, ints + s->n_ints / 2, ints[s->n_ints]);
      break;
    case S_DIAGONAL:
      *out = kael_diagonal(a, ints[0], ints[1], ints[2]);
      break;
    case S_DETACH:
      *out = kael_detach(a);
      break;
    case S_UNBIND_FIRST:
      *out = unbind_first(a, ints[0]);
      break;
    case S_SPLIT_FIRST:
      *out = split_first(a, ints[1], ints[0]);
      break;
    case S_ALIAS:
      *out = kael_retain(a);
      break;
    case S_GRAD:
      *out = a ? kael_grad(a) : NULL;
      break;
    default:
      return false;
  }
  return true;
}

/* A write through a raw pointer to the first element. */
static kael_status poke(kael_tensor *a, kael_scalar number) {
  void *bytes = kael_mutable_data_ptr(a);
  if (!bytes) return kael_last_error().code;
  kl_scalar value = {.bits = 1};
  if (kael_dtype_of(a) == KAEL_F32) value.f32 = (float)number.as.f;
  if (kael_dtype_of(a) == KAEL_F64) value.f64 = number.as.f;
  if (kael_numel(a) > 0) naive_store((kl_dtype)kael_dtype_of(a), bytes, 0, value);
  return KAEL_OK;
}

static kael_status look(kael_tensor *a, kl_text *trace) {
  double value;
  if (!a) return KAEL_OK;
  kael_status status = kael_item(a, &value);
  if (status == KAEL_OK && trace) kl_text_add(trace, "  item %a\n", isnan(value) ? 0.0 : value);
  return status;
}

/* All other statements. */
static kael_status run_action(machine *m, const statement *s, kl_text *trace) {
  const program_fn *fn = &program_fns[s->fn];
  kael_tensor *a = m->t[s->a], *b = m->t[s->b], *c = m->t[s->c];
  switch (s->kind) {
    case S_UNARY_INPLACE:
      return fn->unary_(a);
    case S_BINARY_INPLACE:
      return fn->with_(a, b);
    case S_SCALAR_INPLACE:
      return fn->scalar_(a, s->number);
    case S_POW_INPLACE:
      return kael_pow_(a, s->number);
    case S_MASKED_FILL_INPLACE:
      return kael_masked_fill_(a, b, s->number);
    case S_FILL_INPLACE:
      return kael_fill_(a, s->number);
    case S_ZERO_INPLACE:
      return kael_zero_(a);
    case S_COPY_INPLACE:
      return kael_copy_(a, b);
    case S_SCATTER_ADD_INPLACE:
      return kael_scatter_add_(a, s->ints[0], b, c);
    case S_RELEASE:
      kael_release(a);
      m->t[s->a] = NULL;
      return KAEL_OK;
    case S_REQUIRES_GRAD:
      return kael_requires_grad_(a, s->flag);
    case S_DETACH_INPLACE:
      return kael_detach_(a);
    case S_GRAD_MODE:
      kael_set_grad_enabled(s->flag);
      return KAEL_OK;
    case S_RETAIN_GRAD:
      return kael_retain_grad(a);
    case S_BACKWARD:
      return kael_backward(a, KAEL_NONE, s->flag, s->flag2);
    case S_READ:
      if (trace && a) describe_values(a, trace), kl_text_add(trace, "\n");
      return KAEL_OK;
    case S_ITEM:
      return look(a, trace);
    case S_EVAL:
      return kael_eval(&a, 1);
    case S_POINTER:
      return !a || kael_data_ptr(a) ? KAEL_OK : kael_last_error().code;
    default:
      return a ? poke(a, s->number) : KAEL_OK;
  }
}

kael_status machine_run(machine *m, const statement *s, kl_text *trace) {
  kael_tensor *made = NULL;
  kael_status status;
  kael_clear_error();
  m->made = false;
  if (run_maker(s, m->t[s->a], m->t[s->b], m->t[s->c], &made)) {
    status = made ? KAEL_OK : kael_last_error().code;
    if (trace && status != KAEL_OK) kl_text_add(trace, "  %s\n", kael_last_error().message);
    if (made) {
      m->made = true;
      kael_release(m->t[s->dst]);
      m->t[s->dst] = made;
    }
  } else {
    status = run_action(m, s, trace);
    if (trace && status != KAEL_OK) kl_text_add(trace, "  %s\n", kael_last_error().message);
  }
  snprintf(m->message, sizeof m->message, "%s", kael_last_error().message);
  kael_clear_error();
  if (!trace) return status;
  kl_text_add(trace, "  %s; t%d ", kael_status_name(status), s->dst);
  describe_meta(m->t[s->dst], trace);
  kl_text_add(trace, "; t%d ", s->a);
  describe_meta(m->t[s->a], trace);
  kl_text_add(trace, "\n");
  return status;
}
