/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Identities at a task: a session is that of the identity that made it, who may be a task, what lists leave out, what a denial
 * and the audit say, what a new table changes.
 */
#include "queue_test.h"

#include "psd/base/events.h"

static struct psi_identity now_comes; /* whoever says HELLO next */

static void identify(void *shell, const struct psi_link *link, struct psi_identity *out)
{
    (void)shell;
    assert_non_null(link);
    *out = now_comes;
}

static void with_identity(struct psd_task_config *config)
{
    config->identify = identify;
}

static void come(const char *text, const char *role, const char *key_id)
{
    struct psi_err err;
    assert_ok(psi_identity_parse(text, &now_comes, &err), &err);
    snprintf(now_comes.role, sizeof(now_comes.role), "%s", role);
    snprintf(now_comes.key_id, sizeof(now_comes.key_id), "%s", key_id);
}

static void allow(struct shell_task *t, const char *text)
{
    struct psi_rights *rights = NULL;
    struct psi_err err;
    assert_ok(psi_rights_parse(text, strlen(text), "test", &rights, &err), &err);
    psd_task_rights_set(t->core, rights);
    shell_run(t->net);
}

#define ROWS                                                                                                                     \
    "allow role:ps @cluster member; allow role:worker *,@cluster train member; allow role:admin *,@cluster all;"                 \
    "allow key:a* a,@cluster look; "

/* A task with keys, and a session of key:w0. */
static struct env *keyed(void)
{
    come("key:w0", "worker", "00000001");
    struct env *e = env_new_unconnected(with_identity);
    allow(e->t, ROWS);
    assert_int_equal(fc_connect(&e->c), PS_OK);
    return e;
}

static uint32_t count_logged(const struct shell_task *t, const char *event)
{
    uint32_t count = 0;
    for (const char *at = t->log; (at = strstr(at, event)) != NULL; at += strlen(event)) {
        count++;
    }
    return count;
}

/* With the id of another identity's session nobody gets anything, and the session goes on. */
TEST(test_stolen_session)
{
    struct env *e = keyed();
    ps_v1_OpenAnswer v = fc_ready(&e->c, "w", PS_F32, 4, ps_sgd(1), 0);
    static const char *const thieves[] = {"key:w1", "uid:1000", "cert:psd://psd/worker/0"};
    allow(e->t, ROWS "allow uid:1000 *,@cluster all; allow cert:psd://* *,@cluster all");
    for (size_t i = 0; i < ARRAY_COUNT(thieves); i++) {
        struct fc thief = e->c;
        thief.conn = NULL;
        thief.connection += 100;
        come(thieves[i], "worker", "00000002");
        assert_int_equal(fc_connect(&thief), PS_PERMISSION_DENIED);
        assert_int_equal(thief.hello_reply.reason, PS_REASON_IDENTITY);
        assert_non_null(strstr(thief.hello_reply.text, thieves[i]));
        assert_null(strstr(thief.hello_reply.text, "key:w0"));
        assert_int_equal(thief.number_items, 0);
        assert_true(shell_is_closed(thief.conn));
        assert_false(shell_is_closed(e->c.conn));
        assert_int_equal(count_logged(e->t, "audit"), i + 1);
    }
    float back[4];
    assert_applied(fc_pull(&e->c, &v, 0, 4, back));
    /* another line of the same name is the same identity: a rotation */
    fc_cut(&e->c);
    come("key:w0", "worker", "0000beef");
    assert_int_equal(fc_connect(&e->c), PS_OK);
    assert_applied(fc_pull(&e->c, &v, 0, 4, back));
    /* whoever comes first with an id that is not known has it */
    struct fc *other = fc_new(e->t, 7);
    assert_int_equal(psd_task_session_count(e->t->core), 2);
    come("key:w1", "worker", "");
    struct fc late = *other;
    late.connection++;
    assert_int_equal(fc_connect(&late), PS_PERMISSION_DENIED);
}

/* Without a table a session is whose who has its id, as ever. */
TEST(test_open)
{
    come("uid:1000", "", "");
    struct env *e = env_new(with_identity);
    come("anybody", "", "");
    assert_int_equal(fc_connect(&e->c), PS_OK);
    assert_int_equal(count_logged(e->t, "audit"), 0);
}

