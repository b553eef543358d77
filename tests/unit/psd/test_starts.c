/* SPDX-License-Identifier: Apache-2.0 */
/*
 * psd/checkpoint/loader.c, psd/checkpoint/beside.c, psd/store/place.c: what tasks begin with, whoever comes back.
 */
#include "starts_test.h"

#include "psd/directory/directory.h"

TEST(test_all_begin_with_the_newest)
{
    struct st *s = st_new(sv_with_disk);
    set(s, 1);
    assert_int_equal(save(s), 1);
    set(s, 2);
    assert_int_equal(save(s), 2);
    set(s, 3);
    uint64_t incarnation = s->w.incarnation, creation = s->w.creation;
    kill_both(s);
    sv_boot(s->sv, 0, s->tweak);
    assert_int_equal(hello_of_a_worker(s->sv->t[0]), PS_UNAVAILABLE); /* nobody sees it empty */
    boot(s, false, true);
    assert_int_equal(hello_of_a_worker(s->sv->t[0]), PS_OK);
    connect(s, true, true);
    assert_both(s, 2, 2);
    assert_true(s->w.incarnation != incarnation && s->w.creation != creation);
    assert_true(s->w.checkpoint == 2 && s->w.checkpoint_version == 2 && s->v.checkpoint == 2);
    assert_true(shell_logged(s->sv->t[0], "checkpoint_restored"));
    set(s, 4); /* it goes on as any model does */
    assert_both(s, 4, 4);
    assert_true(s->w.version == 3 && s->w.checkpoint == 2 && s->w.checkpoint_version == 2);
    assert_int_equal(save(s), 3);
    set(s, 5);
    kill_both(s);
    boot(s, true, true);
    connect(s, true, true);
    assert_both(s, 4, 4);
    assert_true(s->w.checkpoint == 3 && s->w.checkpoint_version == 3 && s->v.checkpoint == 3);
    assert_applied(fc_init_var(&s->sv->c, s->w.handle, ps_zeros(), ps_adagrad(0.1), 0, true)); /* nothing of it is left */
    assert_int_equal(fc_open(&s->sv->c, "w", &s->w), PS_OK);
    assert_true(s->w.initialised && s->w.checkpoint == 0 && s->w.checkpoint_version == 0);
}

/* When they are to come again: soon, and later the more there are. */
TEST(test_who_is_sent_away)
{
    struct st *s = st_new(sv_with_disk);
    struct fc_hello hello;
    struct fc c[3];
    uint32_t last = 20, later = 0;
    set(s, 1);
    assert_int_equal(save(s), 1);
    kill_both(s);
    sv_boot(s->sv, 0, s->tweak);
    for (uint32_t i = 0; i < 300; i++) {
        struct fc *one = &c[i % 3];
        fc_init(one, s->sv->t[0], (uint8_t)(50 + i % 3));
        fc_hello_default(one, &hello);
        PSI_IGNORE(PSI_BYTES_SET(hello.m.job, "worker")); /* fits */
        assert_int_equal(fc_hello(one, &hello), PS_UNAVAILABLE);
        uint32_t now = one->hello_reply.retry_after_ms;
        assert_true(now == last || now == last + 1);
        later += now > last;
        last = now;
    }
    assert_true(later >= 30 && later <= 40);
    boot(s, false, true);
    assert_int_equal(hello_of_a_worker(s->sv->t[0]), PS_OK);
}

TEST(test_nothing_is_saved)
{
    struct st *s = st_new(sv_with_disk);
    kill_both(s);
    sv_boot(s->sv, 0, s->tweak);
    assert_int_equal(hello_of_a_worker(s->sv->t[0]), PS_OK); /* it waits for nobody */
    boot(s, false, true);
    connect(s, true, true);
    s->w = made_at(s, &s->sv->c, "w", 0);
}

/* What is spoilt is left alone; nothing of it has lived. */
TEST(test_the_next_older_one)
{
    static const enum psd_disk_file_kind KINDS[] = {PSD_DISK_STATE, PSD_DISK_MODEL};
    for (uint32_t i = 0; i < 4; i++) {
        struct st *s = st_new(sv_with_disk);
        set(s, 1);
        assert_int_equal(save(s), 1);
        set(s, 2);
        assert_int_equal(save(s), 2);
        kill_both(s);
        spoil(s, i % 2, 2, KINDS[i / 2]);
        boot(s, true, true);
        connect(s, true, true);
        assert_both(s, 1, 1);
        assert_true(shell_logged(s->sv->t[0], "checkpoint_unusable"));
    }
}

