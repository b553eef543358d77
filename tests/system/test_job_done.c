/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a job with real ps tasks: trainers say it, everybody hears it, psd --exit_when_done ends with 0. */
#include "daemon.h"
#include "ps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PUSHES = 40 };

static struct test_cluster cluster;
static char *const flags[] = {"--lease", "2s", "--beat", "200ms", "--exit_when_done", NULL};

static void no_log(void *ctx, ps_log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)line;
}

static ps_session *session(const char *job, uint32_t task)
{
    ps_session_options o;
    ps_session *s = NULL;
    char error[512];
    ps_session_options_init(&o);
    o.cluster_spec = cluster.spec;
    o.job = job;
    o.task_index = task;
    o.operation_timeout_ms = 20000;
    o.log = no_log;
    assert_int_equal(ps_session_open(&o, &s, error, sizeof(error)), PS_OK);
    assert_int_equal(ps_session_wait_cluster(s, "ps", 0), PS_OK);
    return s;
}

/* The model of a worker, ready. */
static ps_param *model(ps_session *s)
{
    ps_param *w = ps_param_get(s, "w", PS_SHAPE(4), ps_zeros(), ps_sgd(1));
    assert_int_equal(ps_session_ready(s), PS_OK);
    return w;
}

static void status(char *out, size_t n)
{
    char psctl[512], t[] = "-t", verb[] = "status";
    char *argv[] = {(char *)(uintptr_t)test_build_path("bin/psctl", psctl, sizeof(psctl)), t, cluster.address[0], verb, NULL};
    assert_in_range(test_run(argv, NULL, out, n), 0, 1); /* 1 while a task that was started again is yet to be found */
}

static void start(void)
{
    test_cluster_init(&cluster, 2, ";worker=127.0.0.1:1,127.0.0.1:2");
    cluster.flags = flags;
    test_cluster_start_all(&cluster);
}

static void test_all_end(void **state)
{
    (void)state;
    char text[8192];
    start();
    ps_session *w0 = session("worker", 0), *w1 = session("worker", 1), *evaluator = session("evaluator", 0);
    ps_param *a = model(w0), *b = model(w1);
    for (int i = 0; i < PUSHES; i++) {
        for (int k = 0; k < 4; k++) {
            ((float *)ps_param_grad(a))[k] = -1;
        }
        assert_int_equal(ps_push(w0, a), PS_OK);
    }
    assert_int_equal(ps_session_job_done(w0), PS_OK);
    assert_int_equal(ps_session_job_done(w0), PS_OK); /* twice is once */
    assert_true(ps_should_stop(w0));
    assert_int_equal(ps_pull(w1), PS_OK);
    assert_true(((const float *)ps_param_value(b))[3] == PUSHES); /* it has waited for them */
    status(text, sizeof(text));
    assert_non_null(strstr(text, "job done, say 1 of 2 trainers; not yet: /job:worker/task:1\n"));
    assert_false(ps_should_stop(w1) || ps_should_stop(evaluator));
    assert_int_equal(ps_pull(w0), PS_OK);                     /* to read is allowed ... */
    assert_int_equal(ps_push(w0, a), PS_FAILED_PRECONDITION); /* ... to train is not */
    assert_non_null(strstr(ps_session_error(w0), "ps_push: this session has said that the job is done"));
    assert_int_equal(ps_session_close(w0), PS_FAILED_PRECONDITION);
    assert_int_equal(ps_session_job_done(w1), PS_OK);
    status(text, sizeof(text));
    assert_non_null(strstr(text, "the job is done\n"));
    while (!ps_should_stop(evaluator)) {
        (void)usleep(1000); /* sleep: looks at the event it waits for */
    }
    float value[4] = {0};
    ps_variable *v = NULL;
    assert_int_equal(ps_variable_find(evaluator, "w", &v), PS_OK); /* the tasks wait for it */
    assert_int_equal(ps_variable_read(v, value, sizeof(value)), PS_OK);
    assert_true(value[0] == PUSHES);
    assert_int_equal(ps_session_close(evaluator), PS_OK);
    assert_int_equal(ps_session_close(w1), PS_OK);
    assert_int_equal(test_cluster_join(&cluster, 1), 0);
    assert_int_equal(test_cluster_join(&cluster, 0), 0);
    test_cluster_fini(&cluster);
}

