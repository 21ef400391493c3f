/* Rules of kernels (ir/kernel.h): requires nothing, ensures that executors and emitters need no
 * checks of their own. A broken rule is our own bug: KL_ERR_INTERNAL, with section and value.
 *
 * The instructions of a section are checked in order, against the state of a `checker`; ranges and
 * phases are checked around that. A section without phases is one not yet scheduled.
 * Time is linear in the kernel. */
#include "ir/kernel.h"
#include "ir/op_check.h"

typedef struct value_info {
  uint32_t loop;
  bool is_value;  /* STORE, NEXT, REPEAT and END are none */
  bool is_row;    /* of a ROW loop, or of a reduction: seen by later loops */
  bool is_reduce; /* not seen in its own loop */
  bool closed;    /* inside a repeat that is over */
} value_info;

typedef struct checker {
  const kl_kernel *kernel;
  const kl_section *section;
  uint32_t section_id;
  value_info *values;   /* one an instruction */
  uint32_t *buf_stores; /* for each buf: 1 + the loop that stores to it, in this section; 0: none */
  uint32_t loop;        /* where we are */
  uint32_t repeat;      /* the REPEAT we are in, or KL_NO_VALUE */
  uint32_t n_carries, n_nexts;
  bool has_scratch;
} checker;

static kl_status fail_at(const checker *c, uint32_t id, const char *what) {
  return kl_fail(KL_ERR_INTERNAL, "kernel section %u, v%u (%s): %s", c->section_id, id,
                 c->section->instrs.data[id].op < KL_OP_COUNT
                     ? kl_op_table[c->section->instrs.data[id].op].text
                     : "?",
                 what);
}

static kl_status fail_section(const checker *c, const char *what) {
  return kl_fail(KL_ERR_INTERNAL, "kernel section %u: %s", c->section_id, what);
}

static bool slots_fit(uint64_t first, uint64_t count, uint32_t n_slots) {
  return first + count <= n_slots;
}

static const kl_instr *instr_at(const checker *c, uint32_t id) {
  return &c->section->instrs.data[id];
}

/* Whether the value exists and may be used here. */
static kl_status check_visible(const checker *c, uint32_t user, uint32_t value) {
  if (value >= user) return fail_at(c, user, "an operand is not defined above it");
  const value_info *info = &c->values[value];
  if (!info->is_value) return fail_at(c, user, "an operand is an instruction without a value");
  if (info->closed) return fail_at(c, user, "an operand is inside a repeat that is over");
  if (info->is_reduce && info->loop == c->loop)
    return fail_at(c, user, "an operand is a reduction of the same loop, not yet complete");
  if (info->loop != c->loop && !info->is_row)
    return fail_at(c, user, "an operand belongs to another column loop");
  return KL_OK;
}

/* ------------------------------------------------------------------ operands and dtypes */

/* The operand must have dtype `dtype`. */
static kl_status check_operand(const checker *c, uint32_t id, int a, int dtype) {
  const kl_instr *instr = instr_at(c, id);
  KL_TRY(check_visible(c, id, instr->arg[a]));
  if (instr_at(c, instr->arg[a])->dtype != dtype)
    return fail_at(c, id, "the dtype of an operand does not fit");
  return KL_OK;
}

static kl_status check_absent(const checker *c, uint32_t id, int first) {
  for (int a = first; a < 3; a++)
    if (instr_at(c, id)->arg[a] != KL_NO_VALUE) return fail_at(c, id, "it has too many operands");
  return KL_OK;
}

/* ELEM, REDUCE and CARRY: operands are values, dtypes follow ir/op.def. */
static kl_status check_plain(const checker *c, uint32_t id) {
  const kl_instr *instr = instr_at(c, id);
  int arity = kl_op_table[instr->op].arity;
  kl_dtype dtypes[3] = {KL_BOOL};
  KL_TRY(check_absent(c, id, arity));
  for (int a = 0; a < arity; a++) {
    KL_TRY(check_visible(c, id, instr->arg[a]));
    dtypes[a] = (kl_dtype)instr_at(c, instr->arg[a])->dtype;
  }
  const char *fault = kl_op_dtype_fault((kl_op)instr->op, (kl_dtype)instr->dtype, dtypes);
  return fault ? fail_at(c, id, fault) : KL_OK;
}

