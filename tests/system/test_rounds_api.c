/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rounds by the public API, sessions and servers in real processes: averages in task order, a push too many and one too few, a
 * late one, who is no member, who has finished, a second session of the same worker, reset while somebody waits.
 */
#define API_TASKS 2
#include "api/api.h"
#include "api_test.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { N = 5, TIMEOUT_MS = 20000 };

struct worker {
    ps_session *s;
    ps_param *w, *b;
};
static struct {
    int64_t ready_ms, operation_ms;
} times;

static ps_sync_options sync_of(uint32_t workers, uint32_t replicas)
{
    ps_sync_options o;
    ps_sync_options_init(&o);
    o.workers = workers;
    o.replicas_to_aggregate = replicas;
    return o;
}

/* A worker before it is ready. */
static struct worker begin(uint32_t task, const ps_sync_options *sync)
{
    struct worker k = {.s = NULL};
    ps_session_options o;
    char error[512];
    char spec[512];
    (void)snprintf(spec, sizeof(spec), "ps=%s,%s;worker=127.0.0.1:1,127.0.0.1:2", cluster.address[0], cluster.address[1]);
    ps_session_options_init(&o);
    o.cluster_spec = spec;
    o.job = "worker";
    o.task_index = task;
    o.operation_timeout_ms = times.operation_ms;
    o.ready_timeout_ms = times.ready_ms;
    o.log = no_log;
    o.progress = API_PROGRESS;
    assert_int_equal(ps_session_open(&o, &k.s, error, sizeof(error)), PS_OK);
    if (sync != NULL) {
        assert_int_equal(ps_session_sync(k.s, sync), PS_OK);
    }
    k.w = ps_param_get(k.s, "w", PS_SHAPE(N), ps_zeros(), ps_sgd(1));
    k.b = ps_param_get(k.s, "b", PS_SHAPE(N), ps_zeros(), ps_sgd(1));
    return k;
}

static struct worker ready(uint32_t task, const ps_sync_options *sync)
{
    struct worker k = begin(task, sync);
    if (ps_session_ready(k.s) != PS_OK) {
        print_error("%s\n", ps_session_error(k.s));
    }
    assert_int_equal(ps_session_status(k.s), PS_OK);
    return k;
}

static void push(const struct worker *k, ps_param *p, float gradient)
{
    float *g = ps_param_grad(p);
    for (int i = 0; g != NULL && i < N; i++) {
        g[i] = gradient;
    }
    (void)ps_push(k->s, p); /* what fails sticks */
}

static void push_both(const struct worker *k, float gradient)
{
    push(k, k->w, gradient);
    push(k, k->b, gradient);
}

static void assert_values(const struct worker *k, float value)
{
    assert_int_equal(ps_pull(k->s), PS_OK);
    for (int i = 0; i < N; i++) {
        assert_true(((float *)ps_param_value(k->w))[i] == value);
        assert_true(((float *)ps_param_value(k->b))[i] == value);
    }
}

/* Nothing is left of the model and its rounds. */
static void reset(void)
{
    ps_session *s = open_session(TIMEOUT_MS);
    assert_int_equal(ps_reset(s), PS_OK);
    assert_int_equal(ps_session_close(s), 0);
}

static void *step_thread(void *arg)
{
    const struct worker *k = arg;
    (void)ps_step_done(k->s); /* what fails sticks */
    return NULL;
}

