/* SPDX-License-Identifier: Apache-2.0 */
/* Pushes that wait. Either a checkpoint being written (a cut) would have to copy the values that the push changes, but holds as
 * much memory as it may (psd_cut_is_full()); or the value is being updated in slices (moves.c), by this push or another. The
 * connection of such a push is not read; other connections and pulls go on.
 *
 * Happy path: psd_held_begins() is called before each piece of a frame; if it returns true, the bytes that have come are kept.
 * When the reason is gone, psd_held_work() returns the connection that has waited longest, and its kept bytes are processed.
 * Failure: if the connection ends, the kept bytes are dropped, and the push stays in progress at its offset; slices go on. */
#include "rpc.h"

#include "psd/store/cut.h"

/* How many bytes of the variable a checkpoint that is being written must copy before the next segment of n is applied. */
static uint64_t missing(const struct psd_task *t, const struct psd_number *n)
{
    const struct psd_progress *p = n->progress;
    if (p == NULL || psd_push_contributes(p->kind)) {
        return 0;
    }
    const struct psd_variable *v = p->variable;
    const bool ends = (p->total - n->offset) * p->unit <= PS_SEGMENT_BYTES, slices = psd_move_is_long(t, p);
    if (psd_progress_stages(p) && (!ends || slices)) {
        return 0; /* this segment is only collected in memory: the value changes with the last segment, or in slices after it */
    }
    const bool moves_all = psd_progress_moves_last(p) && !slices && ends;
    if (!psd_progress_streams(p) || moves_all || psd_push_is_rows(p->kind)) { /* any part of the value may change */
        return psd_cut_missing(&t->store, v, 0, v->bytes);
    }
    return psd_cut_missing(&t->store, v, n->offset * v->element_bytes, PS_SEGMENT_BYTES / p->unit * v->element_bytes);
}

/* True if the value that n changes is being changed in slices, by n or by another push. */
static bool waits_for_slices(const struct psd_task *t, const struct psd_number *n)
{
    return !psi_list_empty(&t->moves) && n->progress != NULL && psd_moves_value(t, n->progress->variable);
}

static bool waits_for_cut(const struct psd_task *t, const struct psd_number *n)
{
    return psd_cut_is_full(&t->store) && missing(t, n) > 0;
}

/* True if c must not be read now. For a checkpoint's memory c waits only between two segments, because within a segment it holds
 * a buffer that others need. For slices, which need no buffer, c waits at any place. */
static bool waits(const struct psd_task *t, const struct psd_conn *c)
{
    const struct psd_number *n = c->number;
    return n != NULL && (waits_for_slices(t, n) || (c->link->in.buffer == NULL && waits_for_cut(t, n)));
}

bool psd_held_begins(struct psd_task *t, struct psd_conn *c)
{
    if (!waits(t, c)) {
        return false;
    }
    psi_list_push_back(&t->held, &c->held);
    c->held_beat_ms = t->now_ms;
    return true;
}

/* Find the connection that has waited longest, and whose push need not wait any more. It must not lack a buffer. NULL: none. */
static struct psd_conn *next(const struct psd_task *t)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &t->held) {
        struct psd_conn *c = PSI_CONTAINER_OF(it, struct psd_conn, held);
        if (!waits(t, c) && !c->link->want_buffer) {
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
    struct psi_list *it = NULL, *tmp = NULL;
    psd_cut_tick(t, t->now_ms);
    PSI_LIST_FOREACH_SAFE(it, tmp, &t->held) { /* an answer without memory closes its connection */
        struct psd_conn *c = PSI_CONTAINER_OF(it, struct psd_conn, held);
        if (t->now_ms - c->held_beat_ms >= t->config.beat_ms) {
            c->held_beat_ms = t->now_ms;
            psd_beat_answer(t, c, 0); /* id 0: this answers no BEAT, but shows that this task is alive */
        }
    }
}
