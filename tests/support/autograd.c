/* See autograd.h. */
#include "tests/support/autograd.h"

void begin(int mode) {
  OK(kael_set_jit(mode ? KAEL_JIT_LAZY : KAEL_JIT_EAGER));
  OK(kael_scope_begin());
}
void end(void) {
  OK(kael_scope_end());
  OK(kael_set_jit(KAEL_JIT_DEFAULT));
}

void failed_with(kael_status status, const char *text) {
  ck_assert_int_ne(status, KAEL_OK);
  ck_assert_msg(strstr(kael_last_error().message, text) != NULL, "message: %s",
                kael_last_error().message);
  kael_clear_error();
}

T made(T tensor) {
  ck_assert_msg(tensor != NULL, "%s", kael_last_error().message);
  return tensor;
}

T vec(int n, const double *values) {
  const int64_t shape[1] = {n};
  float data[64];
  for (int i = 0; i < n; i++) data[i] = (float)values[i];
  return made(kael_from_data(data, 1, shape, KAEL_F32));
}

T matrix(int rows, int cols, double first) {
  const int64_t shape[2] = {rows, cols};
  float data[64];
  for (int i = 0; i < rows * cols; i++) data[i] = (float)(first + i);
  return made(kael_from_data(data, 2, shape, KAEL_F32));
}

T leaf(T tensor) {
  OK(kael_requires_grad_(tensor, true));
  return tensor;
}

void holds(T tensor, int n, const double *expected) {
  made(tensor);
  float data[64];
  ck_assert_int_eq(kael_numel(tensor), n);
  OK(kael_copy_to_host(tensor, data, (size_t)n * sizeof(float)));
  for (int i = 0; i < n; i++)
    ck_assert_msg(data[i] == (float)expected[i], "element %d is %g, expected %g", i, data[i],
                  expected[i]);
}

kael_status backward(T tensor) { return kael_backward(tensor, KAEL_NONE, false, false); }
T twice(T x) { return made(kael_mul_scalar(x, kael_f(2))); }

void grad_fn_is(T tensor, const char *name) {
  const char *actual = kael_grad_fn_name(tensor);
  if (!name)
    ck_assert_ptr_null(actual);
  else
    ck_assert_msg(actual && strcmp(actual, name) == 0, "grad_fn is %s, expected %s",
                  actual ? actual : "none", name);
}
