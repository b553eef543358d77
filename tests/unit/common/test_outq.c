/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The send queue: what leaves it is what a plain encoder writes (tests/lib/wire.c), for every size and kind of frame and whatever
 * the system takes at a time; order, accounting, no allocation in steady state, no memory.
 */
#include "outq_test.h"

static const uint32_t sizes[] = {0,
                                 1,
                                 7,
                                 8,
                                 9,
                                 4096,
                                 PS_SEGMENT_BYTES - 1,
                                 PS_SEGMENT_BYTES,
                                 PS_SEGMENT_BYTES + 1,
                                 2 * PS_SEGMENT_BYTES - 1,
                                 2 * PS_SEGMENT_BYTES,
                                 2 * PS_SEGMENT_BYTES + 1,
                                 3 * PS_SEGMENT_BYTES - 1,
                                 3 * PS_SEGMENT_BYTES,
                                 3 * PS_SEGMENT_BYTES + 1};

static void push_ready_body(struct psi_outq *q, struct wire *want, const struct stream *s, uint32_t n)
{
    struct ps_frame_header h = control_header(8);
    h.body_bytes = psi_pad8(n);
    assert_int_equal(psi_outq_push(q, &h, s->memory, s->memory), PS_OK);
    struct wire_frame f = {.op = h.op, .flags = h.flags, .id = 9, .handle = 2, .meta = s->memory, .meta_bytes = 8};
    f.payload = s->memory;
    f.payload_bytes = psi_pad8(n);
    PSI_IGNORE(wire_frame(want, &f));
}

/* Every kind and size alone, all taken at once; then all in one queue under every way of taking bytes. */
TEST(test_composes_what_the_encoder_writes)
{
    struct wire_random random = {.state = 1};
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        for (unsigned how = 0; how < 6; how++) {
            struct psi_outq q;
            struct wire want, out;
            struct stream s;
            psi_outq_init(&q);
            wire_init(&want);
            wire_init(&out);
            stream_init(&s, sizes[i], (how & 1) != 0, (how & 2) != 0);
            if (how < 4) {
                stream_expect(&want, &s);
                psi_outq_push_stream(&q, &s.out);
                assert_int_equal(q.queued_bytes, 0);
            } else {
                push_body(&q, &want, &s, sizes[i], (how & 1) != 0);
                assert_int_equal(q.queued_bytes, want.len);
            }
            assert_int_equal(q.frame_count, 1);
            while (write_once(&q, &out, &random, 0, PS_SEND_TRY_BYTES)) {
            }
            assert_same(&out, &want);
            assert_int_equal(s.done, how < 4 ? 1 : 0);
            assert_int_equal(q.frame_count, 0);
            assert_int_equal(q.queued_bytes, 0);
            assert_int_equal(q.sent_bytes, want.len);
            psi_outq_fini(&q);
            stream_fini(&s);
            wire_fini(&out);
            wire_fini(&want);
        }
    }
}

static void mixed_queue(uint64_t seed, int how, size_t max_bytes)
{
    enum { FRAMES = 40 };
    static struct stream streams[FRAMES];
    struct wire_random random = {.state = seed};
    struct psi_outq q;
    struct wire want, out;
    psi_outq_init(&q);
    wire_init(&want);
    wire_init(&out);
    size_t queued = 0;
    for (uint32_t i = 0; i < FRAMES; i++) {
        struct stream *s = &streams[i];
        uint32_t n =
            wire_below(&random, 3) == 0 ? sizes[wire_below(&random, ARRAY_COUNT(sizes))] : (uint32_t)wire_below(&random, 300);
        stream_init(s, n, wire_below(&random, 2) == 0, wire_below(&random, 2) == 0);
        size_t before = want.len;
        switch (wire_below(&random, 3)) {
        case 0:
            stream_expect(&want, s);
            psi_outq_push_stream(&q, &s->out);
            break;
        case 1:
            push_body(&q, &want, s, n, s->out.crc);
            queued += want.len - before;
            s->done = 1;
            break;
        default:
            push_ready_body(&q, &want, s, n);
            queued += want.len - before;
            s->done = 1;
        }
        assert_int_equal(q.queued_bytes, queued);
        assert_int_equal(q.frame_count, i + 1);
    }
    for (int idle = 0; write_once(&q, &out, &random, how == 3 ? (int)wire_below(&random, 3) : how, max_bytes); idle++) {
        assert_in_range(idle, 0, 20000); /* it comes to an end, also when nothing is ever taken but by the hold */
    }
    assert_same(&out, &want);
    assert_int_equal(q.queued_bytes, 0);
    assert_int_equal(q.frame_count, 0);
    for (uint32_t i = 0; i < FRAMES; i++) {
        assert_int_equal(streams[i].done, 1);
        stream_fini(&streams[i]);
    }
    psi_outq_fini(&q);
    wire_fini(&out);
    wire_fini(&want);
}

