/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trace of a step, with psd processes: two ps tasks and two workers in rounds, the link of worker 0 to ps task 1 delayed by a
 * proxy. The file is one that viewers take (Chrome's trace event format: what it must have, and spans of a track that nest), its
 * leaves cover the step, and the delay is in the link's part of that link's requests alone. Then what goes wrong: a file that
 * cannot be made or written, a step that fails, a session that is closed, a second trace.
 */
#include "daemon.h"
#include "proxy.h"
#include "ps.h"
#include "ps_nn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* the proxy's clock counts whole milliseconds, of which one may have passed: 2 ways of 11 ms are 20 ms at least */
enum { WAY_MS = 11, DELAY_US = 20000, IN = 64, OUT = 32, BATCH = 16, STEPS = 2, TRIES = 20, SPANS_MAX = 20000 };

static struct test_cluster cluster;
static struct test_proxy *proxy;
static char door[64];
static char directory[256];
static char path[300];

static int setup(void **state)
{
    (void)state;
    const char *tmp = getenv("TMPDIR");
    (void)snprintf(directory, sizeof(directory), "%s/psd-trace-XXXXXX", tmp != NULL ? tmp : "/tmp");
    test_cluster_init(&cluster, 2, "");
    test_cluster_start_all(&cluster);
    proxy = test_proxy_new(1);
    test_proxy_delay(proxy, WAY_MS);
    test_proxy_door(proxy, cluster.address[1], door);
    test_proxy_run(proxy);
    assert_non_null(mkdtemp(directory));
    (void)snprintf(path, sizeof(path), "%s/step.json", directory);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    test_proxy_free(proxy);
    test_cluster_fini(&cluster);
    (void)unlink(path);
    assert_int_equal(rmdir(directory), 0); /* nothing else was left there */
    return 0;
}

static void no_log(void *ctx, ps_log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)line;
}

/* ---- a worker ---- */

struct worker {
    ps_session *s;
    ps_param *w, *b, *more; /* more: beside w, so that requests to its task overlap */
    ps_tensor x, y, dy;
    float values[BATCH * IN], gradient[BATCH * OUT];
};

static void worker_open(struct worker *k, uint32_t task, ps_progress progress, uint32_t workers, int64_t timeout_ms)
{
    ps_session_options o;
    ps_sync_options sync;
    char error[512], spec[256];
    memset(k, 0, sizeof(*k));
    (void)snprintf(spec, sizeof(spec), "ps=%s,%s;worker=127.0.0.1:1,127.0.0.1:2", cluster.address[0],
                   task == 0 ? door : cluster.address[1]);
    ps_session_options_init(&o);
    o.cluster_spec = spec;
    o.job = "worker";
    o.task_index = task;
    o.progress = progress;
    o.operation_timeout_ms = timeout_ms;
    o.log = no_log;
    assert_int_equal(ps_session_open(&o, &k->s, error, sizeof(error)), PS_OK);
    ps_sync_options_init(&sync);
    sync.workers = workers;
    assert_int_equal(ps_session_sync(k->s, &sync), PS_OK);
    (void)ps_device_push(k->s, "/job:ps/task:0"); /* what fails sticks */
    k->w = ps_param_get(k->s, "w", PS_SHAPE(IN, OUT), ps_zeros(), ps_sgd(1));
    k->more = ps_param_get(k->s, "more", PS_SHAPE(OUT), ps_zeros(), ps_sgd(1));
    (void)ps_device_pop(k->s);
    (void)ps_device_push(k->s, "/job:ps/task:1");
    k->b = ps_param_get(k->s, "b", PS_SHAPE(OUT), ps_zeros(), ps_sgd(1));
    (void)ps_device_pop(k->s);
    assert_int_equal(ps_tensor_init(&k->x, PS_F32, BATCH, IN), PS_OK);
    assert_int_equal(ps_tensor_init(&k->dy, PS_F32, BATCH, OUT), PS_OK);
}

