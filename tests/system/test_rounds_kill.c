/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three workers in rounds, gradient 1 and rate 1: a round takes 1 from every element on every task. A worker, the directory's
 * task or another ps is killed (-9) at a random moment, and started again or not, under each policy for lost workers. An observer
 * reads all the while: every element on a living task is always -(rounds that were answered, or one more). Every worker ends as
 * the policy says, or with a typed error that names what is missing; none hangs.
 *
 * ROUNDS_KILLS=50 kills that many workers, and the directory and another ps 20 times each (four tenths); SEED repeats a run, CASE
 * with it one kill of it. test-timeout: 900
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
#include <time.h>
#include <unistd.h>
/* after setjmp.h and stdarg.h */
#include <cmocka.h>

enum {
    TASKS = 3,
    WORKERS = 3,
    OBSERVER = 2 * WORKERS, /* among the processes */
    VARIABLES = 6,
    TRIES = 5,
    LARGE = 150000, /* elements: built in several slices, pulled in several frames */
    SMALL = 100,
    ON_MS = 20000,   /* operations of a run that is to go on */
    OVER_MS = 5000,  /* of one that ends by its deadline */
    HANGS_MS = 90000 /* nobody is so slow */
};
enum victim { WORKER, DIRECTORY, OWNER };

/* One run: what is killed, and what is done about it. */
struct plan {
    int number;
    enum victim victim;
    int who; /* WORKER: which */
    ps_worker_loss on_loss;
    uint32_t replicas;
    bool again; /* it is started again */
    bool bare;  /* the directory has no variables */
    bool early; /* any moment from the start on, also while they join; otherwise after a round */
    int64_t us; /* so long after that */
    int64_t ms; /* of an operation */
};

/* In memory that outlives the processes. */
struct end {
    _Atomic int steps; /* answered to this process */
    atomic_bool over;  /* it says no more */
    ps_status status;  /* of its session */
    ps_reason reason;
    char text[400];
};
static struct shared {
    atomic_bool stop, observed;
    atomic_bool finish;             /* the observer: a last look */
    _Atomic int64_t answered;       /* the highest round that was answered to anybody */
    _Atomic int64_t last_round;     /* the round after which all stop; 0: not said yet */
    _Atomic int looks;              /* of the observer: all that it could read */
    struct end worker[2 * WORKERS]; /* from WORKERS on: of the one that was started again */
    struct end observer;
    struct {
        bool read;
        float least, most;
    } last[VARIABLES];
    int64_t last_step; /* -1: not read */
} * shared;

static struct test_cluster cluster;
static struct plan plan;
static pid_t children[OBSERVER + 1]; /* of this run; 0: none */
/* On a busy machine a worker heard too late for whom its round waits: the directory says so 250 ms before the deadline. */
static bool unanswered;
static uint64_t seed, state;
static int64_t kills = 5, only = -1;

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

static void no_log(void *ctx, ps_log_level level, const char *line)
{
    (void)level;
    if (getenv("ROUNDS_LOG") != NULL) {
        (void)fprintf(stderr, "%s: %s\n", (const char *)ctx, line);
    }
}

/* ---- the model ---- */

static int64_t elements(int i)
{
    return i == 0 ? LARGE : SMALL;
}

static int task_of(int i)
{
    return plan.bare ? 1 + i % 2 : i % TASKS;
}

static ps_session *open_as(const char *job, int task)
{
    static char who[32];
    ps_session_options o;
    ps_session *s = NULL;
    char error[512];
    ps_session_options_init(&o);
    o.cluster_spec = cluster.spec;
    o.job = job;
    o.task_index = (uint32_t)task;
    o.operation_timeout_ms = job != NULL ? plan.ms : 500;
    o.ready_timeout_ms = plan.ms;
    o.log = no_log;
    (void)snprintf(who, sizeof(who), "%s %d", job != NULL ? job : "observer", task);
    o.log_ctx = who;
    if (ps_session_open(&o, &s, error, sizeof(error)) != PS_OK) {
        (void)fprintf(stderr, "ps_session_open: %s\n", error);
        _exit(3);
    }
    return s;
}

