/* SPDX-License-Identifier: Apache-2.0 */
/* float16 (IEEE 754 binary16) and bfloat16 (the upper half of a float32) to and from float32. Narrowing rounds to the nearest,
 * ties to even; a value beyond the range becomes an infinity, a NaN a quiet NaN. Widening is exact. All CPUs give equal bits.
 * Pure, any thread. */
#ifndef PSI_HALF_H
#define PSI_HALF_H

#include "ps_types.h"

/** PS_F16 or PS_BF16: two bytes that stand for a float32. */
bool psi_half_is(ps_dtype dtype);
/** dtype is PS_F16 or PS_BF16 in all functions below. */
uint16_t psi_half_of(ps_dtype dtype, float x);
float psi_half_value(ps_dtype dtype, uint16_t bits);
/** The value of a bfloat16, for loops. */
static inline float psi_bf16_value(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float x = 0;
    __builtin_memcpy(&x, &wide, sizeof(x));
    return x;
}
/** Write n elements of dtype at dst from as many float32 at src; any alignment (values come from the wire), no overlap. */
void psi_half_narrow(ps_dtype dtype, const void *src, void *dst, size_t n);
/** Write n float32 at dst from as many elements of dtype at src. */
void psi_half_widen(ps_dtype dtype, const void *src, void *dst, size_t n);
/** Largest finite value: 65504, 0x1.fep127. */
double psi_half_max(ps_dtype dtype);
/** The next value below `bits`, which is finite and not the least value. */
uint16_t psi_half_below(uint16_t bits);

#endif
