/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker/nn/tensor.c: tensors, the parameter level and how errors travel. Sessions and parameters are small fakes of the
 * functions of ps.h that it calls; like the real ones a session keeps its first error.
 */
#include "nn_test.h"

#include "worker/ps.h"

struct ps_session {
    ps_status status;
    char text[512];
};

struct ps_param {
    struct ps_session *session;
    const char *name;
    ps_shape shape;
    float value[64];
    float grad[64];
    int grad_calls; /* ps_param_grad() so far */
};

ps_session *ps_param_session(ps_param *p)
{
    return p->session;
}

ps_status ps_session_status(ps_session *s)
{
    return s->status;
}

const char *ps_session_error(ps_session *s)
{
    return s->text;
}

void *ps_param_value(ps_param *p)
{
    return p->value;
}

void *ps_param_grad(ps_param *p)
{
    p->grad_calls++;
    return p->session->status == PS_OK ? p->grad : NULL;
}

const ps_shape *ps_param_shape(const ps_param *p)
{
    return &p->shape;
}

const char *ps_param_name(const ps_param *p)
{
    return p->name;
}

ps_status ps_param_fail(ps_param *p, ps_status st, const char *text)
{
    if (p->session->status == PS_OK) {
        p->session->status = st;
        snprintf(p->session->text, sizeof(p->session->text), "%s", text);
    }
    return p->session->status;
}

static void param_init(struct ps_param *p, struct ps_session *s, const char *name, int64_t rows, int64_t cols)
{
    memset(p, 0, sizeof(*p));
    p->session = s;
    p->name = name;
    p->shape.rank = cols > 0 ? 2 : 1;
    p->shape.dims[0] = rows;
    p->shape.dims[1] = cols > 0 ? cols : 0;
    for (size_t i = 0; i < 64; i++) {
        p->value[i] = test_uniform();
        p->grad[i] = NAN; /* must be replaced, not added to */
    }
}

/* A network 3 - 5 - 4 with every kind of layer, dropout off and on. */
struct network {
    struct ps_session session;
    struct ps_param w1, b1, w2, b2;
    ps_tensor *x, *h, *dh, *logits, *dlogits, *dx;
    int32_t labels[6];
};

static void network_init(struct network *n)
{
    memset(&n->session, 0, sizeof(n->session));
    param_init(&n->w1, &n->session, "w1", 3, 5);
    param_init(&n->b1, &n->session, "b1", 5, 0);
    param_init(&n->w2, &n->session, "w2", 5, 4);
    param_init(&n->b2, &n->session, "b2", 4, 0);
    n->x = ps_tensor_new(6, 3);
    n->dx = ps_tensor_new(6, 3);
    n->h = ps_tensor_new(6, 5);
    n->dh = ps_tensor_new(6, 5);
    n->logits = ps_tensor_new(6, 4);
    n->dlogits = ps_tensor_new(6, 4);
    assert_true(n->x && n->dx && n->h && n->dh && n->logits && n->dlogits);
    for (size_t i = 0; i < 18; i++) {
        n->x->data[i] = test_uniform();
    }
    for (size_t i = 0; i < 6; i++) {
        n->labels[i] = (int32_t)(i % 4);
    }
}

static void network_fini(struct network *n)
{
    ps_tensor *tensors[] = {n->x, n->dx, n->h, n->dh, n->logits, n->dlogits};
    for (size_t i = 0; i < 6; i++) {
        ps_tensor_free(tensors[i]);
    }
}

typedef ps_status (*tensor_forward)(const ps_tensor *x, ps_tensor *y);
typedef ps_status (*tensor_backward)(const ps_tensor *y, const ps_tensor *dy, ps_tensor *dx);

static double network_forward(struct network *n, tensor_forward activation)
{
    assert_int_equal(ps_dense(n->x, &n->w1, &n->b1, n->h), PS_OK);
    assert_int_equal(ps_dropout(n->h, 5, 0.8f, 3, n->h), PS_OK);
    assert_int_equal(activation(n->h, n->h), PS_OK);
    assert_int_equal(ps_dense(n->h, &n->w2, &n->b2, n->logits), PS_OK);
    return ps_softmax_xent(n->logits, n->labels, n->dlogits);
}

