/* SPDX-License-Identifier: Apache-2.0 */
/* How cluster.c and tf_config.c add a job: init, add each address, finish; fini always. Not for others. */
#ifndef PSI_CLUSTER_INTERNAL_H
#define PSI_CLUSTER_INTERNAL_H

#include "cluster.h"

struct psi_job_builder {
    const struct psi_cluster *cluster; /* that it will be added to; borrows */
    struct psi_cluster_job job;
    uint32_t capacity;  /* of job.addresses */
    uint32_t max_tasks; /* 1 for a chief */
};

PSI_MUST ps_status psi_job_builder_init(struct psi_job_builder *b, const struct psi_cluster *c, const char *job, size_t len,
                                        struct psi_err *err);
PSI_MUST ps_status psi_job_builder_add(struct psi_job_builder *b, const char *text, size_t len, struct psi_err *err);
PSI_MUST ps_status psi_job_builder_finish(struct psi_job_builder *b, struct psi_cluster *c, struct psi_err *err);
void psi_job_builder_fini(struct psi_job_builder *b);

#endif
