/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What others do to a model that is trained in rounds: export, delete, another learning rate, a worker that stands still.
 * Gradient 1 and rate 1: a round takes 1 from every element. An export has the values of one round or says why not, and never
 * those of two.
 */
#include "daemon.h"
#include "ps.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
/* after setjmp.h and stdarg.h */
#include <cmocka.h>

enum { VARIABLES = 4, ELEMENTS = 60000, EXPORTS = 30, WORKERS = 2 };

static struct shared {
    atomic_bool stop;
    _Atomic int64_t steps[WORKERS]; /* answered to each */
    _Atomic int64_t dropped[WORKERS];
    char text[WORKERS][400]; /* of its session's error */
} * shared;
static struct test_cluster cluster;
static pid_t child[WORKERS];
static char path[64];

static void no_log(void *ctx, ps_log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)line;
}

static ps_session *open_as(const char *job, uint32_t task, int64_t timeout_ms)
{
    ps_session_options o;
    ps_session *s = NULL;
    char error[512];
    ps_session_options_init(&o);
    o.cluster_spec = cluster.spec;
    o.job = job;
    o.task_index = task;
    o.operation_timeout_ms = timeout_ms;
    o.log = no_log;
    if (ps_session_open(&o, &s, error, sizeof(error)) != PS_OK) {
        (void)fprintf(stderr, "ps_session_open: %s\n", error);
        abort();
    }
    return s;
}

/* A member of rounds of so many workers. */
static ps_session *member(uint32_t task, uint32_t workers, ps_param **params)
{
    char name[16];
    ps_sync_options sync;
    ps_session *s = open_as("worker", task, 30000);
    ps_sync_options_init(&sync);
    sync.workers = workers;
    sync.on_worker_loss = PS_LOSS_SHRINK;
    (void)ps_session_sync(s, &sync); /* errors stick to the session */
    for (int i = 0; i < VARIABLES; i++) {
        (void)snprintf(name, sizeof(name), "w%d", i);
        params[i] = ps_param_get(s, name, PS_SHAPE(ELEMENTS), ps_zeros(), ps_sgd(1));
    }
    (void)ps_session_ready(s);
    return s;
}

static ps_status push_all(ps_session *s, ps_param *const *params)
{
    for (int i = 0; i < VARIABLES; i++) {
        float *grad = ps_param_grad(params[i]);
        for (int k = 0; k < ELEMENTS; k++) {
            grad[k] = 1;
        }
        (void)ps_push(s, params[i]);
    }
    return ps_session_status(s);
}

static int train(uint32_t task, uint32_t workers)
{
    ps_param *params[VARIABLES];
    ps_session *s = member(task, workers, params);
    while (push_all(s, params) == PS_OK && !atomic_load(&shared->stop)) {
        if (ps_step_done(s) == PS_OK) {
            atomic_store(&shared->dropped[task], ps_dropped(s));
            atomic_fetch_add(&shared->steps[task], 1);
        }
    }
    (void)snprintf(shared->text[task], sizeof(shared->text[task]), "%s", ps_session_error(s));
    return ps_session_close(s) == 0 ? 0 : 3;
}

static void start(uint32_t task, uint32_t workers)
{
    fflush(NULL);
    child[task] = fork();
    assert_true(child[task] >= 0);
    if (child[task] == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
            _exit(4);
        }
        _exit(train(task, workers));
    }
}

/* It has made so many steps. */
static void until_steps(uint32_t task, int64_t steps)
{
    for (int i = 0; atomic_load(&shared->steps[task]) < steps; i++) {
        assert_true(i < 60000);
        assert_string_equal(shared->text[task], "");
        (void)usleep(1000); /* sleep: another process works, and nothing tells this one */
    }
}

