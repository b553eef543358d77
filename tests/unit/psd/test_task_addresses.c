/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks with port 0 in the cluster say at the directory where they listen, and clients hear of it. */
#include "cluster_test.h"

#include "psd/base/base.h"

#define ANY "ps=a:1,b:0,b:0"

static void any_port(struct psd_task_config *config)
{
    config->any_port = true;
}

/* A process of ps task i, started with this cluster, in which its own address is known. */
static struct shell_task *start(struct cl *cl, const char *spec, uint32_t i, shell_tweak tweak)
{
    ps_status st = PS_OK;
    uint64_t now = cl->net.task_count == 0 ? START_MS : cl->net.tasks[0]->now;
    struct shell_task *t = shell_task_new(&cl->net, spec, "ps", i, cl->seed++, now, tweak, &st);
    assert_int_equal(st, PS_OK);
    return t;
}

static struct cl *begin(void)
{
    struct cl *cl = test_alloc(sizeof(*cl));
    cl->seed = 1;
    shell_net_init(&cl->net);
    test_later(cl_end, cl);
    cl->ps0 = start(cl, ANY, 0, NULL);
    fc_init(&cl->c, cl->ps0, 1);
    return cl;
}

static const char *address(const struct cl *cl, uint32_t task)
{
    return psd_peer_address(cl->ps0->core, psd_peer_find(cl->ps0->core, "ps", task));
}

/* What ADDRESSES answers: the items, at most 3. */
static uint32_t changes(struct cl *cl, uint64_t since, ps_v1_TaskItem items[3])
{
    _Alignas(8) uint8_t meta[PS_META_BYTES_MAX] = {0};
    const ps_v1_Addresses m = {.since = since};
    struct wire w, body;
    size_t bytes = 0;
    uint32_t count = 0;
    assert_int_equal(psi_msg_encode(&ps_v1_Addresses_msg, &m, meta, sizeof(meta), &bytes, NULL), PS_OK);
    wire_init(&w);
    wire_init(&body);
    fc_frame(&cl->c, &w, PS_OP_ADDRESSES, 0, 7, 0, meta, psi_pad8((uint32_t)bytes), NULL);
    shell_send(cl->c.conn, &w);
    assert_int_equal(fc_take(&cl->c, &body).status, PS_OK);
    const uint8_t *p = body.data;
    size_t n = body.len;
    while (count < 3 && fc_item(&p, &n, &ps_v1_TaskItem_msg, &items[count])) {
        count++;
    }
    wire_fini(&w);
    wire_fini(&body);
    return count;
}

static bool is_at(const ps_v1_TaskItem *item, const char *text)
{
    return item->address.size == strlen(text) && memcmp(item->address.bytes, text, strlen(text)) == 0;
}

TEST(test_listed)
{
    struct cl *cl = begin();
    ps_v1_TaskItem items[3];
    assert_string_equal(address(cl, 1), "b:0");
    PSI_IGNORE(cl_join(cl, start(cl, "ps=a:1,b:7,b:0", 1, any_port))); /* the connection stays with the tasks */
    assert_string_equal(address(cl, 1), "b:7");
    assert_non_null(strstr(cl->ps0->log, "task_address peer=/job:ps/task:1 address=b:7"));
    PSI_IGNORE(cl_join(cl, start(cl, "ps=a:1,b:0,b:8", 2, any_port)));
    assert_int_equal(fc_connect(&cl->c), PS_OK);
    assert_int_equal(changes(cl, 0, items), 2);
    assert_true(items[0].task == 1 && items[0].version == 1 && is_at(&items[0], "b:7"));
    assert_true(items[1].task == 2 && items[1].version == 2 && is_at(&items[1], "b:8"));
    assert_true(items[0].life != 0 && items[0].life != items[1].life);
    assert_int_equal(changes(cl, 1, items), 1);
    assert_int_equal(items[0].task, 2);
    assert_int_equal(changes(cl, 2, items), 0);
    assert_int_equal(changes(cl, UINT64_MAX, items), 0);
}

