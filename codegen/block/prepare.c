/* From a section to programs for the block executor: one for each phase.
 *
 * Takes a verified section. A ROWS program has all loops; a COLS program its COL loop and the row
 * values that it needs; a COMBINE program its ROW loops and the row values of earlier ones that
 * these need. Results of reductions in other phases come from the frame. */
#include <string.h>

#include "codegen/block/code.h"

typedef struct builder {
  const kl_kernel *kernel;
  const kl_section *section;
  const kl_block_level *level;
  kl_phase phase;
  kl_block_program *program;
  uint32_t *slot_of;  /* [instr]: slot of the value; NONE: not in this program */
  uint32_t *expanded; /* [slot]: its expansion in the loop at hand */
  uint32_t *loop_of;  /* [instr] */
  uint32_t *number;   /* [instr]: which reduction */
  bool *wanted;       /* [instr]: belongs to the program */
  uint32_t loop;      /* at hand */
  uint32_t repeats[KL_BLOCK_NESTING];
  uint8_t depth;
} builder;

/* The value operands of an instruction; other fields of `arg` hold plain numbers. */
static int value_args(const kl_section *section, const kl_instr *instr, uint32_t out[3]) {
  int n = 0;
  switch (instr->op) {
    case KL_OP_LOAD:
      if (section->accesses.data[instr->attr].dynamic) out[n++] = instr->arg[0];
      break;
    case KL_OP_STORE:
    case KL_OP_STORE_ADD:
      out[n++] = instr->arg[0];
      if (section->accesses.data[instr->attr].dynamic) out[n++] = instr->arg[1];
      break;
    case KL_OP_SCALAR:
    case KL_OP_INT:
    case KL_OP_INDEX:
    case KL_OP_REPEAT:
    case KL_OP_END: break;
    default:
      for (int a = 0; a < kl_op_table[instr->op].arity; a++) out[n++] = instr->arg[a];
  }
  return n;
}

static bool is_store(int op) { return op == KL_OP_STORE || op == KL_OP_STORE_ADD; }

/* --- Which instructions belong to the program ------------------------------------------------ */

/* Wants the rest of a repeat of which something is wanted; true when that is news. */
static bool want_whole_repeats(builder *b) {
  const kl_section *section = b->section;
  bool news = false;
  for (uint32_t i = 0; i < section->instrs.count; i++) {
    if (section->instrs.data[i].op != KL_OP_REPEAT) continue;
    uint32_t end = i, depth = 0, n_wanted = 0;
    do {
      int op = section->instrs.data[end].op;
      depth += op == KL_OP_REPEAT;
      depth -= op == KL_OP_END;
      n_wanted += b->wanted[end++];
    } while (depth > 0);
    for (uint32_t j = i; n_wanted > 0 && j < end; j++) {
      if (b->wanted[j] || is_store(section->instrs.data[j].op)) continue;
      b->wanted[j] = news = true;
    }
  }
  return news;
}

/* Wants, of earlier loops, the row values needed; a reduction's operand only where the reduction
 * itself is done by this program. */
static void want_operands(builder *b) {
  const kl_section *section = b->section;
  for (uint32_t i = section->instrs.count; i-- > 0;) {
    const kl_instr *instr = &section->instrs.data[i];
    bool folded = b->loop_of[i] >= b->phase.first_loop && b->loop_of[i] < b->phase.end_loop;
    if (!b->wanted[i] || (kl_op_is_reduce(instr->op) && !folded)) continue;
    uint32_t args[3];
    for (int n = value_args(section, instr, args); n > 0; n--) b->wanted[args[n - 1]] = true;
  }
}

static void choose_instrs(builder *b) {
  const kl_section *section = b->section;
  for (uint32_t i = 0; i < section->instrs.count; i++)
    b->wanted[i] = b->loop_of[i] >= b->phase.first_loop && b->loop_of[i] < b->phase.end_loop;
  do want_operands(b);
  while (want_whole_repeats(b));
}

/* --- Steps ----------------------------------------------------------------------------------- */

static kl_status push_step(builder *b, kl_block_step step) {
  if (!kl_vec_push(&b->program->steps, step)) return kl_fail_memory("block code", sizeof step);
  return KL_OK;
}

