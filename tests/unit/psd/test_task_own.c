/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Containers of sessions: the key is asked for by whoever names one; nothing of it stays when its session ends, wherever it is,
 * and nothing of a session that lives goes; nothing else that containers have is to be had there.
 */
#include "cluster_test.h"

#include "psd/directory/directory.h"

static const char own_name[] = "session/00112233445566aa";

static void key_of(pb_bytes_array_t *key, uint8_t first)
{
    key->size = PSI_KEY_BYTES;
    memset(key->bytes, first, PSI_KEY_BYTES);
}
#define KEY(field_, first_) key_of((pb_bytes_array_t *)(void *)&(field_), (first_))

/* A new connection whose HELLO says the container, under the key of these bytes; 0: it says none. */
static void hello_own(struct fc *c, uint8_t key)
{
    struct fc_hello hello;
    fc_cut(c);
    fc_hello_default(c, &hello);
    if (key != 0) {
        PSI_IGNORE(PSI_BYTES_SET(hello.m.session_container, own_name)); /* fits */
        KEY(hello.m.key, key);
    }
    assert_int_equal(fc_hello(c, &hello), PS_OK);
}

static ps_status create_at(struct fc *c, const char *container, const char *name, const char *job, uint32_t task, uint8_t key,
                           ps_v1_CreateAnswer *answer)
{
    ps_v1_CreateItem m;
    fc_create_item(&m, name, PS_F32, 100, ps_no_optimizer());
    PSI_IGNORE(PSI_BYTES_SET(m.container, container)); /* fits */
    PSI_IGNORE(PSI_BYTES_SET(m.job, job));             /* fits */
    m.task = task;
    m.pinned = true;
    if (key != 0) {
        KEY(m.key, key);
    }
    return fc_create(c, &m, answer);
}

static ps_status create(struct fc *c, const char *name, uint8_t key)
{
    return create_at(c, own_name, name, "ps", 0, key, NULL);
}

/* OPEN or FIND: the status of its one item. */
static ps_status ask(struct fc *c, uint8_t op, const char *name, uint8_t key, ps_v1_OpenAnswer *out)
{
    struct wire *back = wire_new();
    ps_v1_NameItem m = ps_v1_NameItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(m.container, own_name)); /* fits */
    PSI_IGNORE(PSI_BYTES_SET(m.name, name));          /* fits */
    if (key != 0) {
        KEY(m.key, key);
    }
    assert_applied(fc_list(c, op, &ps_v1_NameItem_msg, &m, back));
    const uint8_t *p = back->data;
    size_t n = back->len;
    if (op == PS_OP_OPEN) {
        assert_true(fc_item(&p, &n, &ps_v1_OpenAnswer_msg, out));
        return (ps_status)out->status;
    }
    ps_v1_CreateAnswer a;
    assert_true(fc_item(&p, &n, &ps_v1_CreateAnswer_msg, &a));
    return (ps_status)a.status;
}

static void assert_nothing_left(const struct shell_task *t)
{
    if (psi_map_count(&t->core->store.containers) != 0) {
        fail_msg("%s still has %u containers, of sessions or not, with %u variables: %s", t->core->name,
                 psi_map_count(&t->core->store.containers), t->core->store.variable_count, t->log);
    }
    assert_int_equal(t->core->store.variable_count, 0);
    assert_int_equal(psd_task_memory_bytes(t->core), 0);
    assert_int_equal(t->core->names.of_sessions, 0);
    assert_int_equal(psi_map_count(&t->core->names.names), 0);
    assert_true(psi_list_empty(&t->core->resets.all));
    assert_int_equal(t->core->store.counted[PSD_MEMORY_CONTAINERS], 0);
    assert_int_equal(t->core->store.counted[PSD_MEMORY_NAMES], 0);
}

