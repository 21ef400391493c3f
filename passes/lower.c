/* lower: the instructions of a group's kernel.
 *
 * For each stage a row loop (row values, their stores, results of reductions) and a column loop
 * (what its reductions and stores need, in the order of nodes). Loads and scalars are emitted where
 * first used in a loop and shared within it.
 */
#include "passes/lower.h"

#include <string.h>

#include "ir/support/memory.h"
#include "passes/roll.h"
#include "passes/section.h"

typedef struct load_memo {
  kl_address address;
  uint32_t buf, offset_slot, value, index; /* index: dynamic index value */
} load_memo;

typedef struct lowering {
  const kl_fusion *fusion;
  const kl_graph *graph;
  const kl_plan *plan;
  const kl_schedule *schedule;
  const kl_group *group;
  kl_program *program;
  kl_kernel kernel;
  kl_launch launch;
  kl_section_builder builder;
  uint32_t *row_value; /* by member position */
  uint32_t *col_value; /* by member position, of the loop in hand */
  uint32_t *scratch_buf;
  KL_VEC(load_memo) loads;       /* of the loop in hand */
  KL_VEC(uint32_t) leaf_values;  /* SCALAR, INT and INDEX instructions of the loop in hand */
} lowering;

static kl_status no_memory(void) { return kl_fail_memory("lower", sizeof(kl_instr)); }

static kl_status emit(lowering *l, kl_instr instr, uint32_t *out_value) {
  if (!kl_vec_push(&l->builder.section.instrs, instr)) return no_memory();
  *out_value = l->builder.section.instrs.count - 1;
  return KL_OK;
}

/* How far back equal scalars and loads are looked for: a kernel stays near linear to make. */
enum { LOOK_BACK = 64 };

static uint32_t look_from(uint32_t count) { return count > LOOK_BACK ? count - LOOK_BACK : 0; }

/* SCALAR, INT and INDEX: once a loop. */
static kl_status emit_shared(lowering *l, kl_op op, kl_dtype dtype, uint32_t attr, uint32_t *out_value) {
  for (uint32_t i = look_from(l->leaf_values.count); i < l->leaf_values.count; i++) {
    const kl_instr *instr = &l->builder.section.instrs.data[l->leaf_values.data[i]];
    if (instr->op == op && instr->dtype == dtype && instr->attr == attr) {
      *out_value = l->leaf_values.data[i];
      return KL_OK;
    }
  }
  kl_instr instr = {.op = (uint16_t)op, .dtype = (uint8_t)dtype, .attr = attr,
                    .arg = {KL_NO_VALUE, KL_NO_VALUE, KL_NO_VALUE}};
  if (op == KL_OP_SCALAR) instr.arg[0] = 0;
  KL_TRY(emit(l, instr, out_value));
  return kl_vec_push(&l->leaf_values, *out_value) ? KL_OK : no_memory();
}

static kl_status emit_scalar(lowering *l, uint32_t run_slot, kl_dtype dtype, uint32_t *out_value) {
  uint32_t slot = look_from(l->launch.scalars.count);
  while (slot < l->launch.scalars.count && l->launch.scalars.data[slot] != run_slot) slot++;
  if (slot == l->launch.scalars.count && !kl_vec_push(&l->launch.scalars, run_slot)) return no_memory();
  return emit_shared(l, KL_OP_SCALAR, dtype, slot, out_value);
}

static kl_status emit_int(lowering *l, int64_t number, uint32_t *out_value) {
  uint32_t at = 0;
  while (at < l->builder.constants.count && l->builder.constants.data[at] != number) at++;
  if (at == l->builder.constants.count && !kl_vec_push(&l->builder.constants, number))
    return no_memory();
  return emit_shared(l, KL_OP_INT, KL_I64, at, out_value);
}

static kl_status find_buf(lowering *l, uint32_t slot, kl_dtype dtype, bool write, uint32_t *out_buf) {
  uint32_t buf = 0;
  while (buf < l->launch.slots.count && l->launch.slots.data[buf] != slot) buf++;
  if (buf == l->launch.slots.count) {
    const kl_slot *info = &l->program->slots.data[slot];
    bool alias = info->kind == KL_SLOT_LEAF && l->graph->leaves.data[info->leaf].may_alias;
    kl_kernel_buf made = {.dtype = (uint8_t)dtype, .kind = KL_BUF_GLOBAL, .noalias = !alias};
    if (!kl_vec_push(&l->kernel.bufs, made) || !kl_vec_push(&l->launch.slots, slot))
      return no_memory();
  }
  *(write ? &l->kernel.bufs.data[buf].written : &l->kernel.bufs.data[buf].read) = true;
  *out_buf = buf;
  return KL_OK;
}

