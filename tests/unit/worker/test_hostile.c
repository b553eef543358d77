/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A task whose every frame is well sealed and wrong inside: fields, lists, metas, values, numbers. The core must close, ignore or
 * end requests with an error; it must never crash, never touch memory that is not its own (ASan), and never lose a callback.
 */
#include "test.h"
#include "../../lib/fake_task.h"

#include "../../../common/rng.h"

#include <stdlib.h>

#define SPEC "ps=a:1,b:2"
enum { ROUNDS = 400, ELEMENTS = 40 };

static uint64_t random_state;

static uint32_t below(uint32_t n)
{
    return (uint32_t)psi_random_below(&random_state, n);
}

static void damage(uint8_t *p, size_t n)
{
    for (uint32_t i = 0; n > 0 && i < 1 + below(4); i++) {
        p[below((uint32_t)n)] = (uint8_t)(below(3) == 0 ? 0xff : below(256));
    }
}

/* A list of one OpenAnswer, NumberItem, ... with damage. */
static void hostile_body(struct psi_buf *b)
{
    ps_v1_OpenAnswer open = ps_v1_OpenAnswer_init_zero;
    ps_v1_CreateAnswer create = ps_v1_CreateAnswer_init_zero;
    ps_v1_VarAnswer var = ps_v1_VarAnswer_init_zero;
    ps_v1_InfoAnswer info = ps_v1_InfoAnswer_init_zero;
    psi_buf_clear(b);
    ps_v1_ContainerAnswer container = ps_v1_ContainerAnswer_init_zero;
    ps_v1_SessionAnswer session = ps_v1_SessionAnswer_init_zero;
    ps_v1_WaitAnswer wait = ps_v1_WaitAnswer_init_zero;
    ps_v1_TaskAnswer task = ps_v1_TaskAnswer_init_zero;
    ps_v1_StopAnswer stop = {.sessions = below(9)};
    switch (below(10)) {
    case 0:
        open.index = below(4);
        open.status = below(3) == 0 ? below(40) : 0;
        open.handle = below(3);
        open.creation = below(3);
        open.incarnation = 77;
        open.dtype = below(7);
        open.dims_count = (pb_size_t)below(9);
        for (uint32_t i = 0; i < open.dims_count; i++) {
            open.dims[i] = (int64_t)psi_random_u64(&random_state) >> below(64);
        }
        open.has_optimizer = below(2) == 0;
        open.optimizer.kind = below(7);
        PSI_IGNORE(psi_list_append(b, &ps_v1_OpenAnswer_msg, &open, NULL));
        break;
    case 1:
        create.index = below(4);
        create.status = below(3) == 0 ? below(40) : 0;
        create.task = below(4);
        PSI_BYTES_SET(create.job, below(3) == 0 ? "other" : "ps");
        PSI_BYTES_SET(create.text, "text");
        PSI_IGNORE(psi_list_append(b, &ps_v1_CreateAnswer_msg, &create, NULL));
        break;
    case 2:
        PSI_BYTES_SET(var.name, "name");
        var.dtype = below(9);
        var.optimizer.kind = below(9);
        PSI_IGNORE(psi_list_append(b, &ps_v1_VarAnswer_msg, &var, NULL));
        break;
    case 3:
        info.uptime_ms = 1;
        PSI_BYTES_SET(info.version, "1");
        PSI_IGNORE(psi_list_append(b, &ps_v1_InfoAnswer_msg, &info, NULL));
        break;
    case 4:
        PSI_BYTES_SET(container.container, "left");
        container.bytes = psi_random_u64(&random_state);
        PSI_IGNORE(psi_list_append(b, &ps_v1_ContainerAnswer_msg, &container, NULL));
        break;
    case 5:
        session.session.size = (pb_size_t)(8 - below(2));
        PSI_BYTES_SET(session.job, "worker");
        session.global_step = psi_random_u64(&random_state) >> below(64);
        session.steps_per_second = below(3) == 0 ? -1.0 : 1.0;
        PSI_IGNORE(psi_list_append(b, &ps_v1_SessionAnswer_msg, &session, NULL));
        break;
    case 6:
        wait.session.size = (pb_size_t)(8 - below(2));
        wait.op = below(90);
        wait.left_ms = psi_random_u64(&random_state) >> below(64);
        PSI_BYTES_SET(wait.what, "sealed: w");
        PSI_IGNORE(psi_list_append(b, &ps_v1_WaitAnswer_msg, &wait, NULL));
        break;
    case 7:
        PSI_BYTES_SET(task.job, below(3) == 0 ? "other" : "ps");
        task.task = below(4);
        task.missing_ms = psi_random_u64(&random_state);
        PSI_IGNORE(psi_list_append(b, &ps_v1_TaskAnswer_msg, &task, NULL));
        break;
    case 8:
        PSI_IGNORE(psi_list_append(b, &ps_v1_StopAnswer_msg, &stop, NULL));
        break;
    default:
        for (uint32_t i = 0; i < below(64); i++) {
            uint8_t byte = (uint8_t)below(256);
            PSI_IGNORE(psi_buf_append(b, &byte, 1, NULL));
        }
        break;
    }
    if (b->len > 0 && below(2) == 0) {
        damage(b->data, b->len);
    }
}

