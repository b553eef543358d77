/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Atomic variables: a push takes effect at its last byte or not at all, whatever ends it; every read is exact, however slowly it
 * is taken; the memory that this needs is asked for first and given back.
 */
#include "cluster_test.h"

#include "common/half.h"

#include <stdlib.h>

enum { N = 40000 };

static float values[N];

static ps_v1_OpenAnswer ready(struct env *e, const char *name, uint64_t elements, const ps_optimizer *opt, double value)
{
    ps_v1_CreateItem m;
    ps_v1_OpenAnswer v;
    fc_create_item(&m, name, PS_F32, elements, opt);
    m.atomic = true;
    assert_int_equal(fc_create(&e->c, &m, NULL), PS_OK);
    assert_int_equal(fc_open(&e->c, name, &v), PS_OK);
    assert_true(v.atomic);
    assert_applied(fc_init_var(&e->c, v.handle, ps_constant(value), opt, 0, false));
    assert_int_equal(fc_open(&e->c, name, &v), PS_OK);
    return v;
}

static void assert_all(struct env *e, float want, uint64_t version)
{
    struct peek p = peek_at(e->t, "v");
    assert_int_equal(p.bytes, N * 4);
    assert_floats(p.value, 0, N, want);
    assert_int_equal(p.version, version);
}

/* Segments [from, to) of three, in one frame. */
static void send_segments(struct env *e, uint8_t op, const ps_v1_OpenAnswer *v, uint64_t number, uint32_t from, uint32_t to)
{
    struct fc_part part = {.op = op, .dtype = PS_F32, .number = number, .handle = v->handle, .total = N, .scale = 1};
    part.offset = from * 16384;
    part.payload = values + from * 16384;
    part.payload_bytes = to < 3 ? (to - from) * SEGMENT : N * 4 - from * SEGMENT;
    part.first = from == 0;
    part.last = to == 3;
    fc_send_part(&e->c, &part);
}

/* Its values are of the moment of the request: what is said later comes behind them. */
TEST(test_not_overtaken)
{
    struct env *e = env_new(NULL);
    struct wire *w = wire_new();
    ps_v1_OpenAnswer v = ready(e, "v", N, ps_sgd(1), 3);
    struct ps_pull_meta m = {.elements = N};
    struct wire_frame f = {.op = PS_OP_PULL, .flags = PS_FLAG_CRC, .id = 5000, .dtype = PS_F32, .handle = v.handle};
    f.meta = &m;
    f.meta_bytes = sizeof(m);
    PSI_IGNORE(wire_frame(w, &f));
    fc_frame(&e->c, w, PS_OP_BEAT, 0, 5001, 0, NULL, 0, NULL);
    shell_send(e->c.conn, w);
    for (uint64_t id = 5000; id < 5002; id++) {
        struct shell_frame *frame = shell_take(e->c.conn);
        assert_non_null(frame);
        assert_int_equal(frame->h.id, id);
        shell_frame_free(frame);
    }
}

TEST(test_applied_at_last)
{
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = ready(e, "v", N, ps_sgd(1), 3);
    uint64_t memory = psd_task_memory_bytes(e->t->core);
    PSI_IGNORE(filled(values, N, 1)); /* it is in values */
    uint64_t number = e->c.next_number++;
    send_segments(e, PS_OP_PUSH, &v, number, 0, 1);
    send_segments(e, PS_OP_PUSH, &v, number, 1, 2);
    assert_int_equal(psd_task_memory_bytes(e->t->core), memory + N * 4);
    assert_all(e, 3, 0);
    assert_applied(fc_push(&e->c, PS_OP_PUSH, &v, values, 1, 0)); /* another one in between: first to end, first applied */
    assert_all(e, 2, 1);
    send_segments(e, PS_OP_PUSH, &v, number, 2, 3);
    struct fc_reply r = fc_take(&e->c, NULL);
    assert_applied(r);
    assert_int_equal(r.version, 2);
    assert_all(e, 1, 2);
    assert_int_equal(psd_task_memory_bytes(e->t->core), memory);
    ps_v1_InfoAnswer info;
    assert_int_equal(fc_info(&e->c, &info), PS_OK);
    assert_int_equal(info.pushes_applied, 2);
    assert_int_equal(info.pushes_torn, 0);
}

