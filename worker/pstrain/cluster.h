/* SPDX-License-Identifier: Apache-2.0 */
/* Which cluster this process belongs to, and as which task: from the flags, or from TF_CONFIG. */
#ifndef PSTRAIN_CLUSTER_H
#define PSTRAIN_CLUSTER_H

#include "flags.h"

enum { CLUSTER_JOB_BYTES = 64 };

struct cluster {
    char *spec;                  /* "ps=h:p,h:p;worker=1@h:p" */
    bool evaluator;              /* it only tests: but for job and task the rest is 0 */
    char job[CLUSTER_JOB_BYTES]; /* "ps", "worker", "chief", "master" or "evaluator" */
    uint32_t task;
    int ps_count;
    int trainer_count; /* tasks of jobs chief and worker */
    int trainer;       /* this one among them, the chief's job first; -1 for a ps */
    bool chief;        /* who is to be chief: initialises, waits for the others, tests */
    char *target;      /* address of the first ps task */
};

/**
 * Find out.
 *
 * tf_config  text of the environment variable, NULL: none. It counts where no flag gives the cluster; --job_name and --task_index
 *            win over its task.
 * out        gives; cluster_fini(). Untouched on failure.
 * Returns    0, or -1 with one line in err (CLI_ERR_BYTES).
 */
int cluster_find(const struct flags *f, const char *tf_config, struct cluster *out, char *err);
/** For --eval: of --cluster, the first task of --ps_hosts, the cluster of TF_CONFIG, or what psctl would take (psd_target: the
 *  environment variable, or NULL). Only spec or target of out is set. */
int cluster_find_tested(const struct flags *f, const char *tf_config, const char *psd_target, struct cluster *out, char *err);
void cluster_fini(struct cluster *c);

#endif
