/* SPDX-License-Identifier: Apache-2.0 */
/* A disk that is full: older checkpoints give way, a duplicate first, and never the newest whole one; an attempt that fails is
 * shown, and the last one is told at the end (DURABILITY 4.8, 6.8). */
#include "save_test.h"

#include "task_test.h"

#include <errno.h>

static void by_time(struct psd_task_config *config)
{
    sv_with_disk(config);
    config->checkpoint_seconds = 20;
    config->max_to_keep = 5;
}

static void pass(struct sv *sv, uint64_t ms)
{
    for (uint64_t i = 0; i < ms; i += 1000) {
        shell_pass(&sv->net, 1000);
        sv_run(sv);
    }
}

static struct sv *begin(void)
{
    struct sv *sv = sv_new_bare(false, false, by_time);
    PSI_IGNORE(sv_join(sv)); /* it stays with the tasks */
    return sv;
}

/* Its disk has room for so many checkpoints. */
struct room {
    struct sv *sv;
    uint32_t task;
    uint64_t most;
};

static uint64_t count_on(const struct sv *sv, uint32_t i)
{
    uint64_t count = 0;
    for (uint64_t number = 1; number < 40; number++) {
        count += !sv_has_nothing(sv, i, number);
    }
    return count;
}

static void before(void *ctx, enum fs_call call)
{
    const struct room *r = ctx;
    struct fs_fault *f = &r->sv->disks[r->task].fault;
    if (call == FS_WRITE) { /* the directory of the one that is written counts as well */
        f->calls = 0;
        f->fail_at = count_on(r->sv, r->task) > r->most ? 1 : 0;
    }
}

static void fill(struct room *r, struct sv *sv, uint32_t task, uint64_t most, int why)
{
    struct fs_fault *f = &sv->disks[task].fault;
    *r = (struct room){.sv = sv, .task = task, .most = most};
    f->kinds = FS_WRITE;
    f->why = why;
    f->before = before;
    f->ctx = r;
}

static uint64_t save(struct sv *sv)
{
    sv_ask(sv);
    pass(sv, 4000);
    struct fc_reply r = fc_take(&sv->c, NULL);
    return sv_number(&r);
}

static void restore(struct sv *sv, uint64_t number)
{
    sv_ask_by_name(sv, PS_OP_CHECKPOINT_RESTORE, number, false);
    sv_run(sv);
    struct fc_reply r = fc_take(&sv->c, NULL);
    PSI_IGNORE(sv_number(&r)); /* it is OK */
    pass(sv, 4000);
}

/* max_to_keep does not fit, at either task: who asks waits for the room. */
TEST(test_older_ones_give_way)
{
    for (uint32_t task = 0; task < 2; task++) {
        struct room r;
        struct sv *sv = begin();
        fill(&r, sv, task, 3, ENOSPC);
        for (uint64_t i = 1; i <= 3; i++) {
            assert_int_equal(save(sv), i);
        }
        uint64_t next = save(sv);
        assert_int_equal(next, 5); /* 4 has failed */
        assert_true(shell_logged(sv->t[0], "checkpoint_gives_way"));
        assert_true(sv_has_nothing(sv, 0, 1) && sv_has_nothing(sv, 1, 1));
        assert_true(sv_is_whole(sv, 2) && sv_is_whole(sv, 3) && sv_is_whole(sv, 5));
        ps_v1_CheckpointAnswer a;
        assert_false(sv_failed(sv, &a));
    }
}

/* Of those that are kept for good none gives way: the attempt fails, and what is there stays. */
TEST(test_all_that_are_kept_stay)
{
    struct room r;
    ps_v1_CheckpointAnswer a;
    struct sv *sv = begin();
    sv->t[0]->core->config.max_to_keep = 0;
    for (uint64_t i = 1; i <= 3; i++) {
        assert_int_equal(save(sv), i);
    }
    fill(&r, sv, 1, 3, ENOSPC);
    sv_ask(sv);
    pass(sv, 5000);
    assert_reply(fc_take(&sv->c, NULL), PS_RESOURCE_EXHAUSTED, "no older checkpoint can go: ");
    assert_false(shell_logged(sv->t[0], "checkpoint_gives_way"));
    assert_true(sv_is_whole(sv, 1) && sv_is_whole(sv, 2) && sv_is_whole(sv, 3));
    assert_true(sv_failed(sv, &a));
    sv->t[0]->core->config.max_to_keep = 5; /* as a reload sets it */
    assert_true(save(sv) > 3);
    assert_true(sv_has_nothing(sv, 0, 1) && sv_is_whole(sv, 3));
}