static void one_worker(void **state)
{
    (void)state;
    struct worker k = ready(0, NULL);
    assert_int_equal(ps_session_close(k.s), 0);
    const ps_sync_options sync = sync_of(1, 0);
    k = ready(0, &sync); /* on what is trained otherwise until then */
    assert_int_equal(ps_global_step(k.s), 0);
    for (int step = 1; step <= 3; step++) {
        push(&k, k.w, 1);
        float *g = ps_param_grad(k.b);
        for (int i = 0; i < N; i++) {
            g[i] = 1;
        }
        assert_int_equal(ps_push_pull(k.s, k.b), PS_OK); /* a push: the new values are not there yet */
        assert_int_equal(ps_step_done(k.s), PS_OK);
        assert_int_equal(ps_global_step(k.s), step);
        assert_values(&k, (float)-step);
    }
    assert_int_equal(ps_dropped(k.s), 0);
    assert_int_equal(ps_session_sync(k.s, &sync), PS_FAILED_PRECONDITION);
    assert_int_equal(ps_session_close(k.s), PS_FAILED_PRECONDITION);
}

/* What is in rounds takes several frames to say, to the directory and to each owner. */
static void many_names(void **state)
{
    enum { NAMES = 3000 };
    static ps_param *params[NAMES];
    (void)state;
    const ps_sync_options sync = sync_of(1, 0);
    struct worker k = begin(0, &sync);
    for (int i = 0; i < NAMES; i++) {
        char name[256];
        (void)snprintf(name, sizeof(name), "%0250d", i);
        params[i] = ps_param_get(k.s, name, PS_SHAPE(1), ps_zeros(), ps_sgd(1)); /* what fails sticks */
    }
    if (ps_session_ready(k.s) != PS_OK) {
        print_error("%s\n", ps_session_error(k.s));
    }
    assert_int_equal(ps_session_status(k.s), PS_OK);
    push_both(&k, 1);
    for (int i = 0; i < NAMES; i++) {
        float *g = ps_param_grad(params[i]);
        assert_non_null(g);
        g[0] = 1;
        (void)ps_push(k.s, params[i]); /* what fails sticks */
    }
    assert_int_equal(ps_step_done(k.s), PS_OK);
    assert_values(&k, -1);
    assert_true(((float *)ps_param_value(params[0]))[0] == -1);
    assert_true(((float *)ps_param_value(params[NAMES - 1]))[0] == -1);
    assert_int_equal(ps_session_close(k.s), PS_OK);
}

static void too_many_and_too_few(void **state)
{
    (void)state;
    const ps_sync_options sync = sync_of(1, 0);
    struct worker k = ready(0, &sync);
    push(&k, k.w, 1);
    assert_int_equal(ps_step_done(k.s), PS_FAILED_PRECONDITION);
    assert_non_null(strstr(ps_session_error(k.s), "not pushed since the last step: 'b'"));
    assert_int_equal(ps_session_close(k.s), PS_FAILED_PRECONDITION);
    k = ready(0, &sync);
    push(&k, k.w, 1);
    push(&k, k.w, 1);
    assert_int_equal(ps_session_status(k.s), PS_FAILED_PRECONDITION);
    assert_non_null(strstr(ps_session_error(k.s), "'w' was pushed before in this step"));
    assert_int_equal(ps_session_close(k.s), PS_FAILED_PRECONDITION);
    k = ready(0, &sync);
    assert_values(&k, 0); /* nothing of any of it */
    assert_int_equal(ps_session_close(k.s), 0);
}

static void averages(void **state)
{
    (void)state;
    const ps_sync_options sync = sync_of(2, 0);
    struct worker a = ready(0, &sync);
    struct worker b = ready(1, &sync);
    pthread_t thread;
    for (int step = 1; step <= 10; step++) {
        push_both(&a, 1);
        push_both(&b, 3);
        assert_int_equal(pthread_create(&thread, NULL, step_thread, &a), 0);
        assert_int_equal(ps_step_done(b.s), PS_OK);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(ps_session_status(a.s), PS_OK);
        assert_int_equal(ps_global_step(a.s), step);
        assert_int_equal(ps_global_step(b.s), step);
        assert_values(&a, (float)(-2 * step));
        assert_values(&b, (float)(-2 * step));
    }
    assert_int_equal(ps_session_close(b.s), 0); /* it has finished: nobody waits for it */
    push_both(&a, 1);
    assert_int_equal(ps_step_done(a.s), PS_OK);
    assert_values(&a, -21);
    assert_int_equal(ps_session_close(a.s), 0);
}

