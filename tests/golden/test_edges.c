/* SPDX-License-Identifier: Apache-2.0 */
/*
 * More golden frames than test_golden.c has: operations of several frames, waiting requests, what tasks say to each other,
 * refusals, and frames that must be refused.
 *
 * Happy path: each frame of edges.h is encoded and compared with tests/golden/edges/NAME.hex byte for byte, read back and
 * decoded; any part of one is incomplete, any flipped bit under a CRC is found, also in bodies. Frames named bad_* are refused.
 * GOLDEN_WRITE=1 rewrites the files; nothing else does.
 */
#include "edges.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

struct good {
    const char *name, *what;
    void (*make)(struct wire *w);
};
static const struct good goods[] = {
    {"seal", "SEAL of one handle", make_seal},
    {"wait", "WAIT until one handle is sealed, 30 s", make_wait},
    {"call", "CALL of psd.echo with 5 bytes, 5 s", make_call},
    {"called", "its reply: 5 bytes", make_called},
    {"call_large", "CALL of psd.echo with the first 8 of 200,003 bytes, room for 300,000", make_call_large},
    {"push_single", "PUSH of 5 elements in one frame, scale 0.5, without CRC (Unix socket)", make_push_single},
    {"push_first", "PUSH, first frame of an operation of two segments, with CRC", make_push_first},
    {"push_continuation", "PUSH, the rest of that operation; its only segment is padded", make_push_continuation},
    {"push_partly", "reply to PUSH: INVALID_ARGUMENT in the second segment, may be partly applied", make_error_reply},
    {"push_busy", "reply to PUSH: RESOURCE_EXHAUSTED, nothing applied, again after 20 ms", make_busy_reply},
    {"pull_ragged", "PULL of 5 elements from element 20; the reply is to have CRCs", make_pull},
    {"pull_moved", "PULL's reply: the variable has changed between its first and its last byte", make_pull_reply},
    {"pushpull_value", "PUSHPULL: new values of the range that the second frame of number 6 brought", make_value},
    {"add", "ADD of 1 to an int64 scalar", make_add},
    {"subtract_first", "ADD with scale -1, first frame of an operation of two segments, with CRC", make_subtract_first},
    {"subtract_continuation", "ADD, the rest of that operation; its only segment is padded", make_subtract_continuation},
    {"abandon", "ABANDON of number 7", make_abandon},
    {"ping", "BEAT without its message", make_beat},
    {"durable", "DURABLE: watermark 1000", make_durable},
    {"close", "CLOSE: why the connection is closed", make_close},
    {"list", "LIST of one name, more to come", make_list},
    {"task_create", "TASK_CREATE, directory to owner", make_task_create},
    {"task_created", "its reply: created there", make_task_created},
    {"task_displaced", "reply to a task's HELLO: another process came after it", make_task_displaced},
};
enum { GOODS = sizeof(goods) / sizeof(goods[0]) };

/* ---- frames that must be refused: a good one with one thing wrong ---- */

static void bad_magic(struct wire *w)
{
    make_beat(w);
    struct ps_frame_header h = wire_header(w, 0);
    h.magic = 0x7351;
    wire_set_header(w, 0, &h);
}

static void bad_header_crc(struct wire *w)
{
    make_beat(w);
    w->data[36] ^= 1;
}

static void bad_meta(struct wire *w)
{
    make_pull(w);
    w->data[PS_FRAME_HEADER_BYTES] ^= 1; /* the header's CRC covers the meta */
}

static void bad_segment_crc(struct wire *w)
{
    make_add(w);
    w->data[w->len - 16] ^= 1;
}

static void bad_flag(struct wire *w)
{
    make_beat(w);
    struct ps_frame_header h = wire_header(w, 0);
    h.flags = 256;
    wire_set_header(w, 0, &h);
}

static void bad_reserved(struct wire *w)
{
    make_beat(w);
    struct ps_frame_header h = wire_header(w, 0);
    h.reserved1 = 1;
    wire_set_header(w, 0, &h);
}

static void bad_body(struct wire *w)
{
    make_beat(w);
    struct ps_frame_header h = wire_header(w, 0);
    h.body_bytes = PS_CONTROL_BODY_MAX + 8; /* no CRC: nothing may come on top of the payload */
    wire_set_header(w, 0, &h);
}

