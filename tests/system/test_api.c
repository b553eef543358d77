/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public API against real psd processes: variables, exactly-once sums from many threads, callbacks exactly once, fork, the
 * training level.
 */
#include "api/api.h"
#include "api_test.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- values ---- */

static void values_go_round(void **state)
{
    (void)state;
    ps_session *s = open_session(20000);
    enum { COUNT = 3 << 20 }; /* 12 MiB: three frames */
    float *in = calloc(COUNT, sizeof(*in));
    float *out = calloc(COUNT, sizeof(*out));
    ps_variable *v = get(s, "values/big", PS_F32, PS_SHAPE(COUNT), ps_sgd(0.5));
    bool there = true;
    bool exact = false;
    assert_int_equal(ps_variable_is_initialized(v, &there), PS_OK);
    assert_false(there);
    assert_int_equal(ps_variable_read(v, out, COUNT * sizeof(*out)), PS_FAILED_PRECONDITION);
    assert_non_null(strstr(ps_last_error(), "values/big"));
    assert_int_equal(ps_last_applied(), PS_NOTHING_APPLIED);
    assert_int_equal(ps_variable_init(v, false), PS_OK);
    assert_int_equal(ps_variable_is_initialized(v, &there), PS_OK);
    assert_true(there);
    for (int i = 0; i < COUNT; i++) {
        in[i] = (float)(i % 1000);
    }
    assert_int_equal(ps_variable_assign(v, in, COUNT * sizeof(*in)), PS_OK);
    assert_int_equal(ps_variable_version(v, &exact), 1);
    assert_true(exact);
    assert_int_equal(ps_variable_push(v, in, COUNT * sizeof(*in), 1.0F), PS_OK); /* v -= 0.5 * in */
    assert_int_equal(ps_variable_read(v, out, COUNT * sizeof(*out)), PS_OK);
    for (int i = 0; i < COUNT; i++) {
        if (out[i] != 0.5F * in[i]) {
            fail_msg("element %d is %g, not %g", i, (double)out[i], 0.5 * (double)in[i]);
        }
    }
    assert_int_equal(ps_variable_version(v, &exact), 2);
    assert_true(exact);
    assert_int_equal(ps_variable_push_pull(v, in, COUNT * sizeof(*in), out, COUNT, 1.0F), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_last_error(), "push_pull of 'values/big': there is room for"));
    assert_int_equal(ps_variable_push_pull(v, in, COUNT * sizeof(*in), out, COUNT * sizeof(*out), 1.0F), PS_OK);
    for (int i = 0; i < COUNT; i++) {
        if (out[i] != 0) {
            fail_msg("element %d is %g after push_pull, not 0", i, (double)out[i]);
        }
    }
    assert_int_equal(ps_variable_init(v, true), PS_OK);
    assert_int_equal(ps_variable_read(v, out, COUNT * sizeof(*out)), PS_OK);
    assert_true(out[0] == 0 && out[COUNT - 1] == 0);
    assert_int_equal(ps_variable_read(v, out, 4), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_variable_push(v, in, COUNT * sizeof(*in), 0), PS_INVALID_ARGUMENT);
    free(in);
    free(out);
    assert_int_equal(ps_session_close(s), 0);
}

static void small_adds_return_the_value(void **state)
{
    (void)state;
    ps_session *s = open_session(20000);
    ps_variable *v = get(s, "values/counter", PS_I64, PS_SCALAR, NULL);
    int64_t five = 5;
    int64_t value = 0;
    assert_int_equal(ps_variable_init_from(v, &five, sizeof(five)), PS_OK);
    assert_int_equal(ps_variable_assign_add(v, &five, sizeof(five), &value, sizeof(value)), PS_OK);
    assert_int_equal(value, 10);
    assert_int_equal(ps_variable_assign_sub(v, &five, sizeof(five), &value, 4), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_last_error(), "assign_sub of"));
    assert_non_null(strstr(ps_last_error(), "there is room for 4 bytes of its value, the variable has 8"));
    assert_int_equal(ps_variable_assign_sub(v, &five, sizeof(five), &value, sizeof(value)), PS_OK);
    assert_int_equal(value, 5);
    value = 77;
    assert_int_equal(ps_variable_init_from(v, &value, sizeof(value)), PS_OK); /* initialised: nothing happens */
    assert_int_equal(ps_variable_read(v, &value, sizeof(value)), PS_OK);
    assert_int_equal(value, 5);
    assert_int_equal(ps_session_close(s), 0);
}

