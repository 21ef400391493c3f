/* Statements on whole tensors, in the plainest way. See program_value.h. */
#include "tests/random/program_value.h"

#include <stdlib.h>
#include <string.h>

#include "ir/op.h"
#include "tests/naive/naive_graph.h"
#include "tests/naive/naive_ops.h"

void value_shape(program_value *v, kl_dtype dtype, int rank, const int64_t *shape) {
  *v = (program_value){.there = true, .dtype = dtype, .rank = rank, .numel = 1};
  for (int d = 0; d < rank; d++) v->numel *= v->shape[d] = shape[d];
  v->elems = calloc((size_t)v->numel + 1, sizeof *v->elems);
}

void value_free(program_value *v) {
  free(v->elems);
  *v = (program_value){0};
}

kl_scalar value_cast(kl_scalar scalar, kl_dtype from, kl_dtype to) {
  bool known = true;
  return naive_apply(KL_OP_CAST, from, to, &scalar, &known);
}

/* ------------------------------------------------------------------ coordinates */

static void coordinates(const program_value *v, int64_t at, int64_t *point) {
  for (int d = v->rank - 1; d >= 0; d--) {
    point[d] = at % v->shape[d];
    at /= v->shape[d];
  }
}

static int64_t position(const program_value *v, const int64_t *point) {
  int64_t at = 0;
  for (int d = 0; d < v->rank; d++) at = at * v->shape[d] + point[d];
  return at;
}

/* The element of v that meets position `at` of the shape of `whole`, into which v broadcasts. */
static kl_scalar element(const program_value *v, const program_value *whole, int64_t at) {
  int64_t point[KAEL_MAX_DIMS], own[KAEL_MAX_DIMS];
  coordinates(whole, at, point);
  for (int d = 0; d < v->rank; d++)
    own[d] = v->shape[d] == 1 ? 0 : point[d + whole->rank - v->rank];
  return v->elems[position(v, own)];
}

static void broadcast(const program_value *a, const program_value *b, kl_dtype dtype,
                      program_value *out) {
  int rank = a->rank > b->rank ? a->rank : b->rank;
  int64_t shape[KAEL_MAX_DIMS];
  for (int d = 0; d < rank; d++) {
    int64_t m = d + a->rank - rank < 0 ? 1 : a->shape[d + a->rank - rank];
    int64_t n = d + b->rank - rank < 0 ? 1 : b->shape[d + b->rank - rank];
    shape[d] = m == 1 ? n : m;
  }
  value_shape(out, dtype, rank, shape);
}

static int wrap_dim(int64_t dim, int rank) { return (int)(dim < 0 ? dim + rank : dim); }

/* ------------------------------------------------------------------ dtypes (torch.result_type) */

static int category(kl_dtype dtype) {
  return dtype == KL_BOOL ? 0 : kl_dtype_is_float(dtype) ? 2 : 1;
}

/* Of the six dtypes in use the enumerators ascend as promotion does. */
static kl_dtype larger(kl_dtype a, kl_dtype b) { return a > b ? a : b; }

static kl_dtype combine(int higher, int lower) {
  if (higher < 0) return (kl_dtype)lower;
  if (lower < 0 || category((kl_dtype)lower) <= category((kl_dtype)higher)) return (kl_dtype)higher;
  return larger((kl_dtype)higher, (kl_dtype)lower);
}

static kl_dtype number_dtype(kael_scalar number) {
  return number.kind == KAEL_SCALAR_FLOAT ? KL_F32
         : number.kind == KAEL_SCALAR_INT ? KL_I64
                                          : KL_BOOL;
}

static kl_dtype result_type(const program_value *a, const program_value *b,
                            const kael_scalar *number) {
  int dims = -1, zeros = -1;
  const program_value *operands[2] = {a, b};
  for (int i = 0; i < 2; i++) {
    if (!operands[i]) continue;
    int *kind = operands[i]->rank > 0 ? &dims : &zeros;
    *kind = *kind < 0 ? (int)operands[i]->dtype : (int)larger((kl_dtype)*kind, operands[i]->dtype);
  }
  int tensors = dims < 0 && zeros < 0 ? -1 : (int)combine(dims, zeros);
  return combine(tensors, number ? (int)number_dtype(*number) : -1);
}

