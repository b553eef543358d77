/* SPDX-License-Identifier: Apache-2.0 */
/* When checkpoints are made by themselves where no program says a global step (psd/checkpoint/saver_when.c, DURABILITY 6.8). */
#include "save_test.h"

#include "task_test.h"

static void by_time(struct psd_task_config *config)
{
    sv_with_disk(config);
    config->checkpoint_seconds = 20;
}

/* w is the other task's; the client of that one. */
static struct sv *begin(struct fc *other, ps_v1_OpenAnswer *w)
{
    ps_v1_CreateItem m;
    struct sv *sv = sv_new_bare(false, false, by_time);
    PSI_IGNORE(sv_join(sv)); /* it stays with the tasks */
    PSI_IGNORE(fc_ready(&sv->c, "v", PS_F32, 4, ps_sgd(1), 1));
    fc_create_item(&m, "w", PS_F32, 4, ps_sgd(1));
    m.task = 1;
    assert_int_equal(fc_create(&sv->c, &m, NULL), PS_OK);
    fc_init(other, sv->t[1], 5);
    assert_int_equal(fc_connect(other), PS_OK);
    assert_int_equal(fc_open(other, "w", w), PS_OK);
    assert_applied(fc_init_var(other, w->handle, ps_constant(1), ps_sgd(1), 0, false));
    return sv;
}

static void beat(struct fc *c, uint64_t ready)
{
    uint8_t meta[PS_META_BYTES_MAX] = {0};
    size_t bytes = 0;
    ps_v1_Beat m = {.ready = ready};
    assert_int_equal(psi_msg_encode(&ps_v1_Beat_msg, &m, meta, sizeof(meta), &bytes, NULL), PS_OK);
    assert_applied(fc_call(c, PS_OP_BEAT, 0, c->next_id++, 0, meta, (uint32_t)psi_pad8((uint32_t)bytes), NULL));
}

static void pass(struct sv *sv, struct fc *other, uint64_t ms, uint64_t ready)
{
    for (uint64_t i = 0; i < ms; i += 1000) {
        beat(&sv->c, ready);
        beat(other, 0);
        shell_pass(&sv->net, 1000);
        sv_run(sv);
    }
}

static uint32_t count(struct sv *sv)
{
    ps_v1_CheckpointAnswer a[8];
    return sv_list(sv, a, 8);
}

static void push(struct fc *c, const ps_v1_OpenAnswer *w)
{
    float gradient[4] = {1, 1, 1, 1};
    assert_applied(fc_push(c, PS_OP_PUSH, w, gradient, 1, 0));
}

/* Whatever changes on a task is saved at the next time, and what does not, is not. */
TEST(test_what_changes_is_saved_by_time)
{
    struct fc other;
    ps_v1_OpenAnswer w;
    struct sv *sv = begin(&other, &w);
    pass(sv, &other, 15000, 0);
    assert_int_equal(count(sv), 0);
    pass(sv, &other, 10000, 0);
    assert_int_equal(count(sv), 1);
    assert_true(sv_is_whole(sv, 1));
    for (uint8_t i = 0; i < 3; i++) { /* sessions come and read, which is no change */
        float got[4];
        ps_v1_OpenAnswer again;
        fc_init(&other, sv->t[1], (uint8_t)(10 + i));
        assert_int_equal(fc_connect(&other), PS_OK);
        assert_int_equal(fc_open(&other, "w", &again), PS_OK);
        assert_applied(fc_pull(&other, &again, 0, 4, got));
        pass(sv, &other, 25000, 0);
        w = again;
    }
    assert_int_equal(count(sv), 1);
    push(&other, &w);
    pass(sv, &other, 25000, 0);
    assert_int_equal(count(sv), 2);
    pass(sv, &other, 45000, 0);
    assert_int_equal(count(sv), 2);
}

