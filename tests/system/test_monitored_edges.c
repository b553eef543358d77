/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Monitored sessions that are lost at awkward moments: before anything was got, with values on their way to second buffers, with
 * variables that were only found, while a thread closes the session or several look after it, a parameter that comes too late.
 */
#include "monitored_test.h"

#include "ps_nn.h"

#include <signal.h>

/* ---- a task that comes late ---- */

struct readier {
    ps_session *s;
    ps_status status;
};

static void *make_ready(void *arg)
{
    struct readier *r = arg;
    r->status = ps_session_ready(r->s);
    return NULL;
}

/* Calls that fail before the task comes, and that a busy machine completes afterwards. */
static void calls_of_a_second(ps_session_options *o)
{
    o->operation_timeout_ms = 1000;
}

/* The program starts first; its parameters are those that it has been given, with the buffers. */
static void test_task_comes_late(void **state)
{
    (void)state;
    struct seen seen;
    struct model m;
    pthread_t thread;
    test_cluster_kill(&cluster, 1);
    ps_session *s = open_monitored(&seen, NULL, calls_of_a_second);
    struct readier readier = {.s = s, .status = PS_UNKNOWN};
    model_get(s, &m);
    assert_int_equal(pthread_create(&thread, NULL, make_ready, &readier), 0);
    while (atomic_load(&seen.tries) < 2) {
        (void)usleep(1000); /* sleep: looks at what it waits for */
    }
    test_cluster_start(&cluster, 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(readier.status, PS_OK);
    assert_int_equal(atomic_load(&seen.recovered), 1);
    ps_session_set_deadline(s, TIMEOUT_MS);
    assert_int_equal(train(s, &m, 5, -1, NULL), 5);
    assert_values(s, &m, 1 - 5 * 0.5F, 5);
    assert_int_equal(ps_session_close(s), 0);
}

/* ---- second buffers ---- */

static void with_prefetch(ps_session_options *o)
{
    o->prefetch = true;
}

/* Values that were on their way, or there, are of the model that was lost: the next ones are read anew. */
static void second_buffers(void (*tweak)(ps_session_options *o))
{
    struct seen seen;
    struct model m;
    ps_session *s = open_monitored(&seen, NULL, tweak);
    model_get(s, &m);
    assert_int_equal(ps_session_ready(s), PS_OK);
    for (int i = 0; ps_global_step(s) < 5 || atomic_load(&seen.recovered) == 0; i++) {
        assert_false(ps_should_stop(s));
        ps_pull(s);
        float *w = ps_param_grad(m.w);
        for (int k = 0; k < WIDTH; k++) {
            w[k] = 1;
        }
        ps_push_pull(s, m.w);
        ps_step_done(s);
        if (i == 7) {
            restart_all();
        }
    }
    ps_pull(s);
    ps_pull(s); /* with prefetch one pull later */
    assert_float_equal(((float *)ps_param_value(m.w))[0], 1 - (float)ps_global_step(s), 0);
    assert_int_equal(ps_session_close(s), 0);
}

static void test_second_buffers(void **state)
{
    (void)state;
    second_buffers(NULL);
    restart_all();
    second_buffers(with_prefetch);
}

/* Those that have come, and that no pull has taken when the loss is found. */
static void test_values_ahead(void **state)
{
    (void)state;
    struct seen seen;
    struct model m;
    ps_session *s = open_monitored(&seen, NULL, NULL);
    model_get(s, &m);
    assert_int_equal(ps_session_ready(s), PS_OK);
    m.w_grad[0] = 1;
    assert_int_equal(ps_push_pull(s, m.w), PS_OK);
    assert_ptr_equal(ps_param_grad(m.w), m.w_grad); /* the push is over, and its values are there */
    restart_all();
    assert_int_equal(ps_step_done(s), PS_ABORTED);
    assert_false(ps_should_stop(s));
    assert_int_equal(ps_pull(s), PS_OK);
    assert_float_equal(((float *)ps_param_value(m.w))[0], 1, 0);
    assert_int_equal(ps_session_close(s), 0);
}

/* ---- what was only found ---- */

static ps_variable *make_x(ps_session *s, int64_t width)
{
    const float value[2] = {4, 5};
    ps_variable *x = get(s, "x", PS_F32, PS_SHAPE(width), NULL);
    assert_int_equal(ps_variable_assign(x, value, (size_t)width * sizeof(float)), PS_OK);
    return x;
}

struct maker {
    ps_session *s;
    int64_t width;
};

static void *make_again(void *arg)
{
    const struct maker *maker = arg;
    (void)usleep(400000); /* sleep: several tries */
    (void)make_x(maker->s, maker->width);
    return NULL;
}

/* Nothing makes it here: it is waited for until somebody else has. As another one it is not what the program has found. */
static void found_again(int64_t width)
{
    struct seen seen;
    struct model m;
    pthread_t thread;
    ps_variable *x = NULL;
    float value[2] = {0};
    ps_session *other = open_session(TIMEOUT_MS);
    (void)make_x(other, 2);
    assert_int_equal(ps_session_close(other), 0);
    struct maker maker = {.s = open_session(TIMEOUT_MS), .width = width};
    ps_session *s = open_monitored(&seen, NULL, NULL);
    model_get(s, &m);
    assert_int_equal(ps_variable_find(s, "x", &x), PS_OK);
    assert_int_equal(ps_session_ready(s), PS_OK);
    restart_all();
    assert_int_equal(pthread_create(&thread, NULL, make_again, &maker), 0);
    ps_push(s, m.w);
    assert_int_not_equal(ps_step_done(s), PS_OK);
    assert_int_equal(ps_should_stop(s), width != 2);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(ps_session_close(maker.s), 0);
    if (width == 2) {
        assert_int_equal(ps_variable_read(x, value, sizeof(value)), PS_OK);
        assert_float_equal(value[1], 5, 0);
        assert_int_equal(ps_session_close(s), 0);
    } else {
        assert_int_equal(ps_session_status(s), PS_FAILED_PRECONDITION);
        assert_non_null(strstr(ps_session_error(s), "variable 'x': another dtype or shape"));
        assert_int_equal(ps_variable_bytes(x), sizeof(value));
        assert_int_equal(ps_session_close(s), PS_FAILED_PRECONDITION);
    }
}

static void test_found_again(void **state)
{
    (void)state;
    found_again(2);
    restart_all();
    found_again(1);
}

/* ---- several threads ---- */

struct looker {
    ps_session *s;
    bool stops;
};

static void *look_after(void *arg)
{
    struct looker *l = arg;
    l->stops = ps_should_stop(l->s);
    return NULL;
}

/* One of them makes the session anew, the others wait for that. */
static void test_all_look_after_it(void **state)
{
    (void)state;
    enum { LOOKERS = 4 };
    struct seen seen;
    struct model m;
    struct looker lookers[LOOKERS];
    pthread_t threads[LOOKERS];
    ps_session *s = open_monitored(&seen, NULL, NULL);
    model_get(s, &m);
    assert_int_equal(ps_session_ready(s), PS_OK);
    restart_all();
    ps_push(s, m.w);
    assert_int_not_equal(ps_step_done(s), PS_OK);
    for (int i = 0; i < LOOKERS; i++) {
        lookers[i] = (struct looker){.s = s, .stops = true};
        assert_int_equal(pthread_create(&threads[i], NULL, look_after, &lookers[i]), 0);
    }
    for (int i = 0; i < LOOKERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_false(lookers[i].stops);
    }
    assert_int_equal(atomic_load(&seen.recovered), 1);
    assert_int_equal(ps_session_close(s), 0);
}

/* A session that hears late of the loss: how many steps the model has by then says nothing of how many it has lost. */
static void test_others_are_further(void **state)
{
    (void)state;
    struct seen seen[2];
    struct model m[2];
    ps_session *s[2];
    ps_recovery last = {.struct_bytes = sizeof(last)};
    for (int i = 0; i < 2; i++) {
        s[i] = open_monitored(&seen[i], NULL, NULL);
        model_get(s[i], &m[i]);
        assert_int_equal(ps_session_ready(s[i]), PS_OK);
        assert_int_equal(train(s[i], &m[i], 5 * (i + 1), -1, NULL), 5);
    }
    restart_all();
    (void)train(s[0], &m[0], 25, -1, NULL);
    assert_int_equal(ps_monitored_last_recovery(s[0], &last), PS_OK);
    assert_true(last.replaced && last.initialised);
    assert_int_equal(last.lost_steps, 5);
    (void)train(s[1], &m[1], 30, -1, NULL);
    assert_int_equal(ps_monitored_last_recovery(s[1], &last), PS_OK);
    assert_true(last.replaced && !last.initialised);
    assert_int_equal(last.step_before, 10);
    assert_int_equal(last.step, 25);
    assert_int_equal(last.model_step, 0);
    assert_int_equal(last.lost_steps, 10);
    assert_values(s[1], &m[1], 1 - 30 * 0.5F, 30);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ps_session_close(s[i]), 0);
    }
}

