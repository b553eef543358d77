/* SPDX-License-Identifier: Apache-2.0 */
/*
 * psd/checkpoint/shards_read.c, psd/checkpoint/saver_ask.c: files of a checkpoint are read in ranges, and one is deleted,
 * whatever happens to the connection and the disk meanwhile.
 */
#include "save_test.h"

#include "psd/checkpoint/saver.h"

static struct fc_reply read_range(struct sv *sv, const ps_v1_CheckpointRead *m, struct wire *body)
{
    sv_ask_range(&sv->c, 1000, m);
    sv_run(sv);
    return fc_take(&sv->c, body);
}

static struct fc_reply delete_one(struct sv *sv, uint64_t number, bool force)
{
    sv_ask_delete(sv, number, force);
    sv_run(sv);
    return fc_take(&sv->c, NULL);
}

static void save_some(struct sv *sv, uint64_t count)
{
    for (uint64_t i = 1; i <= count; i++) {
        struct fc_reply r = sv_save(sv);
        assert_int_equal(sv_number(&r), i);
    }
}

TEST(test_ranges)
{
    struct sv *sv = sv_new();
    struct wire *body = wire_new(), *half = wire_new();
    save_some(sv, 1);
    ps_v1_CheckpointRead m = {.number = 1, .kind = PS_FILE_STATE, .bytes = PS_CONTROL_BODY_MAX};
    struct fc_reply r = read_range(sv, &m, body);
    uint64_t bytes = sv_number(&r);
    assert_int_equal(bytes, 65536); /* all that it has */
    assert_int_equal(body->len, bytes);
    m.offset = 100;
    m.bytes = 5;
    r = read_range(sv, &m, half);
    assert_int_equal(sv_number(&r), 5);
    assert_int_equal(half->len, 8); /* filled up */
    assert_memory_equal(half->data, body->data + 100, 5);
    m.offset = bytes - 2;
    r = read_range(sv, &m, NULL);
    assert_int_equal(sv_number(&r), 2);
    m.offset = bytes;
    r = read_range(sv, &m, NULL);
    assert_int_equal(sv_number(&r), 0);
    m = (ps_v1_CheckpointRead){.number = 1, .kind = PS_FILE_MANIFEST, .bytes = 8};
    wire_clear(half);
    r = read_range(sv, &m, half);
    assert_int_equal(sv_number(&r), 8);
    assert_memory_equal(half->data, "psdmani\1", 8);
}

TEST(test_ranges_that_are_refused)
{
    static const ps_v1_CheckpointRead bad[] = {{.number = 0, .kind = PS_FILE_STATE, .bytes = 1},
                                               {.number = 1, .kind = 0, .bytes = 1},
                                               {.number = 1, .kind = PS_FILE_MANIFEST + 1, .bytes = 1},
                                               {.number = 1, .kind = PS_FILE_STATE, .index = 1, .bytes = 1},
                                               {.number = 1, .kind = PS_FILE_VALUES, .index = PSD_DISK_INDEX_MAX + 1, .bytes = 1},
                                               {.number = 1, .kind = PS_FILE_STATE, .bytes = 0},
                                               {.number = 1, .kind = PS_FILE_STATE, .bytes = PS_CONTROL_BODY_MAX + 1},
                                               {.number = 1, .kind = PS_FILE_STATE, .offset = INT64_MAX, .bytes = 1}};
    struct sv *sv = sv_new();
    save_some(sv, 1);
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        assert_reply(read_range(sv, &bad[i], NULL), PS_INVALID_ARGUMENT, "CHECKPOINT_READ");
    }
    ps_v1_CheckpointRead m = {.number = 2, .kind = PS_FILE_STATE, .bytes = 1};
    assert_reply(read_range(sv, &m, NULL), PS_NOT_FOUND, "state");
    struct sv *bare = sv_new_bare(true, true, sv_with_disk);
    assert_reply(read_range(bare, &m, NULL), PS_FAILED_PRECONDITION, "checkpoint_dir");
}

