/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Monitored sessions in processes of their own, two ps tasks at level memory. A ps is killed (-9) at a random moment of training
 * and started again, the directory's task as well as the other one: no worker ends, what the restore function imports is the last
 * export, nothing is lost that is older than it. The chief is killed at a random moment from its start on: another worker takes
 * its place and training goes on; it is stopped (SIGSTOP) for longer than its lease, and woken: it trains on as a worker.
 *
 * The loss is the distance of w to a target, the gradient that distance: whatever is pushed twice or not at all, enough steps
 * lead there, and only they do.
 *
 * MONITORED_KILLS=20 kills that many of each; SEED repeats a run. test-timeout: 900
 */
#include "daemon.h"
#include "ps.h"

#include <math.h>
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
#include <time.h>
#include <unistd.h>
/* after setjmp.h and stdarg.h */
#include <cmocka.h>

enum { TASKS = 2, WORKERS = 3, WIDTH = 500, PATIENCE_MS = 60000, LEASE_MS = 3000, EXPORT_EVERY = 5, LEARNS = 400 };
static const float target = 3;

/* Of one process, in memory that outlives it. */
struct life {
    atomic_int steps;      /* that it has completed */
    atomic_int recoveries; /* as ps_monitored_last_recovery() counts them */
    atomic_int lines;      /* "recovered" of its log */
    atomic_bool chief, over;
    ps_recovery last;
    ps_status status;
    char text[600];
    float distance; /* at its end */
};
static struct shared {
    atomic_bool stop;
    _Atomic int64_t exported; /* step of the last export that was over, -1: none */
    _Atomic int64_t restored; /* step of the last restore */
    _Atomic int64_t highest;  /* global step that was answered to anybody */
    atomic_int restores;
    char container[32];
    struct life life[WORKERS];
} * shared;

static struct test_cluster cluster;
static pid_t children[WORKERS]; /* 0: none */
static char folder[] = "/tmp/monitored-XXXXXX", file_path[64], next_path[64];
static uint64_t seed, state;
static int kills = 3;

static uint64_t draw(uint64_t below)
{
    state += UINT64_C(0x9e3779b97f4a7c15); /* SplitMix64 */
    uint64_t z = state;
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (z ^ z >> 31) % below;
}

static int64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- a worker ---- */

static void look(void *ctx, ps_log_level level, const char *line)
{
    struct life *life = ctx;
    (void)level;
    atomic_fetch_add(&life->lines, strstr(line, " ev=recovered ") != NULL ? 1 : 0);
    if (getenv("MONITORED_LOG") != NULL) {
        (void)fprintf(stderr, "%d: %s\n", (int)(life - shared->life), line);
    }
}

static ps_status restore(void *ctx, ps_session *s)
{
    ps_variable *step = NULL;
    int64_t value = 0;
    (void)ctx;
    if (access(file_path, R_OK) != 0) {
        return PS_OK; /* there was no export yet: initialise */
    }
    atomic_fetch_add(&shared->restores, 1);
    ps_status st = ps_import(s, file_path, NULL, NULL);
    st = st == PS_OK ? ps_global_step_get(s, &step) : st;
    st = st == PS_OK ? ps_variable_read(step, &value, sizeof(value)) : st;
    atomic_store(&shared->restored, value);
    return st;
}

/* Whole, or not at all: a task that came back empty meanwhile is an error, or its variables lack. */
static void export_now(ps_session *s)
{
    int count = 0;
    const int64_t step = ps_global_step(s);
    if (ps_export(s, next_path, NULL, &count) == PS_OK && count == 3 && rename(next_path, file_path) == 0) {
        atomic_store(&shared->exported, step);
    }
}

static void raise_highest(int64_t step)
{
    int64_t was = atomic_load(&shared->highest);
    while (was < step && !atomic_compare_exchange_weak(&shared->highest, &was, step)) {
    }
}

