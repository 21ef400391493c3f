/* The whole way from a graph to a program, in order. */
#include "passes/pipeline.h"

#include <string.h>

#include "ir/support/text.h"
#include "passes/lower.h"
#include "passes/merge.h"

static const struct {
  const char *name;
  kl_graph_pass_fn *run;
} graph_passes[] = {
    {"fold", kl_pass_fold},         /* exact algebra */
    {"cse", kl_pass_cse},           /* equal nodes become one */
    {"dce", kl_pass_dce},           /* drop what no output needs */
    {"views", kl_pass_views},       /* read where the bytes come from */
    {"coalesce", kl_pass_coalesce}, /* chains of writes become one */
};
enum { N_GRAPH_PASSES = sizeof graph_passes / sizeof graph_passes[0] };

kl_graph_pass_fn *kl_graph_pass_find(const char *name) {
  for (int i = 0; i < N_GRAPH_PASSES; i++)
    if (strcmp(graph_passes[i].name, name) == 0) return graph_passes[i].run;
  return NULL;
}

static bool wants_dump(const kl_pass_options *options, const char *pass) {
  return options->dump_fn && options->dump &&
         (strcmp(options->dump, pass) == 0 || strcmp(options->dump, "all") == 0);
}

static kl_status dump_text(const kl_pass_options *options, const char *pass, const kl_graph *graph,
                           const kl_program *program) {
  kl_text text = {0};
  kl_status status = graph ? kl_graph_print(graph, &text) : KL_OK;
  for (uint32_t i = 0; program && i < program->kernels.count && status == KL_OK; i++)
    status = kl_kernel_print(&program->kernels.data[i], &text);
  if (status == KL_OK) options->dump_fn(options->dump_user, pass, kl_text_string(&text));
  kl_text_finish(&text);
  return status;
}

static kl_status run_graph_passes(kl_graph *graph, const kl_pass_options *options) {
  for (int i = 0; i < N_GRAPH_PASSES; i++) {
    KL_TRY(graph_passes[i].run(graph));
    if (options->verify) KL_TRY(kl_graph_verify(graph));
    if (wants_dump(options, graph_passes[i].name))
      KL_TRY(dump_text(options, graph_passes[i].name, graph, NULL));
  }
  return KL_OK;
}

static kl_status lower_step(const kl_fusion *fusion, const kl_plan *plan, const kl_step *step,
                            const kl_pass_options *options, kl_program *program) {
  if (step->group < 0) return kl_lower_copy(step->from, step->to, program);
  kl_schedule schedule;
  KL_TRY(kl_schedule_make(fusion, plan, step->group, options->n_threads, &schedule));
  kl_status status = kl_lower_group(fusion, plan, &schedule, step->group, program);
  kl_schedule_finish(&schedule);
  return status;
}

static kl_status make_program(kl_graph *graph, const kl_pass_options *options, kl_program *program) {
  kl_fusion fusion;
  kl_plan plan = {0};
  kl_status status = kl_fuse(graph, &fusion);
  if (status == KL_OK) status = kl_plan_make(&fusion, program, &plan);
  for (uint32_t i = 0; i < plan.steps.count && status == KL_OK; i++)
    status = lower_step(&fusion, &plan, &plan.steps.data[i], options, program);
  if (status == KL_OK) status = kl_merge_launches(program);
  kl_plan_finish(&plan);
  kl_fusion_finish(&fusion);
  return status;
}

static kl_status verify_program(const kl_program *program) {
  for (uint32_t i = 0; i < program->kernels.count; i++)
    KL_TRY(kl_kernel_verify(&program->kernels.data[i]));
  return KL_OK;
}

kl_status kl_passes_run(kl_graph *graph, const kl_pass_options *options, kl_program *out_program) {
  *out_program = (kl_program){0};
  kl_status status = options->verify ? kl_graph_verify(graph) : KL_OK;
  if (status == KL_OK) status = run_graph_passes(graph, options);
  if (status == KL_OK) status = make_program(graph, options, out_program);
  if (status == KL_OK && options->verify) status = verify_program(out_program);
  if (status == KL_OK && wants_dump(options, "lower"))
    status = dump_text(options, "lower", NULL, out_program);
  if (status != KL_OK) kl_program_finish(out_program);
  return status;
}
