/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accumulators through real psd processes and the public API: what is counted, what is taken and by whom, gradients of 64 MiB,
 * many threads, and what is refused.
 */
#include "api_test.h"
#include "ps_queue.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static void assert_said(ps_status st, ps_status wanted, const char *part)
{
    if (st != wanted || strstr(ps_last_error(), part) == NULL) {
        fail_msg("%s '%s', expected %s with '%s'", ps_status_name(st), ps_last_error(), ps_status_name(wanted), part);
    }
}

static void assert_fine(ps_status st)
{
    if (st != PS_OK) {
        fail_msg("%s '%s'", ps_status_name(st), ps_last_error());
    }
}

static ps_accumulator *accumulator(ps_session *s, const char *name, ps_dtype dtype, ps_shape shape, ps_reduction reduction)
{
    ps_accumulator *a = NULL;
    assert_fine(ps_accumulator_get(s, name, dtype, shape, reduction, "/job:ps/task:1", &a));
    return a;
}

static void assert_accumulated(ps_accumulator *a, uint64_t wanted)
{
    uint64_t count = 99;
    assert_fine(ps_accumulator_num_accumulated(a, &count));
    assert_int_equal(count, wanted);
}

static void means_and_sums(void **state)
{
    (void)state;
    ps_session *s = open_session(20000);
    for (ps_reduction reduction = PS_REDUCTION_MEAN; reduction <= PS_REDUCTION_SUM; reduction++) {
        ps_accumulator *a = accumulator(s, reduction == PS_REDUCTION_SUM ? "sum" : "mean", PS_F32, PS_SHAPE(3), reduction);
        float out[4] = {0, 0, 0, 77};
        uint64_t count = 0;
        bool accepted = false;
        for (int i = 1; i <= 5; i++) {
            const float gradient[3] = {(float)i, 1, (float)-i};
            assert_fine(ps_accumulator_apply_grad(a, gradient, sizeof(gradient), i == 5 ? -1 : i, 0, &accepted));
            assert_int_equal(accepted, i < 5);
            assert_accumulated(a, i < 5 ? (uint64_t)i : 4);
        }
        assert_fine(ps_accumulator_take_grad(a, 3, out, sizeof(float[3]), 0, &count)); /* 4 are there */
        const float sum[4] = {10, 4, -10, 77}, mean[4] = {2.5F, 1, -2.5F, 77};
        assert_memory_equal(out, reduction == PS_REDUCTION_SUM ? sum : mean, sizeof(out));
        assert_int_equal(count, 4);
        assert_accumulated(a, 0);
        assert_fine(ps_accumulator_apply_grad(a, mean, sizeof(float[3]), 0, 0, &accepted));
        assert_false(accepted); /* the take began step 1 */
        assert_fine(ps_accumulator_apply_grad(a, mean, sizeof(float[3]), 1, 0, NULL));
        ps_status st = PS_OK; /* the task answers 120 ms before the deadline; on a busy machine that may be too late */
        do {
            st = ps_accumulator_take_grad(a, 2, out, sizeof(float[3]), 300, &count);
        } while (st == PS_DEADLINE_EXCEEDED && strstr(ps_last_error(), "no answer within") != NULL);
        assert_said(st, PS_DEADLINE_EXCEEDED, "1 of 2 gradients of global step 1");
        assert_int_equal(count, 0);
        assert_accumulated(a, 1);
    }
    assert_int_equal(ps_session_close(s), 0);
}

static void global_steps(void **state)
{
    (void)state;
    ps_session *s = open_session(20000);
    ps_accumulator *a = accumulator(s, "steps", PS_F64, PS_SCALAR, PS_REDUCTION_MEAN);
    const double one = 1;
    int64_t before = 99;
    bool accepted = true;
    assert_fine(ps_accumulator_set_global_step(a, 9, &before));
    assert_int_equal(before, 0);
    assert_said(ps_accumulator_apply_grad(a, NULL, 1, 8, 0, &accepted), PS_INVALID_ARGUMENT, "is NULL");
    assert_fine(ps_accumulator_apply_grad(a, &one, sizeof(one), 8, 0, &accepted));
    assert_false(accepted);
    assert_fine(ps_accumulator_set_global_step(a, 4, &before)); /* back: TensorFlow's code does so too */
    assert_int_equal(before, 9);
    assert_fine(ps_accumulator_apply_grad(a, &one, sizeof(one), 8, 0, &accepted));
    assert_true(accepted);
    assert_said(ps_accumulator_set_global_step(a, -1, &before), PS_INVALID_ARGUMENT, "global step -1");
    assert_int_equal(ps_session_close(s), 0);
}