/* An addition that needs more than one segment is staged as a push is. */
TEST(test_added_at_last)
{
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = ready(e, "v", N, ps_no_optimizer(), 3);
    uint64_t memory = psd_task_memory_bytes(e->t->core);
    PSI_IGNORE(filled(values, N, 1)); /* it is in values */
    uint64_t number = e->c.next_number++;
    send_segments(e, PS_OP_ADD, &v, number, 0, 2);
    assert_int_equal(psd_task_memory_bytes(e->t->core), memory + N * 4);
    assert_all(e, 3, 0);
    assert_applied(fc_push(&e->c, PS_OP_ADD, &v, values, -1, 0));
    assert_all(e, 2, 1);
    send_segments(e, PS_OP_ADD, &v, number, 2, 3);
    assert_applied(fc_take(&e->c, NULL));
    assert_all(e, 3, 2);
    number = e->c.next_number++;
    send_segments(e, PS_OP_ADD, &v, number, 0, 2);
    assert_int_equal(fc_abandon(&e->c, number).result[0], PS_NUMBER_ABANDONED);
    assert_all(e, 3, 2); /* nothing of it is in */
    assert_int_equal(psd_task_memory_bytes(e->t->core), memory);
    ps_v1_OpenAnswer small = ready(e, "small", 2, ps_no_optimizer(), 3);
    struct fc_reply r = fc_push(&e->c, PS_OP_ADD, &small, values, 1, 0);
    assert_applied(r);
    assert_int_equal(r.result_bytes, 8);
}

/* Adam: its powers are those of the moment it is applied, as if the pushes had come one after the other. */
TEST(test_order_of_scalars)
{
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = ready(e, "v", N, ps_adam(0.1), 1);
    ps_v1_OpenAnswer plain = fc_ready(&e->c, "plain", PS_F32, N, ps_adam(0.1), 1);
    PSI_IGNORE(filled(values, N, 1)); /* it is in values */
    uint64_t number = e->c.next_number++;
    send_segments(e, PS_OP_PUSH, &v, number, 0, 1);
    assert_applied(fc_push(&e->c, PS_OP_PUSH, &v, values, 2, 0));
    send_segments(e, PS_OP_PUSH, &v, number, 1, 3);
    assert_applied(fc_take(&e->c, NULL));
    assert_applied(fc_push(&e->c, PS_OP_PUSH, &plain, values, 2, 0));
    assert_applied(fc_push(&e->c, PS_OP_PUSH, &plain, values, 1, 0));
    assert_memory_equal(peek_at(e->t, "v").value, peek_at(e->t, "plain").value, N * 4);
}

