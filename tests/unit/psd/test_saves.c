/* SPDX-License-Identifier: Apache-2.0 */
/*
 * psd/checkpoint/saver.c, psd/checkpoint/shards.c: a checkpoint is whole on all tasks or on none, whenever a connection, a
 * process or a disk fails. Real disks beneath tasks in a fake shell.
 */
#include "save_test.h"

#include "psd/checkpoint/saver.h"
#include "psd/checkpoint/shards.h"
#include "psd/checkpoint/beside.h"

TEST(test_saved_on_both)
{
    ps_v1_CheckpointAnswer a[4];
    struct sv *sv = sv_new();
    PSI_IGNORE(fc_ready(&sv->c, "w", PS_F32, 100, ps_adagrad(0.1), 1));
    assert_int_equal(sv_list(sv, a, 4), 0);
    struct fc_reply r = sv_save(sv);
    assert_int_equal(sv_number(&r), 1);
    assert_true(sv_is_whole(sv, 1));
    assert_true(sv_has(sv, 0, 1, PSD_DISK_MODEL));
    assert_int_equal(sv_list(sv, a, 4), 1);
    assert_int_equal(a[0].number, 1);
    assert_int_equal(a[0].state, PS_CHECKPOINT_WHOLE);
    assert_int_equal(a[0].task_count, 2);
    assert_int_equal(a[0].done, 2);
    assert_in_range(a[0].time_ms, 1700000000000, 1700000000000 + 60000);
    assert_in_range(a[0].bytes, 800, 1 << 20);
    assert_true(shell_logged(sv->t[0], "checkpoint_saved"));
    r = sv_save(sv);
    assert_int_equal(sv_number(&r), 2);
    assert_int_equal(sv_list(sv, a, 4), 2);
    /* the same request again: its kept answer, no other checkpoint */
    sv->ids--;
    r = sv_save(sv);
    assert_int_equal(sv_number(&r), 2);
    assert_int_equal(sv_list(sv, a, 4), 2);
}

/* A container with a value at the first task. */
static void make_container(struct sv *sv, uint32_t number)
{
    char name[16];
    ps_v1_CreateItem item;
    fc_create_item(&item, "w", PS_F32, 4, ps_sgd(1));
    (void)snprintf(name, sizeof(name), "c%u", number);
    PSI_IGNORE(PSI_BYTES_SET(item.container, name)); /* fits, as the next */
    PSI_IGNORE(PSI_BYTES_SET(item.job, "ps"));
    item.pinned = true;
    item.task = 0;
    assert_int_equal(fc_create(&sv->c, &item, NULL), PS_OK);
    const struct psd_task *t = sv->t[0]->core;
    const struct psd_variable *v = psd_variable_find(psd_container_find(&t->store, name), "w");
    assert_non_null(v);
    assert_applied(fc_init_var(&sv->c, v->handle, ps_zeros(), ps_sgd(1), 0, false));
}

/* A variable that never gets a value, beside a model that was ready: it is named, by a task that says which one it is. */
TEST(test_variable_without_a_value)
{
    ps_v1_CreateItem m;
    struct psi_err err;
    struct sv *sv = sv_new();
    ps_v1_OpenAnswer w = fc_ready(&sv->c, "w", PS_F32, 4, ps_sgd(1), 1);
    assert_reply(fc_seal(&sv->c, w.handle, w.creation, 0), PS_OK, "");
    for (uint32_t task = 0; task < 2; task++) {
        char says[128];
        fc_create_item(&m, "layer2/weights", PS_F32, 4, ps_sgd(1));
        PSI_IGNORE(PSI_BYTES_SET(m.job, "ps")); /* fits */
        m.pinned = true;
        m.task = task;
        assert_int_equal(fc_create(&sv->c, &m, NULL), PS_OK);
        (void)snprintf(says, sizeof(says), "ready, such as 'layer2/weights' at /job:ps/task:%u: give each", task);
        assert_reply(sv_save(sv), PS_FAILED_PRECONDITION, says);
        struct fc_reply r = fc_delete(&sv->c, 500 + task, "layer2/weights");
        sv_run(sv);
        assert_reply(r.status == FC_NONE ? fc_take(&sv->c, NULL) : r, PS_OK, "");
        r = sv_save(sv);
        assert_true(sv_is_whole(sv, sv_number(&r)));
    }
    struct psd_task *t = sv->t[0]->core;
    ps_v1_FileItem older = {.kind = PS_FILE_NOTE, .notes = PS_NOTE_SEALED | PS_NOTE_BARE};
    assert_int_equal(psd_saver_take_part(t, &t->peers[1], &older, &err), PS_OK);
    assert_int_equal(psd_saver_check_parts(t, &err), PS_FAILED_PRECONDITION);
    assert_non_null(strstr(err.text, "ready: give each one a value, or take it away (psctl delete)"));
}

