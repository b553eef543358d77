/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hooks of a monitored session whose ps is killed and started again: they hear of the new session, a step that was broken off
 * begins again for them too, and what fails in a hook because of the ps is put right like everything else.
 */
#include "daemon.h"
#include "ps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { N = 3, TIMEOUT_MS = 60000, GOAL = 6 };

static struct test_cluster cluster;

static int start(void **state)
{
    (void)state;
    test_cluster_init(&cluster, 1, "");
    test_cluster_start_all(&cluster);
    return 0;
}

static int end(void **state)
{
    (void)state;
    test_cluster_fini(&cluster);
    return 0;
}

static void restart(void)
{
    test_cluster_kill(&cluster, 0);
    test_cluster_start(&cluster, 0);
}

static void no_log(void *ctx, ps_log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)line;
}

/* A session with a parameter, and with a hook that writes down what it is called for. */
struct worker {
    ps_session *s;
    ps_param *w;
    char trace[512];
    int fails;        /* in so many after_run from now on: 1 restarts the ps and returns what a call says */
    ps_status status; /* returns this instead */
};

static ps_status trace(struct worker *k, const char *text)
{
    const size_t used = strlen(k->trace);
    (void)snprintf(k->trace + used, sizeof(k->trace) - used, "%s ", text);
    return PS_OK;
}

static ps_status on_begin(void *ctx, ps_session *s)
{
    (void)s;
    return trace(ctx, "begin");
}

static ps_status on_created(void *ctx, ps_session *s)
{
    (void)s;
    return trace(ctx, "created");
}

static ps_status on_before(void *ctx, ps_session *s)
{
    (void)s;
    return trace(ctx, "before");
}

static ps_status on_after(void *ctx, ps_session *s, const ps_step_values *values)
{
    struct worker *k = ctx;
    char text[64];
    double loss = -1;
    (void)ps_step_values_find(values, "loss", &loss);
    (void)snprintf(text, sizeof(text), "after:%d,%g", (int)values->global_step, loss);
    (void)trace(k, text);
    if (k->fails == 0 || --k->fails > 0) {
        return PS_OK;
    }
    if (k->status != PS_OK) {
        return k->status;
    }
    int64_t step = 0;
    ps_variable *v = NULL;
    const ps_status st = ps_variable_find(s, "global_step", &v);
    restart();
    return st == PS_OK ? ps_variable_read(v, &step, sizeof(step)) : st;
}

static void open_worker(struct worker *k)
{
    ps_session_options o;
    ps_hook hook;
    char error[512] = "";
    memset(k, 0, sizeof(*k));
    ps_session_options_init(&o);
    o.target = cluster.address[0];
    o.operation_timeout_ms = TIMEOUT_MS;
    o.log = no_log;
    if (ps_monitored_open(&o, NULL, &k->s, error, sizeof(error)) != PS_OK) {
        fail_msg("%s", error);
    }
    k->w = ps_param_get(k->s, "w", PS_SHAPE(N), ps_zeros(), ps_sgd(1));
    ps_hook_init(&hook);
    hook.name = "tracer";
    hook.ctx = k;
    hook.begin = on_begin;
    hook.after_create_session = on_created;
    hook.before_run = on_before;
    hook.after_run = on_after;
    assert_int_equal(ps_add_hook(k->s, &hook), PS_OK);
    assert_int_equal(ps_add_stop_at_step_hook(k->s, GOAL, 0), PS_OK);
    if (ps_session_ready(k->s) != PS_OK) {
        fail_msg("%s", ps_session_error(k->s));
    }
}

/* What goes wrong in a step. */
enum when { NEVER, BEFORE_PULL, BEHIND_PULL, IN_A_HOOK, BY_A_HOOK };
static ps_status said; /* BY_A_HOOK */

/* A program's loop; it goes wrong in round 2. */
static void train(struct worker *k, enum when when)
{
    for (int round = 0; !ps_should_stop(k->s); round++) {
        if (round == 2 && when == BEFORE_PULL) {
            restart();
        }
        ps_pull(k->s);
        if (round == 2 && when == BEHIND_PULL) {
            restart();
        }
        if (round == 2 && (when == IN_A_HOOK || when == BY_A_HOOK)) {
            k->fails = 1;
            k->status = when == BY_A_HOOK ? said : PS_OK;
        }
        ps_step_value(k->s, "loss", round);
        float *g = ps_param_grad(k->w);
        for (int i = 0; g != NULL && i < N; i++) {
            g[i] = 1;
        }
        ps_push(k->s, k->w);
        ps_step_done(k->s);
    }
}

