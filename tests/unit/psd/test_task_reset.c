/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resets led by the directory, and what tasks of another job do when they lose it: refusals with nothing done, a task that drops
 * out midway, resets that a task has missed, the fence, lives of the directory that were left.
 */
#include "cluster_test.h"

static ps_v1_OpenAnswer ready_at(struct cl *cl, struct fc *owner, const char *name, const char *job, uint32_t task)
{
    ps_v1_CreateAnswer a;
    ps_v1_OpenAnswer v;
    assert_int_equal(cl_create(cl, name, job, task, true, &a), PS_OK);
    assert_int_equal(fc_open(owner, name, &v), PS_OK);
    assert_applied(fc_init_var(owner, v.handle, ps_ones(), ps_sgd(1), 0, false));
    return v;
}

TEST(test_reset)
{
    ps_v1_OpenAnswer v[3], after;
    ps_v1_CreateAnswer a;
    struct cl *cl = cl_new();
    struct fc *at[] = {&cl->c, &cl->at1, &cl->atw};
    static const char *const names[] = {"a", "b", "c"};
    for (uint32_t i = 0; i < 3; i++) {
        v[i] = ready_at(cl, at[i], names[i], i < 2 ? "ps" : "worker", i % 2);
    }
    assert_applied(fc_reset(&cl->c, 50, ""));
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(fc_open(at[i], names[i], &after), PS_NOT_FOUND);
        assert_int_equal(fc_find(&cl->c, names[i], &a), PS_NOT_FOUND);
        float g[100] = {0};
        assert_reply(fc_push(at[i], PS_OP_PUSH, &v[i], g, 1, 0), PS_ABORTED, "reset or deleted");
        after = ready_at(cl, at[i], names[i], i < 2 ? "ps" : "worker", i % 2);
        assert_int_not_equal(after.incarnation, v[i].incarnation);
        assert_int_not_equal(after.handle, v[i].handle);
    }
    /* again with its number: the kept answer, and nothing is reset again */
    assert_applied(fc_reset(&cl->c, 50, ""));
    assert_int_equal(fc_open(&cl->at1, "b", &after), PS_OK);
    /* another container is left alone, and one that nobody has is reset as well */
    assert_applied(fc_reset(&cl->c, 51, "other"));
    assert_int_equal(fc_open(&cl->at1, "b", &after), PS_OK);
}

TEST(test_reset_is_refused_while_a_task_is_missing)
{
    struct cl *cl = cl_new_apart();
    assert_reply(fc_reset(&cl->c, 49, ""), PS_UNAVAILABLE, "/job:ps/task:1"); /* never heard */
    struct shell_conn *end = cl_join(cl, cl->ps1);
    PSI_IGNORE(ready_at(cl, &cl->c, "a", "ps", 0)); /* its handle is not needed */
    shell_cut(end);
    for (int i = 0; i < 2; i++) { /* however long it is away */
        if (cl->ps1->dials > 0) {
            assert_null(shell_dial(cl->ps1, NULL));
        }
        cl_pass(cl, PS_LEASE_MS);
    }
    if (cl->ps1->dials > 0) {
        assert_null(shell_dial(cl->ps1, NULL));
    }
    struct fc_reply r = fc_reset(&cl->c, 50, "");
    assert_reply(r, PS_UNAVAILABLE, "/job:ps/task:1 (10.0.0.2:2)");
    assert_int_equal(r.applied, PS_NOTHING_APPLIED);
    assert_int_not_equal(r.retry_after_ms, 0);
    assert_int_equal(fc_open(&cl->c, "a", NULL), PS_OK);
    PSI_IGNORE(cl_join(cl, cl->ps1)); /* its end is of no use here */
    assert_applied(fc_reset(&cl->c, 51, ""));
    assert_int_equal(fc_open(&cl->c, "a", NULL), PS_NOT_FOUND);
}