static void late_ones_are_dropped(void **state)
{
    (void)state;
    const ps_sync_options sync = sync_of(2, 1);
    struct worker a = ready(0, &sync);
    struct worker b = ready(1, &sync);
    push_both(&a, 1);
    assert_int_equal(ps_step_done(a.s), PS_OK);
    push_both(&b, 5); /* of the values of round 1 */
    assert_int_equal(ps_step_done(b.s), PS_OK);
    assert_int_equal(ps_dropped(b.s), 1);
    assert_int_equal(ps_global_step(b.s), 1);
    assert_values(&b, -1);
    push_both(&b, 1); /* it goes on with the new ones */
    assert_int_equal(ps_step_done(b.s), PS_OK);
    assert_int_equal(ps_dropped(b.s), 1);
    assert_values(&a, -2);
    assert_int_equal(ps_dropped(a.s), 0);
    assert_int_equal(ps_session_close(a.s), 0);
    assert_int_equal(ps_session_close(b.s), 0);
}

/* `psctl rounds` shows this limit, between two columns. */
static void assert_shown(const char *limit)
{
    char psctl[512], out[1 << 14];
    char *const argv[] = {(char *)(uintptr_t)test_build_path("bin/psctl", psctl, sizeof(psctl)), "rounds", NULL};
    assert_int_equal(test_run(argv, cluster.address[0], out, sizeof(out)), 0);
    if (strstr(out, limit) == NULL) {
        fail_msg("no '%s': %s", limit, out);
    }
}

/* A worker of rounds with a limit on norms, and its first step with these gradients. */
static struct worker limited_step(double max_norm, ps_norm_of of, float of_w, float of_b)
{
    const ps_sync_options sync = sync_of(1, 0);
    struct worker k = begin(0, &sync);
    assert_int_equal(ps_session_clip_norm(k.s, max_norm, of), PS_OK);
    assert_int_equal(ps_session_ready(k.s), PS_OK);
    push(&k, k.w, of_w);
    push(&k, k.b, of_b);
    assert_int_equal(ps_step_done(k.s), PS_OK);
    assert_int_equal(ps_pull(k.s), PS_OK);
    return k;
}

/* w and b are at two tasks: the factor of all is the same at both, 1/2; that of each is its own, 1 and 1/4. */
static void limits_on_norms(void **state)
{
    (void)state;
    struct worker k = limited_step(sqrt(125) / 2, PS_NORM_OF_ALL, 3, 4);
    assert_true(((float *)ps_param_value(k.w))[N - 1] == -1.5F && ((float *)ps_param_value(k.b))[0] == -2);
    assert_shown("  5.59017  ");
    assert_int_equal(ps_session_clip_norm(k.s, 1, PS_NORM_OF_ALL), PS_FAILED_PRECONDITION); /* it is a member */
    assert_int_equal(ps_session_close(k.s), PS_FAILED_PRECONDITION);
    reset();
    k = limited_step(sqrt(20), PS_NORM_OF_EACH, 2, 8);
    assert_true(((float *)ps_param_value(k.w))[0] == -2 && ((float *)ps_param_value(k.b))[N - 1] == -2);
    assert_shown("  4.47214 each  ");
    assert_int_equal(ps_clip_norm(k.w, 1, NULL), PS_UNIMPLEMENTED);
    assert_int_equal(ps_session_close(k.s), PS_UNIMPLEMENTED);
    k = begin(0, NULL); /* no rounds */
    assert_int_equal(ps_session_clip_norm(k.s, 1, PS_NORM_OF_ALL), PS_OK);
    assert_int_equal(ps_session_ready(k.s), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_session_error(k.s), "ps_clip_global_norm() limits the gradients of single pushes"));
    assert_int_equal(ps_session_close(k.s), PS_INVALID_ARGUMENT);
    k = begin(0, NULL);
    assert_int_equal(ps_session_clip_norm(k.s, NAN, PS_NORM_OF_ALL), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_session_close(k.s), PS_INVALID_ARGUMENT);
}

