/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The send queue when things change under it: a payload that differs between two attempts never tears a segment, a hold cannot
 * change; cancel and drop.
 */
#include "outq_test.h"

/* ---- a payload that changes ---- */

struct seen {
    struct psi_reader r;
    uint8_t *buffer;
    uint64_t began, low, frames, segments;
};

/* Every frame is whole, every segment is of one tick, ticks never go back within a frame. */
static void look(struct seen *seen, const uint8_t *p, size_t n)
{
    struct psi_err err;
    for (;;) {
        switch (psi_reader_next(&seen->r, &p, &n, &err)) {
        case PSI_PIECE_NONE:
            if (n == 0) {
                return;
            }
            seen->r.buffer = seen->buffer;
            break;
        case PSI_PIECE_HEAD: {
            struct ps_pull_reply_meta m;
            memcpy(&m, psi_reader_meta(&seen->r), sizeof(m));
            seen->began = seen->low = m.version;
            break;
        }
        case PSI_PIECE_SEGMENT: {
            uint8_t tick = seen->r.payload[0];
            for (uint32_t i = 0; i < seen->r.payload_bytes - 8; i++) { /* the last bytes may be padding */
                if (seen->r.payload[i] != tick) {
                    fail_msg("torn: byte %u is of tick %u, the first of %u", i, seen->r.payload[i], tick);
                }
            }
            assert_true(tick >= (uint8_t)seen->low);
            seen->low = tick;
            seen->segments++;
            seen->r.buffer = NULL;
            break;
        }
        case PSI_PIECE_END:
            assert_true(seen->r.trailer.version >= seen->low);
            seen->frames++;
            break;
        case PSI_PIECE_BAD:
            fail_msg("the reader refuses: %s", err.text);
            break;
        }
    }
}

TEST(test_changing_payload_is_never_torn)
{
    for (uint64_t seed = 1; seed <= 8; seed++) {
        enum { FRAMES = 6 };
        struct stream streams[FRAMES];
        struct seen seen = {.buffer = malloc(PSI_READER_BUFFER_BYTES)};
        struct wire_random random = {.state = seed};
        struct psi_outq q;
        struct wire out;
        psi_outq_init(&q);
        wire_init(&out);
        psi_reader_init(&seen.r, UINT32_MAX);
        for (uint32_t i = 0; i < FRAMES; i++) {
            stream_init(&streams[i], 2 * PS_SEGMENT_BYTES + 1000 + 8 * i, true, true);
            psi_outq_push_stream(&q, &streams[i].out);
        }
        for (uint64_t tick = 1; tick < 256; tick++) {
            for (uint32_t i = 0; i < FRAMES; i++) {
                streams[i].tick = tick;
                memset(streams[i].memory, (int)tick, STREAM_MAX);
            }
            wire_clear(&out);
            if (!write_once(&q, &out, &random, tick < 200 ? (seed % 2 == 0 ? 2 : 1) : 0, 100000 + 20000 * (size_t)seed)) {
                break;
            }
            /* the hold was copied: that the memory changes before it is written does not matter */
            look(&seen, out.data, out.len);
        }
        assert_int_equal(seen.frames, FRAMES);
        assert_int_equal(seen.segments, FRAMES * 3);
        for (uint32_t i = 0; i < FRAMES; i++) {
            assert_int_equal(streams[i].done, 1);
            stream_fini(&streams[i]);
        }
        free(seen.buffer);
        psi_outq_fini(&q);
        wire_fini(&out);
    }
}

/* The bytes of the hold are those of the attempt, whatever happens to the memory before it is written. */
TEST(test_hold_cannot_change)
{
    struct psi_outq q;
    struct stream s;
    const struct psi_iov *iov = NULL;
    const void *hold = NULL;
    size_t hold_bytes = 0;
    psi_outq_init(&q);
    struct wire *want = wire_new(), *out = wire_new();
    stream_init(&s, 100000, true, true);
    stream_expect(want, &s);
    psi_outq_push_stream(&q, &s.out);
    size_t count = psi_outq_compose(&q, PS_SEND_TRY_BYTES, &iov);
    PSI_IGNORE(append_pieces(out, iov, count, 64 + 5));
    assert_int_equal(psi_outq_accepted(&q, 64 + 5, &hold, &hold_bytes), PS_OK); /* five bytes of the first segment */
    assert_int_equal(hold_bytes, PS_SEGMENT_BYTES + 8 - 5);
    memset(s.memory, 0xee, PS_SEGMENT_BYTES);
    wire_append(out, hold, hold_bytes);
    psi_outq_held_written(&q);
    struct wire_random random = {.state = 1};
    while (write_once(&q, out, &random, 0, PS_SEND_TRY_BYTES)) {
    }
    assert_same(out, want);
    assert_int_equal(s.begun, 1);
    psi_outq_fini(&q);
    stream_fini(&s);
}

