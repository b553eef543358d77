/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of common/resolve/ only: the state of one call that finds out which task this process is, and helpers. */
#ifndef PSI_RESOLVE_INTERNAL_H
#define PSI_RESOLVE_INTERNAL_H

#include "resolve.h"

struct psi_resolver {
    const ps_resolver_options *o;
    char *const *environment;
    const struct psi_met *met; /* what the ranks have written at the rendezvous; NULL: not read yet */
    struct psi_cluster *c;
    ps_resolved *out;
    struct psi_meeting *meeting;
    struct psi_err *err;
};

/** The value of an environment variable; NULL: not set, or empty. psi_resolver_use() also adds it to r->out->why. */
const char *psi_resolver_get(const struct psi_resolver *r, const char *name);
const char *psi_resolver_use(struct psi_resolver *r, const char *name);
enum { PSI_VARIABLE_SHOWN = 160 };
/** Write "NAME='VALUE'", or "NAME is not set", to text [PSI_VARIABLE_SHOWN]. Returns text. */
const char *psi_resolver_show(const struct psi_resolver *r, const char *name, char text[PSI_VARIABLE_SHOWN]);
/** Set r->err to INVALID_ARGUMENT with the text "NAME='VALUE': why" or "NAME is not set: why", and return INVALID_ARGUMENT. */
PSI_MUST ps_status psi_resolver_refuse(const struct psi_resolver *r, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/** Read a number from least to most from an environment variable into *out, and add the variable to r->out->why.
 * INVALID_ARGUMENT: not set, or no such number; *out is unchanged. */
PSI_MUST ps_status psi_resolver_number(struct psi_resolver *r, const char *name, uint32_t least, uint32_t most, uint32_t *out);
/** As psi_resolver_number(), but if the variable is not set: PS_OK, and *out is unchanged. */
PSI_MUST ps_status psi_resolver_maybe(struct psi_resolver *r, const char *name, uint32_t least, uint32_t most, uint32_t *out);
/** Set job and task of this process. from: the variable that says so, for errors; NULL: the host name says so. INVALID_ARGUMENT:
 * --job_name or --task_index say otherwise. */
PSI_MUST ps_status psi_resolver_place(struct psi_resolver *r, const char *from, const char *job, uint32_t task);
/** Check that --ps_tasks is at most `ranks`, the number of ranks. from: the variable with this number, for the error. */
PSI_MUST ps_status psi_resolver_ps(const struct psi_resolver *r, const char *from, uint32_t ranks);
/** Add a task to the cluster. from: where its host comes from, for errors: "NAME='VALUE'" of a variable, or "--flag value". */
PSI_MUST ps_status psi_resolver_add(struct psi_resolver *r, const char *from, const char *job, uint32_t task, const char *host,
                                    uint32_t port);
/** The port of a task: --directory_port for ps task 0 (the directory), 0 (any free port) for all others. ps_task: index of the
 * task in job ps; UINT32_MAX: a worker. */
uint32_t psi_resolver_port(const struct psi_resolver *r, uint32_t ps_task);
/** Add a worker for each rank from `ps` to ranks - 1. Their addresses are unknown, so they get names that never resolve. */
PSI_MUST ps_status psi_resolver_unlisted(struct psi_resolver *r, uint32_t ps, uint32_t ranks);

PSI_MUST ps_status psi_resolve_slurm(struct psi_resolver *r);
PSI_MUST ps_status psi_resolve_mpi(struct psi_resolver *r);
PSI_MUST ps_status psi_resolve_torchrun(struct psi_resolver *r);
PSI_MUST ps_status psi_resolve_kubernetes(struct psi_resolver *r);

#endif
