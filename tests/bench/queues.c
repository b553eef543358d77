/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One row of `make bench` about queues, against a running ps task (PSD_TARGET names it): makes what it needs in its container,
 * checks what comes out, resets the container, and prints one JSON line.
 *
 *   queues pair BYTES SECONDS thread|caller [OTHERS]
 *        in turns: push and read a variable of BYTES; put an element of BYTES into a queue and take it. Medians, their ratio, and
 *        the task's CPU for each. With OTHERS: the same again while so many dequeues wait at other queues, against before.
 *   queues wake SECONDS
 *        from before an element is put in until the program that waits for it in another thread and session has it
 *   queues fill COUNT
 *        so many elements of 16 bytes: by how much the task's memory grew for each
 *
 * Exit status 1 when an element is wrong or out of its order, 2 when it could not run.
 */
#include "session.h"

#include <pthread.h>
#include <string.h>

enum { WARM_UP = 200, BATCH = 10000, OTHERS_MAX = 10000, TURN = 50 /* operations of one kind */ };

static ps_queue *make_queue(ps_session *s, const char *name, int64_t floats)
{
    ps_queue_spec spec;
    ps_queue *q = NULL;
    ps_queue_spec_init(&spec, name, PS_F32, PS_SHAPE(floats));
    check(ps_queue_get(s, &spec, &q), "queue");
    return q;
}

static double median(struct samples *s)
{
    qsort(s->seconds, s->count, sizeof(*s->seconds), samples_by_value);
    return s->count == 0 ? 0 : (double)s->seconds[s->count / 2];
}

/* ---- pair ---- */

struct pair {
    ps_session *s;
    ps_variable *v;
    ps_queue *q;
    float *in, *out;
    size_t bytes;
    uint32_t number; /* of elements so far: each has its own as its first value */
    bool right;
    pid_t pids[BENCH_SERVERS_MAX];
    int servers;
};

static void variable_turn(struct pair *p)
{
    check(ps_variable_push(p->v, p->in, p->bytes, 1), "push");
    check(ps_variable_read(p->v, p->out, p->bytes), "read");
}

static void queue_turn(struct pair *p)
{
    p->in[0] = (float)(++p->number % 65536);
    p->out[0] = -1;
    check(ps_enqueue(p->q, PS_FROM({p->in, p->bytes}), 0), "enqueue");
    check(ps_dequeue(p->q, PS_INTO({p->out, p->bytes}), 0), "dequeue");
    p->right = p->right && memcmp(p->in, p->out, p->bytes) == 0;
}

struct side {
    struct samples samples;
    double server_s;
};

static void turns(struct pair *p, void (*turn)(struct pair *p), struct side *out)
{
    struct cpu before = cpu_now(p->pids, p->servers);
    double at = now();
    for (int i = 0; i < TURN; i++) {
        double begin = at;
        turn(p);
        at = now();
        samples_add(&out->samples, at - begin);
    }
    out->server_s += cpu_since(before, p->pids, p->servers).server;
}

/* Both, in turns; the medians. */
static void both(struct pair *p, double seconds, struct side *variable, struct side *queue)
{
    variable->samples.count = queue->samples.count = 0;
    variable->server_s = queue->server_s = 0;
    for (double start = now(); queue->samples.count == 0 || (now() - start < seconds && !atomic_load(&ended));) {
        turns(p, variable_turn, variable);
        turns(p, queue_turn, queue);
    }
}

static double server_us(const struct side *s)
{
    return 1e6 * s->server_s / (double)s->samples.count;
}

/* Whoever waits when its queue goes hears so. */
static void waiter_ended(void *ctx, ps_request *req, const ps_result *result)
{
    (void)ctx;
    (void)req;
    (void)result;
}

struct waiters {
    ps_session *s;
    size_t count;
    ps_request *requests;
    ps_tuple **tuples;
};

static struct waiters wait_elsewhere(size_t count)
{
    struct waiters w = {.s = open_session(PS_PROGRESS_THREAD), .count = count};
    w.requests = need(calloc(count, sizeof(*w.requests)));
    w.tuples = need(calloc(count, sizeof(ps_tuple *)));
    char name[32];
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(name, sizeof(name), "other%zu", i);
        ps_queue *q = make_queue(w.s, name, 4);
        w.tuples[i] = need(ps_tuple_new(q));
        check(ps_dequeue_start(q, w.tuples[i], 1, false, 3600000, &w.requests[i], waiter_ended, NULL), "a dequeue that waits");
    }
    return w;
}

