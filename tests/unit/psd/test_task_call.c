/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CALL: a call of the table runs once, whatever happens to connections, and is answered once; what is refused did not run; a
 * deadline, ACK, GOODBYE and the end of a session cancel it; its memory is within the budget and comes back.
 */
#include "task_test.h"

#include "common/mem.h"

static const char *name_of(void *shell, uint32_t row)
{
    static const char *const names[] = {"test.echo", "test.picky"};
    (void)shell;
    return row < ARRAY_COUNT(names) ? names[row] : NULL;
}

static ps_status check(void *shell, uint32_t row, const void *in, size_t in_bytes, char *error, size_t error_bytes)
{
    (void)shell;
    (void)in;
    if (row == 1 && in_bytes != 3) {
        PSI_IGNORE(snprintf(error, error_bytes, "it takes 3 bytes")); /* fits */
        return PS_INVALID_ARGUMENT;
    }
    return PS_OK;
}

static void with_table(struct psd_task_config *config)
{
    config->call_name = name_of;
    config->call_check = check;
    config->calls_max = 3;
}

static void with_little_memory(struct psd_task_config *config)
{
    with_table(config);
    config->memory_budget_bytes = 2 * PS_CALL_BYTES_MAX - 1; /* one call and its input, no second one */
}

/* Send CALL; the reply if there is one, and its body. */
static struct fc_reply call_as(struct fc *c, uint64_t id, const char *name, const void *in, uint32_t in_bytes,
                               uint32_t said_bytes, uint64_t timeout_ms, struct wire *out)
{
    ps_v1_Call m = ps_v1_Call_init_zero;
    struct wire body;
    struct wire w;
    _Alignas(8) uint8_t meta[96] = {0};
    size_t bytes = 0;
    PSI_IGNORE(PSI_BYTES_SET(m.name, name)); /* fits */
    m.timeout_ms = timeout_ms;
    m.in_bytes = said_bytes;
    assert_int_equal(psi_msg_encode(&ps_v1_Call_msg, &m, meta, sizeof(meta), &bytes, NULL), PS_OK);
    wire_init(&body);
    wire_init(&w);
    wire_append(&body, in, in_bytes);
    fc_frame(c, &w, PS_OP_CALL, 0, id, 0, meta, psi_pad8((uint32_t)bytes), in_bytes > 0 ? &body : NULL);
    shell_send(c->conn, &w);
    wire_fini(&body);
    wire_fini(&w);
    if (out != NULL) {
        wire_clear(out);
    }
    return fc_take(c, out);
}

static struct fc_reply call(struct fc *c, uint64_t id, const char *name, const char *in, uint64_t timeout_ms)
{
    return call_as(c, id, name, in, (uint32_t)strlen(in), (uint32_t)strlen(in), timeout_ms, NULL);
}

static uint64_t result_bytes(const struct fc_reply *r)
{
    uint64_t n = 0;
    assert_int_equal(r->result_bytes, sizeof(n));
    memcpy(&n, r->result, sizeof(n));
    return n;
}

static void assert_no_memory_left(const struct env *e)
{
    assert_int_equal(psd_task_memory_bytes(e->t->core), 0);
}

TEST(test_runs_once_and_is_answered)
{
    struct env *e = env_new(with_table);
    struct wire *out = wire_new();
    assert_reply(call(&e->c, 1, "test.echo", "hello", 0), FC_NONE, "");
    assert_int_equal(e->t->call_count, 1);
    assert_int_equal(e->t->calls[0].row, 0);
    assert_int_equal(e->t->calls[0].in_bytes, 5);
    assert_memory_equal(e->t->calls[0].in, "hello", 5);
    assert_int_equal(e->t->calls[0].out_bytes, PS_CALL_BYTES_MAX);
    shell_finish(e->t, 0, PS_OK, "world!", 6, NULL);
    struct fc_reply r = fc_take(&e->c, out);
    assert_applied(r);
    assert_int_equal(result_bytes(&r), 6);
    assert_memory_equal(out->data, "world!", 6);
    assert_int_equal(e->t->call_count, 0);
    /* asked again: the kept result, nothing runs */
    r = call_as(&e->c, 1, "test.echo", "hello", 5, 5, 0, out);
    assert_applied(r);
    assert_int_equal(result_bytes(&r), 6);
    assert_memory_equal(out->data, "world!", 6);
    assert_int_equal(e->t->call_count, 0);
    assert_true(psd_task_memory_bytes(e->t->core) > 0);
    fc_ack(&e->c, 1);
    assert_no_memory_left(e);
}

