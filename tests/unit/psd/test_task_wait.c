/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that wait: what is looked at again, and what ends them. That of a call is in test_task_call, of owners in
 * test_task_late. */
#include "task_test.h"

enum { WORKERS = 200 };

static void worker_connect(struct fc *c, struct shell_task *t, uint8_t id, uint32_t task)
{
    struct fc_hello hello;
    fc_init(c, t, id);
    fc_hello_default(c, &hello);
    PSI_IGNORE(PSI_BYTES_SET(hello.m.job, "worker")); /* fits */
    hello.m.task = task;
    assert_int_equal(fc_hello(c, &hello), PS_OK);
}

static struct fc_reply wait_workers(struct fc *c, uint64_t id, uint32_t count)
{
    struct wire body;
    wire_init(&body);
    for (uint32_t i = 0; i < count; i++) {
        ps_v1_TaskItem item = {.task = i};
        PSI_IGNORE(PSI_BYTES_SET(item.job, "worker")); /* fits */
        wire_item(&body, &ps_v1_TaskItem_msg, &item);
    }
    struct fc_reply r = fc_call(c, PS_OP_WAIT_CLUSTER, 0, id, 0, NULL, 0, &body);
    wire_fini(&body);
    return r;
}

/* Every worker waits for all of them: none is answered before the last one is there, then all are. */
TEST(test_a_whole_cluster)
{
    static struct fc w[WORKERS];
    struct env *e = env_new_unconnected(NULL);
    for (uint32_t i = 0; i < WORKERS; i++) {
        uint32_t task = i * 7 % WORKERS; /* they come in any order */
        worker_connect(&w[i], e->t, (uint8_t)(i + 2), task);
        struct fc_reply r = wait_workers(&w[i], 500, WORKERS);
        if (i + 1 < WORKERS) {
            assert_int_equal(r.status, FC_NONE);
        } else {
            assert_applied(r);
        }
    }
    for (uint32_t i = 0; i + 1 < WORKERS; i++) {
        assert_applied(fc_take(&w[i], NULL));
    }
}

/* All at once: one that has gone again meanwhile does not count, wherever it stands in the list. */
TEST(test_one_that_leaves_again)
{
    for (uint32_t leaves = 0; leaves < 3; leaves++) {
        struct fc w[3], back;
        struct env *e = env_new(NULL);
        uint32_t last = leaves == 1 ? 2 : 1; /* comes last */
        assert_int_equal(wait_workers(&e->c, 500, 3).status, FC_NONE);
        for (uint32_t i = 0; i < 3; i++) {
            if (i != last) {
                worker_connect(&w[i], e->t, (uint8_t)(i + 2), i);
            }
        }
        assert_int_equal(fc_take(&e->c, NULL).status, FC_NONE);
        assert_applied(fc_call(&w[leaves], PS_OP_GOODBYE, 0, w[leaves].next_id++, 0, NULL, 0, NULL));
        worker_connect(&w[last], e->t, (uint8_t)(last + 2), last);
        assert_int_equal(fc_take(&e->c, NULL).status, FC_NONE);
        worker_connect(&back, e->t, 9, leaves);
        assert_applied(fc_take(&e->c, NULL));
    }
}

static void make(struct env *e, const char *name, ps_v1_OpenAnswer *out)
{
    ps_v1_CreateItem m;
    fc_create_item(&m, name, PS_F32, 10, ps_sgd(1));
    assert_int_equal(fc_create(&e->c, &m, NULL), PS_OK);
    assert_int_equal(fc_open(&e->c, name, out), PS_OK);
}

/* A variable that is deleted ends the wait at once, also while another one is missing before or behind it. */
TEST(test_gone_while_another_is_missing)
{
    static const char *const names[] = {"a", "b", "c"};
    for (uint32_t gone = 0; gone < 3; gone++) {
        struct fc waits;
        ps_v1_OpenAnswer v[3];
        uint8_t meta[2] = {0x10, 0x01}; /* initialised */
        struct env *e = env_new(NULL);
        worker_connect(&waits, e->t, 2, 0);
        struct wire *body = wire_new();
        for (uint32_t i = 0; i < 3; i++) {
            make(e, names[i], &v[i]);
            ps_v1_HandleItem item = {.handle = v[i].handle, .creation = v[i].creation};
            wire_item(body, &ps_v1_HandleItem_msg, &item);
        }
        assert_applied(fc_init_var(&e->c, v[0].handle, ps_zeros(), ps_sgd(1), 0, false));
        assert_int_equal(fc_call(&waits, PS_OP_WAIT, 0, 500, 0, meta, sizeof(meta), body).status, FC_NONE); /* b and c */
        assert_applied(fc_init_var(&e->c, v[2].handle, ps_zeros(), ps_sgd(1), 0, false));
        assert_int_equal(fc_take(&waits, NULL).status, FC_NONE); /* b */
        assert_applied(fc_delete(&e->c, 700, names[gone]));
        assert_reply(fc_take(&waits, NULL), PS_ABORTED, "deleted");
    }
}

