/* SPDX-License-Identifier: Apache-2.0 */
/*
 * worker/core/queue.c and ask.c: elements out and in, whole and in parts, in call order; what a reconnect repeats and what it
 * does not; when ACK says that elements are the program's, and when that they were given up.
 */
#include "fake_test.h"

#include "../../../common/mem.h"

#define SPEC "ps=a:1,b:2"
#define PART ((uint64_t)192 << 10)

static const struct psi_queue_spec INT64 = {
    .kind = PSI_QUEUE_FIFO, .component_count = 1, .capacity = 10, .components = {{.dtype = PS_I64, .shaped = true}}};
static const struct psi_queue_spec WORK = {.kind = PSI_QUEUE_WORK,
                                           .component_count = 1,
                                           .capacity = -1,
                                           .epochs = 2,
                                           .components = {{.dtype = PS_STRING, .shaped = true}}};

/* Memory for what was taken, as much as it is. */
static ps_status room(struct psi_dequeue *d, const struct ps_dequeue_result *got, uint8_t **out, struct psi_err *err)
{
    if (d->ctx != NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "no room today");
    }
    *out = test_alloc(got->bytes + 1);
    return PS_OK;
}

static struct fake_request *take(struct fake *f, struct psi_var *q, struct psi_dequeue *d, uint64_t timeout_ms)
{
    d->room = room;
    return fake_begin(f, PSI_REQ_DEQUEUE, q, NULL, d, timeout_ms);
}

/* The answer to a DEQUEUE: `bytes` in all, of which the first `first` come, each byte its own offset. */
static uint8_t at(uint64_t i)
{
    return (uint8_t)(i * 7 + (i >> 8));
}

static void bytes_from(struct psi_buf *body, uint64_t from, uint64_t n)
{
    psi_buf_init(body, PS_CONTROL_BODY_MAX);
    assert_int_equal(psi_buf_reserve(body, n + 1, NULL), PS_OK);
    for (uint64_t i = 0; i < n; i++) {
        body->data[body->len++] = at(from + i);
    }
}

static void answer_take(struct fake *f, uint32_t task, uint64_t id, uint64_t count, uint64_t bytes, uint64_t first)
{
    struct psi_buf body;
    const struct ps_dequeue_result got = {.count = count, .bytes = bytes, .serial = 9, .epoch = 2, .deliveries = 3};
    bytes_from(&body, 0, first);
    fake_reply(f, task, PS_OP_DEQUEUE, id, false,
               &(struct fake_answer){.result = &got, .result_bytes = sizeof(got), .body = &body});
    psi_buf_fini(&body);
}

static void answer_part(struct fake *f, const struct fake_frame *frame)
{
    struct psi_buf body;
    ps_v1_Part m;
    assert_int_equal(psi_msg_decode(&ps_v1_Part_msg, &m, frame->meta, frame->h.meta_bytes, NULL), PS_OK);
    uint64_t bytes = m.bytes;
    bytes_from(&body, m.offset, bytes);
    fake_reply(f, 0, PS_OP_GET_PART, frame->h.id, false,
               &(struct fake_answer){.result = &bytes, .result_bytes = sizeof(bytes), .body = &body});
    psi_buf_fini(&body);
}

static void answer_put(struct fake *f, uint8_t op, uint64_t id, uint64_t inserted)
{
    fake_reply(f, 0, op, id, false, &(struct fake_answer){.result = &inserted, .result_bytes = op == PS_OP_ENQUEUE ? 8 : 0});
}

static uint64_t part_offset(const struct fake_frame *frame, uint64_t of)
{
    ps_v1_Part m;
    assert_int_equal(frame->h.op, PS_OP_PUT_PART);
    assert_int_equal(psi_msg_decode(&ps_v1_Part_msg, &m, frame->meta, frame->h.meta_bytes, NULL), PS_OK);
    assert_true(m.of == of && frame->bytes == m.bytes);
    for (uint64_t i = 0; i < m.bytes; i += 1000) {
        assert_int_equal(frame->payload[i], at(m.offset + i));
    }
    return m.offset;
}

static struct psi_enqueue elements_of(uint64_t bytes)
{
    uint8_t *data = test_alloc(bytes);
    for (uint64_t i = 0; i < bytes; i++) {
        data[i] = at(i);
    }
    return (struct psi_enqueue){.data = data, .bytes = bytes, .count = 1};
}