/* A task stays away; whoever closes the session meanwhile does not wait for it. */
static void test_leave_meanwhile(void **state)
{
    (void)state;
    struct seen seen;
    struct model m;
    struct looker looker;
    pthread_t thread;
    ps_session *s = open_monitored(&seen, NULL, short_calls);
    model_ready(s, &m);
    test_cluster_kill(&cluster, 1);
    ps_push(s, m.b);
    assert_int_equal(ps_step_done(s), PS_UNAVAILABLE);
    looker = (struct looker){.s = s};
    assert_int_equal(pthread_create(&thread, NULL, look_after, &looker), 0);
    (void)usleep(500000); /* sleep: it is in the middle of it */
    ps_session_leave(s);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(looker.stops);
    assert_int_equal(ps_session_status(s), PS_UNAVAILABLE); /* what broke it */
    assert_int_equal(atomic_load(&seen.recovered), 0);
    assert_int_equal(ps_session_close(s), PS_UNAVAILABLE);
}

/* ---- nothing to hold on to ---- */

/* What the program asks for in a session that is lost makes it anew first. */
static void test_parameter_too_late(void **state)
{
    (void)state;
    struct seen seen;
    struct model m;
    ps_session *s = open_monitored(&seen, NULL, NULL);
    model_get(s, &m);
    assert_int_equal(ps_session_ready(s), PS_OK);
    restart_all();
    ps_push(s, m.w);
    assert_int_equal(ps_step_done(s), PS_ABORTED);
    ps_param *late = ps_param_get(s, "late", PS_SHAPE(2), ps_ones(), NULL);
    assert_int_equal(atomic_load(&seen.recovered), 1);
    assert_false(ps_should_stop(s));
    assert_string_equal(ps_param_name(late), "late");
    assert_int_equal(ps_session_status(s), PS_OK);
    assert_int_equal(ps_session_close(s), 0);
}

