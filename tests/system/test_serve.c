/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Worker processes that serve (pstrain --serve, pstrain that trains, psd): variables pinned to them, sessions, calls and
 * operations there, the list of tasks, the fence after a lease without the directory; and two processes that say that they are
 * the same task.
 */
#include "daemon.h"

#include "common/buf.h"
#include "worker/plan/run.h"

#include <ps.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { WAIT_MS = 30000 };

/* ---- a process, its output read line by line ---- */

struct process {
    pid_t pid;
    int fd;
    char text[65536];
    size_t have;
};

static void start(struct process *p, const char *program, const char *const *args)
{
    int ends[2];
    char path[512];
    char *argv[24] = {NULL};
    size_t argc = 1;
    argv[0] = (char *)(uintptr_t)test_build_path(program, path, sizeof(path));
    for (; args[argc - 1] != NULL; argc++) {
        assert_true(argc + 1 < sizeof(argv) / sizeof(argv[0]));
        argv[argc] = (char *)(uintptr_t)args[argc - 1];
    }
    p->have = 0;
    p->text[0] = '\0';
    assert_int_equal(pipe(ends), 0);
    p->pid = fork();
    assert_true(p->pid >= 0);
    if (p->pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)unsetenv("LISTEN_FDS");
        (void)unsetenv("TF_CONFIG");
        if (dup2(ends[1], STDOUT_FILENO) < 0 || dup2(ends[1], STDERR_FILENO) < 0) {
            _exit(127);
        }
        (void)close(ends[0]);
        (void)close(ends[1]);
        (void)execv(argv[0], argv);
        _exit(127);
    }
    assert_int_equal(close(ends[1]), 0);
    p->fd = ends[0];
}

/* Its output has `word` after position `from`; reads on until it does. */
static const char *await(struct process *p, size_t from, const char *word)
{
    for (;;) {
        const char *at = strstr(p->text + from, word);
        if (at != NULL) {
            return at;
        }
        struct pollfd poll_fd = {.fd = p->fd, .events = POLLIN};
        ssize_t n = 0;
        if (p->have + 1 < sizeof(p->text) && poll(&poll_fd, 1, WAIT_MS) == 1) {
            n = read(p->fd, p->text + p->have, sizeof(p->text) - 1 - p->have);
        }
        if (n <= 0) {
            fail_msg("no '%s' in: %s", word, p->text);
        }
        p->have += (size_t)n;
        p->text[p->have] = '\0';
    }
}

static int finish(struct process *p, int how)
{
    int status = 0;
    if (p->pid == 0) {
        return -1;
    }
    (void)kill(p->pid, how);
    assert_true(waitpid(p->pid, &status, 0) == p->pid);
    assert_int_equal(close(p->fd), 0);
    p->pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* A port that this process keeps bound, not listening: nobody else gets it by chance, SO_REUSEADDR lets the task have it. */
static int reserve(char *address, size_t n)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof(a);
    int one = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &bytes), 0);
    (void)snprintf(address, n, "127.0.0.1:%u", ntohs(a.sin_port));
    return fd;
}

static void no_log(void *ctx, ps_log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    (void)line;
}

static ps_session *session_at(const char *target)
{
    ps_session_options o;
    ps_session *s = NULL;
    ps_session_options_init(&o);
    o.target = target;
    o.operation_timeout_ms = WAIT_MS;
    o.log = no_log;
    assert_int_equal(ps_session_open(&o, &s, NULL, 0), PS_OK);
    return s;
}

static ps_status get(ps_session *s, const char *name, const char *device, ps_variable **out)
{
    ps_variable_spec spec;
    ps_variable_spec_init(&spec);
    spec.name = name;
    spec.dtype = PS_I64;
    spec.shape = PS_SCALAR;
    spec.device = device;
    return ps_variable_get(s, &spec, out);
}

