/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests whose answer is a list: VARS, CONFIG, CONTAINERS, SESSIONS, WAITS of one task, TASKS of the directory.
 *
 * Happy path: the frames are gathered whole, so that a reconnect in the middle shows nothing twice; then each message becomes a
 * struct of ps.h or core.h, checked, and goes to the caller's function.
 * Failure: an answer that cannot be understood is INTERNAL, one that does not fit memory RESOURCE_EXHAUSTED; what came before the
 * bad message has been given out then.
 */
#include "client.h"

#include "common/name.h"
#include "common/shape.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static ps_status give_variable(const struct psi_peer *peer, const struct psi_list_sink *sink, const void *message)
{
    const ps_v1_VarAnswer *m = message;
    ps_variable_info info;
    memset(&info, 0, sizeof(info));
    info.struct_bytes = sizeof(info);
    ps_status st = psi_shape_from_dims(m->dims, m->dims_count, &info.shape, NULL);
    st = st == PS_OK ? PSI_BYTES_TEXT(m->container, info.container, sizeof(info.container)) : st;
    st = st == PS_OK ? PSI_BYTES_TEXT(m->name, info.name, sizeof(info.name)) : st;
    st = st == PS_OK ? psi_optimizer_from_msg(&m->optimizer, &info.optimizer, NULL) : st;
    if (st != PS_OK || !psi_dtype_known(m->dtype)) {
        return PS_INVALID_ARGUMENT;
    }
    snprintf(info.job, sizeof(info.job), "%s", peer->job);
    info.task = peer->task;
    info.dtype = (ps_dtype)m->dtype;
    info.version = m->version;
    info.pushes = m->pushes;
    info.initialised = m->initialised;
    info.sealed = m->sealed;
    info.in_progress = m->in_progress;
    info.atomic = m->atomic;
    info.bytes = m->bytes;
    if (sink->variable != NULL) {
        sink->variable(sink->ctx, &info);
    }
    return PS_OK;
}

static ps_status give_config(const struct psi_peer *peer, const struct psi_list_sink *sink, const void *message)
{
    const ps_v1_ConfigAnswer *m = message;
    (void)peer;
    char name[64];
    char value[512];
    char standard[256];
    char help[512];
    if (PSI_BYTES_TEXT(m->name, name, sizeof(name)) != PS_OK || PSI_BYTES_TEXT(m->value, value, sizeof(value)) != PS_OK ||
        PSI_BYTES_TEXT(m->default_value, standard, sizeof(standard)) != PS_OK ||
        PSI_BYTES_TEXT(m->help, help, sizeof(help)) != PS_OK) {
        return PS_INVALID_ARGUMENT;
    }
    if (sink->config != NULL) {
        ps_config_info info = {.struct_bytes = sizeof(info),
                               .name = name,
                               .value = value,
                               .default_value = standard,
                               .help = help,
                               .reloadable = m->reloadable};
        sink->config(sink->ctx, &info);
    }
    return PS_OK;
}

static ps_status give_container(const struct psi_peer *peer, const struct psi_list_sink *sink, const void *message)
{
    const ps_v1_ContainerAnswer *m = message;
    ps_container_info info;
    (void)peer;
    memset(&info, 0, sizeof(info));
    info.struct_bytes = sizeof(info);
    if (PSI_BYTES_TEXT(m->container, info.name, sizeof(info.name)) != PS_OK) {
        return PS_INVALID_ARGUMENT;
    }
    info.incarnation = m->incarnation;
    info.bytes = m->bytes;
    info.variables = m->variables;
    info.initialised = m->initialised;
    info.names = m->names;
    if (sink->container != NULL) {
        sink->container(sink->ctx, &info);
    }
    return PS_OK;
}

/* The first half of a session's id, in hexadecimal. */
static void id_text(const uint8_t *bytes, size_t n, char id[17])
{
    for (size_t i = 0; i < n && i < 8; i++) {
        snprintf(id + 2 * i, 3, "%02x", bytes[i]);
    }
}

