/* SPDX-License-Identifier: Apache-2.0 */
/* worker/nn/kernels/pointwise.h and cpu/layer_norm.c through worker/nn/nn.c: hand values, large and special values, in place,
 * long rows, an empty batch, bad arguments. tests/kernels/test_ops.c has random shapes and gradients. */
#include "nn_test.h"

static void test_hand_values(void **state)
{
    (void)state;
    const float x[] = {3, -1, 0.5f, 2}, t[] = {1, -1, 0, 2.5f};
    float dx[4];
    double loss = NAN;
    assert_int_equal(ps_nn_mean_squared_error(x, t, dx, 2, 2, &loss), PS_OK);
    assert_true(loss == (4 + 0 + 0.25 + 0.25) / 4);
    assert_true(dx[0] == 1.0f && dx[1] == 0.0f && dx[2] == 0.25f && dx[3] == -0.25f);
    assert_int_equal(ps_nn_mean_absolute_error(x, t, dx, 4, 1, &loss), PS_OK);
    assert_true(loss == (2 + 0 + 0.5 + 0.5) / 4);
    assert_true(dx[0] == 0.25f && dx[1] == 0.0f && dx[2] == 0.25f && dx[3] == -0.25f);
    assert_int_equal(ps_nn_huber_error(x, t, 1, dx, 1, 4, &loss), PS_OK);
    assert_true(loss == (1.5 + 0 + 0.125 + 0.125) / 4);
    assert_true(dx[0] == 0.25f && dx[1] == 0.0f && dx[2] == 0.125f && dx[3] == -0.125f);
    const float z[] = {0, 0.6931472f}, p[] = {1, 0.25f};
    assert_int_equal(ps_nn_sigmoid_xent(z, p, dx, 2, 1, &loss), PS_OK);
    test_near("loss", 0, loss, (log(2) + log(3) - 0.25 * log(2)) / 2, 1e-7);
    test_near("dx", 0, dx[0], -0.25, 1e-7);
    test_near("dx", 1, dx[1], (2.0 / 3 - 0.25) / 2, 1e-7);
    const float rows[] = {1, 2, 3, 5, 5, 5}, gamma[] = {1, 2, 3}, beta[] = {10, 20, 30};
    float y[6];
    assert_int_equal(ps_nn_layer_norm_forward(rows, gamma, beta, y, 2, 3, 1e-6f), PS_OK);
    const double h = sqrt(1.5);
    const double want[] = {10 - h, 20, 30 + 3 * h, 10, 20, 30};
    for (int64_t i = 0; i < 6; i++) {
        test_near("layer_norm", i, y[i], want[i], 1e-6);
    }
    assert_int_equal(ps_nn_gelu_forward((const float[]){0, 1, -1}, y, 3), PS_OK);
    assert_true(y[0] == 0.0f);
    test_near("gelu", 1, y[1], 0.841344746, 1e-7);
    test_near("gelu", 2, y[2], -0.158655254, 1e-7);
    assert_int_equal(ps_nn_add(x, t, y, 4), PS_OK);
    assert_true(y[0] == 4.0f && y[1] == -2.0f && y[2] == 0.5f && y[3] == 4.5f);
}

static void test_large_values(void **state)
{
    (void)state;
    const float x[] = {1e4f, -1e4f, 3e38f, -3e38f}, t[] = {1, 0, 1, 0}, far[] = {0, 1, 0, 1};
    float dx[4];
    double loss = NAN;
    assert_int_equal(ps_nn_sigmoid_xent(x, t, dx, 4, 1, &loss), PS_OK);
    assert_true(loss == 0 && dx[0] == 0.0f && dx[1] == 0.0f && dx[2] == 0.0f && dx[3] == 0.0f);
    assert_int_equal(ps_nn_sigmoid_xent(x, far, dx, 2, 1, &loss), PS_OK);
    assert_true(loss == 1e4 && dx[0] == 0.5f && dx[1] == -0.5f);
    const float edges[] = {INFINITY, -INFINITY, NAN, 20, -20, 3e38f, -3e38f, 1e-30f}, dy[] = {1, 1, 1, 1, 1, 1, 1, 1};
    const double want_y[] = {INFINITY, 0, NAN, 20, 0, 3e38f, 0, 5e-31}, want_dx[] = {1, 0, NAN, 1, 0, 1, 0, 0.5};
    float y[8], slope[8];
    assert_int_equal(ps_nn_gelu_forward(edges, y, 8), PS_OK);
    assert_int_equal(ps_nn_gelu_backward(edges, dy, slope, 8), PS_OK);
    for (size_t i = 0; i < 8; i++) {
        assert_true(isnan(want_y[i]) ? isnan(y[i]) : y[i] == (float)want_y[i]);
        assert_true(isnan(want_dx[i]) ? isnan(slope[i]) : slope[i] == (float)want_dx[i]);
    }
}

/* A NaN in x or t is in the loss and in its own gradient, and in no other one. */
static void test_nan(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        for (size_t at = 0; at < 2; at++) {
            float x[] = {1, 2, 3}, t[] = {0, 1, 1}, dx[3];
            double loss = 0;
            (at == 0 ? x : t)[1] = NAN;
            assert_int_equal(kind == 0   ? ps_nn_sigmoid_xent(x, t, dx, 3, 1, &loss)
                             : kind == 1 ? ps_nn_mean_squared_error(x, t, dx, 3, 1, &loss)
                             : kind == 2 ? ps_nn_mean_absolute_error(x, t, dx, 3, 1, &loss)
                                         : ps_nn_huber_error(x, t, 1, dx, 3, 1, &loss),
                             PS_OK);
            assert_true(isnan(loss) && isfinite(dx[0]) && isnan(dx[1]) && isfinite(dx[2]));
        }
    }
}

