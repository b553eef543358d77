/* SPDX-License-Identifier: Apache-2.0 */
/*
 * psd/rpc/requests.c: nothing of a client gets past the place where its right is asked, with each container that it is about.
 * What a denial says is enough to end it.
 */
#include "rows_wire.h"
#include "task_test.h"

#include "common/form.h"
#include "psd/state.h"

#define CLUSTER NULL

static const struct psi_identity me = {.kind = PSI_IDENTITY_KEY, .name = "me", .role = "worker", .key_id = "00c0ffee"};

static void identify(void *shell, const struct psi_link *link, struct psi_identity *out)
{
    (void)shell;
    assert_non_null(link);
    *out = me;
}

static void with_identity(struct psd_task_config *config)
{
    config->identify = identify;
}

/* The table of the task from now on: rows of text; NULL: none. */
static void allow(struct env *e, const char *text)
{
    struct psi_rights *rights = NULL;
    struct psi_err err;
    if (text != NULL) {
        assert_ok(psi_rights_parse(text, strlen(text), "test", &rights, &err), &err);
    }
    psd_task_rights_set(e->t->core, rights);
    e->t->core->count.denied = 0;
}

static void deny_all(struct env *e)
{
    allow(e, "allow key:me elsewhere read");
}

static void allow_all(struct env *e)
{
    allow(e, "allow key:me *,@cluster all");
}

/* All rights but those on container "b". */
static void deny_b(struct env *e)
{
    allow(e, "allow key:me a,localhost,@cluster all");
}

/* A variable "w" in this container, and how it is opened. */
static ps_v1_OpenAnswer make(struct env *e, const char *container)
{
    struct wire back;
    ps_v1_CreateItem m;
    ps_v1_NameItem name = ps_v1_NameItem_init_zero;
    ps_v1_OpenAnswer a = ps_v1_OpenAnswer_init_zero;
    wire_init(&back);
    fc_create_item(&m, "w", PS_F32, 4, ps_sgd(1));
    PSI_IGNORE(PSI_BYTES_SET(m.container, container)); /* fits */
    assert_int_equal(fc_create(&e->c, &m, NULL), PS_OK);
    PSI_IGNORE(PSI_BYTES_SET(name.container, container)); /* fits */
    PSI_IGNORE(PSI_BYTES_SET(name.name, "w"));            /* fits */
    assert_applied(fc_list(&e->c, PS_OP_OPEN, &ps_v1_NameItem_msg, &name, &back));
    const uint8_t *p = back.data;
    size_t n = back.len;
    assert_true(fc_item(&p, &n, &ps_v1_OpenAnswer_msg, &a));
    assert_int_equal(a.status, PS_OK);
    wire_fini(&back);
    return a;
}

/* An item about "w" in this container, as the body of op has it. */
static void add_item(struct wire *body, uint8_t op, const char *container, const ps_v1_OpenAnswer *v)
{
    const char *items = psi_form_find(op)->body;
    if (items != NULL && strcmp(items, "HandleItem") == 0) {
        ps_v1_HandleItem m = {.handle = v->handle, .creation = v->creation};
        wire_item(body, &ps_v1_HandleItem_msg, &m);
    } else if (items != NULL && strcmp(items, "NameItem") == 0) {
        ps_v1_NameItem m = ps_v1_NameItem_init_zero;
        PSI_IGNORE(PSI_BYTES_SET(m.container, container)); /* fits */
        PSI_IGNORE(PSI_BYTES_SET(m.name, "w"));            /* fits */
        wire_item(body, &ps_v1_NameItem_msg, &m);
    } else if (items != NULL && strcmp(items, "CreateItem") == 0) {
        ps_v1_CreateItem m;
        fc_create_item(&m, "x", PS_F32, 4, ps_sgd(1));
        PSI_IGNORE(PSI_BYTES_SET(m.container, container)); /* fits */
        wire_item(body, &ps_v1_CreateItem_msg, &m);
    } else if (items != NULL && strcmp(items, "ContainerItem") == 0) {
        ps_v1_ContainerItem m = ps_v1_ContainerItem_init_zero;
        PSI_IGNORE(PSI_BYTES_SET(m.container, container)); /* fits */
        wire_item(body, &ps_v1_ContainerItem_msg, &m);
    }
}

