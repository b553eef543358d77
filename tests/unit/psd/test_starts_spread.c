/* SPDX-License-Identifier: Apache-2.0 */
/* psd/store/deal.c, psd/rpc/source.c, psd/directory/starts*.c: a checkpoint is dealt anew over all tasks (docs/DURABILITY.md §9).
 */
#define STARTS_N 300000 /* several ranges of a source */
#include "starts_test.h"

#include "psd/directory/saves.h"
#include "psd/store/deal.h"

/* It is asked for, dealt anew. */
static void ask_spread(struct st *s, uint64_t number)
{
    uint8_t meta[PS_META_BYTES_MAX];
    ps_v1_SavedNameItem item = {.number = number, .spread = true};
    struct wire *w = wire_new(), *body = wire_new();
    uint16_t bytes = wait_meta(60000, meta);
    wire_item(body, &ps_v1_SavedNameItem_msg, &item);
    fc_frame(&s->sv->c, w, PS_OP_CHECKPOINT_RESTORE, 0, 100 + ++s->sv->ids, 0, meta, bytes, body);
    shell_send(s->sv->c.conn, w);
}

static void spread(struct st *s, uint64_t number, ps_status st, const char *why)
{
    ask_spread(s, number);
    sv_run(s->sv);
    struct fc_reply r = fc_take(&s->sv->c, NULL);
    assert_reply(r, st, why);
}

static void hold_saves(const struct st *s)
{
    s->sv->t[0]->core->saves->again_ms = UINT64_MAX;
}

static uint32_t has(const struct st *s, uint32_t i)
{
    return s->sv->t[i]->core->store.variable_count;
}

/* As other sessions: time has passed, or what they knew is gone. */
static void connect_anew(struct st *s)
{
    static uint8_t session = 0;
    session = session < 100 ? 100 : session; /* those of a new world are new again */
    fc_init(&s->sv->c, s->sv->t[0], session++);
    assert_int_equal(fc_connect(&s->sv->c), PS_OK);
    fc_init(&s->at1, s->sv->t[1], session++);
    assert_int_equal(fc_connect(&s->at1), PS_OK);
}

static const char *const NAMES[] = {"w", "x", "y"};

/* Each of them once, wherever it is. */
static void assert_all_of(struct st *s, float value, uint64_t version)
{
    assert_int_equal(has(s, 0) + has(s, 1), 3);
    for (int i = 0; i < 3; i++) {
        ps_v1_OpenAnswer a;
        struct fc *at = fc_open(&s->sv->c, NAMES[i], &a) == PS_OK ? &s->sv->c : &s->at1;
        assert_is(at, NAMES[i], value + (float)i, &a);
        assert_int_equal(a.version, version);
    }
}

static void assert_all(struct st *s, float value)
{
    assert_all_of(s, value, 1);
}

static void set_all(struct st *s, float value)
{
    for (int i = 0; i < 3; i++) {
        ps_v1_OpenAnswer a;
        struct fc *at = fc_open(&s->sv->c, NAMES[i], &a) == PS_OK ? &s->sv->c : &s->at1;
        assert_int_equal(fc_open(at, NAMES[i], &a), PS_OK);
        set_one(at, &a, value + (float)i);
    }
}

/* Three variables that task 0 had saved alone as checkpoint 1; now there are two tasks. */
static struct st *crowded(shell_tweak tweak)
{
    struct st *s = st_new(tweak);
    kill_both(s);
    s->sv->spec = "ps=10.0.0.1:1";
    sv_boot(s->sv, 0, tweak);
    pass(s);
    sv_connect(s->sv);
    for (int i = 0; i < 3; i++) {
        ps_v1_OpenAnswer a = made_at(s, &s->sv->c, NAMES[i], 0);
        set_one(&s->sv->c, &a, (float)(1 + i));
    }
    assert_int_equal(save(s), 1);
    sv_kill(s->sv, 0);
    s->sv->spec = SAVE_SPEC;
    boot(s, true, true);
    connect(s, true, true);
    assert_true(has(s, 0) == 3 && has(s, 1) == 0);
    return s;
}

