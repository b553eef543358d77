/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues: ENQUEUE, DEQUEUE and QUEUE_CLOSE at the task that has one (docs/PROTOCOL.md, "Queues").
 *
 * Happy path: an ENQUEUE's frame brings the first PSI_PART_BYTES of its elements, PUT_PARTs the rest, a few on their way at a
 * time; the ENQUEUEs and QUEUE_CLOSEs of one queue go out whole, one after the other, in call order. A DEQUEUE's answer brings
 * the first bytes of what it took, GET_PARTs the rest; when all are in the caller's memory, and not before, ACK makes them the
 * program's.
 * Failure: after a reconnect all keep their numbers; an ENQUEUE in parts begins again, because the task has dropped what it had
 * of it; of a DEQUEUE only the parts that are missing are asked for. A DEQUEUE that ends here without all of its bytes is given
 * up (ACK with offset 1): what it took goes back. A part that is refused ends its request.
 *
 * In struct psi_request: offset = bytes that have an ask (ENQUEUE: to bring them, DEQUEUE: to fetch them), counter = 1 + bytes
 * that are in the send queue, 0: no frame of it is (ENQUEUE, QUEUE_CLOSE), offset2 = bytes that are here (DEQUEUE), flying =
 * parts without an answer, extra = the ask of a DEQUEUE whose parts are fetched.
 */
#include "client.h"

#include "common/limits.h"

#include <string.h>

_Static_assert(PSI_PART_BYTES + PSI_PART_BYTES / PS_SEGMENT_BYTES * 8 <= PS_CONTROL_BODY_MAX, "a part fits a control frame");

/* ---- checks ---- */

static ps_status check_put(const struct psi_enqueue *e, const char *name, struct psi_err *err)
{
    bool empty = e->many && e->count == 0;
    if (e->count > PS_VARIABLES_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "enqueue to '%s': %u elements, at most %d", name, e->count, PS_VARIABLES_MAX);
    }
    if ((e->data == NULL && e->bytes > 0) || (e->bytes == 0) != empty || e->bytes % 8 != 0 || (!e->many && e->count != 1)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "enqueue to '%s': %u elements in %llu bytes", name, e->count,
                        (unsigned long long)e->bytes);
    }
    return PS_OK;
}

static ps_status check_take(const struct psi_dequeue *d, const struct psi_var *var, struct psi_err *err)
{
    bool sums = var->queue->spec.kind == PSI_QUEUE_ACCUMULATOR;
    if (sums && (d->many || d->count == 0)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "take of '%s': %u gradients; at least 1, and one result", var->name, d->count);
    }
    if (d->room == NULL || (!sums && (d->count > PS_VARIABLES_MAX || (!d->many && d->count != 1)))) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "dequeue from '%s': %u elements, at most %d", var->name, d->count,
                        PS_VARIABLES_MAX);
    }
    for (uint32_t i = 0; d->many && i < var->queue->spec.component_count; i++) {
        if (!var->queue->spec.components[i].shaped) {
            return psi_fail(err, PS_INVALID_ARGUMENT,
                            "dequeue from '%s': several at once need the shapes of all components declared, that of component %u "
                            "is not",
                            var->name, i);
        }
    }
    return PS_OK;
}

ps_status psi_queue_check(const struct psi_request *req, struct psi_err *err)
{
    const struct psi_var *var = req->var;
    const char *kind = req->kind == PSI_REQ_ENQUEUE ? "enqueue" : req->kind == PSI_REQ_DEQUEUE ? "dequeue" : "queue_close";
    if (var == NULL || var->queue == NULL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s: %s", kind, var == NULL ? "no queue is given" : "a variable is no queue");
    }
    if (var->owner == UINT32_MAX || var->creation == 0) {
        return psi_fail(err, PS_FAILED_PRECONDITION, "%s of '%s': get or find the queue first", kind, var->name);
    }
    if ((req->kind == PSI_REQ_ENQUEUE && req->src == NULL) || (req->kind == PSI_REQ_DEQUEUE && req->dst == NULL)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s of '%s': no elements are given", kind, var->name);
    }
    return req->kind == PSI_REQ_ENQUEUE   ? check_put(req->src, var->name, err)
           : req->kind == PSI_REQ_DEQUEUE ? check_take(req->dst, var, err)
                                          : PS_OK;
}

/* ---- their ends ---- */