/* Who has no row at all gets no session. */
TEST(test_no_row)
{
    static const struct {
        const char *identity, *text;
    } rows[] = {{"key:m", "no row at /job:ps/task:0 names key:m: with 'allow key:m *,@cluster look' it may look"},
                {"uid:1000", "no row at /job:ps/task:0 names uid:1000"},
                {"anybody", "this peer has none: it needs a key"},
                {"anybody", "this peer has none: its uid is not mapped in the task's user namespace"}};
    struct env *e = keyed();
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct fc c;
        fc_init(&c, e->t, (uint8_t)(i + 5));
        come(rows[i].identity, i == 3 ? "unmapped" : "monitor", "");
        assert_int_equal(fc_connect(&c), PS_PERMISSION_DENIED);
        assert_int_equal(c.hello_reply.reason, PS_REASON_IDENTITY);
        assert_non_null(strstr(c.hello_reply.text, rows[i].text));
    }
    assert_int_equal(psd_task_session_count(e->t->core), 1);
    assert_int_equal(count_logged(e->t, "audit_refused"), ARRAY_COUNT(rows));
    assert_int_equal(e->t->core->count.denied, ARRAY_COUNT(rows));
    /* the user of the process itself needs none */
    struct fc own;
    fc_init(&own, e->t, 11);
    come("uid:0", "admin", "");
    assert_int_equal(fc_connect(&own), PS_OK);
}

/* ---- who may be a task ---- */

static ps_status say_task(struct shell_task *t, struct fc *c, const char *job, uint32_t task)
{
    struct fc_hello h;
    fc_init(c, t, 9);
    fc_hello_default(c, &h);
    h.m.role = 1;
    PSI_IGNORE(PSI_BYTES_SET(h.m.job, job)); /* fits */
    h.m.task = task;
    h.m.life = 5;
    return fc_hello(c, &h);
}

static const char SPEC[] = "ps=10.0.0.1:1,10.0.0.2:1;worker=10.0.0.3:1";

static struct shell_task *directory_of(struct shell_net *net)
{
    ps_status st = PS_OK;
    shell_net_init(net);
    struct shell_task *t = shell_task_new(net, SPEC, "ps", 0, 42, START_MS, with_identity, &st);
    assert_int_equal(st, PS_OK);
    allow(t, ROWS "allow cert:psd://psd/* @cluster member");
    return t;
}

static void net_end(void *net)
{
    shell_net_fini(net);
}

TEST(test_who_may_be_a_task)
{
    static const struct {
        const char *identity, *role, *job;
        uint32_t task;
        ps_status st;
    } rows[] = {
        {"key:w0", "worker", "ps", 1, PS_PERMISSION_DENIED},
        {"key:w0", "worker", "worker", 0, PS_OK},
        {"key:ps", "ps", "ps", 1, PS_OK},
        {"key:aa", "monitor", "worker", 0, PS_PERMISSION_DENIED},
        {"key:root", "admin", "ps", 1, PS_PERMISSION_DENIED},
        {"cert:psd://psd/ps/1", "", "ps", 1, PS_OK},
        {"cert:psd://psd/worker/0", "", "ps", 1, PS_PERMISSION_DENIED},
    };
    struct shell_net *net = test_alloc(sizeof(*net));
    test_later(net_end, net);
    struct shell_task *t = directory_of(net);
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct fc c;
        come(rows[i].identity, rows[i].role, "");
        assert_int_equal(say_task(t, &c, rows[i].job, rows[i].task), rows[i].st);
        if (rows[i].st != PS_OK) {
            assert_int_equal(c.hello_reply.reason, PS_REASON_IDENTITY);
            assert_true(shell_is_closed(c.conn));
        }
    }
    assert_int_equal(count_logged(t, "audit"), 4);
}

/* A session that names a job is a task as well: what counts trainers counts it. */
TEST(test_who_may_have_the_session_of_a_task)
{
    static const struct {
        const char *identity, *role, *job;
        uint32_t task;
        ps_status st;
    } rows[] = {
        {"key:w0", "worker", "worker", 0, PS_OK},
        {"key:w0", "worker", "worker", 7, PS_OK}, /* a worker that no list has */
        {"key:w0", "worker", "other", 0, PS_OK},
        {"key:w0", "worker", "ps", 0, PS_PERMISSION_DENIED},
        {"key:w0", "worker", "ps", 7, PS_PERMISSION_DENIED},
        {"key:ps", "ps", "ps", 1, PS_OK},
        {"key:aa", "monitor", "worker", 0, PS_PERMISSION_DENIED},
        {"key:aa", "monitor", "other", 3, PS_PERMISSION_DENIED},
        {"key:root", "admin", "ps", 1, PS_PERMISSION_DENIED},
        {"uid:1000", "", "worker", 0, PS_PERMISSION_DENIED},
        {"cert:psd://psd/worker/0", "", "worker", 0, PS_OK},
        {"cert:psd://psd/worker/7", "", "worker", 7, PS_OK},
        {"cert:psd://psd/worker/0", "", "worker", 1, PS_PERMISSION_DENIED},
        {"cert:psd://psd/worker/0", "", "other", 0, PS_PERMISSION_DENIED},
        {"cert:psd://psd/user/bob", "", "worker", 0, PS_OK},
        {"cert:psd://psd/user/bob", "", "ps", 0, PS_PERMISSION_DENIED},
        {"cert:psd://elsewhere/user/eve", "", "worker", 0, PS_PERMISSION_DENIED},
    };
    uint32_t refused = 0;
    struct shell_net *net = test_alloc(sizeof(*net));
    test_later(net_end, net);
    struct shell_task *t = directory_of(net);
    allow(t, ROWS "allow cert:psd://psd/* @cluster member; allow cert:psd://elsewhere/* *,@cluster look; allow uid:1000 * train");
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct fc c;
        struct fc_hello h;
        come(rows[i].identity, rows[i].role, "");
        fc_init(&c, t, (uint8_t)(20 + i));
        fc_hello_default(&c, &h);
        PSI_IGNORE(PSI_BYTES_SET(h.m.job, rows[i].job)); /* fits */
        h.m.task = rows[i].task;
        h.m.pid = 100 + (uint32_t)i;
        if (fc_hello(&c, &h) != rows[i].st) {
            fail_msg("%s as /job:%s/task:%u gave '%s'", rows[i].identity, rows[i].job, rows[i].task, c.hello_reply.text);
        }
        if (rows[i].st == PS_OK) {
            assert_applied(fc_call(&c, PS_OP_GOODBYE, 0, c.next_id++, 0, NULL, 0, NULL));
            continue;
        }
        assert_int_equal(c.hello_reply.reason, PS_REASON_IDENTITY);
        assert_true(shell_is_closed(c.conn));
        assert_int_equal(psd_task_session_count(t->core), 0);
        assert_int_equal(count_logged(t, "audit"), ++refused);
        /* without a job it is let in */
        fc_init(&c, t, (uint8_t)(60 + i));
        assert_int_equal(fc_connect(&c), PS_OK);
        assert_applied(fc_call(&c, PS_OP_GOODBYE, 0, c.next_id++, 0, NULL, 0, NULL));
    }
}

