/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that go on without a thread: run() returns PSD_CALL_PENDING, again() has it entered once more, finish() ends it from any
 * thread. What a server gives to its table: attach(), detach(), the functions of a call. One compute thread serves all tests, so
 * that a call which kept it would hold up what the test waits for.
 */
#include "in_process.h"

#include <ps.h>
#include <psd.h>

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define TASK "/job:ps/task:0"
enum {
    MOST = 8,
    DEADLINE_MS = 2000, /* of a call that is entered, or answered, before, on a busy machine too */
};

/* What the test and the table's functions share, under lock. */
struct table {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    psd_call *call; /* the last one that was entered */
    void *out;
    int entered, cancelled;
    int in_run;             /* number of run() that are going on */
    int ends_at;            /* run() returns PS_OK at this entry; 0: it stays PENDING */
    bool holds;             /* run() waits inside until the test takes this back */
    bool ends_by_itself;    /* run() returns PS_OK although the test has finished the call */
    bool cancel_finishes;   /* cancel() calls finish */
    bool cancel_waits;      /* cancel() waits for `finishing`, and then some */
    bool finishing, waited; /* a thread is about to call finish; cancel() has waited */
    /* of test.early: bytes that had come at the first entry; run() ends at its first entry; check() refuses */
    size_t first_come;
    bool ends_early, refuses;
};

static void table_set(struct table *t, bool *what, bool to)
{
    (void)pthread_mutex_lock(&t->lock);
    *what = to;
    (void)pthread_cond_broadcast(&t->changed);
    (void)pthread_mutex_unlock(&t->lock);
}

static ps_status run_pend(void *ctx, psd_call *call, const void *in, size_t in_bytes, void *out, size_t out_capacity,
                          size_t *out_bytes, char *error, size_t error_bytes)
{
    struct table *t = ctx;
    (void)in;
    (void)in_bytes;
    (void)out_capacity;
    (void)pthread_mutex_lock(&t->lock);
    t->call = call;
    t->out = out;
    int entry = ++t->entered;
    if (++t->in_run > 1) {
        (void)snprintf(error, error_bytes, "run() was entered twice at a time");
        t->in_run--;
        (void)pthread_mutex_unlock(&t->lock);
        return PS_INTERNAL;
    }
    (void)pthread_cond_broadcast(&t->changed);
    while (t->holds) {
        (void)pthread_cond_wait(&t->changed, &t->lock);
    }
    bool ends = entry == t->ends_at || t->ends_by_itself;
    t->in_run--;
    (void)pthread_mutex_unlock(&t->lock);
    if (ends) {
        memcpy(out, "ended", 5);
        *out_bytes = 5;
        return PS_OK;
    }
    *out_bytes = out_capacity + 1; /* not looked at */
    return (ps_status)PSD_CALL_PENDING;
}

static void cancel_pend(void *ctx, psd_call *call)
{
    struct table *t = ctx;
    (void)pthread_mutex_lock(&t->lock);
    t->cancelled++;
    bool finishes = t->cancel_finishes;
    (void)pthread_cond_broadcast(&t->changed);
    while (t->cancel_waits && !t->finishing) {
        (void)pthread_cond_wait(&t->changed, &t->lock);
    }
    bool waits = t->cancel_waits;
    (void)pthread_mutex_unlock(&t->lock);
    for (int i = 0; waits && i < 2000; i++) {
        (void)sched_yield(); /* so that a finish() that does not wait for this function is over first */
    }
    table_set(t, &t->waited, waits);
    if (finishes) {
        assert_int_equal(psd_call_finish(call, PS_CANCELLED, 0, "by cancel()"), PS_OK);
    }
}

/* What attach() has brought, and how often. */
static struct attached {
    const psd_call_functions *functions;
    psd_call_task task;
    int attached, detached;
    bool idle; /* at detach(), no run() was going on */
} seen;

static void attach(void *ctx, const psd_call_functions *functions, const psd_call_task *task)
{
    (void)ctx;
    seen.functions = functions;
    seen.task = *task;
    seen.attached++;
}

static void detach(void *ctx)
{
    struct table *t = ctx;
    seen.detached++;
    seen.idle = t->in_run == 0;
}

/* Reads variable v, which has 4 floats: PENDING until its copy is there; its sum is the result. */
struct sum {
    psd_call *call;
    float values[4];
    psd_call_read_result got;
    char error[128];
};