/* So many containers as a task has files for, and one more: no checkpoint, and nothing else is wrong. */
TEST(test_containers_of_a_task)
{
    struct sv *sv = sv_new();
    for (uint32_t i = 1; i < PSD_SHARDS_FILES_MAX; i++) {
        make_container(sv, i);
    }
    struct fc_reply r = sv_save(sv);
    assert_int_equal(sv_number(&r), 1);
    assert_true(sv_is_whole(sv, 1));
    make_container(sv, PSD_SHARDS_FILES_MAX);
    r = sv_save(sv);
    assert_reply(r, PS_RESOURCE_EXHAUSTED, "more than 61 containers with values");
    assert_true(shell_logged(sv->t[0], "checkpoint_failed"));
    assert_true(sv_is_whole(sv, 1));
    struct fc_reply reset = fc_reset(&sv->c, 900, "c7");
    sv_run(sv);
    assert_applied(reset.status == FC_NONE ? fc_take(&sv->c, NULL) : reset);
    r = sv_save(sv);
    assert_int_equal(r.status, PS_OK);
    assert_true(sv_is_whole(sv, sv_number(&r)));
}

/* Of a container of which there is nothing to say the directory is not told, however many there are. */
TEST(test_containers_without_anything)
{
    struct sv *sv = sv_new();
    const struct psd_shards *at = sv->t[0]->core->shards;
    for (uint32_t i = 1; i <= 20; i++) {
        char name[16];
        make_container(sv, i);
        (void)snprintf(name, sizeof(name), "c%u", i);
        struct fc_reply reset = fc_reset(&sv->c, 900 + i, name);
        sv_run(sv);
        assert_applied(reset.status == FC_NONE ? fc_take(&sv->c, NULL) : reset);
    }
    assert_int_equal(psi_map_count(&sv->t[0]->core->store.containers), 20);
    ps_v1_CreateItem m;
    fc_create_item(&m, "n", PS_F32, 4, ps_sgd(1)); /* without a value */
    assert_int_equal(fc_create(&sv->c, &m, NULL), PS_OK);
    struct fc_reply r = sv_save(sv);
    assert_int_equal(sv_number(&r), 1);
    assert_int_equal(at->note_count, 1);
    assert_string_equal(at->notes[0].bare, "n");
}

TEST(test_older_ones_go)
{
    ps_v1_CheckpointAnswer a[8];
    struct sv *sv = sv_new();
    for (uint64_t i = 1; i <= 7; i++) {
        struct fc_reply r = sv_save(sv);
        assert_int_equal(sv_number(&r), i);
    }
    assert_int_equal(sv_list(sv, a, 8), 5);
    assert_int_equal(a[0].number, 3);
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(sv_has_nothing(sv, i, 1) && sv_has_nothing(sv, i, 2));
    }
    assert_true(sv_is_whole(sv, 3) && sv_is_whole(sv, 7));
}

/* Before the decision: it ends everywhere, its number is not used again, and who has asked for one gets the next one: the
 * connection was lost, and nothing that was to be saved. */
TEST(test_lost_before_it_is_decided)
{
    struct sv *sv = sv_new();
    for (uint64_t i = 1; i <= 5; i += 2) {
        sv->disks[1].held = true;
        sv_ask(sv);
        sv_run(sv);
        for (uint64_t ops = 1; ops < i; ops += 2) { /* begun, written */
            sv->disks[1].held = false;
            assert_true(sv_disk_step(sv, 1));
            sv->disks[1].held = true;
        }
        assert_int_equal(fc_take(&sv->c, NULL).status, FC_NONE);
        assert_true(sv_has(sv, 0, i, PSD_DISK_STATE));
        shell_cut(PSI_CONTAINER_OF(psi_list_first(&sv->t[1]->conns), struct shell_conn, link));
        assert_int_equal(fc_take(&sv->c, NULL).status, FC_NONE);
        assert_true(shell_logged(sv->t[0], "checkpoint_failed"));
        shell_log_clear(sv->t[0]);
        sv->disks[1].held = false;
        PSI_IGNORE(sv_join(sv)); /* it stays with the tasks */
        assert_true(sv_has_nothing(sv, 0, i) && sv_has_nothing(sv, 1, i));
        shell_pass(&sv->net, 1000);
        sv_run(sv);
        struct fc_reply r = fc_take(&sv->c, NULL);
        assert_int_equal(sv_number(&r), i + 1);
        assert_true(sv_is_whole(sv, i + 1));
    }
}

