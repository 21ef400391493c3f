/* Makes random programs from a tape, by running them eagerly as they grow. */
#ifndef TESTS_RANDOM_PROGRAM_MAKE_H
#define TESTS_RANDOM_PROGRAM_MAKE_H

#include "tests/random/program.h"
#include "tests/random/tape.h"

/* The next statement for a machine in this state: mostly one that succeeds there. */
statement program_next(tape *t, machine *m);
/* Whether another statement follows; `n` have been made. */
bool program_goes_on(tape *t, int n);

#endif
