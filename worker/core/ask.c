/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control requests ("asks") to one task, as opposed to pushes and reads of values. They are sent again after a reconnect.
 *
 * Happy path: an ask is built once, gets the next request number when it is sent, and its callback runs for each frame of the
 * answer. After psi_ask_drop() an answer that still comes is ignored.
 *
 * After a reconnect:
 *     waiting requests  are sent again with their number, by which the task finds the request that waits there already; an ACK
 *                       says that the answer has come. These are CREATE, RESET, DELETE, WAIT, WAIT_CLUSTER, BARRIER, CALL, SYNC,
 *                       JOIN, STEP, requests of queues, and requests that make, delete or restore checkpoints
 *     other requests    are sent again under a new number
 *
 * Failure modes:
 *     outcome unknown   the task may have carried the request out, and does not know the session any more. For requests that must
 *                       not be carried out twice: RESET, DELETE, BARRIER, SHUTDOWN (also when the connection ends), CALL,
 *                       requests of queues, and requests for checkpoints (a restarted directory gives their numbers to others)
 *     ABORTED           for asks that name handles, which a restarted task does not know
 */
#include "client.h"

#include "common/mem.h"

#include <string.h>

/* Properties of the asks of each operation (enum ps_op); struct psi_ask explains them. Operations without a row have none. */
static const struct op_row {
    bool waits, once, handles, takes, fetches;
} OPS[256] = {
    [PS_OP_CREATE] = {.waits = true},
    [PS_OP_RESET] = {.waits = true, .once = true},
    [PS_OP_DELETE] = {.waits = true, .once = true},
    [PS_OP_WAIT] = {.waits = true, .handles = true},
    [PS_OP_WAIT_CLUSTER] = {.waits = true},
    [PS_OP_BARRIER] = {.waits = true, .once = true},
    [PS_OP_CALL] = {.waits = true, .once = true, .fetches = true},
    [PS_OP_ENQUEUE] = {.waits = true, .once = true, .handles = true},
    [PS_OP_DEQUEUE] = {.waits = true, .once = true, .handles = true, .takes = true, .fetches = true},
    [PS_OP_QUEUE_CLOSE] = {.waits = true, .once = true, .handles = true},
    [PS_OP_SYNC] = {.waits = true},
    [PS_OP_JOIN] = {.waits = true},
    [PS_OP_STEP] = {.waits = true},
    [PS_OP_CHECKPOINT] = {.waits = true, .once = true},
    [PS_OP_CHECKPOINT_DELETE] = {.waits = true, .once = true},
    [PS_OP_CHECKPOINT_RESTORE] = {.waits = true, .once = true},
    [PS_OP_SHUTDOWN] = {.once = true},
    [PS_OP_SEAL] = {.handles = true},
};

enum {
    LENT_BYTES_MIN = 16 << 10, /* shorter bodies are copied with their frame; longer ones are sent from the caller's memory */
    LENT_META_MAX = PSI_OUT_HEAD_MAX - PS_FRAME_HEADER_BYTES
};
enum { SPARE_MAX = 64, SPARE_BYTES_MAX = 16 << 10 };

/* Take a free ask, or make one: zeroed, but its body may still have the memory of an earlier use. NULL: no memory. */
static struct psi_ask *take_spare(struct psi_client *c)
{
    struct psi_list *link = psi_list_pop_front(&c->spare_asks);
    if (link == NULL) {
        struct psi_ask *ask = psi_calloc(1, sizeof(*ask));
        if (ask != NULL) {
            psi_buf_init(&ask->body, PS_CONTROL_BODY_MAX);
        }
        return ask;
    }
    struct psi_ask *ask = PSI_CONTAINER_OF(link, struct psi_ask, link);
    struct psi_buf body = ask->body;
    c->spare_ask_count--;
    memset(ask, 0, sizeof(*ask));
    ask->body = body;
    ask->body.max = PS_CONTROL_BODY_MAX; /* an earlier user of this ask, a SYNC, may have raised the limit */
    return ask;
}