static void sum_read(void *ctx, const psd_call_read_result *result)
{
    struct sum *s = ctx;
    s->got = *result;
    (void)snprintf(s->error, sizeof(s->error), "%s", result->error);
    assert_int_equal(seen.functions->again(s->call), PS_OK);
}

static ps_status run_sum(void *ctx, psd_call *call, const void *in, size_t in_bytes, void *out, size_t out_capacity,
                         size_t *out_bytes, char *error, size_t error_bytes)
{
    const psd_call_functions *f = seen.functions;
    struct sum *s = *f->data(call);
    (void)ctx;
    (void)out_capacity;
    if (s == NULL) {
        s = calloc(1, sizeof(*s));
        *f->data(call) = s;
        s->call = call;
        const psd_call_read what = {.struct_bytes = sizeof(what),
                                    .container = "",
                                    .name = in_bytes > 0 ? (const char *)in : "v",
                                    .dtype = PS_F32,
                                    .dst = s->values,
                                    .bytes = sizeof(s->values)};
        ps_status st = f->read(call, &what, sum_read, s);
        return st != PS_OK ? st : (ps_status)PSD_CALL_PENDING;
    }
    ps_status st = s->got.status;
    (void)snprintf(error, error_bytes, "%s", s->error);
    f->reason(call, s->got.reason);
    if (st == PS_OK) {
        float sum = s->values[0] + s->values[1] + s->values[2] + s->values[3];
        *out_bytes = (size_t)snprintf(out, out_capacity, "%g %s", (double)sum, s->got.exact ? "exact" : "torn");
    }
    free(s);
    return st;
}

/* Asks psd_call_cancelled(), as a row without cancel() does. */
static ps_status run_ask(void *ctx, psd_call *call, const void *in, size_t in_bytes, void *out, size_t out_capacity,
                         size_t *out_bytes, char *error, size_t error_bytes)
{
    if (psd_call_cancelled(call)) {
        return PS_CANCELLED;
    }
    return run_pend(ctx, call, in, in_bytes, out, out_capacity, out_bytes, error, error_bytes);
}

static ps_status run_echo(void *ctx, psd_call *call, const void *in, size_t in_bytes, void *out, size_t out_capacity,
                          size_t *out_bytes, char *error, size_t error_bytes)
{
    (void)ctx;
    (void)call;
    (void)out_capacity;
    (void)error;
    (void)error_bytes;
    memcpy(out, in, in_bytes);
    *out_bytes = in_bytes;
    return PS_OK;
}

/* On the task's thread, when all of the input has come: it waits until run() was entered before that. */
static ps_status check_early(void *ctx, const void *in, size_t in_bytes, char *error, size_t error_bytes)
{
    struct table *t = ctx;
    (void)in;
    (void)in_bytes;
    (void)pthread_mutex_lock(&t->lock);
    while (t->entered == 0) {
        (void)pthread_cond_wait(&t->changed, &t->lock);
    }
    (void)pthread_mutex_unlock(&t->lock);
    (void)snprintf(error, error_bytes, "check() refuses it");
    return t->refuses ? PS_INVALID_ARGUMENT : PS_OK;
}

/* PENDING until all of the input is there: its last byte is the result. */
static ps_status run_early(void *ctx, psd_call *call, const void *in, size_t in_bytes, void *out, size_t out_capacity,
                           size_t *out_bytes, char *error, size_t error_bytes)
{
    struct table *t = ctx;
    const size_t come = seen.functions->come(call);
    (void)out_capacity;
    (void)pthread_mutex_lock(&t->lock);
    t->first_come = t->entered == 0 ? come : t->first_come;
    t->entered++;
    (void)pthread_cond_broadcast(&t->changed);
    (void)pthread_mutex_unlock(&t->lock);
    if (come < in_bytes && !t->ends_early) {
        return (ps_status)PSD_CALL_PENDING;
    }
    (void)snprintf(error, error_bytes, "it ended early");
    memcpy(out, (const uint8_t *)in + in_bytes - 1, 1);
    *out_bytes = 1;
    return t->ends_early ? PS_UNAVAILABLE : PS_OK;
}

