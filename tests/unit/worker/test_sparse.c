/* SPDX-License-Identifier: Apache-2.0 */
/* A client of a cluster whose indices have holes, known from a spec or told by HELLO: names, look-ups, round robin. */
#include "fake_test.h"
#include "wire_test.h"

#include "common/mem.h"
#include "worker/core/client.h"

#include <stdlib.h>

#define SPEC "ps=1@a:1,3@b:2;worker=5@c:1"

static void expect_table(const struct psi_client *c)
{
    static const char *const names[] = {"/job:ps/task:1", "/job:ps/task:3", "/job:worker/task:5"};
    static const char *const addresses[] = {"a:1", "b:2", "c:1"};
    assert_int_equal(psi_client_task_count(c), 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_string_equal(psi_client_task_name(c, i), names[i]);
        assert_string_equal(psi_client_task_address(c, i), addresses[i]);
    }
    assert_int_equal(psi_client_find_task(c, "ps", 1), 0);
    assert_int_equal(psi_client_find_task(c, "ps", 3), 1);
    assert_int_equal(psi_client_find_task(c, "worker", 5), 2);
    assert_int_equal(psi_client_find_task(c, "ps", 0), UINT32_MAX);
    assert_int_equal(psi_client_find_task(c, "ps", 2), UINT32_MAX);
    assert_int_equal(psi_client_find_task(c, "worker", 0), UINT32_MAX);
}

TEST(test_known_from_a_spec)
{
    static struct fake_request pings[3];
    ps_v1_Hello hello;
    struct fake *f = fake_new(SPEC, "worker", 5, false);
    expect_table(f->c);
    assert_false(psi_client_is_chief(f->c)); /* worker 0 is, though nobody lists it */
    for (uint32_t i = 0; i < 3; i++) {
        memset(&pings[i], 0, sizeof(pings[i]));
        pings[i].req.task = i;
        pings[i].req.kind = PSI_REQ_PING;
        pings[i].req.deadline_ms = f->now + 1000;
        pings[i].req.done = fake_request_done;
        assert_int_equal(psi_client_start(f->c, &pings[i].req, NULL), PS_OK);
    }
    fake_run(f);
    for (uint32_t i = 0; i < 3; i++) {
        static const uint32_t index[] = {1, 3, 5};
        fake_hello(f, i, 100, 200, NULL, &hello);
        assert_int_equal(hello.believed_task, index[i]); /* and the answer's task is what it is taken for */
        struct fake_frame *beat = &f->task[i].frames[f->task[i].first];
        fake_reply(f, i, PS_OP_BEAT, beat->h.id, false, &(struct fake_answer){0});
        assert_done(&pings[i], PS_OK);
    }
}

/* The tasks that are waited for are the ones that exist. */
TEST(test_wait_cluster)
{
    static const uint32_t tasks[] = {1, 3};
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct fake_request *wait = fake_begin(f, PSI_REQ_WAIT_CLUSTER, NULL, "ps", NULL, 1000);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    struct fake_frame *frame = fake_take(f, 0, PS_OP_WAIT_CLUSTER);
    const uint8_t *p = frame->payload;
    size_t n = frame->bytes;
    ps_v1_TaskItem item;
    bool end = false;
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(psi_list_next(&p, &n, &ps_v1_TaskItem_msg, &item, &end, NULL), PS_OK);
        assert_true(!end && item.task == tasks[i]);
    }
    assert_int_equal(psi_list_next(&p, &n, &ps_v1_TaskItem_msg, &item, &end, NULL), PS_OK);
    assert_true(end);
    fake_reply(f, 0, PS_OP_WAIT_CLUSTER, frame->h.id, false, &(struct fake_answer){0});
    assert_done(wait, PS_OK);
}

TEST(test_told_by_hello)
{
    struct psi_err err = {0};
    struct fake *f = fake_new(NULL, "", 0, false);
    assert_int_equal(psi_cluster_parse(&f->told, SPEC, &err), PS_OK);
    struct fake_request *cluster = fake_begin(f, PSI_REQ_CLUSTER, NULL, NULL, NULL, 1000);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    assert_done(cluster, PS_OK);
    expect_table(f->c);
    assert_true(psi_cluster_equal(psi_client_cluster(f->c), &f->told));
}