/* What the loop's thread has met is the last error of whoever is told of it, not what failed there before. */
static void the_last_error_is_that_of_the_call(void **state)
{
    (void)state;
    ps_session *s = open_session(20000);
    ps_session *other = open_session(20000);
    ps_variable *none = NULL;
    const float grad[4] = {1, 1, 1, 1};
    ps_param *p = ps_param_get(s, "last/w", PS_SHAPE(4), ps_zeros(), ps_sgd(0.1));
    assert_int_equal(ps_session_ready(s), PS_OK);
    assert_int_equal(ps_reset(other), PS_OK);
    assert_int_equal(ps_variable_find(s, "last/none", &none), PS_NOT_FOUND);
    memcpy(ps_param_grad(p), grad, sizeof(grad));
    (void)ps_push(s, p);
    assert_int_equal(ps_step_done(s), PS_ABORTED);
    assert_non_null(strstr(ps_last_error(), "last/w"));
    assert_int_equal(ps_last_reason(), PS_REASON_LOST);
    assert_string_equal(ps_last_error(), ps_session_error(s));
    assert_int_equal(ps_session_close(other), 0);
    assert_int_equal(ps_session_close(s), PS_ABORTED);
}

static void definitions_must_agree(void **state)
{
    (void)state;
    ps_session *s = open_session(20000);
    ps_session *other = open_session(20000);
    ps_variable *v = get(s, "definition", PS_F32, PS_SHAPE(2, 3), ps_sgd(0.1));
    ps_variable *found = NULL;
    ps_variable_spec spec;
    assert_int_equal(ps_variable_find(other, "definition", &found), PS_OK);
    assert_int_equal(ps_variable_dtype(found), PS_F32);
    assert_int_equal(ps_shape_elements(ps_variable_shape(found)), 6);
    assert_string_equal(ps_variable_device(found), ps_variable_device(v));
    assert_int_equal(ps_variable_find(other, "definition/none", &found), PS_NOT_FOUND);
    assert_non_null(strstr(ps_last_error(), "definition/none"));
    ps_variable_spec_init(&spec);
    spec.name = "definition";
    spec.dtype = PS_F32;
    spec.shape = PS_SHAPE(3, 2);
    assert_int_equal(ps_variable_get(other, &spec, &found), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_last_error(), "SHAPE_MISMATCH"));
    assert_non_null(strstr(ps_last_error(), "; another --container keeps the two apart, `psctl reset` takes the old one away"));
    assert_non_null(strstr(ps_last_error(), "(2, 3)"));
    assert_non_null(strstr(ps_last_error(), "(3, 2)"));
    spec.name = "../etc/passwd";
    assert_int_equal(ps_variable_get(other, &spec, &found), PS_INVALID_ARGUMENT);
    spec.name = "partitioned";
    spec.partitions = 2;
    assert_int_equal(ps_variable_get(other, &spec, &found), PS_OK);
    assert_int_equal(ps_variable_partitions(found), 2);
    assert_int_equal(ps_session_close(other), 0);
    assert_int_equal(ps_session_close(s), 0);
}

/* A program that was compiled when the structs were shorter, and one that did not fill them in. */
static void structs_of_other_headers(void **state)
{
    (void)state;
    ps_session *s = open_session(20000);
    ps_variable *v = NULL;
    ps_variable_spec spec;
    ps_file_options files;
    ps_variable_spec_init(&spec);
    spec.name = "older";
    spec.dtype = PS_F32;
    spec.shape = PS_SHAPE(3);
    spec.wire_dtype = (ps_dtype)77; /* beyond its end: not looked at */
    spec.struct_bytes = offsetof(ps_variable_spec, wire_dtype);
    assert_int_equal(ps_variable_get(s, &spec, &v), PS_OK);
    assert_int_equal(ps_shape_elements(ps_variable_shape(v)), 3);
    spec.struct_bytes = sizeof(spec);
    assert_int_equal(ps_variable_get(s, &spec, &v), PS_INVALID_ARGUMENT);
    spec.struct_bytes = 0;
    assert_int_equal(ps_variable_get(s, &spec, &v), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_last_error(), "ps_variable_spec_init"));
    ps_file_options_init(&files);
    files.container = "nothing-here";
    files.copied = (ps_copied_fn)(uintptr_t)1; /* likewise */
    files.struct_bytes = offsetof(ps_file_options, copied);
    assert_int_equal(ps_export(s, "older.safetensors", &files, NULL), PS_FAILED_PRECONDITION);
    assert_non_null(strstr(ps_last_error(), "nothing-here"));
    files.struct_bytes = 0;
    assert_int_equal(ps_export(s, "older.safetensors", &files, NULL), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_import(s, "older.safetensors", &files, NULL), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_last_error(), "ps_file_options_init"));
    assert_int_equal(ps_session_close(s), 0);
}

