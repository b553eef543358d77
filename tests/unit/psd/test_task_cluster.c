/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The directory and the other tasks, wired in memory: lists, creations that go to their owner, owners that drop out, come back
 * empty or answer late, restarts of the directory, deletes. Resets and fences are in test_task_reset.c.
 */
#include "cluster_test.h"

TEST(test_waits_for_the_lists_of_its_job)
{
    ps_v1_CreateAnswer a;
    ps_v1_InfoAnswer info;
    struct cl *cl = cl_new_apart();
    assert_true(cl->ps0->ready); /* it serves, but knows nothing yet */
    assert_int_equal(cl_create(cl, "x", "ps", 0, false, &a), PS_UNAVAILABLE);
    assert_true(says(&a, "/job:ps/task:1"));
    assert_false(says(&a, "worker"));
    assert_int_not_equal(a.retry_after_ms, 0);
    assert_int_equal(fc_find(&cl->c, "x", &a), PS_UNAVAILABLE);
    assert_int_equal(fc_info(&cl->c, &info), PS_OK);
    assert_memory_equal(info.waiting_for.bytes, "/job:ps/task:1", 14);
    assert_int_equal(info.waiting, PS_WAITING_TASKS);
    PSI_IGNORE(cl_join(cl, cl->ps1)); /* its end is of no use here */
    assert_int_equal(fc_info(&cl->c, &info), PS_OK);
    assert_int_equal(info.waiting_for.size, 0);
    assert_int_equal(info.waiting, PS_WAITING_UNSAID);
    assert_int_equal(fc_find(&cl->c, "x", &a), PS_NOT_FOUND); /* nothing was recorded */
    assert_int_equal(cl_create(cl, "x", "ps", 0, false, &a), PS_OK);
    assert_int_equal(cl_create(cl, "y", "worker", 0, true, &a), PS_UNAVAILABLE); /* it has not come */
    assert_true(says(&a, "/job:worker/task:0 (10.0.0.3:3)"));
    assert_int_equal(fc_find(&cl->c, "y", &a), PS_NOT_FOUND);
}

/* An order of the directory to its own task is carried out before the next request of the same read. */
TEST(test_create_here_comes_before_a_reset)
{
    struct cl *cl = cl_new();
    ps_v1_CreateItem m;
    struct wire frames, body;
    wire_init(&frames);
    wire_init(&body);
    fc_create_item(&m, "x", PS_F32, 100, ps_sgd(1));
    PSI_IGNORE(PSI_BYTES_SET(m.job, "ps")); /* fits */
    wire_item(&body, &ps_v1_CreateItem_msg, &m);
    fc_frame(&cl->c, &frames, PS_OP_CREATE, 0, cl->c.next_id++, 0, NULL, 0, &body);
    fc_frame(&cl->c, &frames, PS_OP_RESET, 0, cl->c.next_id++, 0, NULL, 0, NULL);
    shell_send(cl->c.conn, &frames);
    wire_fini(&frames);
    wire_fini(&body);
    assert_int_equal(fc_take(&cl->c, NULL).status, PS_OK);
    assert_int_equal(fc_take(&cl->c, NULL).status, PS_OK);
    assert_int_equal(fc_find(&cl->c, "x", NULL), PS_NOT_FOUND);
    assert_int_equal(fc_open(&cl->c, "x", NULL), PS_NOT_FOUND);
}

