/* SPDX-License-Identifier: Apache-2.0 */
/* worker/core/window.c and push.c: numbers, the window, refusals, deadlines, what HELLO's answer does to unresolved numbers. */
#include "fake_test.h"

#include "worker/core/client.h"
#include "worker/core/rows.h"

#include <stdlib.h>

#define SPEC "ps=a:1,b:2"
enum { SMALL = 16, FRAME = PS_VALUES_FRAME_BYTES / 4, SEGMENT = PS_SEGMENT_BYTES / 4 };

static float *numbers_from(uint64_t n, float first)
{
    float *p = test_alloc(n * sizeof(float));
    for (uint64_t i = 0; i < n; i++) {
        p[i] = first + (float)i;
    }
    return p;
}

static void ok_reply(struct fake *f, uint8_t op, uint64_t number, uint64_t version)
{
    struct fake_answer a = {.version = version, .position = 5};
    fake_reply(f, 0, op, number, true, &a);
}

TEST(test_push)
{
    struct fake *f = fake_new(SPEC, "", 0, true);
    struct psi_var *w = fake_get(f, 0, "w", SMALL, 9, 1);
    float *grad = numbers_from(SMALL, 1);
    struct fake_request *push = fake_begin(f, PSI_REQ_PUSH, w, grad, NULL, 1000);
    struct fake_frame *frame = fake_take(f, 0, PS_OP_PUSH);
    assert_int_equal(frame->h.flags, PS_FLAG_SEQ | PS_FLAG_FIRST | PS_FLAG_LAST | PS_FLAG_CRC);
    assert_true(frame->h.id == 1 && frame->h.handle == 9 && frame->h.offset == 0 && frame->h.dtype == PS_F32);
    struct ps_push_meta meta;
    memcpy(&meta, frame->meta, sizeof(meta));
    assert_true(meta.total_elements == SMALL && meta.scale == 1.0f && meta.assign_flags == 0 && meta.version == 0);
    assert_memory_equal(frame->payload, grad, SMALL * 4);
    assert_int_equal(push->dones, 0);
    ok_reply(f, PS_OP_PUSH, 1, 3);
    assert_done(push, PS_OK);
    assert_true(push->req.version == 3);
}

TEST(test_sizes_are_checked)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *w = fake_get(f, 0, "w", SMALL, 9, 1);
    float *grad = numbers_from(SMALL, 1);
    struct psi_err err = {0};
    struct fake_request *r = fake_begin(f, PSI_REQ_PUSH, w, grad, NULL, 1000);
    struct fake_request again = *r;
    again.req.bytes = SMALL * 4 - 4;
    assert_int_equal(psi_client_start(f->c, &again.req, &err), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "60 bytes"));
    assert_non_null(strstr(err.text, "'w'"));
    again.req.bytes = SMALL * 4;
    again.req.scale = 0.0f;
    assert_int_equal(psi_client_start(f->c, &again.req, &err), PS_INVALID_ARGUMENT);
    again.req.kind = PSI_REQ_PULL;
    again.req.dst = NULL;
    assert_int_equal(psi_client_start(f->c, &again.req, &err), PS_INVALID_ARGUMENT);
    ps_variable_spec spec = {.struct_bytes = sizeof(spec), .name = "new", .dtype = PS_F32};
    assert_int_equal(psi_client_variable(f->c, &spec, false, &again.req.var, &err), PS_OK);
    again.req.dst = grad;
    assert_int_equal(psi_client_start(f->c, &again.req, &err), PS_FAILED_PRECONDITION);
    ok_reply(f, PS_OP_PUSH, 1, 1);
}

/* 256 unresolved numbers are the most; the 257th goes when the first is resolved, not when a later one is. */
TEST(test_window_limit)
{
    enum { MANY = PS_WINDOW + 4 };
    static struct fake_request push[MANY];
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *w = fake_get(f, 0, "w", SMALL, 9, 1);
    float *grad = numbers_from(SMALL, 1);
    for (uint32_t i = 0; i < MANY; i++) {
        fake_start(f, &push[i], PSI_REQ_PUSH, w, grad, NULL, 100000);
    }
    for (uint64_t n = 1; n <= PS_WINDOW; n++) {
        assert_true(fake_take(f, 0, PS_OP_PUSH)->h.id == n);
    }
    assert_null(fake_next(f, 0));
    ok_reply(f, PS_OP_PUSH, 2, 1);
    assert_null(fake_next(f, 0));
    ok_reply(f, PS_OP_PUSH, 1, 2);
    assert_true(fake_take(f, 0, PS_OP_PUSH)->h.id == PS_WINDOW + 1);
    assert_true(fake_take(f, 0, PS_OP_PUSH)->h.id == PS_WINDOW + 2);
    assert_null(fake_next(f, 0));
    for (uint64_t n = 3; n <= MANY; n++) {
        ok_reply(f, PS_OP_PUSH, n, n);
    }
    for (uint32_t i = 0; i < MANY; i++) {
        assert_done(&push[i], PS_OK);
    }
}

