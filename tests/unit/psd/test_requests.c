/* SPDX-License-Identifier: Apache-2.0 */
/*
 * psd/rpc/requests.c: nothing of a client gets past the place where its right is asked, with each container that it is about. The
 * double refuses, and notes what it was asked.
 */
#include "task_test.h"

#include "common/form.h"
#include "psd/state.h"

#define CLUSTER "(cluster)"

static struct {
    const char *refused; /* this container only; NULL: all, "": none */
    uint32_t count;
    enum psd_right rights[8];
    char containers[8][PS_CONTAINER_BYTES_MAX + 1];
} asked;

static bool permit(void *shell, const struct psi_link *link, enum psd_right right, const char *container)
{
    (void)shell;
    assert_non_null(link);
    assert_in_range(asked.count, 0, ARRAY_COUNT(asked.rights) - 1);
    asked.rights[asked.count] = right;
    snprintf(asked.containers[asked.count++], sizeof(asked.containers[0]), "%s", container == NULL ? CLUSTER : container);
    return asked.refused != NULL && (container == NULL || strcmp(asked.refused, container) != 0);
}

static void refuse(struct env *e, const char *container)
{
    memset(&asked, 0, sizeof(asked));
    asked.refused = container;
    e->t->core->config.permit = permit;
}

static void assert_asked(uint32_t i, enum psd_right right, const char *container)
{
    assert_true(i < asked.count);
    assert_int_equal(asked.rights[i], right);
    assert_string_equal(asked.containers[i], container);
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
    float back[4];
    switch (op) {
    case PS_OP_PUSH:
    case PS_OP_PUSHPULL:
    case PS_OP_ASSIGN:
    case PS_OP_ADD:
    case PS_OP_CONTRIBUTE:
        return fc_push(&e->c, op, v, values, 1, 0);
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
    enum psd_right right;
    const char *container;
};
static const struct right ROWS[] = {
    {PS_OP_PUSH, PSD_RIGHT_WRITE, "a"},
    {PS_OP_PUSHPULL, PSD_RIGHT_WRITE, "a"},
    {PS_OP_ASSIGN, PSD_RIGHT_WRITE, "a"},
    {PS_OP_ADD, PSD_RIGHT_WRITE, "a"},
    {PS_OP_CONTRIBUTE, PSD_RIGHT_WRITE, "a"},
    {PS_OP_PULL, PSD_RIGHT_READ, "a"},
    {PS_OP_OPEN, PSD_RIGHT_READ, "a"},
    {PS_OP_INIT, PSD_RIGHT_WRITE, "a"},
    {PS_OP_SEAL, PSD_RIGHT_WRITE, "a"},
    {PS_OP_WAIT, PSD_RIGHT_READ, "a"},
    {PS_OP_CALL, PSD_RIGHT_WRITE, CLUSTER},
    {PS_OP_ENQUEUE, PSD_RIGHT_WRITE, "a"},
    {PS_OP_DEQUEUE, PSD_RIGHT_WRITE, "a"},
    {PS_OP_QUEUE_CLOSE, PSD_RIGHT_WRITE, "a"},
    {PS_OP_WORK_END, PSD_RIGHT_WRITE, "a"},
    {PS_OP_SET_STEP, PSD_RIGHT_WRITE, "a"},
    {PS_OP_SET_RATE, PSD_RIGHT_ADMINISTER, "a"},
    {PS_OP_CREATE, PSD_RIGHT_CREATE, "a"},
    {PS_OP_FIND, PSD_RIGHT_READ, "a"},
    {PS_OP_RESET, PSD_RIGHT_ADMINISTER, "a"},
    {PS_OP_DELETE, PSD_RIGHT_ADMINISTER, "a"},
    {PS_OP_CHIEF, PSD_RIGHT_WRITE, "a"},
    {PS_OP_WAIT_CLUSTER, PSD_RIGHT_READ, CLUSTER},
    {PS_OP_BARRIER, PSD_RIGHT_WRITE, CLUSTER},
    {PS_OP_SYNC, PSD_RIGHT_WRITE, "a"},
    {PS_OP_JOIN, PSD_RIGHT_WRITE, "a"},
    {PS_OP_STEP, PSD_RIGHT_WRITE, "a"},
    {PS_OP_LEAVE, PSD_RIGHT_WRITE, "a"},
    {PS_OP_JOB_DONE, PSD_RIGHT_WRITE, CLUSTER},
    {PS_OP_CHECKPOINT, PSD_RIGHT_ADMINISTER, CLUSTER},
    {PS_OP_CHECKPOINT_DELETE, PSD_RIGHT_ADMINISTER, CLUSTER},
    {PS_OP_CHECKPOINT_RESTORE, PSD_RIGHT_ADMINISTER, CLUSTER},
    {PS_OP_CHECKPOINT_READ, PSD_RIGHT_ADMINISTER, CLUSTER},
    {PS_OP_CONFIG_SET, PSD_RIGHT_ADMINISTER, CLUSTER},
    {PS_OP_SHUTDOWN, PSD_RIGHT_ADMINISTER, CLUSTER},
    {PS_OP_STOP, PSD_RIGHT_ADMINISTER, CLUSTER},
};
/* Those about the connection and its own numbers, and those between tasks, which have no rights. */
static const uint8_t WITHOUT[] = {PS_OP_HELLO,      PS_OP_GOODBYE,       PS_OP_BEAT,      PS_OP_ABANDON,     PS_OP_ACK,
                                  PS_OP_DURABLE,    PS_OP_CLOSE,         PS_OP_LIST,      PS_OP_LIST_ANSWER, PS_OP_TASK_CREATE,
                                  PS_OP_TASK_RESET, PS_OP_TASK_DELETE,   PS_OP_PUT_PART,  PS_OP_GET_PART,    PS_OP_TASK_ROUNDS,
                                  PS_OP_TASK_JOIN,  PS_OP_TASK_LEAVE,    PS_OP_PREPARE,   PS_OP_COMMIT,      PS_OP_TASK_DONE,
                                  PS_OP_TASK_CUT,   PS_OP_TASK_MANIFEST, PS_OP_TASK_DROP, PS_OP_TASK_LOAD,   PS_OP_TASK_PLACE,
                                  PS_OP_TASK_SAVED};

static struct right right_of(uint8_t op)
{
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        if (ROWS[i].op == op) {
            return ROWS[i];
        }
    }
    return (struct right){op, PSD_RIGHT_READ, CLUSTER};
}

