/* SPDX-License-Identifier: Apache-2.0 */
/* The log names who asked: program, host and process of the session, as its HELLO said them. */
#include "save_test.h"

#define WHO "peer=psctl@testhost:4711"

/* A session of psctl with t; it is no task of the cluster. */
static struct fc *operator_of(struct shell_task *t, uint8_t id)
{
    struct fc_hello hello;
    struct fc *c = test_alloc(sizeof(*c));
    fc_init(c, t, id);
    fc_hello_default(c, &hello);
    PSI_IGNORE(PSI_BYTES_SET(hello.m.program, "psctl")); /* fits */
    assert_int_equal(fc_hello(c, &hello), PS_OK);
    shell_log_clear(t);
    return c;
}

/* The log has a line of this event, and that one names who asked for it. */
static bool says_who(const struct shell_task *t, const char *event, const char *who)
{
    const char *line = t->log_bytes == 0 ? NULL : strstr(t->log, event);
    const char *end = line == NULL ? NULL : strchr(line, '\n');
    const char *at = line == NULL ? NULL : strstr(line, who);
    bool found = at != NULL && (end == NULL || at < end);
    if (!found) {
        print_message("no %s with %s in:\n%s\n", event, who, t->log_bytes == 0 ? "" : t->log);
    }
    return found;
}

TEST(test_reset_on_every_task)
{
    struct cl *cl = cl_new();
    ps_v1_CreateAnswer a;
    assert_int_equal(cl_create(cl, "v", "ps", 0, false, &a), PS_OK);
    assert_int_equal(cl_create(cl, "w", "ps", 1, false, &a), PS_OK);
    struct fc *c = operator_of(cl->ps0, 50);
    shell_log_clear(cl->ps1);
    PSI_IGNORE(fc_reset(c, 60, "localhost")); /* answered when the other tasks have */
    shell_run(&cl->net);
    assert_true(says_who(cl->ps0, "container_reset", WHO));
    assert_true(says_who(cl->ps1, "container_reset", WHO));
    /* a task of the cluster: its name */
    struct fc_hello hello;
    struct fc worker;
    fc_init(&worker, cl->ps0, 51);
    fc_hello_default(&worker, &hello);
    PSI_IGNORE(PSI_BYTES_SET(hello.m.job, "worker")); /* fits */
    assert_int_equal(fc_hello(&worker, &hello), PS_OK);
    assert_int_equal(cl_create(cl, "v", "ps", 0, false, &a), PS_OK);
    shell_log_clear(cl->ps0);
    PSI_IGNORE(fc_reset(&worker, 61, "localhost")); /* as before */
    shell_run(&cl->net);
    assert_true(says_who(cl->ps0, "container_reset", "peer=/job:worker/task:0@testhost:4711"));
}

TEST(test_what_is_asked_of_one_task)
{
    struct cl *cl = cl_new();
    ps_v1_SetRate m = ps_v1_SetRate_init_zero;
    ps_v1_ContainerItem in = ps_v1_ContainerItem_init_zero;
    uint8_t meta[PS_META_BYTES_MAX];
    size_t bytes = 0;
    PSI_IGNORE(fc_ready(&cl->c, "v", PS_F32, 4, ps_sgd(1), 1)); /* it is there */
    struct fc *c = operator_of(cl->ps0, 50);
    PSI_IGNORE(PSI_BYTES_SET(in.container, "localhost")); /* fits */
    PSI_IGNORE(PSI_BYTES_SET(m.name, "v"));               /* fits */
    m.rate = 0.5;
    assert_int_equal(psi_msg_encode(&ps_v1_SetRate_msg, &m, meta, sizeof(meta), &bytes, NULL), PS_OK);
    struct wire *body = wire_new();
    wire_item(body, &ps_v1_ContainerItem_msg, &in);
    assert_applied(fc_call(c, PS_OP_SET_RATE, 0, c->next_id++, 0, meta, (uint32_t)bytes, body));
    assert_true(says_who(cl->ps0, "rate_set", WHO));
    PSI_IGNORE(fc_list(c, PS_OP_STOP, NULL, NULL, NULL)); /* the log is looked at */
    assert_true(says_who(cl->ps0, "stop_asked", WHO));
    PSI_IGNORE(fc_delete(c, 70, "v")); /* the log is looked at */
    assert_true(says_who(cl->ps0, "delete_asked", WHO) && says_who(cl->ps0, "delete_asked", "var=v"));
    shell_log_clear(cl->ps0);
    assert_reply(fc_delete(c, 71, "v"), PS_NOT_FOUND, "no variable");
    assert_false(shell_logged(cl->ps0, "delete_asked")); /* refused: nothing is deleted */
    assert_applied(fc_call(c, PS_OP_SHUTDOWN, 0, 72, 0, NULL, 0, NULL));
    assert_true(says_who(cl->ps0, "shutdown_asked", WHO));
}