TEST(test_the_key_is_asked_for)
{
    struct env *e = env_new(NULL);
    struct fc *other = fc_new(e->t, 2);
    ps_v1_OpenAnswer v;
    ps_v1_CreateAnswer a;
    assert_int_equal(create(&e->c, "v", 7), PS_PERMISSION_DENIED); /* no session has said this container */
    hello_own(&e->c, 7);
    assert_int_equal(create(&e->c, "v", 0), PS_PERMISSION_DENIED);
    assert_int_equal(create(&e->c, "v", 8), PS_PERMISSION_DENIED);
    assert_nothing_left(e->t);
    assert_int_equal(create(&e->c, "v", 7), PS_OK);
    assert_int_equal(create(other, "w", 7), PS_OK); /* who executes for it */
    assert_int_equal(create_at(other, own_name, "w", "ps", 0, 8, &a), PS_PERMISSION_DENIED);
    assert_true(says(&a, own_name) && says(&a, "belongs to a session"));
    hello_own(other, 8); /* another session says the same name */
    assert_int_equal(create(other, "x", 8), PS_PERMISSION_DENIED);
    const uint8_t ops[] = {PS_OP_OPEN, PS_OP_FIND};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(ask(other, ops[i], "v", 0, &v), PS_PERMISSION_DENIED);
        assert_int_equal(ask(other, ops[i], "v", 8, &v), PS_PERMISSION_DENIED);
        assert_int_equal(ask(other, ops[i], "v", 7, &v), PS_OK);
        assert_int_equal(ask(other, ops[i], "none", 0, &v), PS_PERMISSION_DENIED); /* what is there is not said either */
        assert_int_equal(ask(other, ops[i], "none", 7, &v), PS_NOT_FOUND);
    }
    ps_v1_NameItem m = ps_v1_NameItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(m.container, own_name)); /* fits */
    PSI_IGNORE(PSI_BYTES_SET(m.name, "v"));           /* fits */
    assert_reply(fc_list(other, PS_OP_DELETE, &ps_v1_NameItem_msg, &m, NULL), PS_PERMISSION_DENIED, own_name);
    assert_int_equal(e->t->core->store.variable_count, 2);
}

TEST(test_names_that_no_session_has)
{
    static const char *const names[] = {"session/x", "session/00112233445566AA", "session/00112233445566aa0", "session/a/b"};
    struct env *e = env_new(NULL);
    ps_v1_CreateAnswer a;
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        assert_int_equal(create_at(&e->c, names[i], "v", "ps", 0, 7, &a), PS_INVALID_ARGUMENT);
        assert_true(says(&a, names[i]) && says(&a, "16 digits 0-9a-f"));
    }
    assert_int_equal(create_at(&e->c, "sessions/x", "v", "ps", 0, 0, NULL), PS_OK); /* any other name is free */
}

/* GOODBYE, and a lease without a word: the next tick takes all away. */
TEST(test_it_ends_with_its_session)
{
    struct env *e = env_new(NULL);
    for (int goodbye = 0; goodbye < 2; goodbye++) {
        struct fc *c = fc_new(e->t, (uint8_t)(3 + goodbye));
        ps_v1_OpenAnswer v;
        hello_own(c, 7);
        assert_int_equal(create(c, "v", 7), PS_OK);
        assert_int_equal(create(c, "w", 7), PS_OK);
        assert_int_equal(ask(c, PS_OP_OPEN, "v", 7, &v), PS_OK);
        assert_applied(fc_init_var(c, v.handle, ps_constant(1), ps_no_optimizer(), 0, false));
        for (int i = 0; i < 3; i++) { /* as long as it lives */
            shell_pass(&e->net, PS_LEASE_MS / 2);
            assert_applied(fc_beat(c, -1, NULL));
            assert_int_equal(e->t->core->store.variable_count, 2);
        }
        if (goodbye == 1) {
            assert_applied(fc_call(c, PS_OP_GOODBYE, 0, c->next_id++, 0, NULL, 0, NULL));
        } else {
            fc_cut(c);
            shell_pass(&e->net, PS_LEASE_MS - 200);
            assert_int_equal(e->t->core->store.variable_count, 2);
        }
        shell_pass(&e->net, 400);
        assert_nothing_left(e->t);
    }
}

