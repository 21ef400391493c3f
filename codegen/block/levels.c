/* Which of the precompiled levels is used: the processor's best, or a lower one by request. */
#include <stdatomic.h>

#include "codegen/block/block.h"
#include "codegen/block/functions.h"

#define LEVEL(name) {kl_block_elem_##name, kl_block_cast_##name, kl_block_fold_##name}

#if defined(__x86_64__)

KL_BLOCK_DECLARE_LEVEL(v2)
KL_BLOCK_DECLARE_LEVEL(v3)
KL_BLOCK_DECLARE_LEVEL(v4)
static const kl_block_level levels[] = {[2] = LEVEL(v2), [3] = LEVEL(v3), [4] = LEVEL(v4)};
enum { LOWEST = 2, HIGHEST = 4 };

static int best_level(void) {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl"))
    return 4;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("bmi2"))
    return 3;
  return LOWEST;
}

#else

KL_BLOCK_DECLARE_LEVEL(base)
static const kl_block_level levels[] = {LEVEL(base)};
enum { LOWEST = 0, HIGHEST = 0 };

static int best_level(void) { return LOWEST; }

#endif

/* 0 until the first use or setting; threads that race to set it from 0 write the same value. */
static _Atomic int current_level;

int kl_block_set_level(int level) {
  int best = best_level();
  if (level > best) level = best;
  if (level > HIGHEST) level = HIGHEST;
  if (level < LOWEST) level = LOWEST;
  atomic_store_explicit(&current_level, level, memory_order_relaxed);
  return level;
}

const kl_block_level *kl_block_level_get(void) {
  int level = atomic_load_explicit(&current_level, memory_order_relaxed);
  if (level == 0) level = kl_block_set_level(HIGHEST);
  return &levels[level];
}