static void assert_def(const ps_variable *v, const char *expected)
{
    char def[PS_VARIABLE_DEF_BYTES];
    assert_int_equal(ps_variable_def(v, def, sizeof(def)), PS_OK);
    assert_string_equal(def, expected);
}

/* Three lines, of whatever name: v.to_proto() of the document "Distributed Tensorflow" prints the first ones. */
static void defs_are_those_of_tensorflow(void **state)
{
    (void)state;
    ps_session *s = open_session(20000);
    ps_variable *v = NULL;
    char def[PS_VARIABLE_DEF_BYTES], name[PS_NAME_BYTES_MAX + 1], expected[PS_VARIABLE_DEF_BYTES];
    ps_variable_spec spec;
    ps_variable_spec_init(&spec);
    spec.dtype = PS_F32;
    assert_int_equal(ps_container_push(s, "defs"), PS_OK);
    for (int i = 0; i < 25; i++) {
        assert_int_equal(ps_variable_get(s, &spec, &v), PS_OK);
    }
    assert_def(v, "variable_name: \"Variable_24:0\"\ninitializer_name: \"Variable_24/Assign\"\n"
                  "snapshot_name: \"Variable_24/read:0\"\n");
    assert_int_equal(ps_variable_scope_push(s, "my_problem_1", PS_REUSE_AUTO), PS_OK);
    assert_int_equal(ps_variable_get(s, &spec, &v), PS_OK);
    assert_def(v, "variable_name: \"my_problem_1/Variable:0\"\ninitializer_name: \"my_problem_1/Variable/Assign\"\n"
                  "snapshot_name: \"my_problem_1/Variable/read:0\"\n");
    assert_int_equal(ps_variable_scope_pop(s), PS_OK);
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    spec.name = name;
    assert_int_equal(ps_variable_get(s, &spec, &v), PS_OK);
    (void)snprintf(expected, sizeof(expected),
                   "variable_name: \"%s:0\"\ninitializer_name: \"%s/Assign\"\nsnapshot_name: \"%s/read:0\"\n", name, name, name);
    assert_def(v, expected);
    assert_int_equal(ps_container_pop(s), PS_OK);
    strcpy(def, "as it was");
    assert_int_equal(ps_variable_def(v, def, sizeof(def) - 1), PS_INVALID_ARGUMENT);
    assert_string_equal(ps_last_error(), "ps_variable_def: out has 1023 bytes, 1024 are needed");
    assert_string_equal(def, "as it was");
    assert_int_equal(ps_variable_def(v, NULL, sizeof(def)), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_variable_def(NULL, def, sizeof(def)), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_session_close(s), 0);
}

/* As a program that computes a graph again from its beginning: the initial value, whatever is there. */
static void a_variable_is_made_anew(void **state)
{
    (void)state;
    ps_session *s = open_session(20000);
    float value[2] = {0};
    for (int round = 0; round < 2; round++) {
        ps_variable *v = ps_variable_make(s, "made", PS_SHAPE(2), ps_constant(0.5), ps_sgd(1));
        assert_non_null(v);
        assert_int_equal(ps_variable_read(v, value, sizeof(value)), PS_OK);
        assert_true(value[0] == 0.5f && value[1] == 0.5f && ps_variable_dtype(v) == PS_F32);
        assert_int_equal(ps_variable_assign_add(v, value, sizeof(value), NULL, 0), PS_OK);
    }
    assert_int_equal(ps_session_status(s), PS_OK);
    assert_null(ps_variable_make(s, "made", PS_SHAPE(3), NULL, ps_sgd(1)));
    assert_int_equal(ps_session_status(s), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_session_error(s), "SHAPE_MISMATCH"));
    assert_null(ps_variable_make(NULL, "made", PS_SCALAR, NULL, NULL));
    assert_int_not_equal(ps_session_close(s), 0);
}

static void placement_is_round_robin(void **state)
{
    (void)state;
    ps_session *s = open_session(20000);
    for (int i = 0; i < 4; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "place/v%d", i);
        assert_int_equal(ps_variable_task(get(s, name, PS_F32, PS_SHAPE(4), NULL)), i % 2);
    }
    assert_int_equal(ps_ps_count(s), 2);
    assert_int_equal(ps_session_close(s), 0);
}

/* ---- exactly once under many threads ---- */

enum { THREADS = 8, ADDS = 100, PUSHES = 40, WIDTH = 20000 };

struct adder {
    ps_session *session;
    ps_variable *counter, *wide;
    const float *grad;
};