struct psi_ask *psi_ask_new(struct psi_peer *peer, uint8_t op, struct psi_request *req, psi_ask_fn fn, uint32_t item_count)
{
    struct psi_ask *ask = take_spare(peer->c);
    if (ask == NULL) {
        return NULL;
    }
    psi_list_init(&ask->link);
    psi_list_init(&ask->out.link);
    psi_buf_init(&ask->answer, (size_t)256 << 20);
    ask->peer = peer;
    ask->op = op;
    ask->req = req;
    ask->fn = fn;
    ask->waits = OPS[op].waits;
    ask->once = OPS[op].once;
    ask->handles = OPS[op].handles;
    ask->takes = OPS[op].takes;
    ask->fetches = OPS[op].fetches;
    if (item_count > 0) {
        ask->vars = psi_calloc(item_count, sizeof(*ask->vars));
        if (ask->vars == NULL) {
            psi_ask_free(ask);
            return NULL;
        }
    }
    return ask;
}

static struct psi_ask *ask_of(struct psi_out *out)
{
    return PSI_CONTAINER_OF(out, struct psi_ask, out);
}

/* psi_out.payload */
static const void *lent_payload(struct psi_out *out, uint64_t offset, uint32_t bytes)
{
    (void)bytes;
    return ask_of(out)->lent + offset;
}

/* psi_out.done */
static void lent_done(struct psi_out *out, bool sent)
{
    (void)sent;
    ask_of(out)->queued = false;
}

static const struct psi_out_ops LENT_OPS = {.payload = lent_payload, .done = lent_done};

/* Take an ended ask's frame out of the send queue. If a part of it is sent, the rest is copied, because the caller may free the
 * memory from now on. Without memory for the copy the connection is closed. */
static void leave_queue(struct psi_ask *ask)
{
    struct psi_outq *q = &ask->peer->link->out;
    if (psi_outq_detach(q, &ask->out) != PS_OK) {
        psi_outq_drop(q);
        psi_peer_fail(ask->peer, "no memory for the rest of a frame");
    }
    ask->queued = false;
}

void psi_ask_detach(struct psi_peer *peer)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &peer->asks) {
        struct psi_ask *ask = PSI_CONTAINER_OF(it, struct psi_ask, link);
        psi_list_remove(&ask->out.link);
        ask->queued = false;
    }
}

void psi_ask_free(struct psi_ask *ask)
{
    if (ask == NULL) {
        return;
    }
    struct psi_client *c = ask->peer->c;
    if (ask->queued) {
        leave_queue(ask);
    }
    psi_list_remove(&ask->link);
    psi_buf_fini(&ask->answer);
    psi_free(ask->vars);
    if (c->spare_ask_count < SPARE_MAX && ask->body.capacity <= SPARE_BYTES_MAX) {
        psi_buf_clear(&ask->body);
        psi_list_push_front(&c->spare_asks, &ask->link);
        c->spare_ask_count++;
        return;
    }
    psi_buf_fini(&ask->body);
    psi_free(ask);
}

void psi_ask_free_spare(struct psi_client *c)
{
    struct psi_list *link = NULL;
    while ((link = psi_list_pop_front(&c->spare_asks)) != NULL) {
        struct psi_ask *ask = PSI_CONTAINER_OF(link, struct psi_ask, link);
        psi_buf_fini(&ask->body);
        psi_free(ask);
    }
}

ps_status psi_ask_meta(struct psi_ask *ask, const pb_msgdesc_t *d, const void *m, struct psi_err *err)
{
    size_t bytes = 0;
    memset(ask->meta, 0, sizeof(ask->meta));
    ps_status st = psi_msg_encode(d, m, ask->meta, sizeof(ask->meta), &bytes, err);
    ask->time_ms = ask->peer->c->now_ms;
    ask->meta_bytes = (uint16_t)psi_pad8((uint32_t)bytes);
    return st;
}

void psi_ask_start(struct psi_ask *ask)
{
    struct psi_client *c = ask->peer->c;
    if (c->trace != NULL) {
        const char *of = ask->req != NULL ? psi_request_subject(ask->req) : ask->var_count > 0 ? ask->vars[0]->name : NULL;
        ask->exchange = psi_exchange_begin(ask->peer, ask->op, NULL, of, psi_ask_body_bytes(ask));
    }
    psi_list_push_back(&ask->peer->asks, &ask->link);
    psi_peer_want(ask->peer);
    psi_client_kick(ask->peer);
}