/* At most 8 operations of several frames; a small one is not held up by them. */
TEST(test_multi_limit)
{
    enum { MANY = PS_MULTIFRAME_PUSHES_MAX + 1 };
    static struct fake_request push[MANY];
    struct psi_var *var[MANY];
    struct fake *f = fake_new(SPEC, "", 0, false);
    float *grad = numbers_from(FRAME + 8, 1);
    for (uint32_t i = 0; i < MANY; i++) {
        char name[8] = {'v', (char)('a' + i), 0};
        var[i] = fake_get(f, 0, name, FRAME + 8, i + 1, i + 1);
    }
    struct psi_var *w = fake_get(f, 0, "w", SMALL, 99, 99);
    for (uint32_t i = 0; i < MANY; i++) {
        fake_start(f, &push[i], PSI_REQ_PUSH, var[i], grad, NULL, 100000);
    }
    fake_begin(f, PSI_REQ_PUSH, w, grad, NULL, 100000);
    bool seen_small = false;
    uint32_t firsts = 0;
    struct fake_frame *frame = NULL;
    while ((frame = fake_next(f, 0)) != NULL) {
        seen_small = seen_small || frame->h.handle == 99;
        assert_int_not_equal(frame->h.handle, MANY);
        firsts += (frame->h.flags & PS_FLAG_FIRST) != 0 ? 1 : 0;
    }
    assert_true(seen_small);
    assert_int_equal(firsts, PS_MULTIFRAME_PUSHES_MAX + 1);
    ok_reply(f, PS_OP_PUSH, 1, 1);
    frame = fake_take(f, 0, PS_OP_PUSH);
    assert_int_equal(frame->h.handle, MANY);
    assert_true(frame->h.id == MANY + 1);
    assert_non_null(fake_next(f, 0));
    for (uint64_t n = 2; n <= MANY + 1; n++) {
        ok_reply(f, PS_OP_PUSH, n, 1);
    }
    assert_int_equal(psi_client_pending(f->c), 0);
}

/* Frames of different variables interleave; the second push of one variable waits for the end of the first. */
TEST(test_call_order)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *a = fake_get(f, 0, "a", 2 * FRAME + 8, 1, 1);
    struct psi_var *b = fake_get(f, 0, "b", FRAME + 8, 2, 2);
    float *grad = numbers_from(2 * FRAME + 8, 1);
    float *dst = numbers_from(2 * FRAME + 8, 0);
    f->task[0].take = 0; /* all are queued before anything goes out */
    fake_begin(f, PSI_REQ_PUSH, a, grad, NULL, 100000);
    fake_begin(f, PSI_REQ_PULL, a, NULL, dst, 100000);
    fake_begin(f, PSI_REQ_ASSIGN, a, grad, NULL, 100000);
    fake_begin(f, PSI_REQ_PUSH, b, grad, NULL, 100000);
    fake_flow(f, 0);
    static const struct {
        uint8_t op;
        uint32_t handle;
        uint64_t offset;
        uint16_t flags;
    } WANT[] = {
        {PS_OP_PUSH, 1, 0, PS_FLAG_SEQ | PS_FLAG_FIRST},
        {PS_OP_PUSH, 2, 0, PS_FLAG_SEQ | PS_FLAG_FIRST},
        {PS_OP_PUSH, 1, FRAME, PS_FLAG_SEQ},
        {PS_OP_PUSH, 2, FRAME, PS_FLAG_SEQ | PS_FLAG_LAST},
        {PS_OP_PUSH, 1, 2 * FRAME, PS_FLAG_SEQ | PS_FLAG_LAST},
        {PS_OP_PULL, 1, 0, 0},
        {PS_OP_PULL, 1, FRAME, 0},
        {PS_OP_PULL, 1, 2 * FRAME, 0},
        {PS_OP_ASSIGN, 1, 0, PS_FLAG_SEQ | PS_FLAG_FIRST},
        {PS_OP_ASSIGN, 1, FRAME, PS_FLAG_SEQ},
        {PS_OP_ASSIGN, 1, 2 * FRAME, PS_FLAG_SEQ | PS_FLAG_LAST},
    };
    for (size_t i = 0; i < sizeof(WANT) / sizeof(WANT[0]); i++) {
        struct fake_frame *frame = fake_take(f, 0, WANT[i].op);
        assert_int_equal(frame->h.handle, WANT[i].handle);
        assert_true(frame->h.offset == WANT[i].offset);
        assert_int_equal(frame->h.flags, WANT[i].flags);
    }
    assert_null(fake_next(f, 0));
    fake_wait(f, 100001);
    assert_int_equal(psi_client_pending(f->c), 0);
}

/* What is asked for while a large push goes out has left after one of its frames: its answer comes while the rest is sent. */
TEST(test_asked_for_beside_a_push)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *large = fake_get(f, 0, "large", 4 * FRAME, 1, 1);
    struct psi_var *other = fake_get(f, 0, "other", SMALL, 2, 2);
    float *grad = numbers_from(4 * FRAME, 1);
    float *dst = numbers_from(SMALL, 0);
    f->task[0].take = PS_SEGMENT_BYTES * 2 + 100;
    fake_begin(f, PSI_REQ_PUSH, large, grad, NULL, 100000);
    fake_begin(f, PSI_REQ_PULL, other, NULL, dst, 100000);
    fake_flow(f, 0);
    assert_true(fake_take(f, 0, PS_OP_PUSH)->bytes <= 1 << 20);
    assert_int_equal(fake_take(f, 0, PS_OP_PULL)->h.handle, 2);
    assert_int_equal(fake_take(f, 0, PS_OP_PUSH)->h.offset, FRAME);
    fake_wait(f, 100001);
    assert_int_equal(psi_client_pending(f->c), 0);
}

