/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The INIT of a large variable (here: of anything) is made in slices: others are served in between, and until its end everything
 * is as if it had not come.
 */
#include "task_test.h"

#include "common/rng.h"

enum { N = 4000, SLICE = 4096 };

static float want[N], values[N];

static void in_slices(struct psd_task_config *config)
{
    config->init_at_once_bytes = 0;
    config->init_slice_bytes = SLICE;
}

/* Just the variable (value and slot) and a staged value beside it. */
static void small_budget(struct psd_task_config *config)
{
    in_slices(config);
    config->memory_budget_bytes = 3 * psd_arena_bytes(N * 4) + TEST_RECORDS_BYTES;
}

struct slow {
    struct env e;
    struct fc other;
    ps_v1_OpenAnswer v;
    ps_initializer init;
    ps_optimizer optimizer;
};

static void begin(struct slow *s, shell_tweak tweak)
{
    ps_v1_CreateItem m;
    s->init = *ps_normal(0, 1);
    s->optimizer = *ps_momentum(1, .5);
    env_init(&s->e, tweak);
    fc_init(&s->other, s->e.t, 2);
    assert_int_equal(fc_connect(&s->other), PS_OK);
    fc_create_item(&m, "v", PS_F32, N, &s->optimizer);
    assert_int_equal(fc_create(&s->other, &m, NULL), PS_OK);
    assert_int_equal(fc_open(&s->other, "v", &s->v), PS_OK);
    s->e.t->work_held = true;
    ps_shape shape = {.rank = 1, .dims = {N}};
    psi_init_fill(&s->init, PS_F32, &shape, 17, "v", 0, N, want);
}

static void end(struct slow *s)
{
    shell_run(&s->e.net);
    assert_false(psd_task_has_work(s->e.t->core));
    fc_cut(&s->e.c);
    shell_run(&s->e.net);
    env_fini(&s->e);
}

/* A session says INIT; nothing comes back. */
static void ask(struct slow *s, struct fc *c, bool force)
{
    assert_int_equal(fc_init_var(c, s->v.handle, &s->init, &s->optimizer, 0, force).status, FC_NONE);
}

static void work(struct slow *s)
{
    psd_task_work(s->e.t->core);
    shell_settle(s->e.t);
}

static uint32_t work_on(struct slow *s)
{
    uint32_t slices = 0;
    while (psd_task_has_work(s->e.t->core)) {
        work(s);
        slices++;
    }
    shell_run(&s->e.net);
    return slices;
}

static void assert_made(const struct slow *s, uint64_t version)
{
    struct peek p = peek_at(s->e.t, "v");
    assert_true(p.initialised);
    assert_int_equal(p.version, version);
    assert_int_equal(p.bytes, sizeof(want));
    assert_memory_equal(p.value, want, sizeof(want));
}

TEST(test_others_are_served)
{
    struct slow s;
    begin(&s, in_slices);
    s.e.t->work_held = false;
    ps_v1_OpenAnswer small = fc_ready(&s.other, "small", PS_F32, 4, ps_sgd(1), 3);
    s.e.t->work_held = true;
    ask(&s, &s.e.c, false);
    uint32_t slices = 0;
    while (psd_task_has_work(s.e.t->core)) {
        assert_applied(fc_beat(&s.other, -1, NULL));
        assert_applied(fc_pull(&s.other, &small, 0, 4, values));
        assert_floats(values, 0, 4, 3);
        assert_false(peek_at(s.e.t, "v").initialised);
        assert_int_equal(fc_take(&s.e.c, NULL).status, FC_NONE);
        work(&s);
        slices++;
    }
    assert_true(slices >= 2 * N * 4 / SLICE); /* the slot too */
    assert_applied(fc_take(&s.e.c, NULL));
    assert_made(&s, 0);
    assert_int_equal(psd_task_memory_bytes(s.e.t->core), 2 * N * 4 + 4 * 4);
    assert_applied(fc_push(&s.other, PS_OP_PUSH, &s.v, filled(values, N, 0), 1, 0)); /* its slots are there, and zero */
    assert_made(&s, 1);
    end(&s);
}

