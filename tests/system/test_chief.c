/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FAULTS 67 against real psd processes: a chief that dies before, within or after its initialisation, and two chiefs at once. One
 * initialisation of each variable wins, and what ps_report_uninitialized() says is true all the time. Workers that come before
 * the chief of their training find the hyperparameters of an earlier one in force.
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

/* One worker of two, whose model is one variable with this optimizer. */
static ps_session *open_worker(uint32_t worker, const char *container, const ps_optimizer *optimizer, int64_t ready_timeout_ms)
{
    ps_session_options o;
    ps_session *s = NULL;
    char error[512], spec[600];
    (void)snprintf(spec, sizeof(spec), "%s;worker=127.0.0.1:1,127.0.0.1:2", cluster.spec);
    ps_session_options_init(&o);
    o.cluster_spec = spec;
    o.job = "worker";
    o.task_index = worker;
    o.operation_timeout_ms = 20000;
    o.ready_timeout_ms = ready_timeout_ms;
    o.container = container;
    o.log = no_log;
    assert_int_equal(ps_session_open(&o, &s, error, sizeof(error)), PS_OK);
    assert_non_null(ps_param_get(s, "w", PS_SHAPE(3), ps_zeros(), optimizer));
    return s;
}

/* An earlier training has left `old` in force. A worker of the next one, which asks for `new`, waits for the chief that does so,
 * and ends where it finds the one that does not. */
static void change_hyperparameters(const char *container, const ps_optimizer *old, const ps_optimizer *new)
{
    ps_session *s = open_worker(0, container, old, 20000);
    assert_int_equal(ps_session_ready(s), PS_OK);
    assert_int_equal(ps_session_close(s), 0);
    bool looked = false; /* on a busy machine the first times may be over before it has */
    for (int64_t ms = 250; ms <= 16000 && !looked; ms *= 2) {
        s = open_worker(1, container, new, ms);
        assert_int_equal(ps_session_ready(s), PS_DEADLINE_EXCEEDED);
        looked = strstr(ps_session_error(s), "in force since an earlier training; no chief is connected") != NULL;
        assert_true(!looked || ps_session_reason(s) == PS_REASON_NO_CHIEF);
        assert_int_equal(ps_session_close(s), PS_DEADLINE_EXCEEDED);
    }
    assert_true(looked);
    struct chief worker = {.model.session = open_worker(1, container, new, 20000)};
    assert_int_equal(pthread_create(&worker.thread, NULL, get_ready, &worker), 0);
    s = open_worker(0, container, new, 20000);
    assert_int_equal(ps_session_ready(s), PS_OK);
    assert_int_equal(pthread_join(worker.thread, NULL), 0);
    assert_int_equal(worker.st, PS_OK);
    assert_int_equal(ps_session_close(worker.model.session), 0);
    worker.model.session = open_worker(1, container, old, 20000);
    assert_int_equal(ps_session_ready(worker.model.session), PS_FAILED_PRECONDITION);
    assert_int_equal(ps_session_reason(worker.model.session), PS_REASON_OPTIMIZER_MISMATCH);
    assert_int_equal(ps_session_close(worker.model.session), PS_FAILED_PRECONDITION);
    assert_int_equal(ps_session_close(s), 0);
}

static void a_worker_before_its_chief(void **state)
{
    (void)state;
    change_hyperparameters("sgd", ps_sgd(0.5), ps_sgd(0.25));
    change_hyperparameters("rate", ps_momentum(0.5, 0.9), ps_momentum(0.25, 0.9));
    change_hyperparameters("momentum", ps_momentum(0.5, 0.9), ps_momentum(0.5, 0.8));
    change_hyperparameters("nesterov", ps_momentum(0.5, 0.9), ps_nesterov(0.5, 0.9));
    change_hyperparameters("adagrad", ps_adagrad_from(0.5, 0.1), ps_adagrad_from(0.5, 0.2));
    change_hyperparameters("beta1", ps_adam_with(0.1, 0.9, 0.999, 1e-8), ps_adam_with(0.1, 0.8, 0.999, 1e-8));
    change_hyperparameters("beta2", ps_adam_with(0.1, 0.9, 0.999, 1e-8), ps_adam_with(0.1, 0.9, 0.99, 1e-8));
    change_hyperparameters("epsilon", ps_adam_with(0.1, 0.9, 0.999, 1e-8), ps_adam_with(0.1, 0.9, 0.999, 1e-7));
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_chief_that_dies), cmocka_unit_test(two_chiefs),
                                       cmocka_unit_test(a_worker_before_its_chief)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
