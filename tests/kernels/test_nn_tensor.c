/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker/nn/tensor.c: tensors, the parameter level and how errors travel, with sessions against a ps task in this process, on the
 * CPU and on the fake device.
 */
#include "nn_test.h"

#include "servers.h"
#include "worker/ps.h"

static struct test_servers servers;
static const char *device; /* that the tests compute on */
static int containers;     /* so far: each session has its own */

static void log_nothing(void *ctx, ps_log_level level, const char *line)
{
    (void)ctx, (void)level, (void)line;
}

static ps_session *session_new(void)
{
    char container[32];
    char error[512];
    ps_session_options o;
    ps_session *s = NULL;
    ps_session_options_init(&o);
    snprintf(container, sizeof(container), "c%d", containers++);
    o.cluster_spec = servers.spec;
    o.container = container;
    o.compute_device = device;
    o.log = log_nothing;
    if (ps_session_open(&o, &s, error, sizeof(error)) != PS_OK) {
        fail_msg("%s", error);
    }
    return s;
}

/* Each session's failure is its own: the network's parameters are of this one, those of `other` of that one. */
struct network {
    ps_session *session;
    ps_param *w1, *b1, *w2, *b2;
    ps_tensor x, labels, h, dh, logits, dlogits, dx, loss, count;
    float x_values[18];
    int32_t label_values[6];
};

static void fill(ps_param *p)
{
    float *values = ps_param_value(p);
    for (int64_t i = 0; i < ps_shape_elements(ps_param_shape(p)); i++) {
        values[i] = test_uniform();
    }
}

/* A network 3 - 5 - 4 of which everything lies on the stack. */
static void network_init(struct network *n)
{
    memset(n, 0, sizeof(*n));
    n->session = session_new();
    n->w1 = ps_param_get(n->session, "w1", PS_SHAPE(3, 5), ps_glorot(PS_FAN_IN_OUT), ps_sgd(0.25));
    n->b1 = ps_param_get(n->session, "b1", PS_SHAPE(5), ps_zeros(), ps_sgd(0.25));
    n->w2 = ps_param_get(n->session, "w2", PS_SHAPE(5, 4), ps_glorot(PS_FAN_IN_OUT), ps_sgd(0.25));
    n->b2 = ps_param_get(n->session, "b2", PS_SHAPE(4), ps_zeros(), ps_sgd(0.25));
    fill(n->w1), fill(n->b1), fill(n->w2), fill(n->b2);
    for (size_t i = 0; i < 18; i++) {
        n->x_values[i] = test_uniform();
    }
    for (size_t i = 0; i < 6; i++) {
        n->label_values[i] = (int32_t)(i % 4);
    }
    ps_tensor_wrap(&n->x, n->x_values, 6, 3);
    ps_tensor_wrap_labels(&n->labels, n->label_values, 6);
}

static int network_fini(struct network *n)
{
    ps_tensor *tensors[] = {&n->x, &n->labels, &n->h, &n->dh, &n->logits, &n->dlogits, &n->dx, &n->loss, &n->count};
    for (size_t i = 0; i < sizeof(tensors) / sizeof(tensors[0]); i++) {
        ps_tensor_free(tensors[i]);
        assert_true(tensors[i]->rows_capacity == 0 && tensors[i]->dtype == PS_DTYPE_NONE);
    }
    return ps_session_close(n->session);
}

typedef ps_status (*tensor_forward)(ps_tensor *x, ps_tensor *y);
typedef ps_status (*tensor_backward)(ps_tensor *y, ps_tensor *dy, ps_tensor *dx);

static double network_forward(struct network *n, tensor_forward activation)
{
    ps_tensor_wrap(&n->x, n->x_values, 6, 3);
    assert_int_equal(ps_dense(&n->x, n->w1, n->b1, &n->h), PS_OK);
    assert_int_equal(ps_dropout(&n->h, 5, 0.8f, 3, &n->h), PS_OK);
    assert_int_equal(activation(&n->h, &n->h), PS_OK);
    assert_int_equal(ps_dense(&n->h, n->w2, n->b2, &n->logits), PS_OK);
    assert_int_equal(ps_softmax_xent(&n->logits, &n->labels, &n->dlogits, &n->loss), PS_OK);
    return ps_tensor_scalar(&n->loss);
}

/* value(): where the values are to be changed, asked for before each change */
static void check_values(struct network *n, tensor_forward activation, const char *name, ps_param *p, const float *gradient,
                         int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        float *values = p != NULL ? ps_param_value(p) : n->x_values;
        const float saved = values[i];
        const float high = saved + 0.01f;
        const float low = saved - 0.01f;
        values[i] = high;
        const double plus = network_forward(n, activation);
        values = p != NULL ? ps_param_value(p) : n->x_values;
        values[i] = low;
        const double minus = network_forward(n, activation);
        values = p != NULL ? ps_param_value(p) : n->x_values;
        values[i] = saved;
        /* the loss is float32 inside: 1e-7 / 0.01, and the second-order term of the wide step */
        test_near(name, i, gradient[i], (plus - minus) / ((double)high - (double)low), 1e-4);
    }
}