/* A new table without the row closes the session of a task, which does not come back; one without a job stays. */
TEST(test_a_session_without_member)
{
    struct env *e = keyed();
    struct fc worker;
    struct fc_hello h;
    come("key:w1", "worker", "");
    fc_init(&worker, e->t, 5);
    fc_hello_default(&worker, &h);
    PSI_IGNORE(PSI_BYTES_SET(h.m.job, "worker")); /* fits */
    assert_int_equal(fc_hello(&worker, &h), PS_OK);
    allow(e->t, "allow role:worker *,@cluster train member");
    assert_false(shell_is_closed(worker.conn));
    allow(e->t, "allow role:worker *,@cluster train");
    assert_true(shell_is_closed(worker.conn));
    assert_false(shell_is_closed(e->c.conn));
    h.m.connection = ++worker.connection;
    assert_int_equal(fc_hello(&worker, &h), PS_PERMISSION_DENIED);
    assert_int_equal(worker.hello_reply.reason, PS_REASON_IDENTITY);
}

/* Without a table anybody is any task. */
TEST(test_any_task_without_a_table)
{
    come("key:aa", "monitor", "");
    struct env *e = env_new(with_identity);
    struct fc c;
    struct fc_hello h;
    fc_init(&c, e->t, 5);
    fc_hello_default(&c, &h);
    PSI_IGNORE(PSI_BYTES_SET(h.m.job, "ps")); /* fits */
    assert_int_equal(fc_hello(&c, &h), PS_OK);
}

/* A new table without the row closes the connection of a task; one that has it leaves it. */
TEST(test_a_table_without_member)
{
    struct fc c;
    struct shell_net *net = test_alloc(sizeof(*net));
    test_later(net_end, net);
    struct shell_task *t = directory_of(net);
    come("key:ps", "ps", "");
    assert_int_equal(say_task(t, &c, "ps", 1), PS_OK);
    allow(t, "allow key:ps @cluster member");
    assert_false(shell_is_closed(c.conn));
    allow(t, "allow key:ps *,@cluster train");
    assert_true(shell_is_closed(c.conn));
}

/* ---- lists ---- */

static void make(struct env *e, const char *container, const char *name, bool queue)
{
    ps_v1_CreateItem m;
    fc_create_item(&m, name, PS_F32, 4, ps_sgd(1));
    if (queue) {
        const ps_v1_Queue q = queue_like(PSI_QUEUE_FIFO, 1);
        m = queue_item(name, &q);
    }
    PSI_IGNORE(PSI_BYTES_SET(m.container, container)); /* fits */
    assert_int_equal(fc_create(&e->c, &m, NULL), PS_OK);
}

/* The bytes of a list name this. */
static bool names(struct fc *c, uint8_t op, const char *text)
{
    struct wire *w = wire_new();
    assert_applied(fc_list(c, op, NULL, NULL, w));
    return memmem(w->data, w->len, text, strlen(text)) != NULL;
}

