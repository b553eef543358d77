/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mutations at a task: applied once whatever is replayed, gaps, the window, segments with a bad CRC, refusals that say what they
 * did, PUSHPULL's values, ADD's result, ABANDON. Values are checked element by element: a lost or doubled push shows.
 */
#include "task_test.h"

enum { N = 40000 }; /* 160,000 bytes: three segments, the last one ragged */

static float values[N];

struct push_env {
    struct env e;
    ps_v1_OpenAnswer w;
};

static struct push_env *push_new(shell_tweak tweak)
{
    struct push_env *p = test_alloc(sizeof(*p));
    env_init(&p->e, tweak);
    test_later(env_end, &p->e);
    p->w = fc_ready(&p->e.c, "w", PS_F32, N, ps_sgd(1), 0);
    return p;
}

static struct fc_part part_of(struct push_env *p, uint8_t op, uint64_t number)
{
    struct fc_part part = {.op = op, .dtype = PS_F32, .handle = p->w.handle, .total = N, .scale = 1};
    part.number = number;
    part.payload = filled(values, N, 1);
    return part;
}

/* Frame `index` of three, one segment each; flags as they should be unless changed by the caller. */
static struct fc_part third(struct push_env *p, uint64_t number, uint32_t index)
{
    struct fc_part part = part_of(p, PS_OP_PUSH, number);
    part.offset = index * 16384;
    part.payload_bytes = index < 2 ? SEGMENT : sizeof(values) - 2 * SEGMENT;
    part.first = index == 0;
    part.last = index == 2;
    return part;
}

static void send_part(struct push_env *p, const struct fc_part *part)
{
    fc_send_part(&p->e.c, part);
}

static void send_third(struct push_env *p, uint64_t number, uint32_t index)
{
    struct fc_part part = third(p, number, index);
    send_part(p, &part);
}

static void assert_values(struct push_env *p, float a, float b, float c)
{
    struct peek peek = peek_at(p->e.t, "w");
    assert_floats(peek.value, 0, 16384, a);
    assert_floats(peek.value, 16384, 32768, b);
    assert_floats(peek.value, 32768, N, c);
}

TEST(test_one_and_many_frames)
{
    struct push_env *p = push_new(NULL);
    struct fc_reply r = fc_push(&p->e.c, PS_OP_PUSH, &p->w, filled(values, N, 1), 0.5F, 0);
    assert_applied(r);
    assert_int_equal(r.version, 1);
    assert_int_equal(r.applied, PS_NOTHING_APPLIED);
    uint64_t position = r.position;
    uint64_t number = p->e.c.next_number++;
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(fc_take(&p->e.c, NULL).status, FC_NONE); /* one reply, at the end */
        send_third(p, number, i);
    }
    r = fc_take(&p->e.c, NULL);
    assert_applied(r);
    assert_int_equal(r.h.id, number);
    assert_int_equal(r.h.flags & PS_FLAG_SEQ, PS_FLAG_SEQ);
    assert_int_equal(r.version, 2);
    assert_true(r.position > position);
    assert_values(p, -1.5F, -1.5F, -1.5F);
}

/* FAULTS 25: the outcome is sent again, nothing is applied again; also of a refusal; on one connection and on the next. */
TEST(test_replay)
{
    struct push_env *p = push_new(NULL);
    uint64_t number = p->e.c.next_number;
    struct fc_reply first = fc_push(&p->e.c, PS_OP_PUSH, &p->w, filled(values, N, 1), 1, 0);
    values[5] = NAN;
    struct fc_reply refused = fc_push(&p->e.c, PS_OP_PUSH, &p->w, values, 1, 0);
    assert_reply(refused, PS_INVALID_ARGUMENT, "element 5");
    for (int round = 0; round < 2; round++) {
        fc_cut(&p->e.c);
        assert_int_equal(fc_connect(&p->e.c), PS_OK);
        p->e.c.next_number = number;
        struct fc_reply again = fc_push(&p->e.c, PS_OP_PUSH, &p->w, filled(values, N, 1), 1, 0);
        assert_applied(again);
        assert_int_equal(again.position, first.position);
        assert_int_equal(again.version, first.version);
        again = fc_push(&p->e.c, PS_OP_PUSH, &p->w, filled(values, N, 1), 1, 0); /* its gradient would be fine now */
        assert_reply(again, PS_INVALID_ARGUMENT, "element 5");
        assert_int_equal(again.applied, refused.applied);
    }
    assert_values(p, -1, -1, -1);
    /* continuations of a replay are read and dropped without a word */
    send_third(p, number, 1);
    assert_false(shell_is_closed(p->e.c.conn));
    assert_int_equal(fc_take(&p->e.c, NULL).status, FC_NONE);
    ps_v1_InfoAnswer info;
    assert_int_equal(fc_info(&p->e.c, &info), PS_OK);
    assert_int_equal(info.pushes_applied, 1);
    assert_int_equal(info.pushes_refused, 1);
    assert_int_equal(info.nonfinite, 1);
    assert_values(p, -1, -1, -1);
}

