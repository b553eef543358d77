/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which checkpoint has all that a task has (DURABILITY 6.9). psd_store.changes counts the changes that make a checkpoint differ
 * (psd/store/commit.c). The task notes this count at the cut of a checkpoint, and when a start has placed one. While the count
 * stays, that checkpoint has all. Failure: none; a task that does not know the count says that it has changed.
 */
#include "shards.h"

#include "psd/base/items.h"
#include "psd/rpc/handlers.h"

bool psd_shards_changed(const struct psd_task *t)
{
    return t->shards != NULL && t->store.changes != t->shards->saved_changes;
}

uint64_t psd_shards_number(const struct psd_task *t)
{
    return t->shards == NULL || psd_shards_changed(t) ? 0 : t->shards->saved_number;
}

/* PS_OK: checkpoint `number` has all that is here. FAILED_PRECONDITION: something has changed since that checkpoint.
 * NOT_FOUND: the task began empty although its disk has a part of that checkpoint, and nothing has changed since. */
static ps_status compare_with(const struct psd_task *t, uint64_t number, struct psi_err *err)
{
    if (!psd_shards_is_able(t) || psd_shards_changed(t) || (t->shards->saved_number != 0 && t->shards->saved_number != number)) {
        return psi_fail(err, PS_FAILED_PRECONDITION, "%s has changed since checkpoint %llu", t->name, (unsigned long long)number);
    }
    bool empty = t->shards->saved_number == 0 && psd_shards_find(t, number) != NULL;
    return empty ? psi_fail(err, PS_NOT_FOUND, "%s began without what it has in checkpoint %llu", t->name,
                            (unsigned long long)number)
                 : PS_OK;
}

void psd_shards_placed(struct psd_task *t, uint64_t number, bool whole)
{
    t->shards->saved_changes = whole ? t->store.changes : PSD_SAVED_BY_NONE;
    t->shards->saved_number = number;
}

void psd_rpc_task_saved(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    ps_v1_SaveItem item;
    struct psi_err err;
    ps_status st = psd_item_first(r, &ps_v1_SaveItem_msg, &item, "checkpoint", &err);
    st = st == PS_OK ? compare_with(t, item.number, &err) : st;
    psd_reply(t, c, PS_OP_TASK_SAVED, 0, r->header.id, 0, st == PS_OK ? NULL : &err, 0, NULL, NULL);
}

bool psd_shards_is_lost(const struct psd_task *t)
{
    const struct psd_shards *s = t->shards;
    if (s == NULL || t->is_directory || !t->draining) {
        return false;
    }
    const struct psd_shard *last = s->highest == 0 ? NULL : psd_shards_find(t, s->highest);
    bool whole = last != NULL && last->manifest_bytes != 0;
    /* a checkpoint was begun since the task waits for its last one */
    bool begun = s->ends_ms != 0 && (s->highest > s->ends_highest || s->ends_failed);
    bool by_itself = t->config.checkpoint_seconds != 0 || t->config.checkpoint_steps != 0;
    return (begun && !whole) || (by_itself && psd_shards_changed(t));
}
