/* SPDX-License-Identifier: Apache-2.0 */
/* What the workers of a model know of each other: that the chief lives, who has finished. */
#ifndef PSTRAIN_TEAM_H
#define PSTRAIN_TEAM_H

#include "cluster.h"

#include <ps.h>

struct team {
    const struct flags *f;
    const struct cluster *c;
    ps_session *session;
    const char *container; /* of the model */
    int64_t chief;         /* session that signed the model, or is to */
    int64_t run;           /* session of the chief that began the run: its shards are named after it */
    int64_t fresh;         /* that of the last one with --fresh, when this trainer began */
    /* the chief's view of the others: it ends last, so that the model that it tests is the final one */
    int others;      /* workers; 0: nobody is waited for */
    int self;        /* 1: the chief is of job worker too */
    bool seen;       /* one of them was there */
    int64_t next_ms; /* when to look again */
};

/** Keeps all three. The session may be another one each time. Signs are read and written in sessions of their own: what the one
 * that trains gets again after a loss is the model. */
void team_init(struct team *t, ps_session *s, const struct flags *f, const struct cluster *c);
/** --fresh, the chief: empty the model and its signs on all ps tasks. */
ps_status team_reset(const struct team *t);
/** Which run with --fresh is the last one; begins: that is this one, the chief's, which empties the model next. 0, or -1: said.
 */
int team_note_fresh(struct team *t, bool begins);
/** Another run with --fresh has begun since: the model is its. */
bool team_is_replaced(const struct team *t);
/** By shards: another run has begun since. */
bool team_is_over(const struct team *t);
/** The others, for --fresh or for --work shards. PS_OK: a chief lives, t->chief, and this model is its, of the run t->run; of
 * shards, a chief that has come since may have ended, too, or this session is the chief now, or --steps is reached, for which no
 * chief has to live. PS_ABORTED: there was a reset, look again with a new session. PS_OUT_OF_RANGE, said: of shards, none is
 * left, a trainer has said that the job is done, and no chief has begun another run in time. Anything else was said. */
ps_status team_wait_for_chief(struct team *t, bool fresh, int64_t deadline_ms, int64_t timeout_s);
/** The chief, which is this task, is ready, or has made its session anew: it looks at the others (how many) from now on. 0, or
 * -1: said. */
int team_begin(struct team *t, int others);
/** It signs the model: as the chief of another one's run, or, with begins, of a run that it begins; then *out_before is who began
 * the one before, 0: nobody. In rounds goal is the global step that ends the run, 0: none. 0, or -1: said. */
int team_sign(struct team *t, bool begins, int64_t goal, int64_t *out_before);
enum team_goal {
    TEAM_COMES, /* begins to train: a chief that is gone counts, too, when rounds are under way */
    TEAM_ASKS,  /* ... and found nobody */
    TEAM_TELLS  /* has trained before: who is chief now may have begun without knowing of this run */
};
/** Where the run ends that a chief leads which is there. Who comes to it late ends with the others: *goal becomes the end, and
 * stays where there is none, or it is over. TEAM_TELLS: the end becomes *goal. 1; 0: no chief that is there has signed yet, ask
 * again; -1: said. */
int team_goal(const struct team *t, enum team_goal how, int64_t *goal);
/** A worker that is done and is not the chief: true when it has to be, because the one that there was is gone. It waits for at
 * most two leases for one of them to be it. */
bool team_succeeds(const struct team *t);
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