/* The memory of a result serves the next call: no call takes new pages from the system. */
TEST(test_calls_take_turns_in_memory)
{
    struct env *e = env_new(with_table);
    const void *memory = NULL;
    for (uint64_t id = 1; id < 4; id++) {
        assert_reply(call(&e->c, id, "test.echo", "hello", 0), FC_NONE, "");
        memory = memory != NULL ? memory : e->t->calls[0].out;
        assert_ptr_equal(e->t->calls[0].out, memory);
        shell_finish(e->t, 0, PS_OK, "world!", 6, NULL);
        assert_applied(fc_take(&e->c, NULL));
        fc_ack(&e->c, id);
        assert_no_memory_left(e);
    }
}

/* WAITS tells of it while it runs. */
TEST(test_is_listed_while_it_runs)
{
    ps_v1_WaitAnswer a;
    struct env *e = env_new(with_table);
    struct wire *back = wire_new();
    struct fc *other = fc_new(e->t, 2);
    assert_reply(call(&e->c, 1, "test.echo", "hello", 5000), FC_NONE, "");
    shell_pass(&e->net, 100);
    assert_applied(fc_list(other, PS_OP_WAITS, NULL, NULL, back));
    const uint8_t *p = back->data;
    size_t n = back->len;
    assert_true(fc_item(&p, &n, &ps_v1_WaitAnswer_msg, &a));
    assert_true(a.op == PS_OP_CALL && a.since_ms == 100 && a.left_ms == 4900);
    assert_true(a.what.size == 17 && memcmp(a.what.bytes, "called: test.echo", 17) == 0);
    assert_true(a.release.size == 13 && memcmp(a.release.bytes, "the call ends", 13) == 0);
    assert_false(fc_item(&p, &n, &ps_v1_WaitAnswer_msg, &a));
    shell_finish(e->t, 0, PS_OK, "", 0, NULL);
    wire_clear(back);
    assert_applied(fc_list(other, PS_OP_WAITS, NULL, NULL, back));
    assert_int_equal(back->len, 0);
}

TEST(test_bounds_of_input_and_output)
{
    static uint8_t large[PS_CALL_BYTES_MAX + 8];
    memset(large, 0x5a, sizeof(large));
    struct env *e = env_new(with_table);
    struct wire *out = wire_new();
    static const uint32_t sizes[] = {0, 1, 7, 8, 9, (uint32_t)PS_CALL_BYTES_MAX - 1, (uint32_t)PS_CALL_BYTES_MAX};
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        for (size_t k = 0; k < ARRAY_COUNT(sizes); k++) {
            uint64_t id = 1 + i * 10 + k;
            assert_reply(call_as(&e->c, id, "test.echo", large, sizes[i], sizes[i], 0, NULL), FC_NONE, "");
            assert_int_equal(e->t->calls[0].in_bytes, sizes[i]);
            shell_finish(e->t, 0, PS_OK, large, sizes[k], NULL);
            wire_clear(out);
            struct fc_reply r = fc_take(&e->c, out);
            assert_applied(r);
            assert_int_equal(result_bytes(&r), sizes[k]);
            assert_int_equal(out->len, psi_pad8(sizes[k]));
            assert_memory_equal(out->data, large, sizes[k]);
            fc_ack(&e->c, id);
            assert_no_memory_left(e);
        }
    }
    uint32_t over = (uint32_t)PS_CALL_LARGE_BYTES_MAX + 1;
    assert_reply(call_as(&e->c, 1000, "test.echo", large, 8, over, 0, NULL), PS_INVALID_ARGUMENT, "at most 1073741824");
    assert_reply(call_as(&e->c, 1001, "test.echo", large, 24, 8, 0, NULL), PS_INVALID_ARGUMENT, "8 bytes are to go in and 24");
    assert_reply(call_as(&e->c, 1002, "test.echo", large, 0, 1, 0, NULL), PS_INVALID_ARGUMENT, "and 0 have come");
    assert_reply(call_as(&e->c, 1003, "test.echo", large, 8, 0, 0, NULL), PS_INVALID_ARGUMENT, "0 bytes are to go in");
    assert_int_equal(e->t->call_count, 0);
}

