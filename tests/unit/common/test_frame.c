/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frame reader: what it hands out does not depend on how the bytes are cut, every limit holds at max - 1, max and max + 1, a
 * prefix of a frame is never a frame, and a flipped bit is rejected or harmless. The bytes come from tests/lib/wire.c.
 */
#include "test.h"
#include "places.h"
#include "wire_test.h"

#include "common/frame.h"

#include <stdlib.h>

enum { KINDS = 9, TAIL = 2048 };

static const struct kind {
    uint8_t op, dtype;
    uint16_t flags;
    uint64_t id, offset;
    uint32_t meta_bytes, segments, more_bytes; /* of payload: segments whole ones in a large frame, and so many bytes */
    bool trailer;
} kinds[KINDS] = {
    {PS_OP_HELLO, 0, 0, 0, 0, 24, 0, 100, false},
    {PS_OP_PUSH, PS_F32, PS_FLAG_CRC | PS_FLAG_SEQ | PS_FLAG_FIRST | PS_FLAG_LAST, 5, 0, 16, 1, 13, false},
    {PS_OP_PULL, PS_F32, PS_FLAG_REPLY | PS_FLAG_CRC, 6, 0, 24, 1, 3, true},
    {PS_OP_PULL, PS_F32, PS_FLAG_REPLY, 7, 0, 0, 0, 0, true}, /* a trailer only */
    {PS_OP_BEAT, 0, 0, UINT64_MAX, 0, 0, 0, 0, false},
    {PS_OP_PUSHPULL, PS_F64, PS_FLAG_REPLY | PS_FLAG_SEQ | PS_FLAG_VALUE, 8, 9, 24, 2, 8, true},
    {PS_OP_PULL, 0, PS_FLAG_REPLY, 10, PS_ABORTED, 48, 0, 0, false}, /* a refused pull has no trailer */
    {PS_OP_ASSIGN, PS_I32, PS_FLAG_CRC | PS_FLAG_SEQ, 11, 0, 0, 1, 64, false},
    {200, 99, PS_FLAG_CRC | PS_FLAG_MORE, 12, 0, 8, 0, 40, false}, /* an op that nobody knows */
};

static size_t build(struct wire *w, int kind, bool large)
{
    static uint8_t payload[2 * PS_SEGMENT_BYTES + 128];
    static const struct ps_pull_trailer trailer = {.version = 77, .in_progress = 3};
    const struct kind *k = &kinds[kind];
    for (size_t i = 0; i < sizeof(payload); i++) {
        payload[i] = (uint8_t)(i * 7 + i / 251 + 1);
    }
    struct wire_frame f = {.op = k->op, .dtype = k->dtype, .flags = k->flags, .id = k->id, .handle = 3, .offset = k->offset};
    f.meta = payload;
    f.meta_bytes = k->meta_bytes;
    f.payload = payload;
    f.payload_bytes = (large ? k->segments * PS_SEGMENT_BYTES : 0) + k->more_bytes;
    f.trailer = k->trailer ? &trailer : NULL;
    return wire_frame(w, &f);
}

/* A reader, its owner's buffer, and a transcript of what it handed out: H header meta, S payload, E [trailer], B. */
struct owner {
    struct psi_reader r;
    struct wire out;
    uint8_t *buffer;
    uint32_t lent, ends;
    bool bad;
    struct psi_err err;
};

static void owner_init(struct owner *o, uint32_t body_limit)
{
    memset(o, 0xa5, sizeof(*o));
    psi_reader_init(&o->r, body_limit);
    wire_init(&o->out);
    o->buffer = malloc(PSI_READER_BUFFER_BYTES);
    assert_non_null(o->buffer);
    o->lent = 0;
    o->ends = 0;
    o->bad = false;
}

static void owner_fini(struct owner *o)
{
    wire_fini(&o->out);
    free(o->buffer);
}

static void note(struct owner *o, char tag, const void *p, size_t n)
{
    wire_append(&o->out, &tag, 1);
    wire_append(&o->out, p, n);
}

/* One delivery of n bytes, as psd/rpc/dispatch.c and worker/core/receive.c do it. */
static void deliver(struct owner *o, const uint8_t *bytes, size_t n)
{
    uint8_t *exact = malloc(n > 0 ? n : 1); /* the sanitizer sees a read past the end */
    assert_non_null(exact);
    memcpy(exact, bytes, n);
    const uint8_t *p = exact;
    for (;;) {
        switch (psi_reader_next(&o->r, &p, &n, &o->err)) {
        case PSI_PIECE_NONE:
            if (n == 0) {
                assert_true(o->r.buffer == NULL || psi_reader_holds_buffer(&o->r));
                free(exact);
                return;
            }
            assert_null(o->r.buffer);
            o->r.buffer = o->buffer;
            o->lent++;
            break;
        case PSI_PIECE_HEAD:
            note(o, 'H', &o->r.header, sizeof(o->r.header));
            wire_append(&o->out, psi_reader_meta(&o->r), o->r.meta_bytes);
            assert_int_equal(o->r.meta_bytes, o->r.header.meta_bytes);
            assert_int_equal(o->r.body_left, o->r.header.body_bytes);
            break;
        case PSI_PIECE_SEGMENT:
            assert_in_range(o->r.payload_bytes, 1, PS_SEGMENT_BYTES);
            note(o, 'S', o->r.payload, o->r.payload_bytes);
            assert_false(psi_reader_holds_buffer(&o->r));
            o->r.buffer = NULL;
            break;
        case PSI_PIECE_END:
            note(o, 'E', &o->r.trailer, o->r.has_trailer ? sizeof(o->r.trailer) : 0);
            assert_int_equal(o->r.body_left, 0);
            o->ends++;
            break;
        case PSI_PIECE_BAD:
            note(o, 'B', NULL, 0);
            assert_int_equal(o->err.code, PS_INVALID_ARGUMENT);
            assert_int_not_equal(strlen(o->err.text), 0);
            o->bad = true;
            free(exact);
            return;
        }
    }
}

