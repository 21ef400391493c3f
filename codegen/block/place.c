/* Where the values of a program live.
 *
 * Each slot that needs one gets a block of scratch from its definition to its last use; blocks are
 * reused at once, so that a long chain stays in L1. Loads stand for the memory itself, and results
 * are written to their stored place, unless a store in between could be noticed. */
#include <string.h>

#include "codegen/block/code.h"

typedef struct placer {
  const kl_kernel *kernel;
  kl_block_program *program;
  uint32_t *def;   /* [slot]: step that defines it first; NONE: a reduction's result */
  uint32_t *last;  /* [slot]: last step that needs it; a stage's end where all of its tiles do */
  uint32_t *block; /* [slot]: in units of 64 bytes, or NONE */
  uint32_t *dying; /* [step]: list of slots by `next` */
  uint32_t *next;  /* [slot] */
  uint8_t *class_of; /* [slot]: log2 of the size of an element */
  KL_VEC(uint32_t) unused[4]; /* blocks free to take, by class */
  uint32_t top;               /* end of the blocks so far */
} placer;

static uint8_t size_class(size_t esize) { return (uint8_t)__builtin_ctzl(esize); }

static bool has_block(const kl_block_step *step) {
  switch (step->kind) {
    case KL_STEP_ELEM:
    case KL_STEP_LOAD:
    case KL_STEP_LOAD_ROWS:
    case KL_STEP_INDEX:
    case KL_STEP_EXPAND:
    case KL_STEP_COPY: return true;
    default: return false;
  }
}

/* The slots that a step reads. */
static int step_args(const kl_block_step *step, uint32_t out[3]) {
  int n = 0;
  switch (step->kind) {
    case KL_STEP_ELEM:
      for (int a = 0; step->mask >> a & 1; a++) out[n++] = step->arg[a];
      break;
    case KL_STEP_LOAD:
    case KL_STEP_LOAD_ROWS:
      if (step->arg[0] != KL_BLOCK_NONE) out[n++] = step->arg[0];
      break;
    case KL_STEP_STORE:
    case KL_STEP_STORE_ADD:
      out[n++] = step->arg[0];
      if (step->arg[1] != KL_BLOCK_NONE) out[n++] = step->arg[1];
      break;
    case KL_STEP_EXPAND:
    case KL_STEP_REDUCE:
    case KL_STEP_COPY: out[n++] = step->arg[0]; break;
    default: break;
  }
  return n;
}

/* --- Lifetimes ------------------------------------------------------------------------------- */

typedef struct repeat_range { uint32_t first, end; } repeat_range;

/* A use at `at` keeps a slot to the end of every tile loop, and of every repeat, that began after
 * its definition. */
static void use_slot(placer *p, uint32_t slot, uint32_t at, const kl_block_stage *stage,
                     const repeat_range *repeats, int depth) {
  uint32_t until = at;
  bool before = p->def[slot] == KL_BLOCK_NONE || p->def[slot] < stage->first;
  if (before && stage->kind != KL_LOOP_ROW) {
    until = stage->end;
  } else {
    for (int d = depth; d-- > 0;)
      if (before || p->def[slot] < repeats[d].first) until = repeats[d].end;
  }
  if (p->last[slot] == KL_BLOCK_NONE || p->last[slot] < until) p->last[slot] = until;
}

static void find_lifetimes(placer *p) {
  const kl_block_program *program = p->program;
  repeat_range repeats[KL_BLOCK_NESTING];
  for (uint32_t s = 0; s < program->stages.count; s++) {
    const kl_block_stage *stage = &program->stages.data[s];
    int depth = 0;
    for (uint32_t i = stage->first; i < stage->end; i++) {
      const kl_block_step *step = &program->steps.data[i];
      uint32_t args[3];
      if (step->kind == KL_STEP_REPEAT) repeats[depth++] = (repeat_range){i, step->extra};
      if (step->kind == KL_STEP_END) depth--;
      for (int n = step_args(step, args); n > 0; n--)
        use_slot(p, args[n - 1], i, stage, repeats, depth);
      if (step->dst == KL_BLOCK_NONE) continue;
      if (p->def[step->dst] == KL_BLOCK_NONE) {
        p->def[step->dst] = i;
        p->last[step->dst] = i;
        p->class_of[step->dst] = size_class(step->esize);
      } else { /* the next value of a carry */
        use_slot(p, step->dst, i, stage, repeats, depth);
      }
    }
    for (uint32_t r = stage->first_reduce; r < stage->end_reduce; r++) {
      const kl_block_reduce *reduce = &program->reduces.data[r];
      p->class_of[reduce->dst] = size_class(reduce->result_esize);
      if (p->last[reduce->dst] == KL_BLOCK_NONE) p->last[reduce->dst] = stage->end;
    }
  }
}

/* --- In place -------------------------------------------------------------------------------- */

static uint32_t buf_of(const placer *p, uint32_t view) {
  return p->program->forms.data[view].access->buf;
}

