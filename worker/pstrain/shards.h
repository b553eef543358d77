/* SPDX-License-Identifier: Apache-2.0 */
/* --work shards: workers take ranges of an epoch's examples (shards) from a work queue at the ps tasks. */
#ifndef PSTRAIN_SHARDS_H
#define PSTRAIN_SHARDS_H

#include "cluster.h"

#include <ps_queue.h>

/* Examples first .. first + count - 1 in the shuffled order of one epoch. */
struct shard {
    int64_t epoch; /* which epoch, from 0 */
    int64_t first, count;
};

struct shards {
    ps_session *session;
    const char *who;   /* name of this worker, for messages */
    int64_t row_count; /* examples of an epoch */
    bool log;          /* print each shard's begin and end */
    ps_work *work;     /* NULL: not open */
    ps_work_item item;
    struct shard shard; /* if `has`: the shard that `item` stands for */
    bool has;
    int64_t epoch; /* epoch of this worker's latest shard */
};

/** Open the queue of the run. If the queue is lost with a ps task, the recovered session makes it again, with its first epoch.
 *
 * make      make the queue unless another worker has; false: it must exist.
 * Returns   0, or -1: the error was printed. */
int shards_open(struct shards *s, ps_session *session, const struct flags *f, const struct cluster *c, const char *who,
                int64_t chief, int64_t row_count, bool make);
/** True if all shards of the run that session id `chief` began are done; waits 1 s at most. aside: not the training session. */
bool shards_are_over(ps_session *aside, int64_t chief);
/** Delete the queue of an earlier run, begun by session `chief`. If shards are not done it stays, as workers may still use it. */
void shards_forget(const struct flags *f, const struct cluster *c, int64_t chief);
/** Report to the queue that this worker's shard is trained. An error is stored in the session. */
void shards_done(struct shards *s);
/** Give this worker's shard back, for another worker. s->work may be NULL. */
void shards_return(struct shards *s);
/** Get the next shard into s->shard; waits while others have all that are left. False: all are done, a signal, an error. */
bool shards_next(struct shards *s);

#endif