static void assert_same(const struct wire *a, const struct wire *b)
{
    assert_int_equal(a->len, b->len);
    assert_memory_equal(a->data, b->data, a->len);
}

/* What the encoder put in, as the reader should say it. */
static void expect(struct wire *out, const struct wire *w, size_t at)
{
    struct ps_frame_header h = wire_header(w, at);
    bool crc = (h.flags & PS_FLAG_CRC) != 0;
    bool trailer = (h.flags & PS_FLAG_VALUE) != 0 || (h.op == PS_OP_PULL && (h.flags & PS_FLAG_REPLY) != 0 && h.offset == 0);
    wire_append(out, "H", 1);
    wire_append(out, w->data + at, sizeof(h) + h.meta_bytes);
    const uint8_t *p = w->data + at + sizeof(h) + h.meta_bytes;
    size_t left = h.body_bytes - (trailer ? 16 : 0);
    while (left > 0) {
        size_t whole = PS_SEGMENT_BYTES + (crc ? 8 : 0);
        size_t take = left < whole ? left : whole;
        wire_append(out, "S", 1);
        wire_append(out, p, take - (crc ? 8 : 0));
        p += take;
        left -= take;
    }
    wire_append(out, "E", 1);
    wire_append(out, p, trailer ? 16 : 0);
}

TEST(test_one_piece)
{
    for (int kind = 0; kind < KINDS; kind++) {
        for (int large = 0; large < 2; large++) {
            struct wire w, want;
            struct owner o;
            wire_init(&w);
            wire_init(&want);
            owner_init(&o, UINT32_MAX);
            expect(&want, &w, build(&w, kind, large != 0));
            deliver(&o, w.data, w.len);
            assert_same(&o.out, &want);
            assert_int_equal(o.lent, 0); /* nothing was cut: nothing was copied */
            owner_fini(&o);
            wire_fini(&want);
            wire_fini(&w);
        }
    }
}

/* Every cut into two pieces (of large frames: near every border), and pieces of 1, 3, 40 and 4096 bytes. */
TEST(test_every_split)
{
    for (int kind = 0; kind < KINDS; kind++) {
        for (int large = 0; large < 2; large++) {
            struct wire w, want;
            wire_init(&w);
            wire_init(&want);
            size_t second = 0;
            expect(&want, &w, build(&w, kind, large != 0));
            second = build(&w, (kind + 1) % KINDS, false);
            expect(&want, &w, second);
            for (size_t cut = 0; cut <= w.len; cut++) {
                size_t in_segment = cut % (PS_SEGMENT_BYTES + 8);
                bool near = in_segment < 120 || in_segment + 120 > PS_SEGMENT_BYTES || cut + 120 > second;
                if (w.len > 4096 && !near && cut % 4099 != 0) {
                    continue;
                }
                struct owner o;
                owner_init(&o, UINT32_MAX);
                deliver(&o, w.data, cut);
                deliver(&o, w.data + cut, w.len - cut);
                assert_same(&o.out, &want);
                assert_in_range(o.lent, 0, 1);
                owner_fini(&o);
            }
            static const size_t sizes[] = {1, 3, 40, 4096};
            for (size_t s = 0; s < ARRAY_COUNT(sizes); s++) {
                struct owner o;
                owner_init(&o, UINT32_MAX);
                for (size_t at = 0; at < w.len; at += sizes[s]) {
                    deliver(&o, w.data + at, w.len - at < sizes[s] ? w.len - at : sizes[s]);
                }
                assert_same(&o.out, &want);
                owner_fini(&o);
            }
            wire_fini(&want);
            wire_fini(&w);
        }
    }
}

TEST(test_thousand_frames_in_one_piece)
{
    struct owner o;
    struct wire *w = wire_new(), *want = wire_new();
    owner_init(&o, UINT32_MAX);
    for (int i = 0; i < 1000; i++) {
        expect(want, w, build(w, i % KINDS, false));
    }
    deliver(&o, w->data, w->len);
    assert_same(&o.out, want);
    assert_int_equal(o.ends, 1000);
    owner_fini(&o);
}

