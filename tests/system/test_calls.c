/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls end to end: ps_call at a server of this process whose table has functions of the test. They run on compute threads, at
 * most call_threads at a time, are cancelled by deadlines and by the server's end, and their results and failures arrive.
 */
#include "in_process.h"

#include <ps.h>

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Of a call that is entered before, or answered, on a busy machine too; and of one that ends while the other one runs. */
enum { DEADLINE_MS = 2000, SOON_MS = 500, LATER_MS = 3000 };

/* ---- a table ---- */

struct table {
    atomic_int ran, cancelled, inside;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int together; /* under lock: calls inside `meet` */
    bool open;    /* under lock: `hold` may end */
};

static ps_status run_echo(void *ctx, psd_call *call, const void *in, size_t in_bytes, void *out, size_t out_capacity,
                          size_t *out_bytes, char *error, size_t error_bytes)
{
    struct table *t = ctx;
    sigset_t set;
    (void)call;
    atomic_fetch_add(&t->ran, 1);
    if (out_capacity < PS_CALL_BYTES_MAX || pthread_sigmask(SIG_BLOCK, NULL, &set) != 0 || sigismember(&set, SIGTERM) != 1) {
        (void)snprintf(error, error_bytes, "room for %zu bytes, or signals are open", out_capacity);
        return PS_INTERNAL;
    }
    const size_t n = in_bytes < out_capacity ? in_bytes : out_capacity;
    if (n > 0) {
        memcpy(out, in, n);
    }
    *out_bytes = n;
    return PS_OK;
}

static ps_status check_odd(void *ctx, const void *in, size_t in_bytes, char *error, size_t error_bytes)
{
    (void)ctx;
    (void)in;
    if (in_bytes % 2 == 0) {
        (void)snprintf(error, error_bytes, "%zu is even", in_bytes);
        return PS_INVALID_ARGUMENT;
    }
    return PS_OK;
}

static ps_status run_fail(void *ctx, psd_call *call, const void *in, size_t in_bytes, void *out, size_t out_capacity,
                          size_t *out_bytes, char *error, size_t error_bytes)
{
    struct table *t = ctx;
    (void)call;
    (void)in;
    (void)out;
    atomic_fetch_add(&t->ran, 1);
    *out_bytes = in_bytes == 1 ? out_capacity + 1 : 0;
    if (in_bytes == 3) {
        memset(error, 'e', error_bytes); /* no end */
        return PS_UNAVAILABLE;
    }
    return in_bytes == 5 ? (ps_status)99 : PS_OK;
}

/* Two of them end only together. */
static ps_status run_meet(void *ctx, psd_call *call, const void *in, size_t in_bytes, void *out, size_t out_capacity,
                          size_t *out_bytes, char *error, size_t error_bytes)
{
    struct table *t = ctx;
    (void)call;
    (void)in;
    (void)in_bytes;
    (void)out;
    (void)out_capacity;
    (void)error;
    (void)error_bytes;
    (void)pthread_mutex_lock(&t->lock);
    t->together++;
    (void)pthread_cond_broadcast(&t->changed);
    while (t->together < 2) {
        (void)pthread_cond_wait(&t->changed, &t->lock);
    }
    (void)pthread_mutex_unlock(&t->lock);
    *out_bytes = 0;
    return PS_OK;
}

/* Until it is cancelled, or the test lets it go. */
static ps_status run_hold(void *ctx, psd_call *call, const void *in, size_t in_bytes, void *out, size_t out_capacity,
                          size_t *out_bytes, char *error, size_t error_bytes)
{
    struct table *t = ctx;
    (void)in;
    (void)in_bytes;
    (void)out_capacity;
    (void)pthread_mutex_lock(&t->lock);
    atomic_fetch_add(&t->inside, 1);
    (void)pthread_cond_broadcast(&t->changed);
    while (!t->open && !psd_call_cancelled(call)) {
        (void)pthread_cond_wait(&t->changed, &t->lock);
    }
    bool open = t->open;
    (void)pthread_mutex_unlock(&t->lock);
    atomic_fetch_add(&t->ran, 1);
    memcpy(out, "held", 4);
    *out_bytes = 4;
    if (!open) {
        (void)snprintf(error, error_bytes, "cancelled");
        return PS_CANCELLED;
    }
    return PS_OK;
}

static void cancel_hold(void *ctx, psd_call *call)
{
    struct table *t = ctx;
    atomic_fetch_add(&t->cancelled, psd_call_cancelled(call) ? 1 : 1000);
    (void)pthread_mutex_lock(&t->lock);
    (void)pthread_cond_broadcast(&t->changed);
    (void)pthread_mutex_unlock(&t->lock);
}

