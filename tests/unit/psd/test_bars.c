/* SPDX-License-Identifier: Apache-2.0 */
/*
 * psd/checkpoint/bars.c, psd/directory/reset.c, saves_parts.c: what was reset or deleted is noted on disks before that is
 * answered, and half a model is saved as no checkpoint.
 */
#include "save_test.h"

#include "psd/checkpoint/saver.h"
#include "psd/checkpoint/beside.h"

#include <sys/stat.h>
#include <unistd.h>

#define CONTAINER "localhost"

static void send_reset(struct sv *sv, uint64_t id)
{
    struct wire *w = wire_new();
    fc_frame(&sv->c, w, PS_OP_RESET, 0, id, 0, NULL, 0, NULL);
    shell_send(sv->c.conn, w);
}

/* Send RESET as the chief with this number. */
static void send_reset_as(struct sv *sv, uint64_t id, uint64_t chief_number)
{
    ps_v1_Wait m = {.timeout_ms = 1000, .chief_number = chief_number};
    uint8_t meta[PS_META_BYTES_MAX];
    struct wire *w = wire_new();
    size_t bytes = 0;
    assert_int_equal(psi_msg_encode(&ps_v1_Wait_msg, &m, meta, sizeof(meta), &bytes, NULL), PS_OK);
    fc_frame(&sv->c, w, PS_OP_RESET, 0, id, 0, meta, (uint16_t)bytes, NULL);
    shell_send(sv->c.conn, w);
}

/* What `psctl status` says of checkpoints. */
static const char *status_of(struct sv *sv)
{
    static char text[1024];
    ps_v1_InfoAnswer a;
    assert_int_equal(fc_info(&sv->c, &a), PS_OK);
    assert_int_equal(PSI_BYTES_TEXT(a.checkpoints, text, sizeof(text)), PS_OK);
    return text;
}

/* A CREATE, of a name that is there or of a new one, and a DELETE are refused with that text. */
static void expect_refused(struct sv *sv, uint64_t id, const char *text)
{
    static const char *const names[] = {"v0", "w"};
    ps_v1_CreateItem m;
    ps_v1_CreateAnswer a;
    for (int i = 0; i < 2; i++) {
        fc_create_item(&m, names[i], PS_F32, 10, ps_adagrad(0.1));
        assert_int_equal(fc_create(&sv->c, &m, &a), PS_UNAVAILABLE);
        assert_true(says(&a, text));
        assert_int_equal(a.reason, PS_REASON_RESET_PENDING);
    }
    assert_reply(fc_delete(&sv->c, id, "v0"), PS_UNAVAILABLE, text);
}

static struct fc_reply reset(struct sv *sv, uint64_t id)
{
    send_reset(sv, id);
    sv_run(sv);
    return fc_take(&sv->c, NULL);
}

static struct fc_reply delete (struct sv *sv, uint64_t id, const char *name)
{
    struct fc_reply r = fc_delete(&sv->c, id, name);
    sv_run(sv);
    return r.status == FC_NONE ? fc_take(&sv->c, NULL) : r;
}

static bool allows(const struct psd_task *t, const char *container, uint64_t number)
{
    return number > psd_bars_number(t, container);
}

static uint64_t bar_at(const struct sv *sv, uint32_t i)
{
    const struct psd_bar *bar = psd_bars_find(sv->t[i]->core, CONTAINER);
    return bar == NULL ? 0 : bar->number;
}

/* A variable at a task, without a value. */
static void make_at(struct sv *sv, const char *name, uint32_t task)
{
    ps_v1_CreateItem m;
    fc_create_item(&m, name, PS_F32, 10, ps_adagrad(0.1));
    m.task = task;
    assert_int_equal(fc_create(&sv->c, &m, NULL), PS_OK);
}

/* ... gets one. */
static void give(struct sv *sv, const char *name, uint32_t task, bool seal)
{
    static uint8_t ids = 10;
    struct fc c;
    ps_v1_OpenAnswer v;
    fc_init(&c, sv->t[task], ids++);
    assert_int_equal(fc_connect(&c), PS_OK);
    assert_int_equal(fc_open(&c, name, &v), PS_OK);
    assert_reply(fc_init_var(&c, v.handle, ps_constant(1), ps_adagrad(0.1), 0, false), PS_OK, "");
    if (seal) {
        assert_reply(fc_seal(&c, v.handle, v.creation, 0), PS_OK, "");
    }
    fc_cut(&c);
}

/* A task that comes back begins empty. */
static void begins_empty(struct psd_task_config *config)
{
    sv_with_disk(config);
    config->restore = PSD_RESTORE_NONE;
}