/* One comes back: it loads, the other keeps what it has. */
TEST(test_partial)
{
    for (uint32_t i = 0; i < 2; i++) {
        struct st *s = st_new(sv_with_disk);
        set(s, 1);
        assert_int_equal(save(s), 1);
        set(s, 2);
        uint64_t kept = i == 0 ? s->v.incarnation : s->w.incarnation;
        sv_kill(s->sv, i);
        boot(s, i == 0, i == 1);
        connect(s, i == 0, i == 1);
        assert_both(s, i == 0 ? 1 : 2, i == 1 ? 1 : 2);
        assert_true(kept == (i == 0 ? s->v.incarnation : s->w.incarnation));
        assert_true(shell_logged(s->sv->t[0], "checkpoint_partial"));
        assert_int_equal(save(s), 2);
        set(s, 3);
        assert_both(s, 3, 3);
    }
}

/* All go back, and who was at work hears of it. */
TEST(test_cut)
{
    for (uint32_t i = 0; i < 2; i++) {
        struct st *s = st_new(with_cut);
        set(s, 1);
        assert_int_equal(save(s), 1);
        set(s, 2);
        struct fc *at = i == 0 ? &s->at1 : &s->sv->c;
        ps_v1_OpenAnswer before = i == 0 ? s->v : s->w, other;
        sv_kill(s->sv, i);
        boot(s, i == 0, i == 1);
        float value = 0;
        assert_int_not_equal(fc_pull(at, &before, 0, 1, &value).status, PS_OK); /* its handle is gone */
        connect(s, i == 0, i == 1);
        assert_both(s, 1, 1);
        other = i == 0 ? s->v : s->w;
        assert_true(other.incarnation != before.incarnation);
        assert_int_equal(save(s), 2);
    }
}

static struct st *st_stepped(void)
{
    struct st *s = st_new(sv_with_disk);
    PSI_IGNORE(fc_ready(&s->sv->c, "global_step", PS_I64, 1, ps_no_optimizer(), 0));
    set(s, 1);
    return s;
}

/* In rounds all go back, whatever `recover` says. */
TEST(test_in_rounds)
{
    for (uint32_t i = 0; i < 2; i++) {
        struct st *s = st_stepped();
        sync_both(s, 1);
        assert_int_equal(save(s), 1);
        uint64_t kept = i == 0 ? s->v.incarnation : s->w.incarnation;
        lose(s, i);
        assert_both(s, 1, 1);
        assert_true(kept != (i == 0 ? s->v.incarnation : s->w.incarnation));
    }
}

/* Also when no group is there any more; what was loaded is of no rounds until the next one. */
TEST(test_after_rounds)
{
    for (uint32_t i = 0; i < 2; i++) {
        struct st *s = st_stepped();
        assert_int_equal(save(s), 1);
        sync_both(s, 1);
        sync_both(s, 0);
        set(s, 2);
        lose(s, i);
        assert_both(s, 1, 1);
        set(s, 3);
        lose(s, i);
        assert_both(s, i == 0 ? 1 : 3, i == 0 ? 3 : 1);
    }
}

/* Under bounded staleness values are of no round. */
TEST(test_after_staleness)
{
    for (uint32_t i = 0; i < 2; i++) {
        struct st *s = st_stepped();
        assert_int_equal(save(s), 1);
        sync_both(s, 2);
        sync_both(s, 0);
        set(s, 2);
        lose(s, i);
        assert_both(s, i == 0 ? 1 : 2, i == 0 ? 2 : 1);
    }
}

/* The directory is lost while it loads: who lives has changed nothing. */
TEST(test_directory_lost_while_it_loads)
{
    struct st *s = st_new(with_cut);
    set(s, 1);
    assert_int_equal(save(s), 1);
    set(s, 2);
    sv_kill(s->sv, 0);
    sv_boot(s->sv, 0, s->tweak);
    s->sv->disks[0].held = true; /* it does not load: nobody places */
    PSI_IGNORE(sv_join(s->sv));  /* it stays with the tasks */
    sv_run(s->sv);
    sv_kill(s->sv, 0);
    assert_is(&s->at1, "v", 2, &s->v);
    boot(s, true, false);
    connect(s, true, false);
    assert_both(s, 1, 1);
}

/* The connection is lost when the directory has it placed, and the other task has not heard of that: all go back. */
TEST(test_placed_on_one_only)
{
    struct st *s = st_new(with_cut);
    set(s, 1);
    assert_int_equal(save(s), 1);
    set(s, 2);
    sv_kill(s->sv, 0);
    sv_boot(s->sv, 0, s->tweak);
    s->sv->disks[0].held = true;
    struct shell_conn *c = sv_join(s->sv);
    assert_ptr_equal(c->task, s->sv->t[1]);
    c->frozen = true;
    s->sv->disks[0].held = false;
    sv_run(s->sv);
    assert_true(shell_logged(s->sv->t[0], "checkpoint_restored"));
    assert_is(&s->at1, "v", 2, &s->v);
    shell_cut(c);
    sv_run(s->sv);
    PSI_IGNORE(sv_join(s->sv)); /* it stays with the tasks */
    connect(s, true, false);
    assert_both(s, 1, 1);
}

