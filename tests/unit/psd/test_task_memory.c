/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory at a task: a script over nearly all requests, run again and again with its n-th allocation failing (n = 0, 1, 2, ...).
 * Whatever fails, the right status comes or the connection is closed, nothing leaks (the sanitizer tells), the invariants hold
 * (the shell checks them after each event), each push counts once, and the same calls work when they are repeated. And: no
 * allocation in steady state.
 */
#include "cluster_test.h"

#include "common/mem.h"
#include "psd/session/wait.h"

enum { N = 40000 };

static float values[N];

/* A session is connected; the one allocation that fails may hit this twice at most. */
static void ensure(struct fc *c)
{
    for (int i = 0; c->conn == NULL || shell_is_closed(c->conn); i++) {
        assert_in_range(i, 0, 2);
        ps_status st = fc_connect(c);
        if (st != PS_OK) {
            assert_true(st == FC_NONE || st == PS_RESOURCE_EXHAUSTED);
            if (c->conn != NULL && !shell_is_closed(c->conn)) {
                shell_cut(c->conn);
            }
        }
        c->next_id++;
    }
    shell_forget(c->conn);
}

/* What an operation may end with when memory fails. */
static bool harmless(ps_status st)
{
    return st == FC_NONE || st == PS_RESOURCE_EXHAUSTED || st == PS_UNAVAILABLE;
}

