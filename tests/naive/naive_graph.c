/* Evaluates graphs in the plainest way. See naive_graph.h. */
#include "tests/naive/naive_graph.h"

#include <stdlib.h>
#include <string.h>

#include "tests/naive/naive_ops.h"

enum { CHUNK = 1024, LANES = 32, K_BLOCK = 256 };

typedef struct evaluation {
  const kl_graph *graph;
  const kl_scalar *scalars;
  const int64_t *offsets;
  void **values; /* of each node */
  const char *fault;
} evaluation;

/* ------------------------------------------------------------------ points of a space */

static int64_t count_points(const kl_node *node, int first, int end) {
  int64_t n = 1;
  for (int d = first; d < end; d++) n *= node->dims[d];
  return n;
}

/* The coordinates of point `at` of the space of dims [first, end), row-major. */
static void set_point(const kl_node *node, int first, int end, int64_t at, int64_t *point) {
  for (int d = end - 1; d >= first; d--) {
    point[d] = at % node->dims[d];
    at /= node->dims[d];
  }
}

static int64_t place(int64_t offset, const int64_t *strides, int n_dims, const int64_t *point) {
  for (int d = 0; d < n_dims; d++) offset += strides[d] * point[d];
  return offset;
}

static kl_dtype operand_dtype(const evaluation *e, const kl_node *node, int a) {
  const kl_operand *operand = &node->operands[a];
  return (kl_dtype)(operand->node < 0 ? operand->dtype : e->graph->nodes.data[operand->node].dtype);
}

/* Operand `a` at a point, moved by `shift` elements. */
static kl_scalar read_operand(evaluation *e, const kl_node *node, int a, const int64_t *point,
                              int64_t shift) {
  const kl_operand *operand = &node->operands[a];
  if (operand->node < 0) return e->scalars[operand->scalar];
  const kl_node *read = &e->graph->nodes.data[operand->node];
  int64_t at = place(operand->offset, operand->strides, node->n_dims, point) + shift;
  if (operand->offset_slot != KL_NO_SLOT) at += e->offsets[operand->offset_slot];
  if (at < 0 || at >= read->numel) {
    e->fault = "a read outside an operand's memory";
    return (kl_scalar){.bits = 0};
  }
  return naive_load((kl_dtype)read->dtype, e->values[operand->node], at);
}

/* Elements to move by, of the index in operand `a`. */
static int64_t read_index(evaluation *e, const kl_node *node, int a, const int64_t *point) {
  int64_t index = read_operand(e, node, a, point, 0).i64;
  if (index >= 0 && index < node->index_extent) return index * node->index_stride;
  e->fault = "an index out of range";
  return 0;
}

/* ------------------------------------------------------------------ nodes */

static kl_scalar eval_elem(evaluation *e, const kl_node *node, const int64_t *point) {
  kl_scalar args[3] = {{.bits = 0}};
  bool known = true;
  if (node->op == KL_OP_INDEX) return (kl_scalar){.i64 = point[node->attr]};
  for (int a = 0; a < node->n_operands; a++) args[a] = read_operand(e, node, a, point, 0);
  kl_scalar result =
      naive_apply((kl_op)node->op, operand_dtype(e, node, 0), (kl_dtype)node->dtype, args, &known);
  if (!known) e->fault = "no scalar function for an operation and dtype";
  return result;
}

/* The lanes of one chunk, joined by halves. */
static kl_scalar reduce_chunk(kl_op op, kl_dtype dtype, const kl_scalar *values, int64_t n) {
  kl_scalar lanes[LANES];
  for (int i = 0; i < LANES; i++) lanes[i] = naive_fold_start(op, dtype);
  for (int64_t k = 0; k < n; k++)
    lanes[k % LANES] = naive_fold(op, dtype, lanes[k % LANES], values[k]);
  for (int half = LANES / 2; half > 0; half /= 2)
    for (int i = 0; i < half; i++) lanes[i] = naive_fold(op, dtype, lanes[i], lanes[i + half]);
  return lanes[0];
}

