/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ps_interrupt() and ps_session_close() beside monitored sessions that are made anew, and beside hooks: a recovery ends, at
 * whatever it is, for all who wait for it, and the next call begins another one; a hook whose call was interrupted is called
 * again, and the step that it belongs to counts once.
 *
 * No wait here ends by itself: what is not ended from outside ends the program, by its time. test-timeout: 120
 */
#include "interrupt_test.h"
#include "monitored_test.h"

#include <signal.h>
#include <sys/wait.h>

enum { LONG_MS = 600000, MEMBERS = 3 };

static ps_status in_pull(struct waiter *w)
{
    return ps_pull(w->s);
}

static ps_status in_step(struct waiter *w)
{
    return ps_step_done(w->s);
}

static ps_status in_wait_step(struct waiter *w)
{
    return ps_wait_step(w->s, 1000, LONG_MS);
}

static void await(const atomic_int *count, int at_least)
{
    while (atomic_load(count) < at_least) {
        (void)usleep(1000); /* sleep: looks at what it waits for */
    }
}

/* A model that is ready, at two tasks. */
static ps_session *open_ready(struct seen *seen, struct model *m)
{
    ps_session *s = open_that_starts_over(seen, short_calls);
    model_ready(s, m);
    return s;
}

/* After so many tries that have failed, the first one's beginning among them. */
static void in_a_recovery(void **state)
{
    (void)state;
    struct seen seen;
    struct model m;
    ps_session *s = open_ready(&seen, &m);
    struct waiter w[MEMBERS] = {{.call = in_pull, .s = s}, {.call = in_pull, .s = s}, {.call = in_wait_step, .s = s}};
    test_cluster_kill(&cluster, 1);
    for (int tries = 0; tries < 3; tries++) {
        const int before = atomic_load(&seen.tries);
        for (int i = 0; i < MEMBERS; i++) {
            waiter_start(&w[i]);
        }
        await(&seen.lost, 1);
        await(&seen.tries, before + tries);
        for (int i = 0; i < MEMBERS; i++) {
            while (!atomic_load(&w[i].over)) {
                ps_interrupt(s);
                (void)usleep(1000); /* sleep: looks at what it waits for */
            }
            waiter_join(&w[i], PS_REASON_INTERRUPTED);
        }
        assert_int_not_equal(ps_session_status(s), PS_OK); /* it is lost, and goes on */
        assert_int_equal(atomic_load(&seen.failed), 0);
    }
    test_cluster_start(&cluster, 1);
    ps_session_set_deadline(s, LONG_MS); /* a busy machine may take longer than short calls have */
    assert_int_equal(ps_pull(s), PS_OK);
    assert_int_equal(ps_session_status(s), PS_OK);
    assert_values(s, &m, 1, 0);
    ps_recovery last = {.struct_bytes = sizeof(last)};
    assert_int_equal(ps_monitored_last_recovery(s, &last), PS_OK);
    assert_int_equal(last.count, 1);
    assert_int_equal(ps_session_close(s), 0);
}

/* What it was lost by is what it ends with. */
static void close_in_a_recovery(void **state)
{
    (void)state;
    struct seen seen;
    struct model m;
    ps_session *s = open_ready(&seen, &m);
    struct waiter w = {.call = in_pull, .s = s};
    test_cluster_kill(&cluster, 1);
    waiter_start(&w);
    await(&seen.tries, 1);
    const int code = ps_session_close(s);
    waiter_join(&w, PS_REASON_CLOSING);
    assert_int_not_equal(code, PS_OK);
    assert_int_not_equal(code, PS_CANCELLED);
}