static void who_is_no_member(void **state)
{
    (void)state;
    const ps_sync_options sync = sync_of(1, 0);
    struct worker k = ready(0, &sync);
    ps_session *s = open_session(TIMEOUT_MS);
    ps_variable *w = get(s, "w", PS_F32, PS_SHAPE(N), ps_sgd(1));
    const float values[N] = {1, 1, 1, 1, 1};
    float got[N];
    assert_int_equal(ps_variable_push(w, values, sizeof(values), 1), PS_FAILED_PRECONDITION);
    assert_int_equal(ps_last_reason(), PS_REASON_IN_ROUNDS);
    assert_int_equal(ps_variable_push_pull(w, values, sizeof(values), got, sizeof(got), 1), PS_FAILED_PRECONDITION);
    assert_int_equal(ps_last_reason(), PS_REASON_IN_ROUNDS);
    assert_int_equal(ps_variable_delete(s, "w"), PS_FAILED_PRECONDITION);
    assert_int_equal(ps_variable_assign(w, values, sizeof(values)), PS_FAILED_PRECONDITION);
    assert_int_equal(ps_last_reason(), PS_REASON_IN_ROUNDS);
    push_both(&k, 1);
    assert_int_equal(ps_step_done(k.s), PS_OK);
    assert_int_equal(ps_variable_read(w, got, sizeof(got)), PS_OK);
    assert_true(got[0] == -1 && got[N - 1] == -1);
    struct worker other = begin(1, NULL); /* a worker that does not ask for rounds */
    assert_int_equal(ps_session_ready(other.s), PS_FAILED_PRECONDITION);
    assert_int_equal(ps_session_reason(other.s), PS_REASON_IN_ROUNDS);
    assert_int_equal(ps_session_close(other.s), PS_FAILED_PRECONDITION);
    const ps_sync_options three = sync_of(3, 0);
    other = begin(1, &three); /* or for other ones */
    assert_int_equal(ps_session_ready(other.s), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_session_close(other.s), PS_INVALID_ARGUMENT);
    assert_int_equal(ps_session_close(k.s), 0);
    assert_int_equal(ps_variable_assign(w, values, sizeof(values)), PS_OK); /* nobody trains it any more */
    assert_int_equal(ps_reset(s), PS_OK);
    assert_int_equal(ps_session_close(s), 0);
    s = open_session(TIMEOUT_MS);
    assert_int_equal(ps_session_sync(s, &sync), PS_OK);
    (void)ps_param_get(s, "fixed", PS_SCALAR, ps_zeros(), NULL); /* nothing that could be trained */
    assert_int_equal(ps_session_ready(s), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(ps_session_error(s), "no variable of the model has an optimizer"));
    assert_int_equal(ps_session_close(s), PS_INVALID_ARGUMENT);
}

/* The newer session of a worker has its place. */
static void displaced(void **state)
{
    (void)state;
    const ps_sync_options sync = sync_of(1, 0);
    struct worker old = ready(0, &sync);
    push_both(&old, 1);
    assert_int_equal(ps_step_done(old.s), PS_OK);
    struct worker newer = ready(0, &sync);
    push_both(&newer, 1);
    assert_int_equal(ps_step_done(newer.s), PS_OK);
    push_both(&old, 1);
    assert_int_equal(ps_step_done(old.s), PS_ABORTED);
    assert_int_equal(ps_session_close(old.s), PS_ABORTED);
    push_both(&newer, 1);
    assert_int_equal(ps_step_done(newer.s), PS_OK);
    assert_values(&newer, -3);
    assert_int_equal(ps_session_close(newer.s), 0);
}

