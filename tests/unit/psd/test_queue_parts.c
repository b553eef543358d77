/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes of a queue's elements on their way in and out, in parts of any size; bytes that are wrong; memory: the budget holds,
 * everything comes back, and in steady state nothing is allocated. And the handles of things that are no queues.
 */
#include "queue_test.h"

#include "common/mem.h"
#include "psd/state.h"

enum { FIRST_BYTES = 192 << 10, PART_BYTES = 100000 };

static ps_v1_OpenAnswer queue_of_vectors(struct fc *c, int64_t elements)
{
    ps_v1_Queue like = queue_like(PSI_QUEUE_FIFO, 4);
    like.components[0].dims_count = 1;
    like.components[0].dims[0] = elements;
    return queue_as(c, "q", &like);
}

static uint8_t *noise(size_t n)
{
    struct wire_random random = {.state = n};
    uint8_t *p = test_alloc(n);
    for (size_t i = 0; i + 8 <= n; i += 8) {
        uint64_t x = wire_next(&random);
        memcpy(p + i, &x, sizeof(x));
    }
    return p;
}

static struct fc_reply put_part(struct fc *c, uint64_t id, uint64_t of, uint64_t offset, const uint8_t *bytes, uint32_t n)
{
    const ps_v1_Part m = {.of = of, .offset = offset, .bytes = n};
    return ask(c, PS_OP_PUT_PART, id, 0, &ps_v1_Part_msg, &m, bytes, n, NULL);
}

static struct fc_reply get_part(struct fc *c, uint64_t of, uint64_t offset, uint32_t n, struct wire *out)
{
    const ps_v1_Part m = {.of = of, .offset = offset, .bytes = n};
    return ask(c, PS_OP_GET_PART, 5000, 0, &ps_v1_Part_msg, &m, NULL, 0, out);
}

/* ENQUEUE `id` of all these bytes, the first of them at once, the others in parts of part_bytes. The last reply that came. */
static struct fc_reply put_bytes(struct fc *c, uint64_t id, const ps_v1_OpenAnswer *q, const ps_v1_Enqueue *m,
                                 const uint8_t *bytes, size_t first_bytes, size_t part_bytes)
{
    size_t done = first_bytes < m->bytes ? first_bytes : (size_t)m->bytes;
    struct fc_reply r = ask(c, PS_OP_ENQUEUE, id, q->handle, &ps_v1_Enqueue_msg, m, bytes, done, NULL);
    for (uint64_t part_id = id + 1; done < m->bytes; part_id++) {
        size_t n = part_bytes < m->bytes - done ? part_bytes : (size_t)m->bytes - done;
        assert_waits(r);
        assert_applied(put_part(c, part_id, id, done, bytes + done, (uint32_t)n));
        done += n;
        r = fc_take(c, NULL);
    }
    return r;
}

/* Beside the queues themselves. */
static void assert_memory(const struct env *e, uint64_t bytes)
{
    uint64_t queues = e->t->core->store.queue_count * sizeof(struct psd_queue);
    assert_int_equal(psd_task_memory_bytes(e->t->core), queues + bytes);
}

/* All bytes of DEQUEUE `id`, the first of them in its answer, the others in parts of any size, twice, and from the back. */
static void assert_got(struct fc *c, uint64_t id, const ps_v1_OpenAnswer *q, const ps_v1_Dequeue *m, const uint8_t *bytes,
                       size_t n)
{
    struct wire *out = wire_new();
    struct fc_reply r = take_for(c, id, q, m, out);
    assert_applied(r);
    assert_int_equal(result_of(&r).bytes, n);
    assert_int_equal(out->len, n < PS_CONTROL_BODY_MAX ? n : PS_CONTROL_BODY_MAX);
    assert_memory_equal(out->data, bytes, out->len);
    const uint32_t sizes[] = {PS_CONTROL_BODY_MAX, 100001, 65536};
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        for (size_t at = 0; at < n; at += sizes[i]) {
            size_t from = i == 1 ? (n - 1) / sizes[i] * sizes[i] - at : at;
            uint32_t part = sizes[i] < n - from ? sizes[i] : (uint32_t)(n - from);
            r = get_part(c, id, from, part, out);
            assert_applied(r);
            assert_int_equal(result_u64(&r), part);
            assert_memory_equal(out->data, bytes + from, part);
        }
    }
    assert_reply(get_part(c, id, n - 8, 9, NULL), PS_OUT_OF_RANGE, "");
    fc_ack(c, id);
    assert_reply(get_part(c, id, 0, 8, NULL), PS_NOT_FOUND, "");
}

