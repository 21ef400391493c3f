/* Running programs: memory first, then launch by launch, phase by phase. */
#include "runtime/executable.h"

#include <string.h>
#include <time.h>

#include "ir/support/memory.h"
#include "runtime/matmul.h"
#include "runtime/threads.h"

enum {
  WORK_A_TASK = 1 << 17, /* instructions times elements that are worth another thread */
  COPY_A_TASK = 1 << 18  /* bytes */
};

typedef struct phase_plan {
  int64_t n_units, grain;
} phase_plan;

typedef struct section_plan {
  size_t frame_nbytes;   /* frame and partials */
  size_t frame_at, partials_at;
  size_t scratch_nbytes; /* of one worker */
  phase_plan *phases;
} section_plan;

typedef struct launch_plan {
  section_plan *sections;
} launch_plan;

struct kl_executable {
  kl_program program;
  kl_kernel_code **codes;
  launch_plan *launches;
  kl_arena arena;        /* the plans */
  size_t frame_nbytes;   /* the largest of any section */
  size_t scratch_nbytes; /* the largest of one worker */
  size_t n_words;        /* the most arguments of a launch that are not on the stack */
  int64_t most_units;    /* in grains, of any phase: no more workers can be busy */
};

void kl_kernel_code_release(kl_kernel_code *code) {
  if (!code || atomic_fetch_sub(&code->refs, 1) != 1) return;
  for (uint32_t i = 0; code->sections && i < code->kernel.sections.count; i++)
    if (code->sections[i]) code->sections[i]->destroy(code->sections[i]);
  kl_free(code->sections);
  kl_kernel_finish(&code->kernel);
  kl_free(code);
}

static size_t round_up(size_t nbytes) { return (nbytes + 63) & ~(size_t)63; }

static int64_t extent_product(const kl_section *section, const int64_t *ints, int first, int end) {
  int64_t product = 1;
  for (int d = first; d < end; d++) product *= ints[section->extents_at + (uint32_t)d];
  return product;
}

static int64_t work_of_loops(const kl_section *section, int first, int end, int64_t columns) {
  int64_t work = 0;
  for (int l = first; l < end; l++) {
    const kl_loop *loop = &section->loops.data[l];
    int64_t n = loop->end - loop->first;
    work += loop->kind == KL_LOOP_ROW ? n : n * columns;
  }
  return work;
}

static phase_plan plan_phase(const kl_section *section, const kl_phase *phase, int64_t rows,
                             int64_t columns) {
  phase_plan plan = {.n_units = rows};
  int64_t chunk = columns < KL_CHUNK ? columns : KL_CHUNK;
  int64_t n_chunks = (columns + KL_CHUNK - 1) / KL_CHUNK;
  int64_t work = work_of_loops(section, phase->first_loop, phase->end_loop, columns);
  if (phase->kind == KL_PHASE_COLS) {
    plan.n_units = rows * n_chunks;
    work = work_of_loops(section, phase->first_loop, phase->end_loop, chunk);
  } else if (phase->kind == KL_PHASE_COMBINE) {
    work += section->n_reduces * n_chunks;
  }
  plan.grain = WORK_A_TASK / (work > 0 ? work : 1);
  if (plan.grain < 1) plan.grain = 1;
  return plan;
}

static kl_status plan_section(kl_executable *e, const kl_kernel_code *code, uint32_t s,
                              const int64_t *ints, section_plan *plan) {
  const kl_section *section = &code->kernel.sections.data[s];
  int64_t rows = extent_product(section, ints, 0, section->n_rows);
  int64_t columns = extent_product(section, ints, section->n_rows, section->n_dims);
  bool split = section->phases.count > 0 && section->phases.data[0].kind != KL_PHASE_ROWS;
  if (split && section->n_reduces > 0) {
    int64_t n_chunks = (columns + KL_CHUNK - 1) / KL_CHUNK;
    plan->partials_at = round_up(sizeof(kl_scalar) * (size_t)(rows * section->n_reduces));
    plan->frame_nbytes = plan->partials_at + round_up(sizeof(kl_scalar) * 2 *
                                                      (size_t)(rows * section->n_reduces * n_chunks));
  }
  for (uint32_t b = 0; b < code->kernel.bufs.count; b++)
    if (code->kernel.bufs.data[b].kind == KL_BUF_SCRATCH)
      plan->scratch_nbytes += kl_scratch_nbytes(columns, (kl_dtype)code->kernel.bufs.data[b].dtype);
  plan->scratch_nbytes = round_up(plan->scratch_nbytes + code->sections[s]->scratch_nbytes);
  plan->phases = kl_arena_alloc(&e->arena, sizeof *plan->phases * section->phases.count);
  if (!plan->phases) return kl_fail_memory("executable", sizeof *plan->phases);
  for (uint32_t p = 0; p < section->phases.count; p++) {
    plan->phases[p] = plan_phase(section, &section->phases.data[p], rows, columns);
    int64_t tasks = (plan->phases[p].n_units + plan->phases[p].grain - 1) / plan->phases[p].grain;
    if (tasks > e->most_units) e->most_units = tasks;
  }
  if (plan->frame_nbytes > e->frame_nbytes) e->frame_nbytes = plan->frame_nbytes;
  if (plan->scratch_nbytes > e->scratch_nbytes) e->scratch_nbytes = plan->scratch_nbytes;
  return KL_OK;
}

