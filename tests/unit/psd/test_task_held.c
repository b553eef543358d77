/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A push that would change what a cut has not copied, while the cut holds as much memory as it may, waits; its connection is not
 * read, others are served. What it may not do: hold more memory, be lost, or be applied twice.
 */
#include "task_test.h"

#include "psd/state.h"
#include "psd/store/cut.h"

enum { N = 1 << 20, MEMORY = 1 << 20, BLOCK = 64 << 10 };

static float values[N], got[N];

struct held {
    struct env e;
    struct fc other;
    ps_v1_OpenAnswer w, small;
};

static void begin(struct held *h)
{
    env_init(&h->e, NULL);
    fc_init(&h->other, h->e.t, 2);
    assert_int_equal(fc_connect(&h->other), PS_OK);
    h->w = fc_ready(&h->e.c, "w", PS_F32, N, ps_sgd(1), 1);
    h->small = fc_ready(&h->e.c, "small", PS_F32, 4, ps_sgd(1), 3);
    struct psd_cut_options o = {.number = 1, .memory_bytes = MEMORY};
    assert_int_equal(psd_cut_begin(h->e.t->core, &o, NULL), PS_OK);
    shell_run(&h->e.net); /* the walk goes as far as it may */
}

/* Some bytes are written; false: there are none. */
static bool write_one(struct held *h)
{
    const struct psd_cut_write *w = psd_cut_next(h->e.t->core);
    if (w != NULL) {
        psd_cut_written(h->e.t->core, w);
    }
    shell_run(&h->e.net);
    assert_in_range(psd_cut_held_bytes(&h->e.t->core->store), 0, MEMORY + BLOCK);
    return w != NULL;
}

static void end(struct held *h)
{
    while (write_one(h)) {
    }
    assert_int_equal(psd_cut_status(h->e.t->core), PSD_CUT_WRITTEN);
    psd_cut_end(h->e.t->core);
    env_fini(&h->e);
}

TEST(test_others_are_served)
{
    struct held h;
    begin(&h);
    assert_int_equal(fc_push(&h.e.c, PS_OP_PUSH, &h.w, filled(values, N, 1), 1, 0).status, FC_NONE);
    assert_true(h.e.c.conn->core->paused);
    assert_true(psd_cut_is_full(&h.e.t->core->store));
    assert_int_equal(peek_at(h.e.t, "w").version, 0);
    assert_applied(fc_pull(&h.other, &h.w, 0, N, got));
    assert_applied(fc_beat(&h.other, -1, NULL));
    assert_applied(fc_pull(&h.other, &h.small, 0, 4, got));
    assert_floats(got, 0, 4, 3);
    while (peek_at(h.e.t, "w").version == 0) {
        assert_true(write_one(&h));
    }
    assert_applied(fc_take(&h.e.c, NULL));
    assert_false(h.e.c.conn->core->paused);
    assert_applied(fc_pull(&h.other, &h.w, 0, N, got));
    assert_floats(got, 0, N, 0); /* once */
    end(&h);
}

/* Its session hears from the task meanwhile, and is not thought dead. */
TEST(test_beats)
{
    struct held h;
    begin(&h);
    assert_int_equal(fc_push(&h.e.c, PS_OP_PUSH, &h.w, filled(values, N, 1), 1, 0).status, FC_NONE);
    struct psd_task *t = h.e.t->core;
    uint64_t before = h.e.c.conn->core->out.sent_bytes;
    psd_task_tick(t, START_MS + t->config.beat_ms);
    shell_settle(h.e.t);
    assert_true(h.e.c.conn->core->paused && !h.e.c.conn->core->closing);
    assert_in_range(h.e.c.conn->core->out.sent_bytes, before + 32, before + 400);
    psd_cut_cancel(t); /* nothing is kept for it any more */
    shell_run(&h.e.net);
    assert_int_equal(peek_at(h.e.t, "w").version, 1);
    psd_cut_end(t);
    env_fini(&h.e);
}

