/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How requests to queues end otherwise than by their turn, and where their elements are then: an element that was taken is the
 * queue's until the ACK; deadlines, sessions that give up, are away, or end; resets; a task that ends.
 */
#include "queue_test.h"

enum { LEASE_MS = 10000 };

/* c's connection breaks and it is back after so long. */
static void away(struct env *e, struct fc *c, uint64_t ms)
{
    fc_cut(c);
    shell_pass(&e->net, ms);
    assert_int_equal(fc_connect(c), PS_OK);
}

/* Time passes, and these sessions are heard. */
static void pass_with(struct env *e, struct fc *const *heard, size_t count, uint64_t ms)
{
    for (uint64_t passed = 0; passed < ms; passed += 1000) {
        shell_pass(&e->net, 1000);
        for (size_t i = 0; i < count; i++) {
            assert_applied(fc_beat(heard[i], -1, NULL));
        }
    }
}

/* ---- deadlines ---- */

TEST(test_deadline_of_an_enqueue_many)
{
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer q = fifo(&e->c, 2);
    assert_waits(put_many(&e->c, 100, &q, 3, 1, 1000));
    shell_pass(&e->net, 1100);
    struct fc_reply r = fc_take(&e->c, NULL);
    assert_reply(r, PS_DEADLINE_EXCEEDED, "2 of 3 elements inserted");
    assert_int_equal(r.applied, PS_MAYBE_PARTLY_APPLIED);
    assert_int_equal(result_u64(&r), 2);
    assert_next(&e->c, &q, 1);
    assert_next(&e->c, &q, 2);
    assert_waits(put_many(&e->c, 101, &q, 3, 1, 0)); /* nothing of the other one comes after all */
    r = put_for(&e->c, 102, &q, 9, 500);
    shell_pass(&e->net, 600);
    r = fc_take(&e->c, NULL);
    assert_reply(r, PS_DEADLINE_EXCEEDED, "others are before it");
    assert_int_equal(r.applied, PS_NOTHING_APPLIED);
}

/* What it had taken is there for the next one. */
TEST(test_deadline_of_a_dequeue_many)
{
    struct env *e = env_new(NULL);
    struct fc *a = fc_new(e->t, 2), *b = fc_new(e->t, 3);
    struct wire *out = wire_new();
    ps_v1_OpenAnswer q = fifo(&e->c, 4);
    const ps_v1_Dequeue three = {.count = 3, .many = true, .timeout_ms = 1000};
    assert_waits(take_for(a, 1, &q, &three, NULL));
    assert_waits(take_one(b, 1, &q, 0, NULL));
    assert_applied(put_many(&e->c, 100, &q, 2, 1, 0));
    assert_reply(fc_take(b, NULL), FC_NONE, "");
    shell_pass(&e->net, 1100);
    assert_reply(fc_take(a, NULL), PS_DEADLINE_EXCEEDED, "2 of 3");
    struct fc_reply r = came(b, out);
    assert_taken(&r, out, false, (int64_t)1, (int64_t)END);
    assert_int_equal(result_of(&r).deliveries, 0); /* nobody was told of it before */
    assert_next(&e->c, &q, 2);
}

TEST(test_deadline_of_a_close)
{
    struct env *e = env_new(NULL);
    struct fc *a = fc_new(e->t, 2);
    ps_v1_OpenAnswer q = fifo(&e->c, 1);
    const ps_v1_QueueClose m = {.timeout_ms = 1000};
    assert_applied(put(&e->c, 100, &q, 1));
    assert_waits(put(&e->c, 101, &q, 2));
    assert_waits(ask(a, PS_OP_QUEUE_CLOSE, 1, q.handle, &ps_v1_QueueClose_msg, &m, NULL, 0, NULL));
    shell_pass(&e->net, 1100);
    assert_reply(fc_take(a, NULL), PS_DEADLINE_EXCEEDED, "others are before it");
    assert_next(a, &q, 1);
    assert_false(is_closed(a));
}

/* ---- given up ---- */

TEST(test_given_up_while_it_waits)
{
    struct env *e = env_new(NULL);
    struct fc *a = fc_new(e->t, 2), *b = fc_new(e->t, 3);
    struct wire *out = wire_new();
    ps_v1_OpenAnswer q = fifo(&e->c, 4);
    assert_waits(take_n(a, 1, &q, 3, NULL));
    assert_waits(take_n(b, 1, &q, 2, NULL));
    assert_applied(put_many(&e->c, 100, &q, 2, 1, 0));
    fc_ack(a, 1);
    struct fc_reply r = came(b, out);
    assert_taken(&r, out, true, (int64_t)1, (int64_t)2, (int64_t)END);
    assert_waits(put_many(&e->c, 101, &q, 6, 10, 0));
    assert_waits(put(a, 2, &q, 20));
    fc_ack(&e->c, 101); /* what is in stays, the rest never comes */
    for (int64_t value = 10; value < 14; value++) {
        assert_next(b, &q, value);
    }
    assert_next(b, &q, 20);
}