/* Nothing of it is left at its task or on its way, but for its own answer, which is r. */
static void refused(struct psi_ask *ask, const struct psi_reply *r)
{
    struct psi_client *c = ask->peer->c;
    struct psi_request *req = ask->req;
    struct psi_var *var = req->var;
    struct psi_ask about = {.peer = ask->peer, .req = req}; /* ask may be among those that are dropped */
    bool gone = r->status == PS_ABORTED && r->reason == PS_REASON_LOST && ask->peer->state == PSI_PEER_UP;
    struct psi_err text = {0};
    (void)psi_fail(&text, r->status, "%s", r->text); /* r's may lie in what is dropped */
    struct psi_reply end = *r;
    end.text = text.text;
    req->result_bytes = r->result_bytes;
    memcpy(req->result, r->result, r->result_bytes);
    req->flying = 0;
    psi_ask_drop(c, req);
    psi_client_kick(about.peer); /* what had to wait for its bytes */
    psi_control_refused(&about, &end);
    if (gone) {
        psi_var_lost(c, var, text.text);
    }
}

static void ended(struct psi_request *req)
{
    if (req->flying > 0) {
        psi_ask_drop(req->owner, req); /* parts of an ENQUEUE that the task had whole, from before a reconnect */
    }
    req->flying = 0;
    psi_request_end(req, PS_OK, PS_NOTHING_APPLIED, NULL);
}

static void not_understood(struct psi_ask *ask, const char *what)
{
    const struct psi_reply r = {.status = PS_INTERNAL, .applied = PS_MAYBE_PARTLY_APPLIED, .text = what};
    refused(ask, &r);
}

/* ENQUEUE and QUEUE_CLOSE */
static void on_put(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r)
{
    (void)c;
    struct psi_request *req = ask->req;
    if (r->status != PS_OK) {
        refused(ask, r);
        return;
    }
    req->result_bytes = r->result_bytes;
    memcpy(req->result, r->result, r->result_bytes);
    ended(req);
}

/* ---- parts in ---- */

static struct psi_request *request_of(struct psi_list *link)
{
    return PSI_CONTAINER_OF(link, struct psi_request, link);
}

static uint64_t put_bytes(const struct psi_request *req)
{
    return req->kind == PSI_REQ_ENQUEUE ? ((const struct psi_enqueue *)req->src)->bytes : 0;
}

static bool is_put(const struct psi_ask *ask)
{
    return ask->op == PS_OP_ENQUEUE || ask->op == PS_OP_QUEUE_CLOSE;
}

bool psi_queue_blocked(const struct psi_ask *ask)
{
    if (!is_put(ask)) {
        return false;
    }
    struct psi_list *before = ask->req->link.prev;
    if (before == &ask->req->var->queue->puts) {
        return false;
    }
    const struct psi_request *req = request_of(before);
    return req->counter <= put_bytes(req); /* those before that one are out, or it would not have begun */
}

bool psi_queue_lost(const struct psi_ask *ask)
{
    bool ours = is_put(ask) || ask->op == PS_OP_DEQUEUE;
    return ours && !ask->tried && (!ask->req->var->open || ask->req->var->handle != ask->handle);
}

void psi_queue_sent(struct psi_ask *ask)
{
    struct psi_request *req = ask->req;
    if (is_put(ask)) {
        req->offset = ask->body.len;
        req->counter = 1 + ask->body.len;
        ask->peer->putting = ask->peer->putting || req->offset < put_bytes(req);
    } else if (ask->op == PS_OP_PUT_PART) {
        req->counter += ask->body.len;
        if (req->counter > put_bytes(req)) {
            psi_client_kick(ask->peer); /* for who waited for the last of its bytes */
        }
    }
}

static void on_put_part(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r)
{
    (void)c;
    ask->req->flying--;
    if (r->status != PS_OK) {
        refused(ask, r);
        return;
    }
    ask->peer->putting = true;
    psi_client_kick(ask->peer);
}

/* An ask for `bytes` at `offset` of the elements of request number `of`; NULL: no memory. */
static struct psi_ask *part_new(struct psi_peer *peer, struct psi_request *req, uint8_t op, psi_ask_fn fn, uint64_t of,
                                uint64_t offset, uint64_t bytes)
{
    const ps_v1_Part m = {.of = of, .offset = offset, .bytes = (uint32_t)bytes};
    struct psi_ask *part = psi_ask_new(peer, op, req, fn, 0);
    if (part != NULL && psi_ask_meta(part, &ps_v1_Part_msg, &m, NULL) != PS_OK) {
        psi_ask_free(part);
        return NULL;
    }
    if (part != NULL) {
        part->offset = offset;
    }
    return part;
}

/* false: no memory now */
static bool put_parts(struct psi_peer *peer, const struct psi_ask *ask)
{
    struct psi_request *req = ask->req;
    const struct psi_enqueue *e = req->src;
    while (req->offset < e->bytes && req->flying < PSI_PARTS_PER_REQUEST) {
        uint64_t left = e->bytes - req->offset;
        uint64_t bytes = left < PSI_PART_BYTES ? left : PSI_PART_BYTES;
        struct psi_ask *part = part_new(peer, req, PS_OP_PUT_PART, on_put_part, ask->number, req->offset, bytes);
        if (part == NULL) {
            return false;
        }
        if (psi_buf_append(&part->body, (const uint8_t *)e->data + req->offset, (size_t)bytes, NULL) != PS_OK) {
            psi_ask_free(part);
            return false;
        }
        req->offset += bytes;
        req->flying++;
        psi_ask_start(part);
    }
    return true;
}

