/* SPDX-License-Identifier: Apache-2.0 */
/*
 * psd/checkpoint/loader.c: what tasks do not begin without, what stays of a checkpoint that is loaded, and what people are told
 * then (docs/DURABILITY.md, 6.6 and 7.2).
 */
#include "starts_test.h"

/* psctl, which may look. */
static void connect_psctl(struct st *s)
{
    static uint8_t others = 150; /* sessions */
    struct fc_hello hello;
    fc_init(&s->sv->c, s->sv->t[0], others++);
    fc_hello_default(&s->sv->c, &hello);
    hello.m.job.size = 0;
    assert_int_equal(fc_hello(&s->sv->c, &hello), PS_OK);
}

/* What lists are refused with, for an empty one would be taken for an answer; and what INFO says. */
static void assert_nothing_listed(struct st *s, ps_status st, const char *why, ps_waiting waiting)
{
    static const uint8_t lists[] = {PS_OP_VARS, PS_OP_QUEUES, PS_OP_CONTAINERS, PS_OP_ROUNDS};
    ps_v1_InfoAnswer a;
    char text[sizeof(a.waiting_for.bytes) + 1];
    for (size_t k = 0; k < sizeof(lists); k++) {
        assert_reply(fc_list(&s->sv->c, lists[k], NULL, NULL, wire_new()), st, lists[k] == PS_OP_ROUNDS ? "" : why);
    }
    assert_int_equal(fc_find(&s->sv->c, "w", NULL), st);
    assert_int_equal(fc_info(&s->sv->c, &a), PS_OK);
    assert_int_equal(PSI_BYTES_TEXT(a.waiting_for, text, sizeof(text)), PS_OK);
    assert_non_null(strstr(text, st == PS_FAILED_PRECONDITION ? "will begin with: " : "/job:ps/task:1"));
    assert_int_equal(a.waiting, waiting);
}

/* Nobody is served, and whoever asks for something is told why. */
static void assert_refused(struct st *s, const char *why)
{
    assert_true(shell_logged(s->sv->t[0], "start_refused"));
    assert_true(shell_logged(s->sv->t[0], why));
    assert_false(shell_logged(s->sv->t[0], "start_empty"));
    for (int i = 0; i < 2; i++) { /* and that lasts */
        connect_psctl(s);
        assert_nothing_listed(s, PS_FAILED_PRECONDITION, why, PS_WAITING_REFUSED);
        assert_reply(fc_reset(&s->sv->c, 600 + (uint64_t)i, ""), PS_FAILED_PRECONDITION, why);
        assert_reply(sv_save(s->sv), PS_FAILED_PRECONDITION, why);
        ps_v1_CreateItem m;
        fc_create_item(&m, "w", PS_F32, N, ps_adagrad(0.1));
        assert_int_equal(fc_create(&s->sv->c, &m, NULL), PS_FAILED_PRECONDITION);
        pass(s);
    }
    assert_int_equal(s->sv->t[0]->core->store.variable_count + s->sv->t[1]->core->store.variable_count, 0);
}

static void refused_at(struct st *s, uint32_t i)
{
    assert_int_equal(hello_of_a_worker(s->sv->t[i]), PS_FAILED_PRECONDITION);
}

static void set_restore(struct st *s, int restore)
{
    s->sv->t[0]->core->config.restore = restore; /* as a reload sets it */
    pass(s);
}

static void latest(struct psd_task_config *config)
{
    sv_with_disk(config);
    config->checkpoint_seconds = 20;
    config->restore = PSD_RESTORE_LATEST;
}