static struct fc_reply by_name(struct sv *sv, struct fc *c, uint8_t op, uint64_t number)
{
    ps_v1_SavedNameItem m = {.number = number, .force = true};
    struct wire *body = wire_new();
    wire_item(body, &ps_v1_SavedNameItem_msg, &m);
    struct fc_reply r = fc_call(c, op, 0, c->next_id++, 0, NULL, 0, body);
    sv_run(sv);
    return r;
}

TEST(test_checkpoints)
{
    struct sv *sv = sv_new();
    static const float ones[4] = {1, 1, 1, 1};
    ps_v1_OpenAnswer v = fc_ready(&sv->c, "v", PS_F32, 4, ps_sgd(1), 1);
    struct fc *c = operator_of(sv->t[0], 50);
    assert_applied(fc_push(c, PS_OP_ASSIGN, &v, ones, 1, 0)); /* an import does so, and then saves what it has given */
    PSI_IGNORE(fc_call(c, PS_OP_CHECKPOINT, 0, c->next_id++, 0, NULL, 0, NULL)); /* the log is looked at */
    sv_run(sv);
    assert_true(says_who(sv->t[0], "checkpoint_asked", WHO) && shell_logged(sv->t[0], "checkpoint_saved checkpoint=1"));
    assert_true(says_who(sv->t[0], "assign_asked", WHO));
    assert_true(strstr(sv->t[0]->log, "assign_asked") < strstr(sv->t[0]->log, "checkpoint_asked"));
    PSI_IGNORE(by_name(sv, c, PS_OP_CHECKPOINT_RESTORE, 1)); /* the log is looked at */
    assert_true(says_who(sv->t[0], "restore_asked", WHO) && says_who(sv->t[0], "restore_asked", "checkpoint=1"));
    assert_true(shell_logged(sv->t[0], "checkpoint_restored"));
    PSI_IGNORE(by_name(sv, c, PS_OP_CHECKPOINT_DELETE, 1)); /* the log is looked at */
    assert_true(says_who(sv->t[0], "checkpoint_deleted", WHO));
    shell_log_clear(sv->t[0]);
    PSI_IGNORE(by_name(sv, c, PS_OP_CHECKPOINT_DELETE, 77)); /* refused */
    PSI_IGNORE(by_name(sv, c, PS_OP_CHECKPOINT_RESTORE, 77));
    assert_false(shell_logged(sv->t[0], "checkpoint_deleted") || shell_logged(sv->t[0], "restore_asked"));
}

/* How many lines of this event the log has. */
static uint32_t lines_of(const struct shell_task *t, const char *event)
{
    uint32_t count = 0;
    const char *at = t->log_bytes == 0 ? NULL : t->log;
    while (at != NULL && (at = strstr(at, event)) != NULL) {
        count++;
        at += strlen(event);
    }
    return count;
}

/* What one call of a program does to many variables is one line, written when no more of it has come for a while, or when the
 * program says goodbye. */
