/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a directory has another task do for rounds: TASK_ROUNDS, TASK_JOIN, TASK_LEAVE, PREPARE, BUILD and COMMIT as frames. The
 * test is the directory; a session contributes.
 */
#include "cluster_test.h"

#include "common/mem.h"
#include "psd/rounds/rounds.h"

#include <math.h>

enum { N = 20000, GENERATION = 7 };

static float values[N];

struct ro {
    struct cl *cl;
    struct fc d; /* the directory, which the test is */
    struct fc *c;
    ps_v1_OpenAnswer w;
};

static struct fc_reply order(struct ro *o, uint8_t op, const struct wire *body)
{
    return fc_call(&o->d, op, 0, o->d.next_id++, 0, NULL, 0, body);
}

/* A group's item at the beginning of a body. */
static struct wire *group(uint64_t round, uint64_t generation)
{
    struct wire *body = wire_new();
    ps_v1_RoundsItem g = {.generation = generation, .round = round, .life = 5, .attempt = 1};
    wire_item(body, &ps_v1_RoundsItem_msg, &g);
    return body;
}

static void add_member(struct ro *o, struct wire *body, uint64_t id)
{
    ps_v1_MemberItem m = {.member = id, .task = (uint32_t)id};
    PSI_IGNORE(PSI_BYTES_SET(m.job, "worker")); /* fits */
    m.session.size = sizeof(o->c->session);
    memcpy(m.session.bytes, o->c->session, sizeof(o->c->session));
    wire_item(body, &ps_v1_MemberItem_msg, &m);
}

/* With these members; 0: not that one. */
static struct fc_reply order_with(struct ro *o, uint8_t op, uint64_t round, uint64_t first, uint64_t second)
{
    struct wire *body = group(round, GENERATION);
    const uint64_t ids[] = {first, second};
    for (size_t i = 0; i < 2; i++) {
        if (ids[i] != 0) {
            add_member(o, body, ids[i]);
        }
    }
    return order(o, op, body);
}

static struct wire *rounds_body_as(ps_v1_SyncOptions options, const char *const *names, uint32_t count)
{
    struct wire *body = wire_new();
    ps_v1_RoundsItem g = {.generation = GENERATION, .owner_count = 2, .step = true};
    g.has_options = true;
    g.options = options;
    g.options.workers = 3;
    wire_item(body, &ps_v1_RoundsItem_msg, &g);
    for (uint32_t i = 0; i < 2; i++) {
        ps_v1_TaskItem t = {.task = i};
        PSI_IGNORE(PSI_BYTES_SET(t.job, "ps")); /* fits */
        wire_item(body, &ps_v1_TaskItem_msg, &t);
    }
    for (uint32_t i = 0; i < count; i++) {
        ps_v1_NameItem n = ps_v1_NameItem_init_zero;
        PSI_IGNORE(PSI_BYTES_SET(n.name, names[i])); /* fits */
        wire_item(body, &ps_v1_NameItem_msg, &n);
    }
    return body;
}

static struct wire *rounds_body(uint32_t mode, const char *const *names, uint32_t count)
{
    return rounds_body_as((ps_v1_SyncOptions){.mode = mode}, names, count);
}

/* A variable at ps:1, with a value. */
static ps_v1_OpenAnswer make(struct ro *o, const char *name, ps_dtype dtype, uint64_t elements, const ps_optimizer *optimizer)
{
    ps_v1_CreateItem m;
    ps_v1_OpenAnswer a;
    struct wire *body = wire_new();
    fc_create_item(&m, name, dtype, elements, optimizer);
    wire_item(body, &ps_v1_CreateItem_msg, &m);
    assert_applied(order(o, PS_OP_TASK_CREATE, body));
    assert_int_equal(fc_open(o->c, name, &a), PS_OK);
    assert_applied(fc_init_var(o->c, a.handle, ps_ones(), optimizer, 0, false));
    return a;
}