/* After it: the manifest comes when the task lists. */
TEST(test_lost_after_it_is_decided)
{
    struct sv *sv = sv_new();
    sv_decide(sv);
    assert_true(sv_has(sv, 0, 1, PSD_DISK_MANIFEST) && !sv_has(sv, 1, 1, PSD_DISK_MANIFEST));
    sv_kill(sv, 1);
    assert_int_equal(fc_take(&sv->c, NULL).status, FC_NONE); /* not all have it */
    sv_boot(sv, 1, sv_with_disk);
    PSI_IGNORE(sv_join(sv)); /* likewise */
    struct fc_reply r = fc_take(&sv->c, NULL);
    assert_int_equal(sv_number(&r), 1);
    assert_true(sv_is_whole(sv, 1));
}

/* After it, with an empty disk: it is none, and the next one is made. */
TEST(test_part_lost_after_it_is_decided)
{
    char gone[512], place[512];
    struct sv *sv = sv_new();
    sv_decide(sv);
    sv_kill(sv, 1);
    (void)snprintf(place, sizeof(place), "%s/ps-1", sv->dir);
    (void)snprintf(gone, sizeof(gone), "%s/gone", sv->dir);
    assert_int_equal(rename(place, gone), 0);
    sv_boot(sv, 1, sv_with_disk);
    PSI_IGNORE(sv_join(sv)); /* it stays with the tasks */
    assert_reply(fc_take(&sv->c, NULL), PS_DATA_LOSS, "/job:ps/task:1");
    sv_run(sv);
    assert_true(sv_has_nothing(sv, 0, 1));
    struct fc_reply r = sv_save(sv);
    assert_int_equal(sv_number(&r), 2);
}

TEST(test_directory_lost_after_it_has_decided)
{
    ps_v1_CheckpointAnswer a[4];
    struct sv *sv = sv_new();
    sv_decide(sv);
    sv_kill(sv, 0);
    sv->disks[1].held = false;
    sv_kill(sv, 1); /* its disk had not written the manifest */
    sv_boot(sv, 0, sv_with_disk);
    sv_boot(sv, 1, sv_with_disk);
    sv_connect(sv);
    assert_int_equal(sv_list(sv, a, 4), 1);
    assert_int_equal(a[0].state, PS_CHECKPOINT_IN_PART);
    PSI_IGNORE(sv_join(sv)); /* it stays with the tasks */
    assert_true(sv_is_whole(sv, 1));
    assert_int_equal(sv_list(sv, a, 4), 1);
    assert_int_equal(a[0].state, PS_CHECKPOINT_WHOLE);
    struct fc_reply r = sv_save(sv);
    assert_int_equal(sv_number(&r), 2);
}

TEST(test_directory_lost_before_it_has_decided)
{
    char a[512], b[512];
    struct sv *sv = sv_new();
    sv->disks[0].held = true;
    sv_ask(sv);
    sv_run(sv);
    assert_true(sv_has(sv, 1, 1, PSD_DISK_STATE));
    sv_kill(sv, 0);
    (void)snprintf(a, sizeof(a), "%s/ps-1", sv->dir);
    (void)snprintf(b, sizeof(b), "%s/aside", sv->dir);
    assert_int_equal(rename(a, b), 0); /* it is on another host: not seen beside its own */
    sv_boot(sv, 0, sv_with_disk);      /* its own disk knows of none */
    assert_int_equal(rename(b, a), 0);
    sv_connect(sv);
    PSI_IGNORE(sv_join(sv)); /* it stays with the tasks */
    assert_true(sv_has_nothing(sv, 0, 1) && sv_has_nothing(sv, 1, 1));
    struct fc_reply r = sv_save(sv);
    assert_int_equal(sv_number(&r), 2); /* the other one has heard of 1 */
}

/* What psctl status says of it has this, or does not. */
static bool status_says(const struct sv *sv, const char *part)
{
    char text[512];
    return strstr(sv_status(sv, text, sizeof(text)), part) != NULL;
}

