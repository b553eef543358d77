/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The longest stall of a task while a checkpoint of much that is small is written: 4,090 sessions with a record each, of which
 * the most do nothing any more, and a queue with 1,000,000 elements at one ps. One session reads a scalar, takes an element and
 * puts it back, one call after the other; in rounds, for a second without a checkpoint and then while one is written. What no
 * call may take is 5 ms, in a round where none takes that without a checkpoint, and where the machine itself never stood still
 * for 2 ms meanwhile: otherwise it was not quiet, and the round says nothing. That is how late a thread with real-time priority
 * wakes up, one for each CPU (without the right to have them the machine counts as quiet). Files on DIRECTORY. A line for each
 * round, then one JSON line; 1 where the must does not hold.
 *
 *   stall [SESSIONS] [ELEMENTS] [ROUNDS] [DIRECTORY]     4090, 1000000, 5, /dev/shm; from the root after `make bench-programs`
 */
#include "folder.h"
#include "session.h"

#include "ps_queue.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum {
    SESSIONS = 4090,
    PER_PROCESS = 256,
    PROCESSES_MAX = SESSIONS / PER_PROCESS + 1,
    ROUNDS_MAX = 99,
    WAIT_MS = 120000,
    MANY = 1000
};
#define MUST_MS 5.0
#define QUIET_MS 2.0
#define CALM_S 1.0

static ps_queue *queue;
static ps_variable *scalar;
static ps_session *saver;

static ps_variable *get_scalar(ps_session *s)
{
    ps_variable *v = NULL;
    ps_variable_spec spec;
    ps_variable_spec_init(&spec);
    spec.name = "count";
    spec.dtype = PS_I64;
    check(ps_variable_get(s, &spec, &v), "get");
    check(ps_session_ready(s), "ready");
    return v;
}

/* Sessions that have done something and stay, in a process of their own. */
static pid_t sessions_of_child(int count)
{
    int ends[2];
    char done = 0;
    if (pipe(ends) != 0) {
        exit(2);
    }
    pid_t child = fork();
    if (child == 0) {
        const int64_t one = 1;
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (int i = 0; i < count; i++) {
            check(ps_variable_assign_add(get_scalar(open_session(PS_PROGRESS_CALLER)), &one, sizeof(one), NULL, 0),
                  "an addition");
        }
        if (write(ends[1], &done, 1) == 1) {
            (void)pause();
        }
        _exit(2);
    }
    (void)close(ends[1]);
    if (child < 0 || read(ends[0], &done, 1) != 1) {
        (void)fprintf(stderr, "no sessions\n");
        exit(2);
    }
    (void)close(ends[0]);
    return child;
}

static void fill(ps_session *s, int elements)
{
    ps_queue_spec spec;
    int64_t values[MANY];
    const ps_from from[] = {{values, sizeof(values)}};
    ps_queue_spec_init(&spec, "line", PS_I64, PS_SCALAR);
    check(ps_queue_get(s, &spec, &queue), "a queue");
    for (int i = 0; i < elements; i += MANY) {
        for (int k = 0; k < MANY; k++) {
            values[k] = i + k;
        }
        check(ps_enqueue_many(queue, from, 1, MANY, WAIT_MS, NULL), "enqueue");
    }
}

/* ---- the machine itself ---- */

static atomic_long late_ns; /* a thread of a CPU has woken up, at the most, since that was 0 */

