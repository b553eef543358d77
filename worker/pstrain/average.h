/* SPDX-License-Identifier: Apache-2.0 */
/* --serial: the average of the gradients that the workers of a round would have pushed. */
#ifndef PSTRAIN_AVERAGE_H
#define PSTRAIN_AVERAGE_H

#include "model.h"

struct average {
    float *sum[2 * MODEL_LAYERS_MAX]; /* of each variable's gradients, in order of creation */
    int64_t count;                    /* summed so far */
};

/** Room for the gradients of m, whose model_params() there are. 0, or -1 without memory; average_fini() either way. */
int average_init(struct average *a, const struct model *m);
/** One that is all zeros is fine. */
void average_fini(struct average *a);
/** Add the gradients that are in the parameters' buffers. An error sticks to the session. */
void average_add(struct average *a, const struct model *m);
/** Push sum / count of each variable and begin anew. An error sticks to the session. */
void average_push(struct average *a, const struct model *m, ps_session *s);

#endif