/* Nothing was ever saved. No task serves, also that one that waits for nothing, and none has lost its last checkpoint. */
TEST(test_nothing_to_begin_with)
{
    for (int begins = 0; begins < 2; begins++) {
        struct sv *sv = sv_new_bare(false, false, latest);
        PSI_IGNORE(sv_join(sv)); /* it stays with the tasks */
        assert_true(shell_logged(sv->t[0], "start_refused") && shell_logged(sv->t[1], "directory_connected"));
        assert_false(sv->t[0]->core->said_serving || sv->t[1]->core->said_serving);
        if (begins) {
            sv->t[0]->core->config.restore = PSD_RESTORE_AUTO;
            for (int i = 0; i < 30; i++) { /* longer than between two BEATs */
                shell_pass(&sv->net, 1000);
                sv_run(sv);
            }
            assert_true(sv->t[0]->core->said_serving && sv->t[1]->core->said_serving);
        }
        for (int i = 0; i < 2; i++) {
            psd_task_drain(sv->t[i]->core);
            sv_run(sv);
        }
        shell_pass(&sv->net, 1000);
        sv_run(sv);
        assert_null(psd_task_lost_text(sv->t[0]->core));
        assert_null(psd_task_lost_text(sv->t[1]->core));
    }
}

/* Nothing is on any disk, and nothing has to be: a task serves when its list is taken, not a beat later. */
TEST(test_serves_when_its_list_is_taken)
{
    struct sv *sv = sv_new_bare(false, false, sv_with_disk);
    PSI_IGNORE(sv_join(sv)); /* it stays with the tasks */
    assert_true(shell_logged(sv->t[1], "directory_connected"));
    assert_true(sv->t[0]->core->said_serving && sv->t[1]->core->said_serving);
}

/* A task without a disk begins with nothing: it serves when its list is taken, and asks nobody. */
TEST(test_no_disk_serves_at_once)
{
    struct sv *sv = sv_new_bare(false, false, NULL);
    PSI_IGNORE(sv_join(sv)); /* it stays with the tasks */
    assert_true(sv->t[1]->core->beside == NULL && sv->t[1]->core->said_serving);
}

/* Before the other one has come nobody knows what they begin with. */
TEST(test_lists_before_the_start)
{
    struct st *s = st_new(sv_with_disk);
    set(s, 1);
    assert_int_equal(save(s), 1);
    kill_both(s);
    sv_boot(s->sv, 0, s->tweak);
    connect_psctl(s);
    assert_nothing_listed(s, PS_UNAVAILABLE, "is not loaded yet", PS_WAITING_TASKS);
    boot(s, false, true);
    connect(s, true, true);
    assert_both(s, 1, 1);
    assert_reply(fc_list(&s->sv->c, PS_OP_VARS, NULL, NULL, wire_new()), PS_OK, "");
}

/* Saved on one task, then on two; the directory of the second one is lost. Neither the older one nor nothing stands in for it. */
TEST(test_part_of_a_task_with_an_empty_disk)
{
    for (int back = 0; back < 2; back++) {
        struct st *s = grown(sv_with_disk, false);
        assert_int_equal(save(s), 2);
        kill_both(s);
        move_1(s, false);
        boot(s, true, true);
        refused_at(s, 0);
        assert_refused(s, "checkpoint 2 has a part of /job:ps/task:1, which no task has");
        assert_true(shell_logged(s->sv->t[0], "restore = 1 loads an older one"));
        if (back) {
            sv_kill(s->sv, 1);
            move(s, "ps-1", "empty");
            move_1(s, true);
            boot(s, false, true);
            connect(s, true, true);
            assert_both(s, 2, 2);
        } else {
            set_restore(s, -1);
            connect(s, true, true);
            assert_w_alone(s, 1);
        }
    }
}

/* While the first task lives, the second one that comes back with an empty disk has nothing to wait for. */
TEST(test_empty_disk_beside_what_lives)
{
    struct st *s = st_new(sv_with_disk);
    set(s, 1);
    assert_int_equal(save(s), 1);
    sv_kill(s->sv, 1);
    move_1(s, false);
    boot(s, false, true);
    connect(s, false, true);
    assert_is(&s->sv->c, "w", 1, &s->w);
    assert_int_equal(hello_of_a_worker(s->sv->t[1]), PS_OK);
}

