/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The owner's side of DELETE: the variable is dropped, and the task's disk notes that no checkpoint may bring it back.
 *
 * Failure: a checkpoint under way holds as much memory as it may: UNAVAILABLE, and the variable stays. No room for the note:
 * RESOURCE_EXHAUSTED, and the variable stays. The disk fails to write the note: the variable is gone, and the client is told so.
 */
#include "directory.h"

#include "psd/checkpoint/shards.h"
#include "psd/store/cut.h"

#include "common/name.h"

ps_status psd_delete_here(struct psd_task *t, const char *container, const char *name, struct psi_err *err)
{
    const struct psd_variable *v = psd_variable_find(psd_container_find(&t->store, container), name);
    if (v != NULL && psd_cut_is_full(&t->store) && psd_cut_missing(&t->store, v, 0, v->bytes) > 0) {
        return psi_fail_as(
            err, PS_UNAVAILABLE, PS_REASON_OVERLOADED,
            "variable '%s' at %s: a checkpoint that has it holds as much memory as it may (psd --checkpoint_memory)", name,
            t->name);
    }
    bool notes = psd_shards_is_able(t) && t->shards->highest != 0 && !psi_container_is_session(container);
    ps_status st = notes ? psd_bars_delete(t, container, name, err) : PS_OK;
    if (st == PS_OK && v != NULL) {
        const bool last = v->container->of_session && psd_container_count(v->container) == 1;
        psd_drop_here(t, v);
        if (last) { /* the directory has no name of this container any more, and will not order its reset */
            (void)psd_reset_here(t, container);
        }
    }
    return st;
}

struct psi_err psd_delete_not_noted(const struct psi_err *err)
{
    struct psi_err told = *err;
    psi_err_prefix(&told, "it is deleted, and a checkpoint brings it back until that is noted");
    told.applied = PS_MAYBE_PARTLY_APPLIED;
    return told;
}
