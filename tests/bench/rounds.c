/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One row of `make bench` about training in rounds, against running ps tasks (PSD_TARGET names one): makes what it needs in its
 * container, checks the values, and prints one JSON line.
 *
 *   rounds step BYTES SECONDS
 *        two workers, each with sessions of its own in a thread of its own, step by step in turns: asynchronously, and in rounds.
 *        A step is pull, push and ps_step_done() of a variable of BYTES. Medians of a step, and their ratio.
 *   rounds commit SECONDS
 *        one worker, so that nobody is waited for, and a small variable at a task that is not the directory: the same two kinds
 * of step, and the round trip of an empty request; by how many of those the step in rounds is longer rounds wake SECONDS from
 * before the last worker says that it is complete until the other one, which waits, has gone on
 *
 * Exit status 1 when a value is wrong, 2 when it could not run.
 */
#include "session.h"

#include <limits.h>
#include <pthread.h>
#include <string.h>

enum { WORKERS = 2, AHEAD_US = 500, LARGE = 16 << 20 };
#define RATE 0x1p-16 /* with gradients of 1 every value is a sum without rounding */

struct worker {
    int index, workers;
    ps_session *s[2]; /* asynchronous, in rounds */
    ps_param *p[2];
    int64_t steps[2];
    struct samples samples[2], wake;
    struct shared *shared;
    bool right;
};

struct shared {
    size_t bytes;
    double seconds;
    bool wake; /* only that is measured */
    char spec[1024];
    pthread_barrier_t all;
    atomic_bool over;
    _Atomic(double) complete_at; /* when the last worker said so */
    atomic_int about, last;      /* the round that the first worker is about to complete; the last of all */
    struct worker workers[WORKERS];
};

static double median(struct samples *s)
{
    qsort(s->seconds, s->count, sizeof(*s->seconds), samples_by_value);
    return s->count == 0 ? 0 : (double)s->seconds[s->count / 2];
}

/* ---- a worker ---- */

static void must(ps_session *s, const char *what)
{
    if (ps_session_status(s) != PS_OK) {
        (void)fprintf(stderr, "%s: %s\n", what, ps_session_error(s));
        exit(2);
    }
}

static void no_log(void *ctx, ps_log_level level, const char *line)
{
    (void)ctx, (void)level, (void)line;
}

/* Its session and parameter of one kind: in containers of their own. */
static void open_kind(struct worker *w, int kind)
{
    char error[512], name[64];
    ps_session_options o;
    ps_session_options_init(&o);
    (void)snprintf(name, sizeof(name), "%s-%d", container, kind);
    o.cluster_spec = w->shared->spec;
    o.job = "worker";
    o.task_index = (uint32_t)w->index;
    o.container = name;
    o.log = no_log;
    if (ps_session_open(&o, &w->s[kind], error, sizeof(error)) != PS_OK) {
        (void)fprintf(stderr, "%s\n", error);
        exit(2);
    }
    if (kind == 1) {
        (void)ps_session_sync(w->s[kind], NULL);
    }
    int64_t elements = (int64_t)(w->shared->bytes / sizeof(float));
    if (ps_ps_count(w->s[kind]) > 1) {
        (void)ps_device_push(w->s[kind], "/job:ps/task:1");
    }
    w->p[kind] = ps_param_get(w->s[kind], "w", PS_SHAPE(elements), ps_zeros(), ps_sgd(RATE));
    (void)ps_session_ready(w->s[kind]);
    must(w->s[kind], "ready");
    float *g = ps_param_grad(w->p[kind]);
    for (int64_t i = 0; i < elements; i++) {
        g[i] = 1;
    }
}

static double step(struct worker *w, int kind)
{
    double begin = now();
    (void)ps_pull(w->s[kind]);
    (void)ps_push(w->s[kind], w->p[kind]);
    (void)ps_step_done(w->s[kind]);
    must(w->s[kind], kind == 1 ? "a round" : "a step");
    w->steps[kind]++;
    return now() - begin;
}

/* Steps of one kind in a row, and those that are not timed. */
static int turn_of(const struct worker *w)
{
    return w->shared->bytes > LARGE ? 2 : 10;
}

static int warm_up_of(const struct worker *w)
{
    return w->shared->bytes > LARGE ? 1 : 20;
}

