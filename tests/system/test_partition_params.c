/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters in parts (ps_param_get_spec()) beside whole ones with the same gradients: equal bit for bit after 100 steps, at
 * their own pace, with prefetch, and in rounds. ps_variables_get() of some in parts among whole ones; one that cannot be got
 * leaves the others.
 */
#define API_TASKS 3
#define API_MORE_JOBS ";worker=192.0.2.1:1" /* workers do not listen */
#include "api_test.h"

#include <stdio.h>
#include <string.h>

enum { ROWS = 10, COLS = 6, ELEMENTS = ROWS * COLS, STEPS = 100, TIMEOUT_MS = 60000 };

static ps_session *open_worker(bool prefetch)
{
    ps_session_options o = session_options(TIMEOUT_MS);
    o.job = "worker";
    o.prefetch = prefetch;
    return open_by(&o);
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
    ps_session *s = open_worker(false);
    must(s, ps_reset(s));
    return ps_session_close(s);
}

static const char *const optimizers[] = {
    "sgd",        "momentum",    "adagrad",          "adam",          "lazy_adam",
    "adagrad_v2", "adagrad_da",  "adadelta",         "rmsprop",       "rmsprop_centered",
    "adamw",      "adamw_tf",    "amsgrad",          "adamax",        "nadam",
    "ftrl",       "proximal_gd", "proximal_adagrad", "addsign",       "powersign",
    "lion",       "torch_adam",  "torch_adagrad",    "torch_rmsprop", "torch_rmsprop_centered"};
enum { PAIRS = sizeof(optimizers) / sizeof(optimizers[0]), CUTS = 4 };
static const struct {
    uint32_t parts;
    uint8_t axis, layout;
} cuts[CUTS] = {{4, 0, PS_LAYOUT_DIV}, {3, 0, PS_LAYOUT_MOD}, {2, 1, PS_LAYOUT_DIV}, {5, 1, PS_LAYOUT_MOD}};

static ps_variable_spec spec_of(const char *name, size_t i, const ps_optimizer *optimizer, bool in_parts)
{
    ps_variable_spec spec;
    ps_variable_spec_init(&spec);
    spec.name = name;
    spec.dtype = PS_F32;
    spec.shape = PS_SHAPE(ROWS, COLS);
    spec.init = ps_constant(0.5);
    spec.optimizer = optimizer;
    spec.partitions = in_parts ? cuts[i % CUTS].parts : 0;
    spec.partition_axis = cuts[i % CUTS].axis;
    spec.partition_layout = cuts[i % CUTS].layout;
    return spec;
}

/* The whole and the parts are equal. */
static void same(ps_session *s, size_t i, const float *whole, const float *parts, const char *when)
{
    if (memcmp(whole, parts, ELEMENTS * sizeof(float)) != 0) {
        fail_msg("%s: the parts of %s are not as the whole, step %lld", when, optimizers[i], (long long)ps_global_step(s));
    }
}

/* What ps_pull() has read ahead may have pushes that came later, so only the end is compared. */
static void trains(ps_session *s, bool prefetch)
{
    uint32_t random = 99;
    ps_param *params[2][PAIRS];
    for (size_t i = 0; i < PAIRS; i++) {
        ps_optimizer optimizer;
        char names[2][32];
        must(s, ps_optimizer_parse(optimizers[i], 0.01, &optimizer, sizeof(optimizer)));
        for (int k = 0; k < 2; k++) {
            snprintf(names[k], sizeof(names[k]), "%s_%zu", k == 0 ? "whole" : "parts", i);
            const ps_variable_spec spec = spec_of(names[k], i, &optimizer, k == 1);
            params[k][i] = ps_param_get_spec(s, &spec);
            assert_string_equal(ps_param_name(params[k][i]), names[k]);
        }
    }
    must(s, ps_session_ready(s));
    for (int step = 0; step < STEPS; step++) {
        must(s, ps_pull(s));
        for (size_t i = 0; i < PAIRS; i++) {
            if (!prefetch) {
                same(s, i, ps_param_value(params[0][i]), ps_param_value(params[1][i]), "a pull");
            }
            float *a = ps_param_grad(params[0][i]), *b = ps_param_grad(params[1][i]);
            for (int k = 0; k < ELEMENTS; k++) {
                random = random * 1664525u + 1013904223u;
                a[k] = b[k] = (float)(random >> 8) / 8388608.0f - 1.0f;
            }
            must(s, step % 2 == 0 ? ps_push(s, params[0][i]) : ps_push_pull(s, params[0][i]));
            must(s, step % 2 == 0 ? ps_push(s, params[1][i]) : ps_push_pull(s, params[1][i]));
        }
        must(s, ps_step_done(s));
    }
    assert_int_equal(ps_global_step(s), STEPS);
    for (size_t i = 0; i < PAIRS; i++) {
        float value[2][ELEMENTS];
        for (int k = 0; k < 2; k++) {
            ps_variable *v = NULL;
            must(s, ps_variable_find(s, ps_param_name(params[k][i]), &v));
            must(s, ps_variable_read(v, value[k], sizeof(value[k])));
        }
        same(s, i, value[0], value[1], "the end");
    }
    assert_int_equal(ps_session_close(s), 0);
}