/* WAIT until both are initialised, or sealed. */
static struct fc_reply wait_both(struct fc *c, uint64_t id, const ps_v1_OpenAnswer v[2], bool sealed, uint32_t timeout_ms)
{
    struct wire body;
    ps_v1_Wait m = {.timeout_ms = timeout_ms, .condition = sealed ? 2 : 1};
    _Alignas(8) uint8_t meta[64] = {0};
    size_t bytes = 0;
    assert_int_equal(psi_msg_encode(&ps_v1_Wait_msg, &m, meta, sizeof(meta), &bytes, NULL), PS_OK);
    wire_init(&body);
    for (uint32_t i = 0; i < 2; i++) {
        ps_v1_HandleItem item = {.handle = v[i].handle, .creation = v[i].creation};
        wire_item(&body, &ps_v1_HandleItem_msg, &item);
    }
    struct fc_reply r = fc_call(c, PS_OP_WAIT, 0, id, 0, meta, psi_pad8((uint32_t)bytes), &body);
    wire_fini(&body);
    return r;
}

/* Each way in which a variable gets what somebody waits for; the same variable twice in a list counts twice. */
TEST(test_fulfilled_by_each_event)
{
    static const float values[10] = {1};
    struct fc a, b;
    ps_v1_OpenAnswer v[2], twice[2];
    struct env *e = env_new(NULL);
    worker_connect(&a, e->t, 2, 0);
    worker_connect(&b, e->t, 3, 1);
    make(e, "v", &v[0]);
    make(e, "w", &v[1]);
    twice[0] = twice[1] = v[1];
    assert_int_equal(wait_both(&a, 500, v, false, 0).status, FC_NONE);
    assert_int_equal(wait_both(&a, 501, v, true, 0).status, FC_NONE);
    assert_int_equal(wait_both(&b, 500, twice, false, 0).status, FC_NONE);
    assert_applied(fc_push(&e->c, PS_OP_ASSIGN, &v[0], values, 1, 0));
    assert_int_equal(fc_take(&a, NULL).status, FC_NONE);
    assert_applied(fc_init_var(&e->c, v[1].handle, ps_zeros(), ps_sgd(1), 0, false));
    assert_applied(fc_take(&a, NULL)); /* 500 */
    assert_applied(fc_take(&b, NULL));
    assert_int_equal(fc_take(&a, NULL).status, FC_NONE);
    uint64_t chief = fc_chief(&e->c);
    assert_applied(fc_seal(&e->c, v[1].handle, v[1].creation, chief));
    assert_int_equal(fc_take(&a, NULL).status, FC_NONE);
    assert_applied(fc_seal(&e->c, v[0].handle, v[0].creation, chief));
    assert_int_equal(fc_take(&a, NULL).h.id, 501);
}

/* The one with the earlier deadline first, and each at its own; what is missing is named. */
TEST(test_deadlines)
{
    enum { COUNT = 40 };
    ps_v1_OpenAnswer v[2];
    struct env *e = env_new(NULL);
    make(e, "v", &v[0]);
    make(e, "w", &v[1]);
    assert_applied(fc_init_var(&e->c, v[0].handle, ps_zeros(), ps_sgd(1), 0, false));
    for (uint32_t i = 0; i < COUNT; i++) { /* in any order */
        assert_int_equal(wait_both(&e->c, 500 + i, v, false, 100 + i * 7 % COUNT * 100).status, FC_NONE);
    }
    for (uint32_t i = 0; i < COUNT; i += 5) {
        fc_ack(&e->c, 500 + i); /* given up */
    }
    for (uint32_t at = 0; at < COUNT; at++) {
        uint32_t i = at * 23 % COUNT; /* 7 * 23 = 1 modulo 40 */
        shell_pass(&e->net, 100);
        struct fc_reply r = fc_take(&e->c, NULL);
        if (i % 5 == 0) {
            assert_int_equal(r.status, FC_NONE);
            continue;
        }
        assert_reply(r, PS_DEADLINE_EXCEEDED, "1 of 2 not initialised at /job:ps/task:0: w");
        assert_int_equal(r.h.id, 500 + i);
        PSI_IGNORE(fc_beat(&e->c, -1, NULL)); /* a sign of life */
    }
}

