/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Monitored sessions that several threads use while they are lost and made anew, that end for good, and an evaluator that waits:
 * who only looks ends nobody's step, a call that a recovery cuts short says why, a session that was given up says so everywhere.
 */
#include "monitored_test.h"

#include <signal.h>

/* ---- threads that push ---- */

struct pusher {
    ps_session *s;
    struct model *m;
    atomic_bool *over;
};

static void *push_main(void *arg)
{
    const struct pusher *p = arg;
    while (!atomic_load(p->over)) {
        (void)ps_push(p->s, p->m->b);
        (void)ps_push(p->s, p->m->w);
    }
    return NULL;
}

/* They are anywhere in their pushes when another thread makes the session anew. */
static void test_pushes_meanwhile(void **state)
{
    (void)state;
    enum { PUSHERS = 12, RESTARTS = 12 };
    struct seen seen;
    struct model m;
    void *threads[PUSHERS];
    atomic_bool over = false;
    ps_monitored_options o;
    ps_monitored_options_init(&o);
    o.start_over = true;
    o.max_recoveries = 2 * RESTARTS; /* hardly a step is completed */
    ps_session *s = open_monitored(&seen, &o, NULL);
    struct pusher pusher = {.s = s, .m = &m, .over = &over};
    model_get(s, &m);
    assert_int_equal(ps_session_ready(s), PS_OK);
    for (int i = 0; i < PUSHERS; i++) {
        threads[i] = thread_of(push_main, &pusher);
    }
    for (int k = 1; k <= RESTARTS; k++) {
        restart_all();
        while (atomic_load(&seen.recovered) < k) {
            assert_int_equal(atomic_load(&seen.failed), 0);
            (void)ps_pull(s);
            (void)ps_step_done(s); /* the step that was broken off ends */
        }
    }
    atomic_store(&over, true);
    for (int i = 0; i < PUSHERS; i++) {
        join(threads[i]);
    }
    (void)ps_session_close(s);
}

/* ---- threads that look ---- */

struct onlooker {
    ps_session *s;
    struct model *m;
};

static void *look_on(void *arg)
{
    const struct onlooker *o = arg;
    while (!ps_should_stop(o->s)) {
        (void)usleep(1000); /* sleep: a loader that has nothing to load */
    }
    return NULL;
}

static void *find_and_mend(void *arg)
{
    const struct onlooker *o = arg;
    read_until_lost(o->s, o->m);
    assert_false(ps_should_stop(o->s));
    return NULL;
}

enum reads { ALL, ONE, ROWS };

/* One that finds the loss, and looks on, while the thread that trains is in the middle of its step: that step stays broken.
 * reads: what it has read. */
static void looked_at(bool rounds, bool pushed, enum reads reads)
{
    struct seen seen;
    struct model m;
    ps_sync_options sync;
    ps_session *s = open_that_starts_over(&seen, as_worker);
    struct onlooker o = {.s = s, .m = &m};
    ps_variable_spec spec;
    ps_sync_options_init(&sync);
    sync.workers = 1;
    assert_int_equal(rounds ? ps_session_sync(s, &sync) : PS_OK, PS_OK);
    model_get(s, &m);
    ps_variable_spec_init(&spec);
    spec.name = "rows";
    spec.dtype = PS_F32;
    spec.shape = PS_SHAPE(4, 2);
    ps_param *rows = reads == ROWS ? ps_embedding_get(s, &spec) : NULL;
    assert_int_equal(ps_session_ready(s), PS_OK);
    assert_int_equal(train(s, &m, 5, -1, NULL), 5);
    ps_set_steps(s, 0);
    assert_int_equal(reads == ALL   ? ps_pull(s)
                     : reads == ONE ? ps_pull_param(m.w)
                                    : ps_embedding_pull(rows, (const int64_t[]){3, 1}, 2, NULL),
                     PS_OK);
    assert_int_equal(pushed ? ps_push(s, m.w) : PS_OK, PS_OK);
    restart_all();
    join(thread_of(find_and_mend, &o));
    assert_int_equal(atomic_load(&seen.recovered), 1);
    void *thread = thread_of(look_on, &o);
    assert_int_equal(ps_push(s, m.b), PS_ABORTED);
    assert_non_null(strstr(ps_last_error(), "in the middle of this step"));
    assert_int_equal(ps_step_done(s), PS_ABORTED);
    assert_int_equal(ps_session_status(s), PS_OK);
    assert_values(s, &m, 1, 0);
    for (int i = 0; i < 3; i++) {
        assert_false(ps_should_stop(s));
        assert_int_equal(ps_pull(s), PS_OK);
        assert_int_equal(ps_push(s, m.w), PS_OK);
        assert_int_equal(ps_push(s, m.b), PS_OK);
        assert_int_equal(ps_step_done(s), PS_OK);
    }
    assert_values(s, &m, 1 - 3 * 0.5F, 3);
    assert_int_equal(ps_global_step(s), 3);
    assert_int_equal(ps_request_stop(s), PS_OK);
    join(thread);
    assert_int_equal(ps_session_close(s), 0);
}

