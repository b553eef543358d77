/* SPDX-License-Identifier: Apache-2.0 */
/* What the workers of a model know of each other: that the chief lives, who has finished. */
#ifndef PSTRAIN_TEAM_H
#define PSTRAIN_TEAM_H

#include <ps.h>

struct team {
    ps_session *session;
    const char *container; /* of the model */
    int64_t chief;         /* session that signed the model, or is to */
    /* the chief's view of the others: it ends last, so that the model that it tests is the final one */
    int others;      /* workers; 0: nobody is waited for */
    int self;        /* 1: the chief is of job worker too */
    bool seen;       /* one of them was there */
    int64_t next_ms; /* when to look again */
};

/** container: of the model; keeps both. The session may be another one each time. */
void team_init(struct team *t, ps_session *s, const char *container);
/** --fresh, the chief: empty the model and its sign on all ps tasks. */
ps_status team_reset(const struct team *t);
/** The others, for --fresh or for --work shards. PS_OK: a chief lives, t->chief, and this model is its; of shards, a
 * chief that has come since may have ended, too. PS_ABORTED: there was a
 * reset, look again with a new session. Anything else was said. */
ps_status team_wait_for_chief(struct team *t, bool fresh, int64_t deadline_ms, int64_t timeout_s);
/** The chief, which is this task, is ready: it looks at the others (how many) from now on. 0, or -1: said. */
int team_begin(struct team *t, int others, const char *job, uint32_t task);
/** It signs the model. *out_before: who had, 0: nobody. 0, or -1: said. */
int team_sign(const struct team *t, int64_t *out_before);
/** In rounds, the chief, before it signs: the global step that ends the run. 0, or -1: said. */
int team_set_goal(const struct team *t, int64_t goal);
/** The others: where the run ends that a chief leads which is there; *goal stays where there is none, or it is over. A worker
 * that comes late ends with the others. 0, or -1: said. */
int team_goal(const struct team *t, int64_t *goal);
/** The chief, after each step: a look at the others when it is due. */
void team_step(struct team *t);
/**
 * The chief: wait until the global step is goal, or those that were there have ended, or nothing has moved for a while.
 *
 * by_step  the goal is one global step for all (--steps), which is reached: only last steps in flight are waited for.
 * Returns  0, also when a signal came (stop_signal()); -1: the session has failed.
 */
int team_wait(struct team *t, int64_t goal, bool by_step);

#endif