TEST(test_many_are_one_line)
{
    enum { MANY = 50 };
    static float ones[100];
    ps_v1_OpenAnswer v[MANY];
    struct cl *cl = cl_new();
    char name[16];
    for (uint32_t i = 0; i < MANY; i++) {
        PSI_IGNORE(snprintf(name, sizeof(name), "v%u", i)); /* fits */
        ps_v1_CreateAnswer a;
        assert_int_equal(cl_create(cl, name, "ps", 0, false, &a), PS_OK);
        assert_int_equal(fc_open(&cl->c, name, &v[i]), PS_OK);
    }
    uint64_t chief = fc_chief(&cl->c);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_applied(fc_init_var(&cl->c, v[i].handle, ps_constant(2), ps_sgd(0.5), chief, false)); /* made with sgd(1) */
    }
    assert_int_equal(lines_of(cl->ps0, "hyperparameters"), 0);
    cl_pass(cl, 2000);
    assert_int_equal(lines_of(cl->ps0, "hyperparameters"), 1);
    assert_true(says_who(cl->ps0, "hyperparameters", "var=v0 variables=50"));
    assert_true(says_who(cl->ps0, "hyperparameters", "now=\"sgd(learning_rate=0.5)\""));
    /* values that a program gives which is no task of the cluster */
    struct fc *c = operator_of(cl->ps0, 50);
    for (uint32_t i = 0; i < MANY; i++) {
        assert_applied(fc_push(c, PS_OP_ASSIGN, &v[i], ones, 1, 0));
    }
    assert_int_equal(lines_of(cl->ps0, "assign_asked"), 0);
    assert_applied(fc_call(c, PS_OP_GOODBYE, 0, 900, 0, NULL, 0, NULL));
    assert_int_equal(lines_of(cl->ps0, "assign_asked"), 1);
    assert_true(says_who(cl->ps0, "assign_asked", WHO " var=v0 variables=50"));
    /* another program, another line */
    struct fc *first = operator_of(cl->ps0, 51), *second = operator_of(cl->ps0, 52);
    assert_applied(fc_push(first, PS_OP_ASSIGN, &v[1], ones, 1, 0));
    assert_applied(fc_push(first, PS_OP_ASSIGN, &v[2], ones, 1, 0));
    assert_applied(fc_call(first, PS_OP_GOODBYE, 0, 900, 0, NULL, 0, NULL));
    assert_applied(fc_push(second, PS_OP_ASSIGN, &v[3], ones, 1, 0));
    cl_pass(cl, 2000);
    assert_int_equal(lines_of(cl->ps0, "assign_asked"), 2);
}

/* A line that does not end is written now and then. */
TEST(test_one_that_goes_on)
{
    static const float ones[4] = {1, 1, 1, 1};
    struct cl *cl = cl_new();
    ps_v1_OpenAnswer v = fc_ready(&cl->c, "v", PS_F32, 4, ps_sgd(1), 1);
    struct fc *c = operator_of(cl->ps0, 50);
    for (uint32_t ms = 0; ms < 65000; ms += 100) {
        assert_applied(fc_push(c, PS_OP_ASSIGN, &v, ones, 1, 0));
        shell_pass(&cl->net, 100);
    }
    assert_in_range(lines_of(cl->ps0, "assign_asked"), 1, 2);
    /* a worker assigns as part of its training: that is not logged */
    struct fc_hello hello;
    struct fc worker;
    fc_init(&worker, cl->ps0, 51);
    fc_hello_default(&worker, &hello);
    PSI_IGNORE(PSI_BYTES_SET(hello.m.job, "worker")); /* fits */
    assert_int_equal(fc_hello(&worker, &hello), PS_OK);
    shell_pass(&cl->net, 2000);
    shell_log_clear(cl->ps0);
    assert_applied(fc_push(&worker, PS_OP_ASSIGN, &v, ones, 1, 0));
    shell_pass(&cl->net, 2000);
    assert_int_equal(lines_of(cl->ps0, "assign_asked"), 0);
}
