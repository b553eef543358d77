/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sessions that say HELLO, begin something and vanish (issue 8): what they hold gives way when it is short, once they are past
 * their lease, and only then; those with nothing to remember first, then the longest silent; who was heard within a lease loses
 * nothing; who comes back to a record that is gone is told *unknown*, and of work that ended, that it ended; psctl always gets
 * in. With 4,160 sessions and 4,096 pushes of them: tests/system/test_lockout.py.
 */
#include "task_test.h"

#include "psd/state.h"

enum { N = 40000 };

static float values[N];

static struct fc_reply hello_as(struct fc *c, struct env *e, uint32_t id, const char *job)
{
    struct fc_hello h;
    fc_init(c, e->t, 1);
    memcpy(c->session + 4, &id, sizeof(id));
    fc_hello_default(c, &h);
    PSI_IGNORE(PSI_BYTES_SET(h.m.job, job)); /* fits */
    h.m.task = id;
    PSI_IGNORE(fc_hello(c, &h)); /* in hello_reply */
    return c->hello_reply;
}

/* HELLO of a session that is known, with its last `count` numbers unresolved. */
static void again(struct fc *c, uint32_t count)
{
    struct fc_hello h;
    fc_hello_default(c, &h);
    PSI_IGNORE(PSI_BYTES_SET(h.m.job, "worker")); /* fits */
    for (uint32_t i = 0; i < count; i++) {
        h.unresolved[i] = c->next_number - count + i;
    }
    h.unresolved_count = count;
    assert_int_equal(fc_hello(c, &h), PS_OK);
    assert_int_equal(c->number_items, count);
}

/* The first segment of an operation of N elements. */
static void begin(struct fc *c, uint8_t op, const ps_v1_OpenAnswer *v)
{
    struct fc_part part = {.op = op, .dtype = PS_F32, .handle = v->handle, .total = N, .scale = 1, .first = true};
    part.number = c->next_number++;
    part.payload = filled(values, N, 1);
    part.payload_bytes = SEGMENT;
    fc_send_part(c, &part);
}

static uint32_t known(const struct env *e)
{
    return psd_task_session_count(e->t->core);
}

static bool knows(const struct env *e, const struct fc *c)
{
    return psi_map_find(&e->t->core->records, c->session, sizeof(c->session)) != NULL;
}

/* ---- sessions ---- */

enum { SESSIONS = 20, GHOSTS = SESSIONS + 64 };

static void twenty_sessions(struct psd_task_config *config)
{
    config->sessions_max = SESSIONS;
}

TEST(test_many_that_vanish)
{
    struct fc ghost, worker, psctl;
    struct env *e = env_new_unconnected(twenty_sessions);
    for (uint32_t i = 0; i < GHOSTS; i++) {
        assert_applied(hello_as(&ghost, e, i + 1, ""));
        shell_cut(ghost.conn);
        shell_conn_free(ghost.conn);
    }
    assert_int_equal(known(e), GHOSTS);
    /* within their lease they keep their places; an operator gets in all the same, as a guest */
    assert_reply(hello_as(&worker, e, 9001, "worker"), PS_RESOURCE_EXHAUSTED, "sessions_max");
    assert_applied(hello_as(&psctl, e, 9002, ""));
    assert_int_equal(known(e), GHOSTS + 1);
    fc_cut(&psctl);
    shell_pass(&e->net, 100);
    assert_int_equal(known(e), GHOSTS); /* a guest's record goes with its connection */
    shell_pass(&e->net, PS_LEASE_MS);
    for (uint32_t i = 0; i < 5; i++) {
        assert_applied(hello_as(&worker, e, 10000 + i, "worker"));
    }
    assert_int_equal(known(e), SESSIONS); /* as many as had to go, and no more */
    assert_true(shell_logged(e->t, "session_gave_way"));
}

static void three_sessions(struct psd_task_config *config)
{
    config->sessions_max = 3;
}

