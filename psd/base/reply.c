/* SPDX-License-Identifier: Apache-2.0 */
/* Sends replies, lists cut into frames, and requests of this task. A reply's meta: a ps_reply_meta, then result, error text and
 * times, where there are any. Without memory for a reply the connection is closed: the client reconnects and asks again. */
#include "base.h"
#include "loop.h"
#include "times.h"

#include <string.h>

enum {
    TEXT_ON_WIRE_MAX =
        PS_META_BYTES_MAX - (int)sizeof(struct ps_reply_meta) - PS_RESULT_BYTES_MAX - (int)sizeof(struct ps_times) - 8
};
enum { LIST_RETRY_MS = 100 }; /* ms after which the client asks for a refused list again */
_Static_assert(TEXT_ON_WIRE_MAX > PSI_ERR_TEXT_MAX, "an error's text fits into a reply");

/* Queue a frame. Without memory the connection is closed. */
static void send_frame(struct psd_task *t, struct psd_conn *c, const struct ps_frame_header *h, const void *meta)
{
    if ((c->role == PSD_ROLE_SELF ? psd_loop_push(t, h, meta, NULL, 0) : psi_outq_push(&c->link->out, h, meta, NULL)) != PS_OK) {
        psd_conn_close(t, c, false);
    } else if (c->role != PSD_ROLE_SELF) {
        psd_mark_dirty(t, c);
    }
}

/* Copy n bytes, with zeros up to the next multiple of 8. Returns the length with the zeros. */
static size_t put(uint8_t *at, const void *from, size_t n)
{
    size_t padded = psi_pad8((uint32_t)n);
    if (n > 0) {
        memset(at + padded - 8, 0, 8);
        memcpy(at, from, n);
    }
    return padded;
}

/* Append the times of the request to the meta at `at`, if the client asked for them. Returns the bytes appended. */
static size_t put_times(struct psd_task *t, struct psd_conn *c, uint64_t id, uint16_t flags, uint8_t *at)
{
    struct ps_times times;
    return psd_times_take(t, c, id, (flags & PS_FLAG_SEQ) != 0, &times) ? put(at, &times, sizeof(times)) : 0;
}

void psd_reply(struct psd_task *t, struct psd_conn *c, uint8_t op, uint16_t extra_flags, uint64_t id, uint32_t handle,
               const struct psi_err *err, uint32_t retry_after_ms, const struct ps_reply_meta *meta, const uint8_t *result)
{
    if (c->closing) {
        return;
    }
    _Alignas(8) uint8_t bytes[PS_META_BYTES_MAX]; /* not zeroed as a whole: usually 40 bytes are sent */
    struct ps_reply_meta m = {0};
    if (meta != NULL) {
        m = *meta;
    }
    m.retry_after_ms = retry_after_ms;
    size_t text_bytes = 0;
    if (err != NULL) {
        m.applied = (uint8_t)err->applied;
        m.reason = (uint16_t)err->reason;
        text_bytes = strlen(err->text);
        m.text_bytes = (uint16_t)text_bytes;
    }
    size_t at = put(bytes, &m, sizeof(m));
    at += put(bytes + at, result, m.result_bytes);
    at += put(bytes + at, text_bytes > 0 ? err->text : NULL, text_bytes);
    const size_t times = c->timed_count != 0 ? put_times(t, c, id, extra_flags, bytes + at) : 0;
    at += times;
    struct ps_frame_header h = {.magic = PS_FRAME_MAGIC,
                                .version = PS_FRAME_VERSION,
                                .op = op,
                                .flags = (uint16_t)(PS_FLAG_REPLY | extra_flags | (times > 0 ? PS_FLAG_TIMES : 0)),
                                .id = id,
                                .handle = handle,
                                .offset = err == NULL ? PS_OK : (uint64_t)err->code,
                                .meta_bytes = (uint16_t)at};
    send_frame(t, c, &h, bytes);
}

void psd_reply_body(struct psd_task *t, struct psd_conn *c, uint8_t op, uint64_t id, const void *result, uint16_t result_bytes,
                    const void *body, uint32_t body_bytes)
{
    _Alignas(8) uint8_t meta[sizeof(struct ps_reply_meta) + PS_RESULT_BYTES_MAX + sizeof(struct ps_times)];
    struct ps_reply_meta m = {.result_bytes = result_bytes};
    if (c->closing) {
        return;
    }
    size_t at = put(meta, &m, sizeof(m));
    at += put(meta + at, result, result_bytes);
    const size_t times = c->timed_count != 0 ? put_times(t, c, id, 0, meta + at) : 0;
    at += times;
    struct ps_frame_header h = {.magic = PS_FRAME_MAGIC,
                                .version = PS_FRAME_VERSION,
                                .op = op,
                                .flags = (uint16_t)(PS_FLAG_REPLY | (times > 0 ? PS_FLAG_TIMES : 0)),
                                .id = id,
                                .meta_bytes = (uint16_t)at};
    if (psi_outq_push_body(&c->link->out, &h, meta, body, body_bytes, true) != PS_OK) {
        psd_conn_close(t, c, false);
        return;
    }
    psd_mark_dirty(t, c);
}

void psd_conn_fault(struct psd_task *t, struct psd_conn *c, ps_status st, ps_reason reason, const char *why)
{
    struct psi_err err;
    PSI_IGNORE(psi_fail_as(&err, st, reason, "%s", why)); /* sent below */
    psd_reply(t, c, PS_OP_CLOSE, 0, 0, 0, &err, 0, NULL, NULL);
    /* while connections are scarce, c is closed without sending its queue: to wait for that would keep a new connection out */
    psd_conn_close(t, c, !t->crowded);
}

