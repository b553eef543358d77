/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Embeddings (ps_embedding_get()) beside a table of this process: buffers have the different rows of a batch; steps train them as
 * parameters, whole and in parts, with and without rows that are read ahead; what is read ahead for other ids is not used. Errors
 * stick, and leave buffers that can be read.
 */
#define API_TASKS 2
#include "api_test.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 500, COLS = 4, BATCH = 32 };

static uint32_t random_state = 4711;

static uint32_t draw(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 8;
}

static ps_variable_spec spec_of(const char *name, uint32_t parts, const ps_optimizer *optimizer)
{
    ps_variable_spec spec;
    ps_variable_spec_init(&spec);
    spec.name = name;
    spec.dtype = PS_F32;
    spec.shape = PS_SHAPE(ROWS, COLS);
    spec.init = ps_normal(0, 1);
    spec.optimizer = optimizer;
    spec.partitions = parts;
    spec.partition_layout = PS_LAYOUT_MOD;
    return spec;
}

static void must(ps_session *s, ps_status st)
{
    if (st != PS_OK) {
        fail_msg("%s; session: %s", ps_last_error(), ps_session_error(s));
    }
}

/* Each test begins without a model. */
static int empty(void **state)
{
    (void)state;
    ps_session *s = open_session(60000);
    must(s, ps_reset(s));
    return ps_session_close(s);
}

static void draw_ids(int64_t *ids, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ids[i] = draw() % (i % 2 == 0 ? 10 : ROWS);
    }
}

/* Train by sgd what a table of this process is trained by, and compare all that is read. */
static void trains(const char *name, uint32_t parts, bool ahead)
{
    static float table[ROWS * COLS];
    int64_t ids[BATCH], next[BATCH], places[BATCH];
    ps_session *s = open_session(60000);
    ps_param *dense = ps_param_get(s, "dense", PS_SHAPE(3), ps_zeros(), ps_sgd(1));
    const ps_variable_spec spec = spec_of(name, parts, ps_sgd(0.5));
    ps_param *p = ps_embedding_get(s, &spec);
    must(s, ps_session_ready(s));
    ps_variable *v = NULL;
    if (parts > 0) { /* the whole, for the comparison */
        must(s, ps_variable_get(s, &spec, &v));
    } else {
        must(s, ps_variable_find(s, name, &v));
    }
    must(s, ps_variable_read(v, table, sizeof(table)));
    draw_ids(next, BATCH);
    for (int step = 0; step < 20; step++) {
        memcpy(ids, next, sizeof(ids));
        must(s, ps_pull(s));
        must(s, ps_embedding_pull(p, ids, BATCH, places));
        const int64_t n = ps_param_shape(p)->dims[0];
        assert_true(n <= BATCH && ps_param_shape(p)->dims[1] == COLS);
        const float *rows = ps_param_value(p);
        float *grad = ps_param_grad(p);
        for (size_t i = 0; i < BATCH; i++) {
            assert_true(places[i] >= 0 && places[i] < n);
            assert_memory_equal(rows + places[i] * COLS, table + ids[i] * COLS, COLS * sizeof(float));
            for (size_t k = 0; k < COLS; k++) {
                grad[(size_t)places[i] * COLS + k] += (float)(k + 1); /* it began with zeros */
            }
        }
        for (size_t i = 0; i < BATCH; i++) {
            bool first = true; /* a row moves once, by the sum of its gradients */
            size_t count = 0;
            for (size_t j = 0; j < BATCH; j++) {
                first = first && (j >= i || ids[j] != ids[i]);
                count += ids[j] == ids[i];
            }
            for (size_t k = 0; first && k < COLS; k++) {
                table[ids[i] * COLS + (int64_t)k] -= 0.5f * ((float)(k + 1) * (float)count);
            }
        }
        memset(ps_param_grad(dense), 0, 3 * sizeof(float));
        must(s, ps_push(s, p));
        must(s, ps_push_pull(s, dense));
        draw_ids(next, BATCH);
        if (ahead) {
            must(s, ps_embedding_ahead(p, next, BATCH));
            if (step % 3 == 0) { /* another batch comes next */
                draw_ids(next, BATCH);
            }
        }
        must(s, ps_step_done(s));
        assert_int_equal(ps_global_step(s), step + 1);
    }
    assert_int_equal(ps_session_close(s), 0);
}

