/* SPDX-License-Identifier: Apache-2.0 */
/* What is left of plans that are over: nothing at the tasks; and how many threads their runs take meanwhile. */
#include "plan_test.h"

#include <dirent.h>
#include <time.h>
#include <unistd.h>

enum { PLANS = 100, WIDTH = 1000, PATIENCE_S = 60 };

/* ---- freed plans ---- */

/* What all tasks have in variables. */
struct taken {
    uint64_t bytes;
    uint32_t variables;
};

/* A session that knows all four tasks: those of workers are known once the directory is connected with them. */
static ps_session *session_of_all(void)
{
    const time_t end = time(NULL) + PATIENCE_S;
    for (;;) {
        ps_session *s = open_at(cluster.servers.spec, NULL, false);
        if (ps_cluster_tasks(s) == 4) {
            test_later(close_later, s);
            return s;
        }
        assert_int_equal(ps_session_close(s), 0);
        assert_true(time(NULL) <= end);
        (void)usleep(1000); /* sleep: looks at what it waits for */
    }
}

static struct taken taken_now(ps_session *s)
{
    ps_task_info infos[8];
    struct taken sum = {0};
    const int count = ps_cluster_tasks(s);
    assert_int_equal(count, 4);
    assert_run(ps_cluster_info(s, infos, sizeof(infos[0]), count, 0));
    for (int i = 0; i < count; i++) {
        assert_true(infos[i].up);
        sum.bytes += infos[i].variable_bytes;
        sum.variables += infos[i].variables;
    }
    return sum;
}

/* Deletions are not waited for: until the tasks have no more than that. */
static void await_taken(ps_session *s, struct taken base)
{
    const time_t end = time(NULL) + PATIENCE_S;
    for (struct taken now = taken_now(s); now.bytes != base.bytes || now.variables != base.variables; now = taken_now(s)) {
        if (time(NULL) > end) {
            fail_msg("%u variables and %llu bytes at the tasks, there were %u and %llu before the plans", now.variables,
                     (unsigned long long)now.bytes, base.variables, (unsigned long long)base.bytes);
        }
        (void)usleep(1000); /* sleep: looks at what it waits for */
    }
}

/* Two tasks: worker 0 adds to what it is fed, and worker 1 to that, whose value travels in a variable of the session. */
static ps_value over_two_workers(ps_plan *p, ps_session *s, ps_value *out_x)
{
    *out_x = ps_plan_placeholder(p, "x", PS_F32, PS_SHAPE(-1));
    assert_int_equal(ps_device_push(s, "/job:worker/task:0"), PS_OK);
    ps_value a = ps_plan_add(p, *out_x, ps_plan_scalar(p, PS_F32, 1));
    assert_int_equal(ps_device_pop(s), PS_OK);
    assert_int_equal(ps_device_push(s, "/job:worker/task:1"), PS_OK);
    ps_value b = ps_plan_add(p, a, ps_plan_scalar(p, PS_F32, 1));
    assert_int_equal(ps_device_pop(s), PS_OK);
    return b;
}

/* A program that makes a plan for each step. Every tenth one fails. */
TEST(a_plan_for_each_step_leaves_nothing)
{
    cluster_begin();
    ps_session *s = session_of_all();
    const float one = 1;
    float *values = test_alloc(WIDTH * sizeof(float));
    (void)variable(s, "v", PS_SCALAR, &one, NULL);
    const struct taken base = taken_now(s);
    for (int i = 0; i < PLANS; i++) {
        ps_value x;
        ps_fetched out = {0};
        ps_plan *p = ps_plan_new(s);
        ps_value y = over_two_workers(p, s, &x);
        const ps_feed feed = ps_feed_of(x, PS_F32, PS_SHAPE(WIDTH), values, WIDTH * sizeof(float));
        values[0] = (float)i;
        assert_run(ps_plan_run(p, &feed, 1, &y, 1, &out, NULL));
        assert_true(*(const float *)out.data == (float)i + 2);
        if (i % 10 == 9) {
            cluster.workers[1].fail_row = "add_1";
            assert_refused(ps_plan_run(p, &feed, 1, &y, 1, NULL, NULL), PS_INVALID_ARGUMENT, "rows 'add_1'");
            cluster.workers[1].fail_row = NULL;
        }
        ps_plan_free(p);
    }
    await_taken(s, base);
    assert_int_equal(ps_session_status(s), PS_OK);
}

/* A plan that stays has its variables until the end of its session, which leaves nothing either. */
TEST(a_session_that_ends_leaves_nothing)
{
    cluster_begin();
    ps_session *watches = session_of_all();
    const struct taken base = taken_now(watches);
    float *values = test_alloc(WIDTH * sizeof(float));
    for (int frees = 0; frees < 2; frees++) { /* the deletions of the second one are still on their way */
        ps_value x;
        ps_session *s = open_at(cluster.servers.spec, NULL, false);
        ps_plan *p = ps_plan_new(s);
        ps_value y = over_two_workers(p, s, &x);
        const ps_feed feed = ps_feed_of(x, PS_F32, PS_SHAPE(WIDTH), values, WIDTH * sizeof(float));
        assert_run(ps_plan_run(p, &feed, 1, &y, 1, NULL, NULL));
        assert_true(taken_now(watches).bytes > base.bytes);
        if (frees == 1) {
            ps_plan_free(p);
        }
        assert_int_equal(ps_session_close(s), 0);
        await_taken(watches, base);
    }
}