/* The newest whole one never goes: with room for one alone nothing can be saved, and what is there stays. */
TEST(test_the_newest_stays)
{
    struct room r;
    ps_v1_CheckpointAnswer a;
    struct sv *sv = begin();
    assert_int_equal(save(sv), 1);
    assert_int_equal(save(sv), 2);
    fill(&r, sv, 1, 1, ENOSPC);
    sv_ask(sv);
    pass(sv, 5000);
    assert_reply(fc_take(&sv->c, NULL), PS_RESOURCE_EXHAUSTED, "disk is full");
    assert_true(sv_is_whole(sv, 2) && sv_has_nothing(sv, 0, 1));
    assert_true(sv_failed(sv, &a));
    assert_true(a.number == 4 && a.state == PS_CHECKPOINT_UNUSABLE);
    assert_non_null(memmem(a.text.bytes, a.text.size, "no older checkpoint can go: ", 28)); /* room must be made by hand */
    r.most = 2;                                                                             /* there is room again */
    for (int i = 0; i < 25; i++) {
        assert_int_equal(fc_beat(&sv->c, -1, NULL).status, PS_OK);
        pass(sv, 1000);
    }
    assert_false(sv_failed(sv, &a));
    assert_true(sv_is_whole(sv, 2) && sv_is_whole(sv, 5));
}

/* A duplicate goes before an older one that differs. */
TEST(test_a_duplicate_gives_way_first)
{
    struct room r;
    struct sv *sv = begin();
    PSI_IGNORE(fc_ready(&sv->c, "v", PS_F32, 4, ps_sgd(1), 1));
    assert_int_equal(save(sv), 1);
    assert_int_equal(save(sv), 2);
    restore(sv, 2); /* 3: as 2 */
    assert_true(sv_is_whole(sv, 1) && sv_is_whole(sv, 2) && sv_is_whole(sv, 3));
    fill(&r, sv, 0, 3, ENOSPC);
    assert_int_equal(save(sv), 5);
    assert_true(sv_is_whole(sv, 1) && sv_has_nothing(sv, 0, 2) && sv_is_whole(sv, 3) && sv_is_whole(sv, 5));
}

/* What room does not mend takes none away: a limit on the size of files, too many open ones. */
TEST(test_other_failures_take_nothing_away)
{
    static const int whys[] = {EFBIG, EMFILE, EIO};
    for (size_t i = 0; i < sizeof(whys) / sizeof(whys[0]); i++) {
        struct room r;
        struct sv *sv = begin();
        assert_int_equal(save(sv), 1);
        assert_int_equal(save(sv), 2);
        fill(&r, sv, 1, 2, whys[i]);
        sv_ask(sv);
        pass(sv, 5000);
        assert_true(fc_take(&sv->c, NULL).status != PS_OK);
        assert_true(sv_is_whole(sv, 1) && sv_is_whole(sv, 2));
    }
}

static void end(struct sv *sv)
{
    psd_task_drain(sv->t[0]->core);
    psd_task_drain(sv->t[1]->core);
    for (int i = 0; i < 100 && !(psd_task_drained(sv->t[0]->core) && psd_task_drained(sv->t[1]->core)); i++) {
        shell_pass(&sv->net, 100);
        sv_run(sv);
    }
    assert_true(psd_task_drained(sv->t[0]->core) && psd_task_drained(sv->t[1]->core));
}

