/* SPDX-License-Identifier: Apache-2.0 */
/* For --serial, one process that computes all workers' batches: averages the gradients of a round as ps tasks would. */
#ifndef PSTRAIN_AVERAGE_H
#define PSTRAIN_AVERAGE_H

#include "model.h"

struct average {
    /* [variable, in order of creation]: sum of its gradients; of a table all rows, needed or not */
    float *sum[2 * MODEL_LAYERS_MAX + 1];
    int64_t count; /* batches added since the last push */
    /* used only if batches read rows of tables (rows.h): */
    int64_t batch, round;   /* counting batches from 1: the last one, and the first of this round */
    int64_t *last;          /* [features]: last batch that had this row; 0: none */
    int64_t *ids, id_count; /* [id_count]: rows that batches of this round have read; average_push() pushes these rows */
};

/** Allocate sums for the gradients of m, after model_params(). 0, or -1 without memory; average_fini() in both cases. */
int average_init(struct average *a, const struct model *m);
void average_fini(struct average *a);
/** Add the gradients of one batch, which are in the buffers of m's parameters. The session keeps an error. */
void average_add(struct average *a, const struct model *m);
/** Push each variable's average gradient (sum / count), and clear the sums. max_norm: most that the norm of all averages may be,
 * else they are scaled down; 0: no limit. The session keeps an error. */
void average_push(struct average *a, const struct model *m, ps_session *s, double max_norm);

#endif
