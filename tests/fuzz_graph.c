/* Random graphs against the naive evaluator.
 *
 *   fuzz_graph [--seed N] [--count M] [--steps S] [--llvm] [--no-reuse] [--coverage]
 *
 * Each graph is verified, printed and read back, run through the passes and executed; every kept
 * value, and every byte of every leaf that the run may not change, is compared with the naive
 * evaluator's, bit for bit. A graph that differs is shrunk and printed as text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/random/graph_check.h"

typedef struct settings {
  uint64_t seed;
  long count;
  graph_check_options check;
  bool coverage;
} settings;

static bool parse_settings(int argc, char **argv, settings *s) {
  for (int i = 1; i < argc; i++) {
    bool has_value = i + 1 < argc;
    if (strcmp(argv[i], "--llvm") == 0)
      s->check.llvm = true;
    else if (strcmp(argv[i], "--no-reuse") == 0)
      s->check.no_reuse = true;
    else if (strcmp(argv[i], "--coverage") == 0)
      s->coverage = true;
    else if (strcmp(argv[i], "--seed") == 0 && has_value)
      s->seed = strtoull(argv[++i], NULL, 10);
    else if (strcmp(argv[i], "--count") == 0 && has_value)
      s->count = strtol(argv[++i], NULL, 10);
    else if (strcmp(argv[i], "--steps") == 0 && has_value)
      s->check.n_steps = (int)strtol(argv[++i], NULL, 10);
    else
      return false;
  }
  return s->check.n_steps > 0;
}

int main(int argc, char **argv) {
  settings s = {.seed = 1, .count = 1000, .check = {.n_steps = 12}};
  if (!parse_settings(argc, argv, &s)) {
    fprintf(stderr,
            "usage: fuzz_graph [--seed N] [--count M] [--steps S] [--llvm] [--no-reuse] "
            "[--coverage]\n");
    return 2;
  }
  graph_check_totals totals = {0};
  if (!graph_check_range(s.seed, s.count, &s.check, &totals)) return EXIT_FAILURE;
  if (s.coverage) random_coverage_print(&totals.coverage);
  graph_check_print(&totals);
  return EXIT_SUCCESS;
}