static void assert_gap(struct push_env *p)
{
    assert_true(shell_is_closed(p->e.c.conn));
    assert_true(shell_logged(p->e.t, "GAP"));
    shell_log_clear(p->e.t);
    assert_int_equal(fc_connect(&p->e.c), PS_OK);
}

/* FAULTS 26 */
TEST(test_gaps)
{
    struct push_env *p = push_new(NULL);
    struct fc_part part;
    /* a continuation of nothing */
    send_third(p, 50, 1);
    assert_gap(p);
    /* a first frame that does not start at 0 */
    part = third(p, 51, 1);
    part.first = true;
    send_part(p, &part);
    assert_gap(p);
    /* a continuation at the wrong offset: behind, ahead, the same again */
    static const uint32_t orders[][2] = {{0, 2}, {0, 0}};
    for (size_t i = 0; i < ARRAY_COUNT(orders); i++) {
        uint64_t number = p->e.c.next_number++;
        send_third(p, number, orders[i][0]);
        part = third(p, number, orders[i][1]);
        part.first = false;
        send_part(p, &part);
        assert_gap(p);
    }
    /* ... though its length would fit */
    static const uint64_t offsets[] = {32768, 8192, 16383, 16385, 1, UINT64_MAX};
    for (size_t i = 0; i < ARRAY_COUNT(offsets); i++) {
        uint64_t number = p->e.c.next_number++;
        send_third(p, number, 0);
        part = third(p, number, 1);
        part.offset = offsets[i];
        send_part(p, &part);
        assert_gap(p);
    }
    /* FIRST numbers that fall, or repeat, on one connection */
    uint64_t high = p->e.c.next_number + 10;
    send_third(p, high, 0);
    send_third(p, high - 1, 0);
    assert_gap(p);
    p->e.c.next_number = high + 1;
    assert_applied(fc_push(&p->e.c, PS_OP_PUSH, &p->w, filled(values, N, 1), 1, 0));
    p->e.c.next_number = high + 1;
    assert_int_equal(fc_push(&p->e.c, PS_OP_PUSH, &p->w, values, 1, 0).status, FC_NONE);
    assert_gap(p);
    p->e.c.next_number = high + 2;
    /* another operation under a number in progress */
    uint64_t number = p->e.c.next_number++;
    send_third(p, number, 0);
    part = third(p, number, 1);
    part.op = PS_OP_PUSHPULL;
    send_part(p, &part);
    assert_gap(p);
    /* a length that does not fit: not whole segments, more than what is left, nothing */
    static const size_t lengths[] = {SEGMENT - 8, 2 * SEGMENT, 0};
    for (size_t i = 0; i < ARRAY_COUNT(lengths); i++) {
        number = p->e.c.next_number++;
        send_third(p, number, 0);
        part = third(p, number, 1);
        part.payload_bytes = lengths[i];
        send_part(p, &part);
        assert_gap(p);
    }
    number = p->e.c.next_number++;
    send_third(p, number, 0);
    part = third(p, number, 1);
    part.last = true; /* LAST, but not all is in */
    send_part(p, &part);
    assert_gap(p);
    /* INIT with the number of a push in progress */
    number = p->e.c.next_number++;
    send_third(p, number, 0);
    p->e.c.next_number = number;
    assert_int_equal(fc_init_var(&p->e.c, p->w.handle, ps_zeros(), ps_sgd(1), 0, false).status, FC_NONE);
    assert_gap(p);
}

