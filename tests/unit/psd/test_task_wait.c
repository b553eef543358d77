/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that wait for many things: what is looked at again, and what ends them. */
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
        struct env e;
        struct fc w[3], back;
        env_init(&e, NULL);
        uint32_t last = leaves == 1 ? 2 : 1; /* comes last */
        assert_int_equal(wait_workers(&e.c, 500, 3).status, FC_NONE);
        for (uint32_t i = 0; i < 3; i++) {
            if (i != last) {
                worker_connect(&w[i], e.t, (uint8_t)(i + 2), i);
            }
        }
        assert_int_equal(fc_take(&e.c, NULL).status, FC_NONE);
        assert_applied(fc_call(&w[leaves], PS_OP_GOODBYE, 0, w[leaves].next_id++, 0, NULL, 0, NULL));
        worker_connect(&w[last], e.t, (uint8_t)(last + 2), last);
        assert_int_equal(fc_take(&e.c, NULL).status, FC_NONE);
        worker_connect(&back, e.t, 9, leaves);
        assert_applied(fc_take(&e.c, NULL));
        env_fini(&e);
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
        struct env e;
        struct fc waits;
        struct wire body;
        ps_v1_OpenAnswer v[3];
        uint8_t meta[2] = {0x10, 0x01}; /* initialised */
        env_init(&e, NULL);
        worker_connect(&waits, e.t, 2, 0);
        wire_init(&body);
        for (uint32_t i = 0; i < 3; i++) {
            make(&e, names[i], &v[i]);
            ps_v1_HandleItem item = {.handle = v[i].handle, .creation = v[i].creation};
            wire_item(&body, &ps_v1_HandleItem_msg, &item);
        }
        assert_applied(fc_init_var(&e.c, v[0].handle, ps_zeros(), ps_sgd(1), 0, false));
        assert_int_equal(fc_call(&waits, PS_OP_WAIT, 0, 500, 0, meta, sizeof(meta), &body).status, FC_NONE); /* b and c */
        assert_applied(fc_init_var(&e.c, v[2].handle, ps_zeros(), ps_sgd(1), 0, false));
        assert_int_equal(fc_take(&waits, NULL).status, FC_NONE); /* b */
        assert_applied(fc_delete(&e.c, 700, names[gone]));
        assert_reply(fc_take(&waits, NULL), PS_ABORTED, "deleted");
        wire_fini(&body);
        env_fini(&e);
    }
}
