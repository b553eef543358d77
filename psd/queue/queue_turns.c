/* SPDX-License-Identifier: Apache-2.0 */
/* Serves the waiting requests of queues by TensorFlow's rules (docs/TF_MAP.md), at the end of each event that has changed one.
 *
 * Requests wait in two lines, in order of arrival: ENQUEUEs and QUEUE_CLOSEs in one, DEQUEUEs in the other. The first line is
 * served until its first request must wait, then the second line, in turn, until no element moves. While the first request of a
 * line waits, all behind it wait. Elements move one by one, so a request may be half done: elements that it has inserted stay in
 * the queue, elements that it has taken are in its attempt (record). A move waits while a checkpoint would have to copy more for
 * it than there is memory. Failure: the queue is closed: an ENQUEUE ends as CANCELLED, a DEQUEUE that wants more elements than
 * are left as OUT_OF_RANGE. No memory: the request ends as RESOURCE_EXHAUSTED. */
#include "queue.h"

#include "psd/store/cut.h"

#include <string.h>

enum turn { NOTHING, SOME, DONE };

static uint64_t missing(const struct psd_wait *w)
{
    return w->queue.count - psd_queue_moved(w);
}

static ps_status fail_closed(const struct psd_task *t, const struct psd_variable *v, const char *how, struct psi_err *err)
{
    return psi_fail(err, PS_CANCELLED, "queue '%s' at %s is %s", v->name, t->name, how);
}

/* Commit c, which moves one element for request w. The first such change makes w's attempt: the record of what w has moved. */
static ps_status move_element(struct psd_task *t, struct psd_wait *w, struct psd_change *c, struct psi_err *err)
{
    ps_status st = psd_change_reserve(t, c, err);
    if (st == PS_OK) {
        psd_commit(t, c);
        w->queue.attempt = c->attempt.reserved;
    }
    return st;
}

static struct psd_change change_of(const struct psd_wait *w, enum psd_change_kind kind, const struct psd_variable *v)
{
    return (struct psd_change){.kind = kind,
                               .attempt = {.record = w->record, .id = w->id, .variable = v, .reserved = w->queue.attempt}};
}

/* True if w cannot move its next element until a checkpoint being written frees memory. A FILL that has begun goes on. */
static bool is_held(const struct psd_task *t, const struct psd_wait *w, const struct psd_variable *v)
{
    bool begun = w->queue.fill && w->queue.attempt != NULL;
    return !begun && w->op != PS_OP_QUEUE_CLOSE && psd_cut_holds_move(&t->store, v, w->record);
}

static enum turn close_turn(struct psd_task *t, const struct psd_variable *v, struct psi_err *err)
{
    if (v->queue->closed) {
        PSI_IGNORE(fail_closed(t, v, "already closed", err)); /* the caller sees it */
    } else {
        struct psd_change c = {.kind = PSD_CHANGE_QUEUE_CLOSE, .variable = v};
        psd_commit(t, &c);
    }
    return DONE;
}

static enum turn enqueue_turn(struct psd_task *t, struct psd_wait *w, const struct psd_variable *v, struct psi_err *err)
{
    struct psd_queue_wait *k = &w->queue;
    enum turn turn = NOTHING;
    if (v->queue->closed) {
        PSI_IGNORE(fail_closed(t, v, "closed", err)); /* the caller sees it */
        return DONE;
    }
    /* a gradient that is too old is dropped, and the request's result is 0 */
    if (k->apply && k->local_step < v->queue->step) {
        psd_queue_note_dropped(v->queue);
        return DONE;
    }
    if (k->fill && v->queue->filled) {
        PSI_IGNORE(psd_work_filled(t, w, v, err)); /* the caller sees it */
        return DONE;
    }
    /* a fill: all items must fit, or none goes in */
    if (k->fill && psd_queue_reserve(&t->store, v->queue, k->count, err) != PS_OK) {
        return DONE;
    }
    while (psd_queue_has_room(v->queue) && !is_held(t, w, v)) {
        struct psi_list *link = psi_list_pop_front(&k->elements);
        struct psd_element *e = PSI_CONTAINER_OF(link, struct psd_element, link);
        struct psd_change c = change_of(w, PSD_CHANGE_ENQUEUE, v);
        uint64_t memory = psd_element_memory_bytes(e->bytes);
        c.attempt.element = e;
        c.attempt.last = psi_list_empty(&k->elements);
        if (move_element(t, w, &c, err) != PS_OK) {
            psi_list_push_front(&k->elements, link);
            return DONE;
        }
        w->working_bytes -= memory;
        w->result++;
        turn = SOME;
        if (c.attempt.last) {
            if (k->fill) {
                struct psd_change filled = {.kind = PSD_CHANGE_WORK_FILLED, .filled = {.variable = v, .hash = k->fill_hash}};
                psd_commit(t, &filled);
            }
            return DONE;
        }
    }
    return turn;
}

