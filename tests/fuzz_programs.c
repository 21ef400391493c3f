/* Random programs over the public API: eager against the naive model, and lazy against eager.
 *
 *   fuzz_programs [--seed N] [--count M] [--mode tier0|sync|eager] [--coverage]
 *
 * What can be seen must be the same in both modes: values bit for bit, shapes, strides, versions,
 * gradients, which tensors share memory, error codes and texts. A program that differs is shrunk
 * and printed as C. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/random/program_check.h"

typedef struct settings {
  uint64_t seed;
  long count;
  kael_jit_mode mode;
  bool coverage;
} settings;

static bool parse_mode(const char *text, kael_jit_mode *out_mode) {
  static const char *const names[] = {"eager", "tier0", "sync"};
  for (int i = 0; i < 3; i++)
    if (strcmp(text, names[i]) == 0) {
      *out_mode = (kael_jit_mode)i;
      return true;
    }
  return false;
}

static bool parse_settings(int argc, char **argv, settings *s) {
  for (int i = 1; i < argc; i++) {
    bool has_value = i + 1 < argc;
    if (strcmp(argv[i], "--coverage") == 0) {
      s->coverage = true;
    } else if (strcmp(argv[i], "--seed") == 0 && has_value) {
      s->seed = strtoull(argv[++i], NULL, 10);
    } else if (strcmp(argv[i], "--count") == 0 && has_value) {
      s->count = strtol(argv[++i], NULL, 10);
    } else if (strcmp(argv[i], "--mode") == 0 && has_value) {
      if (!parse_mode(argv[++i], &s->mode)) return false;
    } else {
      return false;
    }
  }
  return true;
}

int main(int argc, char **argv) {
  settings s = {.seed = 1, .count = 1000, .mode = KAEL_JIT_LAZY};
  if (!parse_settings(argc, argv, &s)) {
    fprintf(stderr,
            "usage: fuzz_programs [--seed N] [--count M] [--mode tier0|sync|eager] "
            "[--coverage]\n");
    return 2;
  }
  program_check_totals totals = {0};
  if (!program_check_range(s.seed, s.count, s.mode, &totals)) return EXIT_FAILURE;
  program_check_print(&totals, s.coverage);
  return EXIT_SUCCESS;
}
