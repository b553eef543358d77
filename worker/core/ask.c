/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control requests at one task: a list out, answers back, across reconnects.
 *
 * Happy path: an ask is built once (its list fits one frame), gets the next request number when it is sent, and its callback runs
 * for each frame of the answer. Waiting requests (CREATE, RESET, DELETE, WAIT, WAIT_CLUSTER, BARRIER, CALL, those of queues and
 * rounds) keep their number when they are sent again, so the task joins them to the one that waits, and are acknowledged; all
 * others are asked again under a new number. Failure: requests that must not happen twice (RESET, DELETE, BARRIER, SHUTDOWN,
 * CALL, those of queues) end as outcome unknown where that could be. So do requests for checkpoints, because a directory that
 * was started again has other things to save, and gives the same numbers to them. Handles are void in a new life: such asks end
 * ABORTED. An ask that is dropped leaves nothing behind; its answer, if one comes, is ignored.
 */
#include "client.h"

#include "common/mem.h"

#include <string.h>

/* How a request behaves by its operation; the others have none of it. */
static const struct op_row {
    bool waits, once, handles, takes;
} OPS[256] = {
    [PS_OP_CREATE] = {.waits = true},
    [PS_OP_RESET] = {.waits = true, .once = true},
    [PS_OP_DELETE] = {.waits = true, .once = true},
    [PS_OP_WAIT] = {.waits = true, .handles = true},
    [PS_OP_WAIT_CLUSTER] = {.waits = true},
    [PS_OP_BARRIER] = {.waits = true, .once = true},
    [PS_OP_CALL] = {.waits = true, .once = true},
    [PS_OP_ENQUEUE] = {.waits = true, .once = true, .handles = true},
    [PS_OP_DEQUEUE] = {.waits = true, .once = true, .handles = true, .takes = true},
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

enum { SPARE_MAX = 64, SPARE_BYTES_MAX = 16 << 10 };

/* Zero but for its body, which may have memory. */
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
    ask->body.max = PS_CONTROL_BODY_MAX; /* SYNC's was more */
    return ask;
}

struct psi_ask *psi_ask_new(struct psi_peer *peer, uint8_t op, struct psi_request *req, psi_ask_fn fn, uint32_t item_count)
{
    struct psi_ask *ask = take_spare(peer->c);
    if (ask == NULL) {
        return NULL;
    }
    psi_list_init(&ask->link);
    psi_buf_init(&ask->answer, (size_t)256 << 20);
    ask->peer = peer;
    ask->op = op;
    ask->req = req;
    ask->fn = fn;
    ask->waits = OPS[op].waits;
    ask->once = OPS[op].once;
    ask->handles = OPS[op].handles;
    ask->takes = OPS[op].takes;
    if (item_count > 0) {
        ask->vars = psi_calloc(item_count, sizeof(*ask->vars));
        if (ask->vars == NULL) {
            psi_ask_free(ask);
            return NULL;
        }
    }
    return ask;
}

void psi_ask_free(struct psi_ask *ask)
{
    if (ask == NULL) {
        return;
    }
    struct psi_client *c = ask->peer->c;
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
    psi_list_push_back(&ask->peer->asks, &ask->link);
    psi_peer_want(ask->peer);
    psi_client_kick(ask->peer);
}

/* In as many frames as it takes. */
static void send_body(struct psi_peer *peer, const struct psi_ask *ask, struct ps_frame_header *h)
{
    const uint8_t *p = ask->body.data;
    size_t n = ask->body.len, bytes = 0;
    uint32_t count = 0;
    h->flags = PS_FLAG_MORE;
    while (n > PS_CONTROL_BODY_MAX && !peer->doomed) {
        ps_status st = psi_list_measure(p, n, PS_CONTROL_BODY_MAX, &bytes, &count, NULL);
        PSI_ASSERT(st == PS_OK && count > 0); /* items of ours, far smaller */
        psi_peer_send(peer, h, ask->meta, p, (uint32_t)bytes);
        p += bytes;
        n -= bytes;
    }
    h->flags = 0;
    if (!peer->doomed) {
        psi_peer_send(peer, h, ask->meta, p, (uint32_t)n);
    }
}

/* Subtract from the timeout of a waiting request the time that has passed since it was encoded: time without a connection, or
 * in another life of the task. The task counts from the moment when the request comes. The meta of such a request begins with
 * its timeout, field 1, except that of CALL. The number keeps its length in bytes: a decoder takes a number that is longer than
 * necessary. */
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
    psi_queue_sent(ask);
}