static void own_pace(void **state)
{
    (void)state;
    trains(open_worker(false), false);
}

static void ahead(void **state)
{
    (void)state;
    trains(open_worker(true), true);
}

static void in_rounds(void **state)
{
    (void)state;
    ps_session *s = open_worker(false);
    ps_sync_options sync;
    ps_sync_options_init(&sync);
    sync.mode = PS_SYNC_ROUNDS;
    must(s, ps_session_sync(s, &sync));
    trains(s, false);
}

static void several(void **state)
{
    (void)state;
    enum { COUNT = 4 };
    ps_session *s = open_worker(false);
    ps_variable *v[COUNT];
    ps_variable_spec specs[COUNT];
    static const char *const names[COUNT] = {"a", "b", "c", "d"};
    float value[ELEMENTS];
    for (size_t i = 0; i < COUNT; i++) {
        specs[i] = spec_of(names[i], i, ps_sgd(1), i % 2 == 1);
    }
    must(s, ps_variables_get(s, specs, COUNT, v));
    for (size_t i = 0; i < COUNT; i++) {
        assert_string_equal(ps_variable_name(v[i]), names[i]);
        assert_int_equal(ps_variable_partitions(v[i]), i % 2 == 1 ? cuts[i % CUTS].parts : 0);
        must(s, ps_variable_init(v[i], false));
        must(s, ps_variable_read(v[i], value, sizeof(value)));
        assert_true(value[ELEMENTS - 1] == 0.5f);
    }
    assert_int_equal(ps_session_close(s), 0);
    /* another layout is refused, with its name; the others are there */
    s = open_worker(false);
    specs[1].partition_layout = PS_LAYOUT_DIV;
    specs[3].partitions = 11;
    assert_int_equal(ps_variables_get(s, specs, COUNT, v), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_last_error(), "spec 3: variable 'd' in 11 parts"));
    assert_non_null(v[0]);
    assert_null(v[1]);
    assert_non_null(v[2]);
    assert_null(v[3]);
    assert_int_equal(ps_variables_get(s, specs, 2, v), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_last_error(), "layout mod"));
    assert_int_equal(ps_session_close(s), 0);
}

static void refused(void **state)
{
    (void)state;
    ps_session *s = open_worker(false);
    ps_variable_spec spec = spec_of("double", 0, ps_sgd(1), true);
    spec.dtype = PS_F64;
    assert_non_null(ps_param_get_spec(s, &spec));
    assert_non_null(strstr(ps_session_error(s), "ps_param_get_spec: its dtype is float64, and must be float32"));
    assert_int_equal(ps_session_close(s), PS_INVALID_ARGUMENT);
    s = open_worker(false);
    assert_non_null(ps_param_get_spec(s, NULL));
    assert_int_equal(ps_session_close(s), PS_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(own_pace, empty), cmocka_unit_test_setup(ahead, empty),   cmocka_unit_test_setup(in_rounds, empty),
        cmocka_unit_test_setup(several, empty),  cmocka_unit_test_setup(refused, empty),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
