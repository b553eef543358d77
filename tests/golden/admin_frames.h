/* SPDX-License-Identifier: Apache-2.0 */
/* Golden frames of administration: CONFIG_SET, and what SESSIONS, WAITS, CONTAINERS, TASKS and STOP answer; the end
 * of a job. */
#ifndef TESTS_GOLDEN_ADMIN_FRAMES_H
#define TESTS_GOLDEN_ADMIN_FRAMES_H

#include "encode.h"

/* A frame whose body is a list of count messages, the reply of op or a request. */
static inline void list_frame(struct wire *out, uint8_t op, uint16_t flags, uint64_t id, const pb_msgdesc_t *d,
                              const void *messages, size_t bytes, size_t count)
{
    struct psi_buf body;
    psi_buf_init(&body, PS_CONTROL_BODY_MAX);
    for (size_t i = 0; i < count; i++) {
        list_add(&body, d, (const char *)messages + i * bytes);
    }
    struct ps_frame_header h = header_of(op, flags, id, 0);
    control(out, &h, NULL, NULL, &body);
    psi_buf_fini(&body);
}

static const uint8_t half_session[8] = {0, 1, 2, 3, 4, 5, 6, 7};

static inline void sessions_answer_of(struct wire *out, const char *rival, const char *who, const char *said)
{
    ps_v1_SessionAnswer m[2] = {ps_v1_SessionAnswer_init_zero, ps_v1_SessionAnswer_init_zero};
    for (int i = 0; i < 2; i++) {
        m[i].session.size = 8;
        memcpy(m[i].session.bytes, half_session, 8);
        PSI_IGNORE(PSI_BYTES_SET(m[i].host, "host.example")); /* these fit */
        PSI_IGNORE(PSI_BYTES_SET(m[i].program, i == 0 ? "psctl" : "pstrain"));
        m[i].pid = 4711;
        m[i].age_ms = 5000;
    }
    m[0].connected = true;
    PSI_IGNORE(PSI_BYTES_SET(m[1].job, "worker"));
    m[1].task = 2;
    m[1].heard_ms = 1200;
    m[1].global_step = 1876;
    m[1].steps_per_second = 12.5;
    m[1].waits = 1;
    m[1].in_progress = 2;
    m[1].stopping = true;
    m[1].held_bytes = 65536;
    PSI_IGNORE(PSI_BYTES_SET(m[1].rival, rival));
    PSI_IGNORE(PSI_BYTES_SET(m[1].who, who));
    PSI_IGNORE(PSI_BYTES_SET(m[1].said, said));
    PSI_IGNORE(PSI_BYTES_SET(m[1].key_id, who[0] != '\0' ? "00c0ffee" : ""));
    list_frame(out, PS_OP_SESSIONS, PS_FLAG_REPLY, 21, &ps_v1_SessionAnswer_msg, m, sizeof(m[0]), 2);
}

static inline void sessions_answer(struct wire *out)
{
    sessions_answer_of(out, "", "", "");
}

static inline void sessions_answer_said(struct wire *out)
{
    sessions_answer_of(out, "", "", "loss=0.25 accuracy=0.9");
}

static inline void sessions_answer_rival(struct wire *out)
{
    sessions_answer_of(out, "process 4712 on host2.example", "", "");
}

/* The sessions of a task with a table of rights: their identities are in the answer. */
static inline void sessions_answer_who(struct wire *out)
{
    sessions_answer_of(out, "", "key:w2", "");
}

static inline void whoami_answer(struct wire *out)
{
    ps_v1_WhoamiAnswer m[2] = {ps_v1_WhoamiAnswer_init_zero, ps_v1_WhoamiAnswer_init_zero};
    PSI_IGNORE(PSI_BYTES_SET(m[0].who, "key:w2")); /* these fit */
    PSI_IGNORE(PSI_BYTES_SET(m[0].role, "worker"));
    PSI_IGNORE(PSI_BYTES_SET(m[0].key_id, "00c0ffee"));
    m[0].rights = 51;
    PSI_IGNORE(PSI_BYTES_SET(m[1].row, "role:worker *,@cluster train"));
    list_frame(out, PS_OP_WHOAMI, PS_FLAG_REPLY, 108, &ps_v1_WhoamiAnswer_msg, m, sizeof(m[0]), 2);
}

