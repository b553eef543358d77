/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ps_interrupt(), ps_session_close() and ps_session_leave() beside calls that wait, against real psd processes: every kind of
 * wait ends CANCELLED, nothing of it stays at a task or is lost, the session goes on. In threads, in a signal handler, in steps
 * that wait for pushes, for their count, or for other workers.
 *
 * No wait here ends by itself: what is not ended from outside ends the program, by its time. test-timeout: 120
 */
#include "api_test.h"
#include "interrupt_test.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LONG_MS = 600000, WAITERS_MAX = 16 };

static void assert_fine(ps_status st)
{
    if (st != PS_OK) {
        fail_msg("%s '%s'", ps_status_name(st), ps_last_error());
    }
}

static ps_queue *queue(ps_session *s, const char *name, int64_t capacity)
{
    ps_queue *q = NULL;
    ps_queue_spec spec;
    ps_queue_spec_init(&spec, name, PS_I64, PS_SCALAR);
    spec.capacity = capacity;
    assert_fine(ps_queue_get(s, &spec, &q));
    return q;
}

/* ---- calls in threads ---- */

/* A thread that has not begun to wait is not meant: again until it has ended. */
static void interrupt_until_over(struct waiter *w)
{
    while (!atomic_load(&w->over)) {
        ps_interrupt(w->s);
        (void)usleep(1000); /* sleep: looks at what it waits for */
    }
    waiter_join(w, PS_REASON_INTERRUPTED);
    assert_int_equal(ps_session_status(w->s), PS_OK);
}

static ps_status in_dequeue(struct waiter *w)
{
    int64_t value = 0;
    return ps_dequeue(w->q, PS_INTO({&value, sizeof(value)}), LONG_MS);
}

static ps_status in_dequeue_many(struct waiter *w)
{
    int64_t values[2];
    return ps_dequeue_many(w->q, PS_INTO({values, sizeof(values)}), 2, LONG_MS);
}

static ps_status in_enqueue(struct waiter *w)
{
    const int64_t value = 7;
    return ps_enqueue(w->q, PS_FROM({&value, sizeof(value)}), LONG_MS);
}

static ps_status in_take_grad(struct waiter *w)
{
    float gradient = 0;
    return ps_accumulator_take_grad(w->a, 1, &gradient, sizeof(gradient), LONG_MS, NULL);
}

static ps_status in_work(struct waiter *w)
{
    ps_work_item item;
    return ps_work_next(w->work, &item, LONG_MS);
}

static ps_status in_barrier(struct waiter *w)
{
    return ps_barrier_within(w->s, "interrupt/barrier", 9, LONG_MS);
}

static ps_status in_wait_cluster(struct waiter *w)
{
    return ps_session_wait_cluster(w->s, "worker", LONG_MS);
}

static ps_status in_wait_ready(struct waiter *w)
{
    return ps_wait_ready(w->s, LONG_MS);
}

static ps_status in_read(struct waiter *w)
{
    float value = 0;
    return ps_variable_read(w->v, &value, sizeof(value));
}

static ps_status in_step(struct waiter *w)
{
    return ps_step_done(w->s);
}

static ps_status in_pull(struct waiter *w)
{
    return ps_pull(w->s);
}

static ps_status in_ready(struct waiter *w)
{
    return ps_session_ready(w->s);
}

/* ---- every kind of wait ---- */

static int setup_workers(void **state)
{
    (void)state;
    test_cluster_init(&cluster, API_TASKS, ";worker=127.0.0.1:1,127.0.0.1:2");
    test_cluster_start_all(&cluster);
    return 0;
}

struct waiters {
    struct waiter all[WAITERS_MAX];
    int count;
    ps_work_item held;
};

static struct waiter *add(struct waiters *w, ps_session *s, ps_status (*call)(struct waiter *w))
{
    struct waiter *one = &w->all[w->count++];
    *one = (struct waiter){.call = call, .s = s};
    return one;
}

