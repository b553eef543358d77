/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows in rounds at their owner: what members contribute, also over a connection that is cut; who sees the new rows before they
 * are home; what is refused.
 */
#include "rounds_test.h"
#include "rows_wire.h"

#include "psd/store/cut.h"
#include "psd/store/overlay.h"

#include "common/half.h"

#include <string.h>

/* w has RT_N rows of one element. PER: rows in a segment */
enum { ROWS = 12000, PER = PS_SEGMENT_BYTES / (8 + 4) };

static uint64_t indices[RT_N];
static float grads[RT_N], want[RT_N], got[RT_N];
static const uint64_t both[] = {1, 2};

static void in_slices(struct psd_task_config *config)
{
    config->round_slice_bytes = 1;
}

static ps_status set_limited(struct rt *r, uint32_t rows_per_step, double max_norm, struct psi_err *err)
{
    static const char *const names[] = {"w", "b"};
    static const bool by_rows[] = {true, false};
    const struct psd_rounds_spec spec = {
        .container = PSI_CONTAINER_DEFAULT,
        .generation = RT_GENERATION,
        .options = {.mode = PSD_SYNC_ROUNDS, .workers = 2, .rows_per_step = rows_per_step, .max_norm = max_norm},
        .names = names,
        .by_rows = by_rows,
        .name_count = 2,
        .step = "global_step"};
    return psd_rounds_set_here(rt_task(r), &spec, err);
}

static ps_status set_by_rows(struct rt *r, uint32_t rows_per_step, struct psi_err *err)
{
    return set_limited(r, rows_per_step, 0, err);
}

static struct rt *by_rows(shell_tweak tweak, const ps_optimizer *optimizer, uint32_t members)
{
    struct rt *r = test_alloc(sizeof(*r));
    rt_begin(r, tweak, optimizer);
    test_later(rt_end, r);
    assert_int_equal(set_by_rows(r, ROWS, NULL), PS_OK);
    for (uint32_t i = 0; i < members; i++) {
        assert_int_equal(rt_join(r, i, NULL), PS_OK);
    }
    return r;
}

/* Every third row from `first` on, with gradients i % 8, times the scale 1/2. */
static struct rows_op rows_of(struct rt *r, uint32_t i, uint64_t first, uint64_t count, uint64_t round)
{
    for (uint64_t k = 0; k < count; k++) {
        indices[k] = first + 3 * k;
        grads[k] = (float)(k % 8);
    }
    return (struct rows_op){.op = PS_OP_CONTRIBUTE_ROWS,
                            .dtype = PS_F32,
                            .handle = r->w.handle,
                            .number = r->m[i].next_number++,
                            .indices = indices,
                            .rows = grads,
                            .count = count,
                            .row_bytes = 4,
                            .scale = 0.5F,
                            .member = i + 1,
                            .round = round};
}

/* What a round of such contributions of so many members makes of `want`, with sgd(1). */
static void expect(uint64_t first, uint64_t count, uint32_t members)
{
    for (uint64_t k = 0; k < count; k++) {
        want[first + 3 * k] -= (float)(k % 8) * 0.5F / (float)members;
    }
}

static void contribute_small(struct rt *r, uint32_t i, uint64_t round)
{
    float grad[RT_SMALL];
    assert_int_equal(rt_result(rt_contribute(r, i, &r->b, filled(grad, RT_SMALL, 1), round)), 0);
}

/* A round of one member, up to READY. */
static void prepare_one(struct rt *r, uint64_t first, uint64_t count)
{
    const uint64_t round = rt_group(r)->committed + 1;
    const struct rows_op o = rows_of(r, 0, first, count, round);
    assert_int_equal(rt_result(rows_do(&r->m[0], &o)), 0);
    contribute_small(r, 0, round);
    rt_prepare(r, round, both, 1);
    expect(first, count, 1);
}

/* Its flip. The new rows are not home, where the task's work is held. */
static void commit_one(struct rt *r)
{
    const uint64_t round = rt_group(r)->committed + 1;
    assert_int_equal(rt_order(r, psd_rounds_commit_here, round, both, 1, NULL), PS_OK);
    assert_int_equal(rt_group(r)->committed, round);
}

static void flip_one(struct rt *r, uint64_t first, uint64_t count)
{
    prepare_one(r, first, count);
    commit_one(r);
}

static void assert_pulled(struct rt *r)
{
    assert_applied(fc_pull(&r->e.c, &r->w, 0, RT_N, got));
    assert_memory_equal(got, want, sizeof(want));
}

