/* SPDX-License-Identifier: Apache-2.0 */
/* worker/nn/kernels/cpu/activation.c and expf.h through worker/nn/nn.c: values, gradients, in place, special values, bad
 * arguments. */
#include "nn_test.h"

#include <float.h>

typedef ps_status (*forward_fn)(const float *x, float *y, int64_t count);
typedef ps_status (*backward_fn)(const float *y, const float *dy, float *dx, int64_t count);

static double relu(double x)
{
    return x > 0.0 ? x : 0.0;
}

static double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

struct activation {
    const char *name;
    forward_fn forward;
    backward_fn backward;
    double (*reference)(double x);
};

static const struct activation activations[] = {
    {"relu", ps_nn_relu_forward, ps_nn_relu_backward, relu},
    {"sigmoid", ps_nn_sigmoid_forward, ps_nn_sigmoid_backward, sigmoid},
    {"tanh", ps_nn_tanh_forward, ps_nn_tanh_backward, tanh},
};
#define ACTIVATIONS (sizeof(activations) / sizeof(activations[0]))

/* Values against the reference and gradients of sum dy y against central differences, apart and in place. */
static void check_count(const struct activation *a, int64_t count)
{
    float *x = test_floats(count);
    float *y = test_floats(count);
    float *dy = test_floats(count);
    float *dx = test_floats(count);
    for (int64_t i = 0; i < count; i++) {
        x[i] = 6.0f * x[i];
        x[i] += fabsf(x[i]) < 0.01f ? 0.1f : 0.0f; /* away from the kink of relu */
    }
    assert_int_equal(a->forward(x, y, count), PS_OK);
    assert_int_equal(a->backward(y, dy, dx, count), PS_OK);
    for (int64_t i = 0; i < count; i++) {
        const double slope = (a->reference(x[i] + STEP_H) - a->reference(x[i] - STEP_H)) / (2 * STEP_H);
        test_near(a->name, i, y[i], a->reference(x[i]), 5e-7);
        test_near(a->name, i, dx[i], dy[i] * slope, 2e-6);
    }
    assert_int_equal(a->forward(x, x, count), PS_OK);
    assert_memory_equal(x, y, (size_t)count * sizeof(float));
    assert_int_equal(a->backward(y, dy, dy, count), PS_OK);
    assert_memory_equal(dy, dx, (size_t)count * sizeof(float));
    test_floats_free(x, count);
    test_floats_free(y, count);
    test_floats_free(dy, count);
    test_floats_free(dx, count);
}

static void test_odd_sizes(void **state)
{
    (void)state;
    for (size_t k = 0; k < ACTIVATIONS; k++) {
        for (size_t i = 0; i < ODD_SIZES; i++) {
            check_count(&activations[k], odd_sizes[i]);
        }
        check_count(&activations[k], 130 * 64 + 3);
    }
}

/* Relative error over the whole range where the result is a normal number. */
static double worst(forward_fn forward, double (*reference)(double x), const float *x, int64_t count)
{
    float *y = test_floats(count);
    double error = 0.0;
    assert_int_equal(forward(x, y, count), PS_OK);
    for (int64_t i = 0; i < count; i++) {
        error = fmax(error, fabs(y[i] / reference(x[i]) - 1.0));
    }
    test_floats_free(y, count);
    return error;
}

static void test_precision(void **state)
{
    (void)state;
    enum { WIDE = 127000, SMALL = 6900 };
    float *x = test_floats(WIDE + SMALL);
    for (int64_t i = 0; i < WIDE; i++) {
        x[i] = (float)(-87.0 + (double)i * 0.00137); /* to 87 */
    }
    for (int64_t i = 0; i < SMALL; i++) {
        x[WIDE + i] = (float)(1e-30 * pow(1.01, (double)i)); /* to 1 */
    }
    test_near("sigmoid error", 0, worst(ps_nn_sigmoid_forward, sigmoid, x, WIDE), 0.0, 2e-7);
    test_near("tanh error", 0, worst(ps_nn_tanh_forward, tanh, x, WIDE + SMALL), 0.0, 2e-7);
    test_floats_free(x, WIDE + SMALL);
}

