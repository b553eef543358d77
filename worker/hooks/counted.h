/* SPDX-License-Identifier: Apache-2.0 */
/* What the cluster knows of a session's training, for its summaries. Each asks tasks, until one has not answered for a second;
 * false: there is none, or somebody did not answer. In a hook. */
#ifndef PSI_WORKER_COUNTED_H
#define PSI_WORKER_COUNTED_H

#include "worker/api/api.h"

struct psi_counted {
    uint64_t counts[PS_HISTOGRAM]; /* as they were the last time */
};
/** The learning rate in force of the first parameter that has an optimizer. */
bool psi_counted_rate(ps_session *s, double *out_rate);
/** How old the gradients were that the tasks have applied since the last time, on average. */
bool psi_counted_age(ps_session *s, struct psi_counted *c, double *out_mean);
/** With a bound on staleness: how far ahead of the slowest the workers were in their steps since the last time, on average. */
bool psi_counted_lead(ps_session *s, struct psi_counted *c, double *out_mean);
/** Since the last time: the mean of what was counted, the last class as one more than the others. Pure. */
bool psi_counted_mean(struct psi_counted *c, const uint64_t counts[PS_HISTOGRAM], double *out_mean);

#endif