static const psd_call_row rows[] = {
    {.name = "test.echo", .run = run_echo},
    {.name = "test.odd", .check = check_odd, .run = run_echo},
    {.name = "test.fail", .run = run_fail},
    {.name = "test.meet", .run = run_meet},
    {.name = "test.hold", .run = run_hold, .cancel = cancel_hold},
};

struct env {
    struct table t;
    psd_server *server;
    ps_session *session;
};
static uint32_t threads = 1, most = 64;
static const char *devices; /* NULL: as a server has them unless it is told */

static void no_log(void *ctx, ps_log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)line;
}

static int64_t operation_timeout_ms = 60000;

static ps_session *session_with(const char *target, bool soft)
{
    ps_session_options o;
    ps_session *s = NULL;
    ps_session_options_init(&o);
    o.target = target;
    o.operation_timeout_ms = operation_timeout_ms;
    o.log = no_log;
    o.allow_soft_placement = soft;
    assert_int_equal(ps_session_open(&o, &s, NULL, 0), PS_OK);
    return s;
}

static ps_session *session_at(const char *target)
{
    return session_with(target, false);
}

static void env_init(struct env *e)
{
    char error[512] = "";
    psd_server_options o;
    memset(e, 0, sizeof(*e));
    assert_int_equal(pthread_mutex_init(&e->t.lock, NULL), 0);
    assert_int_equal(pthread_cond_init(&e->t.changed, NULL), 0);
    psd_server_options_init(&o);
    o.listen = "127.0.0.1:0";
    o.key_file = getenv("PSD_KEY_FILE"); /* make check TRANSPORT=tls */
    o.calls = (psd_call_table){.rows = rows, .row_bytes = sizeof(rows[0]), .count = sizeof(rows) / sizeof(rows[0]), .ctx = &e->t};
    o.call_threads = threads;
    o.devices = devices != NULL ? devices : o.devices;
    o.calls_max = most;
    if (psd_server_start(&o, &e->server, error, sizeof(error)) != PS_OK) {
        fail_msg("%s", error);
    }
    e->session = session_at(psd_server_target(e->server));
}

static void env_fini(struct env *e)
{
    assert_int_equal(ps_session_close(e->session), 0);
    psd_server_free(e->server);
    assert_int_equal(pthread_cond_destroy(&e->t.changed), 0);
    assert_int_equal(pthread_mutex_destroy(&e->t.lock), 0);
}

#define TASK "/job:ps/task:0"

static ps_status call(struct env *e, const char *name, const void *in, size_t in_bytes, void *out, size_t room, size_t *out_bytes)
{
    return ps_call(e->session, TASK, name, in, in_bytes, out, room, out_bytes, 0);
}

#define assert_call(status_, call_, word_)                                                                                       \
    do {                                                                                                                         \
        ps_status got_ = (call_);                                                                                                \
        if (got_ != (status_) || (got_ != PS_OK && strstr(ps_last_error(), (word_)) == NULL)) {                                  \
            fail_msg("%s: %s", ps_status_name(got_), ps_last_error());                                                           \
        }                                                                                                                        \
    } while (0)

/* ---- tests ---- */

static void values_go_in_and_come_out(void **state)
{
    enum { PART = 3 * 65536, FRAME = 262144 }; /* bytes that a client has in a part, that a task has in an answer's frame */
    static uint8_t in[(3 << 20) + 5];
    static uint8_t out[sizeof(in)];
    static const size_t sizes[] = {0,
                                   1,
                                   7,
                                   8,
                                   1000,
                                   PS_CALL_BYTES_MAX - 1,
                                   PS_CALL_BYTES_MAX,
                                   65537,
                                   PART - 1,
                                   PART,
                                   PART + 1,
                                   PART + 8,
                                   FRAME - 1,
                                   FRAME,
                                   FRAME + 1,
                                   2 * PART,
                                   FRAME + PART + 3,
                                   sizeof(in)};
    struct env e;
    size_t n = 0;
    (void)state;
    env_init(&e);
    for (size_t i = 0; i < sizeof(in); i++) {
        in[i] = (uint8_t)(i * 7 + i / 251);
    }
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        memset(out, 0xee, sizeof(out));
        assert_call(PS_OK, call(&e, "test.echo", in, sizes[i], out, sizeof(out), &n), "");
        assert_int_equal(n, sizes[i]);
        assert_memory_equal(in, out, sizes[i]);
    }
    assert_int_equal(atomic_load(&e.t.ran), sizeof(sizes) / sizeof(sizes[0]));
    assert_call(PS_OK, call(&e, "test.echo", in, sizeof(in), out, 70000, &n), ""); /* the call has as much room as its caller */
    assert_int_equal(n, 70000);
    assert_call(PS_INVALID_ARGUMENT, call(&e, "test.odd", in, sizeof(in) - 1, out, sizeof(out), &n), "3145732 is even");
    assert_call(PS_INVALID_ARGUMENT, call(&e, "test.echo", in, PS_CALL_LARGE_BYTES_MAX + 1, out, sizeof(out), &n),
                "at most 1073741824");
    assert_call(PS_OUT_OF_RANGE, call(&e, "test.echo", in, 100, out, 99, &n), "100 bytes, there is room for 99");
    assert_int_equal(n, 100);
    assert_call(PS_OK, call(&e, "test.echo", in, 100, out, 100, NULL), "");
    env_fini(&e);
}