static bool may_meet(const placer *p, uint32_t a, uint32_t b) {
  const kl_kernel_buf *bufs = p->kernel->bufs.data;
  return a == b || (!bufs[a].noalias && !bufs[b].noalias);
}

/* Whether a load or store that may meet `buf` stands at one of the steps [first, end). */
static bool touched(const placer *p, uint32_t buf, uint32_t first, uint32_t end, bool loads) {
  for (uint32_t i = first; i < end && i < p->program->steps.count; i++) {
    const kl_block_step *step = &p->program->steps.data[i];
    bool store = step->kind == KL_STEP_STORE || step->kind == KL_STEP_STORE_ADD;
    bool load = step->kind == KL_STEP_LOAD || step->kind == KL_STEP_LOAD_ROWS;
    if ((store || (loads && load)) && may_meet(p, buf, buf_of(p, step->view))) return true;
  }
  return false;
}

/* Lets the step that computes a stored value write it to its place, where nobody can tell: the two
 * in one stage (repeats neither store nor show what they compute), nothing in between that touches the buffer, and no other store
 * to it while the value is still read. */
static void place_stores(placer *p, const kl_block_stage *stage) {
  for (uint32_t i = stage->first; i < stage->end; i++) {
    kl_block_step *steps = p->program->steps.data, *store = &steps[i];
    if (store->kind != KL_STEP_STORE || store->arg[1] != KL_BLOCK_NONE) continue;
    uint32_t at = p->def[store->arg[0]], buf = buf_of(p, store->view);
    if (at == KL_BLOCK_NONE || at < stage->first) continue;
    kl_block_step *maker = &steps[at];
    if (maker->kind != KL_STEP_ELEM || maker->into != KL_BLOCK_NONE ||
        maker->esize != store->esize || stage->one_by_one)
      continue;
    if (touched(p, buf, at, i, true)) continue;
    if (touched(p, buf, i + 1, p->last[store->arg[0]] + 1, false)) continue;
    maker->into = store->view;
  }
}

/* A load must be copied where a store that may meet it comes before its last use. A step that
 * computes in place may itself read what it overwrites, the same element of the same buffer. */
static void place_loads(placer *p) {
  const kl_block_program *program = p->program;
  for (uint32_t i = 0; i < program->steps.count; i++) {
    kl_block_step *load = &program->steps.data[i];
    if (load->kind != KL_STEP_LOAD) continue;
    uint32_t buf = buf_of(p, load->view), last = p->last[load->dst];
    for (uint32_t j = i + 1; j <= last && j < program->steps.count; j++) {
      const kl_block_step *step = &program->steps.data[j];
      bool store = step->kind == KL_STEP_STORE || step->kind == KL_STEP_STORE_ADD;
      uint32_t view = step->kind == KL_STEP_ELEM ? step->into : store ? step->view : KL_BLOCK_NONE;
      if (view == KL_BLOCK_NONE || !may_meet(p, buf, buf_of(p, view))) continue;
      if (j < last || (!store && buf_of(p, view) != buf)) load->copies = true;
    }
  }
}

/* Whether a stage is a chain: its elementwise steps are called in one go, all that they load and
 * store is in place, and nothing follows a store. */
static bool is_chain(const placer *p, const kl_block_stage *stage) {
  const kl_block_step *steps = p->program->steps.data;
  int n_calls = 0;
  bool stored = false;
  for (uint32_t i = stage->first; i < stage->end; i++) {
    const kl_block_step *step = &steps[i];
    bool fine = !stored;
    switch (step->kind) {
      case KL_STEP_LOAD: fine &= step->arg[0] == KL_BLOCK_NONE && !step->copies; break;
      case KL_STEP_ELEM: fine &= ++n_calls <= KL_BLOCK_CALLS; break;
      case KL_STEP_SCALAR:
      case KL_STEP_INT:
      case KL_STEP_FRAME:
      case KL_STEP_EXPAND: break;
      case KL_STEP_STORE: {
        uint32_t at = p->def[step->arg[0]];
        fine = at != KL_BLOCK_NONE && at >= stage->first && steps[at].into == step->view;
        stored = true;
        break;
      }
      default: return false;
    }
    if (!fine) return false;
  }
  return stage->kind == KL_LOOP_COL && stored;
}

/* The step that computes a carry's next value may write it to the carry's block when the old
 * value is not read any more: then the copy at the end of the body has nothing to do. */
static void place_nexts(placer *p, uint32_t repeat) {
  kl_block_step *steps = p->program->steps.data;
  uint32_t end = steps[repeat].extra;
  for (uint32_t i = end; steps[i - 1].kind == KL_STEP_COPY; i--) {
    const kl_block_step *copy = &steps[i - 1];
    uint32_t at = p->def[copy->arg[0]];
    if (at == KL_BLOCK_NONE || at < repeat || steps[at].kind != KL_STEP_ELEM) continue;
    if (p->block[copy->dst] == KL_BLOCK_NONE || p->block[copy->arg[0]] != KL_BLOCK_NONE) continue;
    bool read = false, nested = false;
    for (uint32_t j = at + 1; j < end; j++) {
      uint32_t args[3];
      for (int n = step_args(&steps[j], args); n > 0; n--) read |= args[n - 1] == copy->dst;
      nested |= steps[j].kind == KL_STEP_END;
    }
    if (!read && !nested) p->block[copy->arg[0]] = p->block[copy->dst];
  }
}

