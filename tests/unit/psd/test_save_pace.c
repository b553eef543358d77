/* SPDX-License-Identifier: Apache-2.0 */
/* psd/checkpoint/shards_pace.c: beside requests a cut goes to the disk at a rate, otherwise as fast as that takes it
 * (DURABILITY 1.4). */
#include "save_test.h"

#include "task_test.h"

#include "psd/checkpoint/saver.h"
#include "psd/state.h"
#include "psd/store/cut_internal.h"

enum { BLOCK = 64 << 10, BLOCKS = 32, N = BLOCKS * BLOCK / 4, TICK_MS = 50 };

static float values[N], got[N];

static struct sv *begin(shell_tweak tweak, ps_v1_OpenAnswer *w)
{
    struct sv *sv = sv_new_bare(false, false, tweak);
    PSI_IGNORE(sv_join(sv)); /* the connection stays with the tasks */
    *w = fc_ready(&sv->c, "w", PS_F32, N, ps_sgd(1), 1);
    return sv;
}

/* Some 20 blocks a second. */
static void slow(struct psd_task_config *config)
{
    sv_with_disk(config);
    config->cut_pace_bytes = 20 * BLOCK;
}

static void slow_by_steps(struct psd_task_config *config)
{
    slow(config);
    config->cut_pace_bytes = 1;
    config->checkpoint_steps = 1000000;
}

static void slow_by_time(struct psd_task_config *config)
{
    slow(config);
    config->cut_pace_bytes = 1;
    config->checkpoint_seconds = 4;
}

static bool is_written(const struct sv *sv)
{
    return sv->t[0]->core->shards->stage == PSD_SHARDS_NONE;
}

/* Time passes until the checkpoint is there, with a pull in between each two ticks, or without. Returns the ticks. */
static int ticks(struct sv *sv, const ps_v1_OpenAnswer *w, bool serves)
{
    int n = 0;
    sv_run(sv);
    for (; !is_written(sv); n++) {
        assert_in_range(n, 0, 1000);
        if (serves) {
            assert_applied(fc_pull(&sv->c, w, 0, 4, got));
        }
        shell_pass(&sv->net, TICK_MS);
        sv_run(sv);
    }
    return n;
}

static void serve(struct sv *sv, const ps_v1_OpenAnswer *w)
{
    assert_applied(fc_pull(&sv->c, w, 0, 4, got));
    shell_pass(&sv->net, TICK_MS);
}

TEST(test_beside_requests_at_its_rate)
{
    ps_v1_OpenAnswer w;
    struct sv *sv = begin(slow, &w);
    serve(sv, &w);
    sv_ask(sv);
    assert_in_range(ticks(sv, &w, true), BLOCKS - 8, BLOCKS + 8); /* one at each */
    struct fc_reply r = fc_take(&sv->c, NULL);
    assert_int_equal(sv_number(&r), 1);
}

/* How far it is, within a task, and of the one that only its task knows of. */
TEST(test_how_far_it_is)
{
    ps_v1_OpenAnswer w;
    ps_v1_CheckpointAnswer a[2];
    struct sv *sv = begin(slow, &w);
    uint32_t last = 0;
    serve(sv, &w);
    sv_ask(sv);
    sv_run(sv);
    for (int i = 0; !is_written(sv); i++) {
        assert_in_range(i, 0, 2 * BLOCKS);
        assert_int_equal(sv_list(sv, a, 2), 1);
        assert_true(a[0].state == PS_CHECKPOINT_WRITING && a[0].share > 500000); /* half of it: the other one has nothing */
        assert_in_range(a[0].share, last, 1000001);
        assert_true(i % 8 != 7 || a[0].share > last); /* one block at each tick */
        last = i % 8 == 7 ? a[0].share : last;
        serve(sv, &w);
        sv_run(sv);
    }
    assert_true(last > 850000);
    PSI_IGNORE(fc_take(&sv->c, NULL)); /* it is saved */
    assert_int_equal(sv_list(sv, a, 2), 1);
    assert_true(a[0].state == PS_CHECKPOINT_WHOLE && a[0].share == 0);
}

