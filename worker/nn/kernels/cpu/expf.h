/* SPDX-License-Identifier: Apache-2.0 */
/* exp(x) for x <= 0 in float, as straight-line code that compilers vectorise and that gives the same bits at every vector width
 * (built with -ffp-contract=off). Relative error <= 8e-8 for x >= -87.3; below that 0 instead of denormals. NaN stays NaN.
 *
 * exp(x) = 2^n exp(r), n = round(x / ln 2), r = x - n ln 2 with ln 2 in two parts (Cody and Waite), exp(r) by its Taylor
 * polynomial: |r| <= 0.347, so the first term left out, r^8 / 8!, is below 6e-9. */
#ifndef PSK_CPU_EXPF_H
#define PSK_CPU_EXPF_H

#include <stdint.h>
#include <string.h>

#define PSK_EXP_LOW (-87.3f) /* least x for which exp(x) is computed: the result is still a normal number */

static inline float psk_exp_negative(float x)
{
    const float round_shift = 12582912.0f; /* 1.5 * 2^23: after its addition the low bits of the float are the nearest integer */
    const float c = x < PSK_EXP_LOW ? PSK_EXP_LOW : x;
    const float shifted = c * 1.44269504f + round_shift;
    const float n = shifted - round_shift;
    const float r = (c - n * 0.693359375f) - n * -2.12194440e-4f;
    float p = 1.0f / 5040.0f;
    p = p * r + 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * (r * r) + r;
    p = p + 1.0f;
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof(bits));
    bits = (bits + 127u) << 23; /* the low bits of shifted are n; this makes the float 2^n */
    float scale;
    memcpy(&scale, &bits, sizeof(scale));
    return x < PSK_EXP_LOW ? 0.0f : p * scale;
}

#endif
