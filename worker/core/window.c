/* SPDX-License-Identifier: Apache-2.0 */
/* Sequence numbers of one session at one task: the window, replies, deadlines, reconnects.
 *
 * Happy path: a mutation gets the next number when its first byte is queued, its frames are sent (push.c), the reply ends it and
 * frees its entry. A number stays in the window until its final outcome is known, even if no request waits for it any more
 * (abandoned: entry->req == NULL). So the task's record of 256 outcomes covers every number that may still be sent.
 *
 * Failure modes:
 *     load      the task refuses: the request is repeated with a new number, but not if the variable was lost or made anew
 *     deadline  ABANDON is sent; if a frame is half written, the connection is closed, and the next HELLO abandons the number
 *     record    the task runs on, and has lost the session's record: psi_window_settle() ends the number ABORTED, outcome
 *             unknown, if a byte may have been sent; otherwise the mutation is sent
 *     restart   psi_window_lose() ends the numbers of each variable that was open, psi_window_settle() those of variables that
 *             this session had lost before: ABORTED, LOST; outcome unknown if a byte may have been sent, else nothing applied
 * An abandoned number has no request to end, and is freed. A number that was acknowledged is not in the window: if the restarted
 * task loads a checkpoint from before that push, the push is lost, though its request ended with PS_OK. */
#include "client.h"

#include "common/mem.h"
#include "common/optimizer.h"
#include "common/shape.h"

#include <stdio.h>
#include <string.h>

ps_status psi_window_prepare(struct psi_peer *peer)
{
    if (peer->ring == NULL) {
        peer->ring = psi_calloc(PS_WINDOW, sizeof(*peer->ring));
    }
    return peer->ring != NULL ? PS_OK : PS_RESOURCE_EXHAUSTED;
}

bool psi_window_room(const struct psi_peer *peer, bool multi)
{
    bool queue = multi ? peer->multi < PS_MULTIFRAME_PUSHES_MAX && peer->queued_multi < PSI_QUEUED_MULTI_MAX
                       : peer->queued_bytes < PS_VALUES_FRAME_BYTES;
    return queue && peer->next < peer->first + PS_WINDOW;
}

struct psi_entry *psi_window_find(const struct psi_peer *peer, uint64_t number)
{
    if (number < peer->first || number >= peer->next) {
        return NULL;
    }
    struct psi_entry *e = &peer->ring[number % PS_WINDOW];
    return e->number == number ? e : NULL;
}

void psi_window_admit(struct psi_peer *peer, struct psi_request *req)
{
    struct psi_entry *e = &peer->ring[peer->next % PS_WINDOW];
    PSI_ASSERT(e->number == 0 && peer->next < peer->first + PS_WINDOW);
    memset(e, 0, sizeof(*e));
    psi_list_init(&e->out.link);
    e->number = peer->next++;
    e->peer = peer;
    e->req = req;
    e->var = req->var;
    const bool contributes = req->round != 0 && psi_kind_of(req)->go == psi_push_go;
    e->op = !contributes ? psi_kind_of(req)->op : req->kind == PSI_REQ_PUSH ? PS_OP_CONTRIBUTE : PS_OP_CONTRIBUTE_ROWS;
    e->member = peer->c->member.id;
    e->round = req->round;
    e->step = peer->c->step;
    e->total = psi_request_total(req);
    e->wire = psi_request_wire(req);
    e->unit = e->wire != PS_DTYPE_NONE ? psi_request_unit(req) : 1; /* a queue has no values */
    e->multi = psi_request_is_multi(req);
    e->chief_number = req->chief_number;
    e->creation = req->var->creation;
    e->handle = req->var->handle;
    peer->multi += e->multi ? 1 : 0;
    peer->resume_at = peer->next;
    req->number = e->number;
    req->entry = e;
    psi_request_move(req, PSI_STAGE_SENDING);
    req->arrived = 0;
    req->frames = 0;
    psi_push_queue(e);
}

static void entry_free(struct psi_entry *e)
{
    struct psi_peer *peer = e->peer;
    PSI_ASSERT(!e->queued && e->number != 0);
    peer->multi -= e->multi ? 1 : 0;
    if (e->var->partial == e) {
        e->var->partial = NULL;
    }
    e->number = 0;
    e->req = NULL;
    while (peer->first < peer->next && peer->ring[peer->first % PS_WINDOW].number == 0) {
        peer->first++;
    }
    if (peer->resume_at < peer->first) {
        peer->resume_at = peer->first;
    }
    psi_client_kick(peer);
}

