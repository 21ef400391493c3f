/* What tests of the public API share: both modes, small tensors, comparisons. */
#ifndef TESTS_SUPPORT_TENSORS_H
#define TESTS_SUPPORT_TENSORS_H

#include "kael/kael.h"
#include "tests/support/runner.h"

/* Starts a test in eager (0) or lazy (1) mode, inside a scope; ends it. As a Check fixture they
 * serve loop tests: the mode is the loop's index. */
void kl_test_begin(int mode);
void kl_test_end(void);

/* Fails the test where the call did not return KAEL_OK, or a tensor. */
#define OK(call) ck_assert_msg((call) == KAEL_OK, "%s: %s", #call, kael_last_error().message)
kael_tensor *kl_test_made(kael_tensor *tensor, const char *call);
#define MADE(call) kl_test_made((call), #call)

/* Shapes and values as lists: SHAPE(2, 3) is two arguments, the number and the array. */
#define SHAPE(...)                                                                                 \
  (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }
#define SCALAR_SHAPE 0, NULL
#define VALUES(...)                                                                                \
  (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (const double[]) { __VA_ARGS__ }

/* 0, 1, 2, ... in this shape. */
kael_tensor *kl_test_range(kael_dtype dtype, int ndim, const int64_t *shape);
/* A vector of these numbers. */
kael_tensor *kl_test_vector(kael_dtype dtype, int n, const double *values);

/* The elements, row-major, are these numbers exactly (NaN equals NaN). */
void kl_test_values(kael_tensor *tensor, const char *what, int n, const double *values);
#define CHECK_VALUES(tensor, ...) kl_test_values((tensor), #tensor, VALUES(__VA_ARGS__))
void kl_test_shape(kael_tensor *tensor, const char *what, int ndim, const int64_t *shape);
#define CHECK_SHAPE(tensor, ...) kl_test_shape((tensor), #tensor, SHAPE(__VA_ARGS__))
void kl_test_strides(kael_tensor *tensor, const char *what, int ndim, const int64_t *strides);
#define CHECK_STRIDES(tensor, ...) kl_test_strides((tensor), #tensor, SHAPE(__VA_ARGS__))

/* The call gave NULL (or an error status) with this code, and a message that contains `text`; then
 * the error is cleared. */
void kl_test_failed(bool failed, const char *call, kael_status code, const char *text);
#define CHECK_NULL(call, code, text) kl_test_failed((call) == NULL, #call, (code), (text))
#define CHECK_STATUS(call, code, text) kl_test_failed((call) == (code), #call, (code), (text))

#endif
