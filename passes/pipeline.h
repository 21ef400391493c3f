/* The passes: from a graph to a program. */
#ifndef KL_PASSES_PIPELINE_H
#define KL_PASSES_PIPELINE_H

#include "ir/graph.h"
#include "ir/program.h"

typedef struct kl_pass_options {
  int n_threads;  /* schedule: when to share the columns of few rows */
  bool verify;    /* run the verifier after each pass */
  /* Called with the IR's text after each pass whose name is `dump` ("all": after each). */
  const char *dump;
  void (*dump_fn)(void *user, const char *pass, const char *text);
  void *dump_user;
} kl_pass_options;

/* Takes the graph apart (it may be changed); on failure out_program is empty. */
kl_status kl_passes_run(kl_graph *graph, const kl_pass_options *options, kl_program *out_program)
    KL_MUST_CHECK;

/* Graph to graph passes by name, for kael-opt: fold, cse, dce, views, coalesce. NULL: no such. */
typedef kl_status kl_graph_pass_fn(kl_graph *graph);
kl_graph_pass_fn *kl_graph_pass_find(const char *name);

kl_graph_pass_fn kl_pass_fold, kl_pass_cse, kl_pass_dce, kl_pass_views, kl_pass_coalesce;

#endif