TEST(test_lists_leave_out)
{
    static const uint8_t of_variables[] = {PS_OP_VARS, PS_OP_CONTAINERS, PS_OP_AGES};
    static const float ones[4] = {1, 1, 1, 1};
    struct env *e = keyed();
    struct fc looker;
    static const char *const containers[] = {"a", "secret"};
    for (size_t i = 0; i < ARRAY_COUNT(containers); i++) {
        ps_v1_OpenAnswer v;
        make(e, containers[i], containers[i][0] == 'a' ? "wa" : "wsecret", false);
        make(e, containers[i], containers[i][0] == 'a' ? "qa" : "qsecret", true);
        assert_int_equal(fc_open_in(&e->c, containers[i], containers[i][0] == 'a' ? "wa" : "wsecret", &v), PS_OK);
        assert_applied(fc_init_var(&e->c, v.handle, ps_zeros(), ps_sgd(1), 0, false));
        assert_applied(fc_seal(&e->c, v.handle, v.creation, 0));
        struct fc_part part = {.op = PS_OP_PUSH, .dtype = PS_F32, .number = e->c.next_number++, .handle = v.handle, .total = 4};
        part.scale = 1;
        part.from = 1;
        part.payload = ones;
        part.payload_bytes = sizeof(ones);
        fc_send_frames(&e->c, &part, 0, 0);
        assert_applied(fc_take(&e->c, NULL));
    }
    fc_init(&looker, e->t, 3);
    come("key:alice", "monitor", "");
    assert_int_equal(fc_connect(&looker), PS_OK);
    for (size_t i = 0; i < ARRAY_COUNT(of_variables); i++) {
        assert_true(names(&e->c, of_variables[i], "secret"));
        assert_true(names(&looker, of_variables[i], "a"));
        assert_false(names(&looker, of_variables[i], "secret"));
    }
    assert_true(names(&e->c, PS_OP_QUEUES, "qsecret"));
    assert_true(names(&looker, PS_OP_QUEUES, "qa"));
    assert_false(names(&looker, PS_OP_QUEUES, "secret"));
    assert_reply(fc_list(&looker, PS_OP_FIND, NULL, NULL, wire_new()), PS_OK, "");
    assert_int_equal(fc_open_in(&looker, "secret", "wsecret", NULL), PS_PERMISSION_DENIED);
    /* a list of a reader of another cluster right */
    allow(e->t, "allow key:alice a read; allow key:w0 *,@cluster all");
    assert_reply(fc_list(&looker, PS_OP_VARS, NULL, NULL, wire_new()), PS_PERMISSION_DENIED, "allow key:alice @cluster read");
    assert_reply(fc_list(&looker, PS_OP_SESSIONS, NULL, NULL, wire_new()), PS_PERMISSION_DENIED, "allow key:alice @cluster read");
    assert_reply(fc_list(&looker, PS_OP_WAITS, NULL, NULL, wire_new()), PS_PERMISSION_DENIED, "allow key:alice @cluster read");
}

/* What has happened in a container is told in words to those who may read the container. */
TEST(test_events_leave_out)
{
    struct env *e = keyed();
    struct fc looker;
    psd_event(e->t->core, PSI_LOG_INFO, "chief", PSI_KV("container", "a"), PSI_KV("number", 1));
    psd_event(e->t->core, PSI_LOG_INFO, "chief", PSI_KV("container", "secret"), PSI_KV("number", 2));
    fc_init(&looker, e->t, 3);
    come("key:alice", "monitor", "");
    assert_int_equal(fc_connect(&looker), PS_OK);
    assert_true(names(&e->c, PS_OP_EVENTS, "container=secret number=2"));
    assert_true(names(&looker, PS_OP_EVENTS, "container=a number=1"));
    assert_true(names(&looker, PS_OP_EVENTS, "in a container that you may not read"));
    assert_false(names(&looker, PS_OP_EVENTS, "secret"));
    allow(e->t, "allow key:alice a read; allow key:w0 *,@cluster all");
    assert_reply(fc_list(&looker, PS_OP_EVENTS, NULL, NULL, wire_new()), PS_PERMISSION_DENIED, "allow key:alice @cluster read");
}

/* What somebody waits for is told in words to those who may read the container. */
TEST(test_waits_leave_out)
{
    struct env *e = keyed();
    struct fc looker;
    ps_v1_OpenAnswer v;
    make(e, "secret", "wsecret", false);
    assert_int_equal(fc_open_in(&e->c, "secret", "wsecret", &v), PS_OK);
    assert_int_equal(fc_wait(&e->c, e->c.next_id++, v.handle, v.creation, PS_WAIT_SEALED, 0).status, FC_NONE);
    fc_init(&looker, e->t, 3);
    come("key:alice", "monitor", "");
    assert_int_equal(fc_connect(&looker), PS_OK);
    assert_true(names(&e->c, PS_OP_WAITS, "wsecret"));
    assert_false(names(&looker, PS_OP_WAITS, "wsecret"));
    /* a wait for two variables, of which it may read the first one's container, and that of the session */
    struct wire both;
    _Alignas(8) uint8_t meta[64] = {0};
    const ps_v1_Wait wait = {.condition = PS_WAIT_SEALED};
    size_t bytes = 0;
    make(e, "a", "wa", false);
    allow(e->t, ROWS "allow key:alice localhost look");
    wire_init(&both);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(fc_open_in(&e->c, i == 0 ? "a" : "secret", i == 0 ? "wa" : "wsecret", &v), PS_OK);
        wire_item(&both, &ps_v1_HandleItem_msg, &(ps_v1_HandleItem){.handle = v.handle, .creation = v.creation});
    }
    assert_int_equal(psi_msg_encode(&ps_v1_Wait_msg, &wait, meta, sizeof(meta), &bytes, NULL), PS_OK);
    assert_int_equal(fc_call(&e->c, PS_OP_WAIT, 0, e->c.next_id++, 0, meta, psi_pad8((uint32_t)bytes), &both).status, FC_NONE);
    wire_fini(&both);
    assert_true(names(&e->c, PS_OP_WAITS, "wa"));
    assert_false(names(&looker, PS_OP_WAITS, "wsecret"));
    allow(e->t, ROWS "allow key:alice *,@cluster look");
    assert_true(names(&looker, PS_OP_WAITS, "wsecret"));
}

