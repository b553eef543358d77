/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Monitored sessions while their tasks are killed, stay away and come back: what the program holds stays, its loop has no branch
 * for it, and a step that was broken off is made again.
 */
#include "monitored_test.h"

/* All that there was is gone: initialised anew, trained to the goal. */
static void test_total_loss(void **state)
{
    (void)state;
    struct seen seen;
    struct model m;
    ps_recovery r = {.struct_bytes = sizeof(r)};
    ps_session *s = open_monitored(&seen, NULL, NULL);
    assert_int_equal(ps_monitored_last_recovery(s, &r), PS_NOT_FOUND);
    model_get(s, &m);
    assert_int_equal(ps_session_ready(s), PS_OK);
    assert_int_equal(train(s, &m, 20, 10, restart_all), 10 + 1 + 20);
    assert_int_equal(ps_session_status(s), PS_OK);
    assert_int_equal(ps_global_step(s), 20);
    assert_values(s, &m, 1 - 20 * 0.5F, 20);
    assert_int_equal(ps_monitored_last_recovery(s, &r), PS_OK);
    assert_int_equal(r.count, 1);
    assert_int_equal(r.status, PS_ABORTED);
    assert_int_equal(r.reason, PS_REASON_LOST);
    assert_int_equal(r.step_before, 10);
    assert_int_equal(r.step, 0);
    assert_int_equal(r.lost_steps, 10);
    assert_true(r.took_ms >= 0);
    assert_non_null(strstr(r.text, "from step 0 on, of 10"));
    assert_int_equal(atomic_load(&seen.lost), 1);
    assert_int_equal(atomic_load(&seen.recovered), 1);
    assert_non_null(strstr(seen.last, "lost_steps=10"));
    assert_int_equal(atomic_load(&seen.failed), 0);
    assert_int_equal(ps_session_close(s), 0);
}

/* ---- others in calls meanwhile ---- */

struct taker {
    ps_queue *queue;
    atomic_int ended;
    ps_status status;
};

static void *take_main(void *arg)
{
    struct taker *t = arg;
    int64_t item = 0;
    const ps_into values[] = {{&item, sizeof(item)}};
    t->status = ps_dequeue(t->queue, values, 1, TIMEOUT_MS);
    atomic_store(&t->ended, 1);
    return NULL;
}

/* A flow of reads that its callback starts again, for ever. */
struct flow {
    ps_variable *v;
    ps_request req;
    float value[4];
    atomic_int ended, reads;
};

static void flow_next(struct flow *f);

static void flow_done(void *ctx, ps_request *req, const ps_result *result)
{
    struct flow *f = ctx;
    (void)req;
    atomic_fetch_add(&f->reads, result->status == PS_OK ? 1 : 0);
    flow_next(f);
}

static void flow_next(struct flow *f)
{
    if (ps_pull_start(f->v, f->value, sizeof(f->value), 0, &f->req, flow_done, f) != PS_OK) {
        atomic_store(&f->ended, 1);
    }
}

/* A thread that waits at a queue and a flow of requests end with an error, soon; then the same objects work again. */
static void test_others_meanwhile(void **state)
{
    (void)state;
    struct seen seen;
    struct model m;
    struct taker taker = {0};
    struct flow flow = {0};
    pthread_t thread;
    ps_queue_spec spec;
    int64_t item = 7;
    int64_t taken = 0;
    const ps_from puts[] = {{&item, sizeof(item)}};
    const ps_into takes[] = {{&taken, sizeof(taken)}};
    float value[4] = {0};
    ps_session *s = open_monitored(&seen, NULL, NULL);
    model_get(s, &m);
    ps_queue_spec_init(&spec, "q", PS_I64, PS_SCALAR);
    assert_int_equal(ps_queue_get(s, &spec, &taker.queue), PS_OK);
    flow.v = get(s, "more", PS_F32, PS_SHAPE(4), ps_sgd(1));
    const char *device = ps_variable_device(flow.v);
    assert_int_equal(ps_session_ready(s), PS_OK);
    assert_int_equal(pthread_create(&thread, NULL, take_main, &taker), 0);
    await_waiter();
    flow_next(&flow);
    assert_int_equal(train(s, &m, 20, 10, restart_all), 10 + 1 + 20);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(taker.status, PS_ABORTED);
    assert_int_equal(atomic_load(&flow.ended), 1);
    assert_int_equal(ps_enqueue(taker.queue, puts, 1, TIMEOUT_MS), PS_OK);
    assert_int_equal(ps_dequeue(taker.queue, takes, 1, TIMEOUT_MS), PS_OK);
    assert_int_equal(taken, 7);
    assert_int_equal(ps_variable_read(flow.v, value, sizeof(value)), PS_OK);
    assert_ptr_equal(ps_variable_device(flow.v), device);
    ps_session *other = open_session(TIMEOUT_MS); /* it is where it was, and of that name */
    ps_variable *found = NULL;
    assert_int_equal(ps_variable_find(other, "more", &found), PS_OK);
    assert_string_equal(ps_variable_device(found), device);
    assert_int_equal(ps_session_close(other), 0);
    assert_int_equal(ps_session_close(s), 0);
}

