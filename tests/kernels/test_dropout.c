/* SPDX-License-Identifier: Apache-2.0 */
/* worker/nn/kernels/cpu/dropout.c through worker/nn/nn.c: mask bits, rate, gradient, block boundary, bad arguments. */
#include "nn_test.h"

#define BLOCK ((int64_t)1 << 20)

/* What the mask keeps, as 0 and 1: dropout of ones with its scale taken out. */
static void mask_get(char *bits, float *ones, int64_t count, uint64_t seed, float keep, uint64_t step)
{
    for (int64_t i = 0; i < count; i++) {
        ones[i] = 1.0f;
    }
    assert_int_equal(ps_nn_dropout(ones, ones, count, seed, keep, step), PS_OK);
    for (int64_t i = 0; i < count; i++) {
        assert_true(ones[i] == 0.0f || ones[i] == 1.0f / keep);
        bits[i] = ones[i] == 0.0f ? '0' : '1';
    }
}

/* The bits were computed by a separate program from the definition at the top of dropout.c. */
static void test_mask_bits(void **state)
{
    (void)state;
    const int64_t count = BLOCK + 32;
    float *ones = test_floats(count);
    char *bits = malloc((size_t)count);
    assert_non_null(bits);
    mask_get(bits, ones, count, 1, 0.5f, 2);
    assert_memory_equal(bits, "11101010001011101010000000001011", 32);
    assert_memory_equal(bits + BLOCK, "10010101011111000100001111000000", 32);
    mask_get(bits, ones, 32, 7, 0.75f, 0);
    assert_memory_equal(bits, "10111101101011001110111101101111", 32);
    /* element 15601 of (1, 35309) has the largest hash there is: keep = 1 keeps it too */
    mask_get(bits, ones, 15602, 1, 1.0f, 35309);
    for (int64_t i = 0; i < 15602; i++) {
        assert_int_equal(bits[i], '1');
    }
    mask_get(bits, ones, 15602, 1, 0.99999f, 35309);
    assert_int_equal(bits[15601], '0');
    free(bits);
    test_floats_free(ones, count);
}

static void test_rate_and_independence(void **state)
{
    (void)state;
    const int64_t count = 100000;
    const float keeps[] = {0.1f, 0.5f, 0.9f};
    float *a = test_floats(count);
    float *b = test_floats(count);
    for (size_t k = 0; k < 3; k++) {
        for (uint64_t step = 0; step < 4; step++) {
            const double keep = keeps[k];
            int64_t kept = 0;
            int64_t both = 0;
            for (int64_t i = 0; i < count; i++) {
                a[i] = 1.0f;
                b[i] = 1.0f;
            }
            assert_int_equal(ps_nn_dropout(a, a, count, 42, keeps[k], step), PS_OK);
            /* a neighbouring step, then a neighbouring seed: as independent as two coins */
            assert_int_equal(ps_nn_dropout(b, b, count, 42 + step % 2, keeps[k], step + 1 - step % 2), PS_OK);
            for (int64_t i = 0; i < count; i++) {
                kept += a[i] != 0.0f;
                both += a[i] != 0.0f && b[i] != 0.0f;
            }
            const double deviation = sqrt((double)count * keep * (1 - keep));
            const double deviation_both = sqrt((double)count * keep * keep * (1 - keep * keep));
            assert_true(fabs((double)kept - (double)count * keep) < 5 * deviation);
            assert_true(fabs((double)both - (double)count * keep * keep) < 5 * deviation_both);
        }
    }
    test_floats_free(a, count);
    test_floats_free(b, count);
}

/* y = mask x / keep: gradient of sum r y by central differences of the kernel itself, which is linear in x. */
static void test_gradient(void **state)
{
    (void)state;
    for (size_t s = 0; s < ODD_SIZES; s++) {
        const int64_t n = odd_sizes[s];
        float *x = test_floats(n);
        float *y = test_floats(n);
        float *plus = test_floats(n);
        float *minus = test_floats(n);
        float *r = test_floats(n);
        float *dx = test_floats(n);
        assert_int_equal(ps_nn_dropout(x, y, n, 3, 0.7f, 9), PS_OK);
        assert_int_equal(ps_nn_dropout(r, dx, n, 3, 0.7f, 9), PS_OK);
        for (int64_t i = 0; i < n; i++) {
            const float saved = x[i];
            x[i] = saved + 0.5f;
            assert_int_equal(ps_nn_dropout(x, plus, n, 3, 0.7f, 9), PS_OK);
            x[i] = saved - 0.5f;
            assert_int_equal(ps_nn_dropout(x, minus, n, 3, 0.7f, 9), PS_OK);
            x[i] = saved;
            double slope = 0.0;
            for (int64_t j = 0; j < n; j++) {
                slope += (double)r[j] * ((double)plus[j] - (double)minus[j]);
            }
            test_near("dx", i, dx[i], slope, 1e-6);
            assert_true(y[i] == 0.0f || y[i] == x[i] * (1.0f / 0.7f));
        }
        test_floats_free(x, n);
        test_floats_free(y, n);
        test_floats_free(plus, n);
        test_floats_free(minus, n);
        test_floats_free(r, n);
        test_floats_free(dx, n);
    }
}

static void test_edges_of_keep(void **state)
{
    (void)state;
    const float in[] = {1.0f, -2.0f, NAN, INFINITY, 0.0f};
    float out[5];
    assert_int_equal(ps_nn_dropout(in, out, 5, 5, 1.0f, 5), PS_OK);
    assert_true(out[0] == 1.0f && out[1] == -2.0f && isnan(out[2]) && out[3] == INFINITY && out[4] == 0.0f);
    float many[4096];
    for (size_t i = 0; i < 4096; i++) {
        many[i] = i % 2 == 0 ? NAN : 1.0f;
    }
    assert_int_equal(ps_nn_dropout(many, many, 4096, 5, 1.0f / 1048576.0f, 5), PS_OK);
    int64_t kept = 0;
    for (size_t i = 0; i < 4096; i++) {
        kept += many[i] != 0.0f; /* a dropped NaN is 0 */
    }
    assert_true(kept <= 5);
    const float bad[] = {0.0f, -0.5f, 1.0001f, 9e-7f, NAN, INFINITY};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(ps_nn_dropout(in, out, 5, 5, bad[i], 5), PS_INVALID_ARGUMENT);
        test_error_has("keep is");
    }
}

static void test_bad_arguments(void **state)
{
    (void)state;
    float m[16] = {0};
    assert_int_equal(ps_nn_dropout(NULL, m, 4, 1, 0.5f, 1), PS_INVALID_ARGUMENT);
    test_error_has("in is NULL");
    assert_int_equal(ps_nn_dropout(m, NULL, 4, 1, 0.5f, 1), PS_INVALID_ARGUMENT);
    test_error_has("out is NULL");
    assert_int_equal(ps_nn_dropout(m, m, 0, 1, 0.5f, 1), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_nn_dropout(m, m + 1, 4, 1, 0.5f, 1), PS_INVALID_ARGUMENT);
    test_error_has("out overlaps in");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mask_bits),     cmocka_unit_test(test_rate_and_independence), cmocka_unit_test(test_gradient),
        cmocka_unit_test(test_edges_of_keep), cmocka_unit_test(test_bad_arguments),
    };
    return test_on_devices(tests, sizeof(tests) / sizeof(tests[0]));
}