static void bad_ragged_meta(struct wire *w)
{
    make_pull(w);
    struct ps_frame_header h = wire_header(w, 0);
    w->len -= 4;
    h.meta_bytes = 4;
    wire_set_header(w, 0, &h);
}

static const struct {
    const char *name, *what;
    void (*make)(struct wire *w);
    const char *text; /* part of the error */
} bads[] = {
    {"bad_magic", "magic 0x7351", bad_magic, "not a psd frame"},
    {"bad_header_crc", "one bit of the header's CRC is wrong", bad_header_crc, "BAD_CRC of frame header"},
    {"bad_meta", "one bit of a PULL's meta is wrong", bad_meta, "BAD_CRC of frame header"},
    {"bad_segment_crc", "one bit of an ADD's payload is wrong", bad_segment_crc, "BAD_CRC of a segment"},
    {"bad_flag", "flag 256 is set", bad_flag, "reserved field or flag"},
    {"bad_reserved", "the second reserved field is 1", bad_reserved, "reserved field or flag"},
    {"bad_body", "a control frame that announces a body of 256 KiB and 8 bytes", bad_body, "TOO_LARGE body"},
    {"bad_ragged_meta", "4 bytes of meta", bad_ragged_meta, "ragged meta"},
};
enum { BADS = sizeof(bads) / sizeof(bads[0]) };

/* ---- files: comment lines, and rows of at most 16 bytes in hex, "*N" for N equal ones ---- */

enum { ROW = 16 };

static FILE *open_file(const char *name, const char *mode)
{
    char path[512];
    snprintf(path, sizeof(path), "tests/golden/edges/%s.hex", name);
    FILE *f = fopen(path, mode);
    if (f == NULL) {
        fail_msg("%s cannot be opened (run from the repository's root)", path);
    }
    return f;
}

static void file_write(const char *name, const char *what, const struct wire *w)
{
    FILE *f = open_file(name, "w");
    fprintf(f, "# %s: %zu bytes\n", what, w->len);
    for (size_t at = 0; at < w->len;) {
        size_t n = w->len - at < ROW ? w->len - at : ROW;
        size_t equal = 1;
        while (n == ROW && at + (equal + 1) * ROW <= w->len && memcmp(w->data + at, w->data + at + equal * ROW, ROW) == 0) {
            equal++;
        }
        for (size_t i = 0; i < n; i++) {
            fprintf(f, "%02x", w->data[at + i]);
        }
        if (equal > 1) {
            fprintf(f, "*%zu", equal);
        }
        fputc('\n', f);
        at += n * equal;
    }
    assert_int_equal(fclose(f), 0);
}

static void file_read(const char *name, struct wire *w)
{
    FILE *f = open_file(name, "r");
    char line[256];
    while (fgets(line, sizeof(line), f) != NULL) {
        uint8_t row[ROW];
        size_t n = 0;
        unsigned long times = 1;
        if (line[0] == '#') {
            continue;
        }
        for (const char *p = line; n < ROW && isxdigit((unsigned char)p[0]) && isxdigit((unsigned char)p[1]); p += 2) {
            const char digits[3] = {p[0], p[1], '\0'};
            row[n++] = (uint8_t)strtoul(digits, NULL, 16);
        }
        const char *star = strchr(line, '*');
        if (star != NULL) {
            times = strtoul(star + 1, NULL, 10);
        }
        for (; times > 0; times--) {
            wire_append(w, row, n);
        }
    }
    fclose(f);
    assert_true(w->len > 0);
}

static void compare(const char *name, const char *what, const struct wire *made)
{
    const char *write = getenv("GOLDEN_WRITE");
    struct wire w;
    wire_init(&w);
    if (write != NULL && strcmp(write, "1") == 0) {
        file_write(name, what, made);
    }
    file_read(name, &w);
    for (size_t i = 0; i < w.len && i < made->len; i++) {
        if (w.data[i] != made->data[i]) {
            fail_msg("%s: byte %zu is 0x%02x, the file says 0x%02x", name, i, made->data[i], w.data[i]);
        }
    }
    if (w.len != made->len) {
        fail_msg("%s: %zu bytes, the file says %zu", name, made->len, w.len);
    }
    wire_fini(&w);
}

/* ---- reading ---- */

struct seen {
    struct ps_frame_header h;
    _Alignas(8) uint8_t meta[PS_META_BYTES_MAX];
    struct wire payload;
    struct ps_pull_trailer trailer;
    bool has_trailer;
    size_t heads, ends, bads;
    struct psi_err err;
    struct wire *sequence; /* every piece goes here too; NULL: nowhere */
};

