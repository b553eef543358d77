/* SPDX-License-Identifier: Apache-2.0 */
/* Finds out which task of which cluster this process is: from environment variables that a cluster manager has set (Slurm, MPI,
 * torchrun, Kubernetes), and from flags for what the variables do not say. docs/LAUNCH.md describes the variables, with sources.
 * All functions but psi_cluster_resolve_here() are pure. Any thread. */
#ifndef PSI_RESOLVE_H
#define PSI_RESOLVE_H

#include "rows.h"

#include "common/cluster.h"

/** What the ranks have left at the rendezvous FILE. */
struct psi_met {
    uint32_t count;
    const char *const *texts; /* [count] text of each rank; NULL: the rank has left nothing yet */
};
/** What this process must leave at the rendezvous FILE. */
struct psi_meeting {
    bool needed;
    bool takes_port; /* this rank is the directory, and port 0 in text stands for a free port, which the rank takes first */
    uint32_t rank, count;
    char text[PS_ADDRESS_BYTES_MAX + 1 + 128]; /* address, blank, name of the job */
};
/** Decide which task this process is. *c is initialised by the caller and gets the cluster; it stays empty if there is no
 * cluster. met: what the ranks have left at the rendezvous FILE; NULL: nothing was read yet. If then out_meeting->needed, *c is
 * empty: leave out_meeting->text at FILE, and call again with met.
 *
 * Errors   INVALID_ARGUMENT: the text begins with the variable and its value, or with the flag. UNAVAILABLE: a rank of met has
 *          left nothing. RESOURCE_EXHAUSTED. */
PSI_MUST ps_status psi_cluster_resolve(const ps_resolver_options *o, char *const *environment, const struct psi_met *met,
                                       struct psi_cluster *c, ps_resolved *out, struct psi_meeting *out_meeting,
                                       struct psi_err *err);
/** psi_cluster_resolve() that finds this machine's name, and waits up to o->wait_ms for the files of the other ranks. */
PSI_MUST ps_status psi_cluster_resolve_here(const ps_resolver_options *o, char *const *environment, struct psi_cluster *c,
                                            ps_resolved *out, struct psi_err *err);

struct psi_nodes {
    uint32_t count;
    char name[PS_TASKS_MAX][PS_HOST_BYTES_MAX + 1];
};
/** Expand "n[08-10,3],m1" as `scontrol show hostnames` does. INVALID_ARGUMENT (also over PS_TASKS_MAX): *out is undefined. */
PSI_MUST ps_status psi_nodes_expand(const char *list, struct psi_nodes *out, struct psi_err *err);
/** Expand "2(x3),1" to 2 2 2 1. Errors: INVALID_ARGUMENT, also more than PS_TASKS_MAX counts. */
PSI_MUST ps_status psi_counts_expand(const char *text, uint32_t counts[PS_TASKS_MAX], uint32_t *out_count, struct psi_err *err);
/** Expand "12007-12009,12011" into out [max]. Errors: INVALID_ARGUMENT, also a number above `most`, and more than max numbers. */
PSI_MUST ps_status psi_numbers_expand(const char *text, uint32_t most, uint32_t *out, uint32_t max, uint32_t *out_count,
                                      struct psi_err *err);

#endif
