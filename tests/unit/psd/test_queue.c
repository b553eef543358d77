/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues as TensorFlow has them (docs/TF_MAP.md lists each statement with its test here): order of attempts, partial progress,
 * close, dequeue_up_to, the shuffle's rule of availability.
 */
#include "queue_test.h"

/* ---- enqueue and dequeue ---- */

TEST(test_an_element_comes_out_as_it_went_in)
{
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer q = fifo(&e->c, 4);
    struct fc_reply r = put(&e->c, 100, &q, 7);
    assert_applied(r);
    assert_int_equal(result_u64(&r), 1);
    assert_applied(put(&e->c, 101, &q, 8));
    assert_int_equal(size_of(&e->c, NULL), 2);
    assert_next(&e->c, &q, 7);
    assert_next(&e->c, &q, 8);
    assert_int_equal(size_of(&e->c, NULL), 0);
}

/* A negative capacity is none. */
TEST(test_unbounded)
{
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer q = fifo(&e->c, -1);
    assert_applied(put_many(&e->c, 100, &q, 5000, 0, 0));
    assert_int_equal(size_of(&e->c, NULL), 5000);
}

TEST(test_enqueue_waits_for_room)
{
    struct env *e = env_new(NULL);
    struct fc *other = fc_new(e->t, 2);
    ps_v1_OpenAnswer q = fifo(&e->c, 1);
    assert_applied(put(&e->c, 100, &q, 1));
    assert_waits(put(&e->c, 101, &q, 2));
    assert_next(other, &q, 1);
    assert_applied(fc_take(&e->c, NULL));
    assert_next(other, &q, 2);
}

TEST(test_dequeue_waits_for_an_element)
{
    struct env *e = env_new(NULL);
    struct fc *other = fc_new(e->t, 2);
    struct wire *out = wire_new();
    ps_v1_OpenAnswer q = fifo(&e->c, 1);
    assert_waits(take_one(other, 1, &q, 0, NULL));
    assert_applied(put(&e->c, 100, &q, 5));
    struct fc_reply r = came(other, out);
    assert_taken(&r, out, false, (int64_t)5, (int64_t)END);
}

/* Those who wait have their turn as they came, on each side. */
TEST(test_attempts_are_served_in_order)
{
    struct env *e = env_new(NULL);
    struct wire *out = wire_new();
    struct fc *a = fc_new(e->t, 2), *b = fc_new(e->t, 3), *d = fc_new(e->t, 4);
    ps_v1_OpenAnswer q = fifo(&e->c, 1);
    assert_waits(take_one(a, 1, &q, 0, NULL));
    assert_waits(take_one(b, 1, &q, 0, NULL));
    assert_applied(put(&e->c, 100, &q, 1));
    assert_applied(put(&e->c, 101, &q, 2));
    struct fc_reply r = came(a, out);
    assert_taken(&r, out, false, (int64_t)1, (int64_t)END);
    r = came(b, out);
    assert_taken(&r, out, false, (int64_t)2, (int64_t)END);
    assert_applied(put(&e->c, 102, &q, 3));
    assert_waits(put(a, 2, &q, 4));
    assert_waits(put(b, 2, &q, 5));
    for (int64_t value = 3; value <= 5; value++) {
        assert_next(d, &q, value);
    }
}

/* The head of a line takes what it can, and holds up those behind it that need less. */
TEST(test_a_head_that_waits_holds_up_the_others)
{
    struct env *e = env_new(NULL);
    struct wire *out = wire_new();
    struct fc *a = fc_new(e->t, 2), *b = fc_new(e->t, 3);
    ps_v1_OpenAnswer q = fifo(&e->c, 4);
    assert_waits(take_n(a, 1, &q, 3, NULL));
    assert_waits(take_one(b, 1, &q, 0, NULL));
    assert_applied(put(&e->c, 100, &q, 1));
    assert_applied(put(&e->c, 101, &q, 2));
    assert_reply(fc_take(b, NULL), FC_NONE, "");
    assert_applied(put(&e->c, 102, &q, 3));
    struct fc_reply r = came(a, out);
    assert_taken(&r, out, true, (int64_t)1, (int64_t)2, (int64_t)3, (int64_t)END);
    assert_reply(fc_take(b, NULL), FC_NONE, "");
    assert_applied(put(&e->c, 103, &q, 4));
    r = came(b, out);
    assert_taken(&r, out, false, (int64_t)4, (int64_t)END);
}