/* Rows that the GPU gives to a whole block, and enough rows for sums in two steps; results of dx in dy's memory are the same. */
static void test_long_rows(void **state)
{
    (void)state;
    const struct {
        int64_t batch, cols;
    } sizes[] = {{3, 5001}, {700, 5}, {200, 64}, {1, 1}};
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        const int64_t batch = sizes[s].batch, cols = sizes[s].cols, count = batch * cols;
        float *x = test_floats(count), *dy = test_floats(count), *dx = test_floats(count);
        float *gamma = test_floats(cols), *dgamma = test_floats(cols), *dbeta = test_floats(cols);
        assert_int_equal(ps_nn_layer_norm_backward(x, gamma, dy, dx, dgamma, dbeta, batch, cols, 0.1f), PS_OK);
        for (int64_t j = 0; j < cols; j += 1 + cols / 7) {
            double sum = 0, sum_h = 0;
            for (int64_t i = 0; i < batch; i++) {
                double mean = 0, variance = 0;
                for (int64_t k = 0; k < cols; k++) {
                    mean += (double)x[i * cols + k] / (double)cols;
                }
                for (int64_t k = 0; k < cols; k++) {
                    variance += pow((double)x[i * cols + k] - mean, 2) / (double)cols;
                }
                sum += (double)dy[i * cols + j];
                sum_h += (double)dy[i * cols + j] * ((double)x[i * cols + j] - mean) / sqrt(variance + (double)0.1f);
            }
            test_near("dbeta", j, dbeta[j], sum, 2e-5);
            test_near("dgamma", j, dgamma[j], sum_h, 2e-5);
        }
        for (int64_t i = 0; i < batch;
             i += 1 + batch / 5) { /* a row that moves as a whole changes nothing: its slopes add up to 0 */
            double sum = 0;
            for (int64_t j = 0; j < cols; j++) {
                sum += (double)dx[i * cols + j];
            }
            test_near("sum of dx", i, sum, 0, 1e-4);
        }
        assert_int_equal(ps_nn_layer_norm_backward(x, gamma, dy, dy, NULL, NULL, batch, cols, 0.1f), PS_OK);
        assert_memory_equal(dy, dx, (size_t)count * sizeof(float));
        float *all[] = {x, dy, dx};
        float *vectors[] = {gamma, dgamma, dbeta};
        for (size_t i = 0; i < 3; i++) {
            test_floats_free(all[i], count);
            test_floats_free(vectors[i], cols);
        }
    }
}

static void test_empty_batch(void **state)
{
    (void)state;
    float one[] = {7}, gamma[] = {1}, dgamma[] = {7}, dbeta[] = {7};
    double loss = 7;
    assert_int_equal(ps_nn_mean_squared_error(one, one, one, 0, 1, &loss), PS_OK);
    assert_true(loss == 0 && one[0] == 7.0f);
    assert_int_equal(ps_nn_layer_norm_forward(one, gamma, gamma, one, 0, 1, 1e-5f), PS_OK);
    assert_int_equal(ps_nn_layer_norm_backward(one, gamma, one, one, dgamma, dbeta, 0, 1, 1e-5f), PS_OK);
    assert_true(one[0] == 7.0f && dgamma[0] == 0.0f && dbeta[0] == 0.0f);
}

static void test_bad_arguments(void **state)
{
    (void)state;
    float m[16] = {0};
    double loss = 7;
    assert_int_equal(ps_nn_mean_squared_error(NULL, m, m, 2, 2, &loss), PS_INVALID_ARGUMENT);
    test_error_has("ps_nn_mean_squared_error: x is NULL");
    assert_int_equal(ps_nn_sigmoid_xent(m, NULL, m, 2, 2, &loss), PS_INVALID_ARGUMENT);
    test_error_has("t is NULL");
    assert_int_equal(ps_nn_mean_absolute_error(m, m + 4, m + 1, 2, 2, &loss), PS_INVALID_ARGUMENT);
    test_error_has("dx overlaps x");
    const float deltas[] = {0, -1, NAN, INFINITY};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(ps_nn_huber_error(m, m + 4, deltas[i], NULL, 2, 2, &loss), PS_INVALID_ARGUMENT);
        test_error_has("allowed are finite numbers above 0");
        assert_int_equal(ps_nn_layer_norm_forward(m, m + 4, m + 8, m, 2, 2, deltas[i]), PS_INVALID_ARGUMENT);
        test_error_has("epsilon is");
    }
    assert_int_equal(ps_nn_layer_norm_backward(m, m + 4, m + 8, m + 4, NULL, NULL, 2, 2, 1), PS_INVALID_ARGUMENT);
    test_error_has("dx overlaps gamma");
    assert_int_equal(ps_nn_gelu_forward(m, m, 0), PS_INVALID_ARGUMENT);
    test_error_has("x has a size of 0, allowed is 1 to");
    assert_int_equal(ps_nn_add(m, NULL, m, 4), PS_INVALID_ARGUMENT);
    test_error_has("b is NULL");
    assert_true(loss == 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hand_values), cmocka_unit_test(test_large_values), cmocka_unit_test(test_nan),
        cmocka_unit_test(test_long_rows),   cmocka_unit_test(test_empty_batch),  cmocka_unit_test(test_bad_arguments),
    };
    return test_on_devices(tests, sizeof(tests) / sizeof(tests[0]));
}
