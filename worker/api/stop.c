/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a training program's loop must end, for ps_should_stop() (monitored.c) and ps_would_stop(): when the goal
 * (ps_session.steps) is reached, somebody has asked to stop, or the session has failed. A session that is lost and will recover
 * does not end the loop. */
#include "monitored.h"

/* True if no further step begins, although nothing has failed: a stop was asked for, the input has ended, or the goal is reached.
 * The caller holds the session's lock. */
static bool is_over(const ps_session *s)
{
    return s->machine.stop != PSI_STOP_NOT || s->hooks.calls.stop_asked || (s->steps > 0 && s->global_step >= s->steps);
}

bool psi_api_is_over(ps_session *s)
{
    (void)pthread_mutex_lock(&s->lock);
    bool stop = is_over(s);
    int64_t steps = s->steps;
    int64_t found = s->found.step;
    bool note = steps > 0 && found >= steps && !s->goal_noted; /* the goal was reached before this program made a step */
    s->goal_noted = s->goal_noted || note;
    (void)pthread_mutex_unlock(&s->lock);
    if (note) {
        psi_api_log(s, PS_LOG_INFO, "goal_reached", PSI_KV("global_step", found), PSI_KV("steps", steps),
                    PSI_KV("remedy", "a higher --steps goes on, --fresh starts over"));
    }
    return stop;
}

bool ps_would_stop(ps_session *s)
{
    if (s == NULL || !psi_api_here(s) || s->opened != PSI_OPENED ||
        (psi_api_sticky(s, NULL) != PS_OK && !psi_monitor_is_lost(s))) {
        return true;
    }
    (void)pthread_mutex_lock(&s->lock);
    const bool over = is_over(s);
    (void)pthread_mutex_unlock(&s->lock);
    return over;
}

void ps_set_steps(ps_session *s, int64_t steps)
{
    if (s == NULL || !psi_api_here(s)) {
        return;
    }
    (void)pthread_mutex_lock(&s->lock);
    if (!s->steps_fixed) {
        s->steps = steps;
    }
    (void)pthread_mutex_unlock(&s->lock);
}

uint64_t ps_seed(ps_session *s)
{
    return s == NULL ? 0 : s->seed;
}
