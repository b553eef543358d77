/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FAULTS 67 against real psd processes: a chief that dies before, within or after its initialisation, and two chiefs at once. One
 * initialisation of each variable wins, and what ps_report_uninitialized() says is true all the time.
 */
#include "daemon.h"
#include "ps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { VARIABLES = 6, ROUNDS = 20 };

static struct test_cluster cluster;

struct model {
    ps_session *session;
    ps_variable *v[VARIABLES];
};

static void no_log(void *ctx, ps_log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)line;
}

/* Whose value of a variable it is, its initializer tells. Each model has a container of its own, for its global_step as well. */
static bool open_model(struct model *m, const char *container, double value)
{
    ps_session_options o;
    char error[512];
    ps_session_options_init(&o);
    o.target = cluster.address[0];
    o.operation_timeout_ms = 20000;
    o.ready_timeout_ms = 20000;
    o.container = container;
    o.log = no_log;
    bool good = ps_session_open(&o, &m->session, error, sizeof(error)) == PS_OK;
    for (int i = 0; good && i < VARIABLES; i++) {
        char name[64];
        ps_variable_spec spec;
        ps_variable_spec_init(&spec);
        (void)snprintf(name, sizeof(name), "v%d", i);
        spec.name = name;
        spec.dtype = PS_F32;
        spec.shape = PS_SHAPE(3);
        spec.init = ps_constant(value);
        spec.optimizer = ps_sgd(1);
        good = good && ps_variable_get(m->session, &spec, &m->v[i]) == PS_OK;
    }
    return good;
}

/* A chief in a process of its own, which initialises so many variables, seals when it is to, and is killed. */
static void chief_dies(const char *container, int initialises, bool seals)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct model m;
        bool good = open_model(&m, container, 5);
        for (int i = 0; i < initialises; i++) {
            good = good && ps_variable_init(m.v[i], false) == PS_OK;
        }
        good = good && (!seals || ps_session_ready(m.session) == PS_OK);
        (void)kill(getpid(), good ? SIGKILL : SIGTERM);
        _exit(1);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void assert_uninitialised(struct model *m, int first)
{
    const char *names[VARIABLES] = {NULL};
    assert_int_equal(ps_report_uninitialized(m->session, names, VARIABLES), VARIABLES - first);
    for (int i = first; i < VARIABLES; i++) {
        assert_string_equal(names[i - first], ps_variable_name(m->v[i]));
    }
}

static double value_of(ps_variable *v)
{
    float value[3] = {0, 0, 0};
    assert_int_equal(ps_variable_read(v, value, sizeof(value)), PS_OK);
    assert_true(value[0] == value[1] && value[1] == value[2]);
    return (double)value[0];
}

static void a_chief_that_dies(void **state)
{
    (void)state;
    for (int initialised = 0; initialised <= VARIABLES + 1; initialised++) {
        char container[32];
        struct model m;
        bool sealed = initialised > VARIABLES;
        int first = sealed ? VARIABLES : initialised;
        (void)snprintf(container, sizeof(container), "dies%d", initialised);
        chief_dies(container, first, sealed);
        assert_true(open_model(&m, container, 7));
        assert_uninitialised(&m, first);
        assert_int_equal(ps_session_ready(m.session), PS_OK); /* the next one takes over where it stopped */
        assert_uninitialised(&m, VARIABLES);
        for (int i = 0; i < VARIABLES; i++) {
            assert_true(value_of(m.v[i]) == (i < first ? 5 : 7));
            assert_int_equal(ps_variable_version(m.v[i], NULL), 0);
        }
        assert_int_equal(ps_session_close(m.session), 0);
    }
}

struct chief {
    struct model model;
    pthread_t thread;
    ps_status st;
};

static void *get_ready(void *arg)
{
    struct chief *c = arg;
    c->st = ps_session_ready(c->model.session);
    return NULL;
}

static void two_chiefs(void **state)
{
    (void)state;
    unsigned ok = 0;
    for (int round = 0; round < ROUNDS; round++) {
        char container[32];
        struct chief chiefs[2];
        struct model third;
        (void)snprintf(container, sizeof(container), "two%d", round);
        for (int i = 0; i < 2; i++) {
            assert_true(open_model(&chiefs[i].model, container, i == 0 ? 5 : 7));
        }
        for (int i = 0; i < 2; i++) {
            assert_int_equal(pthread_create(&chiefs[i].thread, NULL, get_ready, &chiefs[i]), 0);
        }
        for (int i = 0; i < 2; i++) {
            assert_int_equal(pthread_join(chiefs[i].thread, NULL), 0);
            assert_true(chiefs[i].st == PS_OK || chiefs[i].st == PS_ABORTED); /* a newer chief */
            ok += chiefs[i].st == PS_OK;
        }
        assert_true(chiefs[0].st == PS_OK || chiefs[1].st == PS_OK);
        assert_true(open_model(&third, container, 9));
        assert_uninitialised(&third, VARIABLES);
        for (int i = 0; i < VARIABLES; i++) {
            double value = value_of(third.v[i]);
            assert_true(value == 5 || value == 7);
            assert_int_equal(ps_variable_version(third.v[i], NULL), 0); /* one initialisation, not two */
            assert_true(value_of(chiefs[0].model.v[i]) == value && value_of(chiefs[1].model.v[i]) == value);
        }
        assert_int_equal(ps_session_close(third.session), 0);
        for (int i = 0; i < 2; i++) {
            (void)ps_session_close(chiefs[i].model.session); /* of the older chief: its error */
        }
    }
    print_message("%u of %d chiefs of %d pairs became ready\n", ok, 2 * ROUNDS, ROUNDS);
}

static int setup(void **state)
{
    (void)state;
    test_cluster_init(&cluster, 2, "");
    test_cluster_start_all(&cluster);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    test_cluster_fini(&cluster);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_chief_that_dies), cmocka_unit_test(two_chiefs)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
