/* SPDX-License-Identifier: Apache-2.0 */
/* The test of the model that is on the ps tasks, after a run or without one (--eval). */
#ifndef PSTRAIN_EVALUATE_H
#define PSTRAIN_EVALUATE_H

#include "child.h"
#include "cluster.h"
#include "data/data.h"
#include "model.h"
#include "report.h"

/** What is known of the run. */
struct totals {
    struct work work; /* of all workers when `complete`, else of this one */
    bool complete;
    int64_t first_step;              /* not complete: the global step at its start, from which the others' share is estimated */
    double test_accuracy, test_loss; /* set by evaluate_after() */
};

/** How many examples the others have had while the global step rose by `steps`. */
int64_t samples_of_others(const struct flags *f, const struct cluster *c, int64_t steps, const struct work *own);

/**
 * The end of a run, with a session of its own: make data one for the model (source_adopt()), read the model, test it, print the
 * line, --export, --report, --status_at_end. Returns the exit status.
 */
int evaluate_after(const struct flags *f, const struct cluster *c, struct dataset *data, struct totals *totals);
/** Buffers for tests of parameters: model_params() comes next, model_fini() at the end. 0, or -1 without memory. */
int evaluate_init(struct model *m, const struct model_spec *spec);
/** Test the parameters of m as they were pulled, of the step in r, print the line. Returns the exit status. */
int evaluate_params(ps_session *s, const struct flags *f, struct model *m, const struct dataset *data, struct report *r);
/** The end of that: --export, --report. Returns the exit status. */
int evaluate_report(ps_session *s, const struct flags *f, const struct model_spec *spec, struct report *r);
/** --eval: against tasks that run already. Returns the exit status. */
int evaluate_run(const struct flags *f);

#endif