static void what_is_refused_names_the_reason(void **state)
{
    struct env e;
    (void)state;
    env_init(&e);
    assert_call(PS_NOT_FOUND, call(&e, "test.ech", "", 0, NULL, 0, NULL),
                "it has test.echo, test.odd, test.fail, test.meet, test.hold");
    assert_call(PS_INVALID_ARGUMENT, call(&e, "test.odd", "ab", 2, NULL, 0, NULL), "2 is even");
    assert_call(PS_INVALID_ARGUMENT, ps_call(NULL, TASK, "test.odd", "", 0, NULL, 0, NULL, 0), "the session is NULL");
    assert_call(PS_INVALID_ARGUMENT, ps_call(e.session, "/job:ps/task:7", "test.odd", "", 0, NULL, 0, NULL, 0), "/job:ps/task:7");
    assert_call(PS_INVALID_ARGUMENT, ps_call(e.session, "/jub:ps", "test.odd", "", 0, NULL, 0, NULL, 0), "/jub:ps");
    assert_call(PS_INVALID_ARGUMENT, ps_call(e.session, TASK, NULL, "", 0, NULL, 0, NULL, 0), "no call");
    assert_int_equal(atomic_load(&e.t.ran), 0);
    env_fini(&e);
}

static ps_status echo_at(ps_session *s, const char *device)
{
    char out[4] = "";
    ps_status st = ps_call(s, device, "test.echo", "abc", 3, out, sizeof(out), NULL, 0);
    assert_true(st != PS_OK || memcmp(out, "abc", 3) == 0);
    return st;
}

/* Device scopes hold for calls as they do for variables; what they leave open is the target's. */
static void scopes_say_where_a_call_goes(void **state)
{
    struct env e;
    (void)state;
    env_init(&e);
    assert_call(PS_OK, echo_at(e.session, "/job:ps"), "");
    assert_call(PS_OK, echo_at(e.session, NULL), "");
    assert_call(PS_OK, echo_at(e.session, "/task:0"), "");
    assert_call(PS_OK, echo_at(e.session, "/cpu:0"), "");
    assert_int_equal(ps_device_push(e.session, "/job:ps/task:9"), PS_OK);
    assert_call(PS_INVALID_ARGUMENT, echo_at(e.session, NULL), "the cluster has no /job:ps/task:9; job 'ps' has tasks 0");
    assert_call(PS_OK, echo_at(e.session, "/task:0"), ""); /* the innermost one wins */
    assert_int_equal(ps_device_pop(e.session), PS_OK);
    ps_setter_options setter;
    ps_setter_options_init(&setter);
    setter.ps_tasks = 1;
    setter.worker_device = "/job:nobody";
    assert_int_equal(ps_device_push_setter(e.session, &setter), PS_OK);
    assert_call(PS_INVALID_ARGUMENT, echo_at(e.session, NULL), "the cluster has no /job:nobody/task:0; its jobs are ps");
    assert_int_equal(ps_device_pop(e.session), PS_OK);
    env_fini(&e);
}

