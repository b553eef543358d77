/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hooks by the public API, sessions and servers in real processes: which are called when, in what order and on which thread; what
 * they see; one that fails; stop at a step, and how far it goes past it; lines of the log. Each case has a container of its own.
 */
#include "hooks_test.h"

static void in_order(void **state)
{
    struct worker k;
    struct tracer a = {.k = NULL};
    struct tracer b = {.k = NULL};
    (void)state;
    open_worker(&k, -1, NULL);
    add_tracer(&a, &k, "1");
    add_tracer(&b, &k, "2");
    assert_false(ps_should_stop(k.s)); /* it is not ready: no step begins */
    assert_trace(&k, "");
    ready(&k);
    assert_trace(&k, "begin1 begin2 created1 created2 ");
    for (int i = 0; i < 2; i++) {
        assert_false(ps_should_stop(k.s));
        assert_false(ps_should_stop(k.s)); /* once per step */
        assert_trace(&k, "before1 before2 ");
        assert_int_equal(push(&k, 1), PS_OK);
        assert_trace(&k, "");
        assert_int_equal(ps_step_done(k.s), PS_OK);
        assert_trace(&k, "after1 after2 ");
    }
    ready(&k); /* again */
    assert_trace(&k, "created1 created2 ");
    assert_false(ps_should_stop(k.s));
    ready(&k); /* in a step, which begins again */
    assert_false(ps_should_stop(k.s));
    assert_trace(&k, "before1 before2 created1 created2 before1 before2 ");
    ps_set_steps(k.s, 2);
    assert_true(ps_should_stop(k.s));
    assert_trace(&k, "");
    assert_int_equal(ps_session_close(k.s), 0);
    assert_trace(&k, "end1 end2 ");
}

static void no_end_without_a_beginning(void **state)
{
    struct worker k;
    struct tracer a = {.k = NULL};
    (void)state;
    open_worker(&k, -1, NULL);
    add_tracer(&a, &k, "1");
    assert_int_equal(ps_session_close(k.s), 0);
    assert_trace(&k, "");
    open_worker(&k, -1, NULL);
    add_tracer(&a, &k, "1");
    ready(&k);
    k.trace[0] = '\0';
    ps_session_leave(k.s); /* nothing can be asked any more */
    assert_int_equal(ps_session_close(k.s), 0);
    assert_trace(&k, "");
}

static void *look_thread(void *arg)
{
    const struct worker *k = arg;
    for (int i = 0; i < 1000; i++) {
        assert_false(ps_should_stop(k->s));
        (void)ps_step_value(k->s, i % 2 == 0 ? "even" : "odd", i);
    }
    return NULL;
}