/* ---- more than a frame ---- */

enum { PIECE = 1000, INPUT = 3 * PIECE + 5, OUTPUT = PS_CONTROL_BODY_MAX + 1003 };
static uint8_t pattern[OUTPUT];

/* CALL with the first piece of INPUT bytes, and room for OUTPUT. */
static struct fc_reply call_large(struct fc *c, uint64_t id, uint32_t out_bytes)
{
    ps_v1_Call m = ps_v1_Call_init_zero;
    struct wire *body = wire_new();
    struct wire *w = wire_new();
    _Alignas(8) uint8_t meta[96] = {0};
    size_t bytes = 0;
    for (size_t i = 0; i < sizeof(pattern); i++) {
        pattern[i] = (uint8_t)(i * 7 + i / 251);
    }
    PSI_IGNORE(PSI_BYTES_SET(m.name, "test.echo")); /* fits */
    m.in_bytes = INPUT;
    m.out_bytes = out_bytes;
    assert_int_equal(psi_msg_encode(&ps_v1_Call_msg, &m, meta, sizeof(meta), &bytes, NULL), PS_OK);
    wire_append(body, pattern, PIECE);
    fc_frame(c, w, PS_OP_CALL, 0, id, 0, meta, psi_pad8((uint32_t)bytes), body);
    shell_send(c->conn, w);
    return fc_take(c, NULL);
}

/* The frame of a PUT_PART or GET_PART. */
static struct wire *part_frame(struct fc *c, uint8_t op, uint64_t id, uint64_t of, uint64_t offset, uint32_t n)
{
    const ps_v1_Part m = {.of = of, .offset = offset, .bytes = n};
    struct wire *body = wire_new();
    struct wire *w = wire_new();
    _Alignas(8) uint8_t meta[64] = {0};
    size_t bytes = 0;
    assert_int_equal(psi_msg_encode(&ps_v1_Part_msg, &m, meta, sizeof(meta), &bytes, NULL), PS_OK);
    if (op == PS_OP_PUT_PART) {
        wire_append(body, pattern + offset, n);
    }
    fc_frame(c, w, op, 0, id, 0, meta, psi_pad8((uint32_t)bytes), op == PS_OP_PUT_PART ? body : NULL);
    return w;
}

/* PUT_PART or GET_PART. */
static struct fc_reply part(struct fc *c, uint8_t op, uint64_t id, uint64_t of, uint64_t offset, uint32_t n, struct wire *out)
{
    shell_send(c->conn, part_frame(c, op, id, of, offset, n));
    if (out != NULL) {
        wire_clear(out);
    }
    return fc_take(c, out);
}

