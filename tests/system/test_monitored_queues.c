/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues, work, accumulators and barriers of monitored sessions when the task that has them is killed: work is filled again and
 * begins anew, items of before are told from those of now, queues come back empty, and a queue that nobody makes again holds
 * nobody up for long.
 */
#include "monitored_test.h"

enum { ITEMS = 6, EPOCHS = 4, TRAINERS = 3, NEXT_MS = 20000, STEPS_BEFORE = 3 };
static const char *const items[ITEMS] = {"a", "b", "c", "d", "e", "f"};

static ps_param *param_at(ps_session *s, const char *name, const char *device)
{
    assert_int_equal(ps_device_push(s, device), PS_OK);
    ps_param *p = ps_param_get(s, name, PS_SHAPE(4), ps_zeros(), ps_sgd(1));
    assert_int_equal(ps_device_pop(s), PS_OK);
    return p;
}

static ps_work *work_at(ps_session *s, const char *device)
{
    ps_work *work = NULL;
    assert_int_equal(ps_device_push(s, device), PS_OK);
    ps_status st = ps_work_get(s, "items", items, NULL, ITEMS, EPOCHS, 0, &work);
    if (st != PS_OK) {
        fail_msg("%s", ps_last_error());
    }
    assert_int_equal(ps_device_pop(s), PS_OK);
    return work;
}

static void step(ps_session *s, ps_param *p)
{
    float *grad = ps_param_grad(p);
    for (int i = 0; i < 4 && grad != NULL; i++) {
        grad[i] = -1;
    }
    ps_push(s, p);
    ps_step_done(s);
}

/* The model is at the first task and the work at the second one: only the work is lost. An item of before is over, which is said
 * as a loss; the model goes on, and the work from its beginning. */
static void test_work_alone(void **state)
{
    (void)state;
    struct seen seen;
    ps_work_item old, now;
    ps_recovery r = {.struct_bytes = sizeof(r)};
    ps_session *s = open_monitored(&seen, NULL, NULL);
    ps_param *p = param_at(s, "p", "/job:ps/task:0");
    ps_work *work = work_at(s, "/job:ps/task:1");
    assert_int_equal(ps_session_ready(s), PS_OK);
    for (int i = 0; i < ITEMS + 1; i++) { /* one epoch, and an item of the second one */
        assert_int_equal(ps_work_next(work, &old, NEXT_MS), PS_OK);
        step(s, p);
        assert_int_equal(ps_work_done(work, &old), PS_OK);
    }
    assert_int_equal(ps_work_next(work, &old, NEXT_MS), PS_OK);
    assert_int_equal(old.epoch, 2);
    restart_second();
    assert_int_equal(ps_work_next(work, &now, NEXT_MS), PS_ABORTED);
    assert_int_equal(ps_last_reason(), PS_REASON_LOST);
    assert_int_equal(ps_session_status(s), PS_ABORTED);
    assert_false(ps_should_stop(s));
    assert_int_equal(atomic_load(&seen.recovered), 1);
    assert_int_equal(ps_monitored_last_recovery(s, &r), PS_OK);
    assert_int_equal(r.lost_steps, 0);
    assert_int_equal(ps_global_step(s), ITEMS + 1);
    assert_int_equal(ps_work_done(work, &old), PS_ABORTED);
    assert_int_equal(ps_last_reason(), PS_REASON_LOST);
    assert_non_null(strstr(ps_last_error(), "has been made anew since it handed out this item"));
    assert_int_equal(ps_session_status(s), PS_OK); /* the work of now is whole */
    for (int i = 0; i < ITEMS * EPOCHS; i++) {
        assert_int_equal(ps_work_next(work, &now, NEXT_MS), PS_OK);
        assert_string_equal(now.data, items[i % ITEMS]);
        assert_int_equal(now.epoch, i / ITEMS + 1);
        assert_int_equal(ps_work_done(work, &now), PS_OK);
    }
    assert_int_equal(ps_work_next(work, &now, NEXT_MS), PS_OUT_OF_RANGE);
    assert_int_equal(ps_session_close(s), 0);
}

