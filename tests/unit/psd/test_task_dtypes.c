/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Variables of every dtype at their owner, and float32 values that travel as float16 and bfloat16: pushed, pulled, push-pulled,
 * torn and gone on with in the middle of a segment's conversion, refused where they would narrow silently.
 */
#include "task_test.h"

#include "common/half.h"

enum { N = 100001 }; /* an odd number: four segments as float16, the last one of 3,394 bytes */

static float values[N];
static uint16_t halves[N];

/* a float32 variable as its frames see it when they carry another dtype */
static ps_v1_OpenAnswer as_wire(const ps_v1_OpenAnswer *v, ps_dtype wire)
{
    ps_v1_OpenAnswer a = *v;
    a.dtype = (uint32_t)wire;
    return a;
}

static const uint16_t *half_of(ps_dtype wire, float value)
{
    for (size_t i = 0; i < N; i++) {
        halves[i] = psi_half_of(wire, value);
    }
    return halves;
}

TEST(test_every_dtype)
{
    static const struct {
        ps_dtype dtype;
        double start;
        uint8_t started[8], delta[8], sum[8], difference[8]; /* little-endian; difference = start - delta */
    } rows[] = {
        {PS_I8, 127, {127}, {2}, {0x81}, {125}},
        {PS_U8, 255, {255}, {3}, {2}, {252}},
        {PS_F16, 2048, {0x00, 0x68}, {0x00, 0x3c}, {0x00, 0x68}, {0xff, 0x67}}, /* 2049 is a tie: even; 2047 */
        {PS_BF16, 256, {0x80, 0x43}, {0x40, 0x40}, {0x82, 0x43}, {0x7d, 0x43}}, /* 256 + 3 is a tie: 260; 256 - 3 = 253 */
        {PS_I32, 2147483647, {0xff, 0xff, 0xff, 0x7f}, {1}, {0, 0, 0, 0x80}, {0xfe, 0xff, 0xff, 0x7f}},
        {PS_F32, 1, {0, 0, 0x80, 0x3f}, {0, 0, 0x80, 0x3f}, {0, 0, 0, 0x40}, {0}},
        {PS_F64, 1, {0, 0, 0, 0, 0, 0, 0xf0, 0x3f}, {0, 0, 0, 0, 0, 0, 0xf0, 0x3f}, {0, 0, 0, 0, 0, 0, 0, 0x40}, {0}},
        {PS_I64, -1, {255, 255, 255, 255, 255, 255, 255, 255}, {1}, {0}, {254, 255, 255, 255, 255, 255, 255, 255}},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        uint8_t got[3 * 8];
        uint8_t delta[3 * 8];
        size_t bytes = ps_dtype_bytes(rows[i].dtype);
        struct env *e = env_new(NULL);
        ps_v1_OpenAnswer v = fc_ready(&e->c, "v", rows[i].dtype, 3, ps_no_optimizer(), rows[i].start);
        assert_int_equal(v.dtype, rows[i].dtype);
        assert_applied(fc_pull(&e->c, &v, 0, 3, got));
        for (size_t k = 0; k < 3; k++) {
            assert_memory_equal(got + k * bytes, rows[i].started, bytes);
            memcpy(delta + k * bytes, rows[i].delta, bytes);
        }
        struct fc_reply r = fc_push(&e->c, PS_OP_ADD, &v, delta, 1, 0);
        assert_applied(r);
        assert_int_equal(r.result_bytes, 3 * bytes);
        assert_memory_equal(r.result + bytes, rows[i].sum, bytes);
        for (size_t k = 0; k < 3; k++) {
            memcpy(got + k * bytes, rows[i].started, bytes);
        }
        assert_applied(fc_push(&e->c, PS_OP_ASSIGN, &v, got, 1, 0));
        r = fc_push(&e->c, PS_OP_ADD, &v, delta, -1, 0);
        assert_applied(r);
        assert_memory_equal(r.result + 2 * bytes, rows[i].difference, bytes);
        assert_reply(fc_push(&e->c, PS_OP_PUSH, &v, delta, 1, 0), PS_FAILED_PRECONDITION, "no optimizer");
    }
}

