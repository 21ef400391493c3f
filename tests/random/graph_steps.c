/* The steps that random graphs are made of. A step picks what it reads before it adds nodes, since
 * a leaf made on the way must stand above its readers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/random/graph_builder.h"

/* Room that every step may use up. */
enum { STEP_NODES = 24, STEP_LEAVES = 8, STEP_SCALARS = 8, MOST_PARTS = 4 };

static const int identity[BUILDER_MAX_RANK + 1] = {0, 1, 2, 3, 4, 5};

static shape shape_of(const builder *b, int32_t id) { return b->facts[id].shape; }

static kl_dtype dtype_of(const builder *b, int32_t id) {
  return (kl_dtype)builder_node(b, id)->dtype;
}

/* The iteration dims for a reader: mostly the shape of what it reads. */
static shape dims_like(builder *b, int32_t id) {
  if (tape_chance(b->t, 1, 5)) return builder_shape(b);
  return shape_of(b, id);
}

/* ------------------------------------------------------------------ elementwise */

static bool fits(kl_op op, int arity, kl_dtype dtype) {
  if (kl_op_table[op].kind != KL_KIND_ELEM || kl_op_table[op].arity != arity) return false;
  switch (op) {
    case KL_OP_CAST:
    case KL_OP_BITCAST:
    case KL_OP_SELECT:
    case KL_OP_RANDOM:
    case KL_OP_RANDOM_HIGH:
      return false;
    default:
      return kl_op_takes(op, dtype);
  }
}

static kl_op random_elem(builder *b, int arity, kl_dtype dtype) {
  kl_op ops[KL_OP_COUNT];
  uint32_t n_ops = 0;
  for (int op = 0; op < KL_OP_COUNT; op++)
    if (fits((kl_op)op, arity, dtype)) ops[n_ops++] = (kl_op)op;
  return ops[tape_choose(b->t, n_ops)];
}

static kl_dtype result_dtype(kl_op op, kl_dtype dtype) {
  return kl_op_table[op].result == KL_RESULT_BOOL ? KL_BOOL : dtype;
}

static void step_unary(builder *b) {
  int32_t x = builder_pick_any(b);
  shape s = dims_like(b, x);
  int32_t id = builder_add(b, random_elem(b, 1, dtype_of(b, x)), dtype_of(b, x), &s, 0);
  builder_read(b, id, 0, x, 0);
}

static void step_binary(builder *b) {
  int32_t x = builder_pick_any(b), y = builder_pick(b, dtype_of(b, x));
  kl_dtype dtype = dtype_of(b, x);
  shape s = dims_like(b, tape_chance(b->t, 1, 4) ? y : x);
  kl_op op = random_elem(b, 2, dtype);
  /* The sign of a computed NaN is unspecified, so it must not be looked at. */
  if (op == KL_OP_COPYSIGN && !b->facts[y].clean_nan) op = KL_OP_ADD;
  int32_t id = builder_add(b, op, result_dtype(op, dtype), &s, 0);
  int swapped = op != KL_OP_COPYSIGN && tape_chance(b->t, 1, 3);
  builder_read(b, id, swapped, x, 0);
  if (tape_chance(b->t, 1, 4))
    builder_scalar_random(b, id, !swapped, dtype);
  else
    builder_read(b, id, !swapped, y, 0);
}

static void step_cast(builder *b) {
  int32_t x = builder_pick_any(b);
  kl_dtype from = dtype_of(b, x), to = builder_dtype(b);
  shape s = dims_like(b, x);
  bool same_bytes = kl_dtype_size(from) == kl_dtype_size(to) && to != KL_BOOL;
  bool keeps_bits = same_bytes && (b->facts[x].clean_nan || !kl_dtype_is_float(from));
  kl_op op = keeps_bits && tape_chance(b->t, 1, 3) ? KL_OP_BITCAST : KL_OP_CAST;
  int32_t id = builder_add(b, op, to, &s, 0);
  builder_read(b, id, 0, x, 0);
}

static void step_select(builder *b) {
  int32_t x = builder_pick_any(b), condition = builder_pick(b, KL_BOOL);
  shape s = dims_like(b, x);
  int32_t id = builder_add(b, KL_OP_SELECT, dtype_of(b, x), &s, 0);
  int place = tape_chance(b->t, 1, 2) ? 2 : 1;
  builder_read(b, id, 0, condition, 0);
  builder_read(b, id, place, x, 0);
  builder_operand(b, id, 3 - place, dtype_of(b, x));
}