/* One on each, with a value. */
static struct sv *with_model(bool seal)
{
    struct sv *sv = sv_new_bare(false, false, begins_empty);
    PSI_IGNORE(sv_join(sv)); /* it stays with the tasks */
    for (uint32_t i = 0; i < 2; i++) {
        make_at(sv, i == 0 ? "v0" : "v1", i);
        give(sv, i == 0 ? "v0" : "v1", i, seal);
    }
    return sv;
}

static void reboot(struct sv *sv, uint32_t i)
{
    sv_kill(sv, i);
    sv_boot(sv, i, begins_empty);
    if (i == 0) {
        sv_connect(sv);
    }
    PSI_IGNORE(sv_join(sv)); /* it stays with the tasks */
}

TEST(test_reset_is_noted_before_it_is_answered)
{
    struct sv *sv = with_model(false);
    struct fc_reply r = sv_save(sv);
    assert_int_equal(sv_number(&r), 1);
    sv->disks[0].held = sv->disks[1].held = true;
    send_reset(sv, 50);
    sv_run(sv);
    assert_true(peek_at(sv->t[0], "v0").found && peek_at(sv->t[1], "v1").found); /* our disk has not noted it */
    assert_reply(reset(sv, 51), PS_UNAVAILABLE, "pending");
    sv->disks[0].held = false;
    sv_run(sv);
    assert_false(peek_at(sv->t[0], "v0").found || peek_at(sv->t[1], "v1").found);
    assert_int_equal(fc_take(&sv->c, NULL).status, FC_NONE); /* the other one's has not */
    sv->disks[1].held = false;
    sv_run(sv);
    assert_applied(fc_take(&sv->c, NULL));
    for (uint32_t i = 0; i < 2; i++) {
        reboot(sv, i);
        assert_int_equal(bar_at(sv, i), 1);
        assert_false(allows(sv->t[i]->core, CONTAINER, 1));
        assert_true(allows(sv->t[i]->core, CONTAINER, 2) && allows(sv->t[i]->core, "other", 1));
    }
    assert_int_equal(psd_saver_bar(sv->t[0]->core, CONTAINER), 1);
    make_at(sv, "v0", 0); /* it is over, and is not begun again */
    assert_true(peek_at(sv->t[0], "v0").found);
}

/* ... and that it is over, so that no later life of the directory resets what is made from then on. */
TEST(test_end_is_noted_before_it_is_answered)
{
    struct sv *sv = with_model(false);
    ps_v1_CreateItem m;
    PSI_IGNORE(sv_save(sv)); /* 1 */
    sv->disks[1].held = true;
    send_reset(sv, 50);
    sv_run(sv);
    sv->disks[0].held = true;
    sv->disks[1].held = false;
    sv_run(sv);
    assert_int_equal(fc_take(&sv->c, NULL).status, FC_NONE);
    fc_create_item(&m, "w", PS_F32, 10, ps_adagrad(0.1));
    assert_int_equal(fc_create(&sv->c, &m, NULL), PS_UNAVAILABLE);
    sv->disks[0].held = false;
    sv_run(sv);
    assert_applied(fc_take(&sv->c, NULL));
    make_at(sv, "w", 0);
}

/* The disk of the directory is empty: the other task's bar holds. */
TEST(test_bar_of_another_task)
{
    char gone[512], place[512];
    struct sv *sv = with_model(false);
    PSI_IGNORE(sv_save(sv)); /* 1 */
    assert_applied(reset(sv, 50));
    sv_kill(sv, 0);
    (void)snprintf(place, sizeof(place), "%s/ps-0", sv->dir);
    (void)snprintf(gone, sizeof(gone), "%s/gone", sv->dir);
    assert_int_equal(rename(place, gone), 0);
    (void)snprintf(place, sizeof(place), "%s/ps-1", sv->dir);
    (void)snprintf(gone, sizeof(gone), "%s/elsewhere", sv->dir);
    assert_int_equal(rename(place, gone), 0); /* on another host, as its task sees it */
    sv_boot(sv, 0, sv_with_disk);
    assert_int_equal(rename(gone, place), 0);
    sv_connect(sv);
    assert_int_equal(psd_saver_bar(sv->t[0]->core, CONTAINER), 0);
    PSI_IGNORE(sv_join(sv)); /* it stays with the tasks */
    assert_int_equal(psd_saver_bar(sv->t[0]->core, CONTAINER), 1);
}