/* A read that is called behind many pushes leaves behind 1 MiB of them, not all; the rest follows in the order of the calls. */
TEST(test_asked_for_behind_pushes)
{
    enum { PUSHES = 12, SIZE = FRAME / 4 };
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct fake_request *push[PUSHES];
    struct psi_var *w[PUSHES];
    struct psi_var *other = fake_get(f, 0, "other", SMALL, 99, 99);
    float *grad = numbers_from(SIZE, 1);
    float *dst = numbers_from(SMALL, 0);
    for (uint32_t i = 0; i < PUSHES; i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "w%u", i);
        w[i] = fake_get(f, 0, name, SIZE, i + 1, i + 1);
    }
    f->task[0].take = 0; /* all are called before anything goes out */
    for (uint32_t i = 0; i < PUSHES; i++) {
        push[i] = fake_begin(f, PSI_REQ_PUSH, w[i], grad, NULL, 100000);
    }
    fake_begin(f, PSI_REQ_PULL, other, NULL, dst, 100000);
    fake_flow(f, 0);
    for (uint32_t i = 0; i < PUSHES; i++) {
        struct fake_frame *frame = fake_take(f, 0, PS_OP_PUSH);
        assert_true(frame->h.id == i + 1 && frame->h.handle == i + 1);
        if (i == 3) {
            assert_int_equal(fake_take(f, 0, PS_OP_PULL)->h.handle, 99);
        }
    }
    for (uint32_t i = 0; i < PUSHES; i++) {
        ok_reply(f, PS_OP_PUSH, i + 1, 1);
        assert_done(push[i], PS_OK);
    }
    fake_wait(f, 100001);
    assert_int_equal(psi_client_pending(f->c), 0);
}

/* As much as may be asked for of large values is on its way: a small read is asked for all the same, many as well. */
TEST(test_small_reads_beside_large_ones)
{
    enum { LARGE = 5, CHUNKS = 32, READS = 30 };
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *w[LARGE + READS];
    float *dst = numbers_from(9 * FRAME, 0);
    static float few[READS][SMALL];
    for (uint32_t i = 0; i < LARGE + READS; i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "w%u", i);
        w[i] = fake_get(f, 0, name, i < LARGE ? 9 * FRAME : SMALL, i + 1, i + 1);
    }
    for (uint32_t i = 0; i < LARGE; i++) {
        fake_begin(f, PSI_REQ_PULL, w[i], NULL, dst, 100000);
    }
    for (uint32_t i = 0; i < CHUNKS; i++) {
        assert_int_equal(fake_take(f, 0, PS_OP_PULL)->h.handle, i / 8 + 1);
    }
    assert_null(fake_next(f, 0));
    for (uint32_t i = 0; i < READS; i++) {
        fake_begin(f, PSI_REQ_PULL, w[LARGE + i], NULL, few[i], 100000);
        assert_int_equal(fake_take(f, 0, PS_OP_PULL)->h.handle, LARGE + i + 1);
    }
    assert_null(fake_next(f, 0));
    fake_wait(f, 100001);
    assert_int_equal(psi_client_pending(f->c), 0);
}

/* Of large pushes two are sent at a time, the first to its end before the third begins; a small one goes between them. */
TEST(test_two_large_pushes_at_a_time)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *a = fake_get(f, 0, "a", 3 * FRAME, 1, 1);
    struct psi_var *b = fake_get(f, 0, "b", 3 * FRAME, 2, 2);
    struct psi_var *c = fake_get(f, 0, "c", 3 * FRAME, 3, 3);
    struct psi_var *d = fake_get(f, 0, "d", SMALL, 4, 4);
    float *grad = numbers_from(3 * FRAME, 1);
    f->task[0].take = 0;
    fake_begin(f, PSI_REQ_PUSH, a, grad, NULL, 100000);
    fake_begin(f, PSI_REQ_PUSH, b, grad, NULL, 100000);
    fake_begin(f, PSI_REQ_PUSH, c, grad, NULL, 100000);
    fake_begin(f, PSI_REQ_PUSH, d, grad, NULL, 100000);
    fake_flow(f, 0);
    static const uint32_t WANT[] = {1, 2, 4, 1, 2, 1, 2, 3, 3, 3};
    for (size_t i = 0; i < sizeof(WANT) / sizeof(WANT[0]); i++) {
        assert_int_equal(fake_take(f, 0, PS_OP_PUSH)->h.handle, WANT[i]);
    }
    assert_null(fake_next(f, 0));
    fake_wait(f, 100001);
    assert_int_equal(psi_client_pending(f->c), 0);
}

TEST(test_refused_for_load)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *w = fake_get(f, 0, "w", SMALL, 9, 1);
    float *grad = numbers_from(SMALL, 1);
    struct fake_request *push = fake_begin(f, PSI_REQ_PUSH, w, grad, NULL, 1000);
    assert_true(fake_take(f, 0, PS_OP_PUSH)->h.id == 1);
    struct fake_answer a = {.status = PS_RESOURCE_EXHAUSTED, .retry_after_ms = 300, .text = "TOO_BUSY"};
    fake_reply(f, 0, PS_OP_PUSH, 1, true, &a);
    fake_wait(f, 299);
    assert_null(fake_next(f, 0));
    fake_wait(f, 150);
    assert_true(fake_take(f, 0, PS_OP_PUSH)->h.id == 2); /* a new number */
    a.retry_after_ms = 5000;
    fake_reply(f, 0, PS_OP_PUSH, 2, true, &a);
    fake_wait(f, 600);
    assert_done(push, PS_RESOURCE_EXHAUSTED);
    assert_int_equal(push->req.applied, PS_NOTHING_APPLIED);
    assert_non_null(strstr(push->err.text, "TOO_BUSY"));
    assert_non_null(strstr(push->err.text, "/job:ps/task:0 (a:1)"));
}