/* Who closes with an error has not finished, and the others hear of it; who closes without one has. */
static void an_error_is_a_loss(void **state)
{
    (void)state;
    ps_sync_options sync = sync_of(2, 0);
    sync.on_worker_loss = PS_LOSS_FAIL;
    for (int failed = 0; failed <= 1; failed++) {
        struct worker a = ready(0, &sync);
        struct worker b = ready(1, &sync);
        if (failed) {
            assert_int_equal(ps_session_fail(b.s, PS_DATA_LOSS, "its data are gone"), PS_DATA_LOSS);
        }
        assert_int_equal(ps_session_close(b.s), failed ? PS_DATA_LOSS : PS_OK);
        push_both(&a, 1);
        assert_int_equal(ps_step_done(a.s), failed ? PS_ABORTED : PS_OK);
        if (failed) {
            assert_non_null(strstr(ps_session_error(a.s), "/job:worker/task:1"));
        }
        assert_int_equal(ps_session_close(a.s), failed ? PS_ABORTED : PS_OK);
        reset();
    }
}

static void *close_thread(void *arg)
{
    return (void *)(intptr_t)ps_session_close(((const struct worker *)arg)->s);
}

static void *step_status_thread(void *arg)
{
    return (void *)(intptr_t)ps_step_done(((const struct worker *)arg)->s);
}

/* Until so many threads are in calls of training, or one is in ps_session_close(). */
static void await(ps_session *s, uint32_t users, bool closes)
{
    for (bool there = false; !there;) {
        (void)sched_yield();
        (void)pthread_mutex_lock(&s->lock);
        there = closes ? psi_api_closes(s) : s->users == users;
        (void)pthread_mutex_unlock(&s->lock);
    }
}

/* Who closes beside a thread that waits in a step breaks the step off, which is no failure: it has finished, and the others go
 * on. */
static void closed_beside_a_step(void **state)
{
    (void)state;
    ps_sync_options sync = sync_of(2, 0);
    sync.on_worker_loss = PS_LOSS_FAIL;
    for (int rounds = 0; rounds <= 1; rounds++) {
        struct worker a = ready(0, rounds ? &sync : NULL);
        struct worker b = ready(1, rounds ? &sync : NULL);
        pthread_t steps, closes;
        void *step_code = NULL, *close_code = NULL;
        test_cluster_hang(&cluster, 1);
        push_both(&b, 1); /* what b waits for */
        assert_int_equal(pthread_create(&steps, NULL, step_status_thread, &b), 0);
        await(b.s, 1, false);
        assert_int_equal(pthread_create(&closes, NULL, close_thread, &b), 0);
        await(b.s, 1, true);
        assert_int_equal(kill(cluster.pid[1], SIGCONT), 0);
        assert_int_equal(pthread_join(steps, &step_code), 0);
        assert_int_equal(pthread_join(closes, &close_code), 0);
        assert_int_equal((intptr_t)step_code, PS_CANCELLED);
        assert_int_equal((intptr_t)close_code, 0);
        push_both(&a, 1);
        assert_int_equal(ps_step_done(a.s), PS_OK);
        assert_int_equal(ps_session_close(a.s), 0);
        reset();
    }
}

/* Two threads complete one step of a member: the second one's is the next step, for which nothing was pushed. */
static void two_threads_complete_a_step(void **state)
{
    (void)state;
    const ps_sync_options sync = sync_of(2, 0);
    struct worker a = ready(0, &sync);
    struct worker b = ready(1, &sync);
    pthread_t threads[2];
    push_both(&a, 1);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, step_status_thread, &a), 0);
        await(a.s, i + 1, false);
    }
    push_both(&b, 3);
    assert_int_equal(ps_step_done(b.s), PS_OK);
    for (uint32_t i = 0; i < 2; i++) {
        void *code = NULL;
        assert_int_equal(pthread_join(threads[i], &code), 0);
        assert_true((intptr_t)code == PS_OK || (intptr_t)code == PS_FAILED_PRECONDITION); /* both, where it sticks soon */
    }
    assert_int_equal(ps_global_step(a.s), 1);
    assert_non_null(strstr(ps_session_error(a.s), "not pushed since the last step: 'w', 'b'"));
    assert_int_equal(ps_session_close(a.s), PS_FAILED_PRECONDITION);
    assert_values(&b, -2);
    assert_int_equal(ps_session_close(b.s), 0);
}