/* ---- threads of started runs ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static uint32_t ended, ended_well;

static void on_end(void *ctx, ps_plan *p, const ps_plan_result *result)
{
    (void)ctx;
    (void)p;
    (void)pthread_mutex_lock(&lock);
    ended++;
    ended_well += result->status == PS_OK;
    (void)pthread_cond_broadcast(&changed);
    (void)pthread_mutex_unlock(&lock);
}

static void await_ended(uint32_t count)
{
    (void)pthread_mutex_lock(&lock);
    while (ended < count) {
        (void)pthread_cond_wait(&changed, &lock);
    }
    (void)pthread_mutex_unlock(&lock);
}

static uint32_t threads_now(void)
{
    uint32_t count = 0;
    DIR *all = opendir("/proc/self/task");
    assert_non_null(all);
    while (readdir(all) != NULL) {
        count++;
    }
    assert_int_equal(closedir(all), 0);
    return count - 2; /* . and .. */
}

/* The runs at worker 0 wait there until the test comes. */
static ps_value held_row(ps_plan *p, ps_session *s)
{
    assert_int_equal(ps_device_push(s, "/job:worker/task:0"), PS_OK);
    ps_value sum = ps_plan_add(p, ps_plan_scalar(p, PS_F32, 1), ps_plan_scalar(p, PS_F32, 1));
    assert_int_equal(ps_device_pop(s), PS_OK);
    return sum;
}

static void let_runs_go(void)
{
    (void)pthread_mutex_lock(&cluster.meeting.lock);
    cluster.meeting.inside += PLANS;
    (void)pthread_cond_broadcast(&cluster.meeting.changed);
    (void)pthread_mutex_unlock(&cluster.meeting.lock);
}

TEST(started_runs_share_a_bounded_number_of_threads)
{
    enum { RUNS = 3 * PS_PLAN_THREADS_MAX, CALL_THREADS = 2 /* of worker 0, which may be made late */ };
    cluster_begin();
    ps_session *s = session_at(UINT32_MAX);
    ps_plan *plans[RUNS];
    ps_value fetches[RUNS];
    float sum = 0;
    ended = ended_well = 0;
    for (int i = 0; i < RUNS; i++) {
        plans[i] = ps_plan_new(s);
        fetches[i] = held_row(plans[i], s);
    }
    assert_run(ps_plan_eval(fetches[0], &sum, sizeof(sum)));
    cluster.workers[0].together = PLANS;
    const uint32_t before = threads_now();
    for (int i = 0; i < RUNS; i++) {
        assert_run(ps_plan_start(plans[i], NULL, 0, &fetches[i], 1, NULL, NULL, on_end, NULL));
    }
    const uint32_t during = threads_now();
    let_runs_go();
    await_ended(RUNS);
    assert_in_range(during, before, before + PS_PLAN_THREADS_MAX + CALL_THREADS);
    assert_int_equal(ended_well, RUNS);
    assert_int_equal(runs_of(0), 1 + RUNS);
}

/* A session with runs that are held, and as many that wait for their turn. */
enum { HELD_RUNS = 2 * PS_PLAN_THREADS_MAX };

static ps_session *with_held_runs(void)
{
    cluster_begin();
    ps_session *s = open_at(cluster.servers.spec, NULL, false);
    ended = ended_well = 0;
    cluster.workers[0].together = PLANS;
    for (int i = 0; i < HELD_RUNS; i++) {
        ps_plan *p = ps_plan_new(s);
        ps_value fetch = held_row(p, s);
        assert_run(ps_plan_start(p, NULL, 0, &fetch, 1, NULL, NULL, on_end, NULL));
    }
    return s;
}

TEST(an_interrupt_ends_runs_that_wait_for_their_turn)
{
    ps_session *s = with_held_runs();
    ps_interrupt(s);
    await_ended(HELD_RUNS);
    assert_int_equal(ps_session_status(s), PS_OK);
    assert_int_equal(ps_session_close(s), 0);
    let_runs_go();
    assert_int_equal(ended_well, 0);
}

TEST(a_close_ends_runs_that_wait_for_their_turn)
{
    ps_session *s = with_held_runs();
    assert_int_equal(ps_session_close(s), 0);
    let_runs_go();
    assert_int_equal(ended, HELD_RUNS);
    assert_int_equal(ended_well, 0);
}

TEST(a_session_without_threads_of_its_own_refuses_a_start)
{
    cluster_begin();
    ps_session_options o;
    ps_session *s = NULL;
    ps_session_options_init(&o);
    o.cluster_spec = cluster.servers.spec;
    o.log = no_log;
    o.progress = PS_PROGRESS_CALLER;
    assert_int_equal(ps_session_open(&o, &s, NULL, 0), PS_OK);
    test_later(close_later, s);
    ps_plan *p = ps_plan_new(s);
    ps_value sum = held_row(p, s);
    float result = 0;
    assert_refused(ps_plan_start(p, NULL, 0, &sum, 1, NULL, NULL, on_end, NULL), PS_FAILED_PRECONDITION, "PS_PROGRESS_CALLER");
    assert_run(ps_plan_eval(sum, &result, sizeof(result)));
    assert_true(result == 2);
    ps_plan_free(p);
}
