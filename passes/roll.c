/* roll: a training loop's `x = x * a + b`, written a thousand times, is one body and a count.
 *
 * An instruction matches the one a period before it when it does the same to operands that are
 * either the same value from before the loop, or a period further on. A stretch in which all match
 * is a loop; what an iteration takes from the one before it becomes a CARRY.
 */
#include "passes/roll.h"

#include <string.h>

#include "ir/support/memory.h"

enum { ROLL_LEAST = 4, LONGEST_PERIOD = 64, MOST_CARRIED = 16, WORTH_LOOKING = 16 };

/* --- nodes ------------------------------------------------------------------------------------ */

static bool same_operand(const kl_node *a, const kl_node *b, int k, int32_t period) {
  const kl_operand *x = &a->operands[k], *y = &b->operands[k];
  if (x->node < 0 || y->node < 0) return x->node < 0 && y->node < 0 && x->dtype == y->dtype;
  if (x->node != y->node && x->node != y->node + period) return false;
  return x->offset == y->offset && x->offset_slot == y->offset_slot &&
         memcmp(x->strides, y->strides, sizeof(int64_t) * a->n_dims) == 0;
}

static bool node_repeats(const kl_graph *graph, uint32_t id, uint32_t period) {
  const kl_node *a = &graph->nodes.data[id], *b = &graph->nodes.data[id - period];
  if (a->op != b->op || a->dtype != b->dtype || a->n_dims != b->n_dims || a->flags || b->flags)
    return false;
  if (!kl_op_is_elem(a->op) || memcmp(a->dims, b->dims, sizeof(int64_t) * a->n_dims) != 0)
    return false;
  for (int k = 0; k < a->n_operands; k++)
    if (!same_operand(a, b, k, (int32_t)period)) return false;
  return true;
}

void kl_find_repeats(const kl_graph *graph, bool *out_repeats) {
  uint32_t n = graph->nodes.count;
  for (uint32_t period = 1; period <= LONGEST_PERIOD / 2; period++) {
    uint32_t run = 0;
    for (uint32_t i = period; i <= n; i++) {
      if (i < n && node_repeats(graph, i, period)) {
        run++;
        continue;
      }
      if (run >= ROLL_LEAST * period) memset(out_repeats + i - run, true, run);
      run = 0;
    }
  }
}

/* --- instructions ----------------------------------------------------------------------------- */

typedef struct stretch {
  uint32_t first;  /* the loop's first instruction */
  uint32_t period, count;
} stretch;

static bool may_repeat(int op) { return kl_op_is_elem(op) || op == KL_OP_SCALAR; }

/* Whether instruction i does what i - period did. Values from [loop_first, i - period) on move. */
static bool instr_repeats(const kl_instr *instrs, uint32_t i, uint32_t period) {
  const kl_instr *a = &instrs[i], *b = &instrs[i - period];
  if (a->op != b->op || a->dtype != b->dtype || !may_repeat(a->op)) return false;
  if (a->op == KL_OP_SCALAR) return a->attr >= b->attr;
  if (a->attr != b->attr) return false;
  for (int k = 0; k < 3; k++)
    if (a->arg[k] != b->arg[k] && (a->arg[k] == KL_NO_VALUE || a->arg[k] != b->arg[k] + period))
      return false;
  return true;
}

/* The step of each SCALAR must be one number all along; cuts the stretch where it is not. */
static void cut_at_uneven_scalars(const kl_instr *instrs, stretch *s) {
  for (uint32_t j = 0; j < s->period; j++) {
    const kl_instr *body = &instrs[s->first + j];
    if (body->op != KL_OP_SCALAR || s->count < 2) continue;
    uint32_t step = body[s->period].attr - body->attr;
    for (uint32_t t = 2; t < s->count; t++)
      if (body[t * s->period].attr - body[(t - 1) * s->period].attr != step) {
        s->count = t;
        break;
      }
  }
}

/* Operand k of an instruction; what stands there in a SCALAR or a REPEAT is a number. */
static uint32_t value_read(const kl_instr *instr, int k) {
  return instr->op == KL_OP_SCALAR || instr->op == KL_OP_REPEAT ? KL_NO_VALUE : instr->arg[k];
}

