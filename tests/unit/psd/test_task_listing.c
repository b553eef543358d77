/* SPDX-License-Identifier: Apache-2.0 */
/* VARS, QUEUES, CONTAINERS and TASKS are sent in slices: how many rows a turn looks at, what is served in between, what is left
 * when a session ends.
 */
#include "cluster_test.h"
#include "queue_test.h"

enum { VARIABLES = 20, SLICE = 4 };

static void in_slices(struct psd_task_config *config)
{
    config->list_slice_rows = SLICE;
}

static struct env *with_variables(void)
{
    struct env *e = env_new(in_slices);
    for (int i = 0; i < VARIABLES; i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "v%02d", i);
        assert_int_equal(fc_make(&e->c, name, PS_F32, 1, ps_sgd(1)), PS_OK);
    }
    return e;
}

/* The rows of one frame that has come; more: another one follows. */
static uint32_t rows_of_frame(struct fc *c, bool *out_more)
{
    ps_v1_VarAnswer a;
    struct wire *body = wire_new();
    struct fc_reply r = fc_take(c, body);
    const uint8_t *p = body->data;
    size_t n = body->len;
    uint32_t rows = 0;
    assert_applied(r);
    while (n > 0 && fc_item(&p, &n, &ps_v1_VarAnswer_msg, &a)) {
        rows++;
    }
    *out_more = (r.h.flags & PS_FLAG_MORE) != 0;
    return rows;
}

static void send_request(struct fc *c, uint8_t op, uint64_t id)
{
    struct wire *w = wire_new();
    fc_frame(c, w, op, 0, id, 0, NULL, 0, NULL);
    shell_send(c->conn, w);
}

TEST(test_a_turn_looks_at_a_slice)
{
    struct env *e = with_variables();
    struct fc *other = fc_new(e->t, 2);
    struct wire *w = wire_new();
    bool more = true;
    e->t->work_held = true;
    fc_frame(&e->c, w, PS_OP_VARS, 0, 100, 0, NULL, 0, NULL);
    fc_frame(&e->c, w, PS_OP_BEAT, 0, 101, 0, NULL, 0, NULL); /* is carried out when the list is over */
    shell_send(e->c.conn, w);
    for (uint32_t rows = 0; more;) {
        uint32_t come = rows_of_frame(&e->c, &more);
        rows += come;
        assert_in_range(come, more ? SLICE : 0, SLICE);
        assert_int_equal(e->c.conn->core->paused, more);
        assert_int_equal(psd_task_has_work(e->t->core), more);
        assert_true(more || rows == VARIABLES);
        psd_task_check_invariants(e->t->core);
        if (more) {
            assert_applied(fc_list(other, PS_OP_INFO, NULL, NULL, NULL)); /* others are served */
            psd_task_work(e->t->core);
            shell_settle(e->t);
        }
    }
    assert_int_equal(fc_take(&e->c, NULL).h.id, 101);
}

/* What goes meanwhile is not listed any more, or was. */
TEST(test_variables_go_meanwhile)
{
    struct env *e = with_variables();
    struct fc *other = fc_new(e->t, 2);
    bool more = false;
    e->t->work_held = true;
    send_request(&e->c, PS_OP_VARS, 100);
    assert_int_equal(rows_of_frame(&e->c, &more), SLICE);
    assert_true(more);
    assert_applied(fc_reset(other, 1, ""));
    e->t->work_held = false;
    shell_run(&e->net);
    assert_int_equal(rows_of_frame(&e->c, &more), 0);
    assert_false(more);
}

TEST(test_the_session_ends_meanwhile)
{
    struct env *e = with_variables();
    bool more = false;
    e->t->work_held = true;
    send_request(&e->c, PS_OP_VARS, 100);
    assert_int_equal(rows_of_frame(&e->c, &more), SLICE);
    shell_cut(e->c.conn);
    assert_false(psd_task_has_work(e->t->core));
}

/* It waits for a client that does not read, and goes on when that reads again. */
TEST(test_a_client_that_does_not_read)
{
    struct env *e = env_new(in_slices);
    ps_v1_QueueAnswer a;
    const ps_v1_Queue q = queue_like(PSI_QUEUE_FIFO, 10);
    for (int i = 0; i < VARIABLES; i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "q%02d", i);
        const ps_v1_CreateItem m = queue_item(name, &q);
        assert_int_equal(fc_create(&e->c, &m, NULL), PS_OK);
    }
    struct wire *w = wire_new();
    e->c.conn->stuck = true;
    for (uint64_t i = 0; i < 6000; i++) { /* their replies wait: its queue is full */
        fc_frame(&e->c, w, PS_OP_BEAT, 0, 1 + i, 0, NULL, 0, NULL);
    }
    fc_frame(&e->c, w, PS_OP_QUEUES, 0, 7000, 0, NULL, 0, NULL);
    shell_send(e->c.conn, w);
    assert_false(psd_task_has_work(e->t->core));
    shell_unstick(e->c.conn);
    uint32_t rows = 0;
    for (bool more = true; more;) {
        struct wire *body = wire_new();
        struct fc_reply r = fc_take(&e->c, body);
        const uint8_t *p = body->data;
        size_t n = body->len;
        assert_applied(r);
        while (r.h.op == PS_OP_QUEUES && n > 0 && fc_item(&p, &n, &ps_v1_QueueAnswer_msg, &a)) {
            rows++;
        }
        more = r.h.op != PS_OP_QUEUES || (r.h.flags & PS_FLAG_MORE) != 0;
    }
    assert_int_equal(rows, VARIABLES);
}