/* A task is lost while it loads. */
TEST(test_lost_while_it_loads)
{
    for (uint32_t i = 0; i < 2; i++) {
        struct st *s = st_new(sv_with_disk);
        set(s, 1);
        assert_int_equal(save(s), 1);
        set(s, 2);
        kill_both(s);
        sv_boot(s->sv, 0, s->tweak);
        sv_boot(s->sv, 1, s->tweak);
        s->sv->disks[i].held = true;
        PSI_IGNORE(sv_join(s->sv)); /* it stays with the tasks */
        assert_int_equal(hello_of_a_worker(s->sv->t[0]), PS_UNAVAILABLE);
        assert_int_equal(hello_of_a_worker(s->sv->t[1]), PS_UNAVAILABLE);
        sv_kill(s->sv, 1);
        s->sv->disks[i].held = false;
        sv_run(s->sv);
        assert_int_equal(hello_of_a_worker(s->sv->t[0]), PS_UNAVAILABLE);
        boot(s, false, true);
        connect(s, true, true);
        assert_both(s, 1, 1);
    }
}

/* The connection alone is lost, at each operation of either disk. */
TEST(test_cut_off_while_it_loads)
{
    for (uint32_t ops = 0; ops < 12; ops++) {
        struct st *s = st_new(sv_with_disk);
        set(s, 1);
        assert_int_equal(save(s), 1);
        set(s, 2);
        kill_both(s);
        sv_boot(s->sv, 0, s->tweak);
        sv_boot(s->sv, 1, s->tweak);
        s->sv->disks[0].held = s->sv->disks[1].held = true;
        struct shell_conn *c = sv_join(s->sv);
        s->sv->disks[0].held = s->sv->disks[1].held = false;
        for (uint32_t k = 0; k < ops; k++) {
            PSI_IGNORE(sv_disk_step(s->sv, k % 2));
        }
        shell_cut(c);
        sv_run(s->sv);
        PSI_IGNORE(sv_join(s->sv)); /* likewise */
        connect(s, true, true);
        assert_both(s, 1, 1);
    }
}

TEST(test_latest_or_none)
{
    struct st *s = st_new(sv_with_disk);
    s->tweak = with_latest;
    set(s, 1);
    assert_int_equal(save(s), 1);
    set(s, 2);
    assert_int_equal(save(s), 2);
    kill_both(s);
    spoil(s, 1, 2, PSD_DISK_MODEL);
    boot(s, true, true);
    assert_int_equal(hello_of_a_worker(s->sv->t[0]), PS_FAILED_PRECONDITION);
    assert_int_equal(hello_of_a_worker(s->sv->t[1]), PS_FAILED_PRECONDITION);
    assert_true(shell_logged(s->sv->t[0], "start_refused"));
    shell_pass(&s->sv->net, 3000);
    sv_run(s->sv);
    assert_int_equal(hello_of_a_worker(s->sv->t[1]), PS_FAILED_PRECONDITION);
    kill_both(s);
    s->tweak = sv_with_disk; /* auto */
    boot(s, true, true);
    connect(s, true, true);
    assert_both(s, 1, 1);
}

TEST(test_none)
{
    struct st *s = st_new(with_none);
    set(s, 1);
    assert_int_equal(save(s), 1);
    kill_both(s);
    boot(s, true, true);
    connect(s, true, true);
    assert_int_not_equal(fc_open(&s->sv->c, "w", &s->w), PS_OK);
    s->w = made_at(s, &s->sv->c, "w", 0);
    s->v = made_at(s, &s->at1, "v", 1);
    assert_int_equal(save(s), 2); /* what was saved is there, and is not numbered again */
}

TEST(test_more_tasks)
{
    struct st *s = grown(sv_with_disk, false);
    kill_both(s); /* and once more */
    boot(s, true, true);
    connect(s, true, true);
    assert_w_alone(s, 1);
    s->v = made_at(s, &s->at1, "v", 1);
    set(s, 3);
    assert_int_equal(save(s), 2);
    set(s, 4);
    kill_both(s);
    boot(s, true, true);
    connect(s, true, true);
    assert_both(s, 3, 3);
}

TEST(test_more_tasks_one_without_a_disk)
{
    struct st *s = grown(sv_with_disk, true);
    assert_both(s, 2, 2);
}

/* It goes back to what it had then: nothing. */
TEST(test_cut_with_a_new_task)
{
    struct st *s = grown(with_cut, false);
    sv_kill(s->sv, 0);
    boot(s, true, false);
    connect(s, true, false);
    assert_w_alone(s, 1);
}

