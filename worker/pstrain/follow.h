/* SPDX-License-Identifier: Apache-2.0 */
/* --job_name evaluator: tests of the model while others train it. */
#ifndef PSTRAIN_FOLLOW_H
#define PSTRAIN_FOLLOW_H

#include "cluster.h"

/** Test the model repeatedly, until all workers are done or a signal comes. Returns the exit status; errors were printed. */
int follow_run(const struct flags *f, const struct cluster *c);

#endif
