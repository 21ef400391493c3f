/* Phases as __global__ functions: who takes which unit, loops, and reductions.
 *
 * In every function `thread` counts the threads of a group (a thread, a warp or a block) and
 * `group` the groups of the grid. A group of several threads synchronizes after each loop: what one
 * thread stores there another may read later, and the other way round. */
#include "codegen/cuda/emit.h"

enum { WARPS = KL_CUDA_BLOCK / 32 };

static const kl_loop *loop_at(const kl_cuda_emit_state *e, uint32_t loop) {
  return &e->section->loops.data[loop];
}

static bool is_reduce(const kl_cuda_emit_state *e, uint32_t id) {
  return kl_op_is_reduce(e->section->instrs.data[id].op);
}

static bool loop_reduces(const kl_cuda_emit_state *e, uint32_t loop) {
  for (uint32_t id = loop_at(e, loop)->first; id < loop_at(e, loop)->end; id++)
    if (is_reduce(e, id)) return true;
  return false;
}

/* ------------------------------------------------------------------ heads */

static void head(kl_cuda_emit_state *e, uint32_t phase_id) {
  static const char *const suffix[] = {"thread", "warp", "block"};
  kl_text_add(
      e->out,
      "\nextern \"C\" __global__ void __launch_bounds__(%d) kl_s%u_p%u_%s(KL_ARGS_PARAMETER) "
      "{\n  KL_ARGS_HERE\n",
      KL_CUDA_BLOCK, e->section_id, phase_id, suffix[e->group]);
  e->depth = 1;
  if (e->group == KL_CUDA_BY_BLOCK) {
    kl_cuda_line(e, "const int thread = threadIdx.x, warp = thread / 32;");
    kl_cuda_line(e, "const long long group = blockIdx.x, n_groups = gridDim.x;");
    kl_cuda_line(e, "__shared__ union kl_scalar shared[2 * %d];", WARPS);
  } else if (e->group == KL_CUDA_BY_WARP) {
    kl_cuda_line(e, "const int thread = threadIdx.x %% 32, warp = 0;");
    kl_cuda_line(e,
                 "const long long group = blockIdx.x * %dLL + threadIdx.x / 32, "
                 "n_groups = gridDim.x * %dLL;",
                 WARPS, WARPS);
    kl_cuda_line(e, "union kl_scalar *const shared = 0;");
  } else {
    kl_cuda_line(e,
                 "const long long group = blockIdx.x * %dLL + threadIdx.x, "
                 "n_groups = gridDim.x * %dLL;",
                 KL_CUDA_BLOCK, KL_CUDA_BLOCK);
  }
}

static void extents(kl_cuda_emit_state *e) {
  const kl_section *section = e->section;
  for (unsigned d = 0; d < section->n_dims; d++)
    kl_cuda_line(e, "const long long e%u = args.ints[%u];", d, section->extents_at + d);
  kl_text_add(e->out, "  const long long n_rows = 1LL");
  for (unsigned d = 0; d < section->n_rows; d++) kl_text_add(e->out, " * e%u", d);
  kl_text_add(e->out, ";\n  const long long n_cols = 1LL");
  for (unsigned d = section->n_rows; d < section->n_dims; d++) kl_text_add(e->out, " * e%u", d);
  kl_text_add(e->out, ";\n");
  kl_cuda_line(e, "const long long n_chunks = (n_cols + %d) / %d;", KL_CHUNK - 1, KL_CHUNK);
}