/* A directory that dies in the middle of a reset begins it again. */
TEST(test_directory_lost_in_a_reset)
{
    struct sv *sv = with_model(false);
    PSI_IGNORE(sv_save(sv)); /* 1 */
    sv->disks[0].held = true;
    send_reset(sv, 50);
    sv_run(sv);
    shell_cut(PSI_CONTAINER_OF(psi_list_first(&sv->t[1]->conns), struct shell_conn, link));
    sv->disks[0].held = false;
    sv_run(sv);
    assert_false(peek_at(sv->t[0], "v0").found);
    assert_true(peek_at(sv->t[1], "v1").found); /* not told */
    sv_kill(sv, 0);
    sv_boot(sv, 0, sv_with_disk);
    sv_connect(sv);
    ps_v1_CreateItem m;
    fc_create_item(&m, "w", PS_F32, 10, ps_adagrad(0.1));
    assert_int_equal(fc_create(&sv->c, &m, NULL), PS_UNAVAILABLE);
    PSI_IGNORE(sv_join(sv)); /* it stays with the tasks */
    assert_false(peek_at(sv->t[1], "v1").found);
    assert_int_equal(bar_at(sv, 1), 1);
    make_at(sv, "v1", 1); /* and it is over */
    reboot(sv, 0);
    assert_true(peek_at(sv->t[1], "v1").found); /* for good */
}

/* A call of the directory's disk fails: nothing is reset, now or later. */
TEST(test_disk_of_the_directory_fails)
{
    for (uint64_t n = 1;; n++) {
        struct sv *sv = with_model(false);
        PSI_IGNORE(sv_save(sv)); /* 1 */
        struct fs_fault *f = &sv->disks[0].fault;
        f->kinds = FS_ALL;
        f->calls = 0;
        f->why = 28; /* ENOSPC */
        f->fail_at = n;
        struct fc_reply r = reset(sv, 50);
        f->fail_at = 0;
        if (r.status == PS_OK) {
            assert_in_range(n, 5, 100); /* some failed */
            break;
        }
        assert_reply(r, PS_RESOURCE_EXHAUSTED, "/job:ps/task:0");
        bool begun = !peek_at(sv->t[0], "v0").found;
        assert_int_equal(begun, !peek_at(sv->t[1], "v1").found); /* on both or on none */
        shell_pass(&sv->net, 1500);
        sv_run(sv);
        assert_int_equal(bar_at(sv, 0), begun ? 1 : 0);
        reboot(sv, 0);
        sv_run(sv);
        assert_int_equal(bar_at(sv, 0), begun ? 1 : 0);
        assert_int_equal(begun, !peek_at(sv->t[1], "v1").found);
        sv_run(sv);
        assert_applied(reset(sv, 51));
    }
}

/* From the moment on when a reset is accepted nothing is made that it would then empty. */
TEST(test_nothing_is_made_before_a_reset_is_noted)
{
    struct sv *sv = with_model(true);
    ps_v1_CreateItem m;
    PSI_IGNORE(sv_save(sv)); /* 1 */
    sv->disks[0].held = true;
    send_reset(sv, 50);
    sv_run(sv);
    expect_refused(sv, 60, "container 'localhost' is being reset: no answer yet from the disk of /job:ps/task:0");
    fc_create_item(&m, "o", PS_F32, 10, ps_adagrad(0.1));
    PSI_IGNORE(PSI_BYTES_SET(m.container, "other")); /* fits */
    assert_int_equal(fc_create(&sv->c, &m, NULL), PS_OK);
    assert_true(peek_at(sv->t[0], "v0").found);
    sv->disks[0].held = false;
    sv_run(sv);
    assert_applied(fc_take(&sv->c, NULL));
    assert_false(peek_at(sv->t[0], "v0").found || peek_at(sv->t[1], "v1").found);
    make_at(sv, "v0", 0);
}

/* The disk has noted the reset of a chief, and there is a newer one: the model stays, and is shown when no life of the directory
 * would empty it any more. */
