/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A task and bytes that are not what they should be: foreign protocols, limits, reserved fields, bad CRCs, requests out of place,
 * bytes that are no message; and HELLO's refusals. A typed error where one can be sent, otherwise the connection is closed; the
 * task goes on.
 */
#include "task_test.h"

#include "common/cluster.h"
#include "common/mem.h"

static void raw_send(struct shell_conn *c, const void *p, size_t n)
{
    struct wire w;
    wire_init(&w);
    wire_append(&w, p, n);
    shell_send(c, &w);
    wire_fini(&w);
}

static void assert_serves(struct env *e)
{
    ps_v1_InfoAnswer info;
    assert_int_equal(fc_info(&e->c, &info), PS_OK);
}

TEST(test_partial_header_then_close)
{
    struct env *e = env_new(NULL);
    static const uint8_t begin[39] = {'P', 's', 1, PS_OP_HELLO};
    for (size_t n = 0; n < sizeof(begin); n++) {
        struct shell_conn *c = shell_connect(e->t);
        shell_log_clear(e->t);
        raw_send(c, begin, n);
        assert_false(shell_is_closed(c));
        shell_cut(c);
        assert_int_equal(e->t->log_bytes, 0); /* not worth a line */
    }
    assert_int_equal(psd_task_link_count(e->t->core), 1);
    assert_serves(e);
}

TEST(test_foreign_protocol_is_closed_at_once)
{
    struct env *e = env_new(NULL);
    static const char *const hellos[] = {"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01", "\r\n\r\n", "Px"};
    for (size_t i = 0; i < ARRAY_COUNT(hellos); i++) {
        struct shell_conn *c = shell_connect(e->t);
        shell_log_clear(e->t);
        raw_send(c, hellos[i], strlen(hellos[i]));
        assert_true(shell_is_closed(c));
        assert_int_equal(c->frame_count, 0);
        assert_true(shell_logged(e->t, "not a psd frame"));
        assert_ptr_equal(strchr(e->t->log, '\n'), strrchr(e->t->log, '\n')); /* one line */
    }
    assert_serves(e);
}

TEST(test_unknown_version_is_answered)
{
    struct env *e = env_new_unconnected(NULL);
    for (unsigned version = 0; version < 256; version += version == 0 ? 2 : 50) {
        struct fc_hello hello;
        struct wire *w = wire_new();
        fc_hello_default(&e->c, &hello);
        fc_frame(&e->c, w, PS_OP_HELLO, 0, 0, 0, NULL, 0, NULL);
        struct ps_frame_header h = wire_header(w, 0);
        h.version = (uint8_t)version;
        wire_set_header(w, 0, &h);
        e->c.conn = shell_connect(e->t);
        shell_send(e->c.conn, w);
        struct fc_reply r = fc_take(&e->c, NULL);
        assert_reply(r, PS_INVALID_ARGUMENT, "VERSION");
        assert_non_null(strstr(r.text, "version 1"));
        assert_int_equal(r.h.op, PS_OP_HELLO);
        assert_true(shell_is_closed(e->c.conn));
    }
}

TEST(test_unknown_op_keeps_in_step)
{
    struct env *e = env_new(NULL);
    struct wire *body = wire_new();
    wire_zeros(body, 70000);
    for (unsigned op = 0; op < 256; op++) {
        bool known = (op >= 1 && op <= 5) || (op >= 16 && op <= 26) || (op >= 32 && op <= 46) || (op >= 48 && op <= 62) ||
                     (op >= 64 && op <= 79) || op == PS_OP_BUILD || op == PS_OP_EVENTS;
        if (known) {
            continue;
        }
        for (uint16_t flags = 0; flags < 64; flags = (uint16_t)(flags + 13)) {
            if ((flags & PS_FLAG_REPLY) != 0) {
                continue;
            }
            struct fc_reply r = fc_call(&e->c, (uint8_t)op, flags, 1234567, 9, "12345678", 8, flags == 0 ? NULL : body);
            assert_reply(r, PS_UNIMPLEMENTED, "UNSUPPORTED");
            assert_int_equal(r.h.op, op);
            assert_int_equal(r.h.id, 1234567);
        }
    }
    assert_serves(e); /* in step */
}