/* BEAT tells who the chief of a container is to those who may read it. */
TEST(test_beat_leaves_out)
{
    struct env *e = keyed();
    struct fc looker;
    fc_init(&looker, e->t, 3);
    come("key:alice", "monitor", "");
    assert_int_equal(fc_connect(&looker), PS_OK);
    assert_true(fc_chief(&e->c) > 0);
    ps_v1_Beat beat = ps_v1_Beat_init_zero;
    uint8_t meta[PS_META_BYTES_MAX];
    size_t meta_bytes = 0;
    PSI_IGNORE(PSI_BYTES_SET(beat.container, "localhost")); /* fits */
    assert_int_equal(psi_msg_encode(&ps_v1_Beat_msg, &beat, meta, sizeof(meta), &meta_bytes, NULL), PS_OK);
    struct fc *const both[] = {&e->c, &looker};
    for (int i = 0; i < 2; i++) {
        struct wire *w = wire_new(), *back = wire_new();
        fc_frame(both[i], w, PS_OP_BEAT, 0, both[i]->next_id++, 0, meta, (uint32_t)meta_bytes, NULL);
        shell_send(both[i]->conn, w);
        assert_applied(fc_take(both[i], back));
        ps_v1_BeatAnswer a = ps_v1_BeatAnswer_init_zero;
        const uint8_t *p = back->data;
        size_t n = back->len;
        assert_true(fc_item(&p, &n, &ps_v1_BeatAnswer_msg, &a));
        assert_int_equal(a.chief_left_ms > 0, i == 0);
    }
}

/* ---- who am I ---- */

TEST(test_whoami)
{
    struct env *e = keyed();
    struct wire *back = wire_new();
    ps_v1_WhoamiAnswer a;
    assert_applied(fc_list(&e->c, PS_OP_WHOAMI, NULL, NULL, back));
    const uint8_t *p = back->data;
    size_t n = back->len;
    assert_true(fc_item(&p, &n, &ps_v1_WhoamiAnswer_msg, &a));
    assert_memory_equal(a.who.bytes, "key:w0", 6);
    assert_memory_equal(a.role.bytes, "worker", 6);
    assert_memory_equal(a.key_id.bytes, "00000001", 8);
    assert_false(a.open);
    assert_int_equal(a.rights, PSI_RIGHT_READ | PSI_RIGHT_WRITE | PSI_RIGHT_CALL | PSI_RIGHT_SAVE | PSI_RIGHT_MEMBER);
    assert_true(fc_item(&p, &n, &ps_v1_WhoamiAnswer_msg, &a));
    assert_int_equal(a.row.size, strlen("role:worker *,@cluster train member"));
    assert_memory_equal(a.row.bytes, "role:worker *,@cluster train member", a.row.size);
    assert_false(fc_item(&p, &n, &ps_v1_WhoamiAnswer_msg, &a));
    struct wire *sessions = wire_new();
    ps_v1_SessionAnswer s;
    assert_applied(fc_list(&e->c, PS_OP_SESSIONS, NULL, NULL, sessions));
    p = sessions->data;
    n = sessions->len;
    assert_true(fc_item(&p, &n, &ps_v1_SessionAnswer_msg, &s));
    assert_memory_equal(s.who.bytes, "key:w0", 6);
    assert_memory_equal(s.key_id.bytes, "00000001", 8);
}

/* ---- what somebody else may ---- */

static struct fc_reply may(struct fc *c, const char *who, const char *role, const char *container, uint32_t rights)
{
    ps_v1_MayItem m = ps_v1_MayItem_init_zero;
    struct wire *body = wire_new();
    PSI_IGNORE(PSI_BYTES_SET(m.who, who)); /* these fit */
    PSI_IGNORE(PSI_BYTES_SET(m.role, role));
    PSI_IGNORE(PSI_BYTES_SET(m.container, container));
    m.rights = rights;
    wire_item(body, &ps_v1_MayItem_msg, &m);
    return fc_call(c, PS_OP_MAY, 0, c->next_id++, 0, NULL, 0, body);
}

