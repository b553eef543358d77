/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exactly once through the public API over connections that break: real psd processes behind a proxy that cuts, half-closes,
 * swallows answers, flips bits, delays and splits, under load from several threads and two sessions. SEED=n repeats a run's
 * choices.
 *
 * Each element's gradient is a small integer and the rate is 1, so every sum is exact in float32: a lost or doubled segment is
 * seen at the end, and for variables that only one lane pushes to, at every single version.
 */
#include "daemon.h"
#include "proxy.h"
#include "ps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifndef API_PROGRESS
#define API_PROGRESS PS_PROGRESS_THREAD
#endif

#if defined(__SANITIZE_THREAD__) /* so slow that its share of large pushes took longer than LIMIT_S on a busy machine */
enum { BIG_PUSHES = 3, MANY_CUTS = 40 };
#else
enum { BIG_PUSHES = 10, MANY_CUTS = 120 };
#endif
enum { THREADS = 4, SESSIONS = 2, SMALL = 1000, MEDIUM = 200000, BIG = 2500000 /* three frames */ };
enum { CUTS = API_PROGRESS == PS_PROGRESS_CALLER ? 40 : MANY_CUTS, LIMIT_S = 100, COUNTS_MAX = 1 << 20 };

enum lane_kind {
    PUSH_OWN,
    PULL_OWN,
    PUSH_PULL,
    PUSH_BIG,
    PUSH_SHARED, /* from here on: four lanes per thread */
    PUSH_MEDIUM,
    PUSH_ATOMIC, /* takes effect as a whole */
    PUSH_NARROW, /* travels as bfloat16 */
    COUNT,
    KINDS
};
enum { LANES = PUSH_SHARED + 4 * (KINDS - PUSH_SHARED) };

static const size_t lane_elements[KINDS] = {
    [PUSH_OWN] = SMALL,     [PULL_OWN] = SMALL,   [PUSH_SHARED] = SMALL, [PUSH_MEDIUM] = MEDIUM, [PUSH_ATOMIC] = MEDIUM,
    [PUSH_NARROW] = MEDIUM, [PUSH_PULL] = MEDIUM, [COUNT] = 1,           [PUSH_BIG] = BIG};

struct load;

struct lane {
    ps_request req;
    struct load *load;
    enum lane_kind kind;
    ps_variable *v;
    float *values;    /* PULL_OWN, PUSH_PULL */
    atomic_int armed; /* 1 from start to callback */
    bool busy;        /* under load->lock */
    ps_result result; /* copied in the callback */
    char text[200];
    unsigned ok, nothing, unknown; /* how they ended */
};

struct load {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    struct lane lanes[LANES];
    unsigned started, called, bad;
    int64_t timeout_ms;
    bool strict; /* no outcome may stay unknown */
    char why[300];
};

static struct test_cluster cluster;
static struct test_proxy *proxy;
static char spec[256];
static float *grad; /* BIG elements */
static float *values;
static atomic_uchar *counts; /* the values that assign_add has returned */
static atomic_bool stopping;
static struct load loads[THREADS];

static float unit(size_t i)
{
    return (float)(1 + i % 7);
}

static uint64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* ---- lanes ---- */

static void complain(struct load *l, const struct lane *lane, const char *what)
{
    if (l->bad++ == 0) {
        (void)snprintf(l->why, sizeof(l->why), "lane %d of '%s': %s (%s)", (int)lane->kind, ps_variable_name(lane->v), what,
                       lane->text);
    }
}

static void on_done(void *ctx, ps_request *req, const ps_result *result)
{
    struct lane *lane = ctx;
    struct load *l = lane->load;
    int armed = atomic_exchange(&lane->armed, 0);
    (void)pthread_mutex_lock(&l->lock);
    l->called++;
    lane->result = *result;
    (void)snprintf(lane->text, sizeof(lane->text), "%s: %s", ps_status_name(result->status),
                   result->text != NULL ? result->text : "");
    if (armed != 1 || req != &lane->req) {
        complain(l, lane, "the callback ran without a start");
    }
    lane->busy = false;
    (void)pthread_cond_signal(&l->ended);
    (void)pthread_mutex_unlock(&l->lock);
}

