/* The dims and int arguments of a section. Fewer dims mean longer inner loops and fewer forms. */
#include "passes/section.h"

#include "ir/support/memory.h"

static bool uses_index(const kl_section_builder *b, int d) {
  for (uint32_t i = 0; i < b->section.instrs.count; i++) {
    const kl_instr *instr = &b->section.instrs.data[i];
    if (instr->op == KL_OP_INDEX && (int)instr->attr == d) return true;
  }
  return false;
}

static void renumber_index(kl_section_builder *b, const int *new_of_old) {
  for (uint32_t i = 0; i < b->section.instrs.count; i++) {
    kl_instr *instr = &b->section.instrs.data[i];
    if (instr->op == KL_OP_INDEX) instr->attr = (uint32_t)new_of_old[instr->attr];
  }
}

/* Keeps dims order[0..n) in that order. */
static void keep_dims(kl_section_builder *b, const int *order, int n, int n_rows) {
  int new_of_old[KL_MAX_RANK] = {0};
  kl_space old = b->space;
  for (int i = 0; i < n; i++) {
    new_of_old[order[i]] = i;
    b->space.extent[i] = old.extent[order[i]];
  }
  for (uint32_t a = 0; a < b->accesses.count; a++) {
    kl_address *address = &b->accesses.data[a].address, before = *address;
    for (int i = 0; i < n; i++) address->stride[i] = before.stride[order[i]];
  }
  b->space.n_dims = n;
  b->n_rows = n_rows;
  renumber_index(b, new_of_old);
}

static void drop_unit_dims(kl_section_builder *b) {
  int order[KL_MAX_RANK], n = 0, n_rows = 0;
  for (int d = 0; d < b->space.n_dims; d++) {
    /* A coordinate that is asked for stays, though it is always 0. */
    if (b->space.extent[d] == 1 && !uses_index(b, d)) continue;
    order[n++] = d;
    if (d < b->n_rows) n_rows = n;
  }
  keep_dims(b, order, n, n_rows);
}

/* What decides about the order of free dims: the first store that moves, else the first load. */
static const kl_address *leading_access(const kl_section_builder *b, int first, int end) {
  const kl_address *leading = NULL;
  for (uint32_t i = 0; i < b->section.instrs.count; i++) {
    const kl_instr *instr = &b->section.instrs.data[i];
    bool store = instr->op == KL_OP_STORE;
    if (!store && (instr->op != KL_OP_LOAD || leading)) continue;
    const kl_address *address = &b->accesses.data[instr->attr].address;
    bool moves = false;
    for (int d = first; d < end; d++) moves |= address->stride[d] != 0;
    if (moves && store) return address;
    if (moves) leading = address;
  }
  return leading;
}

static void sort_by_stride(const kl_section_builder *b, int first, int end, int *order) {
  const kl_address *leading = leading_access(b, first, end);
  if (!leading) return;
  for (int i = first + 1; i < end; i++) { /* insertion sort, stable, large strides first */
    int dim = order[i], at = i;
    while (at > first && leading->stride[order[at - 1]] < leading->stride[dim]) {
      order[at] = order[at - 1];
      at--;
    }
    order[at] = dim;
  }
}

static void order_free_dims(kl_section_builder *b) {
  int order[KL_MAX_RANK], n = b->space.n_dims;
  for (int d = 0; d < n; d++) order[d] = d;
  sort_by_stride(b, 0, b->n_rows, order);
  if (!b->fixed_order) sort_by_stride(b, b->n_rows, n, order);
  keep_dims(b, order, n, b->n_rows);
}

static bool can_merge(const kl_section_builder *b, int d) {
  if (uses_index(b, d) || uses_index(b, d + 1)) return false;
  for (uint32_t a = 0; a < b->accesses.count; a++) {
    const int64_t *stride = b->accesses.data[a].address.stride;
    if (stride[d] != stride[d + 1] * b->space.extent[d + 1]) return false;
  }
  return true;
}

