/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rounds at their owner: what is contributed, how a round closes, what memory it takes, and what is refused. The bits of a round
 * are compared with a computation of their own; slices, segments and the order of arrival must not show in them.
 */
#include "rounds_test.h"

#include "psd/optim/optim.h"
#include "psd/state.h"

#include "common/half.h"
#include "common/mem.h"
#include "common/rng.h"

#include <stdlib.h>

enum { RECORDS = 96 << 10 };

static float grads[RT_MEMBERS][RT_N], want[RT_N], slot[RT_N], values[RT_N];

static void in_slices(struct psd_task_config *config)
{
    config->round_slice_bytes = 1;
}

/* Of both variables, and of the global step. */
static uint64_t model_bytes(void)
{
    return psd_arena_bytes((uint64_t)RT_N * 4) + psd_arena_bytes((uint64_t)RT_SMALL * 4);
}

static uint64_t step_bytes(void)
{
    return psd_arena_bytes(8);
}

/* Both variables, their second copy, and two members, with RECORDS bytes for the records of all of them: a third member has more.
 */
static void exact_budget(struct psd_task_config *config)
{
    config->memory_budget_bytes = model_bytes() * (1 + 1 + 2) + step_bytes() + RECORDS;
}

static const uint64_t both[] = {1, 2};

static void random_grads(void)
{
    for (uint32_t i = 0; i < RT_MEMBERS; i++) {
        for (uint32_t k = 0; k < RT_N; k++) {
            grads[i][k] = (float)rand() / (float)RAND_MAX - .5F; /* NOLINT: any numbers do */
        }
    }
}

/* What w is after one round of these members: the sum by ascending task, one division, the optimizer with scale 1. */
static void expect(const ps_optimizer *o, const uint32_t *members, uint32_t count)
{
    struct psd_optim_state state;
    struct psd_optim_scalars scalars;
    static float sum[RT_N];
    static float average[RT_N];
    void *slots[PSD_OPTIM_SLOTS_MAX] = {slot, average};
    for (uint32_t k = 0; k < RT_N; k++) {
        volatile float acc = grads[members[0]][k];
        for (uint32_t i = 1; i < count; i++) {
            acc += grads[members[i]][k];
        }
        sum[k] = acc / (float)count;
        want[k] = 1;
        slot[k] = (float)psd_optim_slot_init(o, 0);
        average[k] = 1;
    }
    psd_optim_state_init(o, PS_F32, &state);
    psd_optim_begin(o, o->learning_rate, PS_F32, &state, 0, 1, &scalars);
    if (psi_optimizer_is_whole(o->kind)) {
        struct psd_optim_norms norms = {0};
        psd_optim_measure(o->kind, PS_F32, &scalars, want, slots, sum, sum, RT_N, &norms);
        psd_optim_scale(o->kind, PS_F32, &norms, &scalars);
    }
    psd_optim_apply(o->kind, PS_F32, PS_F32, &scalars, want, slots, sum, RT_N);
}

static void assert_w(const struct rt *r)
{
    const struct psd_variable *v = rt_variable(r, "w");
    assert_memory_equal(v->value, want, sizeof(want));
    if (v->slots[0] != NULL) {
        assert_memory_equal(v->slots[0], slot, sizeof(slot));
    }
}