/* Each has its part, and has it again. */
TEST(test_spread)
{
    struct st *s = crowded(sv_with_disk);
    spread(s, 1, PS_OK, "");
    assert_true(has(s, 0) == 2 && has(s, 1) == 1);
    assert_all(s, 1);
    assert_true(sv_is_whole(s->sv, 2)); /* at once */
    kill_both(s);
    boot(s, true, true);
    connect(s, true, true);
    assert_true(has(s, 0) == 2 && has(s, 1) == 1);
    assert_all(s, 1);
    spread(s, 1, PS_OK, ""); /* of an older one: it is read by the same ways */
    assert_all(s, 1);
    assert_true(s->sv->t[1]->core->start->moved >= 2);
    assert_false(psd_source_is_open(s->sv->t[1]->core));
    assert_int_equal(psi_map_count(&s->sv->t[0]->core->records), 1); /* who reads says goodbye */
}

/* Whoever is lost before it is saved so: all go back to what is saved, as it lies there. */
TEST(test_spread_and_lost)
{
    for (uint32_t lost = 0; lost < 3; lost++) {
        struct st *s = crowded(sv_with_disk);
        hold_saves(s);
        spread(s, 1, PS_OK, "");
        set_all(s, 5);
        assert_true(has(s, 0) == 2 && has(s, 1) == 1);
        assert_false(sv_has(s->sv, 0, 2, PSD_DISK_STATE));
        if (lost == 2) {
            kill_both(s);
        } else {
            sv_kill(s->sv, lost);
        }
        boot(s, lost != 1, lost != 0);
        pass(s);
        connect_anew(s);
        assert_true(has(s, 0) == 3 && has(s, 1) == 0);
        assert_all(s, 1);
        assert_int_equal(s->sv->t[0]->core->start->moved, 0);
        s->sv->t[0]->core->saves->again_ms = 0;
        assert_int_not_equal(save(s), 0);
        sv_end(s->sv);
    }
}

/* Behind a checkpoint of it, who is lost gets its own part, and the other one keeps what it has. */
TEST(test_spread_saved_and_lost)
{
    struct st *s = crowded(sv_with_disk);
    spread(s, 1, PS_OK, "");
    set_all(s, 5);
    sv_kill(s->sv, 1);
    boot(s, false, true);
    connect(s, false, true);
    assert_true(has(s, 0) == 2 && has(s, 1) == 1);
    ps_v1_OpenAnswer a;
    for (int i = 0; i < 3; i++) {
        bool here = fc_open(&s->sv->c, NAMES[i], &a) == PS_OK;
        assert_is(here ? &s->sv->c : &s->at1, NAMES[i], (float)((here ? 5 : 1) + i), &a);
    }
}

/* Nothing has changed, but that it is said: a part that is not as it was written; a source that goes while it is read, of which
 * another try makes it. */
TEST(test_spread_fails)
{
    struct st *s = crowded(sv_with_disk);
    set_all(s, 3);
    spoil(s, 0, 1, PSD_DISK_MODEL);
    spread(s, 1, PS_DATA_LOSS, "checkpoint 1 of /job:ps/task:0: file 1 of values");
    assert_true(has(s, 0) == 3 && has(s, 1) == 0 && s->sv->t[1]->core->start->number == 0);
    spoil(s, 0, 1, PSD_DISK_MODEL);
    spread(s, 9, PS_NOT_FOUND, "there is no checkpoint 9");
    ask_spread(s, 1);
    struct shell_task *t = s->sv->t[1];
    assert_string_equal(t->source, "10.0.0.1:1");
    assert_null(shell_dial_source(t, NULL)); /* it does not answer */
    sv_run(s->sv);
    assert_true(shell_logged(s->sv->t[0], "checkpoint_unusable"));
    assert_int_equal(has(s, 0), 3);
    for (int i = 0; i < 40 && t->source[0] == '\0'; i++) { /* a second later */
        shell_pass(&s->sv->net, 100);
        shell_run(&s->sv->net);
        PSI_IGNORE(sv_disk_step(s->sv, 0));
    }
    struct shell_conn *c = shell_dial_source(t, s->sv->t[0]);
    PSI_IGNORE(sv_disk_step(s->sv, 0)); /* some of it has come */
    shell_cut(c);
    sv_run(s->sv);
    assert_int_equal(has(s, 0), 3);
    pass(s);
    assert_reply(fc_take(&s->sv->c, NULL), PS_OK, "");
    connect_anew(s);
    assert_all(s, 1);
}

