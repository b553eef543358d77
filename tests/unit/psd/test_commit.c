/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes as bytes: every kind is encoded, and replayed gives the same again (the simulator compares field by field); a change
 * that is cut anywhere is not carried out, and neither it nor one with a bit flipped does harm.
 */
#include "change_code.h"
#include "task_test.h"

#include "psd/rounds/rounds.h"

enum { LARGE = 20000, CHANGES_MAX = 256, KINDS = PSD_CHANGE_ROUND_FLIP + 1 };

static const char spec[] = "ps=10.0.0.1:1;worker=10.0.0.3:3"; /* the worker never comes: it is owed resets */

struct log {
    struct psi_buf bytes;
    size_t at[CHANGES_MAX + 1]; /* where a change begins; the last one: where the next would */
    uint32_t count, of_kind[KINDS];
};

static void hear(void *ctx, uint64_t position, const struct psd_change *c)
{
    struct log *log = ctx;
    assert_int_equal(position, log->count + 1);
    assert_in_range(log->count, 0, CHANGES_MAX - 1);
    assert_int_equal(psd_change_encode(c, &log->bytes, NULL), PS_OK);
    log->at[++log->count] = log->bytes.len;
    log->of_kind[c->kind]++;
}

static struct shell_task *task_new(struct shell_net *net)
{
    ps_status st = PS_OK;
    struct shell_task *t = shell_task_new(net, spec, "ps", 0, 42, START_MS, NULL, &st);
    assert_int_equal(st, PS_OK);
    return t;
}

static ps_v1_OpenAnswer atomic_ready(struct fc *c)
{
    ps_v1_CreateItem m;
    ps_v1_OpenAnswer v;
    fc_create_item(&m, "atomic", PS_F32, 100, ps_adam(0.1));
    m.atomic = true;
    assert_int_equal(fc_create(c, &m, NULL), PS_OK);
    assert_int_equal(fc_open(c, "atomic", &v), PS_OK);
    assert_applied(fc_init_var(c, v.handle, ps_ones(), ps_adam(0.1), 0, false));
    return v;
}

/* The first of two frames: it stays in progress. */
static void begin_large(struct fc *c, const ps_v1_OpenAnswer *v, const float *values)
{
    struct fc_part part = {.op = PS_OP_PUSH,
                           .dtype = PS_F32,
                           .number = c->next_number++,
                           .handle = v->handle,
                           .total = LARGE,
                           .payload = values,
                           .payload_bytes = SEGMENT,
                           .scale = 1,
                           .first = true};
    fc_send_part(c, &part);
}

/* A contribution of member 1, which is c, all of it or its first segment. */
static struct fc_reply contribute(struct fc *c, const ps_v1_OpenAnswer *v, const float *values, uint64_t round, bool all)
{
    struct fc_part part = {.op = PS_OP_CONTRIBUTE,
                           .dtype = PS_F32,
                           .number = c->next_number++,
                           .handle = v->handle,
                           .total = LARGE,
                           .payload = values,
                           .payload_bytes = SEGMENT,
                           .scale = 1,
                           .first = true,
                           .member = 1,
                           .round = round};
    if (all) {
        fc_send_frames(c, &part, 0, 0);
    } else {
        fc_send_part(c, &part);
    }
    return fc_take(c, NULL);
}

