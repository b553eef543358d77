/* SPDX-License-Identifier: Apache-2.0 */
/* A push that updates a large value after its last byte (LAMB, LARS): the value is updated in slices, between which others are
 * served. If the gradient was collected in memory, its norm is computed first, in slices that change nothing.
 *
 * Happy path: psd_push_segment() takes the last segment, and psd_move_begin() puts the push into psd_task.moves. From then on its
 * connection is not read (held.c), nor is one that brings a mutation of the same variable. psd_moves_work() does one slice in
 * each turn of the event loop, for the oldest push that need not wait for a checkpoint's memory. The last slice finishes the
 * push, which is answered (psd_push_answer()), and the connections are read again.
 *
 * Failure: if the connection ends, the slices go on. If the push must end early, for example at the session's next HELLO, all
 * slices that are left are made at once (psd_outcome_finish()). The whole gradient has come, so the push cannot fail. */
#include "rpc.h"

#include "psd/store/cut.h"

/* Number of elements of the next slice of p: whole segments of the value, because each segment has a CRC (store/sums.h). */
static uint64_t slice_elements(const struct psd_task *t, const struct psd_progress *p)
{
    const struct psd_variable *v = p->variable;
    const uint64_t arrays = 1 + psd_optim_slot_count(&v->optimizer) + (p->staging != NULL);
    const uint64_t segments = t->config.round_slice_bytes / (2 * arrays * PS_SEGMENT_BYTES); /* 2: a slice reads and writes */
    const uint64_t most = (segments > 0 ? segments : 1) * (PS_SEGMENT_BYTES / v->element_bytes), left = psd_progress_left(p);
    return left < most ? left : most;
}

bool psd_move_is_long(const struct psd_task *t, const struct psd_progress *p)
{
    return psd_progress_moves_last(p) && slice_elements(t, p) < psd_progress_left(p);
}

void psd_move_begin(struct psd_task *t, struct psd_record *record, const struct psd_number *n)
{
    n->progress->record = record;
    psi_list_push_back(&t->moves, &n->progress->moves);
}

static struct psd_progress *at(struct psi_list *link)
{
    return PSI_CONTAINER_OF(link, struct psd_progress, moves);
}

bool psd_moves_value(const struct psd_task *t, const struct psd_variable *v)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &t->moves) {
        if (at(it)->variable == v) {
            return true;
        }
    }
    return false;
}

/* True if all segment buffers are lent, one of them to a connection that waits for the slices of v (held.c). Then the slices must
 * not wait for a checkpoint's memory, because no connection without a buffer is read until they are done. */
static bool must_go_on(const struct psd_task *t, const struct psd_variable *v)
{
    struct psi_list *it = NULL;
    bool must = false;
    PSI_LIST_FOREACH(it, &t->held) {
        const struct psd_conn *c = PSI_CONTAINER_OF(it, struct psd_conn, held);
        const struct psd_progress *p = c->number != NULL ? c->number->progress : NULL;
        must = must || (c->link->in.buffer != NULL && p != NULL && p->variable == v);
    }
    return must && psd_buffers_exhausted(t);
}

/* Find the oldest push whose next slice need not wait for a checkpoint's memory. NULL: there is none. */
static struct psd_progress *next(const struct psd_task *t)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &t->moves) {
        struct psd_progress *p = at(it);
        const uint64_t width = p->variable->element_bytes, first = psd_progress_moved(p);
        if (!psd_cut_is_full(&t->store) || psd_progress_measures(p) || must_go_on(t, p->variable) ||
            psd_cut_missing_move(&t->store, p->variable, first * width, slice_elements(t, p) * width) == 0) {
            return p;
        }
    }
    return NULL;
}

bool psd_moves_have_work(const struct psd_task *t)
{
    return next(t) != NULL;
}

/* Do the next slice of p; all: do all slices that are left. If p is finished now, its client is answered. */
static void move(struct psd_task *t, const struct psd_progress *p, bool all)
{
    const struct psd_variable *v = p->variable;
    const ps_dtype wire = (ps_dtype)p->wire;
    struct psd_record *record = p->record;
    const struct psd_number *n = psd_record_find(record, p->number);
    if (!all) {
        psd_outcome_move(t, record, n, slice_elements(t, p));
    } else {
        (void)psd_outcome_finish(t, record, n);
    }
    struct psd_conn *c = record->conn;
    /* answer if the push is finished, and c, which brought it, is still connected */
    if (n->progress == NULL && c != NULL && !c->closing && c->number == n) {
        psd_push_answer(t, c, v, wire, n);
    }
}

void psd_moves_work(struct psd_task *t)
{
    move(t, next(t), false);
}

void psd_moves_finish(struct psd_task *t, const struct psd_variable *v)
{
    struct psi_list *it = NULL, *tmp = NULL;
    PSI_LIST_FOREACH_SAFE(it, tmp, &t->moves) {
        const struct psd_progress *p = at(it);
        if (p->variable == v) {
            move(t, p, true);
        }
    }
}