/* The tracer asserts the thread. */
static void other_threads_only_look(void **state)
{
    struct worker k;
    struct tracer a = {.k = NULL};
    pthread_t thread;
    (void)state;
    open_worker(&k, -1, NULL);
    add_tracer(&a, &k, "1");
    ready(&k);
    k.trace[0] = '\0';
    assert_int_equal(pthread_create(&thread, NULL, look_thread, &k), 0); /* while no step is under way */
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_trace(&k, "");
    assert_int_equal(pthread_create(&thread, NULL, look_thread, &k), 0); /* while some are */
    for (int i = 0; i < 50; i++) {
        k.trace[0] = '\0';
        assert_false(ps_should_stop(k.s));
        assert_int_equal(step(&k), PS_OK);
        assert_trace(&k, "before1 after1 ");
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(ps_session_close(k.s), 0);
}

/* ---- one that fails ---- */

static void fails(const char *at, int how, ps_status want, const char *text, const char *called)
{
    struct worker k;
    struct tracer a = {.fails_at = at, .how = how};
    struct tracer b = {.k = NULL};
    new_container(NULL);
    open_worker(&k, -1, NULL);
    add_tracer(&a, &k, "1");
    add_tracer(&b, &k, "2");
    ps_status st = ps_session_ready(k.s);
    if (st == PS_OK && !ps_should_stop(k.s)) {
        assert_int_equal(push(&k, 1), PS_OK);
        st = ps_step_done(k.s);
    }
    if (strcmp(at, "end") != 0) {
        assert_int_equal(ps_session_status(k.s), want);
        assert_true(st == want || strcmp(at, "before") == 0);
        assert_true(ps_should_stop(k.s));
        assert_int_equal(strncmp(ps_session_error(k.s), "hook '1', ", 10), 0);
        assert_int_equal(strncmp(ps_session_error(k.s) + 10, text, strlen(text)), 0);
        assert_int_equal(step(&k), want);
    }
    assert_int_equal(ps_session_close(k.s), want);
    assert_trace(&k, called);
    assert_non_null(strstr(k.log, text));
}

static void a_hook_that_fails(void **state)
{
    (void)state;
    fails("begin", 1, PS_DATA_LOSS, "begin: it returned DATA_LOSS", "begin1 ");
    fails("created", 2, PS_DATA_LOSS, "after_create_session: its own text", "begin1 begin2 created1 ");
    fails("before", 3, PS_NOT_FOUND,
          "before_run: find of 'not_there' at /job:ps/task:", "begin1 begin2 created1 created2 before1 ");
    fails("after", 4, PS_INVALID_ARGUMENT, "after_run: ps_push: the parameter is NULL",
          "begin1 begin2 created1 created2 before1 before2 after1 ");
    fails("end", 1, PS_DATA_LOSS, "end: it returned DATA_LOSS",
          "begin1 begin2 created1 created2 before1 before2 after1 after2 end1 ");
    fails("created", 5, PS_INTERNAL, "after_create_session: it returned 256, which is no status", "begin1 begin2 created1 ");
    fails("end", 5, PS_INTERNAL, "end: it returned 256, which is no status",
          "begin1 begin2 created1 created2 before1 before2 after1 after2 end1 ");
}

/* ---- what a hook may do ---- */

static ps_status steps_itself(void *ctx, ps_session *s, const ps_step_values *values)
{
    struct worker *k = ctx;
    (void)values;
    assert_false(ps_should_stop(s));
    assert_int_equal(step(k), PS_OK); /* a step more, and no hook for it */
    assert_int_equal(ps_session_close(s), PS_FAILED_PRECONDITION);
    assert_non_null(strstr(ps_last_error(), "in a hook"));
    return PS_OK;
}

static ps_status stops(void *ctx, ps_session *s)
{
    (void)ctx;
    return ps_global_step(s) >= 4 ? ps_request_stop(s) : PS_OK;
}

static ps_status makes_a_parameter(void *ctx, ps_session *s)
{
    ps_param **b = ctx;
    *b = ps_param_get(s, "b", PS_SHAPE(2), ps_ones(), ps_sgd(1));
    return PS_OK;
}

static void what_hooks_do(void **state)
{
    struct worker k;
    ps_hook hook;
    ps_param *b = NULL;
    int steps = 0;
    (void)state;
    open_worker(&k, -1, NULL);
    ps_hook_init(&hook);
    hook.ctx = &k;
    hook.after_run = steps_itself;
    assert_int_equal(ps_add_hook(k.s, &hook), PS_OK);
    hook.ctx = &b;
    hook.after_run = NULL;
    hook.begin = makes_a_parameter;
    hook.before_run = stops;
    assert_int_equal(ps_add_hook(k.s, &hook), PS_OK);
    ready(&k);
    for (; !ps_should_stop(k.s); steps++) {
        assert_int_equal(step(&k), PS_OK);
    }
    assert_int_equal(steps, 2);
    assert_int_equal(ps_global_step(k.s), 4);
    assert_w(&k, -4);
    assert_true(((float *)ps_param_value(b))[1] == 1);
    assert_int_equal(ps_session_status(k.s), PS_OK);
    assert_int_equal(ps_session_close(k.s), 0);
}

static ps_status counts_begun(void *ctx, ps_session *s)
{
    (void)s;
    (*(int *)ctx)++;
    return PS_OK;
}

/* What asks whether the training would stop calls no hook and begins no step, on the thread that trains too. */
static void would_stop_only_looks(void **state)
{
    struct worker k;
    ps_hook hook;
    int begun = 0;
    (void)state;
    open_worker(&k, -1, NULL);
    ps_hook_init(&hook);
    hook.ctx = &begun;
    hook.before_run = counts_begun;
    assert_int_equal(ps_add_hook(k.s, &hook), PS_OK);
    assert_false(ps_would_stop(k.s));
    ready(&k);
    assert_false(ps_would_stop(k.s));
    assert_int_equal(begun, 0);
    assert_false(ps_should_stop(k.s));
    assert_int_equal(begun, 1);
    assert_int_equal(push(&k, 1), PS_OK);
    assert_false(ps_would_stop(k.s)); /* in the middle of a step */
    assert_int_equal(ps_step_done(k.s), PS_OK);
    assert_false(ps_would_stop(k.s));
    ps_set_steps(k.s, 1);
    assert_true(ps_would_stop(k.s));
    assert_null(strstr(k.log, "goal_reached"));
    ps_set_steps(k.s, 2);
    assert_false(ps_would_stop(k.s));
    assert_int_equal(ps_request_stop(k.s), PS_OK);
    assert_true(ps_would_stop(k.s));
    assert_true(ps_should_stop(k.s));
    assert_int_equal(begun, 1);
    assert_true(ps_would_stop(NULL));
    assert_int_equal(ps_session_close(k.s), 0);
}

/* ---- values ---- */

struct seen {
    int64_t step;
    uint32_t count;
    char text[1024];
};

static ps_status sees(void *ctx, ps_session *s, const ps_step_values *values)
{
    struct seen *seen = ctx;
    size_t used = 0;
    double found = 0;
    (void)s;
    seen->step = values->global_step;
    seen->count = values->count;
    seen->text[0] = '\0';
    for (uint32_t i = 0; i < values->count; i++) {
        used += (size_t)snprintf(seen->text + used, sizeof(seen->text) - used, "%s=%g ", values->names[i], values->values[i]);
        assert_true(ps_step_values_find(values, values->names[i], &found));
        assert_true(found == values->values[i]);
    }
    assert_false(ps_step_values_find(values, "not said", NULL));
    return PS_OK;
}

static ps_status says(void *ctx, ps_session *s, const ps_step_values *values)
{
    (void)ctx;
    return ps_step_value(s, "said/in-hook", (double)values->global_step);
}

static void values_of_a_step(void **state)
{
    struct worker k;
    struct seen first = {0};
    struct seen second = {0};
    ps_hook hook;
    (void)state;
    open_worker(&k, -1, NULL);
    ps_hook_init(&hook);
    hook.ctx = &first;
    hook.after_run = sees;
    assert_int_equal(ps_add_hook(k.s, &hook), PS_OK);
    hook.ctx = NULL;
    hook.after_run = says;
    assert_int_equal(ps_add_hook(k.s, &hook), PS_OK);
    hook.ctx = &second;
    hook.after_run = sees;
    assert_int_equal(ps_add_hook(k.s, &hook), PS_OK);
    ready(&k);
    assert_false(ps_should_stop(k.s));
    assert_int_equal(ps_step_value(k.s, "loss", 2), PS_OK);
    assert_int_equal(ps_step_value(k.s, "accuracy", 0.25), PS_OK);
    assert_int_equal(ps_step_value(k.s, "loss", 1.5), PS_OK); /* the last one counts */
    assert_int_equal(step(&k), PS_OK);
    assert_int_equal(first.step, 1);
    assert_string_equal(first.text, "loss=1.5 accuracy=0.25 ");
    assert_string_equal(second.text, "loss=1.5 accuracy=0.25 said/in-hook=1 ");
    assert_int_equal(ps_step_value(k.s, "between", 7), PS_OK);
    assert_false(ps_should_stop(k.s));
    assert_int_equal(step(&k), PS_OK);
    assert_int_equal(first.step, 2);
    assert_string_equal(first.text, "between=7 ");
    assert_string_equal(second.text, "between=7 said/in-hook=2 ");
    assert_int_equal(ps_step_value(k.s, "void", 1), PS_OK);
    assert_false(ps_should_stop(k.s));
    ready(&k); /* the step is broken off, and begins again */
    assert_false(ps_should_stop(k.s));
    assert_int_equal(step(&k), PS_OK);
    assert_string_equal(first.text, "");
    for (int i = 0; i < PS_STEP_VALUES_MAX - 1; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "v%d", i);
        assert_int_equal(ps_step_value(k.s, name, i), PS_OK);
    }
    assert_int_equal(step(&k), PS_OK);
    assert_int_equal(second.count, PS_STEP_VALUES_MAX);
    assert_int_equal(ps_session_close(k.s), 0);
}

