/* Shapes, leaves and index maps of random graphs. See graph_builder.h. */
#include "tests/random/graph_builder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/naive/naive_ops.h"

enum { MOST_ELEMS = 4096, MOST_ELEMS_LARGE = 12000 };

/* ------------------------------------------------------------------ shapes */

int64_t shape_numel(const shape *s) {
  int64_t numel = 1;
  for (int d = 0; d < s->rank; d++) numel *= s->dims[d];
  return numel;
}

void shape_strides(const shape *s, int64_t *strides) {
  int64_t stride = 1;
  for (int d = s->rank - 1; d >= 0; d--) {
    strides[d] = stride;
    stride *= s->dims[d] > 0 ? s->dims[d] : 1;
  }
}

static int64_t random_dim(tape *t) {
  static const int64_t common[] = {2, 3, 1, 4, 5, 7, 8, 13, 16, 17, 31, 32, 33, 64, 100};
  static const int64_t large[] = {127, 255, 257, 1000, 1023, 1024, 1025, 2048, 2500, 5000};
  if (tape_chance(t, 1, 16)) return large[tape_choose(t, sizeof large / sizeof *large)];
  if (tape_chance(t, 1, 60)) return 0;
  return common[tape_choose(t, sizeof common / sizeof *common)];
}

shape builder_shape(builder *b) {
  static const int ranks[] = {1, 2, 2, 2, 3, 3, 0, 1, 4, 5};
  shape s = {.rank = ranks[tape_choose(b->t, sizeof ranks / sizeof *ranks)]};
  int64_t numel = 1, most = tape_chance(b->t, 1, 12) ? MOST_ELEMS_LARGE : MOST_ELEMS;
  for (int d = 0; d < s.rank; d++) {
    s.dims[d] = random_dim(b->t);
    if (numel * s.dims[d] > most) s.dims[d] = 1;
    numel *= s.dims[d] > 0 ? s.dims[d] : 1;
  }
  return s;
}

kl_dtype builder_dtype(builder *b) {
  static const uint8_t dtypes[] = {KL_F32, KL_F32, KL_F32, KL_F32, KL_F64, KL_F64,
                                   KL_I64, KL_I64, KL_I32, KL_U8,  KL_BOOL};
  return (kl_dtype)dtypes[tape_choose(b->t, sizeof dtypes)];
}

/* ------------------------------------------------------------------ leaves */

typedef enum value_kind { VALUES_COUNTING, VALUES_SMALL, VALUES_WIDE, VALUES_SPECIAL } value_kind;

