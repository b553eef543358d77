/* SPDX-License-Identifier: Apache-2.0 */
/*
 * psd/checkpoint/loader_held.c, psd/checkpoint/others.c, psd_place_join(): what was saved by two tasks comes back onto one
 * (docs/DURABILITY.md §8); and a start of three.
 */
#include "starts_test.h"

#include "psd/owner/owner.h"
#include "psd/store/place.h"

#include <sys/stat.h>
#include <unistd.h>

/* Both are killed, and task 0 is started as the only one of its job. */
static void boot_alone(struct st *s)
{
    for (uint32_t i = 0; i < 2; i++) {
        if (s->sv->t[i] != NULL) {
            sv_kill(s->sv, i);
        }
    }
    s->sv->spec = "ps=10.0.0.1:1";
    sv_boot(s->sv, 0, s->tweak);
    pass(s);
}

static void connect_alone(struct st *s)
{
    sv_connect(s->sv);
    fc_init(&s->at1, s->sv->t[0], 2);
    assert_int_equal(fc_connect(&s->at1), PS_OK);
}

/* Neither an older one nor nothing is begun with in place of one of which a part is nowhere. */
TEST(test_fewer_tasks_without_a_part)
{
    struct st *s = grown(sv_with_disk, false);
    assert_int_equal(save(s), 2);
    kill_both(s);
    move_1(s, false);
    s->sv->spec = "ps=10.0.0.1:1";
    sv_boot(s->sv, 0, s->tweak);
    for (int i = 0; i < 2; i++) {
        pass(s);
        assert_int_equal(hello_of_a_worker(s->sv->t[0]), PS_FAILED_PRECONDITION);
    }
    assert_true(shell_logged(s->sv->t[0], "start_refused"));
    assert_true(shell_logged(s->sv->t[0], "checkpoint 2 has a part of /job:ps/task:1, which no task has"));
    assert_true(shell_logged(s->sv->t[0], "copy its directory ps-1 beside ps-0"));
    s->sv->t[0]->core->config.restore = PSD_RESTORE_NONE; /* as a reload sets it */
    pass(s);
    assert_int_equal(hello_of_a_worker(s->sv->t[0]), PS_OK);
    sv_kill(s->sv, 0);
    move_1(s, true); /* it was copied */
    sv_boot(s->sv, 0, s->tweak);
    pass(s);
    connect_alone(s);
    assert_both(s, 2, 2);
}

/* Of what a larger cluster has saved all parts are there, or not. */
TEST(test_fewer_tasks_list_what_is_there)
{
    ps_v1_CheckpointAnswer a[4];
    struct st *s = st_new(sv_with_disk);
    set(s, 1);
    assert_int_equal(save(s), 1);
    boot_alone(s);
    connect_alone(s);
    assert_int_equal(sv_list(s->sv, a, 4), 2); /* and the one that was made of it */
    assert_true(a[0].state == PS_CHECKPOINT_WHOLE && a[0].task_count == 2);
    assert_true(a[1].state == PS_CHECKPOINT_WHOLE && a[1].task_count == 1);
    sv_ask_delete(s->sv, 2, true);
    sv_run(s->sv);
    assert_reply(fc_take(&s->sv->c, NULL), PS_OK, "");
    sv_ask_delete(s->sv, 1, false);
    sv_run(s->sv);
    assert_reply(fc_take(&s->sv->c, NULL), PS_FAILED_PRECONDITION, "the newest one that is whole");
    assert_int_equal(save(s), 3);
    move_1(s, false);
    boot_alone(s);
    connect_alone(s);
    assert_int_equal(sv_list(s->sv, a, 4), 2);
    assert_true(a[0].state == PS_CHECKPOINT_IN_PART && a[0].done == 1 && a[0].task_count == 2);
}