void psi_queue_put_parts(struct psi_peer *peer)
{
    struct psi_list *it = NULL;
    struct psi_list *tmp = NULL;
    peer->putting = false;
    PSI_LIST_FOREACH_SAFE(it, tmp, &peer->asks) {
        const struct psi_ask *ask = PSI_CONTAINER_OF(it, struct psi_ask, link);
        if (ask->op == PS_OP_ENQUEUE && ask->sent && !put_parts(peer, ask)) {
            peer->putting = true; /* the next event tries again */
        }
    }
}

void psi_queue_disconnected(struct psi_peer *peer)
{
    struct psi_list *it = NULL;
    struct psi_list *tmp = NULL;
    peer->putting = false;
    PSI_LIST_FOREACH_SAFE(it, tmp, &peer->asks) {
        struct psi_ask *ask = PSI_CONTAINER_OF(it, struct psi_ask, link);
        if (is_put(ask)) {
            ask->req->offset = 0;
            ask->req->counter = 0;
            ask->req->flying = 0;
        } else if (ask->op == PS_OP_PUT_PART) {
            psi_ask_free(ask);
        }
    }
}

/* ---- parts out ---- */

static void on_get_part(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r);

/* Asks for what is missing; ends it when nothing is. */
static void get_parts(struct psi_ask *ask)
{
    struct psi_request *req = ask->req;
    struct psi_dequeue *d = req->dst;
    while (req->offset < d->got.bytes && req->flying < PSI_PARTS_PER_REQUEST) {
        uint64_t left = d->got.bytes - req->offset;
        uint64_t bytes = left < PSI_PART_BYTES ? left : PSI_PART_BYTES;
        struct psi_ask *part = part_new(ask->peer, req, PS_OP_GET_PART, on_get_part, ask->number, req->offset, bytes);
        if (part == NULL) {
            const struct psi_reply r = {.status = PS_RESOURCE_EXHAUSTED, .text = "no memory to ask for the rest of the elements"};
            refused(ask, &r);
            return;
        }
        req->offset += bytes;
        req->flying++;
        psi_ask_start(part);
    }
    if (req->offset2 == d->got.bytes) {
        struct psi_err err = {0};
        ps_status st = d->here != NULL ? d->here(d, &err) : PS_OK;
        if (st != PS_OK) {
            const struct psi_reply r = {.status = st, .reason = err.reason, .applied = PS_MAYBE_PARTLY_APPLIED, .text = err.text};
            refused(ask, &r);
            return;
        }
        psi_ask_taken(ask);
        psi_request_end(req, PS_OK, PS_NOTHING_APPLIED, NULL);
    }
}

static void on_get_part(struct psi_client *c, struct psi_ask *part, const struct psi_reply *r)
{
    (void)c;
    struct psi_request *req = part->req;
    struct psi_dequeue *d = req->dst;
    uint64_t bytes = 0, left = d->got.bytes - part->offset;
    uint64_t wanted = left < PSI_PART_BYTES ? left : PSI_PART_BYTES;
    req->flying--;
    if (r->status != PS_OK) {
        refused(part, r);
        return;
    }
    if (r->result_bytes == sizeof(bytes)) {
        memcpy(&bytes, r->result, sizeof(bytes));
    }
    if (bytes != wanted || r->more || r->body_bytes != bytes) {
        not_understood(part, "a part of the elements is not understood");
        return;
    }
    memcpy(d->data + part->offset, r->body, (size_t)bytes);
    req->offset2 += bytes;
    get_parts(req->extra);
}

static void on_take(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r)
{
    (void)c;
    struct psi_request *req = ask->req;
    struct psi_dequeue *d = req->dst;
    struct psi_err err = {0};
    if (r->status != PS_OK) {
        refused(ask, r);
        return;
    }
    if (r->result_bytes == sizeof(d->got)) {
        memcpy(&d->got, r->result, sizeof(d->got));
    }
    bool counted = d->many ? d->got.count <= d->count : d->got.count == 1;
    uint64_t first = r->body_bytes < d->got.bytes ? r->body_bytes : d->got.bytes;
    if (r->result_bytes != sizeof(d->got) || !counted || d->got.bytes % 8 != 0 || (d->got.bytes == 0) != (d->got.count == 0) ||
        r->more || r->body_bytes > d->got.bytes) {
        not_understood(ask, "its answer is not understood");
        return;
    }
    d->data = NULL;
    ps_status st = d->room(d, &d->got, &d->data, &err);
    if (st != PS_OK) {
        const struct psi_reply why = {
            .status = st, .reason = err.reason, .applied = PS_MAYBE_PARTLY_APPLIED, .text = err.text}; /* asked for once */
        refused(ask, &why);
        return;
    }
    if (first > 0) {
        memcpy(d->data, r->body, (size_t)first);
    }
    req->offset = first;
    req->offset2 = first;
    req->extra = ask;
    get_parts(ask);
}

