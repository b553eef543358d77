/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Servers inside a process: local ones that share nothing, clusters of several, targets, join, settings that change while they
 * run, variables on tasks of any job, pins to tasks that do not serve, a constant that is evaluated; nothing is left behind.
 */
#include "in_process.h"

#include <ps.h>
#include <ps_ops.h>
#include <ps_plan.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void no_log(void *ctx, ps_log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)line;
}

static ps_session *session_at(const char *target, int64_t timeout_ms)
{
    ps_session_options o;
    ps_session *s = NULL;
    ps_session_options_init(&o);
    o.target = target;
    o.operation_timeout_ms = timeout_ms;
    o.log = no_log;
    assert_int_equal(ps_session_open(&o, &s, NULL, 0), PS_OK);
    return s;
}

static ps_variable *variable(ps_session *s, const char *name, const char *device)
{
    ps_variable_spec spec;
    ps_variable *v = NULL;
    ps_variable_spec_init(&spec);
    spec.name = name;
    spec.dtype = PS_F32;
    spec.shape = PS_SHAPE(2);
    spec.device = device;
    if (ps_variable_get(s, &spec, &v) != PS_OK) {
        fail_msg("%s: %s", name, ps_last_error());
    }
    return v;
}

static void assign(ps_variable *v, float a)
{
    const float values[2] = {a, -a};
    assert_int_equal(ps_variable_assign(v, values, sizeof(values)), PS_OK);
}

static void expect(ps_variable *v, float a)
{
    float values[2] = {0, 0};
    assert_int_equal(ps_variable_read(v, values, sizeof(values)), PS_OK);
    assert_true(values[0] == a && values[1] == -a);
}

/* ---- local servers ---- */

static void two_local_servers_share_nothing(void **state)
{
    psd_server *servers[2] = {NULL, NULL};
    ps_session *s[2];
    char error[512];
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(psd_server_create_local(&servers[i], error, sizeof(error)), PS_OK);
        assert_string_equal(psd_server_name(servers[i]), "/job:local/task:0");
        assert_int_equal(strncmp(psd_server_target(servers[i]), "psd://127.0.0.1:", 16), 0);
        assert_string_equal(psd_server_target(servers[i]) + 6, psd_server_address(servers[i]));
        s[i] = session_at(psd_server_target(servers[i]), 20000);
    }
    assert_string_not_equal(psd_server_target(servers[0]), psd_server_target(servers[1]));
    ps_variable *mine = variable(s[0], "w", NULL);
    assign(mine, 3);
    assert_string_equal(ps_variable_device(mine), "/job:local/task:0/device:CPU:0");
    ps_variable *found = NULL;
    assert_int_equal(ps_variable_find(s[1], "w", &found), PS_NOT_FOUND);
    assign(variable(s[1], "w", NULL), 5);
    expect(mine, 3);
    /* what the first holds ends with it; the second goes on */
    assert_int_equal(ps_session_close(s[0]), 0);
    psd_server_free(servers[0]);
    expect(variable(s[1], "w", NULL), 5);
    assert_int_equal(psd_server_create_local(&servers[0], error, sizeof(error)), PS_OK);
    s[0] = session_at(psd_server_target(servers[0]), 20000);
    assert_int_equal(ps_variable_find(s[0], "w", &found), PS_NOT_FOUND);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ps_session_close(s[i]), 0);
        psd_server_free(servers[i]);
    }
}

/* A row of a call table that counts what comes to it. It hands all calls on to the row of the executor. */
static struct counted {
    psd_call_row row;
    atomic_uint calls;
    ps_status (*check)(void *ctx, const void *in, size_t in_bytes, char *error, size_t error_bytes);
} counted;

static ps_status count_call(void *ctx, const void *in, size_t in_bytes, char *error, size_t error_bytes)
{
    atomic_fetch_add(&counted.calls, 1);
    return counted.check != NULL ? counted.check(ctx, in, in_bytes, error, error_bytes) : PS_OK;
}

/* What hello_local does: its constant is evaluated by one call of the server. A session's first row without a device asks the
 * session's target before, by an empty call, whether it executes operations. */