/* It has both parts, under one incarnation, and what it saves then is its own. */
TEST(test_fewer_tasks)
{
    struct st *s = st_new(sv_with_disk);
    set(s, 1);
    assert_int_equal(save(s), 1);
    set(s, 2);
    boot_alone(s);
    assert_true(shell_logged(s->sv->t[0], "part_adopted"));
    connect_alone(s);
    assert_both(s, 1, 1);
    const struct psd_store *store = &s->sv->t[0]->core->store;
    assert_int_equal(psi_map_count(&store->containers), 1);
    assert_true(sv_has(s->sv, 0, 2, PSD_DISK_MANIFEST)); /* at once */
    set(s, 3);
    assert_int_equal(save(s), 3);
    assert_true(sv_has(s->sv, 1, 1, PSD_DISK_STATE)); /* which it only reads */
    move_1(s, false);
    boot_alone(s);
    connect_alone(s);
    assert_both(s, 3, 3);
    move_1(s, true);
    s->sv->spec = SAVE_SPEC; /* and with its old directory it begins empty */
    sv_kill(s->sv, 0);
    boot(s, true, true);
    connect(s, true, false);
    assert_is(&s->sv->c, "w", 3, &s->w);
    assert_is(&s->sv->c, "v", 3, &s->v);
    assert_int_equal(s->sv->t[1]->core->store.variable_count, 0);
}

/* A task that has only parts of older checkpoints comes back: all go back to the newest one, of which it has none, and not to
 * those. */
TEST(test_back_with_old_parts)
{
    struct st *s = st_new(with_cut);
    set(s, 1);
    assert_int_equal(save(s), 1);
    boot_alone(s);
    connect_alone(s);
    assert_both(s, 1, 1);
    set(s, 3);
    assert_int_equal(save(s), 3);
    s->sv->spec = SAVE_SPEC;
    sv_kill(s->sv, 0);
    boot(s, true, true);
    sv_kill(s->sv, 1);
    boot(s, false, true);
    connect(s, true, false);
    assert_is(&s->sv->c, "w", 3, &s->w);
    assert_is(&s->sv->c, "v", 3, &s->v);
    assert_int_equal(s->sv->t[1]->core->store.variable_count, 0);
}

/* Its writer was killed when the directory had decided, and before it had the manifest. */
TEST(test_fewer_tasks_and_a_part_without_manifest)
{
    struct st *s = st_new(sv_with_disk);
    set(s, 1);
    assert_int_equal(save(s), 1);
    set(s, 2);
    assert_int_equal(save(s), 2);
    kill_both(s);
    move(s, "ps-1/00000000000000000002/manifest", "gone");
    boot_alone(s);
    connect_alone(s);
    assert_both(s, 2, 2);
}

/* Task 1 begins without its disk, of which task 0 sees a copy, and comes back with it before what was adopted is saved: it has
 * its own again, and nobody else has it. */
TEST(test_adopted_and_back)
{
    struct st *s = st_new(sv_with_disk);
    set(s, 1);
    assert_int_equal(save(s), 1);
    kill_both(s);
    move_1(s, false);
    sv_boot(s->sv, 1, s->tweak);
    move(s, "ps-1", "empty"); /* where it is */
    move_1(s, true);
    sv_boot(s->sv, 0, s->tweak);
    s->sv->t[0]->core->saver->again_ms = UINT64_MAX;
    PSI_IGNORE(sv_join(s->sv)); /* it stays with the tasks */
    assert_true(shell_logged(s->sv->t[0], "part_adopted"));
    assert_int_equal(s->sv->t[0]->core->store.variable_count, 2);
    connect(s, true, false);
    assert_is(&s->sv->c, "w", 1, &s->w);
    set_one(&s->sv->c, &s->w, 2);
    sv_kill(s->sv, 1);
    boot(s, false, true);
    assert_int_equal(s->sv->t[0]->core->store.variable_count, 1);
    assert_int_equal(s->sv->t[1]->core->store.variable_count, 1);
    connect(s, false, true);
    assert_both(s, 1, 1);
    s->sv->t[0]->core->saver->again_ms = 0;
    pass(s);
    assert_true(sv_has(s->sv, 1, 2, PSD_DISK_MANIFEST));
}

/* A part that is not as it was written: an older one, and both parts of that. */
TEST(test_fewer_tasks_and_a_spoilt_part)
{
    struct st *s = st_new(sv_with_disk);
    set(s, 1);
    assert_int_equal(save(s), 1);
    set(s, 2);
    assert_int_equal(save(s), 2);
    spoil(s, 1, 2, PSD_DISK_MODEL);
    boot_alone(s);
    assert_true(shell_logged(s->sv->t[0], "checkpoint 2 of /job:ps/task:1"));
    connect_alone(s);
    assert_both(s, 1, 1);
}