TEST(test_what_is_not_to_be_had_there)
{
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v;
    struct fc_hello hello;
    hello_own(&e->c, 7);
    assert_int_equal(create(&e->c, "v", 7), PS_OK);
    assert_int_equal(ask(&e->c, PS_OP_OPEN, "v", 7, &v), PS_OK);
    assert_applied(fc_init_var(&e->c, v.handle, ps_constant(1), ps_no_optimizer(), 0, false));
    assert_reply(fc_init_var(&e->c, v.handle, ps_constant(1), ps_no_optimizer(), 1, false), PS_INVALID_ARGUMENT,
                 "it has no chief");
    assert_reply(fc_seal(&e->c, v.handle, v.creation, 0), PS_INVALID_ARGUMENT, "it has no seals");
    ps_v1_ContainerItem in = ps_v1_ContainerItem_init_zero;
    ps_v1_NameItem name = ps_v1_NameItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(in.container, own_name));   /* fits */
    PSI_IGNORE(PSI_BYTES_SET(name.container, own_name)); /* fits */
    PSI_IGNORE(PSI_BYTES_SET(name.name, "v"));           /* fits */
    assert_reply(fc_list(&e->c, PS_OP_CHIEF, &ps_v1_ContainerItem_msg, &in, NULL), PS_INVALID_ARGUMENT, "it has no chief");
    assert_reply(fc_list(&e->c, PS_OP_SET_RATE, &ps_v1_ContainerItem_msg, &in, NULL), PS_INVALID_ARGUMENT, "learning rates");
    ps_v1_CreateItem queue = ps_v1_CreateItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(queue.container, own_name)); /* fits */
    PSI_IGNORE(PSI_BYTES_SET(queue.name, "q"));           /* fits */
    PSI_IGNORE(PSI_BYTES_SET(queue.job, "ps"));           /* fits */
    queue.has_queue = true;
    KEY(queue.key, 7);
    assert_int_equal(fc_create(&e->c, &queue, NULL), PS_INVALID_ARGUMENT);
    fc_cut(&e->c);
    fc_hello_default(&e->c, &hello);
    PSI_IGNORE(PSI_BYTES_SET(hello.m.container, own_name)); /* fits */
    assert_int_equal(fc_hello(&e->c, &hello), PS_INVALID_ARGUMENT);
    fc_hello_default(&e->c, &hello);
    PSI_IGNORE(PSI_BYTES_SET(hello.m.session_container, "localhost")); /* fits */
    KEY(hello.m.key, 7);
    assert_int_equal(fc_hello(&e->c, &hello), PS_INVALID_ARGUMENT);
    fc_hello_default(&e->c, &hello);
    PSI_IGNORE(PSI_BYTES_SET(hello.m.session_container, own_name));  /* fits */
    assert_int_equal(fc_hello(&e->c, &hello), PS_PERMISSION_DENIED); /* without a key */
    assert_int_equal(psi_map_count(&e->t->core->chiefs), 0);
}

static struct fc_reply ask_waiting(struct fc *c, uint8_t op, const pb_msgdesc_t *d, const void *meta, const struct wire *body)
{
    _Alignas(8) uint8_t bytes[PS_META_BYTES_MAX] = {0};
    size_t n = 0;
    assert_int_equal(psi_msg_encode(d, meta, bytes, sizeof(bytes), &n, NULL), PS_OK);
    return fc_call(c, op, 0, c->next_id++, 0, bytes, psi_pad8((uint32_t)n), body);
}

