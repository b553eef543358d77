/* SPDX-License-Identifier: Apache-2.0 */
/* For --serial: averages gradients as the tasks average the pushes of a round's workers. */
#ifndef PSTRAIN_AVERAGE_H
#define PSTRAIN_AVERAGE_H

#include "model.h"

struct average {
    float *sum[2 * MODEL_LAYERS_MAX]; /* sums of each variable's gradients, in order of creation */
    int64_t count;                    /* number of gradients in the sums */
};

/** Allocate sums for the gradients of m after model_params(). 0, or -1 without memory; average_fini() in both cases. */
int average_init(struct average *a, const struct model *m);
/** a may be zeroed. */
void average_fini(struct average *a);
/** Add the gradients in the parameters' buffers. An error sticks to the session. */
void average_add(struct average *a, const struct model *m);
/** Push sum / count of each variable, and start again from 0. An error sticks to the session. */
void average_push(struct average *a, const struct model *m, ps_session *s);

#endif
