/* SPDX-License-Identifier: Apache-2.0 */
/* The chief's view of the other workers: it ends last, so that the model that it tests is the final one. */
#ifndef PSTRAIN_OTHERS_H
#define PSTRAIN_OTHERS_H

#include "start.h"

struct others {
    struct start *start;
    ps_task_info *infos; /* [count] */
    int count;           /* server tasks; 0: nothing is known */
    int workers;         /* the chief included */
    bool seen;           /* there was another session */
    ps_variable *finished;
    int64_t next_ms; /* when to look again */
};

/** Nothing to be waited for where workers is 1: then it does nothing. */
void others_init(struct others *o, struct start *start, int workers);
void others_fini(struct others *o);
/** A worker that is not the chief ends: the chief need not wait for it. */
void others_leave(const struct start *s);
/** Now and then during training: note whether others are there. */
void others_look(struct others *o);
/**
 * Wait until the global step is goal, or those that were there have left, or nothing has moved for a while.
 *
 * by_step  the goal is one global step for all (--steps), which is reached: only last steps in flight are waited for.
 * Returns  0, also when a signal came (stop_signal()); -1: the session has failed.
 */
int others_wait(struct others *o, int64_t goal, bool by_step);

#endif