/* A prefix gives a prefix of what the whole gives, never an end, never an error. */
TEST(test_every_prefix_is_incomplete)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct wire w, want;
        wire_init(&w);
        wire_init(&want);
        expect(&want, &w, build(&w, kind, false));
        for (size_t n = 0; n < w.len; n++) {
            struct owner o;
            owner_init(&o, UINT32_MAX);
            deliver(&o, w.data, n);
            assert_false(o.bad);
            assert_int_equal(o.ends, 0);
            assert_true(o.out.len < want.len);
            assert_memory_equal(o.out.len > 0 ? o.out.data : want.data, want.data, o.out.len);
            owner_fini(&o);
        }
        wire_fini(&want);
        wire_fini(&w);
    }
}

/* Header and meta: never handed out changed. Body with CRC: likewise. Body without: only the payload differs. */
static void check_flip(const struct wire *w, const struct wire *want, size_t bit)
{
    struct owner o;
    struct ps_frame_header h = wire_header(w, 0);
    bool crc = (h.flags & PS_FLAG_CRC) != 0;
    size_t head = sizeof(h) + h.meta_bytes;
    w->data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    owner_init(&o, UINT32_MAX);
    deliver(&o, w->data, w->len);
    if (!o.bad) {
        static const uint8_t zeros[TAIL];
        deliver(&o, zeros, TAIL); /* a longer length waits for more: it may not succeed then either */
    }
    if (bit / 8 < head) {
        assert_true(o.out.len == 0 || o.out.data[0] == 'B');
    } else if (crc) {
        assert_true(o.out.len > 0 && o.out.data[0] == 'H');
        assert_true(o.bad && o.out.len <= want->len);
        /* all that came out before the B is as it was */
        assert_memory_equal(o.out.data, want->data, o.out.len - 1);
        assert_int_equal(o.ends, 0);
    } else if (o.ends == 0) { /* without flag CRC the trailer's is 0 */
        assert_true((h.op == PS_OP_PULL || (h.flags & PS_FLAG_VALUE) != 0) && bit / 8 >= head + h.body_bytes - sizeof(uint32_t));
    } else {
        assert_true(o.out.len >= want->len);
        assert_memory_equal(o.out.data, want->data, 1 + head);
        size_t differ = 0;
        for (size_t i = 0; i < want->len; i++) {
            differ += o.out.data[i] != want->data[i];
        }
        assert_int_equal(differ, 1);
    }
    w->data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    owner_fini(&o);
}

TEST(test_every_bit_flip)
{
    for (int kind = 0; kind < KINDS; kind++) {
        struct wire w, want;
        wire_init(&w);
        wire_init(&want);
        expect(&want, &w, build(&w, kind, false));
        for (size_t bit = 0; bit < w.len * 8; bit++) {
            check_flip(&w, &want, bit);
        }
        wire_fini(&want);
        wire_fini(&w);
    }
}

/* The second of two segments is bad: the first was handed out, the second is not. */
TEST(test_bad_segment_after_a_good_one)
{
    struct wire *w = wire_new();
    size_t at = build(w, 1, true);
    size_t second = at + 40 + 16 + PS_SEGMENT_BYTES + 8;
    static const size_t where[] = {0, 12, 15, 16, 19, 20, 23}; /* payload, padding, CRC, the zero behind it */
    for (size_t i = 0; i < ARRAY_COUNT(where); i++) {
        struct owner o;
        owner_init(&o, UINT32_MAX);
        w->data[second + where[i]] ^= 0x10;
        for (size_t n = 0; n < w->len && !o.bad; n += 1000) {
            deliver(&o, w->data + n, w->len - n < 1000 ? w->len - n : 1000);
        }
        w->data[second + where[i]] ^= 0x10;
        assert_true(o.bad);
        assert_non_null(strstr(o.err.text, "BAD_CRC"));
        assert_int_equal(o.out.len, 1 + 56 + 1 + PS_SEGMENT_BYTES + 1);
        owner_fini(&o);
    }
}