TEST(test_at_once_where_nobody_is_served)
{
    ps_v1_OpenAnswer w;
    struct sv *sv = begin(slow, &w);
    shell_pass(&sv->net, TICK_MS); /* the model was made before it */
    shell_pass(&sv->net, TICK_MS);
    sv_ask(sv);
    assert_int_equal(ticks(sv, &w, false), 0);
    struct fc_reply r = fc_take(&sv->c, NULL);
    assert_int_equal(sv_number(&r), 1);
    serve(sv, &w);
    sv_ask(sv);
    assert_in_range(ticks(sv, &w, false), 1, 2); /* from the next tick on nobody is */
}

TEST(test_at_once_where_a_task_ends)
{
    ps_v1_OpenAnswer w;
    struct sv *sv = begin(slow, &w);
    serve(sv, &w);
    sv_ask(sv);
    sv_run(sv);
    assert_false(is_written(sv));
    sv->t[0]->core->saver->hurries = true; /* no directory tells it: the attempt is over there, or it does not hear of the end */
    psd_task_drain(sv->t[0]->core);
    shell_settle(sv->t[0]);
    assert_applied(fc_pull(&sv->c, &w, 0, 4, got)); /* others still use it */
    shell_task_tick(sv->t[0], sv->t[0]->now + TICK_MS);
    sv_run(sv);
    assert_true(is_written(sv));
}

/* One alone is told to end while the others keep their pace: from there on they hurry, too. */
TEST(test_at_once_where_another_task_ends)
{
    for (uint32_t ends = 0; ends < 2; ends++) {
        ps_v1_CreateItem m;
        ps_v1_OpenAnswer w, v;
        struct fc at;
        struct sv *sv = begin(slow, &w);
        uint32_t other = 1 - ends;
        if (other == 1) {
            fc_create_item(&m, "v", PS_F32, N, ps_sgd(1));
            m.task = 1;
            assert_int_equal(fc_create(&sv->c, &m, NULL), PS_OK);
            fc_init(&at, sv->t[1], 2);
            assert_int_equal(fc_connect(&at), PS_OK);
            assert_int_equal(fc_open(&at, "v", &v), PS_OK);
            assert_applied(fc_init_var(&at, v.handle, ps_zeros(), ps_sgd(1), 0, false));
            assert_reply(fc_seal(&at, v.handle, v.creation, 0), PS_OK, "");
        }
        shell_pass(&sv->net, TICK_MS);
        sv_ask(sv);
        sv_run(sv);
        assert_true(sv->t[other]->core->shards->stage == PSD_SHARDS_WRITES);
        psd_task_drain(sv->t[ends]->core);
        shell_settle(sv->t[ends]);
        sv_run(sv);
        assert_true(sv_has(sv, other, 1, PSD_DISK_STATE));
        assert_true(sv_is_whole(sv, 1));
    }
}

/* It has written its part, and its answer is on its way: the part stays as it is, and of that instant. */
TEST(test_told_to_hurry_when_it_is_done)
{
    ps_v1_OpenAnswer w;
    struct sv *sv = begin(slow, &w);
    struct psd_task *first = sv->t[0]->core, *other = sv->t[1]->core;
    struct psi_err err;
    sv->disks[0].held = true;
    sv_ask(sv);
    sv_run(sv);
    assert_true(sv_has(sv, 1, 1, PSD_DISK_STATE) && other->shards->stage == PSD_SHARDS_NONE);
    first->saver->peers[1].done = false;
    sv->disks[1].held = true;
    psd_task_drain(first);
    shell_settle(sv->t[0]);
    sv_run(sv);
    assert_true(first->saver->hurries);
    assert_int_equal(other->shards->stage, PSD_SHARDS_NONE);
    assert_int_equal(psd_shards_cut_here(other, 1, false, 0, &err), PS_UNAVAILABLE);
    sv->disks[0].held = sv->disks[1].held = false;
    first->saver->peers[1].done = true;
    sv_run(sv);
    assert_true(sv_is_whole(sv, 1));
}