TEST(test_created_where_the_directory_is)
{
    struct psi_var *q = NULL;
    struct psi_err err = {0};
    ps_v1_CreateItem m;
    struct psi_queue_spec spec;
    bool end = false;
    struct fake *f = fake_new(SPEC, "", 0, false);
    const ps_variable_spec like = {.struct_bytes = sizeof(like), .name = "q"};
    const struct psi_var_scope scope = {.queue = true, .elements = &INT64};
    for (int i = 0; i < 3; i++) { /* no turn is taken */
        assert_int_equal(psi_client_variable_in(f->c, &like, &scope, false, &q, &err), PS_OK);
        fake_begin(f, PSI_REQ_GET, q, NULL, NULL, 60000);
    }
    fake_hello(f, 0, 100, 200, NULL, NULL);
    struct fake_frame *create = fake_take(f, 0, PS_OP_CREATE);
    const uint8_t *p = create->payload;
    size_t n = create->bytes;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(psi_list_next(&p, &n, &ps_v1_CreateItem_msg, &m, &end, NULL), PS_OK);
        assert_true(m.has_queue && !m.has_optimizer && m.dtype == 0 && m.task == 0 && !m.pinned);
        assert_ok(psi_queue_spec_from_msg(&m.queue, &spec, &err), &err);
        assert_true(psi_queue_spec_equal(&spec, &INT64));
    }
}

TEST(test_one_in_and_one_out)
{
    const int64_t value = 42;
    struct psi_enqueue put = {.data = &value, .bytes = 8, .count = 1};
    struct psi_dequeue d = {.count = 1};
    ps_v1_Enqueue in;
    ps_v1_Dequeue out;
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *q = fake_get_queue(f, 0, "q", &INT64, 5, 1);
    struct fake_request *r = fake_begin(f, PSI_REQ_ENQUEUE, q, &put, NULL, 60000);
    struct fake_frame *frame = fake_take(f, 0, PS_OP_ENQUEUE);
    assert_int_equal(frame->h.handle, 5);
    assert_int_equal(psi_msg_decode(&ps_v1_Enqueue_msg, &in, frame->meta, frame->h.meta_bytes, NULL), PS_OK);
    assert_true(in.count == 1 && in.bytes == 8 && !in.many && !in.fill);
    assert_in_range(in.timeout_ms, 59000, 59999);
    assert_memory_equal(frame->payload, &value, 8);
    uint32_t acks = f->acks;
    answer_put(f, PS_OP_ENQUEUE, frame->h.id, 1);
    assert_done(r, PS_OK);
    assert_int_equal(r->req.result[0], 1);
    assert_null(fake_next(f, 0));
    assert_int_equal(f->acks, acks); /* it leaves with the next frame */

    r = take(f, q, &d, 60000);
    frame = fake_take(f, 0, PS_OP_DEQUEUE);
    assert_int_equal(f->acks, acks + 1);
    assert_int_equal(frame->h.handle, 5);
    assert_int_equal(psi_msg_decode(&ps_v1_Dequeue_msg, &out, frame->meta, frame->h.meta_bytes, NULL), PS_OK);
    assert_true(out.count == 1 && !out.many && !out.up_to);
    answer_take(f, 0, frame->h.id, 1, 8, 8);
    assert_done(r, PS_OK);
    assert_int_equal(d.data[7], at(7));
    assert_true(d.got.serial == 9 && d.got.epoch == 2 && d.got.deliveries == 3);
    assert_null(fake_next(f, 0));
    assert_true(f->acks == acks + 2 && f->given_up == 0);
}