/* The same in every element of a variable of several segments, the last one ragged. */
TEST(test_every_dtype_in_segments)
{
    static const struct {
        ps_dtype dtype;
        double start;
        uint8_t delta[8], sum[8], difference[8]; /* difference = sum - delta - delta */
    } rows[] = {
        {PS_I8, 127, {2}, {0x81}, {125}},
        {PS_U8, 255, {3}, {2}, {252}},
        {PS_F16, 2048, {0x00, 0x3c}, {0x00, 0x68}, {0xfe, 0x67}}, /* 2049 is a tie: 2048; 2047; 2046 */
        {PS_BF16, 256, {0x40, 0x40}, {0x82, 0x43}, {0x7d, 0x43}}, /* 259 is a tie: 260; 257 too: 256; 253 */
        {PS_I32, 2147483647, {1}, {0, 0, 0, 0x80}, {0xfe, 0xff, 0xff, 0x7f}},
        {PS_F32, 1, {0, 0, 0x80, 0x3f}, {0, 0, 0, 0x40}, {0}},
        {PS_F64, 1, {0, 0, 0, 0, 0, 0, 0xf0, 0x3f}, {0, 0, 0, 0, 0, 0, 0, 0x40}, {0}},
        {PS_I64, -1, {1}, {0}, {254, 255, 255, 255, 255, 255, 255, 255}},
    };
    enum { BYTES = 3 * 65536 + 24 };
    static uint8_t delta[BYTES];
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        const size_t bytes = ps_dtype_bytes(rows[i].dtype), count = BYTES / bytes;
        struct env *e = env_new(NULL);
        ps_v1_OpenAnswer v = fc_ready(&e->c, "v", rows[i].dtype, count, ps_no_optimizer(), rows[i].start);
        for (size_t k = 0; k < count; k++) {
            memcpy(delta + k * bytes, rows[i].delta, bytes);
        }
        struct fc_reply r = fc_push(&e->c, PS_OP_ADD, &v, delta, 1, 0);
        assert_applied(r);
        assert_true(r.result_bytes == 0 && r.version == 1);
        for (size_t k = 0; k < count; k++) {
            assert_memory_equal((const uint8_t *)peek_at(e->t, "v").value + k * bytes, rows[i].sum, bytes);
        }
        assert_applied(fc_push(&e->c, PS_OP_ADD, &v, delta, -1, 0));
        assert_applied(fc_push(&e->c, PS_OP_ADD, &v, delta, -1, 0));
        for (size_t k = 0; k < count; k++) {
            assert_memory_equal((const uint8_t *)peek_at(e->t, "v").value + k * bytes, rows[i].difference, bytes);
        }
    }
}

TEST(test_definitions)
{
    ps_v1_CreateItem m;
    ps_v1_CreateAnswer a;
    struct env *e = env_new(NULL);
    for (int d = PS_I32; d <= PS_STRING; d++) {
        fc_create_item(&m, "v", (ps_dtype)d, 4, ps_sgd(1));
        assert_int_equal(fc_create(&e->c, &m, &a), PS_INVALID_ARGUMENT);
        assert_non_null(memmem(a.text.bytes, a.text.size, "only float32 and float64", 24));
    }
    fc_create_item(&m, "v", PS_BF16, 4, ps_no_optimizer());
    assert_int_equal(fc_create(&e->c, &m, NULL), PS_OK);
    m.dtype = PS_F16;
    assert_int_equal(fc_create(&e->c, &m, &a), PS_INVALID_ARGUMENT);
    assert_non_null(memmem(a.text.bytes, a.text.size, "bfloat16", 8));
    assert_non_null(memmem(a.text.bytes, a.text.size, "float16", 7));
    ps_v1_OpenAnswer v;
    assert_int_equal(fc_open(&e->c, "v", &v), PS_OK);
    assert_reply(fc_init_var(&e->c, v.handle, ps_constant(1e39), ps_no_optimizer(), 0, false), PS_INVALID_ARGUMENT, "bfloat16");
    assert_false(peek_at(e->t, "v").initialised);
}

