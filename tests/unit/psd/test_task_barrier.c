/* SPDX-License-Identifier: Apache-2.0 */
/* BARRIER at the directory: who counts, what releases it, what its waiters are told. */
#include "cluster_test.h"

enum { WORKERS_MAX = 4, ID = 900 };

static struct fc *connect_in(struct fc *c, const char *container, const char *job, uint32_t task)
{
    struct fc_hello hello;
    fc_hello_default(c, &hello);
    PSI_IGNORE(PSI_BYTES_SET(hello.m.container, container)); /* fits */
    PSI_IGNORE(PSI_BYTES_SET(hello.m.job, job));             /* fits */
    PSI_IGNORE(PSI_BYTES_SET(hello.m.host, "here"));         /* fits */
    PSI_IGNORE(PSI_BYTES_SET(hello.m.program, "trainer"));   /* fits */
    hello.m.task = task;
    hello.m.pid = 4000 + task;
    assert_int_equal(fc_hello(c, &hello), PS_OK);
    return c;
}

static struct fc *connect_as(struct fc *c, const char *job, uint32_t task)
{
    return connect_in(c, "", job, task);
}

/* A worker of another program, whose default container is "two". */
static struct fc *stranger(struct shell_task *t, uint8_t id, uint32_t task)
{
    struct fc *c = test_alloc(sizeof(*c));
    fc_init(c, t, id);
    return connect_in(c, "two", "worker", task);
}

static struct fc *worker(struct shell_task *t, uint8_t id, uint32_t task)
{
    struct fc *c = test_alloc(sizeof(*c));
    fc_init(c, t, id);
    return connect_as(c, "worker", task);
}

static struct fc_reply arrive_within(struct fc *c, uint64_t id, const char *container, const char *name, uint32_t count,
                                     uint64_t timeout_ms)
{
    struct wire body;
    ps_v1_Barrier m = {.timeout_ms = timeout_ms, .count = count};
    ps_v1_NameItem item = ps_v1_NameItem_init_zero;
    _Alignas(8) uint8_t meta[64] = {0};
    size_t bytes = 0;
    assert_int_equal(psi_msg_encode(&ps_v1_Barrier_msg, &m, meta, sizeof(meta), &bytes, NULL), PS_OK);
    PSI_IGNORE(PSI_BYTES_SET(item.container, container)); /* fits */
    PSI_IGNORE(PSI_BYTES_SET(item.name, name));           /* fits */
    wire_init(&body);
    wire_item(&body, &ps_v1_NameItem_msg, &item);
    struct fc_reply r = fc_call(c, PS_OP_BARRIER, 0, id, 0, meta, psi_pad8((uint32_t)bytes), &body);
    wire_fini(&body);
    return r;
}

static struct fc_reply arrive(struct fc *c, uint64_t id, uint32_t count)
{
    return arrive_within(c, id, "", "epoch", count, 0);
}

static void assert_waits(struct fc_reply r)
{
    assert_int_equal(r.status, FC_NONE);
}

static void assert_still(struct fc *c)
{
    assert_int_equal(fc_take(c, NULL).status, FC_NONE);
}

static void assert_released(struct fc *c, uint64_t id)
{
    struct fc_reply r = fc_take(c, NULL);
    assert_applied(r);
    assert_true(r.h.op == PS_OP_BARRIER && r.h.id == id);
}

static void goodbye(struct fc *c)
{
    assert_applied(fc_call(c, PS_OP_GOODBYE, 0, c->next_id++, 0, NULL, 0, NULL));
}

/* Time passes; these say BEAT, so that their leases go on. */
static void pass(struct env *e, uint64_t ms, struct fc *const *alive, size_t count)
{
    for (uint64_t at = 0; at < ms; at += 1000) {
        for (size_t i = 0; i < count; i++) {
            assert_applied(fc_beat(alive[i], -1, NULL));
        }
        shell_pass(&e->net, ms - at < 1000 ? ms - at : 1000);
    }
}

/* ---- a count ---- */

