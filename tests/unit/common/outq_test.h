/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the send queue share: a streamed frame and its memory, and the system's side of one write. */
#ifndef TESTS_UNIT_COMMON_OUTQ_TEST_H
#define TESTS_UNIT_COMMON_OUTQ_TEST_H

#include "test.h"
#include "wire_test.h"

#include "common/mem.h"
#include "common/outq.h"

#include <stdlib.h>

enum { STREAM_MAX = 3 * PS_SEGMENT_BYTES + 64 };

/* A streamed frame and its memory; `tick` is what begin and trailer say and what every byte of the memory is. */
struct stream {
    struct psi_out out;
    bool trailer;
    uint64_t tick;
    uint32_t begun;
    int done; /* 0 not yet, 1 sent, -1 dropped */
    struct psi_outq *then_queue;
    struct psi_out *then; /* pushed from done() */
    uint8_t *memory;
};

static inline struct stream *stream_of(struct psi_out *out)
{
    return PSI_CONTAINER_OF(out, struct stream, out);
}

static inline void on_begin(struct psi_out *out)
{
    struct stream *s = stream_of(out);
    struct ps_pull_reply_meta m = {.version = s->tick};
    memcpy(out->head + PS_FRAME_HEADER_BYTES, &m, sizeof(m));
    s->begun++;
}

static const void *on_payload(struct psi_out *out, uint64_t offset, uint32_t bytes)
{
    assert_true(offset + bytes <= out->payload_bytes);
    assert_int_equal(offset % PS_SEGMENT_BYTES, 0);
    return stream_of(out)->memory + offset;
}

static inline void on_trailer(struct psi_out *out, struct ps_pull_trailer *t)
{
    t->version = stream_of(out)->tick;
    t->in_progress = 7;
}

static inline void on_done(struct psi_out *out, bool sent)
{
    struct stream *s = stream_of(out);
    assert_int_equal(s->done, 0);
    s->done = sent ? 1 : -1;
    if (s->then != NULL && sent) {
        psi_outq_push_stream(s->then_queue, s->then);
    }
}

static const struct psi_out_ops with_trailer = {.begin = on_begin, .payload = on_payload, .trailer = on_trailer, .done = on_done};
static const struct psi_out_ops without_trailer = {.payload = on_payload, .done = on_done};

static inline void stream_init(struct stream *s, uint32_t payload_bytes, bool crc, bool trailer)
{
    memset(s, 0, sizeof(*s));
    s->memory = malloc(STREAM_MAX);
    assert_non_null(s->memory);
    for (size_t i = 0; i < STREAM_MAX; i++) {
        s->memory[i] = (uint8_t)(i * 11 + i / 253);
    }
    s->trailer = trailer;
    s->tick = 5;
    s->out.ops = trailer ? &with_trailer : &without_trailer;
    s->out.crc = crc;
    s->out.payload_bytes = payload_bytes;
    s->out.head_bytes = PS_FRAME_HEADER_BYTES + (trailer ? (uint32_t)sizeof(struct ps_pull_reply_meta) : 16u);
    struct ps_frame_header h = {
        .magic = PS_FRAME_MAGIC, .version = PS_FRAME_VERSION, .op = trailer ? PS_OP_PULL : PS_OP_PUSH, .id = 4};
    h.flags = trailer ? PS_FLAG_REPLY : PS_FLAG_SEQ;
    h.meta_bytes = (uint16_t)(s->out.head_bytes - PS_FRAME_HEADER_BYTES);
    memcpy(s->out.head, &h, sizeof(h));
}

static inline void stream_fini(struct stream *s)
{
    free(s->memory);
}