/* A run without rows: does the task execute any? */
static ps_status run_nothing(ps_session *s, const char *device)
{
    const struct psi_run run = {.container = ""};
    struct psi_run_answer answer = {0};
    struct psi_buf bytes;
    char out[256];
    size_t out_bytes = 0;
    psi_buf_init(&bytes, sizeof(out));
    assert_int_equal(psi_run_encode(&run, &bytes, NULL), PS_OK);
    const ps_status st = ps_call(s, device, PSI_RUN_CALL, bytes.data, bytes.len, out, sizeof(out), &out_bytes, 0);
    psi_buf_fini(&bytes);
    if (st == PS_OK) {
        assert_int_equal(psi_run_answer_decode(out, out_bytes, &answer, NULL), PS_OK);
        psi_run_answer_fini(&answer);
    }
    return st;
}

/* ---- tests ---- */

static void a_worker_serves(void **state)
{
    struct test_cluster c;
    static struct process worker;
    char address[64];
    char more[96];
    char target[80];
    char out[16] = "";
    size_t bytes = 0;
    int64_t value = 7;
    ps_variable *v = NULL;
    (void)state;
    int reserved = reserve(address, sizeof(address));
    (void)snprintf(more, sizeof(more), ";worker=%s", address);
    (void)snprintf(target, sizeof(target), "psd://%s", address);
    test_cluster_init(&c, 1, more);
    test_cluster_start(&c, 0);
    const char *args[] = {"--serve",      "--ps_hosts", c.address[0], "--worker_hosts", address, "--job_name", "worker",
                          "--task_index", "0",          NULL};
    start(&worker, "bin/pstrain", args);
    (void)await(&worker, 0, "ready: psd://");
    (void)await(&worker, 0, "ev=directory_connected");
    /* it is a session target that knows the cluster, holds what is pinned to it, and runs calls */
    ps_session *s = session_at(target);
    assert_int_equal(get(s, "here", "/job:worker/task:0", &v), PS_OK);
    assert_string_equal(ps_variable_device(v), "/job:worker/task:0/device:CPU:0");
    assert_int_equal(ps_variable_assign(v, &value, sizeof(value)), PS_OK);
    assert_int_equal(get(s, "there", NULL, &v), PS_OK);
    assert_string_equal(ps_variable_device(v), "/job:ps/task:0/device:CPU:0");
    assert_int_equal(ps_call(s, "/job:worker/task:0", "psd.echo", "hello", 5, out, sizeof(out), &bytes, 0), PS_OK);
    assert_int_equal(bytes, 5);
    assert_string_equal(out, "hello");
    assert_int_equal(run_nothing(s, "/job:worker/task:0"), PS_OK);
    assert_int_not_equal(run_nothing(s, "/job:ps/task:0"), PS_OK);
    assert_int_equal(ps_call(s, "/job:ps/task:0", "psd.echo", "", 0, out, sizeof(out), NULL, 0), PS_NOT_FOUND);
    assert_non_null(strstr(ps_last_error(), "it runs no calls"));
    assert_int_equal(ps_cluster_tasks(s), 2);
    assert_string_equal(ps_cluster_task_name(s, 1), "/job:worker/task:0");
    assert_int_equal(ps_session_close(s), 0);
    /* another session, another target: the same variable */
    s = session_at(c.address[0]);
    assert_int_equal(get(s, "here", "/job:worker/task:0", &v), PS_OK);
    value = 0;
    assert_int_equal(ps_variable_read(v, &value, sizeof(value)), PS_OK);
    assert_int_equal(value, 7);
    /* `psctl shutdown` ends it as it ends a ps */
    assert_int_equal(ps_cluster_tasks(s), 2);
    assert_int_equal(ps_task_shutdown(s, 1, 0), PS_OK);
    (void)await(&worker, 0, "ev=ended");
    assert_int_equal(finish(&worker, 0), 0);
    assert_int_equal(ps_session_close(s), 0);
    test_cluster_fini(&c);
    assert_int_equal(close(reserved), 0);
}

