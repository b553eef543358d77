/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What dtypes, strings and atomic variables change in the client core: how gradients and values travel narrow, where a resume
 * goes on, what a deadline says of an atomic push, and blobs from a task that lies.
 */
#include "fake_test.h"
#include "worker/core/client.h"

#include "../../../common/blob.h"
#include "../../../common/half.h"

#include <math.h>
#include <stdlib.h>

#define SPEC "ps=a:1,b:2"
enum {
    FRAME = PS_VALUES_FRAME_BYTES / 2,
    PAIR = PSI_PAIR_FRAME_BYTES / 2,
    SEGMENT = PS_SEGMENT_BYTES / 2
}; /* elements of two bytes */

static struct psi_var *get(struct fake *f, ps_dtype dtype, ps_dtype wire, int64_t elements, bool atomic)
{
    ps_variable_spec spec = {.struct_bytes = sizeof(spec), .name = "w", .dtype = dtype, .wire_dtype = wire, .atomic = atomic};
    spec.shape = PS_SHAPE(elements);
    spec.optimizer = dtype == PS_F32 ? ps_sgd(0.5) : NULL;
    return fake_get_spec(f, 0, &spec, 9, 1);
}

static float *numbers(uint64_t n)
{
    float *p = test_alloc(n * sizeof(float));
    for (uint64_t i = 0; i < n; i++) {
        p[i] = (float)i * 0.37F - 12.5F;
    }
    return p;
}

static void assert_narrow(const uint8_t *got, ps_dtype wire, const float *from, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        uint16_t bits = 0;
        memcpy(&bits, got + i * 2, 2);
        assert_int_equal(bits, psi_half_of(wire, from[i]));
    }
}

static void ok_reply(struct fake *f, uint8_t op, uint64_t number)
{
    struct fake_answer a = {.version = 1, .position = 5};
    fake_reply(f, 0, op, number, true, &a);
}

TEST(test_push)
{
    static const ps_dtype wires[] = {PS_BF16, PS_F16};
    enum { N = FRAME + 1001 };
    float *grad = numbers(N);
    for (size_t k = 0; k < 2; k++) {
        struct fake *f = fake_new(SPEC, "", 0, true);
        struct psi_var *w = get(f, PS_F32, wires[k], N, false);
        struct fake_request *push = fake_begin(f, PSI_REQ_PUSH, w, grad, NULL, 1000);
        struct fake_frame *frame = fake_take(f, 0, PS_OP_PUSH);
        struct ps_push_meta meta;
        memcpy(&meta, frame->meta, sizeof(meta));
        assert_true(meta.total_elements == N && frame->h.dtype == wires[k] && frame->h.offset == 0);
        assert_int_equal(frame->bytes, PS_VALUES_FRAME_BYTES);
        assert_narrow(frame->payload, wires[k], grad, FRAME);
        frame = fake_take(f, 0, PS_OP_PUSH);
        assert_true(frame->h.dtype == wires[k] && frame->h.offset == FRAME && (frame->h.flags & PS_FLAG_LAST) != 0);
        assert_int_equal(frame->bytes, (1001 * 2 + 7) / 8 * 8);
        assert_narrow(frame->payload, wires[k], grad + FRAME, 1001);
        ok_reply(f, PS_OP_PUSH, 1);
        assert_int_equal(push->req.status, PS_OK);
        /* values that must not change travel as they are */
        push = fake_begin(f, PSI_REQ_ASSIGN, w, grad, NULL, 1000);
        frame = fake_take(f, 0, PS_OP_ASSIGN);
        assert_true(frame->h.dtype == PS_F32 && frame->bytes == PS_VALUES_FRAME_BYTES);
        assert_memory_equal(frame->payload, grad, PS_VALUES_FRAME_BYTES);
        assert_int_equal(fake_take(f, 0, PS_OP_ASSIGN)->h.offset, PS_VALUES_FRAME_BYTES / 4);
        while (fake_next(f, 0) != NULL) {
        }
        ok_reply(f, PS_OP_ASSIGN, 2);
        assert_int_equal(push->req.status, PS_OK);
    }
}

