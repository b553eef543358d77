/* SPDX-License-Identifier: Apache-2.0 */
/* --job_name worker: one worker's training. */
#ifndef PSTRAIN_TRAIN_H
#define PSTRAIN_TRAIN_H

#include "child.h"
#include "cluster.h"

/** Train; as the chief of a cluster also wait for the others, test, report. Returns the exit status. */
int train_run(const struct flags *f, const struct cluster *c, const struct link *link);

#endif
