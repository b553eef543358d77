/* SPDX-License-Identifier: Apache-2.0 */
/* One task as the rest of the core sees it: its names, whether the session needs it, frames to it, failure of its connection.
 * Happy path: psi_peer_want() dials, connection.c brings the peer UP, psi_peer_send() queues a frame. Failure: code that cannot
 * use a connection further calls psi_peer_fail(); connection.c closes it at the end of the event, before any byte is sent. */
#include "client.h"

#include "common/mem.h"

#include <stdio.h>
#include <string.h>

enum {
    HELLO_PAYLOAD_MAX = 2 << 20,
    SLACK_PART = 8,
    SLACK_MIN_MS = 100,
    SLACK_MAX_MS = 1000 /* most that slack_ms() returns */
};

#define TO(state) (1u << PSI_PEER_##state)
static const uint8_t WAYS[PSI_PEER_STATES] = {
    [PSI_PEER_IDLE] = TO(DIAL) | TO(REFUSED),          [PSI_PEER_WAIT] = TO(DIAL) | TO(IDLE) | TO(REFUSED),
    [PSI_PEER_DIAL] = TO(HELLO) | TO(WAIT) | TO(IDLE), [PSI_PEER_HELLO] = TO(REOPEN) | TO(UP) | TO(WAIT) | TO(IDLE),
    [PSI_PEER_REOPEN] = TO(UP) | TO(WAIT) | TO(IDLE),  [PSI_PEER_UP] = TO(WAIT) | TO(IDLE),
};

void psi_peer_move(struct psi_peer *peer, enum psi_peer_state to)
{
    PSI_ASSERT((WAYS[peer->state] >> to & 1u) != 0);
    peer->state = to;
}

struct psi_peer *psi_peer_new(struct psi_client *c, const char *address)
{
    struct psi_peer *peer = psi_calloc(1, sizeof(*peer));
    if (peer == NULL) {
        return NULL;
    }
    peer->c = c;
    snprintf(peer->address, sizeof(peer->address), "%s", address);
    peer->any_port = psi_address_any_port(address);
    snprintf(peer->name, sizeof(peer->name), "target");
    peer->backoff_ms = PS_RECONNECT_FIRST_MS;
    peer->lease_ms = PS_LEASE_MS;
    peer->beat_ms = PS_BEAT_MS;
    peer->first = 1;
    peer->next = 1;
    peer->resume_at = 1;
    peer->next_request = 1;
    struct psi_list *lists[] = {&peer->pump,       &peer->ready_single, &peer->ready_multi, &peer->ready_small_read,
                                &peer->ready_read, &peer->asks,         &peer->want_open,   &peer->chunk_free,
                                &peer->chunk_out,  &peer->chunk_again};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        psi_list_init(lists[i]);
    }
    psi_buf_init(&peer->body, PS_CONTROL_BODY_MAX);
    psi_buf_init(&peer->hello, HELLO_PAYLOAD_MAX);
    return peer;
}

void psi_peer_name(struct psi_peer *peer, const char *job, uint32_t task)
{
    snprintf(peer->job, sizeof(peer->job), "%s", job);
    peer->task = task;
    peer->named = true;
    psi_task_name_format(peer->name, sizeof(peer->name), job, task);
}

void psi_peer_free(struct psi_peer *peer)
{
    if (peer != NULL) {
        psi_free(peer->ring);
        psi_free(peer->acks);
        psi_free(peer->chunks);
        psi_free(peer->buffer);
        psi_buf_fini(&peer->body);
        psi_buf_fini(&peer->hello);
        psi_free(peer);
    }
}

const char *psi_peer_where(const struct psi_peer *peer, char *dst, size_t n)
{
    snprintf(dst, n, "%s (%s)", peer->name, peer->address);
    return dst;
}

/* Pointer to the time of this task's first dial (psi_reach.wanted_ms); NULL: the session does not record these times. */
static uint64_t *wanted_ms(const struct psi_peer *peer)
{
    struct psi_client *c = peer->c;
    return c->reach != NULL ? &c->reach->wanted_ms[c->known ? peer->index : PS_TASKS_MAX] : NULL;
}

bool psi_peer_unreached(const struct psi_peer *peer)
{
    const uint64_t *since = wanted_ms(peer);
    return since != NULL && *since != 0 && *since != PSI_REACHED;
}

uint64_t psi_peer_wanted_ms(const struct psi_peer *peer)
{
    return psi_peer_unreached(peer) ? *wanted_ms(peer) : UINT64_MAX;
}

/* A task counts as overdue so many ms before its start timeout. Requests begin up to some hundred ms before the first dial, and
 * the error at a request's timeout must already say that the task is overdue. */