/* Requests whose container is no place of values: each is refused, and nothing is made. */
TEST(test_requests_that_are_refused_there)
{
    struct env *e = env_new(NULL);
    hello_own(&e->c, 7);
    assert_int_equal(create(&e->c, "v", 7), PS_OK);
    ps_v1_NameItem name = ps_v1_NameItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(name.container, own_name)); /* fits */
    PSI_IGNORE(PSI_BYTES_SET(name.name, "v"));           /* fits */
    struct wire *of_name = wire_new();
    wire_item(of_name, &ps_v1_NameItem_msg, &name);

    ps_v1_Sync sync = ps_v1_Sync_init_zero;
    sync.has_options = true;
    assert_reply(ask_waiting(&e->c, PS_OP_SYNC, &ps_v1_Sync_msg, &sync, of_name), PS_INVALID_ARGUMENT, "it has no rounds");
    ps_v1_Barrier barrier = {.count = 1}; /* it would be released at once */
    assert_reply(ask_waiting(&e->c, PS_OP_BARRIER, &ps_v1_Barrier_msg, &barrier, of_name), PS_INVALID_ARGUMENT,
                 "it has no barriers");
    assert_int_equal(psi_map_count(&e->t->core->barriers), 0);

    assert_reply(fc_beat_of(&e->c, 5, own_name, NULL), PS_INVALID_ARGUMENT, "it has no global step");
    assert_int_equal(psi_map_count(&e->t->core->steps), 0);
    ps_v1_Beat beat = ps_v1_Beat_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(beat.container, own_name)); /* fits */
    assert_reply(ask_waiting(&e->c, PS_OP_BEAT, &ps_v1_Beat_msg, &beat, NULL), PS_INVALID_ARGUMENT, "it has no chief");

    ps_v1_ContainerItem in = ps_v1_ContainerItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(in.container, own_name)); /* fits */
    struct wire *of_container = wire_new();
    wire_item(of_container, &ps_v1_ContainerItem_msg, &in);
    ps_v1_SetRate rate = {.rate = 0.5};
    assert_reply(ask_waiting(&e->c, PS_OP_SET_RATE, &ps_v1_SetRate_msg, &rate, of_container), PS_INVALID_ARGUMENT,
                 "it has no learning rates");
    ps_v1_SavedNameItem saved = {.number = 1};
    struct wire *of_saved = wire_new();
    wire_item(of_saved, &ps_v1_SavedNameItem_msg, &saved);
    wire_item(of_saved, &ps_v1_ContainerItem_msg, &in);
    ps_v1_Wait wait = {.timeout_ms = 1000};
    assert_reply(ask_waiting(&e->c, PS_OP_CHECKPOINT_RESTORE, &ps_v1_Wait_msg, &wait, of_saved), PS_INVALID_ARGUMENT,
                 "it has no checkpoints");
    assert_int_equal(e->t->core->store.variable_count, 1);
}

static void look_at_two(struct psd_task_config *config)
{
    config->tick_looks = 2;
}

/* A tick looks at so many containers of sessions, in turn, and at no other container. */
TEST(test_a_tick_looks_at_a_few)
{
    enum { SESSIONS = 7, OTHERS = 50 };
    struct env *e = env_new(look_at_two);
    struct psd_task *t = e->t->core;
    struct psi_list *it = NULL;
    char text[32];
    for (int i = 0; i < OTHERS; i++) {
        PSI_IGNORE(snprintf(text, sizeof(text), "other%d", i)); /* fits */
        assert_int_equal(create_at(&e->c, text, "v", "ps", 0, 0, NULL), PS_OK);
    }
    for (unsigned i = 0; i < SESSIONS; i++) {
        struct fc *c = fc_new(e->t, (uint8_t)(10 + i));
        struct fc_hello hello;
        PSI_IGNORE(snprintf(text, sizeof(text), "session/00000000000000%02x", i)); /* fits */
        fc_cut(c);
        fc_hello_default(c, &hello);
        PSI_IGNORE(PSI_BYTES_SET(hello.m.session_container, text)); /* fits */
        KEY(hello.m.key, 7);
        assert_int_equal(fc_hello(c, &hello), PS_OK);
        assert_int_equal(create_at(c, text, "v", "ps", 0, 7, NULL), PS_OK);
        assert_applied(fc_call(c, PS_OP_GOODBYE, 0, c->next_id++, 0, NULL, 0, NULL));
    }
    uint32_t listed = 0;
    PSI_LIST_FOREACH(it, &t->names.sessions) {
        listed++;
    }
    assert_int_equal(listed, SESSIONS); /* of OTHERS + SESSIONS containers */
    for (uint32_t left = SESSIONS; left > 0; left = t->names.of_sessions) {
        psd_own_tick(t);
        assert_int_equal(t->names.of_sessions, left > 2 ? left - 2 : 0);
    }
    assert_int_equal(t->store.variable_count, OTHERS);
    psd_task_check_invariants(t);
}