static void a_constant_is_one_call(void **state)
{
    static const char *const texts[] = {"Hello distributed TensorFlow!", "", "another text"};
    psd_server_options o;
    psd_server *server = NULL;
    ps_ops *ops = NULL;
    char error[512];
    (void)state;
    assert_int_equal(ps_ops_new(NULL, &ops, error, sizeof(error)), PS_OK);
    psd_server_options_init(&o);
    o.job = "local";
    o.listen = "127.0.0.1:0";
    o.key_file = getenv("PSD_KEY_FILE"); /* make check TRANSPORT=tls */
    o.calls = *ps_ops_table(ops);
    counted.row = o.calls.rows[0];
    counted.check = counted.row.check;
    counted.row.check = count_call;
    o.calls.rows = &counted.row;
    assert_int_equal(psd_server_start(&o, &server, error, sizeof(error)), PS_OK);
    ps_session *s = session_at(psd_server_target(server), 20000);
    for (unsigned i = 0; i < 3; i++) {
        char back[64];
        ps_value c = ps_plan_identity(ps_plan_new(s), ps_plan_text(ps_plan_new(s), texts[i]));
        assert_int_equal(ps_plan_eval(c, back, sizeof(back)), PS_INVALID_ARGUMENT); /* a value of another plan */
        ps_plan *p = ps_plan_new(s);
        c = ps_plan_identity(p, ps_plan_text(p, texts[i]));
        for (unsigned run = 0; run < 3; run++) {
            const unsigned before = atomic_load(&counted.calls);
            if (ps_plan_eval(c, back, sizeof(back)) != PS_OK) {
                fail_msg("%s", ps_last_error());
            }
            assert_string_equal(back, texts[i]);
            assert_string_equal(ps_value_device(c), "/job:local/task:0/device:CPU:0");
            assert_int_equal(atomic_load(&counted.calls) - before, i == 0 && run == 0 ? 2 : 1);
        }
    }
    assert_int_equal(ps_session_close(s), 0);
    psd_server_free(server);
    ps_ops_free(ops);
}

/* As much text as a string variable takes, and a byte more. */
static void a_mebibyte_of_text(void **state)
{
    psd_server *server = NULL;
    ps_variable_spec spec;
    ps_variable *v = NULL;
    size_t offsets[2] = {1, 0};
    size_t bytes = PS_STRING_BYTES_MAX;
    char *text = malloc(bytes + 2);
    char *back = malloc(bytes + 1);
    (void)state;
    assert_true(text != NULL && back != NULL);
    for (size_t i = 0; i < bytes + 1; i++) {
        text[i] = (char)('a' + i % 26);
    }
    text[bytes + 1] = '\0';
    assert_int_equal(psd_server_create_local(&server, NULL, 0), PS_OK);
    ps_session *s = session_at(psd_server_target(server), 20000);
    ps_variable_spec_init(&spec);
    spec.name = "text";
    spec.dtype = PS_STRING;
    assert_int_equal(ps_variable_get(s, &spec, &v), PS_OK);
    assert_int_equal(ps_variable_assign_strings(v, (const char *const *)&text, NULL, 1), PS_INVALID_ARGUMENT);
    text[bytes] = '\0';
    assert_int_equal(ps_variable_assign_strings(v, (const char *const *)&text, NULL, 1), PS_OK);
    assert_int_equal(ps_variable_read_strings(v, back, bytes + 1, offsets, 1, NULL), PS_OK);
    assert_int_equal(offsets[0], 0);
    assert_int_equal(offsets[1], bytes);
    assert_string_equal(text, back);
    assert_int_equal(ps_session_close(s), 0);
    psd_server_free(server);
    free(text);
    free(back);
}

struct joiner {
    psd_server *server;
    atomic_bool back;
};

static void *join(void *arg)
{
    struct joiner *j = arg;
    psd_server_join(j->server);
    atomic_store(&j->back, true);
    return NULL;
}