static kl_status push_form(builder *b, kl_block_form form, uint32_t *out_view) {
  if (!kl_vec_push(&b->program->forms, form)) return kl_fail_memory("block code", sizeof form);
  *out_view = b->program->forms.count - 1;
  return KL_OK;
}

static kl_block_step new_step(kl_block_step_kind kind, kl_dtype dtype) {
  return (kl_block_step){.kind = (uint8_t)kind,
                         .dtype = (uint8_t)dtype,
                         .esize = (uint8_t)kl_dtype_size(dtype),
                         .dst = KL_BLOCK_NONE,
                         .into = KL_BLOCK_NONE,
                         .view = KL_BLOCK_NONE};
}

static bool in_columns(const builder *b) {
  return b->section->loops.data[b->loop].kind != KL_LOOP_ROW;
}

static bool is_row_value(const builder *b, uint32_t value) {
  return b->section->loops.data[b->loop_of[value]].kind == KL_LOOP_ROW ||
         kl_op_is_reduce(b->section->instrs.data[value].op);
}

/* Moves keep the bits, so the result of one is its operand. */
static uint32_t skip_moves(const builder *b, uint32_t value) {
  for (;;) {
    const kl_instr *instr = &b->section->instrs.data[value];
    bool same = instr->op == KL_OP_COPY || instr->op == KL_OP_BITCAST ||
                (instr->op == KL_OP_CAST &&
                 b->section->instrs.data[instr->arg[0]].dtype == instr->dtype);
    if (!same) return value;
    value = instr->arg[0];
  }
}

/* The slot to read a value from in the loop at hand; expands a row value in a COL loop. */
static kl_status use_value(builder *b, uint32_t value, uint32_t *out_slot) {
  value = skip_moves(b, value);
  uint32_t slot = b->slot_of[value];
  if (in_columns(b) && is_row_value(b, value)) {
    if (b->expanded[slot] == KL_BLOCK_NONE) {
      kl_block_step step = new_step(KL_STEP_EXPAND, b->section->instrs.data[value].dtype);
      step.arg[0] = slot;
      step.dst = b->program->n_slots++;
      KL_TRY(push_step(b, step));
      b->expanded[slot] = step.dst;
    }
    slot = b->expanded[slot];
  }
  *out_slot = slot;
  return KL_OK;
}

static kl_status build_elem(builder *b, uint32_t id, const kl_instr *instr) {
  if (skip_moves(b, id) != id) return KL_OK;
  kl_block_step step = new_step(KL_STEP_ELEM, instr->dtype);
  int arity = kl_op_table[instr->op].arity;
  kl_dtype of = b->section->instrs.data[instr->arg[0]].dtype;
  if (instr->op == KL_OP_CAST)
    step.fn = b->level->cast[of][instr->dtype];
  else /* a selection goes by the dtype of what is selected */
    step.fn = b->level->elem[instr->op][instr->op == KL_OP_SELECT ? instr->dtype : of];
  if (step.fn == NULL)
    return kl_fail(KL_ERR_INTERNAL, "tier 0 has no %s for %s", kl_op_table[instr->op].text,
                   kl_dtype_name(of));
  step.mask = (uint8_t)((1u << arity) - 1);
  for (int a = 0; a < 3 && a < arity; a++) {
    step.arg_esize[a] = (uint8_t)kl_dtype_size(b->section->instrs.data[instr->arg[a]].dtype);
    KL_TRY(use_value(b, instr->arg[a], &step.arg[a]));
  }
  for (int a = arity; a < 3; a++) step.arg[a] = step.arg[0];
  step.dst = b->slot_of[id];
  return push_step(b, step);
}

/* Which of the kernel's SCRATCH buffers this is, from 1 on; 0 for a global one. */
static uint8_t scratch_number(const kl_kernel *kernel, uint32_t buf) {
  uint8_t number = 0;
  if (kernel->bufs.data[buf].kind != KL_BUF_SCRATCH) return 0;
  for (uint32_t i = 0; i <= buf; i++) number += kernel->bufs.data[i].kind == KL_BUF_SCRATCH;
  return number;
}