/* Pointers to the buffers that this section uses. */
static void buffers(kl_cuda_emit_state *e) {
  const kl_section *section = e->section;
  bool any_scratch = false;
  for (uint32_t b = 0; b < e->kernel->bufs.count; b++) {
    const kl_kernel_buf *buf = &e->kernel->bufs.data[b];
    bool used = buf->kind == KL_BUF_SCRATCH; /* each takes its place, used here or not */
    for (uint32_t a = 0; a < section->accesses.count && !used; a++)
      used = section->accesses.data[a].buf == b;
    if (!used) continue;
    const char *t = kl_cuda_ctype(buf->dtype);
    if (buf->kind == KL_BUF_GLOBAL) {
      kl_cuda_line(e, "%s%s *const%s b%u = (%s *)args.bufs[%u];", buf->written ? "" : "const ", t,
                   buf->noalias && buf->read != buf->written ? " __restrict__" : "", b, t, b);
      continue;
    }
    if (!any_scratch)
      kl_cuda_line(e, "char *scratch = args.scratch + group * args.scratch_stride;");
    any_scratch = true;
    kl_cuda_line(e, "%s *const b%u = (%s *)scratch;", t, b, t);
    kl_cuda_line(e, "scratch += ((n_cols > %d ? n_cols : %d) * sizeof(%s) + 63) / 64 * 64;",
                 KL_CHUNK, KL_CHUNK, t);
  }
}

/* ------------------------------------------------------------------ columns */

/* The instructions of a column loop at column k. */
static void column_body(kl_cuda_emit_state *e, uint32_t loop) {
  kl_cuda_coordinates(e, e->section->n_rows, e->section->n_dims, "k");
  for (uint32_t id = loop_at(e, loop)->first; id < loop_at(e, loop)->end; id++) {
    if (!is_reduce(e, id)) {
      kl_cuda_instr(e, id, false, true);
      continue;
    }
    char name[48];
    kl_cuda_fold_name(e->section, id, name);
    kl_cuda_line(e, "lane%u = %s::join(lane%u, %s::leaf(v%u, k));", id, name, id, name,
                 e->section->instrs.data[id].arg[0]);
  }
}

/* for (long long k = ...) { ... } */
static void column_loop(kl_cuda_emit_state *e, uint32_t loop, const char *first, const char *end,
                        int step) {
  kl_cuda_line(e, "for (long long k = %s; k < %s; k += %d) {", first, end, step);
  e->depth++;
  column_body(e, loop);
  e->depth--;
  kl_cuda_line(e, "}");
}

/* Calls `line` for each reduction of the loop, with its value and the name of its struct. */
static void for_each_reduce(kl_cuda_emit_state *e, uint32_t loop,
                            void (*line)(kl_cuda_emit_state *, uint32_t id, const char *name)) {
  for (uint32_t id = loop_at(e, loop)->first; id < loop_at(e, loop)->end; id++) {
    char name[48];
    if (!is_reduce(e, id)) continue;
    kl_cuda_fold_name(e->section, id, name);
    line(e, id, name);
  }
}

static void start_lane(kl_cuda_emit_state *e, uint32_t id, const char *name) {
  kl_cuda_line(e, "%s::value lane%u = %s::identity();", name, id, name);
}

static void declare_tree(kl_cuda_emit_state *e, uint32_t id, const char *name) {
  if (e->group == KL_CUDA_BY_THREAD)
    kl_cuda_line(e, "kl_thread_tree<%s> tree%u;", name, id);
  else
    kl_cuda_line(e, "kl_row_fold<%s, %d> tree%u;", name, e->group == KL_CUDA_BY_WARP ? 1 : WARPS,
                 id);
}

static void push_lane(kl_cuda_emit_state *e, uint32_t id, const char *name) {
  if (e->group == KL_CUDA_BY_THREAD)
    kl_cuda_line(e, "tree%u.push(lane%u);", id, id);
  else
    kl_cuda_line(e, "tree%u.add(lane%u, first_chunk, n_chunks, (%s::value *)shared);", id, id,
                 name);
}

static void take_total(kl_cuda_emit_state *e, uint32_t id, const char *name) {
  const char *t = kl_cuda_ctype(e->section->instrs.data[id].dtype);
  if (e->group == KL_CUDA_BY_THREAD)
    kl_cuda_line(e, "const %s v%u = %s::result(tree%u.total());", t, id, name, id);
  else
    kl_cuda_line(e, "const %s v%u = %s::result(tree%u.total((%s::value *)shared));", t, id, name,
                 id, name);
}