TEST(test_input_and_output_in_parts)
{
    struct env *e = env_new(with_table);
    struct wire *out = wire_new();
    assert_reply(call_large(&e->c, 1, OUTPUT), FC_NONE, "");
    assert_int_equal(e->t->call_count, 0); /* nothing runs before all is here */
    assert_true(psd_task_drained(e->t->core));
    assert_reply(part(&e->c, PS_OP_GET_PART, 2, 1, 0, 8, NULL), PS_OUT_OF_RANGE, "an answer of 0");
    assert_reply(part(&e->c, PS_OP_PUT_PART, 3, 1, 2 * PIECE, PIECE, NULL), PS_OUT_OF_RANGE, "1000 of 3005 bytes have come");
    assert_reply(part(&e->c, PS_OP_PUT_PART, 4, 1, PIECE, 2 * PIECE + 6, NULL), PS_OUT_OF_RANGE, "1000 of 3005");
    assert_reply(part(&e->c, PS_OP_PUT_PART, 5, 9, PIECE, PIECE, NULL), PS_NOT_FOUND, "of number 9");
    assert_applied(part(&e->c, PS_OP_PUT_PART, 6, 1, PIECE, 2 * PIECE, NULL));
    assert_applied(part(&e->c, PS_OP_PUT_PART, 7, 1, 3 * PIECE, 5, NULL));
    assert_int_equal(e->t->call_count, 1);
    assert_int_equal(e->t->calls[0].in_bytes, INPUT);
    assert_memory_equal(e->t->calls[0].in, pattern, INPUT);
    assert_int_equal(e->t->calls[0].out_bytes, OUTPUT);
    assert_false(psd_task_drained(e->t->core));
    assert_applied(part(&e->c, PS_OP_PUT_PART, 8, 1, PIECE, PIECE, NULL)); /* sent again to one that has come whole */
    assert_int_equal(e->t->call_count, 1);
    shell_finish(e->t, 0, PS_OK, pattern, OUTPUT, NULL);
    wire_clear(out);
    struct fc_reply r = fc_take(&e->c, out);
    assert_applied(r);
    assert_int_equal(result_bytes(&r), OUTPUT);
    assert_int_equal(out->len, PS_CONTROL_BODY_MAX);
    assert_memory_equal(out->data, pattern, PS_CONTROL_BODY_MAX);
    for (int again = 0; again < 2; again++) {
        r = part(&e->c, PS_OP_GET_PART, 10, 1, PS_CONTROL_BODY_MAX, 1003, out);
        assert_applied(r);
        assert_int_equal(result_bytes(&r), 1003);
        assert_memory_equal(out->data, pattern + PS_CONTROL_BODY_MAX, 1003);
    }
    assert_reply(part(&e->c, PS_OP_GET_PART, 11, 1, PS_CONTROL_BODY_MAX, 1004, NULL), PS_OUT_OF_RANGE, "");
    fc_ack(&e->c, 1);
    assert_reply(part(&e->c, PS_OP_GET_PART, 12, 1, 0, 8, NULL), PS_NOT_FOUND, "");
    assert_no_memory_left(e);
}

/* The first bytes of a frame, and what is left of it. */
static struct wire *cut_wire(const struct wire *w, size_t from, size_t to)
{
    struct wire *part = wire_new();
    wire_append(part, w->data + from, to - from);
    return part;
}

/* The body of a part is read to where it belongs, without a copy of it. A connection that ends in the middle of a part
 * takes nothing along. */
TEST(test_a_part_goes_straight_to_its_place)
{
    enum { HALF = 300 };
    for (int ends = 0; ends < 3; ends++) {
        struct env *e = env_new(with_table);
        struct psi_space places[PSI_PLACES_MAX];
        size_t rest = 0;
        assert_reply(call_large(&e->c, 1, 0), FC_NONE, "");
        const struct wire *w = part_frame(&e->c, PS_OP_PUT_PART, 2, 1, PIECE, 2 * PIECE + 5);
        shell_send(e->c.conn, cut_wire(w, 0, HALF));
        const size_t head = w->len - (2 * PIECE + 8 + 8); /* the body has padding and a CRC */
        assert_int_equal(psi_reader_places(&e->c.conn->core->in, places, &rest), 2);
        assert_int_equal(places[0].bytes, 2 * PIECE + 5 - (HALF - head));
        const uint8_t *place = places[0].base;
        assert_memory_equal(place - (HALF - head), pattern + PIECE, HALF - head);
        if (ends > 0) { /* the connection is cut, or another one takes its place */
            const struct shell_conn *old = e->c.conn;
            struct fc_hello hello;
            if (ends == 1) {
                fc_cut(&e->c);
            }
            fc_hello_default(&e->c, &hello);
            assert_int_equal(fc_hello(&e->c, &hello), PS_OK);
            assert_true(ends == 1 || shell_is_closed(old));
            assert_no_memory_left(e);
            continue;
        }
        shell_send(e->c.conn, cut_wire(w, HALF, w->len));
        assert_applied(fc_take(&e->c, NULL));
        assert_int_equal(e->t->call_count, 1);
        assert_ptr_equal((const uint8_t *)e->t->calls[0].in + PIECE + (HALF - head), place);
        assert_memory_equal(e->t->calls[0].in, pattern, INPUT);
        shell_finish(e->t, 0, PS_OK, NULL, 0, NULL);
        assert_applied(fc_take(&e->c, NULL));
        fc_ack(&e->c, 1);
        assert_no_memory_left(e);
    }
}