/* A trainer executes operations while it trains, and ends as if it did not. */
static void a_trainer_serves(void **state)
{
    struct test_cluster c;
    static struct process worker;
    char address[64];
    char more[96];
    (void)state;
    int reserved = reserve(address, sizeof(address));
    (void)snprintf(more, sizeof(more), ";worker=%s", address);
    test_cluster_init(&c, 1, more);
    test_cluster_start(&c, 0);
    const char *args[] = {"--ps_hosts", c.address[0], "--worker_hosts", address,   "--job_name", "worker",
                          "--epochs",   "1000000",    "--model",        "softmax", NULL};
    start(&worker, "bin/pstrain", args);
    ps_session *s = session_at(c.address[0]);
    assert_int_equal(ps_session_wait_cluster(s, "ps,worker", WAIT_MS), PS_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(run_nothing(s, "/job:worker/task:0"), PS_OK);
    }
    assert_int_equal(finish(&worker, SIGINT), 128 + SIGINT);
    assert_null(strstr(worker.text, "serves no operations"));
    assert_int_equal(ps_session_close(s), 0);
    test_cluster_fini(&c);
    assert_int_equal(close(reserved), 0);
}

/* Somebody else listens at the trainer's address, or the ps does not know the trainer's task: it says so once, and trains. */
static void a_trainer_that_cannot_serve(void **state)
{
    for (int listed = 0; listed < 2; listed++) {
        struct test_cluster c;
        static struct process worker;
        char address[64];
        char more[96];
        (void)state;
        int reserved = reserve(address, sizeof(address));
        assert_int_equal(listen(reserved, 1), 0);
        (void)snprintf(more, sizeof(more), ";worker=%s", address);
        test_cluster_init(&c, 1, listed == 1 ? more : "");
        test_cluster_start(&c, 0);
        const char *args[] = {"--ps_hosts", c.address[0], "--worker_hosts", address,   "--job_name", "worker",
                              "--epochs",   "1000000",    "--model",        "softmax", NULL};
        start(&worker, "bin/pstrain", args);
        const char *line = await(&worker, 0, "pstrain: /job:worker/task:0 trains and serves no operations: ");
        (void)await(&worker, (size_t)(line - worker.text),
                    listed == 1 ? "in use" : "the ps tasks do not list it; start them with");
        (void)await(&worker, (size_t)(line - worker.text), "epoch ");
        assert_int_equal(finish(&worker, SIGINT), 128 + SIGINT);
        test_cluster_fini(&c);
        assert_int_equal(close(reserved), 0);
    }
}

static void sigterm_ends_it(void **state)
{
    static struct process worker;
    char address[64];
    (void)state;
    int reserved = reserve(address, sizeof(address));
    const char *args[] = {"--serve",      "--ps_hosts", "127.0.0.1:1", "--worker_hosts", address, "--job_name", "worker",
                          "--task_index", "0",          NULL};
    start(&worker, "bin/pstrain", args);
    (void)await(&worker, 0, "ready: psd://127.0.0.1:");
    assert_int_equal(finish(&worker, SIGTERM), 0);
    assert_int_equal(close(reserved), 0);
}

/* A worker that hears nothing of the directory for a lease drops what it shares; it comes back when the directory does. */
static void a_lease_without_the_directory(void **state)
{
    struct test_cluster c;
    static struct process worker;
    char address[64];
    char more[96];
    int64_t value = 7;
    ps_variable *v = NULL;
    (void)state;
    int reserved = reserve(address, sizeof(address));
    (void)snprintf(more, sizeof(more), ";worker=%s", address);
    test_cluster_init(&c, 1, more);
    test_cluster_start(&c, 0);
    const char *args[] = {"--cluster", c.spec, "--job_name", "worker", "--lease", "3s", "--beat", "200ms", NULL};
    start(&worker, "bin/psd", args);
    (void)await(&worker, 0, "ev=directory_connected");
    ps_session *s = session_at(c.address[0]);
    assert_int_equal(get(s, "here", "/job:worker/task:0", &v), PS_OK);
    assert_int_equal(ps_variable_assign(v, &value, sizeof(value)), PS_OK);
    test_cluster_kill(&c, 0);
    (void)await(&worker, 0, "ev=fenced");
    assert_int_equal(ps_variable_read(v, &value, sizeof(value)), PS_ABORTED);
    size_t from = worker.have;
    test_cluster_start(&c, 0);
    (void)await(&worker, from, "ev=directory_connected");
    (void)ps_session_close(s);
    s = session_at(c.address[0]);
    assert_int_equal(get(s, "here", "/job:worker/task:0", &v), PS_OK); /* made anew */
    bool initialised = true;
    assert_int_equal(ps_variable_is_initialized(v, &initialised), PS_OK);
    assert_false(initialised);
    assert_int_equal(ps_session_close(s), 0);
    assert_int_equal(finish(&worker, SIGTERM), 0);
    test_cluster_fini(&c);
    assert_int_equal(close(reserved), 0);
}