static struct fc_reply send(struct env *e, uint8_t op, const char *container, const ps_v1_OpenAnswer *v)
{
    static const float values[4] = {1, 1, 1, 1};
    static const uint64_t indices[2] = {0, 3};
    struct rows_op rows = {.dtype = PS_F32, .indices = indices, .rows = values, .count = 2, .row_bytes = 4, .scale = 1};
    float back[4];
    switch (op) {
    case PS_OP_PUSH:
    case PS_OP_PUSHPULL:
    case PS_OP_ASSIGN:
    case PS_OP_ADD:
    case PS_OP_CONTRIBUTE:
        return fc_push(&e->c, op, v, values, 1, 0);
    case PS_OP_PUSH_ROWS:
    case PS_OP_PUSHPULL_ROWS:
    case PS_OP_CONTRIBUTE_ROWS:
    case PS_OP_SCATTER:
        rows.op = op;
        rows.how = op == PS_OP_SCATTER ? PS_SCATTER_ADD : 0;
        rows.handle = v->handle;
        rows.number = e->c.next_number++;
        return rows_do(&e->c, &rows);
    case PS_OP_GATHER:
        return rows_gather(&e->c, PS_F32, v->handle, 0, indices, 2, NULL);
    case PS_OP_PULL:
        return fc_pull(&e->c, v, 0, 4, back);
    case PS_OP_INIT:
        return fc_init_var(&e->c, v->handle, ps_zeros(), ps_sgd(1), 0, false);
    case PS_OP_WORK_END:
    case PS_OP_SET_STEP:
        return fc_call(&e->c, op, PS_FLAG_SEQ | PS_FLAG_FIRST | PS_FLAG_LAST, e->c.next_number++, v->handle, NULL, 0, NULL);
    case PS_OP_ENQUEUE:
    case PS_OP_DEQUEUE:
    case PS_OP_QUEUE_CLOSE:
        return fc_call(&e->c, op, 0, e->c.next_id++, v->handle, NULL, 0, NULL);
    default:
        break;
    }
    struct wire body;
    wire_init(&body);
    add_item(&body, op, container, v);
    struct fc_reply r = fc_call(&e->c, op, 0, e->c.next_id++, 0, NULL, 0, &body);
    wire_fini(&body);
    return r;
}

/* What each operation asks for a variable of container "a"; one that is not here lists something, and asks to READ the cluster.
 */
