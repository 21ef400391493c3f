/* Extraction: ancestors of what is asked for, in recording order, and the bytes of their key.
 *
 * The key has the structure: ops, dtypes, sizes, strides, which leaves are one, what is kept.
 * Scalars are arguments, each use with its own slot; so are the offsets of leaves that are only
 * read, one slot for each (leaf, offset).
 */
#include "frontend/extract.h"

#include <stdlib.h>
#include <string.h>

#include "ir/support/memory.h"

static uint64_t epoch; /* of the newest extraction; guarded by the recording lock */

static kl_status no_memory(void) { return kl_fail_memory("evaluation", sizeof(kl_run_value)); }

static bool is_marked(const kl_value *value) { return value->mark_epoch == epoch; }

static kl_status add_leaf(kl_extraction *x, kl_value *value) {
  uint32_t flags = atomic_load_explicit(&value->buffer->flags, memory_order_relaxed);
  kl_run_leaf leaf = {.value = value, .buffer = value->buffer,
                      .may_alias = (flags & KL_BUFFER_EXTERNAL) != 0};
  value->mark = x->leaves.count;
  value->mark_epoch = epoch;
  return kl_vec_push(&x->leaves, leaf) ? KL_OK : no_memory();
}

static kl_status visit(kl_extraction *x, kl_value *value) {
  if (is_marked(value)) return KL_OK;
  if (value->state == KL_VALUE_REAL) return add_leaf(x, value);
  value->mark_epoch = epoch;
  kl_run_value entry = {.value = value, .home = -1};
  return kl_vec_push(&x->values, entry) && kl_vec_push(&x->work, value) ? KL_OK : no_memory();
}

static int by_seq(const void *a, const void *b) {
  uint64_t x = ((const kl_run_value *)a)->value->seq, y = ((const kl_run_value *)b)->value->seq;
  return x < y ? -1 : x > y;
}

static void sort_values(kl_extraction *x) {
  uint32_t n = x->values.count;
  kl_run_value *values = x->values.data;
  if (n <= 16) {
    for (uint32_t i = 1; i < n; i++) {
      kl_run_value entry = values[i];
      uint32_t at = i;
      for (; at > 0 && values[at - 1].value->seq > entry.value->seq; at--) values[at] = values[at - 1];
      values[at] = entry;
    }
  } else {
    qsort(values, n, sizeof *values, by_seq);
  }
  for (uint32_t i = 0; i < n; i++) values[i].value->mark = i;
}

static kl_status collect(kl_value *const *values, int n_values, kl_extraction *x) {
  for (int i = 0; i < n_values; i++)
    if (values[i]->state != KL_VALUE_REAL) KL_TRY(visit(x, values[i]));
  while (x->work.count > 0) {
    kl_value *value = x->work.data[--x->work.count];
    for (int k = 0; k < value->n_operands; k++)
      if (value->operands[k].value) KL_TRY(visit(x, value->operands[k].value));
  }
  sort_values(x);
  return KL_OK;
}

static void count_references(kl_extraction *x) {
  for (uint32_t i = 0; i < x->values.count; i++) {
    const kl_value *value = x->values.data[i].value;
    for (int k = 0; k < value->n_operands; k++) {
      const kl_value *operand = value->operands[k].value;
      if (!operand) continue;
      if (operand->state == KL_VALUE_REAL)
        x->leaves.data[operand->mark].n_refs++;
      else
        x->values.data[operand->mark].n_refs++;
    }
  }
}

/* Of those who read the value: whoever keeps it only to undo a write does not. */
static uint32_t refs_of(const kl_value *value) {
  return (uint32_t)atomic_load_explicit(&value->refs, memory_order_relaxed) - value->undoable;
}

/* The old bytes of a pinned storage that something outside the run still reads: they move, since
 * the address belongs to the new value. */
