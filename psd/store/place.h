/* SPDX-License-Identifier: Apache-2.0 */
/* Move the containers of a loaded task (load.h), with their variables and memory, into the task that serves; nothing is copied.
 * No client knows what is loaded: variables get a new creation and handle, containers that the task lacked a new incarnation. No
 * change (commit.h) describes the move, so a replay of changes begins after it. Files of several tasks are loaded one by one, and
 * psd_place_join() joins them before the move. */
#ifndef PSD_STORE_PLACE_H
#define PSD_STORE_PLACE_H

#include "common/status.h"

#include <stdbool.h>
#include <stdint.h>

struct psd_task;

struct psd_placed {
    uint64_t checkpoint;
    uint64_t moved; /* new psd_container.moved: in checkpoints up to this number, other tasks have the values; 0: in none */
    /* random number of this load; wants() gives another number for a container that other tasks got by an earlier load */
    uint64_t start;
    /* true if the container is to move. *out_start: new psd_container.start. *out_trained: some task had trained it */
    bool (*wants)(void *ctx, const char *container, uint64_t *out_start, bool *out_trained);
    /* true if this variable or queue of a container that moves is left behind */
    bool (*leaves_out)(void *ctx, const char *container, const char *name);
    uint64_t (*random)(void *ctx);
    /* called for each variable that loses its seal (the mark that its value is complete), as its value cannot be used */
    void (*unsealed)(void *ctx);
    void *ctx;
};

/** Move the containers that `how` wants from `from`, a loaded task without sessions, to `to`, where they must be empty or absent.
 * The caller then frees `from`, with what is left in it. RESOURCE_EXHAUSTED: nothing has moved; `to` may have new containers. */
ps_status psd_place(struct psd_task *to, struct psd_task *from, const struct psd_placed *how, struct psi_err *err) PSI_MUST;

/** Move all of `from` to `to`; both were loaded from files of one checkpoint. The caller then frees `from`. random: as in
 * psd_placed. After an error nothing has moved: FAILED_PRECONDITION (both have a variable of this name), RESOURCE_EXHAUSTED. */
ps_status psd_place_join(struct psd_task *to, struct psd_task *from, uint64_t (*random)(void *ctx), void *ctx,
                         struct psi_err *err) PSI_MUST;

/** Set psd_store.moved of t. Checkpoints up to this number were made when values lay on other tasks than now, so containers that
 * t makes from now on cannot be loaded from them. */
void psd_place_moved(struct psd_task *t, uint64_t moved);

#endif