/* Number 0 and the largest are no numbers; those far below the highest are past the window; distances are taken in 64 bits. */
TEST(test_window)
{
    float g[8];
    struct push_env *p = push_new(NULL);
    ps_v1_OpenAnswer s = fc_ready(&p->e.c, "s", PS_F32, 8, ps_sgd(1), 0);
    static const uint64_t never[] = {0, UINT64_MAX};
    for (size_t i = 0; i < ARRAY_COUNT(never); i++) {
        p->e.c.next_number = never[i];
        assert_int_equal(fc_push(&p->e.c, PS_OP_PUSH, &s, filled(g, 8, 1), 1, 0).status, FC_NONE);
        assert_gap(p);
    }
    uint64_t high = UINT64_C(1) << 33;
    p->e.c.next_number = high;
    assert_applied(fc_push(&p->e.c, PS_OP_PUSH, &s, filled(g, 8, 1), 1, 0));
    static const uint64_t below[] = {256, 257, 300, 511, 512, 1000, (UINT64_C(1) << 32) + 1};
    for (size_t i = 0; i < ARRAY_COUNT(below); i++) { /* also those whose place in the ring is empty */
        fc_cut(&p->e.c);
        assert_int_equal(fc_connect(&p->e.c), PS_OK);
        p->e.c.next_number = high - below[i];
        assert_int_equal(fc_push(&p->e.c, PS_OP_PUSH, &s, filled(g, 8, 1), 1, 0).status, FC_NONE);
        assert_gap(p);
        struct fc_reply r = fc_abandon(&p->e.c, high - below[i]);
        assert_int_equal(r.status, FC_NONE);
        assert_gap(p);
    }
    p->e.c.next_number = high - 255; /* the oldest that is in the window */
    assert_applied(fc_push(&p->e.c, PS_OP_PUSH, &s, filled(g, 8, 1), 1, 0));
    assert_floats(peek_at(p->e.t, "s").value, 0, 8, -2);
}

/* A number in progress holds its place: 256 further is refused, 255 further is not. */
TEST(test_window_is_held_by_what_is_in_progress)
{
    struct push_env *p = push_new(NULL);
    uint64_t number = p->e.c.next_number++;
    send_third(p, number, 0);
    float g[8];
    ps_v1_OpenAnswer s = fc_created(&p->e.c, "s", PS_F32, 8, ps_sgd(1));
    assert_applied(fc_init_var(&p->e.c, s.handle, ps_zeros(), ps_sgd(1), 0, false));
    p->e.c.next_number = number + 255;
    assert_applied(fc_push(&p->e.c, PS_OP_PUSH, &s, filled(g, 8, 1), 1, 0));
    assert_int_equal(fc_push(&p->e.c, PS_OP_PUSH, &s, g, 1, 0).status, FC_NONE);
    shell_log_clear(p->e.t);
    struct fc_hello h;
    fc_hello_default(&p->e.c, &h);
    h.unresolved[0] = number;
    h.unresolved_count = 1;
    assert_int_equal(fc_hello(&p->e.c, &h), PS_OK);
    assert_int_equal(p->e.c.numbers[0].state, PS_NUMBER_IN_PROGRESS);
    send_third(p, number, 1);
    send_third(p, number, 2);
    assert_applied(fc_take(&p->e.c, NULL));
    p->e.c.next_number = number + 256;
    assert_applied(fc_push(&p->e.c, PS_OP_PUSH, &s, g, 1, 0));
    assert_floats(peek_at(p->e.t, "s").value, 0, 8, -2);
    assert_values(p, -1, -1, -1);
}

static uint32_t in_progress_most;

static void few_in_progress(struct psd_task_config *config)
{
    config->pushes_in_progress_max = in_progress_most;
}

