/* Random graphs: the library's results against the naive ones. See graph_check.h. */
#include "tests/random/graph_check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/support/text.h"
#include "passes/pipeline.h"
#include "runtime/plugin.h"
#include "tests/naive/naive_graph.h"
#include "tests/naive/naive_ops.h"
#include "tests/random/isolate.h"
#include "tests/random/program_runner.h"

/* One graph, its expected values, and the first thing that was wrong. */
typedef struct check {
  const random_graph *g;
  const graph_check_options *options;
  graph_check_totals *totals;
  uint64_t variant;
  unsigned char *expected_block;
  void *expected_leaves[RANDOM_MAX_LEAVES];
  void *expected[RANDOM_MAX_NODES];
  bool explain; /* prints the program */
  char fault[512];
} check;

static bool fault(check *c, const char *stage, const char *what) {
  snprintf(c->fault, sizeof c->fault, "%s: %s", stage, what);
  return false;
}

/* ------------------------------------------------------------------ comparing */

static bool compare_values(check *c, const char *stage, char letter, int number, kl_dtype dtype,
                           int64_t numel, const void *expected, const void *actual) {
  for (int64_t i = 0; i < numel; i++) {
    kl_scalar want = naive_load(dtype, expected, i), have = naive_load(dtype, actual, i);
    if (naive_same(dtype, want, have)) continue;
    char what[128];
    snprintf(what, sizeof what, "%c%d element %lld is %llx, not %llx", letter, number, (long long)i,
             (unsigned long long)have.bits, (unsigned long long)want.bits);
    return fault(c, stage, what);
  }
  return true;
}

static const kl_node *node_at_home(const check *c, uint32_t leaf) {
  for (uint32_t i = 0; i < c->g->graph.nodes.count; i++)
    if (c->g->graph.nodes.data[i].home == (int32_t)leaf) return &c->g->graph.nodes.data[i];
  return NULL;
}

/* Leaves that must be as they were, or be somebody's home, and the bytes between the leaves. */
static bool compare_leaves(check *c, const char *stage, unsigned char *block) {
  unsigned char *guards = malloc((size_t)c->g->block_nbytes + 1);
  memcpy(guards, c->expected_block, (size_t)c->g->block_nbytes);
  bool same = true;
  for (uint32_t l = 0; l < c->g->graph.leaves.count && same; l++) {
    const kl_leaf *leaf = &c->g->graph.leaves.data[l];
    const kl_node *resident = node_at_home(c, l);
    kl_dtype as_bits[] = {KL_BOOL, KL_U8, KL_I16, KL_I32, KL_I32, 0, 0, 0, KL_I64};
    size_t size = kl_dtype_size((kl_dtype)leaf->dtype), nbytes = size * (size_t)leaf->numel;
    kl_dtype dtype = resident ? (kl_dtype)resident->dtype : as_bits[size];
    if (resident || !leaf->reusable)
      same = compare_values(c, stage, 'l', (int)l, dtype, leaf->numel, c->expected_leaves[l],
                            block + c->g->leaf_at[l]);
    memcpy(guards + c->g->leaf_at[l], block + c->g->leaf_at[l], nbytes);
  }
  if (same && c->g->block_nbytes && memcmp(guards, block, (size_t)c->g->block_nbytes) != 0)
    same = fault(c, stage, "bytes between the leaves were written");
  free(guards);
  return same;
}

static bool compare_outputs(check *c, const char *stage, const kl_program *program,
                            const runner_run *run) {
  for (uint32_t n = 0; n < c->g->graph.nodes.count; n++) {
    const kl_node *node = &c->g->graph.nodes.data[n];
    bool found = false;
    if (!(node->flags & KL_NODE_KEEP)) continue;
    for (uint32_t o = 0; o < program->outputs.count; o++) {
      const kl_program_output *output = &program->outputs.data[o];
      if (output->node != (int32_t)n) continue;
      found = true;
      const kl_slot *slot = &program->slots.data[output->slot];
      if (slot->kind == KL_SLOT_TEMP) return fault(c, stage, "an output lies in temporary memory");
      if (node->home >= 0 && (slot->kind != KL_SLOT_LEAF || (int32_t)slot->leaf != node->home))
        return fault(c, stage, "an output is not in its home's slot");
      if (!compare_values(c, stage, 'n', (int)n, (kl_dtype)node->dtype, node->numel, c->expected[n],
                          run->slots[output->slot]))
        return false;
    }
    if (!found) return fault(c, stage, "a kept node is no output of the program");
  }
  return true;
}