/* What is changed while a checkpoint is written is not in it. */
TEST(test_a_change_behind_the_cut)
{
    struct fc other;
    ps_v1_OpenAnswer w;
    struct sv *sv = begin(&other, &w);
    sv->disks[1].held = true;
    sv_ask(sv);
    sv_run(sv);
    push(&other, &w);
    sv->disks[1].held = false;
    shell_pass(&sv->net, 1000);
    sv_run(sv);
    struct fc_reply r = fc_take(&sv->c, NULL);
    assert_int_equal(sv_number(&r), 1);
    pass(sv, &other, 25000, 0);
    assert_int_equal(count(sv), 2);
}

/* One that fails has saved nothing. */
TEST(test_a_checkpoint_that_fails)
{
    struct fc other;
    ps_v1_OpenAnswer w;
    struct sv *sv = begin(&other, &w);
    struct fs_fault *f = &sv->disks[1].fault;
    f->kinds = FS_ALL;
    f->calls = 0;
    f->why = 28; /* ENOSPC */
    f->fail_at = 3;
    pass(sv, &other, 25000, 0);
    assert_true(f->calls >= 3 && shell_logged(sv->t[0], "checkpoint_failed"));
    assert_int_equal(count(sv), 0);
    f->fail_at = 0;
    pass(sv, &other, 20000, 0);
    assert_int_equal(count(sv), 1);
    assert_true(sv_is_whole(sv, 2));
}

/* A chief says that the model is ready: the first one is made at once. */
TEST(test_first_one_when_the_model_is_ready)
{
    struct fc other;
    ps_v1_OpenAnswer w;
    struct sv *sv = begin(&other, &w);
    pass(sv, &other, 5000, 0);
    assert_int_equal(count(sv), 0);
    pass(sv, &other, 3000, 1);
    assert_int_equal(count(sv), 1);
    pass(sv, &other, 15000, 1);
    assert_int_equal(count(sv), 1);
}

/* checkpoint_seconds counts as it is now, from the last one on, whatever it was then. */
TEST(test_the_time_is_changed)
{
    struct fc other;
    ps_v1_OpenAnswer w;
    struct sv *sv = begin(&other, &w);
    uint32_t *seconds = &sv->t[0]->core->config.checkpoint_seconds;
    *seconds = 0;
    PSI_IGNORE(sv_save(sv)); /* 1 */
    push(&other, &w);
    pass(sv, &other, 30000, 1);
    assert_int_equal(count(sv), 1);
    *seconds = 600;
    pass(sv, &other, 10000, 1);
    assert_int_equal(count(sv), 1);
    *seconds = 40;
    pass(sv, &other, 3000, 1);
    assert_int_equal(count(sv), 2);
    push(&other, &w);
    *seconds = 0;
    pass(sv, &other, 50000, 1);
    assert_int_equal(count(sv), 2);
}

/* What has changed last is in a last one, whichever task is told to end first; nothing has, and none is made. */
TEST(test_last_one_at_the_end)
{
    for (uint32_t i = 0; i < 4; i++) {
        struct fc other;
        ps_v1_OpenAnswer w;
        uint32_t first = i & 1;
        bool changes = (i & 2) == 0;
        struct sv *sv = begin(&other, &w);
        PSI_IGNORE(sv_save(sv)); /* 1 */
        if (changes) {
            shell_pass(&sv->net, 1000);
            push(&other, &w);
        }
        shell_pass(&sv->net, 1000);
        sv_run(sv);
        psd_task_drain(sv->t[first]->core);
        psd_task_drain(sv->t[1 - first]->core);
        sv->disks[0].held = true;
        sv_run(sv);
        assert_true(psd_task_drained(sv->t[0]->core) != changes);
        sv->disks[0].held = false;
        sv_run(sv);
        shell_pass(&sv->net, 1000);
        assert_true(psd_task_drained(sv->t[0]->core) && psd_task_drained(sv->t[1]->core));
        assert_true(changes ? sv_is_whole(sv, 2) : sv_has_nothing(sv, 0, 2));
    }
}