/* A HELLO forgets it, an ACK and GOODBYE as well; while it comes, its memory is counted. */
TEST(test_input_that_does_not_come_whole)
{
    struct env *e = env_new(with_table);
    assert_reply(call_large(&e->c, 1, 0), FC_NONE, "");
    assert_true(psd_task_memory_bytes(e->t->core) >= PS_CALL_BYTES_MAX + INPUT);
    assert_reply(call_large(&e->c, 1, 0), PS_INVALID_ARGUMENT, "has begun already");
    fc_ack(&e->c, 1);
    assert_no_memory_left(e);
    assert_reply(call_large(&e->c, 2, 0), FC_NONE, "");
    fc_cut(&e->c);
    assert_int_equal(fc_connect(&e->c), PS_OK);
    assert_no_memory_left(e);
    assert_reply(part(&e->c, PS_OP_PUT_PART, 3, 2, PIECE, PIECE, NULL), PS_NOT_FOUND, "");
    assert_reply(call_large(&e->c, 2, 0), FC_NONE, ""); /* it begins again */
    assert_applied(part(&e->c, PS_OP_PUT_PART, 4, 2, PIECE, 2 * PIECE + 5, NULL));
    assert_int_equal(e->t->call_count, 1);
    assert_memory_equal(e->t->calls[0].in, pattern, INPUT);
    shell_finish(e->t, 0, PS_OK, NULL, 0, NULL);
    assert_applied(fc_take(&e->c, NULL));
    fc_ack(&e->c, 2);
    assert_reply(call_large(&e->c, 5, 0), FC_NONE, "");
    psd_task_drain(e->t->core);
    assert_applied(part(&e->c, PS_OP_PUT_PART, 6, 5, PIECE, 2 * PIECE + 5, NULL));
    assert_reply(fc_take(&e->c, NULL), PS_UNAVAILABLE, "shutting down");
    assert_int_equal(e->t->call_count, 0);
    assert_applied(fc_call(&e->c, PS_OP_GOODBYE, 0, 7, 0, NULL, 0, NULL));
    assert_no_memory_left(e);
}

static bool first_is_early(void *shell, uint32_t row)
{
    (void)shell;
    return row == 0;
}

static void with_early_row(struct psd_task_config *config)
{
    with_table(config);
    config->call_early = first_is_early;
}

