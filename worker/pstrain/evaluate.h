/* SPDX-License-Identifier: Apache-2.0 */
/* The test of the model on the ps tasks, after a run or without one (--eval). */
#ifndef PSTRAIN_EVALUATE_H
#define PSTRAIN_EVALUATE_H

#include "child.h"
#include "cluster.h"
#include "data/data.h"
#include "model.h"
#include "report.h"

/** What this process knows of a finished run, for the line of results and the report. */
struct totals {
    struct work work; /* what all workers have done if `complete`; else what this worker has done */
    bool complete;
    int64_t first_step; /* global step at the run's begin: the others' examples are estimated from it if not `complete` */
    double test_accuracy, test_loss;
};

/** Estimate how many examples the other workers have trained while the global step rose by `steps`. own: this worker's work. */
int64_t samples_of_others(const struct flags *f, const struct cluster *c, int64_t steps, const struct work *own);

/** After a run, in a new session: number the data as the model does (source_adopt()), read and test the model, print the line of
 * results, do --export, --report and --status_at_end. Returns the exit status. */
int evaluate_after(const struct flags *f, const struct cluster *c, struct dataset *data, struct totals *totals);
/** Allocate m's buffers for a test. 0, or -1 without memory; model_fini() in both cases. */
int evaluate_init(struct model *m, const struct model_spec *spec);
/** For a model with spec.by_rows: find its tables at the ps tasks, from which a test reads rows. Returns the exit status. */
int evaluate_tables(ps_session *s, struct model *m);
/** Test m with weight_values, bias_values and tables; r gets test_loss and so on. Prints errors only. Returns the exit status. */
int evaluate_values(struct model *m, const struct dataset *data, struct report *r);
/** Test m with the parameters of the last pull, at step r->global_step, and print the results. Returns the exit status. */
int evaluate_params(ps_session *s, const struct flags *f, struct model *m, const struct dataset *data, struct report *r);
/** For an evaluator: do --export, and --report with the results in r, if these flags were given. Returns the exit status. */
int evaluate_report(ps_session *s, const struct flags *f, const struct model_spec *spec, struct report *r);
/** --eval: load the data, and test the model of a running cluster. Returns the exit status; errors were printed. */
int evaluate_run(const struct flags *f);

#endif