void psd_list_refuse(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    struct psi_err err;
    PSI_IGNORE(psi_fail(&err, PS_RESOURCE_EXHAUSTED, "%s: no memory for a list", t->name)); /* sent below */
    psd_reply(t, c, r->header.op, 0, r->header.id, 0, &err, LIST_RETRY_MS, NULL, NULL);
}

void psd_list_begin(struct psd_list *l, struct psd_task *t, struct psd_conn *c, uint8_t op, uint16_t flags, uint64_t id)
{
    memset(l, 0, sizeof(*l));
    l->task = t;
    l->conn = c;
    l->op = op;
    l->flags = flags;
    l->id = id;
    psi_buf_init(&l->buf, PS_CONTROL_BODY_MAX);
}

static void list_flush(struct psd_list *l, bool more)
{
    if (l->failed || l->conn->closing) {
        return;
    }
    const struct ps_reply_meta m = {0};
    _Alignas(8) uint8_t meta[sizeof(m) + sizeof(struct ps_times)];
    const size_t at = (l->flags & PS_FLAG_REPLY) != 0 ? put(meta, &m, sizeof(m)) : 0;
    const bool timed = at > 0 && !more && l->conn->timed_count != 0;
    const size_t times = timed ? put_times(l->task, l->conn, l->id, 0, meta + at) : 0;
    struct ps_frame_header h = {.magic = PS_FRAME_MAGIC,
                                .version = PS_FRAME_VERSION,
                                .op = l->op,
                                .flags = (uint16_t)(l->flags | (more ? PS_FLAG_MORE : 0) | (times > 0 ? PS_FLAG_TIMES : 0)),
                                .id = l->id,
                                .meta_bytes = (uint16_t)(at + times)};
    if (l->conn->role == PSD_ROLE_SELF) {
        l->failed = psd_loop_push(l->task, &h, meta, l->buf.data, l->buf.len) != PS_OK;
    } else {
        l->failed = psi_outq_push_body(&l->conn->link->out, &h, meta, l->buf.data, (uint32_t)l->buf.len, true) != PS_OK;
        psd_mark_dirty(l->task, l->conn);
    }
    psi_buf_clear(&l->buf);
}

void psd_list_add(struct psd_list *l, const pb_msgdesc_t *d, const void *m)
{
    psd_list_add_with(l, d, m, NULL, 0);
}

void psd_list_add_with(struct psd_list *l, const pb_msgdesc_t *d, const void *m, const uint8_t *more, size_t more_bytes)
{
    if (l->buf.len + PS_LIST_ITEM_BYTES_MAX > PS_CONTROL_BODY_MAX) {
        list_flush(l, true);
    }
    if (!l->failed && psi_list_append_with(&l->buf, d, m, more, more_bytes, NULL) != PS_OK) {
        l->failed = true;
    }
}

static void list_end(struct psd_list *l, bool more)
{
    list_flush(l, more);
    psi_buf_fini(&l->buf);
    if (l->failed) {
        psd_conn_close(l->task, l->conn, false);
    }
}

void psd_list_end(struct psd_list *l)
{
    list_end(l, false);
}

void psd_list_pause(struct psd_list *l)
{
    list_end(l, true);
}

void psd_list_one(struct psd_task *t, struct psd_conn *c, uint8_t op, uint16_t flags, uint64_t id, const pb_msgdesc_t *d,
                  const void *m)
{
    struct psd_list l;
    psd_list_begin(&l, t, c, op, flags, id);
    psd_list_add(&l, d, m);
    psd_list_end(&l);
}

ps_status psd_reply_error(const struct psd_request *r, struct psi_err *err)
{
    struct ps_reply_meta m = {0};
    if (r->header.offset == PS_OK) {
        return PS_OK;
    }
    memcpy(&m, r->meta, sizeof(m));
    ps_status st = psi_fail_as(err, (ps_status)r->header.offset, (ps_reason)m.reason, "%.*s", (int)m.text_bytes,
                               (const char *)r->meta + sizeof(m) + psi_pad8(m.result_bytes));
    err->applied = (ps_applied)m.applied;
    return st;
}

uint64_t psd_ask_id(const struct psd_conn *c)
{
    return c->next_id + 1;
}

void psd_ask_bare(struct psd_task *t, struct psd_conn *c, uint8_t op)
{
    struct ps_frame_header h = {.magic = PS_FRAME_MAGIC, .version = PS_FRAME_VERSION, .op = op, .id = ++c->next_id};
    send_frame(t, c, &h, NULL);
}

void psd_ask_meta(struct psd_task *t, struct psd_conn *c, uint8_t op, const pb_msgdesc_t *d, const void *m)
{
    _Alignas(8) uint8_t meta[PS_META_BYTES_MAX] = {0};
    size_t bytes = 0;
    struct psi_err err;
    ps_status st = psi_msg_encode(d, m, meta, sizeof(meta) - 8, &bytes, &err);
    PSI_ASSERT(st == PS_OK); /* fits: control.options bounds each field */
    struct ps_frame_header h = {.magic = PS_FRAME_MAGIC,
                                .version = PS_FRAME_VERSION,
                                .op = op,
                                .id = op == PS_OP_HELLO ? 0 : ++c->next_id,
                                .meta_bytes = (uint16_t)psi_pad8((uint32_t)bytes)};
    send_frame(t, c, &h, meta);
}