/* The device of a call is one of the task's, as that of a variable would have to be. */
static void the_device_is_one_that_the_task_has(void **state)
{
    static const struct {
        const char *device, *word; /* word NULL: it is there */
    } asked[] = {{TASK "/device:CPU:0", NULL},
                 {TASK "/cpu:0", NULL},
                 {TASK "/device:CPU:*", NULL},
                 {TASK "/replica:0/device:GPU:1", NULL},
                 {TASK "/gpu", NULL}, /* any one */
                 {TASK "/device:*:0", NULL},
                 {TASK "/device:TPU:5", "device '" TASK "/device:TPU:5': " TASK " has no TPU:5; it has CPU:0,GPU:1"},
                 {TASK "/device:TPU", TASK " has no TPU:*"},
                 {TASK "/gpu:0", TASK " has no GPU:0"},
                 {TASK "/device:CPU:1", TASK " has no CPU:1"},
                 {TASK "/replica:3", "/replica:3 does not exist: every task is of replica 0"}};
    struct env e;
    (void)state;
    devices = "CPU:0,GPU:1";
    env_init(&e);
    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
        const ps_status expected = asked[i].word == NULL ? PS_OK : PS_INVALID_ARGUMENT;
        assert_call(expected, ps_call(e.session, asked[i].device, "test.echo", "", 0, NULL, 0, NULL, 0), asked[i].word);
    }
    assert_call(PS_INVALID_ARGUMENT, ps_call(e.session, TASK "/device:TPU:5", "test.echo", "", 0, NULL, 0, NULL, 0), "");
    assert_int_equal(ps_last_reason(), PS_REASON_NO_DEVICE);
    assert_int_equal(atomic_load(&e.t.ran), 6);
    ps_queue_spec spec; /* queues and accumulators have their check where variables have it */
    ps_queue *q = NULL;
    ps_accumulator *a = NULL;
    ps_queue_spec_init(&spec, "q", PS_F32, PS_SCALAR);
    spec.device = TASK "/device:TPU:5";
    assert_call(PS_INVALID_ARGUMENT, ps_queue_get(e.session, &spec, &q), "has no TPU:5");
    assert_call(PS_INVALID_ARGUMENT,
                ps_accumulator_get(e.session, "a", PS_F32, PS_SCALAR, PS_REDUCTION_SUM, TASK "/device:TPU:5", &a),
                "has no TPU:5");
    ps_session *s = session_with(psd_server_target(e.server), true); /* what the task lacks becomes CPU:0 of the same task */
    assert_call(PS_OK, ps_call(s, TASK "/device:TPU:5", "test.echo", "", 0, NULL, 0, NULL, 0), "");
    assert_call(PS_INVALID_ARGUMENT, ps_call(s, TASK "/replica:3", "test.echo", "", 0, NULL, 0, NULL, 0), "/replica:3");
    assert_int_equal(ps_session_close(s), 0);
    devices = NULL;
    env_fini(&e);
}

static void failures_of_the_call_arrive_once(void **state)
{
    struct env e;
    (void)state;
    env_init(&e);
    assert_call(PS_INTERNAL, call(&e, "test.fail", "a", 1, NULL, 0, NULL), "65537 bytes into 65536");
    assert_call(PS_UNAVAILABLE, call(&e, "test.fail", "abc", 3, NULL, 0, NULL), "eeee");
    assert_int_equal(ps_last_applied(), PS_MAYBE_PARTLY_APPLIED);
    assert_call(PS_INTERNAL, call(&e, "test.fail", "abcde", 5, NULL, 0, NULL), "no status");
    assert_int_equal(atomic_load(&e.t.ran), 3); /* UNAVAILABLE was not tried again */
    env_fini(&e);
}

struct caller {
    pthread_t thread;
    struct env *e;
    const char *name;
    int64_t timeout_ms;
    ps_status st;
    ps_applied applied;
    char out[8];
    char error[512];
};

static void *one_call(void *arg)
{
    struct caller *c = arg;
    c->st = ps_call(c->e->session, TASK, c->name, "", 0, c->out, sizeof(c->out), NULL, c->timeout_ms);
    c->applied = ps_last_applied();
    (void)snprintf(c->error, sizeof(c->error), "%s", ps_last_error());
    return NULL;
}

static void start_caller(struct caller *c, struct env *e, const char *name, int64_t timeout_ms)
{
    *c = (struct caller){.e = e, .name = name, .timeout_ms = timeout_ms};
    assert_int_equal(pthread_create(&c->thread, NULL, one_call, c), 0);
}

static void wait_inside(struct table *t, int count)
{
    (void)pthread_mutex_lock(&t->lock);
    while (atomic_load(&t->inside) < count) {
        (void)pthread_cond_wait(&t->changed, &t->lock);
    }
    (void)pthread_mutex_unlock(&t->lock);
}

static void let_go(struct table *t)
{
    (void)pthread_mutex_lock(&t->lock);
    t->open = true;
    (void)pthread_cond_broadcast(&t->changed);
    (void)pthread_mutex_unlock(&t->lock);
}

static void two_threads_run_two_calls(void **state)
{
    struct env e;
    struct caller c[2];
    (void)state;
    threads = 2;
    env_init(&e);
    threads = 1;
    for (int i = 0; i < 2; i++) {
        start_caller(&c[i], &e, "test.meet", 0);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(c[i].thread, NULL), 0);
        assert_int_equal(c[i].st, PS_OK);
    }
    env_fini(&e);
}

/* ---- calls that are started ---- */

/* Of the test: how started calls ended. */
struct ends {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int count; /* under the lock, as what follows: calls that have ended */
    ps_status st;
    ps_applied applied;
    ps_reason reason;
    size_t out_bytes;
    char text[512];
    ps_session *blocks; /* done() makes a blocking call of this session */
    ps_status blocked;
    ps_session *further; /* done() starts test.echo at this session, once */
};

static void ends_init(struct ends *x)
{
    memset(x, 0, sizeof(*x));
    assert_int_equal(pthread_mutex_init(&x->lock, NULL), 0);
    assert_int_equal(pthread_cond_init(&x->changed, NULL), 0);
}

