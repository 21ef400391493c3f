// The public headers, read as C++17: they compile without warnings, and their inline functions give
// what they give in C.
#include <kael/kael.h>

#include <cstdio>

int main() {
  bool right = kael_f(0.5).kind == KAEL_SCALAR_FLOAT && kael_f(0.5).as.f == 0.5 &&
               kael_i(-3).kind == KAEL_SCALAR_INT && kael_i(-3).as.i == -3 &&
               kael_b(true).kind == KAEL_SCALAR_BOOL && kael_b(true).as.b;
  const int64_t shape[] = {2, 3};
  kael_tensor *ones = kael_full(2, shape, kael_f(0.5), KAEL_F32);
  kael_tensor *sum = kael_sum(kael_retain(ones));
  double value = 0;
  right = right && kael_item(sum, &value) == KAEL_OK && value == 3;
  kael_release(sum);
  kael_release(ones);
  right = right && kael_release(ones) == KAEL_OK;
  std::printf("headers in C++: %s\n", right ? "right" : "wrong");
  return right ? 0 : 1;
}