TEST(test_newer_chief_before_a_reset_is_noted)
{
    enum { GOES_ON, TIME_IS_OVER, DIES, WAYS };
    for (int way = 0; way < WAYS; way++) {
        struct sv *sv = with_model(true);
        PSI_IGNORE(sv_save(sv)); /* 1 */
        uint64_t number = fc_chief(&sv->c);
        sv->disks[0].held = true;
        send_reset_as(sv, 50, number);
        sv_run(sv);
        assert_true(fc_chief(&sv->c) > number);
        sv->disks[0].held = false;
        for (int op = 0; op < 3; op++) { /* the file is begun, written and published */
            assert_true(sv_disk_step(sv, 0));
        }
        sv->disks[0].held = true;
        assert_int_equal(fc_take(&sv->c, NULL).status, FC_NONE);
        expect_refused(sv, 60, "a reset of container 'localhost' is being taken back: no answer yet from the disk of");
        if (way == TIME_IS_OVER) {
            shell_pass(&sv->net, 1500);
            struct fc_reply r = fc_take(&sv->c, NULL);
            assert_reply(r, PS_ABORTED, "newer chief");
            assert_int_equal(r.applied, PS_OUTCOME_UNKNOWN);
        }
        if (way == DIES) {
            sv_kill(sv, 0);
            sv_boot(sv, 0, begins_empty);
            sv_connect(sv);
            PSI_IGNORE(sv_join(sv)); /* it stays with the tasks */
            assert_false(peek_at(sv->t[1], "v1").found);
            continue;
        }
        sv->disks[0].held = false;
        sv_run(sv);
        if (way == GOES_ON) {
            struct fc_reply r = fc_take(&sv->c, NULL);
            assert_reply(r, PS_ABORTED, "newer chief");
            assert_int_equal(r.applied, PS_NOTHING_APPLIED);
        }
        assert_true(peek_at(sv->t[0], "v0").found && peek_at(sv->t[1], "v1").found);
        make_at(sv, "w", 0);
        reboot(sv, 0);
        assert_true(peek_at(sv->t[1], "v1").found);
        assert_int_equal(bar_at(sv, 0), 0);
    }
}

/* The note of a reset fails. Where the file may have it, nothing is made before the disk has noted that it is not open: a later
 * life of the directory would empty it. */
TEST(test_note_of_a_reset_that_may_be_there)
{
    struct sv *sv = with_model(true);
    PSI_IGNORE(sv_save(sv)); /* 1 */
    struct fs_fault *f = &sv->disks[0].fault;
    f->kinds = FS_SYNC;
    f->calls = 0;
    f->why = 28;    /* ENOSPC */
    f->fail_at = 2; /* of the directory, behind the rename */
    f->stays = true;
    struct fc_reply r = reset(sv, 50);
    assert_reply(r, PS_RESOURCE_EXHAUSTED, "No space left on device");
    assert_int_equal(r.applied, PS_OUTCOME_UNKNOWN);
    for (int i = 0; i < 3; i++) {
        expect_refused(sv, 60 + (uint64_t)i, "No space left on device");
        shell_pass(&sv->net, 1500);
        sv_run(sv);
    }
    f->fail_at = 0;
    f->stays = false;
    shell_pass(&sv->net, 1500);
    sv_run(sv);
    make_at(sv, "w", 0);
    reboot(sv, 0);
    assert_true(peek_at(sv->t[1], "v1").found);
    f->kinds = FS_WRITE;
    f->calls = 0;
    f->why = 28;
    f->fail_at = 1;
    f->stays = true;
    r = reset(sv, 51);
    assert_reply(r, PS_RESOURCE_EXHAUSTED, "No space left on device");
    assert_int_equal(r.applied, PS_NOTHING_APPLIED);
    make_at(sv, "x", 0);
}

/* The other one's disk fails: its client hears of it, and it goes on until that has noted it. */
TEST(test_disk_of_another_task_fails)
{
    struct sv *sv = with_model(false);
    PSI_IGNORE(sv_save(sv)); /* 1 */
    struct fs_fault *f = &sv->disks[1].fault;
    f->kinds = FS_ALL;
    f->calls = 0;
    f->why = 28; /* ENOSPC */
    f->fail_at = 1;
    struct fc_reply r = reset(sv, 50);
    assert_reply(r, PS_RESOURCE_EXHAUSTED, "/job:ps/task:1");
    assert_int_equal(r.applied, PS_MAYBE_PARTLY_APPLIED);
    assert_false(peek_at(sv->t[0], "v0").found || peek_at(sv->t[1], "v1").found);
    r = reset(sv, 51);
    assert_reply(r, PS_UNAVAILABLE, "pending");
    assert_non_null(strstr(r.text, "No space left on device"));
    expect_refused(sv, 60, "No space left on device"); /* nobody is to look into a log */
    assert_non_null(strstr(status_of(sv), "; container 'localhost' is being reset: no answer yet from /job:ps/task:1"));
    assert_non_null(strstr(status_of(sv), "No space left on device"));
    f->fail_at = 0;
    shell_pass(&sv->net, 1500);
    sv_run(sv);
    shell_pass(&sv->net, 1500);
    sv_run(sv);
    assert_int_equal(bar_at(sv, 1), 1);
    assert_null(strstr(status_of(sv), "reset"));
    make_at(sv, "v0", 0);
}

