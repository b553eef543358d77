/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One row of `make bench` against running ps tasks (PSD_TARGET names one): makes its variables, warms up, runs for SECONDS,
 * checks every value, resets its container, bench-PID, and prints one JSON line (measure.h). SIGTERM ends the measuring early.
 *
 *   load dense pull|sgd|adagrad|adam|pushpull BYTES SECONDS [float32|bfloat16|float16 [VARIABLES]]
 *        one operation after the other over BYTES of float32 in all, with blocking calls; of several VARIABLES, as many
 *        as tasks and one at each, all at once. BYTES and GB/s are those of the float32 values; push-pull counts both ways.
 *   load small pull|push BYTES DEPTH SESSIONS SECONDS thread|caller [VARIABLES]
 *        DEPTH operations in flight in each of SESSIONS, each with a variable of its own; one thread drives them all (thread: the
 *        I/O thread of the only one). With VARIABLES: one session, which picks one of so many for each operation.
 *   load null VARIABLES BYTES SECONDS thread|caller [last]
 *        a null step as a training program writes it: pull all parameters, push all gradients, wait until they are applied. From
 *        1 MiB each parameter's push follows its pull, beside the pull of the next one. last: all are pulled at the end, behind
 *        their pushes.
 *   load rows gather|push COLUMNS BATCH SECONDS
 *        one blocking call after the other on BATCH rows, every fourth one, of a variable of 4 x BATCH rows with SGD
 *   load beside pull|push LARGE pull|push SECONDS
 *        pulls or pushes of 4 KiB, one at a time, while a thread for each of LARGE parameters of 25 MB, of the same session,
 * pulls or pushes it again and again.
 *
 * Exit status 1 when values are wrong afterwards, 2 when it could not run.
 */
#include "session.h"

#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { WARM_UP = 3, REPS_MIN = 3, SESSIONS_MAX = 256, VARIABLES_MAX = 1 << 20, TURN_MS = 5, BESIDE_MAX = 32 };
static const double RATE = 0.01;

enum op { OP_PULL, OP_SGD, OP_ADAGRAD, OP_ADAM, OP_PUSHPULL, OPS };
static const char *const op_names[OPS] = {"pull", "sgd", "adagrad", "adam", "pushpull"};

static const ps_optimizer *optimizer_of(enum op op)
{
    return op == OP_ADAGRAD ? ps_adagrad(RATE) : op == OP_ADAM ? ps_adam(RATE) : op == OP_PULL ? ps_no_optimizer() : ps_sgd(RATE);
}

/* Values after n pushes of the pattern: want[] goes in as the first values, in the servers' arithmetic but for Adam. */
static void expect(enum op op, size_t n, float want[PATTERN])
{
    for (size_t r = 0; r < PATTERN && op != OP_PULL; r++) {
        float g = pattern(r), v = want[r], a = 0.1f, rate = (float)RATE;
        double m = 0, u = 0, w = (double)v, b1 = 1, b2 = 1;
        for (size_t i = 0; i < n; i++) {
            if (op == OP_ADAGRAD) {
                a += g * g;
                v -= rate * g / sqrtf(a);
            } else if (op == OP_ADAM) {
                b1 *= 0.9;
                b2 *= 0.999;
                m += ((double)g - m) * 0.1;
                u += ((double)g * (double)g - u) * 0.001;
                w -= RATE * sqrt(1 - b2) / (1 - b1) * m / (sqrt(u) + 1e-8);
            } else {
                v -= rate * g;
            }
        }
        want[r] = op == OP_ADAM ? (float)w : v;
    }
}

static void first_values(float want[PATTERN])
{
    for (size_t r = 0; r < PATTERN; r++) {
        want[r] = pattern(r);
    }
}

static ps_variable *make_variable(ps_session *s, const char *name, size_t bytes, enum op op, ps_dtype wire, const float *first)
{
    ps_variable_spec spec;
    ps_variable *v = NULL;
    ps_variable_spec_init(&spec);
    spec.name = name;
    spec.dtype = PS_F32;
    spec.shape = PS_SHAPE((int64_t)(bytes / sizeof(float)));
    spec.optimizer = optimizer_of(op);
    spec.wire_dtype = wire;
    check(ps_variable_get(s, &spec, &v), "get");
    check(ps_variable_init_from(v, first, bytes), "init");
    return v;
}