/* The shell gets a call of an early row with its first bytes. Its memory stays until the shell has ended the call. */
TEST(test_early_call)
{
    struct env *e = env_new(with_early_row);
    assert_reply(call_large(&e->c, 1, 0), FC_NONE, "");
    assert_int_equal(e->t->call_count, 1);
    const struct shell_call *early = &e->t->calls[0];
    assert_true(early->early && early->in_bytes == INPUT);
    assert_memory_equal(early->in, pattern, PIECE);
    assert_applied(part(&e->c, PS_OP_PUT_PART, 2, 1, PIECE, 2 * PIECE + 5, NULL));
    assert_true(e->t->call_count == 1 && !early->early);
    assert_memory_equal(early->in, pattern, INPUT);
    shell_finish(e->t, 0, PS_OK, "world!", 6, NULL);
    assert_applied(fc_take(&e->c, NULL));
    fc_ack(&e->c, 1);
    assert_no_memory_left(e);
    assert_reply(call_large(&e->c, 3, 0), FC_NONE, ""); /* its client acknowledges it before all bytes have come */
    fc_ack(&e->c, 3);
    assert_true(early->early && early->cancelled);
    assert_true(psd_task_memory_bytes(e->t->core) >= PS_CALL_BYTES_MAX + INPUT);
    shell_finish(e->t, 0, PS_CANCELLED, NULL, 0, "");
    assert_reply(fc_take(&e->c, NULL), FC_NONE, "");
    assert_no_memory_left(e);
    assert_reply(call(&e->c, 4, "test.echo", "whole", 0), FC_NONE, ""); /* nothing is early about this one */
    assert_false(early->early);
    shell_finish(e->t, 0, PS_OK, NULL, 0, NULL);
    assert_applied(fc_take(&e->c, NULL));
    fc_ack(&e->c, 4);
}

/* A call begins again after a reconnect, beside its cancelled first run. */
TEST(test_early_call_of_a_lost_connection)
{
    struct env *e = env_new(with_early_row);
    assert_reply(call_large(&e->c, 1, 0), FC_NONE, "");
    fc_cut(&e->c);
    assert_int_equal(fc_connect(&e->c), PS_OK);
    assert_true(e->t->call_count == 1 && e->t->calls[0].early && e->t->calls[0].cancelled);
    assert_reply(call_large(&e->c, 1, 0), FC_NONE, "");
    assert_int_equal(e->t->call_count, 2);
    assert_ptr_not_equal(e->t->calls[0].in, e->t->calls[1].in);
    assert_applied(part(&e->c, PS_OP_PUT_PART, 2, 1, PIECE, 2 * PIECE + 5, NULL));
    assert_true(e->t->calls[0].early && !e->t->calls[1].early);
    shell_finish(e->t, 0, PS_CANCELLED, NULL, 0, "");
    assert_reply(fc_take(&e->c, NULL), FC_NONE, "");
    shell_finish(e->t, 0, PS_OK, "world!", 6, NULL);
    assert_applied(fc_take(&e->c, NULL));
    fc_ack(&e->c, 1);
    assert_no_memory_left(e);
}

/* What is refused when all bytes are there, and what a drain refuses, is cancelled. */
TEST(test_early_call_that_is_refused)
{
    struct env *e = env_new(with_early_row);
    assert_reply(call_large(&e->c, 1, 0), FC_NONE, "");
    psd_task_drain(e->t->core);
    assert_applied(part(&e->c, PS_OP_PUT_PART, 2, 1, PIECE, 2 * PIECE + 5, NULL));
    assert_reply(fc_take(&e->c, NULL), PS_UNAVAILABLE, "shutting down");
    assert_true(e->t->call_count == 1 && e->t->calls[0].cancelled);
    shell_finish(e->t, 0, PS_CANCELLED, NULL, 0, "");
    assert_applied(fc_call(&e->c, PS_OP_GOODBYE, 0, 3, 0, NULL, 0, NULL));
    assert_no_memory_left(e);
}

TEST(test_larger_than_the_budget)
{
    struct env *e = env_new(with_little_memory);
    struct fc_reply r = call_large(&e->c, 1, 2 * PS_CALL_BYTES_MAX);
    assert_reply(r, PS_FAILED_PRECONDITION, "room for 131072 of output; all of /job:ps/task:0 has 131071");
    assert_int_equal(r.retry_after_ms, 0);
    assert_no_memory_left(e);
}

