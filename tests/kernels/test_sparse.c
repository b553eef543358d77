/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products of compressed sparse rows: those of the dense rows with the same values, bit for bit where every sum is exact (small
 * whole numbers) and within a bound otherwise; the same bits for any number of threads; rows that are not as ps_csr says are
 * refused by their number; a session's device with memory of its own refuses them all.
 */
#include "nn_test.h"

#include "servers.h"
#include "worker/nn/kernels/block.h"
#include "worker/ps.h"

#define NMSE_MAX 1e-11 /* of the rows sparse and sparse_dw of the table */

static struct test_servers servers;

struct example {
    ps_csr x;
    int64_t out;
    int32_t *ends, *columns;
    float *values, *dense, *w, *b, *dy;
};

static float value_of(int whole)
{
    return whole != 0 ? (float)((int)(test_random() % 17) - 8) : test_uniform();
}

static float *values_new(int64_t count, int whole)
{
    float *p = test_floats(count);
    for (int64_t i = 0; i < count; i++) {
        p[i] = value_of(whole);
    }
    return p;
}

/* One of `one_in` values is stored; every third row has none, the first and the last column of some row are. */
static void example_init(struct example *e, int64_t rows, int64_t cols, int64_t out, int whole, uint32_t one_in)
{
    *e = (struct example){.out = out, .x = {.rows = rows, .cols = cols}};
    e->ends = calloc((size_t)rows + 1, sizeof(*e->ends));
    e->columns = calloc((size_t)(rows * cols) + 1, sizeof(*e->columns));
    e->values = calloc((size_t)(rows * cols) + 1, sizeof(*e->values));
    e->dense = calloc((size_t)(rows * cols) + 1, sizeof(*e->dense));
    assert_true(e->ends != NULL && e->columns != NULL && e->values != NULL && e->dense != NULL);
    int32_t count = 0;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t c = 0; c < cols; c++) {
            const bool edge = i % 3 == 1 && (c == 0 || c == cols - 1);
            if (i % 3 != 2 && (edge || test_random() % one_in == 0)) {
                e->columns[count] = (int32_t)c;
                e->values[count] = value_of(whole);
                e->dense[i * cols + c] = e->values[count++];
            }
        }
        e->ends[i] = count;
    }
    e->x.ends = e->ends;
    e->x.columns = e->columns;
    e->x.values = e->values;
    e->w = values_new(cols * out, whole);
    e->b = values_new(out, whole);
    e->dy = values_new(rows * out, whole);
}

static void example_fini(struct example *e)
{
    test_floats_free(e->w, e->x.cols * e->out);
    test_floats_free(e->b, e->out);
    test_floats_free(e->dy, e->x.rows * e->out);
    free(e->ends);
    free(e->columns);
    free(e->values);
    free(e->dense);
}

/* -0 and 0 are one value: a dense sum meets zeros that a sparse one does not. */
static void equal(const char *what, const float *got, const float *want, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (got[i] != want[i]) {
            fail_msg("%s[%lld] is %.9g, must be %.9g", what, (long long)i, (double)got[i], (double)want[i]);
        }
    }
}

static void close_to(const char *what, const float *got, const double *want, int64_t count)
{
    double error = 0, exact = 0;
    for (int64_t i = 0; i < count; i++) {
        error += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
        exact += want[i] * want[i];
    }
    if (!(error <= NMSE_MAX * exact)) {
        fail_msg("%s: error^2 %g of %g", what, error, exact);
    }
}

/* ---- against dense rows ---- */