static void check_values(struct network *n, tensor_forward activation, const char *name, float *values, const float *gradient,
                         int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        const float saved = values[i];
        const float high = saved + 0.01f;
        const float low = saved - 0.01f;
        values[i] = high;
        const double plus = network_forward(n, activation);
        values[i] = low;
        const double minus = network_forward(n, activation);
        values[i] = saved;
        /* the loss is float32 inside: 1e-7 / 0.01, and the second-order term of the wide step */
        test_near(name, i, gradient[i], (plus - minus) / ((double)high - (double)low), 1e-4);
    }
}

static void test_network_gradients(void **state)
{
    (void)state;
    const tensor_forward forwards[] = {ps_tanh, ps_sigmoid};
    const tensor_backward backwards[] = {ps_tanh_backward, ps_sigmoid_backward};
    for (size_t k = 0; k < 2; k++) {
        struct network n;
        network_init(&n);
        network_forward(&n, forwards[k]);
        assert_int_equal(ps_dense_backward(n.h, n.dlogits, &n.w2, &n.b2, n.dh), PS_OK);
        assert_int_equal(backwards[k](n.h, n.dh, n.dh), PS_OK);
        assert_int_equal(ps_dropout_backward(n.dh, 5, 0.8f, 3, n.dh), PS_OK);
        assert_int_equal(ps_dense_backward(n.x, n.dh, &n.w1, &n.b1, n.dx), PS_OK);
        check_values(&n, forwards[k], "w1", n.w1.value, n.w1.grad, 15);
        check_values(&n, forwards[k], "b1", n.b1.value, n.b1.grad, 5);
        check_values(&n, forwards[k], "w2", n.w2.value, n.w2.grad, 20);
        check_values(&n, forwards[k], "b2", n.b2.value, n.b2.grad, 4);
        check_values(&n, forwards[k], "x", n.x->data, n.dx->data, 18);
        assert_true(isnan(n.w1.grad[15]) && isnan(n.b1.grad[5])); /* nothing behind the gradient was written */
        assert_int_equal(n.session.status, PS_OK);
        network_fini(&n);
    }
}

/* The loop that programs write, with relu and no bias in the second layer: the loss falls. */
static void test_training(void **state)
{
    (void)state;
    struct network n;
    network_init(&n);
    for (size_t i = 0; i < 5; i++) {
        n.b1.value[i] = 1.0f; /* no relu is dead at the start */
    }
    double first = 0.0;
    double last = 0.0;
    for (int step = 0; step < 2000; step++) {
        ps_dense(n.x, &n.w1, &n.b1, n.h);
        ps_relu(n.h, n.h);
        ps_dense(n.h, &n.w2, NULL, n.logits);
        last = ps_softmax_xent(n.logits, n.labels, n.dlogits);
        first = step == 0 ? last : first;
        ps_dense_backward(n.h, n.dlogits, &n.w2, NULL, n.dh);
        ps_relu_backward(n.h, n.dh, n.dh);
        ps_dense_backward(n.x, n.dh, &n.w1, &n.b1, NULL);
        struct ps_param *params[] = {&n.w1, &n.b1, &n.w2};
        const size_t counts[] = {15, 5, 20};
        for (size_t k = 0; k < 3; k++) {
            for (size_t i = 0; i < counts[k]; i++) {
                params[k]->value[i] -= 0.3f * params[k]->grad[i];
            }
        }
    }
    assert_int_equal(n.session.status, PS_OK);
    assert_true(first > 1.0 && last < 0.05);
    assert_int_equal(n.b2.grad_calls, 0);
    assert_true(ps_argmax_count(n.logits, n.labels) == 6);
    network_fini(&n);
}