/* Any allocation of a reset: it is carried out on both or on none, and the next one on both, for good. */
TEST(test_no_memory_for_a_reset)
{
    uint32_t failed = 0;
    for (int64_t n = 0, fired = 1; fired; n++) {
        struct sv *sv = with_model(false);
        PSI_IGNORE(sv_save(sv)); /* 1 */
        psi_mem_fail_after(n);
        struct fc_reply r = reset(sv, 50);
        fired = psi_mem_fail_left() < 0;
        failed += r.status != PS_OK;
        sv_settle(sv);
        bool begun = !peek_at(sv->t[0], "v0").found;
        assert_int_equal(begun, !peek_at(sv->t[1], "v1").found);
        assert_true(begun || r.status != PS_OK);
        assert_int_equal(bar_at(sv, 0), begun);
        assert_int_equal(bar_at(sv, 1), begun);
        assert_applied(reset(sv, 51));
        make_at(sv, "v1", 1);
        reboot(sv, 0);
        assert_true(peek_at(sv->t[1], "v1").found);
        assert_int_equal(psd_saver_bar(sv->t[0]->core, CONTAINER), 1);
    }
    assert_in_range(failed, 5, UINT32_MAX);
}

/* Any allocation of a delete, at the directory and at another task: who deleted nothing is told so, and the name is free
 * otherwise. */
static void delete_without_memory(const char *name, uint32_t task)
{
    for (int64_t n = 0, fired = 1; fired; n++) {
        struct sv *sv = with_model(false);
        PSI_IGNORE(sv_save(sv)); /* 1 */
        psi_mem_fail_after(n);
        struct fc_reply r = delete (sv, 50, name);
        fired = psi_mem_fail_left() < 0;
        psi_mem_fail_after(-1);
        sv_settle(sv);
        bool gone = !peek_at(sv->t[task], name).found;
        bool told = r.status != FC_NONE && (r.status == PS_OK || r.applied != PS_OUTCOME_UNKNOWN);
        if (told && (r.status == PS_OK) != gone) {
            assert_int_equal(gone, r.applied == PS_MAYBE_PARTLY_APPLIED);
        }
        if (gone && told) {
            assert_null(psd_directory_find(&sv->t[0]->core->names, CONTAINER, name));
        }
    }
}

TEST(test_no_memory_for_a_delete)
{
    delete_without_memory("v0", 0);
    delete_without_memory("v1", 1);
}

/* Without a checkpoint nothing can come back, and nothing is kept. */
TEST(test_nothing_is_kept_without_a_checkpoint)
{
    struct sv *sv = with_model(false);
    assert_applied(reset(sv, 50));
    assert_int_equal(sv->t[0]->core->shards->bars.version, 0);
    PSI_IGNORE(sv_save(sv)); /* 1 */
    PSI_IGNORE(sv_save(sv)); /* 2 */
    assert_applied(reset(sv, 51));
    assert_int_equal(bar_at(sv, 1), 2);
    for (int i = 0; i < 5; i++) { /* 3 to 7: those go */
        PSI_IGNORE(sv_save(sv));
    }
    make_at(sv, "v0", 0);
    assert_applied(delete (sv, 52, "v0")); /* writes the file */
    assert_int_equal(bar_at(sv, 0), 0);
}

/* A cut of a container that some tasks have reset and others not would bring it back in half. */
TEST(test_no_cut_in_a_reset)
{
    struct sv *sv = with_model(false);
    PSI_IGNORE(sv_save(sv)); /* 1 */
    sv->disks[0].held = true;
    send_reset(sv, 50);
    sv_run(sv);
    sv_ask(sv);
    sv_run(sv);
    assert_int_equal(sv->t[0]->core->saver->phase, PSD_SAVER_IDLE);
    sv->disks[0].held = false;
    sv->disks[1].held = true;
    sv_run(sv);
    assert_int_equal(sv->t[0]->core->saver->phase, PSD_SAVER_IDLE);
    char status[512];
    PSI_IGNORE(sv_status(sv, status, sizeof(status))); /* it is status */
    assert_non_null(strstr(status, "; one waits for the end of a reset"));
    struct psd_wait *asked = psd_wait_first(&sv->t[0]->core->saver->asked);
    struct psd_wait_text text;
    asked->kind->describe(sv->t[0]->core, asked, &text);
    assert_string_equal(text.release, "the end of a reset");
    sv->disks[1].held = false;
    sv_run(sv);
    assert_applied(fc_take(&sv->c, NULL));
    struct fc_reply r = fc_take(&sv->c, NULL);
    assert_int_equal(sv_number(&r), 2);
}

