/* Chooses statements by looking at the registers of the eager run. See program_make.h. */
#include "tests/random/program_make.h"

#include <string.h>

#include "ir/op.h"

bool program_goes_on(tape *t, int n) {
  return n == 0 || (n < PROGRAM_MAX_STATEMENTS && tape_choose(t, 24) > 0);
}

/* ------------------------------------------------------------------ registers */

typedef bool accept_fn(kael_tensor *candidate, kael_tensor *other);

static bool is_any(kael_tensor *candidate, kael_tensor *other) {
  (void)candidate, (void)other;
  return true;
}

static bool is_float_dtype(kael_tensor *candidate, kael_tensor *other) {
  (void)other;
  return kael_dtype_of(candidate) >= KAEL_F16;
}

static bool is_bool(kael_tensor *candidate, kael_tensor *other) {
  (void)other;
  return kael_dtype_of(candidate) == KAEL_BOOL;
}

static bool is_i64(kael_tensor *candidate, kael_tensor *other) {
  (void)other;
  return kael_dtype_of(candidate) == KAEL_I64;
}

static bool has_dims(kael_tensor *candidate, kael_tensor *other) {
  (void)other;
  return kael_ndim(candidate) > 0;
}

static bool requires_grad(kael_tensor *candidate, kael_tensor *other) {
  (void)other;
  return kael_requires_grad(candidate);
}

static bool is_single(kael_tensor *candidate, kael_tensor *other) {
  return kael_numel(candidate) == 1 && requires_grad(candidate, other);
}

/* Whether the candidate broadcasts to the other's shape. */
static bool broadcasts_to(kael_tensor *candidate, kael_tensor *other) {
  int shift = kael_ndim(other) - kael_ndim(candidate);
  for (int d = 0; d < kael_ndim(candidate); d++)
    if (shift < 0 ||
        (kael_size(candidate, d) != 1 && kael_size(candidate, d) != kael_size(other, d + shift)))
      return false;
  return true;
}

static bool same_dtype_broadcasts(kael_tensor *candidate, kael_tensor *other) {
  return kael_dtype_of(candidate) == kael_dtype_of(other) && broadcasts_to(candidate, other);
}

static bool multiplies(kael_tensor *candidate, kael_tensor *other) {
  int n = kael_ndim(candidate), m = kael_ndim(other);
  return n > 0 && m > 0 && kael_dtype_of(candidate) == kael_dtype_of(other) &&
         kael_size(candidate, n > 1 ? n - 2 : 0) == kael_size(other, m - 1);
}

/* A register that is accepted; now and then, or where there is none, any. */
static int8_t pick(tape *t, machine *m, accept_fn *accept, kael_tensor *other) {
  int8_t found[PROGRAM_REGISTERS];
  uint32_t n = 0;
  bool wrong = tape_chance(t, 1, 40);
  for (int r = 0; r < PROGRAM_REGISTERS; r++)
    if (m->t[r] && !wrong && accept(m->t[r], other)) found[n++] = (int8_t)r;
  if (n == 0)
    for (int r = 0; r < PROGRAM_REGISTERS; r++)
      if (m->t[r] || tape_chance(t, 1, 60)) found[n++] = (int8_t)r;
  return n ? found[tape_choose(t, n)] : 0;
}

static int8_t free_register(tape *t, machine *m) {
  for (int r = 0; r < PROGRAM_REGISTERS; r++)
    if (!m->t[r]) return (int8_t)r;
  return (int8_t)tape_choose(t, PROGRAM_REGISTERS);
}

static uint8_t random_dtype(tape *t) {
  static const uint8_t dtypes[] = {KAEL_F32, KAEL_F32, KAEL_F32, KAEL_F32, KAEL_F64,
                                   KAEL_I64, KAEL_I32, KAEL_U8,  KAEL_BOOL};
  return dtypes[tape_choose(t, sizeof dtypes)];
}

static kael_scalar random_number(tape *t) {
  static const double reals[] = {2, 0.5, -1.25, 1, 0, 3, -0.0, 1e-3};
  static const int64_t wholes[] = {2, 1, 3, 0, -1, 5, 100};
  if (tape_chance(t, 1, 4)) return kael_i(wholes[tape_choose(t, 7)]);
  if (tape_chance(t, 1, 40)) return kael_b(true);
  return kael_f(reals[tape_choose(t, 8)]);
}