static void turn(struct worker *w, int kind, int count, bool counted)
{
    (void)pthread_barrier_wait(&w->shared->all);
    for (int i = 0; i < count; i++) {
        double seconds = step(w, kind);
        if (counted) {
            samples_add(&w->samples[kind], seconds);
        }
    }
}

static void turns(struct worker *w)
{
    for (int kind = 0; kind < 2; kind++) {
        turn(w, kind, warm_up_of(w), false);
    }
    double start = now();
    do {
        turn(w, 0, turn_of(w), true);
        turn(w, 1, turn_of(w), true);
        (void)pthread_barrier_wait(&w->shared->all);
        if (w->index == 0) {
            atomic_store(&w->shared->over, now() - start >= w->shared->seconds || atomic_load(&ended));
        }
        (void)pthread_barrier_wait(&w->shared->all);
    } while (!atomic_load(&w->shared->over));
}

/* Worker 0 completes each round first; worker 1 a while later, which is when the time begins. */
static void wakes(struct worker *w)
{
    struct shared *all = w->shared;
    double start = now();
    for (int round = 1; round <= atomic_load(&all->last); round++) {
        (void)ps_push(w->s[1], w->p[1]);
        if (w->index == 0) {
            if (round > warm_up_of(w) && (now() - start >= all->seconds || atomic_load(&ended))) {
                atomic_store(&all->last, round);
            }
            atomic_store(&all->about, round);
            (void)ps_step_done(w->s[1]);
            double woken = now();
            if (round > warm_up_of(w)) {
                samples_add(&w->wake, woken - atomic_load(&all->complete_at));
            }
        } else {
            while (atomic_load(&all->about) < round) {
            }
            double until = now() + AHEAD_US * 1e-6; /* by then it waits */
            while (now() < until) {
            }
            atomic_store(&all->complete_at, now());
            (void)ps_step_done(w->s[1]);
        }
        w->steps[1]++;
        must(w->s[1], "a round");
    }
}

/* Every element has had one update of each step: in rounds of all workers together. */
static bool values_right(struct worker *w, int kind)
{
    (void)ps_pull(w->s[kind]);
    must(w->s[kind], "pull");
    const float *v = ps_param_value(w->p[kind]);
    int64_t updates = kind == 1 ? w->steps[1] : w->steps[0] * w->workers;
    size_t wrong = 0;
    for (size_t i = 0; i < w->shared->bytes / sizeof(*v); i++) {
        wrong += v[i] != (float)(-RATE * (double)updates);
    }
    return wrong == 0;
}

static void *work(void *ctx)
{
    struct worker *w = ctx;
    for (int kind = w->shared->wake ? 1 : 0; kind < 2; kind++) {
        open_kind(w, kind);
    }
    if (w->shared->wake) {
        wakes(w);
    } else {
        turns(w);
    }
    (void)pthread_barrier_wait(&w->shared->all); /* nobody closes while another one measures */
    w->right = (w->s[0] == NULL || values_right(w, 0)) && values_right(w, 1);
    (void)pthread_barrier_wait(&w->shared->all);
    return NULL;
}

/* ---- the rows ---- */

/* The ps tasks of the cluster, and so many workers, which do not listen. */
static void find_cluster(char *spec, size_t n, int workers)
{
    static ps_task_info infos[BENCH_SERVERS_MAX];
    ps_session *s = open_session(PS_PROGRESS_THREAD);
    int tasks = ps_cluster_tasks(s);
    check(tasks > 0 && tasks <= BENCH_SERVERS_MAX ? PS_OK : PS_INTERNAL, "the tasks");
    check(ps_cluster_info(s, infos, sizeof(infos[0]), tasks, 5000), "the tasks");
    size_t used = 0;
    for (int i = 0; i < tasks + workers && used < n; i++) {
        const char *before = i == 0 ? "ps=" : i == tasks ? ";worker=" : ",";
        used += i < tasks ? (size_t)snprintf(spec + used, n - used, "%s%s", before, infos[i].address)
                          : (size_t)snprintf(spec + used, n - used, "%s127.0.0.1:%d", before, i + 1);
    }
    (void)ps_session_close(s);
}