/* Queue a frame whose body is read from the caller's memory while it is sent. */
static void send_lent(struct psi_peer *peer, struct psi_ask *ask, const struct ps_frame_header *h)
{
    ask->out.ops = &LENT_OPS;
    ask->out.crc = peer->crc;
    ask->out.head_bytes = (uint32_t)PS_FRAME_HEADER_BYTES + h->meta_bytes;
    ask->out.payload_bytes = (uint32_t)ask->lent_bytes;
    memcpy(ask->out.head, h, sizeof(*h));
    memcpy(ask->out.head + PS_FRAME_HEADER_BYTES, ask->meta, h->meta_bytes);
    ask->queued = true;
    psi_outq_push_stream(&peer->link->out, &ask->out);
    psi_client_dirty(peer->c, peer->link);
}

/* Queue the frames of the body: one frame, or several if the list exceeds PS_CONTROL_BODY_MAX. */
static void send_body(struct psi_peer *peer, struct psi_ask *ask, struct ps_frame_header *h)
{
    const uint8_t *p = ask->lent != NULL ? ask->lent : ask->body.data;
    size_t n = psi_ask_body_bytes(ask), bytes = 0;
    uint32_t count = 0;
    h->flags = PS_FLAG_MORE;
    while (n > PS_CONTROL_BODY_MAX && !peer->doomed) {
        ps_status st = psi_list_measure(p, n, PS_CONTROL_BODY_MAX, &bytes, &count, NULL);
        PSI_ASSERT(st == PS_OK && count > 0); /* cannot fail: this core has made the items, each far smaller than a frame */
        psi_peer_send(peer, h, ask->meta, p, (uint32_t)bytes);
        p += bytes;
        n -= bytes;
    }
    h->flags = ask->exchange != 0 && psi_exchange_sent(peer, ask->exchange) ? PS_FLAG_TIMES : 0;
    if (!peer->doomed && ask->lent != NULL && n >= LENT_BYTES_MIN && ask->meta_bytes <= LENT_META_MAX) {
        send_lent(peer, ask, h);
    } else if (!peer->doomed) {
        psi_peer_send(peer, h, ask->meta, p, (uint32_t)n);
    }
}

/* The task counts a request's timeout from the arrival of the frame. So subtract the time since ask->time_ms from the timeout of
 * a request that is sent late or again. The timeout is field 1 of the meta; a CALL has another first field, and keeps its
 * timeout. The number keeps its length in bytes: decoders accept a varint that is longer than necessary. */
static void let_time_pass(struct psi_ask *ask)
{
    enum { FIELD_1 = 0x08, MORE = 0x80, BITS = 7 };
    uint64_t timeout_ms = 0, now_ms = ask->peer->c->now_ms, passed_ms = now_ms - ask->time_ms;
    uint8_t *at = ask->meta + 1;
    uint32_t last = 0;
    if (!ask->waits || ask->meta_bytes == 0 || ask->meta[0] != FIELD_1) {
        return;
    }
    while ((at[last] & MORE) != 0) {
        last++;
    }
    for (uint32_t i = 0; i <= last; i++) {
        timeout_ms |= (uint64_t)(at[i] & (MORE - 1)) << (BITS * i);
    }
    uint64_t left_ms = timeout_ms > passed_ms ? timeout_ms - passed_ms : 1;
    for (uint32_t i = 0; i <= last; i++) {
        at[i] = (uint8_t)((left_ms >> (BITS * i) & (MORE - 1)) | (i < last ? MORE : 0));
    }
    ask->time_ms = now_ms;
}

static void send_ask(struct psi_peer *peer, struct psi_ask *ask)
{
    let_time_pass(ask);
    if (!ask->waits || ask->number == 0) {
        ask->number = peer->next_request++;
    }
    struct ps_frame_header h = psi_frame_header(ask->op, ask->number);
    h.meta_bytes = ask->meta_bytes;
    h.handle = ask->handle;
    ask->sent = true;
    ask->tried = true;
    if (ask->once && !ask->takes && ask->req != NULL) {
        ask->req->flags |= PSI_REQUEST_SENT;
    }
    send_body(peer, ask, &h);
    psi_parts_sent(ask);
}

static bool is_due(const struct psi_ask *ask, bool reopen, bool waits)
{
    return !ask->sent && !ask->parts && ask->reopen == reopen && ask->waits == waits && !psi_parts_blocked(ask);
}

void psi_ask_send(struct psi_peer *peer, bool reopen)
{
    for (int waits = 1; waits >= 0; waits--) { /* first the requests that wait at the task, then all others */
        struct psi_list *it = NULL;
        PSI_LIST_FOREACH(it, &peer->asks) {
            struct psi_ask *ask = PSI_CONTAINER_OF(it, struct psi_ask, link);
            if (is_due(ask, reopen, waits != 0) && !peer->doomed) {
                send_ask(peer, ask);
            }
        }
    }
    if (!reopen && peer->putting) {
        psi_parts_put(peer);
    }
}

