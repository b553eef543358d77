/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Atomic variables, narrow wires and strings with the n-th allocation failing, n = 0, 1, 2, ...: the right status comes or the
 * connection is closed, nothing leaks or stays promised, every push counts once when it is gone on with or repeated. And: a
 * narrow push and pull take no memory in steady state.
 */
#include "task_test.h"

#include "common/half.h"
#include "common/mem.h"

enum { N = 40000, PUSHES = 3 };

static float values[N];
static uint16_t halves[N];

/* A connection again, with `number` (0: none) unresolved; false: not now. */
static bool connected(struct fc *c, uint64_t number)
{
    if (c->conn != NULL && !shell_is_closed(c->conn)) {
        shell_forget(c->conn);
        return true;
    }
    struct fc_hello hello;
    fc_hello_default(c, &hello);
    hello.unresolved[0] = number;
    hello.unresolved_count = number == 0 ? 0 : 1;
    c->number_items = 0;
    ps_status st = fc_hello(c, &hello);
    assert_true(st == PS_OK || st == FC_NONE || st == PS_RESOURCE_EXHAUSTED);
    return st == PS_OK;
}

/* A push in frames of a segment, until it is known to be applied. */
static void push_once(struct fc *c, uint8_t op, const ps_v1_OpenAnswer *v, ps_dtype wire)
{
    uint64_t number = c->next_number++;
    for (int tries = 0; tries < 6; tries++) {
        uint64_t from = 0;
        c->number_items = 0;
        if (!connected(c, number)) {
            continue;
        }
        if (c->number_items == 1) {
            const ps_v1_NumberItem *n = &c->numbers[0];
            if (n->state == PS_NUMBER_APPLIED) {
                return;
            }
            if (n->state == PS_NUMBER_REFUSED) {
                assert_true(n->status == PS_RESOURCE_EXHAUSTED && n->applied == PS_NOTHING_APPLIED);
                number = c->next_number++;
            }
            from = n->state == PS_NUMBER_IN_PROGRESS ? n->offset : 0;
        }
        struct fc_part whole = {.op = op, .dtype = (uint8_t)wire, .number = number, .handle = v->handle, .total = N, .scale = 1};
        struct wire w;
        wire_init(&w);
        whole.payload = wire == PS_F32 ? (const void *)values : halves;
        fc_frames(c, &w, &whole, from, SEGMENT);
        c->conn->piece = 50000; /* segments are cut */
        shell_send(c->conn, &w);
        wire_fini(&w);
        struct fc_reply r = {.status = FC_NONE};
        while (c->conn->frame_count > 0) {
            r = fc_take(c, NULL);
        }
        if (r.status == PS_OK && (r.h.flags & PS_FLAG_VALUE) == 0) {
            return;
        }
        if (r.status == PS_RESOURCE_EXHAUSTED) {
            assert_int_equal(r.applied, PS_NOTHING_APPLIED);
            number = c->next_number++;
        }
    }
    fail_msg("a push does not succeed");
}

/* A pull as wire of all of it, until it comes. */
static void pull_all(struct fc *c, const ps_v1_OpenAnswer *v, ps_dtype wire, void *to)
{
    ps_v1_OpenAnswer as = *v;
    as.dtype = (uint32_t)wire;
    for (int tries = 0; tries < 6; tries++) {
        if (connected(c, 0)) {
            struct fc_reply r = fc_pull(c, &as, 0, wire == PS_STRING ? 0 : N, to);
            if (r.status == PS_OK) {
                return;
            }
            assert_true(r.status == FC_NONE || r.status == PS_RESOURCE_EXHAUSTED);
        }
    }
    fail_msg("a pull does not succeed");
}