/* A task that has a part of an older one begins empty, too. */
TEST(test_more_tasks_than_the_newest)
{
    struct st *s = st_new(sv_with_disk);
    set(s, 1);
    assert_int_equal(save(s), 1);
    kill_both(s);
    s->sv->spec = "ps=10.0.0.1:1";
    sv_boot(s->sv, 0, with_none);
    pass(s);
    sv_connect(s->sv);
    s->w = made_at(s, &s->sv->c, "w", 0);
    set_one(&s->sv->c, &s->w, 2);
    assert_int_equal(save(s), 2);
    sv_kill(s->sv, 0);
    s->sv->spec = SAVE_SPEC;
    boot(s, true, true);
    connect(s, true, true);
    assert_w_alone(s, 2);
}

/* A name of a task that is no more, and a reset that it was owed, do not make a checkpoint a bad one. */
TEST(test_fewer_workers)
{
    struct psi_err err;
    struct st *s = st_new(sv_with_disk);
    kill_both(s);
    s->sv->spec = SAVE_SPEC ";worker=10.0.0.3:3";
    boot(s, true, true);
    connect(s, true, true);
    reset(s);
    s->w = made_at(s, &s->sv->c, "w", 0);
    s->v = made_at(s, &s->at1, "v", 1);
    struct psd_task *t = s->sv->t[0]->core;
    const struct psd_variable *w = psd_variable_by_handle(&t->store, s->w.handle);
    struct psd_create item = {.name = "pinned", .definition = psd_variable_definition(w)};
    memcpy(item.container, w->container->name, sizeof(item.container));
    assert_false(psi_list_empty(&t->resets.all));
    assert_ok(psd_name_record(t, &item, &t->peers[2], &err), &err);
    set(s, 1);
    assert_int_equal(save(s), 1);
    kill_both(s);
    s->sv->spec = SAVE_SPEC;
    boot(s, true, true);
    connect(s, true, true);
    assert_both(s, 1, 1);
    assert_false(shell_logged(s->sv->t[0], "checkpoint_unusable"));
}

TEST(test_the_one_or_none)
{
    struct st *s = st_new(sv_with_disk);
    s->tweak = with_one;
    set(s, 1);
    assert_int_equal(save(s), 1);
    set(s, 2);
    assert_int_equal(save(s), 2);
    kill_both(s);
    boot(s, true, true);
    connect(s, true, true);
    assert_both(s, 1, 1);
    kill_both(s);
    spoil(s, 1, 1, PSD_DISK_MODEL);
    boot(s, true, true);
    assert_int_equal(hello_of_a_worker(s->sv->t[0]), PS_FAILED_PRECONDITION);
    assert_true(shell_logged(s->sv->t[0], "start_refused"));
}

/* All go back while they live, and what was there is lost for who used it. */
TEST(test_restored_while_it_lives)
{
    static float values[N];
    struct st *s = st_new(sv_with_disk);
    set(s, 1);
    assert_int_equal(save(s), 1);
    set(s, 2);
    assert_int_equal(save(s), 2);
    set(s, 3);
    for (uint64_t number = 1; number <= 2; number++) {
        ps_v1_OpenAnswer w = s->w, v = s->v;
        restore(s, number, PS_OK, "");
        assert_int_equal(fc_pull(&s->sv->c, &w, 0, N, values).status, PS_ABORTED);
        assert_int_equal(fc_pull(&s->at1, &v, 0, N, values).status, PS_ABORTED);
        assert_both(s, (float)number, (float)number);
        assert_true(s->w.checkpoint == number && s->v.checkpoint == number);
        set(s, 4);
    }
    kill_both(s); /* after each a checkpoint was made of it */
    boot(s, true, true);
    connect(s, true, true);
    assert_both(s, 2, 2);
    assert_true(s->w.checkpoint == 4);
}

/* Who is lost behind a restore is told of beside the step that the others went back to, or have come to since: not beside that
 * of the history that was given up, also where sessions of it are still there, or leave later. */