/* The newest one does not fit into a task's memory, an older one would: that is no damage. Nobody begins until it fits. */
TEST(test_without_memory_for_the_newest)
{
    for (uint32_t k = 0; k < 4; k++) {
        const uint32_t lacks = k % 2;
        const int more = k < 2 ? N : 2 * N; /* which is more than all there is */
        struct st *s = st_new(sv_with_disk);
        set(s, 1);
        assert_int_equal(save(s), 1);
        PSI_IGNORE(made_of(s, lacks == 0 ? &s->sv->c : &s->at1, "x", lacks, (uint64_t)more)); /* that it is there */
        set(s, 2);
        assert_int_equal(save(s), 2);
        const char *why = why_little(lacks, kept_bytes(s, lacks));
        kill_both(s);
        s->tweak = with_little_memory;
        boot(s, true, true);
        for (int i = 0; i < 2; i++) { /* and that lasts */
            connect_psctl(s);
            assert_nothing_listed(s, PS_UNAVAILABLE, why, PS_WAITING_RETRY);
            assert_int_equal(hello_of_a_worker(s->sv->t[0]), PS_UNAVAILABLE);
            pass(s);
        }
        assert_true(shell_logged(s->sv->t[0], why) && shell_logged(s->sv->t[0], "psd --memory_budget"));
        assert_false(shell_logged(s->sv->t[0], "start_refused") || shell_logged(s->sv->t[0], "start_empty"));
        assert_int_equal(s->sv->t[0]->core->store.variable_count + s->sv->t[1]->core->store.variable_count, 0);
        give_memory(s);
        pass(s);
        connect(s, true, true);
        assert_both(s, 2, 2);
    }
}

/* The directory's own is lost: what it has decided nobody else knows. */
TEST(test_directory_with_an_empty_disk)
{
    for (int bare = 0; bare < 2; bare++) {
        struct st *s = st_new(sv_with_disk);
        set(s, 1);
        assert_int_equal(save(s), 1);
        kill_both(s);
        move(s, "ps-0", "aside-0");
        move_1(s, false); /* on another host */
        s->sv->bare[0] = bare;
        sv_boot(s->sv, 0, s->tweak);
        move_1(s, true);
        boot(s, false, true);
        refused_at(s, 1);
        assert_refused(s, bare
                              ? "/job:ps/task:0, the directory, has no checkpoint_dir"
                              : "/job:ps/task:1 has a part of checkpoint 1, of which the directory, /job:ps/task:0, has nothing");
        set_restore(s, PSD_RESTORE_NONE);
        connect(s, true, true);
        s->w = made_at(s, &s->sv->c, "w", 0);
    }
}

/* While the first task lives, whose disk was lost, one that comes back with parts of checkpoints that nobody can decide on. */
TEST(test_directory_with_an_empty_disk_beside_what_lives)
{
    struct st *s = st_new(sv_with_disk);
    set(s, 1);
    assert_int_equal(save(s), 1);
    sv_kill(s->sv, 0);
    move(s, "ps-0", "aside-0");
    move_1(s, false); /* on another host */
    sv_boot(s->sv, 0, s->tweak);
    PSI_IGNORE(sv_join(s->sv)); /* it stays with the tasks */
    assert_is(&s->at1, "v", 1, &s->v);
    sv_connect(s->sv);
    s->w = made_at(s, &s->sv->c, "w", 0);
    sv_kill(s->sv, 1);
    move_1(s, true);
    boot(s, false, true);
    refused_at(s, 1);
    assert_int_equal(hello_of_a_worker(s->sv->t[0]), PS_OK);
    assert_false(shell_logged(s->sv->t[0], "start_empty"));
    assert_true(shell_logged(s->sv->t[0],
                             "/job:ps/task:1 has a part of checkpoint 1, of which the directory, /job:ps/task:0, has nothing"));
    set_restore(s, PSD_RESTORE_NONE);
    assert_int_equal(hello_of_a_worker(s->sv->t[1]), PS_OK);
}