TEST(test_in_call_order_and_whole)
{
    struct psi_enqueue large = elements_of(5 * PART + 8), small = elements_of(8);
    uint64_t parts[6];
    struct fake *f = fake_new(SPEC, "", 0, true);
    struct psi_var *q = fake_get_queue(f, 0, "q", &INT64, 5, 1);
    struct psi_var *other = fake_get_queue(f, 0, "other", &INT64, 6, 2);
    struct fake_request *first = fake_begin(f, PSI_REQ_ENQUEUE, q, &large, NULL, 60000);
    struct fake_request *second = fake_begin(f, PSI_REQ_ENQUEUE, q, &small, NULL, 60000);
    struct fake_request *closing = fake_begin(f, PSI_REQ_QUEUE_CLOSE, q, NULL, NULL, 60000);
    struct fake_request *third = fake_begin(f, PSI_REQ_ENQUEUE, q, &small, NULL, 60000);
    struct fake_request *elsewhere = fake_begin(f, PSI_REQ_ENQUEUE, other, &small, NULL, 60000);
    struct fake_frame *frame = fake_take(f, 0, PS_OP_ENQUEUE);
    uint64_t of = frame->h.id;
    assert_int_equal(frame->h.handle, 5);
    assert_int_equal(frame->bytes, PART);
    for (uint64_t i = 1; i < 5; i++) {
        frame = fake_take(f, 0, PS_OP_PUT_PART);
        assert_true(part_offset(frame, of) == i * PART);
        parts[i] = frame->h.id;
    }
    frame = fake_take(f, 0, PS_OP_ENQUEUE);
    assert_int_equal(frame->h.handle, 6); /* another queue does not wait */
    answer_put(f, PS_OP_ENQUEUE, frame->h.id, 1);
    assert_done(elsewhere, PS_OK);
    assert_null(fake_next(f, 0));
    answer_put(f, PS_OP_PUT_PART, parts[1], 0);
    assert_true(part_offset(fake_take(f, 0, PS_OP_PUT_PART), of) == 5 * PART);
    frame = fake_take(f, 0, PS_OP_ENQUEUE); /* all of the first is out */
    assert_int_equal(frame->bytes, 8);
    uint64_t small_id = frame->h.id;
    uint64_t close_id = fake_take(f, 0, PS_OP_QUEUE_CLOSE)->h.id;
    uint64_t third_id = fake_take(f, 0, PS_OP_ENQUEUE)->h.id; /* behind the close, which had to wait too */
    answer_put(f, PS_OP_ENQUEUE, of, 1);                      /* before its parts are answered */
    answer_put(f, PS_OP_ENQUEUE, small_id, 1);
    answer_put(f, PS_OP_QUEUE_CLOSE, close_id, 0);
    answer_put(f, PS_OP_ENQUEUE, third_id, 0);
    assert_done(third, PS_OK);
    assert_done(first, PS_OK);
    assert_done(second, PS_OK);
    assert_done(closing, PS_OK);
    assert_null(fake_next(f, 0));
}

TEST(test_few_parts_at_a_time)
{
    struct psi_enqueue large = elements_of(9 * PART), small = elements_of(8);
    uint64_t ids[9];
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *q = fake_get_queue(f, 0, "q", &INT64, 5, 1);
    fake_begin(f, PSI_REQ_ENQUEUE, q, &large, NULL, 60000);
    fake_begin(f, PSI_REQ_ENQUEUE, q, &small, NULL, 60000);
    uint64_t of = fake_take(f, 0, PS_OP_ENQUEUE)->h.id;
    for (uint64_t i = 1; i < 9; i++) {
        if (i > 4) {
            assert_null(fake_next(f, 0));
            answer_put(f, PS_OP_PUT_PART, ids[i - 4], 0);
        }
        struct fake_frame *frame = fake_take(f, 0, PS_OP_PUT_PART);
        assert_true(part_offset(frame, of) == i * PART);
        ids[i] = frame->h.id;
    }
    assert_int_equal(fake_take(f, 0, PS_OP_ENQUEUE)->bytes, 8);
}

TEST(test_in_parts_begins_again)
{
    struct psi_enqueue large = elements_of(7 * PART), small = elements_of(8);
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *q = fake_get_queue(f, 0, "q", &INT64, 5, 1);
    struct fake_request *r = fake_begin(f, PSI_REQ_ENQUEUE, q, &large, NULL, 60000);
    fake_begin(f, PSI_REQ_ENQUEUE, q, &small, NULL, 60000);
    uint64_t of = fake_take(f, 0, PS_OP_ENQUEUE)->h.id;
    fake_take(f, 0, PS_OP_PUT_PART);
    fake_cut(f, 0);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    assert_true(fake_take(f, 0, PS_OP_ENQUEUE)->h.id == of);
    uint64_t last = 0;
    for (uint64_t i = 1; i < 7; i++) {
        if (i > 4) {
            answer_put(f, PS_OP_PUT_PART, last + i - 5, 0);
        }
        struct fake_frame *frame = fake_take(f, 0, PS_OP_PUT_PART);
        assert_true(part_offset(frame, of) == i * PART);
        last = i == 1 ? frame->h.id : last;
    }
    assert_int_equal(fake_take(f, 0, PS_OP_ENQUEUE)->bytes, 8); /* and only then what was called after it */
    answer_put(f, PS_OP_ENQUEUE, of, 1);
    assert_done(r, PS_OK);
}