struct right {
    uint8_t op;
    unsigned rights;
    const char *container;
};
static const struct right ROWS[] = {
    {PS_OP_PUSH, PSI_RIGHT_WRITE, "a"},
    {PS_OP_PUSHPULL, PSI_RIGHT_READ | PSI_RIGHT_WRITE, "a"},
    {PS_OP_ASSIGN, PSI_RIGHT_WRITE, "a"},
    {PS_OP_ADD, PSI_RIGHT_WRITE, "a"},
    {PS_OP_CONTRIBUTE, PSI_RIGHT_WRITE, "a"},
    {PS_OP_PUSH_ROWS, PSI_RIGHT_WRITE, "a"},
    {PS_OP_PUSHPULL_ROWS, PSI_RIGHT_READ | PSI_RIGHT_WRITE, "a"},
    {PS_OP_CONTRIBUTE_ROWS, PSI_RIGHT_WRITE, "a"},
    {PS_OP_SCATTER, PSI_RIGHT_WRITE, "a"},
    {PS_OP_GATHER, PSI_RIGHT_READ, "a"},
    {PS_OP_PULL, PSI_RIGHT_READ, "a"},
    {PS_OP_OPEN, PSI_RIGHT_READ, "a"},
    {PS_OP_INIT, PSI_RIGHT_CHIEF, "a"},
    {PS_OP_SEAL, PSI_RIGHT_CHIEF, "a"},
    {PS_OP_WAIT, PSI_RIGHT_READ, "a"},
    {PS_OP_CALL, PSI_RIGHT_CALL, CLUSTER},
    {PS_OP_MAY, PSI_RIGHT_MEMBER, CLUSTER},
    {PS_OP_ENQUEUE, PSI_RIGHT_WRITE, "a"},
    {PS_OP_DEQUEUE, PSI_RIGHT_READ | PSI_RIGHT_WRITE, "a"},
    {PS_OP_QUEUE_CLOSE, PSI_RIGHT_WRITE, "a"},
    {PS_OP_WORK_END, PSI_RIGHT_WRITE, "a"},
    {PS_OP_SET_STEP, PSI_RIGHT_WRITE, "a"},
    {PS_OP_SET_RATE, PSI_RIGHT_ADMINISTER, "a"},
    {PS_OP_CREATE, PSI_RIGHT_CREATE, "a"},
    {PS_OP_FIND, PSI_RIGHT_READ, "a"},
    {PS_OP_RESET, PSI_RIGHT_CHIEF, "a"},
    {PS_OP_DELETE, PSI_RIGHT_CHIEF, "a"},
    {PS_OP_CHIEF, PSI_RIGHT_CHIEF, "a"},
    {PS_OP_WAIT_CLUSTER, PSI_RIGHT_READ, CLUSTER},
    {PS_OP_BARRIER, PSI_RIGHT_WRITE | PSI_RIGHT_MEMBER, CLUSTER},
    {PS_OP_SYNC, PSI_RIGHT_WRITE, "a"},
    {PS_OP_JOIN, PSI_RIGHT_WRITE, "a"},
    {PS_OP_STEP, PSI_RIGHT_WRITE, "a"},
    {PS_OP_LEAVE, PSI_RIGHT_WRITE, "a"},
    {PS_OP_JOB_DONE, PSI_RIGHT_WRITE | PSI_RIGHT_MEMBER, CLUSTER},
    {PS_OP_CHECKPOINT, PSI_RIGHT_SAVE, CLUSTER},
    {PS_OP_CHECKPOINT_DELETE, PSI_RIGHT_ADMINISTER, CLUSTER},
    {PS_OP_CHECKPOINT_RESTORE, PSI_RIGHT_ADMINISTER, CLUSTER},
    {PS_OP_CHECKPOINT_READ, PSI_RIGHT_ADMINISTER | PSI_RIGHT_MEMBER, CLUSTER},
    {PS_OP_CONFIG_SET, PSI_RIGHT_ADMINISTER, CLUSTER},
    {PS_OP_SHUTDOWN, PSI_RIGHT_ADMINISTER, CLUSTER},
    {PS_OP_STOP, PSI_RIGHT_ADMINISTER, CLUSTER},
};
/* Those about the connection and its own numbers, and those between tasks, which have no rights. */
static const uint8_t WITHOUT[] = {PS_OP_HELLO,      PS_OP_GOODBYE,       PS_OP_BEAT,      PS_OP_ABANDON,     PS_OP_ACK,
                                  PS_OP_DURABLE,    PS_OP_CLOSE,         PS_OP_LIST,      PS_OP_LIST_ANSWER, PS_OP_TASK_CREATE,
                                  PS_OP_TASK_RESET, PS_OP_TASK_DELETE,   PS_OP_PUT_PART,  PS_OP_GET_PART,    PS_OP_TASK_ROUNDS,
                                  PS_OP_TASK_JOIN,  PS_OP_TASK_LEAVE,    PS_OP_PREPARE,   PS_OP_COMMIT,      PS_OP_TASK_DONE,
                                  PS_OP_TASK_CUT,   PS_OP_TASK_MANIFEST, PS_OP_TASK_DROP, PS_OP_TASK_LOAD,   PS_OP_TASK_PLACE,
                                  PS_OP_TASK_SAVED, PS_OP_WHOAMI,        PS_OP_BUILD,     PS_OP_ADDRESSES};

static struct right right_of(uint8_t op)
{
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        if (ROWS[i].op == op) {
            return ROWS[i];
        }
    }
    return (struct right){op, PSI_RIGHT_READ, CLUSTER};
}

