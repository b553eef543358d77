/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker/core/call.c and ask.c: CALL goes out with its input, joins after a reconnect, is never sent twice where that
 * could run it twice, and its results and ACKs come through.
 */
#include "fake_test.h"

#include "../../../common/mem.h"

#define SPEC "ps=a:1,b:2"

struct one {
    struct fake_request r;
    struct psi_call_io io;
    uint8_t out[64];
};

static void start(struct fake *f, struct one *o, const char *in, uint64_t timeout_ms)
{
    memset(o, 0, sizeof(*o));
    o->io = (struct psi_call_io){.name = "test.echo", .in = in, .in_bytes = strlen(in), .out = o->out, .out_capacity = 5};
    o->r.req.kind = PSI_REQ_CALL;
    o->r.req.task = 1;
    o->r.req.dst = &o->io;
    o->r.req.done = fake_request_done;
    o->r.req.ctx = &o->r;
    o->r.req.deadline_ms = f->now + timeout_ms;
    struct psi_err err = {0};
    assert_int_equal(psi_client_start(f->c, &o->r.req, &err), PS_OK);
    fake_run(f);
}

static void answer(struct fake *f, uint64_t id, const char *out, uint64_t says)
{
    struct psi_buf body;
    psi_buf_init(&body, 4096);
    assert_int_equal(psi_buf_append_text(&body, out, NULL), PS_OK);
    struct fake_answer a = {.result = &says, .result_bytes = sizeof(says), .body = &body};
    fake_reply(f, 1, PS_OP_CALL, id, false, &a);
    psi_buf_fini(&body);
}

TEST(test_input_and_output)
{
    struct one o;
    ps_v1_Call m;
    struct fake *f = fake_new(SPEC, "", 0, false);
    start(f, &o, "hello", 60000);
    fake_hello(f, 1, 100, 200, NULL, NULL);
    struct fake_frame *frame = fake_take(f, 1, PS_OP_CALL);
    assert_int_equal(psi_msg_decode(&ps_v1_Call_msg, &m, frame->meta, frame->h.meta_bytes, NULL), PS_OK);
    assert_int_equal(m.name.size, 9);
    assert_memory_equal(m.name.bytes, "test.echo", 9);
    assert_int_equal(m.in_bytes, 5);
    assert_in_range(m.timeout_ms, 59000, 59999); /* the task's own answer comes first */
    assert_int_equal(frame->bytes, 8);
    assert_memory_equal(frame->payload, "hello\0\0\0", 8);
    answer(f, frame->h.id, "world", 5);
    assert_int_equal(o.r.dones, 1);
    assert_int_equal(o.r.req.status, PS_OK);
    assert_int_equal(o.io.out_bytes, 5);
    assert_memory_equal(o.out, "world", 6); /* no more than that */
    assert_null(fake_next(f, 1));
    assert_int_equal(f->acks, 1);
}

TEST(test_too_small_and_nonsense)
{
    static const struct {
        const char *out;
        uint64_t says;
        ps_status status;
    } cases[] = {
        {"worlds", 6, PS_OUT_OF_RANGE}, {"world", 9, PS_INTERNAL}, {"", 1, PS_INTERNAL}, {"0123456789abcdef", 5, PS_INTERNAL}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct one o;
        struct fake *f = fake_new(SPEC, "", 0, false);
        start(f, &o, "", 60000);
        fake_hello(f, 1, 100, 200, NULL, NULL);
        struct fake_frame *frame = fake_take(f, 1, PS_OP_CALL);
        assert_int_equal(frame->bytes, 0);
        answer(f, frame->h.id, cases[i].out, cases[i].says);
        assert_int_equal(o.r.req.status, cases[i].status);
        assert_int_equal(o.r.req.applied, PS_MAYBE_PARTLY_APPLIED); /* it ran */
    }
}

TEST(test_a_reconnect_joins)
{
    struct one o;
    struct fake *f = fake_new(SPEC, "", 0, false);
    start(f, &o, "x", 60000);
    fake_hello(f, 1, 100, 200, NULL, NULL);
    uint64_t id = fake_take(f, 1, PS_OP_CALL)->h.id;
    fake_cut(f, 1);
    fake_hello(f, 1, 100, 200, NULL, NULL);
    assert_true(fake_take(f, 1, PS_OP_CALL)->h.id == id);
    answer(f, id, "y", 1);
    assert_int_equal(o.r.req.status, PS_OK);
}

/* A record that is lost, with its task or without: it may have run. */
TEST(test_never_twice)
{
    for (int new_life = 0; new_life < 2; new_life++) {
        struct one o;
        struct fake *f = fake_new(SPEC, "", 0, false);
        start(f, &o, "x", 60000);
        fake_hello(f, 1, 100, 200, NULL, NULL);
        fake_take(f, 1, PS_OP_CALL);
        fake_cut(f, 1);
        fake_hello(f, 1, new_life != 0 ? 101 : 100, 201, NULL, NULL);
        assert_int_equal(o.r.req.status, PS_ABORTED);
        assert_int_equal(o.r.req.applied, PS_OUTCOME_UNKNOWN);
        assert_non_null(strstr(o.r.err.text, "test.echo"));
        assert_null(fake_next(f, 1));
    }
}