static size_t count(const char *text, const char *word)
{
    size_t n = 0;
    for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word)) {
        n++;
    }
    return n;
}

/* Two processes are ps:1. The later one holds the place and keeps it; the earlier one says what to do, and takes the place again
 * when the other is gone. */
static void two_processes_of_one_task(void **state)
{
    struct test_cluster c;
    static struct process right;
    static struct process left;
    char address[64];
    char more[96];
    char pid[32];
    ps_task_info infos[3];
    (void)state;
    int reserved = reserve(address, sizeof(address));
    (void)snprintf(more, sizeof(more), ",%s", address);
    test_cluster_init(&c, 1, more);
    test_cluster_start(&c, 0);
    const char *left_args[] = {"--cluster", c.spec, "--task_index", "1", NULL};
    const char *right_args[] = {"--cluster", c.spec, "--task_index", "1", "--listen", "127.0.0.1:0", NULL};
    const time_t begun = time(NULL);
    start(&left, "bin/psd", left_args);
    (void)await(&left, 0, "ev=directory_connected");
    start(&right, "bin/psd", right_args);
    (void)await(&right, 0, "ev=directory_connected");
    const char *line = await(&left, 0, "ev=directory_refused");
    (void)await(&left, (size_t)(line - left.text), "\n");
    (void)snprintf(pid, sizeof(pid), "process %ld on ", (long)right.pid);
    assert_non_null(strstr(line, "FAILED_PRECONDITION"));
    assert_non_null(strstr(line, pid));
    assert_non_null(strstr(line, "stop one of the two"));
    /* operators see who tries */
    ps_session *s = session_at(c.address[0]);
    assert_int_equal(ps_cluster_tasks(s), 2);
    assert_int_equal(ps_cluster_info(s, infos, sizeof(*infos), 2, WAIT_MS), PS_OK);
    (void)snprintf(pid, sizeof(pid), "process %ld on ", (long)left.pid);
    assert_non_null(strstr(infos[1].conflict, pid));
    assert_string_equal(infos[0].conflict, "");
    assert_int_equal(ps_session_close(s), 0);
    assert_int_equal(finish(&right, SIGKILL), 128 + SIGKILL);
    (void)await(&left, (size_t)(line - left.text), "ev=directory_connected");
    /* many refusals, and one line in 5 s */
    assert_in_range(count(left.text, "ev=directory_refused"), 1, 2 + (size_t)(time(NULL) - begun) / 5);
    assert_int_equal(count(right.text, "ev=directory_refused"), 0);
    /* on one address the second does not even start */
    start(&right, "bin/psd", left_args);
    (void)await(&right, 0, "in use");
    assert_non_null(strstr(right.text, address));
    assert_non_null(strstr(right.text, "Stop it, or choose another port"));
    assert_int_equal(finish(&right, 0), 1);
    assert_int_equal(finish(&left, SIGTERM), 0);
    test_cluster_fini(&c);
    assert_int_equal(close(reserved), 0);
}

static ps_session *session_as(const char *target, const char *job, uint32_t task)
{
    ps_session_options o;
    ps_session *s = NULL;
    ps_session_options_init(&o);
    o.target = target;
    o.job = job;
    o.task_index = task;
    o.operation_timeout_ms = WAIT_MS;
    o.log = no_log;
    assert_int_equal(ps_session_open(&o, &s, NULL, 0), PS_OK);
    return s;
}