struct limit {
    uint8_t op;
    uint16_t flags;
    uint64_t offset;
    uint32_t meta, body, body_limit;
    bool ok;
};
#define HOT PS_OP_PUSH
#define HOT_MAX ((uint32_t)PS_FRAME_BODY_MAX)
#define HOT_CRC (HOT_MAX / PS_SEGMENT_BYTES * 8)
#define CTL_MAX ((uint32_t)PS_CONTROL_BODY_MAX)
#define CTL_CRC (CTL_MAX / PS_SEGMENT_BYTES * 8)
#define NONE UINT32_MAX
static const struct limit limits[] = {
    {PS_OP_HELLO, 0, 0, 1016, 0, NONE, true},
    {PS_OP_HELLO, 0, 0, 1024, 0, NONE, true},
    {PS_OP_HELLO, 0, 0, 1032, 0, NONE, false},
    {PS_OP_HELLO, 0, 0, 1025, 0, NONE, false},
    {PS_OP_HELLO, 0, 0, 0xffff, 0, NONE, false},
    {PS_OP_HELLO, 0, 0, 0xfff8, 0, NONE, false},
    {PS_OP_HELLO, 0, 0, 7, 0, NONE, false},
    {HOT, 0, 0, 16, HOT_MAX - 8, NONE, true},
    {HOT, 0, 0, 16, HOT_MAX, NONE, true},
    {HOT, 0, 0, 16, HOT_MAX + 8, NONE, false},
    {HOT, 0, 0, 16, HOT_MAX + 1, NONE, false},
    {HOT, 0, 0, 16, HOT_MAX - 1, NONE, false},
    {HOT, 0, 0, 16, 0xffffffff, NONE, false},
    {HOT, 0, 0, 16, 0xfffffff8, NONE, false},
    {HOT, PS_FLAG_CRC, 0, 16, HOT_MAX + HOT_CRC, NONE, true},
    {HOT, PS_FLAG_CRC, 0, 16, HOT_MAX + HOT_CRC + 8, NONE, false},
    {HOT, PS_FLAG_CRC, 0, 16, HOT_MAX + HOT_CRC - 8, NONE, true},
    {HOT, PS_FLAG_CRC, 0, 16, 8, NONE, false}, /* a CRC of nothing */
    {HOT, PS_FLAG_CRC, 0, 16, 16, NONE, true},
    {HOT, PS_FLAG_CRC, 0, 16, PS_SEGMENT_BYTES + 8, NONE, true},
    {HOT, PS_FLAG_CRC, 0, 16, PS_SEGMENT_BYTES + 16, NONE, false},
    {HOT, PS_FLAG_CRC, 0, 16, PS_SEGMENT_BYTES + 24, NONE, true},
    {PS_OP_CONTRIBUTE, 0, 0, 32, HOT_MAX, NONE, true},
    {PS_OP_CONTRIBUTE_ROWS, 0, 0, 40, HOT_MAX, NONE, true},
    {PS_OP_PUSHPULL_ROWS, 0, 0, 32, HOT_MAX, NONE, true},
    {PS_OP_PUSHPULL_ROWS + 1, 0, 0, 16, CTL_MAX + 8, NONE, false},
    {PS_OP_CONTRIBUTE + 1, 0, 0, 16, CTL_MAX + 8, NONE, false},
    {PS_OP_PUSH - 1, 0, 0, 16, CTL_MAX + 8, NONE, false},
    {PS_OP_OPEN, 0, 0, 0, CTL_MAX - 8, NONE, true},
    {PS_OP_OPEN, 0, 0, 0, CTL_MAX, NONE, true},
    {PS_OP_OPEN, 0, 0, 0, CTL_MAX + 8, NONE, false},
    {PS_OP_OPEN, PS_FLAG_CRC, 0, 0, CTL_MAX + CTL_CRC, NONE, true},
    {PS_OP_OPEN, PS_FLAG_CRC, 0, 0, CTL_MAX + CTL_CRC + 8, NONE, false},
    {PS_OP_PULL, PS_FLAG_REPLY, 0, 24, 8, NONE, false}, /* no room for its trailer */
    {PS_OP_PULL, PS_FLAG_REPLY, 0, 24, 16, NONE, true},
    {PS_OP_PULL, PS_FLAG_REPLY, 0, 24, HOT_MAX + 16, NONE, true},
    {PS_OP_PULL, PS_FLAG_REPLY, 0, 24, HOT_MAX + 24, NONE, false},
    {PS_OP_PULL, PS_FLAG_REPLY | PS_FLAG_CRC, 0, 24, HOT_MAX + HOT_CRC + 16, NONE, true},
    {PS_OP_PULL, PS_FLAG_REPLY | PS_FLAG_CRC, 0, 24, HOT_MAX + HOT_CRC + 24, NONE, false},
    {PS_OP_PULL, PS_FLAG_REPLY | PS_FLAG_CRC, 0, 24, 24, NONE, false},
    {PS_OP_PULL, PS_FLAG_REPLY, PS_ABORTED, 48, 0, NONE, true},
    {PS_OP_PUSHPULL, PS_FLAG_VALUE, 0, 24, 0, NONE, false},
    {PS_OP_PUSHPULL, PS_FLAG_VALUE, 9, 24, 16, NONE, true},
    {PS_OP_PUSHPULL_ROWS, PS_FLAG_VALUE, 0, 24, 0, NONE, false},
    {PS_OP_PUSHPULL_ROWS, PS_FLAG_VALUE, 9, 24, 16, NONE, true},
    {PS_OP_HELLO, 0, 0, 0, PS_PREAUTH_BYTES_MAX - 8, PS_PREAUTH_BYTES_MAX, true},
    {PS_OP_HELLO, 0, 0, 0, PS_PREAUTH_BYTES_MAX, PS_PREAUTH_BYTES_MAX, true},
    {PS_OP_HELLO, 0, 0, 0, PS_PREAUTH_BYTES_MAX + 8, PS_PREAUTH_BYTES_MAX, false},
    {HOT, 0, 0, 16, PS_PREAUTH_BYTES_MAX + 8, PS_PREAUTH_BYTES_MAX, false},
};