static uint64_t slack_ms(const struct psi_client *c)
{
    const uint64_t part = (uint64_t)c->start_timeout_ms / SLACK_PART;
    return part < SLACK_MIN_MS ? SLACK_MIN_MS : part > SLACK_MAX_MS ? SLACK_MAX_MS : part;
}

bool psi_client_overdue(const struct psi_client *c)
{
    for (uint32_t i = 0; c->start_timeout_ms > 0 && i < c->peer_count; i++) {
        const struct psi_peer *peer = c->peers[i];
        if (psi_peer_unreached(peer) && c->now_ms + slack_ms(c) >= psi_peer_wanted_ms(peer) + (uint64_t)c->start_timeout_ms) {
            return true;
        }
    }
    return false;
}

void psi_peer_reached(struct psi_peer *peer)
{
    uint64_t *since = wanted_ms(peer);
    if (since != NULL) {
        *since = PSI_REACHED;
    }
}

void psi_peer_dial(struct psi_peer *peer)
{
    uint64_t *since = wanted_ms(peer);
    if (since != NULL && *since == 0) {
        *since = peer->c->now_ms > 0 ? peer->c->now_ms : 1;
    }
    psi_peer_move(peer, PSI_PEER_DIAL);
    if (peer->any_port && peer->told_life == 0) {
        psi_peer_unlisted(peer);
        return;
    }
    peer->dial_effect = true;
    peer->c->dial_count++;
}

void psi_peer_want(struct psi_peer *peer)
{
    if (peer->state == PSI_PEER_IDLE && !peer->leaving) {
        psi_peer_dial(peer);
    }
}

void psi_peer_undial(struct psi_peer *peer)
{
    if (peer->dial_effect) {
        peer->dial_effect = false;
        peer->c->dial_count--;
    }
    if (peer->state == PSI_PEER_WAIT || peer->state == PSI_PEER_DIAL) {
        psi_peer_move(peer, PSI_PEER_IDLE); /* a dial that is under way is not stopped, but its result is ignored */
    }
}

void psi_peer_leave(struct psi_peer *peer)
{
    peer->leaving = true;
    psi_peer_undial(peer);
}

bool psi_peer_down(const struct psi_peer *peer)
{
    return peer->state != PSI_PEER_UP && peer->state != PSI_PEER_IDLE;
}

const char *psi_peer_obstacle(const struct psi_peer *peer)
{
    if (!psi_peer_down(peer)) {
        return "";
    }
    if (peer->state == PSI_PEER_HELLO || peer->state == PSI_PEER_REOPEN) {
        return "connected, but it has not answered: busy, stopped, or not a psd";
    }
    return peer->last_error[0] != '\0' ? peer->last_error : "not connected yet";
}

void psi_peer_fail(struct psi_peer *peer, const char *format, ...)
{
    if (peer->link == NULL || peer->doomed) {
        return; /* the first reason is kept */
    }
    va_list ap;
    va_start(ap, format);
    vsnprintf(peer->doom, sizeof(peer->doom), format, ap);
    va_end(ap);
    peer->doomed = true;
    psi_client_kick(peer);
}

struct ps_frame_header psi_frame_header(uint8_t op, uint64_t id)
{
    return (struct ps_frame_header){.magic = PS_FRAME_MAGIC, .version = PS_FRAME_VERSION, .op = op, .id = id};
}

bool psi_peer_send_later(struct psi_peer *peer, const struct ps_frame_header *h, const void *meta, const void *body,
                         uint32_t bytes)
{
    bool sent = psi_outq_push_body(&peer->link->out, h, meta, body, bytes, peer->crc) == PS_OK;
    if (!sent) {
        psi_peer_fail(peer, "no memory for a frame");
    }
    return sent;
}

void psi_peer_send(struct psi_peer *peer, const struct ps_frame_header *h, const void *meta, const void *body, uint32_t bytes)
{
    if (psi_peer_send_later(peer, h, meta, body, bytes)) {
        psi_client_dirty(peer->c, peer->link);
    }
}

void psi_chunk_drop(struct psi_peer *peer, struct psi_chunk *k)
{
    psi_list_remove(&k->link);
    k->req = NULL;
    psi_list_push_front(&peer->chunk_free, &k->link);
}

void psi_target_stop(struct psi_peer *peer)
{
    if (peer->target != NULL) {
        peer->target->flags &= (uint8_t)~PSI_REQUEST_TARGET;
        peer->target = NULL;
        psi_reader_release(&peer->link->in);
    }
}

void psi_target_release(struct psi_request *req)
{
    struct psi_client *c = req->owner;
    for (uint32_t i = 0; (req->flags & PSI_REQUEST_TARGET) != 0; i++) {
        PSI_ASSERT(i < c->peer_count);
        if (c->peers[i]->target == req) {
            psi_target_stop(c->peers[i]);
        }
    }
}