/* The earliest iteration of the stretch of which a value is used after it; its last at the latest. */
static uint32_t first_used_after(const kl_instr *instrs, uint32_t end, const stretch *s) {
  uint32_t loop_end = s->first + s->period * s->count, earliest = s->count - 1;
  for (uint32_t i = loop_end; i < end; i++)
    for (int k = 0; k < 3; k++) {
      uint32_t arg = value_read(&instrs[i], k);
      if (arg == KL_NO_VALUE || arg < s->first || arg >= loop_end) continue;
      if ((arg - s->first) / s->period < earliest) earliest = (arg - s->first) / s->period;
    }
  return earliest;
}

/* Of a loop only its last values are there afterwards: it ends with the first iteration that is used
 * outside, and the rest may be a loop of its own. False where that does not help. */
static bool cut_at_used_values(const kl_instr *instrs, uint32_t end, stretch *s) {
  s->count = first_used_after(instrs, end, s) + 1;
  return s->count >= ROLL_LEAST && first_used_after(instrs, end, s) + 1 == s->count;
}

static bool find_stretch(const kl_section_builder *b, const kl_loop *loop, stretch *out_best) {
  const kl_instr *instrs = b->section.instrs.data;
  stretch best = {0};
  for (uint32_t period = 1; period <= LONGEST_PERIOD; period++) {
    uint32_t run = 0;
    for (uint32_t i = loop->first + period; i <= loop->end; i++) {
      if (i < loop->end && instr_repeats(instrs, i, period)) {
        run++;
        continue;
      }
      /* The first like period stays before the loop: it has the first values of the carried. */
      stretch s = {i - run, period, run / period};
      run = 0;
      if (s.count < ROLL_LEAST) continue;
      cut_at_uneven_scalars(instrs, &s);
      if (!cut_at_used_values(instrs, b->section.instrs.count, &s)) continue;
      if (s.count * s.period > best.count * best.period) best = s;
    }
  }
  *out_best = best;
  return best.count > 0;
}

typedef struct carried_list {
  uint32_t value[MOST_CARRIED]; /* of the iteration before the loop; the next is `period` further */
  uint32_t id[MOST_CARRIED];    /* the CARRY instruction */
  uint32_t count;
} carried_list;

static bool add_carried(carried_list *list, uint32_t value) {
  for (uint32_t i = 0; i < list->count; i++)
    if (list->value[i] == value) return true;
  if (list->count == MOST_CARRIED) return false;
  list->value[list->count++] = value;
  return true;
}

/* Taken from the iteration before, or used after the loop. */
static bool list_carried(const kl_section_builder *b, const stretch *s, carried_list *list) {
  const kl_instr *instrs = b->section.instrs.data;
  uint32_t loop_end = s->first + s->period * s->count;
  for (uint32_t j = 0; j < s->period; j++)
    for (int k = 0; k < 3; k++) {
      const kl_instr *now = &instrs[s->first + j], *next = now + s->period;
      if (now->op == KL_OP_SCALAR || now->arg[k] == KL_NO_VALUE || now->arg[k] >= s->first) continue;
      if (next->arg[k] != now->arg[k] && !add_carried(list, now->arg[k])) return false;
    }
  for (uint32_t i = loop_end; i < b->section.instrs.count; i++)
    for (int k = 0; k < 3; k++) {
      uint32_t arg = value_read(&instrs[i], k);
      if (arg == KL_NO_VALUE || arg < loop_end - s->period || arg >= loop_end) continue;
      if (!add_carried(list, arg - s->period * s->count)) return false;
    }
  return true;
}

typedef struct rewriter {
  kl_section_builder *b;
  const stretch *s;
  carried_list carried;
  uint32_t *new_id; /* of each old value */
  KL_VEC(kl_instr) out;
} rewriter;

static bool put(rewriter *r, kl_instr instr) {
  return kl_vec_push(&r->out, instr);
}

static kl_instr renumbered(const rewriter *r, kl_instr instr) {
  for (int k = 0; k < 3; k++)
    if (value_read(&instr, k) != KL_NO_VALUE) instr.arg[k] = r->new_id[instr.arg[k]];
  if (instr.op == KL_OP_NEXT) instr.attr = r->new_id[instr.attr]; /* its CARRY */
  return instr;
}

