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
    int64_t *order; /* [train_count], order of the epoch */
    struct input x; /* up to a batch of examples */
    ps_tensor y;    /* (batch, 1), labels: int32, or float32 */
    /* what x and y hold: */
    int64_t epoch;        /* -1: nothing yet */
    int64_t first, count; /* the epoch's range of this worker's share or shard: order[first] to order[first + count - 1] */
    int64_t at;           /* position in that range behind this batch */
    int64_t rows;         /* 0: no batch */
    int64_t step;         /* in rounds: global step of this batch */
};

/** Prepare for batches of these data; keeps f, c and data. 0, or -1 with a line in err (CLI_ERR_BYTES); batches_fini() in both
 * cases. */
int batches_init(struct batches *b, const struct flags *f, const struct cluster *c, const struct dataset *data, char *err);
/** b may be zeroed. */
void batches_fini(struct batches *b);
/** Steps that worker `trainer` makes in one epoch; by shards, the steps of all workers. In rounds every worker makes as many
 * steps as the smallest share has whole batches; the examples left over differ from epoch to epoch. */
int64_t batches_epoch_steps(const struct batches *b, int trainer);
/** Gather the next batch. b->rows is 0 when all epochs, or the shard, are done. 0, or -1: b->x.error. */
int batches_next(struct batches *b);
/** By epochs: the batch gathered last and `steps` batches before it, back to the first one at most, come again; b->rows is 0
 * until batches_next(). Returns the number of batches before it. */
int64_t batches_back(struct batches *b, int64_t steps);
/** Set the shard that comes next; b->rows is 0 until batches_next(). */
void batches_shard(struct batches *b, int64_t epoch, int64_t first, int64_t count);
/** In rounds: gather the batch of worker `trainer` at this global step. It depends on step, seed and shares only, so that a
 * worker that comes back, or whose step was dropped, continues where the others are. 0, or -1: b->x.error. */
int batches_round(struct batches *b, int64_t step, int trainer);

#endif
