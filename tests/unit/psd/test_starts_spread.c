/* SPDX-License-Identifier: Apache-2.0 */
/* psd/store/deal.c, psd/checkpoint/source.c, psd/checkpoint/loader*.c: a checkpoint is dealt anew over all tasks
 * (docs/DURABILITY.md §9).
 */
#define STARTS_N 300000 /* several ranges of a source */
#include "starts_test.h"

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

static uint32_t has(const struct st *s, uint32_t i)
{
    return s->sv->t[i]->core->store.variable_count;
}

static bool has_name(const struct st *s, uint32_t i, const char *name)
{
    return psd_variable_find(psd_container_find(&s->sv->t[i]->core->store, "localhost"), name) != NULL;
}

/* Its values are zeros. */
static void pinned_at(struct st *s, struct fc *at, const char *name, uint32_t task)
{
    ps_v1_CreateItem m;
    ps_v1_OpenAnswer a;
    fc_create_item(&m, name, PS_F32, N, ps_adagrad(0.1));
    m.task = task;
    m.pinned = true;
    assert_int_equal(fc_create(&s->sv->c, &m, NULL), PS_OK);
    assert_int_equal(fc_open(at, name, &a), PS_OK);
    assert_applied(fc_init_var(at, a.handle, ps_zeros(), ps_adagrad(0.1), 0, false));
    assert_reply(fc_seal(at, a.handle, a.creation, 0), PS_OK, "");
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
    assert_true(s->sv->t[1]->core->store.moved >= 2);
    assert_false(psd_source_is_open(s->sv->t[1]->core));
    assert_int_equal(psi_map_count(&s->sv->t[0]->core->records), 1); /* who reads says goodbye */
}