static ps_status start(struct lane *lane)
{
    static const int64_t one = 1;
    size_t bytes = lane_elements[lane->kind] * sizeof(float);
    int64_t timeout = lane->load->timeout_ms;
    switch (lane->kind) {
    case PULL_OWN:
        return ps_pull_start(lane->v, lane->values, bytes, timeout, &lane->req, on_done, lane);
    case PUSH_PULL:
        return ps_push_pull_start(lane->v, grad, bytes, lane->values, bytes, 1.0F, timeout, &lane->req, on_done, lane);
    case COUNT:
        return ps_assign_add_start(lane->v, &one, sizeof(one), timeout, &lane->req, on_done, lane);
    case PUSH_OWN:
    case PUSH_SHARED:
    case PUSH_MEDIUM:
    case PUSH_ATOMIC:
    case PUSH_NARROW:
    case PUSH_BIG:
    case KINDS:
    default:
        return ps_push_start(lane->v, grad, bytes, 1.0F, timeout, &lane->req, on_done, lane);
    }
}

static void check_values(struct load *l, const struct lane *lane, uint64_t pushes)
{
    for (size_t i = 0; i < lane_elements[lane->kind]; i++) {
        if (lane->values[i] != (float)pushes * unit(i)) {
            complain(l, lane, "an element is not what its version says");
            return;
        }
    }
}

/* What the outcome of a lane's request must be like. */
static void judge(struct load *l, struct lane *lane)
{
    const ps_result *r = &lane->result;
    bool own = lane->kind == PUSH_OWN || lane->kind == PUSH_PULL;
    if (r->status != PS_OK) {
        bool nothing = r->applied == PS_NOTHING_APPLIED || lane->kind == PULL_OWN;
        lane->nothing += nothing ? 1 : 0;
        lane->unknown += nothing ? 0 : 1;
        if (l->strict && !nothing) {
            complain(l, lane, "an outcome is unknown although its task lives");
        }
        if (strstr(lane->text, "/job:ps/task:") == NULL) {
            complain(l, lane, "the error does not name the task");
        }
        return;
    }
    lane->ok++;
    if (own && l->strict && r->version != lane->ok) {
        complain(l, lane, "the version is not the number of pushes");
    }
    if (lane->kind == PULL_OWN && (!r->exact || r->version > l->lanes[PUSH_OWN].ok + l->lanes[PUSH_OWN].unknown + 1)) {
        complain(l, lane, "a pull's version is impossible");
    }
    if (lane->kind == PULL_OWN || (lane->kind == PUSH_PULL && l->strict)) {
        check_values(l, lane, r->version);
    }
    if (lane->kind == COUNT) {
        int64_t value = 0;
        memcpy(&value, r->result, sizeof(value));
        if (r->result_bytes != sizeof(value) || value < 1 || value >= COUNTS_MAX || atomic_exchange(&counts[value], 1) != 0) {
            complain(l, lane, "a returned value came twice or is out of range");
        }
    }
}

static bool more(const struct lane *lane)
{
    bool enough = lane->kind == PUSH_BIG && lane->ok + lane->nothing + lane->unknown >= BIG_PUSHES;
    return !enough && !atomic_load(&stopping);
}

static void *run(void *arg)
{
    struct load *l = arg;
    (void)pthread_mutex_lock(&l->lock);
    for (;;) {
        unsigned busy = 0;
        for (int i = 0; i < LANES; i++) {
            struct lane *lane = &l->lanes[i];
            if (!lane->busy && lane->text[0] != '\0') {
                judge(l, lane);
                lane->text[0] = '\0';
            }
            if (!lane->busy && more(lane) && l->bad == 0) {
                lane->busy = true;
                l->started++;
                (void)pthread_mutex_unlock(&l->lock);
                atomic_store(&lane->armed, 1);
                ps_status st = start(lane);
                (void)pthread_mutex_lock(&l->lock);
                if (st != PS_OK) {
                    l->started--;
                    lane->busy = false;
                    complain(l, lane, "start was refused");
                }
            }
            busy += lane->busy ? 1 : 0;
        }
        if (busy == 0) {
            break;
        }
        (void)pthread_cond_wait(&l->ended, &l->lock);
    }
    (void)pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* ---- set-up ---- */

static void no_log(void *ctx, ps_log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)line;
}

