/* SPDX-License-Identifier: Apache-2.0 */
/* psd/checkpoint/loader*.c: CHECKPOINT_RESTORE that names containers: these go back, and the others stay. */
#include "starts_test.h"

static float values_of(float value, float *out)
{
    for (int i = 0; i < N; i++) {
        out[i] = value + (float)i;
    }
    return value;
}

/* The handle of x in this container, of task 0. */
static ps_v1_OpenAnswer open_in(struct st *s, const char *container)
{
    ps_v1_NameItem item = ps_v1_NameItem_init_zero;
    ps_v1_OpenAnswer a = ps_v1_OpenAnswer_init_zero;
    struct wire out;
    wire_init(&out);
    PSI_BYTES_SET(item.container, container);
    PSI_BYTES_SET(item.name, "x");
    assert_applied(fc_list(&s->sv->c, PS_OP_OPEN, &ps_v1_NameItem_msg, &item, &out));
    const uint8_t *p = out.data;
    size_t n = out.len;
    assert_true(fc_item(&p, &n, &ps_v1_OpenAnswer_msg, &a));
    assert_int_equal(a.status, PS_OK);
    wire_fini(&out);
    return a;
}

static void set_in(struct st *s, const char *container, float value)
{
    float values[N];
    ps_v1_OpenAnswer a = open_in(s, container);
    PSI_IGNORE(values_of(value, values)); /* values are what counts */
    assert_applied(fc_push(&s->sv->c, PS_OP_ASSIGN, &a, values, 1, 0));
}

static void assert_in(struct st *s, const char *container, float value)
{
    float values[N];
    ps_v1_OpenAnswer a = open_in(s, container);
    assert_int_equal(fc_pull(&s->sv->c, &a, 0, N, values).status, PS_OK);
    for (int i = 0; i < N; i++) {
        assert_true(values[i] == value + (float)i);
    }
}

/* Checkpoint 1 with all at 1, and all at 2 now: w and v of the default container, x of two others. */
static struct st *with_others(void)
{
    static const char *const others[] = {"a", "b"};
    struct st *s = st_new(sv_with_disk);
    for (int i = 0; i < 2; i++) {
        ps_v1_CreateItem x;
        fc_create_item(&x, "x", PS_F32, N, ps_sgd(0.1));
        PSI_BYTES_SET(x.container, others[i]);
        PSI_BYTES_SET(x.job, "ps");
        x.task = 0;
        x.pinned = true;
        assert_int_equal(fc_create(&s->sv->c, &x, NULL), PS_OK);
        set_in(s, others[i], 1);
    }
    set(s, 1);
    assert_int_equal(save(s), 1);
    set(s, 2);
    set_in(s, "a", 2);
    set_in(s, "b", 2);
    return s;
}

static void ask_some(struct st *s, const ps_v1_SavedNameItem *item, const char *const *names, int count)
{
    uint8_t meta[PS_META_BYTES_MAX];
    struct wire *w = wire_new(), *body = wire_new();
    uint16_t bytes = wait_meta(60000, meta);
    wire_item(body, &ps_v1_SavedNameItem_msg, item);
    for (int i = 0; i < count; i++) {
        ps_v1_ContainerItem m = ps_v1_ContainerItem_init_zero;
        PSI_BYTES_SET(m.container, names[i]);
        wire_item(body, &ps_v1_ContainerItem_msg, &m);
    }
    fc_frame(&s->sv->c, w, PS_OP_CHECKPOINT_RESTORE, 0, 100 + ++s->sv->ids, 0, meta, bytes, body);
    shell_send(s->sv->c.conn, w);
}

static struct fc_reply restore_some(struct st *s, const char *const *names, int count)
{
    ask_some(s, &(ps_v1_SavedNameItem){.number = 1}, names, count);
    sv_run(s->sv);
    return fc_take(&s->sv->c, NULL);
}

TEST(test_one_goes_back)
{
    static const char *const a[] = {"a"}, *const both[] = {"localhost", "b"};
    struct st *s = with_others();
    assert_reply(restore_some(s, a, 1), PS_OK, "");
    assert_in(s, "a", 1);
    assert_in(s, "b", 2);
    assert_both(s, 2, 2);
    pass(s);
    set_in(s, "a", 3);
    assert_reply(restore_some(s, both, 2), PS_OK, "");
    assert_in(s, "a", 3);
    assert_in(s, "b", 1);
    assert_both(s, 1, 1);
    pass(s);
    set(s, 4);
    assert_true(psd_loader_moved_most(s->sv->t[0]->core) > 1); /* as of something older that was restored */
    assert_reply(restore_some(s, NULL, 0), PS_OK, "");         /* all */
    assert_in(s, "a", 1);
    assert_in(s, "b", 1);
    assert_both(s, 1, 1);
}

