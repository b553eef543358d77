/* SPDX-License-Identifier: Apache-2.0 */
/* A monitored session that is made anew in the midst of plans: the run that goes on ends, and the next one has new variables. */
#include "plan_test.h"

#include <ps_monitored.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

enum { WIDTH = 1000, PATIENCE_S = 60 };

static atomic_int recovered;

static void look(void *ctx, ps_log_level level, const char *line)
{
    (void)ctx;
    (void)level;
    atomic_fetch_add(&recovered, strstr(line, " ev=recovered ") != NULL ? 1 : 0);
    if (getenv("MONITORED_LOG") != NULL) {
        (void)fprintf(stderr, "%s\n", line);
    }
}

static struct end {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool over;
    ps_status status;
    ps_applied applied;
    char text[512];
} end = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void on_end(void *ctx, ps_plan *p, const ps_plan_result *result)
{
    (void)ctx;
    (void)p;
    (void)pthread_mutex_lock(&end.lock);
    end.over = true;
    end.status = result->status;
    end.applied = result->applied;
    (void)snprintf(end.text, sizeof(end.text), "%s", result->text);
    (void)pthread_cond_broadcast(&end.changed);
    (void)pthread_mutex_unlock(&end.lock);
}

static void await_end(void)
{
    (void)pthread_mutex_lock(&end.lock);
    while (!end.over) {
        (void)pthread_cond_wait(&end.changed, &end.lock);
    }
    (void)pthread_mutex_unlock(&end.lock);
}

/* Runs of worker 1 wait there from now on; for the first one. */
static void await_inside(void)
{
    (void)pthread_mutex_lock(&cluster.meeting.lock);
    while (cluster.meeting.inside < 1) {
        (void)pthread_cond_wait(&cluster.meeting.changed, &cluster.meeting.lock);
    }
    (void)pthread_mutex_unlock(&cluster.meeting.lock);
}

static void let_go(void)
{
    (void)pthread_mutex_lock(&cluster.meeting.lock);
    cluster.meeting.inside += 2;
    (void)pthread_cond_broadcast(&cluster.meeting.changed);
    (void)pthread_mutex_unlock(&cluster.meeting.lock);
}

static ps_session *open_monitored(void)
{
    ps_session_options o;
    ps_monitored_options m;
    ps_session *s = NULL;
    char error[512] = "";
    ps_session_options_init(&o);
    ps_monitored_options_init(&m);
    o.cluster_spec = cluster.servers.spec;
    o.log = look;
    if (ps_monitored_open(&o, &m, &s, error, sizeof(error)) != PS_OK) {
        fail_msg("%s", error);
    }
    return s;
}

TEST(a_recovery_ends_a_run_and_the_next_one_works)
{
    cluster_begin();
    ps_session *s = open_monitored();
    float values[WIDTH];
    for (int i = 0; i < WIDTH; i++) {
        values[i] = (float)i;
    }
    assert_int_equal(ps_device_push(s, "/job:ps/task:1"), PS_OK);
    (void)ps_param_get(s, "w", PS_SHAPE(4), ps_constant(1), ps_sgd(1)); /* all of the model */
    assert_int_equal(ps_device_pop(s), PS_OK);
    assert_run(ps_session_ready(s));
    ps_plan *p = ps_plan_new(s);
    ps_value x = ps_plan_placeholder(p, "x", PS_F32, PS_SHAPE(WIDTH));
    assert_int_equal(ps_device_push(s, "/job:worker/task:0"), PS_OK);
    ps_value a = ps_plan_add(p, x, ps_plan_scalar(p, PS_F32, 1));
    assert_int_equal(ps_device_pop(s), PS_OK);
    assert_int_equal(ps_device_push(s, "/job:worker/task:1"), PS_OK);
    ps_value b = ps_plan_add(p, a, ps_plan_scalar(p, PS_F32, 1));
    assert_int_equal(ps_device_pop(s), PS_OK);
    const ps_feed feed = ps_feed_of(x, PS_F32, PS_SHAPE(WIDTH), values, sizeof(values));
    ps_fetched out = {0}, lost = {0};
    assert_run(ps_plan_run(p, &feed, 1, &b, 1, &out, NULL));
    assert_true(((const float *)out.data)[WIDTH - 1] == WIDTH + 1);
    assert_int_equal(cluster.workers[1].kept[0].variables, 1);

    cluster.workers[1].together = 2;
    assert_run(ps_plan_start(p, &feed, 1, &b, 1, &lost, NULL, on_end, NULL));
    await_inside();
    restart_ps_1();
    const time_t until = time(NULL) + PATIENCE_S;
    while (atomic_load(&recovered) == 0) {
        assert_run(ps_pull(s)); /* whoever trains meets the loss, and the session is made anew */
        assert_true(time(NULL) <= until);
    }
    await_end();
    let_go();
    if (end.status != PS_ABORTED || strstr(end.text, "rows 'add_1' at /job:worker/task:1") == NULL) {
        fail_msg("the run ended %s: %s", ps_status_name(end.status), end.text);
    }

    for (int round = 0; round < 2; round++) {
        memset(&out, 0, sizeof(out));
        values[0] = (float)round;
        assert_run(ps_plan_run(p, &feed, 1, &b, 1, &out, NULL));
        for (int i = 0; i < WIDTH; i++) {
            assert_true(((const float *)out.data)[i] == values[i] + 2);
        }
    }
    assert_string_not_equal(cluster.workers[1].kept[0].variable, cluster.workers[1].kept[2].variable);
    assert_string_equal(cluster.workers[1].kept[2].variable, cluster.workers[1].kept[3].variable);
    ps_plan_free(p);
    assert_int_equal(ps_session_close(s), 0);
}
