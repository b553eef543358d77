/* SPDX-License-Identifier: Apache-2.0 */
/* common/rng.c: published vectors, independence of the split, ranges, moments, our ln and cos against libm, frozen values. */
#include "test.h"

#include "common/half.h"
#include "common/hash.h"
#include "common/optimizer.h"
#include "common/rng.h"

#include <math.h>

enum { COUNT = 60000 };
static double f64[COUNT];
static float f32[COUNT];

TEST(test_philox)
{
    /* known answers of the authors' Random123 (tests/kat_vectors, philox4x32 10) */
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } rows[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        uint32_t out[4];
        psi_philox4x32(rows[i].counter, rows[i].key, out);
        assert_memory_equal(out, rows[i].out, sizeof(out));
    }
}

TEST(test_splitmix)
{
    uint64_t s = 0;
    /* the first values of the published splitmix64.c from state 0 */
    assert_true(psi_random_u64(&s) == UINT64_C(0xe220a8397b1dcdaf));
    assert_true(psi_random_u64(&s) == UINT64_C(0x6e789e6aa1b965f4));
    assert_true(psi_random_u64(&s) == UINT64_C(0x06c45d188009454f));
    unsigned int seen[5] = {0};
    for (int i = 0; i < 5000; i++) {
        uint64_t r = psi_random_below(&s, 5);
        assert_true(r < 5);
        seen[r]++;
    }
    for (size_t i = 0; i < 5; i++) {
        assert_in_range(seen[i], 850, 1150); /* 1000 +- 5 standard deviations; the seed is fixed */
    }
    /* of 3 * 2^62 values a third is below 2^62; without refusing some of 2^64 it would be the half */
    size_t low = 0;
    for (int i = 0; i < 3000; i++) {
        low += psi_random_below(&s, UINT64_C(3) << 62) < UINT64_C(1) << 62;
    }
    assert_in_range(low, 870, 1130); /* 1000 +- 5 standard deviations */
    assert_true(psi_random_below(&s, 1) == 0);
    assert_true(psi_random_below(&s, UINT64_MAX) < UINT64_MAX);
}

TEST(test_same)
{
    const ps_shape shape = PS_SHAPE(5);
    const uint8_t ones8[5] = {1, 1, 1, 1, 1};
    int32_t i32[5];
    int64_t i64[5];
    uint8_t b[5] = {9, 9, 9, 9, 9};
    psi_init_fill(ps_zeros(), PS_BOOL, &shape, 1, "v", 0, 5, b);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(b[i], 0);
    }
    psi_init_fill(ps_ones(), PS_BOOL, &shape, 1, "v", 0, 5, b);
    assert_memory_equal(b, ones8, 5);
    psi_init_fill(ps_ones(), PS_I32, &shape, 1, "v", 0, 5, i32);
    psi_init_fill(ps_constant(-9007199254740992.0), PS_I64, &shape, 1, "v", 0, 5, i64);
    psi_init_fill(ps_constant(0.1), PS_F32, &shape, 1, "v", 0, 5, f32);
    psi_init_fill(ps_constant(0.1), PS_F64, &shape, 1, "v", 0, 5, f64);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(i32[i], 1);
        assert_true(i64[i] == INT64_C(-9007199254740992));
        assert_true(f32[i] == 0.1f && f64[i] == 0.1);
    }
    static const struct {
        ps_dtype dtype;
        double value;
        uint16_t bits;
    } rows[] = {{PS_F16, 0.1, 0x2e66},    {PS_F16, -65504, 0xfbff}, {PS_BF16, 0.1, 0x3dcd}, {PS_BF16, 1, 0x3f80},
                {PS_I8, -128, 0x8080},    {PS_I8, 127, 0x7f7f},     {PS_U8, 255, 0xffff},   {PS_U8, 0, 0},
                {PS_F16, 0x1p-24, 0x0001}};
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        uint16_t two[2] = {0x5555, 0x5555};
        size_t bytes = ps_dtype_bytes(rows[i].dtype);
        psi_init_fill(ps_constant(rows[i].value), rows[i].dtype, &shape, 1, "v", 0, 2 / bytes, two);
        assert_int_equal(two[0], rows[i].bits);
        assert_int_equal(two[1], 0x5555);
    }
}