/* Its requests end CANCELLED. */
static void waiters_end(struct waiters *w)
{
    check(ps_reset(w->s), "reset");
    (void)ps_session_close(w->s);
    for (size_t i = 0; i < w->count; i++) {
        ps_tuple_free(w->tuples[i]);
    }
    free(w->tuples);
    free(w->requests);
}

static int pair(size_t bytes, double seconds, bool caller, size_t others)
{
    struct pair p = {.s = open_session(caller ? PS_PROGRESS_CALLER : PS_PROGRESS_THREAD), .bytes = bytes, .right = true};
    struct side variable = {0}, queue = {0};
    ps_variable_spec spec;
    samples_init(&variable.samples);
    samples_init(&queue.samples);
    p.in = patterned(bytes);
    p.out = patterned(bytes);
    ps_variable_spec_init(&spec);
    spec.name = "variable";
    spec.dtype = PS_F32;
    spec.shape = PS_SHAPE((int64_t)(bytes / sizeof(float)));
    spec.optimizer = ps_sgd(0.01);
    check(ps_variable_get(p.s, &spec, &p.v), "get");
    check(ps_variable_init_from(p.v, p.in, bytes), "init");
    p.q = make_queue(p.s, "queue", (int64_t)(bytes / sizeof(float)));
    p.servers = server_pids(p.s, p.pids);
    for (int i = 0; i < WARM_UP; i++) {
        variable_turn(&p);
        queue_turn(&p);
    }
    both(&p, seconds, &variable, &queue);
    double push_pull = median(&variable.samples), alone = median(&queue.samples), cpu = server_us(&queue);
    (void)printf("{\"push_pull_us\":%.2f,\"queue_us\":%.2f,\"ratio\":%.4f,\"push_pull_server_us\":%.2f,\"queue_server_us\":%.2f",
                 1e6 * push_pull, 1e6 * alone, alone / push_pull, server_us(&variable), cpu);
    if (others > 0) {
        struct waiters waiters = wait_elsewhere(others);
        both(&p, seconds, &variable, &queue);
        double with = median(&queue.samples) / median(&variable.samples);
        (void)printf(",\"others\":%zu,\"with_others\":%.4f,\"with_others_server\":%.4f", others, with / (alone / push_pull),
                     server_us(&queue) / cpu);
        waiters_end(&waiters);
    } else {
        check(ps_reset(p.s), "reset");
    }
    (void)printf(",\"ops\":%zu,\"values\":\"%s\"}\n", queue.samples.count, p.right ? "right" : "WRONG");
    free(p.in);
    free(p.out);
    free(variable.samples.seconds);
    free(queue.samples.seconds);
    return ps_session_close(p.s) != 0 ? 2 : p.right ? 0 : 1;
}

/* ---- wake ---- */

struct wake {
    ps_queue *there, *back;
    struct samples samples;
    bool right;
};

static void *wait_for_it(void *ctx)
{
    struct wake *w = ctx;
    double stamp = 0, last = 0;
    while (ps_dequeue(w->there, PS_INTO({&stamp, sizeof(stamp)}), 0) == PS_OK) {
        samples_add(&w->samples, now() - stamp);
        w->right = w->right && stamp > last;
        last = stamp;
        check(ps_enqueue(w->back, PS_FROM({&stamp, sizeof(stamp)}), 0), "enqueue");
    }
    return NULL;
}

static ps_queue *stamps(ps_session *s, const char *name)
{
    ps_queue_spec spec;
    ps_queue *q = NULL;
    ps_queue_spec_init(&spec, name, PS_F64, PS_SHAPE(1));
    check(ps_queue_get(s, &spec, &q), "queue");
    return q;
}

