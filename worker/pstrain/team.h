/* SPDX-License-Identifier: Apache-2.0 */
/* What the workers of a model tell each other: that the chief lives, who has finished. */
#ifndef PSTRAIN_TEAM_H
#define PSTRAIN_TEAM_H

#include <ps.h>

struct team {
    ps_session *session;
    const char *container; /* of the model */
    ps_variable *alive;    /* the chief's sign of life; NULL in the others, and in --local */
    int64_t alive_next_ms; /* when it is due */
    /* the chief's view of the others: it ends last, so that the model that it tests is the final one */
    int workers;         /* the chief included; 1: nobody is waited for */
    ps_task_info *infos; /* [count] */
    int count;           /* server tasks; 0: nothing is known */
    bool seen;           /* there was another session */
    ps_variable *finished;
    int64_t next_ms; /* when to look again */
};

/** container: of the model; keeps both. The session may be another one each time. */
void team_init(struct team *t, ps_session *s, const char *container);
void team_fini(struct team *t);
/** --fresh, the chief: empty the model and the signs on all ps tasks. */
ps_status team_reset(const struct team *t);
/** --fresh, the others. PS_OK: a chief lives, and this model is its. PS_ABORTED: there was a reset, look again with a new
 * session. Anything else was said. */
ps_status team_wait_for_chief(const struct team *t, int64_t deadline_ms, int64_t timeout_s);
/** The chief is ready: it gives signs of life from now on, and looks at the others (workers: how many, itself included). 0, or
 * -1: said. */
int team_begin(struct team *t, int workers);
/** After each step: the chief's sign of life when it is due, and a look at the others. An error sticks to the session. */
void team_step(struct team *t);
/** A worker that is not the chief ends: the chief need not wait for it. */
void team_leave(struct team *t);
/**
 * The chief: wait until the global step is goal, or those that were there have left, or nothing has moved for a while.
 *
 * by_step  the goal is one global step for all (--steps), which is reached: only last steps in flight are waited for.
 * Returns  0, also when a signal came (stop_signal()); -1: the session has failed.
 */
int team_wait(struct team *t, int64_t goal, bool by_step);

#endif