/* One reply to something, with a damaged meta or a hostile body. */
static void hostile_reply(struct fake *f, uint32_t task, const struct fake_frame *to)
{
    struct psi_buf body;
    psi_buf_init(&body, 4096);
    hostile_body(&body);
    _Alignas(8) uint8_t meta[128] = {0};
    struct ps_reply_meta m = {.version = below(5), .position = below(9)};
    memcpy(meta, &m, sizeof(m));
    struct ps_frame_header h = {.magic = PS_FRAME_MAGIC, .version = PS_FRAME_VERSION, .op = to->h.op, .id = to->h.id};
    h.flags = (uint16_t)(PS_FLAG_REPLY | (to->h.flags & PS_FLAG_SEQ));
    h.meta_bytes = sizeof(m);
    switch (below(8)) {
    case 0:
        damage(meta, sizeof(m));
        break;
    case 1:
        h.offset = below(30);
        break;
    case 2:
        h.id += below(5);
        break;
    case 3:
        h.op = (uint8_t)below(90);
        break;
    case 4:
        h.flags = (uint16_t)(h.flags ^ (1u << below(7)));
        h.dtype = (uint8_t)below(8);
        break;
    case 5:
        h.meta_bytes = (uint16_t)(8 * below(16));
        break;
    default:
        break;
    }
    struct psi_outq q;
    psi_outq_init(&q);
    if (psi_outq_push_body(&q, &h, meta, body.data, (uint32_t)body.len, true) == PS_OK) {
        const struct psi_iov *iov = NULL;
        size_t count = psi_outq_compose(&q, 1 << 20, &iov);
        for (size_t i = 0; i < count && f->task[task].link != NULL; i++) {
            psi_client_bytes(f->c, f->task[task].link, iov[i].base, iov[i].bytes);
            fake_run(f);
        }
    }
    psi_outq_fini(&q);
    psi_buf_fini(&body);
}

static void hostile_hello(struct fake *f, uint32_t task)
{
    struct psi_buf body;
    psi_buf_init(&body, 4096);
    ps_v1_HelloAnswer a = ps_v1_HelloAnswer_init_zero;
    a.protocol = below(20) == 0 ? 2 : 1;
    PSI_BYTES_SET(a.job, "ps");
    a.task = task;
    a.life = 100 + below(2);
    a.record = 200 + below(2);
    a.number_count = below(4);
    a.task_count = below(3);
    a.lease_ms = below(2) == 0 ? 0 : PS_LEASE_MS;
    PSI_IGNORE(psi_list_append(&body, &ps_v1_HelloAnswer_msg, &a, NULL));
    for (uint32_t i = 0; i < a.task_count; i++) {
        ps_v1_TaskItem t = {.task = i};
        PSI_BYTES_SET(t.job, "ps");
        PSI_IGNORE(psi_list_append(&body, &ps_v1_TaskItem_msg, &t, NULL));
    }
    for (uint32_t i = 0; i < a.number_count; i++) {
        ps_v1_NumberItem n = {.number = 1 + i, .state = below(7), .offset = below(3) * 10, .status = below(20)};
        PSI_IGNORE(psi_list_append(&body, &ps_v1_NumberItem_msg, &n, NULL));
    }
    if (below(3) == 0) {
        damage(body.data, body.len);
    }
    struct fake_answer answer = {.body = &body, .status = below(30) == 0 ? PS_UNAVAILABLE : PS_OK};
    fake_reply(f, task, PS_OP_HELLO, 0, false, &answer);
    psi_buf_fini(&body);
}

static void see(void *ctx, const ps_variable_info *info)
{
    *(uint32_t *)ctx += info->dtype <= PS_BOOL ? 1 : 0;
}

/* What is given out is sane, whatever came. */
static void see_container(void *ctx, const ps_container_info *info)
{
    assert_true(strlen(info->name) < sizeof(info->name));
    (*(uint32_t *)ctx)++;
}

static void see_session(void *ctx, const ps_session_info *info)
{
    assert_true(strlen(info->id) == 16 && info->global_step >= -1 && info->steps_per_second >= 0);
    (*(uint32_t *)ctx)++;
}