/* It went on to the goal, on values that were initialised anew. */
static void assert_trained(struct worker *k, const char *calls)
{
    assert_string_equal(k->trace, calls);
    assert_int_equal(ps_session_status(k->s), PS_OK);
    assert_int_equal(ps_global_step(k->s), GOAL);
    assert_int_equal(ps_pull(k->s), PS_OK);
    assert_true(((float *)ps_param_value(k->w))[N - 1] == -GOAL);
    assert_int_equal(ps_session_close(k->s), 0);
}

#define TWO_STEPS "begin created before after:1,0 before after:2,1 "

/* The step goes on with the values that ps_pull() brings in the end: it is the first one. */
static void in_a_pull(void **state)
{
    struct worker k;
    (void)state;
    open_worker(&k);
    train(&k, BEFORE_PULL);
    assert_trained(&k, TWO_STEPS "before created after:1,2 before after:2,3 before after:3,4 before after:4,5 before after:5,6 "
                                 "before after:6,7 ");
}

/* It is broken off, and nobody hears of what it said. */
static void in_a_step(void **state)
{
    struct worker k;
    (void)state;
    open_worker(&k);
    train(&k, BEHIND_PULL);
    assert_trained(&k, TWO_STEPS "before created before after:1,3 before after:2,4 before after:3,5 before after:4,6 "
                                 "before after:5,7 before after:6,8 ");
}

static void in_a_hook(void **state)
{
    struct worker k;
    (void)state;
    open_worker(&k);
    train(&k, IN_A_HOOK);
    assert_trained(&k, TWO_STEPS "before after:3,2 created before after:1,3 before after:2,4 before after:3,5 before after:4,6 "
                                 "before after:5,7 before after:6,8 ");
}

/* All steps are made, and the program looks at what it has: a ps that restarts then is put right as before. */
static void behind_the_last_step(void **state)
{
    struct worker k;
    (void)state;
    open_worker(&k);
    train(&k, NEVER);
    restart();
    assert_int_equal(ps_pull(k.s), PS_OK);
    assert_true(((float *)ps_param_value(k.w))[0] == 0); /* of a new model, which has no steps */
    assert_true(ps_should_stop(k.s));
    assert_int_equal(ps_session_close(k.s), 0);
}

static void *look_thread(void *arg)
{
    const struct worker *k = arg;
    assert_false(ps_should_stop(k->s));
    assert_false(ps_should_stop(k->s));
    return NULL;
}

/* A thread that only looks finds the loss first, and puts it right: steps are still another one's. */
static void by_another_thread(void **state)
{
    struct worker k;
    pthread_t thread;
    (void)state;
    open_worker(&k);
    assert_false(ps_should_stop(k.s));
    restart();
    (void)ps_push(k.s, k.w);
    (void)ps_step_done(k.s); /* the step is broken off */
    assert_int_equal(pthread_create(&thread, NULL, look_thread, &k), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_string_equal(k.trace, "begin created before created ");
    assert_false(ps_should_stop(k.s));
    assert_string_equal(k.trace, "begin created before created before ");
    assert_int_equal(ps_session_close(k.s), 0);
}

/* ABORTED and UNAVAILABLE that it says itself are a loss, whatever it knows of: the session is made anew, with the model that is
 * there. The rest ends it. */
static void by_a_hook(void **state)
{
    (void)state;
    const ps_status losses[] = {PS_ABORTED, PS_UNAVAILABLE};
    for (int i = 0; i < 2; i++) {
        struct worker k;
        ps_recovery last = {.struct_bytes = sizeof(last)};
        open_worker(&k);
        said = losses[i];
        train(&k, BY_A_HOOK);
        assert_string_equal(k.trace, TWO_STEPS "before after:3,2 created before after:4,3 before after:5,4 before after:6,5 ");
        assert_int_equal(ps_monitored_last_recovery(k.s, &last), PS_OK);
        assert_true(last.count == 1 && last.status == said && last.lost_steps == 0);
        assert_int_equal(ps_session_status(k.s), PS_OK);
        assert_int_equal(ps_global_step(k.s), GOAL);
        assert_int_equal(ps_session_close(k.s), 0);
        restart(); /* the next one begins at step 0 */
    }
    struct worker k;
    open_worker(&k);
    said = PS_NOT_FOUND;
    train(&k, BY_A_HOOK);
    assert_string_equal(k.trace, TWO_STEPS "before after:3,2 ");
    assert_string_equal(ps_session_error(k.s), "hook 'tracer', after_run: it returned NOT_FOUND");
    assert_int_equal(ps_session_close(k.s), PS_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(in_a_pull, start, end),
        cmocka_unit_test_setup_teardown(in_a_step, start, end),
        cmocka_unit_test_setup_teardown(in_a_hook, start, end),
        cmocka_unit_test_setup_teardown(by_a_hook, start, end),
        cmocka_unit_test_setup_teardown(behind_the_last_step, start, end),
        cmocka_unit_test_setup_teardown(by_another_thread, start, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
