/* SPDX-License-Identifier: Apache-2.0 */
/* ENQUEUE, DEQUEUE, QUEUE_CLOSE: the checks of these requests, and the lines in which they wait. QUEUES: the list of all queues.
 *
 * Happy path: a waiting request (wait.h) whose bytes have all come (queue_parts.c) joins one of the two lines of its queue
 * (enqueuers, dequeuers). queue_turns.c serves it. Then it is done, and its answer is kept until the client's ACK. Failure: a
 * request that is refused before it joins a line has inserted nothing. session/queue_ends.c ends requests that fail later. */
#include "queue.h"

#include "psd/rpc/handlers.h"

#include "common/form.h"
#include "common/mem.h"

#include <stdio.h>
#include <string.h>

enum { HELD_MAX = 4096 }; /* items of work queues that a session may hold at a task */

static bool is_head(const struct psd_wait *w)
{
    return psd_wait_first(w->needs[0].of) == w;
}

static const char *releasing_act(uint8_t op, const struct psd_queue *q)
{
    if (op != PS_OP_DEQUEUE) {
        return "dequeues, or closes it with cancel";
    }
    if (psi_queue_accumulates(q->spec.kind)) {
        return "applies a gradient of this step";
    }
    return q->spec.kind == PSI_QUEUE_WORK ? "fills it" : "enqueues, or closes it";
}

static void describe(const struct psd_task *t, const struct psd_wait *w, struct psd_wait_text *out)
{
    const struct psd_variable *v = psd_queue_of(t, w);
    const struct psd_queue *q = v->queue;
    bool in = w->op != PS_OP_DEQUEUE, work = q->spec.kind == PSI_QUEUE_WORK, sums = psi_queue_accumulates(q->spec.kind);
    if (sums) {
        PSI_IGNORE(snprintf(out->what, sizeof(out->what), "gradients of accumulator %.180s (%llu of %u, global step %lld)",
                            v->name, (unsigned long long)psd_queue_length(q), w->queue.count, (long long)q->step)); /* fits */
    } else if (w->op == PS_OP_QUEUE_CLOSE) {
        PSI_IGNORE(snprintf(out->what, sizeof(out->what), "queue %.180s closed behind what goes in before", v->name)); /* fits */
    } else {
        PSI_IGNORE(snprintf(out->what, sizeof(out->what), "%s queue %.180s (%llu of %u %s)", in ? "room in" : "elements of",
                            v->name, (unsigned long long)psd_queue_moved(w), w->queue.count,
                            in ? "inserted" : "taken")); /* fits */
    }
    if (!is_head(w)) {
        char who[96];
        const struct psd_record *first = psd_wait_first(w->needs[0].of)->record;
        PSI_IGNORE(snprintf(out->release, sizeof(out->release), "those before it have had their turn, %s first",
                            psd_record_text(first, who, sizeof(who)))); /* fits */
    } else if (work && q->filled) {
        PSI_IGNORE(snprintf(out->release, sizeof(out->release), "one of the %llu items that others hold is done or returned",
                            (unsigned long long)q->taken)); /* fits */
    } else {
        PSI_IGNORE(snprintf(out->release, sizeof(out->release), "somebody %s", releasing_act(w->op, q))); /* fits */
    }
}

static void expire(struct psd_task *t, struct psd_wait *w)
{
    const struct psd_variable *v = psd_queue_of(t, w);
    uint64_t moved = psd_queue_moved(w);
    if (psi_queue_accumulates(v->queue->spec.kind) && w->op == PS_OP_DEQUEUE) {
        PSI_IGNORE(psi_fail(&w->err, PS_DEADLINE_EXCEEDED,
                            "accumulator '%s' at %s: %s in time (%llu of %u gradients of global step %lld were there, and stay)",
                            v->name, t->name, is_head(w) ? "it has too few gradients" : "others are before it",
                            (unsigned long long)psd_queue_length(v->queue), w->queue.count,
                            (long long)v->queue->step)); /* sent by the caller */
        w->err.applied = PS_NOTHING_APPLIED;
        return;
    }
    const char *why = !is_head(w)              ? "others are before it"
                      : w->op == PS_OP_DEQUEUE ? (v->queue->filled ? "others hold all that is left" : "it has too few elements")
                                               : "it has no room";
    PSI_IGNORE(psi_fail(&w->err, PS_DEADLINE_EXCEEDED, "queue '%s' at %s: %s in time (%llu of %u elements %s)", v->name, t->name,
                        why, (unsigned long long)moved, w->queue.count,
                        w->op == PS_OP_DEQUEUE ? "were there, and stay" : "inserted"));
    bool partly = w->op == PS_OP_ENQUEUE && moved > 0;
    w->err.applied = partly ? PS_MAYBE_PARTLY_APPLIED : PS_NOTHING_APPLIED;
}

