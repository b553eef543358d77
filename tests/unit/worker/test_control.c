/* SPDX-License-Identifier: Apache-2.0 */
/* worker/core/control.c and ask.c: RESET, WAIT_CLUSTER, INFO, VARS across a reconnect, SHUTDOWN; steady state without
 * allocations. */
#include "fake_test.h"
#include "wire_test.h"

#include "../../../common/mem.h"

#define SPEC "ps=a:1,b:2"

TEST(test_reset)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct fake_request *reset = fake_begin(f, PSI_REQ_RESET, NULL, NULL, NULL, 60000);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    struct fake_frame *frame = fake_take(f, 0, PS_OP_RESET);
    uint64_t id = frame->h.id;
    const uint8_t *p = frame->payload;
    size_t n = frame->bytes;
    ps_v1_ContainerItem m;
    bool end = false;
    assert_int_equal(psi_list_next(&p, &n, &ps_v1_ContainerItem_msg, &m, &end, NULL), PS_OK);
    assert_true(!end && m.container.size == 9 && memcmp(m.container.bytes, "localhost", 9) == 0);
    fake_cut(f, 0);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    assert_true(fake_take(f, 0, PS_OP_RESET)->h.id == id); /* joins the one that waits */
    fake_reply(f, 0, PS_OP_RESET, id, false,
               &(struct fake_answer){.status = PS_UNAVAILABLE, .text = "/job:ps/task:1 is not connected"});
    assert_int_equal(reset->dones, 0);
    fake_wait(f, 100);
    frame = fake_take(f, 0, PS_OP_RESET);
    assert_true(frame->h.id > id);
    fake_reply(f, 0, PS_OP_RESET, frame->h.id, false, &(struct fake_answer){0});
    assert_int_equal(reset->req.status, PS_OK);
}

/* The directory lost its record: the reset may have happened; asked again it might empty what came after it. */
TEST(test_reset_unknown)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct fake_request *reset = fake_begin(f, PSI_REQ_RESET, NULL, NULL, NULL, 60000);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    fake_take(f, 0, PS_OP_RESET);
    fake_cut(f, 0);
    fake_hello(f, 0, 100, 201, NULL, NULL);
    assert_int_equal(reset->req.status, PS_ABORTED);
    assert_int_equal(reset->req.applied, PS_OUTCOME_UNKNOWN);
    assert_null(fake_next(f, 0));
}

TEST(test_wait_cluster)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct fake_request *bad = fake_begin(f, PSI_REQ_WAIT_CLUSTER, NULL, "ps,nobody", NULL, 1000);
    assert_int_equal(bad->req.status, PS_INVALID_ARGUMENT);
    assert_non_null(strstr(bad->err.text, "'nobody'"));
    struct fake_request *wait = fake_begin(f, PSI_REQ_WAIT_CLUSTER, NULL, "ps", NULL, 1000);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    struct fake_frame *frame = fake_take(f, 0, PS_OP_WAIT_CLUSTER);
    ps_v1_Wait m;
    assert_int_equal(psi_msg_decode(&ps_v1_Wait_msg, &m, frame->meta, frame->h.meta_bytes, NULL), PS_OK);
    assert_true(m.timeout_ms == 880);
    const uint8_t *p = frame->payload;
    size_t n = frame->bytes;
    for (uint32_t i = 0; i < 3; i++) {
        ps_v1_TaskItem item;
        bool end = false;
        assert_int_equal(psi_list_next(&p, &n, &ps_v1_TaskItem_msg, &item, &end, NULL), PS_OK);
        assert_true(end == (i == 2) && (end || item.task == i));
    }
    fake_reply(f, 0, PS_OP_WAIT_CLUSTER, frame->h.id, false,
               &(struct fake_answer){.status = PS_DEADLINE_EXCEEDED, .text = "/job:ps/task:1 is missing"});
    assert_int_equal(wait->req.status, PS_DEADLINE_EXCEEDED);
    assert_non_null(strstr(wait->err.text, "/job:ps/task:1 is missing"));
}

static void never(struct psi_request *req)
{
    (void)req;
    fail();
}

