/* plan: slots, in-place work and the order of launches.
 *
 * Writing over bytes is allowed when all other groups that read them can be made to run before
 * (an edge that closes no cycle), and the writing group itself reads them only at the element that
 * it is about to write. Where it is not allowed the old bytes are copied first.
 */
#include "passes/plan.h"

#include <string.h>

#include "ir/support/memory.h"

enum { NO_HOME = -2 }; /* no leaf at all; -1 is the home of a node without one */

typedef struct planner {
  kl_fusion *fusion;
  kl_graph *graph;
  kl_program *program;
  kl_plan *plan;
  uint32_t *leaf_slot;  /* for each leaf */
  int32_t *leaf_node;   /* its first node, -1: read by nobody */
  int32_t *home_of;     /* for each leaf the node that must end there, or -1 */
  bool *overwritten;    /* for each node: its bytes have been given to a writer */
  uint32_t *copy_from;  /* for each node: slot to copy into its own before its group runs */
  KL_VEC(kl_step) last; /* copies to homes, after everything */
} planner;

static kl_status new_slot(planner *p, kl_slot_kind kind, uint32_t leaf, int64_t nbytes,
                          uint32_t *out_slot) {
  kl_slot slot = {.kind = (uint8_t)kind, .leaf = leaf, .nbytes = nbytes};
  if (!kl_vec_push(&p->program->slots, slot)) return kl_fail_memory("plan", sizeof slot);
  *out_slot = p->program->slots.count - 1;
  return KL_OK;
}

static int64_t node_nbytes(const kl_node *node) {
  return node->numel * (int64_t)kl_dtype_size((kl_dtype)node->dtype);
}

static kl_status slot_for_leaf(planner *p, uint32_t leaf, uint32_t *out_slot) {
  if (p->leaf_slot[leaf] == KL_NO_SLOT) {
    const kl_leaf *info = &p->graph->leaves.data[leaf];
    int64_t nbytes = info->numel * (int64_t)kl_dtype_size((kl_dtype)info->dtype);
    KL_TRY(new_slot(p, KL_SLOT_LEAF, leaf, nbytes, &p->leaf_slot[leaf]));
  }
  *out_slot = p->leaf_slot[leaf];
  return KL_OK;
}

/* Whether `group` reads node `source` only where member `writer` then writes, in the group's last
 * loop at the latest. */
static bool reads_where_written(const planner *p, int32_t group_id, int32_t source, int32_t writer) {
  const kl_fusion *fusion = p->fusion;
  const kl_group *group = &fusion->groups.data[group_id];
  kl_address store = kl_store_address(fusion, writer);
  for (uint32_t i = 0; i < group->members.count; i++) {
    int32_t member = group->members.data[i];
    const kl_node *node = &p->graph->nodes.data[member];
    if (fusion->stage[member] > fusion->stage[writer]) return false; /* might read again, later */
    bool reads_after = !kl_member_is_full(fusion, writer) && kl_member_is_full(fusion, member);
    for (int k = 0; k < node->n_operands; k++) {
      if (node->operands[k].node != source || !kl_operand_is_memory(fusion, member, k)) continue;
      if (kl_op_is_write(node->op) && k == 0) {
        if (member == writer) continue;
        return false; /* another writer starts from the old bytes */
      }
      if (reads_after || node->op == KL_OP_MATMUL || (node->op == KL_OP_GATHER && k == 0))
        return false;
      if (p->graph->nodes.data[writer].n_operands == 3 &&
          kl_op_is_write(p->graph->nodes.data[writer].op))
        return false; /* scatters write in another order than they read */
      kl_address read = kl_operand_address(fusion, member, k);
      if (read.offset != store.offset || node->operands[k].offset_slot != KL_NO_SLOT) return false;
      for (int d = 0; d < group->space.n_dims; d++)
        if (group->space.extent[d] > 1 && read.stride[d] != store.stride[d]) return false;
    }
  }
  return true;
}

