/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes to frames to requests.
 *
 * Happy path: head -> its row (requests.c) -> (push family: segment by segment into rpc/push.c; everything else: the body is
 * gathered) -> end -> handler.
 * Failure: a frame that the reader rejects, or one that this connection may not send now, closes the connection; an unknown
 * operation is answered UNIMPLEMENTED and the stream stays in step.
 */
#include "requests.h"

#include "common/form.h"
#include "common/mem.h"

#include <string.h>

/* ---- segment buffers: 64 KiB each, shared by all connections of the task ---- */

static void set_wanting(struct psd_task *t, bool wanting)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &t->conns) {
        struct psd_conn *c = PSI_CONTAINER_OF(it, struct psd_conn, all);
        if (c->link->in.buffer == NULL && c->link->want_buffer != wanting) {
            c->link->want_buffer = wanting;
            psd_conn_balance(t, c);
        }
    }
}

bool psd_buffers_exhausted(const struct psd_task *t)
{
    return t->free_buffer_count == 0 && t->buffer_count >= t->config.segment_buffers_max;
}

void psd_buffer_join(struct psd_task *t, struct psd_conn *c)
{
    if (psd_buffers_exhausted(t)) {
        c->link->want_buffer = true;
        psd_conn_balance(t, c);
    }
}

static bool buffer_lend(struct psd_task *t, struct psd_conn *c)
{
    uint8_t *buffer = NULL;
    if (t->free_buffer_count > 0) {
        buffer = t->free_buffers[--t->free_buffer_count];
    } else if (t->buffer_count < t->config.segment_buffers_max) {
        buffer = psi_aligned_malloc(64, PSI_READER_BUFFER_BYTES);
        t->buffer_count += buffer != NULL;
    }
    if (buffer == NULL) {
        return false;
    }
    c->link->in.buffer = buffer;
    c->segment_begun_ms = c->segment_moved_ms = t->now_ms;
    c->segment_seen = 0;
    if (psd_buffers_exhausted(t)) {
        set_wanting(t, true); /* nobody else is read until one comes back: their bytes would have no place */
    }
    return true;
}

void psd_buffer_return(struct psd_task *t, struct psd_conn *c)
{
    if (c->link->in.buffer == NULL) {
        return;
    }
    bool was_exhausted = psd_buffers_exhausted(t);
    t->free_buffers[t->free_buffer_count++] = c->link->in.buffer;
    c->link->in.buffer = NULL;
    if (was_exhausted) {
        set_wanting(t, false);
    }
}

/* ---- frames ---- */

static void reject_as(struct psd_task *t, struct psd_conn *c, ps_status st, ps_reason reason, const char *why)
{
    psd_log(t, PSI_LOG_WARN, "frame_rejected", PSI_KV("peer", c->text), PSI_KV("op", c->link->in.header.op), PSI_KV("msg", why));
    if (c->link->in.foreign) {
        psd_conn_close(t, c, false);
    } else {
        psd_conn_fault(t, c, st, reason, why);
    }
}

static void reject(struct psd_task *t, struct psd_conn *c, const char *why)
{
    reject_as(t, c, PS_INVALID_ARGUMENT, PS_REASON_NONE, why);
}

static void on_head(struct psd_task *t, struct psd_conn *c)
{
    const struct ps_frame_header *h = &c->link->in.header;
    c->number = NULL;
    c->discard = false;
    c->resend = false;
    psi_buf_clear(&c->body);
    if (h->version != PS_FRAME_VERSION) {
        struct psi_err err;
        PSI_IGNORE(psi_fail_as(&err, PS_INVALID_ARGUMENT, PS_REASON_VERSION,
                               "VERSION: %s speaks protocol version %u, the frame says %u", t->name, PS_FRAME_VERSION,
                               h->version)); /* sent below */
        psd_reply(t, c, PS_OP_HELLO, 0, h->id, 0, &err, 0, NULL, NULL);
        psd_conn_close(t, c, true);
        return;
    }
    const struct psd_row *row = c->row = psd_request_row(c, h);
    bool greeting = h->op == PS_OP_HELLO;
    if ((h->flags & PS_FLAG_VALUE) != 0) {
        reject(t, c, "flag VALUE on a frame to a task"); /* the reader took the body's last 16 bytes for a trailer */
        return;
    }
    if (greeting == c->hello_done && (row == NULL || h->op != PS_OP_CLOSE)) {
        reject(t, c, greeting ? "second HELLO" : "request before HELLO");
        return;
    }
    if (row == NULL) {
        if ((h->flags & PS_FLAG_REPLY) != 0) {
            reject(t, c, "reply to nothing");
            return;
        }
        c->discard = true;
        return;
    }
    struct psi_err err;
    if (psi_form_check(h, psi_reader_meta(&c->link->in), &err) != PS_OK) {
        reject_as(t, c, PS_INVALID_ARGUMENT, err.reason, err.text);
        return;
    }
    if (psd_request_is_in_parts(row)) {
        struct psd_request r = {.header = *h, .meta = psi_reader_meta(&c->link->in)};
        if ((h->flags & PS_FLAG_FIRST) != 0 && psd_request_admit(t, c, row, &r, &err) != PS_OK) {
            r.refusal = &err;
        }
        row->handle(t, c, &r);
    }
}

