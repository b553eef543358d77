/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of test_edges.c as the project's own encoder makes them (common/outq.h, common/msg.h): one function a frame, each
 * appends it to a byte string. Values are fixed; tests/golden/read_edges.py knows them too, from the documents alone.
 */
#ifndef TESTS_GOLDEN_EDGES_H
#define TESTS_GOLDEN_EDGES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "wire.h"

#include "common/outq.h"

#include <string.h>

/* ---- one frame on its way through the send queue ---- */

struct draft {
    struct psi_out out; /* when it is streamed */
    struct ps_frame_header h;
    _Alignas(8) uint8_t meta[PS_META_BYTES_MAX];
    struct psi_buf body;
    bool streamed, crc;
    struct ps_pull_trailer trailer; /* streamed: version 0 = none */
};

static inline void draft_begin(struct draft *d, uint8_t op, unsigned int flags, uint64_t id)
{
    memset(d, 0, sizeof(*d));
    psi_buf_init(&d->body, PS_FRAME_BODY_MAX);
    d->h = (struct ps_frame_header){
        .magic = PS_FRAME_MAGIC, .version = PS_FRAME_VERSION, .op = op, .flags = (uint16_t)flags, .id = id};
    d->crc = true;
}

static inline void draft_bytes(struct draft *d, const void *p, size_t n)
{
    assert_int_equal(psi_buf_append(&d->body, p, n, NULL), PS_OK);
}

static inline void draft_floats(struct draft *d, size_t count, float value)
{
    d->h.dtype = PS_F32;
    for (size_t i = 0; i < count; i++) {
        draft_bytes(d, &value, sizeof(value));
    }
}

static inline void draft_message(struct draft *d, const pb_msgdesc_t *desc, const void *m)
{
    size_t bytes = 0;
    assert_int_equal(psi_msg_encode(desc, m, d->meta, sizeof(d->meta), &bytes, NULL), PS_OK);
    d->h.meta_bytes = (uint16_t)psi_pad8((uint32_t)bytes);
}

static inline void draft_item(struct draft *d, const pb_msgdesc_t *desc, const void *m)
{
    assert_int_equal(psi_list_append(&d->body, desc, m, NULL), PS_OK);
}

static inline void draft_fixed(struct draft *d, const void *meta, size_t bytes)
{
    memcpy(d->meta + d->h.meta_bytes, meta, bytes);
    d->h.meta_bytes = (uint16_t)(d->h.meta_bytes + psi_pad8((uint32_t)bytes));
}

static inline void draft_reply(struct draft *d, const struct ps_reply_meta *m, const void *result, const char *text)
{
    struct ps_reply_meta full = *m;
    full.text_bytes = (uint16_t)strlen(text);
    draft_fixed(d, &full, sizeof(full));
    draft_fixed(d, result == NULL ? "" : result, m->result_bytes);
    draft_fixed(d, text, strlen(text));
}

static const void *draft_payload(struct psi_out *out, uint64_t offset, uint32_t bytes)
{
    const struct draft *d = PSI_CONTAINER_OF(out, struct draft, out);
    assert_true(offset + bytes <= d->body.len);
    return d->body.data + offset;
}

static inline void draft_trailer(struct psi_out *out, struct ps_pull_trailer *t)
{
    *t = PSI_CONTAINER_OF(out, struct draft, out)->trailer;
}

static inline void draft_done(struct psi_out *out, bool sent)
{
    (void)out;
    assert_true(sent);
}

static const struct psi_out_ops draft_plain_ops = {.payload = draft_payload, .done = draft_done};
static const struct psi_out_ops draft_value_ops = {.payload = draft_payload, .trailer = draft_trailer, .done = draft_done};

