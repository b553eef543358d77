/* SPDX-License-Identifier: Apache-2.0 */
/* A cluster whose indices have holes: chief 2 (never there), ps tasks 1 and 3, worker 5. Nobody takes an index for a position. */
#include "task_test.h"

#include "psd/rounds/groups.h"

#define SPEC "chief=2@10.0.0.4:4;ps=1@10.0.0.1:1,3@10.0.0.2:2;worker=5@10.0.0.3:3"

struct sparse {
    struct shell_net net;
    struct shell_task *ps1, *ps3, *w5;
    struct fc at1, at3, at5;
};

static void join(struct sparse *s, struct shell_task *from)
{
    for (int i = 0; from->dials == 0; i++) {
        assert_in_range(i, 0, 50);
        shell_pass(&s->net, 100);
    }
    assert_non_null(shell_dial(from, s->ps1));
}

static struct shell_task *start_task(struct sparse *s, const char *job, uint32_t task, uint64_t seed)
{
    ps_status st = PS_OK;
    struct shell_task *t = shell_task_new(&s->net, SPEC, job, task, seed, START_MS, NULL, &st);
    assert_int_equal(st, PS_OK);
    return t;
}

static void start(struct sparse *s)
{
    memset(s, 0, sizeof(*s));
    shell_net_init(&s->net);
    s->ps1 = start_task(s, "ps", 1, 1);
    s->ps3 = start_task(s, "ps", 3, 2);
    s->w5 = start_task(s, "worker", 5, 3);
    fc_init(&s->at1, s->ps1, 1);
    fc_init(&s->at3, s->ps3, 1);
    fc_init(&s->at5, s->w5, 1);
    assert_int_equal(fc_connect(&s->at1), PS_OK);
    assert_int_equal(fc_connect(&s->at3), PS_OK);
    assert_int_equal(fc_connect(&s->at5), PS_OK);
}

static ps_status create(struct fc *c, const char *name, const char *job, uint32_t task, ps_v1_CreateAnswer *a)
{
    ps_v1_CreateItem m;
    fc_create_item(&m, name, PS_F32, 100, ps_sgd(1));
    PSI_IGNORE(PSI_BYTES_SET(m.job, job)); /* fits */
    m.task = task;
    m.pinned = true;
    return fc_create(c, &m, a);
}

TEST(test_hello_lists_the_tasks_that_are_there)
{
    static const struct {
        const char *job, *address;
        uint32_t task;
    } rows[] = {{"chief", "10.0.0.4:4", 2}, {"ps", "10.0.0.1:1", 1}, {"ps", "10.0.0.2:2", 3}, {"worker", "10.0.0.3:3", 5}};
    struct sparse s;
    start(&s);
    const struct fc *all[] = {&s.at1, &s.at3, &s.at5};
    for (size_t i = 0; i < ARRAY_COUNT(all); i++) {
        assert_int_equal(all[i]->hello.task_count, 4);
        assert_int_equal(all[i]->hello.task, rows[i + 1].task);
        assert_int_equal(all[i]->hello.directory_task, 1);
        for (size_t k = 0; k < ARRAY_COUNT(rows); k++) {
            const ps_v1_TaskItem *item = &all[i]->tasks[k];
            assert_int_equal(item->task, rows[k].task);
            assert_true(item->job.size == strlen(rows[k].job) && memcmp(item->job.bytes, rows[k].job, item->job.size) == 0);
            assert_true(item->address.size == strlen(rows[k].address) &&
                        memcmp(item->address.bytes, rows[k].address, item->address.size) == 0);
        }
    }
    shell_net_fini(&s.net);
}

