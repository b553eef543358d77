/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A task and frames that are well made but not allowed: what their operation does not have, values out of range, and what the
 * task says of it: CLOSE, or a refusal that names what is wrong.
 */
#include "task_test.h"

#include <math.h>

/* Everything that a frame of an operation does not have is reserved: set, it closes the connection, and nothing is done. */
TEST(test_reserved_bits)
{
    static const struct ps_push_meta plain = {.total_elements = 16, .scale = 1};
    static const struct ps_push_meta assign_flag = {.total_elements = 16, .scale = 1, .assign_flags = 32};
    static const struct ps_push_meta push_flag = {.total_elements = 16, .scale = 1, .assign_flags = PS_ASSIGN_INIT_ONLY};
    static const struct ps_push_meta versioned = {.total_elements = 16, .scale = 1, .version = 1};
    static const struct ps_contribute_meta reserved = {.total_elements = 16, .scale = 1, .reserved = 1};
    static const struct ps_pull_meta pull_good = {.elements = 10};
    static const uint8_t some[8] = {0x0a, 1, 'w'};
    static const float values[16];
    enum { WHOLE = PS_FLAG_SEQ | PS_FLAG_FIRST | PS_FLAG_LAST, V = sizeof(values) };
#define PUSH_META .meta = &plain, .meta_bytes = sizeof(plain)
#define BODY .payload = values, .payload_bytes = V
    static const struct {
        const char *why;
        struct wire_frame f;
    } rows[] = {
        {"FIRST", {.op = PS_OP_INFO, .flags = PS_FLAG_FIRST}},
        {"LAST", {.op = PS_OP_BEAT, .flags = PS_FLAG_LAST}},
        {"MORE", {.op = PS_OP_OPEN, .flags = PS_FLAG_MORE}},
        {"MORE", {.op = PS_OP_FIND, .flags = PS_FLAG_MORE}},
        {"MORE", {.op = PS_OP_SEAL, .flags = PS_FLAG_MORE}},
        {"MORE", {.op = PS_OP_RESET, .flags = PS_FLAG_MORE}},
        {"MORE", {.op = PS_OP_DELETE, .flags = PS_FLAG_MORE}},
        {"MORE", {.op = PS_OP_CALL, .flags = PS_FLAG_MORE}},
        {"MORE", {.op = PS_OP_PUSH, .dtype = PS_F32, .flags = WHOLE | PS_FLAG_MORE, PUSH_META, BODY}},
        {"MORE", {.op = PS_OP_PULL, .dtype = PS_F32, .flags = PS_FLAG_MORE, .meta = &pull_good, .meta_bytes = 8}},
        {"FIRST", {.op = PS_OP_ABANDON, .flags = PS_FLAG_SEQ | PS_FLAG_FIRST}},
        {"FIRST", {.op = PS_OP_INIT, .flags = PS_FLAG_SEQ | PS_FLAG_LAST}},
        {"LAST", {.op = PS_OP_INIT, .flags = PS_FLAG_SEQ | PS_FLAG_FIRST}},
        {"assign flags",
         {.op = PS_OP_ASSIGN, .dtype = PS_F32, .flags = WHOLE, .meta = &assign_flag, .meta_bytes = sizeof(plain), BODY}},
        {"assign flags",
         {.op = PS_OP_PUSH, .dtype = PS_F32, .flags = WHOLE, .meta = &push_flag, .meta_bytes = sizeof(plain), BODY}},
        {"version",
         {.op = PS_OP_ADD, .dtype = PS_F32, .flags = WHOLE, .meta = &versioned, .meta_bytes = sizeof(versioned), BODY}},
        {"reserved",
         {.op = PS_OP_CONTRIBUTE, .dtype = PS_F32, .flags = WHOLE, .meta = &reserved, .meta_bytes = sizeof(reserved), BODY}},
        {"meta", {.op = PS_OP_PUSH, .dtype = PS_F32, .flags = PS_FLAG_SEQ | PS_FLAG_LAST, PUSH_META, BODY}},
        {"meta", {.op = PS_OP_GOODBYE, .meta = some, .meta_bytes = 8}},
        {"meta", {.op = PS_OP_OPEN, .meta = some, .meta_bytes = 8}},
        {"meta", {.op = PS_OP_ACK, .meta = some, .meta_bytes = 8}},
        {"body", {.op = PS_OP_ACK, .payload = some, .payload_bytes = 8}},
        {"body", {.op = PS_OP_BEAT, .payload = some, .payload_bytes = 8}},
        {"body", {.op = PS_OP_GOODBYE, .payload = some, .payload_bytes = 8}},
        {"body", {.op = PS_OP_SHUTDOWN, .payload = some, .payload_bytes = 8}},
        {"body", {.op = PS_OP_PULL, .dtype = PS_F32, .meta = &pull_good, .meta_bytes = 8, BODY}},
        {"handle", {.op = PS_OP_INFO, .handle = 1}},
        {"dtype", {.op = PS_OP_CREATE, .dtype = 1}},
        {"dtype", {.op = PS_OP_INIT, .dtype = 1, .flags = WHOLE}},
        {"offset", {.op = PS_OP_SHUTDOWN, .offset = UINT64_C(1) << 63}},
        {"offset", {.op = PS_OP_INIT, .offset = 1, .flags = WHOLE}},
    };
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = fc_ready(&e->c, "w", PS_F32, 16, ps_sgd(1), 1);
    struct wire *w = wire_new();
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        assert_int_equal(fc_connect(&e->c), PS_OK);
        struct wire_frame f = rows[i].f;
        bool data = f.op >= PS_OP_PUSH && f.op <= PS_OP_CONTRIBUTE;
        f.id = (f.flags & PS_FLAG_SEQ) != 0 ? e->c.next_number : e->c.next_id++;
        f.handle = data ? v.handle : f.handle;
        wire_clear(w);
        PSI_IGNORE(wire_frame(w, &f));
        shell_log_clear(e->t);
        shell_send(e->c.conn, w);
        if (!shell_logged(e->t, rows[i].why) || !fc_closed_for(e->c.conn, rows[i].why)) {
            fail_msg("row %zu, op %u: closed %d, '%s' is not in: %s", i, f.op, shell_is_closed(e->c.conn), rows[i].why,
                     e->t->log);
        }
    }
    struct peek p = peek_at(e->t, "w");
    assert_floats(p.value, 0, 16, 1);
    assert_int_equal(p.version, 0);
    assert_false(e->t->shutdown);
    assert_int_equal(fc_connect(&e->c), PS_OK);
    wire_clear(w);
    fc_frame(&e->c, w, PS_OP_INFO, 0, 0, 0, NULL, 0, NULL); /* request number 0 */
    shell_send(e->c.conn, w);
    assert_true(shell_is_closed(e->c.conn));
    wire_clear(w);
    uint8_t meta[128] = {8, 1};
    fc_frame(&e->c, w, PS_OP_HELLO, 0, 5, 0, meta, 8, NULL); /* HELLO has no number */
    e->c.conn = shell_connect(e->t);
    shell_send(e->c.conn, w);
    assert_true(shell_is_closed(e->c.conn));
}