/* It dropped out midway: pending, nothing is created in that container, it joins when it lists. */
TEST(test_reset_with_a_task_that_drops_out)
{
    for (int how = 0; how < 3; how++) {
        struct cl cl;
        ps_v1_CreateAnswer a;
        struct fc second;
        cl_start(&cl);
        struct shell_conn *end = cl_join(&cl, cl.ps1);
        PSI_IGNORE(ready_at(&cl, &cl.at1, "b", "ps", 1)); /* its handle is not needed */
        if (how == 0) {
            end->frozen = true;
        } else {
            end->peer->frozen = true;
        }
        assert_int_equal(fc_reset(&cl.c, 50, "").status, FC_NONE);
        shell_cut(end);
        assert_int_equal(fc_take(&cl.c, NULL).status, FC_NONE); /* pending */
        assert_int_equal(cl_create(&cl, "n", "ps", 0, false, &a), PS_UNAVAILABLE);
        assert_true(says(&a, "reset"));
        assert_reply(fc_delete(&cl.c, 60, "b"), PS_UNAVAILABLE, "reset");
        fc_init(&second, cl.ps0, 7);
        assert_int_equal(fc_connect(&second), PS_OK);
        assert_reply(fc_reset(&second, 1, ""), PS_UNAVAILABLE, "");
        if (how == 2) { /* whoever asked is gone; the reset ends all the same */
            assert_applied(fc_call(&cl.c, PS_OP_GOODBYE, 0, 1, 0, NULL, 0, NULL));
        }
        PSI_IGNORE(cl_join(&cl, cl.ps1)); /* its end is of no use here */
        if (how < 2) {
            assert_applied(fc_take(&cl.c, NULL));
        } else {
            assert_int_equal(fc_connect(&cl.c), PS_OK);
        }
        assert_int_equal(fc_open(&cl.at1, "b", NULL), PS_NOT_FOUND);
        assert_int_equal(fc_find(&cl.c, "b", &a), PS_NOT_FOUND);
        assert_int_equal(cl_create(&cl, "b", "ps", 0, false, &a), PS_OK);
        assert_int_equal(a.task, 0);
        cl_fini(&cl);
    }
}

/* The client's time is over first: it is told who has not answered, and the reset goes on. */
TEST(test_reset_that_is_late)
{
    ps_v1_CreateAnswer a;
    uint8_t meta[PS_META_BYTES_MAX];
    struct cl *cl = cl_new_apart();
    struct shell_conn *end = cl_join(cl, cl->ps1);
    PSI_IGNORE(ready_at(cl, &cl->at1, "b", "ps", 1)); /* its handle is not needed */
    end->frozen = true;
    assert_int_equal(fc_call(&cl->c, PS_OP_RESET, 0, 50, 0, meta, wait_meta(700, meta), NULL).status, FC_NONE);
    assert_int_equal(cl_create(cl, "b", "ps", 0, false, &a), PS_UNAVAILABLE);
    assert_true(says(&a, "no answer yet from /job:ps/task:1 (10.0.0.2:2)"));
    cl_pass(cl, 600);
    assert_int_equal(fc_take(&cl->c, NULL).status, FC_NONE);
    cl_pass(cl, 200);
    struct fc_reply r = fc_take(&cl->c, NULL);
    assert_reply(r, PS_DEADLINE_EXCEEDED, "no answer yet from /job:ps/task:1 (10.0.0.2:2)");
    assert_int_equal(r.applied, PS_MAYBE_PARTLY_APPLIED);
    assert_reply(fc_reset(&cl->c, 51, ""), PS_UNAVAILABLE, "another reset"); /* it goes on */
    shell_cut(end);
    PSI_IGNORE(cl_join(cl, cl->ps1)); /* its end is of no use here */
    assert_int_equal(fc_open(&cl->at1, "b", NULL), PS_NOT_FOUND);
    assert_applied(fc_reset(&cl->c, 52, ""));
}