/* What came behind it, in the same read or cut anywhere, is carried out after it; another INIT too. */
TEST(test_what_follows)
{
    for (size_t piece = 0; piece < 400; piece += 7) {
        struct slow s;
        begin(&s, in_slices);
        s.e.c.conn->frozen = true;
        s.e.c.conn->piece = piece;
        ask(&s, &s.e.c, false);
        ask(&s, &s.e.c, true);
        uint8_t meta[PS_META_BYTES_MAX] = {0};
        struct wire *w = wire_new();
        fc_frame(&s.e.c, w, PS_OP_BEAT, 0, 900, 0, meta, 0, NULL);
        struct fc_part part = {.op = PS_OP_PUSH, .dtype = PS_F32, .number = s.e.c.next_number++, .handle = s.v.handle};
        part.total = N;
        part.payload = filled(values, N, 0);
        part.payload_bytes = sizeof(values);
        part.scale = 1;
        part.first = part.last = true;
        fc_part_frame(&s.e.c, w, &part);
        shell_send(s.e.c.conn, w);
        shell_thaw(s.e.c.conn);
        assert_int_equal(fc_take(&s.e.c, NULL).status, FC_NONE);
        PSI_IGNORE(work_on(&s));
        assert_applied(fc_take(&s.e.c, NULL)); /* INIT */
        PSI_IGNORE(work_on(&s));
        assert_applied(fc_take(&s.e.c, NULL)); /* the other one */
        assert_applied(fc_take(&s.e.c, NULL)); /* BEAT */
        assert_applied(fc_take(&s.e.c, NULL)); /* PUSH */
        assert_made(&s, 2);
        end(&s);
    }
}

/* Lost after any slice: nothing is applied or held, and said again it works. */
TEST(test_lost)
{
    for (uint32_t slices = 0; slices < 8; slices++) {
        for (int displaced = 0; displaced < 2; displaced++) {
            struct slow s;
            struct fc_hello hello;
            begin(&s, in_slices);
            ask(&s, &s.e.c, false);
            uint64_t number = s.e.c.next_number - 1;
            for (uint32_t i = 0; i < slices && psd_task_has_work(s.e.t->core); i++) {
                work(&s);
            }
            assert_true(psd_task_has_work(s.e.t->core));
            if (displaced == 0) {
                fc_cut(&s.e.c);
            }
            fc_hello_default(&s.e.c, &hello);
            hello.unresolved[hello.unresolved_count++] = number;
            assert_int_equal(fc_hello(&s.e.c, &hello), PS_OK);
            assert_false(psd_task_has_work(s.e.t->core));
            assert_false(peek_at(s.e.t, "v").initialised);
            s.e.c.next_number = number;
            ask(&s, &s.e.c, false);
            PSI_IGNORE(work_on(&s));
            assert_applied(fc_take(&s.e.c, NULL));
            assert_made(&s, 0);
            assert_int_equal(psd_task_memory_bytes(s.e.t->core), 2 * N * 4);
            end(&s);
        }
    }
}

/* The variable goes, a value comes, the task shuts down: the next slice finds out. */
TEST(test_overtaken)
{
    enum { DELETED, RESET, ASSIGNED, DRAINED, CASES };
    for (int i = 0; i < CASES; i++) {
        struct slow s;
        begin(&s, in_slices);
        ask(&s, &s.e.c, false);
        work(&s);
        switch (i) {
        case DELETED:
            assert_applied(fc_delete(&s.other, s.other.next_id++, "v"));
            break;
        case RESET:
            assert_applied(fc_reset(&s.other, s.other.next_id++, "localhost"));
            break;
        case ASSIGNED:
            assert_applied(fc_push(&s.other, PS_OP_ASSIGN, &s.v, filled(want, N, 7), 1, 0));
            break;
        default:
            psd_task_drain(s.e.t->core);
            break;
        }
        assert_int_equal(work_on(&s), 1);
        struct fc_reply r = fc_take(&s.e.c, NULL);
        assert_int_equal(r.status, i == ASSIGNED ? PS_OK : i == DRAINED ? PS_UNAVAILABLE : PS_ABORTED);
        if (i == ASSIGNED) {
            assert_made(&s, 0);
        } else {
            assert_false(peek_at(s.e.t, "v").initialised);
        }
        end(&s);
    }
}

