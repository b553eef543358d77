/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How hooks end training without an error, or a step: the end of the input that one of them finds, and guards against NaN,
 * asynchronous and in rounds. Each case has a container of its own.
 */
#include "hooks_test.h"

/* ---- the end of the input ---- */

static ps_status at_the_end(void *ctx, ps_session *s)
{
    (void)s;
    return *(int64_t *)ctx <= ps_global_step(s) ? PS_OUT_OF_RANGE : PS_OK;
}

static ps_status behind_the_end(void *ctx, ps_session *s, const ps_step_values *values)
{
    (void)values;
    return at_the_end(ctx, s);
}

/* Its input: a queue that is closed and empty. */
static ps_status dequeues(void *ctx, ps_session *s)
{
    int64_t element = 0;
    (void)s;
    return ps_dequeue(ctx, PS_INTO({&element, sizeof(element)}), TIMEOUT_MS);
}

/* A loop with a hook that ends the input between two that leave a trace; nothing fails, and all are told of the end. */
static void input_ends(const ps_hook *hook, int64_t steps, const char *traced)
{
    struct worker k;
    struct tracer a = {.k = NULL}, b = {.k = NULL};
    new_container(NULL);
    open_worker(&k, -1, NULL);
    add_tracer(&a, &k, "1");
    assert_int_equal(ps_add_hook(k.s, hook), PS_OK);
    add_tracer(&b, &k, "2");
    ready(&k);
    while (!ps_should_stop(k.s)) {
        assert_int_equal(step(&k), PS_OK);
    }
    assert_true(ps_should_stop(k.s));
    assert_int_equal(ps_global_step(k.s), steps);
    assert_int_equal(ps_session_status(k.s), PS_OK);
    assert_trace(&k, traced);
    k.trace[0] = '\0';
    assert_non_null(strstr(k.log, "ev=input_ended hook=input at="));
    assert_null(strstr(k.log, "ev=session_failed"));
    assert_int_equal(ps_session_close(k.s), 0);
    assert_string_equal(k.trace, "end1 end2 ");
}

static void the_input_ends(void **state)
{
    static int64_t at;
    ps_hook hook;
    (void)state;
    ps_hook_init(&hook);
    hook.name = "input";
    hook.ctx = &at;
    at = 0;
    hook.after_create_session = at_the_end;
    input_ends(&hook, 0, "begin1 begin2 created1 ");
    hook.after_create_session = NULL;
    at = 2;
    hook.before_run = at_the_end;
    input_ends(&hook, 2, "begin1 begin2 created1 created2 before1 before2 after1 after2 before1 before2 after1 after2 before1 ");
    hook.before_run = NULL;
    hook.after_run = behind_the_end;
    input_ends(&hook, 2, "begin1 begin2 created1 created2 before1 before2 after1 after2 before1 before2 after1 ");
    hook.after_run = NULL;
    hook.end = at_the_end; /* it ends anyway: all are told */
    struct worker k;
    struct tracer b = {.k = NULL};
    new_container(NULL);
    open_worker(&k, -1, NULL);
    at = 0;
    assert_int_equal(ps_add_hook(k.s, &hook), PS_OK);
    add_tracer(&b, &k, "2");
    ready(&k);
    k.trace[0] = '\0';
    assert_int_equal(ps_session_close(k.s), 0);
    assert_string_equal(k.trace, "end2 ");
}

/* What a call in it says, as TensorFlow's OutOfRangeError. */
static void a_queue_ends(void **state)
{
    struct worker k;
    ps_hook hook;
    ps_queue_spec spec;
    ps_queue *q = NULL;
    const int64_t elements[] = {1, 2, 3};
    (void)state;
    open_worker(&k, -1, NULL);
    ps_queue_spec_init(&spec, "input", PS_I64, PS_SCALAR);
    assert_int_equal(ps_queue_get(k.s, &spec, &q), PS_OK);
    assert_int_equal(ps_enqueue_many(q, PS_FROM({elements, sizeof(elements)}), 3, TIMEOUT_MS, NULL), PS_OK);
    assert_int_equal(ps_queue_close(q, false, TIMEOUT_MS), PS_OK);
    ps_hook_init(&hook);
    hook.name = "input";
    hook.ctx = q;
    hook.before_run = dequeues;
    assert_int_equal(ps_add_hook(k.s, &hook), PS_OK);
    ready(&k);
    while (!ps_should_stop(k.s)) {
        assert_int_equal(step(&k), PS_OK);
    }
    assert_int_equal(ps_global_step(k.s), 3);
    assert_non_null(strstr(k.log, "ev=input_ended hook=input at=before_run global_step=3"));
    assert_int_equal(ps_session_close(k.s), 0);
}

/* ---- guards ---- */

