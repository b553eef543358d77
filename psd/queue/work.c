/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to work queues. The first client fills the queue with items; a later fill with equal items does nothing, with other
 * items it is refused. A session takes items by DEQUEUE and ends each by WORK_END, a mutation: the item is done, or goes back to
 * the queue. Failure: FAILED_PRECONDITION if the session no longer holds the item, because its lease has ended; the error says
 * which session has it now. For an item that is done already, WORK_END is OK, and its result says so. */
#include "queue.h"

#include "psd/rpc/handlers.h"

#include <string.h>

ps_status psd_work_filled(const struct psd_task *t, const struct psd_wait *w, const struct psd_variable *v, struct psi_err *err)
{
    const struct psd_queue *q = v->queue;
    uint64_t items = psd_queue_items(q);
    if (items == w->queue.count && q->fill_hash == w->queue.fill_hash) {
        return PS_OK;
    }
    return psi_fail(err, PS_INVALID_ARGUMENT,
                    "work queue '%s' at %s was filled with %llu items (hash %016llx), and now with %u others (hash %016llx)",
                    v->name, t->name, (unsigned long long)items, (unsigned long long)q->fill_hash, w->queue.count,
                    (unsigned long long)w->queue.fill_hash);
}

static ps_status fail_not_held(const struct psd_task *t, const struct psd_variable *v, const struct psd_element *e,
                               struct psi_err *err)
{
    char who[96];
    const struct psd_attempt *a = e->state == PSD_ELEMENT_TAKEN ? psd_queue_holder(v->queue, e->serial) : NULL;
    if (a == NULL) {
        return psi_fail(err, PS_FAILED_PRECONDITION,
                        "work queue '%s' at %s: item %llu went back when the lease of this session ended; nobody holds it now",
                        v->name, t->name, (unsigned long long)e->serial);
    }
    return psi_fail(err, PS_FAILED_PRECONDITION, "work queue '%s' at %s: item %llu is held by %s now", v->name, t->name,
                    (unsigned long long)e->serial, psd_record_text(a->record, who, sizeof(who)));
}

/* Check the WORK_END in r, and fill in `out`, the change that carries it out. PS_OK: the caller must commit `out`. *out_asked:
 * the DEQUEUE that took the item, if the client has not acknowledged it; otherwise NULL. */
static ps_status decide_change(struct psd_task *t, const struct psd_conn *c, const struct psd_request *r, struct psd_change *out,
                               struct psd_wait **out_asked, struct psi_err *err)
{
    ps_v1_WorkEnd m;
    const struct psd_variable *v = r->variable;
    if (r->refusal != NULL) {
        *err = *r->refusal;
        return err->code;
    }
    ps_status st = psi_msg_decode(&ps_v1_WorkEnd_msg, &m, r->meta, r->header.meta_bytes, err);
    if (st != PS_OK) {
        return st;
    }
    if (v == NULL) {
        return psi_fail_as(err, PS_ABORTED, PS_REASON_LOST, "handle %u at %s: the queue was reset or deleted", r->header.handle,
                           t->name);
    }
    const struct psd_queue *q = v->queue;
    const struct psd_element *e = q->spec.kind == PSI_QUEUE_WORK && q->filled ? psd_queue_item(q, m.serial) : NULL;
    if (e == NULL || m.epoch == 0 || m.epoch > q->epoch + 1) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "queue '%s' at %s has handed out no item %llu in epoch %u", v->name, t->name,
                        (unsigned long long)m.serial, m.epoch);
    }
    bool repeated = m.epoch <= q->epoch || e->state == PSD_ELEMENT_DONE;
    const struct psd_attempt *a = !repeated && e->state == PSD_ELEMENT_TAKEN ? psd_queue_holder(q, m.serial) : NULL;
    if (!repeated && (a == NULL || a->record != c->record)) {
        return fail_not_held(t, v, e, err);
    }
    struct psd_wait *asked = a == NULL ? NULL : psi_u64_map_find(&c->record->waits, a->id);
    /* if `asked` is no DEQUEUE, the DEQUEUE was acknowledged, and the session has reused its number */
    *out_asked = asked != NULL && asked->op == PS_OP_DEQUEUE ? asked : NULL;
    *out = (struct psd_change){.kind = PSD_CHANGE_WORK_END,
                               .work_end = {.record = c->record,
                                            .number = r->header.id,
                                            .variable = v,
                                            .serial = m.serial,
                                            .give_back = m.give_back,
                                            .repeated = repeated}};
    return psd_change_reserve(t, out, err);
}

void psd_rpc_work_end(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    struct psd_change change;
    struct psd_wait *asked = NULL;
    struct psi_err err;
    if (!psd_outcome_may_begin(t, c, r)) {
        return;
    }
    if (decide_change(t, c, r, &change, &asked, &err) == PS_OK) {
        /* asked: the DEQUEUE that took the item, not acknowledged yet. If the client repeats it, this error is the answer */
        if (asked != NULL) {
            PSI_IGNORE(psi_fail(&asked->err, PS_FAILED_PRECONDITION, "work queue '%s' at %s: item %llu was ended before its ACK",
                                change.work_end.variable->name, t->name, (unsigned long long)change.work_end.serial));
            asked->err.applied = PS_NOTHING_APPLIED;
        }
        psd_commit(t, &change);
        psd_queue_touch(t, change.work_end.variable->queue);
    } else {
        psd_outcome_refuse(t, c->record, r->header.id, &err);
    }
    psd_outcome_send(t, c, PS_OP_WORK_END, r->header.handle, psd_record_find(c->record, r->header.id));
}
