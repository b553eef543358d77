/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on elements without an optimizer: assign_add, assign_sub, and a check for NaN and infinity. The check also finds
 * numbers whose product with their scale is infinite. Integers are added as unsigned: they wrap, as two's complement addition
 * does, without undefined behaviour. float16 and bfloat16 are added as float32 and rounded once. Failure modes: psd_add() of a
 * dtype that has no addition returns false. */
#include "optim.h"

#include "common/clones.h"
#include "common/half.h"

#define F32_EXPONENT UINT32_C(0x7f800000)
#define F16_EXPONENT UINT16_C(0x7c00)
#define BF16_EXPONENT UINT16_C(0x7f80)
#define F64_EXPONENT UINT64_C(0x7ff0000000000000)
/* elements checked before the loop may stop: enough for vector instructions, few enough to find a bad element early */
#define FINITE_BLOCK ((size_t)1024)

/* add_NAME(): var += delta; sub_NAME(): var -= delta. A macro argument that is a type cannot have parentheses:
 * NOLINTBEGIN(bugprone-macro-parentheses) */
#define ADD(name, type)                                                                                                          \
    PSI_CLONES                                                                                                                   \
    static void add_##name(type *restrict var, const type *restrict delta, size_t n)                                             \
    {                                                                                                                            \
        for (size_t i = 0; i < n; i++) {                                                                                         \
            var[i] = (type)(var[i] + delta[i]);                                                                                  \
        }                                                                                                                        \
    }                                                                                                                            \
    PSI_CLONES                                                                                                                   \
    static void sub_##name(type *restrict var, const type *restrict delta, size_t n)                                             \
    {                                                                                                                            \
        for (size_t i = 0; i < n; i++) {                                                                                         \
            var[i] = (type)(var[i] - delta[i]);                                                                                  \
        }                                                                                                                        \
    }
ADD(f32, float)
ADD(f64, double)
ADD(u32, uint32_t)
ADD(u64, uint64_t)
ADD(u8, uint8_t)

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

/* An IEEE number is NaN or infinite when all bits of its exponent are set. The bits are compared as integers, because compilers
 * with fast-math options drop isfinite(). The product with the scale is computed as optimizers compute it. */
#define FIRST_BAD(name, type, bits_type, exponent)                                                                               \
    static bits_type bad_##name(type x, type scale)                                                                              \
    {                                                                                                                            \
        bits_type bits = 0;                                                                                                      \
        type product = x * scale;                                                                                                \
        __builtin_memcpy(&bits, &product, sizeof(bits));                                                                         \
        return (bits & (exponent)) == (exponent) ? 1U : 0U;                                                                      \
    }                                                                                                                            \
    PSI_CLONES                                                                                                                   \
    static size_t first_bad_##name(const type *x, size_t n, type scale)                                                          \
    {                                                                                                                            \
        for (size_t start = 0; start < n; start += FINITE_BLOCK) {                                                               \
            size_t end = n - start > FINITE_BLOCK ? start + FINITE_BLOCK : n;                                                    \
            bits_type bad = 0;                                                                                                   \
            for (size_t i = start; i < end; i++) {                                                                               \
                bad |= bad_##name(x[i], scale);                                                                                  \
            }                                                                                                                    \
            if (bad == 0) {                                                                                                      \
                continue;                                                                                                        \
            }                                                                                                                    \
            while (bad_##name(x[start], scale) == 0) {                                                                           \
                start++;                                                                                                         \
            }                                                                                                                    \
            return start;                                                                                                        \
        }                                                                                                                        \
        return n;                                                                                                                \
    }
FIRST_BAD(f32, float, uint32_t, F32_EXPONENT)
FIRST_BAD(f64, double, uint64_t, F64_EXPONENT)
/* NOLINTEND(bugprone-macro-parentheses) */

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

/* The first bad element of float16 or bfloat16 elements, which are converted to float32 and then multiplied by the scale. */
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
