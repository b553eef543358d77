/* SPDX-License-Identifier: Apache-2.0 */
/* No checkpoint is made where nothing differs from the newest one, and duplicates push out none that differs (DURABILITY 6.9 and
 * 6.10). */
#include "save_test.h"

#include "task_test.h"

static void by_time(struct psd_task_config *config)
{
    sv_with_disk(config);
    config->checkpoint_seconds = 20;
    config->max_to_keep = 3;
}

/* A variable at each task; the clients of both. */
struct model {
    struct sv *sv;
    struct fc other;
    ps_v1_OpenAnswer v, w;
};

static void open_both(struct model *m, uint8_t session)
{
    fc_init(&m->other, m->sv->t[1], session);
    assert_int_equal(fc_connect(&m->other), PS_OK);
    assert_int_equal(fc_open(&m->other, "w", &m->w), PS_OK);
    assert_int_equal(fc_open(&m->sv->c, "v", &m->v), PS_OK);
}

static struct model *begin(void)
{
    ps_v1_CreateItem item;
    struct model *m = test_alloc(sizeof(*m));
    memset(m, 0, sizeof(*m));
    m->sv = sv_new_bare(false, false, by_time);
    PSI_IGNORE(sv_join(m->sv)); /* it stays with the tasks */
    PSI_IGNORE(fc_ready(&m->sv->c, "v", PS_F32, 4, ps_momentum(1, 0.9), 1));
    fc_create_item(&item, "w", PS_F32, 4, ps_sgd(1));
    item.task = 1;
    assert_int_equal(fc_create(&m->sv->c, &item, NULL), PS_OK);
    fc_init(&m->other, m->sv->t[1], 5);
    assert_int_equal(fc_connect(&m->other), PS_OK);
    assert_int_equal(fc_open(&m->other, "w", &m->w), PS_OK);
    assert_applied(fc_init_var(&m->other, m->w.handle, ps_constant(1), ps_sgd(1), 0, false));
    open_both(m, 6);
    return m;
}

static void push(struct fc *c, const ps_v1_OpenAnswer *w)
{
    float gradient[4] = {1, 1, 1, 1};
    assert_applied(fc_push(c, PS_OP_PUSH, w, gradient, 1, 0));
}

static void pass(struct model *m, uint64_t ms)
{
    for (uint64_t i = 0; i < ms; i += 1000) {
        shell_pass(&m->sv->net, 1000);
        sv_run(m->sv);
    }
}

/* CHECKPOINT of the model as it is: the number that is the answer. */
static uint64_t save(struct model *m)
{
    sv_ask_as_it_is(m->sv);
    sv_run(m->sv);
    struct fc_reply r = fc_take(&m->sv->c, NULL);
    return sv_number(&r);
}

static void again(struct model *m, uint8_t session)
{
    sv_kill(m->sv, 0);
    sv_kill(m->sv, 1);
    sv_boot(m->sv, 0, by_time);
    sv_boot(m->sv, 1, by_time);
    PSI_IGNORE(sv_join(m->sv)); /* it stays with the tasks */
    fc_init(&m->sv->c, m->sv->t[0], (uint8_t)(session + 100));
    assert_int_equal(fc_connect(&m->sv->c), PS_OK);
    open_both(m, session);
}

static void stop(struct model *m)
{
    psd_task_drain(m->sv->t[0]->core);
    psd_task_drain(m->sv->t[1]->core);
    for (int i = 0; i < 3 && !(psd_task_drained(m->sv->t[0]->core) && psd_task_drained(m->sv->t[1]->core)); i++) {
        pass(m, 1000);
    }
    assert_true(psd_task_drained(m->sv->t[0]->core) && psd_task_drained(m->sv->t[1]->core));
}

static uint32_t count(struct model *m)
{
    ps_v1_CheckpointAnswer a[16];
    return sv_list(m->sv, a, 16);
}

static void restore(struct model *m, uint64_t number)
{
    sv_ask_by_name(m->sv, PS_OP_CHECKPOINT_RESTORE, number, false);
    sv_run(m->sv);
    struct fc_reply r = fc_take(&m->sv->c, NULL);
    PSI_IGNORE(sv_number(&r)); /* it is OK */
    pass(m, 2000);
    open_both(m, (uint8_t)(200 + number));
}

TEST(test_nothing_new_for_who_asks)
{
    struct model *m = begin();
    assert_int_equal(save(m), 1);
    assert_int_equal(save(m), 1);
    assert_true(shell_logged(m->sv->t[0], "checkpoint_unchanged"));
    push(&m->other, &m->w); /* the directory has not heard of it, and is asked at once */
    assert_int_equal(save(m), 2);
    push(&m->sv->c, &m->v);
    assert_int_equal(save(m), 3);
    assert_int_equal(save(m), 3);
    assert_int_equal(count(m), 3);
}

/* Started, read from, said a step and stopped, twice: what was there stays. */
TEST(test_idle_restarts)
{
    struct model *m = begin();
    for (uint64_t i = 1; i <= 3; i++) {
        push(&m->other, &m->w);
        assert_int_equal(save(m), i);
    }
    for (uint8_t life = 0; life < 2; life++) {
        float got[4];
        stop(m);
        again(m, (uint8_t)(20 + life));
        assert_applied(fc_pull(&m->other, &m->w, 0, 4, got));
        assert_applied(fc_pull(&m->sv->c, &m->v, 0, 4, got));
        for (int i = 0; i < 30; i++) {
            assert_int_equal(fc_beat(&m->sv->c, 3500, NULL).status, PS_OK);
            assert_int_equal(fc_beat(&m->other, -1, NULL).status, PS_OK);
            pass(m, 1000);
        }
        assert_int_equal(save(m), 3);
    }
    assert_int_equal(count(m), 3);
    assert_true(sv_is_whole(m->sv, 1) && sv_is_whole(m->sv, 3) && sv_has_nothing(m->sv, 0, 4));
    push(&m->other, &m->w);
    stop(m);
    assert_true(sv_is_whole(m->sv, 4));
}