/* Call if w, a DEQUEUE of a closed queue, needs more elements than are left. With up_to, w takes what is left, if it has or gets
 * an element. Otherwise w fails with err. True: w ends now. */
static bool too_few(struct psd_task *t, struct psd_wait *w, const struct psd_variable *v, struct psi_err *err)
{
    uint64_t have = psd_queue_moved(w), left = v->queue->size;
    if (w->queue.up_to && have + left > 0) { /* the queue is closed, so no more elements will come */
        w->queue.count = (uint32_t)(have + left);
        if (left == 0) {
            struct psd_change c = change_of(w, PSD_CHANGE_ATTEMPT_DONE, v);
            psd_commit(t, &c);
        }
        return left == 0;
    }
    PSI_IGNORE(psi_fail(err, PS_OUT_OF_RANGE,
                        "queue '%s' at %s is closed and has insufficient elements (requested %u, current size %llu)", v->name,
                        t->name, w->queue.count, (unsigned long long)(have + left)));
    return true;
}

/* Serve w, a DEQUEUE of an accumulator, which gets the whole present sum, or a sum that an earlier DEQUEUE has given back. */
static enum turn take_turn(struct psd_task *t, struct psd_wait *w, const struct psd_variable *v, struct psi_err *err)
{
    struct psd_change c = change_of(w, PSD_CHANGE_DEQUEUE, v);
    c.attempt.last = true;
    if (!psd_accumulator_has(v->queue, w->queue.count) || is_held(t, w, v)) {
        return NOTHING;
    }
    PSI_IGNORE(move_element(t, w, &c, err)); /* the caller sees it */
    return DONE;
}

static enum turn dequeue_turn(struct psd_task *t, struct psd_wait *w, const struct psd_variable *v, struct psi_err *err)
{
    const struct psd_queue *q = v->queue;
    enum turn turn = NOTHING;
    if (q->spec.kind == PSI_QUEUE_WORK && q->filled && q->epoch == q->spec.epochs) {
        PSI_IGNORE(psi_fail(err, PS_OUT_OF_RANGE, "work queue '%s' at %s: all %u epochs are done", v->name, t->name,
                            q->spec.epochs)); /* the caller sees it */
        return DONE;
    }
    if (psi_queue_accumulates(q->spec.kind)) {
        return take_turn(t, w, v, err);
    }
    if (q->closed && q->size < missing(w) && too_few(t, w, v, err)) {
        return DONE;
    }
    while (psd_queue_available(q) > 0 && !is_held(t, w, v)) {
        struct psd_change c = change_of(w, PSD_CHANGE_DEQUEUE, v);
        c.attempt.index = psd_queue_draw(q, q->spec.kind == PSI_QUEUE_SHUFFLE && q->spec.seed == 0 ? psd_random(t) : 0);
        c.attempt.last = missing(w) == 1;
        if (move_element(t, w, &c, err) != PS_OK) {
            return DONE;
        }
        turn = SOME;
        if (c.attempt.last) {
            return DONE;
        }
    }
    return turn;
}