/* Send HELLO with its header changed; the connection must be closed for it. */
static void assert_header_rejected(struct env *e, void (*change)(struct ps_frame_header *h, unsigned i), unsigned i)
{
    struct wire w;
    uint8_t zeros[64] = {0};
    wire_init(&w);
    fc_frame(&e->c, &w, PS_OP_HELLO, 0, 0, 0, zeros, 16, NULL);
    struct ps_frame_header h = wire_header(&w, 0);
    change(&h, i);
    memcpy(w.data, &h, sizeof(h));
    if (h.meta_bytes == 16) {
        wire_seal(&w, 0);
    }
    struct shell_conn *c = shell_connect(e->t);
    uint64_t before = psi_mem_count();
    shell_send(c, &w);
    assert_in_range(psi_mem_count() - before, 0, 5); /* a log line and CLOSE; nothing of the length that it claims */
    assert_true(fc_closed_for(c, "frame header"));
    wire_fini(&w);
}

static void set_flag(struct ps_frame_header *h, unsigned i)
{
    h->flags = (uint16_t)(1u << (8 + i));
}

static void set_reserved(struct ps_frame_header *h, unsigned i)
{
    if (i < 8) {
        h->reserved0 = (uint8_t)(1u << i);
    } else {
        h->reserved1 = (uint16_t)(1u << (i - 8));
    }
}

static void set_body(struct ps_frame_header *h, unsigned i)
{
    static const uint32_t bodies[] = {
        1, 7, PS_PREAUTH_BYTES_MAX + 8, PS_CONTROL_BODY_MAX, PS_FRAME_BODY_MAX, PS_FRAME_BODY_MAX + 8, 0x7ffffff8, 0xffffffff};
    h->body_bytes = bodies[i];
}

static void set_meta(struct ps_frame_header *h, unsigned i)
{
    static const uint16_t metas[] = {1, 17, 1023, 1025, 1032, 0xfff8, 0xffff};
    h->meta_bytes = metas[i];
}

static void set_crc(struct ps_frame_header *h, unsigned i)
{
    (void)i;
    h->id = 1; /* sealed below as it is, so change the seal itself */
    h->reserved1 = 1;
}

TEST(test_header_limits)
{
    struct env *e = env_new(NULL);
    for (unsigned i = 0; i < 8; i++) {
        assert_header_rejected(e, set_flag, i);
    }
    for (unsigned i = 0; i < 24; i++) {
        assert_header_rejected(e, set_reserved, i);
    }
    for (unsigned i = 0; i < 8; i++) {
        assert_header_rejected(e, set_body, i);
    }
    for (unsigned i = 0; i < 7; i++) {
        assert_header_rejected(e, set_meta, i);
    }
    assert_header_rejected(e, set_crc, 0);
    assert_serves(e);
}

TEST(test_bad_header_crc)
{
    struct env *e = env_new(NULL);
    struct wire *w = wire_new();
    fc_frame(&e->c, w, PS_OP_INFO, 0, 1, 0, NULL, 0, NULL);
    w->data[36] ^= 0x80;
    shell_send(e->c.conn, w);
    assert_true(fc_closed_for(e->c.conn, "BAD_CRC"));
    assert_true(shell_logged(e->t, "BAD_CRC"));
}

/* Good frames before the bad one count; what stands behind it is not looked at. */
TEST(test_garbage_behind_a_frame)
{
    struct env *e = env_new(NULL);
    struct wire *w = wire_new();
    fc_frame(&e->c, w, PS_OP_BEAT, 0, 7, 0, NULL, 0, NULL);
    wire_append(w, "garbage garbage garbage garbage garbage garbage", 47);
    fc_frame(&e->c, w, PS_OP_SHUTDOWN, 0, 8, 0, NULL, 0, NULL);
    shell_send(e->c.conn, w);
    assert_true(shell_is_closed(e->c.conn));
    assert_false(e->t->shutdown);
}