static void drop_wait(struct psd_task *t, struct psd_wait *w)
{
    const struct psd_variable *v = psd_queue_of(t, w);
    if (w->queue.handle == 0) {
        return;
    }
    psd_queue_drop_elements(t, w);
    if (w->err.code != PS_OK && w->op == PS_OP_DEQUEUE) {
        psd_queue_attempt_end(t, w, true);
    }
    if (v != NULL) {
        psd_queue_touch(t, v->queue); /* the next request in the line is the first one now, and may be served */
    }
}

static void forget(struct psd_task *t, struct psd_wait *w)
{
    psd_queue_attempt_end(t, w, !w->acknowledged);
}

static const struct psd_wait_kind enqueue_kind = {.describe = describe, .expire = expire, .drop = drop_wait, .forget = forget};
static const struct psd_wait_kind close_kind = {.describe = describe, .expire = expire, .drop = drop_wait};
static const struct psd_wait_kind dequeue_kind = {
    .describe = describe, .expire = expire, .drop = drop_wait, .forget = forget, .answer = psd_queue_send};

static void refuse(struct psd_task *t, struct psd_wait *w, struct psi_err *err)
{
    err->applied = PS_NOTHING_APPLIED;
    bool later = err->code == PS_RESOURCE_EXHAUSTED || err->code == PS_UNAVAILABLE;
    psd_wait_refused(t, w, err, later ? PSD_QUEUE_RETRY_MS : 0);
}

static void stand_in_line(struct psd_task *t, struct psd_wait *w, const struct psd_queue *q, const struct psi_list *line)
{
    struct psi_err err;
    struct psd_need *need = psd_wait_need(t, w, &err);
    if (need == NULL) {
        refuse(t, w, &err);
        return;
    }
    /* the cast removes const: only psd_commit() may change a queue's contents, but a line of requests is not part of them */
    psd_wait_hang(w, need, (struct psi_list *)(uintptr_t)line);
    psd_wait_open(t, w);
    psd_queue_touch(t, q);
}

static ps_status fail_draining(const struct psd_task *t, struct psi_err *err)
{
    return psi_fail_as(err, PS_UNAVAILABLE, PS_REASON_SHUTTING_DOWN, "%s is shutting down", t->name);
}

/* Begin the waiting request whose first frame is r. NULL: the request is refused, or r is repeated and was received before. */
static struct psd_wait *begin_wait(struct psd_task *t, struct psd_conn *c, const struct psd_request *r,
                                   const struct psd_wait_kind *kind)
{
    bool old = false;
    struct psi_err err;
    struct psd_wait *w = psd_wait_get(t, c, r, kind, &old);
    if (w == NULL || old) {
        return NULL;
    }
    if (w->queue.handle != 0) {
        PSI_IGNORE(psi_fail(&err, PS_INVALID_ARGUMENT, "%s number %llu has begun already; the rest of it comes in PUT_PART",
                            psi_op_name(w->op), (unsigned long long)w->id)); /* answered by refuse() */
        refuse(t, w, &err);
        return NULL;
    }
    w->queue.handle = r->header.handle;
    psi_list_init(&w->queue.elements);
    if (r->variable == NULL) {
        PSI_IGNORE(psd_queue_fail_gone(t, w, &err)); /* answered by refuse() */
    } else if (t->draining) {
        PSI_IGNORE(fail_draining(t, &err)); /* answered by refuse() */
    } else if (psd_attempt_find(w->record, w->id) != NULL) {
        PSI_IGNORE(psi_fail(&err, PS_INVALID_ARGUMENT, "%s number %llu still holds an item of a work queue", psi_op_name(w->op),
                            (unsigned long long)w->id));
    } else {
        return w;
    }
    refuse(t, w, &err);
    return NULL;
}