/* Its variables are deleted, as a plan does that is freed: with the last one the container is gone, and another can be made. */
TEST(test_the_last_deletion_takes_the_container)
{
    static const char *const names[] = {"a", "b"};
    struct env *e = env_new(NULL);
    hello_own(&e->c, 7);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 2; i++) {
            assert_int_equal(create(&e->c, names[i], 7), PS_OK);
        }
        for (int i = 0; i < 2; i++) {
            assert_int_equal(e->t->core->names.of_sessions, 1);
            ps_v1_NameItem m = ps_v1_NameItem_init_zero;
            PSI_IGNORE(PSI_BYTES_SET(m.container, own_name)); /* fits */
            PSI_IGNORE(PSI_BYTES_SET(m.name, names[i]));      /* fits */
            KEY(m.key, 7);
            assert_applied(fc_list(&e->c, PS_OP_DELETE, &ps_v1_NameItem_msg, &m, NULL));
        }
        assert_nothing_left(e->t);
    }
}

/* A handle is a number, which anybody can guess: without the key it is of no use, whatever is asked. */
TEST(test_handles_need_the_key_that_was_shown)
{
    struct env *e = env_new(NULL);
    struct fc *thief = fc_new(e->t, 2), *executor = fc_new(e->t, 3);
    ps_v1_OpenAnswer v;
    float x[100];
    hello_own(&e->c, 7);
    assert_int_equal(create(&e->c, "v", 7), PS_OK);
    assert_reply(fc_init_var(&e->c, 1, ps_constant(1), ps_no_optimizer(), 0, false), PS_PERMISSION_DENIED, own_name);
    assert_int_equal(ask(&e->c, PS_OP_OPEN, "v", 7, &v), PS_OK);
    assert_int_equal(v.handle, 1);
    assert_applied(fc_init_var(&e->c, v.handle, ps_constant(1), ps_no_optimizer(), 0, false));
    for (int i = 0; i < 2; i++) {
        ps_v1_OpenAnswer other;
        assert_int_equal(fc_pull(thief, &v, 0, 100, x).status, PS_PERMISSION_DENIED);
        assert_reply(fc_push(thief, PS_OP_ASSIGN, &v, filled(x, 100, 3), 1, 0), PS_PERMISSION_DENIED, own_name);
        assert_reply(fc_init_var(thief, v.handle, ps_constant(2), ps_no_optimizer(), 0, false), PS_PERMISSION_DENIED, own_name);
        assert_reply(fc_seal(thief, v.handle, v.creation, 0), PS_PERMISSION_DENIED, own_name);
        assert_int_equal(ask(thief, PS_OP_OPEN, "v", i == 0 ? 0 : 8, &other), PS_PERMISSION_DENIED); /* of no help */
    }
    ps_v1_HandleItem item = {.handle = v.handle, .creation = v.creation};
    ps_v1_Wait wait = {.timeout_ms = 1000, .condition = PS_WAIT_INITIALISED};
    struct wire *of_handle = wire_new();
    wire_item(of_handle, &ps_v1_HandleItem_msg, &item);
    assert_reply(ask_waiting(thief, PS_OP_WAIT, &ps_v1_Wait_msg, &wait, of_handle), PS_PERMISSION_DENIED, own_name);
    assert_applied(ask_waiting(&e->c, PS_OP_WAIT, &ps_v1_Wait_msg, &wait, of_handle));

    assert_int_equal(ask(executor, PS_OP_OPEN, "v", 7, &v), PS_OK); /* who executes for the session has the key */
    assert_applied(fc_push(executor, PS_OP_ASSIGN, &v, filled(x, 100, 5), 1, 0));
    fc_cut(executor);
    assert_int_equal(fc_connect(executor), PS_OK); /* the session is the same, and has shown it */
    assert_int_equal(fc_pull(executor, &v, 0, 100, x).status, PS_OK);
    assert_floats(x, 0, 100, 5);
    assert_int_equal(fc_pull(&e->c, &v, 0, 100, x).status, PS_OK);
    assert_int_equal(e->t->core->store.shown_count, 2);

    assert_applied(fc_call(executor, PS_OP_GOODBYE, 0, executor->next_id++, 0, NULL, 0, NULL));
    assert_int_equal(e->t->core->store.shown_count, 1);
    assert_applied(fc_call(&e->c, PS_OP_GOODBYE, 0, e->c.next_id++, 0, NULL, 0, NULL));
    shell_pass(&e->net, 400);
    assert_nothing_left(e->t);
    psd_task_check_invariants(e->t->core);
}