static int wake(double seconds)
{
    ps_session *s = open_session(PS_PROGRESS_THREAD), *other = open_session(PS_PROGRESS_THREAD);
    struct wake w = {.there = stamps(other, "there"), .back = stamps(other, "back"), .right = true};
    ps_queue *there = stamps(s, "there"), *back = stamps(s, "back");
    pthread_t thread;
    samples_init(&w.samples);
    if (pthread_create(&thread, NULL, wait_for_it, &w) != 0) {
        return 2;
    }
    for (double start = now(), stamp = start; stamp - start < seconds && !atomic_load(&ended);) {
        double back_stamp = 0;
        stamp = now();
        check(ps_enqueue(there, PS_FROM({&stamp, sizeof(stamp)}), 0), "enqueue");
        check(ps_dequeue(back, PS_INTO({&back_stamp, sizeof(back_stamp)}), 0), "dequeue");
    }
    check(ps_queue_close(there, false, 0), "close");
    (void)pthread_join(thread, NULL);
    double p50 = median(&w.samples);
    check(ps_reset(s), "reset");
    (void)printf("{\"ops\":%zu,\"p50_us\":%.2f,\"p99_us\":%.2f,\"values\":\"%s\"}\n", w.samples.count, 1e6 * p50,
                 1e6 * (double)w.samples.seconds[w.samples.count * 99 / 100], w.right ? "right" : "WRONG");
    free(w.samples.seconds);
    return ps_session_close(other) != 0 || ps_session_close(s) != 0 ? 2 : w.right ? 0 : 1;
}

/* ---- fill ---- */

static double resident_bytes(pid_t pid)
{
    char path[64], line[256];
    double kib = 0;
    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "r");
    while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
        kib = strncmp(line, "VmRSS:", 6) == 0 ? strtod(line + 6, NULL) : kib;
    }
    if (f == NULL || kib == 0) {
        (void)fprintf(stderr, "%s: no VmRSS\n", path);
        exit(2);
    }
    (void)fclose(f);
    return 1024 * kib;
}

static int fill(size_t count)
{
    ps_session *s = open_session(PS_PROGRESS_THREAD);
    ps_queue *q = make_queue(s, "queue", 4);
    float *batch = patterned((size_t)BATCH * 16);
    pid_t pids[BENCH_SERVERS_MAX];
    uint64_t size = 0;
    (void)server_pids(s, pids); /* one */
    check(ps_enqueue_many(q, PS_FROM({batch, (size_t)BATCH * 16}), BATCH, 0, NULL),
          "enqueue"); /* what the way in needs is there */
    double before = resident_bytes(pids[0]), start = now();
    for (size_t i = 0; i < count; i += BATCH) {
        check(ps_enqueue_many(q, PS_FROM({batch, (size_t)BATCH * 16}), BATCH, 0, NULL), "enqueue");
    }
    double seconds = now() - start, after = resident_bytes(pids[0]);
    size_t done = (count + BATCH - 1) / BATCH * BATCH;
    check(ps_queue_size(q, &size), "size");
    bool right = size == done + BATCH;
    check(ps_reset(s), "reset");
    (void)printf("{\"elements\":%zu,\"bytes_each\":%.1f,\"elements_per_s\":%.0f,\"values\":\"%s\"}\n", done,
                 (after - before) / (double)done, (double)done / seconds, right ? "right" : "WRONG");
    free(batch);
    return ps_session_close(s) != 0 ? 2 : right ? 0 : 1;
}

static int usage(void)
{
    (void)fprintf(stderr, "usage: queues pair BYTES SECONDS thread|caller [OTHERS]\n"
                          "       queues wake SECONDS\n"
                          "       queues fill COUNT\n");
    return 2;
}

int main(int argc, char **argv)
{
    const char *verb = argc > 1 ? argv[1] : "";
    size_t bytes = 0, others = 0, count = 0;
    bench_begin();
    if (strcmp(verb, "pair") == 0 && (argc == 5 || argc == 6)) {
        if (!number(argv[2], 64, (size_t)1 << 30, &bytes) || (argc > 5 && !number(argv[5], 0, OTHERS_MAX, &others))) {
            return usage();
        }
        return pair(bytes, strtod(argv[3], NULL), strcmp(argv[4], "caller") == 0, others);
    }
    if (strcmp(verb, "wake") == 0 && argc == 3) {
        return wake(strtod(argv[2], NULL));
    }
    if (strcmp(verb, "fill") == 0 && argc == 3 && number(argv[2], 1, (size_t)1 << 30, &count)) {
        return fill(count);
    }
    return usage();
}