static void *watch(void *arg)
{
    const struct sched_param first = {.sched_priority = 1};
    cpu_set_t cpu;
    struct timespec due;
    CPU_ZERO(&cpu);
    CPU_SET((size_t)(uintptr_t)arg, &cpu);
    if (pthread_setaffinity_np(pthread_self(), sizeof(cpu), &cpu) != 0 ||
        pthread_setschedparam(pthread_self(), SCHED_FIFO, &first) != 0) {
        return NULL;
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &due);
    for (;;) {
        struct timespec woken;
        due.tv_nsec += 500000;
        due.tv_sec += due.tv_nsec / 1000000000;
        due.tv_nsec %= 1000000000;
        (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
        (void)clock_gettime(CLOCK_MONOTONIC, &woken);
        long late = (woken.tv_sec - due.tv_sec) * 1000000000 + woken.tv_nsec - due.tv_nsec;
        long most = atomic_load(&late_ns);
        while (late > most && !atomic_compare_exchange_weak(&late_ns, &most, late)) {
        }
        due = late > 0 ? woken : due;
    }
    return NULL;
}

static void watch_begin(void)
{
    pthread_t thread;
    for (long i = sysconf(_SC_NPROCESSORS_ONLN) - 1; i >= 0; i--) {
        if (pthread_create(&thread, NULL, watch, (void *)(uintptr_t)i) != 0) {
            exit(2);
        }
    }
}

static double machine_ms(void)
{
    return 1e-6 * (double)atomic_exchange(&late_ns, 0);
}

/* ---- a checkpoint beside calls ---- */

struct saving {
    pthread_t thread;
    atomic_bool over;
    double took_s;
};

static void *save(void *arg)
{
    struct saving *s = arg;
    const double start = now();
    check(ps_checkpoint_save(saver, WAIT_MS, NULL), "a checkpoint");
    s->took_s = now() - start;
    atomic_store(&s->over, true);
    return NULL;
}

static void timed(double *longest, double *start)
{
    const double end = now();
    *longest = end - *start > *longest ? end - *start : *longest;
    *start = end;
}

/* The longest call in ms: for so long, or until it is over. */
static double calls(double seconds, const struct saving *s)
{
    double longest = 0;
    const double end = now() + seconds;
    while (s != NULL ? !atomic_load(&s->over) : now() < end) {
        int64_t value = 0;
        const ps_into into[] = {{&value, sizeof(value)}};
        const ps_from from[] = {{&value, sizeof(value)}};
        double start = now();
        check(ps_variable_read(scalar, &value, sizeof(value)), "a read");
        timed(&longest, &start);
        check(ps_dequeue(queue, into, 1, WAIT_MS), "dequeue");
        timed(&longest, &start);
        check(ps_enqueue(queue, from, 1, WAIT_MS), "enqueue");
        timed(&longest, &start);
    }
    return 1e3 * longest;
}

int main(int argc, char **argv)
{
    static char option[] = "--checkpoint_dir", seconds[] = "--checkpoint_seconds", never[] = "0", lease[] = "--lease",
                hour[] = "1h"; /* sessions that do nothing keep their connections */
    static char *const flags[] = {option, bench_dir, seconds, never, lease, hour, NULL};
    const int sessions = argc > 1 ? (int)strtol(argv[1], NULL, 10) : SESSIONS;
    const int elements = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 1000000;
    const int rounds = argc > 3 ? (int)strtol(argv[3], NULL, 10) : 5;
    pid_t children[PROCESSES_MAX];
    static struct test_cluster cluster; /* also of the end */
    struct rlimit files;
    double worst = 0, calm_worst = 0, took = 0;
    int count = 0, told = 0;
    if (sessions < 1 || sessions > SESSIONS || elements < MANY || rounds < 1 || rounds > ROUNDS_MAX) {
        (void)fprintf(stderr, "usage: stall [SESSIONS up to %d] [ELEMENTS from %d] [ROUNDS up to %d] [DIRECTORY]\n", SESSIONS,
                      MANY, ROUNDS_MAX);
        return 2;
    }
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    bench_begin();
    folder_begin(argc > 4 ? argv[4] : "/dev/shm", &cluster);
    test_cluster_init(&cluster, 1, "");
    cluster.flags = flags;
    test_cluster_start_all(&cluster);
    (void)setenv("PSD_TARGET", cluster.address[0], 1);         /* of open_session() */
    for (int left = sessions; left > 0; left -= PER_PROCESS) { /* before this process has threads */
        children[count++] = sessions_of_child(left < PER_PROCESS ? left : PER_PROCESS);
    }
    ps_session *s = open_session(PS_PROGRESS_CALLER);
    saver = open_session(PS_PROGRESS_THREAD);
    scalar = get_scalar(s);
    fill(s, elements);
    watch_begin();
    for (int i = 0; i < rounds; i++) {
        struct saving saving;
        memset(&saving, 0, sizeof(saving));
        const double calm = calls(CALM_S, NULL);
        (void)machine_ms();
        if (pthread_create(&saving.thread, NULL, save, &saving) != 0) {
            return 2;
        }
        const double beside = calls(0, &saving);
        (void)pthread_join(saving.thread, NULL);
        const double machine = machine_ms();
        (void)fprintf(
            stderr, "longest call: %.2f ms without, %.2f ms beside a checkpoint of %.2f s; the machine stood still for %.2f ms\n",
            calm, beside, saving.took_s, machine);
        calm_worst = calm > calm_worst ? calm : calm_worst;
        if (calm <= MUST_MS && machine <= QUIET_MS) {
            told++;
            worst = beside > worst ? beside : worst;
            took = saving.took_s > took ? saving.took_s : took;
        }
    }
    (void)ps_session_close(saver);
    (void)ps_session_close(s);
    for (int i = 0; i < count; i++) {
        (void)kill(children[i], SIGKILL);
        (void)waitpid(children[i], NULL, 0);
    }
    (void)printf("{\"sessions\": %d, \"elements\": %d, \"rounds\": %d, \"quiet_rounds\": %d, \"longest_calm_ms\": %.2f, "
                 "\"longest_ms\": %.2f, \"cut_s\": %.2f, \"good\": %s}\n",
                 sessions, elements, rounds, told, calm_worst, worst, took, told > 0 && worst <= MUST_MS ? "true" : "false");
    return told > 0 && worst <= MUST_MS ? 0 : 1;
}
