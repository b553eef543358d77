/* SPDX-License-Identifier: Apache-2.0 */
/* worker/api/session.c, io.c and param.c when memory runs out, and options of other headers. Nothing answers at the target. */
#include "test.h"
#include "ps.h"

#include "api/api.h"
#include "mem.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ALLOCATIONS_MAX = 200, CLOSES = 50 };

static int lines;

static void count_lines(void *ctx, ps_log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    assert_true(strncmp(line, "ts=", 3) == 0 && strchr(line, '\n') == NULL);
    lines++;
}

static void options_of(ps_session_options *o)
{
    ps_session_options_init(o);
    o->cluster_spec = "ps=127.0.0.1:1,127.0.0.1:2;worker=127.0.0.1:3";
    o->job = "worker";
    o->log = count_lines;
    o->operation_timeout_ms = 100;
}

TEST(open_fails_softly_without_memory)
{
    ps_session_options o;
    int n = 0;
    ps_status st = PS_UNKNOWN;
    options_of(&o);
    for (; n < ALLOCATIONS_MAX && st != PS_OK; n++) {
        ps_session *s = NULL;
        char error[512] = "";
        psi_mem_fail_after(n);
        st = ps_session_open(&o, &s, error, sizeof(error));
        psi_mem_fail_after(-1);
        if (st == PS_OK) {
            assert_int_equal(ps_session_close(s), 0);
        } else {
            assert_int_equal(st, PS_RESOURCE_EXHAUSTED);
            assert_true(error[0] != '\0');
            assert_null(s);
        }
    }
    assert_int_equal(st, PS_OK);
    assert_true(n > 5); /* several allocations failed before */
}

TEST(open_args_always_gives_a_session)
{
    ps_status st = PS_UNKNOWN;
    int n = 0;
    for (; n < ALLOCATIONS_MAX && st != PS_OK; n++) {
        char program[] = "program";
        char flag[] = "--ps_hosts=127.0.0.1:1";
        char *argv[] = {program, flag, NULL};
        int argc = 2;
        psi_mem_fail_after(n);
        ps_session *s = ps_session_open_args(&argc, argv, "about");
        psi_mem_fail_after(-1);
        assert_non_null(s);
        st = ps_session_status(s);
        ps_param *p = ps_param_get(st == PS_OK ? NULL : s, "w", PS_SHAPE(2), ps_zeros(), ps_sgd(1));
        assert_non_null(p);
        assert_true(((float *)ps_param_value(p))[0] == 0);
        assert_int_equal(ps_should_stop(s), st != PS_OK);
        assert_int_equal(ps_session_close(s), st);
    }
    assert_int_equal(st, PS_OK);
    assert_true(n > 5);
}

TEST(a_static_session_serves_without_memory)
{
    char program[] = "program";
    char flag[] = "--steps=x";
    char *argv[] = {program, flag, NULL};
    int argc = 2;
    psi_mem_fail_after(1); /* 0 is the table of flags; the error in it then needs a session object */
    ps_session *s = ps_session_open_args(&argc, argv, "about");
    psi_mem_fail_after(-1);
    assert_non_null(s);
    assert_int_equal(ps_session_status(s), PS_RESOURCE_EXHAUSTED);
    ps_param *p = ps_param_get(s, "w", PS_SHAPE(2, 2), ps_zeros(), ps_sgd(1));
    assert_ptr_equal(ps_param_session(p), s);
    assert_int_equal(ps_pull(s), PS_RESOURCE_EXHAUSTED);
    assert_int_equal(ps_session_close(s), PS_RESOURCE_EXHAUSTED);
    assert_int_equal(ps_session_close(s), PS_RESOURCE_EXHAUSTED); /* it is never freed */
}