/* Between an interrupt and the next call nothing can be used, and nothing is there that could be. */
static void calls_behind_a_recovery_that_was_interrupted(void **state)
{
    (void)state;
    struct seen seen;
    struct model m;
    ps_session *s = open_ready(&seen, &m);
    ps_variable *v = get(s, "beside", PS_F32, PS_SCALAR, NULL);
    struct waiter w = {.call = in_pull, .s = s};
    float value = 0;
    test_cluster_kill(&cluster, 1);
    for (int tries = 0; tries < 2; tries++) {
        waiter_start(&w);
        await(&seen.tries, tries + 1);
        while (!atomic_load(&w.over)) {
            ps_interrupt(s);
            (void)usleep(1000); /* sleep: looks at what it waits for */
        }
        waiter_join(&w, PS_REASON_INTERRUPTED);
        const ps_status lost = ps_session_status(s);
        assert_int_not_equal(lost, PS_OK);
        assert_int_equal(ps_variable_read(v, &value, sizeof(value)), lost);
        assert_int_equal(ps_barrier(s, "nobody", 1), lost);
        if (API_PROGRESS == PS_PROGRESS_CALLER) {
            assert_int_equal(ps_progress_run(s, 0), lost);
            (void)ps_progress_fd(s);
            (void)ps_progress_timeout_ms(s);
        }
    }
    assert_int_equal(ps_session_close(s), ps_session_status(s));
}

/* ---- hooks ---- */

enum { HOOK_BEGIN, HOOK_CREATED, HOOK_BEFORE, HOOK_AFTER, HOOKS };

/* A hook that waits in one of its functions, where it is told to, and counts all of them. */
struct hooked {
    int waits_in; /* HOOKS: nowhere */
    int calls[HOOKS], behind[HOOKS];
};

static ps_status hook_waits(struct hooked *h, ps_session *s, int at)
{
    h->calls[at]++;
    return h->waits_in == at ? ps_barrier_within(s, "hook", 2, LONG_MS) : PS_OK;
}

static ps_status hook_begin(void *ctx, ps_session *s)
{
    return hook_waits(ctx, s, HOOK_BEGIN);
}

static ps_status hook_created(void *ctx, ps_session *s)
{
    return hook_waits(ctx, s, HOOK_CREATED);
}

static ps_status hook_before(void *ctx, ps_session *s)
{
    return hook_waits(ctx, s, HOOK_BEFORE);
}

static ps_status hook_after(void *ctx, ps_session *s, const ps_step_values *values)
{
    double loss = 0;
    assert_true(ps_step_values_find(values, "loss", &loss)); /* also when it is called again */
    return hook_waits(ctx, s, HOOK_AFTER);
}

static ps_status behind_begin(void *ctx, ps_session *s)
{
    (void)s;
    ((struct hooked *)ctx)->behind[HOOK_BEGIN]++;
    return PS_OK;
}

static ps_status behind_created(void *ctx, ps_session *s)
{
    (void)s;
    ((struct hooked *)ctx)->behind[HOOK_CREATED]++;
    return PS_OK;
}

static ps_status behind_before(void *ctx, ps_session *s)
{
    (void)s;
    ((struct hooked *)ctx)->behind[HOOK_BEFORE]++;
    return PS_OK;
}

static ps_status behind_after(void *ctx, ps_session *s, const ps_step_values *values)
{
    (void)s;
    (void)values;
    ((struct hooked *)ctx)->behind[HOOK_AFTER]++;
    return PS_OK;
}

static ps_status in_ready(struct waiter *w)
{
    return ps_session_ready(w->s);
}

static ps_status in_ready_and_should_stop(struct waiter *w)
{
    const ps_status st = ps_session_ready(w->s);
    return st == PS_OK && ps_should_stop(w->s) ? PS_CANCELLED : st;
}

static void count_barriers(void *ctx, const ps_wait_info *info)
{
    *(int *)ctx += strcmp(info->request, "BARRIER") == 0;
}