enum { LOCAL_WORDS = 64 };

_Static_assert(sizeof(void *) <= sizeof(int64_t) && sizeof(kl_scalar) == sizeof(int64_t),
               "each argument has a word");

/* Words that the arguments of a launch need beyond what launch_args holds. */
static size_t words_of_args(const kl_launch *launch) {
  size_t n_bufs = launch->slots.count, n_ints = launch->ints.count, n_scalars = launch->scalars.count;
  return (n_bufs > LOCAL_WORDS ? n_bufs : 0) + (n_ints > LOCAL_WORDS ? n_ints : 0) +
         (n_scalars > LOCAL_WORDS ? n_scalars : 0);
}

static kl_status plan_launch(kl_executable *e, uint32_t l) {
  const kl_launch *launch = &e->program.launches.data[l];
  size_t n_words = words_of_args(launch);
  if (n_words > e->n_words) e->n_words = n_words;
  if (launch->kind != KL_LAUNCH_KERNEL) return KL_OK;
  const kl_kernel_code *code = e->codes[launch->kernel];
  uint32_t n = code->kernel.sections.count;
  e->launches[l].sections = kl_arena_alloc(&e->arena, sizeof(section_plan) * n);
  if (!e->launches[l].sections) return kl_fail_memory("executable", sizeof(section_plan) * n);
  for (uint32_t s = 0; s < n; s++)
    KL_TRY(plan_section(e, code, s, launch->ints.data, &e->launches[l].sections[s]));
  return KL_OK;
}

kl_status kl_executable_create(kl_program *program, kl_kernel_code *const *codes,
                               kl_executable **out_executable) {
  kl_executable *e = kl_calloc(1, sizeof *e);
  if (!e) return kl_fail_memory("executable", sizeof *e);
  uint32_t n_kernels = program->kernels.count;
  kl_status status = KL_OK;
  e->program = *program;
  e->codes = kl_arena_alloc(&e->arena, sizeof *e->codes * n_kernels);
  e->launches = kl_arena_alloc(&e->arena, sizeof *e->launches * program->launches.count);
  if (!e->codes || !e->launches) status = kl_fail_memory("executable", sizeof *e->launches);
  for (uint32_t i = 0; i < n_kernels && status == KL_OK; i++) e->codes[i] = codes[i];
  for (uint32_t l = 0; l < program->launches.count && status == KL_OK; l++) status = plan_launch(e, l);
  if (status != KL_OK) {
    kl_arena_finish(&e->arena);
    kl_free(e);
    return status;
  }
  *program = (kl_program){0};
  *out_executable = e;
  return KL_OK;
}

void kl_executable_destroy(kl_executable *e) {
  if (!e) return;
  for (uint32_t i = 0; i < e->program.kernels.count; i++) kl_kernel_code_release(e->codes[i]);
  kl_program_finish(&e->program);
  kl_arena_finish(&e->arena);
  kl_free(e);
}

const kl_program *kl_executable_program(const kl_executable *e) { return &e->program; }

kl_kernel_code *const *kl_executable_codes(const kl_executable *e) { return e->codes; }

/* --- a run ------------------------------------------------------------------------------------ */

typedef struct run_state {
  const kl_executable *e;
  const kl_bindings *bindings;
  void **slots;        /* addresses by slot */
  kl_buffer *memory;   /* temporaries, frames, scratch */
  char *frames, *scratch;
  int64_t *words;      /* arguments of the launch that runs, where they are many */
  int n_workers;
} run_state;

typedef struct phase_call {
  const kl_code *code;
  const kl_kernel_args *args;
  char *scratch;
  size_t scratch_nbytes;
  int phase;
} phase_call;

static void run_phase(void *ctx, int64_t begin, int64_t end, int worker) {
  const phase_call *call = ctx;
  call->code->run(call->code, call->args, call->scratch + call->scratch_nbytes * (size_t)worker,
                  call->phase, begin, end);
}