static void random_shape(tape *t, statement *s, int at) {
  static const int8_t ranks[] = {1, 2, 2, 2, 3, 3, 0, 4};
  static const int16_t sizes[] = {2, 3, 1, 4, 5, 3, 2, 7, 0, 33};
  int rank = ranks[tape_choose(t, sizeof ranks)];
  for (int d = 0; d < rank; d++)
    s->ints[at + d] = sizes[tape_choose(t, tape_chance(t, 1, 10) ? 10 : 7)];
  if (rank == 1 && tape_chance(t, 1, 12)) s->ints[at] = 1000 + tape_choose(t, 2000);
  s->n_ints = (uint8_t)(at + rank);
}

static int64_t random_dim(tape *t, kael_tensor *a) {
  int rank = a ? kael_ndim(a) : 1;
  if (tape_chance(t, 1, 50)) return rank + 1;
  int64_t dim = tape_choose(t, (uint32_t)(rank > 0 ? rank : 1));
  return tape_chance(t, 1, 5) ? dim - (rank > 0 ? rank : 1) : dim;
}

static int64_t size_of(kael_tensor *a, int64_t dim) {
  int rank = a ? kael_ndim(a) : 0;
  if (dim < 0) dim += rank;
  return a && dim >= 0 && dim < rank ? kael_size(a, (int)dim) : 1;
}

/* ------------------------------------------------------------------ kinds */

static void make_new(tape *t, machine *m, statement *s) {
  static const uint8_t kinds[] = {S_FROM_DATA, S_FROM_DATA, S_FROM_DATA, S_FROM_DATA,
                                  S_FULL,      S_RAND,      S_RANDN,     S_ARANGE};
  s->kind = kinds[tape_choose(t, sizeof kinds)];
  s->dtype = random_dtype(t);
  s->number = random_number(t);
  random_shape(t, s, s->kind == S_FROM_DATA);
  if (s->kind == S_FROM_DATA) s->ints[0] = tape_choose(t, 20);
  if (s->kind == S_RAND || s->kind == S_RANDN)
    s->dtype = tape_chance(t, 1, 4) ? KAEL_F64 : KAEL_F32;
  if (s->kind == S_ARANGE) {
    s->n_ints = 3;
    s->ints[0] = tape_between(t, 0, 3);
    s->ints[1] = s->ints[0] + tape_between(t, 1, 20);
    s->ints[2] = tape_between(t, 1, 3);
  }
  (void)m;
}

/* Integers in a range, as an index of something. */
static void make_index_data(tape *t, statement *s, int64_t extent, int rank) {
  *s = (statement){.kind = S_FROM_DATA, .dtype = KAEL_I64, .dst = s->dst, .a = s->dst};
  s->ints[0] = extent > 0 ? -extent : 1;
  for (int d = 0; d < rank; d++) s->ints[1 + d] = tape_between(t, 1, 3);
  s->n_ints = (uint8_t)(1 + rank);
}

static uint8_t pick_fn(tape *t, bool binary) {
  uint8_t found[64];
  uint32_t n = 0;
  for (int i = 0; i < program_n_fns; i++)
    if (program_fns[i].binary == binary) found[n++] = (uint8_t)i;
  return found[tape_choose(t, n)];
}

static void make_elementwise(tape *t, machine *m, statement *s) {
  static const uint8_t kinds[] = {S_BINARY, S_UNARY,    S_SCALAR, S_BINARY,
                                  S_UNARY,  S_SCALAR,   S_POW,    S_MASKED_FILL,
                                  S_WHERE,  S_TO_DTYPE, S_CLONE,  S_CONTIGUOUS};
  s->kind = kinds[tape_choose(t, sizeof kinds)];
  s->a = pick(t, m, is_any, NULL);
  s->number = random_number(t);
  s->dtype = random_dtype(t);
  s->fn = pick_fn(t, s->kind == S_BINARY || s->kind == S_SCALAR);
  if (s->kind == S_BINARY) s->b = pick(t, m, broadcasts_to, m->t[s->a]);
  if (s->kind == S_MASKED_FILL) s->b = pick(t, m, is_bool, NULL);
  if (s->kind == S_WHERE) {
    s->c = pick(t, m, same_dtype_broadcasts, m->t[s->a]);
    s->b = s->a;
    s->a = pick(t, m, is_bool, NULL);
  }
}

static void make_inplace(tape *t, machine *m, statement *s) {
  static const uint8_t kinds[] = {
      S_BINARY_INPLACE, S_SCALAR_INPLACE, S_UNARY_INPLACE,  S_COPY_INPLACE, S_FILL_INPLACE,
      S_ZERO_INPLACE,   S_SCALAR_INPLACE, S_BINARY_INPLACE, S_POW_INPLACE,  S_MASKED_FILL_INPLACE};
  s->kind = kinds[tape_choose(t, sizeof kinds)];
  s->a = pick(t, m, is_any, NULL);
  s->number = random_number(t);
  bool binary = s->kind == S_BINARY_INPLACE || s->kind == S_SCALAR_INPLACE;
  s->fn = pick_fn(t, binary);
  s->b = s->kind == S_MASKED_FILL_INPLACE ? pick(t, m, is_bool, NULL)
                                          : pick(t, m, broadcasts_to, m->t[s->a]);
}