/* One of each, in one session, of which none can end. */
static void start_all(struct waiters *w, ps_session *s)
{
    const char *items[] = {"only"};
    const int64_t value = 1;
    memset(w, 0, sizeof(*w));
    (void)get(s, "interrupt/never_ready", PS_F32, PS_SCALAR, NULL);
    ps_queue *full = queue(s, "interrupt/full", 1);
    assert_fine(ps_enqueue(full, PS_FROM({&value, sizeof(value)}), 0));
    ps_queue *one = queue(s, "interrupt/one", 5);
    assert_fine(ps_enqueue(one, PS_FROM({&value, sizeof(value)}), 0));
    add(w, s, in_dequeue)->q = queue(s, "interrupt/empty", 5);
    add(w, s, in_dequeue_many)->q = one;
    add(w, s, in_enqueue)->q = full;
    assert_fine(ps_accumulator_get(s, "interrupt/sum", PS_F32, PS_SCALAR, PS_REDUCTION_MEAN, NULL, &add(w, s, in_take_grad)->a));
    struct waiter *work = add(w, s, in_work);
    assert_fine(ps_work_get(s, "interrupt/work", items, NULL, 1, 1, 0, &work->work));
    assert_fine(ps_work_next(work->work, &w->held, 0));
    (void)add(w, s, in_barrier);
    (void)add(w, s, in_wait_cluster);
    (void)add(w, s, in_wait_ready);
    for (int i = 0; i < w->count; i++) {
        waiter_start(&w->all[i]);
    }
}

static void count_waits(void *ctx, const ps_wait_info *info)
{
    (void)info;
    (*(int *)ctx)++;
}

/* Requests that wait at all tasks. */
static int waits_of(ps_session *looker)
{
    int count = 0;
    for (int task = 0; task < API_TASKS; task++) {
        assert_fine(ps_task_waits(looker, task, LONG_MS, count_waits, &count));
    }
    return count;
}

static void await_waits(ps_session *looker, int count)
{
    while (waits_of(looker) != count) {
        (void)usleep(1000); /* sleep: looks at what it waits for */
    }
}

/* What there was is there, and no more. */
static void assert_nothing_lost(ps_session *s)
{
    uint64_t size = 0;
    int64_t value = 0;
    ps_queue *full = queue(s, "interrupt/full", 1), *one = queue(s, "interrupt/one", 5);
    assert_fine(ps_queue_size(full, &size));
    assert_int_equal(size, 1);
    assert_fine(ps_dequeue(full, PS_INTO({&value, sizeof(value)}), LONG_MS));
    assert_int_equal(value, 1); /* and nobody stands behind it who would put a 7 in */
    assert_fine(ps_queue_size(full, &size));
    assert_int_equal(size, 0);
    assert_fine(ps_dequeue(one, PS_INTO({&value, sizeof(value)}), LONG_MS));
    assert_int_equal(value, 1);
}

static void close_ends_every_wait(void **state)
{
    (void)state;
    struct waiters w;
    ps_session *s = open_session(LONG_MS), *looker = open_session(LONG_MS);
    start_all(&w, s);
    await_waits(looker, w.count);
    assert_int_equal(ps_session_close(s), 0);
    for (int i = 0; i < w.count; i++) {
        waiter_join(&w.all[i], PS_REASON_CLOSING);
    }
    await_waits(looker, 0);
    assert_nothing_lost(looker);
    assert_int_equal(ps_session_close(looker), 0);
}

static void leave_ends_every_wait(void **state)
{
    (void)state;
    struct waiters w;
    ps_session *s = open_session(LONG_MS), *looker = open_session(LONG_MS);
    start_all(&w, s);
    await_waits(looker, w.count);
    ps_session_leave(s);
    for (int i = 0; i < w.count; i++) {
        waiter_join(&w.all[i], PS_REASON_CLOSING);
    }
    await_waits(looker, 0);
    assert_nothing_lost(looker);
    assert_int_equal(ps_session_close(s), 0);
    assert_int_equal(ps_session_close(looker), 0);
}