TEST(test_may)
{
    struct env *e = keyed();
    struct fc looker;
    assert_applied(may(&e->c, "key:w1", "worker", "x", PSI_RIGHT_READ | PSI_RIGHT_WRITE));
    assert_applied(may(&e->c, "key:alice", "monitor", "a", PSI_RIGHT_READ));
    assert_int_equal(e->t->core->count.denied, 0);
    assert_reply(may(&e->c, "key:alice", "monitor", "a", PSI_RIGHT_READ | PSI_RIGHT_WRITE), PS_PERMISSION_DENIED,
                 "a run at /job:ps/task:0: key:alice has no right 'write' on container 'a' (allow key:alice a write)");
    assert_reply(may(&e->c, "key:w1", "", "x", PSI_RIGHT_READ), PS_PERMISSION_DENIED, "key:w1 has no right 'read'");
    /* a user of another host is nobody here, whoever he is there; and a certificate has no role */
    assert_reply(may(&e->c, "uid:0", "admin", "x", PSI_RIGHT_READ), PS_PERMISSION_DENIED, "uid:0");
    assert_reply(may(&e->c, "cert:psd://psd/user/ann", "admin", "x", PSI_RIGHT_READ), PS_PERMISSION_DENIED,
                 "cert:psd://psd/user/ann");
    assert_int_equal(e->t->core->count.denied, 4);
    assert_reply(may(&e->c, "nobody", "", "x", PSI_RIGHT_READ), PS_INVALID_ARGUMENT, "");
    assert_reply(may(&e->c, "key:w1", "worker", "x", 0), PS_INVALID_ARGUMENT, "MAY: rights 0");
    assert_reply(may(&e->c, "key:w1", "worker", "x", PSI_RIGHT_MEMBER), PS_INVALID_ARGUMENT, "MAY: rights 128");
    /* only members are told */
    fc_init(&looker, e->t, 3);
    come("key:alice", "monitor", "");
    assert_int_equal(fc_connect(&looker), PS_OK);
    assert_reply(may(&looker, "key:w1", "worker", "x", PSI_RIGHT_READ), PS_PERMISSION_DENIED, "allow key:alice @cluster member");
}

/* ---- lines of the log ---- */

static struct fc_reply shutdown_of(struct fc *c)
{
    return fc_call(c, PS_OP_SHUTDOWN, 0, c->next_id++, 0, NULL, 0, NULL);
}

TEST(test_denials_are_logged_once_a_minute)
{
    struct env *e = keyed();
    for (int i = 0; i < 20; i++) {
        assert_reply(
            shutdown_of(&e->c), PS_PERMISSION_DENIED,
            "SHUTDOWN at /job:ps/task:0: key:w0 has no right 'administer' on the cluster (allow key:w0 @cluster administer)");
    }
    assert_int_equal(count_logged(e->t, "denied "), 1);
    ps_v1_InfoAnswer info;
    assert_int_equal(fc_info(&e->c, &info), PS_OK);
    assert_int_equal(info.denied, 20);
    allow(e->t, ROWS "allow key:w0 @cluster look");
    e->t->core->config.lease_ms = 10 * PSD_DENIAL_LOG_MS; /* it says nothing meanwhile */
    for (uint64_t at = e->t->now; at < START_MS + PSD_DENIAL_LOG_MS + 100; at += 1000) {
        shell_tick(&e->net, at);
        assert_applied(fc_beat(&e->c, -1, NULL));
    }
    assert_reply(shutdown_of(&e->c), PS_PERMISSION_DENIED, "administer");
    assert_int_equal(count_logged(e->t, "denied "), 2);
    assert_true(shell_logged(e->t, "count=20"));
}

/* What an operator answers for is in the audit, each time; what others do is not. */
TEST(test_audit)
{
    struct env *e = keyed();
    ps_v1_OpenAnswer v = fc_ready(&e->c, "w", PS_F32, 4, ps_sgd(1), 0);
    float back[4];
    assert_applied(fc_pull(&e->c, &v, 0, 4, back));
    assert_int_equal(count_logged(e->t, "audit"), 0);
    assert_applied(fc_reset(&e->c, e->c.next_id++, "localhost"));
    assert_int_equal(count_logged(e->t, "audit"), 1);
    assert_true(shell_logged(e->t, "audit what=RESET who=key:w0"));
    struct fc root;
    fc_init(&root, e->t, 4);
    come("key:root", "admin", "");
    assert_int_equal(fc_connect(&root), PS_OK);
    assert_int_equal(fc_list(&root, PS_OP_STOP, NULL, NULL, wire_new()).status, PS_OK);
    assert_int_equal(fc_list(&root, PS_OP_STOP, NULL, NULL, wire_new()).status, PS_OK);
    assert_int_equal(count_logged(e->t, "audit"), 3);
    assert_true(shell_logged(e->t, "audit what=STOP who=key:root"));
}