/* ---- what programs say themselves ---- */

/* Layers, and a program that reports what a call told it, say nothing new: the session is made anew all the same. */
static void test_layers_and_reports(void **state)
{
    (void)state;
    struct seen seen;
    struct model m;
    static float image[2 * WIDTH];
    static ps_tensor x;
    static ps_tensor y;
    ps_session *s = open_monitored(&seen, NULL, NULL);
    model_get(s, &m);
    ps_param *layer = ps_param_get(s, "layer", PS_SHAPE(WIDTH, 3), ps_zeros(), ps_sgd(1));
    ps_param *bias = ps_param_get(s, "bias", PS_SHAPE(3), ps_zeros(), ps_sgd(1));
    assert_int_equal(ps_session_ready(s), PS_OK);
    ps_tensor_wrap(&x, image, 2, WIDTH);
    if (ps_dense(&x, layer, bias, &y) != PS_OK) {
        fail_msg("%s", ps_nn_error());
    }
    restart_all();
    ps_push(s, m.w);
    assert_int_equal(ps_step_done(s), PS_ABORTED);
    assert_int_equal(ps_dense(&x, layer, bias, &y), PS_ABORTED);
    assert_int_equal(ps_dense_backward(&x, &y, layer, bias, NULL), PS_ABORTED);
    assert_int_equal(ps_session_fail(s, PS_ABORTED, "the step failed"), PS_ABORTED);
    assert_false(ps_should_stop(s));
    assert_int_equal(ps_dense(&x, layer, bias, &y), PS_OK);
    assert_int_equal(atomic_load(&seen.failed), 0);
    ps_tensor_free(&x), ps_tensor_free(&y);
    assert_int_equal(ps_session_close(s), 0);
}