/* The last of three releases all, then the name is free: three more rounds, other counts among them. */
TEST(test_count)
{
    struct env *e = env_new(NULL);
    struct fc *w[3] = {worker(e->t, 2, 0), worker(e->t, 3, 1), worker(e->t, 4, 2)};
    for (uint32_t round = 0; round < 4; round++) {
        uint64_t id = ID + round;
        uint32_t count = round == 2 ? 2 : 3;
        for (uint32_t i = 0; i + 1 < count; i++) {
            assert_waits(arrive(w[i], id, count));
        }
        for (uint32_t i = 0; i < 3; i++) {
            assert_still(w[i]);
        }
        assert_applied(arrive(w[count - 1], id, count));
        for (uint32_t i = 0; i + 1 < count; i++) {
            assert_released(w[i], id);
        }
    }
    assert_applied(arrive(w[0], ID + 9, 1)); /* it waits for nobody else */
}

/* Each arrival of a session counts, as its threads do. */
TEST(test_threads_of_one_session)
{
    struct env *e = env_new(NULL);
    struct fc *w = worker(e->t, 2, 0), *other = worker(e->t, 3, 1);
    assert_waits(arrive(w, ID, 3));
    assert_waits(arrive(w, ID + 1, 3));
    assert_applied(arrive(other, ID, 3));
    assert_released(w, ID);
    assert_released(w, ID + 1);
}

/* Names are those of their container. */
TEST(test_names_apart)
{
    struct env *e = env_new(NULL);
    struct fc *w = worker(e->t, 2, 0), *other = worker(e->t, 3, 1);
    assert_waits(arrive_within(w, ID, "", "a", 2, 0));
    assert_waits(arrive_within(other, ID, "", "b", 2, 0));
    assert_waits(arrive_within(other, ID + 1, "box", "a", 2, 0));
    assert_applied(arrive_within(other, ID + 2, "localhost", "a", 2, 0)); /* "" is that */
    assert_released(w, ID);
    assert_applied(arrive_within(w, ID + 1, "box", "a", 2, 0));
    assert_released(other, ID + 1);
    assert_reply(arrive_within(w, ID + 2, "", "a b", 2, 0), PS_INVALID_ARGUMENT, "name");
}

TEST(test_other_count)
{
    struct env *e = env_new(NULL);
    struct fc *w[3] = {worker(e->t, 2, 0), worker(e->t, 3, 1), worker(e->t, 4, 2)};
    assert_waits(arrive(w[0], ID, 2));
    assert_reply(arrive(w[1], ID, 3), PS_INVALID_ARGUMENT, "wait for 3, and who has come before waits there for 2");
    assert_reply(arrive(w[1], ID + 1, 0), PS_INVALID_ARGUMENT, "wait for all workers, and who has come before waits there for 2");
    assert_still(w[0]);
    goodbye(w[0]); /* nobody waits there: another count is right */
    assert_waits(arrive(w[1], ID + 2, 0));
    assert_reply(arrive(w[2], ID, 2), PS_INVALID_ARGUMENT, "wait for 2, and who has come before waits there for all workers");
    assert_applied(arrive(w[2], ID + 1, 0));
    assert_released(w[1], ID + 2);
}

/* Who gives up, by ACK, deadline, GOODBYE or the end of his lease, does not count any more. */
TEST(test_who_leaves_does_not_count)
{
    struct env *e = env_new(NULL);
    struct fc *w[4] = {worker(e->t, 2, 0), worker(e->t, 3, 1), worker(e->t, 4, 2), worker(e->t, 5, 3)};
    assert_waits(arrive(w[0], ID, 3));
    assert_waits(arrive(w[1], ID, 3));
    fc_ack(w[1], ID);
    assert_waits(arrive_within(w[2], ID, "", "epoch", 3, 1500)); /* it would be the third */
    shell_pass(&e->net, 2000);
    assert_reply(fc_take(w[2], NULL), PS_DEADLINE_EXCEEDED, "2 of 3 have come");
    assert_waits(arrive(w[2], ID + 1, 3));
    goodbye(w[2]);
    assert_waits(arrive(w[1], ID + 1, 3));
    fc_cut(w[1]);
    pass(e, PS_LEASE_MS + 1000, (struct fc *const[]){w[0], w[3]}, 2);
    assert_waits(arrive(w[3], ID, 3)); /* only the first one is still there */
    struct fc *last = worker(e->t, 6, 2);
    assert_applied(arrive(last, ID, 3));
    assert_released(w[0], ID);
    assert_released(w[3], ID);
}