struct worker {
    ps_accumulator *a;
    pthread_t thread;
    uint64_t accepted;
};
enum { WORKERS = 6, GRADIENTS = 200, ELEMENTS = 1000 };

static void *apply_many(void *arg)
{
    struct worker *w = arg;
    double gradient[ELEMENTS];
    for (int i = 0; i < ELEMENTS; i++) {
        gradient[i] = 1;
    }
    for (int i = 0; i < GRADIENTS; i++) {
        bool accepted = false;
        if (ps_accumulator_apply_grad(w->a, gradient, sizeof(gradient), 1 << 20, 0, &accepted) != PS_OK) {
            return arg;
        }
        w->accepted += accepted;
    }
    return NULL;
}

/* Every gradient is in exactly one sum, and no sum has part of one. */
static void many_threads(void **state)
{
    (void)state;
    ps_session *s = open_session(60000), *others = open_session(60000);
    ps_accumulator *a = accumulator(s, "threads", PS_F64, PS_SHAPE(ELEMENTS), PS_REDUCTION_SUM);
    ps_accumulator *b = accumulator(others, "threads", PS_F64, PS_SHAPE(ELEMENTS), PS_REDUCTION_SUM);
    struct worker worker[WORKERS];
    double sum[ELEMENTS];
    uint64_t taken = 0, count = 0;
    for (int i = 0; i < WORKERS; i++) {
        worker[i] = (struct worker){.a = i % 2 == 0 ? a : b};
        assert_int_equal(pthread_create(&worker[i].thread, NULL, apply_many, &worker[i]), 0);
    }
    while (taken < WORKERS * GRADIENTS) {
        int64_t n = 1 + (int64_t)taken % 7;
        int64_t left = (int64_t)(WORKERS * GRADIENTS - taken);
        assert_fine(ps_accumulator_take_grad(a, n < left ? n : left, sum, sizeof(sum), 0, &count));
        for (int i = 0; i < ELEMENTS; i++) {
            assert_true(sum[i] == (double)count);
        }
        taken += count;
    }
    for (int i = 0; i < WORKERS; i++) {
        void *failed = NULL;
        assert_int_equal(pthread_join(worker[i].thread, &failed), 0);
        assert_null(failed);
        assert_int_equal(worker[i].accepted, GRADIENTS);
    }
    assert_int_equal(taken, WORKERS * GRADIENTS);
    assert_accumulated(a, 0);
    assert_int_equal(ps_session_close(others), 0);
    assert_int_equal(ps_session_close(s), 0);
}

static void large_gradients(void **state)
{
    (void)state;
    enum { LARGE = 1 << 24 };
    ps_session *s = open_session(60000);
    ps_accumulator *a = accumulator(s, "large", PS_F32, PS_SHAPE(LARGE), PS_REDUCTION_MEAN);
    float *values = malloc(LARGE * sizeof(*values)), *out = malloc(LARGE * sizeof(*out));
    assert_true(values != NULL && out != NULL);
    for (int round = 1; round <= 2; round++) {
        for (int i = 0; i < LARGE; i++) {
            values[i] = (float)(i % 1000 * round);
        }
        assert_fine(ps_accumulator_apply_grad(a, values, LARGE * sizeof(*values), 0, 0, NULL));
    }
    assert_fine(ps_accumulator_take_grad(a, 2, out, LARGE * sizeof(*out), 0, NULL));
    for (int i = 0; i < LARGE; i++) {
        assert_true(out[i] == (float)(i % 1000) * 1.5F);
    }
    free(values);
    free(out);
    assert_int_equal(ps_session_close(s), 0);
}