static _Alignas(64) uint8_t segment_buffer[PSI_READER_BUFFER_BYTES];

static void take(struct psi_reader *r, const uint8_t *p, size_t n, struct seen *s)
{
    for (;;) {
        enum psi_piece piece = psi_reader_next(r, &p, &n, &s->err);
        if (s->sequence != NULL && piece != PSI_PIECE_NONE) {
            const uint8_t tag = (uint8_t)piece;
            wire_append(s->sequence, &tag, 1);
            wire_append(s->sequence, &r->header, piece == PSI_PIECE_HEAD ? sizeof(r->header) : 0);
            wire_append(s->sequence, r->payload, piece == PSI_PIECE_SEGMENT ? r->payload_bytes : 0);
        }
        if (piece == PSI_PIECE_NONE) {
            assert_int_equal(n, 0);
            return;
        }
        if (piece == PSI_PIECE_BAD) {
            s->bads++;
            return;
        }
        if (piece == PSI_PIECE_HEAD) {
            s->heads++;
            s->h = r->header;
            memcpy(s->meta, psi_reader_meta(r), r->meta_bytes);
            s->has_trailer = r->has_trailer;
        } else if (piece == PSI_PIECE_SEGMENT) {
            wire_append(&s->payload, r->payload, r->payload_bytes);
        } else {
            s->ends++;
            s->trailer = r->trailer;
        }
    }
}

static void read_all(struct seen *s, const uint8_t *p, size_t n)
{
    struct psi_reader r;
    psi_reader_init(&r, UINT32_MAX);
    r.buffer = segment_buffer;
    struct wire payload = s->payload;
    memset(s, 0, sizeof(*s));
    s->payload = payload;
    wire_clear(&s->payload);
    take(&r, p, n, s);
}

/* In which places of a frame of len bytes a cut or a wrong bit is tried: all of a small one; of a large one the head, both ends
 * of each segment and a sample. */
static bool interesting(size_t i, size_t len)
{
    size_t in_segment = i < 56 ? 0 : (i - 56) % (PS_SEGMENT_BYTES + 8);
    return len < 4096 || i < 128 || i + 64 > len || in_segment < 16 || in_segment >= PS_SEGMENT_BYTES - 8 || i % 499 == 0;
}

static void test_encode(void **state)
{
    (void)state;
    for (size_t i = 0; i < GOODS; i++) {
        struct wire w;
        wire_init(&w);
        goods[i].make(&w);
        compare(goods[i].name, goods[i].what, &w);
        wire_fini(&w);
    }
    for (size_t i = 0; i < BADS; i++) {
        struct wire w;
        wire_init(&w);
        bads[i].make(&w);
        compare(bads[i].name, bads[i].what, &w);
        wire_fini(&w);
    }
}

static void test_prefixes(void **state)
{
    (void)state;
    struct seen s = {0};
    for (size_t i = 0; i < GOODS; i++) {
        struct wire w;
        wire_init(&w);
        file_read(goods[i].name, &w);
        for (size_t n = 0; n < w.len; n++) {
            if (interesting(n, w.len)) {
                read_all(&s, w.data, n);
                if (s.ends != 0 || s.bads != 0) {
                    fail_msg("%s: the first %zu of %zu bytes: %zu ends, %zu bad", goods[i].name, n, w.len, s.ends, s.bads);
                }
            }
        }
        read_all(&s, w.data, w.len);
        assert_true(s.heads == 1 && s.ends == 1 && s.bads == 0);
        wire_fini(&w);
    }
    wire_fini(&s.payload);
}

/* Bytes of the frame that a CRC covers: all, but without the flag the header and its meta only. */
static size_t covered(const struct wire *w)
{
    struct ps_frame_header h = wire_header(w, 0);
    return (h.flags & PS_FLAG_CRC) != 0 ? w->len : PS_FRAME_HEADER_BYTES + (size_t)h.meta_bytes;
}