static ps_status worker_step(struct worker *k)
{
    (void)ps_pull(k->s);
    ps_tensor_wrap(&k->x, k->values, BATCH, IN);
    ps_tensor_wrap(&k->dy, k->gradient, BATCH, OUT);
    (void)ps_dense(&k->x, k->w, k->b, &k->y);
    (void)ps_dense_backward(&k->x, &k->dy, k->w, k->b, NULL);
    (void)ps_push(k->s, k->w);
    (void)ps_push(k->s, k->b);
    memset(ps_param_grad(k->more), 0, OUT * sizeof(float));
    (void)ps_push(k->s, k->more);
    return ps_step_done(k->s);
}

static int worker_close(struct worker *k)
{
    ps_tensor_free(&k->x);
    ps_tensor_free(&k->y);
    ps_tensor_free(&k->dy);
    return ps_session_close(k->s);
}

/* ---- the file ---- */

struct span {
    int64_t pid, tid, from_ns, to_ns, link_ns;
    const char *name, *cat, *status;
    bool leaf;
};

static struct {
    json_t *json;
    struct span spans[SPANS_MAX];
    size_t count;
    const struct span *root;
    int64_t delayed; /* pid of the task behind the proxy; 0: not there */
} file;

static int64_t ns_of(const json_t *event, const char *key)
{
    const json_t *value = json_object_get(event, key);
    assert_true(json_is_number(value));
    assert_true(json_number_value(value) >= 0);
    return (int64_t)(json_number_value(value) * 1000 + 0.5);
}

static const char *text_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    assert_true(json_is_string(value));
    return json_string_value(value);
}

static int in_order(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    const int64_t keys[][2] = {{x->pid, y->pid}, {x->tid, y->tid}, {x->from_ns, y->from_ns}, {y->to_ns, x->to_ns}};
    for (size_t i = 0; i < 4; i++) {
        if (keys[i][0] != keys[i][1]) {
            return keys[i][0] < keys[i][1] ? -1 : 1;
        }
    }
    return 0;
}

static void take_event(const json_t *event)
{
    const char *phase = text_of(event, "ph"), *name = text_of(event, "name");
    assert_true(json_is_integer(json_object_get(event, "pid")) && json_is_integer(json_object_get(event, "tid")));
    const json_t *args = json_object_get(event, "args");
    if (strcmp(phase, "M") == 0) {
        assert_true(strcmp(name, "process_name") == 0 || strcmp(name, "thread_name") == 0);
        if (strstr(text_of(args, "name"), "/job:ps/task:1") != NULL) {
            file.delayed = json_integer_value(json_object_get(event, "pid"));
        }
        return;
    }
    assert_string_equal(phase, "X");
    assert_true(file.count < SPANS_MAX);
    struct span *s = &file.spans[file.count++];
    *s = (struct span){.pid = json_integer_value(json_object_get(event, "pid")),
                       .tid = json_integer_value(json_object_get(event, "tid")),
                       .from_ns = ns_of(event, "ts"),
                       .link_ns = -1,
                       .name = name,
                       .cat = text_of(event, "cat"),
                       .status = args != NULL ? text_of(args, "status") : "",
                       .leaf = true};
    s->to_ns = s->from_ns + ns_of(event, "dur");
    if (args != NULL && json_object_get(args, "link_us") != NULL) {
        s->link_ns = ns_of(args, "link_us");
        assert_true(s->link_ns <= s->to_ns - s->from_ns);
    }
}

/* Spans of one track nest, as Perfetto demands. */
static void check_nesting(void)
{
    struct span *stack[64];
    size_t depth = 0;
    for (size_t i = 0; i < file.count; i++) {
        struct span *s = &file.spans[i];
        if (i > 0 && (s->pid != s[-1].pid || s->tid != s[-1].tid)) {
            depth = 0;
        }
        while (depth > 0 && stack[depth - 1]->to_ns <= s->from_ns) {
            depth--;
        }
        if (depth > 0) {
            if (s->to_ns > stack[depth - 1]->to_ns) {
                fail_msg("'%s' of track %d.%d reaches out of '%s'", s->name, (int)s->pid, (int)s->tid, stack[depth - 1]->name);
            }
            stack[depth - 1]->leaf = false;
        }
        assert_true(depth < 64);
        stack[depth++] = s;
    }
}

