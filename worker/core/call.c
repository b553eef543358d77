/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control requests at one task: a list out, answers back, across reconnects.
 *
 * Happy path: a call is built once (its list fits one frame), gets the next request number when it is sent, and its callback runs
 * for each frame of the answer. Waiting requests (CREATE, RESET, DELETE, WAIT, WAIT_CLUSTER, CALL) keep their number when they
 * are sent again, so the task joins them to the one that waits, and are acknowledged; all others are asked again under a new
 * number. Failure: what must not happen twice (RESET, DELETE, SHUTDOWN, CALL) ends as outcome unknown where that could be.
 * Handles are void in a new life: such calls end ABORTED. A call that is dropped leaves nothing behind; its answer, if one comes,
 * is ignored.
 */
#include "client.h"

#include "common/mem.h"

#include <string.h>

struct psi_call *psi_call_new(struct psi_session *s, uint8_t op, struct psi_request *req, psi_call_fn fn, uint32_t item_count)
{
    struct psi_call *call = psi_calloc(1, sizeof(*call));
    if (call == NULL) {
        return NULL;
    }
    psi_list_init(&call->link);
    psi_buf_init(&call->body, PS_CONTROL_BODY_MAX);
    psi_buf_init(&call->answer, (size_t)256 << 20);
    call->s = s;
    call->op = op;
    call->req = req;
    call->fn = fn;
    call->waits = op == PS_OP_CREATE || op == PS_OP_RESET || op == PS_OP_DELETE || op == PS_OP_WAIT || op == PS_OP_WAIT_CLUSTER ||
                  op == PS_OP_CALL;
    call->once = op == PS_OP_RESET || op == PS_OP_DELETE || op == PS_OP_SHUTDOWN || op == PS_OP_CALL;
    call->handles = op == PS_OP_WAIT || op == PS_OP_SEAL;
    if (item_count > 0) {
        call->vars = psi_calloc(item_count, sizeof(*call->vars));
        if (call->vars == NULL) {
            psi_free(call);
            return NULL;
        }
    }
    return call;
}

void psi_call_free(struct psi_call *call)
{
    if (call == NULL) {
        return;
    }
    psi_list_remove(&call->link);
    psi_buf_fini(&call->body);
    psi_buf_fini(&call->answer);
    psi_free(call->vars);
    psi_free(call);
}

ps_status psi_call_meta(struct psi_call *call, const pb_msgdesc_t *d, const void *m, struct psi_err *err)
{
    size_t bytes = 0;
    memset(call->meta, 0, sizeof(call->meta));
    ps_status st = psi_msg_encode(d, m, call->meta, sizeof(call->meta), &bytes, err);
    call->meta_bytes = (uint16_t)psi_pad8((uint32_t)bytes);
    return st;
}

void psi_call_start(struct psi_call *call)
{
    psi_list_push_back(&call->s->calls, &call->link);
    psi_session_want(call->s);
    psi_client_kick(call->s);
}

static void send_call(struct psi_session *s, struct psi_call *call)
{
    if (!call->waits || call->number == 0) {
        call->number = s->next_request++;
    }
    struct ps_frame_header h;
    psi_session_header(s, call->op, call->number, &h);
    h.meta_bytes = call->meta_bytes;
    call->sent = true;
    call->tried = true;
    if (call->once && call->req != NULL) {
        call->req->flags |= PSI_REQUEST_SENT;
    }
    psi_session_send(s, &h, call->meta, call->body.data, (uint32_t)call->body.len);
}

void psi_call_send(struct psi_session *s, bool reopen)
{
    for (int waits = 1; waits >= 0; waits--) { /* waiting requests go before reads */
        struct psi_list *it = NULL;
        PSI_LIST_FOREACH(it, &s->calls) {
            struct psi_call *call = PSI_CONTAINER_OF(it, struct psi_call, link);
            if (!call->sent && call->reopen == reopen && call->waits == (waits != 0) && !s->doomed) {
                send_call(s, call);
            }
        }
    }
}

static void small_frame(struct psi_session *s, uint8_t op, uint64_t id, uint16_t flags)
{
    struct ps_frame_header h;
    psi_session_header(s, op, id, &h);
    h.flags = flags;
    psi_session_send(s, &h, NULL, NULL, 0);
}

void psi_call_beat(struct psi_session *s)
{
    ps_v1_Beat m = {.global_step = s->c->step};
    _Alignas(8) uint8_t meta[16] = {0};
    size_t bytes = 0;
    struct ps_frame_header h;
    ps_status st = psi_msg_encode(&ps_v1_Beat_msg, &m, meta, sizeof(meta), &bytes, NULL);
    PSI_ASSERT(st == PS_OK); /* one number: 11 bytes at most */
    psi_session_header(s, PS_OP_BEAT, s->next_request++, &h);
    h.meta_bytes = (uint16_t)psi_pad8((uint32_t)bytes);
    psi_session_send(s, &h, meta, NULL, 0);
}

void psi_call_abandon(struct psi_session *s, uint64_t number)
{
    small_frame(s, PS_OP_ABANDON, number, PS_FLAG_SEQ);
}