/* Call when the outcome is known, and no frame of the entry is in the queue: end the request, repeat it, or read missing values.
 * If the variable was lost, perhaps replaced by another of its name, the request ends in any case. */
static void finish(struct psi_entry *e)
{
    struct psi_request *req = e->req;
    struct psi_var *var = e->var;
    const struct psi_peer *peer = e->peer;
    bool repeat = e->repeat;
    bool gone = !var->open || var->creation != e->creation;
    uint8_t op = e->op;
    entry_free(e);
    req->entry = NULL;
    psi_var_release(req);
    bool values_missing = psi_op_pulls(op) && !repeat && req->status == PS_OK && psi_push_lacks_values(req);
    if (gone && (repeat || values_missing)) {
        char where[PSI_WHERE_MAX];
        psi_request_end_as(req, PS_ABORTED, PS_REASON_LOST, repeat ? PS_NOTHING_APPLIED : PS_MAYBE_PARTLY_APPLIED,
                           "%s of '%s' at %s: the variable was reset, deleted or lost %s", psi_request_name(req), var->name,
                           psi_peer_where(peer, where, sizeof(where)),
                           repeat ? "before it could be repeated" : "before its new values had come; the push was applied");
        return;
    }
    if (repeat) {
        psi_request_delay(req, (uint32_t)req->again_ms);
        return;
    }
    ps_status st = req->status;
    if (st == PS_OK && !gone) {
        var->used = true;
    }
    if (st == PS_OK && psi_op_pulls(op)) {
        psi_push_pulled(req);
    } else {
        psi_request_ended(req);
    }
}

/* True if the rounds had ended when the task got the gradient. This counts as too late, and is no error: STEP reports the end. */
static bool is_of_no_round(const struct psi_entry *e, const struct psi_reply *r)
{
    return psi_op_contributes(e->op) && r->status == PS_FAILED_PRECONDITION && r->reason == PS_REASON_LOST;
}

/* True if a gradient has more rows than the session announced when it became a member. Repeating it cannot help. */
static bool is_of_too_many_rows(const struct psi_entry *e, const struct psi_reply *r)
{
    return psi_op_contributes(e->op) && r->reason == PS_REASON_TOO_LARGE;
}

/* Take the outcome of a mutation whose request still waits, from a reply or from HELLO's answer. */
static void outcome(struct psi_entry *e, const struct psi_reply *r)
{
    struct psi_request *req = e->req;
    struct psi_peer *peer = e->peer;
    struct psi_var *var = e->var;
    if (e->exchange != 0) {
        psi_exchange_end(peer, e->exchange, e->number, r->status);
        req->begun_ns = peer->c->now_ns;
    }
    if (is_of_no_round(e, r)) {
        const uint64_t dropped = 1;
        req->status = PS_OK;
        req->result_bytes = sizeof(dropped);
        memcpy(req->result, &dropped, sizeof(dropped));
    } else if (r->status == PS_OK) {
        req->status = PS_OK;
        req->version = r->version;
        req->result_bytes = r->result_bytes;
        memcpy(req->result, r->result, r->result_bytes);
    } else if (psi_reply_repeatable(r) && !is_of_too_many_rows(e, r)) {
        e->repeat = true;
        psi_request_refused(req, r->status, r->reason, r->text);
        req->again_ms = r->retry_after_ms; /* a duration in ms, which psi_request_delay() turns into a time */
    } else {
        char where[PSI_WHERE_MAX];
        req->status = r->status;
        req->applied = r->applied;
        req->err = psi_client_err(peer->c, r->status, r->reason, r->applied, "%s of '%s' at %s: %s", psi_request_name(req),
                                  var->name, psi_peer_where(peer, where, sizeof(where)), r->text);
    }
    bool gone = r->status == PS_ABORTED && r->reason != PS_REASON_NEWER_CHIEF && e->op != PS_OP_INIT &&
                (var->queue == NULL || r->reason == PS_REASON_LOST) && peer->state == PSI_PEER_UP;
    if (e->queued && psi_outq_cancel(&peer->link->out, &e->out)) {
        psi_entry_in_queue(e, false);
    }
    if (e->queued) {
        /* the rest of a half sent frame is in the caller's memory: the request ends when the whole frame is sent */
        e->ending = true;
    } else {
        finish(e);
    }
    if (gone) {
        psi_var_lost(peer->c, var, r->text);
    }
}