static void load(void)
{
    json_error_t error;
    memset(&file, 0, sizeof(file));
    file.json = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (file.json == NULL) {
        fail_msg("%s:%d: %s", path, error.line, error.text);
    }
    const json_t *events = json_object_get(file.json, "traceEvents");
    assert_true(json_is_array(events));
    for (size_t i = 0; i < json_array_size(events); i++) {
        take_event(json_array_get(events, i));
    }
    qsort(file.spans, file.count, sizeof(file.spans[0]), in_order);
    check_nesting();
    for (size_t i = 0; i < file.count; i++) {
        if (strcmp(file.spans[i].cat, "step") == 0) {
            assert_null(file.root);
            file.root = &file.spans[i];
        }
    }
    assert_non_null(file.root);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(file.json, "otherData"), "left_out")), 0);
}

static void unload(void)
{
    json_decref(file.json);
    file.json = NULL;
}

static int count_of(const char *cat, const char *name)
{
    int count = 0;
    for (size_t i = 0; i < file.count; i++) {
        count += strcmp(file.spans[i].cat, cat) == 0 && (name == NULL || strcmp(file.spans[i].name, name) == 0);
    }
    return count;
}

/* What leaf spans of the step's thread cover, without "program" ("self"), which fills the gaps between calls. */
static int64_t covered_ns(void)
{
    int64_t sum = 0;
    for (size_t i = 0; i < file.count; i++) {
        const struct span *s = &file.spans[i];
        const bool counts = s->leaf && s != file.root && s->pid == file.root->pid && s->tid == file.root->tid;
        sum += counts && strcmp(s->cat, "self") != 0 ? s->to_ns - s->from_ns : 0;
    }
    return sum;
}

/* The shortest time that a request spent on a link: of the delayed one, or of the others. */
static int64_t link_min_ns(bool delayed, int *out_requests)
{
    int64_t min = INT64_MAX;
    *out_requests = 0;
    for (size_t i = 0; i < file.count; i++) {
        const struct span *s = &file.spans[i];
        if (strcmp(s->cat, "request") == 0 && (s->pid == file.delayed) == delayed && s->link_ns >= 0) {
            min = s->link_ns < min ? s->link_ns : min;
            (*out_requests)++;
        }
    }
    return min;
}

/* ---- the trace of a step in rounds ---- */

struct other {
    ps_progress progress;
    int steps;
};

static void *other_worker(void *arg)
{
    const struct other *o = arg;
    static struct worker k;
    worker_open(&k, 1, o->progress, 2, 60000);
    (void)ps_session_ready(k.s); /* what fails sticks */
    for (int i = 0; i < o->steps; i++) {
        (void)worker_step(&k);
    }
    if (ps_session_status(k.s) != PS_OK) {
        print_error("worker 1: %s\n", ps_session_error(k.s));
    }
    (void)worker_close(&k); /* what failed is said, and fails worker 0 as well */
    return NULL;
}

/* True: the machine did not stand still so long that the other link looks delayed too, or that the program, which does nothing
 * between its calls, seems to take a part of the step. */
static bool check_step(void)
{
    int requests[2];
    load();
    const bool known = covered_ns() >= (file.root->to_ns - file.root->from_ns) / 100 * 95;
    assert_int_equal(count_of("layer", "dense"), 1);
    assert_true(count_of("layer", NULL) >= 2);
    assert_int_equal(count_of("call", "ps_step_done"), 1);
    assert_int_equal(count_of("call", "wait: pushes"), 1);
    assert_int_equal(count_of("call", "wait: step"), 1);
    assert_int_equal(count_of("call", "ps_pull"), 1);
    assert_true(count_of("server", "apply") > 0);
    assert_true(count_of("request", "PULL more") == 1 && count_of("request", "CONTRIBUTE more") == 1);
    assert_true(count_of("request", "CONTRIBUTE w") == 1 && count_of("request", "CONTRIBUTE b") == 1);
    assert_true(count_of("request", "PULL w") == 1 && count_of("request", "PULL b") == 1);
    const int64_t delayed = link_min_ns(true, &requests[0]), others = link_min_ns(false, &requests[1]);
    assert_true(requests[0] >= 2 && requests[1] >= 5); /* PULL and CONTRIBUTE of each, and the directory's STEP */
    assert_true(delayed >= (int64_t)DELAY_US * 1000);
    unload();
    return known && others < (int64_t)DELAY_US * 1000;
}

