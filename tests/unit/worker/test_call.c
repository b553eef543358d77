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
    assert_int_equal(f->acks, 0); /* it leaves with the next frame */
    start(f, &o, "again", 60000);
    fake_take(f, 1, PS_OP_CALL);
    assert_int_equal(f->acks, 1);
}

TEST(test_too_small_and_nonsense)
{
    static const struct {
        const char *out;
        uint64_t says;
        ps_status status;
    } cases[] = {{"worlds", 6, PS_OUT_OF_RANGE},
                 {"world", 9, PS_OUT_OF_RANGE},
                 {"world", UINT64_MAX, PS_INTERNAL},
                 {"0123456789abcdef", 5, PS_INTERNAL}};
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
    assert_int_equal(f->acks, 0); /* it waits for a frame that it leaves with */
    fake_cut(f, 1);
    fake_hello(f, 1, 100, 200, NULL, NULL);
    assert_null(fake_next(f, 1));
    assert_int_equal(f->acks, 1);
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
        assert_int_equal(f->acks, counts[i] - 1);
        fake_cut(f, 1);
        fake_hello(f, 1, 100, 200, NULL, NULL);
        assert_null(fake_next(f, 1));
        uint32_t again = counts[i] < PS_WAITS_PER_SESSION_MAX ? counts[i] : PS_WAITS_PER_SESSION_MAX;
        assert_int_equal(f->acks, counts[i] - 1 + again);
    }
}

/* ---- more than a frame ---- */

enum { PART = 3 * PS_SEGMENT_BYTES, LARGE = 3 * PART + 5 }; /* a part as the client makes it */
static uint8_t large_in[LARGE], large_out[LARGE];

static void start_large(struct fake *f, struct one *o)
{
    memset(o, 0, sizeof(*o));
    for (size_t i = 0; i < LARGE; i++) {
        large_in[i] = (uint8_t)(i * 7 + i / 251);
    }
    memset(large_out, 0, sizeof(large_out));
    o->io = (struct psi_call_io){.name = "test.echo", .in = large_in, .in_bytes = LARGE, .out = large_out, .out_capacity = LARGE};
    o->r.req.kind = PSI_REQ_CALL;
    o->r.req.task = 1;
    o->r.req.dst = &o->io;
    o->r.req.done = fake_request_done;
    o->r.req.ctx = &o->r;
    o->r.req.deadline_ms = f->now + 10000;
    struct psi_err err = {0};
    assert_int_equal(psi_client_start(f->c, &o->r.req, &err), PS_OK);
    fake_run(f);
}

/* The part that is asked for next, of request `of`: how many bytes, and its number. */
static uint32_t part_of(struct fake *f, uint8_t op, uint64_t of, uint64_t offset, uint64_t *out_number)
{
    ps_v1_Part m;
    struct fake_frame *frame = fake_take(f, 1, op);
    assert_int_equal(psi_msg_decode(&ps_v1_Part_msg, &m, frame->meta, frame->h.meta_bytes, NULL), PS_OK);
    assert_true(m.of == of && m.offset == offset);
    if (op == PS_OP_PUT_PART) {
        assert_int_equal(frame->bytes, psi_pad8(m.bytes));
        assert_memory_equal(frame->payload, large_in + offset, m.bytes);
    }
    *out_number = frame->h.id;
    return m.bytes;
}

static uint64_t take_call(struct fake *f)
{
    ps_v1_Call m;
    struct fake_frame *frame = fake_take(f, 1, PS_OP_CALL);
    assert_int_equal(psi_msg_decode(&ps_v1_Call_msg, &m, frame->meta, frame->h.meta_bytes, NULL), PS_OK);
    assert_true(m.in_bytes == LARGE && m.out_bytes == LARGE && frame->bytes == PART);
    assert_memory_equal(frame->payload, large_in, PART);
    return frame->h.id;
}

static void answer_bytes(struct fake *f, uint8_t op, uint64_t id, uint64_t offset, uint64_t n, uint64_t says)
{
    struct psi_buf body;
    psi_buf_init(&body, PS_CONTROL_BODY_MAX);
    assert_int_equal(psi_buf_append(&body, large_in + offset, n, NULL), PS_OK);
    fake_reply(f, 1, op, id, false, &(struct fake_answer){.result = &says, .result_bytes = sizeof(says), .body = &body});
    psi_buf_fini(&body);
}

/* Start a call whose input lies in two pieces: the first HEAD bytes and the last ones at `plain`, the others in large_in. */
enum { HEAD = 100, SECOND = HEAD + PART + 5 };
static void start_lent(struct fake *f, struct one *o, struct psi_lent *lent)
{
    uint8_t *plain = test_alloc(HEAD + LARGE - SECOND);
    memset(o, 0, sizeof(*o));
    for (size_t i = 0; i < LARGE; i++) {
        large_in[i] = (uint8_t)(i * 7 + i / 251);
    }
    memcpy(plain, large_in, HEAD);
    memcpy(plain + HEAD, large_in + SECOND, LARGE - SECOND);
    *lent = (struct psi_lent){.at = HEAD, .data = large_in + HEAD, .bytes = SECOND - HEAD};
    o->io = (struct psi_call_io){.name = "test.echo", .in = plain, .in_bytes = LARGE, .lents = lent, .lent_count = 1};
    o->r.req.kind = PSI_REQ_CALL;
    o->r.req.task = 1;
    o->r.req.dst = &o->io;
    o->r.req.done = fake_request_done;
    o->r.req.ctx = &o->r;
    o->r.req.deadline_ms = f->now + 10000;
    struct psi_err err = {0};
    assert_int_equal(psi_client_start(f->c, &o->r.req, &err), PS_OK);
    fake_run(f);
}

