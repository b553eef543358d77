/* SPDX-License-Identifier: Apache-2.0 */
/* For --serial, one process that computes all workers' batches: averages the gradients of a round as ps tasks would. */
#ifndef PSTRAIN_AVERAGE_H
#define PSTRAIN_AVERAGE_H

#include "model.h"

struct average {
    /* [i]: sum of the gradients of variable i, in order of creation; of a table all rows, even if no batch reads them */
    float *sum[2 * MODEL_LAYERS_MAX + 1];
    int64_t count; /* batches added since the last push */
    /* only if batches read single rows of tables (rows.h): */
    int64_t batch, round;   /* sequence numbers, from 1: of the batch added last; of this round's first batch */
    int64_t *last;          /* [features]: sequence number of the last batch that had this row; 0: no batch had it */
    int64_t *ids, id_count; /* [id_count]: rows that this round's batches have read; set by average_push() */
};

/** Allocate sums for the gradients of m; call it after model_params(). 0, or -1 without memory; average_fini() in both cases. */
int average_init(struct average *a, const struct model *m);
void average_fini(struct average *a);
/** Add the gradients of one batch, which are in the buffers of m's parameters. An error is stored in the session. */
void average_add(struct average *a, const struct model *m);
/** Push each variable's average gradient (sum / count), and clear the sums. If the norm of all averages together is above
 * max_norm, they are scaled down to it; max_norm 0: no limit. An error is stored in the session. */
void average_push(struct average *a, const struct model *m, ps_session *s, double max_norm);

#endif