/* A worker's variables: while it may still serve them (less than a lease since it was heard) a reset is refused; then it has
 * dropped them. */
TEST(test_fence)
{
    ps_v1_OpenAnswer v;
    ps_v1_CreateAnswer a;
    struct cl *cl = cl_new_apart();
    PSI_IGNORE(cl_join(cl, cl->ps1)); /* its end is of no use here */
    struct shell_conn *end = cl_join(cl, cl->w0);
    ps_v1_OpenAnswer old = ready_at(cl, &cl->atw, "c", "worker", 0);
    shell_cut(end);
    for (int i = 0; i < 9; i++) { /* its dials fail meanwhile */
        if (cl->w0->dials > 0) {
            assert_null(shell_dial(cl->w0, NULL));
        }
        assert_reply(fc_reset(&cl->c, (uint64_t)(50 + i), ""), PS_UNAVAILABLE,
                     "/job:worker/task:0 (10.0.0.3:3); a task of another job that has ended is missed for 10000 ms");
        assert_int_equal(fc_open(&cl->atw, "c", &v), PS_OK);
        cl_pass(cl, PS_LEASE_MS / 10);
    }
    cl_pass(cl, PS_LEASE_MS / 10 + 200);
    assert_true(shell_logged(cl->w0, "fenced"));
    assert_int_equal(fc_open(&cl->atw, "c", &v), PS_NOT_FOUND);
    float g[100] = {0};
    assert_reply(fc_push(&cl->atw, PS_OP_PUSH, &old, g, 1, 0), PS_ABORTED, "reset or deleted");
    assert_applied(fc_reset(&cl->c, 80, ""));
    if (cl->w0->dials > 0) {
        assert_null(shell_dial(cl->w0, NULL));
    }
    PSI_IGNORE(cl_join(cl, cl->w0)); /* likewise */
    assert_int_equal(fc_find(&cl->c, "c", &a), PS_NOT_FOUND);
    v = ready_at(cl, &cl->atw, "c", "worker", 0); /* it serves again */
    assert_int_not_equal(v.incarnation, old.incarnation);
    /* a task of the directory's job keeps what it has, however long it takes */
    ps_v1_OpenAnswer b = ready_at(cl, &cl->at1, "b", "ps", 1);
    shell_task_free(cl->ps0);
    shell_run(&cl->net);
    cl->c.conn = NULL;
    for (int i = 0; i < 30; i++) {
        for (uint32_t k = 0; k < cl->net.task_count; k++) {
            if (cl->net.tasks[k]->dials > 0) {
                assert_null(shell_dial(cl->net.tasks[k], NULL));
            }
        }
        cl_pass(cl, 1000);
    }
    assert_int_equal(fc_open(&cl->at1, "b", &v), PS_OK);
    assert_int_equal(v.creation, b.creation);
    assert_int_equal(fc_open(&cl->atw, "c", &v), PS_NOT_FOUND);
}

/* Bytes come, but no answer to a beat for a lease: it drops what it has, and the directory, which counts it as connected, would
 * have things made there that nobody finds. It closes the connection and lists anew. */
TEST(test_fenced_on_a_live_connection)
{
    ps_v1_OpenAnswer v;
    struct cl *cl = cl_new_apart();
    PSI_IGNORE(cl_join(cl, cl->ps1)); /* its end is of no use here */
    struct shell_conn *end = cl_join(cl, cl->w0);
    ps_v1_OpenAnswer old = ready_at(cl, &cl->atw, "c", "worker", 0);
    struct wire *w = wire_new();
    (void)wire_frame(w, &(struct wire_frame){.op = PS_OP_CREATE, .id = 1});
    end->frozen = true; /* of what the directory sends some bytes of a header come */
    for (int i = 0; !shell_logged(cl->w0, "fenced"); i++) {
        assert_in_range(i, 0, 12);
        assert_false(shell_is_closed(end));
        psd_task_bytes(cl->w0->core, end->core, w->data + i, 1);
        cl_pass(cl, PS_LEASE_MS / 11);
    }
    assert_true(shell_is_closed(end));
    assert_int_equal(fc_open(&cl->atw, "c", &v), PS_NOT_FOUND);
    PSI_IGNORE(cl_join(cl, cl->w0)); /* likewise */
    v = ready_at(cl, &cl->atw, "c", "worker", 0);
    assert_int_not_equal(v.incarnation, old.incarnation);
}