static const psd_call_row rows[] = {
    {.name = "test.early", .check = check_early, .run = run_early, .cancel = cancel_pend, .early = true},
    {.name = "test.pend", .run = run_pend, .cancel = cancel_pend},
    {.name = "test.ask", .run = run_ask},
    {.name = "test.sum", .run = run_sum},
    {.name = "test.echo", .run = run_echo}};

struct env {
    struct table t;
    psd_server *server;
    ps_session *session;
};

static void no_log(void *ctx, ps_log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)line;
}

static void env_init(struct env *e)
{
    char error[512] = "";
    psd_server_options o;
    ps_session_options so;
    memset(e, 0, sizeof(*e));
    (void)alarm(60); /* where a call is never over */
    assert_int_equal(pthread_mutex_init(&e->t.lock, NULL), 0);
    assert_int_equal(pthread_cond_init(&e->t.changed, NULL), 0);
    psd_server_options_init(&o);
    o.listen = "127.0.0.1:0";
    o.key_file = getenv("PSD_KEY_FILE"); /* make check TRANSPORT=tls */
    o.calls = (psd_call_table){.rows = rows,
                               .row_bytes = sizeof(rows[0]),
                               .count = sizeof(rows) / sizeof(rows[0]),
                               .ctx = &e->t,
                               .attach = attach,
                               .detach = detach};
    o.devices = "CPU:0,GPU:0";
    seen = (struct attached){.functions = NULL};
    o.calls_max = MOST;
    if (psd_server_start(&o, &e->server, error, sizeof(error)) != PS_OK) {
        fail_msg("%s", error);
    }
    ps_session_options_init(&so);
    so.target = psd_server_target(e->server);
    so.operation_timeout_ms = 30000;
    so.log = no_log;
    assert_int_equal(ps_session_open(&so, &e->session, NULL, 0), PS_OK);
}

static void env_fini(struct env *e)
{
    (void)ps_session_close(e->session);
    psd_server_free(e->server);
    assert_int_equal(e->t.in_run, 0);
    assert_int_equal(pthread_cond_destroy(&e->t.changed), 0);
    assert_int_equal(pthread_mutex_destroy(&e->t.lock), 0);
}

struct caller {
    pthread_t thread;
    struct env *e;
    const char *name;
    int64_t timeout_ms;
    ps_status st;
    ps_reason reason;
    size_t out_bytes;
    char out[16];
    char error[512];
};

static void *one_call(void *arg)
{
    struct caller *c = arg;
    c->st = ps_call(c->e->session, TASK, c->name, "", 0, c->out, sizeof(c->out), &c->out_bytes, c->timeout_ms);
    c->reason = ps_last_reason();
    (void)snprintf(c->error, sizeof(c->error), "%s", ps_last_error());
    return NULL;
}

static void start_caller(struct caller *c, struct env *e, const char *name, int64_t timeout_ms)
{
    *c = (struct caller){.e = e, .name = name, .timeout_ms = timeout_ms};
    assert_int_equal(pthread_create(&c->thread, NULL, one_call, c), 0);
}

static void join_caller(struct caller *c, ps_status st, const char *word)
{
    assert_int_equal(pthread_join(c->thread, NULL), 0);
    if (c->st != st || strstr(c->error, word) == NULL) {
        fail_msg("%s: %s", ps_status_name(c->st), c->error);
    }
}

/* Until run() has been entered so often. The call that it was entered for last. */
static psd_call *entered(struct table *t, int times)
{
    (void)pthread_mutex_lock(&t->lock);
    while (t->entered < times) {
        (void)pthread_cond_wait(&t->changed, &t->lock);
    }
    psd_call *call = t->call;
    (void)pthread_mutex_unlock(&t->lock);
    return call;
}

static void wait_cancelled(struct table *t, int times)
{
    (void)pthread_mutex_lock(&t->lock);
    while (t->cancelled < times) {
        (void)pthread_cond_wait(&t->changed, &t->lock);
    }
    (void)pthread_mutex_unlock(&t->lock);
}

/* The one compute thread has left the run() of every call that was entered before. */
static void thread_is_free(struct env *e)
{
    char out[2];
    size_t n = 0;
    assert_int_equal(ps_call(e->session, TASK, "test.echo", "ok", 2, out, sizeof(out), &n, 0), PS_OK);
    assert_memory_equal(out, "ok", 2);
}

/* ---- tests ---- */

