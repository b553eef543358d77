/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames that small ones overtake: until it is their turn, which comes whatever is queued behind them.
 */
#include "outq_test.h"

enum { BYTES = 2 * PS_SEGMENT_BYTES };

struct late {
    struct wire_random random;
    struct psi_outq q;
    struct wire *want, *out;
    struct stream a, b, small;
};

static void begin(struct late *l)
{
    l->random.state = 1;
    psi_outq_init(&l->q);
    l->want = wire_new();
    l->out = wire_new();
    stream_init(&l->a, BYTES, true, true);
    stream_init(&l->b, BYTES + 9, true, true);
    stream_init(&l->small, 9, true, true);
}

/* All goes out, and is what was wanted. */
static void end(struct late *l)
{
    while (write_once(&l->q, l->out, &l->random, 1, 70000)) {
    }
    assert_same(l->out, l->want);
    assert_int_equal(l->q.frame_count, 0);
    assert_false(psi_outq_waiting(&l->q));
    psi_outq_fini(&l->q);
    stream_fini(&l->a);
    stream_fini(&l->b);
    stream_fini(&l->small);
}

TEST(test_small_ones_go_first)
{
    struct late l;
    begin(&l);
    psi_outq_push_late(&l.q, &l.a.out);
    assert_true(psi_outq_ready(&l.q));
    assert_true(psi_outq_waiting(&l.q));
    psi_outq_push_late(&l.q, &l.b.out);
    push_body(&l.q, l.want, &l.small, 100, true);
    psi_outq_push_stream(&l.q, &l.small.out);
    assert_int_equal(l.q.frame_count, 4);
    stream_expect(l.want, &l.small);
    stream_expect(l.want, &l.a);
    stream_expect(l.want, &l.b);
    end(&l);
}

/* What has begun is not cut in two. */
TEST(test_behind_the_one_that_has_begun)
{
    struct late l;
    const struct psi_iov *iov = NULL;
    const void *hold = NULL;
    size_t hold_bytes = 0;
    begin(&l);
    psi_outq_push_late(&l.q, &l.a.out);
    psi_outq_push_late(&l.q, &l.b.out);
    size_t count = psi_outq_compose(&l.q, 1, &iov);
    size_t unit = total_of(iov, count);
    assert_true(unit < BYTES);
    PSI_IGNORE(append_pieces(l.out, iov, count, unit));
    assert_int_equal(psi_outq_accepted(&l.q, unit, &hold, &hold_bytes), PS_OK);
    stream_expect(l.want, &l.a);
    psi_outq_push_stream(&l.q, &l.small.out);
    stream_expect(l.want, &l.small);
    push_body(&l.q, l.want, &l.small, 100, true);
    stream_expect(l.want, &l.b);
    end(&l);
}

/* Whoever goes on with small ones does not hold it up for good. */
TEST(test_its_turn_comes)
{
    struct late l;
    begin(&l);
    psi_outq_push_late(&l.q, &l.a.out);
    psi_outq_push_late(&l.q, &l.b.out);
    for (size_t late = 0; late < 2; late++) {
        for (size_t bytes = 0; bytes < (late == 0 ? l.a : l.b).out.payload_bytes;) {
            size_t before = l.want->len;
            push_body(&l.q, l.want, &l.a, PS_SEGMENT_BYTES, true);
            bytes += l.want->len - before;
        }
        stream_expect(l.want, late == 0 ? &l.a : &l.b);
    }
    push_body(&l.q, l.want, &l.a, PS_SEGMENT_BYTES, true);
    end(&l);
}

TEST(test_cancelled_and_dropped)
{
    struct late l;
    begin(&l);
    psi_outq_push_late(&l.q, &l.a.out);
    psi_outq_push_late(&l.q, &l.b.out);
    assert_true(psi_outq_cancel(&l.q, &l.a.out));
    assert_int_equal(l.q.frame_count, 1);
    assert_int_equal(l.a.done, 0);
    push_body(&l.q, l.want, &l.small, 100, true);
    assert_true(psi_outq_drop_streams(&l.q));
    assert_int_equal(l.b.done, -1);
    assert_int_equal(l.q.frame_count, 1);
    psi_outq_push_late(&l.q, &l.a.out);
    psi_outq_drop(&l.q);
    assert_int_equal(l.a.done, -1);
    assert_int_equal(l.q.frame_count, 0);
    assert_false(psi_outq_waiting(&l.q));
    l.want->len = 0;
    end(&l);
}

/* Of any mixture every frame goes out whole and once, the late ones in their order and the others in theirs. */
TEST(test_each_kind_keeps_its_order)
{
    enum { FRAMES = 60 };
    static struct stream streams[FRAMES];
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct wire_random random = {.state = seed};
        struct psi_outq q;
        struct wire *out = wire_new();
        psi_outq_init(&q);
        for (uint32_t i = 0; i < FRAMES; i++) {
            struct stream *s = &streams[i];
            bool late = wire_below(&random, 2) == 0;
            stream_init(s, late ? BYTES + (uint32_t)wire_below(&random, 9) : (uint32_t)wire_below(&random, 99), true, true);
            s->tick = 1 + i + (late ? 1000 : 0);
            (late ? psi_outq_push_late : psi_outq_push_stream)(&q, &s->out);
            if (wire_below(&random, 3) == 0) {
                PSI_IGNORE(write_once(&q, out, &random, (int)wire_below(&random, 3), 70000));
            }
        }
        while (write_once(&q, out, &random, (int)wire_below(&random, 3), 70000)) {
        }
        uint64_t last[2] = {0, 0};
        uint32_t frames = 0;
        for (size_t at = 0; at < out->len; frames++) {
            struct ps_frame_header h;
            struct ps_pull_reply_meta m;
            memcpy(&h, out->data + at, sizeof(h));
            memcpy(&m, out->data + at + sizeof(h), sizeof(m));
            assert_true(m.version > last[m.version > 1000]);
            last[m.version > 1000] = m.version;
            at += sizeof(h) + h.meta_bytes + h.body_bytes;
        }
        assert_int_equal(frames, FRAMES);
        for (uint32_t i = 0; i < FRAMES; i++) {
            assert_int_equal(streams[i].done, 1);
            stream_fini(&streams[i]);
        }
        psi_outq_fini(&q);
    }
}
