/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elementwise helpers of pushes that are no optimizer: assign_add and assign_sub, the mean of an accumulator, and the check for
 * NaN and infinity, also of what only becomes infinite when it is scaled. Integers wrap: they are added as unsigned, which is
 * two's complement addition without undefined behaviour. float16 and bfloat16 are added as float32 and rounded once. Failure
 * modes: psd_add() of a dtype that has no addition returns false.
 */
#include "optim.h"

#include "common/clones.h"
#include "common/half.h"

#define F32_EXPONENT UINT32_C(0x7f800000)
#define F16_EXPONENT UINT16_C(0x7c00)
#define BF16_EXPONENT UINT16_C(0x7f80)
#define F64_EXPONENT UINT64_C(0x7ff0000000000000)
/* elements checked between two exits: long enough to vectorise, short enough to stop early */
#define FINITE_BLOCK ((size_t)1024)

PSI_CLONES
static void add_f32(float *restrict var, const float *restrict delta, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        var[i] += delta[i];
    }
}

PSI_CLONES
static void sub_f32(float *restrict var, const float *restrict delta, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        var[i] -= delta[i];
    }
}

PSI_CLONES
static void add_f64(double *restrict var, const double *restrict delta, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        var[i] += delta[i];
    }
}

PSI_CLONES
static void sub_f64(double *restrict var, const double *restrict delta, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        var[i] -= delta[i];
    }
}

PSI_CLONES
static void add_u32(uint32_t *restrict var, const uint32_t *restrict delta, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        var[i] += delta[i];
    }
}

PSI_CLONES
static void sub_u32(uint32_t *restrict var, const uint32_t *restrict delta, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        var[i] -= delta[i];
    }
}

PSI_CLONES
static void add_u64(uint64_t *restrict var, const uint64_t *restrict delta, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        var[i] += delta[i];
    }
}

PSI_CLONES
static void sub_u64(uint64_t *restrict var, const uint64_t *restrict delta, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        var[i] -= delta[i];
    }
}

PSI_CLONES
static void add_u8(uint8_t *restrict var, const uint8_t *restrict delta, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        var[i] = (uint8_t)(var[i] + delta[i]);
    }
}

PSI_CLONES
static void sub_u8(uint8_t *restrict var, const uint8_t *restrict delta, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        var[i] = (uint8_t)(var[i] - delta[i]);
    }
}

static void add_half(ps_dtype dtype, uint16_t *var, const uint16_t *delta, size_t n, bool add)
{
    for (size_t i = 0; i < n; i++) {
        float x = psi_half_value(dtype, var[i]);
        float d = psi_half_value(dtype, delta[i]);
        var[i] = psi_half_of(dtype, add ? x + d : x - d);
    }
}

bool psd_add(ps_dtype dtype, void *var, const void *delta, size_t elements, int sign)
{
    bool add = sign >= 0;
    switch ((int)dtype) {
    case PS_F32:
        (add ? add_f32 : sub_f32)(var, delta, elements);
        return true;
    case PS_F64:
        (add ? add_f64 : sub_f64)(var, delta, elements);
        return true;
    case PS_I32:
        (add ? add_u32 : sub_u32)(var, delta, elements);
        return true;
    case PS_I64:
        (add ? add_u64 : sub_u64)(var, delta, elements);
        return true;
    case PS_I8:
    case PS_U8:
        (add ? add_u8 : sub_u8)(var, delta, elements);
        return true;
    case PS_F16:
    case PS_BF16:
        add_half(dtype, var, delta, elements, add);
        return true;
    default:
        return false;
    }
}

PSI_CLONES
static void divide_f32(float *var, float divisor, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        var[i] /= divisor;
    }
}

PSI_CLONES
static void divide_f64(double *var, double divisor, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        var[i] /= divisor;
    }
}

void psd_divide(ps_dtype dtype, void *var, uint64_t divisor, size_t elements)
{
    if (dtype == PS_F32) {
        divide_f32(var, (float)divisor, elements);
    } else {
        divide_f64(var, (double)divisor, elements);
    }
}

/* An IEEE number is NaN or infinite when all bits of its exponent are set. The bits are compared as integers: no fast-math
 * option can fold the test away. The product is the one that the optimizers begin with. */