static void nan_stops(void **state)
{
    struct worker k;
    (void)state;
    open_worker(&k, -1, NULL);
    assert_int_equal(ps_add_nan_hook(k.s, "loss", PS_NAN_STOP), PS_OK);
    ready(&k);
    assert_int_equal(step(&k), PS_OK);
    assert_int_equal(ps_step_value(k.s, "other", (double)NAN), PS_OK);
    assert_int_equal(ps_step_value(k.s, "loss", 1), PS_OK);
    assert_int_equal(ps_step_value(k.s, "loss", (double)NAN), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_session_reason(k.s), PS_REASON_NOT_FINITE);
    assert_string_equal(ps_session_error(k.s), "ps_step_value: 'loss' is nan behind global step 1");
    assert_true(ps_should_stop(k.s));
    assert_int_equal(push(&k, 1), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_session_close(k.s), PS_INVALID_ARGUMENT);
    open_worker(&k, -1, NULL);
    ready(&k);
    assert_w(&k, -1); /* nothing of that step */
    assert_int_equal(ps_session_close(k.s), 0);
}

static void nan_skips(void **state)
{
    struct worker k;
    struct tracer a = {.k = NULL};
    (void)state;
    open_worker(&k, -1, NULL);
    assert_int_equal(ps_add_nan_hook(k.s, NULL, PS_NAN_SKIP), PS_OK);
    add_tracer(&a, &k, "1");
    ready(&k);
    k.trace[0] = '\0';
    for (int i = 0; i < 4; i++) {
        assert_false(ps_should_stop(k.s));
        assert_int_equal(ps_step_value(k.s, "loss", i % 2 == 0 ? 1 : (double)INFINITY), PS_OK);
        assert_int_equal(push(&k, 1), PS_OK);
        assert_int_equal(ps_push_pull(k.s, k.w), PS_OK);
        assert_int_equal(ps_step_done(k.s), PS_OK);
    }
    assert_trace(&k, "before1 after1 before1 before1 after1 before1 ");
    assert_int_equal(ps_skipped(k.s), 2);
    assert_int_equal(ps_global_step(k.s), 2);
    assert_w(&k, -4);
    assert_non_null(strstr(k.log, "ev=step_skipped global_step=1 name=loss value=inf skipped_before=0"));
    assert_non_null(strstr(k.log, "ev=step_skipped global_step=2 name=loss value=inf skipped_before=1"));
    assert_false(ps_should_stop(k.s));
    assert_int_equal(push(&k, 1), PS_OK); /* before the value: it counts */
    assert_int_equal(ps_step_value(k.s, "loss", (double)-INFINITY), PS_OK);
    assert_int_equal(push(&k, 1), PS_OK);
    assert_int_equal(ps_step_done(k.s), PS_OK);
    assert_w(&k, -5);
    assert_int_equal(ps_global_step(k.s), 2);
    for (int i = 2; i < PS_NAN_SKIPS_MAX; i++) { /* this one and the one before were skipped */
        assert_int_equal(ps_step_value(k.s, "loss", (double)NAN), PS_OK);
        assert_int_equal(ps_step_done(k.s), PS_OK);
    }
    assert_int_equal(ps_step_value(k.s, "loss", (double)NAN), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_session_reason(k.s), PS_REASON_NOT_FINITE);
    assert_non_null(strstr(ps_session_error(k.s), "so it was in 100 steps in a row"));
    assert_int_equal(ps_session_close(k.s), PS_INVALID_ARGUMENT);
}

static ps_status says_nan(void *ctx, ps_session *s, const ps_step_values *values)
{
    (void)ctx;
    (void)values;
    return ps_step_value(s, "loss", (double)NAN);
}

/* The step is left out and training is over, and nothing has failed. */
static void nan_ends(void **state)
{
    struct worker k;
    struct tracer a = {.k = NULL};
    (void)state;
    open_worker(&k, -1, NULL);
    assert_int_equal(ps_add_nan_hook(k.s, NULL, PS_NAN_SKIP), PS_OK);
    assert_int_equal(ps_add_nan_hook(k.s, "loss", PS_NAN_END), PS_OK);
    assert_int_equal(ps_add_nan_hook(k.s, NULL, PS_NAN_SKIP), PS_OK);
    add_tracer(&a, &k, "1");
    ready(&k);
    k.trace[0] = '\0';
    assert_false(ps_should_stop(k.s));
    assert_int_equal(ps_step_value(k.s, "loss", 1), PS_OK);
    assert_int_equal(step(&k), PS_OK);
    assert_false(ps_should_stop(k.s));
    assert_int_equal(ps_step_value(k.s, "other", (double)NAN), PS_OK); /* skips */
    assert_int_equal(step(&k), PS_OK);
    assert_false(ps_should_stop(k.s));
    assert_int_equal(ps_step_value(k.s, "loss", (double)NAN), PS_OK);
    assert_int_equal(ps_step_value(k.s, "loss", (double)INFINITY), PS_OK); /* said once */
    assert_int_equal(step(&k), PS_OK);
    assert_true(ps_should_stop(k.s));
    assert_int_equal(ps_session_status(k.s), PS_OK);
    assert_int_equal(ps_global_step(k.s), 1);
    assert_int_equal(ps_skipped(k.s), 2);
    assert_w(&k, -1);
    assert_trace(&k, "before1 after1 before1 before1 ");
    assert_non_null(strstr(k.log, "ev=nan_ended global_step=1 name=loss value=nan"));
    assert_null(strstr(k.log, "value=inf"));
    k.trace[0] = '\0';
    assert_int_equal(ps_session_close(k.s), 0);
    assert_string_equal(k.trace, "end1 ");
}