static void *add_many(void *arg)
{
    const struct adder *a = arg;
    const int64_t one = 1;
    for (int i = 0; i < ADDS; i++) {
        if (ps_variable_assign_add(a->counter, &one, sizeof(one), NULL, 0) != PS_OK) {
            return (void *)(uintptr_t)1;
        }
        if (i < PUSHES && ps_variable_push(a->wide, a->grad, WIDTH * sizeof(float), 1.0F) != PS_OK) {
            return (void *)(uintptr_t)1;
        }
    }
    return NULL;
}

static void sums_of_many_threads_are_exact(void **state)
{
    (void)state;
    ps_session *s = open_session(30000);
    struct adder a = {.session = s,
                      .counter = get(s, "sum/counter", PS_I64, PS_SCALAR, NULL),
                      .wide = get(s, "sum/wide", PS_F32, PS_SHAPE(WIDTH), ps_sgd(1.0))};
    static float grad[WIDTH];
    static float value[WIDTH];
    pthread_t threads[THREADS];
    for (int i = 0; i < WIDTH; i++) {
        grad[i] = -1.0F;
    }
    a.grad = grad;
    assert_int_equal(ps_variable_init(a.counter, false), PS_OK);
    assert_int_equal(ps_variable_init(a.wide, false), PS_OK);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, add_many, &a), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *failed = NULL;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    int64_t sum = 0;
    assert_int_equal(ps_variable_read(a.counter, &sum, sizeof(sum)), PS_OK);
    assert_int_equal(sum, THREADS * ADDS);
    assert_int_equal(ps_variable_read(a.wide, value, sizeof(value)), PS_OK);
    for (int i = 0; i < WIDTH; i++) {
        if (value[i] != (float)(THREADS * PUSHES)) {
            fail_msg("element %d is %g, not %d", i, (double)value[i], THREADS * PUSHES);
        }
    }
    assert_int_equal(ps_session_close(s), 0);
}

/* ---- threads and versions ---- */

enum { READS = 300 };

struct reader {
    ps_variable *v;
    atomic_int *ended;
};

/* The version never goes back: neither does it for another thread that reads the same variable. */
static void *read_many(void *arg)
{
    const struct reader *r = arg;
    uint64_t seen = 0;
    uintptr_t bad = 0;
    int64_t value = 0;
    for (int i = 0; i < READS; i++) {
        bad += ps_variable_read(r->v, &value, sizeof(value)) != PS_OK;
        uint64_t version = ps_variable_version(r->v, NULL);
        bad += version < seen;
        seen = version;
    }
    atomic_fetch_add(r->ended, 1);
    return (void *)bad; /* NOLINT(performance-no-int-to-ptr): a number, for pthread_join() */
}

static void versions_never_go_back(void **state)
{
    (void)state;
    ps_session *s = open_session(30000);
    ps_session *other = open_session(30000);
    atomic_int ended = 0;
    struct reader r = {.v = get(s, "version/v", PS_I64, PS_SCALAR, NULL), .ended = &ended};
    ps_variable *written = get(other, "version/v", PS_I64, PS_SCALAR, NULL);
    pthread_t threads[THREADS];
    int64_t value = 0;
    assert_int_equal(ps_variable_init(written, false), PS_OK);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, read_many, &r), 0);
    }
    while (atomic_load(&ended) < THREADS) {
        assert_int_equal(ps_variable_assign(written, &value, sizeof(value)), PS_OK);
        value++;
    }
    for (int i = 0; i < THREADS; i++) {
        void *bad = NULL;
        assert_int_equal(pthread_join(threads[i], &bad), 0);
        assert_null(bad);
    }
    assert_int_equal(ps_session_close(other), 0);
    assert_int_equal(ps_session_close(s), 0);
}

static void *read_once(void *arg)
{
    const struct reader *r = arg;
    int64_t value = 0;
    const ps_status st = ps_variable_read(r->v, &value, sizeof(value));
    uintptr_t bad = st != PS_OK && (st != PS_CANCELLED || ps_last_reason() != PS_REASON_CLOSING);
    atomic_fetch_add(r->ended, 1);
    return (void *)bad; /* NOLINT(performance-no-int-to-ptr): likewise */
}

/* Calls that are in flight end, CANCELLED where their answers have not come, and their threads are out of the session before it
 * is freed: the thread sanitizer sees it. */