/* Names that have no room in a text are counted. */
TEST(test_waits_for_many_lists)
{
    enum { TASKS = 200 };
    char spec[TASKS * 20] = "ps=10.0.0.1:1";
    ps_status st = PS_OK;
    ps_v1_CreateItem m;
    ps_v1_CreateAnswer a;
    ps_v1_InfoAnswer info;
    struct shell_net net;
    size_t used = strlen(spec);
    for (int i = 1; i < TASKS; i++) {
        used += (size_t)snprintf(spec + used, sizeof(spec) - used, ",10.0.0.%d:1", i + 1);
    }
    shell_net_init(&net);
    struct shell_task *ps0 = shell_task_new(&net, spec, "ps", 0, 1, START_MS, NULL, &st);
    assert_int_equal(st, PS_OK);
    struct fc *c = fc_new(ps0, 1);
    fc_create_item(&m, "x", PS_F32, 1, ps_sgd(1));
    assert_int_equal(fc_create(c, &m, &a), PS_UNAVAILABLE);
    assert_true(says(&a, "waits for /job:ps/task:1, /job:ps/task:2") && says(&a, " and 185 more: variable 'x'"));
    assert_int_equal(fc_find(c, "x", &a), PS_UNAVAILABLE);
    assert_true(says(&a, " and 185 more: variable 'x'"));
    assert_reply(fc_reset(c, 50, ""), PS_UNAVAILABLE, "/job:ps/task:1 (10.0.0.2:1), /job:ps/task:2 (10.0.0.3:1)");
    assert_reply(fc_reset(c, 51, ""), PS_UNAVAILABLE, " and 191 more");
    assert_int_equal(fc_info(c, &info), PS_OK);
    assert_memory_equal(info.waiting_for.bytes + info.waiting_for.size - 13, " and 185 more", 13);
    shell_net_fini(&net);
}

TEST(test_create_goes_to_its_owner)
{
    ps_v1_CreateAnswer a;
    struct cl *cl = cl_new();
    assert_int_equal(cl_create(cl, "x", "ps", 1, false, &a), PS_OK);
    assert_true(a.created);
    assert_int_equal(a.task, 1);
    assert_int_equal(fc_open(&cl->at1, "x", NULL), PS_OK);
    assert_int_equal(fc_open(&cl->c, "x", NULL), PS_NOT_FOUND);
    /* round robin elsewhere finds it; a pin elsewhere is a conflict that names both; a pin to where it is is none */
    assert_int_equal(cl_create(cl, "x", "ps", 0, false, &a), PS_OK);
    assert_int_equal(a.task, 1);
    assert_false(a.created);
    assert_int_equal(cl_create(cl, "x", "ps", 0, true, &a), PS_INVALID_ARGUMENT);
    assert_true(says(&a, "/job:ps/task:1") && says(&a, "/job:ps/task:0"));
    assert_int_equal(cl_create(cl, "x", "ps", 1, true, &a), PS_OK);
    assert_int_equal(fc_find(&cl->c, "x", &a), PS_OK);
    assert_int_equal(a.task, 1);
    /* a worker takes what is pinned to it only */
    assert_int_equal(cl_create(cl, "y", "worker", 0, false, &a), PS_INVALID_ARGUMENT);
    assert_true(says(&a, "pinned"));
    assert_int_equal(cl_create(cl, "y", "worker", 0, true, &a), PS_OK);
    assert_memory_equal(a.job.bytes, "worker", 6);
    assert_int_equal(fc_open(&cl->atw, "y", NULL), PS_OK);
    /* a conflict of definitions is told by the directory */
    ps_v1_CreateItem m;
    fc_create_item(&m, "x", PS_F64, 100, ps_sgd(1));
    assert_int_equal(fc_create(&cl->c, &m, &a), PS_INVALID_ARGUMENT);
    assert_true(says(&a, "/job:ps/task:1") && says(&a, "float64") && says(&a, "float32"));
}

static void no_memory(struct psd_task_config *config)
{
    config->memory_budget_bytes = PSD_CONTAINER_BYTES + psd_variable_record_bytes("x", 1, false) + psd_arena_bytes(40);
}

/* The owner's own refusal is the answer, and takes the name away. */
TEST(test_owner_refuses)
{
    ps_v1_CreateAnswer a;
    ps_status st = PS_OK;
    struct cl *cl = cl_new_apart();
    shell_task_free(cl->ps1);
    cl->ps1 = shell_task_new(&cl->net, SPEC, "ps", 1, 77, cl->net.tasks[0]->now, no_memory, &st);
    PSI_IGNORE(cl_join(cl, cl->ps1)); /* its end is of no use here */
    assert_int_equal(cl_create(cl, "x", "ps", 1, false, &a), PS_FAILED_PRECONDITION);
    assert_true(says(&a, "memory_budget"));
    assert_int_equal(fc_find(&cl->c, "x", &a), PS_NOT_FOUND);
    assert_int_equal(cl_create(cl, "x", "ps", 0, false, &a), PS_OK);
    assert_int_equal(a.task, 0);
}