static void test_tensors(void **state)
{
    (void)state;
    ps_tensor *t = ps_tensor_new(5, 7);
    assert_non_null(t);
    assert_int_equal((uintptr_t)t->data % 64, 0);
    assert_true(t->rows == 5 && t->cols == 7 && t->rows_capacity == 5 && t->status == PS_OK && t->error[0] == '\0');
    for (size_t i = 0; i < 35; i++) {
        assert_true(t->data[i] == 0.0f);
    }
    assert_int_equal(ps_tensor_set_rows(t, 2), PS_OK);
    assert_int_equal(ps_tensor_set_rows(t, 5), PS_OK);
    assert_int_equal(ps_tensor_set_rows(t, 6), PS_OUT_OF_RANGE);
    test_error_has("6 rows, allowed is 1 to 5");
    assert_int_equal(ps_tensor_set_rows(t, 0), PS_OUT_OF_RANGE);
    assert_int_equal(ps_tensor_set_rows(NULL, 1), PS_INVALID_ARGUMENT);
    assert_int_equal(t->rows, 5);
    ps_tensor_free(t);
    ps_tensor_free(NULL);
    const int64_t bad[][2] = {{0, 1},         {1, 0}, {-1, 4}, {INT64_MAX, 2}, {INT64_MAX / 4, 2}, {(int64_t)1 << 61, 1},
                              {INT64_MIN, -1}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_null(ps_tensor_new(bad[i][0], bad[i][1]));
    }
    float data[6] = {1, -2, 3, -4, 5, -6};
    ps_tensor wrapped;
    ps_tensor_wrap(&wrapped, data, 3, 2);
    assert_int_equal(ps_relu(&wrapped, &wrapped), PS_OK);
    assert_true(data[0] == 1.0f && data[1] == 0.0f && data[4] == 5.0f && data[5] == 0.0f);
    ps_tensor_free(&wrapped); /* not ours: nothing happens */
    assert_true(data[0] == 1.0f);
    ps_tensor_wrap(NULL, data, 3, 2);
}

/* A smaller last batch uses the first rows only. */
static void test_fewer_rows(void **state)
{
    (void)state;
    struct network n;
    network_init(&n);
    assert_int_equal(ps_dense(n.x, &n.w1, &n.b1, n.h), PS_OK);
    float whole[10];
    memcpy(whole, n.h->data, sizeof(whole));
    memset(n.h->data, 0, sizeof(whole));
    n.h->data[2 * 5] = 77.0f;
    assert_int_equal(ps_tensor_set_rows(n.x, 2), PS_OK);
    assert_int_equal(ps_tensor_set_rows(n.h, 2), PS_OK);
    assert_int_equal(ps_dense(n.x, &n.w1, &n.b1, n.h), PS_OK);
    for (int64_t i = 0; i < 10; i++) {
        test_near("y", i, n.h->data[i], whole[i], 1e-6);
    }
    assert_true(n.h->data[2 * 5] == 77.0f);
    assert_int_equal(ps_tensor_set_rows(n.x, 6), PS_OK); /* an output that does not follow is a conflict */
    assert_int_equal(ps_dense(n.x, &n.w1, &n.b1, n.h), PS_INVALID_ARGUMENT);
    test_error_has("y is (2, 5): it must be (6, 5)");
    network_fini(&n);
}

static void test_shape_conflicts(void **state)
{
    (void)state;
    struct network n;
    network_init(&n);
    const struct {
        const ps_tensor *x;
        struct ps_param *w, *b;
        ps_tensor *y;
        const char *says[2];
    } cases[] = {
        {n.h, &n.w1, &n.b1, n.h, {"x is (6, 5)", "w 'w1' is (3, 5)"}},
        {n.x, &n.b1, &n.b1, n.h, {"x is (6, 3)", "w 'b1' is (5,)"}},
        {n.x, &n.w1, &n.b2, n.h, {"w 'w1' is (3, 5)", "b 'b2' is (4,)"}},
        {n.x, &n.w1, &n.w2, n.h, {"w 'w1' is (3, 5)", "b 'w2' is (5, 4)"}},
        {n.x, &n.w1, &n.b1, n.logits, {"w 'w1' is (3, 5)", "y is (6, 4)"}},
        {NULL, &n.w1, &n.b1, n.h, {"ps_dense", "x is NULL"}},
        {n.x, &n.w1, &n.b1, NULL, {"ps_dense", "y is NULL"}},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        memset(&n.session, 0, sizeof(n.session));
        assert_int_equal(ps_dense(cases[i].x, cases[i].w, cases[i].b, cases[i].y), PS_INVALID_ARGUMENT);
        for (size_t k = 0; k < 2; k++) {
            test_error_has(cases[i].says[k]);
            assert_non_null(strstr(n.session.text, cases[i].says[k])); /* sticky in the session */
            assert_true(cases[i].y == NULL || strstr(cases[i].y->error, cases[i].says[k]) != NULL);
        }
        assert_int_equal(n.session.status, PS_INVALID_ARGUMENT);
    }
    memset(&n.session, 0, sizeof(n.session));
    ps_tensor_wrap(n.h, n.h->data, 6, 5); /* a fresh status */
    assert_int_equal(ps_dense_backward(n.x, n.h, &n.w1, &n.b1, n.logits), PS_INVALID_ARGUMENT);
    test_error_has("x is (6, 3) but dx is (6, 4)");
    assert_int_equal(n.w1.grad_calls, 0);
    memset(&n.session, 0, sizeof(n.session));
    ps_tensor alias;
    ps_tensor_wrap(&alias, n.x->data, 6, 3);
    assert_int_equal(ps_dense_backward(n.x, n.h, &n.w1, &n.b1, &alias), PS_INVALID_ARGUMENT);
    test_error_has("dx overlaps x");
    assert_int_equal(ps_dense(n.x, NULL, NULL, n.h), PS_INVALID_ARGUMENT);
    test_error_has("w is NULL");
    assert_int_equal(ps_tanh(n.x, n.dlogits), PS_INVALID_ARGUMENT);
    test_error_has("x is (6, 3) but y is (6, 4)");
    assert_int_equal(n.dlogits->status, PS_INVALID_ARGUMENT);
    free(n.h->data); /* it was wrapped, so ps_tensor_free leaves it alone; the tensor itself is ours again */
    n.h->data = NULL;
    n.h->owned = 1;
    network_fini(&n);
}

