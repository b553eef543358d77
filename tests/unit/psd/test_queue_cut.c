/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues while a cut holds as much memory as it may: what it would have to encode first stands still, other queues go on, and all
 * goes on when there is room. Order and contents are those without a cut.
 */
#include "queue_test.h"

#include "psd/state.h"
#include "psd/store/cut.h"

enum { N = 1 << 20, MEMORY = 1 << 20, FIRST = 100 /* numbers of requests */ };

static float values[N];

struct held {
    struct env e;
    struct fc other, third;
    ps_v1_OpenAnswer w, q;
};

/* "q" holds 1, 2, 3; a cut is full. */
static void begin(struct held *h)
{
    env_init(&h->e, NULL);
    fc_init(&h->other, h->e.t, 2);
    assert_int_equal(fc_connect(&h->other), PS_OK);
    fc_init(&h->third, h->e.t, 3);
    assert_int_equal(fc_connect(&h->third), PS_OK);
    h->w = fc_ready(&h->e.c, "w", PS_F32, N, ps_sgd(1), 1);
    h->q = fifo(&h->e.c, 4);
    for (int64_t i = 1; i <= 3; i++) {
        assert_applied(put(&h->e.c, (uint64_t)i, &h->q, i));
        fc_ack(&h->e.c, (uint64_t)i);
    }
    struct psd_cut_options o = {.number = 1, .memory_bytes = MEMORY};
    h->e.t->work_held = true; /* the walk does not come to the queue */
    assert_int_equal(psd_cut_begin(h->e.t->core, &o, NULL), PS_OK);
    assert_int_equal(fc_push(&h->other, PS_OP_PUSH, &h->w, filled(values, N, 1), 1, 0).status, FC_NONE);
    assert_true(psd_cut_is_full(&h->e.t->core->store));
}

static void write_all(struct held *h)
{
    struct psd_task *t = h->e.t->core;
    h->e.t->work_held = false;
    shell_run(&h->e.net);
    for (const struct psd_cut_write *w = NULL; (w = psd_cut_next(t)) != NULL;) {
        psd_cut_written(t, w);
        shell_run(&h->e.net);
    }
    assert_int_equal(psd_cut_status(t), PSD_CUT_WRITTEN);
    psd_cut_end(t);
    shell_run(&h->e.net);
}

TEST(test_what_moves_waits)
{
    struct held h;
    struct wire out;
    wire_init(&out);
    begin(&h);
    uint64_t held = psd_cut_held_bytes(&h.e.t->core->store);
    assert_int_equal(put(&h.e.c, FIRST, &h.q, 4).status, FC_NONE);
    assert_int_equal(take_one(&h.e.c, FIRST + 1, &h.q, 0, &out).status, FC_NONE);
    assert_int_equal(psd_cut_held_bytes(&h.e.t->core->store), held);
    ps_v1_Queue like = queue_like(PSI_QUEUE_FIFO, 4);
    ps_v1_OpenAnswer fresh = queue_as(&h.e.c, "fresh", &like); /* the cut has nothing of it, but the session's record */
    assert_int_equal(put(&h.e.c, FIRST + 2, &fresh, 9).status, FC_NONE);
    write_all(&h);
    assert_applied(fc_take(&h.e.c, NULL));
    struct fc_reply r = came(&h.e.c, &out);
    assert_taken(&r, &out, false, 1, (int64_t)END);
    assert_applied(fc_take(&h.e.c, NULL));
    fc_ack(&h.e.c, FIRST + 1);
    for (int64_t i = 2; i <= 4; i++) {
        assert_next(&h.e.c, &h.q, i);
    }
    assert_next(&h.e.c, &fresh, 9);
    wire_fini(&out);
    env_fini(&h.e);
}

/* Its time is over while it waits; the queue is as it was. */
TEST(test_a_deadline)
{
    struct held h;
    struct wire out;
    wire_init(&out);
    begin(&h);
    assert_int_equal(take_one(&h.e.c, FIRST, &h.q, 50, &out).status, FC_NONE);
    psd_task_tick(h.e.t->core, START_MS + 100);
    shell_settle(h.e.t);
    assert_reply(fc_take(&h.e.c, NULL), PS_DEADLINE_EXCEEDED, "");
    write_all(&h);
    for (int64_t i = 1; i <= 3; i++) {
        assert_next(&h.e.c, &h.q, i);
    }
    wire_fini(&out);
    env_fini(&h.e);
}

/* It is deleted while somebody waits; the cut is given up: who waits goes on. */
TEST(test_ends)
{
    for (int deleted = 0; deleted < 2; deleted++) {
        struct held h;
        struct wire out;
        wire_init(&out);
        begin(&h);
        assert_int_equal(take_one(&h.e.c, FIRST, &h.q, 0, &out).status, FC_NONE);
        if (deleted == 1) {
            assert_applied(fc_delete(&h.third, 1000, "q"));
            assert_reply(fc_take(&h.e.c, NULL), PS_CANCELLED, "deleted");
            write_all(&h);
        } else {
            psd_cut_cancel(h.e.t->core);
            h.e.t->work_held = false;
            shell_run(&h.e.net);
            struct fc_reply r = came(&h.e.c, &out);
            assert_taken(&r, &out, false, 1, (int64_t)END);
            psd_cut_end(h.e.t->core);
        }
        wire_fini(&out);
        env_fini(&h.e);
    }
}