TEST(test_cancel)
{
    struct wire_random random = {.state = 1};
    struct psi_outq q;
    struct stream a, b;
    const struct psi_iov *iov = NULL;
    const void *hold = NULL;
    size_t hold_bytes = 0;
    psi_outq_init(&q);
    struct wire *want = wire_new(), *out = wire_new();
    stream_init(&a, 3 * PS_SEGMENT_BYTES, false, false);
    stream_init(&b, 50, false, false);
    stream_expect(want, &a);
    psi_outq_push_stream(&q, &a.out);
    psi_outq_push_stream(&q, &b.out);
    assert_true(psi_outq_cancel(&q, &b.out)); /* behind another */
    assert_int_equal(q.frame_count, 1);
    psi_outq_push_stream(&q, &b.out);
    assert_true(psi_outq_cancel(&q, &a.out)); /* first, not begun */
    assert_true(psi_outq_cancel(&q, &b.out));
    assert_false(psi_outq_ready(&q));
    psi_outq_push_stream(&q, &a.out);
    psi_outq_push_stream(&q, &b.out);
    size_t count = psi_outq_compose(&q, 1, &iov); /* its head and its first segment: one unit */
    assert_int_equal(count, 2);
    size_t unit = iov[0].bytes + iov[1].bytes;
    PSI_IGNORE(append_pieces(out, iov, count, unit));
    assert_int_equal(psi_outq_accepted(&q, unit, &hold, &hold_bytes), PS_OK);
    assert_false(psi_outq_cancel(&q, &a.out)); /* begun: it must go out */
    assert_true(psi_outq_cancel(&q, &b.out));
    while (write_once(&q, out, &random, 1, PS_SEND_TRY_BYTES)) {
    }
    assert_same(out, want);
    assert_int_equal(a.done, 1);
    assert_int_equal(b.done, 0); /* cancelled ones are the owner's again without a word */
    /* a refused attempt moves the first unit to the hold: that has begun, too; the whole of a short frame is gone with it */
    struct stream c;
    stream_init(&c, 3 * PS_SEGMENT_BYTES, false, false);
    psi_outq_push_stream(&q, &c.out);
    PSI_IGNORE(psi_outq_compose(&q, 1, &iov));
    assert_int_equal(psi_outq_accepted(&q, 0, &hold, &hold_bytes), PS_OK);
    assert_false(psi_outq_cancel(&q, &c.out));
    psi_outq_fini(&q);
    assert_int_equal(c.done, -1);
    stream_fini(&c);
    stream_fini(&a);
    stream_fini(&b);
}

TEST(test_drop)
{
    struct psi_outq q;
    struct stream a, b;
    struct ps_frame_header h = control_header(0);
    const struct psi_iov *iov = NULL;
    const void *hold = NULL;
    size_t hold_bytes = 0;
    psi_outq_init(&q);
    stream_init(&a, 2 * PS_SEGMENT_BYTES, true, true);
    stream_init(&b, 20, true, true);
    psi_outq_push_stream(&q, &a.out);
    assert_int_equal(psi_outq_push(&q, &h, NULL, NULL), PS_OK);
    psi_outq_push_stream(&q, &b.out);
    PSI_IGNORE(psi_outq_compose(&q, PS_SEND_TRY_BYTES, &iov));
    assert_int_equal(psi_outq_accepted(&q, 70, &hold, &hold_bytes), PS_OK);
    uint8_t copy[64];
    memcpy(copy, hold, sizeof(copy));
    psi_outq_drop(&q);
    assert_int_equal(a.done, -1);
    assert_int_equal(b.done, -1);
    assert_int_equal(q.queued_bytes, 0);
    assert_int_equal(q.frame_count, 0);
    assert_memory_equal(copy, hold, sizeof(copy)); /* it may be on its way */
    psi_outq_held_written(&q);
    assert_false(psi_outq_ready(&q));
    assert_int_equal(psi_outq_compose(&q, PS_SEND_TRY_BYTES, &iov), 0);
    /* and the queue works again */
    struct wire_random random = {.state = 1};
    struct wire *want = wire_new(), *out = wire_new();
    a.done = 0;
    stream_expect(want, &a);
    psi_outq_push_stream(&q, &a.out);
    while (write_once(&q, out, &random, 2, PS_SEND_TRY_BYTES)) {
    }
    assert_same(out, want);
    psi_outq_fini(&q);
    stream_fini(&a);
    stream_fini(&b);
}

/* Before a last frame: what streams goes, unless half of it is out. */
TEST(test_drop_streams)
{
    struct wire_random random = {.state = 1};
    struct psi_outq q;
    struct stream a;
    struct ps_frame_header h = control_header(0);
    const struct psi_iov *iov = NULL;
    const void *hold = NULL;
    size_t hold_bytes = 0;
    psi_outq_init(&q);
    struct wire *out = wire_new();
    stream_init(&a, 3 * PS_SEGMENT_BYTES, true, true);
    assert_true(psi_outq_drop_streams(&q));
    assert_int_equal(psi_outq_push(&q, &h, NULL, NULL), PS_OK);
    psi_outq_push_stream(&q, &a.out);
    assert_int_equal(psi_outq_push(&q, &h, NULL, NULL), PS_OK);
    assert_true(psi_outq_drop_streams(&q));
    assert_int_equal(a.done, -1);
    assert_int_equal(q.frame_count, 2);
    while (write_once(&q, out, &random, 0, PS_SEND_TRY_BYTES)) {
    }
    assert_int_equal(out->len, 2 * sizeof(h)); /* whole frames, in order */
    a.done = 0;
    psi_outq_push_stream(&q, &a.out);
    PSI_IGNORE(psi_outq_compose(&q, PS_SEND_TRY_BYTES, &iov));
    assert_int_equal(psi_outq_accepted(&q, 70, &hold, &hold_bytes), PS_OK);
    assert_false(psi_outq_drop_streams(&q));
    psi_outq_fini(&q);
    stream_fini(&a);
}