static int proxied_setup(void **state)
{
    const char *text = getenv("SEED");
    uint64_t seed = text != NULL ? strtoull(text, NULL, 0) : now_ms() ^ ((uint64_t)getpid() << 32);
    size_t len = (size_t)snprintf(spec, sizeof(spec), "ps=");
    (void)state;
    print_message("SEED=%llu\n", (unsigned long long)seed);
    test_cluster_init(&cluster, 2, "");
    proxy = test_proxy_new(seed);
    for (int i = 0; i < cluster.count; i++) {
        char address[64];
        test_proxy_door(proxy, cluster.address[i], address);
        len += (size_t)snprintf(spec + len, sizeof(spec) - len, "%s%s", i > 0 ? "," : "", address);
    }
    memcpy(cluster.spec, spec, sizeof(spec)); /* everybody goes through the proxy, the tasks too */
    test_proxy_run(proxy);
    test_cluster_start_all(&cluster);
    grad = malloc(BIG * sizeof(*grad));
    values = malloc(BIG * sizeof(*values));
    counts = calloc(COUNTS_MAX, sizeof(*counts));
    assert_true(grad != NULL && values != NULL && counts != NULL);
    for (size_t i = 0; i < BIG; i++) {
        grad[i] = -unit(i);
    }
    return 0;
}

static int proxied_teardown(void **state)
{
    (void)state;
    test_cluster_fini(&cluster);
    test_proxy_free(proxy);
    free(grad);
    free(values);
    free(counts);
    return 0;
}

static ps_session *open_proxied(void)
{
    ps_session_options o;
    ps_session *s = NULL;
    char error[512];
    ps_session_options_init(&o);
    o.cluster_spec = spec;
    o.log = no_log;
    o.progress = API_PROGRESS;
    assert_int_equal(ps_session_open(&o, &s, error, sizeof(error)), PS_OK);
    return s;
}

static ps_variable *ready_variable(ps_session *s, const char *group, const char *name, int owner, enum lane_kind kind)
{
    char full[64];
    (void)snprintf(full, sizeof(full), "%s/%s%d", group, name, owner);
    ps_variable *v = NULL;
    ps_variable_spec want;
    ps_variable_spec_init(&want);
    want.name = full;
    want.dtype = kind == COUNT ? PS_I64 : PS_F32;
    want.shape = kind == COUNT ? PS_SCALAR : PS_SHAPE((int64_t)lane_elements[kind]);
    want.optimizer = kind == COUNT ? NULL : ps_sgd(1.0);
    want.atomic = kind == PUSH_ATOMIC;
    want.wire_dtype = kind == PUSH_NARROW ? PS_BF16 : PS_DTYPE_NONE;
    assert_int_equal(ps_variable_get(s, &want, &v), PS_OK);
    assert_int_equal(ps_variable_init(v, false), PS_OK);
    return v;
}

static void prepare_load(struct load *l, ps_session *s, const char *group, int index)
{
    static const struct {
        const char *name;
        bool own;
    } rows[KINDS] = {[PUSH_OWN] = {"own", true},        [PULL_OWN] = {"own", true},        [PUSH_SHARED] = {"shared", false},
                     [PUSH_MEDIUM] = {"medium", false}, [PUSH_ATOMIC] = {"atomic", false}, [PUSH_NARROW] = {"narrow", false},
                     [PUSH_PULL] = {"both", true},      [COUNT] = {"count", false},        [PUSH_BIG] = {"big", false}};
    memset(l, 0, sizeof(*l));
    (void)pthread_mutex_init(&l->lock, NULL);
    (void)pthread_cond_init(&l->ended, NULL);
    for (int i = 0; i < LANES; i++) {
        struct lane *lane = &l->lanes[i];
        lane->load = l;
        lane->kind = (enum lane_kind)(i < PUSH_SHARED ? i : PUSH_SHARED + (i - PUSH_SHARED) % (KINDS - PUSH_SHARED));
        lane->v = ready_variable(s, group, rows[lane->kind].name, rows[lane->kind].own ? index : 0, lane->kind);
        if (i == PULL_OWN || i == PUSH_PULL) {
            lane->values = calloc(lane_elements[i], sizeof(float));
            assert_non_null(lane->values);
        }
    }
}