/* ---- dense -------------------------------------------------------------------------------------------------------------------
 */

struct waiting {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int count;
};

static void one_done(void *ctx, ps_request *req, const ps_result *result)
{
    struct waiting *w = ctx;
    (void)req;
    if (result->status != PS_OK) {
        (void)fprintf(stderr, "%s: %s\n", ps_status_name(result->status), result->text);
        _Exit(2);
    }
    (void)pthread_mutex_lock(&w->lock);
    w->count--;
    (void)pthread_cond_signal(&w->changed);
    (void)pthread_mutex_unlock(&w->lock);
}

static void dense_once(ps_variable **v, int count, enum op op, const float *grad, float *dst, size_t each)
{
    static ps_request req[BENCH_SERVERS_MAX];
    static struct waiting w = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    if (count == 1) {
        check(op == OP_PULL       ? ps_variable_read(v[0], dst, each)
              : op == OP_PUSHPULL ? ps_variable_push_pull(v[0], grad, each, dst, each, 1)
                                  : ps_variable_push(v[0], grad, each, 1),
              op_names[op]);
        return;
    }
    w.count = count;
    for (int i = 0; i < count; i++) {
        float *to = dst + (size_t)i * (each / sizeof(float));
        check(op == OP_PULL       ? ps_pull_start(v[i], to, each, 0, &req[i], one_done, &w)
              : op == OP_PUSHPULL ? ps_push_pull_start(v[i], grad, each, to, each, 1, 0, &req[i], one_done, &w)
                                  : ps_push_start(v[i], grad, each, 1, 0, &req[i], one_done, &w),
              op_names[op]);
    }
    (void)pthread_mutex_lock(&w.lock);
    while (w.count > 0) {
        (void)pthread_cond_wait(&w.changed, &w.lock);
    }
    (void)pthread_mutex_unlock(&w.lock);
}

static int dense(enum op op, size_t bytes, double seconds, ps_dtype wire, int count)
{
    ps_session *s = open_session(PS_PROGRESS_THREAD);
    size_t each = bytes / (size_t)count / sizeof(float) * sizeof(float), reps = 0;
    float *grad = patterned(each), *dst = need(aligned_alloc(4096, (each * (size_t)count + 4095) / 4096 * 4096));
    float want[PATTERN], tolerance = wire == PS_F32 ? 1e-4f : 1.0f / 128;
    ps_variable *v[BENCH_SERVERS_MAX];
    char name[64];
    pid_t pids[BENCH_SERVERS_MAX];
    struct measured m = {.bytes = (double)each * count * (op == OP_PUSHPULL ? 2 : 1), .right = true};
    samples_init(&m.samples);
    for (int i = 0; i < count; i++) {
        (void)snprintf(name, sizeof(name), "dense%d", i);
        v[i] = make_variable(s, name, each, op, wire, grad);
        if (count > 1 && ps_variable_task(v[i]) != i) {
            (void)fprintf(stderr, "variable %d of %d is at task %d: they are to be one at each\n", i, count,
                          ps_variable_task(v[i]));
            exit(2);
        }
    }
    memset(dst, 0xff, each * (size_t)count); /* NaN: what no pull filled is wrong */
    int servers = server_pids(s, pids);
    for (; reps < WARM_UP; reps++) {
        dense_once(v, count, op, grad, dst, each);
    }
    struct cpu before = cpu_now(pids, servers);
    double start = now();
    for (double at = start; m.samples.count < REPS_MIN || (at - start < seconds && !atomic_load(&ended)); reps++) {
        double begin = at;
        dense_once(v, count, op, grad, dst, each);
        at = now();
        samples_add(&m.samples, at - begin);
    }
    m.wall = now() - start;
    m.cpu = cpu_since(before, pids, servers);
    first_values(want);
    expect(op, reps, want);
    tolerance = op == OP_ADAM ? 10 * tolerance : tolerance;
    for (int i = 0; i < count; i++) {
        float *got = dst + (size_t)i * (each / sizeof(float));
        m.right = m.right && (op != OP_PULL || values_are(got, each, want, tolerance)); /* those of the last pull */
        check(ps_variable_read(v[i], got, each), "read");
        m.right = m.right && values_are(got, each, want, tolerance);
    }
    check(ps_reset(s), "reset");
    free(grad);
    free(dst);
    return ps_session_close(s) != 0 ? 2 : measured_print(&m);
}

