/* SPDX-License-Identifier: Apache-2.0 */
/* Queues: ENQUEUE, DEQUEUE and QUEUE_CLOSE at the task that has the queue (docs/PROTOCOL.md, "Queues"). Happy path: ENQUEUEs and
 * QUEUE_CLOSEs of one queue are sent whole, in frames and parts (parts.c), one after the other in call order. A DEQUEUE's answer
 * has the first bytes of the elements, parts have the rest; when all bytes are in the caller's memory, the ACK makes the program
 * the owner of the elements. Failure: after a reconnect all requests keep their numbers. A DEQUEUE that ends before all bytes
 * have come is given up (ACK with offset 1): its elements go back into the queue. A refused part ends its request. */
#include "client.h"

#include "common/limits.h"

#include <string.h>

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
    bool sums = psi_queue_accumulates(var->queue->spec.kind);
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

static void ended(struct psi_request *req)
{
    if (req->flying > 0) {
        /* after a reconnect some parts were sent again that the task had already: their answers are not needed */
        psi_ask_drop(req->owner, req);
    }
    req->flying = 0;
    psi_request_end(req, PS_OK, PS_NOTHING_APPLIED, NULL);
}

static void on_put(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r)
{
    (void)c;
    struct psi_request *req = ask->req;
    if (r->status != PS_OK) {
        psi_parts_refused(ask, r);
        return;
    }
    req->result_bytes = r->result_bytes;
    memcpy(req->result, r->result, r->result_bytes);
    ended(req);
}

static void on_take(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r)
{
    (void)c;
    struct psi_request *req = ask->req;
    struct psi_dequeue *d = req->dst;
    struct psi_err err = {0};
    if (r->status != PS_OK) {
        psi_parts_refused(ask, r);
        return;
    }
    if (r->result_bytes == sizeof(d->got)) {
        memcpy(&d->got, r->result, sizeof(d->got));
    }
    bool counted = d->many ? d->got.count <= d->count : d->got.count == 1;
    uint64_t first = r->body_bytes < d->got.bytes ? r->body_bytes : d->got.bytes;
    if (r->result_bytes != sizeof(d->got) || !counted || d->got.bytes % 8 != 0 || (d->got.bytes == 0) != (d->got.count == 0) ||
        r->more || r->body_bytes > d->got.bytes) {
        psi_parts_not_understood(ask, "its answer is not understood");
        return;
    }
    d->data = NULL;
    ps_status st = d->room(d, &d->got, &d->data, &err);
    if (st != PS_OK) {
        /* room() has failed, mostly for lack of memory: the request ends, and the task puts the elements back into the queue */
        const struct psi_reply why = {.status = st, .reason = err.reason, .applied = PS_MAYBE_PARTLY_APPLIED, .text = err.text};
        psi_parts_refused(ask, &why);
        return;
    }
    if (first > 0) {
        memcpy(d->data, r->body, (size_t)first);
    }
    psi_parts_get(ask, first);
}

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
        return psi_ask_meta(ask, &ps_v1_Enqueue_msg, &m, err);
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
        psi_request_end_as(
            req, PS_ABORTED, PS_REASON_LOST, PS_NOTHING_APPLIED,
            "%s of '%s' at %s: the queue is gone for this session: it was reset or deleted, or its task was restarted", k->name,
            var->name, peer->name);
        return;
    }
    struct psi_ask *ask = psi_ask_new(peer, k->op, req, req->kind == PSI_REQ_DEQUEUE ? on_take : on_put, 0);
    ps_status st = ask != NULL ? build(ask, &err) : psi_fail(&err, PS_RESOURCE_EXHAUSTED, "no memory");
    if (st != PS_OK) {
        psi_ask_free(ask);
        psi_request_end(req, st, PS_NOTHING_APPLIED, "%s of '%s': %s", k->name, var->name, err.text);
        return;
    }
    psi_parts_begin(ask);
    psi_request_move(req, PSI_STAGE_ASKED);
    if (req->kind != PSI_REQ_DEQUEUE) {
        psi_list_push_back(&var->queue->puts, &req->link);
    }
    psi_ask_start(ask);
}

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
        st = psi_fail(err, PS_NOT_FOUND, "another queue of that name is there now, made anew or loaded from a checkpoint");
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