static void close_waits_for_calls(void **state)
{
    (void)state;
    enum { CLOSES = 20 };
    for (int i = 0; i < CLOSES; i++) {
        ps_session *s = open_session(30000);
        atomic_int ended = 0; /* before the task stood still */
        struct reader r = {.v = get(s, "close/v", PS_I64, PS_SCALAR, NULL), .ended = &ended};
        pthread_t threads[THREADS];
        uint32_t begun = 0;
        assert_int_equal(ps_variable_init(r.v, false), PS_OK);
        assert_int_equal(kill(cluster.pid[ps_variable_task(r.v)], SIGSTOP), 0);
        for (int t = 0; t < THREADS; t++) {
            assert_int_equal(pthread_create(&threads[t], NULL, read_once, &r), 0);
        }
        while (begun < THREADS) {
            begun = (uint32_t)atomic_load(&ended); /* first: one that ends meanwhile is not counted twice */
            (void)pthread_mutex_lock(&s->lock);
            begun += s->in_flight;
            (void)pthread_mutex_unlock(&s->lock);
        }
        assert_int_equal(kill(cluster.pid[ps_variable_task(r.v)], SIGCONT), 0);
        assert_int_equal(ps_session_close(s), 0);
        for (int t = 0; t < THREADS; t++) {
            void *bad = NULL;
            assert_int_equal(pthread_join(threads[t], &bad), 0);
            assert_null(bad);
        }
    }
}

/* ---- the asynchronous core ---- */

enum { REQUESTS = 16, ROUNDS = 200 };

struct looping {
    ps_variable *v;
    ps_request req;
    const float *grad;
    float value[64];
    int left, done, bad;
    atomic_int *running;
    pthread_t thread;
};

static void on_done(void *ctx, ps_request *req, const ps_result *result)
{
    struct looping *l = ctx;
    l->bad += result->status != PS_OK || req != &l->req;
    l->done++;
    l->left--;
    l->thread = pthread_self();
    if (l->left == 0) {
        atomic_fetch_sub(l->running, 1);
    } else if (l->left % 2 == 0) {
        l->bad += ps_push_start(l->v, l->grad, 256, 1.0F, 0, req, on_done, l) != PS_OK;
    } else {
        l->bad += ps_pull_start(l->v, l->value, 256, 0, req, on_done, l) != PS_OK;
    }
}

static void callbacks_run_exactly_once(void **state)
{
    (void)state;
    ps_session *s = open_session(30000);
    ps_variable *v = get(s, "async/v", PS_F32, PS_SHAPE(64), ps_sgd(1.0));
    static struct looping loops[REQUESTS];
    static float grad[64];
    atomic_int running = REQUESTS;
    float value[64];
    for (int i = 0; i < 64; i++) {
        grad[i] = -1.0F;
    }
    assert_int_equal(ps_variable_init(v, false), PS_OK);
    memset(loops, 0, sizeof(loops));
    for (int i = 0; i < REQUESTS; i++) {
        loops[i] = (struct looping){.v = v, .grad = grad, .left = ROUNDS, .running = &running};
        assert_int_equal(ps_push_start(v, grad, sizeof(grad), 1.0F, 0, &loops[i].req, on_done, &loops[i]), PS_OK);
    }
    while (atomic_load(&running) > 0) {
        bool there = false;
        assert_int_equal(ps_variable_is_initialized(v, &there), PS_OK); /* a round trip: no busy loop */
    }
    for (int i = 0; i < REQUESTS; i++) {
        assert_int_equal(loops[i].done, ROUNDS);
        assert_int_equal(loops[i].bad, 0);
        assert_int_equal(pthread_equal(loops[i].thread, pthread_self()) != 0, API_PROGRESS == PS_PROGRESS_CALLER);
    }
    assert_int_equal(ps_variable_read(v, value, sizeof(value)), PS_OK);
    const int pushes = REQUESTS * ROUNDS / 2; /* one push, then pull and push in turn */
    assert_true(value[0] == (float)pushes);
    assert_int_equal(ps_push_start(v, grad, 8, 1.0F, 0, &loops[0].req, on_done, &loops[0]), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_push_start(v, NULL, sizeof(grad), 1.0F, 0, &loops[0].req, on_done, &loops[0]), PS_INVALID_ARGUMENT);
    static float both[65]; /* gradient and values, one element apart */
    assert_int_equal(
        ps_push_pull_start(v, grad, sizeof(grad), value, sizeof(value) - 4, 1.0F, 0, &loops[0].req, on_done, &loops[0]),
        PS_INVALID_ARGUMENT);
    assert_int_equal(ps_push_pull_start(v, both, 256, both + 1, 256, 1.0F, 0, &loops[0].req, on_done, &loops[0]),
                     PS_INVALID_ARGUMENT);
    assert_int_equal(ps_variable_push_pull(v, both + 1, 256, both, 256, 1.0F), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_variable_push_pull(v, both, 256, both, 256, 1.0F), PS_INVALID_ARGUMENT);
    assert_int_equal(loops[0].done, ROUNDS);
    assert_int_equal(ps_session_close(s), 0);
}

