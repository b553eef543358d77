/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was loaded (load.h) becomes part of a task that lives: containers move with all that is in them, memory too, nothing is
 * copied. Nobody knows them yet: each gets another incarnation, each variable another creation and handle. No change says so
 * (commit.h): a history of changes begins anew behind it. Parts of several tasks that one is to go on with are joined before.
 */
#ifndef PSD_STORE_PLACE_H
#define PSD_STORE_PLACE_H

#include "common/status.h"

#include <stdbool.h>
#include <stdint.h>

struct psd_task;

struct psd_placed {
    /* volatile: */
    uint64_t checkpoint; /* the number of what was loaded */
    uint64_t moved;      /* psd_container.moved of what is placed */
    uint64_t start;      /* this one; what another start has placed elsewhere was trained since */
    /* does this container move, by which start (psd_container.start), and did some task train something in it before the cut */
    bool (*wants)(void *ctx, const char *container, uint64_t *out_start, bool *out_trained);
    /* is this variable or queue left out */
    bool (*leaves_out)(void *ctx, const char *container, const char *name);
    uint64_t (*random)(void *ctx);
    void *ctx;
};

/** from: a task of its own, without sessions, that was loaded; what does not move stays there, and it is only to be freed. The
 * containers that move are empty in `to`, or not there. RESOURCE_EXHAUSTED: they may be there, empty, and nothing has moved. */
ps_status psd_place(struct psd_task *to, struct psd_task *from, const struct psd_placed *how, struct psi_err *err) PSI_MUST;

/** Both are tasks of their own that were loaded, of the same checkpoint: what `from` has, `to` has too, a container of both once;
 * `from` is only to be freed. random: as in psd_placed. FAILED_PRECONDITION: both have a variable or queue of one name, which is
 * said; RESOURCE_EXHAUSTED. Nothing has moved then. */
ps_status psd_place_join(struct psd_task *to, struct psd_task *from, uint64_t (*random)(void *ctx), void *ctx,
                         struct psi_err *err) PSI_MUST;

/** psd_container.moved of containers that t makes from now on. */
void psd_place_moved(struct psd_task *t, uint64_t moved);

#endif