static void copy_grad(ps_param *p, float *to)
{
    const float *from = ps_param_grad(p);
    assert_non_null(from);
    memcpy(to, from, (size_t)ps_shape_elements(ps_param_shape(p)) * sizeof(float));
}

static void test_network_gradients(void **state)
{
    (void)state;
    const tensor_forward forwards[] = {ps_tanh, ps_sigmoid};
    const tensor_backward backwards[] = {ps_tanh_backward, ps_sigmoid_backward};
    for (size_t k = 0; k < 2; k++) {
        struct network n;
        float dw1[15], db1[5], dw2[20], db2[4], dx[18];
        network_init(&n);
        network_forward(&n, forwards[k]);
        assert_int_equal(ps_dense_backward(&n.h, &n.dlogits, n.w2, n.b2, &n.dh), PS_OK);
        assert_int_equal(backwards[k](&n.h, &n.dh, &n.dh), PS_OK);
        assert_int_equal(ps_dropout_backward(&n.dh, 5, 0.8f, 3, &n.dh), PS_OK);
        assert_int_equal(ps_dense_backward(&n.x, &n.dh, n.w1, n.b1, &n.dx), PS_OK);
        copy_grad(n.w1, dw1), copy_grad(n.b1, db1), copy_grad(n.w2, dw2), copy_grad(n.b2, db2);
        memcpy(dx, ps_tensor_read(&n.dx), sizeof(dx));
        check_values(&n, forwards[k], "w1", n.w1, dw1, 15);
        check_values(&n, forwards[k], "b1", n.b1, db1, 5);
        check_values(&n, forwards[k], "w2", n.w2, dw2, 20);
        check_values(&n, forwards[k], "b2", n.b2, db2, 4);
        check_values(&n, forwards[k], "x", NULL, dx, 18);
        assert_int_equal(network_fini(&n), 0);
    }
}

/* The operations with the activation in them give what the single ones give. */
static void test_fused(void **state)
{
    (void)state;
    const tensor_forward forwards[] = {NULL, ps_relu, ps_sigmoid, ps_tanh};
    const tensor_backward backwards[] = {NULL, ps_relu_backward, ps_sigmoid_backward, ps_tanh_backward};
    for (ps_activation act = PS_LINEAR; act <= PS_TANH; act++) {
        struct network n;
        float h[30], dh[30];
        network_init(&n);
        assert_int_equal(ps_dense(&n.x, n.w1, n.b1, &n.h), PS_OK);
        assert_true(act == PS_LINEAR || forwards[act](&n.h, &n.h) == PS_OK);
        assert_int_equal(ps_dense(&n.h, n.w2, n.b2, &n.logits), PS_OK);
        assert_int_equal(ps_softmax_xent(&n.logits, &n.labels, &n.dlogits, NULL), PS_OK);
        assert_int_equal(ps_dense_backward(&n.h, &n.dlogits, n.w2, n.b2, &n.dh), PS_OK);
        assert_true(act == PS_LINEAR || backwards[act](&n.h, &n.dh, &n.dh) == PS_OK);
        memcpy(h, ps_tensor_read(&n.h), sizeof(h));
        memcpy(dh, ps_tensor_read(&n.dh), sizeof(dh));
        ps_tensor y = {0};
        ps_tensor dx = {0};
        assert_int_equal(ps_dense_act(&n.x, n.w1, n.b1, act, &y), PS_OK);
        assert_int_equal(ps_dense_act_backward(&y, act, &n.dlogits, n.w2, n.b2, &dx), PS_OK);
        assert_memory_equal(h, ps_tensor_read(&y), sizeof(h));
        assert_memory_equal(dh, ps_tensor_read(&dx), sizeof(dh));
        assert_int_equal(ps_dense_act(&n.x, n.w1, n.b1, (ps_activation)4, &y), PS_INVALID_ARGUMENT);
        test_error_has("there is no activation 4");
        ps_tensor_free(&y);
        ps_tensor_free(&dx);
        assert_int_equal(network_fini(&n), PS_INVALID_ARGUMENT);
    }
}