static void *wake_second(void *arg)
{
    (void)arg;
    (void)usleep(2000000); /* sleep: longer than what is in flight is given */
    assert_int_equal(kill(cluster.pid[1], SIGCONT), 0);
    return NULL;
}

/* A push is in flight at a task that is only slow, and ends with the session: that is no error of its own. */
static void test_slow_task(void **state)
{
    (void)state;
    struct seen seen;
    struct model m;
    pthread_t thread;
    ps_session *s = open_that_starts_over(&seen, NULL);
    model_get(s, &m);
    assert_int_equal(ps_session_ready(s), PS_OK);
    test_cluster_hang(&cluster, 1);
    assert_int_equal(ps_push(s, m.b), PS_OK);
    test_cluster_kill(&cluster, 0);
    test_cluster_start(&cluster, 0);
    read_until_lost(s, &m);
    assert_int_equal(pthread_create(&thread, NULL, wake_second, NULL), 0);
    assert_false(ps_should_stop(s));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_values(s, &m, 1, 0);
    assert_int_equal(ps_session_close(s), 0);
}

/* ---- a model that is not this program's ---- */

static ps_status no_restore(void *ctx, ps_session *s)
{
    (void)s;
    (*(int *)ctx)++;
    return PS_OK;
}

/* What has no value at the start may be new: nothing is taken away for it. */
static void test_another_program(void **state)
{
    (void)state;
    struct seen seen;
    struct model m;
    ps_monitored_options o;
    int calls = 0;
    float value[WIDTH];
    ps_variable *w = NULL;
    ps_session *s = open_monitored(&seen, NULL, NULL);
    model_get(s, &m);
    assert_int_equal(ps_session_ready(s), PS_OK);
    assert_int_equal(train(s, &m, 4, -1, NULL), 4);
    assert_int_equal(ps_session_close(s), 0);
    ps_monitored_options_init(&o);
    o.restore = no_restore;
    o.restore_ctx = &calls;
    s = open_monitored(&seen, &o, NULL);
    (void)ps_param_get(s, "new_layer", PS_SHAPE(3), ps_zeros(), ps_sgd(1));
    assert_int_equal(ps_session_ready(s), PS_DATA_LOSS);
    assert_int_equal(calls, 0);
    assert_int_equal(ps_session_close(s), PS_DATA_LOSS);
    s = open_session(TIMEOUT_MS);
    assert_int_equal(ps_variable_find(s, "w", &w), PS_OK);
    assert_int_equal(ps_variable_read(w, value, sizeof(value)), PS_OK);
    assert_float_equal(value[0], 1 - 4 * 0.5F, 0);
    assert_int_equal(ps_session_close(s), 0);
}

/* ---- a get of another thread meanwhile ---- */

static void *get_unique(void *arg)
{
    ps_variable_spec spec;
    ps_variable *v = NULL;
    ps_variable_spec_init(&spec);
    spec.name = "mine";
    spec.dtype = PS_F32;
    spec.unique = true;
    return ps_variable_get(arg, &spec, &v) == PS_OK ? (void *)v : NULL;
}