/* The disk hangs: the cut is given up, and the push goes on. */
TEST(test_disk_hangs)
{
    struct held h;
    struct psi_err err;
    begin(&h);
    struct psd_task *t = h.e.t->core;
    const struct psd_cut_write *taken = psd_cut_next(t);
    assert_non_null(taken);
    assert_int_equal(fc_push(&h.e.c, PS_OP_PUSH, &h.w, filled(values, N, 1), 1, 0).status, FC_NONE);
    for (uint32_t i = 1; i <= 4 && psd_cut_status(t) == PSD_CUT_GOES; i++) {
        psd_task_tick(t, START_MS + i * 2500);
        shell_run(&h.e.net);
        assert_int_equal(peek_at(h.e.t, "w").version, i < 3 ? 0 : 1);
    }
    assert_int_equal(psd_cut_error(t, &err), PS_DEADLINE_EXCEEDED);
    assert_applied(fc_take(&h.e.c, NULL));
    psd_cut_written(t, taken);
    psd_cut_end(t);
    env_fini(&h.e);
}

/* A connection that ends while its push waits: the push stays where it stands, and is resumed on the next one. */
TEST(test_connection_ends)
{
    struct held h;
    begin(&h);
    assert_int_equal(fc_push(&h.e.c, PS_OP_PUSH, &h.w, filled(values, N, 1), 1, 0).status, FC_NONE);
    fc_cut(&h.e.c);
    shell_run(&h.e.net);
    assert_true(psi_list_empty(&h.e.t->core->held));
    assert_int_equal(peek_at(h.e.t, "w").version, 0);
    assert_applied(fc_pull(&h.other, &h.w, 0, N, got));
    end(&h);
}

/* ---- what else a cut would have to keep ---- */

/* Somebody pushes to "w", as far as the cut may copy. */
static void fill(struct held *h)
{
    assert_int_equal(fc_push(&h->other, PS_OP_PUSH, &h->w, filled(values, N, 1), 1, 0).status, FC_NONE);
    assert_true(psd_cut_is_full(&h->e.t->core->store));
    assert_true(h->other.conn->core->paused);
}

/* It is written, bytes by bytes, until there is room. */
static void make_room(struct held *h)
{
    struct psd_task *t = h->e.t->core;
    while (psd_cut_is_full(&t->store)) {
        const struct psd_cut_write *w = psd_cut_next(t);
        assert_non_null(w);
        psd_cut_written(t, w);
    }
}

static void end_all(struct held *h)
{
    struct psd_task *t = h->e.t->core;
    for (const struct psd_cut_write *w = NULL; (w = psd_cut_next(t)) != NULL;) {
        psd_cut_written(t, w);
        shell_run(&h->e.net);
    }
    assert_int_equal(psd_cut_status(t), PSD_CUT_WRITTEN);
    psd_cut_end(t);
    shell_run(&h->e.net);
    env_fini(&h->e);
}

static struct fc_reply init_to(struct held *h, const ps_v1_OpenAnswer *v, float value)
{
    const ps_initializer init = {.kind = PS_INIT_CONSTANT, .a = value};
    const ps_optimizer sgd = *ps_sgd(1);
    return fc_init_var(&h->e.c, v->handle, &init, &sgd, 0, true);
}

/* A forced INIT, of a large variable and of one that is small: the old value stays until there is room to keep it. */
static void waits_to_init(bool large)
{
    struct held h;
    begin(&h);
    const ps_v1_OpenAnswer *v = large ? &h.w : &h.small;
    fill(&h);
    assert_true(psd_cut_missing(&h.e.t->core->store, psd_variable_by_handle(&h.e.t->core->store, v->handle), 0, 4 * N) > 0);
    uint64_t held = psd_cut_held_bytes(&h.e.t->core->store);
    assert_int_equal(init_to(&h, v, 7).status, FC_NONE);
    shell_run(&h.e.net);
    assert_true(h.e.c.conn->core->paused);
    assert_int_equal(psd_cut_held_bytes(&h.e.t->core->store), held);
    assert_int_equal(fc_take(&h.e.c, NULL).status, FC_NONE);
    make_room(&h);
    while (fc_take(&h.e.c, NULL).status == FC_NONE) { /* the push may take the room first */
        shell_run(&h.e.net);
        make_room(&h);
    }
    if (!large) {
        assert_applied(fc_pull(&h.e.c, v, 0, 4, got));
        assert_floats(got, 0, 4, 7);
    }
    end_all(&h);
}

TEST(test_a_forced_init_of_a_large_variable)
{
    waits_to_init(true);
}

TEST(test_a_forced_init_of_a_small_variable)
{
    waits_to_init(false);
}