/* All at once; those that come later stay, and the session has what it had. */
static void interrupt_ends_every_wait(void **state)
{
    (void)state;
    struct waiters w;
    ps_session *s = open_session(LONG_MS), *looker = open_session(LONG_MS);
    start_all(&w, s);
    await_waits(looker, w.count);
    ps_interrupt(s);
    for (int i = 0; i < w.count; i++) {
        waiter_join(&w.all[i], PS_REASON_INTERRUPTED);
    }
    await_waits(looker, 0);
    assert_int_equal(ps_session_status(s), PS_OK);
    struct waiter later = {.call = in_dequeue, .s = s, .q = w.all[0].q};
    waiter_start(&later);
    await_waits(looker, 1);
    const int64_t value = 5;
    assert_fine(ps_enqueue(later.q, PS_FROM({&value, sizeof(value)}), 0));
    assert_int_equal(pthread_join(later.thread, NULL), 0);
    assert_int_equal(later.status, PS_OK);
    assert_nothing_lost(looker);
    assert_fine(ps_work_done(w.all[4].work, &w.held));
    assert_int_equal(ps_session_close(s), 0);
    assert_int_equal(ps_session_close(looker), 0);
    ps_interrupt(NULL);
}

/* ---- a signal ---- */

static ps_session *signalled;

static void on_signal(int number)
{
    const int before = errno;
    (void)number;
    errno = EDOM;
    ps_interrupt(signalled);
    if (errno != EDOM) {
        abort();
    }
    errno = before;
}

static void in_a_signal_handler(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = on_signal}, before;
    ps_session *s = open_session(LONG_MS), *looker = open_session(LONG_MS);
    struct waiter w = {.call = in_dequeue, .s = s, .q = queue(s, "signal/empty", 5)};
    signalled = s;
    assert_int_equal(sigaction(SIGUSR1, &action, &before), 0);
    for (int i = 0; i < 50; i++) {
        waiter_start(&w);
        await_waits(looker, 1);
        assert_int_equal(pthread_kill(w.thread, SIGUSR1), 0); /* where it waits, or drives */
        waiter_join(&w, PS_REASON_INTERRUPTED);
    }
    assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
    assert_int_equal(ps_session_close(s), 0);
    assert_int_equal(ps_session_close(looker), 0);
}

/* ---- steps and parameters ---- */

static void stop(int task)
{
    test_cluster_hang(&cluster, task);
}

static void go_on(int task)
{
    assert_int_equal(kill(cluster.pid[task], SIGCONT), 0);
}

static void push_one(ps_session *s, ps_param *p)
{
    float *gradient = ps_param_grad(p);
    assert_non_null(gradient);
    gradient[0] = 1;
    assert_fine(ps_push(s, p));
}

/* Which task has the push, and which one the count, are two; each of them stops. Whatever the step was at, it counts once, and so
 * does its push. */
static void a_step_goes_on(void **state)
{
    (void)state;
    ps_session *s = open_session(LONG_MS);
    ps_param *p = ps_param_get(s, "step/w", PS_SCALAR, ps_zeros(), ps_sgd(1));
    struct waiter w = {.call = in_step, .s = s};
    assert_fine(ps_session_ready(s));
    int64_t steps = ps_global_step(s);
    for (int i = 0; i < 20; i++) {
        stop(i % API_TASKS);
        push_one(s, p);
        for (int again = 0; again < 3; again++) {
            waiter_start(&w);
            interrupt_until_over(&w);
        }
        go_on(i % API_TASKS);
        assert_fine(ps_step_done(s));
        steps++;
        assert_int_equal(ps_global_step(s), steps);
    }
    assert_fine(ps_pull(s));
    assert_float_equal(((float *)ps_param_value(p))[0], -20, 0);
    assert_int_equal(ps_session_close(s), 0);
}

static ps_param *wanted;
static float *given;

static ps_status in_param_grad(struct waiter *w)
{
    (void)w;
    given = ps_param_grad(wanted);
    return given != NULL && ps_last_reason() == PS_REASON_INTERRUPTED ? PS_CANCELLED : PS_OK;
}

