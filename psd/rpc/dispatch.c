/* SPDX-License-Identifier: Apache-2.0 */
/* Turns received bytes into frames, and frames into requests.
 *
 * Happy path: when the head of a frame has come, its operation is looked up in the table of requests (requests.c). The body of a
 * push goes to push.c in segments; other bodies are gathered. At the end of the frame the handler is called.
 *
 * Failure: a malformed frame, or one that this connection may not send now, closes the connection. An unknown operation is
 * answered UNIMPLEMENTED, and the next frame is read. */
#include "requests.h"

#include "common/form.h"
#include "psd/base/loop.h"
#include "psd/base/times.h"

#include <string.h>

enum {
    WARM_VARIABLES = 256, /* with fewer variables nothing is prefetched: all their memory stays in the cache */
    WARM_BYTES = 512      /* bytes to prefetch of each value and slot; the processor itself prefetches what follows */
};

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

static void time_frame(struct psd_task *t, struct psd_conn *c, bool in_parts)
{
    const struct ps_frame_header *h = &c->link->in.header;
    if ((h->flags & (PS_FLAG_TIMES | PS_FLAG_REPLY)) == PS_FLAG_TIMES) {
        psd_times_ask(t, c);
    } else {
        c->timing = psd_times_find(c, h->id, (h->flags & PS_FLAG_SEQ) != 0);
    }
    if (in_parts && c->timing != NULL) {
        psd_times_begin(t, c);
    }
}