/* More than a connection may have on their way are refused, to be asked again; the others are answered. */
TEST(test_many_ranges)
{
    struct sv *sv = sv_new();
    save_some(sv, 1);
    ps_v1_CheckpointRead m = {.number = 1, .kind = PS_FILE_STATE, .bytes = 100};
    sv->disks[0].held = true;
    for (uint64_t i = 0; i < 12; i++) {
        sv_ask_range(&sv->c, 1000 + i, &m);
    }
    sv_run(sv);
    for (uint64_t i = 8; i < 12; i++) {
        struct fc_reply r = fc_take(&sv->c, NULL);
        assert_int_equal(r.h.id, 1000 + i);
        assert_reply(r, PS_RESOURCE_EXHAUSTED, "reads 8 other ranges");
        assert_true(r.retry_after_ms > 0);
    }
    sv->disks[0].held = false;
    sv_run(sv);
    for (uint64_t i = 0; i < 8; i++) {
        struct fc_reply r = fc_take(&sv->c, NULL);
        assert_int_equal(r.h.id, 1000 + i);
        assert_int_equal(sv_number(&r), 100);
    }
}

/* Its answer has nobody to go to; the next connection, which has its place in memory, gets none of it. */
TEST(test_connection_lost_meanwhile)
{
    struct sv *sv = sv_new();
    save_some(sv, 1);
    ps_v1_CheckpointRead m = {.number = 1, .kind = PS_FILE_STATE, .bytes = 100};
    sv->disks[0].held = true;
    for (uint64_t i = 0; i < 8; i++) {
        sv_ask_range(&sv->c, 1000 + i, &m);
    }
    sv_run(sv);
    fc_cut(&sv->c);
    assert_int_equal(fc_connect(&sv->c), PS_OK);
    sv_ask_range(&sv->c, 2000, &m); /* those of the one before do not count */
    sv->disks[0].held = false;
    sv_run(sv);
    struct fc_reply r = fc_take(&sv->c, NULL);
    assert_int_equal(r.h.id, 2000);
    assert_int_equal(sv_number(&r), 100);
    assert_int_equal(fc_take(&sv->c, NULL).status, FC_NONE);
}

/* A task that ends while a range is being read frees its memory (the leak check looks). */
TEST(test_end_while_it_reads)
{
    struct sv *sv = sv_new();
    save_some(sv, 1);
    ps_v1_CheckpointRead m = {.number = 1, .kind = PS_FILE_STATE, .bytes = 100};
    sv->disks[0].held = true;
    sv_ask_range(&sv->c, 1000, &m);
    sv_run(sv);
    sv_kill(sv, 0);
}

TEST(test_delete)
{
    struct sv *sv = sv_new();
    save_some(sv, 3);
    struct fc_reply r = delete_one(sv, 2, false);
    assert_int_equal(sv_number(&r), 2);
    assert_true(sv_has_nothing(sv, 0, 2) && sv_has_nothing(sv, 1, 2));
    assert_true(sv_is_whole(sv, 1) && sv_is_whole(sv, 3));
    assert_reply(delete_one(sv, 2, true), PS_NOT_FOUND, "no checkpoint 2");
    assert_reply(delete_one(sv, 3, false), PS_FAILED_PRECONDITION, "--force");
    assert_true(sv_is_whole(sv, 3));
    r = delete_one(sv, 3, true);
    assert_int_equal(sv_number(&r), 3);
    assert_true(sv_has_nothing(sv, 0, 3) && sv_has_nothing(sv, 1, 3));
    r = sv_save(sv);
    assert_int_equal(sv_number(&r), 4); /* no number comes again */
}

/* The directory's manifest goes before anybody else is told: a power cut in between leaves no manifest without its parts. */
TEST(test_delete_begins_at_the_directory)
{
    struct sv *sv = sv_new();
    save_some(sv, 2);
    sv->disks[0].held = true;
    sv_ask_delete(sv, 1, false);
    sv_run(sv);
    assert_int_equal(fc_take(&sv->c, NULL).status, FC_NONE);
    assert_true(sv_is_whole(sv, 1));
    sv->disks[0].held = false;
    sv->disks[1].held = true;
    sv_run(sv);
    assert_int_equal(fc_take(&sv->c, NULL).status, PS_OK);
    assert_true(sv_has_nothing(sv, 0, 1) && sv_has(sv, 1, 1, PSD_DISK_MANIFEST));
    sv->disks[1].held = false;
    sv_run(sv);
    assert_true(sv_has_nothing(sv, 1, 1));
}