/* FAULTS 19: two workers create one name with two shapes while its owner has not answered either: the first has it, the second is
 * told at once with both sides; the same definition again waits for the owner and is no second creation. */
TEST(test_two_definitions_race)
{
    for (int refused = 0; refused < 2; refused++) {
        struct cl cl;
        struct fc other, third;
        ps_v1_CreateItem m;
        ps_v1_CreateAnswer a;
        ps_v1_OpenAnswer v;
        ps_status st = PS_OK;
        cl_start(&cl);
        if (refused == 1) { /* the first one's value is more than the owner can hold */
            shell_task_free(cl.ps1);
            cl.ps1 = shell_task_new(&cl.net, SPEC, "ps", 1, 77, cl.net.tasks[0]->now, no_memory, &st);
        }
        struct shell_conn *end = cl_join(&cl, cl.ps1);
        fc_init(&other, cl.ps0, 2);
        fc_init(&third, cl.ps0, 3);
        assert_true(fc_connect(&other) == PS_OK && fc_connect(&third) == PS_OK);
        struct wire *body = wire_new(), *back = wire_new();
        fc_create_item(&m, "x", PS_F32, 100, ps_sgd(1));
        m.task = 1;
        wire_item(body, &ps_v1_CreateItem_msg, &m);
        end->peer->frozen = true; /* its answers do not come through */
        assert_int_equal(fc_call(&cl.c, PS_OP_CREATE, 0, 50, 0, NULL, 0, body).status, FC_NONE);
        assert_int_equal(fc_call(&third, PS_OP_CREATE, 0, 50, 0, NULL, 0, body).status, FC_NONE);
        fc_create_item(&m, "x", PS_F32, 10, ps_sgd(1));
        m.task = 1;
        assert_int_equal(fc_create(&other, &m, &a), PS_INVALID_ARGUMENT);
        assert_true(says(&a, "SHAPE_MISMATCH") && says(&a, "(100,)") && says(&a, "(10,)") && says(&a, "/job:ps/task:1"));
        end->peer->frozen = false;
        shell_pass(&cl.net, 100);
        for (int i = 0; i < 2; i++) {
            wire_clear(back);
            assert_applied(fc_take(i == 0 ? &cl.c : &third, back));
            const uint8_t *p = back->data;
            size_t n = back->len;
            assert_true(fc_item(&p, &n, &ps_v1_CreateAnswer_msg, &a));
            assert_int_equal(a.status, refused == 0 ? PS_OK : PS_FAILED_PRECONDITION);
            assert_int_equal(a.created, refused == 0 && i == 0);
        }
        /* afterwards it is the first one's, or, where that could not be had, free for the second */
        assert_int_equal(fc_create(&other, &m, &a), refused == 0 ? PS_INVALID_ARGUMENT : PS_OK);
        if (refused == 0) {
            assert_int_equal(fc_open(&cl.at1, "x", &v), PS_OK);
            assert_true(v.dims_count == 1 && v.dims[0] == 100);
        }
        cl_fini(&cl);
    }
}

/* Asked, and the connection drops before the answer: UNAVAILABLE, but the name stays where it is. */
TEST(test_owner_drops_out_before_it_answers)
{
    for (int how = 0; how < 2; how++) {
        struct cl cl;
        ps_v1_CreateAnswer a;
        cl_start(&cl);
        struct shell_conn *end = cl_join(&cl, cl.ps1);
        if (how == 0) {
            end->frozen = true; /* the request never arrives */
        } else {
            end->peer->frozen = true; /* it does; the answer does not */
        }
        ps_v1_CreateItem m;
        struct wire *body = wire_new(), *back = wire_new();
        fc_create_item(&m, "x", PS_F32, 100, ps_sgd(1));
        m.task = 1;
        wire_item(body, &ps_v1_CreateItem_msg, &m);
        assert_int_equal(fc_call(&cl.c, PS_OP_CREATE, 0, 50, 0, NULL, 0, body).status, FC_NONE);
        shell_cut(end);
        assert_applied(fc_take(&cl.c, back));
        const uint8_t *p = back->data;
        size_t n = back->len;
        assert_true(fc_item(&p, &n, &ps_v1_CreateAnswer_msg, &a));
        assert_int_equal(a.status, PS_UNAVAILABLE);
        assert_true(says(&a, "/job:ps/task:1"));
        assert_int_equal(fc_find(&cl.c, "x", &a), PS_OK);
        assert_int_equal(a.task, 1);
        assert_int_equal(cl_create(&cl, "x", "ps", 0, false, &a), PS_UNAVAILABLE); /* not made anew elsewhere */
        PSI_IGNORE(cl_join(&cl, cl.ps1));                                          /* its end is of no use here */
        assert_int_equal(cl_create(&cl, "x", "ps", 0, false, &a), PS_OK);
        assert_int_equal(a.task, 1);
        assert_int_equal(a.created, how == 0);
        assert_int_equal(fc_open(&cl.at1, "x", NULL), PS_OK);
        cl_fini(&cl);
    }
}