static void whole(void **state)
{
    (void)state;
    trains("table", 0, false);
}

static void whole_ahead(void **state)
{
    (void)state;
    trains("table", 0, true);
}

static void in_parts(void **state)
{
    (void)state;
    trains("table", 3, false);
}

static void in_parts_ahead(void **state)
{
    (void)state;
    trains("table", 3, true);
}

/* Without ids the buffers have a row of zeros, and the push is one of no rows, which counts. */
static void no_ids(void **state)
{
    (void)state;
    ps_session *s = open_session(60000);
    const ps_variable_spec spec = spec_of("none", 0, ps_sgd(1));
    ps_param *p = ps_embedding_get(s, &spec);
    must(s, ps_session_ready(s));
    must(s, ps_embedding_pull(p, NULL, 0, NULL));
    assert_int_equal(ps_param_shape(p)->dims[0], 1);
    const float *rows = ps_param_value(p);
    for (int k = 0; k < COLS; k++) {
        assert_true(rows[k] == 0);
    }
    must(s, ps_push(s, p));
    must(s, ps_embedding_ahead(p, NULL, 0));
    must(s, ps_step_done(s));
    ps_variable *v = NULL;
    float value[ROWS * COLS];
    must(s, ps_variable_find(s, "none", &v));
    must(s, ps_variable_read(v, value, sizeof(value)));
    assert_int_equal(ps_variable_version(v, NULL), 1);
    assert_int_equal(ps_session_close(s), 0);
}

/* The norm of the rows' gradients is that of what is pushed. */
static void clipped(void **state)
{
    (void)state;
    ps_session *s = open_session(60000);
    const ps_variable_spec spec = spec_of("clipped", 0, ps_sgd(1));
    ps_param *p = ps_embedding_get(s, &spec);
    must(s, ps_session_ready(s));
    const int64_t ids[] = {7, 3};
    int64_t places[2];
    double norm = 0;
    float before[COLS];
    must(s, ps_embedding_pull(p, ids, 2, places));
    assert_int_equal(places[0], 1);
    assert_int_equal(places[1], 0);
    memcpy(before, (const float *)ps_param_value(p) + COLS, sizeof(before));
    float *grad = ps_param_grad(p);
    grad[COLS] = 8;
    grad[1] = 6;
    must(s, ps_clip_norm(p, 1, &norm));
    assert_true(fabs(norm - 10) < 1e-6);
    must(s, ps_push(s, p));
    must(s, ps_step_done(s));
    must(s, ps_embedding_pull(p, ids, 1, NULL));
    assert_true(fabsf(*(const float *)ps_param_value(p) - (before[0] - 0.8f)) < 1e-5f);
    assert_int_equal(ps_session_close(s), 0);
}

/* The norm of a table in `parts` parts, layout mod, and of a dense gradient after it, as owners of rounds add them up: sums of 16
 * lanes for each part, in which a row is at its place. */
static double norm_of_owners(uint32_t parts, const int64_t *ids, const float *grad, const float dense[3])
{
    double sum = 0;
    for (uint32_t k = 0; k < parts; k++) {
        double lanes[16] = {0};
        for (size_t i = 0; i < BATCH; i++) {
            for (size_t c = 0; ids[i] % parts == k && c < COLS; c++) {
                lanes[((size_t)ids[i] / parts * COLS + c) % 16] += (double)grad[i * COLS + c] * (double)grad[i * COLS + c];
            }
        }
        double part = 0;
        for (size_t l = 0; l < 16; l++) {
            part += lanes[l];
        }
        sum += part;
    }
    return sqrt(
        sum + ((double)dense[0] * (double)dense[0] + (double)dense[1] * (double)dense[1] + (double)dense[2] * (double)dense[2]));
}