/* Another cluster's life has written it, under the same number. */
TEST(test_fewer_tasks_and_a_part_of_another_life)
{
    struct st *s = st_new(sv_with_disk);
    set(s, 1);
    assert_int_equal(save(s), 1);
    kill_both(s);
    move(s, "ps-1", "older-1");
    move(s, "ps-0", "older-0");
    boot(s, true, true);
    connect(s, true, true);
    s->w = made_at(s, &s->sv->c, "w", 0);
    s->v = made_at(s, &s->at1, "v", 1);
    set(s, 2);
    assert_int_equal(save(s), 1);
    kill_both(s);
    move(s, "ps-1", "newer-1");
    move(s, "older-1", "ps-1");
    boot_alone(s);
    assert_true(shell_logged(s->sv->t[0], "not the one that the manifest names"));
    assert_true(shell_logged(s->sv->t[0], "start_refused"));
}

/* Nor does it by way of what another task has written: it was deleted, or reset, and only the task that is gone has noted it. */
TEST(test_bars_of_a_task_that_is_gone)
{
    for (int whole = 0; whole < 2; whole++) {
        struct st *s = st_new(sv_with_disk);
        set(s, 1);
        assert_int_equal(save(s), 1);
        if (whole) {
            reset(s);
            move(s, "ps-0/bars", "bars"); /* a disk that has lost it */
        } else {
            struct fc_reply r = fc_delete(&s->sv->c, 500, "v");
            sv_run(s->sv);
            assert_reply(r.status == FC_NONE ? fc_take(&s->sv->c, NULL) : r, PS_OK, "");
        }
        boot_alone(s);
        connect_alone(s);
        assert_int_equal(fc_open(&s->sv->c, "w", &s->w), whole ? PS_NOT_FOUND : PS_OK);
        assert_int_equal(fc_open(&s->sv->c, "v", &s->v), PS_NOT_FOUND);
        if (!whole) {
            assert_true(sv_has(s->sv, 0, 2, PSD_DISK_MANIFEST));
        }
    }
}

/* What it has noted is a link, which is not followed: nobody knows what was deleted there. */
TEST(test_bars_that_are_no_file)
{
    char path[512];
    struct st *s = st_new(sv_with_disk);
    set(s, 1);
    assert_int_equal(save(s), 1);
    struct fc_reply r = fc_delete(&s->sv->c, 500, "v");
    sv_run(s->sv);
    assert_reply(r.status == FC_NONE ? fc_take(&s->sv->c, NULL) : r, PS_OK, "");
    move(s, "ps-1/bars", "bars");
    (void)snprintf(path, sizeof(path), "%s/ps-1/bars", s->sv->dir);
    assert_int_equal(symlink("../bars", path), 0);
    boot_alone(s);
    assert_true(shell_logged(s->sv->t[0], "parts_unreadable"));
    assert_true(shell_logged(s->sv->t[0], "start_refused"));
}

/* A directory of another task that others may write to, or that is a link, is not read, which is said. */
TEST(test_directory_that_is_not_read)
{
    for (int link = 0; link < 2; link++) {
        char path[512];
        struct st *s = st_new(sv_with_disk);
        assert_int_equal(save(s), 1);
        (void)snprintf(path, sizeof(path), "%s/ps-1", s->sv->dir);
        if (link) {
            move(s, "ps-1", "other");
            assert_int_equal(symlink("other", path), 0);
        } else {
            assert_int_equal(chmod(path, 0770), 0);
        }
        boot_alone(s);
        assert_true(shell_logged(s->sv->t[0], "parts_unreadable"));
        assert_true(shell_logged(s->sv->t[0], "start_refused"));
    }
}

/* What was another's is deleted, and that task comes back before a checkpoint was made without it, also on another host, where it
 * sees no directory but its own. */