TEST(test_a_round)
{
    static const uint32_t all[] = {0, 1};
    struct rt *r = rt_new(NULL, ps_momentum(.5, .9), 2);
    random_grads();
    expect(ps_momentum(.5, .9), all, 2);
    for (uint32_t i = 2; i-- > 0;) { /* the order of arrival does not count */
        assert_int_equal(rt_result(rt_contribute(r, i, &r->w, grads[i], 1)), 0);
        assert_int_equal(rt_result(rt_contribute(r, i, &r->b, grads[i], 1)), 0);
    }
    rt_prepare(r, 1, both, 2);
    assert_int_equal(rt_group(r)->build, PSD_BUILD_READY);
    assert_floats(rt_variable(r, "w")->value, 0, RT_N, 1); /* not before it is committed */
    assert_int_equal(rt_variable(r, "w")->version, 0);
    assert_int_equal(rt_step(r), 100);
    rt_commit(r, 1, both, 2);
    assert_w(r);
    assert_int_equal(rt_variable(r, "w")->version, 1);
    assert_int_equal(rt_variable(r, "b")->version, 1);
    assert_int_equal(rt_variable(r, "global_step")->version, 1);
    assert_int_equal(rt_step(r), 101);
    assert_true(psd_member_find(rt_group(r), 1)->taken == 1 && psd_member_find(rt_group(r), 2)->taken == 1);
    assert_int_equal(rt_order(r, psd_rounds_commit_here, 1, both, 2, NULL), PS_OK); /* again: nothing */
    assert_int_equal(rt_step(r), 101);
    assert_w(r);
}

/* Slices of a block, members in another order, without PREPARE, and in the bits of half precision on the wire. */
static void bits_do_not_depend_on_the_way(const ps_optimizer *o)
{
    static const uint32_t three[] = {0, 1, 3};
    static const uint64_t ids[] = {4, 1, 2};
    static uint16_t wire[RT_N];
    random_grads();
    psi_half_narrow(PS_BF16, grads[1], wire, RT_N);
    psi_half_widen(PS_BF16, wire, grads[1], RT_N);
    expect(o, three, 3);
    for (uint32_t way = 0; way < 4; way++) {
        struct rt *r = rt_new((way & 1) != 0 ? in_slices : NULL, o, 4);
        ps_v1_OpenAnswer half = r->w;
        half.dtype = PS_BF16;
        r->e.t->work_held = true;
        assert_int_equal(rt_result(rt_contribute(r, 3, &r->w, grads[3], 1)), 0);
        assert_int_equal(rt_result(rt_contribute(r, 1, &half, wire, 1)), 0);
        assert_int_equal(rt_result(rt_contribute(r, 0, &r->w, grads[0], 1)), 0);
        for (uint32_t k = 0; k < 3; k++) {
            assert_int_equal(rt_result(rt_contribute(r, three[k], &r->b, grads[2], 1)), 0);
        }
        if ((way & 2) != 0) {
            rt_prepare(r, 1, ids, 3);
        }
        assert_int_equal(rt_order(r, psd_rounds_commit_here, 1, ids, 3, NULL), PS_OK);
        assert_true(psd_task_has_work(rt_task(r)) == (way == 1));
        rt_work(r);
        assert_int_equal(rt_group(r)->committed, 1);
        assert_w(r);
    }
}

TEST(test_bits_do_not_depend_on_the_way)
{
    bits_do_not_depend_on_the_way(ps_adagrad(.5));
}

/* Optimizers with norms are built in two passes. */
TEST(test_nor_do_those_of_two_passes)
{
    ps_optimizer lars = *ps_optimizer_standard(PS_OPT_LARS, .5);
    lars.ema = .5;
    bits_do_not_depend_on_the_way(&lars);
}

/* The first element of LARS's slot after a round: all elements of the variable are `value`, those of the gradient `grad`. */
static void assert_lars(const struct rt *r, const char *name, uint32_t elements, float value, float grad)
{
    const ps_optimizer lars = *ps_optimizer_standard(PS_OPT_LARS, .5);
    const struct psd_variable *v = rt_variable(r, name);
    const struct psd_optim_norms norms = {.value = elements * (double)(value * value), .step = elements * (double)(grad * grad)};
    struct psd_optim_scalars scalars;
    float first = 0;
    psd_optim_begin(&lars, .5, PS_F32, &v->optim_state, 0, 1, &scalars);
    psd_optim_scale(PS_OPT_LARS, PS_F32, &norms, &scalars);
    memcpy(&first, v->slots[0], sizeof(first));
    assert_true(first == (grad + (float)scalars.weight_decay * value) * (float)scalars.rate);
}