/* Chunks in a binary tree, split at the largest power of two below their number. */
static kl_scalar reduce_tree(kl_op op, kl_dtype dtype, const kl_scalar *values, int64_t n) {
  int64_t n_chunks = (n + CHUNK - 1) / CHUNK, left = 1;
  if (n_chunks <= 1) return reduce_chunk(op, dtype, values, n);
  while (left * 2 < n_chunks) left *= 2;
  return naive_fold(op, dtype, reduce_tree(op, dtype, values, left * CHUNK),
                    reduce_tree(op, dtype, values + left * CHUNK, n - left * CHUNK));
}

/* The first of the greatest (least) values; the first NaN before all. */
static kl_scalar find_extreme(kl_op op, kl_dtype dtype, const kl_scalar *values, int64_t n) {
  int64_t best = 0;
  bool known = true;
  for (int64_t k = 0; k < n; k++) {
    if (naive_is_nan(dtype, values[k])) return (kl_scalar){.i64 = k};
    kl_scalar pair[2] = {values[k], values[best]};
    kl_op better = op == KL_OP_REDUCE_ARGMAX ? KL_OP_GT : KL_OP_LT;
    if (naive_apply(better, dtype, KL_BOOL, pair, &known).u8) best = k;
  }
  return (kl_scalar){.i64 = best};
}

kl_scalar naive_reduce(kl_op op, kl_dtype dtype, const kl_scalar *values, int64_t n) {
  if (op == KL_OP_REDUCE_ARGMAX || op == KL_OP_REDUCE_ARGMIN)
    return find_extreme(op, dtype, values, n);
  return reduce_tree(op, dtype, values, n);
}

static kl_scalar eval_reduce(evaluation *e, const kl_node *node, int64_t *point) {
  int first = node->n_dims - node->n_reduced;
  int64_t n = count_points(node, first, node->n_dims);
  kl_scalar *row = malloc(sizeof *row * (size_t)(n > 0 ? n : 1));
  for (int64_t k = 0; k < n; k++) {
    set_point(node, first, node->n_dims, k, point);
    row[k] = read_operand(e, node, 0, point, 0);
  }
  kl_scalar result = naive_reduce((kl_op)node->op, operand_dtype(e, node, 0), row, n);
  free(row);
  return result;
}

static kl_scalar dot_step(kl_dtype dtype, kl_scalar a, kl_scalar b, kl_scalar t) {
  bool known = true;
  kl_scalar args[3] = {a, b, t};
  if (kl_dtype_is_float(dtype)) return naive_apply(KL_OP_FMA, dtype, dtype, args, &known);
  kl_scalar terms[2] = {naive_apply(KL_OP_MUL, dtype, dtype, args, &known), t};
  return naive_apply(KL_OP_ADD, dtype, dtype, terms, &known);
}

kl_scalar naive_dot(kl_dtype dtype, const kl_scalar *a, const kl_scalar *b, int64_t n) {
  kl_scalar result = {.bits = 0};
  bool known = true;
  for (int64_t first = 0; first < n; first += K_BLOCK) {
    kl_scalar block = {.bits = 0};
    for (int64_t k = first; k < n && k < first + K_BLOCK; k++)
      block = dot_step(dtype, a[k], b[k], block);
    kl_scalar terms[2] = {result, block};
    result = first == 0 ? block : naive_apply(KL_OP_ADD, dtype, dtype, terms, &known);
  }
  return result;
}

static kl_scalar eval_matmul(evaluation *e, const kl_node *node, int64_t *point) {
  int k_dim = node->n_dims - 1;
  int64_t n = node->dims[k_dim];
  kl_scalar *pairs = malloc(sizeof *pairs * (size_t)(2 * n + 1));
  for (point[k_dim] = 0; point[k_dim] < n; point[k_dim]++) {
    pairs[point[k_dim]] = read_operand(e, node, 0, point, 0);
    pairs[n + point[k_dim]] = read_operand(e, node, 1, point, 0);
  }
  kl_scalar result = naive_dot((kl_dtype)node->dtype, pairs, pairs + n, n);
  free(pairs);
  return result;
}

