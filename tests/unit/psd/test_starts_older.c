/* SPDX-License-Identifier: Apache-2.0 */
/*
 * psd/checkpoint/loader*.c: a checkpoint that is older than the newest one is begun with, or restored, and whoever is lost then
 * (docs/DURABILITY.md 7.8).
 */
#include "starts_test.h"

/* Checkpoints 1 and 2. */
static struct st *twice_saved(shell_tweak tweak)
{
    struct st *s = st_new(tweak);
    PSI_IGNORE(fc_ready(&s->sv->c, "global_step", PS_I64, 1, ps_no_optimizer(), 0));
    for (int i = 1; i <= 2; i++) {
        set(s, (float)i);
        assert_int_equal(save(s), i);
    }
    set(s, 3);
    return s;
}

/* One of them is lost, or both (2). */
static void lose_some(struct st *s, uint32_t lost)
{
    if (lost < 2) {
        lose(s, lost);
        return;
    }
    kill_both(s);
    boot(s, true, true);
    connect(s, true, true);
}

/* Before a checkpoint of it is whole nobody gets his part of the newest one beside it: whoever is lost, all go back to that one.
 */
TEST(test_restored_older_and_lost)
{
    for (uint32_t lost = 0; lost < 3; lost++) {
        struct st *s = twice_saved(sv_with_disk);
        hold_saves(s);
        restore_held(s, 1);
        assert_both(s, 1, 1);
        set(s, 4);
        lose_some(s, lost);
        if (lost == 1) {
            assert_not_saved(s, 2);
        }
        assert_both(s, 2, 2);
        s->sv->t[0]->core->saver->again_ms = 0;
        assert_int_not_equal(save(s), 0);
        set(s, 5);
        lose_some(s, lost); /* behind it, he alone */
        assert_both(s, lost == 1 ? 5 : 2, lost == 0 ? 5 : 2);
    }
}

/* Behind one that is whole, who is lost has his part of that. */
TEST(test_restored_older_saved_and_lost)
{
    for (uint32_t lost = 0; lost < 2; lost++) {
        struct st *s = twice_saved(sv_with_disk);
        restore(s, 1, PS_OK, "");
        pass(s);
        assert_true(sv_is_whole(s->sv, 3));
        assert_both(s, 1, 1);
        set(s, 4);
        lose_some(s, lost);
        assert_both(s, lost == 1 ? 4 : 1, lost == 0 ? 4 : 1);
    }
}

/* All begin again with that one, and a part of it is damaged then: who is lost loads no older one alone, which is of another
 * history than what lives. */
TEST(test_restored_older_saved_begun_and_damaged)
{
    for (uint32_t lost = 0; lost < 2; lost++) {
        struct st *s = twice_saved(sv_with_disk);
        restore(s, 1, PS_OK, "");
        pass(s);
        assert_true(sv_is_whole(s->sv, 3));
        lose_some(s, 2);
        assert_both(s, 1, 1);
        assert_true(s->w.checkpoint == 3);
        set(s, 4);
        sv_kill(s->sv, lost);
        spoil(s, lost, 3, PSD_DISK_MODEL);
        boot(s, lost == 0, lost == 1);
        connect(s, lost == 0, lost == 1);
        assert_both(s, 2, 2);
        assert_true(s->w.checkpoint == 2 && s->v.checkpoint == 2);
    }
}

/* Who does not want the newest one back deletes it. */
TEST(test_restored_older_and_newer_deleted)
{
    struct st *s = twice_saved(sv_with_disk);
    hold_saves(s);
    restore_held(s, 1);
    assert_both(s, 1, 1);
    set(s, 4);
    sv_ask_delete(s->sv, 2, true);
    sv_run(s->sv);
    assert_reply(fc_take(&s->sv->c, NULL), PS_OK, "");
    lose(s, 1);
    assert_not_saved(s, 1);
    assert_both(s, 1, 1);
}

/* Who is lost while it is read: it is asked for still, and all have it. Nobody waits for it any more: nothing becomes of it. */
TEST(test_lost_while_an_older_one_is_restored)
{
    for (int late = 0; late < 2; late++) {
        struct st *s = twice_saved(sv_with_disk);
        hold_saves(s);
        s->sv->disks[1].held = true;
        ask_restore(s, 1, late ? 500 : 60000);
        sv_run(s->sv);
        s->sv->disks[1].held = false;
        sv_kill(s->sv, 1);
        shell_pass(&s->sv->net, late ? 600 : 0);
        boot(s, false, true);
        pass(s);
        connect_1(s);
        assert_reply(fc_take(&s->sv->c, NULL), late ? PS_DEADLINE_EXCEEDED : FC_NONE, "");
        assert_both(s, late ? 3 : 1, late ? 2 : 1);
    }
}