static kl_status move_old_bytes(kl_run_leaf *leaf) {
  kl_buffer *copy;
  KL_TRY(kl_buffer_create(leaf->buffer->nbytes, &copy));
  memcpy(copy->ptr, leaf->buffer->ptr, leaf->buffer->nbytes);
  kl_buffer_release(leaf->value->buffer);
  leaf->value->buffer = leaf->buffer = copy;
  leaf->may_alias = false;
  return KL_OK;
}

static kl_status find_home(kl_extraction *x, kl_run_value *entry) {
  kl_buffer *pinned = entry->value->storage ? entry->value->storage->pinned : NULL;
  if (!pinned) return KL_OK;
  for (uint32_t i = 0; i < x->leaves.count; i++) {
    kl_run_leaf *leaf = &x->leaves.data[i];
    if (leaf->buffer != pinned || !leaf->value) continue;
    if (leaf->value->storage || refs_of(leaf->value) > leaf->n_refs) {
      KL_TRY(move_old_bytes(leaf));
      continue;
    }
    entry->home = (int32_t)i;
    leaf->is_home = true;
    return KL_OK;
  }
  uint32_t flags = atomic_load_explicit(&pinned->flags, memory_order_relaxed);
  kl_run_leaf home = {.written = entry->value, .buffer = pinned, .is_home = true, .may_alias = (flags & KL_BUFFER_EXTERNAL) != 0};
  entry->home = (int32_t)x->leaves.count;
  return kl_vec_push(&x->leaves, home) ? KL_OK : no_memory();
}

static kl_status decide(kl_value *const *wanted, int n_wanted, kl_extraction *x) {
  for (int i = 0; i < n_wanted; i++)
    if (wanted[i]->state != KL_VALUE_REAL) x->values.data[wanted[i]->mark].keep = true;
  for (uint32_t i = 0; i < x->values.count; i++) {
    kl_run_value *entry = &x->values.data[i];
    if (refs_of(entry->value) > entry->n_refs) entry->keep = true;
    if (entry->keep) KL_TRY(find_home(x, entry));
  }
  for (uint32_t i = 0; i < x->leaves.count; i++) {
    kl_run_leaf *leaf = &x->leaves.data[i];
    leaf->reusable = leaf->value && !leaf->may_alias && refs_of(leaf->value) == leaf->n_refs &&
                     kl_buffer_is_unique(leaf->buffer);
  }
  return KL_OK;
}

/* --- the key ---------------------------------------------------------------------------------- */

static char *key_room(kl_extraction *x, size_t nbytes) {
  if (!kl_vec_reserve(&x->key, x->key.count + (uint32_t)nbytes)) return NULL;
  return x->key.data + x->key.count;
}

/* The slot of a leaf's offset: the same for equal offsets, as far as a short look back shows. */
static kl_status offset_slot(kl_extraction *x, uint32_t leaf, int64_t offset, uint32_t *out_slot) {
  enum { LOOK_BACK = 16 };
  uint32_t n = x->offsets.count;
  for (uint32_t back = 1; back <= n && back <= LOOK_BACK; back++)
    if (x->offset_leaf.data[n - back] == leaf && x->offsets.data[n - back] == offset) {
      *out_slot = n - back;
      return KL_OK;
    }
  *out_slot = n;
  return kl_vec_push(&x->offsets, offset) && kl_vec_push(&x->offset_leaf, leaf) ? KL_OK : no_memory();
}

static bool offset_is_argument(const kl_run_leaf *leaf) { return !leaf->reusable && !leaf->is_home; }

/* 1 + node for an operand, 0 for a scalar, and what goes with it. */
static kl_status key_operand(kl_extraction *x, const kl_value *value, int k, int64_t **words) {
  const kl_value_operand *operand = &value->operands[k];
  int64_t *w = *words;
  if (!operand->value) {
    *w++ = 0;
    *words = w;
    return kl_vec_push(&x->scalars, operand->scalar) ? KL_OK : no_memory();
  }
  bool real = operand->value->state == KL_VALUE_REAL;
  uint32_t mark = operand->value->mark;
  *w++ = 1 + (int64_t)mark + (real ? 0 : (int64_t)x->leaves.count);
  if (operand->strides) {
    if (real && offset_is_argument(&x->leaves.data[mark])) {
      uint32_t slot;
      KL_TRY(offset_slot(x, mark, operand->offset, &slot));
      if (!kl_vec_push(&x->operand_slots, slot)) return no_memory();
      *w++ = slot;
    } else {
      *w++ = operand->offset;
    }
    memcpy(w, operand->strides, sizeof(int64_t) * value->n_dims);
    w += value->n_dims;
  }
  *words = w;
  return KL_OK;
}