void psi_window_reply(struct psi_peer *peer, uint64_t number, uint8_t op, const struct psi_reply *r)
{
    if (number == 0 || number >= peer->next) {
        psi_peer_fail(peer, "bad bytes from it: a reply to number %llu, which was not sent", (unsigned long long)number);
        return;
    }
    struct psi_entry *e = psi_window_find(peer, number);
    if (e == NULL || e->ending) {
        return; /* the outcome is known: a reply and the answer to ABANDON have crossed, and this is the later one */
    }
    if (op == PS_OP_ABANDON) {
        if (e->req == NULL) {
            entry_free(e);
        }
        return;
    }
    /* the task may answer before all frames are sent: with a failure (a reset), or because the round has ended */
    bool early = e->unsent || e->next < e->total;
    if (op != e->op || (r->status == PS_OK && early && !psi_sync_was_dropped(op, r))) {
        psi_peer_fail(peer, "bad bytes from it: a reply to op %u does not fit number %llu", op, (unsigned long long)number);
        return;
    }
    if (e->req == NULL) {
        entry_free(e); /* abandoned: no request waits */
        return;
    }
    outcome(e, r);
}

/* True if the task changes the variable only when it has the mutation's last byte. */
static bool staged(const struct psi_entry *e)
{
    return e->var->atomic || e->op == PS_OP_ASSIGN || psi_op_contributes(e->op) ||
           (psi_op_is_rows(e->op) && psi_var_is_one_segment(e->var)) ||
           ((e->op == PS_OP_PUSH || e->op == PS_OP_PUSHPULL) && psi_optimizer_is_staged(e->var->optimizer.kind));
}

/* How much of a partly sent mutation is applied. The task applies a staged mutation at its last byte, which it will not get. */
static ps_applied partly(const struct psi_entry *e)
{
    return staged(e) ? PS_NOTHING_APPLIED : PS_MAYBE_PARTLY_APPLIED;
}

void psi_window_expire(struct psi_request *req)
{
    struct psi_entry *e = req->entry;
    struct psi_peer *peer = e->peer;
    struct psi_var *var = e->var;
    char where[PSI_WHERE_MAX];
    psi_peer_where(peer, where, sizeof(where));
    if (e->ending) {
        psi_peer_fail(peer, "a frame could not be written until the deadline of its request");
        req->flags |= PSI_REQUEST_OVER; /* the request ends, or is repeated, when the connection is closed */
        peer->c->overdue = true;
        return;
    }
    if (e->queued && psi_outq_cancel(&peer->link->out, &e->out)) {
        psi_entry_in_queue(e, false);
        e->next = e->frame_first;
    }
    bool half = e->queued;
    bool never = !e->begun && !half;
    bool part = (e->op == PS_OP_PUSH || e->op == PS_OP_PUSHPULL || e->op == PS_OP_CONTRIBUTE || e->op == PS_OP_ADD ||
                 psi_op_is_rows(e->op)) &&
                (half || e->next < e->total);
    ps_applied applied = never ? PS_NOTHING_APPLIED : part ? partly(e) : PS_OUTCOME_UNKNOWN;
    uint64_t number = e->number;
    if (var->partial == e) {
        var->partial = NULL;
    }
    e->req = NULL;
    e->unsent = false;
    req->entry = NULL;
    psi_var_release(req);
    bool up = peer->state == PSI_PEER_UP;
    unsigned long long waited = peer->c->now_ms - req->started_ms;
    psi_request_end_as(req, up ? PS_DEADLINE_EXCEEDED : PS_UNAVAILABLE, up ? PS_REASON_NONE : PS_REASON_NOT_CONNECTED, applied,
                       "%s of '%s' at %s: no answer within %llu ms%s%s; %s", psi_request_name(req), var->name, where, waited,
                       peer->last_error[0] != '\0' ? ": " : "", peer->last_error, psi_applied_name(applied));
    if (never) {
        entry_free(e);
    } else if (half) {
        psi_peer_fail(peer, "number %llu was abandoned in the middle of a frame", (unsigned long long)number);
    } else if (up) {
        psi_ask_abandon(peer, number);
    }
}

void psi_entry_in_queue(struct psi_entry *e, bool in)
{
    struct psi_peer *peer = e->peer;
    PSI_ASSERT(e->queued != in);
    e->queued = in;
    if (e->multi) {
        peer->queued_multi += in ? 1 : -1U;
    } else {
        peer->queued_bytes += in ? e->out.payload_bytes : -e->out.payload_bytes;
    }
    if (!in) {
        psi_client_kick(peer); /* the send queue has room for another mutation */
    }
}