static void test_flips(void **state)
{
    (void)state;
    struct seen s = {0};
    struct seen whole = {0};
    for (size_t i = 0; i < GOODS; i++) {
        struct wire w;
        wire_init(&w);
        file_read(goods[i].name, &w);
        read_all(&whole, w.data, w.len);
        size_t head = PS_FRAME_HEADER_BYTES + (size_t)whole.h.meta_bytes;
        for (size_t at = 0; at < covered(&w); at++) {
            for (unsigned int bit = 0; bit < 8 && interesting(at, w.len); bit++) {
                w.data[at] ^= (uint8_t)(1u << bit);
                read_all(&s, w.data, w.len);
                w.data[at] ^= (uint8_t)(1u << bit);
                bool same = s.payload.len == 0 || (s.payload.len < whole.payload.len + s.has_trailer &&
                                                   memcmp(s.payload.data, whole.payload.data, s.payload.len) == 0);
                if (s.ends != 0 || !same || (at < head ? s.heads != 0 : s.bads == 0)) {
                    fail_msg("%s: bit %u of byte %zu: %zu heads, %zu ends, %zu bad", goods[i].name, bit, at, s.heads, s.ends,
                             s.bads);
                }
            }
        }
        wire_fini(&w);
    }
    wire_fini(&s.payload);
    wire_fini(&whole.payload);
}

/* All frames one after the other, in pieces of any size, are the same pieces. */
static void test_splits(void **state)
{
    (void)state;
    struct wire all, whole, split;
    wire_init(&all);
    wire_init(&whole);
    wire_init(&split);
    for (size_t i = 0; i < GOODS; i++) {
        file_read(goods[i].name, &all);
    }
    struct psi_reader r;
    psi_reader_init(&r, UINT32_MAX);
    r.buffer = segment_buffer;
    struct seen s = {.sequence = &whole};
    take(&r, all.data, all.len, &s);
    assert_int_equal(s.ends, GOODS);
    struct wire_random random = {.state = 20};
    for (int round = 0; round < 50; round++) {
        wire_clear(&split);
        wire_clear(&s.payload);
        s.sequence = &split;
        for (size_t at = 0, n = 0; at < all.len; at += n) {
            n = 1 + (size_t)wire_below(&random, round < 25 ? 300 : 70000);
            n = n < all.len - at ? n : all.len - at;
            take(&r, all.data + at, n, &s);
        }
        assert_int_equal(split.len, whole.len);
        assert_memory_equal(split.data, whole.data, whole.len);
    }
    assert_int_equal(s.bads, 0);
    wire_fini(&s.payload);
    wire_fini(&all);
    wire_fini(&whole);
    wire_fini(&split);
}

static void test_bad(void **state)
{
    (void)state;
    struct seen s = {0};
    for (size_t i = 0; i < BADS; i++) {
        struct wire w;
        wire_init(&w);
        file_read(bads[i].name, &w);
        read_all(&s, w.data, w.len);
        if (s.bads != 1 || s.ends != 0 || s.payload.len != 0 || strstr(s.err.text, bads[i].text) == NULL) {
            fail_msg("%s: %zu bad, %zu ends, '%s'", bads[i].name, s.bads, s.ends, s.err.text);
        }
        wire_fini(&w);
    }
    wire_fini(&s.payload);
}

/* ---- what the frames mean ---- */

static void load(struct seen *s, const char *name, uint8_t op, unsigned int flags, uint64_t id)
{
    struct wire w;
    wire_init(&w);
    file_read(name, &w);
    read_all(s, w.data, w.len);
    wire_fini(&w);
    assert_int_equal(s->ends, 1);
    assert_true(s->h.version == 1 && s->h.op == op && s->h.flags == flags && s->h.id == id);
}

static void decode_meta(const struct seen *s, const pb_msgdesc_t *d, void *m)
{
    struct psi_err err = {0};
    if (psi_msg_decode(d, m, s->meta, s->h.meta_bytes, &err) != PS_OK) {
        fail_msg("%s", err.text);
    }
}

/* The next item; d NULL: there is none. */
static void decode_item(struct seen *s, size_t *at, const pb_msgdesc_t *d, void *m)
{
    struct psi_err err = {0};
    ps_v1_ChiefAnswer none;
    const uint8_t *p = s->payload.data + *at;
    size_t n = s->payload.len - *at;
    bool end = false;
    if (psi_list_next(&p, &n, d == NULL ? &ps_v1_ChiefAnswer_msg : d, d == NULL ? &none : m, &end, &err) != PS_OK) {
        fail_msg("%s", err.text);
    }
    assert_int_equal(end, d == NULL);
    *at = s->payload.len - n;
}

