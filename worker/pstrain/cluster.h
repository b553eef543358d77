/* SPDX-License-Identifier: Apache-2.0 */
/* Which cluster this process belongs to, and as which task: from the flags, or from TF_CONFIG. */
#ifndef PSTRAIN_CLUSTER_H
#define PSTRAIN_CLUSTER_H

#include "flags.h"

enum { CLUSTER_JOB_BYTES = 64 };

struct cluster {
    char *spec;                  /* "ps=h:p,h:p;worker=1@h:p" */
    bool alone;                  /* the variables of a manager say no cluster: nothing else is set */
    bool evaluator;              /* an evaluator: only job and task are set */
    char job[CLUSTER_JOB_BYTES]; /* "ps", "worker", "chief", "master" or "evaluator" */
    uint32_t task;
    int ps_count;
    int trainer_count;                               /* tasks of jobs chief and worker */
    int trainer;                                     /* index of this task among them, the chief's job first; -1 for a ps */
    bool chief;                                      /* the task that the cluster spec names as chief */
    char *target;                                    /* address of the first ps task */
    char listen[sizeof(((ps_resolved *)0)->listen)]; /* where a ps task listens; "": at its address in the cluster */
};

/**
 * Find out to which cluster this process belongs, and as which task.
 *
 * tf_config  text of the environment variable; NULL: not set. It is used if no flag gives the cluster; --job_name and
 *            --task_index override its task.
 * out        gives; cluster_fini(). Untouched on failure.
 * Returns    0, or -1 with one line in err (CLI_ERR_BYTES).
 */
int cluster_find(const struct flags *f, const char *tf_config, struct cluster *out, char *err);
/** For --eval: the cluster of --cluster or TF_CONFIG, the first task of --ps_hosts, or the task that psctl would take
 * (psd_target: the environment variable, or NULL). Sets only out->spec or out->target. */
int cluster_find_tested(const struct flags *f, const char *tf_config, const char *psd_target, struct cluster *out, char *err);
/** Copy c to out; cluster_fini(). 0, or -1 without memory, with *out zeroed. */
int cluster_copy(const struct cluster *c, struct cluster *out);
void cluster_fini(struct cluster *c);

#endif
