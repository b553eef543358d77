/* SPDX-License-Identifier: Apache-2.0 */
/* Which examples a worker trains with next, copied ("gathered") into tensors. */
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
    int64_t *order; /* [data->train_count]: this epoch's shuffled order, indices of training examples */
    struct input x; /* the examples; room for a full batch */
    ps_tensor y;    /* (batch, 1): their labels, int32; for regression float32 */
    /* the batch gathered last, which x and y hold: */
    int64_t epoch;        /* -1: no batch yet */
    int64_t first, count; /* this worker's share or shard: order[first] to order[first + count - 1] */
    int64_t at;           /* how many examples of the share or shard lie before the next batch */
    int64_t rows;         /* 0: no batch */
    int64_t step;         /* in rounds: the global step whose batch x and y hold */
};

/** Allocate the tensors; borrows f, c and data. 0, or -1 with a line in err (CLI_ERR_BYTES); batches_fini() in both cases. */
int batches_init(struct batches *b, const struct flags *f, const struct cluster *c, const struct dataset *data, char *err);
void batches_fini(struct batches *b);
/** How many steps worker `trainer` makes in an epoch. With shards: the steps of all workers together. In rounds (--sync) every
 * worker makes as many steps as the smallest share has full batches; which examples are left over differs from epoch to epoch. */
int64_t batches_epoch_steps(const struct batches *b, int trainer);
/** Gather the next batch into b->x and b->y. If none is left in the run or shard, b->rows is 0. 0; -1: see b->x.error. */
int batches_next(struct batches *b);
/** By epochs: go back `steps` batches, at most to the first, to gather them again. Sets b->rows to 0. Returns how many it was. */
int64_t batches_back(struct batches *b, int64_t steps);
/** With shards: begin a shard, order[first] to order[first + count - 1] of an epoch. b->rows is 0 until batches_next(). */
void batches_shard(struct batches *b, int64_t epoch, int64_t first, int64_t count);
/** In rounds (--sync): gather worker `trainer`'s batch for this global step. The batch depends on step, seed and shares alone: a
 * worker that comes back, or whose step was dropped, goes on where the others are. Returns 0; -1: see b->x.error. */
int batches_round(struct batches *b, int64_t step, int trainer);

#endif