/* ---- stop at a step ---- */

static void *train_thread(void *arg)
{
    struct worker *k = arg;
    if (ps_session_ready(k->s) == PS_OK) {
        while (!ps_should_stop(k->s)) {
            (void)step(k); /* what fails sticks */
        }
    }
    return NULL;
}

/* How often: HOOKS_RUNS. */
static int runs(void)
{
    const char *text = getenv("HOOKS_RUNS");
    return text == NULL ? 3 : (int)strtol(text, NULL, 10);
}

/* WORKERS train until the hook of each stops it; the global step then. */
static int64_t stopped_at(bool in_rounds, int64_t last_step)
{
    struct worker k[WORKERS];
    pthread_t threads[WORKERS];
    int64_t last = 0;
    ps_sync_options sync;
    ps_sync_options_init(&sync);
    for (int i = 0; i < WORKERS; i++) {
        open_worker(&k[i], i, in_rounds ? &sync : NULL);
        assert_int_equal(ps_add_stop_at_step_hook(k[i].s, last_step, 0), PS_OK);
    }
    for (int i = 0; i < WORKERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, train_thread, &k[i]), 0);
    }
    for (int i = 0; i < WORKERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        if (ps_session_status(k[i].s) != PS_OK) {
            print_error("%s\n", ps_session_error(k[i].s));
        }
        assert_int_equal(ps_session_status(k[i].s), PS_OK);
        last = ps_global_step(k[i].s) > last ? ps_global_step(k[i].s) : last;
        if (in_rounds) {
            assert_int_equal(ps_global_step(k[i].s), last);
        }
    }
    for (int i = 0; i < WORKERS; i++) {
        assert_int_equal(ps_session_close(k[i].s), 0);
    }
    return last;
}