/* Whether all readers of `source` can be over before `group` overwrites it; then makes it so. */
static bool order_readers_before(planner *p, int32_t source, int32_t group) {
  kl_fusion *fusion = p->fusion;
  for (int add = 0; add < 2; add++) {
    for (uint32_t i = fusion->first_use[source]; i < fusion->first_use[source + 1]; i++) {
      int32_t reader = fusion->group_of[fusion->uses[i].node];
      if (reader == group || reader < 0) continue;
      if (!kl_operand_is_memory(fusion, fusion->uses[i].node, fusion->uses[i].operand)) continue;
      if (add == 0) {
        if (kl_group_reaches(fusion, group, reader)) return false;
      } else if (!kl_vec_push(&fusion->groups.data[reader].consumers, group)) {
        return false;
      }
    }
  }
  return true;
}

/* External memory may be seen through several leaves: to write one is to write all of them. */
static bool order_aliases_before(planner *p, uint32_t leaf, int32_t group) {
  if (!p->graph->leaves.data[leaf].may_alias) return true;
  const kl_fusion *fusion = p->fusion;
  for (uint32_t other = 0; other < p->graph->leaves.count; other++) {
    int32_t node = p->leaf_node[other];
    if (other == leaf || node < 0 || !p->graph->leaves.data[other].may_alias) continue;
    for (uint32_t i = fusion->first_use[node]; i < fusion->first_use[node + 1]; i++)
      if (fusion->group_of[fusion->uses[i].node] == group) return false;
    if (!order_readers_before(p, node, group)) return false;
  }
  return true;
}

static bool may_overwrite(planner *p, int32_t source, int32_t writer) {
  if (p->overwritten[source]) return false;
  const kl_slot *slot = &p->program->slots.data[p->plan->slot_of[source]];
  if (slot->kind == KL_SLOT_LEAF && (p->graph->nodes.data[writer].flags & KL_NODE_KEEP)) {
    /* An output may not stay where another output must end. */
    int32_t owner = p->home_of[slot->leaf];
    if (owner >= 0 && owner != writer) return false;
  }
  int32_t group = p->fusion->group_of[writer];
  return reads_where_written(p, group, source, writer) &&
         (slot->kind != KL_SLOT_LEAF || order_aliases_before(p, slot->leaf, group)) &&
         order_readers_before(p, source, group);
}

static bool is_free(const planner *p, int32_t source, int32_t home) {
  const kl_node *node = &p->graph->nodes.data[source];
  if (node->op != KL_OP_LEAF) return !(node->flags & KL_NODE_KEEP);
  return p->graph->leaves.data[node->attr].reusable || (int32_t)node->attr == home;
}

/* The node's slot is what the run gives back; with a home it is the home's, and this one is copied. */
static bool leaves_the_run(const kl_node *node) {
  return (node->flags & KL_NODE_KEEP) && node->home < 0;
}

static kl_status own_slot(planner *p, int32_t id) {
  const kl_node *node = &p->graph->nodes.data[id];
  kl_slot_kind kind = leaves_the_run(node) ? KL_SLOT_OUTPUT : KL_SLOT_TEMP;
  return new_slot(p, kind, 0, node_nbytes(node), &p->plan->slot_of[id]);
}

/* The value moves into the slot that it overwrites; kept, the slot outlives the run. */
static void take_slot(planner *p, int32_t id, int32_t source) {
  uint32_t slot = p->plan->slot_of[source];
  p->plan->slot_of[id] = slot;
  p->overwritten[source] = true;
  kl_slot *info = &p->program->slots.data[slot];
  if (leaves_the_run(&p->graph->nodes.data[id]) && info->kind == KL_SLOT_TEMP)
    info->kind = KL_SLOT_OUTPUT;
}

static kl_status place_writer(planner *p, int32_t id) {
  const kl_node *node = &p->graph->nodes.data[id];
  int32_t old = node->operands[0].node;
  if (is_free(p, old, node->home) && may_overwrite(p, old, id)) {
    take_slot(p, id, old);
    return KL_OK;
  }
  KL_TRY(own_slot(p, id));
  p->copy_from[id] = p->plan->slot_of[old];
  return KL_OK;
}