TEST(test_any_way_of_taking_gives_the_same_bytes)
{
    for (uint64_t seed = 1; seed <= 12; seed++) {
        for (int how = 0; how < 4; how++) {
            mixed_queue(seed, how, PS_SEND_TRY_BYTES);
        }
        mixed_queue(seed + 100, 1, 1); /* at least one unit at a time */
        mixed_queue(seed + 200, 3, 70000);
    }
}

/* A frame whose end lets its owner queue the next one: order is kept. */
TEST(test_push_from_done)
{
    for (int how = 0; how < 3; how++) {
        struct wire_random random = {.state = 9};
        struct psi_outq q;
        struct stream s[4];
        struct wire want, out;
        psi_outq_init(&q);
        wire_init(&want);
        wire_init(&out);
        for (uint32_t i = 0; i < 4; i++) {
            stream_init(&s[i], 40000 * i, true, true);
            stream_expect(&want, &s[i]);
            s[i].then_queue = &q;
            s[i].then = i < 3 ? &s[i + 1].out : NULL;
        }
        for (uint32_t i = 1; i < 4; i++) {
            s[i].tick = 5;
        }
        psi_outq_push_stream(&q, &s[0].out);
        while (write_once(&q, &out, &random, how, PS_SEND_TRY_BYTES)) {
        }
        assert_same(&out, &want);
        for (uint32_t i = 0; i < 4; i++) {
            assert_int_equal(s[i].done, 1);
            stream_fini(&s[i]);
        }
        psi_outq_fini(&q);
        wire_fini(&out);
        wire_fini(&want);
    }
}

/* Small values leave together: a write costs as much as some of them. */
TEST(test_one_write_for_64_values)
{
    struct wire_random random = {.state = 3};
    struct psi_outq q;
    struct stream *s = test_alloc(64 * sizeof(*s));
    psi_outq_init(&q);
    struct wire *want = wire_new(), *out = wire_new();
    for (int i = 0; i < 64; i++) {
        stream_init(&s[i], 4000, true, true);
        stream_expect(want, &s[i]);
        psi_outq_push_stream(&q, &s[i].out);
    }
    assert_true(write_once(&q, out, &random, 0, PS_SEND_TRY_BYTES + PS_SEGMENT_BYTES));
    assert_false(psi_outq_ready(&q));
    assert_same(out, want);
    for (int i = 0; i < 64; i++) {
        assert_int_equal(s[i].done, 1);
        stream_fini(&s[i]);
    }
    psi_outq_fini(&q);
}

TEST(test_no_allocation_in_steady_state)
{
    struct wire_random random = {.state = 2};
    struct psi_outq q;
    struct stream s;
    struct ps_frame_header h = control_header(48);
    psi_outq_init(&q);
    struct wire *out = wire_new();
    stream_init(&s, 100000, true, true);
    uint64_t before = 0;
    for (int round = 0; round < 200; round++) {
        before = round == 20 ? psi_mem_count() : before;
        for (int i = 0; i < 50; i++) {
            assert_int_equal(psi_outq_push(&q, &h, s.memory, NULL), PS_OK);
        }
        assert_int_equal(psi_outq_push_body(&q, &h, s.memory, s.memory, 300, true), PS_OK);
        s.done = 0;
        psi_outq_push_stream(&q, &s.out);
        wire_clear(out);
        while (write_once(&q, out, &random, (int)wire_below(&random, 3), PS_SEND_TRY_BYTES)) {
        }
    }
    assert_int_equal(psi_mem_count(), before);
    psi_outq_fini(&q);
    stream_fini(&s);
}