static void learn(ps_param *p)
{
    float *grad = ps_param_grad(p);
    const float *value = ps_param_value(p);
    for (int i = 0; i < WIDTH; i++) {
        grad[i] = value[i] - target;
    }
}

static float distance(const float *value)
{
    float most = 0;
    for (int i = 0; i < WIDTH; i++) {
        most = fmaxf(most, fabsf(value[i] - target));
    }
    return most;
}

static int worker(int i)
{
    struct life *life = &shared->life[i];
    ps_session_options o;
    ps_monitored_options m;
    ps_session *s = NULL;
    char error[512] = "";
    ps_session_options_init(&o);
    ps_monitored_options_init(&m);
    o.cluster_spec = cluster.spec;
    o.job = "worker";
    o.task_index = (uint32_t)i;
    o.container = shared->container;
    o.log = look;
    o.log_ctx = life;
    m.restore = restore;
    if (ps_monitored_open(&o, &m, &s, error, sizeof(error)) != PS_OK) {
        (void)fprintf(stderr, "ps_monitored_open: %s\n", error);
        return 3;
    }
    ps_param *w = ps_param_get(s, "w", PS_SHAPE(WIDTH), ps_zeros(), ps_sgd(0.05));
    ps_param *b = ps_param_get(s, "b", PS_SHAPE(WIDTH), ps_zeros(), ps_sgd(0.05));
    ps_session_ready(s);
    while (!ps_should_stop(s) && !atomic_load(&shared->stop)) {
        ps_recovery last = {.struct_bytes = sizeof(last)};
        ps_pull(s);
        learn(w), learn(b);
        ps_push(s, w), ps_push(s, b);
        if (ps_step_done(s) == PS_OK) {
            raise_highest(ps_global_step(s));
            atomic_fetch_add(&life->steps, 1);
        }
        atomic_store(&life->chief, ps_is_chief(s));
        if (ps_monitored_last_recovery(s, &last) == PS_OK) {
            life->last = last;
            atomic_store(&life->recoveries, (int)last.count);
        }
        if (ps_is_chief(s) && atomic_load(&life->steps) % EXPORT_EVERY == 0 && ps_session_status(s) == PS_OK) {
            export_now(s);
        }
        (void)usleep(1000); /* sleep: two cores, five processes */
    }
    life->distance = ps_pull(s) == PS_OK ? fmaxf(distance(ps_param_value(w)), distance(ps_param_value(b))) : 1e9F;
    life->status = ps_session_status(s);
    (void)snprintf(life->text, sizeof(life->text), "%s", ps_session_error(s));
    const int code = ps_session_close(s);
    atomic_store(&life->over, true);
    return code;
}

/* ---- the processes ---- */

static void say_where(const char *what)
{
    print_error("SEED=%llu, %s: highest step %lld, exported %lld, restored %lld\n", (unsigned long long)seed, what,
                (long long)atomic_load(&shared->highest), (long long)atomic_load(&shared->exported),
                (long long)atomic_load(&shared->restored));
    for (int i = 0; i < WORKERS; i++) {
        const struct life *l = &shared->life[i];
        print_error("  worker %d%s: %d steps, %d recoveries, %s %s %s\n", i, l->chief ? " (chief)" : "", (int)l->steps,
                    (int)l->recoveries, l->over ? "over" : "runs", ps_status_name(l->status), l->text);
    }
}

#define holds(condition_, what_)                                                                                                 \
    do {                                                                                                                         \
        if (!(condition_)) {                                                                                                     \
            say_where(what_);                                                                                                    \
            fail_msg("%s", #condition_);                                                                                         \
        }                                                                                                                        \
    } while (0)

static void start_worker(int i)
{
    memset(&shared->life[i], 0, sizeof(shared->life[i]));
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
            _exit(4);
        }
        _exit(worker(i));
    }
    children[i] = pid;
}