/* Rows that give everything everywhere but these rights there. */
static void allow_but(struct env *e, const char *container, unsigned rights)
{
    char text[512], names[PSI_RIGHTS_NAMES_BYTES];
    const unsigned all = container == NULL ? PSI_RIGHTS_OF_CLUSTER : PSI_RIGHTS_OF_CONTAINER;
    snprintf(text, sizeof(text), "allow key:me %s %s; allow key:me %s all; allow key:me elsewhere all",
             container == NULL ? "@cluster" : container, psi_rights_names(all & ~rights, names, sizeof(names)),
             container == NULL ? "*" : "@cluster");
    allow(e, text);
}

/* Without these rights, all others given, the operation does nothing and says what it lacks. */
static void assert_denied(struct env *e, const struct right *want, unsigned without, const ps_v1_OpenAnswer *v)
{
    char row[PSI_RIGHTS_ROW_FOR_BYTES], text[PSI_RIGHTS_ROW_FOR_BYTES + 2];
    psi_rights_row_for(&me, want->container, without, row, sizeof(row));
    snprintf(text, sizeof(text), "(%s)", row);
    allow_but(e, want->container, without);
    struct fc_reply r = send(e, want->op, "a", v);
    if (r.status != PS_PERMISSION_DENIED || strstr(r.text, psi_op_name(want->op)) == NULL || strstr(r.text, text) == NULL) {
        fail_msg("%s gave %s '%s'", psi_op_name(want->op), r.status == FC_NONE ? "nothing" : ps_status_name(r.status), r.text);
    }
    assert_int_equal(e->t->core->count.denied, 1);
    struct peek p = peek_at(e->t, "w");
    assert_true(p.found && !p.initialised && p.count == 1); /* nothing was done */
}

static bool needs_right(uint32_t op)
{
    return psi_form_find((uint8_t)op) != NULL && memchr(WITHOUT, (int)op, sizeof(WITHOUT)) == NULL;
}

/* An operation needs all of its rights, and no others. */
static void assert_asks(const struct right *want)
{
    struct env *e = env_new(with_identity);
    char names[PSI_RIGHTS_NAMES_BYTES], row[PSI_RIGHTS_ROW_FOR_BYTES + PSI_RIGHTS_NAMES_BYTES + 32];
    const bool either = want->op == PS_OP_CHECKPOINT_READ;
    ps_v1_OpenAnswer v = make(e, "a");
    for (unsigned right = 1; right <= PSI_RIGHTS_ALL; right <<= 1) {
        if (!either && (want->rights & right) != 0) {
            assert_denied(e, want, right, &v);
        }
    }
    assert_denied(e, want, want->rights, &v);
    for (unsigned right = 1; right <= PSI_RIGHTS_ALL; right <<= 1) {
        if (either ? (want->rights & right) == 0 : right > 1) {
            continue;
        }
        snprintf(row, sizeof(row), "allow key:me %s %s%s", want->container == NULL ? "@cluster" : want->container,
                 psi_rights_names(either ? right : want->rights, names, sizeof(names)),
                 either && right == PSI_RIGHT_MEMBER ? "; allow key:me * read" : "");
        allow(e, row);
        if (send(e, want->op, "a", &v).status == PS_PERMISSION_DENIED || e->t->core->count.denied != 0) {
            fail_msg("%s is denied with '%s'", psi_op_name(want->op), row);
        }
    }
}

TEST(test_every_operation_is_asked)
{
    uint32_t tried = 0;
    for (uint32_t op = 0; op < 256; op++) {
        if (needs_right(op)) {
            const struct right want = right_of((uint8_t)op);
            assert_asks(&want);
            tried++;
        }
    }
    assert_true(tried > ARRAY_COUNT(ROWS));
}

/* Without a table nobody is asked, whoever he is. */
TEST(test_no_table)
{
    struct env *e = env_new(with_identity);
    ps_v1_OpenAnswer v = make(e, "a");
    assert_applied(fc_init_var(&e->c, v.handle, ps_zeros(), ps_sgd(1), 0, false));
    deny_all(e);
    assert_reply(send(e, PS_OP_PULL, "a", &v), PS_PERMISSION_DENIED, "key:me has no right 'read' on container 'a'");
    allow(e, NULL);
    assert_applied(send(e, PS_OP_PULL, "a", &v));
}