static void model(ps_session *s, ps_param **out)
{
    char name[32], device[64];
    ps_variable *step = NULL;
    for (int i = 0; i < VARIABLES; i++) {
        (void)snprintf(name, sizeof(name), "w%d", i);
        (void)snprintf(device, sizeof(device), "/job:ps/task:%d", task_of(i));
        (void)ps_device_push(s, device); /* errors stick to the session */
        out[i] = ps_param_get(s, name, PS_SHAPE(elements(i)), ps_zeros(), ps_sgd(1));
        (void)ps_device_pop(s);
    }
    (void)ps_device_push(s, plan.bare ? "/job:ps/task:2" : "/job:ps/task:1");
    (void)ps_global_step_get(s, &step);
    (void)ps_device_pop(s);
}

/* ---- the processes ---- */

static pid_t process(int (*run)(int), int i)
{
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
            _exit(4);
        }
        _exit(run(i));
    }
    return pid;
}

static void raise_answered(int64_t round)
{
    int64_t was = atomic_load(&shared->answered);
    while (was < round && !atomic_compare_exchange_weak(&shared->answered, &was, round)) {
    }
}

static int end_of(struct end *end, ps_session *s)
{
    end->status = ps_session_status(s);
    end->reason = ps_session_reason(s);
    (void)snprintf(end->text, sizeof(end->text), "%s", ps_session_error(s));
    (void)ps_session_close(s);
    atomic_store(&end->over, true);
    return 0;
}

/* All elements of what was pulled for round `round`: nobody else goes on without this worker, unless enough others may. */
static void check_pulled(ps_session *s, ps_param *const *params, int64_t round, bool alone)
{
    for (int i = 0; i < VARIABLES; i++) {
        const float *v = ps_param_value(params[i]);
        for (int64_t k = 0; k < elements(i); k++) {
            if (v[k] > -(float)round || (alone && v[k] != -(float)round)) {
                char text[200];
                (void)snprintf(text, sizeof(text), "WRONG VALUE: %s[%lld] is %g after round %lld", ps_param_name(params[i]),
                               (long long)k, (double)v[k], (long long)round);
                (void)ps_session_fail(s, PS_DATA_LOSS, text);
                return;
            }
        }
    }
}

/* All stop after the same round: one that began another would wait there for those who have stopped. */
static bool another_round(ps_session *s)
{
    int64_t none = 0;
    if (atomic_load(&shared->stop)) {
        (void)atomic_compare_exchange_strong(&shared->last_round, &none, ps_global_step(s) + 1);
    }
    const int64_t last = atomic_load(&shared->last_round);
    return ps_session_status(s) == PS_OK && (last == 0 || ps_global_step(s) < last);
}

static int worker(int i)
{
    struct end *end = &shared->worker[i];
    ps_param *params[VARIABLES];
    ps_sync_options sync;
    ps_session *s = open_as("worker", i % WORKERS);
    ps_sync_options_init(&sync);
    sync.workers = WORKERS;
    sync.on_worker_loss = plan.on_loss;
    sync.replicas_to_aggregate = plan.replicas;
    (void)ps_session_sync(s, &sync); /* errors stick to the session */
    model(s, params);
    (void)ps_session_ready(s);
    while (another_round(s)) {
        int64_t dropped = ps_dropped(s);
        for (int k = 0; k < VARIABLES; k++) {
            float *grad = ps_param_grad(params[k]);
            for (int64_t e = 0; e < elements(k); e++) {
                grad[e] = 1;
            }
            (void)ps_push(s, params[k]);
        }
        if (ps_step_done(s) == PS_OK) {
            int64_t round = ps_global_step(s);
            raise_answered(round);
            end->steps++;
            if (ps_pull(s) == PS_OK) {
                check_pulled(s, params, round, plan.replicas == 0 && ps_dropped(s) == dropped && plan.on_loss == PS_LOSS_WAIT);
            }
        }
    }
    return end_of(end, s);
}