/* The loop that programs write; nothing is read in it. Values of all parameters after the steps, as the ps has them. */
static double train(float values[44])
{
    struct network n;
    test_random_state = 7;
    network_init(&n);
    assert_int_equal(ps_session_ready(n.session), PS_OK);
    for (int step = 0; step < 150; step++) {
        float batch[18];
        int32_t labels[6];
        for (size_t i = 0; i < 6; i++) { /* the class is the largest of three values, or 3 where none is above 0 */
            float *row = batch + 3 * i;
            size_t best = 0;
            for (size_t j = 0; j < 3; j++) {
                row[j] = test_uniform();
                best = row[j] > row[best] ? j : best;
            }
            labels[i] = row[best] > 0 ? (int32_t)best : 3;
        }
        ps_tensor_wrap(&n.x, batch, 6, 3);
        ps_tensor_wrap_labels(&n.labels, labels, 6);
        ps_pull(n.session);
        ps_dense_act(&n.x, n.w1, n.b1, PS_RELU, &n.h);
        ps_dense(&n.h, n.w2, NULL, &n.logits);
        memset(batch, 0xff, sizeof(batch)); /* used: it is the program's again */
        ps_softmax_xent(&n.logits, &n.labels, &n.dlogits, &n.loss);
        memset(labels, 0xff, sizeof(labels));
        ps_argmax_count(&n.logits, &n.labels, &n.count);
        ps_dense_act_backward(&n.h, PS_RELU, &n.dlogits, n.w2, NULL, &n.dh);
        ps_push(n.session, n.w2);
        ps_dense_backward(&n.x, &n.dh, n.w1, n.b1, NULL);
        ps_push(n.session, n.w1), ps_push(n.session, n.b1);
        ps_step_done(n.session);
    }
    assert_int_equal(ps_pull(n.session), PS_OK);
    const double count = ps_tensor_scalar(&n.count);
    const double loss = ps_tensor_scalar(&n.loss);
    assert_true(count >= 0 && count <= 6 && count == floor(count));
    ps_param *params[] = {n.w1, n.b1, n.w2, n.b2};
    for (size_t p = 0, at = 0; p < 4; at += (size_t)ps_shape_elements(ps_param_shape(params[p])), p++) {
        memcpy(values + at, ps_param_value(params[p]), (size_t)ps_shape_elements(ps_param_shape(params[p])) * sizeof(float));
    }
    assert_int_equal(network_fini(&n), 0);
    return loss;
}

static void test_training(void **state)
{
    (void)state;
    float wanted[44], got[44];
    const char *there = device;
    device = "cpu";
    const double loss = train(wanted);
    device = there;
    assert_true(loss > 0 && loss < 1.0); /* log 4 = 1.39 at first */
    const double loss_there = train(got);
    if (strncmp(there, "cpu", 3) == 0 || strncmp(there, "fake", 4) == 0) { /* the fake device has the CPU's operations */
        assert_true(loss_there == loss);
        assert_memory_equal(got, wanted, sizeof(got));
    }
    test_near("loss", 0, loss_there, loss, 1e-3);
    for (size_t i = 0; i < 44; i++) {
        test_near("value", (int64_t)i, got[i], wanted[i], 1e-3);
    }
}

/* A residual block with layer normalization and GELU, fitted to numbers: y = x + gelu(layer_norm(x)). The gradient of x is
 * compared with differences of the loss; sgd of gamma and beta lowers it. */
static double block_loss(ps_tensor *t, ps_param *gamma, ps_param *beta)
{
    enum { X, NORM, GELU, Y, WANT, DY, LOSS };
    assert_int_equal(ps_layer_norm(&t[X], gamma, beta, 1e-3f, &t[NORM]), PS_OK);
    assert_int_equal(ps_gelu(&t[NORM], &t[GELU]), PS_OK);
    assert_int_equal(ps_add(&t[X], &t[GELU], &t[Y]), PS_OK);
    assert_int_equal(ps_mean_squared_error(&t[Y], &t[WANT], &t[DY], &t[LOSS]), PS_OK);
    return ps_tensor_scalar(&t[LOSS]);
}