TEST(test_split_does_not_matter)
{
    const ps_initializer *inits[] = {ps_uniform(-2, 3),           ps_normal(1, 2),
                                     ps_glorot(PS_FAN_IN_OUT),    ps_truncated_normal(1, 2),
                                     ps_he_normal(PS_FAN_IN_OUT), ps_he_uniform(PS_FAN_IN_OUT)};
    static const ps_dtype dtypes[] = {PS_F32, PS_F64, PS_F16, PS_BF16};
    const ps_shape shape = PS_SHAPE(100, 10);
    for (size_t k = 0; k < ARRAY_COUNT(inits); k++) {
        for (size_t j = 0; j < ARRAY_COUNT(dtypes); j++) {
            ps_dtype d = dtypes[j];
            size_t bytes = ps_dtype_bytes(d);
            uint8_t parts[8 * 1000];
            uint8_t *whole = (uint8_t *)f64;
            psi_init_fill(inits[k], d, &shape, 7, "layer/w", 0, 1000, whole);
            for (uint64_t first = 0; first < 1000;) {
                uint64_t n = 1 + first % 97 < 1000 - first ? 1 + first % 97 : 1000 - first;
                double aligned[100];
                psi_init_fill(inits[k], d, &shape, 7, "layer/w", first, n, aligned);
                memcpy(parts + first * bytes, aligned, n * bytes);
                first += n;
            }
            assert_memory_equal(parts, whole, 1000 * bytes);
        }
    }
}

TEST(test_arguments_matter)
{
    const ps_shape shape = PS_SHAPE(100);
    static const struct {
        uint64_t seed;
        const char *name;
        uint64_t first;
    } rows[] = {{0, "v", 0}, {1, "v", 0},    {UINT64_C(1) << 32, "v", 0}, {0, "w", 0}, {0, "vv", 0},
                {0, "", 0},  {0, "v", 1000}, {0, "v", UINT64_C(1) << 32}};
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        psi_init_fill(ps_uniform(0, 1), PS_F64, &shape, rows[i].seed, rows[i].name, rows[i].first, 100, f64 + i * 100);
        for (size_t j = 0; j < i; j++) {
            for (size_t e = 0; e < 100; e++) {
                assert_true(f64[i * 100 + e] != f64[j * 100 + e]);
            }
        }
    }
}

struct moments {
    double mean, variance, min, max;
};

static struct moments moments_of(const double *x, size_t n)
{
    struct moments m = {.min = x[0], .max = x[0]};
    for (size_t i = 0; i < n; i++) {
        m.mean += x[i] / (double)n;
        m.min = x[i] < m.min ? x[i] : m.min;
        m.max = x[i] > m.max ? x[i] : m.max;
    }
    for (size_t i = 0; i < n; i++) {
        m.variance += (x[i] - m.mean) * (x[i] - m.mean) / (double)n;
    }
    return m;
}

/* Tolerances: 5 standard errors for COUNT samples; the values are fixed, so the tests are too. */
TEST(test_moments)
{
    const ps_shape shape = PS_SHAPE(COUNT);
    psi_init_fill(ps_uniform(-2, 3), PS_F64, &shape, 42, "u", 0, COUNT, f64);
    struct moments m = moments_of(f64, COUNT);
    assert_true(m.min >= -2 && m.min < -1.99 && m.max < 3 && m.max > 2.99);
    assert_true(fabs(m.mean - 0.5) < 5 * 1.4434 / sqrt(COUNT));
    assert_true(fabs(m.variance - 25.0 / 12) < 5 * 1.87 / sqrt(COUNT));
    psi_init_fill(ps_normal(1, 2), PS_F64, &shape, 42, "n", 0, COUNT, f64);
    m = moments_of(f64, COUNT);
    assert_true(fabs(m.mean - 1) < 5 * 2 / sqrt(COUNT));
    assert_true(fabs(m.variance - 4) < 5 * 5.66 / sqrt(COUNT));
    assert_true(m.max - 1 > 3 * 2 && m.max - 1 < 6 * 2 && 1 - m.min > 3 * 2 && 1 - m.min < 6 * 2);
    size_t within = 0;
    for (size_t i = 0; i < COUNT; i++) {
        within += fabs(f64[i] - 1) < 2;
    }
    assert_true(fabs((double)within / COUNT - 0.6827) < 5 * 0.466 / sqrt(COUNT));
    psi_init_fill(ps_normal(1, 2), PS_F32, &shape, 42, "n", 0, COUNT, f32);
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(f32[i] == (float)f64[i]);
    }
}

