/* The plain runner of programs. See program_runner.h. */
#include "tests/random/program_runner.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/matmul.h"

enum { GUARD = 64, RUBBISH = 0xa5, GUARD_BYTE = 0xc3 };

typedef struct launch_call {
  const kl_program *program;
  const kl_launch *launch;
  void *const *slots;
  void **bufs;
  int64_t *ints;
  kl_scalar *scalars;
  uint64_t variant;
} launch_call;

static void *rubbish(size_t nbytes) {
  size_t rounded = (nbytes + 127) / 64 * 64;
  return memset(aligned_alloc(64, rounded), RUBBISH, rounded);
}

/* ------------------------------------------------------------------ kernels */

static int64_t extents(const kl_section *section, const int64_t *ints, int first, int end) {
  int64_t n = 1;
  for (int d = first; d < end; d++) n *= ints[section->extents_at + (uint32_t)d];
  return n;
}

/* All units in pieces of the variant's size, first to last or last to first. */
static void run_units(const kl_code *code, const kl_kernel_args *args, char *scratch,
                      size_t scratch_nbytes, int phase, int64_t n_units, uint64_t variant) {
  static const int64_t pieces[] = {INT64_MAX, 1, 2, 3, 7};
  int64_t piece = pieces[variant % 5], n_pieces;
  if (piece > n_units) piece = n_units > 0 ? n_units : 1;
  n_pieces = (n_units + piece - 1) / piece;
  for (int64_t i = 0; i < n_pieces; i++) {
    int64_t at = (variant / 5) % 2 ? n_pieces - 1 - i : i;
    int64_t end = (at + 1) * piece < n_units ? (at + 1) * piece : n_units;
    memset(scratch, RUBBISH, scratch_nbytes);
    code->run(code, args, scratch, phase, at * piece, end);
  }
}

static void run_section(const launch_call *call, const kl_kernel *kernel, uint32_t number,
                        const kl_code *code) {
  const kl_section *section = &kernel->sections.data[number];
  int64_t rows = extents(section, call->ints, 0, section->n_rows);
  int64_t columns = extents(section, call->ints, section->n_rows, section->n_dims);
  int64_t n_chunks = (columns + KL_CHUNK - 1) / KL_CHUNK;
  size_t n_frame = (size_t)(rows * section->n_reduces);
  size_t scratch_nbytes = code->scratch_nbytes;
  for (uint32_t b = 0; b < kernel->bufs.count; b++)
    if (kernel->bufs.data[b].kind == KL_BUF_SCRATCH)
      scratch_nbytes += kl_scratch_nbytes(columns, (kl_dtype)kernel->bufs.data[b].dtype);
  char *scratch = rubbish(scratch_nbytes);
  kl_kernel_args args = {.bufs = call->bufs, .ints = call->ints, .scalars = call->scalars};
  args.frame = rubbish(sizeof(kl_scalar) * n_frame);
  args.partials = rubbish(sizeof(kl_scalar) * n_frame * 2 * (size_t)n_chunks);
  for (uint32_t p = 0; p < section->phases.count; p++) {
    bool by_chunk = section->phases.data[p].kind == KL_PHASE_COLS;
    run_units(code, &args, scratch, scratch_nbytes, (int)p, by_chunk ? rows * n_chunks : rows,
              call->variant + p);
  }
  free(scratch);
  free(args.frame);
  free(args.partials);
}

static kl_status run_kernel(const launch_call *call, runner_prepare_fn *prepare) {
  const kl_kernel *kernel = &call->program->kernels.data[call->launch->kernel];
  for (uint32_t s = 0; s < kernel->sections.count; s++) {
    kl_code *code;
    KL_TRY(prepare(kernel, s, &code));
    run_section(call, kernel, s, code);
    code->destroy(code);
  }
  return KL_OK;
}

/* ------------------------------------------------------------------ launches */

static kl_status run_matmul(const launch_call *call) {
  const int64_t *ints = call->ints;
  kl_matmul spec = {.dtype = (kl_dtype)call->launch->dtype,
                    .n_batch = (int)ints[0],
                    .m = ints[1],
                    .n = ints[2],
                    .k = ints[3]};
  int n = spec.n_batch;
  const int64_t *a = ints + 4 + n, *b = a + n + 3, *c = b + n + 3;
  for (int d = 0; d < n; d++) {
    spec.batch[d] = ints[4 + d];
    spec.a_batch[d] = a[1 + d];
    spec.b_batch[d] = b[1 + d];
    spec.c_batch[d] = c[1 + d];
  }
  spec.a_m = a[n + 1], spec.a_k = a[n + 2];
  spec.b_k = b[n + 1], spec.b_n = b[n + 2];
  spec.c_m = c[n + 1], spec.c_n = c[n + 2];
  int64_t size = (int64_t)kl_dtype_size(spec.dtype);
  return kl_matmul_run(&spec, (char *)call->bufs[0] + a[0] * size,
                       (char *)call->bufs[1] + b[0] * size, (char *)call->bufs[2] + c[0] * size);
}