/* Within its lease a client joins its own arrival, which counts once, and finds its release. After it, it is told. */
TEST(test_reconnect)
{
    struct env *e = env_new(NULL);
    struct fc *w = worker(e->t, 2, 0), *other = worker(e->t, 3, 1);
    assert_waits(arrive(w, ID, 2));
    fc_cut(w);
    connect_as(w, "worker", 0);
    assert_waits(arrive(w, ID, 2)); /* the same number */
    fc_cut(w);
    assert_applied(arrive(other, ID, 2));
    pass(e, 2 * PS_LEASE_MS, &other, 1);
    connect_as(w, "worker", 0);
    assert_applied(arrive(w, ID, 2)); /* kept */
    fc_ack(w, ID);
    assert_waits(arrive(w, ID + 1, 2));
    fc_cut(w);
    pass(e, PS_LEASE_MS + 1000, &other, 1);
    connect_as(w, "worker", 0);
    struct fc_reply r = arrive(w, ID + 1, 2);
    assert_reply(r, PS_ABORTED, "lease of this session");
    assert_int_equal(r.applied, PS_NOTHING_APPLIED);
}

/* A worker that was killed and started again comes as another session: its first arrival does not count beside the second. */
TEST(test_process_replaced)
{
    struct env *e = env_new(NULL);
    struct fc *killed = worker(e->t, 2, 0), *other = worker(e->t, 3, 1);
    assert_waits(arrive(killed, ID, 2));
    fc_cut(killed);
    struct fc *again = worker(e->t, 4, 0);
    assert_waits(arrive(again, ID, 2));
    assert_applied(arrive(other, ID, 2));
    assert_released(again, ID);
    /* it was only away, beside another session of its process: when that one ends, it counts again */
    assert_waits(arrive(other, ID + 1, 2));
    fc_cut(other);
    struct fc *beside = worker(e->t, 5, 1);
    assert_waits(arrive(again, ID + 1, 2));
    goodbye(beside);
    assert_released(again, ID + 1);
}

/* A worker of another program with the number of one that is away for a moment is not its successor. */
TEST(test_process_of_another_program)
{
    struct env *e = env_new(NULL);
    struct fc *away = worker(e->t, 2, 0), *other = worker(e->t, 3, 1);
    assert_waits(arrive(away, ID, 2));
    fc_cut(away);
    stranger(e->t, 4, 0);
    assert_applied(arrive(other, ID, 2));
}

/* ---- all workers ---- */

/* Those of the program that waits: the workers of another one never come. Which program that is the first worker says who waits.
 */
TEST(test_all_workers_of_a_program)
{
    struct env *e = env_new(NULL);
    struct fc *w[2] = {worker(e->t, 2, 0), worker(e->t, 3, 1)};
    struct fc *others[2] = {stranger(e->t, 4, 0), stranger(e->t, 5, 1)};
    struct fc *visitor = test_alloc(sizeof(*visitor));
    fc_init(visitor, e->t, 9);
    connect_in(visitor, "three", "evaluator", 0);
    assert_waits(arrive(visitor, ID, 0)); /* there is no worker of its program, and it waits all the same for one to come */
    assert_waits(arrive(w[0], ID, 0));
    assert_applied(arrive(w[1], ID, 0));
    assert_released(w[0], ID);
    assert_released(visitor, ID);
    assert_waits(arrive(others[0], ID, 0));
    assert_waits(arrive(w[0], ID + 1, 0)); /* waits with them */
    assert_applied(arrive(others[1], ID, 0));
    assert_released(others[0], ID);
    assert_released(w[0], ID + 1);
    /* the one whose program counts gives up: the other program's workers have all come */
    assert_waits(arrive_within(w[0], ID + 2, "", "epoch", 0, 500));
    assert_waits(arrive(others[0], ID + 1, 0));
    assert_waits(arrive(others[1], ID + 1, 0));
    shell_pass(&e->net, 1000);
    assert_reply(fc_take(w[0], NULL), PS_DEADLINE_EXCEEDED, "1 of 2 have come");
    assert_released(others[0], ID + 1);
    assert_released(others[1], ID + 1);
}

