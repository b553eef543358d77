/* SPDX-License-Identifier: Apache-2.0 */
/* What is left of a run: the report, the exported model, the cluster's status. */
#ifndef PSTRAIN_REPORT_H
#define PSTRAIN_REPORT_H

#include "cluster.h"
#include "sha256.h"

#include <ps.h>

struct report {
    double test_accuracy, test_loss, train_loss; /* NaN and infinity are written as null */
    double test_auc;                             /* of two classes */
    int64_t global_step;
    double epochs;             /* of this run */
    double samples_per_second; /* of all workers */
    double seconds;            /* of training */
    ps_sync_mode mode;
    int64_t rounds;                 /* of this run; 0 where there are none */
    int64_t dropped;                /* contributions to them, as far as this process knows */
    int64_t recoveries, lost_steps; /* its session was made anew so often; --local: all workers' sessions, and the most steps */
    const char *container;
    uint64_t leads[PS_HISTOGRAM]; /* with bounded staleness: steps by how many the worker was ahead of the slowest */
    int ps, workers;
    int variables;  /* that are trained: each step pushes each of them once */
    int64_t values; /* in them */
    char params_sha256[SHA256_HEX_BYTES];
};

/** Complain now, not after an hour, about a file that cannot be written. Returns the exit status. */
int report_check(const struct flags *f);
/** --export, then --report with what the ps tasks have counted: what of it is asked for. Returns the exit status. */
int report_write(ps_session *s, const struct flags *f, const struct report *r);
/** --status_at_end. Returns the exit status. */
int report_status(const struct cluster *c);

#endif