/* Exactly these are missing. */
static void assert_missing(ps_session *s, const char *jobs, const char *who)
{
    enum { SOON_MS = 300 }; /* they do not come */
    do {                    /* the directory answers 120 ms before that; on a busy machine that may be too late */
        assert_int_equal(ps_session_wait_cluster(s, jobs, SOON_MS), PS_DEADLINE_EXCEEDED);
    } while (strstr(ps_last_error(), "no answer within") != NULL);
    const char *names = strstr(ps_last_error(), ": /job:");
    assert_non_null(names);
    assert_string_equal(names + 2, who);
}

/* A task of the directory's job is up when it is connected, any other also when a session says that it is this task. */
static void who_is_up(void **state)
{
    struct test_cluster c;
    static struct process worker;
    char address[64], more[128];
    (void)state;
    int reserved = reserve(address, sizeof(address));
    (void)snprintf(more, sizeof(more), ";worker=%s,127.0.0.1:1,127.0.0.1:2", address);
    test_cluster_init(&c, 2, more);
    test_cluster_start(&c, 0);
    ps_session *s = session_at(c.address[0]);
    assert_missing(s, "ps", "/job:ps/task:1");
    ps_session *as_ps = session_as(c.address[0], "ps", 1); /* a client of that name serves nothing */
    assert_missing(as_ps, "ps", "/job:ps/task:1");
    assert_missing(s, "ps", "/job:ps/task:1");
    test_cluster_start(&c, 1);
    assert_int_equal(ps_session_wait_cluster(s, "ps", WAIT_MS), PS_OK);
    assert_int_equal(ps_session_close(as_ps), 0);
    assert_int_equal(ps_session_wait_cluster(s, "ps", WAIT_MS), PS_OK);
    assert_missing(s, "ps,worker", "/job:worker/task:0, /job:worker/task:1, /job:worker/task:2");
    const char *args[] = {"--cluster", c.spec, "--job_name", "worker", "--task_index", "0", NULL};
    start(&worker, "bin/psd", args); /* it serves, and no session is it */
    ps_session *one = session_as(c.address[1], "worker", 1);
    ps_session *two = session_as(c.address[0], "worker", 2);
    assert_int_equal(ps_session_wait_cluster(one, "ps", WAIT_MS), PS_OK); /* a session begins with its first request */
    assert_int_equal(ps_session_wait_cluster(two, "worker, ps", WAIT_MS), PS_OK);
    assert_int_equal(ps_session_wait_cluster(s, "ps,worker", WAIT_MS), PS_OK);
    assert_int_equal(ps_session_close(two), 0);
    assert_missing(s, "ps,worker", "/job:worker/task:2");
    assert_int_equal(finish(&worker, SIGTERM), 0);
    ps_session *zero = session_as(c.address[0], "worker", 0); /* it trains, and serves no more */
    assert_int_equal(ps_session_wait_cluster(zero, "ps", WAIT_MS), PS_OK);
    assert_missing(s, "worker", "/job:worker/task:2");
    assert_int_equal(ps_session_close(zero), 0);
    assert_missing(s, "worker", "/job:worker/task:0, /job:worker/task:2");
    assert_int_equal(ps_session_wait_cluster(s, "ps,chief", WAIT_MS), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_last_error(), "no tasks of job 'chief'"));
    assert_int_equal(ps_session_wait_cluster(s, "", WAIT_MS), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_session_wait_cluster(s, NULL, WAIT_MS), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_session_close(one), 0);
    assert_int_equal(ps_session_close(s), 0);
    test_cluster_fini(&c);
    assert_int_equal(close(reserved), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_worker_serves),
        cmocka_unit_test(a_trainer_serves),
        cmocka_unit_test(a_trainer_that_cannot_serve),
        cmocka_unit_test(sigterm_ends_it),
        cmocka_unit_test(a_lease_without_the_directory),
        cmocka_unit_test(two_processes_of_one_task),
        cmocka_unit_test(who_is_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