TEST(test_steps_behind_a_restore)
{
    for (int how = 0; how < 5; how++) {
        struct st *s = st_new(sv_with_disk);
        struct fc old, other;
        fc_init(&old, s->sv->t[0], 9);
        assert_int_equal(fc_connect(&old), PS_OK);
        PSI_IGNORE(fc_ready(&s->sv->c, "global_step", PS_I64, 1, ps_no_optimizer(), 20)); /* by its name */
        set(s, 1);
        assert_int_equal(save(s), 1);
        assert_int_equal(fc_beat(&old, 100, NULL).status, PS_OK);
        pass(s);
        restore(s, 1, PS_OK, "");
        shell_pass(&s->sv->net, 10);
        if (how > 0) { /* its last words */
            assert_int_equal(fc_beat(&old, 101, NULL).status, PS_OK);
        }
        if (how > 1) {
            assert_applied(fc_call(&old, PS_OP_GOODBYE, 0, 77, 0, NULL, 0, NULL));
        }
        if (how > 2) {
            fc_init(&other, s->sv->t[0], 10);
            assert_int_equal(fc_connect(&other), PS_OK);
            assert_int_equal(fc_beat(&other, how > 3 ? 15 : 25, NULL).status, PS_OK); /* 15: not said anew since the cut */
        }
        pass(s);
        lose(s, 1);
        assert_true(shell_logged(s->sv->t[0], "checkpoint_partial"));
        assert_true(shell_logged(s->sv->t[0], how > 3   ? "restored at step 20\""
                                              : how > 2 ? "restored at step 20, others at 25"
                                                        : "restored at step 20, others at 20"));
    }
}

static uint32_t order_of(const struct st *s, uint32_t i, const char *name)
{
    const struct psd_variable *v = psd_variable_find(psd_container_find(&s->sv->t[i]->core->store, "localhost"), name);
    assert_non_null(v);
    return v->order;
}

/* What is made later has a later place, whoever was away, and whatever was restored meanwhile; what comes back has its own. */
TEST(test_order_of_creation)
{
    struct st *s = st_new(sv_with_disk);
    uint32_t w = order_of(s, 0, "w"), v = order_of(s, 1, "v"), last = v;
    assert_in_range(v, w + 1, UINT32_MAX);
    assert_int_equal(save(s), 1);
    for (int i = 0; i < 4; i++) {
        const char name[] = {(char)('d' - i), '\0'};
        if (i == 1) {
            restore(s, 1, PS_OK, "");
        } else if (i > 1) {
            lose(s, (uint32_t)i - 2);
        }
        PSI_IGNORE(made_at(s, i % 2 == 0 ? &s->at1 : &s->sv->c, name, i % 2 == 0)); /* it is there */
        uint32_t order = order_of(s, i % 2 == 0, name);
        assert_in_range(order, last + 1, UINT32_MAX);
        last = order;
        assert_true(order_of(s, 0, "w") == w && order_of(s, 1, "v") == v);
        pass(s);
        assert_int_not_equal(save(s), 0);
    }
}

/* The directory names what it places itself. More records of variables than one block of their memory has: what is read behind
 * the last name of a block is no memory of the process, which the address sanitizer says always, and a release build by chance.
 */
TEST(test_the_directory_names_many)
{
    enum { MANY = 1000 };
    struct st *s = st_new(sv_with_disk);
    ps_v1_OpenAnswer a;
    char name[PS_NAME_BYTES_MAX + 1];
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof(name), "n%04d", i);
        PSI_IGNORE(made_of(s, &s->sv->c, name, 0, 1)); /* it is there */
    }
    PSI_IGNORE(save(s));
    kill_both(s);
    boot(s, true, true);
    connect(s, true, true);
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof(name), "n%04d", i);
        assert_int_equal(fc_open(&s->sv->c, name, &a), PS_OK);
        assert_non_null(psd_directory_find(&s->sv->t[0]->core->names, "localhost", name));
    }
}

/* Nothing changes, and nothing of it stays in memory. */
TEST(test_not_restored)
{
    for (uint32_t i = 0; i < 2; i++) {
        struct st *s = st_new(sv_with_disk);
        set(s, 1);
        assert_int_equal(save(s), 1);
        set(s, 2);
        spoil(s, i, 1, PSD_DISK_MODEL);
        restore(s, 7, PS_NOT_FOUND, "there is no checkpoint 7");
        restore(s, 1, PS_DATA_LOSS, "");
        assert_both(s, 2, 2);
        assert_true(s->w.checkpoint == 0 && s->v.checkpoint == 0);
        assert_true(s->sv->t[0]->core->beside->task == NULL && s->sv->t[1]->core->beside->task == NULL);
        restore(s, 1, PS_DATA_LOSS, ""); /* it is looked at again */
        set(s, 3);
        assert_int_equal(save(s), 2);
        reset(s);
        restore(s, 2, PS_FAILED_PRECONDITION, "was reset since");
        assert_true(s->sv->t[0]->core->beside->task == NULL && s->sv->t[1]->core->beside->task == NULL);
        assert_int_equal(fc_open(&s->sv->c, "w", &s->w), PS_NOT_FOUND);
        sv_kill(s->sv, 1);
        s->sv->bare[1] = true;
        boot(s, false, true);
        restore(s, 2, PS_FAILED_PRECONDITION, "/job:ps/task:1 has no part of it, and no checkpoint_dir");
    }
}