static void step_fma(builder *b) {
  int32_t x = builder_pick(b, tape_chance(b->t, 1, 3) ? KL_F64 : KL_F32);
  shape s = dims_like(b, x);
  int32_t id = builder_add(b, KL_OP_FMA, dtype_of(b, x), &s, 0);
  builder_read(b, id, 0, x, 0);
  builder_operand(b, id, 1, dtype_of(b, x));
  builder_operand(b, id, 2, dtype_of(b, x));
}

static int32_t add_index(builder *b, const shape *s) {
  int32_t id = builder_add(b, KL_OP_INDEX, KL_I64, s, 0);
  uint32_t dim = tape_choose(b->t, (uint32_t)s->rank);
  b->g->graph.nodes.data[id].attr = dim;
  b->facts[id].index_bound = s->dims[dim];
  return id;
}

static void step_index(builder *b) {
  shape s = builder_shape(b);
  if (s.rank == 0) s = (shape){.rank = 1, .dims = {5}};
  int32_t index = add_index(b, &s);
  if (tape_chance(b->t, 1, 2)) return;
  kl_op op = tape_chance(b->t, 1, 3) ? KL_OP_RANDOM_HIGH : KL_OP_RANDOM;
  int32_t id = builder_add(b, op, KL_I32, &s, 0);
  if (builder_node(b, index)->numel > 0) builder_read_axes(b, id, 0, index, identity);
  builder_scalar(b, id, 1, KL_I64, (kl_scalar){.i64 = tape_between(b->t, 0, 1000)});
  builder_scalar(b, id, 2, KL_I64, (kl_scalar){.i64 = tape_between(b->t, 0, 1000)});
  if (builder_node(b, index)->numel == 0) b->g->graph.nodes.data[id].operands[0].node = index;
}

/* A chain of elementwise ops over one shape, as long as fusion likes them. */
static void step_chain(builder *b) {
  int32_t x = builder_pick(b, tape_chance(b->t, 1, 4) ? KL_F64 : KL_F32);
  shape s = shape_of(b, x);
  for (int64_t n = tape_between(b->t, 2, 8); n > 0; n--) {
    int arity = 1 + (int)tape_choose(b->t, 2);
    kl_op op = random_elem(b, arity, dtype_of(b, x));
    if (op == KL_OP_COPYSIGN || result_dtype(op, KL_F32) == KL_BOOL) op = KL_OP_MUL;
    int32_t id = builder_add(b, op, dtype_of(b, x), &s, 0);
    builder_read_axes(b, id, 0, x, identity);
    if (kl_op_table[op].arity == 2) builder_operand(b, id, 1, dtype_of(b, x));
    x = id;
  }
}

/* ------------------------------------------------------------------ reductions */

static bool folds(kl_op op, kl_dtype dtype) {
  return kl_op_is_reduce(op) && kl_op_takes(op, dtype);
}

static kl_op random_reduce(builder *b, kl_dtype dtype) {
  kl_op ops[KL_OP_COUNT];
  uint32_t n_ops = 0;
  for (int op = 0; op < KL_OP_COUNT; op++)
    if (folds((kl_op)op, dtype)) ops[n_ops++] = (kl_op)op;
  return ops[tape_choose(b->t, n_ops)];
}

static kl_dtype reduce_result(kl_op op, kl_dtype dtype) {
  return kl_op_table[op].result == KL_RESULT_I64 ? KL_I64 : dtype;
}

/* The axes of `s` with those of the mask last; the reordered dims. */
static shape axes_last(const shape *s, uint32_t mask, int *axes) {
  shape dims = {.rank = s->rank};
  int n = 0;
  for (int last = 0; last < 2; last++)
    for (int d = 0; d < s->rank; d++)
      if (((mask >> d) & 1) == (uint32_t)last) axes[n++] = d;
  for (int d = 0; d < s->rank; d++) dims.dims[d] = s->dims[axes[d]];
  return dims;
}

static int count_bits(uint32_t mask) { return __builtin_popcount(mask); }

