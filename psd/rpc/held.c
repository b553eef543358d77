/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A push that waits for the memory of a cut: what it changes would have to be copied first, and as much as may be waits to be
 * written (psd_cut_is_full()). Its connection is not read, others are; pulls flow.
 *
 * Happy path: before a segment psd_held_begins() -> what came behind it is kept, and the connection is not read -> some of the
 * cut is written -> psd_held_work(), the one that waits longest first: what was kept goes on, until there is no room again.
 * Failure: its connection ends: nothing has happened; the push stays in progress where it stands.
 */
#include "rpc.h"

#include "psd/store/cut.h"

/* Bytes of value and slots that the next segment of n would have copied. */
static uint64_t missing(const struct psd_task *t, const struct psd_number *n)
{
    const struct psd_progress *p = n->progress;
    if (p == NULL || p->kind == PSD_CONTRIBUTE) {
        return 0;
    }
    const struct psd_variable *v = p->variable;
    if (psd_push_is_assign(p->kind) && (p->total - n->offset) * p->unit > PS_SEGMENT_BYTES) {
        return 0; /* with its last segment the old value is the cut's */
    }
    if (!psd_progress_streams(p)) {
        return psd_cut_missing(&t->store, v, 0, v->bytes);
    }
    return psd_cut_missing(&t->store, v, n->offset * v->element_bytes, PS_SEGMENT_BYTES / p->unit * v->element_bytes);
}

bool psd_held_begins(struct psd_task *t, struct psd_conn *c)
{
    bool between = c->number != NULL && c->link->in.buffer == NULL; /* otherwise half a segment pins a buffer that others need */
    if (!between || !psd_cut_is_full(&t->store) || missing(t, c->number) == 0) {
        return false;
    }
    psi_list_push_back(&t->held, &c->held);
    c->held_beat_ms = t->now_ms;
    return true;
}

/* The one that waits longest and has a buffer for half a segment, should one come; NULL: none, or there is no room. */
static struct psd_conn *next(const struct psd_task *t)
{
    struct psi_list *it = NULL;
    if (psi_list_empty(&t->held) || psd_cut_is_full(&t->store)) {
        return NULL;
    }
    PSI_LIST_FOREACH(it, &t->held) {
        struct psd_conn *c = PSI_CONTAINER_OF(it, struct psd_conn, held);
        if (!c->link->want_buffer) {
            return c;
        }
    }
    return NULL;
}

bool psd_held_has_work(const struct psd_task *t)
{
    return next(t) != NULL;
}

struct psd_conn *psd_held_work(struct psd_task *t)
{
    struct psd_conn *c = next(t);
    psi_list_remove(&c->held);
    return c;
}

void psd_held_tick(struct psd_task *t)
{
    struct psi_list *it = NULL;
    psd_cut_tick(t, t->now_ms);
    PSI_LIST_FOREACH(it, &t->held) {
        struct psd_conn *c = PSI_CONTAINER_OF(it, struct psd_conn, held);
        if (t->now_ms - c->held_beat_ms >= t->config.beat_ms) {
            c->held_beat_ms = t->now_ms;
            psd_beat_answer(t, c, 0); /* to none: anything that comes says that we live */
        }
    }
}