/* Two outputs in one slot are fine only where they are one value. */
static bool check_slots(check *c, const kl_program *program) {
  for (uint32_t i = 0; i < program->outputs.count; i++)
    for (uint32_t j = 0; j < i; j++)
      if (program->outputs.data[i].slot == program->outputs.data[j].slot)
        return fault(c, "plan", "two outputs share a slot");
  return true;
}

/* ------------------------------------------------------------------ stages */

/* Prints, reads back and prints again; out_graph is a second graph for the passes to take apart. */
static bool copy_graph(check *c, kl_graph *out_graph) {
  kl_text first = {0}, second = {0};
  bool same = false;
  if (kl_graph_print(&c->g->graph, &first) != KL_OK) return fault(c, "print", kl_error_message());
  if (kl_graph_parse(first.data, first.nbytes, out_graph) != KL_OK) {
    fault(c, "parse", kl_error_message());
  } else if (kl_graph_print(out_graph, &second) != KL_OK) {
    fault(c, "print", kl_error_message());
  } else {
    same = strcmp(kl_text_string(&first), kl_text_string(&second)) == 0 ||
           fault(c, "parse", "the graph read back prints otherwise");
  }
  kl_text_finish(&first);
  kl_text_finish(&second);
  return same;
}

static bool check_kernel_text(check *c, const kl_kernel *kernel) {
  kl_text first = {0}, second = {0};
  kl_kernel copy = {0};
  bool fine = kl_kernel_print(kernel, &first) == KL_OK &&
              kl_kernel_parse(first.data, first.nbytes, &copy) == KL_OK &&
              kl_kernel_print(&copy, &second) == KL_OK && kl_kernel_verify(&copy) == KL_OK;
  if (!fine)
    fault(c, "kernel text", kl_error_message());
  else if (strcmp(kl_text_string(&first), kl_text_string(&second)) != 0)
    fine = fault(c, "kernel text", "the kernel read back prints otherwise");
  kl_kernel_finish(&copy);
  kl_text_finish(&first);
  kl_text_finish(&second);
  return fine;
}

static void count_program(check *c, const kl_program *program) {
  graph_check_totals *t = c->totals;
  for (uint32_t i = 0; i < program->launches.count; i++) {
    const kl_launch *launch = &program->launches.data[i];
    t->kernels += launch->kind == KL_LAUNCH_KERNEL;
    t->matmuls += launch->kind == KL_LAUNCH_MATMUL;
    t->copies += launch->kind == KL_LAUNCH_COPY;
    if (launch->nodes.count > t->most_nodes_in_a_kernel)
      t->most_nodes_in_a_kernel = launch->nodes.count;
  }
  for (uint32_t k = 0; k < program->kernels.count; k++) {
    const kl_kernel *kernel = &program->kernels.data[k];
    t->sections += kernel->sections.count;
    for (uint32_t s = 0; s < kernel->sections.count; s++) {
      const kl_section *section = &kernel->sections.data[s];
      t->reduces += section->n_reduces;
      t->split_sections += section->phases.data[0].kind != KL_PHASE_ROWS;
    }
    for (uint32_t b = 0; b < kernel->bufs.count; b++)
      t->scratch += kernel->bufs.data[b].kind == KL_BUF_SCRATCH;
  }
  for (uint32_t o = 0; o < program->outputs.count; o++)
    t->in_place += program->slots.data[program->outputs.data[o].slot].kind == KL_SLOT_LEAF;
}

static bool run_tier(check *c, const char *stage, const kl_program *program,
                     runner_prepare_fn *prepare) {
  void *leaves[RANDOM_MAX_LEAVES];
  unsigned char *block = random_graph_leaves(c->g, leaves);
  runner_run run = {0};
  bool same;
  if (runner_run_program(program, prepare, leaves, c->g->scalars, c->g->offsets, c->variant,
                         &run) != KL_OK) {
    same = fault(c, stage, kl_error_message());
  } else {
    same =
        compare_outputs(c, stage, program, &run) && compare_leaves(c, stage, block) &&
        (runner_guards_hold(program, &run) || fault(c, stage, "bytes beside a slot were written"));
    runner_finish(&run);
  }
  free(block);
  return same;
}