/* An elementwise result may go where one of its operands was. */
static bool place_over_operand(planner *p, int32_t id) {
  const kl_fusion *fusion = p->fusion;
  const kl_node *node = &p->graph->nodes.data[id];
  const kl_group *group = &fusion->groups.data[fusion->group_of[id]];
  if (!(node->flags & KL_NODE_KEEP)) return false;
  for (uint32_t i = 0; i < group->members.count; i++) {
    int32_t member = group->members.data[i];
    const kl_node *reader = &p->graph->nodes.data[member];
    for (int k = 0; k < reader->n_operands; k++) {
      if (!kl_operand_is_memory(fusion, member, k)) continue;
      int32_t source = reader->operands[k].node;
      const kl_node *old = &p->graph->nodes.data[source];
      if (old->dtype != node->dtype || old->numel != node->numel) continue;
      if (p->plan->slot_of[source] == KL_NO_SLOT) continue; /* a later node has none yet */
      if (!is_free(p, source, NO_HOME) || !may_overwrite(p, source, id)) continue;
      take_slot(p, id, source);
      return true;
    }
  }
  return false;
}

static kl_status place_at_home(planner *p, int32_t id, bool *out_done) {
  const kl_node *node = &p->graph->nodes.data[id];
  int32_t leaf = p->leaf_node[node->home];
  *out_done = leaf < 0 ? order_aliases_before(p, (uint32_t)node->home, p->fusion->group_of[id])
                       : (p->graph->nodes.data[leaf].dtype == node->dtype && may_overwrite(p, leaf, id));
  if (!*out_done) return KL_OK;
  if (leaf >= 0) p->overwritten[leaf] = true;
  return slot_for_leaf(p, (uint32_t)node->home, &p->plan->slot_of[id]);
}

static kl_status place_node(planner *p, int32_t id) {
  const kl_node *node = &p->graph->nodes.data[id];
  if ((node->flags & KL_NODE_DEAD) || node->op == KL_OP_LEAF) return KL_OK;
  if (node->op == KL_OP_EMPTY) return own_slot(p, id);
  if (p->fusion->group_of[id] < 0 || !p->fusion->stored[id]) return KL_OK;
  if (kl_op_is_write(node->op)) {
    KL_TRY(place_writer(p, id));
  } else {
    bool done = false;
    if (node->home >= 0) KL_TRY(place_at_home(p, id, &done));
    if (!done && !(node->home < 0 && place_over_operand(p, id))) {
      if (!done) KL_TRY(own_slot(p, id));
    }
  }
  const kl_slot *slot = &p->program->slots.data[p->plan->slot_of[id]];
  if (node->home >= 0 && !(slot->kind == KL_SLOT_LEAF && (int32_t)slot->leaf == node->home)) {
    uint32_t home;
    KL_TRY(slot_for_leaf(p, (uint32_t)node->home, &home));
    kl_step copy = {-1, p->plan->slot_of[id], home};
    if (!kl_vec_push(&p->last, copy)) return kl_fail_memory("plan", sizeof copy);
  }
  return KL_OK;
}

/* Groups in topological order, among those that are ready the one whose last node came first. */
typedef struct ready_heap {
  int32_t *groups;
  uint32_t count;
} ready_heap;

static void heap_push(ready_heap *heap, const kl_group *groups, int32_t group) {
  uint32_t at = heap->count++;
  while (at > 0 && groups[heap->groups[(at - 1) / 2]].seed > groups[group].seed) {
    heap->groups[at] = heap->groups[(at - 1) / 2];
    at = (at - 1) / 2;
  }
  heap->groups[at] = group;
}

static int32_t heap_pop(ready_heap *heap, const kl_group *groups) {
  int32_t result = heap->groups[0], moved = heap->groups[--heap->count];
  uint32_t at = 0;
  for (uint32_t child; (child = 2 * at + 1) < heap->count; at = child) {
    if (child + 1 < heap->count &&
        groups[heap->groups[child + 1]].seed < groups[heap->groups[child]].seed)
      child++;
    if (groups[heap->groups[child]].seed >= groups[moved].seed) break;
    heap->groups[at] = heap->groups[child];
  }
  heap->groups[at] = moved;
  return result;
}

static kl_status push_group(planner *p, int32_t id) {
  const kl_group *group = &p->fusion->groups.data[id];
  for (uint32_t i = 0; i < group->members.count; i++) {
    int32_t member = group->members.data[i];
    if (p->copy_from[member] == KL_NO_SLOT) continue;
    kl_step copy = {-1, p->copy_from[member], p->plan->slot_of[member]};
    if (!kl_vec_push(&p->plan->steps, copy)) return kl_fail_memory("plan", sizeof copy);
  }
  kl_step step = {.group = id};
  return kl_vec_push(&p->plan->steps, step) ? KL_OK : kl_fail_memory("plan", sizeof step);
}

