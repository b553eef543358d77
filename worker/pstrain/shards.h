/* SPDX-License-Identifier: Apache-2.0 */
/* --work shards: ranges of an epoch's rows, from a work queue on the ps tasks. */
#ifndef PSTRAIN_SHARDS_H
#define PSTRAIN_SHARDS_H

#include "cluster.h"

#include <ps_queue.h>

/* A range of rows, in the epoch's order. */
struct shard {
    int64_t epoch; /* from 0 */
    int64_t first, count;
};

struct shards {
    ps_session *session;
    const char *who;   /* name in messages */
    int64_t row_count; /* rows per epoch */
    bool log;          /* print when each shard begins and is done */
    ps_work *work;     /* NULL: not open */
    ps_work_item item;
    struct shard shard; /* the range of item */
    bool has;           /* item is set */
    int64_t epoch;      /* of the last item */
};

/**
 * Open the queue of the run. If it is lost with a ps task, the recovered session makes it again, with its first epoch.
 *
 * make      make it unless another worker has; false: it must exist.
 * Returns   0, or -1: the error was printed.
 */
int shards_open(struct shards *s, ps_session *session, const struct flags *f, const struct cluster *c, const char *who,
                int64_t chief, int64_t row_count, bool make);
/** True if all shards of the run are done, asked in another session than the training one. Blocks for a second at most. */
bool shards_are_over(ps_session *aside, int64_t chief);
/** Delete the queue of an earlier run if all of it is done; otherwise others may still work at it. */
void shards_forget(const struct flags *f, const struct cluster *c, int64_t chief);
/** Report that this worker's shard is trained. Errors stick to the session. */
void shards_done(struct shards *s);
/** Give this worker's shard back, for another worker. s->work may be NULL. */
void shards_return(struct shards *s);
/** Get the next shard; waits while other workers have all that are left. False: none is left, this worker must stop, or the
 * session has failed. */
bool shards_next(struct shards *s);

#endif