static void bind(launch_call *call, const kl_scalar *scalars, const int64_t *offsets) {
  const kl_launch *launch = call->launch;
  call->bufs = calloc(launch->slots.count + 1, sizeof *call->bufs);
  call->ints = calloc(launch->ints.count + 1, sizeof *call->ints);
  call->scalars = calloc(launch->scalars.count + 1, sizeof *call->scalars);
  for (uint32_t i = 0; i < launch->slots.count; i++)
    if (launch->slots.data[i] != KL_NO_SLOT) call->bufs[i] = call->slots[launch->slots.data[i]];
  for (uint32_t i = 0; i < launch->ints.count; i++) call->ints[i] = launch->ints.data[i];
  for (uint32_t i = 0; i < launch->patches.count; i++)
    call->ints[launch->patches.data[i].int_at] += offsets[launch->patches.data[i].offset_slot];
  for (uint32_t i = 0; i < launch->scalars.count; i++)
    call->scalars[i] = scalars[launch->scalars.data[i]];
}

static kl_status run_launch(launch_call *call, runner_prepare_fn *prepare) {
  switch (call->launch->kind) {
    case KL_LAUNCH_KERNEL:
      return run_kernel(call, prepare);
    case KL_LAUNCH_MATMUL:
      return run_matmul(call);
    default:
      break;
  }
  uint32_t from = call->launch->slots.data[0], to = call->launch->slots.data[1];
  memmove(call->slots[to], call->slots[from], (size_t)call->program->slots.data[from].nbytes);
  return KL_OK;
}

/* ------------------------------------------------------------------ memory */

static int64_t room(int64_t nbytes) { return (nbytes + 63) / 64 * 64 + GUARD; }

/* Temporaries first, then each output, guards in between. */
static void place_slots(const kl_program *program, void *const *leaves, runner_run *run) {
  int64_t at = GUARD + room(program->temp_nbytes);
  for (uint32_t i = 0; i < program->slots.count; i++)
    if (program->slots.data[i].kind == KL_SLOT_OUTPUT) at += room(program->slots.data[i].nbytes);
  run->memory_nbytes = at;
  run->memory = rubbish((size_t)at);
  run->slots = calloc(program->slots.count + 1, sizeof *run->slots);
  at = GUARD + room(program->temp_nbytes);
  for (uint32_t i = 0; i < program->slots.count; i++) {
    const kl_slot *slot = &program->slots.data[i];
    if (slot->kind == KL_SLOT_LEAF) run->slots[i] = leaves[slot->leaf];
    if (slot->kind == KL_SLOT_TEMP) run->slots[i] = run->memory + GUARD + slot->temp_offset;
    if (slot->kind == KL_SLOT_OUTPUT) {
      run->slots[i] = run->memory + at;
      memset(run->memory + at + slot->nbytes, GUARD_BYTE, GUARD);
      at += room(slot->nbytes);
    }
  }
  memset(run->memory, GUARD_BYTE, GUARD);
  memset(run->memory + GUARD + program->temp_nbytes, GUARD_BYTE, GUARD);
}

static bool is_guard(const unsigned char *bytes) {
  for (int i = 0; i < GUARD; i++)
    if (bytes[i] != GUARD_BYTE) return false;
  return true;
}

bool runner_guards_hold(const kl_program *program, const runner_run *run) {
  bool hold = is_guard(run->memory) && is_guard(run->memory + GUARD + program->temp_nbytes);
  for (uint32_t i = 0; i < program->slots.count; i++)
    if (program->slots.data[i].kind == KL_SLOT_OUTPUT)
      hold &= is_guard((unsigned char *)run->slots[i] + program->slots.data[i].nbytes);
  return hold;
}

void runner_finish(runner_run *run) {
  free(run->slots);
  free(run->memory);
  *run = (runner_run){0};
}

kl_status runner_run_program(const kl_program *program, runner_prepare_fn *prepare,
                             void *const *leaves, const kl_scalar *scalars, const int64_t *offsets,
                             uint64_t variant, runner_run *out_run) {
  runner_run run = {0};
  kl_status status = KL_OK;
  place_slots(program, leaves, &run);
  for (uint32_t l = 0; l < program->launches.count && status == KL_OK; l++) {
    launch_call call = {.program = program,
                        .launch = &program->launches.data[l],
                        .slots = run.slots,
                        .variant = variant + l};
    bind(&call, scalars, offsets);
    status = run_launch(&call, prepare);
    free(call.bufs);
    free(call.ints);
    free(call.scalars);
  }
  if (status == KL_OK)
    *out_run = run;
  else
    runner_finish(&run);
  return status;
}