/* The client is gone when the answer comes, or has given up by ACK: the answer is recorded, nothing else. */
TEST(test_client_is_gone_before_the_answer)
{
    for (int how = 0; how < 3; how++) {
        struct cl cl;
        ps_v1_CreateAnswer a;
        cl_start(&cl);
        struct shell_conn *end = cl_join(&cl, cl.ps1);
        end->frozen = true;
        struct wire *body = wire_new();
        ps_v1_CreateItem m;
        fc_create_item(&m, "x", PS_F32, 100, ps_sgd(1));
        m.task = 1;
        wire_item(body, &ps_v1_CreateItem_msg, &m);
        assert_int_equal(fc_call(&cl.c, PS_OP_CREATE, 0, 50, 0, NULL, 0, body).status, FC_NONE);
        if (how == 0) {
            fc_ack(&cl.c, 50);
        } else if (how == 1) {
            assert_applied(fc_call(&cl.c, PS_OP_GOODBYE, 0, 51, 0, NULL, 0, NULL));
        } else {
            fc_cut(&cl.c);
        }
        shell_thaw(end);
        if (how > 0) {
            assert_int_equal(fc_connect(&cl.c), PS_OK);
        }
        if (how == 2) { /* asked again with its number: the result was kept */
            assert_applied(fc_call(&cl.c, PS_OP_CREATE, 0, 50, 0, NULL, 0, body));
        }
        assert_int_equal(cl_create(&cl, "x", "ps", 0, false, &a), PS_OK);
        assert_int_equal(a.task, 1);
        assert_false(a.created);
        cl_fini(&cl);
    }
}

/* It came back empty: its names stay assigned to it, the next get-or-create makes them there anew, uninitialised. */
TEST(test_owner_comes_back_empty)
{
    ps_v1_CreateAnswer a;
    ps_v1_OpenAnswer v;
    struct cl *cl = cl_new();
    assert_int_equal(cl_create(cl, "x", "ps", 1, false, &a), PS_OK);
    assert_int_equal(fc_open(&cl->at1, "x", &v), PS_OK);
    assert_applied(fc_init_var(&cl->at1, v.handle, ps_ones(), ps_sgd(1), 0, false));
    shell_task_free(cl->ps1);
    shell_run(&cl->net);
    assert_int_equal(cl_create(cl, "x", "ps", 0, false, &a), PS_UNAVAILABLE);
    cl->ps1 = cl_task(cl, "ps", 1);
    PSI_IGNORE(cl_join(cl, cl->ps1)); /* its end is of no use here */
    assert_int_equal(fc_find(&cl->c, "x", &a), PS_OK);
    cl->at1.task = cl->ps1;
    assert_int_equal(fc_connect(&cl->at1), PS_OK);
    assert_int_equal(fc_open(&cl->at1, "x", &v), PS_NOT_FOUND);
    assert_int_equal(cl_create(cl, "x", "ps", 0, false, &a), PS_OK);
    assert_int_equal(a.task, 1);
    assert_true(a.created);
    assert_int_equal(fc_open(&cl->at1, "x", &v), PS_OK);
    assert_false(v.initialised);
}