/* ---- a step that a recovery comes into ---- */

/* What is left of it does nothing, and it is not counted; the one after it is. */
static void test_broken_step(void **state)
{
    (void)state;
    struct seen seen;
    struct model m;
    ps_session *s = open_monitored(&seen, NULL, NULL);
    model_get(s, &m);
    assert_int_equal(ps_session_ready(s), PS_OK);
    for (int i = 0; i < 4; i++) {
        m.b_grad[i] = 1;
    }
    assert_int_equal(ps_push(s, m.w), PS_OK);
    restart_all();
    read_until_lost(s, &m);
    assert_int_equal(ps_pull(s), PS_OK);
    assert_int_equal(atomic_load(&seen.recovered), 1);
    assert_int_equal(ps_push(s, m.b), PS_ABORTED);
    assert_non_null(strstr(ps_last_error(), "in the middle of this step"));
    assert_int_equal(ps_step_done(s), PS_ABORTED);
    assert_int_equal(ps_session_status(s), PS_OK);
    assert_values(s, &m, 1, 0);
    assert_int_equal(ps_push(s, m.b), PS_OK);
    assert_int_equal(ps_step_done(s), PS_OK);
    assert_int_equal(ps_global_step(s), 1);
    assert_values(s, &m, 1, -1);
    assert_int_equal(ps_session_close(s), 0);
}

/* ---- rounds ---- */

enum { ROUNDS = 20, ROUNDS_BEFORE = 3 };
struct member {
    uint32_t task;
    struct seen seen;
    atomic_int steps;
    int code;
    int64_t step;
    float w, b;
};

static void *member_main(void *arg)
{
    struct member *me = arg;
    struct model m;
    this_task = me->task;
    ps_session *s = open_monitored(&me->seen, NULL, as_worker);
    (void)ps_session_sync(s, NULL); /* errors stick to the session */
    model_get(s, &m);
    (void)ps_session_ready(s);
    ps_set_steps(s, ROUNDS);
    while (!ps_should_stop(s)) {
        ps_pull(s);
        float *w = ps_param_grad(m.w);
        float *b = ps_param_grad(m.b);
        for (int i = 0; i < WIDTH; i++) {
            w[i] = 0.5F;
        }
        for (int i = 0; i < 4; i++) {
            b[i] = -1;
        }
        ps_push(s, m.w), ps_push(s, m.b);
        if (ps_step_done(s) == PS_OK && atomic_fetch_add(&me->steps, 1) + 1 == ROUNDS_BEFORE && me->task == 0) {
            await_restart(); /* the other one waits in the next round */
        }
    }
    (void)ps_pull(s);
    me->w = ((float *)ps_param_value(m.w))[WIDTH - 1];
    me->b = ((float *)ps_param_value(m.b))[3];
    me->step = ps_global_step(s);
    me->code = ps_session_close(s);
    return NULL;
}

/* Both members are so again, in rounds that begin anew; the values are those of so many rounds, exactly. */
static void test_rounds(void **state)
{
    (void)state;
    static struct member members[2];
    pthread_t threads[2];
    memset(members, 0, sizeof(members));
    atomic_store(&restarted, false);
    for (uint32_t i = 0; i < 2; i++) {
        members[i].task = i;
        assert_int_equal(pthread_create(&threads[i], NULL, member_main, &members[i]), 0);
    }
    while (atomic_load(&members[0].steps) < ROUNDS_BEFORE) {
        (void)usleep(1000); /* sleep: looks at what it waits for; the steps have deadlines */
    }
    restart_all();
    atomic_store(&restarted, true);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(members[i].code, 0);
        assert_int_equal(members[i].step, ROUNDS);
        assert_float_equal(members[i].w, 1 - ROUNDS * 0.5F, 0);
        assert_float_equal(members[i].b, ROUNDS, 0);
        assert_true(atomic_load(&members[i].seen.recovered) >= 1);
    }
}