TEST(test_out_of_place)
{
    static const struct {
        uint8_t op;
        uint16_t flags;
        const char *why;
    } after_hello[] = {
        {PS_OP_HELLO, 0, "second HELLO"},
        {PS_OP_HELLO, PS_FLAG_REPLY, "HELLO"},
        {PS_OP_PUSH, PS_FLAG_REPLY | PS_FLAG_SEQ, "reply to nothing"},
        {PS_OP_BEAT, PS_FLAG_REPLY, "reply to nothing"},
        {PS_OP_TASK_CREATE, PS_FLAG_REPLY, "reply to nothing"},
        {200, PS_FLAG_REPLY, "reply to nothing"},
        {PS_OP_PUSH, PS_FLAG_FIRST | PS_FLAG_LAST, "SEQ"},
        {PS_OP_INIT, PS_FLAG_FIRST | PS_FLAG_LAST, "SEQ"},
        {PS_OP_ABANDON, 0, "SEQ"},
        {PS_OP_INFO, PS_FLAG_SEQ, "SEQ"},
        {PS_OP_CREATE, PS_FLAG_SEQ, "SEQ"},
    };
    struct env *e = env_new_unconnected(NULL);
    for (size_t i = 0; i < ARRAY_COUNT(after_hello); i++) {
        assert_int_equal(fc_connect(&e->c), PS_OK);
        shell_log_clear(e->t);
        assert_int_equal(fc_call(&e->c, after_hello[i].op, after_hello[i].flags, 1, 0, NULL, 0, NULL).status, FC_NONE);
        assert_true(shell_is_closed(e->c.conn));
        if (!shell_logged(e->t, after_hello[i].why)) {
            fail_msg("op %u flags %u: '%s' is not in: %s", after_hello[i].op, after_hello[i].flags, after_hello[i].why,
                     e->t->log);
        }
    }
    for (unsigned op = 2; op < 90; op++) { /* nothing is served before HELLO */
        e->c.conn = shell_connect(e->t);
        assert_int_equal(fc_call(&e->c, (uint8_t)op, PS_FLAG_SEQ, 1, 0, NULL, 0, NULL).status, FC_NONE);
        assert_true(shell_is_closed(e->c.conn));
    }
}

/* A request has no trailer: one that claims a trailer would hide 16 bytes of its payload. */
TEST(test_value_flag_on_a_request)
{
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = fc_ready(&e->c, "w", PS_F32, 16, ps_sgd(1), 1);
    float g[16];
    struct ps_push_meta m = {.total_elements = 16, .scale = 1};
    struct wire *w = wire_new();
    struct wire_frame f = {
        .op = PS_OP_PUSH, .dtype = PS_F32, .id = e->c.next_number, .handle = v.handle, .meta = &m, .meta_bytes = sizeof(m)};
    f.flags = PS_FLAG_SEQ | PS_FLAG_FIRST | PS_FLAG_LAST | PS_FLAG_VALUE;
    f.payload = filled(g, 16, 1);
    f.payload_bytes = sizeof(g);
    PSI_IGNORE(wire_frame(w, &f));
    shell_send(e->c.conn, w);
    assert_true(shell_is_closed(e->c.conn));
    struct peek p = peek_at(e->t, "w");
    assert_floats(p.value, 0, 16, 1); /* nothing applied */
    assert_int_equal(p.version, 0);
}

