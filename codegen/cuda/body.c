/* Instructions as statements: a value vN of the IR is a constant vN of CUDA C++, coordinates are
 * c0, c1, ...; arithmetic is calls of codegen/math. */
#include "codegen/cuda/emit.h"

void kl_cuda_coordinates(kl_cuda_emit_state *e, unsigned first, unsigned end, const char *from) {
  if (first == end) return;
  if (first + 1 == end) {
    kl_cuda_line(e, "const long long c%u = %s;", first, from);
    return;
  }
  kl_cuda_line(e, "long long rest%u = %s;", first, from);
  for (unsigned d = end - 1; d > first; d--)
    kl_cuda_line(e, "const long long c%u = rest%u %% e%u; rest%u /= e%u;", d, first, d, first, d);
  kl_cuda_line(e, "const long long c%u = rest%u;", first, first);
}

/* b0[args.ints[2] + args.ints[3] * c0 + c1] */
static void element(kl_cuda_emit_state *e, const kl_instr *instr, uint32_t dynamic) {
  const kl_access *access = &e->section->accesses.data[instr->attr];
  unsigned n_dims = e->section->n_dims;
  kl_text_add(e->out, "b%u[args.ints[%u]", access->buf, access->ints_at);
  for (unsigned d = 0; d < n_dims; d++) {
    if (access->stride[d] == KL_STRIDE_ONE) kl_text_add(e->out, " + c%u", d);
    if (access->stride[d] == KL_STRIDE_ANY)
      kl_text_add(e->out, " + args.ints[%u] * c%u", access->ints_at + 1 + d, d);
  }
  if (access->dynamic)
    kl_text_add(e->out, " + args.ints[%u] * v%u", access->ints_at + 1 + n_dims, dynamic);
  kl_text_add(e->out, "]");
}

/* A row loop is computed by every thread of its group; one of them stores, after all have read
 * and before any reads again. */
static void store(kl_cuda_emit_state *e, const kl_instr *instr, bool in_row_loop) {
  bool by_one = in_row_loop && e->group != KL_CUDA_BY_THREAD;
  if (by_one) kl_cuda_line(e, "%s", kl_cuda_sync(e));
  kl_text_add(e->out, "%*s%s", 2 * e->depth, "", by_one ? "if (thread == 0) " : "");
  element(e, instr, instr->arg[1]);
  if (instr->op == KL_OP_STORE) {
    kl_text_add(e->out, " = v%u;\n", instr->arg[0]);
  } else {
    kl_text_add(e->out, " = kl_math_add_%s(", kl_cuda_token(instr->dtype));
    element(e, instr, instr->arg[1]);
    kl_text_add(e->out, ", v%u);\n", instr->arg[0]);
  }
  if (by_one) kl_cuda_line(e, "%s", kl_cuda_sync(e));
}

static void elementwise(kl_cuda_emit_state *e, const kl_instr *instr) {
  const kl_op_info *info = &kl_op_table[instr->op];
  if (instr->op == KL_OP_INDEX) {
    kl_text_add(e->out, "c%u", instr->attr);
    return;
  }
  int from = e->section->instrs.data[instr->arg[0]].dtype;
  bool converts = instr->op == KL_OP_CAST || instr->op == KL_OP_BITCAST;
  if (instr->op == KL_OP_COPY || (converts && from == instr->dtype)) {
    kl_text_add(e->out, "v%u", instr->arg[0]);
    return;
  }
  int token = instr->op == KL_OP_SELECT ? instr->dtype : from;
  kl_text_add(e->out, "kl_math_%s_%s", info->text, kl_cuda_token(token));
  if (converts) kl_text_add(e->out, "_%s", kl_cuda_token(instr->dtype));
  for (int a = 0; a < info->arity; a++) kl_text_add(e->out, "%sv%u", a ? ", " : "(", instr->arg[a]);
  kl_text_add(e->out, ")");
}

/* The value of an instruction that is none of a repeat's own. */
static void value(kl_cuda_emit_state *e, uint32_t id) {
  const kl_instr *instr = &e->section->instrs.data[id];
  kl_text_add(e->out, "%*sconst %s v%u = ", 2 * e->depth, "", kl_cuda_ctype(instr->dtype), id);
  switch (instr->op) {
    case KL_OP_LOAD:
      element(e, instr, instr->arg[0]);
      break;
    case KL_OP_INT:
      kl_text_add(e->out, "args.ints[%u]", instr->attr);
      break;
    case KL_OP_SCALAR:
      kl_text_add(e->out, "args.scalars[%u", instr->attr);
      if (instr->arg[0]) kl_text_add(e->out, " + %uLL * iteration", instr->arg[0]);
      kl_text_add(e->out, "].%s", kl_cuda_token(instr->dtype));
      break;
    default:
      elementwise(e, instr);
  }
  kl_text_add(e->out, ";\n");
}

/* The carries live outside the loop, since they stand for the last values afterwards. */
static void repeat_begin(kl_cuda_emit_state *e, uint32_t id) {
  const kl_instr *repeat = &e->section->instrs.data[id];
  for (uint32_t v = id + 1; v <= id + repeat->arg[1]; v++) {
    const kl_instr *carry = &e->section->instrs.data[v];
    kl_cuda_line(e, "%s v%u = v%u;", kl_cuda_ctype(carry->dtype), v, carry->arg[0]);
  }
  kl_cuda_line(e, "for (long long iteration = 0; iteration < args.ints[%u]; iteration++) {",
               repeat->attr);
  e->depth++;
}

/* All next values are read before any carry changes. */
static void repeat_end(kl_cuda_emit_state *e, uint32_t id) {
  const kl_instr *instrs = e->section->instrs.data;
  uint32_t first = id;
  while (first > 0 && instrs[first - 1].op == KL_OP_NEXT) first--;
  for (uint32_t n = first; n < id; n++)
    kl_cuda_line(e, "v%u = next%u;", instrs[n].attr, instrs[n].attr);
  e->depth--;
  kl_cuda_line(e, "}");
}

void kl_cuda_instr(kl_cuda_emit_state *e, uint32_t id, bool in_row_loop, bool stores) {
  const kl_instr *instr = &e->section->instrs.data[id];
  switch (instr->op) {
    case KL_OP_STORE:
    case KL_OP_STORE_ADD:
      if (stores) store(e, instr, in_row_loop);
      break;
    case KL_OP_REPEAT:
      repeat_begin(e, id);
      break;
    case KL_OP_CARRY:
      break;
    case KL_OP_NEXT:
      kl_cuda_line(e, "const %s next%u = v%u;", kl_cuda_ctype(instr->dtype), instr->attr,
                   instr->arg[0]);
      break;
    case KL_OP_END:
      repeat_end(e, id);
      break;
    default:
      value(e, id);
  }
}