/* The directory restarts: it learns names and the chief number from the lists; the owners' variables are as they were. */
TEST(test_directory_restarts)
{
    ps_v1_CreateAnswer a;
    ps_v1_OpenAnswer before, after;
    struct cl *cl = cl_new();
    assert_int_equal(cl_create(cl, "x", "ps", 1, false, &a), PS_OK);
    assert_int_equal(cl_create(cl, "z", "ps", 0, false, &a), PS_OK);
    assert_int_equal(fc_open(&cl->at1, "x", &before), PS_OK);
    for (int i = 0; i < 6; i++) {
        PSI_IGNORE(fc_chief(&cl->c)); /* only the last one counts */
    }
    uint64_t chief = fc_chief(&cl->c);
    assert_applied(fc_init_var(&cl->at1, before.handle, ps_ones(), ps_sgd(1), chief, false));
    cl_restart_directory(cl);
    assert_int_equal(fc_find(&cl->c, "x", &a), PS_UNAVAILABLE);
    assert_int_equal(cl_create(cl, "x", "ps", 0, false, &a), PS_UNAVAILABLE);
    assert_int_equal(fc_open(&cl->at1, "x", &after), PS_OK); /* the owner goes on without it */
    PSI_IGNORE(cl_join(cl, cl->ps1));                        /* its end is of no use here */
    assert_int_equal(fc_find(&cl->c, "x", &a), PS_OK);
    assert_int_equal(a.task, 1);
    assert_int_equal(cl_create(cl, "x", "ps", 0, false, &a), PS_OK);
    assert_false(a.created);
    assert_int_equal(cl_create(cl, "z", "ps", 1, false, &a), PS_OK); /* was lost with the directory's own memory */
    assert_int_equal(a.task, 1);
    assert_int_equal(fc_open(&cl->at1, "x", &after), PS_OK);
    assert_int_equal(after.creation, before.creation);
    assert_true(after.initialised);
    assert_true(fc_chief(&cl->c) > chief);
}

/* Placed elsewhere while its task was away: dropped there, and logged on both sides. */
TEST(test_name_elsewhere_is_dropped)
{
    ps_v1_CreateAnswer a;
    struct cl *cl = cl_new();
    assert_int_equal(cl_create(cl, "x", "worker", 0, true, &a), PS_OK);
    assert_int_equal(cl_create(cl, "keep", "worker", 0, true, &a), PS_OK);
    cl_restart_directory(cl);
    PSI_IGNORE(cl_join(cl, cl->ps1));                                /* its end is of no use here */
    assert_int_equal(cl_create(cl, "x", "ps", 0, false, &a), PS_OK); /* the worker has not redialled */
    assert_int_equal(a.task, 0);
    PSI_IGNORE(cl_join(cl, cl->w0)); /* likewise */
    assert_true(shell_logged(cl->ps0, "name_elsewhere"));
    assert_true(shell_logged(cl->w0, "name_elsewhere"));
    assert_int_equal(fc_open(&cl->atw, "x", NULL), PS_NOT_FOUND);
    assert_int_equal(fc_open(&cl->atw, "keep", NULL), PS_OK);
    assert_int_equal(fc_find(&cl->c, "x", &a), PS_OK);
    assert_memory_equal(a.job.bytes, "ps", 2);
    assert_int_equal(fc_find(&cl->c, "keep", &a), PS_OK);
    assert_memory_equal(a.job.bytes, "worker", 6);
}

TEST(test_delete)
{
    struct cl *cl = cl_new_apart();
    struct shell_conn *end = cl_join(cl, cl->ps1);
    assert_int_equal(cl_create(cl, "x", "ps", 1, false, NULL), PS_OK);
    assert_applied(fc_delete(&cl->c, 50, "x"));
    assert_int_equal(fc_open(&cl->at1, "x", NULL), PS_NOT_FOUND);
    assert_int_equal(fc_find(&cl->c, "x", NULL), PS_NOT_FOUND);
    assert_reply(fc_delete(&cl->c, 51, "x"), PS_NOT_FOUND, "'x'");
    assert_reply(fc_call(&cl->c, PS_OP_DELETE, 0, 52, 0, NULL, 0, NULL), PS_INVALID_ARGUMENT, "no variable");
    /* the owner drops out before it answers: nobody knows */
    assert_int_equal(cl_create(cl, "x", "ps", 1, false, NULL), PS_OK);
    end->peer->frozen = true;
    assert_int_equal(fc_delete(&cl->c, 53, "x").status, FC_NONE);
    shell_cut(end);
    struct fc_reply r = fc_take(&cl->c, NULL);
    assert_reply(r, PS_UNAVAILABLE, "/job:ps/task:1");
    assert_int_equal(r.applied, PS_OUTCOME_UNKNOWN);
    r = fc_delete(&cl->c, 54, "x");
    assert_reply(r, PS_UNAVAILABLE, "/job:ps/task:1");
    assert_int_equal(r.applied, PS_NOTHING_APPLIED);
    assert_int_not_equal(r.retry_after_ms, 0);
    PSI_IGNORE(cl_join(cl, cl->ps1)); /* its end is of no use here */
    assert_applied(fc_delete(&cl->c, 55, "x"));
    assert_int_equal(fc_find(&cl->c, "x", NULL), PS_NOT_FOUND);
}