static ps_status give_session(const struct psi_peer *peer, const struct psi_list_sink *sink, const void *message)
{
    const ps_v1_SessionAnswer *m = message;
    ps_session_info info;
    (void)peer;
    memset(&info, 0, sizeof(info));
    info.struct_bytes = sizeof(info);
    if (PSI_BYTES_TEXT(m->job, info.job, sizeof(info.job)) != PS_OK ||
        PSI_BYTES_TEXT(m->host, info.host, sizeof(info.host)) != PS_OK ||
        PSI_BYTES_TEXT(m->program, info.program, sizeof(info.program)) != PS_OK || m->session.size != 8 ||
        m->global_step > (uint64_t)INT64_MAX || !isfinite(m->steps_per_second) || m->steps_per_second < 0) {
        return PS_INVALID_ARGUMENT;
    }
    id_text(m->session.bytes, m->session.size, info.id);
    info.task = m->task;
    info.pid = m->pid;
    info.connected = m->connected;
    info.stopping = m->stopping;
    info.heard_ms = m->heard_ms;
    info.age_ms = m->age_ms;
    info.global_step = (int64_t)m->global_step - 1;
    info.steps_per_second = m->steps_per_second;
    info.waits = m->waits;
    info.in_progress = m->in_progress;
    info.held_bytes = m->held_bytes;
    if (sink->session != NULL) {
        sink->session(sink->ctx, &info);
    }
    return PS_OK;
}

static const char *op_name(uint32_t op)
{
    static const struct {
        uint32_t op;
        const char *name;
    } NAMES[] = {{PS_OP_CREATE, "CREATE"}, {PS_OP_RESET, "RESET"}, {PS_OP_DELETE, "DELETE"},
                 {PS_OP_WAIT, "WAIT"},     {PS_OP_CALL, "CALL"},   {PS_OP_WAIT_CLUSTER, "WAIT_CLUSTER"}};
    for (size_t i = 0; i < sizeof(NAMES) / sizeof(NAMES[0]); i++) {
        if (NAMES[i].op == op) {
            return NAMES[i].name;
        }
    }
    return "request"; /* of a newer task */
}

static ps_status give_wait(const struct psi_peer *peer, const struct psi_list_sink *sink, const void *message)
{
    const ps_v1_WaitAnswer *m = message;
    ps_wait_info info;
    (void)peer;
    memset(&info, 0, sizeof(info));
    info.struct_bytes = sizeof(info);
    if (PSI_BYTES_TEXT(m->job, info.job, sizeof(info.job)) != PS_OK ||
        PSI_BYTES_TEXT(m->host, info.host, sizeof(info.host)) != PS_OK ||
        PSI_BYTES_TEXT(m->program, info.program, sizeof(info.program)) != PS_OK ||
        PSI_BYTES_TEXT(m->what, info.what, sizeof(info.what)) != PS_OK ||
        PSI_BYTES_TEXT(m->release, info.release, sizeof(info.release)) != PS_OK || m->session.size != 8 ||
        m->left_ms > (uint64_t)INT64_MAX) {
        return PS_INVALID_ARGUMENT;
    }
    id_text(m->session.bytes, m->session.size, info.id);
    snprintf(info.request, sizeof(info.request), "%s", op_name(m->op));
    info.task = m->task;
    info.pid = m->pid;
    info.since_ms = m->since_ms;
    info.left_ms = m->left_ms == 0 ? -1 : (int64_t)m->left_ms;
    if (sink->wait != NULL) {
        sink->wait(sink->ctx, &info);
    }
    return PS_OK;
}