/* Pointers, ints and scalars of a launch, as its kernel numbers them. */
typedef struct launch_args {
  void *local_bufs[LOCAL_WORDS];
  int64_t local_ints[LOCAL_WORDS];
  kl_scalar local_scalars[LOCAL_WORDS];
  void **bufs;
  int64_t *ints;
  kl_scalar *scalars;
} launch_args;

/* Takes no memory: a run must not fail once its first launch has written something. */
static void bind_args(const run_state *run, const kl_launch *launch, launch_args *args) {
  uint32_t n_bufs = launch->slots.count, n_ints = launch->ints.count, n_scalars = launch->scalars.count;
  int64_t *words = run->words;
  args->bufs = args->local_bufs;
  args->ints = launch->patches.count == 0 ? launch->ints.data : args->local_ints;
  args->scalars = args->local_scalars;
  if (n_bufs > LOCAL_WORDS) {
    args->bufs = (void **)(void *)words;
    words += n_bufs;
  }
  if (launch->patches.count > 0 && n_ints > LOCAL_WORDS) {
    args->ints = words;
    words += n_ints;
  }
  if (n_scalars > LOCAL_WORDS) args->scalars = (kl_scalar *)(void *)words;
  for (uint32_t i = 0; i < n_bufs; i++)
    args->bufs[i] = launch->slots.data[i] == KL_NO_SLOT ? NULL : run->slots[launch->slots.data[i]];
  if (launch->patches.count > 0) memcpy(args->ints, launch->ints.data, sizeof(int64_t) * n_ints);
  for (uint32_t i = 0; i < launch->patches.count; i++)
    args->ints[launch->patches.data[i].int_at] += run->bindings->offsets[launch->patches.data[i].offset_slot];
  for (uint32_t i = 0; i < n_scalars; i++)
    args->scalars[i] = run->bindings->scalars[launch->scalars.data[i]];
}

static void run_kernel(const run_state *run, uint32_t l, const launch_args *bound) {
  const kl_launch *launch = &run->e->program.launches.data[l];
  const kl_kernel_code *code = run->e->codes[launch->kernel];
  for (uint32_t s = 0; s < code->kernel.sections.count; s++) {
    const section_plan *plan = &run->e->launches[l].sections[s];
    kl_kernel_args args = {.bufs = bound->bufs,
                           .ints = bound->ints,
                           .scalars = bound->scalars,
                           .frame = (kl_scalar *)run->frames,
                           .partials = (kl_scalar *)(run->frames + plan->partials_at)};
    phase_call call = {code->sections[s], &args, run->scratch, plan->scratch_nbytes, 0};
    for (uint32_t p = 0; p < code->kernel.sections.data[s].phases.count; p++) {
      call.phase = (int)p;
      kl_parallel_for_at_most(plan->phases[p].n_units, plan->phases[p].grain, run->n_workers,
                              run_phase, &call);
    }
  }
}

static kl_status run_matmul(const kl_launch *launch, const launch_args *bound) {
  const int64_t *ints = bound->ints;
  kl_matmul spec = {.dtype = (kl_dtype)launch->dtype, .n_batch = (int)ints[0],
                    .m = ints[1], .n = ints[2], .k = ints[3]};
  size_t batch_nbytes = sizeof(int64_t) * (size_t)spec.n_batch;
  ints += 4;
  memcpy(spec.batch, ints, batch_nbytes);
  const int64_t *a = ints + spec.n_batch, *b = a + spec.n_batch + 3, *c = b + spec.n_batch + 3;
  memcpy(spec.a_batch, a + 1, batch_nbytes);
  memcpy(spec.b_batch, b + 1, batch_nbytes);
  memcpy(spec.c_batch, c + 1, batch_nbytes);
  spec.a_m = a[spec.n_batch + 1], spec.a_k = a[spec.n_batch + 2];
  spec.b_k = b[spec.n_batch + 1], spec.b_n = b[spec.n_batch + 2];
  spec.c_m = c[spec.n_batch + 1], spec.c_n = c[spec.n_batch + 2];
  int64_t size = (int64_t)kl_dtype_size(spec.dtype);
  return kl_matmul_run(&spec, (char *)bound->bufs[0] + a[0] * size, (char *)bound->bufs[1] + b[0] * size,
                       (char *)bound->bufs[2] + c[0] * size);
}

typedef struct copy_call {
  char *to;
  const char *from;
} copy_call;

static void run_copy(void *ctx, int64_t begin, int64_t end, int worker) {
  const copy_call *call = ctx;
  (void)worker;
  memmove(call->to + begin, call->from + begin, (size_t)(end - begin));
}