TEST(test_a_refused_part_ends_its_enqueue)
{
    struct psi_enqueue large = elements_of(7 * PART), small = elements_of(8);
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *q = fake_get_queue(f, 0, "q", &INT64, 5, 1);
    struct fake_request *r = fake_begin(f, PSI_REQ_ENQUEUE, q, &large, NULL, 60000);
    fake_begin(f, PSI_REQ_ENQUEUE, q, &small, NULL, 60000);
    uint64_t of = fake_take(f, 0, PS_OP_ENQUEUE)->h.id;
    fake_reply(f, 0, PS_OP_PUT_PART, fake_take(f, 0, PS_OP_PUT_PART)->h.id, false,
               &(struct fake_answer){.status = PS_INVALID_ARGUMENT, .text = "no such element"});
    assert_done(r, PS_INVALID_ARGUMENT);
    assert_non_null(strstr(r->err.text, "no such element"));
    for (int i = 0; i < 3; i++) {
        fake_take(f, 0, PS_OP_PUT_PART); /* they were out */
    }
    assert_int_equal(fake_take(f, 0, PS_OP_ENQUEUE)->bytes, 8);
    assert_true(f->acked == of && f->given_up == 0);
    answer_put(f, PS_OP_ENQUEUE, of, 1); /* too late: ignored */
    assert_int_equal(r->dones, 1);
}

/* What was called behind it goes on when it ends. */
TEST(test_half_of_it_given_up)
{
    struct psi_enqueue large = elements_of(9 * PART), small = elements_of(8);
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *q = fake_get_queue(f, 0, "q", &INT64, 5, 1);
    struct fake_request *r = fake_begin(f, PSI_REQ_ENQUEUE, q, &large, NULL, 500);
    fake_begin(f, PSI_REQ_ENQUEUE, q, &small, NULL, 60000);
    fake_take(f, 0, PS_OP_ENQUEUE);
    for (int i = 0; i < 4; i++) {
        fake_take(f, 0, PS_OP_PUT_PART);
    }
    assert_null(fake_next(f, 0));
    fake_wait(f, 600);
    assert_done(r, PS_DEADLINE_EXCEEDED);
    assert_int_equal(fake_take(f, 0, PS_OP_ENQUEUE)->bytes, 8);
}

TEST(test_out_in_parts)
{
    struct psi_dequeue d = {.count = 1};
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *q = fake_get_queue(f, 0, "q", &INT64, 5, 1);
    struct fake_request *r = take(f, q, &d, 60000);
    uint64_t of = fake_take(f, 0, PS_OP_DEQUEUE)->h.id;
    const uint64_t bytes = 6 * PART + 16;
    answer_take(f, 0, of, 1, bytes, 1000);
    fake_take(f, 0, PS_OP_GET_PART); /* its answer is lost */
    answer_part(f, fake_take(f, 0, PS_OP_GET_PART));
    fake_cut(f, 0);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    for (int i = 0; i < 5; i++) { /* 6 parts: neither the DEQUEUE nor the one that is here is asked for again */
        answer_part(f, fake_take(f, 0, PS_OP_GET_PART));
        assert_int_equal(r->dones, i < 4 ? 0 : 1);
        assert_true(i == 4 || f->acked != of); /* not before all is here */
    }
    assert_done(r, PS_OK);
    for (uint64_t i = 0; i < bytes; i++) {
        assert_int_equal(d.data[i], at(i));
    }
    assert_null(fake_next(f, 0));
    assert_true(f->acked == of && f->given_up == 0);
}

/* A task whose send queue is full answers without elements: all of them come in parts. */
TEST(test_out_in_parts_only)
{
    struct psi_dequeue d = {.count = 1};
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *q = fake_get_queue(f, 0, "q", &INT64, 5, 1);
    struct fake_request *r = take(f, q, &d, 60000);
    uint64_t of = fake_take(f, 0, PS_OP_DEQUEUE)->h.id;
    const uint64_t bytes = PART + 16;
    answer_take(f, 0, of, 1, bytes, 0);
    for (int i = 0; i < 2; i++) {
        assert_true(r->dones == 0 && f->acked != of);
        answer_part(f, fake_take(f, 0, PS_OP_GET_PART));
    }
    assert_done(r, PS_OK);
    for (uint64_t i = 0; i < bytes; i++) {
        assert_int_equal(d.data[i], at(i));
    }
    assert_null(fake_next(f, 0));
    assert_true(f->acked == of && f->given_up == 0);
}