/* The task forgets the request and its result; an ACK that is lost with its connection is said again after it. */
static void acknowledge(struct psi_session *s, const struct psi_call *call)
{
    if (!call->waits || call->number == 0 || !call->tried) {
        return;
    }
    s->acks[s->ack_count++ % PS_WAITS_PER_SESSION_MAX] = call->number;
    if (s->state == PSI_SESSION_UP) {
        small_frame(s, PS_OP_ACK, call->number, 0);
    }
}

void psi_call_acknowledge_again(struct psi_session *s)
{
    uint32_t count = s->ack_count < PS_WAITS_PER_SESSION_MAX ? s->ack_count : PS_WAITS_PER_SESSION_MAX;
    for (uint32_t i = 0; i < count && !s->doomed; i++) {
        small_frame(s, PS_OP_ACK, s->acks[i], 0);
    }
}

/* The end of a call: its owner hears of it last. */
static void end_call(struct psi_call *call, const struct psi_reply *r)
{
    psi_list_remove(&call->link);
    call->fn(call->s->c, call, r);
    psi_call_free(call);
}

static void fail_call(struct psi_call *call, ps_status st, ps_applied applied, const char *text)
{
    struct psi_reply r = {.status = st, .applied = applied, .text = text};
    end_call(call, &r);
}

void psi_call_reply(struct psi_session *s, uint64_t number, uint8_t op, const struct psi_reply *r)
{
    struct psi_call *call = NULL;
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &s->calls) {
        struct psi_call *at = PSI_CONTAINER_OF(it, struct psi_call, link);
        if (at->sent && at->number == number) {
            call = at;
            break;
        }
    }
    if (op == PS_OP_BEAT && (call == NULL || call->op == op)) {
        psi_session_beaten(s, r); /* also of a PING */
    }
    if (call == NULL) {
        if (op != PS_OP_BEAT && number >= s->next_request) {
            psi_session_lost(s, true, "bad bytes from it: a reply to request %llu, which was not sent",
                             (unsigned long long)number);
        }
        return;
    }
    if (call->op != op) {
        psi_session_lost(s, true, "bad bytes from it: a reply to op %u for a request of op %u", op, call->op);
        return;
    }
    if (r->more && r->status == PS_OK) {
        call->fn(s->c, call, r); /* takes this part; ends nothing */
        return;
    }
    acknowledge(s, call);
    end_call(call, r);
}

void psi_call_disconnected(struct psi_session *s)
{
    bool again = true;
    while (again) {
        again = false;
        struct psi_list *it = NULL;
        PSI_LIST_FOREACH(it, &s->calls) {
            struct psi_call *call = PSI_CONTAINER_OF(it, struct psi_call, link);
            bool was_sent = call->sent;
            call->sent = false;
            psi_buf_clear(&call->answer);
            if (call->reopen) {
                psi_call_free(call);
                again = true;
                break;
            }
            if (call->op == PS_OP_GOODBYE || (was_sent && call->once && !call->waits)) {
                fail_call(call, PS_UNAVAILABLE, PS_OUTCOME_UNKNOWN,
                          "the connection was closed before the answer: outcome unknown");
                again = true;
                break;
            }
        }
    }
    s->reopen_calls = 0;
}

void psi_call_settle(struct psi_session *s, bool new_life, bool new_record)
{
    bool again = true;
    while (again) {
        again = false;
        struct psi_list *it = NULL;
        PSI_LIST_FOREACH(it, &s->calls) {
            struct psi_call *call = PSI_CONTAINER_OF(it, struct psi_call, link);
            if (new_life && call->handles) {
                fail_call(call, PS_ABORTED, PS_NOTHING_APPLIED, "the task was restarted");
                again = true;
                break;
            }
            if (new_record && call->once && call->tried) {
                fail_call(call, PS_ABORTED, PS_OUTCOME_UNKNOWN, "the task has lost its record of this session: outcome unknown");
                again = true;
                break;
            }
        }
    }
}

void psi_call_fail_all(struct psi_session *s, ps_status st, const char *text)
{
    struct psi_list *first = NULL;
    while ((first = psi_list_first(&s->calls)) != NULL) {
        struct psi_call *call = PSI_CONTAINER_OF(first, struct psi_call, link);
        fail_call(call, st, call->once && call->tried ? PS_OUTCOME_UNKNOWN : PS_NOTHING_APPLIED, text);
    }
}

void psi_call_drop(struct psi_client *c, const struct psi_request *req)
{
    for (uint32_t i = 0; i < c->session_count; i++) {
        struct psi_session *s = c->sessions[i];
        struct psi_list *it = NULL;
        struct psi_list *tmp = NULL;
        PSI_LIST_FOREACH_SAFE(it, tmp, &s->calls) {
            struct psi_call *call = PSI_CONTAINER_OF(it, struct psi_call, link);
            if (call->req == req) {
                acknowledge(s, call); /* nobody waits for it any more */
                psi_call_free(call);
            }
        }
    }
}