/* The offset counts elements: segments of 32,768 of them. */
TEST(test_resume)
{
    enum { N = 3 * SEGMENT + 5 };
    float *grad = numbers(N);
    for (uint64_t segments = 0; segments < 4; segments++) {
        struct fake *f = fake_new(SPEC, "", 0, true);
        struct psi_var *w = get(f, PS_F32, PS_BF16, N, false);
        struct fake_request *push = fake_begin(f, PSI_REQ_PUSH, w, grad, NULL, 100000);
        fake_cut(f, 0);
        const struct fake_number states[] = {{1, PS_NUMBER_IN_PROGRESS, segments * SEGMENT, 0, 0}, {0}};
        fake_hello(f, 0, 100, 200, states, NULL);
        struct fake_frame *frame = fake_take(f, 0, PS_OP_PUSH);
        assert_int_equal(frame->h.offset, segments * SEGMENT);
        assert_int_equal(frame->bytes, ((N - segments * SEGMENT) * 2 + 7) / 8 * 8);
        assert_narrow(frame->payload, PS_BF16, grad + segments * SEGMENT, N - segments * SEGMENT);
        ok_reply(f, PS_OP_PUSH, 1);
        assert_int_equal(push->req.status, PS_OK);
    }
    /* half of that is a segment of float32, and no place where this one can stand */
    struct fake f;
    struct fake_request push;
    fake_init(&f, SPEC, "", 0, true);
    struct psi_var *w = get(&f, PS_F32, PS_BF16, N, false);
    fake_start(&f, &push, PSI_REQ_PUSH, w, grad, NULL, 100000);
    fake_cut(&f, 0);
    const struct fake_number states[] = {{1, PS_NUMBER_IN_PROGRESS, SEGMENT / 2, 0, 0}, {0}};
    uint32_t closes = f.task[0].closes;
    fake_hello(&f, 0, 100, 200, states, NULL);
    assert_int_equal(f.task[0].closes, closes + 1);
    fake_fini(&f);
}

TEST(test_pull)
{
    static const uint64_t sizes[] = {1, SEGMENT, SEGMENT + 1, FRAME, FRAME + 3};
    for (size_t k = 0; k < 5; k++) {
        uint64_t n = sizes[k];
        struct fake *f = fake_new(SPEC, "", 0, true);
        struct psi_var *w = get(f, PS_F32, PS_BF16, (int64_t)n, false);
        uint16_t *half = test_alloc((n + 4) * 2);
        float *dst = test_alloc((n + 1) * sizeof(float));
        for (uint64_t i = 0; i < n; i++) {
            half[i] = (uint16_t)(0x3f00 + i % 512);
        }
        dst[n] = 77;
        struct fake_request *pull = fake_begin(f, PSI_REQ_PULL, w, NULL, dst, 1000);
        struct fake_frame ask[2];
        uint32_t frames = n > FRAME ? 2 : 1;
        for (uint32_t i = 0; i < frames; i++) {
            struct ps_pull_meta m;
            ask[i] = *fake_take(f, 0, PS_OP_PULL);
            memcpy(&m, ask[i].meta, sizeof(m));
            assert_true(ask[i].h.dtype == PS_BF16 && ask[i].h.offset == i * FRAME);
            assert_int_equal(m.elements, i == 0 && n > FRAME ? FRAME : n - i * FRAME);
        }
        for (uint32_t i = 0; i < frames; i++) {
            uint64_t part = i + 1 < frames ? FRAME : n - i * FRAME;
            fake_values(f, 0, &ask[i], false, 0, half + i * FRAME, (uint32_t)part * 2, 12, 1);
        }
        assert_int_equal(pull->req.status, PS_OK);
        /* something is in progress, which may come as float32: only one segment of that is exact */
        assert_int_equal(pull->req.exact, n <= SEGMENT / 2);
        for (uint64_t i = 0; i < n; i++) {
            assert_true(dst[i] == psi_half_value(PS_BF16, half[i]));
        }
        assert_true(dst[n] == 77);
    }
}

/* Values in another dtype, or of another length, are no answer. */
TEST(test_pull_bad)
{
    for (uint32_t k = 0; k < 3; k++) {
        static float values[100];
        struct fake *f = fake_new(SPEC, "", 0, true);
        struct psi_var *w = get(f, PS_F32, PS_BF16, 100, false);
        float dst[100];
        struct fake_request *pull = fake_begin(f, PSI_REQ_PULL, w, NULL, dst, 10000);
        struct fake_frame ask = *fake_take(f, 0, PS_OP_PULL);
        ask.h.dtype = k == 0 ? PS_F32 : k == 1 ? PS_F16 : PS_BF16;
        uint32_t closes = f->task[0].closes;
        fake_values(f, 0, &ask, false, 0, values, k == 0 ? 400 : k == 1 ? 200 : 192, 12, 0);
        assert_int_equal(f->task[0].closes, closes + 1);
        assert_int_equal(pull->dones, 0);
    }
}

