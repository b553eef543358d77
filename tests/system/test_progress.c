/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PS_PROGRESS_CALLER against real psd processes: no thread, a poll loop of the program's own, threads that take turns, SIGPIPE,
 * a program that comes back later than the lease.
 *
 * The clock of this program can be put forward: clock_gettime() below is what the library and its loop call.
 */
#define API_PROGRESS PS_PROGRESS_CALLER
#include "api_test.h"

#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static _Atomic int64_t skipped_s;

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int rc = (int)syscall(SYS_clock_gettime, clock, now);
    if (rc == 0 && clock != CLOCK_REALTIME) {
        now->tv_sec += atomic_load(&skipped_s);
    }
    return rc;
}

/* What the library and its loop ask of the system. */
static atomic_int getpids, wakes, waits;
static atomic_int held, bare; /* writes to a connection that may raise SIGPIPE; of them those with the signal open */

static bool sigpipe(bool pending)
{
    sigset_t set;
    assert_int_equal(pending ? sigpending(&set) : pthread_sigmask(SIG_SETMASK, NULL, &set), 0);
    return sigismember(&set, SIGPIPE) == 1;
}

pid_t getpid(void)
{
    atomic_fetch_add(&getpids, 1);
    return (pid_t)syscall(SYS_getpid);
}

__attribute__((visibility("default"))) ssize_t write(int fd, const void *bytes, size_t n)
{
    if (n == sizeof(uint64_t)) { /* no frame is so short */
        atomic_fetch_add(&wakes, 1);
    } else {
        int type = 0;
        bool connection = getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &(socklen_t){sizeof(type)}) == 0;
        atomic_fetch_add(&held, connection ? 1 : 0);
        atomic_fetch_add(&bare, connection && !sigpipe(false) ? 1 : 0);
    }
    return syscall(SYS_write, fd, bytes, n);
}

/* A wait is one for which nothing is ready yet. */
__attribute__((visibility("default"))) int epoll_pwait(int fd, struct epoll_event *events, int max, int timeout,
                                                       const sigset_t *mask)
{
    int n = (int)syscall(SYS_epoll_pwait, fd, events, max, 0, mask, _NSIG / 8);
    if (n != 0 || timeout == 0) {
        return n;
    }
    atomic_fetch_add(&waits, 1);
    return (int)syscall(SYS_epoll_pwait, fd, events, max, timeout, mask, _NSIG / 8);
}

__attribute__((visibility("default"))) int epoll_wait(int fd, struct epoll_event *events, int max, int timeout)
{
    return epoll_pwait(fd, events, max, timeout, NULL);
}

static int threads(void)
{
    int count = 0;
    DIR *dir = opendir("/proc/self/task");
    assert_non_null(dir);
    while (readdir(dir) != NULL) {
        count++;
    }
    assert_int_equal(closedir(dir), 0);
    return count;
}

/* ---- requests from a loop of the program's own ---- */

enum { REQUESTS = 16, ROUNDS = 200, WIDTH = 1000 };

struct looping {
    ps_variable *v;
    ps_request req;
    int left, bad;
    const bool *inside; /* ps_progress_run() */
};
static float grad[WIDTH];

static void again(void *ctx, ps_request *req, const ps_result *result)
{
    struct looping *l = ctx;
    l->bad += result->status != PS_OK || !*l->inside;
    l->left--;
    if (l->left > 0) {
        l->bad += ps_push_start(l->v, grad, sizeof(grad), 1.0F, 0, req, again, l) != PS_OK;
    }
}