TEST(test_push_narrow)
{
    static const ps_dtype wires[] = {PS_F16, PS_BF16};
    for (size_t k = 0; k < ARRAY_COUNT(wires); k++) {
        struct env *e = env_new(NULL);
        ps_v1_OpenAnswer v = fc_ready(&e->c, "v", PS_F32, N, ps_sgd(1), 1);
        ps_v1_OpenAnswer wire = as_wire(&v, wires[k]);
        struct fc_reply r = fc_push(&e->c, PS_OP_PUSH, &wire, half_of(wires[k], 0.1F), 0.5F, 0);
        assert_applied(r);
        assert_int_equal(r.version, 1);
        assert_floats(peek_at(e->t, "v").value, 0, N, 1 - 0.5F * psi_half_value(wires[k], psi_half_of(wires[k], 0.1F)));
        /* each element its own: the values 0, 1, ... as far as they are exact, on Adagrad's slot too */
        ps_v1_OpenAnswer w = fc_ready(&e->c, "w", PS_F32, N, ps_adagrad_from(1, 1), 0);
        ps_v1_OpenAnswer same = fc_ready(&e->c, "same", PS_F32, N, ps_adagrad_from(1, 1), 0);
        for (size_t i = 0; i < N; i++) {
            values[i] = (float)(i % 251);
        }
        psi_half_narrow(wires[k], values, halves, N);
        wire = as_wire(&w, wires[k]);
        assert_applied(fc_push(&e->c, PS_OP_PUSH, &wire, halves, 1, 0));
        assert_applied(fc_push(&e->c, PS_OP_PUSH, &same, values, 1, 0));
        assert_memory_equal(peek_at(e->t, "w").value, peek_at(e->t, "same").value, sizeof(values));
    }
}

static uint64_t send_part(struct env *e, const ps_v1_OpenAnswer *v, uint8_t op, uint64_t number, uint64_t first, size_t bytes,
                          bool last)
{
    struct fc_part part = {.op = op, .dtype = PS_BF16, .number = number, .handle = v->handle, .total = N, .scale = 1};
    part.offset = first;
    part.payload = halves + first;
    part.payload_bytes = bytes;
    part.first = first == 0;
    part.last = last;
    fc_send_part(&e->c, &part);
    return number;
}

/* Offsets count elements: half a frame's bytes more than in float32. */
TEST(test_resume_narrow)
{
    struct fc_hello hello;
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = fc_ready(&e->c, "v", PS_F32, N, ps_sgd(1), 1);
    PSI_IGNORE(half_of(PS_BF16, 1)); /* it is in halves */
    uint64_t number = send_part(e, &v, PS_OP_PUSH, e->c.next_number++, 0, SEGMENT, false);
    assert_floats(peek_at(e->t, "v").value, 0, 32768, 0);
    assert_floats(peek_at(e->t, "v").value, 32768, N, 1);
    fc_cut(&e->c);
    fc_hello_default(&e->c, &hello);
    hello.unresolved[0] = number;
    hello.unresolved_count = 1;
    assert_int_equal(fc_hello(&e->c, &hello), PS_OK);
    assert_int_equal(e->c.numbers[0].state, PS_NUMBER_IN_PROGRESS);
    assert_int_equal(e->c.numbers[0].offset, 32768);
    PSI_IGNORE(send_part(e, &v, PS_OP_PUSH, number, 32768, (N - 32768) * 2, true)); /* its number is known */
    assert_applied(fc_take(&e->c, NULL));
    assert_floats(peek_at(e->t, "v").value, 0, N, 0);
}

TEST(test_nonfinite_narrow)
{
    static const uint16_t bad[] = {0x7f80, 0xff80, 0x7fc0, 0x7f81};
    for (size_t k = 0; k < ARRAY_COUNT(bad); k++) {
        struct env *e = env_new(NULL);
        ps_v1_OpenAnswer v = fc_ready(&e->c, "v", PS_F32, N, ps_sgd(1), 1);
        ps_v1_OpenAnswer wire = as_wire(&v, PS_BF16);
        PSI_IGNORE(half_of(PS_BF16, 1)); /* it is in halves */
        halves[32768 + 30000] = bad[k];
        struct fc_reply r = fc_push(&e->c, PS_OP_PUSH, &wire, halves, 1, 0);
        assert_reply(r, PS_INVALID_ARGUMENT, "element 62768 is NaN or infinite as bfloat16");
        assert_int_equal(r.applied, PS_MAYBE_PARTLY_APPLIED);
        assert_floats(peek_at(e->t, "v").value, 0, 32768, 0);
        assert_floats(peek_at(e->t, "v").value, 32768, N, 1); /* nothing of its segment */
        halves[32768 + 30000] = psi_half_of(PS_BF16, 1);
        halves[5] = bad[k];
        r = fc_push(&e->c, PS_OP_PUSH, &wire, halves, 1, 0);
        assert_reply(r, PS_INVALID_ARGUMENT, "element 5 ");
        assert_int_equal(r.applied, PS_NOTHING_APPLIED);
    }
}