static kl_status order_groups(planner *p) {
  uint32_t n = p->fusion->groups.count;
  kl_group *groups = p->fusion->groups.data;
  uint32_t *waiting = kl_calloc(n + 1, sizeof *waiting);
  ready_heap heap = {.groups = kl_malloc(sizeof(int32_t) * (n + 1))};
  kl_status status = KL_OK;
  uint32_t done = 0;
  if (!waiting || !heap.groups) {
    status = kl_fail_memory("plan", sizeof(int32_t) * n);
    goto done;
  }
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < groups[i].consumers.count; k++) waiting[groups[i].consumers.data[k]]++;
  for (uint32_t i = 0; i < n; i++)
    if (waiting[i] == 0) heap_push(&heap, groups, (int32_t)i);
  while (heap.count > 0) {
    int32_t group = heap_pop(&heap, groups);
    KL_TRY_GOTO(status, push_group(p, group), done);
    done++;
    for (uint32_t k = 0; k < groups[group].consumers.count; k++)
      if (--waiting[groups[group].consumers.data[k]] == 0)
        heap_push(&heap, groups, groups[group].consumers.data[k]);
  }
  if (done != n) status = kl_fail(KL_ERR_INTERNAL, "plan: the groups form a cycle");
  for (uint32_t i = 0; i < p->last.count && status == KL_OK; i++)
    if (!kl_vec_push(&p->plan->steps, p->last.data[i])) status = kl_fail_memory("plan", 16);
done:
  kl_free(waiting);
  kl_free(heap.groups);
  return status;
}

static void touch(int32_t *first, int32_t *last, uint32_t slot, int32_t step) {
  if (slot == KL_NO_SLOT) return;
  if (first[slot] < 0) first[slot] = step;
  last[slot] = step;
}

/* First and last step in which each slot is used. */
static void find_lifetimes(const planner *p, int32_t *first, int32_t *last) {
  for (uint32_t s = 0; s < p->plan->steps.count; s++) {
    const kl_step *step = &p->plan->steps.data[s];
    if (step->group < 0) {
      touch(first, last, step->from, (int32_t)s);
      touch(first, last, step->to, (int32_t)s);
      continue;
    }
    const kl_group *group = &p->fusion->groups.data[step->group];
    for (uint32_t i = 0; i < group->members.count; i++) {
      int32_t member = group->members.data[i];
      const kl_node *node = &p->graph->nodes.data[member];
      touch(first, last, p->plan->slot_of[member], (int32_t)s);
      for (int k = 0; k < node->n_operands; k++)
        if (kl_operand_is_memory(p->fusion, member, k))
          touch(first, last, p->plan->slot_of[node->operands[k].node], (int32_t)s);
    }
  }
}

typedef struct live_block {
  int64_t offset, end;
  int32_t last;
} live_block;

/* First fit among the temporaries alive; `live` is kept in the order of offsets. */
static void place_temp(kl_slot *slot, int32_t first, int32_t last, live_block *live, uint32_t *n_live) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < *n_live; i++)
    if (live[i].last >= first) live[kept++] = live[i];
  int64_t nbytes = (slot->nbytes + 63) & ~(int64_t)63, offset = 0;
  uint32_t at = 0;
  while (at < kept && live[at].offset - offset < nbytes) offset = live[at++].end;
  memmove(live + at + 1, live + at, sizeof *live * (kept - at));
  live[at] = (live_block){offset, offset + nbytes, last};
  *n_live = kept + 1;
  slot->temp_offset = offset;
}

