/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The asynchronous core while its tasks die, come back empty, or stand still; and how much memory a task takes under load.
 */
#include "api_test.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define INSTRUMENTED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define INSTRUMENTED 1
#endif
#endif
#ifndef INSTRUMENTED
#define INSTRUMENTED 0
#endif

enum { WIDTH = 30000 /* two segments */, LANES = 8, DEADLINE_MS = 3000, ROUNDS = 3, PATIENCE_MS = 60000, STANDSTILL_MS = 2000 };

static float grad[WIDTH];
static float value[WIDTH];

static uint64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* ---- a flow: pushes to one variable, each started by the callback of the one before ---- */

struct flow;
struct lane {
    ps_request req;
    struct flow *flow;
};
struct flow {
    ps_variable *v;
    const char *task, *address; /* what errors have to name */
    int64_t timeout_ms;
    struct lane lanes[LANES];
    atomic_bool stop;
    atomic_uint running, ok, nothing, unknown, unnamed, aborted, bad;
    char text[300]; /* of the last error; written by the loop thread, read when nothing runs */
};

static void flow_push(struct lane *lane, ps_done_fn done)
{
    struct flow *f = lane->flow;
    if (ps_push_start(f->v, grad, sizeof(grad), 1.0F, f->timeout_ms, &lane->req, done, lane) != PS_OK) {
        atomic_fetch_add(&f->bad, 1);
        atomic_fetch_sub(&f->running, 1);
    }
}

static void flow_done(void *ctx, ps_request *req, const ps_result *r)
{
    struct lane *lane = ctx;
    struct flow *f = lane->flow;
    if (req != &lane->req) {
        atomic_fetch_add(&f->bad, 1);
    }
    if (r->status == PS_OK) {
        atomic_fetch_add(&f->ok, 1);
    } else {
        atomic_fetch_add(r->applied == PS_NOTHING_APPLIED ? &f->nothing : &f->unknown, 1);
        atomic_fetch_add(&f->aborted, r->status == PS_ABORTED ? 1 : 0);
        bool allowed = r->status == PS_ABORTED || r->status == PS_UNAVAILABLE || r->status == PS_DEADLINE_EXCEEDED;
        if (!allowed || strstr(r->text, f->task) == NULL || strstr(r->text, f->address) == NULL) {
            atomic_fetch_add(&f->unnamed, 1);
        }
        (void)snprintf(f->text, sizeof(f->text), "%s: %s", ps_status_name(r->status), r->text);
    }
    if (r->status == PS_OK && !atomic_load(&f->stop)) {
        flow_push(lane, flow_done);
    } else {
        atomic_fetch_sub(&f->running, 1); /* a lane ends with its first error */
    }
}

static void flow_start(struct flow *f, ps_variable *v, int task, int64_t timeout_ms)
{
    memset(f, 0, sizeof(*f));
    f->v = v;
    f->task = task == 0 ? "/job:ps/task:0" : "/job:ps/task:1";
    f->address = cluster.address[task];
    f->timeout_ms = timeout_ms;
    atomic_store(&f->running, LANES);
    for (int i = 0; i < LANES; i++) {
        f->lanes[i].flow = f;
        flow_push(&f->lanes[i], flow_done);
    }
}

static void await(atomic_uint *what, bool at_most, unsigned limit, const struct flow *f)
{
    uint64_t end = now_ms() + PATIENCE_MS;
    while (at_most ? atomic_load(what) > limit : atomic_load(what) < limit) {
        if (now_ms() > end) {
            fail_msg("the flow to %s does not go on: %u run, %u ok, last error: %s", f->task, atomic_load(&f->running),
                     atomic_load(&f->ok), f->text);
        }
        (void)poll(NULL, 0, 1); /* sleep: looks at the event it waits for, bounded by end */
    }
}

static void flow_end(struct flow *f)
{
    atomic_store(&f->stop, true);
    await(&f->running, true, 0, f);
    if (atomic_load(&f->unnamed) > 0) {
        fail_msg("an error does not name %s and %s: %s", f->task, f->address, f->text);
    }
    assert_int_equal(atomic_load(&f->bad), 0);
}

static void check_value(ps_variable *v, unsigned pushes)
{
    assert_int_equal(ps_variable_read(v, value, sizeof(value)), PS_OK);
    for (int i = 0; i < WIDTH; i++) {
        if (value[i] != (float)pushes * (float)(1 + i % 7)) {
            fail_msg("element %d is %.0f after %u pushes of %d", i, (double)value[i], pushes, 1 + i % 7);
        }
    }
}