TEST(test_refused_for_good)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *w = fake_get(f, 0, "w", SMALL, 9, 1);
    float *grad = numbers_from(SMALL, 1);
    struct fake_request *push = fake_begin(f, PSI_REQ_PUSH, w, grad, NULL, 1000);
    fake_reply(f, 0, PS_OP_PUSH, 1, true,
               &(struct fake_answer){.status = PS_INVALID_ARGUMENT, .applied = PS_MAYBE_PARTLY_APPLIED, .text = "NaN at 7"});
    assert_done(push, PS_INVALID_ARGUMENT);
    assert_int_equal(push->req.applied, PS_MAYBE_PARTLY_APPLIED);
    assert_non_null(strstr(push->err.text, "NaN at 7"));
}

/* In progress at an offset: the next frame starts there, without FIRST; the next push of the variable comes after it. */
TEST(test_resume_offset)
{
    ps_v1_Hello hello;
    struct fake *f = fake_new(SPEC, "", 0, true);
    struct psi_var *w = fake_get(f, 0, "w", 2 * FRAME, 9, 1);
    float *grad = numbers_from(2 * FRAME, 1);
    struct fake_request *one = fake_begin(f, PSI_REQ_PUSH, w, grad, NULL, 100000);
    struct fake_request *two = fake_begin(f, PSI_REQ_PUSH, w, grad, NULL, 100000);
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(fake_take(f, 0, PS_OP_PUSH)->h.id == 1 + i / 2);
    }
    fake_cut(f, 0);
    const struct fake_number states[] = {
        {1, PS_NUMBER_IN_PROGRESS, 3 * SEGMENT, 0, 0}, {2, PS_NUMBER_NOT_RECEIVED, 0, 0, 0}, {0}};
    fake_hello(f, 0, 100, 200, states, &hello);
    assert_true(hello.record == 200 && hello.connection == 2 && hello.next_number == 3);
    assert_true(fake_listed[0].number == 1 && fake_listed[1].number == 2 && fake_listed[2].number == 0);
    assert_int_equal(fake_listed[0].state, 0);
    struct fake_frame *frame = fake_take(f, 0, PS_OP_PUSH);
    assert_true(frame->h.id == 1 && frame->h.offset == 3 * SEGMENT && (frame->h.flags & PS_FLAG_FIRST) == 0);
    assert_int_equal(frame->h.meta_bytes, 0);
    assert_memory_equal(frame->payload, grad + 3 * SEGMENT, PS_VALUES_FRAME_BYTES);
    frame = fake_take(f, 0, PS_OP_PUSH);
    assert_true(frame->h.id == 1 && frame->h.offset == FRAME + 3 * SEGMENT && (frame->h.flags & PS_FLAG_LAST) != 0);
    frame = fake_take(f, 0, PS_OP_PUSH);
    assert_true(frame->h.id == 2 && frame->h.offset == 0 && (frame->h.flags & PS_FLAG_FIRST) != 0);
    ok_reply(f, PS_OP_PUSH, 1, 1);
    ok_reply(f, PS_OP_PUSH, 2, 2);
    assert_int_equal(one->dones, 1);
    assert_int_equal(two->dones, 1);
}

/* A pull that was called behind a push is asked for again behind what is left of it. */
TEST(test_reads_wait_for_what_is_resumed)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *w = fake_get(f, 0, "w", 2 * FRAME, 9, 1);
    float *grad = numbers_from(2 * FRAME, 1);
    float *dst = numbers_from(2 * FRAME, 0);
    struct fake_request *push = fake_begin(f, PSI_REQ_PUSH, w, grad, NULL, 100000);
    struct fake_request *pull = fake_begin(f, PSI_REQ_PULL, w, NULL, dst, 100000);
    fake_take(f, 0, PS_OP_PUSH);
    fake_take(f, 0, PS_OP_PUSH);
    fake_take(f, 0, PS_OP_PULL);
    fake_take(f, 0, PS_OP_PULL);
    fake_cut(f, 0);
    const struct fake_number states[] = {{1, PS_NUMBER_IN_PROGRESS, SEGMENT, 0, 0}, {0}};
    fake_hello(f, 0, 100, 200, states, NULL);
    assert_true(fake_take(f, 0, PS_OP_PUSH)->h.offset == SEGMENT);
    assert_true((fake_take(f, 0, PS_OP_PUSH)->h.flags & PS_FLAG_LAST) != 0);
    struct fake_frame first = *fake_take(f, 0, PS_OP_PULL);
    struct fake_frame last = *fake_take(f, 0, PS_OP_PULL);
    ok_reply(f, PS_OP_PUSH, 1, 1);
    fake_values(f, 0, &first, false, 0, grad, PS_VALUES_FRAME_BYTES, 1, 0);
    fake_values(f, 0, &last, false, 0, grad + FRAME, PS_VALUES_FRAME_BYTES, 1, 0);
    assert_done(push, PS_OK);
    assert_done(pull, PS_OK);
}

/* What HELLO's answer can say of single-frame pushes. */
TEST(test_resume_states)
{
    static struct fake_request push[4];
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *w = fake_get(f, 0, "w", SMALL, 9, 1);
    float *grad = numbers_from(SMALL, 1);
    for (uint32_t i = 0; i < 4; i++) {
        fake_start(f, &push[i], PSI_REQ_PUSH, w, grad, NULL, 100000);
    }
    fake_cut(f, 0);
    const struct fake_number states[] = {{1, PS_NUMBER_APPLIED, 0, 0, 41},
                                         {2, PS_NUMBER_REFUSED, 0, PS_FAILED_PRECONDITION, 0},
                                         {3, PS_NUMBER_ABANDONED, 0, 0, 0},
                                         {4, PS_NUMBER_NOT_RECEIVED, 0, 0, 0},
                                         {0}};
    fake_hello(f, 0, 100, 200, states, NULL);
    assert_int_equal(push[0].req.status, PS_OK);
    assert_true(push[0].req.version == 41);
    assert_int_equal(push[1].req.status, PS_FAILED_PRECONDITION);
    assert_int_equal(push[2].req.status, PS_ABORTED);
    assert_int_equal(push[2].req.applied, PS_OUTCOME_UNKNOWN);
    assert_int_equal(push[3].dones, 0);
    struct fake_frame *frame = fake_take(f, 0, PS_OP_PUSH);
    assert_true(frame->h.id == 4 && (frame->h.flags & PS_FLAG_FIRST) != 0);
    assert_null(fake_next(f, 0));
    ok_reply(f, PS_OP_PUSH, 4, 42);
    assert_int_equal(push[3].req.status, PS_OK);
}