/* Eight multi-frame operations of a session; and the cap of the task. Refused on the first frame, saying nothing applied. */
TEST(test_load)
{
    static const uint32_t most[] = {4096, 3};
    for (size_t i = 0; i < ARRAY_COUNT(most); i++) {
        in_progress_most = most[i];
        struct push_env *p = push_new(few_in_progress);
        uint32_t admitted = most[i] < PS_MULTIFRAME_PUSHES_MAX ? most[i] : PS_MULTIFRAME_PUSHES_MAX;
        uint64_t first = p->e.c.next_number;
        for (uint32_t k = 0; k < admitted; k++) {
            send_third(p, p->e.c.next_number++, 0);
            assert_int_equal(fc_take(&p->e.c, NULL).status, FC_NONE);
        }
        uint64_t refused = p->e.c.next_number++;
        send_third(p, refused, 0);
        struct fc_reply r = fc_take(&p->e.c, NULL);
        assert_reply(r, PS_RESOURCE_EXHAUSTED, "in progress");
        assert_int_equal(r.applied, PS_NOTHING_APPLIED);
        assert_int_not_equal(r.retry_after_ms, 0);
        send_third(p, refused, 1); /* the rest of it is dropped */
        send_third(p, refused, 2);
        assert_int_equal(fc_take(&p->e.c, NULL).status, FC_NONE);
        send_third(p, first, 1);
        send_third(p, first, 2);
        assert_applied(fc_take(&p->e.c, NULL));
        send_third(p, p->e.c.next_number++, 0); /* there is room again */
        assert_int_equal(fc_take(&p->e.c, NULL).status, FC_NONE);
        assert_values(p, -(float)(admitted + 1), -1, -1);
    }
}

enum { HEAD = PS_FRAME_HEADER_BYTES + sizeof(struct ps_push_meta) };

/* FAULTS 9, 40: a bad segment closes; nothing of it is applied, what came before stays, the client goes on there. */
TEST(test_bad_segment_crc)
{
    for (uint32_t bad = 0; bad < 3; bad++) {
        struct fc_hello h;
        struct push_env *p = push_new(NULL);
        struct wire *w = wire_new();
        struct fc_part whole = part_of(p, PS_OP_PUSH, p->e.c.next_number++);
        fc_frames(&p->e.c, w, &whole, 0, 0); /* one frame of three segments */
        w->data[HEAD + bad * (SEGMENT + 8) + 100] ^= 1;
        shell_send(p->e.c.conn, w);
        assert_true(shell_is_closed(p->e.c.conn));
        assert_true(shell_logged(p->e.t, "BAD_CRC"));
        assert_values(p, bad > 0 ? -1 : 0, bad > 1 ? -1 : 0, 0);
        fc_hello_default(&p->e.c, &h);
        h.unresolved[0] = whole.number;
        h.unresolved_count = 1;
        assert_int_equal(fc_hello(&p->e.c, &h), PS_OK);
        assert_int_equal(p->e.c.numbers[0].state, PS_NUMBER_IN_PROGRESS);
        assert_int_equal(p->e.c.numbers[0].offset, bad * 16384);
        fc_send_frames(&p->e.c, &whole, p->e.c.numbers[0].offset, 0);
        assert_applied(fc_take(&p->e.c, NULL));
        assert_values(p, -1, -1, -1);
    }
}