static void on_end(void *ctx, const ps_call_result *result)
{
    struct ends *x = ctx;
    ps_session *further = x->further;
    x->further = NULL;
    if (x->blocks != NULL) {
        x->blocked = ps_call(x->blocks, NULL, "test.echo", "", 0, NULL, 0, NULL, 0);
    }
    if (further != NULL && ps_call_start(further, NULL, "test.echo", "", 0, NULL, 0, 0, on_end, x) != PS_OK) {
        x->count = -1000;
    }
    (void)pthread_mutex_lock(&x->lock);
    x->count += result->struct_bytes == sizeof(*result) ? 1 : 1000;
    x->st = result->status;
    x->applied = result->applied;
    x->reason = result->reason;
    x->out_bytes = result->out_bytes;
    (void)snprintf(x->text, sizeof(x->text), "%s", result->text);
    (void)pthread_cond_broadcast(&x->changed);
    (void)pthread_mutex_unlock(&x->lock);
}

static void await_ends(struct ends *x, int count)
{
    (void)pthread_mutex_lock(&x->lock);
    while (x->count >= 0 && x->count < count) {
        (void)pthread_cond_wait(&x->changed, &x->lock);
    }
    const int ended = x->count;
    (void)pthread_mutex_unlock(&x->lock);
    assert_int_equal(ended, count);
}

#define assert_end(x_, status_, word_)                                                                                           \
    do {                                                                                                                         \
        if ((x_)->st != (status_) || strstr((x_)->text, (word_)) == NULL) {                                                      \
            fail_msg("%s: %s", ps_status_name((x_)->st), (x_)->text);                                                            \
        }                                                                                                                        \
    } while (0)

/* One thread has two calls at a task at the same time: each of them ends only beside the other. */
static void one_thread_starts_two_calls(void **state)
{
    struct env e;
    struct ends x;
    (void)state;
    ends_init(&x);
    threads = 2;
    env_init(&e);
    threads = 1;
    for (int i = 0; i < 2; i++) {
        assert_call(PS_OK, ps_call_start(e.session, TASK, "test.meet", "", 0, NULL, 0, 0, on_end, &x), "");
    }
    await_ends(&x, 2);
    assert_end(&x, PS_OK, "");
    env_fini(&e);
}

/* A started call has the scopes and devices of a blocking one, values that take many frames, and its errors. */
static void a_started_call_is_a_call(void **state)
{
    static uint8_t in[300000], out[sizeof(in)];
    struct env e;
    struct ends x;
    char name[] = "test.echo", device[] = "/job:ps/task:0/device:GPU:1";
    (void)state;
    devices = "CPU:0,GPU:1";
    ends_init(&x);
    env_init(&e);
    devices = NULL;
    memset(in, 7, sizeof(in));
    assert_int_equal(ps_device_push(e.session, "/job:ps"), PS_OK); /* the session has not asked for its cluster yet */
    assert_call(PS_OK, ps_call_start(e.session, device, name, in, sizeof(in), out, sizeof(out), 0, on_end, &x), "");
    memset(name, 'x', sizeof(name) - 1); /* the texts were copied, and the scope was looked up */
    memset(device, 'x', sizeof(device) - 1);
    assert_int_equal(ps_device_pop(e.session), PS_OK);
    await_ends(&x, 1);
    assert_end(&x, PS_OK, "");
    assert_int_equal(x.reason, PS_REASON_NONE);
    assert_int_equal(x.out_bytes, sizeof(in));
    assert_memory_equal(in, out, sizeof(in));
    assert_call(PS_OK, ps_call_start(e.session, TASK, "test.echo", in, 100, out, 99, 0, on_end, &x), "");
    await_ends(&x, 2);
    assert_end(&x, PS_OUT_OF_RANGE, "100 bytes, there is room for 99");
    assert_int_equal(x.out_bytes, 100);
    assert_call(PS_OK, ps_call_start(e.session, TASK "/device:TPU:5", "test.echo", "", 0, NULL, 0, 0, on_end, &x), "");
    await_ends(&x, 3);
    assert_end(&x, PS_INVALID_ARGUMENT, "has no TPU:5; it has CPU:0,GPU:1");
    assert_int_equal(x.reason, PS_REASON_NO_DEVICE);
    assert_call(PS_OK, ps_call_start(e.session, "/job:ps/task:7", "test.echo", "", 0, NULL, 0, 0, on_end, &x), "");
    await_ends(&x, 4);
    assert_end(&x, PS_INVALID_ARGUMENT, "call 'test.echo': the cluster has no /job:ps/task:7; job 'ps' has tasks 0");
    assert_call(PS_OK, ps_call_start(e.session, TASK, "test.fail", "abc", 3, NULL, 0, 0, on_end, &x), "");
    await_ends(&x, 5);
    assert_end(&x, PS_UNAVAILABLE, "eeee");
    assert_int_equal(x.applied, PS_MAYBE_PARTLY_APPLIED);
    assert_int_equal(atomic_load(&e.t.ran), 3);
    env_fini(&e);
}