/* Cut behind each segment: the task says at which row it stands, and the rest begins there. Each row counts once. */
TEST(test_resumed_by_row)
{
    for (uint64_t cut = PER; cut < ROWS; cut += PER) {
        struct rt *r = by_rows(NULL, ps_sgd(1), 1);
        struct fc *c = &r->m[0];
        struct fc_hello hello;
        const struct rows_op o = rows_of(r, 0, 1, ROWS, 1);
        rows_send(c, &o, 0, cut);
        fc_cut(c);
        fc_hello_default(c, &hello);
        hello.unresolved[0] = o.number;
        hello.unresolved_count = 1;
        assert_int_equal(fc_hello(c, &hello), PS_OK);
        assert_int_equal(c->numbers[0].state, PS_NUMBER_IN_PROGRESS);
        assert_int_equal(c->numbers[0].offset, cut);
        rows_send(c, &o, cut, ROWS);
        assert_int_equal(rt_result(fc_take(c, NULL)), 0);
        rows_send(c, &o, 0, ROWS); /* the same number: its outcome, and nothing more */
        assert_int_equal(rt_result(fc_take(c, NULL)), 0);
        contribute_small(r, 0, 1);
        rt_prepare(r, 1, both, 1);
        rt_commit(r, 1, both, 1);
        filled(want, RT_N, 1);
        expect(1, ROWS, 1);
        assert_memory_equal(rt_variable(r, "w")->value, want, sizeof(want));
        assert_int_equal(rt_variable(r, "w")->version, 1);
    }
}

/* Rows of both members, of one and of none; the second member has no rows in the second round. */
TEST(test_rows_of_two)
{
    struct rt *r = by_rows(in_slices, ps_sgd(1), 2);
    filled(want, RT_N, 1);
    for (uint64_t round = 1; round <= 2; round++) {
        const uint64_t second = round == 1 ? ROWS / 2 : 0;
        for (uint32_t i = 2; i-- > 0;) { /* the order of arrival does not count */
            const struct rows_op o = rows_of(r, i, i == 0 ? 0 : 3, i == 0 ? ROWS : second, round);
            assert_int_equal(rt_result(rows_do(&r->m[i], &o)), 0);
            contribute_small(r, i, round);
        }
        rt_prepare(r, round, both, 2);
        rt_commit(r, round, both, 2);
        expect(0, ROWS, 2);
        expect(3, second, 2);
        assert_memory_equal(rt_variable(r, "w")->value, want, sizeof(want));
    }
    assert_false(psd_rounds_are_not_home(rt_group(r)));
}

/* The flip puts the new rows in force: GATHER, PULL in any dtype and a call's copy have them before they are home, and nobody
 * else changes the variable meanwhile. */
TEST(test_in_force_before_home)
{
    static uint16_t wire[RT_N];
    struct rt *r = by_rows(in_slices, ps_sgd(1), 1);
    const struct psd_variable *v = rt_variable(r, "w");
    filled(want, RT_N, 1);
    flip_one(r, 0, 10);
    rt_work(r);
    r->e.t->work_held = true;
    flip_one(r, 2, ROWS);
    assert_true(psd_rounds_are_not_home(rt_group(r)));
    assert_memory_not_equal(v->value, want, sizeof(want));
    assert_pulled(r);
    assert_applied(fc_pull(&r->e.c, &r->w, 7, RT_N - 9, got));
    assert_memory_equal(got, want + 7, (RT_N - 9) * sizeof(float));
    ps_v1_OpenAnswer half = r->w;
    half.dtype = PS_BF16;
    assert_applied(fc_pull(&r->e.c, &half, 0, RT_N, got));
    psi_half_narrow(PS_BF16, want, wire, RT_N);
    assert_memory_equal(got, wire, sizeof(wire));
    struct wire w;
    wire_init(&w);
    for (uint64_t k = 0; k < RT_N; k++) {
        indices[k] = k;
    }
    assert_applied(rows_gather(&r->e.c, PS_F32, r->w.handle, 0, indices, ROWS, &w));
    assert_memory_equal(w.data, want, ROWS * sizeof(float));
    wire_fini(&w);
    psd_overlay_read(v, 0, 5, RT_N - 5, got); /* of any bytes */
    assert_memory_equal(got, (const uint8_t *)want + 5, RT_N - 5);
    assert_true(psd_rounds_are_not_home(rt_group(r))); /* who reads changes nothing */
    assert_true(psd_variable_is_built(v));             /* and nobody may change v */
    rt_work(r);
    assert_false(psd_rounds_are_not_home(rt_group(r)));
    assert_memory_equal(v->value, want, sizeof(want));
    assert_pulled(r);
}