static void what_is_refused(void **state)
{
    (void)state;
    ps_session *s = open_session(20000);
    ps_accumulator *a = accumulator(s, "refused", PS_F32, PS_SHAPE(2), PS_REDUCTION_MEAN), *other = NULL;
    ps_queue *q = NULL;
    ps_queue_spec spec;
    float values[3] = {1, 2, 3};
    const float infinite[2] = {1, 1e38F * 10};
    uint64_t count = 0;
    assert_said(ps_accumulator_get(s, "refused", PS_F32, PS_SHAPE(3), PS_REDUCTION_MEAN, NULL, &other), PS_INVALID_ARGUMENT,
                "(2,)");
    assert_said(ps_accumulator_get(s, "refused", PS_F64, PS_SHAPE(2), PS_REDUCTION_MEAN, NULL, &other), PS_INVALID_ARGUMENT,
                "float64");
    assert_said(ps_accumulator_get(s, "ints", PS_I64, PS_SHAPE(2), PS_REDUCTION_MEAN, NULL, &other), PS_INVALID_ARGUMENT,
                "float32 or float64");
    assert_said(ps_accumulator_get(s, "none", PS_F32, PS_SHAPE(2), (ps_reduction)3, NULL, &other), PS_INVALID_ARGUMENT,
                "reduction 3");
    assert_non_null(get(s, "variable", PS_F32, PS_SHAPE(2), ps_sgd(1)));
    assert_said(ps_accumulator_get(s, "variable", PS_F32, PS_SHAPE(2), PS_REDUCTION_MEAN, NULL, &other), PS_INVALID_ARGUMENT,
                "variable");
    assert_said(ps_accumulator_get(s, NULL, PS_F32, PS_SHAPE(2), PS_REDUCTION_MEAN, NULL, &other), PS_INVALID_ARGUMENT, "NULL");
    assert_said(ps_accumulator_apply_grad(a, infinite, sizeof(infinite), 0, 0, NULL), PS_INVALID_ARGUMENT,
                "element 1 is NaN or infinite");
    assert_said(ps_accumulator_apply_grad(a, NULL, sizeof(float[2]), 0, 0, NULL), PS_INVALID_ARGUMENT,
                "accumulator 'refused': the gradient is NULL");
    assert_said(ps_accumulator_apply_grad(a, values, 7, 0, 0, NULL), PS_INVALID_ARGUMENT,
                "accumulator 'refused': 7 bytes are given, a gradient of it has 8");
    assert_said(ps_accumulator_take_grad(a, 1, values, 12, 0, NULL), PS_INVALID_ARGUMENT,
                "12 bytes are given, a gradient of it has 8");
    assert_said(ps_accumulator_take_grad(a, 0, values, 8, 0, NULL), PS_INVALID_ARGUMENT, "a take of 0 gradients");
    assert_said(ps_accumulator_take_grad(a, -3, values, 8, 0, NULL), PS_INVALID_ARGUMENT, "a take of -3 gradients");
    assert_said(ps_accumulator_take_grad(a, INT64_MAX, values, 8, 0, NULL), PS_INVALID_ARGUMENT, "gradients; 1 to");
    assert_fine(ps_queue_find(s, "refused", &q));
    assert_int_equal(ps_queue_spec_of(q)->kind, PS_QUEUE_ACCUMULATOR);
    assert_said(ps_enqueue(q, PS_FROM({values, 8}), 0), PS_INVALID_ARGUMENT, "is an accumulator");
    assert_said(ps_dequeue(q, PS_INTO({values, 8}), 0), PS_INVALID_ARGUMENT, "is an accumulator");
    assert_said(ps_queue_close(q, false, 0), PS_FAILED_PRECONDITION, "never closed");
    ps_queue_spec_init(&spec, "another", PS_F32, PS_SHAPE(2));
    spec.kind = PS_QUEUE_ACCUMULATOR;
    assert_said(ps_queue_get(s, &spec, &q), PS_INVALID_ARGUMENT, "ps_accumulator_get()");
    assert_accumulated(a, 0);
    assert_fine(ps_variable_delete(s, "refused"));
    assert_said(ps_accumulator_apply_grad(a, values, 8, 0, 0, NULL), PS_ABORTED, "");
    assert_int_equal(ps_last_reason(), PS_REASON_LOST);
    assert_said(ps_accumulator_set_global_step(a, 1, NULL), PS_ABORTED, "");
    assert_int_equal(ps_accumulator_num_accumulated(NULL, &count), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_session_close(s), 0);
}