TEST(test_barrier)
{
    const struct psi_barrier name = {.at = {.container = "box", .name = "epoch"}, .count = 3};
    const struct psi_barrier bad[] = {{.at = {.name = "a b"}, .count = 3}, {.at = {.name = "epoch"}, .count = -1}};
    struct fake *f = fake_new(SPEC, "", 0, false);
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        struct psi_request req = {.kind = PSI_REQ_BARRIER, .src = &bad[i], .deadline_ms = f->now + 1000, .done = never};
        assert_int_equal(psi_client_start(f->c, &req, NULL), PS_INVALID_ARGUMENT);
    }
    struct fake_request *b = fake_begin(f, PSI_REQ_BARRIER, NULL, &name, NULL, 1000);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    struct fake_frame *frame = fake_take(f, 0, PS_OP_BARRIER);
    uint64_t id = frame->h.id;
    ps_v1_Barrier m;
    ps_v1_NameItem item;
    assert_int_equal(psi_msg_decode(&ps_v1_Barrier_msg, &m, frame->meta, frame->h.meta_bytes, NULL), PS_OK);
    assert_true(m.timeout_ms == 880 && m.count == 3);
    const uint8_t *p = frame->payload;
    size_t n = frame->bytes;
    bool end = false;
    assert_int_equal(psi_list_next(&p, &n, &ps_v1_NameItem_msg, &item, &end, NULL), PS_OK);
    assert_true(item.container.size == 3 && item.name.size == 5 && memcmp(item.name.bytes, "epoch", 5) == 0);
    /* the record is as before: it joins its own arrival */
    fake_cut(f, 0);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    frame = fake_take(f, 0, PS_OP_BARRIER);
    assert_int_equal(frame->h.id, id);
    fake_reply(f, 0, PS_OP_BARRIER, id, false,
               &(struct fake_answer){.status = PS_DEADLINE_EXCEEDED, .text = "2 of 3 have come; not yet: x"});
    assert_done(b, PS_DEADLINE_EXCEEDED);
    assert_non_null(strstr(b->err.text, "barrier of 'epoch': 2 of 3 have come"));
    assert_null(fake_next(f, 0));
    assert_int_equal(f->acked, id);
}

/* The directory lost its record: the others may have been released, so a second arrival could wait for nobody. */
TEST(test_barrier_unknown)
{
    const struct psi_barrier name = {.at = {.name = "epoch"}, .count = 2};
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct fake_request *b = fake_begin(f, PSI_REQ_BARRIER, NULL, &name, NULL, 60000);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    fake_take(f, 0, PS_OP_BARRIER);
    fake_cut(f, 0);
    fake_hello(f, 0, 101, 201, NULL, NULL); /* another life */
    assert_int_equal(b->req.status, PS_ABORTED);
    assert_int_equal(b->req.applied, PS_OUTCOME_UNKNOWN);
    assert_null(fake_next(f, 0));
}

TEST(test_info)
{
    ps_task_info infos[2];
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct fake_request *up = fake_begin(f, PSI_REQ_INFO, NULL, NULL, &infos[0], 1000);
    struct fake_request *down = fake_begin(f, PSI_REQ_INFO, NULL, NULL, &infos[1], 1000);
    assert_int_equal(down->req.task, 0);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    struct psi_buf body;
    psi_buf_init(&body, 4096);
    ps_v1_InfoAnswer m = ps_v1_InfoAnswer_init_zero;
    m.uptime_ms = 12;
    m.pushes_applied = 34;
    m.directory = true;
    m.waiting = PS_WAITING_RETRY;
    PSI_BYTES_SET(m.version, "0.1.0");
    m.has_saves = true;
    m.saves = (ps_v1_SavesState){.number = 12, .step = 1206, .failed_attempts = 2, .failed_status = 8, .containers_count = 1};
    PSI_BYTES_SET(m.saves.containers[0].container, "c");
    assert_int_equal(psi_list_append(&body, &ps_v1_InfoAnswer_msg, &m, NULL), PS_OK);
    struct fake_answer a = {.body = &body};
    fake_reply(f, 0, PS_OP_INFO, fake_take(f, 0, PS_OP_INFO)->h.id, false, &a);
    assert_int_equal(up->req.status, PS_OK);
    assert_true(infos[0].up && infos[0].directory && infos[0].pushes_applied == 34);
    assert_int_equal(infos[0].waiting, PS_WAITING_RETRY);
    assert_string_equal(infos[0].address, "a:1");
    assert_string_equal(infos[0].version, "0.1.0");
    assert_true(infos[0].saves.known && infos[0].saves.number == 12 && infos[0].saves.step == 1205);
    assert_true(infos[0].saves.age_ms == -1 && infos[0].saves.failed_age_ms == -1); /* not said */
    assert_int_equal(infos[0].saves.failed_reason, PS_RESOURCE_EXHAUSTED);          /* as the status says */
    assert_int_equal(infos[0].saves.container_count, 1);
    assert_string_equal(infos[0].saves.containers[0].container, "c");
    assert_int_equal(infos[0].saves.containers[0].step, -1);
    fake_cut(f, 0);
    for (int i = 0; i < 3; i++) {
        fake_wait(f, 300);
        if (f->task[0].dialing) {
            fake_refuse(f, 0, "connection refused");
        }
    }
    fake_wait(f, 300);
    assert_done(down, PS_UNAVAILABLE);
    assert_false(infos[1].up);
    assert_non_null(strstr(infos[1].error, "connection refused"));
    assert_string_equal(infos[1].job, "ps");
    psi_buf_fini(&body);
}