/* Returned when its work is lost, which nobody has noticed before: as a loss too, and then the session is made anew. */
static void test_return_finds_it(void **state)
{
    (void)state;
    struct seen seen;
    ps_work_item item;
    ps_session *s = open_monitored(&seen, NULL, NULL);
    ps_param *p = param_at(s, "p", "/job:ps/task:0");
    ps_work *work = work_at(s, "/job:ps/task:1");
    assert_int_equal(ps_session_ready(s), PS_OK);
    step(s, p);
    assert_int_equal(ps_work_next(work, &item, NEXT_MS), PS_OK);
    restart_second();
    assert_int_equal(ps_work_return(work, &item), PS_ABORTED);
    assert_int_equal(ps_last_reason(), PS_REASON_LOST);
    assert_int_equal(ps_pull(s), PS_OK);
    assert_int_equal(atomic_load(&seen.recovered), 1);
    assert_int_equal(ps_work_next(work, &item, NEXT_MS), PS_OK);
    assert_int_equal(item.epoch, 1);
    assert_int_equal(ps_work_done(work, &item), PS_OK);
    assert_int_equal(ps_session_close(s), 0);
}

/* ---- several trainers, whose chief starts over ---- */

struct trainer {
    struct seen seen;
    atomic_int steps, done;
    int code;
    bool over; /* it has seen the end of all epochs */
};

static void *trainer_main(void *arg)
{
    struct trainer *me = arg;
    ps_monitored_options o;
    ps_monitored_options_init(&o);
    o.start_over = true;
    ps_session *s = open_monitored(&me->seen, &o, NULL);
    ps_param *p = param_at(s, "p", "/job:ps/task:0");
    ps_param *q = param_at(s, "q", "/job:ps/task:1");
    ps_work *work = work_at(s, "/job:ps/task:0");
    (void)ps_session_ready(s);
    while (!ps_should_stop(s) && !me->over) {
        ps_work_item item;
        ps_status st = ps_work_next(work, &item, NEXT_MS);
        me->over = st == PS_OUT_OF_RANGE;
        if (st == PS_DEADLINE_EXCEEDED) {
            break;
        }
        if (st == PS_OK) {
            ps_pull(s);
            (void)ps_push(s, q);
            step(s, p);
            atomic_fetch_add(&me->steps, 1);
            atomic_fetch_add(&me->done, ps_work_done(work, &item) == PS_OK ? 1 : 0);
            if (atomic_load(&me->steps) == STEPS_BEFORE) {
                await_restart();
            }
        }
    }
    me->code = ps_session_close(s);
    return NULL;
}

/* Half of the model is lost, the chief empties the rest, and the work with it, which was at the task that lives: whoever has
 * recovered before that does so again, all find it filled, and all epochs of it are done. */
static void test_work_of_several(void **state)
{
    (void)state;
    static struct trainer trainers[TRAINERS];
    pthread_t threads[TRAINERS];
    int steps = 0;
    int done = 0;
    int recovered = 0;
    memset(trainers, 0, sizeof(trainers));
    atomic_store(&restarted, false);
    for (int i = 0; i < TRAINERS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, trainer_main, &trainers[i]), 0);
    }
    while (steps < STEPS_BEFORE) {
        (void)usleep(1000); /* sleep: looks at what it waits for; its calls have deadlines */
        steps = 0;
        for (int i = 0; i < TRAINERS; i++) {
            steps += atomic_load(&trainers[i].steps);
        }
    }
    restart_second();
    atomic_store(&restarted, true);
    for (int i = 0; i < TRAINERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(trainers[i].code, 0);
        assert_true(trainers[i].over);
        done += atomic_load(&trainers[i].done);
        recovered += atomic_load(&trainers[i].seen.recovered);
    }
    assert_true(recovered > 0);
    assert_true(done >= ITEMS * EPOCHS);
}