/* Each variable has norms of its own. */
TEST(test_two_parts_of_two_passes)
{
    struct rt *r = rt_new(NULL, ps_optimizer_standard(PS_OPT_LARS, .5), 1);
    rt_contribute_all(r, 0, 3, 1);
    rt_prepare(r, 1, both, 1);
    rt_commit(r, 1, both, 1);
    assert_lars(r, "w", RT_N, 1, 3);
    assert_lars(r, "b", RT_SMALL, 2, -3);
}

/* The memory of two rounds ago is built into: pulls are right in every round, by CRCs that were made while it was built too. */
TEST(test_pulls_between_rounds)
{
    struct rt *r = rt_new(NULL, ps_sgd(1), 2);
    float now = 1;
    r->e.c.crc = true;
    for (uint64_t round = 1; round <= 6; round++) {
        rt_contribute_all(r, 0, 3, round);
        rt_contribute_all(r, 1, 1, round);
        rt_prepare(r, round, both, 2);
        assert_applied(fc_pull(&r->e.c, &r->w, 0, RT_N, values));
        assert_floats(values, 0, RT_N, now);
        rt_commit(r, round, both, 2);
        now -= 2;
        assert_applied(fc_pull(&r->e.c, &r->w, 0, RT_N, values));
        assert_floats(values, 0, RT_N, now);
    }
    assert_int_equal(rt_step(r), 106);
}

/* A pull that is being sent while its round closes, and while the next one is built: each segment is of one of the rounds, has
 * the CRC of its bytes, and the trailer says that it is no snapshot. */
TEST(test_a_pull_across_a_flip)
{
    struct rt *r = rt_new(in_slices, ps_sgd(1), 1);
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
    for (uint64_t round = 1; round <= 2; round++) {
        rt_contribute_all(r, 0, 1, round);
        rt_prepare(r, round, both, 1);
        if (round == 1) {
            rt_commit(r, round, both, 1);
        }
    }
    shell_unstick(c->conn);
    struct shell_frame *got = shell_take(c->conn);
    assert_non_null(got);
    struct ps_pull_reply_meta first;
    memcpy(&first, got->meta, sizeof(first));
    assert_int_equal(first.version, 0);
    assert_int_equal(got->trailer.version, 1);
    const float *v = (const float *)(const void *)got->body.data;
    assert_floats(v, 0, SEGMENT / 4, 1);
    assert_floats(v, SEGMENT / 4, RT_N, 0);
    shell_frame_free(got);
    wire_fini(&w);
}

TEST(test_memory_is_reserved_at_joining)
{
    struct psi_err err;
    struct rt *r = rt_new(exact_budget, ps_sgd(1), 2);
    const uint64_t model = model_bytes(), step = step_bytes();
    const struct psd_store *s = &rt_task(r)->store;
    assert_true(model > RECORDS && psd_store_taken(s) - s->promised_bytes < RECORDS);
    assert_int_equal(s->promised_bytes, model + step + model + 2 * model); /* values, the copy, members x gradients */
    assert_int_equal(psd_rounds_memory_bytes(rt_group(r)), 3 * model);
    assert_int_equal(rt_join(r, 2, &err), PS_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(err.text, "one more member"));
    for (uint64_t round = 1; round <= 3; round++) { /* and never later */
        rt_contribute_all(r, 0, 1, round);
        rt_contribute_all(r, 1, 1, round);
        rt_prepare(r, round, both, 2);
        rt_commit(r, round, both, 2);
        assert_int_equal(s->promised_bytes, 4 * model + step);
    }
    assert_int_equal(s->arena.taken_bytes, 4 * model + step);
    rt_leave(r, 0);
    assert_int_equal(s->promised_bytes, 3 * model + step);
    assert_int_equal(rt_join(r, 2, NULL), PS_OK);
    assert_int_equal(rt_set_as(r, 0, PSD_SYNC_NONE, NULL), PS_OK);
    assert_int_equal(s->promised_bytes, model + step);
    assert_floats(rt_variable(r, "w")->value, 0, RT_N, -2);
}