TEST(test_torn_is_nothing)
{
    struct fc_hello hello;
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = ready(e, "v", N, ps_sgd(1), 3);
    uint64_t memory = psd_task_memory_bytes(e->t->core);
    PSI_IGNORE(filled(values, N, 1)); /* it is in values */
    uint64_t number = e->c.next_number++;
    send_segments(e, PS_OP_PUSH, &v, number, 0, 2);
    assert_int_equal(fc_abandon(&e->c, number).result[0], PS_NUMBER_ABANDONED);
    assert_all(e, 3, 0);
    assert_int_equal(psd_task_memory_bytes(e->t->core), memory);
    /* abandoned by HELLO: the answer says that nothing is in */
    number = e->c.next_number++;
    send_segments(e, PS_OP_PUSH, &v, number, 0, 2);
    fc_cut(&e->c);
    fc_hello_default(&e->c, &hello);
    hello.unresolved[0] = number;
    hello.abandoned[0] = true;
    hello.unresolved_count = 1;
    assert_int_equal(fc_hello(&e->c, &hello), PS_OK);
    assert_int_equal(e->c.numbers[0].state, PS_NUMBER_ABANDONED);
    assert_int_equal(e->c.numbers[0].applied, PS_NOTHING_APPLIED);
    assert_all(e, 3, 0);
    /* a replay of its first frame gets the same */
    struct fc_part part = {.op = PS_OP_PUSH, .dtype = PS_F32, .number = number, .handle = v.handle, .total = N, .scale = 1};
    part.payload = values;
    fc_send_frames(&e->c, &part, 0, 0);
    struct fc_reply r = fc_take(&e->c, NULL);
    assert_reply(r, PS_ABORTED, "abandoned");
    assert_int_equal(r.applied, PS_NOTHING_APPLIED);
    /* its session is dropped */
    number = e->c.next_number++;
    send_segments(e, PS_OP_PUSH, &v, number, 0, 2);
    fc_cut(&e->c);
    shell_pass(&e->net, PS_SESSION_KEEP_MS + 1000);
    assert_all(e, 3, 0);
    assert_int_equal(psd_task_memory_bytes(e->t->core), memory);
}

TEST(test_resumed)
{
    for (uint32_t cut = 1; cut < 3; cut++) {
        struct fc_hello hello;
        struct env *e = env_new(NULL);
        ps_v1_OpenAnswer v = ready(e, "v", N, ps_sgd(1), 3);
        PSI_IGNORE(filled(values, N, 1)); /* it is in values */
        uint64_t number = e->c.next_number++;
        send_segments(e, PS_OP_PUSH, &v, number, 0, cut);
        fc_cut(&e->c);
        fc_hello_default(&e->c, &hello);
        hello.unresolved[0] = number;
        hello.unresolved_count = 1;
        assert_int_equal(fc_hello(&e->c, &hello), PS_OK);
        assert_int_equal(e->c.numbers[0].state, PS_NUMBER_IN_PROGRESS);
        assert_int_equal(e->c.numbers[0].offset, cut * 16384);
        assert_all(e, 3, 0);
        send_segments(e, PS_OP_PUSH, &v, number, cut, 3);
        assert_applied(fc_take(&e->c, NULL));
        assert_all(e, 2, 1);
        fc_cut(&e->c); /* and its outcome is kept */
        fc_hello_default(&e->c, &hello);
        hello.unresolved[0] = number;
        hello.unresolved_count = 1;
        assert_int_equal(fc_hello(&e->c, &hello), PS_OK);
        assert_int_equal(e->c.numbers[0].state, PS_NUMBER_APPLIED);
        assert_int_equal(e->c.numbers[0].version, 1);
        assert_all(e, 2, 1);
    }
}

TEST(test_nonfinite_refuses_all)
{
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = ready(e, "v", N, ps_sgd(1), 3);
    uint64_t memory = psd_task_memory_bytes(e->t->core);
    PSI_IGNORE(filled(values, N, 1)); /* it is in values */
    values[N - 1] = NAN;
    struct fc_reply r = fc_push(&e->c, PS_OP_PUSH, &v, values, 1, 0);
    assert_reply(r, PS_INVALID_ARGUMENT, "element 39999 is NaN or infinite");
    assert_int_equal(r.applied, PS_NOTHING_APPLIED);
    assert_all(e, 3, 0);
    assert_int_equal(psd_task_memory_bytes(e->t->core), memory);
    values[N - 1] = 1;
    assert_applied(fc_push(&e->c, PS_OP_PUSH, &v, values, 1, 0));
    assert_all(e, 2, 1);
}

static void small_budget(struct psd_task_config *config)
{
    config->memory_budget_bytes = 3 * psd_arena_bytes(N * 4) + TEST_RECORDS_BYTES;
}