/* Checkpoint 1 says 1; all died and began empty, as restore = none had it; w, and v at the task that is named, say 5. */
static struct st *begun_anew(uint32_t of_v)
{
    struct st *s = st_new(sv_with_disk);
    set(s, 1);
    assert_int_equal(save(s), 1);
    kill_both(s);
    s->tweak = with_none;
    boot(s, true, true);
    connect(s, true, true);
    s->w = made_at(s, &s->sv->c, "w", 0);
    s->v = made_at(s, of_v == 0 ? &s->sv->c : &s->at1, "v", of_v);
    set_one(&s->sv->c, &s->w, 5);
    set_one(of_v == 0 ? &s->sv->c : &s->at1, &s->v, 5);
    s->tweak = sv_with_disk;
    set_restore(s, PSD_RESTORE_AUTO);
    return s;
}

/* A task that comes back to such a model has no part of it. */
TEST(test_begun_anew)
{
    for (uint32_t of_v = 0; of_v < 2; of_v++) {
        struct st *s = begun_anew(of_v);
        sv_kill(s->sv, 1);
        boot(s, false, true);
        connect(s, false, true);
        assert_is(&s->sv->c, "w", 5, &s->w);
        assert_int_equal(fc_open(&s->at1, "v", &s->v), PS_NOT_FOUND);
        if (of_v == 0) { /* the other task has nothing of what the model before had there */
            assert_int_equal(save(s), 2);
            kill_both(s);
            boot(s, true, true);
            connect(s, true, true);
            assert_is(&s->sv->c, "v", 5, &s->v);
        } else {
            assert_reply(sv_save(s->sv), PS_FAILED_PRECONDITION, "has lost variable 'v'");
        }
    }
}

/* Nor has the directory that comes back; but where nothing lives, or somebody names it, the checkpoint is what it was. */
TEST(test_begun_anew_and_another_directory)
{
    for (int i = 0; i < 3; i++) {
        struct st *s = begun_anew(1);
        sv_kill(s->sv, 0);
        boot(s, true, false);
        connect(s, true, false);
        assert_is(&s->at1, "v", 5, &s->v);
        assert_int_equal(fc_open(&s->sv->c, "w", &s->w), PS_NOT_FOUND);
        if (i == 0) { /* which lives then: what is lost of it comes back, also when the directory is another one again */
            kill_both(s);
            boot(s, true, true);
            connect(s, true, true);
            assert_both(s, 1, 1);
            sv_kill(s->sv, 0);
            boot(s, true, false);
            connect(s, true, false);
        } else if (i == 1) {
            restore(s, 1, PS_OK, "");
        } else { /* a newer one is of this model */
            s->w = made_at(s, &s->sv->c, "w", 0);
            set(s, 6);
            assert_int_equal(save(s), 2);
            sv_kill(s->sv, 0);
            boot(s, true, false);
            connect(s, true, false);
        }
        float is = i < 2 ? 1 : 6;
        assert_both(s, is, is);
    }
}

/* Nobody begins so before that is noted: each call of the directory's disk fails once. */
TEST(test_begun_anew_with_a_failing_disk)
{
    uint64_t failed = 0;
    for (uint64_t n = 1; failed + 1 == n; n++) {
        struct st *s = st_new(sv_with_disk);
        struct fs_fault *f = &s->sv->disks[0].fault;
        set(s, 1);
        assert_int_equal(save(s), 1);
        kill_both(s);
        spoil(s, 1, 1, PSD_DISK_STATE);
        boot(s, true, true);
        assert_refused(s, "checkpoint 1 cannot be used");
        f->kinds = FS_ALL;
        f->calls = 0;
        f->why = 28; /* ENOSPC */
        f->fail_at = n;
        f->stays = true;
        set_restore(s, PSD_RESTORE_NONE);
        failed += shell_logged(s->sv->t[0], "bars_not_written");
        if (failed == n) {
            assert_false(shell_logged(s->sv->t[0], "start_empty"));
            refused_at(s, 0);
            refused_at(s, 1);
        }
        f->fail_at = 0;
        pass(s);
        assert_true(shell_logged(s->sv->t[0], "start_empty"));
        connect(s, true, true);
        s->v = made_at(s, &s->at1, "v", 1);
        spoil(s, 1, 1, PSD_DISK_STATE); /* put back */
        sv_kill(s->sv, 0);
        boot(s, true, false);
        connect(s, true, false);
        assert_int_equal(fc_open(&s->sv->c, "w", &s->w), PS_NOT_FOUND);
    }
    assert_in_range(failed, 5, 100);
}