static void test_residual_block(void **state)
{
    (void)state;
    enum { TENSORS = 8, DX = 7, ROWS = 3, COLS = 5 };
    ps_session *s = session_new();
    ps_param *gamma = ps_param_get(s, "gamma", PS_SHAPE(COLS), ps_ones(), ps_sgd(2));
    ps_param *beta = ps_param_get(s, "beta", PS_SHAPE(COLS), ps_zeros(), ps_sgd(2));
    ps_tensor t[TENSORS] = {0};
    float x[ROWS * COLS], want[ROWS * COLS];
    double first = 0, last = 0;
    assert_int_equal(ps_session_ready(s), PS_OK);
    for (size_t i = 0; i < ROWS * COLS; i++) {
        x[i] = test_uniform();
        want[i] = x[i] + 0.5f;
    }
    ps_tensor_wrap(&t[4], want, ROWS, COLS);
    for (int k = 0; k < 20; k++) {
        ps_tensor_wrap(&t[0], x, ROWS, COLS);
        assert_int_equal(ps_pull(s), PS_OK);
        last = block_loss(t, gamma, beta);
        first = k == 0 ? last : first;
        assert_int_equal(ps_gelu_backward(&t[1], &t[5], &t[2]), PS_OK);
        assert_int_equal(ps_layer_norm_backward(&t[0], &t[2], gamma, beta, 1e-3f, &t[DX]), PS_OK);
        assert_int_equal(ps_add(&t[5], &t[DX], &t[DX]), PS_OK);
        if (k == 0) {
            float dx[ROWS * COLS];
            memcpy(dx, ps_tensor_read(&t[DX]), sizeof(dx));
            for (size_t i = 0; i < ROWS * COLS; i++) {
                double loss[2];
                for (size_t sign = 0; sign < 2; sign++) {
                    float moved[ROWS * COLS];
                    memcpy(moved, x, sizeof(moved));
                    moved[i] += sign == 0 ? -0.01f : 0.01f;
                    ps_tensor_wrap(&t[0], moved, ROWS, COLS);
                    loss[sign] = block_loss(t, gamma, beta);
                }
                test_near("dx", (int64_t)i, dx[i], (loss[1] - loss[0]) / 0.02, 1e-3);
            }
        }
        ps_push(s, gamma), ps_push(s, beta);
        assert_int_equal(ps_step_done(s), PS_OK);
    }
    assert_true(last < 0.5 * first);
    assert_int_equal(ps_huber_error(&t[3], &t[4], -1, NULL, &t[6]), PS_INVALID_ARGUMENT);
    assert_int_equal(t[6].status, PS_INVALID_ARGUMENT);
    assert_int_equal(ps_session_status(s), PS_OK); /* no parameter took part */
    assert_int_equal(ps_layer_norm(&t[3], gamma, NULL, 1e-3f, &t[1]), PS_INVALID_ARGUMENT);
    test_error_has("ps_layer_norm: beta is NULL");
    assert_int_equal(ps_layer_norm(&t[3], gamma, beta, 0, &t[1]), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_session_status(s), PS_INVALID_ARGUMENT); /* sticky in gamma's session */
    for (size_t i = 0; i < TENSORS; i++) {
        ps_tensor_free(&t[i]);
    }
    assert_int_not_equal(ps_session_close(s), 0);
}

static void test_tensors(void **state)
{
    (void)state;
    ps_tensor *t = ps_tensor_new(5, 7);
    assert_non_null(t);
    assert_true(t->rows == 5 && t->cols == 7 && t->rows_capacity == 5 && t->status == PS_OK && t->error[0] == '\0');
    const float *zeros = ps_tensor_read(t);
    assert_non_null(zeros);
    assert_int_equal((uintptr_t)zeros % 64, 0);
    for (size_t i = 0; i < 35; i++) {
        assert_true(zeros[i] == 0.0f);
    }
    assert_int_equal(ps_tensor_set_rows(t, 2), PS_OK);
    assert_int_equal(ps_tensor_set_rows(t, 5), PS_OK);
    assert_int_equal(ps_tensor_set_rows(t, 6), PS_OUT_OF_RANGE);
    test_error_has("6 rows, allowed is 0 to 5");
    assert_int_equal(ps_tensor_set_rows(t, -1), PS_OUT_OF_RANGE);
    assert_int_equal(ps_tensor_set_rows(NULL, 1), PS_INVALID_ARGUMENT);
    assert_int_equal(t->rows, 5);
    ps_tensor_free(t);
    ps_tensor_free(NULL);
    const int64_t bad[][2] = {{-1, 1},        {1, 0}, {-1, 4}, {INT64_MAX, 2}, {INT64_MAX / 4, 2}, {(int64_t)1 << 61, 1},
                              {INT64_MIN, -1}};
    ps_tensor on_stack = {0};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_null(ps_tensor_new(bad[i][0], bad[i][1]));
        assert_int_equal(ps_tensor_init(&on_stack, PS_F32, bad[i][0], bad[i][1]), PS_INVALID_ARGUMENT);
        ps_tensor_wrap(&on_stack, (const float *)&on_stack, bad[i][0], bad[i][1]);
        assert_int_equal(on_stack.status, PS_INVALID_ARGUMENT);
    }
    assert_int_equal(ps_tensor_init(&on_stack, PS_STRING, 1, 1), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_tensor_init(NULL, PS_F32, 1, 1), PS_INVALID_ARGUMENT);
    ps_tensor_free(&on_stack);
    ps_tensor_wrap(NULL, NULL, 3, 2);

    /* no shape yet, no values yet */
    assert_null(ps_tensor_read(&on_stack));
    assert_null(ps_tensor_write(&on_stack));
    assert_true(isnan(ps_tensor_scalar(NULL)));
    ps_tensor y = {0};
    assert_int_equal(ps_relu(&on_stack, &y), PS_INVALID_ARGUMENT);
    test_error_has("x has no values yet");
    ps_tensor_wrap(&on_stack, NULL, 3, 2);
    assert_int_equal(ps_relu(&on_stack, &y), PS_INVALID_ARGUMENT);
    test_error_has("data is NULL");
    assert_null(ps_tensor_read(&y));
    test_error_has("data is NULL");
}