struct seen {
    uint32_t count;
    char names[256];
};

static void see(void *ctx, const ps_variable_info *info)
{
    struct seen *seen = ctx;
    seen->count++;
    size_t at = strlen(seen->names);
    snprintf(seen->names + at, sizeof(seen->names) - at, "%.20s", info->name);
}

static void append_var(struct psi_buf *body, const char *name)
{
    ps_v1_VarAnswer m = ps_v1_VarAnswer_init_zero;
    PSI_BYTES_SET(m.container, "localhost");
    PSI_BYTES_SET(m.name, name);
    m.dtype = PS_F32;
    assert_int_equal(psi_list_append(body, &ps_v1_VarAnswer_msg, &m, NULL), PS_OK);
}

/* Two frames; the connection breaks between them: the whole list is asked for again and shown once. */
TEST(test_vars)
{
    struct seen seen = {0};
    struct psi_list_sink sink = {.variable = see, .ctx = &seen};
    struct fake *f = fake_new(SPEC, "", 0, true);
    struct fake_request *vars = fake_begin(f, PSI_REQ_VARS, NULL, NULL, &sink, 60000);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    struct psi_buf one;
    struct psi_buf two;
    psi_buf_init(&one, 4096);
    psi_buf_init(&two, 4096);
    append_var(&one, "a");
    append_var(&one, "b");
    append_var(&two, "c");
    struct fake_answer first = {.body = &one, .flags = PS_FLAG_MORE};
    struct fake_answer last = {.body = &two};
    fake_reply(f, 0, PS_OP_VARS, fake_take(f, 0, PS_OP_VARS)->h.id, false, &first);
    fake_cut(f, 0);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    uint64_t id = fake_take(f, 0, PS_OP_VARS)->h.id;
    fake_reply(f, 0, PS_OP_VARS, id, false, &first);
    assert_int_equal(seen.count, 0);
    fake_reply(f, 0, PS_OP_VARS, id, false, &last);
    assert_int_equal(vars->req.status, PS_OK);
    assert_int_equal(seen.count, 3);
    assert_string_equal(seen.names, "abc");
    psi_buf_fini(&one);
    psi_buf_fini(&two);
}

/* A variable that no task can have is no answer: who counts its rows, or the bytes of its elements, would divide by 0. */
TEST(test_a_variable_that_cannot_be)
{
    const struct {
        ps_optimizer optimizer;
        ps_dtype dtype;
        uint32_t axis;
        bool can_be;
    } cases[] = {{*ps_no_optimizer(), PS_F32, 1, true},
                 {*ps_no_optimizer(), PS_STRING, 0, false},
                 {{.struct_bytes = sizeof(ps_optimizer), .kind = PS_OPT_ROWWISE_ADAGRAD, .learning_rate = 1}, PS_F32, 0, true},
                 {{.struct_bytes = sizeof(ps_optimizer), .kind = PS_OPT_ROWWISE_ADAGRAD, .learning_rate = 1}, PS_F32, 1, false}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct seen seen = {0};
        struct psi_list_sink sink = {.variable = see, .ctx = &seen};
        struct fake *f = fake_new(SPEC, "", 0, true);
        struct fake_request *vars = fake_begin(f, PSI_REQ_VARS, NULL, NULL, &sink, 60000);
        fake_hello(f, 0, 100, 200, NULL, NULL);
        ps_v1_VarAnswer m = {.dtype = cases[i].dtype, .dims_count = 2, .dims = {4, 4}, .has_optimizer = true, .has_part = true};
        PSI_BYTES_SET(m.container, "localhost");
        PSI_BYTES_SET(m.name, "w/part_0");
        psi_optimizer_to_msg(&cases[i].optimizer, &m.optimizer);
        psi_part_to_msg(&(struct psi_part){.count = 2, .axis = cases[i].axis, .rows = 8}, &m.part);
        struct psi_buf body;
        psi_buf_init(&body, 4096);
        assert_int_equal(psi_list_append(&body, &ps_v1_VarAnswer_msg, &m, NULL), PS_OK);
        fake_reply(f, 0, PS_OP_VARS, fake_take(f, 0, PS_OP_VARS)->h.id, false, &(struct fake_answer){.body = &body});
        assert_int_equal(vars->req.status, cases[i].can_be ? PS_OK : PS_INTERNAL);
        assert_int_equal(seen.count, cases[i].can_be);
        psi_buf_fini(&body);
    }
}