TEST(test_an_element_of_several_parts)
{
    const int64_t elements[] = {FIRST_BYTES / 8, FIRST_BYTES / 8 + 1, PS_CONTROL_BODY_MAX / 8 + 1, 5 << 17};
    for (size_t i = 0; i < ARRAY_COUNT(elements); i++) {
        struct env *e = env_new(NULL);
        size_t n = (size_t)elements[i] * 8;
        const uint8_t *bytes = noise(n);
        ps_v1_OpenAnswer q = queue_of_vectors(&e->c, elements[i]);
        const ps_v1_Enqueue in = {.count = 1, .bytes = n};
        const ps_v1_Dequeue out = {.count = 1};
        assert_applied(put_bytes(&e->c, 100, &q, &in, bytes, FIRST_BYTES, FIRST_BYTES));
        fc_ack(&e->c, 100);
        assert_got(&e->c, 900, &q, &out, bytes, n);
        assert_memory(e, 0);
    }
}

/* A batch whose parts end anywhere, in the middle of a length too. */
TEST(test_a_batch_of_several_parts)
{
    enum { COUNT = 9, ELEMENTS = 5001 };
    const size_t step = 8 + ELEMENTS * 8, n = COUNT * step;
    uint8_t *bytes = noise(n);
    for (size_t i = 0; i < COUNT; i++) {
        const uint64_t length = step - 8;
        memcpy(bytes + i * step, &length, sizeof(length));
    }
    const size_t sizes[] = {8, 40008, 40016, 65536};
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        struct env *e = env_new(NULL);
        ps_v1_Queue like = queue_like(PSI_QUEUE_FIFO, -1);
        like.components[0].dims_count = 1;
        like.components[0].dims[0] = ELEMENTS;
        ps_v1_OpenAnswer q = queue_as(&e->c, "q", &like);
        const ps_v1_Enqueue in = {.count = COUNT, .bytes = n, .many = true};
        const ps_v1_Dequeue out = {.count = COUNT, .many = true};
        assert_applied(put_bytes(&e->c, 100, &q, &in, bytes, 8, sizes[i]));
        fc_ack(&e->c, 100);
        assert_got(&e->c, 90000, &q, &out, bytes, n);
        assert_memory(e, 0);
    }
}

/* DEQUEUEs that waited are answered all at once, to a client that does not read: behind the bound of its send queue the answers
 * have no elements, which it then gets in parts. */
TEST(test_many_answers_at_once)
{
    enum { COUNT = 20 };
    struct env *e = env_new(NULL);
    struct fc *a = fc_new(e->t, 2);
    const size_t n = PS_CONTROL_BODY_MAX;
    const uint8_t *bytes = noise(n);
    struct wire *out = wire_new();
    ps_v1_Queue like = queue_like(PSI_QUEUE_FIFO, -1);
    like.components[0].dims_count = 1;
    like.components[0].dims[0] = (int64_t)n / 8;
    ps_v1_OpenAnswer q = queue_as(&e->c, "q", &like);
    assert_int_equal(fc_open(a, "q", &q), PS_OK);
    const ps_v1_Enqueue in = {.count = 1, .bytes = n};
    const ps_v1_Dequeue one = {.count = 1};
    for (uint64_t i = 0; i < COUNT; i++) {
        assert_waits(take_for(a, 1 + i, &q, &one, NULL));
    }
    a->conn->stuck = true;
    for (uint64_t i = 0; i < COUNT; i++) {
        assert_applied(put_bytes(&e->c, 100 + 10 * i, &q, &in, bytes, n, n));
    }
    assert_in_range(a->conn->core->out.queued_bytes, PS_OUT_QUEUE_STOP_BYTES, PS_OUT_QUEUE_STOP_BYTES + n + COUNT * 1024);
    shell_unstick(a->conn);
    uint64_t empty[COUNT], empties = 0;
    for (uint64_t i = 0; i < COUNT; i++) {
        const struct fc_reply r = came(a, out);
        assert_applied(r);
        assert_int_equal(result_of(&r).bytes, n);
        if (out->len == 0) {
            empty[empties++] = r.h.id;
        } else {
            assert_int_equal(out->len, n);
            assert_memory_equal(out->data, bytes, n);
        }
    }
    assert_in_range(empties, 1, COUNT - PS_OUT_QUEUE_STOP_BYTES / n);
    for (uint64_t i = 0; i < empties; i++) {
        assert_applied(get_part(a, empty[i], 0, (uint32_t)n, out));
        assert_memory_equal(out->data, bytes, n);
    }
}