/* psctl reset of one. */
TEST(test_an_operator_may_reset_it)
{
    struct env *e = env_new(NULL);
    struct fc *operator_ = fc_new(e->t, 2);
    hello_own(&e->c, 7);
    assert_int_equal(create(&e->c, "v", 7), PS_OK);
    assert_applied(fc_reset(operator_, 900, own_name));
    assert_nothing_left(e->t);
    assert_int_equal(create(&e->c, "v", 7), PS_OK); /* its session goes on */
}

/* ---- several tasks ---- */

static void create_everywhere(struct cl *cl)
{
    hello_own(&cl->c, 7);
    assert_int_equal(create_at(&cl->c, own_name, "a", "ps", 0, 7, NULL), PS_OK);
    assert_int_equal(create_at(&cl->c, own_name, "b", "ps", 1, 7, NULL), PS_OK);
    assert_int_equal(create_at(&cl->c, own_name, "c", "worker", 0, 7, NULL), PS_OK);
}

static void goodbye(struct cl *cl)
{
    assert_applied(fc_call(&cl->c, PS_OP_GOODBYE, 0, cl->c.next_id++, 0, NULL, 0, NULL));
    shell_pass(&cl->net, 400);
}

/* A task of an older release would make what is there for everybody, and save it. */
TEST(test_a_task_that_does_not_know_them)
{
    struct cl *cl = cl_new();
    ps_v1_CreateAnswer a;
    hello_own(&cl->c, 7);
    assert_int_equal(cl->ps0->core->peers[1].features, PS_FEATURES_KNOWN);
    cl->ps0->core->peers[1].features &= ~(uint64_t)PS_FEATURE_SESSION_CONTAINERS; /* as if its HELLO had not said it */
    assert_int_equal(create_at(&cl->c, own_name, "b", "ps", 1, 7, &a), PS_UNIMPLEMENTED);
    assert_true(says(&a, "/job:ps/task:1") && says(&a, "upgrade it") && a.reason == PS_REASON_FEATURE);
    assert_int_equal(psi_map_count(&cl->ps0->core->names.names), 0);
    assert_int_equal(create_at(&cl->c, own_name, "c", "worker", 0, 7, NULL), PS_OK);
    assert_int_equal(create_at(&cl->c, "any", "b", "ps", 1, 0, NULL), PS_OK);
}

TEST(test_it_ends_everywhere)
{
    struct cl *cl = cl_new();
    create_everywhere(cl);
    assert_int_equal(cl->ps1->core->store.variable_count, 1);
    goodbye(cl);
    assert_nothing_left(cl->ps0);
    assert_nothing_left(cl->ps1);
    assert_nothing_left(cl->w0);
}

/* A task that is away holds nothing up, and what it lists when it is back is reset then. */
TEST(test_a_task_that_was_away)
{
    struct cl *cl = cl_new();
    create_everywhere(cl);
    struct psd_peer *p = &cl->ps0->core->peers[1];
    shell_cut(PSI_CONTAINER_OF(cl->ps1->conns.prev, struct shell_conn, link)); /* the link to the directory */
    assert_null(p->conn);
    goodbye(cl);
    assert_nothing_left(cl->ps0);
    assert_nothing_left(cl->w0);
    assert_int_equal(cl->ps1->core->store.variable_count, 1);
    PSI_IGNORE(cl_join(cl, cl->ps1)); /* the connection stays with the tasks */
    shell_pass(&cl->net, PS_LEASE_MS + 4000);
    assert_nothing_left(cl->ps0);
    assert_nothing_left(cl->ps1);
}

