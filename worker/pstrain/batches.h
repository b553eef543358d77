/* SPDX-License-Identifier: Apache-2.0 */
/* Which examples a worker computes with next, gathered into tensors. */
#ifndef PSTRAIN_BATCHES_H
#define PSTRAIN_BATCHES_H

#include "cluster.h"
#include "data/data.h"
#include "input.h"

#include <ps_nn.h>

struct batches {
    const struct flags *f;
    const struct cluster *c;
    const struct dataset *data;
    int64_t *order; /* [train_count], of the epoch */
    struct input x; /* up to a batch of examples */
    ps_tensor y;    /* (batch, 1), labels */
    /* what is in x and y: */
    int64_t epoch;        /* -1: nothing yet */
    int64_t first, count; /* of the epoch: this worker's share, or shard, is order[first] to order[first + count - 1] */
    int64_t at;           /* of that: what comes after this batch */
    int64_t rows;         /* 0: there is none */
    int64_t step;         /* in rounds: the global step that it is computed at */
};

/** 0, or -1 with a line in err (CLI_ERR_BYTES), as input_init(); batches_fini() either way. Keeps f, c and data. */
int batches_init(struct batches *b, const struct flags *f, const struct cluster *c, const struct dataset *data, char *err);
/** One that is all zeros is fine. */
void batches_fini(struct batches *b);
/** Steps that worker `trainer` makes in one epoch; by shards, those of all workers. In rounds every worker makes as many as the
 *  one with the smallest share has whole batches, and what is left over is another in each epoch. */
int64_t batches_epoch_steps(const struct batches *b, int trainer);
/** Gather the batch after this one; b->rows is 0 when all epochs are done, or the shard. 0, or -1: b->x.error. */
int batches_next(struct batches *b);
/** By epochs: what was gathered last, and `steps` batches before it, come again, from the first one on at most; b->rows is 0
 * until batches_next(). Returns how many before it. */
int64_t batches_back(struct batches *b, int64_t steps);
/** These examples come next: b->rows is 0 until batches_next(). */
void batches_shard(struct batches *b, int64_t epoch, int64_t first, int64_t count);
/** In rounds: gather what worker `trainer` computes with at this global step. It depends on the step, the seed and the shares
 *  only, so a worker that comes back, or whose step was dropped, goes on where the others are. 0, or -1: b->x.error. */
int batches_round(struct batches *b, int64_t step, int trainer);

#endif