void psi_entry_unqueued(struct psi_entry *e)
{
    psi_entry_in_queue(e, false);
    if (e->ending) {
        finish(e);
    } else if (e->req != NULL && e->next < e->total) {
        psi_push_queue(e);
    }
}

void psi_window_detach(struct psi_peer *peer)
{
    for (uint64_t n = peer->first; n < peer->next; n++) {
        struct psi_entry *e = psi_window_find(peer, n);
        if (e == NULL) {
            continue;
        }
        if (e->queued) {
            psi_list_remove(&e->out.link);
            psi_entry_in_queue(e, false);
        }
        e->unsent = false;
        if (e->var->partial == e) {
            e->var->partial = NULL;
        }
        if (e->ending) {
            finish(e);
        } else if (e->req != NULL && e->req->stage == PSI_STAGE_SENDING) {
            /* after the reconnect the mutation is sent again before waiting requests, unless it has an outcome then */
            psi_var_yield(e->req, PSI_STAGE_WINDOW);
        }
    }
}

static void end_unknown(struct psi_entry *e, const char *why)
{
    struct psi_reply r = {.status = PS_ABORTED, .applied = PS_OUTCOME_UNKNOWN, .text = why};
    outcome(e, &r);
}

static void end_unapplied(struct psi_entry *e)
{
    struct psi_reply r = {
        .status = PS_ABORTED, .applied = PS_NOTHING_APPLIED, .text = "it was interrupted and ended there: nothing was applied"};
    outcome(e, &r);
}

/* True if the mutation's variable is still there: open in the task's present process, with the mutation's creation number. */
static bool fits(const struct psi_entry *e)
{
    return e->var->open && e->var->creation == e->creation && e->var->life == e->peer->life;
}

static void end_gone(struct psi_entry *e, ps_applied applied)
{
    struct psi_reply r = {
        .status = PS_ABORTED, .reason = PS_REASON_LOST, .applied = applied, .text = "the variable was reset, deleted or lost"};
    outcome(e, &r);
}

static ps_status settle_one(struct psi_peer *peer, struct psi_entry *e, const ps_v1_NumberItem *m, struct psi_err *err)
{
    struct psi_reply r = {.text = peer->reply_text};
    uint64_t per_segment = PS_SEGMENT_BYTES / e->unit;
    switch (m->state) {
    case PS_NUMBER_APPLIED:
    case PS_NUMBER_REFUSED:
        if (m->status > PS_UNAUTHENTICATED || m->applied > PS_OUTCOME_UNKNOWN ||
            (m->state == PS_NUMBER_REFUSED) != (m->status != PS_OK)) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "HELLO's answer: outcome of number %llu", (unsigned long long)e->number);
        }
        if (e->req == NULL) {
            entry_free(e);
            return PS_OK;
        }
        r.status = (ps_status)m->status;
        r.applied = (ps_applied)m->applied;
        r.reason = (ps_reason)m->reason;
        r.version = m->version;
        r.position = m->position;
        r.result_bytes = m->result.size;
        memcpy(r.result, m->result.bytes, m->result.size);
        if (psi_bytes_text((const pb_bytes_array_t *)(const void *)&m->text, peer->reply_text, sizeof(peer->reply_text)) !=
            PS_OK) {
            peer->reply_text[0] = '\0';
        }
        outcome(e, &r);
        return PS_OK;
    case PS_NUMBER_IN_PROGRESS:
        if (m->offset % per_segment != 0 || (m->offset != 0 && m->offset >= e->total)) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "HELLO's answer: offset of number %llu", (unsigned long long)e->number);
        }
        if (e->req == NULL) {
            psi_ask_abandon(peer, e->number);
            return PS_OK;
        }
        if (!fits(e)) {
            /* end_gone() gives the outcome, so the answer to ABANDON is ignored */
            psi_ask_abandon(peer, e->number);
            end_gone(e, PS_OUTCOME_UNKNOWN);
            return PS_OK;
        }
        e->handle = e->var->handle;
        e->next = m->offset;
        e->begun = true;
        e->unsent = true;
        return PS_OK;
    case PS_NUMBER_NOT_RECEIVED:
        if (e->req == NULL) {
            entry_free(e);
            return PS_OK;
        }
        e->next = 0;
        e->begun = false;
        if (!fits(e)) {
            end_gone(e, PS_NOTHING_APPLIED);
            return PS_OK;
        }
        e->handle = e->var->handle;
        e->unsent = true;
        return PS_OK;
    case PS_NUMBER_ABANDONED:
    case PS_NUMBER_UNKNOWN:
        if (e->req == NULL) {
            entry_free(e);
        } else if (m->state == PS_NUMBER_UNKNOWN && !e->begun && fits(e)) {
            e->next = 0; /* no byte was sent, so the task cannot have applied the mutation: send all of it */
            e->handle = e->var->handle;
            e->unsent = true;
        } else if (m->state == PS_NUMBER_UNKNOWN && !fits(e)) {
            end_gone(e, e->begun ? PS_OUTCOME_UNKNOWN : PS_NOTHING_APPLIED);
        } else if (m->state == PS_NUMBER_ABANDONED && !fits(e)) {
            end_gone(e, m->applied == PS_NOTHING_APPLIED && staged(e) ? PS_NOTHING_APPLIED : PS_OUTCOME_UNKNOWN);
        } else if (m->state == PS_NUMBER_ABANDONED && m->applied == PS_NOTHING_APPLIED && staged(e)) {
            end_unapplied(e);
        } else {
            end_unknown(e, m->state == PS_NUMBER_UNKNOWN ? "the task has lost its record of this session: outcome unknown"
                                                         : "it was interrupted and ended there: outcome unknown");
        }
        return PS_OK;
    default:
        return psi_fail(err, PS_INVALID_ARGUMENT, "HELLO's answer: state of number %llu", (unsigned long long)e->number);
    }
}