/* ---- half a model ---- */

/* Nobody has said what is to become of the rest: it stays, and the session ends. */
static void test_half_lost(void **state)
{
    (void)state;
    struct seen seen;
    struct model m;
    ps_session *s = open_monitored(&seen, NULL, NULL);
    model_get(s, &m);
    assert_int_equal(ps_session_ready(s), PS_OK);
    assert_int_equal(train(s, &m, 20, 10, restart_second), 11);
    assert_int_equal(ps_session_status(s), PS_DATA_LOSS);
    assert_int_equal(ps_session_reason(s), PS_REASON_LOST);
    assert_non_null(strstr(ps_session_error(s), "is lost: 'b' at /job:ps/task:1"));
    assert_int_equal(atomic_load(&seen.failed), 1);
    assert_non_null(ps_param_grad(m.w));
    assert_true(ps_would_stop(s));
    assert_int_equal(ps_pull(s), PS_DATA_LOSS);
    assert_int_equal(ps_session_close(s), PS_DATA_LOSS);
    float value[WIDTH];
    ps_variable *w = NULL;
    s = open_session(TIMEOUT_MS);
    assert_int_equal(ps_variable_find(s, "w", &w), PS_OK);
    assert_int_equal(ps_variable_read(w, value, sizeof(value)), PS_OK);
    assert_true(value[0] <= 1 - 10 * 0.5F); /* as it was trained */
    assert_int_equal(ps_session_close(s), 0);
}

static void test_start_over(void **state)
{
    (void)state;
    struct seen seen;
    struct model m;
    ps_recovery r = {.struct_bytes = sizeof(r)};
    ps_session *s = open_that_starts_over(&seen, NULL);
    model_get(s, &m);
    assert_int_equal(ps_session_ready(s), PS_OK);
    assert_int_equal(train(s, &m, 20, 10, restart_second), 10 + 1 + 20);
    assert_values(s, &m, 1 - 20 * 0.5F, 20);
    assert_int_equal(ps_monitored_last_recovery(s, &r), PS_OK);
    assert_int_equal(r.lost_steps, 10);
    assert_true(r.initialised && !r.restored);
    assert_non_null(strstr(seen.last, "model=initialised"));
    assert_int_equal(ps_session_close(s), 0);
}

/* ---- the restore point ---- */

struct point {
    int calls;
    bool half, none, fails; /* what it does else than give all of it */
    ps_status status;       /* fails: with that */
    ps_param *w, *b;
    int64_t step;
    float w_value[WIDTH], b_value[4];
};

static ps_status restore(void *ctx, ps_session *s)
{
    struct point *p = ctx;
    ps_variable *v = NULL;
    p->calls++;
    assert_true(ps_is_chief(s));
    if (p->none) {
        return PS_OK;
    }
    ps_status st = ps_variable_find(s, "w", &v);
    st = st == PS_OK ? ps_variable_assign(v, p->w_value, sizeof(p->w_value)) : st;
    if (st != PS_OK || p->half) {
        return st;
    }
    if (p->fails) {
        return p->status;
    }
    st = ps_variable_find(s, "b", &v);
    st = st == PS_OK ? ps_variable_assign(v, p->b_value, sizeof(p->b_value)) : st;
    st = st == PS_OK ? ps_global_step_get(s, &v) : st;
    return st == PS_OK ? ps_variable_assign(v, &p->step, sizeof(p->step)) : st;
}

static ps_session *open_with_part(struct seen *seen, struct point *p, bool part)
{
    ps_monitored_options o;
    ps_monitored_options_init(&o);
    o.restore = restore;
    o.restore_ctx = p;
    o.restore_part = part;
    memset(p, 0, sizeof(*p));
    p->step = 100;
    for (int i = 0; i < WIDTH; i++) {
        p->w_value[i] = 50;
    }
    for (int i = 0; i < 4; i++) {
        p->b_value[i] = 7;
    }
    return open_monitored(seen, &o, NULL);
}

static ps_session *open_with(struct seen *seen, struct point *p)
{
    return open_with_part(seen, p, false);
}