/* ------------------------------------------------------------------ loads and stores */

static kl_status check_strides(const checker *c, uint32_t id, const kl_access *access) {
  const kl_section *section = c->section;
  bool in_row_loop = section->loops.data[c->loop].kind == KL_LOOP_ROW;
  bool scratch = c->kernel->bufs.data[access->buf].kind == KL_BUF_SCRATCH;
  for (unsigned d = 0; d < section->n_dims; d++) {
    bool is_row_dim = d < section->n_rows;
    if (access->stride[d] > KL_STRIDE_ANY) return fail_at(c, id, "a stride class does not exist");
    if (access->stride[d] == KL_STRIDE_ZERO) continue;
    if (in_row_loop && !is_row_dim)
      return fail_at(c, id, "a row loop's access has a stride in a column dim");
    if (scratch && is_row_dim)
      return fail_at(c, id, "an access to scratch has a stride in a row dim");
  }
  return KL_OK;
}

/* The access of a load or store; `dynamic` is the operand that holds the dynamic index. */
static kl_status check_access(const checker *c, uint32_t id, int dynamic) {
  const kl_instr *instr = instr_at(c, id);
  if (instr->attr >= c->section->accesses.count) return fail_at(c, id, "its access does not exist");
  const kl_access *access = &c->section->accesses.data[instr->attr];
  if (access->buf >= c->kernel->bufs.count) return fail_at(c, id, "its buffer does not exist");
  if (!slots_fit(access->ints_at, 1u + c->section->n_dims + access->dynamic, c->kernel->n_ints))
    return fail_at(c, id, "its access reads int slots past the last");
  if (instr->dtype != c->kernel->bufs.data[access->buf].dtype)
    return fail_at(c, id, "its dtype is not the buffer's");
  if (access->dynamic != (instr->arg[dynamic] != KL_NO_VALUE))
    return fail_at(c, id, "its access and its operands differ on whether there is a dynamic index");
  if (access->dynamic) KL_TRY(check_operand(c, id, dynamic, KL_I64));
  return check_strides(c, id, access);
}

static const kl_kernel_buf *buf_of(const checker *c, uint32_t id, uint32_t *out_buf) {
  *out_buf = c->section->accesses.data[instr_at(c, id)->attr].buf;
  return &c->kernel->bufs.data[*out_buf];
}

static kl_status check_load(const checker *c, uint32_t id) {
  uint32_t buf_id;
  KL_TRY(check_absent(c, id, 1));
  KL_TRY(check_access(c, id, 0));
  const kl_kernel_buf *buf = buf_of(c, id, &buf_id);
  if (buf->kind == KL_BUF_GLOBAL && !buf->read)
    return fail_at(c, id, "its buffer is not declared as read");
  /* Scratch holds another row's values, or none, until this row's are stored. */
  if (buf->kind == KL_BUF_SCRATCH && c->buf_stores[buf_id] == 0)
    return fail_at(c, id, "it reads scratch that nothing above has written");
  return KL_OK;
}

static kl_status check_store(const checker *c, uint32_t id) {
  const kl_instr *instr = instr_at(c, id);
  uint32_t buf_id;
  if (c->repeat != KL_NO_VALUE) return fail_at(c, id, "a repeat cannot store");
  if (instr->arg[2] != KL_NO_VALUE) return fail_at(c, id, "it has too many operands");
  KL_TRY(check_access(c, id, 1));
  KL_TRY(check_operand(c, id, 0, instr->dtype));
  const kl_dtype dtype = (kl_dtype)instr->dtype;
  const char *fault = kl_op_dtype_fault((kl_op)instr->op, dtype, &dtype);
  if (fault) return fail_at(c, id, fault);
  const kl_kernel_buf *buf = buf_of(c, id, &buf_id);
  if (buf->kind == KL_BUF_GLOBAL && !buf->written)
    return fail_at(c, id, "its buffer is not declared as written");
  if (buf->kind == KL_BUF_GLOBAL && instr->op == KL_OP_STORE_ADD && !buf->read)
    return fail_at(c, id, "its buffer is not declared as read");
  if (buf->kind == KL_BUF_SCRATCH && instr->op == KL_OP_STORE_ADD && c->buf_stores[buf_id] == 0)
    return fail_at(c, id, "it reads scratch that nothing above has written");
  c->buf_stores[buf_id] = c->loop + 1;
  return KL_OK;
}