/* ---- one request ---- */

static ps_status build(struct psi_ask *ask, struct psi_err *err)
{
    const struct psi_request *req = ask->req;
    const uint64_t timeout_ms = psi_time_to_give(req->owner, req->deadline_ms);
    ask->handle = req->var->handle;
    if (req->kind == PSI_REQ_ENQUEUE) {
        const struct psi_enqueue *e = req->src;
        const ps_v1_Enqueue m = {.timeout_ms = timeout_ms,
                                 .count = e->count,
                                 .bytes = e->bytes,
                                 .many = e->many,
                                 .fill = e->fill,
                                 .fill_hash = e->fill_hash,
                                 .apply = e->apply,
                                 .local_step = e->local_step};
        uint64_t first = e->bytes < PSI_PART_BYTES ? e->bytes : PSI_PART_BYTES;
        ps_status st = psi_ask_meta(ask, &ps_v1_Enqueue_msg, &m, err);
        return st == PS_OK && first > 0 ? psi_buf_append(&ask->body, e->data, (size_t)first, err) : st;
    }
    if (req->kind == PSI_REQ_DEQUEUE) {
        const struct psi_dequeue *d = req->dst;
        const ps_v1_Dequeue m = {.timeout_ms = timeout_ms, .count = d->count, .many = d->many, .up_to = d->up_to};
        return psi_ask_meta(ask, &ps_v1_Dequeue_msg, &m, err);
    }
    const ps_v1_QueueClose m = {.timeout_ms = timeout_ms, .cancel = req->bytes != 0};
    return psi_ask_meta(ask, &ps_v1_QueueClose_msg, &m, err);
}

void psi_queue_go(struct psi_request *req)
{
    struct psi_var *var = req->var;
    const struct psi_kind *k = psi_kind_of(req);
    struct psi_peer *peer = req->owner->peers[var->owner];
    struct psi_err err = {0};
    if (!var->open) {
        psi_request_end_as(req, PS_ABORTED, PS_REASON_LOST, PS_NOTHING_APPLIED,
                           "%s of '%s' at %s: the queue is gone: it was reset or deleted, or its task restarted without it",
                           k->name, var->name, peer->name);
        return;
    }
    struct psi_ask *ask = psi_ask_new(peer, k->op, req, req->kind == PSI_REQ_DEQUEUE ? on_take : on_put, 0);
    ps_status st = ask != NULL ? build(ask, &err) : psi_fail(&err, PS_RESOURCE_EXHAUSTED, "no memory");
    if (st != PS_OK) {
        psi_ask_free(ask);
        psi_request_end(req, st, PS_NOTHING_APPLIED, "%s of '%s': %s", k->name, var->name, err.text);
        return;
    }
    req->offset = 0;
    req->offset2 = 0;
    req->counter = 0;
    req->flying = 0;
    psi_request_move(req, PSI_STAGE_ASKED);
    if (is_put(ask)) {
        psi_list_push_back(&var->queue->puts, &req->link);
    }
    psi_ask_start(ask);
}

/* ---- OPEN ---- */

ps_status psi_queue_update(const struct psi_peer *peer, struct psi_var *var, const ps_v1_OpenAnswer *a, struct psi_err *err)
{
    struct psi_queue_spec spec;
    if (var->queue == NULL || !a->has_queue) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "it is a %s", a->has_queue ? "queue, not a variable" : "variable, not a queue");
    }
    ps_status st = psi_queue_spec_from_msg(&a->queue, &spec, err);
    if (st == PS_OK && (a->handle == 0 || a->creation == 0)) {
        st = psi_fail(err, PS_INVALID_ARGUMENT, "OPEN's answer has a field out of range");
    }
    if (st == PS_OK && var->open && (a->incarnation != var->incarnation || a->creation != var->creation)) {
        st = psi_fail(err, PS_NOT_FOUND, "it was lost, reset or deleted there and has been made anew");
    }
    if (st == PS_OK && !var->found_only) {
        st = psi_queue_spec_compare(&spec, peer->name, &var->queue->spec, var->name, err);
    }
    if (st != PS_OK) {
        return st;
    }
    if (var->found_only) {
        var->queue->spec = spec;
    }
    var->handle = a->handle;
    var->life = peer->life;
    var->incarnation = a->incarnation;
    var->creation = a->creation;
    var->queue->size = a->size;
    var->queue->closed = a->closed;
    return PS_OK;
}