/* At the start, after half of the model was lost, and after all of it was. */
static void test_restore(void **state)
{
    (void)state;
    struct seen seen;
    struct point p;
    struct model m;
    ps_recovery r = {.struct_bytes = sizeof(r)};
    int64_t found = 0;
    ps_session *s = open_with(&seen, &p);
    model_get(s, &m);
    assert_int_equal(ps_session_ready(s), PS_OK);
    assert_int_equal(p.calls, 1);
    assert_int_equal(ps_session_found(s, &found), 0);
    assert_int_equal(found, 100);
    assert_non_null(strstr(seen.ready, " found=0")); /* what is restored was not found */
    assert_int_equal(train(s, &m, 110, 4, restart_second), 4 + 1 + 10);
    assert_int_equal(p.calls, 2);
    assert_values(s, &m, 50 - 10 * 0.5F, 7 + 10);
    assert_int_equal(ps_monitored_last_recovery(s, &r), PS_OK);
    assert_true(r.restored && !r.initialised);
    assert_true(r.replaced);
    assert_int_equal(r.replacements, 1);
    assert_int_equal(r.model_step, 100);
    assert_int_equal(r.step_before, 104);
    assert_int_equal(r.step, 100);
    assert_int_equal(r.lost_steps, 4);
    assert_int_equal(train(s, &m, 120, 2, restart_all), 2 + 1 + 20);
    assert_int_equal(p.calls, 3);
    assert_values(s, &m, 50 - 20 * 0.5F, 7 + 20);
    assert_int_equal(ps_session_found(s, &found), 0);
    assert_int_equal(found, 100);
    assert_int_equal(ps_session_close(s), 0);

    s = open_with(&seen, &p); /* it finds a live model: nothing of it is rolled back */
    model_get(s, &m);
    assert_int_equal(ps_session_ready(s), PS_OK);
    assert_int_equal(p.calls, 0);
    assert_int_equal(ps_global_step(s), 120);
    assert_values(s, &m, 50 - 20 * 0.5F, 7 + 20);
    assert_int_equal(ps_session_close(s), 0);
}

static void test_restore_gives_none(void **state)
{
    (void)state;
    struct seen seen;
    struct point p;
    struct model m;
    ps_session *s = open_with(&seen, &p);
    p.none = true;
    model_get(s, &m);
    assert_int_equal(ps_session_ready(s), PS_OK);
    assert_int_equal(p.calls, 1);
    assert_values(s, &m, 1, 0);
    assert_int_equal(ps_session_close(s), 0);
}

/* What it gives no value is initialised, each time that nothing lives. Where half of a model is lost the rest is not given up for
 * it. */
static void test_restore_part(void **state)
{
    (void)state;
    struct seen seen;
    struct point p;
    struct model m;
    ps_session *s = open_with_part(&seen, &p, true);
    p.half = true;
    model_get(s, &m);
    assert_int_equal(ps_session_ready(s), PS_OK);
    assert_int_equal(p.calls, 1);
    assert_int_equal(ps_global_step(s), 0);
    assert_values(s, &m, 50, 0);
    assert_int_equal(train(s, &m, 10, 4, restart_all), 4 + 1 + 10);
    assert_int_equal(p.calls, 2);
    assert_values(s, &m, 50 - 10 * 0.5F, 10);
    assert_int_equal(train(s, &m, 20, 2, restart_second), 2 + 1);
    assert_int_equal(ps_session_status(s), PS_DATA_LOSS);
    assert_non_null(strstr(ps_session_error(s), "is lost: 'b' at /job:ps/task:1"));
    assert_int_equal(p.calls, 2);
    assert_int_equal(ps_session_close(s), PS_DATA_LOSS);
}

/* What it has given is nobody's: the next chief restores anew. */
static void test_restore_fails(void **state)
{
    (void)state;
    struct seen seen;
    struct point p;
    struct model m;
    for (int half = 0; half < 2; half++) {
        ps_session *s = open_with(&seen, &p);
        p.half = half != 0;
        p.fails = half == 0;
        p.status = PS_NOT_FOUND;
        model_get(s, &m);
        assert_int_equal(ps_session_ready(s), half ? PS_FAILED_PRECONDITION : PS_NOT_FOUND);
        assert_non_null(strstr(ps_session_error(s),
                               half ? "1 variables values, and 1 not: 'b'" : "the restore function: it returned NOT_FOUND"));
        assert_int_equal(atomic_load(&seen.failed), 1);
        assert_true(ps_should_stop(s));
        assert_int_equal(ps_session_close(s), half ? PS_FAILED_PRECONDITION : PS_NOT_FOUND);
    }
    ps_session *s = open_with(&seen, &p);
    model_get(s, &m);
    assert_int_equal(ps_session_ready(s), PS_OK);
    assert_int_equal(p.calls, 1);
    assert_values(s, &m, 50, 7);
    assert_int_equal(ps_session_close(s), 0);
}

