/* SPDX-License-Identifier: Apache-2.0 */
/* Deal the variables of a checkpoint out to several tasks (docs/DURABILITY.md §9). A part is what one task has saved. Each
 * loading task reads the state files of all parts, deals the variables out part by part, and loads those that fall to itself. */
#ifndef PSD_STORE_DEAL_H
#define PSD_STORE_DEAL_H

#include "common/status.h"

#include <stdint.h>

struct psd_store;
struct psd_variable;

struct psd_deal {
    uint32_t tasks;        /* number of tasks; 0: nothing is dealt out, this task takes all variables */
    uint32_t place;        /* place of the task that calls psd_deal(): tasks are numbered from 0 to tasks - 1 */
    uint32_t home;         /* place of the task that gets all that is not dealt out: queues, records of sessions and so on */
    const uint32_t *index; /* [tasks], owned by the caller: index of each task (by place) within its job */
    /* [tasks], owned by the caller: bytes dealt to each task so far. Every task deals out all parts, in one order */
    uint64_t *has;
};

typedef void (*psd_deal_cb)(void *ctx, const struct psd_variable *v);

/** Deal out the variables of s, and call others() for each variable that goes to another task than how->place. Queues go to
 * how->home. A pinned variable goes to its task, if it is one of the tasks. Other variables go, largest first, to the task with
 * the fewest bytes. RESOURCE_EXHAUSTED: others() was not called. */
ps_status psd_deal(const struct psd_store *s, const struct psd_deal *how, psd_deal_cb others, void *ctx,
                   struct psi_err *err) PSI_MUST;

#endif
