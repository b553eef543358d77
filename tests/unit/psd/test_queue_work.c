/* SPDX-License-Identifier: Apache-2.0 */
/* Work queues: filled once, an item handed out to one session at a time until it is done, once in each epoch; who dies gives its
 * items back. */
#include "queue_test.h"

static ps_v1_OpenAnswer work(struct fc *c, uint32_t epochs, uint64_t seed)
{
    ps_v1_Queue like = queue_like(PSI_QUEUE_WORK, -1);
    like.components[0].dtype = PS_STRING;
    like.epochs = epochs;
    like.seed = seed;
    return queue_as(c, "q", &like);
}

/* `count` items, "a", "b" ... */
static struct fc_reply fill(struct fc *c, uint64_t id, const ps_v1_OpenAnswer *q, uint32_t count, uint64_t hash)
{
    struct wire *w = wire_new();
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t words[] = {32, 17, 0, 1, 'a' + i % 26}; /* an element, its blob, the blob's offsets and its byte */
        wire_append(w, words, sizeof(words));
    }
    const ps_v1_Enqueue m = {.count = count, .bytes = w->len, .many = true, .fill = true, .fill_hash = hash};
    return ask(c, PS_OP_ENQUEUE, id, q->handle, &ps_v1_Enqueue_msg, &m, w->data, w->len, NULL);
}

struct item {
    struct ps_dequeue_result m;
    char text;
};

/* The next item, acknowledged; text 0: there is none now. */
static struct item next(struct fc *c, const ps_v1_OpenAnswer *q)
{
    struct item item = {.text = 0};
    struct wire *out = wire_new();
    uint64_t id = 10000 + c->next_id++;
    struct fc_reply r = take_one(c, id, q, 0, out);
    if (r.status == FC_NONE) {
        fc_ack(c, id);
        return item;
    }
    assert_applied(r);
    item.m = result_of(&r);
    assert_int_equal(item.m.count, 1);
    assert_int_equal(out->len, 32);
    item.text = (char)out->data[24];
    fc_ack(c, id);
    return item;
}

static struct fc_reply end_as(struct fc *c, uint64_t number, const ps_v1_OpenAnswer *q, const struct item *item, bool give_back)
{
    const ps_v1_WorkEnd m = {.serial = item->m.serial, .epoch = item->m.epoch, .give_back = give_back};
    _Alignas(8) uint8_t meta[64] = {0};
    size_t n = 0;
    assert_int_equal(psi_msg_encode(&ps_v1_WorkEnd_msg, &m, meta, sizeof(meta), &n, NULL), PS_OK);
    return fc_call(c, PS_OP_WORK_END, PS_FLAG_SEQ | PS_FLAG_FIRST | PS_FLAG_LAST, number, q->handle, meta, psi_pad8((uint32_t)n),
                   NULL);
}

static void assert_end(struct fc *c, const ps_v1_OpenAnswer *q, const struct item *item, bool give_back, uint64_t repeated)
{
    struct fc_reply r = end_as(c, c->next_number++, q, item, give_back);
    assert_applied(r);
    assert_int_equal(result_u64(&r), repeated);
}

/* A session holds a bounded number of items; where it has given one back it gets another one. */
TEST(test_a_session_holds_so_many)
{
    enum { MOST = 4096 };
    struct env *e = env_new(NULL);
    struct fc *other = fc_new(e->t, 2);
    ps_v1_OpenAnswer q = work(&e->c, 1, 0);
    struct item item = {.text = 0};
    e->net.check_every = 1000;
    assert_applied(fill(&e->c, 100, &q, MOST + 2, 9));
    for (int i = 0; i < MOST; i++) {
        item = next(&e->c, &q);
        assert_int_not_equal(item.text, 0);
    }
    assert_reply(take_one(&e->c, 200, &q, 0, NULL), PS_FAILED_PRECONDITION, "holds 4096 items");
    fc_ack(&e->c, 200);
    assert_int_not_equal(next(other, &q).text, 0);
    assert_end(&e->c, &q, &item, true, 0);
    assert_int_not_equal(next(&e->c, &q).text, 0);
}