/* Folds the axes of x that the mask names; the result has the other ones. */
static int32_t add_reduce(builder *b, kl_op op, int32_t x, uint32_t mask) {
  int axes[BUILDER_MAX_RANK];
  shape s = shape_of(b, x), dims = axes_last(&s, mask, axes);
  int32_t id = builder_add(b, op, reduce_result(op, dtype_of(b, x)), &dims, count_bits(mask));
  builder_read_axes(b, id, 0, x, axes);
  return id;
}

static void step_reduce(builder *b) {
  int32_t x = builder_pick_any(b);
  kl_op op = random_reduce(b, dtype_of(b, x));
  if (!tape_chance(b->t, 1, 5)) {
    add_reduce(b, op, x, tape_choose(b->t, 1u << shape_of(b, x).rank));
    return;
  }
  shape s = builder_shape(b);
  int n_reduced = (int)tape_choose(b->t, (uint32_t)s.rank + 1);
  int32_t id = builder_add(b, op, reduce_result(op, dtype_of(b, x)), &s, n_reduced);
  builder_read(b, id, 0, x, 0);
}

/* An elementwise op of x and a value of x's rows: y has x's axes but those of the mask. */
static int32_t add_rowwise(builder *b, kl_op op, int32_t x, int32_t y, uint32_t mask) {
  shape s = shape_of(b, x);
  int axes[BUILDER_MAX_RANK], n = 0;
  for (int d = 0; d < s.rank; d++) axes[d] = (mask >> d) & 1 ? -1 : n++;
  int32_t id = builder_add(b, op, dtype_of(b, x), &s, 0);
  builder_read_axes(b, id, 0, x, identity);
  builder_read_axes(b, id, 1, y, axes);
  return id;
}

static int32_t add_unary(builder *b, kl_op op, int32_t x) {
  shape s = shape_of(b, x);
  int32_t id = builder_add(b, op, dtype_of(b, x), &s, 0);
  builder_read_axes(b, id, 0, x, identity);
  return id;
}

static int32_t add_binary(builder *b, kl_op op, int32_t x, int32_t y) {
  return add_rowwise(b, op, x, y, 0);
}

/* softmax or log_softmax, maybe its backward, over one axis or several. */
static void step_softmax(builder *b) {
  int32_t x = builder_pick(b, tape_chance(b->t, 1, 4) ? KL_F64 : KL_F32);
  int rank = shape_of(b, x).rank;
  uint32_t mask = tape_chance(b->t, 1, 5) ? tape_choose(b->t, 1u << rank)
                  : rank                  ? 1u << (rank - 1)
                                          : 0;
  shape s = shape_of(b, x);
  bool backward = tape_chance(b->t, 1, 2), logarithmic = tape_chance(b->t, 1, 2);
  int32_t gradient = backward ? builder_leaf(b, dtype_of(b, x), &s, 0) : -1;
  int32_t shifted = add_rowwise(b, KL_OP_SUB, x, add_reduce(b, KL_OP_REDUCE_MAX, x, mask), mask);
  int32_t exponential = add_unary(b, KL_OP_EXP, shifted);
  int32_t total = add_reduce(b, KL_OP_REDUCE_SUM, exponential, mask);
  int32_t y = logarithmic ? add_rowwise(b, KL_OP_SUB, shifted, add_unary(b, KL_OP_LOG, total), mask)
                          : add_rowwise(b, KL_OP_DIV, exponential, total, mask);
  if (!backward) return;
  if (logarithmic) {
    int32_t sum = add_reduce(b, KL_OP_REDUCE_SUM, gradient, mask);
    add_binary(b, KL_OP_SUB, gradient,
               add_rowwise(b, KL_OP_MUL, add_unary(b, KL_OP_EXP, y), sum, mask));
  } else {
    int32_t sum = add_reduce(b, KL_OP_REDUCE_SUM, add_binary(b, KL_OP_MUL, gradient, y), mask);
    add_binary(b, KL_OP_MUL, add_rowwise(b, KL_OP_SUB, gradient, sum, mask), y);
  }
}

