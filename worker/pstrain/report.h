/* SPDX-License-Identifier: Apache-2.0 */
/* The results of a run: the report, the exported model, the cluster's status. */
#ifndef PSTRAIN_REPORT_H
#define PSTRAIN_REPORT_H

#include "cluster.h"
#include "sha256.h"

#include <ps.h>

struct report {
    double test_accuracy, test_loss, train_loss; /* NaN and infinity are written as null */
    double test_auc;                             /* for two classes */
    double test_r2, test_rmse; /* for numbers: the part of the variance that is explained, and the error in their unit */
    int64_t *confusion;        /* [classes][classes]: test examples by label and prediction; NULL: none */
    int64_t classes;           /* of confusion */
    int64_t global_step;
    double epochs;             /* passes over the training data in this run */
    double samples_per_second; /* of all workers */
    double seconds;            /* of training */
    ps_sync_mode mode;
    int64_t rounds;  /* rounds of this run: rise of the global step; 0: not in rounds */
    int64_t dropped; /* dropped contributions, as far as this process knows */
    /* recoveries: of its session; --local: of all workers' sessions, and the largest lost_steps */
    int64_t recoveries, lost_steps;
    const char *container;
    uint64_t leads[PS_HISTOGRAM]; /* bounded staleness: number of steps by how far the worker was ahead of the slowest */
    int ps, workers;
    int variables;  /* trained variables: each step pushes each of them once */
    int64_t values; /* number of trained values */
    char params_sha256[SHA256_HEX_BYTES];
};

/** Check now, not after an hour, that the files of --export, --report and --plot can be written. Returns the exit status. */
int report_check(const struct flags *f);
/** Do --export, then --report with the counters of the ps tasks, if asked for. Returns the exit status. */
int report_write(ps_session *s, const struct flags *f, const struct report *r);
/** --status_at_end. Returns the exit status. */
int report_status(const struct cluster *c);

#endif
