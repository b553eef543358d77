/* SPDX-License-Identifier: Apache-2.0 */
/* How the readers of a ClusterSpec add a job: begin it, then put each task. For cluster*.c and tf_config.c only. */
#ifndef PSI_CLUSTER_INTERNAL_H
#define PSI_CLUSTER_INTERNAL_H

#include "cluster.h"

/** Add a job, without tasks yet. *out_job: its index, valid until another job is begun, because jobs are sorted by name. */
PSI_MUST ps_status psi_cluster_job_begin(struct psi_cluster *c, const char *job, size_t len, uint32_t *out_job,
                                         struct psi_err *err);
PSI_MUST ps_status psi_cluster_job_put(struct psi_cluster *c, uint32_t job, uint32_t task, const char *text, size_t len,
                                       struct psi_err *err);
/** Add the tasks of "HOST:PORT, N@HOST:PORT", len bytes of a spec string. *out_at: offset of an error in hosts. */
PSI_MUST ps_status psi_cluster_job_put_list(struct psi_cluster *c, uint32_t job, const char *hosts, size_t len, size_t *out_at,
                                            struct psi_err *err);
bool psi_task_index_read(const char *p, size_t len, uint32_t *out);

#endif
