/* SPDX-License-Identifier: Apache-2.0 */
/* The owner's side of DELETE: the variable is dropped, and the task's disk notes that no checkpoint may bring it back. The note
 * is left out if the task has no disk or knows of no checkpoint, and for a session's container.
 *
 * Failure: a checkpoint under way holds as much memory as it may (UNAVAILABLE), or there is no room for the note
 * (RESOURCE_EXHAUSTED): the variable stays. The disk fails to write the note: the variable is gone from memory, and the client
 * gets the disk's error, because a restart may bring the variable back from a checkpoint. */
#include "directory.h"

#include "psd/base/items.h"
#include "psd/checkpoint/shards.h"
#include "psd/store/cut.h"

#include "common/name.h"

/* Delete a variable, if it exists, and set a bar (bars.h): once the bar is on disk, no older checkpoint brings the variable back.
 * Errors change nothing: UNAVAILABLE (a checkpoint being written has no memory to copy the values), RESOURCE_EXHAUSTED. */
static ps_status delete_variable(struct psd_task *t, const char *container, const char *name, struct psi_err *err)
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
        /* a session's container is empty here now. If it is so everywhere, the directory has forgotten it: so reset this part */
        if (last) {
            (void)psd_reset_here(t, container);
        }
    }
    return st;
}

static void delete_noted(struct psd_task *t, void *ctx, uint64_t id, const struct psi_err *err)
{
    struct psi_err told;
    (void)ctx;
    if (err != NULL) {
        told = *err;
        psi_err_prefix(&told, "it is deleted, and a checkpoint brings it back until that is noted");
        told.applied = PS_MAYBE_PARTLY_APPLIED;
    }
    psd_order_answer(t, PS_OP_TASK_DELETE, id, err == NULL ? NULL : &told);
}

void psd_rpc_task_delete(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    ps_v1_NameItem item;
    char container[PS_CONTAINER_BYTES_MAX + 1], name[PS_NAME_BYTES_MAX + 1];
    struct psi_err err;
    ps_status st = psd_item_only(r, &ps_v1_NameItem_msg, &item, "variable", NULL, &err);
    st = st == PS_OK ? psd_name_parse(&item, container, name, &err) : st;
    st = st == PS_OK ? delete_variable(t, container, name, &err) : st;
    bool notes = st == PS_OK && psd_shards_is_able(t) && psd_bars_pending(t);
    if (!notes) {
        psd_order_answer(t, PS_OP_TASK_DELETE, r->header.id, st == PS_OK ? NULL : &err);
    } else if (psd_bars_wait(t, delete_noted, NULL, r->header.id, &err) != PS_OK) {
        delete_noted(t, NULL, r->header.id, &err);
    }
    (void)c;
}