/* Through the send queue to w, whole. */
static inline void draft_end(struct draft *d, struct wire *w)
{
    struct psi_outq q;
    psi_outq_init(&q);
    if (d->streamed) {
        d->out.ops = d->trailer.version != 0 ? &draft_value_ops : &draft_plain_ops;
        d->out.crc = d->crc;
        d->out.head_bytes = PS_FRAME_HEADER_BYTES + d->h.meta_bytes;
        d->out.payload_bytes = (uint32_t)d->body.len;
        memcpy(d->out.head, &d->h, sizeof(d->h));
        memcpy(d->out.head + PS_FRAME_HEADER_BYTES, d->meta, d->h.meta_bytes);
        psi_outq_push_stream(&q, &d->out);
    } else if (d->body.len == 0) {
        assert_int_equal(psi_outq_push(&q, &d->h, d->meta, NULL), PS_OK);
    } else {
        assert_int_equal(psi_outq_push_body(&q, &d->h, d->meta, d->body.data, (uint32_t)d->body.len, d->crc), PS_OK);
    }
    const struct psi_iov *iov = NULL;
    size_t count = 0;
    while ((count = psi_outq_compose(&q, PS_SEND_TRY_BYTES, &iov)) > 0) {
        const void *hold = NULL;
        size_t hold_bytes = 0, total = 0;
        for (size_t i = 0; i < count; i++) {
            wire_append(w, iov[i].base, iov[i].bytes);
            total += iov[i].bytes;
        }
        assert_int_equal(psi_outq_accepted(&q, total, &hold, &hold_bytes), PS_OK);
    }
    psi_outq_fini(&q);
    psi_buf_fini(&d->body);
}

/* ---- session ---- */

static inline void make_abandon(struct wire *w)
{
    struct draft d;
    draft_begin(&d, PS_OP_ABANDON, PS_FLAG_SEQ, 7);
    draft_end(&d, w);
}

static inline void make_beat(struct wire *w)
{
    struct draft d;
    draft_begin(&d, PS_OP_BEAT, 0, 40);
    draft_end(&d, w);
}

static inline void make_durable(struct wire *w)
{
    struct draft d;
    draft_begin(&d, PS_OP_DURABLE, 0, 0);
    d.h.offset = 1000;
    draft_end(&d, w);
}

static inline void make_close(struct wire *w)
{
    struct draft d;
    struct ps_reply_meta m = {.durable = 0};
    draft_begin(&d, PS_OP_CLOSE, PS_FLAG_REPLY, 0);
    d.h.offset = PS_INVALID_ARGUMENT;
    draft_reply(&d, &m, NULL, "PUSH: flag MORE has no place there");
    draft_end(&d, w);
}

/* ---- variables ---- */

static inline ps_v1_Optimizer adam(void)
{
    return (ps_v1_Optimizer){.kind = PS_OPT_ADAM, .learning_rate = 0.002, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};
}

static inline void make_seal(struct wire *w)
{
    struct draft d;
    draft_begin(&d, PS_OP_SEAL, 0, 12);
    ps_v1_Seal m = {.chief_number = 6};
    draft_message(&d, &ps_v1_Seal_msg, &m);
    ps_v1_HandleItem item = {.handle = 17, .creation = 78};
    draft_item(&d, &ps_v1_HandleItem_msg, &item);
    draft_end(&d, w);
}

static inline void make_wait(struct wire *w)
{
    struct draft d;
    draft_begin(&d, PS_OP_WAIT, 0, 13);
    ps_v1_Wait m = {.timeout_ms = 30000, .condition = 2};
    draft_message(&d, &ps_v1_Wait_msg, &m);
    ps_v1_HandleItem item = {.handle = 17, .creation = 78};
    draft_item(&d, &ps_v1_HandleItem_msg, &item);
    draft_end(&d, w);
}

static inline void make_call(struct wire *w)
{
    struct draft d;
    draft_begin(&d, PS_OP_CALL, 0, 15);
    ps_v1_Call m = {.timeout_ms = 5000, .in_bytes = 5};
    PSI_BYTES_SET(m.name, "psd.echo");
    draft_message(&d, &ps_v1_Call_msg, &m);
    draft_bytes(&d, "hello\0\0\0", 8);
    draft_end(&d, w);
}

static inline void make_call_large(struct wire *w)
{
    struct draft d;
    draft_begin(&d, PS_OP_CALL, 0, 16);
    ps_v1_Call m = {.timeout_ms = 5000, .in_bytes = 200003, .out_bytes = 300000};
    PSI_BYTES_SET(m.name, "psd.echo");
    draft_message(&d, &ps_v1_Call_msg, &m);
    draft_bytes(&d, "its head", 8);
    draft_end(&d, w);
}