static ps_status restore_beside(void *ctx, ps_session *s)
{
    pthread_t thread;
    void *got = NULL;
    int *calls = ctx;
    if (++*calls == 2) { /* in the recovery */
        assert_int_equal(pthread_create(&thread, NULL, get_unique, s), 0);
        assert_int_equal(pthread_join(thread, &got), 0);
        assert_null(got);
    }
    return PS_OK;
}

/* It is refused, and has taken no name. */
static void test_get_meanwhile(void **state)
{
    (void)state;
    struct seen seen;
    struct model m;
    ps_monitored_options o;
    int calls = 0;
    ps_monitored_options_init(&o);
    o.restore = restore_beside;
    o.restore_ctx = &calls;
    ps_session *s = open_monitored(&seen, &o, NULL);
    model_get(s, &m);
    assert_int_equal(ps_session_ready(s), PS_OK);
    assert_int_equal(train(s, &m, 4, 1, restart_all), 1 + 1 + 4);
    assert_int_equal(calls, 2);
    const ps_variable *v = get_unique(s);
    assert_string_equal(ps_variable_name(v), "mine");
    assert_int_equal(ps_session_close(s), 0);
}

/* ---- what a restore function may not do ---- */

struct bad {
    const char *calls; /* a call of the session, which is refused */
    ps_status returns;
    int count;
};

static ps_status restore_badly(void *ctx, ps_session *s)
{
    struct bad *bad = ctx;
    bad->count++;
    if (bad->calls == NULL) {
        return bad->returns;
    }
    assert_int_equal(bad->count, 1);
    const bool closes = strcmp(bad->calls, "ps_session_close()") == 0;
    const ps_status st = closes ? (ps_status)ps_session_close(s) : ps_session_ready(s);
    assert_int_equal(st, PS_FAILED_PRECONDITION);
    assert_non_null(strstr(ps_last_error(), bad->calls));
    assert_int_equal(ps_session_status(s), PS_OK);
    return bad->returns == PS_OK ? PS_OK : st;
}

static ps_session *open_badly(struct seen *seen, struct bad *bad)
{
    ps_monitored_options o;
    struct model m;
    ps_monitored_options_init(&o);
    o.restore = restore_badly;
    o.restore_ctx = bad;
    ps_session *s = open_monitored(seen, &o, NULL);
    model_get(s, &m);
    return s;
}

/* Calls that would have it called again, or take the session away: refused, and the session is whole where it goes on. */
static void test_calls_in_restore(void **state)
{
    (void)state;
    static const char *const calls[] = {"ps_session_ready()", "ps_session_close()"};
    struct seen seen;
    for (int i = 0; i < 4; i++) {
        struct bad bad = {.calls = calls[i / 2], .returns = i % 2 == 0 ? PS_FAILED_PRECONDITION : PS_OK};
        ps_session *s = open_badly(&seen, &bad);
        assert_int_equal(ps_session_ready(s), bad.returns);
        assert_int_equal(bad.count, 1);
        if (bad.returns != PS_OK) {
            assert_non_null(strstr(ps_session_error(s), "the restore function: "));
            assert_non_null(strstr(ps_session_error(s), "cannot be called in the restore function"));
        }
        assert_int_equal(ps_session_close(s), bad.returns);
        restart_all();
    }
}

/* A number that is no status is not passed on: 256 as a process' exit status would be 0. */
static void test_restore_returns_no_status(void **state)
{
    (void)state;
    struct seen seen;
    struct bad bad = {.returns = (ps_status)256};
    ps_session *s = open_badly(&seen, &bad);
    assert_int_equal(ps_session_ready(s), PS_INTERNAL);
    assert_int_equal(ps_session_reason(s), (ps_reason)PS_INTERNAL);
    assert_non_null(strstr(ps_session_error(s), "the restore function: it returned 256, which is no status"));
    assert_int_equal(ps_session_close(s), PS_INTERNAL);
    s = open_monitored(&seen, NULL, NULL);
    assert_int_equal(ps_session_fail(s, (ps_status)-1, "its own text"), PS_INTERNAL);
    assert_string_equal(ps_session_error(s), "-1, which is no status: its own text");
    assert_int_equal(ps_session_close(s), PS_INTERNAL);
}

