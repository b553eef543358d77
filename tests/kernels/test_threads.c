/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker/nn/kernels/cpu/threads.c through worker/nn/nn.c: operations that are large enough to be cut into parts give what one
 * thread gives, and the same bits every time, with any number of threads and with several programs' threads at the same time.
 */
#include "nn_test.h"

#include "worker/nn/kernels/device.h"

#include <pthread.h>

enum { B = 96, I = 130, O = 257, COUNT = 300000, CALLERS = 3, TURNS = 30 };

struct results {
    float y[B * O], dx[B * I], dw[I * O], db[O];
    float act[COUNT], back[COUNT], drop[COUNT], sgd[COUNT];
};

static float *x, *w, *bias, *dy, *values, *slopes; /* inputs */

static void set_threads(uint32_t threads)
{
    struct psk_place *place = NULL;
    struct psi_err err = {0};
    assert_int_equal(psk_place_open("cpu", threads, &place, &err), PS_OK);
    psk_place_close(place);
}

static bool compute(struct results *r)
{
    memset(r, 0xff, sizeof(*r)); /* NaN */
    memcpy(r->sgd, values, sizeof(r->sgd));
    return ps_nn_dense_forward(x, w, bias, r->y, B, I, O) == PS_OK &&
           ps_nn_dense_backward(x, w, dy, r->dw, r->db, r->dx, B, I, O) == PS_OK &&
           ps_nn_tanh_forward(values, r->act, COUNT) == PS_OK && ps_nn_tanh_backward(values, slopes, r->back, COUNT) == PS_OK &&
           ps_nn_dropout(values, r->drop, COUNT, 3, 0.5f, 4) == PS_OK && ps_nn_sgd(r->sgd, slopes, COUNT, 0.25f) == PS_OK;
}

static int setup(void **state)
{
    (void)state;
    x = test_floats(B * I);
    w = test_floats(I * O);
    bias = test_floats(O);
    dy = test_floats(B * O);
    values = test_floats(COUNT);
    slopes = test_floats(COUNT);
    return ps_nn_open("cpu") == PS_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    set_threads(1);
    test_floats_free(x, B * I);
    test_floats_free(w, I * O);
    test_floats_free(bias, O);
    test_floats_free(dy, B * O);
    test_floats_free(values, COUNT);
    test_floats_free(slopes, COUNT);
    return 0;
}

static struct results *results_new(void)
{
    struct results *r = malloc(sizeof(*r));
    assert_non_null(r);
    return r;
}

static void near_all(const char *what, const float *got, const float *want, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        test_near(what, i, got[i], want[i], 1e-5);
    }
}

/* More threads and fewer again: the parts of products may round differently, all else is the same. */
static void test_as_one_thread(void **state)
{
    (void)state;
    static const uint32_t threads[] = {2, 5, 3, 1, 2};
    struct results *one = results_new();
    struct results *got = results_new();
    struct results *again = results_new();
    set_threads(1);
    assert_true(compute(one));
    for (int64_t i = 0; i < COUNT; i++) {
        assert_true(one->sgd[i] == values[i] - 0.25f * slopes[i]);
    }
    for (size_t t = 0; t < sizeof(threads) / sizeof(threads[0]); t++) {
        set_threads(threads[t]);
        assert_true(compute(got));
        near_all("y", got->y, one->y, B * O);
        near_all("dx", got->dx, one->dx, B * I);
        near_all("dw", got->dw, one->dw, I * O);
        assert_memory_equal(got->db, one->db, sizeof(one->db));
        assert_memory_equal(got->act, one->act, sizeof(*one) - offsetof(struct results, act));
        for (int i = 0; i < TURNS; i++) {
            assert_true(compute(again));
            assert_memory_equal(again, got, sizeof(*got));
        }
    }
    free(one);
    free(got);
    free(again);
}

struct caller {
    pthread_t thread;
    const struct results *want;
    bool right;
};

static void *call_again(void *arg)
{
    struct caller *c = arg;
    struct results *got = malloc(sizeof(*got));
    c->right = got != NULL;
    for (int i = 0; i < TURNS && c->right; i++) {
        c->right = compute(got) && memcmp(got, c->want, sizeof(*got)) == 0;
    }
    free(got);
    return NULL;
}

static void test_callers(void **state)
{
    (void)state;
    struct results *want = results_new();
    struct caller callers[CALLERS];
    set_threads(3);
    assert_true(compute(want));
    for (size_t i = 0; i < CALLERS; i++) {
        callers[i].want = want;
        assert_int_equal(pthread_create(&callers[i].thread, NULL, call_again, &callers[i]), 0);
    }
    for (size_t i = 0; i < CALLERS; i++) {
        assert_int_equal(pthread_join(callers[i].thread, NULL), 0);
        assert_true(callers[i].right);
    }
    free(want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_one_thread),
        cmocka_unit_test(test_callers),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
