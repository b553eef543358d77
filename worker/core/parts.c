/* SPDX-License-Identifier: Apache-2.0 */
/* Requests whose bytes take more than one frame: input of ENQUEUE and CALL, and output of DEQUEUE and CALL (docs/PROTOCOL.md,
 * "Queues" and CALL). Input may lie in several pieces (struct psi_lent); a part lies in one piece. Happy path: the request's own
 * frame has the first part of the input; PUT_PARTs have the rest, a few on their way at a time. The answer has the first bytes of
 * the output; GET_PARTs fetch the rest. When all output is in the caller's memory the request ends and is acknowledged. Failure:
 * after a reconnect the request keeps its number. Without an answer the input is sent again from its first byte, because the task
 * drops incomplete input; of output only missing parts are requested again. A refused part ends its request.
 *
 * Fields of struct psi_request, as this file uses them:
 *     offset   bytes for which a part was made
 *     queued   1 + bytes of input in the send queue; 0: no frame of the request is queued
 *     arrived  bytes of output that have come
 *     flying   number of parts without an answer
 *     ask      the ask of a request whose output is being fetched */
#include "client.h"

#include "common/limits.h"

#include <string.h>

_Static_assert(PSI_PART_BYTES + PSI_PART_BYTES / PS_SEGMENT_BYTES * 8 <= PS_CONTROL_BODY_MAX, "a part fits a control frame");
_Static_assert(PSI_PART_BYTES % 8 == 0, "only the last part is padded");

/* Input and output of a request in the caller's memory. */
struct carried {
    const uint8_t *in;
    uint64_t in_bytes; /* length of the input, including the bytes in `lents` */
    const struct psi_lent *lents;
    uint32_t lent_count;
    uint8_t *out;
    uint64_t out_bytes; /* size of the output, known after the first frame of the answer */
};

static struct carried carried_by(const struct psi_request *req)
{
    if (req->kind == PSI_REQ_ENQUEUE) {
        const struct psi_enqueue *e = req->src;
        return (struct carried){.in = e->data, .in_bytes = e->bytes};
    }
    if (req->kind == PSI_REQ_DEQUEUE) {
        const struct psi_dequeue *d = req->dst;
        return (struct carried){.out = d->data, .out_bytes = d->got.bytes};
    }
    if (req->kind == PSI_REQ_CALL) {
        const struct psi_call_io *io = req->dst;
        return (struct carried){.in = io->in,
                                .in_bytes = io->in_bytes,
                                .lents = io->lents,
                                .lent_count = io->lent_count,
                                .out = io->out,
                                .out_bytes = io->out_bytes};
    }
    return (struct carried){0};
}

static void part_of(const struct carried *of, uint64_t offset, const uint8_t **out_part, size_t *out_bytes)
{
    *out_part = psi_lent_find(of->in, of->lents, of->lent_count, (size_t)offset, (size_t)of->in_bytes, out_bytes);
    *out_bytes = *out_bytes < PSI_PART_BYTES ? *out_bytes : PSI_PART_BYTES;
}

/* True for ENQUEUE and QUEUE_CLOSE, which reach a queue in call order: one sends all its bytes before the next begins. */
static bool is_put(const struct psi_ask *ask)
{
    return ask->op == PS_OP_ENQUEUE || ask->op == PS_OP_QUEUE_CLOSE;
}

static bool brings(const struct psi_ask *ask)
{
    return is_put(ask) || (ask->op == PS_OP_CALL && !ask->parts);
}

uint64_t psi_parts_in_bytes(const struct psi_request *req)
{
    return carried_by(req).in_bytes;
}

void psi_parts_begin(struct psi_ask *ask)
{
    struct psi_request *req = ask->req;
    const struct carried of = carried_by(req);
    req->offset = 0;
    req->arrived = 0;
    req->queued = 0;
    req->flying = 0;
    part_of(&of, 0, &ask->lent, &ask->lent_bytes);
}