static kl_status key_value(kl_extraction *x, const kl_run_value *entry) {
  const kl_value *value = entry->value;
  size_t most = sizeof(int64_t) * (8 + 3 * 2 + 5 * (size_t)value->n_dims);
  char *room = key_room(x, most);
  if (!room) return no_memory();
  int64_t *w = (int64_t *)(void *)room;
  *w++ = value->op | (int64_t)value->dtype << 16 | (int64_t)value->n_dims << 24 |
         (int64_t)value->n_reduced << 32 | (int64_t)entry->keep << 40;
  *w++ = (int64_t)(uint32_t)entry->home | (int64_t)value->attr << 32;
  *w++ = value->numel;
  memcpy(w, value->dims, sizeof(int64_t) * value->n_dims);
  w += value->n_dims;
  for (int k = 0; k < value->n_operands; k++) KL_TRY(key_operand(x, value, k, &w));
  if (kl_op_is_write(value->op)) {
    *w++ = value->out_offset;
    memcpy(w, value->out_strides, sizeof(int64_t) * value->n_dims);
    w += value->n_dims;
  }
  if (value->op == KL_OP_GATHER || value->op == KL_OP_SCATTER || value->op == KL_OP_SCATTER_ADD) {
    *w++ = value->index_stride;
    *w++ = value->index_extent;
  }
  x->key.count += (uint32_t)((char *)w - room);
  return KL_OK;
}

static kl_status make_key(kl_extraction *x) {
  char *room = key_room(x, sizeof(int64_t) * (2 + 2 * (size_t)x->leaves.count));
  if (!room) return no_memory();
  int64_t *w = (int64_t *)(void *)room;
  *w++ = x->leaves.count | (int64_t)x->values.count << 32;
  for (uint32_t i = 0; i < x->leaves.count; i++) {
    const kl_run_leaf *leaf = &x->leaves.data[i];
    *w++ = (leaf->value ? leaf->value->dtype : 0x80 | leaf->written->dtype) | leaf->reusable << 8 | leaf->may_alias << 9 |
           leaf->is_home << 10;
    *w++ = leaf->value ? leaf->value->numel : leaf->written->numel;
  }
  x->key.count += (uint32_t)((char *)w - room);
  for (uint32_t i = 0; i < x->values.count; i++) KL_TRY(key_value(x, &x->values.data[i]));
  return KL_OK;
}

kl_status kl_extract(kl_value *const *values, int n_values, kl_extraction *x) {
  epoch++;
  x->values.count = x->leaves.count = x->scalars.count = x->offsets.count = 0;
  x->offset_leaf.count = x->operand_slots.count = x->key.count = x->work.count = 0;
  KL_TRY(collect(values, n_values, x));
  if (x->values.count == 0) return KL_OK;
  count_references(x);
  KL_TRY(decide(values, n_values, x));
  return make_key(x);
}

/* --- the graph -------------------------------------------------------------------------------- */

static kl_dtype scalar_dtype(const kl_value *value, int operand) {
  if (value->op == KL_OP_RANDOM || value->op == KL_OP_RANDOM_HIGH) return KL_I64;
  if (value->op == KL_OP_SELECT) return operand == 0 ? KL_BOOL : (kl_dtype)value->dtype;
  if (kl_op_table[value->op].result != KL_RESULT_SAME)
    for (int k = 0; k < value->n_operands; k++)
      if (value->operands[k].value) return (kl_dtype)value->operands[k].value->dtype;
  return (kl_dtype)value->dtype;
}