static void kill_worker(int i)
{
    int status = 0;
    assert_int_equal(kill(children[i], SIGKILL), 0);
    assert_int_equal(waitpid(children[i], &status, 0), children[i]);
    holds(WIFSIGNALED(status), "it had ended before");
    children[i] = 0;
    shared->life[i].chief = false;
}

static void sleep_us(uint64_t us)
{
    (void)usleep((useconds_t)us); /* sleep: the moment is random */
}

/* A child has ended by itself. */
static bool any_ended(void)
{
    siginfo_t info = {0};
    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0 && info.si_pid != cluster.pid[0] &&
           info.si_pid != cluster.pid[1];
}

/* Every worker there is gets to the end of `more` further steps. */
static void await_steps(int more, const char *what)
{
    int before[WORKERS];
    const int64_t end = now_ms() + PATIENCE_MS;
    for (int i = 0; i < WORKERS; i++) {
        before[i] = atomic_load(&shared->life[i].steps);
    }
    for (int i = 0; i < WORKERS; i++) {
        while (children[i] != 0 && atomic_load(&shared->life[i].steps) < before[i] + more) {
            holds(now_ms() < end && !any_ended(), what);
            sleep_us(1000);
        }
    }
}

static int await_chief(int not_this, const char *what)
{
    const int64_t end = now_ms() + PATIENCE_MS;
    for (;;) {
        for (int i = 0; i < WORKERS; i++) {
            if (i != not_this && children[i] != 0 && atomic_load(&shared->life[i].chief)) {
                return i;
            }
        }
        holds(now_ms() < end && !any_ended(), what);
        sleep_us(1000);
    }
}

static void begin(const char *container)
{
    memset(shared, 0, sizeof(*shared));
    atomic_store(&shared->exported, -1);
    (void)snprintf(shared->container, sizeof(shared->container), "%s", container);
    (void)unlink(file_path);
}

/* All end well, and the model is trained. */
static void end_all(const char *what)
{
    await_steps(LEARNS / WORKERS, what);
    atomic_store(&shared->stop, true);
    for (int i = 0; i < WORKERS; i++) {
        int status = 0;
        if (children[i] != 0) {
            assert_int_equal(waitpid(children[i], &status, 0), children[i]);
            children[i] = 0;
            holds(WIFEXITED(status) && WEXITSTATUS(status) == 0, what);
            holds(shared->life[i].distance < 0.01F, what);
            holds(shared->life[i].lines == shared->life[i].recoveries, what);
        }
    }
}

static int setup(void **unused)
{
    static char lease[] = "--lease=3s"; /* longer than a busy machine stands still */
    static char beat[] = "--beat=250ms";
    static char *const flags[] = {lease, beat, NULL};
    (void)unused;
    test_cluster_init(&cluster, TASKS, ";worker=127.0.0.1:1,127.0.0.1:2,127.0.0.1:3");
    cluster.flags = flags;
    test_cluster_start_all(&cluster);
    return 0;
}

static int teardown(void **unused)
{
    (void)unused;
    for (int i = 0; i < WORKERS; i++) {
        if (children[i] != 0) {
            (void)kill(children[i], SIGKILL);
            (void)waitpid(children[i], NULL, 0);
            children[i] = 0;
        }
    }
    test_cluster_fini(&cluster);
    return 0;
}

/* ---- a ps is killed ---- */

