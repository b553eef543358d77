/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread of a monitored session that stands still while another one makes the session anew: what it has been told before is
 * about a model that is gone, and nobody waits for it for ever.
 */
#include "monitored_test.h"

#include <dlfcn.h>

struct trainer {
    ps_session *s;
    struct model *m;
    ps_status pushed, done;
    char error[512];
};

static _Thread_local bool late;             /* this thread stands still once, when it is woken */
static atomic_bool sleeps, stands, goes_on; /* the late thread sleeps; stands still; may go on */

/* In place of the system's: a thread that was woken need not run at once. */
int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
    const struct timespec never = {.tv_sec = INT32_MAX};
    atomic_store(&sleeps, atomic_load(&sleeps) || late);
    const int rc = pthread_cond_clockwait(cond, mutex, CLOCK_MONOTONIC, &never);
    if (late) {
        late = false;
        assert_int_equal(pthread_mutex_unlock(mutex), 0);
        atomic_store(&stands, true);
        while (!atomic_load(&goes_on)) {
            (void)usleep(1000); /* sleep: looks at what it waits for */
        }
        assert_int_equal(pthread_mutex_lock(mutex), 0);
    }
    return rc;
}

static void *step_main(void *arg)
{
    struct trainer *t = arg;
    t->pushed = ps_push(t->s, t->m->w);
    late = true;
    t->done = ps_step_done(t->s);
    (void)snprintf(t->error, sizeof(t->error), "%s", ps_last_error());
    return NULL;
}

static void await(atomic_bool *what)
{
    while (!atomic_load(what)) {
        (void)usleep(1000); /* sleep: looks at what it waits for */
    }
}

/* The thread that trains waits for the end of its step, and stands still, while another one makes the session anew. Its pushes
 * are gone with the old model, so the new one does not count the step. */
static void stands_still(bool rounds)
{
    struct seen seen;
    struct model m;
    ps_sync_options sync;
    ps_session *s = open_that_starts_over(&seen, as_worker);
    struct trainer t = {.s = s, .m = &m};
    ps_variable *step = NULL;
    int64_t counted = -1;
    ps_sync_options_init(&sync);
    sync.workers = 1;
    atomic_store(&sleeps, false);
    atomic_store(&stands, false);
    atomic_store(&goes_on, false);
    assert_int_equal(rounds ? ps_session_sync(s, &sync) : PS_OK, PS_OK);
    model_get(s, &m);
    assert_int_equal(ps_session_ready(s), PS_OK);
    assert_int_equal(train(s, &m, 3, -1, NULL), 3);
    ps_set_steps(s, 0);
    assert_int_equal(ps_pull(s), PS_OK);
    assert_int_equal(ps_push(s, m.b), PS_OK);
    stop_tasks();
    void *thread = thread_of(step_main, &t);
    await(&sleeps);
    restart_all();
    read_until_lost(s, &m);
    assert_false(ps_should_stop(s));
    assert_int_equal(atomic_load(&seen.recovered), 1);
    await(&stands);
    atomic_store(&goes_on, true);
    join(thread);
    assert_int_equal(t.pushed, PS_OK);
    assert_int_equal(t.done, PS_ABORTED);
    assert_non_null(strstr(t.error, "in the middle of this step"));
    assert_int_equal(ps_session_status(s), PS_OK);
    assert_int_equal(ps_global_step(s), 0);
    assert_int_equal(ps_global_step_get(s, &step), PS_OK);
    assert_int_equal(ps_variable_read(step, &counted, sizeof(counted)), PS_OK);
    assert_int_equal(counted, 0);
    assert_values(s, &m, 1, 0);
    assert_int_equal(train(s, &m, 2, -1, NULL), 2);
    assert_values(s, &m, 0, 2);
    assert_int_equal(atomic_load(&seen.recovered), 1);
    assert_int_equal(ps_session_close(s), 0);
}

static void test_stands_still(void **state)
{
    (void)state;
    stands_still(false);
    restart_all();
    stands_still(true);
}

struct still {
    ps_session *s;
    struct model m;
    ps_param *rows;
    ps_variable *step;
    void (*does)(struct still *t);
    int unlocks; /* the thread stands still when it has released locks so often */
    atomic_bool over;
    bool stood;
    ps_status done; /* of its step */
};

static _Thread_local int unlocks_left; /* this thread stands still behind the last one; 0: it does not */

/* In place of the system's: the thread need not go on at once. */
int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    static _Atomic(uintptr_t) known;
    uintptr_t unlock = atomic_load(&known);
    if (unlock == 0) {
        unlock = (uintptr_t)dlsym(RTLD_NEXT, "pthread_mutex_unlock");
        atomic_store(&known, unlock);
    }
    const int rc = ((int (*)(pthread_mutex_t *))unlock)(mutex);
    if (unlocks_left > 0 && --unlocks_left == 0) {
        atomic_store(&stands, true);
        await(&goes_on);
    }
    return rc;
}