/* A start that falls back, or that was told to, has an older one as well. */
TEST(test_begun_with_an_older_one_and_lost)
{
    for (uint32_t bad = 0; bad < 3; bad++) {
        struct st *s = twice_saved(sv_with_disk);
        kill_both(s);
        if (bad < 2) {
            spoil(s, bad, 2, PSD_DISK_MODEL);
        }
        s->tweak = bad == 2 ? with_one : sv_with_disk;
        boot(s, true, true);
        connect(s, true, true);
        assert_both(s, 1, 1);
        set(s, 4);
        s->tweak = sv_with_disk; /* auto */
        s->sv->t[0]->core->config.restore = PSD_RESTORE_AUTO;
        lose(s, bad == 2 ? 1 : 1 - bad);
        float value = bad == 2 ? 2 : 1;
        assert_both(s, value, value);
    }
}

/* The manifest that decides on it is not as it was written: that is said, and where it lies. */
TEST(test_damaged_manifest_is_named)
{
    struct st *s = twice_saved(sv_with_disk);
    kill_both(s);
    spoil(s, 0, 1, PSD_DISK_MANIFEST);
    boot(s, true, true);
    connect(s, true, true);
    restore(s, 1, PS_DATA_LOSS, "checkpoint 1 cannot be used: its manifest at /job:ps/task:0: its CRC is another one");
    restore(s, 3, PS_NOT_FOUND, "there is no checkpoint 3");
    assert_both(s, 2, 2);
}

/* With `recover` cut, and in rounds, all go back: to the newest one, and, once it is saved, to what was made of it. */
TEST(test_restored_older_and_lost_where_all_go_back)
{
    for (uint32_t i = 0; i < 4; i++) {
        bool rounds = i < 2;
        struct st *s = twice_saved(rounds ? sv_with_disk : with_cut);
        hold_saves(s);
        restore_held(s, 1);
        assert_both(s, 1, 1);
        if (rounds) {
            sync_both(s, 1);
        }
        lose(s, i % 2);
        if (i % 2 == 1) {
            assert_not_saved(s, 2);
        }
        assert_both(s, 2, 2);
        hold_saves(s); /* also those of another directory */
        restore_held(s, 1);
        assert_both(s, 1, 1);
        if (rounds) {
            sync_both(s, 1);
        }
        uint64_t number = release_saves(s);
        assert_true(number > 2);
        set(s, 4);
        lose(s, i % 2);
        assert_both(s, 1, 1);
        assert_true(s->w.checkpoint == number && s->v.checkpoint == number);
    }
}

/* The directory has it placed, and it or the connection is lost before the other task has heard of that: no half of it stays. */
TEST(test_lost_while_an_older_one_is_placed)
{
    for (int lost = 0; lost < 2; lost++) {
        struct st *s = twice_saved(sv_with_disk);
        hold_saves(s);
        sv_kill(s->sv, 1);
        sv_boot(s->sv, 1, s->tweak);
        struct shell_conn *c = sv_join(s->sv);
        connect_1(s);
        assert_both(s, 3, 2);
        s->sv->disks[0].held = true;
        ask_restore(s, 1, 60000);
        sv_run(s->sv);
        c->frozen = true;
        s->sv->disks[0].held = false;
        sv_run(s->sv);
        assert_true(shell_logged(s->sv->t[0], "checkpoint_restored"));
        assert_is(&s->at1, "v", 2, &s->v);
        shell_cut(c);
        if (lost == 0) {
            sv_kill(s->sv, 0);
            boot(s, true, false);
        } else {
            sv_run(s->sv);
            PSI_IGNORE(sv_join(s->sv)); /* it stays with the tasks */
            assert_int_equal(fc_take(&s->sv->c, NULL).status, FC_NONE);
        }
        pass(s);
        connect(s, lost == 0, false);
        float value = lost == 0 ? 2 : 1;
        assert_both(s, value, value);
    }
}

/* The directory alone places a checkpoint that a client restores, who gives up then: w is of it, and v is not. */
static void tear(struct st *s, struct shell_conn *c, uint64_t number)
{
    s->sv->disks[0].held = true;
    ask_restore(s, number, 1000);
    sv_run(s->sv);
    c->frozen = true;
    s->sv->disks[0].held = false;
    sv_run(s->sv);
    shell_cut(c);
    pass(s);
    assert_reply(fc_take(&s->sv->c, NULL), PS_DEADLINE_EXCEEDED, "will not be when nobody waits for it");
}

/* What is torn, and nothing could mend, does not keep the next one torn that a checkpoint mends. */
TEST(test_torn_again)
{
    struct st *s = st_new(sv_with_disk);
    set(s, 1);
    assert_int_equal(save(s), 1);
    set(s, 2);
    sv_kill(s->sv, 1);
    sv_boot(s->sv, 1, s->tweak);
    struct shell_conn *c = sv_join(s->sv);
    connect_1(s);
    set(s, 2);
    tear(s, c, 1);
    spoil(s, 1, 1, PSD_DISK_MODEL);
    c = sv_join(s->sv);
    assert_true(shell_logged(s->sv->t[0], "start_refused"));
    assert_both(s, 1, 2);
    spoil(s, 1, 1, PSD_DISK_MODEL); /* put back */
    restore(s, 1, PS_OK, "");
    assert_both(s, 1, 1);
    set(s, 3);
    tear(s, c, 2);
    PSI_IGNORE(sv_join(s->sv)); /* it stays with the tasks */
    assert_both(s, 1, 1);
}