bool psi_parts_blocked(const struct psi_ask *ask)
{
    if (!is_put(ask)) {
        return false;
    }
    struct psi_list *before = ask->req->link.prev;
    if (before == &ask->req->var->queue->puts) {
        return false;
    }
    const struct psi_request *req = PSI_CONTAINER_OF(before, struct psi_request, link);
    return req->queued <= psi_parts_in_bytes(req); /* if `before` has sent all its bytes, all puts before it have sent theirs */
}

bool psi_parts_lost(const struct psi_ask *ask)
{
    bool ours = is_put(ask) || ask->op == PS_OP_DEQUEUE;
    return ours && !ask->tried && (!ask->req->var->open || ask->req->var->handle != ask->handle);
}

void psi_parts_refused(struct psi_ask *ask, const struct psi_reply *r)
{
    struct psi_client *c = ask->peer->c;
    struct psi_request *req = ask->req;
    struct psi_var *var = req->var;
    struct psi_ask about = {.peer = ask->peer, .req = req}; /* for psi_control_refused(), because psi_ask_drop() may free ask */
    bool gone = var != NULL && r->status == PS_ABORTED && r->reason == PS_REASON_LOST && ask->peer->state == PSI_PEER_UP;
    struct psi_err text = {0};
    (void)psi_fail(&text, r->status, "%s", r->text); /* copied, because r->text may lie in an ask that is dropped */
    struct psi_reply end = *r;
    end.text = text.text;
    req->result_bytes = r->result_bytes;
    memcpy(req->result, r->result, r->result_bytes);
    req->flying = 0;
    psi_ask_drop(c, req);
    psi_client_kick(about.peer); /* requests may have waited until all bytes of req were sent */
    psi_control_refused(&about, &end);
    if (gone) {
        psi_var_lost(c, var, text.text);
    }
}

void psi_parts_not_understood(struct psi_ask *ask, const char *what)
{
    const struct psi_reply r = {.status = PS_INTERNAL, .applied = PS_MAYBE_PARTLY_APPLIED, .text = what};
    psi_parts_refused(ask, &r);
}

/* Drop the PUT_PARTs of an ask that is answered, so that they are not sent again after a reconnect: the task has the input. */
static void drop_brought(struct psi_ask *of)
{
    struct psi_list *it = NULL;
    struct psi_list *tmp = NULL;
    PSI_LIST_FOREACH_SAFE(it, tmp, &of->peer->asks) {
        struct psi_ask *ask = PSI_CONTAINER_OF(it, struct psi_ask, link);
        if (ask->op == PS_OP_PUT_PART && ask->req == of->req) {
            psi_ask_free(ask);
        }
    }
    of->req->flying = 0;
}

void psi_parts_sent(struct psi_ask *ask)
{
    struct psi_request *req = ask->req;
    if (brings(ask)) {
        req->offset = psi_ask_body_bytes(ask);
        req->queued = 1 + psi_ask_body_bytes(ask);
        ask->peer->putting = ask->peer->putting || req->offset < psi_parts_in_bytes(req);
    } else if (ask->op == PS_OP_PUT_PART) {
        req->queued += psi_ask_body_bytes(ask);
        if (req->queued > psi_parts_in_bytes(req)) {
            psi_client_kick(ask->peer); /* the next request of the queue may have waited for req's last byte */
        }
    }
}

static void on_put_part(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r)
{
    (void)c;
    ask->req->flying--;
    if (r->status != PS_OK) {
        psi_parts_refused(ask, r);
        return;
    }
    ask->peer->putting = true;
    psi_client_kick(ask->peer);
}

/* Make an ask PUT_PART or GET_PART for `bytes` bytes at `offset` of the input or output of req. of: request number of the ask to
 * which the part belongs. The caller starts the new ask. NULL: no memory. */
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

/* Send further input of the request in PUT_PARTs, until PSI_PARTS_PER_REQUEST are not answered. False: no memory now. */
static bool put_parts(struct psi_peer *peer, const struct psi_ask *ask)
{
    struct psi_request *req = ask->req;
    const struct carried of = carried_by(req);
    while (req->offset < of.in_bytes && req->flying < PSI_PARTS_PER_REQUEST) {
        const uint8_t *lent = NULL;
        size_t bytes = 0;
        part_of(&of, req->offset, &lent, &bytes);
        struct psi_ask *part = part_new(peer, req, PS_OP_PUT_PART, on_put_part, ask->number, req->offset, bytes);
        if (part == NULL) {
            return false;
        }
        part->lent = lent;
        part->lent_bytes = bytes;
        req->offset += bytes;
        req->flying++;
        psi_ask_start(part);
    }
    return true;
}