TEST(test_nothing_is_allocated_for_a_round)
{
    struct rt *r = rt_new(NULL, ps_adam(.1), 2);
    uint64_t before = 0;
    for (uint64_t round = 1; round <= 6; round++) {
        before = round == 4 ? psi_mem_count() : before; /* pulls have made the tables of CRCs of both copies by then */
        rt_contribute_all(r, 0, 1, round);
        rt_contribute_all(r, 1, 1, round);
        rt_prepare(r, round, both, 2);
        rt_commit(r, round, both, 2);
        assert_applied(fc_pull(&r->e.c, &r->w, 0, RT_N, values));
    }
    assert_int_equal(psi_mem_count(), before);
}

TEST(test_no_memory_for_the_copy)
{
    struct psi_err err;
    struct rt *r = test_alloc(sizeof(*r));
    rt_begin(r, exact_budget, ps_adam(1)); /* two slots */
    test_later(rt_end, r);
    assert_int_equal(rt_set_as(r, RT_GENERATION, PSD_SYNC_ROUNDS, &err), PS_RESOURCE_EXHAUSTED);
    assert_non_null(strstr(err.text, "second copy"));
    assert_null(rt_group(r));
    assert_int_equal(rt_task(r)->store.promised_bytes, model_bytes() * 3 + step_bytes());
}

TEST(test_set)
{
    struct psi_err err;
    struct rt *r = rt_new(NULL, ps_sgd(1), 1);
    ps_v1_OpenAnswer a;
    assert_int_equal(rt_set_as(r, RT_GENERATION, PSD_SYNC_ROUNDS, NULL), PS_OK); /* again: nothing */
    assert_int_equal(rt_group(r)->member_count, 1);
    assert_int_equal(fc_open(&r->e.c, "w", &a), PS_OK);
    assert_int_equal(a.rounds, RT_GENERATION);
    assert_int_equal(a.rounds_mode, PSD_SYNC_ROUNDS);
    assert_int_equal(rt_set_as(r, RT_GENERATION + 1, PSD_SYNC_STALENESS, NULL), PS_OK); /* another one takes its place */
    assert_int_equal(rt_group(r)->member_count, 0);
    assert_int_equal(fc_open(&r->e.c, "w", &a), PS_OK);
    assert_int_equal(a.rounds_mode, PSD_SYNC_STALENESS);
    assert_applied(fc_push(&r->e.c, PS_OP_PUSH, &r->w, filled(values, RT_N, 1), 1, 0)); /* at its own pace */
    assert_int_equal(psd_rounds_memory_bytes(rt_group(r)), 0);
    assert_int_equal(rt_set_as(r, 0, PSD_SYNC_NONE, NULL), PS_OK);
    assert_null(rt_group(r));
    assert_int_equal(fc_open(&r->e.c, "w", &a), PS_OK);
    assert_int_equal(a.rounds, 0);
    static const char *const wrong[] = {"nothing", "global_step", "w"};
    static const ps_status because[] = {PS_NOT_FOUND, PS_INVALID_ARGUMENT, PS_INVALID_ARGUMENT};
    for (uint32_t i = 0; i < 3; i++) {
        const char *names[] = {"w", wrong[i]};
        struct psd_rounds_spec spec = {.container = PSI_CONTAINER_DEFAULT,
                                       .generation = 1,
                                       .options = {.mode = PSD_SYNC_ROUNDS},
                                       .names = names,
                                       .name_count = 2};
        assert_int_equal(psd_rounds_set_here(rt_task(r), &spec, &err), because[i]);
        assert_null(rt_group(r));
    }
}

/* The members' sessions are over: nobody trains. */
static void all_die(struct rt *r)
{
    for (uint32_t i = 0; i < RT_MEMBERS; i++) {
        fc_cut(&r->m[i]);
    }
    for (uint32_t ms = 0; ms <= PS_LEASE_MS; ms += 1000) {
        assert_applied(fc_beat(&r->e.c, -1, NULL));
        shell_pass(&r->e.net, 1000);
    }
}