/* Reductions of a whole row: lanes first, then chunks, in the defined order. */
static void reducing_loop(kl_cuda_emit_state *e, uint32_t loop) {
  bool by_thread = e->group == KL_CUDA_BY_THREAD;
  int n_warps = e->group == KL_CUDA_BY_BLOCK ? WARPS : 1;
  for_each_reduce(e, loop, declare_tree);
  kl_cuda_line(e, "for (long long first_chunk = 0; first_chunk < n_chunks; first_chunk += %d) {",
               n_warps);
  e->depth++;
  kl_cuda_line(e,
               "const long long begin = (first_chunk%s) * %d, end = kl_least(n_cols, begin + %d);",
               by_thread ? "" : " + warp", KL_CHUNK, KL_CHUNK);
  if (by_thread) {
    kl_cuda_line(e, "for (int i = 0; i < %d; i++) {", KL_LANES);
    e->depth++;
  }
  for_each_reduce(e, loop, start_lane);
  column_loop(e, loop, by_thread ? "begin + kl_lane_at(i)" : "begin + thread % 32", "end",
              KL_LANES);
  for_each_reduce(e, loop, push_lane);
  if (by_thread) {
    e->depth--;
    kl_cuda_line(e, "}");
  }
  e->depth--;
  kl_cuda_line(e, "}");
  for_each_reduce(e, loop, take_total);
}

/* One thread walks the columns of a row in order. */
static void sequential_loop(kl_cuda_emit_state *e, uint32_t loop) {
  if (e->group != KL_CUDA_BY_THREAD) {
    kl_cuda_line(e, "if (thread == 0) {");
    e->depth++;
  }
  column_loop(e, loop, "0", "n_cols", 1);
  if (e->group != KL_CUDA_BY_THREAD) {
    e->depth--;
    kl_cuda_line(e, "}");
  }
}

static void plain_loop(kl_cuda_emit_state *e, uint32_t loop) {
  int n_threads = e->group == KL_CUDA_BY_THREAD ? 1
                  : e->group == KL_CUDA_BY_WARP ? 32
                                                : KL_CUDA_BLOCK;
  column_loop(e, loop, n_threads == 1 ? "0" : "thread", "n_cols", n_threads);
}

static void row_loop(kl_cuda_emit_state *e, uint32_t loop, bool stores) {
  for (uint32_t id = loop_at(e, loop)->first; id < loop_at(e, loop)->end; id++)
    kl_cuda_instr(e, id, true, stores);
}

/* ------------------------------------------------------------------ phases */

static void rows_phase(kl_cuda_emit_state *e) {
  kl_cuda_line(e, "for (long long row = group; row < n_rows; row += n_groups) {");
  e->depth++;
  kl_cuda_coordinates(e, 0, e->section->n_rows, "row");
  for (uint32_t l = 0; l < e->section->loops.count; l++) {
    int kind = loop_at(e, l)->kind;
    if (kind == KL_LOOP_ROW)
      row_loop(e, l, true);
    else if (kind == KL_LOOP_SEQ)
      sequential_loop(e, l);
    else if (loop_reduces(e, l))
      reducing_loop(e, l);
    else
      plain_loop(e, l);
    if (e->group != KL_CUDA_BY_THREAD) kl_cuda_line(e, "%s", kl_cuda_sync(e));
  }
  e->depth--;
  kl_cuda_line(e, "}");
}

/* frame[row * n_reduces + r], for the r-th reduction of the section */
static uint32_t reduce_number(const kl_cuda_emit_state *e, uint32_t id) {
  uint32_t number = 0;
  for (uint32_t v = 0; v < id; v++) number += is_reduce(e, v);
  return number;
}

static void load_from_frame(kl_cuda_emit_state *e, uint32_t id, const char *name) {
  (void)name;
  int dtype = e->section->instrs.data[id].dtype;
  kl_cuda_line(e, "const %s v%u = args.frame[row * %u + %u].%s;", kl_cuda_ctype(dtype), id,
               e->section->n_reduces, reduce_number(e, id), kl_cuda_token(dtype));
}

static void store_partial(kl_cuda_emit_state *e, uint32_t id, const char *name) {
  kl_cuda_line(e, "const %s::value chunk%u = kl_join_lanes<%s>(lane%u);", name, id, name, id);
  kl_cuda_line(e,
               "if (thread == 0) %s::put(args.partials + ((row * %u + %u) * n_chunks + chunk) * 2, "
               "chunk%u);",
               name, e->section->n_reduces, reduce_number(e, id), id);
}