TEST(test_budget)
{
    struct env *e = env_new(small_budget);
    ps_v1_OpenAnswer v = ready(e, "v", N, ps_sgd(1), 3);
    PSI_IGNORE(filled(values, N, 1)); /* it is in values */
    uint64_t a = e->c.next_number++;
    uint64_t b = e->c.next_number++;
    uint64_t c = e->c.next_number++;
    send_segments(e, PS_OP_PUSH, &v, a, 0, 1);
    send_segments(e, PS_OP_PUSH, &v, b, 0, 1);
    assert_int_equal(fc_take(&e->c, NULL).status, FC_NONE);
    send_segments(e, PS_OP_PUSH, &v, c, 0, 1); /* the first frame decides */
    struct fc_reply r = fc_take(&e->c, NULL);
    assert_reply(r, PS_RESOURCE_EXHAUSTED, "no room to stage 160000 bytes");
    assert_int_equal(r.applied, PS_NOTHING_APPLIED);
    assert_true(r.retry_after_ms > 0);
    r = fc_pull(&e->c, &v, 0, N, values); /* the copy has no room either, a single segment needs none */
    assert_reply(r, PS_RESOURCE_EXHAUSTED, "no room to copy 160000 bytes");
    assert_true(r.retry_after_ms > 0);
    static float part[16384];
    assert_applied(fc_pull(&e->c, &v, 0, 16384, part));
    assert_floats(part, 0, 16384, 3);
    assert_int_equal(fc_abandon(&e->c, a).result[0], PS_NUMBER_ABANDONED);
    assert_applied(fc_pull(&e->c, &v, 0, N, values));
    assert_floats(values, 0, N, 3);
    PSI_IGNORE(filled(values, N, 1)); /* it is in values */
    send_segments(e, PS_OP_PUSH, &v, b, 1, 3);
    assert_applied(fc_take(&e->c, NULL));
    assert_all(e, 2, 1);
}

/* The reader takes nothing while pushes go on: it gets what was there when it asked, and the frame says so at both ends. */
TEST(test_reads_are_copies)
{
    static const ps_dtype wires[] = {PS_F32, PS_BF16};
    for (size_t k = 0; k < ARRAY_COUNT(wires); k++) {
        struct fc other;
        struct env *e = env_new(NULL);
        fc_init(&other, e->t, 2);
        assert_int_equal(fc_connect(&other), PS_OK);
        ps_v1_OpenAnswer v = ready(e, "v", N, ps_sgd(1), 3);
        uint64_t memory = psd_task_memory_bytes(e->t->core);
        PSI_IGNORE(filled(values, N, 1)); /* it is in values */
        assert_applied(fc_push(&e->c, PS_OP_PUSH, &v, values, 1, 0));
        struct ps_pull_meta m = {.elements = N};
        struct wire_frame f = {.op = PS_OP_PULL, .dtype = (uint8_t)wires[k], .id = other.next_id++, .handle = v.handle};
        f.meta = &m;
        f.meta_bytes = sizeof(m);
        struct wire *w = wire_new();
        PSI_IGNORE(wire_frame(w, &f)); /* it fits */
        other.conn->stuck = true;
        shell_send(other.conn, w);
        uint64_t number = e->c.next_number++;
        send_segments(e, PS_OP_PUSH, &v, number, 0, 2); /* in progress, but not to be seen */
        assert_applied(fc_push(&e->c, PS_OP_PUSH, &v, values, 1, 0));
        assert_true(psd_task_memory_bytes(e->t->core) > memory);
        shell_unstick(other.conn);
        struct shell_frame *got = shell_take(other.conn);
        assert_non_null(got);
        struct ps_pull_reply_meta head;
        memcpy(&head, got->meta, sizeof(head));
        assert_true(head.version == 1 && head.in_progress == 0);
        assert_true(got->trailer.version == 1 && got->trailer.in_progress == 0);
        for (size_t i = 0; i < N; i++) {
            float x = 0;
            uint16_t h = 0;
            memcpy(wires[k] == PS_F32 ? (void *)&x : (void *)&h, got->body.data + i * ps_dtype_bytes(wires[k]),
                   ps_dtype_bytes(wires[k]));
            assert_true((wires[k] == PS_F32 ? x : psi_half_value(PS_BF16, h)) == 2);
        }
        shell_frame_free(got);
        assert_int_equal(fc_abandon(&e->c, number).result[0], PS_NUMBER_ABANDONED);
        assert_int_equal(psd_task_memory_bytes(e->t->core), memory);
    }
}