/* The cut fails: the INIT goes on. Its connection ends: nothing has happened. */
TEST(test_a_forced_init_ends)
{
    struct held h;
    for (int goes = 0; goes < 2; goes++) {
        begin(&h);
        fill(&h);
        assert_int_equal(init_to(&h, &h.small, 7).status, FC_NONE);
        if (goes == 1) {
            psd_cut_cancel(h.e.t->core);
            shell_run(&h.e.net);
            assert_applied(fc_take(&h.e.c, NULL));
            psd_cut_end(h.e.t->core);
            env_fini(&h.e);
            continue;
        }
        fc_cut(&h.e.c);
        make_room(&h);
        shell_run(&h.e.net);
        make_room(&h);
        shell_run(&h.e.net);
        fc_cut(&h.other);
        struct fc third;
        fc_init(&third, h.e.t, 3);
        assert_int_equal(fc_connect(&third), PS_OK);
        assert_applied(fc_pull(&third, &h.small, 0, 4, got));
        assert_floats(got, 0, 4, 3);
        end_all(&h);
    }
}

/* A delete is refused so that its client asks again. */
TEST(test_a_delete)
{
    struct held h;
    begin(&h);
    fill(&h);
    struct fc_reply r = fc_delete(&h.e.c, 1000, "w");
    assert_reply(r, PS_UNAVAILABLE, "holds as much memory as it may");
    assert_true(r.retry_after_ms > 0);
    assert_int_equal(r.applied, PS_NOTHING_APPLIED);
    assert_int_equal(fc_open(&h.e.c, "w", NULL), PS_OK);
    make_room(&h);
    assert_applied(fc_delete(&h.e.c, 1001, "w"));
    assert_int_equal(fc_open(&h.e.c, "w", NULL), PS_NOT_FOUND);
    end_all(&h);
}

/* ---- slices of a push (psd/rpc/moves.c) and a cut that is full ---- */

enum { L = 40000, HALF = 1000 }; /* elements of "l"; bytes of half a segment */

struct sliced {
    struct held h; /* its other: half a push to "l" has come */
    struct fc filler;
    ps_v1_OpenAnswer l;
    struct wire rest; /* of that push */
    uint64_t number;  /* of a whole push to "l", by the first session */
};

static void with_short_slices(struct psd_task_config *config)
{
    config->round_slice_bytes = 1; /* a slice is a segment of the value */
    config->segment_buffers_max = 2;
}

static void send_half(struct fc *c, const ps_v1_OpenAnswer *v, uint64_t elements, struct wire *rest)
{
    struct wire *w = wire_new(), half;
    fc_part_frame(c, w,
                  &(struct fc_part){.op = PS_OP_PUSH,
                                    .dtype = PS_F32,
                                    .number = c->next_number++,
                                    .handle = v->handle,
                                    .total = elements,
                                    .payload = values,
                                    .payload_bytes = (uint32_t)(elements * sizeof(float)),
                                    .scale = 1,
                                    .first = true,
                                    .last = true});
    half = *rest = *w;
    half.len = HALF;
    rest->data += HALF;
    rest->len -= HALF;
    shell_send(c->conn, &half);
    assert_non_null(c->conn->core->in.buffer);
}

/* Session 2 waits, with half a segment, for the slices of session 1, and these for a cut that is full. */
static void begin_sliced(struct sliced *s)
{
    struct psd_cut_options o = {.number = 1, .memory_bytes = MEMORY};
    struct held *h = &s->h;
    const ps_optimizer *lamb = ps_optimizer_standard(PS_OPT_LAMB, 0.5);
    env_init(&h->e, with_short_slices);
    fc_init(&h->other, h->e.t, 2);
    assert_int_equal(fc_connect(&h->other), PS_OK);
    fc_init(&s->filler, h->e.t, 5);
    assert_int_equal(fc_connect(&s->filler), PS_OK);
    h->w = fc_ready(&h->e.c, "w", PS_F32, N, ps_sgd(1), 1);
    h->small = fc_ready(&h->e.c, "small", PS_F32, 4, ps_sgd(1), 3);
    s->l = fc_ready(&h->e.c, "l", PS_F32, L, lamb, 1);
    h->e.t->work_held = true;
    send_half(&h->other, &s->l, L, &s->rest);
    s->number = h->e.c.next_number;
    assert_int_equal(fc_push(&h->e.c, PS_OP_PUSH, &s->l, filled(values, L, 2), 1, 0).status, FC_NONE);
    shell_send(h->other.conn, &s->rest);
    shell_run(&h->e.net);
    struct psd_task *t = h->e.t->core;
    psd_task_work(t); /* a slice in front of the cut, which has not copied its elements when the last slice is made */
    assert_int_equal(psd_cut_begin(t, &o, NULL), PS_OK);
    assert_int_equal(fc_push(&s->filler, PS_OP_PUSH, &h->w, filled(values, N, 1), 1, 0).status, FC_NONE);
    assert_true(psd_cut_is_full(&t->store));
    const struct psd_variable *v = psd_variable_by_handle(&t->store, s->l.handle);
    assert_true(psd_cut_missing(&t->store, v, 0, v->bytes) >= 3 * L * sizeof(float)); /* value and slots */
    assert_true(h->other.conn->core->paused && h->e.c.conn->core->paused);
    h->e.t->work_held = false;
    shell_run(&h->e.net);
    assert_int_equal(peek_at(h->e.t, "l").version, 0);
}

