/* SPDX-License-Identifier: Apache-2.0 */
/* psd/checkpoint/saver_state.c: what INFO says of checkpoints, as fields and in words. */
#include "save_test.h"

#include "psd/state.h"

#include <errno.h>

static char text[1024]; /* the same in words */

/* What the directory says. */
static ps_v1_SavesState state(struct sv *sv)
{
    ps_v1_InfoAnswer a;
    assert_int_equal(fc_info(&sv->c, &a), PS_OK);
    assert_int_equal(PSI_BYTES_TEXT(a.checkpoints, text, sizeof(text)), PS_OK);
    assert_true(a.has_saves);
    return a.saves;
}

static bool is(const void *field, const char *want)
{
    const pb_bytes_array_t *f = field;
    return f->size == strlen(want) && memcmp(f->bytes, want, f->size) == 0;
}

static void by_time_and_steps(struct psd_task_config *config)
{
    sv_with_disk(config);
    config->checkpoint_seconds = 3600;
    config->checkpoint_steps = 500;
}

static struct sv *begin(void)
{
    struct sv *sv = sv_new_bare(false, false, by_time_and_steps);
    PSI_IGNORE(sv_join(sv)); /* it stays with the tasks */
    return sv;
}

TEST(test_newest)
{
    struct sv *sv = begin();
    ps_v1_SavesState s = state(sv);
    assert_true(s.number == 0 && !s.whole && s.age_ms == 0 && s.containers_count == 0 && s.failed_age_ms == 0);
    assert_true(s.every_seconds == 3600 && s.every_steps == 500);
    assert_string_equal(text, "none is saved; one every 3600 s and every 500 steps");
    PSI_IGNORE(fc_ready(&sv->c, "w", PS_F32, 4, ps_sgd(1), 1));
    PSI_IGNORE(fc_ready(&sv->c, "global_step", PS_I64, 1, ps_no_optimizer(), 1205));
    struct fc_reply r = sv_save(sv);
    assert_int_equal(sv_number(&r), 1);
    shell_pass(&sv->net, 3000);
    s = state(sv);
    assert_true(s.number == 1 && s.whole && s.step == 1206 && s.bytes > 0);
    assert_true(s.age_ms >= 3001 && s.age_ms < 60000);
    assert_int_equal(s.containers_count, 1);
    assert_true(is(&s.containers[0].container, "localhost") && s.containers[0].step == 1206);
    assert_true(s.makes == 0 && s.loads == 0 && !s.awaits_reset && !s.more_containers);
    assert_non_null(strstr(text, "1 is saved, step 1205, begun "));
    sv_kill(sv, 1);
    sv_kill(sv, 0);
    sv_boot(sv, 0, by_time_and_steps);
    sv_connect(sv);
    s = state(sv);
    assert_true(s.number == 1 && !s.whole); /* it may be, when the other one is up */
    assert_non_null(strstr(text, "1 is saved, where tasks that are away have it"));
}

TEST(test_one_that_is_made)
{
    struct sv *sv = begin();
    PSI_IGNORE(fc_ready(&sv->c, "w", PS_F32, 4, ps_sgd(1), 1));
    sv->disks[1].held = true;
    sv_ask(sv);
    sv_run(sv);
    shell_pass(&sv->net, 1000);
    ps_v1_SavesState s = state(sv);
    assert_true(s.makes == 1 && !s.decided && s.make_tasks == 2 && s.make_ms >= 1000 && s.make_done <= 1);
    assert_non_null(strstr(text, "; 1 is written for "));
    sv->disks[1].held = false;
    sv_run(sv);
    struct fc_reply r = fc_take(&sv->c, NULL);
    assert_int_equal(sv_number(&r), 1);
    s = state(sv);
    assert_true(s.makes == 0 && s.number == 1);
}

/* Each attempt that fails counts, until one is saved. */
TEST(test_failures)
{
    struct sv *sv = begin();
    struct fs_fault *f = &sv->disks[1].fault;
    PSI_IGNORE(fc_ready(&sv->c, "w", PS_F32, 4, ps_sgd(1), 1));
    for (uint64_t i = 1; i <= 3; i++) {
        f->kinds = FS_WRITE;
        f->why = EIO;
        f->calls = 0;
        f->fail_at = 1;
        struct fc_reply r = sv_save(sv);
        assert_int_not_equal(r.status, PS_OK);
        shell_pass(&sv->net, 2000);
        sv_run(sv);
        ps_v1_SavesState s = state(sv);
        assert_int_equal(s.failed_attempts, i);
        assert_int_equal(s.failed_number, i);
        assert_true(s.failed_age_ms > 0 && s.failed_status == (uint32_t)r.status);
        assert_true(s.failed.size > 0 && s.number == 0);
        assert_non_null(strstr(text, "failed: checkpoint "));
        assert_int_equal(strstr(text, "attempts have failed since the last one that is saved") != NULL, i > 1);
    }
    f->fail_at = 0;
    struct fc_reply r = sv_save(sv);
    assert_int_equal(sv_number(&r), 4);
    ps_v1_SavesState s = state(sv);
    assert_true(s.number == 4 && s.failed_attempts == 0 && s.failed_age_ms == 0 && s.failed.size == 0);
    assert_null(strstr(text, "failed"));
}

/* A task without a place for checkpoints, and one that is not the directory, say nothing. */
TEST(test_of_no_directory)
{
    struct sv *sv = begin();
    ps_v1_InfoAnswer a;
    struct fc other;
    fc_init(&other, sv->t[1], 9);
    assert_int_equal(fc_connect(&other), PS_OK);
    assert_int_equal(fc_info(&other, &a), PS_OK);
    assert_true(!a.has_saves && a.checkpoints.size == 0);
}
