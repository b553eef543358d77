/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers that tasks count about a session's training, for its summaries. Called in a hook. The functions but psi_counted_mean()
 * ask tasks, and wait at most a second for a task that does not answer. False: there is no number, or a task did not answer. */
#ifndef PSI_WORKER_COUNTED_H
#define PSI_WORKER_COUNTED_H

#include "worker/api/api.h"

struct psi_counted {
    uint64_t counts[PS_HISTOGRAM]; /* counts at the last call */
};
/** Get the learning rate in force of the first parameter with an optimizer. */
bool psi_counted_rate(ps_session *s, double *out_rate);
/** Get the mean age of the gradients applied since the last call. Age: how often the parameter was updated between the pull and
 * the push. False in rounds. */
bool psi_counted_age(ps_session *s, struct psi_counted *c, double *out_mean);
/** With bounded staleness: get the mean lead of the workers since the last call. Lead: steps ahead of the slowest worker. */
bool psi_counted_lead(ps_session *s, struct psi_counted *c, double *out_mean);
/** Get the mean of the values counted since the last call. counts[i]: how often value i was counted. The last entry also counts
 * all larger values, as if they were its index. False: nothing was counted since. Pure. */
bool psi_counted_mean(struct psi_counted *c, const uint64_t counts[PS_HISTOGRAM], double *out_mean);

#endif