/* The record has another name: what was sent is unknown and never sent again; the new name is taken with that answer only. */
TEST(test_unknown)
{
    ps_v1_Hello hello;
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *w = fake_get(f, 0, "w", SMALL, 9, 1);
    float *grad = numbers_from(SMALL, 1);
    struct fake_request *push = fake_begin(f, PSI_REQ_PUSH, w, grad, NULL, 100000);
    fake_cut(f, 0);
    fake_connect(f, 0); /* this HELLO's answer is lost */
    fake_cut(f, 0);
    const struct fake_number states[] = {{1, PS_NUMBER_UNKNOWN, 0, 0, 0}, {0}};
    fake_hello(f, 0, 100, 999, states, &hello);
    assert_true(hello.record == 200);
    assert_int_equal(push->req.status, PS_ABORTED);
    assert_int_equal(push->req.applied, PS_OUTCOME_UNKNOWN);
    assert_null(fake_next(f, 0));
    struct fake_request *next = fake_begin(f, PSI_REQ_PUSH, w, grad, NULL, 100000);
    assert_true(fake_take(f, 0, PS_OP_PUSH)->h.id == 2);
    fake_cut(f, 0);
    const struct fake_number then[] = {{2, PS_NUMBER_APPLIED, 0, 0, 1}, {0}};
    fake_hello(f, 0, 100, 999, then, &hello);
    assert_true(hello.record == 999);
    assert_int_equal(next->req.status, PS_OK);
}

/* The deadline while the task works: ABANDON; the number stays in the window until the answer. */
TEST(test_abandon)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *w = fake_get(f, 0, "w", SMALL, 9, 1);
    float *grad = numbers_from(SMALL, 1);
    struct fake_request *push = fake_begin(f, PSI_REQ_PUSH, w, grad, NULL, 1000);
    fake_take(f, 0, PS_OP_PUSH);
    fake_wait(f, 1001);
    assert_done(push, PS_DEADLINE_EXCEEDED);
    assert_int_equal(push->req.applied, PS_OUTCOME_UNKNOWN);
    struct fake_frame *frame = fake_take(f, 0, PS_OP_ABANDON);
    assert_true(frame->h.id == 1 && frame->h.flags == PS_FLAG_SEQ);
    fake_cut(f, 0); /* its answer is lost */
    const struct fake_number states[] = {{1, PS_NUMBER_ABANDONED, 0, 0, 0}, {0}};
    fake_hello(f, 0, 100, 200, states, NULL);
    assert_true(fake_listed[0].number == 1 && fake_listed[0].state == 1);
    fake_cut(f, 0);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    assert_true(fake_listed[0].number == 0);
    assert_int_equal(push->dones, 1);
}

/* The deadline with half a frame written: the caller's memory is free at once, so the connection must go. */
TEST(test_half_written)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *w = fake_get(f, 0, "w", FRAME / 2, 9, 1);
    struct psi_var *v = fake_get(f, 0, "v", SMALL, 8, 2);
    float *grad = calloc(FRAME / 2, sizeof(*grad)); /* not by test_alloc(): it goes while the case runs */
    float *mine = numbers_from(SMALL, 5);
    f->task[0].take = PS_SEGMENT_BYTES * 2 + 100;
    struct fake_request *push = fake_begin(f, PSI_REQ_PUSH, w, grad, NULL, 1000);
    struct fake_request *other = fake_begin(f, PSI_REQ_PUSH, v, mine, NULL, 100000);
    fake_wait(f, 1001);
    assert_int_equal(push->dones, 1);
    assert_int_equal(push->req.applied, PS_MAYBE_PARTLY_APPLIED);
    free(grad); /* the library may not touch it again */
    assert_int_equal(f->task[0].closes, 1);
    assert_int_equal(other->dones, 0);
    const struct fake_number states[] = {{1, PS_NUMBER_ABANDONED, 0, 0, 0}, {2, PS_NUMBER_NOT_RECEIVED, 0, 0, 0}, {0}};
    fake_hello(f, 0, 100, 200, states, NULL);
    assert_int_equal(fake_listed[0].state, 1);
    assert_int_equal(fake_listed[1].state, 0);
    assert_true(fake_take(f, 0, PS_OP_PUSH)->h.id == 2);
    ok_reply(f, PS_OP_PUSH, 2, 1);
    assert_int_equal(other->req.status, PS_OK);
}

/* Never sent: nothing applied, and the number is simply not used. */
TEST(test_never_sent)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *w = fake_get(f, 0, "w", FRAME / 2, 9, 1);
    struct psi_var *v = fake_get(f, 0, "v", SMALL, 8, 2);
    float *grad = numbers_from(FRAME / 2, 1);
    f->task[0].take = 1000;
    fake_begin(f, PSI_REQ_PUSH, w, grad, NULL, 100000);
    struct fake_request *push = fake_begin(f, PSI_REQ_PUSH, v, grad, NULL, 1000);
    fake_wait(f, 1001);
    assert_int_equal(push->req.status, PS_DEADLINE_EXCEEDED);
    assert_int_equal(push->req.applied, PS_NOTHING_APPLIED);
    fake_flow(f, 0);
    assert_true(fake_take(f, 0, PS_OP_PUSH)->h.id == 1);
    fake_begin(f, PSI_REQ_PUSH, v, grad, NULL, 1000);
    assert_true(fake_take(f, 0, PS_OP_PUSH)->h.id == 3);
    ok_reply(f, PS_OP_PUSH, 1, 1);
    ok_reply(f, PS_OP_PUSH, 3, 1);
    assert_int_equal(psi_client_pending(f->c), 0);
}