/* Every bit of a HELLO, an OPEN and a PUSH with CRCs: closed, or waiting for more; never served, never a crash. */
TEST(test_bit_flips)
{
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = fc_ready(&e->c, "w", PS_F32, 8, ps_sgd(1), 1);
    float g[8];
    ps_v1_NameItem name = ps_v1_NameItem_init_zero;
    struct wire *w = wire_new(), *body = wire_new();
    PSI_IGNORE(PSI_BYTES_SET(name.name, "w")); /* fits */
    wire_item(body, &ps_v1_NameItem_msg, &name);
    for (int kind = 0; kind < 2; kind++) {
        wire_clear(w);
        if (kind == 0) {
            fc_frame(&e->c, w, PS_OP_OPEN, 0, 1, 0, NULL, 0, body);
        } else {
            struct fc_part part = {
                .op = PS_OP_PUSH, .dtype = PS_F32, .handle = v.handle, .total = 8, .payload = filled(g, 8, 1), .scale = 1};
            part.number = e->c.next_number;
            fc_frames(&e->c, w, &part, 0, 0);
        }
        for (size_t bit = 0; bit < w->len * 8; bit++) {
            assert_int_equal(fc_connect(&e->c), PS_OK);
            w->data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
            shell_send(e->c.conn, w);
            w->data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
            assert_true(e->c.conn->frame_count == 0 || fc_closed_for(e->c.conn, "")); /* no CLOSE after a bad magic */
        }
    }
    assert_floats(peek_at(e->t, "w").value, 0, 8, 1);
}

/* A whole conversation in pieces of 1, 3 and 1000 bytes is that in one piece. */
TEST(test_pieces)
{
    static float g[40000];
    static const size_t pieces[] = {0, 1, 3, 1000};
    uint64_t bytes_out[ARRAY_COUNT(pieces)];
    for (size_t i = 0; i < ARRAY_COUNT(pieces); i++) {
        struct env *e = env_new(NULL);
        e->c.conn->piece = pieces[i];
        e->c.conn->write_most = pieces[i] == 0 ? 0 : 777;
        ps_v1_OpenAnswer v = fc_ready(&e->c, "w", PS_F32, 40000, ps_sgd(1), 1);
        assert_applied(fc_push(&e->c, PS_OP_PUSHPULL, &v, filled(g, 40000, 0.5F), 1, 0));
        assert_applied(fc_pull(&e->c, &v, 1, 39998, g));
        assert_floats(g, 0, 39998, 0.5F);
        bytes_out[i] = e->c.conn->bytes_out;
        assert_int_equal(bytes_out[i], bytes_out[0]);
    }
}

TEST(test_thousand_requests_in_one_piece)
{
    struct env *e = env_new(NULL);
    struct wire *w = wire_new();
    for (uint64_t i = 0; i < 1000; i++) {
        fc_frame(&e->c, w, PS_OP_BEAT, 0, 5000 + i, 0, NULL, 0, NULL);
    }
    shell_send(e->c.conn, w);
    for (uint64_t i = 0; i < 1000; i++) {
        struct fc_reply r = fc_take(&e->c, NULL);
        assert_applied(r);
        assert_int_equal(r.h.id, 5000 + i);
    }
}

/* What is asked for behind the values of a large variable is answered before them; the values of a PUSHPULL come before its
 * reply. */
TEST(test_answered_before_large_values)
{
    enum { N = 3 * 32768 };
    static float g[N];
    struct env *e = env_new(NULL);
    struct wire *w = wire_new();
    ps_v1_OpenAnswer large = fc_ready(&e->c, "large", PS_F32, N, ps_sgd(1), 1);
    ps_v1_OpenAnswer small = fc_ready(&e->c, "small", PS_F32, 16, ps_sgd(1), 1);
    const ps_v1_OpenAnswer *of[] = {&large, &large, &small};
    for (uint64_t i = 0; i < ARRAY_COUNT(of); i++) {
        struct ps_pull_meta m = {.elements = (uint32_t)fc_elements(of[i])};
        struct wire_frame f = {.op = PS_OP_PULL, .flags = PS_FLAG_CRC, .id = 5000 + i, .dtype = PS_F32, .handle = of[i]->handle};
        f.meta = &m;
        f.meta_bytes = sizeof(m);
        PSI_IGNORE(wire_frame(w, &f));
    }
    fc_frame(&e->c, w, PS_OP_BEAT, 0, 5003, 0, NULL, 0, NULL);
    shell_send(e->c.conn, w);
    static const uint64_t order[] = {5002, 5003, 5000, 5001};
    for (size_t i = 0; i < ARRAY_COUNT(order); i++) {
        struct shell_frame *f = shell_take(e->c.conn);
        assert_non_null(f);
        assert_int_equal(f->h.id, order[i]);
        shell_frame_free(f);
    }
    struct fc_part part = {
        .op = PS_OP_PUSHPULL, .dtype = PS_F32, .number = e->c.next_number++, .handle = large.handle, .total = N};
    part.payload = filled(g, N, 0.5F);
    part.payload_bytes = sizeof(g);
    part.scale = 1;
    part.first = part.last = true;
    fc_send_part(&e->c, &part);
    for (unsigned i = 0; i < 2; i++) {
        struct shell_frame *f = shell_take(e->c.conn);
        assert_non_null(f);
        assert_int_equal(f->h.op, PS_OP_PUSHPULL);
        assert_int_equal((f->h.flags & PS_FLAG_VALUE) != 0, i == 0);
        shell_frame_free(f);
    }
}

