/* SPDX-License-Identifier: Apache-2.0 */
/* worker/nn/kernels/cpu/dense.c through worker/nn/nn.c: values, gradients, optional outputs, bad arguments. */
#include "nn_test.h"

struct layer {
    int64_t batch, in, out;
    float *x, *w, *b, *dy;
};

static void layer_init(struct layer *l, int64_t batch, int64_t in, int64_t out)
{
    *l = (struct layer){
        batch, in, out, test_floats(batch * in), test_floats(in * out), test_floats(out), test_floats(batch * out)};
}

static void layer_fini(struct layer *l)
{
    test_floats_free(l->x, l->batch * l->in);
    test_floats_free(l->w, l->in * l->out);
    test_floats_free(l->b, l->out);
    test_floats_free(l->dy, l->batch * l->out);
}

/* sum_ij dy_ij (x w + b)_ij with one element of x, w or b moved by h */
static double loss(const struct layer *l, const float *moved, int64_t index, double h)
{
    double sum = 0.0;
    for (int64_t i = 0; i < l->batch; i++) {
        for (int64_t j = 0; j < l->out; j++) {
            double y = l->b[j] + (moved == l->b && index == j ? h : 0.0);
            for (int64_t k = 0; k < l->in; k++) {
                const double x = l->x[i * l->in + k] + (moved == l->x && index == i * l->in + k ? h : 0.0);
                const double w = l->w[k * l->out + j] + (moved == l->w && index == k * l->out + j ? h : 0.0);
                y += x * w;
            }
            sum += l->dy[i * l->out + j] * y;
        }
    }
    return sum;
}

static void check_gradient(const struct layer *l, const char *name, const float *moved, const float *gradient, int64_t count)
{
    const int64_t samples = count <= 9 ? count : 5;
    for (int64_t s = 0; s < samples; s++) {
        /* the last element always, the others at random where there are many */
        const int64_t index = count <= 9 ? s : (s == 0 ? count - 1 : (int64_t)(test_random() % (uint32_t)count));
        const double want = (loss(l, moved, index, STEP_H) - loss(l, moved, index, -STEP_H)) / (2 * STEP_H);
        test_near(name, index, gradient[index], want, 2e-5);
    }
}

static void check_layer(int64_t batch, int64_t in, int64_t out)
{
    struct layer l;
    layer_init(&l, batch, in, out);
    float *y = test_floats(batch * out);
    float *dw = test_floats(in * out);
    float *db = test_floats(out);
    float *dx = test_floats(batch * in);
    assert_int_equal(ps_nn_dense_forward(l.x, l.w, l.b, y, batch, in, out), PS_OK);
    for (int64_t i = 0; i < batch; i++) {
        for (int64_t j = 0; j < out; j++) {
            double want = l.b[j];
            for (int64_t k = 0; k < in; k++) {
                want += (double)l.x[i * in + k] * (double)l.w[k * out + j];
            }
            test_near("y", i * out + j, y[i * out + j], want, 1e-5);
        }
    }
    assert_int_equal(ps_nn_dense_backward(l.x, l.w, l.dy, dw, db, dx, batch, in, out), PS_OK);
    check_gradient(&l, "dw", l.w, dw, in * out);
    check_gradient(&l, "db", l.b, db, out);
    check_gradient(&l, "dx", l.x, dx, batch * in);
    test_floats_free(y, batch * out);
    test_floats_free(dw, in * out);
    test_floats_free(db, out);
    test_floats_free(dx, batch * in);
    layer_fini(&l);
}

static void test_odd_sizes(void **state)
{
    (void)state;
    for (size_t i = 0; i < ODD_SIZES; i++) {
        for (size_t j = 0; j < ODD_SIZES; j++) {
            for (size_t k = 0; k < ODD_SIZES; k++) {
                check_layer(odd_sizes[i], odd_sizes[j], odd_sizes[k]);
            }
        }
    }
}

