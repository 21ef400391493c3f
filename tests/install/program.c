/* A C program of a user: only what an installation of kael offers. */
#include <kael/kael.h>

#include <stdio.h>

static int fail(void) {
  fprintf(stderr, "%s\n", kael_last_error().message);
  return 1;
}

int main(void) {
  const float data[] = {1, 2, 3, 4, 5, 6};
  if (kael_scope_begin()) return fail();
  kael_tensor *a = kael_from_data(data, 2, (int64_t[]){2, 3}, KAEL_F32);
  kael_tensor *t = kael_T(a);
  kael_tensor *sum = kael_sum(kael_mul_scalar(kael_matmul(a, t), kael_f(0.5)));
  double value;
  if (kael_item(sum, &value)) return fail();
  if (kael_scope_end()) return fail();
  printf("C, mode %d: %g\n", kael_jit(), value);
  return value == 77.5 ? 0 : 1; /* (14 + 32 + 32 + 77) / 2 */
}