static void join_blocks_until_shutdown(void **state)
{
    struct joiner j = {.server = NULL};
    pthread_t thread;
    char error[512];
    (void)state;
    assert_int_equal(psd_server_create_local(&j.server, error, sizeof(error)), PS_OK);
    assert_int_equal(pthread_create(&thread, NULL, join, &j), 0);
    ps_session *s = session_at(psd_server_target(j.server), 20000);
    assign(variable(s, "w", NULL), 1); /* it serves meanwhile */
    assert_false(atomic_load(&j.back));
    assert_int_equal(ps_cluster_tasks(s), 1);
    assert_int_equal(ps_task_shutdown(s, 0, 20000), PS_OK);
    (void)ps_session_close(s);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(atomic_load(&j.back));
    psd_server_join(j.server); /* once more: it has ended */
    psd_server_free(j.server);
}

static void fifty_times_nothing_is_left(void **state)
{
    int before = 0;
    (void)state;
    for (int i = 0; i <= 50; i++) {
        psd_server *server = NULL;
        assert_int_equal(psd_server_create_local(&server, NULL, 0), PS_OK);
        if (i % 5 == 0) {
            ps_session *s = session_at(psd_server_target(server), 20000);
            assign(variable(s, "w", NULL), 1);
            assert_int_equal(ps_session_close(s), 0);
        }
        psd_server_free(server);
        before = i == 0 ? in_process_descriptors() : before; /* the first loop and session keep some for the process */
        assert_int_equal(in_process_descriptors(), before);
    }
}

/* ---- clusters ---- */

static void five_servers_in_one_process(void **state)
{
    struct in_process p;
    (void)state;
    in_process_init(&p, "ps=3,worker=2");
    in_process_start_all(&p);
    for (uint32_t i = 0; i < p.count; i++) {
        char want[64];
        char at[64];
        (void)snprintf(want, sizeof(want), "/job:%s/task:%u", p.tasks[i].job, p.tasks[i].task);
        assert_string_equal(psd_server_name(p.tasks[i].server), want);
        (void)snprintf(at, sizeof(at), "%s", psd_server_address(p.tasks[i].server));
        assert_non_null(strstr(p.spec, at));
        for (uint32_t k = 0; k < i; k++) {
            assert_string_not_equal(psd_server_target(p.tasks[i].server), psd_server_target(p.tasks[k].server));
        }
        /* every target leads into the same cluster */
        ps_session *s = session_at(psd_server_target(p.tasks[i].server), 30000);
        char name[16];
        for (int n = 0; n < 4; n++) {
            static const char *const devices[] = {"/job:ps/task:0/device:CPU:0", "/job:ps/task:1/device:CPU:0",
                                                  "/job:ps/task:2/device:CPU:0", "/job:ps/task:0/device:CPU:0"};
            (void)snprintf(name, sizeof(name), "w%d", n);
            ps_variable *v = variable(s, name, NULL);
            assert_string_equal(ps_variable_device(v), devices[n]);
            if (i == 0) {
                assign(v, (float)n);
            }
            expect(v, (float)n);
        }
        ps_variable *pinned = variable(s, "on_worker", "/job:worker/task:1");
        assert_string_equal(ps_variable_device(pinned), "/job:worker/task:1/device:CPU:0");
        if (i == 0) {
            assign(pinned, 9);
        }
        expect(pinned, 9);
        assert_int_equal(ps_ps_count(s), 3);
        assert_int_equal(ps_session_close(s), 0);
    }
    in_process_fini(&p);
}

/* A cluster without job ps: its first job by name is the directory's, and variables take turns over its tasks. */
static void two_tasks_of_job_local(void **state)
{
    struct in_process p;
    (void)state;
    in_process_init(&p, "local=2");
    in_process_start_all(&p);
    ps_session *s = session_at(psd_server_target(p.tasks[1].server), 30000);
    ps_variable *a = variable(s, "a", NULL);
    ps_variable *b = variable(s, "b", NULL);
    ps_variable *c = variable(s, "c", "/job:local/task:1");
    assert_string_equal(ps_variable_device(a), "/job:local/task:0/device:CPU:0");
    assert_string_equal(ps_variable_device(b), "/job:local/task:1/device:CPU:0");
    assert_string_equal(ps_variable_device(c), "/job:local/task:1/device:CPU:0");
    assign(a, 1);
    assign(b, 2);
    assign(c, 3);
    expect(a, 1);
    expect(b, 2);
    expect(c, 3);
    assert_int_equal(ps_cluster_tasks(s), 2);
    assert_int_equal(ps_session_close(s), 0);
    in_process_fini(&p);
}