/* Reset while the worker was away and never heard in the directory's life, or paused itself so that it did not fence: it is told
 * when it lists, before its list is answered, and what it lists of that container is not taken in. */
TEST(test_reset_that_a_task_missed)
{
    for (int how = 0; how < 4; how++) {
        struct cl cl;
        ps_v1_OpenAnswer v, after, kept;
        ps_v1_CreateAnswer a;
        cl_start(&cl);
        PSI_IGNORE(cl_join(&cl, cl.ps1)); /* its end is of no use here */
        struct shell_conn *end = cl_join(&cl, cl.w0);
        v = ready_at(&cl, &cl.atw, "c", "worker", 0);
        kept = ready_at(&cl, &cl.atw, "other", "worker", 0);
        (void)kept;
        if (how < 2) { /* the directory restarts and the worker has not redialled */
            cl_restart_directory(&cl);
            PSI_IGNORE(cl_join(&cl, cl.ps1)); /* likewise */
        } else { /* the worker stands still for more than a lease, and then does not hold itself guilty */
            shell_cut(end);
            while (cl.ps0->now < START_MS + 2 * PS_LEASE_MS) {
                shell_task_tick(cl.ps0, cl.ps0->now + 100);
                shell_task_tick(cl.ps1, cl.ps1->now + 100);
                shell_run(&cl.net);
                PSI_IGNORE(fc_call(&cl.c, PS_OP_BEAT, 0, 1, 0, NULL, 0, NULL)); /* a sign of life */
            }
        }
        assert_applied(fc_reset(&cl.c, 50, ""));
        fc_ack(&cl.c, 50);
        if (how % 2 == 1) { /* its name is somewhere else by then */
            assert_int_equal(cl_create(&cl, "c", "ps", 1, false, &a), PS_OK);
        }
        shell_tick(&cl.net, cl.ps0->now + 20);
        PSI_IGNORE(cl_join(&cl, cl.w0)); /* likewise */
        assert_int_equal(fc_open(&cl.atw, "c", &after), PS_NOT_FOUND);
        assert_int_equal(fc_open(&cl.atw, "other", &after), PS_NOT_FOUND);
        assert_int_equal(fc_find(&cl.c, "c", &a), how % 2 == 1 ? PS_OK : PS_NOT_FOUND);
        assert_int_equal(fc_find(&cl.c, "other", &a), PS_NOT_FOUND);
        if (how % 2 == 0) { /* and it serves again, in a new incarnation */
            after = ready_at(&cl, &cl.atw, "c", "worker", 0);
            assert_int_not_equal(after.incarnation, v.incarnation);
        }
        /* told once: what is made afterwards survives its next list */
        after = ready_at(&cl, &cl.atw, "new", "worker", 0);
        struct shell_conn *again =
            cl.w0->conns.next == &cl.w0->conns ? NULL : PSI_CONTAINER_OF(cl.w0->conns.next, struct shell_conn, link);
        while (again != NULL && again->peer == NULL) {
            again = PSI_CONTAINER_OF(again->link.next, struct shell_conn, link);
        }
        assert_non_null(again);
        shell_cut(again);
        PSI_IGNORE(cl_join(&cl, cl.w0)); /* likewise */
        assert_int_equal(fc_open(&cl.atw, "new", &kept), PS_OK);
        assert_int_equal(kept.creation, after.creation);
        assert_int_equal(fc_find(&cl.c, "new", &a), PS_OK);
        cl_fini(&cl);
    }
}

/* ---- the test is the directory ---- */