TEST(test_what_may_be_repeated)
{
    struct one o;
    struct fake *f = fake_new(SPEC, "", 0, false);
    start(f, &o, "x", 60000);
    fake_hello(f, 1, 100, 200, NULL, NULL);
    uint64_t id = fake_take(f, 1, PS_OP_CALL)->h.id;
    fake_reply(f, 1, PS_OP_CALL, id, false, &(struct fake_answer){.status = PS_RESOURCE_EXHAUSTED, .text = "3 calls run"});
    assert_int_equal(o.r.dones, 0);
    fake_wait(f, 200);
    struct fake_frame *frame = fake_take(f, 1, PS_OP_CALL);
    assert_true(frame->h.id > id); /* it did not run */
    fake_reply(f, 1, PS_OP_CALL, frame->h.id, false,
               &(struct fake_answer){.status = PS_UNAVAILABLE, .applied = PS_MAYBE_PARTLY_APPLIED, .text = "the disk is away"});
    assert_int_equal(o.r.req.status, PS_UNAVAILABLE);
    assert_int_equal(o.r.req.applied, PS_MAYBE_PARTLY_APPLIED);
}

TEST(test_deadline)
{
    struct one o;
    struct fake *f = fake_new(SPEC, "", 0, false);
    start(f, &o, "x", 400); /* not sent: nothing can have run */
    fake_refuse(f, 1, "connection refused");
    fake_wait(f, 500);
    assert_int_equal(o.r.req.status, PS_UNAVAILABLE);
    assert_int_equal(o.r.req.applied, PS_NOTHING_APPLIED);
    start(f, &o, "x", 10000);
    fake_hello(f, 1, 100, 200, NULL, NULL);
    fake_take(f, 1, PS_OP_CALL);
    fake_wait(f, 10100);
    assert_int_equal(o.r.req.status, PS_DEADLINE_EXCEEDED);
    assert_int_equal(o.r.req.applied, PS_OUTCOME_UNKNOWN);
    assert_null(fake_next(f, 1));
    assert_int_equal(f->acks, 1); /* the task gives it up */
}

/* An ACK that went down with its connection would leave the task with a result that nobody ever fetches. */
TEST(test_acks_are_said_again)
{
    struct one o;
    struct fake *f = fake_new(SPEC, "", 0, false);
    start(f, &o, "x", 60000);
    fake_hello(f, 1, 100, 200, NULL, NULL);
    uint64_t id = fake_take(f, 1, PS_OP_CALL)->h.id;
    answer(f, id, "y", 1);
    assert_null(fake_next(f, 1));
    assert_int_equal(f->acks, 1);
    fake_cut(f, 1);
    fake_hello(f, 1, 100, 200, NULL, NULL);
    assert_null(fake_next(f, 1));
    assert_int_equal(f->acks, 2);
    assert_true(f->acked == id);
    /* given up while there was no connection */
    start(f, &o, "x", 1000);
    id = fake_take(f, 1, PS_OP_CALL)->h.id;
    fake_cut(f, 1);
    fake_wait(f, 1100);
    assert_int_equal(o.r.req.applied, PS_OUTCOME_UNKNOWN);
    fake_hello(f, 1, 100, 200, NULL, NULL);
    assert_null(fake_next(f, 1));
    assert_true(f->acked == id);
    fake_cut(f, 1);
    uint32_t before = f->acks;
    fake_hello(f, 1, 100, 201, NULL, NULL); /* a new record keeps nothing */
    assert_null(fake_next(f, 1));
    assert_int_equal(f->acks, before);
}

/* The last PS_WAITS_PER_SESSION_MAX of them: the task keeps no more. */
TEST(test_so_many_acks_are_said_again)
{
    static const uint32_t counts[] = {1, PS_WAITS_PER_SESSION_MAX - 1, PS_WAITS_PER_SESSION_MAX, PS_WAITS_PER_SESSION_MAX + 1};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        struct one o;
        uint64_t id = 0;
        struct fake *f = fake_new(SPEC, "", 0, false);
        for (uint32_t k = 0; k < counts[i]; k++) {
            start(f, &o, "x", 60000);
            if (k == 0) {
                fake_hello(f, 1, 100, 200, NULL, NULL);
            }
            id = fake_take(f, 1, PS_OP_CALL)->h.id;
            answer(f, id, "y", 1);
            assert_null(fake_next(f, 1));
        }
        assert_int_equal(f->acks, counts[i]);
        fake_cut(f, 1);
        fake_hello(f, 1, 100, 200, NULL, NULL);
        assert_null(fake_next(f, 1));
        uint32_t again = counts[i] < PS_WAITS_PER_SESSION_MAX ? counts[i] : PS_WAITS_PER_SESSION_MAX;
        assert_int_equal(f->acks, counts[i] + again);
    }
}

TEST(test_refused_at_the_start)
{
    struct psi_err err;
    struct psi_request req;
    uint8_t byte = 0;
    struct psi_call_io io = {.name = "x", .in = &byte, .in_bytes = PS_CALL_BYTES_MAX + 1};
    memset(&req, 0, sizeof(req));
    struct fake *f = fake_new(SPEC, "", 0, false);
    req.kind = PSI_REQ_CALL;
    req.done = fake_request_done;
    req.deadline_ms = f->now + 1000;
    req.dst = &io;
    assert_int_equal(psi_client_start(f->c, &req, &err), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "at most 65536"));
    io = (struct psi_call_io){.name = ""};
    assert_int_equal(psi_client_start(f->c, &req, &err), PS_INVALID_ARGUMENT);
    io.name = "0123456789012345678901234567890123456789012345678901234567890123"; /* 64 */
    assert_int_equal(psi_client_start(f->c, &req, &err), PS_INVALID_ARGUMENT);
    io.name = NULL;
    assert_int_equal(psi_client_start(f->c, &req, &err), PS_INVALID_ARGUMENT);
    io.name = "x";
    io.in_bytes = 1;
    assert_int_equal(psi_client_start(f->c, &req, &err), PS_INVALID_ARGUMENT);
    io.in_bytes = 0;
    req.task = 2;
    assert_int_equal(psi_client_start(f->c, &req, &err), PS_INVALID_ARGUMENT);
}