static void what_cannot_start_is_returned(void **state)
{
    struct env e;
    struct ends x;
    (void)state;
    ends_init(&x);
    env_init(&e);
    assert_call(PS_INVALID_ARGUMENT, ps_call_start(NULL, TASK, "test.echo", "", 0, NULL, 0, 0, on_end, &x), "session is NULL");
    assert_call(PS_INVALID_ARGUMENT, ps_call_start(e.session, TASK, NULL, "", 0, NULL, 0, 0, on_end, &x), "no call");
    assert_call(PS_INVALID_ARGUMENT, ps_call_start(e.session, TASK, "test.echo", "", 0, NULL, 0, 0, NULL, &x), "done is NULL");
    assert_call(PS_INVALID_ARGUMENT, ps_call_start(e.session, "/jub:ps", "test.echo", "", 0, NULL, 0, 0, on_end, &x), "/jub:ps");
    assert_call(PS_INVALID_ARGUMENT, ps_call_start(e.session, "/replica:3", "test.echo", "", 0, NULL, 0, 0, on_end, &x),
                "every task is of replica 0");
    await_ends(&x, 0);
    env_fini(&e);
}

/* A callback may start a call, and must not block. */
static void a_callback_starts_the_next_one(void **state)
{
    struct env e;
    struct ends x;
    (void)state;
    ends_init(&x);
    env_init(&e);
    x.further = e.session;
    x.blocks = e.session;
    assert_call(PS_OK, ps_call_start(e.session, NULL, "test.echo", "", 0, NULL, 0, 0, on_end, &x), "");
    await_ends(&x, 2);
    assert_end(&x, PS_OK, "");
    assert_int_equal(x.blocked, PS_FAILED_PRECONDITION);
    env_fini(&e);
}

/* A session without a thread: the program drives it until the call has ended. */
static void a_program_drives_a_started_call(void **state)
{
    struct env e;
    struct ends x;
    ps_session_options o;
    ps_session *s = NULL;
    (void)state;
    ends_init(&x);
    env_init(&e);
    ps_session_options_init(&o);
    o.target = psd_server_target(e.server);
    o.log = no_log;
    o.progress = PS_PROGRESS_CALLER;
    assert_int_equal(ps_session_open(&o, &s, NULL, 0), PS_OK);
    assert_call(PS_OK, ps_call_start(s, TASK, "test.echo", "", 0, NULL, 0, 0, on_end, &x), "");
    await_ends(&x, 0); /* nothing happens by itself */
    while (x.count == 0) {
        assert_int_equal(ps_progress_run(s, 1000), PS_OK);
    }
    assert_end(&x, PS_OK, "");
    assert_int_equal(ps_session_close(s), 0);
    env_fini(&e);
}

/* An interrupt ends calls that threads are in, and no started one. Closing the session gives it the operation timeout. */
static void a_started_call_ends_by_its_deadline(void **state)
{
    struct env e;
    struct ends x;
    (void)state;
    ends_init(&x);
    env_init(&e);
    operation_timeout_ms = 500;
    ps_session *s = session_at(psd_server_target(e.server));
    operation_timeout_ms = 60000;
    assert_call(PS_OK, ps_call_start(s, TASK, "test.hold", "", 0, NULL, 0, DEADLINE_MS, on_end, &x), "");
    await_ends(&x, 1);
    assert_end(&x, PS_DEADLINE_EXCEEDED, "test.hold");
    assert_call(PS_OK, ps_call_start(s, TASK, "test.hold", "", 0, NULL, 0, 60000, on_end, &x), "");
    wait_inside(&e.t, 2);
    int64_t us = 0;
    ps_interrupt(s);
    assert_int_equal(ps_task_ping(s, 0, 5000, &us), PS_OK); /* the loop has seen the interrupt */
    await_ends(&x, 1);
    (void)ps_session_close(s);
    await_ends(&x, 2); /* done was called before the session was gone */
    assert_int_not_equal(x.st, PS_OK);
    assert_int_equal(x.applied, PS_OUTCOME_UNKNOWN);
    env_fini(&e);
    assert_int_equal(atomic_load(&e.t.cancelled), 2);
}