/* ------------------------------------------------------------------ repeats */

static kl_status check_repeat(checker *c, uint32_t id) {
  const kl_instr *instr = instr_at(c, id);
  if (c->repeat != KL_NO_VALUE) return fail_at(c, id, "repeats do not nest");
  if (!slots_fit(instr->attr, 1, c->kernel->n_ints))
    return fail_at(c, id, "its int slot does not exist");
  if (instr->arg[0] != KL_NO_VALUE || instr->arg[2] != KL_NO_VALUE)
    return fail_at(c, id, "it has too many operands");
  c->repeat = id;
  c->n_carries = c->n_nexts = 0;
  return KL_OK;
}

static kl_status check_carry(checker *c, uint32_t id) {
  if (c->repeat == KL_NO_VALUE || id != c->repeat + 1 + c->n_carries ||
      c->n_carries == instr_at(c, c->repeat)->arg[1])
    return fail_at(c, id, "a carry stands outside the head of a repeat");
  c->n_carries++;
  return check_plain(c, id);
}

/* NEXTs take effect together, so they stand together, one for each carry in order. */
static kl_status check_next(checker *c, uint32_t id) {
  const kl_instr *instr = instr_at(c, id);
  if (c->repeat == KL_NO_VALUE) return fail_at(c, id, "it stands outside a repeat");
  if (instr->attr != c->repeat + 1 + c->n_nexts || c->n_nexts == c->n_carries)
    return fail_at(c, id, "it does not name the carry whose turn it is");
  c->n_nexts++;
  KL_TRY(check_absent(c, id, 1));
  KL_TRY(check_operand(c, id, 0, instr->dtype));
  if (instr_at(c, instr->attr)->dtype != instr->dtype)
    return fail_at(c, id, "its dtype is not the carry's");
  return KL_OK;
}

static kl_status check_end(checker *c, uint32_t id) {
  if (c->repeat == KL_NO_VALUE) return fail_at(c, id, "it stands outside a repeat");
  KL_TRY(check_absent(c, id, 0));
  if (c->n_carries != instr_at(c, c->repeat)->arg[1] || c->n_nexts != c->n_carries)
    return fail_at(c, id, "the repeat's carries and nexts are not as many as it says");
  for (uint32_t v = c->repeat + 1 + c->n_carries; v < id; v++) c->values[v].closed = true;
  c->repeat = KL_NO_VALUE;
  return KL_OK;
}

/* ------------------------------------------------------------------ one instruction */

static kl_status check_scalar(const checker *c, uint32_t id) {
  const kl_instr *instr = instr_at(c, id);
  if (!slots_fit(instr->attr, 1, c->kernel->n_scalars))
    return fail_at(c, id, "its scalar slot does not exist");
  if (instr->arg[0] != 0 && c->repeat == KL_NO_VALUE)
    return fail_at(c, id, "a step stands outside a repeat");
  return check_absent(c, id, 1);
}

static kl_status check_index(const checker *c, uint32_t id) {
  bool in_row_loop = c->section->loops.data[c->loop].kind == KL_LOOP_ROW;
  if (instr_at(c, id)->attr >= (in_row_loop ? c->section->n_rows : c->section->n_dims))
    return fail_at(c, id, "the loop has no such dim");
  return check_plain(c, id);
}

static kl_status check_reduce(checker *c, uint32_t id) {
  if (c->section->loops.data[c->loop].kind != KL_LOOP_COL)
    return fail_at(c, id, "it stands outside a column loop");
  if (c->repeat != KL_NO_VALUE) return fail_at(c, id, "a repeat cannot reduce");
  c->values[id].is_row = c->values[id].is_reduce = true;
  return check_plain(c, id);
}