static kl_status run_launch(const run_state *run, uint32_t l) {
  const kl_launch *launch = &run->e->program.launches.data[l];
  if (launch->kind == KL_LAUNCH_COPY) {
    copy_call call = {run->slots[launch->slots.data[1]], run->slots[launch->slots.data[0]]};
    kl_parallel_for(launch->bytes_written, COPY_A_TASK, run_copy, &call);
    return KL_OK;
  }
  launch_args args;
  kl_status status = KL_OK;
  bind_args(run, launch, &args);
  if (launch->kind == KL_LAUNCH_MATMUL)
    status = run_matmul(launch, &args);
  else
    run_kernel(run, l, &args);
  return status;
}

static kl_status time_launch(const run_state *run, uint32_t l) {
  struct timespec start, end;
  clock_gettime(CLOCK_MONOTONIC, &start);
  kl_status status = run_launch(run, l);
  clock_gettime(CLOCK_MONOTONIC, &end);
  run->bindings->launch_ns[l] = (int64_t)(end.tv_sec - start.tv_sec) * 1000000000 +
                                (end.tv_nsec - start.tv_nsec);
  return status;
}

/* Outputs that are new buffers; those computed in place share their leaf's. */
static kl_status allocate_outputs(run_state *run, kl_buffer **buffers) {
  const kl_program *program = &run->e->program;
  for (uint32_t i = 0; i < program->outputs.count; i++) {
    const kl_slot *slot = &program->slots.data[program->outputs.data[i].slot];
    if (slot->kind == KL_SLOT_LEAF)
      buffers[i] = kl_buffer_retain(run->bindings->leaves[slot->leaf]);
    else
      KL_TRY(kl_buffer_create((size_t)slot->nbytes, &buffers[i]));
    run->slots[program->outputs.data[i].slot] = buffers[i]->ptr;
  }
  return KL_OK;
}

static kl_status allocate_memory(run_state *run) {
  const kl_executable *e = run->e;
  int64_t n_threads = kl_thread_count();
  run->n_workers = (int)(e->most_units < n_threads ? (e->most_units > 0 ? e->most_units : 1) : n_threads);
  size_t temp = round_up((size_t)e->program.temp_nbytes), frames = round_up(e->frame_nbytes);
  size_t scratch = e->scratch_nbytes * (size_t)run->n_workers;
  size_t words = round_up(sizeof(int64_t) * e->n_words);
  if (temp + frames + words + scratch == 0) return KL_OK;
  KL_TRY(kl_buffer_create(temp + frames + words + scratch, &run->memory));
  char *base = run->memory->ptr;
  run->frames = base + temp;
  run->words = (int64_t *)(void *)(base + temp + frames);
  run->scratch = base + temp + frames + words;
  for (uint32_t i = 0; i < e->program.slots.count; i++) {
    const kl_slot *slot = &e->program.slots.data[i];
    if (slot->kind == KL_SLOT_TEMP) run->slots[i] = base + slot->temp_offset;
  }
  return KL_OK;
}

kl_status kl_executable_run(const kl_executable *e, const kl_bindings *bindings) {
  enum { LOCAL_SLOTS = 32 };
  void *local_slots[LOCAL_SLOTS];
  kl_buffer *local_buffers[LOCAL_SLOTS];
  uint32_t n_slots = e->program.slots.count, n_outputs = e->program.outputs.count;
  run_state run = {.e = e, .bindings = bindings, .slots = local_slots};
  kl_buffer **buffers = local_buffers;
  if (n_slots > LOCAL_SLOTS) {
    run.slots = kl_malloc((sizeof *run.slots + sizeof *buffers) * n_slots);
    if (!run.slots) return kl_fail_memory("run", sizeof *run.slots * n_slots);
    buffers = (kl_buffer **)(run.slots + n_slots);
  }
  memset(run.slots, 0, sizeof *run.slots * n_slots);
  memset(buffers, 0, sizeof *buffers * n_outputs);
  for (uint32_t i = 0; i < n_slots; i++)
    if (e->program.slots.data[i].kind == KL_SLOT_LEAF)
      run.slots[i] = bindings->leaves[e->program.slots.data[i].leaf]->ptr;
  kl_status status = allocate_memory(&run);
  if (status == KL_OK) status = allocate_outputs(&run, buffers);
  kl_fp_state fp = kl_fp_enter();
  for (uint32_t l = 0; l < e->program.launches.count && status == KL_OK; l++)
    status = bindings->launch_ns ? time_launch(&run, l) : run_launch(&run, l);
  kl_fp_leave(fp);
  for (uint32_t i = 0; i < n_outputs; i++) {
    if (status == KL_OK)
      bindings->outputs[i] = buffers[i];
    else
      kl_buffer_release(buffers[i]);
  }
  kl_buffer_release(run.memory);
  if (run.slots != local_slots) kl_free(run.slots);
  return status;
}
