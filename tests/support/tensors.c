/* Helpers of the tests of the public API. */
#include "tests/support/tensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ELEMS = 4096 };

void kl_test_begin(int mode) {
  OK(kael_set_jit(mode ? KAEL_JIT_LAZY : KAEL_JIT_EAGER));
  OK(kael_scope_begin());
}

void kl_test_end(void) {
  OK(kael_scope_end());
  OK(kael_set_jit(KAEL_JIT_DEFAULT));
}

kael_tensor *kl_test_made(kael_tensor *tensor, const char *call) {
  ck_assert_msg(tensor != NULL, "%s: %s", call, kael_last_error().message);
  return tensor;
}

kael_tensor *kl_test_vector(kael_dtype dtype, int n, const double *values) {
  const int64_t shape[1] = {n};
  kael_tensor *doubles = MADE(kael_from_data(values, 1, shape, KAEL_F64));
  return MADE(kael_to_dtype(doubles, dtype));
}

kael_tensor *kl_test_range(kael_dtype dtype, int ndim, const int64_t *shape) {
  double values[MAX_ELEMS];
  int64_t numel = 1;
  for (int d = 0; d < ndim; d++) numel *= shape[d];
  for (int i = 0; i < numel; i++) values[i] = i;
  kael_tensor *doubles = MADE(kael_from_data(values, ndim, shape, KAEL_F64));
  kael_tensor *result = MADE(kael_to_dtype(doubles, dtype));
  OK(kael_eval(&result, 1));
  return result;
}

void kl_test_values(kael_tensor *tensor, const char *what, int n, const double *values) {
  double found[MAX_ELEMS];
  kl_test_made(tensor, what);
  ck_assert_msg(kael_numel(tensor) == n, "%s has %lld elements, not %d", what,
                (long long)kael_numel(tensor), n);
  kael_tensor *doubles = MADE(kael_to_dtype(tensor, KAEL_F64));
  OK(kael_copy_to_host(doubles, found, sizeof(double) * (size_t)n));
  for (int i = 0; i < n; i++) {
    bool same = isnan(values[i]) ? isnan(found[i])
                                 : found[i] == values[i] && signbit(found[i]) == signbit(values[i]);
    ck_assert_msg(same, "%s: element %d is %.17g, not %.17g", what, i, found[i], values[i]);
  }
}

static void check_sizes(const char *what, const char *kind, int n_found, const int64_t *found,
                        int n, const int64_t *expected) {
  ck_assert_msg(n_found == n, "%s has %d dims, not %d", what, n_found, n);
  for (int d = 0; d < n; d++)
    ck_assert_msg(found[d] == expected[d], "%s: %s %d is %lld, not %lld", what, kind, d,
                  (long long)found[d], (long long)expected[d]);
}

void kl_test_shape(kael_tensor *tensor, const char *what, int ndim, const int64_t *shape) {
  kl_test_made(tensor, what);
  check_sizes(what, "size", kael_ndim(tensor), kael_shape(tensor), ndim, shape);
}

void kl_test_strides(kael_tensor *tensor, const char *what, int ndim, const int64_t *strides) {
  kl_test_made(tensor, what);
  check_sizes(what, "stride", kael_ndim(tensor), kael_strides(tensor), ndim, strides);
}

void kl_test_failed(bool failed, const char *call, kael_status code, const char *text) {
  kael_error error = kael_last_error();
  ck_assert_msg(failed, "%s did not fail so", call);
  ck_assert_msg(error.code == code, "%s: code %s, not %s (%s)", call, kael_status_name(error.code),
                kael_status_name(code), error.message);
  ck_assert_msg(strstr(error.message, text) != NULL, "%s: the message is '%s'", call,
                error.message);
  kael_clear_error();
}