/* FAULTS 40, 42: cut at every kind of place, resumed at the recorded offset: applied once, everywhere. */
TEST(test_cut_and_resume)
{
    static const size_t cuts[] = {1,
                                  39,
                                  40,
                                  HEAD - 1,
                                  HEAD,
                                  HEAD + 1,
                                  1000,
                                  HEAD + 65535,
                                  HEAD + 65536,
                                  HEAD + 65544,
                                  HEAD + 65545,
                                  100000,
                                  HEAD + 2 * 65544,
                                  150000,
                                  HEAD + 160023};
    struct push_env *p = push_new(NULL);
    for (size_t i = 0; i < ARRAY_COUNT(cuts); i++) {
        struct fc_hello h;
        struct wire *w = wire_new();
        struct fc_part whole = part_of(p, PS_OP_PUSH, p->e.c.next_number++);
        fc_frames(&p->e.c, w, &whole, 0, 0);
        assert_true(cuts[i] < w->len);
        w->len = cuts[i];
        shell_send(p->e.c.conn, w);
        fc_cut(&p->e.c);
        fc_hello_default(&p->e.c, &h);
        h.unresolved[0] = whole.number;
        h.unresolved_count = 1;
        assert_int_equal(fc_hello(&p->e.c, &h), PS_OK);
        uint64_t offset = 0;
        if (cuts[i] < HEAD) {
            assert_int_equal(p->e.c.numbers[0].state, PS_NUMBER_NOT_RECEIVED);
        } else {
            assert_int_equal(p->e.c.numbers[0].state, PS_NUMBER_IN_PROGRESS);
            offset = p->e.c.numbers[0].offset;
            assert_int_equal(offset, (cuts[i] - HEAD) / 65544 * 16384);
        }
        fc_send_frames(&p->e.c, &whole, offset, 0);
        assert_applied(fc_take(&p->e.c, NULL));
        float want = -(float)(i + 1);
        assert_values(p, want, want, want);
    }
}

/* FAULTS 22: a bad element in the third segment: the first two are in, the reply says so, and counts are right. */
TEST(test_nonfinite)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    struct push_env *p = push_new(NULL);
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        filled(values, N, 1);
        values[N - 1] = bad[i];
        struct fc_reply r = fc_push(&p->e.c, PS_OP_PUSH, &p->w, values, 1, 0);
        assert_reply(r, PS_INVALID_ARGUMENT, "element 39999");
        assert_non_null(strstr(r.text, "'w'"));
        assert_int_equal(r.applied, PS_MAYBE_PARTLY_APPLIED);
        assert_int_equal(r.version, i + 1);
        filled(values, N, 1);
        values[0] = bad[i];
        r = fc_push(&p->e.c, PS_OP_PUSHPULL, &p->w, values, 1, 0);
        assert_reply(r, PS_INVALID_ARGUMENT, "element 0");
        assert_int_equal(r.applied, PS_NOTHING_APPLIED);
    }
    assert_values(p, -3, -3, 0);
    ps_v1_InfoAnswer info;
    assert_int_equal(fc_info(&p->e.c, &info), PS_OK);
    assert_int_equal(info.nonfinite, 6);
    assert_int_equal(info.pushes_refused, 6);
    assert_int_equal(info.pushes_torn, 3);
    assert_int_equal(info.pushes_applied, 0);
}

/* What the reader finds while it makes the CRC of a segment is about its bytes, before the scale. */
TEST(test_nonfinite_by_the_scale)
{
    struct push_env *p = push_new(NULL);
    filled(values, N, 0);
    values[6] = 1e30F;
    struct fc_reply r = fc_push(&p->e.c, PS_OP_PUSH, &p->w, values, 1e20F, 0);
    assert_reply(r, PS_INVALID_ARGUMENT, "element 6 times the scale 1e+20");
    assert_int_equal(r.applied, PS_NOTHING_APPLIED);
    assert_values(p, 0, 0, 0);
}

static void apply_anyway(struct psd_task_config *config)
{
    config->refuse_nonfinite = false;
}

TEST(test_nonfinite_is_applied_when_told_so)
{
    struct push_env *p = push_new(apply_anyway);
    filled(values, N, 1);
    values[7] = INFINITY;
    assert_applied(fc_push(&p->e.c, PS_OP_PUSH, &p->w, values, 1, 0));
    const float *v = peek_at(p->e.t, "w").value;
    assert_true(isinf(v[7]));
    assert_floats(v, 8, N, -1);
}