/* ---- many ---- */

TEST(test_a_batch_of_nothing)
{
    struct env *e = env_new(NULL);
    struct fc *other = fc_new(e->t, 2);
    struct wire *out = wire_new();
    ps_v1_OpenAnswer q = fifo(&e->c, 1);
    assert_applied(put(&e->c, 99, &q, 1));
    struct fc_reply r = put_many(&e->c, 100, &q, 0, 0, 0);
    assert_applied(r);
    assert_int_equal(result_u64(&r), 0);
    assert_waits(put(other, 1, &q, 2)); /* it makes no difference */
    r = take_n(&e->c, 102, &q, 0, out);
    assert_taken(&r, out, true, (int64_t)END);
    assert_applied(put_many(&e->c, 103, &q, 0, 0, 0));
    assert_applied(close_queue(&e->c, 104, &q, true));
    assert_applied(put_many(&e->c, 105, &q, 0, 0, 0));
    assert_int_equal(size_of(&e->c, NULL), 1);
}

/* Elements go in as room appears. */
TEST(test_enqueue_many_goes_in_bit_by_bit)
{
    struct env *e = env_new(NULL);
    struct fc *other = fc_new(e->t, 2);
    ps_v1_OpenAnswer q = fifo(&e->c, 2);
    assert_waits(put_many(&e->c, 100, &q, 5, 10, 0));
    assert_int_equal(size_of(other, NULL), 2);
    for (int64_t value = 10; value < 15; value++) {
        assert_next(other, &q, value);
    }
    struct fc_reply r = fc_take(&e->c, NULL);
    assert_applied(r);
    assert_int_equal(result_u64(&r), 5);
}

/* It may be for more than the capacity: what it has taken makes room. */
TEST(test_dequeue_many_of_more_than_the_capacity)
{
    struct env *e = env_new(NULL);
    struct fc *other = fc_new(e->t, 2);
    struct wire *out = wire_new();
    ps_v1_OpenAnswer q = fifo(&e->c, 2);
    assert_waits(take_n(other, 1, &q, 5, NULL));
    assert_applied(put_many(&e->c, 100, &q, 4, 1, 0));
    assert_int_equal(size_of(&e->c, NULL), 0);
    assert_int_equal(listed(&e->c).taken, 4);
    assert_applied(put(&e->c, 101, &q, 5));
    struct fc_reply r = came(other, out);
    assert_taken(&r, out, true, (int64_t)1, (int64_t)2, (int64_t)3, (int64_t)4, (int64_t)5, (int64_t)END);
    fc_ack(other, 1);
    assert_int_equal(listed(&e->c).taken, 0);
}

/* Both at once, whose batches are larger than the queue: each turn moves what it can. */
TEST(test_large_batches_through_a_small_queue)
{
    struct env *e = env_new(NULL);
    struct fc *other = fc_new(e->t, 2);
    struct wire *out = wire_new();
    ps_v1_OpenAnswer q = fifo(&e->c, 1);
    assert_waits(put_many(&e->c, 100, &q, 1000, 0, 0));
    struct fc_reply r = take_n(other, 1, &q, 1000, out);
    assert_applied(r);
    assert_int_equal(result_of(&r).count, 1000);
    assert_applied(fc_take(&e->c, NULL));
    int64_t last = 0;
    memcpy(&last, out->data + out->len - sizeof(last), sizeof(last));
    assert_int_equal(last, 999);
}

TEST(test_dequeue_many_needs_shapes)
{
    struct env *e = env_new(NULL);
    ps_v1_Queue like = queue_like(PSI_QUEUE_FIFO, 4);
    like.components[0].shaped = false;
    ps_v1_OpenAnswer q = queue_as(&e->c, "q", &like);
    assert_reply(take_n(&e->c, 100, &q, 2, NULL), PS_INVALID_ARGUMENT, "component 0 is not declared");
    assert_reply(take_up_to(&e->c, 101, &q, 2, NULL), PS_INVALID_ARGUMENT, "component 0");
    const struct {
        uint64_t rank;
        int64_t dim, value[2];
    } element = {1, 2, {3, 4}};
    ps_v1_Enqueue m = {.count = 1, .bytes = sizeof(element)};
    struct wire *out = wire_new();
    assert_applied(ask(&e->c, PS_OP_ENQUEUE, 102, q.handle, &ps_v1_Enqueue_msg, &m, &element, sizeof(element), NULL));
    assert_applied(take_one(&e->c, 103, &q, 0, out));
    assert_int_equal(out->len, sizeof(element));
    assert_memory_equal(out->data, &element, sizeof(element));
}