static void test_looked_at(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        looked_at(i / 2 != 0, i % 2 != 0, ALL);
        restart_all();
    }
    looked_at(false, false, ONE);
    restart_all();
    looked_at(false, false, ROWS);
}

/* ---- a call that is cut short ---- */

struct taker {
    ps_queue *queue;
    ps_status status;
    ps_reason reason;
};

static void *take_main(void *arg)
{
    struct taker *t = arg;
    int64_t item = 0;
    const ps_into values[] = {{&item, sizeof(item)}};
    t->status = ps_dequeue(t->queue, values, 1, TIMEOUT_MS);
    t->reason = ps_last_reason();
    return NULL;
}

/* It waits at a task that is well: it is told what ended it, and not that its own time is over. */
static void test_cut_short(void **state)
{
    (void)state;
    struct seen seen;
    struct model m;
    ps_queue_spec spec;
    struct taker taker = {.status = PS_UNKNOWN};
    ps_session *s = open_that_starts_over(&seen, NULL);
    model_get(s, &m);
    assert_int_equal(ps_device_push(s, "/job:ps/task:1"), PS_OK);
    ps_queue_spec_init(&spec, "q", PS_I64, PS_SCALAR);
    assert_int_equal(ps_queue_get(s, &spec, &taker.queue), PS_OK);
    assert_int_equal(ps_device_pop(s), PS_OK);
    assert_int_equal(ps_session_ready(s), PS_OK);
    void *thread = thread_of(take_main, &taker);
    await_waiter();
    test_cluster_kill(&cluster, 0);
    test_cluster_start(&cluster, 0);
    read_until_lost(s, &m);
    assert_false(ps_should_stop(s));
    join(thread);
    assert_int_equal(taker.status, PS_ABORTED);
    assert_int_equal(taker.reason, PS_REASON_LOST);
    assert_int_equal(ps_session_close(s), 0);
}

/* ---- the end ---- */