/* Nobody sees an ENQUEUE before its last byte, and others pass it; it stands in line from then on. */
TEST(test_half_an_enqueue_holds_up_nobody)
{
    struct env *e = env_new(NULL);
    struct fc *a = fc_new(e->t, 2);
    const size_t n = 16384;
    const uint8_t *one = noise(n), *two = noise(n + 8) + 8;
    ps_v1_OpenAnswer q = queue_of_vectors(&e->c, 2048);
    const ps_v1_Enqueue in = {.count = 1, .bytes = n};
    const ps_v1_Dequeue out = {.count = 1};
    assert_waits(ask(a, PS_OP_ENQUEUE, 1, q.handle, &ps_v1_Enqueue_msg, &in, one, n / 2, NULL));
    assert_applied(put_bytes(&e->c, 100, &q, &in, two, n, n));
    assert_int_equal(size_of(&e->c, NULL), 1);
    assert_applied(put_part(a, 2, 1, n / 2, one + n / 2, (uint32_t)n / 2));
    assert_applied(fc_take(a, NULL));
    assert_got(&e->c, 200, &q, &out, two, n);
    assert_got(&e->c, 201, &q, &out, one, n);
}

/* Its connection breaks half-way: it begins anew under its number. What has come whole may come again. */
TEST(test_half_an_enqueue_is_forgotten)
{
    struct env *e = env_new(NULL);
    const size_t n = 16384;
    const uint8_t *bytes = noise(n);
    ps_v1_OpenAnswer q = queue_of_vectors(&e->c, 2048);
    const ps_v1_Enqueue in = {.count = 1, .bytes = n};
    assert_waits(ask(&e->c, PS_OP_ENQUEUE, 100, q.handle, &ps_v1_Enqueue_msg, &in, bytes, n / 2, NULL));
    assert_true(psd_task_memory_bytes(e->t->core) >= n);
    fc_cut(&e->c);
    assert_int_equal(fc_connect(&e->c), PS_OK);
    assert_memory(e, 0);
    assert_reply(put_part(&e->c, 101, 100, n / 2, bytes + n / 2, (uint32_t)n / 2), PS_NOT_FOUND, "100");
    assert_applied(put_bytes(&e->c, 100, &q, &in, bytes, n / 2, n / 2));
    fc_cut(&e->c);
    assert_int_equal(fc_connect(&e->c), PS_OK);
    assert_applied(ask(&e->c, PS_OP_ENQUEUE, 100, q.handle, &ps_v1_Enqueue_msg, &in, bytes, n / 2, NULL));
    assert_applied(put_part(&e->c, 101, 100, n / 2, bytes + n / 2, (uint32_t)n / 2));
    assert_int_equal(size_of(&e->c, NULL), 1);
}

/* Its session is away for a lease: nothing of it is kept. */
TEST(test_half_an_enqueue_ends_with_the_lease)
{
    struct env *e = env_new(NULL);
    const uint8_t *bytes = noise(16384);
    ps_v1_OpenAnswer q = queue_of_vectors(&e->c, 2048);
    const ps_v1_Enqueue in = {.count = 1, .bytes = 16384};
    assert_waits(ask(&e->c, PS_OP_ENQUEUE, 100, q.handle, &ps_v1_Enqueue_msg, &in, bytes, 8, NULL));
    fc_cut(&e->c);
    shell_pass(&e->net, 11000);
    assert_memory(e, 0);
}

/* ---- parts and bytes that are wrong ---- */