static void end(uint32_t task)
{
    int status = 0;
    atomic_store(&shared->stop, true);
    assert_int_equal(waitpid(child[task], &status, 0), child[task]);
    child[task] = 0;
    assert_string_equal(shared->text[task], "");
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* The file has the global step, then all elements of all variables, each -step. */
static int64_t step_of_file(void)
{
    uint64_t header = 0;
    int64_t step = -1;
    static float values[VARIABLES * ELEMENTS];
    FILE *f = fopen(path, "rbe");
    assert_non_null(f);
    assert_int_equal(fread(&header, sizeof(header), 1, f), 1);
    assert_int_equal(fseek(f, (long)header, SEEK_CUR), 0);
    assert_int_equal(fread(&step, sizeof(step), 1, f), 1);
    assert_int_equal(fread(values, sizeof(values), 1, f), 1);
    (void)fclose(f);
    for (int i = 0; i < VARIABLES * ELEMENTS; i++) {
        if (values[i] != -(float)step) {
            fail_msg("element %d of w%d is %g after round %lld", i % ELEMENTS, i / ELEMENTS, (double)values[i], (long long)step);
        }
    }
    return step;
}

static void export_while_it_trains(void **state)
{
    (void)state;
    int whole = 0, refused = 0;
    int64_t last = 0;
    start(0, 1);
    until_steps(0, 2);
    ps_session *s = open_as(NULL, 0, 300);
    for (int i = 0; i < EXPORTS; i++) {
        int64_t before = atomic_load(&shared->steps[0]);
        ps_status st = ps_export(s, path, NULL, NULL);
        if (st == PS_OK) {
            int64_t step = step_of_file();
            assert_true(step >= last && step >= before && step <= atomic_load(&shared->steps[0]) + 1);
            last = step;
            whole++;
        } else if (st != PS_DEADLINE_EXCEEDED) { /* that is: the machine stood still for its time */
            assert_int_equal(st, PS_UNAVAILABLE);
            assert_int_equal(ps_last_reason(), PS_REASON_IN_ROUNDS);
            assert_non_null(strstr(ps_last_error(), "let a worker export between two of its steps"));
            refused++;
        }
    }
    assert_true(whole + refused > 0);
    print_message("%d exports of one round, %d refused, %lld rounds meanwhile\n", whole, refused, (long long)shared->steps[0]);
    end(0);
    assert_int_equal(ps_export(s, path, NULL, NULL), PS_OK); /* the trainer has finished */
    assert_int_equal(step_of_file(), shared->steps[0]);
    assert_int_equal(ps_session_close(s), 0);
}

/* Between two of its steps nothing changes, so that it gets them at once. */
static void a_member_exports(void **state)
{
    (void)state;
    ps_param *params[VARIABLES];
    ps_session *s = member(0, 1, params);
    for (int64_t step = 0; step < 5; step++) {
        assert_int_equal(ps_export(s, path, NULL, NULL), PS_OK);
        assert_int_equal(step_of_file(), step);
        assert_int_equal(push_all(s, params), PS_OK);
        assert_int_equal(ps_export(s, path, NULL, NULL), PS_OK); /* contributed is not applied */
        assert_int_equal(step_of_file(), step);
        assert_int_equal(ps_step_done(s), PS_OK);
    }
    assert_int_equal(ps_session_close(s), 0);
}

/* In the midst of a round. */
static void nobody_deletes_it(void **state)
{
    (void)state;
    ps_param *params[VARIABLES];
    ps_session *s = member(0, 1, params), *other = open_as(NULL, 0, 5000);
    assert_int_equal(push_all(s, params), PS_OK);
    assert_int_equal(ps_variable_delete(other, "w1"), PS_FAILED_PRECONDITION);
    assert_int_equal(ps_last_reason(), PS_REASON_IN_ROUNDS);
    assert_int_equal(ps_variable_delete(other, "global_step"), PS_FAILED_PRECONDITION);
    assert_int_equal(ps_step_done(s), PS_OK);
    assert_int_equal(ps_pull(s), PS_OK);
    for (int i = 0; i < VARIABLES; i++) {
        assert_true(((const float *)ps_param_value(params[i]))[0] == -1);
    }
    assert_int_equal(ps_session_close(s), 0);
    assert_int_equal(ps_session_close(other), 0);
}

/* Not while somebody trains it: between the variables there would be rounds. */
static void nobody_imports_into_it(void **state)
{
    (void)state;
    ps_param *params[VARIABLES];
    ps_session *s = member(0, 1, params), *other = open_as(NULL, 0, 5000);
    assert_int_equal(ps_export(other, path, NULL, NULL), PS_OK);
    assert_int_equal(push_all(s, params), PS_OK);
    assert_int_equal(ps_step_done(s), PS_OK);
    assert_int_equal(ps_import(other, path, NULL, NULL), PS_FAILED_PRECONDITION);
    assert_int_equal(ps_last_reason(), PS_REASON_IN_ROUNDS);
    assert_non_null(strstr(ps_last_error(), "/job:worker/task:0"));
    assert_int_equal(ps_pull(s), PS_OK);
    for (int i = 0; i < VARIABLES; i++) {
        assert_true(((const float *)ps_param_value(params[i]))[0] == -1);
    }
    assert_int_equal(ps_session_close(s), 0);
    assert_int_equal(ps_import(other, path, NULL, NULL), PS_OK);
    assert_int_equal(ps_export(other, path, NULL, NULL), PS_OK);
    assert_int_equal(step_of_file(), 0);
    assert_int_equal(ps_session_close(other), 0);
}

/* From the next round that is closed on, also of what was contributed before. */
static void a_learning_rate(void **state)
{
    (void)state;
    const double half = 0.5;
    uint64_t count = 0;
    ps_param *params[VARIABLES];
    ps_session *s = member(0, 1, params), *other = open_as(NULL, 0, 5000);
    assert_int_equal(push_all(s, params), PS_OK);
    assert_int_equal(ps_set_rates(other, NULL, &half, 5000, &count), PS_OK);
    assert_int_equal(count, VARIABLES);
    assert_int_equal(ps_step_done(s), PS_OK);
    assert_int_equal(ps_pull(s), PS_OK);
    for (int i = 0; i < VARIABLES; i++) {
        assert_true(((const float *)ps_param_value(params[i]))[ELEMENTS - 1] == -0.5F);
    }
    assert_int_equal(ps_set_rates(other, NULL, NULL, 5000, &count), PS_OK);
    assert_int_equal(push_all(s, params), PS_OK);
    assert_int_equal(ps_step_done(s), PS_OK);
    assert_int_equal(ps_pull(s), PS_OK);
    assert_true(((const float *)ps_param_value(params[0]))[0] == -1.5F);
    assert_int_equal(ps_session_close(s), 0);
    assert_int_equal(ps_session_close(other), 0);
}

/* Beyond its lease it is lost; then it goes on: it joins again, what it had contributed meanwhile is dropped, and it is told. */
static void a_worker_stands_still(void **state)
{
    (void)state;
    start(0, 2);
    start(1, 2);
    until_steps(1, 3);
    assert_int_equal(kill(child[1], SIGSTOP), 0);
    until_steps(0, atomic_load(&shared->steps[0]) + 5); /* at most one of them with the other */
    assert_int_equal(atomic_load(&shared->dropped[0]), 0);
    assert_int_equal(kill(child[1], SIGCONT), 0);
    until_steps(1, atomic_load(&shared->steps[1]) + 5);
    assert_true(atomic_load(&shared->dropped[1]) >= 1);
    end(0);
    end(1);
    ps_session *s = open_as(NULL, 0, 5000);
    assert_int_equal(ps_export(s, path, NULL, NULL), PS_OK);
    assert_true(step_of_file() >= shared->steps[0]);
    assert_int_equal(ps_session_close(s), 0);
}

static int setup_with(char *const *flags)
{
    memset(shared, 0, sizeof(*shared));
    test_cluster_init(&cluster, 2, ";worker=127.0.0.1:1,127.0.0.1:2");
    cluster.flags = flags;
    test_cluster_start_all(&cluster);
    (void)snprintf(path, sizeof(path), "/tmp/psd_rounds_bad.%ld.safetensors", (long)getpid());
    return 0;
}

/* On a busy machine, too, no worker is taken for lost. */
static int setup(void **state)
{
    (void)state;
    return setup_with(NULL);
}

static int setup_short_lease(void **state)
{
    static char *const flags[] = {"--lease", "2s", "--beat", "200ms", NULL};
    (void)state;
    return setup_with(flags);
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < WORKERS; i++) {
        if (child[i] != 0) { /* of a case that failed */
            (void)kill(child[i], SIGKILL);
            (void)waitpid(child[i], NULL, 0);
            child[i] = 0;
        }
    }
    (void)unlink(path);
    test_cluster_fini(&cluster);
    return 0;
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(export_while_it_trains), CASE(a_member_exports),
        CASE(nobody_deletes_it),      CASE(nobody_imports_into_it),
        CASE(a_learning_rate),        cmocka_unit_test_setup_teardown(a_worker_stands_still, setup_short_lease, teardown)};
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        return 1;
    }
    return cmocka_run_group_tests_name("rounds_bad", tests, NULL, NULL);
}