static void pending_holds_no_thread(void **state)
{
    struct env e;
    struct caller c;
    (void)state;
    env_init(&e);
    start_caller(&c, &e, "test.pend", 0);
    psd_call *call = entered(&e.t, 1);
    thread_is_free(&e);
    assert_false(psd_call_cancelled(call));
    memcpy(e.t.out, "from elsewhere", 14);
    assert_int_equal(psd_call_finish(call, PS_OK, 14, NULL), PS_OK);
    join_caller(&c, PS_OK, "");
    assert_int_equal(c.out_bytes, 14);
    assert_memory_equal(c.out, "from elsewhere", 14);
    env_fini(&e);
}

static void more_are_pending_than_threads(void **state)
{
    struct env e;
    struct caller c[MOST - 1];
    psd_call *calls[MOST - 1];
    (void)state;
    env_init(&e);
    for (int i = 0; i < MOST - 1; i++) {
        start_caller(&c[i], &e, "test.pend", 0);
        calls[i] = entered(&e.t, i + 1);
    }
    thread_is_free(&e); /* the last place of calls_max: PENDING calls count */
    struct caller last;
    start_caller(&last, &e, "test.pend", 0);
    psd_call *call = entered(&e.t, MOST);
    ps_status st = ps_call(e.session, TASK, "test.echo", "", 0, NULL, 0, NULL, DEADLINE_MS);
    assert_int_equal(st, PS_RESOURCE_EXHAUSTED);
    for (int i = 0; i < MOST - 1; i++) {
        assert_int_equal(psd_call_finish(calls[i], PS_UNAVAILABLE, 0, "the other task is away"), PS_OK);
    }
    assert_int_equal(psd_call_finish(call, PS_OK, 0, NULL), PS_OK);
    for (int i = 0; i < MOST - 1; i++) {
        join_caller(&c[i], PS_UNAVAILABLE, "the other task is away");
    }
    join_caller(&last, PS_OK, "");
    env_fini(&e);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &now), 0);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* From its arrival to its first thread: what again() makes it wait for does not count. */
static void how_long_it_was_queued(void **state)
{
    struct env e;
    struct caller c;
    (void)state;
    env_init(&e);
    const uint64_t begun_ns = now_ns();
    start_caller(&c, &e, "test.pend", 0);
    psd_call *call = entered(&e.t, 1);
    const uint64_t queued_ns = seen.functions->queued_ns(call);
    assert_true(queued_ns > 0 && queued_ns < now_ns() - begun_ns);
    thread_is_free(&e);
    assert_int_equal(psd_call_again(call), PS_OK);
    assert_true(entered(&e.t, 2) == call);
    assert_int_equal(seen.functions->queued_ns(call), queued_ns);
    assert_int_equal(psd_call_finish(call, PS_OK, 0, NULL), PS_OK);
    join_caller(&c, PS_OK, "");
    env_fini(&e);
}

static void again_enters_run_once_more(void **state)
{
    struct env e;
    struct caller c;
    (void)state;
    env_init(&e);
    e.t.ends_at = 4;
    start_caller(&c, &e, "test.pend", 0);
    psd_call *call = entered(&e.t, 1);
    thread_is_free(&e);
    assert_int_equal(psd_call_again(call), PS_OK);
    assert_true(entered(&e.t, 2) == call);
    table_set(&e.t, &e.t.holds, true);
    thread_is_free(&e);
    assert_int_equal(psd_call_again(call), PS_OK);
    assert_true(entered(&e.t, 3) == call);
    assert_int_equal(psd_call_again(call), PS_OK); /* while run() goes on: it is entered once more, and only once */
    assert_int_equal(psd_call_again(call), PS_OK);
    table_set(&e.t, &e.t.holds, false);
    join_caller(&c, PS_OK, "");
    assert_memory_equal(c.out, "ended", 5);
    thread_is_free(&e);
    assert_int_equal(e.t.entered, 4);
    env_fini(&e);
}