TEST(test_without_a_directory_for_it)
{
    for (int which = 0; which < 2; which++) {
        ps_v1_CheckpointAnswer a[1];
        struct sv *sv = sv_new_bare(which == 0, which == 1, sv_with_disk);
        PSI_IGNORE(sv_join(sv)); /* it stays with the tasks */
        assert_reply(sv_save(sv), PS_FAILED_PRECONDITION, which == 0 ? "/job:ps/task:0" : "/job:ps/task:1");
        assert_int_equal(sv_list(sv, a, 1), 0);
        shell_pass(&sv->net, 2000);
        assert_true(which == 0 ||
                    status_says(sv, "none is saved; 2 s ago refused: FAILED_PRECONDITION: no checkpoint: no directory"));
    }
}

TEST(test_not_connected)
{
    struct sv *sv = sv_new_bare(false, false, sv_with_disk);
    struct fc_reply r = sv_save(sv);
    assert_reply(r, PS_UNAVAILABLE, "/job:ps/task:1");
    assert_int_not_equal(r.retry_after_ms, 0);
    assert_true(status_says(sv, "refused: UNAVAILABLE: no checkpoint: not connected to the directory: /job:ps/task:1"));
    PSI_IGNORE(sv_join(sv)); /* it stays with the tasks */
    r = sv_save(sv);
    assert_int_equal(sv_number(&r), 1);
    assert_false(status_says(sv, "refused"));
    sv_kill(sv, 1);
    sv->t[0]->core->saver->want = PSD_SAVER_IF_NEW; /* as one by time is */
    shell_pass(&sv->net, 5000);
    assert_true(status_says(sv, "; 0 s ago refused: UNAVAILABLE: no checkpoint: not connected to the directory: /job:ps/task:1"));
}

/* Any call of either disk: what was saved stays whole, the answer says what failed, and the next one is saved. */
TEST(test_every_failure_of_a_disk)
{
    uint32_t failed = 0;
    for (uint32_t which = 0; which < 2; which++) {
        for (uint64_t n = 1;; n++) {
            struct sv *sv = sv_new();
            struct fc_reply r = sv_save(sv);
            assert_int_equal(sv_number(&r), 1);
            struct fs_fault *f = &sv->disks[which].fault;
            f->kinds = FS_ALL;
            f->calls = 0;
            f->why = 28; /* ENOSPC */
            f->fail_at = n;
            r = sv_save(sv);
            bool over = f->calls < n;
            if (r.status == FC_NONE) { /* it is decided, and told again */
                shell_pass(&sv->net, 1500);
                sv_run(sv);
                r = fc_take(&sv->c, NULL);
                assert_int_equal(r.status, PS_OK);
            }
            if (r.status != PS_OK) {
                failed++;
                assert_reply(r, PS_RESOURCE_EXHAUSTED, which == 0 ? "/job:ps/task:0: " : "/job:ps/task:1: ");
            }
            f->fail_at = 0;
            assert_true(sv_is_whole(sv, 1));
            r = sv_save(sv);
            assert_int_equal(sv_number(&r), 3);
            assert_true(sv_is_whole(sv, 3));
            if (over) {
                break;
            }
        }
    }
    assert_in_range(failed, 8, 1000);
}

/* Any allocation of a checkpoint: as above; no task ends, and the next one is saved. */
TEST(test_no_memory_at_any_moment)
{
    uint32_t failed = 0;
    for (int64_t n = 0, fired = 1; fired; n++) {
        struct sv *sv = sv_new();
        struct fc_reply r = sv_save(sv);
        assert_int_equal(sv_number(&r), 1);
        psi_mem_fail_after(n);
        r = sv_save(sv);
        fired = psi_mem_fail_left() < 0;
        failed += r.status != PS_OK;
        sv_settle(sv);
        assert_true(sv_is_whole(sv, 1));
        r = sv_save(sv);
        assert_in_range(sv_number(&r), 2, 4);
        assert_true(sv_is_whole(sv, sv_number(&r)));
    }
    assert_in_range(failed, 10, UINT32_MAX);
}

static void by_time(struct psd_task_config *config)
{
    sv_with_disk(config);
    config->checkpoint_seconds = 20;
    config->checkpoint_steps = 100;
}

