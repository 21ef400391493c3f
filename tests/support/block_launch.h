/* What the tests of tier 0 share: a kernel from text, run phase by phase in chosen partitions of its
 * units, at every level of the instruction set that this machine has; data, and the defined order
 * of a sum spelled out. */
#ifndef TESTS_SUPPORT_BLOCK_LAUNCH_H
#define TESTS_SUPPORT_BLOCK_LAUNCH_H

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/block/block.h"
#include "ir/launch.h"
#include "tests/support/runner.h"

typedef struct launch {
  const char *text;
  void *bufs[8];
  int64_t ints[64];
  kl_scalar scalars[64];
  int64_t units; /* in a call; 0: all */
} launch;

void run_launch(const launch *l);

/* Bit for bit, but all NaN are one. */
void assert_f32_eq(const float *got, const float *want, int64_t n);
void assert_i64_eq(const int64_t *got, const int64_t *want, int64_t n);

/* Runs the launch at every level, in several partitions of the units, and compares `out`. */
void check_f32(launch *l, float *out, const float *want, int64_t n);
void check_i64(launch *l, int64_t *out, const int64_t *want, int64_t n);

/* Values of many magnitudes, so that another order of a sum gives other bits; now and then -0. */
float *random_f32(int64_t n, uint32_t seed);
float *new_f32(int64_t n); /* zeros; never NULL, for n = 0 either */

/* x[0], x[stride], ... in the order that docs/numerics.md defines. */
float sum_ordered(const float *x, int64_t n, int64_t stride);

#endif
