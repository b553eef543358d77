/* SPDX-License-Identifier: Apache-2.0 */
/* worker/nn/kernels/cpu/softmax_xent.c through worker/nn/nn.c: values, gradients, overflow, special values, accuracy, bad
 * arguments. */
#include "nn_test.h"

/* mean over rows of log(sum_j exp(z_j)) - z_label with one logit moved by h; logits small enough for the plain formula */
static double loss(const float *z, const int32_t *labels, int64_t batch, int64_t classes, int64_t moved, double h)
{
    double sum = 0.0;
    for (int64_t i = 0; i < batch; i++) {
        double exps = exp(z[i * classes] + (moved == i * classes ? h : 0.0));
        for (int64_t j = 1; j < classes; j++) {
            exps += exp(z[i * classes + j] + (moved == i * classes + j ? h : 0.0));
        }
        const int64_t at = i * classes + labels[i];
        sum += log(exps) - (z[at] + (moved == at ? h : 0.0));
    }
    return sum / (double)batch;
}

static void check_batch(int64_t batch, int64_t classes)
{
    const int64_t count = batch * classes;
    float *z = test_floats(count);
    float *dz = test_floats(count);
    int32_t *labels = malloc((size_t)batch * sizeof(int32_t));
    assert_non_null(labels);
    for (int64_t i = 0; i < count; i++) {
        z[i] *= 5.0f;
    }
    for (int64_t i = 0; i < batch; i++) {
        labels[i] = (int32_t)(test_random() % (uint32_t)classes);
    }
    double value = NAN;
    double value_only = NAN;
    double value_in_place = NAN;
    assert_int_equal(ps_nn_softmax_xent(z, labels, dz, batch, classes, &value), PS_OK);
    assert_int_equal(ps_nn_softmax_xent(z, labels, NULL, batch, classes, &value_only), PS_OK);
    test_near("loss", 0, value, loss(z, labels, batch, classes, -1, 0.0), 1e-6);
    assert_true(value == value_only);
    float *without_loss = test_floats(count);
    assert_int_equal(ps_nn_softmax_xent(z, labels, without_loss, batch, classes, NULL), PS_OK);
    assert_memory_equal(without_loss, dz, (size_t)count * sizeof(float));
    test_floats_free(without_loss, count);
    const int64_t samples = count < 60 ? count : 60;
    for (int64_t s = 0; s < samples; s++) {
        /* where there are many: the labels first, then any */
        const int64_t row = s % batch;
        const int64_t many = s < 20 ? row * classes + labels[row] : (int64_t)(test_random() % (uint32_t)count);
        const int64_t at = count < 60 ? s : many;
        const double slope =
            (loss(z, labels, batch, classes, at, STEP_H) - loss(z, labels, batch, classes, at, -STEP_H)) / (2 * STEP_H);
        test_near("dlogits", at, dz[at] * (double)batch, slope * (double)batch, 2e-6);
    }
    for (int64_t i = 0; i < batch; i++) { /* probabilities add up to 1, so a row's gradient to 0 */
        double sum = 0.0;
        for (int64_t j = 0; j < classes; j++) {
            sum += dz[i * classes + j];
        }
        test_near("row sum", i, sum * (double)batch, 0.0, 1e-6);
    }
    assert_int_equal(ps_nn_softmax_xent(z, labels, z, batch, classes, &value_in_place), PS_OK);
    assert_memory_equal(z, dz, (size_t)count * sizeof(float));
    assert_true(value == value_in_place);
    free(labels);
    test_floats_free(z, count);
    test_floats_free(dz, count);
}

static void test_odd_sizes(void **state)
{
    (void)state;
    for (size_t i = 0; i < ODD_SIZES; i++) {
        for (size_t j = 0; j < ODD_SIZES; j++) {
            check_batch(odd_sizes[i], odd_sizes[j]);
        }
    }
}

static void test_hand_values(void **state)
{
    (void)state;
    const float z[] = {0, 0, 0, 0, 0.6931472f, 0, 0, -INFINITY};
    const int32_t labels[] = {2, 0};
    const double want[] = {0.125, 0.125, -0.375, 0.125, -0.25, 0.125, 0.125, 0.0};
    float dz[8];
    double value = 0.0;
    assert_int_equal(ps_nn_softmax_xent(z, labels, dz, 2, 4, &value), PS_OK);
    test_near("loss", 0, value, (log(4.0) + log(2.0)) / 2, 1e-7);
    for (int64_t i = 0; i < 8; i++) {
        test_near("dlogits", i, dz[i], want[i], 1e-7);
    }
    assert_true(dz[7] == 0.0f);
}

