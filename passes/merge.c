/* merge: sections of a kernel run one after the other, so any launch may become a section of the
 * launch before it. It is done where the second is small beside the cost of a launch. */
#include "passes/merge.h"

#include "ir/support/memory.h"

enum { FEW_COLUMNS = 1 << 16, MOST_SECTIONS = 64 };

static const kl_kernel *kernel_of(const kl_program *program, const kl_launch *launch) {
  return &program->kernels.data[launch->kernel];
}

static bool uses(const kl_program *program, const kl_launch *launch, uint32_t slot, bool written) {
  if (launch->kind != KL_LAUNCH_KERNEL) { /* the last slot is the one written */
    for (uint32_t i = 0; i < launch->slots.count; i++)
      if (launch->slots.data[i] == slot && (i == launch->slots.count - 1) == written) return true;
    return false;
  }
  const kl_kernel *kernel = kernel_of(program, launch);
  for (uint32_t b = 0; b < launch->slots.count; b++)
    if (launch->slots.data[b] == slot &&
        (written ? kernel->bufs.data[b].written : kernel->bufs.data[b].read))
      return true;
  return false;
}

static int64_t extents(const kl_section *section, const kl_launch *launch, int first, int end) {
  int64_t product = 1;
  for (int d = first; d < end; d++) product *= launch->ints.data[section->extents_at + (uint32_t)d];
  return product;
}

/* One row of few columns, folded; what it writes are outputs, which no later value shares. */
static bool is_tail(const kl_program *program, const kl_launch *launch) {
  if (launch->kind != KL_LAUNCH_KERNEL) return false;
  const kl_kernel *kernel = kernel_of(program, launch);
  const kl_section *section = &kernel->sections.data[0];
  if (kernel->sections.count != 1 || section->n_reduces == 0) return false;
  if (extents(section, launch, 0, section->n_rows) != 1 ||
      extents(section, launch, section->n_rows, section->n_dims) > FEW_COLUMNS)
    return false;
  for (uint32_t b = 0; b < launch->slots.count; b++)
    if (kernel->bufs.data[b].written &&
        (launch->slots.data[b] == KL_NO_SLOT ||
         program->slots.data[launch->slots.data[b]].kind != KL_SLOT_OUTPUT))
      return false;
  return true;
}

/* Whether `before` reads memory that `launch` writes: it must stay before. */
static bool reads_old_bytes(const kl_program *program, const kl_launch *before, const kl_launch *launch) {
  for (uint32_t b = 0; b < launch->slots.count; b++) {
    uint32_t slot = launch->slots.data[b];
    if (slot != KL_NO_SLOT && uses(program, launch, slot, true) && uses(program, before, slot, false))
      return true;
  }
  return false;
}

/* The launch whose kernel `at` may join; -1: none. */
static int64_t find_host(const kl_program *program, uint32_t at) {
  const kl_launch *launch = &program->launches.data[at];
  if (launch->kind != KL_LAUNCH_KERNEL) return -1;
  bool tail = is_tail(program, launch);
  for (uint32_t host = at; host-- > 0;) {
    const kl_launch *before = &program->launches.data[host];
    bool feeds = false, rewritten = false;
    for (uint32_t b = 0; b < launch->slots.count; b++) {
      uint32_t slot = launch->slots.data[b];
      if (slot == KL_NO_SLOT || !uses(program, before, slot, true)) continue;
      (uses(program, launch, slot, true) ? &rewritten : &feeds)[0] = true;
    }
    if (feeds || rewritten) {
      bool joins = before->kind == KL_LAUNCH_KERNEL && before->slots.count > 0 &&
                   kernel_of(program, before)->sections.count < MOST_SECTIONS &&
                   ((tail && feeds && !rewritten) || (rewritten && host + 1 == at));
      return joins ? (int64_t)host : -1;
    }
    if (!tail) return -1; /* only a neighbour's memory is written on */
    if (reads_old_bytes(program, before, launch)) return -1;
  }
  return -1;
}

static bool join_bufs(kl_kernel *into, kl_launch *host, const kl_kernel *from, const kl_launch *launch,
                      uint32_t *buf_of) {
  for (uint32_t b = 0; b < from->bufs.count; b++) {
    uint32_t slot = launch->slots.data[b], at = 0;
    while (at < host->slots.count && (slot == KL_NO_SLOT || host->slots.data[at] != slot)) at++;
    buf_of[b] = at;
    if (at == host->slots.count) {
      if (!kl_vec_push(&into->bufs, from->bufs.data[b]) || !kl_vec_push(&host->slots, slot))
        return false;
      continue;
    }
    kl_kernel_buf *buf = &into->bufs.data[at];
    buf->read |= from->bufs.data[b].read;
    buf->written |= from->bufs.data[b].written;
    buf->noalias &= from->bufs.data[b].noalias;
  }
  return true;
}