static kl_status build_access(builder *b, const kl_instr *instr, uint32_t *out_view) {
  const kl_access *access = &b->section->accesses.data[instr->attr];
  kl_block_form form = {.access = access,
                        .esize = (uint8_t)kl_dtype_size(instr->dtype),
                        .columns = in_columns(b),
                        .scratch = scratch_number(b->kernel, access->buf)};
  return push_form(b, form, out_view);
}

/* arg[0] of a load, arg[1] of a store is the dynamic index, or NONE. */
static kl_status build_load(builder *b, uint32_t id, const kl_instr *instr) {
  kl_block_step step = new_step(KL_STEP_LOAD, instr->dtype);
  step.arg[0] = KL_BLOCK_NONE;
  if (b->section->accesses.data[instr->attr].dynamic) {
    uint32_t index = skip_moves(b, instr->arg[0]);
    if (in_columns(b) && is_row_value(b, index) && b->section->vector == KL_VECTOR_COLS) {
      step.kind = KL_STEP_LOAD_ROWS;
      step.arg[0] = b->slot_of[index];
    } else {
      KL_TRY(use_value(b, index, &step.arg[0]));
    }
  }
  KL_TRY(build_access(b, instr, &step.view));
  step.dst = b->slot_of[id];
  return push_step(b, step);
}

static kl_status build_store(builder *b, const kl_instr *instr) {
  kl_block_step step =
      new_step(instr->op == KL_OP_STORE ? KL_STEP_STORE : KL_STEP_STORE_ADD, instr->dtype);
  KL_TRY(use_value(b, instr->arg[0], &step.arg[0]));
  step.arg[1] = KL_BLOCK_NONE;
  if (b->section->accesses.data[instr->attr].dynamic)
    KL_TRY(use_value(b, instr->arg[1], &step.arg[1]));
  KL_TRY(build_access(b, instr, &step.view));
  return push_step(b, step);
}

/* COMBINE has no operand to fold: it takes up the partials. */
static kl_status build_reduce(builder *b, uint32_t id, const kl_instr *instr, bool folds) {
  kl_dtype dtype = b->section->instrs.data[instr->arg[0]].dtype;
  bool arg = instr->op == KL_OP_REDUCE_ARGMAX || instr->op == KL_OP_REDUCE_ARGMIN;
  kl_block_reduce reduce = {
      .op = (uint8_t)instr->op,
      .dtype = (uint8_t)dtype,
      .esize = (uint8_t)kl_dtype_size(dtype),
      .result_esize = (uint8_t)kl_dtype_size(instr->dtype),
      .arg = arg,
      .number = b->number[id],
      .dst = b->slot_of[id],
      .start = kl_block_fold_start((kl_op)instr->op, dtype),
      .fold = b->level->fold[instr->op - KL_OP_REDUCE_SUM][dtype],
  };
  if (reduce.fold.chunk == NULL)
    return kl_fail(KL_ERR_INTERNAL, "tier 0 has no %s for %s", kl_op_table[instr->op].text,
                   kl_dtype_name(dtype));
  if (folds) {
    kl_block_step step = new_step(KL_STEP_REDUCE, dtype);
    KL_TRY(use_value(b, instr->arg[0], &step.arg[0]));
    step.attr = b->program->reduces.count;
    KL_TRY(push_step(b, step));
  }
  if (!kl_vec_push(&b->program->reduces, reduce))
    return kl_fail_memory("block code", sizeof reduce);
  return KL_OK;
}

static kl_status build_index(builder *b, uint32_t id, const kl_instr *instr) {
  kl_block_step step = new_step(KL_STEP_INDEX, KL_I64);
  kl_block_form form = {.dim = (uint8_t)instr->attr, .esize = 1, .columns = in_columns(b)};
  KL_TRY(push_form(b, form, &step.view));
  step.dst = b->slot_of[id];
  return push_step(b, step);
}

/* --- Repeats --------------------------------------------------------------------------------- */

static kl_status build_copy(builder *b, uint32_t value, uint32_t slot, kl_dtype dtype) {
  kl_block_step step = new_step(KL_STEP_COPY, dtype);
  KL_TRY(use_value(b, value, &step.arg[0]));
  step.dst = slot;
  return push_step(b, step);
}