static void much_memory(struct psd_task_config *config)
{
    config->memory_budget_bytes = 1 << 30;
}

/* One that asks and does not read has 64 MiB of copies at most; the rest is refused for now, and nobody else is. */
TEST(test_copies_of_one_connection_are_bounded)
{
    enum { ELEMENTS = 1 << 20, MOST = 16 /* of 4 MiB */, ASKED = 40 };
    struct env *e = env_new(much_memory);
    struct fc *other = fc_new(e->t, 2);
    ps_v1_OpenAnswer v = ready(e, "v", ELEMENTS, ps_sgd(1), 3);
    uint64_t memory = psd_task_memory_bytes(e->t->core);
    struct ps_pull_meta m = {.elements = ELEMENTS};
    struct wire_frame f = {.op = PS_OP_PULL, .dtype = PS_F32, .handle = v.handle, .meta = &m, .meta_bytes = sizeof(m)};
    struct wire *w = wire_new();
    for (int i = 0; i < ASKED; i++) {
        f.id = other->next_id++;
        PSI_IGNORE(wire_frame(w, &f)); /* it fits */
    }
    other->conn->stuck = true;
    shell_send(other->conn, w);
    assert_in_range(psd_task_memory_bytes(e->t->core) - memory, 1, MOST * sizeof(float) * ELEMENTS);
    float *whole = test_alloc(ELEMENTS * sizeof(*whole));
    assert_applied(fc_pull(&e->c, &v, 0, ELEMENTS, whole));
    assert_true(whole[ELEMENTS - 1] == 3);
    shell_unstick(other->conn);
    int ok = 0, refused = 0;
    for (struct shell_frame *got; (got = shell_take(other->conn)) != NULL; shell_frame_free(got)) {
        bool later = got->h.offset == PS_RESOURCE_EXHAUSTED;
        assert_true(later || got->h.offset == PS_OK);
        refused += later;
        ok += !later;
    }
    assert_int_equal(ok, MOST);
    assert_int_equal(refused, ASKED - MOST);
    assert_int_equal(psd_task_memory_bytes(e->t->core), memory);
}

/* Nothing is new before the end; then all of it comes in one frame. */
TEST(test_push_pull)
{
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = ready(e, "v", N, ps_sgd(1), 3);
    PSI_IGNORE(filled(values, N, 1)); /* it is in values */
    uint64_t number = e->c.next_number++;
    send_segments(e, PS_OP_PUSHPULL, &v, number, 0, 2);
    assert_null(shell_take(e->c.conn));
    send_segments(e, PS_OP_PUSHPULL, &v, number, 2, 3);
    struct shell_frame *f = shell_take(e->c.conn);
    assert_non_null(f);
    assert_true((f->h.flags & PS_FLAG_VALUE) != 0 && f->h.offset == 0 && f->body.len == N * 4);
    assert_true(f->trailer.version == 1 && f->trailer.in_progress == 0);
    assert_floats((const float *)(const void *)f->body.data, 0, N, 2);
    shell_frame_free(f);
    assert_applied(fc_take(&e->c, NULL));
}