TEST(test_push_pull)
{
    enum { N = PAIR + 10 };
    float *grad = numbers(N);
    float *dst = test_alloc(N * sizeof(float));
    uint16_t *half = test_alloc(N * 2);
    struct fake *f = fake_new(SPEC, "", 0, true);
    struct psi_var *w = get(f, PS_F32, PS_BF16, N, false);
    for (uint64_t i = 0; i < N; i++) {
        half[i] = (uint16_t)(0x4000 + i % 300);
    }
    struct fake_request *both = fake_begin(f, PSI_REQ_PUSH_PULL, w, grad, dst, 1000);
    struct fake_frame one = *fake_take(f, 0, PS_OP_PUSHPULL);
    struct fake_frame two = *fake_take(f, 0, PS_OP_PUSHPULL);
    assert_int_equal(two.h.offset, PAIR);
    fake_values(f, 0, &one, true, 0, half, PAIR * 2, 4, 1);
    fake_values(f, 0, &two, true, PAIR, half + PAIR, 20, 5, 0);
    ok_reply(f, PS_OP_PUSHPULL, 1);
    assert_int_equal(both->req.status, PS_OK);
    for (uint64_t i = 0; i < N; i++) {
        assert_true(dst[i] == psi_half_value(PS_BF16, half[i]));
    }
}

TEST(test_wires_that_are_refused)
{
    struct fake *f = fake_new(SPEC, "", 0, true);
    for (int dtype = PS_F32; dtype <= PS_STRING; dtype++) {
        for (int wire = PS_F32; wire <= PS_STRING + 1; wire++) {
            ps_variable_spec spec = {.struct_bytes = sizeof(spec), .name = "w", .dtype = (ps_dtype)dtype, .shape = PS_SHAPE(4)};
            struct psi_var *var = NULL;
            struct psi_err err = {0};
            spec.wire_dtype = (ps_dtype)wire;
            bool good = wire == dtype || (dtype == PS_F32 && (wire == PS_F16 || wire == PS_BF16));
            assert_int_equal(psi_client_variable(f->c, &spec, false, &var, &err), good ? PS_OK : PS_INVALID_ARGUMENT);
            assert_true(good || strstr(err.text, "allowed are bfloat16 and float16") != NULL);
        }
    }
}

/* ---- atomic ---- */

/* Only one frame is exact: an atomic value is asked for in one, however large it may be. */
TEST(test_atomic_in_one_frame)
{
    enum { N = PS_ATOMIC_BYTES_MAX / 4 };
    struct fake *f = fake_new(SPEC, "", 0, true);
    struct psi_var *w = get(f, PS_F32, PS_F32, N, true);
    float *dst = test_alloc(N * sizeof(float));
    fake_begin(f, PSI_REQ_PULL, w, NULL, dst, 1000);
    struct fake_frame *frame = fake_take(f, 0, PS_OP_PULL);
    struct ps_pull_meta m;
    memcpy(&m, frame->meta, sizeof(m));
    assert_true(frame->h.offset == 0 && m.elements == N && N * sizeof(float) > PS_VALUES_FRAME_BYTES);
    assert_null(fake_next(f, 0));
    fake_wait(f, 1001);
    assert_int_equal(psi_client_pending(f->c), 0);
}

/* Not all of it was sent: its last byte never comes, nothing is in. All was sent: nobody knows. */
TEST(test_atomic_deadlines)
{
    enum { N = 5 * PS_SEGMENT_BYTES / 4 };
    float *grad = numbers(N);
    for (uint32_t k = 0; k < 4; k++) {
        bool atomic = k % 2 == 0;
        struct fake *f = fake_new(SPEC, "", 0, false);
        struct psi_var *w = get(f, PS_F32, PS_DTYPE_NONE, N, atomic);
        f->task[0].stopped = k < 2;
        f->task[0].take = k < 2 ? PS_SEGMENT_BYTES * 2 + 100 : UINT64_MAX;
        struct fake_request *push = fake_begin(f, PSI_REQ_PUSH, w, grad, NULL, 500);
        fake_wait(f, 600);
        assert_done(push, PS_DEADLINE_EXCEEDED);
        assert_int_equal(push->req.applied, k >= 2 ? PS_OUTCOME_UNKNOWN : atomic ? PS_NOTHING_APPLIED : PS_MAYBE_PARTLY_APPLIED);
    }
}