struct assigned {
    atomic_bool done;
    uint64_t version; /* 0: it failed */
};

static void on_assigned(void *ctx, ps_request *req, const ps_result *result)
{
    struct assigned *a = ctx;
    (void)req;
    a->version = result->status == PS_OK ? result->version : 0;
    atomic_store(&a->done, true);
}

static void an_assignment_that_was_started_says_its_version(void **state)
{
    (void)state;
    ps_session *s = open_session(30000);
    ps_variable *v = get(s, "async/assigned", PS_F32, PS_SHAPE(2), NULL);
    const float value[2] = {1, 2};
    struct assigned a = {.version = 0};
    ps_request req = {0};
    bool exact = false;
    assert_int_equal(ps_variable_assign(v, value, sizeof(value)), PS_OK);
    uint64_t first = ps_variable_version(v, NULL);
    assert_int_equal(ps_assign_start(v, value, sizeof(value), 0, &req, on_assigned, &a), PS_OK);
    while (!atomic_load(&a.done)) {
        bool there = false;
        assert_int_equal(ps_variable_is_initialized(v, &there), PS_OK);
    }
    assert_true(a.version > first);
    assert_int_equal(ps_variable_version(v, &exact), a.version);
    assert_true(exact);
    assert_int_equal(ps_session_close(s), 0);
}

struct blocked {
    ps_session *s;
    ps_variable *v;
    ps_param *p;
    ps_status read, pull, pull_one, push, step, before, after;
};

static void blocking_in_callback(void *ctx, ps_request *req, const ps_result *result)
{
    struct blocked *b = ctx;
    bool there = false;
    (void)req;
    (void)result;
    b->read = ps_variable_is_initialized(b->v, &there);
    b->pull = ps_pull(b->s);
    b->pull_one = ps_pull_param(b->p);
    b->push = ps_push(b->s, b->p);
    b->step = ps_step_done(b->s);
    b->before = ps_session_status(b->s);
    (void)ps_param_get(b->s, "async/too_late", PS_SCALAR, NULL, NULL); /* what it gives is never got: the session says so */
    b->after = ps_session_status(b->s);
}

static void a_blocking_call_in_a_callback_is_refused(void **state)
{
    (void)state;
    struct blocked b = {.s = open_session(20000)};
    ps_request req;
    float value[2];
    memset(&req, 0, sizeof(req));
    b.v = get(b.s, "async/block", PS_F32, PS_SHAPE(2), NULL);
    b.p = ps_param_get(b.s, "async/param", PS_SCALAR, NULL, ps_sgd(1));
    assert_int_equal(ps_variable_init(b.v, false), PS_OK);
    assert_int_equal(ps_pull_start(b.v, value, sizeof(value), 0, &req, blocking_in_callback, &b), PS_OK);
    assert_int_equal(ps_session_close(b.s), PS_FAILED_PRECONDITION); /* waits for it */
    assert_int_equal(b.read, PS_FAILED_PRECONDITION);
    assert_int_equal(b.pull, PS_FAILED_PRECONDITION);
    assert_int_equal(b.pull_one, PS_FAILED_PRECONDITION);
    assert_int_equal(b.push, PS_FAILED_PRECONDITION);
    assert_int_equal(b.step, PS_FAILED_PRECONDITION);
    assert_int_equal(b.before, PS_OK);
    assert_int_equal(b.after, PS_FAILED_PRECONDITION);
}

static void a_forked_child_is_refused(void **state)
{
    (void)state;
    ps_session *s = open_session(20000);
    ps_variable *v = get(s, "fork/v", PS_F32, PS_SHAPE(2), NULL);
    int status = 0;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        float value[2];
        bool good = ps_variable_read(v, value, sizeof(value)) == PS_FAILED_PRECONDITION &&
                    strstr(ps_last_error(), "fork") != NULL && ps_pull(s) == PS_FAILED_PRECONDITION && ps_should_stop(s) &&
                    ps_session_close(s) == PS_FAILED_PRECONDITION;
        _exit(good ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(ps_variable_init(v, false), PS_OK); /* the parent's session is untouched */
    assert_int_equal(ps_session_close(s), 0);
}

static int open_descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 1024; fd++) {
        count += fcntl(fd, F_GETFD) >= 0;
    }
    return count;
}

/* True if the child closes the session's descriptors, and nothing that is opened later at their numbers. */
static bool child_closes(ps_session *s)
{
    int before = open_descriptors();
    ps_after_fork_child();
    int closed = before - open_descriptors();
    int later[2];
    bool good = closed >= 5 && pipe(later) == 0; /* a connection, epoll, an eventfd, libuv's pipe of signals */
    ps_after_fork_child();
    return good && fcntl(later[0], F_GETFD) >= 0 && ps_pull(s) == PS_FAILED_PRECONDITION &&
           ps_session_close(s) == PS_FAILED_PRECONDITION && fcntl(later[1], F_GETFD) >= 0;
}

