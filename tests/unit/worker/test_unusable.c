/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions that no call can use: of --help, of options that were wrong, of another process, and NULL. Every call says why. */
#include "test.h"
#include "ps.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static void no_log(void *ctx, ps_log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)line;
}

static void no_end(void *ctx, const ps_call_result *result)
{
    (void)ctx;
    (void)result;
}

/* Another error of this thread, so that a call that leaves none is seen. */
static void mark(void)
{
    char out[PS_DEVICE_BYTES];
    assert_int_equal(ps_device_canonical("/bus:1", out, sizeof(out)), PS_INVALID_ARGUMENT);
}

struct said {
    const char *call;
    bool refused;
    char text[1024];
};

static struct said said[96];
static int said_count;

static void keep(const char *call, bool refused)
{
    struct said *s = &said[said_count++];
    s->call = call;
    s->refused = refused;
    (void)snprintf(s->text, sizeof(s->text), "%s", ps_last_error());
    mark();
}

#define STATUS(call) keep(#call, (call) != PS_OK)
#define COUNT_OF(call) keep(#call, (call) < 0)

/* Every call that takes a session and can say that it has failed. p is a parameter of s. */
static void call_all(ps_session *s, ps_param *p)
{
    ps_variable_spec spec;
    ps_queue_spec queue;
    ps_variable *v = NULL;
    ps_queue *q = NULL;
    ps_work *w = NULL;
    ps_accumulator *a = NULL;
    ps_hook hook;
    ps_device_info device;
    ps_task_info info[1];
    uint64_t number = 0;
    int64_t us = 0;
    uint32_t faults = 0;
    const char *const names[] = {"x"};
    const char *uninitialized[1];
    char out[8];
    const double rate = 1;
    ps_variable_spec_init(&spec);
    spec.name = "v";
    ps_queue_spec_init(&queue, "q", PS_F32, PS_SCALAR);
    ps_hook_init(&hook);
    said_count = 0;
    mark();
    STATUS(ps_session_wait_cluster(s, "ps", 100));
    STATUS(ps_barrier(s, "gate", 1));
    STATUS(ps_barrier_within(s, "gate", 1, 100));
    STATUS(ps_session_ready(s));
    STATUS(ps_pull(s));
    STATUS(ps_pull_param(p));
    STATUS(ps_push(s, p));
    STATUS(ps_push_pull(s, p));
    STATUS(ps_step_done(s));
    STATUS(ps_stop(s, 100, NULL));
    STATUS(ps_session_job_done(s));
    STATUS(ps_session_sync(s, NULL));
    STATUS(ps_sync_finish(s));
    STATUS(ps_progress_run(s, 0));
    STATUS(ps_variable_scope_push(s, "a", PS_REUSE_AUTO));
    STATUS(ps_variable_scope_pop(s));
    STATUS(ps_container_push(s, "c"));
    STATUS(ps_container_pop(s));
    STATUS(ps_device_push(s, "/job:ps"));
    STATUS(ps_device_push_setter(s, NULL));
    STATUS(ps_device_pop(s));
    COUNT_OF(ps_session_devices(s, &device, sizeof(device), 1));
    STATUS(ps_variable_get(s, &spec, &v));
    STATUS(ps_variables_get(s, &spec, 1, &v));
    STATUS(ps_variable_find(s, "v", &v));
    STATUS(ps_set_rates(s, NULL, &rate, 100, NULL));
    COUNT_OF(ps_report_uninitialized(s, uninitialized, 1));
    STATUS(ps_wait_ready(s, 100));
    STATUS(ps_reset(s));
    STATUS(ps_reset_containers(s, names, 1));
    STATUS(ps_reset_all(s));
    STATUS(ps_variable_delete(s, "v"));
    STATUS(ps_global_step_get(s, &v));
    STATUS(ps_export(s, "/nonexistent/x.safetensors", NULL, NULL));
    STATUS(ps_import(s, "/nonexistent/x.safetensors", NULL, NULL));
    COUNT_OF(ps_cluster_tasks(s));
    STATUS(ps_cluster_info(s, info, sizeof(info[0]), 1, 100));
    STATUS(ps_task_variables(s, 0, 100, NULL, NULL));
    STATUS(ps_task_config(s, 0, 100, NULL, NULL));
    STATUS(ps_task_config_set(s, 0, "x", "1", 100));
    STATUS(ps_task_sessions(s, 0, 100, NULL, NULL));
    STATUS(ps_task_waits(s, 0, 100, NULL, NULL));
    STATUS(ps_task_containers(s, 0, 100, NULL, NULL));
    STATUS(ps_task_queues(s, 0, 100, NULL, NULL));
    STATUS(ps_task_ages(s, 0, 100, NULL, NULL));
    STATUS(ps_rounds(s, 100, NULL, NULL, NULL));
    STATUS(ps_checkpoints(s, 100, NULL, NULL));
    STATUS(ps_checkpoint_save(s, 100, &number));
    STATUS(ps_checkpoint_save_before(s, 1, 100, &number));
    STATUS(ps_checkpoint_verify(s, 1, NULL, &faults));
    STATUS(ps_checkpoint_export(s, 1, "/nonexistent/x", NULL, NULL));
    STATUS(ps_checkpoint_containers(s, 1, NULL, NULL));
    STATUS(ps_checkpoint_delete(s, 1, false, 100));
    STATUS(ps_checkpoint_restore(s, 1, 100, NULL));
    STATUS(ps_checkpoint_restore_containers(s, 1, names, 1, 100, NULL));
    STATUS(ps_checkpoint_spread(s, 1, 100, NULL));
    STATUS(ps_task_ping(s, 0, 100, &us));
    STATUS(ps_task_shutdown(s, 0, 100));
    STATUS(ps_call(s, "/job:ps/task:0", "x", NULL, 0, out, sizeof(out), NULL, 100));
    STATUS(ps_call_start(s, "/job:ps/task:0", "x", NULL, 0, out, sizeof(out), 100, no_end, NULL));
    STATUS(ps_queue_get(s, &queue, &q));
    STATUS(ps_queue_find(s, "q", &q));
    STATUS(ps_work_get(s, "w", names, NULL, 1, 1, 0, &w));
    STATUS(ps_accumulator_get(s, "a", PS_F32, PS_SCALAR, PS_REDUCTION_SUM, NULL, &a));
    STATUS(ps_add_hook(s, &hook));
    STATUS(ps_step_value(s, "loss", 1));
    STATUS(ps_request_stop(s));
    STATUS(ps_add_stop_at_step_hook(s, 1, 0));
    STATUS(ps_add_step_counter_hook(s, 1, 0));
    STATUS(ps_add_logging_hook(s, NULL, 0, 1, 0));
    STATUS(ps_add_nan_hook(s, NULL, PS_NAN_STOP));
    STATUS(ps_add_summary_hook(s, "/nonexistent", 1));
    STATUS(ps_add_checkpoint_saver_hook(s, 1, 0, 0));
    STATUS(ps_wait_step(s, 1, 100));
    keep("ps_param_grad", ps_param_grad(p) != ps_param_value(p));
}