/* finish() may overtake the run() that starts what calls it. */
static void finish_may_come_before_run_returns(void **state)
{
    struct env e;
    struct caller c;
    (void)state;
    env_init(&e);
    e.t.holds = true;
    start_caller(&c, &e, "test.pend", 0);
    psd_call *call = entered(&e.t, 1);
    memcpy(e.t.out, "early", 5);
    assert_int_equal(psd_call_finish(call, PS_OK, 5, NULL), PS_OK);
    assert_int_equal(psd_call_again(call), PS_FAILED_PRECONDITION);
    assert_int_equal(psd_call_finish(call, PS_INTERNAL, 0, "twice"), PS_FAILED_PRECONDITION);
    table_set(&e.t, &e.t.holds, false);
    join_caller(&c, PS_OK, "");
    assert_memory_equal(c.out, "early", 5);
    assert_int_equal(e.t.entered, 1);
    env_fini(&e);
}

static void two_ends_of_one_call(void **state)
{
    struct env e;
    struct caller c;
    (void)state;
    env_init(&e);
    start_caller(&c, &e, "test.pend", 0);
    psd_call *call = entered(&e.t, 1);
    thread_is_free(&e);
    assert_int_equal(psd_call_finish(call, PS_OK, 0, NULL), PS_OK);
    assert_int_equal(psd_call_finish(call, PS_INTERNAL, 0, "twice"), PS_FAILED_PRECONDITION);
    join_caller(&c, PS_OK, "");
    struct caller others[MOST - 1];
    psd_call *calls[MOST - 1];
    for (int i = 0; i < MOST - 1; i++) { /* none of them has the place of the first one */
        start_caller(&others[i], &e, "test.pend", 0);
        calls[i] = entered(&e.t, i + 2);
        assert_int_equal(psd_call_finish(call, PS_INTERNAL, 0, "late"), PS_FAILED_PRECONDITION);
        assert_int_equal(psd_call_again(call), PS_FAILED_PRECONDITION);
    }
    for (int i = 0; i < MOST - 1; i++) {
        assert_int_equal(psd_call_finish(calls[i], PS_OK, 0, NULL), PS_OK);
        join_caller(&others[i], PS_OK, "");
    }
    e.t.holds = e.t.ends_by_itself = true; /* finish(), and run() returns a status as well */
    start_caller(&c, &e, "test.pend", 0);
    call = entered(&e.t, MOST + 1);
    assert_int_equal(psd_call_finish(call, PS_OK, 0, NULL), PS_OK);
    table_set(&e.t, &e.t.holds, false);
    join_caller(&c, PS_INTERNAL, "it was finished, and run() ended it as well");
    assert_int_equal(psd_call_finish(NULL, PS_OK, 0, NULL), PS_INVALID_ARGUMENT);
    assert_int_equal(psd_call_again(NULL), PS_INVALID_ARGUMENT);
    env_fini(&e);
}

static void a_failure_has_its_reason(void **state)
{
    static const struct {
        ps_reason says;
        ps_status st;
        ps_reason reason;
    } cases[] = {{PS_REASON_TOO_LARGE, PS_FAILED_PRECONDITION, PS_REASON_TOO_LARGE},
                 {PS_REASON_NONE, PS_FAILED_PRECONDITION, (ps_reason)PS_FAILED_PRECONDITION},
                 {(ps_reason)PS_NOT_FOUND, PS_FAILED_PRECONDITION, (ps_reason)PS_FAILED_PRECONDITION},
                 {PS_REASON_TOO_LARGE, (ps_status)99, (ps_reason)PS_INTERNAL},
                 {PS_REASON_TOO_LARGE, PS_OK, PS_REASON_NONE},
                 {PS_REASON_NONE, PS_ABORTED, (ps_reason)PS_ABORTED}};
    struct env e;
    (void)state;
    env_init(&e);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct caller c;
        start_caller(&c, &e, "test.pend", 0);
        psd_call *call = entered(&e.t, (int)i + 1);
        seen.functions->reason(call, PS_REASON_LOST);
        seen.functions->reason(call, cases[i].says); /* the last one counts */
        assert_int_equal(psd_call_finish(call, cases[i].st, 0, NULL), PS_OK);
        seen.functions->reason(call, PS_REASON_LOST); /* it is over: nothing happens */
        join_caller(&c, cases[i].st == (ps_status)99 ? PS_INTERNAL : cases[i].st, "");
        assert_int_equal(c.reason, cases[i].reason);
    }
    env_fini(&e);
}

