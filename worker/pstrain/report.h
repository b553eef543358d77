/* SPDX-License-Identifier: Apache-2.0 */
/* The report: one JSON object. */
#ifndef PSTRAIN_REPORT_H
#define PSTRAIN_REPORT_H

#include <ps.h>
#include <stdint.h>

struct report {
    double test_accuracy, test_loss, train_loss; /* NaN and infinity are written as null */
    double test_auc;                             /* of two classes */
    int64_t global_step;
    double epochs;             /* of this run */
    double samples_per_second; /* of all workers */
    double seconds;            /* of training */
    int ps, workers;
    int variables;             /* that are trained: each step pushes each of them once */
    int64_t values;            /* in them */
    const ps_task_info *tasks; /* [ps] */
};

/** Write it, whole or not at all (beside it, then renamed; devices, pipes and links as they are). Returns 0, or -1 and errno. */
int report_write(const char *path, const struct report *r);

#endif