static kl_status check_instr(checker *c, uint32_t id) {
  const kl_instr *instr = instr_at(c, id);
  if (instr->op >= KL_OP_COUNT || kl_op_table[instr->op].kind == KL_KIND_GRAPH ||
      kl_op_is_write(instr->op))
    return fail_at(c, id, "it is no operation of kernels");
  bool structural = instr->op == KL_OP_REPEAT || instr->op == KL_OP_END;
  if (!structural && instr->dtype >= KL_DTYPE_COUNT)
    return fail_at(c, id, "its dtype does not exist");
  if (c->n_nexts && instr->op != KL_OP_NEXT && instr->op != KL_OP_END && c->repeat != KL_NO_VALUE)
    return fail_at(c, id, "it stands after the first next of a repeat");
  c->values[id] = (value_info){
      .loop = c->loop,
      .is_value = !structural && instr->op != KL_OP_STORE && instr->op != KL_OP_STORE_ADD &&
                  instr->op != KL_OP_NEXT,
      .is_row = c->section->loops.data[c->loop].kind == KL_LOOP_ROW,
  };
  switch (instr->op) {
    case KL_OP_LOAD:
      return check_load(c, id);
    case KL_OP_STORE:
    case KL_OP_STORE_ADD:
      return check_store(c, id);
    case KL_OP_SCALAR:
      return check_scalar(c, id);
    case KL_OP_INT:
      if (!slots_fit(instr->attr, 1, c->kernel->n_ints))
        return fail_at(c, id, "its int slot does not exist");
      return check_plain(c, id);
    case KL_OP_REPEAT:
      return check_repeat(c, id);
    case KL_OP_CARRY:
      return check_carry(c, id);
    case KL_OP_NEXT:
      return check_next(c, id);
    case KL_OP_END:
      return check_end(c, id);
    case KL_OP_INDEX:
      return check_index(c, id);
    default:
      return kl_op_is_reduce(instr->op) ? check_reduce(c, id) : check_plain(c, id);
  }
}

/* ------------------------------------------------------------------ loops and phases */

static kl_status check_loops(checker *c) {
  const kl_section *section = c->section;
  uint32_t at = 0, n_reduces = 0;
  for (c->loop = 0; c->loop < section->loops.count; c->loop++) {
    const kl_loop *loop = &section->loops.data[c->loop];
    if (loop->kind > KL_LOOP_SEQ) return fail_section(c, "a loop's kind does not exist");
    if (loop->first != at || loop->end < at || loop->end > section->instrs.count)
      return fail_section(c, "the loops do not partition the instructions");
    c->repeat = KL_NO_VALUE;
    for (; at < loop->end; at++) {
      KL_TRY(check_instr(c, at));
      n_reduces += kl_op_is_reduce(section->instrs.data[at].op);
    }
    if (c->repeat != KL_NO_VALUE) return fail_at(c, c->repeat, "the repeat has no end");
  }
  if (at != section->instrs.count)
    return fail_section(c, "the loops do not partition the instructions");
  if (n_reduces != section->n_reduces)
    return fail_section(c, "n_reduces is not the number of its reductions");
  return KL_OK;
}

static bool loop_has(const kl_section *section, uint32_t loop_id, bool (*has)(int op)) {
  const kl_loop *loop = &section->loops.data[loop_id];
  for (uint32_t id = loop->first; id < loop->end; id++)
    if (has(section->instrs.data[id].op)) return true;
  return false;
}

static bool is_reduce(int op) { return kl_op_is_reduce(op); }
static bool is_store(int op) { return op == KL_OP_STORE || op == KL_OP_STORE_ADD; }

static kl_status check_cols_phase(const checker *c, uint32_t phase_id) {
  const kl_section *section = c->section;
  const kl_phase *phase = &section->phases.data[phase_id];
  if (phase->end_loop != phase->first_loop + 1 ||
      section->loops.data[phase->first_loop].kind != KL_LOOP_COL)
    return fail_section(c, "a cols phase is not one column loop");
  if (loop_has(section, phase->first_loop, is_reduce) &&
      (phase_id + 1 == section->phases.count ||
       section->phases.data[phase_id + 1].kind != KL_PHASE_COMBINE))
    return fail_section(c, "no combine phase follows a loop that reduces");
  return KL_OK;
}

