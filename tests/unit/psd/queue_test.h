/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of queues at a task share: queues of numbers (one int64 scalar an element), and requests sent to them by hand.
 */
#ifndef TESTS_UNIT_PSD_QUEUE_TEST_H
#define TESTS_UNIT_PSD_QUEUE_TEST_H

#include "task_test.h"

#include "common/queue_spec.h"

#include <stdarg.h>

enum { END = -1 /* of a list of numbers */, NUMBERS_MAX = 64 };

static inline ps_v1_Queue queue_like(uint32_t kind, int64_t capacity)
{
    ps_v1_Queue q = ps_v1_Queue_init_zero;
    q.kind = kind;
    q.capacity = capacity;
    q.components_count = 1;
    q.components[0].dtype = PS_I64;
    q.components[0].shaped = true;
    return q;
}

static inline ps_v1_CreateItem queue_item(const char *name, const ps_v1_Queue *q)
{
    ps_v1_CreateItem m = ps_v1_CreateItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(m.name, name)); /* fits */
    PSI_IGNORE(PSI_BYTES_SET(m.job, "ps"));  /* fits */
    m.has_queue = true;
    m.queue = *q;
    return m;
}

/* Made and opened. */
static inline ps_v1_OpenAnswer queue_as(struct fc *c, const char *name, const ps_v1_Queue *q)
{
    ps_v1_OpenAnswer a = ps_v1_OpenAnswer_init_zero;
    ps_v1_CreateItem m = queue_item(name, q);
    assert_int_equal(fc_create(c, &m, NULL), PS_OK);
    assert_int_equal(fc_open(c, name, &a), PS_OK);
    assert_true(a.has_queue);
    return a;
}

static inline ps_v1_OpenAnswer fifo(struct fc *c, int64_t capacity)
{
    ps_v1_Queue q = queue_like(PSI_QUEUE_FIFO, capacity);
    return queue_as(c, "q", &q);
}

/* A request with a meta, and its reply where there is one. */
static inline struct fc_reply ask(struct fc *c, uint8_t op, uint64_t id, uint32_t handle, const pb_msgdesc_t *d, const void *m,
                                  const void *body, size_t body_bytes, struct wire *out)
{
    _Alignas(8) uint8_t meta[PS_META_BYTES_MAX] = {0};
    struct wire bytes, w;
    size_t n = 0;
    assert_int_equal(psi_msg_encode(d, m, meta, sizeof(meta), &n, NULL), PS_OK);
    wire_init(&bytes);
    wire_init(&w);
    wire_append(&bytes, body, body_bytes);
    fc_frame(c, &w, op, 0, id, handle, meta, psi_pad8((uint32_t)n), body_bytes > 0 ? &bytes : NULL);
    shell_send(c->conn, &w);
    wire_fini(&bytes);
    wire_fini(&w);
    if (out != NULL) {
        wire_clear(out);
    }
    return fc_take(c, out);
}

static inline uint64_t result_u64(const struct fc_reply *r)
{
    uint64_t n = 0;
    assert_int_equal(r->result_bytes, sizeof(n));
    memcpy(&n, r->result, sizeof(n));
    return n;
}

/* ---- ENQUEUE ---- */
static inline struct fc_reply put_for(struct fc *c, uint64_t id, const ps_v1_OpenAnswer *q, int64_t value, uint64_t timeout_ms)
{
    ps_v1_Enqueue m = {.timeout_ms = timeout_ms, .count = 1, .bytes = sizeof(value)};
    return ask(c, PS_OP_ENQUEUE, id, q->handle, &ps_v1_Enqueue_msg, &m, &value, sizeof(value), NULL);
}

static inline struct fc_reply put(struct fc *c, uint64_t id, const ps_v1_OpenAnswer *q, int64_t value)
{
    return put_for(c, id, q, value, 0);
}

/* A batch of these numbers. */
static inline void batch_of(struct wire *out, const int64_t *values, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t bytes = sizeof(*values);
        wire_append(out, &bytes, sizeof(bytes));
        wire_append(out, &values[i], sizeof(*values));
    }
}

/* first, first + 1 ... */
static inline struct fc_reply put_many(struct fc *c, uint64_t id, const ps_v1_OpenAnswer *q, uint32_t count, int64_t first,
                                       uint64_t timeout_ms)
{
    struct wire w;
    wire_init(&w);
    for (uint32_t i = 0; i < count; i++) {
        int64_t value = first + i;
        batch_of(&w, &value, 1);
    }
    ps_v1_Enqueue m = {.timeout_ms = timeout_ms, .count = count, .bytes = w.len, .many = true};
    struct fc_reply r = ask(c, PS_OP_ENQUEUE, id, q->handle, &ps_v1_Enqueue_msg, &m, w.data, w.len, NULL);
    wire_fini(&w);
    return r;
}