/* The log names what stays as it is. */
TEST(test_one_was_reset_since)
{
    struct st *s = st_new(sv_with_disk);
    ps_v1_CreateItem x;
    fc_create_item(&x, "x", PS_F32, 1, ps_sgd(0.1));
    PSI_BYTES_SET(x.container, "other");
    assert_int_equal(fc_create(&s->sv->c, &x, NULL), PS_OK);
    set(s, 1);
    assert_int_equal(save(s), 1);
    reset_container(s, "other");
    set(s, 2);
    restore(s, 1, PS_OK, "");
    assert_both(s, 1, 1);
    assert_true(shell_logged(s->sv->t[0], "checkpoint_left_out"));
    for (uint32_t i = 0; i < 2; i++) {
        const struct psd_container *other = psd_container_find(&s->sv->t[i]->core->store, "other");
        assert_true(other == NULL || psi_map_count(&other->variables) == 0);
    }
}

/* What lives beside it counts in the memory budget, until somebody gives more. */
TEST(test_restored_with_little_memory)
{
    char why[200];
    struct st *s = st_new(sv_with_disk);
    struct psd_task *t = s->sv->t[1]->core;
    set(s, 1);
    assert_int_equal(save(s), 1);
    set(s, 2);
    const unsigned long long lives = psd_store_taken(&t->store), again = kept_bytes(s, 1);
    t->config.memory_budget_bytes = lives + again - 1; /* psctl config set */
    (void)snprintf(why, sizeof(why),
                   "/job:ps/task:1 would have %llu bytes with what it gets of it beside the %llu that live there; its memory "
                   "budget is %llu bytes",
                   again, lives, lives + again - 1);
    restore(s, 1, PS_RESOURCE_EXHAUSTED, why);
    assert_both(s, 2, 2);
    t->config.memory_budget_bytes++;
    restore(s, 1, PS_OK, "");
    assert_both(s, 1, 1);
}

/* What was saved before there was anything says so, and not that it was reset since. */
TEST(test_nothing_to_restore)
{
    struct st *s = st_new(sv_with_disk);
    reset(s);
    assert_int_equal(save(s), 1);
    restore(s, 1, PS_FAILED_PRECONDITION, "checkpoint 1 has nothing");
}

/* A task that says why it cannot load it says nothing about its files. */
TEST(test_refused_is_not_bad)
{
    struct st *s = st_new(sv_with_disk);
    set(s, 1);
    assert_int_equal(save(s), 1);
    s->sv->t[1]->core->shards->disk = PSD_SHARDS_DISK_BROKEN;
    restore(s, 1, PS_FAILED_PRECONDITION, "/job:ps/task:1 has no directory for checkpoints");
    s->sv->t[1]->core->shards->disk = PSD_SHARDS_DISK_ABLE;
    assert_string_equal(psd_saver_known(s->sv->t[0]->core, 1)->bad, "");
}

/* Whoever does not wait longer is told what becomes of it. */
TEST(test_restored_past_the_deadline)
{
    ps_v1_CheckpointAnswer a[4];
    struct st *s = st_new(sv_with_disk);
    set(s, 1);
    assert_int_equal(save(s), 1);
    set(s, 2);
    s->sv->disks[1].held = true; /* it is read, and goes on */
    ask_restore(s, 1, 500);
    sv_run(s->sv);
    shell_pass(&s->sv->net, 600);
    assert_reply(fc_take(&s->sv->c, NULL), PS_DEADLINE_EXCEEDED,
                 "checkpoint 1 is being restored, which goes on: it is read, by 1 of 2 tasks so far, 50 %");
    assert_int_equal(sv_list(s->sv, a, 4), 1);
    assert_int_equal(a[0].share, 500001);
    sv_ask_delete(s->sv, 1, true);
    sv_run(s->sv);
    assert_reply(fc_take(&s->sv->c, NULL), PS_FAILED_PRECONDITION, "checkpoint 1 is being restored");
    s->sv->disks[1].held = false;
    sv_run(s->sv);
    assert_both(s, 1, 1);
    pass(s); /* a checkpoint of it is made */
    assert_true(sv_is_whole(s->sv, 2));
    set(s, 3);
    s->sv->disks[1].held = true; /* a checkpoint is written: it has not begun */
    sv_ask(s->sv);
    sv_run(s->sv);
    ask_restore(s, 1, 500);
    sv_run(s->sv);
    shell_pass(&s->sv->net, 600);
    assert_reply(
        fc_take(&s->sv->c, NULL), PS_DEADLINE_EXCEEDED,
        "checkpoint 1 is not restored yet, and will not be when nobody waits for it; waits for: checkpoint 3 is written");
    sv_ask_delete(s->sv, 1, true); /* nobody restores it */
    sv_run(s->sv);
    assert_reply(fc_take(&s->sv->c, NULL), PS_OK, "");
    s->sv->disks[1].held = false;
    sv_run(s->sv);
    PSI_IGNORE(fc_take(&s->sv->c, NULL)); /* 3 is saved */
    pass(s);
    assert_both(s, 3, 3);
}