static void test_hand_values(void **state)
{
    (void)state;
    const float x[] = {-2.0f, -0.0f, 0.0f, 3.0f, 1e-20f};
    const float dy[] = {5.0f, 5.0f, 5.0f, 5.0f, 5.0f};
    float y[5];
    float dx[5];
    assert_int_equal(ps_nn_relu_forward(x, y, 5), PS_OK);
    assert_true(y[0] == 0.0f && y[1] == 0.0f && y[2] == 0.0f && y[3] == 3.0f && y[4] == 1e-20f);
    assert_int_equal(ps_nn_relu_backward(y, dy, dx, 5), PS_OK);
    assert_true(dx[0] == 0.0f && dx[1] == 0.0f && dx[2] == 0.0f && dx[3] == 5.0f && dx[4] == 5.0f);
    assert_int_equal(ps_nn_sigmoid_forward(x, y, 5), PS_OK);
    test_near("sigmoid", 0, y[0], 0.11920292, 1e-7);
    assert_true(y[1] == 0.5f && y[2] == 0.5f && y[4] == 0.5f);
    test_near("sigmoid", 3, y[3], 0.95257413, 1e-7);
    assert_int_equal(ps_nn_sigmoid_backward(y, dy, dx, 5), PS_OK);
    assert_true(dx[2] == 1.25f);
    assert_int_equal(ps_nn_tanh_forward(x, y, 5), PS_OK);
    test_near("tanh", 0, y[0], -0.96402758, 1e-7);
    assert_true(y[1] == 0.0f && signbit(y[1]) && y[2] == 0.0f && y[4] == 1e-20f);
    test_near("tanh", 3, y[3], 0.99505475, 1e-7);
    assert_int_equal(ps_nn_tanh_backward(y, dy, dx, 5), PS_OK);
    assert_true(dx[2] == 5.0f);
}

static void test_special_values(void **state)
{
    (void)state;
    const float x[] = {INFINITY, -INFINITY, NAN, 3e38f, -3e38f, 88.0f, -88.0f, 1e-45f};
    const float want_sigmoid[] = {1.0f, 0.0f, NAN, 1.0f, 0.0f, 1.0f, 0.0f, 0.5f};
    const float want_tanh[] = {1.0f, -1.0f, NAN, 1.0f, -1.0f, 1.0f, -1.0f, 1e-45f};
    const float want_relu[] = {INFINITY, 0.0f, NAN, 3e38f, 0.0f, 88.0f, 0.0f, 1e-45f};
    const float *want[] = {want_relu, want_sigmoid, want_tanh};
    float y[8];
    for (size_t k = 0; k < ACTIVATIONS; k++) {
        assert_int_equal(activations[k].forward(x, y, 8), PS_OK);
        for (size_t i = 0; i < 8; i++) {
            const bool tiny =
                activations[k].forward == ps_nn_sigmoid_forward && want[k][i] == 0.0f && y[i] > 0.0f && y[i] < FLT_MIN;
            assert_true(isnan(want[k][i]) ? isnan(y[i]) : y[i] == want[k][i] || tiny); /* a device may have denormal numbers */
        }
    }
    const float relu_y[] = {INFINITY, -INFINITY, NAN, 1.0f, -1.0f, 0.0f, -0.0f, FLT_MIN};
    const float dy[] = {1, 2, 3, 4, 5, 6, 7, NAN};
    const float want_dx[] = {1, 0, 3, 4, 0, 0, 0, NAN};
    assert_int_equal(ps_nn_relu_backward(relu_y, dy, y, 8), PS_OK);
    for (size_t i = 0; i < 8; i++) {
        assert_true(isnan(want_dx[i]) ? isnan(y[i]) : y[i] == want_dx[i]);
    }
}

static void test_bad_arguments(void **state)
{
    (void)state;
    float m[16] = {0};
    for (size_t k = 0; k < ACTIVATIONS; k++) {
        const struct activation *a = &activations[k];
        assert_int_equal(a->forward(NULL, m, 4), PS_INVALID_ARGUMENT);
        test_error_has("x is NULL");
        test_error_has(a->name);
        assert_int_equal(a->forward(m, NULL, 4), PS_INVALID_ARGUMENT);
        test_error_has("y is NULL");
        assert_int_equal(a->forward(m, m, 0), PS_INVALID_ARGUMENT);
        test_error_has("x has a size of 0, allowed is 1 to");
        assert_int_equal(a->forward(m, m, -5), PS_INVALID_ARGUMENT);
        assert_int_equal(a->forward(m, m + 3, 4), PS_INVALID_ARGUMENT);
        test_error_has("y overlaps x");
        assert_int_equal(a->forward(m, m + 4, 4), PS_OK);
        assert_int_equal(a->backward(NULL, m, m, 4), PS_INVALID_ARGUMENT);
        assert_int_equal(a->backward(m, NULL, m, 4), PS_INVALID_ARGUMENT);
        assert_int_equal(a->backward(m, m, NULL, 4), PS_INVALID_ARGUMENT);
        test_error_has("dx is NULL");
        assert_int_equal(a->backward(m, m + 8, m + 7, 4), PS_INVALID_ARGUMENT);
        test_error_has("dx overlaps dy");
        assert_int_equal(a->backward(m, m, m, INT64_MAX), PS_INVALID_ARGUMENT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_odd_sizes),      cmocka_unit_test(test_precision),     cmocka_unit_test(test_hand_values),
        cmocka_unit_test(test_special_values), cmocka_unit_test(test_bad_arguments),
    };
    return test_on_devices(tests, sizeof(tests) / sizeof(tests[0]));
}