/* Whoever is lost before it is saved so: all go back to what is saved, as it lies there. */
TEST(test_spread_and_lost)
{
    for (uint32_t lost = 0; lost < 3; lost++) {
        struct st *s = crowded(sv_with_disk);
        hold_saves(s);
        spread(s, 1, FC_NONE, "");
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
        assert_int_equal(s->sv->t[0]->core->store.moved, 0);
        s->sv->t[0]->core->saver->again_ms = 0;
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

/* All begin again with that one, and a part of it is damaged then: the older one lies elsewhere, and all go back to it. */
TEST(test_spread_saved_begun_and_damaged)
{
    for (uint32_t lost = 0; lost < 2; lost++) {
        struct st *s = crowded(sv_with_disk);
        spread(s, 1, PS_OK, "");
        assert_true(sv_is_whole(s->sv, 2));
        kill_both(s);
        boot(s, true, true);
        connect(s, true, true);
        assert_true(has(s, 0) == 2 && has(s, 1) == 1);
        set_all(s, 5);
        sv_kill(s->sv, lost);
        spoil(s, lost, 2, PSD_DISK_MODEL);
        boot(s, lost == 0, lost == 1);
        pass(s);
        connect_anew(s);
        assert_true(has(s, 0) == 3 && has(s, 1) == 0);
        assert_all(s, 1);
    }
}

/* Nothing has changed, but that it is said: a part that is not as it was written; a source that goes while it is read, of which
 * another try makes it. */
TEST(test_spread_fails)
{
    struct st *s = crowded(sv_with_disk);
    set_all(s, 3);
    spoil(s, 0, 1, PSD_DISK_MODEL);
    spread(s, 1, PS_DATA_LOSS, "checkpoint 1 of /job:ps/task:0: model-00000.safetensors");
    assert_true(has(s, 0) == 3 && has(s, 1) == 0 && s->sv->t[1]->core->beside->number == 0);
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
        restore_held(s, 1);
        assert_true(has(s, 0) == 3 && has(s, 1) == 0);
        if (lost == 2) {
            assert_int_equal(release_saves(s), 4);
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

/* A disk there that takes longer than a lease for a range is waited for. */
TEST(test_spread_from_a_slow_disk)
{
    struct st *s = crowded(sv_with_disk);
    s->sv->disks[0].held = true;
    ask_spread(s, 1);
    for (int i = 0; i < 8; i++) { /* 24 s */
        pass(s);
    }
    assert_true(psd_source_is_open(s->sv->t[1]->core));
    assert_false(shell_logged(s->sv->t[0], "checkpoint_unusable"));
    s->sv->disks[0].held = false;
    sv_run(s->sv);
    connect_anew(s);
    assert_true(has(s, 0) == 2 && has(s, 1) == 1);
    assert_all(s, 1);
}

/* A host that is gone without a word is not: neither by who reads there, nor, the other way round, by whom it has read. */
TEST(test_spread_from_a_host_that_vanishes)
{
    struct st *s = crowded(sv_with_disk);
    ask_spread(s, 1);
    struct shell_conn *c = shell_dial_source(s->sv->t[1], s->sv->t[0]), *there = c->peer;
    assert_true(psd_source_is_ready(s->sv->t[1]->core) || s->sv->t[0]->disk_count > 0);
    c->frozen = there->frozen = true;
    for (int i = 0; i < 4; i++) { /* 12 s */
        pass(s);
    }
    assert_true(shell_is_closed(c) && shell_is_closed(there));
    assert_true(shell_logged(s->sv->t[0], "/job:ps/task:0 (10.0.0.1:1): the connection was lost"));
    pass(s); /* another try */
    connect_anew(s);
    assert_true(has(s, 0) == 2 && has(s, 1) == 1);
    assert_all(s, 1);
}

/* A task that refuses each range is not asked for ever. */
TEST(test_spread_from_a_task_that_refuses)
{
    struct st *s = crowded(sv_with_disk);
    const ps_v1_CheckpointRead m = {.number = 1, .kind = PS_FILE_STATE, .bytes = 8};
    struct fc other;
    fc_init(&other, s->sv->t[0], 70);
    assert_int_equal(fc_connect(&other), PS_OK);
    s->sv->disks[0].held = true;
    for (uint64_t i = 0; i < 8; i++) {
        sv_ask_range(&s->sv->c, 1000 + i, &m);
        sv_ask_range(&other, 1000 + i, &m);
    }
    ask_spread(s, 1);
    sv_run(s->sv);
    pass(s);
    assert_true(psd_source_is_open(s->sv->t[1]->core));
    for (int i = 0; i < 3; i++) { /* 12 s in all */
        pass(s);
    }
    assert_false(psd_source_is_open(s->sv->t[1]->core));
    assert_true(shell_logged(s->sv->t[0], "/job:ps/task:0 reads 16 other ranges of checkpoints"));
    s->sv->disks[0].held = false;
    pass(s); /* its own part is read */
    pass(s); /* another try */
    connect_anew(s);
    assert_true(has(s, 0) == 2 && has(s, 1) == 1);
    assert_all(s, 1);
}

/* A variable that a program has pinned goes to that task, whoever has its part, as long as there is that task. */
TEST(test_spread_leaves_pins)
{
    struct st *s = st_new(sv_with_disk);
    pinned_at(s, &s->at1, "p", 1);
    pinned_at(s, &s->at1, "q", 1);
    pinned_at(s, &s->sv->c, "r", 0);
    assert_int_equal(save(s), 1);
    spread(s, 1, PS_OK, "");
    assert_true(has_name(s, 1, "p") && has_name(s, 1, "q") && has_name(s, 0, "r"));
    assert_true(has(s, 0) == 2 && has(s, 1) == 3);
    kill_both(s);
    s->sv->spec = "ps=10.0.0.1:1";
    sv_boot(s->sv, 0, s->tweak);
    pass(s);
    assert_int_equal(has(s, 0), 5);
    sv_connect(s->sv);
    uint64_t all = save(s);
    spread(s, all, PS_OK, ""); /* over one task: there is no other */
    assert_int_equal(has(s, 0), 5);
    all = save(s);
    sv_kill(s->sv, 0);
    s->sv->spec = SAVE_SPEC;
    boot(s, true, true);
    connect_anew(s);
    assert_true(has(s, 0) == 5 && has(s, 1) == 0);
    spread(s, all, PS_OK, "");
    assert_true(has_name(s, 1, "p") && has_name(s, 1, "q") && has_name(s, 0, "r"));
    assert_true(has(s, 0) == 3 && has(s, 1) == 2);
}

/* Of strings that are all empty there is no byte to ask the other task for. */
TEST(test_spread_of_empty_strings)
{
    struct st *s = crowded(sv_with_disk);
    ps_v1_CreateItem m;
    ps_v1_OpenAnswer a;
    fc_create_item(&m, "s", PS_STRING, 3, ps_no_optimizer());
    m.task = 0;
    assert_int_equal(fc_create(&s->sv->c, &m, NULL), PS_OK);
    assert_int_equal(fc_open(&s->sv->c, "s", &a), PS_OK);
    assert_applied(fc_init_var(&s->sv->c, a.handle, ps_zeros(), ps_no_optimizer(), 0, false));
    assert_reply(fc_seal(&s->sv->c, a.handle, a.creation, 0), PS_OK, "");
    spread(s, save(s), PS_OK, "");
    assert_true(has(s, 0) == 2 && has(s, 1) == 2 && has_name(s, 1, "s"));
    assert_int_equal(fc_open(&s->at1, "s", &a), PS_OK);
    assert_true(a.initialised && a.sealed);
}

/* Task 1 has lost its disk, and its part lies beside task 0's: that one is asked for it, and not for its own. */
TEST(test_spread_of_an_own_part_that_lies_elsewhere)
{
    struct st *s = st_new(sv_with_disk);
    set(s, 1);
    assert_int_equal(save(s), 1);
    kill_both(s);
    sv_boot(s->sv, 0, s->tweak);
    s->sv->dir = test_dir();
    boot(s, false, true);
    connect(s, true, true);
    assert_true(has(s, 0) == 2 && has(s, 1) == 0);
    spread(s, 1, PS_OK, "");
    assert_true(has(s, 0) == 1 && has(s, 1) == 1);
    assert_is(has_name(s, 0, "w") ? &s->sv->c : &s->at1, "w", 1, &s->w);
    assert_is(has_name(s, 0, "v") ? &s->sv->c : &s->at1, "v", 1, &s->v);
}

/* A part without a state is nobody's to read. */
TEST(test_spread_of_a_part_without_a_state)
{
    struct st *s = crowded(sv_with_disk);
    struct psd_task *t = s->sv->t[1]->core;
    const ps_v1_StartItem what = {.number = 1, .start = 1};
    ps_v1_StartItem *part = psi_calloc(1, sizeof(*part));
    struct psi_err err;
    *part = (ps_v1_StartItem){.writer = 1, .from = 1, .tasks = 2, .place = 1};
    assert_int_equal(psd_beside_load_here(t, &what, part, 1, 1, &err), PS_FAILED_PRECONDITION);
    assert_string_equal(err.text, "/job:ps/task:1 has no part of checkpoint 1 that /job:ps/task:0 has written");
    assert_true(t->beside->number == 0);
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

/* What it gets of several parts must fit together. */
TEST(test_spread_of_parts_onto_little_memory)
{
    struct st *s = st_new(sv_with_disk);
    struct psd_task *t = s->sv->t[1]->core;
    PSI_IGNORE(made_at(s, &s->sv->c, "x", 0)); /* that there are two */
    PSI_IGNORE(made_at(s, &s->at1, "y", 1));
    assert_int_equal(save(s), 1);
    const uint64_t one = psd_variable_promised_bytes(psd_variable_find(psd_container_find(&t->store, "localhost"), "v")) +
                         psd_variable_record_bytes("v", 1, false) +
                         PSD_CONTAINER_BYTES; /* each of the two parts has its container */
    const uint64_t lives = psd_store_taken(&t->store);
    char why[200];
    (void)snprintf(why, sizeof(why),
                   "/job:ps/task:1 would have %llu bytes with what it gets of it beside the %llu that live there; its memory "
                   "budget is %llu",
                   (unsigned long long)(2 * one), (unsigned long long)lives, (unsigned long long)(lives + 2 * one - 1));
    t->config.memory_budget_bytes = lives + 2 * one - 1;
    spread(s, 1, PS_RESOURCE_EXHAUSTED, why);
    t->config.memory_budget_bytes = lives + 2 * one;
    spread(s, 1, PS_OK, "");
    assert_true(has(s, 0) == 2 && has(s, 1) == 2);
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

static void with_short_slices(struct psd_task_config *config)
{
    sv_with_disk(config);
    config->round_slice_bytes = 1; /* a slice is a segment of the value */
}

/* A checkpoint with a push of LAMB or LARS between two slices: the task that gets the variable finishes the push, the other one
 * drops it. */
TEST(test_spread_between_slices)
{
    enum { SEGMENT_ELEMENTS = PS_SEGMENT_BYTES / sizeof(float), SEGMENTS = (N + SEGMENT_ELEMENTS - 1) / SEGMENT_ELEMENTS };
    static float values[N], want[N];
    for (uint64_t way = 0; way < 6; way++) { /* LAMB; LARS while slices measure; LARS while they move */
        const bool lamb = way < 2;
        const uint64_t made = way < 4 ? way % 2 : SEGMENTS + way % 2;
        struct st *s = crowded(with_short_slices);
        struct shell_task *t = s->sv->t[0];
        struct fc *at = fc_new(t, 60); /* the slices keep its connection from being read */
        const ps_optimizer *opt = ps_optimizer_standard(lamb ? PS_OPT_LAMB : PS_OPT_LARS, 0.5);
        ps_v1_CreateItem m;
        ps_v1_OpenAnswer a;
        fc_create_item(&m, "z", PS_F32, N, opt);
        m.task = 0;
        assert_int_equal(fc_create(&s->sv->c, &m, NULL), PS_OK);
        assert_int_equal(fc_open(at, "z", &a), PS_OK);
        assert_applied(fc_init_var(at, a.handle, ps_ones(), opt, 0, false));
        assert_reply(fc_seal(at, a.handle, a.creation, 0), PS_OK, "");
        t->work_held = true;
        assert_int_equal(fc_push(at, PS_OP_PUSH, &a, filled(values, N, 2), 1, 0).status, FC_NONE);
        const struct psd_progress *p = PSI_CONTAINER_OF(psi_list_first(&t->core->moves), struct psd_progress, moves);
        for (uint64_t i = 0; i < made; i++) {
            psd_task_work(t->core);
        }
        sv_ask(s->sv);
        shell_run(&s->sv->net);
        assert_non_null(t->core->store.cut);
        assert_int_equal(psd_progress_moved(p), (lamb ? made : made > SEGMENTS ? made - SEGMENTS : 0) * SEGMENT_ELEMENTS);
        t->work_held = false;
        sv_run(s->sv);
        assert_applied(fc_take(at, NULL));
        assert_applied(fc_pull(at, &a, 0, N, want));
        assert_true(want[0] < 1 && want[N - 1] == want[0]);
        struct fc_reply r = fc_take(&s->sv->c, NULL);
        spread(s, sv_number(&r), PS_OK, "");
        connect_anew(s);
        assert_true(has(s, 0) == 2 && has(s, 1) == 2);
        at = has_name(s, 0, "z") ? &s->sv->c : &s->at1;
        assert_int_equal(fc_open(at, "z", &a), PS_OK);
        assert_int_equal(a.version, 1);
        assert_applied(fc_pull(at, &a, 0, N, values));
        assert_memory_equal(values, want, sizeof(want));
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
        static const uint32_t index[5] = {0, 1, 2, 3, 4};
        const struct psd_deal how = {.tasks = 5, .place = place, .home = 0, .index = index, .has = has_of};
        assert_ok(psd_deal(&t->store, &how, count_bytes, &others, &err), &err);
        assert_true(has_of[0] > 0 && has_of[1] > 0 && has_of[2] > 0 && has_of[3] == 0);
    }
    for (int i = 0; i < 3; i++) {
        all += psd_variable_promised_bytes(psd_variable_find(psd_container_find(&t->store, "localhost"), NAMES[i]));
    }
    assert_true(others == 4 * all);
}