/* A refusal while the frame is half out: the rest follows, then the request ends; a frame that has not begun is withdrawn. */
TEST(test_refused_half_written)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *w = fake_get(f, 0, "w", 2 * FRAME, 9, 1);
    float *grad = numbers_from(2 * FRAME, 1);
    f->task[0].take = PS_SEGMENT_BYTES * 2 + 100;
    struct fake_request *push = fake_begin(f, PSI_REQ_PUSH, w, grad, NULL, 1000);
    fake_reply(f, 0, PS_OP_PUSH, 1, true, &(struct fake_answer){.status = PS_FAILED_PRECONDITION, .text = "UNINITIALIZED"});
    assert_int_equal(push->dones, 0);
    fake_flow(f, 0);
    assert_done(push, PS_FAILED_PRECONDITION);
    struct fake_frame *frame = fake_take(f, 0, PS_OP_PUSH);
    assert_int_equal(frame->bytes, PS_VALUES_FRAME_BYTES);
    assert_null(fake_next(f, 0)); /* the second frame was never queued */
}

/* Refused for load while the frame is half out, and then the deadline: it ends there, it is not put off. */
TEST(test_put_off_half_written)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *w = fake_get(f, 0, "w", 2 * FRAME, 9, 1);
    float *grad = numbers_from(2 * FRAME, 1);
    f->task[0].take = PS_SEGMENT_BYTES * 2 + 100;
    struct fake_request *push = fake_begin(f, PSI_REQ_PUSH, w, grad, NULL, 1000);
    fake_reply(f, 0, PS_OP_PUSH, 1, true,
               &(struct fake_answer){.status = PS_RESOURCE_EXHAUSTED, .text = "busy", .retry_after_ms = 1});
    fake_wait(f, 990);
    assert_int_equal(push->dones, 0);
    fake_wait(f, 11);
    assert_int_equal(push->dones, 1);
    assert_int_equal(push->req.applied, PS_NOTHING_APPLIED);
    assert_int_equal(f->task[0].closes, 1);
    assert_int_equal(psi_client_pending(f->c), 0);
}

/* The same, and meanwhile the variable has gone: there is nothing to repeat it on, and it ends once. */
TEST(test_half_written_and_gone)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *w = fake_get(f, 0, "w", 2 * FRAME, 9, 1);
    float *grad = numbers_from(2 * FRAME, 1);
    float *dst = numbers_from(2 * FRAME, 0);
    struct fake_request *pull = fake_begin(f, PSI_REQ_PULL, w, NULL, dst, 100000);
    uint64_t asked = fake_take(f, 0, PS_OP_PULL)->h.id;
    f->task[0].take = PS_SEGMENT_BYTES * 2 + 100;
    struct fake_request *push = fake_begin(f, PSI_REQ_PUSH, w, grad, NULL, 1000);
    struct fake_answer busy = {.status = PS_RESOURCE_EXHAUSTED, .text = "busy", .retry_after_ms = 1};
    fake_reply(f, 0, PS_OP_PUSH, 1, true, &busy);
    fake_reply(f, 0, PS_OP_PULL, asked, false, &(struct fake_answer){.status = PS_ABORTED, .text = "was reset"});
    assert_int_equal(pull->req.status, PS_ABORTED);
    assert_int_equal(push->dones, 0); /* half of a frame of its memory is out */
    fake_wait(f, 1001);
    assert_done(push, PS_ABORTED);
    assert_int_equal(push->req.applied, PS_NOTHING_APPLIED);
    assert_non_null(strstr(push->err.text, "before it could be repeated"));
    assert_int_equal(f->task[0].closes, 1);
    fake_wait(f, 2000);
    assert_int_equal(push->dones, 1);
    assert_int_equal(psi_client_pending(f->c), 0);
}

TEST(test_add_and_init)
{
    struct fake *f = fake_new(SPEC, "", 0, true);
    struct psi_var *w = fake_get(f, 0, "w", 2, 9, 1);
    const float delta[2] = {1, 2};
    const float sum[2] = {11, 12};
    struct fake_request *add = fake_begin(f, PSI_REQ_ADD, w, delta, NULL, 1000);
    struct fake_frame *frame = fake_take(f, 0, PS_OP_ADD);
    assert_memory_equal(frame->payload, delta, sizeof(delta));
    fake_reply(f, 0, PS_OP_ADD, 1, true, &(struct fake_answer){.result = sum, .result_bytes = sizeof(sum), .version = 8});
    assert_int_equal(add->req.status, PS_OK);
    assert_int_equal(add->req.result_bytes, sizeof(sum));
    assert_memory_equal(add->req.result, sum, sizeof(sum));
    struct fake_request *init = fake_begin(f, PSI_REQ_INIT, w, NULL, NULL, 1000);
    frame = fake_take(f, 0, PS_OP_INIT);
    ps_v1_Init m;
    assert_int_equal(psi_msg_decode(&ps_v1_Init_msg, &m, frame->meta, frame->h.meta_bytes, NULL), PS_OK);
    assert_true(m.kind == PS_INIT_ZEROS && !m.force && m.optimizer.kind == PS_OPT_SGD && m.optimizer.learning_rate == 0.5);
    ok_reply(f, PS_OP_INIT, 2, 0);
    assert_int_equal(init->req.status, PS_OK);
}

