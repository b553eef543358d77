/* SPDX-License-Identifier: Apache-2.0 */
/*
 * common/half.c: every one of the 65,536 patterns of both kinds against ldexp, there and back; the middle between any two
 * neighbours goes to the even one and the floats beside it to the nearer; NaN, infinities, denormals; arrays as scalars.
 */
#include "test.h"

#include "common/half.h"

#include <math.h>

static const ps_dtype KINDS[] = {PS_F16, PS_BF16};

/* sign, exponent, fraction, as the standard says it */
static double reference(ps_dtype dtype, uint32_t bits)
{
    int fraction_bits = dtype == PS_F16 ? 10 : 7;
    int exponent_max = dtype == PS_F16 ? 31 : 255;
    int bias = dtype == PS_F16 ? 15 : 127;
    int exponent = (int)(bits >> fraction_bits) & exponent_max;
    double fraction = bits & ((1U << fraction_bits) - 1U);
    double x = 0;
    if (exponent == exponent_max) {
        x = fraction != 0 ? NAN : INFINITY;
    } else if (exponent == 0) {
        x = ldexp(fraction, 1 - bias - fraction_bits);
    } else {
        x = ldexp(fraction + (1U << fraction_bits), exponent - bias - fraction_bits);
    }
    return (bits & 0x8000U) != 0 ? -x : x;
}

TEST(test_all_patterns)
{
    for (size_t k = 0; k < ARRAY_COUNT(KINDS); k++) {
        uint16_t infinity = KINDS[k] == PS_F16 ? 0x7c00 : 0x7f80;
        uint16_t quiet = KINDS[k] == PS_F16 ? 0x0200 : 0x0040;
        double most = 0;
        for (uint32_t bits = 0; bits < 65536; bits++) {
            float x = psi_half_value(KINDS[k], (uint16_t)bits);
            double expected = reference(KINDS[k], bits);
            uint16_t back = psi_half_of(KINDS[k], x);
            if ((bits & 0x7fffU) > infinity) {
                assert_true(isnan(x) && isnan(expected));
                assert_int_equal(back, bits | quiet);
                continue;
            }
            assert_true((double)x == expected && (signbit(x) != 0) == (signbit(expected) != 0));
            assert_int_equal(back, bits);
            most = isfinite(expected) && expected > most ? expected : most;
        }
        assert_true(psi_half_max(KINDS[k]) == most);
    }
}

TEST(test_ties_to_even)
{
    for (size_t k = 0; k < ARRAY_COUNT(KINDS); k++) {
        uint16_t infinity = KINDS[k] == PS_F16 ? 0x7c00 : 0x7f80;
        for (uint16_t low = 0; low < infinity; low++) {
            uint16_t high = (uint16_t)(low + 1);
            /* what an infinity takes the place of in rounding: the next value if the exponent went on */
            double above = high == infinity ? (KINDS[k] == PS_F16 ? 0x1p16 : 0x1p128) : reference(KINDS[k], high);
            float middle = (float)((reference(KINDS[k], low) + above) / 2);
            uint16_t even = (low & 1) == 0 ? low : high;
            assert_int_equal(psi_half_of(KINDS[k], middle), even);
            assert_int_equal(psi_half_of(KINDS[k], nextafterf(middle, 0)), low);
            assert_int_equal(psi_half_of(KINDS[k], nextafterf(middle, INFINITY)), high);
            assert_int_equal(psi_half_of(KINDS[k], -middle), even | 0x8000);
            assert_int_equal(psi_half_of(KINDS[k], -nextafterf(middle, 0)), low | 0x8000);
            assert_int_equal(psi_half_of(KINDS[k], -nextafterf(middle, INFINITY)), high | 0x8000);
            if (low > 0) {
                assert_int_equal(psi_half_below(high), low);
                assert_int_equal(psi_half_below((uint16_t)(low | 0x8000)), high | 0x8000);
            }
        }
        assert_int_equal(psi_half_of(KINDS[k], 0x1.fffffep127f), infinity);
        assert_int_equal(psi_half_of(KINDS[k], -INFINITY), infinity | 0x8000);
        assert_int_equal(psi_half_of(KINDS[k], 0x1p-149f), 0);
        assert_int_equal(psi_half_of(KINDS[k], -0x1p-149f), 0x8000);
        assert_int_equal(psi_half_below(1), 0);
        assert_int_equal(psi_half_below(0), 0x8001);
        assert_int_equal(psi_half_below(0x8000), 0x8001);
        assert_true(isnan(psi_half_value(KINDS[k], psi_half_of(KINDS[k], NAN))));
    }
}

/* a NaN whose payload is in the bits that are cut off must not become an infinity */
TEST(test_nan_stays)
{
    for (size_t k = 0; k < ARRAY_COUNT(KINDS); k++) {
        for (uint32_t bit = 0; bit < 23; bit++) {
            for (uint32_t sign = 0; sign < 2; sign++) {
                uint32_t bits = sign << 31 | 0x7f800000U | 1U << bit;
                float x = 0;
                memcpy(&x, &bits, sizeof(x));
                uint16_t h = psi_half_of(KINDS[k], x);
                assert_true(isnan(psi_half_value(KINDS[k], h)));
                assert_int_equal(h >> 15, sign);
            }
        }
    }
}

/* arrays go by other instructions than single values */
TEST(test_arrays_of_any_floats)
{
    enum { N = 4096 };
    static uint32_t bits[N];
    static float wide[N];
    static uint16_t narrow[N];
    uint32_t seed = 1;
    for (int round = 0; round < 200; round++) {
        for (uint32_t i = 0; i < N; i++) {
            seed = seed * 1664525U + 1013904223U;
            uint32_t exponent = (100U + (seed >> 20) % 50U) << 23; /* half of them about float16's range */
            bits[i] = (i & 1U) == 0 ? seed : (seed & UINT32_C(0x807fffff)) | exponent;
        }
        memcpy(wide, bits, sizeof(wide));
        for (size_t k = 0; k < ARRAY_COUNT(KINDS); k++) {
            psi_half_narrow(KINDS[k], wide, narrow, N);
            for (uint32_t i = 0; i < N; i++) {
                assert_int_equal(narrow[i], psi_half_of(KINDS[k], wide[i]));
            }
        }
    }
}

TEST(test_arrays)
{
    static float wide[65536 + 4];
    static uint16_t patterns[65536 + 4];
    static uint16_t narrow[65536 + 4];
    for (size_t k = 0; k < ARRAY_COUNT(KINDS); k++) {
        for (uint32_t i = 0; i < 65536; i++) {
            patterns[i] = (uint16_t)i;
        }
        psi_half_widen(KINDS[k], patterns, wide, 65536);
        psi_half_narrow(KINDS[k], wide, narrow, 65536);
        for (uint32_t i = 0; i < 65536; i++) {
            float x = psi_half_value(KINDS[k], patterns[i]);
            assert_memory_equal(&wide[i], &x, sizeof(x));
            assert_int_equal(narrow[i], psi_half_of(KINDS[k], x));
        }
        for (size_t n = 0; n <= 70; n++) { /* not one element more, wherever it begins */
            for (size_t at = 0; at < 3; at++) {
                memset(narrow, 0xee, sizeof(narrow));
                psi_half_narrow(KINDS[k], wide + 15000 + at, narrow + at, n);
                assert_int_equal(narrow[at + n], 0xeeee);
                assert_true(at == 0 || narrow[at - 1] == 0xeeee);
                for (size_t i = 0; i < n; i++) {
                    assert_int_equal(narrow[at + i], psi_half_of(KINDS[k], wide[15000 + at + i]));
                }
            }
        }
    }
}