/* ---- small -------------------------------------------------------------------------------------------------------------------
 */

/* What is neither atomic nor under the lock belongs to the one thread that the callbacks run on, and to main before and after. */
struct load {
    bool push;
    size_t bytes;
    int sessions, variables; /* variables per session */
    ps_session *session[SESSIONS_MAX];
    ps_variable **variable; /* [sessions * variables] */
    size_t *pushes;         /* of each, answered */
    float *grad;
    uint32_t random;
    atomic_bool measuring, stopping;
    atomic_int few; /* operations that the measuring still needs at least */
    struct samples samples;
    pthread_mutex_t lock;
    pthread_cond_t over;
    int running; /* slots; under the lock */
};
struct slot {
    struct load *load;
    ps_request req;
    int first, at; /* its session's first variable, and the one in use */
    float *dst;
    double start;
};

static void slot_done(void *ctx, ps_request *req, const ps_result *result);

static void slot_start(struct slot *t)
{
    struct load *l = t->load;
    if (l->variables > 1) {
        l->random = l->random * 1664525u + 1013904223u;
        t->at = t->first + (int)((l->random >> 8) % (uint32_t)l->variables);
    }
    ps_variable *v = l->variable[t->at];
    ps_status st = l->push ? ps_push_start(v, l->grad, l->bytes, 1, 0, &t->req, slot_done, t)
                           : ps_pull_start(v, t->dst, l->bytes, 0, &t->req, slot_done, t);
    if (st != PS_OK) {
        (void)fprintf(stderr, "start: %s\n", ps_status_name(st));
        _Exit(2);
    }
}

static void slot_done(void *ctx, ps_request *req, const ps_result *result)
{
    struct slot *t = ctx;
    struct load *l = t->load;
    double at = now();
    (void)req;
    if (result->status != PS_OK) {
        (void)fprintf(stderr, "%s: %s\n", ps_status_name(result->status), result->text);
        _Exit(2);
    }
    l->pushes[t->at] += l->push;
    if (atomic_load_explicit(&l->measuring, memory_order_relaxed)) {
        samples_add(&l->samples, at - t->start);
        if (atomic_load_explicit(&l->few, memory_order_relaxed) > 0) {
            atomic_fetch_sub(&l->few, 1);
        }
    }
    t->start = at;
    if (!atomic_load_explicit(&l->stopping, memory_order_relaxed)) {
        slot_start(t);
        return;
    }
    (void)pthread_mutex_lock(&l->lock);
    l->running--;
    (void)pthread_cond_signal(&l->over);
    (void)pthread_mutex_unlock(&l->lock);
}

/* PS_PROGRESS_CALLER: drive all sessions until then, or until no slot runs. */
static void drive(struct load *l, int poll, double until)
{
    struct epoll_event events[SESSIONS_MAX];
    double all = 0;
    for (double at = now(); at < until && l->running > 0 && !(atomic_load(&ended) && !atomic_load(&l->stopping)); at = now()) {
        if (l->sessions == 1) {
            check(ps_progress_run(l->session[0], TURN_MS), "progress");
            continue;
        }
        if (at >= all) { /* what only time brings is late by a turn at most */
            for (int i = 0; i < l->sessions; i++) {
                check(ps_progress_run(l->session[i], 0), "progress");
            }
            all = at + 1e-3 * TURN_MS;
        }
        int n = epoll_wait(poll, events, SESSIONS_MAX, TURN_MS);
        for (int i = 0; i < n; i++) {
            check(ps_progress_run(l->session[events[i].data.u32], 0), "progress");
        }
    }
}

static void pass(struct load *l, bool caller, int poll, double seconds)
{
    if (caller) {
        drive(l, poll, now() + seconds);
        return;
    }
    struct timespec t = {(time_t)seconds, (long)((seconds - floor(seconds)) * 1e9)};
    (void)nanosleep(&t, NULL); /* sleep: the measure's time; SIGTERM ends it */
}