static bool put_loop(rewriter *r) {
  const stretch *s = r->s;
  const kl_instr *old = r->b->section.instrs.data;
  const kl_instr none = {.arg = {KL_NO_VALUE, KL_NO_VALUE, KL_NO_VALUE}};
  kl_instr repeat = none, end = none;
  repeat.op = KL_OP_REPEAT;
  repeat.attr = r->b->constants.count;
  repeat.arg[1] = r->carried.count;
  if (!kl_vec_push(&r->b->constants, (int64_t)s->count) || !put(r, repeat)) return false;
  for (uint32_t c = 0; c < r->carried.count; c++) {
    kl_instr carry = none;
    carry.op = KL_OP_CARRY;
    carry.dtype = old[r->carried.value[c]].dtype;
    carry.arg[0] = r->new_id[r->carried.value[c]];
    r->carried.id[c] = r->out.count;
    if (!put(r, carry)) return false;
  }
  for (uint32_t c = 0; c < r->carried.count; c++) r->new_id[r->carried.value[c]] = r->carried.id[c];
  for (uint32_t j = 0; j < s->period; j++) {
    kl_instr instr = renumbered(r, old[s->first + j]);
    if (instr.op == KL_OP_SCALAR) instr.arg[0] = old[s->first + s->period + j].attr - instr.attr;
    r->new_id[s->first + j] = r->out.count;
    if (!put(r, instr)) return false;
  }
  for (uint32_t c = 0; c < r->carried.count; c++) {
    kl_instr next = none;
    next.op = KL_OP_NEXT;
    next.dtype = old[r->carried.value[c]].dtype;
    next.attr = r->carried.id[c];
    next.arg[0] = r->new_id[r->carried.value[c] + s->period];
    if (!put(r, next)) return false;
  }
  end.op = KL_OP_END;
  return put(r, end);
}

/* After the loop a value of its last iteration is what the CARRY stands for. */
static void name_results(rewriter *r) {
  const stretch *s = r->s;
  for (uint32_t c = 0; c < r->carried.count; c++)
    r->new_id[r->carried.value[c] + s->period * s->count] = r->carried.id[c];
}

static bool rewrite(rewriter *r) {
  kl_section *section = &r->b->section;
  uint32_t n = section->instrs.count, loop_end = r->s->first + r->s->period * r->s->count;
  for (uint32_t i = 0; i < n; i++) {
    if (i == r->s->first) {
      if (!put_loop(r)) return false;
      name_results(r);
      i = loop_end;
      if (i >= n) break;
    }
    r->new_id[i] = r->out.count;
    if (!put(r, renumbered(r, section->instrs.data[i]))) return false;
  }
  uint32_t shrunk = n - r->out.count;
  for (uint32_t l = 0; l < section->loops.count; l++) {
    kl_loop *loop = &section->loops.data[l];
    if (loop->first >= loop_end) loop->first -= shrunk;
    if (loop->end >= loop_end) loop->end -= shrunk;
  }
  kl_free(section->instrs.data);
  memcpy(&section->instrs, &r->out, sizeof r->out);
  memset(&r->out, 0, sizeof r->out);
  return true;
}

static kl_status roll_stretch(kl_section_builder *b, const stretch *s, bool *out_done) {
  rewriter r = {.b = b, .s = s};
  *out_done = list_carried(b, s, &r.carried);
  if (!*out_done) return KL_OK;
  r.new_id = kl_malloc(sizeof(uint32_t) * (b->section.instrs.count + 1));
  bool ok = r.new_id != NULL && rewrite(&r);
  kl_free(r.new_id);
  kl_vec_finish(&r.out);
  return ok ? KL_OK : kl_fail_memory("roll", sizeof(kl_instr) * b->section.instrs.count);
}

kl_status kl_roll_section(kl_section_builder *b) {
  for (uint32_t l = 0; l < b->section.loops.count; l++) {
    for (bool done = true; done;) {
      const kl_loop *loop = &b->section.loops.data[l];
      stretch s;
      if (loop->kind != KL_LOOP_COL || loop->end - loop->first < WORTH_LOOKING) break;
      if (!find_stretch(b, loop, &s)) break;
      KL_TRY(roll_stretch(b, &s, &done));
    }
  }
  return KL_OK;
}