/* The push keeps its gradient; what the program writes meanwhile is the next one. */
static void a_gradient_buffer_is_never_missing(void **state)
{
    (void)state;
    ps_session *s = open_session(LONG_MS);
    struct waiter w = {.call = in_param_grad, .s = s};
    wanted = ps_param_get(s, "grad/w", PS_SCALAR, ps_zeros(), ps_sgd(1));
    assert_fine(ps_session_ready(s));
    float value = 0;
    for (int i = 0; i < 5; i++) {
        const float *before = ps_param_grad(wanted);
        for (int task = 0; task < API_TASKS; task++) {
            stop(task);
        }
        push_one(s, wanted);
        waiter_start(&w);
        interrupt_until_over(&w);
        float *another = given;
        assert_ptr_not_equal(another, before);
        another[0] = 10;
        waiter_start(&w);
        interrupt_until_over(&w);
        assert_ptr_equal(given, another); /* it is not the push's */
        for (int task = 0; task < API_TASKS; task++) {
            go_on(task);
        }
        assert_fine(ps_push(s, wanted));
        assert_fine(ps_step_done(s));
        assert_ptr_equal(ps_param_grad(wanted), another);
        value -= 11;
        assert_fine(ps_pull(s));
        assert_float_equal(((float *)ps_param_value(wanted))[0], value, 0);
    }
    assert_int_equal(ps_session_close(s), 0);
}

static void a_pull_is_made_again(void **state)
{
    (void)state;
    ps_session *s = open_session(LONG_MS);
    ps_param *p = ps_param_get(s, "pull/w", PS_SCALAR, ps_zeros(), ps_sgd(1));
    struct waiter w = {.call = in_pull, .s = s};
    assert_fine(ps_session_ready(s));
    for (int i = 1; i <= 10; i++) {
        for (int task = 0; task < API_TASKS; task++) {
            stop(task);
        }
        if (i % 2 == 0) {
            float *gradient = ps_param_grad(p);
            gradient[0] = 1;
            assert_fine(ps_push_pull(s, p));
        } else {
            push_one(s, p);
        }
        waiter_start(&w);
        interrupt_until_over(&w);
        for (int task = 0; task < API_TASKS; task++) {
            go_on(task);
        }
        assert_fine(ps_pull(s));
        assert_float_equal(((float *)ps_param_value(p))[0], -i, 0);
    }
    assert_int_equal(ps_session_close(s), 0);
}

/* Nothing of the model is got, or made ready, twice. */
static void ready_is_made_again(void **state)
{
    (void)state;
    ps_session *s = open_session(LONG_MS);
    struct waiter w = {.call = in_ready, .s = s};
    ps_param *a = ps_param_get(s, "ready/a", PS_SCALAR, ps_constant(3), ps_sgd(1));
    ps_param *b = ps_param_get(s, "ready/b", PS_SCALAR, ps_constant(4), ps_sgd(1));
    for (int task = 0; task < API_TASKS; task++) {
        stop(task);
    }
    for (int again = 0; again < 5; again++) {
        waiter_start(&w);
        interrupt_until_over(&w);
    }
    for (int task = 0; task < API_TASKS; task++) {
        go_on(task);
    }
    assert_fine(ps_session_ready(s));
    assert_fine(ps_pull(s));
    assert_float_equal(((float *)ps_param_value(a))[0], 3, 0);
    assert_float_equal(((float *)ps_param_value(b))[0], 4, 0);
    assert_int_equal(ps_session_close(s), 0);
}

static void a_read_at_a_task_that_hangs(void **state)
{
    (void)state;
    ps_session *s = open_session(LONG_MS);
    struct waiter w = {.call = in_read, .s = s, .v = get(s, "read/v", PS_F32, PS_SCALAR, NULL)};
    const float value = 6;
    float got = 0;
    assert_fine(ps_variable_assign(w.v, &value, sizeof(value)));
    stop(ps_variable_task(w.v));
    waiter_start(&w);
    interrupt_until_over(&w);
    go_on(ps_variable_task(w.v));
    assert_fine(ps_variable_read(w.v, &got, sizeof(got)));
    assert_float_equal(got, value, 0);
    assert_int_equal(ps_session_close(s), 0);
}

/* ---- with others ---- */

struct member {
    ps_session *s;
    ps_param *p;
    struct waiter w;
};