/* --- Blocks ---------------------------------------------------------------------------------- */

static uint32_t take_block(placer *p, uint8_t class) {
  if (p->unused[class].count > 0) return p->unused[class].data[--p->unused[class].count];
  uint32_t block = p->top;
  p->top += (uint32_t)(KL_CHUNK << class) / 64;
  return block;
}

/* Gives back the blocks of the slots that die at a step. The lists have room from the start. */
static void release_dying(placer *p, uint32_t step) {
  for (uint32_t slot = p->dying[step]; slot != KL_BLOCK_NONE; slot = p->next[slot]) {
    if (p->block[slot] == KL_BLOCK_NONE) continue;
    uint8_t class = p->class_of[slot];
    p->unused[class].data[p->unused[class].count++] = p->block[slot];
  }
  p->dying[step] = KL_BLOCK_NONE;
}

static void define_slot(placer *p, uint32_t slot) {
  if (p->block[slot] != KL_BLOCK_NONE) return;
  p->block[slot] = take_block(p, p->class_of[slot]);
  uint32_t last = p->last[slot];
  p->next[slot] = p->dying[last];
  p->dying[last] = slot;
}

static void place_stage(placer *p, const kl_block_stage *stage) {
  kl_block_program *program = p->program;
  for (uint32_t r = stage->first_reduce; r < stage->end_reduce; r++) {
    kl_block_reduce *reduce = &program->reduces.data[r];
    define_slot(p, reduce->dst);
    reduce->block = p->block[reduce->dst];
  }
  for (uint32_t i = stage->first; i < stage->end; i++) {
    kl_block_step *step = &program->steps.data[i];
    if (i > 0) release_dying(p, i - 1);
    if (step->kind == KL_STEP_REPEAT) place_nexts(p, i);
    if (step->kind == KL_STEP_REDUCE) { /* room to spell out a uniform operand */
      uint8_t class = size_class(step->esize);
      step->block = take_block(p, class);
      p->unused[class].data[p->unused[class].count++] = step->block;
    }
    if (!has_block(step)) continue;
    if (step->kind == KL_STEP_ELEM) release_dying(p, i); /* may compute in place of an operand */
    define_slot(p, step->dst);
    step->block = p->block[step->dst];
  }
}

static uint32_t units(size_t nbytes) { return (uint32_t)((nbytes + 63) / 64); }

static void lay_out(placer *p, bool row_vectors) {
  kl_block_program *program = p->program;
  program->values_at = 0;
  program->views_at = units(program->n_slots * 16);
  program->blocks_at =
      program->views_at + units(program->forms.count * sizeof(kl_block_view)) + 1;
  for (uint32_t s = 0; s < program->stages.count; s++) place_stage(p, &program->stages.data[s]);
  for (uint32_t r = 0; r < program->reduces.count; r++) {
    program->reduces.data[r].state = p->top;
    p->top += units(kl_block_fold_nbytes(&program->reduces.data[r], row_vectors));
  }
  program->end_at = program->blocks_at + p->top;
}

static kl_status place(placer *p, bool row_vectors) {
  uint32_t n_slots = p->program->n_slots, n_steps = p->program->steps.count;
  size_t n_words = 4 * (size_t)n_slots + n_steps + 1;
  uint32_t *words = kl_malloc(n_words * sizeof *words + n_slots);
  if (words == NULL) return kl_fail_memory("block code", n_words * sizeof *words);
  memset(words, 0xff, n_words * sizeof *words);
  p->def = words;
  p->last = p->def + n_slots;
  p->block = p->last + n_slots;
  p->next = p->block + n_slots;
  p->dying = p->next + n_slots;
  p->class_of = (uint8_t *)(p->dying + n_steps + 1);
  find_lifetimes(p);
  for (uint32_t s = 0; s < p->program->stages.count; s++)
    place_stores(p, &p->program->stages.data[s]);
  place_loads(p);
  for (uint32_t s = 0; s < p->program->stages.count; s++)
    p->program->stages.data[s].chain = is_chain(p, &p->program->stages.data[s]);
  lay_out(p, row_vectors);
  kl_free(words);
  return KL_OK;
}

kl_status kl_block_place(const kl_kernel *kernel, kl_block_program *program, bool row_vectors) {
  placer p = {.kernel = kernel, .program = program};
  kl_status status = KL_OK;
  uint32_t n_blocks = program->n_slots + program->reduces.count + 1;
  for (int class = 0; class < 4 && status == KL_OK; class++)
    if (!kl_vec_reserve(&p.unused[class], n_blocks))
      status = kl_fail_memory("block code", n_blocks);
  if (status == KL_OK) status = place(&p, row_vectors);
  for (int class = 0; class < 4; class++) kl_vec_finish(&p.unused[class]);
  return status;
}