/* ---- close ---- */

TEST(test_closed_and_empty_is_out_of_range)
{
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer q = fifo(&e->c, 4);
    assert_applied(put(&e->c, 100, &q, 1));
    assert_applied(close_queue(&e->c, 101, &q, false));
    assert_true(is_closed(&e->c));
    assert_next(&e->c, &q, 1); /* what is there comes out */
    assert_reply(take_one(&e->c, 102, &q, 0, NULL), PS_OUT_OF_RANGE,
                 "is closed and has insufficient elements (requested 1, current size 0)");
    assert_reply(put(&e->c, 103, &q, 2), PS_CANCELLED, "is closed");
    assert_reply(put_many(&e->c, 104, &q, 2, 0, 0), PS_CANCELLED, "0 of 2");
}

/* Who waits for elements learns of it at once. */
TEST(test_close_ends_those_who_wait_for_elements)
{
    struct env *e = env_new(NULL);
    struct fc *other = fc_new(e->t, 2);
    ps_v1_OpenAnswer q = fifo(&e->c, 4);
    assert_waits(take_one(other, 1, &q, 0, NULL));
    assert_applied(close_queue(&e->c, 100, &q, false));
    assert_reply(fc_take(other, NULL), PS_OUT_OF_RANGE, "insufficient");
}

/* A close stands behind the ENQUEUEs that wait: they still complete, and those behind it do not. */
TEST(test_close_waits_its_turn)
{
    struct env *e = env_new(NULL);
    struct fc *a = fc_new(e->t, 2), *b = fc_new(e->t, 3), *d = fc_new(e->t, 4);
    ps_v1_OpenAnswer q = fifo(&e->c, 1);
    assert_applied(put(&e->c, 100, &q, 1));
    assert_waits(put_many(a, 1, &q, 2, 2, 0));
    assert_waits(close_queue(b, 1, &q, false));
    assert_waits(put(d, 1, &q, 9));
    assert_false(is_closed(&e->c));
    assert_next(&e->c, &q, 1);
    assert_next(&e->c, &q, 2);
    assert_applied(fc_take(a, NULL));
    assert_applied(fc_take(b, NULL));
    assert_reply(fc_take(d, NULL), PS_CANCELLED, "is closed");
    assert_true(is_closed(&e->c));
    assert_next(&e->c, &q, 3);
}

TEST(test_close_twice)
{
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer q = fifo(&e->c, 1);
    assert_applied(close_queue(&e->c, 100, &q, false));
    assert_reply(close_queue(&e->c, 101, &q, false), PS_CANCELLED, "already closed");
    assert_applied(close_queue(&e->c, 102, &q, true));
    assert_true(is_closed(&e->c));
}

/* With cancel it is closed at once; what is in stays. */
TEST(test_close_and_cancel)
{
    struct env *e = env_new(NULL);
    struct fc *a = fc_new(e->t, 2), *b = fc_new(e->t, 3);
    ps_v1_OpenAnswer q = fifo(&e->c, 2);
    assert_waits(put_many(a, 1, &q, 3, 1, 0));
    assert_waits(close_queue(b, 1, &q, false));
    assert_applied(close_queue(&e->c, 100, &q, true));
    struct fc_reply r = fc_take(a, NULL);
    assert_reply(r, PS_CANCELLED, "2 of 3 elements inserted");
    assert_int_equal(result_u64(&r), 2);
    assert_int_equal(r.applied, PS_MAYBE_PARTLY_APPLIED);
    assert_reply(fc_take(b, NULL), PS_CANCELLED, "cancelled");
    assert_next(&e->c, &q, 1);
    assert_next(&e->c, &q, 2);
    assert_reply(take_one(&e->c, 101, &q, 0, NULL), PS_OUT_OF_RANGE, "");
}

/* What a dequeue_many had taken goes back in order to the front when the queue is closed too early. */
TEST(test_close_brings_back_what_was_taken)
{
    struct env *e = env_new(NULL);
    struct fc *a = fc_new(e->t, 2), *b = fc_new(e->t, 3);
    ps_v1_OpenAnswer q = fifo(&e->c, 8);
    assert_waits(take_n(a, 1, &q, 4, NULL));
    assert_waits(take_one(b, 1, &q, 0, NULL));
    assert_applied(put_many(&e->c, 100, &q, 3, 1, 0));
    assert_int_equal(size_of(&e->c, NULL), 0);
    assert_applied(close_queue(&e->c, 101, &q, false));
    assert_reply(fc_take(a, NULL), PS_OUT_OF_RANGE, "requested 4, current size 3");
    assert_applied(fc_take(b, NULL)); /* the one behind it got the first */
    assert_next(&e->c, &q, 2);
    assert_next(&e->c, &q, 3);
}