TEST(test_deleted_variables)
{
    struct sv *sv = with_model(false);
    PSI_IGNORE(sv_save(sv)); /* 1 */
    for (uint32_t i = 0; i < 2; i++) {
        const char *name = i == 0 ? "v0" : "v1";
        sv->disks[i].held = true;
        assert_int_equal(fc_delete(&sv->c, 50 + i, name).status, FC_NONE);
        assert_false(peek_at(sv->t[i], name).found);
        if (i == 1) { /* made again before that is noted: its name stays */
            make_at(sv, name, 1);
        }
        sv->disks[i].held = false;
        sv_run(sv);
        assert_applied(fc_take(&sv->c, NULL));
        reboot(sv, i);
        assert_true(psd_bars_deleted(sv->t[i]->core, CONTAINER, name, 1));
        assert_false(psd_bars_deleted(sv->t[i]->core, CONTAINER, name, 2));
        assert_true(allows(sv->t[i]->core, CONTAINER, 1)); /* the others are in it */
    }
    assert_int_equal(fc_find(&sv->c, "v0", NULL), PS_NOT_FOUND);
}

/* The owner's disk fails: it is deleted all the same, and its client is told so at once, and does not ask again. */
TEST(test_disk_of_the_owner_fails)
{
    struct sv *sv = with_model(false);
    PSI_IGNORE(sv_save(sv)); /* 1 */
    for (uint32_t i = 0; i < 2; i++) {
        const char *name = i == 0 ? "v0" : "v1";
        struct fs_fault *f = &sv->disks[i].fault;
        f->kinds = FS_ALL;
        f->calls = 0;
        f->why = 28; /* ENOSPC */
        f->fail_at = 1;
        struct fc_reply r = delete (sv, 50 + i, name);
        assert_reply(r, PS_RESOURCE_EXHAUSTED, "it is deleted");
        assert_int_equal(r.applied, PS_MAYBE_PARTLY_APPLIED);
        assert_int_equal(fc_find(&sv->c, name, NULL), PS_NOT_FOUND);
        f->fail_at = 0;
        shell_pass(&sv->net, 1500);
        sv_run(sv);
        reboot(sv, i);
        assert_true(psd_bars_deleted(sv->t[i]->core, CONTAINER, name, 1));
    }
}

/* Its owner has lost it, and a checkpoint has it. */
TEST(test_deleted_though_it_was_lost)
{
    struct sv *sv = with_model(true);
    PSI_IGNORE(sv_save(sv)); /* 1 */
    reboot(sv, 1);
    assert_applied(delete (sv, 50, "v1"));
    reboot(sv, 1);
    assert_true(psd_bars_deleted(sv->t[1]->core, CONTAINER, "v1", 1));
}

TEST(test_name_of_one_that_is_made_again)
{
    struct sv *sv = with_model(false);
    PSI_IGNORE(sv_save(sv)); /* 1 */
    sv->disks[1].held = true;
    assert_int_equal(fc_delete(&sv->c, 50, "v1").status, FC_NONE);
    make_at(sv, "v1", 1);
    sv->disks[1].held = false;
    sv_run(sv);
    assert_applied(fc_take(&sv->c, NULL));
    assert_int_equal(fc_find(&sv->c, "v1", NULL), PS_OK);
}

