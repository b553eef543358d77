/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values that come while a program works: ps_push_pull() and `prefetch`. Which values each ps_pull() gives, that nothing changes
 * them in between, what is asked of the tasks, and failures. Each case with the library's thread and driven by the caller.
 */
#include "daemon.h"
#include "proxy.h"
#include "ps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SMALL = 3, LARGE = 3 << 19 /* 6 MiB: two frames */, STEPS = 5 };

struct way {
    ps_progress progress;
};
static struct test_cluster cluster;
static struct way ways[] = {{PS_PROGRESS_THREAD}, {PS_PROGRESS_CALLER}};
static int containers; /* each case begins with variables of its own */

static void no_log(void *ctx, ps_log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)line;
}

static ps_session *open_at(const char *spec, const struct way *way, const char *container, bool prefetch)
{
    ps_session_options o;
    ps_session *s = NULL;
    char error[512];
    ps_session_options_init(&o);
    o.cluster_spec = spec;
    o.container = container;
    o.operation_timeout_ms = 120000;
    o.ready_timeout_ms = 20000;
    o.log = no_log;
    o.progress = way->progress;
    o.prefetch = prefetch;
    assert_int_equal(ps_session_open(&o, &s, error, sizeof(error)), PS_OK);
    return s;
}

static ps_session *open_with(const struct way *way, const char *container, bool prefetch)
{
    return open_at(cluster.spec, way, container, prefetch);
}

/* A program of two parameters, values 0 and learning rate 1: n pushes of a gradient of -1 make every element n. */
struct program {
    ps_session *s;
    ps_param *small, *large;
};

static struct program begin_at(const char *spec, const struct way *way, const char *container, bool prefetch)
{
    struct program p = {.s = open_at(spec, way, container, prefetch)};
    p.small = ps_param_get(p.s, "small", PS_SHAPE(SMALL), ps_zeros(), ps_sgd(1));
    p.large = ps_param_get(p.s, "large", PS_SHAPE(LARGE), ps_zeros(), ps_sgd(1));
    assert_int_equal(ps_session_ready(p.s), PS_OK);
    return p;
}

static struct program begin(const struct way *way, const char *container, bool prefetch)
{
    return begin_at(cluster.spec, way, container, prefetch);
}

static const char *next_container(char *text, size_t n)
{
    (void)snprintf(text, n, "overlap%d", containers++);
    return text;
}

static bool all_are(ps_param *p, int64_t count, float want)
{
    const float *v = ps_param_value(p);
    for (int64_t i = 0; i < count; i++) {
        if (v[i] != want) {
            return false;
        }
    }
    return true;
}

static bool values_are(const struct program *p, float want)
{
    return all_are(p->small, SMALL, want) && all_are(p->large, LARGE, want);
}

static void fill_gradients(const struct program *p)
{
    float *small = ps_param_grad(p->small);
    float *large = ps_param_grad(p->large);
    assert_true(small != NULL && large != NULL);
    for (int i = 0; i < SMALL; i++) {
        small[i] = -1;
    }
    for (int i = 0; i < LARGE; i++) {
        large[i] = -1;
    }
}

static void push_both(const struct program *p, ps_status (*push)(ps_session *s, ps_param *p))
{
    fill_gradients(p);
    assert_int_equal(push(p->s, p->large), PS_OK);
    assert_int_equal(push(p->s, p->small), PS_OK);
}

static ps_task_info task_info(ps_session *s)
{
    ps_task_info info = {.pulls = 0};
    assert_int_equal(ps_cluster_info(s, &info, sizeof(info), 1, 5000), PS_OK);
    return info;
}

static uint64_t pulls_answered(ps_session *s)
{
    return task_info(s).pulls;
}

static void push_pull_brings_the_values_after_it(void **state)
{
    char container[32];
    struct program p = begin(*state, next_container(container, sizeof(container)), false);
    assert_int_equal(ps_pull(p.s), PS_OK);
    uint64_t pulls = pulls_answered(p.s);
    for (int step = 0; step < STEPS; step++) {
        const float *small = ps_param_value(p.small);
        const float *large = ps_param_value(p.large);
        assert_true(values_are(&p, (float)step));
        push_both(&p, ps_push_pull);
        assert_true(values_are(&p, (float)step)); /* what is in use does not change, whether they have come */
        assert_int_equal(ps_step_done(p.s), PS_OK);
        assert_true(values_are(&p, (float)step)); /* or have come for sure */
        assert_true(small == ps_param_value(p.small) && large == ps_param_value(p.large));
        assert_int_equal(ps_pull(p.s), PS_OK);
        bool exact = false;
        assert_int_equal(ps_param_version(p.large, &exact), step + 1);
    }
    assert_true(values_are(&p, STEPS));
    assert_int_equal(pulls_answered(p.s), pulls); /* not one was asked for */
    assert_int_equal(ps_pull(p.s), PS_OK);        /* nothing has come since: this one asks */
    assert_true(pulls_answered(p.s) > pulls);
    assert_true(values_are(&p, STEPS));
    assert_int_equal(ps_session_close(p.s), 0);
}