/* A turn lists as little to the directory, which takes the task for connected when the list is over. */
TEST(test_the_directory_hears_in_slices)
{
    struct cl *cl = cl_new_apart();
    struct shell_conn *link = cl_join(cl, cl->ps1);
    ps_v1_CreateAnswer a;
    const struct psd_peer *p = &cl->ps0->core->peers[1];
    for (int i = 0; i < VARIABLES; i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "v%02d", i);
        assert_int_equal(cl_create(cl, name, "ps", 1, false, &a), PS_OK);
    }
    cl->ps1->core->config.list_slice_rows = SLICE;
    cl->ps1->work_held = true;
    shell_cut(link);
    PSI_IGNORE(cl_join(cl, cl->ps1)); /* its end is of no use here */
    assert_int_equal(p->life, cl->ps1->core->life);
    for (int slices = 1; slices <= VARIABLES / SLICE; slices++) {
        assert_false(p->listed);
        assert_true(psd_task_has_work(cl->ps1->core));
        assert_int_equal(cl_create(cl, "v00", "ps", 1, false, &a), PS_UNAVAILABLE);
        psd_task_work(cl->ps1->core);
        shell_run(&cl->net);
    }
    assert_true(p->listed);
    assert_false(psd_task_has_work(cl->ps1->core));
    assert_int_equal(cl_create(cl, "v00", "ps", 1, false, &a), PS_OK);
    assert_false(a.created);
}

/* The CONTAINERS of one frame that has come, of which `out` [VARIABLES + 1] has `count` so far; more: another frame follows. */
static uint32_t containers_of_frame(struct fc *c, ps_v1_ContainerAnswer *out, uint32_t count, bool *out_more)
{
    struct wire *body = wire_new();
    struct fc_reply r = fc_take(c, body);
    const uint8_t *p = body->data;
    size_t n = body->len;
    assert_applied(r);
    while (n > 0 && fc_item(&p, &n, &ps_v1_ContainerAnswer_msg, &out[count])) {
        count++;
    }
    *out_more = (r.h.flags & PS_FLAG_MORE) != 0;
    return count;
}

static void make_in(struct fc *c, const char *container, const char *name)
{
    ps_v1_CreateItem m;
    fc_create_item(&m, name, PS_F32, 1, ps_sgd(1));
    PSI_IGNORE(PSI_BYTES_SET(m.container, container)); /* fits */
    assert_int_equal(fc_create(c, &m, NULL), PS_OK);
}

/* CONTAINERS: a turn looks at as many variables, or ends of containers. */
TEST(test_containers_in_slices)
{
    enum { CONTAINERS = 6, TURNS_MIN = (VARIABLES + 3 * CONTAINERS) / SLICE };
    ps_v1_ContainerAnswer a[VARIABLES + 1];
    struct env *e = with_variables();
    struct fc *other = fc_new(e->t, 2);
    bool more = true;
    uint32_t count = 0, turns = 1;
    for (int i = 1; i < CONTAINERS; i++) {
        char name[8];
        (void)snprintf(name, sizeof(name), "c%02d", i);
        make_in(&e->c, name, "v");
    }
    e->t->work_held = true;
    send_request(&e->c, PS_OP_CONTAINERS, 100);
    for (; more; turns++) {
        const uint32_t before = count;
        count = containers_of_frame(&e->c, a, count, &more);
        assert_in_range(count - before, 0, SLICE);
        if (!more) {
            break;
        }
        if (turns == 2) { /* one is reset while its variables are looked at, and has another variable then */
            assert_int_equal(count, 0);
            assert_applied(fc_reset(other, 900, "localhost"));
            make_in(other, "localhost", "new");
        }
        if (turns == 3) { /* the last container is empty when its turn comes */
            assert_applied(fc_reset(other, 901, "c05"));
        }
        assert_true(psd_task_has_work(e->t->core));
        psd_task_work(e->t->core);
        shell_settle(e->t);
    }
    assert_false(psd_task_has_work(e->t->core));
    assert_int_equal(count, CONTAINERS);
    assert_true(a[0].variables == 1 && a[0].names == 1);
    for (int i = 1; i < CONTAINERS; i++) {
        assert_int_equal(a[i].variables, i < CONTAINERS - 1);
    }
    assert_in_range(turns, 5, TURNS_MIN);
}