static struct ro *ro_with(ps_v1_SyncOptions options)
{
    static const char *const names[] = {"global_step", "w"};
    struct ro *o = test_alloc(sizeof(*o));
    o->cl = cl_new_apart();
    o->c = &o->cl->at1;
    fc_init(&o->d, o->cl->ps1, 9);
    o->d.conn = be_the_directory(&o->cl->net, o->cl->ps1, 5);
    shell_forget(o->d.conn);
    o->w = make(o, "w", PS_F32, N, ps_sgd(1));
    PSI_IGNORE(make(o, "global_step", PS_I64, 1, ps_no_optimizer())); /* found by its name */
    assert_applied(order(o, PS_OP_TASK_ROUNDS, rounds_body_as(options, names, 2)));
    for (uint64_t i = 1; i <= 2; i++) {
        assert_applied(order_with(o, PS_OP_TASK_JOIN, 1, i, 0));
    }
    o->cl->ps1->core->config.round_slice_bytes = 1;
    o->cl->ps1->work_held = true;
    return o;
}

static struct ro *ro_new(void)
{
    return ro_with((ps_v1_SyncOptions){.mode = PSD_SYNC_ROUNDS});
}

static const struct psd_rounds *here(const struct ro *o)
{
    return psd_rounds_here(o->cl->ps1->core, PSI_CONTAINER_DEFAULT);
}

static void contribute(struct ro *o, uint64_t member, float value, uint64_t round)
{
    struct fc_part part = {.op = PS_OP_CONTRIBUTE,
                           .dtype = PS_F32,
                           .number = o->c->next_number++,
                           .handle = o->w.handle,
                           .total = N,
                           .payload = filled(values, N, value),
                           .scale = 1,
                           .member = member,
                           .round = round};
    fc_send_frames(o->c, &part, 0, 0);
    struct fc_reply r = fc_take(o->c, NULL);
    assert_applied(r);
    assert_int_equal(r.result[0], 0);
}

static uint32_t work(struct ro *o)
{
    uint32_t slices = 0;
    for (; psd_task_has_work(o->cl->ps1->core); slices++) {
        psd_task_work(o->cl->ps1->core);
        shell_settle(o->cl->ps1);
    }
    shell_run(&o->cl->net);
    return slices;
}

static const float *value(const struct ro *o)
{
    return peek_at(o->cl->ps1, "w").value;
}

/* Both have contributed to it; PREPARE is not answered before all is built, others are meanwhile. */
static void prepare(struct ro *o, uint64_t round)
{
    struct wire *back = wire_new();
    contribute(o, 1, 1, round);
    contribute(o, 2, 3, round);
    uint64_t id = o->d.next_id;
    assert_int_equal(order_with(o, PS_OP_PREPARE, round, 1, 2).status, FC_NONE);
    assert_applied(fc_call(&o->d, PS_OP_BEAT, 0, 999, 0, NULL, 0, NULL));
    assert_true(work(o) >= N * 4 / (16 << 10));
    struct fc_reply r = fc_take(&o->d, back);
    assert_applied(r);
    assert_int_equal(r.h.op, PS_OP_PREPARE);
    assert_int_equal(r.h.id, id);
    assert_int_equal(back->len, 0);
}

static void assert_committed(struct fc_reply r, int64_t step)
{
    int64_t result = 0;
    assert_applied(r);
    assert_int_equal(r.result_bytes, sizeof(result));
    memcpy(&result, r.result, sizeof(result));
    assert_int_equal(result, step);
}

TEST(test_rounds)
{
    struct ro *o = ro_new();
    assert_int_equal(here(o)->owner_count, 2);
    assert_string_equal(here(o)->owners[1].job, "ps");
    assert_int_equal(here(o)->owners[1].task, 1);
    assert_int_equal(here(o)->options.workers, 3);
    for (uint64_t round = 1; round <= 3; round++) {
        prepare(o, round);
        assert_int_equal(here(o)->attempt, 1);
        assert_floats(value(o), 0, N, 3 - 2 * (float)round);
        assert_committed(order_with(o, PS_OP_COMMIT, round, 1, 2), (int64_t)round + 1);
        assert_floats(value(o), 0, N, 1 - 2 * (float)round);
        assert_committed(order_with(o, PS_OP_COMMIT, round, 1, 2), (int64_t)round + 1); /* again */
        assert_applied(order_with(o, PS_OP_PREPARE, round, 1, 2));                      /* late */
    }
    static const char *const names[] = {"global_step", "w"};
    assert_applied(order(o, PS_OP_TASK_ROUNDS, rounds_body(PSD_SYNC_NONE, names, 0)));
    assert_null(here(o));
    assert_reply(order_with(o, PS_OP_PREPARE, 4, 1, 2), PS_ABORTED, "no such rounds");
}