TEST(test_parts_that_do_not_fit)
{
    struct env *e = env_new(NULL);
    const uint8_t *bytes = noise(1024);
    ps_v1_OpenAnswer q = queue_of_vectors(&e->c, 128);
    const ps_v1_Enqueue in = {.count = 1, .bytes = 1024};
    assert_waits(ask(&e->c, PS_OP_ENQUEUE, 100, q.handle, &ps_v1_Enqueue_msg, &in, bytes, 512, NULL));
    assert_reply(put_part(&e->c, 101, 100, 520, bytes, 8), PS_OUT_OF_RANGE, "512 of 1024");
    assert_reply(put_part(&e->c, 102, 100, 504, bytes, 8), PS_OUT_OF_RANGE, "512 of 1024");
    assert_reply(put_part(&e->c, 103, 100, 512, bytes, 520), PS_OUT_OF_RANGE, "");
    assert_reply(put_part(&e->c, 104, 99, 0, bytes, 8), PS_NOT_FOUND, "99");
    assert_reply(get_part(&e->c, 100, 0, 8, NULL), PS_NOT_FOUND, "DEQUEUE");
    const ps_v1_Part longer = {.of = 100, .offset = 512, .bytes = 64};
    assert_reply(ask(&e->c, PS_OP_PUT_PART, 105, 0, &ps_v1_Part_msg, &longer, bytes, 8, NULL), PS_INVALID_ARGUMENT, "64 bytes");
    assert_applied(put_part(&e->c, 106, 100, 512, bytes + 512, 512)); /* nothing of this has harmed it */
    assert_applied(fc_take(&e->c, NULL));
    assert_waits(ask(&e->c, PS_OP_ENQUEUE, 200, q.handle, &ps_v1_Enqueue_msg, &in, bytes, 512, NULL));
    assert_reply(ask(&e->c, PS_OP_ENQUEUE, 200, q.handle, &ps_v1_Enqueue_msg, &in, bytes, 512, NULL), PS_INVALID_ARGUMENT,
                 "has begun already");
    assert_applied(take_one(&e->c, 201, &q, 0, NULL));
    assert_waits(take_one(&e->c, 202, &q, 0, NULL));
    assert_reply(get_part(&e->c, 202, 0, 8, NULL), PS_OUT_OF_RANGE, "an answer of 0");
}

static void assert_bad(struct env *e, uint64_t id, const ps_v1_OpenAnswer *q, const ps_v1_Enqueue *m, const uint64_t *words,
                       size_t bytes, const char *text)
{
    struct fc_reply r = ask(&e->c, PS_OP_ENQUEUE, id, q->handle, &ps_v1_Enqueue_msg, m, words, bytes, NULL);
    assert_reply(r, PS_INVALID_ARGUMENT, text);
    assert_int_equal(r.applied, PS_NOTHING_APPLIED);
    fc_ack(&e->c, id);
    assert_int_equal(size_of(&e->c, NULL), 0);
    assert_memory(e, 0);
}

TEST(test_bytes_that_are_no_elements)
{
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer q = queue_of_vectors(&e->c, 2);
    const uint64_t two[] = {16, 1, 2, 16, 3, 4}, bad_length[] = {16, 1, 2, 12, 3, 4}, long_length[] = {16, 1, 2, 24, 3, 4},
                   none[] = {0, 0, 0, 0, 0, 0};
    const ps_v1_Enqueue many = {.count = 2, .bytes = sizeof(two), .many = true};
    ps_v1_Enqueue m = many;
    assert_bad(e, 100, &q, &m, bad_length, sizeof(two), "element 1");
    assert_bad(e, 101, &q, &m, long_length, sizeof(two), "element 1 has 24 bytes");
    assert_bad(e, 102, &q, &m, none, sizeof(two), "element 0");
    m.count = 3;
    assert_bad(e, 103, &q, &m, two, sizeof(two), "3 elements are announced");
    m.count = 1;
    assert_bad(e, 104, &q, &m, two, sizeof(two), "behind the last");
    m = (ps_v1_Enqueue){.count = 1, .bytes = 8};
    assert_bad(e, 105, &q, &m, two, 8, "have 16");
    m.bytes = 24;
    assert_bad(e, 106, &q, &m, two, 24, "have 16");
    m.bytes = 16;
    assert_bad(e, 107, &q, &m, two, 24, "24 of them here");
    m.bytes = 12;
    assert_bad(e, 108, &q, &m, two, 8, "12 bytes");
    m = (ps_v1_Enqueue){.count = 2, .bytes = 16};
    assert_bad(e, 109, &q, &m, two, 16, "2 elements");
    m = (ps_v1_Enqueue){.count = 1, .bytes = 16, .fill = true};
    assert_bad(e, 110, &q, &m, two, 16, "only a work queue");
    m = many;
    m.count = (1 << 20) + 1;
    assert_bad(e, 111, &q, &m, two, sizeof(two), "1048577 elements");
    assert_reply(take_n(&e->c, 112, &q, (1 << 20) + 1, NULL), PS_INVALID_ARGUMENT, "1048577");
    assert_applied(ask(&e->c, PS_OP_ENQUEUE, 113, q.handle, &ps_v1_Enqueue_msg, &many, two, sizeof(two), NULL));
}