static inline void make_called(struct wire *w)
{
    struct draft d;
    const uint64_t bytes = 5;
    struct ps_reply_meta m = {.result_bytes = 8};
    draft_begin(&d, PS_OP_CALL, PS_FLAG_REPLY, 15);
    draft_reply(&d, &m, &bytes, "");
    draft_bytes(&d, "hello\0\0\0", 8);
    draft_end(&d, w);
}

/* ---- hot ---- */

enum { SEGMENT_FLOATS = PS_SEGMENT_BYTES / 4, TWO_SEGMENTS = SEGMENT_FLOATS + 3 };

static inline void draft_push(struct draft *d, uint8_t op, unsigned int flags, uint64_t number, uint64_t total, float scale)
{
    draft_begin(d, op, flags | PS_FLAG_SEQ, number);
    d->streamed = true;
    d->h.handle = 17;
    if ((flags & PS_FLAG_FIRST) != 0) {
        struct ps_push_meta m = {.total_elements = total, .scale = scale};
        draft_fixed(d, &m, sizeof(m));
    }
}

static inline void make_push_single(struct wire *w)
{
    struct draft d;
    draft_push(&d, PS_OP_PUSH, PS_FLAG_FIRST | PS_FLAG_LAST, 2, 5, 0.5F);
    d.crc = false;
    for (int i = 1; i <= 5; i++) {
        draft_floats(&d, 1, (float)i / 4.0F);
    }
    draft_end(&d, w);
}

static inline void make_push_first(struct wire *w)
{
    struct draft d;
    draft_push(&d, PS_OP_PUSH, PS_FLAG_FIRST, 4, TWO_SEGMENTS, 1.0F);
    draft_floats(&d, SEGMENT_FLOATS, 1.0F);
    draft_end(&d, w);
}

static inline void make_push_continuation(struct wire *w)
{
    struct draft d;
    draft_push(&d, PS_OP_PUSH, PS_FLAG_LAST, 4, TWO_SEGMENTS, 1.0F);
    d.h.offset = SEGMENT_FLOATS;
    draft_floats(&d, 3, -2.0F);
    draft_end(&d, w);
}

static inline void make_pull(struct wire *w)
{
    struct draft d;
    struct ps_pull_meta m = {.elements = 5};
    draft_begin(&d, PS_OP_PULL, PS_FLAG_CRC, 14);
    d.h.handle = 17;
    d.h.dtype = PS_F32;
    d.h.offset = 20;
    draft_fixed(&d, &m, sizeof(m));
    draft_end(&d, w);
}

static inline void make_pull_reply(struct wire *w)
{
    struct draft d;
    struct ps_pull_reply_meta m = {.version = 12};
    draft_begin(&d, PS_OP_PULL, PS_FLAG_REPLY, 14);
    d.streamed = true;
    d.h.handle = 17;
    draft_fixed(&d, &m, sizeof(m));
    draft_floats(&d, 5, 0.25F);
    d.trailer = (struct ps_pull_trailer){.version = 13, .in_progress = 2};
    draft_end(&d, w);
}

static inline void make_value(struct wire *w)
{
    struct draft d;
    struct ps_pull_reply_meta m = {.version = 13, .in_progress = 1};
    draft_begin(&d, PS_OP_PUSHPULL, PS_FLAG_REPLY | PS_FLAG_SEQ | PS_FLAG_VALUE, 6);
    d.streamed = true;
    d.h.handle = 17;
    d.h.offset = SEGMENT_FLOATS;
    draft_fixed(&d, &m, sizeof(m));
    draft_floats(&d, 3, 0.75F);
    d.trailer = (struct ps_pull_trailer){.version = 13, .in_progress = 1};
    draft_end(&d, w);
}

static inline void make_add(struct wire *w)
{
    struct draft d;
    const int64_t one = 1;
    struct ps_push_meta m = {.total_elements = 1, .scale = 1.0F};
    draft_begin(&d, PS_OP_ADD, PS_FLAG_SEQ | PS_FLAG_FIRST | PS_FLAG_LAST, 8);
    d.h.handle = 18;
    d.h.dtype = PS_I64;
    draft_fixed(&d, &m, sizeof(m));
    draft_bytes(&d, &one, sizeof(one));
    draft_end(&d, w);
}