/* Gradients of rows, in any order and some rows several times, from several sessions: each row's mean is that of the gradients
 * that have it. A second reduction divides by all. */
static void sums_of_rows(void **state)
{
    (void)state;
    enum { N = 1000, COLUMNS = 3, WORKERS_ROWS = 3 };
    static double sum[N][COLUMNS];
    static int64_t count[N];
    ps_session *s[WORKERS_ROWS] = {open_session(20000), open_session(20000), open_session(20000)};
    for (ps_reduction how = PS_REDUCTION_MEAN; how <= PS_REDUCTION_MEAN_OF_ALL; how++) {
        const char *name = how == PS_REDUCTION_MEAN ? "rows/mean" : how == PS_REDUCTION_SUM ? "rows/sum" : "rows/all";
        ps_accumulator *a[WORKERS_ROWS];
        ps_summed_rows out;
        memset(sum, 0, sizeof(sum));
        memset(count, 0, sizeof(count));
        for (int w = 0; w < WORKERS_ROWS; w++) {
            bool accepted = false, has[N] = {false};
            int64_t indices[200];
            double rows[200][COLUMNS];
            assert_fine(ps_sparse_accumulator_get(s[w], name, PS_F64, PS_SHAPE(N, COLUMNS), how, "/job:ps/task:1", &a[w]));
            for (int i = 0; i < 200; i++) {
                indices[i] = (i * 37 + w * 11) % (w == 2 ? 150 : N);
                for (int k = 0; k < COLUMNS; k++) {
                    rows[i][k] = (double)(i + k - 100);
                    sum[indices[i]][k] += rows[i][k];
                }
                count[indices[i]] += !has[indices[i]];
                has[indices[i]] = true;
            }
            assert_fine(ps_accumulator_apply_rows(a[w], indices, 200, rows, sizeof(rows), 0, 0, &accepted));
            assert_true(accepted);
        }
        assert_fine(ps_accumulator_apply_rows(a[0], NULL, 0, NULL, 0, 0, 0, NULL));
        assert_accumulated(a[1], WORKERS_ROWS + 1);
        assert_fine(ps_accumulator_take_rows(a[2], 2, 0, &out));
        assert_int_equal(out.gradients, WORKERS_ROWS + 1);
        assert_int_equal(out.rows_bytes, out.count * sizeof(double[COLUMNS]));
        size_t at = 0;
        for (int64_t r = 0; r < N; r++) {
            const double by = how == PS_REDUCTION_SUM ? 1 : how == PS_REDUCTION_MEAN ? (double)count[r] : WORKERS_ROWS + 1;
            if (count[r] == 0) {
                continue;
            }
            assert_true(at < out.count && out.indices[at] == r && out.counts[at] == count[r]);
            for (int k = 0; k < COLUMNS; k++) {
                assert_true(((const double *)out.rows)[at * COLUMNS + (size_t)k] == sum[r][k] / by);
            }
            at++;
        }
        assert_int_equal(at, out.count);
        ps_summed_rows_free(&out);
        ps_summed_rows_free(&out); /* empty now */
        const double one[COLUMNS] = {1, 1, 1};
        const int64_t index = 5;
        bool accepted = true;
        assert_fine(ps_accumulator_apply_rows(a[0], &index, 1, one, sizeof(one), 0, 0, &accepted));
        assert_false(accepted); /* the take began step 1 */
    }
    for (int w = 0; w < WORKERS_ROWS; w++) {
        assert_int_equal(ps_session_close(s[w]), 0);
    }
}