/* ---- DEQUEUE ---- */
static inline struct fc_reply take_for(struct fc *c, uint64_t id, const ps_v1_OpenAnswer *q, const ps_v1_Dequeue *m,
                                       struct wire *out)
{
    return ask(c, PS_OP_DEQUEUE, id, q->handle, &ps_v1_Dequeue_msg, m, NULL, 0, out);
}

/* An answer that came later. */
static inline struct fc_reply came(struct fc *c, struct wire *out)
{
    wire_clear(out);
    return fc_take(c, out);
}

static inline struct ps_dequeue_result result_of(const struct fc_reply *r)
{
    struct ps_dequeue_result m;
    assert_int_equal(r->result_bytes, sizeof(m));
    memcpy(&m, r->result, sizeof(m));
    return m;
}

/* The answer of a DEQUEUE has these numbers, END behind the last. */
static inline void assert_taken(const struct fc_reply *r, const struct wire *body, bool many, int64_t first, ...)
{
    if (r->status != PS_OK) {
        fail_msg("%s '%s'", r->status == FC_NONE ? "no reply" : ps_status_name(r->status), r->text);
    }
    struct ps_dequeue_result m = result_of(r);
    const size_t step = many ? 16 : 8;
    uint64_t count = 0;
    va_list ap;
    va_start(ap, first);
    for (int64_t want = first; want != END; want = va_arg(ap, int64_t), count++) {
        int64_t have = 0;
        assert_true(body->len >= (count + 1) * step);
        memcpy(&have, body->data + (count + 1) * step - sizeof(have), sizeof(have));
        assert_int_equal(have, want);
    }
    va_end(ap);
    assert_int_equal(m.count, count);
    assert_int_equal(m.bytes, count * step);
    assert_int_equal(body->len, count * step);
}

/* One element, at once, which is this; acknowledged. */
static inline void assert_next(struct fc *c, const ps_v1_OpenAnswer *q, int64_t value)
{
    const ps_v1_Dequeue m = {.count = 1, .timeout_ms = 1};
    struct wire out;
    uint64_t id = 10000 + c->next_id++; /* tests number theirs themselves */
    wire_init(&out);
    struct fc_reply r = take_for(c, id, q, &m, &out);
    assert_taken(&r, &out, false, value, (int64_t)END);
    fc_ack(c, id);
    wire_fini(&out);
}

static inline struct fc_reply take_n(struct fc *c, uint64_t id, const ps_v1_OpenAnswer *q, uint32_t count, struct wire *out)
{
    const ps_v1_Dequeue m = {.count = count, .many = true};
    return take_for(c, id, q, &m, out);
}

static inline struct fc_reply take_up_to(struct fc *c, uint64_t id, const ps_v1_OpenAnswer *q, uint32_t count, struct wire *out)
{
    const ps_v1_Dequeue m = {.count = count, .many = true, .up_to = true};
    return take_for(c, id, q, &m, out);
}

static inline struct fc_reply take_one(struct fc *c, uint64_t id, const ps_v1_OpenAnswer *q, uint64_t timeout_ms,
                                       struct wire *out)
{
    const ps_v1_Dequeue m = {.count = 1, .timeout_ms = timeout_ms};
    return take_for(c, id, q, &m, out);
}

/* ---- the rest ---- */
static inline struct fc_reply close_queue(struct fc *c, uint64_t id, const ps_v1_OpenAnswer *q, bool cancel)
{
    const ps_v1_QueueClose m = {.cancel = cancel};
    return ask(c, PS_OP_QUEUE_CLOSE, id, q->handle, &ps_v1_QueueClose_msg, &m, NULL, 0, NULL);
}

static inline uint64_t size_of(struct fc *c, bool *out_closed)
{
    ps_v1_OpenAnswer a;
    assert_int_equal(fc_open(c, "q", &a), PS_OK);
    if (out_closed != NULL) {
        *out_closed = a.closed;
    }
    return a.size;
}

static inline bool is_closed(struct fc *c)
{
    bool closed = false;
    size_of(c, &closed);
    return closed;
}

#define assert_waits(reply_) assert_reply(reply_, FC_NONE, "")

static inline ps_v1_QueueAnswer listed(struct fc *c)
{
    struct wire back;
    ps_v1_QueueAnswer a = ps_v1_QueueAnswer_init_zero;
    wire_init(&back);
    assert_applied(fc_list(c, PS_OP_QUEUES, NULL, NULL, &back));
    const uint8_t *p = back.data;
    size_t n = back.len;
    assert_true(fc_item(&p, &n, &ps_v1_QueueAnswer_msg, &a));
    wire_fini(&back);
    return a;
}

#endif