static void a_finish_that_says_nonsense(void **state)
{
    static const struct {
        ps_status st;
        size_t bytes;
        const char *word;
    } cases[] = {{(ps_status)99, 0, "it ended with 99, which is no status"},
                 {(ps_status)PSD_CALL_PENDING, 0, "it ended with 1000, which is no status"},
                 {PS_OK, PS_CALL_BYTES_MAX + 1, "65537 bytes into 65536"}};
    struct env e;
    struct caller c;
    (void)state;
    env_init(&e);
    for (int i = 0; i < 3; i++) {
        start_caller(&c, &e, "test.pend", 0);
        psd_call *call = entered(&e.t, i + 1);
        assert_int_equal(psd_call_finish(call, cases[i].st, cases[i].bytes, "not this"), PS_OK);
        join_caller(&c, PS_INTERNAL, cases[i].word);
    }
    env_fini(&e);
}

/* The deadline cancels; the memory of the call stays until it is finished. */
static void a_deadline_cancels_it(void **state)
{
    struct env e;
    struct caller c;
    (void)state;
    env_init(&e);
    start_caller(&c, &e, "test.pend", DEADLINE_MS);
    psd_call *call = entered(&e.t, 1);
    wait_cancelled(&e.t, 1);
    join_caller(&c, PS_DEADLINE_EXCEEDED, "");
    assert_true(psd_call_cancelled(call));
    memset(e.t.out, 0x5a, PS_CALL_BYTES_MAX);
    assert_int_equal(psd_call_again(call), PS_OK); /* it may go on to tidy up */
    assert_true(entered(&e.t, 2) == call);
    thread_is_free(&e);
    assert_int_equal(psd_call_finish(call, PS_OK, PS_CALL_BYTES_MAX, NULL), PS_OK);
    thread_is_free(&e);
    env_fini(&e);
    assert_int_equal(e.t.cancelled, 1);
}

/* A row without cancel() is entered again, so that it sees it. */
static void without_cancel_run_is_entered(void **state)
{
    struct env e;
    struct caller c;
    (void)state;
    env_init(&e);
    start_caller(&c, &e, "test.ask", DEADLINE_MS);
    (void)entered(&e.t, 1);
    join_caller(&c, PS_DEADLINE_EXCEEDED, "");
    psd_server_stop(e.server, 60000); /* it drains: the call must be over */
    psd_server_wait(e.server);
    env_fini(&e);
    assert_int_equal(e.t.entered, 1);
}

static void cancel_may_finish_it(void **state)
{
    struct env e;
    struct caller c;
    (void)state;
    env_init(&e);
    e.t.cancel_finishes = true;
    start_caller(&c, &e, "test.pend", DEADLINE_MS);
    psd_call *call = entered(&e.t, 1);
    join_caller(&c, PS_DEADLINE_EXCEEDED, "");
    wait_cancelled(&e.t, 1);
    psd_server_stop(e.server, 60000);
    psd_server_wait(e.server);
    (void)call;
    env_fini(&e);
}

struct finisher {
    struct table *t;
    psd_call *call;
    bool waited;
};

static void *finish_beside(void *arg)
{
    struct finisher *f = arg;
    table_set(f->t, &f->t->finishing, true);
    assert_int_equal(psd_call_finish(f->call, PS_OK, 0, NULL), PS_OK);
    (void)pthread_mutex_lock(&f->t->lock);
    f->waited = f->t->waited;
    (void)pthread_mutex_unlock(&f->t->lock);
    return NULL;
}