static void test_exact(void **state)
{
    (void)state;
    for (size_t r = 0; r < ODD_SIZES + 1; r++) {
        for (size_t c = 0; c < ODD_SIZES; c++) {
            for (int64_t out = 1; out <= 19; out += 6) {
                const int64_t rows = r == ODD_SIZES ? 0 : odd_sizes[r];
                const int64_t cols = odd_sizes[c];
                struct example e;
                example_init(&e, rows, cols, out, 1, 5);
                float *y = test_floats(rows * out), *dense_y = test_floats(rows * out);
                float *dw = test_floats(cols * out), *dense_dw = test_floats(cols * out);
                float *db = test_floats(out), *dense_db = test_floats(out);
                for (int bias = 0; bias < 2; bias++) {
                    const float *b = bias != 0 ? e.b : NULL;
                    assert_int_equal(ps_nn_sparse_forward(&e.x, e.w, b, y, out), PS_OK);
                    assert_int_equal(ps_nn_dense_forward(e.dense, e.w, b, dense_y, rows, cols, out), PS_OK);
                    equal("y", y, dense_y, rows * out);
                    assert_int_equal(ps_nn_sparse_backward(&e.x, e.dy, dw, bias != 0 ? db : NULL, out), PS_OK);
                    assert_int_equal(ps_nn_dense_backward(e.dense, NULL, e.dy, dense_dw, dense_db, NULL, rows, cols, out), PS_OK);
                    equal("dw", dw, dense_dw, cols * out);
                }
                equal("db", db, dense_db, out);
                test_floats_free(y, rows * out), test_floats_free(dense_y, rows * out);
                test_floats_free(dw, cols * out), test_floats_free(dense_dw, cols * out);
                test_floats_free(db, out), test_floats_free(dense_db, out);
                example_fini(&e);
            }
        }
    }
}

/* Large enough to be cut into parts: 1, 2, 3 and 8 threads give the same bits. */
static void test_threads(void **state)
{
    (void)state;
    enum { ROWS = 96, COLS = 7001, OUT = 37 };
    struct example e;
    example_init(&e, ROWS, COLS, OUT, 0, 9);
    double *want = calloc((size_t)COLS * OUT, sizeof(*want));
    float *y = test_floats(ROWS * OUT), *dw = test_floats(COLS * OUT), *first_y = test_floats(ROWS * OUT);
    float *first_dw = test_floats(COLS * OUT), *db = test_floats(OUT);
    assert_non_null(want);
    const uint32_t threads[] = {1, 2, 3, 8};
    for (size_t t = 0; t < sizeof(threads) / sizeof(threads[0]); t++) {
        struct psk_place *place = NULL;
        assert_int_equal(psk_place_open("cpu", threads[t], &place, NULL), PS_OK);
        assert_int_equal(ps_nn_sparse_forward(&e.x, e.w, e.b, t == 0 ? first_y : y, OUT), PS_OK);
        assert_int_equal(ps_nn_sparse_backward(&e.x, e.dy, t == 0 ? first_dw : dw, db, OUT), PS_OK);
        if (t > 0) {
            assert_memory_equal(y, first_y, sizeof(*y) * ROWS * OUT);
            assert_memory_equal(dw, first_dw, sizeof(*dw) * COLS * OUT);
        }
        psk_place_close(place);
    }
    for (int64_t i = 0; i < ROWS * OUT; i++) {
        want[i] = (double)e.b[i % OUT];
        for (int64_t c = 0; c < COLS; c++) {
            want[i] += (double)e.dense[i / OUT * COLS + c] * (double)e.w[c * OUT + i % OUT];
        }
    }
    close_to("y", first_y, want, ROWS * OUT);
    for (int64_t i = 0; i < COLS * OUT; i++) {
        want[i] = 0;
        for (int64_t r = 0; r < ROWS; r++) {
            want[i] += (double)e.dense[r * COLS + i / OUT] * (double)e.dy[r * OUT + i % OUT];
        }
    }
    close_to("dw", first_dw, want, COLS * OUT);
    test_floats_free(y, ROWS * OUT), test_floats_free(first_y, ROWS * OUT), test_floats_free(db, OUT);
    test_floats_free(dw, COLS * OUT), test_floats_free(first_dw, COLS * OUT);
    free(want);
    example_fini(&e);
    struct psk_place *place = NULL;
    assert_int_equal(psk_place_open("cpu", 1, &place, NULL), PS_OK);
    psk_place_close(place);
}

/* ---- what is refused ---- */

