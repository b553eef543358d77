/* SPDX-License-Identifier: Apache-2.0 */
/* What comes after training: the test, the report, the cluster's status. */
#ifndef PSTRAIN_FINISH_H
#define PSTRAIN_FINISH_H

#include "cluster.h"
#include "link.h"
#include "model.h"

/** What is known of the run. */
struct totals {
    struct work work; /* of all workers when `complete`, else of this one */
    bool complete;
    int64_t first_step; /* not complete: the global step at its start and */
    int64_t batch;      /* the examples per step, from which the others' share is estimated */
};

/** Complain now, not after an hour, about a report that cannot be written. Returns the exit status. */
int finish_check(const struct flags *f);
/**
 * With a session of its own: read the model, test it, print the accuracy, write --report, show --status_at_end.
 * Returns the exit status.
 */
int finish_run(const struct flags *f, const struct cluster *c, const struct model_spec *spec, const struct dataset *data,
               const struct totals *totals);

#endif
