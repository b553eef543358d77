/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How what tasks have saved is dealt over several tasks (docs/DURABILITY.md §9), one part after the other. Each of them reads the
 * same states, and takes its own: so all must come to the same, on whatever machine, from what is in the states alone.
 */
#ifndef PSD_STORE_DEAL_H
#define PSD_STORE_DEAL_H

#include "common/status.h"

#include <stdint.h>

struct psd_store;
struct psd_variable;

struct psd_deal {
    /* volatile: */
    uint32_t tasks;        /* 0: all stays together */
    uint32_t place;        /* of who takes its own, from 0 on */
    uint32_t home;         /* place of who keeps what does not move */
    const uint32_t *index; /* [tasks], of the caller: of the task of its job that has this place */
    uint64_t *has;         /* [tasks], of the caller: what each has of the parts before; all read them in one order */
};

typedef void (*psd_deal_cb)(void *ctx, const struct psd_variable *v);

/** Calls back for what of s is not for how->place: variables that are pinned go to that task, where it is one of these; then the
 * others go to who has least so far, the largest first; queues of any kind stay at home. RESOURCE_EXHAUSTED: nothing was called.
 */
ps_status psd_deal(const struct psd_store *s, const struct psd_deal *how, psd_deal_cb others, void *ctx,
                   struct psi_err *err) PSI_MUST;

#endif