/* ---- limits ---- */

static void test_no_recovery(void **state)
{
    (void)state;
    struct seen seen;
    struct model m;
    ps_monitored_options o;
    ps_monitored_options_init(&o);
    o.max_recoveries = 0;
    ps_session *s = open_monitored(&seen, &o, NULL);
    model_get(s, &m);
    assert_int_equal(ps_session_ready(s), PS_OK);
    assert_int_equal(train(s, &m, 20, 10, restart_all), 11);
    assert_int_equal(ps_session_status(s), PS_ABORTED);
    assert_int_equal(atomic_load(&seen.lost), 0);
    assert_int_equal(atomic_load(&seen.failed), 1);
    assert_int_equal(ps_session_close(s), PS_ABORTED);
}

/* It is lost again and again, and never gets to the end of a step. */
static void test_too_many(void **state)
{
    (void)state;
    struct seen seen;
    struct model m;
    ps_monitored_options o;
    ps_recovery r = {.struct_bytes = sizeof(r)};
    int loops = 0;
    ps_monitored_options_init(&o);
    o.max_recoveries = 2;
    ps_session *s = open_monitored(&seen, &o, NULL);
    model_get(s, &m);
    assert_int_equal(ps_session_ready(s), PS_OK);
    while (!ps_should_stop(s)) {
        ps_pull(s);
        restart_all();
        ps_push(s, m.w), ps_push(s, m.b);
        ps_step_done(s);
        loops++;
    }
    assert_int_equal(loops, 3);
    assert_int_equal(ps_monitored_last_recovery(s, &r), PS_OK);
    assert_int_equal(r.count, 2);
    assert_int_equal(atomic_load(&seen.failed), 1);
    assert_int_equal(ps_session_close(s), PS_ABORTED);
}

/* The task does not come back in time; what is said names it. */
static void too_late(int64_t max_recovery_ms, int64_t deadline_ms)
{
    struct seen seen;
    struct model m;
    ps_monitored_options o;
    ps_monitored_options_init(&o);
    o.max_recovery_ms = max_recovery_ms;
    ps_session *s = open_monitored(&seen, &o, short_calls);
    model_ready(s, &m);
    test_cluster_kill(&cluster, 1);
    ps_push(s, m.b);
    assert_int_equal(ps_step_done(s), PS_UNAVAILABLE);
    assert_int_equal(atomic_load(&seen.lost), 1);
    assert_non_null(ps_param_grad(m.w)); /* to the end of its step a program needs no branch */
    assert_false(ps_would_stop(s));      /* a loss that may be mended, and nothing begins to mend it here */
    assert_int_equal(atomic_load(&seen.failed), 0);
    ps_session_set_deadline(s, deadline_ms);
    assert_true(ps_should_stop(s));
    assert_true(ps_would_stop(s));
    assert_int_equal(atomic_load(&seen.failed), 1);
    assert_non_null(strstr(ps_session_error(s), "/job:ps/task:1"));
    assert_non_null(strstr(ps_session_error(s), "was not made anew within"));
    assert_int_not_equal(ps_session_close(s), 0);
}

static void test_too_late(void **state)
{
    (void)state;
    too_late(1500, 0);
}

/* By the program's own deadline, which is before that of the recovery. */
static void test_deadline(void **state)
{
    (void)state;
    too_late(600000, 1500);
}

/* ---- what is no loss ---- */

static void test_own_failure(void **state)
{
    (void)state;
    struct seen seen;
    struct model m;
    ps_session *s = open_monitored(&seen, NULL, NULL);
    model_get(s, &m);
    assert_int_equal(ps_session_ready(s), PS_OK);
    assert_int_equal(ps_session_fail(s, PS_UNAVAILABLE, "no more paper"), PS_UNAVAILABLE);
    assert_true(ps_should_stop(s));
    assert_string_equal(ps_session_error(s), "no more paper");
    assert_int_equal(atomic_load(&seen.lost), 0);
    assert_int_equal(ps_session_close(s), PS_UNAVAILABLE);
}