TEST(test_pull_narrow)
{
    static const ps_dtype wires[] = {PS_F16, PS_BF16};
    static uint16_t expected[N];
    static uint16_t got[N];
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = fc_ready(&e->c, "v", PS_F32, N, ps_sgd(1), 1);
    for (size_t i = 0; i < N; i++) {
        values[i] = (float)i * 0.37F - 999.0F;
    }
    assert_applied(fc_push(&e->c, PS_OP_ASSIGN, &v, values, 1, 0));
    for (size_t k = 0; k < ARRAY_COUNT(wires); k++) {
        ps_v1_OpenAnswer wire = as_wire(&v, wires[k]);
        psi_half_narrow(wires[k], values, expected, N);
        memset(got, 0, sizeof(got));
        struct fc_reply r = fc_pull(&e->c, &wire, 0, N, got);
        assert_applied(r);
        assert_int_equal(r.h.dtype, wires[k]);
        assert_memory_equal(got, expected, sizeof(got));
        for (size_t most = 1; most < 300000; most = most * 7 + 1) { /* whatever the kernel takes of it */
            e->c.conn->write_most = most < 4096 ? 4096 + most : most;
            memset(got, 0, sizeof(got));
            assert_applied(fc_pull(&e->c, &wire, 17, N - 17, got));
            assert_memory_equal(got, expected + 17, sizeof(got) - 34);
        }
        e->c.conn->write_most = 0;
        assert_applied(fc_pull(&e->c, &wire, N - 1, 1, got));
        assert_int_equal(got[0], expected[N - 1]);
        assert_reply(fc_pull(&e->c, &wire, N - 1, 2, got), PS_OUT_OF_RANGE, "it has 100001");
    }
    ps_v1_OpenAnswer large = fc_ready(&e->c, "large", PS_F32, PS_FRAME_BODY_MAX / 2 + 1, ps_sgd(1), 1);
    ps_v1_OpenAnswer wire = as_wire(&large, PS_BF16);
    static uint16_t frame[PS_FRAME_BODY_MAX / 2];
    assert_applied(fc_pull(&e->c, &wire, 0, PS_FRAME_BODY_MAX / 2, frame));
    assert_int_equal(frame[PS_FRAME_BODY_MAX / 2 - 1], 0x3f80);
    assert_reply(fc_pull(&e->c, &wire, 0, PS_FRAME_BODY_MAX / 2 + 1, frame), PS_OUT_OF_RANGE, "at most 2097152 a request");
}

/* Several narrow replies in one write share the scratch memory; each keeps its own values. */
TEST(test_many_pulls_at_once)
{
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = fc_ready(&e->c, "v", PS_F32, N, ps_sgd(1), 1);
    for (size_t i = 0; i < N; i++) {
        values[i] = (float)(i % 256);
    }
    assert_applied(fc_push(&e->c, PS_OP_ASSIGN, &v, values, 1, 0));
    struct wire *w = wire_new();
    for (uint32_t i = 0; i < 40; i++) {
        struct ps_pull_meta m = {.elements = i % 3 == 0 ? 40000 : 1 + i};
        struct wire_frame f = {.op = PS_OP_PULL, .dtype = PS_BF16, .id = 1000 + i, .handle = v.handle, .offset = i * 11};
        f.flags = PS_FLAG_CRC;
        f.meta = &m;
        f.meta_bytes = sizeof(m);
        PSI_IGNORE(wire_frame(w, &f)); /* it fits */
    }
    shell_send(e->c.conn, w);
    bool seen[40] = {false};
    for (uint32_t replies = 0; replies < 40; replies++) {
        struct wire *body = wire_new();
        struct fc_reply r = fc_take(&e->c, body);
        assert_applied(r);
        uint32_t i = (uint32_t)r.h.id - 1000;
        assert_true(i < 40 && !seen[i]);
        seen[i] = true;
        for (uint32_t j = 0; j < (i % 3 == 0 ? 40000 : 1 + i); j++) {
            uint16_t got = 0;
            memcpy(&got, body->data + j * 2, 2);
            assert_int_equal(got, psi_half_of(PS_BF16, (float)((i * 11 + j) % 256)));
        }
    }
}