/* A step does not count either; a session that is no trainer's is refused, and its error does not stick. */
static void test_misuse(void **state)
{
    (void)state;
    start();
    ps_session *w0 = session("worker", 0), *evaluator = session("evaluator", 0);
    (void)model(w0);
    assert_int_equal(ps_session_job_done(evaluator), PS_FAILED_PRECONDITION);
    assert_non_null(strstr(ps_last_error(), "no trainer"));
    assert_int_equal(ps_session_close(evaluator), PS_OK);
    assert_int_equal(ps_session_job_done(w0), PS_OK);
    assert_int_equal(ps_step_done(w0), PS_FAILED_PRECONDITION);
    assert_int_equal(ps_session_close(w0), PS_FAILED_PRECONDITION);
    assert_int_equal(ps_session_job_done(NULL), PS_INVALID_ARGUMENT);
    assert_int_equal(test_cluster_stop(&cluster, 1), 0); /* worker 1 has not said it */
    assert_int_equal(test_cluster_stop(&cluster, 0), 0);
    test_cluster_fini(&cluster);
}

static void ignore(void *ctx, ps_request *req, const ps_result *result)
{
    (void)ctx;
    (void)req;
    (void)result;
}

#define assert_refused(call_)                                                                                                    \
    do {                                                                                                                         \
        assert_int_equal((call_), PS_FAILED_PRECONDITION);                                                                       \
        assert_non_null(strstr(ps_last_error(), "an evaluator "));                                                               \
    } while (0)

/* An evaluator has no way to change a value or to make a variable, and reads on. */
static void test_evaluator_reads_only(void **state)
{
    (void)state;
    static ps_request req;
    float value[4] = {1, 1, 1, 1};
    float after[4];
    const size_t n = sizeof(value);
    const double rate = 0.5;
    ps_variable_spec spec;
    ps_variable *w = NULL;
    ps_variable *v = NULL;
    start();
    ps_session *w0 = session("worker", 0), *evaluator = session("evaluator", 0);
    (void)model(w0);
    ps_variable_spec_init(&spec);
    spec.name = "w";
    spec.dtype = PS_F32;
    spec.shape = PS_SHAPE(4);
    spec.optimizer = ps_sgd(1);
    assert_int_equal(ps_variable_get(evaluator, &spec, &w), PS_OK); /* what is there can be got */
    assert_refused(ps_variable_push(w, value, n, 1));
    assert_refused(ps_variable_push_pull(w, value, n, after, n, 1));
    assert_refused(ps_variable_assign(w, value, n));
    assert_refused(ps_variable_init_from(w, value, n));
    assert_refused(ps_variable_init(w, true));
    assert_refused(ps_variable_assign_add(w, value, n, NULL, 0));
    assert_refused(ps_push_start(w, value, n, 1, 0, &req, ignore, NULL));
    assert_refused(ps_assign_start(w, value, n, 0, &req, ignore, NULL));
    assert_refused(ps_import(evaluator, "any.safetensors", NULL, NULL));
    assert_refused(ps_variable_set_rate(w, &rate));
    assert_refused(ps_variable_delete(evaluator, "w"));
    assert_refused(ps_reset(evaluator));
    assert_refused(ps_reset_all(evaluator));
    spec.name = "new";
    assert_refused(ps_variable_get(evaluator, &spec, &v));
    assert_refused(ps_variables_get(evaluator, &spec, 1, &v));
    assert_int_equal(ps_variable_find(w0, "new", &v), PS_NOT_FOUND);
    assert_int_equal(ps_variable_read(w, value, n), PS_OK);
    assert_true(value[0] == 0 && value[3] == 0);
    assert_int_equal(ps_session_close(evaluator), PS_OK);
    assert_int_equal(ps_session_close(w0), PS_OK);
    assert_int_equal(test_cluster_stop(&cluster, 1), 0);
    assert_int_equal(test_cluster_stop(&cluster, 0), 0);
    test_cluster_fini(&cluster);
}

/* The directory was restarted meanwhile: a session that is still open has said it to the new one as well. */
static void test_new_directory(void **state)
{
    (void)state;
    char text[8192];
    start();
    ps_session *w0 = session("worker", 0), *w1 = session("worker", 1);
    assert_int_equal(ps_session_job_done(w0), PS_OK);
    test_cluster_kill(&cluster, 0);
    test_cluster_start(&cluster, 0);
    do { /* looks at the event it waits for */
        status(text, sizeof(text));
    } while (strstr(text, "1 of 2 trainers; not yet: /job:worker/task:1") == NULL);
    assert_int_equal(ps_session_job_done(w1), PS_OK);
    (void)ps_session_close(w0);
    (void)ps_session_close(w1);
    assert_int_equal(test_cluster_join(&cluster, 1), 0);
    assert_int_equal(test_cluster_join(&cluster, 0), 0);
    test_cluster_fini(&cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_end),
        cmocka_unit_test(test_misuse),
        cmocka_unit_test(test_evaluator_reads_only),
        cmocka_unit_test(test_new_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