static ps_variable *pinned(ps_session *s, const char *name, const char *device)
{
    ps_variable_spec spec;
    ps_variable *v = NULL;
    ps_variable_spec_init(&spec);
    spec.name = name;
    spec.dtype = PS_F32;
    spec.shape = PS_SHAPE(WIDTH);
    spec.optimizer = ps_sgd(1.0);
    spec.device = device;
    ps_status st = ps_variable_get(s, &spec, &v);
    if (st != PS_OK) {
        fail_msg("%s", ps_last_error());
    }
    return v;
}

static int filled_setup(void **state)
{
    for (int i = 0; i < WIDTH; i++) {
        grad[i] = -(float)(1 + i % 7);
    }
    return setup(state);
}

/* ---- cases ---- */

/* back_soon: the task is back before any deadline; otherwise the deadlines pass first. */
static void kill_once(ps_session *s, ps_variable *other, unsigned *other_pushes, bool back_soon)
{
    struct flow dies;
    struct flow lives;
    ps_variable *v = pinned(s, "restart/dies", "/job:ps/task:1");
    assert_int_equal(ps_variable_read(v, value, sizeof(value)), PS_FAILED_PRECONDITION); /* nothing survived the last round */
    assert_int_equal(ps_variable_init(v, false), PS_OK);
    flow_start(&dies, v, 1, back_soon ? 30000 : DEADLINE_MS);
    flow_start(&lives, other, 0, 30000);
    await(&dies.ok, false, 50, &dies);
    test_cluster_kill(&cluster, 1);
    if (back_soon) {
        test_cluster_start(&cluster, 1);
    }
    await(&dies.running, true, 0, &dies); /* every lane has ended with an error */
    unsigned seen = atomic_load(&lives.ok);
    await(&lives.ok, false, seen + 50, &lives); /* the other task is not held up */
    if (!back_soon) {
        test_cluster_start(&cluster, 1);
    }
    flow_end(&dies);
    flow_end(&lives);
    assert_int_equal(atomic_load(&dies.nothing) + atomic_load(&dies.unknown), LANES);
    assert_int_equal(atomic_load(&dies.aborted), back_soon ? LANES : 0);
    assert_int_equal(atomic_load(&lives.nothing) + atomic_load(&lives.unknown), 0);
    *other_pushes += atomic_load(&lives.ok);
    check_value(other, *other_pushes);

    /* the old handle is no good any more and says so; a new get-or-create finds it uninitialised, and it works */
    assert_int_equal(ps_variable_push(v, grad, sizeof(grad), 1.0F), PS_ABORTED);
    assert_int_equal(ps_last_applied(), PS_NOTHING_APPLIED);
    assert_non_null(strstr(ps_last_error(), "restart/dies"));
    assert_non_null(strstr(ps_last_error(), "/job:ps/task:1"));
    bool there = true;
    v = pinned(s, "restart/dies", "/job:ps/task:1");
    assert_int_equal(ps_variable_is_initialized(v, &there), PS_OK);
    assert_false(there);
    assert_int_equal(ps_variable_init(v, false), PS_OK);
    flow_start(&dies, v, 1, 30000);
    await(&dies.ok, false, 100, &dies);
    flow_end(&dies);
    assert_int_equal(atomic_load(&dies.nothing) + atomic_load(&dies.unknown), 0);
    check_value(v, atomic_load(&dies.ok));
    assert_int_equal(ps_variable_delete(s, "restart/dies"), PS_OK);
}

static void a_killed_task_comes_back_empty(void **state)
{
    (void)state;
    ps_session *s = open_session(30000);
    ps_variable *other = pinned(s, "restart/lives", "/job:ps/task:0");
    unsigned other_pushes = 0;
    assert_int_equal(ps_variable_init(other, false), PS_OK);
    for (int round = 0; round < ROUNDS; round++) {
        kill_once(s, other, &other_pushes, round % 2 == 0);
    }
    assert_int_equal(ps_session_close(s), 0);
}