static void see_round(void *ctx, const ps_round_info *r)
{
    *(ps_round_phase *)ctx = r->phase;
}

static void see_member(void *ctx, const ps_member_info *m)
{
    *(int *)ctx += m->state == PS_MEMBER_COMPLETE ? 1 : 0;
}

/* Until a member of the rounds waits in its ps_step_done(). */
static void await_step(ps_session *s)
{
    for (int waiting = 0; waiting == 0;) {
        assert_int_equal(ps_rounds(s, TIMEOUT_MS, NULL, see_member, &waiting), PS_OK);
    }
}

/* One of two closes each round. The other one is lost, the first one finishes: a new session of the lost one does not train
 * alone. */
static void lost_before_the_end(void **state)
{
    (void)state;
    const ps_sync_options sync = sync_of(2, 1);
    struct worker a = ready(0, &sync);
    struct worker b = ready(1, &sync);
    assert_int_equal(ps_session_fail(b.s, PS_DATA_LOSS, "its data are gone"), PS_DATA_LOSS);
    assert_int_equal(ps_session_close(b.s), PS_DATA_LOSS);
    push_both(&a, 1);
    assert_int_equal(ps_step_done(a.s), PS_OK);
    assert_int_equal(ps_session_close(a.s), 0);
    b = ready(1, &sync);
    pthread_t thread;
    push_both(&b, 1);
    assert_int_equal(pthread_create(&thread, NULL, step_thread, &b), 0);
    ps_session *s = open_session(TIMEOUT_MS);
    await_step(s);
    ps_round_phase phase = PS_ROUND_FAILED;
    assert_int_equal(ps_rounds(s, TIMEOUT_MS, see_round, NULL, &phase), PS_OK);
    assert_int_equal(phase, PS_ROUND_OPENING);
    assert_int_equal(ps_session_close(s), 0);
    a = ready(0, &sync);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_values(&b, -2);
    assert_int_equal(ps_session_close(a.s), 0);
    assert_int_equal(ps_session_close(b.s), 0);
}

struct rates {
    struct worker k;
    atomic_bool over;
    atomic_int steps;
    int apart;
};

/* Trains until it is over; both parameters have the same gradient in each round. */
static void *rates_thread(void *arg)
{
    struct rates *r = arg;
    while (!atomic_load(&r->over) && ps_session_status(r->k.s) == PS_OK) {
        push_both(&r->k, 1);
        (void)ps_step_done(r->k.s); /* what fails sticks, here and below */
        (void)ps_pull(r->k.s);
        r->apart += ((const float *)ps_param_value(r->k.w))[0] != ((const float *)ps_param_value(r->k.b))[0];
        atomic_fetch_add(&r->steps, 1);
    }
    return NULL;
}

