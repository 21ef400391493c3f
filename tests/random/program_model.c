/* The bytes behind every register, kept apart from the library's. See program_model.h. */
#include "tests/random/program_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/naive/naive_ops.h"
#include "tests/random/program_value.h"

enum { MAX_STORAGES = 256 };

typedef struct model_storage {
  kl_dtype dtype;
  int64_t numel;
  void *bytes;
  bool wild; /* gradients: the engine writes them; what the library has is adopted */
} model_storage;

struct program_model {
  model_storage storages[MAX_STORAGES];
  int n_storages;
  model_storage *of[PROGRAM_REGISTERS];
  program_value a, b, c; /* operands as they were before the statement */
  model_storage *of_a;
  kael_tensor *held; /* register a, whatever becomes of it */
  long n_values;
  char fault[512];
};

program_model *model_create(void) { return calloc(1, sizeof(program_model)); }

void model_destroy(program_model *model) {
  for (int i = 0; i < model->n_storages; i++) free(model->storages[i].bytes);
  free(model);
}

const char *model_fault(const program_model *model) { return model->fault; }
long model_values(const program_model *model) { return model->n_values; }

/* ------------------------------------------------------------------ elements of a register */

static int64_t place_of(const kael_tensor *t, int64_t at) {
  int64_t place = kael_offset(t);
  for (int d = kael_ndim(t) - 1; d >= 0; d--) {
    place += at % kael_size(t, d) * kael_stride(t, d);
    at /= kael_size(t, d);
  }
  return place;
}

static int64_t reach_of(const kael_tensor *t) {
  int64_t reach = kael_offset(t);
  for (int d = 0; d < kael_ndim(t); d++)
    if (kael_size(t, d) > 0) reach += (kael_size(t, d) - 1) * kael_stride(t, d);
  return reach;
}

static model_storage *new_storage(program_model *model, const kael_tensor *t) {
  if (model->n_storages == MAX_STORAGES) abort();
  model_storage *storage = &model->storages[model->n_storages++];
  storage->dtype = (kl_dtype)kael_dtype_of(t);
  storage->numel = reach_of(t) + 1;
  storage->bytes = calloc((size_t)storage->numel, kl_dtype_size(storage->dtype));
  return storage;
}

static void *read_library(const kael_tensor *t) {
  size_t nbytes = (size_t)kael_numel(t) * kl_dtype_size((kl_dtype)kael_dtype_of(t));
  void *bytes = malloc(nbytes + 1);
  if (kael_copy_to_host(t, bytes, nbytes) != KAEL_OK) memset(bytes, 0, nbytes);
  return bytes;
}

static void adopt(model_storage *storage, const kael_tensor *t) {
  void *bytes = read_library(t);
  for (int64_t i = 0; i < kael_numel(t); i++)
    naive_store(storage->dtype, storage->bytes, place_of(t, i),
                naive_load(storage->dtype, bytes, i));
  free(bytes);
}

/* With `old`, positions that keep their value are not written: several may be one element. */
static void put(model_storage *storage, const kael_tensor *t, const program_value *v,
                bool broadcasts, const program_value *old) {
  for (int64_t i = 0; i < kael_numel(t); i++) {
    int64_t from = i;
    if (old && old->elems[i].bits == v->elems[i].bits) continue;
    if (broadcasts) { /* copy_: the source has the shape's last dims, or 1 */
      int64_t rest = i, unit = 1;
      from = 0;
      for (int d = kael_ndim(t) - 1, e = v->rank - 1; d >= 0; d--, e--) {
        int64_t x = rest % kael_size(t, d);
        rest /= kael_size(t, d);
        if (e < 0) continue;
        if (v->shape[e] != 1) from += x * unit;
        unit *= v->shape[e];
      }
    }
    naive_store(storage->dtype, storage->bytes, place_of(t, i),
                value_cast(v->elems[from], v->dtype, storage->dtype));
  }
}

static void snapshot(const program_model *model, const machine *m, int r, program_value *out) {
  const kael_tensor *t = m->t[r];
  *out = (program_value){0};
  if (!t) return;
  value_shape(out, (kl_dtype)kael_dtype_of(t), kael_ndim(t), kael_shape(t));
  for (int64_t i = 0; i < out->numel; i++)
    out->elems[i] = naive_load(out->dtype, model->of[r]->bytes, place_of(t, i));
}

/* ------------------------------------------------------------------ checks */

static bool fail(program_model *model, const machine *m, const statement *s, int r,
                 const char *what) {
  (void)m;
  snprintf(model->fault, sizeof model->fault, "after %s, t%d: %s", statement_name(s), r, what);
  return false;
}

static bool check_register(program_model *model, const machine *m, const statement *s, int r) {
  const kael_tensor *t = m->t[r];
  void *bytes = read_library(t);
  bool same = true;
  for (int64_t i = 0; i < kael_numel(t) && same; i++) {
    kl_dtype dtype = model->of[r]->dtype;
    kl_scalar want = naive_load(dtype, model->of[r]->bytes, place_of(t, i));
    kl_scalar have = naive_load(dtype, bytes, i);
    if (naive_same(dtype, want, have)) continue;
    char what[96];
    snprintf(what, sizeof what, "element %lld is %llx, not %llx", (long long)i,
             (unsigned long long)have.bits, (unsigned long long)want.bits);
    same = fail(model, m, s, r, what);
  }
  free(bytes);
  return same;
}

static bool check_all(program_model *model, const machine *m, const statement *s) {
  for (int r = 0; r < PROGRAM_REGISTERS; r++)
    if (m->t[r] && !model->of[r]->wild && !check_register(model, m, s, r)) return false;
  return true;
}