TEST(test_atomic_abandoned)
{
    float *grad = numbers(SEGMENT * 2);
    for (uint32_t k = 0; k < 6; k++) {
        bool atomic = k == 0 || k == 2;
        bool assign = k >= 4; /* staged, whatever the variable is */
        struct fake *f = fake_new(SPEC, "", 0, false);
        struct psi_var *w = get(f, PS_F32, PS_DTYPE_NONE, SEGMENT * 2, atomic);
        struct fake_request *push = fake_begin(f, assign ? PSI_REQ_ASSIGN : PSI_REQ_PUSH, w, grad, NULL, 100000);
        fake_cut(f, 0);
        f->told_applied = k < 2 || k == 4 ? PS_NOTHING_APPLIED : PS_OUTCOME_UNKNOWN;
        const struct fake_number states[] = {{1, PS_NUMBER_ABANDONED, 0, 0, 0}, {0}};
        fake_hello(f, 0, 100, 200, states, NULL);
        assert_int_equal(push->req.status, PS_ABORTED);
        assert_int_equal(push->req.applied, k == 0 || k == 4 ? PS_NOTHING_APPLIED : PS_OUTCOME_UNKNOWN);
    }
}

/* It is part of the definition. */
TEST(test_atomic_differs)
{
    for (uint32_t k = 0; k < 2; k++) {
        struct psi_err err = {0};
        struct psi_var *var = NULL;
        struct fake *f = fake_new(SPEC, "", 0, false);
        ps_variable_spec spec = {.struct_bytes = sizeof(spec), .name = "w", .dtype = PS_F32, .shape = PS_SHAPE(4)};
        spec.atomic = k == 0;
        assert_int_equal(psi_client_variable(f->c, &spec, false, &var, &err), PS_OK);
        struct fake_request *get_it = fake_begin(f, PSI_REQ_GET, var, NULL, NULL, 5000);
        fake_hello(f, 0, 100, 200, NULL, NULL);
        struct fake_frame *create = fake_take(f, 0, PS_OP_CREATE);
        const uint8_t *p = create->payload;
        size_t n = create->bytes;
        bool end = false;
        ps_v1_CreateItem item;
        assert_int_equal(psi_list_next(&p, &n, &ps_v1_CreateItem_msg, &item, &end, NULL), PS_OK);
        assert_int_equal(item.atomic, k == 0);
        ps_v1_CreateAnswer a = ps_v1_CreateAnswer_init_zero;
        a.index = 1;
        PSI_BYTES_SET(a.job, "ps");
        fake_reply_item(f, 0, PS_OP_CREATE, create->h.id, &ps_v1_CreateAnswer_msg, &a);
        struct psi_var other = *var;
        other.atomic = k != 0;
        fake_open(f, 0, 9, 1, 1, &other);
        assert_int_equal(get_it->req.status, PS_INVALID_ARGUMENT);
        assert_non_null(strstr(get_it->err.text, "atomic float32"));
    }
}

/* ---- strings ---- */

static uint32_t make_blob(uint8_t *to, const int64_t offsets[4], const char *text, size_t bytes)
{
    memcpy(to, offsets, 32);
    memcpy(to + 32, text, bytes);
    return (uint32_t)(32 + bytes);
}