#define SECOND "/00000000000000000002"

/* The directory's disk is a copy of some time ago: that is said, and with restore = latest they do not begin. */
TEST(test_directory_is_behind)
{
    for (int latest = 0; latest < 2; latest++) {
        struct st *s = twice_saved(sv_with_disk);
        kill_both(s);
        move(s, "ps-0" SECOND, "aside");
        s->tweak = latest ? with_latest : sv_with_disk;
        boot(s, true, true);
        assert_true(
            shell_logged(s->sv->t[0], "ps/task:1 has its part of checkpoint 2, which is newer than all that the directory"));
        if (latest) {
            assert_int_equal(hello_of_a_worker(s->sv->t[1]), PS_FAILED_PRECONDITION);
            kill_both(s);
            move(s, "aside", "ps-0" SECOND);
            boot(s, true, true);
        }
        connect(s, true, true);
        assert_both(s, latest ? 2 : 1, latest ? 2 : 1);
    }
}

/* Its manifest alone is lost: nothing of that checkpoint goes, and another task's copy of it will do. */
TEST(test_manifest_is_lost)
{
    struct st *s = twice_saved(sv_with_disk);
    kill_both(s);
    move(s, "ps-0" SECOND "/manifest", "aside");
    boot(s, true, true);
    connect(s, true, true);
    assert_both(s, 1, 1);
    assert_true(sv_has(s->sv, 0, 2, PSD_DISK_STATE));
    restore(s, 2, PS_DATA_LOSS, "its manifest at /job:ps/task:0: it is not there; /job:ps/task:1 has it");
    kill_both(s);
    move(s, "ps-1" SECOND "/manifest", "ps-0" SECOND "/manifest");
    move(s, "aside", "ps-1" SECOND "/manifest");
    boot(s, true, true);
    connect(s, true, true);
    assert_both(s, 2, 2);
}

/* A manifest of another number is none: a checkpoint's directory was copied. */
TEST(test_directory_of_another_number)
{
    struct st *s = twice_saved(sv_with_disk);
    kill_both(s);
    move(s, "ps-0" SECOND, "ps-0/00000000000000000003");
    move(s, "ps-1" SECOND, "ps-1/18446744073709551615"); /* this one is nobody's */
    boot(s, true, true);
    connect(s, true, true);
    assert_both(s, 1, 1);
    restore(s, 3, PS_FAILED_PRECONDITION, "it is of checkpoint 2");
    assert_int_equal(save(s), 4);
}

/* With restore = latest, or a number, and nothing there, they do not begin: the disk may be missing. */
TEST(test_latest_of_none)
{
    for (int k = 0; k < 2; k++) {
        struct st *s = twice_saved(sv_with_disk);
        kill_both(s);
        move(s, "ps-0", "gone-0");
        move(s, "ps-1", "gone-1");
        s->tweak = k == 0 ? with_latest : with_one;
        boot(s, true, true);
        assert_true(shell_logged(s->sv->t[0], "there is no checkpoint, and restore names one"));
        assert_int_equal(hello_of_a_worker(s->sv->t[0]), PS_FAILED_PRECONDITION);
        s->sv->t[0]->core->config.restore = PSD_RESTORE_AUTO; /* psctl config set */
        shell_pass(&s->sv->net, 2000);
        sv_run(s->sv);
        connect(s, true, true);
        assert_int_equal(fc_open(&s->sv->c, "w", &s->w), PS_NOT_FOUND);
    }
}

static void with_nine(struct psd_task_config *config)
{
    sv_with_disk(config);
    config->restore = -9;
}

/* One that is named and is not there is said by its number. */
TEST(test_named_is_not_there)
{
    struct st *s = twice_saved(sv_with_disk);
    kill_both(s);
    s->tweak = with_nine;
    boot(s, true, true);
    assert_true(shell_logged(s->sv->t[0], "checkpoint 9, which restore names, is not there on all tasks"));
    assert_int_equal(hello_of_a_worker(s->sv->t[0]), PS_FAILED_PRECONDITION);
}

/* Those that are known to be damaged are not counted as kept. */
TEST(test_damaged_is_not_kept)
{
    struct st *s = twice_saved(sv_with_disk);
    kill_both(s);
    spoil(s, 1, 2, PSD_DISK_MODEL);
    boot(s, true, true);
    connect(s, true, true);
    assert_both(s, 1, 1);
    s->sv->t[0]->core->config.max_to_keep = 2;
    assert_int_equal(save(s), 3);
    assert_true(sv_has(s->sv, 0, 1, PSD_DISK_STATE));
    assert_int_equal(save(s), 4);
    pass(s);
    assert_false(sv_has(s->sv, 0, 1, PSD_DISK_STATE));
}
