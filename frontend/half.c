/* Conversions of single numbers between f32 and the two dtypes of 16 bits. */
#include "frontend/half.h"

#include <math.h>
#include <string.h>

static uint32_t bits_of(float number) {
  uint32_t bits;
  memcpy(&bits, &number, sizeof bits);
  return bits;
}

static uint16_t bfloat_from(float number) {
  uint32_t bits = bits_of(number);
  if (number != number) return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* The significand is rounded to the unit of the result's last place, which a subnormal result has
 * at 2^-24; a carry goes into the exponent by itself. */
static uint16_t half_from(float number) {
  uint16_t sign = (uint16_t)(bits_of(number) >> 16 & 0x8000);
  float size = fabsf(number);
  if (number != number) return sign | 0x7e00;
  if (size >= 65520) return sign | 0x7c00;
  if (size < 0x1p-14f) return sign | (uint16_t)lrintf(size * 0x1p24f);
  uint32_t bits = bits_of(size) - (112u << 23); /* the exponent's bias: 127 to 15 */
  return sign | (uint16_t)((bits + 0xfff + (bits >> 13 & 1)) >> 13);
}

uint16_t kl_half_from_float(float number, kl_dtype dtype) {
  return dtype == KL_BF16 ? bfloat_from(number) : half_from(number);
}

float kl_half_to_float(uint16_t half, kl_dtype dtype) {
  uint32_t bits = (uint32_t)half << 16;
  float number;
  if (dtype == KL_F16) {
    int exponent = half >> 10 & 31;
    float significand = (float)(half & 0x3ff);
    if (exponent == 31)
      number = half & 0x3ff ? NAN : INFINITY;
    else
      number = exponent ? ldexpf(1024 + significand, exponent - 25) : ldexpf(significand, -24);
    return half & 0x8000 ? -number : number;
  }
  memcpy(&number, &bits, sizeof number);
  return number;
}