TEST(test_pushes_from_outside)
{
    struct rt *r = rt_new(NULL, ps_sgd(1), 1);
    struct fc_reply reply = fc_push(&r->e.c, PS_OP_PUSH, &r->w, filled(values, RT_N, 1), 1, 0);
    assert_reply(reply, PS_FAILED_PRECONDITION, "--sync");
    assert_int_equal(reply.reason, PS_REASON_IN_ROUNDS);
    assert_reply(fc_push(&r->e.c, PS_OP_PUSHPULL, &r->w, values, 1, 0), PS_FAILED_PRECONDITION, "in rounds");
    rt_contribute_all(r, 0, 1, 1);
    reply = fc_push(&r->e.c, PS_OP_ASSIGN, &r->w, values, 1, 0); /* while a member lives */
    assert_reply(reply, PS_FAILED_PRECONDITION, "trains it");
    assert_int_equal(reply.reason, PS_REASON_IN_ROUNDS);
    assert_reply(fc_push(&r->e.c, PS_OP_ADD, &r->b, values, 1, 0), PS_FAILED_PRECONDITION, "psctl stop");
    reply = fc_push(&r->e.c, PS_OP_ADD, &r->w, values, 1, 0); /* of several segments: as a push */
    assert_reply(reply, PS_FAILED_PRECONDITION, "--sync");
    assert_int_equal(reply.reason, PS_REASON_IN_ROUNDS);
    const int64_t hundred = 100;
    assert_reply(fc_push(&r->e.c, PS_OP_ASSIGN, &r->step, &hundred, 1, 0), PS_FAILED_PRECONDITION, "'global_step'");
    assert_reply(fc_init_var(&r->e.c, r->w.handle, ps_ones(), ps_sgd(1), 0, true), PS_FAILED_PRECONDITION, "trains it");
    all_die(r);
    assert_reply(fc_push(&r->e.c, PS_OP_ADD, &r->w, values, 1, 0), PS_FAILED_PRECONDITION, "--sync"); /* also between rounds */
    assert_applied(fc_push(&r->e.c, PS_OP_ASSIGN, &r->w, filled(values, RT_N, 9), 1, 0));             /* between rounds */
    rt_prepare(r, 1, both, 1);
    reply = fc_push(&r->e.c, PS_OP_ASSIGN, &r->w, values, 1, 0);
    assert_reply(reply, PS_UNAVAILABLE, "round is being closed");
    assert_int_equal(reply.applied, PS_NOTHING_APPLIED);
    assert_reply(fc_push(&r->e.c, PS_OP_ADD, &r->b, values, 1, 0), PS_UNAVAILABLE, "round");
    assert_reply(fc_init_var(&r->e.c, r->w.handle, ps_ones(), ps_sgd(1), 0, true), PS_UNAVAILABLE, "round");
    assert_applied(fc_init_var(&r->e.c, r->w.handle, ps_ones(), ps_sgd(1), 0, false)); /* it has a value: nothing */
    rt_commit(r, 1, both, 1);
    assert_floats(rt_variable(r, "w")->value, 0, RT_N, 8);
    assert_applied(fc_push(&r->e.c, PS_OP_ASSIGN, &r->w, values, 1, 0));
    assert_applied(fc_init_var(&r->e.c, r->w.handle, ps_ones(), ps_sgd(1), 0, true));
    assert_int_equal(fc_connect(&r->m[0]), PS_OK);
    rt_contribute_all(r, 0, 1, 2);
    rt_commit(r, 2, both, 1);
    assert_floats(rt_variable(r, "w")->value, 0, RT_N, 0);
}

