/* SPDX-License-Identifier: Apache-2.0 */
/* The results of a run: the report, the exported model, the cluster's status. */
#ifndef PSTRAIN_REPORT_H
#define PSTRAIN_REPORT_H

#include "cluster.h"
#include "sha256.h"

#include <ps.h>

struct report {
    double test_accuracy, test_loss, train_loss; /* in the report's JSON, NaN and infinity become null */
    double test_auc;                             /* area under the ROC curve, for two classes */
    /* regression: share of the labels' variance that is explained (R^2); root of the mean squared error, in the labels' unit */
    double test_r2, test_rmse;
    int64_t *confusion; /* [classes][classes]: test examples by label and prediction; NULL: not counted */
    int64_t classes;    /* rows and columns of confusion */
    int64_t global_step;
    double epochs;             /* passes over the training data in this run */
    double samples_per_second; /* rate of all workers together */
    double seconds;
    ps_sync_mode mode;
    int64_t rounds;  /* rounds of this run (how much the global step rose); 0: no rounds */
    int64_t dropped; /* gradients dropped because they came too late for their round, as far as this process knows */
    /* recoveries of this process's session, and steps lost by them; with --local: sum over the workers; most that one lost */
    int64_t recoveries, lost_steps;
    const char *container;
    /* for --staleness, a histogram: leads[n] is the number of steps that some worker began n steps ahead of the slowest worker */
    uint64_t leads[PS_HISTOGRAM];
    int ps, workers;
    int variables;  /* number of trained variables; a step pushes each of them once */
    int64_t values; /* elements of all variables */
    char params_sha256[SHA256_HEX_BYTES];
};

/** Check before training that --export, --report and --plot can write their files. Returns the exit status. */
int report_check(const struct flags *f);
/** If given: do --export, then --report, which also asks the ps tasks for their counters. Returns the exit status. */
int report_write(ps_session *s, const struct flags *f, const struct report *r);
/** For --status_at_end: run `psctl status` for this cluster. Returns the exit status; prints what failed. */
int report_status(const struct flags *f, const struct cluster *c);

#endif