static void see_container(void *ctx, const ps_container_info *info)
{
    struct seen *seen = ctx;
    seen->count++;
    size_t at = strlen(seen->names);
    snprintf(seen->names + at, sizeof(seen->names) - at, "%.20s:%u/%u:%u ", info->name, info->initialised, info->variables,
             (uint32_t)info->bytes);
}

static void see_task(void *ctx, const struct psi_task_seen *info)
{
    struct seen *seen = ctx;
    seen->count++;
    size_t at = strlen(seen->names);
    snprintf(seen->names + at, sizeof(seen->names) - at, "%.9s%u@%.20s:%u %d%d %u '%.20s' %u-%u '%.20s' ", info->job, info->task,
             info->host, info->pid, info->connected, info->heard, (uint32_t)info->missing_ms, info->conflict, info->restarts,
             info->lost, info->lost_names);
}

static void see_session(void *ctx, const ps_session_info *info)
{
    struct seen *seen = ctx;
    seen->count++;
    snprintf(seen->names, sizeof(seen->names),
             "%.9s%u@%.20s:%u %.20s %.16s %d%d %u/%u step %lld %g/s waits %u pushes %u says '%.20s'", info->job, info->task,
             info->host, info->pid, info->program, info->id, info->connected, info->stopping, (uint32_t)info->heard_ms,
             (uint32_t)info->age_ms, (long long)info->global_step, info->steps_per_second, info->waits, info->in_progress,
             info->values);
}

static void see_wait(void *ctx, const ps_wait_info *info)
{
    struct seen *seen = ctx;
    seen->count++;
    snprintf(seen->names, sizeof(seen->names), "%.9s%u@%.20s:%u %.20s %.16s %s '%.40s' '%.40s' %u %lld", info->job, info->task,
             info->host, info->pid, info->program, info->id, info->request, info->what, info->release, (uint32_t)info->since_ms,
             (long long)info->left_ms);
}

/* One list request at task 0, answered with one message. */
static void one_list(enum psi_request_kind kind, uint8_t op, const pb_msgdesc_t *d, const void *m, struct seen *seen,
                     ps_status status)
{
    struct fake f;
    struct fake_request list;
    struct psi_list_sink sink = {
        .container = see_container, .session = see_session, .wait = see_wait, .task = see_task, .ctx = seen};
    struct psi_buf body;
    psi_buf_init(&body, 4096);
    fake_init(&f, SPEC, "", 0, true);
    fake_start(&f, &list, kind, NULL, NULL, &sink, 60000);
    fake_hello(&f, 0, 100, 200, NULL, NULL);
    assert_int_equal(psi_list_append(&body, d, m, NULL), PS_OK);
    struct fake_answer a = {.body = &body};
    fake_reply(&f, 0, op, fake_take(&f, 0, op)->h.id, false, &a);
    assert_int_equal(list.dones, 1);
    assert_int_equal(list.req.status, status);
    psi_buf_fini(&body);
    fake_fini(&f);
}

TEST(test_containers)
{
    struct seen seen = {0};
    ps_v1_ContainerAnswer m = ps_v1_ContainerAnswer_init_zero;
    PSI_BYTES_SET(m.container, "left");
    m.variables = 3;
    m.initialised = 2;
    m.bytes = 800;
    one_list(PSI_REQ_CONTAINERS, PS_OP_CONTAINERS, &ps_v1_ContainerAnswer_msg, &m, &seen, PS_OK);
    assert_string_equal(seen.names, "left:2/3:800 ");
    m.container.bytes[1] = 0; /* a NUL in a name */
    one_list(PSI_REQ_CONTAINERS, PS_OP_CONTAINERS, &ps_v1_ContainerAnswer_msg, &m, &seen, PS_INTERNAL);
    assert_int_equal(seen.count, 1);
}