static const char *address_of(void *shell, const struct psi_link *link)
{
    (void)shell;
    assert_non_null(link);
    return "10.0.0.9:4711";
}

static void with_address(struct psd_task_config *config)
{
    config->identify = identify;
    config->address_of = address_of;
}

/* A line of the audit says what was done to which thing, and from where, and by which session. */
TEST(test_audit_says_of_what)
{
    come("key:root", "admin", "");
    struct env *e = env_new_unconnected(with_address);
    allow(e->t, ROWS);
    assert_int_equal(fc_connect(&e->c), PS_OK);
    (void)fc_ready(&e->c, "w", PS_F32, 4, ps_sgd(1), 0);
    ps_v1_ConfigItem setting = ps_v1_ConfigItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(setting.name, "log_level"));                          /* fits */
    PSI_IGNORE(PSI_BYTES_SET(setting.value, "debug"));                             /* fits */
    (void)fc_list(&e->c, PS_OP_CONFIG_SET, &ps_v1_ConfigItem_msg, &setting, NULL); /* this task has no settings */
    assert_true(shell_logged(e->t, "audit what=CONFIG_SET who=key:root"));
    assert_true(shell_logged(e->t, "of=\"log_level = debug\""));
    ps_v1_SavedNameItem saved = {.number = 7};
    (void)fc_list(&e->c, PS_OP_CHECKPOINT_DELETE, &ps_v1_SavedNameItem_msg, &saved, NULL); /* it has no disk either */
    assert_true(shell_logged(e->t, "audit what=CHECKPOINT_DELETE who=key:root"));
    assert_true(shell_logged(e->t, "of=\"checkpoint 7\""));
    ps_v1_NameItem name = ps_v1_NameItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(name.container, "localhost")); /* fits */
    PSI_IGNORE(PSI_BYTES_SET(name.name, "w"));              /* fits */
    assert_applied(fc_list(&e->c, PS_OP_DELETE, &ps_v1_NameItem_msg, &name, NULL));
    assert_true(shell_logged(e->t, "audit what=DELETE who=key:root"));
    assert_true(shell_logged(e->t, "of=\"localhost: w\""));
    char from[96];
    size_t used = (size_t)snprintf(from, sizeof(from), "address=10.0.0.9:4711 session=");
    for (size_t i = 0; i < 8; i++) {
        used += (size_t)snprintf(from + used, sizeof(from) - used, "%02x", e->c.session[i]);
    }
    assert_int_equal(count_logged(e->t, from), 3);
}

/* ---- files of checkpoints have values of all containers ---- */

TEST(test_who_may_read_checkpoints)
{
    static const struct {
        const char *identity, *role, *rows;
        bool may;
    } rows[] = {
        {"key:w1", "worker", "allow key:w1 other*,@cluster train member", false},
        {"key:w1", "worker", "allow key:w1 other*,@cluster all", true},
        {"key:w1", "worker", "allow key:w1 *,@cluster train", false},
        {"key:w1", "worker", "allow key:w1 *,@cluster train member", true},
        {"key:ps", "ps", "allow key:ps @cluster member", true},
        {"key:ps", "ps", "allow key:ps *,@cluster train", false},
        {"cert:psd://psd/ps/1", "", "allow cert:* @cluster member", true},
        {"cert:psd://psd/worker/1", "", "allow cert:* @cluster member", false},
        {"cert:psd://psd/user/ps", "", "allow cert:* @cluster member", false},
        {"uid:0", "admin", "", true},
    };
    come("key:root", "admin", "");
    struct env *e = env_new(with_identity);
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct fc c;
        allow(e->t, "allow key:* *,@cluster look; allow cert:* a look");
        come(rows[i].identity, rows[i].role, "");
        fc_init(&c, e->t, (uint8_t)(20 + i));
        assert_int_equal(fc_connect(&c), PS_OK);
        allow(e->t, rows[i].rows);
        const struct fc_reply r = fc_call(&c, PS_OP_CHECKPOINT_READ, 0, c.next_id++, 0, NULL, 0, NULL);
        if ((r.status == PS_PERMISSION_DENIED) == rows[i].may) {
            fail_msg("%s with '%s' got %s '%s'", rows[i].identity, rows[i].rows, ps_status_name(r.status), r.text);
        }
    }
}

/* ---- sums ---- */