static void a_poll_loop(void **state)
{
    (void)state;
    static struct looping loops[REQUESTS];
    static float value[WIDTH];
    int before = threads();
    ps_session *s = open_session(30000);
    ps_variable *v = get(s, "progress/v", PS_F32, PS_SHAPE(WIDTH), ps_sgd(1.0));
    bool inside = false;
    int left = REQUESTS * ROUNDS;
    struct pollfd p = {.fd = ps_progress_fd(s), .events = POLLIN};
    assert_true(p.fd >= 0);
    assert_int_equal(ps_variable_init(v, false), PS_OK);
    for (int i = 0; i < WIDTH; i++) {
        grad[i] = -1.0F;
    }
    for (int i = 0; i < REQUESTS; i++) {
        loops[i] = (struct looping){.v = v, .left = ROUNDS, .inside = &inside};
        assert_int_equal(ps_push_start(v, grad, sizeof(grad), 1.0F, 0, &loops[i].req, again, &loops[i]), PS_OK);
    }
    while (left > 0) {
        int64_t due = ps_progress_timeout_ms(s);
        assert_in_range(due, 0, 2500);
        assert_true(poll(&p, 1, (int)due) >= 0);
        inside = true;
        assert_int_equal(ps_progress_run(s, 0), PS_OK);
        inside = false;
        int were_left = left;
        left = 0;
        for (int i = 0; i < REQUESTS; i++) {
            left += loops[i].left;
        }
        assert_in_range(were_left - left, 0, 2 * REQUESTS); /* a quick task does not keep the program in one call */
    }
    for (int i = 0; i < REQUESTS; i++) {
        assert_int_equal(loops[i].bad, 0);
    }
    assert_int_equal(threads(), before);
    assert_int_equal(ps_variable_read(v, value, sizeof(value)), PS_OK);
    assert_true(value[0] == (float)(REQUESTS * ROUNDS) && value[WIDTH - 1] == value[0]);
    /* work that was handed over makes the descriptor readable: nothing is left to a timeout */
    while (ps_progress_timeout_ms(s) == 0) {
        assert_int_equal(ps_progress_run(s, 0), PS_OK);
    }
    loops[0] = (struct looping){.v = v, .left = 1, .inside = &inside};
    assert_int_equal(ps_push_start(v, grad, sizeof(grad), 1.0F, 0, &loops[0].req, again, &loops[0]), PS_OK);
    assert_int_equal(loops[0].left, 1); /* not from within the call */
    assert_int_equal(poll(&p, 1, 0), 1);
    inside = true;
    while (loops[0].left > 0) { /* the other way to use it */
        assert_int_equal(ps_progress_run(s, 1000), PS_OK);
    }
    inside = false;
    assert_int_equal(loops[0].bad, 0);
    assert_int_equal(ps_session_close(s), 0);
    assert_int_equal(threads(), before);
}

static void in_callback(void *ctx, ps_request *req, const ps_result *result)
{
    ps_status *status = ctx;
    (void)result;
    *status = ps_progress_run(*(ps_session **)(void *)(req + 1), 0);
}

static void refusals(void **state)
{
    (void)state;
    ps_session_options o;
    ps_session *s = NULL;
    char error[512];
    assert_int_equal(ps_progress_run(NULL, 0), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_progress_fd(NULL), -1);
    assert_true(ps_progress_timeout_ms(NULL) >= 0);
    ps_session_options_init(&o);
    o.target = cluster.address[0];
    o.log = no_log;
    assert_int_equal(ps_session_open(&o, &s, error, sizeof(error)), PS_OK);
    assert_int_equal(ps_progress_run(s, 0), PS_FAILED_PRECONDITION);
    assert_non_null(strstr(ps_last_error(), "has a thread"));
    assert_int_equal(ps_progress_fd(s), -1);
    assert_true(ps_progress_timeout_ms(s) >= 0);
    assert_int_equal(ps_session_close(s), 0);

    struct {
        ps_request req;
        ps_session *session;
    } asked;
    ps_status status = PS_OK;
    float value[2];
    memset(&asked, 0, sizeof(asked));
    asked.session = open_session(20000);
    ps_variable *v = get(asked.session, "progress/refused", PS_F32, PS_SHAPE(2), NULL);
    assert_int_equal(ps_variable_init(v, false), PS_OK);
    assert_int_equal(ps_pull_start(v, value, sizeof(value), 0, &asked.req, in_callback, &status), PS_OK);
    assert_int_equal(ps_session_close(asked.session), 0); /* waits for it */
    assert_int_equal(status, PS_FAILED_PRECONDITION);
}

/* ---- threads ---- */

struct driver {
    ps_session *session;
    atomic_bool end;
    atomic_int turns; /* taken, or refused because somebody else drives */
    int bad;
};