/* A group of this variable and two members, one round, and half a contribution to the next. */
static void rounds(struct psd_task *t, struct fc *c, const ps_v1_OpenAnswer *v, const float *values)
{
    static const char *const names[] = {"w"};
    static const struct psd_owner owners[] = {{.job = "ps", .task = 0}, {.job = "worker", .task = 0}};
    static const uint64_t members[] = {1};
    struct psd_rounds_spec group = {.container = PSI_CONTAINER_DEFAULT,
                                    .generation = 7,
                                    .options = {.mode = PSD_SYNC_ROUNDS, .workers = 2, .replicas = 1},
                                    .names = names,
                                    .name_count = 1,
                                    .owners = owners,
                                    .owner_count = 2};
    assert_int_equal(psd_rounds_set_here(t, &group, NULL), PS_OK);
    for (uint32_t i = 1; i <= 2; i++) {
        struct psd_member_spec m = {.id = i, .session = c->session, .job = "worker", .task = i};
        assert_int_equal(psd_rounds_join_here(t, group.container, group.generation, &m, NULL), PS_OK);
    }
    assert_applied(contribute(c, v, values, 1, true));
    struct psd_round_spec round = {
        .container = group.container, .generation = group.generation, .round = 1, .members = members, .member_count = 1};
    assert_int_equal(psd_rounds_commit_here(t, &round, NULL), PS_OK);
    psd_rounds_leave_here(t, group.container, group.generation, 2, 0, false);
    assert_int_equal(contribute(c, v, values, 2, false).status, FC_NONE);
}

/* Changes of all kinds but those of queues, which have a test of their own. */
static void live(struct shell_net *net, struct log *log)
{
    static float values[LARGE];
    struct fc c, other;
    struct shell_task *t = task_new(net);
    memset(log, 0, sizeof(*log));
    psi_buf_init(&log->bytes, 1 << 24);
    psd_task_consumer(t->core, hear, log);
    fc_init(&c, t, 1);
    fc_init(&other, t, 2);
    assert_int_equal(fc_connect(&c), PS_OK);
    assert_int_equal(fc_connect(&other), PS_OK);
    assert_applied(fc_call(&other, PS_OP_GOODBYE, 0, 1, 0, NULL, 0, NULL));
    uint64_t chief = fc_chief(&c);
    ps_v1_OpenAnswer w = fc_ready(&c, "w", PS_F32, LARGE, ps_adagrad(0.5), 1);
    ps_v1_OpenAnswer a = atomic_ready(&c);
    assert_applied(fc_seal(&c, w.handle, w.creation, chief));
    assert_applied(fc_push(&c, PS_OP_PUSH, &a, filled(values, LARGE, 1), 1, 0));
    assert_applied(fc_push(&c, PS_OP_ASSIGN, &a, values, 1, 0));
    assert_reply(fc_push(&c, PS_OP_PUSH, &w, values, -1, 0), PS_INVALID_ARGUMENT, "scale");
    PSI_IGNORE(fc_abandon(&c, c.next_number++)); /* its answer is tested elsewhere */
    assert_applied(fc_delete(&c, 70, "atomic"));
    t->core->config.round_slice_bytes = 1;
    const ps_v1_OpenAnswer lamb = fc_ready(&c, "lamb", PS_F32, LARGE, ps_optimizer_standard(PS_OPT_LAMB, 0.5), 1);
    const ps_v1_OpenAnswer lars = fc_ready(&c, "lars", PS_F32, LARGE, ps_optimizer_standard(PS_OPT_LARS, 0.5), 1);
    assert_applied(fc_push(&c, PS_OP_PUSH, &lamb, values, 1, 0)); /* this and the next: in slices */
    assert_applied(fc_push(&c, PS_OP_PUSH, &lars, values, 1, 0));
    t->core->config.round_slice_bytes = PS_ROUND_SLICE_BYTES;
    assert_applied(fc_delete(&c, 69, "lamb"));
    assert_applied(fc_delete(&c, 68, "lars"));
    rounds(t->core, &c, &w, values);
    assert_int_equal(psd_rounds_set_here(t->core, &(struct psd_rounds_spec){.container = PSI_CONTAINER_DEFAULT}, NULL), PS_OK);
    assert_reply(contribute(&c, &w, values, 2, true), PS_FAILED_PRECONDITION, "not in rounds");
    rounds(t->core, &c, &w, values);
    assert_reply(fc_reset(&c, 71, ""), PS_ABORTED, "reset or deleted"); /* the first group's contribution */
    assert_reply(fc_take(&c, NULL), PS_ABORTED, "reset or deleted");    /* the other one's */
    assert_applied(fc_take(&c, NULL));
    w = fc_ready(&c, "w", PS_F32, LARGE, ps_adagrad(0.5), 1);
    begin_large(&c, &w, values);
    for (uint32_t i = 1; i < KINDS; i++) {
        bool of_queues = i >= PSD_CHANGE_ENQUEUE && i <= PSD_CHANGE_WORK_END;
        if (log->of_kind[i] == 0 && !of_queues) {
            fail_msg("no change of kind %u", i);
        }
    }
}

