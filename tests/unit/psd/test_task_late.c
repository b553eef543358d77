/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Owners that do not answer the directory while the time lasts that a client gave its CREATE or DELETE: the client is told which,
 * and what they were asked for goes on.
 */
#include "cluster_test.h"

static void take_items(struct cl *cl, ps_v1_CreateAnswer *answers, uint32_t count)
{
    struct wire back;
    wire_init(&back);
    assert_applied(fc_take(&cl->c, &back));
    const uint8_t *p = back.data;
    size_t n = back.len;
    for (uint32_t i = 0; i < count; i++) {
        assert_true(fc_item(&p, &n, &ps_v1_CreateAnswer_msg, &answers[i]));
        assert_int_equal(answers[i].index, i + 1);
    }
    wire_fini(&back);
}

/* Of three items one's owner is silent: the others have their answers, this one's names the owner. */
TEST(test_create)
{
    ps_v1_CreateAnswer a[3];
    uint8_t meta[PS_META_BYTES_MAX];
    static const char *const NAMES[] = {"x", "y", "z"};
    struct cl *cl = cl_new_apart();
    struct shell_conn *end = cl_join(cl, cl->ps1);
    PSI_IGNORE(cl_join(cl, cl->w0)); /* the connection stays with the tasks */
    end->frozen = true;              /* the request never arrives */
    struct wire *body = wire_new();
    for (uint32_t i = 0; i < 3; i++) {
        ps_v1_CreateItem m;
        fc_create_item(&m, NAMES[i], PS_F32, 100, ps_sgd(1));
        m.task = i == 1 ? 1 : 0;
        PSI_IGNORE(PSI_BYTES_SET(m.job, i == 2 ? "worker" : "ps")); /* fits */
        m.pinned = i == 2;
        wire_item(body, &ps_v1_CreateItem_msg, &m);
    }
    assert_int_equal(fc_call(&cl->c, PS_OP_CREATE, 0, 50, 0, meta, wait_meta(700, meta), body).status, FC_NONE);
    cl_pass(cl, 600);
    assert_int_equal(fc_take(&cl->c, NULL).status, FC_NONE);
    cl_pass(cl, 200);
    take_items(cl, a, 3);
    assert_true(a[0].status == PS_OK && a[2].status == PS_OK);
    assert_int_equal(a[1].status, PS_DEADLINE_EXCEEDED);
    assert_true(says(&a[1], "/job:ps/task:1 (10.0.0.2:2) has not answered for variable 'y'"));
    assert_true(a[1].task == 1 && a[1].job.size == 2 && memcmp(a[1].job.bytes, "ps", 2) == 0);
    /* it answers at last: the name was its own all the time */
    shell_thaw(end);
    shell_forget(cl->c.conn);
    assert_int_equal(cl_create(cl, "y", "ps", 0, false, &a[1]), PS_OK);
    assert_true(a[1].task == 1 && !a[1].created);
    assert_int_equal(fc_open(&cl->at1, "y", NULL), PS_OK);
}

/* A list in several frames: the time of the last one counts; without one nothing ends. */
TEST(test_create_without_a_time)
{
    for (uint64_t ms = 0; ms <= 500; ms += 500) {
        struct cl cl;
        ps_v1_CreateItem m;
        uint8_t meta[PS_META_BYTES_MAX];
        cl_start(&cl);
        struct shell_conn *end = cl_join(&cl, cl.ps1);
        end->frozen = true;
        struct wire *body = wire_new();
        fc_create_item(&m, "x", PS_F32, 100, ps_sgd(1));
        m.task = 1;
        wire_item(body, &ps_v1_CreateItem_msg, &m);
        assert_int_equal(fc_call(&cl.c, PS_OP_CREATE, PS_FLAG_MORE, 50, 0, meta, wait_meta(500 - ms, meta), body).status,
                         FC_NONE);
        cl_pass(&cl, 1000);
        assert_int_equal(fc_take(&cl.c, NULL).status, FC_NONE);
        assert_int_equal(fc_call(&cl.c, PS_OP_CREATE, 0, 50, 0, meta, wait_meta(ms, meta), NULL).status, FC_NONE);
        cl_pass(&cl, 1000);
        assert_int_equal(fc_take(&cl.c, NULL).status, ms == 0 ? FC_NONE : PS_OK);
        cl_fini(&cl);
    }
}

/* Nobody knows whether it is deleted until the owner says so. */
TEST(test_delete)
{
    ps_v1_NameItem m = ps_v1_NameItem_init_zero;
    uint8_t meta[PS_META_BYTES_MAX];
    struct cl *cl = cl_new_apart();
    struct shell_conn *end = cl_join(cl, cl->ps1);
    assert_int_equal(cl_create(cl, "x", "ps", 1, false, NULL), PS_OK);
    end->frozen = true;
    struct wire *body = wire_new();
    PSI_IGNORE(PSI_BYTES_SET(m.name, "x")); /* fits */
    wire_item(body, &ps_v1_NameItem_msg, &m);
    assert_int_equal(fc_call(&cl->c, PS_OP_DELETE, 0, 50, 0, meta, wait_meta(700, meta), body).status, FC_NONE);
    cl_pass(cl, 600);
    assert_int_equal(fc_take(&cl->c, NULL).status, FC_NONE);
    cl_pass(cl, 200);
    struct fc_reply r = fc_take(&cl->c, NULL);
    assert_reply(r, PS_DEADLINE_EXCEEDED, "/job:ps/task:1 (10.0.0.2:2) has not answered for variable 'x'");
    assert_int_equal(r.applied, PS_OUTCOME_UNKNOWN);
    assert_int_equal(fc_find(&cl->c, "x", NULL), PS_OK);
    shell_thaw(end);
    shell_forget(cl->c.conn);
    assert_int_equal(fc_find(&cl->c, "x", NULL), PS_NOT_FOUND);
}
