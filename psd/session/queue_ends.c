/* SPDX-License-Identifier: Apache-2.0 */
/* How requests to queues end early, and what becomes of the elements that they took.
 *
 * An element that was taken belongs to the queue until its client's ACK. It goes back to its place when the request ends with an
 * error or is given up, or when its session has no connection for a lease. In the last case the kept answer becomes an error, so
 * that no element has two owners. Inserted elements stay in the queue, and an error says how many. */
#include "session.h"

const struct psd_variable *psd_queue_of(const struct psd_task *t, const struct psd_wait *w)
{
    return psd_variable_left(&t->store, w->queue.handle);
}

ps_status psd_queue_fail_gone(const struct psd_task *t, const struct psd_wait *w, struct psi_err *err)
{
    ps_status st =
        psi_fail_as(err, PS_ABORTED, PS_REASON_LOST, "handle %u at %s: the queue was reset or deleted", w->queue.handle, t->name);
    err->applied = PS_NOTHING_APPLIED;
    return st;
}

uint64_t psd_queue_moved(const struct psd_wait *w)
{
    const struct psd_attempt *a = w->queue.attempt;
    return a == NULL ? 0 : w->op == PS_OP_ENQUEUE ? a->inserted : a->element_count;
}

void psd_queue_touch(struct psd_task *t, const struct psd_queue *q)
{
    /* the cast is allowed: only psd_commit() may change a queue's contents, but `dirty` is not part of them */
    struct psi_list *dirty = (struct psi_list *)(uintptr_t)&q->dirty;
    if (!psi_list_linked(dirty)) {
        psi_list_push_back(&t->moved_queues, dirty);
    }
}

void psd_queue_drop_elements(struct psd_task *t, struct psd_wait *w)
{
    struct psi_list *link = NULL;
    while ((link = psi_list_pop_front(&w->queue.elements)) != NULL) {
        psd_element_free(&t->store, PSI_CONTAINER_OF(link, struct psd_element, link));
    }
    w->working_bytes = 0;
}

static void touch(struct psd_task *t, const struct psd_variable *v)
{
    if (!v->gone) {
        psd_queue_touch(t, v->queue);
    }
}

static void attempt_end(struct psd_task *t, const struct psd_attempt *a, bool give_back)
{
    /* holds a reference, because the attempt may have the last one */
    const struct psd_variable *v = psd_variable_ref(a->variable);
    struct psd_change c = {.kind = PSD_CHANGE_ATTEMPT_END, .attempt = {.record = a->record, .id = a->id, .give_back = give_back}};
    psd_commit(t, &c);
    touch(t, v);
    psd_variable_unref(&t->store, v);
}

void psd_queue_attempt_end(struct psd_task *t, struct psd_wait *w, bool give_back)
{
    const struct psd_attempt *a = w->queue.attempt;
    w->queue.attempt = NULL;
    w->queue.part = NULL;
    if (a != NULL) {
        attempt_end(t, a, give_back);
    }
}

void psd_queue_end(struct psd_task *t, struct psd_wait *w, const struct psi_err *err)
{
    w->err = *err;
    w->err.applied = PS_NOTHING_APPLIED;
    if (w->op == PS_OP_ENQUEUE) {
        uint64_t moved = psd_queue_moved(w);
        w->err.applied = moved > 0 ? PS_MAYBE_PARTLY_APPLIED : PS_NOTHING_APPLIED;
        PSI_IGNORE(psi_fail_as(&w->err, err->code, err->reason, "%.300s (%llu of %u elements inserted)", err->text,
                               (unsigned long long)moved, w->queue.count));
        w->err.applied = moved > 0 ? PS_MAYBE_PARTLY_APPLIED : PS_NOTHING_APPLIED;
    }
    w->retry_after_ms = err->code == PS_RESOURCE_EXHAUSTED || err->code == PS_UNAVAILABLE ? PSD_QUEUE_RETRY_MS : 0;
    psd_wait_done(t, w);
}

static bool is_ours(const struct psd_wait *w)
{
    return w->op == PS_OP_ENQUEUE || w->op == PS_OP_DEQUEUE || w->op == PS_OP_QUEUE_CLOSE;
}

void psd_queue_abort(struct psd_task *t, const struct psd_variable *v)
{
    const struct psi_list *lines[] = {&v->queue->enqueuers, &v->queue->dequeuers};
    struct psi_err err;
    PSI_IGNORE(psi_fail_as(&err, PS_CANCELLED, PS_REASON_LOST, "queue '%s' at %s was reset or deleted", v->name,
                           t->name)); /* sent in answers */
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct psd_wait *w = NULL;
        while ((w = psd_wait_first(lines[i])) != NULL) {
            psd_queue_end(t, w, &err);
        }
    }
    psi_list_remove((struct psi_list *)(uintptr_t)&v->queue->dirty); /* no request waits any more */
}

/* End the attempts of r: their elements, which the client has not acknowledged, go back to the queues. The newest attempt ends
 * first, so that all elements return in their order. all: also end attempts without elements. */
static void give_back(struct psd_task *t, struct psd_record *r, bool all)
{
    struct psi_list *next = NULL;
    for (struct psi_list *it = r->attempts.prev; it != &r->attempts; it = next) {
        const struct psd_attempt *a = PSI_CONTAINER_OF(it, struct psd_attempt, link);
        struct psd_wait *w = psi_u64_map_find(&r->waits, a->id);
        next = it->prev;
        if (!all && a->element_count == 0) {
            continue;
        }
        if (w != NULL && is_ours(w)) { /* otherwise w is a later request with the same id */
            w->queue.attempt = NULL;
            w->queue.part = NULL;
        }
        attempt_end(t, a, true);
    }
}

void psd_queue_session_away(struct psd_task *t, struct psd_record *r)
{
    uint64_t cursor = 0;
    void *value = NULL;
    struct psi_err err;
    PSI_IGNORE(psi_fail(&err, PS_ABORTED,
                        "%s: the session was away for longer than its lease (%u ms), which ended what it had asked of queues",
                        t->name, t->config.lease_ms));
    give_back(t, r, false);
    while (psi_u64_map_next(&r->waits, &cursor, NULL, &value)) {
        struct psd_wait *w = value;
        if (!is_ours(w)) {
            continue;
        }
        if (w->stage == PSD_WAIT_OPEN) {
            psd_queue_end(t, w, &err);
        } else if (w->stage == PSD_WAIT_COLLECTING) {
            psd_wait_free(t, w);
        } else if (w->op == PS_OP_DEQUEUE && w->err.code == PS_OK && w->queue.count > 0) {
            w->err = err; /* the kept answer becomes an error: another client may take the elements now */
            w->err.applied = PS_NOTHING_APPLIED;
        }
    }
}

void psd_queue_session_end(struct psd_task *t, struct psd_record *r)
{
    give_back(t, r, true);
}

void psd_queues_drain(struct psd_task *t)
{
    uint64_t cursor = 0;
    void *value = NULL, *item = NULL;
    struct psi_err err;
    PSI_IGNORE(psi_fail_as(&err, PS_UNAVAILABLE, PS_REASON_SHUTTING_DOWN, "%s is shutting down", t->name)); /* sent in answers */
    while (psi_map_next(&t->records, &cursor, NULL, NULL, &value)) {
        const struct psd_record *r = value;
        uint64_t inner = 0;
        while (psi_u64_map_next(&r->waits, &inner, NULL, &item)) {
            struct psd_wait *w = item;
            if (is_ours(w) && w->stage == PSD_WAIT_OPEN) {
                psd_queue_end(t, w, &err);
            }
        }
    }
}