static kl_scalar number_as(kael_scalar number, kl_dtype dtype) {
  kl_scalar scalar = {.bits = 0};
  if (number.kind == KAEL_SCALAR_FLOAT) {
    scalar.f64 = number.as.f;
    return value_cast(scalar, KL_F64, dtype);
  }
  scalar.i64 = number.kind == KAEL_SCALAR_INT ? number.as.i : number.as.b;
  return value_cast(scalar, KL_I64, dtype);
}

/* ------------------------------------------------------------------ elementwise */

/* The dtype in which a function of ops.def computes. */
static kl_dtype compute_dtype(const program_fn *fn, kl_dtype promoted) {
  if (strcmp(fn->rule, "LOGICAL") == 0) return KL_BOOL;
  if (strcmp(fn->name, "square") == 0 && promoted == KL_BOOL) return KL_I64; /* it is a power */
  if (strcmp(fn->rule, "FLOAT") == 0 && !kl_dtype_is_float(promoted)) return KL_F32;
  return promoted;
}

static kl_op compute_op(const program_fn *fn, kl_dtype dtype) {
  const bool rounds = fn->op >= KL_OP_FLOOR && fn->op <= KL_OP_TRUNC;
  if (rounds && !kl_dtype_is_float(dtype)) return KL_OP_COPY; /* integers are whole */
  if (fn->op == KL_OP_SIGN && dtype == KL_BOOL) return KL_OP_COPY;
  if (dtype != KL_BOOL) return (kl_op)fn->op;
  return fn->op == KL_OP_ADD ? KL_OP_OR : fn->op == KL_OP_MUL ? KL_OP_AND : (kl_op)fn->op;
}

static bool apply_fn(const statement *s, const program_value *a, const program_value *b,
                     program_value *out) {
  const program_fn *fn = &program_fns[s->fn];
  bool with_number = s->kind == S_SCALAR || s->kind == S_SCALAR_INPLACE;
  kl_dtype dtype = compute_dtype(fn, result_type(a, b, with_number ? &s->number : NULL));
  bool compares = strcmp(fn->rule, "COMPARE") == 0, known = true;
  kl_op op = compute_op(fn, dtype);
  broadcast(a, b ? b : a, compares ? KL_BOOL : dtype, out);
  for (int64_t i = 0; i < out->numel; i++) {
    kl_scalar args[2] = {value_cast(element(a, out, i), a->dtype, dtype), {.bits = 0}};
    if (b) args[1] = value_cast(element(b, out, i), b->dtype, dtype);
    if (with_number) args[1] = number_as(s->number, dtype);
    if (strcmp(fn->name, "square") == 0) args[1] = args[0];
    out->elems[i] = naive_apply(op, dtype, out->dtype, args, &known);
  }
  return known;
}

static bool cast_all(const program_value *a, kl_dtype dtype, program_value *out) {
  value_shape(out, dtype, a->rank, a->shape);
  for (int64_t i = 0; i < a->numel; i++) out->elems[i] = value_cast(a->elems[i], a->dtype, dtype);
  return true;
}

static bool choose(const program_value *condition, const program_value *a, const program_value *b,
                   program_value *out) {
  program_value pair;
  kl_dtype dtype = result_type(a, b, NULL);
  broadcast(a, b, dtype, &pair);
  broadcast(condition, &pair, dtype, out);
  value_free(&pair);
  for (int64_t i = 0; i < out->numel; i++) {
    const program_value *from = element(condition, out, i).u8 ? a : b;
    out->elems[i] = value_cast(element(from, out, i), from->dtype, dtype);
  }
  return true;
}

static bool masked_fill(const program_value *a, const program_value *mask, kael_scalar number,
                        program_value *out) {
  if (mask->dtype != KL_BOOL) return false;
  broadcast(a, mask, a->dtype, out);
  for (int64_t i = 0; i < out->numel; i++)
    out->elems[i] = element(mask, out, i).u8 ? number_as(number, a->dtype) : element(a, out, i);
  return true;
}