TEST(test_all_workers)
{
    struct env *e = env_new(NULL);
    struct fc *w[3] = {worker(e->t, 2, 0), worker(e->t, 3, 1), worker(e->t, 4, 7)}; /* also one that nobody listed */
    struct fc *visitor = test_alloc(sizeof(*visitor));
    fc_init(visitor, e->t, 9);
    connect_as(visitor, "evaluator", 0);
    assert_waits(arrive(visitor, ID, 0)); /* it waits with them, and is not waited for */
    assert_waits(arrive(w[0], ID, 0));
    assert_waits(arrive(w[0], ID + 1, 0)); /* a session counts once */
    assert_waits(arrive(w[1], ID, 0));
    assert_applied(arrive(w[2], ID, 0));
    assert_released(visitor, ID);
    assert_released(w[0], ID);
    assert_released(w[0], ID + 1);
    assert_released(w[1], ID);
    /* one opens its session meanwhile: it is waited for as well */
    assert_waits(arrive(w[0], ID + 2, 0));
    assert_waits(arrive(w[1], ID + 2, 0));
    struct fc *late = worker(e->t, 5, 8);
    assert_waits(arrive(w[2], ID + 2, 0));
    assert_applied(arrive(late, ID + 2, 0));
    assert_released(w[2], ID + 2);
}

/* The last of those that are missing ends: GOODBYE at once, a process that was killed after its lease. */
TEST(test_all_workers_but_one_that_ends)
{
    struct env *e = env_new(NULL);
    struct fc *w[3] = {worker(e->t, 2, 0), worker(e->t, 3, 1), worker(e->t, 4, 2)};
    assert_waits(arrive(w[0], ID, 0));
    assert_waits(arrive(w[1], ID, 0));
    goodbye(w[2]);
    assert_released(w[0], ID);
    assert_released(w[1], ID);
    assert_waits(arrive(w[0], ID + 1, 0));
    fc_cut(w[1]);
    shell_pass(&e->net, 1000);
    pass(e, PS_LEASE_MS - 2000, w, 1);
    assert_still(w[0]);
    shell_pass(&e->net, 2000);
    assert_released(w[0], ID + 1);
}

/* A worker that has not come says HELLO again: it is none for a moment in that, which releases nobody. */
TEST(test_hello_again_releases_nobody)
{
    struct env *e = env_new(NULL);
    struct fc *w = worker(e->t, 2, 0), *other = worker(e->t, 3, 1);
    assert_waits(arrive(w, ID, 0));
    fc_cut(other);
    assert_still(w);
    connect_as(other, "worker", 1);
    assert_still(w);
    fc_cut(w); /* and one that has come stays */
    connect_as(w, "worker", 0);
    assert_applied(arrive(other, ID, 0));
    assert_applied(arrive(w, ID, 0));
}

/* Nobody of job worker is there: whoever comes waits for nobody. */
TEST(test_no_workers)
{
    struct env *e = env_new(NULL);
    assert_applied(arrive(&e->c, ID, 0));
}

/* ---- in words ---- */

static const char *text_of(const pb_bytes_array_t *field)
{
    static char text[512];
    assert_int_equal(psi_bytes_text(field, text, sizeof(text)), PS_OK);
    return text;
}
#define TEXT(field) text_of((const pb_bytes_array_t *)(const void *)&(field))

static ps_v1_WaitAnswer the_wait(struct fc *c)
{
    ps_v1_WaitAnswer a;
    struct wire *out = wire_new();
    assert_applied(fc_list(c, PS_OP_WAITS, NULL, NULL, out));
    const uint8_t *p = out->data;
    size_t n = out->len;
    assert_true(fc_item(&p, &n, &ps_v1_WaitAnswer_msg, &a));
    return a;
}