static void give_up(struct fc *c, uint64_t id)
{
    struct wire w;
    const struct wire_frame f = {.op = PS_OP_ACK, .id = id, .offset = 1};
    wire_init(&w);
    wire_frame(&w, &f);
    shell_send(c->conn, &w);
    wire_fini(&w);
}

/* Its answer is on its way, and its client says that it has nothing of it: it goes back, once. */
TEST(test_given_up_when_it_is_done)
{
    struct env *e = env_new(NULL);
    struct wire *out = wire_new();
    ps_v1_OpenAnswer q = fifo(&e->c, 4);
    assert_applied(put_many(&e->c, 100, &q, 3, 1, 0));
    assert_applied(take_n(&e->c, 101, &q, 2, NULL));
    give_up(&e->c, 101);
    assert_int_equal(size_of(&e->c, NULL), 3);
    struct fc_reply r = take_n(&e->c, 102, &q, 3, out);
    assert_taken(&r, out, true, (int64_t)1, (int64_t)2, (int64_t)3, (int64_t)END);
    assert_int_equal(result_of(&r).deliveries, 1);
    fc_ack(&e->c, 102);
    give_up(&e->c, 102);
    assert_int_equal(size_of(&e->c, NULL), 0);
    assert_int_equal(listed(&e->c).bytes, 0);
}

/* ---- a session that is away ---- */

/* Within its lease nothing is lost: it joins what waits, and gets the same answer as often as it asks. */
TEST(test_back_within_the_lease)
{
    struct env *e = env_new(NULL);
    struct fc *a = fc_new(e->t, 2);
    struct wire *out = wire_new();
    ps_v1_OpenAnswer q = fifo(&e->c, 4);
    assert_waits(take_one(a, 1, &q, 0, NULL));
    fc_cut(a);
    assert_applied(put(&e->c, 100, &q, 1));
    assert_applied(put(&e->c, 101, &q, 2));
    shell_pass(&e->net, LEASE_MS - 2000);
    assert_applied(fc_beat(&e->c, -1, NULL));
    assert_int_equal(size_of(&e->c, NULL), 1);
    assert_int_equal(fc_connect(a), PS_OK);
    for (int i = 0; i < 3; i++) {
        struct fc_reply r = take_one(a, 1, &q, 0, out);
        assert_taken(&r, out, false, (int64_t)1, (int64_t)END);
        away(e, a, 1000);
    }
    fc_ack(a, 1);
    assert_next(a, &q, 2);
}

/* The lease counts from when it was heard last: it may come and go as often as it likes. */
TEST(test_each_return_renews_the_lease)
{
    struct env *e = env_new(NULL);
    struct fc *a = fc_new(e->t, 2);
    struct wire *out = wire_new();
    ps_v1_OpenAnswer q = fifo(&e->c, 4);
    assert_applied(put(&e->c, 100, &q, 1));
    assert_applied(take_one(a, 1, &q, 0, NULL));
    for (int i = 0; i < 4; i++) {
        away(e, a, LEASE_MS - 1000);
    }
    struct fc_reply r = take_one(a, 1, &q, 0, out);
    assert_taken(&r, out, false, (int64_t)1, (int64_t)END);
}

/* After it, what it took and nobody heard of is somebody else's. */
TEST(test_back_after_the_lease)
{
    struct env *e = env_new(NULL);
    struct fc *a = fc_new(e->t, 2), *b = fc_new(e->t, 3);
    struct wire *out = wire_new();
    ps_v1_OpenAnswer q = fifo(&e->c, 4);
    assert_applied(put_many(&e->c, 100, &q, 3, 1, 0));
    assert_applied(take_one(a, 1, &q, 0, NULL));
    assert_applied(take_one(a, 2, &q, 0, NULL));
    fc_cut(a);
    pass_with(e, (struct fc *const[]){&e->c, b}, 2, LEASE_MS - 1000);
    assert_int_equal(size_of(b, NULL), 1);
    pass_with(e, (struct fc *const[]){&e->c, b}, 2, 2000);
    struct fc_reply r = take_n(b, 1, &q, 3, out); /* in the order in which they were taken */
    assert_taken(&r, out, true, (int64_t)1, (int64_t)2, (int64_t)3, (int64_t)END);
    assert_int_equal(result_of(&r).deliveries, 1);
    assert_int_equal(fc_connect(a), PS_OK);
    r = take_one(a, 1, &q, 0, NULL);
    assert_reply(r, PS_ABORTED, "longer than its lease");
    assert_int_not_equal(r.reason, PS_REASON_LOST);
    fc_ack(a, 1);
    fc_ack(a, 2);
    assert_int_equal(listed(b).taken, 3);
}