static void *still_main(void *arg)
{
    struct still *t = arg;
    unlocks_left = t->unlocks;
    t->does(t);
    t->stood = unlocks_left == 0;
    unlocks_left = 0;
    atomic_store(&t->over, true);
    return NULL;
}

static void *mend_main(void *arg)
{
    (void)ps_should_stop(arg);
    return NULL;
}

static bool comes(const atomic_int *count, int to, int64_t ms)
{
    for (; atomic_load(count) < to && ms > 0; ms--) {
        (void)usleep(1000); /* sleep: looks at what it waits for */
    }
    return atomic_load(count) >= to;
}

/* One thread does something, and stands still wherever it has released a lock, while another one makes the session anew. */
static void stands_everywhere(struct still *t, int stride, void (*check)(struct still *t))
{
    struct seen seen;
    ps_variable_spec spec;
    ps_monitored_options o;
    ps_monitored_options_init(&o);
    o.start_over = true;
    o.max_recoveries = 1000;
    t->s = open_monitored(&seen, &o, NULL);
    model_get(t->s, &t->m);
    ps_variable_spec_init(&spec);
    spec.name = "rows";
    spec.dtype = PS_F32;
    spec.shape = PS_SHAPE(4, 2);
    t->rows = ps_embedding_get(t->s, &spec);
    const struct model looks = {.w = ps_param_get(t->s, "looks", PS_SCALAR, ps_zeros(), NULL)};
    assert_int_equal(ps_session_ready(t->s), PS_OK);
    assert_int_equal(ps_global_step_get(t->s, &t->step), PS_OK);
    t->stood = true;
    int times = 0;
    for (t->unlocks = 1; t->stood; t->unlocks += stride) {
        atomic_store(&stands, false);
        atomic_store(&goes_on, false);
        atomic_store(&t->over, false);
        void *thread = thread_of(still_main, t);
        while (!atomic_load(&stands) && !atomic_load(&t->over)) {
            (void)usleep(1000); /* sleep: looks at what it waits for */
        }
        restart_all();
        read_until_lost(t->s, &looks);
        void *mends = thread_of(mend_main, t->s);
        (void)comes(&seen.recovered, ++times, 700); /* it may also wait for the thread that stands still */
        atomic_store(&goes_on, true);
        if (!comes(&seen.recovered, times, TIMEOUT_MS / 2)) {
            fail_msg("nobody wakes the thread that recovers: the other one has stood still behind unlock %d", t->unlocks);
        }
        join(thread);
        join(mends);
        assert_int_equal(ps_session_status(t->s), PS_OK);
        check(t);
    }
    assert_true(times > 5);
    assert_int_equal(ps_session_close(t->s), 0);
}

static void read_ahead(struct still *t)
{
    (void)ps_embedding_ahead(t->rows, (const int64_t[]){3, 1}, 2);
}

static void check_nothing(struct still *t)
{
    (void)t;
}

static void test_stands_still_ahead(void **state)
{
    (void)state;
    stands_everywhere(&(struct still){.does = read_ahead}, 1, check_nothing);
}

static void make_step(struct still *t)
{
    (void)ps_pull_param(t->m.w);
    (void)ps_pull_param(t->m.b);
    float *w = ps_param_grad(t->m.w), *b = ps_param_grad(t->m.b);
    for (int i = 0; i < WIDTH; i++) {
        w[i] = 0.5F;
    }
    for (int i = 0; i < 4; i++) {
        b[i] = -1;
    }
    (void)ps_push(t->s, t->m.w);
    (void)ps_push(t->s, t->m.b);
    t->done = ps_step_done(t->s);
}

/* The model, which is new, has all of the step or nothing. */
static void check_step(struct still *t)
{
    int64_t steps = -1;
    assert_int_equal(ps_variable_read(t->step, &steps, sizeof(steps)), PS_OK);
    assert_true(steps == 0 || (steps == 1 && t->done == PS_OK));
    assert_int_equal(ps_global_step(t->s), steps);
    assert_values(t->s, &t->m, 1 - 0.5F * (float)steps, (float)steps);
}

static void test_stands_still_in_a_step(void **state)
{
    (void)state;
    stands_everywhere(&(struct still){.does = make_step}, 3, check_step);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_stands_still, setup_workers, teardown),
        cmocka_unit_test_setup_teardown(test_stands_still_ahead, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stands_still_in_a_step, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
