/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint is restored while sessions have containers of their own: they stay, and their sessions go on with them. */
#include "starts_test.h"

static const char own_name[] = "session/00112233445566aa";

/* The program has the same container and key at both tasks. */
static void hello_own(struct fc *c)
{
    struct fc_hello hello;
    fc_cut(c);
    fc_hello_default(c, &hello);
    PSI_BYTES_SET(hello.m.session_container, own_name);
    hello.m.key.size = PSI_KEY_BYTES;
    memset(hello.m.key.bytes, 7, PSI_KEY_BYTES);
    assert_int_equal(fc_hello(c, &hello), PS_OK);
}

static void create_own(struct st *s, const char *name, uint32_t task)
{
    ps_v1_CreateItem m;
    fc_create_item(&m, name, PS_F32, N, ps_no_optimizer());
    PSI_BYTES_SET(m.container, own_name);
    m.task = task;
    m.pinned = true;
    m.key.size = PSI_KEY_BYTES;
    memset(m.key.bytes, 7, PSI_KEY_BYTES);
    assert_int_equal(fc_create(&s->sv->c, &m, NULL), PS_OK);
}

static ps_v1_OpenAnswer open_own(struct fc *at, const char *name)
{
    ps_v1_NameItem item = ps_v1_NameItem_init_zero;
    ps_v1_OpenAnswer a = ps_v1_OpenAnswer_init_zero;
    struct wire *out = wire_new();
    PSI_BYTES_SET(item.container, own_name);
    PSI_BYTES_SET(item.name, name);
    item.key.size = PSI_KEY_BYTES;
    memset(item.key.bytes, 7, PSI_KEY_BYTES);
    assert_applied(fc_list(at, PS_OP_OPEN, &ps_v1_NameItem_msg, &item, out));
    const uint8_t *p = out->data;
    size_t n = out->len;
    assert_true(fc_item(&p, &n, &ps_v1_OpenAnswer_msg, &a));
    assert_int_equal(a.status, PS_OK);
    return a;
}

/* A variable with this value at the task of `at`. */
static ps_v1_OpenAnswer made_own(struct st *s, struct fc *at, const char *name, uint32_t task, float value)
{
    create_own(s, name, task);
    ps_v1_OpenAnswer a = open_own(at, name);
    set_one(at, &a, value);
    return a;
}

/* As it was opened before the restore, and with the same value. */
static void assert_own(struct fc *at, const ps_v1_OpenAnswer *a, float value)
{
    static float values[N];
    assert_int_equal(fc_pull(at, a, 0, N, values).status, PS_OK);
    for (int i = 0; i < N; i++) {
        assert_true(values[i] == value + (float)i);
    }
}

TEST(test_a_restore_keeps_containers_of_sessions)
{
    struct st *s = st_new(sv_with_disk);
    set(s, 1);
    assert_int_equal(save(s), 1);
    set(s, 2);
    hello_own(&s->sv->c);
    hello_own(&s->at1);
    const ps_v1_OpenAnswer a = made_own(s, &s->sv->c, "plan0/value0_0", 0, 10);
    const ps_v1_OpenAnswer b = made_own(s, &s->at1, "plan0/value1_1", 1, 20);
    assert_int_equal(s->sv->t[0]->core->names.of_sessions, 1);
    sv_ask_by_name(s->sv, PS_OP_CHECKPOINT_RESTORE, 1, false);
    sv_run(s->sv);
    struct fc_reply r = fc_take(&s->sv->c, NULL);
    PSI_IGNORE(sv_number(&r)); /* it is OK */
    assert_both(s, 1, 1);      /* the model has gone back */
    assert_own(&s->sv->c, &a, 10);
    assert_own(&s->at1, &b, 20);
    set_one(&s->sv->c, &a, 11); /* and the session goes on with them */
    set_one(&s->at1, &b, 21);
    assert_own(&s->sv->c, &a, 11);
    assert_own(&s->at1, &b, 21);
    const ps_v1_OpenAnswer c = made_own(s, &s->at1, "plan0/value2_2", 1, 30);
    assert_own(&s->at1, &c, 30);
    assert_applied(fc_call(&s->sv->c, PS_OP_GOODBYE, 0, s->sv->c.next_id++, 0, NULL, 0, NULL));
    shell_pass(&s->sv->net, 400);
    assert_null(psd_container_find(&s->sv->t[0]->core->store, own_name));
    assert_null(psd_container_find(&s->sv->t[1]->core->store, own_name));
    assert_int_equal(s->sv->t[0]->core->names.of_sessions, 0);
}