/* A frame of a list for which there is no memory: the request fails, unless the list begins anew on another connection. */
static void list_without_memory(bool cut, ps_status status)
{
    struct seen seen = {0};
    struct psi_list_sink sink = {.container = see_container, .ctx = &seen};
    struct fake_request list;
    struct fake f;
    struct wire frame, body;
    ps_v1_ContainerAnswer m = ps_v1_ContainerAnswer_init_zero;
    struct ps_reply_meta meta = {0};
    wire_init(&frame);
    wire_init(&body);
    PSI_BYTES_SET(m.container, "left");
    wire_item(&body, &ps_v1_ContainerAnswer_msg, &m);
    fake_init(&f, SPEC, "", 0, false);
    fake_start(&f, &list, PSI_REQ_CONTAINERS, NULL, NULL, &sink, 60000);
    fake_hello(&f, 0, 100, 200, NULL, NULL);
    uint64_t id = fake_take(&f, 0, PS_OP_CONTAINERS)->h.id;
    wire_frame(&frame, &(struct wire_frame){.op = PS_OP_CONTAINERS,
                                            .flags = PS_FLAG_REPLY | PS_FLAG_MORE,
                                            .id = id,
                                            .meta = &meta,
                                            .meta_bytes = sizeof(meta),
                                            .payload = body.data,
                                            .payload_bytes = body.len});
    psi_mem_fail_after(0);
    fake_bytes(&f, 0, frame.data, frame.len);
    psi_mem_fail_after(-1);
    assert_int_equal(list.dones, 0);
    assert_int_equal(f.task[0].closes, 0);
    if (cut) {
        fake_cut(&f, 0);
        fake_wait(&f, 1000);
        fake_hello(&f, 0, 100, 200, NULL, NULL);
        id = fake_take(&f, 0, PS_OP_CONTAINERS)->h.id;
    }
    fake_reply_item(&f, 0, PS_OP_CONTAINERS, id, &ps_v1_ContainerAnswer_msg, &m);
    assert_done(&list, status);
    assert_int_equal(seen.count, status == PS_OK);
    wire_fini(&body);
    wire_fini(&frame);
    fake_fini(&f);
}

TEST(test_list_without_memory)
{
    list_without_memory(false, PS_RESOURCE_EXHAUSTED);
    list_without_memory(true, PS_OK);
}

TEST(test_tasks)
{
    struct seen seen = {0};
    ps_v1_TaskAnswer m = ps_v1_TaskAnswer_init_zero;
    PSI_BYTES_SET(m.job, "ps");
    m.task = 1;
    PSI_BYTES_SET(m.host, "there");
    PSI_BYTES_SET(m.conflict, "pid 9 at here");
    m.pid = 7;
    m.heard = true;
    m.missing_ms = 300;
    m.restarts = 3;
    m.lost = 2;
    PSI_BYTES_SET(m.lost_names, "b, w");
    one_list(PSI_REQ_TASKS, PS_OP_TASKS, &ps_v1_TaskAnswer_msg, &m, &seen, PS_OK);
    assert_string_equal(seen.names, "ps1@there:7 01 300 'pid 9 at here' 3-2 'b, w' ");
}

static const uint8_t half_id[8] = {1, 2, 3, 4, 5, 6, 7, 0xff};

TEST(test_sessions)
{
    struct seen seen = {0};
    ps_v1_SessionAnswer m = ps_v1_SessionAnswer_init_zero;
    memcpy(m.session.bytes, half_id, 8);
    m.session.size = 8;
    PSI_BYTES_SET(m.job, "worker");
    PSI_BYTES_SET(m.host, "there");
    PSI_BYTES_SET(m.program, "train");
    m.task = 3;
    m.pid = 7;
    m.connected = true;
    m.heard_ms = 12;
    m.age_ms = 34;
    m.waits = 1;
    m.in_progress = 2;
    one_list(PSI_REQ_SESSIONS, PS_OP_SESSIONS, &ps_v1_SessionAnswer_msg, &m, &seen, PS_OK);
    assert_string_equal(seen.names, "worker3@there:7 train 01020304050607ff 10 12/34 step -1 0/s waits 1 pushes 2 says ''");
    PSI_BYTES_SET(m.said, "loss=0.25");
    m.global_step = 1;
    m.steps_per_second = 2.5;
    m.stopping = true;
    one_list(PSI_REQ_SESSIONS, PS_OP_SESSIONS, &ps_v1_SessionAnswer_msg, &m, &seen, PS_OK);
    assert_non_null(strstr(seen.names, "11 12/34 step 0 2.5/s"));
    assert_non_null(strstr(seen.names, "says 'loss=0.25'"));
    m.said.bytes[0] = 0;
    one_list(PSI_REQ_SESSIONS, PS_OP_SESSIONS, &ps_v1_SessionAnswer_msg, &m, &seen, PS_INTERNAL);
    m.said.size = 0;
    m.steps_per_second = -1;
    one_list(PSI_REQ_SESSIONS, PS_OP_SESSIONS, &ps_v1_SessionAnswer_msg, &m, &seen, PS_INTERNAL);
    m.steps_per_second = 1;
    m.global_step = (uint64_t)INT64_MAX + 1; /* step INT64_MAX */
    one_list(PSI_REQ_SESSIONS, PS_OP_SESSIONS, &ps_v1_SessionAnswer_msg, &m, &seen, PS_OK);
    m.global_step++;
    one_list(PSI_REQ_SESSIONS, PS_OP_SESSIONS, &ps_v1_SessionAnswer_msg, &m, &seen, PS_INTERNAL);
    m.global_step = 0;
    m.session.size = 7;
    one_list(PSI_REQ_SESSIONS, PS_OP_SESSIONS, &ps_v1_SessionAnswer_msg, &m, &seen, PS_INTERNAL);
    assert_int_equal(seen.count, 3);
}