static void join(struct member *m, uint32_t task, ps_sync_mode mode)
{
    ps_session_options o;
    ps_sync_options sync;
    char error[512];
    ps_session_options_init(&o);
    ps_sync_options_init(&sync);
    o.cluster_spec = cluster.spec;
    o.job = "worker";
    o.task_index = task;
    o.operation_timeout_ms = LONG_MS;
    o.ready_timeout_ms = LONG_MS;
    o.log = no_log;
    o.progress = API_PROGRESS;
    memset(m, 0, sizeof(*m));
    assert_int_equal(ps_session_open(&o, &m->s, error, sizeof(error)), PS_OK);
    sync.mode = mode;
    assert_fine(ps_session_sync(m->s, &sync));
    m->p = ps_param_get(m->s, "member/w", PS_SCALAR, ps_zeros(), ps_sgd(1));
    m->w = (struct waiter){.call = in_ready, .s = m->s};
}

/* Both modes: who waits for the other worker is interrupted, again and again, and his step counts once. */
static void steps_with_others(ps_sync_mode mode)
{
    struct member a, b;
    join(&a, 0, mode);
    join(&b, 1, mode);
    waiter_start(&a.w);
    assert_fine(ps_session_ready(b.s));
    assert_int_equal(pthread_join(a.w.thread, NULL), 0);
    assert_int_equal(a.w.status, PS_OK);
    const int64_t first = ps_global_step(b.s);
    a.w.call = in_step;
    for (int i = 1; i <= 10; i++) {
        push_one(a.s, a.p);
        for (int again = 0; again < 3; again++) {
            waiter_start(&a.w);
            interrupt_until_over(&a.w);
        }
        push_one(b.s, b.p);
        waiter_start(&a.w);
        assert_fine(ps_step_done(b.s));
        assert_int_equal(pthread_join(a.w.thread, NULL), 0);
        assert_int_equal(a.w.status, PS_OK);
    }
    assert_fine(ps_pull(b.s));
    assert_float_equal(((float *)ps_param_value(b.p))[0], mode == PS_SYNC_ROUNDS ? -10 : -20, 0);
    const int64_t last = ps_global_step(a.s) > ps_global_step(b.s) ? ps_global_step(a.s) : ps_global_step(b.s);
    assert_int_equal(last - first, mode == PS_SYNC_ROUNDS ? 10 : 20);
    assert_int_equal(ps_dropped(a.s), 0);
    assert_int_equal(ps_session_close(a.s), 0);
    assert_int_equal(ps_session_close(b.s), 0);
}

/* ---- every call that asks ---- */

#define ASK(name, call)                                                                                                          \
    static ps_status ask_##name(struct waiter *w)                                                                                \
    {                                                                                                                            \
        return call;                                                                                                             \
    }
/* a count, -1 where it failed */
#define COUNT(name, call) ASK(name, (call) < 0 ? ps_last_reason() == PS_REASON_INTERRUPTED ? PS_CANCELLED : PS_UNKNOWN : PS_OK)

static float number[1], other[1];
static const double rate = 0.5;
static ps_variable_spec asked_spec;
static ps_variable *asked;
static ps_queue_spec asked_queue;
static ps_queue *found;
static ps_task_info infos[API_TASKS];
static ps_device_info devices[4];
static const char *names[4];
static const char *const containers[] = {"x"};

static void see_container(void *ctx, const char *container)
{
    (void)ctx;
    (void)container;
}

