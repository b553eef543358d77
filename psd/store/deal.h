/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How saved variables are dealt over several tasks (docs/DURABILITY.md §9), one saved part after the other. Each task reads all
 * states and takes its own share, so the dealing depends on the states alone, on whatever machine.
 */
#ifndef PSD_STORE_DEAL_H
#define PSD_STORE_DEAL_H

#include "common/status.h"

#include <stdint.h>

struct psd_store;
struct psd_variable;

struct psd_deal {
    /* volatile: */
    uint32_t tasks;        /* 0: nothing is dealt, all stays together */
    uint32_t place;        /* of the task that takes its share, from 0 on */
    uint32_t home;         /* place of the task that keeps what is not dealt */
    const uint32_t *index; /* [tasks], of the caller: index, in the job, of the task at each place */
    uint64_t *has; /* [tasks], of the caller: bytes each place has of parts dealt before; all tasks deal the parts in one order */
};

typedef void (*psd_deal_cb)(void *ctx, const struct psd_variable *v);

/** Call others() for each variable of s that goes to another place. A pinned variable goes to its task, if that has a place.
 * Queues stay at home. The others go, largest first, to the place with the fewest bytes. RESOURCE_EXHAUSTED: nothing was
 * called. */
ps_status psd_deal(const struct psd_store *s, const struct psd_deal *how, psd_deal_cb others, void *ctx,
                   struct psi_err *err) PSI_MUST;

#endif
