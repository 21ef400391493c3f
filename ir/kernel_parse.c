/* Kernel IR from text: the form that ir/kernel_print.c writes.
 *
 * The parser checks the form (names exist, numbers fit their fields, lists have the right length);
 * what the kernel means is for kl_kernel_verify. Value numbers must ascend within a section, but
 * may leave gaps; they are given anew, as indices into `instrs`. Memory and time are linear in the
 * text. Stored errors start with line:column. */
#include <string.h>

#include "ir/kernel.h"
#include "ir/support/scan.h"
#include "ir/support/text.h"

enum {
  MAX_SLOTS = 1 << 24, /* ints, scalars */
  MAX_ITEMS = 65535,   /* bufs, sections, loops: what 16-bit fields can count */
  MAX_VALUE = 1 << 24,
};

typedef struct name {
  uint32_t number; /* as in the text */
  uint32_t id;     /* index in `instrs` */
} name;

typedef struct parser {
  kl_scan scan;
  kl_kernel kernel;
  kl_section *section;
  KL_VEC(name) names; /* of this section, numbers ascending */
} parser;

#define PUSH(vec, value)                                                                           \
  do {                                                                                             \
    if (!kl_vec_push(vec, value)) return kl_fail_memory("kernel text", sizeof *(vec)->data);       \
  } while (0)

static kl_status parse_int_slot(parser *p, uint32_t *out_slot) {
  return kl_scan_numbered(&p->scan, 'i', "an int slot", MAX_SLOTS, out_slot);
}

/* The value named here; it must stand above, in the same section. */
static kl_status parse_value(parser *p, uint32_t *out_id) {
  kl_scan at = p->scan;
  uint32_t number;
  KL_TRY(kl_scan_numbered(&p->scan, 'v', "a value", MAX_VALUE, &number));
  uint32_t low = 0, high = p->names.count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (p->names.data[middle].number < number)
      low = middle + 1;
    else
      high = middle;
  }
  if (low == p->names.count || p->names.data[low].number != number)
    return kl_scan_fail(&at, "a value defined above in this section");
  *out_id = p->names.data[low].id;
  return KL_OK;
}

static kl_status parse_stride_class(parser *p, uint8_t *out_class) {
  static const char *const names[] = {"zero", "one", "any"};
  for (uint8_t cls = 0; cls < 3; cls++) {
    if (kl_scan_accept(&p->scan, names[cls])) {
      *out_class = cls;
      return KL_OK;
    }
  }
  return kl_scan_fail(&p->scan, "a stride class: zero, one or any");
}

/* b0 [i2; any, one] at v3 */
static kl_status parse_access(parser *p, uint32_t *out_access, uint32_t *out_dynamic) {
  kl_access access = {0};
  KL_TRY(kl_scan_numbered(&p->scan, 'b', "a buffer", MAX_ITEMS, &access.buf));
  KL_TRY(kl_scan_expect(&p->scan, "["));
  KL_TRY(parse_int_slot(p, &access.ints_at));
  for (unsigned d = 0; d < p->section->n_dims; d++) {
    KL_TRY(kl_scan_expect(&p->scan, d ? "," : ";"));
    KL_TRY(parse_stride_class(p, &access.stride[d]));
  }
  KL_TRY(kl_scan_expect(&p->scan, "]"));
  access.dynamic = kl_scan_accept(&p->scan, "at");
  *out_dynamic = KL_NO_VALUE;
  if (access.dynamic) KL_TRY(parse_value(p, out_dynamic));
  *out_access = p->section->accesses.count;
  PUSH(&p->section->accesses, access);
  return KL_OK;
}

static kl_status parse_operands(parser *p, kl_instr *instr, int count) {
  for (int a = 0; a < count; a++) {
    if (a) KL_TRY(kl_scan_expect(&p->scan, ","));
    KL_TRY(parse_value(p, &instr->arg[a]));
  }
  return KL_OK;
}

static kl_status parse_step(parser *p, kl_instr *instr) {
  uint64_t step = 0;
  if (kl_scan_accept(&p->scan, "step")) KL_TRY(kl_scan_uint(&p->scan, "a step", MAX_SLOTS, &step));
  instr->arg[0] = (uint32_t)step;
  return KL_OK;
}

static kl_status parse_rest(parser *p, kl_instr *instr) {
  switch (instr->op) {
    case KL_OP_LOAD:
      return parse_access(p, &instr->attr, &instr->arg[0]);
    case KL_OP_STORE:
    case KL_OP_STORE_ADD:
      KL_TRY(parse_access(p, &instr->attr, &instr->arg[1]));
      KL_TRY(kl_scan_expect(&p->scan, ","));
      return parse_operands(p, instr, 1);
    case KL_OP_SCALAR:
      KL_TRY(kl_scan_numbered(&p->scan, 's', "a scalar slot", MAX_SLOTS, &instr->attr));
      return parse_step(p, instr);
    case KL_OP_INT:
      return parse_int_slot(p, &instr->attr);
    case KL_OP_INDEX:
      return kl_scan_numbered(&p->scan, 'd', "a dim", KL_MAX_RANK, &instr->attr);
    case KL_OP_NEXT:
      KL_TRY(parse_value(p, &instr->attr));
      KL_TRY(kl_scan_expect(&p->scan, ","));
      return parse_operands(p, instr, 1);
    default:
      return parse_operands(p, instr, kl_op_table[instr->op].arity);
  }
}