ps_v1_Beat psi_ask_beat_of(const struct psi_peer *peer)
{
    const struct psi_client *c = peer->c;
    ps_v1_Beat m = {.global_step = c->step};
    PSI_BYTES_SET(m.step_of, c->step_of);
    if (c->known && peer->index == c->directory) {
        PSI_BYTES_SET(m.container, c->chief.container);
        m.ready = c->chief.readied && psi_client_is_chief(c) ? c->chief.number : 0;
        m.member = c->member.mode == PS_SYNC_STALENESS ? c->member.id : 0;
        m.member_steps = m.member != 0 ? c->member.steps : 0;
        m.challenge = peer->challenge;
        if (c->said != NULL) {
            char text[sizeof(m.said.bytes) + 1];
            c->said(c->said_ctx, text, sizeof(text));
            PSI_BYTES_SET(m.said, text);
        }
    }
    return m;
}

void psi_ask_beat(struct psi_peer *peer)
{
    const ps_v1_Beat m = psi_ask_beat_of(peer);
    _Alignas(8) uint8_t meta[(ps_v1_Beat_size + 7) / 8 * 8] = {0};
    size_t bytes = 0;
    ps_status st = psi_msg_encode(&ps_v1_Beat_msg, &m, meta, sizeof(meta), &bytes, NULL);
    PSI_ASSERT(st == PS_OK); /* cannot fail: meta has room for the largest beat */
    struct ps_frame_header h = psi_frame_header(PS_OP_BEAT, peer->next_request++);
    h.meta_bytes = (uint16_t)psi_pad8((uint32_t)bytes);
    peer->beat_sent_ms = peer->c->now_ms;
    psi_peer_send(peer, &h, meta, NULL, 0);
}

void psi_ask_abandon(struct psi_peer *peer, uint64_t number)
{
    struct ps_frame_header h = psi_frame_header(PS_OP_ABANDON, number);
    h.flags = PS_FLAG_SEQ;
    psi_peer_send(peer, &h, NULL, NULL, 0);
}

static void remember_ack(struct psi_peer *peer, uint64_t number)
{
    if (peer->ack_count == peer->ack_capacity && peer->ack_capacity < PS_WAITS_PER_SESSION_MAX) {
        uint64_t *more = psi_grow(peer->acks, peer->ack_count, &peer->ack_capacity, sizeof(*more));
        peer->acks = more != NULL ? more : peer->acks;
    }
    /* without memory for a larger ring its oldest number is overwritten: if the ACK of that number was lost, the task keeps the
     * result until the session ends */
    if (peer->ack_capacity > 0) {
        peer->acks[peer->ack_count++ % peer->ack_capacity] = number;
    }
}

/* Flag of a number in psi_peer.acks: this client gave the request up, and its ACK tells the task so. */
#define GIVEN_UP (UINT64_C(1) << 63)

static void send_ack(struct psi_peer *peer, uint64_t number)
{
    struct ps_frame_header h = psi_frame_header(PS_OP_ACK, number & ~GIVEN_UP);
    h.offset = (number & GIVEN_UP) != 0;
    psi_peer_send(peer, &h, NULL, NULL, 0);
}

/* Queue an ACK that is sent with the next frame: a frame of its own would add a fifth to the request's cost on both sides. */
static void send_ack_later(struct psi_peer *peer, uint64_t number)
{
    struct ps_frame_header h = psi_frame_header(PS_OP_ACK, number);
    PSI_IGNORE(psi_peer_send_later(peer, &h, NULL, NULL, 0)); /* a failure closes the connection */
}

/* Tell the task by an ACK that it may drop the request's result. After a reconnect the ACK is sent again. given_up: the program
 * got no element of the DEQUEUE, so the task puts the elements back into the queue. */