static inline void info_denied(struct wire *out)
{
    ps_v1_InfoAnswer m = ps_v1_InfoAnswer_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(m.job, "ps")); /* fits */
    m.denied = 7;
    list_frame(out, PS_OP_INFO, PS_FLAG_REPLY, 109, &ps_v1_InfoAnswer_msg, &m, sizeof(m), 1);
}

static inline void events(struct wire *out)
{
    const ps_v1_Events m = {.life = UINT64_C(0xfedcba9876543210), .next = 13, .wait_ms = 20000};
    struct ps_frame_header h = header_of(PS_OP_EVENTS, 0, 111, 0);
    control(out, &h, &ps_v1_Events_msg, &m, NULL);
}

static inline void events_answer(struct wire *out)
{
    ps_v1_EventAnswer m[2] = {ps_v1_EventAnswer_init_zero, ps_v1_EventAnswer_init_zero};
    m[0].number = 15; /* 13 and 14 are gone */
    m[0].life = UINT64_C(0xfedcba9876543210);
    m[0].age_ms = 1200;
    m[0].level = 2;
    PSI_IGNORE(PSI_BYTES_SET(m[0].event, "task_lost")); /* these fit */
    PSI_IGNORE(PSI_BYTES_SET(m[0].text, "peer=/job:ps/task:1"));
    m[1].number = 16;
    m[1].life = m[0].life;
    m[1].level = 1;
    PSI_IGNORE(PSI_BYTES_SET(m[1].event, "task_connected"));
    PSI_IGNORE(PSI_BYTES_SET(m[1].text, "peer=/job:ps/task:1"));
    list_frame(out, PS_OP_EVENTS, PS_FLAG_REPLY, 111, &ps_v1_EventAnswer_msg, m, sizeof(m[0]), 2);
}

/* Of a directory whose tasks do not begin. */
static inline void info_waiting(struct wire *out)
{
    ps_v1_InfoAnswer m = ps_v1_InfoAnswer_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(m.job, "ps")); /* these fit */
    PSI_IGNORE(PSI_BYTES_SET(m.waiting_for, "what /job:ps/task:1 will begin with: no disk"));
    m.waiting = PS_WAITING_REFUSED;
    list_frame(out, PS_OP_INFO, PS_FLAG_REPLY, 110, &ps_v1_InfoAnswer_msg, &m, sizeof(m), 1);
}

static inline void waits_answer(struct wire *out)
{
    ps_v1_WaitAnswer m = ps_v1_WaitAnswer_init_zero;
    m.session.size = 8;
    memcpy(m.session.bytes, half_session, 8);
    PSI_IGNORE(PSI_BYTES_SET(m.job, "worker")); /* these fit */
    m.task = 2;
    PSI_IGNORE(PSI_BYTES_SET(m.host, "host.example"));
    m.pid = 4711;
    PSI_IGNORE(PSI_BYTES_SET(m.program, "pstrain"));
    m.op = PS_OP_WAIT;
    PSI_IGNORE(PSI_BYTES_SET(m.what, "sealed: w, b"));
    m.since_ms = 12000;
    m.left_ms = 588000;
    PSI_IGNORE(PSI_BYTES_SET(m.release, "the chief seals w, b; no chief is connected"));
    list_frame(out, PS_OP_WAITS, PS_FLAG_REPLY, 22, &ps_v1_WaitAnswer_msg, &m, sizeof(m), 1);
}

static inline void containers_answer(struct wire *out)
{
    ps_v1_ContainerAnswer m[2] = {ps_v1_ContainerAnswer_init_zero, ps_v1_ContainerAnswer_init_zero};
    PSI_IGNORE(PSI_BYTES_SET(m[0].container, "empty")); /* these fit */
    m[0].incarnation = 98;
    PSI_IGNORE(PSI_BYTES_SET(m[1].container, "localhost"));
    m[1].incarnation = 99;
    m[1].variables = 3;
    m[1].initialised = 2;
    m[1].bytes = UINT64_C(1) << 33;
    list_frame(out, PS_OP_CONTAINERS, PS_FLAG_REPLY, 23, &ps_v1_ContainerAnswer_msg, m, sizeof(m[0]), 2);
}