static void rows_that_are_refused(void **state)
{
    (void)state;
    ps_session *s = open_session(20000);
    ps_accumulator *a = NULL, *dense = accumulator(s, "dense", PS_F32, PS_SHAPE(4, 2), PS_REDUCTION_SUM), *other = NULL;
    ps_summed_rows out;
    float rows[4] = {1, 2, 3, 4};
    int64_t indices[2] = {3, 1};
    assert_fine(ps_sparse_accumulator_get(s, "sparse", PS_F32, PS_SHAPE(4, 2), PS_REDUCTION_SUM, NULL, &a));
    assert_said(ps_accumulator_get(s, "sparse", PS_F32, PS_SHAPE(4, 2), PS_REDUCTION_SUM, NULL, &other), PS_INVALID_ARGUMENT,
                "SPARSE_ACCUMULATOR");
    assert_said(ps_sparse_accumulator_get(s, "sparse", PS_F32, PS_SHAPE(5, 2), PS_REDUCTION_SUM, NULL, &other),
                PS_INVALID_ARGUMENT, "(5, 2)");
    assert_said(ps_sparse_accumulator_get(s, "scalar", PS_F32, PS_SCALAR, PS_REDUCTION_SUM, NULL, &other), PS_INVALID_ARGUMENT,
                "sparse accumulator");
    assert_said(ps_accumulator_apply_rows(dense, indices, 2, rows, sizeof(rows), 0, 0, NULL), PS_INVALID_ARGUMENT,
                "is not sparse");
    assert_said(ps_accumulator_take_rows(dense, 1, 0, &out), PS_INVALID_ARGUMENT, "is not sparse");
    assert_said(ps_accumulator_apply_grad(a, rows, sizeof(rows), 0, 0, NULL), PS_INVALID_ARGUMENT, "is sparse");
    assert_said(ps_accumulator_take_grad(a, 1, rows, sizeof(rows), 0, NULL), PS_INVALID_ARGUMENT, "is sparse");
    assert_said(ps_accumulator_apply_rows(a, indices, 2, rows, 12, 0, 0, NULL), PS_INVALID_ARGUMENT, "12 bytes are given");
    assert_said(ps_accumulator_apply_rows(a, NULL, 2, rows, sizeof(rows), 0, 0, NULL), PS_INVALID_ARGUMENT, "indices are NULL");
    assert_said(ps_accumulator_apply_rows(a, indices, 2, NULL, sizeof(rows), 0, 0, NULL), PS_INVALID_ARGUMENT, "rows are NULL");
    indices[1] = 4;
    assert_said(ps_accumulator_apply_rows(a, indices, 2, rows, sizeof(rows), 0, 0, NULL), PS_OUT_OF_RANGE,
                "'sparse': index 4, number 1 of 2, is outside [0, 4)");
    indices[1] = 1;
    rows[1] = 1e38F * 10;
    assert_said(ps_accumulator_apply_rows(a, indices, 2, rows, sizeof(rows), 0, 0, NULL), PS_INVALID_ARGUMENT,
                "element 1 of the row with index 3 is NaN or infinite");
    assert_said(ps_accumulator_take_rows(a, 0, 0, &out), PS_INVALID_ARGUMENT, "a take of 0 gradients");
    assert_said(ps_accumulator_take_rows(a, 1, 0, NULL), PS_INVALID_ARGUMENT, "out is NULL");
    assert_int_equal(ps_accumulator_take_rows(NULL, 1, 0, &out), PS_INVALID_ARGUMENT);
    assert_true(out.count == 0 && out.opaque == NULL);
    assert_accumulated(a, 0);
    assert_int_equal(ps_session_close(s), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(means_and_sums),        cmocka_unit_test(global_steps),    cmocka_unit_test(many_threads),
        cmocka_unit_test(large_gradients),       cmocka_unit_test(what_is_refused), cmocka_unit_test(sums_of_rows),
        cmocka_unit_test(rows_that_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