TEST(test_deleted_where_it_was_adopted)
{
    for (int hosts = 0; hosts < 2; hosts++) {
        struct st *s = st_new(sv_with_disk);
        set(s, 1);
        assert_int_equal(save(s), 1);
        boot_alone(s);
        connect_alone(s);
        struct fc_reply r = fc_delete(&s->sv->c, 500, "v");
        sv_run(s->sv);
        assert_reply(r.status == FC_NONE ? fc_take(&s->sv->c, NULL) : r, PS_OK, "");
        sv_ask_delete(s->sv, 2, true); /* the one that was made at once */
        sv_run(s->sv);
        assert_reply(fc_take(&s->sv->c, NULL), PS_OK, "");
        sv_kill(s->sv, 0);
        s->sv->spec = SAVE_SPEC;
        if (hosts) {
            move_1(s, false);
            sv_boot(s->sv, 0, s->tweak);
            move_1(s, true);
            move(s, "ps-0", "elsewhere");
            sv_boot(s->sv, 1, s->tweak);
            move(s, "elsewhere", "ps-0");
            PSI_IGNORE(sv_join(s->sv)); /* it stays with the tasks */
        } else {
            boot(s, true, true);
        }
        connect(s, true, true);
        assert_w_alone(s, 1);
        assert_int_equal(psd_others_has(s->sv->t[0]->core, 1, 2), !hosts);
    }
}

/* Restored while it lives: what was another's goes back, too. */
TEST(test_fewer_tasks_restored_while_they_live)
{
    struct st *s = st_new(sv_with_disk);
    set(s, 1);
    assert_int_equal(save(s), 1);
    boot_alone(s);
    connect_alone(s);
    assert_both(s, 1, 1);
    set(s, 2);
    assert_int_equal(save(s), 3);
    restore(s, 1, PS_OK, "");
    assert_both(s, 1, 1);
    move_1(s, false);
    restore(s, 1, PS_NOT_FOUND, "00000000000000000001/state: open its directory: No such");
    assert_both(s, 1, 1);
}

/* Whatever memory is missing on the way, all of it lives in the end. */
TEST(test_fewer_tasks_without_memory)
{
    for (int n = 0; n < 400; n += 3) {
        struct st *s = st_new(sv_with_disk);
        set(s, 1);
        assert_int_equal(save(s), 1);
        kill_both(s);
        s->sv->spec = "ps=10.0.0.1:1";
        sv_boot(s->sv, 0, s->tweak); /* it has listed what is there */
        psi_mem_fail_after(n);
        shell_pass(&s->sv->net, 1000);
        sv_run(s->sv);
        psi_mem_fail_after(-1);
        for (int i = 0; i < 3; i++) {
            pass(s);
        }
        connect_alone(s);
        assert_both(s, 1, 1);
        sv_end(s->sv); /* many of them */
    }
}

/* Only another task's directory is there: the one task does not begin empty beside it. */
TEST(test_fewer_tasks_without_the_own_directory)
{
    struct st *s = st_new(sv_with_disk);
    set(s, 1);
    assert_int_equal(save(s), 1);
    kill_both(s);
    move(s, "ps-0", "gone");
    s->sv->spec = "ps=10.0.0.1:1";
    sv_boot(s->sv, 0, s->tweak);
    shell_pass(&s->sv->net, 2000);
    sv_run(s->sv);
    assert_true(shell_logged(s->sv->t[0], "ps-1, beside its own, has a part of checkpoint 1, of which the directory"));
    s->sv->t[0]->core->config.restore = PSD_RESTORE_NONE; /* psctl config set */
    shell_pass(&s->sv->net, 2000);
    connect_alone(s);
    assert_int_equal(fc_open(&s->sv->c, "w", &s->w), PS_NOT_FOUND);
}

/* Each of the two parts fits, both do not. */
TEST(test_fewer_tasks_with_little_memory)
{
    struct st *s = st_new(sv_with_disk);
    set(s, 1);
    assert_int_equal(save(s), 1);
    /* of the two names that of the other task's variable is recorded when it is placed */
    struct psd_task *t = s->sv->t[0]->core;
    const struct psd_definition d = psd_variable_definition(psd_variable_by_creation(&t->store, s->w.creation));
    const uint64_t name = psd_name_bytes(&t->names, "localhost", "v", &d);
    const char *why = why_little(0, kept_bytes(s, 0) + kept_bytes(s, 1) - name);
    s->tweak = with_little_memory;
    boot_alone(s);
    pass(s);
    assert_true(shell_logged(s->sv->t[0], why));
    assert_int_equal(hello_of_a_worker(s->sv->t[0]), PS_UNAVAILABLE);
    assert_int_equal(s->sv->t[0]->core->store.variable_count, 0);
    give_memory(s);
    pass(s);
    connect_alone(s);
    assert_both(s, 1, 1);
}