/* Whatever a program calls in a session that was given up says why it was, at once. */
static void test_given_up(void **state)
{
    (void)state;
    struct seen seen;
    struct model m;
    ps_monitored_options o;
    ps_queue_spec spec;
    ps_queue *q = NULL;
    ps_variable *w = NULL;
    int64_t item = 7;
    const ps_from puts[] = {{&item, sizeof(item)}};
    uint64_t size = 0;
    bool initialised = false;
    const double rate = 0.1;
    static float value[WIDTH];
    ps_monitored_options_init(&o);
    o.max_recovery_ms = 1000;
    ps_session *s = open_monitored(&seen, &o, short_calls);
    ps_session_set_deadline(s, TIMEOUT_MS);
    model_get(s, &m);
    ps_queue_spec_init(&spec, "q", PS_I64, PS_SCALAR);
    assert_int_equal(ps_queue_get(s, &spec, &q), PS_OK);
    assert_int_equal(ps_session_ready(s), PS_OK);
    assert_int_equal(ps_variable_find(s, "w", &w), PS_OK);
    ps_session_set_deadline(s, 0);
    test_cluster_kill(&cluster, 0);
    test_cluster_kill(&cluster, 1);
    read_until_lost(s, &m);
    assert_true(ps_should_stop(s));
    test_cluster_start_all(&cluster); /* too late */
    const ps_status st = ps_session_status(s);
    const struct {
        const char *call;
        ps_status status;
    } said[] = {
        {"ps_pull", ps_pull(s)},
        {"ps_variable_read", ps_variable_read(w, value, sizeof(value))},
        {"ps_variable_push", ps_variable_push(w, value, sizeof(value), 1)},
        {"ps_variable_set_rate", ps_variable_set_rate(w, &rate)},
        {"ps_variable_is_initialized", ps_variable_is_initialized(w, &initialised)},
        {"ps_enqueue", ps_enqueue(q, puts, 1, TIMEOUT_MS)},
        {"ps_queue_size", ps_queue_size(q, &size)},
        {"ps_wait_ready", ps_wait_ready(s, TIMEOUT_MS)},
        {"ps_session_job_done", ps_session_job_done(s)},
    };
    for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
        if (said[i].status != st) {
            fail_msg("%s: %s, and not %s", said[i].call, ps_status_name(said[i].status), ps_status_name(st));
        }
    }
    assert_non_null(strstr(ps_last_error(), "was not made anew within"));
    assert_int_equal(ps_session_close(s), st);
}

struct closing {
    struct seen seen;
    ps_session *s;
    atomic_bool told;       /* the log has had its last line */
    bool told_before_close; /* ... when the session was closed */
};

static void slow_log(void *ctx, ps_log_level level, const char *line)
{
    struct closing *c = ctx; /* seen comes first */
    look(&c->seen, level, line);
    if (strstr(line, " ev=session_failed ") != NULL) {
        (void)usleep(300000); /* sleep: a log that takes its time */
        atomic_store(&c->told, true);
    }
}

static void with_slow_log(ps_session_options *o)
{
    short_calls(o);
    o->log = slow_log;
}

static void *close_main(void *arg)
{
    struct closing *c = arg;
    while (atomic_load(&c->seen.tries) == 0) {
        (void)usleep(1000); /* sleep: looks at what it waits for, a recovery that is under way */
    }
    (void)ps_session_close(c->s);
    c->told_before_close = atomic_load(&c->told);
    return NULL;
}

/* The session is there until whoever makes it anew has said its last word. */
static void test_close_in_a_recovery(void **state)
{
    (void)state;
    struct closing c = {.told = false};
    struct model m;
    c.s = open_monitored(&c.seen, NULL, with_slow_log);
    model_ready(c.s, &m);
    test_cluster_kill(&cluster, 0);
    test_cluster_kill(&cluster, 1);
    read_until_lost(c.s, &m);
    void *thread = thread_of(close_main, &c);
    assert_true(ps_should_stop(c.s));
    join(thread);
    assert_true(c.told_before_close);
    test_cluster_start_all(&cluster);
}

/* ---- a close meanwhile ---- */

enum { WAIT_DEQUEUE, WAIT_TAKE, WAIT_WORK, WAITINGS };

struct waiting {
    ps_queue *queue;
    ps_accumulator *sums;
    ps_work *work;
    ps_status status[WAITINGS];
    atomic_int next;
};

static void *waiting_main(void *arg)
{
    struct waiting *w = arg;
    const int what = atomic_fetch_add(&w->next, 1);
    float sum = 0;
    int64_t item = 0;
    const ps_into values[] = {{&item, sizeof(item)}};
    ps_work_item of_work;
    w->status[what] = what == WAIT_DEQUEUE ? ps_dequeue(w->queue, values, 1, TIMEOUT_MS)
                      : what == WAIT_TAKE  ? ps_accumulator_take_grad(w->sums, 1, &sum, sizeof(sum), TIMEOUT_MS, NULL)
                                           : ps_work_next(w->work, &of_work, TIMEOUT_MS);
    return NULL;
}

