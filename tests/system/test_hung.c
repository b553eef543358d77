/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks that hang (SIGSTOP: the kernel goes on accepting for them) and deadlines shorter than the lease: every call of the public
 * API that has sent something names the task and the address of those that have not answered, and nobody else.
 */
#define API_TASKS 3
#include "api_test.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TIMEOUT_MS = 1500, TRIES = 5, LONGEST_MS = 24000 };

/* What a call works on: the session, and of it a variable at the hung task; the number of that task. */
struct at {
    ps_session *s;
    ps_variable *v;
    int task;
    char name[32], path[128];
};

static float values[4];

static int64_t wait_ready_ms = TIMEOUT_MS;

static ps_status call_wait_ready(const struct at *at)
{
    return ps_wait_ready(at->s, wait_ready_ms);
}
static ps_status call_session_ready(const struct at *at)
{
    return ps_session_ready(at->s);
}
static ps_status call_report(const struct at *at)
{
    return ps_report_uninitialized(at->s, NULL, 0) < 0 ? PS_DEADLINE_EXCEEDED : PS_OK;
}
static ps_status call_is_initialized(const struct at *at)
{
    bool is = false;
    return ps_variable_is_initialized(at->v, &is);
}
static ps_status call_init(const struct at *at)
{
    return ps_variable_init(at->v, false);
}
static ps_status call_read(const struct at *at)
{
    float dst[4];
    return ps_variable_read(at->v, dst, sizeof(dst));
}
static ps_status call_assign(const struct at *at)
{
    return ps_variable_assign(at->v, values, sizeof(values));
}
static ps_status call_init_from(const struct at *at)
{
    return ps_variable_init_from(at->v, values, sizeof(values));
}
static ps_status call_assign_add(const struct at *at)
{
    return ps_variable_assign_add(at->v, values, sizeof(values), NULL, 0);
}
static ps_status call_push(const struct at *at)
{
    return ps_variable_push(at->v, values, sizeof(values), 1.0F);
}
static ps_status call_push_pull(const struct at *at)
{
    float dst[4];
    return ps_variable_push_pull(at->v, values, sizeof(values), dst, sizeof(dst), 1.0F);
}
static ps_status get_at(const struct at *at, const char *name)
{
    char device[32];
    ps_variable_spec spec;
    ps_variable *v = NULL;
    ps_variable_spec_init(&spec);
    spec.name = name;
    spec.dtype = PS_F32;
    spec.shape = PS_SHAPE(4);
    spec.optimizer = ps_sgd(1.0);
    (void)snprintf(device, sizeof(device), "/job:ps/task:%d", at->task);
    spec.device = device;
    return ps_variable_get(at->s, &spec, &v);
}
static ps_status call_get_new(const struct at *at)
{
    return get_at(at, "new");
}
static ps_status call_get_old(const struct at *at)
{
    return get_at(at, at->name);
}
static ps_status call_delete(const struct at *at)
{
    return ps_variable_delete(at->s, "victim");
}
static ps_status call_reset(const struct at *at)
{
    const char *const containers[] = {"emptied"};
    return ps_reset_containers(at->s, containers, 1);
}
static ps_status call_export(const struct at *at)
{
    return ps_export(at->s, at->path, NULL, NULL);
}
static ps_status call_import(const struct at *at)
{
    return ps_import(at->s, at->path, NULL, NULL);
}
static ps_status call_ping(const struct at *at)
{
    return ps_task_ping(at->s, at->task, TIMEOUT_MS, NULL);
}
static ps_status call_variables(const struct at *at)
{
    return ps_task_variables(at->s, at->task, TIMEOUT_MS, NULL, NULL);
}
static ps_status call_config_set(const struct at *at)
{
    return ps_task_config_set(at->s, at->task, "drain", "10s", TIMEOUT_MS);
}
static ps_status call_waits(const struct at *at)
{
    return ps_task_waits(at->s, at->task, TIMEOUT_MS, NULL, NULL);
}
static ps_status call_call(const struct at *at)
{
    char device[32];
    (void)snprintf(device, sizeof(device), "/job:ps/task:%d", at->task);
    return ps_call(at->s, device, "none", NULL, 0, NULL, 0, NULL, TIMEOUT_MS);
}
static ps_status call_devices(const struct at *at)
{
    return ps_session_devices(at->s, NULL, sizeof(ps_device_info), 0) < 0 ? PS_DEADLINE_EXCEEDED : PS_OK;
}
static ps_status call_wait_cluster(const struct at *at)
{
    return ps_session_wait_cluster(at->s, "ps", TIMEOUT_MS);
}
static ps_status call_find(const struct at *at)
{
    ps_variable *v = NULL;
    return ps_variable_find(at->s, at->name, &v);
}
static ps_status call_reset_all(const struct at *at)
{
    return ps_reset_all(at->s);
}