TEST(test_every_allocation_fails_once)
{
    bool fired = true;
    int64_t n = 0;
    for (; fired; n++) {
        struct env e;
        ps_v1_CreateItem m;
        ps_v1_OpenAnswer atomic, text;
        env_init(&e, NULL);
        PSI_IGNORE(filled(values, N, 1)); /* it is in values */
        for (size_t i = 0; i < N; i++) {
            halves[i] = 0x3f80;
        }
        fc_create_item(&m, "atomic", PS_F32, N, ps_sgd(1));
        m.atomic = true;
        assert_int_equal(fc_create(&e.c, &m, NULL), PS_OK);
        assert_int_equal(fc_open(&e.c, "atomic", &atomic), PS_OK);
        assert_applied(fc_init_var(&e.c, atomic.handle, ps_zeros(), ps_sgd(1), 0, false));
        ps_v1_OpenAnswer plain = fc_ready(&e.c, "plain", PS_F32, N, ps_sgd(1), 0);
        text = fc_created(&e.c, "text", PS_STRING, 1, ps_no_optimizer());
        static const int64_t blob[] = {0, 8, 0x4141414141414141};
        text.dims[0] = sizeof(blob); /* ASSIGN's total */
        uint64_t memory = psd_task_memory_bytes(e.t->core);
        static float wide[N];
        static uint16_t half[N];
        psi_mem_fail_after(n);
        for (int i = 0; i < PUSHES; i++) {
            push_once(&e.c, i == 1 ? PS_OP_PUSHPULL : PS_OP_PUSH, &atomic, i == 2 ? PS_BF16 : PS_F32);
            push_once(&e.c, i == 1 ? PS_OP_PUSHPULL : PS_OP_PUSH, &plain, PS_BF16);
        }
        pull_all(&e.c, &atomic, PS_F32, wide);
        assert_floats(wide, 0, N, -PUSHES);
        pull_all(&e.c, &atomic, PS_BF16, half);
        assert_int_equal(half[N - 1], psi_half_of(PS_BF16, -PUSHES));
        pull_all(&e.c, &plain, PS_BF16, half);
        assert_int_equal(half[0], psi_half_of(PS_BF16, -PUSHES));
        ps_status st = FC_NONE;
        for (int tries = 0; tries < 6 && st != PS_OK; tries++) {
            if (connected(&e.c, 0)) {
                st = fc_push(&e.c, PS_OP_ASSIGN, &text, blob, 1, 0).status;
                assert_true(st == PS_OK || st == FC_NONE || st == PS_RESOURCE_EXHAUSTED);
            }
        }
        assert_int_equal(st, PS_OK);
        pull_all(&e.c, &text, PS_STRING, wide);
        fired = psi_mem_fail_left() == -1;
        psi_mem_fail_after(-1);
        assert_floats(peek_at(e.t, "plain").value, 0, N, -PUSHES);
        assert_int_equal(peek_at(e.t, "atomic").version, PUSHES);
        assert_int_equal(psd_task_memory_bytes(e.t->core), memory + sizeof(blob)); /* nothing stays staged or copied */
        env_fini(&e);
    }
    assert_in_range(n, 5, 2000); /* large values come from the system, see the budgets of test_task_atomic.c */
}

TEST(test_no_allocation_in_steady_state)
{
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = fc_ready(&e->c, "v", PS_F32, N, ps_adam(0.1), 0);
    v.dtype = PS_BF16;
    static const size_t pieces[] = {0, 1000, 65536};
    for (size_t i = 0; i < ARRAY_COUNT(pieces); i++) {
        uint64_t before = 0;
        e->c.conn->piece = pieces[i];
        e->c.conn->write_most = pieces[i];
        for (int round = 0; round < 12; round++) {
            before = round == 3 ? psi_mem_count() : before;
            assert_applied(fc_push(&e->c, PS_OP_PUSH, &v, halves, 1, 0));
            assert_applied(fc_push(&e->c, PS_OP_PUSHPULL, &v, halves, 1, 0));
            assert_applied(fc_pull(&e->c, &v, 0, N, halves));
        }
        assert_int_equal(psi_mem_count(), before);
    }
}