TEST(test_who_goes_first)
{
    struct fc old, empty, late, fresh[4];
    struct env *e = env_new_unconnected(three_sessions);
    assert_applied(hello_as(&old, e, 1, "worker"));
    ps_v1_OpenAnswer v = fc_ready(&old, "v", PS_F32, N, ps_sgd(1), 0);
    fc_cut(&old); /* with outcomes */
    shell_pass(&e->net, 1000);
    assert_applied(hello_as(&late, e, 2, "worker"));
    assert_applied(fc_push(&late, PS_OP_PUSH, &v, filled(values, N, 1), 1, 0));
    fc_cut(&late);
    shell_pass(&e->net, 1000);
    assert_applied(hello_as(&empty, e, 3, "worker"));
    fc_cut(&empty);
    shell_pass(&e->net, PS_LEASE_MS - 2200); /* the lease of `old` has 200 ms left */
    assert_reply(hello_as(&fresh[0], e, 10, "worker"), PS_RESOURCE_EXHAUSTED, "heard within their lease");
    shell_pass(&e->net, 300);
    assert_applied(hello_as(&fresh[0], e, 10, "worker"));
    assert_false(knows(e, &old)); /* `empty` was heard later than a lease ago: it stays */
    assert_true(knows(e, &late) && knows(e, &empty));
    shell_pass(&e->net, 2000);
    assert_applied(fc_beat(&fresh[0], -1, NULL));
    assert_applied(hello_as(&fresh[1], e, 11, "worker"));
    assert_false(knows(e, &empty)); /* nothing to remember: before the one that is silent longer */
    assert_true(knows(e, &late));
    again(&late, 1); /* its outcome is still known */
    assert_int_equal(late.numbers[0].state, PS_NUMBER_APPLIED);
    assert_reply(hello_as(&fresh[2], e, 12, "worker"), PS_RESOURCE_EXHAUSTED, "sessions_max");
    fc_cut(&late);
    shell_pass(&e->net, PS_LEASE_MS - 100);
    assert_reply(hello_as(&fresh[2], e, 12, "worker"), PS_RESOURCE_EXHAUSTED, "sessions_max");
    again(&late, 1); /* it came back: another lease */
}

/* A session whose record gave way is told so: nothing that it sent is taken for not received. */
TEST(test_unknown_after_it_gave_way)
{
    struct fc worker[4];
    struct env *e = env_new_unconnected(three_sessions);
    assert_applied(hello_as(&worker[0], e, 1, "worker"));
    ps_v1_OpenAnswer v = fc_ready(&worker[0], "v", PS_F32, N, ps_sgd(1), 0);
    assert_applied(fc_push(&worker[0], PS_OP_PUSH, &v, filled(values, N, 1), 1, 0));
    begin(&worker[0], PS_OP_PUSH, &v);
    fc_cut(&worker[0]);
    shell_pass(&e->net, PS_LEASE_MS); /* it may have been heard until the first tick after the cut */
    for (uint32_t i = 1; i < 3; i++) {
        assert_applied(hello_as(&worker[i], e, 1 + i, "worker"));
    }
    assert_reply(hello_as(&worker[3], e, 4, "worker"), PS_RESOURCE_EXHAUSTED, "heard within their lease");
    shell_pass(&e->net, 100);
    assert_applied(hello_as(&worker[3], e, 4, "worker"));
    assert_false(knows(e, &worker[0]));
    assert_int_equal(peek_at(e->t, "v").version, 2); /* torn, and counted */
    assert_applied(fc_call(&worker[3], PS_OP_GOODBYE, 0, 1, 0, NULL, 0, NULL));
    again(&worker[0], 2);
    assert_int_equal(worker[0].numbers[0].state, PS_NUMBER_UNKNOWN);
    assert_int_equal(worker[0].numbers[1].state, PS_NUMBER_UNKNOWN);
}

/* 17 MiB of records, and a budget of 4 MiB: they count, and give way. */
static void little_memory(struct psd_task_config *config)
{
    config->memory_budget_bytes = (4 << 20) + TEST_RECORDS_BYTES;
}

TEST(test_records_count_in_the_budget)
{
    struct fc ghost, worker, psctl;
    uint32_t count = 0;
    struct env *e = env_new_unconnected(little_memory);
    for (;; count++) {
        assert_in_range(count, 0, 1000);
        if (hello_as(&ghost, e, count + 1, "worker").status != PS_OK) {
            break;
        }
        fc_cut(&ghost);
    }
    assert_reply(ghost.hello_reply, PS_RESOURCE_EXHAUSTED, "memory_budget");
    /* 16 MiB beside the budget, and the budget */
    assert_in_range(count * PSD_RECORD_BYTES, 19 << 20, (20 << 20) + TEST_RECORDS_BYTES);
    assert_applied(hello_as(&psctl, e, 5000, ""));
    assert_int_equal(fc_make(&psctl, "v", PS_F32, N, ps_sgd(1)), PS_RESOURCE_EXHAUSTED);
    shell_pass(&e->net, PS_LEASE_MS - 100);
    assert_applied(fc_beat(&psctl, -1, NULL));
    shell_pass(&e->net, 200);
    assert_int_equal(fc_make(&psctl, "v", PS_F32, N, ps_sgd(1)), PS_OK); /* some went */
    assert_applied(hello_as(&worker, e, 5001, "worker"));
    assert_in_range(known(e), count - 8, count);
}

