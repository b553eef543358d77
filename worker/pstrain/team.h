/* SPDX-License-Identifier: Apache-2.0 */
/* What the workers of a model know about each other: whether the chief is alive, who has finished. A chief "signs" a model: it
 * writes its session's id, and the goal of the run, into variables outside the model, the signs (listed in team.c). */
#ifndef PSTRAIN_TEAM_H
#define PSTRAIN_TEAM_H

#include "cluster.h"

#include <ps.h>

struct team {
    const struct flags *f;
    const struct cluster *c;
    ps_session *session;
    const char *container;
    int64_t chief; /* session id of the chief, read from pstrain/chief or to be written there */
    int64_t run;   /* session id of the chief that began the run; the name of the run's work queue has this id */
    /* session id of the chief that last began a run with --fresh, as this worker read it at its start; 0: none. A later
     * difference means that the model was replaced: team_is_replaced() */
    int64_t fresh;
    /* only in the chief, which waits for the other workers at the end, so that it tests the final model: */
    int others;      /* number of other workers; 0: the chief waits for nobody */
    int self;        /* 1: the chief is a task of job worker, so it is one of the counted workers; 0: it is of another job */
    bool seen;       /* the chief has seen a session of another worker, so it will wait at the end */
    int64_t next_ms; /* when team_step() next looks for other workers, in ms */
};

/** Prepare t for the training session s; borrows s, f and c. pstrain/chief and so on are used through other, short sessions: the
 * training session would treat them as a part of the model after a recovery. */
void team_init(struct team *t, ps_session *s, const struct flags *f, const struct cluster *c);
/** For a chief with --fresh: empty the model's container, and that of pstrain/chief, run and goal, on all ps tasks. */
ps_status team_reset(const struct team *t);
/** Set t->fresh to the last session begun with --fresh. begins: first write our id to pstrain/fresh. 0; -1: printed error. */
int team_note_fresh(struct team *t, bool begins);
/** True if another run with --fresh has begun since team_note_fresh(), so that the model is not this run's any more. */
bool team_is_replaced(const struct team *t);
/** With --work shards: true if another run has begun since this worker learnt t->run. */
bool team_is_over(const struct team *t);
/** For a worker with --fresh or --work shards: wait until a connected chief has written its session's id into pstrain/chief.
 *
 * Returns  PS_OK            t->chief is connected, and its run is t->run. With --work shards also: a chief has come and ended
 *                           meanwhile; this session has become chief; or --steps is reached, so no chief is needed
 *          PS_ABORTED       the container was reset: call again with a new session
 *          PS_OUT_OF_RANGE  no shard is left, a worker has reported the end of the job, and no chief has
 *                           begun another run in time; printed, like all other errors */
ps_status team_wait_for_chief(struct team *t, bool fresh, int64_t deadline_ms, int64_t timeout_s);
/** For the chief, when its session is ready or recovered: note its id, and how many workers to await. 0; -1: printed error. */
int team_begin(struct team *t, int others);
/** For the chief: write pstrain/chief, run and goal (team.c). begins: this session begins a run; false: it takes over a run.
 * goal: in rounds the global step at which the run ends; 0: none is written. *out_before: the value of pstrain/run until now; 0:
 * it had none. Returns 0; -1: error, printed. */
int team_sign(struct team *t, bool begins, int64_t goal, int64_t *out_before);
enum team_goal {
    TEAM_COMES, /* the worker begins to train: it reads the goal if there is a chief, or if rounds are under way */
    /* the worker trains, but found no goal when it began: it reads the goal if there is a chief */
    TEAM_ASKS,
    TEAM_TELLS /* the worker trains: it writes the goal, because a new chief may not know it */
};
/** Read the goal that a chief has written, so that a late worker ends with the others. If there is none, or its step is reached,
 * *goal stays as it is. TEAM_TELLS: write *goal. 1: done; 0: no chief is there, ask again later; -1: an error, printed. */
int team_goal(const struct team *t, enum team_goal how, int64_t *goal);
/** For a worker that has done its steps: true if the chief is gone and this session becomes chief. Waits two leases at most. */
bool team_succeeds(const struct team *t);
/** For the chief, after each step: from time to time look for sessions of other workers, until one is found (t->seen). */
void team_step(struct team *t);
/** For the chief: wait until the global step is goal, or the others have ended, or nothing has moved for a while.
 *
 * by_step  --steps or --patience has ended the run: wait only for the steps that others are still making.
 * Returns  0, also when a signal came (stop_signal()); -1: the session has failed. */
int team_wait(struct team *t, int64_t goal, bool by_step);

#endif