/* A learning rate for all variables is in force at both ps from the same round on. */
static void rates_change_between_rounds(void **state)
{
    (void)state;
    enum { CHANGES = 60 };
    const ps_sync_options sync = sync_of(1, 0);
    static struct rates r;
    pthread_t thread;
    r = (struct rates){.k = ready(0, &sync)};
    ps_session *s = open_session(TIMEOUT_MS);
    assert_int_equal(pthread_create(&thread, NULL, rates_thread, &r), 0);
    while (atomic_load(&r.steps) == 0 && ps_session_status(r.k.s) == PS_OK) {
        (void)usleep(1000); /* sleep: a busy machine may start the thread late */
    }
    for (int i = 1; i <= CHANGES; i++) {
        const double rate = 1.0 / i;
        uint64_t count = 0;
        if (ps_set_rates(s, NULL, i % 5 == 0 ? NULL : &rate, TIMEOUT_MS, &count) != PS_OK) {
            print_error("%s\n", ps_last_error());
            count = 0;
        }
        assert_int_equal(count, 2);
    }
    atomic_store(&r.over, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(ps_session_status(r.k.s), PS_OK);
    assert_int_equal(r.apart, 0);
    const double last = 2;
    uint64_t count = 0;
    assert_int_equal(ps_session_close(r.k.s), 0);
    assert_int_equal(ps_set_rates(s, NULL, &last, TIMEOUT_MS, &count), PS_OK); /* nobody trains: at once */
    assert_int_equal(count, 2);
    assert_int_equal(ps_session_close(s), 0);
}

/* A task has said why the step waits. It says so 200 ms before the deadline; on a busy machine that may be too late. */
static bool answered_in_time(ps_session *s)
{
    return strstr(ps_session_error(s), "no answer within") == NULL;
}

/* Workers that are yet to start are waited for until the ready timeout, those that are there for as long as in any round. */
static void nobody_is_yet_to_start(void **state)
{
    (void)state;
    const ps_sync_options sync = sync_of(2, 0);
    times.ready_ms = 24 * 3600 * 1000;
    bool in_time = false;
    for (times.operation_ms = 2000; !in_time; times.operation_ms *= 2) {
        struct worker a = ready(0, &sync);
        struct worker b = ready(1, &sync);
        push_both(&a, 1);
        assert_int_equal(ps_step_done(a.s), PS_DEADLINE_EXCEEDED);
        in_time = answered_in_time(a.s);
        if (in_time) {
            assert_non_null(
                strstr(ps_session_error(a.s), "round 1 of container 'localhost' waits for /job:worker/task:1 (at work for"));
            assert_int_equal(ps_session_error_applied(a.s), PS_OUTCOME_UNKNOWN); /* maybe closed with what it contributed */
        }
        assert_int_equal(ps_session_close(a.s), PS_DEADLINE_EXCEEDED);
        assert_int_equal(ps_session_close(b.s), 0);
        reset();
    }
}

/* A step that is broken off while it waits for a slower worker is not counted, and says that its gradients are in. */
static void a_stale_step_that_is_broken_off(void **state)
{
    (void)state;
    ps_sync_options sync;
    ps_variable *step = NULL;
    int64_t counted = -1;
    ps_sync_options_init(&sync);
    sync.mode = PS_SYNC_STALENESS;
    sync.workers = 2;
    bool in_time = false;
    for (times.operation_ms = 2000; !in_time; times.operation_ms *= 2) {
        struct worker a = ready(0, &sync);
        struct worker b = ready(1, &sync);
        push_both(&a, 1);
        assert_int_equal(ps_step_done(a.s), PS_DEADLINE_EXCEEDED);
        in_time = answered_in_time(a.s);
        if (in_time) {
            assert_non_null(strstr(ps_session_error(a.s), "more than 0 steps ahead of the slowest"));
            assert_int_equal(ps_session_error_applied(a.s), PS_MAYBE_PARTLY_APPLIED);
        }
        assert_values(&b, -1);
        assert_int_equal(ps_global_step_get(b.s, &step), PS_OK);
        assert_int_equal(ps_variable_read(step, &counted, sizeof(counted)), PS_OK);
        assert_int_equal(counted, 0);
        assert_int_equal(ps_session_close(a.s), PS_DEADLINE_EXCEEDED);
        assert_int_equal(ps_session_close(b.s), 0);
        reset();
    }
}

/* ps_session_set_deadline() ends also what has the ready timeout otherwise. */
static void a_deadline_ends_all(void **state)
{
    (void)state;
    enum { SOON_MS = 300 };
    const ps_sync_options sync = sync_of(2, 0);
    const uint64_t begin_ms = psi_io_now_ms();
    struct worker b = begin(1, &sync); /* no chief makes it ready */
    ps_session_set_deadline(b.s, SOON_MS);
    assert_int_equal(ps_wait_ready(b.s, 0), PS_DEADLINE_EXCEEDED);
    assert_int_equal(ps_session_ready(b.s), PS_DEADLINE_EXCEEDED);
    assert_int_equal(ps_session_close(b.s), PS_DEADLINE_EXCEEDED);
    assert_true(psi_io_now_ms() - begin_ms < TIMEOUT_MS / 2);
    struct worker a = ready(0, &sync);
    b = ready(1, &sync);
    const uint64_t step_ms = psi_io_now_ms();
    push_both(&a, 1);
    ps_session_set_deadline(a.s, SOON_MS);
    assert_int_equal(ps_step_done(a.s), PS_DEADLINE_EXCEEDED); /* the first one, in rounds: b is not there */
    assert_int_equal(ps_session_close(a.s), PS_DEADLINE_EXCEEDED);
    assert_true(psi_io_now_ms() - step_ms < TIMEOUT_MS / 2);
    assert_int_equal(ps_session_close(b.s), 0);
}

static int usual(void **state)
{
    times.ready_ms = times.operation_ms = TIMEOUT_MS;
    return setup(state);
}

static void reset_while_somebody_waits(void **state)
{
    (void)state;
    const ps_sync_options sync = sync_of(2, 0);
    struct worker k = ready(0, &sync);
    pthread_t thread;
    push_both(&k, 1);
    assert_int_equal(pthread_create(&thread, NULL, step_thread, &k), 0);
    ps_session *s = open_session(TIMEOUT_MS);
    await_step(s);
    assert_int_equal(ps_reset(s), PS_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(ps_session_status(k.s), PS_ABORTED);
    assert_int_equal(ps_session_close(k.s), PS_ABORTED);
    assert_int_equal(ps_session_close(s), 0);
    const ps_sync_options alone = sync_of(1, 0);
    k = ready(0, &alone); /* nothing of it is left */
    push_both(&k, 1);
    assert_int_equal(ps_step_done(k.s), PS_OK);
    assert_values(&k, -1);
    assert_int_equal(ps_session_close(k.s), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_worker, usual, teardown),
        cmocka_unit_test_setup_teardown(many_names, usual, teardown),
        cmocka_unit_test_setup_teardown(too_many_and_too_few, usual, teardown),
        cmocka_unit_test_setup_teardown(averages, usual, teardown),
        cmocka_unit_test_setup_teardown(late_ones_are_dropped, usual, teardown),
        cmocka_unit_test_setup_teardown(limits_on_norms, usual, teardown),
        cmocka_unit_test_setup_teardown(who_is_no_member, usual, teardown),
        cmocka_unit_test_setup_teardown(displaced, usual, teardown),
        cmocka_unit_test_setup_teardown(an_error_is_a_loss, usual, teardown),
        cmocka_unit_test_setup_teardown(closed_beside_a_step, usual, teardown),
        cmocka_unit_test_setup_teardown(two_threads_complete_a_step, usual, teardown),
        cmocka_unit_test_setup_teardown(lost_before_the_end, usual, teardown),
        cmocka_unit_test_setup_teardown(nobody_is_yet_to_start, usual, teardown),
        cmocka_unit_test_setup_teardown(rates_change_between_rounds, usual, teardown),
        cmocka_unit_test_setup_teardown(a_stale_step_that_is_broken_off, usual, teardown),
        cmocka_unit_test_setup_teardown(a_deadline_ends_all, usual, teardown),
        cmocka_unit_test_setup_teardown(reset_while_somebody_waits, usual, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