/* Wrapped memory is copied by the first use, and never written. */
static void test_wrap(void **state)
{
    (void)state;
    float data[6] = {1, -2, 3, -4, 5, -6};
    const float want[6] = {1, 0, 3, 0, 5, 0};
    ps_tensor t = {0};
    ps_tensor y = {0};
    ps_tensor_wrap(&t, data, 3, 2);
    assert_int_equal(ps_relu(&t, &y), PS_OK);
    data[0] = 77.0f;
    assert_int_equal(ps_relu(&t, &t), PS_OK);
    assert_memory_equal(ps_tensor_read(&y), want, sizeof(want));
    assert_memory_equal(ps_tensor_read(&t), want, sizeof(want));
    assert_true(data[0] == 77.0f && data[1] == -2.0f);
    assert_int_equal(y.place, strcmp(device, "cpu") == 0 ? PS_ON_HOST : 1);
    /* another shape in the same tensor; the outputs of {0} follow */
    float more[8] = {1, 2, 3, 4, 5, 6, 7, -8};
    ps_tensor_wrap(&t, more, 2, 4);
    assert_int_equal(ps_relu(&t, &y), PS_OK);
    assert_true(y.rows == 2 && y.cols == 4);
    more[7] = 0.0f;
    assert_memory_equal(ps_tensor_read(&y), more, sizeof(more));
    /* what is read and then written keeps what is not written */
    float *values = ps_tensor_write(&y);
    assert_non_null(values);
    values[7] = -3.0f;
    assert_int_equal(ps_relu(&y, &y), PS_OK);
    assert_memory_equal(ps_tensor_read(&y), more, sizeof(more));
    assert_true(isnan(ps_tensor_scalar(&y)));
    test_error_has("the tensor is (2, 4)");
    ps_tensor_free(&t);
    ps_tensor_free(&y);
}

/* A tensor whose host memory is filled anew while work is under way that has to read the old values. */
static void test_memory_is_reused(void **state)
{
    (void)state;
    enum { ROUNDS = 40, N = 512 };
    ps_tensor x = {0};
    ps_tensor y[ROUNDS] = {{0}};
    assert_int_equal(ps_tensor_init(&x, PS_F32, 1, N), PS_OK);
    for (int k = 0; k < ROUNDS; k++) {
        float *values = ps_tensor_write(&x);
        assert_non_null(values);
        for (int i = 0; i < N; i++) {
            values[i] = (float)(k * N + i);
        }
        assert_int_equal(ps_relu(&x, &y[k]), PS_OK);
    }
    for (int k = 0; k < ROUNDS; k++) {
        const float *values = ps_tensor_read(&y[k]);
        assert_non_null(values);
        for (int i = 0; i < N; i++) {
            assert_true(values[i] == (float)(k * N + i));
        }
        ps_tensor_free(&y[k]);
    }
    ps_tensor_free(&x);
}

static void assert_values(ps_tensor *t, const float *want, size_t count)
{
    const float *values = ps_tensor_read(t);
    assert_non_null(values);
    for (size_t i = 0; i < count; i++) {
        test_near("value", (int64_t)i, values[i], want[i], 0);
    }
}

/* Rows that a smaller batch leaves out keep their values, wherever these are, and wrapped ones are copied by the first use too.
 */