/* What is lent comes in its place, in parts of its own. */
TEST(test_lent_input)
{
    static const uint32_t sizes[] = {PART, 5, PART};
    struct one *o = test_alloc(sizeof(*o));
    struct psi_lent lent;
    uint64_t number = 0, at = HEAD;
    struct fake *f = fake_new(SPEC, "", 0, false);
    start_lent(f, o, &lent);
    fake_hello(f, 1, 100, 200, NULL, NULL);
    const struct fake_frame *call = fake_take(f, 1, PS_OP_CALL);
    assert_int_equal(call->bytes, psi_pad8(HEAD));
    assert_memory_equal(call->payload, large_in, HEAD);
    const uint64_t id = call->h.id;
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        assert_int_equal(part_of(f, PS_OP_PUT_PART, id, at, &number), sizes[i]);
        at += sizes[i];
    }
}

/* A request that ends while its input is sent leaves the memory to the caller at once: what is still to be sent of a frame that
 * has begun is a copy, and frames that have not begun are not sent. */
TEST(test_lent_input_is_left)
{
    static const struct {
        uint64_t taken; /* bytes that the kernel takes before the request ends */
        uint32_t parts; /* frames of parts that come nevertheless: those that have begun, and the small one, which is a copy */
    } cases[] = {{0, 2}, {400, 2}, {2 * PS_SEGMENT_BYTES, 2}, {PART + 1000, 3}};
    uint8_t *sent = test_alloc(LARGE);
    for (size_t k = 0; k < ARRAY_COUNT(cases); k++) {
        struct one *o = test_alloc(2 * sizeof(*o));
        struct psi_lent lent;
        struct fake *f = fake_new(SPEC, "", 0, false);
        start(f, &o[0], "hello", 60000);
        fake_hello(f, 1, 100, 200, NULL, NULL);
        answer(f, fake_take(f, 1, PS_OP_CALL)->h.id, "world", 5);
        f->task[1].take = cases[k].taken;
        start_lent(f, &o[1], &lent);
        psi_client_cancel(f->c, &o[1].r.req, "enough");
        fake_run(f);
        assert_int_equal(o[1].r.dones, 1);
        memcpy(sent, large_in, LARGE);
        memset(large_in, 0xee, LARGE);
        fake_flow(f, 1);
        (void)fake_take(f, 1, PS_OP_CALL);
        for (uint32_t i = 0; i < cases[k].parts; i++) {
            const struct fake_frame *part = fake_take(f, 1, PS_OP_PUT_PART);
            const uint32_t n = i == 1 ? 5 : PART;
            assert_int_equal(part->bytes, psi_pad8(n));
            assert_memory_equal(part->payload, sent + (i == 0 ? HEAD : i == 1 ? HEAD + PART : SECOND), n);
        }
        start(f, &o[0], "again", 60000);
        (void)fake_take(f, 1, PS_OP_CALL); /* no frame is broken */
        assert_int_equal(f->given_up, 0);
    }
}

/* Cut after each of its frames: all of the input begins again, and of the output only what is missing is asked for. */
TEST(test_large_input_and_output)
{
    for (int cut = 0; cut < 6; cut++) {
        struct one o;
        uint64_t parts[3];
        struct fake *f = fake_new(SPEC, "", 0, false);
        start_large(f, &o);
        fake_hello(f, 1, 100, 200, NULL, NULL);
        const uint64_t id = take_call(f);
        for (int round = 0; round < 2; round++) {
            for (int i = 0; i < 3; i++) {
                const uint32_t n = part_of(f, PS_OP_PUT_PART, id, (uint64_t)(i + 1) * PART, &parts[i]);
                assert_int_equal(n, i < 2 ? PART : 5);
            }
            for (int i = 0; i < (round == 0 && cut < 3 ? cut : 3); i++) {
                fake_reply(f, 1, PS_OP_PUT_PART, parts[i], false, &(struct fake_answer){.status = PS_OK});
            }
            assert_null(fake_next(f, 1));
            if (round > 0 || cut >= 4) {
                break;
            }
            fake_cut(f, 1);
            fake_hello(f, 1, 100, 200, NULL, NULL);
            assert_true(take_call(f) == id);
        }
        answer_bytes(f, PS_OP_CALL, id, 0, PART, LARGE);
        uint64_t number[3];
        for (int i = 0; i < 3; i++) {
            (void)part_of(f, PS_OP_GET_PART, id, (uint64_t)(i + 1) * PART, &number[i]);
        }
        assert_null(fake_next(f, 1));
        assert_int_equal(f->acks, 0); /* the rest is there until the ACK */
        answer_bytes(f, PS_OP_GET_PART, number[1], 2 * PART, PART, PART);
        if (cut >= 4) {
            fake_cut(f, 1);
            fake_hello(f, 1, 100, 200, NULL, NULL);
            (void)part_of(f, PS_OP_GET_PART, id, PART, &number[0]);
            (void)part_of(f, PS_OP_GET_PART, id, 3 * PART, &number[2]);
            assert_null(fake_next(f, 1)); /* the call itself is not sent again */
        }
        answer_bytes(f, PS_OP_GET_PART, number[2], 3 * PART, 5, 5);
        assert_int_equal(o.r.dones, 0);
        answer_bytes(f, PS_OP_GET_PART, number[0], PART, PART, PART);
        assert_int_equal(o.r.dones, 1);
        assert_int_equal(o.r.req.status, PS_OK);
        assert_int_equal(o.io.out_bytes, LARGE);
        assert_memory_equal(large_out, large_in, LARGE);
        assert_null(fake_next(f, 1));
        assert_int_equal(f->acks, 1); /* at once: the task has all of the output until then */
        assert_true(f->acked == id);
    }
}