TEST(test_uniform_stays_below_high)
{
    const ps_shape shape = PS_SHAPE(COUNT);
    /* two values in the whole interval: half of the products would round to high */
    static const double highs[] = {1.5, 0, -1.5, 0x1p-126, -0x1p-126};
    for (size_t h = 0; h < sizeof(highs) / sizeof(highs[0]); h++) {
        const float high = (float)highs[h], low = nextafterf(nextafterf(high, -2), -2);
        psi_init_fill(ps_uniform((double)low, (double)high), PS_F32, &shape, 3, "x", 0, COUNT, f32);
        const double high64 = highs[h], low64 = nextafter(nextafter(high64, -2), -2);
        psi_init_fill(ps_uniform(low64, high64), PS_F64, &shape, 3, "x", 0, COUNT, f64);
        for (size_t i = 0; i < COUNT; i++) {
            assert_true(f32[i] == low || f32[i] == nextafterf(high, low));
            assert_true(f64[i] == low64 || f64[i] == nextafter(high64, low64));
        }
    }
    psi_init_fill(ps_uniform(5, 5), PS_F32, &shape, 3, "x", 0, 10, f32);
    psi_init_fill(ps_uniform(5, 5), PS_F64, &shape, 3, "x", 0, 10, f64);
    for (size_t i = 0; i < 10; i++) {
        assert_true(f32[i] == 5 && f64[i] == 5);
    }
}

TEST(test_glorot)
{
    static const struct {
        int64_t dims[5];
        uint32_t rank;
        double fan_in, fan_out;
    } rows[] = {{{0}, 0, 1, 1}, {{7}, 1, 7, 7}, {{64, 10}, 2, 64, 10}, {{3, 3, 16, 32}, 4, 144, 288}, {{5, 2, 4}, 3, 10, 20}};
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        ps_shape shape = {.rank = rows[i].rank};
        memcpy(shape.dims, rows[i].dims, sizeof(rows[i].dims));
        double fan_in = 0;
        double fan_out = 0;
        psi_compute_fans(&shape, &fan_in, &fan_out);
        assert_true(fan_in == rows[i].fan_in && fan_out == rows[i].fan_out);
        double limit = sqrt(6 / (fan_in + fan_out));
        psi_init_fill(ps_glorot(PS_FAN_IN_OUT), PS_F64, &shape, 1, "g", 0, 10000, f64);
        struct moments m = moments_of(f64, 10000);
        assert_true(m.max < limit && m.max > 0.998 * limit && m.min >= -limit && m.min < -0.998 * limit);
    }
}

/* TensorFlow 1.15: no value beyond two standard deviations; what is left of the variance is 0.87962566103423978^2. */
TEST(test_truncated_normal)
{
    const ps_shape shape = PS_SHAPE(COUNT);
    const double left = .87962566103423978;
    psi_init_fill(ps_truncated_normal(1, 2), PS_F64, &shape, 42, "t", 0, COUNT, f64);
    struct moments m = moments_of(f64, COUNT);
    assert_true(m.min >= -3 && m.min < -2.99 && m.max <= 5 && m.max > 4.99);
    assert_true(fabs(m.mean - 1) < 5 * 2 * left / sqrt(COUNT));
    assert_true(fabs(m.variance - 4 * left * left) < 5 * 4 * 0.90 / sqrt(COUNT));
    /* those that a normal has within two standard deviations are its own: only the others are drawn again */
    static double normal[COUNT];
    psi_init_fill(ps_normal(1, 2), PS_F64, &shape, 42, "t", 0, COUNT, normal);
    size_t again = 0;
    for (size_t i = 0; i < COUNT; i++) {
        if (fabs(normal[i] - 1) <= 4) {
            assert_true(fabs(normal[i] - f64[i]) <= 1e-15 * 4);
        } else {
            again++;
        }
    }
    assert_true(fabs((double)again / COUNT - 0.0455) < 5 * 0.2084 / sqrt(COUNT));
    psi_init_fill(ps_truncated_normal(5, 0), PS_F32, &shape, 42, "t", 0, 10, f32);
    for (size_t i = 0; i < 10; i++) {
        assert_true(f32[i] == 5);
    }
}

