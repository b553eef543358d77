/* SPDX-License-Identifier: Apache-2.0 */
/* --work shards: ranges of an epoch's rows, from a work queue on the ps tasks. */
#ifndef PSTRAIN_SHARDS_H
#define PSTRAIN_SHARDS_H

#include "cluster.h"

#include <ps_queue.h>

/* A range of rows, in the order that the epoch has them in. */
struct shard {
    int64_t epoch; /* from 0 on */
    int64_t first, count;
};

struct shards {
    ps_session *session;
    const char *who;   /* for messages */
    int64_t row_count; /* of an epoch */
    bool log;          /* say of each shard when it begins and when it is done */
    ps_work *work;     /* NULL: not open */
    ps_work_item item;
    struct shard shard; /* of it */
    bool has;           /* an item */
    int64_t epoch;      /* of the last one that it had */
};

/**
 * The queue of the run. Where it is lost with a ps task the session, made anew, makes it again, from its first epoch.
 *
 * make      unless another worker has; otherwise it must be there.
 * Returns   0, or -1: said.
 */
int shards_open(struct shards *s, ps_session *session, const struct flags *f, const struct cluster *c, const char *who,
                int64_t chief, int64_t row_count, bool make);
/** All of the run's are done, as a session beside the one that trains finds. Blocks for a second at most. */
bool shards_are_over(ps_session *aside, int64_t chief);
/** The queue of an earlier run goes, when all of it is done; others may still work at it otherwise. */
void shards_forget(const struct flags *f, const struct cluster *c, int64_t chief);
/** The shard that this worker has is trained. Errors stick to the session. */
void shards_done(struct shards *s);
/** It is not, and another worker gets it. NULL in work is fine. */
void shards_return(struct shards *s);
/** The next one; waits while all that are left are with others. False: there is none any more, this worker is to stop, or the
 * session has failed. */
bool shards_next(struct shards *s);

#endif