static void test_rows_left_out(void **state)
{
    (void)state;
    enum { ROWS = 4, COLS = 32, ALL = ROWS * COLS };
    float want[ALL];
    for (size_t i = 0; i < ALL; i++) {
        want[i] = (float)(i + 1);
    }
    for (int64_t first = 0; first < ROWS; first++) {
        float data[ALL];
        ps_tensor t = {0};
        ps_tensor y = {0};
        memcpy(data, want, sizeof(data));
        ps_tensor_wrap(&t, data, ROWS, COLS);
        assert_int_equal(ps_tensor_set_rows(&t, first), PS_OK);
        assert_int_equal(ps_relu(&t, &y), PS_OK);
        memset(data, 0xff, sizeof(data)); /* the program's again */
        assert_values(&y, want, (size_t)first * COLS);
        assert_int_equal(ps_tensor_set_rows(&t, ROWS), PS_OK);
        assert_int_equal(ps_relu(&t, &y), PS_OK);
        assert_int_equal(ps_tensor_set_rows(&y, first), PS_OK);
        assert_values(&y, want, (size_t)first * COLS);
        assert_int_equal(ps_tensor_set_rows(&y, ROWS), PS_OK);
        assert_values(&y, want, ALL);
        ps_tensor_free(&t);
        ps_tensor_free(&y);
    }
    /* a tensor that becomes larger has room for all its rows from the first one on */
    ps_tensor t = {0};
    ps_tensor y = {0};
    for (int64_t rows = 1; rows <= ROWS; rows += ROWS - 1) {
        assert_int_equal(ps_tensor_init(&t, PS_F32, rows, COLS), PS_OK);
        assert_int_equal(ps_tensor_set_rows(&t, 1), PS_OK);
        float *values = ps_tensor_write(&t);
        assert_non_null(values);
        memcpy(values, want, COLS * sizeof(float));
        assert_int_equal(ps_relu(&t, &y), PS_OK);
    }
    assert_int_equal(ps_tensor_set_rows(&t, ROWS), PS_OK);
    assert_int_equal(ps_relu(&t, &y), PS_OK);
    assert_values(&y, want, COLS);
    ps_tensor_free(&t);
    ps_tensor_free(&y);
}

/* A smaller last batch uses the first rows only; an empty one is a batch too. */
static void test_fewer_rows(void **state)
{
    (void)state;
    struct network n;
    network_init(&n);
    assert_int_equal(ps_dense(&n.x, n.w1, n.b1, &n.h), PS_OK);
    float whole[30];
    memcpy(whole, ps_tensor_read(&n.h), sizeof(whole));
    ps_tensor *y = ps_tensor_new(6, 5);
    for (int64_t rows = 0; rows <= 6; rows += 2) {
        assert_int_equal(ps_tensor_set_rows(&n.x, rows), PS_OK);
        assert_int_equal(ps_tensor_set_rows(y, rows), PS_OK);
        assert_int_equal(ps_dense(&n.x, n.w1, n.b1, y), PS_OK);
        const float *values = ps_tensor_read(y);
        assert_non_null(values);
        for (int64_t i = 0; i < rows * 5; i++) {
            test_near("y", i, values[i], whole[i], 1e-6);
        }
    }
    assert_int_equal(ps_tensor_set_rows(&n.labels, 0), PS_OK);
    assert_int_equal(ps_tensor_set_rows(&n.x, 0), PS_OK);
    assert_int_equal(ps_dense_act(&n.x, n.w1, n.b1, PS_TANH, &n.h), PS_OK);
    assert_int_equal(ps_dropout(&n.h, 1, 0.5f, 1, &n.h), PS_OK);
    assert_int_equal(ps_relu(&n.h, &n.h), PS_OK);
    assert_int_equal(ps_dense(&n.h, n.w2, n.b2, &n.logits), PS_OK);
    assert_int_equal(ps_softmax_xent(&n.logits, &n.labels, &n.dlogits, &n.loss), PS_OK);
    assert_int_equal(ps_argmax_count(&n.logits, &n.labels, &n.count), PS_OK);
    assert_int_equal(ps_dense_act_backward(&n.h, PS_TANH, &n.dlogits, n.w2, n.b2, &n.dh), PS_OK);
    assert_int_equal(ps_relu_backward(&n.h, &n.dh, &n.dh), PS_OK);
    assert_int_equal(ps_dense_backward(&n.x, &n.dh, n.w1, n.b1, &n.dx), PS_OK);
    assert_true(ps_tensor_scalar(&n.loss) == 0.0 && ps_tensor_scalar(&n.count) == 0.0);
    assert_non_null(ps_tensor_read(&n.dx));
    const float *dw1 = ps_param_grad(n.w1);
    for (size_t i = 0; i < 15; i++) {
        assert_true(dw1[i] == 0.0f);
    }
    assert_int_equal(ps_session_status(n.session), PS_OK);
    assert_int_equal(ps_tensor_set_rows(y, 2), PS_OK); /* an output of a shape of its own that does not follow is a conflict */
    assert_int_equal(ps_tensor_set_rows(&n.x, 6), PS_OK);
    assert_int_equal(ps_dense(&n.x, n.w1, n.b1, y), PS_INVALID_ARGUMENT);
    test_error_has("y is (2, 5), but x is (6, 3) and w 'w1' is (3, 5): y must be (6, 5)");
    ps_tensor_free(y);
    assert_int_equal(network_fini(&n), PS_INVALID_ARGUMENT);
}