/* What the frame of s must be on the wire. */
static inline void stream_expect(struct wire *want, const struct stream *s)
{
    static const uint8_t zeros[16];
    struct ps_pull_reply_meta m = {.version = s->tick};
    struct ps_pull_trailer t = {.version = s->tick, .in_progress = 7};
    struct wire_frame f = {.op = s->trailer ? PS_OP_PULL : PS_OP_PUSH, .id = 4};
    f.flags = (uint16_t)((s->trailer ? PS_FLAG_REPLY : PS_FLAG_SEQ) | (s->out.crc ? PS_FLAG_CRC : 0));
    f.meta = s->trailer ? (const void *)&m : zeros;
    f.meta_bytes = s->out.head_bytes - PS_FRAME_HEADER_BYTES;
    f.payload = s->memory;
    f.payload_bytes = s->out.payload_bytes;
    f.trailer = s->trailer ? &t : NULL;
    PSI_IGNORE(wire_frame(want, &f));
}

static inline size_t append_pieces(struct wire *out, const struct psi_iov *iov, size_t count, size_t n)
{
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        size_t take = total >= n ? 0 : n - total < iov[i].bytes ? n - total : iov[i].bytes;
        wire_append(out, iov[i].base, take);
        total += iov[i].bytes;
    }
    return total;
}

static inline size_t total_of(const struct psi_iov *iov, size_t count)
{
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        total += iov[i].bytes;
    }
    return total;
}

/* The system's side of one write; how: 0 takes all, 1 takes a random part, 2 takes nothing. Returns false when nothing was ready.
 */
static inline bool write_once(struct psi_outq *q, struct wire *out, struct wire_random *random, int how, size_t max_bytes)
{
    const struct psi_iov *iov = NULL;
    const void *hold = NULL;
    size_t hold_bytes = 0;
    bool ready = psi_outq_ready(q);
    size_t count = psi_outq_compose(q, max_bytes, &iov);
    assert_int_equal(ready, count > 0);
    if (count == 0) {
        return false;
    }
    assert_in_range(count, 1, PSI_OUT_IOV_MAX);
    size_t total = total_of(iov, count);
    assert_in_range(total, 1, max_bytes + PS_SEGMENT_BYTES + 256);
    size_t n = how == 0 ? total : how == 2 ? 0 : (size_t)wire_below(random, total + 1);
    assert_int_equal(append_pieces(out, iov, count, n), total);
    uint64_t sent = q->sent_bytes;
    assert_int_equal(psi_outq_accepted(q, n, &hold, &hold_bytes), PS_OK);
    assert_int_equal(q->sent_bytes - sent, n + hold_bytes);
    if (n == total) {
        assert_int_equal(hold_bytes, 0);
        return true;
    }
    assert_in_range(hold_bytes, 1, PSI_OUT_HOLD_BYTES);
    assert_false(psi_outq_ready(q)); /* until the hold is out nothing else may go */
    assert_int_equal(psi_outq_compose(q, max_bytes, &iov), 0);
    wire_append(out, hold, hold_bytes);
    psi_outq_held_written(q);
    return true;
}

static inline void assert_same(const struct wire *a, const struct wire *b)
{
    assert_int_equal(a->len, b->len);
    for (size_t i = 0; i < a->len; i++) {
        if (a->data[i] != b->data[i]) {
            fail_msg("byte %zu of %zu differs", i, a->len);
        }
    }
}

static inline struct ps_frame_header control_header(uint32_t meta_bytes)
{
    struct ps_frame_header h = {.magic = PS_FRAME_MAGIC, .version = PS_FRAME_VERSION, .op = PS_OP_OPEN, .id = 9, .handle = 2};
    h.flags = PS_FLAG_REPLY;
    h.meta_bytes = (uint16_t)meta_bytes;
    return h;
}

static inline void push_body(struct psi_outq *q, struct wire *want, const struct stream *s, uint32_t n, bool crc)
{
    struct ps_frame_header h = control_header(40);
    assert_int_equal(psi_outq_push_body(q, &h, s->memory, s->memory, n, crc), PS_OK);
    struct wire_frame f = {.op = h.op, .flags = (uint16_t)(h.flags | (crc ? PS_FLAG_CRC : 0)), .id = 9, .handle = 2};
    f.meta = s->memory;
    f.meta_bytes = 40;
    f.payload = s->memory;
    f.payload_bytes = n;
    PSI_IGNORE(wire_frame(want, &f));
}

#endif