/* Every element of v between -most and -least; what it saw goes to out. Returns whether it could be read. */
static bool look_at(ps_session *s, int i, float *buffer, float *out_least, float *out_most)
{
    static ps_variable *found[VARIABLES];
    char name[32];
    (void)snprintf(name, sizeof(name), "w%d", i);
    if (found[i] == NULL && ps_variable_find(s, name, &found[i]) != PS_OK) {
        return false;
    }
    if (ps_variable_read(found[i], buffer, sizeof(float) * (size_t)elements(i)) != PS_OK) {
        return false;
    }
    *out_least = *out_most = buffer[0];
    for (int64_t k = 1; k < elements(i); k++) {
        *out_least = buffer[k] < *out_least ? buffer[k] : *out_least;
        *out_most = buffer[k] > *out_most ? buffer[k] : *out_most;
    }
    return true;
}

static bool look(ps_session *s, float *buffer, bool last)
{
    bool any = false;
    for (int i = 0; i < VARIABLES; i++) {
        float least = 0, most = 0;
        int64_t before = atomic_load(&shared->answered);
        bool read = look_at(s, i, buffer, &least, &most);
        int64_t after = atomic_load(&shared->answered);
        any = any || read;
        if (last) {
            shared->last[i].read = read;
            shared->last[i].least = least;
            shared->last[i].most = most;
        }
        if (read && (most > -(float)before || least < -(float)(after + 1))) {
            (void)snprintf(shared->observer.text, sizeof(shared->observer.text),
                           "w%d has elements from %g to %g; answered were %lld rounds before, %lld after it was read", i,
                           (double)least, (double)most, (long long)before, (long long)after);
            shared->observer.status = PS_DATA_LOSS;
        }
    }
    return any;
}

/* All tasks and variables are there at the end. */
static bool all_live(void)
{
    return plan.victim == WORKER || (plan.victim == DIRECTORY && plan.bare && plan.again);
}

static int observe(int i)
{
    (void)i;
    float *buffer = malloc(sizeof(float) * LARGE);
    ps_session *s = open_as(NULL, 0);
    ps_variable *step = NULL;
    int64_t value = -1;
    while (!atomic_load(&shared->finish) && shared->observer.status == PS_OK) {
        shared->looks += look(s, buffer, false);
        (void)usleep(1000); /* sleep: the others have work to do */
    }
    if (shared->observer.status == PS_OK) {
        ps_session_set_deadline(s, all_live() ? ON_MS : 0); /* what a busy machine takes */
        (void)look(s, buffer, true);
        if (ps_variable_find(s, "global_step", &step) == PS_OK && ps_variable_read(step, &value, sizeof(value)) == PS_OK) {
            shared->last_step = value;
        }
    }
    (void)ps_session_close(s);
    free(buffer);
    return 0;
}

/* ---- one run ---- */

static const char *victim_text(char *text, size_t n)
{
    static const char *const losses[] = {"wait", "shrink", "fail"};
    (void)snprintf(text, n, "SEED=%llu CASE=%d: %s %d killed %s+%lld us, %s, %s, %u of 3%s", (unsigned long long)seed,
                   plan.number, plan.victim == WORKER ? "worker" : "ps",
                   plan.victim == WORKER  ? plan.who
                   : plan.victim == OWNER ? 2
                                          : 0,
                   plan.early ? "start" : "a round", (long long)plan.us, plan.again ? "restarted" : "gone", losses[plan.on_loss],
                   plan.replicas == 0 ? 3 : plan.replicas, plan.bare ? ", directory without variables" : "");
    return text;
}