/* Two sessions: the first one makes the value, the other one finds it; or the first one ends and the other one makes it. */
TEST(test_two)
{
    for (int cut = 0; cut < 2; cut++) {
        struct slow s;
        begin(&s, in_slices);
        ask(&s, &s.e.c, false);
        ask(&s, &s.other, false);
        work(&s);
        if (cut == 1) {
            fc_cut(&s.e.c);
        }
        PSI_IGNORE(work_on(&s));
        if (cut == 0) {
            assert_applied(fc_take(&s.e.c, NULL));
        }
        assert_applied(fc_take(&s.other, NULL));
        assert_made(&s, 0);
        assert_int_equal(psd_task_memory_bytes(s.e.t->core), 2 * N * 4);
        end(&s);
    }
}

/* A forced one: the old value is used meanwhile, pushes to it are overwritten; an ASSIGN that brings the first value too. */
TEST(test_forced)
{
    for (int assigned_during = 0; assigned_during < 2; assigned_during++) {
        struct slow s;
        begin(&s, in_slices);
        if (assigned_during == 0) {
            assert_applied(fc_push(&s.other, PS_OP_ASSIGN, &s.v, filled(values, N, 7), 1, 0));
        }
        ask(&s, &s.e.c, true);
        for (int i = 0; i < 5; i++) { /* into the slot */
            work(&s);
        }
        if (assigned_during == 1) {
            assert_applied(fc_push(&s.other, PS_OP_ASSIGN, &s.v, filled(values, N, 7), 1, 0));
            work(&s);
        }
        assert_applied(fc_push(&s.other, PS_OP_PUSH, &s.v, filled(values, N, 1), 1, 0));
        assert_floats(peek_at(s.e.t, "v").value, 0, N, 6);
        PSI_IGNORE(work_on(&s));
        assert_applied(fc_take(&s.e.c, NULL));
        assert_made(&s, 2);
        assert_applied(fc_push(&s.other, PS_OP_PUSH, &s.v, filled(values, N, 0), 1, 0)); /* no momentum is left */
        assert_made(&s, 3);
        assert_int_equal(psd_task_memory_bytes(s.e.t->core), 2 * N * 4);
        end(&s);
    }
}

/* Where there is no room beside the old value a forced one is made in its place, at once; a first one has its room. */
TEST(test_budget)
{
    struct slow s;
    begin(&s, small_budget);
    ask(&s, &s.e.c, false);
    assert_true(work_on(&s) > 1);
    assert_applied(fc_take(&s.e.c, NULL));
    assert_made(&s, 0);
    ask(&s, &s.e.c, true);
    assert_int_equal(work_on(&s), 1);
    assert_applied(fc_take(&s.e.c, NULL));
    assert_made(&s, 1);
    end(&s);
}

/* The session is told that the task lives, and is not given up, however long it takes. */
TEST(test_stays_alive)
{
    struct slow s;
    begin(&s, in_slices);
    uint64_t chief = fc_chief(&s.e.c);
    assert_int_not_equal(chief, 0);
    assert_int_equal(fc_init_var(&s.e.c, s.v.handle, &s.init, &s.optimizer, chief, false).status, FC_NONE);
    for (int i = 0; i < 6; i++) {
        uint32_t flags = 0;
        shell_pass(&s.e.net, PS_LEASE_MS / 2);
        assert_applied(fc_take(&s.e.c, NULL)); /* the answer to a BEAT that nobody sent */
        assert_applied(fc_beat(&s.other, -1, &flags));
        assert_int_equal(flags & 1u, 1); /* the chief is there */
        shell_forget(s.e.c.conn);
    }
    PSI_IGNORE(work_on(&s));
    assert_applied(fc_take(&s.e.c, NULL));
    assert_made(&s, 0);
    end(&s);
}