/* Who is named: only the task of `at`, or all that hang, or some of these (one is asked after the other). */
enum whom { ONE, ALL, SOME };
#define ATTEMPT(what_, call_, whom_)                                                                                             \
    {                                                                                                                            \
        .what = (what_), .call = (call_), .whom = (whom_)                                                                        \
    }
struct attempt {
    const char *what;
    ps_status (*call)(const struct at *at);
    enum whom whom;
    const struct at *at;
    pthread_t thread;
    bool over; /* it was as it must be, or is given up */
    atomic_bool ended;
    ps_status status;
    char text[600];
};

static void *attempt_run(void *arg)
{
    struct attempt *a = arg;
    a->status = a->call(a->at);
    (void)snprintf(a->text, sizeof(a->text), "%s", ps_last_error());
    atomic_store(&a->ended, true);
    return NULL;
}

/* The tasks that its text names. */
static uint32_t named_by(const struct attempt *a)
{
    uint32_t named = 0;
    for (int t = 0; t < API_TASKS; t++) {
        char where[128];
        (void)snprintf(where, sizeof(where), "/job:ps/task:%d (%s", t, cluster.address[t]);
        named |= strstr(a->text, where) != NULL ? 1U << t : 0;
    }
    return named;
}

/* All at once, each on its thread; then every text is looked at. On a busy machine a task that lives may answer too late, and is
 * named as well: then the call is made again. */
static void attempts(struct attempt *row, size_t count, const struct at *at, uint32_t hung)
{
    bool bad = false;
    for (int try = 1; try <= TRIES; try++) {
        for (size_t i = 0; i < count; i++) {
            row[i].at = at;
            assert_int_equal(row[i].over ? 0 : pthread_create(&row[i].thread, NULL, attempt_run, &row[i]), 0);
        }
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(row[i].over ? 0 : pthread_join(row[i].thread, NULL), 0);
        }
        for (size_t i = 0; i < count; i++) {
            struct attempt *a = &row[i];
            const uint32_t named = named_by(a);
            const bool right = a->whom == SOME  ? named != 0 && (named & ~hung) == 0
                               : a->whom == ALL ? named == hung
                                                : named == 1U << at->task;
            if (a->over || (a->status != PS_OK && right)) {
                a->over = true;
                continue;
            }
            print_error("hung %u, %s: %s: %s\n", hung, a->what, ps_status_name(a->status), a->text);
            a->over = a->status != PS_DEADLINE_EXCEEDED || (named & ~hung) == 0 || try == TRIES;
            bad = bad || a->over;
        }
    }
    assert_false(bad);
}

static void hang(uint32_t tasks)
{
    for (int t = 0; t < API_TASKS; t++) {
        if ((tasks >> t & 1) != 0) {
            test_cluster_hang(&cluster, t);
        }
    }
}

static void go_on(uint32_t tasks)
{
    for (int t = 0; t < API_TASKS; t++) {
        if ((tasks >> t & 1) != 0) {
            assert_int_equal(kill(cluster.pid[t], SIGCONT), 0);
        }
    }
}