TEST(test_strings)
{
    _Alignas(8) uint8_t blob[64] = {0};
    struct fake *f = fake_new(SPEC, "", 0, true);
    struct psi_var *w = get(f, PS_STRING, PS_DTYPE_NONE, 3, false);
    uint32_t bytes = make_blob(blob, (const int64_t[]){0, 3, 3, 9}, "onethree.", 9);
    struct fake_request *r = fake_begin(f, PSI_REQ_ASSIGN, w, blob, NULL, 1000);
    struct fake_frame *frame = fake_take(f, 0, PS_OP_ASSIGN);
    struct ps_push_meta meta;
    memcpy(&meta, frame->meta, sizeof(meta));
    assert_true(meta.total_elements == 41 && frame->h.dtype == PS_STRING && (frame->h.flags & PS_FLAG_LAST) != 0);
    assert_int_equal(frame->bytes, 48);
    assert_memory_equal(frame->payload, blob, 41);
    ok_reply(f, PS_OP_ASSIGN, 1);
    assert_int_equal(r->req.status, PS_OK);
    uint8_t *dst = test_alloc((size_t)psi_blob_bytes_max(3));
    r = fake_begin(f, PSI_REQ_PULL, w, NULL, dst, 1000);
    struct fake_frame ask = *fake_take(f, 0, PS_OP_PULL);
    struct ps_pull_meta m;
    memcpy(&m, ask.meta, sizeof(m));
    assert_true(m.elements == 0 && ask.h.offset == 0 && ask.h.dtype == PS_STRING);
    fake_values(f, 0, &ask, false, 0, blob, bytes, 7, 0);
    assert_int_equal(r->req.status, PS_OK);
    assert_true(r->req.exact && r->req.version == 7);
    assert_memory_equal(dst, blob, bytes);
    /* a blob of the program's own that is broken is not sent */
    struct psi_err err = {0};
    make_blob(blob, (const int64_t[]){0, 5, 3, 9}, "onethree.", 9);
    r->req.kind = PSI_REQ_ASSIGN;
    r->req.src = blob;
    r->req.bytes = 41;
    assert_int_equal(psi_client_start(f->c, &r->req, &err), PS_INVALID_ARGUMENT);
    r->req.kind = PSI_REQ_PUSH;
    assert_int_equal(psi_client_start(f->c, &r->req, &err), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "holds strings"));
    r->req.kind = PSI_REQ_PULL;
    r->req.dst = dst;
    r->req.bytes = psi_blob_bytes_max(3) - 1;
    assert_int_equal(psi_client_start(f->c, &r->req, &err), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "its strings may need"));
}

TEST(test_strings_of_a_liar)
{
    static const int64_t rows[][4] = {{1, 3, 3, 9},  {0, 3, 2, 9},         {0, 3, 3, 8 + 16},        {0, 3, 3, 0},
                                      {0, -1, 3, 9}, {0, 3, 3, INT64_MIN}, {0, 3, INT64_MAX, 9},     {0, 3, 3, 1 << 21},
                                      {0, 3, 3, -9}, {0, 10, 3, 9},        {0, 3, 3, INT64_MAX - 31}};
    uint8_t *dst = test_alloc((size_t)psi_blob_bytes_max(3));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        _Alignas(8) uint8_t blob[64] = {0};
        struct fake *f = fake_new(SPEC, "", 0, true);
        struct psi_var *w = get(f, PS_STRING, PS_DTYPE_NONE, 3, false);
        make_blob(blob, rows[i], "onethree.", 9);
        struct fake_request *r = fake_begin(f, PSI_REQ_PULL, w, NULL, dst, 10000);
        struct fake_frame ask = *fake_take(f, 0, PS_OP_PULL);
        uint32_t closes = f->task[0].closes;
        fake_values(f, 0, &ask, false, 0, blob, 41, 7, 0);
        assert_int_equal(f->task[0].closes, closes + 1);
        assert_int_equal(r->dones, 0);
        /* asked again, and answered truly */
        fake_hello(f, 0, 100, 200, NULL, NULL);
        ask = *fake_take(f, 0, PS_OP_PULL);
        make_blob(blob, (const int64_t[]){0, 3, 3, 9}, "onethree.", 9);
        fake_values(f, 0, &ask, false, 0, blob, 41, 8, 0);
        assert_int_equal(r->req.status, PS_OK);
        assert_memory_equal(dst, blob, 41);
    }
    /* a frame that is shorter than the offsets, or longer than any value */
    static uint8_t huge[PS_STRING_BYTES_MAX + 64];
    for (uint32_t k = 0; k < 2; k++) {
        struct fake *f = fake_new(SPEC, "", 0, true);
        struct psi_var *w = get(f, PS_STRING, PS_DTYPE_NONE, 3, false);
        struct fake_request *r = fake_begin(f, PSI_REQ_PULL, w, NULL, dst, 10000);
        struct fake_frame ask = *fake_take(f, 0, PS_OP_PULL);
        uint32_t closes = f->task[0].closes;
        fake_values(f, 0, &ask, false, 0, huge, k == 0 ? 24 : (uint32_t)PS_STRING_BYTES_MAX + 40, 7, 0);
        assert_int_equal(f->task[0].closes, closes + 1);
        assert_int_equal(r->dones, 0);
    }
}
