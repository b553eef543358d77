/* SPDX-License-Identifier: Apache-2.0 */
/* One decision while it is made. For common/resolve/ only. */
#ifndef PSI_RESOLVE_INTERNAL_H
#define PSI_RESOLVE_INTERNAL_H

#include "resolve.h"

struct psi_resolver {
    const ps_resolver_options *o;
    char *const *environment;
    const struct psi_met *met; /* NULL: nobody has met */
    struct psi_cluster *c;
    ps_resolved *out;
    struct psi_meeting *meeting;
    struct psi_err *err;
};

/** Value of a variable; NULL: it is not set, or empty. The second function notes it in out->why, at each call. */
const char *psi_resolver_get(const struct psi_resolver *r, const char *name);
const char *psi_resolver_use(struct psi_resolver *r, const char *name);
/** Fail with "NAME=VALUE: why", or "NAME is not set: why". */
PSI_MUST ps_status psi_resolver_refuse(const struct psi_resolver *r, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/** Read a variable that must be a number from least to most. */
PSI_MUST ps_status psi_resolver_number(struct psi_resolver *r, const char *name, uint32_t least, uint32_t most, uint32_t *out);
/** As psi_resolver_number(); a variable that is not set is PS_OK, and *out stays. */
PSI_MUST ps_status psi_resolver_maybe(struct psi_resolver *r, const char *name, uint32_t least, uint32_t most, uint32_t *out);
/** Set job and task of this process, and check that --job_name and --task_index say nothing else. from: the variable that says
 * so. */
PSI_MUST ps_status psi_resolver_place(struct psi_resolver *r, const char *from, const char *job, uint32_t task);
/** Check --ps_tasks against the number of ranks, which the variable `from` says. */
PSI_MUST ps_status psi_resolver_ps(const struct psi_resolver *r, const char *from, uint32_t ranks);
PSI_MUST ps_status psi_resolver_add(struct psi_resolver *r, const char *job, uint32_t task, const char *host, uint32_t port);
/** Add workers for the ranks from ps to ranks, whose addresses no variable says: names that never resolve (RFC 6761). */
PSI_MUST ps_status psi_resolver_unlisted(struct psi_resolver *r, uint32_t ps, uint32_t ranks);

PSI_MUST ps_status psi_resolve_slurm(struct psi_resolver *r);
PSI_MUST ps_status psi_resolve_mpi(struct psi_resolver *r);
PSI_MUST ps_status psi_resolve_torchrun(struct psi_resolver *r);
PSI_MUST ps_status psi_resolve_kubernetes(struct psi_resolver *r);

#endif