TEST(test_each_item_is_done_once)
{
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer q = work(&e->c, 1, 0);
    assert_applied(fill(&e->c, 100, &q, 3, 9));
    for (int i = 0; i < 3; i++) {
        struct item item = next(&e->c, &q);
        assert_int_equal(item.text, 'a' + i); /* seed 0: as filled */
        assert_int_equal(item.m.epoch, 1);
        ps_v1_QueueAnswer a = listed(&e->c);
        assert_int_equal(a.done, i);
        assert_int_equal(a.taken, 1);
        assert_int_equal(a.items, 3);
        assert_int_equal(a.epoch, 1);
        uint64_t number = e->c.next_number;
        assert_end(&e->c, &q, &item, false, 0);
        struct fc_reply r = end_as(&e->c, number, &q, &item, false); /* the same number: its outcome */
        assert_applied(r);
        assert_int_equal(result_u64(&r), 0);
        assert_end(&e->c, &q, &item, false, 1); /* another number: it was done before */
    }
    assert_reply(take_one(&e->c, 200, &q, 0, NULL), PS_OUT_OF_RANGE, "all 1 epochs are done");
}

/* Every worker may fill it: the first one does. */
TEST(test_filled_once)
{
    struct env *e = env_new(NULL);
    struct fc *a = fc_new(e->t, 2);
    ps_v1_OpenAnswer q = work(&e->c, 2, 0);
    assert_waits(take_one(a, 1, &q, 0, NULL)); /* who comes before waits for it */
    assert_applied(fill(&e->c, 100, &q, 3, 9));
    assert_applied(fc_take(a, NULL));
    struct fc_reply r = fill(a, 2, &q, 3, 9);
    assert_applied(r);
    assert_int_equal(result_u64(&r), 0);
    assert_reply(fill(a, 3, &q, 2, 9), PS_INVALID_ARGUMENT, "3 items");
    assert_reply(fill(a, 4, &q, 3, 8), PS_INVALID_ARGUMENT, "hash");
    assert_int_equal(listed(a).items, 3);
    const uint64_t one[] = {17, 0, 1, 'x'};
    const ps_v1_Enqueue m = {.count = 1, .bytes = sizeof(one)};
    assert_reply(ask(a, PS_OP_ENQUEUE, 5, q.handle, &ps_v1_Enqueue_msg, &m, one, sizeof(one), NULL), PS_INVALID_ARGUMENT,
                 "filled at once");
    assert_reply(fill(a, 6, &q, 0, 0), PS_INVALID_ARGUMENT, "0 elements");
    assert_reply(close_queue(a, 7, &q, false), PS_FAILED_PRECONDITION, "not closed");
    assert_reply(close_queue(a, 8, &q, true), PS_FAILED_PRECONDITION, "not closed");
    assert_reply(take_n(a, 9, &q, 2, NULL), PS_INVALID_ARGUMENT, "one by one");
}

static void with_little_memory(struct psd_task_config *config)
{
    config->memory_budget_bytes = 832 << 10;
}

/* There is room for the items, but not for the table of them: nothing goes in, and what fits is a fill like any other. */
TEST(test_filled_whole_or_not_at_all)
{
    struct env *e = env_new(with_little_memory);
    ps_v1_OpenAnswer q = work(&e->c, 1, 0);
    struct fc_reply r = fill(&e->c, 100, &q, 6000, 9);
    assert_reply(r, PS_RESOURCE_EXHAUSTED, "0 of 6000 elements inserted");
    assert_int_equal(r.applied, PS_NOTHING_APPLIED);
    fc_ack(&e->c, 100);
    assert_int_equal(size_of(&e->c, NULL), 0);
    assert_applied(fill(&e->c, 101, &q, 2000, 8));
    assert_int_equal(listed(&e->c).items, 2000);
}