static void make_reduction(tape *t, machine *m, statement *s) {
  static const uint8_t kinds[] = {S_SUM, S_MEAN,    S_AMAX,        S_ARGMAX, S_ANY,
                                  S_ALL, S_SOFTMAX, S_LOG_SOFTMAX, S_SUM,    S_SUM};
  s->kind = kinds[tape_choose(t, sizeof kinds)];
  bool floats = s->kind == S_MEAN || s->kind == S_SOFTMAX || s->kind == S_LOG_SOFTMAX;
  s->a = pick(t, m, floats ? is_float_dtype : is_any, NULL);
  s->flag = tape_chance(t, 1, 3);
  kael_tensor *a = m->t[s->a];
  if (s->kind == S_SOFTMAX || s->kind == S_LOG_SOFTMAX) {
    s->ints[0] = random_dim(t, a);
    s->n_ints = 1;
    return;
  }
  int rank = a ? kael_ndim(a) : 0;
  for (int d = 0; d < rank; d++)
    if (tape_chance(t, 1, 2) && (s->kind != S_ARGMAX || s->n_ints == 0)) s->ints[s->n_ints++] = d;
  if (tape_chance(t, 1, 30) && (s->kind != S_ARGMAX || s->n_ints == 0))
    s->ints[s->n_ints++] = random_dim(t, a);
}

static void make_network(tape *t, machine *m, statement *s) {
  static const uint8_t kinds[] = {S_MATMUL,        S_CAT,      S_INDEX_SELECT,
                                  S_GATHER,        S_LINEAR,   S_SCATTER_ADD,
                                  S_CROSS_ENTROPY, S_NLL_LOSS, S_SCATTER_ADD_INPLACE};
  s->kind = kinds[tape_choose(t, sizeof kinds)];
  s->a = pick(t, m, has_dims, NULL);
  kael_tensor *a = m->t[s->a];
  s->ints[0] = random_dim(t, a);
  s->n_ints = 1;
  switch (s->kind) {
    case S_MATMUL:
      s->b = pick(t, m, multiplies, a);
      return;
    case S_LINEAR:
      s->b = pick(t, m, same_dtype_broadcasts, a);
      s->flag = tape_chance(t, 1, 2);
      s->c = pick(t, m, same_dtype_broadcasts, a);
      return;
    case S_CAT:
      s->b = pick(t, m, same_dtype_broadcasts, a);
      return;
    case S_CROSS_ENTROPY:
    case S_NLL_LOSS:
      s->ints[0] = tape_choose(t, 3);
      break;
    default:
      break;
  }
  /* An index, which is made first where there is none. */
  s->b = pick(t, m, is_i64, NULL);
  s->c = pick(t, m, same_dtype_broadcasts, a);
  bool loss = s->kind == S_CROSS_ENTROPY || s->kind == S_NLL_LOSS;
  int rank = s->kind == S_INDEX_SELECT || loss ? 1 : a ? kael_ndim(a) : 1;
  bool fits = m->t[s->b] && kael_dtype_of(m->t[s->b]) == KAEL_I64 && kael_ndim(m->t[s->b]) == rank;
  if (!fits || tape_chance(t, 1, 4)) {
    make_index_data(t, s, loss ? size_of(a, -1) : size_of(a, s->ints[0]), rank);
    if (loss && rank == 1) s->ints[1] = size_of(a, 0);
  }
}

static void factor_shape(tape *t, kael_tensor *a, statement *s) {
  int64_t numel = a ? kael_numel(a) : 1;
  s->n_ints = 0;
  while (numel > 1 && s->n_ints < 4) {
    int64_t by = 2;
    while (by * by <= numel && numel % by) by++;
    if (numel % by) by = numel;
    if (tape_chance(t, 1, 3)) by = numel;
    s->ints[s->n_ints++] = by;
    numel /= by;
  }
  if (numel != 1) s->ints[s->n_ints ? s->n_ints - 1 : s->n_ints++] *= numel;
  if (numel == 0) s->n_ints = 1, s->ints[0] = 0;
  if (tape_chance(t, 1, 6)) s->ints[s->n_ints++] = 1;
  if (tape_chance(t, 1, 6)) s->ints[tape_choose(t, s->n_ints ? s->n_ints : 1)] = -1;
}