/* ---- dequeue_up_to ---- */

TEST(test_up_to_waits_while_it_is_open)
{
    struct env *e = env_new(NULL);
    struct fc *a = fc_new(e->t, 2);
    struct wire *out = wire_new();
    ps_v1_OpenAnswer q = fifo(&e->c, 8);
    assert_waits(take_up_to(a, 1, &q, 3, NULL));
    assert_applied(put_many(&e->c, 100, &q, 2, 1, 0));
    assert_reply(fc_take(a, NULL), FC_NONE, "");
    assert_applied(put(&e->c, 101, &q, 3));
    struct fc_reply r = came(a, out);
    assert_taken(&r, out, true, (int64_t)1, (int64_t)2, (int64_t)3, (int64_t)END);
}

/* Once it is closed it gets what is left: what it had, and what is in. */
TEST(test_up_to_gets_the_rest)
{
    struct env *e = env_new(NULL);
    struct fc *a = fc_new(e->t, 2);
    struct wire *out = wire_new();
    ps_v1_OpenAnswer q = fifo(&e->c, 8);
    assert_waits(take_up_to(a, 1, &q, 5, NULL));
    assert_applied(put_many(&e->c, 100, &q, 2, 1, 0));
    assert_applied(close_queue(&e->c, 101, &q, false));
    struct fc_reply r = came(a, out);
    assert_taken(&r, out, true, (int64_t)1, (int64_t)2, (int64_t)END);
    fc_ack(a, 1);
    assert_reply(take_up_to(a, 2, &q, 5, NULL), PS_OUT_OF_RANGE, "current size 0");
    assert_int_equal(listed(&e->c).bytes, 0);
}

TEST(test_up_to_of_a_closed_queue)
{
    struct env *e = env_new(NULL);
    struct wire *out = wire_new();
    ps_v1_OpenAnswer q = fifo(&e->c, 8);
    assert_applied(put_many(&e->c, 100, &q, 3, 1, 0));
    assert_applied(close_queue(&e->c, 101, &q, false));
    struct fc_reply r = take_up_to(&e->c, 102, &q, 2, out);
    assert_taken(&r, out, true, (int64_t)1, (int64_t)2, (int64_t)END);
    r = take_up_to(&e->c, 103, &q, 2, out);
    assert_taken(&r, out, true, (int64_t)3, (int64_t)END);
}

/* An ENQUEUE that waits still goes in before the close: it gets those too. */
TEST(test_up_to_lets_enqueues_go_first)
{
    struct env *e = env_new(NULL);
    struct fc *a = fc_new(e->t, 2), *b = fc_new(e->t, 3), *d = fc_new(e->t, 4);
    struct wire *out = wire_new();
    ps_v1_OpenAnswer q = fifo(&e->c, 1);
    assert_applied(put(&e->c, 100, &q, 1));
    assert_waits(put(a, 1, &q, 2));
    assert_waits(close_queue(b, 1, &q, false));
    struct fc_reply r = take_up_to(d, 1, &q, 5, out);
    assert_taken(&r, out, true, (int64_t)1, (int64_t)2, (int64_t)END);
    assert_applied(fc_take(a, NULL));
    assert_applied(fc_take(b, NULL));
}

/* ---- random shuffle ---- */

static ps_v1_OpenAnswer shuffle(struct fc *c, int64_t capacity, uint64_t min_after_dequeue, uint64_t seed)
{
    ps_v1_Queue like = queue_like(PSI_QUEUE_SHUFFLE, capacity);
    like.min_after_dequeue = min_after_dequeue;
    like.seed = seed;
    return queue_as(c, "q", &like);
}