/* The only checkpoint was deleted while a task was away that has a part of it. */
TEST(test_deleted_while_it_was_away)
{
    struct st *s = st_new(sv_with_disk);
    set(s, 1);
    assert_int_equal(save(s), 1);
    sv_kill(s->sv, 1);
    sv_ask_delete(s->sv, 1, true);
    sv_run(s->sv);
    assert_reply(fc_take(&s->sv->c, NULL), PS_OK, "");
    boot(s, false, true);
    assert_int_equal(hello_of_a_worker(s->sv->t[1]), PS_OK);
    assert_false(shell_logged(s->sv->t[0], "start_refused"));
}

/* All that is saved is damaged: nobody begins empty instead of it, and the file that is put back is loaded. */
TEST(test_all_are_spoilt)
{
    static const enum psd_disk_file_kind KINDS[] = {PSD_DISK_STATE, PSD_DISK_MODEL, PSD_DISK_MANIFEST};
    for (uint32_t i = 0; i < 5; i++) { /* another task's manifest is told again */
        for (int none = 0; none < 2; none++) {
            struct st *s = st_new(sv_with_disk);
            uint32_t at = i == 4 ? 0 : i % 2;
            set(s, 1);
            assert_int_equal(save(s), 1);
            kill_both(s);
            spoil(s, at, 1, KINDS[i / 2]);
            boot(s, true, true);
            refused_at(s, 0);
            refused_at(s, 1);
            assert_refused(s, "checkpoint 1 cannot be used, and no other one is whole");
            assert_true(shell_logged(s->sv->t[0], at == 0 ? "/job:ps/task:0" : "/job:ps/task:1"));
            assert_true(shell_logged(s->sv->t[0], i == 4 ? "its manifest" : i / 2 == 1 ? "model-00000.safetensors" : "state"));
            if (none) {
                set_restore(s, PSD_RESTORE_NONE);
                connect(s, true, true);
                s->w = made_at(s, &s->sv->c, "w", 0);
                continue;
            }
            spoil(s, at, 1, KINDS[i / 2]); /* put back */
            sv_kill(s->sv, at);
            boot(s, at == 0, at == 1);
            connect(s, true, true);
            assert_both(s, 1, 1);
        }
    }
}

/* The same while the other one lives, which goes on. */
TEST(test_all_are_spoilt_beside_what_lives)
{
    for (uint32_t i = 0; i < 2; i++) {
        struct st *s = st_new(sv_with_disk);
        set(s, 1);
        assert_int_equal(save(s), 1);
        set(s, 2);
        sv_kill(s->sv, i);
        spoil(s, i, 1, PSD_DISK_MODEL);
        boot(s, i == 0, i == 1);
        refused_at(s, i);
        assert_true(shell_logged(s->sv->t[0], "start_refused"));
        assert_false(shell_logged(s->sv->t[0], "start_empty"));
        spoil(s, i, 1, PSD_DISK_MODEL); /* put back */
        sv_kill(s->sv, i);
        boot(s, i == 0, i == 1);
        connect(s, i == 0, i == 1);
        assert_both(s, i == 0 ? 1 : 2, i == 1 ? 1 : 2);
    }
}

/* The newest one was damaged when it was tried, and its file is there again: whoever names it gets it. */
TEST(test_put_back_and_named)
{
    for (int live = 0; live < 2; live++) {
        struct st *s = st_new(sv_with_disk);
        set(s, 1);
        assert_int_equal(save(s), 1);
        set(s, 2);
        assert_int_equal(save(s), 2);
        kill_both(s);
        spoil(s, 1, 2, PSD_DISK_MODEL);
        s->tweak = live ? sv_with_disk : with_latest;
        boot(s, true, true);
        if (live) {
            connect(s, true, true);
            assert_both(s, 1, 1);
            restore(s, 2, PS_DATA_LOSS, "model-00000.safetensors");
            assert_both(s, 1, 1);
        } else {
            refused_at(s, 0);
        }
        spoil(s, 1, 2, PSD_DISK_MODEL);
        if (live) {
            restore(s, 2, PS_OK, "");
        } else {
            set_restore(s, -2);
            connect(s, true, true);
        }
        assert_both(s, 2, 2);
    }
}