static kl_status push_access(lowering *l, kl_pending_access access, uint32_t *out_access) {
  for (int d = 0; d < l->builder.space.n_dims; d++)
    if (l->builder.space.extent[d] == 1) access.address.stride[d] = 0;
  if (!kl_vec_push(&l->builder.accesses, access)) return no_memory();
  *out_access = l->builder.accesses.count - 1;
  return KL_OK;
}

static kl_status emit_load(lowering *l, kl_pending_access access, kl_dtype dtype, uint32_t index,
                           uint32_t *out_value) {
  for (uint32_t i = look_from(l->loads.count); i < l->loads.count; i++) {
    const load_memo *memo = &l->loads.data[i];
    if (memo->buf != access.buf || memo->offset_slot != access.offset_slot || memo->index != index)
      continue;
    if (memcmp(&memo->address, &access.address, sizeof memo->address) != 0) continue;
    *out_value = memo->value;
    return KL_OK;
  }
  load_memo memo = {access.address, access.buf, access.offset_slot, 0, index};
  kl_instr instr = {.op = KL_OP_LOAD, .dtype = (uint8_t)dtype, .arg = {index, KL_NO_VALUE, KL_NO_VALUE}};
  KL_TRY(push_access(l, access, &instr.attr));
  KL_TRY(emit(l, instr, out_value));
  memo.value = *out_value;
  return kl_vec_push(&l->loads, memo) ? KL_OK : no_memory();
}

static kl_status emit_store(lowering *l, kl_op op, kl_pending_access access, kl_dtype dtype,
                            uint32_t value, uint32_t index) {
  kl_instr instr = {.op = (uint16_t)op, .dtype = (uint8_t)dtype, .arg = {value, index, KL_NO_VALUE}};
  uint32_t ignored;
  KL_TRY(push_access(l, access, &instr.attr));
  return emit(l, instr, &ignored);
}

/* An affine function of the section's coordinates, as i64 instructions. */
static kl_status emit_coordinate(lowering *l, int64_t origin, const int64_t *step, uint32_t *out_value) {
  uint32_t sum = KL_NO_VALUE;
  for (int d = 0; d < l->builder.space.n_dims; d++) {
    if (step[d] == 0 || l->builder.space.extent[d] <= 1) continue;
    uint32_t term, factor;
    KL_TRY(emit_shared(l, KL_OP_INDEX, KL_I64, (uint32_t)d, &term));
    if (step[d] != 1) {
      KL_TRY(emit_int(l, step[d], &factor));
      kl_instr mul = {.op = KL_OP_MUL, .dtype = KL_I64, .arg = {term, factor, KL_NO_VALUE}};
      KL_TRY(emit(l, mul, &term));
    }
    if (sum != KL_NO_VALUE) {
      kl_instr add = {.op = KL_OP_ADD, .dtype = KL_I64, .arg = {sum, term, KL_NO_VALUE}};
      KL_TRY(emit(l, add, &term));
    }
    sum = term;
  }
  if (origin != 0 || sum == KL_NO_VALUE) {
    uint32_t constant;
    KL_TRY(emit_int(l, origin, &constant));
    if (sum != KL_NO_VALUE) {
      kl_instr add = {.op = KL_OP_ADD, .dtype = KL_I64, .arg = {sum, constant, KL_NO_VALUE}};
      KL_TRY(emit(l, add, &constant));
    }
    sum = constant;
  }
  *out_value = sum;
  return KL_OK;
}

/* An INDEX node read by an operand: its coordinate from the section's. */
static kl_status emit_index_node(lowering *l, int32_t member, int operand, const kl_node *index,
                                 uint32_t *out_value) {
  kl_address address = kl_operand_address(l->fusion, member, operand);
  kl_map map;
  int dim;
  int64_t inner;
  if (kl_map_from_address(&l->builder.space, &address, index->dims, index->n_dims, &map, &dim,
                          &inner) != KL_FIT_YES)
    return kl_fail(KL_ERR_INTERNAL, "lower: the coordinates of node %d do not fit", (int)member);
  return emit_coordinate(l, map.origin[index->attr], map.step[index->attr], out_value);
}

