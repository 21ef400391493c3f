/* Which precompiled variant of the vector code this machine can run. */
#ifndef KL_RUNTIME_CPU_FEATURES_H
#define KL_RUNTIME_CPU_FEATURES_H

/* Ordered within x86-64, so that `level >= KL_CPU_V3` means AVX2 and FMA. GENERIC is any machine
 * below v2 or of another architecture: portable C, fmaf from the C library. */
typedef enum kl_cpu_level {
  KL_CPU_GENERIC = 0,
  KL_CPU_NEON = 1, /* AArch64 */
  KL_CPU_V2 = 2,   /* SSE4.2 */
  KL_CPU_V3 = 3,   /* AVX2, FMA, F16C, BMI2 */
  KL_CPU_V4 = 4,   /* AVX-512 F, BW, CD, DQ, VL */
} kl_cpu_level;

/* The level to use: what CPU and operating system support, capped by KAEL_ISA. */
kl_cpu_level kl_cpu_level_get(void);
/* The same without the cap: what may run here. */
kl_cpu_level kl_cpu_level_host(void);
const char *kl_cpu_level_name(kl_cpu_level level);

#endif