static void combine_partials(kl_cuda_emit_state *e, uint32_t id, const char *name) {
  int dtype = e->section->instrs.data[id].dtype;
  uint32_t number = reduce_number(e, id);
  kl_cuda_line(e,
               "const %s v%u = %s::result(kl_join_partials<%s>(args.partials + (row * %u + %u) * "
               "n_chunks * 2, n_chunks));",
               kl_cuda_ctype(dtype), id, name, name, e->section->n_reduces, number);
  kl_cuda_line(e, "if (thread == 0) args.frame[row * %u + %u].%s = v%u;", e->section->n_reduces,
               number, kl_cuda_token(dtype), id);
}

/* Row values of the loops before `end`, computed again; reductions come from the frame. */
static void row_values(kl_cuda_emit_state *e, uint32_t end) {
  for (uint32_t l = 0; l < end; l++) {
    if (loop_at(e, l)->kind == KL_LOOP_ROW)
      row_loop(e, l, false);
    else
      for_each_reduce(e, l, load_from_frame);
  }
}

static void cols_phase(kl_cuda_emit_state *e, uint32_t loop) {
  bool reduces = loop_reduces(e, loop);
  kl_cuda_line(e, "for (long long unit = group; unit < n_rows * n_chunks; unit += n_groups) {");
  e->depth++;
  kl_cuda_line(e, "const long long row = unit / n_chunks, chunk = unit %% n_chunks;");
  kl_cuda_line(e, "const long long begin = chunk * %d, end = kl_least(n_cols, begin + %d);",
               KL_CHUNK, KL_CHUNK);
  kl_cuda_coordinates(e, 0, e->section->n_rows, "row");
  row_values(e, loop);
  for_each_reduce(e, loop, start_lane);
  column_loop(e, loop, "begin + thread", "end", reduces ? KL_LANES : KL_CUDA_BLOCK);
  for_each_reduce(e, loop, store_partial);
  e->depth--;
  kl_cuda_line(e, "}");
}

static void combine_phase(kl_cuda_emit_state *e, const kl_phase *phase) {
  kl_cuda_line(e, "for (long long row = group; row < n_rows; row += n_groups) {");
  e->depth++;
  kl_cuda_coordinates(e, 0, e->section->n_rows, "row");
  row_values(e, phase->first_loop - 1u);
  for_each_reduce(e, phase->first_loop - 1u, combine_partials);
  for (uint32_t l = phase->first_loop; l < phase->end_loop; l++) row_loop(e, l, true);
  e->depth--;
  kl_cuda_line(e, "}");
}

static void function(kl_cuda_emit_state *e, uint32_t phase_id, kl_cuda_group group) {
  const kl_phase *phase = &e->section->phases.data[phase_id];
  e->group = group;
  head(e, phase_id);
  extents(e);
  buffers(e);
  if (phase->kind == KL_PHASE_ROWS)
    rows_phase(e);
  else if (phase->kind == KL_PHASE_COLS)
    cols_phase(e, phase->first_loop);
  else
    combine_phase(e, phase);
  kl_text_add(e->out, "}\n");
  e->depth = 0;
}

void kl_cuda_phase(kl_cuda_emit_state *e, uint32_t phase_id) {
  const kl_phase *phase = &e->section->phases.data[phase_id];
  if (phase->kind == KL_PHASE_COMBINE) {
    function(e, phase_id, KL_CUDA_BY_BLOCK);
  } else if (phase->kind == KL_PHASE_COLS) {
    function(e, phase_id, loop_reduces(e, phase->first_loop) ? KL_CUDA_BY_WARP : KL_CUDA_BY_BLOCK);
  } else if (e->section->vector == KL_VECTOR_ROWS) {
    function(e, phase_id, KL_CUDA_BY_THREAD);
  } else {
    function(e, phase_id, KL_CUDA_BY_WARP);
    function(e, phase_id, KL_CUDA_BY_BLOCK);
  }
}