static void one_block_a_second(struct psd_task_config *config)
{
    sv_with_disk(config);
    config->cut_pace_bytes = 64 << 10;
}

/* The other task says within a second how far it is with its part. */
TEST(test_how_far_the_other_is)
{
    ps_v1_CheckpointAnswer a[4];
    float value = 0;
    uint32_t steps = 0, last = 0; /* of some 320 KB */
    struct st *s = st_new(one_block_a_second);
    set_one(&s->at1, &s->v, 1);
    shell_pass(&s->sv->net, 100);
    sv_ask(s->sv);
    sv_run(s->sv);
    for (int i = 0; i < 60; i++) {
        assert_int_equal(fc_pull(&s->at1, &s->v, 0, 1, &value).status, PS_OK);
        shell_pass(&s->sv->net, 100);
        sv_run(s->sv);
        PSI_IGNORE(fc_take(&s->sv->c, NULL)); /* it is saved, at the end */
        assert_int_equal(sv_list(s->sv, a, 4), 1);
        steps += a[0].state == PS_CHECKPOINT_WRITING && a[0].share > last;
        last = a[0].share;
    }
    assert_in_range(steps, 3, 7);
    assert_int_equal(a[0].state, PS_CHECKPOINT_WHOLE);
    sv_kill(s->sv, 1);
    sv_boot(s->sv, 1, s->tweak);
    s->sv->disks[1].held = true; /* it reads its state, and no more */
    PSI_IGNORE(sv_join(s->sv));  /* it stays with the tasks */
    s->sv->disks[1].held = false;
    PSI_IGNORE(sv_disk_step(s->sv, 1));
    s->sv->disks[1].held = true;
    shell_pass(&s->sv->net, 1100);
    assert_int_equal(sv_list(s->sv, a, 4), 1);
    assert_in_range(a[0].share, 2, 999999);
    s->sv->disks[1].held = false;
    sv_run(s->sv);
    assert_int_equal(sv_list(s->sv, a, 4), 1);
    assert_int_equal(a[0].share, 0);
}

/* Who waited comes back without a disk: it has nothing to wait for, and what it had saved is missing. */
TEST(test_comes_back_without_a_disk)
{
    struct psi_err err;
    struct st *s = st_new(sv_with_disk);
    set(s, 1);
    assert_int_equal(save(s), 1);
    kill_both(s);
    move_1(s, false); /* task 0 is on another host */
    sv_boot(s->sv, 0, s->tweak);
    move_1(s, true);
    sv_boot(s->sv, 1, s->tweak);
    s->sv->disks[1].held = true;
    PSI_IGNORE(sv_join(s->sv)); /* it stays with the tasks */
    sv_kill(s->sv, 1);
    s->sv->bare[1] = true;
    boot(s, false, true);
    assert_true(shell_logged(s->sv->t[0], "start_refused"));
    s->sv->t[0]->core->config.restore = PSD_RESTORE_NONE; /* as a reload sets it */
    pass(s);
    assert_true(shell_logged(s->sv->t[0], "start_empty"));
    assert_int_equal(psd_peers_begun(s->sv->t[0]->core, &err), PS_OK);
    connect(s, true, true);
    s->w = made_at(s, &s->sv->c, "w", 0);
    s->v = made_at(s, &s->at1, "v", 1);
}

/* psctl deletes the one that is being loaded: nothing of it lives. */
TEST(test_deleted_while_it_is_loaded)
{
    struct fc_hello hello;
    for (uint32_t i = 0; i < 2; i++) {
        struct st *s = st_new(sv_with_disk);
        set(s, 1);
        assert_int_equal(save(s), 1);
        set(s, 2);
        assert_int_equal(save(s), 2);
        kill_both(s);
        sv_boot(s->sv, 0, s->tweak);
        sv_boot(s->sv, 1, s->tweak);
        s->sv->disks[i].held = true;
        PSI_IGNORE(sv_join(s->sv)); /* likewise */
        fc_init(&s->sv->c, s->sv->t[0], 1);
        fc_hello_default(&s->sv->c, &hello);
        hello.m.job.size = 0; /* psctl */
        assert_int_equal(fc_hello(&s->sv->c, &hello), PS_OK);
        sv_ask_delete(s->sv, 2, true);
        shell_run(&s->sv->net);
        s->sv->disks[i].held = false;
        sv_run(s->sv);
        assert_reply(fc_take(&s->sv->c, NULL), PS_OK, "");
        shell_pass(&s->sv->net, 2000);
        sv_run(s->sv);
        connect(s, false, true);
        assert_both(s, 1, 1);
    }
}