/* Workers are listed: who holds a lease, and who does not. */
TEST(test_who_is_missing)
{
    struct env *e = test_alloc(sizeof(*e));
    ps_status st = PS_OK;
    shell_net_init(&e->net);
    e->t = shell_task_new(&e->net, "ps=10.0.0.1:1;worker=a:1,a:2,a:3,a:4", "ps", 0, 1, START_MS, NULL, &st);
    assert_int_equal(st, PS_OK);
    struct fc *w[2] = {worker(e->t, 2, 0), worker(e->t, 3, 2)};
    assert_waits(arrive_within(w[0], ID, "", "epoch", 4, 1000));
    ps_v1_WaitAnswer a = the_wait(w[1]);
    assert_int_equal(a.op, PS_OP_BARRIER);
    assert_string_equal(TEXT(a.what), "barrier epoch: 1 of 4 have come");
    assert_string_equal(TEXT(a.release),
                        "/job:worker/task:2 to come; /job:worker/task:1, /job:worker/task:3 to open a session and come");
    shell_pass(&e->net, 1200);
    struct fc_reply r = fc_take(w[0], NULL);
    assert_reply(r, PS_DEADLINE_EXCEEDED,
                 "1 of 4 have come, as seen at /job:ps/task:0; not yet: /job:worker/task:2; without a session: "
                 "/job:worker/task:1, /job:worker/task:3");
    assert_int_equal(r.reason, PS_REASON_NOT_READY);
    /* for all of them: those who hold a lease */
    assert_waits(arrive_within(w[0], ID + 1, "", "epoch", 0, 1000));
    a = the_wait(w[1]);
    assert_string_equal(TEXT(a.what), "barrier epoch: 1 of 2 have come");
    assert_string_equal(TEXT(a.release), "/job:worker/task:2@here:4002 to come");
    shell_pass(&e->net, 1200);
    assert_reply(fc_take(w[0], NULL), PS_DEADLINE_EXCEEDED,
                 "1 of 2 have come, as seen at /job:ps/task:0; not yet: "
                 "/job:worker/task:2@here:4002");
    shell_net_fini(&e->net);
}

/* Nobody is listed: who has come. */
TEST(test_who_has_come)
{
    struct env *e = env_new(NULL);
    struct fc *w[2] = {worker(e->t, 2, 0), worker(e->t, 3, 5)};
    assert_waits(arrive_within(w[0], ID, "", "epoch", 3, 2000));
    assert_waits(arrive_within(w[1], ID, "", "epoch", 3, 60000));
    ps_v1_WaitAnswer a = the_wait(&e->c);
    assert_string_equal(TEXT(a.what), "barrier epoch: 2 of 3 have come");
    assert_string_equal(TEXT(a.release), "1 more come to it");
    shell_pass(&e->net, 2200);
    assert_reply(fc_take(w[0], NULL), PS_DEADLINE_EXCEEDED,
                 "2 of 3 have come, as seen at /job:ps/task:0: /job:worker/task:0@here:4000, /job:worker/task:5@here:4005");
}

/* What barriers take is of the budget for lists, and comes back. */
static void little_memory(struct psd_task_config *config)
{
    config->memory_budget_bytes = 1 << 20;
}

TEST(test_memory)
{
    enum { SESSIONS = 1, EACH = PS_WAITS_PER_SESSION_MAX };
    struct env *e = env_new(little_memory);
    struct fc *w[SESSIONS];
    char name[32];
    for (uint32_t i = 0; i < SESSIONS; i++) {
        w[i] = worker(e->t, (uint8_t)(i + 2), i);
        for (uint32_t k = 0; k < EACH; k++) {
            PSI_IGNORE(snprintf(name, sizeof(name), "b%u", i * EACH + k)); /* fits */
            assert_waits(arrive_within(w[i], ID + k, "", name, 2, 0));
        }
        assert_reply(arrive_within(w[i], ID + EACH, "", "more", 2, 0), PS_RESOURCE_EXHAUSTED, "waiting requests");
    }
    for (uint32_t i = 0; i < SESSIONS; i++) {
        goodbye(w[i]);
    }
    psd_task_check_invariants(e->t->core); /* counts the bytes */
}