/* Variables that fill the budget lock nobody out: 16 MiB of records are beside it. */
TEST(test_full_budget)
{
    struct fc worker;
    struct env *e = env_new(little_memory);
    PSI_IGNORE(fc_ready(&e->c, "v", PS_F32, 1 << 20, ps_sgd(1), 0)); /* all of it */
    for (uint32_t i = 1; i < 300; i++) {
        assert_applied(hello_as(&worker, e, i, "worker"));
    }
}

/* Refusals are kept with their texts, so many bytes of them. */
TEST(test_texts_are_bounded)
{
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = fc_ready(&e->c, "v", PS_F32, N, ps_no_optimizer(), 0);
    for (uint32_t i = 0; i < 2 * PS_WINDOW; i++) {
        assert_reply(fc_push(&e->c, PS_OP_PUSH, &v, values, 1, 0), PS_FAILED_PRECONDITION, "no optimizer"); /* invariants */
    }
    fc_cut(&e->c);
    again(&e->c, PS_WINDOW - 1);
    const ps_v1_NumberItem *n = e->c.numbers;
    for (uint32_t i = 0; i < PS_WINDOW - 1; i++) {
        assert_int_equal(n[i].state, PS_NUMBER_REFUSED);
        assert_int_equal(n[i].status, PS_FAILED_PRECONDITION);
    }
    assert_memory_equal(n[0].text.bytes, "refused", 7);
    assert_non_null(memmem(n[PS_WINDOW - 2].text.bytes, n[PS_WINDOW - 2].text.size, "no optimizer", 12));
}

/* ---- pushes in progress ---- */

static void few_pushes(struct psd_task_config *config)
{
    config->pushes_in_progress_max = 64;
}

TEST(test_pushes_of_the_vanished)
{
    struct fc ghost[8];
    struct env *e = env_new(few_pushes);
    ps_v1_OpenAnswer v = fc_ready(&e->c, "v", PS_F32, N, ps_sgd(1), 0);
    for (uint32_t i = 0; i < 8; i++) {
        assert_applied(hello_as(&ghost[i], e, i + 1, "worker"));
        for (uint32_t k = 0; k < PS_MULTIFRAME_PUSHES_MAX; k++) {
            begin(&ghost[i], PS_OP_PUSH, &v);
        }
        fc_cut(&ghost[i]);
    }
    assert_reply(fc_push(&e->c, PS_OP_PUSH, &v, filled(values, N, 1), 1, 0), PS_RESOURCE_EXHAUSTED, "64 pushes in progress");
    shell_pass(&e->net, PS_LEASE_MS - 200);
    assert_applied(fc_beat(&e->c, -1, NULL));
    assert_reply(fc_push(&e->c, PS_OP_PUSH, &v, filled(values, N, 1), 1, 0), PS_RESOURCE_EXHAUSTED, "64 pushes in progress");
    again(&ghost[0], 8); /* in time: nothing of its has ended */
    assert_int_equal(ghost[0].numbers[7].state, PS_NUMBER_IN_PROGRESS);
    shell_pass(&e->net, 300);
    assert_applied(fc_push(&e->c, PS_OP_PUSH, &v, filled(values, N, 1), 1, 0));
    assert_int_equal(e->t->core->progress_count, 64 - 8); /* of one session: the longest silent */
    again(&ghost[1], 8);
    for (uint32_t k = 0; k < 8; k++) {
        assert_int_equal(ghost[1].numbers[k].state, PS_NUMBER_ABANDONED);
        assert_int_equal(ghost[1].numbers[k].applied, PS_OUTCOME_UNKNOWN); /* torn: its first segment is in */
        assert_int_equal(ghost[1].numbers[k].offset, SEGMENT / 4);
    }
    assert_int_equal(known(e), 9); /* no record went for it */
}

/* ---- staged values ---- */