/* What a DEQUEUE took goes back unless all of it is here. */
/* This process stood still for a lease: what it was given meanwhile is asked for again, and may be another's by now. */
TEST(test_stood_still)
{
    for (int how = 0; how < 4; how++) { /* 1: in parts; 2: not so long; 3: it is still there */
        struct psi_dequeue d = {.count = 1};
        struct fake *f = fake_new(SPEC, "", 0, false);
        struct psi_var *q = fake_get_queue(f, 0, "q", &INT64, 5, 1);
        struct fake_request *r = take(f, q, &d, 60000);
        uint64_t of = fake_take(f, 0, PS_OP_DEQUEUE)->h.id;
        const struct fake_frame *part = NULL;
        if (how == 1) {
            answer_take(f, 0, of, 1, PART + 16, PART);
            part = fake_take(f, 0, PS_OP_GET_PART);
        }
        f->now += how == 2 ? PS_LEASE_MS - 1000 : PS_LEASE_MS + 1000;
        psi_client_awake(f->c, f->now);
        if (how == 1) {
            answer_part(f, part);
        } else {
            answer_take(f, 0, of, 1, 8, 8);
        }
        if (how == 2) {
            assert_done(r, PS_OK);
            continue;
        }
        assert_int_equal(r->dones, 0);
        fake_wait(f, 1000);
        fake_hello(f, 0, 100, 200, NULL, NULL);
        part = fake_take(f, 0, how == 1 ? PS_OP_GET_PART : PS_OP_DEQUEUE);
        assert_true(f->acked != of && (how == 1 || part->h.id == of));
        if (how == 3) {
            answer_take(f, 0, of, 1, 8, 8);
            assert_done(r, PS_OK);
            assert_null(fake_next(f, 0));
            assert_true(f->acked == of && f->given_up == 0);
            continue;
        }
        fake_reply(f, 0, part->h.op, part->h.id, false,
                   &(struct fake_answer){.status = PS_ABORTED, .text = "the lease has ended"});
        assert_done(r, PS_ABORTED);
    }
}

TEST(test_given_up)
{
    for (int how = 0; how < 5; how++) {
        struct psi_dequeue d = {.count = 1, .ctx = how == 2 ? &d : NULL};
        struct fake *f = fake_new(SPEC, "", 0, false);
        struct psi_var *q = fake_get_queue(f, 0, "q", &INT64, 5, 1);
        struct fake_request *r = take(f, q, &d, 1000);
        uint64_t of = fake_take(f, 0, PS_OP_DEQUEUE)->h.id;
        if (how != 0) {
            answer_take(f, 0, of, how == 4 ? 2 : 1, 2 * PART, how == 4 ? 16 : PART); /* 4: two where one was asked for */
        }
        if (how == 1) {
            fake_take(f, 0, PS_OP_GET_PART);
        }
        if (how == 3) {
            fake_reply(f, 0, PS_OP_GET_PART, fake_take(f, 0, PS_OP_GET_PART)->h.id, false,
                       &(struct fake_answer){.status = PS_ABORTED, .text = "the lease has ended"});
        }
        fake_wait(f, 1100);
        static const ps_status ends[] = {PS_DEADLINE_EXCEEDED, PS_DEADLINE_EXCEEDED, PS_RESOURCE_EXHAUSTED, PS_ABORTED,
                                         PS_INTERNAL};
        assert_done(r, ends[how]);
        assert_null(fake_next(f, 0));
        assert_true(f->acked == of && f->given_up == 1);
        if (how == 0) {
            assert_int_equal(r->req.applied, PS_NOTHING_APPLIED);
            answer_take(f, 0, of, 1, 8, 8); /* it was on its way: nobody takes it */
            fake_cut(f, 0);
            fake_hello(f, 0, 100, 200, NULL, NULL);
            assert_null(fake_next(f, 0));
            assert_int_equal(f->given_up, 2); /* said again, and as it was */
        }
    }
}

TEST(test_joins_or_ends_unknown)
{
    for (int what = 0; what < 3; what++) { /* the same record; another one; another life */
        struct psi_enqueue put = elements_of(8);
        struct psi_dequeue d = {.count = 1};
        struct fake *f = fake_new(SPEC, "", 0, false);
        struct psi_var *q = fake_get_queue(f, 1, "q", &INT64, 5, 1);
        struct fake_request *in = fake_begin(f, PSI_REQ_ENQUEUE, q, &put, NULL, 60000);
        struct fake_request *out = take(f, q, &d, 60000);
        uint64_t in_id = fake_take(f, 1, PS_OP_ENQUEUE)->h.id, out_id = fake_take(f, 1, PS_OP_DEQUEUE)->h.id;
        fake_cut(f, 1);
        fake_hello(f, 1, what == 2 ? 102 : 101, what == 0 ? 201 : 202, NULL, NULL);
        if (what == 0) {
            assert_true(fake_take(f, 1, PS_OP_ENQUEUE)->h.id == in_id);
            assert_true(fake_take(f, 1, PS_OP_DEQUEUE)->h.id == out_id);
            answer_take(f, 1, out_id, 1, 8, 8);
            assert_done(out, PS_OK);
            continue;
        }
        if (what == 2) {
            fake_open(f, 1, 0, 0, 0, q); /* the queue is gone with it */
            assert_true(q->lost);
        }
        assert_done(in, PS_ABORTED);
        assert_int_equal(in->req.applied, PS_OUTCOME_UNKNOWN);
        assert_done(out, PS_ABORTED);
        assert_null(fake_next(f, 1));
        if (what == 2) {
            assert_done(fake_begin(f, PSI_REQ_ENQUEUE, q, &put, NULL, 60000), PS_ABORTED);
        }
    }
}