/* Whoever is killed then, nothing from before a reset lives again; what was saved behind it does. */
TEST(test_reset_never_comes_back)
{
    for (uint32_t i = 0; i < 3; i++) { /* task 0, task 1, both */
        struct st *s = st_new(sv_with_disk);
        set(s, 1);
        assert_int_equal(save(s), 1);
        reset(s);
        s->w = made_at(s, &s->sv->c, "w", 0);
        s->v = made_at(s, &s->at1, "v", 1);
        if (i != 0) {
            sv_kill(s->sv, 1);
        }
        if (i != 1) {
            sv_kill(s->sv, 0);
        }
        boot(s, i != 1, i != 0);
        connect(s, i != 1, i != 0);
        assert_int_equal(fc_open(&s->sv->c, "w", &s->w), i == 1 ? PS_OK : PS_NOT_FOUND);
        assert_int_equal(fc_open(&s->at1, "v", &s->v), i == 0 ? PS_OK : PS_NOT_FOUND);
        reset(s);
        s->w = made_at(s, &s->sv->c, "w", 0);
        s->v = made_at(s, &s->at1, "v", 1);
        set(s, 2);
        assert_int_equal(save(s), 2);
        set(s, 3);
        kill_both(s);
        boot(s, true, true);
        connect(s, true, true);
        assert_both(s, 2, 2);
    }
}

/* For how long nobody is granted the lease of the default container; 0: this one is. */
static uint64_t claimed(struct st *s, uint32_t task, bool preferred)
{
    static uint8_t others = 90; /* sessions */
    struct fc c;
    ps_v1_ChiefAnswer a = ps_v1_ChiefAnswer_init_zero;
    ps_v1_Chief m = {.claim = true, .preferred = preferred};
    uint8_t meta[PS_META_BYTES_MAX] = {0};
    size_t bytes = 0;
    struct wire *w = wire_new(), *back = wire_new();
    fc_connect_as(&c, s->sv->t[0], others++, "worker", task);
    assert_int_equal(psi_msg_encode(&ps_v1_Chief_msg, &m, meta, sizeof(meta), &bytes, NULL), PS_OK);
    fc_frame(&c, w, PS_OP_CHIEF, 0, c.next_id++, 0, meta, psi_pad8((uint32_t)bytes), NULL);
    shell_send(c.conn, w);
    assert_reply(fc_take(&c, back), PS_OK, "");
    const uint8_t *p = back->data;
    size_t n = back->len;
    assert_true(fc_item(&p, &n, &ps_v1_ChiefAnswer_msg, &a) && a.granted == (a.left_ms == 0));
    return a.left_ms;
}

/* A checkpoint has the number of a chief of a time of which nothing lives: nobody waits for that one. While
 * a task lives, it is waited for, whether that task has seen it or not. */
TEST(test_chief_of_what_was_saved)
{
    for (int alone = 0; alone < 3; alone++) {
        for (int preferred = 0; preferred < 2; preferred++) {
            struct st *s = st_new(sv_with_disk);
            uint64_t number = fc_chief(&s->sv->c);
            set(s, 1);
            if (alone == 1) {
                assert_reply(fc_seal(&s->at1, s->v.handle, s->v.creation, number), PS_OK, ""); /* task 1 has seen it */
            }
            assert_int_equal(save(s), 1);
            sv_kill(s->sv, 0);
            if (!alone) {
                sv_kill(s->sv, 1);
            }
            boot(s, true, !alone);
            connect(s, true, !alone);
            assert_both(s, 1, 1);
            assert_true(psd_chief_number(&s->sv->t[0]->core->chiefs, "localhost") >= number);
            reset(s);
            assert_true(psd_chief_number(&s->sv->t[0]->core->chiefs, "localhost") >= number);
            uint64_t left = claimed(s, 0, preferred);
            assert_true(alone ? left > 0 && left <= PS_LEASE_MS : preferred ? left == 0 : left == PS_LEASE_MS);
            assert_true(claimed(s, 0, true) == (alone ? left : 0));
        }
    }
}

TEST(test_deleted_never_comes_back)
{
    struct st *s = st_new(sv_with_disk);
    set(s, 1);
    assert_int_equal(save(s), 1);
    struct fc_reply r = fc_delete(&s->sv->c, 500, "v");
    sv_run(s->sv);
    assert_reply(r.status == FC_NONE ? fc_take(&s->sv->c, NULL) : r, PS_OK, "");
    kill_both(s);
    boot(s, true, true);
    connect(s, true, true);
    assert_w_alone(s, 1);
    s->v = made_at(s, &s->at1, "v", 1);
    set(s, 2);
    assert_int_equal(save(s), 2);
    set(s, 3);
    kill_both(s);
    boot(s, true, true);
    connect(s, true, true);
    assert_both(s, 2, 2);
}
