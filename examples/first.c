/* A first program: (a * b + 1).exp() of two small tensors, its sum, and the gradient of that.
 *
 *   cc first.c $(pkg-config --cflags --libs kael_jit) -o first
 */
#include <kael/kael.h>

#include <stdio.h>

int main(void) {
  const float numbers[] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 2.5f};
  const int64_t shape[] = {2, 3};

  /* All that is made inside a scope is released at its end. */
  kael_scope_begin();
  kael_tensor *a = kael_from_data(numbers, 2, shape, KAEL_F32);
  kael_tensor *b = kael_full(2, shape, kael_f(0.5), KAEL_F32);
  kael_requires_grad_(a, true);

  /* Recorded, not computed. An operand that is NULL gives NULL, so errors are looked for once. */
  kael_tensor *c = kael_exp(kael_add_scalar(kael_mul(a, b), kael_i(1)));
  kael_tensor *total = kael_sum(c);
  kael_status status = kael_backward(total, KAEL_NONE, false, false);

  /* Reading the sum runs what it needs: one kernel. */
  double value = 0;
  if (status == KAEL_OK) status = kael_item(total, &value);
  if (status != KAEL_OK) {
    fprintf(stderr, "%s\n", kael_last_error().message);
    return 1;
  }
  char *text = kael_to_string(kael_grad(a));
  printf("the sum is %g, and its gradient\n%s\n", value, text ? text : kael_last_error().message);
  kael_string_free(text);
  kael_scope_end();
  return 0;
}