#define ends_here(condition_, ...)                                                                                               \
    do {                                                                                                                         \
        if (!(condition_)) {                                                                                                     \
            print_error("%s\n", victim_text((char[300]){0}, 300));                                                               \
            for (int w_ = 0; w_ < 2 * WORKERS; w_++) {                                                                           \
                const struct end *e_ = &shared->worker[w_];                                                                      \
                print_error("  worker %d%s: %d steps, %s %s: %s\n", w_ % WORKERS, w_ < WORKERS ? "" : " again", (int)e_->steps,  \
                            e_->over ? "over" : "runs", ps_status_name(e_->status), e_->text);                                   \
            }                                                                                                                    \
            print_error("  %lld rounds were answered\n", (long long)shared->answered);                                           \
            fail_msg(__VA_ARGS__);                                                                                               \
        }                                                                                                                        \
    } while (0)

/* Until then, or all who live have ended: false. */
static bool until_round(int64_t round)
{
    int64_t end = now_ms() + HANGS_MS;
    while (atomic_load(&shared->answered) < round) {
        bool live = false;
        for (int i = 0; i < 2 * WORKERS; i++) {
            live = live || (children[i] != 0 && !atomic_load(&shared->worker[i].over));
        }
        if (!live) {
            return false;
        }
        ends_here(now_ms() < end, "no round %lld", (long long)round);
        (void)usleep(200); /* sleep: other processes work, and nothing tells this one */
    }
    return true;
}

static void until_looked(void)
{
    int64_t end = now_ms() + HANGS_MS;
    while (atomic_load(&shared->looks) == 0) {
        ends_here(now_ms() < end, "the observer could read nothing");
        (void)usleep(200); /* sleep: the observer is another process, and nothing tells this one */
    }
}