/* Repeat `call` until it is OK. Only one allocation fails, so a few times must do. */
#define MUST(c_, call_)                                                                                                          \
    for (int tries_ = 0;; tries_++) {                                                                                            \
        ensure(c_);                                                                                                              \
        ps_status st_ = (call_);                                                                                                 \
        if (st_ == PS_OK) {                                                                                                      \
            break;                                                                                                               \
        }                                                                                                                        \
        if (!harmless(st_) || tries_ > 3) {                                                                                      \
            fail_msg("%s: status %d", #call_, (int)st_);                                                                         \
        }                                                                                                                        \
        rejoin(cl);                                                                                                              \
    }

/* A task that lost the directory comes back. */
static void rejoin(struct cl *cl)
{
    struct shell_task *all[] = {cl->ps1, cl->w0};
    for (uint32_t i = 0; i < 60; i++) {
        bool dialling = false;
        for (uint32_t k = 0; k < 2; k++) {
            if (all[k]->dials > 0) {
                PSI_IGNORE(shell_dial(all[k], cl->ps0)); /* NULL: it failed for want of memory, and is tried again */
                dialling = true;
            }
        }
        if (!dialling && i > 15) {
            return;
        }
        shell_pass(&cl->net, 100);
    }
    fail_msg("a task never comes to rest");
}

/* A push that counts once whatever happens to its frames and replies. */
static void push_once(struct cl *cl, struct fc *c, uint8_t op, const ps_v1_OpenAnswer *v)
{
    uint64_t number = c->next_number++;
    uint64_t from = 0;
    for (int tries = 0; tries < 5; tries++) {
        if (c->conn == NULL || shell_is_closed(c->conn)) {
            struct fc_hello h;
            fc_hello_default(c, &h);
            h.unresolved[0] = number;
            h.unresolved_count = 1;
            ps_status st = fc_hello(c, &h);
            if (st != PS_OK) {
                assert_true(harmless(st));
                continue;
            }
            assert_int_equal(c->number_items, 1);
            from = 0;
            if (c->numbers[0].state == PS_NUMBER_APPLIED) {
                return;
            }
            if (c->numbers[0].state == PS_NUMBER_REFUSED) {
                assert_int_equal(c->numbers[0].status, PS_RESOURCE_EXHAUSTED);
                assert_int_equal(c->numbers[0].applied, PS_NOTHING_APPLIED);
                number = c->next_number++;
            } else if (c->numbers[0].state == PS_NUMBER_IN_PROGRESS) {
                from = c->numbers[0].offset;
            } else {
                assert_int_equal(c->numbers[0].state, PS_NUMBER_NOT_RECEIVED);
            }
        }
        shell_forget(c->conn);
        struct fc_part whole = {.op = op, .dtype = PS_F32, .handle = v->handle, .total = N, .scale = 1};
        struct wire w;
        wire_init(&w);
        whole.number = number;
        whole.payload = filled(values, N, 1);
        fc_frames(c, &w, &whole, from, SEGMENT);
        c->conn->piece = 50000; /* segments are cut */
        shell_send(c->conn, &w);
        wire_fini(&w);
        struct fc_reply r = {.status = FC_NONE};
        while (c->conn->frame_count > 0) {
            r = fc_take(c, NULL);
        }
        if (r.status == PS_OK && (r.h.flags & PS_FLAG_VALUE) == 0 && !shell_is_closed(c->conn)) {
            return;
        }
        if (r.status == PS_RESOURCE_EXHAUSTED) {
            assert_int_equal(r.applied, PS_NOTHING_APPLIED);
            number = c->next_number++;
        } else {
            assert_true(shell_is_closed(c->conn));
        }
        rejoin(cl);
    }
    fail_msg("a push that never ends");
}

static ps_status pull_all(struct fc *c, const ps_v1_OpenAnswer *v)
{
    return fc_pull(c, v, 0, N, values).status;
}

static ps_status create_at(struct cl *cl, const char *name, const char *job, uint32_t task)
{
    ps_v1_CreateAnswer a;
    return cl_create(cl, name, job, task, false, &a);
}

static ps_status create_big(struct cl *cl, const char *name, uint32_t task)
{
    ps_v1_CreateItem m;
    fc_create_item(&m, name, PS_F32, N, ps_adagrad(1));
    m.task = task;
    return fc_create(&cl->c, &m, NULL);
}

/* Asked again with its number, it joins or gets the kept answer; refused for memory, it is a new request. */
static ps_status ask_again(struct cl *cl, uint8_t op, const char *text)
{
    uint64_t id = cl->c.next_id++;
    for (int i = 0; i < 4; i++) {
        ensure(&cl->c);
        struct fc_reply r = op == PS_OP_DELETE ? fc_delete(&cl->c, id, text) : fc_reset(&cl->c, id, text);
        if (r.status == FC_NONE) {
            rejoin(cl);
            if (cl->c.conn != NULL && !shell_is_closed(cl->c.conn)) {
                r = fc_take(&cl->c, NULL); /* it came meanwhile */
            }
        }
        if (r.status != FC_NONE && !shell_is_closed(cl->c.conn)) {
            fc_ack(&cl->c, id);
        }
        if (r.status == PS_OK || (op == PS_OP_DELETE && r.status == PS_NOT_FOUND && i > 0)) {
            return PS_OK;
        }
        assert_true(harmless(r.status));
        id = r.status == FC_NONE ? id : cl->c.next_id++;
        rejoin(cl);
    }
    return PS_INTERNAL;
}

static ps_status admin(struct fc *c, uint8_t op)
{
    return fc_call(c, op, 0, c->next_id++, 0, NULL, 0, NULL).status;
}

static ps_status wait_all(struct fc *c, const ps_v1_OpenAnswer *v)
{
    uint64_t id = c->next_id++;
    ps_status st = fc_wait(c, id, v->handle, v->creation, 1, 0).status;
    if (st == PS_OK) {
        fc_ack(c, id);
    }
    return st;
}

static void script(struct cl *cl)
{
    ps_v1_OpenAnswer a, b;
    MUST(&cl->c, ask_again(cl, PS_OP_RESET, ""));
    MUST(&cl->c, create_big(cl, "a", 0));
    MUST(&cl->c, create_big(cl, "b", 1));
    MUST(&cl->c, create_at(cl, "s", "ps", 1));
    MUST(&cl->c, fc_open(&cl->c, "a", &a));
    MUST(&cl->at1, fc_open(&cl->at1, "b", &b));
    MUST(&cl->c, fc_init_var(&cl->c, a.handle, ps_zeros(), ps_adagrad(1), 0, false).status);
    MUST(&cl->at1, fc_push(&cl->at1, PS_OP_ASSIGN, &b, filled(values, N, 3), 1, PS_ASSIGN_INIT_ONLY).status);
    for (int i = 0; i < 3; i++) {
        push_once(cl, &cl->c, i == 1 ? PS_OP_PUSHPULL : PS_OP_PUSH, &a);
        push_once(cl, &cl->at1, PS_OP_PUSH, &b);
    }
    MUST(&cl->c, pull_all(&cl->c, &a));
    MUST(&cl->c, wait_all(&cl->c, &a));
    MUST(&cl->c, fc_seal(&cl->c, a.handle, a.creation, 0).status);
    MUST(&cl->c, admin(&cl->c, PS_OP_INFO));
    MUST(&cl->c, admin(&cl->c, PS_OP_VARS));
    MUST(&cl->c, admin(&cl->c, PS_OP_CONFIG));
    MUST(&cl->c, admin(&cl->c, PS_OP_CONTAINERS));
    MUST(&cl->c, admin(&cl->c, PS_OP_TASKS));
    MUST(&cl->c, admin(&cl->c, PS_OP_SESSIONS));
    MUST(&cl->c, admin(&cl->c, PS_OP_WAITS));
    MUST(&cl->c, admin(&cl->c, PS_OP_STOP));
    MUST(&cl->c, admin(&cl->c, PS_OP_BEAT));
    MUST(&cl->c, admin(&cl->c, PS_OP_CHIEF));
    MUST(&cl->at1, fc_push(&cl->at1, PS_OP_PUSH, &b, filled(values, N, -1), 1, 0).status == PS_OK ? PS_OK : FC_NONE);
    MUST(&cl->c, ask_again(cl, PS_OP_DELETE, "s"));
    /* the owner drops out and comes back; its list is taken in */
    struct shell_conn *end = NULL;
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &cl->ps1->conns) {
        struct shell_conn *c = PSI_CONTAINER_OF(it, struct shell_conn, link);
        end = c->peer != NULL ? c : end;
    }
    if (end != NULL) {
        shell_cut(end);
    }
    rejoin(cl);
    MUST(&cl->c, ask_again(cl, PS_OP_RESET, ""));
    MUST(&cl->c, create_big(cl, "a", 1));
    MUST(&cl->at1, fc_open(&cl->at1, "a", &a));
    assert_false(a.initialised);
    ensure(&cl->c);
    PSI_IGNORE(fc_call(&cl->c, PS_OP_GOODBYE, 0, 1, 0, NULL, 0, NULL)); /* closed either way */
    assert_true(shell_is_closed(cl->c.conn));
}

