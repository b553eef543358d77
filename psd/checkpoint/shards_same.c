/* SPDX-License-Identifier: Apache-2.0 */
/* Finds out which checkpoint has all that a task has (DURABILITY 6.9). psd_store.changes counts the changes by which the task
 * differs from a checkpoint (psd/store/commit.c). The task notes the count when it saves or loads a checkpoint. While the count
 * does not change, that checkpoint has all that the task has. Failure: a task that has no count for the checkpoint says that it
 * has changed; a task that began empty although its disk has a part of the checkpoint says NOT_FOUND. */
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

/* Check that checkpoint `number` has all of this task. FAILED_PRECONDITION: it may lack something. NOT_FOUND: the task began
 * empty although its disk has a part of the checkpoint, and nothing has changed since. */
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
    /* a checkpoint has begun since this task, which is to end, waits for a last one (ends_ms) */
    bool begun = s->ends_ms != 0 && (s->highest > s->ends_highest || s->ends_failed);
    bool by_itself = t->config.checkpoint_seconds != 0 || t->config.checkpoint_steps != 0;
    return (begun && !whole) || (by_itself && psd_shards_changed(t));
}
