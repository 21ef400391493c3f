/* fuse: decides which nodes are computed together.
 *
 * Nodes are taken from the last to the first, so that all readers of a node have a group before it
 * has one itself. A node goes into the group of a reader when its place there is one affine map,
 * the same for all readers of the group, and when nothing that must run in between is left between
 * (no cycle among groups). Reductions bring the split of a space into rows and columns.
 * Deterministic, and near linear: the only search is that for cycles.
 */
#include "passes/fuse.h"

#include <string.h>

#include "ir/support/memory.h"
#include "passes/roll.h"

bool kl_node_is_inlined(const kl_fusion *fusion, int32_t id) {
  const kl_node *node = &fusion->graph->nodes.data[id];
  return fusion->group_of[id] < 0 && kl_node_computes(node);
}

bool kl_member_is_full(const kl_fusion *fusion, int32_t id) {
  const kl_node *node = &fusion->graph->nodes.data[id];
  const kl_group *group = &fusion->groups.data[fusion->group_of[id]];
  const kl_map *map = fusion->maps[id];
  if (kl_op_is_reduce(node->op)) return false;
  for (int d = group->n_rows < 0 ? 0 : group->n_rows; d < group->space.n_dims; d++)
    for (int j = 0; j < map->n_out && group->space.extent[d] != 1; j++)
      if (map->step[j][d] != 0) return true;
  return false;
}

/* Operands that are read at a computed place, or whose memory is passed on, need memory. */
static bool operand_needs_memory(const kl_node *node, int operand) {
  if (node->op == KL_OP_MATMUL) return true;
  return operand == 0 && (node->op == KL_OP_GATHER || kl_op_is_write(node->op));
}

bool kl_operand_is_memory(const kl_fusion *fusion, int32_t id, int operand) {
  const kl_node *node = &fusion->graph->nodes.data[id];
  int32_t source = node->operands[operand].node;
  if (source < 0 || kl_node_is_inlined(fusion, source)) return false;
  return operand_needs_memory(node, operand) || fusion->group_of[source] != fusion->group_of[id];
}

kl_address kl_operand_address(const kl_fusion *fusion, int32_t id, int operand) {
  const kl_node *node = &fusion->graph->nodes.data[id];
  const kl_operand *read = &node->operands[operand];
  return kl_map_address(fusion->maps[id], read->offset, read->strides);
}

kl_address kl_store_address(const kl_fusion *fusion, int32_t id) {
  const kl_node *node = &fusion->graph->nodes.data[id];
  if (kl_op_is_write(node->op))
    return kl_map_address(fusion->maps[id], node->out_offset, node->out_strides);
  return kl_map_memory(fusion->maps[id], node->dims, kl_node_kept_dims(node));
}