/* It does not wait for ps_step_done(), and ps_pull_param() takes what came as well. */
static void a_pull_waits_for_what_comes(void **state)
{
    char container[32];
    struct program p = begin(*state, next_container(container, sizeof(container)), false);
    for (int step = 0; step < STEPS; step++) {
        push_both(&p, ps_push_pull);
        assert_int_equal(ps_pull_param(p.large), PS_OK);
        assert_true(all_are(p.large, LARGE, (float)(step + 1)));
        assert_true(all_are(p.small, SMALL, (float)step));
        assert_int_equal(ps_pull(p.s), PS_OK);
        assert_true(values_are(&p, (float)(step + 1)));
    }
    assert_int_equal(ps_session_close(p.s), 0);
}

static void values_lack_what_others_push_later(void **state)
{
    char container[32];
    next_container(container, sizeof(container));
    struct program p = begin(*state, container, false);
    struct program other = begin(*state, container, false);
    push_both(&p, ps_push_pull);
    assert_int_equal(ps_step_done(p.s), PS_OK);
    push_both(&other, ps_push);
    assert_int_equal(ps_step_done(other.s), PS_OK);
    assert_int_equal(ps_pull(p.s), PS_OK);
    assert_true(values_are(&p, 1));
    assert_int_equal(ps_pull(p.s), PS_OK);
    assert_true(values_are(&p, 2));
    assert_int_equal(ps_session_close(other.s), 0);
    assert_int_equal(ps_session_close(p.s), 0);
}

/* What came before it lacks that gradient. */
static void after_a_plain_push_a_pull_asks(void **state)
{
    char container[32];
    struct program p = begin(*state, next_container(container, sizeof(container)), false);
    push_both(&p, ps_push_pull);
    push_both(&p, ps_push);
    assert_int_equal(ps_pull(p.s), PS_OK);
    assert_true(values_are(&p, 2));
    push_both(&p, ps_push);
    push_both(&p, ps_push_pull);
    push_both(&p, ps_push_pull);
    assert_int_equal(ps_pull(p.s), PS_OK);
    assert_true(values_are(&p, 5));
    assert_int_equal(ps_session_close(p.s), 0);
}

/* Wait until the task has answered so many pulls, and has sent so many bytes. It counts a pull when the request comes, but values
 * are taken from the variable when they are sent. The answers to this poll, of about 1 KB each, count as sent bytes, too: the
 * pauses keep them few beside the values. */
static void pulls_reach(ps_session *s, uint64_t pulls, uint64_t bytes)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    ps_task_info info = task_info(s);
    while (info.pulls < pulls ||
           info.bytes_out < bytes) {   /* poll: a session says nothing of a value that comes; bounded by the runner */
        (void)nanosleep(&pause, NULL); /* sleep: the poll's answers count as well */
        info = task_info(s);
    }
}

static void prefetched_values_are_one_step_old(void **state)
{
    char container[32];
    next_container(container, sizeof(container));
    struct program p = begin(*state, container, true);
    struct program other = begin(*state, container, false);
    uint64_t pulls = pulls_answered(p.s);
    assert_int_equal(ps_pull(other.s), PS_OK);
    uint64_t both = pulls_answered(p.s) - pulls; /* that one ps_pull() asks for */
    pulls += both;
    const uint64_t bytes = (SMALL + LARGE) * sizeof(float);
    for (int step = 0; step < STEPS; step++) {
        const uint64_t sent = task_info(p.s).bytes_out;
        assert_int_equal(ps_pull(p.s), PS_OK);
        pulls += step == 0 ? 2 * both : both;
        pulls_reach(p.s, pulls, sent + (step == 0 ? 2 : 1) * bytes); /* the next ones are sent, long before they are asked for */
        float have = step < 2 ? 0 : (float)(step - 1); /* without the gradient that was pushed after the last ps_pull() */
        assert_true(values_are(&p, have));
        push_both(&p, step % 2 == 0 ? ps_push : ps_push_pull); /* the same thing here */
        assert_true(values_are(&p, have));
        assert_int_equal(ps_step_done(p.s), PS_OK);
        assert_true(values_are(&p, have));
    }
    bool exact = false;
    assert_int_equal(ps_pull(p.s), PS_OK);
    assert_true(values_are(&p, STEPS - 1));
    assert_true(ps_param_version(p.small, &exact) == STEPS - 1 && exact);
    assert_int_equal(ps_pull(p.s), PS_OK);
    assert_true(values_are(&p, STEPS));
    assert_true(ps_param_version(p.large, &exact) == STEPS && exact);
    assert_int_equal(ps_pull_param(p.large), PS_OK);
    assert_int_equal(ps_session_close(p.s), 0); /* while values are on their way */
    assert_int_equal(ps_session_close(other.s), 0);
}

