/* What the tests of autograd share: small float32 tensors, and checks that name what was expected.
 */
#ifndef TESTS_SUPPORT_AUTOGRAD_H
#define TESTS_SUPPORT_AUTOGRAD_H

#include <string.h>

#include "kael/autograd.h"
#include "kael/factory.h"
#include "kael/jit.h"
#include "kael/nn.h"
#include "kael/ops.h"
#include "kael/reduce.h"
#include "kael/scope.h"
#include "kael/tensor.h"
#include "kael/view.h"
#include "tests/support/runner.h"

typedef kael_tensor *T;

#define OK(call) ck_assert_msg((call) == KAEL_OK, "%s: %s", #call, kael_last_error().message)

/* Opens a scope in eager (0) or lazy mode, and closes it. */
void begin(int mode);
void end(void);
/* Checks that the last call failed with a message that contains `text`; forgets the error. */
void failed_with(kael_status status, const char *text);
/* The tensor itself, which must not be NULL. */
T made(T tensor);
T vec(int n, const double *values);
#define VEC(...)                                                                                   \
  vec((int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (double[]){__VA_ARGS__})
/* first, first + 1, ... row by row. */
T matrix(int rows, int cols, double first);
/* The tensor itself, made to require a gradient. */
T leaf(T tensor);
/* Checks the elements of a float32 tensor, row by row. */
void holds(T tensor, int n, const double *expected);
#define HOLDS(tensor, ...)                                                                         \
  holds(tensor, (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)), (double[]){__VA_ARGS__})
kael_status backward(T tensor);
T twice(T x);
/* NULL: it must be a leaf. */
void grad_fn_is(T tensor, const char *name);

#endif