static bool op_has_value(int op) {
  return op != KL_OP_STORE && op != KL_OP_STORE_ADD && op != KL_OP_NEXT;
}

/* "add.f32"; `named` tells whether "v3 =" stood before it. */
static kl_status parse_op(parser *p, bool named, kl_instr *instr) {
  kl_op op;
  if (p->scan.kind != KL_TOKEN_NAME || !kl_op_from_text(p->scan.text, p->scan.nbytes, &op) ||
      kl_op_table[op].kind == KL_KIND_GRAPH || kl_op_is_write(op) || op == KL_OP_REPEAT ||
      op == KL_OP_END)
    return kl_scan_fail(&p->scan, "an operation of kernels");
  if (op_has_value(op) != named)
    return kl_scan_fail(&p->scan, named ? "an operation that has a value" : "'vN =' before it");
  kl_scan_next(&p->scan);
  kl_dtype dtype;
  KL_TRY(kl_scan_expect(&p->scan, "."));
  KL_TRY(kl_scan_dtype(&p->scan, &dtype));
  instr->op = (uint16_t)op;
  instr->dtype = (uint8_t)dtype;
  return KL_OK;
}

static kl_status parse_instr(parser *p) {
  kl_instr instr = {.arg = {KL_NO_VALUE, KL_NO_VALUE, KL_NO_VALUE}};
  name own = {.id = p->section->instrs.count};
  bool named = kl_scan_is_numbered(&p->scan, 'v');
  if (named) {
    kl_scan at = p->scan;
    KL_TRY(kl_scan_numbered(&p->scan, 'v', "a value", MAX_VALUE, &own.number));
    if (p->names.count && p->names.data[p->names.count - 1].number >= own.number)
      return kl_scan_fail(&at, "a value number above those before it");
    KL_TRY(kl_scan_expect(&p->scan, "="));
  }
  KL_TRY(parse_op(p, named, &instr));
  KL_TRY(parse_rest(p, &instr));
  PUSH(&p->section->instrs, instr);
  if (named) PUSH(&p->names, own);
  return KL_OK;
}

/* repeat i4 carries 1 { ... } */
static kl_status parse_repeat(parser *p) {
  kl_instr repeat = {.op = KL_OP_REPEAT, .arg = {KL_NO_VALUE, KL_NO_VALUE, KL_NO_VALUE}};
  kl_instr end = {.op = KL_OP_END, .arg = {KL_NO_VALUE, KL_NO_VALUE, KL_NO_VALUE}};
  uint64_t n_carried;
  KL_TRY(kl_scan_expect(&p->scan, "repeat"));
  KL_TRY(parse_int_slot(p, &repeat.attr));
  KL_TRY(kl_scan_expect(&p->scan, "carries"));
  KL_TRY(kl_scan_uint(&p->scan, "a count of carried values", MAX_VALUE, &n_carried));
  KL_TRY(kl_scan_expect(&p->scan, "{"));
  repeat.arg[1] = (uint32_t)n_carried;
  PUSH(&p->section->instrs, repeat);
  while (!kl_scan_accept(&p->scan, "}")) KL_TRY(parse_instr(p));
  PUSH(&p->section->instrs, end);
  return KL_OK;
}

static kl_status parse_loop(parser *p, kl_loop_kind kind) {
  kl_loop loop = {.kind = (uint8_t)kind, .first = p->section->instrs.count};
  if (p->section->loops.count == MAX_ITEMS) return kl_scan_fail(&p->scan, "no more loops");
  kl_scan_next(&p->scan);
  KL_TRY(kl_scan_expect(&p->scan, "{"));
  while (!kl_scan_accept(&p->scan, "}"))
    KL_TRY(kl_scan_is(&p->scan, "repeat") ? parse_repeat(p) : parse_instr(p));
  loop.end = p->section->instrs.count;
  PUSH(&p->section->loops, loop);
  return KL_OK;
}

/* phase combine 1..2; without a range it covers all loops */
static kl_status parse_phase(parser *p) {
  static const char *const names[] = {"rows", "cols", "combine"};
  kl_section *section = p->section;
  kl_phase phase = {.end_loop = (uint16_t)section->loops.count};
  uint64_t first, end;
  KL_TRY(kl_scan_expect(&p->scan, "phase"));
  while (phase.kind < 3 && !kl_scan_accept(&p->scan, names[phase.kind])) phase.kind++;
  if (phase.kind == 3) return kl_scan_fail(&p->scan, "a kind of phase: rows, cols or combine");
  if (p->scan.kind == KL_TOKEN_NUMBER) {
    KL_TRY(kl_scan_uint(&p->scan, "a loop", section->loops.count, &first));
    KL_TRY(kl_scan_expect(&p->scan, "."));
    KL_TRY(kl_scan_expect(&p->scan, "."));
    KL_TRY(kl_scan_uint(&p->scan, "the loop after the last", section->loops.count, &end));
    phase.first_loop = (uint16_t)first;
    phase.end_loop = (uint16_t)end;
  }
  PUSH(&section->phases, phase);
  return KL_OK;
}