/* The task's thread serves on while a call runs; with calls_max running, others wait their turn at the client. */
static void a_long_call_holds_nobody_up(void **state)
{
    struct env e;
    struct caller held;
    struct caller queued;
    (void)state;
    most = 1;
    env_init(&e);
    most = 64;
    start_caller(&held, &e, "test.hold", 0);
    wait_inside(&e.t, 1);
    int64_t us = 0;
    assert_int_equal(ps_task_ping(e.session, 0, 5000, &us), PS_OK);
    assert_call(PS_RESOURCE_EXHAUSTED, ps_call(e.session, TASK, "test.echo", "", 0, NULL, 0, NULL, DEADLINE_MS),
                "already runs 1 calls");
    start_caller(&queued, &e, "test.echo", 0);
    let_go(&e.t);
    assert_int_equal(pthread_join(held.thread, NULL), 0);
    assert_int_equal(held.st, PS_OK);
    assert_memory_equal(held.out, "held", 4);
    assert_int_equal(pthread_join(queued.thread, NULL), 0);
    assert_int_equal(queued.st, PS_OK);
    env_fini(&e);
}

static void a_deadline_cancels(void **state)
{
    struct env e;
    struct caller held;
    struct caller behind;
    (void)state;
    env_init(&e); /* one thread: the second one waits for it and is cancelled before it begins */
    start_caller(&held, &e, "test.hold", LATER_MS);
    wait_inside(&e.t, 1);
    start_caller(&behind, &e, "test.hold", SOON_MS);
    assert_int_equal(pthread_join(behind.thread, NULL), 0);
    assert_int_equal(behind.st, PS_DEADLINE_EXCEEDED);
    assert_int_equal(pthread_join(held.thread, NULL), 0);
    assert_int_equal(held.st, PS_DEADLINE_EXCEEDED);
    assert_int_equal(held.applied, PS_OUTCOME_UNKNOWN);
    assert_non_null(strstr(held.error, "test.hold"));
    env_fini(&e);
    assert_int_equal(atomic_load(&e.t.cancelled), 1);
    assert_int_equal(atomic_load(&e.t.ran), 1);
}

/* A task that drains lets a call end and sends its result; a second call is refused, with nothing done. */
static void a_drain_waits_for_it(void **state)
{
    struct env e;
    struct caller held;
    (void)state;
    env_init(&e);
    start_caller(&held, &e, "test.hold", 0);
    wait_inside(&e.t, 1);
    psd_server_stop(e.server, 60000);
    assert_call(PS_UNAVAILABLE, ps_call(e.session, TASK, "test.echo", "", 0, NULL, 0, NULL, DEADLINE_MS), "shutting down");
    assert_int_equal(ps_last_applied(), PS_NOTHING_APPLIED);
    assert_false(psd_server_has_ended(e.server));
    let_go(&e.t);
    assert_int_equal(pthread_join(held.thread, NULL), 0);
    assert_int_equal(held.st, PS_OK);
    psd_server_join(e.server);
    assert_int_equal(atomic_load(&e.t.cancelled), 0);
    (void)ps_session_close(e.session);
    e.session = NULL;
    env_fini(&e);
}

static void the_end_cancels_it(void **state)
{
    struct env e;
    struct caller held;
    struct caller queued;
    (void)state;
    env_init(&e);
    start_caller(&held, &e, "test.hold", 2000);
    wait_inside(&e.t, 1);
    start_caller(&queued, &e, "test.echo", 2000);
    psd_server_stop(e.server, 0);
    psd_server_wait(e.server); /* returns although nobody let it go */
    assert_int_equal(atomic_load(&e.t.cancelled), 1);
    assert_int_equal(pthread_join(held.thread, NULL), 0);
    assert_int_not_equal(held.st, PS_OK);
    assert_int_equal(held.applied, PS_OUTCOME_UNKNOWN);
    assert_int_equal(pthread_join(queued.thread, NULL), 0);
    assert_int_not_equal(queued.st, PS_OK);
    (void)ps_session_close(e.session);
    e.session = NULL;
    env_fini(&e);
}

static void closing_a_session_cancels(void **state)
{
    struct env e;
    struct caller held;
    (void)state;
    env_init(&e);
    struct env other = e;
    other.session = session_at(psd_server_target(e.server));
    held = (struct caller){.e = &other, .name = "test.hold", .timeout_ms = DEADLINE_MS};
    assert_int_equal(pthread_create(&held.thread, NULL, one_call, &held), 0);
    wait_inside(&e.t, 1);
    assert_int_equal(pthread_join(held.thread, NULL), 0);
    assert_int_equal(held.st, PS_DEADLINE_EXCEEDED);
    (void)ps_session_close(other.session);
    psd_server_stop(e.server, 60000); /* nothing runs any more: it ends by itself */
    psd_server_wait(e.server);
    assert_int_equal(atomic_load(&e.t.cancelled), 1);
    (void)ps_session_close(e.session);
    e.session = NULL;
    env_fini(&e);
}