/* Half of an operation, which then meets what changes under it. */
static struct fc_part half_of(struct fc *c, uint8_t op, const ps_v1_OpenAnswer *v, uint64_t round)
{
    struct fc_part part = {.op = op,
                           .dtype = PS_F32,
                           .number = c->next_number++,
                           .handle = v->handle,
                           .total = RT_N,
                           .payload = filled(values, RT_N, 5),
                           .payload_bytes = SEGMENT,
                           .scale = 1,
                           .member = 1,
                           .round = round,
                           .first = true};
    fc_send_part(c, &part);
    part.first = false;
    part.last = true;
    part.offset = SEGMENT / 4;
    part.payload = values + SEGMENT / 4;
    part.payload_bytes = sizeof(values) - SEGMENT;
    return part;
}

TEST(test_an_assign_in_progress_when_the_round_closes)
{
    struct rt *r = rt_new(NULL, ps_sgd(1), 1);
    rt_contribute_all(r, 0, 1, 1);
    all_die(r);
    struct fc_part rest = half_of(&r->e.c, PS_OP_ASSIGN, &r->w, 0);
    rt_prepare(r, 1, both, 1);
    fc_send_part(&r->e.c, &rest);
    assert_reply(fc_take(&r->e.c, NULL), PS_UNAVAILABLE, "round");
    rt_commit(r, 1, both, 1);
    assert_floats(rt_variable(r, "w")->value, 0, RT_N, 0);
}

TEST(test_what_streams_when_rounds_begin)
{
    static const uint8_t ops[] = {PS_OP_PUSH, PS_OP_ADD};
    for (size_t i = 0; i < ARRAY_COUNT(ops); i++) {
        struct rt *r = rt_new(NULL, ps_sgd(1), 0);
        assert_int_equal(rt_set_as(r, 0, PSD_SYNC_NONE, NULL), PS_OK);
        struct fc_part rest = half_of(&r->e.c, ops[i], &r->w, 0);
        assert_int_equal(rt_variable(r, "w")->in_progress, 1);
        assert_int_equal(rt_set_as(r, RT_GENERATION, PSD_SYNC_ROUNDS, NULL), PS_OK);
        shell_settle(r->e.t);
        struct fc_reply reply = fc_take(&r->e.c, NULL);
        assert_reply(reply, PS_FAILED_PRECONDITION, "in rounds");
        assert_int_equal(reply.applied, PS_MAYBE_PARTLY_APPLIED);
        assert_int_equal(rt_variable(r, "w")->in_progress, 0);
        fc_send_part(&r->e.c, &rest); /* read and dropped */
        assert_floats(rt_variable(r, "w")->value, SEGMENT / 4, RT_N, 1);
        assert_applied(fc_beat(&r->e.c, -1, NULL));
    }
}

TEST(test_what_is_refused)
{
    struct rt *r = rt_new(NULL, ps_sgd(1), 2);
    const float *g = filled(values, RT_N, 1);
    rt_contribute_all(r, 0, 1, 1);
    assert_reply(rt_contribute(r, 0, &r->w, g, 1), PS_FAILED_PRECONDITION, "the second one");
    assert_reply(rt_contribute(r, 1, &r->w, g, 2), PS_FAILED_PRECONDITION,
                 "round 2 has not begun; the one that is collected is 1");
    struct fc_part part = {.op = PS_OP_CONTRIBUTE, .dtype = PS_F32, .total = RT_N, .payload = g, .scale = 1, .round = 1};
    part.handle = r->w.handle;
    part.member = 2;
    part.number = r->m[0].next_number++;
    fc_send_frames(&r->m[0], &part, 0, 0);
    assert_reply(fc_take(&r->m[0], NULL), PS_FAILED_PRECONDITION, "another session's");
    ps_v1_OpenAnswer as_b = r->b;
    as_b.handle = r->w.handle;
    assert_reply(rt_contribute(r, 1, &as_b, g, 1), PS_INVALID_ARGUMENT, "SHAPE_MISMATCH");
    values[12345] = INFINITY;
    assert_reply(rt_contribute(r, 1, &r->w, values, 1), PS_INVALID_ARGUMENT, "element 12345");
    assert_reply(rt_contribute(r, 1, &r->step, g, 1), PS_FAILED_PRECONDITION, "no optimizer");
    assert_int_equal(rt_group(r)->build, PSD_BUILD_NONE);
    rt_prepare(r, 1, both, 2);
    assert_int_equal(rt_group(r)->build, PSD_BUILD_MISSING); /* nothing of all that is there */
    assert_int_equal(rt_group(r)->missing_count, 1);
    assert_int_equal(rt_group(r)->missing[0].member, 2);
    assert_int_equal(rt_group(r)->missing[0].count, 2);
    rt_contribute_all(r, 1, 3, 1); /* and none of it is in the way */
    rt_prepare(r, 1, both, 2);
    rt_commit(r, 1, both, 2);
    assert_floats(rt_variable(r, "w")->value, 0, RT_N, -1);
    assert_int_equal(rt_set_as(r, 0, PSD_SYNC_NONE, NULL), PS_OK);
    assert_reply(rt_contribute(r, 1, &r->w, g, 2), PS_FAILED_PRECONDITION, "not in rounds");
}