/* The decision falls with the header: no byte of meta or body is taken before it. */
TEST(test_limits)
{
    for (size_t i = 0; i < ARRAY_COUNT(limits); i++) {
        const struct limit *l = &limits[i];
        struct ps_frame_header h = {.magic = PS_FRAME_MAGIC,
                                    .version = PS_FRAME_VERSION,
                                    .op = l->op,
                                    .flags = l->flags,
                                    .offset = l->offset,
                                    .meta_bytes = (uint16_t)l->meta,
                                    .body_bytes = l->body};
        uint8_t bytes[40 + 0x10000] = {0};
        memcpy(bytes, &h, sizeof(h));
        psi_frame_seal(bytes);
        struct owner o;
        owner_init(&o, l->body_limit);
        deliver(&o, bytes, 40);
        assert_int_equal(o.bad, !l->ok);
        if (l->ok) {
            deliver(&o, bytes + 40, l->meta);
            assert_false(o.bad);
            assert_int_equal(o.out.len, 41 + l->meta + (l->body == 0 ? 1 : 0)); /* H, and E where nothing follows */
        } else {
            assert_true(strstr(o.err.text, "TOO_LARGE") != NULL || strstr(o.err.text, "ragged") != NULL ||
                        strstr(o.err.text, "empty segment") != NULL);
        }
        owner_fini(&o);
    }
}

TEST(test_reserved_fields_and_flags)
{
    for (unsigned bit = 0; bit < 16; bit++) {
        struct wire w;
        wire_init(&w);
        size_t at = build(&w, 4, false);
        struct ps_frame_header h = wire_header(&w, at);
        h.flags = (uint16_t)(1u << bit);
        wire_set_header(&w, at, &h);
        struct owner o;
        owner_init(&o, UINT32_MAX);
        deliver(&o, w.data, w.len);
        bool known = (h.flags & PS_FLAG_KNOWN) != 0 && h.flags != PS_FLAG_VALUE; /* VALUE needs a trailer */
        assert_int_equal(o.bad, !known);
        owner_fini(&o);
        h.flags = 0;
        h.reserved0 = (uint8_t)((1u << bit) & 0xff);
        h.reserved1 = (uint16_t)(1u << bit);
        wire_set_header(&w, at, &h);
        owner_init(&o, UINT32_MAX);
        deliver(&o, w.data, w.len);
        assert_true(o.bad);
        assert_non_null(strstr(o.err.text, "reserved"));
        owner_fini(&o);
        wire_fini(&w);
    }
}

/* Somebody else's protocol is told by its first two bytes. */
TEST(test_foreign_protocols)
{
    static const char *const hellos[] = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
                                         "SSH-2.0-x\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n and forty bytes more than that"};
    for (size_t i = 0; i < ARRAY_COUNT(hellos); i++) {
        size_t whole = strlen(hellos[i]) < 11 ? 11 : strlen(hellos[i]);
        for (size_t n = 0; n <= whole; n++) {
            struct owner o;
            owner_init(&o, PS_PREAUTH_BYTES_MAX);
            deliver(&o, (const uint8_t *)hellos[i], n);
            if (n >= 2) {
                assert_true(o.bad);
                assert_non_null(strstr(o.err.text, "not a psd frame"));
            }
            owner_fini(&o);
        }
    }
}

/* After an error nothing is ever handed out again. */
TEST(test_broken_stays_broken)
{
    struct owner o;
    struct wire *w = wire_new();
    owner_init(&o, UINT32_MAX);
    size_t bad = build(w, 4, false);
    w->data[bad + 8] ^= 1;
    for (int i = 0; i < KINDS; i++) {
        PSI_IGNORE(build(w, i, false)); /* good frames behind it */
    }
    const uint8_t *p = w->data;
    size_t n = w->len;
    assert_int_equal(psi_reader_next(&o.r, &p, &n, NULL), PSI_PIECE_BAD); /* err may be NULL */
    for (int i = 0; i < 3; i++) {
        n = w->len - 40;
        p = w->data + 40;
        assert_int_equal(psi_reader_next(&o.r, &p, &n, &o.err), PSI_PIECE_BAD);
        assert_int_equal(n, 0);
        assert_ptr_equal(p, w->data + w->len);
    }
    owner_fini(&o);
}

/* Without a buffer a cut segment stays where it is, however often it is asked for; whole ones need none. */
TEST(test_cut_segment_waits_for_a_buffer)
{
    struct owner o;
    struct wire *w = wire_new();
    owner_init(&o, UINT32_MAX);
    PSI_IGNORE(build(w, 1, true));
    const uint8_t *p = w->data;
    size_t first = 56 + PS_SEGMENT_BYTES + 8;
    size_t n = first + 5; /* five bytes of the second segment */
    assert_int_equal(psi_reader_next(&o.r, &p, &n, &o.err), PSI_PIECE_HEAD);
    assert_int_equal(psi_reader_next(&o.r, &p, &n, &o.err), PSI_PIECE_SEGMENT);
    assert_ptr_equal(o.r.payload, w->data + 56); /* where it lies */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(psi_reader_next(&o.r, &p, &n, &o.err), PSI_PIECE_NONE);
        assert_int_equal(n, 5);
        assert_ptr_equal(p, w->data + first);
        assert_false(psi_reader_holds_buffer(&o.r));
    }
    o.r.buffer = o.buffer;
    assert_false(psi_reader_holds_buffer(&o.r)); /* nothing in it yet */
    assert_int_equal(psi_reader_next(&o.r, &p, &n, &o.err), PSI_PIECE_NONE);
    assert_int_equal(n, 0);
    assert_true(psi_reader_holds_buffer(&o.r));
    n = w->len - first - 5;
    assert_int_equal(psi_reader_next(&o.r, &p, &n, &o.err), PSI_PIECE_SEGMENT);
    assert_ptr_equal(o.r.payload, o.buffer);
    assert_int_equal(o.r.payload_bytes, 16);
    assert_false(psi_reader_holds_buffer(&o.r));
    assert_int_equal(psi_reader_next(&o.r, &p, &n, &o.err), PSI_PIECE_END);
    assert_int_equal(psi_reader_next(&o.r, &p, &n, &o.err), PSI_PIECE_NONE);
    owner_fini(&o);
}