TEST(test_repeated_when_the_task_says_later)
{
    struct psi_enqueue put = elements_of(8);
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *q = fake_get_queue(f, 0, "q", &INT64, 5, 1);
    struct fake_request *r = fake_begin(f, PSI_REQ_ENQUEUE, q, &put, NULL, 60000);
    uint64_t id = fake_take(f, 0, PS_OP_ENQUEUE)->h.id;
    fake_reply(f, 0, PS_OP_ENQUEUE, id, false, &(struct fake_answer){.status = PS_RESOURCE_EXHAUSTED, .text = "no room"});
    assert_int_equal(r->dones, 0);
    fake_wait(f, 200);
    struct fake_frame *frame = fake_take(f, 0, PS_OP_ENQUEUE);
    assert_true(frame->h.id > id);
    uint64_t inserted = 3;
    fake_reply(f, 0, PS_OP_ENQUEUE, frame->h.id, false,
               &(struct fake_answer){.status = PS_CANCELLED,
                                     .applied = PS_MAYBE_PARTLY_APPLIED,
                                     .result = &inserted,
                                     .result_bytes = 8,
                                     .text = "queue 'q' is closed: 3 of 7"});
    assert_done(r, PS_CANCELLED);
    assert_int_equal(r->req.applied, PS_MAYBE_PARTLY_APPLIED);
    assert_true(r->req.result_bytes == 8 && r->req.result[0] == 3);
    assert_non_null(strstr(r->err.text, "3 of 7"));
}

/* A handle that is another's now: the queue counts as gone. The end of a lease is something else. */
TEST(test_gone)
{
    struct psi_enqueue put = elements_of(8);
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *q = fake_get_queue(f, 0, "q", &INT64, 5, 1);
    struct fake_request *r = fake_begin(f, PSI_REQ_ENQUEUE, q, &put, NULL, 60000);
    fake_reply(f, 0, PS_OP_ENQUEUE, fake_take(f, 0, PS_OP_ENQUEUE)->h.id, false,
               &(struct fake_answer){.status = PS_ABORTED, .text = "the lease has ended"});
    assert_done(r, PS_ABORTED);
    assert_false(q->lost);
    r = fake_begin(f, PSI_REQ_ENQUEUE, q, &put, NULL, 60000);
    fake_reply(f, 0, PS_OP_ENQUEUE, fake_take(f, 0, PS_OP_ENQUEUE)->h.id, false,
               &(struct fake_answer){.status = PS_ABORTED, .reason = PS_REASON_LOST, .text = "it was reset"});
    assert_done(r, PS_ABORTED);
    assert_true(q->lost);
}

TEST(test_work_end)
{
    const struct psi_work_end end = {.serial = 7, .epoch = 2, .give_back = true};
    ps_v1_WorkEnd m;
    const uint64_t before = 1;
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *q = fake_get_queue(f, 0, "w", &WORK, 5, 1);
    struct fake_request *r = fake_begin(f, PSI_REQ_WORK_END, q, &end, NULL, 60000);
    struct fake_frame *frame = fake_take(f, 0, PS_OP_WORK_END);
    assert_int_equal(frame->h.flags & (PS_FLAG_SEQ | PS_FLAG_FIRST | PS_FLAG_LAST), PS_FLAG_SEQ | PS_FLAG_FIRST | PS_FLAG_LAST);
    assert_int_equal(frame->h.handle, 5);
    assert_int_equal(psi_msg_decode(&ps_v1_WorkEnd_msg, &m, frame->meta, frame->h.meta_bytes, NULL), PS_OK);
    assert_true(m.serial == 7 && m.epoch == 2 && m.give_back);
    uint64_t number = frame->h.id;
    fake_cut(f, 0);
    fake_hello(f, 0, 100, 200, (struct fake_number[]){{.number = number, .state = PS_NUMBER_NOT_RECEIVED}, {.number = 0}}, NULL);
    frame = fake_take(f, 0, PS_OP_WORK_END);
    assert_true(frame->h.id == number);
    fake_reply(f, 0, PS_OP_WORK_END, number, true,
               &(struct fake_answer){.position = 1, .result = &before, .result_bytes = sizeof(before)});
    assert_done(r, PS_OK);
    assert_true(r->req.result_bytes == 8 && r->req.result[0] == 1);
}