TEST(test_too_late)
{
    struct rt *r = rt_new(NULL, ps_sgd(1), 2);
    const float *g = filled(values, RT_N, 1);
    rt_contribute_all(r, 0, 1, 1);
    rt_commit(r, 1, both, 1);
    assert_int_equal(rt_result(rt_contribute(r, 1, &r->w, g, 1)), 1);
    assert_int_equal(rt_result(rt_contribute(r, 1, &r->b, g, 0)), 1);
    rt_contribute_all(r, 0, 1, 2);
    rt_commit(r, 2, both, 1);
    assert_floats(rt_variable(r, "w")->value, 0, RT_N, -1);
    rt_leave(r, 1);
    assert_int_equal(rt_result(rt_contribute(r, 1, &r->w, g, 3)), 1); /* it has lost its place */
    assert_int_equal(rt_result(rt_contribute(r, 1, &r->w, g, 99)), 1);
    assert_int_equal(rt_task(r)->count.pushes_applied, 4); /* none of those that were dropped */
}

/* One that is on its way when its round closes is read to its end, and dropped; the member's next one is as good as any. */
TEST(test_in_progress_at_the_flip)
{
    struct rt *r = rt_new(NULL, ps_sgd(1), 2);
    struct fc_part part = half_of(&r->m[0], PS_OP_CONTRIBUTE, &r->w, 1);
    const uint64_t second[] = {2};
    rt_contribute_all(r, 1, 1, 1);
    rt_commit(r, 1, second, 1);
    rt_contribute_all(r, 1, 1, 2);
    fc_send_part(&r->m[0], &part);
    assert_int_equal(rt_result(fc_take(&r->m[0], NULL)), 1);
    rt_contribute_all(r, 0, 3, 2);
    rt_commit(r, 2, both, 2);
    assert_floats(rt_variable(r, "w")->value, 0, RT_N, -2);
}

/* A member that leaves in the middle of a contribution, and one whose connection breaks there and which goes on. */
TEST(test_in_progress_and_left)
{
    struct rt *r = rt_new(NULL, ps_sgd(1), 2);
    struct fc_part part = half_of(&r->m[0], PS_OP_CONTRIBUTE, &r->w, 1);
    rt_leave(r, 0);
    fc_send_part(&r->m[0], &part);
    assert_int_equal(rt_result(fc_take(&r->m[0], NULL)), 1);
    assert_int_equal(rt_join(r, 0, NULL), PS_OK);
    part = half_of(&r->m[0], PS_OP_CONTRIBUTE, &r->w, 1);
    fc_cut(&r->m[0]);
    struct fc_hello hello;
    fc_hello_default(&r->m[0], &hello);
    hello.unresolved[0] = part.number;
    hello.unresolved_count = 1;
    assert_int_equal(fc_hello(&r->m[0], &hello), PS_OK);
    assert_int_equal(r->m[0].numbers[0].state, PS_NUMBER_IN_PROGRESS);
    assert_int_equal(r->m[0].numbers[0].offset, part.offset);
    fc_send_part(&r->m[0], &part);
    assert_int_equal(rt_result(fc_take(&r->m[0], NULL)), 0);
    part = half_of(&r->m[0], PS_OP_CONTRIBUTE, &r->b, 1);
    assert_reply(fc_take(&r->m[0], NULL), PS_INVALID_ARGUMENT, "SHAPE_MISMATCH");
    assert_int_equal(rt_result(rt_contribute(r, 0, &r->b, values, 1)), 0);
    rt_commit(r, 1, both, 1);
    assert_floats(rt_variable(r, "w")->value, 0, RT_N, -4);
}