static kl_status emit_memory_operand(lowering *l, int32_t member, int k, uint32_t index,
                                     uint32_t *out_value) {
  const kl_node *node = &l->graph->nodes.data[member];
  const kl_operand *operand = &node->operands[k];
  const kl_node *source = &l->graph->nodes.data[operand->node];
  kl_pending_access access = {.address = kl_operand_address(l->fusion, member, k),
                              .offset_slot = operand->offset_slot,
                              .dynamic = index != KL_NO_VALUE,
                              .index_stride = node->index_stride};
  KL_TRY(find_buf(l, l->plan->slot_of[operand->node], (kl_dtype)source->dtype, false, &access.buf));
  return emit_load(l, access, (kl_dtype)source->dtype, index, out_value);
}

static kl_status emit_operand(lowering *l, int32_t member, int k, uint32_t *out_value) {
  const kl_operand *operand = &l->graph->nodes.data[member].operands[k];
  if (operand->node < 0)
    return emit_scalar(l, operand->scalar, (kl_dtype)operand->dtype, out_value);
  const kl_node *source = &l->graph->nodes.data[operand->node];
  if (kl_operand_is_memory(l->fusion, member, k))
    return emit_memory_operand(l, member, k, KL_NO_VALUE, out_value);
  if (kl_node_is_inlined(l->fusion, operand->node)) {
    if (source->op == KL_OP_INDEX) return emit_index_node(l, member, k, source, out_value);
    return emit_scalar(l, source->operands[0].scalar, (kl_dtype)source->dtype, out_value);
  }
  uint32_t at = kl_group_position(l->group, operand->node);
  *out_value = kl_member_is_full(l->fusion, operand->node) ? l->col_value[at] : l->row_value[at];
  if (*out_value == KL_NO_VALUE)
    return kl_fail(KL_ERR_INTERNAL, "lower: node %d is used before it is computed", operand->node);
  return KL_OK;
}

/* The dynamic index of a gather or scatter, kept within its extent. The call has checked it; should
 * another thread write the index since, the result is that thread's fault, but no other memory is
 * touched. */
static kl_status emit_index_operand(lowering *l, int32_t member, int k, uint32_t *out_value) {
  uint32_t index, least, most;
  KL_TRY(emit_operand(l, member, k, &index));
  KL_TRY(emit_int(l, 0, &least));
  KL_TRY(emit_int(l, l->graph->nodes.data[member].index_extent - 1, &most));
  kl_instr max = {.op = KL_OP_MAX, .dtype = KL_I64, .arg = {index, least, KL_NO_VALUE}};
  KL_TRY(emit(l, max, &index));
  kl_instr min = {.op = KL_OP_MIN, .dtype = KL_I64, .arg = {index, most, KL_NO_VALUE}};
  return emit(l, min, out_value);
}

/* The node's own instruction; for a writer just the data. */
static kl_status emit_node(lowering *l, int32_t member, uint32_t *out_value) {
  const kl_node *node = &l->graph->nodes.data[member];
  if (node->op == KL_OP_INDEX)
    return emit_coordinate(l, l->fusion->maps[member]->origin[node->attr],
                           l->fusion->maps[member]->step[node->attr], out_value);
  if (kl_op_is_write(node->op)) return emit_operand(l, member, 1, out_value);
  if (node->op == KL_OP_GATHER) {
    uint32_t index;
    KL_TRY(emit_index_operand(l, member, 1, &index));
    return emit_memory_operand(l, member, 0, index, out_value);
  }
  if (node->op == KL_OP_COPY) return emit_operand(l, member, 0, out_value);
  kl_instr instr = {.op = node->op, .dtype = node->dtype,
                    .arg = {KL_NO_VALUE, KL_NO_VALUE, KL_NO_VALUE}};
  for (int k = 0; k < node->n_operands; k++) KL_TRY(emit_operand(l, member, k, &instr.arg[k]));
  if (kl_op_is_reduce(node->op)) l->builder.section.n_reduces++;
  return emit(l, instr, out_value);
}