static void *drive(void *arg)
{
    struct driver *d = arg;
    while (!atomic_load(&d->end)) {
        ps_status st = ps_progress_run(d->session, 20);
        d->bad += st != PS_OK && st != PS_FAILED_PRECONDITION;
        atomic_fetch_add(&d->turns, 1);
    }
    return NULL;
}

static void one_thread_drives_others_call(void **state)
{
    (void)state;
    enum { ADDS = 300, TURNS = 10 };
    struct driver d = {.session = open_session(30000)};
    ps_variable *v = get(d.session, "progress/count", PS_I64, PS_SCALAR, NULL);
    int64_t one = 1;
    int64_t value = 0;
    pthread_t thread;
    assert_int_equal(ps_variable_init(v, false), PS_OK);
    assert_int_equal(pthread_create(&thread, NULL, drive, &d), 0);
    for (int i = 1; i <= ADDS || atomic_load(&d.turns) < TURNS; i++) {
        assert_int_equal(ps_variable_assign_add(v, &one, sizeof(one), &value, sizeof(value)), PS_OK);
        assert_int_equal(value, i);
    }
    atomic_store(&d.end, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(d.bad, 0);
    assert_int_equal(ps_session_close(d.session), 0);
}

/* ---- SIGPIPE ---- */

static void a_task_that_dies_while_much_is_written(void **state)
{
    (void)state;
    enum { BIG = 4 << 20 };
    static float values[BIG];
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGPIPE);
    atomic_store(&held, 0);
    for (int round = 0; round < 8; round++) {
        bool own = round > 3; /* one that the program has blocked and got before is its own */
        ps_session *s = open_session(30000);
        ps_variable *v = get(s, "progress/big", PS_F32, PS_SHAPE(BIG), ps_sgd(1.0));
        ps_request req;
        struct looping l = {.v = v, .left = 1, .inside = &(bool){true}};
        memset(&req, 0, sizeof(req));
        assert_int_equal(ps_variable_assign(v, values, sizeof(values)), PS_OK);
        assert_int_equal(ps_push_start(v, values, sizeof(values), 1.0F, 1000, &req, again, &l), PS_OK);
        for (int turn = 0; turn < round % 4; turn++) {
            assert_int_equal(ps_progress_run(s, 1000), PS_OK);
        }
        if (own) {
            assert_int_equal(pthread_sigmask(SIG_BLOCK, &set, NULL), 0);
            assert_int_equal(pthread_kill(pthread_self(), SIGPIPE), 0);
        }
        int task = ps_variable_task(v);
        test_cluster_kill(&cluster, task);
        while (l.left > 0) {
            assert_int_equal(ps_progress_run(s, 1000), PS_OK);
        }
        assert_true(l.bad <= 1);                                    /* answered before, or not at all */
        assert_true(sigpipe(true) == own && sigpipe(false) == own); /* pending, blocked */
        if (own) {
            int got = 0;
            assert_int_equal(sigwait(&set, &got), 0);
            assert_int_equal(pthread_sigmask(SIG_UNBLOCK, &set, NULL), 0);
        }
        test_cluster_start(&cluster, task);
        (void)ps_session_close(s); /* whatever it says of the push */
    }
    assert_true(atomic_load(&held) > 0);
    assert_int_equal(atomic_load(&bare), 0);
}

/* ---- late ---- */

static atomic_int late_lines;

static void count_late(void *ctx, ps_log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    if (strstr(line, "ev=progress_late") != NULL) {
        atomic_fetch_add(&late_lines, 1);
    }
}