static void staging(struct psd_task_config *config)
{
    enum { PUSHES = 21 * sizeof(struct psd_progress) };
    config->memory_budget_bytes = 22 * psd_arena_bytes(N * 4) + TEST_RECORDS_BYTES + PUSHES;
}

TEST(test_staged_values_of_the_vanished)
{
    struct fc ghost[20];
    ps_v1_InfoAnswer info;
    struct env *e = env_new(staging);
    struct wire *list = wire_new();
    ps_v1_OpenAnswer v = fc_ready(&e->c, "v", PS_F32, N, ps_no_optimizer(), 5);
    ps_v1_OpenAnswer w = fc_ready(&e->c, "w", PS_F32, N, ps_sgd(1), 5);
    for (uint32_t i = 0; i < 20; i++) {
        assert_applied(hello_as(&ghost[i], e, i + 1, "worker"));
        begin(&ghost[i], i == 1 ? PS_OP_PUSH : PS_OP_ASSIGN, i == 1 ? &w : &v);
        fc_cut(&ghost[i]);
    }
    begin(&e->c, PS_OP_ASSIGN, &v);                 /* the last room */
    assert_int_equal(fc_info(&e->c, &info), PS_OK); /* who holds what */
    assert_true(info.sessions == 21 && info.connected == 1 && info.records_bytes == 21 * PSD_RECORD_BYTES);
    assert_true(info.in_progress == 21 && info.staged_bytes == 20 * N * 4 && info.copies_bytes == 0);
    assert_int_equal(info.most_bytes, N * 4);
    assert_int_equal(fc_list(&e->c, PS_OP_SESSIONS, NULL, NULL, list).status, PS_OK);
    const uint8_t *p = list->data;
    size_t n = list->len;
    uint64_t held = 0;
    for (ps_v1_SessionAnswer s; fc_item(&p, &n, &ps_v1_SessionAnswer_msg, &s); held += s.held_bytes) {
        assert_true(s.held_bytes == N * 4 || s.held_bytes == 0);
    }
    assert_int_equal(held, 20 * N * 4);
    assert_reply(fc_push(&e->c, PS_OP_ASSIGN, &v, filled(values, N, 1), 1, 0), PS_RESOURCE_EXHAUSTED, "no room to stage");
    shell_pass(&e->net, PS_LEASE_MS - 100);
    assert_applied(fc_beat(&e->c, -1, NULL));
    assert_reply(fc_push(&e->c, PS_OP_ASSIGN, &v, filled(values, N, 1), 1, 0), PS_RESOURCE_EXHAUSTED, "no room to stage");
    shell_pass(&e->net, 200);
    assert_applied(fc_push(&e->c, PS_OP_ASSIGN, &v, filled(values, N, 7), 1, 0));
    assert_floats(peek_at(e->t, "v").value, 0, N, 7);
    again(&ghost[0], 1);
    assert_int_equal(ghost[0].numbers[0].state, PS_NUMBER_ABANDONED);
    assert_int_equal(ghost[0].numbers[0].applied, PS_NOTHING_APPLIED);
    for (uint32_t i = 1; i < 20; i++) { /* one was enough; a push that is not staged holds nothing of what was short */
        again(&ghost[i], 1);
        assert_int_equal(ghost[i].numbers[0].state, PS_NUMBER_IN_PROGRESS);
    }
}

/* What they have would not be enough: it stays theirs. */
TEST(test_nothing_ends_for_nothing)
{
    struct fc ghost[4];
    ps_v1_CreateItem m;
    struct env *e = env_new(staging);
    ps_v1_OpenAnswer v = fc_ready(&e->c, "v", PS_F32, N, ps_no_optimizer(), 5);
    for (uint32_t i = 0; i < 4; i++) {
        assert_applied(hello_as(&ghost[i], e, i + 1, "worker"));
        begin(&ghost[i], PS_OP_ASSIGN, &v);
        fc_cut(&ghost[i]);
    }
    shell_pass(&e->net, PS_LEASE_MS - 100);
    assert_applied(fc_beat(&e->c, -1, NULL));
    shell_pass(&e->net, 200);
    assert_int_equal(fc_make(&e->c, "large", PS_F32, 22 * N, ps_no_optimizer()), PS_RESOURCE_EXHAUSTED);
    again(&ghost[0], 1);
    assert_int_equal(ghost[0].numbers[0].state, PS_NUMBER_IN_PROGRESS);
    shell_pass(&e->net, 100);
    fc_create_item(&m, "large", PS_F32, 20 * N, ps_no_optimizer()); /* that of three goes */
    assert_int_equal(fc_create(&e->c, &m, NULL), PS_OK);
    again(&ghost[0], 1);
    assert_int_equal(ghost[0].numbers[0].state, PS_NUMBER_IN_PROGRESS);
}

