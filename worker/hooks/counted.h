/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of a session's training that tasks count, for its summaries. Each function asks tasks, until one has not answered for
 * a second. False: there is no number, or a task did not answer. Called in a hook. */
#ifndef PSI_WORKER_COUNTED_H
#define PSI_WORKER_COUNTED_H

#include "worker/api/api.h"

struct psi_counted {
    uint64_t counts[PS_HISTOGRAM]; /* at the last call */
};
/** Learning rate in force of the first parameter with an optimizer. */
bool psi_counted_rate(ps_session *s, double *out_rate);
/** Mean age of the gradients that tasks have applied since the last call. */
bool psi_counted_age(ps_session *s, struct psi_counted *c, double *out_mean);
/** With bounded staleness: mean lead of the workers' steps over the slowest since the last call. */
bool psi_counted_lead(ps_session *s, struct psi_counted *c, double *out_mean);
/** Mean of what was counted since the last call; the last class counts as one above the others. Pure. */
bool psi_counted_mean(struct psi_counted *c, const uint64_t counts[PS_HISTOGRAM], double *out_mean);

#endif