TEST(test_what_is_refused_did_not_run)
{
    struct env *e = env_new(with_table);
    struct fc_reply r = call(&e->c, 1, "test.ech", "", 0);
    assert_reply(r, PS_NOT_FOUND, "no call 'test.ech' at /job:ps/task:0; it has test.echo, test.picky");
    assert_int_equal(r.applied, PS_NOTHING_APPLIED);
    assert_reply(call(&e->c, 2, "test.picky", "four", 0), PS_INVALID_ARGUMENT,
                 "'test.picky' at /job:ps/task:0: it takes 3 bytes");
    for (uint64_t id = 3; id < 6; id++) {
        assert_reply(call(&e->c, id, "test.picky", "333", 0), FC_NONE, "");
    }
    r = call(&e->c, 6, "test.echo", "", 0); /* calls_max is 3 */
    assert_reply(r, PS_RESOURCE_EXHAUSTED, "already runs 3 calls");
    assert_int_equal(r.applied, PS_NOTHING_APPLIED);
    assert_int_not_equal(r.retry_after_ms, 0);
    fc_ack(&e->c, 6);
    shell_finish(e->t, 0, PS_OK, NULL, 0, NULL);
    assert_applied(fc_take(&e->c, NULL));
    assert_reply(call(&e->c, 7, "test.echo", "", 0), FC_NONE, "");
    assert_int_equal(e->t->call_count, 3);
}

TEST(test_no_table_no_calls)
{
    struct env *e = env_new(NULL);
    assert_reply(call(&e->c, 1, "test.echo", "", 0), PS_NOT_FOUND, "it runs no calls");
}

TEST(test_a_reconnect_joins)
{
    struct env *e = env_new(with_table);
    struct wire *out = wire_new();
    assert_reply(call(&e->c, 1, "test.echo", "x", 0), FC_NONE, "");
    fc_cut(&e->c);
    assert_int_equal(fc_connect(&e->c), PS_OK);
    assert_reply(call(&e->c, 1, "test.echo", "x", 0), FC_NONE, "");
    assert_int_equal(e->t->call_count, 1); /* not a second time */
    fc_cut(&e->c);
    shell_finish(e->t, 0, PS_OK, "y", 1, NULL); /* while nobody is connected */
    assert_int_equal(fc_connect(&e->c), PS_OK);
    struct fc_reply r = call_as(&e->c, 1, "test.echo", "x", 1, 1, 0, out);
    assert_applied(r);
    assert_memory_equal(out->data, "y", 1);
    assert_int_equal(e->t->call_count, 0);
}

/* A status of run() says that it ran: the client must not repeat it by itself. */
TEST(test_a_failure_of_the_call_itself)
{
    struct env *e = env_new(with_table);
    assert_reply(call(&e->c, 1, "test.echo", "x", 0), FC_NONE, "");
    shell_finish(e->t, 0, PS_UNAVAILABLE, NULL, 0, "the disk is away");
    struct fc_reply r = fc_take(&e->c, NULL);
    assert_reply(r, PS_UNAVAILABLE, "the disk is away");
    assert_int_equal(r.applied, PS_MAYBE_PARTLY_APPLIED);
    assert_int_equal(r.retry_after_ms, 0);
    assert_no_memory_left(e);
}

TEST(test_deadline_cancels)
{
    struct env *e = env_new(with_table);
    assert_reply(call(&e->c, 1, "test.echo", "x", 500), FC_NONE, "");
    shell_tick(&e->net, START_MS + 499);
    assert_false(e->t->calls[0].cancelled);
    assert_int_equal(e->c.conn->frame_count, 0);
    shell_tick(&e->net, START_MS + 520);
    assert_true(e->t->calls[0].cancelled);
    struct fc_reply r = fc_take(&e->c, NULL);
    assert_reply(r, PS_DEADLINE_EXCEEDED, "outcome unknown");
    assert_int_equal(r.applied, PS_OUTCOME_UNKNOWN);
    assert_true(psd_task_memory_bytes(e->t->core) >= PS_CALL_BYTES_MAX); /* run() may still write there */
    shell_finish(e->t, 0, PS_OK, "late", 4, NULL);
    assert_int_equal(e->c.conn->frame_count, 0); /* answered once */
    assert_reply(call(&e->c, 1, "test.echo", "x", 500), PS_DEADLINE_EXCEEDED, "");
    fc_ack(&e->c, 1);
    assert_no_memory_left(e);
}