static void test_shape_conflicts(void **state)
{
    (void)state;
    enum { X, H, W1, W2, B1, B2, NONE };
    const struct {
        int x, w, b;
        bool y_given;
        const char *says[2];
    } cases[] = {
        {H, W1, B1, true, {"x is (6, 5)", "w 'w1' is (3, 5)"}},    {X, B1, B1, true, {"w 'b1' is (5,)", "x is (6, 3)"}},
        {X, W1, B2, true, {"w 'w1' is (3, 5)", "b 'b2' is (4,)"}}, {X, W1, W2, true, {"w 'w1' is (3, 5)", "b 'w2' is (5, 4)"}},
        {NONE, W1, B1, true, {"ps_dense", "x is NULL"}},           {X, W1, B1, false, {"ps_dense", "y is NULL"}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct network n;
        network_init(&n);
        assert_int_equal(ps_dense(&n.x, n.w1, n.b1, &n.h), PS_OK);
        ps_param *params[] = {[W1] = n.w1, [W2] = n.w2, [B1] = n.b1, [B2] = n.b2};
        ps_tensor *tensors[] = {[X] = &n.x, [H] = &n.h, [NONE] = NULL};
        ps_tensor *y = cases[i].y_given ? &n.logits : NULL;
        assert_int_equal(ps_dense(tensors[cases[i].x], params[cases[i].w], params[cases[i].b], y), PS_INVALID_ARGUMENT);
        for (size_t k = 0; k < 2; k++) {
            test_error_has(cases[i].says[k]);
            assert_non_null(strstr(ps_session_error(n.session), cases[i].says[k])); /* sticky in the session */
            assert_true(y == NULL || strstr(y->error, cases[i].says[k]) != NULL);
        }
        assert_int_equal(network_fini(&n), PS_INVALID_ARGUMENT);
    }
    struct network n;
    network_init(&n);
    assert_int_equal(ps_dense(&n.x, n.w1, n.b1, &n.h), PS_OK);
    ps_tensor *wide = ps_tensor_new(6, 4);
    assert_int_equal(ps_tanh(&n.x, wide), PS_INVALID_ARGUMENT);
    test_error_has("y is (6, 4), but x is (6, 3): y must be (6, 3)");
    assert_int_equal(wide->status, PS_INVALID_ARGUMENT);
    assert_int_equal(ps_session_status(n.session), PS_OK);
    assert_int_equal(ps_dense_backward(&n.x, &n.h, n.w1, n.b1, &n.x), PS_INVALID_ARGUMENT);
    test_error_has("dx overlaps x");
    assert_int_equal(ps_dense(&n.x, NULL, NULL, &n.h), PS_INVALID_ARGUMENT);
    test_error_has("w is NULL");
    ps_tensor_free(wide);
    assert_int_equal(network_fini(&n), PS_INVALID_ARGUMENT);
    network_init(&n);
    assert_int_equal(ps_dense(&n.x, n.w1, n.b1, &n.h), PS_OK);
    wide = ps_tensor_new(6, 4);
    assert_int_equal(ps_dense_backward(&n.x, &n.h, n.w1, n.b1, wide), PS_INVALID_ARGUMENT);
    test_error_has("dx is (6, 4), but dy is (6, 5) and w 'w1' is (3, 5): dx must be (6, 3)");
    ps_tensor_free(wide);
    assert_int_equal(network_fini(&n), PS_INVALID_ARGUMENT);
}

/* An output that is an input of the same call, where it needs more memory than that has, or less. */
static void test_output_is_input(void **state)
{
    (void)state;
    struct network n;
    ps_tensor x = {0};
    network_init(&n);
    assert_int_equal(ps_relu(&n.x, &x), PS_OK); /* its shape is not given, so it may change */
    assert_int_equal(ps_dense(&x, n.w1, n.b1, &x), PS_INVALID_ARGUMENT);
    test_error_has("y overlaps x");
    assert_int_equal(network_fini(&n), PS_INVALID_ARGUMENT);
    ps_tensor_free(&x);
    network_init(&n);
    assert_int_equal(ps_dense(&n.x, n.w1, n.b1, &n.h), PS_OK);
    assert_int_equal(ps_dense(&n.h, n.w2, n.b2, &n.h), PS_INVALID_ARGUMENT);
    test_error_has("y overlaps x");
    assert_int_equal(network_fini(&n), PS_INVALID_ARGUMENT);
    network_init(&n);
    assert_int_equal(ps_dense(&n.x, n.w2, n.b2, &n.h), PS_INVALID_ARGUMENT);
    assert_int_equal(network_fini(&n), PS_INVALID_ARGUMENT);
    network_init(&n);
    assert_int_equal(ps_dense(&n.x, n.w1, NULL, &n.h), PS_OK);
    assert_int_equal(ps_dense(&n.h, n.w2, NULL, &n.logits), PS_OK);
    assert_int_equal(ps_softmax_xent(&n.logits, &n.labels, &n.logits, &n.logits), PS_INVALID_ARGUMENT);
    test_error_has("overlaps");
    assert_int_equal(network_fini(&n), 0);
}

/* An error where there is no parameter reaches the session through the tensors; a later good call clears the tensor. */
static void test_error_travels(void **state)
{
    (void)state;
    struct network n;
    const int32_t bad[] = {0, 1, 2, 3, 4, 0};
    network_init(&n);
    assert_int_equal(ps_dense(&n.x, n.w1, NULL, &n.h), PS_OK);
    assert_int_equal(ps_dense(&n.h, n.w2, NULL, &n.logits), PS_OK);
    ps_tensor_wrap_labels(&n.labels, bad, 6);
    assert_int_equal(ps_softmax_xent(&n.logits, &n.labels, &n.dlogits, &n.loss), PS_INVALID_ARGUMENT);
    assert_true(isnan(ps_tensor_scalar(&n.loss)));
    test_error_has("label 4 of row 4 is not a class, allowed is 0 to 3");
    assert_int_equal(n.dlogits.status, PS_INVALID_ARGUMENT);
    assert_int_equal(ps_session_status(n.session), PS_OK);
    assert_int_equal(ps_dense_backward(&n.h, &n.dlogits, n.w2, NULL, &n.dh), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_session_status(n.session), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_session_error(n.session), "label 4 of row 4"));
    assert_non_null(strstr(n.dh.error, "label 4 of row 4"));
    assert_int_equal(ps_relu_backward(&n.h, &n.dh, &n.dh), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(n.dh.error, "label 4 of row 4"));
    ((float *)ps_param_grad(n.w2))[19] = 1; /* harmless */

    /* the session has failed: nothing is computed */
    assert_int_equal(ps_dense(&n.h, n.w2, NULL, &n.logits), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_argmax_count(&n.logits, &n.labels, &n.count), PS_INVALID_ARGUMENT);
    assert_true(isnan(ps_tensor_scalar(&n.count)));

    struct network second; /* another session: the tensors of the first one are good again */
    network_init(&second);
    assert_int_equal(ps_dense(&second.x, second.w1, NULL, &n.h), PS_OK);
    assert_true(n.h.status == PS_OK && n.h.error[0] == '\0');
    assert_int_equal(ps_dense(&n.h, second.w2, NULL, &n.logits), PS_OK);
    ps_tensor_wrap_labels(&n.labels, second.label_values, 6);
    assert_int_equal(ps_softmax_xent(&n.logits, &n.labels, &n.dlogits, &n.loss), PS_OK);
    assert_true(ps_tensor_scalar(&n.loss) > 0);
    assert_int_equal(network_fini(&second), 0);
    assert_int_equal(network_fini(&n), PS_INVALID_ARGUMENT);
}