/* What cannot be changes nothing. */
TEST(test_not_there)
{
    static const char *const names[] = {"a", "c"};
    struct st *s = with_others();
    assert_reply(restore_some(s, names, 2), PS_NOT_FOUND, "checkpoint 1 has no container 'c'");
    assert_in(s, "a", 2);
    reset_container(s, "a");
    assert_reply(restore_some(s, names, 1), PS_FAILED_PRECONDITION, "container 'a' any more: it was reset since");
    assert_in(s, "b", 2);
    assert_both(s, 2, 2);
    ask_some(s, &(ps_v1_SavedNameItem){.number = 1, .spread = true}, names, 1);
    sv_run(s->sv);
    assert_reply(fc_take(&s->sv->c, NULL), PS_INVALID_ARGUMENT, "all containers, and not some");
    char many[PS_RESTORE_CONTAINERS_MAX + 1][8];
    const char *all[PS_RESTORE_CONTAINERS_MAX + 1];
    for (int i = 0; i <= (int)PS_RESTORE_CONTAINERS_MAX; i++) {
        (void)snprintf(many[i], sizeof(many[i]), "m%d", i);
        all[i] = many[i];
    }
    assert_reply(restore_some(s, all, PS_RESTORE_CONTAINERS_MAX + 1), PS_INVALID_ARGUMENT, "more than 64 containers");
}

/* Asked for twice, and joined; others beside it wait for its end. */
TEST(test_asked_again)
{
    static const char *const ab[] = {"a", "b"}, *const ba[] = {"b", "a"};
    const ps_v1_SavedNameItem item = {.number = 1};
    struct st *s = with_others();
    s->sv->disks[1].held = true;
    ask_some(s, &item, ab, 2);
    ask_some(s, &item, ba, 2);
    ask_some(s, &item, ab, 1);
    sv_run(s->sv);
    assert_reply(fc_take(&s->sv->c, NULL), PS_UNAVAILABLE, "checkpoint 1 is being restored");
    s->sv->disks[1].held = false;
    sv_run(s->sv);
    assert_reply(fc_take(&s->sv->c, NULL), PS_OK, "");
    assert_reply(fc_take(&s->sv->c, NULL), PS_OK, "");
    assert_in(s, "a", 1);
    assert_both(s, 2, 2);
}

/* A task comes back empty while it is asked for: it gets what it had of the others first. */
TEST(test_who_waits_comes_first)
{
    static const char *const a[] = {"a"};
    struct st *s = with_others();
    assert_int_equal(save(s), 2);
    sv_kill(s->sv, 1);
    sv_boot(s->sv, 1, s->tweak);
    sv_run(s->sv);
    s->sv->disks[1].held = true; /* what it reads of checkpoint 2 */
    PSI_IGNORE(sv_join(s->sv));  /* it stays with the tasks */
    ask_some(s, &(ps_v1_SavedNameItem){.number = 1}, a, 1);
    sv_run(s->sv);
    assert_int_equal(s->sv->t[0]->core->loader->phase, PSD_LOADER_LOADING);
    assert_int_not_equal(s->sv->t[0]->core->loader->reason, PSD_LOAD_ASKED);
    s->sv->disks[1].held = false;
    sv_run(s->sv);
    assert_reply(fc_take(&s->sv->c, NULL), PS_OK, "");
    connect(s, false, true);
    assert_in(s, "a", 1);
    assert_in(s, "b", 2);
    assert_both(s, 2, 2);
}