static void merge_dims(kl_section_builder *b) {
  for (int d = b->space.n_dims - 2; d >= 0; d--) {
    if (d == b->n_rows - 1 || !can_merge(b, d)) continue;
    b->space.extent[d + 1] *= b->space.extent[d];
    int order[KL_MAX_RANK], n = 0;
    for (int i = 0; i < b->space.n_dims; i++)
      if (i != d) order[n++] = i;
    keep_dims(b, order, n, d < b->n_rows ? b->n_rows - 1 : b->n_rows);
  }
}

static uint8_t stride_class(int64_t stride, int64_t extent) {
  if (stride == 0) return KL_STRIDE_ZERO;
  (void)extent;
  return stride == 1 ? KL_STRIDE_ONE : KL_STRIDE_ANY;
}

static bool push_access(kl_section_builder *b, const kl_pending_access *pending, kl_launch *launch) {
  kl_access access = {.buf = pending->buf, .ints_at = launch->ints.count, .dynamic = pending->dynamic};
  if (pending->offset_slot != KL_NO_SLOT) {
    kl_int_patch patch = {launch->ints.count, pending->offset_slot};
    if (!kl_vec_push(&launch->patches, patch)) return false;
  }
  if (!kl_vec_push(&launch->ints, pending->address.offset)) return false;
  for (int d = 0; d < b->space.n_dims; d++) {
    access.stride[d] = stride_class(pending->address.stride[d], b->space.extent[d]);
    if (!kl_vec_push(&launch->ints, pending->address.stride[d])) return false;
  }
  if (pending->dynamic && !kl_vec_push(&launch->ints, pending->index_stride)) return false;
  return kl_vec_push(&b->section.accesses, access);
}

static void count_bytes(const kl_section_builder *b, const kl_kernel *kernel, kl_launch *launch) {
  for (uint32_t i = 0; i < b->section.instrs.count; i++) {
    const kl_instr *instr = &b->section.instrs.data[i];
    if (instr->op != KL_OP_LOAD && instr->op != KL_OP_STORE && instr->op != KL_OP_STORE_ADD) continue;
    const kl_pending_access *access = &b->accesses.data[instr->attr];
    if (kernel->bufs.data[access->buf].kind == KL_BUF_SCRATCH) continue;
    int64_t nbytes = (int64_t)kl_dtype_size((kl_dtype)instr->dtype);
    for (int d = 0; d < b->space.n_dims; d++)
      if (access->address.stride[d] != 0) nbytes *= b->space.extent[d];
    *(instr->op == KL_OP_LOAD ? &launch->bytes_read : &launch->bytes_written) += nbytes;
  }
}

kl_status kl_section_finish(kl_section_builder *b, kl_kernel *kernel, kl_launch *launch) {
  count_bytes(b, kernel, launch);
  drop_unit_dims(b);
  order_free_dims(b);
  merge_dims(b);
  b->section.n_rows = (uint8_t)b->n_rows;
  b->section.n_dims = (uint8_t)b->space.n_dims;
  b->section.extents_at = launch->ints.count;
  bool ok = true;
  for (int d = 0; d < b->space.n_dims; d++) ok = ok && kl_vec_push(&launch->ints, b->space.extent[d]);
  for (uint32_t a = 0; a < b->accesses.count; a++)
    ok = ok && push_access(b, &b->accesses.data[a], launch);
  uint32_t constants_at = launch->ints.count;
  for (uint32_t c = 0; c < b->constants.count; c++)
    ok = ok && kl_vec_push(&launch->ints, b->constants.data[c]);
  for (uint32_t i = 0; i < b->section.instrs.count; i++) {
    kl_instr *instr = &b->section.instrs.data[i];
    if (instr->op == KL_OP_INT || instr->op == KL_OP_REPEAT) instr->attr += constants_at;
  }
  kernel->n_ints = launch->ints.count;
  if (!ok || !kl_vec_push(&kernel->sections, b->section))
    return kl_fail_memory("lower", sizeof(kl_section));
  b->section = (kl_section){0};
  return KL_OK;
}

void kl_section_builder_drop(kl_section_builder *b) {
  kl_vec_finish(&b->section.instrs);
  kl_vec_finish(&b->section.loops);
  kl_vec_finish(&b->section.accesses);
  kl_vec_finish(&b->section.phases);
  kl_vec_finish(&b->accesses);
  kl_vec_finish(&b->constants);
}
