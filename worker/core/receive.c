/* SPDX-License-Identifier: Apache-2.0 */
/* Frames from a task. Happy path: a frame's header (HEAD) selects where the frame's bytes go. Values that need no conversion go
 * straight into the caller's memory (the reader's target). Other values are converted into that memory segment by segment. All
 * other bytes go into the peer's body buffer. The end of the frame calls window.c, pull.c, ask.c or connection.c. A request that
 * ends in the middle of a frame takes its memory away first. Failure: a task's bytes are untrusted, so a violation of the
 * protocol closes the connection, with one log line. */
#include "client.h"

#include "common/form.h"
#include "common/half.h"
#include "common/shape.h"

#include <string.h>

/* Read a reply's meta, which psi_form_check() has accepted, into peer->reply; not for PULL and VALUE. */
static void parse_reply(struct psi_peer *peer, const struct ps_frame_header *h, const uint8_t *meta)
{
    struct psi_reply *r = &peer->reply;
    struct ps_reply_meta m;
    memcpy(&m, meta, sizeof(m));
    r->status = (ps_status)h->offset;
    r->applied = (ps_applied)m.applied;
    r->reason = (ps_reason)m.reason;
    r->retry_after_ms = m.retry_after_ms;
    r->position = m.position;
    r->durable = m.durable;
    r->version = m.version;
    r->result_bytes = m.result_bytes;
    memcpy(r->result, meta + sizeof(m), m.result_bytes);
    size_t text = m.text_bytes < sizeof(peer->reply_text) ? m.text_bytes : sizeof(peer->reply_text) - 1;
    memcpy(peer->reply_text, meta + sizeof(m) + psi_pad8(m.result_bytes), text);
    for (size_t i = 0; i < text; i++) {
        unsigned char ch = (unsigned char)peer->reply_text[i];
        peer->reply_text[i] = ch < 0x20 || ch == 0x7f ? '?' : peer->reply_text[i];
    }
    peer->reply_text[text] = '\0';
    r->text = peer->reply_text;
    r->more = (h->flags & PS_FLAG_MORE) != 0;
    r->body = NULL;
    r->body_bytes = 0;
}

/* The request that gets the values of the frame that is being received; NULL: none. */
static struct psi_request *wanted_by(const struct psi_peer *peer)
{
    if (peer->sink == PSI_SINK_CHUNK) {
        return peer->sink_chunk->req;
    }
    const struct psi_entry *e = psi_window_find(peer, peer->sink_number);
    return e != NULL ? e->req : NULL;
}

/* Dtype of the values in the frame; head() has checked it. */
static ps_dtype wire_of(const struct psi_peer *peer)
{
    return (ps_dtype)peer->link->in.header.dtype;
}

/* Address in the request's memory of the frame's next value; sink_done bytes of values have come. */
static uint8_t *place_of(const struct psi_peer *peer, const struct psi_request *req)
{
    const struct psi_var *var = req->var;
    uint64_t first = peer->sink_first - req->part_first + peer->sink_done / psi_wire_unit(wire_of(peer));
    return (uint8_t *)req->dst + first * psi_wire_unit(var->dtype);
}

/* Begin a frame of values: let the reader write them straight into the request's memory, unless they need a conversion. */
static void aim(struct psi_peer *peer)
{
    struct psi_request *req = wanted_by(peer);
    if (req != NULL && peer->sink_bytes > 0 && wire_of(peer) == req->var->dtype) {
        psi_reader_target(&peer->link->in, place_of(peer, req), peer->sink_bytes);
        PSI_ASSERT((req->flags & PSI_REQUEST_TARGET) == 0); /* all frames of a request come on one connection, one at a time */
        peer->target = req;
        req->flags |= PSI_REQUEST_TARGET;
    }
}

/* Store n bytes of values for the request, unless the reader has stored them. */
static void put_values(const struct psi_peer *peer, const uint8_t *p, size_t n)
{
    const struct psi_request *req = wanted_by(peer);
    if (req != NULL && peer->target == NULL) {
        psi_half_widen(wire_of(peer), p, place_of(peer, req), n / psi_wire_unit(wire_of(peer)));
    }
}