static kl_status emit_value_store(lowering *l, int32_t member, uint32_t value) {
  const kl_node *node = &l->graph->nodes.data[member];
  kl_pending_access access = {.address = kl_store_address(l->fusion, member),
                              .offset_slot = KL_NO_SLOT};
  uint32_t index = KL_NO_VALUE;
  kl_op op = KL_OP_STORE;
  if (node->op == KL_OP_SCATTER || node->op == KL_OP_SCATTER_ADD) {
    access.dynamic = true;
    access.index_stride = node->index_stride;
    KL_TRY(emit_index_operand(l, member, 2, &index));
    if (node->op == KL_OP_SCATTER_ADD) op = KL_OP_STORE_ADD;
  }
  KL_TRY(find_buf(l, l->plan->slot_of[member], (kl_dtype)node->dtype, true, &access.buf));
  if (op == KL_OP_STORE_ADD) l->kernel.bufs.data[access.buf].read = true;
  return emit_store(l, op, access, (kl_dtype)node->dtype, value, index);
}

static kl_pending_access scratch_access(const lowering *l, uint32_t buf) {
  kl_pending_access access = {.buf = buf, .offset_slot = KL_NO_SLOT};
  int64_t stride = 1;
  for (int d = l->builder.space.n_dims - 1; d >= l->schedule->n_rows; d--) {
    access.address.stride[d] = stride;
    stride *= l->builder.space.extent[d];
  }
  return access;
}

static kl_status scratch_for(lowering *l, uint32_t at, uint32_t *out_buf) {
  if (l->scratch_buf[at] == KL_NO_VALUE) {
    kl_dtype dtype = (kl_dtype)l->graph->nodes.data[l->group->members.data[at]].dtype;
    kl_kernel_buf buf = {.dtype = (uint8_t)dtype, .kind = KL_BUF_SCRATCH, .read = true,
                         .written = true, .noalias = true};
    if (!kl_vec_push(&l->kernel.bufs, buf) || !kl_vec_push(&l->launch.slots, KL_NO_SLOT))
      return no_memory();
    l->scratch_buf[at] = l->kernel.bufs.count - 1;
  }
  *out_buf = l->scratch_buf[at];
  return KL_OK;
}

static void begin_loop(lowering *l, kl_loop *loop, kl_loop_kind kind) {
  *loop = (kl_loop){.kind = (uint8_t)kind, .first = l->builder.section.instrs.count};
  l->loads.count = l->leaf_values.count = 0;
}

static kl_status end_loop(lowering *l, kl_loop *loop) {
  loop->end = l->builder.section.instrs.count;
  if (loop->end == loop->first) return KL_OK;
  return kl_vec_push(&l->builder.section.loops, *loop) ? KL_OK : no_memory();
}

/* Row values of one stage; then their stores, and those of the reductions of the stage before. */
static kl_status lower_row_loop(lowering *l, int stage) {
  kl_loop loop;
  begin_loop(l, &loop, KL_LOOP_ROW);
  for (int storing = 0; storing < 2; storing++) {
    for (uint32_t at = l->group->members.count; at-- > 0;) {
      int32_t member = l->group->members.data[at];
      bool reduction = kl_op_is_reduce(l->graph->nodes.data[member].op);
      if (kl_member_is_full(l->fusion, member)) continue;
      if (l->fusion->stage[member] + reduction != stage) continue;
      if (!storing && !reduction) KL_TRY(emit_node(l, member, &l->row_value[at]));
      if (storing && l->fusion->stored[member])
        KL_TRY(emit_value_store(l, member, l->row_value[at]));
    }
  }
  return end_loop(l, &loop);
}

/* A value that an earlier loop left in memory. */
static kl_status reload(lowering *l, uint32_t at, uint32_t *out_value) {
  int32_t member = l->group->members.data[at];
  kl_dtype dtype = (kl_dtype)l->graph->nodes.data[member].dtype;
  kl_pending_access access;
  if (l->fusion->stored[member]) {
    access = (kl_pending_access){.address = kl_store_address(l->fusion, member),
                                 .offset_slot = KL_NO_SLOT};
    KL_TRY(find_buf(l, l->plan->slot_of[member], dtype, false, &access.buf));
  } else {
    uint32_t buf;
    KL_TRY(scratch_for(l, at, &buf));
    access = scratch_access(l, buf);
  }
  return emit_load(l, access, dtype, KL_NO_VALUE, out_value);
}