static ps_status read_enqueue(const struct psd_task *t, struct psd_wait *w, const struct psd_request *r, struct psi_err *err)
{
    ps_v1_Enqueue m;
    struct psd_queue_wait *k = &w->queue;
    const struct psd_variable *v = r->variable;
    ps_status st = psi_msg_decode(&ps_v1_Enqueue_msg, &m, r->meta, r->header.meta_bytes, err);
    if (st != PS_OK) {
        return st;
    }
    k->count = m.count;
    k->bytes = m.bytes;
    k->many = m.many;
    k->fill = m.fill;
    k->fill_hash = m.fill_hash;
    k->apply = m.apply;
    k->local_step = m.local_step;
    w->deadline_ms = psd_wait_deadline(t, m.timeout_ms);
    w->has_result = true;
    if (m.count > PS_VARIABLES_MAX || (!m.many && m.count != 1) || m.bytes % 8 != 0 || m.bytes > PS_VARIABLE_BYTES_MAX ||
        r->body_bytes > m.bytes || (m.bytes > 0 && r->body_bytes == 0) || (m.count == 0 && (m.bytes > 0 || m.fill))) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "queue '%s': an ENQUEUE of %u elements in %llu bytes, %zu of them here",
                        v->name, m.count, (unsigned long long)m.bytes, r->body_bytes);
    }
    if ((v->queue->spec.kind == PSI_QUEUE_WORK) != m.fill) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "queue '%s' at %s: %s", v->name, t->name,
                        m.fill ? "only a work queue is filled at once" : "a work queue is filled at once, and not added to");
    }
    st = psd_accumulator_admits(t, w, v, err);
    if (st != PS_OK) {
        return st;
    }
    if (m.bytes > t->config.memory_budget_bytes) {
        return psi_fail_as(err, PS_FAILED_PRECONDITION, PS_REASON_TOO_LARGE,
                           "queue '%s': %llu bytes of elements; all of %s has %llu (psd --memory_budget)", v->name,
                           (unsigned long long)m.bytes, t->name, (unsigned long long)t->config.memory_budget_bytes);
    }
    return PS_OK;
}

static void enqueue_opens(struct psd_task *t, struct psd_wait *w, const struct psd_variable *v)
{
    if (w->queue.count == 0) {
        psd_wait_done(t, w);
    } else {
        stand_in_line(t, w, v->queue, &v->queue->enqueuers);
    }
}

void psd_queue_bytes(struct psd_task *t, struct psd_wait *w, const uint8_t *p, size_t n)
{
    struct psi_err err;
    const struct psd_variable *v = psd_queue_of(t, w);
    ps_status st = v == NULL || psd_variable_is_gone(v) ? psd_queue_fail_gone(t, w, &err)
                   : t->draining                        ? fail_draining(t, &err)
                                                        : psd_queue_come(t, w, v->queue, p, n, &err);
    if (st != PS_OK) {
        refuse(t, w, &err);
    } else if (w->queue.come == w->queue.bytes) {
        enqueue_opens(t, w, v);
    }
}

void psd_rpc_enqueue(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    struct psi_err err;
    struct psd_wait *w = begin_wait(t, c, r, &enqueue_kind);
    if (w == NULL) {
        return;
    }
    if (read_enqueue(t, w, r, &err) != PS_OK) {
        refuse(t, w, &err);
    } else {
        psd_queue_bytes(t, w, r->body, r->body_bytes);
    }
}

/* Check that r may hold another item of a work queue. Items without a bound would make each of r's requests slower, because all
 * that r holds is searched for the request's number. */
static ps_status check_held(const struct psd_task *t, const struct psd_record *r, struct psi_err *err)
{
    struct psi_list *it = NULL;
    uint32_t held = 0;
    PSI_LIST_FOREACH(it, &r->attempts) {
        held += PSI_CONTAINER_OF(it, const struct psd_attempt, link)->held;
    }
    return held < HELD_MAX
               ? PS_OK
               : psi_fail(err, PS_FAILED_PRECONDITION,
                          "this session holds %u items of work queues of %s, and %d is the most: first say of one that "
                          "it is done, or give it back",
                          held, t->name, HELD_MAX);
}

static ps_status read_dequeue(const struct psd_task *t, struct psd_wait *w, const struct psd_request *r, struct psi_err *err)
{
    ps_v1_Dequeue m;
    const struct psd_variable *v = r->variable;
    const struct psi_queue_spec *spec = &v->queue->spec;
    ps_status st = psi_msg_decode(&ps_v1_Dequeue_msg, &m, r->meta, r->header.meta_bytes, err);
    if (st != PS_OK) {
        return st;
    }
    w->queue.count = m.count;
    w->queue.many = m.many;
    w->queue.up_to = m.up_to;
    w->deadline_ms = psd_wait_deadline(t, m.timeout_ms);
    if (psi_queue_accumulates(spec->kind)) {
        return psd_accumulator_admits(t, w, v, err);
    }
    if (m.count > PS_VARIABLES_MAX || (!m.many && (m.count != 1 || m.up_to))) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "queue '%s': a DEQUEUE of %u elements", v->name, m.count);
    }
    if (m.many && spec->kind == PSI_QUEUE_WORK) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "work queue '%s' at %s: its items are handed out one by one", v->name, t->name);
    }
    if (spec->kind == PSI_QUEUE_WORK) {
        return check_held(t, w->record, err);
    }
    for (uint32_t i = 0; m.many && i < spec->component_count; i++) {
        if (!spec->components[i].shaped) {
            return psi_fail(err, PS_INVALID_ARGUMENT,
                            "queue '%s' at %s: the shape of component %u is not declared, and many elements can be taken at "
                            "once only where all are",
                            v->name, t->name, i);
        }
    }
    return PS_OK;
}

