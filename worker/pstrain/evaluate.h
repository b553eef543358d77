/* SPDX-License-Identifier: Apache-2.0 */
/* The test of the model on the ps tasks, after a run or without one (--eval). */
#ifndef PSTRAIN_EVALUATE_H
#define PSTRAIN_EVALUATE_H

#include "child.h"
#include "cluster.h"
#include "data/data.h"
#include "model.h"
#include "report.h"

/** What is known about the run. */
struct totals {
    struct work work; /* of all workers if `complete`, else of this one */
    bool complete;
    int64_t first_step; /* not complete: global step at the start, from which the other workers' share is estimated */
    double test_accuracy, test_loss; /* set by evaluate_after() */
};

/** Estimate the number of examples of the other workers while the global step rose by `steps`. */
int64_t samples_of_others(const struct flags *f, const struct cluster *c, int64_t steps, const struct work *own);

/**
 * The end of a run, in a session of its own: adapt data to the model (source_adopt()), read the model, test it, print the line,
 * --export, --report, --status_at_end. Returns the exit status.
 */
int evaluate_after(const struct flags *f, const struct cluster *c, struct dataset *data, struct totals *totals);
/** Allocate buffers for tests of parameters; model_params() comes next, model_fini() at the end. 0, or -1 without memory. */
int evaluate_init(struct model *m, const struct model_spec *spec);
/** Test the values that m has (weight_values, bias_values) into test_loss, test_accuracy and the others of r; prints nothing but
 * errors. Returns the exit status. */
int evaluate_values(struct model *m, const struct dataset *data, struct report *r);
/** Test the parameters of m as they were pulled, at the step in r; print the line. Returns the exit status. */
int evaluate_params(ps_session *s, const struct flags *f, struct model *m, const struct dataset *data, struct report *r);
/** --export and --report of an evaluator. Returns the exit status. */
int evaluate_report(ps_session *s, const struct flags *f, const struct model_spec *spec, struct report *r);
/** --eval, with tasks that are running. Returns the exit status. */
int evaluate_run(const struct flags *f);

#endif