/* An order with both members and a factor. */
static struct fc_reply order_factor(struct ro *o, uint8_t op, uint64_t round, double factor)
{
    struct wire *body = wire_new();
    ps_v1_RoundsItem g = {.generation = GENERATION, .round = round, .life = 5, .attempt = 1, .factor = factor};
    wire_item(body, &ps_v1_RoundsItem_msg, &g);
    add_member(o, body, 1);
    add_member(o, body, 2);
    return order(o, op, body);
}

/* PREPARE is answered with a sum, BUILD with READY; a COMMIT builds what is not built. The average is 2. */
TEST(test_joint_limit)
{
    struct ro *o = ro_with((ps_v1_SyncOptions){.mode = PSD_SYNC_ROUNDS, .max_norm = 100});
    struct wire *back = wire_new();
    ps_v1_PrepareAnswer item;
    for (uint64_t round = 1; round <= 2; round++) {
        contribute(o, 1, 1, round);
        contribute(o, 2, 3, round);
        assert_int_equal(order_with(o, PS_OP_PREPARE, round, 1, 2).status, FC_NONE);
        assert_int_equal(here(o)->build, PSD_BUILD_SUMS);
        assert_true(work(o) >= N * 4 / (16 << 10));
        back->len = 0;
        assert_applied(fc_take(&o->d, back));
        const uint8_t *p = back->data;
        size_t n = back->len;
        assert_true(fc_item(&p, &n, &ps_v1_PrepareAnswer_msg, &item));
        assert_int_equal(item.member, 0);
        assert_int_equal(item.order, here(o)->parts[0].variable->order);
        assert_true(item.squares == 4.0 * N);
        assert_false(fc_item(&p, &n, &ps_v1_PrepareAnswer_msg, &item));
        assert_int_equal(here(o)->build, PSD_BUILD_SUMMED);
        assert_false(psd_task_has_work(o->cl->ps1->core));
        assert_reply(order_factor(o, PS_OP_COMMIT, round, 0), PS_INVALID_ARGUMENT, "factor 0");
        assert_reply(order_factor(o, PS_OP_BUILD, round, 1.5), PS_INVALID_ARGUMENT, "factor 1.5; allowed: above 0, up to 1");
        if (round == 1) {
            assert_int_equal(order_factor(o, PS_OP_BUILD, round, 0.5).status, FC_NONE);
            assert_true(work(o) >= N * 4 / (16 << 10));
            struct fc_reply r = fc_take(&o->d, NULL);
            assert_applied(r);
            assert_int_equal(r.h.op, PS_OP_BUILD);
            assert_int_equal(here(o)->build, PSD_BUILD_READY);
            assert_applied(order_factor(o, PS_OP_BUILD, round, 0.5)); /* again */
            assert_committed(order_factor(o, PS_OP_COMMIT, round, 0.5), 2);
            assert_floats(value(o), 0, N, 0);
            assert_applied(order_factor(o, PS_OP_BUILD, round, 0.5)); /* late */
        }
    }
    assert_int_equal(order_factor(o, PS_OP_COMMIT, 2, 0.25).status, FC_NONE);
    assert_true(work(o) > 0);
    assert_committed(fc_take(&o->d, NULL), 3);
    assert_floats(value(o), 0, N, -0.5F);
    assert_true(here(o)->factor == 0.25F);
}