/* Bytes that are no message, for every control request: INVALID_ARGUMENT that names the message, and the connection lives. */
TEST(test_bytes_that_are_no_message)
{
    static const struct {
        uint8_t op;
        bool meta;
        const char *name;
    } rows[] = {
        {PS_OP_OPEN, false, "NameItem"},
        {PS_OP_FIND, false, "NameItem"},
        {PS_OP_CREATE, false, "CreateItem"},
        {PS_OP_DELETE, false, "NameItem"},
        {PS_OP_RESET, false, "ContainerItem"},
        {PS_OP_SEAL, false, "HandleItem"},
        {PS_OP_WAIT, false, "HandleItem"},
        {PS_OP_WAIT_CLUSTER, false, "TaskItem"},
        {PS_OP_BARRIER, false, "NameItem"},
        {PS_OP_BARRIER, true, "Barrier"},
        {PS_OP_INIT, true, "Init"},
        {PS_OP_SEAL, true, "Seal"},
        {PS_OP_WAIT, true, "Wait"},
    };
    static const struct {
        uint8_t bytes[24];
        size_t n;
    } bad[] = {
        {{0x0d, 0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 14}, /* a varint without end */
        {{0x0c, 0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f}, 13},                                           /* a huge field */
        {{0x02, 0x0b, 0x0b}, 3},                                                                    /* groups, nested */
        {{0x7f, 1, 1}, 3},                                                                          /* longer than what is left */
        {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, 12},             /* a length of eleven bytes */
        {{0x80, 0x00, 0x08, 0x01}, 4}, /* a length that is not minimal */
        {{0x00, 0x00, 0x01}, 3},       /* padding that is none */
    };
    struct env *e = env_new(NULL);
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        for (size_t k = 0; k < ARRAY_COUNT(bad); k++) {
            uint8_t meta[32] = {0};
            uint32_t meta_bytes = rows[i].op == PS_OP_WAIT ? 2 : 0;
            struct wire *body = wire_new();
            uint16_t flags = rows[i].op == PS_OP_INIT ? PS_FLAG_SEQ | PS_FLAG_FIRST | PS_FLAG_LAST : 0;
            if (rows[i].meta && (k == 3 || k >= 5)) {
                continue; /* a meta has no length before it */
            }
            if (rows[i].meta) {
                meta_bytes = (uint32_t)bad[k].n - 1;
                memcpy(meta, bad[k].bytes + 1, meta_bytes);
            } else {
                wire_append(body, bad[k].bytes, bad[k].n);
                meta[0] = 0x10; /* WAIT: condition 1, so that the list is what is wrong */
                meta[1] = 1;
            }
            uint64_t id = rows[i].op == PS_OP_INIT ? e->c.next_number++ : e->c.next_id++;
            struct fc_reply r = fc_call(&e->c, rows[i].op, flags, id, 0, meta, meta_bytes, body);
            if (r.status != PS_INVALID_ARGUMENT || strstr(r.text, rows[i].name) == NULL) {
                fail_msg("op %u, bytes %zu: status %d, '%s'", rows[i].op, k, (int)r.status, r.text);
            }
            fc_ack(&e->c, id);
        }
    }
    assert_serves(e);
}