static kl_status lower_column_value(lowering *l, uint32_t at, int stage) {
  int32_t member = l->group->members.data[at];
  uint64_t needed = l->schedule->needed[at], bit = (uint64_t)1 << stage;
  if (!(needed & bit)) return KL_OK;
  bool earlier = (needed & (bit - 1)) != 0, later = (needed >> stage) > 1;
  if (earlier && (l->fusion->stored[member] || l->schedule->scratch[at]))
    return reload(l, at, &l->col_value[at]);
  KL_TRY(emit_node(l, member, &l->col_value[at]));
  if (l->schedule->scratch[at] && later) {
    uint32_t buf;
    KL_TRY(scratch_for(l, at, &buf));
    KL_TRY(emit_store(l, KL_OP_STORE, scratch_access(l, buf),
                      (kl_dtype)l->graph->nodes.data[member].dtype, l->col_value[at], KL_NO_VALUE));
  }
  return KL_OK;
}

/* Values first, in the order of nodes; then the stores, so that loads come before them. */
static kl_status lower_column_loop(lowering *l, int stage) {
  kl_loop loop;
  begin_loop(l, &loop, l->schedule->sequential ? KL_LOOP_SEQ : KL_LOOP_COL);
  for (uint32_t at = 0; at < l->group->members.count; at++) l->col_value[at] = KL_NO_VALUE;
  for (uint32_t at = l->group->members.count; at-- > 0;) {
    int32_t member = l->group->members.data[at];
    if (kl_member_is_full(l->fusion, member))
      KL_TRY(lower_column_value(l, at, stage));
    else if (kl_op_is_reduce(l->graph->nodes.data[member].op) && l->fusion->stage[member] == stage)
      KL_TRY(emit_node(l, member, &l->row_value[at]));
  }
  for (uint32_t at = l->group->members.count; at-- > 0;) {
    int32_t member = l->group->members.data[at];
    if (l->fusion->stored[member] && l->fusion->stage[member] == stage &&
        kl_member_is_full(l->fusion, member))
      KL_TRY(emit_value_store(l, member, l->col_value[at]));
  }
  return end_loop(l, &loop);
}

static kl_status push_phase(lowering *l, kl_phase_kind kind, uint32_t first, uint32_t end) {
  kl_phase phase = {(uint8_t)kind, (uint16_t)first, (uint16_t)end};
  return kl_vec_push(&l->builder.section.phases, phase) ? KL_OK : no_memory();
}

static kl_status lower_phases(lowering *l) {
  const kl_section *section = &l->builder.section;
  uint32_t n = section->loops.count, columns = 0;
  for (uint32_t i = 0; i < n; i++) columns += section->loops.data[i].kind == KL_LOOP_COL;
  bool elementwise = columns > 0 && l->group->n_rows < 0;
  if (!elementwise && !(l->schedule->split && columns > 0))
    return push_phase(l, KL_PHASE_ROWS, 0, n);
  for (uint32_t i = 0; i < n; i++) {
    if (section->loops.data[i].kind != KL_LOOP_COL) continue;
    KL_TRY(push_phase(l, KL_PHASE_COLS, i, i + 1));
    uint32_t next = i + 1;
    while (next < n && section->loops.data[next].kind == KL_LOOP_ROW) next++;
    if (!elementwise) KL_TRY(push_phase(l, KL_PHASE_COMBINE, i + 1, next));
  }
  return KL_OK;
}

static kl_status lower_kernel(lowering *l) {
  l->builder.space = l->group->space;
  l->builder.n_rows = l->schedule->n_rows;
  l->builder.fixed_order = l->group->n_rows >= 0;
  l->builder.section.vector = l->schedule->vector;
  for (int stage = 0; stage <= l->schedule->n_stages; stage++) {
    KL_TRY(lower_row_loop(l, stage));
    if (stage < l->schedule->n_stages) KL_TRY(lower_column_loop(l, stage));
  }
  KL_TRY(kl_roll_section(&l->builder));
  KL_TRY(lower_phases(l));
  KL_TRY(kl_section_finish(&l->builder, &l->kernel, &l->launch));
  l->kernel.n_scalars = l->launch.scalars.count;
  l->launch.kernel = l->program->kernels.count;
  if (!kl_vec_push(&l->program->kernels, l->kernel)) return no_memory();
  l->kernel = (kl_kernel){0};
  return KL_OK;
}

static bool push_strides(kl_launch *launch, const kl_operand *operand, int n_batch, int a, int b) {
  bool ok = kl_vec_push(&launch->ints, operand->offset);
  for (int d = 0; d < n_batch; d++) ok = ok && kl_vec_push(&launch->ints, operand->strides[d]);
  return ok && kl_vec_push(&launch->ints, operand->strides[a]) &&
         kl_vec_push(&launch->ints, operand->strides[b]);
}