static void stop_at_step_asynchronously(void **state)
{
    struct worker k;
    int64_t most = 0;
    (void)state;
    for (int i = 0; i < runs(); i++) {
        new_container(NULL);
        const int64_t last = stopped_at(false, GOAL);
        assert_in_range(last, GOAL, GOAL + WORKERS - 1);
        most = last > most ? last : most;
    }
    print_message("the last step of %d runs: at most %d, of %d\n", runs(), (int)most, GOAL);
    open_worker(&k, 0, NULL);
    assert_int_equal(ps_add_stop_at_step_hook(k.s, GOAL, 0), PS_OK);
    ready(&k);
    assert_true(ps_should_stop(k.s)); /* it is there already */
    assert_int_equal(ps_session_close(k.s), 0);
    open_worker(&k, 0, NULL);
    assert_int_equal(ps_add_stop_at_step_hook(k.s, 0, 5), PS_OK);
    ready(&k);
    const int64_t from = ps_global_step(k.s);
    assert_true(from >= GOAL);
    ready(&k); /* the goal stays */
    int steps = 0;
    for (; !ps_should_stop(k.s); steps++) {
        assert_int_equal(step(&k), PS_OK);
        ready(&k);
    }
    assert_int_equal(steps, 5);
    assert_int_equal(ps_global_step(k.s), from + 5);
    assert_int_equal(ps_session_close(k.s), 0);
}

static void stop_at_step_in_rounds(void **state)
{
    (void)state;
    for (int i = 0; i < runs(); i++) {
        new_container(NULL);
        assert_int_equal(stopped_at(true, GOAL), GOAL);
    }
    assert_int_equal(stopped_at(true, GOAL + 7), GOAL + 7); /* it goes on from there */
}