static void see_wait(void *ctx, const ps_wait_info *info)
{
    assert_true(strlen(info->id) == 16 && info->left_ms >= -1 && info->left_ms != 0 && info->request[0] != '\0');
    (*(uint32_t *)ctx)++;
}

static void see_task(void *ctx, const struct psi_task_seen *info)
{
    assert_true(strlen(info->conflict) < sizeof(info->conflict));
    (*(uint32_t *)ctx)++;
}

static void one_session(uint64_t seed)
{
    static const enum psi_request_kind KINDS[] = {PSI_REQ_PUSH,       PSI_REQ_PUSH_PULL, PSI_REQ_ASSIGN, PSI_REQ_INIT,
                                                  PSI_REQ_PULL,       PSI_REQ_STATUS,    PSI_REQ_READY,  PSI_REQ_RESET,
                                                  PSI_REQ_INFO,       PSI_REQ_VARS,      PSI_REQ_PING,   PSI_REQ_WAIT_CLUSTER,
                                                  PSI_REQ_CONTAINERS, PSI_REQ_SESSIONS,  PSI_REQ_WAITS,  PSI_REQ_TASKS,
                                                  PSI_REQ_STOP,       PSI_REQ_STOP_AT,   PSI_REQ_BARRIER};
    enum { REQUESTS = sizeof(KINDS) / sizeof(KINDS[0]) };
    struct fake_request r[REQUESTS];
    struct fake f;
    float src[ELEMENTS] = {0};
    const struct psi_barrier barrier = {.at = {.name = "epoch"}, .count = 2};
    float *dst = calloc(ELEMENTS, sizeof(float)); /* its ends are watched */
    uint32_t seen = 0;
    ps_task_info info;
    struct psi_list_sink sink = {
        .variable = see, .container = see_container, .session = see_session, .wait = see_wait, .task = see_task, .ctx = &seen};
    uint32_t told = 0;
    random_state = seed;
    fake_init(&f, SPEC, "", 0, true);
    struct psi_var *w = fake_get(&f, 0, "w", ELEMENTS, 9, 1);
    for (size_t i = 0; i < REQUESTS; i++) {
        bool stops = KINDS[i] == PSI_REQ_STOP || KINDS[i] == PSI_REQ_STOP_AT;
        bool lists = KINDS[i] == PSI_REQ_VARS || (KINDS[i] > PSI_REQ_PING && !stops && KINDS[i] != PSI_REQ_BARRIER);
        void *to = KINDS[i] == PSI_REQ_INFO ? (void *)&info : stops ? (void *)&told : lists ? (void *)&sink : (void *)dst;
        const void *from = KINDS[i] == PSI_REQ_WAIT_CLUSTER ? (const void *)"ps"
                           : KINDS[i] == PSI_REQ_RESET      ? NULL
                           : KINDS[i] == PSI_REQ_BARRIER    ? (const void *)&barrier
                                                            : (const void *)src;
        bool data = KINDS[i] <= PSI_REQ_PULL;
        fake_start(&f, &r[i], KINDS[i], data || KINDS[i] == PSI_REQ_STATUS ? w : NULL, from, to, 2000 + below(3000));
    }
    for (uint32_t step = 0; step < 60; step++) {
        if (f.task[0].link == NULL) {
            fake_wait(&f, 1000);
            if (f.task[0].dialing) {
                fake_connect(&f, 0);
                hostile_hello(&f, 0);
            }
            continue;
        }
        struct fake_frame *frame = fake_next(&f, 0);
        if (frame == NULL) {
            fake_wait(&f, 100);
            continue;
        }
        struct fake_frame to = *frame;
        if (to.h.op == PS_OP_PULL && below(2) == 0) {
            fake_values(&f, 0, &to, false, 0, src, (ELEMENTS - (below(4) == 0 ? 8 : 0)) * 4, below(3), below(2));
        } else if (to.h.op == PS_OP_PUSHPULL && below(2) == 0) {
            fake_values(&f, 0, &to, true, below(3) == 0 ? 16384 : 0, src, (ELEMENTS - (below(4) == 0 ? 8 : 0)) * 4, 1, 0);
        } else {
            hostile_reply(&f, 0, &to);
        }
    }
    fake_wait(&f, 6000);
    for (size_t i = 0; i < REQUESTS; i++) {
        assert_int_equal(r[i].dones, 1);
    }
    assert_int_equal(psi_client_pending(f.c), 0);
    free(dst);
    fake_fini(&f);
}

TEST(test_hostile)
{
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        print_message("seed %llu\r", (unsigned long long)seed);
        one_session(seed);
    }
}