/* ---- other kinds ---- */

struct waiter {
    ps_session *s;
    ps_status status;
};

static void *barrier_main(void *arg)
{
    struct waiter *w = arg;
    w->status = ps_barrier_within(w->s, "gate", 2, TIMEOUT_MS);
    return NULL;
}

/* Empty, as they are made; a barrier ends with the loss for who waits, and is passed by those who come to it afterwards. */
static void test_other_kinds(void **state)
{
    (void)state;
    struct seen seen;
    struct waiter waiter = {0};
    pthread_t thread;
    ps_queue *q = NULL;
    ps_accumulator *a = NULL;
    ps_queue_spec spec;
    const int64_t element = 7;
    const ps_from puts[] = {{&element, sizeof(element)}};
    int64_t taken = 0;
    const ps_into takes[] = {{&taken, sizeof(taken)}};
    const float gradient[4] = {1, 2, 3, 4};
    float sum[4] = {0};
    uint64_t count = 0;
    bool accepted = false;
    ps_session *s = open_monitored(&seen, NULL, NULL);
    ps_param *p = param_at(s, "p", "/job:ps/task:0");
    ps_queue_spec_init(&spec, "q", PS_I64, PS_SCALAR);
    spec.device = "/job:ps/task:1";
    assert_int_equal(ps_queue_get(s, &spec, &q), PS_OK);
    assert_int_equal(ps_accumulator_get(s, "a", PS_F32, PS_SHAPE(4), PS_REDUCTION_SUM, "/job:ps/task:1", &a), PS_OK);
    assert_int_equal(ps_session_ready(s), PS_OK);
    step(s, p);
    assert_int_equal(ps_enqueue(q, puts, 1, TIMEOUT_MS), PS_OK);
    assert_int_equal(ps_accumulator_set_global_step(a, 5, NULL), PS_OK);
    assert_int_equal(ps_accumulator_apply_grad(a, gradient, sizeof(gradient), 5, TIMEOUT_MS, &accepted), PS_OK);
    waiter.s = s;
    assert_int_equal(pthread_create(&thread, NULL, barrier_main, &waiter), 0);
    await_waiter();
    restart_all();
    assert_int_equal(ps_dequeue(q, takes, 1, TIMEOUT_MS), PS_ABORTED);
    assert_false(ps_should_stop(s));
    assert_int_equal(atomic_load(&seen.recovered), 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(waiter.status, PS_ABORTED);
    assert_int_equal(ps_dequeue(q, takes, 1, 50), PS_DEADLINE_EXCEEDED); /* what was in it is lost */
    assert_int_equal(ps_enqueue(q, puts, 1, TIMEOUT_MS), PS_OK);
    assert_int_equal(ps_dequeue(q, takes, 1, TIMEOUT_MS), PS_OK);
    assert_int_equal(taken, element);
    assert_int_equal(ps_accumulator_num_accumulated(a, &count), PS_OK);
    assert_int_equal(count, 0);
    assert_int_equal(ps_accumulator_apply_grad(a, gradient, sizeof(gradient), 0, TIMEOUT_MS, &accepted), PS_OK);
    assert_true(accepted); /* its global step is 0 again */
    assert_int_equal(ps_accumulator_take_grad(a, 1, sum, sizeof(sum), TIMEOUT_MS, NULL), PS_OK);
    assert_float_equal(sum[3], gradient[3], 0);
    assert_int_equal(ps_barrier_within(s, "gate", 1, TIMEOUT_MS), PS_OK);
    assert_int_equal(ps_session_close(s), 0);
}

struct ended {
    atomic_int count;
    ps_status status;
};

static void on_taken(void *ctx, ps_request *req, const ps_result *result)
{
    struct ended *e = ctx;
    (void)req;
    e->status = result->status;
    atomic_store(&e->count, 1);
}

/* A request that its callback ends finds it out as well. */
static void test_request_finds_it(void **state)
{
    (void)state;
    struct seen seen;
    static ps_request req;
    struct ended ended = {0};
    ps_queue *q = NULL;
    ps_queue_spec spec;
    ps_session *s = open_monitored(&seen, NULL, NULL);
    (void)param_at(s, "p", "/job:ps/task:0");
    ps_queue_spec_init(&spec, "q", PS_I64, PS_SCALAR);
    spec.device = "/job:ps/task:1";
    assert_int_equal(ps_queue_get(s, &spec, &q), PS_OK);
    assert_int_equal(ps_session_ready(s), PS_OK);
    ps_tuple *t = ps_tuple_new(q);
    assert_int_equal(ps_dequeue_start(q, t, 1, false, TIMEOUT_MS, &req, on_taken, &ended), PS_OK);
    restart_second();
    while (atomic_load(&ended.count) == 0) {
        (void)usleep(1000); /* sleep: looks at what it waits for, which has a deadline */
    }
    assert_int_equal(ended.status, PS_ABORTED);
    assert_int_equal(ps_session_status(s), PS_ABORTED);
    assert_false(ps_should_stop(s));
    assert_int_equal(atomic_load(&seen.recovered), 1);
    ps_tuple_free(t);
    assert_int_equal(ps_session_close(s), 0);
}

/* ---- deleted, or only found ---- */

/* Another session has deleted it: it is made again, and filled. The model is there, and the log says the step that it is at, not
 * the one that it once began with. */
static void test_deleted_by_another(void **state)
{
    (void)state;
    struct seen seen;
    ps_work_item item;
    ps_session *s = open_monitored(&seen, NULL, NULL);
    ps_param *p = param_at(s, "p", "/job:ps/task:0");
    ps_work *work = work_at(s, "/job:ps/task:1");
    assert_int_equal(ps_session_ready(s), PS_OK);
    for (int i = 0; i < 3; i++) {
        step(s, p);
    }
    ps_session *other = open_session(TIMEOUT_MS);
    assert_int_equal(ps_variable_delete(other, "items"), PS_OK);
    assert_int_equal(ps_work_next(work, &item, NEXT_MS), PS_ABORTED);
    assert_false(ps_should_stop(s));
    assert_int_equal(ps_work_next(work, &item, NEXT_MS), PS_OK);
    assert_int_equal(item.epoch, 1);
    assert_int_equal(atomic_load(&seen.recovered), 1);
    assert_non_null(strstr(seen.last, "step_before=3 step=3 lost_steps=0 model=there model_step=3 "));
    assert_int_equal(ps_work_done(work, &item), PS_OK);
    assert_int_equal(ps_session_close(other), 0);
    assert_int_equal(ps_session_close(s), 0);
}

/* Who waits there when it is deleted hears it as a loss, not as the end of the queue. */
struct taker {
    ps_queue *q;
    ps_status status;
    ps_reason reason;
};

static void *taker_main(void *arg)
{
    struct taker *t = arg;
    int64_t taken = 0;
    const ps_into takes[] = {{&taken, sizeof(taken)}};
    t->status = ps_dequeue(t->q, takes, 1, TIMEOUT_MS);
    t->reason = ps_last_reason();
    return NULL;
}

static void on_queue(void *ctx, const ps_queue_info *info)
{
    *(uint64_t *)ctx += info->dequeuers;
}

static void test_deleted_while_one_waits(void **state)
{
    (void)state;
    struct seen seen;
    struct taker taker = {.status = PS_OK};
    pthread_t thread;
    ps_queue_spec spec;
    uint64_t waiting = 0;
    ps_session *s = open_monitored(&seen, NULL, NULL);
    ps_param *p = param_at(s, "p", "/job:ps/task:0");
    ps_queue_spec_init(&spec, "q", PS_I64, PS_SCALAR);
    spec.device = "/job:ps/task:1";
    assert_int_equal(ps_queue_get(s, &spec, &taker.q), PS_OK);
    assert_int_equal(ps_session_ready(s), PS_OK);
    assert_int_equal(pthread_create(&thread, NULL, taker_main, &taker), 0);
    ps_session *other = open_session(TIMEOUT_MS);
    while (waiting == 0) {
        assert_int_equal(ps_task_queues(other, 1, TIMEOUT_MS, on_queue, &waiting), PS_OK);
    }
    assert_int_equal(ps_variable_delete(other, "q"), PS_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(taker.status == PS_ABORTED && taker.reason == PS_REASON_LOST);
    assert_false(ps_should_stop(s));
    assert_int_equal(atomic_load(&seen.recovered), 1);
    step(s, p);
    /* the program's own delete is no loss */
    waiting = 0;
    assert_int_equal(pthread_create(&thread, NULL, taker_main, &taker), 0);
    while (waiting == 0) {
        assert_int_equal(ps_task_queues(other, 1, TIMEOUT_MS, on_queue, &waiting), PS_OK);
    }
    assert_int_equal(ps_variable_delete(s, "q"), PS_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(taker.status, PS_CANCELLED);
    assert_false(ps_should_stop(s));
    assert_int_equal(atomic_load(&seen.recovered), 1);
    assert_int_equal(ps_session_close(other), 0);
    assert_int_equal(ps_session_close(s), 0);
}

/* Its state is asked for by nobody who would take an element: that finds out as well. */
static void test_state_finds_it(void **state)
{
    (void)state;
    struct seen seen;
    uint64_t count = 0;
    ps_accumulator *a = NULL;
    ps_session *s = open_monitored(&seen, NULL, NULL);
    (void)param_at(s, "p", "/job:ps/task:0");
    assert_int_equal(ps_accumulator_get(s, "a", PS_F32, PS_SHAPE(4), PS_REDUCTION_SUM, "/job:ps/task:1", &a), PS_OK);
    assert_int_equal(ps_session_ready(s), PS_OK);
    restart_second();
    assert_int_equal(ps_accumulator_num_accumulated(a, &count), PS_ABORTED);
    assert_false(ps_should_stop(s));
    assert_int_equal(atomic_load(&seen.recovered), 1);
    assert_int_equal(ps_accumulator_num_accumulated(a, &count), PS_OK);
    assert_int_equal(ps_session_close(s), 0);
}

/* The line of the placement log comes when the work has been got, and before it is filled. */
static void lose_it(void *ctx, ps_log_level level, const char *line)
{
    static bool done;
    (void)ctx;
    (void)level;
    if (!done && strstr(line, "(Work)") != NULL) {
        done = true;
        restart_second();
    }
}

static void log_placement(ps_session_options *o)
{
    o->log_device_placement = true;
    o->placement_log = lose_it;
}

/* The task is restarted between the two halves of ps_work_get(): the second half alone is made again, in a scope, too, where the
 * first one could not be. */
static void test_lost_before_it_is_filled(void **state)
{
    (void)state;
    struct seen seen;
    ps_work_item item;
    ps_session *s = open_monitored(&seen, NULL, log_placement);
    ps_param *p = param_at(s, "p", "/job:ps/task:0");
    assert_int_equal(ps_variable_scope_push(s, "never", PS_REUSE_NEVER), PS_OK);
    ps_work *work = work_at(s, "/job:ps/task:1");
    assert_int_equal(ps_variable_scope_pop(s), PS_OK);
    assert_int_equal(atomic_load(&seen.recovered), 1);
    assert_int_equal(ps_session_ready(s), PS_OK);
    for (int i = 0; i < ITEMS * EPOCHS; i++) {
        assert_int_equal(ps_work_next(work, &item, NEXT_MS), PS_OK);
        step(s, p);
        assert_int_equal(ps_work_done(work, &item), PS_OK);
    }
    assert_int_equal(ps_work_next(work, &item, NEXT_MS), PS_OUT_OF_RANGE);
    assert_int_equal(ps_session_close(s), 0);
}

/* Deleted by another one and filled with other items by both: what this session had filled in before is not filled in again. */
static void test_filled_with_others_since(void **state)
{
    (void)state;
    struct seen seen, seen_other;
    static const char *const more[] = {"x", "y"};
    ps_work_item item;
    ps_work *work = NULL, *of_other = NULL;
    ps_session *s = open_monitored(&seen, NULL, NULL), *other = open_monitored(&seen_other, NULL, NULL);
    (void)param_at(s, "p", "/job:ps/task:0");
    (void)work_at(s, "/job:ps/task:1");
    (void)work_at(other, "/job:ps/task:1");
    assert_int_equal(ps_session_ready(s), PS_OK);
    assert_int_equal(ps_variable_delete(other, "items"), PS_OK);
    assert_int_equal(ps_device_push(other, "/job:ps/task:1"), PS_OK);
    assert_int_equal(ps_work_get(other, "items", more, NULL, 2, 1, 0, &of_other), PS_OK);
    assert_int_equal(ps_device_push(s, "/job:ps/task:1"), PS_OK);
    assert_int_equal(ps_work_get(s, "items", more, NULL, 2, 1, 0, &work), PS_OK);
    restart_second();
    assert_int_equal(ps_work_next(work, &item, NEXT_MS), PS_ABORTED);
    assert_false(ps_should_stop(s));
    assert_int_equal(atomic_load(&seen.recovered), 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ps_work_next(work, &item, NEXT_MS), PS_OK);
        assert_string_equal(item.data, more[i]);
        assert_int_equal(ps_work_done(work, &item), PS_OK);
    }
    assert_int_equal(ps_work_next(work, &item, NEXT_MS), PS_OUT_OF_RANGE);
    assert_int_equal(ps_session_close(other), 0);
    assert_int_equal(ps_session_close(s), 0);
}

/* What the program itself has deleted nobody waits for: a recovery with all the time there is, which ends at once. */
static void test_deleted_by_itself(void **state)
{
    (void)state;
    struct seen seen;
    ps_work_item item;
    ps_work *found = NULL;
    ps_session *other = open_session(TIMEOUT_MS);
    (void)work_at(other, "/job:ps/task:0");
    ps_session *s = open_monitored(&seen, NULL, NULL);
    ps_param *p = param_at(s, "p", "/job:ps/task:0");
    ps_work *own = NULL;
    ps_variable *scratch = NULL;
    assert_int_equal(ps_work_get(s, "items", NULL, NULL, 0, 1, 0, &found), PS_OK);
    assert_int_equal(ps_work_get(s, "own", items, NULL, ITEMS, EPOCHS, 0, &own), PS_OK);
    assert_int_equal(ps_session_ready(s), PS_OK);
    assert_int_equal(ps_variable_delete(s, "items"), PS_OK);
    assert_int_equal(ps_variable_delete(s, "own"), PS_OK);
    ps_variable *deleted = get(s, "scratch", PS_F32, PS_SHAPE(4), NULL);
    assert_int_equal(ps_variable_delete(s, "scratch"), PS_OK);
    restart_all();
    while (ps_session_status(s) == PS_OK) {
        step(s, p);
    }
    assert_false(ps_should_stop(s));
    assert_int_equal(atomic_load(&seen.recovered), 1);
    assert_non_null(strstr(seen.last, " tries=1 "));
    assert_int_equal(ps_work_next(found, &item, NEXT_MS), PS_FAILED_PRECONDITION);
    assert_int_equal(ps_work_next(own, &item, NEXT_MS), PS_FAILED_PRECONDITION);
    assert_int_equal(ps_variable_set_rate(deleted, NULL), PS_FAILED_PRECONDITION);
    assert_int_equal(ps_session_status(s), PS_OK);
    assert_int_equal(ps_variable_find(other, "scratch", &scratch), PS_NOT_FOUND);
    assert_int_equal(ps_session_close(s), 0);
    assert_int_equal(ps_session_close(other), 0);
}

/* The step of the session itself, which no session is without: a recovery makes it again, and counts from 0. */
static void test_deleted_step(void **state)
{
    (void)state;
    struct seen seen;
    ps_session *s = open_monitored(&seen, NULL, NULL);
    ps_param *p = param_at(s, "p", "/job:ps/task:0");
    assert_int_equal(ps_session_ready(s), PS_OK);
    step(s, p);
    step(s, p);
    assert_int_equal(ps_variable_delete(s, "global_step"), PS_OK);
    restart_all();
    while (ps_session_status(s) == PS_OK) {
        step(s, p);
    }
    assert_false(ps_should_stop(s));
    assert_int_equal(atomic_load(&seen.recovered), 1);
    step(s, p);
    assert_int_equal(ps_global_step(s), 1);
    assert_int_equal(ps_session_close(s), 0);
}

/* Nobody makes it again: the session goes on without it, and finds it when somebody has. */
static void test_found_and_gone(void **state)
{
    (void)state;
    struct seen seen;
    ps_queue *q = NULL;
    ps_queue *again = NULL;
    ps_queue_spec spec;
    const int64_t element = 7;
    const ps_from puts[] = {{&element, sizeof(element)}};
    int64_t taken = 0;
    const ps_into takes[] = {{&taken, sizeof(taken)}};
    ps_session *other = open_session(TIMEOUT_MS);
    ps_queue_spec_init(&spec, "q", PS_I64, PS_SCALAR);
    spec.device = "/job:ps/task:1";
    assert_int_equal(ps_queue_get(other, &spec, &q), PS_OK);
    ps_session *s = open_monitored(&seen, NULL, short_calls);
    ps_session_set_deadline(s, TIMEOUT_MS);
    ps_param *p = param_at(s, "p", "/job:ps/task:0");
    (void)param_at(s, "more", "/job:ps/task:0"); /* global_step, the third one, is there as well */
    assert_int_equal(ps_queue_find(s, "q", &q), PS_OK);
    assert_int_equal(ps_session_ready(s), PS_OK);
    ps_session_set_deadline(s, 0); /* short calls: how long the session waits for the queue to be made again */
    assert_int_equal(ps_session_close(other), 0);
    restart_second();
    assert_int_equal(ps_dequeue(q, takes, 1, TIMEOUT_MS), PS_ABORTED);
    assert_false(ps_should_stop(s));
    assert_int_equal(atomic_load(&seen.recovered), 1);
    assert_null(strstr(seen.last, " tries=1 ")); /* it was waited for */
    ps_session_set_deadline(s, TIMEOUT_MS);
    assert_int_equal(ps_dequeue(q, takes, 1, TIMEOUT_MS), PS_FAILED_PRECONDITION);
    assert_int_equal(ps_session_status(s), PS_OK);
    step(s, p);
    assert_int_equal(ps_global_step(s), 1);
    assert_int_equal(ps_queue_find(s, "q", &again), PS_NOT_FOUND);
    other = open_session(TIMEOUT_MS);
    assert_int_equal(ps_queue_get(other, &spec, &again), PS_OK);
    assert_int_equal(ps_enqueue(again, puts, 1, TIMEOUT_MS), PS_OK);
    assert_int_equal(ps_queue_find(s, "q", &again), PS_OK);
    assert_int_equal(ps_dequeue(again, takes, 1, TIMEOUT_MS), PS_OK);
    assert_int_equal(taken, element);
    assert_int_equal(ps_session_close(other), 0);
    assert_int_equal(ps_session_close(s), 0);
}

/* ---- in rounds ---- */

/* The chief has finished and goes on, with a queue, when its session is lost: it is made anew beside the other one's rounds. */
static void test_finished_in_rounds(void **state)
{
    (void)state;
    struct seen seen[2];
    ps_session *s[2];
    ps_param *p[2];
    ps_queue *q[2];
    ps_queue_spec spec;
    ps_sync_options sync;
    uint64_t size = 0;
    ps_sync_options_init(&sync);
    ps_queue_spec_init(&spec, "q", PS_I64, PS_SCALAR);
    spec.device = "/job:ps/task:1";
    for (this_task = 0; this_task < 2; this_task++) {
        s[this_task] = open_monitored(&seen[this_task], NULL, as_worker);
        assert_int_equal(ps_session_sync(s[this_task], &sync), PS_OK);
        p[this_task] = param_at(s[this_task], "p", "/job:ps/task:0");
        assert_int_equal(ps_queue_get(s[this_task], &spec, &q[this_task]), PS_OK);
        assert_int_equal(ps_session_ready(s[this_task]), PS_OK);
    }
    assert_int_equal(ps_sync_finish(s[0]), PS_OK);
    step(s[1], p[1]);
    assert_int_equal(ps_global_step(s[1]), 1);
    restart_second();
    assert_int_equal(ps_queue_size(q[0], &size), PS_ABORTED);
    assert_false(ps_should_stop(s[0]));
    assert_int_equal(ps_session_status(s[0]), PS_OK);
    assert_int_equal(atomic_load(&seen[0].recovered), 1);
    step(s[1], p[1]); /* alone, as before */
    assert_int_equal(ps_global_step(s[1]), 2);
    assert_int_equal(ps_session_close(s[1]), 0);
    assert_int_equal(ps_session_close(s[0]), 0);
}

/* One has finished when the model is lost: the chief makes it anew, and is not kept waiting. */
static void test_lost_when_one_has_finished(void **state)
{
    (void)state;
    struct seen seen[2];
    ps_session *s[2];
    ps_param *p[2];
    ps_sync_options sync;
    ps_sync_options_init(&sync);
    for (this_task = 0; this_task < 2; this_task++) {
        s[this_task] = open_monitored(&seen[this_task], NULL, as_worker);
        assert_int_equal(ps_session_sync(s[this_task], &sync), PS_OK);
        p[this_task] = param_at(s[this_task], "p", "/job:ps/task:1");
        assert_int_equal(ps_session_ready(s[this_task]), PS_OK);
    }
    assert_int_equal(ps_session_close(s[1]), 0);
    step(s[0], p[0]);
    restart_second();
    step(s[0], p[0]); /* nobody has it any more */
    assert_int_equal(ps_session_status(s[0]), PS_ABORTED);
    assert_false(ps_should_stop(s[0]));
    assert_int_equal(atomic_load(&seen[0].recovered), 1);
    step(s[0], p[0]);
    assert_int_equal(ps_global_step(s[0]), 1);
    assert_int_equal(ps_session_close(s[0]), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_work_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_return_finds_it, setup, teardown),
        cmocka_unit_test_setup_teardown(test_work_of_several, setup, teardown),
        cmocka_unit_test_setup_teardown(test_other_kinds, setup, teardown),
        cmocka_unit_test_setup_teardown(test_request_finds_it, setup, teardown),
        cmocka_unit_test_setup_teardown(test_deleted_by_another, setup, teardown),
        cmocka_unit_test_setup_teardown(test_deleted_while_one_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_state_finds_it, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lost_before_it_is_filled, setup, teardown),
        cmocka_unit_test_setup_teardown(test_filled_with_others_since, setup, teardown),
        cmocka_unit_test_setup_teardown(test_deleted_by_itself, setup, teardown),
        cmocka_unit_test_setup_teardown(test_deleted_step, setup, teardown),
        cmocka_unit_test_setup_teardown(test_found_and_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_finished_in_rounds, setup_workers, teardown),
        cmocka_unit_test_setup_teardown(test_lost_when_one_has_finished, setup_workers, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