TEST(test_too_many_deleted_variables)
{
    struct sv *sv = sv_new();
    struct psd_task *t = sv->t[0]->core;
    struct psi_err err;
    char name[32];
    PSI_IGNORE(sv_save(sv)); /* 1 */
    for (int i = 0; i < PSD_BARS_NAMES_MAX; i++) {
        if (i == PSD_BARS_NAMES_MAX / 2) {
            PSI_IGNORE(sv_save(sv)); /* 2 */
        }
        (void)snprintf(name, sizeof(name), "v%d", i);
        assert_ok(psd_bars_delete(t, CONTAINER, name, &err), &err);
    }
    assert_true(allows(t, CONTAINER, 1));
    assert_int_equal(psd_bars_delete(t, "other", "w", &err), PS_RESOURCE_EXHAUSTED);
    assert_string_equal(err.text,
                        "/job:ps/task:0: checkpoints have 4096 variables that were deleted, as many as a task notes, all "
                        "of other containers: delete the checkpoints up to number 1 (psctl checkpoint delete), or wait "
                        "until newer ones have replaced them; the oldest variable is 'v0' of container 'localhost'");
    assert_ok(psd_bars_delete(t, CONTAINER, "w", &err), &err);
    assert_false(allows(t, CONTAINER, 1));
    assert_true(allows(t, CONTAINER, 2));
    assert_true(psd_bars_deleted(t, CONTAINER, "w", 2) && psd_bars_deleted(t, CONTAINER, name, 2));
    assert_int_equal(t->shards->bars.names, PSD_BARS_NAMES_MAX / 2 + 1);
    for (int i = 1; i < PSD_BARS_NAMES_MAX / 2; i++) {
        (void)snprintf(name, sizeof(name), "w%d", i);
        assert_ok(psd_bars_delete(t, CONTAINER, name, &err), &err);
    }
    assert_ok(psd_bars_set(t, CONTAINER, 2, true, &err), &err);
    assert_int_equal(psd_bars_delete(t, CONTAINER, "x", &err), PS_RESOURCE_EXHAUSTED); /* the bar may be taken back */
    assert_non_null(strstr(err.text, "container 'localhost' is being reset: delete the variable again when that reset is over"));
    assert_true(psd_bars_deleted(t, CONTAINER, name, 2));
    psd_bars_check_invariants(t);
}

/* The list is full. The checkpoints that its oldest names are of are deleted, as the error says, and there is room. */
TEST(test_room_for_deleted_variables)
{
    struct sv *sv = sv_new();
    struct psd_task *t = sv->t[0]->core;
    struct psi_err err;
    char name[32];
    PSI_IGNORE(sv_save(sv)); /* 1 */
    for (int i = 0; i < PSD_BARS_NAMES_MAX; i++) {
        if (i == 1) {
            PSI_IGNORE(sv_save(sv)); /* 2 */
        }
        (void)snprintf(name, sizeof(name), "v%d", i);
        assert_ok(psd_bars_delete(t, CONTAINER, name, &err), &err);
    }
    assert_int_equal(psd_bars_delete(t, "other", "w", &err), PS_RESOURCE_EXHAUSTED);
    sv_ask_delete(sv, 1, false);
    sv_run(sv);
    assert_applied(fc_take(&sv->c, NULL));
    assert_ok(psd_bars_delete(t, "other", "w", &err), &err);
    assert_true(allows(t, CONTAINER, 2) && psd_bars_deleted(t, "other", "w", 2) && psd_bars_deleted(t, CONTAINER, "v1", 2));
    assert_int_equal(psd_bars_delete(t, "other", "w2", &err), PS_OK); /* of its own container the oldest can be forgotten */
    psd_bars_check_invariants(t);
}

/* Its bytes are not those that were written: this task has no checkpoints. */
TEST(test_damaged_file)
{
    char path[512];
    struct sv *sv = with_model(false);
    PSI_IGNORE(sv_save(sv)); /* 1 */
    assert_applied(reset(sv, 50));
    sv_kill(sv, 1);
    (void)snprintf(path, sizeof(path), "%s/ps-1/bars", sv->dir);
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, 12, SEEK_SET), 0);
    assert_int_not_equal(fputc(0x7f, f), EOF);
    assert_int_equal(fclose(f), 0);
    sv_boot(sv, 1, sv_with_disk);
    assert_true(shell_logged(sv->t[1], "checkpoints_unreadable"));
    PSI_IGNORE(sv_join(sv)); /* it stays with the tasks */
    assert_reply(sv_save(sv), PS_FAILED_PRECONDITION, "/job:ps/task:1");
}

static void not_there(struct psd_task *t, void *ctx, uint64_t id, const struct psi_err *err)
{
    (void)t;
    (void)ctx;
    assert_int_equal(id, 0);
    assert_int_equal(err->code, PS_NOT_FOUND);
}

/* Where no memory is there to read a file, nothing of it is on its way to the disk, which would write into memory that may go. */
TEST(test_no_memory_to_read)
{
    struct sv *sv = with_model(false);
    struct psd_task *t = sv->t[1]->core;
    struct psi_err err;
    ps_status st = PS_RESOURCE_EXHAUSTED;
    for (int64_t n = 0; st != PS_OK; n++) {
        assert_in_range(n, 0, 9);
        psi_mem_fail_after(n);
        st = psd_bars_read(t, &t->shards->others.bars, 0, 64, not_there, &err);
        psi_mem_fail_after(-1);
        assert_int_equal(t->disk_ask_count, st == PS_OK ? 1 : 0);
        assert_int_equal(psi_list_empty(&t->shards->bars.askers), st != PS_OK);
    }
    sv_run(sv);
    assert_int_equal(t->disk_ask_count, 0);
}