/* A name is deleted and made anew at once: the answer to the DELETE does not take the later variable's name away. */
TEST(test_create_behind_delete)
{
    ps_v1_CreateAnswer a;
    ps_v1_CreateItem m;
    struct cl *cl = cl_new_apart();
    struct shell_conn *end = cl_join(cl, cl->ps1);
    assert_int_equal(cl_create(cl, "x", "ps", 1, false, &a), PS_OK);
    end->peer->frozen = true;
    assert_int_equal(fc_delete(&cl->c, 50, "x").status, FC_NONE);
    struct wire *body = wire_new();
    fc_create_item(&m, "x", PS_F32, 100, ps_sgd(1));
    m.task = 1;
    wire_item(body, &ps_v1_CreateItem_msg, &m);
    assert_int_equal(fc_call(&cl->c, PS_OP_CREATE, 0, 51, 0, NULL, 0, body).status, FC_NONE);
    shell_thaw(end->peer);
    shell_forget(cl->c.conn);
    assert_int_equal(fc_open(&cl->at1, "x", NULL), PS_OK);
    assert_int_equal(fc_find(&cl->c, "x", &a), PS_OK);
    assert_int_equal(a.task, 1);
    assert_int_equal(cl_create(cl, "x", "ps", 0, false, &a), PS_OK); /* no second one elsewhere */
    assert_true(!a.created && a.task == 1);
    assert_applied(fc_delete(&cl->c, 60, "x"));
    assert_int_equal(fc_find(&cl->c, "x", &a), PS_NOT_FOUND);
}

TEST(test_only_the_directory)
{
    static const uint8_t ops[] = {PS_OP_CREATE, PS_OP_FIND,         PS_OP_RESET,  PS_OP_DELETE,
                                  PS_OP_CHIEF,  PS_OP_WAIT_CLUSTER, PS_OP_BARRIER};
    ps_v1_InfoAnswer info;
    struct cl *cl = cl_new();
    for (size_t i = 0; i < ARRAY_COUNT(ops); i++) {
        assert_reply(fc_call(&cl->at1, ops[i], 0, 100 + i, 0, NULL, 0, NULL), PS_FAILED_PRECONDITION,
                     "/job:ps/task:0 (10.0.0.1:1)");
    }
    assert_int_equal(cl->at1.hello.task_count, 3);
    assert_int_equal(cl->at1.hello.directory_task, 0);
    assert_int_equal(fc_info(&cl->at1, &info), PS_OK);
    assert_false(info.directory);
    /* its HELLO is not for other tasks either */
    struct fc_hello h;
    fc_hello_default(&cl->at1, &h);
    h.m.role = 1;
    PSI_IGNORE(PSI_BYTES_SET(h.m.job, "worker")); /* fits */
    assert_int_equal(fc_hello(&cl->at1, &h), PS_FAILED_PRECONDITION);
}