/* ---- lists of waiting requests ---- */

TEST(test_lists_of_the_vanished)
{
    struct fc ghost;
    ps_v1_CreateItem create;
    uint32_t count = 0;
    struct env *e = env_new(little_memory);
    struct wire *items = wire_new();
    fc_create_item(&create, "v", PS_F32, 1, ps_no_optimizer());
    while (items->len < PS_CONTROL_BODY_MAX / 8) {
        wire_item(items, &ps_v1_CreateItem_msg, &create);
    }
    struct fc_reply r = {.status = FC_NONE};
    for (; r.status == FC_NONE; count++) {
        assert_in_range(count, 0, 200);
        assert_applied(hello_as(&ghost, e, count + 1, "worker"));
        r = fc_call(&ghost, PS_OP_CREATE, PS_FLAG_MORE, 1, 0, NULL, 0, items);
        fc_cut(&ghost);
    }
    assert_reply(r, PS_RESOURCE_EXHAUSTED, "lists of waiting requests");
    shell_pass(&e->net, PS_LEASE_MS - 100);
    assert_applied(fc_beat(&e->c, -1, NULL));
    shell_pass(&e->net, 200);
    assert_int_equal(fc_call(&e->c, PS_OP_CREATE, PS_FLAG_MORE, 1000, 0, NULL, 0, items).status, FC_NONE);
    assert_in_range(known(e), count - 3, count);
}

/* ---- readers that do not read ---- */

static void two_copies(struct psd_task_config *config)
{
    config->memory_budget_bytes = 3 * psd_arena_bytes(N * 4) + TEST_RECORDS_BYTES; /* with the value */
}

/* Beats keep it alive, but what it does not take for a lease is dropped with its connection. A byte now and then is enough to
 * stay. */
TEST(test_readers_that_do_not_read)
{
    struct fc stuck[2];
    ps_v1_CreateItem m;
    ps_v1_OpenAnswer v;
    struct env *e = env_new(two_copies);
    struct wire *w = wire_new();
    fc_create_item(&m, "v", PS_F32, N, ps_sgd(1));
    m.atomic = true;
    assert_int_equal(fc_create(&e->c, &m, NULL), PS_OK);
    assert_int_equal(fc_open(&e->c, "v", &v), PS_OK);
    assert_applied(fc_init_var(&e->c, v.handle, &(ps_initializer){.kind = PS_INIT_ZEROS}, ps_sgd(1), 0, false));
    struct ps_pull_meta pull = {.elements = N};
    struct wire_frame f = {
        .op = PS_OP_PULL, .dtype = PS_F32, .id = 1, .handle = v.handle, .meta = &pull, .meta_bytes = sizeof(pull)};
    PSI_IGNORE(wire_frame(w, &f)); /* where it begins */
    for (uint32_t i = 0; i < 2; i++) {
        assert_applied(hello_as(&stuck[i], e, i + 1, "worker"));
        stuck[i].conn->stuck = true;
        shell_send(stuck[i].conn, w);
    }
    wire_clear(w);
    fc_frame(&e->c, w, PS_OP_BEAT, 0, 2, 0, NULL, 0, NULL);
    for (uint64_t ms = 0; ms < PS_LEASE_MS - 500; ms += 500) {
        assert_reply(fc_pull(&e->c, &v, 0, N, values), PS_RESOURCE_EXHAUSTED, "no room to copy");
        shell_pass(&e->net, 500);
        shell_send(stuck[0].conn, w);
        shell_send(stuck[1].conn, w);
        assert_false(shell_is_closed(stuck[0].conn));
        psi_outq_held_left(&stuck[1].conn->core->out, stuck[1].conn->core->out.hold_bytes - 1 - ms / 500);
    }
    shell_pass(&e->net, 600);
    assert_true(shell_is_closed(stuck[0].conn));
    assert_true(shell_logged(e->t, "peer_stuck"));
    assert_false(shell_is_closed(stuck[1].conn));
    assert_applied(fc_pull(&e->c, &v, 0, N, values));
    shell_unstick(stuck[1].conn);
    assert_applied(fc_take(&stuck[1], NULL));
    again(&stuck[0], 0);
}