TEST(test_he)
{
    static const struct {
        int64_t dims[5];
        uint32_t rank;
        double fan_in;
    } rows[] = {{{0}, 0, 1}, {{7}, 1, 7}, {{64, 10}, 2, 64}, {{3, 3, 16, 32}, 4, 144}};
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        ps_shape shape = {.rank = rows[i].rank};
        memcpy(shape.dims, rows[i].dims, sizeof(rows[i].dims));
        double variance = 2 / rows[i].fan_in;
        double bound = 2 * sqrt(variance) / .87962566103423978;
        psi_init_fill(ps_he_normal(PS_FAN_IN_OUT), PS_F64, &shape, 1, "h", 0, COUNT, f64);
        struct moments m = moments_of(f64, COUNT);
        assert_true(m.max <= bound && m.max > 0.99 * bound && m.min >= -bound && m.min < -0.99 * bound);
        assert_true(fabs(m.mean) < 5 * sqrt(variance) / sqrt(COUNT));
        assert_true(fabs(m.variance - variance) < 5 * variance * 1.17 / sqrt(COUNT));
        bound = sqrt(6 / rows[i].fan_in);
        psi_init_fill(ps_he_uniform(PS_FAN_IN_OUT), PS_F64, &shape, 1, "h", 0, COUNT, f64);
        m = moments_of(f64, COUNT);
        assert_true(m.max < bound && m.max > 0.998 * bound && m.min >= -bound && m.min < -0.998 * bound);
        assert_true(fabs(m.mean) < 5 * sqrt(variance) / sqrt(COUNT));
        assert_true(fabs(m.variance - variance) < 5 * variance * 0.9 / sqrt(COUNT));
    }
}

/* PyTorch's shapes have the fans of TensorFlow's with the dimensions the other way round, and the same element gets the same
 * value. The limits are those that torch/nn/init.py gives: fan_in = 3 3 16, fan_out = 3 3 32. */
TEST(test_fan_layouts)
{
    static const struct {
        int64_t tf[4], torch[4];
        uint32_t rank;
        double fan_in, fan_out;
    } rows[] = {{{64, 10}, {10, 64}, 2, 64, 10},
                {{3, 3, 16, 32}, {32, 16, 3, 3}, 4, 144, 288},
                {{5, 2, 4}, {4, 2, 5}, 3, 10, 20},
                {{7}, {7}, 1, 7, 7},
                {{0}, {0}, 0, 1, 1}};
    static double torch[COUNT], plain[COUNT];
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        ps_shape a = {.rank = rows[i].rank}, b = {.rank = rows[i].rank};
        memcpy(a.dims, rows[i].tf, sizeof(rows[i].tf));
        memcpy(b.dims, rows[i].torch, sizeof(rows[i].torch));
        const ps_initializer *pairs[][2] = {{ps_glorot(PS_FAN_IN_OUT), ps_glorot(PS_FAN_OUT_IN)},
                                            {ps_he_normal(PS_FAN_IN_OUT), ps_he_normal(PS_FAN_OUT_IN)},
                                            {ps_he_uniform(PS_FAN_IN_OUT), ps_he_uniform(PS_FAN_OUT_IN)}};
        const double bounds[] = {sqrt(6 / (rows[i].fan_in + rows[i].fan_out)), 2 * sqrt(2 / rows[i].fan_in) / .87962566103423978,
                                 sqrt(6 / rows[i].fan_in)};
        for (size_t k = 0; k < ARRAY_COUNT(pairs); k++) {
            psi_init_fill(pairs[k][0], PS_F64, &a, 1, "w", 0, COUNT, f64);
            psi_init_fill(pairs[k][1], PS_F64, &b, 1, "w", 0, COUNT, torch);
            assert_memory_equal(f64, torch, sizeof(torch));
            struct moments m = moments_of(torch, COUNT);
            assert_true(m.max <= bounds[k] && m.max > 0.99 * bounds[k]);
            const ps_initializer same = psi_initializer_plain(pairs[k][1], &b), kept = psi_initializer_plain(pairs[k][0], &a);
            assert_int_equal(same.fan, PS_FAN_IN_OUT);
            assert_true(same.kind != pairs[k][1]->kind && kept.kind == pairs[k][0]->kind);
            psi_init_fill(&same, PS_F64, &b, 1, "w", 0, COUNT, plain);
            assert_memory_equal(plain, torch, sizeof(torch));
        }
    }
    const ps_shape empty = {.rank = 2, .dims = {0, 5}};
    assert_int_equal(psi_initializer_plain(ps_he_normal(PS_FAN_OUT_IN), &empty).kind, PS_INIT_HE_NORMAL);
}