static kl_status parse_section_head(parser *p) {
  kl_section *section = p->section;
  uint64_t n_rows, n_dims;
  KL_TRY(kl_scan_expect(&p->scan, "section"));
  KL_TRY(kl_scan_setting(&p->scan, "rows", KL_MAX_RANK, &n_rows));
  KL_TRY(kl_scan_setting(&p->scan, "dims", KL_MAX_RANK, &n_dims));
  KL_TRY(kl_scan_expect(&p->scan, "extents"));
  KL_TRY(kl_scan_expect(&p->scan, "="));
  KL_TRY(parse_int_slot(p, &section->extents_at));
  KL_TRY(kl_scan_expect(&p->scan, "vector"));
  KL_TRY(kl_scan_expect(&p->scan, "="));
  if (kl_scan_accept(&p->scan, "rows"))
    section->vector = KL_VECTOR_ROWS;
  else
    KL_TRY(kl_scan_expect(&p->scan, "cols"));
  section->n_rows = (uint8_t)n_rows;
  section->n_dims = (uint8_t)n_dims;
  return kl_scan_expect(&p->scan, "{");
}

static kl_status parse_section(parser *p) {
  static const char *const loops[] = {"row", "cols", "seq"};
  if (p->kernel.sections.count == MAX_ITEMS) return kl_scan_fail(&p->scan, "no more sections");
  PUSH(&p->kernel.sections, (kl_section){0});
  p->section = &p->kernel.sections.data[p->kernel.sections.count - 1];
  p->names.count = 0;
  KL_TRY(parse_section_head(p));
  for (bool more = true; more;) {
    more = false;
    for (int kind = 0; kind < 3 && !more; kind++) {
      more = kl_scan_is(&p->scan, loops[kind]);
      if (more) KL_TRY(parse_loop(p, (kl_loop_kind)kind));
    }
  }
  while (kl_scan_is(&p->scan, "phase")) KL_TRY(parse_phase(p));
  for (uint32_t i = 0; i < p->section->instrs.count; i++)
    p->section->n_reduces += kl_op_is_reduce(p->section->instrs.data[i].op);
  return kl_scan_expect(&p->scan, "}");
}

/* buf b0 f32 read write noalias, or buf b0 f32 scratch */
static kl_status parse_buf(parser *p) {
  kl_kernel_buf buf = {0};
  uint32_t number;
  kl_dtype dtype;
  KL_TRY(kl_scan_expect(&p->scan, "buf"));
  kl_scan at = p->scan;
  KL_TRY(kl_scan_numbered(&p->scan, 'b', "a buffer", MAX_ITEMS, &number));
  if (number != p->kernel.bufs.count) return kl_scan_fail(&at, "buffers numbered in order");
  KL_TRY(kl_scan_dtype(&p->scan, &dtype));
  buf.dtype = (uint8_t)dtype;
  if (kl_scan_accept(&p->scan, "scratch")) {
    buf.kind = KL_BUF_SCRATCH;
    buf.read = buf.written = buf.noalias = true;
  } else {
    buf.read = kl_scan_accept(&p->scan, "read");
    buf.written = kl_scan_accept(&p->scan, "write");
    buf.noalias = kl_scan_accept(&p->scan, "noalias");
  }
  PUSH(&p->kernel.bufs, buf);
  return KL_OK;
}

static kl_status parse_kernel(parser *p) {
  uint64_t n_ints, n_scalars;
  KL_TRY(kl_scan_expect(&p->scan, "kernel"));
  KL_TRY(kl_scan_setting(&p->scan, "ints", MAX_SLOTS, &n_ints));
  KL_TRY(kl_scan_setting(&p->scan, "scalars", MAX_SLOTS, &n_scalars));
  KL_TRY(kl_scan_expect(&p->scan, "{"));
  p->kernel.n_ints = (uint32_t)n_ints;
  p->kernel.n_scalars = (uint32_t)n_scalars;
  while (kl_scan_is(&p->scan, "buf")) KL_TRY(parse_buf(p));
  while (kl_scan_is(&p->scan, "section")) KL_TRY(parse_section(p));
  KL_TRY(kl_scan_expect(&p->scan, "}"));
  return kl_scan_expect_end(&p->scan);
}

kl_status kl_kernel_parse(const char *text, size_t nbytes, kl_kernel *out_kernel) {
  parser p = {0};
  kl_scan_init(&p.scan, text, nbytes);
  kl_status status = parse_kernel(&p);
  if (status == KL_OK)
    *out_kernel = p.kernel;
  else
    kl_kernel_finish(&p.kernel);
  kl_vec_finish(&p.names);
  return status;
}