bool psi_window_settle(struct psi_peer *peer, const uint8_t *p, size_t n, uint32_t count, struct psi_err *err)
{
    uint64_t last = 0;
    uint64_t covered = peer->first; /* numbers below were in the list, or had their outcome before this HELLO */
    for (uint32_t i = 0; i < count; i++) {
        ps_v1_NumberItem m = ps_v1_NumberItem_init_zero;
        bool end = false;
        if (psi_list_next(&p, &n, &ps_v1_NumberItem_msg, &m, &end, err) != PS_OK) {
            return false;
        }
        if (end || m.number <= last || m.number >= peer->next) {
            PSI_IGNORE(psi_fail(err, PS_INVALID_ARGUMENT, "HELLO's answer: bad list of numbers")); /* false tells the caller */
            return false;
        }
        last = m.number;
        for (; covered < m.number; covered++) {
            if (psi_window_find(peer, covered) != NULL) {
                PSI_IGNORE(psi_fail(err, PS_INVALID_ARGUMENT, "HELLO's answer: a number is missing"));
                return false;
            }
        }
        covered = m.number + 1;
        struct psi_entry *e = psi_window_find(peer, m.number);
        if (e != NULL && settle_one(peer, e, &m, err) != PS_OK) {
            return false;
        }
    }
    for (; covered < peer->next; covered++) {
        if (psi_window_find(peer, covered) != NULL) {
            PSI_IGNORE(psi_fail(err, PS_INVALID_ARGUMENT, "HELLO's answer: a number is missing"));
            return false;
        }
    }
    peer->resume_at = peer->first;
    return true;
}

bool psi_window_resume(struct psi_peer *peer)
{
    while (peer->resume_at < peer->next && !peer->doomed) {
        struct psi_entry *e = psi_window_find(peer, peer->resume_at);
        if (e != NULL && e->unsent) {
            if (e->var->partial != NULL && e->var->partial != e) {
                return false; /* an earlier mutation of the same variable is being sent */
            }
            e->unsent = false;
            psi_push_queue(e);
        }
        peer->resume_at++;
    }
    return peer->resume_at == peer->next;
}

void psi_window_lose(struct psi_peer *peer, struct psi_var *var, ps_reason reason, const char *why)
{
    PSI_ASSERT(peer->state != PSI_PEER_UP);
    for (uint64_t n = peer->first; n < peer->next; n++) {
        struct psi_entry *e = psi_window_find(peer, n);
        if (e == NULL || e->var != var) {
            continue;
        }
        struct psi_request *req = e->req;
        if (req == NULL) {
            entry_free(e);
            continue;
        }
        char where[PSI_WHERE_MAX];
        ps_applied applied = e->begun ? PS_OUTCOME_UNKNOWN : PS_NOTHING_APPLIED;
        e->req = NULL;
        entry_free(e);
        req->entry = NULL;
        psi_var_release(req);
        psi_request_end_as(req, PS_ABORTED, reason, applied, "%s of '%s' at %s: %s; %s", psi_request_name(req), var->name,
                           psi_peer_where(peer, where, sizeof(where)), why, psi_applied_name(applied));
    }
}