/* Who finishes a call may free what cancel() looks at. */
static void finish_waits_for_cancel(void **state)
{
    struct env e;
    struct caller c;
    pthread_t thread;
    (void)state;
    env_init(&e);
    e.t.cancel_waits = true;
    start_caller(&c, &e, "test.pend", DEADLINE_MS);
    struct finisher f = {.t = &e.t, .call = entered(&e.t, 1)};
    wait_cancelled(&e.t, 1);
    assert_int_equal(pthread_create(&thread, NULL, finish_beside, &f), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(f.waited);
    join_caller(&c, PS_DEADLINE_EXCEEDED, "");
    env_fini(&e);
}

/* A task that drains waits for it, and sends its result. */
static void a_drain_waits_for_it(void **state)
{
    struct env e;
    struct caller c;
    (void)state;
    env_init(&e);
    start_caller(&c, &e, "test.pend", 0);
    psd_call *call = entered(&e.t, 1);
    thread_is_free(&e);
    psd_server_stop(e.server, 60000);
    assert_int_equal(ps_call(e.session, TASK, "test.echo", "", 0, NULL, 0, NULL, DEADLINE_MS), PS_UNAVAILABLE);
    assert_false(psd_server_has_ended(e.server));
    assert_int_equal(psd_call_again(call), PS_OK); /* threads run while it drains */
    assert_true(entered(&e.t, 2) == call);
    memcpy(e.t.out, "drained", 7);
    assert_int_equal(psd_call_finish(call, PS_OK, 7, NULL), PS_OK);
    join_caller(&c, PS_OK, "");
    assert_memory_equal(c.out, "drained", 7);
    psd_server_wait(e.server);
    env_fini(&e);
    assert_int_equal(e.t.cancelled, 0);
}

struct waiter {
    psd_server *server;
    atomic_bool finished, too_early;
};

static void *wait_for_end(void *arg)
{
    struct waiter *w = arg;
    psd_server_wait(w->server);
    atomic_store(&w->too_early, !atomic_load(&w->finished));
    return NULL;
}

/* A server that ends at once cancels it, enters it again when it is asked, and is there until it is finished. */
static void the_end_waits_for_its_finish(void **state)
{
    struct env e;
    struct caller c;
    pthread_t thread;
    (void)state;
    env_init(&e);
    start_caller(&c, &e, "test.pend", 2000);
    psd_call *call = entered(&e.t, 1);
    thread_is_free(&e);
    struct waiter w = {.server = e.server};
    assert_int_equal(pthread_create(&thread, NULL, wait_for_end, &w), 0);
    psd_server_stop(e.server, 0);
    wait_cancelled(&e.t, 1);
    assert_int_equal(pthread_join(c.thread, NULL), 0); /* its connection is closed: nothing else holds up the end */
    assert_int_not_equal(c.st, PS_OK);
    assert_int_equal(psd_call_again(call), PS_OK);
    assert_true(entered(&e.t, 2) == call);
    assert_false(psd_server_has_ended(e.server));
    memset(e.t.out, 1, PS_CALL_BYTES_MAX); /* its memory is there */
    atomic_store(&w.finished, true);
    assert_int_equal(psd_call_finish(call, PS_OK, 0, NULL), PS_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(atomic_load(&w.too_early));
    env_fini(&e);
    assert_int_equal(e.t.cancelled, 1);
}

static void a_table_is_attached(void **state)
{
    struct env e;
    struct caller c;
    char target[64];
    (void)state;
    env_init(&e);
    start_caller(&c, &e, "test.pend", 10000);
    psd_call *call = entered(&e.t, 1);
    assert_int_equal(seen.attached, 1);
    assert_int_equal(seen.task.struct_bytes, sizeof(psd_call_task));
    assert_int_equal(seen.functions->struct_bytes, sizeof(psd_call_functions));
    assert_string_equal(seen.task.target, psd_server_target(e.server));
    assert_string_equal(seen.task.name, TASK);
    assert_string_equal(seen.task.job, "ps");
    assert_int_equal(seen.task.task_index, 0);
    assert_int_equal(seen.task.call_threads, 1);
    assert_string_equal(seen.task.cluster_name, "psd");
    (void)snprintf(target, sizeof(target), "ps=%s", psd_server_address(e.server));
    assert_string_equal(seen.task.cluster_spec, target);
    assert_string_equal(seen.task.devices, "CPU:0,GPU:0");
    assert_null(*seen.functions->data(call));
    assert_non_null(strchr(seen.functions->asker(call), '@'));
    int64_t left = seen.functions->left_ms(call);
    assert_true(left > 0 && left <= 10000);
    assert_int_equal(seen.detached, 0);
    assert_int_equal(seen.functions->finish(call, PS_OK, 0, NULL), PS_OK);
    join_caller(&c, PS_OK, "");
    start_caller(&c, &e, "test.pend", 0);
    call = entered(&e.t, 2);
    assert_true(seen.functions->left_ms(call) > 10000); /* the client's own time for an operation */
    e.t.cancel_finishes = true;
    psd_server_stop(e.server, 0);
    psd_server_wait(e.server);
    ps_interrupt(e.session); /* the caller would wait for another server until its timeout */
    assert_int_equal(pthread_join(c.thread, NULL), 0);
    assert_int_equal(seen.detached, 1);
    assert_true(seen.idle);
    env_fini(&e);
    assert_int_equal(seen.detached, 1);
}

static void a_call_reads_variables_of_its_task(void **state)
{
    static const float values[] = {1, 2, 4, 8};
    struct env e;
    ps_variable *v = NULL;
    char out[32] = "";
    (void)state;
    env_init(&e);
    assert_int_equal(ps_call(e.session, TASK, "test.sum", "v", 2, NULL, 0, NULL, 0), PS_NOT_FOUND);
    assert_non_null(strstr(ps_last_error(), TASK " has no variable 'v'"));
    ps_variable_spec spec;
    ps_variable_spec_init(&spec);
    spec.name = "v";
    spec.shape = PS_SHAPE(4);
    spec.dtype = PS_F32;
    assert_int_equal(ps_variable_get(e.session, &spec, &v), PS_OK);
    assert_int_equal(ps_call(e.session, TASK, "test.sum", "v", 2, NULL, 0, NULL, 0), PS_FAILED_PRECONDITION);
    assert_int_equal(ps_last_reason(), PS_REASON_UNINITIALIZED);
    assert_int_equal(ps_variable_assign(v, values, sizeof(values)), PS_OK);
    assert_int_equal(ps_call(e.session, TASK, "test.sum", "v", 2, out, sizeof(out), NULL, 0), PS_OK);
    assert_string_equal(out, "15 exact");
    env_fini(&e);
}

/* ---- a row that is entered before all of its input has come ---- */

static ps_status call_early(struct env *e, size_t bytes)
{
    uint8_t *in = calloc(bytes, 1);
    uint8_t out[1] = {0};
    assert_non_null(in);
    in[bytes - 1] = 42;
    const ps_status st = ps_call(e->session, TASK, "test.early", in, bytes, out, sizeof(out), NULL, 0);
    free(in);
    assert_int_equal(out[0], st == PS_OK ? 42 : 0);
    assert_true(e->t.first_come > 0 && e->t.first_come < bytes);
    return st;
}

static void an_early_row_is_entered_with_the_first_bytes(void **state)
{
    struct env e;
    (void)state;
    env_init(&e);
    assert_int_equal(call_early(&e, 600000), PS_OK);
    assert_int_equal(e.t.entered, 2);
    assert_int_equal(e.t.cancelled, 0);
    env_fini(&e);
}

static void an_early_end_is_said_when_all_has_come(void **state)
{
    struct env e;
    (void)state;
    env_init(&e);
    e.t.ends_early = true;
    assert_int_equal(call_early(&e, 32 << 20), PS_UNAVAILABLE); /* run() has ended long before the last byte comes */
    assert_non_null(strstr(ps_last_error(), "it ended early"));
    assert_int_equal(e.t.entered, 1);
    env_fini(&e);
}

static void what_check_refuses_is_cancelled(void **state)
{
    struct env e;
    (void)state;
    env_init(&e);
    e.t.refuses = e.t.cancel_finishes = true;
    assert_int_equal(call_early(&e, 600000), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_last_error(), "check() refuses it"));
    wait_cancelled(&e.t, 1);
    thread_is_free(&e);
    assert_int_equal(e.t.entered, 1);
    env_fini(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pending_holds_no_thread),
        cmocka_unit_test(more_are_pending_than_threads),
        cmocka_unit_test(again_enters_run_once_more),
        cmocka_unit_test(finish_may_come_before_run_returns),
        cmocka_unit_test(two_ends_of_one_call),
        cmocka_unit_test(a_finish_that_says_nonsense),
        cmocka_unit_test(a_failure_has_its_reason),
        cmocka_unit_test(how_long_it_was_queued),
        cmocka_unit_test(a_deadline_cancels_it),
        cmocka_unit_test(without_cancel_run_is_entered),
        cmocka_unit_test(cancel_may_finish_it),
        cmocka_unit_test(finish_waits_for_cancel),
        cmocka_unit_test(a_drain_waits_for_it),
        cmocka_unit_test(the_end_waits_for_its_finish),
        cmocka_unit_test(a_table_is_attached),
        cmocka_unit_test(a_call_reads_variables_of_its_task),
        cmocka_unit_test(an_early_row_is_entered_with_the_first_bytes),
        cmocka_unit_test(an_early_end_is_said_when_all_has_come),
        cmocka_unit_test(what_check_refuses_is_cancelled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