/* It ends by itself. */
static void join(int child, const char *who)
{
    int status = 0;
    int64_t end = now_ms() + HANGS_MS;
    while (waitpid(children[child], &status, WNOHANG) == 0) {
        ends_here(now_ms() < end, "%s hangs", who);
        (void)usleep(1000); /* sleep: waits for the end of a child, within HANGS_MS */
    }
    children[child] = 0;
    ends_here(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s ended with %d", who, status);
}

static void kill_it(void)
{
    if (plan.victim == WORKER) {
        int status = 0;
        assert_int_equal(kill(children[plan.who], SIGKILL), 0);
        assert_int_equal(waitpid(children[plan.who], &status, 0), children[plan.who]);
        children[plan.who] = 0;
        if (plan.again) {
            children[WORKERS + plan.who] = process(worker, WORKERS + plan.who);
        }
        return;
    }
    int task = plan.victim == OWNER ? 2 : 0;
    test_cluster_kill(&cluster, task);
    if (plan.again) {
        test_cluster_start(&cluster, task);
    }
}

static bool is_typed(const struct end *e)
{
    return e->status == PS_DEADLINE_EXCEEDED || e->status == PS_ABORTED || e->status == PS_UNAVAILABLE ||
           (e->status == PS_DATA_LOSS && strstr(e->text, "WRONG VALUE") == NULL) || e->status == PS_FAILED_PRECONDITION;
}

/* Who ended by its deadline is a loss, of which those hear under `fail` who wait a little longer. */
static bool heard_of_another(const struct end *e)
{
    bool before = false;
    for (int i = 0; i < WORKERS; i++) {
        const struct end *other = &shared->worker[i];
        char name[64];
        (void)snprintf(name, sizeof(name), "/job:worker/task:%d is lost", i);
        before = before || (other->status != PS_ABORTED && strstr(e->text, name) != NULL);
    }
    return before && plan.on_loss == PS_LOSS_FAIL && e->status == PS_ABORTED;
}

/* What those say who were there at the kill, once a round had been answered. */
static void check_survivor(const struct end *e, int i, bool goes_on)
{
    if (goes_on) {
        ends_here(e->status == PS_OK, "worker %d does not go on", i);
    } else if (plan.victim == WORKER && plan.on_loss == PS_LOSS_FAIL) {
        /* one that comes back before its lease is over takes its place, which is no loss */
        ends_here(e->status == PS_ABORTED || (plan.again && e->status == PS_OK), "worker %d does not fail", i);
    } else if (plan.victim == WORKER) {
        char name[64];
        (void)snprintf(name, sizeof(name), "/job:worker/task:%d", plan.who);
        ends_here(e->status == PS_DEADLINE_EXCEEDED, "worker %d does not end by its deadline", i);
        unanswered = unanswered || strstr(e->text, "no answer within") != NULL;
        ends_here(unanswered || strstr(e->text, name) != NULL, "worker %d does not name %s", i, name);
    } else if (plan.again) {
        /* who hears of it first ends, and is a loss for the others */
        ends_here(e->status == PS_ABORTED && (e->reason == PS_REASON_LOST || plan.on_loss == PS_LOSS_FAIL),
                  "worker %d does not say that variables are lost", i);
    } else {
        ends_here(e->status == PS_DEADLINE_EXCEEDED || e->status == PS_UNAVAILABLE || heard_of_another(e),
                  "worker %d does not say who is missing", i);
    }
}

static void check_values(bool all_there)
{
    int64_t answered = shared->answered;
    float first = 0;
    bool any = false;
    ends_here(shared->observer.status == PS_OK, "%s", shared->observer.text);
    for (int i = 0; i < VARIABLES; i++) {
        if (!shared->last[i].read) {
            ends_here(!all_there, "w%d cannot be read", i);
            continue;
        }
        float least = shared->last[i].least, most = shared->last[i].most;
        ends_here(least == most, "w%d has %g and %g", i, (double)least, (double)most);
        ends_here(least == -(float)answered || least == -(float)(answered + 1), "w%d is %g", i, (double)least);
        ends_here(!all_there || !any || least == first, "w%d is %g, another is %g", i, (double)least, (double)first);
        first = least;
        any = true;
    }
    ends_here(!all_there || (float)shared->last_step == -first, "the global step is %lld, values are %g",
              (long long)shared->last_step, (double)first);
}

static void run(void)
{
    static char *flags[] = {"--lease", "1500ms", "--beat", "200ms", "--log_level", "error", NULL};
    memset(shared, 0, sizeof(*shared));
    shared->last_step = -1;
    test_cluster_init(&cluster, TASKS, ";worker=127.0.0.1:1,127.0.0.1:2,127.0.0.1:3");
    cluster.flags = flags;
    test_cluster_start_all(&cluster);
    for (int i = 0; i < WORKERS; i++) {
        children[i] = process(worker, i);
    }
    children[OBSERVER] = process(observe, 0);
    if (!plan.early && until_round(1)) {
        until_looked();
    }
    (void)usleep((useconds_t)plan.us); /* sleep: until the random moment */
    bool begun = atomic_load(&shared->answered) > 0;
    kill_it();
    int64_t then = atomic_load(&shared->answered);
    bool empty = plan.again && (plan.victim == OWNER || (plan.victim == DIRECTORY && !plan.bare)); /* it lost variables */
    bool goes_on =
        (plan.again && !empty && !(plan.victim == WORKER && plan.on_loss == PS_LOSS_FAIL)) ||
        (plan.victim == WORKER && (plan.on_loss == PS_LOSS_SHRINK || (plan.replicas == 2 && plan.on_loss == PS_LOSS_WAIT)));
    bool went_on = until_round(then + 4);
    bool there[2 * WORKERS];
    atomic_store(&shared->stop, true);
    for (int i = 0; i < 2 * WORKERS; i++) {
        there[i] = children[i] != 0;
        if (there[i]) {
            char who[32];
            (void)snprintf(who, sizeof(who), "worker %d%s", i % WORKERS, i < WORKERS ? "" : " again");
            join(i, who);
        }
    }
    atomic_store(&shared->finish, true);
    join(OBSERVER, "the observer");
    for (int i = 0; i < 2 * WORKERS; i++) {
        const struct end *e = &shared->worker[i];
        ends_here(!there[i] || e->status == PS_OK || is_typed(e), "worker %d ended with what is no end", i);
        if (begun && there[i] && i < WORKERS) {
            check_survivor(e, i, goes_on);
        }
    }
    ends_here(!begun || !goes_on || went_on, "no rounds after it");
    check_values(begun && all_live());
    test_cluster_fini(&cluster);
}

/* ---- the cases ---- */

static void draw_plan(int number, enum victim victim, int index)
{
    state = seed + (uint64_t)number * 1000003;
    plan = (struct plan){.number = number, .victim = victim, .who = index % WORKERS};
    plan.on_loss = (ps_worker_loss)(index % 3);
    plan.again = index / 3 % 2 == 0;
    plan.bare = victim == DIRECTORY ? index % 4 != 3 : draw(2) == 0;
    plan.replicas = victim == WORKER && plan.on_loss != PS_LOSS_FAIL && draw(3) == 0 ? 2 : 0;
    plan.who = (int)draw(WORKERS);
    plan.early = draw(5) == 0;
    plan.us = (int64_t)draw(plan.early ? 150000 : 60000);
    bool waits = victim != WORKER || (plan.on_loss == PS_LOSS_WAIT && plan.replicas == 0); /* for who does not come back */
    plan.ms = plan.again ? ON_MS : waits ? OVER_MS : plan.early ? 3 * OVER_MS /* it may not have joined */ : ON_MS;
}

static void kill_many(enum victim victim, int64_t count, int first)
{
    for (int i = 0; i < count; i++) {
        draw_plan(first + i, victim, i);
        if (only >= 0 && only != plan.number) {
            continue;
        }
        int64_t begin = now_ms();
        for (int try = 0; try == 0 || unanswered; try++) {
            ends_here(try < TRIES, "the directory has never answered in time");
            unanswered = false;
            run();
        }
        if (getenv("ROUNDS_VERBOSE") != NULL) {
            print_message("%s: %lld rounds, %lld ms\n", victim_text((char[300]){0}, 300), (long long)shared->answered,
                          (long long)(now_ms() - begin));
        }
    }
}

static void a_worker(void **unused)
{
    (void)unused;
    kill_many(WORKER, kills, 0);
}

static void the_directory(void **unused)
{
    (void)unused;
    kill_many(DIRECTORY, (kills * 2 + 4) / 5, 1000);
}

static void another_ps(void **unused)
{
    (void)unused;
    kill_many(OWNER, (kills * 2 + 4) / 5, 2000);
}

static int clean(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof(children) / sizeof(children[0]); i++) { /* of a run that failed */
        if (children[i] != 0 && kill(children[i], SIGKILL) == 0) {
            (void)waitpid(children[i], NULL, 0);
        }
        children[i] = 0;
    }
    test_cluster_fini(&cluster);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(a_worker, clean),
                                       cmocka_unit_test_teardown(the_directory, clean),
                                       cmocka_unit_test_teardown(another_ps, clean)};
    const char *text = getenv("SEED");
    seed = text != NULL ? strtoull(text, NULL, 10) : (uint64_t)time(NULL) * 1000 + (uint64_t)getpid() % 1000;
    kills = getenv("ROUNDS_KILLS") != NULL ? strtoll(getenv("ROUNDS_KILLS"), NULL, 10) : kills;
    only = getenv("CASE") != NULL ? strtoll(getenv("CASE"), NULL, 10) : only;
    (void)printf("SEED=%llu\n", (unsigned long long)seed);
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        return 1;
    }
    return cmocka_run_group_tests_name("rounds_kill", tests, NULL, NULL);
}