/* ---- values that go straight to their place ---- */

enum target_how { COPIED, PLACED, MIXED, HOWS };
enum { GUARD = 64, NEVER = -1 };

/* A frame's values, read to `memory` behind a guard. */
struct aim {
    struct psi_reader r;
    struct psi_err err;
    uint8_t *memory;
    size_t bytes;
    uint32_t segments, ends;
    bool bad;
};

static void aim_init(struct aim *a, size_t bytes)
{
    memset(a, 0, sizeof(*a));
    psi_reader_init(&a->r, UINT32_MAX);
    a->bytes = bytes;
    a->memory = malloc(bytes + 2 * GUARD);
    assert_non_null(a->memory);
    memset(a->memory, 0xee, bytes + 2 * GUARD);
}

static void assert_untouched(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(p[i], 0xee);
    }
}

static void aim_fini(struct aim *a)
{
    assert_untouched(a->memory, GUARD);
    assert_untouched(a->memory + GUARD + a->bytes, GUARD);
    free(a->memory);
}

/* Pieces of a frame without a lent buffer; the memory is the target. */
static void aim_take(struct aim *a, const uint8_t *p, size_t n)
{
    for (;;) {
        switch (psi_reader_next(&a->r, &p, &n, &a->err)) {
        case PSI_PIECE_NONE:
            assert_int_equal(n, 0);
            return;
        case PSI_PIECE_HEAD:
            psi_reader_target(&a->r, a->memory + GUARD, a->bytes);
            break;
        case PSI_PIECE_SEGMENT:
            assert_true(a->r.payload == NULL || a->r.payload == a->memory + GUARD + (size_t)a->segments * PS_SEGMENT_BYTES);
            assert_false(psi_reader_holds_buffer(&a->r));
            a->segments++;
            break;
        case PSI_PIECE_END:
            a->ends++;
            break;
        case PSI_PIECE_BAD:
            a->bad = true;
            return;
        }
    }
}

static size_t aim_read(struct aim *a, const uint8_t *p, size_t n, bool placed)
{
    struct places_read r = {.rest = n};
    if (placed) {
        r = places_read(&a->r, p, n);
    }
    uint8_t *exact = malloc(r.rest + 1);
    assert_non_null(exact);
    memcpy(exact, p + r.placed, r.rest);
    aim_take(a, exact, r.rest);
    free(exact);
    return r.placed + r.rest;
}

/* Portions of the stream; release: the memory is given up when so many of its bytes have been read. */
static void aim_run(struct aim *a, const struct wire *w, size_t portion, enum target_how how, long release)
{
    size_t at = 0;
    for (size_t i = 0; at < w->len && !a->bad; i++) {
        size_t n = w->len - at < portion ? w->len - at : portion;
        if (release != NEVER && at < (size_t)release && at + n > (size_t)release) {
            n = (size_t)release - at;
        }
        at += aim_read(a, w->data + at, n, how == PLACED || (how == MIXED && i % 3 != 0));
        if (at == (size_t)release) {
            psi_reader_release(&a->r);
            memset(a->memory, 0xee, a->bytes + 2 * GUARD);
        }
    }
}

/* A frame of values, n bytes of them, to be read with and without CRCs. */
static size_t value_frame(struct wire *w, size_t n, bool crc)
{
    static uint8_t payload[5 * PS_SEGMENT_BYTES + 128];
    static const struct ps_pull_trailer trailer = {.version = 77, .in_progress = 3};
    for (size_t i = 0; i < sizeof(payload); i++) {
        payload[i] = (uint8_t)(i * 7 + i / 251 + 1);
    }
    wire_init(w);
    struct wire_frame f = {.op = PS_OP_PULL, .dtype = PS_F32, .flags = (uint16_t)(PS_FLAG_REPLY | (crc ? PS_FLAG_CRC : 0))};
    f.payload = payload;
    f.payload_bytes = n;
    f.trailer = &trailer;
    PSI_IGNORE(wire_frame(w, &f));
    return (size_t)(w->len - psi_body_bytes(n, crc, true)); /* where the body begins */
}

static const size_t value_bytes[] = {
    4, 12, 4096, PS_SEGMENT_BYTES, PS_SEGMENT_BYTES + 4, 2 * PS_SEGMENT_BYTES - 4, 5 * PS_SEGMENT_BYTES + 100};