static void on_head(struct psd_task *t, struct psd_conn *c)
{
    const struct ps_frame_header *h = &c->link->in.header;
    c->number = NULL;
    c->discard = false;
    c->resend = false;
    psd_part_end(c);
    psi_buf_clear(&c->body);
    if (h->version != PS_FRAME_VERSION) {
        struct psi_err err;
        PSI_IGNORE(psi_fail_as(&err, PS_INVALID_ARGUMENT, PS_REASON_VERSION,
                               "VERSION: %s speaks protocol version %u, the frame says %u", t->name, PS_FRAME_VERSION,
                               h->version));
        psd_reply(t, c, PS_OP_HELLO, 0, h->id, 0, &err, 0, NULL, NULL);
        psd_conn_close(t, c, true);
        return;
    }
    const struct psd_row *row = c->row = psd_request_row(c, h);
    t->served = t->served || (row != NULL && row->target != PSD_TARGET_NONE);
    bool greeting = h->op == PS_OP_HELLO;
    if ((h->flags & PS_FLAG_VALUE) != 0) {
        reject(t, c, "flag VALUE on a frame to a task"); /* because of the flag, the reader took 16 bytes off the body */
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
    if (((h->flags & PS_FLAG_TIMES) | c->timed_count) != 0) { /* requests without times pay for this test only */
        time_frame(t, c, psd_request_is_in_parts(row));
    }
    if (psd_request_is_in_parts(row)) {
        struct psd_request r = {.header = *h, .meta = psi_reader_meta(&c->link->in)};
        if ((h->flags & PS_FLAG_FIRST) != 0 && psd_request_admit(t, c, row, &r, &err) != PS_OK) {
            r.refusal = &err;
        }
        row->handle(t, c, &r);
    } else if (h->op == PS_OP_PUT_PART) {
        psd_part_head(t, c);
    }
}

static void on_segment(struct psd_task *t, struct psd_conn *c)
{
    const struct psi_reader *in = &c->link->in;
    if (c->discard || in->targeted) {
        return;
    }
    t->served = t->served || c->number != NULL;
    if (c->number != NULL) {
        if (c->timing != NULL) {
            psd_times_begin(t, c);
        }
        psd_push_segment(t, c, in->payload, in->payload_bytes);
        if (c->timing != NULL) {
            psd_times_worked(t, c, c->number != NULL && psd_number_moves(c->number)); /* slices are left (moves.c) */
        }
    } else if (psi_buf_append(&c->body, in->payload, in->payload_bytes, NULL) != PS_OK) {
        reject_as(t, c, PS_RESOURCE_EXHAUSTED, PS_REASON_OVERLOADED, "no memory for the body of a request");
    } else {
        psd_conn_count(t, c);
    }
}

void psd_dispatch_loop(struct psd_task *t)
{
    struct psd_request r;
    while (t->loop != NULL && !t->loop->closing && psd_loop_next(t, &r)) {
        const struct psd_row *row = psd_request_row(t->loop, &r.header);
        PSI_ASSERT(row != NULL); /* this task has made the frame itself */
        row->handle(t, t->loop, &r);
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
    if (c->role == PSD_ROLE_DIRECTORY) {
        t->directory_heard_ms = t->now_ms;
    }
    if (psd_request_is_in_parts(row)) {
        psd_push_end(t, c);
        return;
    }
    if (c->timing != NULL) {
        psd_times_begin(t, c);
    }
    struct psd_request r = {.header = *h, .meta = psi_reader_meta(&c->link->in), .body = c->body.data, .body_bytes = c->body.len};
    struct psi_err err;
    bool refused = psd_request_admit(t, c, row, &r, &err) != PS_OK;
    if (refused && !psd_request_is_kept(row)) {
        psd_reply(t, c, h->op, 0, h->id, h->handle, &err, 0, NULL, NULL);
        return;
    }
    r.refusal = refused ? &err : NULL;
    row->handle(t, c, &r);
    psd_dispatch_loop(t); /* carry out the orders of r to this task itself before c's next request, which may undo them */
    if (c->timing != NULL) {
        psd_times_worked(t, c, true);
    }
    if (!c->closing && c->body.capacity > PS_SEGMENT_BYTES) {
        size_t max = c->body.max;
        psi_buf_fini(&c->body);
        psi_buf_init(&c->body, max);
    }
    psd_conn_count(t, c);
}

/* Prefetch what the small frames in [p, p + n) will read of their variables. The frames are not checked yet. */
static void warm(const struct psd_task *t, const uint8_t *p, size_t n)
{
    uint64_t handles[PSD_WARM_MAX];
    uint32_t count = 0;
    struct ps_frame_header h;
    for (; n >= sizeof(h) && count < PSD_WARM_MAX; p += sizeof(h), n -= sizeof(h)) {
        memcpy(&h, p, sizeof(h));
        size_t rest = (size_t)h.meta_bytes + h.body_bytes;
        if (rest > n - sizeof(h)) {
            break;
        }
        handles[count++] = h.handle;
        p += rest;
        n -= rest;
    }
    psd_variables_warm(&t->store, handles, count, WARM_BYTES);
}

/* Keep n bytes that have come on c for psd_dispatch_rest(), because c is not read now. False: no memory. */
static bool keep_rest(struct psd_conn *c, const uint8_t *p, size_t n, uint64_t came_ns)
{
    static const uint8_t zeros[8] = {0};
    c->rest_at = (uintptr_t)p % sizeof(zeros);
    c->rest_ns = came_ns;
    return n == 0 ||
           (psi_buf_append(&c->rest, zeros, c->rest_at, NULL) == PS_OK && psi_buf_append(&c->rest, p, n, NULL) == PS_OK);
}

void psd_dispatch_rest(struct psd_task *t, struct psd_conn *c)
{
    static const uint8_t nothing[1] = {0};
    struct psi_buf rest = c->rest;
    size_t at = c->rest_at;
    psi_buf_init(&c->rest, rest.max);
    t->came_ns = c->rest_ns;
    psd_dispatch(t, c, rest.data == NULL ? nothing : rest.data + at, rest.len == 0 ? 0 : rest.len - at);
    psi_buf_fini(&rest);
    psd_conn_count(t, c);
    psd_conn_balance(t, c);
}

void psd_dispatch(struct psd_task *t, struct psd_conn *c, const uint8_t *p, size_t n)
{
    struct psi_reader *in = &c->link->in;
    struct psi_err err;
    bool cold = t->store.variable_count >= WARM_VARIABLES;
    while (!c->closing) {
        if (c->slow != NULL || psd_listing_goes_on(c) || psd_held_begins(t, c) || (n > 0 && psd_full_begins(t, c))) {
            if (!keep_rest(c, p, n, t->came_ns)) {
                reject_as(t, c, PS_RESOURCE_EXHAUSTED, PS_REASON_OVERLOADED,
                          "no memory for what came behind a request that waits");
            }
            return;
        }
        switch (psi_reader_next(in, &p, &n, &err)) {
        case PSI_PIECE_NONE:
            if (n == 0) {
                return;
            }
            if (in->buffer == NULL && !psd_buffer_lend(t, c)) {
                reject_as(t, c, PS_RESOURCE_EXHAUSTED, PS_REASON_OVERLOADED, "no buffer for a cut segment");
            }
            break;
        case PSI_PIECE_HEAD:
            on_head(t, c);
            break;
        case PSI_PIECE_SEGMENT:
            on_segment(t, c);
            if (in->buffer != NULL) {
                psd_buffer_return(t, c);
            }
            break;
        case PSI_PIECE_END:
            on_end(t, c);
            if (cold) {
                warm(t, p, n);
                cold = false;
            }
            break;
        case PSI_PIECE_BAD:
            reject_as(t, c, PS_INVALID_ARGUMENT, err.reason, err.text);
            break;
        }
    }
}