/* Its connection is cut: it waits on, the same number joins it, and what came meanwhile is its answer. */
TEST(test_joined_after_reconnect)
{
    for (uint32_t before = 0; before < 2; before++) { /* it is fulfilled before it is joined, or after */
        struct fc a;
        ps_v1_OpenAnswer v[2];
        struct env *e = env_new(NULL);
        worker_connect(&a, e->t, 2, 0);
        make(e, "v", &v[0]);
        make(e, "w", &v[1]);
        assert_applied(fc_init_var(&e->c, v[0].handle, ps_zeros(), ps_sgd(1), 0, false));
        assert_int_equal(wait_both(&a, 500, v, false, 0).status, FC_NONE);
        fc_cut(&a);
        if (before == 1) {
            assert_applied(fc_init_var(&e->c, v[1].handle, ps_zeros(), ps_sgd(1), 0, false));
        }
        assert_int_equal(fc_connect(&a), PS_OK);
        struct fc_reply r = wait_both(&a, 500, v, false, 0);
        if (before == 0) {
            assert_int_equal(r.status, FC_NONE);
            assert_applied(fc_init_var(&e->c, v[1].handle, ps_zeros(), ps_sgd(1), 0, false));
            r = fc_take(&a, NULL);
        }
        assert_applied(r);
        assert_int_equal(r.h.id, 500);
        assert_int_equal(fc_take(&a, NULL).status, FC_NONE); /* once */
    }
}

/* Given up by ACK or GOODBYE: nothing hangs there any more when what was waited for changes, or goes. */
TEST(test_dropped)
{
    for (uint32_t goodbye = 0; goodbye < 2; goodbye++) {
        struct fc a;
        ps_v1_OpenAnswer v[2];
        struct env *e = env_new(NULL);
        worker_connect(&a, e->t, 2, 0);
        make(e, "v", &v[0]);
        make(e, "w", &v[1]);
        assert_int_equal(wait_both(&a, 500, v, false, 60000).status, FC_NONE);
        assert_int_equal(wait_workers(&a, 501, 3).status, FC_NONE);
        if (goodbye == 1) {
            assert_applied(fc_call(&a, PS_OP_GOODBYE, 0, a.next_id++, 0, NULL, 0, NULL));
        } else {
            fc_ack(&a, 500);
            fc_ack(&a, 501);
        }
        assert_applied(fc_init_var(&e->c, v[0].handle, ps_zeros(), ps_sgd(1), 0, false));
        assert_applied(fc_delete(&e->c, 700, "w"));
        struct fc b;
        worker_connect(&b, e->t, 3, 1);
        shell_pass(&e->net, 100);
        assert_int_equal(fc_take(&a, NULL).status, FC_NONE);
    }
}

/* A session whose lease has passed does not count; its next beat brings it back. */
TEST(test_a_lease_that_passes)
{
    struct fc w[2];
    struct env *e = env_new(NULL);
    worker_connect(&w[0], e->t, 2, 0);
    fc_cut(&w[0]);
    assert_int_equal(wait_workers(&e->c, 500, 2).status, FC_NONE); /* 1 */
    for (uint32_t i = 0; i < 11; i++) {
        shell_pass(&e->net, 1000);
        assert_applied(fc_beat(&e->c, -1, NULL));
    }
    worker_connect(&w[1], e->t, 3, 1);
    assert_int_equal(fc_take(&e->c, NULL).status, FC_NONE); /* 0 now */
    struct fc_hello hello;
    fc_hello_default(&w[0], &hello);
    PSI_IGNORE(PSI_BYTES_SET(hello.m.job, "worker")); /* fits */
    assert_int_equal(fc_hello(&w[0], &hello), PS_OK);
    assert_applied(fc_take(&e->c, NULL));
}
