/* Random choices on a tape, and shrinking.
 *
 * A generator makes all of its choices with tape_choose, in an order in which 0 is the simplest
 * choice. What it made is then a function of the tape alone: a recorded tape makes it again, and a
 * shorter or smaller tape makes something simpler of the same kind, which is always well formed.
 * So one shrinker serves all generators. A tape that has come to its end goes on with zeros. */
#ifndef TESTS_RANDOM_TAPE_H
#define TESTS_RANDOM_TAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "ir/support/vec.h"

typedef struct tape {
  KL_VEC(uint32_t) choices;
  uint32_t at;
  uint64_t random_state;
  bool replays;
} tape;

/* A tape that records choices drawn from a seed. */
void tape_start(tape *t, uint64_t seed);
/* From the first choice on again, without drawing new ones. */
void tape_rewind(tape *t);
void tape_finish(tape *t);

uint32_t tape_choose(tape *t, uint32_t n);                /* [0, n); n > 0 */
bool tape_chance(tape *t, uint32_t m, uint32_t n);        /* true m times of n; false is simpler */
int64_t tape_between(tape *t, int64_t low, int64_t high); /* low is the simplest */

/* Makes the tape shorter and its choices smaller as long as `fails` holds, with at most `n_tries`
 * calls of it. `fails` gets a rewound tape that it may read to its end. Returns the calls made. */
int tape_shrink(tape *t, bool (*fails)(void *user, tape *t), void *user, int n_tries);

#endif