static void test_large_logits(void **state)
{
    (void)state;
    const float z[] = {10000, 9999, -10000, 3e38f, -3e38f, 0, -10000, -10001, -10000, -3e38f, -3e38f, -3e38f};
    const int32_t labels[] = {1, 0, 1, 2};
    float dz[12];
    double value = 0.0;
    assert_int_equal(ps_nn_softmax_xent(z, labels, dz, 4, 3, &value), PS_OK);
    const double e = exp(-1.0);
    test_near("loss", 0, value, (log(1 + e) + 1 + 0.0 + log(2 + e) + 1 + log(3.0)) / 4, 1e-6);
    test_near("dlogits", 0, dz[0], 0.25 / (1 + e), 1e-6);
    test_near("dlogits", 1, dz[1], 0.25 * (e / (1 + e) - 1), 1e-6);
    assert_true(dz[2] == 0.0f && dz[3] == 0.0f && dz[4] == 0.0f && dz[5] == 0.0f);
    test_near("dlogits", 9, dz[9], 0.25 / 3, 1e-6);
    /* a label that is far below the rest: a finite, large loss */
    const int32_t far[] = {2, 0, 0, 0};
    assert_int_equal(ps_nn_softmax_xent(z, far, dz, 1, 3, &value), PS_OK);
    test_near("loss", 0, value, 20000 + log(1 + e), 1e-6);
    test_near("dlogits", 2, dz[2], -1.0, 1e-6);
}

static void test_special_values(void **state)
{
    (void)state;
    const float bad[] = {NAN, INFINITY};
    const int32_t labels[] = {0, 1};
    for (size_t k = 0; k < 2; k++) {
        for (size_t at = 0; at < 40; at += 13) {
            float z[40] = {0}; /* two rows of 20: one group of lanes and a rest */
            float dz[40];
            double value = 0.0;
            z[at] = bad[k];
            assert_int_equal(ps_nn_softmax_xent(z, labels, dz, 2, 20, &value), PS_OK);
            assert_true(isnan(value));
            for (size_t j = 0; j < 40; j++) {
                assert_true((isnan(dz[j]) && j / 20 == at / 20) || (isfinite(dz[j]) && j / 20 != at / 20));
            }
        }
    }
    const float impossible[] = {0, -INFINITY};
    float dz[2];
    double value = 0.0;
    assert_int_equal(ps_nn_softmax_xent(impossible, labels + 1, dz, 1, 2, &value), PS_OK);
    assert_true(value == INFINITY && dz[0] == 1.0f && dz[1] == -1.0f);
}

static void test_argmax_count(void **state)
{
    (void)state;
    const float z[] = {1, 2, 3, 3, 3, 1, NAN, 5, 1, -1, -2, -INFINITY, 0, NAN, 1};
    const struct {
        int32_t labels[5];
        int64_t count;
    } cases[] = {
        {{2, 0, 1, 0, 2}, 3}, /* rows with a NaN never count; a tie goes to the first */
        {{0, 1, 0, 1, 0}, 0},
        {{2, 1, 0, 0, 0}, 2},
    };
    for (size_t i = 0; i < 3; i++) {
        int64_t count = -1;
        assert_int_equal(ps_nn_argmax_count(z, cases[i].labels, 5, 3, &count), PS_OK);
        assert_int_equal(count, cases[i].count);
    }
}

static void test_bad_arguments(void **state)
{
    (void)state;
    float z[6] = {0};
    float dz[6] = {7, 7, 7, 7, 7, 7};
    int64_t count = 7;
    double value = 7.0;
    const int32_t good[] = {0, 2};
    const int32_t bad[][2] = {{0, 3}, {-1, 0}, {INT32_MAX, 0}, {0, INT32_MIN}};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(ps_nn_softmax_xent(z, bad[i], dz, 2, 3, &value), PS_INVALID_ARGUMENT);
        test_error_has("is not a class, allowed is 0 to 2");
        assert_int_equal(ps_nn_argmax_count(z, bad[i], 2, 3, &count), PS_INVALID_ARGUMENT);
    }
    assert_int_equal(ps_nn_softmax_xent(z, bad[0], dz, 2, 3, &value), PS_INVALID_ARGUMENT);
    test_error_has("label 3 of row 1");
    assert_int_equal(ps_nn_softmax_xent(NULL, good, dz, 2, 3, &value), PS_INVALID_ARGUMENT);
    test_error_has("logits is NULL");
    assert_int_equal(ps_nn_softmax_xent(z, NULL, dz, 2, 3, &value), PS_INVALID_ARGUMENT);
    test_error_has("labels is NULL");
    assert_int_equal(ps_nn_softmax_xent(z, good, dz, 2, -3, &value), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_nn_softmax_xent(z, good, z + 1, 1, 3, &value), PS_INVALID_ARGUMENT);
    test_error_has("dlogits overlaps logits");
    assert_int_equal(ps_nn_argmax_count(NULL, good, 2, 3, &count), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_nn_argmax_count(z, NULL, 2, 3, &count), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_nn_argmax_count(z, good, 2, 3, NULL), PS_INVALID_ARGUMENT);
    assert_true(value == 7.0 && count == 7 && dz[0] == 7.0f && dz[5] == 7.0f); /* outputs untouched */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_odd_sizes),      cmocka_unit_test(test_hand_values),  cmocka_unit_test(test_large_logits),
        cmocka_unit_test(test_special_values), cmocka_unit_test(test_argmax_count), cmocka_unit_test(test_bad_arguments),
    };
    return test_on_devices(tests, sizeof(tests) / sizeof(tests[0]));
}