TEST(test_shuffle_keeps_some_while_it_is_open)
{
    struct env *e = env_new(NULL);
    struct fc *a = fc_new(e->t, 2);
    struct wire *out = wire_new();
    ps_v1_OpenAnswer q = shuffle(&e->c, 10, 3, 7);
    assert_waits(take_one(a, 1, &q, 0, NULL));
    assert_applied(put_many(&e->c, 100, &q, 3, 1, 0));
    assert_reply(fc_take(a, NULL), FC_NONE, "");
    assert_applied(put(&e->c, 101, &q, 4));
    assert_applied(fc_take(a, NULL));
    assert_waits(take_n(a, 2, &q, 3, NULL));
    assert_applied(close_queue(&e->c, 102, &q, false)); /* all of it may go now */
    struct fc_reply r = came(a, out);
    assert_applied(r);
    assert_int_equal(result_of(&r).count, 3);
}

/* The same seed gives the same order; all come out once, and not as they went in. */
TEST(test_shuffle_draws_by_its_seed)
{
    int64_t order[2][32];
    for (int run = 0; run < 2; run++) {
        struct env *e = env_new(NULL);
        struct wire *out = wire_new();
        ps_v1_OpenAnswer q = shuffle(&e->c, 32, 0, 11);
        bool seen[32] = {false}, moved = false;
        assert_applied(put_many(&e->c, 100, &q, 32, 0, 0));
        for (int i = 0; i < 32; i++) {
            uint64_t id = 200 + (uint64_t)i;
            assert_applied(take_one(&e->c, id, &q, 0, out));
            memcpy(&order[run][i], out->data, 8);
            assert_in_range(order[run][i], 0, 31);
            assert_false(seen[order[run][i]]);
            seen[order[run][i]] = true;
            moved = moved || order[run][i] != i;
            fc_ack(&e->c, id);
        }
        assert_true(moved);
    }
    assert_memory_equal(order[0], order[1], sizeof(order[0]));
}

/* What a close finds taken goes to the back, and can be drawn again. */
TEST(test_shuffle_brings_back_what_was_taken)
{
    struct env *e = env_new(NULL);
    struct fc *a = fc_new(e->t, 2);
    struct wire *out = wire_new();
    ps_v1_OpenAnswer q = shuffle(&e->c, 10, 0, 7);
    assert_waits(take_n(a, 1, &q, 4, NULL));
    assert_applied(put_many(&e->c, 100, &q, 3, 1, 0));
    assert_applied(close_queue(&e->c, 101, &q, false));
    assert_reply(fc_take(a, NULL), PS_OUT_OF_RANGE, "requested 4, current size 3");
    struct fc_reply r = take_up_to(&e->c, 102, &q, 4, out);
    assert_int_equal(result_of(&r).count, 3);
}

/* ---- one queue, opened again ---- */

static void assert_differs(struct env *e, const ps_v1_Queue *want, const char *text)
{
    const ps_v1_CreateItem m = queue_item("q", want);
    ps_v1_CreateAnswer a;
    assert_int_equal(fc_create(&e->c, &m, &a), PS_INVALID_ARGUMENT);
    char said[sizeof(a.text.bytes) + 1];
    assert_int_equal(PSI_BYTES_TEXT(a.text, said, sizeof(said)), PS_OK);
    if (strstr(said, text) == NULL) {
        fail_msg("'%s' has no '%s'", said, text);
    }
}

TEST(test_reopening_with_something_else)
{
    struct env *e = env_new(NULL);
    ps_v1_Queue like = queue_like(PSI_QUEUE_FIFO, 4), other = like;
    ps_v1_OpenAnswer q = queue_as(&e->c, "q", &like), again = queue_as(&e->c, "q", &like);
    assert_int_equal(again.creation, q.creation);
    assert_int_equal(again.queue.capacity, 4);
    other.capacity = 5;
    assert_differs(e, &other, "4");
    assert_differs(e, &other, "5");
    other = like;
    other.components[0].dtype = PS_F32;
    assert_differs(e, &other, "float32");
    assert_differs(e, &other, "int64");
    other = like;
    other.kind = PSI_QUEUE_SHUFFLE;
    assert_differs(e, &other, "SHUFFLE");
    other = like;
    other.capacity = 0;
    assert_differs(e, &other, "capacity");
    ps_v1_CreateItem variable;
    fc_create_item(&variable, "q", PS_I64, 1, ps_no_optimizer());
    ps_v1_CreateAnswer a;
    assert_int_equal(fc_create(&e->c, &variable, &a), PS_INVALID_ARGUMENT);
    assert_int_equal(fc_make(&e->c, "w", PS_I64, 1, ps_no_optimizer()), PS_OK);
    variable = queue_item("w", &like);
    assert_int_equal(fc_create(&e->c, &variable, &a), PS_INVALID_ARGUMENT);
}