/* A push carries the global step that the session knew when the push got its number, also where it is sent again. */
TEST(test_push_carries_the_step)
{
    struct fake *f = fake_new(SPEC, "", 0, true);
    struct psi_var *w = fake_get(f, 0, "w", 16, 9, 1);
    float *grad = numbers_from(16, 1);
    struct {
        struct ps_push_meta push;
        struct ps_push_step at;
    } m;
    (void)fake_begin(f, PSI_REQ_PUSH, w, grad, NULL, 100000);
    assert_int_equal(fake_take(f, 0, PS_OP_PUSH)->h.meta_bytes, sizeof(m.push)); /* it knows none */
    ok_reply(f, PS_OP_PUSH, 1, 1);
    f->c->step = 42;
    (void)fake_begin(f, PSI_REQ_PUSH, w, grad, NULL, 100000);
    struct fake_frame *frame = fake_take(f, 0, PS_OP_PUSH);
    assert_int_equal(frame->h.meta_bytes, sizeof(m));
    memcpy(&m, frame->meta, sizeof(m));
    assert_true(m.at.step == 42 && m.push.total_elements == 16 && m.push.scale == 1);
    f->c->step = 50;
    fake_cut(f, 0);
    const struct fake_number states[] = {{2, PS_NUMBER_NOT_RECEIVED, 0, 0, 0}, {0}};
    fake_hello(f, 0, 100, 200, states, NULL);
    frame = fake_take(f, 0, PS_OP_PUSH);
    memcpy(&m, frame->meta, sizeof(m));
    assert_true(frame->h.id == 2 && m.at.step == 42);
    ok_reply(f, PS_OP_PUSH, 2, 2);
    (void)fake_begin(f, PSI_REQ_ADD, w, grad, NULL, 100000);
    assert_int_equal(fake_take(f, 0, PS_OP_ADD)->h.meta_bytes, sizeof(m.push));
}

/* A task of an older release would close the connection. */
TEST(test_no_step_to_an_older_task)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    f->told_lacks = PS_FEATURE_GLOBAL_STEP;
    struct psi_var *w = fake_get(f, 0, "w", 16, 9, 1);
    f->c->step = 42;
    (void)fake_begin(f, PSI_REQ_PUSH, w, numbers_from(16, 1), NULL, 100000);
    assert_int_equal(fake_take(f, 0, PS_OP_PUSH)->h.meta_bytes, sizeof(struct ps_push_meta));
}

/* An addition of several frames: as a push, from the caller's memory, also where it is resumed. */
TEST(test_long_add)
{
    struct fake *f = fake_new(SPEC, "", 0, true);
    struct psi_var *w = fake_get(f, 0, "w", 2 * FRAME, 9, 1);
    float *delta = numbers_from(2 * FRAME, 1);
    struct fake_request *add = fake_begin(f, PSI_REQ_ADD, w, delta, NULL, 100000);
    struct fake_frame *frame = fake_take(f, 0, PS_OP_ADD);
    assert_int_equal(frame->h.flags & (PS_FLAG_FIRST | PS_FLAG_LAST), PS_FLAG_FIRST);
    struct ps_push_meta m;
    memcpy(&m, frame->meta, sizeof(m));
    assert_true(m.total_elements == 2 * FRAME && m.version == 0 && m.scale == 1);
    assert_memory_equal(frame->payload, delta, PS_VALUES_FRAME_BYTES);
    frame = fake_take(f, 0, PS_OP_ADD);
    assert_int_equal(frame->h.flags & (PS_FLAG_FIRST | PS_FLAG_LAST), PS_FLAG_LAST);
    fake_cut(f, 0);
    const struct fake_number states[] = {{1, PS_NUMBER_IN_PROGRESS, 3 * SEGMENT, 0, 0}, {0}};
    fake_hello(f, 0, 100, 200, states, NULL);
    frame = fake_take(f, 0, PS_OP_ADD);
    assert_true(frame->h.id == 1 && frame->h.offset == 3 * SEGMENT && (frame->h.flags & PS_FLAG_FIRST) == 0);
    assert_memory_equal(frame->payload, delta + 3 * SEGMENT, PS_VALUES_FRAME_BYTES);
    frame = fake_take(f, 0, PS_OP_ADD);
    assert_int_equal(frame->h.flags & PS_FLAG_LAST, PS_FLAG_LAST);
    ok_reply(f, PS_OP_ADD, 1, 7);
    assert_done(add, PS_OK);
    assert_true(add->req.version == 7 && add->req.result_bytes == 0);
}

/* The deadline when some frames are out: a part of it may be in. */
TEST(test_long_add_abandoned)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *w = fake_get(f, 0, "w", 2 * FRAME, 9, 1);
    float *delta = numbers_from(2 * FRAME, 1);
    f->task[0].take = PS_VALUES_FRAME_BYTES;
    struct fake_request *add = fake_begin(f, PSI_REQ_ADD, w, delta, NULL, 1000);
    fake_wait(f, 1001);
    assert_done(add, PS_DEADLINE_EXCEEDED);
    assert_int_equal(add->req.applied, PS_MAYBE_PARTLY_APPLIED);
    assert_non_null(strstr(add->err.text, "assign_add of 'w'"));
}

