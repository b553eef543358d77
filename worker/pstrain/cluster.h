/* SPDX-License-Identifier: Apache-2.0 */
/* Which cluster this process belongs to, and which task it is: from the flags, a manager's variables, or TF_CONFIG. */
#ifndef PSTRAIN_CLUSTER_H
#define PSTRAIN_CLUSTER_H

#include "flags.h"

enum { CLUSTER_JOB_BYTES = 64 };

struct cluster {
    char *spec;     /* the cluster spec, as "ps=h:p,h:p;worker=1@h:p" */
    bool alone;     /* the cluster manager that --cluster names has started only this process; no other field is set */
    bool evaluator; /* this process is an evaluator; of the fields below only job and task are set */
    char job[CLUSTER_JOB_BYTES]; /* "ps", "worker", "chief", "master" or "evaluator" */
    uint32_t task;
    int ps_count;
    int trainer_count; /* tasks of job worker, and of job chief or master */
    int trainer;       /* index of this task among the trainers, the chief first; -1: it does not train */
    bool chief;        /* this task is of job chief or master, or worker 0 if the spec has neither job */
    char *target;      /* address of the first ps task */
    char listen[sizeof(((ps_resolved *)0)->listen)]; /* where this ps task listens; "": its address in the spec */
};

/** Find out to which cluster this process belongs, and as which task.
 *
 * tf_config  text of TF_CONFIG; NULL: not set. Used if no flag gives the cluster. --job_name and --task_index override the
 *            task that TF_CONFIG names.
 * out        the caller frees it with cluster_fini(). Untouched on failure.
 * Returns    0, or -1 with one line in err (CLI_ERR_BYTES). */
int cluster_find(const struct flags *f, const char *tf_config, struct cluster *out, char *err);
/** For --eval: find the cluster whose model is to be tested. Sets out->spec from --cluster or TF_CONFIG; else out->target from
 * --ps_hosts (the first task) or psd_target (PSD_TARGET of the environment, or NULL). 0; -1: a line in err. */
int cluster_find_tested(const struct flags *f, const char *tf_config, const char *psd_target, struct cluster *out, char *err);
/** Copy c to *out, which the caller frees with cluster_fini(). 0, or -1 without memory, with *out zeroed. */
int cluster_copy(const struct cluster *c, struct cluster *out);
void cluster_fini(struct cluster *c);

#endif