#define assert_text(field_, text_)                                                                                               \
    do {                                                                                                                         \
        char got_[PSI_ERR_TEXT_MAX];                                                                                             \
        assert_int_equal(PSI_BYTES_TEXT(field_, got_, sizeof(got_)), PS_OK);                                                     \
        assert_string_equal(got_, text_);                                                                                        \
    } while (0)

static void test_meaning_control(void **state)
{
    (void)state;
    struct seen s = {0};
    size_t at = 0;
    load(&s, "seal", PS_OP_SEAL, PS_FLAG_CRC, 12);
    ps_v1_Seal seal;
    decode_meta(&s, &ps_v1_Seal_msg, &seal);
    ps_v1_HandleItem handle;
    decode_item(&s, &at, &ps_v1_HandleItem_msg, &handle);
    assert_true(seal.chief_number == 6 && handle.handle == 17 && handle.creation == 78);
    decode_item(&s, &at, NULL, NULL);

    at = 0;
    load(&s, "wait", PS_OP_WAIT, PS_FLAG_CRC, 13);
    ps_v1_Wait wait;
    decode_meta(&s, &ps_v1_Wait_msg, &wait);
    assert_true(wait.timeout_ms == 30000 && wait.condition == 2);
    decode_item(&s, &at, &ps_v1_HandleItem_msg, &handle);
    assert_true(handle.handle == 17 && handle.creation == 78);
    decode_item(&s, &at, NULL, NULL);

    load(&s, "call", PS_OP_CALL, PS_FLAG_CRC, 15);
    ps_v1_Call call;
    decode_meta(&s, &ps_v1_Call_msg, &call);
    assert_text(call.name, "psd.echo");
    assert_true(call.timeout_ms == 5000 && call.in_bytes == 5 && s.payload.len == 8);
    load(&s, "call_large", PS_OP_CALL, PS_FLAG_CRC, 16);
    decode_meta(&s, &ps_v1_Call_msg, &call);
    assert_true(call.in_bytes == 200003 && call.out_bytes == 300000 && s.payload.len == 8);
    load(&s, "called", PS_OP_CALL, PS_FLAG_CRC | PS_FLAG_REPLY, 15);
    assert_true(s.h.meta_bytes == sizeof(struct ps_reply_meta) + 8 && s.meta[sizeof(struct ps_reply_meta)] == 5);
    assert_memory_equal(s.payload.data, "hello\0\0\0", 8);
    load(&s, "task_displaced", PS_OP_HELLO, PS_FLAG_REPLY, 0);
    struct ps_reply_meta said;
    memcpy(&said, s.meta, sizeof(said));
    assert_true(s.h.offset == PS_FAILED_PRECONDITION && said.reason == PS_REASON_DISPLACED && said.result_bytes == 0);

    at = 0;
    load(&s, "list", PS_OP_LIST, PS_FLAG_CRC | PS_FLAG_MORE, 1);
    ps_v1_ListItem item;
    decode_item(&s, &at, &ps_v1_ListItem_msg, &item);
    assert_text(item.name, "layer1/w");
    assert_true(item.optimizer_kind == PS_OPT_ADAM && item.dims_count == 2 && item.dims[0] == 64);

    at = 0;
    load(&s, "task_create", PS_OP_TASK_CREATE, PS_FLAG_CRC, 2);
    ps_v1_CreateItem create;
    decode_item(&s, &at, &ps_v1_CreateItem_msg, &create);
    assert_text(create.container, "localhost");
    assert_true(create.pinned && create.task == 1 && create.dims[1] == 10 && create.optimizer.beta2 == 0.999);
    decode_item(&s, &at, NULL, NULL);

    load(&s, "task_created", PS_OP_TASK_CREATE, PS_FLAG_REPLY, 2);
    assert_true(s.h.meta_bytes == sizeof(struct ps_reply_meta) + 8 && s.meta[sizeof(struct ps_reply_meta)] == 1);
    load(&s, "abandon", PS_OP_ABANDON, PS_FLAG_SEQ, 7);
    load(&s, "ping", PS_OP_BEAT, 0, 40);
    load(&s, "durable", PS_OP_DURABLE, 0, 0);
    assert_true(s.h.offset == 1000 && s.h.meta_bytes == 0 && s.h.body_bytes == 0);
    load(&s, "close", PS_OP_CLOSE, PS_FLAG_REPLY, 0);
    assert_true(s.h.offset == PS_INVALID_ARGUMENT && s.h.body_bytes == 0);
    wire_fini(&s.payload);
}

