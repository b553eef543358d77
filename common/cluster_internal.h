/* SPDX-License-Identifier: Apache-2.0 */
/* How the readers of a ClusterSpec add a job: begin it, then put each task. For common/cluster*.c only. */
#ifndef PSI_CLUSTER_INTERNAL_H
#define PSI_CLUSTER_INTERNAL_H

#include "cluster.h"

/** Begin a job without tasks. *out_job is its index until another job begins. */
PSI_MUST ps_status psi_cluster_job_begin(struct psi_cluster *c, const char *job, size_t len, uint32_t *out_job,
                                         struct psi_err *err);
/** Add a task that the job does not have yet. The address has len bytes. */
PSI_MUST ps_status psi_cluster_job_put(struct psi_cluster *c, uint32_t job, uint32_t task, const char *text, size_t len,
                                       struct psi_err *err);
/** Add the tasks of "HOST:PORT, N@HOST:PORT", len bytes of a spec string. *out_at: where an error is; len: no error. */
PSI_MUST ps_status psi_cluster_job_put_list(struct psi_cluster *c, uint32_t job, const char *hosts, size_t len, size_t *out_at,
                                            struct psi_err *err);
/** Read len bytes of digits, a number below PS_TASKS_MAX. */
bool psi_task_index_read(const char *p, size_t len, uint32_t *out);

#endif