/* The owner makes the factor of each variable itself: half of the average, whose norm is twice the limit. */
TEST(test_limit_of_each)
{
    struct ro *o = ro_with((ps_v1_SyncOptions){.mode = PSD_SYNC_ROUNDS, .max_norm = sqrt(N), .max_norm_each = true});
    for (uint64_t round = 1; round <= 2; round++) {
        contribute(o, 1, 1, round);
        contribute(o, 2, 3, round);
        if (round == 1) {
            assert_int_equal(order_with(o, PS_OP_PREPARE, round, 1, 2).status, FC_NONE);
            assert_true(work(o) >= 2 * (N * 4 / (16 << 10)));
            assert_applied(fc_take(&o->d, NULL));
            assert_int_equal(here(o)->build, PSD_BUILD_READY);
            assert_reply(order_factor(o, PS_OP_BUILD, round, 0.5), PS_INVALID_ARGUMENT, "factor");
        } else {
            assert_int_equal(order_with(o, PS_OP_PREPARE, round, 1, 2).status, FC_NONE);
            assert_reply(order_with(o, PS_OP_COMMIT, round, 1, 2), PS_ABORTED, "another order"); /* of PREPARE: it is decided */
            assert_true(work(o) > 0);
        }
        assert_committed(round == 1 ? order_with(o, PS_OP_COMMIT, round, 1, 2) : fc_take(&o->d, NULL), (int64_t)round + 1);
        assert_floats(value(o), 0, N, 1 - (float)round);
    }
}

TEST(test_missing)
{
    struct ro *o = ro_new();
    ps_v1_PrepareAnswer item;
    struct wire *back = wire_new();
    contribute(o, 1, 1, 1);
    struct wire *body = group(1, GENERATION);
    for (uint64_t id = 1; id <= 3; id++) {
        add_member(o, body, id);
    }
    struct wire *w = wire_new();
    fc_frame(&o->d, w, PS_OP_PREPARE, 0, 70, 0, NULL, 0, body);
    shell_send(o->d.conn, w);
    assert_applied(fc_take(&o->d, back));
    const uint8_t *p = back->data;
    size_t n = back->len;
    assert_true(fc_item(&p, &n, &ps_v1_PrepareAnswer_msg, &item));
    assert_int_equal(item.member, 2);
    assert_int_equal(item.count, 1);
    assert_true(item.name.size == 1 && item.name.bytes[0] == 'w');
    assert_true(fc_item(&p, &n, &ps_v1_PrepareAnswer_msg, &item));
    assert_int_equal(item.member, 3); /* is not known */
    assert_int_equal(item.name.size, 0);
    assert_false(fc_item(&p, &n, &ps_v1_PrepareAnswer_msg, &item));
    assert_reply(order_with(o, PS_OP_COMMIT, 1, 1, 2), PS_ABORTED, "lacks");
    assert_int_equal(order_with(o, PS_OP_COMMIT, 1, 1, 0).status, FC_NONE); /* not prepared: it is built first */
    assert_true(work(o) > 0);
    assert_committed(fc_take(&o->d, NULL), 2);
    assert_floats(value(o), 0, N, 0);
}

/* An owner without memory ends a group all the same: for the directory the group has ended there, whatever the answer says. */
TEST(test_the_end_takes_no_memory)
{
    bool fired = true;
    for (int64_t n = 0; fired; n++) {
        struct ro *o = ro_new();
        struct wire *body = group(0, GENERATION);
        assert_non_null(here(o));
        psi_mem_fail_after(n);
        const struct fc_reply r = order(o, PS_OP_TASK_ROUNDS, body);
        fired = psi_mem_fail_left() == -1;
        psi_mem_fail_after(-1);
        assert_true(r.status == PS_OK || (fired && r.status == FC_NONE)); /* without memory for the answer the connection ends */
        assert_true(here(o) == NULL || r.status == FC_NONE);
    }
}