/* A program that is started again declares what it has: that changes nothing. Another rate does. */
TEST(test_what_counts)
{
    struct model *m = begin();
    struct fc *c = &m->sv->c;
    ps_v1_CreateItem item;
    ps_v1_OpenAnswer x;
    assert_int_equal(save(m), 1);
    fc_create_item(&item, "x", PS_F32, 4, ps_sgd(1));
    assert_int_equal(fc_create(c, &item, NULL), PS_OK);
    assert_int_equal(save(m), 2);
    assert_int_equal(fc_create(c, &item, NULL), PS_OK);
    assert_int_equal(save(m), 2);
    assert_int_equal(fc_open(c, "x", &x), PS_OK);
    assert_applied(fc_init_var(c, x.handle, ps_constant(1), ps_sgd(1), 1, false));
    assert_int_equal(save(m), 3);
    assert_applied(fc_seal(c, m->v.handle, m->v.creation, 1));
    assert_int_equal(save(m), 4);
    for (int i = 0; i < 2; i++) {
        double rate = i == 0 ? 1 : 0.5;
        for (int k = 0; k < 2; k++) {
            assert_applied(fc_init_var(c, m->v.handle, ps_constant(1), ps_momentum(rate, 0.9), 1, false));
            assert_applied(fc_seal(c, m->v.handle, m->v.creation, 1));
            assert_int_equal(save(m), 4 + i);
        }
    }
}

/* What was deleted since is left out at the start: the checkpoint has more than what lives. */
TEST(test_left_out)
{
    struct model *m = begin();
    ps_v1_CreateItem item;
    ps_v1_OpenAnswer x;
    fc_create_item(&item, "x", PS_F32, 4, ps_sgd(1));
    assert_int_equal(fc_create(&m->sv->c, &item, NULL), PS_OK);
    assert_int_equal(fc_open(&m->sv->c, "x", &x), PS_OK);
    assert_applied(fc_init_var(&m->sv->c, x.handle, ps_constant(1), ps_sgd(1), 0, false));
    assert_int_equal(save(m), 1);
    struct fc_reply r = fc_delete(&m->sv->c, 300, "x");
    sv_run(m->sv);
    assert_applied(r.status == FC_NONE ? fc_take(&m->sv->c, NULL) : r);
    again(m, 20);
    assert_int_equal(save(m), 2);
    again(m, 21);
    assert_int_equal(save(m), 2);
}

/* The newest one is gone: what lives is in none. */
TEST(test_the_newest_is_deleted)
{
    struct model *m = begin();
    assert_int_equal(save(m), 1);
    push(&m->other, &m->w);
    assert_int_equal(save(m), 2);
    sv_ask_delete(m->sv, 2, true);
    sv_run(m->sv);
    assert_applied(fc_take(&m->sv->c, NULL));
    for (uint32_t i = 0; i < 2; i++) { /* a later directory may give number 2 to another checkpoint */
        assert_int_equal(psd_shards_number(m->sv->t[i]->core), 0);
    }
    assert_int_equal(save(m), 3);
}

/* A restore makes its own, which is a duplicate, and goes before any that differs. */
TEST(test_duplicates_go_first)
{
    struct model *m = begin();
    for (uint64_t i = 1; i <= 3; i++) {
        push(&m->other, &m->w);
        assert_int_equal(save(m), i);
    }
    restore(m, 3); /* 4: as 3 */
    assert_true(sv_is_whole(m->sv, 1) && sv_is_whole(m->sv, 2) && sv_has_nothing(m->sv, 0, 3) && sv_is_whole(m->sv, 4));
    restore(m, 4); /* 5: as 4 */
    restore(m, 5); /* 6 */
    assert_true(sv_is_whole(m->sv, 1) && sv_is_whole(m->sv, 2) && sv_is_whole(m->sv, 6));
    assert_int_equal(count(m), 3);
    restore(m, 1); /* 7: as 1 */
    assert_true(sv_has_nothing(m->sv, 0, 1) && sv_is_whole(m->sv, 2) && sv_is_whole(m->sv, 6) && sv_is_whole(m->sv, 7));
    push(&m->other, &m->w);
    assert_int_equal(save(m), 8);
    assert_true(sv_has_nothing(m->sv, 0, 2) && sv_is_whole(m->sv, 6) && sv_is_whole(m->sv, 7) && sv_is_whole(m->sv, 8));
}

/* While a place is left a duplicate stays. What changes behind a restore is no duplicate. */
TEST(test_duplicates_stay_where_there_is_room)
{
    struct model *m = begin();
    assert_int_equal(save(m), 1);
    restore(m, 1); /* 2: as 1 */
    assert_true(sv_is_whole(m->sv, 1) && sv_is_whole(m->sv, 2));
    push(&m->other, &m->w);
    assert_int_equal(save(m), 3);
    assert_true(sv_is_whole(m->sv, 1) && sv_is_whole(m->sv, 2) && sv_is_whole(m->sv, 3));
    push(&m->sv->c, &m->v);
    assert_int_equal(save(m), 4);
    assert_true(sv_has_nothing(m->sv, 0, 1) && sv_is_whole(m->sv, 2) && sv_is_whole(m->sv, 4));
    push(&m->sv->c, &m->v);
    assert_int_equal(save(m), 5);
    assert_true(sv_has_nothing(m->sv, 0, 2) && sv_is_whole(m->sv, 3) && sv_is_whole(m->sv, 5));
}