static void test_hand_values(void **state)
{
    (void)state;
    const float x[] = {1, 2, 3, 4, 5, 6};  /* (2,3) */
    const float w[] = {1, 0, 0, 1, 2, -1}; /* (3,2) */
    const float b[] = {10, 20};
    const float dy[] = {1, 2, 3, 4}; /* (2,2) */
    const float want_y[] = {17, 19, 26, 19};
    const float want_no_bias[] = {7, -1, 16, -1};
    const float want_dw[] = {13, 18, 17, 24, 21, 30};
    const float want_db[] = {4, 6};
    const float want_dx[] = {1, 2, 0, 3, 4, 2};
    float y[4] = {NAN, NAN, NAN, NAN}; /* what was there must not be read */
    float dw[6] = {NAN, NAN, NAN, NAN, NAN, NAN};
    float db[2] = {NAN, NAN};
    float dx[6] = {NAN, NAN, NAN, NAN, NAN, NAN};
    assert_int_equal(ps_nn_dense_forward(x, w, b, y, 2, 3, 2), PS_OK);
    assert_memory_equal(y, want_y, sizeof(y));
    y[0] = NAN;
    assert_int_equal(ps_nn_dense_forward(x, w, NULL, y, 2, 3, 2), PS_OK);
    assert_memory_equal(y, want_no_bias, sizeof(y));
    assert_int_equal(ps_nn_dense_backward(x, w, dy, dw, db, dx, 2, 3, 2), PS_OK);
    assert_memory_equal(dw, want_dw, sizeof(dw));
    assert_memory_equal(db, want_db, sizeof(db));
    assert_memory_equal(dx, want_dx, sizeof(dx));
}

static void test_outputs_are_optional(void **state)
{
    (void)state;
    struct layer l;
    layer_init(&l, 17, 3, 64);
    float *all[] = {test_floats(3 * 64), test_floats(64), test_floats(17 * 3)};
    float *one[] = {test_floats(3 * 64), test_floats(64), test_floats(17 * 3)};
    const int64_t counts[] = {3 * 64, 64, 17 * 3};
    assert_int_equal(ps_nn_dense_backward(l.x, l.w, l.dy, all[0], all[1], all[2], 17, 3, 64), PS_OK);
    assert_int_equal(ps_nn_dense_backward(l.x, NULL, l.dy, one[0], NULL, NULL, 17, 3, 64), PS_OK);
    assert_int_equal(ps_nn_dense_backward(l.x, NULL, l.dy, one[0], one[1], NULL, 17, 3, 64), PS_OK);
    assert_int_equal(ps_nn_dense_backward(NULL, l.w, l.dy, NULL, NULL, one[2], 17, 3, 64), PS_OK);
    for (size_t i = 0; i < 3; i++) {
        assert_memory_equal(all[i], one[i], (size_t)counts[i] * sizeof(float));
        test_floats_free(all[i], counts[i]);
        test_floats_free(one[i], counts[i]);
    }
    layer_fini(&l);
}

static void test_same_input_same_bits(void **state)
{
    (void)state;
    struct layer l;
    layer_init(&l, 130, 64, 130);
    float *y = test_floats(130 * 130);
    float *again = test_floats(130 * 130 + 1);
    assert_int_equal(ps_nn_dense_forward(l.x, l.w, l.b, y, 130, 64, 130), PS_OK);
    for (size_t shift = 0; shift < 2; shift++) { /* also at another alignment */
        assert_int_equal(ps_nn_dense_forward(l.x, l.w, l.b, again + shift, 130, 64, 130), PS_OK);
        assert_memory_equal(y, again + shift, 130 * 130 * sizeof(float));
    }
    test_floats_free(y, 130 * 130);
    test_floats_free(again, 130 * 130 + 1);
    layer_fini(&l);
}