/* ---- the log ---- */

static int lines(const struct worker *k, const char *event)
{
    int count = 0;
    for (const char *at = k->log; (at = strstr(at, event)) != NULL; at++) {
        count++;
    }
    return count;
}

static void lines_of_the_log(void **state)
{
    static const char *const names[] = {"loss", "accuracy"};
    struct worker k;
    (void)state;
    open_worker(&k, -1, NULL);
    assert_int_equal(ps_add_step_counter_hook(k.s, 3, 0), PS_OK);
    assert_int_equal(ps_add_logging_hook(k.s, names, 2, 3, 0), PS_OK);
    ready(&k);
    for (int i = 1; i <= 8; i++) {
        assert_int_equal(ps_step_value(k.s, "loss", 10 - i), PS_OK);
        assert_int_equal(ps_step_value(k.s, "unwanted", 1), PS_OK);
        if (i == 3) {
            assert_int_equal(ps_step_value(k.s, "accuracy", (double)NAN), PS_OK); /* no guard */
        }
        assert_int_equal(step(&k), PS_OK);
    }
    assert_int_equal(lines(&k, "ev=step_rate"), 2); /* behind steps 4 and 7: as TensorFlow counts, from the first step on */
    assert_non_null(strstr(k.log, "ev=step_rate global_step=4 global_steps_per_second="));
    assert_non_null(strstr(k.log, "ev=step_rate global_step=7 global_steps_per_second="));
    assert_int_equal(lines(&k, "ev=step_values"), 3); /* 1, 4, 7 */
    assert_non_null(strstr(k.log, "ev=step_values global_step=1 loss=9\n"));
    assert_non_null(strstr(k.log, "ev=step_values global_step=4 loss=6 accuracy=nan\n"));
    assert_non_null(strstr(k.log, "ev=step_values global_step=7 loss=3\n"));
    assert_int_equal(ps_session_close(k.s), 0);
    open_worker(&k, -1, NULL);
    assert_int_equal(ps_add_logging_hook(k.s, NULL, 0, 1, 0), PS_OK);
    assert_int_equal(ps_add_logging_hook(k.s, NULL, 0, 0, 1e9), PS_OK); /* the first one only */
    ready(&k);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ps_step_value(k.s, "any", i), PS_OK);
        assert_int_equal(step(&k), PS_OK);
    }
    assert_int_equal(step(&k), PS_OK); /* nothing was said */
    assert_int_equal(lines(&k, "ev=step_values global_step=9 any=0"), 2);
    assert_int_equal(lines(&k, "ev=step_values global_step=10 any=1"), 1);
    assert_int_equal(lines(&k, "ev=step_values"), 3);
    assert_int_equal(ps_session_close(k.s), 0);
}

/* ---- what is wrong is said ---- */

static void assert_refused(ps_status (*add)(ps_session *s), ps_status want, const char *text)
{
    struct worker k;
    open_worker(&k, -1, NULL);
    assert_int_equal(add(k.s), want);
    assert_non_null(strstr(ps_session_error(k.s), text));
    assert_int_equal(ps_session_close(k.s), want);
}

