/* SPDX-License-Identifier: Apache-2.0 */
/* Move a loaded task (load.h) into a living one: containers move with their variables and memory, nothing is copied. Clients know
 * none of them yet, so each container gets a new incarnation, each variable a new creation and handle. No change (commit.h)
 * describes the move: a new history of changes begins with it. Parts of several tasks for one task are joined before. */
#ifndef PSD_STORE_PLACE_H
#define PSD_STORE_PLACE_H

#include "common/status.h"

#include <stdbool.h>
#include <stdint.h>

struct psd_task;

struct psd_placed {
    /* volatile: */
    uint64_t checkpoint;
    uint64_t moved; /* psd_container.moved of what is placed */
    uint64_t start; /* the start that places; what another start has placed elsewhere was trained since */
    /* True: the container moves. *out_start: the start that places it (psd_container.start). *out_trained: some task had trained
     * something in it before the cut. */
    bool (*wants)(void *ctx, const char *container, uint64_t *out_start, bool *out_trained);
    /* True: the variable or queue is left out. */
    bool (*leaves_out)(void *ctx, const char *container, const char *name);
    uint64_t (*random)(void *ctx);
    void (*unsealed)(void *ctx); /* a sealed variable is placed unsealed, because its first value counts as none */
    void *ctx;
};

/** from: a loaded task without sessions; afterwards it has what does not move, and is only to be freed. Containers that move are
 * empty in `to`, or not there. RESOURCE_EXHAUSTED: nothing has moved; empty containers may be there. */
ps_status psd_place(struct psd_task *to, struct psd_task *from, const struct psd_placed *how, struct psi_err *err) PSI_MUST;

/** Move all of `from` to `to`, two loaded parts of one checkpoint; then `from` is only to be freed. random: as in psd_placed.
 * FAILED_PRECONDITION: both have a variable or queue of one name, which is said; RESOURCE_EXHAUSTED. After an error nothing has
 * moved. */
ps_status psd_place_join(struct psd_task *to, struct psd_task *from, uint64_t (*random)(void *ctx), void *ctx,
                         struct psi_err *err) PSI_MUST;

/** Set the psd_container.moved of containers that t makes from now on. */
void psd_place_moved(struct psd_task *t, uint64_t moved);

#endif