static void acknowledge(struct psi_peer *peer, const struct psi_ask *ask, bool given_up)
{
    if (!ask->waits || ask->number == 0 || !ask->tried) {
        return;
    }
    uint64_t number = ask->number | (given_up && ask->takes ? GIVEN_UP : 0);
    remember_ack(peer, number);
    /* a larger result of a CALL is acknowledged at once: the task keeps the result in memory until the ACK */
    const bool small =
        ask->op == PS_OP_ENQUEUE || ask->op == PS_OP_STEP || (ask->op == PS_OP_CALL && ask->req->offset <= PS_CALL_BYTES_MAX);
    if (peer->state == PSI_PEER_UP && !given_up && small) {
        send_ack_later(peer, number);
    } else if (peer->state == PSI_PEER_UP) {
        send_ack(peer, number);
    }
}

void psi_ask_acknowledge_again(struct psi_peer *peer)
{
    size_t count = peer->ack_count < peer->ack_capacity ? peer->ack_count : peer->ack_capacity;
    for (size_t i = 0; i < count && !peer->doomed; i++) {
        send_ack(peer, peer->acks[i]);
    }
}

/* End the ask: call its callback for the last time and free it. */
static void end_ask(struct psi_ask *ask, const struct psi_reply *r)
{
    psi_list_remove(&ask->link);
    ask->fn(ask->peer->c, ask, r);
    psi_ask_free(ask);
}

static void fail_ask(struct psi_ask *ask, ps_status st, ps_reason reason, ps_applied applied, const char *text)
{
    struct psi_reply r = {.status = st, .reason = reason, .applied = applied, .text = text};
    end_ask(ask, &r);
}

/* Take a task's answer to a beat. The directory's answer also tells the chief and the version of the tasks' addresses. */
static void beaten(struct psi_peer *peer, const struct psi_reply *r)
{
    const uint8_t *p = r->body;
    size_t n = r->body_bytes;
    ps_v1_BeatAnswer m;
    bool end = false;
    if (r->status != PS_OK || !peer->c->known || psi_list_next(&p, &n, &ps_v1_BeatAnswer_msg, &m, &end, NULL) != PS_OK || end) {
        return;
    }
    if (peer->index == peer->c->directory) {
        peer->c->chief_connected = (m.flags & PS_BEAT_CHIEF) != 0;
        peer->c->chief.ready = m.chief_ready;
        peer->c->chief.told = m.chief_number;
        peer->challenge = m.challenge != 0 ? m.challenge : peer->challenge;
        psi_chief_beaten(peer->c, &m);
        psi_addresses_beaten(peer->c, m.addresses);
    }
    if ((m.flags & PS_BEAT_STOP) != 0 && !peer->c->stop_asked) {
        peer->c->stop_asked = true;
        psi_client_log(peer->c, PSI_LOG_INFO, "stop_asked", PSI_KV("task", peer->name));
    }
    if ((m.flags & PS_BEAT_JOB_DONE) != 0 && !peer->c->job_done) {
        peer->c->job_done = true;
        peer->c->stop_asked = true;
        psi_client_log(peer->c, PSI_LOG_INFO, "job_done", PSI_KV("task", peer->name));
    }
}

void psi_ask_reply(struct psi_peer *peer, uint64_t number, uint8_t op, const struct psi_reply *r)
{
    struct psi_ask *ask = NULL;
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &peer->asks) {
        struct psi_ask *at = PSI_CONTAINER_OF(it, struct psi_ask, link);
        if (at->sent && !at->parts && at->number == number) {
            ask = at;
            break;
        }
    }
    if (op == PS_OP_BEAT && (ask == NULL || ask->op == op)) {
        beaten(peer, r); /* also the answer to a PING, which is a beat that was sent as an ask */
    }
    if (ask == NULL) {
        if (op != PS_OP_BEAT && number >= peer->next_request) {
            psi_peer_fail(peer, "bad bytes from it: a reply to request %llu, which was not sent", (unsigned long long)number);
        }
        return;
    }
    if (ask->op != op) {
        psi_peer_fail(peer, "bad bytes from it: a reply to op %u for a request of op %u", op, ask->op);
        return;
    }
    if ((ask->takes || ask->op == PS_OP_GET_PART) && r->status == PS_OK && peer->slept == peer->connection) {
        psi_peer_fail(peer, "this process stood still for a lease: what it was given meanwhile may be somebody else's");
        return; /* the ask is sent again on the next connection, and then the task's answer is up to date */
    }
    if (ask->exchange != 0 && (!r->more || r->status != PS_OK)) {
        psi_exchange_end(peer, ask->exchange, number, r->status);
    }
    if (r->more && r->status == PS_OK) {
        ask->fn(peer->c, ask, r);
        return;
    }
    if (ask->fetches && r->status == PS_OK) {
        ask->parts = true;
        ask->fn(peer->c, ask, r); /* psi_ask_taken() or psi_ask_drop() frees the ask later */
        return;
    }
    acknowledge(peer, ask, false);
    end_ask(ask, r);
}