/* While a cut keeps the rows of its instant, readers copy nothing for it. */
TEST(test_readers_beside_a_cut)
{
    struct psi_err err;
    struct rt *r = by_rows(in_slices, ps_sgd(1), 1);
    struct psd_task *t = rt_task(r);
    const struct psd_cut_options options = {.memory_bytes = 8 << 20};
    filled(want, RT_N, 1);
    r->e.t->work_held = true;
    prepare_one(r, 2, ROWS);
    assert_int_equal(psd_cut_begin(t, &options, &err), PS_OK);
    commit_one(r);
    const uint64_t held = psd_cut_held_bytes(&t->store);
    assert_true(psd_rounds_are_not_home(rt_group(r)));
    assert_pulled(r);
    assert_int_equal(psd_cut_held_bytes(&t->store), held);
    psd_overlay_settle(rt_variable(r, "w"));
    assert_true(psd_cut_held_bytes(&t->store) > held);
    assert_pulled(r);
    psd_cut_end(t);
}

/* Rows in force that are not home are in a cut: it brings them home in slices before it reaches their variable. */
TEST(test_cut_has_rows_in_force)
{
    struct psi_err err;
    struct rt *r = by_rows(in_slices, ps_sgd(1), 1);
    struct psd_task *t = rt_task(r);
    const struct psd_cut_options options = {.memory_bytes = 8 << 20};
    uint8_t *file = test_alloc(2 * sizeof(want));
    size_t length = 0;
    filled(want, RT_N, 1);
    r->e.t->work_held = true;
    flip_one(r, 2, ROWS);
    assert_true(psd_rounds_are_not_home(rt_group(r)));
    assert_int_equal(psd_cut_begin(t, &options, &err), PS_OK);
    while (psd_cut_status(t) == PSD_CUT_GOES) {
        const struct psd_cut_write *w = NULL;
        psd_cut_turn(t, 1);
        while ((w = psd_cut_next(t)) != NULL) {
            if (w->file == 1) { /* in any order: a long value in its own */
                assert_true(length + w->bytes <= 2 * sizeof(want));
                memcpy(file + length, w->data, w->bytes);
                length += w->bytes;
            }
            psd_cut_written(t, w);
        }
    }
    assert_int_equal(psd_cut_status(t), PSD_CUT_WRITTEN);
    assert_non_null(memmem(file, length, want, sizeof(want)));
    psd_cut_end(t);
}

/* With a limit on the norm a round adds up the squares of the averages as of a whole gradient: 16 lanes, each row in that of its
 * index. The squares are of many magnitudes, so that another order gives other bits. */
TEST(test_squares_at_their_places)
{
    struct rt *r = test_alloc(sizeof(*r));
    double lanes[16] = {0}, sum = 0;
    rt_begin(r, in_slices, ps_sgd(1));
    test_later(rt_end, r);
    assert_int_equal(set_limited(r, ROWS, 100, NULL), PS_OK);
    assert_int_equal(rt_join(r, 0, NULL), PS_OK);
    const struct rows_op o = rows_of(r, 0, 0, ROWS, 1);
    for (uint64_t k = 0; k < ROWS; k++) {
        indices[k] += k * k % 7 % 3; /* no constant step, with which rows that stand side by side share lanes as well */
        grads[k] = (float)(k * k % 2003) * (k % 3 == 0 ? 1e-9F : 1e-3F);
        const double average = (double)(grads[k] * 0.5F);
        lanes[indices[k] % 16] += average * average;
    }
    for (size_t l = 0; l < 16; l++) {
        sum += lanes[l];
    }
    assert_int_equal(rt_result(rows_do(&r->m[0], &o)), 0);
    contribute_small(r, 0, 1);
    rt_prepare(r, 1, both, 1);
    assert_int_equal(rt_group(r)->build, PSD_BUILD_SUMMED);
    assert_true(rt_group(r)->sums[rt_variable(r, "w")->part - rt_group(r)->parts] == sum);
}

/* A pull that was asked for before the variable was in rounds, and is sent across a flip: the segments are of before and after.
 */