/* (x - mean) / sqrt(mean((x - mean)^2)), rows along random axes. */
static void step_normalize(builder *b) {
  int32_t x = builder_pick(b, tape_chance(b->t, 1, 4) ? KL_F64 : KL_F32);
  int rank = shape_of(b, x).rank;
  uint32_t mask = tape_chance(b->t, 1, 3) ? tape_choose(b->t, 1u << rank)
                  : rank                  ? 1u << (rank - 1)
                                          : 0;
  int32_t sum = add_reduce(b, KL_OP_REDUCE_SUM, x, mask);
  shape rows = shape_of(b, sum);
  int32_t mean = builder_add(b, KL_OP_MUL, dtype_of(b, x), &rows, 0);
  builder_read_axes(b, mean, 0, sum, identity);
  builder_scalar_random(b, mean, 1, dtype_of(b, x));
  int32_t centered = add_rowwise(b, KL_OP_SUB, x, mean, mask);
  int32_t square = add_binary(b, KL_OP_MUL, centered, centered);
  int32_t spread = add_unary(b, KL_OP_SQRT, add_reduce(b, KL_OP_REDUCE_SUM, square, mask));
  add_rowwise(b, KL_OP_DIV, centered, spread, mask);
}

/* ------------------------------------------------------------------ indexing */

static void set_index(builder *b, int32_t id, int64_t stride, int64_t extent) {
  kl_node *node = &b->g->graph.nodes.data[id];
  node->index_stride = stride;
  node->index_extent = extent;
}

static void step_gather(builder *b) {
  int32_t x = builder_pick_any(b);
  shape s = shape_of(b, x);
  int64_t strides[BUILDER_MAX_RANK + 1];
  if (s.rank == 0) return;
  int axis = (int)tape_choose(b->t, (uint32_t)s.rank);
  int64_t extent = s.dims[axis];
  int32_t index = builder_pick_index(b, extent);
  shape_strides(&s, strides);
  s.dims[axis] = tape_between(b->t, 1, 9);
  int32_t id = builder_add(b, KL_OP_GATHER, dtype_of(b, x), &s, 0);
  int axes[BUILDER_MAX_RANK];
  for (int d = 0; d < s.rank; d++) axes[d] = d == axis ? -1 : d;
  builder_read_axes(b, id, 0, x, axes);
  /* Like index_select: the index moves along the axis only. */
  uint32_t others = ((1u << s.rank) - 1) & ~(1u << axis);
  builder_read(b, id, 1, index, tape_chance(b->t, 1, 2) ? others : 0);
  set_index(b, id, strides[axis], extent);
}

static void step_scatter(builder *b) {
  int32_t old = builder_pick_any(b);
  shape s = shape_of(b, old);
  int64_t strides[BUILDER_MAX_RANK + 1];
  if (s.rank == 0) return;
  int axis = (int)tape_choose(b->t, (uint32_t)s.rank), axes[BUILDER_MAX_RANK];
  int64_t extent = s.dims[axis];
  int32_t index = builder_pick_index(b, extent);
  kl_op op =
      dtype_of(b, old) == KL_BOOL || tape_chance(b->t, 1, 4) ? KL_OP_SCATTER : KL_OP_SCATTER_ADD;
  shape_strides(&s, strides);
  shape dims = axes_last(&s, 1u << axis, axes);
  dims.dims[s.rank - 1] = tape_between(b->t, 1, 40);
  /* The other axes may be written in part only. */
  for (int d = 0; d < s.rank - 1; d++)
    if (tape_chance(b->t, 1, 8)) dims.dims[d] = tape_between(b->t, 0, dims.dims[d]);
  int32_t id = builder_add(b, op, dtype_of(b, old), &dims, 1);
  kl_node *node = &b->g->graph.nodes.data[id];
  node->operands[0].node = old;
  node->numel = builder_node(b, old)->numel;
  for (int d = 0; d < s.rank - 1; d++) node->out_strides[d] = strides[axes[d]];
  b->facts[id] = (node_facts){.shape = s};
  builder_operand(b, id, 1, dtype_of(b, old));
  uint32_t others = (1u << (s.rank - 1)) - 1;
  builder_read(b, id, 2, index, tape_chance(b->t, 1, 2) ? others : 0);
  set_index(b, id, strides[axis], extent);
}

/* ------------------------------------------------------------------ writes */