/* What is still to be sent of a frame that is detached is a copy: its memory may change. */
TEST(test_detached)
{
    struct wire_random random = {.state = 4};
    int begun = 0;
    for (int round = 0; round < 60; round++) {
        struct psi_outq q;
        struct stream s;
        psi_outq_init(&q);
        struct wire *want = wire_new(), *out = wire_new();
        stream_init(&s, PS_SEGMENT_BYTES + 1000 + (uint32_t)wire_below(&random, 2 * PS_SEGMENT_BYTES - 1000), round % 2 == 0,
                    false);
        push_body(&q, want, &s, 1000, true);
        const size_t before = want->len;
        stream_expect(want, &s);
        psi_outq_push_stream(&q, &s.out);
        const size_t after = want->len;
        push_body(&q, want, &s, 300, true);
        for (int writes = round % 4; writes > 0 && s.done == 0; writes--) {
            PSI_IGNORE(write_once(&q, out, &random, 1, PS_SEGMENT_BYTES)); /* something is there */
        }
        if (s.done == 0) {
            const bool whole = out->len > before;
            begun += whole ? 1 : 0;
            psi_mem_fail_after(0);
            assert_int_equal(psi_outq_detach(&q, &s.out), whole ? PS_RESOURCE_EXHAUSTED : PS_OK);
            psi_mem_fail_after(-1);
            assert_int_equal(whole ? psi_outq_detach(&q, &s.out) : PS_OK, PS_OK);
            assert_int_equal(s.done, 0);
            memset(s.memory, 0xee, STREAM_MAX);
            while (write_once(&q, out, &random, 1, PS_SEND_TRY_BYTES)) {
            }
            assert_int_equal(q.frame_count, 0);
            assert_int_equal(q.queued_bytes, 0);
            struct wire *less = wire_new();
            wire_append(less, want->data, before);
            wire_append(less, want->data + after, want->len - after);
            assert_same(out, whole ? want : less);
        }
        psi_outq_fini(&q);
        stream_fini(&s);
    }
    assert_true(begun > 0 && begun < 60);
}

TEST(test_no_memory)
{
    struct wire_random random = {.state = 2};
    struct psi_outq q;
    struct stream s;
    struct ps_frame_header h = control_header(40);
    const struct psi_iov *iov = NULL;
    const void *hold = &q;
    size_t hold_bytes = 1;
    psi_outq_init(&q);
    struct wire *want = wire_new(), *out = wire_new();
    stream_init(&s, 70000, true, true);
    psi_mem_fail_after(0);
    assert_int_equal(psi_outq_push(&q, &h, s.memory, NULL), PS_RESOURCE_EXHAUSTED);
    psi_mem_fail_after(0);
    assert_int_equal(psi_outq_push_body(&q, &h, s.memory, s.memory, 1000, true), PS_RESOURCE_EXHAUSTED);
    assert_int_equal(q.frame_count, 0);
    assert_int_equal(q.queued_bytes, 0);
    push_body(&q, want, &s, 1000, true);
    stream_expect(want, &s);
    psi_outq_push_stream(&q, &s.out); /* needs none */
    size_t count = psi_outq_compose(&q, PS_SEND_TRY_BYTES, &iov);
    assert_true(count > 0);
    psi_mem_fail_after(0);
    assert_int_equal(psi_outq_accepted(&q, 10, &hold, &hold_bytes), PS_RESOURCE_EXHAUSTED);
    assert_int_equal(psi_mem_fail_left(), -1);
    assert_null(hold);
    assert_int_equal(hold_bytes, 0);
    while (write_once(&q, out, &random, 1, PS_SEND_TRY_BYTES)) { /* had nothing left before, all would still be there */
    }
    assert_same(out, want);
    psi_outq_fini(&q);
    stream_fini(&s);
}
