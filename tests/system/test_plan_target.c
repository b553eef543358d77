/* SPDX-License-Identifier: Apache-2.0 */
/* A monitored session is recovered when a plan's run has just got the target's answer, whether it executes runs. The next client
 * asks its own target again. */
#include "plan_test.h"

#include "worker/api/lock.h"
#include "worker/plan/plan.h"

#include <ps_monitored.h>

static ps_status probe_and_stand(const struct psi_trip *t, uint32_t task, bool *out_executes, struct psi_err *err);

#define psi_trip_probe probe_and_stand
#include "worker/plan/place.c" /* NOLINT(bugprone-suspicious-include): the library's, with another psi_trip_probe() */
#undef psi_trip_probe

static struct stand {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stood, inside, answered;
} stand = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* The recovery waits for the thread, or, if the thread does not count as inside, has closed the client. */
static bool goes_on(ps_session *s, void *inside)
{
    return *(const bool *)inside ? s->machine.state == PSI_SESSION_DRAINING : s->machine.lives > 0;
}

/* The first thread that gets the answer stands still until a recovery has come as far as it can. */
static ps_status probe_and_stand(const struct psi_trip *t, uint32_t task, bool *out_executes, struct psi_err *err)
{
    ps_session *s = t->plan->session;
    const ps_status st = psi_trip_probe(t, task, out_executes, err);
    (void)pthread_mutex_lock(&stand.lock);
    const bool first = !stand.stood;
    stand.stood = true;
    (void)pthread_mutex_unlock(&stand.lock);
    if (!first) {
        return st;
    }
    (void)pthread_mutex_lock(&s->lock);
    stand.inside = s->inside > 0; /* no other thread is in a call now */
    (void)pthread_mutex_unlock(&s->lock);
    (void)pthread_mutex_lock(&stand.lock);
    stand.answered = true;
    (void)pthread_cond_broadcast(&stand.changed);
    (void)pthread_mutex_unlock(&stand.lock);
    (void)psi_api_await(s, goes_on, &stand.inside, PSI_WAIT_ASLEEP);
    return st;
}

static void await_answer(void)
{
    (void)pthread_mutex_lock(&stand.lock);
    while (!stand.answered) {
        (void)pthread_cond_wait(&stand.changed, &stand.lock);
    }
    (void)pthread_mutex_unlock(&stand.lock);
}

static uint32_t probes(struct run_executor *e)
{
    (void)pthread_mutex_lock(&e->lock);
    const uint32_t count = e->probes;
    (void)pthread_mutex_unlock(&e->lock);
    return count;
}

static ps_session *open_monitored(const char *target)
{
    ps_session_options o;
    ps_monitored_options m;
    ps_session *s = NULL;
    char error[512] = "";
    ps_session_options_init(&o);
    ps_monitored_options_init(&m);
    o.target = target;
    o.log = no_log;
    if (ps_monitored_open(&o, &m, &s, error, sizeof(error)) != PS_OK) {
        fail_msg("%s", error);
    }
    return s;
}

static ps_value plus_one(ps_plan *p, float x)
{
    return ps_plan_add(p, ps_plan_scalar(p, PS_F32, x), ps_plan_scalar(p, PS_F32, 1));
}

static void *run_first(void *plan)
{
    float sum = 0;
    (void)ps_plan_eval(plus_one(plan, 1), &sum, sizeof(sum)); /* the session is lost meanwhile: the run may fail */
    return NULL;
}

TEST(the_next_client_asks_its_target_again)
{
    cluster_begin();
    ps_session *s = open_monitored(psd_server_target(cluster.servers.tasks[WORKERS_AT].server));
    assert_int_equal(ps_device_push(s, "/job:ps/task:1"), PS_OK);
    (void)ps_param_get(s, "w", PS_SHAPE(4), ps_constant(1), ps_sgd(1));
    assert_int_equal(ps_device_pop(s), PS_OK);
    assert_run(ps_session_ready(s));

    pthread_t thread;
    ps_plan *p = ps_plan_new(s);
    assert_int_equal(pthread_create(&thread, NULL, run_first, p), 0);
    await_answer();
    assert_int_equal(probes(&cluster.workers[0]), 1);
    restart_ps_1();
    ps_recovery recovery = {.struct_bytes = sizeof(recovery)};
    while (ps_monitored_last_recovery(s, &recovery) != PS_OK) {
        assert_run(ps_pull(s)); /* meets the loss, and the session is made anew */
    }
    (void)pthread_join(thread, NULL);

    float sum = 0;
    ps_plan *next = ps_plan_new(s);
    assert_run(ps_plan_eval(plus_one(next, 2), &sum, sizeof(sum)));
    assert_true(sum == 3);
    assert_int_equal(probes(&cluster.workers[0]), 2);
    ps_plan_free(next);
    ps_plan_free(p);
    assert_int_equal(ps_session_close(s), 0);
}