/* The launches, their kernels and slots, for whoever looks for the fault. */
static void print_program(const kl_program *program) {
  static const char *const kinds[] = {"kernel", "matmul", "copy"};
  static const char *const places[] = {"leaf", "output", "temp"};
  for (uint32_t i = 0; i < program->launches.count; i++) {
    const kl_launch *launch = &program->launches.data[i];
    kl_text text = {0};
    printf("launch %u: %s, slots", i, kinds[launch->kind]);
    for (uint32_t k = 0; k < launch->slots.count; k++) printf(" %d", (int)launch->slots.data[k]);
    printf(", ints");
    for (uint32_t k = 0; k < launch->ints.count; k++)
      printf(" %lld", (long long)launch->ints.data[k]);
    printf("\n");
    if (launch->kind == KL_LAUNCH_KERNEL &&
        kl_kernel_print(&program->kernels.data[launch->kernel], &text) == KL_OK)
      printf("%s", kl_text_string(&text));
    kl_text_finish(&text);
  }
  for (uint32_t i = 0; i < program->slots.count; i++) {
    const kl_slot *slot = &program->slots.data[i];
    printf("slot %u: %s %lld, %lld bytes\n", i, places[slot->kind],
           slot->kind == KL_SLOT_LEAF ? (long long)slot->leaf : (long long)slot->temp_offset,
           (long long)slot->nbytes);
  }
  for (uint32_t i = 0; i < program->outputs.count; i++)
    printf("output n%d: slot %u\n", (int)program->outputs.data[i].node,
           program->outputs.data[i].slot);
  fflush(stdout);
}

static bool run_program(check *c, const kl_program *program) {
  for (uint32_t k = 0; k < program->kernels.count; k++)
    if (!check_kernel_text(c, &program->kernels.data[k])) return false;
  if (!check_slots(c, program)) return false;
  count_program(c, program);
  if (c->explain) print_program(program);
  if (!run_tier(c, "tier 0", program, kl_block_prepare)) return false;
  return !c->options->llvm || run_tier(c, "tier 1", program, kl_llvm_prepare);
}

static void print_dump(void *user, const char *pass, const char *text) {
  (void)user;
  if (strcmp(pass, "lower") != 0) printf("after %s:\n%s", pass, text);
}

static bool run_passes(check *c) {
  kl_pass_options options = {.n_threads = 1 + (int)(c->variant % 4), .verify = true};
  if (c->explain) options.dump = "all", options.dump_fn = print_dump;
  kl_graph copy = {0};
  kl_program program = {0};
  bool same = copy_graph(c, &copy);
  if (same && kl_passes_run(&copy, &options, &program) != KL_OK)
    same = fault(c, "passes", kl_error_message());
  same = same && run_program(c, &program);
  kl_program_finish(&program);
  kl_graph_finish(&copy);
  return same;
}

static bool check_graph(check *c) {
  const kl_graph *graph = &c->g->graph;
  if (kl_graph_verify(graph) != KL_OK) return fault(c, "generator", kl_error_message());
  c->expected_block = random_graph_leaves(c->g, c->expected_leaves);
  const char *wrong =
      naive_eval(graph, c->expected_leaves, c->g->scalars, c->g->offsets, c->expected);
  bool same = wrong ? fault(c, "generator", wrong) : run_passes(c);
  for (uint32_t i = 0; i < graph->nodes.count; i++) free(c->expected[i]);
  free(c->expected_block);
  return same;
}

/* ------------------------------------------------------------------ many graphs */

typedef struct job {
  uint64_t seed;
  long count;
  const graph_check_options *options;
  graph_check_totals *totals;
  tape *t; /* one graph from a tape, instead of many from seeds */
  bool explain;
  bool prunes;
} job;

static void forbid_reuse(kl_graph *graph) {
  for (uint32_t l = 0; l < graph->leaves.count; l++) graph->leaves.data[l].reusable = false;
  for (uint32_t i = 0; i < graph->nodes.count; i++) graph->nodes.data[i].home = -1;
}