static void step_in_rounds(void **state)
{
    const ps_progress progress = *(const ps_progress *)*state;
    static struct worker k;
    struct other other = {.progress = progress, .steps = 1 + TRIES};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, other_worker, &other), 0);
    worker_open(&k, 0, progress, 2, 60000);
    assert_int_equal(ps_session_ready(k.s), PS_OK);
    assert_int_equal(ps_trace_status(k.s), PS_NOT_FOUND);
    assert_int_equal(worker_step(&k), PS_OK);
    int good = 0;
    for (int i = 0; i < TRIES; i++) {
        if (good < STEPS) {
            assert_int_equal(ps_trace_next_step(k.s, path), PS_OK);
            assert_int_equal(ps_trace_status(k.s), PS_UNAVAILABLE);
            assert_int_equal(ps_trace_next_step(k.s, path), PS_FAILED_PRECONDITION);
        }
        assert_int_equal(worker_step(&k), PS_OK);
        assert_int_equal(ps_trace_status(k.s), PS_OK);
        good += good < STEPS && check_step();
    }
    assert_int_equal(good, STEPS);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(worker_close(&k), 0);
    assert_int_equal(ps_session_status(NULL), PS_INVALID_ARGUMENT);
}

/* ---- what goes wrong ---- */

static void assert_said(const char *part)
{
    if (strstr(ps_last_error(), part) == NULL) {
        fail_msg("'%s' is not in '%s'", part, ps_last_error());
    }
}

/* A file that cannot be made is said at once, one that cannot be written afterwards; training goes on. */
static void bad_files(void **state)
{
    (void)state;
    static struct worker k;
    struct rlimit before, small;
    char missing[300];
    worker_open(&k, 0, PS_PROGRESS_THREAD, 1, 60000);
    assert_int_equal(ps_session_ready(k.s), PS_OK);
    (void)snprintf(missing, sizeof(missing), "%s/none/step.json", directory);
    assert_int_equal(ps_trace_next_step(k.s, missing), PS_NOT_FOUND);
    assert_said(missing);
    assert_int_equal(ps_trace_next_step(k.s, directory), PS_INVALID_ARGUMENT);
    assert_said(directory);
    assert_int_equal(ps_trace_next_step(k.s, "/dev/full"), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_trace_next_step(k.s, NULL), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_trace_next_step(k.s, ""), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_trace_next_step(NULL, path), PS_INVALID_ARGUMENT);
    assert_int_equal(worker_step(&k), PS_OK);
    (void)unlink(path);
    assert_int_equal(ps_trace_next_step(k.s, path), PS_OK);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 512; /* as a full disk, where the tests run as anybody */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const ps_status step = worker_step(&k);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(step, PS_OK);
    assert_int_not_equal(ps_trace_status(k.s), PS_OK);
    assert_said(path);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(ps_trace_next_step(k.s, path), PS_OK); /* and the next one is there */
    assert_int_equal(worker_step(&k), PS_OK);
    assert_int_equal(ps_trace_status(k.s), PS_OK);
    load();
    unload();
    assert_int_equal(worker_close(&k), 0);
}

/* A session that is closed in the middle of a step. */
static void closed(void **state)
{
    (void)state;
    static struct worker k;
    (void)unlink(path);
    worker_open(&k, 0, PS_PROGRESS_THREAD, 1, 60000);
    assert_int_equal(ps_session_ready(k.s), PS_OK);
    assert_int_equal(ps_trace_next_step(k.s, path), PS_OK);
    assert_int_equal(ps_pull(k.s), PS_OK);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(worker_close(&k), 0);
    load();
    assert_int_equal(count_of("call", "ps_pull"), 1);
    unload();
}

