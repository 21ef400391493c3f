/*
 * kernel_case.h: runs one section of kernel IR, given as text, on made-up data, so that two tiers
 * can be compared byte by byte.
 *
 * In the text an access is written `@k`, and stands for the k-th entry of `accesses`, one character
 * a dim that says how the buffer lies: `1` dense with stride ONE; `n` dense, `2` every second
 * element, `r` backwards, all of class ANY; `0` broadcast, class ZERO. The dim of stride ONE is the
 * innermost; the strides of the others follow from the dims after them. A trailing `*` makes the
 * access dynamic: the index follows it in the text. `$k` is the slot of own_ints[k].
 */
#ifndef TESTS_SUPPORT_KERNEL_CASE_H
#define TESTS_SUPPORT_KERNEL_CASE_H

#include "ir/launch.h"

enum { CASE_MAX_BUFS = 8, CASE_MAX_ACCESSES = 12, CASE_MAX_INTS = 256 };

typedef struct kernel_case {
  const char *text; /* of bufs, section; without the line `kernel` */
  int n_dims, n_rows;
  int64_t extents[KL_MAX_RANK];
  const char *accesses[CASE_MAX_ACCESSES];
  int access_buf[CASE_MAX_ACCESSES];
  int64_t own_ints[8];
  kl_scalar scalars[16];
  int64_t index_limit;    /* values in i64 buffers are in [0, index_limit), if it is not 0 */
  int64_t dynamic_extent; /* places a dynamic index may choose from, innermost dims excluded */
  bool specials; /* float data has NaN, infinities, zeros of both signs, huge and tiny values */
} kernel_case;

typedef struct case_run {
  kl_kernel kernel;
  int64_t ints[CASE_MAX_INTS];
  size_t nbytes[CASE_MAX_BUFS];
  size_t guard[CASE_MAX_BUFS];
} case_run;

/* Parses and verifies; fills the int arguments. */
kl_status case_open(const kernel_case *c, case_run *out_run);
void case_close(case_run *run);
/* The kernel's text with all accesses written out; to be freed. */
char *case_text(const kernel_case *c);
/* Runs all phases of the code in pieces of at most `piece` units, on fresh data that
 * depends on `seed` only; out_bufs[i] (each to be freed) are the buffers' bytes afterwards. */
void case_execute(const kernel_case *c, const case_run *run, const kl_code *code, unsigned seed,
                  int64_t piece, char *out_bufs[CASE_MAX_BUFS]);
/* The first element in which the buffers differ, NaNs being one value; -1: none. */
int64_t case_first_difference(kl_dtype dtype, const char *a, const char *b, size_t nbytes);

#endif