static kl_scalar eval_point(evaluation *e, const kl_node *node, int64_t *point) {
  if (kl_op_is_reduce(node->op)) return eval_reduce(e, node, point);
  if (node->op == KL_OP_MATMUL) return eval_matmul(e, node, point);
  if (node->op == KL_OP_GATHER)
    return read_operand(e, node, 0, point, read_index(e, node, 1, point));
  return eval_elem(e, node, point);
}

/* The old value with the data put in, points ascending. */
static void eval_writer(evaluation *e, const kl_node *node, void *value) {
  kl_dtype dtype = (kl_dtype)node->dtype;
  int64_t point[KL_MAX_RANK] = {0}, n = count_points(node, 0, node->n_dims);
  bool known = true;
  memcpy(value, e->values[node->operands[0].node], (size_t)node->numel * kl_dtype_size(dtype));
  for (int64_t i = 0; i < n && !e->fault; i++) {
    set_point(node, 0, node->n_dims, i, point);
    int64_t at = place(node->out_offset, node->out_strides, node->n_dims, point);
    if (node->op != KL_OP_WRITE_VIEW) at += read_index(e, node, 2, point);
    kl_scalar terms[2] = {{.bits = 0}, read_operand(e, node, 1, point, 0)};
    if (e->fault) return;
    if (at < 0 || at >= node->numel) {
      e->fault = "a write outside its memory";
      return;
    }
    terms[0] = naive_load(dtype, value, at);
    bool adds = node->op == KL_OP_SCATTER_ADD;
    naive_store(dtype, value, at,
                adds ? naive_apply(KL_OP_ADD, dtype, dtype, terms, &known) : terms[1]);
  }
}

static void eval_node(evaluation *e, const kl_node *node, void *const *leaves, void *value) {
  int64_t point[KL_MAX_RANK] = {0};
  size_t nbytes = (size_t)node->numel * kl_dtype_size((kl_dtype)node->dtype);
  if (node->op == KL_OP_LEAF) {
    memcpy(value, leaves[node->attr], nbytes);
  } else if (node->op == KL_OP_EMPTY) {
    memset(value, 0xa5, nbytes); /* never to be seen */
  } else if (kl_op_is_write(node->op)) {
    eval_writer(e, node, value);
  } else {
    for (int64_t i = 0; i < node->numel && !e->fault; i++) {
      set_point(node, 0, node->n_dims - node->n_reduced, i, point);
      naive_store((kl_dtype)node->dtype, value, i, eval_point(e, node, point));
    }
  }
}

static void eval_all(evaluation *e, void *const *leaves) {
  for (uint32_t i = 0; i < e->graph->nodes.count && !e->fault; i++) {
    const kl_node *node = &e->graph->nodes.data[i];
    if (node->flags & KL_NODE_DEAD) continue;
    /* Room for one element more, so that an empty value has an address. */
    e->values[i] = calloc((size_t)node->numel + 1, kl_dtype_size((kl_dtype)node->dtype));
    if (e->values[i])
      eval_node(e, node, leaves, e->values[i]);
    else
      e->fault = "no memory";
  }
}

const char *naive_eval(const kl_graph *graph, void *const *leaves, const kl_scalar *scalars,
                       const int64_t *offsets, void **out_values) {
  evaluation e = {.graph = graph, .scalars = scalars, .offsets = offsets, .values = out_values};
  memset(out_values, 0, sizeof *out_values * graph->nodes.count);
  eval_all(&e, leaves);
  for (uint32_t i = 0; i < graph->nodes.count; i++) {
    const kl_node *node = &graph->nodes.data[i];
    if (!e.fault && (node->flags & KL_NODE_KEEP)) {
      size_t nbytes = (size_t)node->numel * kl_dtype_size((kl_dtype)node->dtype);
      if (node->home >= 0) memcpy(leaves[node->home], out_values[i], nbytes);
    } else {
      free(out_values[i]);
      out_values[i] = NULL;
    }
  }
  return e.fault;
}