static kl_status check_combine_phase(const checker *c, uint32_t phase_id) {
  const kl_section *section = c->section;
  const kl_phase *phase = &section->phases.data[phase_id];
  if (phase_id == 0 || section->phases.data[phase_id - 1].kind != KL_PHASE_COLS)
    return fail_section(c, "a combine phase does not follow a cols phase");
  for (uint32_t l = phase->first_loop; l < phase->end_loop; l++)
    if (section->loops.data[l].kind != KL_LOOP_ROW)
      return fail_section(c, "a combine phase has a loop that is no row loop");
  return KL_OK;
}

/* COLS and COMBINE phases take the loops in order. Row loops before the first of them are only
 * computed again where needed, so they cannot store. */
static kl_status check_split_phases(const checker *c) {
  const kl_section *section = c->section;
  uint32_t at = 0;
  for (uint32_t p = 0; p < section->phases.count; p++) {
    const kl_phase *phase = &section->phases.data[p];
    if (phase->kind == KL_PHASE_ROWS || phase->kind > KL_PHASE_COMBINE)
      return fail_section(c, "a rows phase is not the only phase");
    if (phase->first_loop > phase->end_loop || phase->end_loop > section->loops.count)
      return fail_section(c, "a phase covers loops that do not exist");
    for (; p == 0 && at < phase->first_loop && section->loops.data[at].kind == KL_LOOP_ROW; at++)
      if (loop_has(section, at, is_store))
        return fail_section(c, "a row loop that stores is in no phase");
    if (phase->first_loop != at)
      return fail_section(c, "the phases do not take the loops in order");
    KL_TRY(phase->kind == KL_PHASE_COLS ? check_cols_phase(c, p) : check_combine_phase(c, p));
    at = phase->end_loop;
  }
  if (at != section->loops.count)
    return fail_section(c, "the phases do not take the loops in order");
  return KL_OK;
}

static kl_status check_phases(const checker *c) {
  const kl_section *section = c->section;
  const kl_phase *phases = section->phases.data;
  if (section->phases.count == 0) return KL_OK;
  bool rows = section->phases.count == 1 && phases[0].kind == KL_PHASE_ROWS;
  if (section->vector == KL_VECTOR_ROWS && (!rows || c->has_scratch || section->n_rows == 0))
    return fail_section(c, "vectors of rows need a rows phase without scratch");
  if (!rows && c->has_scratch) return fail_section(c, "scratch needs a rows phase");
  if (!rows) return check_split_phases(c);
  if (phases[0].first_loop != 0 || phases[0].end_loop != section->loops.count)
    return fail_section(c, "the rows phase does not cover all loops");
  return KL_OK;
}

/* Row values are computed again in every COLS and COMBINE phase that needs them: what they load
 * must not have been stored over by then. Walks backwards with, for each value, the last loop that
 * needs it, and for each buffer the nearest store at or after. `nearest` holds 1 + loop; `phase_of`
 * gives for a loop the phase that runs it. */
static kl_status check_recomputed(const checker *c, uint32_t *last_use, uint32_t *nearest,
                                  const uint32_t *phase_of) {
  const kl_section *section = c->section;
  for (uint32_t id = section->instrs.count; id-- > 0;) {
    const kl_instr *instr = instr_at(c, id);
    uint32_t loop = c->values[id].loop;
    uint32_t needed = last_use[id] > loop ? last_use[id] : loop;
    for (int a = 0; a < 3; a++) {
      uint32_t used = instr->arg[a];
      if (instr->op == KL_OP_SCALAR || instr->op == KL_OP_REPEAT || used == KL_NO_VALUE) continue;
      /* The frame keeps a reduction's result: its operand is not needed again. */
      uint32_t until = kl_op_is_reduce(instr->op) ? loop : needed;
      if (last_use[used] < until) last_use[used] = until;
    }
    if (is_store(instr->op)) nearest[section->accesses.data[instr->attr].buf] = loop + 1;
    if (instr->op != KL_OP_LOAD || section->loops.data[loop].kind != KL_LOOP_ROW) continue;
    uint32_t store = nearest[section->accesses.data[instr->attr].buf];
    if (store == 0 || needed == loop || needed < store - 1) continue;
    uint32_t store_phase = phase_of[store - 1], last_phase = phase_of[needed];
    if (store_phase < last_phase || section->phases.data[last_phase].kind == KL_PHASE_COLS)
      return fail_at(c, id, "a later phase loads it again, after a store to its buffer");
  }
  return KL_OK;
}