/* Each was refused, with an own text that has `part`, and, for a child, nothing else: it runs in one. */
static int missing(const char *part)
{
    int bad = 0;
    for (int i = 0; i < said_count; i++) {
        if (!said[i].refused || said[i].text[0] == '\0' || strstr(said[i].text, "/bus:1") != NULL ||
            strstr(said[i].text, part) == NULL) {
            print_message("%s: %s, \"%s\"\n", said[i].call, said[i].refused ? "refused" : "not refused", said[i].text);
            bad++;
        }
    }
    return bad;
}

static ps_session *open_with(const char *flag)
{
    char program[] = "program", text[64];
    char *argv[] = {program, text, NULL};
    int argc = 2;
    (void)snprintf(text, sizeof(text), "%s", flag);
    ps_session *s = ps_session_open_args(&argc, argv, "about");
    assert_non_null(s);
    return s;
}

TEST(help_says_that_it_was_given)
{
    ps_session *s = open_with("--help");
    ps_param *p = ps_param_get(s, "w", PS_SHAPE(3), ps_zeros(), ps_sgd(1));
    call_all(s, p);
    assert_int_equal(missing("--help was given"), 0);
    assert_true(ps_should_stop(s));
    assert_string_equal(ps_session_error(s), "--help was given: nothing is done");
    assert_int_equal(ps_session_status(s), PS_OK); /* which is no error */
    ((float *)ps_param_grad(p))[2] = 1;            /* harmless */
    assert_int_equal(ps_session_close(s), 0);
}

TEST(wrong_options_are_said_again)
{
    ps_session *s = open_with("--steps=x");
    ps_param *p = ps_param_get(s, "w", PS_SHAPE(3), ps_zeros(), ps_sgd(1));
    call_all(s, p);
    assert_int_equal(missing("--steps"), 0);
    assert_non_null(strstr(ps_session_error(s), "--steps"));
    ((float *)ps_param_grad(p))[2] = 1;
    assert_int_equal(ps_session_close(s), PS_INVALID_ARGUMENT);
}

TEST(no_session_is_said)
{
    ps_param *p = ps_param_get(NULL, "w", PS_SHAPE(3), ps_zeros(), ps_sgd(1));
    call_all(NULL, NULL);
    said_count--; /* ps_param_grad(NULL) is NULL, as ps_param_value(NULL) is */
    assert_int_equal(missing(""), 0);
    assert_non_null(ps_param_grad(p));
}

static void child_of(ps_session *s, ps_param *p)
{
    int status = 0;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)alarm(20); /* where a call waits for a thread that is not here */
        call_all(s, p);
        ((float *)ps_param_grad(p))[2] = 1;
        const bool good = missing("made by fork()") == 0 && ps_session_status(s) == PS_FAILED_PRECONDITION &&
                          strstr(ps_session_error(s), "made by fork()") != NULL && ps_should_stop(s);
        (void)fflush(stdout);
        _exit(good ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

TEST(a_child_is_told)
{
    ps_session_options o;
    ps_monitored_options m;
    ps_session_options_init(&o);
    ps_monitored_options_init(&m);
    o.cluster_spec = "ps=127.0.0.1:1";
    o.job = "worker";
    o.log = no_log;
    o.operation_timeout_ms = 100;
    for (int monitored = 0; monitored < 2; monitored++) {
        ps_session *s = NULL;
        assert_int_equal(monitored ? ps_monitored_open(&o, &m, &s, NULL, 0) : ps_session_open(&o, &s, NULL, 0), PS_OK);
        child_of(s, ps_param_get(s, "w", PS_SHAPE(3), ps_zeros(), ps_sgd(1)));
        PSI_IGNORE(ps_session_close(s)); /* whatever it says of the parameter */
    }
}