/* The second item is refused: nothing of the first is done. */
TEST(test_each_item_of_a_list)
{
    static const uint8_t lists[] = {PS_OP_OPEN, PS_OP_FIND, PS_OP_CREATE, PS_OP_SEAL, PS_OP_WAIT};
    struct env *e = env_new(with_identity);
    ps_v1_OpenAnswer in_a = make(e, "a"), in_b = make(e, "b");
    assert_applied(fc_init_var(&e->c, in_a.handle, ps_zeros(), ps_sgd(1), 0, false));
    assert_applied(fc_init_var(&e->c, in_b.handle, ps_zeros(), ps_sgd(1), 0, false));
    for (size_t i = 0; i < ARRAY_COUNT(lists); i++) {
        struct wire *body = wire_new();
        add_item(body, lists[i], "a", &in_a);
        add_item(body, lists[i], "b", &in_b);
        add_item(body, lists[i], "a", &in_a);
        deny_b(e);
        assert_reply(fc_call(&e->c, lists[i], 0, e->c.next_id++, 0, NULL, 0, body), PS_PERMISSION_DENIED, "container 'b'");
        assert_int_equal(e->t->core->count.denied, 1);
    }
    struct peek p = peek_at(e->t, "w");
    assert_true(p.count == 2 && !p.sealed);
}

/* A list in three frames, of which the one at `refused` is about "b", and what comes back of it. */
static void assert_list_refused(struct env *e, uint8_t op, uint16_t refused, const ps_v1_OpenAnswer *in_a,
                                const ps_v1_OpenAnswer *in_b)
{
    uint8_t meta[PS_META_BYTES_MAX];
    const ps_v1_Wait wait = {.condition = op == PS_OP_WAIT ? 2 : 0};
    size_t meta_bytes = 0;
    assert_int_equal(psi_msg_encode(&ps_v1_Wait_msg, &wait, meta, sizeof(meta), &meta_bytes, NULL), PS_OK);
    struct wire *w = wire_new();
    uint64_t id = e->c.next_id++;
    for (uint16_t i = 0; i < 3; i++) {
        struct wire *body = wire_new();
        add_item(body, op, i == refused ? "b" : "a", i == refused ? in_b : in_a);
        fc_frame(&e->c, w, op, i < 2 ? PS_FLAG_MORE : 0, id, 0, meta, (uint32_t)meta_bytes, body);
    }
    shell_send(e->c.conn, w);
    assert_reply(fc_take(&e->c, NULL), PS_PERMISSION_DENIED, "container 'b'");
    assert_int_equal(fc_take(&e->c, NULL).status, FC_NONE); /* once */
    shell_send(e->c.conn, w);
    assert_reply(fc_take(&e->c, NULL), PS_PERMISSION_DENIED, "container 'b'"); /* it is kept */
    fc_ack(&e->c, id);
}

/* One frame of a list is refused: so is the request, whichever it is, and it is answered once. */
TEST(test_each_frame_of_a_list)
{
    struct env *e = env_new(with_identity);
    ps_v1_OpenAnswer in_a = make(e, "a"), in_b = make(e, "b");
    deny_b(e);
    for (uint16_t i = 0; i < 3; i++) {
        assert_list_refused(e, PS_OP_CREATE, i, &in_a, &in_b);
        assert_list_refused(e, PS_OP_WAIT, i, &in_a, &in_b);
    }
    assert_int_equal(peek_at(e->t, "x").count, 2);
}

/* What has no container is its handler's to refuse; a RESET without an item is about the default container. */
TEST(test_no_container)
{
    ps_v1_OpenAnswer gone = {.handle = 777};
    struct env *e = env_new(with_identity);
    deny_all(e);
    assert_reply(send(e, PS_OP_SEAL, "a", &gone), PS_ABORTED, "handle 777");
    assert_reply(send(e, PS_OP_OPEN, "!", &gone), PS_OK, "");
    assert_int_equal(e->t->core->count.denied, 0);
    struct wire *body = wire_new();
    assert_reply(fc_call(&e->c, PS_OP_RESET, 0, 900, 0, NULL, 0, body), PS_PERMISSION_DENIED,
                 "no right 'chief' on container 'localhost'");
}