/* A step that has not been said yet changes the model. */
static void pass(struct sv *sv, uint64_t ms, int64_t step)
{
    static int64_t last = -1;
    sv->t[0]->core->store.changes += step != last;
    last = step;
    for (uint64_t i = 0; i < ms; i += 1000) {
        assert_int_equal(fc_beat(&sv->c, step, NULL).status, PS_OK);
        shell_pass(&sv->net, 1000);
        sv_run(sv);
    }
}

TEST(test_by_time_and_by_steps)
{
    ps_v1_CheckpointAnswer a[8];
    struct sv *sv = sv_new_bare(false, false, by_time);
    PSI_IGNORE(sv_join(sv)); /* it stays with the tasks */
    pass(sv, 20000, -1);
    assert_int_equal(sv_list(sv, a, 8), 0); /* nobody knows a step */
    pass(sv, 2000, 7);
    assert_int_equal(sv_list(sv, a, 8), 1); /* the first one, at once */
    pass(sv, 10000, 20);
    assert_int_equal(sv_list(sv, a, 8), 1);
    pass(sv, 10000, 30);
    assert_int_equal(sv_list(sv, a, 8), 2); /* by time */
    pass(sv, 2000, 120);
    assert_int_equal(sv_list(sv, a, 8), 2);
    pass(sv, 2000, 500);
    assert_int_equal(sv_list(sv, a, 8), 3); /* by steps */
}

/* The first one is made before anybody has said a step: others count from what it has, whenever the first step is said. */
TEST(test_steps_behind_one_that_had_no_step_said)
{
    ps_v1_CheckpointAnswer a[8];
    struct sv *sv = sv_new_bare(false, false, by_time);
    PSI_IGNORE(sv_join(sv)); /* it stays with the tasks */
    PSI_IGNORE(fc_ready(&sv->c, "global_step", PS_I64, 1, ps_no_optimizer(), 20));
    PSI_IGNORE(sv_save(sv)); /* 1 */
    pass(sv, 3000, -1);
    pass(sv, 3000, 119);
    assert_int_equal(sv_list(sv, a, 8), 1);
    sv_settle(sv);
    struct fc other;
    fc_init(&other, sv->t[0], 78);
    assert_int_equal(fc_connect(&other), PS_OK);
    assert_int_equal(fc_beat(&other, 120, NULL).status, PS_OK);
    assert_applied(fc_call(&other, PS_OP_GOODBYE, 0, 99, 0, NULL, 0, NULL)); /* a short training */
    pass(sv, 3000, -1);
    assert_int_equal(sv_list(sv, a, 8), 2);
    pass(sv, 10000, -1);
    assert_int_equal(sv_list(sv, a, 8), 2);
}

/* What a reset empties is in no checkpoint that is saved after it. */
TEST(test_reset_ends_it)
{
    struct sv *sv = sv_new();
    sv->disks[1].held = true;
    sv_ask(sv);
    sv_run(sv);
    struct wire *w = wire_new();
    fc_frame(&sv->c, w, PS_OP_RESET, 0, 50, 0, NULL, 0, NULL);
    shell_send(sv->c.conn, w);
    assert_reply(fc_take(&sv->c, NULL), PS_ABORTED, "was reset meanwhile");
    sv->disks[1].held = false;
    sv_run(sv);
    assert_applied(fc_take(&sv->c, NULL));
    assert_true(sv_has_nothing(sv, 0, 1) && sv_has_nothing(sv, 1, 1));
    struct fc_reply r = sv_save(sv);
    assert_int_equal(sv_number(&r), 2);
}

/* Steps count from the model that is there: it may have gone back; and while none are made there is nothing to save. */
TEST(test_steps_of_a_model_that_went_back)
{
    ps_v1_CheckpointAnswer a[8];
    struct sv *sv = sv_new_bare(false, false, by_time);
    PSI_IGNORE(sv_join(sv)); /* it stays with the tasks */
    pass(sv, 2000, 1390);
    assert_int_equal(sv_list(sv, a, 8), 1);
    pass(sv, 2000, 50);
    assert_int_equal(sv_list(sv, a, 8), 1);
    pass(sv, 2000, 149);
    assert_int_equal(sv_list(sv, a, 8), 1);
    pass(sv, 2000, 150);
    assert_int_equal(sv_list(sv, a, 8), 2);
    pass(sv, 60000, 150);
    assert_int_equal(sv_list(sv, a, 8), 2);
    pass(sv, 2000, 151);
    assert_int_equal(sv_list(sv, a, 8), 3);
    pass(sv, 3000, INT64_MAX);
    assert_int_equal(sv_list(sv, a, 8), 4);
    pass(sv, 10000, INT64_MAX);
    assert_int_equal(sv_list(sv, a, 8), 4); /* not one a second */
}