/* An error where there is no parameter reaches the session through the tensors; a later good call clears the tensor. */
static void test_error_travels(void **state)
{
    (void)state;
    struct network n;
    network_init(&n);
    const int32_t bad[] = {0, 1, 2, 3, 4, 0};
    assert_int_equal(ps_dense(n.x, &n.w1, NULL, n.h), PS_OK);
    assert_int_equal(ps_dense(n.h, &n.w2, NULL, n.logits), PS_OK);
    const double value = ps_softmax_xent(n.logits, bad, n.dlogits);
    assert_true(isnan(value));
    assert_int_equal(n.dlogits->status, PS_INVALID_ARGUMENT);
    assert_int_equal(n.session.status, PS_OK);
    assert_int_equal(ps_dense_backward(n.h, n.dlogits, &n.w2, NULL, n.dh), PS_INVALID_ARGUMENT);
    assert_int_equal(n.w2.grad_calls, 0);
    assert_true(isnan(n.w2.grad[0]));
    assert_int_equal(n.session.status, PS_INVALID_ARGUMENT);
    assert_non_null(strstr(n.session.text, "label 4 of row 4"));
    assert_non_null(strstr(n.dh->error, "label 4 of row 4"));
    assert_int_equal(ps_relu_backward(n.h, n.dh, n.dh), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(n.dh->error, "label 4 of row 4"));

    /* the session has failed: nothing is computed, and the loss of what was not computed is 0 */
    n.logits->data[0] = 55.0f;
    assert_int_equal(ps_dense(n.x, &n.w1, NULL, n.h), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_dense(n.h, &n.w2, NULL, n.logits), PS_INVALID_ARGUMENT);
    assert_true(n.logits->data[0] == 55.0f);
    assert_true(ps_softmax_xent(n.logits, n.labels, n.dlogits) == 0.0);
    assert_int_equal(ps_argmax_count(n.logits, n.labels), -1);

    memset(&n.session, 0, sizeof(n.session));
    assert_int_equal(ps_dense(n.x, &n.w1, NULL, n.h), PS_OK);
    assert_true(n.h->status == PS_OK && n.h->error[0] == '\0');
    network_fini(&n);
}

/* The session fails while ps_dense_backward waits for a gradient buffer. */
static void test_session_failure(void **state)
{
    (void)state;
    struct network n;
    network_init(&n);
    struct ps_session other = {PS_OK, ""};
    assert_int_equal(ps_dense(n.x, &n.w1, &n.b1, n.h), PS_OK);
    n.b1.session = &other; /* ps_dense_backward looks at w's session first and then meets this one */
    other.status = PS_UNAVAILABLE;
    snprintf(other.text, sizeof(other.text), "/job:ps/task:1 is down");
    assert_int_equal(ps_dense_backward(n.x, n.h, &n.w1, &n.b1, n.dx), PS_UNAVAILABLE);
    assert_int_equal(n.w1.grad_calls, 1);
    assert_true(isnan(n.w1.grad[0]));
    assert_string_equal(ps_nn_error(), "/job:ps/task:1 is down");
    assert_int_equal(n.dx->status, PS_UNAVAILABLE);
    assert_string_equal(n.session.text, "/job:ps/task:1 is down");
    network_fini(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_network_gradients), cmocka_unit_test(test_training),        cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_fewer_rows),        cmocka_unit_test(test_shape_conflicts), cmocka_unit_test(test_error_travels),
        cmocka_unit_test(test_session_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