void psd_rpc_dequeue(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    struct psi_err err;
    struct psd_wait *w = begin_wait(t, c, r, &dequeue_kind);
    if (w == NULL) {
        return;
    }
    if (read_dequeue(t, w, r, &err) != PS_OK) {
        refuse(t, w, &err);
    } else if (w->queue.count == 0) {
        psd_wait_done(t, w);
    } else {
        stand_in_line(t, w, r->variable->queue, &r->variable->queue->dequeuers);
    }
}

static void close_and_cancel(struct psd_task *t, const struct psd_variable *v)
{
    struct psd_wait *w = NULL;
    struct psi_err err;
    if (!v->queue->closed) {
        struct psd_change c = {.kind = PSD_CHANGE_QUEUE_CLOSE, .variable = v};
        psd_commit(t, &c);
    }
    PSI_IGNORE(psi_fail(&err, PS_CANCELLED, "queue '%s' at %s was closed, and what waited to go in cancelled", v->name,
                        t->name)); /* answered by psd_queue_end() */
    while ((w = psd_wait_first(&v->queue->enqueuers)) != NULL) {
        psd_queue_end(t, w, &err);
    }
    psd_queue_touch(t, v->queue);
}

void psd_rpc_queue_close(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    ps_v1_QueueClose m;
    struct psi_err err;
    struct psd_wait *w = begin_wait(t, c, r, &close_kind);
    if (w == NULL) {
        return;
    }
    const struct psd_variable *v = r->variable;
    ps_status st = psi_msg_decode(&ps_v1_QueueClose_msg, &m, r->meta, r->header.meta_bytes, &err);
    if (st == PS_OK && v->queue->spec.kind == PSI_QUEUE_WORK) {
        st = psi_fail(&err, PS_FAILED_PRECONDITION, "work queue '%s' at %s ends when all its epochs are done: it is not closed",
                      v->name, t->name);
    } else if (st == PS_OK && psi_queue_accumulates(v->queue->spec.kind)) {
        st = psi_fail(&err, PS_FAILED_PRECONDITION, "accumulator '%s' at %s is never closed", v->name, t->name);
    }
    w->queue.cancel = m.cancel;
    if (st == PS_OK) {
        psd_log(t, PSI_LOG_INFO, "queue_close_asked", PSI_KV("peer", c->text), PSI_KV("container", v->container->name),
                PSI_KV("queue", v->name), PSI_KV("cancel", m.cancel));
    }
    if (st != PS_OK) {
        refuse(t, w, &err);
    } else if (m.cancel) {
        close_and_cancel(t, v);
        psd_wait_done(t, w);
    } else {
        w->deadline_ms = psd_wait_deadline(t, m.timeout_ms);
        stand_in_line(t, w, v->queue, &v->queue->enqueuers);
    }
}

static uint32_t length(const struct psi_list *line)
{
    uint32_t count = 0;
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, line) {
        count++;
    }
    return count;
}

static void fill_answer(const struct psd_variable *v, ps_v1_QueueAnswer *a)
{
    const struct psd_queue *q = v->queue;
    PSI_IGNORE(PSI_BYTES_SET(a->container, v->container->name)); /* fits: checked names */
    PSI_IGNORE(PSI_BYTES_SET(a->name, v->name));                 /* fits: checked names */
    a->has_queue = true;
    psi_queue_spec_to_msg(&q->spec, &a->queue);
    a->size = psd_queue_length(q);
    a->taken = q->taken;
    a->enqueuers = length(&q->enqueuers);
    a->dequeuers = length(&q->dequeuers);
    a->closed = q->closed;
    a->bytes = q->bytes;
    if (q->filled) {
        a->epoch = q->epoch + 1;
        a->items = psd_queue_items(q);
        a->done = q->done;
    }
    if (psi_queue_accumulates(q->spec.kind)) {
        a->items = q->size;
        a->step = q->step;
        a->dropped = q->dropped;
    }
}

static void add_queue(struct psd_list *l, const struct psd_variable *v)
{
    ps_v1_QueueAnswer a = ps_v1_QueueAnswer_init_zero;
    if (v->queue != NULL) {
        fill_answer(v, &a);
        psd_list_add(l, &ps_v1_QueueAnswer_msg, &a);
    }
}

void psd_rpc_queues(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    static const struct psd_listing queues = {.op = PS_OP_QUEUES, .flags = PS_FLAG_REPLY, .add = add_queue};
    if (!psd_peers_refuse(t, c, r)) {
        psd_listing_begin(t, c, &queues, r->header.id);
    }
}