ASK(read, ps_variable_read(w->v, number, sizeof(number)))
ASK(assign, ps_variable_assign(w->v, number, sizeof(number)))
ASK(init, ps_variable_init(w->v, true))
ASK(init_from, ps_variable_init_from(w->v, number, sizeof(number)))
ASK(add, ps_variable_assign_add(w->v, number, sizeof(number), NULL, 0))
ASK(sub, ps_variable_assign_sub(w->v, number, sizeof(number), NULL, 0))
ASK(push, ps_variable_push(w->v, number, sizeof(number), 1))
ASK(push_pull, ps_variable_push_pull(w->v, number, sizeof(number), other, sizeof(other), 1))
ASK(set_rate, ps_variable_set_rate(w->v, &rate))
ASK(set_rates, ps_set_rates(w->s, NULL, &rate, LONG_MS, NULL))
ASK(initialized, ps_variable_is_initialized(w->v, &(bool){false}))
ASK(get, ps_variable_get(w->s, &asked_spec, &asked))
ASK(gets, ps_variables_get(w->s, &asked_spec, 1, &asked))
ASK(find, ps_variable_find(w->s, "absent", &asked))
ASK(delete, ps_variable_delete(w->s, "absent"))
ASK(reset, ps_reset(w->s))
ASK(reset_containers, ps_reset_containers(w->s, containers, 1))
ASK(reset_all, ps_reset_all(w->s))
COUNT(report, ps_report_uninitialized(w->s, names, 4))
ASK(export, ps_export(w->s, "/tmp/psd-never-written.safetensors", NULL, NULL))
ASK(save, ps_checkpoint_save(w->s, LONG_MS, NULL))
ASK(verify, ps_checkpoint_verify(w->s, 1, NULL, NULL))
ASK(saved_containers, ps_checkpoint_containers(w->s, 1, see_container, NULL))
ASK(checkpoint_delete, ps_checkpoint_delete(w->s, 1, false, LONG_MS))
ASK(restore, ps_checkpoint_restore(w->s, 1, LONG_MS, NULL))
ASK(spread, ps_checkpoint_spread(w->s, 1, LONG_MS, NULL))
ASK(queue_get, ps_queue_get(w->s, &asked_queue, &found))
ASK(queue_find, ps_queue_find(w->s, "absent", &found))
ASK(queue_size, ps_queue_size(w->q, &(uint64_t){0}))
ASK(queue_close, ps_queue_close(w->q, false, LONG_MS))
COUNT(devices, ps_session_devices(w->s, devices, sizeof(devices[0]), 4))
ASK(cluster_info, ps_cluster_info(w->s, infos, sizeof(infos[0]), API_TASKS, LONG_MS))
ASK(variables, ps_task_variables(w->s, 1, LONG_MS, NULL, NULL))
ASK(config, ps_task_config(w->s, 1, LONG_MS, NULL, NULL))
ASK(waits, ps_task_waits(w->s, 1, LONG_MS, NULL, NULL))
ASK(ping, ps_task_ping(w->s, 1, LONG_MS, NULL))
ASK(shutdown, ps_task_shutdown(w->s, 1, LONG_MS))
ASK(rounds, ps_rounds(w->s, LONG_MS, NULL, NULL, NULL))
ASK(checkpoints, ps_checkpoints(w->s, LONG_MS, NULL, NULL))
ASK(call, ps_call(w->s, "/job:ps/task:1", "x", NULL, 0, NULL, 0, NULL, LONG_MS))
ASK(stop, ps_stop(w->s, LONG_MS, NULL))

/* As ps_interrupt() lists them. No task answers. */
static void every_call_that_asks(void **state)
{
    static const struct {
        const char *name;
        ps_status (*call)(struct waiter *w);
    } calls[] = {{"read", ask_read},
                 {"assign", ask_assign},
                 {"init", ask_init},
                 {"init_from", ask_init_from},
                 {"add", ask_add},
                 {"sub", ask_sub},
                 {"push", ask_push},
                 {"push_pull", ask_push_pull},
                 {"set_rate", ask_set_rate},
                 {"set_rates", ask_set_rates},
                 {"initialized", ask_initialized},
                 {"get", ask_get},
                 {"gets", ask_gets},
                 {"find", ask_find},
                 {"delete", ask_delete},
                 {"reset", ask_reset},
                 {"reset_containers", ask_reset_containers},
                 {"reset_all", ask_reset_all},
                 {"report", ask_report},
                 {"export", ask_export},
                 {"save", ask_save},
                 {"verify", ask_verify},
                 {"saved_containers", ask_saved_containers},
                 {"checkpoint_delete", ask_checkpoint_delete},
                 {"restore", ask_restore},
                 {"spread", ask_spread},
                 {"queue_get", ask_queue_get},
                 {"queue_find", ask_queue_find},
                 {"queue_size", ask_queue_size},
                 {"queue_close", ask_queue_close},
                 {"devices", ask_devices},
                 {"cluster_info", ask_cluster_info},
                 {"variables", ask_variables},
                 {"config", ask_config},
                 {"waits", ask_waits},
                 {"ping", ask_ping},
                 {"shutdown", ask_shutdown},
                 {"rounds", ask_rounds},
                 {"checkpoints", ask_checkpoints},
                 {"call", ask_call},
                 {"stop", ask_stop}};
    (void)state;
    ps_session *s = open_session(LONG_MS);
    struct waiter w = {.s = s, .q = queue(s, "asks/queue", 5)};
    w.v = get(s, "asks/v", PS_F32, PS_SCALAR, ps_sgd(1));
    assert_fine(ps_variable_init(w.v, false));
    ps_variable_spec_init(&asked_spec);
    asked_spec.name = "asks/new";
    asked_spec.shape = PS_SCALAR;
    asked_spec.dtype = PS_F32;
    ps_queue_spec_init(&asked_queue, "asks/new_queue", PS_I64, PS_SCALAR);
    assert_int_equal(ps_cluster_tasks(s), API_TASKS);
    for (int task = 0; task < API_TASKS; task++) {
        stop(task);
    }
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        print_message("%s\n", calls[i].name); /* which one, should it wait for ever */
        w.call = calls[i].call;
        waiter_start(&w);
        interrupt_until_over(&w);
    }
    for (int task = 0; task < API_TASKS; task++) {
        test_cluster_kill(&cluster, task); /* what it was asked for is not to be done */
    }
    (void)ps_session_close(s); /* whatever it says of the tasks */
}