TEST(test_every_operation_is_asked)
{
    uint32_t tried = 0;
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = make(e, "a");
    for (uint32_t op = 0; op < 256; op++) {
        if (psi_form_find((uint8_t)op) == NULL || memchr(WITHOUT, (int)op, sizeof(WITHOUT)) != NULL) {
            continue;
        }
        struct right want = right_of((uint8_t)op);
        refuse(e, NULL);
        struct fc_reply r = send(e, want.op, "a", &v);
        if (r.status != PS_PERMISSION_DENIED || strstr(r.text, psi_op_name(want.op)) == NULL) {
            fail_msg("%s gave %s '%s'", psi_op_name(want.op), r.status == FC_NONE ? "nothing" : ps_status_name(r.status), r.text);
        }
        assert_int_equal(asked.count, 1);
        assert_asked(0, want.right, want.container);
        tried++;
    }
    assert_true(tried > ARRAY_COUNT(ROWS));
    struct peek p = peek_at(e->t, "w");
    assert_true(p.found && !p.initialised && p.count == 1); /* nothing was done */
}

/* The second item is refused: the right to each was asked, and nothing of the first is done. */
TEST(test_each_item_of_a_list)
{
    static const uint8_t lists[] = {PS_OP_OPEN, PS_OP_FIND, PS_OP_CREATE, PS_OP_SEAL, PS_OP_WAIT};
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer in_a = make(e, "a"), in_b = make(e, "b");
    assert_applied(fc_init_var(&e->c, in_a.handle, ps_zeros(), ps_sgd(1), 0, false));
    assert_applied(fc_init_var(&e->c, in_b.handle, ps_zeros(), ps_sgd(1), 0, false));
    for (size_t i = 0; i < ARRAY_COUNT(lists); i++) {
        struct wire *body = wire_new();
        add_item(body, lists[i], "a", &in_a);
        add_item(body, lists[i], "b", &in_b);
        add_item(body, lists[i], "a", &in_a);
        refuse(e, "b");
        assert_reply(fc_call(&e->c, lists[i], 0, e->c.next_id++, 0, NULL, 0, body), PS_PERMISSION_DENIED, "container 'b'");
        assert_int_equal(asked.count, 2);
        assert_string_equal(asked.containers[0], "a");
        assert_string_equal(asked.containers[1], "b");
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
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer in_a = make(e, "a"), in_b = make(e, "b");
    refuse(e, "b");
    for (uint16_t i = 0; i < 3; i++) {
        asked.count = 0;
        assert_list_refused(e, PS_OP_CREATE, i, &in_a, &in_b);
        asked.count = 0;
        assert_list_refused(e, PS_OP_WAIT, i, &in_a, &in_b);
    }
    assert_int_equal(peek_at(e->t, "x").count, 2);
}

/* What has no container is its handler's to refuse; a RESET without an item is about the default container. */
TEST(test_no_container)
{
    ps_v1_OpenAnswer gone = {.handle = 777};
    struct env *e = env_new(NULL);
    refuse(e, NULL);
    assert_reply(send(e, PS_OP_SEAL, "a", &gone), PS_ABORTED, "handle 777");
    assert_reply(send(e, PS_OP_OPEN, "!", &gone), PS_OK, "");
    assert_int_equal(asked.count, 0);
    struct wire *body = wire_new();
    assert_reply(fc_call(&e->c, PS_OP_RESET, 0, 900, 0, NULL, 0, body), PS_PERMISSION_DENIED, "localhost");
    assert_asked(0, PSD_RIGHT_ADMINISTER, "localhost");
}

/* A SEAL of nothing, and of what is not there, has asked for no right: no chief is followed for it. */
TEST(test_no_seal_without_a_variable)
{
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = make(e, "a");
    uint8_t meta[PS_META_BYTES_MAX];
    const ps_v1_Seal seal = {.chief_number = PS_CHIEF_NUMBER_MAX};
    size_t meta_bytes = 0;
    assert_int_equal(psi_msg_encode(&ps_v1_Seal_msg, &seal, meta, sizeof(meta), &meta_bytes, NULL), PS_OK);
    refuse(e, NULL);
    assert_reply(fc_call(&e->c, PS_OP_SEAL, 0, e->c.next_id++, 0, meta, (uint32_t)meta_bytes, NULL), PS_INVALID_ARGUMENT,
                 "no variable");
    assert_reply(fc_seal(&e->c, 777, 1, PS_CHIEF_NUMBER_MAX), PS_ABORTED, "handle 777");
    assert_reply(fc_seal(&e->c, v.handle, v.creation + 1, PS_CHIEF_NUMBER_MAX), PS_PERMISSION_DENIED, "container 'a'");
    refuse(e, "");
    assert_applied(fc_init_var(&e->c, v.handle, ps_zeros(), ps_sgd(1), fc_chief(&e->c), false));
}

/* A refused mutation is the outcome of its number, also when it comes again after the right was given. */
TEST(test_a_refused_number_stays_refused)
{
    static const float ones[4] = {1, 1, 1, 1};
    struct env *e = env_new(NULL);
    ps_v1_OpenAnswer v = make(e, "a");
    assert_applied(fc_init_var(&e->c, v.handle, ps_zeros(), ps_sgd(1), 0, false));
    refuse(e, "a");
    uint64_t number = e->c.next_number;
    assert_reply(fc_push(&e->c, PS_OP_PUSH, &v, ones, 1, 0), PS_PERMISSION_DENIED, "container 'a'");
    assert_reply(fc_init_var(&e->c, v.handle, ps_ones(), ps_sgd(1), 0, true), PS_PERMISSION_DENIED, "container 'a'");
    refuse(e, "");
    fc_cut(&e->c);
    assert_int_equal(fc_connect(&e->c), PS_OK);
    struct fc_part part = {.op = PS_OP_PUSH, .dtype = PS_F32, .number = number, .handle = v.handle, .total = 4, .scale = 1};
    part.payload = ones;
    part.payload_bytes = sizeof(ones);
    fc_send_frames(&e->c, &part, 0, 0);
    assert_reply(fc_take(&e->c, NULL), PS_PERMISSION_DENIED, "container 'a'");
    assert_int_equal(asked.count, 1);
    assert_applied(fc_push(&e->c, PS_OP_PUSH, &v, ones, 1, 0));
    assert_floats(peek_at(e->t, "w").value, 0, 4, -1);
}
