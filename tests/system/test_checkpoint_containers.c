/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ps_checkpoint_containers(), with real ps tasks: the containers of a checkpoint, of all tasks, each once and by name; what was
 * reset since is among them; and its errors, with which nothing is called.
 */
#include "daemon.h"
#include "ps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 3, TASKS = 2, TIMEOUT_MS = 60000 };

static struct test_cluster cluster;
static char dir[64];
static ps_session *session;

static int start(void **state)
{
    static char option[] = "--checkpoint_dir", when[] = "--checkpoint_seconds", never[] = "0";
    static char *const flags[] = {option, dir, when, never, NULL};
    ps_session_options o;
    char error[512];
    (void)state;
    (void)snprintf(dir, sizeof(dir), "/tmp/psd-containers-XXXXXX");
    assert_non_null(mkdtemp(dir));
    test_cluster_init(&cluster, TASKS, "");
    cluster.flags = flags;
    test_cluster_start_all(&cluster);
    ps_session_options_init(&o);
    o.cluster_spec = cluster.spec;
    o.operation_timeout_ms = o.ready_timeout_ms = TIMEOUT_MS;
    assert_int_equal(ps_session_open(&o, &session, error, sizeof(error)), PS_OK);
    assert_int_equal(ps_session_wait_cluster(session, "ps", TIMEOUT_MS), PS_OK);
    return 0;
}

static int end(void **state)
{
    char rm[] = "/bin/rm", how[] = "-rf", out[64];
    char *argv[] = {rm, how, dir, NULL};
    (void)state;
    ps_session_close(session);
    test_cluster_fini(&cluster);
    return test_run(argv, NULL, out, sizeof(out));
}

/* A variable with a value, in a container and at a task. */
static void make(const char *container, const char *task, const char *name)
{
    const float value[N] = {1, 2, 3};
    ps_variable *v = NULL;
    ps_variable_spec spec;
    ps_variable_spec_init(&spec);
    spec.name = name;
    spec.dtype = PS_F32;
    spec.shape = PS_SHAPE(N);
    spec.device = task;
    assert_int_equal(ps_container_push(session, container), PS_OK);
    assert_int_equal(ps_variable_get(session, &spec, &v), PS_OK);
    assert_int_equal(ps_variable_assign(v, value, sizeof(value)), PS_OK);
    assert_int_equal(ps_container_pop(session), PS_OK);
}

struct seen {
    uint32_t count;
    char text[256];
};

static void see(void *ctx, const char *container)
{
    struct seen *s = ctx;
    size_t used = strlen(s->text);
    (void)snprintf(s->text + used, sizeof(s->text) - used, "%s;", container);
    s->count++;
}

static void assert_containers(uint64_t number, const char *text)
{
    struct seen s = {0};
    assert_int_equal(ps_checkpoint_containers(session, number, see, &s), PS_OK);
    assert_string_equal(s.text, text);
}

static void assert_fails(uint64_t number, ps_checkpoint_container_fn each, ps_status st)
{
    struct seen s = {0};
    assert_int_equal(ps_checkpoint_containers(session, number, each, &s), st);
    assert_int_equal(s.count, 0);
    assert_true(ps_last_error()[0] != '\0');
}

static void test_containers(void **state)
{
    uint64_t first = 0, second = 0;
    (void)state;
    make("models/two", "/job:ps/task:1", "w");
    make("both", "/job:ps/task:0", "w"); /* has parts at both tasks, and is said once */
    make("both", "/job:ps/task:1", "v");
    make("a", "/job:ps/task:0", "w");
    assert_int_equal(ps_checkpoint_save(session, TIMEOUT_MS, &first), PS_OK);
    assert_containers(first, "a;both;models/two;");
    const char *const gone[] = {"both"};
    assert_int_equal(ps_reset_containers(session, gone, 1), PS_OK);
    make("later", "/job:ps/task:1", "w");
    assert_int_equal(ps_checkpoint_save(session, TIMEOUT_MS, &second), PS_OK);
    assert_containers(second, "a;later;models/two;");
    assert_containers(first, "a;both;models/two;"); /* also what was reset since */
    assert_fails(second + 1, see, PS_NOT_FOUND);
    assert_fails(second, NULL, PS_INVALID_ARGUMENT);
    test_cluster_kill(&cluster, 1);
    test_cluster_refuse(&cluster, 1);
    ps_session_set_deadline(session, 2000); /* the call would wait for the task until its timeout */
    assert_fails(second, see, PS_UNAVAILABLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_containers, start, end)};
    return cmocka_run_group_tests_name("checkpoint_containers", tests, NULL, NULL);
}