static void test_meaning_hot(void **state)
{
    (void)state;
    struct seen s = {0};
    load(&s, "push_single", PS_OP_PUSH, PS_FLAG_SEQ | PS_FLAG_FIRST | PS_FLAG_LAST, 2);
    struct ps_push_meta push;
    memcpy(&push, s.meta, sizeof(push));
    assert_true(push.total_elements == 5 && push.scale == 0.5F && s.payload.len == 24 && s.h.dtype == PS_F32);
    float value = 0;
    memcpy(&value, s.payload.data + 16, sizeof(value));
    assert_true(value == 1.25F);

    load(&s, "push_continuation", PS_OP_PUSH, PS_FLAG_CRC | PS_FLAG_SEQ | PS_FLAG_LAST, 4);
    assert_true(s.h.offset == SEGMENT_FLOATS && s.h.meta_bytes == 0);
    assert_int_equal(s.h.body_bytes, psi_body_bytes(12, true, false));

    load(&s, "pull_moved", PS_OP_PULL, PS_FLAG_CRC | PS_FLAG_REPLY, 14);
    struct ps_pull_reply_meta reply;
    memcpy(&reply, s.meta, sizeof(reply));
    assert_true(s.has_trailer && reply.version == 12 && reply.in_progress == 0 && s.trailer.version == 13);
    assert_true(s.trailer.in_progress == 2 && s.payload.len == 24);

    load(&s, "pushpull_value", PS_OP_PUSHPULL, PS_FLAG_CRC | PS_FLAG_REPLY | PS_FLAG_SEQ | PS_FLAG_VALUE, 6);
    assert_true(s.has_trailer && s.h.offset == SEGMENT_FLOATS && s.payload.len == 16);

    load(&s, "push_partly", PS_OP_PUSH, PS_FLAG_REPLY | PS_FLAG_SEQ, 4);
    struct ps_reply_meta error;
    memcpy(&error, s.meta, sizeof(error));
    assert_true(s.h.offset == PS_INVALID_ARGUMENT && error.applied == PS_MAYBE_PARTLY_APPLIED &&
                error.reason == PS_REASON_NOT_FINITE && !s.has_trailer);
    assert_memory_equal(s.meta + sizeof(error), "gradient of 'layer1/w'", 22);

    load(&s, "push_busy", PS_OP_PUSH, PS_FLAG_REPLY | PS_FLAG_SEQ, 9);
    memcpy(&error, s.meta, sizeof(error));
    assert_true(s.h.offset == PS_RESOURCE_EXHAUSTED && error.applied == PS_NOTHING_APPLIED && error.retry_after_ms == 20 &&
                error.reason == PS_REASON_OVERLOADED);

    load(&s, "pull_ragged", PS_OP_PULL, PS_FLAG_CRC, 14);
    struct ps_pull_meta pull;
    memcpy(&pull, s.meta, sizeof(pull));
    assert_true(s.h.offset == 20 && pull.elements == 5 && s.h.body_bytes == 0 && !s.has_trailer);

    load(&s, "add", PS_OP_ADD, PS_FLAG_CRC | PS_FLAG_SEQ | PS_FLAG_FIRST | PS_FLAG_LAST, 8);
    assert_true(s.h.dtype == PS_I64 && s.h.meta_bytes == sizeof(push) && s.payload.len == 8 && s.payload.data[0] == 1);

    load(&s, "subtract_first", PS_OP_ADD, PS_FLAG_CRC | PS_FLAG_SEQ | PS_FLAG_FIRST, 9);
    memcpy(&push, s.meta, sizeof(push));
    assert_true(push.total_elements == SEGMENT_FLOATS + 3 && push.scale == -1 && s.payload.len == PS_SEGMENT_BYTES);
    load(&s, "subtract_continuation", PS_OP_ADD, PS_FLAG_CRC | PS_FLAG_SEQ | PS_FLAG_LAST, 9);
    assert_true(s.h.offset == SEGMENT_FLOATS && s.h.meta_bytes == 0);
    assert_int_equal(s.h.body_bytes, psi_body_bytes(12, true, false));
    wire_fini(&s.payload);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_encode),      cmocka_unit_test(test_prefixes), cmocka_unit_test(test_flips),
        cmocka_unit_test(test_splits),      cmocka_unit_test(test_bad),      cmocka_unit_test(test_meaning_control),
        cmocka_unit_test(test_meaning_hot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