/* A container in which the directory only knows names is listed once, also where the directory gets a variable of it meanwhile.
 */
TEST(test_containers_of_others)
{
    for (int made = 0; made < 2; made++) {
        struct cl *cl = cl_new_apart();
        struct fc *other = fc_new(cl->ps0, 7);
        ps_v1_ContainerAnswer a[VARIABLES + 1];
        ps_v1_CreateAnswer answer;
        bool more = false;
        PSI_IGNORE(cl_join(cl, cl->ps1)); /* the connection stays with the tasks */
        assert_int_equal(cl_create(cl, "v", "ps", 1, false, &answer), PS_OK);
        cl->ps0->core->config.list_slice_rows = 1;
        cl->ps0->work_held = true;
        send_request(other, PS_OP_CONTAINERS, 100);
        assert_int_equal(containers_of_frame(other, a, 0, &more), 0); /* its own are over */
        assert_true(more);
        if (made == 1) {
            assert_int_equal(cl_create(cl, "here", "ps", 0, false, &answer), PS_OK);
        }
        uint32_t count = 0;
        while (more) {
            psd_task_work(cl->ps0->core);
            shell_settle(cl->ps0);
            count = containers_of_frame(other, a, count, &more);
        }
        assert_int_equal(count, 1);
        assert_true(a[0].names == (uint32_t)made + 1 && a[0].variables == (uint32_t)made && (a[0].incarnation != 0) == made);
    }
}

/* ---- TASKS ---- */

/* The TASKS of one frame that has come, of which `out` [4] has `count` so far; more: another frame follows. */
static uint32_t tasks_of_frame(struct fc *c, ps_v1_TaskAnswer *out, uint32_t count, bool *out_more)
{
    struct wire *body = wire_new();
    struct fc_reply r = fc_take(c, body);
    const uint8_t *p = body->data;
    size_t n = body->len;
    assert_applied(r);
    while (n > 0 && fc_item(&p, &n, &ps_v1_TaskAnswer_msg, &out[count])) {
        count++;
    }
    *out_more = (r.h.flags & PS_FLAG_MORE) != 0;
    return count;
}

/* The second ps is another process, without what it had. */
static void restart_ps1(struct cl *cl)
{
    shell_task_free(cl->ps1);
    shell_settle(cl->ps0);
    cl->at1.conn = NULL;
    cl->ps1 = cl_task(cl, "ps", 1);
    PSI_IGNORE(cl_join(cl, cl->ps1)); /* the connection stays with the tasks */
}

/* TASKS, when a task has restarted: a turn looks at as many names. The task restarts again meanwhile: its names are looked at
 * anew, and each is counted once, also where one is made again before the second restart. */
TEST(test_tasks_in_slices)
{
    for (int again = 0; again < 3; again++) {
        struct cl *cl = cl_new();
        struct fc *other = fc_new(cl->ps0, 7);
        ps_v1_TaskAnswer a[4];
        bool more = true;
        uint32_t count = 0, turns = 1;
        for (int i = 0; i < VARIABLES; i++) {
            char name[8];
            (void)snprintf(name, sizeof(name), "v%02d", i);
            assert_int_equal(cl_create(cl, name, "ps", 1, false, NULL), PS_OK);
        }
        restart_ps1(cl);
        cl->ps0->core->config.list_slice_rows = SLICE;
        cl->ps0->work_held = true;
        send_request(other, PS_OP_TASKS, 100);
        for (; more; turns++) {
            count = tasks_of_frame(other, a, count, &more);
            if (!more) {
                break;
            }
            assert_true(psd_task_has_work(cl->ps0->core));
            assert_applied(fc_list(&cl->c, PS_OP_INFO, NULL, NULL, NULL)); /* others are served */
            if (turns == 3 && again > 0) {
                for (int i = 0; again == 2 && i < VARIABLES; i++) {
                    char name[8];
                    (void)snprintf(name, sizeof(name), "v%02d", i);
                    assert_int_equal(cl_create(cl, name, "ps", 1, false, NULL), PS_OK);
                }
                restart_ps1(cl);
            }
            psd_task_work(cl->ps0->core);
            shell_settle(cl->ps0);
        }
        assert_false(psd_task_has_work(cl->ps0->core));
        assert_int_equal(count, 3);
        assert_int_equal(a[1].lost, VARIABLES);
        assert_int_equal(a[1].restarts, again > 0 ? 2 : 1);
        assert_true(a[0].lost == 0 && a[2].lost == 0);
        assert_int_equal(turns, (again > 0 ? 2 : 1) * VARIABLES / SLICE + 2);
    }
}