static void spoil_bars(const struct st *s, uint32_t i)
{
    spoil_at(s, i == 0 ? "ps-0/bars" : "ps-1/bars", 12);
}

/* A checkpoint that says 2, and bars on both: of what was there before. */
static struct st *barred(void)
{
    struct st *s = st_new(sv_with_disk);
    set(s, 1);
    assert_int_equal(save(s), 1);
    reset(s);
    s->w = made_at(s, &s->sv->c, "w", 0);
    s->v = made_at(s, &s->at1, "v", 1);
    set(s, 2);
    assert_int_equal(save(s), 2);
    return s;
}

/* Nobody begins empty because one file is damaged: it is put right, or somebody says that what is saved does not matter. */
TEST(test_damaged_bars)
{
    static const char *const WHY[] = {"/job:ps/task:0 cannot read its checkpoint_dir",
                                      "/job:ps/task:1 cannot read its checkpoint_dir"};
    for (uint32_t i = 0; i < 2; i++) {
        for (int none = 0; none < 2; none++) {
            struct st *s = barred();
            kill_both(s);
            spoil_bars(s, i);
            boot(s, true, true);
            assert_true(shell_logged(s->sv->t[i], "checkpoints_unreadable"));
            refused_at(s, 0);
            refused_at(s, 1);
            assert_refused(s, WHY[i]);
            if (none) {
                set_restore(s, PSD_RESTORE_NONE);
                connect(s, true, true);
                s->w = made_at(s, &s->sv->c, "w", 0);
                assert_reply(sv_save(s->sv), PS_FAILED_PRECONDITION, "none that can be read");
                continue;
            }
            sv_kill(s->sv, i);
            spoil_bars(s, i); /* put back */
            boot(s, i == 0, i == 1);
            connect(s, true, true);
            assert_both(s, 2, 2);
        }
    }
}

/* All that the only one has was reset since: it is said that it has nothing any more. */
TEST(test_nothing_is_left_of_it)
{
    struct st *s = st_new(sv_with_disk);
    set(s, 1);
    assert_int_equal(save(s), 1);
    reset(s);
    kill_both(s);
    boot(s, true, true);
    assert_false(shell_logged(s->sv->t[0], "checkpoint_restored"));
    assert_true(shell_logged(s->sv->t[0], "start_empty"));
    assert_true(shell_logged(s->sv->t[0], "checkpoint 1 has nothing any more: all that it had was reset since"));
    connect(s, true, true);
    s->w = made_at(s, &s->sv->c, "w", 0);
    kill_both(s);
    s = st_new(sv_with_disk);
    reset(s);
    assert_int_equal(save(s), 1); /* of nothing */
    kill_both(s);
    boot(s, true, true);
    assert_false(shell_logged(s->sv->t[0], "checkpoint_restored"));
    assert_true(shell_logged(s->sv->t[0], "checkpoint 1 has nothing"));
    connect(s, true, true);
    s->w = made_at(s, &s->sv->c, "w", 0);
}

/* The one that comes back is refused, the other goes on. */
TEST(test_damaged_bars_beside_what_lives)
{
    struct st *s = barred();
    sv_kill(s->sv, 1);
    spoil_bars(s, 1);
    boot(s, false, true);
    refused_at(s, 1);
    assert_int_equal(hello_of_a_worker(s->sv->t[0]), PS_OK);
    static float values[N];
    assert_int_equal(fc_pull(&s->sv->c, &s->w, 0, N, values).status, PS_OK); /* who is at work there goes on */
    assert_true(values[0] == 2);
    assert_reply(sv_save(s->sv), PS_FAILED_PRECONDITION, "/job:ps/task:1 cannot read its checkpoint_dir");
    sv_kill(s->sv, 1);
    move(s, "ps-1/bars", "bars"); /* or away */
    boot(s, false, true);
    connect(s, false, true);
    assert_both(s, 2, 2);
}