static void a_pin_to_a_task_that_does_not_serve(void **state)
{
    struct in_process p;
    ps_variable_spec spec;
    ps_variable *v = NULL;
    (void)state;
    in_process_init(&p, "ps=1,worker=2");
    (void)in_process_start(&p, 0, NULL);
    (void)in_process_start(&p, 2, NULL); /* worker 1 serves, worker 0 does not */
    ps_session *s = session_at(psd_server_target(p.tasks[0].server), 1500);
    ps_variable_spec_init(&spec);
    spec.name = "w";
    spec.dtype = PS_F32;
    spec.shape = PS_SHAPE(2);
    spec.device = "/job:worker/task:0";
    assert_int_equal(ps_variable_get(s, &spec, &v), PS_UNAVAILABLE);
    if (strstr(ps_last_error(), "/job:worker/task:0") == NULL || strstr(ps_last_error(), "does not serve") == NULL ||
        strstr(ps_last_error(), "pstrain --serve") == NULL) {
        fail_msg("%s", ps_last_error());
    }
    assert_int_equal(ps_session_close(s), 0);
    s = session_at(psd_server_target(p.tasks[0].server), 30000);
    assign(variable(s, "w1", "/job:worker/task:1"), 4);
    /* the list has the one that serves */
    assert_int_equal(ps_cluster_tasks(s), 2);
    assert_string_equal(ps_cluster_task_name(s, 0), "/job:ps/task:0");
    assert_string_equal(ps_cluster_task_name(s, 1), "/job:worker/task:1");
    assert_null(ps_cluster_task_name(s, 2));
    ps_task_info infos[2];
    assert_int_equal(ps_cluster_info(s, infos, sizeof(*infos), 2, 20000), PS_OK);
    assert_true(infos[1].up && infos[1].variables == 1);
    assert_string_equal(infos[1].job, "worker");
    /* emptying all containers reaches it */
    assert_int_equal(ps_reset_all(s), PS_OK);
    ps_variable *found = NULL;
    assert_int_equal(ps_variable_find(s, "w1", &found), PS_NOT_FOUND);
    assert_int_equal(ps_session_close(s), 0);
    in_process_fini(&p);
}

/* ---- settings while it runs ---- */