/* The optimizer's values tell how often each push was applied: Adagrad from 0 with accumulator 0.1 and gradient 1. */
static float adagrad_after(int pushes, float from)
{
    float accumulator = 0.1F, v = from;
    for (int i = 0; i < pushes; i++) {
        accumulator += 1;
        v -= 1 / sqrtf(accumulator);
    }
    return v;
}

TEST(test_every_allocation_fails_once)
{
    int64_t n = 0;
    for (bool fired = true; fired; n++) {
        struct cl cl;
        cl_init(&cl);
        psi_mem_fail_after(n);
        script(&cl);
        fired = psi_mem_fail_left() == -1;
        psi_mem_fail_after(-1);
        /* and again, with all the memory of the world */
        script(&cl);
        cl_fini(&cl);
    }
    assert_in_range(n, 100, 5000);
}

TEST(test_pushes_count_once_when_memory_fails)
{
    for (int64_t n = 0; n < 40; n++) {
        struct cl cl;
        ps_v1_OpenAnswer a;
        cl_init(&cl);
        assert_int_equal(create_big(&cl, "a", 0), PS_OK);
        assert_int_equal(fc_open(&cl.c, "a", &a), PS_OK);
        assert_applied(fc_init_var(&cl.c, a.handle, ps_zeros(), ps_adagrad(1), 0, false));
        psi_mem_fail_after(n);
        for (int i = 0; i < 6; i++) {
            push_once(&cl, &cl.c, i % 2 == 0 ? PS_OP_PUSH : PS_OP_PUSHPULL, &a);
        }
        psi_mem_fail_after(-1);
        struct peek p = peek_at(cl.ps0, "a");
        float want = adagrad_after(6, 0);
        for (size_t i = 0; i < N; i++) {
            float got = ((const float *)p.value)[i];
            if (fabsf(got - want) > 1e-4F) {
                fail_msg("allocation %lld: element %zu is %g, expected %g", (long long)n, i, (double)got, (double)want);
            }
        }
        cl_fini(&cl);
    }
}

/* The start of a task: it fails or it works. */
TEST(test_start_without_memory)
{
    for (int64_t n = 0;; n++) {
        struct shell_net net;
        ps_status st = PS_OK;
        shell_net_init(&net);
        psi_mem_fail_after(n);
        struct shell_task *t = shell_task_new(&net, SPEC, "ps", 1, 5, START_MS, NULL, &st);
        bool fired = psi_mem_fail_left() == -1;
        psi_mem_fail_after(-1);
        if (t == NULL) {
            assert_true(fired);
            assert_int_equal(st, PS_RESOURCE_EXHAUSTED);
        } else {
            assert_true(t->ready);
        }
        shell_net_fini(&net);
        if (!fired) {
            break;
        }
    }
}

/* A dial that could not be asked for, and a task that could not say hello, are tried again. */
TEST(test_dial_without_memory)
{
    for (int64_t n = 0; n < 12; n++) {
        struct cl cl;
        cl_start(&cl);
        psi_mem_fail_after(n);
        rejoin(&cl);
        psi_mem_fail_after(-1);
        rejoin(&cl);
        ensure(&cl.c);
        assert_int_equal(cl_create(&cl, "x", "ps", 1, false, NULL), PS_OK);
        assert_int_equal(cl_create(&cl, "y", "worker", 0, true, NULL), PS_OK);
        cl_fini(&cl);
    }
}