/* The last frame on a connection that is closed for the peer's fault says why, behind what was answered before. */
TEST(test_close_says_why)
{
    enum { BIG = 1 << 20 };
    static float values[BIG];
    struct env *e = env_new(NULL);
    struct wire *w = wire_new();
    ps_v1_OpenAnswer v = fc_ready(&e->c, "w", PS_F32, BIG, ps_sgd(1), 1);
    const struct ps_pull_meta all = {.elements = BIG};
    for (int half = 0; half < 2; half++) {
        wire_clear(w);
        assert_int_equal(fc_connect(&e->c), PS_OK);
        fc_frame(&e->c, w, PS_OP_BEAT, 0, 8, 0, NULL, 0, NULL);
        struct wire_frame pull = {
            .op = PS_OP_PULL, .dtype = PS_F32, .id = 9, .handle = v.handle, .meta = &all, .meta_bytes = sizeof(all)};
        PSI_IGNORE(wire_frame(w, &pull));
        if (half == 1) { /* the system takes the beginning of the reply, and then no more */
            e->c.conn->write_most = 100000;
            e->c.conn->stuck = true;
            shell_send(e->c.conn, w);
            wire_clear(w);
        }
        fc_frame(&e->c, w, PS_OP_INFO, PS_FLAG_FIRST, 10, 0, NULL, 0, NULL);
        shell_send(e->c.conn, w);
        assert_true(shell_is_closed(e->c.conn));
        if (half == 0) {
            assert_applied(fc_take(&e->c, NULL));                      /* the BEAT */
            assert_true(fc_closed_for(e->c.conn, "INFO: flag FIRST")); /* the values that had not begun are dropped */
        } else {
            assert_true(e->c.conn->frame_count <= 1); /* nothing inside a half-sent frame */
        }
    }
    assert_int_equal(fc_connect(&e->c), PS_OK);
    assert_applied(fc_pull(&e->c, &v, 0, BIG, values));
    wire_clear(w);
    fc_frame(&e->c, w, PS_OP_INFO, 0, 11, 0, NULL, 0, NULL);
    w->data[0] = 'X'; /* not our protocol any more */
    shell_send(e->c.conn, w);
    assert_true(shell_is_closed(e->c.conn) && e->c.conn->frame_count == 0);
    /* deadlines */
    struct shell_conn *c = shell_connect(e->t);
    shell_pass(&e->net, PS_HELLO_DEADLINE_MS);
    assert_true(fc_closed_for(c, "no HELLO"));
    assert_int_equal(fc_connect(&e->c), PS_OK);
    shell_pass(&e->net, PS_LEASE_MS);
    assert_true(fc_closed_for(e->c.conn, "nothing was heard"));
}