TEST(test_pushpull)
{
    struct push_env *p = push_new(NULL);
    struct fc_part whole = part_of(p, PS_OP_PUSHPULL, p->e.c.next_number++);
    fc_send_frames(&p->e.c, &whole, 0, SEGMENT);
    uint64_t at = 0;
    for (int i = 0; i < 3; i++) {
        struct shell_frame *f = shell_take(p->e.c.conn);
        assert_non_null(f);
        assert_int_equal(f->h.op, PS_OP_PUSHPULL);
        assert_int_equal(f->h.flags & ~PS_FLAG_CRC, PS_FLAG_REPLY | PS_FLAG_SEQ | PS_FLAG_VALUE);
        assert_int_equal(f->h.id, whole.number);
        assert_int_equal(f->h.offset, at);
        assert_int_equal(f->h.dtype, PS_F32);
        assert_true(f->has_trailer);
        uint64_t count = i < 2 ? 16384 : N - 32768;
        float got[16384];
        memcpy(got, f->body.data, count * 4);
        assert_floats(got, 0, count, -1);
        at += count;
        shell_frame_free(f);
    }
    struct fc_reply r = fc_take(&p->e.c, NULL);
    assert_applied(r);
    assert_int_equal(r.h.flags & PS_FLAG_VALUE, 0);
    assert_int_equal(r.version, 1);
}

TEST(test_add)
{
    struct push_env *p = push_new(NULL);
    int64_t step = 5, one = 1, result = 0;
    double d[8] = {1, 2, 3, 4, 5, 6, 7, 8}, out[8];
    ps_v1_OpenAnswer s = fc_ready(&p->e.c, "step", PS_I64, 1, ps_no_optimizer(), 100);
    ps_v1_OpenAnswer v = fc_ready(&p->e.c, "eight", PS_F64, 8, ps_no_optimizer(), 1);
    ps_v1_OpenAnswer nine = fc_ready(&p->e.c, "nine", PS_F64, 9, ps_no_optimizer(), 1);
    ps_v1_OpenAnswer flag = fc_ready(&p->e.c, "flag", PS_BOOL, 4, ps_no_optimizer(), 1);
    for (int i = 0; i < 3; i++) {
        struct fc_reply r = fc_push(&p->e.c, PS_OP_ADD, &s, i == 0 ? &step : &one, i == 2 ? -1.0F : 1.0F, 0);
        assert_applied(r);
        assert_int_equal(r.result_bytes, 8);
        memcpy(&result, r.result, 8);
        assert_int_equal(result, i == 0 ? 105 : i == 1 ? 106 : 105);
        assert_int_equal(r.version, i + 1);
    }
    struct fc_reply r = fc_push(&p->e.c, PS_OP_ADD, &v, d, -1, 0);
    assert_applied(r);
    assert_int_equal(r.result_bytes, 64);
    memcpy(out, r.result, 64);
    for (int i = 0; i < 8; i++) {
        assert_true(out[i] == 1 - d[i]);
    }
    double ninths[9] = {9, 8, 7, 6, 5, 4, 3, 2, 1};
    r = fc_push(&p->e.c, PS_OP_ADD, &nine, ninths, 1, 0);
    assert_applied(r);
    assert_int_equal(r.result_bytes, 0); /* 72 bytes */
    for (int i = 0; i < 9; i++) {
        assert_true(((const double *)peek_at(p->e.t, "nine").value)[i] == 10 - i);
    }
    assert_reply(fc_push(&p->e.c, PS_OP_ADD, &flag, values, 1, 0), PS_INVALID_ARGUMENT, "assign_add to 'flag': it holds bool");
    assert_reply(fc_push(&p->e.c, PS_OP_ADD, &flag, values, -1, 0), PS_INVALID_ARGUMENT, "assign_sub to 'flag': it holds bool");
    static const float scales[] = {0, 2, 0.5F, NAN};
    for (size_t i = 0; i < ARRAY_COUNT(scales); i++) {
        assert_reply(fc_push(&p->e.c, PS_OP_ADD, &s, &one, scales[i], 0), PS_INVALID_ARGUMENT, "1 and -1");
    }
    r = fc_push(&p->e.c, PS_OP_ADD, &p->w, filled(values, N, 1), 1, 0);
    assert_applied(r);
    assert_true(r.result_bytes == 0 && r.version == 1);
    assert_values(p, 1, 1, 1);
}