static uint32_t bad_f32(float x, float scale)
{
    uint32_t bits = 0;
    float product = x * scale;
    __builtin_memcpy(&bits, &product, sizeof(bits));
    return (bits & F32_EXPONENT) == F32_EXPONENT ? 1U : 0U;
}

static uint64_t bad_f64(double x, double scale)
{
    uint64_t bits = 0;
    double product = x * scale;
    __builtin_memcpy(&bits, &product, sizeof(bits));
    return (bits & F64_EXPONENT) == F64_EXPONENT ? 1U : 0U;
}

PSI_CLONES
static size_t first_bad_f32(const float *x, size_t n, float scale)
{
    for (size_t start = 0; start < n; start += FINITE_BLOCK) {
        size_t end = n - start > FINITE_BLOCK ? start + FINITE_BLOCK : n;
        uint32_t bad = 0;
        for (size_t i = start; i < end; i++) {
            bad |= bad_f32(x[i], scale);
        }
        if (bad == 0) {
            continue;
        }
        while (bad_f32(x[start], scale) == 0) {
            start++;
        }
        return start;
    }
    return n;
}

PSI_CLONES
static size_t first_bad_f64(const double *x, size_t n, double scale)
{
    for (size_t start = 0; start < n; start += FINITE_BLOCK) {
        size_t end = n - start > FINITE_BLOCK ? start + FINITE_BLOCK : n;
        uint64_t bad = 0;
        for (size_t i = start; i < end; i++) {
            bad |= bad_f64(x[i], scale);
        }
        if (bad == 0) {
            continue;
        }
        while (bad_f64(x[start], scale) == 0) {
            start++;
        }
        return start;
    }
    return n;
}

PSI_CLONES
static size_t first_bad_half(const uint16_t *x, size_t n, uint16_t exponent)
{
    for (size_t start = 0; start < n; start += FINITE_BLOCK) {
        size_t end = n - start > FINITE_BLOCK ? start + FINITE_BLOCK : n;
        uint16_t bad = 0;
        for (size_t i = start; i < end; i++) {
            bad |= (uint16_t)((x[i] & exponent) == exponent ? 1U : 0U);
        }
        if (bad == 0) {
            continue;
        }
        while ((x[start] & exponent) != exponent) {
            start++;
        }
        return start;
    }
    return n;
}

/* Of float16 and bfloat16, as the float32 that they become. */
static size_t first_bad_widened(ps_dtype dtype, const uint16_t *x, size_t n, float scale)
{
    for (size_t start = 0; start < n; start += FINITE_BLOCK) {
        float block[FINITE_BLOCK];
        size_t count = n - start > FINITE_BLOCK ? FINITE_BLOCK : n - start;
        psi_half_widen(dtype, x + start, block, count);
        size_t first = first_bad_f32(block, count, scale);
        if (first < count) {
            return start + first;
        }
    }
    return n;
}

bool psd_optim_finite(ps_dtype dtype, const void *grad, size_t elements, float scale, size_t *out_first_bad)
{
    size_t first = elements;
    if (dtype == PS_F32) {
        first = first_bad_f32(grad, elements, scale);
    } else if (dtype == PS_F64) {
        first = first_bad_f64(grad, elements, (double)scale);
    } else if ((dtype == PS_F16 || dtype == PS_BF16) && scale > 1) {
        first = first_bad_widened(dtype, grad, elements, scale);
    } else if (dtype == PS_F16) {
        first = first_bad_half(grad, elements, F16_EXPONENT);
    } else if (dtype == PS_BF16) {
        first = first_bad_half(grad, elements, BF16_EXPONENT);
    }
    if (first == elements) {
        return true;
    }
    if (out_first_bad != NULL) {
        *out_first_bad = first;
    }
    return false;
}

uint64_t psd_optim_exponents(ps_dtype dtype)
{
    switch (dtype) {
    case PS_F32:
        return F32_EXPONENT * UINT64_C(0x100000001);
    case PS_F64:
        return F64_EXPONENT;
    case PS_F16:
        return F16_EXPONENT * UINT64_C(0x1000100010001);
    case PS_BF16:
        return BF16_EXPONENT * UINT64_C(0x1000100010001);
    default:
        return 0;
    }
}