static const struct psi_queue_spec SUMS = {.kind = PSI_QUEUE_ACCUMULATOR,
                                           .component_count = 1,
                                           .capacity = -1,
                                           .reduction = PSI_REDUCTION_MEAN,
                                           .components = {{.dtype = PS_F64, .shaped = true}}};

TEST(test_a_gradient_and_a_take)
{
    const double gradient = 1.5;
    struct psi_enqueue put = {.data = &gradient, .bytes = 8, .count = 1, .apply = true, .local_step = -3};
    struct psi_dequeue d = {.count = 7};
    ps_v1_Enqueue in;
    ps_v1_Dequeue out;
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *q = fake_get_queue(f, 0, "sums", &SUMS, 5, 1);
    struct fake_request *r = fake_begin(f, PSI_REQ_ENQUEUE, q, &put, NULL, 60000);
    struct fake_frame *frame = fake_take(f, 0, PS_OP_ENQUEUE);
    assert_int_equal(psi_msg_decode(&ps_v1_Enqueue_msg, &in, frame->meta, frame->h.meta_bytes, NULL), PS_OK);
    assert_true(in.apply && in.local_step == -3 && in.count == 1 && in.bytes == 8 && !in.many && !in.fill);
    answer_put(f, PS_OP_ENQUEUE, frame->h.id, 0); /* it came too late */
    assert_done(r, PS_OK);
    assert_true(r->req.result_bytes == 8 && r->req.result[0] == 0);
    r = take(f, q, &d, 60000);
    frame = fake_take(f, 0, PS_OP_DEQUEUE);
    assert_int_equal(psi_msg_decode(&ps_v1_Dequeue_msg, &out, frame->meta, frame->h.meta_bytes, NULL), PS_OK);
    assert_true(out.count == 7 && !out.many && !out.up_to);
    answer_take(f, 0, frame->h.id, 1, 8, 8);
    assert_done(r, PS_OK);
    assert_int_equal(d.got.serial, 9);
    assert_true(f->acks == 2 && f->given_up == 0);
}

TEST(test_set_step)
{
    const int64_t step = 12, before = 40;
    ps_v1_SetStep m;
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *q = fake_get_queue(f, 0, "sums", &SUMS, 5, 1);
    for (int gone = 0; gone < 2; gone++) {
        struct fake_request *r = fake_begin(f, PSI_REQ_SET_STEP, q, &step, NULL, 60000);
        struct fake_frame *frame = fake_take(f, 0, PS_OP_SET_STEP);
        assert_int_equal(frame->h.flags & (PS_FLAG_SEQ | PS_FLAG_FIRST | PS_FLAG_LAST),
                         PS_FLAG_SEQ | PS_FLAG_FIRST | PS_FLAG_LAST);
        assert_int_equal(frame->h.handle, 5);
        assert_int_equal(psi_msg_decode(&ps_v1_SetStep_msg, &m, frame->meta, frame->h.meta_bytes, NULL), PS_OK);
        assert_int_equal(m.step, 12);
        if (gone == 0) {
            fake_reply(f, 0, PS_OP_SET_STEP, frame->h.id, true,
                       &(struct fake_answer){.position = 1, .result = &before, .result_bytes = sizeof(before)});
            assert_done(r, PS_OK);
            assert_true(r->req.result_bytes == 8 && r->req.result[0] == 40);
        } else {
            fake_reply(f, 0, PS_OP_SET_STEP, frame->h.id, true,
                       &(struct fake_answer){.status = PS_ABORTED, .reason = PS_REASON_LOST, .text = "reset or deleted"});
            assert_done(r, PS_ABORTED);
            assert_false(q->open);
        }
    }
}