void psi_parts_put(struct psi_peer *peer)
{
    struct psi_list *it = NULL;
    struct psi_list *tmp = NULL;
    peer->putting = false;
    PSI_LIST_FOREACH_SAFE(it, tmp, &peer->asks) {
        const struct psi_ask *ask = PSI_CONTAINER_OF(it, struct psi_ask, link);
        if (brings(ask) && ask->sent && !put_parts(peer, ask)) {
            peer->putting = true; /* the next event tries again */
        }
    }
}

void psi_parts_disconnected(struct psi_peer *peer)
{
    struct psi_list *it = NULL;
    struct psi_list *tmp = NULL;
    peer->putting = false;
    PSI_LIST_FOREACH_SAFE(it, tmp, &peer->asks) {
        struct psi_ask *ask = PSI_CONTAINER_OF(it, struct psi_ask, link);
        if (brings(ask)) {
            ask->req->offset = 0;
            ask->req->queued = 0;
            ask->req->flying = 0;
        } else if (ask->op == PS_OP_PUT_PART) {
            psi_ask_free(ask);
        }
    }
}

static ps_status all_here(struct psi_request *req, struct psi_err *err)
{
    struct psi_dequeue *d = req->kind == PSI_REQ_DEQUEUE ? req->dst : NULL;
    return d != NULL && d->here != NULL ? d->here(d, err) : PS_OK;
}

static void on_get_part(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r);

/* Request missing parts of the output (GET_PART), or, if none is missing, end the request. */
static void get_parts(struct psi_ask *ask)
{
    struct psi_request *req = ask->req;
    const struct carried of = carried_by(req);
    while (req->offset < of.out_bytes && req->flying < PSI_PARTS_PER_REQUEST) {
        uint64_t left = of.out_bytes - req->offset;
        uint64_t bytes = left < PSI_PART_BYTES ? left : PSI_PART_BYTES;
        struct psi_ask *part = part_new(ask->peer, req, PS_OP_GET_PART, on_get_part, ask->number, req->offset, bytes);
        if (part == NULL) {
            const struct psi_reply r = {.status = PS_RESOURCE_EXHAUSTED,
                                        .applied = req->kind == PSI_REQ_CALL ? PS_MAYBE_PARTLY_APPLIED : PS_NOTHING_APPLIED,
                                        .text = "no memory to ask for the rest of the answer"};
            psi_parts_refused(ask, &r);
            return;
        }
        req->offset += bytes;
        req->flying++;
        psi_ask_start(part);
    }
    if (req->arrived == of.out_bytes) {
        struct psi_err err = {0};
        ps_status st = all_here(req, &err);
        if (st != PS_OK) {
            const struct psi_reply r = {.status = st, .reason = err.reason, .applied = PS_MAYBE_PARTLY_APPLIED, .text = err.text};
            psi_parts_refused(ask, &r);
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
    const struct carried of = carried_by(req);
    uint64_t bytes = 0, left = of.out_bytes - part->offset;
    uint64_t wanted = left < PSI_PART_BYTES ? left : PSI_PART_BYTES;
    req->flying--;
    if (r->status != PS_OK) {
        psi_parts_refused(part, r);
        return;
    }
    if (!psi_control_body(r, &bytes) || bytes != wanted) {
        psi_parts_not_understood(part, "a part of its answer is not understood");
        return;
    }
    memcpy(of.out + part->offset, r->body, (size_t)bytes);
    req->arrived += bytes;
    get_parts(req->ask);
}

void psi_parts_get(struct psi_ask *ask, uint64_t here)
{
    struct psi_request *req = ask->req;
    drop_brought(ask);
    req->offset = here;
    req->arrived = here;
    req->ask = ask;
    get_parts(ask);
}