static void free_load(struct load *l)
{
    for (int i = 0; i < LANES; i++) {
        free(l->lanes[i].values);
    }
    (void)pthread_cond_destroy(&l->ended);
    (void)pthread_mutex_destroy(&l->lock);
}

static bool any_bad(void)
{
    bool bad = false;
    for (int t = 0; t < THREADS; t++) {
        (void)pthread_mutex_lock(&loads[t].lock);
        bad = bad || loads[t].bad > 0;
        (void)pthread_mutex_unlock(&loads[t].lock);
    }
    return bad;
}

/* Every thread has pushed its multi-frame share. */
static bool bigs_done(void)
{
    bool done = true;
    for (int t = 0; t < THREADS; t++) {
        const struct lane *lane = &loads[t].lanes[PUSH_BIG];
        (void)pthread_mutex_lock(&loads[t].lock);
        done = done && lane->ok + lane->nothing + lane->unknown >= BIG_PUSHES;
        (void)pthread_mutex_unlock(&loads[t].lock);
    }
    return done;
}

/* Load on all threads until there were enough cuts and the large pushes are through. */
static void make_trouble(bool wait_for_big)
{
    unsigned before = test_proxy_cuts(proxy);
    uint64_t end = now_ms() + LIMIT_S * 1000ULL; /* of the wait for large pushes */
    atomic_store(&stopping, false);
    test_proxy_trouble(proxy, true);
    for (int t = 0; t < THREADS; t++) {
        assert_int_equal(pthread_create(&loads[t].thread, NULL, run, &loads[t]), 0);
    }
    while ((test_proxy_cuts(proxy) - before < CUTS || (wait_for_big && !bigs_done() && now_ms() < end)) && !any_bad()) {
        (void)poll(NULL, 0, 5); /* sleep: looks at the event it waits for, bounded by the runner */
    }
    atomic_store(&stopping, true);
    test_proxy_trouble(proxy, false);
    for (int t = 0; t < THREADS; t++) {
        assert_int_equal(pthread_join(loads[t].thread, NULL), 0);
    }
    test_proxy_print(proxy);
    for (int t = 0; t < THREADS; t++) {
        if (loads[t].bad > 0) {
            fail_msg("thread %d: %s", t, loads[t].why);
        }
        assert_int_equal(loads[t].started, loads[t].called);
    }
}

/* Read through a session of its own: every element of v lies between ok and ok + unknown pushes (a segment is applied whole). */
static void check_sum(ps_session *s, const char *name, enum lane_kind kind, unsigned ok, unsigned unknown)
{
    ps_variable *v = NULL;
    size_t bytes = kind == COUNT ? 8 : lane_elements[kind] * sizeof(float);
    assert_int_equal(ps_variable_find(s, name, &v), PS_OK);
    assert_int_equal(ps_variable_read(v, values, bytes), PS_OK);
    print_message("%s: %u pushes, %u unknown, version %llu\n", name, ok, unknown,
                  (unsigned long long)ps_variable_version(v, NULL));
    if (kind == COUNT) {
        int64_t sum = 0;
        memcpy(&sum, values, sizeof(sum));
        assert_in_range(sum, ok, ok + unknown);
        return;
    }
    for (size_t i = 0; i < lane_elements[kind]; i++) {
        if (values[i] < (float)ok * unit(i) || values[i] > (float)(ok + unknown) * unit(i)) {
            fail_msg("%s: element %zu is %.0f; %u pushes of %.0f are known, %u unknown", name, i, (double)values[i], ok,
                     (double)unit(i), unknown);
        }
        if (kind == PUSH_ATOMIC && values[i] != values[0] / unit(0) * unit(i)) {
            fail_msg("%s: element %zu is %.0f, the first %.0f: a push is there in part", name, i, (double)values[i],
                     (double)values[0]);
        }
    }
}