TEST(parameters_without_memory_are_an_error)
{
    ps_session_options o;
    options_of(&o);
    for (int n = 0; n < 8; n++) { /* the record, two buffers, the name in three, the variable in two */
        ps_session *s = NULL;
        assert_int_equal(ps_session_open(&o, &s, NULL, 0), PS_OK);
        lines = 0;
        psi_mem_fail_after(n);
        ps_param *p = ps_param_get(s, "w", PS_SHAPE(100), ps_zeros(), ps_sgd(1));
        assert_int_equal(psi_mem_fail_left(), -1);
        psi_mem_fail_after(-1);
        assert_int_equal(ps_session_status(s), PS_RESOURCE_EXHAUSTED);
        assert_non_null(strstr(ps_session_error(s), "'w'"));
        assert_int_equal(lines, 1); /* logged when it happened */
        assert_true(((float *)ps_param_value(p))[99] == 0);
        assert_int_equal(ps_session_close(s), PS_RESOURCE_EXHAUSTED);
    }
}

TEST(a_call_to_nobody_ends_at_its_deadline)
{
    ps_session_options o;
    ps_session *s = NULL;
    options_of(&o);
    assert_int_equal(ps_session_open(&o, &s, NULL, 0), PS_OK);
    ps_param *p = ps_param_get(s, "w", PS_SHAPE(10), ps_zeros(), ps_sgd(1));
    assert_int_equal(ps_session_status(s), PS_OK); /* it is got when it is needed */
    assert_int_not_equal(ps_session_ready(s), PS_OK);
    assert_non_null(strstr(ps_session_error(s), "ps_param_get: get of 'w'"));
    assert_non_null(strstr(ps_session_error(s), "/job:ps/task:0"));
    assert_non_null(strstr(ps_session_error(s), "127.0.0.1:1"));
    ((float *)ps_param_grad(p))[9] = 1; /* harmless */
    assert_int_not_equal(ps_session_close(s), 0);
}

/* A thread that is not in the child may hold the lock: here it is this one. */
TEST(what_is_only_looked_up_never_blocks_a_child)
{
    ps_session_options o;
    ps_session *s = NULL;
    char error[512];
    int status = 0;
    options_of(&o);
    assert_int_equal(ps_session_open(&o, &s, error, sizeof(error)), PS_OK);
    ps_param *p = ps_param_get(s, "w", PS_SHAPE(2), ps_zeros(), ps_sgd(1));
    ps_variable v = {.session = s, .version = 7};
    p->train.version = 7;
    s->global_step = s->found.step = s->found.variables = 7;
    (void)pthread_mutex_lock(&s->lock);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        bool exact = true;
        bool also_exact = true;
        int64_t step = 7;
        (void)alarm(10); /* where one of these waits for the lock */
        ps_set_steps(s, 1);
        bool good = ps_param_version(p, &exact) == 0 && ps_variable_version(&v, &also_exact) == 0 && !exact && !also_exact &&
                    ps_session_found(s, &step) == 0 && step == 0 && ps_global_step(s) == 0 && s->steps == 0;
        _exit(good ? 0 : 1);
    }
    (void)pthread_mutex_unlock(&s->lock);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(ps_param_version(p, NULL), 7);
    assert_int_equal(ps_session_found(s, NULL), 7);
    PSI_IGNORE(ps_session_close(s)); /* whatever it says of the parameter */
}

struct driver {
    ps_session *session;
    atomic_bool ended;
};

static void *drive_once(void *arg)
{
    struct driver *d = arg;
    PSI_IGNORE(ps_progress_run(d->session, 1000)); /* nothing is there to be done */
    atomic_store(&d->ended, true);
    return NULL;
}