static bool is_due(const struct psi_ask *ask, bool reopen, bool waits)
{
    return !ask->sent && !ask->parts && ask->reopen == reopen && ask->waits == waits && !psi_queue_blocked(ask);
}

void psi_ask_send(struct psi_peer *peer, bool reopen)
{
    for (int waits = 1; waits >= 0; waits--) { /* waiting requests go before reads */
        struct psi_list *it = NULL;
        PSI_LIST_FOREACH(it, &peer->asks) {
            struct psi_ask *ask = PSI_CONTAINER_OF(it, struct psi_ask, link);
            if (is_due(ask, reopen, waits != 0) && !peer->doomed) {
                send_ask(peer, ask);
            }
        }
    }
    if (!reopen && peer->putting) {
        psi_queue_put_parts(peer);
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
    }
    return m;
}

void psi_ask_beat(struct psi_peer *peer)
{
    const ps_v1_Beat m = psi_ask_beat_of(peer);
    _Alignas(8) uint8_t meta[(ps_v1_Beat_size + 7) / 8 * 8] = {0};
    size_t bytes = 0;
    ps_status st = psi_msg_encode(&ps_v1_Beat_msg, &m, meta, sizeof(meta), &bytes, NULL);
    PSI_ASSERT(st == PS_OK); /* meta has its bound */
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
    if (peer->ack_capacity > 0) { /* without memory the oldest are forgotten: their results stay there until the session's end */
        peer->acks[peer->ack_count++ % peer->ack_capacity] = number;
    }
}

/* In a number that is remembered. */
#define GIVEN_UP (UINT64_C(1) << 63)

static void send_ack(struct psi_peer *peer, uint64_t number)
{
    struct ps_frame_header h = psi_frame_header(PS_OP_ACK, number & ~GIVEN_UP);
    h.offset = (number & GIVEN_UP) != 0;
    psi_peer_send(peer, &h, NULL, NULL, 0);
}

/* Nobody waits for what the task still has of it, and a frame of its own costs both sides a fifth of the request. */
static void send_ack_later(struct psi_peer *peer, uint64_t number)
{
    struct ps_frame_header h = psi_frame_header(PS_OP_ACK, number);
    PSI_IGNORE(psi_peer_send_later(peer, &h, NULL, NULL, 0)); /* the connection says itself that it fails */
}

/* The task forgets the request and its result; an ACK that is lost with its connection is said again after it. given_up: nothing
 * of what it may have taken is here. */
static void acknowledge(struct psi_peer *peer, const struct psi_ask *ask, bool given_up)
{
    if (!ask->waits || ask->number == 0 || !ask->tried) {
        return;
    }
    uint64_t number = ask->number | (given_up && ask->takes ? GIVEN_UP : 0);
    remember_ack(peer, number);
    if (peer->state == PSI_PEER_UP && !given_up && (ask->op == PS_OP_ENQUEUE || ask->op == PS_OP_STEP)) {
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

/* The end of an ask: its owner hears of it last. */
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

/* What the directory says with a beat. */
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
        beaten(peer, r); /* also of a PING */
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
        return; /* asked for again, it says so */
    }
    if (r->more && r->status == PS_OK) {
        ask->fn(peer->c, ask, r); /* takes this part; ends nothing */
        return;
    }
    if (ask->takes && r->status == PS_OK) {
        ask->parts = true;
        ask->fn(peer->c, ask, r); /* until psi_ask_taken(), or it is dropped */
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
    psi_queue_disconnected(peer);
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
                bool maybe = ask->once && ask->tried; /* somebody may have had of it what it did before */
                fail_ask(ask, PS_ABORTED, PS_REASON_LOST, maybe ? PS_OUTCOME_UNKNOWN : PS_NOTHING_APPLIED,
                         maybe ? "the task was restarted: outcome unknown" : "the task was restarted");
                again = true;
                break;
            }
            if (!new_life && psi_queue_lost(ask)) { /* called while it was being opened again */
                fail_ask(ask, PS_ABORTED, PS_REASON_LOST, PS_NOTHING_APPLIED, "the task was restarted without it");
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
                acknowledge(peer, ask, true); /* nobody waits for it any more */
                psi_ask_free(ask);
                psi_client_kick(peer); /* what was called after it may have waited for it */
            }
        }
    }
}