/* No memory for the cluster that HELLO tells: the task is dialled again. */
TEST(test_told_without_memory)
{
    struct psi_err err = {0};
    struct wire *body = wire_new(), *frame = wire_new();
    struct ps_reply_meta meta = {0};
    ps_v1_HelloAnswer m = {.protocol = 1, .task = 1, .life = 5, .record = 6, .task_count = 3};
    PSI_BYTES_SET(m.job, "ps");
    wire_item(body, &ps_v1_HelloAnswer_msg, &m);
    static const char *const jobs[] = {"ps", "ps", "worker"}, *const addresses[] = {"a:1", "b:2", "c:1"};
    for (uint32_t i = 0; i < 3; i++) {
        ps_v1_TaskItem t = {.task = i * 2 + 1};
        PSI_BYTES_SET(t.job, jobs[i]);
        PSI_BYTES_SET(t.address, addresses[i]);
        wire_item(body, &ps_v1_TaskItem_msg, &t);
    }
    wire_frame(frame, &(struct wire_frame){.op = PS_OP_HELLO,
                                           .flags = PS_FLAG_REPLY,
                                           .meta = &meta,
                                           .meta_bytes = sizeof(meta),
                                           .payload = body->data,
                                           .payload_bytes = body->len});
    bool fired = true;
    for (int64_t n = 0; fired; n++) {
        struct fake *f = fake_new(NULL, "", 0, false);
        assert_int_equal(psi_cluster_parse(&f->told, SPEC, &err), PS_OK);
        struct fake_request *cluster = fake_begin(f, PSI_REQ_CLUSTER, NULL, NULL, NULL, 60000);
        fake_connect(f, 0);
        fake_take(f, 0, PS_OP_HELLO);
        psi_mem_fail_after(n);
        fake_bytes(f, 0, frame->data, frame->len);
        fired = psi_mem_fail_left() < 0;
        psi_mem_fail_after(-1);
        fake_run(f);
        if (f->task[0].closes > 0) {
            assert_int_equal(cluster->dones, 0);
            fake_wait(f, 1000);
            fake_hello(f, 0, 5, 6, NULL, NULL);
        }
        assert_done(cluster, PS_OK);
        expect_table(f->c);
    }
}

/* HELLO's list out of order, with a task twice, with one address twice, with an index that is too high. */
TEST(test_told_nonsense)
{
    static const struct {
        struct {
            const char *job, *address;
            uint32_t task;
        } items[2];
        const char *text;
    } rows[] = {
        {{{"ps", "a:1", 3}, {"ps", "b:2", 1}}, "not in order"},
        {{{"ps", "a:1", 3}, {"ps", "b:2", 3}}, "not in order"},
        {{{"worker", "a:1", 0}, {"ps", "b:2", 1}}, "not in order"},
        {{{"ps", "a:1", 0}, {"ps", "a:1", 2}}, "given twice"},
        {{{"ps", "a:1", 0}, {"ps", "b:2", 1024}}, "at most 1023"},
        {{{"ps", "a:1", 1}, {"ps", "b:2", 2}}, "does not list itself"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct psi_buf body;
        struct fake *f = fake_new(NULL, "", 0, false);
        struct fake_request *cluster = fake_begin(f, PSI_REQ_CLUSTER, NULL, NULL, NULL, 1000);
        fake_connect(f, 0);
        fake_take(f, 0, PS_OP_HELLO);
        psi_buf_init(&body, 4096);
        ps_v1_HelloAnswer m = {
            .protocol = 1, .task = rows[i].items[0].task == 1 ? 0 : rows[i].items[0].task, .life = 5, .record = 6};
        m.task_count = 2;
        PSI_BYTES_SET(m.job, "ps");
        assert_int_equal(psi_list_append(&body, &ps_v1_HelloAnswer_msg, &m, NULL), PS_OK);
        for (int k = 0; k < 2; k++) {
            ps_v1_TaskItem t = {.task = rows[i].items[k].task};
            PSI_BYTES_SET(t.job, rows[i].items[k].job);
            PSI_BYTES_SET(t.address, rows[i].items[k].address);
            assert_int_equal(psi_list_append(&body, &ps_v1_TaskItem_msg, &t, NULL), PS_OK);
        }
        struct fake_answer a = {.body = &body};
        fake_reply(f, 0, PS_OP_HELLO, 0, false, &a);
        psi_buf_fini(&body);
        assert_int_equal(cluster->dones, 1);
        assert_int_not_equal(cluster->req.status, PS_OK);
        if (strstr(cluster->err.text, rows[i].text) == NULL) {
            fail_msg("row %zu: '%s', not '%s'", i, cluster->err.text, rows[i].text);
        }
        assert_null(psi_client_cluster(f->c));
    }
}