static void test_ps_killed(void **unused)
{
    int64_t cost = 0;
    (void)unused;
    begin("ps");
    for (int i = 0; i < WORKERS; i++) {
        start_worker(i);
    }
    await_steps(EXPORT_EVERY, "the start");
    for (int k = 0; k < 2 * kills; k++) {
        const int task = k % 2;
        char what[100];
        sleep_us(draw(300000));
        const int64_t exported = atomic_load(&shared->exported);
        const int64_t highest = atomic_load(&shared->highest);
        const int before = atomic_load(&shared->restores);
        int recoveries[WORKERS];
        for (int i = 0; i < WORKERS; i++) {
            recoveries[i] = atomic_load(&shared->life[i].recoveries);
        }
        (void)snprintf(what, sizeof(what), "kill %d of ps %d", k, task);
        test_cluster_kill(&cluster, task);
        sleep_us(draw(200000));
        test_cluster_start(&cluster, task);
        await_steps(3, what); /* the first may have been all but over; the loop says how it goes after a step */
        holds(exported < 0 || atomic_load(&shared->restores) > before, what);
        holds(atomic_load(&shared->restored) >= exported, what); /* nothing older than the export is lost */
        cost += highest - atomic_load(&shared->restored);
        atomic_store(&shared->highest, 0);
        for (int i = 0; i < WORKERS; i++) {
            const ps_recovery *r = &shared->life[i].last;
            holds(shared->life[i].recoveries > recoveries[i], what);
            const int64_t kept = r->replaced ? r->model_step : r->step;
            holds(r->model_step <= r->step && r->lost_steps == (kept < r->step_before ? r->step_before - kept : 0), what);
        }
    }
    end_all("the end");
    print_message("%d kills of a ps, %d restores, %lld steps lost in all\n", 2 * kills, (int)shared->restores, (long long)cost);
}

/* ---- the chief is killed, or stands still ---- */

static void test_chief_killed(void **unused)
{
    int64_t longest = 0;
    (void)unused;
    for (int k = 0; k < kills; k++) {
        char what[100];
        char container[32];
        (void)snprintf(container, sizeof(container), "chief%d", k);
        begin(container);
        for (int i = 0; i < WORKERS; i++) {
            start_worker(i);
        }
        sleep_us(draw(k % 2 == 0 ? 50000 : 1000000)); /* also while it initialises */
        (void)snprintf(what, sizeof(what), "kill %d of the chief", k);
        const int64_t killed = now_ms();
        const int64_t highest = atomic_load(&shared->highest);
        kill_worker(0);
        const int next = await_chief(0, what);
        const int64_t took = now_ms() - killed;
        longest = took > longest ? took : longest;
        await_steps(1, what);
        holds(atomic_load(&shared->highest) >= highest, what);
        start_worker(0); /* it finds a live model, and somebody else as the chief */
        await_steps(1, what);
        holds(!atomic_load(&shared->life[0].chief) && atomic_load(&shared->life[next].chief), what);
        holds(atomic_load(&shared->restores) == 0, what);
        end_all(what);
    }
    print_message("%d kills of the chief: the next one at the latest after %lld ms, with a lease of %d ms\n", kills,
                  (long long)longest, LEASE_MS);
}

static void test_chief_stands_still(void **unused)
{
    (void)unused;
    begin("still");
    for (int i = 0; i < WORKERS; i++) {
        start_worker(i);
    }
    await_steps(1, "the start");
    const int first = await_chief(-1, "the first chief");
    assert_int_equal(kill(children[first], SIGSTOP), 0);
    const int next = await_chief(first, "the next chief");
    assert_int_equal(kill(children[first], SIGCONT), 0);
    await_steps(5, "woken");
    holds(!atomic_load(&shared->life[first].chief), "woken: it is no chief any more");
    holds(atomic_load(&shared->life[next].chief), "woken: the other one is");
    end_all("woken");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_ps_killed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_chief_killed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_chief_stands_still, setup, teardown),
    };
    kills = getenv("MONITORED_KILLS") != NULL ? (int)strtol(getenv("MONITORED_KILLS"), NULL, 10) : kills;
    seed = getenv("SEED") != NULL ? strtoull(getenv("SEED"), NULL, 0) : (uint64_t)time(NULL);
    state = seed;
    print_message("SEED=%llu\n", (unsigned long long)seed);
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || mkdtemp(folder) == NULL) {
        return 1;
    }
    (void)snprintf(file_path, sizeof(file_path), "%s/model", folder);
    (void)snprintf(next_path, sizeof(next_path), "%s/next", folder);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)unlink(file_path);
    (void)unlink(next_path);
    (void)rmdir(folder);
    return failed;
}
