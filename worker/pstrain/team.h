/* SPDX-License-Identifier: Apache-2.0 */
/* What the workers of a model know about each other: that the chief is alive, and who has finished. */
#ifndef PSTRAIN_TEAM_H
#define PSTRAIN_TEAM_H

#include "cluster.h"

#include <ps.h>

struct team {
    const struct flags *f;
    const struct cluster *c;
    ps_session *session;
    const char *container; /* container of the model */
    int64_t chief;         /* id of the session that signed the model, or will */
    int64_t run;           /* id of the session whose chief began the run; the run's shards are named after it */
    int64_t fresh;         /* id of the last chief with --fresh, when this trainer began */
    /* The chief's knowledge of the others. The chief ends last, so that it tests the final model. */
    int others;      /* number of other workers; 0: it waits for nobody */
    int self;        /* 1: the chief is of job worker too */
    bool seen;       /* one of the others was there */
    int64_t next_ms; /* time of the next look */
};

/** Keeps s, f and c; s may be another session in each call. Signs are read and written in sessions of their own, because the
 * training session would get them again after a loss, as part of the model. */
void team_init(struct team *t, ps_session *s, const struct flags *f, const struct cluster *c);
/** --fresh, for the chief: empty the model and its signs on all ps tasks. */
ps_status team_reset(const struct team *t);
/** Note the last run with --fresh in t->fresh. begins: it is this run, whose chief empties the model next. 0, or -1: the error
 * was printed. */
int team_note_fresh(struct team *t, bool begins);
/** True if another run with --fresh has begun since, and owns the model. */
bool team_is_replaced(const struct team *t);
/** By shards: true if another run has begun since. */
bool team_is_over(const struct team *t);
/**
 * Wait for a chief, for workers with --fresh or --work shards.
 *
 * Returns  PS_OK            t->chief is alive, and this model is its, of run t->run. By shards also: a chief has come since and
 *                           ended, this session has become chief, or --steps is reached, for which no chief needs to be alive
 *          PS_ABORTED       there was a reset: call again with a new session
 *          PS_OUT_OF_RANGE  by shards: none is left, a trainer has reported the end of the job, and no chief has begun another
 *                           run in time; printed, like all other errors
 */
ps_status team_wait_for_chief(struct team *t, bool fresh, int64_t deadline_ms, int64_t timeout_s);
/** For the chief when it is ready, or its session has recovered: watch the others (number) from now on. 0, or -1: the error was
 * printed. */
int team_begin(struct team *t, int others);
/** Sign the model: as the chief of another one's run, or, with begins, of a run that it begins. *out_before is the session that
 * began the run before, 0: none. goal: in rounds the global step that ends the run, 0: none. 0, or -1: the error was printed. */
int team_sign(struct team *t, bool begins, int64_t goal, int64_t *out_before);
enum team_goal {
    TEAM_COMES, /* begins to train: a chief that is gone counts too, if rounds are under way */
    TEAM_ASKS,  /* as TEAM_COMES, and nobody was found before */
    TEAM_TELLS  /* has trained before: the present chief may have begun without knowing this run */
};
/** Read the goal that a present chief has signed, so that a late worker ends with the others: *goal becomes that end, unless
 * there is none or it has passed. TEAM_TELLS: *goal becomes the signed end. Returns 1; 0: no present chief has signed yet, ask
 * again; -1: the error was printed. */
int team_goal(const struct team *t, enum team_goal how, int64_t *goal);
/** For a worker that is done and is not chief: true if it must become chief, because the chief is gone. Waits for at most two
 * leases for some worker to become it. */
bool team_succeeds(const struct team *t);
/** For the chief after each step: look at the others when it is due. */
void team_step(struct team *t);
/**
 * For the chief: wait until the global step is goal, or the others have ended, or nothing has moved for a while.
 *
 * by_step  all workers have one goal (--steps), which is reached: only their last steps are waited for.
 * Returns  0, also when a signal came (stop_signal()); -1: the session has failed.
 */
int team_wait(struct team *t, int64_t goal, bool by_step);

#endif