TEST(test_names_go_to_their_owners)
{
    struct sparse s;
    ps_v1_CreateAnswer a;
    start(&s);
    /* a starting directory waits for the list of its job's other task, which is 3 */
    assert_int_equal(create(&s.at1, "early", "ps", 1, &a), PS_UNAVAILABLE);
    assert_non_null(memmem(a.text.bytes, a.text.size, "/job:ps/task:3", 14));
    join(&s, s.ps3);
    join(&s, s.w5);
    assert_int_equal(create(&s.at1, "x", "ps", 1, &a), PS_OK);
    assert_int_equal(create(&s.at1, "y", "ps", 3, &a), PS_OK);
    assert_int_equal(a.task, 3);
    assert_int_equal(create(&s.at1, "z", "worker", 5, &a), PS_OK);
    assert_int_equal(fc_open(&s.at1, "x", NULL), PS_OK);
    assert_int_equal(fc_open(&s.at3, "y", NULL), PS_OK);
    assert_int_equal(fc_open(&s.at5, "z", NULL), PS_OK);
    static const struct {
        const char *job;
        uint32_t task;
    } holes[] = {{"ps", 0}, {"ps", 2}, {"ps", 4}, {"worker", 0}, {"worker", 6}};
    for (size_t i = 0; i < ARRAY_COUNT(holes); i++) {
        char task[64];
        snprintf(task, sizeof(task), "there is no /job:'%s'/task:%u", holes[i].job, holes[i].task);
        ps_status st = create(&s.at1, "hole", holes[i].job, holes[i].task, &a);
        if (st == PS_OK || memmem(a.text.bytes, a.text.size, task, strlen(task)) == NULL) {
            fail_msg("%s: %s '%.*s'", task, ps_status_name(st), (int)a.text.size, (const char *)a.text.bytes);
        }
    }
    assert_applied(fc_delete(&s.at1, 900, "y"));
    assert_int_equal(fc_open(&s.at3, "y", NULL), PS_NOT_FOUND);
    assert_applied(fc_reset(&s.at1, 901, "localhost"));
    assert_int_equal(fc_open(&s.at5, "z", NULL), PS_NOT_FOUND);
    shell_net_fini(&s.net);
}

TEST(test_wait_cluster)
{
    struct sparse s;
    start(&s);
    struct wire *body = wire_new();
    static const uint32_t tasks[] = {1, 3};
    for (size_t i = 0; i < ARRAY_COUNT(tasks); i++) {
        ps_v1_TaskItem item = {.task = tasks[i]};
        PSI_IGNORE(PSI_BYTES_SET(item.job, "ps")); /* fits */
        wire_item(body, &ps_v1_TaskItem_msg, &item);
    }
    assert_int_equal(fc_call(&s.at1, PS_OP_WAIT_CLUSTER, 0, 50, 0, NULL, 0, body).status, FC_NONE);
    join(&s, s.ps3);
    assert_applied(fc_take(&s.at1, NULL));
    /* a worker is up where a session that named it holds a lease: index 5, not position 0 */
    wire_clear(body);
    ps_v1_TaskItem item = {.task = 5};
    PSI_IGNORE(PSI_BYTES_SET(item.job, "worker")); /* fits */
    wire_item(body, &ps_v1_TaskItem_msg, &item);
    uint8_t meta[2] = {0x08, 0x64}; /* 100 ms */
    assert_int_equal(fc_call(&s.at1, PS_OP_WAIT_CLUSTER, 0, 51, 0, meta, 2, body).status, FC_NONE);
    shell_pass(&s.net, 200);
    assert_reply(fc_take(&s.at1, NULL), PS_DEADLINE_EXCEEDED, "/job:worker/task:5");
    struct fc trainer;
    struct fc_hello h;
    fc_init(&trainer, s.ps1, 9);
    fc_hello_default(&trainer, &h);
    PSI_IGNORE(PSI_BYTES_SET(h.m.job, "worker")); /* fits */
    h.m.task = 5;
    assert_int_equal(fc_hello(&trainer, &h), PS_OK);
    assert_applied(fc_call(&s.at1, PS_OP_WAIT_CLUSTER, 0, 52, 0, NULL, 0, body));
    shell_net_fini(&s.net);
}