/* Steps count for each container: those of a model that is behind another one, too. */
TEST(test_steps_of_two_models)
{
    ps_v1_CheckpointAnswer a[8];
    struct fc other;
    struct sv *sv = sv_new_bare(false, false, by_time);
    PSI_IGNORE(sv_join(sv)); /* it stays with the tasks */
    fc_init(&other, sv->t[0], 78);
    assert_int_equal(fc_connect(&other), PS_OK);
    sv->t[0]->core->config.checkpoint_seconds = 0;
    for (uint64_t step = 0; step <= 250; step += 50) { /* one model has ended, at step 1000; of the other each 100 are saved */
        sv->t[0]->core->store.changes++;
        assert_int_equal(fc_beat_of(&sv->c, 1001, "a", NULL).status, PS_OK);
        assert_int_equal(fc_beat_of(&other, step + 1, "b", NULL).status, PS_OK);
        shell_pass(&sv->net, 1100);
        sv_run(sv);
        assert_int_equal(sv_list(sv, a, 8), 1 + step / 100);
    }
    sv->t[0]->core->store.changes++;
    assert_int_equal(fc_beat_of(&other, 301, "b", NULL).status, PS_OK);
    assert_applied(fc_call(&other, PS_OP_GOODBYE, 0, 99, 0, NULL, 0, NULL));
    shell_pass(&sv->net, 1100);
    sv_run(sv);
    assert_int_equal(sv_list(sv, a, 8), 4); /* what a session says that leaves counts */
}

/* A global step that no int64 is: the session that says it is told so, and nobody is shown it. */
TEST(test_steps_that_cannot_be)
{
    struct sv *sv = sv_new();
    assert_int_equal(fc_beat_of(&sv->c, (uint64_t)INT64_MAX + 1, "a", NULL).status, PS_OK);
    assert_reply(fc_beat_of(&sv->c, (uint64_t)INT64_MAX + 2, "a", NULL), PS_INVALID_ARGUMENT, "global step 9223372036854775808");
    assert_reply(fc_beat_of(&sv->c, UINT64_MAX, "a", NULL), PS_INVALID_ARGUMENT, "global step");
    assert_reply(fc_beat_of(&sv->c, 1, "no\nname", NULL), PS_INVALID_ARGUMENT, "");
}

/* A directory that knows of checkpoints waits for a chief who has made the model ready, or for its time. */
TEST(test_first_one_behind_others)
{
    ps_v1_CheckpointAnswer a[8];
    struct sv *sv = sv_new_bare(false, false, by_time);
    PSI_IGNORE(sv_join(sv)); /* it stays with the tasks */
    PSI_IGNORE(sv_save(sv)); /* 1 */
    sv_kill(sv, 0);
    sv_boot(sv, 0, by_time);
    sv_connect(sv);
    PSI_IGNORE(sv_join(sv)); /* likewise */
    pass(sv, 5000, 7);
    assert_int_equal(sv_list(sv, a, 8), 1);
    pass(sv, 20000, 8);
    assert_int_equal(sv_list(sv, a, 8), 2);
}

/* The other one's disk does not take the manifest: it is not reported, and stands in the way of nothing. */
TEST(test_manifest_that_is_not_taken)
{
    ps_v1_CheckpointAnswer a[8];
    struct sv *sv = sv_new();
    sv_decide(sv);
    struct fs_fault *f = &sv->disks[1].fault;
    f->kinds = FS_ALL;
    f->calls = 0;
    f->why = 28; /* ENOSPC */
    f->fail_at = 1;
    sv->disks[1].held = false;
    sv_run(sv);
    assert_reply(fc_take(&sv->c, NULL), PS_RESOURCE_EXHAUSTED, "/job:ps/task:1");
    assert_true(status_says(sv, "failed: checkpoint 1, RESOURCE_EXHAUSTED: /job:ps/task:1"));
    f->fail_at = 0;
    shell_pass(&sv->net, 1500);
    sv_run(sv);
    assert_false(status_says(sv, "failed"));
    struct fc_reply r = sv_save(sv);
    assert_int_equal(sv_number(&r), 2);
    assert_true(sv_is_whole(sv, 1) && sv_is_whole(sv, 2));
    assert_int_equal(sv_list(sv, a, 8), 2);
    assert_int_equal(a[0].state, PS_CHECKPOINT_WHOLE);
}