static void settings_change_while_it_runs(void **state)
{
    psd_server *server = NULL;
    char error[512];
    (void)state;
    assert_int_equal(psd_server_create_local(&server, error, sizeof(error)), PS_OK);
    assert_int_equal(psd_server_set(server, "lease_ms", 5, error, sizeof(error)), PS_NOT_FOUND);
    assert_non_null(strstr(error,
                           "memory_budget_bytes, drain_ms, sessions_max, spin_us, events_max, session_keep_ms, refuse_nonfinite, "
                           "checkpoint_seconds, checkpoint_steps, max_to_keep, keep_checkpoint_every_hours, "
                           "checkpoint_memory_bytes, restore, recover, spread, log_level"));
    assert_int_equal(psd_server_set(server, NULL, 5, error, sizeof(error)), PS_NOT_FOUND);
    assert_int_equal(psd_server_set(server, "recover", 1, error, sizeof(error)), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(error, "recover is a text: psd_server_set_text()"));
    assert_int_equal(psd_server_set_text(server, "recover", " Cut , model = partial", error, sizeof(error)), PS_OK);
    assert_string_equal(error, "");
    assert_int_equal(psd_server_set_text(server, "drain_ms", "1min", NULL, 0), PS_OK);
    assert_int_equal(psd_server_set_text(server, "recover", "all", error, sizeof(error)), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(error, "recover: 'all' is not allowed; allowed: partial, cut; or by container: partial,model=cut"));
    assert_int_equal(psd_server_set_text(server, "recover", NULL, error, sizeof(error)), PS_INVALID_ARGUMENT);
    assert_int_equal(psd_server_set_text(server, "lease_ms", "5s", error, sizeof(error)), PS_NOT_FOUND);
    assert_int_equal(psd_server_set_text(NULL, "recover", "cut", error, sizeof(error)), PS_INVALID_ARGUMENT);
    static const struct {
        const char *name;
        int64_t low, high;
    } ranges[] = {{"log_level", 0, 4},
                  {"refuse_nonfinite", 0, 1},
                  {"sessions_max", 1, UINT32_MAX},
                  {"memory_budget_bytes", 0, INT64_MAX},
                  {"session_keep_ms", 1, INT32_MAX},
                  {"drain_ms", 0, INT32_MAX}};
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
        assert_int_equal(psd_server_set(server, ranges[i].name, ranges[i].low - 1, error, sizeof(error)), PS_INVALID_ARGUMENT);
        assert_non_null(strstr(error, ranges[i].name));
        if (ranges[i].high < INT64_MAX) {
            assert_int_equal(psd_server_set(server, ranges[i].name, ranges[i].high + 1, NULL, 0), PS_INVALID_ARGUMENT);
        }
        assert_int_equal(psd_server_set(server, ranges[i].name, ranges[i].low, NULL, 0), PS_OK);
        assert_int_equal(psd_server_set(server, ranges[i].name, ranges[i].high, error, sizeof(error)), PS_OK);
        assert_string_equal(error, "");
    }
    /* refuse_nonfinite is on after the loop; a budget of a byte admits no variable, one of 0 is the machine's */
    ps_session *s = session_at(psd_server_target(server), 1000);
    ps_variable_spec spec;
    ps_variable *v = NULL;
    ps_variable_spec_init(&spec);
    spec.name = "large";
    spec.dtype = PS_F32;
    spec.shape = PS_SHAPE(1000);
    assert_int_equal(psd_server_set(server, "memory_budget_bytes", 1, NULL, 0), PS_OK);
    ps_status st = PS_OK;
    for (int i = 0; i < 200 && st == PS_OK; i++) { /* it holds soon */
        st = ps_variable_get(s, &spec, &v);
        if (st == PS_OK) {
            assert_int_equal(ps_variable_delete(s, "large"), PS_OK);
        }
    }
    assert_int_equal(st, PS_FAILED_PRECONDITION);
    assert_int_equal(psd_server_set(server, "memory_budget_bytes", 0, NULL, 0), PS_OK);
    for (int i = 0; i < 200 && st != PS_OK; i++) {
        st = ps_variable_get(s, &spec, &v);
    }
    assert_int_equal(st, PS_OK);
    assert_int_equal(ps_session_close(s), 0);
    psd_server_stop(server, 0);
    psd_server_wait(server);
    assert_int_equal(psd_server_set(server, "sessions_max", 7, NULL, 0), PS_OK); /* of no effect any more */
    psd_server_free(server);
}

static atomic_int debug_lines;

static void count_debug(void *ctx, int level, const char *line)
{
    (void)ctx;
    (void)line;
    atomic_fetch_add(&debug_lines, level == 0 ? 1 : 0);
}

static void louder_from_its_own_thread(void *ctx, psd_server *server)
{
    (void)ctx;
    (void)psd_server_set(server, "log_level", 0, NULL, 0);
}

static void from_its_own_thread_it_holds_at_once(void **state)
{
    psd_server *server = NULL;
    psd_server_options o;
    (void)state;
    psd_server_options_init(&o);
    o.listen = "127.0.0.1:0";
    o.key_file = getenv("PSD_KEY_FILE"); /* make check TRANSPORT=tls */
    o.log = count_debug;
    o.ready = louder_from_its_own_thread;
    assert_int_equal(psd_server_start(&o, &server, NULL, 0), PS_OK);
    ps_session *s = session_at(psd_server_target(server), 20000);
    assign(variable(s, "w", NULL), 1);
    assert_true(atomic_load(&debug_lines) > 0); /* session_up */
    assert_int_equal(ps_session_close(s), 0);
    psd_server_free(server);
}