static uint64_t next_bits(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

static double special_float(uint64_t bits) {
  static const double specials[] = {0.0,    -0.0,  1.0,    -1.0,  INFINITY, -INFINITY, NAN,
                                    1e-310, 1e-40, 3.4e38, 1e300, 0x1p31,   0x1p63,    -0x1p63,
                                    0.5,    255.5, -0.75,  1e10,  88.8,     -104.0};
  return specials[bits % (sizeof specials / sizeof *specials)];
}

static double random_float(value_kind kind, int64_t i, uint64_t bits) {
  double unit = (double)(bits >> 11) * 0x1p-53;
  switch (kind) {
    case VALUES_COUNTING:
      return (double)(i % 97) + 1;
    case VALUES_SMALL:
      return unit * 4 - 2;
    case VALUES_WIDE:
      return (unit - 0.5) * pow(10, (double)(bits % 13) - 4);
    default:
      return bits % 3 ? unit * 4 - 2 : special_float(bits >> 5);
  }
}

static int64_t random_int(value_kind kind, int64_t i, uint64_t bits) {
  static const int64_t specials[] = {0, 1, -1, INT64_MAX, INT64_MIN, INT32_MAX, INT32_MIN, 255};
  switch (kind) {
    case VALUES_COUNTING:
      return i % 97 + 1;
    case VALUES_SMALL:
      return (int64_t)(bits % 21) - 10;
    case VALUES_WIDE:
      return (int64_t)bits;
    default:
      return specials[bits % 8];
  }
}

static kl_scalar random_value(kl_dtype dtype, value_kind kind, int64_t i, uint64_t bits) {
  kl_scalar value = {.bits = 0};
  switch (dtype) {
    case KL_F32:
      value.f32 = (float)random_float(kind, i, bits);
      break;
    case KL_F64:
      value.f64 = random_float(kind, i, bits);
      break;
    case KL_BOOL:
      value.u8 = random_int(kind, i, bits) & 1;
      break;
    case KL_U8:
      value.u8 = (uint8_t)random_int(kind, i, bits);
      break;
    case KL_I32:
      value.i32 = (int32_t)random_int(kind, i, bits);
      break;
    default:
      value.i64 = random_int(kind, i, bits);
      break;
  }
  return value;
}

static value_kind random_kind(tape *t) {
  static const uint8_t kinds[] = {VALUES_COUNTING, VALUES_SMALL, VALUES_SMALL,  VALUES_SMALL,
                                  VALUES_SMALL,    VALUES_WIDE,  VALUES_SPECIAL};
  return (value_kind)kinds[tape_choose(t, sizeof kinds)];
}

/* Room for a leaf in the block, at an address that suits its elements but not always more. */
static int64_t place_leaf(builder *b, int64_t nbytes, int64_t elem_nbytes) {
  random_graph *g = b->g;
  int64_t at = (g->block_nbytes + RANDOM_GUARD + 63) / 64 * 64;
  if (tape_chance(b->t, 1, 8)) at += elem_nbytes * (1 + tape_choose(b->t, 3));
  int64_t end = at + nbytes + RANDOM_GUARD;
  if (end > g->block_capacity) {
    g->block_capacity = end * 2;
    g->block = realloc(g->block, (size_t)g->block_capacity);
  }
  memset(g->block + g->block_nbytes, 0xee, (size_t)(end - g->block_nbytes));
  g->block_nbytes = end;
  return at;
}

/* Sometimes the same memory as another leaf of the dtype, or a part of it: external memory may be
 * seen twice. Integers only, since a comparison of bytes knows no NaN. */
static bool share_leaf(builder *b, kl_leaf *leaf, int64_t *out_at) {
  kl_graph *graph = &b->g->graph;
  if (!tape_chance(b->t, 1, 12) || (leaf->dtype != KL_I32 && leaf->dtype != KL_U8)) return false;
  for (uint32_t l = 0; l < graph->leaves.count; l++) {
    kl_leaf *other = &graph->leaves.data[l];
    if (other->dtype != leaf->dtype || other->numel < leaf->numel || other->reusable) continue;
    int64_t shift = tape_between(b->t, 0, other->numel - leaf->numel);
    other->may_alias = leaf->may_alias = true;
    *out_at = b->g->leaf_at[l] + shift * (int64_t)kl_dtype_size((kl_dtype)leaf->dtype);
    return true;
  }
  return false;
}

static void fill_leaf(builder *b, uint32_t number, const kl_leaf *leaf, int64_t index_bound) {
  value_kind kind = random_kind(b->t);
  uint64_t state = 0x9e3779b97f4a7c15 * (tape_choose(b->t, 1000) + 1);
  unsigned char *bytes = b->g->block + b->g->leaf_at[number];
  for (int64_t i = 0; i < leaf->numel; i++) {
    kl_scalar value = random_value((kl_dtype)leaf->dtype, kind, i, next_bits(&state));
    if (index_bound) value.i64 = (int64_t)((uint64_t)value.i64 % (uint64_t)index_bound);
    naive_store((kl_dtype)leaf->dtype, bytes, i, value);
  }
}

int32_t builder_leaf(builder *b, kl_dtype dtype, const shape *s, int64_t index_bound) {
  kl_graph *graph = &b->g->graph;
  kl_leaf leaf = {.dtype = (uint8_t)dtype, .numel = shape_numel(s)};
  uint32_t number = graph->leaves.count;
  int64_t at;
  bool shared = !index_bound && share_leaf(b, &leaf, &at);
  int64_t elem_nbytes = (int64_t)kl_dtype_size(dtype);
  b->g->leaf_at[number] = shared ? at : place_leaf(b, leaf.numel * elem_nbytes, elem_nbytes);
  if (!shared) leaf.reusable = tape_chance(b->t, 1, 3);
  if (!kl_vec_push(&graph->leaves, leaf)) abort();
  if (!shared) fill_leaf(b, number, &leaf, index_bound);
  shape none = {0};
  int32_t id = builder_add(b, KL_OP_LEAF, dtype, &none, 0);
  graph->nodes.data[id].attr = number;
  graph->nodes.data[id].numel = leaf.numel;
  b->facts[id] = (node_facts){.shape = *s, .index_bound = index_bound, .clean_nan = true};
  return id;
}

/* ------------------------------------------------------------------ picking nodes */

const kl_node *builder_node(const builder *b, int32_t id) { return &b->g->graph.nodes.data[id]; }

static bool can_make_leaf(const builder *b) { return b->g->graph.leaves.count < RANDOM_MAX_LEAVES; }

static int32_t pick(builder *b, int dtype) {
  int32_t found[6];
  uint32_t n_found = 0;
  for (int32_t id = (int32_t)b->g->graph.nodes.count - 1; id >= 0 && n_found < 6; id--) {
    const kl_node *node = builder_node(b, id);
    if (!b->facts[id].hidden && node->numel > 0 && (dtype < 0 || node->dtype == dtype))
      found[n_found++] = id;
    if (n_found > 1 && tape_chance(b->t, 1, 3)) id -= (int32_t)tape_choose(b->t, 6);
  }
  if (n_found && (!can_make_leaf(b) || !tape_chance(b->t, 1, 5)))
    return found[tape_choose(b->t, n_found)];
  shape s = builder_shape(b);
  for (int d = 0; d < s.rank; d++)
    if (s.dims[d] == 0) s.dims[d] = 2;
  return builder_leaf(b, dtype < 0 ? builder_dtype(b) : (kl_dtype)dtype, &s, 0);
}

int32_t builder_pick(builder *b, kl_dtype dtype) { return pick(b, (int)dtype); }

int32_t builder_pick_any(builder *b) { return pick(b, -1); }

int32_t builder_pick_index(builder *b, int64_t extent) {
  for (int32_t id = (int32_t)b->g->graph.nodes.count - 1; id >= 0; id--) {
    int64_t bound = b->facts[id].index_bound;
    if (bound > 0 && bound <= extent && builder_node(b, id)->numel > 0 && !tape_chance(b->t, 1, 3))
      return id;
  }
  if (tape_chance(b->t, 1, 3)) {
    int32_t any = builder_pick(b, KL_I64);
    shape s = b->facts[any].shape;
    int axes[BUILDER_MAX_RANK] = {0, 1, 2, 3, 4};
    int32_t id = builder_add(b, KL_OP_REMAINDER, KL_I64, &s, 0);
    builder_read_axes(b, id, 0, any, axes);
    builder_scalar(b, id, 1, KL_I64, (kl_scalar){.i64 = extent});
    b->facts[id].index_bound = extent;
    return id;
  }
  shape s = {.rank = 1, .dims = {1 + tape_choose(b->t, 40)}};
  return builder_leaf(b, KL_I64, &s, extent);
}

/* ------------------------------------------------------------------ nodes and maps */

int32_t builder_add(builder *b, kl_op op, kl_dtype dtype, const shape *s, int n_reduced) {
  int32_t id;
  shape kept = *s;
  if (kl_graph_add(&b->g->graph, op, dtype, s->rank, n_reduced, &id) != KL_OK) abort();
  kept.rank -= n_reduced;
  kl_node *node = &b->g->graph.nodes.data[id];
  memcpy(node->dims, s->dims, sizeof(int64_t) * (size_t)s->rank);
  node->numel = shape_numel(&kept);
  b->facts[id] = (node_facts){.shape = kept};
  return id;
}

void builder_scalar(builder *b, int32_t id, int a, kl_dtype dtype, kl_scalar value) {
  kl_graph *graph = &b->g->graph;
  if (graph->n_scalars == RANDOM_MAX_SLOTS) abort(); /* builder_step leaves room */
  kl_operand *operand = &graph->nodes.data[id].operands[a];
  b->g->scalars[graph->n_scalars] = value;
  *operand = (kl_operand){.node = -1,
                          .scalar = graph->n_scalars++,
                          .dtype = (uint8_t)dtype,
                          .offset_slot = KL_NO_SLOT,
                          .strides = NULL};
}

void builder_scalar_random(builder *b, int32_t id, int a, kl_dtype dtype) {
  value_kind kind = random_kind(b->t);
  uint64_t state = 0x9e3779b97f4a7c15 * (tape_choose(b->t, 1000) + 1);
  builder_scalar(b, id, a, dtype, random_value(dtype, kind, 0, next_bits(&state)));
}

static bool is_empty(const kl_node *node) {
  for (int d = 0; d < node->n_dims; d++)
    if (node->dims[d] == 0) return true;
  return false;
}

/* Of a leaf a part of the offset may be given at the run. */
static void split_offset(builder *b, kl_operand *operand) {
  kl_graph *graph = &b->g->graph;
  if (builder_node(b, operand->node)->op != KL_OP_LEAF || graph->n_offsets == RANDOM_MAX_SLOTS ||
      !tape_chance(b->t, 1, 6))
    return;
  int64_t later = tape_between(b->t, 0, operand->offset);
  operand->offset -= later;
  operand->offset_slot = graph->n_offsets;
  b->g->offsets[graph->n_offsets++] = later;
}

/* The dims in the order in which strides are dealt out: mostly from the last to the first. */
static void deal_order(builder *b, int rank, int *order) {
  for (int i = 0; i < rank; i++) order[i] = rank - 1 - i;
  if (!tape_chance(b->t, 1, 4)) return;
  for (int i = rank - 1; i > 0; i--) {
    int j = (int)tape_choose(b->t, (uint32_t)i + 1), was = order[i];
    order[i] = order[j], order[j] = was;
  }
}

/* Strides within `numel` elements, some of them 0 where `may_repeat`; the reach, or -1. */
static int64_t deal_strides(builder *b, int64_t numel, int rank, const int64_t *dims,
                            uint32_t zero_mask, bool may_repeat, int64_t *strides) {
  int order[KL_MAX_RANK];
  int64_t unit = 1, reach = 0;
  deal_order(b, rank, order);
  for (int i = 0; i < rank; i++) {
    int d = order[i];
    int64_t stride = unit;
    strides[d] = 0;
    if ((zero_mask >> d) & 1) continue;
    if (may_repeat && tape_chance(b->t, 1, 7)) continue;
    if (tape_chance(b->t, 1, 8)) stride *= 1 + tape_choose(b->t, 3);
    if (reach + (dims[d] - 1) * stride >= numel) stride = unit;
    if (reach + (dims[d] - 1) * stride >= numel) {
      if (may_repeat) continue;
      return -1;
    }
    strides[d] = stride;
    reach += (dims[d] - 1) * stride;
    unit = stride * dims[d];
    if (tape_chance(b->t, 1, 10)) unit += (int64_t)tape_choose(b->t, 3) * stride;
    /* Windows that overlap, as of as_strided. */
    if (may_repeat && tape_chance(b->t, 1, 24)) unit = 1 + tape_choose(b->t, 3);
  }
  return reach;
}

/* Whether the iteration dims are the shape of the node's memory. */
static bool same_dims(const kl_node *node, const shape *s) {
  return node->n_dims == s->rank &&
         memcmp(node->dims, s->dims, sizeof(int64_t) * (size_t)s->rank) == 0;
}

void builder_read(builder *b, int32_t id, int a, int32_t node, uint32_t zero_mask) {
  kl_node *reader = &b->g->graph.nodes.data[id];
  kl_operand *operand = &reader->operands[a];
  const shape *s = &b->facts[node].shape;
  operand->node = node;
  if (is_empty(reader)) return;
  if (!zero_mask && same_dims(reader, s) && !tape_chance(b->t, 1, 6)) {
    shape_strides(s, operand->strides);
  } else {
    int64_t numel = builder_node(b, node)->numel;
    int64_t reach =
        deal_strides(b, numel, reader->n_dims, reader->dims, zero_mask, true, operand->strides);
    if (tape_chance(b->t, 1, 2)) operand->offset = tape_between(b->t, 0, numel - 1 - reach);
  }
  split_offset(b, operand);
}

void builder_read_axes(builder *b, int32_t id, int a, int32_t node, const int *axes) {
  kl_node *reader = &b->g->graph.nodes.data[id];
  int64_t strides[KL_MAX_RANK];
  reader->operands[a].node = node;
  shape_strides(&b->facts[node].shape, strides);
  for (int d = 0; d < reader->n_dims; d++)
    reader->operands[a].strides[d] = axes[d] < 0 ? 0 : strides[axes[d]];
}

void builder_operand(builder *b, int32_t id, int a, kl_dtype dtype) {
  if (tape_chance(b->t, 1, 5) && b->g->graph.n_scalars < RANDOM_MAX_SLOTS) {
    builder_scalar_random(b, id, a, dtype);
    return;
  }
  /* Only nodes above may be read: a new leaf would stand below. */
  for (int32_t n = id - 1, skip = (int32_t)tape_choose(b->t, 4); n >= 0; n--)
    if (!b->facts[n].hidden && builder_node(b, n)->dtype == dtype &&
        builder_node(b, n)->numel > 0 && (skip-- == 0 || n == 0)) {
      builder_read(b, id, a, n, 0);
      return;
    }
  builder_scalar_random(b, id, a, dtype);
}

bool builder_injective(builder *b, int64_t numel, int rank, const int64_t *dims, int64_t *offset,
                       int64_t *strides) {
  *offset = 0;
  for (int d = 0; d < rank; d++) strides[d] = 0;
  for (int d = 0; d < rank; d++)
    if (dims[d] == 0) return true;
  int64_t reach = deal_strides(b, numel, rank, dims, 0, false, strides);
  if (reach < 0 || reach >= numel) return false;
  *offset = tape_between(b->t, 0, numel - 1 - reach);
  return true;
}