/* Only for the buffers of this section, so that many small sections cost no more than one large. */
static void forget_stores(const checker *c) {
  for (uint32_t a = 0; a < c->section->accesses.count; a++) {
    uint32_t buf = c->section->accesses.data[a].buf;
    if (buf < c->kernel->bufs.count) c->buf_stores[buf] = 0;
  }
}

static kl_status check_section(checker *c, uint32_t *words) {
  const kl_section *section = c->section;
  if (section->n_dims > KL_MAX_RANK || section->n_rows > section->n_dims)
    return fail_section(c, "its dims are too many");
  if (!slots_fit(section->extents_at, section->n_dims, c->kernel->n_ints))
    return fail_section(c, "its extents are past the last int slot");
  if (section->vector > KL_VECTOR_ROWS) return fail_section(c, "its vector axis does not exist");
  c->has_scratch = false;
  forget_stores(c);
  KL_TRY(check_loops(c));
  for (uint32_t id = 0; id < section->instrs.count; id++) {
    const kl_instr *instr = instr_at(c, id);
    if (instr->op == KL_OP_LOAD || is_store(instr->op))
      c->has_scratch |=
          c->kernel->bufs.data[section->accesses.data[instr->attr].buf].kind == KL_BUF_SCRATCH;
  }
  KL_TRY(check_phases(c));
  if (section->phases.count == 0 || section->phases.data[0].kind == KL_PHASE_ROWS) return KL_OK;
  uint32_t *last_use = words, *phase_of = words + section->instrs.count;
  for (uint32_t i = 0; i < section->instrs.count + section->loops.count; i++) words[i] = 0;
  for (uint32_t p = 0; p < section->phases.count; p++)
    for (uint32_t l = section->phases.data[p].first_loop; l < section->phases.data[p].end_loop; l++)
      phase_of[l] = p;
  forget_stores(c);
  return check_recomputed(c, last_use, c->buf_stores, phase_of);
}

static kl_status check_bufs(const kl_kernel *kernel) {
  for (uint32_t b = 0; b < kernel->bufs.count; b++) {
    const kl_kernel_buf *buf = &kernel->bufs.data[b];
    if (buf->dtype >= KL_DTYPE_COUNT || buf->kind > KL_BUF_SCRATCH)
      return kl_fail(KL_ERR_INTERNAL, "kernel buffer b%u: its dtype or kind does not exist", b);
  }
  return KL_OK;
}

kl_status kl_kernel_verify(const kl_kernel *kernel) {
  KL_TRY(check_bufs(kernel));
  uint64_t n_values = 0, n_words = 0;
  for (uint32_t s = 0; s < kernel->sections.count; s++) {
    const kl_section *section = &kernel->sections.data[s];
    uint64_t words = (uint64_t)section->instrs.count + section->loops.count;
    if (section->instrs.count > n_values) n_values = section->instrs.count;
    if (words > n_words) n_words = words;
  }
  kl_status status = KL_OK;
  checker c = {.kernel = kernel};
  c.values = kl_malloc(n_values * sizeof *c.values);
  c.buf_stores = kl_malloc(kernel->bufs.count * sizeof *c.buf_stores);
  uint32_t *words = kl_malloc(n_words * sizeof *words);
  if (!c.values || !c.buf_stores || !words)
    status = kl_fail_memory("kernel verifier", n_values * sizeof *c.values);
  for (uint32_t s = 0; s < kernel->sections.count && status == KL_OK; s++) {
    c.section = &kernel->sections.data[s];
    c.section_id = s;
    status = check_section(&c, words);
  }
  kl_free(c.values);
  kl_free(c.buf_stores);
  kl_free(words);
  return status;
}