static kl_status share_temporaries(planner *p) {
  uint32_t n = p->program->slots.count;
  int32_t *first = kl_malloc(sizeof(int32_t) * (n + 1)), *last = kl_malloc(sizeof(int32_t) * (n + 1));
  uint32_t *starts = kl_calloc(p->plan->steps.count + 2, sizeof *starts);
  uint32_t *by_start = kl_malloc(sizeof(uint32_t) * (n + 1));
  live_block *live = kl_malloc(sizeof *live * (n + 1));
  kl_status status = KL_OK;
  if (!first || !last || !starts || !by_start || !live) {
    status = kl_fail_memory("plan", sizeof *live * n);
    goto done;
  }
  for (uint32_t i = 0; i < n; i++) first[i] = last[i] = -1;
  find_lifetimes(p, first, last);
  for (uint32_t i = 0; i < n; i++) starts[first[i] + 2]++; /* unused ones, -1, first */
  for (uint32_t i = 1; i < p->plan->steps.count + 2; i++) starts[i] += starts[i - 1];
  for (uint32_t i = 0; i < n; i++) by_start[starts[first[i] + 1]++] = i;
  uint32_t n_live = 0;
  for (uint32_t i = 0; i < n; i++) {
    kl_slot *slot = &p->program->slots.data[by_start[i]];
    if (slot->kind != KL_SLOT_TEMP || first[by_start[i]] < 0) continue;
    place_temp(slot, first[by_start[i]], last[by_start[i]], live, &n_live);
    int64_t end = slot->temp_offset + slot->nbytes;
    if (end > p->program->temp_nbytes) p->program->temp_nbytes = end;
  }
done:
  kl_free(first);
  kl_free(last);
  kl_free(starts);
  kl_free(by_start);
  kl_free(live);
  return status;
}

static kl_status list_outputs(planner *p) {
  for (uint32_t i = 0; i < p->graph->nodes.count; i++) {
    const kl_node *node = &p->graph->nodes.data[i];
    if (!(node->flags & KL_NODE_KEEP) || (node->flags & KL_NODE_DEAD)) continue;
    kl_program_output output = {(int32_t)i, p->plan->slot_of[i]};
    if (node->home >= 0) output.slot = p->leaf_slot[node->home];
    if (!kl_vec_push(&p->program->outputs, output)) return kl_fail_memory("plan", sizeof output);
  }
  return KL_OK;
}

static kl_status prepare(planner *p) {
  uint32_t n = p->graph->nodes.count, n_leaves = p->graph->leaves.count;
  p->leaf_slot = kl_malloc(sizeof(uint32_t) * (n_leaves + 1));
  p->leaf_node = kl_malloc(sizeof(int32_t) * (n_leaves + 1));
  p->home_of = kl_malloc(sizeof(int32_t) * (n_leaves + 1));
  p->overwritten = kl_calloc(n + 1, sizeof *p->overwritten);
  p->copy_from = kl_malloc(sizeof(uint32_t) * (n + 1));
  p->plan->slot_of = kl_malloc(sizeof(uint32_t) * (n + 1));
  if (!p->leaf_slot || !p->leaf_node || !p->home_of || !p->overwritten || !p->copy_from || !p->plan->slot_of)
    return kl_fail_memory("plan", sizeof(uint32_t) * n);
  for (uint32_t i = 0; i < n; i++) p->copy_from[i] = p->plan->slot_of[i] = KL_NO_SLOT;
  for (uint32_t i = 0; i < n_leaves; i++) {
    p->leaf_slot[i] = KL_NO_SLOT;
    p->leaf_node[i] = p->home_of[i] = -1;
  }
  for (uint32_t i = 0; i < n; i++) {
    const kl_node *node = &p->graph->nodes.data[i];
    if (node->flags & KL_NODE_DEAD) continue;
    if (node->op == KL_OP_LEAF) {
      p->leaf_node[node->attr] = (int32_t)i;
      KL_TRY(slot_for_leaf(p, node->attr, &p->plan->slot_of[i]));
    }
    if (node->home >= 0) p->home_of[node->home] = (int32_t)i;
  }
  return KL_OK;
}

kl_status kl_plan_make(kl_fusion *fusion, kl_program *program, kl_plan *out_plan) {
  *out_plan = (kl_plan){0};
  planner p = {.fusion = fusion, .graph = fusion->graph, .program = program, .plan = out_plan};
  kl_status status;
  KL_TRY_GOTO(status, prepare(&p), done);
  for (uint32_t i = 0; i < p.graph->nodes.count; i++)
    KL_TRY_GOTO(status, place_node(&p, (int32_t)i), done);
  KL_TRY_GOTO(status, order_groups(&p), done);
  KL_TRY_GOTO(status, share_temporaries(&p), done);
  status = list_outputs(&p);
done:
  kl_free(p.leaf_slot);
  kl_free(p.leaf_node);
  kl_free(p.home_of);
  kl_free(p.overwritten);
  kl_free(p.copy_from);
  kl_vec_finish(&p.last);
  return status;
}

void kl_plan_finish(kl_plan *plan) {
  kl_free(plan->slot_of);
  kl_vec_finish(&plan->steps);
}