/* The CARRY copies come first, so that they are made where the count is 0, and once. */
static kl_status build_repeat(builder *b, uint32_t id, const kl_instr *instr, uint32_t *out_next) {
  if (b->depth == KL_BLOCK_NESTING)
    return kl_fail(KL_ERR_INTERNAL, "repeats nested deeper than %d", KL_BLOCK_NESTING);
  *out_next = id + 1 + instr->arg[1];
  for (uint32_t i = id + 1; i < *out_next; i++) {
    const kl_instr *carry = &b->section->instrs.data[i];
    KL_TRY(build_copy(b, carry->arg[0], b->slot_of[i], carry->dtype));
  }
  kl_block_step step = new_step(KL_STEP_REPEAT, KL_I64);
  step.attr = instr->attr;
  step.depth = b->depth;
  b->repeats[b->depth++] = b->program->steps.count;
  return push_step(b, step);
}

/* All NEXT of a repeat take their values before any of them changes: one that takes an old CARRY
 * other than its own goes by way of a copy, made in front of the first. */
static kl_status build_nexts(builder *b, uint32_t id, uint32_t *out_end) {
  const kl_instr *instrs = b->section->instrs.data;
  uint32_t end = id;
  while (instrs[end].op == KL_OP_NEXT) end++;
  uint32_t first_copy = b->program->n_slots;
  for (uint32_t i = id; i < end; i++) {
    uint32_t value = skip_moves(b, instrs[i].arg[0]);
    if (instrs[value].op == KL_OP_CARRY && value != instrs[i].attr)
      KL_TRY(build_copy(b, value, b->program->n_slots++, instrs[i].dtype));
  }
  for (uint32_t i = id; i < end; i++) {
    uint32_t value = skip_moves(b, instrs[i].arg[0]);
    if (instrs[value].op == KL_OP_CARRY && value != instrs[i].attr) {
      kl_block_step step = new_step(KL_STEP_COPY, instrs[i].dtype);
      step.arg[0] = first_copy++;
      step.dst = b->slot_of[instrs[i].attr];
      KL_TRY(push_step(b, step));
    } else {
      KL_TRY(build_copy(b, value, b->slot_of[instrs[i].attr], instrs[i].dtype));
    }
  }
  *out_end = end;
  return KL_OK;
}

static void forget_expansions(builder *b) {
  for (uint32_t i = 0; i < b->section->instrs.count; i++) b->expanded[i] = KL_BLOCK_NONE;
}

/* What was expanded inside is not there when the count is 0. */
static kl_status build_end(builder *b) {
  forget_expansions(b);
  kl_block_step step = new_step(KL_STEP_END, KL_I64);
  uint32_t repeat = b->repeats[--b->depth];
  step.depth = b->depth;
  step.extra = repeat;
  b->program->steps.data[repeat].extra = b->program->steps.count;
  return push_step(b, step);
}

/* --- Loops and programs ---------------------------------------------------------------------- */

static kl_status build_plain(builder *b, uint32_t id, const kl_instr *instr) {
  kl_block_step step = new_step(instr->op == KL_OP_INT ? KL_STEP_INT : KL_STEP_SCALAR, instr->dtype);
  step.attr = instr->attr;
  step.extra = instr->op == KL_OP_SCALAR && instr->arg[0] != KL_NO_VALUE ? instr->arg[0] : 0;
  step.depth = b->depth;
  step.dst = b->slot_of[id];
  return push_step(b, step);
}

static kl_status build_instr(builder *b, uint32_t id, uint32_t *out_next) {
  const kl_instr *instr = &b->section->instrs.data[id];
  *out_next = id + 1;
  switch (instr->op) {
    case KL_OP_LOAD: return build_load(b, id, instr);
    case KL_OP_STORE:
    case KL_OP_STORE_ADD: return build_store(b, instr);
    case KL_OP_SCALAR:
    case KL_OP_INT: return build_plain(b, id, instr);
    case KL_OP_INDEX: return build_index(b, id, instr);
    case KL_OP_REPEAT: return build_repeat(b, id, instr, out_next);
    case KL_OP_NEXT: return build_nexts(b, id, out_next);
    case KL_OP_END: return build_end(b);
    default:
      if (kl_op_is_reduce(instr->op)) return build_reduce(b, id, instr, true);
      return build_elem(b, id, instr);
  }
}