TEST(test_queues_and_variables_are_told_apart)
{
    struct psi_err err = {0};
    struct psi_enqueue put = elements_of(8);
    struct psi_dequeue d = {.count = 2, .many = true, .room = room};
    static const struct psi_queue_spec ANY = {
        .kind = PSI_QUEUE_FIFO, .component_count = 1, .capacity = 10, .components = {{.dtype = PS_I64}}};
    const struct psi_work_end end = {.serial = 7};
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *v = fake_get(f, 0, "v", 4, 4, 1);
    struct psi_var *q = fake_get_queue(f, 0, "q", &ANY, 5, 2);
    struct psi_var *sums = fake_get_queue(f, 0, "sums", &SUMS, 6, 3);
    const struct {
        struct psi_request req;
        const char *fault;
    } rows[] = {
        {{.kind = PSI_REQ_ENQUEUE, .var = v, .src = &put}, "a variable is no queue"},
        {{.kind = PSI_REQ_ENQUEUE, .var = NULL, .src = &put}, "no queue is given"},
        {{.kind = PSI_REQ_ENQUEUE, .var = q}, "no elements are given"},
        {{.kind = PSI_REQ_WORK_END, .var = v, .src = &end}, "it is a variable"},
        {{.kind = PSI_REQ_SET_STEP, .var = v, .src = &end}, "it is a variable"},
        {{.kind = PSI_REQ_DEQUEUE, .var = sums, .dst = &d}, "2 gradients; at least 1, and one result"},
        {{.kind = PSI_REQ_PULL, .var = q, .dst = &put, .bytes = 8}, "it is a queue"},
        {{.kind = PSI_REQ_INIT, .var = q}, "it is a queue"},
        {{.kind = PSI_REQ_DEQUEUE, .var = q, .dst = &d}, "that of component 0 is not"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct psi_request req = rows[i].req;
        req.done = fake_request_done;
        req.deadline_ms = f->now + 1000;
        assert_fails(psi_client_start(f->c, &req, &err), PS_INVALID_ARGUMENT, &err, rows[i].fault);
    }
    put.count = 2;
    struct psi_request two = {
        .kind = PSI_REQ_ENQUEUE, .var = q, .src = &put, .done = fake_request_done, .deadline_ms = f->now + 1000};
    assert_fails(psi_client_start(f->c, &two, &err), PS_INVALID_ARGUMENT, &err, "2 elements in 8 bytes");
}

/* The owner has it as something else. */
TEST(test_opened_as_something_else)
{
    struct psi_err err = {0};
    struct psi_var *q = NULL;
    struct psi_var like = {.dtype = PS_F32, .shape = PS_SCALAR};
    struct fake *f = fake_new(SPEC, "", 0, false);
    fake_get_queue(f, 0, "first", &INT64, 5, 1);
    const ps_variable_spec spec = {.struct_bytes = sizeof(spec), .name = "q"};
    const struct psi_var_scope scope = {.queue = true, .elements = &INT64};
    for (int i = 0; i < 2; i++) {
        struct psi_queue other = {.spec = INT64};
        other.spec.capacity = 11;
        like.queue = i == 1 ? &other : NULL;
        assert_int_equal(psi_client_variable_in(f->c, &spec, &scope, false, &q, &err), PS_OK);
        struct fake_request *r = fake_begin(f, PSI_REQ_GET, q, NULL, NULL, 60000);
        ps_v1_CreateAnswer a = ps_v1_CreateAnswer_init_zero;
        a.index = 1;
        PSI_BYTES_SET(a.job, "ps");
        fake_reply_item(f, 0, PS_OP_CREATE, fake_take(f, 0, PS_OP_CREATE)->h.id, &ps_v1_CreateAnswer_msg, &a);
        fake_open(f, 0, 9, 77, 9, &like);
        assert_done(r, PS_INVALID_ARGUMENT);
        assert_non_null(strstr(r->err.text, i == 0 ? "it is a variable, not a queue" : "with capacity 11; asked for with 10"));
    }
}

TEST(test_no_allocation_in_steady_state)
{
    struct psi_enqueue put = elements_of(8);
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *q = fake_get_queue(f, 0, "q", &INT64, 5, 1);
    uint64_t before = 0;
    for (int i = 0; i < 20; i++) {
        before = i == 10 ? psi_mem_count() : before;
        struct fake_request r;
        fake_start(f, &r, PSI_REQ_ENQUEUE, q, &put, NULL, 60000);
        uint64_t count = psi_mem_count();
        answer_put(f, PS_OP_ENQUEUE, fake_take(f, 0, PS_OP_ENQUEUE)->h.id, 1); /* the fake allocates for what it sends */
        before += i >= 10 ? psi_mem_count() - count : 0;
        assert_done(&r, PS_OK);
    }
    assert_true(psi_mem_count() == before);
}