/* A client may say it too. */
TEST(test_close_from_a_client)
{
    struct env *e = env_new(NULL);
    struct wire *w = wire_new();
    for (int greeted = 0; greeted < 2; greeted++) {
        struct shell_conn *c = greeted != 0 ? e->c.conn : shell_connect(e->t);
        uint8_t meta[48] = {[26] = 3, [40] = 'o', [41] = 'd', [42] = 'd'};
        struct wire_frame f = {
            .op = PS_OP_CLOSE, .flags = PS_FLAG_REPLY, .offset = PS_INVALID_ARGUMENT, .meta = meta, .meta_bytes = sizeof(meta)};
        wire_clear(w);
        PSI_IGNORE(wire_frame(w, &f));
        shell_log_clear(e->t);
        shell_send(c, w);
        assert_true(shell_is_closed(c) && c->frame_count == 0);
        assert_true(shell_logged(e->t, "closed_by_peer") && shell_logged(e->t, "odd"));
    }
}

/* What is wrong is said, where it can be said. */
TEST(test_wrong_values_are_named)
{
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = fc_ready(&e->c, "w", PS_F32, 16, ps_sgd(1), 1);
    float values[16] = {0};
    static const float scales[] = {0, -1, 2, NAN, INFINITY};
    for (size_t i = 0; i < ARRAY_COUNT(scales); i++) {
        assert_reply(fc_push(&e->c, PS_OP_ASSIGN, &v, values, scales[i], 0), PS_INVALID_ARGUMENT, "allowed: 1");
    }
    assert_floats(peek_at(e->t, "w").value, 0, 16, 1);
    struct ps_push_meta wide = {.total_elements = 16};
    for (uint32_t bytes = 0; bytes <= 16; bytes += 16) {
        struct wire *w = wire_new();
        struct wire_frame f = {
            .op = PS_OP_PULL, .dtype = PS_F32, .id = e->c.next_id++, .handle = v.handle, .meta = &wide, .meta_bytes = bytes};
        PSI_IGNORE(wire_frame(w, &f));
        shell_send(e->c.conn, w);
        struct fc_reply r = fc_take(&e->c, NULL);
        assert_reply(r, PS_INVALID_ARGUMENT, bytes == 0 ? "meta of 0 bytes" : "meta of 16 bytes");
    }
    static const uint8_t no_beat[8] = {0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    struct fc_reply r = fc_call(&e->c, PS_OP_BEAT, 0, e->c.next_id++, 0, no_beat, sizeof(no_beat), NULL);
    assert_reply(r, PS_INVALID_ARGUMENT, "Beat");
    ps_v1_CreateItem item;
    ps_v1_CreateAnswer answer;
    fc_create_item(&item, "odd", PS_F32, 4, ps_sgd(1));
    item.dtype = 99;
    assert_int_equal(fc_create(&e->c, &item, &answer), PS_INVALID_ARGUMENT);
    char text[PSI_ERR_TEXT_MAX];
    assert_int_equal(PSI_BYTES_TEXT(answer.text, text, sizeof(text)), PS_OK);
    assert_non_null(strstr(text, "dtype 99"));
    fc_create_item(&item, "w", PS_F32, 16, ps_adam(1));
    assert_int_equal(fc_create(&e->c, &item, &answer), PS_INVALID_ARGUMENT);
    assert_int_equal(PSI_BYTES_TEXT(answer.text, text, sizeof(text)), PS_OK);
    assert_non_null(strstr(text, "OPTIMIZER_MISMATCH"));
    assert_null(strstr(text, "SHAPE_MISMATCH"));
}

/* What an operation is done to is one thing: a second one is refused with the first, and nothing is done to either. */
TEST(test_one_item_where_one_is_allowed)
{
    static const struct {
        uint8_t op;
        const pb_msgdesc_t *d;
    } rows[] = {
        {PS_OP_RESET, &ps_v1_ContainerItem_msg},   {PS_OP_CHIEF, &ps_v1_ContainerItem_msg},
        {PS_OP_JOIN, &ps_v1_ContainerItem_msg},    {PS_OP_STEP, &ps_v1_ContainerItem_msg},
        {PS_OP_LEAVE, &ps_v1_ContainerItem_msg},   {PS_OP_SET_RATE, &ps_v1_ContainerItem_msg},
        {PS_OP_DELETE, &ps_v1_NameItem_msg},       {PS_OP_BARRIER, &ps_v1_NameItem_msg},
        {PS_OP_CONFIG_SET, &ps_v1_ConfigItem_msg}, {PS_OP_CHECKPOINT_DELETE, &ps_v1_SavedNameItem_msg},
    };
    struct env *e = env_new(NULL);
    PSI_IGNORE(fc_ready(&e->c, "w", PS_F32, 16, ps_sgd(1), 1));
    struct wire *body = wire_new();
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        union {
            ps_v1_ContainerItem container;
            ps_v1_NameItem name;
            ps_v1_ConfigItem config;
            ps_v1_SavedNameItem saved;
        } item = {0};
        switch (rows[i].op) {
        case PS_OP_DELETE:
        case PS_OP_BARRIER:
            PSI_IGNORE(PSI_BYTES_SET(item.name.name, "w")); /* fits */
            break;
        case PS_OP_CONFIG_SET:
            PSI_IGNORE(PSI_BYTES_SET(item.config.name, "drain")); /* fits */
            break;
        case PS_OP_CHECKPOINT_DELETE:
            item.saved.number = 1;
            break;
        default:
            PSI_IGNORE(PSI_BYTES_SET(item.container.container, "localhost")); /* fits */
        }
        wire_clear(body);
        wire_item(body, rows[i].d, &item);
        wire_item(body, rows[i].d, &item);
        assert_reply(fc_call(&e->c, rows[i].op, 0, e->c.next_id++, 0, NULL, 0, body), PS_INVALID_ARGUMENT, "names more than one");
    }
    assert_floats(peek_at(e->t, "w").value, 0, 16, 1); /* neither reset nor deleted */
}

/* HELLO says what it does not accept. */
TEST(test_hello_is_refused_by_name)
{
    struct env *e = env_new(NULL);
    struct fc_hello hello;
    fc_hello_default(&e->c, &hello);
    hello.m.role = 2;
    assert_int_equal(fc_hello(&e->c, &hello), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(e->c.hello_reply.text, "role 2"));
    assert_null(strstr(e->c.hello_reply.text, "session"));
    assert_true(shell_is_closed(e->c.conn));
    fc_hello_default(&e->c, &hello);
    memset(hello.m.session.bytes, 0, sizeof(hello.m.session.bytes));
    assert_int_equal(fc_hello(&e->c, &hello), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(e->c.hello_reply.text, "16 zero bytes"));
    fc_hello_default(&e->c, &hello);
    hello.m.session.size = 15;
    assert_int_equal(fc_hello(&e->c, &hello), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(e->c.hello_reply.text, "15 bytes"));
}