/* The last item that is done begins the next epoch, in an order of its own; who waited meanwhile goes on. */
TEST(test_epochs)
{
    enum { ITEMS = 12 };
    char order[3][ITEMS + 1] = {"", "", ""};
    struct env *e = env_new(NULL);
    struct fc *a = fc_new(e->t, 2);
    ps_v1_OpenAnswer q = work(&e->c, 3, 5);
    assert_applied(fill(&e->c, 100, &q, ITEMS, 9));
    struct item item = next(&e->c, &q);
    for (uint32_t epoch = 0; epoch < 3; epoch++) {
        bool seen[ITEMS] = {false};
        for (int i = 0; i < ITEMS; i++) {
            assert_int_equal(item.m.epoch, epoch + 1);
            assert_false(seen[item.text - 'a']);
            seen[item.text - 'a'] = true;
            order[epoch][i] = item.text;
            if (epoch == 0 && i == ITEMS - 1) { /* all others are done: who asks waits for this one */
                assert_waits(take_one(a, 1, &q, 0, NULL));
                assert_end(&e->c, &q, &item, false, 0);
                assert_applied(fc_take(a, NULL));
                assert_applied(fc_call(a, PS_OP_GOODBYE, 0, 77, 0, NULL, 0, NULL)); /* and gives it back */
            } else {
                assert_end(&e->c, &q, &item, false, 0);
            }
            item = epoch == 2 && i == ITEMS - 1 ? item : next(&e->c, &q);
        }
    }
    assert_string_not_equal(order[0], order[1]);
    assert_string_not_equal(order[1], order[2]);
    assert_reply(take_one(&e->c, 200, &q, 0, NULL), PS_OUT_OF_RANGE, "all 3 epochs");
    item.m.epoch = 1;
    assert_end(&e->c, &q, &item, false, 1); /* of an epoch that is over: done */
    item.m.epoch = 5;
    assert_reply(end_as(&e->c, e->c.next_number++, &q, &item, false), PS_INVALID_ARGUMENT, "epoch 5");
}

/* Held until it is done: also when its session is away for less than its lease. After that it is the next one's. */
TEST(test_a_dead_worker)
{
    struct env *e = env_new(NULL);
    struct fc *a = fc_new(e->t, 2);
    ps_v1_OpenAnswer q = work(&e->c, 1, 0);
    assert_applied(fill(&e->c, 100, &q, 2, 9));
    struct item first = next(a, &q);
    assert_int_equal(first.text, 'a');
    fc_cut(a);
    shell_pass(&e->net, 9000);
    assert_int_equal(fc_connect(a), PS_OK);
    assert_applied(fc_beat(&e->c, -1, NULL));
    assert_int_equal(next(&e->c, &q).text, 'b');
    assert_waits(take_one(&e->c, 101, &q, 0, NULL)); /* all are held */
    struct fc_reply r = end_as(&e->c, e->c.next_number++, &q, &first, false);
    assert_reply(r, PS_FAILED_PRECONDITION, "item 1 is held by");
    fc_cut(a);
    shell_pass(&e->net, 5000);
    PSI_IGNORE(fc_beat(&e->c, -1, NULL).status);
    shell_pass(&e->net, 5500);
    struct wire *out = wire_new();
    r = came(&e->c, out);
    assert_applied(r);
    assert_int_equal(result_of(&r).serial, first.m.serial);
    assert_int_equal(result_of(&r).deliveries, 1);
    assert_int_equal(fc_connect(a), PS_OK);
    assert_reply(end_as(a, a->next_number++, &q, &first, false), PS_FAILED_PRECONDITION, "is held by");
    fc_ack(&e->c, 101);
    assert_end(&e->c, &q, &first, false, 0);
    assert_end(a, &q, &first, false, 1); /* now it is done */
}

/* An item that is returned is the next one's, before all others. */
TEST(test_returned)
{
    struct env *e = env_new(NULL);
    struct fc *a = fc_new(e->t, 2);
    ps_v1_OpenAnswer q = work(&e->c, 1, 0);
    assert_applied(fill(&e->c, 100, &q, 3, 9));
    struct item item = next(a, &q);
    assert_end(a, &q, &item, true, 0);
    assert_reply(end_as(a, a->next_number++, &q, &item, false), PS_FAILED_PRECONDITION, "nobody holds it");
    struct item again = next(&e->c, &q);
    assert_int_equal(again.text, 'a');
    assert_int_equal(again.m.deliveries, 1);
    assert_end(&e->c, &q, &again, false, 0);
}

/* A DEQUEUE that is asked for again although its item was ended without an ACK. */
TEST(test_ended_before_its_ack)
{
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer q = work(&e->c, 1, 0);
    assert_applied(fill(&e->c, 100, &q, 2, 9));
    for (int i = 0; i < 2; i++) {
        bool give_back = i == 0;
        uint64_t id = 300 + (uint64_t)i;
        struct wire *out = wire_new();
        struct fc_reply r = take_one(&e->c, id, &q, 0, out);
        assert_applied(r);
        struct item item = {.m = result_of(&r)};
        assert_end(&e->c, &q, &item, give_back, 0);
        r = take_one(&e->c, id, &q, 0, out);
        assert_reply(r, PS_FAILED_PRECONDITION, "ended before its ACK");
        fc_ack(&e->c, id);
    }
    assert_int_equal(listed(&e->c).done, 1);
}