static struct shared *run(size_t bytes, double seconds, int workers, bool wake)
{
    static struct shared all;
    pthread_t threads[WORKERS];
    all = (struct shared){.bytes = bytes, .seconds = seconds, .wake = wake, .last = INT_MAX};
    find_cluster(all.spec, sizeof(all.spec), workers);
    (void)pthread_barrier_init(&all.all, NULL, (unsigned)workers);
    for (int i = 0; i < workers; i++) {
        struct worker *w = &all.workers[i];
        *w = (struct worker){.index = i, .workers = workers, .shared = &all};
        samples_init(&w->samples[0]);
        samples_init(&w->samples[1]);
        samples_init(&w->wake);
        if (pthread_create(&threads[i], NULL, work, w) != 0) {
            exit(2);
        }
    }
    for (int i = 0; i < workers; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    for (int i = 1; i < workers; i++) {
        all.workers[0].right = all.workers[0].right && all.workers[i].right;
    }
    return &all;
}

static int end(const struct shared *all, int workers)
{
    bool right = all->workers[0].right;
    (void)printf(",\"values\":\"%s\"}\n", right ? "right" : "WRONG");
    for (int i = 0; i < workers; i++) {
        for (int kind = 0; kind < 2; kind++) {
            if (i == workers - 1 && all->workers[i].s[kind] != NULL) {
                (void)ps_reset(all->workers[i].s[kind]);
            }
            (void)ps_session_close(all->workers[i].s[kind]);
        }
        free(all->workers[i].samples[0].seconds);
        free(all->workers[i].samples[1].seconds);
        free(all->workers[i].wake.seconds);
    }
    return right ? 0 : 1;
}

static int step_row(size_t bytes, double seconds)
{
    struct shared *all = run(bytes, seconds, WORKERS, false);
    double at_once = median(&all->workers[0].samples[0]), rounds = median(&all->workers[0].samples[1]);
    (void)printf("{\"steps\":%zu,\"async_us\":%.2f,\"round_us\":%.2f,\"ratio\":%.4f", all->workers[0].samples[1].count,
                 1e6 * at_once, 1e6 * rounds, rounds / at_once);
    return end(all, WORKERS);
}

static int commit_row(double seconds)
{
    struct shared *all = run(4096, seconds, 1, false);
    struct worker *w = &all->workers[0];
    struct samples pings;
    samples_init(&pings);
    for (double start = now(); pings.count == 0 || now() - start < seconds / 2;) {
        int64_t us = 0;
        double begin = now();
        check(ps_task_ping(w->s[0], 1, 1000, &us), "ping");
        samples_add(&pings, now() - begin);
    }
    double at_once = median(&w->samples[0]), rounds = median(&w->samples[1]), trip = median(&pings);
    free(pings.seconds);
    (void)printf("{\"steps\":%zu,\"async_us\":%.2f,\"round_us\":%.2f,\"trip_us\":%.2f,\"round_trips\":%.4f", w->samples[1].count,
                 1e6 * at_once, 1e6 * rounds, 1e6 * trip, (rounds - at_once) / trip);
    return end(all, 1);
}

static int wake_row(double seconds)
{
    struct shared *all = run(4096, seconds, WORKERS, true);
    struct samples *wake = &all->workers[0].wake;
    double p50 = median(wake);
    (void)printf("{\"rounds\":%zu,\"p50_us\":%.2f,\"p99_us\":%.2f", wake->count, 1e6 * p50,
                 1e6 * (double)wake->seconds[wake->count * 99 / 100]);
    return end(all, WORKERS);
}

int main(int argc, char **argv)
{
    const char *verb = argc > 1 ? argv[1] : "";
    size_t bytes = 0;
    bench_begin();
    if (strcmp(verb, "step") == 0 && argc == 4 && number(argv[2], 64, (size_t)1 << 30, &bytes)) {
        return step_row(bytes, strtod(argv[3], NULL));
    }
    if (strcmp(verb, "commit") == 0 && argc == 3) {
        return commit_row(strtod(argv[2], NULL));
    }
    if (strcmp(verb, "wake") == 0 && argc == 3) {
        return wake_row(strtod(argv[2], NULL));
    }
    (void)fprintf(stderr, "usage: rounds step BYTES SECONDS | commit SECONDS | wake SECONDS\n");
    return 2;
}