/* The first `count` changes, in a task of its own. */
static struct shell_task *replayed(struct shell_net *net, const struct log *log, uint32_t count)
{
    struct shell_task *t = task_new(net);
    const uint8_t *p = log->bytes.data;
    size_t n = log->at[count];
    while (n > 0) {
        assert_int_equal(psd_replay(t->core, &p, &n, NULL), PS_OK);
    }
    assert_int_equal(t->core->position, count);
    return t;
}

static void drop(struct shell_task *t)
{
    psd_store_check_invariants(&t->core->store);
    shell_task_free(t);
}

TEST(test_all_kinds_are_replayed)
{
    struct shell_net net;
    struct log log;
    shell_net_init(&net);
    live(&net, &log);
    struct shell_task *t = replayed(&net, &log, log.count);
    const struct psd_task *a = net.tasks[0]->core, *b = t->core;
    assert_int_equal(a->position, b->position);
    assert_same_chiefs(a, b);
    assert_int_equal(b->progress_count, 1);
    struct peek before = peek_at(net.tasks[0], "w"), after = peek_at(t, "w");
    assert_int_equal(before.creation, after.creation);
    assert_memory_equal(before.value, after.value, before.bytes);
    shell_net_fini(&net);
    psi_buf_fini(&log.bytes);
}

TEST(test_cut_anywhere)
{
    struct shell_net net;
    struct log log;
    shell_net_init(&net);
    live(&net, &log);
    struct shell_task *t = task_new(&net);
    for (uint32_t i = 0; i < log.count; i++) {
        size_t whole = log.at[i + 1] - log.at[i];
        const uint8_t *p = log.bytes.data + log.at[i];
        for (size_t n = 0; n < whole; n += n < 400 ? 1 : 997) {
            size_t left = n;
            assert_int_equal(psd_replay(t->core, &p, &left, NULL), PS_DATA_LOSS);
            assert_int_equal(t->core->position, i);
        }
        assert_int_equal(psd_replay(t->core, &p, &whole, NULL), PS_OK);
    }
    drop(t);
    shell_net_fini(&net);
    psi_buf_fini(&log.bytes);
}

/* It is refused, or means another change that is a legal one. */
TEST(test_flipped_bits)
{
    struct shell_net net;
    struct log log;
    shell_net_init(&net);
    live(&net, &log);
    uint32_t refused = 0;
    for (uint32_t i = 0; i < log.count; i++) {
        struct shell_task *t = replayed(&net, &log, i);
        size_t whole = log.at[i + 1] - log.at[i];
        for (size_t at = 0; at < whole && at < 300; at++) {
            uint8_t *byte = log.bytes.data + log.at[i] + at;
            uint8_t bit = (uint8_t)(1u << (at * 3 % 8));
            const uint8_t *p = log.bytes.data + log.at[i];
            size_t n = whole;
            *byte ^= bit;
            ps_status st = psd_replay(t->core, &p, &n, NULL);
            *byte ^= bit;
            refused += st != PS_OK;
            assert_int_equal(t->core->position, i + (st == PS_OK));
            if (st == PS_OK) {
                drop(t);
                t = replayed(&net, &log, i);
            }
        }
        drop(t);
    }
    assert_in_range(refused, 500, UINT32_MAX);
    shell_net_fini(&net);
    psi_buf_fini(&log.bytes);
}