/* Data written into a part of `old`, or over all of it. */
static int32_t add_write(builder *b, int32_t old, int32_t data) {
  shape s = tape_chance(b->t, 1, 3) ? shape_of(b, data) : builder_shape(b);
  int64_t offset, strides[KL_MAX_RANK];
  if (tape_chance(b->t, 1, 4)) s = shape_of(b, old);
  if (!builder_injective(b, builder_node(b, old)->numel, s.rank, s.dims, &offset, strides)) {
    s = shape_of(b, old);
    shape_strides(&s, strides);
    offset = 0;
  }
  int32_t id = builder_add(b, KL_OP_WRITE_VIEW, dtype_of(b, old), &s, 0);
  kl_node *node = &b->g->graph.nodes.data[id];
  node->operands[0].node = old;
  node->operands[0].strides = NULL;
  node->numel = builder_node(b, old)->numel;
  node->out_offset = offset;
  memcpy(node->out_strides, strides, sizeof(int64_t) * (size_t)s.rank);
  b->facts[id] = (node_facts){.shape = shape_of(b, old)};
  if (tape_chance(b->t, 1, 5))
    builder_scalar_random(b, id, 1, dtype_of(b, old));
  else
    builder_read(b, id, 1, data, 0);
  return id;
}

/* A few writes one upon the other, with readers of the values in between. */
static void step_write(builder *b) {
  int32_t value = builder_pick_any(b);
  for (int64_t n = tape_between(b->t, 1, 3); n > 0; n--) {
    int32_t data = builder_pick(b, dtype_of(b, value));
    if (tape_chance(b->t, 1, 3)) {
      kl_op op = random_elem(b, 1, dtype_of(b, value));
      shape s = shape_of(b, value);
      int32_t id = builder_add(b, op, dtype_of(b, value), &s, 0);
      builder_read_axes(b, id, 0, value, identity);
      data = id;
    }
    value = add_write(b, value, data);
  }
}

/* The parts one after the other along an axis of a new storage. */
static void step_cat(builder *b) {
  int32_t first = builder_pick_any(b), parts[MOST_PARTS];
  shape whole = shape_of(b, first);
  int64_t strides[BUILDER_MAX_RANK + 1], lengths[MOST_PARTS], at = 0;
  if (whole.rank == 0) return;
  int n_parts = (int)tape_between(b->t, 1, MOST_PARTS);
  int axis = (int)tape_choose(b->t, (uint32_t)whole.rank);
  whole.dims[axis] = 0;
  for (int p = 0; p < n_parts; p++) {
    parts[p] = p ? builder_pick(b, dtype_of(b, first)) : first;
    lengths[p] = tape_chance(b->t, 1, 3) ? tape_between(b->t, 1, 5) : shape_of(b, first).dims[axis];
    whole.dims[axis] += lengths[p];
  }
  shape_strides(&whole, strides);
  int32_t value = builder_add(b, KL_OP_EMPTY, dtype_of(b, first), &whole, 0);
  b->facts[value].hidden = true;
  for (int p = 0; p < n_parts; p++) {
    shape s = whole;
    s.dims[axis] = lengths[p];
    int32_t id = builder_add(b, KL_OP_WRITE_VIEW, dtype_of(b, first), &s, 0);
    kl_node *node = &b->g->graph.nodes.data[id];
    node->operands[0].node = value;
    node->operands[0].strides = NULL;
    node->numel = builder_node(b, value)->numel;
    node->out_offset = at * strides[axis];
    memcpy(node->out_strides, strides, sizeof(int64_t) * (size_t)s.rank);
    b->facts[id] = (node_facts){.shape = whole, .hidden = p < n_parts - 1};
    builder_read(b, id, 1, parts[p], 0);
    at += lengths[p];
    value = id;
  }
}

/* ------------------------------------------------------------------ matrix products */