static void bad_tables_are_named(void **state)
{
    static const psd_call_row bad_name[] = {{.name = "a b", .run = run_echo}};
    static const psd_call_row no_name[] = {{.name = NULL, .run = run_echo}};
    static const psd_call_row no_run[] = {{.name = "a"}};
    static const psd_call_row twice[] = {{.name = "a", .run = run_echo}, {.name = "a", .run = run_echo}};
    static const struct {
        const psd_call_row *rows;
        size_t count;
        uint32_t threads, most;
        const char *word;
    } cases[] = {{bad_name, 1, 1, 1, "letters"}, {no_name, 1, 1, 1, "row 0"},  {no_run, 1, 1, 1, "'a' has no function"},
                 {twice, 2, 1, 1, "twice"},      {NULL, 1, 1, 1, "no memory"}, {rows, 1, 0, 1, "call_threads"},
                 {rows, 1, 257, 1, "256"},       {rows, 1, 1, 0, "calls_max"}, {rows, 1, 1, 4097, "4096"}};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char error[512] = "";
        psd_server *server = NULL;
        psd_server_options o;
        psd_server_options_init(&o);
        o.listen = "127.0.0.1:0";
        o.calls = (psd_call_table){.rows = cases[i].rows, .row_bytes = sizeof(psd_call_row), .count = cases[i].count};
        o.call_threads = cases[i].threads;
        o.calls_max = cases[i].most;
        assert_int_equal(psd_server_start(&o, &server, error, sizeof(error)), PS_INVALID_ARGUMENT);
        if (strstr(error, cases[i].word) == NULL) {
            fail_msg("'%s' does not say '%s'", error, cases[i].word);
        }
    }
}

/* A program that was compiled with a header whose tables had no attach() has its table where that header had it. */
static void a_table_of_an_older_header_is_found(void **state)
{
    const struct {
        const psd_call_row *rows;
        size_t row_bytes, count;
        void *ctx;
    } older = {.rows = rows, .row_bytes = sizeof(rows[0]), .count = 1, .ctx = &(struct table){.open = true}};
    char error[512] = "";
    char out[5];
    size_t n = 0;
    psd_server *server = NULL;
    psd_server_options o;
    (void)state;
    if (getenv("PSD_KEY_FILE") != NULL) {
        skip(); /* such a program has no field for a key file */
    }
    psd_server_options_init(&o);
    o.struct_bytes = offsetof(psd_server_options, calls);
    o.listen = "127.0.0.1:0";
    assert_int_equal(sizeof(o.calls_before), sizeof(older));
    memcpy(o.calls_before, &older, sizeof(older));
    assert_int_equal(psd_server_start(&o, &server, error, sizeof(error)), PS_OK);
    ps_session *s = session_at(psd_server_target(server));
    assert_call(PS_OK, ps_call(s, TASK, "test.echo", "older", 5, out, sizeof(out), &n, 0), "");
    assert_memory_equal(out, "older", 5);
    assert_int_equal(ps_session_close(s), 0);
    psd_server_free(server);
}

/* The trace of a step has a call, and how long a compute thread worked at it. */
static void a_trace_has_its_time(void **state)
{
    static char text[1 << 16];
    char path[256], out[8];
    struct env e;
    (void)state;
    env_init(&e);
    const char *tmp = getenv("TMPDIR");
    (void)snprintf(path, sizeof(path), "%s/psd-call-trace-XXXXXX", tmp != NULL ? tmp : "/tmp");
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    assert_int_equal(ps_trace_next_step(e.session, path), PS_OK);
    assert_call(PS_OK, call(&e, "test.echo", "abc", 3, out, sizeof(out), NULL), "");
    env_fini(&e); /* ends the step */
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_true(fread(text, 1, sizeof(text) - 1, f) > 0);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(unlink(path), 0);
    assert_non_null(strstr(text, "\"name\":\"CALL"));
    assert_non_null(strstr(text, "\"name\":\"kernel\",\"cat\":\"server\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_go_in_and_come_out),
        cmocka_unit_test(what_is_refused_names_the_reason),
        cmocka_unit_test(scopes_say_where_a_call_goes),
        cmocka_unit_test(the_device_is_one_that_the_task_has),
        cmocka_unit_test(failures_of_the_call_arrive_once),
        cmocka_unit_test(two_threads_run_two_calls),
        cmocka_unit_test(a_long_call_holds_nobody_up),
        cmocka_unit_test(a_deadline_cancels),
        cmocka_unit_test(a_drain_waits_for_it),
        cmocka_unit_test(the_end_cancels_it),
        cmocka_unit_test(closing_a_session_cancels),
        cmocka_unit_test(one_thread_starts_two_calls),
        cmocka_unit_test(a_started_call_is_a_call),
        cmocka_unit_test(what_cannot_start_is_returned),
        cmocka_unit_test(a_callback_starts_the_next_one),
        cmocka_unit_test(a_program_drives_a_started_call),
        cmocka_unit_test(a_started_call_ends_by_its_deadline),
        cmocka_unit_test(bad_tables_are_named),
        cmocka_unit_test(a_table_of_an_older_header_is_found),
        cmocka_unit_test(a_trace_has_its_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