/* The task had all of the input, and is sent it again: its answer may come before those of the parts. */
TEST(test_an_answer_before_those_of_its_parts)
{
    struct one o;
    uint64_t number = 0;
    struct fake *f = fake_new(SPEC, "", 0, false);
    start_large(f, &o);
    fake_hello(f, 1, 100, 200, NULL, NULL);
    const uint64_t id = take_call(f);
    (void)part_of(f, PS_OP_PUT_PART, id, PART, &number);
    answer_bytes(f, PS_OP_CALL, id, 0, 9, 9);
    assert_int_equal(o.r.req.status, PS_OK);
    assert_int_equal(o.io.out_bytes, 9);
    fake_reply(f, 1, PS_OP_PUT_PART, number, false, &(struct fake_answer){.status = PS_OK}); /* nobody waits for it */
    while (fake_next(f, 1) != NULL) {
    }
    start(f, &o, "again", 60000);
    fake_take(f, 1, PS_OP_CALL);
    assert_int_equal(f->acks, 1); /* the ACK of a small output leaves with the next frame */
}

/* What ends a call whose output is being fetched. */
TEST(test_large_output_that_does_not_come)
{
    for (int i = 0; i < 4; i++) {
        struct one o;
        uint64_t number = 0;
        struct fake *f = fake_new(SPEC, "", 0, false);
        start_large(f, &o);
        fake_hello(f, 1, 100, 200, NULL, NULL);
        const uint64_t id = take_call(f);
        answer_bytes(f, PS_OP_CALL, id, 0, PART, LARGE);
        while (fake_next(f, 1) != NULL) {
        }
        if (i == 0) { /* a record that is lost: it has run */
            fake_cut(f, 1);
            fake_hello(f, 1, 100, 201, NULL, NULL);
            assert_int_equal(o.r.req.status, PS_ABORTED);
            assert_int_equal(o.r.req.applied, PS_OUTCOME_UNKNOWN);
            assert_null(fake_next(f, 1));
            continue;
        }
        fake_cut(f, 1);
        fake_hello(f, 1, 100, 200, NULL, NULL);
        (void)part_of(f, PS_OP_GET_PART, id, PART, &number);
        if (i == 1) {
            answer_bytes(f, PS_OP_GET_PART, number, 0, 8, 8);
            assert_int_equal(o.r.req.status, PS_INTERNAL);
        } else if (i == 2) {
            fake_reply(f, 1, PS_OP_GET_PART, number, false,
                       &(struct fake_answer){.status = PS_NOT_FOUND, .applied = PS_MAYBE_PARTLY_APPLIED, .text = "no such call"});
            assert_int_equal(o.r.req.status, PS_NOT_FOUND);
        } else {
            fake_wait(f, 10100);
            assert_int_equal(o.r.req.status, PS_DEADLINE_EXCEEDED);
        }
        assert_int_not_equal(o.r.req.applied, PS_NOTHING_APPLIED);
        assert_int_equal(o.r.dones, 1);
        while (fake_next(f, 1) != NULL) {
        }
        assert_true(f->acked == id); /* the task keeps nothing of it */
    }
}

TEST(test_refused_at_the_start)
{
    struct psi_err err;
    struct psi_request req;
    uint8_t byte = 0;
    struct psi_call_io io = {.name = "x", .in = &byte, .in_bytes = PS_CALL_LARGE_BYTES_MAX + 1};
    memset(&req, 0, sizeof(req));
    struct fake *f = fake_new(SPEC, "", 0, false);
    req.kind = PSI_REQ_CALL;
    req.done = fake_request_done;
    req.deadline_ms = f->now + 1000;
    req.dst = &io;
    assert_int_equal(psi_client_start(f->c, &req, &err), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "at most 1073741824"));
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