/* Cut at any byte, also to nothing: what was reset does not come back. */
TEST(test_cut_file)
{
    char path[512];
    struct stat is;
    struct sv *sv = with_model(false);
    PSI_IGNORE(sv_save(sv)); /* 1 */
    assert_applied(reset(sv, 50));
    (void)snprintf(path, sizeof(path), "%s/ps-1/bars", sv->dir);
    assert_int_equal(stat(path, &is), 0);
    for (off_t bytes = is.st_size; bytes-- > 0;) {
        sv_kill(sv, 1);
        assert_int_equal(truncate(path, bytes), 0);
        sv_boot(sv, 1, sv_with_disk);
        assert_true(shell_logged(sv->t[1], "checkpoints_unreadable"));
    }
}

/* ---- half a model ---- */

TEST(test_task_that_came_back_empty)
{
    struct sv *sv = with_model(true);
    PSI_IGNORE(sv_save(sv)); /* 1 */
    reboot(sv, 1);
    assert_reply(sv_save(sv), PS_FAILED_PRECONDITION, "lost variable 'v1'");
    make_at(sv, "v1", 1);
    assert_reply(sv_save(sv), PS_FAILED_PRECONDITION, "without a value");
    give(sv, "v1", 1, false);
    struct fc_reply r = sv_save(sv);
    assert_int_equal(sv_number(&r), 3);
}

/* Nobody knows its names any more. */
TEST(test_directory_that_came_back_empty)
{
    struct sv *sv = with_model(true);
    PSI_IGNORE(sv_save(sv)); /* 1 */
    reboot(sv, 0);
    assert_reply(sv_save(sv), PS_FAILED_PRECONDITION, "/job:ps/task:0 has nothing of container");
    assert_true(sv_is_whole(sv, 1));
    assert_applied(reset(sv, 50));
    struct fc_reply r = sv_save(sv);
    assert_int_equal(sv_number(&r), 3);
}

/* ... but what was deleted need not be there. */
TEST(test_deleted_is_not_lost)
{
    struct sv *sv = with_model(true);
    PSI_IGNORE(sv_save(sv)); /* 1 */
    assert_applied(delete (sv, 50, "v0"));
    struct fc_reply r = sv_save(sv);
    assert_int_equal(sv_number(&r), 2);
}

/* Its step is that of the variable, at the cut: neither what a session says nor what it is when the disk is done. */
TEST(test_step_of_a_checkpoint)
{
    struct sv *sv = sv_new();
    const int64_t one = 1;
    ps_v1_OpenAnswer v = fc_ready(&sv->c, "global_step", PS_I64, 1, ps_no_optimizer(), 1205);
    assert_int_equal(fc_beat(&sv->c, 1390, NULL).status, PS_OK);
    sv->disks[0].held = true;
    sv_ask(sv); /* 1 */
    assert_reply(fc_push(&sv->c, PS_OP_ADD, &v, &one, 1, 0), PS_OK, "");
    sv->disks[0].held = false;
    sv_run(sv);
    assert_applied(fc_take(&sv->c, NULL));
    struct wire *w = wire_new();
    assert_reply(fc_list(&sv->c, PS_OP_CHECKPOINTS, NULL, NULL, w), PS_OK, "");
    const uint8_t *p = w->data;
    size_t n = w->len;
    ps_v1_CheckpointAnswer a;
    assert_true(fc_item(&p, &n, &ps_v1_CheckpointAnswer_msg, &a));
    assert_int_equal(a.step, 1205 + 1);
}

/* Bars count in the memory budget, those of containers, of variables and of tasks beside this one; none is counted twice. */
TEST(test_bars_are_counted)
{
    struct sv *sv = sv_new();
    struct psd_task *t = sv->t[0]->core;
    const uint64_t *counted = &t->store.counted[PSD_MEMORY_CONTAINERS], before = *counted;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(psd_bars_set(t, "one", 5, false, NULL), PS_OK);
        assert_int_equal(psd_bars_note(t, &t->shards->bars, "one", "w", 5, NULL), PS_OK);
        assert_int_equal(psd_bars_note(t, &t->shards->others.bars, "one", "w", 5, NULL), PS_OK);
        assert_int_equal(*counted, before + 3 * PSD_BAR_BYTES);
    }
    assert_int_equal(psd_bars_set(t, "one", 0, false, NULL), PS_OK);
    assert_int_equal(*counted, before + 2 * PSD_BAR_BYTES);
    psd_task_check_invariants(t);
}