TEST(test_lives_that_were_left)
{
    static const struct {
        uint64_t life;
        bool welcome;
    } lives[] = {{11, true}, {11, true}, {12, true}, {11, false}, {13, true}, {12, false}, {11, false}, {13, true}, {0, false}};
    struct cl *cl = cl_new_apart();
    for (size_t i = 0; i < ARRAY_COUNT(lives); i++) {
        shell_log_clear(cl->ps1);
        struct shell_conn *c = be_the_directory(&cl->net, cl->ps1, lives[i].life);
        assert_int_equal(shell_is_closed(c), !lives[i].welcome);
        assert_int_equal(shell_logged(cl->ps1, "directory_refused"), !lives[i].welcome);
        if (lives[i].welcome) { /* it lists, at least one frame */
            struct shell_frame *f = shell_take(c);
            assert_non_null(f);
            assert_int_equal(f->h.op, PS_OP_LIST);
            assert_int_equal(f->h.flags & PS_FLAG_MORE, 0);
            shell_frame_free(f);
            shell_cut(c);
        }
    }
}

/* What a broken directory may send: refused or closed, never carried out by half. */
TEST(test_bad_requests_of_the_directory)
{
    static const uint8_t ops[] = {PS_OP_TASK_CREATE, PS_OP_TASK_RESET, PS_OP_TASK_DELETE};
    struct fc d;
    struct cl *cl = cl_new_apart();
    fc_init(&d, cl->ps1, 9);
    d.conn = be_the_directory(&cl->net, cl->ps1, 5);
    shell_forget(d.conn);
    struct wire *body = wire_new();
    for (size_t i = 0; i < ARRAY_COUNT(ops); i++) {
        wire_clear(body);
        assert_reply(fc_call(&d, ops[i], 0, 1 + i, 0, NULL, 0, body), PS_INVALID_ARGUMENT, "names no");
        static const uint8_t bad[] = {3, 0x0a, 0x7f, 1};
        wire_append(body, bad, sizeof(bad));
        assert_reply(fc_call(&d, ops[i], 0, 10 + i, 0, NULL, 0, body), PS_INVALID_ARGUMENT, "Item");
    }
    assert_reply(fc_call(&d, 99, 0, 7, 0, NULL, 0, NULL), PS_UNIMPLEMENTED, "99");
    assert_applied(fc_call(&d, PS_OP_BEAT, 0, 8, 0, NULL, 0, NULL));
    wire_clear(body);
    static const uint8_t bad_name[] = {5, 0x12, 3, '.', '.', '/'};
    wire_append(body, bad_name, sizeof(bad_name));
    static const struct ps_reply_meta good;
    assert_int_equal(fc_call(&d, PS_OP_LIST_ANSWER, PS_FLAG_REPLY, 1, 0, &good, sizeof(good), body).status, FC_NONE);
    assert_true(shell_is_closed(d.conn));
    assert_true(shell_logged(cl->ps1, "list_answer_rejected"));
}

/* A directory that says nothing is left after the hello deadline, one that falls silent after a lease. */
TEST(test_silent_directory)
{
    struct cl *cl = cl_new_apart();
    cl_await_dial(cl, cl->ps1);
    struct shell_conn *c = shell_dial_test(cl->ps1);
    shell_pass(&cl->net, PS_HELLO_DEADLINE_MS - 100);
    assert_false(shell_is_closed(c));
    shell_pass(&cl->net, 300);
    assert_true(shell_is_closed(c));
    c = be_the_directory(&cl->net, cl->ps1, 5);
    shell_forget(c);
    shell_pass(&cl->net, PS_LEASE_MS - 200);
    assert_false(shell_is_closed(c));
    assert_in_range(c->frame_count, 3, 4); /* its beats */
    shell_pass(&cl->net, 400);
    assert_true(shell_is_closed(c));
    assert_true(shell_logged(cl->ps1, "directory_lost"));
}