static void count_dequeuers(void *ctx, const ps_queue_info *info)
{
    *(uint32_t *)ctx += info->dequeuers;
}

/* Whoever waits is told, and is out of the session before it is freed: the sanitizers see who is not. */
static void test_closed_meanwhile(void **state)
{
    (void)state;
    const char *const items[] = {"only"};
    struct seen seen;
    struct model m;
    struct waiting w = {.next = 0};
    ps_queue_spec spec;
    ps_work_item held;
    void *threads[WAITINGS];
    ps_session *s = open_monitored(&seen, NULL, short_calls), *other = open_session(TIMEOUT_MS);
    ps_session_set_deadline(s, TIMEOUT_MS);
    model_get(s, &m);
    ps_queue_spec_init(&spec, "q", PS_I64, PS_SCALAR);
    assert_int_equal(ps_queue_get(s, &spec, &w.queue), PS_OK);
    assert_int_equal(ps_accumulator_get(s, "sums", PS_F32, PS_SCALAR, PS_REDUCTION_SUM, NULL, &w.sums), PS_OK);
    assert_int_equal(ps_work_get(s, "items", items, NULL, 1, 1, 0, &w.work), PS_OK);
    assert_int_equal(ps_work_next(w.work, &held, 0), PS_OK);
    assert_int_equal(ps_session_ready(s), PS_OK);
    ps_session_set_deadline(s, 0);
    for (int i = 0; i < WAITINGS; i++) {
        threads[i] = thread_of(waiting_main, &w);
    }
    for (uint32_t waits = 0; waits < WAITINGS;) {
        waits = 0;
        for (int i = 0; i < API_TASKS; i++) {
            assert_int_equal(ps_task_queues(other, i, TIMEOUT_MS, count_dequeuers, &waits), PS_OK);
        }
        (void)usleep(10000); /* sleep: looks at what it waits for */
    }
    assert_int_equal(ps_session_close(s), 0);
    for (int i = 0; i < WAITINGS; i++) {
        join(threads[i]);
        assert_int_not_equal(w.status[i], PS_OK);
    }
    assert_int_equal(ps_session_close(other), 0);
}

/* ---- rounds ---- */

struct member {
    struct seen seen;
    uint32_t task;
    int steps, code;
};

static void *member_main(void *arg)
{
    struct member *me = arg;
    struct model m;
    ps_sync_options sync;
    this_task = me->task;
    ps_session *s = open_monitored(&me->seen, NULL, as_worker);
    ps_sync_options_init(&sync);
    sync.on_worker_loss = PS_LOSS_FAIL;
    (void)ps_session_sync(s, &sync); /* errors stick to the session */
    model_get(s, &m);
    (void)ps_session_ready(s);
    while (!ps_should_stop(s)) {
        ps_pull(s);
        ps_push(s, m.w), ps_push(s, m.b);
        me->steps += ps_step_done(s) == PS_OK;
        if (me->task == 1 && me->steps == 5) {
            (void)ps_session_fail(s, PS_INTERNAL, "no more");
        }
    }
    me->code = ps_session_close(s);
    return NULL;
}

/* Who asks for rounds that fail with the first worker that is lost wants the end, and no new rounds that wait for it. */
static void test_rounds_fail(void **state)
{
    (void)state;
    static struct member members[2];
    void *threads[2];
    for (uint32_t i = 0; i < 2; i++) {
        members[i] = (struct member){.task = i};
        threads[i] = thread_of(member_main, &members[i]);
    }
    for (int i = 0; i < 2; i++) {
        join(threads[i]);
    }
    assert_int_equal(members[1].code, PS_INTERNAL);
    assert_int_equal(members[0].code, PS_ABORTED);
    assert_int_equal(atomic_load(&members[0].seen.recovered), 0);
    assert_int_equal(atomic_load(&members[0].seen.failed), 1);
}