/* Two resets wait for a task that dropped out; memory fails while it comes back: they end all the same. */
TEST(test_rejoin_without_memory)
{
    for (int64_t n = 0; n < 60; n++) {
        struct cl cl;
        ps_v1_CreateAnswer a;
        ps_v1_OpenAnswer v;
        cl_start(&cl);
        struct shell_conn *end = cl_join(&cl, cl.ps1);
        for (int i = 0; i < 20; i++) {
            char name[8];
            snprintf(name, sizeof(name), "v%d", i);
            assert_int_equal(cl_create(&cl, name, "ps", 1, false, &a), PS_OK);
        }
        end->frozen = true;
        assert_int_equal(fc_reset(&cl.c, 500, "").status, FC_NONE);
        assert_int_equal(fc_reset(&cl.c, 501, "other").status, FC_NONE);
        shell_cut(end);
        psi_mem_fail_after(n);
        rejoin(&cl);
        psi_mem_fail_after(-1);
        rejoin(&cl);
        ensure(&cl.c);
        assert_applied(fc_reset(&cl.c, 500, "")); /* the kept answers */
        assert_applied(fc_reset(&cl.c, 501, "other"));
        ensure(&cl.at1);
        assert_int_equal(fc_open(&cl.at1, "v7", &v), PS_NOT_FOUND);
        assert_int_equal(fc_find(&cl.c, "v7", &a), PS_NOT_FOUND);
        assert_int_equal(cl_create(&cl, "v7", "ps", 0, false, &a), PS_OK);
        assert_int_equal(a.task, 0);
        cl_fini(&cl);
    }
}

/* A task that comes back after another process had its place has much to drop; memory fails meanwhile: it drops it all the same.
 */
TEST(test_return_without_memory)
{
    for (int64_t n = 0; n < 60; n++) {
        struct cl cl;
        ps_v1_OpenAnswer v;
        cl_init(&cl);
        for (int i = 0; i < 20; i++) {
            char name[8];
            snprintf(name, sizeof(name), "v%d", i);
            assert_int_equal(cl_create(&cl, name, "ps", 1, false, NULL), PS_OK);
        }
        struct shell_task *other = cl_task(&cl, "ps", 1);
        PSI_IGNORE(cl_join(&cl, other)); /* its end is of no use here */
        assert_applied(fc_reset(&cl.c, 500, ""));
        shell_task_free(other);
        psi_mem_fail_after(n);
        rejoin(&cl);
        psi_mem_fail_after(-1);
        rejoin(&cl);
        ensure(&cl.at1);
        assert_int_equal(fc_open(&cl.at1, "v7", &v), PS_NOT_FOUND);
        ensure(&cl.c);
        assert_true(cl_creates(&cl, "v7", "ps", 1, false));
        cl_fini(&cl);
    }
}

/* SHUTDOWN is answered OK only when it happens. */
TEST(test_shutdown_without_memory)
{
    for (int64_t n = 0; n < 6; n++) {
        struct env e;
        env_init(&e, NULL);
        psi_mem_fail_after(n);
        struct fc_reply r = fc_call(&e.c, PS_OP_SHUTDOWN, 0, 1, 0, NULL, 0, NULL);
        psi_mem_fail_after(-1);
        assert_true(r.status == PS_OK || harmless(r.status));
        if (r.status == PS_OK) {
            assert_true(e.t->shutdown);
        }
        env_fini(&e);
    }
}

/* A push, a push-pull, a pull and an add per round: none takes memory after the first rounds, whole or cut. */
TEST(test_no_allocation_in_steady_state)
{
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = fc_ready(&e->c, "v", PS_F32, N, ps_adam(0.1), 0);
    ps_v1_OpenAnswer step = fc_ready(&e->c, "step", PS_I64, 1, ps_no_optimizer(), 0);
    static const size_t pieces[] = {0, 1000, 65536};
    for (size_t i = 0; i < ARRAY_COUNT(pieces); i++) {
        uint64_t before = 0;
        int64_t one = 1;
        e->c.conn->piece = pieces[i];
        e->c.conn->write_most = pieces[i];
        for (int round = 0; round < 12; round++) {
            before = round == 3 ? psi_mem_count() : before;
            assert_applied(fc_push(&e->c, PS_OP_PUSH, &v, filled(values, N, 1), 1, 0));
            assert_applied(fc_push(&e->c, PS_OP_PUSHPULL, &v, values, 1, 0));
            assert_applied(fc_pull(&e->c, &v, 0, N, values));
            assert_applied(fc_push(&e->c, PS_OP_ADD, &step, &one, 1, 0));
        }
        assert_int_equal(psi_mem_count(), before);
    }
}