/* TASK_ROUNDS in frames of one item each. */
TEST(test_list_goes_on)
{
    enum { NAMES = 50 };
    struct ro *o = ro_new();
    char text[NAMES + 1][8] = {""};
    const char *names[NAMES + 1] = {"global_step", "w"};
    for (uint32_t i = 2; i <= NAMES; i++) {
        PSI_IGNORE(snprintf(text[i], sizeof(text[i]), "v%u", i)); /* fits */
        names[i] = text[i];
        PSI_IGNORE(make(o, text[i], PS_F32, 1, ps_sgd(1))); /* found by its name */
    }
    assert_applied(order(o, PS_OP_TASK_ROUNDS, rounds_body(PSD_SYNC_NONE, names, 0)));
    const struct wire *all = rounds_body(PSD_SYNC_ROUNDS, names, NAMES + 1);
    uint64_t id = o->d.next_id++;
    for (size_t at = 0; at < all->len;) {
        struct wire *body = wire_new();
        size_t bytes = 1u + all->data[at];
        assert_null(here(o));
        wire_append(body, all->data + at, bytes);
        at += bytes;
        struct fc_reply r = fc_call(&o->d, PS_OP_TASK_ROUNDS, at < all->len ? PS_FLAG_MORE : 0, id, 0, NULL, 0, body);
        assert_int_equal(r.status, at < all->len ? FC_NONE : PS_OK);
    }
    assert_int_equal(here(o)->part_count, NAMES);
    assert_int_equal(here(o)->owner_count, 2);
    assert_string_equal(here(o)->step->name, "global_step");
}

/* What is half here goes with its connection; a list that another order interrupts, and one of bad bytes, end theirs. */
TEST(test_list_ends_early)
{
    static const char *const names[] = {"global_step", "w"};
    static const uint8_t bad[] = {9, 1};
    struct ro *o = ro_new();
    assert_applied(order(o, PS_OP_TASK_ROUNDS, rounds_body(PSD_SYNC_NONE, names, 0)));
    struct wire *first = rounds_body(PSD_SYNC_ROUNDS, names, 1);
    for (uint64_t life = 6; life <= 8; life++) {
        assert_int_equal(fc_call(&o->d, PS_OP_TASK_ROUNDS, PS_FLAG_MORE, 70, 0, NULL, 0, first).status, FC_NONE);
        if (life == 6) {
            shell_cut(o->d.conn);
        } else {
            struct wire *next = wire_new();
            wire_append(next, bad, life == 7 ? 0 : sizeof(bad));
            struct fc_reply r = fc_call(&o->d, PS_OP_TASK_ROUNDS, PS_FLAG_MORE, life == 7 ? 71 : 70, 0, NULL, 0, next);
            assert_int_equal(r.h.op, PS_OP_CLOSE);
            assert_int_equal(r.h.offset, PS_INVALID_ARGUMENT);
            assert_non_null(strstr(r.text, life == 7 ? "has no end" : "an item of 9 bytes"));
        }
        o->d.conn = be_the_directory(&o->cl->net, o->cl->ps1, life);
        shell_forget(o->d.conn);
        assert_null(here(o));
    }
    assert_applied(order(o, PS_OP_TASK_ROUNDS, rounds_body(PSD_SYNC_ROUNDS, names, 2)));
    assert_int_equal(here(o)->part_count, 1);
}