static void clipped_as_in_rounds(void **state)
{
    (void)state;
    for (uint32_t parts = 1; parts <= 3; parts += 2) {
        ps_session *s = open_session(60000);
        const ps_variable_spec spec = spec_of("clipped_too", parts, ps_sgd(1));
        ps_param *both[] = {ps_embedding_get(s, &spec), ps_param_get(s, "dense", PS_SHAPE(3), ps_zeros(), ps_sgd(1))};
        must(s, ps_session_ready(s));
        int64_t ids[BATCH];
        for (size_t i = 0; i < BATCH; i++) {
            ids[i] = (int64_t)(i * ROWS / BATCH + draw() % (ROWS / BATCH));
        }
        must(s, ps_embedding_pull(both[0], ids, BATCH, NULL));
        float *grad = ps_param_grad(both[0]), *dense = ps_param_grad(both[1]);
        dense[0] = 1.1f, dense[1] = 2.3f, dense[2] = 4.7f;
        for (int trial = 0; trial < 50; trial++) { /* another order of the sum gives other bits, now and then */
            double norm = 0;
            for (size_t i = 0; i < BATCH * COLS; i++) {
                grad[i] = (float)(draw() % 100000) / (i % 5 == 0 ? 7e9f : 7777);
            }
            must(s, ps_clip_global_norm(both, 2, 1, &norm));
            assert_true(norm == norm_of_owners(parts, ids, grad, dense));
        }
        must(s, ps_reset(s));
        assert_int_equal(ps_session_close(s), 0);
    }
}

static void refused(void **state)
{
    (void)state;
    int64_t ids[] = {1, ROWS}, places[2] = {9, 9};
    ps_session *s = open_session(20000);
    ps_variable_spec spec = spec_of("refused", 0, ps_sgd(1));
    ps_param *p = ps_embedding_get(s, &spec);
    must(s, ps_session_ready(s));
    assert_int_equal(ps_embedding_pull(p, ids, 2, places), PS_OUT_OF_RANGE);
    assert_non_null(strstr(ps_session_error(s), "ps_embedding_pull: 'refused': index 500, number 1 of 2, is outside [0, 500)"));
    assert_int_equal(places[0] | places[1], 0);
    assert_int_equal(ps_push(s, p), PS_OUT_OF_RANGE);
    assert_int_equal(ps_session_close(s), PS_OUT_OF_RANGE);

    s = open_session(20000);
    spec.dtype = PS_F64;
    p = ps_embedding_get(s, &spec);
    assert_non_null(strstr(ps_session_error(s), "its dtype is float64, and must be float32"));
    ids[1] = 2;
    assert_int_equal(ps_embedding_pull(p, ids, 2, places), PS_INVALID_ARGUMENT); /* a dummy: its row can be read */
    assert_int_equal(ps_param_shape(p)->dims[0], 1);
    assert_true(((const float *)ps_param_value(p))[COLS - 1] == 0);
    assert_int_equal(ps_session_close(s), PS_INVALID_ARGUMENT);
}

static void no_parameter(void **state)
{
    (void)state;
    const int64_t ids[] = {1, 2};
    int64_t places[2];
    ps_session *s = open_session(20000);
    ps_param *p = ps_param_get(s, "no_embedding", PS_SHAPE(4, 4), ps_zeros(), NULL);
    must(s, ps_session_ready(s));
    assert_int_equal(ps_embedding_pull(p, ids, 2, places), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_session_error(s), "no_embedding is no embedding"));
    assert_int_equal(ps_session_close(s), PS_INVALID_ARGUMENT);
}

static void no_sum(void **state)
{
    (void)state;
    ps_session *s = open_session(20000);
    const ps_variable_spec spec = spec_of("no_sum", 0, ps_sgd(1));
    ps_param *p = ps_embedding_get(s, &spec);
    must(s, ps_session_ready(s));
    assert_int_equal(ps_accumulate(p, 1), PS_UNIMPLEMENTED);
    assert_int_equal(ps_session_close(s), PS_UNIMPLEMENTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(whole, empty),
        cmocka_unit_test_setup(whole_ahead, empty),
        cmocka_unit_test_setup(in_parts, empty),
        cmocka_unit_test_setup(in_parts_ahead, empty),
        cmocka_unit_test_setup(no_ids, empty),
        cmocka_unit_test_setup(clipped, empty),
        cmocka_unit_test_setup(clipped_as_in_rounds, empty),
        cmocka_unit_test_setup(refused, empty),
        cmocka_unit_test_setup(no_parameter, empty),
        cmocka_unit_test_setup(no_sum, empty),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