uint32_t kl_group_position(const kl_group *group, int32_t node) {
  uint32_t low = 0, high = group->members.count - 1;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (group->members.data[middle] > node)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

bool kl_group_reaches(kl_fusion *fusion, int32_t from, int32_t to) {
  if (from == to) return true;
  KL_VEC(int32_t) work = {0};
  uint64_t epoch = ++fusion->epoch;
  bool found = false;
  if (!kl_vec_push(&work, from)) return true; /* without memory for the search: refuse */
  while (work.count > 0 && !found) {
    kl_group *group = &fusion->groups.data[work.data[--work.count]];
    for (uint32_t i = 0; i < group->consumers.count; i++) {
      int32_t next = group->consumers.data[i];
      if (next == to || !kl_vec_reserve(&work, work.count + 1)) {
        found = true;
        break;
      }
      if (fusion->groups.data[next].visited == epoch) continue;
      fusion->groups.data[next].visited = epoch;
      work.data[work.count++] = next;
    }
  }
  kl_vec_finish(&work);
  return found;
}

static void split_group(kl_fusion *fusion, kl_group *group, int d, int64_t inner) {
  kl_space_split(&group->space, d, inner);
  if (group->n_rows > d) group->n_rows++;
  for (uint32_t i = 0; i < group->members.count; i++)
    kl_map_split(fusion->maps[group->members.data[i]], d, inner);
}

/* Coordinates in memory of shape extents[0..n) for an address over the group's space; splits dims
 * of the space as needed, which changes nothing else. */
static bool place(kl_fusion *fusion, kl_group *group, kl_address (*address_of)(const kl_fusion *, int32_t, int),
                  int32_t reader, int operand, const int64_t *extents, int n, kl_map *out_map) {
  for (;;) {
    kl_address address = address_of(fusion, reader, operand);
    int dim = 0;
    int64_t inner = 0;
    kl_fit fit = kl_map_from_address(&group->space, &address, extents, n, out_map, &dim, &inner);
    if (fit != KL_FIT_SPLIT) return fit == KL_FIT_YES;
    if (group->space.n_dims == KL_MAX_RANK) return false;
    split_group(fusion, group, dim, inner);
  }
}

/* The group's columns, walked in order, as coordinates of the reduced dims. */
static bool place_reduced(kl_fusion *fusion, kl_group *group, const int *order, int n_rows,
                          const kl_node *node, kl_map *map, bool *out_retry) {
  int kept = kl_node_kept_dims(node);
  kl_space columns = {0};
  for (int i = n_rows; i < group->space.n_dims; i++)
    columns.extent[columns.n_dims++] = group->space.extent[order[i]];
  kl_address linear = {0};
  int64_t stride = 1;
  for (int i = columns.n_dims - 1; i >= 0; i--) {
    linear.stride[i] = stride;
    stride *= columns.extent[i];
  }
  kl_map inner_map;
  int dim = 0;
  int64_t inner = 0;
  kl_fit fit = kl_map_from_address(&columns, &linear, node->dims + kept, node->n_reduced, &inner_map,
                                   &dim, &inner);
  *out_retry = false;
  if (fit == KL_FIT_SPLIT && group->space.n_dims < KL_MAX_RANK) {
    split_group(fusion, group, order[n_rows + dim], inner);
    *out_retry = true;
    return false;
  }
  if (fit != KL_FIT_YES) return false;
  for (int j = 0; j < node->n_reduced; j++) {
    map->origin[kept + j] = 0;
    memset(map->step[kept + j], 0, sizeof map->step[0]);
    for (int i = 0; i < columns.n_dims; i++)
      map->step[kept + j][order[n_rows + i]] = inner_map.step[j][i];
  }
  map->n_out = node->n_dims;
  return true;
}

static void permute_group(kl_fusion *fusion, kl_group *group, const int *order, kl_map *also) {
  kl_space_permute(&group->space, order);
  for (uint32_t i = 0; i < group->members.count; i++)
    kl_map_permute(fusion->maps[group->members.data[i]], order);
  kl_map_permute(also, order);
}

static bool append_columns(kl_fusion *fusion, kl_group *group, const kl_node *node, kl_map *map) {
  int kept = kl_node_kept_dims(node), at = group->space.n_dims;
  if (at + node->n_reduced > KL_MAX_RANK) return false;
  for (int j = 0; j < node->n_reduced; j++) {
    group->space.extent[at + j] = node->dims[kept + j];
    memset(map->step[kept + j], 0, sizeof map->step[0]);
    map->step[kept + j][at + j] = 1;
    map->origin[kept + j] = 0;
  }
  group->n_rows = at;
  group->space.n_dims = at + node->n_reduced;
  for (uint32_t i = 0; i < group->members.count; i++)
    fusion->maps[group->members.data[i]]->n_dims = (uint8_t)group->space.n_dims;
  map->n_out = node->n_dims;
  map->n_dims = (uint8_t)group->space.n_dims;
  return true;
}

/* Rows are the dims that the reduction's result moves with, columns the others. */
static int split_rows(const kl_group *group, const kl_map *map, int *order) {
  int n_rows = 0, n = group->space.n_dims;
  bool is_row[KL_MAX_RANK] = {false};
  for (int d = 0; d < n; d++) {
    if (group->n_rows >= 0) is_row[d] = d < group->n_rows;
    for (int j = 0; j < map->n_out && group->n_rows < 0; j++)
      if (map->step[j][d] != 0) is_row[d] = true;
  }
  for (int d = 0; d < n; d++)
    if (is_row[d]) order[n_rows++] = d;
  for (int d = 0, at = n_rows; d < n; d++)
    if (!is_row[d]) order[at++] = d;
  return n_rows;
}

static bool place_reduction(kl_fusion *fusion, kl_group *group, const kl_use *use, kl_map *map) {
  const kl_graph *graph = fusion->graph;
  const kl_node *node = &graph->nodes.data[graph->nodes.data[use->node].operands[use->operand].node];
  int kept = kl_node_kept_dims(node);
  int64_t kept_numel = kl_extent_product(node->dims, kept);
  int64_t reduced_numel = kl_extent_product(node->dims + kept, node->n_reduced);
  if (kept_numel == 0 || reduced_numel == 0) return false;
  for (;;) {
    if (!place(fusion, group, kl_operand_address, use->node, use->operand, node->dims, kept, map))
      return false;
    int order[KL_MAX_RANK];
    int n_rows = split_rows(group, map, order);
    int64_t columns = 1;
    for (int i = n_rows; i < group->space.n_dims; i++) columns *= group->space.extent[order[i]];
    kl_space space = group->space;
    kl_map permuted = *map;
    kl_space_permute(&space, order);
    kl_map_permute(&permuted, order);
    kl_address address = kl_map_memory(&permuted, node->dims, kept);
    if (!kl_address_is_bijective(&space, &address, 0, n_rows, kept_numel)) return false;
    if (columns == 1 && group->n_rows < 0) {
      permute_group(fusion, group, order, map);
      return append_columns(fusion, group, node, map);
    }
    if (columns != reduced_numel) return false;
    bool retry;
    if (place_reduced(fusion, group, order, n_rows, node, map, &retry)) {
      permute_group(fusion, group, order, map);
      group->n_rows = n_rows;
      return true;
    }
    if (!retry) return false;
  }
}

static bool can_join(const kl_node *node) {
  return kl_op_is_elem(node->op) || kl_op_is_reduce(node->op) || node->op == KL_OP_GATHER;
}

/* Each place of the node's memory is written once: by all rows and columns, or by all rows. */
static bool can_store(const kl_group *group, const kl_node *node, const kl_map *map) {
  if (node->numel == 0) return false;
  kl_address address = kl_map_memory(map, node->dims, kl_node_kept_dims(node));
  int n = group->space.n_dims;
  if (kl_address_is_bijective(&group->space, &address, 0, n, node->numel)) {
    /* With columns about, a value that does not move with them is a row value. */
    int64_t columns = group->n_rows < 0 ? node->numel
                                        : kl_extent_product(group->space.extent + group->n_rows,
                                                            n - group->n_rows);
    if (group->n_rows < 0 || columns != 1) return true;
  }
  return group->n_rows >= 0 &&
         kl_address_is_bijective(&group->space, &address, 0, group->n_rows, node->numel);
}

static bool is_stored_elsewhere(const kl_fusion *fusion, int32_t id, int32_t group) {
  const kl_node *node = &fusion->graph->nodes.data[id];
  if (node->flags & KL_NODE_KEEP) return true;
  for (uint32_t i = fusion->first_use[id]; i < fusion->first_use[id + 1]; i++) {
    const kl_use *use = &fusion->uses[i];
    if (fusion->group_of[use->node] != group) return true;
  }
  return false;
}

/* Joining makes the group run before all other readers of the node. */
static bool makes_cycle(kl_fusion *fusion, int32_t id, int32_t group) {
  for (uint32_t i = fusion->first_use[id]; i < fusion->first_use[id + 1]; i++) {
    int32_t other = fusion->group_of[fusion->uses[i].node];
    if (other != group && other >= 0 && kl_group_reaches(fusion, other, group)) return true;
  }
  return false;
}

/* The one map under which all readers in the group see the node. */
static bool place_for_readers(kl_fusion *fusion, int32_t id, int32_t group_id, kl_map *out_map) {
  kl_group *group = &fusion->groups.data[group_id];
  const kl_node *node = &fusion->graph->nodes.data[id];
  const kl_use *first = NULL;
  for (uint32_t i = fusion->first_use[id]; i < fusion->first_use[id + 1]; i++) {
    const kl_use *use = &fusion->uses[i];
    if (fusion->group_of[use->node] != group_id) continue;
    if (operand_needs_memory(&fusion->graph->nodes.data[use->node], use->operand)) return false;
    if (!first) first = use;
  }
  if (!first) return false;
  if (kl_op_is_reduce(node->op)) {
    if (!place_reduction(fusion, group, first, out_map)) return false;
  } else if (!place(fusion, group, kl_operand_address, first->node, first->operand, node->dims,
                    node->n_dims, out_map)) {
    return false;
  }
  int kept = kl_node_kept_dims(node);
  kl_address address = kl_map_memory(out_map, node->dims, kept);
  for (uint32_t i = fusion->first_use[id]; i < fusion->first_use[id + 1]; i++) {
    const kl_use *use = &fusion->uses[i];
    if (fusion->group_of[use->node] != group_id) continue;
    kl_address other = kl_operand_address(fusion, use->node, use->operand);
    if (other.offset != address.offset) return false;
    for (int d = 0; d < group->space.n_dims; d++)
      if (group->space.extent[d] > 1 && other.stride[d] != address.stride[d]) return false;
  }
  return true;
}

static kl_status add_member(kl_fusion *fusion, int32_t id, int32_t group_id, const kl_map *map) {
  kl_group *group = &fusion->groups.data[group_id];
  kl_map *kept = kl_arena_alloc(&fusion->arena, sizeof *kept);
  if (!kept || !kl_vec_push(&group->members, id)) return kl_fail_memory("fuse", sizeof *kept);
  *kept = *map;
  fusion->maps[id] = kept;
  fusion->group_of[id] = group_id;
  const kl_node *node = &fusion->graph->nodes.data[id];
  group->n_reductions += kl_op_is_reduce(node->op);
  group->n_counted += !fusion->repeats[id];
  fusion->stored[id] = is_stored_elsewhere(fusion, id, group_id) || kl_op_is_write(node->op);
  for (uint32_t i = fusion->first_use[id]; i < fusion->first_use[id + 1]; i++) {
    int32_t reader = fusion->group_of[fusion->uses[i].node];
    if (reader == group_id || reader < 0) continue;
    bool known = group->consumers.count > 0 && group->consumers.data[group->consumers.count - 1] == reader;
    if (!known && !kl_vec_push(&group->consumers, reader)) return kl_fail_memory("fuse", 4);
  }
  return KL_OK;
}

static bool is_full_up(const kl_fusion *fusion, const kl_group *group, const kl_node *joining) {
  if (group->n_counted >= KL_FUSE_LIMIT) return true;
  if (fusion->graph->nodes.data[group->seed].op == KL_OP_MATMUL) return true;
  if (!kl_op_is_reduce(joining->op)) return false;
  /* The columns of a scatter go one by one. */
  return kl_op_is_write(fusion->graph->nodes.data[group->seed].op)
             ? fusion->graph->nodes.data[group->seed].n_operands == 3
             : group->n_reductions >= KL_FUSE_REDUCTIONS;
}

static bool try_join(kl_fusion *fusion, int32_t id, int32_t group_id, kl_map *out_map) {
  const kl_node *node = &fusion->graph->nodes.data[id];
  kl_group *group = &fusion->groups.data[group_id];
  if (is_full_up(fusion, group, node)) return false;
  if (!place_for_readers(fusion, id, group_id, out_map)) return false;
  if (!is_stored_elsewhere(fusion, id, group_id)) return true;
  return can_store(group, node, out_map) && !makes_cycle(fusion, id, group_id);
}

/* A sibling: the same iteration space, and an operand in common, but no reader. */
static bool is_sibling(const kl_node *a, const kl_node *b) {
  if (kl_op_is_reduce(a->op) != kl_op_is_reduce(b->op)) return false;
  if (!can_join(a) || a->n_dims != b->n_dims || a->n_reduced != b->n_reduced || !can_join(b)) return false;
  if (memcmp(a->dims, b->dims, sizeof(int64_t) * a->n_dims) != 0 || a->numel == 0) return false;
  for (int i = 0; i < a->n_operands; i++)
    for (int k = 0; k < b->n_operands; k++)
      if (a->operands[i].node >= 0 && a->operands[i].node == b->operands[k].node) return true;
  return false;
}

static bool try_sibling(kl_fusion *fusion, int32_t id, int32_t group_id, kl_map *out_map) {
  const kl_graph *graph = fusion->graph;
  const kl_node *node = &graph->nodes.data[id];
  kl_group *group = &fusion->groups.data[group_id];
  if (!can_join(node) || is_full_up(fusion, group, node)) return false;
  if (!is_sibling(&graph->nodes.data[group->seed], node)) return false;
  for (uint32_t i = fusion->first_use[id]; i < fusion->first_use[id + 1]; i++)
    if (fusion->group_of[fusion->uses[i].node] == group_id) return false; /* it reads the node */
  *out_map = *fusion->maps[group->seed];
  return can_store(group, node, out_map) && !makes_cycle(fusion, id, group_id);
}

static kl_status start_group(kl_fusion *fusion, int32_t id) {
  const kl_node *node = &fusion->graph->nodes.data[id];
  kl_group group = {.n_rows = -1, .seed = id};
  group.space.n_dims = node->n_dims;
  memcpy(group.space.extent, node->dims, sizeof(int64_t) * node->n_dims);
  if (kl_op_is_reduce(node->op) || node->n_reduced > 0) group.n_rows = kl_node_kept_dims(node);
  if (!kl_vec_push(&fusion->groups, group)) return kl_fail_memory("fuse", sizeof group);
  kl_map map;
  kl_map_identity(&group.space, &map);
  return add_member(fusion, id, (int32_t)fusion->groups.count - 1, &map);
}

/* INDEX and filled nodes cost less to compute than to read. */
static bool can_inline(const kl_fusion *fusion, int32_t id) {
  const kl_node *node = &fusion->graph->nodes.data[id];
  bool cheap = node->op == KL_OP_INDEX || (node->op == KL_OP_COPY && node->operands[0].node < 0);
  if (!cheap || (node->flags & KL_NODE_KEEP)) return false;
  for (uint32_t i = fusion->first_use[id]; i < fusion->first_use[id + 1]; i++) {
    const kl_use *use = &fusion->uses[i];
    if (operand_needs_memory(&fusion->graph->nodes.data[use->node], use->operand)) return false;
  }
  if (node->op == KL_OP_COPY) return true;
  for (uint32_t i = fusion->first_use[id]; i < fusion->first_use[id + 1]; i++) {
    /* The coordinate must follow from the reader's own without a carry. */
    const kl_use *use = &fusion->uses[i];
    const kl_node *reader = &fusion->graph->nodes.data[use->node];
    kl_space space = {.n_dims = reader->n_dims};
    memcpy(space.extent, reader->dims, sizeof(int64_t) * reader->n_dims);
    kl_address address = {.offset = reader->operands[use->operand].offset};
    memcpy(address.stride, reader->operands[use->operand].strides, sizeof(int64_t) * reader->n_dims);
    kl_map map;
    int dim;
    int64_t inner;
    if (kl_map_from_address(&space, &address, node->dims, node->n_dims, &map, &dim, &inner) !=
        KL_FIT_YES)
      return false;
  }
  return true;
}

enum { SIBLINGS_TRIED = 8 };

static kl_status assign(kl_fusion *fusion, int32_t id) {
  const kl_node *node = &fusion->graph->nodes.data[id];
  if (!kl_node_computes(node) || can_inline(fusion, id)) return KL_OK;
  kl_map map;
  if (can_join(node)) {
    int32_t tried = -1;
    for (uint32_t i = fusion->first_use[id]; i < fusion->first_use[id + 1]; i++) {
      int32_t group = fusion->group_of[fusion->uses[i].node];
      if (group < 0 || group == tried) continue;
      if (try_join(fusion, id, group, &map)) return add_member(fusion, id, group, &map);
      tried = group;
    }
  }
  for (int32_t back = 1; back <= SIBLINGS_TRIED && back <= (int32_t)fusion->groups.count; back++) {
    int32_t group = (int32_t)fusion->groups.count - back;
    if (try_sibling(fusion, id, group, &map)) return add_member(fusion, id, group, &map);
  }
  return start_group(fusion, id);
}

static kl_status list_uses(kl_fusion *fusion) {
  const kl_graph *graph = fusion->graph;
  uint32_t n = graph->nodes.count, total = 0, count = 0;
  for (uint32_t i = 0; i < n; i++) total += graph->nodes.data[i].n_operands;
  fusion->first_use = kl_calloc(n + 2, sizeof *fusion->first_use);
  fusion->uses = kl_malloc(sizeof *fusion->uses * (total + 1));
  if (!fusion->first_use || !fusion->uses) return kl_fail_memory("fuse", sizeof(kl_use) * total);
  for (uint32_t i = 0; i < n; i++) { /* count, to the right by one ... */
    const kl_node *node = &graph->nodes.data[i];
    for (int k = 0; k < node->n_operands && !(node->flags & KL_NODE_DEAD); k++)
      if (node->operands[k].node >= 0) fusion->first_use[node->operands[k].node + 1]++;
  }
  for (uint32_t i = 0; i < n; i++) fusion->first_use[i + 1] += fusion->first_use[i];
  count = fusion->first_use[n];
  for (uint32_t i = n; i-- > 0;) { /* ... so that filling from the back leaves the starts */
    const kl_node *node = &graph->nodes.data[i];
    for (int k = node->n_operands; k-- > 0 && !(node->flags & KL_NODE_DEAD);)
      if (node->operands[k].node >= 0)
        fusion->uses[--fusion->first_use[node->operands[k].node + 1]] = (kl_use){(int32_t)i, k};
  }
  /* Now first_use[s + 1] is the start of s: shift back. */
  for (uint32_t i = 0; i < n; i++) fusion->first_use[i] = fusion->first_use[i + 1];
  fusion->first_use[n] = count;
  return KL_OK;
}

/* Loops that must be over before a member's own: one more past each reduction. */
static void number_stages(kl_fusion *fusion) {
  for (uint32_t i = 0; i < fusion->graph->nodes.count; i++) {
    const kl_node *node = &fusion->graph->nodes.data[i];
    if (fusion->group_of[i] < 0) continue;
    for (int k = 0; k < node->n_operands; k++) {
      int32_t source = node->operands[k].node;
      if (source < 0 || fusion->group_of[source] != fusion->group_of[i] ||
          kl_operand_is_memory(fusion, (int32_t)i, k))
        continue;
      uint8_t after = fusion->stage[source] + kl_op_is_reduce(fusion->graph->nodes.data[source].op);
      if (after > fusion->stage[i]) fusion->stage[i] = after;
    }
  }
}

kl_status kl_fuse(kl_graph *graph, kl_fusion *fusion) {
  uint32_t n = graph->nodes.count;
  *fusion = (kl_fusion){.graph = graph};
  fusion->group_of = kl_malloc(sizeof(int32_t) * (n + 1));
  fusion->maps = kl_calloc(n + 1, sizeof *fusion->maps);
  fusion->stored = kl_calloc(n + 1, sizeof *fusion->stored);
  fusion->stage = kl_calloc(n + 1, sizeof *fusion->stage);
  fusion->repeats = kl_calloc(n + 1, sizeof *fusion->repeats);
  if (!fusion->repeats || !fusion->group_of || !fusion->maps || !fusion->stored || !fusion->stage)
    return kl_fail_memory("fuse", sizeof(void *) * n);
  for (uint32_t i = 0; i < n; i++) fusion->group_of[i] = -1;
  kl_find_repeats(graph, fusion->repeats);
  KL_TRY(list_uses(fusion));
  for (uint32_t i = n; i-- > 0;) KL_TRY(assign(fusion, (int32_t)i));
  number_stages(fusion);
  return KL_OK;
}

void kl_fusion_finish(kl_fusion *fusion) {
  for (uint32_t i = 0; i < fusion->groups.count; i++) {
    kl_vec_finish(&fusion->groups.data[i].members);
    kl_vec_finish(&fusion->groups.data[i].consumers);
  }
  kl_vec_finish(&fusion->groups);
  kl_free(fusion->group_of);
  kl_free(fusion->maps);
  kl_free(fusion->stored);
  kl_free(fusion->stage);
  kl_free(fusion->repeats);
  kl_free(fusion->first_use);
  kl_free(fusion->uses);
  kl_arena_finish(&fusion->arena);
}