static void drain(struct load *l, bool caller, int poll)
{
    atomic_store(&l->stopping, true);
    if (caller) {
        drive(l, poll, INFINITY);
    }
    (void)pthread_mutex_lock(&l->lock);
    while (l->running > 0) {
        (void)pthread_cond_wait(&l->over, &l->lock);
    }
    (void)pthread_mutex_unlock(&l->lock);
}

/* Variables of all sessions: one each with the pattern in it, or many of one session, all ones. */
static void make_variables(struct load *l)
{
    char(*names)[32] = need(calloc((size_t)l->variables, sizeof(*names)));
    ps_variable_spec *specs = need(calloc((size_t)l->variables, sizeof(*specs)));
    for (int i = 0; i < l->sessions && l->variables == 1; i++) {
        (void)snprintf(names[0], sizeof(names[0]), "small%d", i);
        l->variable[i] = make_variable(l->session[i], names[0], l->bytes, l->push ? OP_SGD : OP_PULL, PS_F32, l->grad);
    }
    for (int i = 0; i < l->variables && l->variables > 1; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "many%d", i);
        ps_variable_spec_init(&specs[i]);
        specs[i].name = names[i];
        specs[i].dtype = PS_F32;
        specs[i].shape = PS_SHAPE((int64_t)(l->bytes / sizeof(float)));
        specs[i].init = ps_ones();
        specs[i].optimizer = ps_sgd(RATE);
    }
    if (l->variables > 1) {
        check(ps_variables_get(l->session[0], specs, (size_t)l->variables, l->variable), "get");
        check(ps_session_ready(l->session[0]), "ready");
    }
    free(names);
    free(specs);
}

/* What the server has in the end; of many variables every 97th. */
static bool small_right(struct load *l, const struct slot *slots, int slot_count)
{
    float want[PATTERN], *got = need(calloc(1, l->bytes));
    bool right = true;
    for (int i = 0; i<l->sessions * l->variables; i += l->variables> 1 ? 97 : 1) {
        first_values(want);
        for (size_t r = 0; r < PATTERN && l->variables > 1; r++) {
            want[r] = 1;
        }
        expect(OP_SGD, l->pushes[i], want);
        check(ps_variable_read(l->variable[i], got, l->bytes), "read");
        right = right && values_are(got, l->bytes, want, 1e-4f);
    }
    first_values(want);
    for (int i = 0; i < slot_count && !l->push && l->variables == 1; i++) {
        right = right && values_are(slots[i].dst, l->bytes, want, 0);
    }
    free(got);
    return right;
}

static int small(bool push, size_t bytes, int depth, int sessions, double seconds, bool caller, int variables)
{
    struct load l = {.push = push,
                     .bytes = bytes,
                     .sessions = sessions,
                     .variables = variables,
                     .lock = PTHREAD_MUTEX_INITIALIZER,
                     .over = PTHREAD_COND_INITIALIZER};
    int count = sessions * depth, poll = epoll_create1(EPOLL_CLOEXEC);
    struct slot *slots = need(calloc((size_t)count, sizeof(*slots)));
    struct measured m = {.bytes = (double)bytes};
    pid_t pids[BENCH_SERVERS_MAX];
    atomic_store(&l.few, count + REPS_MIN * count); /* some of the first may have left the server before */
    l.variable = need(calloc((size_t)sessions * (size_t)variables, sizeof(*l.variable)));
    l.pushes = need(calloc((size_t)sessions * (size_t)variables, sizeof(*l.pushes)));
    l.grad = patterned(bytes);
    samples_init(&l.samples);
    for (int i = 0; i < sessions; i++) {
        l.session[i] = open_session(caller ? PS_PROGRESS_CALLER : PS_PROGRESS_THREAD);
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
        if (caller && epoll_ctl(poll, EPOLL_CTL_ADD, ps_progress_fd(l.session[i]), &event) != 0) {
            perror("epoll_ctl");
            return 2;
        }
    }
    make_variables(&l);
    int servers = server_pids(l.session[0], pids);
    l.running = count;
    for (int i = 0; i < count; i++) {
        int first = i / depth * variables;
        slots[i] =
            (struct slot){.load = &l, .first = first, .at = first, .dst = push ? NULL : need(calloc(1, bytes)), .start = now()};
    }
    /* one of each session in turn: what thread-driven ones begin at once */
    for (int i = 0; i < count; i++) {
        slot_start(&slots[i % sessions * depth + i / sessions]);
    }
    pass(&l, caller, poll, fmin(seconds / 5, 0.1));
    (void)printf("running\n");
    (void)fflush(stdout);
    struct cpu before = cpu_now(pids, servers);
    double start = now();
    atomic_store(&l.measuring, true);
    do {
        pass(&l, caller, poll, seconds);
    } while (atomic_load(&l.few) > 0 && !atomic_load(&ended));
    atomic_store(&l.measuring, atomic_load(&ended)); /* who was told to end counts what ends now */
    m.wall = now() - start;
    m.cpu = cpu_since(before, pids, servers);
    drain(&l, caller, poll);
    m.samples = l.samples;
    m.right = small_right(&l, slots, count);
    check(ps_reset(l.session[0]), "reset");
    for (int i = 0; i < sessions; i++) {
        if (ps_session_close(l.session[i]) != 0) {
            return 2;
        }
    }
    for (int i = 0; i < count; i++) {
        free(slots[i].dst);
    }
    free(slots);
    free(l.variable);
    free(l.pushes);
    free(l.grad);
    (void)close(poll);
    return measured_print(&m);
}