/* The results of a COL loop that another phase has folded. COMBINE folds the partials of the loop
 * before its own first, everything else is in the frame. */
static kl_status build_frame(builder *b, kl_block_stage *stage) {
  const kl_loop *loop = &b->section->loops.data[b->loop];
  for (uint32_t id = loop->first; id < loop->end; id++) {
    const kl_instr *instr = &b->section->instrs.data[id];
    if (!kl_op_is_reduce(instr->op)) continue;
    if (b->phase.kind == KL_PHASE_COMBINE && b->loop + 1 == b->phase.first_loop) {
      KL_TRY(build_reduce(b, id, instr, false));
      stage->end_reduce = b->program->reduces.count;
    }
    if (!b->wanted[id]) continue;
    kl_block_step step = new_step(KL_STEP_FRAME, instr->dtype);
    step.attr = b->number[id];
    step.dst = b->slot_of[id];
    KL_TRY(push_step(b, step));
  }
  return KL_OK;
}

/* Whether an iteration of a SEQ loop may load what one before it stored. */
static bool is_one_by_one(const builder *b, const kl_loop *loop) {
  const kl_section *section = b->section;
  if (loop->kind != KL_LOOP_SEQ) return false;
  for (uint32_t i = loop->first; i < loop->end; i++) {
    if (section->instrs.data[i].op != KL_OP_LOAD) continue;
    uint32_t from = section->accesses.data[section->instrs.data[i].attr].buf;
    for (uint32_t j = loop->first; j < loop->end; j++) {
      if (!is_store(section->instrs.data[j].op)) continue;
      uint32_t to = section->accesses.data[section->instrs.data[j].attr].buf;
      const kl_kernel_buf *bufs = b->kernel->bufs.data;
      if (from == to || (!bufs[from].noalias && !bufs[to].noalias)) return true;
    }
  }
  return false;
}

/* Whether a stage is bare; then its REDUCE steps learn where their operands come from. */
static bool is_bare(const builder *b, const kl_block_stage *stage) {
  kl_block_step *steps = b->program->steps.data;
  if (stage->kind != KL_LOOP_COL || stage->first_reduce == stage->end_reduce) return false;
  for (uint32_t i = stage->first; i < stage->end; i++) {
    bool folds = steps[i].kind == KL_STEP_REDUCE && !b->program->reduces.data[steps[i].attr].arg;
    bool loads = steps[i].kind == KL_STEP_LOAD && steps[i].arg[0] == KL_BLOCK_NONE;
    if (!folds && !loads) return false;
    for (uint32_t j = stage->first; folds && j < i; j++)
      if (steps[j].dst == steps[i].arg[0]) steps[i].view = steps[j].view;
    if (steps[i].view == KL_BLOCK_NONE) return false;
  }
  return true;
}

static kl_status build_loop(builder *b) {
  const kl_loop *loop = &b->section->loops.data[b->loop];
  bool here = b->loop >= b->phase.first_loop && b->loop < b->phase.end_loop;
  kl_block_stage stage = {.kind = loop->kind,
                          .one_by_one = is_one_by_one(b, loop),
                          .first = b->program->steps.count,
                          .first_reduce = b->program->reduces.count,
                          .end_reduce = b->program->reduces.count};
  forget_expansions(b);
  if (loop->kind != KL_LOOP_ROW && !here) {
    stage.kind = KL_LOOP_ROW;
    KL_TRY(build_frame(b, &stage));
  } else {
    for (uint32_t id = loop->first, next; id < loop->end; id = next) {
      next = id + 1;
      if (b->wanted[id]) KL_TRY(build_instr(b, id, &next));
    }
    stage.end_reduce = b->program->reduces.count;
  }
  stage.end = b->program->steps.count;
  stage.bare = is_bare(b, &stage);
  if (stage.one_by_one && stage.first_reduce < stage.end_reduce)
    return kl_fail(KL_ERR_NOT_IMPLEMENTED, "a reduction in a loop that loads what it stored");
  if (stage.first == stage.end && stage.first_reduce == stage.end_reduce) return KL_OK;
  if (!kl_vec_push(&b->program->stages, stage)) return kl_fail_memory("block code", sizeof stage);
  return KL_OK;
}