/* number 9 */
static inline void make_subtract_first(struct wire *w)
{
    struct draft d;
    draft_push(&d, PS_OP_ADD, PS_FLAG_FIRST, 9, TWO_SEGMENTS, -1.0F);
    draft_floats(&d, SEGMENT_FLOATS, 1.0F);
    draft_end(&d, w);
}

static inline void make_subtract_continuation(struct wire *w)
{
    struct draft d;
    draft_push(&d, PS_OP_ADD, PS_FLAG_LAST, 9, TWO_SEGMENTS, -1.0F);
    d.h.offset = SEGMENT_FLOATS;
    draft_floats(&d, 3, -2.0F);
    draft_end(&d, w);
}

static inline void make_error_reply(struct wire *w)
{
    struct draft d;
    struct ps_reply_meta m = {.version = 14, .applied = PS_MAYBE_PARTLY_APPLIED, .reason = PS_REASON_NOT_FINITE};
    draft_begin(&d, PS_OP_PUSH, PS_FLAG_REPLY | PS_FLAG_SEQ, 4);
    d.h.handle = 17;
    d.h.offset = PS_INVALID_ARGUMENT;
    draft_reply(&d, &m, NULL, "gradient of 'layer1/w': element 16385 is NaN or infinite");
    draft_end(&d, w);
}

static inline void make_busy_reply(struct wire *w)
{
    struct draft d;
    struct ps_reply_meta m = {.reason = PS_REASON_OVERLOADED, .retry_after_ms = 20};
    draft_begin(&d, PS_OP_PUSH, PS_FLAG_REPLY | PS_FLAG_SEQ, 9);
    d.h.handle = 17;
    d.h.offset = PS_RESOURCE_EXHAUSTED;
    draft_reply(&d, &m, NULL, "/job:ps/task:1: 9 pushes in progress, 8 of this session");
    draft_end(&d, w);
}

/* ---- directory ---- */

static inline void create_item(struct draft *d)
{
    ps_v1_CreateItem m = {.dtype = PS_F32, .dims_count = 2, .has_optimizer = true, .task = 1, .pinned = true};
    m.dims[0] = 64;
    m.dims[1] = 10;
    m.optimizer = adam();
    PSI_BYTES_SET(m.container, "localhost");
    PSI_BYTES_SET(m.name, "layer1/w");
    PSI_BYTES_SET(m.job, "ps");
    draft_item(d, &ps_v1_CreateItem_msg, &m);
}

static inline void make_list(struct wire *w)
{
    struct draft d;
    draft_begin(&d, PS_OP_LIST, PS_FLAG_MORE, 1);
    ps_v1_ListItem m = {.dtype = PS_F32, .dims_count = 2, .optimizer_kind = PS_OPT_ADAM};
    m.dims[0] = 64;
    m.dims[1] = 10;
    PSI_BYTES_SET(m.container, "localhost");
    PSI_BYTES_SET(m.name, "layer1/w");
    draft_item(&d, &ps_v1_ListItem_msg, &m);
    draft_end(&d, w);
}

static inline void make_task_create(struct wire *w)
{
    struct draft d;
    draft_begin(&d, PS_OP_TASK_CREATE, 0, 2);
    create_item(&d);
    draft_end(&d, w);
}

static inline void make_task_created(struct wire *w)
{
    struct draft d;
    const uint8_t created = 1;
    struct ps_reply_meta m = {.result_bytes = 1};
    draft_begin(&d, PS_OP_TASK_CREATE, PS_FLAG_REPLY, 2);
    draft_reply(&d, &m, &created, "");
    draft_end(&d, w);
}

static inline void make_task_displaced(struct wire *w)
{
    struct draft d;
    struct ps_reply_meta m = {.reason = PS_REASON_DISPLACED, .retry_after_ms = 1000};
    draft_begin(&d, PS_OP_HELLO, PS_FLAG_REPLY, 0);
    d.h.offset = PS_FAILED_PRECONDITION;
    draft_reply(&d, &m, NULL, "/job:ps/task:1 is process 22 on right now, which came after this one");
    draft_end(&d, w);
}

#endif