static bool fill(kl_dtype dtype, int rank, const int64_t *shape, kael_scalar number,
                 program_value *out) {
  value_shape(out, dtype, rank, shape);
  for (int64_t i = 0; i < out->numel; i++) out->elems[i] = number_as(number, dtype);
  return true;
}

static bool from_data(const statement *s, program_value *out) {
  value_shape(out, (kl_dtype)s->dtype, s->n_ints - 1, s->ints + 1);
  void *bytes = malloc((size_t)out->numel * 8 + 1);
  program_data((kael_dtype)s->dtype, s->ints[0], out->numel, bytes);
  for (int64_t i = 0; i < out->numel; i++) out->elems[i] = naive_load(out->dtype, bytes, i);
  free(bytes);
  return true;
}

static bool arange(const statement *s, program_value *out) {
  int64_t n = (s->ints[1] - s->ints[0] + s->ints[2] - 1) / s->ints[2];
  value_shape(out, (kl_dtype)s->dtype, 1, &n);
  for (int64_t i = 0; i < n; i++)
    out->elems[i] = number_as(kael_i(s->ints[0] + i * s->ints[2]), out->dtype);
  return s->dtype != KAEL_BOOL;
}

/* ------------------------------------------------------------------ reductions */

static uint32_t axes_mask(const statement *s, int rank) {
  uint32_t mask = 0;
  for (int i = 0; i < s->n_ints; i++) mask |= 1u << wrap_dim(s->ints[i], rank);
  return s->n_ints ? mask : (1u << rank) - 1;
}

/* Folds the axes of the mask; rows in row-major order over the folded axes. */
static void fold(kl_op op, const program_value *a, uint32_t mask, bool keepdim, kl_dtype dtype,
                 program_value *out) {
  int64_t shape[KAEL_MAX_DIMS], folded[KAEL_MAX_DIMS], point[KAEL_MAX_DIMS] = {0};
  int rank = 0, axes[KAEL_MAX_DIMS], n_axes = 0;
  int64_t n = 1;
  for (int d = 0; d < a->rank; d++) {
    if ((mask >> d) & 1) {
      axes[n_axes] = d;
      n *= folded[n_axes++] = a->shape[d];
      if (keepdim) shape[rank++] = 1;
    } else {
      shape[rank++] = a->shape[d];
    }
  }
  value_shape(out, dtype, rank, shape);
  kl_scalar *row = calloc((size_t)n + 1, sizeof *row);
  for (int64_t i = 0; i < out->numel; i++) {
    int64_t own[KAEL_MAX_DIMS];
    coordinates(out, i, own);
    for (int d = 0, at = 0; d < a->rank; d++) {
      bool is_folded = (mask >> d) & 1;
      point[d] = is_folded ? 0 : own[at];
      at += !is_folded || keepdim;
    }
    for (int64_t k = 0; k < n; k++) {
      int64_t rest = k;
      for (int x = n_axes - 1; x >= 0; x--) point[axes[x]] = rest % folded[x], rest /= folded[x];
      row[k] = a->elems[position(a, point)];
    }
    out->elems[i] = naive_reduce(op, a->dtype, row, n);
  }
  free(row);
}

static void divide(program_value *v, int64_t count) {
  bool known = true;
  for (int64_t i = 0; i < v->numel; i++) {
    kl_scalar args[2] = {v->elems[i], number_as(kael_i(count), v->dtype)};
    v->elems[i] = naive_apply(KL_OP_DIV, v->dtype, v->dtype, args, &known);
  }
}

static bool reduce(const statement *s, const program_value *a, program_value *out) {
  uint32_t mask = axes_mask(s, a->rank);
  program_value cast;
  kl_dtype dtype = a->dtype;
  kl_op op = s->kind == S_AMAX     ? KL_OP_REDUCE_MAX
             : s->kind == S_ANY    ? KL_OP_REDUCE_ANY
             : s->kind == S_ALL    ? KL_OP_REDUCE_ALL
             : s->kind == S_ARGMAX ? KL_OP_REDUCE_ARGMAX
                                   : KL_OP_REDUCE_SUM;
  if (s->kind == S_SUM && !kl_dtype_is_float(dtype)) dtype = KL_I64;
  if (s->kind == S_ANY || s->kind == S_ALL) dtype = KL_BOOL;
  cast_all(a, dtype, &cast);
  kl_dtype result = s->kind == S_ARGMAX ? KL_I64 : dtype;
  if (dtype == KL_BOOL && a->dtype == KL_U8) result = KL_U8;
  fold(op, &cast, mask, s->flag && (s->n_ints || s->kind != S_ARGMAX), result, out);
  if (s->kind == S_MEAN) {
    int64_t count = 1;
    for (int d = 0; d < a->rank; d++) count *= (mask >> d) & 1 ? a->shape[d] : 1;
    divide(out, count);
  }
  value_free(&cast);
  return true;
}