/* Who may not read every container gets no sums, out of which what others have could be told. */
TEST(test_info_leaves_sums_out)
{
    struct env *e = keyed();
    struct fc looker;
    ps_v1_InfoAnswer all, some;
    (void)fc_ready(&e->c, "w", PS_F32, 4, ps_sgd(1), 0);
    fc_init(&looker, e->t, 3);
    come("key:alice", "monitor", "");
    assert_int_equal(fc_connect(&looker), PS_OK);
    assert_int_equal(fc_info(&e->c, &all), PS_OK);
    assert_int_equal(fc_info(&looker, &some), PS_OK);
    assert_false(all.in_part);
    assert_true(all.variables == 1 && all.memory_bytes > 0 && all.bytes_in > 0 && all.variable_bytes > 0);
    assert_true(some.in_part);
    assert_true(some.variables == 0 && some.memory_bytes == 0 && some.variable_bytes == 0 && some.bytes_in == 0);
    assert_true(some.bytes_out == 0 && some.pushes_applied == 0);
    assert_int_equal(some.sessions, 2);
    allow(e->t, ROWS "allow key:alice *,@cluster look");
    assert_int_equal(fc_info(&looker, &some), PS_OK);
    assert_true(!some.in_part && some.variables == 1);
}

/* ---- containers of sessions ---- */

static const char own_name[] = "session/00112233445566aa";

static ps_status hello_own(struct fc *c, uint8_t key)
{
    struct fc_hello h;
    fc_hello_default(c, &h);
    PSI_IGNORE(PSI_BYTES_SET(h.m.session_container, own_name)); /* fits */
    h.m.key.size = PSI_KEY_BYTES;
    memset(h.m.key.bytes, key, PSI_KEY_BYTES);
    return fc_hello(c, &h);
}

static struct fc_reply reset_own(struct fc *c)
{
    return fc_reset(c, c->next_id++, own_name);
}

/* Its own session needs no row there, and with one for * nobody else may. */
TEST(test_a_container_is_its_sessions)
{
    static const float ones[4] = {1, 1, 1, 1};
    struct env *e = keyed();
    struct fc owner, other, root;
    ps_v1_CreateItem m;
    ps_v1_OpenAnswer v;
    allow(e->t, "allow key:tenant other*,@cluster train; allow role:worker *,@cluster train member;"
                "allow role:admin *,@cluster all");
    come("key:tenant", "", "");
    fc_init(&owner, e->t, 5);
    assert_int_equal(hello_own(&owner, 7), PS_OK);
    fc_create_item(&m, "v", PS_F32, 4, ps_sgd(1));
    PSI_IGNORE(PSI_BYTES_SET(m.container, own_name));                    /* fits */
    assert_int_equal(fc_create(&owner, &m, NULL), PS_PERMISSION_DENIED); /* without the key */
    m.key.size = PSI_KEY_BYTES;
    memset(m.key.bytes, 7, PSI_KEY_BYTES);
    assert_int_equal(fc_create(&owner, &m, NULL), PS_OK);
    ps_v1_NameItem name = ps_v1_NameItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(name.container, own_name)); /* fits */
    PSI_IGNORE(PSI_BYTES_SET(name.name, "v"));           /* fits */
    name.key.size = PSI_KEY_BYTES;
    memset(name.key.bytes, 7, PSI_KEY_BYTES);
    struct wire *back = wire_new();
    assert_applied(fc_list(&owner, PS_OP_OPEN, &ps_v1_NameItem_msg, &name, back));
    const uint8_t *p = back->data;
    size_t n = back->len;
    assert_true(fc_item(&p, &n, &ps_v1_OpenAnswer_msg, &v));
    assert_applied(fc_init_var(&owner, v.handle, ps_constant(1), ps_sgd(1), 0, false));
    assert_applied(fc_push(&owner, PS_OP_PUSH, &v, ones, 1, 0));
    assert_applied(may(&e->c, "key:tenant", "", own_name, PSI_RIGHT_READ | PSI_RIGHT_WRITE | PSI_RIGHT_CREATE));
    assert_reply(may(&e->c, "key:tenant", "", "a", PSI_RIGHT_READ), PS_PERMISSION_DENIED, "container 'a'");
    assert_reply(may(&e->c, "key:tenant", "", own_name, PSI_RIGHT_ADMINISTER), PS_PERMISSION_DENIED, "administer");
    /* somebody with rights on every container, who says the name, and has not the key */
    come("key:w1", "worker", "");
    fc_init(&other, e->t, 6);
    assert_int_equal(hello_own(&other, 8), PS_OK);
    assert_reply(reset_own(&other), PS_PERMISSION_DENIED, "allow key:w1 session/00112233445566aa administer");
    memset(name.key.bytes, 8, PSI_KEY_BYTES);
    assert_reply(fc_list(&other, PS_OP_DELETE, &ps_v1_NameItem_msg, &name, NULL), PS_PERMISSION_DENIED, own_name);
    assert_int_equal(e->t->core->store.variable_count, 1);
    assert_applied(reset_own(&owner));
    assert_int_equal(e->t->core->store.variable_count, 0);
    assert_int_equal(fc_create(&owner, &m, NULL), PS_OK);
    come("key:root", "admin", "");
    fc_init(&root, e->t, 8);
    assert_int_equal(fc_connect(&root), PS_OK);
    assert_applied(reset_own(&root));
    assert_int_equal(e->t->core->store.variable_count, 0);
}
