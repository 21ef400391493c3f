/* Kernel IR as text. The form, by example (ir/kernel_parse.c reads it back):
 *
 *   kernel ints=14 scalars=1 {
 *     buf b0 f32 read noalias
 *     section rows=1 dims=2 extents=i0 vector=cols {
 *       cols {
 *         v0 = load.f32 b0 [i2; any, one]
 *       ...
 * A value is named by its index in `instrs`, so the text of a section can be held against its code.
 * A kernel that breaks rules is printed too, as far as it goes: the printer serves debugging. */
#include "ir/kernel.h"
#include "ir/support/text.h"

static void print_value(uint32_t value, kl_text *out) {
  if (value == KL_NO_VALUE)
    kl_text_add(out, "none");
  else
    kl_text_add(out, "v%u", value);
}

/* b0 [i2; any, one] at v3 */
static void print_access(const kl_section *section, uint32_t id, uint32_t dynamic, kl_text *out) {
  static const char *const names[] = {"zero", "one", "any"};
  if (id >= section->accesses.count) {
    kl_text_add(out, " bad_access_%u", id);
    return;
  }
  const kl_access *access = &section->accesses.data[id];
  kl_text_add(out, " b%u [i%u", access->buf, access->ints_at);
  for (unsigned d = 0; d < section->n_dims && d < KL_MAX_RANK; d++) {
    unsigned cls = access->stride[d];
    kl_text_add(out, "%s%s", d ? ", " : "; ", cls < 3 ? names[cls] : "bad_class");
  }
  kl_text_add(out, "]");
  if (access->dynamic) {
    kl_text_add(out, " at ");
    print_value(dynamic, out);
  }
}

static void print_operands(const kl_instr *instr, int first, int end, kl_text *out) {
  for (int a = first; a < end; a++) {
    kl_text_add(out, a > first ? ", " : " ");
    print_value(instr->arg[a], out);
  }
}

/* What stands after the name of the operation. */
static void print_rest(const kl_section *section, const kl_instr *instr, kl_text *out) {
  switch (instr->op) {
    case KL_OP_LOAD:
      print_access(section, instr->attr, instr->arg[0], out);
      break;
    case KL_OP_STORE:
    case KL_OP_STORE_ADD:
      print_access(section, instr->attr, instr->arg[1], out);
      kl_text_add(out, ",");
      print_operands(instr, 0, 1, out);
      break;
    case KL_OP_SCALAR:
      kl_text_add(out, " s%u", instr->attr);
      if (instr->arg[0] != 0) kl_text_add(out, " step %u", instr->arg[0]);
      break;
    case KL_OP_INT:
      kl_text_add(out, " i%u", instr->attr);
      break;
    case KL_OP_INDEX:
      kl_text_add(out, " d%u", instr->attr);
      break;
    case KL_OP_NEXT:
      kl_text_add(out, " v%u,", instr->attr);
      print_operands(instr, 0, 1, out);
      break;
    default:
      print_operands(instr, 0, kl_op_table[instr->op].arity, out);
  }
}

/* One line, and the depth that the next one has. */
static int print_instr(const kl_section *section, uint32_t id, int depth, kl_text *out) {
  const kl_instr *instr = &section->instrs.data[id];
  if (instr->op == KL_OP_END && depth > 0) depth--;
  kl_text_add(out, "%*s", 6 + 2 * depth, "");
  if (instr->op >= KL_OP_COUNT) {
    kl_text_add(out, "bad_op_%u\n", instr->op);
    return depth;
  }
  if (instr->op == KL_OP_END) {
    kl_text_add(out, "}\n");
    return depth;
  }
  if (instr->op == KL_OP_REPEAT) {
    kl_text_add(out, "repeat i%u carries %u {\n", instr->attr, instr->arg[1]);
    return depth + 1;
  }
  bool has_value =
      instr->op != KL_OP_STORE && instr->op != KL_OP_STORE_ADD && instr->op != KL_OP_NEXT;
  if (has_value) kl_text_add(out, "v%u = ", id);
  kl_text_add(out, "%s.%s", kl_op_table[instr->op].text,
              instr->dtype < KL_DTYPE_COUNT ? kl_dtype_name((kl_dtype)instr->dtype) : "bad_dtype");
  print_rest(section, instr, out);
  kl_text_add(out, "\n");
  return depth;
}

static void print_loop(const kl_section *section, const kl_loop *loop, kl_text *out) {
  static const char *const names[] = {"row", "cols", "seq"};
  kl_text_add(out, "    %s {\n", loop->kind < 3 ? names[loop->kind] : "bad_loop");
  int depth = 0;
  for (uint32_t id = loop->first; id < loop->end && id < section->instrs.count; id++)
    depth = print_instr(section, id, depth, out);
  kl_text_add(out, "    }\n");
}

static void print_phase(const kl_section *section, const kl_phase *phase, kl_text *out) {
  static const char *const names[] = {"rows", "cols", "combine"};
  kl_text_add(out, "    phase %s", phase->kind < 3 ? names[phase->kind] : "bad_phase");
  if (phase->first_loop != 0 || phase->end_loop != section->loops.count)
    kl_text_add(out, " %u..%u", phase->first_loop, phase->end_loop);
  kl_text_add(out, "\n");
}

static void print_section(const kl_section *section, kl_text *out) {
  kl_text_add(out, "  section rows=%u dims=%u extents=i%u vector=%s {\n", section->n_rows,
              section->n_dims, section->extents_at,
              section->vector == KL_VECTOR_ROWS ? "rows" : "cols");
  for (uint32_t l = 0; l < section->loops.count; l++)
    print_loop(section, &section->loops.data[l], out);
  for (uint32_t p = 0; p < section->phases.count; p++)
    print_phase(section, &section->phases.data[p], out);
  kl_text_add(out, "  }\n");
}

static void print_buf(uint32_t id, const kl_kernel_buf *buf, kl_text *out) {
  kl_text_add(out, "  buf b%u %s", id,
              buf->dtype < KL_DTYPE_COUNT ? kl_dtype_name((kl_dtype)buf->dtype) : "bad_dtype");
  if (buf->kind == KL_BUF_SCRATCH) {
    kl_text_add(out, " scratch\n");
    return;
  }
  kl_text_add(out, "%s%s%s\n", buf->read ? " read" : "", buf->written ? " write" : "",
              buf->noalias ? " noalias" : "");
}

kl_status kl_kernel_print(const kl_kernel *kernel, kl_text *out) {
  kl_text_add(out, "kernel ints=%u scalars=%u {\n", kernel->n_ints, kernel->n_scalars);
  for (uint32_t b = 0; b < kernel->bufs.count; b++) print_buf(b, &kernel->bufs.data[b], out);
  for (uint32_t s = 0; s < kernel->sections.count; s++)
    print_section(&kernel->sections.data[s], out);
  kl_text_add(out, "}\n");
  return kl_text_status(out);
}