TEST(test_abandoned_is_nothing)
{
    struct rt *r = rt_new(NULL, ps_sgd(1), 1);
    struct fc_part part = half_of(&r->m[0], PS_OP_CONTRIBUTE, &r->w, 1);
    assert_applied(fc_abandon(&r->m[0], part.number));
    rt_contribute_all(r, 0, 1, 1);
    rt_commit(r, 1, both, 1);
    assert_floats(rt_variable(r, "w")->value, 0, RT_N, 0);
}

TEST(test_attempts)
{
    static const uint64_t one[] = {1}, other[] = {2};
    struct rt *r = rt_new(in_slices, ps_sgd(1), 2);
    struct psi_err err;
    r->e.t->work_held = true;
    rt_contribute_all(r, 0, 1, 1);
    rt_contribute_all(r, 1, 3, 1);
    rt_prepare(r, 1, both, 2);
    assert_int_equal(rt_order(r, psd_rounds_prepare_here, 1, one, 1, NULL), PS_OK); /* anew, of fewer */
    assert_int_equal(rt_group(r)->build, PSD_BUILD_GOES);
    rt_work(r);
    assert_int_equal(rt_order(r, psd_rounds_prepare_here, 1, one, 1, NULL), PS_OK); /* the same: it is there */
    assert_int_equal(rt_group(r)->build, PSD_BUILD_READY);
    rt_leave(r, 0);
    assert_int_equal(rt_group(r)->build, PSD_BUILD_MISSING);
    assert_int_equal(rt_order(r, psd_rounds_commit_here, 1, one, 1, &err), PS_ABORTED);
    assert_int_equal(err.reason, PS_REASON_LOST);
    assert_int_equal(rt_order(r, psd_rounds_prepare_here, 2, other, 1, &err), PS_ABORTED); /* it has not been in round 1 */
    rt_commit(r, 1, other, 1);
    assert_floats(rt_variable(r, "w")->value, 0, RT_N, -2);
}

TEST(test_rate_from_the_next_prepare)
{
    struct rt *r = rt_new(in_slices, ps_sgd(1), 1);
    rt_contribute_all(r, 0, 1, 1);
    rt_prepare(r, 1, both, 1);
    assert_applied(fc_init_var(&r->e.c, r->w.handle, ps_ones(), ps_sgd(.5), fc_chief(&r->e.c), false));
    rt_commit(r, 1, both, 1);
    assert_floats(rt_variable(r, "w")->value, 0, RT_N, 0);
    rt_contribute_all(r, 0, 1, 2);
    rt_prepare(r, 2, both, 1);
    rt_commit(r, 2, both, 1);
    assert_floats(rt_variable(r, "w")->value, 0, RT_N, -.5F);
}

TEST(test_reset)
{
    struct rt *r = rt_new(in_slices, ps_sgd(1), 1);
    rt_contribute_all(r, 0, 1, 1);
    r->e.t->work_held = true;
    assert_int_equal(rt_order(r, psd_rounds_prepare_here, 1, both, 1, NULL), PS_OK);
    struct fc_part part = half_of(&r->m[0], PS_OP_CONTRIBUTE, &r->w, 99);
    PSI_IGNORE(part);
    assert_applied(fc_reset(&r->e.c, 71, ""));
    assert_null(rt_group(r));
    assert_false(psd_task_has_work(rt_task(r)));
    assert_int_equal(rt_task(r)->store.promised_bytes, 0);
}