/* Inputs may share memory, also where one takes more of it than the other. */
static void test_inputs_share_memory(void **state)
{
    (void)state;
    enum { BATCH = 2, IN = 3, OUT = 70 };
    float m[BATCH * OUT];
    float x[BATCH * IN];
    float shared[IN * OUT];
    float apart[IN * OUT];
    for (size_t i = 0; i < BATCH * OUT; i++) {
        m[i] = test_uniform();
    }
    memcpy(x, m, sizeof(x));
    assert_int_equal(ps_nn_dense_backward(x, NULL, m, apart, NULL, NULL, BATCH, IN, OUT), PS_OK);
    assert_int_equal(ps_nn_dense_backward(m, NULL, m, shared, NULL, NULL, BATCH, IN, OUT), PS_OK);
    assert_memory_equal(shared, apart, sizeof(apart));
}

static void test_bad_arguments(void **state)
{
    (void)state;
    float m[64] = {0};
    float *x = m;
    float *w = m + 16;
    float *y = m + 32;
    float *b = m + 48;
    assert_int_equal(ps_nn_dense_forward(NULL, w, b, y, 2, 2, 2), PS_INVALID_ARGUMENT);
    test_error_has("x is NULL");
    assert_int_equal(ps_nn_dense_forward(x, NULL, b, y, 2, 2, 2), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_nn_dense_forward(x, w, b, NULL, 2, 2, 2), PS_INVALID_ARGUMENT);
    const int64_t bad[] = {-1, INT64_MIN, (int64_t)INT32_MAX + 1, INT64_MAX, 0};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const ps_status st = bad[i] == 0 ? PS_OK : PS_INVALID_ARGUMENT; /* a batch may be empty */
        assert_int_equal(ps_nn_dense_forward(x, w, b, y, bad[i], 2, 2), st);
        assert_int_equal(ps_nn_dense_backward(x, w, y, b, NULL, NULL, bad[i], 2, 2), st);
        assert_int_equal(ps_nn_dense_forward(x, w, b, y, 2, bad[i], 2), PS_INVALID_ARGUMENT);
        test_error_has("x has a size of");
        assert_int_equal(ps_nn_dense_forward(x, w, b, y, 2, 2, bad[i]), PS_INVALID_ARGUMENT);
        test_error_has("w has a size of");
    }
    assert_int_equal(ps_nn_dense_forward(x, w, b, y, INT32_MAX, INT32_MAX, INT32_MAX), PS_INVALID_ARGUMENT);
    test_error_has("too large");
    assert_int_equal(ps_nn_dense_backward(x, w, y, NULL, b, NULL, 2, 2, 2), PS_INVALID_ARGUMENT);
    test_error_has("dw is NULL");
    assert_int_equal(ps_nn_dense_forward(x, w, b, x, 2, 2, 2), PS_INVALID_ARGUMENT);
    test_error_has("y overlaps x");
    assert_int_equal(ps_nn_dense_forward(x, w, b, w - 3, 2, 2, 2), PS_INVALID_ARGUMENT);
    test_error_has("y overlaps w");
    assert_int_equal(ps_nn_dense_forward(x, w, b, b - 3, 2, 2, 2), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_nn_dense_forward(x, w, b, w - 4, 2, 2, 2), PS_OK);
    assert_int_equal(ps_nn_dense_backward(x, w, NULL, b, NULL, NULL, 2, 2, 2), PS_INVALID_ARGUMENT);
    test_error_has("dy is NULL");
    assert_int_equal(ps_nn_dense_backward(NULL, w, y, b, NULL, NULL, 2, 2, 2), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_nn_dense_backward(x, NULL, y, NULL, NULL, b, 2, 2, 2), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_nn_dense_backward(x, w, y, NULL, NULL, y, 2, 2, 2), PS_INVALID_ARGUMENT);
    test_error_has("dx overlaps dy");
    assert_int_equal(ps_nn_dense_backward(x, w, y, b, b + 3, NULL, 2, 2, 2), PS_INVALID_ARGUMENT);
    test_error_has("dw overlaps db");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_odd_sizes),
        cmocka_unit_test(test_hand_values),
        cmocka_unit_test(test_outputs_are_optional),
        cmocka_unit_test(test_same_input_same_bits),
        cmocka_unit_test(test_inputs_share_memory),
        cmocka_unit_test(test_bad_arguments),
    };
    return test_on_devices(tests, sizeof(tests) / sizeof(tests[0]));
}