static ps_status add_null(ps_session *s)
{
    return ps_add_hook(s, NULL);
}
static ps_status add_unfilled(ps_session *s)
{
    const ps_hook hook = {.name = "x"};
    return ps_add_hook(s, &hook);
}
static ps_status add_late(ps_session *s)
{
    ps_hook hook;
    ps_hook_init(&hook);
    assert_int_equal(ps_session_ready(s), PS_OK);
    return ps_add_hook(s, &hook);
}
static ps_status add_late_of_the_library(ps_session *s)
{
    assert_int_equal(ps_session_ready(s), PS_OK);
    return ps_add_stop_at_step_hook(s, 1, 0);
}
static ps_status add_no_goal(ps_session *s)
{
    return ps_add_stop_at_step_hook(s, 0, 0);
}
static ps_status add_two_goals(ps_session *s)
{
    return ps_add_stop_at_step_hook(s, 1, 1);
}
static ps_status add_never(ps_session *s)
{
    return ps_add_step_counter_hook(s, 0, 0);
}
static ps_status add_negative(ps_session *s)
{
    return ps_add_logging_hook(s, NULL, 0, -1, 0);
}
static ps_status add_no_time(ps_session *s)
{
    return ps_add_logging_hook(s, NULL, 0, 1, (double)NAN);
}
static ps_status add_bad_name(ps_session *s)
{
    static const char *const names[] = {"a", "b c"};
    return ps_add_logging_hook(s, names, 2, 1, 0);
}
static ps_status add_no_names(ps_session *s)
{
    return ps_add_logging_hook(s, NULL, 1, 1, 0);
}
static ps_status add_no_action(ps_session *s)
{
    return ps_add_nan_hook(s, "loss", 0);
}
static ps_status say_nothing(ps_session *s)
{
    return ps_step_value(s, "", 1);
}
static ps_status say_too_much(ps_session *s)
{
    for (int i = 0; i < PS_STEP_VALUES_MAX; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "v%d", i);
        assert_int_equal(ps_step_value(s, name, i), PS_OK);
    }
    assert_int_equal(ps_step_value(s, "v3", 0), PS_OK);
    return ps_step_value(s, "w", 1);
}

static void what_is_wrong(void **state)
{
    (void)state;
    assert_refused(add_null, PS_INVALID_ARGUMENT, "ps_add_hook: the hook is NULL");
    assert_refused(add_unfilled, PS_INVALID_ARGUMENT, "ps_hook_init");
    assert_refused(add_late, PS_FAILED_PRECONDITION, "ps_add_hook: hooks are added before ps_session_ready()");
    assert_refused(add_late_of_the_library, PS_FAILED_PRECONDITION, "ps_add_stop_at_step_hook: hooks are added before");
    assert_refused(add_no_goal, PS_INVALID_ARGUMENT, "ps_add_stop_at_step_hook: last_step 0, num_steps 0: one of them");
    assert_refused(add_two_goals, PS_INVALID_ARGUMENT, "last_step 1, num_steps 1");
    assert_refused(add_never, PS_INVALID_ARGUMENT, "ps_add_step_counter_hook: every_steps and every_seconds are 0");
    assert_refused(add_negative, PS_INVALID_ARGUMENT, "ps_add_logging_hook: every_steps: -1 is below 0");
    assert_refused(add_no_time, PS_INVALID_ARGUMENT, "every_seconds: nan");
    assert_refused(add_bad_name, PS_INVALID_ARGUMENT, "name of a value 'b c': byte 1 is ' '");
    assert_refused(add_no_names, PS_INVALID_ARGUMENT, "names is NULL");
    assert_refused(add_no_action, PS_INVALID_ARGUMENT, "ps_add_nan_hook: action: 0 is none of PS_NAN_*");
    assert_refused(say_nothing, PS_INVALID_ARGUMENT, "ps_step_value: name of a value '': is empty");
    assert_refused(say_too_much, PS_RESOURCE_EXHAUSTED, "ps_step_value: 'w': a step has 64 names at most");
    assert_int_equal(ps_skipped(NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(in_order, new_container),
        cmocka_unit_test_setup(no_end_without_a_beginning, new_container),
        cmocka_unit_test_setup(other_threads_only_look, new_container),
        cmocka_unit_test_setup(a_hook_that_fails, new_container),
        cmocka_unit_test_setup(what_hooks_do, new_container),
        cmocka_unit_test_setup(would_stop_only_looks, new_container),
        cmocka_unit_test_setup(values_of_a_step, new_container),
        cmocka_unit_test_setup(stop_at_step_asynchronously, new_container),
        cmocka_unit_test_setup(stop_at_step_in_rounds, new_container),
        cmocka_unit_test_setup(lines_of_the_log, new_container),
        cmocka_unit_test_setup(what_is_wrong, new_container),
    };
    return cmocka_run_group_tests(tests, start, end);
}