static void rounds(void **state)
{
    (void)state;
    steps_with_others(PS_SYNC_ROUNDS);
}

static void staleness(void **state)
{
    (void)state;
    steps_with_others(PS_SYNC_STALENESS);
}

static void keep_steps(void *ctx, const ps_member_info *info)
{
    *(uint64_t *)ctx = info->steps;
}

/* The wait for the others is over, and the count is not: neither is made twice. */
static void staleness_alone(void **state)
{
    (void)state;
    struct member a;
    ps_sync_options sync;
    ps_variable *step = NULL;
    uint64_t steps = 0;
    join(&a, 0, PS_SYNC_STALENESS);
    ps_sync_options_init(&sync);
    sync.mode = PS_SYNC_STALENESS;
    sync.workers = 1;
    assert_fine(ps_session_sync(a.s, &sync));
    assert_fine(ps_session_ready(a.s));
    assert_fine(ps_global_step_get(a.s, &step));
    assert_int_equal(ps_variable_task(step), 1); /* not where the directory is */
    a.w.call = in_step;
    for (int i = 1; i <= 10; i++) {
        push_one(a.s, a.p);
        assert_non_null(ps_param_grad(a.p)); /* it is in */
        stop(1);
        for (int again = 0; again < 3; again++) {
            waiter_start(&a.w);
            interrupt_until_over(&a.w);
        }
        go_on(1);
        assert_fine(ps_step_done(a.s));
        assert_int_equal(ps_global_step(a.s), i);
        assert_fine(ps_rounds(a.s, 0, NULL, keep_steps, &steps));
        assert_int_equal(steps, i);
    }
    assert_int_equal(ps_session_close(a.s), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(close_ends_every_wait, setup_workers, teardown),
        cmocka_unit_test_setup_teardown(leave_ends_every_wait, setup_workers, teardown),
        cmocka_unit_test_setup_teardown(interrupt_ends_every_wait, setup_workers, teardown),
        cmocka_unit_test_setup_teardown(in_a_signal_handler, setup, teardown),
        cmocka_unit_test_setup_teardown(a_step_goes_on, setup, teardown),
        cmocka_unit_test_setup_teardown(a_gradient_buffer_is_never_missing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_pull_is_made_again, setup, teardown),
        cmocka_unit_test_setup_teardown(ready_is_made_again, setup, teardown),
        cmocka_unit_test_setup_teardown(a_read_at_a_task_that_hangs, setup, teardown),
        cmocka_unit_test_setup_teardown(every_call_that_asks, setup, teardown),
        cmocka_unit_test_setup_teardown(rounds, setup_workers, teardown),
        cmocka_unit_test_setup_teardown(staleness, setup_workers, teardown),
        cmocka_unit_test_setup_teardown(staleness_alone, setup_workers, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
