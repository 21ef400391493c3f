/* Reads CPUID and XGETBV: a level counts only if the operating system saves its registers. */
#include "runtime/cpu_features.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "ir/support/options.h"

#if defined(__x86_64__)
#include <cpuid.h>

typedef struct cpuid_words {
  unsigned eax, ebx, ecx, edx;
} cpuid_words;

static cpuid_words cpuid(unsigned leaf) {
  cpuid_words words = {0, 0, 0, 0};
  if (!__get_cpuid_count(leaf, 0, &words.eax, &words.ebx, &words.ecx, &words.edx))
    return (cpuid_words){0, 0, 0, 0};
  return words;
}

static bool has_all(unsigned word, unsigned bits) { return (word & bits) == bits; }

/* Register states that the operating system saves; 0 where it has not enabled XSAVE. */
static uint64_t saved_states(cpuid_words basic) {
  if (!has_all(basic.ecx, bit_OSXSAVE)) return 0;
  unsigned low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t)high << 32 | low;
}

kl_cpu_level kl_cpu_level_host(void) {
  const uint64_t avx_states = 0x6, avx512_states = 0xe6;
  cpuid_words basic = cpuid(1), more = cpuid(7), extended = cpuid(0x80000001);
  uint64_t states = saved_states(basic);
  if (!has_all(basic.ecx, bit_SSE3 | bit_SSSE3 | bit_SSE4_1 | bit_SSE4_2 | bit_POPCNT))
    return KL_CPU_GENERIC;
  bool v3 = has_all(basic.ecx, bit_AVX | bit_FMA | bit_F16C | bit_MOVBE) &&
            has_all(more.ebx, bit_AVX2 | bit_BMI | bit_BMI2) &&
            has_all(extended.ecx, bit_LZCNT) && (states & avx_states) == avx_states;
  if (!v3) return KL_CPU_V2;
  bool v4 = has_all(more.ebx, bit_AVX512F | bit_AVX512BW | bit_AVX512CD | bit_AVX512DQ |
                                  bit_AVX512VL) &&
            (states & avx512_states) == avx512_states;
  return v4 ? KL_CPU_V4 : KL_CPU_V3;
}
#elif defined(__aarch64__)
kl_cpu_level kl_cpu_level_host(void) { return KL_CPU_NEON; }
#else
kl_cpu_level kl_cpu_level_host(void) { return KL_CPU_GENERIC; }
#endif

kl_cpu_level kl_cpu_level_get(void) {
  /* Kept, because CPUID traps in a virtual machine: tens of microseconds. */
  static atomic_int known = -1;
  int level = atomic_load_explicit(&known, memory_order_relaxed);
  if (level < 0) {
    int cap = kl_options_get()->isa;
    level = (int)kl_cpu_level_host();
    if (level >= KL_CPU_V2 && cap != 0 && level > cap) level = cap;
    atomic_store_explicit(&known, level, memory_order_relaxed);
  }
  return (kl_cpu_level)level;
}

const char *kl_cpu_level_name(kl_cpu_level level) {
  switch (level) {
    case KL_CPU_GENERIC: return "generic";
    case KL_CPU_NEON: return "neon";
    case KL_CPU_V2: return "x86-64-v2";
    case KL_CPU_V3: return "x86-64-v3";
    case KL_CPU_V4: return "x86-64-v4";
  }
  return "unknown";
}