static void step_matmul(builder *b) {
  static const uint8_t dtypes[] = {KL_F32, KL_F32, KL_F32, KL_F64, KL_I64, KL_I32};
  kl_dtype dtype = (kl_dtype)dtypes[tape_choose(b->t, sizeof dtypes)];
  int32_t x = builder_pick(b, dtype), y = builder_pick(b, dtype);
  int n_batch = (int)tape_choose(b->t, 3);
  shape s = {.rank = n_batch + 3};
  for (int d = 0; d < n_batch; d++) s.dims[d] = tape_between(b->t, 1, 3);
  for (int d = n_batch; d < s.rank; d++) s.dims[d] = tape_between(b->t, 1, 12);
  if (tape_chance(b->t, 1, 8)) s.dims[s.rank - 1] = tape_between(b->t, 0, 600);
  int32_t id = builder_add(b, KL_OP_MATMUL, dtype, &s, 1);
  builder_read(b, id, 0, x, 1u << (s.rank - 2));
  builder_read(b, id, 1, y, 1u << (s.rank - 3));
}

/* ------------------------------------------------------------------ whole graphs */

void builder_step(builder *b) {
  static void (*const steps[])(builder *) = {
      step_unary,  step_binary, step_chain,     step_reduce,  step_write, step_binary, step_unary,
      step_binary, step_reduce, step_write,     step_softmax, step_cat,   step_gather, step_scatter,
      step_cast,   step_select, step_normalize, step_matmul,  step_fma,   step_index,
  };
  steps[tape_choose(b->t, sizeof steps / sizeof *steps)](b);
}

/* Whether a step can be made whatever it takes. */
static bool has_room(const builder *b) {
  const kl_graph *graph = &b->g->graph;
  return graph->nodes.count + STEP_NODES <= RANDOM_MAX_NODES &&
         graph->leaves.count + STEP_LEAVES <= RANDOM_MAX_LEAVES &&
         graph->n_scalars + STEP_SCALARS <= RANDOM_MAX_SLOTS;
}

/* A leaf that the value may end in: of its size, and nobody's home yet. */
static int32_t find_home(builder *b, const kl_node *node, uint64_t taken) {
  const kl_graph *graph = &b->g->graph;
  for (uint32_t l = 0; l < graph->leaves.count; l++) {
    const kl_leaf *leaf = &graph->leaves.data[l];
    if (!((taken >> l) & 1) && leaf->numel == node->numel && !tape_chance(b->t, 1, 3) &&
        kl_dtype_size((kl_dtype)leaf->dtype) == kl_dtype_size((kl_dtype)node->dtype))
      return (int32_t)l;
  }
  return -1;
}

static void choose_outputs(builder *b) {
  kl_graph *graph = &b->g->graph;
  uint64_t taken = 0;
  for (int32_t id = (int32_t)graph->nodes.count - 1, n_kept = 0; id >= 0; id--) {
    kl_node *node = &graph->nodes.data[id];
    bool can_keep = node->op != KL_OP_LEAF && node->op != KL_OP_EMPTY && !b->facts[id].hidden;
    if (!can_keep || (n_kept > 0 && !tape_chance(b->t, 1, 3))) continue;
    n_kept++;
    node->flags |= KL_NODE_KEEP;
    if (tape_chance(b->t, 1, 3)) node->home = find_home(b, node, taken);
    /* Two homes in the same memory would depend on their order. */
    for (uint32_t l = 0; l < graph->leaves.count && node->home >= 0; l++)
      if ((int32_t)l == node->home ||
          (graph->leaves.data[l].may_alias && graph->leaves.data[node->home].may_alias))
        taken |= UINT64_C(1) << l;
  }
}

void random_graph_make(random_graph *g, tape *t, int n_steps) {
  builder *b = calloc(1, sizeof *b);
  memset(g, 0, sizeof *g);
  b->t = t, b->g = g;
  /* Each step asks anew whether there is one, so that a shrinker can cut out steps. */
  for (int n = 0; n == 0 || (n < n_steps && has_room(b) && tape_choose(t, 10) > 0); n++)
    builder_step(b);
  choose_outputs(b);
  free(b);
}

void random_graph_finish(random_graph *g) {
  kl_graph_finish(&g->graph);
  free(g->block);
}

unsigned char *random_graph_leaves(const random_graph *g, void **out_leaves) {
  size_t nbytes = ((size_t)g->block_nbytes + 64) / 64 * 64;
  unsigned char *block = aligned_alloc(64, nbytes);
  if (g->block_nbytes) memcpy(block, g->block, (size_t)g->block_nbytes);
  for (uint32_t l = 0; l < g->graph.leaves.count; l++) out_leaves[l] = block + g->leaf_at[l];
  return block;
}