/* The thread waits in the hook's barrier: its call ends, and made again goes on there. */
static void interrupted_in_a_hook(struct waiter *w, struct hooked *h, int at, ps_session *looker)
{
    h->waits_in = at;
    waiter_start(w);
    for (int count = 0; count == 0;) {
        assert_int_equal(ps_task_waits(looker, 0, LONG_MS, count_barriers, &count), PS_OK);
        (void)usleep(1000); /* sleep: looks at what it waits for */
    }
    while (!atomic_load(&w->over)) {
        ps_interrupt(w->s);
        (void)usleep(1000); /* sleep: looks at what it waits for */
    }
    waiter_join(w, PS_REASON_INTERRUPTED);
    assert_int_equal(ps_session_status(w->s), PS_OK);
    assert_int_equal(h->calls[at], 1);
    assert_int_equal(h->behind[at], 0);
    h->waits_in = HOOKS;
}

static void in_a_hook(void **state)
{
    (void)state;
    struct seen seen;
    struct hooked h = {.waits_in = HOOKS};
    ps_hook hook;
    ps_monitored_options o;
    ps_monitored_options_init(&o);
    ps_session *s = open_monitored(&seen, &o, NULL), *looker = open_session(LONG_MS);
    ps_param *p = ps_param_get(s, "hooked", PS_SCALAR, ps_zeros(), ps_sgd(1));
    struct waiter w = {.call = in_ready, .s = s};
    ps_hook_init(&hook);
    hook.ctx = &h;
    hook.begin = hook_begin;
    hook.after_create_session = hook_created;
    hook.before_run = hook_before;
    hook.after_run = hook_after;
    assert_int_equal(ps_add_hook(s, &hook), PS_OK);
    hook.begin = behind_begin;
    hook.after_create_session = behind_created;
    hook.before_run = behind_before;
    hook.after_run = behind_after;
    assert_int_equal(ps_add_hook(s, &hook), PS_OK);
    interrupted_in_a_hook(&w, &h, HOOK_BEGIN, looker);
    interrupted_in_a_hook(&w, &h, HOOK_CREATED, looker);
    assert_true(h.calls[HOOK_BEGIN] == 2 && h.behind[HOOK_BEGIN] == 1);
    assert_int_equal(ps_session_ready(s), PS_OK);
    assert_true(h.calls[HOOK_CREATED] == 2 && h.behind[HOOK_CREATED] == 1);
    assert_true(h.calls[HOOK_BEGIN] == 2 && h.behind[HOOK_BEGIN] == 1);
    w.call = in_ready_and_should_stop; /* the steps are of the thread that has made it ready */
    h.calls[HOOK_CREATED] = h.behind[HOOK_CREATED] = 0;
    interrupted_in_a_hook(&w, &h, HOOK_BEFORE, looker);
    assert_int_equal(ps_session_ready(s), PS_OK);
    assert_false(ps_should_stop(s));
    assert_true(h.calls[HOOK_BEFORE] == 2 && h.behind[HOOK_BEFORE] == 1);
    w.call = in_step;
    for (int i = 1; i <= 3; i++) {
        float *gradient = ps_param_grad(p);
        assert_non_null(gradient);
        gradient[0] = 1;
        assert_int_equal(ps_step_value(s, "loss", i), PS_OK);
        assert_int_equal(ps_push(s, p), PS_OK);
        h.calls[HOOK_AFTER] = h.behind[HOOK_AFTER] = 0;
        interrupted_in_a_hook(&w, &h, HOOK_AFTER, looker);
        assert_int_equal(ps_global_step(s), i); /* it is counted */
        assert_int_equal(ps_step_done(s), PS_OK);
        assert_int_equal(ps_global_step(s), i);
        assert_true(h.calls[HOOK_AFTER] == 2 && h.behind[HOOK_AFTER] == 1);
    }
    assert_int_equal(ps_session_close(s), 0);
    assert_int_equal(ps_session_close(looker), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(in_a_recovery, setup, teardown),
        cmocka_unit_test_setup_teardown(close_in_a_recovery, setup, teardown),
        cmocka_unit_test_setup_teardown(calls_behind_a_recovery_that_was_interrupted, setup, teardown),
        cmocka_unit_test_setup_teardown(in_a_hook, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