/* The save before a restore does not push out what is to be restored. */
TEST(test_saved_first)
{
    struct st *s = with_others();
    for (uint32_t i = 0; i < 2; i++) {
        s->sv->t[i]->core->config.max_to_keep = 2;
    }
    assert_int_equal(save(s), 2);
    uint8_t meta[PS_META_BYTES_MAX];
    struct wire *w = wire_new();
    const ps_v1_Wait m = {.timeout_ms = 60000, .keeps = 1};
    size_t bytes = 0;
    assert_int_equal(psi_msg_encode(&ps_v1_Wait_msg, &m, meta, sizeof(meta), &bytes, NULL), PS_OK);
    set(s, 5);
    fc_frame(&s->sv->c, w, PS_OP_CHECKPOINT, 0, 100 + ++s->sv->ids, 0, meta, (uint32_t)bytes, NULL);
    shell_send(s->sv->c.conn, w);
    sv_run(s->sv);
    struct fc_reply r = fc_take(&s->sv->c, NULL);
    assert_int_equal(sv_number(&r), 3);
    assert_true(sv_is_whole(s->sv, 1));
    set(s, 6);
    assert_int_equal(save(s), 4); /* nor does another one meanwhile */
    assert_true(sv_is_whole(s->sv, 1));
    restore(s, 1, PS_OK, "");
    assert_both(s, 1, 1);
    pass(s);
    assert_false(sv_is_whole(s->sv, 1)); /* it has had its time */
}

/* A task is lost while it reads what was asked for: when it is back it gets its part of the newest one first, and only then does
 * the one container go back. */
TEST(test_lost_while_it_reads)
{
    static const char *const a[] = {"a"};
    struct st *s = with_others();
    assert_int_equal(save(s), 2);
    s->sv->disks[1].held = true;
    ask_some(s, &(ps_v1_SavedNameItem){.number = 1}, a, 1);
    sv_run(s->sv);
    assert_int_equal(s->sv->t[0]->core->loader->reason, PSD_LOAD_ASKED);
    sv_kill(s->sv, 1);
    s->sv->disks[1].held = false;
    boot(s, false, true);
    for (int i = 0; i < 3; i++) {
        shell_pass(&s->sv->net, 1000);
        sv_run(s->sv);
    }
    assert_reply(fc_take(&s->sv->c, NULL), PS_OK, "");
    connect(s, false, true);
    assert_in(s, "a", 1);
    assert_in(s, "b", 2);
    assert_both(s, 2, 2);
}

/* Container a, of task 0, goes back, and values were assigned since the newest checkpoint. */
static struct st *restored_and_not_saved(void)
{
    static const char *const a[] = {"a"};
    struct st *s = with_others();
    assert_int_equal(save(s), 2);
    set(s, 3);
    set_in(s, "b", 3);
    s->sv->t[0]->core->saver->again_ms = UINT64_MAX; /* no checkpoint begins */
    ask_some(s, &(ps_v1_SavedNameItem){.number = 1}, a, 1);
    sv_run(s->sv);
    assert_in(s, "a", 1);
    assert_in(s, "b", 3);
    assert_both(s, 3, 3);
    return s;
}

/* Task 1 is lost before the checkpoint of that is made. Container a, which is of another history than the newest checkpoint, goes
 * back to that one. Task 0 keeps what it has of the others. */
TEST(test_lost_before_it_is_saved)
{
    struct st *s = restored_and_not_saved();
    lose(s, 1);
    struct fc_reply r = fc_take(&s->sv->c, NULL);
    assert_reply(r, PS_UNAVAILABLE, "checkpoint 2");
    assert_int_equal(r.applied, PS_MAYBE_PARTLY_APPLIED); /* a was restored, and is not saved so */
    assert_in(s, "a", 2);
    assert_in(s, "b", 3);
    assert_both(s, 3, 2);
}

/* The directory is lost, with all that there was of a and b: the next one hears from task 1 that its container is not concerned.
 */
TEST(test_directory_lost_before_it_is_saved)
{
    struct st *s = restored_and_not_saved();
    lose(s, 0);
    assert_in(s, "a", 2);
    assert_in(s, "b", 2);
    assert_both(s, 2, 3);
}

/* A container that is made between the restore and the loss: no checkpoint has it, and it stays. */
TEST(test_made_before_it_is_saved)
{
    struct st *s = restored_and_not_saved();
    ps_v1_CreateItem x;
    fc_create_item(&x, "x", PS_F32, N, ps_sgd(0.1));
    PSI_BYTES_SET(x.container, "c");
    PSI_BYTES_SET(x.job, "ps");
    x.pinned = true;
    assert_int_equal(fc_create(&s->sv->c, &x, NULL), PS_OK);
    set_in(s, "c", 4);
    lose(s, 1);
    assert_reply(fc_take(&s->sv->c, NULL), PS_UNAVAILABLE, "checkpoint 2");
    assert_in(s, "a", 2);
    assert_in(s, "c", 4);
}