TEST(test_an_older_pull)
{
    struct rt *r = test_alloc(sizeof(*r));
    rt_begin(r, in_slices, ps_sgd(1));
    test_later(rt_end, r);
    struct fc *c = fc_new(r->e.t, 50);
    c->crc = true;
    c->conn->write_most = 1000;
    c->conn->stuck = true;
    struct ps_pull_meta m = {.elements = RT_N};
    struct wire w;
    struct wire_frame f = {
        .op = PS_OP_PULL, .dtype = PS_F32, .id = 9, .handle = r->w.handle, .meta = &m, .meta_bytes = sizeof(m)};
    f.flags = PS_FLAG_CRC;
    wire_init(&w);
    PSI_IGNORE(wire_frame(&w, &f));
    shell_send(c->conn, &w); /* its first 64 KiB are composed */
    wire_fini(&w);
    assert_int_equal(set_by_rows(r, ROWS, NULL), PS_OK);
    assert_int_equal(rt_join(r, 0, NULL), PS_OK);
    r->e.t->work_held = true;
    filled(want, RT_N, 1);
    flip_one(r, 2, ROWS);
    filled(want, SEGMENT / 4, 1);
    shell_unstick(c->conn);
    struct shell_frame *answer = shell_take(c->conn);
    assert_non_null(answer);
    assert_memory_equal(answer->body.data, want, sizeof(want));
    assert_int_equal(answer->trailer.version, 1);
    shell_frame_free(answer);
}

/* The rows in force lie in the memory of the member that leaves. */
TEST(test_leaves_with_rows_in_force)
{
    struct rt *r = by_rows(in_slices, ps_sgd(1), 2);
    filled(want, RT_N, 1);
    r->e.t->work_held = true;
    flip_one(r, 2, ROWS);
    assert_true(psd_rounds_are_not_home(rt_group(r)));
    rt_leave(r, 0);
    assert_memory_equal(rt_variable(r, "w")->value, want, sizeof(want));
    assert_false(psd_rounds_are_not_home(rt_group(r)));
}

TEST(test_what_is_refused)
{
    struct psi_err err;
    struct rt *r = by_rows(NULL, ps_sgd(1), 2);
    filled(want, RT_N, 1);
    struct rows_op o = rows_of(r, 0, 0, ROWS + 1, 1);
    struct fc_reply refused = rows_do(&r->m[0], &o);
    assert_reply(refused, PS_RESOURCE_EXHAUSTED, "12001 rows; this member has reserved memory for 12000");
    assert_int_equal(refused.reason, PS_REASON_TOO_LARGE);
    o = rows_of(r, 0, 0, 2 * PER, 1);
    indices[PER] = 4; /* the second segment does not rise, and nothing is left of the first one */
    refused = rows_do(&r->m[0], &o);
    assert_reply(refused, PS_INVALID_ARGUMENT, "does not rise");
    assert_int_equal(refused.applied, PS_NOTHING_APPLIED);
    assert_reply(rt_contribute(r, 0, &r->w, got, 1), PS_FAILED_PRECONDITION, "in rounds as an embedding");
    o = rows_of(r, 0, 0, 3, 1);
    o.handle = r->b.handle;
    indices[1] = 1;
    indices[2] = 2;
    assert_reply(rows_do(&r->m[0], &o), PS_FAILED_PRECONDITION, "in rounds as a parameter");
    o = rows_of(r, 1, 0, 5, 1);
    o.op = PS_OP_PUSH_ROWS;
    assert_reply(rows_do(&r->m[1], &o), PS_FAILED_PRECONDITION, "IN_ROUNDS");
    o = rows_of(r, 1, 0, 5, 1);
    o.op = PS_OP_PUSHPULL_ROWS;
    refused = rows_do(&r->m[1], &o);
    assert_reply(refused, PS_FAILED_PRECONDITION, "take part (--sync");
    assert_int_equal(refused.h.flags & PS_FLAG_VALUE, 0); /* no values come */
    o = rows_of(r, 0, 0, 5, 1);
    assert_int_equal(rt_result(rows_do(&r->m[0], &o)), 0);
    o.number = r->m[0].next_number++;
    assert_reply(rows_do(&r->m[0], &o), PS_FAILED_PRECONDITION, "the second one to round 1");
    contribute_small(r, 0, 1);
    rt_prepare(r, 1, both, 1);
    rt_commit(r, 1, both, 1);
    expect(0, 5, 1);
    assert_memory_equal(rt_variable(r, "w")->value, want, sizeof(want));
    rt_leave(r, 0);
    rt_leave(r, 1);
    psd_rounds_end_here(rt_task(r), PSI_CONTAINER_DEFAULT);
    assert_int_equal(set_by_rows(r, 0, &err), PS_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "rows_per_step is 0; allowed: 1 and more"));
}