/* A SEAL of nothing, and of what is not there, has asked for no right: no chief is followed for it. */
TEST(test_no_seal_without_a_variable)
{
    struct env *e = env_new(with_identity);
    ps_v1_OpenAnswer v = make(e, "a");
    uint8_t meta[PS_META_BYTES_MAX];
    const ps_v1_Seal seal = {.chief_number = PS_CHIEF_NUMBER_MAX};
    size_t meta_bytes = 0;
    assert_int_equal(psi_msg_encode(&ps_v1_Seal_msg, &seal, meta, sizeof(meta), &meta_bytes, NULL), PS_OK);
    deny_all(e);
    assert_reply(fc_call(&e->c, PS_OP_SEAL, 0, e->c.next_id++, 0, meta, (uint32_t)meta_bytes, NULL), PS_INVALID_ARGUMENT,
                 "no variable");
    assert_reply(fc_seal(&e->c, 777, 1, PS_CHIEF_NUMBER_MAX), PS_ABORTED, "handle 777");
    assert_reply(fc_seal(&e->c, v.handle, v.creation + 1, PS_CHIEF_NUMBER_MAX), PS_PERMISSION_DENIED, "container 'a'");
    allow_all(e);
    assert_applied(fc_init_var(&e->c, v.handle, ps_zeros(), ps_sgd(1), fc_chief(&e->c), false));
}

/* A refused mutation is the outcome of its number, also when it comes again after the right was given. */
TEST(test_a_refused_number_stays_refused)
{
    static const float ones[4] = {1, 1, 1, 1};
    struct env *e = env_new(with_identity);
    ps_v1_OpenAnswer v = make(e, "a");
    assert_applied(fc_init_var(&e->c, v.handle, ps_zeros(), ps_sgd(1), 0, false));
    allow(e, "allow key:me b,@cluster all");
    uint64_t number = e->c.next_number;
    assert_reply(fc_push(&e->c, PS_OP_PUSH, &v, ones, 1, 0), PS_PERMISSION_DENIED, "container 'a'");
    assert_reply(fc_init_var(&e->c, v.handle, ps_ones(), ps_sgd(1), 0, true), PS_PERMISSION_DENIED, "container 'a'");
    allow_all(e);
    fc_cut(&e->c);
    assert_int_equal(fc_connect(&e->c), PS_OK);
    struct fc_part part = {.op = PS_OP_PUSH, .dtype = PS_F32, .number = number, .handle = v.handle, .total = 4, .scale = 1};
    part.payload = ones;
    part.payload_bytes = sizeof(ones);
    fc_send_frames(&e->c, &part, 0, 0);
    assert_reply(fc_take(&e->c, NULL), PS_PERMISSION_DENIED, "container 'a'");
    assert_int_equal(e->t->core->count.denied, 0);
    assert_applied(fc_push(&e->c, PS_OP_PUSH, &v, ones, 1, 0));
    assert_floats(peek_at(e->t, "w").value, 0, 4, -1);
}

/* ---- the table of docs/SECURITY.md: each operation, each role, a container of the role's row and another one ---- */

static const char ROLES[] = "allow role:ps @cluster member; allow role:worker a,@cluster train member;"
                            "allow role:monitor a,@cluster look; allow role:admin *,@cluster all";
static const struct role {
    const char *role;
    unsigned own, foreign, cluster;
} roles[] = {
    {"ps", 0, 0, PSI_RIGHT_MEMBER},
    {"worker", PSI_RIGHT_READ | PSI_RIGHT_WRITE | PSI_RIGHT_CREATE | PSI_RIGHT_CHIEF, 0,
     PSI_RIGHT_READ | PSI_RIGHT_WRITE | PSI_RIGHT_CALL | PSI_RIGHT_SAVE | PSI_RIGHT_MEMBER},
    {"monitor", PSI_RIGHT_READ, 0, PSI_RIGHT_READ},
    {"admin", PSI_RIGHTS_OF_CONTAINER, PSI_RIGHTS_OF_CONTAINER, PSI_RIGHTS_OF_CLUSTER},
};