/* ---- null steps --------------------------------------------------------------------------------------------------------------
 */

enum pulls { PULLS_FIRST, PULLS_EACH, PULLS_LAST };

static void null_step(ps_session *s, ps_param **p, int count, enum pulls pulls)
{
    if (pulls == PULLS_FIRST) {
        check(ps_pull(s), "pull");
    }
    for (int i = 0; i < count; i++) {
        if (pulls == PULLS_EACH) {
            check(ps_pull_param(p[i]), "pull");
        }
        check(ps_push(s, p[i]), "push");
    }
    if (pulls == PULLS_LAST) {
        check(ps_pull(s), "pull");
    }
    for (int i = 0; i < count; i++) {
        (void)ps_param_grad(p[i]); /* waits until its push is applied */
    }
    check(ps_session_status(s), "push");
}

static void fill_grad(ps_param *p, size_t bytes)
{
    float *grad = ps_param_grad(p);
    for (size_t k = 0; k < bytes / sizeof(float); k++) {
        grad[k] = pattern(k);
    }
}

/* Its value was 1 before so many pushes of that. */
static bool pushed_right(ps_param *p, size_t bytes, size_t pushes)
{
    float want[PATTERN];
    for (size_t r = 0; r < PATTERN; r++) {
        want[r] = 1;
    }
    expect(OP_SGD, pushes, want);
    check(ps_pull_param(p), "pull");
    return values_are(ps_param_value(p), bytes, want, 1e-4f);
}

static int null_steps(int count, size_t bytes, double seconds, bool caller, bool last)
{
    const enum pulls pulls = last ? PULLS_LAST : bytes >= 1 << 20 ? PULLS_EACH : PULLS_FIRST;
    ps_session *s = open_session(caller ? PS_PROGRESS_CALLER : PS_PROGRESS_THREAD);
    ps_param **p = need(calloc((size_t)count, sizeof(*p)));
    size_t each = bytes / (size_t)count / sizeof(float) * sizeof(float), steps = 0;
    struct measured m = {.bytes = 2.0 * (double)each * count, .right = true};
    pid_t pids[BENCH_SERVERS_MAX];
    samples_init(&m.samples);
    for (int i = 0; i < count; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "null%d", i);
        p[i] = ps_param_get(s, name, PS_SHAPE((int64_t)(each / sizeof(float))), ps_ones(), ps_sgd(RATE));
    }
    check(ps_session_ready(s), "ready");
    for (int i = 0; i < count; i++) {
        fill_grad(p[i], each);
    }
    int servers = server_pids(s, pids);
    for (; steps < WARM_UP; steps++) {
        null_step(s, p, count, pulls);
    }
    struct cpu before = cpu_now(pids, servers);
    double start = now();
    for (double at = start; m.samples.count < REPS_MIN || (at - start < seconds && !atomic_load(&ended)); steps++) {
        double begin = at;
        null_step(s, p, count, pulls);
        at = now();
        samples_add(&m.samples, at - begin);
    }
    m.wall = now() - start;
    m.cpu = cpu_since(before, pids, servers);
    for (int i = 0; i < count; i++) {
        m.right = m.right && pushed_right(p[i], each, steps);
    }
    check(ps_reset(s), "reset");
    free(p);
    return ps_session_close(s) != 0 ? 2 : measured_print(&m);
}