static bool check_form(program_model *model, const machine *m, const statement *s,
                       const program_value *v) {
  const kael_tensor *t = m->t[s->dst];
  if ((kl_dtype)kael_dtype_of(t) != v->dtype) return fail(model, m, s, s->dst, "another dtype");
  if (kael_ndim(t) != v->rank ||
      memcmp(kael_shape(t), v->shape, sizeof(int64_t) * (size_t)v->rank) != 0)
    return fail(model, m, s, s->dst, "another shape");
  return true;
}

/* ------------------------------------------------------------------ statements */

void model_before(program_model *model, machine *m, const statement *s) {
  for (int r = 0; r < PROGRAM_REGISTERS; r++)
    if (m->t[r] && model->of[r]->wild) adopt(model->of[r], m->t[r]);
  snapshot(model, m, s->a, &model->a);
  snapshot(model, m, s->b, &model->b);
  snapshot(model, m, s->c, &model->c);
  model->of_a = model->of[s->a];
  model->held = kael_retain(m->t[s->a]);
}

static bool is_view(uint8_t kind) { return kind >= S_VIEW && kind <= S_ALIAS; }

static bool is_inplace(uint8_t kind) {
  switch (kind) {
    case S_UNARY_INPLACE:
    case S_BINARY_INPLACE:
    case S_SCALAR_INPLACE:
    case S_POW_INPLACE:
    case S_MASKED_FILL_INPLACE:
    case S_FILL_INPLACE:
    case S_ZERO_INPLACE:
    case S_COPY_INPLACE:
    case S_SCATTER_ADD_INPLACE:
      return true;
    default:
      return false;
  }
}

static bool makes_tensor(uint8_t kind) {
  return (kind < S_VIEW && !is_inplace(kind)) || is_view(kind) || kind == S_GRAD;
}

/* A gradient's memory may be in a register already. */
static void make_wild(program_model *model, machine *m, int dst) {
  model_storage *storage = NULL;
  for (int r = 0; r < PROGRAM_REGISTERS; r++)
    if (r != dst && m->t[r] && kael_shares_storage(m->t[r], m->t[dst])) storage = model->of[r];
  if (!storage) storage = new_storage(model, m->t[dst]);
  storage->wild = true;
  model->of[dst] = storage;
  adopt(storage, m->t[dst]);
}

static bool after_maker(program_model *model, machine *m, const statement *s) {
  program_value v = {0};
  kael_tensor *t = m->t[s->dst];
  bool shares = model->held && kael_shares_storage(t, model->held);
  if (s->kind == S_GRAD) {
    make_wild(model, m, s->dst);
    return true;
  }
  if (shares) {
    bool may_share = is_view(s->kind) || s->kind == S_CONTIGUOUS || s->kind == S_TO_DTYPE;
    model->of[s->dst] = model->of_a;
    return may_share || fail(model, m, s, s->dst, "it shares its operand's storage");
  }
  if (is_view(s->kind) && s->kind != S_RESHAPE)
    return fail(model, m, s, s->dst, "it does not share its operand's storage");
  model->of[s->dst] = new_storage(model, t);
  if (s->kind == S_RESHAPE) {
    put(model->of[s->dst], t, &model->a, false, NULL);
  } else if (value_of_statement(s, &model->a, &model->b, &model->c, &v)) {
    bool fits = check_form(model, m, s, &v);
    if (fits) put(model->of[s->dst], t, &v, false, NULL);
    model->n_values += v.numel;
    value_free(&v);
    return fits;
  } else {
    adopt(model->of[s->dst], t);
  }
  value_free(&v);
  return true;
}

static void after_inplace(program_model *model, machine *m, const statement *s) {
  program_value v = {0};
  if (value_of_statement(s, &model->a, &model->b, &model->c, &v)) {
    put(model->of_a, m->t[s->a], &v, s->kind == S_COPY_INPLACE,
        s->kind == S_MASKED_FILL_INPLACE ? &model->a : NULL);
    model->n_values += v.numel;
  } else {
    adopt(model->of_a, m->t[s->a]);
  }
  value_free(&v);
}

static void after_poke(program_model *model, machine *m, const statement *s) {
  if (kael_numel(m->t[s->a]) == 0) return;
  kl_dtype dtype = model->of_a->dtype;
  kl_scalar value = {.bits = 1};
  if (dtype == KL_F32) value.bits = 0, value.f32 = (float)s->number.as.f;
  if (dtype == KL_F64) value.f64 = s->number.as.f;
  naive_store(dtype, model->of_a->bytes, kael_offset(m->t[s->a]), value);
}

bool model_after(program_model *model, machine *m, const statement *s, kael_status status) {
  /* No program may bring out a bug of the library, or run out of anything. */
  bool fine = status < KAEL_ERR_OUT_OF_MEMORY || fail(model, m, s, s->dst, m->message);
  bool operands_there = model->held != NULL;
  if (status == KAEL_OK && makes_tensor(s->kind)) {
    if (m->made) fine = after_maker(model, m, s);
  } else if (status == KAEL_OK && operands_there) {
    if (is_inplace(s->kind)) after_inplace(model, m, s);
    if (s->kind == S_POKE) after_poke(model, m, s);
  }
  if (s->kind == S_RELEASE) model->of[s->a] = NULL;
  for (int r = 0; r < PROGRAM_REGISTERS; r++)
    if (!m->t[r]) model->of[r] = NULL;
  kael_release(model->held);
  model->held = NULL;
  value_free(&model->a);
  value_free(&model->b);
  value_free(&model->c);
  bool same = fine && check_all(model, m, s);
  kael_clear_error();
  return same;
}
