/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A push that waits for the memory of a cut: what it changes would have to be copied first, and the cut already holds as much
 * unwritten memory as it may (psd_cut_is_full()). Its connection is not read; other connections and pulls continue.
 *
 * Happy path: psd_held_begins() before a segment -> the bytes behind it are kept, and the connection is not read -> some of the
 * cut is written -> psd_held_work(), for the longest waiting first: the kept bytes are dispatched, until there is no room again.
 * Failure: the connection ends: nothing has happened; the push stays in progress at its offset.
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
        return 0; /* only its last segment replaces the old value */
    }
    if (!psd_progress_streams(p) || psd_push_is_rows(p->kind)) { /* of rows: which the next segment has is not known yet */
        return psd_cut_missing(&t->store, v, 0, v->bytes);
    }
    return psd_cut_missing(&t->store, v, n->offset * v->element_bytes, PS_SEGMENT_BYTES / p->unit * v->element_bytes);
}

bool psd_held_begins(struct psd_task *t, struct psd_conn *c)
{
    /* otherwise half a segment would hold a buffer that others need */
    bool between = c->number != NULL && c->link->in.buffer == NULL;
    if (!between || !psd_cut_is_full(&t->store) || missing(t, c->number) == 0) {
        return false;
    }
    psi_list_push_back(&t->held, &c->held);
    c->held_beat_ms = t->now_ms;
    return true;
}

/* The longest waiting connection that can get a buffer for half a segment; NULL: none, or there is no room. */
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
            psd_beat_answer(t, c, 0); /* id 0 answers no BEAT: any frame shows that this task is alive */
        }
    }
}