TEST(test_strings_that_are_none)
{
    struct env *e = env_new(NULL);
    ps_v1_Queue like = queue_like(PSI_QUEUE_FIFO, 4);
    like.components[0].dtype = PS_STRING;
    ps_v1_OpenAnswer q = queue_as(&e->c, "q", &like);
    const uint64_t good[] = {19, 0, 3, 0x636261}, falls[] = {19, 4, 3, 0x636261}, padding[] = {19, 0, 3, 0x64636261};
    const ps_v1_Enqueue m = {.count = 1, .bytes = sizeof(good)};
    assert_bad(e, 100, &q, &m, falls, sizeof(good), "");
    assert_bad(e, 101, &q, &m, padding, sizeof(good), "");
    assert_applied(ask(&e->c, PS_OP_ENQUEUE, 102, q.handle, &ps_v1_Enqueue_msg, &m, good, sizeof(good), NULL));
}

/* ---- memory ---- */

static void with_little_memory(struct psd_task_config *config)
{
    config->memory_budget_bytes = 1 << 20;
}

TEST(test_the_budget)
{
    struct env *e = env_new(with_little_memory);
    const uint8_t *bytes = noise(2 << 20);
    ps_v1_Queue like = queue_like(PSI_QUEUE_FIFO, -1);
    like.components[0].shaped = false;
    ps_v1_OpenAnswer q = queue_as(&e->c, "q", &like);
    ps_v1_Enqueue m = {.count = 1, .bytes = 2 << 20};
    struct fc_reply r = ask(&e->c, PS_OP_ENQUEUE, 100, q.handle, &ps_v1_Enqueue_msg, &m, bytes, 8, NULL);
    assert_reply(r, PS_FAILED_PRECONDITION, "memory_budget");
    assert_int_equal(r.reason, PS_REASON_TOO_LARGE);
    const uint64_t lengths[] = {1, 60000}; /* rank, dimension */
    const size_t n = 16 + 60000 * 8;
    uint8_t *vector = test_alloc(n);
    memcpy(vector, lengths, sizeof(lengths));
    m.bytes = n;
    for (uint64_t i = 0; i < 2; i++) {
        assert_applied(put_bytes(&e->c, 1000 * (i + 1), &q, &m, vector, FIRST_BYTES, FIRST_BYTES));
    }
    r = ask(&e->c, PS_OP_ENQUEUE, 3000, q.handle, &ps_v1_Enqueue_msg, &m, vector, FIRST_BYTES, NULL);
    assert_reply(r, PS_RESOURCE_EXHAUSTED, "no room");
    assert_int_equal(r.reason, PS_REASON_OVERLOADED);
    assert_int_equal(r.applied, PS_NOTHING_APPLIED);
    assert_true(r.retry_after_ms > 0);
    assert_applied(take_one(&e->c, 3001, &q, 0, NULL)); /* taken counts, too */
    r = ask(&e->c, PS_OP_ENQUEUE, 3002, q.handle, &ps_v1_Enqueue_msg, &m, vector, FIRST_BYTES, NULL);
    assert_reply(r, PS_RESOURCE_EXHAUSTED, "no room");
    fc_ack(&e->c, 3001);
    assert_applied(put_bytes(&e->c, 4000, &q, &m, vector, FIRST_BYTES, FIRST_BYTES));
}

/* A reset gives everything back, what waits and what half has come too. */
TEST(test_memory_comes_back)
{
    struct env *e = env_new(NULL);
    struct fc *a = fc_new(e->t, 2);
    const uint8_t *bytes = noise(16384);
    ps_v1_OpenAnswer q = queue_of_vectors(&e->c, 2048);
    const ps_v1_Enqueue in = {.count = 1, .bytes = 16384};
    for (uint64_t id = 1; id <= 6; id++) {
        PSI_IGNORE(put_bytes(a, 100 + id, &q, &in, bytes, 16384, 1).status); /* two of them wait */
    }
    assert_waits(ask(&e->c, PS_OP_ENQUEUE, 200, q.handle, &ps_v1_Enqueue_msg, &in, bytes, 8, NULL));
    assert_applied(fc_reset(&e->c, 201, "localhost"));
    assert_reply(put_part(&e->c, 202, 200, 8, bytes, 8), PS_OK, "");
    assert_reply(fc_take(&e->c, NULL), PS_ABORTED, "reset or deleted");
    for (uint64_t id = 1; id <= 6; id++) {
        fc_ack(a, 100 + id); /* until then the task knows what went into which queue */
    }
    assert_memory(e, 0);
}