static void a_forked_child_closes_its_copies(void **state)
{
    (void)state;
    ps_session *s = open_session(20000);
    ps_variable *v = get(s, "fork/w", PS_F32, PS_SHAPE(2), NULL);
    int status = 0;
    ps_after_fork_child(); /* nothing, in the process that opened them */
    assert_int_equal(ps_variable_init(v, false), PS_OK);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        _exit(child_closes(s) ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(ps_variable_init(v, false), PS_OK);
    assert_int_equal(ps_session_close(s), 0);
}

/* ---- training level ---- */

static void *ready_main(void *arg)
{
    return (void *)(intptr_t)ps_session_ready(arg);
}

/* Each of them is the chief: none is a newer one than the others. */
static void several_threads_make_it_ready(void **state)
{
    (void)state;
    ps_session *s = open_session(30000);
    pthread_t threads[THREADS];
    assert_int_equal(ps_container_push(s, "ready"), PS_OK);
    (void)ps_param_get(s, "p", PS_SHAPE(2), ps_zeros(), ps_sgd(1));
    for (int t = 0; t < THREADS; t++) {
        assert_int_equal(pthread_create(&threads[t], NULL, ready_main, s), 0);
    }
    for (int t = 0; t < THREADS; t++) {
        void *code = NULL;
        assert_int_equal(pthread_join(threads[t], &code), 0);
        assert_int_equal((intptr_t)code, PS_OK);
    }
    assert_int_equal(ps_reset_containers(s, (const char *const[]){"ready", "localhost"}, 2), PS_OK);
    assert_int_equal(ps_session_close(s), 0);
}

static void parameters_train(void **state)
{
    (void)state;
    ps_session *s = open_session(20000);
    ps_param *a = ps_param_get(s, "train/a", PS_SHAPE(3), ps_constant(1), ps_sgd(1));
    ps_param *b = ps_param_get(s, "train/b", PS_SHAPE(100, 100), ps_ones(), ps_sgd(1));
    int64_t found_step = -1;
    assert_int_equal(ps_session_ready(s), PS_OK);
    assert_int_equal(ps_session_found(s, &found_step), 0);
    int64_t before = ps_global_step(s);
    assert_int_equal(found_step, before);
    assert_int_equal((uintptr_t)ps_param_value(a) % 64, 0);
    ps_set_steps(s, before + 10);
    int steps = 0;
    for (; !ps_should_stop(s); steps++) {
        float *ga = ps_param_grad(a);
        float *gb = ps_param_grad(b);
        assert_non_null(ga);
        assert_int_equal((uintptr_t)ga % 64, 0);
        ga[2] = 1;
        gb[9999] = -1;
        assert_int_equal(ps_push(s, a), PS_OK);
        assert_int_equal(ps_push(s, b), PS_OK);
        assert_int_equal(ps_step_done(s), PS_OK);
    }
    assert_int_equal(steps, 10);
    assert_int_equal(ps_global_step(s), before + 10);
    assert_int_equal(ps_pull(s), PS_OK);
    assert_true(((float *)ps_param_value(a))[2] == -9.0F);
    assert_true(((float *)ps_param_value(b))[9999] == 11.0F);
    bool exact = false;
    assert_int_equal(ps_param_version(a, &exact), 10);
    assert_true(exact);
    assert_int_equal(ps_report_uninitialized(s, NULL, 0), 0);
    assert_int_equal(ps_session_close(s), 0);

    s = open_session(20000); /* a second run finds both */
    a = ps_param_get(s, "train/a", PS_SHAPE(3), ps_constant(1), ps_sgd(1));
    b = ps_param_get(s, "train/b", PS_SHAPE(100, 100), ps_ones(), ps_sgd(1));
    assert_int_equal(ps_session_ready(s), PS_OK);
    assert_int_equal(ps_session_found(s, &found_step), 2);
    assert_int_equal(found_step, before + 10);
    assert_int_equal(ps_pull_param(a), PS_OK);
    assert_true(((float *)ps_param_value(a))[2] == -9.0F);
    assert_int_equal(ps_session_close(s), 0);
}

static void keep_ready(void *ctx, ps_log_level level, const char *line)
{
    (void)level;
    if (strstr(line, "ev=ready ") != NULL) {
        (void)snprintf(ctx, 256, "%s", strstr(line, "variables="));
    }
}

static int found_by(const char *container, int count, char log[256])
{
    ps_session_options o;
    ps_session *s = NULL;
    ps_session_options_init(&o);
    o.target = cluster.address[0];
    o.log = keep_ready;
    o.log_ctx = log;
    o.progress = API_PROGRESS;
    o.container = container;
    assert_int_equal(ps_session_open(&o, &s, NULL, 0), PS_OK);
    for (int i = 0; i < count; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "v%d", i);
        (void)ps_param_get(s, name, PS_SHAPE(3), ps_ones(), ps_sgd(1));
    }
    assert_int_equal(ps_session_ready(s), PS_OK);
    const int found = ps_session_found(s, NULL);
    assert_int_equal(ps_session_close(s), 0);
    return found;
}