/* Two seconds of standstill: nothing is lost, nothing fails. */
static void a_stopped_task_loses_nothing(void **state)
{
    (void)state;
    struct flow flows[2];
    ps_session *s = open_session(30000);
    ps_variable *v[2] = {pinned(s, "stop/v0", "/job:ps/task:0"), pinned(s, "stop/v1", "/job:ps/task:1")};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ps_variable_init(v[i], false), PS_OK);
        flow_start(&flows[i], v[i], i, 30000);
    }
    for (int i = 0; i < 2; i++) {
        await(&flows[i].ok, false, 50, &flows[i]);
        test_cluster_hang(&cluster, i);
        (void)poll(NULL, 0, STANDSTILL_MS); /* sleep: the pause itself is what is tested */
        unsigned before = atomic_load(&flows[i].ok);
        assert_int_equal(kill(cluster.pid[i], SIGCONT), 0);
        await(&flows[i].ok, false, before + 50, &flows[i]);
    }
    for (int i = 0; i < 2; i++) {
        flow_end(&flows[i]);
        assert_int_equal(atomic_load(&flows[i].nothing) + atomic_load(&flows[i].unknown), 0);
        check_value(v[i], atomic_load(&flows[i].ok));
    }
    assert_int_equal(ps_session_close(s), 0);
}

/* ---- memory ---- */

enum { PUSHERS = 4, PUSHES_EACH = 2, LARGE_MS = 600000 /* of an operation */ };
#define LARGE_BYTES ((size_t)256 << 20)
#define EXTRA_BYTES ((size_t)16 << 20)

static float *large;

static void *push_large(void *arg)
{
    ps_session *s = open_session(LARGE_MS);
    ps_variable *v = NULL;
    bool good = ps_variable_find(s, "memory/large", &v) == PS_OK;
    (void)arg;
    for (int i = 0; good && i < PUSHES_EACH; i++) {
        good = ps_variable_push(v, large, LARGE_BYTES, 1.0F) == PS_OK;
    }
    good = ps_session_close(s) == 0 && good;
    return good ? NULL : (void *)(uintptr_t)1;
}

/* The most memory that the process ever had. */
static size_t peak_bytes(pid_t pid)
{
    char path[64];
    char line[256];
    size_t kib = 0;
    (void)snprintf(path, sizeof(path), "/proc/%ld/status", (long)pid);
    FILE *f = fopen(path, "re");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f) != NULL) {
        if (strncmp(line, "VmHWM:", 6) == 0) {
            kib = strtoul(line + 6, NULL, 10);
        }
    }
    (void)fclose(f);
    assert_true(kib > 0);
    return kib * 1024;
}

/* Four connections push 256 MiB each at the same time: value + slot + 10 % + 16 MiB, at any moment. */
static void memory_is_bounded(void **state)
{
    (void)state;
    if (INSTRUMENTED) {
        skip(); /* the sanitizer's shadow memory is in the way */
    }
    pthread_t threads[PUSHERS];
    ps_session *s = open_session(LARGE_MS);
    large = calloc(1, LARGE_BYTES);
    assert_non_null(large);
    large[0] = 1.0F;
    ps_variable *v = get(s, "memory/large", PS_F32, PS_SHAPE((int64_t)(LARGE_BYTES / sizeof(float))), ps_adagrad(0.1));
    assert_int_equal(ps_variable_init(v, false), PS_OK);
    for (int i = 0; i < PUSHERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, push_large, NULL), 0);
    }
    for (int i = 0; i < PUSHERS; i++) {
        void *failed = NULL;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    size_t peak = peak_bytes(cluster.pid[ps_variable_task(v)]);
    size_t state_bytes = 2 * LARGE_BYTES;
    print_message("peak %zu MiB for %zu MiB of value and slot\n", peak >> 20, state_bytes >> 20);
    assert_true(peak >= state_bytes); /* it is really there */
    assert_true(peak <= state_bytes + state_bytes / 10 + EXTRA_BYTES);
    assert_int_equal(ps_variable_read(v, large, LARGE_BYTES), PS_OK);
    assert_true(ps_variable_version(v, NULL) == PUSHERS * PUSHES_EACH);
    peak = peak_bytes(cluster.pid[ps_variable_task(v)]);
    assert_true(peak <= state_bytes + state_bytes / 10 + EXTRA_BYTES);
    assert_int_equal(ps_variable_delete(s, "memory/large"), PS_OK);
    assert_int_equal(ps_session_close(s), 0);
    free(large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_killed_task_comes_back_empty, filled_setup, teardown),
        cmocka_unit_test_setup_teardown(a_stopped_task_loses_nothing, filled_setup, teardown),
        cmocka_unit_test_setup_teardown(memory_is_bounded, filled_setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