TEST(test_values_arrive_in_place)
{
    static const size_t portions[] = {1, 41, 1000, 4096, PS_SEGMENT_BYTES + 3, 300000, 1 << 20};
    for (size_t i = 0; i < ARRAY_COUNT(value_bytes) * 2; i++) {
        size_t n = value_bytes[i / 2];
        struct wire w;
        size_t body = value_frame(&w, n, i % 2 == 0);
        for (size_t j = n > PS_SEGMENT_BYTES + 4 ? 1 : 0; j < ARRAY_COUNT(portions) * HOWS; j++) {
            struct aim a;
            aim_init(&a, n);
            aim_run(&a, &w, portions[j / HOWS], (enum target_how)(j % HOWS), NEVER);
            assert_false(a.bad);
            assert_int_equal(a.ends, 1);
            assert_int_equal(a.segments, (n + PS_SEGMENT_BYTES - 1) / PS_SEGMENT_BYTES);
            assert_int_equal(a.r.trailer.version, 77);
            for (size_t at = 0; at < n; at += PS_SEGMENT_BYTES) { /* the stream has CRCs in between */
                size_t part = n - at < PS_SEGMENT_BYTES ? n - at : PS_SEGMENT_BYTES;
                size_t from = body + at + (i % 2 == 0 ? at / PS_SEGMENT_BYTES * 8 : 0);
                assert_memory_equal(a.memory + GUARD + at, w.data + from, part);
            }
            aim_fini(&a);
        }
        wire_fini(&w);
    }
}

/* Whoever gives the memory up finds it as it left it; the frame is still read to its end, and still checked. */
TEST(test_released_memory_is_not_touched)
{
    struct wire_random random = {.state = 11};
    for (size_t i = 0; i < 200; i++) {
        size_t n = value_bytes[2 + i % 5];
        struct wire w;
        struct aim a;
        size_t body = value_frame(&w, n, true);
        bool flip = i % 4 == 3;
        size_t release = body + (size_t)wire_below(&random, n);
        if (flip) { /* before or after that */
            w.data[body + (size_t)wire_below(&random, n)] ^= 4;
        }
        aim_init(&a, n);
        aim_run(&a, &w, 1 + (size_t)wire_below(&random, 100000), (enum target_how)(i % HOWS), (long)release);
        assert_int_equal(a.bad, flip);
        assert_int_equal(a.ends, flip ? 0 : 1);
        if (!flip) {
            assert_untouched(a.memory, n + 2 * GUARD);
        }
        aim_fini(&a);
        wire_fini(&w);
    }
}

/* Values, padding, CRC, the zero behind it: a segment that is wrong in any of them is not handed out. */
TEST(test_bad_crc_in_place)
{
    size_t n = PS_SEGMENT_BYTES + 12;
    struct wire w;
    size_t second = value_frame(&w, n, true) + PS_SEGMENT_BYTES + 8;
    static const size_t where[] = {0, 11, 12, 15, 16, 19, 20, 23};
    for (size_t i = 0; i < ARRAY_COUNT(where) * HOWS; i++) {
        struct aim a;
        aim_init(&a, n);
        w.data[second + where[i / HOWS]] ^= 0x10;
        aim_run(&a, &w, 1000 + 100000 * (i % 2), (enum target_how)(i % HOWS), NEVER);
        w.data[second + where[i / HOWS]] ^= 0x10;
        assert_true(a.bad);
        assert_non_null(strstr(a.err.text, "BAD_CRC"));
        assert_int_equal(a.segments, 1);
        aim_fini(&a);
    }
    wire_fini(&w);
}

/* How much is asked for: values to the end of the frame, four segments at most, and behind a frame's end what bounds the copying
 * of the next one's values. */
TEST(test_places)
{
    struct wire w;
    struct aim a;
    struct psi_space at[PSI_PLACES_MAX];
    size_t rest = 0;
    size_t n = 5 * PS_SEGMENT_BYTES + 100;
    size_t body = value_frame(&w, n, true);
    aim_init(&a, n);
    assert_int_equal(psi_reader_places(&a.r, at, &rest), 0);
    assert_true(rest == SIZE_MAX);
    assert_int_equal(aim_read(&a, w.data, body + 10, false), body + 10);
    assert_int_equal(psi_reader_places(&a.r, at, &rest), 8);
    assert_ptr_equal(at[0].base, a.memory + GUARD + 10);
    assert_int_equal(at[0].bytes, PS_SEGMENT_BYTES - 10);
    assert_int_equal(at[1].bytes, 8);
    assert_ptr_equal(at[2].base, a.memory + GUARD + PS_SEGMENT_BYTES);
    assert_int_equal(at[6].bytes, PS_SEGMENT_BYTES);
    assert_int_equal(rest, 0);
    size_t all = 4 * (PS_SEGMENT_BYTES + 8);
    assert_int_equal(aim_read(&a, w.data + body + 10, all, true), all - 10);
    assert_int_equal(psi_reader_places(&a.r, at, &rest), 4);
    assert_int_equal(at[3].bytes, 4 + 8); /* padding and CRC */
    assert_int_equal(rest, PSI_REST_BYTES);
    assert_int_equal(aim_read(&a, w.data + body + all, w.len - body - all, true), w.len - body - all);
    assert_int_equal(a.ends, 1);
    assert_int_equal(psi_reader_places(&a.r, at, &rest), 0);
    assert_int_equal(rest, PSI_REST_BYTES); /* more like it may follow */
    struct psi_reader large = a.r;
    wire_fini(&w);
    aim_fini(&a);
    body = value_frame(&w, n, true);
    aim_init(&a, n);
    assert_int_equal(aim_read(&a, w.data, body + 10, false), body + 10);
    psi_reader_release(&a.r);
    assert_int_equal(psi_reader_places(&a.r, at, &rest), 0);
    assert_int_equal(rest, 4 * (PS_SEGMENT_BYTES + 8) - 10); /* what is dropped is read in as large pieces */
    assert_int_equal(aim_read(&a, w.data + body + 10, w.len - body - 10, false), w.len - body - 10);
    assert_int_equal(a.ends, 1);
    wire_fini(&w);
    aim_fini(&a);
    PSI_IGNORE(value_frame(&w, 4096, true));
    aim_init(&a, 4096);
    a.r = large;
    aim_run(&a, &w, w.len, PLACED, NEVER);
    assert_int_equal(a.ends, 1);
    assert_int_equal(psi_reader_places(&a.r, at, &rest), 0);
    assert_true(rest == SIZE_MAX);
    wire_fini(&w);
    aim_fini(&a);
}