static void test_refused(void **state)
{
    (void)state;
    const int32_t ends[] = {2, 2, 3}, columns[] = {0, 4, 1};
    const float values[] = {1, 2, 3};
    float w[10] = {0}, y[6] = {7}, dw[10] = {7};
    static const struct {
        int32_t ends[3], columns[3];
        const char *says;
    } cases[] = {
        {{2, 1, 3}, {0, 4, 1}, "row 1 ends at 1, allowed is 2 to 3"},
        {{-1, 2, 3}, {0, 4, 1}, "row 0 ends at -1"},
        {{2, 4, 3}, {0, 4, 1}, "row 1 ends at 4"},
        {{2, 2, 3}, {0, 5, 1}, "row 0 has a value in 5"},
        {{2, 2, 3}, {0, 4, -1}, "row 2 has a value in -1"},
        {{2, 2, 3}, {4, 4, 1}, "row 0 has 4 behind 4"},
        {{2, 2, 3}, {3, 1, 1}, "row 0 has 1 behind 3, columns must rise"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const ps_csr x = {3, 5, cases[i].ends, cases[i].columns, values};
        assert_int_equal(ps_nn_sparse_forward(&x, w, NULL, y, 2), PS_INVALID_ARGUMENT);
        test_error_has(cases[i].says);
        assert_int_equal(ps_nn_sparse_backward(&x, w, dw, NULL, 2), PS_INVALID_ARGUMENT);
        test_error_has(cases[i].says);
    }
    const ps_csr bad[] = {{-1, 5, ends, columns, values}, {3, 0, ends, columns, values},
                          {3, 5, NULL, columns, values},  {3, 5, ends, NULL, values},
                          {3, 5, ends, columns, NULL},    {2, 5, (const int32_t[]){0, -1}, columns, values}};
    static const char *const says[] = {"(-1, 5)", "(3, 0)", "ends is NULL", "columns is NULL", "values is NULL", "ends at -1"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(ps_nn_sparse_forward(&bad[i], w, NULL, y, 2), PS_INVALID_ARGUMENT);
        test_error_has(says[i]);
    }
    assert_int_equal(ps_nn_sparse_forward(NULL, w, NULL, y, 2), PS_INVALID_ARGUMENT);
    const ps_csr x = {3, 5, ends, columns, values};
    assert_int_equal(ps_nn_sparse_forward(&x, NULL, NULL, y, 2), PS_INVALID_ARGUMENT);
    test_error_has("w is NULL");
    assert_int_equal(ps_nn_sparse_backward(&x, w, NULL, NULL, 2), PS_INVALID_ARGUMENT);
    test_error_has("dw is NULL");
    assert_true(y[0] == 7 && dw[0] == 7);
    const int32_t none[] = {0, 0, 0}; /* rows without any value need no columns and values */
    const ps_csr empty = {3, 5, none, NULL, NULL};
    assert_int_equal(ps_nn_sparse_forward(&empty, w, NULL, y, 2), PS_OK);
    assert_true(y[0] == 0);
}

/* ---- with parameters ---- */

static void log_nothing(void *ctx, ps_log_level level, const char *line)
{
    (void)ctx, (void)level, (void)line;
}

static ps_session *session_new(const char *device, const char *container)
{
    char error[512];
    ps_session_options o;
    ps_session *s = NULL;
    ps_session_options_init(&o);
    o.cluster_spec = servers.spec;
    o.container = container;
    o.compute_device = device;
    o.log = log_nothing;
    if (ps_session_open(&o, &s, error, sizeof(error)) != PS_OK) {
        fail_msg("%s", error);
    }
    return s;
}

enum { B = 6, I = 40, O = 3 };

static void test_parameters(void **state)
{
    (void)state;
    struct example e;
    ps_tensor x = {0}, dy = {0}, y = {0}, dense_y = {0};
    float dw[I * O], db[O];
    ps_session *s = session_new("cpu", "sparse");
    example_init(&e, B, I, O, 1, 6);
    ps_param *w = ps_param_get(s, "w", PS_SHAPE(I, O), ps_zeros(), ps_sgd(0.25));
    ps_param *b = ps_param_get(s, "b", PS_SHAPE(O), ps_zeros(), ps_sgd(0.25));
    assert_int_equal(ps_session_ready(s), PS_OK);
    assert_int_equal(ps_pull(s), PS_OK);
    memcpy(ps_param_value(w), e.w, sizeof(*e.w) * I * O);
    memcpy(ps_param_value(b), e.b, sizeof(*e.b) * O);
    ps_tensor_wrap(&x, e.dense, B, I);
    ps_tensor_wrap(&dy, e.dy, B, O);
    for (int act = PS_LINEAR; act <= PS_RELU; act++) {
        assert_int_equal(ps_sparse_act(&e.x, w, b, (ps_activation)act, &y), PS_OK);
        assert_int_equal(ps_dense_act(&x, w, b, (ps_activation)act, &dense_y), PS_OK);
        equal("y", ps_tensor_read(&y), ps_tensor_read(&dense_y), B * O);
    }
    assert_int_equal(ps_sparse_backward(&e.x, &dy, w, b), PS_OK);
    memcpy(dw, ps_param_grad(w), sizeof(dw));
    memcpy(db, ps_param_grad(b), sizeof(db));
    assert_int_equal(ps_dense_backward(&x, &dy, w, b, NULL), PS_OK);
    equal("dw", dw, ps_param_grad(w), I * O);
    equal("db", db, ps_param_grad(b), O);
    assert_int_equal(ps_push(s, w), PS_OK); /* the buffer is the library's until it is acknowledged: the next one waits */
    assert_int_equal(ps_sparse_backward(&e.x, &dy, w, NULL), PS_OK);
    equal("dw", ps_param_grad(w), dw, I * O);
    ps_csr narrow = e.x;
    narrow.cols = I - 1;
    assert_int_equal(ps_sparse_act(&narrow, w, b, PS_LINEAR, &y), PS_INVALID_ARGUMENT);
    test_error_has("x has 39 columns, but w 'w' has 40 rows");
    assert_int_equal(ps_session_status(s), PS_INVALID_ARGUMENT); /* sticky, as of every call with a parameter */
    assert_int_equal(ps_sparse_backward(&e.x, &dy, w, b), PS_INVALID_ARGUMENT);
    assert_int_not_equal(ps_session_close(s), 0);
    assert_int_equal(ps_sparse_act(&e.x, NULL, NULL, PS_LINEAR, &y), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_sparse_backward(&e.x, &dy, NULL, NULL), PS_INVALID_ARGUMENT);
    ps_tensor_free(&x), ps_tensor_free(&dy), ps_tensor_free(&y), ps_tensor_free(&dense_y);
    example_fini(&e);
}

static void test_other_devices(void **state)
{
    (void)state;
    struct example e;
    ps_tensor y = {0};
    float plain[B * O];
    ps_session *s = session_new("fake:0", "elsewhere");
    example_init(&e, B, I, O, 1, 6);
    ps_param *w = ps_param_get(s, "w", PS_SHAPE(I, O), ps_zeros(), ps_sgd(0.25));
    assert_int_equal(ps_session_ready(s), PS_OK);
    assert_int_equal(ps_pull(s), PS_OK);
    assert_int_equal(ps_sparse_act(&e.x, w, NULL, PS_LINEAR, &y), PS_UNIMPLEMENTED);
    test_error_has("fake:0 does not multiply sparse rows: compute on the CPU, or make them dense");
    assert_int_equal(ps_session_status(s), PS_UNIMPLEMENTED);
    assert_int_not_equal(ps_session_close(s), 0);
    assert_int_equal(ps_nn_open("fake:0"), PS_OK);
    assert_int_equal(ps_nn_sparse_forward(&e.x, e.w, NULL, plain, O), PS_UNIMPLEMENTED);
    assert_int_equal(ps_nn_open("cpu"), PS_OK);
    ps_tensor_free(&y);
    example_fini(&e);
}

static int setup(void **state)
{
    (void)state;
    test_servers_start(&servers, "ps=1");
    return ps_nn_open("cpu") == PS_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    test_servers_stop(&servers);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact),      cmocka_unit_test(test_threads),       cmocka_unit_test(test_refused),
        cmocka_unit_test(test_parameters), cmocka_unit_test(test_other_devices),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