static void test_bad_options(void **state)
{
    (void)state;
    ps_session_options o;
    ps_monitored_options m;
    ps_session *s = NULL;
    char error[256];
    ps_session_options_init(&o);
    o.log = no_log;
    ps_monitored_options_init(&m);
    m.max_recovery_ms = 0;
    assert_int_equal(ps_monitored_open(&o, &m, &s, error, sizeof(error)), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(error, "max_recovery_ms: 0 ms"));
    memset(&m, 0, sizeof(m));
    assert_int_equal(ps_monitored_open(&o, &m, &s, error, sizeof(error)), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(error, "ps_monitored_options_init"));
    assert_int_equal(ps_monitored_open(&o, NULL, NULL, error, sizeof(error)), PS_INVALID_ARGUMENT);
    o.spin_us = 1000000;
    assert_int_equal(ps_monitored_open(&o, NULL, &s, error, sizeof(error)), PS_INVALID_ARGUMENT);
    assert_null(s);
    char program[] = "program";
    char flag[] = "--task_index=many";
    char *argv[] = {program, flag, NULL};
    int argc = 2;
    s = ps_monitored_open_args(&argc, argv, "about", NULL);
    assert_non_null(s);
    assert_int_equal(ps_session_close(s), PS_INVALID_ARGUMENT);
}

/* ---- an evaluator ---- */

/* It waits for the model and for steps, reads, and changes nothing; a loss is no end for it either. */
static void test_evaluator(void **state)
{
    (void)state;
    struct seen seen;
    struct seen seen_too;
    struct model m;
    struct model e;
    ps_session *s = open_that_starts_over(&seen, NULL);
    model_get(s, &m);
    assert_int_equal(ps_session_ready(s), PS_OK);
    ps_session *evaluator = open_monitored(&seen_too, NULL, as_evaluator);
    model_get(evaluator, &e);
    assert_int_equal(ps_wait_step(evaluator, 1, 100), PS_FAILED_PRECONDITION);
    assert_int_equal(ps_session_ready(evaluator), PS_OK);
    assert_false(ps_is_chief(evaluator));
    assert_int_equal(ps_wait_step(evaluator, 1, 120), PS_DEADLINE_EXCEEDED);
    assert_int_equal(ps_session_status(evaluator), PS_OK);
    assert_int_equal(train(s, &m, 5, -1, NULL), 5);
    assert_int_equal(ps_wait_step(evaluator, 5, TIMEOUT_MS), PS_OK);
    assert_int_equal(ps_global_step(evaluator), 5);
    assert_values(evaluator, &e, 1 - 5 * 0.5F, 5);
    assert_int_equal(train(s, &m, 10, 0, restart_all), 11);
    assert_int_equal(ps_wait_step(evaluator, 10, TIMEOUT_MS), PS_OK);
    assert_values(evaluator, &e, 1 - 10 * 0.5F, 10);
    assert_int_equal(atomic_load(&seen_too.recovered), 1);
    assert_int_equal(ps_push(evaluator, e.w), PS_FAILED_PRECONDITION);
    assert_true(ps_should_stop(evaluator));
    assert_int_equal(ps_session_close(evaluator), PS_FAILED_PRECONDITION);
    assert_int_equal(ps_session_close(s), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_total_loss, setup, teardown),
        cmocka_unit_test_setup_teardown(test_others_meanwhile, setup, teardown),
        cmocka_unit_test_setup_teardown(test_broken_step, setup, teardown),
        cmocka_unit_test_setup_teardown(test_rounds, setup_workers, teardown),
        cmocka_unit_test_setup_teardown(test_half_lost, setup, teardown),
        cmocka_unit_test_setup_teardown(test_start_over, setup, teardown),
        cmocka_unit_test_setup_teardown(test_restore, setup, teardown),
        cmocka_unit_test_setup_teardown(test_restore_gives_none, setup, teardown),
        cmocka_unit_test_setup_teardown(test_restore_part, setup, teardown),
        cmocka_unit_test_setup_teardown(test_restore_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_recovery, setup, teardown),
        cmocka_unit_test_setup_teardown(test_too_many, setup, teardown),
        cmocka_unit_test_setup_teardown(test_too_late, setup, teardown),
        cmocka_unit_test_setup_teardown(test_deadline, setup, teardown),
        cmocka_unit_test_setup_teardown(test_own_failure, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bad_options, setup, teardown),
        cmocka_unit_test_setup_teardown(test_evaluator, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