static kl_status build_program(builder *b) {
  choose_instrs(b);
  uint32_t count = b->section->instrs.count;
  for (uint32_t i = 0; i < count; i++) b->slot_of[i] = i;
  b->program->kind = b->phase.kind;
  b->program->n_slots = count;
  for (b->loop = 0; b->loop < b->phase.end_loop; b->loop++) KL_TRY(build_loop(b));
  return kl_block_place(b->kernel, b->program, b->section->vector == KL_VECTOR_ROWS);
}

static void number_instrs(builder *b) {
  const kl_section *section = b->section;
  uint32_t n = 0;
  for (uint32_t l = 0; l < section->loops.count; l++) {
    for (uint32_t i = section->loops.data[l].first; i < section->loops.data[l].end; i++) {
      b->loop_of[i] = l;
      b->number[i] = kl_op_is_reduce(section->instrs.data[i].op) ? n++ : 0;
    }
  }
}

static void block_destroy(kl_code *base) {
  kl_block_code *code = (kl_block_code *)base;
  for (uint32_t i = 0; i < code->n_programs; i++) {
    kl_vec_finish(&code->programs[i].steps);
    kl_vec_finish(&code->programs[i].stages);
    kl_vec_finish(&code->programs[i].forms);
    kl_vec_finish(&code->programs[i].reduces);
  }
  kl_vec_finish(&code->scratch_dtypes);
  kl_free(code->programs);
  kl_free(code);
}

static kl_status build_code(const kl_kernel *kernel, const kl_section *section, uint32_t *maps,
                            kl_block_code *code) {
  uint32_t count = section->instrs.count;
  code->programs = kl_calloc(section->phases.count + 1, sizeof *code->programs);
  if (code->programs == NULL) return kl_fail_memory("block code", sizeof *code->programs);
  code->n_programs = section->phases.count;
  for (uint32_t i = 0; i < kernel->bufs.count; i++) {
    const kl_kernel_buf *buf = &kernel->bufs.data[i];
    if (buf->kind == KL_BUF_SCRATCH && !kl_vec_push(&code->scratch_dtypes, buf->dtype))
      return kl_fail_memory("block code", kernel->bufs.count);
  }
  builder b = {.kernel = kernel,
               .section = section,
               .level = code->level,
               .slot_of = maps,
               .expanded = maps + count,
               .loop_of = maps + 2 * (size_t)count,
               .number = maps + 3 * (size_t)count,
               .wanted = (bool *)(maps + 4 * (size_t)count)};
  number_instrs(&b);
  size_t most = 0;
  uint16_t n_loops = (uint16_t)section->loops.count;
  for (uint32_t p = 0; p < section->phases.count; p++) {
    b.phase = section->phases.data[p];
    if (b.phase.kind == KL_PHASE_ROWS) b.phase.first_loop = 0, b.phase.end_loop = n_loops;
    b.program = &code->programs[p];
    KL_TRY(build_program(&b));
    if (b.program->end_at > most) most = b.program->end_at;
  }
  code->base.scratch_nbytes = most * 64;
  return KL_OK;
}

kl_status kl_block_prepare(const kl_kernel *kernel, uint32_t index, kl_code **out_code) {
  const kl_section *section = &kernel->sections.data[index];
  kl_block_code *code = kl_calloc(1, sizeof *code);
  uint32_t *maps = kl_calloc(5 * (size_t)section->instrs.count + 1, sizeof *maps);
  kl_status status = KL_OK;
  if (code == NULL || maps == NULL) {
    status = kl_fail_memory("block code", sizeof *code);
  } else {
    code->base = (kl_code){.run = kl_block_run, .destroy = block_destroy};
    code->section = section;
    code->level = kl_block_level_get();
    status = build_code(kernel, section, maps, code);
  }
  kl_free(maps);
  if (status != KL_OK) {
    if (code != NULL) block_destroy(&code->base);
    return status;
  }
  *out_code = &code->base;
  return KL_OK;
}