/* Seen by the thread sanitizer, and by the address sanitizer. */
TEST(close_waits_for_who_drives)
{
    for (int i = 0; i < CLOSES; i++) {
        ps_session_options o;
        ps_session *s = NULL;
        char error[512];
        pthread_t thread;
        bool driving = false;
        options_of(&o);
        o.progress = PS_PROGRESS_CALLER;
        assert_int_equal(ps_session_open(&o, &s, error, sizeof(error)), PS_OK);
        struct driver d = {.session = s};
        assert_int_equal(pthread_create(&thread, NULL, drive_once, &d), 0);
        while (!driving && !atomic_load(&d.ended)) {
            (void)pthread_mutex_lock(&s->lock);
            driving = s->driving;
            (void)pthread_mutex_unlock(&s->lock);
        }
        assert_int_equal(ps_session_close(s), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
}

TEST(options_of_other_headers)
{
    struct {
        ps_session_options o;
        char more[16];
    } newer;
    ps_session *s = NULL;
    char error[512];
    memset(&newer, 0, sizeof(newer));
    options_of(&newer.o);
    newer.o.struct_bytes = sizeof(newer);
    assert_int_equal(ps_session_open(&newer.o, &s, error, sizeof(error)), PS_OK); /* what it does not know is zero */
    assert_int_equal(ps_session_close(s), 0);
    memset(newer.more, 1, sizeof(newer.more));
    assert_int_equal(ps_session_open(&newer.o, &s, error, sizeof(error)), PS_UNIMPLEMENTED);
    newer.o.struct_bytes = offsetof(ps_session_options, seed); /* an older one */
    assert_int_equal(ps_session_open(&newer.o, &s, error, sizeof(error)), PS_OK);
    assert_int_equal(ps_session_close(s), 0);
    newer.o.struct_bytes = 0;
    assert_int_equal(ps_session_open(&newer.o, &s, error, sizeof(error)), PS_INVALID_ARGUMENT);
}

TEST(compute_threads_have_a_bound)
{
    ps_session_options o;
    ps_session *s = NULL;
    char error[512];
    options_of(&o);
    o.compute_threads = 1024;
    assert_int_equal(ps_session_open(&o, &s, error, sizeof(error)), PS_OK);
    assert_int_equal(ps_session_close(s), 0);
    s = NULL;
    o.compute_threads = 1025;
    assert_int_equal(ps_session_open(&o, &s, error, sizeof(error)), PS_INVALID_ARGUMENT);
    assert_string_equal(error, "compute_threads: 1025 is more than 1024");
    assert_null(s);
}

static void bad_sync(ps_session_options *with, const ps_sync_options *o, const char *text)
{
    ps_session *s = NULL;
    assert_int_equal(ps_session_open(with, &s, NULL, 0), PS_OK);
    assert_int_equal(ps_session_sync(s, o), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_session_error(s), text));
    assert_int_equal(ps_session_sync(s, NULL), PS_INVALID_ARGUMENT); /* it sticks */
    assert_int_equal(ps_session_close(s), PS_INVALID_ARGUMENT);
}

TEST(options_of_rounds)
{
    ps_session_options o;
    ps_session *s = NULL;
    ps_sync_options y;
    options_of(&o);
    assert_int_equal(ps_session_open(&o, &s, NULL, 0), PS_OK);
    assert_int_equal(ps_session_sync(s, NULL), PS_OK);
    assert_int_equal(s->sync.mode, PS_SYNC_ROUNDS);
    ps_sync_options_init(&y);
    y.mode = PS_SYNC_STALENESS;
    y.staleness = 3;
    y.on_worker_loss = PS_LOSS_FAIL;
    assert_int_equal(ps_session_sync(s, &y), PS_OK);
    assert_true(s->sync.mode == PS_SYNC_STALENESS && s->sync.staleness == 3 && s->sync.on_worker_loss == PS_LOSS_FAIL);
    y = (ps_sync_options){.struct_bytes = sizeof(y), .mode = PS_SYNC_NONE};
    assert_int_equal(ps_session_sync(s, &y), PS_OK);
    assert_int_equal(s->sync.mode, PS_SYNC_NONE);
    assert_true(ps_dropped(s) == 0 && ps_dropped(NULL) == 0);
    assert_int_equal(ps_session_sync(NULL, NULL), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_session_close(s), 0);
    enum { ALL = sizeof(ps_sync_options) };
    static const struct {
        const char *text;
        ps_sync_options o;
    } bad[] = {
        {"mode: 7", {.struct_bytes = ALL, .mode = (ps_sync_mode)7}},
        {"on_worker_loss: 9", {.struct_bytes = ALL, .mode = PS_SYNC_ROUNDS, .on_worker_loss = (ps_worker_loss)9}},
        {"3 of 2 workers", {.struct_bytes = ALL, .mode = PS_SYNC_ROUNDS, .workers = 2, .replicas_to_aggregate = 3}},
        {"staleness: in rounds", {.struct_bytes = ALL, .mode = PS_SYNC_ROUNDS, .staleness = 1}},
        {"replicas_to_aggregate: of rounds", {.struct_bytes = ALL, .mode = PS_SYNC_STALENESS, .replicas_to_aggregate = 1}},
        {"ps_sync_options_init", {.mode = PS_SYNC_ROUNDS}},
        {"prefetch", {.struct_bytes = ALL, .mode = PS_SYNC_ROUNDS}},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        o.prefetch = i + 1 == sizeof(bad) / sizeof(bad[0]);
        bad_sync(&o, &bad[i].o, bad[i].text);
    }
}

/* The memory is freed once, which the address sanitizer sees, by whoever lets go of it last. */
TEST(buffers_that_are_held_outlive_the_session)
{
    ps_session_options o;
    ps_session *s = NULL;
    options_of(&o);
    assert_int_equal(ps_session_open(&o, &s, NULL, 0), PS_OK);
    ps_param *p = ps_param_get(s, "w", PS_SHAPE(10), ps_zeros(), ps_sgd(1));
    ps_param *early = ps_param_get(s, "v", PS_SHAPE(10), ps_zeros(), ps_sgd(1));
    float *value = ps_param_value(p);
    float *grad = ps_param_grad(p);
    assert_ptr_equal(ps_param_hold(p), p);
    assert_ptr_equal(ps_param_hold(p), p);
    assert_ptr_equal(ps_param_hold(early), early);
    ps_param_release(early);
    value[9] = 7;
    PSI_IGNORE(ps_session_close(s)); /* whatever it says of the parameters */
    ps_param_release(p);
    grad[9] = 8;
    assert_true(value[9] == 7 && grad[9] == 8);
    ps_param_release(p);
}

TEST(lines_go_to_the_descriptor_that_was_set)
{
    char program[] = "program";
    char flag[] = "--steps=x";
    char *argv[] = {program, flag, NULL};
    int ends[2], argc = 2;
    char text[8192] = "";
    assert_int_equal(pipe(ends), 0);
    ps_log_to(ends[1]);
    ps_session *s = ps_session_open_args(&argc, argv, "about");
    ps_log_to(-1);
    assert_int_equal(ps_session_close(s), PS_INVALID_ARGUMENT);
    (void)close(ends[1]); /* where nothing was written the read ends */
    const ssize_t n = read(ends[0], text, sizeof(text) - 1);
    assert_true(n > 0 && n <= 4096);
    assert_true(strncmp(text, "3 ts=", 5) == 0 && strchr(text, '\n') == text + n - 1);
    assert_non_null(strstr(text, "--steps"));
    (void)close(ends[0]);
}

TEST(null_is_survived)
{
    ps_variable *v = NULL;
    assert_null(ps_param_hold(NULL));
    ps_param_release(NULL);
    assert_int_equal(ps_session_close(NULL), 0);
    assert_int_equal(ps_session_status(NULL), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_pull(NULL), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_variable_find(NULL, "v", &v), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_variable_read(NULL, &v, sizeof(v)), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_push_start(NULL, &v, 1, 1, 0, NULL, NULL, NULL), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_cluster_tasks(NULL), -1);
    assert_true(ps_should_stop(NULL));
}