/* What it takes after its return has a lease again. */
TEST(test_away_a_second_time)
{
    struct env *e = env_new(NULL);
    struct fc *a = fc_new(e->t, 2);
    ps_v1_OpenAnswer q = fifo(&e->c, 4);
    assert_applied(put(&e->c, 100, &q, 1));
    for (uint64_t id = 1; id <= 2; id++) {
        assert_applied(take_one(a, id, &q, 0, NULL));
        fc_cut(a);
        pass_with(e, (struct fc *const[]){&e->c}, 1, LEASE_MS + 1000);
        assert_int_equal(size_of(&e->c, NULL), 1);
        assert_int_equal(fc_connect(a), PS_OK);
    }
}

/* So is what waited: nothing is taken for somebody who is away, and those behind it have their turn. */
TEST(test_what_waits_ends_with_the_lease)
{
    struct env *e = env_new(NULL);
    struct fc *a = fc_new(e->t, 2), *b = fc_new(e->t, 3);
    struct wire *out = wire_new();
    ps_v1_OpenAnswer q = fifo(&e->c, 2);
    assert_waits(take_n(a, 1, &q, 2, NULL));
    assert_waits(take_one(b, 1, &q, 0, NULL));
    assert_applied(put(&e->c, 100, &q, 1));
    fc_cut(a);
    pass_with(e, (struct fc *const[]){&e->c, b}, 2, LEASE_MS - 1000);
    pass_with(e, (struct fc *const[]){&e->c}, 1, 2000);
    struct fc_reply r = came(b, out);
    assert_taken(&r, out, false, (int64_t)1, (int64_t)END);
    assert_int_equal(fc_connect(a), PS_OK);
    assert_reply(take_n(a, 1, &q, 2, NULL), PS_ABORTED, "longer than its lease");
    /* of an ENQUEUE what is in stays, and its answer says so */
    assert_waits(put_many(a, 2, &q, 3, 5, 0));
    assert_waits(put(b, 2, &q, 8));
    fc_cut(a);
    pass_with(e, (struct fc *const[]){&e->c, b}, 2, LEASE_MS + 1000);
    assert_int_equal(fc_connect(a), PS_OK);
    r = put_many(a, 2, &q, 3, 5, 0);
    assert_reply(r, PS_ABORTED, "2 of 3 elements inserted");
    assert_int_equal(r.applied, PS_MAYBE_PARTLY_APPLIED);
    for (int64_t value = 5; value < 7; value++) {
        assert_next(&e->c, &q, value);
    }
    assert_next(&e->c, &q, 8);
}

/* An ENQUEUE that is done stays done, however long its client is away. */
TEST(test_an_enqueue_is_not_repeated)
{
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer q = fifo(&e->c, 4);
    assert_applied(put(&e->c, 100, &q, 1));
    away(e, &e->c, 3 * LEASE_MS);
    assert_applied(put(&e->c, 100, &q, 1));
    assert_int_equal(size_of(&e->c, NULL), 1);
}

/* Silent, and only then closed: its lease is over with that. */
TEST(test_hung_and_then_closed)
{
    struct env *e = env_new(NULL);
    struct fc *a = fc_new(e->t, 2);
    ps_v1_OpenAnswer q = fifo(&e->c, 4);
    assert_applied(put(&e->c, 100, &q, 1));
    assert_applied(take_one(a, 1, &q, 0, NULL));
    pass_with(e, (struct fc *const[]){&e->c}, 1, LEASE_MS + 1000);
    assert_int_equal(size_of(&e->c, NULL), 1);
}

TEST(test_goodbye)
{
    struct env *e = env_new(NULL);
    struct fc *a = fc_new(e->t, 2);
    struct wire *out = wire_new();
    ps_v1_OpenAnswer q = fifo(&e->c, 4);
    assert_applied(put_many(&e->c, 100, &q, 4, 1, 0));
    assert_applied(take_one(a, 1, &q, 0, NULL));
    assert_applied(take_n(a, 2, &q, 2, NULL));
    assert_waits(put_many(a, 3, &q, 9, 50, 0));
    assert_applied(fc_call(a, PS_OP_GOODBYE, 0, 77, 0, NULL, 0, NULL));
    struct fc_reply r = take_n(&e->c, 101, &q, 4, out);
    assert_taken(&r, out, true, (int64_t)1, (int64_t)2, (int64_t)3, (int64_t)4, (int64_t)END);
}

/* ---- the queue goes, the task goes ---- */

