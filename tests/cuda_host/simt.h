/* Just enough of CUDA C++ for a host compiler to run the units of codegen/cuda: each thread of a
 * block is a fiber, blocks run one after the other. A barrier or shuffle waits until all threads of
 * its block or warp have come, so one that not all of them reach hangs, and the test's time runs
 * out. */
#ifndef TESTS_CUDA_HOST_SIMT_H
#define TESTS_CUDA_HOST_SIMT_H

#include <ucontext.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(n)
#define __shared__ static

namespace simt {

constexpr unsigned block_threads = 256, warp_threads = 32, stack_nbytes = 128 << 10;

struct fiber {
  ucontext_t context;
  std::vector<char> stack = std::vector<char>(stack_nbytes);
  bool done = false;
};

struct barrier {
  unsigned arrived = 0, generation = 0;
};

inline fiber fibers[block_threads];
inline ucontext_t scheduler;
inline unsigned current;
inline barrier of_warp[block_threads / warp_threads], of_block;
inline std::function<void()> body;
inline char exchange[block_threads][16];

inline void wait(barrier &b, unsigned n_threads) {
  const unsigned generation = b.generation;
  if (++b.arrived == n_threads) {
    b.arrived = 0;
    b.generation++;
  }
  while (b.generation == generation) swapcontext(&fibers[current].context, &scheduler);
}

inline void enter() {
  body();
  fibers[current].done = true;
  swapcontext(&fibers[current].context, &scheduler);
}

}  // namespace simt

struct kl_simt_thread {
  operator unsigned() const { return simt::current; }
};
struct kl_simt_thread_index {
  kl_simt_thread x;
};
struct kl_simt_index {
  unsigned x;
};
static const kl_simt_thread_index threadIdx;
static kl_simt_index blockIdx, gridDim;
static const kl_simt_index blockDim = {simt::block_threads};

namespace simt {

template <typename Body>
void launch(unsigned n_blocks, Body kernel) {
  body = kernel;
  gridDim.x = n_blocks;
  for (blockIdx.x = 0; blockIdx.x < n_blocks; blockIdx.x++) {
    of_block = barrier();
    for (barrier &b : of_warp) b = barrier();
    for (fiber &f : fibers) {
      getcontext(&f.context);
      f.context.uc_stack.ss_sp = f.stack.data();
      f.context.uc_stack.ss_size = f.stack.size();
      f.done = false;
      makecontext(&f.context, enter, 0);
    }
    for (unsigned n_running = block_threads; n_running > 0;) {
      n_running = 0;
      for (current = 0; current < block_threads; current++) {
        if (fibers[current].done) continue;
        n_running++;
        swapcontext(&scheduler, &fibers[current].context);
      }
    }
  }
}

template <typename T>
T bits_as(const void *from) {
  T to;
  std::memcpy(&to, from, sizeof to);
  return to;
}

}  // namespace simt

static inline void __syncthreads() { simt::wait(simt::of_block, simt::block_threads); }
static inline void __syncwarp() {
  simt::wait(simt::of_warp[simt::current / simt::warp_threads], simt::warp_threads);
}
template <typename T>
static T __shfl_sync(unsigned, T v, int lane) {
  std::memcpy(simt::exchange[simt::current], &v, sizeof v);
  __syncwarp();
  const unsigned warp = simt::current / simt::warp_threads * simt::warp_threads;
  const T other = simt::bits_as<T>(simt::exchange[warp + (unsigned)lane % simt::warp_threads]);
  __syncwarp();
  return other;
}
template <typename T>
static T __shfl_down_sync(unsigned mask, T v, int n) {
  const int lane = (int)(simt::current % simt::warp_threads);
  return __shfl_sync(mask, v, lane + n < (int)simt::warp_threads ? lane + n : lane);
}

static inline float __int_as_float(int i) { return simt::bits_as<float>(&i); }
static inline double __longlong_as_double(long long i) { return simt::bits_as<double>(&i); }
static inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
static inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
static inline float __fsqrt_rn(float a) { return std::sqrt(a); }
static inline double __dsqrt_rn(double a) { return std::sqrt(a); }
static inline unsigned __umulhi(unsigned a, unsigned b) {
  return (unsigned)((uint64_t)a * b >> 32);
}
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}
static inline unsigned __brev(unsigned v) {
  unsigned reversed = 0;
  for (int bit = 0; bit < 32; bit++) reversed |= (v >> bit & 1) << (31 - bit);
  return reversed;
}

#endif