/* ---- an evaluator ---- */

/* It runs the program of the workers, and is no member of their rounds: nobody waits for it. */
static void test_evaluator_in_rounds(void **state)
{
    (void)state;
    struct seen seen[2];
    struct model m[2];
    ps_session *s[2];
    ps_sync_options sync;
    ps_sync_options_init(&sync);
    sync.workers = 1;
    for (int i = 0; i < 2; i++) {
        s[i] = open_monitored(&seen[i], NULL, i == 0 ? as_worker : as_evaluator);
        assert_int_equal(ps_session_sync(s[i], &sync), PS_OK);
        model_get(s[i], &m[i]);
        assert_int_equal(ps_session_ready(s[i]), PS_OK);
        assert_int_equal(train(s[0], &m[0], 3 * (i + 1), -1, NULL), 3);
    }
    assert_int_equal(ps_wait_step(s[1], 6, TIMEOUT_MS), PS_OK);
    assert_values(s[1], &m[1], 1 - 6 * 0.5F, 6);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ps_session_close(s[i]), 0);
    }
}

/* Its time is its own, and not that of an operation; a task that hangs is no end of the session. */
static void test_wait_for_a_step_that_cannot_be_read(void **state)
{
    (void)state;
    struct seen seen;
    struct model m;
    ps_session *s = open_monitored(&seen, NULL, NULL);
    model_get(s, &m);
    assert_int_equal(ps_session_ready(s), PS_OK);
    assert_int_equal(train(s, &m, 2, -1, NULL), 2);
    ps_set_steps(s, 0);
    stop_tasks();
    assert_int_equal(ps_wait_step(s, 3, 100), PS_DEADLINE_EXCEEDED);
    assert_non_null(strstr(ps_last_error(), "could not be read in its time"));
    wake_tasks();
    assert_int_equal(ps_session_status(s), PS_OK);
    assert_int_equal(train(s, &m, 4, -1, NULL), 2);
    assert_int_equal(ps_session_close(s), 0);
}

struct waiter {
    ps_session *s;
    ps_status status;
};

static void *wait_main(void *arg)
{
    struct waiter *w = arg;
    w->status = ps_wait_step(w->s, 1000, TIMEOUT_MS);
    return NULL;
}

/* Told to stop while it waits, it does not mind that the step cannot be read any more. */
static void test_wait_until_it_stops(void **state)
{
    (void)state;
    struct seen seen;
    struct model m;
    ps_session *s = open_monitored(&seen, NULL, short_calls);
    struct waiter w = {.s = s, .status = PS_UNKNOWN};
    model_ready(s, &m);
    stop_tasks();
    void *thread = thread_of(wait_main, &w);
    (void)usleep(100000); /* sleep: it asks for the step */
    assert_int_equal(ps_request_stop(s), PS_OK);
    join(thread);
    wake_tasks();
    assert_int_equal(w.status, PS_OK);
    assert_int_equal(ps_session_close(s), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_pushes_meanwhile, setup, teardown),
        cmocka_unit_test_setup_teardown(test_looked_at, setup_workers, teardown),
        cmocka_unit_test_setup_teardown(test_cut_short, setup, teardown),
        cmocka_unit_test_setup_teardown(test_given_up, setup, teardown),
        cmocka_unit_test_setup_teardown(test_close_in_a_recovery, setup, teardown),
        cmocka_unit_test_setup_teardown(test_closed_meanwhile, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rounds_fail, setup_workers, teardown),
        cmocka_unit_test_setup_teardown(test_evaluator_in_rounds, setup_workers, teardown),
        cmocka_unit_test_setup_teardown(test_wait_for_a_step_that_cannot_be_read, setup, teardown),
        cmocka_unit_test_setup_teardown(test_wait_until_it_stops, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
