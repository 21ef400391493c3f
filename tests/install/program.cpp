// A C++ program of a user: only what an installation of kael offers. The header is in two files of
// it, which must agree on what a Tensor is.
#include "scaled.hpp"

#include <iostream>

int main() try {
  kael::Tensor a = kael::tensor({1.0, 2.0, 3.0, 4.0, 5.0, 6.0}).view({2, 3}).clone();
  kael::Tensor b = a;
  kael::Tensor t = a.T();
  const auto sum = scaled(a.matmul(t), 0.5).sum().item<double>();
  t[1][1] = 42;
  bool right = sum == 77.5 && a.use_count() == 2 && a.storage_references() == 2;
  right = right && b[{1, 1}].item<float>() == 42 && same(a).is_same(b);
  std::cout << "C++, mode " << kael_jit() << ": " << sum << '\n';
  return right ? 0 : 1;
} catch (const kael::Error &error) {
  std::cerr << error.what() << '\n';
  return 1;
}