static kl_status lower_matmul(lowering *l) {
  int32_t id = l->group->seed;
  const kl_node *node = &l->graph->nodes.data[id];
  kl_launch *launch = &l->launch;
  int n_batch = node->n_dims - 3, m = n_batch, n = n_batch + 1, k = n_batch + 2;
  launch->kind = KL_LAUNCH_MATMUL;
  launch->dtype = node->dtype;
  bool ok = true;
  for (int i = 0; i < 2; i++) {
    ok = ok && kl_vec_push(&launch->slots, l->plan->slot_of[node->operands[i].node]);
    if (node->operands[i].offset_slot == KL_NO_SLOT) continue;
    uint32_t at = 4 + (uint32_t)n_batch + (i == 0 ? 0 : 3 + (uint32_t)n_batch);
    kl_int_patch patch = {at, node->operands[i].offset_slot};
    ok = ok && kl_vec_push(&launch->patches, patch);
  }
  ok = ok && kl_vec_push(&launch->slots, l->plan->slot_of[id]);
  const int64_t head[] = {n_batch, node->dims[m], node->dims[n], node->dims[k]};
  for (int i = 0; i < 4; i++) ok = ok && kl_vec_push(&launch->ints, head[i]);
  for (int d = 0; d < n_batch; d++) ok = ok && kl_vec_push(&launch->ints, node->dims[d]);
  ok = ok && push_strides(launch, &node->operands[0], n_batch, m, k);
  ok = ok && push_strides(launch, &node->operands[1], n_batch, k, n);
  kl_operand result = {.strides = (int64_t[KL_MAX_RANK]){0}};
  int64_t stride = 1;
  for (int d = n; d >= 0; d--) {
    result.strides[d] = stride;
    stride *= node->dims[d];
  }
  ok = ok && push_strides(launch, &result, n_batch, m, n);
  int64_t size = (int64_t)kl_dtype_size((kl_dtype)node->dtype);
  launch->bytes_read = size * kl_extent_product(node->dims, n_batch) * node->dims[k] *
                       (node->dims[m] + node->dims[n]);
  launch->bytes_written = size * node->numel;
  return ok ? KL_OK : no_memory();
}

static kl_status allocate(lowering *l) {
  uint32_t n = l->group->members.count;
  l->row_value = kl_malloc(sizeof(uint32_t) * n);
  l->col_value = kl_malloc(sizeof(uint32_t) * n);
  l->scratch_buf = kl_malloc(sizeof(uint32_t) * n);
  if (!l->row_value || !l->col_value || !l->scratch_buf) return no_memory();
  for (uint32_t i = 0; i < n; i++) {
    l->row_value[i] = l->col_value[i] = l->scratch_buf[i] = KL_NO_VALUE;
    if (!kl_vec_push(&l->launch.nodes, l->group->members.data[i])) return no_memory();
  }
  return KL_OK;
}

kl_status kl_lower_group(const kl_fusion *fusion, const kl_plan *plan, const kl_schedule *schedule,
                         int32_t group, kl_program *program) {
  lowering l = {.fusion = fusion, .graph = fusion->graph, .plan = plan, .schedule = schedule,
                .group = &fusion->groups.data[group], .program = program};
  kl_status status = allocate(&l);
  if (status == KL_OK)
    status = l.graph->nodes.data[l.group->seed].op == KL_OP_MATMUL ? lower_matmul(&l) : lower_kernel(&l);
  if (status == KL_OK && !kl_vec_push(&program->launches, l.launch)) status = no_memory();
  if (status != KL_OK) kl_launch_finish(&l.launch);
  kl_kernel_finish(&l.kernel);
  kl_section_builder_drop(&l.builder);
  kl_vec_finish(&l.loads);
  kl_vec_finish(&l.leaf_values);
  kl_free(l.row_value);
  kl_free(l.col_value);
  kl_free(l.scratch_buf);
  return status;
}

kl_status kl_lower_copy(uint32_t from, uint32_t to, kl_program *program) {
  kl_launch launch = {.kind = KL_LAUNCH_COPY};
  launch.bytes_read = launch.bytes_written = program->slots.data[to].nbytes;
  if (kl_vec_push(&launch.slots, from) && kl_vec_push(&launch.slots, to) &&
      kl_vec_push(&program->launches, launch))
    return KL_OK;
  kl_launch_finish(&launch);
  return no_memory();
}