/* Leaves out what no kept node needs, to show as little as possible. */
static void prune(kl_graph *graph) {
  bool needed[RANDOM_MAX_NODES] = {false};
  for (int32_t i = (int32_t)graph->nodes.count - 1; i >= 0; i--) {
    kl_node *node = &graph->nodes.data[i];
    needed[i] |= (node->flags & KL_NODE_KEEP) != 0;
    if (!needed[i]) node->flags |= KL_NODE_DEAD;
    for (int a = 0; needed[i] && a < node->n_operands; a++)
      if (node->operands[a].node >= 0) needed[node->operands[a].node] = true;
  }
}

static bool check_tape(job *j, tape *t, uint64_t variant) {
  random_graph g;
  random_graph_make(&g, t, j->options->n_steps);
  if (j->options->no_reuse) forbid_reuse(&g.graph);
  if (j->prunes) prune(&g.graph);
  check c = {.g = &g,
             .options = j->options,
             .totals = j->totals,
             .variant = variant,
             .explain = j->explain};
  if (j->explain) {
    kl_text text = {0};
    if (kl_graph_print(&g.graph, &text) == KL_OK) printf("%s", kl_text_string(&text));
    kl_text_finish(&text);
    fflush(stdout);
  }
  bool same = check_graph(&c);
  if (j->explain) printf("%s\n", same ? "no difference" : c.fault), fflush(stdout);
  if (same) random_graph_count(&g, &j->totals->coverage);
  j->totals->graphs++;
  j->totals->nodes += g.graph.nodes.count;
  random_graph_finish(&g);
  return same;
}

static bool check_one(void *user) {
  job *j = user;
  tape_rewind(j->t);
  return check_tape(j, j->t, j->seed);
}

static bool check_many(void *user) {
  job *j = user;
  bool same = true;
  tape t = {0};
  for (long i = 0; i < j->count && same; i++) {
    j->totals->seed = j->seed + (uint64_t)i;
    tape_start(&t, j->totals->seed);
    same = check_tape(j, &t, j->totals->seed);
  }
  tape_finish(&t);
  return same;
}

static bool tape_fails(void *user, tape *t) {
  job one = *(job *)user;
  one.t = t;
  return !isolate(check_one, &one, ISOLATE_QUIET);
}

static void explain(job *j, uint64_t seed) {
  random_graph g;
  tape t = {0};
  tape_start(&t, seed);
  random_graph_make(&g, &t, j->options->n_steps);
  random_graph_finish(&g);
  job one = {.seed = seed, .options = j->options, .totals = j->totals};
  /* What fails in tier 0 is shrunk without the compiler, which takes its time. */
  graph_check_options tier_0 = *j->options;
  tier_0.llvm = false;
  one.options = &tier_0;
  if (!tape_fails(&one, &t)) one.options = j->options;
  one.prunes = true;
  one.prunes = tape_fails(&one, &t);
  int n_tries = tape_shrink(&t, tape_fails, &one, 6000);
  printf("seed %llu differs; after %d tries of shrinking:\n", (unsigned long long)seed, n_tries);
  fflush(stdout);
  one.t = &t;
  one.explain = true;
  isolate(check_one, &one, ISOLATE_LOUD);
  tape_finish(&t);
}

bool graph_check_range(uint64_t first, long count, const graph_check_options *options,
                       graph_check_totals *totals) {
  graph_check_totals *shared = isolate_share(sizeof *shared);
  *shared = *totals;
  job j = {.seed = first, .count = count, .options = options, .totals = shared};
  bool same = isolate(check_many, &j, ISOLATE_QUIET);
  *totals = *shared;
  if (!same) explain(&j, shared->seed);
  isolate_unshare(shared, sizeof *shared);
  return same;
}

void graph_check_print(const graph_check_totals *t) {
  printf(
      "%ld graphs of %ld nodes: %ld kernels (%ld sections, %ld reductions, %ld split by columns, "
      "%ld scratch rows, at most %ld nodes), %ld matrix products, %ld copies, %ld outputs in "
      "leaves; no difference\n",
      t->graphs, t->nodes, t->kernels, t->sections, t->reduces, t->split_sections, t->scratch,
      t->most_nodes_in_a_kernel, t->matmuls, t->copies, t->in_place);
}