/* One in part does not stand in for a whole one. */
TEST(test_whole_ones_are_kept)
{
    ps_v1_CheckpointAnswer a[16];
    struct sv *sv = sv_new();
    PSI_IGNORE(sv_save(sv));      /* 1 */
    for (int i = 0; i < 4; i++) { /* 2 to 5, of which the other one loses its part */
        PSI_IGNORE(sv_save(sv));
    }
    sv_kill(sv, 1);
    for (unsigned long long i = 2; i <= 5; i++) {
        char place[512], gone[512];
        (void)snprintf(place, sizeof(place), "%s/ps-1/%020llu", sv->dir, i);
        (void)snprintf(gone, sizeof(gone), "%s/gone-%llu", sv->dir, i);
        assert_int_equal(rename(place, gone), 0);
    }
    sv->t[0]->core->config.restore = PSD_RESTORE_NONE; /* as a reload sets it: or they do not begin without these parts */
    sv_boot(sv, 1, sv_with_disk);
    PSI_IGNORE(sv_join(sv)); /* it stays with the tasks */
    PSI_IGNORE(sv_save(sv)); /* 6 */
    assert_int_equal(sv_list(sv, a, 16), 6);
    assert_true(sv_is_whole(sv, 1) && sv_is_whole(sv, 6));
}

/* The one that `restore` names stays, however many are newer. */
TEST(test_named_one_is_kept)
{
    struct sv *sv = sv_new();
    struct psd_task_config *config = &sv->t[0]->core->config;
    PSI_IGNORE(sv_save(sv)); /* 1 */
    config->restore = -1;
    config->max_to_keep = 2;
    for (int i = 0; i < 4; i++) { /* 2 to 5 */
        PSI_IGNORE(sv_save(sv));
    }
    sv_run(sv);
    assert_true(sv_is_whole(sv, 1) && sv_has_nothing(sv, 0, 2) && sv_is_whole(sv, 5));
    config->restore = PSD_RESTORE_AUTO;
    PSI_IGNORE(sv_save(sv)); /* 6 */
    sv_run(sv);
    assert_true(sv_has_nothing(sv, 0, 1) && sv_is_whole(sv, 6));
}

/* 0: all, also duplicates and those of which the manifest is damaged. */
TEST(test_all_are_kept)
{
    char path[512];
    ps_v1_CheckpointAnswer a[16];
    struct sv *sv = sv_new();
    PSI_IGNORE(sv_save(sv)); /* 1 */
    sv_kill(sv, 0);
    (void)snprintf(path, sizeof(path), "%s/ps-0/%020d/manifest", sv->dir, 1);
    assert_int_equal(truncate(path, 20), 0);
    sv_boot(sv, 0, sv_with_disk);
    sv->t[0]->core->config.restore = PSD_RESTORE_NONE; /* or they do not begin: it is the only one */
    sv->t[0]->core->config.max_to_keep = 0;
    sv_connect(sv);
    PSI_IGNORE(sv_join(sv));      /* it stays with the tasks */
    for (int i = 0; i < 9; i++) { /* 2 to 10, and all have the same content */
        PSI_IGNORE(sv_save(sv));
        sv_run(sv);
    }
    assert_int_equal(sv_list(sv, a, 16), 10);
    assert_int_equal(a[0].state, PS_CHECKPOINT_UNUSABLE);
    for (uint64_t number = 2; number <= 10; number++) {
        assert_true(sv_is_whole(sv, number));
    }
}

/* 1: the newest whole one alone, which goes when another one is whole on all tasks, and not before. */
TEST(test_one_is_kept)
{
    struct sv *sv = sv_new();
    sv->t[0]->core->config.max_to_keep = 1;
    for (uint64_t number = 1; number <= 3; number++) {
        PSI_IGNORE(sv_save(sv));
        sv_run(sv);
        assert_true(sv_is_whole(sv, number) && sv_has_nothing(sv, 0, number - 1) && sv_has_nothing(sv, 1, number - 1));
    }
    sv_ask(sv);
    sv_kill(sv, 1); /* while the next one is made */
    sv_run(sv);
    assert_true(sv_has(sv, 0, 3, PSD_DISK_MANIFEST) && sv_has(sv, 1, 3, PSD_DISK_MANIFEST));
    sv_boot(sv, 1, sv_with_disk);
    sv_run(sv);
    assert_true(sv_is_whole(sv, 3));
}