/* A disk that does not remove it: all of it stays. */
TEST(test_delete_fails)
{
    ps_v1_CheckpointRead m = {.number = 1, .kind = PS_FILE_MANIFEST, .bytes = 8};
    struct sv *sv = sv_new();
    save_some(sv, 2);
    sv->disks[0].held = true;
    sv_ask_delete(sv, 1, false);
    sv_run(sv);
    assert_int_equal(sv->t[0]->disk_count, 1);
    shell_disk_done(sv->t[0], PS_DATA_LOSS, 0, "00000000000000000001: rename: Input/output error");
    shell_run(&sv->net);
    assert_reply(fc_take(&sv->c, NULL), PS_DATA_LOSS, "is not removed");
    assert_true(shell_logged(sv->t[0], "checkpoint_not_removed"));
    sv->disks[0].held = false;
    sv_run(sv);
    assert_true(sv_is_whole(sv, 1));
    struct fc_reply r = read_range(sv, &m, NULL);
    assert_int_equal(sv_number(&r), 8);
    r = delete_one(sv, 1, false);
    assert_int_equal(sv_number(&r), 1);
    assert_true(sv_has_nothing(sv, 0, 1) && sv_has_nothing(sv, 1, 1));
}

/* One that is being made is no one's to delete; nor is one where there is no directory for it. */
TEST(test_delete_of_one_that_is_made)
{
    struct sv *sv = sv_new();
    sv->disks[1].held = true;
    sv_ask(sv);
    sv_run(sv);
    sv_ask_delete(sv, 1, true);
    sv_run(sv);
    assert_reply(fc_take(&sv->c, NULL), PS_FAILED_PRECONDITION, "being made");
    sv->disks[1].held = false;
    sv_run(sv);
    struct fc_reply r = fc_take(&sv->c, NULL);
    assert_int_equal(sv_number(&r), 1);
    struct sv *bare = sv_new_bare(true, true, sv_with_disk);
    assert_reply(delete_one(bare, 1, true), PS_FAILED_PRECONDITION, "checkpoint_dir");
}

/* The newest one is whole, as far as anybody knows, while a task is away: also to a directory that has not heard of that task. */
TEST(test_newest_while_a_task_is_away)
{
    char text[512];
    struct sv *sv = sv_new();
    save_some(sv, 2);
    for (uint32_t life = 0; life < 2; life++) {
        sv_kill(sv, 1);
        if (life == 1) {
            sv_kill(sv, 0);
            sv_boot(sv, 0, sv_with_disk);
            sv_connect(sv);
        }
        assert_reply(delete_one(sv, 2, false), PS_FAILED_PRECONDITION, "--force");
        PSI_IGNORE(sv_status(sv, text, sizeof(text))); /* it is text */
        assert_memory_equal(text, "2 is saved", 10);
        sv_boot(sv, 1, sv_with_disk);
        PSI_IGNORE(sv_join(sv)); /* it stays with the tasks */
    }
    assert_true(sv_is_whole(sv, 1) && sv_is_whole(sv, 2));
}

/* What a task that was away has kept goes when it is deleted again. */
TEST(test_delete_while_a_task_is_away)
{
    struct sv *sv = sv_new();
    save_some(sv, 2);
    sv_kill(sv, 1);
    struct fc_reply r = delete_one(sv, 2, true);
    assert_int_equal(sv_number(&r), 2);
    sv_boot(sv, 1, sv_with_disk);
    PSI_IGNORE(sv_join(sv)); /* the connection stays with the tasks */
    assert_true(sv_has(sv, 1, 2, PSD_DISK_STATE));
    r = delete_one(sv, 2, false);
    assert_int_equal(sv_number(&r), 2);
    assert_true(sv_has_nothing(sv, 1, 2));
    assert_true(sv_is_whole(sv, 1));
}