static struct psd_task *beside_with(struct st *s, const char *first, const char *second)
{
    struct psd_task *t = s->sv->t[0]->core, *beside = NULL;
    const struct psd_variable *w = psd_variable_by_handle(&t->store, s->w.handle);
    const char *names[] = {first, second};
    struct psi_err err;
    assert_ok(t->beside_new(t, &beside, &err), &err);
    for (int i = 0; i < 2; i++) {
        struct psd_create item = {.definition = psd_variable_definition(w)};
        memcpy(item.container, w->container->name, sizeof(item.container));
        (void)snprintf(item.name, sizeof(item.name), "%s", names[i]);
        assert_ok(psd_create_here(beside, &item, &err), &err);
    }
    return beside;
}

static uint64_t counted(void *ctx)
{
    return ++*(uint64_t *)ctx;
}

/* Parts of two tasks become one, or, with a name in both or without memory, nothing has moved. */
TEST(test_joined_parts)
{
    struct st *s = st_new(sv_with_disk);
    struct psd_task *t = s->sv->t[0]->core;
    uint64_t numbers = 1000;
    struct psi_err err;
    struct psd_task *to = beside_with(s, "a", "b"), *from = beside_with(s, "c", "b");
    assert_int_equal(psd_place_join(to, from, counted, &numbers, &err), PS_FAILED_PRECONDITION);
    assert_non_null(strstr(err.text, "both have 'b' of container 'localhost'"));
    assert_true(to->store.variable_count == 2 && from->store.variable_count == 2);
    psd_store_check_invariants(&to->store);
    t->beside_free(from);
    from = beside_with(s, "c", "d");
    ps_status st = PS_RESOURCE_EXHAUSTED;
    for (int n = 0; st != PS_OK; n++) {
        psi_mem_fail_after(n);
        st = psd_place_join(to, from, counted, &numbers, &err);
        psi_mem_fail_after(-1);
        assert_int_equal(st, st == PS_OK ? PS_OK : PS_RESOURCE_EXHAUSTED);
        assert_int_equal(to->store.variable_count, st == PS_OK ? 4 : 2);
        psd_store_check_invariants(&to->store);
    }
    const struct psd_container *c = psd_container_find(&to->store, "localhost");
    for (const char *name = "abcd"; *name != '\0'; name++) {
        const char text[2] = {*name, '\0'};
        assert_ptr_equal(psd_variable_find(c, text)->container, c);
    }
    t->beside_free(from);
    t->beside_free(to);
}

/* One of three comes back: another keeps what it has made since it listed, which was when it had nothing. */
TEST(test_made_since_it_listed)
{
    struct st *s = st_new(sv_with_disk);
    struct fc at2;
    ps_v1_OpenAnswer x;
    kill_both(s);
    s->sv->spec = SAVE_SPEC ",10.0.0.3:3";
    boot(s, true, true);
    sv_boot(s->sv, 2, s->tweak);
    PSI_IGNORE(sv_join_task(s->sv, 2)); /* it stays with the tasks */
    connect(s, true, true);
    fc_init(&at2, s->sv->t[2], 3);
    assert_int_equal(fc_connect(&at2), PS_OK);
    s->v = made_at(s, &s->at1, "v", 1);
    x = made_at(s, &at2, "x", 2);
    set_one(&s->at1, &s->v, 1);
    set_one(&at2, &x, 1);
    assert_int_equal(save(s), 1);
    set_one(&s->at1, &s->v, 2);
    sv_kill(s->sv, 2);
    sv_boot(s->sv, 2, s->tweak);
    PSI_IGNORE(sv_join_task(s->sv, 2)); /* likewise */
    fc_init(&at2, s->sv->t[2], 3);
    assert_int_equal(fc_connect(&at2), PS_OK);
    assert_is(&at2, "x", 1, &x);
    assert_is(&s->at1, "v", 2, &s->v);
}