TEST(test_waits)
{
    struct seen seen = {0};
    ps_v1_WaitAnswer m = ps_v1_WaitAnswer_init_zero;
    memcpy(m.session.bytes, half_id, 8);
    m.session.size = 8;
    PSI_BYTES_SET(m.job, "worker");
    PSI_BYTES_SET(m.host, "there");
    PSI_BYTES_SET(m.program, "train");
    PSI_BYTES_SET(m.what, "sealed: w");
    PSI_BYTES_SET(m.release, "the chief seals w");
    m.op = PS_OP_WAIT;
    m.since_ms = 12;
    one_list(PSI_REQ_WAITS, PS_OP_WAITS, &ps_v1_WaitAnswer_msg, &m, &seen, PS_OK);
    assert_string_equal(seen.names, "worker0@there:0 train 01020304050607ff WAIT 'sealed: w' 'the chief seals w' 12 -1");
    m.op = 99; /* of a newer task */
    m.left_ms = 1;
    one_list(PSI_REQ_WAITS, PS_OP_WAITS, &ps_v1_WaitAnswer_msg, &m, &seen, PS_OK);
    assert_non_null(strstr(seen.names, "request 'sealed: w' 'the chief seals w' 12 1"));
    m.left_ms = UINT64_MAX;
    one_list(PSI_REQ_WAITS, PS_OP_WAITS, &ps_v1_WaitAnswer_msg, &m, &seen, PS_INTERNAL);
}

TEST(test_set_rate)
{
    uint64_t count = 0;
    const uint64_t three = 3;
    ps_v1_SetRate m;
    ps_v1_ContainerItem in;
    struct psi_rate rate = {.container = "localhost", .name = "w", .rate = 0.25};
    struct fake *f = fake_new(SPEC, "", 0, true);
    struct fake_request *set = fake_begin(f, PSI_REQ_SET_RATE, NULL, &rate, &count, 60000);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    struct fake_frame *frame = fake_take(f, 0, PS_OP_SET_RATE);
    const uint8_t *p = frame->payload;
    size_t n = frame->bytes;
    bool end = false;
    assert_int_equal(psi_msg_decode(&ps_v1_SetRate_msg, &m, frame->meta, frame->h.meta_bytes, NULL), PS_OK);
    assert_true(m.name.size == 1 && m.name.bytes[0] == 'w' && m.rate == 0.25 && !m.clear);
    assert_int_equal(psi_list_next(&p, &n, &ps_v1_ContainerItem_msg, &in, &end, NULL), PS_OK);
    assert_true(!end && in.container.size == 9);
    fake_cut(f, 0);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    frame = fake_take(f, 0, PS_OP_SET_RATE); /* setting it twice is setting it */
    fake_reply(f, 0, PS_OP_SET_RATE, frame->h.id, false, &(struct fake_answer){.result_bytes = 8, .result = &three});
    assert_done(set, PS_OK);
    assert_int_equal(count, 3);
    rate = (struct psi_rate){.container = "localhost", .clear = true};
    set = fake_begin(f, PSI_REQ_SET_RATE, NULL, &rate, &count, 60000);
    frame = fake_take(f, 0, PS_OP_SET_RATE);
    assert_int_equal(psi_msg_decode(&ps_v1_SetRate_msg, &m, frame->meta, frame->h.meta_bytes, NULL), PS_OK);
    assert_true(m.name.size == 0 && m.clear);
    fake_reply(f, 0, PS_OP_SET_RATE, frame->h.id, false, &(struct fake_answer){.result_bytes = 4, .result = &three});
    assert_int_equal(set->req.status, PS_INTERNAL);
    set = fake_begin(f, PSI_REQ_SET_RATE, NULL, &rate, &count, 60000);
    frame = fake_take(f, 0, PS_OP_SET_RATE);
    fake_reply(f, 0, PS_OP_SET_RATE, frame->h.id, false, &(struct fake_answer){.status = PS_NOT_FOUND, .text = "no such one"});
    assert_int_equal(set->req.status, PS_NOT_FOUND);
    assert_non_null(strstr(set->err.text, "no such one"));
}