struct beside {
    ps_session *session;
    ps_param *large;
    bool push;
    size_t ops;
    pthread_t thread;
};
static atomic_bool beside_over;

static void one(ps_session *s, ps_param *p, bool push)
{
    check(push ? ps_push(s, p) : ps_pull_param(p), push ? "push" : "pull");
    if (push) {
        (void)ps_param_grad(p); /* waits until it is applied; an error is what the next call returns */
    }
}

static void *again_and_again(void *arg)
{
    struct beside *b = arg;
    for (; !atomic_load(&beside_over); b->ops++) {
        one(b->session, b->large, b->push);
    }
    return NULL;
}

static ps_param *beside_param(ps_session *s, const char *name, int index, size_t bytes)
{
    char full[32];
    (void)snprintf(full, sizeof(full), "%s%d", name, index);
    return ps_param_get(s, full, PS_SHAPE((int64_t)(bytes / sizeof(float))), ps_ones(), ps_sgd(RATE));
}

static int beside(bool push, int large, bool large_push, double seconds)
{
    enum { LARGE_BYTES = 25000000, SMALL_BYTES = 4096 };
    struct beside b[BESIDE_MAX];
    ps_session *s = open_session(PS_PROGRESS_THREAD);
    ps_param *small = beside_param(s, "small", 0, SMALL_BYTES);
    struct measured m = {.bytes = SMALL_BYTES, .right = true};
    pid_t pids[BENCH_SERVERS_MAX];
    samples_init(&m.samples);
    for (int i = 0; i < large; i++) {
        b[i] = (struct beside){.session = s, .large = beside_param(s, "large", i, LARGE_BYTES), .push = large_push};
    }
    check(ps_session_ready(s), "ready");
    fill_grad(small, SMALL_BYTES);
    for (int i = 0; i < large; i++) {
        fill_grad(b[i].large, LARGE_BYTES);
    }
    for (int i = 0; i < large; i++) {
        if (pthread_create(&b[i].thread, NULL, again_and_again, &b[i]) != 0) {
            return 2;
        }
    }
    int servers = server_pids(s, pids);
    struct cpu before = cpu_now(pids, servers);
    double start = now();
    for (double at = start; m.samples.count < REPS_MIN || (at - start < seconds && !atomic_load(&ended));) {
        double began = at;
        one(s, small, push);
        at = now();
        samples_add(&m.samples, at - began);
    }
    m.wall = now() - start;
    m.cpu = cpu_since(before, pids, servers);
    atomic_store(&beside_over, true);
    m.right = pushed_right(small, SMALL_BYTES, push ? m.samples.count : 0);
    for (int i = 0; i < large; i++) {
        (void)pthread_join(b[i].thread, NULL);
        m.right = m.right && pushed_right(b[i].large, LARGE_BYTES, large_push ? b[i].ops : 0);
    }
    check(ps_reset(s), "reset");
    return ps_session_close(s) != 0 ? 2 : measured_print(&m);
}

static int some_rows(bool push, size_t columns, size_t batch, double seconds)
{
    ps_session *s = open_session(PS_PROGRESS_THREAD);
    const size_t n = batch * columns, bytes = n * sizeof(float);
    float *grad = patterned(bytes), *got = need(malloc(bytes)), *want = need(calloc(n, sizeof(float)));
    int64_t *ids = need(malloc(batch * sizeof(*ids)));
    pid_t pids[BENCH_SERVERS_MAX];
    ps_variable_spec spec;
    ps_variable *v = NULL;
    size_t reps = 0;
    struct measured m = {.bytes = (double)bytes, .right = true};
    ps_variable_spec_init(&spec);
    spec.name = "rows";
    spec.dtype = PS_F32;
    spec.shape = PS_SHAPE((int64_t)(4 * batch), (int64_t)columns);
    spec.optimizer = ps_sgd((float)RATE);
    check(ps_variable_get(s, &spec, &v), "get");
    check(ps_variable_init(v, false), "init");
    for (size_t i = 0; i < batch; i++) {
        ids[i] = (int64_t)(4 * i);
    }
    samples_init(&m.samples);
    int servers = server_pids(s, pids);
    struct cpu before = cpu_now(pids, servers);
    double start = now();
    for (double at = start; m.samples.count < REPS_MIN || (at - start < seconds && !atomic_load(&ended)); reps++) {
        double begin = at;
        check(push ? ps_push_rows(v, ids, batch, grad, bytes, 1) : ps_gather(v, ids, batch, got, bytes), "rows");
        at = now();
        samples_add(&m.samples, at - begin);
    }
    m.wall = now() - start;
    m.cpu = cpu_since(before, pids, servers);
    for (size_t k = 0; push && k < reps; k++) {
        for (size_t i = 0; i < n; i++) {
            want[i] -= (float)RATE * grad[i];
        }
    }
    check(ps_gather(v, ids, batch, got, bytes), "gather");
    m.right = memcmp(got, want, bytes) == 0;
    check(ps_reset(s), "reset");
    free(grad), free(got), free(want), free(ids);
    return ps_session_close(s) != 0 ? 2 : measured_print(&m);
}