typedef struct graph_state {
  const kl_extraction *x;
  kl_graph *graph;
  uint32_t next_scalar, next_operand_slot;
} graph_state;

static void fill_operand(graph_state *g, const kl_value *value, int k, kl_operand *operand) {
  const kl_value_operand *from = &value->operands[k];
  if (!from->value) {
    *operand = (kl_operand){.node = -1, .scalar = g->next_scalar++, .offset_slot = KL_NO_SLOT,
                            .dtype = (uint8_t)scalar_dtype(value, k)};
    return;
  }
  bool real = from->value->state == KL_VALUE_REAL;
  uint32_t mark = from->value->mark;
  operand->node = (int32_t)(real ? mark : mark + g->x->leaves.count);
  if (!from->strides) {
    operand->strides = NULL;
    return;
  }
  memcpy(operand->strides, from->strides, sizeof(int64_t) * value->n_dims);
  operand->offset = from->offset;
  if (!real || !offset_is_argument(&g->x->leaves.data[mark])) return;
  operand->offset = 0;
  operand->offset_slot = g->x->operand_slots.data[g->next_operand_slot++];
}

static kl_status add_leaf_node(kl_graph *graph, const kl_run_leaf *leaf) {
  const kl_value *value = leaf->value ? leaf->value : leaf->written;
  kl_dtype dtype = (kl_dtype)value->dtype;
  int64_t numel = value->numel;
  kl_leaf info = {(uint8_t)dtype, leaf->reusable, leaf->may_alias, numel};
  int32_t id;
  if (!kl_vec_push(&graph->leaves, info)) return no_memory();
  KL_TRY(kl_graph_add(graph, KL_OP_LEAF, dtype, 0, 0, &id));
  graph->nodes.data[id].attr = graph->leaves.count - 1;
  graph->nodes.data[id].numel = numel;
  return KL_OK;
}

static kl_status add_value_node(graph_state *g, const kl_run_value *entry) {
  const kl_value *value = entry->value;
  int32_t id;
  KL_TRY(kl_graph_add(g->graph, (kl_op)value->op, (kl_dtype)value->dtype, value->n_dims,
                      value->n_reduced, &id));
  kl_node *node = &g->graph->nodes.data[id];
  node->attr = value->attr;
  node->numel = value->numel;
  node->home = entry->home;
  node->flags = entry->keep ? KL_NODE_KEEP : 0;
  node->out_offset = value->out_offset;
  node->index_stride = value->index_stride;
  node->index_extent = value->index_extent;
  memcpy(node->dims, value->dims, sizeof(int64_t) * value->n_dims);
  if (node->out_strides)
    memcpy(node->out_strides, value->out_strides, sizeof(int64_t) * value->n_dims);
  for (int k = 0; k < value->n_operands; k++) fill_operand(g, value, k, &node->operands[k]);
  return KL_OK;
}

kl_status kl_extract_graph(const kl_extraction *x, kl_graph *out_graph) {
  kl_graph graph = {.n_scalars = x->scalars.count, .n_offsets = x->offsets.count};
  graph_state g = {.x = x, .graph = &graph};
  kl_status status = KL_OK;
  for (uint32_t i = 0; i < x->leaves.count && status == KL_OK; i++)
    status = add_leaf_node(&graph, &x->leaves.data[i]);
  for (uint32_t i = 0; i < x->values.count && status == KL_OK; i++)
    status = add_value_node(&g, &x->values.data[i]);
  if (status != KL_OK) {
    kl_graph_finish(&graph);
    return status;
  }
  *out_graph = graph;
  return KL_OK;
}

void kl_extraction_finish(kl_extraction *x) {
  kl_vec_finish(&x->values);
  kl_vec_finish(&x->leaves);
  kl_vec_finish(&x->scalars);
  kl_vec_finish(&x->offsets);
  kl_vec_finish(&x->offset_leaf);
  kl_vec_finish(&x->operand_slots);
  kl_vec_finish(&x->key);
  kl_vec_finish(&x->work);
}
