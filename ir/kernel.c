/* Lifetime and key of a kernel (ir/kernel.h). */
#include "ir/kernel.h"

#include "ir/support/text.h"

void kl_kernel_finish(kl_kernel *kernel) {
  for (uint32_t s = 0; s < kernel->sections.count; s++) {
    kl_section *section = &kernel->sections.data[s];
    kl_vec_finish(&section->instrs);
    kl_vec_finish(&section->loops);
    kl_vec_finish(&section->accesses);
    kl_vec_finish(&section->phases);
  }
  kl_vec_finish(&kernel->sections);
  kl_vec_finish(&kernel->bufs);
  *kernel = (kl_kernel){0};
}

/* The key holds what code depends on and nothing else: an access is written where it is used, so
 * that neither the order of `accesses` nor unused ones matter; fields that an instruction does not
 * have are left out. Every count stands before its items, so that the bytes read one way only. */

static void key_access(const kl_section *section, uint32_t access_id, kl_text *out) {
  const kl_access *access = &section->accesses.data[access_id];
  kl_text_varint(out, access->buf);
  kl_text_varint(out, access->ints_at);
  for (unsigned d = 0; d < section->n_dims; d += 4) {
    unsigned packed = 0;
    for (unsigned i = 0; i < 4 && d + i < section->n_dims; i++)
      packed |= (unsigned)access->stride[d + i] << (2 * i);
    kl_text_varint(out, packed);
  }
}

/* Values are written as the distance back to them, which is small whatever the kernel's length. */
static void key_value(uint32_t from, uint32_t value, kl_text *out) {
  kl_text_varint(out, value == KL_NO_VALUE ? 0 : from - value);
}

static void key_instr(const kl_section *section, uint32_t id, kl_text *out) {
  const kl_instr *instr = &section->instrs.data[id];
  kl_text_varint(out, instr->op);
  if (instr->op == KL_OP_END) return;
  if (instr->op != KL_OP_REPEAT) kl_text_varint(out, instr->dtype);
  switch (instr->op) {
    case KL_OP_LOAD:
      key_access(section, instr->attr, out);
      key_value(id, instr->arg[0], out);
      break;
    case KL_OP_STORE:
    case KL_OP_STORE_ADD:
      key_access(section, instr->attr, out);
      key_value(id, instr->arg[0], out);
      key_value(id, instr->arg[1], out);
      break;
    case KL_OP_SCALAR:
    case KL_OP_REPEAT: /* the step, or the number carried */
      kl_text_varint(out, instr->attr);
      kl_text_varint(out, instr->arg[instr->op == KL_OP_REPEAT]);
      break;
    case KL_OP_INT:
    case KL_OP_INDEX:
      kl_text_varint(out, instr->attr);
      break;
    case KL_OP_NEXT:
      key_value(id, instr->attr, out);
      key_value(id, instr->arg[0], out);
      break;
    default:
      for (int a = 0; a < kl_op_table[instr->op].arity; a++) key_value(id, instr->arg[a], out);
  }
}

static void key_section(const kl_section *section, kl_text *out) {
  kl_text_varint(out, section->n_rows);
  kl_text_varint(out, section->n_dims);
  kl_text_varint(out, section->vector);
  kl_text_varint(out, section->extents_at);
  kl_text_varint(out, section->loops.count);
  for (uint32_t l = 0; l < section->loops.count; l++) {
    const kl_loop *loop = &section->loops.data[l];
    kl_text_varint(out, loop->kind);
    kl_text_varint(out, loop->end - loop->first);
    for (uint32_t id = loop->first; id < loop->end; id++) key_instr(section, id, out);
  }
  kl_text_varint(out, section->phases.count);
  for (uint32_t p = 0; p < section->phases.count; p++) {
    const kl_phase *phase = &section->phases.data[p];
    kl_text_varint(out, phase->kind);
    kl_text_varint(out, phase->first_loop);
    kl_text_varint(out, phase->end_loop);
  }
}

kl_status kl_kernel_key(const kl_kernel *kernel, kl_text *out) {
  kl_text_varint(out, kernel->bufs.count);
  for (uint32_t b = 0; b < kernel->bufs.count; b++) {
    const kl_kernel_buf *buf = &kernel->bufs.data[b];
    unsigned flags =
        buf->kind == KL_BUF_SCRATCH ? 1u : 2u * buf->read + 4u * buf->written + 8u * buf->noalias;
    kl_text_varint(out, buf->dtype);
    kl_text_varint(out, flags);
  }
  kl_text_varint(out, kernel->sections.count);
  for (uint32_t s = 0; s < kernel->sections.count; s++) key_section(&kernel->sections.data[s], out);
  return kl_text_status(out);
}