/* The session of b has failed when ps_dense_backward asks for its gradient buffer. */
static void test_session_failure(void **state)
{
    (void)state;
    struct network n;
    struct network other;
    network_init(&n);
    network_init(&other);
    assert_int_equal(ps_dense(&n.x, n.w1, n.b1, &n.h), PS_OK);
    assert_int_equal(ps_session_fail(other.session, PS_UNAVAILABLE, "/job:ps/task:1 is down"), PS_UNAVAILABLE);
    assert_int_equal(ps_dense_backward(&n.x, &n.h, n.w1, other.b1, &n.dx), PS_UNAVAILABLE);
    assert_string_equal(ps_nn_error(), "/job:ps/task:1 is down");
    assert_int_equal(n.dx.status, PS_UNAVAILABLE);
    assert_string_equal(ps_session_error(n.session), "/job:ps/task:1 is down");
    assert_int_equal(network_fini(&n), PS_UNAVAILABLE);
    assert_int_equal(network_fini(&other), PS_UNAVAILABLE);
}

static int on_device(void **state)
{
    (void)state;
    device = test_device;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_network_gradients, on_device), cmocka_unit_test_setup(test_fused, on_device),
        cmocka_unit_test_setup(test_training, on_device),          cmocka_unit_test_setup(test_residual_block, on_device),
        cmocka_unit_test_setup(test_tensors, on_device),           cmocka_unit_test_setup(test_wrap, on_device),
        cmocka_unit_test_setup(test_memory_is_reused, on_device),  cmocka_unit_test_setup(test_fewer_rows, on_device),
        cmocka_unit_test_setup(test_rows_left_out, on_device),     cmocka_unit_test_setup(test_shape_conflicts, on_device),
        cmocka_unit_test_setup(test_output_is_input, on_device),   cmocka_unit_test_setup(test_error_travels, on_device),
        cmocka_unit_test_setup(test_session_failure, on_device),
    };
    test_servers_start(&servers, "ps=1");
    const int failed = test_on_devices(tests, sizeof(tests) / sizeof(tests[0]));
    test_servers_stop(&servers);
    return failed;
}