/* float16 and bfloat16: the float32 value, rounded; never high itself */
TEST(test_halves)
{
    static const ps_dtype dtypes[] = {PS_F16, PS_BF16};
    static uint16_t half[COUNT];
    const ps_shape shape = PS_SHAPE(COUNT);
    for (size_t k = 0; k < ARRAY_COUNT(dtypes); k++) {
        psi_init_fill(ps_normal(1, 2), PS_F32, &shape, 42, "n", 0, COUNT, f32);
        psi_init_fill(ps_normal(1, 2), dtypes[k], &shape, 42, "n", 0, COUNT, half);
        for (size_t i = 0; i < COUNT; i++) {
            assert_int_equal(half[i], psi_half_of(dtypes[k], f32[i]));
        }
        psi_init_fill(ps_uniform(-2, 3), dtypes[k], &shape, 42, "u", 0, COUNT, half);
        for (size_t i = 0; i < COUNT; i++) {
            f64[i] = (double)psi_half_value(dtypes[k], half[i]);
        }
        struct moments m = moments_of(f64, COUNT);
        assert_true(m.min >= -2 && m.min < -1.98 && m.max < 3 && m.max > 2.98);
        assert_true(fabs(m.mean - 0.5) < 5 * 1.4434 / sqrt(COUNT) + 0.004);
        psi_init_fill(ps_uniform(1, 1), dtypes[k], &shape, 42, "u", 0, 10, half);
        assert_int_equal(half[9], psi_half_of(dtypes[k], 1));
    }
}

/* Box-Muller by libm from the same Philox words, as the head of rng.c states it. */
TEST(test_normal_against_libm)
{
    const ps_shape shape = PS_SHAPE(COUNT);
    const char *name = "w";
    uint64_t hash = psi_fnv1a64(PSI_FNV1A64_START, name, 1);
    psi_init_fill(ps_normal(0, 1), PS_F64, &shape, 9, name, 0, COUNT, f64);
    for (uint32_t i = 0; i < COUNT; i++) {
        const uint32_t counter[4] = {i, 0, (uint32_t)hash, (uint32_t)(hash >> 32)};
        const uint32_t key[2] = {9, 0};
        uint32_t r[4];
        psi_philox4x32(counter, key, r);
        double u = (double)((((uint64_t)r[1] << 32 | r[0]) >> 11) + 1) * 0x1p-53;
        double v = (double)(((uint64_t)r[3] << 32 | r[2]) >> 11) * 0x1p-53;
        double expected = sqrt(-2 * log(u)) * cos(2 * M_PI * v);
        /* 2 pi v is rounded in libm's argument: up to 4.5e-16 of absolute error there, times the radius */
        assert_true(fabs(f64[i] - expected) <= 4e-15);
    }
}

/* These bits are on users' disks and in their papers: they never change. The uniform ones are those of a second program, the
 * normal ones within one unit in the last place of its values with 50 digits. */
TEST(test_frozen_values)
{
    static const struct {
        double uniform, normal;
    } rows[] = {{0x1.594a27b11f71fp-1, 0x1.33b2387aea924p-1},
                {0x1.d83182562f298p-1, 0x1.11a6369d7308ap-3},
                {0x1.fb4e429d33fb8p-3, 0x1.a68eb73346d48p+0},
                {0x1.8376f1ac02cc2p-1, 0x1.8833bc8a574e5p-2}};
    const ps_shape shape = PS_SHAPE(4);
    double u[4];
    double n[4];
    psi_init_fill(ps_uniform(0, 1), PS_F64, &shape, 1234, "dense/kernel", 0, 4, u);
    psi_init_fill(ps_normal(0, 1), PS_F64, &shape, 1234, "dense/kernel", 0, 4, n);
    for (size_t i = 0; i < 4; i++) {
        assert_true(u[i] == rows[i].uniform);
        assert_true(n[i] == rows[i].normal);
    }
}
