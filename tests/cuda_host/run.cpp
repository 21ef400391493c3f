/* Runs one CUDA unit on the host (simt.h) and compares its results with tier 0's, bit for bit.
 * Built once for each case: KL_CASE_<name>, KL_UNIT the emitted text, KL_KERNEL the text of the IR.
 */
#include "tests/cuda_host/simt.h"

#include KL_UNIT

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/cuda_host/reference.h"

namespace {

using bytes = std::vector<char>;

double random_unit() {
  static uint64_t state = 88172645463325252u;
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (double)(state >> 11) / (double)(1ull << 53);
}

/* n numbers between low and high; now and then a NaN. */
template <typename T>
bytes numbers(long long n, double low, double high, bool nans = false) {
  bytes data((size_t)n * sizeof(T) + 1);
  for (long long i = 0; i < n; i++) {
    const T value =
        nans && random_unit() < 0.001 ? (T)NAN : (T)(low + (high - low) * random_unit());
    std::memcpy(data.data() + (size_t)i * sizeof value, &value, sizeof value);
  }
  return data;
}

uint64_t scalar(float value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

struct run {
  std::vector<bytes> bufs;
  std::vector<long long> ints;
  std::vector<uint64_t> scalars;
  std::vector<void (*)(kl_args)> functions;
};

void run_on_host(run &r) {
  constexpr unsigned n_blocks = 3, workers = n_blocks * 8;
  static std::vector<kl_scalar> frame(4096), partials(65536);
  static std::vector<char> scratch(workers << 18);
  kl_args args = {};
  for (size_t i = 0; i < r.bufs.size(); i++) args.bufs[i] = r.bufs[i].data();
  for (size_t i = 0; i < r.ints.size(); i++) args.ints[i] = r.ints[i];
  for (size_t i = 0; i < r.scalars.size(); i++) args.scalars[i].bits = r.scalars[i];
  args.frame = frame.data();
  args.partials = partials.data();
  args.scratch = scratch.data();
  args.scratch_stride = 1 << 18;
  for (void (*function)(kl_args) : r.functions) simt::launch(n_blocks, [&] { function(args); });
}

int n_runs, n_failed;

void check(run host) {
  std::ifstream file(KL_KERNEL, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  run tier_0 = host;
  std::vector<void *> bufs;
  for (bytes &buf : tier_0.bufs) bufs.push_back(buf.data());
  const std::vector<int64_t> ints(host.ints.begin(), host.ints.end());
  const char *error =
      run_by_tier_0(text.data(), text.size(), bufs.data(), ints.data(), host.scalars.data());
  run_on_host(host);
  n_runs++;
  bool equal = !error;
  for (size_t i = 0; i < bufs.size(); i++) equal = equal && host.bufs[i] == tier_0.bufs[i];
  if (equal) return;
  n_failed++;
  std::printf("run %d, first extents %lld, %lld: %s\n", n_runs, host.ints[0], host.ints[1],
              error ? error : "the bytes differ from tier 0's");
}

#if defined KL_CASE_softmax
void check_all() {
  for (long long cols : {0, 1, 31, 1024, 1025, 9217, 20000}) {
    for (auto function : {kl_s0_p0_warp, kl_s0_p0_block})
      check({{numbers<float>(7 * cols, -9, 9), numbers<float>(7 * cols, 0, 0), {}},
             {7, cols, 0, cols, 1, 0, 0, 1, 0, cols, 1},
             {},
             {function}});
  }
}
#elif defined KL_CASE_softmax_of_columns
void check_all() {
  for (long long cols : {0, 1, 33, 1024, 5000})
    check({{numbers<double>(40 * cols, -9, 9), numbers<double>(40 * cols, 0, 0)},
           {40, cols, 0, 1, 40, 0, 1, 40},
           {},
           {kl_s0_p0_thread}});
}
#elif defined KL_CASE_split_sum
void check_all() {
  for (long long cols : {1, 33, 1024, 5000, 9217, 70000})
    for (bool nans : {false, true})
      check({{numbers<float>(3 * cols, -9, 9, nans), numbers<float>(3, 0, 0),
              numbers<float>(3 * cols, 0, 0)},
             {3, cols, 0, cols, 1, 0, 1, 0, 0, cols, 1},
             {scalar(0.37f)},
             {kl_s0_p0_warp, kl_s0_p1_block, kl_s0_p2_block}});
}
#elif defined KL_CASE_argmax
void check_all() {
  for (long long c : {1, 70, 300}) {
    const long long n = 5 * 31 * c;
    for (auto function : {kl_s0_p0_warp, kl_s0_p0_block})
      check({{numbers<float>(n, -3, 3, c == 70), numbers<unsigned char>(n, 0, 255),
              numbers<long long>(5, 0, 0), numbers<long long>(5, 0, 0), numbers<float>(5, 0, 0),
              numbers<unsigned char>(5, 0, 0)},
             {5, 31, c, n - 1, -31 * c, -c, -1, 0, 31 * c, c, 1, 0,
              1, 0,  0, 0,     1,       0,  0,  0, 1,      0, 0, 0},
             {},
             {function}});
  }
}
#elif defined KL_CASE_scatter_add
void check_all() {
  const bytes indices = numbers<long long>(900, 0, 50);
  for (auto function : {kl_s1_p0_warp, kl_s1_p0_block})
    check({{numbers<float>(50 * 20, 5, 6), indices, numbers<float>(900 * 20, -3, 3),
            numbers<unsigned short>(900 * 20, 0, 0)},
           {50 * 20, 0,  1, 20, 900, 0, 0, 1, 0,  1, 20, 0, 1, 0, 20, 0,
            900,     20, 0, 1,  0,   0, 0, 1, 20, 0, 20, 1, 0, 0, 0,  0},
           {scalar(0)},
           {kl_s0_p0_block, function, kl_s2_p0_block}});
}
#else
#error "which case?"
#endif

}  // namespace

int main() {
  check_all();
  std::printf("%d runs, %d failed\n", n_runs, n_failed);
  return n_runs > 0 && n_failed == 0 ? 0 : 1;
}
