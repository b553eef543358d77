/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names in numbers: 1,000 variables got, initialised and placed over two ps, one after the other as programs do; then a reset of
 * their container, while another session measures the longest round trip of an empty request to either ps. Five rounds, each
 * on processes of its own; the median of each figure, as one JSON line.
 *
 *   names [VARIABLES] [ROUNDS]        from the repository's root after `make bench-programs`
 */
#include "daemon.h"

#include <ps.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS_MAX = 99 };

struct round {
    double get_s, ready_s, reset_s, pause_s, calm_pause_s;
};

struct pinger {
    ps_session *session;
    pthread_mutex_t lock;
    pthread_cond_t pinged;
    bool stop;         /* under the lock, as the rest */
    uint64_t worst_us; /* since worst() took it last */
    uint64_t count;
};

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail for this clock */
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void check(ps_status st, const char *what)
{
    if (st != PS_OK) {
        (void)fprintf(stderr, "%s: %s: %s\n", what, ps_status_name(st), ps_last_error());
        exit(2);
    }
}

static ps_session *open_at(const char *target)
{
    ps_session_options o;
    ps_session *s = NULL;
    char error[512];
    ps_session_options_init(&o);
    o.target = target;
    o.log_level = PS_LOG_WARN;
    if (ps_session_open(&o, &s, error, sizeof(error)) != PS_OK) {
        (void)fprintf(stderr, "%s\n", error);
        exit(2);
    }
    return s;
}

static void *ping_both(void *arg)
{
    struct pinger *p = arg;
    bool stop = false;
    for (int task = 0; !stop; task = 1 - task) {
        int64_t us = 0;
        check(ps_task_ping(p->session, task, 5000, &us), "ping");
        (void)pthread_mutex_lock(&p->lock);
        p->worst_us = (uint64_t)us > p->worst_us ? (uint64_t)us : p->worst_us;
        p->count++;
        stop = p->stop;
        (void)pthread_cond_signal(&p->pinged);
        (void)pthread_mutex_unlock(&p->lock);
    }
    return NULL;
}

/* The longest round trip since the last call; waits for a few more first. */
static double worst(struct pinger *p)
{
    (void)pthread_mutex_lock(&p->lock);
    for (uint64_t until = p->count + 20; p->count < until;) {
        (void)pthread_cond_wait(&p->pinged, &p->lock);
    }
    uint64_t us = p->worst_us;
    p->worst_us = 0;
    (void)pthread_mutex_unlock(&p->lock);
    return 1e-6 * (double)us;
}

static void run(int variables, struct round *out)
{
    struct test_cluster c;
    struct pinger p = {.lock = PTHREAD_MUTEX_INITIALIZER, .pinged = PTHREAD_COND_INITIALIZER};
    pthread_t thread;
    test_cluster_init(&c, 2, "");
    test_cluster_start_all(&c);
    p.session = open_at(c.address[0]);
    ps_session *s = open_at(c.address[1]);
    if (ps_cluster_tasks(p.session) != 2 || ps_cluster_tasks(s) != 2) {
        (void)fprintf(stderr, "the cluster: %s\n", ps_last_error());
        exit(2);
    }
    double start = now();
    int at[2] = {0, 0};
    for (int i = 0; i < variables; i++) {
        char name[32];
        ps_variable_spec spec;
        ps_variable *v = NULL;
        (void)snprintf(name, sizeof(name), "layer/%d/weights", i);
        ps_variable_spec_init(&spec);
        spec.name = name;
        spec.dtype = PS_F32;
        spec.shape = PS_SHAPE(64, 10);
        spec.init = ps_glorot(PS_FAN_IN_OUT);
        spec.optimizer = ps_adagrad(0.1);
        check(ps_variable_get(s, &spec, &v), "get");
        at[ps_variable_task(v) & 1]++;
    }
    out->get_s = now() - start;
    start = now();
    check(ps_session_ready(s), "ready");
    out->ready_s = now() - start;
    if (at[0] - at[1] > 1 || at[1] - at[0] > 1) {
        (void)fprintf(stderr, "placed %d and %d\n", at[0], at[1]);
        exit(1);
    }
    if (pthread_create(&thread, NULL, ping_both, &p) != 0) {
        exit(2);
    }
    (void)worst(&p); /* of the warm-up */
    out->calm_pause_s = worst(&p);
    start = now();
    check(ps_reset(s), "reset");
    out->reset_s = now() - start;
    out->pause_s = worst(&p);
    (void)pthread_mutex_lock(&p.lock);
    p.stop = true;
    (void)pthread_mutex_unlock(&p.lock);
    (void)pthread_join(thread, NULL);
    (void)ps_session_close(s);
    (void)ps_session_close(p.session);
    (void)test_cluster_stop(&c, 0);
    (void)test_cluster_stop(&c, 1);
    test_cluster_fini(&c);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(const struct round *r, int n, size_t offset)
{
    double v[ROUNDS_MAX];
    for (int i = 0; i < n; i++) {
        memcpy(&v[i], (const char *)&r[i] + offset, sizeof(v[i]));
    }
    qsort(v, (size_t)n, sizeof(v[0]), by_value);
    return v[n / 2];
}

int main(int argc, char **argv)
{
    int variables = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 1000;
    int rounds = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 5;
    struct round r[ROUNDS_MAX];
    if (variables < 1 || rounds < 1 || rounds > ROUNDS_MAX) {
        (void)fprintf(stderr, "usage: names [VARIABLES] [ROUNDS up to %d]\n", ROUNDS_MAX);
        return 2;
    }
    for (int i = 0; i < rounds; i++) {
        run(variables, &r[i]);
    }
    (void)printf("{\"variables\": %d, \"rounds\": %d, \"get_s\": %.4f, \"ready_s\": %.4f, \"reset_s\": %.4f, "
                 "\"longest_ping_ms\": %.2f, \"longest_ping_before_ms\": %.2f}\n",
                 variables, rounds, median(r, rounds, offsetof(struct round, get_s)),
                 median(r, rounds, offsetof(struct round, ready_s)), median(r, rounds, offsetof(struct round, reset_s)),
                 1e3 * median(r, rounds, offsetof(struct round, pause_s)),
                 1e3 * median(r, rounds, offsetof(struct round, calm_pause_s)));
    return 0;
}