/* GOODBYE gives back what is held, in the order in which it was handed out. */
/* A request number whose item is still worked at cannot be that of another request. */
TEST(test_a_number_that_holds_an_item)
{
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer q = work(&e->c, 1, 0);
    struct wire *out = wire_new();
    assert_applied(fill(&e->c, 100, &q, 3, 9));
    struct fc_reply r = take_one(&e->c, 200, &q, 0, out);
    const struct item first = {.m = result_of(&r)};
    fc_ack(&e->c, 200);
    assert_reply(take_one(&e->c, 200, &q, 0, out), PS_INVALID_ARGUMENT, "number 200 still holds an item");
    fc_ack(&e->c, 200);
    assert_end(&e->c, &q, &first, false, 0);
    assert_applied(take_one(&e->c, 200, &q, 0, out));
}

/* Another request has that number when the item is ended: it is no matter of that one. */
TEST(test_a_number_that_something_else_has)
{
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer q = work(&e->c, 1, 0);
    struct wire *out = wire_new(), *body = wire_new();
    struct fc *other = fc_new(e->t, 2);
    ps_v1_Barrier m = {.count = 2};
    ps_v1_NameItem name = ps_v1_NameItem_init_zero;
    _Alignas(8) uint8_t meta[64] = {0};
    size_t bytes = 0;
    assert_int_equal(psi_msg_encode(&ps_v1_Barrier_msg, &m, meta, sizeof(meta), &bytes, NULL), PS_OK);
    PSI_IGNORE(PSI_BYTES_SET(name.name, "here")); /* fits */
    wire_item(body, &ps_v1_NameItem_msg, &name);
    bytes = psi_pad8((uint32_t)bytes);
    assert_applied(fill(&e->c, 100, &q, 2, 9));
    struct fc_reply r = take_one(&e->c, 200, &q, 0, out);
    const struct item first = {.m = result_of(&r)};
    fc_ack(&e->c, 200);
    assert_int_equal(fc_call(&e->c, PS_OP_BARRIER, 0, 200, 0, meta, (uint32_t)bytes, body).status, FC_NONE);
    assert_end(&e->c, &q, &first, false, 0);
    assert_int_equal(fc_connect(other), PS_OK);
    assert_applied(fc_call(other, PS_OP_BARRIER, 0, 200, 0, meta, (uint32_t)bytes, body));
    assert_applied(fc_take(&e->c, NULL));
}

TEST(test_goodbye_returns_it)
{
    struct env *e = env_new(NULL);
    struct fc *a = fc_new(e->t, 2);
    ps_v1_OpenAnswer q = work(&e->c, 1, 0);
    assert_applied(fill(&e->c, 100, &q, 4, 9));
    assert_int_equal(next(a, &q).text, 'a');
    assert_int_equal(next(a, &q).text, 'b');
    assert_int_equal(next(a, &q).text, 'c');
    assert_applied(fc_call(a, PS_OP_GOODBYE, 0, 77, 0, NULL, 0, NULL));
    for (int text = 'a'; text <= 'd'; text++) {
        assert_int_equal(next(&e->c, &q).text, text);
    }
}

TEST(test_ends_of_what_is_no_work)
{
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer q = work(&e->c, 1, 0);
    struct item item = {.m = {.serial = 1, .epoch = 1}};
    assert_reply(end_as(&e->c, e->c.next_number++, &q, &item, false), PS_INVALID_ARGUMENT, "has handed out no item 1");
    assert_applied(fill(&e->c, 100, &q, 1, 9));
    item.m.serial = 2;
    assert_reply(end_as(&e->c, e->c.next_number++, &q, &item, false), PS_INVALID_ARGUMENT, "no item 2");
    item.m.serial = 1;
    assert_reply(end_as(&e->c, e->c.next_number++, &q, &item, false), PS_FAILED_PRECONDITION, "nobody holds it");
    assert_applied(fc_delete(&e->c, 101, "q"));
    assert_reply(end_as(&e->c, e->c.next_number++, &q, &item, false), PS_ABORTED, "reset or deleted");
    q = fifo(&e->c, 3);
    assert_reply(end_as(&e->c, e->c.next_number++, &q, &item, false), PS_INVALID_ARGUMENT, "no item 1");
}