static inline void tasks_answer(struct wire *out)
{
    ps_v1_TaskAnswer m[2] = {ps_v1_TaskAnswer_init_zero, ps_v1_TaskAnswer_init_zero};
    PSI_IGNORE(PSI_BYTES_SET(m[0].job, "ps")); /* these fit */
    PSI_IGNORE(PSI_BYTES_SET(m[0].address, "127.0.0.1:2222"));
    m[0].connected = true;
    m[0].heard = true;
    m[0].life = UINT64_C(0xfedcba9876543210);
    PSI_IGNORE(PSI_BYTES_SET(m[0].host, "host.example"));
    m[0].pid = 4711;
    PSI_IGNORE(PSI_BYTES_SET(m[1].job, "ps"));
    m[1].task = 1;
    PSI_IGNORE(PSI_BYTES_SET(m[1].address, "127.0.0.1:2223"));
    m[1].missing_ms = 3000;
    m[1].restarts = 3;
    m[1].lost = 2;
    PSI_IGNORE(PSI_BYTES_SET(m[1].lost_names, "b, w"));
    PSI_IGNORE(PSI_BYTES_SET(m[1].conflict, "pid 4712 at host.example"));
    list_frame(out, PS_OP_TASKS, PS_FLAG_REPLY, 24, &ps_v1_TaskAnswer_msg, m, sizeof(m[0]), 2);
}

static inline void stop_answer(struct wire *out)
{
    ps_v1_StopAnswer m = {.sessions = 4};
    list_frame(out, PS_OP_STOP, PS_FLAG_REPLY, 25, &ps_v1_StopAnswer_msg, &m, sizeof(m), 1);
}

static inline void job_done(struct wire *out)
{
    struct ps_frame_header h = header_of(PS_OP_JOB_DONE, 0, 28, 0);
    control(out, &h, NULL, NULL, NULL);
}

static inline void task_done(struct wire *out)
{
    struct ps_frame_header h = header_of(PS_OP_TASK_DONE, 0, 64, 0);
    control(out, &h, NULL, NULL, NULL);
}

static inline void config_set(struct wire *out)
{
    ps_v1_ConfigItem m = ps_v1_ConfigItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(m.name, "session_keep")); /* these fit */
    PSI_IGNORE(PSI_BYTES_SET(m.value, "1h"));
    list_frame(out, PS_OP_CONFIG_SET, 0, 26, &ps_v1_ConfigItem_msg, &m, sizeof(m), 1);
}

static inline void may(struct wire *out)
{
    ps_v1_MayItem m = ps_v1_MayItem_init_zero;
    PSI_IGNORE(PSI_BYTES_SET(m.who, "key:w2")); /* these fit */
    PSI_IGNORE(PSI_BYTES_SET(m.role, "worker"));
    PSI_IGNORE(PSI_BYTES_SET(m.container, "model"));
    m.rights = 1;
    list_frame(out, PS_OP_MAY, 0, 110, &ps_v1_MayItem_msg, &m, sizeof(m), 1);
}

static inline void set_rate(struct wire *out)
{
    ps_v1_SetRate m = ps_v1_SetRate_init_zero;
    ps_v1_ContainerItem in = ps_v1_ContainerItem_init_zero;
    struct psi_buf body;
    PSI_IGNORE(PSI_BYTES_SET(m.name, "w")); /* these fit */
    PSI_IGNORE(PSI_BYTES_SET(in.container, "localhost"));
    m.rate = 0.125;
    psi_buf_init(&body, PS_CONTROL_BODY_MAX);
    list_add(&body, &ps_v1_ContainerItem_msg, &in);
    struct ps_frame_header h = header_of(PS_OP_SET_RATE, 0, 27, 0);
    control(out, &h, &ps_v1_SetRate_msg, &m, &body);
    psi_buf_fini(&body);
}

#endif