/* The global step is none of the program's variables, neither for the program nor in the log. */
static void the_log_finds_what_the_program_finds(void **state)
{
    char log[256];
    (void)state;
    assert_int_equal(found_by("found_none", 0, log), 0);
    assert_string_equal(log, "variables=0 found=0");
    assert_int_equal(found_by("found_none", 0, log), 0); /* the global step is there */
    assert_string_equal(log, "variables=0 found=0");
    assert_int_equal(found_by("found_two", 2, log), 0);
    assert_string_equal(log, "variables=2 found=0");
    assert_int_equal(found_by("found_two", 2, log), 2);
    assert_string_equal(log, "variables=2 found=2");
}

static void errors_stick(void **state)
{
    (void)state;
    ps_session *s = open_session(20000);
    ps_param *good = ps_param_get(s, "stick/good", PS_SHAPE(3), ps_zeros(), ps_sgd(1));
    ps_param *bad = ps_param_get(s, "stick//bad", PS_SHAPE(5), ps_zeros(), ps_sgd(1));
    assert_non_null(bad);
    assert_int_equal(ps_session_status(s), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_session_error(s), "stick//bad"));
    ((float *)ps_param_value(bad))[4] = 1; /* harmless */
    ((float *)ps_param_grad(good))[2] = 1; /* harmless as well */
    assert_non_null(strstr(ps_last_error(), "stick//bad"));
    assert_int_equal(ps_push(s, good), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_session_ready(s), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_session_fail(s, PS_INTERNAL, "later"), PS_INVALID_ARGUMENT);
    assert_true(ps_should_stop(s));
    assert_int_equal(ps_session_close(s), PS_INVALID_ARGUMENT);
}

static void options_are_checked(void **state)
{
    (void)state;
    ps_session_options o;
    ps_session *s = NULL;
    char error[512];
    ps_session_options_init(&o);
    o.target = "127.0.0.1:99999";
    assert_int_equal(ps_session_open(&o, &s, error, sizeof(error)), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(error, "target"));
    o.target = NULL;
    o.cluster_spec = "ps=127.0.0.1:1;worker=127.0.0.1:2";
    o.job = "worker";
    o.task_index = 1;
    assert_int_equal(ps_session_open(&o, &s, error, sizeof(error)), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(error, "worker"));
    o.task_index = 0;
    o.progress = (ps_progress)2;
    assert_int_equal(ps_session_open(&o, &s, error, sizeof(error)), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(error, "progress"));
    o.progress = PS_PROGRESS_THREAD;
    o.operation_timeout_ms = 0;
    assert_int_equal(ps_session_open(&o, &s, error, sizeof(error)), PS_INVALID_ARGUMENT);
    assert_null(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_go_round),
        cmocka_unit_test(small_adds_return_the_value),
        cmocka_unit_test(the_last_error_is_that_of_the_call),
        cmocka_unit_test(definitions_must_agree),
        cmocka_unit_test(structs_of_other_headers),
        cmocka_unit_test(defs_are_those_of_tensorflow),
        cmocka_unit_test(a_variable_is_made_anew),
        cmocka_unit_test(placement_is_round_robin),
        cmocka_unit_test(sums_of_many_threads_are_exact),
        cmocka_unit_test(versions_never_go_back),
        cmocka_unit_test(close_waits_for_calls),
        cmocka_unit_test(callbacks_run_exactly_once),
        cmocka_unit_test(an_assignment_that_was_started_says_its_version),
        cmocka_unit_test(a_blocking_call_in_a_callback_is_refused),
        cmocka_unit_test(a_forked_child_is_refused),
        cmocka_unit_test(a_forked_child_closes_its_copies),
        cmocka_unit_test(several_threads_make_it_ready),
        cmocka_unit_test(parameters_train),
        cmocka_unit_test(the_log_finds_what_the_program_finds),
        cmocka_unit_test(errors_stick),
        cmocka_unit_test(options_are_checked),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