/* A cluster that trains, and a session that has used all of it: a variable at each task, one to be deleted at `task`. */
static struct at prepare(int task)
{
    struct at at = {.task = task};
    ps_session *patient = open_session(30000);
    assert_int_equal(ps_variable_find(patient, "none", &at.v),
                     PS_NOT_FOUND); /* the tasks have told the directory what they have */
    assert_int_equal(ps_session_close(patient), PS_OK);
    at.s = open_session(TIMEOUT_MS);
    for (int t = 0; t < API_TASKS; t++) {
        char name[32];
        char device[32];
        (void)snprintf(name, sizeof(name), "v%d", t);
        (void)snprintf(device, sizeof(device), "/job:ps/task:%d", t);
        assert_int_equal(ps_device_push(at.s, device), PS_OK);
        ps_variable *v = get(at.s, name, PS_F32, PS_SHAPE(4), ps_sgd(1.0));
        at.v = t == task ? v : at.v;
        assert_int_equal(ps_variable_init(v, false), PS_OK);
        if (t == task) {
            (void)get(at.s, "victim", PS_F32, PS_SHAPE(4), NULL);
        }
        assert_int_equal(ps_device_pop(at.s), PS_OK);
    }
    (void)snprintf(at.name, sizeof(at.name), "v%d", task);
    const char *base = getenv("TMPDIR");
    (void)snprintf(at.path, sizeof(at.path), "%.80s/psd-hung-%ld.safetensors", base != NULL ? base : "/tmp", (long)getpid());
    assert_int_equal(ps_export(at.s, at.path, NULL, NULL), PS_OK);
    return at;
}

/* A second session, which is to connect when they hang already. */
static ps_session *open_late(void)
{
    ps_session_options o;
    ps_session *s = NULL;
    char error[512];
    ps_session_options_init(&o);
    o.cluster_spec = cluster.spec;
    o.operation_timeout_ms = TIMEOUT_MS;
    o.ready_timeout_ms = TIMEOUT_MS;
    o.log = no_log;
    assert_int_equal(ps_session_open(&o, &s, error, sizeof(error)), PS_OK);
    return s;
}

static void fini(struct at *at, uint32_t hung)
{
    int sticky = (int)ps_session_status(at->s);
    go_on(hung);
    assert_int_equal(ps_session_close(at->s), sticky);
    assert_int_equal(unlink(at->path), 0);
}

static void owners(uint32_t hung, int task)
{
    struct at at = prepare(task);
    struct attempt connected[] = {ATTEMPT("wait_ready", call_wait_ready, ALL),
                                  ATTEMPT("report_uninitialized", call_report, ALL),
                                  ATTEMPT("is_initialized", call_is_initialized, ONE),
                                  ATTEMPT("init", call_init, ONE),
                                  ATTEMPT("read", call_read, ONE),
                                  ATTEMPT("assign", call_assign, ONE),
                                  ATTEMPT("init_from", call_init_from, ONE),
                                  ATTEMPT("assign_add", call_assign_add, ONE),
                                  ATTEMPT("push", call_push, ONE),
                                  ATTEMPT("push_pull", call_push_pull, ONE),
                                  ATTEMPT("delete", call_delete, ONE),
                                  ATTEMPT("reset", call_reset, ALL),
                                  ATTEMPT("import", call_import, ALL),
                                  ATTEMPT("ping", call_ping, ONE),
                                  ATTEMPT("task_variables", call_variables, ONE),
                                  ATTEMPT("config_set", call_config_set, ONE),
                                  ATTEMPT("waits", call_waits, ONE),
                                  ATTEMPT("call", call_call, ONE),
                                  ATTEMPT("devices", call_devices, ALL)};
    /* These make the session know a variable more, which wait_ready would begin with. */
    struct attempt after[] = {ATTEMPT("session_ready", call_session_ready, SOME), ATTEMPT("get of a new one", call_get_new, ONE),
                              ATTEMPT("export", call_export, SOME)};
    struct attempt late[] = {ATTEMPT("get of one that is there", call_get_old, ONE),
                             ATTEMPT("get of a new one", call_get_new, ONE),
                             ATTEMPT("find", call_find, ONE),
                             ATTEMPT("delete", call_delete, ONE),
                             ATTEMPT("export", call_export, SOME),
                             ATTEMPT("ping", call_ping, ONE),
                             ATTEMPT("call", call_call, ONE),
                             ATTEMPT("devices", call_devices, ALL)};
    hang(hung);
    attempts(connected, sizeof(connected) / sizeof(connected[0]), &at, hung);
    attempts(after, sizeof(after) / sizeof(after[0]), &at, hung);
    struct at other = at;
    other.s = open_late();
    attempts(late, sizeof(late) / sizeof(late[0]), &other, hung);
    go_on(hung);
    assert_int_equal(ps_session_close(other.s), 0);
    fini(&at, 0);
}