static int usage(void)
{
    (void)fprintf(stderr,
                  "usage: load dense pull|sgd|adagrad|adam|pushpull BYTES SECONDS [float32|bfloat16|float16 [VARIABLES]]\n"
                  "       load small pull|push BYTES DEPTH SESSIONS SECONDS thread|caller [VARIABLES]\n"
                  "       load null VARIABLES BYTES SECONDS thread|caller [last]\n"
                  "       load rows gather|push COLUMNS BATCH SECONDS\n"
                  "       load beside pull|push LARGE pull|push SECONDS\n");
    return 2;
}

int main(int argc, char **argv)
{
    const char *verb = argc > 1 ? argv[1] : "";
    size_t bytes = 0, count = 1, depth = 0, sessions = 0;
    bench_begin();
    if (strcmp(verb, "dense") == 0 && argc >= 5 && argc <= 7) {
        int op = 0;
        const char *as = argc > 5 ? argv[5] : "float32";
        while (op < OPS && strcmp(argv[2], op_names[op]) != 0) {
            op++;
        }
        ps_dtype wire = strcmp(as, "bfloat16") == 0 ? PS_BF16 : strcmp(as, "float16") == 0 ? PS_F16 : PS_F32;
        if (op == OPS || !number(argv[3], 64, (size_t)1 << 40, &bytes) ||
            (argc > 6 && !number(argv[6], 1, BENCH_SERVERS_MAX, &count))) {
            return usage();
        }
        return dense((enum op)op, bytes, strtod(argv[4], NULL), wire, (int)count);
    }
    if (strcmp(verb, "small") == 0 && (argc == 8 || argc == 9)) {
        bool push = strcmp(argv[2], "push") == 0, caller = strcmp(argv[7], "caller") == 0;
        if (!number(argv[3], sizeof(float), (size_t)1 << 32, &bytes) || !number(argv[4], 1, 4096, &depth) ||
            !number(argv[5], 1, caller ? SESSIONS_MAX : 1, &sessions) ||
            (argc > 8 && !number(argv[8], 1, sessions == 1 ? VARIABLES_MAX : 1, &count))) {
            return usage();
        }
        return small(push, bytes, (int)depth, (int)sessions, strtod(argv[6], NULL), caller, (int)count);
    }
    if (strcmp(verb, "null") == 0 && (argc == 6 || (argc == 7 && strcmp(argv[6], "last") == 0))) {
        if (!number(argv[2], 1, 4096, &count) || !number(argv[3], count * sizeof(float), (size_t)1 << 32, &bytes)) {
            return usage();
        }
        return null_steps((int)count, bytes, strtod(argv[4], NULL), strcmp(argv[5], "caller") == 0, argc == 7);
    }
    if (strcmp(verb, "rows") == 0 && argc == 6 && number(argv[3], 1, 4096, &bytes) && number(argv[4], 1, 1 << 16, &count)) {
        return some_rows(strcmp(argv[2], "push") == 0, bytes, count, strtod(argv[5], NULL));
    }
    if (strcmp(verb, "beside") == 0 && argc == 6 && number(argv[3], 0, BESIDE_MAX, &count)) {
        return beside(strcmp(argv[2], "push") == 0, (int)count, strcmp(argv[4], "push") == 0, strtod(argv[5], NULL));
    }
    return usage();
}