static enum turn one_turn(struct psd_task *t, struct psd_wait *w, const struct psd_variable *v, struct psi_err *err)
{
    return w->op == PS_OP_ENQUEUE   ? enqueue_turn(t, w, v, err)
           : w->op == PS_OP_DEQUEUE ? dequeue_turn(t, w, v, err)
                                    : close_turn(t, v, err);
}

/* Serve the requests of a line in order until one must wait. *held becomes true if this one waits for memory that a checkpoint
 * uses. True: some request has ended or has moved an element. */
static bool line_turn(struct psd_task *t, const struct psd_variable *v, const struct psi_list *line, bool *held)
{
    bool moved = false;
    struct psd_wait *w = NULL;
    while ((w = psd_wait_first(line)) != NULL) {
        struct psi_err err = {.code = PS_OK};
        enum turn turn = one_turn(t, w, v, &err);
        moved = moved || turn != NOTHING;
        if (turn != DONE) {
            *held = *held || is_held(t, w, v);
            return moved;
        }
        if (err.code == PS_OK) {
            psd_wait_done(t, w);
        } else {
            psd_queue_end(t, w, &err);
        }
    }
    return moved;
}

bool psd_queues_have_work(const struct psd_task *t)
{
    return !psi_list_empty(&t->moved_queues) && !psd_cut_is_full(&t->store);
}

void psd_queues_turn(struct psd_task *t)
{
    struct psi_list *link = NULL, waiting;
    psi_list_init(&waiting);
    while ((link = psi_list_first(&t->moved_queues)) != NULL) {
        const struct psd_queue *q = PSI_CONTAINER_OF(link, struct psd_queue, dirty);
        bool moved = true, held = false;
        while (moved) {
            held = false;
            moved = line_turn(t, q->variable, &q->enqueuers, &held);
            moved = line_turn(t, q->variable, &q->dequeuers, &held) || moved;
        }
        psi_list_remove(link);
        if (held) {
            psi_list_push_back(&waiting, link);
        }
    }
    t->queues_held = !psi_list_empty(&waiting);
    psi_list_move_all(&t->moved_queues, &waiting);
}

static void check_line(const struct psd_task *t, const struct psd_queue *q, const struct psi_list *line)
{
    const struct psd_wait *head = psd_wait_first(line);
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, line) {
        const struct psd_wait *w = PSI_CONTAINER_OF(it, struct psd_need, at)->wait;
        PSI_ASSERT(w->stage == PSD_WAIT_OPEN && psd_queue_of(t, w) == q->variable &&
                   (w->op == PS_OP_DEQUEUE) == (line == &q->dequeuers));
        PSI_ASSERT(w->queue.attempt == psd_attempt_find(w->record, w->id) && (w == head || w->queue.attempt == NULL));
        PSI_ASSERT(w->op == PS_OP_QUEUE_CLOSE || missing(w) > 0);
    }
}

void psd_queues_check_invariants(const struct psd_task *t)
{
    uint64_t cursor = 0, handle = 0;
    void *value = NULL;
    PSI_ASSERT(psi_list_empty(&t->moved_queues) || t->queues_held);
    while (psi_u64_map_next(&t->store.handles, &cursor, &handle, &value)) {
        const struct psd_variable *v = value;
        const struct psd_queue *q = v->queue;
        if (q == NULL) {
            continue;
        }
        psd_queue_check_invariants(q);
        check_line(t, q, &q->enqueuers);
        check_line(t, q, &q->dequeuers);
        if (psi_list_linked(&q->dirty)) {
            continue; /* q may have requests that wait for a checkpoint's memory: psd_queues_turn() will look again */
        }
        const struct psd_wait *in = psd_wait_first(&q->enqueuers), *out = psd_wait_first(&q->dequeuers);
        PSI_ASSERT(in == NULL || (in->op == PS_OP_ENQUEUE && !q->closed &&
                                  !psd_queue_has_room(q)));                     /* otherwise the first request could go on */
        PSI_ASSERT(out == NULL || (psd_queue_available(q) == 0 && !q->closed)); /* otherwise the first request could go on */
        PSI_ASSERT(out == NULL || q->sum == NULL || psd_queue_length(q) < out->queue.count);
    }
}