TEST(test_hello_of_tasks)
{
    struct fc imposter;
    struct fc_hello h;
    struct cl *cl = cl_new();
    static const struct {
        const char *job;
        uint32_t task;
        ps_status st;
    } rows[] = {{"ps", 0, PS_FAILED_PRECONDITION},     {"ps", 2, PS_FAILED_PRECONDITION}, {"worker", 1, PS_FAILED_PRECONDITION},
                {"nobody", 0, PS_FAILED_PRECONDITION}, {"", 0, PS_FAILED_PRECONDITION},   {"worker", 0, PS_OK}};
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        fc_init(&imposter, cl->ps0, 9);
        fc_hello_default(&imposter, &h);
        h.m.role = 1;
        PSI_IGNORE(PSI_BYTES_SET(h.m.job, rows[i].job)); /* fits */
        h.m.task = rows[i].task;
        h.m.life = 5;
        assert_int_equal(fc_hello(&imposter, &h), rows[i].st);
    }
    assert_true(shell_logged(cl->ps0, "task_lost")); /* the older connection of worker:0 is closed */
    /* a task's connection may list and answer, nothing else */
    assert_int_equal(fc_call(&imposter, PS_OP_INFO, 0, 1, 0, NULL, 0, NULL).status, PS_UNIMPLEMENTED);
    assert_int_equal(fc_call(&imposter, PS_OP_TASK_CREATE, PS_FLAG_REPLY, 1, 0, NULL, 0, NULL).status, FC_NONE);
    assert_true(shell_is_closed(imposter.conn)); /* an answer to nothing */
    /* a list that is none */
    static const uint8_t bad[] = {4, 0x12, 2, '.', '.'}, bad_container[] = {6, 0x0a, 1, ' ', 0x12, 1, 'x'};
    for (int i = 0; i < 2; i++) {
        struct wire *body = wire_new();
        wire_append(body, i == 0 ? bad : bad_container, i == 0 ? sizeof(bad) : sizeof(bad_container));
        h.m.connection++;
        assert_int_equal(fc_hello(&imposter, &h), PS_OK);
        assert_int_equal(fc_call(&imposter, PS_OP_LIST, 0, 1, 0, NULL, 0, body).status, FC_NONE);
        assert_true(shell_is_closed(imposter.conn));
        assert_true(shell_logged(cl->ps0, "list_rejected"));
    }
}

TEST(test_wait_cluster)
{
    struct cl *cl = cl_new_apart();
    struct wire *body = wire_new();
    for (uint32_t i = 0; i < 2; i++) {
        ps_v1_TaskItem item = {.task = i};
        PSI_IGNORE(PSI_BYTES_SET(item.job, "ps")); /* fits */
        wire_item(body, &ps_v1_TaskItem_msg, &item);
    }
    assert_int_equal(fc_call(&cl->c, PS_OP_WAIT_CLUSTER, 0, 50, 0, NULL, 0, body).status, FC_NONE);
    struct shell_conn *end = cl_join(cl, cl->ps1);
    assert_applied(fc_take(&cl->c, NULL));
    shell_cut(end);
    uint8_t meta[2] = {0x08, 0x64}; /* 100 ms */
    assert_int_equal(fc_call(&cl->c, PS_OP_WAIT_CLUSTER, 0, 51, 0, meta, 2, body).status, FC_NONE);
    shell_pass(&cl->net, 200);
    assert_reply(fc_take(&cl->c, NULL), PS_DEADLINE_EXCEEDED, "/job:ps/task:1");
    wire_clear(body);
    ps_v1_TaskItem item = {.task = 0};
    PSI_IGNORE(PSI_BYTES_SET(item.job, "9 lives")); /* fits */
    wire_item(body, &ps_v1_TaskItem_msg, &item);
    assert_reply(fc_call(&cl->c, PS_OP_WAIT_CLUSTER, 0, 52, 0, NULL, 0, body), PS_INVALID_ARGUMENT, "9 lives");
}

/* Redials go on, further and further apart, at most about a second; with back-off jitter. */
TEST(test_redials)
{
    struct cl *cl = cl_new_apart();
    uint64_t last = cl->ps1->now;
    for (int i = 0; i < 12; i++) {
        while (cl->ps1->dials == 0) {
            shell_task_tick(cl->ps1, cl->ps1->now + 20);
            assert_in_range(cl->ps1->now - last, 0, 1400);
        }
        assert_null(shell_dial(cl->ps1, NULL));
        last = cl->ps1->now;
    }
    assert_true(shell_logged(cl->ps1, "directory_unreachable"));
    shell_tick(&cl->net, cl->ps1->now); /* the others' clocks */
    PSI_IGNORE(cl_join(cl, cl->ps1));   /* its end is of no use here */
    assert_true(shell_logged(cl->ps1, "directory_connected"));
}