/* Lists of waiting requests, a few bytes an item on the wire and up to 600 here: all of them have an eighth of the budget, 16 MiB
 * at least; what does not fit is refused and forgotten, and there is room again after ACK, GOODBYE and the answer. */
static void little_memory(struct psd_task_config *config)
{
    config->memory_budget_bytes = 1 << 20;
}

TEST(test_lists_of_waits_are_bounded)
{
    static const uint8_t ops[] = {PS_OP_WAIT, PS_OP_CREATE, PS_OP_WAIT_CLUSTER, PS_OP_SYNC};
    struct wire items[ARRAY_COUNT(ops)];
    ps_v1_NameItem name = ps_v1_NameItem_init_zero;
    ps_v1_HandleItem handle = {.handle = 1, .creation = 1};
    ps_v1_TaskItem task = ps_v1_TaskItem_init_zero;
    ps_v1_CreateItem create;
    uint8_t meta[8] = {0x10, 1}; /* condition = 1 */
    struct env *e = env_new(little_memory);
    ps_v1_OpenAnswer v = fc_ready(&e->c, "v", PS_F32, 1, ps_no_optimizer(), 0);
    PSI_IGNORE(PSI_BYTES_SET(task.job, "nobody")); /* fits, as below */
    PSI_IGNORE(PSI_BYTES_SET(name.name, "v"));
    fc_create_item(&create, "v", PS_F32, 1, ps_no_optimizer());
    for (size_t k = 0; k < ARRAY_COUNT(ops); k++) {
        wire_init(&items[k]);
        while (items[k].len < PS_CONTROL_BODY_MAX / 8) {
            if (k == 0) {
                wire_item(&items[k], &ps_v1_HandleItem_msg, &handle);
            } else if (k == 1) {
                wire_item(&items[k], &ps_v1_CreateItem_msg, &create);
            } else if (k == 2) {
                wire_item(&items[k], &ps_v1_TaskItem_msg, &task);
            } else {
                wire_item(&items[k], &ps_v1_NameItem_msg, &name);
            }
        }
    }
    for (size_t k = 0; k < 2 * ARRAY_COUNT(ops); k++) {
        uint64_t id = 500;
        struct fc_reply r = {.status = FC_NONE};
        uint64_t most = 0;
        for (int frames = 0; r.status == FC_NONE; frames++) {
            assert_in_range(frames, 0, 2000);
            const struct wire *body = &items[k % ARRAY_COUNT(ops)];
            uint32_t meta_bytes = k % ARRAY_COUNT(ops) == 1 ? 0 : sizeof(meta);
            r = fc_call(&e->c, ops[k % ARRAY_COUNT(ops)], PS_FLAG_MORE, id, 0, meta, meta_bytes, body);
            id += frames % 3 == 2; /* several at once */
            uint64_t taken = psd_wait_lists_all(e->t->core);
            most = taken > most ? taken : most;
        }
        assert_reply(r, PS_RESOURCE_EXHAUSTED,
                     ops[k % ARRAY_COUNT(ops)] == PS_OP_SYNC ? "no room for its names" : "lists of waiting requests");
        assert_true(r.retry_after_ms > 0 && r.applied == PS_NOTHING_APPLIED);
        assert_in_range(most, 4 << 20, PSD_MEMORY_FREE_BYTES);
        if (k < ARRAY_COUNT(ops)) {
            for (uint64_t i = 500; i <= id; i++) {
                fc_ack(&e->c, i);
            }
        } else {
            assert_applied(fc_call(&e->c, PS_OP_GOODBYE, 0, id + 1, 0, NULL, 0, NULL));
            assert_int_equal(fc_connect(&e->c), PS_OK);
        }
        assert_int_equal(psd_wait_lists_all(e->t->core), 0);
        assert_applied(fc_wait(&e->c, e->c.next_id, v.handle, v.creation, 1, 0)); /* answered: its list is gone before its ACK */
        assert_int_equal(psd_wait_lists_all(e->t->core), PSD_WAIT_BYTES);
        fc_ack(&e->c, e->c.next_id++);
        assert_int_equal(psd_wait_lists_all(e->t->core), 0);
    }
    for (size_t k = 0; k < ARRAY_COUNT(ops); k++) {
        wire_fini(&items[k]);
    }
}