/* What was found wrong, and handled, before it returned another status is not why. */
static ps_status restore_after_a_look(void *ctx, ps_session *s)
{
    ps_variable *x = NULL;
    int *count = ctx;
    if (++*count > 1) {
        return PS_OK;
    }
    assert_int_equal(ps_variable_find(s, "not_there", &x), PS_NOT_FOUND);
    return PS_UNAVAILABLE;
}

static void test_restore_after_a_look(void **state)
{
    (void)state;
    struct seen seen;
    struct model m;
    ps_recovery last = {.struct_bytes = sizeof(last)};
    ps_monitored_options o;
    int count = 0;
    ps_monitored_options_init(&o);
    o.restore = restore_after_a_look;
    o.restore_ctx = &count;
    ps_session *s = open_monitored(&seen, &o, NULL);
    model_get(s, &m);
    assert_int_equal(ps_session_ready(s), PS_OK);
    assert_int_equal(count, 2);
    assert_int_equal(ps_monitored_last_recovery(s, &last), PS_OK);
    assert_int_equal(last.status, PS_UNAVAILABLE);
    assert_int_equal(last.reason, PS_UNAVAILABLE);
    assert_false(last.replaced); /* there was none before */
    assert_int_equal(last.replacements, 0);
    assert_non_null(strstr(last.text, "the restore function: it returned UNAVAILABLE"));
    assert_int_equal(ps_session_close(s), 0);
}

static int64_t hasty_ms;

static void as_hasty_evaluator(ps_session_options *o)
{
    as_evaluator(o);
    o->ready_timeout_ms = hasty_ms;
}

/* Nobody makes the model: said at the ready timeout, and no loss. On a busy machine the first times may be over before the tasks
 * have answered. */
static void test_evaluator_alone(void **state)
{
    (void)state;
    struct seen seen;
    struct model m;
    bool answered = false;
    for (hasty_ms = 300; hasty_ms <= 20000 && !answered; hasty_ms *= 2) {
        ps_session *s = open_monitored(&seen, NULL, as_hasty_evaluator);
        model_get(s, &m);
        assert_int_equal(ps_session_ready(s), PS_DEADLINE_EXCEEDED);
        answered = ps_session_reason(s) == PS_REASON_NO_CHIEF && strstr(ps_session_error(s), "'w'") != NULL;
        assert_int_equal(atomic_load(&seen.lost), 0);
        assert_int_equal(ps_session_close(s), PS_DEADLINE_EXCEEDED);
    }
    assert_true(answered);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_task_comes_late, setup, teardown),
        cmocka_unit_test_setup_teardown(test_second_buffers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_values_ahead, setup, teardown),
        cmocka_unit_test_setup_teardown(test_found_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_all_look_after_it, setup, teardown),
        cmocka_unit_test_setup_teardown(test_others_are_further, setup, teardown),
        cmocka_unit_test_setup_teardown(test_leave_meanwhile, setup, teardown),
        cmocka_unit_test_setup_teardown(test_parameter_too_late, setup, teardown),
        cmocka_unit_test_setup_teardown(test_layers_and_reports, setup, teardown),
        cmocka_unit_test_setup_teardown(test_slow_task, setup, teardown),
        cmocka_unit_test_setup_teardown(test_another_program, setup, teardown),
        cmocka_unit_test_setup_teardown(test_get_meanwhile, setup, teardown),
        cmocka_unit_test_setup_teardown(test_calls_in_restore, setup, teardown),
        cmocka_unit_test_setup_teardown(test_restore_returns_no_status, setup, teardown),
        cmocka_unit_test_setup_teardown(test_restore_after_a_look, setup, teardown),
        cmocka_unit_test_setup_teardown(test_evaluator_alone, setup_workers, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
