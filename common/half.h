/* SPDX-License-Identifier: Apache-2.0 */
/* float16 (IEEE 754 binary16) and bfloat16 (the upper half of a float32) to and from float32. Narrowing rounds to nearest, ties
 * to even; a value beyond the range becomes an infinity, a NaN a quiet NaN. Widening is exact. Equal bits on all CPUs. Pure. */
#ifndef PSI_HALF_H
#define PSI_HALF_H

#include "ps_types.h"

bool psi_half_is(ps_dtype dtype);
/** dtype is PS_F16 or PS_BF16 in all functions below. */
uint16_t psi_half_of(ps_dtype dtype, float x);
float psi_half_value(ps_dtype dtype, uint16_t bits);
/** The value of a bfloat16. Inline, for use in loops over many values. */
static inline float psi_bf16_value(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float x = 0;
    __builtin_memcpy(&x, &wide, sizeof(x));
    return x;
}
/** Write n elements of dtype at dst from as many float32 at src; any alignment (values come from the wire), no overlap. */
void psi_half_narrow(ps_dtype dtype, const void *src, void *dst, size_t n);
void psi_half_widen(ps_dtype dtype, const void *src, void *dst, size_t n);
double psi_half_max(ps_dtype dtype);
/** Returns the bits of the next lower value. bits: a finite value, and not the lowest one. */
uint16_t psi_half_below(uint16_t bits);

#endif