/* A task without a disk cannot take its part: it is named at once. */
TEST(test_spread_without_a_disk)
{
    struct st *s = crowded(sv_with_disk);
    sv_kill(s->sv, 1);
    s->sv->bare[1] = true;
    boot(s, false, true);
    spread(s, 1, PS_FAILED_PRECONDITION, "checkpoint 1: /job:ps/task:1 has no checkpoint_dir");
    assert_false(shell_logged(s->sv->t[0], "checkpoint_spreads"));
    assert_int_equal(has(s, 0), 3);
}

/* An older one is not dealt as the newest is: who comes back before it is saved so gets nothing of that one beside it. */
TEST(test_spread_and_back)
{
    for (uint32_t lost = 0; lost < 3; lost++) {
        struct st *s = crowded(sv_with_disk);
        spread(s, 1, PS_OK, "");
        assert_true(sv_is_whole(s->sv, 2)); /* two variables at task 0, one at task 1 */
        set_all(s, 5);
        assert_int_equal(save(s), 3);
        hold_saves(s);
        restore(s, 1, PS_OK, "");
        assert_true(has(s, 0) == 3 && has(s, 1) == 0);
        if (lost == 2) {
            s->sv->t[0]->core->saves->again_ms = 0; /* it can be saved */
            assert_int_equal(save(s), 4);
            sv_kill(s->sv, 1);
            boot(s, false, true);
            connect_anew(s);
            assert_true(has(s, 0) == 3 && has(s, 1) == 0);
            assert_all(s, 1);
            continue;
        }
        sv_kill(s->sv, lost);
        boot(s, lost == 0, lost == 1);
        pass(s);
        connect_anew(s);
        assert_true(has(s, 0) == 2 && has(s, 1) == 1);
        assert_all_of(s, 5, 2);
    }
}

/* What a part has need not fit into a task that takes little of it; what it takes must. */
TEST(test_spread_onto_little_memory)
{
    struct st *s = crowded(sv_with_disk);
    s->sv->t[1]->core->config.memory_budget_bytes = (uint64_t)N * 8 + (64 << 10);
    spread(s, 1, PS_OK, "");
    assert_all(s, 1);
    s->sv->t[1]->core->config.memory_budget_bytes = (uint64_t)N * 4;
    spread(s, 1, PS_RESOURCE_EXHAUSTED, "memory_budget");
    assert_all(s, 1);
}

/* Whatever memory is missing on the way, it is all there in the end, once. */
TEST(test_spread_without_memory)
{
    for (int n = 0; n < 600; n += 7) {
        struct st *s = crowded(sv_with_disk);
        ask_spread(s, 1);
        psi_mem_fail_after(n);
        sv_run(s->sv);
        psi_mem_fail_after(-1);
        for (int i = 0; i < 4; i++) {
            pass(s);
        }
        sv_settle(s->sv);
        connect_anew(s);
        assert_all(s, 1);
        sv_end(s->sv);
    }
}

static void count_bytes(void *ctx, const struct psd_variable *v)
{
    *(uint64_t *)ctx += psd_variable_promised_bytes(v);
}

/* All who deal come to the same, and each variable is one's. */
TEST(test_dealt_alike)
{
    struct st *s = crowded(sv_with_disk);
    const struct psd_task *t = s->sv->t[0]->core;
    uint64_t all = 0, others = 0;
    struct psi_err err;
    for (uint32_t place = 0; place < 5; place++) {
        uint64_t has_of[5] = {0};
        const struct psd_deal how = {.tasks = 5, .place = place, .home = 0, .has = has_of};
        assert_ok(psd_deal(&t->store, &how, count_bytes, &others, &err), &err);
        assert_true(has_of[0] > 0 && has_of[1] > 0 && has_of[2] > 0 && has_of[3] == 0);
    }
    for (int i = 0; i < 3; i++) {
        all += psd_variable_promised_bytes(psd_variable_find(psd_container_find(&t->store, "localhost"), NAMES[i]));
    }
    assert_true(others == 4 * all);
}