/* Segments that are taken where they lie: a read ends with one, so that none is cut. */
TEST(test_reads_end_with_a_segment)
{
    static const size_t whole = PS_SEGMENT_BYTES + 8;
    struct wire w;
    struct owner o;
    struct psi_space at[PSI_PLACES_MAX];
    size_t rest = 0;
    size_t body = value_frame(&w, 5 * PS_SEGMENT_BYTES + 100, true);
    owner_init(&o, UINT32_MAX);
    assert_int_equal(psi_reader_places(&o.r, at, &rest), 0);
    assert_true(rest == SIZE_MAX);
    deliver(&o, w.data, body + 100);
    assert_int_equal(o.lent, 1);
    assert_int_equal(psi_reader_places(&o.r, at, &rest), 0);
    assert_int_equal(rest, 4 * whole - 100); /* the one that is cut, and three more */
    deliver(&o, w.data + body + 100, rest);
    assert_int_equal(o.lent, 1);
    assert_null(o.r.buffer);
    assert_int_equal(psi_reader_places(&o.r, at, &rest), 0);
    assert_true(rest == SIZE_MAX); /* the end of the frame is near */
    deliver(&o, w.data + body + 4 * whole, w.len - body - 4 * whole);
    assert_int_equal(o.ends, 1);
    assert_int_equal(o.lent, 1);
    owner_fini(&o);
    wire_fini(&w);
}

TEST(test_body_bytes_and_seal)
{
    static uint8_t payload[3 * PS_SEGMENT_BYTES + 64];
    static const struct ps_pull_trailer trailer = {.version = 1};
    struct wire_random random = {.state = 3};
    for (size_t i = 0; i < 400; i++) {
        size_t n = i < 70 ? i : i < 300 ? PS_SEGMENT_BYTES * (1 + i % 3) - 40 + i / 4 : wire_below(&random, sizeof(payload));
        for (unsigned how = 0; how < 4; how++) {
            struct wire w;
            wire_init(&w);
            size_t at = wire_frame(&w, &(struct wire_frame){.op = PS_OP_PULL,
                                                            .flags = (how & 1) != 0 ? PS_FLAG_CRC : 0,
                                                            .meta = "meta",
                                                            .meta_bytes = 4,
                                                            .payload = payload,
                                                            .payload_bytes = n,
                                                            .trailer = (how & 2) != 0 ? &trailer : NULL});
            struct ps_frame_header h = wire_header(&w, at);
            assert_int_equal(psi_body_bytes(n, (how & 1) != 0, (how & 2) != 0), h.body_bytes);
            uint32_t crc = h.crc;
            memset(w.data + at + 36, 0xee, 4); /* what was there does not matter */
            psi_frame_seal(w.data + at);
            assert_int_equal(wire_header(&w, at).crc, crc);
            wire_fini(&w);
        }
    }
    assert_int_equal(psi_body_bytes(UINT64_C(1) << 40, false, false), UINT64_C(1) << 40);
    assert_int_equal(psi_pad8(0), 0);
    assert_int_equal(psi_pad8(1), 8);
    assert_int_equal(psi_pad8(8), 8);
}

TEST(test_payload_of_a_body)
{
    static const uint32_t sizes[] = {
        1, 8, 4096, PS_SEGMENT_BYTES - 1, PS_SEGMENT_BYTES, PS_SEGMENT_BYTES + 1, 5 * PS_SEGMENT_BYTES};
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        for (unsigned how = 0; how < 4; how++) {
            bool crc = (how & 1) != 0;
            bool trailer = (how & 2) != 0;
            struct ps_frame_header h = {.flags = crc ? PS_FLAG_CRC : 0};
            h.body_bytes = (uint32_t)psi_body_bytes(sizes[i], crc, trailer);
            assert_int_equal(psi_payload_bytes(&h, trailer), psi_pad8(sizes[i]));
        }
    }
}