static void make_view(tape *t, machine *m, statement *s) {
  static const uint8_t kinds[] = {S_TRANSPOSE,  S_SLICE,     S_SELECT,       S_VIEW,
                                  S_EXPAND,     S_RESHAPE,   S_DETACH,       S_PERMUTE,
                                  S_SQUEEZE,    S_UNSQUEEZE, S_SLICE,        S_SELECT,
                                  S_AS_STRIDED, S_DIAGONAL,  S_UNBIND_FIRST, S_SPLIT_FIRST};
  s->kind = kinds[tape_choose(t, sizeof kinds)];
  s->a = pick(t, m, has_dims, NULL);
  kael_tensor *a = m->t[s->a];
  int rank = a ? kael_ndim(a) : 0;
  int64_t dim = random_dim(t, a), size = size_of(a, dim);
  s->ints[0] = dim;
  s->n_ints = 2;
  switch (s->kind) {
    case S_TRANSPOSE:
      s->ints[1] = random_dim(t, a);
      break;
    case S_DIAGONAL:
      s->ints[0] = tape_between(t, 0, 1);
      s->ints[1] = 0;
      s->ints[2] = 1;
      s->n_ints = 3;
      break;
    case S_SLICE:
      s->ints[1] = tape_choose(t, (uint32_t)size + 1);
      s->ints[2] = s->ints[1] + tape_choose(t, (uint32_t)(size - s->ints[1]) + 1);
      if (tape_chance(t, 3, 4)) s->ints[2] = size;
      s->ints[3] = 1 + tape_choose(t, 3);
      s->n_ints = 4;
      break;
    case S_SELECT:
      s->ints[1] = tape_between(t, 0, size > 0 ? size - 1 : 0);
      break;
    case S_SPLIT_FIRST:
      s->ints[1] = tape_between(t, 1, size > 0 ? size : 1);
      break;
    case S_VIEW:
    case S_RESHAPE:
      factor_shape(t, a, s);
      break;
    case S_EXPAND:
      s->n_ints = 0;
      if (tape_chance(t, 1, 2)) s->ints[s->n_ints++] = tape_between(t, 1, 3);
      for (int d = 0; d < rank; d++)
        s->ints[s->n_ints++] = kael_size(a, d) == 1 ? tape_between(t, 1, 4) : kael_size(a, d);
      break;
    case S_PERMUTE:
      s->n_ints = (uint8_t)rank;
      for (int d = 0; d < rank; d++) s->ints[d] = rank - 1 - d;
      break;
    case S_AS_STRIDED:
      s->n_ints = 4;
      s->ints[0] = tape_between(t, 1, 3), s->ints[1] = tape_between(t, 1, 3);
      s->ints[2] = tape_between(t, 0, 3), s->ints[3] = tape_between(t, 0, 2);
      s->ints[4] = tape_between(t, 0, 2);
      break;
    default:
      break;
  }
}

static void make_autograd(tape *t, machine *m, statement *s) {
  static const uint8_t kinds[] = {S_REQUIRES_GRAD, S_BACKWARD,  S_REQUIRES_GRAD, S_BACKWARD,
                                  S_GRAD,          S_GRAD_MODE, S_RETAIN_GRAD,   S_DETACH_INPLACE};
  s->kind = kinds[tape_choose(t, sizeof kinds)];
  s->flag = s->kind == S_REQUIRES_GRAD ? !tape_chance(t, 1, 8) : tape_chance(t, 1, 3);
  s->flag2 = tape_chance(t, 1, 6);
  accept_fn *accept = s->kind == S_BACKWARD        ? is_single
                      : s->kind == S_REQUIRES_GRAD ? is_float_dtype
                                                   : requires_grad;
  s->a = pick(t, m, accept, NULL);
}

static void make_look(tape *t, machine *m, statement *s) {
  static const uint8_t kinds[] = {S_READ, S_ALIAS, S_RELEASE, S_EVAL, S_ITEM, S_POINTER, S_POKE};
  s->kind = kinds[tape_choose(t, tape_chance(t, 1, 3) ? sizeof kinds : 3)];
  s->a = pick(t, m, is_any, NULL);
  s->number = kael_f(tape_between(t, 1, 4) * 0.75);
}

statement program_next(tape *t, machine *m) {
  static void (*const makers[])(tape *, machine *, statement *) = {
      make_new,         make_elementwise, make_view,        make_inplace, make_reduction,
      make_elementwise, make_view,        make_autograd,    make_inplace, make_look,
      make_network,     make_new,         make_elementwise, make_inplace, make_view};
  statement s = {.dst = free_register(t, m)};
  makers[tape_choose(t, sizeof makers / sizeof *makers)](t, m, &s);
  return s;
}