TEST(test_config_set)
{
    char name[65], value[513];
    struct psi_setting setting = {.name = name, .value = value};
    memset(name, 'n', sizeof(name));
    memset(value, 'v', sizeof(value));
    name[63] = value[511] = '\0';
    struct fake *f = fake_new(SPEC, "", 0, true);
    struct fake_request *set = fake_begin(f, PSI_REQ_CONFIG_SET, NULL, &setting, NULL, 60000);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    struct fake_frame *frame = fake_take(f, 0, PS_OP_CONFIG_SET);
    const uint8_t *p = frame->payload;
    size_t n = frame->bytes;
    ps_v1_ConfigItem m;
    bool end = false;
    assert_int_equal(psi_list_next(&p, &n, &ps_v1_ConfigItem_msg, &m, &end, NULL), PS_OK);
    assert_true(!end && m.name.size == 63 && m.value.size == 511);
    fake_cut(f, 0);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    frame = fake_take(f, 0, PS_OP_CONFIG_SET); /* setting it twice is setting it */
    fake_reply(f, 0, PS_OP_CONFIG_SET, frame->h.id, false,
               &(struct fake_answer){.status = PS_INVALID_ARGUMENT, .text = "nnn: 1 to 10 are allowed"});
    assert_int_equal(set->req.status, PS_INVALID_ARGUMENT);
    assert_non_null(strstr(set->err.text, "1 to 10 are allowed"));
    value[511] = 'v';
    value[512] = '\0';
    set = fake_begin(f, PSI_REQ_CONFIG_SET, NULL, &setting, NULL, 60000);
    fake_run(f);
    assert_int_equal(set->req.status, PS_INVALID_ARGUMENT);
    value[511] = '\0';
    name[63] = 'n';
    name[64] = '\0';
    set = fake_begin(f, PSI_REQ_CONFIG_SET, NULL, &setting, NULL, 60000);
    fake_run(f);
    assert_int_equal(set->req.status, PS_INVALID_ARGUMENT);
    assert_non_null(strstr(set->err.text, "at most 63"));
    assert_null(fake_next(f, 0));
}

/* MAY is asked again on a new connection, and its answer is the request's. */
TEST(test_may)
{
    static const struct psi_may may = {.who = "key:w0", .role = "worker", .container = "c", .rights = 3};
    struct fake *f = fake_new(SPEC, "", 0, true);
    struct fake_request *asked = fake_begin(f, PSI_REQ_MAY, NULL, &may, NULL, 60000);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    fake_take(f, 0, PS_OP_MAY);
    fake_cut(f, 0);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    struct fake_frame *frame = fake_take(f, 0, PS_OP_MAY);
    const uint8_t *p = frame->payload;
    size_t n = frame->bytes;
    ps_v1_MayItem m;
    bool end = false;
    assert_int_equal(psi_list_next(&p, &n, &ps_v1_MayItem_msg, &m, &end, NULL), PS_OK);
    assert_true(!end && m.who.size == 6 && memcmp(m.who.bytes, "key:w0", 6) == 0 && m.role.size == 6 && m.container.size == 1);
    assert_int_equal(m.rights, 3);
    fake_reply(f, 0, PS_OP_MAY, frame->h.id, false, &(struct fake_answer){.status = PS_PERMISSION_DENIED, .text = "no right"});
    assert_int_equal(asked->req.status, PS_PERMISSION_DENIED);
    assert_non_null(strstr(asked->err.text, "no right"));
}

TEST(test_stop)
{
    struct psi_buf body;
    uint32_t told = 0;
    ps_v1_StopAnswer m = {.sessions = 4};
    psi_buf_init(&body, 4096);
    struct fake *f = fake_new(SPEC, "", 0, true);
    struct fake_request *stop = fake_begin(f, PSI_REQ_STOP, NULL, NULL, &told, 60000);
    fake_hello(f, 0, 100, 200, NULL, NULL); /* the directory */
    fake_take(f, 0, PS_OP_STOP);
    fake_cut(f, 0);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    uint64_t id = fake_take(f, 0, PS_OP_STOP)->h.id; /* again: it is harmless */
    fake_reply(f, 0, PS_OP_STOP, id, false, &(struct fake_answer){.status = PS_UNAVAILABLE, .text = "later"});
    fake_wait(f, 1000);
    assert_int_equal(psi_list_append(&body, &ps_v1_StopAnswer_msg, &m, NULL), PS_OK);
    struct fake_answer a = {.body = &body};
    fake_reply(f, 0, PS_OP_STOP, fake_take(f, 0, PS_OP_STOP)->h.id, false, &a);
    assert_int_equal(stop->req.status, PS_OK);
    assert_int_equal(told, 4);
    stop = fake_begin(f, PSI_REQ_STOP, NULL, NULL, NULL, 60000); /* nobody wants the number */
    fake_reply(f, 0, PS_OP_STOP, fake_take(f, 0, PS_OP_STOP)->h.id, false, &a);
    assert_int_equal(stop->req.status, PS_OK);
    stop = fake_begin(f, PSI_REQ_STOP, NULL, NULL, NULL, 60000);
    fake_reply(f, 0, PS_OP_STOP, fake_take(f, 0, PS_OP_STOP)->h.id, false, &(struct fake_answer){0});
    assert_int_equal(stop->req.status, PS_INTERNAL);
    psi_buf_fini(&body);
}

