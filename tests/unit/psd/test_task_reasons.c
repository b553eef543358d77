/* SPDX-License-Identifier: Apache-2.0 */
/* The reasons that a task sends beside a status: in replies, items, CLOSE, and again of a number that a session asks for anew. */
#include "task_test.h"

#define assert_reason(reply_, status_, reason_)                                                                                  \
    do {                                                                                                                         \
        struct fc_reply reason_tmp_ = (reply_);                                                                                  \
        assert_int_equal(reason_tmp_.status, status_);                                                                           \
        assert_string_equal(ps_reason_name(reason_tmp_.reason), ps_reason_name(reason_));                                        \
    } while (0)

TEST(test_replies)
{
    struct env *e = env_new(NULL);
    float v[4] = {0};
    ps_v1_OpenAnswer empty = fc_created(&e->c, "empty", PS_F32, 4, ps_sgd(1));
    ps_v1_OpenAnswer w = fc_ready(&e->c, "w", PS_F32, 4, ps_sgd(1), 0);
    ps_v1_OpenAnswer gone = fc_ready(&e->c, "gone", PS_F32, 4, ps_sgd(1), 0);
    assert_applied(fc_delete(&e->c, 900, "gone"));
    assert_reason(fc_pull(&e->c, &w, 0, 4, v), PS_OK, PS_REASON_NONE);
    assert_reason(fc_pull(&e->c, &empty, 0, 4, v), PS_FAILED_PRECONDITION, PS_REASON_UNINITIALIZED);
    assert_reason(fc_pull(&e->c, &gone, 0, 4, v), PS_ABORTED, PS_REASON_LOST);
    assert_reason(fc_push(&e->c, PS_OP_PUSH, &empty, v, 1, 0), PS_FAILED_PRECONDITION, PS_REASON_UNINITIALIZED);
    assert_reason(fc_push(&e->c, PS_OP_PUSH, &gone, v, 1, 0), PS_ABORTED, PS_REASON_LOST);
    assert_reason(fc_push(&e->c, PS_OP_PUSH, &w, v, -1, 0), PS_INVALID_ARGUMENT, PS_REASON_NONE); /* the status says it all */
    w.dtype = PS_F64;
    double d[4] = {0};
    assert_reason(fc_push(&e->c, PS_OP_PUSH, &w, d, 1, 0), PS_INVALID_ARGUMENT, PS_REASON_SHAPE_MISMATCH);
    assert_reason(fc_seal(&e->c, empty.handle, empty.creation, 0), PS_FAILED_PRECONDITION, PS_REASON_UNINITIALIZED);
    assert_int_equal(fc_wait(&e->c, 901, empty.handle, empty.creation, 2, 1000).status, FC_NONE);
    shell_pass(&e->net, 1100);
    assert_reason(fc_take(&e->c, NULL), PS_DEADLINE_EXCEEDED, PS_REASON_NOT_READY);
}

static void little_memory(struct psd_task_config *config)
{
    config->memory_budget_bytes = 4 << 20;
}

TEST(test_items)
{
    struct env *e = env_new(little_memory);
    static const struct {
        const char *name;
        ps_dtype dtype;
        uint64_t elements;
        bool momentum, atomic;
        ps_status status;
        ps_reason reason;
    } rows[] = {
        {"w", PS_F64, 4, false, false, PS_INVALID_ARGUMENT, PS_REASON_SHAPE_MISMATCH},
        {"w", PS_F32, 4, true, false, PS_INVALID_ARGUMENT, PS_REASON_OPTIMIZER_MISMATCH},
        {"w", PS_F32, 4, false, true, PS_INVALID_ARGUMENT, PS_REASON_ATOMIC_MISMATCH},
        {"large", PS_F32, 2 << 20, false, false, PS_FAILED_PRECONDITION, PS_REASON_TOO_LARGE},
    };
    ps_v1_CreateItem m;
    ps_v1_CreateAnswer a;
    fc_create_item(&m, "w", PS_F32, 4, ps_sgd(1));
    assert_int_equal(fc_create(&e->c, &m, &a), PS_OK);
    assert_int_equal(a.reason, PS_REASON_NONE);
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        fc_create_item(&m, rows[i].name, rows[i].dtype, rows[i].elements, rows[i].momentum ? ps_momentum(1, 0.5) : ps_sgd(1));
        m.atomic = rows[i].atomic;
        assert_int_equal(fc_create(&e->c, &m, &a), rows[i].status);
        assert_string_equal(ps_reason_name((ps_reason)a.reason), ps_reason_name(rows[i].reason));
    }
}

/* A refused number keeps its reason for a client that did not hear it. */
TEST(test_number_keeps_it)
{
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer w = fc_ready(&e->c, "w", PS_F32, 1, ps_sgd(1), 0);
    const float bad = NAN;
    uint64_t number = e->c.next_number;
    assert_reason(fc_push(&e->c, PS_OP_PUSH, &w, &bad, 1, 0), PS_INVALID_ARGUMENT, PS_REASON_NOT_FINITE);
    struct fc_hello hello;
    fc_hello_default(&e->c, &hello);
    hello.unresolved[0] = number;
    hello.unresolved_count = 1;
    assert_int_equal(fc_hello(&e->c, &hello), PS_OK);
    assert_int_equal(e->c.number_items, 1);
    assert_int_equal(e->c.numbers[0].state, PS_NUMBER_REFUSED);
    assert_int_equal(e->c.numbers[0].reason, PS_REASON_NOT_FINITE);
    e->c.next_number = number;
    assert_reason(fc_push(&e->c, PS_OP_PUSH, &w, &bad, 1, 0), PS_INVALID_ARGUMENT, PS_REASON_NOT_FINITE);
}

TEST(test_connections)
{
    struct env e;
    struct fc_hello hello;
    env_start(&e, NULL);
    fc_hello_default(&e.c, &hello);
    hello.m.cluster_hash = 1;
    assert_int_equal(fc_hello(&e.c, &hello), PS_FAILED_PRECONDITION);
    assert_int_equal(e.c.hello_reply.reason, PS_REASON_OTHER_CLUSTER);
    fc_hello_default(&e.c, &hello);
    hello.m.protocol = 9;
    assert_int_equal(fc_hello(&e.c, &hello), PS_INVALID_ARGUMENT);
    assert_int_equal(e.c.hello_reply.reason, PS_REASON_VERSION);
    assert_int_equal(fc_connect(&e.c), PS_OK);
    struct fc_reply said;
    struct wire *w = wire_new();
    fc_frame(&e.c, w, PS_OP_BEAT, 0, 7, 0, NULL, 0, NULL);
    w->data[36] ^= 1; /* the CRC of its header */
    shell_send(e.c.conn, w);
    struct shell_frame *f = shell_take(e.c.conn);
    assert_non_null(f);
    fc_parse(f, &said);
    assert_int_equal(said.h.op, PS_OP_CLOSE);
    assert_reason(said, PS_INVALID_ARGUMENT, PS_REASON_BAD_CRC);
    shell_frame_free(f);
    env_fini(&e);
}