TEST(test_nothing_is_allocated_in_steady_state)
{
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer q = fifo(&e->c, 4);
    struct wire *out = wire_new();
    uint64_t before = 0;
    for (uint64_t i = 0; i < 300; i++) {
        before = i == 100 ? psi_mem_count() : before;
        assert_applied(put(&e->c, 1000 + i, &q, 1));
        fc_ack(&e->c, 1000 + i);
        assert_applied(take_one(&e->c, 2000 + i, &q, 0, out));
        fc_ack(&e->c, 2000 + i);
        assert_waits(take_one(&e->c, 3000 + i, &q, 0, out)); /* one that waits */
        assert_applied(put(&e->c, 4000 + i, &q, 1));
        assert_applied(fc_take(&e->c, NULL));
        fc_ack(&e->c, 3000 + i);
        fc_ack(&e->c, 4000 + i);
    }
    assert_int_equal(psi_mem_count() - before, 0);
}

/* ---- handles of something else ---- */

TEST(test_a_queue_is_no_variable)
{
    static const float ones[4] = {1, 1, 1, 1};
    float back[4];
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer q = fifo(&e->c, 4), v = fc_ready(&e->c, "w", PS_F32, 4, ps_sgd(1), 1), as_variable = v;
    as_variable.handle = q.handle;
    as_variable.creation = q.creation;
    assert_reply(fc_push(&e->c, PS_OP_PUSH, &as_variable, ones, 1, 0), PS_INVALID_ARGUMENT, "'q' at /job:ps/task:0 is a queue");
    assert_reply(fc_push(&e->c, PS_OP_ASSIGN, &as_variable, ones, 1, 0), PS_INVALID_ARGUMENT, "is a queue");
    assert_reply(fc_pull(&e->c, &as_variable, 0, 4, back), PS_INVALID_ARGUMENT, "is a queue");
    assert_reply(fc_init_var(&e->c, q.handle, ps_zeros(), ps_sgd(1), 0, false), PS_INVALID_ARGUMENT, "is a queue");
    assert_reply(fc_seal(&e->c, q.handle, q.creation, 0), PS_INVALID_ARGUMENT, "is a queue");
    assert_reply(fc_wait(&e->c, 500, q.handle, q.creation, 2, 0), PS_INVALID_ARGUMENT, "is a queue");
    assert_reply(put(&e->c, 501, &v, 1), PS_INVALID_ARGUMENT, "'w' at /job:ps/task:0 is a variable, not a queue");
    assert_reply(take_one(&e->c, 502, &v, 0, NULL), PS_INVALID_ARGUMENT, "is a variable");
    assert_reply(close_queue(&e->c, 503, &v, true), PS_INVALID_ARGUMENT, "is a variable");
}

/* Lists and counts of variables leave queues out. */
TEST(test_queues_are_not_counted_as_variables)
{
    struct env *e = env_new(NULL);
    struct wire *back = wire_new();
    ps_v1_InfoAnswer info;
    ps_v1_VarAnswer v = ps_v1_VarAnswer_init_zero;
    ps_v1_ContainerAnswer container = ps_v1_ContainerAnswer_init_zero;
    PSI_IGNORE(fifo(&e->c, 4).handle);
    assert_int_equal(fc_info(&e->c, &info), PS_OK);
    assert_int_equal(info.variables, 0);
    assert_applied(fc_list(&e->c, PS_OP_VARS, NULL, NULL, back));
    const uint8_t *p = back->data;
    size_t n = back->len;
    assert_false(fc_item(&p, &n, &ps_v1_VarAnswer_msg, &v));
    wire_clear(back);
    assert_applied(fc_list(&e->c, PS_OP_CONTAINERS, NULL, NULL, back));
    p = back->data;
    n = back->len;
    assert_true(fc_item(&p, &n, &ps_v1_ContainerAnswer_msg, &container));
    assert_int_equal(container.variables, 0);
    assert_int_equal(container.names, 0);
}