static void on_segment(struct psd_task *t, struct psd_conn *c)
{
    const struct psi_reader *in = &c->link->in;
    if (c->discard) {
        return;
    }
    if (c->number != NULL) {
        psd_push_segment(t, c, in->payload, in->payload_bytes);
    } else if (psi_buf_append(&c->body, in->payload, in->payload_bytes, NULL) != PS_OK) {
        reject_as(t, c, PS_RESOURCE_EXHAUSTED, PS_REASON_OVERLOADED, "no memory for the body of a request");
    }
}

static void unknown_op(struct psd_task *t, struct psd_conn *c)
{
    const struct ps_frame_header *h = &c->link->in.header;
    struct psi_err err;
    PSI_IGNORE(psi_fail(&err, PS_UNIMPLEMENTED, "UNSUPPORTED: operation %u is not known to %s", h->op, t->name)); /* sent below */
    psd_reply(t, c, h->op, 0, h->id, h->handle, &err, 0, NULL, NULL);
}

static void on_end(struct psd_task *t, struct psd_conn *c)
{
    const struct ps_frame_header *h = &c->link->in.header;
    const struct psd_row *row = c->row;
    if (row == NULL) {
        unknown_op(t, c);
        return;
    }
    if (psd_request_is_in_parts(row)) {
        psd_push_end(t, c);
        return;
    }
    struct psd_request r = {.header = *h, .meta = psi_reader_meta(&c->link->in), .body = c->body.data, .body_bytes = c->body.len};
    struct psi_err err;
    bool refused = psd_request_admit(t, c, row, &r, &err) != PS_OK;
    if (refused && !psd_request_is_numbered(row)) {
        psd_reply(t, c, h->op, 0, h->id, h->handle, &err, 0, NULL, NULL);
        return;
    }
    r.refusal = refused ? &err : NULL;
    row->handle(t, c, &r);
    if (!c->closing && c->body.capacity > PS_SEGMENT_BYTES) {
        size_t max = c->body.max;
        psi_buf_fini(&c->body);
        psi_buf_init(&c->body, max);
    }
}

void psd_dispatch(struct psd_task *t, struct psd_conn *c, const uint8_t *p, size_t n)
{
    struct psi_reader *in = &c->link->in;
    struct psi_err err;
    while (!c->closing) {
        if (c->slow != NULL) {
            if (!psd_slow_keep(c, p, n)) {
                reject_as(t, c, PS_RESOURCE_EXHAUSTED, PS_REASON_OVERLOADED, "no memory for what came behind an INIT");
            }
            return;
        }
        switch (psi_reader_next(in, &p, &n, &err)) {
        case PSI_PIECE_NONE:
            if (n == 0) {
                return;
            }
            if (in->buffer == NULL && !buffer_lend(t, c)) {
                reject_as(t, c, PS_RESOURCE_EXHAUSTED, PS_REASON_OVERLOADED, "no buffer for a cut segment");
            }
            break;
        case PSI_PIECE_HEAD:
            on_head(t, c);
            break;
        case PSI_PIECE_SEGMENT:
            on_segment(t, c);
            psd_buffer_return(t, c);
            break;
        case PSI_PIECE_END:
            on_end(t, c);
            break;
        case PSI_PIECE_BAD:
            reject_as(t, c, PS_INVALID_ARGUMENT, err.reason, err.text);
            break;
        }
    }
}
