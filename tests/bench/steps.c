/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the calls of training cost the program that makes them, against the running ps task of PSD_TARGET: checks the values, and
 * prints one JSON line.
 *
 *   steps push SECONDS
 *        ps_push() of 64 parameters one after another, none of which has a push in flight: nanoseconds of one call. And from
 * before a single ps_push(), while the I/O thread sleeps, until that thread hands the first byte to the kernel steps many COUNT
 * SECONDS a step of COUNT parameters of 64 bytes: ps_pull(), ps_push() of each, ps_step_done(). Wake-ups of a step are the
 * voluntary context switches of all threads of this process
 *
 * Exit status 1 when a value is wrong, 2 when it could not run.
 */
#define _GNU_SOURCE 1
#include "session.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

enum { BURST = 64, PARAMS_MAX = 4096, ELEMENTS = 16, WARM_UP_STEPS = 10 };
static const double SLEEPS_S = 500e-6; /* longer than the I/O thread spins */
#define RATE 0x1p-16f                  /* with gradients of 1 every value is a sum without rounding */

static _Atomic(double) first_byte; /* when the first byte since it was 0 went to the kernel */

/* In place of libc's: what the library sends goes through here. */
ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    double none = 0;
    (void)atomic_compare_exchange_strong(&first_byte, &none, now());
    return (ssize_t)syscall(SYS_sendmsg, fd, message, flags);
}

struct model {
    ps_session *s;
    ps_param *p[PARAMS_MAX];
    size_t count, pushes;
};

static void must(const struct model *m, const char *what)
{
    if (ps_session_status(m->s) != PS_OK) {
        (void)fprintf(stderr, "%s: %s\n", what, ps_session_error(m->s));
        exit(2);
    }
}

static void model_open(struct model *m, size_t count)
{
    *m = (struct model){.s = open_session(PS_PROGRESS_THREAD), .count = count};
    for (size_t i = 0; i < count; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "w%zu", i);
        m->p[i] = ps_param_get(m->s, name, PS_SHAPE(ELEMENTS), ps_zeros(), ps_sgd((double)RATE));
    }
    (void)ps_session_ready(m->s);
    must(m, "ready");
    for (size_t i = 0; i < count; i++) {
        float *g = ps_param_grad(m->p[i]);
        for (size_t k = 0; k < ELEMENTS; k++) {
            g[k] = 1;
        }
    }
}

static void push_all(struct model *m)
{
    for (size_t i = 0; i < m->count; i++) {
        (void)ps_push(m->s, m->p[i]);
    }
    m->pushes++;
}

static void await_pushes(const struct model *m)
{
    for (size_t i = 0; i < m->count; i++) {
        (void)ps_param_grad(m->p[i]);
    }
    must(m, "push");
}

static bool model_close(struct model *m)
{
    size_t wrong = 0;
    (void)ps_pull(m->s);
    must(m, "pull");
    for (size_t i = 0; i < m->count; i++) {
        const float *v = ps_param_value(m->p[i]);
        for (size_t k = 0; k < ELEMENTS; k++) {
            wrong += v[k] != -RATE * (float)m->pushes;
        }
    }
    (void)ps_reset(m->s);
    (void)ps_session_close(m->s);
    return wrong == 0;
}

static void pause_for(double seconds)
{
    for (double end = now() + seconds; now() < end;) {
    }
}

static double quantile(struct samples *s, size_t of_100)
{
    qsort(s->seconds, s->count, sizeof(*s->seconds), samples_by_value);
    return s->count == 0 ? 0 : (double)s->seconds[s->count * of_100 / 100];
}

static int print_end(bool right)
{
    (void)printf(",\"values\":\"%s\"}\n", right ? "right" : "WRONG");
    return right ? 0 : 1;
}

static int push_row(double seconds)
{
    static struct model m;
    struct samples each, first;
    samples_init(&each);
    samples_init(&first);
    model_open(&m, BURST);
    for (double start = now(); (now() - start < seconds / 2 || each.count == 0) && !atomic_load(&ended);) {
        const double begin = now();
        push_all(&m);
        samples_add(&each, (now() - begin) / BURST);
        await_pushes(&m);
    }
    for (double start = now(); (now() - start < seconds / 2 || first.count == 0) && !atomic_load(&ended);) {
        pause_for(SLEEPS_S);
        atomic_store(&first_byte, 0);
        const double begin = now();
        (void)ps_push(m.s, m.p[0]);
        await_pushes(&m);
        samples_add(&first, atomic_load(&first_byte) - begin);
        for (size_t i = 1; i < m.count; i++) { /* so that all have the same value */
            (void)ps_push(m.s, m.p[i]);
        }
        m.pushes++;
        await_pushes(&m);
    }
    (void)printf("{\"push_ns\":%.1f,\"first_byte_us\":%.2f", 1e9 * quantile(&each, 50), 1e6 * quantile(&first, 50));
    free(each.seconds);
    free(first.seconds);
    return print_end(model_close(&m));
}

static long switches(void)
{
    struct rusage used;
    (void)getrusage(RUSAGE_SELF, &used); /* cannot fail */
    return used.ru_nvcsw;
}

static void step(struct model *m)
{
    (void)ps_pull(m->s);
    push_all(m);
    (void)ps_step_done(m->s);
    must(m, "step");
}

static int many_row(size_t count, double seconds)
{
    static struct model m;
    struct samples steps;
    samples_init(&steps);
    model_open(&m, count);
    for (int i = 0; i < WARM_UP_STEPS; i++) {
        step(&m);
    }
    const long before = switches();
    for (double start = now(); (now() - start < seconds || steps.count == 0) && !atomic_load(&ended);) {
        const double begin = now();
        step(&m);
        samples_add(&steps, now() - begin);
    }
    const double wakeups = (double)(switches() - before) / (double)steps.count;
    (void)printf("{\"steps\":%zu,\"step_us\":%.2f,\"p99_us\":%.2f,\"wakeups\":%.3f", steps.count, 1e6 * quantile(&steps, 50),
                 1e6 * quantile(&steps, 99), wakeups);
    free(steps.seconds);
    return print_end(model_close(&m));
}

int main(int argc, char **argv)
{
    const char *verb = argc > 1 ? argv[1] : "";
    size_t count = 0;
    bench_begin();
    if (strcmp(verb, "push") == 0 && argc == 3) {
        return push_row(strtod(argv[2], NULL));
    }
    if (strcmp(verb, "many") == 0 && argc == 4 && number(argv[2], 1, PARAMS_MAX, &count)) {
        return many_row(count, strtod(argv[3], NULL));
    }
    (void)fprintf(stderr, "usage: steps push SECONDS | many COUNT SECONDS\n");
    return 2;
}