/* A directory that was started again has other things to save, and may give a number to another checkpoint: what it would answer
 * is not what was asked for. With the record that heard the request it is joined. */
TEST(test_checkpoint_once)
{
    static const struct {
        enum psi_request_kind kind;
        uint8_t op;
    } rows[] = {{PSI_REQ_CHECKPOINT, PS_OP_CHECKPOINT},
                {PSI_REQ_CHECKPOINT_DELETE, PS_OP_CHECKPOINT_DELETE},
                {PSI_REQ_CHECKPOINT_RESTORE, PS_OP_CHECKPOINT_RESTORE}};
    const struct psi_saved_name of = {.number = 3};
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct fake *f = fake_new(SPEC, "", 0, false);
        uint64_t number = 0;
        struct fake_request *ask =
            fake_begin(f, rows[i].kind, NULL, rows[i].kind == PSI_REQ_CHECKPOINT ? NULL : &of, &number, 60000);
        fake_hello(f, 0, 100, 200, NULL, NULL);
        uint64_t id = fake_take(f, 0, rows[i].op)->h.id;
        fake_cut(f, 0);
        fake_hello(f, 0, 100, 200, NULL, NULL);
        assert_true(fake_take(f, 0, rows[i].op)->h.id == id);
        fake_cut(f, 0);
        fake_hello(f, 0, 101, 201, NULL, NULL);
        assert_done(ask, PS_UNAVAILABLE);
        assert_int_equal(ask->req.applied, PS_OUTCOME_UNKNOWN);
        assert_null(fake_next(f, 0));
    }
}

/* It may have been heard: a task that was started again must not be stopped by a second one. */
TEST(test_shutdown_once)
{
    struct fake *f = fake_new(SPEC, "", 0, false);
    struct fake_request *down = fake_begin(f, PSI_REQ_SHUTDOWN, NULL, NULL, NULL, 60000);
    fake_hello(f, 0, 100, 200, NULL, NULL);
    fake_take(f, 0, PS_OP_SHUTDOWN);
    fake_cut(f, 0);
    assert_done(down, PS_UNAVAILABLE);
    assert_int_equal(down->req.applied, PS_OUTCOME_UNKNOWN);
    fake_hello(f, 0, 101, 201, NULL, NULL);
    assert_null(fake_next(f, 0));
}

/* Nothing is allocated per push or pull once everything has its size (the test's own frames come from malloc, uncounted). */
TEST(test_no_allocations)
{
    static struct fake_request push, pull;
    float grad[64] = {1};
    float dst[64];
    uint64_t before = 0;
    struct fake *f = fake_new(SPEC, "", 0, true);
    struct psi_var *w = fake_get(f, 0, "w", 64, 9, 1);
    for (uint64_t i = 1; i <= 20; i++) {
        if (i == 10) {
            before = psi_mem_count();
        }
        fake_start(f, &push, PSI_REQ_PUSH, w, grad, NULL, 1000);
        fake_start(f, &pull, PSI_REQ_PULL, w, NULL, dst, 1000);
        assert_true(fake_take(f, 0, PS_OP_PUSH)->h.id == i);
        struct fake_frame ask = *fake_take(f, 0, PS_OP_PULL);
        uint64_t own = psi_mem_count();
        fake_reply(f, 0, PS_OP_PUSH, i, true, &(struct fake_answer){0});
        fake_values(f, 0, &ask, false, 0, grad, sizeof(grad), i, 0);
        before += i >= 10 ? psi_mem_count() - own : 0; /* the test's queues allocate, one frame each */
        assert_true(psi_mem_count() - own <= 2);
        assert_int_equal(push.req.status, PS_OK);
        assert_int_equal(pull.req.status, PS_OK);
    }
    assert_true(psi_mem_count() == before);
}