static ps_status give_task(const struct psi_peer *peer, const struct psi_list_sink *sink, const void *message)
{
    const ps_v1_TaskAnswer *m = message;
    struct psi_task_seen info;
    (void)peer;
    memset(&info, 0, sizeof(info));
    if (PSI_BYTES_TEXT(m->job, info.job, sizeof(info.job)) != PS_OK ||
        PSI_BYTES_TEXT(m->address, info.address, sizeof(info.address)) != PS_OK ||
        PSI_BYTES_TEXT(m->host, info.host, sizeof(info.host)) != PS_OK ||
        PSI_BYTES_TEXT(m->conflict, info.conflict, sizeof(info.conflict)) != PS_OK ||
        PSI_BYTES_TEXT(m->lost_names, info.lost_names, sizeof(info.lost_names)) != PS_OK) {
        return PS_INVALID_ARGUMENT;
    }
    info.restarts = m->restarts;
    info.lost = m->lost;
    info.task = m->task;
    info.pid = m->pid;
    info.connected = m->connected;
    info.heard = m->heard;
    info.missing_ms = m->missing_ms;
    info.life = m->life;
    if (sink->task != NULL) {
        sink->task(sink->ctx, &info);
    }
    return PS_OK;
}

/* A row for each kind of list: its request, a message of the answer, who gives that out. */
#define LISTS(ROW)                                                                                                               \
    ROW(VARS, VarAnswer, give_variable)                                                                                          \
    ROW(CONFIG, ConfigAnswer, give_config)                                                                                       \
    ROW(CONTAINERS, ContainerAnswer, give_container)                                                                             \
    ROW(SESSIONS, SessionAnswer, give_session)                                                                                   \
    ROW(WAITS, WaitAnswer, give_wait)                                                                                            \
    ROW(TASKS, TaskAnswer, give_task)
#define READER(kind, message, give) [PSI_REQ_##kind] = {&ps_v1_##message##_msg, give},
#define MEMBER(kind, message, give) ps_v1_##message kind;

static const struct reader {
    const pb_msgdesc_t *message;
    ps_status (*give)(const struct psi_peer *peer, const struct psi_list_sink *sink, const void *message);
} READERS[PSI_REQ_KINDS] = {LISTS(READER)};

static ps_status give_all(struct psi_ask *ask, struct psi_err *err)
{
    const uint8_t *p = ask->answer.data;
    size_t n = ask->answer.len;
    const struct reader *reader = &READERS[ask->req->kind];
    for (;;) {
        union {
            LISTS(MEMBER)
        } m;
        bool end = false;
        ps_status st = psi_list_next(&p, &n, reader->message, &m, &end, err);
        if (st != PS_OK || end) {
            return st;
        }
        st = reader->give(ask->peer, ask->req->dst, &m);
        if (st != PS_OK) {
            return psi_fail(err, st, "a field is out of range");
        }
    }
}

void psi_control_list(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r)
{
    (void)c;
    struct psi_request *req = ask->req;
    struct psi_err err = {0};
    if (r->status != PS_OK) {
        psi_control_refused(ask, r);
        return;
    }
    ps_status st = PS_OK;
    size_t bytes = psi_list_strip(r->body, r->body_bytes);
    if (bytes > 0) {
        st = psi_buf_append(&ask->answer, r->body, bytes, &err);
    }
    if (st != PS_OK) {
        ask->var_count = UINT32_MAX; /* remembered until the last frame */
    }
    if (r->more) {
        return;
    }
    if (ask->var_count == UINT32_MAX) {
        psi_request_end(req, PS_RESOURCE_EXHAUSTED, PS_NOTHING_APPLIED, "%s at %s: its answer does not fit memory",
                        psi_kind_of(req)->name, ask->peer->name);
        return;
    }
    st = give_all(ask, &err);
    if (st != PS_OK) {
        psi_request_end(req, PS_INTERNAL, PS_NOTHING_APPLIED, "%s at %s: its answer is not understood: %s",
                        psi_kind_of(req)->name, ask->peer->name, err.text);
        return;
    }
    psi_request_end(req, PS_OK, PS_NOTHING_APPLIED, NULL);
}