/* A new PREPARE, PREPARE without members, a member that leaves, and a connection that ends: what was asked before ends. */
TEST(test_overtaken)
{
    struct ro *o = ro_new();
    contribute(o, 1, 1, 1);
    contribute(o, 2, 3, 1);
    assert_int_equal(order_with(o, PS_OP_PREPARE, 1, 1, 2).status, FC_NONE);
    assert_reply(order_with(o, PS_OP_PREPARE, 1, 1, 0), PS_ABORTED, "another order");
    assert_int_equal(fc_take(&o->d, NULL).status, FC_NONE);
    assert_reply(order_with(o, PS_OP_PREPARE, 1, 0, 0), PS_ABORTED, "another order");
    assert_applied(fc_take(&o->d, NULL));
    assert_int_equal(here(o)->build, PSD_BUILD_NONE);
    assert_false(psd_task_has_work(o->cl->ps1->core));
    const struct psd_container *in = psd_container_find(&o->cl->ps1->core->store, PSI_CONTAINER_DEFAULT);
    assert_false(psd_variable_is_built(psd_variable_find(in, "w")));
    assert_int_equal(order_with(o, PS_OP_PREPARE, 1, 1, 2).status, FC_NONE);
    struct wire *back = wire_new();
    struct wire *body = group(0, GENERATION), *w = wire_new();
    add_member(o, body, 1);
    fc_frame(&o->d, w, PS_OP_TASK_LEAVE, 0, 80, 0, NULL, 0, body);
    shell_send(o->d.conn, w);
    struct fc_reply r = fc_take(&o->d, back); /* what was prepared lacks it now */
    assert_applied(r);
    assert_int_equal(r.h.op, PS_OP_PREPARE);
    assert_true(back->len > 0);
    assert_applied(fc_take(&o->d, NULL));
    assert_int_equal(order_with(o, PS_OP_PREPARE, 1, 2, 0).status, FC_NONE);
    shell_cut(o->d.conn);
    assert_true(work(o) > 0); /* it goes on: the next directory may ask for the same */
    assert_int_equal(here(o)->build, PSD_BUILD_READY);
    o->d.conn = be_the_directory(&o->cl->net, o->cl->ps1, 6);
    shell_forget(o->d.conn);
    assert_committed(order_with(o, PS_OP_COMMIT, 1, 2, 0), 2);
    assert_floats(value(o), 0, N, -2);
}

TEST(test_bad_orders)
{
    static const uint8_t ops[] = {PS_OP_TASK_ROUNDS, PS_OP_TASK_JOIN, PS_OP_TASK_LEAVE, PS_OP_PREPARE, PS_OP_BUILD, PS_OP_COMMIT};
    static const uint8_t bad[] = {3, 0x0a, 0x7f, 1};
    struct ro *o = ro_new();
    for (size_t i = 0; i < ARRAY_COUNT(ops); i++) {
        struct wire *body = wire_new();
        assert_reply(order(o, ops[i], body), PS_INVALID_ARGUMENT, "names no group");
        wire_append(body, bad, sizeof(bad));
        assert_reply(order(o, ops[i], body), PS_INVALID_ARGUMENT, "overflow");
        body = group(1, GENERATION);
        wire_append(body, bad, sizeof(bad));
        assert_reply(order(o, ops[i], body), PS_INVALID_ARGUMENT, "");
    }
    assert_reply(order(o, PS_OP_TASK_JOIN, group(1, GENERATION)), PS_INVALID_ARGUMENT, "names no member");
    struct wire *body = group(1, GENERATION + 1);
    add_member(o, body, 9);
    assert_reply(order(o, PS_OP_TASK_JOIN, body), PS_ABORTED, "others");
    assert_reply(order(o, PS_OP_COMMIT, body), PS_ABORTED, "others");
    assert_applied(order(o, PS_OP_TASK_LEAVE, body)); /* it is not there: so be it */
    assert_reply(order_with(o, PS_OP_PREPARE, 3, 1, 2), PS_ABORTED, "has committed round 0");
    body = group(1, GENERATION);
    for (uint64_t i = 1; i <= PS_MEMBERS_MAX + 1; i++) {
        add_member(o, body, i);
    }
    assert_reply(order(o, PS_OP_PREPARE, body), PS_INVALID_ARGUMENT, "more than");
    static const char *const names[] = {"global_step", "nothing"};
    body = rounds_body(PSD_SYNC_ROUNDS, names, 2);
    assert_applied(order(o, PS_OP_TASK_ROUNDS, body)); /* the same generation: nothing changes */
    assert_applied(order(o, PS_OP_TASK_ROUNDS, rounds_body(PSD_SYNC_NONE, names, 0)));
    assert_reply(order(o, PS_OP_TASK_ROUNDS, body), PS_NOT_FOUND, "'nothing'");
    ps_v1_RoundsItem g = {.generation = GENERATION, .owner_count = 3};
    g.has_options = true;
    g.options.mode = PSD_SYNC_ROUNDS;
    body = wire_new();
    wire_item(body, &ps_v1_RoundsItem_msg, &g);
    assert_reply(order(o, PS_OP_TASK_ROUNDS, body), PS_INVALID_ARGUMENT, "owners of the group are missing");
}