static void a_program_that_comes_back_late(void **state)
{
    (void)state;
    ps_session_options o;
    ps_session *s = NULL;
    char error[512];
    ps_session_options_init(&o);
    o.target = cluster.address[0];
    o.progress = PS_PROGRESS_CALLER;
    o.log = count_late;
    assert_int_equal(ps_session_open(&o, &s, error, sizeof(error)), PS_OK);
    ps_variable *v = get(s, "progress/late", PS_I64, PS_SCALAR, NULL);
    int64_t one = 1;
    int64_t value = 0;
    assert_int_equal(ps_variable_init(v, false), PS_OK);
    assert_int_equal(ps_variable_assign_add(v, &one, sizeof(one), &value, sizeof(value)), PS_OK);
    assert_int_equal(atomic_load(&late_lines), 0);
    atomic_fetch_add(&skipped_s, 5); /* shorter than the lease of 10 s, also where this process stands still for a while */
    assert_int_equal(ps_variable_assign_add(v, &one, sizeof(one), &value, sizeof(value)), PS_OK);
    assert_int_equal(atomic_load(&late_lines), 0);
    for (int i = 1; i <= 3; i++) {
        atomic_fetch_add(&skipped_s, 11);
        assert_int_equal(ps_variable_assign_add(v, &one, sizeof(one), &value, sizeof(value)), PS_OK); /* reconnects and resumes */
        assert_int_equal(atomic_load(&late_lines), i);
        assert_int_equal(value, 2 + i);
    }
    assert_int_equal(ps_session_close(s), 0);
}

/* ---- what a call costs ---- */

enum { CALLS = 200 };

static void set_done(void *ctx, ps_request *req, const ps_result *result)
{
    (void)req;
    assert_int_equal(result->status, PS_OK);
    *(bool *)ctx = true;
}

/* Nobody is woken for the work of a thread that drives the loop itself, and fork is noticed without asking. */
static void a_blocking_call_wakes_nobody(void **state)
{
    (void)state;
    ps_session *s = open_session(30000);
    ps_variable *v = get(s, "progress/cost", PS_I64, PS_SCALAR, NULL);
    int64_t one = 1;
    int64_t value = 0;
    assert_int_equal(ps_variable_init(v, false), PS_OK);
    int pids = atomic_load(&getpids);
    int woken = atomic_load(&wakes);
    for (int i = 0; i < CALLS; i++) {
        assert_int_equal(ps_variable_assign_add(v, &one, sizeof(one), &value, sizeof(value)), PS_OK);
    }
    assert_int_equal(value, CALLS);
    ps_request req = {0};
    bool done = false;
    assert_true(ps_progress_timeout_ms(s) >= 0);
    for (int i = 0; i < CALLS; i++) { /* nor for what it starts before it drives */
        done = false;
        assert_int_equal(ps_pull_start(v, &value, sizeof(value), 0, &req, set_done, &done), PS_OK);
        assert_int_equal(ps_progress_timeout_ms(s), 0);
        while (!done) {
            assert_int_equal(ps_progress_run(s, 1000), PS_OK);
        }
    }
    assert_int_equal(atomic_load(&getpids), pids);
    assert_int_equal(atomic_load(&wakes), woken);
    assert_int_equal(ps_session_close(s), 0);
}

/* What ends without an answer of the task ends in the turn that begins it, not with the next tick of 25 ms. */
static void what_ends_at_once_does_not_wait(void **state)
{
    (void)state;
    ps_session *s = open_session(30000);
    ps_variable *v = get(s, "progress/gone", PS_I64, PS_SCALAR, NULL);
    int64_t value = 0;
    assert_int_equal(ps_variable_init(v, false), PS_OK);
    assert_int_equal(ps_variable_read(v, &value, sizeof(value)), PS_OK);
    assert_int_equal(ps_variable_delete(s, "progress/gone"), PS_OK);
    assert_int_equal(ps_variable_read(v, &value, sizeof(value)), PS_ABORTED);
    int waited = atomic_load(&waits);
    assert_true(waited > 0); /* for the answers of the tasks */
    for (int i = 0; i < CALLS; i++) {
        assert_int_equal(ps_variable_read(v, &value, sizeof(value)), PS_ABORTED);
    }
    assert_int_equal(atomic_load(&waits), waited);
    assert_int_equal(ps_session_close(s), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_poll_loop),
        cmocka_unit_test(refusals),
        cmocka_unit_test(one_thread_drives_others_call),
        cmocka_unit_test(a_program_that_comes_back_late),
        cmocka_unit_test(a_blocking_call_wakes_nobody),
        cmocka_unit_test(what_ends_at_once_does_not_wait),
        cmocka_unit_test(a_task_that_dies_while_much_is_written),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