static struct psi_identity somebody;

static void identify_somebody(void *shell, const struct psi_link *link, struct psi_identity *out)
{
    (void)shell;
    (void)link;
    *out = somebody;
}

static void with_somebody(struct psd_task_config *config)
{
    config->identify = identify_somebody;
}

/* The bits of "read and write", "administer or member", "-". */
static unsigned rights_in(const char *cell)
{
    static const char *const words[] = {"read", "write", "create", "chief", "call", "save", "administer", "member"};
    unsigned rights = 0;
    for (size_t i = 0; i < ARRAY_COUNT(words); i++) {
        rights |= strstr(cell, words[i]) != NULL ? 1u << i : 0;
    }
    return rights;
}

/* A row of the table: "PUSH", "write", "the container of its variable or queue". */
struct line {
    char name[64], right[64], where[128];
};

static void assert_line(uint8_t op, const struct line *line, const struct role *role, const char *container)
{
    const bool on_cluster = strncmp(line->where, "@cluster", 8) == 0;
    const unsigned needs = rights_in(line->right);
    const unsigned has = on_cluster ? role->cluster : container[0] == 'a' ? role->own : role->foreign;
    const bool may_all = (role->foreign & PSI_RIGHT_READ) != 0 || strcmp(role->role, "ps") == 0;
    const bool is_in_all = strstr(line->where, "every container") == NULL || may_all;
    const bool may = strstr(line->right, " or ") != NULL ? (needs & has) != 0 && is_in_all : (needs & ~has) == 0;
    somebody = (struct psi_identity){.kind = PSI_IDENTITY_KEY, .name = "x"};
    snprintf(somebody.role, sizeof(somebody.role), "%s", role->role);
    struct env *e = test_alloc(sizeof(*e));
    env_init(e, with_somebody);
    ps_v1_OpenAnswer v = make(e, container);
    allow(e, ROLES);
    struct fc_reply r = send(e, op, container, &v);
    if ((r.status == PS_PERMISSION_DENIED) == may) {
        fail_msg("%s of role %s on '%s' gave %s '%s', and the table says '%s'", line->name, role->role, container,
                 r.status == FC_NONE ? "nothing" : ps_status_name(r.status), r.text, line->right);
    }
    env_fini(e);
}

/* An operation that needs a right, by its name; 0: none. */
static uint8_t operation(const struct line *line)
{
    for (uint32_t op = 1; op < 256 && line->right[0] != '-'; op++) {
        if (psi_form_find((uint8_t)op) != NULL && strcmp(psi_op_name((uint8_t)op), line->name) == 0) {
            return (uint8_t)op;
        }
    }
    return 0;
}

TEST(test_the_table_of_rights)
{
    char text[1024];
    struct line line;
    bool within = false, tried[256] = {false};
    FILE *f = fopen("docs/SECURITY.md", "r");
    assert_non_null(f);
    while (fgets(text, sizeof(text), f) != NULL) {
        within = (within || strstr(text, "<!-- rights:") == text) && strstr(text, "<!-- end of rights") != text;
        if (!within || sscanf(text, "| %63[A-Z_] | %63[^|]| %127[^|]", line.name, line.right, line.where) != 3) {
            continue;
        }
        const uint8_t op = operation(&line);
        for (size_t i = 0; op != 0 && i < ARRAY_COUNT(roles); i++) {
            assert_line(op, &line, &roles[i], "a");
            assert_line(op, &line, &roles[i], "b");
            tried[op] = true;
        }
    }
    (void)fclose(f);
    for (uint32_t op = 0; op < 256; op++) {
        if (needs_right(op) != tried[op]) {
            fail_msg("the table of docs/SECURITY.md %s %s", tried[op] ? "says a right of" : "lacks", psi_op_name((uint8_t)op));
        }
    }
}