/* One message and a list of names; the request has the number 60. */
static struct fc_reply ask(struct fc *c, uint8_t op, const pb_msgdesc_t *of, const void *m, const char *const *names)
{
    _Alignas(8) uint8_t meta[64] = {0};
    size_t bytes = 0;
    struct wire *body = wire_new();
    assert_int_equal(psi_msg_encode(of, m, meta, sizeof(meta), &bytes, NULL), PS_OK);
    for (; *names != NULL; names++) {
        ps_v1_NameItem item = ps_v1_NameItem_init_zero;
        PSI_IGNORE(psi_bytes_set((pb_bytes_array_t *)(void *)&item.name, PS_NAME_BYTES_MAX, *names)); /* fits */
        wire_item(body, &ps_v1_NameItem_msg, &item);
    }
    return fc_call(c, op, 0, 60, 0, meta, psi_pad8((uint32_t)bytes), body);
}

/* Who is waited for at a barrier is worker 5, not the worker at position 0. */
TEST(test_barrier_names_who_is_missing)
{
    static const char *const names[] = {"epoch", NULL};
    struct sparse s;
    start(&s);
    ps_v1_Barrier m = {.timeout_ms = 100, .count = 2};
    assert_int_equal(ask(&s.at1, PS_OP_BARRIER, &ps_v1_Barrier_msg, &m, names).status, FC_NONE);
    shell_pass(&s.net, 200);
    assert_reply(fc_take(&s.at1, NULL), PS_DEADLINE_EXCEEDED, "without a session: /job:worker/task:5");
    shell_net_fini(&s.net);
}

/* Likewise in rounds that nobody has joined. */
TEST(test_rounds_name_who_is_missing)
{
    static const char *const names[] = {"global_step", "w", NULL};
    struct sparse s;
    ps_v1_OpenAnswer a;
    start(&s);
    join(&s, s.ps3);
    join(&s, s.w5);
    for (size_t i = 0; names[i] != NULL; i++) {
        const ps_optimizer *optimizer = i == 0 ? ps_no_optimizer() : ps_sgd(1);
        ps_v1_CreateItem m;
        fc_create_item(&m, names[i], i == 0 ? PS_I64 : PS_F32, 1, optimizer);
        m.task = 1;
        assert_int_equal(fc_create(&s.at1, &m, NULL), PS_OK);
        assert_int_equal(fc_open(&s.at1, names[i], &a), PS_OK);
        assert_applied(fc_init_var(&s.at1, a.handle, ps_zeros(), optimizer, 0, false));
    }
    ps_v1_Sync m = {.timeout_ms = 1000,
                    .chief_number = 1000,
                    .has_options = true,
                    .options = {.mode = PSD_SYNC_ROUNDS, .workers = 1, .replicas = 1, .on_loss = PSD_ON_LOSS_WAIT}};
    assert_applied(ask(&s.at1, PS_OP_SYNC, &ps_v1_Sync_msg, &m, names));
    char text[PSD_NAMES_BYTES];
    const struct psd_group *g = psd_group_find(s.ps1->core, PSI_CONTAINER_DEFAULT);
    assert_non_null(g);
    assert_non_null(strstr(psd_group_missing_text(s.ps1->core, g, text, sizeof(text)), "/job:worker/task:5 (not joined for "));
    shell_net_fini(&s.net);
}

TEST(test_who_is_not_there)
{
    struct sparse s;
    struct fc_hello h;
    ps_status st = PS_OK;
    start(&s);
    assert_null(shell_task_new(&s.net, SPEC, "ps", 2, 9, START_MS, NULL, &st));
    assert_int_equal(st, PS_INVALID_ARGUMENT);
    fc_cut(&s.at3);
    fc_hello_default(&s.at3, &h);
    PSI_IGNORE(PSI_BYTES_SET(h.m.believed_job, "ps")); /* fits */
    h.m.believed_task = 1;                             /* its position */
    assert_int_equal(fc_hello(&s.at3, &h), PS_FAILED_PRECONDITION);
    h.m.believed_task = 3;
    h.m.connection++;
    assert_int_equal(fc_hello(&s.at3, &h), PS_OK);
    shell_net_fini(&s.net);
}