void psi_ask_taken(struct psi_ask *ask)
{
    acknowledge(ask->peer, ask, false);
    psi_ask_free(ask);
}

void psi_ask_disconnected(struct psi_peer *peer)
{
    bool again = true;
    psi_parts_disconnected(peer);
    while (again) {
        again = false;
        struct psi_list *it = NULL;
        PSI_LIST_FOREACH(it, &peer->asks) {
            struct psi_ask *ask = PSI_CONTAINER_OF(it, struct psi_ask, link);
            bool was_sent = ask->sent;
            ask->sent = false;
            ask->partial = false;
            psi_buf_clear(&ask->answer);
            if (ask->reopen) {
                psi_ask_free(ask);
                again = true;
                break;
            }
            if (ask->op == PS_OP_GOODBYE || (was_sent && ask->once && !ask->waits)) {
                fail_ask(ask, PS_UNAVAILABLE, PS_REASON_NOT_CONNECTED, PS_OUTCOME_UNKNOWN,
                         "the connection was closed before the answer: outcome unknown");
                again = true;
                break;
            }
        }
    }
    peer->reopen_asks = 0;
}

void psi_ask_settle(struct psi_peer *peer, bool new_life, bool new_record)
{
    bool again = true;
    while (again) {
        again = false;
        struct psi_list *it = NULL;
        PSI_LIST_FOREACH(it, &peer->asks) {
            struct psi_ask *ask = PSI_CONTAINER_OF(it, struct psi_ask, link);
            if (new_life && ask->handles) {
                bool maybe = ask->once && ask->tried; /* an earlier process of the task may have carried the request out */
                fail_ask(ask, PS_ABORTED, PS_REASON_LOST, maybe ? PS_OUTCOME_UNKNOWN : PS_NOTHING_APPLIED,
                         maybe ? "the task was restarted: outcome unknown" : "the task was restarted");
                again = true;
                break;
            }
            if (!new_life && psi_parts_lost(ask)) { /* the queue is lost, or was opened again under another handle */
                fail_ask(ask, PS_ABORTED, PS_REASON_LOST, PS_NOTHING_APPLIED,
                         "the task was restarted: the queue is gone for this session");
                again = true;
                break;
            }
            if (new_record && ask->once && ask->tried) {
                bool saved =
                    ask->op == PS_OP_CHECKPOINT || ask->op == PS_OP_CHECKPOINT_DELETE || ask->op == PS_OP_CHECKPOINT_RESTORE;
                fail_ask(ask, saved ? PS_UNAVAILABLE : PS_ABORTED, PS_REASON_LOST, PS_OUTCOME_UNKNOWN,
                         saved ? "the directory has lost its record of this session, as when it is started again: outcome "
                                 "unknown; what is saved now says psctl checkpoint list"
                               : "the task has lost its record of this session: outcome unknown");
                again = true;
                break;
            }
        }
    }
}

void psi_ask_fail_all(struct psi_peer *peer, ps_status st, ps_reason reason, const char *text)
{
    struct psi_list *first = NULL;
    while ((first = psi_list_first(&peer->asks)) != NULL) {
        struct psi_ask *ask = PSI_CONTAINER_OF(first, struct psi_ask, link);
        fail_ask(ask, st, reason, ask->once && ask->tried ? PS_OUTCOME_UNKNOWN : PS_NOTHING_APPLIED, text);
    }
}

void psi_ask_drop(struct psi_client *c, const struct psi_request *req)
{
    for (uint32_t i = 0; i < c->peer_count; i++) {
        struct psi_peer *peer = c->peers[i];
        struct psi_list *it = NULL;
        struct psi_list *tmp = NULL;
        PSI_LIST_FOREACH_SAFE(it, tmp, &peer->asks) {
            struct psi_ask *ask = PSI_CONTAINER_OF(it, struct psi_ask, link);
            if (ask->req == req) {
                acknowledge(peer, ask, true); /* the session gives the request up: nobody wants its result */
                psi_ask_free(ask);
                psi_client_kick(peer); /* later requests may have waited for the end of this request */
            }
        }
    }
}