TEST(test_push_pull_narrow)
{
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = fc_ready(&e->c, "v", PS_F32, N, ps_sgd(1), 3);
    PSI_IGNORE(half_of(PS_BF16, 1)); /* it is in halves */
    uint64_t number = send_part(e, &v, PS_OP_PUSHPULL, e->c.next_number++, 0, 2 * SEGMENT, false);
    PSI_IGNORE(send_part(e, &v, PS_OP_PUSHPULL, number, 65536, (N - 65536) * 2, true)); /* its number is known */
    for (uint32_t i = 0; i < 2; i++) {
        struct shell_frame *f = shell_take(e->c.conn);
        assert_non_null(f);
        assert_true((f->h.flags & PS_FLAG_VALUE) != 0 && f->h.dtype == PS_BF16 && f->h.offset == i * 65536);
        assert_int_equal(f->body.len, i == 0 ? 2 * SEGMENT : ((N - 65536) * 2 + 7) / 8 * 8);
        for (size_t at = 0; at < (i == 0 ? 65536 : N - 65536); at++) {
            uint16_t got = 0;
            memcpy(&got, f->body.data + at * 2, 2);
            assert_int_equal(got, 0x4000);
        }
        shell_frame_free(f);
    }
    assert_applied(fc_take(&e->c, NULL));
}

TEST(test_other_combinations)
{
    struct env *e = env_new(NULL);
    static const struct {
        ps_dtype variable, wire;
    } rows[] = {{PS_F64, PS_F32}, {PS_F64, PS_BF16}, {PS_F16, PS_BF16}, {PS_F16, PS_F32},   {PS_I32, PS_I8},
                {PS_F32, PS_I8},  {PS_F32, PS_F64},  {PS_I8, PS_U8},    {PS_F32, PS_STRING}};
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        char name[4] = {'v', (char)('a' + i), 0};
        const ps_optimizer *opt = rows[i].variable == PS_F32 || rows[i].variable == PS_F64 ? ps_sgd(1) : ps_no_optimizer();
        ps_v1_OpenAnswer v = fc_ready(&e->c, name, rows[i].variable, 4, opt, 1);
        ps_v1_OpenAnswer wire = as_wire(&v, rows[i].wire);
        assert_reply(fc_push(&e->c, PS_OP_PUSH, &wire, values, 1, 0), PS_INVALID_ARGUMENT, ps_dtype_name(rows[i].wire));
        assert_reply(fc_push(&e->c, PS_OP_PUSHPULL, &wire, values, 1, 0), PS_INVALID_ARGUMENT, "SHAPE_MISMATCH");
        assert_reply(fc_pull(&e->c, &wire, 0, 4, values), PS_INVALID_ARGUMENT, ps_dtype_name(rows[i].variable));
    }
    /* what must not lose a bit travels in the variable's dtype */
    ps_v1_OpenAnswer v = fc_ready(&e->c, "w", PS_F32, 4, ps_sgd(1), 1);
    ps_v1_OpenAnswer wire = as_wire(&v, PS_BF16);
    PSI_IGNORE(half_of(PS_BF16, 1)); /* it is in halves */
    assert_reply(fc_push(&e->c, PS_OP_ASSIGN, &wire, halves, 1, 0), PS_INVALID_ARGUMENT, "bfloat16");
    assert_reply(fc_push(&e->c, PS_OP_ADD, &wire, halves, 1, 0), PS_INVALID_ARGUMENT, "bfloat16");
    assert_floats(peek_at(e->t, "w").value, 0, 4, 1);
}