/* A task of an older release is not sent what it would take for bad bytes; what it can add it is. */
TEST(test_long_add_to_an_older_task)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    f->told_lacks = PS_FEATURE_LONG_ADDS;
    struct psi_var *w = fake_get(f, 0, "w", 17, 9, 1);
    struct psi_var *small = fake_get(f, 0, "small", 16, 8, 2);
    float *delta = numbers_from(17, 1);
    struct fake_request *add = fake_begin(f, PSI_REQ_ADD, w, delta, NULL, 1000);
    assert_done(add, PS_UNIMPLEMENTED);
    assert_true(add->err.reason == PS_REASON_FEATURE && add->req.applied == PS_NOTHING_APPLIED);
    assert_non_null(strstr(add->err.text, "adds 64 bytes at most"));
    assert_null(fake_next(f, 0));
    (void)fake_begin(f, PSI_REQ_ADD, small, delta, NULL, 1000);
    assert_int_equal(fake_take(f, 0, PS_OP_ADD)->h.handle, 8);
    ok_reply(f, PS_OP_ADD, 1, 1);
}

static struct psi_rows *some_rows(enum psi_rows_use use, const int64_t *indices, uint64_t count, uint64_t rows)
{
    static const float values[2] = {1, 2};
    const ps_shape shape = {.rank = 1, .dims = {(int64_t)rows}};
    const struct psi_rows_given given = {
        .name = "w", .shape = &shape, .dtype = PS_F32, .indices = indices, .count = count, .values = values, .use = use};
    struct psi_rows *r = NULL;
    assert_int_equal(psi_rows_new(&given, &r, NULL), PS_OK);
    return r;
}

/* A push of rows carries the step, a scatter does not. */
TEST(test_push_of_rows_carries_the_step)
{
    static const int64_t indices[2] = {3, 0};
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *w = fake_get(f, 0, "w", 17, 9, 1);
    struct psi_rows *push = some_rows(PSI_ROWS_SUM, indices, 2, 17);
    struct ps_push_step at;
    push->how = PS_SCATTER_ADD;
    f->c->step = 42;
    (void)fake_begin(f, PSI_REQ_PUSH_ROWS, w, push, NULL, 1000);
    const struct fake_frame *frame = fake_take(f, 0, PS_OP_PUSH_ROWS);
    assert_int_equal(frame->h.meta_bytes, sizeof(struct ps_rows_meta) + sizeof(at));
    memcpy(&at, frame->meta + sizeof(struct ps_rows_meta), sizeof(at));
    assert_int_equal(at.step, 42);
    ok_reply(f, PS_OP_PUSH_ROWS, 1, 1);
    (void)fake_begin(f, PSI_REQ_SCATTER, w, push, NULL, 1000);
    assert_int_equal(fake_take(f, 0, PS_OP_SCATTER)->h.meta_bytes, sizeof(struct ps_rows_meta));
    ok_reply(f, PS_OP_SCATTER, 2, 2);
    psi_rows_free(push);
}

/* A task of a release without operations on rows is sent none of them. */
TEST(test_rows_to_an_older_task)
{
    static const int64_t indices[2] = {3, 0};
    struct fake *f = fake_new(SPEC, "", 0, false);
    float came[2];
    f->told_lacks = PS_FEATURE_ROWS;
    struct psi_var *w = fake_get(f, 0, "w", 17, 9, 1);
    struct psi_rows *push = some_rows(PSI_ROWS_SUM, indices, 2, 17), *read = some_rows(PSI_ROWS_READ, indices, 2, 17);
    push->how = PS_SCATTER_ADD;
    const struct fake_request *ends[] = {fake_begin(f, PSI_REQ_PUSH_ROWS, w, push, NULL, 1000),
                                         fake_begin(f, PSI_REQ_SCATTER, w, push, NULL, 1000),
                                         fake_begin(f, PSI_REQ_GATHER, w, read, came, 1000)};
    for (size_t i = 0; i < 3; i++) {
        assert_done(ends[i], PS_UNIMPLEMENTED);
        assert_true(ends[i]->err.reason == PS_REASON_FEATURE && ends[i]->req.applied == PS_NOTHING_APPLIED);
        assert_non_null(strstr(ends[i]->err.text, "has no operations on rows"));
    }
    assert_null(fake_next(f, 0));
    psi_rows_free(push);
    psi_rows_free(read);
}

/* A reply for a number that was never sent, and one of another op: bad bytes, a new connection, no harm to the request. */
TEST(test_bad_replies)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct psi_var *w = fake_get(f, 0, "w", SMALL, 9, 1);
    float *grad = numbers_from(SMALL, 1);
    struct fake_request *push = fake_begin(f, PSI_REQ_PUSH, w, grad, NULL, 100000);
    ok_reply(f, PS_OP_PUSH, 2, 1);
    assert_int_equal(f->task[0].closes, 1);
    const struct fake_number again[] = {{1, PS_NUMBER_NOT_RECEIVED, 0, 0, 0}, {0}};
    fake_hello(f, 0, 100, 200, again, NULL);
    ok_reply(f, PS_OP_ADD, 1, 1);
    assert_int_equal(f->task[0].closes, 2);
    const struct fake_number ragged[] = {{1, PS_NUMBER_IN_PROGRESS, 3, 0, 0}, {0}};
    fake_hello(f, 0, 100, 200, ragged, NULL);
    assert_int_equal(f->task[0].closes, 3);
    fake_hello(f, 0, 100, 200, NULL, NULL); /* lacks the number */
    assert_int_equal(f->task[0].closes, 4);
    assert_int_equal(push->dones, 0);
    const struct fake_number applied[] = {{1, PS_NUMBER_APPLIED, 0, 0, 7}, {0}};
    fake_hello(f, 0, 100, 200, applied, NULL);
    assert_done(push, PS_OK);
}