static ps_status twice(void *ctx, psd_call *call, const void *in, size_t in_bytes, void *out, size_t out_capacity,
                       size_t *out_bytes, char *error, size_t error_bytes)
{
    (void)ctx, (void)call, (void)error, (void)error_bytes;
    assert_true(2 * in_bytes <= out_capacity);
    memcpy(out, in, in_bytes);
    memcpy((char *)out + in_bytes, in, in_bytes);
    *out_bytes = 2 * in_bytes;
    return PS_OK;
}

/* A local server with a call table of the program's, as one that executes operations has. */
static void a_local_server_with_options(void **state)
{
    static const psd_call_row row = {.name = "twice", .run = twice};
    psd_server *server = NULL;
    psd_server_options o;
    char out[8] = "", error[512] = "as it was";
    size_t bytes = 0;
    (void)state;
    psd_server_options_init(&o);
    o.calls = (psd_call_table){.rows = &row, .row_bytes = sizeof(row), .count = 1};
    o.sessions_max = 3;
    assert_int_equal(psd_server_create_local_with(&o, &server, error, sizeof(error)), PS_OK);
    assert_string_equal(error, "");
    assert_string_equal(psd_server_name(server), "/job:local/task:0");
    assert_int_equal(strncmp(psd_server_target(server), "psd://127.0.0.1:", 16), 0);
    ps_session *s = session_at(psd_server_target(server), 20000);
    assert_int_equal(ps_call(s, "/job:local/task:0", "twice", "ab", 2, out, sizeof(out), &bytes, 0), PS_OK);
    assert_int_equal(bytes, 4);
    assert_memory_equal(out, "abab", 4);
    assert_int_equal(ps_session_close(s), 0);
    psd_server_free(server);
    assert_int_equal(psd_server_create_local_with(NULL, &server, NULL, 0), PS_OK); /* as psd_server_create_local() */
    psd_server_free(server);
    for (int i = 0; i < 6; i++) {
        static const char *const wrong[] = {"a cluster", "a cluster", "a cluster", "another job", "another task", "sockets"};
        const int fd = 0;
        psd_server_options_init(&o);
        o.cluster_spec = i == 0 ? "local=127.0.0.1:1" : NULL;
        o.ps_hosts = i == 1 ? "127.0.0.1:1" : NULL;
        o.worker_hosts = i == 2 ? "127.0.0.1:1" : NULL;
        o.job = i == 3 ? "worker" : "local";
        o.task_index = i == 4 ? 1 : 0;
        o.listen_fds = i == 5 ? &fd : NULL;
        server = NULL;
        assert_int_equal(psd_server_create_local_with(&o, &server, error, sizeof(error)), PS_INVALID_ARGUMENT);
        assert_non_null(strstr(error, wrong[i]));
        assert_non_null(strstr(error, "psd_server_start()"));
        assert_null(server);
    }
    memset(&o, 0, sizeof(o));
    assert_int_equal(psd_server_create_local_with(&o, &server, error, sizeof(error)), PS_INVALID_ARGUMENT);
    assert_int_equal(psd_server_create_local_with(NULL, NULL, error, sizeof(error)), PS_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_local_servers_share_nothing),
        cmocka_unit_test(a_constant_is_one_call),
        cmocka_unit_test(a_mebibyte_of_text),
        cmocka_unit_test(join_blocks_until_shutdown),
        cmocka_unit_test(fifty_times_nothing_is_left),
        cmocka_unit_test(five_servers_in_one_process),
        cmocka_unit_test(two_tasks_of_job_local),
        cmocka_unit_test(a_pin_to_a_task_that_does_not_serve),
        cmocka_unit_test(settings_change_while_it_runs),
        cmocka_unit_test(from_its_own_thread_it_holds_at_once),
        cmocka_unit_test(a_local_server_with_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