static void a_refused_gradient_ends_the_session(void **state)
{
    char container[32];
    struct program p = begin(*state, next_container(container, sizeof(container)), false);
    fill_gradients(&p);
    ((float *)ps_param_grad(p.large))[LARGE - 1] = NAN;
    (void)(ps_push_pull(p.s, p.large)); /* refused later */
    assert_int_equal(ps_pull(p.s), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_session_reason(p.s), PS_REASON_NOT_FINITE);
    assert_non_null(strstr(ps_session_error(p.s), "large"));
    assert_true(values_are(&p, 0)); /* no value came in parts */
    assert_int_equal(ps_pull(p.s), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_step_done(p.s), PS_INVALID_ARGUMENT);
    ((float *)ps_param_grad(p.large))[LARGE - 1] = 1; /* harmless */
    assert_int_equal(ps_session_close(p.s), PS_INVALID_ARGUMENT);
}

static void a_parameter_of_another_session_is_refused(void **state)
{
    char container[32];
    next_container(container, sizeof(container));
    struct program p = begin(*state, container, false);
    struct program other = begin(*state, container, false);
    assert_int_equal(ps_push_pull(p.s, other.small), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_session_error(p.s), "ps_push_pull: the parameter is of another session"));
    assert_int_equal(ps_session_close(p.s), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_session_close(other.s), 0);
}

/* The reset makes the variables others: what comes then is a failure of the next ps_pull(), and nothing of it is seen before. */
static void a_reset_ends_both(void **state)
{
    for (int prefetch = 0; prefetch < 2; prefetch++) {
        char container[32];
        next_container(container, sizeof(container));
        struct program p = begin(*state, container, prefetch != 0);
        assert_int_equal(ps_pull(p.s), PS_OK);
        ps_session *other = open_with(*state, container, false);
        assert_int_equal(ps_reset(other), PS_OK);
        assert_int_equal(ps_session_close(other), 0);
        (void)(prefetch != 0 ? ps_pull(p.s) : ps_push_pull(p.s, p.small)); /* what had come before is given still */
        assert_int_equal(ps_pull(p.s), PS_ABORTED);
        assert_true(values_are(&p, 0));
        assert_int_equal(ps_session_close(p.s), PS_ABORTED);
    }
}

/* Each element is one of the two. */
static bool values_are_of(const struct program *p, int low, int high)
{
    const float *small = ps_param_value(p->small);
    const float *large = ps_param_value(p->large);
    bool are = true;
    for (int i = 0; i < SMALL; i++) {
        are = are && (small[i] == (float)low || small[i] == (float)high);
    }
    for (int i = 0; i < LARGE; i++) {
        are = are && (large[i] == (float)low || large[i] == (float)high);
    }
    return are;
}

/* Behind a proxy that breaks connections while values are on their way: each step has the values that it has without; with
 * `prefetch`, where the read is asked again after the step's push, maybe newer ones. */
static void broken_connections_change_no_value(void **state)
{
    enum { CUTS = 10, MANY_STEPS = 300 };
    struct test_cluster broken;
    char address[64];
    test_cluster_init(&broken, 1, "");
    struct test_proxy *proxy = test_proxy_new(5);
    test_proxy_door(proxy, broken.address[0], address);
    (void)snprintf(broken.spec, sizeof(broken.spec), "ps=%s", address);
    test_proxy_run(proxy);
    test_cluster_start_all(&broken);
    for (int prefetch = 0; prefetch < 2; prefetch++) {
        char container[32];
        struct program p = begin_at(broken.spec, *state, next_container(container, sizeof(container)), prefetch != 0);
        const unsigned before = test_proxy_cuts(proxy);
        assert_int_equal(ps_pull(p.s), PS_OK);
        test_proxy_trouble(proxy, true);
        for (int step = 1; step <= MANY_STEPS && test_proxy_cuts(proxy) - before < CUTS; step++) {
            push_both(&p, ps_push_pull);
            assert_int_equal(ps_step_done(p.s), PS_OK);
            assert_int_equal(ps_pull(p.s), PS_OK);
            assert_true(values_are_of(&p, step - prefetch, step));
        }
        test_proxy_trouble(proxy, false);
        assert_true(test_proxy_cuts(proxy) - before >= CUTS);
        assert_int_equal(ps_session_close(p.s), 0);
    }
    test_cluster_fini(&broken);
    test_proxy_free(proxy);
}

static int setup(void **state)
{
    (void)state;
    test_cluster_init(&cluster, 1, "");
    test_cluster_start_all(&cluster);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    test_cluster_fini(&cluster);
    return 0;
}

int main(void)
{
#define BOTH(f) cmocka_unit_test_prestate(f, &ways[0]), cmocka_unit_test_prestate(f, &ways[1])
    const struct CMUnitTest tests[] = {
        BOTH(push_pull_brings_the_values_after_it),      BOTH(a_pull_waits_for_what_comes),
        BOTH(values_lack_what_others_push_later),        BOTH(after_a_plain_push_a_pull_asks),
        BOTH(prefetched_values_are_one_step_old),        BOTH(a_refused_gradient_ends_the_session),
        BOTH(a_parameter_of_another_session_is_refused), BOTH(a_reset_ends_both),
        BOTH(broken_connections_change_no_value),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
