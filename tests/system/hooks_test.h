/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of hooks share: psd processes, sessions with a parameter, hooks that leave a trace. Included by one .c file
 * each. */
#ifndef HOOKS_TEST_H
#define HOOKS_TEST_H

#include "daemon.h"
#include "ps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 3, TIMEOUT_MS = 20000, WORKERS = 4, GOAL = 40 };

/* ---- sessions, each with a parameter ---- */

static struct test_cluster cluster;
static char container[32];

static inline int start(void **state)
{
    (void)state;
    test_cluster_init(&cluster, 2, "");
    test_cluster_start_all(&cluster);
    return 0;
}

static inline int end(void **state)
{
    (void)state;
    test_cluster_fini(&cluster);
    return 0;
}

static inline int new_container(void **state)
{
    static int count;
    (void)state;
    (void)snprintf(container, sizeof(container), "case_%d", count++);
    return 0;
}

struct worker {
    ps_session *s;
    ps_param *w;
    char trace[256]; /* of what its hooks were called for */
    char log[4096];
};

static void keep_log(void *ctx, ps_log_level level, const char *line)
{
    struct worker *k = ctx;
    (void)level;
    size_t used = strlen(k->log);
    (void)snprintf(k->log + used, sizeof(k->log) - used, "%s\n", line);
}

/* task < 0: of no job. */
static inline void open_worker(struct worker *k, int task, const ps_sync_options *sync)
{
    ps_session_options o;
    char error[512];
    char spec[512];
    memset(k, 0, sizeof(*k));
    ps_session_options_init(&o);
    (void)snprintf(spec, sizeof(spec), "ps=%s,%s;worker=127.0.0.1:1,127.0.0.1:2,127.0.0.1:3,127.0.0.1:4", cluster.address[0],
                   cluster.address[1]);
    o.cluster_spec = spec;
    o.job = task < 0 ? NULL : "worker";
    o.task_index = task < 0 ? 0 : (uint32_t)task;
    o.container = container;
    o.operation_timeout_ms = TIMEOUT_MS;
    o.ready_timeout_ms = TIMEOUT_MS;
    o.log = keep_log;
    o.log_ctx = k;
    assert_int_equal(ps_session_open(&o, &k->s, error, sizeof(error)), PS_OK);
    if (sync != NULL) {
        assert_int_equal(ps_session_sync(k->s, sync), PS_OK);
    }
    k->w = ps_param_get(k->s, "w", PS_SHAPE(N), ps_zeros(), ps_sgd(1));
}

static inline void ready(struct worker *k)
{
    if (ps_session_ready(k->s) != PS_OK) {
        print_error("%s\n", ps_session_error(k->s));
    }
    assert_int_equal(ps_session_status(k->s), PS_OK);
}

static inline ps_status push(const struct worker *k, float gradient)
{
    float *g = ps_param_grad(k->w);
    for (int i = 0; g != NULL && i < N; i++) {
        g[i] = gradient;
    }
    return ps_push(k->s, k->w);
}

static inline ps_status step(const struct worker *k)
{
    ps_status st = push(k, 1);
    return st == PS_OK ? ps_step_done(k->s) : st;
}

static inline void assert_w(const struct worker *k, float value)
{
    assert_int_equal(ps_pull(k->s), PS_OK);
    for (int i = 0; i < N; i++) {
        assert_true(((float *)ps_param_value(k->w))[i] == value);
    }
}

/* ---- hooks that leave a trace ---- */

struct tracer {
    struct worker *k;
    const char *name; /* one letter */
    const char *fails_at;
    int how; /* 1: returns a status, 2: ps_session_fail(), 3: a failed call's status, 4: a call that sticks, and returns OK, 5: no
                status */
    pthread_t thread;
};

static ps_status trace(void *ctx, ps_session *s, const char *at)
{
    struct tracer *t = ctx;
    size_t used = strlen(t->k->trace);
    assert_ptr_equal(s, t->k->s);
    assert_true(pthread_equal(t->thread, pthread_self()));
    (void)snprintf(t->k->trace + used, sizeof(t->k->trace) - used, "%s%s ", at, t->name);
    if (t->fails_at == NULL || strcmp(t->fails_at, at) != 0) {
        return PS_OK;
    }
    ps_variable *v = NULL;
    switch (t->how) {
    case 1:
        return PS_DATA_LOSS;
    case 2:
        return ps_session_fail(s, PS_DATA_LOSS, "its own text");
    case 3:
        return ps_variable_find(s, "not_there", &v);
    case 5:
        return (ps_status)256; /* as an exit status it would be 0 */
    default:
        (void)ps_push(s, NULL); /* sticks */
        return PS_OK;
    }
}

static ps_status on_begin(void *ctx, ps_session *s)
{
    return trace(ctx, s, "begin");
}
static ps_status on_created(void *ctx, ps_session *s)
{
    return trace(ctx, s, "created");
}
static ps_status on_before(void *ctx, ps_session *s)
{
    return trace(ctx, s, "before");
}
static ps_status on_after(void *ctx, ps_session *s, const ps_step_values *values)
{
    assert_int_equal(values->global_step, ps_global_step(s));
    return trace(ctx, s, "after");
}
static ps_status on_end(void *ctx, ps_session *s)
{
    return trace(ctx, s, "end");
}

static inline void add_tracer(struct tracer *t, struct worker *k, const char *name)
{
    ps_hook hook;
    ps_hook_init(&hook);
    t->k = k;
    t->name = name;
    t->thread = pthread_self();
    hook.name = name;
    hook.ctx = t;
    hook.begin = on_begin;
    hook.after_create_session = on_created;
    hook.before_run = on_before;
    hook.after_run = on_after;
    hook.end = on_end;
    assert_int_equal(ps_add_hook(k->s, &hook), PS_OK);
    memset(&hook, 0, sizeof(hook)); /* it was copied */
}

#define assert_trace(k_, text_)                                                                                                  \
    do {                                                                                                                         \
        assert_string_equal((k_)->trace, text_);                                                                                 \
        (k_)->trace[0] = '\0';                                                                                                   \
    } while (0)

#endif