static void check_sums(const char *group)
{
    ps_session *s = open_proxied();
    static const struct {
        const char *name;
        enum lane_kind kind;
    } shared[] = {{"shared", PUSH_SHARED}, {"medium", PUSH_MEDIUM}, {"atomic", PUSH_ATOMIC},
                  {"narrow", PUSH_NARROW}, {"count", COUNT},        {"big", PUSH_BIG}};
    char name[64];
    for (size_t k = 0; k < sizeof(shared) / sizeof(shared[0]); k++) {
        unsigned ok = 0;
        unsigned unknown = 0;
        for (int i = 0; i < THREADS * LANES; i++) {
            const struct lane *lane = &loads[i / LANES].lanes[i % LANES];
            ok += lane->kind == shared[k].kind ? lane->ok : 0;
            unknown += lane->kind == shared[k].kind ? lane->unknown : 0;
        }
        (void)snprintf(name, sizeof(name), "%s/%s0", group, shared[k].name);
        check_sum(s, name, shared[k].kind, ok, unknown);
    }
    for (int t = 0; t < THREADS; t++) {
        (void)snprintf(name, sizeof(name), "%s/own%d", group, t);
        check_sum(s, name, PUSH_OWN, loads[t].lanes[PUSH_OWN].ok, loads[t].lanes[PUSH_OWN].unknown);
        (void)snprintf(name, sizeof(name), "%s/both%d", group, t);
        check_sum(s, name, PUSH_PULL, loads[t].lanes[PUSH_PULL].ok, loads[t].lanes[PUSH_PULL].unknown);
    }
    assert_int_equal(ps_session_close(s), 0);
}

/* PS_PROGRESS_CALLER: a thread of the test drives a session while the load waits. */
static atomic_bool drive_on;

static void *drive(void *session)
{
    while (atomic_load(&drive_on)) {
        if (ps_progress_run(session, 20) != PS_OK) {
            (void)poll(NULL, 0, 1); /* sleep: a blocking call of another thread drives it now */
        }
    }
    return NULL;
}

static void loaded(const char *group, int64_t timeout_ms, bool strict)
{
    ps_session *sessions[SESSIONS];
    pthread_t drivers[SESSIONS];
    atomic_store(&drive_on, API_PROGRESS == PS_PROGRESS_CALLER);
    for (int i = 0; i < SESSIONS; i++) {
        sessions[i] = open_proxied();
        assert_int_equal(pthread_create(&drivers[i], NULL, drive, sessions[i]), 0);
    }
    for (int t = 0; t < THREADS; t++) {
        prepare_load(&loads[t], sessions[t % SESSIONS], group, t);
        loads[t].timeout_ms = timeout_ms;
        loads[t].strict = strict;
    }
    for (int i = 0; i < COUNTS_MAX; i++) {
        atomic_store(&counts[i], 0);
    }
    make_trouble(strict);
    atomic_store(&drive_on, false);
    check_sums(group);
    for (int i = 0; i < SESSIONS; i++) {
        assert_int_equal(pthread_join(drivers[i], NULL), 0);
        assert_int_equal(ps_session_close(sessions[i]), 0);
    }
    for (int t = 0; t < THREADS; t++) {
        assert_int_equal(loads[t].started, loads[t].called); /* also after close */
        free_load(&loads[t]);
    }
}

/* ---- cases ---- */

/* Deadlines that nothing reaches: whatever happens to connections, each push is there once. */
static void sums_are_exact_after_many_disconnects(void **state)
{
    (void)state;
    loaded("cut", 600000, true);
    for (int t = 0; t < THREADS; t++) {
        for (int i = 0; i < LANES; i++) {
            assert_true(loads[t].lanes[i].ok > 0);
            assert_int_equal(loads[t].lanes[i].nothing, 0); /* nobody was refused, nobody was late */
        }
    }
}

/* Deadlines in the middle of it: what ended OK is there, what ended "nothing applied" is not. */
static void deadlines_tell_the_truth(void **state)
{
    (void)state;
    loaded("late", 40, false);
    unsigned late = 0;
    for (int t = 0; t < THREADS; t++) {
        for (int i = 0; i < LANES; i++) {
            late += loads[t].lanes[i].nothing + loads[t].lanes[i].unknown;
        }
    }
    assert_true(late > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_exact_after_many_disconnects),
        cmocka_unit_test(deadlines_tell_the_truth),
    };
    return cmocka_run_group_tests(tests, proxied_setup, proxied_teardown);
}