/* A new process of the task has another address. The process before it is displaced, and its address is not taken again. */
TEST(test_another_process)
{
    struct cl *cl = begin();
    ps_v1_TaskItem items[3];
    struct shell_task *first = start(cl, "ps=a:1,b:7,b:0", 1, any_port);
    struct shell_conn *at_first = cl_join(cl, first);
    PSI_IGNORE(cl_join(cl, start(cl, "ps=a:1,b:9,b:0", 1, any_port)));
    assert_true(shell_is_closed(at_first));
    assert_string_equal(address(cl, 1), "b:9");
    cl_await_dial(cl, first);
    PSI_IGNORE(shell_dial(first, cl->ps0));
    assert_non_null(strstr(first->log, "directory_refused"));
    assert_string_equal(address(cl, 1), "b:9");
    assert_int_equal(fc_connect(&cl->c), PS_OK);
    assert_int_equal(changes(cl, 1, items), 1);
    assert_int_equal(items[0].version, 2);
}

/* The port of a task that is gone is given to another one: nobody is at both. */
TEST(test_port_given_again)
{
    struct cl *cl = begin();
    ps_v1_TaskItem items[3];
    struct shell_task *first = start(cl, "ps=a:1,b:7,b:0", 1, any_port);
    PSI_IGNORE(cl_join(cl, first));
    shell_task_free(first);
    assert_string_equal(address(cl, 1), "b:7");
    PSI_IGNORE(cl_join(cl, start(cl, "ps=a:1,b:0,B:7", 2, any_port)));
    assert_string_equal(address(cl, 1), "b:0");
    assert_string_equal(address(cl, 2), "B:7");
    assert_int_equal(fc_connect(&cl->c), PS_OK);
    assert_int_equal(changes(cl, 0, items), 1);
    assert_int_equal(items[0].task, 2);
}

/* A task says the address of one that is connected: it takes it from nobody, until that one has gone. */
TEST(test_address_of_another)
{
    struct cl *cl = begin();
    struct shell_task *first = start(cl, "ps=a:1,b:7,b:0", 1, any_port), *thief = start(cl, "ps=a:1,b:0,b:7", 2, any_port);
    PSI_IGNORE(cl_join(cl, first));
    cl_await_dial(cl, thief);
    PSI_IGNORE(shell_dial(thief, cl->ps0));
    assert_non_null(strstr(thief->log, "at b:7, where /job:ps/task:1 is, which is connected"));
    assert_string_equal(address(cl, 1), "b:7");
    assert_string_equal(address(cl, 2), "b:0");
    shell_task_free(first);
    PSI_IGNORE(cl_join(cl, thief));
    assert_string_equal(address(cl, 1), "b:0");
    assert_string_equal(address(cl, 2), "b:7");
}

/* The cluster of the task and that of the directory disagree. */
TEST(test_refused)
{
    struct cl *cl = begin();
    struct shell_task *fixed = start(cl, "ps=a:1,b:7,b:0", 1, NULL), *taken = start(cl, "ps=c:2,a:1,b:0", 1, any_port);
    cl_await_dial(cl, fixed);
    PSI_IGNORE(shell_dial(fixed, cl->ps0));
    assert_non_null(strstr(fixed->log, "its HELLO says no address with a port"));
    cl_await_dial(cl, taken);
    PSI_IGNORE(shell_dial(taken, cl->ps0));
    assert_non_null(strstr(taken->log, "which is the address of /job:ps/task:0"));
    assert_string_equal(address(cl, 1), "b:0");
}

/* A task with a port in the directory's cluster stays there, whatever it says. */
TEST(test_not_asked_for)
{
    struct cl *cl = test_alloc(sizeof(*cl));
    cl->seed = 1;
    shell_net_init(&cl->net);
    test_later(cl_end, cl);
    cl->ps0 = start(cl, "ps=a:1,b:5,b:6", 0, NULL);
    fc_init(&cl->c, cl->ps0, 1);
    PSI_IGNORE(cl_join(cl, start(cl, "ps=a:1,b:7,b:6", 1, any_port)));
    assert_string_equal(address(cl, 1), "b:5");
}