/* The last one: saved, saved in room that was made for it, nothing new, or lost, which both tasks know. */
TEST(test_the_last_one)
{
    for (uint32_t i = 0; i < 6; i++) {
        struct room r;
        struct sv *sv = begin();
        bool full = (i & 1) != 0, new = i < 4, heals = (i & 2) != 0;
        assert_int_equal(save(sv), 1);
        if (heals) {
            assert_int_equal(save(sv), 2);
        }
        if (full) {
            fill(&r, sv, 1, heals ? 2 : 1, ENOSPC);
        }
        sv->t[0]->core->store.changes += new;
        end(sv);
        bool lost = full && new && !heals;
        assert_true((psd_task_lost_text(sv->t[0]->core) != NULL) == lost);
        assert_true((psd_task_lost_text(sv->t[1]->core) != NULL) == lost);
        if (lost) {
            assert_non_null(strstr(psd_task_lost_text(sv->t[0]->core), "disk is full"));
        }
        assert_true(sv_is_whole(sv, heals ? 2 : 1));
    }
}

/* It is still written when the time to drain is over. */
TEST(test_the_last_one_is_not_over)
{
    struct sv *sv = begin();
    assert_int_equal(save(sv), 1);
    sv->t[0]->core->store.changes++;
    sv->disks[1].held = true;
    psd_task_drain(sv->t[0]->core);
    psd_task_drain(sv->t[1]->core);
    sv_run(sv);
    assert_false(psd_task_drained(sv->t[0]->core) || psd_task_drained(sv->t[1]->core));
    assert_non_null(strstr(psd_task_lost_text(sv->t[0]->core), "not over"));
    assert_non_null(psd_task_lost_text(sv->t[1]->core));
}

static void by_hand(struct psd_task_config *config)
{
    sv_with_disk(config);
    config->checkpoint_seconds = config->checkpoint_steps = 0;
}

static struct sv *begin_by_hand(void)
{
    struct sv *sv = sv_new_bare(false, false, by_hand);
    PSI_IGNORE(sv_join(sv)); /* it stays with the tasks */
    assert_int_equal(save(sv), 1);
    return sv;
}

/* No checkpoint is made by itself. The last save that was asked for has failed: the end says so, until one is saved. What nobody
 * asked to be saved is not lost. */
TEST(test_a_save_by_hand_that_failed)
{
    for (int heals = 0; heals < 2; heals++) {
        struct room r;
        struct sv *sv = begin_by_hand();
        fill(&r, sv, 1, 1, ENOSPC);
        sv_ask(sv);
        pass(sv, 4000);
        assert_int_equal(fc_take(&sv->c, NULL).status, PS_RESOURCE_EXHAUSTED);
        if (heals) {
            sv->disks[1].fault.kinds = 0;
            assert_int_not_equal(save(sv), 0);
        }
        sv->t[0]->core->store.changes++;
        end(sv);
        const char *lost = psd_task_lost_text(sv->t[0]->core);
        assert_true((lost != NULL) == !heals);
        assert_true(heals || strstr(lost, "disk is full") != NULL);
        assert_null(psd_task_lost_text(sv->t[1]->core)); /* the directory's process says it */
    }
}

/* A save that was asked for is under way when the time to drain is over; or none could be begun, because a task was away. */
TEST(test_a_save_by_hand_that_is_not_over)
{
    for (int away = 0; away < 2; away++) {
        struct sv *sv = begin_by_hand();
        if (away) {
            shell_cut(PSI_CONTAINER_OF(psi_list_first(&sv->t[1]->conns), struct shell_conn, link));
        } else {
            sv->disks[1].held = true;
        }
        sv_ask(sv);
        sv_run(sv);
        assert_null(psd_task_lost_text(sv->t[0]->core)); /* nothing ends */
        psd_task_drain(sv->t[0]->core);
        psd_task_drain(sv->t[1]->core);
        const char *lost = psd_task_lost_text(sv->t[0]->core);
        assert_true(lost != NULL && strstr(lost, away ? "not connected" : "was not over") != NULL);
    }
}

/* All end at once (drain 0), and the directory has not heard that another task has changed since the last checkpoint. */
TEST(test_changes_that_the_directory_has_not_heard_of)
{
    for (int changes = 0; changes < 2; changes++) {
        struct sv *sv = begin();
        assert_int_equal(save(sv), 1);
        sv->t[1]->core->store.changes += (uint64_t)changes;
        psd_task_drain(sv->t[1]->core);
        psd_task_drain(sv->t[0]->core);
        assert_true((psd_task_lost_text(sv->t[1]->core) != NULL) == (changes != 0));
    }
}
