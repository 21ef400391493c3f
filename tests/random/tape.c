/* Recording, replaying and shrinking choices. See tape.h. */
#include "tests/random/tape.h"

#include <stdlib.h>
#include <string.h>

/* SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014). */
static uint64_t draw(tape *t) {
  uint64_t z = t->random_state += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

void tape_start(tape *t, uint64_t seed) {
  t->choices.count = t->at = 0;
  t->random_state = seed;
  t->replays = false;
}

void tape_rewind(tape *t) {
  t->at = 0;
  t->replays = true;
}

void tape_finish(tape *t) { kl_vec_finish(&t->choices); }

uint32_t tape_choose(tape *t, uint32_t n) {
  if (t->replays) return t->at < t->choices.count ? t->choices.data[t->at++] % n : 0;
  uint32_t choice = (uint32_t)((draw(t) >> 32) % n);
  if (!kl_vec_push(&t->choices, choice)) abort();
  t->at++;
  return choice;
}

bool tape_chance(tape *t, uint32_t m, uint32_t n) { return tape_choose(t, n) >= n - m; }

int64_t tape_between(tape *t, int64_t low, int64_t high) {
  return low + (int64_t)tape_choose(t, (uint32_t)(high - low + 1));
}

/* ------------------------------------------------------------------ shrinking */

typedef struct search {
  tape *best;
  bool (*fails)(void *user, tape *t);
  void *user;
  int n_left;
} search;

static void copy_choices(tape *to, const tape *from) {
  if (!kl_vec_reserve(&to->choices, from->choices.count + 1)) abort();
  if (from->choices.count)
    memcpy(to->choices.data, from->choices.data, sizeof(uint32_t) * from->choices.count);
  to->choices.count = from->choices.count;
}

/* Takes the candidate over where it still fails. */
static bool try_tape(search *s, tape *candidate) {
  if (s->n_left-- <= 0) return false;
  tape_rewind(candidate);
  if (!s->fails(s->user, candidate)) return false;
  copy_choices(s->best, candidate);
  return true;
}

static bool try_without(search *s, uint32_t first, uint32_t n) {
  tape candidate = {0};
  copy_choices(&candidate, s->best);
  uint32_t rest = candidate.choices.count - first - n;
  memmove(candidate.choices.data + first, candidate.choices.data + first + n,
          sizeof(uint32_t) * rest);
  candidate.choices.count -= n;
  bool fails = try_tape(s, &candidate);
  tape_finish(&candidate);
  return fails;
}

static bool try_value(search *s, uint32_t at, uint32_t n, uint32_t value) {
  tape candidate = {0};
  bool differs = false;
  copy_choices(&candidate, s->best);
  for (uint32_t i = at; i < at + n; i++) {
    differs |= candidate.choices.data[i] != value;
    candidate.choices.data[i] = value;
  }
  bool fails = differs && try_tape(s, &candidate);
  tape_finish(&candidate);
  return fails;
}

static bool drop_blocks(search *s, uint32_t n) {
  bool progress = false;
  for (uint32_t end = s->best->choices.count; end >= n && end > 0 && s->n_left > 0;) {
    if (try_without(s, end - n, n)) {
      progress = true;
      end = end - n < s->best->choices.count ? end - n : s->best->choices.count;
    } else {
      end -= n > 8 ? n / 2 : 1;
    }
  }
  return progress;
}

static bool zero_blocks(search *s, uint32_t n) {
  bool progress = false;
  for (uint32_t first = 0; first + n <= s->best->choices.count && s->n_left > 0; first += n)
    progress |= try_value(s, first, n, 0);
  return progress;
}

static bool lower_values(search *s) {
  bool progress = false;
  for (uint32_t at = 0; at < s->best->choices.count && s->n_left > 0; at++) {
    while (s->best->choices.data[at] > 1 && s->n_left > 0 &&
           try_value(s, at, 1, s->best->choices.data[at] / 2))
      progress = true;
    if (s->best->choices.data[at] > 0)
      progress |= try_value(s, at, 1, s->best->choices.data[at] - 1);
  }
  return progress;
}

int tape_shrink(tape *t, bool (*fails)(void *user, tape *t), void *user, int n_tries) {
  search s = {.best = t, .fails = fails, .user = user, .n_left = n_tries};
  for (bool progress = true; progress && s.n_left > 0;) {
    progress = false;
    /* From large blocks to small ones; the sizes in between fit groups of choices. */
    for (uint32_t n = t->choices.count; n >= 1; n = n > 8 ? n / 2 : n - 1) {
      progress |= drop_blocks(&s, n);
      progress |= zero_blocks(&s, n);
    }
    progress |= lower_values(&s);
  }
  return n_tries - (s.n_left > 0 ? s.n_left : 0);
}
