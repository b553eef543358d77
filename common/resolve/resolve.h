/* SPDX-License-Identifier: Apache-2.0 */
/* Who this process is, from what its cluster manager says: variables of the environment, and flags where variables do not say
 * enough. Facts about the variables, with their sources, are in docs/LAUNCH.md. All but psi_cluster_resolve_here() is pure; any
 * thread.
 */
#ifndef PSI_RESOLVE_H
#define PSI_RESOLVE_H

#include "rows.h"

#include "common/cluster.h"

/** What the ranks left at the rendezvous FILE. */
struct psi_met {
    uint32_t count;           /* ranks of the job */
    const char *const *texts; /* [count]: of each rank what it left there; NULL: nothing yet */
};
/** What this process leaves at the rendezvous FILE, if its cluster needs one. */
struct psi_meeting {
    bool needed;
    uint32_t rank, count;
    char text[PS_ADDRESS_BYTES_MAX + 1 + 128]; /* address, blank, name of the job */
};
/**
 * Decide. *c is inited, gets the cluster, and stays empty where there is none, or where *out_meeting is needed.
 *
 * met      NULL: *out_meeting says what is to be left where; then call again.
 *
 * Errors   INVALID_ARGUMENT: the text begins with the variable and its value, or with the flag. UNAVAILABLE: a rank of met has
 *          left nothing. RESOURCE_EXHAUSTED.
 */
PSI_MUST ps_status psi_cluster_resolve(const ps_resolver_options *o, char *const *environment, const struct psi_met *met,
                                       struct psi_cluster *c, ps_resolved *out, struct psi_meeting *out_meeting,
                                       struct psi_err *err);
/** psi_cluster_resolve() with the meeting of the ranks, o->wait_ms long, and with the name of this machine. May block. */
PSI_MUST ps_status psi_cluster_resolve_here(const ps_resolver_options *o, char *const *environment, struct psi_cluster *c,
                                            ps_resolved *out, struct psi_err *err);

/** Names of a Slurm node list, in its order. */
struct psi_nodes {
    uint32_t count;
    char name[PS_TASKS_MAX][PS_HOST_BYTES_MAX + 1];
};
/** Expand "n[08-10,3],m1" as `scontrol show hostnames` does. Errors: INVALID_ARGUMENT says what is wrong, also more than
 * PS_TASKS_MAX names; *out is undefined then. */
PSI_MUST ps_status psi_nodes_expand(const char *list, struct psi_nodes *out, struct psi_err *err);
/** Expand "2(x3),1" to 2 2 2 1. Errors: INVALID_ARGUMENT, also more than PS_TASKS_MAX counts. */
PSI_MUST ps_status psi_counts_expand(const char *text, uint32_t counts[PS_TASKS_MAX], uint32_t *out_count, struct psi_err *err);
/** Expand "12007-12009,12011"; at most max numbers up to `most`. Errors: INVALID_ARGUMENT. */
PSI_MUST ps_status psi_numbers_expand(const char *text, uint32_t most, uint32_t *out, uint32_t max, uint32_t *out_count,
                                      struct psi_err *err);

#endif