static ps_status head(struct psi_peer *peer, struct psi_err *err)
{
    const struct psi_reader *in = &peer->link->in;
    const struct ps_frame_header *h = &in->header;
    peer->sink = PSI_SINK_NONE;
    if (h->version != PS_FRAME_VERSION) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "VERSION: it speaks version %u of the protocol", h->version);
    }
    ps_status st = psi_form_check(h, psi_reader_meta(in), err);
    if (st != PS_OK) {
        return st;
    }
    if ((h->flags & PS_FLAG_REPLY) == 0) {
        if (h->op == PS_OP_DURABLE && peer->state != PSI_PEER_HELLO) {
            return PS_OK; /* DURABLE says which changes are on disk; no request of this client waits for that */
        }
        return psi_fail(err, PS_INVALID_ARGUMENT, "a request (op %u) came from it", h->op);
    }
    if ((peer->state == PSI_PEER_HELLO) != (h->op == PS_OP_HELLO) && h->op != PS_OP_CLOSE) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "a reply to op %u is out of place", h->op);
    }
    if ((h->flags & PS_FLAG_VALUE) != 0 || in->has_trailer) {
        st = (h->flags & PS_FLAG_VALUE) != 0 ? psi_push_value_head(peer, err) : psi_pull_head(peer, err);
        if (st == PS_OK && peer->sink != PSI_SINK_NONE) {
            aim(peer);
        }
        return st;
    }
    parse_reply(peer, h, psi_reader_meta(in));
    peer->sink = PSI_SINK_BODY;
    psi_buf_clear(&peer->body);
    return PS_OK;
}

static ps_status segment(struct psi_peer *peer, struct psi_err *err)
{
    const struct psi_reader *in = &peer->link->in;
    if (peer->sink == PSI_SINK_BODY) {
        return psi_buf_append(&peer->body, in->payload, in->payload_bytes, err);
    }
    if (peer->sink == PSI_SINK_NONE) {
        return PS_OK;
    }
    uint64_t left = peer->sink_bytes - peer->sink_done;
    size_t take = in->payload_bytes < left ? in->payload_bytes : (size_t)left;
    put_values(peer, in->payload, take);
    peer->sink_done += take;
    return PS_OK;
}

static ps_status reply_end(struct psi_peer *peer, struct psi_err *err)
{
    const struct ps_frame_header *h = &peer->link->in.header;
    struct psi_reply *r = &peer->reply;
    r->body = peer->body.data;
    r->body_bytes = peer->body.len;
    if (h->op == PS_OP_HELLO) {
        ps_status st = psi_buf_append(&peer->hello, r->body, psi_list_strip(r->body, r->body_bytes), err);
        if (st == PS_OK && !r->more) {
            psi_peer_hello(peer);
        }
        return st;
    }
    if (h->op == PS_OP_CLOSE) {
        psi_peer_fail(peer, "it closed the connection: %s: %s", ps_status_name(r->status), r->text);
    } else if ((h->flags & PS_FLAG_SEQ) != 0) {
        psi_window_reply(peer, h->id, h->op, r);
    } else if (h->op == PS_OP_PULL || h->op == PS_OP_GATHER) {
        psi_pull_refused(peer, h->id, r);
    } else {
        psi_ask_reply(peer, h->id, h->op, r);
    }
    return PS_OK;
}

static ps_status frame_end(struct psi_peer *peer, struct psi_err *err)
{
    ps_status st = PS_OK;
    psi_target_stop(peer);
    switch (peer->sink) {
    case PSI_SINK_BODY:
        st = reply_end(peer, err);
        break;
    case PSI_SINK_CHUNK:
        psi_pull_end(peer);
        break;
    case PSI_SINK_VALUE:
        psi_push_value_end(peer);
        break;
    default:
        break;
    }
    peer->sink = PSI_SINK_NONE;
    return st;
}

void psi_peer_bytes(struct psi_peer *peer, const uint8_t *p, size_t n)
{
    struct psi_link *link = peer->link;
    struct psi_err err;
    psi_err_none(&err);
    while (peer->link == link && !peer->doomed) { /* a frame may close the connection */
        ps_status st = PS_OK;
        switch (psi_reader_next(&link->in, &p, &n, &err)) {
        case PSI_PIECE_NONE:
            return;
        case PSI_PIECE_HEAD:
            st = head(peer, &err);
            break;
        case PSI_PIECE_SEGMENT:
            st = segment(peer, &err);
            break;
        case PSI_PIECE_END:
            st = frame_end(peer, &err);
            break;
        case PSI_PIECE_BAD:
            st = PS_INVALID_ARGUMENT;
            break;
        }
        if (st != PS_OK && peer->link == link) {
            psi_peer_fail(peer, "bad bytes from it: %s", err.text);
        }
    }
}
