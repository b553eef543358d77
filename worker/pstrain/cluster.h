/* SPDX-License-Identifier: Apache-2.0 */
/* Which cluster this process belongs to, and which task it is: from the flags, a manager's variables, or TF_CONFIG. */
#ifndef PSTRAIN_CLUSTER_H
#define PSTRAIN_CLUSTER_H

#include "flags.h"

enum { CLUSTER_JOB_BYTES = 64 };

struct cluster {
    char *spec;                  /* the cluster spec, as "ps=h:p,h:p;worker=1@h:p" */
    bool alone;                  /* --cluster names a cluster manager that has started only this process; no other field is set */
    bool evaluator;              /* this process is an evaluator; below only job and task are set */
    char job[CLUSTER_JOB_BYTES]; /* "ps", "worker", "chief", "master" or "evaluator" */
    uint32_t task;
    int ps_count;
    int trainer_count;                               /* tasks of jobs chief and worker */
    int trainer;                                     /* index of this task among them, the chief first; -1: it does not train */
    bool chief;                                      /* the spec names this task as chief */
    char *target;                                    /* address of the first ps task */
    char listen[sizeof(((ps_resolved *)0)->listen)]; /* where this ps task listens; "": at its address in the spec */
};

/**
 * Find out to which cluster this process belongs, and as which task.
 *
 * tf_config  text of the environment variable; NULL: not set. It is used if no flag gives the cluster. --job_name and
 *            --task_index override the task that it names.
 * out        gives; cluster_fini(). Untouched on failure.
 * Returns    0, or -1 with one line in err (CLI_ERR_BYTES).
 */
int cluster_find(const struct flags *f, const char *tf_config, struct cluster *out, char *err);
/** For --eval: find the cluster whose model is to be tested: that of --cluster or TF_CONFIG, of the first task in --ps_hosts, or
 * of the task at psd_target (environment variable PSD_TARGET; NULL: not set). Sets only out->spec or out->target. Returns 0, or
 * -1 with a line in err (CLI_ERR_BYTES). */
int cluster_find_tested(const struct flags *f, const char *tf_config, const char *psd_target, struct cluster *out, char *err);
/** Copy c to *out, which the caller frees with cluster_fini(). 0, or -1 without memory, with *out zeroed. */
int cluster_copy(const struct cluster *c, struct cluster *out);
void cluster_fini(struct cluster *c);

#endif