/* out = op(out, row value) or op(out); rows are of the shape with one dim 1. */
static void each(kl_op op, program_value *out, const program_value *rows) {
  bool known = true;
  for (int64_t i = 0; i < out->numel; i++) {
    kl_scalar args[2] = {out->elems[i], {.bits = 0}};
    if (rows) args[1] = element(rows, out, i);
    out->elems[i] = naive_apply(op, out->dtype, out->dtype, args, &known);
  }
}

static bool softmax(const statement *s, const program_value *a, program_value *out) {
  uint32_t mask = a->rank ? 1u << wrap_dim(s->ints[0], a->rank) : 0;
  program_value max, sum, exponential;
  if (a->numel == 0) return cast_all(a, a->dtype, out);
  cast_all(a, a->dtype, out);
  fold(KL_OP_REDUCE_MAX, a, mask, true, a->dtype, &max);
  each(KL_OP_SUB, out, &max);
  cast_all(out, out->dtype, &exponential);
  each(KL_OP_EXP, &exponential, NULL);
  fold(KL_OP_REDUCE_SUM, &exponential, mask, true, a->dtype, &sum);
  if (s->kind == S_LOG_SOFTMAX) {
    each(KL_OP_LOG, &sum, NULL);
    each(KL_OP_SUB, out, &sum);
  } else {
    each(KL_OP_DIV, &exponential, &sum);
    memcpy(out->elems, exponential.elems, sizeof *out->elems * (size_t)out->numel);
  }
  value_free(&max);
  value_free(&sum);
  value_free(&exponential);
  return true;
}

/* ------------------------------------------------------------------ products and indexing */

/* Vectors and matrices; batches are left to the graph fuzzer. */
static bool matmul(const program_value *a, const program_value *b, program_value *out) {
  if (a->rank > 2 || b->rank > 2) return false;
  int64_t m = a->rank == 2 ? a->shape[0] : 1, k = a->shape[a->rank - 1];
  int64_t n = b->rank == 2 ? b->shape[1] : 1, shape[2];
  int rank = 0;
  if (a->rank == 2) shape[rank++] = m;
  if (b->rank == 2) shape[rank++] = n;
  value_shape(out, a->dtype, rank, shape);
  kl_scalar *column = calloc((size_t)k + 1, sizeof *column);
  for (int64_t j = 0; j < n; j++) {
    for (int64_t x = 0; x < k; x++) column[x] = b->elems[x * n + j];
    for (int64_t i = 0; i < m; i++)
      out->elems[i * n + j] = naive_dot(a->dtype, a->elems + i * k, column, k);
  }
  free(column);
  return true;
}

static bool cat(const statement *s, const program_value *a, const program_value *b,
                program_value *out) {
  if (a->rank != b->rank) return false; /* an empty vector that is left out */
  int dim = wrap_dim(s->ints[0], a->rank);
  int64_t shape[KAEL_MAX_DIMS], point[KAEL_MAX_DIMS];
  memcpy(shape, a->shape, sizeof shape);
  shape[dim] += b->shape[dim];
  value_shape(out, larger(a->dtype, b->dtype), a->rank, shape);
  for (int64_t i = 0; i < out->numel; i++) {
    coordinates(out, i, point);
    const program_value *from = point[dim] < a->shape[dim] ? a : b;
    if (from == b) point[dim] -= a->shape[dim];
    out->elems[i] = value_cast(from->elems[position(from, point)], from->dtype, out->dtype);
  }
  return true;
}

static int64_t index_at(const program_value *index, int64_t at) {
  return value_cast(index->elems[at], index->dtype, KL_I64).i64;
}