/* One segment: no copy, but staged all the same; from bfloat16 as well. */
TEST(test_small)
{
    float got[10];
    uint16_t half[10];
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = ready(e, "v", 10, ps_adagrad_from(1, 1), 3);
    assert_applied(fc_push(&e->c, PS_OP_PUSH, &v, filled(values, 10, 0), 1, 0));
    for (size_t i = 0; i < 10; i++) {
        half[i] = 0; /* 0 in bfloat16 */
    }
    ps_v1_OpenAnswer wire = v;
    wire.dtype = PS_BF16;
    assert_applied(fc_push(&e->c, PS_OP_PUSH, &wire, half, 1, 0));
    assert_applied(fc_pull(&e->c, &v, 0, 10, got));
    assert_floats(got, 0, 10, 3);
    half[9] = 0x7f80;
    struct fc_reply r = fc_push(&e->c, PS_OP_PUSH, &wire, half, 1, 0);
    assert_reply(r, PS_INVALID_ARGUMENT, "element 9 ");
    assert_int_equal(r.applied, PS_NOTHING_APPLIED);
    assert_int_equal(peek_at(e->t, "v").version, 2);
}

TEST(test_definition)
{
    ps_v1_CreateItem m;
    ps_v1_CreateAnswer a;
    struct env *e = env_new(NULL);
    for (int64_t delta = -1; delta <= 1; delta++) {
        char name[4] = {'v', (char)('b' + delta), 0};
        fc_create_item(&m, name, PS_F32, (uint64_t)((int64_t)(PS_ATOMIC_BYTES_MAX / 4) + delta), ps_sgd(1));
        m.atomic = true;
        assert_int_equal(fc_create(&e->c, &m, &a), delta <= 0 ? PS_OK : PS_INVALID_ARGUMENT);
    }
    assert_non_null(memmem(a.text.bytes, a.text.size, "atomic value of 4194308 bytes; at most 4194304", 46));
    PSI_IGNORE(ready(e, "w", 4, ps_sgd(1), 1)); /* found again below */
    fc_create_item(&m, "w", PS_F32, 4, ps_sgd(1));
    assert_int_equal(fc_create(&e->c, &m, &a), PS_INVALID_ARGUMENT);
    assert_non_null(memmem(a.text.bytes, a.text.size, "as atomic float32 (4,) optimizer sgd; asked for as float32", 58));
    m.atomic = true;
    assert_int_equal(fc_create(&e->c, &m, &a), PS_OK);
    assert_false(a.created);
    struct wire *list = wire_new();
    assert_applied(fc_list(&e->c, PS_OP_VARS, NULL, NULL, list));
    const uint8_t *p = list->data;
    size_t n = list->len;
    ps_v1_VarAnswer var;
    uint32_t seen = 0;
    while (fc_item(&p, &n, &ps_v1_VarAnswer_msg, &var)) {
        assert_true(var.atomic);
        assert_int_equal(var.bytes, var.initialised ? 16 : 0);
        seen++;
    }
    assert_int_equal(seen, 3);
}

/* CREATE to the owner, LIST to a directory that starts again: it is part of the definition everywhere. */
TEST(test_directory)
{
    ps_v1_CreateItem m;
    ps_v1_CreateAnswer a;
    ps_v1_OpenAnswer v;
    struct cl *cl = cl_new();
    fc_create_item(&m, "t", PS_F32, 4, ps_sgd(1));
    m.task = 1;
    m.atomic = true;
    assert_int_equal(fc_create(&cl->c, &m, &a), PS_OK);
    assert_int_equal(a.task, 1);
    assert_int_equal(fc_open(&cl->at1, "t", &v), PS_OK);
    assert_true(v.atomic);
    for (int restarted = 0; restarted < 2; restarted++) {
        m.atomic = false;
        assert_int_equal(fc_create(&cl->c, &m, &a), PS_INVALID_ARGUMENT);
        assert_non_null(memmem(a.text.bytes, a.text.size, "as atomic float32", 17));
        m.atomic = true;
        assert_int_equal(fc_create(&cl->c, &m, &a), PS_OK);
        assert_false(a.created);
        if (restarted == 0) {
            cl_restart_directory(cl);
            PSI_IGNORE(cl_join(cl, cl->ps1)); /* its end is of no use here */
        }
    }
}