TEST(test_ack_goodbye_and_a_forgotten_session_cancel)
{
    struct env *e = env_new(with_table);
    struct fc *other = fc_new(e->t, 2);
    assert_reply(call(&e->c, 1, "test.echo", "x", 0), FC_NONE, "");
    assert_reply(call(&e->c, 2, "test.echo", "y", 0), FC_NONE, "");
    assert_reply(call(other, 1, "test.echo", "z", 0), FC_NONE, "");
    fc_ack(&e->c, 1);
    assert_true(e->t->calls[0].cancelled);
    assert_false(e->t->calls[1].cancelled);
    assert_applied(fc_call(&e->c, PS_OP_GOODBYE, 0, 3, 0, NULL, 0, NULL));
    assert_true(e->t->calls[1].cancelled);
    fc_cut(other);
    assert_false(e->t->calls[2].cancelled);
    shell_pass(&e->net, PS_SESSION_KEEP_MS + 1000);
    assert_true(e->t->calls[2].cancelled);
    while (e->t->call_count > 0) {
        shell_finish(e->t, 0, PS_CANCELLED, NULL, 0, "cancelled");
    }
    assert_no_memory_left(e);
}

TEST(test_drain_waits_and_admits_nothing)
{
    struct env *e = env_new(with_table);
    assert_true(psd_task_drained(e->t->core));
    assert_reply(call(&e->c, 1, "test.echo", "x", 0), FC_NONE, "");
    psd_task_drain(e->t->core);
    assert_false(psd_task_drained(e->t->core));
    struct fc_reply r = call(&e->c, 2, "test.echo", "x", 0);
    assert_reply(r, PS_UNAVAILABLE, "shutting down");
    assert_int_equal(r.applied, PS_NOTHING_APPLIED);
    fc_cut(&e->c);
    assert_false(psd_task_drained(e->t->core)); /* also for one that is away */
    shell_finish(e->t, 0, PS_OK, NULL, 0, NULL);
    assert_true(psd_task_drained(e->t->core));
}

TEST(test_memory_is_within_the_budget)
{
    struct env *e = env_new(with_little_memory);
    assert_reply(call(&e->c, 1, "test.echo", "x", 0), FC_NONE, "");
    struct fc_reply r = call(&e->c, 2, "test.echo", "y", 0);
    assert_reply(r, PS_RESOURCE_EXHAUSTED, "no memory for the 1 bytes of a call");
    assert_int_equal(r.applied, PS_NOTHING_APPLIED);
    fc_ack(&e->c, 2);
    shell_finish(e->t, 0, PS_OK, "z", 1, NULL); /* the result is small: its room comes back before the ACK */
    assert_applied(fc_take(&e->c, NULL));
    assert_reply(call(&e->c, 3, "test.echo", "y", 0), FC_NONE, "");
    env_fini(e); /* with a call that the shell has and a result that is kept */
}

/* Whatever allocation fails, the client gets an answer or a closed connection, and no call is lost or runs twice. */
TEST(test_without_memory)
{
    for (long nth = 0; nth < 30; nth++) {
        struct env e;
        env_init(&e, with_table);
        psi_mem_fail_after(nth);
        struct fc_reply r = call(&e.c, 1, "test.echo", "x", 0);
        psi_mem_fail_after(-1);
        bool closed = shell_is_closed(e.c.conn);
        if (!closed && r.status != FC_NONE) {
            assert_int_equal(r.status, PS_RESOURCE_EXHAUSTED);
            assert_int_equal(e.t->call_count, 0);
        } else if (!closed) {
            assert_int_equal(e.t->call_count, 1);
        }
        if (e.t->call_count > 0) {
            psi_mem_fail_after(nth);
            shell_finish(e.t, 0, PS_OK, "y", 1, NULL);
            psi_mem_fail_after(-1);
        }
        if (closed || shell_is_closed(e.c.conn)) {
            assert_int_equal(fc_connect(&e.c), PS_OK);
        }
        env_fini(&e);
    }
}
