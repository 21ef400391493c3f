/* schedule: chooses among the ways to run a group that give the same bits. */
#include "passes/schedule.h"

#include "ir/support/memory.h"

enum {
  SPLIT_COLUMNS = 16384, /* rows at least this long are shared among threads ... */
  SPLIT_ROWS_A_THREAD = 4, /* ... when there are fewer rows than this for each */
  VECTOR_ROWS = 16       /* fewer rows do not fill a vector */
};

/* Computing it again costs less than a round trip through memory. */
static bool is_cheap(int op) {
  switch (op) {
    case KL_OP_COPY: case KL_OP_CAST: case KL_OP_BITCAST: case KL_OP_NEG: case KL_OP_ABS:
    case KL_OP_NOT: case KL_OP_ADD: case KL_OP_SUB: case KL_OP_MUL: case KL_OP_MAX: case KL_OP_MIN:
    case KL_OP_EQ: case KL_OP_NE: case KL_OP_LT: case KL_OP_LE: case KL_OP_GT: case KL_OP_GE:
    case KL_OP_AND: case KL_OP_OR: case KL_OP_XOR: case KL_OP_SHL: case KL_OP_SHR: case KL_OP_FMA:
    case KL_OP_SELECT: case KL_OP_INDEX: return true;
    default: return false;
  }
}

static int last_wide_dim(const kl_space *space, int first, int end) {
  for (int d = end - 1; d >= first; d--)
    if (space->extent[d] > 1) return d;
  return -1;
}

/* Votes of the accesses for the axis along which they are contiguous. */
static void vote(const kl_space *space, int n_rows, const kl_address *address, int *votes) {
  int column = last_wide_dim(space, n_rows, space->n_dims);
  int smallest_row = -1;
  for (int d = 0; d < n_rows; d++)
    if (space->extent[d] > 1 && address->stride[d] == 1) smallest_row = d;
  if (column >= 0 && address->stride[column] == 1)
    votes[KL_VECTOR_COLS]++;
  else if (smallest_row >= 0 && (column < 0 || address->stride[column] != 0))
    votes[KL_VECTOR_ROWS]++;
}

static uint8_t choose_vector(const kl_fusion *fusion, const kl_group *group, int n_rows) {
  int votes[2] = {0, 0};
  if (n_rows == 0 || kl_extent_product(group->space.extent, n_rows) < VECTOR_ROWS)
    return KL_VECTOR_COLS;
  for (uint32_t i = 0; i < group->members.count; i++) {
    int32_t member = group->members.data[i];
    const kl_node *node = &fusion->graph->nodes.data[member];
    for (int k = 0; k < node->n_operands; k++) {
      if (!kl_operand_is_memory(fusion, member, k) || !node->operands[k].strides) continue;
      kl_address address = kl_operand_address(fusion, member, k);
      vote(&group->space, n_rows, &address, votes);
    }
    if (fusion->stored[member] && kl_member_is_full(fusion, member)) {
      kl_address address = kl_store_address(fusion, member);
      vote(&group->space, n_rows, &address, votes);
    }
  }
  return votes[KL_VECTOR_ROWS] > votes[KL_VECTOR_COLS] ? KL_VECTOR_ROWS : KL_VECTOR_COLS;
}

static bool stores_rows_first(const kl_fusion *fusion, const kl_group *group) {
  for (uint32_t i = 0; i < group->members.count; i++) {
    int32_t member = group->members.data[i];
    if (fusion->stored[member] && fusion->stage[member] == 0 && !kl_member_is_full(fusion, member) &&
        !kl_op_is_reduce(fusion->graph->nodes.data[member].op))
      return true;
  }
  return false;
}

/* Whether a member starts the need for its operands in a loop of stage `stage`. */
static bool is_sink(const kl_fusion *fusion, int32_t member, int stage) {
  if (fusion->stage[member] != stage) return false;
  if (kl_op_is_reduce(fusion->graph->nodes.data[member].op)) return true;
  return fusion->stored[member] && kl_member_is_full(fusion, member);
}

static void find_needed(const kl_fusion *fusion, const kl_group *group, int stage,
                        bool scratch_allowed, kl_schedule *schedule) {
  uint64_t bit = (uint64_t)1 << stage;
  for (uint32_t i = 0; i < group->members.count; i++) {
    int32_t member = group->members.data[i];
    const kl_node *node = &fusion->graph->nodes.data[member];
    bool sink = is_sink(fusion, member, stage);
    if (sink && !kl_op_is_reduce(node->op)) schedule->needed[i] |= bit;
    if (!sink && !(schedule->needed[i] & bit)) continue;
    bool earlier = (schedule->needed[i] & (bit - 1)) != 0;
    if (earlier && fusion->stored[member]) continue; /* read back what an earlier loop stored */
    if (earlier && scratch_allowed && !is_cheap(node->op)) {
      schedule->scratch[i] = true;
      continue;
    }
    for (int k = 0; k < node->n_operands; k++) {
      int32_t source = node->operands[k].node;
      if (source < 0 || fusion->group_of[source] != fusion->group_of[member]) continue;
      if (!kl_operand_is_memory(fusion, member, k) && kl_member_is_full(fusion, source))
        schedule->needed[kl_group_position(group, source)] |= bit;
    }
  }
}

kl_status kl_schedule_make(const kl_fusion *fusion, const kl_plan *plan, int32_t group_id,
                           int n_threads, kl_schedule *out_schedule) {
  (void)plan;
  const kl_group *group = &fusion->groups.data[group_id];
  const kl_node *seed = &fusion->graph->nodes.data[group->seed];
  kl_schedule s = {.n_rows = group->n_rows < 0 ? 0 : group->n_rows};
  s.sequential = seed->op == KL_OP_SCATTER || seed->op == KL_OP_SCATTER_ADD;
  s.needed = kl_calloc(group->members.count, sizeof *s.needed);
  s.scratch = kl_calloc(group->members.count, sizeof *s.scratch);
  if (!s.needed || !s.scratch) {
    kl_schedule_finish(&s);
    return kl_fail_memory("schedule", sizeof *s.needed * group->members.count);
  }
  s.vector = choose_vector(fusion, group, s.n_rows);
  int64_t rows = kl_extent_product(group->space.extent, s.n_rows);
  int64_t columns = kl_extent_product(group->space.extent + s.n_rows, group->space.n_dims - s.n_rows);
  s.split = group->n_rows >= 0 && !s.sequential && s.vector == KL_VECTOR_COLS &&
            rows < (int64_t)SPLIT_ROWS_A_THREAD * n_threads && columns >= SPLIT_COLUMNS &&
            !stores_rows_first(fusion, group);
  for (uint32_t i = 0; i < group->members.count; i++)
    if (fusion->stage[group->members.data[i]] >= s.n_stages)
      s.n_stages = fusion->stage[group->members.data[i]] + 1;
  for (int stage = 0; stage < s.n_stages; stage++)
    find_needed(fusion, group, stage, !s.split && s.vector == KL_VECTOR_COLS && s.n_stages > 1, &s);
  *out_schedule = s;
  return KL_OK;
}

void kl_schedule_finish(kl_schedule *schedule) {
  kl_free(schedule->needed);
  kl_free(schedule->scratch);
}