static void an_owner_hangs(void **state)
{
    (void)state;
    owners(2, 1);
}

static void two_owners_hang(void **state)
{
    (void)state;
    owners(6, 2);
}

/* What concerns variables of others goes on; what goes through the directory names it. */
static void the_directory_hangs(void **state)
{
    (void)state;
    struct at at = prepare(0);
    float dst[4];
    struct attempt row[] = {ATTEMPT("wait_ready", call_wait_ready, ONE),
                            ATTEMPT("session_ready", call_session_ready, ONE),
                            ATTEMPT("report_uninitialized", call_report, ONE),
                            ATTEMPT("is_initialized", call_is_initialized, ONE),
                            ATTEMPT("push", call_push, ONE),
                            ATTEMPT("get of a new one", call_get_new, ONE),
                            ATTEMPT("find", call_find, ONE),
                            ATTEMPT("delete", call_delete, ONE),
                            ATTEMPT("reset", call_reset, ONE),
                            ATTEMPT("reset_all", call_reset_all, ONE),
                            ATTEMPT("export", call_export, ONE),
                            ATTEMPT("wait_cluster", call_wait_cluster, ONE),
                            ATTEMPT("devices", call_devices, ONE)};
    ps_variable *other = NULL;
    assert_int_equal(ps_variable_find(at.s, "v1", &other), PS_OK);
    hang(1);
    attempts(row, sizeof(row) / sizeof(row[0]), &at, 1);
    assert_int_equal(ps_variable_push(other, values, sizeof(values), 1.0F), PS_OK);
    assert_int_equal(ps_variable_read(other, dst, sizeof(dst)), PS_OK);
    fini(&at, 1);
}

static void count_waits(void *ctx, const ps_wait_info *info)
{
    (void)info;
    ++*(int *)ctx;
}

/* In the middle of a wait for a chief: whoever answers at the end of the time is not blamed, whoever does not is. */
static void an_owner_hangs_in_a_wait(void **state)
{
    (void)state;
    struct at at = prepare(1);
    struct attempt wait = {.what = "wait_ready", .call = call_wait_ready, .at = &at};
    bool told = false; /* on a busy machine tasks that live answer too late at first, here and below */
    for (int64_t ms = 300; ms <= LONGEST_MS && !told; ms *= 2) {
        assert_int_equal(ps_wait_ready(at.s, ms), PS_DEADLINE_EXCEEDED); /* nobody hangs, and nobody seals */
        told = strstr(ps_last_error(), "waiting for a chief to initialise 'v0' at /job:ps/task:0") != NULL &&
               strstr(ps_last_error(), "no answer") == NULL;
    }
    assert_true(told);
    ps_session *s = open_session(30000);
    told = false;
    for (wait_ready_ms = TIMEOUT_MS; wait_ready_ms <= LONGEST_MS && !told; wait_ready_ms *= 2) {
        atomic_store(&wait.ended, false);
        assert_int_equal(pthread_create(&wait.thread, NULL, attempt_run, &wait), 0);
        for (int waits = 0; waits == 0 && !atomic_load(&wait.ended);) { /* until it waits at ps:1 */
            assert_int_equal(ps_task_waits(s, 1, 30000, count_waits, &waits), PS_OK);
        }
        hang(2);
        assert_int_equal(pthread_join(wait.thread, NULL), 0);
        assert_int_equal(wait.status, PS_DEADLINE_EXCEEDED);
        told = strstr(wait.text, "no answer from /job:ps/task:1 (") != NULL && strstr(wait.text, "/job:ps/task:0") == NULL &&
               strstr(wait.text, "/job:ps/task:2") == NULL;
        go_on(2);
    }
    assert_true(told);
    wait_ready_ms = TIMEOUT_MS;
    assert_int_equal(ps_session_close(s), 0);
    fini(&at, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_owner_hangs, setup, teardown),
        cmocka_unit_test_setup_teardown(two_owners_hang, setup, teardown),
        cmocka_unit_test_setup_teardown(the_directory_hangs, setup, teardown),
        cmocka_unit_test_setup_teardown(an_owner_hangs_in_a_wait, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