/* What is counted, or pushed in a round, stays: the step is the last one. */
static void nan_ends_late(void **state)
{
    struct worker k;
    ps_hook hook;
    ps_sync_options sync;
    (void)state;
    open_worker(&k, -1, NULL);
    assert_int_equal(ps_add_nan_hook(k.s, "loss", PS_NAN_END), PS_OK);
    ps_hook_init(&hook);
    hook.after_run = says_nan;
    assert_int_equal(ps_add_hook(k.s, &hook), PS_OK);
    ready(&k);
    assert_int_equal(step(&k), PS_OK);
    assert_true(ps_should_stop(k.s));
    assert_int_equal(ps_global_step(k.s), 1);
    assert_int_equal(ps_session_close(k.s), 0);
    new_container(NULL);
    ps_sync_options_init(&sync);
    sync.workers = 1;
    open_worker(&k, 0, &sync);
    assert_int_equal(ps_add_nan_hook(k.s, NULL, PS_NAN_END), PS_OK);
    ready(&k);
    assert_int_equal(push(&k, 1), PS_OK);
    assert_int_equal(ps_step_value(k.s, "loss", (double)NAN), PS_OK);
    assert_int_equal(ps_step_done(k.s), PS_OK);
    assert_true(ps_should_stop(k.s));
    assert_int_equal(ps_global_step(k.s), 1);
    assert_int_equal(ps_skipped(k.s), 0);
    assert_int_equal(ps_session_close(k.s), 0);
}

static void nan_too_late(void **state)
{
    struct worker k;
    ps_hook hook;
    (void)state;
    open_worker(&k, -1, NULL);
    assert_int_equal(ps_add_nan_hook(k.s, "loss", PS_NAN_SKIP), PS_OK);
    ps_hook_init(&hook);
    hook.name = "late";
    hook.after_run = says_nan;
    assert_int_equal(ps_add_hook(k.s, &hook), PS_OK);
    ready(&k);
    assert_int_equal(step(&k), PS_FAILED_PRECONDITION);
    assert_non_null(strstr(ps_session_error(k.s), "hook 'late', after_run: ps_step_value: 'loss' is nan: the step cannot be "
                                                  "skipped, because it is counted"));
    assert_int_equal(ps_session_close(k.s), PS_FAILED_PRECONDITION);
}

static void *step_thread(void *arg)
{
    const struct worker *k = arg;
    (void)step(k); /* what fails sticks */
    return NULL;
}

static void nan_skips_in_rounds(void **state)
{
    struct worker a;
    struct worker b;
    ps_sync_options sync;
    pthread_t thread;
    (void)state;
    ps_sync_options_init(&sync);
    sync.workers = 2;
    open_worker(&a, 0, &sync);
    open_worker(&b, 1, &sync);
    assert_int_equal(ps_add_nan_hook(b.s, "loss", PS_NAN_SKIP), PS_OK);
    ready(&a);
    ready(&b);
    for (int round = 1; round <= 3; round++) {
        assert_int_equal(pthread_create(&thread, NULL, step_thread, &a), 0);
        for (int skips = 0; skips < 2; skips++) { /* the round waits for it */
            assert_int_equal(ps_step_value(b.s, "loss", (double)NAN), PS_OK);
            assert_int_equal(step(&b), PS_OK);
            assert_int_equal(ps_global_step(b.s), round - 1);
        }
        assert_int_equal(ps_step_value(b.s, "loss", 1), PS_OK);
        assert_int_equal(step(&b), PS_OK);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(ps_session_status(a.s), PS_OK);
        assert_int_equal(ps_global_step(b.s), round);
        assert_w(&b, (float)-round);
    }
    assert_int_equal(ps_skipped(b.s), 6);
    assert_int_equal(ps_skipped(a.s), 0);
    assert_int_equal(push(&b, 1), PS_OK);
    assert_int_equal(ps_step_value(b.s, "loss", (double)NAN), PS_FAILED_PRECONDITION);
    assert_non_null(strstr(ps_session_error(b.s), "because parameter 'w' was pushed in it"));
    assert_int_equal(ps_session_close(b.s), PS_FAILED_PRECONDITION);
    assert_int_equal(ps_session_close(a.s), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_input_ends, new_container), cmocka_unit_test_setup(a_queue_ends, new_container),
        cmocka_unit_test_setup(nan_stops, new_container),      cmocka_unit_test_setup(nan_skips, new_container),
        cmocka_unit_test_setup(nan_ends, new_container),       cmocka_unit_test_setup(nan_ends_late, new_container),
        cmocka_unit_test_setup(nan_too_late, new_container),   cmocka_unit_test_setup(nan_skips_in_rounds, new_container),
    };
    return cmocka_run_group_tests(tests, start, end);
}