/* A directory that was started again gives the session time to come back; what nobody claims goes. */
TEST(test_a_directory_that_was_started_again)
{
    struct cl *cl = cl_new();
    for (int claimed = 0; claimed < 2; claimed++) {
        create_everywhere(cl);
        uint64_t now = cl->ps0->now;
        fc_cut(&cl->c);
        shell_task_free(cl->ps0);
        cl->ps0 = cl_task(cl, "ps", 0);
        cl->ps0->now = now;
        fc_init(&cl->c, cl->ps0, 1);
        PSI_IGNORE(cl_join(cl, cl->ps1)); /* the connection stays with the tasks */
        PSI_IGNORE(cl_join(cl, cl->w0));  /* the connection stays with the tasks */
        shell_pass(&cl->net, PS_LEASE_MS);
        assert_int_equal(cl->ps1->core->store.variable_count, 1);
        assert_int_equal(cl->ps0->core->names.of_sessions, 1);
        if (claimed == 0) {
            hello_own(&cl->c, 7);
            cl_pass(cl, 20000);
            assert_int_equal(cl->ps1->core->store.variable_count, 1);
            ps_v1_OpenAnswer v;
            assert_int_equal(ask(&cl->c, PS_OP_FIND, "b", 8, &v), PS_PERMISSION_DENIED); /* tasks have said the key */
            assert_int_equal(ask(&cl->c, PS_OP_FIND, "b", 7, &v), PS_OK);
            goodbye(cl);
            assert_int_equal(fc_connect(&cl->c), PS_OK);
        } else {
            shell_pass(&cl->net, 4000);
        }
        assert_nothing_left(cl->ps0);
        assert_nothing_left(cl->ps1);
        assert_nothing_left(cl->w0);
    }
}

/* A directory that was started again does not say that there is nothing before it can know. */
TEST(test_a_list_of_another_job_is_waited_for)
{
    struct cl *cl = cl_new();
    ps_v1_OpenAnswer v;
    create_everywhere(cl);
    uint64_t now = cl->ps0->now;
    fc_cut(&cl->c);
    shell_task_free(cl->ps0);
    cl->ps0 = cl_task(cl, "ps", 0);
    cl->ps0->now = now;
    fc_init(&cl->c, cl->ps0, 1);
    PSI_IGNORE(cl_join(cl, cl->ps1)); /* the connection stays with the tasks */
    hello_own(&cl->c, 7);
    assert_int_equal(ask(&cl->c, PS_OP_FIND, "b", 7, &v), PS_OK);
    assert_int_equal(ask(&cl->c, PS_OP_FIND, "c", 7, &v), PS_UNAVAILABLE);
    assert_int_equal(ask(&cl->c, PS_OP_FIND, "c", 8, &v), PS_PERMISSION_DENIED);
    cl_pass(cl, PS_LEASE_MS + 4000); /* as long as others have to come back */
    assert_int_equal(ask(&cl->c, PS_OP_FIND, "c", 7, &v), PS_NOT_FOUND);
}

/* A task that was started again has lost its part: it is forgotten, not missed. */
TEST(test_a_task_that_was_started_again)
{
    struct cl *cl = cl_new();
    ps_v1_TaskAnswer a;
    struct wire *back = wire_new();
    create_everywhere(cl);
    shell_task_free(cl->ps1);
    cl->ps1 = cl_task(cl, "ps", 1);
    PSI_IGNORE(cl_join(cl, cl->ps1)); /* the connection stays with the tasks */
    assert_applied(fc_list(&cl->c, PS_OP_TASKS, NULL, NULL, back));
    const uint8_t *p = back->data;
    size_t n = back->len;
    while (fc_item(&p, &n, &ps_v1_TaskAnswer_msg, &a)) {
        assert_int_equal(a.lost, 0);
    }
    assert_int_equal(psi_map_count(&cl->ps0->core->names.names), 2);
    assert_int_equal(create_at(&cl->c, own_name, "b", "worker", 0, 7, NULL), PS_OK); /* it may be elsewhere now */
    goodbye(cl);
    assert_nothing_left(cl->ps0);
    assert_nothing_left(cl->w0);
}