/* A task that hangs: the step fails at its deadline, and its trace has the request that nobody answered. */
static void failed_step(void **state)
{
    (void)state;
    static struct worker k;
    (void)unlink(path);
    worker_open(&k, 0, PS_PROGRESS_THREAD, 1, 2000);
    assert_int_equal(ps_session_ready(k.s), PS_OK);
    assert_int_equal(worker_step(&k), PS_OK);
    assert_int_equal(ps_trace_next_step(k.s, path), PS_OK);
    test_cluster_hang(&cluster, 1);
    assert_int_not_equal(worker_step(&k), PS_OK);
    assert_int_equal(ps_trace_status(k.s), PS_OK);
    load();
    int unanswered = 0;
    for (size_t i = 0; i < file.count; i++) {
        unanswered += strcmp(file.spans[i].status, "unanswered") == 0 && file.spans[i].pid == file.delayed;
    }
    assert_true(unanswered > 0);
    unload();
    assert_int_equal(kill(cluster.pid[1], SIGCONT), 0);
    assert_int_not_equal(worker_close(&k), 0);
}

/* Requests of this name that were answered PS_OK. */
static int answered(const char *name)
{
    int count = 0;
    for (size_t i = 0; i < file.count; i++) {
        const struct span *s = &file.spans[i];
        count += strcmp(s->cat, "request") == 0 && strcmp(s->name, name) == 0 && strcmp(s->status, "OK") == 0;
    }
    return count;
}

static void restart(void)
{
    for (int i = 0; i < 2; i++) {
        test_cluster_kill(&cluster, i);
    }
    for (int i = 0; i < 2; i++) {
        test_cluster_start(&cluster, i);
    }
}

/* A monitored session is made anew in the middle of a step: the requests of its new connections are in the trace as well. */
static void made_anew(void **state)
{
    (void)state;
    ps_session_options o;
    ps_monitored_options m;
    ps_session *s = NULL;
    char error[512], spec[256];
    (void)unlink(path);
    restart(); /* nothing of the other tests' model is left */
    (void)snprintf(spec, sizeof(spec), "ps=%s,%s;worker=127.0.0.1:1", cluster.address[0], cluster.address[1]);
    ps_session_options_init(&o);
    o.cluster_spec = spec;
    o.job = "worker";
    o.log = no_log;
    ps_monitored_options_init(&m);
    m.start_over = true;
    assert_int_equal(ps_monitored_open(&o, &m, &s, error, sizeof(error)), PS_OK);
    ps_param *w = ps_param_get(s, "monitored", PS_SHAPE(OUT), ps_zeros(), ps_sgd(1));
    assert_int_equal(ps_session_ready(s), PS_OK);
    assert_int_equal(ps_trace_next_step(s, path), PS_OK);
    assert_int_equal(ps_pull(s), PS_OK);
    restart();
    ps_recovery recovery = {.struct_bytes = sizeof(recovery)};
    while (ps_monitored_last_recovery(s, &recovery) == PS_NOT_FOUND) {
        assert_false(ps_should_stop(s)); /* each is bounded by the recovery's time */
        (void)ps_pull(s);
    }
    assert_int_equal(ps_pull(s), PS_OK);
    memset(ps_param_grad(w), 0, OUT * sizeof(float));
    (void)ps_push(s, w);
    (void)ps_step_done(s); /* of a step that was broken: ABORTED */
    assert_int_equal(ps_trace_status(s), PS_OK);
    load();
    assert_true(answered("PULL monitored") >= 2);
    unload();
    assert_int_equal(ps_session_close(s), 0);
}

int main(void)
{
    static ps_progress thread = PS_PROGRESS_THREAD, caller = PS_PROGRESS_CALLER;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(step_in_rounds, &thread),
        cmocka_unit_test_prestate(step_in_rounds, &caller),
        cmocka_unit_test(bad_files),
        cmocka_unit_test(closed),
        cmocka_unit_test(failed_step),
        cmocka_unit_test(made_anew),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