TEST(test_at_once_where_it_hurries)
{
    ps_v1_OpenAnswer w;
    struct sv *sv = begin(slow, &w);
    struct psi_err err;
    serve(sv, &w);
    assert_ok(psd_shards_cut_here(sv->t[0]->core, 1, true, 0, &err), &err);
    shell_settle(sv->t[0]);
    sv_run(sv);
    assert_true(is_written(sv));
}

/* Pushes wait for memory: until half of it is free the disk takes what it can. */
TEST(test_at_once_where_memory_is_full)
{
    ps_v1_OpenAnswer w;
    struct sv *sv = begin(slow, &w);
    struct psd_task *core = sv->t[0]->core;
    core->config.checkpoint_memory_bytes = 1 << 20; /* the least, of 2 MiB */
    serve(sv, &w);
    sv->disks[0].held = true;
    sv_ask(sv);
    sv_run(sv);
    assert_int_equal(fc_push(&sv->c, PS_OP_PUSH, &w, filled(values, N, 1), 1, 0).status, FC_NONE);
    assert_true(psd_cut_is_full(&core->store));
    sv->disks[0].held = false;
    sv_run(sv);
    assert_applied(fc_take(&sv->c, NULL)); /* no tick was needed */
    assert_false(is_written(sv));
    assert_in_range(psd_cut_held_bytes(&core->store), 1, 1 << 19);
    assert_in_range(ticks(sv, &w, true), 1, 12);
}

/* From three quarters of the memory on, until half of it is free, before any push waits. */
TEST(test_at_once_where_memory_is_nearly_full)
{
    ps_v1_OpenAnswer w;
    struct sv *sv = begin(slow, &w);
    struct psd_task *core = sv->t[0]->core;
    const uint64_t half = core->config.checkpoint_memory_bytes / 2;
    serve(sv, &w);
    sv->disks[0].held = true;
    sv_ask(sv);
    sv_run(sv);
    const uint64_t held = psd_cut_held_bytes(&core->store);
    assert_in_range(held, 1, half);
    core->shards->pace.allowance = 0;
    core->shards->pace.serves = true;
    assert_false(psd_shards_pace_lets(core));
    psd_cut_hold(core->store.cut, half + half / 2 - held);
    assert_false(psd_shards_pace_lets(core));
    psd_cut_hold(core->store.cut, 1);
    assert_false(psd_cut_is_full(&core->store));
    assert_true(psd_shards_pace_lets(core));
    psd_cut_let_go(core->store.cut, half / 2);
    assert_true(psd_shards_pace_lets(core));
    psd_cut_let_go(core->store.cut, 1);
    assert_false(psd_shards_pace_lets(core));
    psd_cut_let_go(core->store.cut, half - held);
    sv->disks[0].held = false;
    sv_run(sv);
}

/* Half of the time to the next one is enough for all of it. */
TEST(test_before_the_next_one)
{
    static const shell_tweak tweaks[] = {slow_by_time, slow_by_steps};
    for (size_t i = 0; i < ARRAY_COUNT(tweaks); i++) {
        ps_v1_OpenAnswer w;
        struct sv *sv = begin(tweaks[i], &w);
        struct psd_task *core = sv->t[0]->core;
        sv_ask(sv);
        PSI_IGNORE(ticks(sv, &w, false));
        PSI_IGNORE(fc_take(&sv->c, NULL)); /* the first one */
        uint64_t every = 4000;
        while (core->now_ms - core->shards->pace.begun_ms < every) {
            serve(sv, &w);
            sv_run(sv);
        }
        PSI_IGNORE(ticks(sv, &w, true)); /* by time it has begun by itself */
        core->shards->pace.begun_ms = core->now_ms - every;
        sv_ask(sv);
        assert_in_range(ticks(sv, &w, true), 10, 2000 / TICK_MS + 2);
    }
}
