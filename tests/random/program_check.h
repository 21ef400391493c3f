/* One random program after the other, eagerly, by the model, and lazily. */
#ifndef TESTS_RANDOM_PROGRAM_CHECK_H
#define TESTS_RANDOM_PROGRAM_CHECK_H

#include <stdint.h>

#include "tests/random/program.h"

enum { PROGRAM_LAYOUTS = 5, PROGRAM_ALIASES = 3 };

typedef struct program_check_totals {
  long programs, statements, failures, model_values;
  /* statement kind x (contiguous, permuted, gapped, broadcast, empty) of its first operand x
   * (alone, shares its storage with another register, is another register) */
  long covered[S_KIND_COUNT][PROGRAM_LAYOUTS][PROGRAM_ALIASES];
  program program; /* that is being checked */
  uint64_t seed;
} program_check_totals;

/* Checks seeds [first, first + count) in a child process; a program that differs or crashes is
 * shrunk and printed as C. False when there was one. */
bool program_check_range(uint64_t first, long count, kael_jit_mode mode,
                         program_check_totals *totals);
void program_check_print(const program_check_totals *totals, bool coverage);

#endif