/* An addition of several segments is resumed, replayed and torn as a push is, and its sign holds to the end. */
TEST(test_long_add)
{
    struct push_env *p = push_new(NULL);
    struct fc_hello h;
    uint64_t going = p->e.c.next_number++;
    struct fc_part part = third(p, going, 0);
    part.op = PS_OP_ADD;
    part.scale = -1;
    send_part(p, &part);
    assert_values(p, -1, 0, 0);
    ps_v1_InfoAnswer info;
    fc_cut(&p->e.c);
    fc_hello_default(&p->e.c, &h);
    h.unresolved[0] = going;
    h.unresolved_count = 1;
    assert_int_equal(fc_hello(&p->e.c, &h), PS_OK);
    assert_int_equal(p->e.c.numbers[0].state, PS_NUMBER_IN_PROGRESS);
    assert_int_equal(p->e.c.numbers[0].offset, 16384);
    for (uint32_t i = 1; i < 3; i++) {
        part = third(p, going, i);
        part.op = PS_OP_ADD;
        send_part(p, &part);
    }
    struct fc_reply r = fc_take(&p->e.c, NULL);
    assert_applied(r);
    assert_true(r.version == 1 && r.result_bytes == 0);
    assert_values(p, -1, -1, -1);
    fc_cut(&p->e.c);
    assert_int_equal(fc_connect(&p->e.c), PS_OK);
    p->e.c.next_number = going;
    assert_int_equal(fc_push(&p->e.c, PS_OP_ADD, &p->w, values, -1, 0).position, r.position); /* the same one */
    assert_values(p, -1, -1, -1);
    uint64_t torn = p->e.c.next_number++;
    part = third(p, torn, 0);
    part.op = PS_OP_ADD;
    send_part(p, &part);
    r = fc_abandon(&p->e.c, torn);
    assert_int_equal(r.result[0], PS_NUMBER_ABANDONED);
    assert_values(p, 0, -1, -1);
    assert_int_equal(peek_at(p->e.t, "w").version, 2);
    uint64_t other = p->e.c.next_number++;
    part = third(p, other, 0);
    part.op = PS_OP_ADD;
    send_part(p, &part);
    part = third(p, other, 1); /* a gradient cannot continue it */
    send_part(p, &part);
    assert_gap(p);
    assert_int_equal(fc_info(&p->e.c, &info), PS_OK);
    assert_int_equal(info.pushes_torn, 2);
}

TEST(test_abandon)
{
    struct push_env *p = push_new(NULL);
    uint64_t going = p->e.c.next_number++;
    send_third(p, going, 0);
    struct fc_reply r = fc_abandon(&p->e.c, going);
    assert_applied(r);
    assert_int_equal(r.h.op, PS_OP_ABANDON);
    assert_int_equal(r.result_bytes, 1);
    assert_int_equal(r.result[0], PS_NUMBER_ABANDONED);
    send_third(p, going, 1); /* was on its way */
    assert_false(shell_is_closed(p->e.c.conn));
    assert_values(p, -1, 0, 0);
    uint64_t applied = p->e.c.next_number;
    assert_applied(fc_push(&p->e.c, PS_OP_PUSH, &p->w, filled(values, N, 1), 1, 0));
    assert_int_equal(fc_abandon(&p->e.c, applied).result[0], PS_NUMBER_APPLIED);
    uint64_t refused = p->e.c.next_number;
    assert_reply(fc_push(&p->e.c, PS_OP_PUSH, &p->w, values, -1, 0), PS_INVALID_ARGUMENT, "scale");
    assert_int_equal(fc_abandon(&p->e.c, refused).result[0], PS_NUMBER_REFUSED);
    uint64_t unsent = p->e.c.next_number++;
    assert_int_equal(fc_abandon(&p->e.c, unsent).result[0], PS_NUMBER_ABANDONED);
    send_third(p, unsent, 0); /* it never counts afterwards */
    assert_reply(fc_take(&p->e.c, NULL), PS_ABORTED, "abandoned");
    assert_values(p, -2, -1, -1);
    ps_v1_InfoAnswer info;
    assert_int_equal(fc_info(&p->e.c, &info), PS_OK);
    assert_int_equal(info.pushes_torn, 1);
}