TEST(test_a_reset_ends_those_who_wait)
{
    struct env *e = env_new(NULL);
    struct fc *a = fc_new(e->t, 2), *b = fc_new(e->t, 3);
    struct wire *out = wire_new();
    ps_v1_OpenAnswer q = fifo(&e->c, 1);
    assert_waits(take_n(a, 1, &q, 2, NULL));
    assert_applied(put(&e->c, 100, &q, 1));
    assert_applied(fc_reset(&e->c, 101, "localhost"));
    assert_reply(fc_take(a, NULL), PS_CANCELLED, "reset or deleted");
    assert_reply(take_one(a, 2, &q, 0, NULL), PS_ABORTED, "the queue was reset or deleted");
    q = fifo(&e->c, 1);
    assert_int_equal(size_of(&e->c, NULL), 0);
    assert_waits(put_many(b, 1, &q, 2, 5, 0));
    struct fc_reply r = take_one(a, 3, &q, 0, NULL);
    assert_applied(r);
    assert_applied(fc_delete(&e->c, 102, "q"));
    assert_applied(fc_take(b, NULL)); /* the take made room */
    away(e, a, 1000);
    r = take_one(a, 3, &q, 0, out); /* what it was told stays true */
    assert_taken(&r, out, false, (int64_t)5, (int64_t)END);
    fc_ack(a, 3);
    assert_int_equal(fc_open(&e->c, "q", NULL), PS_NOT_FOUND);
}

TEST(test_a_delete_ends_an_enqueue)
{
    struct env *e = env_new(NULL);
    struct fc *a = fc_new(e->t, 2), *b = fc_new(e->t, 3);
    ps_v1_OpenAnswer q = fifo(&e->c, 2);
    assert_waits(put_many(a, 1, &q, 3, 5, 0));
    assert_waits(close_queue(b, 1, &q, false));
    assert_applied(fc_delete(&e->c, 100, "q"));
    assert_reply(fc_take(b, NULL), PS_CANCELLED, "reset or deleted");
    struct fc_reply r = fc_take(a, NULL);
    assert_reply(r, PS_CANCELLED, "2 of 3 elements inserted");
    assert_int_equal(r.applied, PS_MAYBE_PARTLY_APPLIED);
}

/* A task that ends tells everybody who waits, and lets nobody stand in line any more. */
TEST(test_a_task_that_drains)
{
    struct env *e = env_new(NULL);
    struct fc *a = fc_new(e->t, 2), *b = fc_new(e->t, 3);
    ps_v1_OpenAnswer q = fifo(&e->c, 2);
    assert_waits(take_n(a, 1, &q, 2, NULL));
    assert_waits(take_one(b, 1, &q, 0, NULL));
    assert_applied(put(&e->c, 100, &q, 1));
    psd_task_drain(e->t->core);
    shell_run(&e->net);
    struct fc_reply r = fc_take(a, NULL);
    assert_reply(r, PS_UNAVAILABLE, "shutting down");
    assert_int_equal(r.applied, PS_NOTHING_APPLIED);
    assert_true(r.retry_after_ms > 0);
    assert_reply(fc_take(b, NULL), PS_UNAVAILABLE, "shutting down");
    assert_int_equal(size_of(&e->c, NULL), 1);
    assert_reply(put(&e->c, 101, &q, 1), PS_UNAVAILABLE, "shutting down");
}

/* ---- for people ---- */

static ps_v1_WaitAnswer first_wait(struct fc *c)
{
    struct wire *back = wire_new();
    ps_v1_WaitAnswer a = ps_v1_WaitAnswer_init_zero;
    assert_applied(fc_list(c, PS_OP_WAITS, NULL, NULL, back));
    const uint8_t *p = back->data;
    size_t n = back->len;
    assert_true(fc_item(&p, &n, &ps_v1_WaitAnswer_msg, &a));
    return a;
}

TEST(test_waits_say_what_for)
{
    struct env *e = env_new(NULL);
    struct fc *a = fc_new(e->t, 2);
    ps_v1_OpenAnswer q = fifo(&e->c, 1);
    char text[256];
    assert_waits(take_n(a, 1, &q, 3, NULL));
    assert_applied(put(&e->c, 100, &q, 1));
    ps_v1_WaitAnswer w = first_wait(&e->c);
    assert_int_equal(PSI_BYTES_TEXT(w.what, text, sizeof(text)), PS_OK);
    assert_string_equal(text, "elements of queue q (1 of 3 taken)");
    assert_int_equal(PSI_BYTES_TEXT(w.release, text, sizeof(text)), PS_OK);
    assert_string_equal(text, "somebody enqueues, or closes it");
    ps_v1_QueueAnswer l = listed(&e->c);
    assert_int_equal(l.dequeuers, 1);
    assert_int_equal(l.enqueuers, 0);
    assert_int_equal(l.taken, 1);
    assert_int_equal(l.queue.capacity, 1);
}