static bool index_select(const statement *s, const program_value *a, const program_value *index,
                         program_value *out) {
  int64_t shape[KAEL_MAX_DIMS], point[KAEL_MAX_DIMS];
  if (a->rank == 0) return false;
  int dim = wrap_dim(s->ints[0], a->rank);
  memcpy(shape, a->shape, sizeof shape);
  shape[dim] = index->numel;
  value_shape(out, a->dtype, a->rank, shape);
  for (int64_t i = 0; i < out->numel; i++) {
    coordinates(out, i, point);
    point[dim] = index_at(index, point[dim]);
    out->elems[i] = a->elems[position(a, point)];
  }
  return true;
}

static bool gather(const statement *s, const program_value *a, const program_value *index,
                   program_value *out) {
  int64_t point[KAEL_MAX_DIMS];
  if (a->rank == 0 || index->rank != a->rank) return false;
  int dim = wrap_dim(s->ints[0], a->rank);
  value_shape(out, a->dtype, index->rank, index->shape);
  for (int64_t i = 0; i < out->numel; i++) {
    coordinates(out, i, point);
    point[dim] = index_at(index, i);
    out->elems[i] = a->elems[position(a, point)];
  }
  return true;
}

static bool scatter_add(const statement *s, const program_value *a, const program_value *index,
                        const program_value *src, program_value *out) {
  int64_t point[KAEL_MAX_DIMS];
  bool known = true;
  if (a->rank == 0 || index->rank != a->rank || src->rank != a->rank || src->dtype != a->dtype ||
      a->dtype == KL_BOOL)
    return false;
  int dim = wrap_dim(s->ints[0], a->rank);
  cast_all(a, a->dtype, out);
  for (int64_t i = 0; i < index->numel; i++) {
    coordinates(index, i, point);
    kl_scalar args[2] = {{.bits = 0}, src->elems[position(src, point)]};
    point[dim] = index_at(index, i);
    int64_t at = position(out, point);
    args[0] = out->elems[at];
    out->elems[at] = naive_apply(KL_OP_ADD, out->dtype, out->dtype, args, &known);
  }
  return true;
}

bool value_of_statement(const statement *s, const program_value *a, const program_value *b,
                        const program_value *c, program_value *out) {
  switch (s->kind) {
    case S_FROM_DATA:
      return from_data(s, out);
    case S_FULL:
      return fill((kl_dtype)s->dtype, s->n_ints, s->ints, s->number, out);
    case S_ARANGE:
      return arange(s, out);
    case S_UNARY:
    case S_UNARY_INPLACE:
    case S_SCALAR:
    case S_SCALAR_INPLACE:
      return apply_fn(s, a, NULL, out);
    case S_BINARY:
    case S_BINARY_INPLACE:
      return apply_fn(s, a, b, out);
    case S_WHERE:
      return choose(a, b, c, out);
    case S_MASKED_FILL:
    case S_MASKED_FILL_INPLACE:
      return masked_fill(a, b, s->number, out);
    case S_TO_DTYPE:
      return cast_all(a, (kl_dtype)s->dtype, out);
    case S_CLONE:
    case S_CONTIGUOUS:
      return cast_all(a, a->dtype, out);
    case S_COPY_INPLACE:
      return cast_all(b, a->dtype, out);
    case S_FILL_INPLACE:
      return fill(a->dtype, a->rank, a->shape, s->number, out);
    case S_ZERO_INPLACE:
      return fill(a->dtype, a->rank, a->shape, kael_i(0), out);
    case S_SUM:
    case S_MEAN:
    case S_AMAX:
    case S_ARGMAX:
    case S_ANY:
    case S_ALL:
      return reduce(s, a, out);
    case S_SOFTMAX:
    case S_LOG_SOFTMAX:
      return softmax(s, a, out);
    case S_MATMUL:
      return matmul(a, b, out);
    case S_CAT:
      return cat(s, a, b, out);
    case S_INDEX_SELECT:
      return index_select(s, a, b, out);
    case S_GATHER:
      return gather(s, a, b, out);
    case S_SCATTER_ADD:
    case S_SCATTER_ADD_INPLACE:
      return scatter_add(s, a, b, c, out);
    default:
      return false;
  }
}