/* A manifest of ours that is none: its bytes go when newer ones are whole. */
TEST(test_damaged_manifest)
{
    char path[512];
    struct sv *sv = sv_new();
    PSI_IGNORE(sv_save(sv)); /* 1 */
    sv_kill(sv, 0);
    (void)snprintf(path, sizeof(path), "%s/ps-0/%020d/manifest", sv->dir, 1);
    assert_int_equal(truncate(path, 20), 0);
    sv_boot(sv, 0, sv_with_disk);
    sv->t[0]->core->config.restore = PSD_RESTORE_NONE; /* or they do not begin: it is the only one */
    sv_connect(sv);
    PSI_IGNORE(sv_join(sv)); /* it stays with the tasks */
    assert_true(shell_logged(sv->t[0], "checkpoint_unusable"));
    PSI_IGNORE(sv_save(sv)); /* 2 */
    ps_v1_CheckpointAnswer a[4];
    assert_int_equal(sv_list(sv, a, 4), 2);
    assert_true(a[0].number == 1 && a[0].state == PS_CHECKPOINT_UNUSABLE && a[0].bytes == 0);
    assert_true(a[0].text.size > 0 && a[1].number == 2 && a[1].state == PS_CHECKPOINT_WHOLE && a[1].text.size == 0);
    assert_true(sv_has(sv, 0, 1, PSD_DISK_STATE) && sv_has(sv, 1, 1, PSD_DISK_STATE));
    PSI_IGNORE(sv_save(sv)); /* 3 */
    sv_run(sv);
    assert_true(sv_has_nothing(sv, 0, 1) && sv_has_nothing(sv, 1, 1));
}

/* Both are told to end: a last one is made, of all of them, and they wait for it. */
TEST(test_last_one_at_the_end)
{
    ps_v1_CheckpointAnswer a[8];
    for (uint32_t first = 0; first < 2; first++) {
        struct sv *sv = sv_new_bare(false, false, by_time);
        PSI_IGNORE(sv_join(sv)); /* it stays with the tasks */
        pass(sv, 2000, 7);       /* 1 */
        pass(sv, 2000, 8);
        assert_int_equal(sv_list(sv, a, 8), 1);
        psd_task_drain(sv->t[first]->core);
        psd_task_drain(sv->t[1 - first]->core);
        assert_false(psd_task_drained(sv->t[0]->core) && psd_task_drained(sv->t[1]->core));
        sv_run(sv);
        assert_true(sv_is_whole(sv, 2));
        sv_run(sv);
        assert_true(psd_task_drained(sv->t[0]->core) && psd_task_drained(sv->t[1]->core));
        assert_true(sv_has_nothing(sv, 0, 3));
    }
}

/* The directory is not there, or has nothing to save: the other one waits for a second at most. */
TEST(test_end_without_a_last_one)
{
    struct sv *sv = sv_new_bare(false, false, by_time);
    PSI_IGNORE(sv_join(sv)); /* it stays with the tasks */
    psd_task_drain(sv->t[1]->core);
    sv_run(sv);
    assert_false(psd_task_drained(sv->t[1]->core));
    shell_pass(&sv->net, 1100);
    sv_run(sv);
    assert_true(psd_task_drained(sv->t[1]->core));
    assert_true(sv_has_nothing(sv, 1, 1));
}

/* What the directory asks of a checkpoint without a number is refused. */
TEST(test_orders_of_no_checkpoint)
{
    static const uint8_t ops[] = {PS_OP_TASK_CUT, PS_OP_TASK_DROP};
    const ps_v1_SaveItem item = {.hurries = true};
    struct fc d;
    struct sv *sv = sv_new_bare(false, false, sv_with_disk);
    fc_init(&d, sv->t[1], 9);
    d.conn = be_the_directory(&sv->net, sv->t[1], 5);
    shell_forget(d.conn);
    for (size_t i = 0; i < ARRAY_COUNT(ops); i++) {
        struct wire *body = wire_new();
        wire_item(body, &ps_v1_SaveItem_msg, &item);
        assert_reply(fc_call(&d, ops[i], 0, d.next_id++, 0, NULL, 0, body), PS_INVALID_ARGUMENT, "numbered from 1 on");
    }
    sv_run(sv);
    assert_true(sv_has_nothing(sv, 1, 0));
    psd_task_check_invariants(sv->t[1]->core);
}