/* Moves the section's numbers past those of the host. */
static void shift_section(kl_section *section, uint32_t ints, uint32_t scalars, const uint32_t *buf_of) {
  section->extents_at += ints;
  for (uint32_t a = 0; a < section->accesses.count; a++) {
    section->accesses.data[a].ints_at += ints;
    section->accesses.data[a].buf = buf_of[section->accesses.data[a].buf];
  }
  for (uint32_t i = 0; i < section->instrs.count; i++) {
    kl_instr *instr = &section->instrs.data[i];
    if (instr->op == KL_OP_SCALAR) instr->attr += scalars;
    if (instr->op == KL_OP_INT || instr->op == KL_OP_REPEAT) instr->attr += ints;
  }
}

static bool join_arguments(kl_launch *host, const kl_launch *launch) {
  uint32_t ints = host->ints.count;
  bool ok = true;
  for (uint32_t i = 0; i < launch->patches.count; i++) {
    kl_int_patch patch = launch->patches.data[i];
    patch.int_at += ints;
    ok = ok && kl_vec_push(&host->patches, patch);
  }
  for (uint32_t i = 0; i < launch->ints.count; i++)
    ok = ok && kl_vec_push(&host->ints, launch->ints.data[i]);
  for (uint32_t i = 0; i < launch->scalars.count; i++)
    ok = ok && kl_vec_push(&host->scalars, launch->scalars.data[i]);
  for (uint32_t i = 0; i < launch->nodes.count; i++)
    ok = ok && kl_vec_push(&host->nodes, launch->nodes.data[i]);
  host->bytes_read += launch->bytes_read;
  host->bytes_written += launch->bytes_written;
  return ok;
}

static kl_status join(kl_program *program, uint32_t host_at, uint32_t at) {
  kl_launch *host = &program->launches.data[host_at], *launch = &program->launches.data[at];
  kl_kernel *into = &program->kernels.data[host->kernel], *from = &program->kernels.data[launch->kernel];
  uint32_t *buf_of = kl_malloc(sizeof *buf_of * (from->bufs.count + 1));
  bool ok = buf_of && kl_vec_reserve(&into->sections, into->sections.count + from->sections.count) &&
            join_bufs(into, host, from, launch, buf_of);
  uint32_t ints = host->ints.count, scalars = host->scalars.count;
  ok = ok && join_arguments(host, launch);
  if (ok) {
    for (uint32_t s = 0; s < from->sections.count; s++) {
      shift_section(&from->sections.data[s], ints, scalars, buf_of);
      into->sections.data[into->sections.count++] = from->sections.data[s];
    }
    from->sections.count = 0; /* their arrays have moved */
    into->n_ints = host->ints.count;
    into->n_scalars = host->scalars.count;
  }
  kl_free(buf_of);
  return ok ? KL_OK : kl_fail_memory("merge", sizeof(kl_section));
}

/* Drops launch `at` and its kernel. */
static void drop_launch(kl_program *program, uint32_t at) {
  uint32_t kernel = program->launches.data[at].kernel;
  kl_kernel_finish(&program->kernels.data[kernel]);
  for (uint32_t k = kernel + 1; k < program->kernels.count; k++)
    program->kernels.data[k - 1] = program->kernels.data[k];
  program->kernels.count--;
  kl_launch_finish(&program->launches.data[at]);
  for (uint32_t l = at + 1; l < program->launches.count; l++)
    program->launches.data[l - 1] = program->launches.data[l];
  program->launches.count--;
  for (uint32_t l = 0; l < program->launches.count; l++) {
    kl_launch *launch = &program->launches.data[l];
    if (launch->kind == KL_LAUNCH_KERNEL && launch->kernel > kernel) launch->kernel--;
  }
}

kl_status kl_merge_launches(kl_program *program) {
  for (uint32_t at = 1; at < program->launches.count; at++) {
    int64_t host = find_host(program, at);
    if (host < 0) continue;
    KL_TRY(join(program, (uint32_t)host, at));
    drop_launch(program, at);
    at--;
  }
  return KL_OK;
}