/* HELLO of session 1 makes the slices. Session 2 returns its buffer at once, and waits for the cut with its next segment. */
TEST(test_half_a_segment_behind_slices)
{
    struct sliced s;
    struct fc_hello hello;
    begin_sliced(&s);
    struct held *h = &s.h;
    fc_cut(&h->e.c);
    fc_hello_default(&h->e.c, &hello);
    hello.unresolved[0] = s.number;
    hello.unresolved_count = 1;
    assert_int_equal(fc_hello(&h->e.c, &hello), PS_OK);
    assert_int_equal(h->e.c.numbers[0].state, PS_NUMBER_APPLIED);
    shell_run(&h->e.net);
    assert_true(psd_cut_is_full(&h->e.t->core->store));
    assert_null(h->other.conn->core->in.buffer);
    end_all(h);
}

/* Another connection has the only other buffer: slices do not wait for the cut, so that session 2 returns its own. */
TEST(test_slices_and_no_buffers)
{
    struct sliced s;
    struct fc third, slow;
    struct wire rest;
    begin_sliced(&s);
    struct held *h = &s.h;
    fc_init(&third, h->e.t, 3);
    fc_init(&slow, h->e.t, 4);
    assert_int_equal(fc_connect(&third), PS_OK);
    assert_int_equal(fc_connect(&slow), PS_OK);
    send_half(&slow, &h->w, PS_SEGMENT_BYTES / sizeof(float), &rest);
    assert_applied(fc_pull(&third, &h->small, 0, 4, got));
    assert_floats(got, 0, 4, 3);
    assert_applied(fc_take(&h->e.c, NULL));
    fc_cut(&slow);
    end_all(h);
}

/* A push of LARS beside a cut that is full: all of it is gathered and measured, and the value waits for the cut. */
TEST(test_what_measures_waits_for_no_cut)
{
    struct psd_cut_options o = {.number = 1, .memory_bytes = MEMORY};
    struct held h;
    env_init(&h.e, with_short_slices);
    fc_init(&h.other, h.e.t, 2);
    assert_int_equal(fc_connect(&h.other), PS_OK);
    h.w = fc_ready(&h.e.c, "w", PS_F32, N, ps_sgd(1), 1);
    const ps_v1_OpenAnswer l = fc_ready(&h.e.c, "l", PS_F32, L, ps_optimizer_standard(PS_OPT_LARS, 0.5), 1);
    struct psd_task *t = h.e.t->core;
    assert_int_equal(psd_cut_begin(t, &o, NULL), PS_OK);
    assert_int_equal(fc_push(&h.other, PS_OP_PUSH, &h.w, filled(values, N, 1), 1, 0).status, FC_NONE);
    assert_true(psd_cut_is_full(&t->store));
    assert_int_equal(fc_push(&h.e.c, PS_OP_PUSH, &l, values, 1, 0).status, FC_NONE);
    assert_false(psi_list_empty(&t->moves));
    const struct psd_progress *p = PSI_CONTAINER_OF(psi_list_first(&t->moves), struct psd_progress, moves);
    assert_int_equal(psd_progress_passed(p), L);
    assert_int_equal(psd_progress_moved(p), 0);
    assert_false(psd_task_has_work(t));
    while (peek_at(h.e.t, "l").version == 0) {
        assert_true(write_one(&h));
    }
    assert_applied(fc_take(&h.e.c, NULL));
    end(&h);
}
