/* SPDX-License-Identifier: Apache-2.0 */
/* Requests whose answer is a list; lists.h has a row for each kind of list. Happy path: all frames of the answer are collected
 * first, so that a reconnect repeats no entry. Then each message is checked, made a struct of ps.h or core.h, and given to the
 * caller's function (psi_list_sink). Failure: a bad message is INTERNAL, after the entries before it; no memory. */
#include "client.h"

#include "common/form.h"
#include "common/name.h"
#include "common/optimizer.h"
#include "common/shape.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- functions for fields that lists.h marks OTHER ---- */

static bool take_definition(const struct psi_peer *peer, const ps_v1_VarAnswer *m, ps_variable_info *info)
{
    snprintf(info->job, sizeof(info->job), "%s", peer->job);
    info->task = peer->task;
    info->dtype = (ps_dtype)m->dtype;
    const bool good = psi_dtype_known(m->dtype) && psi_shape_from_dims(m->dims, m->dims_count, &info->shape, NULL) == PS_OK &&
                      psi_optimizer_from_msg(&m->optimizer, &info->optimizer, NULL) == PS_OK && isfinite(m->rate) &&
                      m->rate >= 0 && m->rate_now >= 0;
    info->optimizer.struct_bytes = sizeof(info->optimizer);
    struct psi_part part;
    psi_part_from_msg(&m->part, m->has_part, &part);
    info->parts = part.count;
    info->part = part.index;
    info->whole_rows = part.rows;
    info->part_axis = (uint8_t)part.axis;
    info->part_layout = (uint8_t)part.layout;
    /* rate_now is 0 from a task of an older release, which has no schedules */
    info->rate_in_force = info->optimizer.schedule != PS_SCHEDULE_NONE ? m->rate_now
                          : m->rate > 0                                ? m->rate
                                                                       : info->optimizer.learning_rate;
    return good && psi_part_check(&part, info->dtype, &info->shape, info->name, NULL) == PS_OK &&
           psi_optimizer_check_shape(&info->optimizer, info->name, info->dtype, &info->shape, &part, NULL) == PS_OK;
}

static bool take_id(const uint8_t *bytes, size_t n, char id[17])
{
    for (size_t i = 0; i < n && i < 8; i++) {
        snprintf(id + 2 * i, 3, "%02x", bytes[i]);
    }
    return n == 8;
}

static bool take_session_rest(const struct psi_peer *peer, const ps_v1_SessionAnswer *m, ps_session_info *info)
{
    (void)peer;
    info->global_step = (int64_t)(m->global_step - 1); /* wire: 1 + step, 0: none */
    return take_id(m->session.bytes, m->session.size, info->id) && m->global_step <= (uint64_t)INT64_MAX + 1 &&
           isfinite(m->steps_per_second) && m->steps_per_second >= 0;
}

static bool take_wait_rest(const struct psi_peer *peer, const ps_v1_WaitAnswer *m, ps_wait_info *info)
{
    (void)peer;
    /* false: a newer release sent an operation that this one does not have */
    bool known = m->op <= UINT8_MAX && psi_form_find((uint8_t)m->op) != NULL;
    snprintf(info->request, sizeof(info->request), "%s", known ? psi_op_name((uint8_t)m->op) : "request");
    info->left_ms = m->left_ms == 0 ? -1 : (int64_t)m->left_ms;
    return take_id(m->session.bytes, m->session.size, info->id) && m->left_ms <= (uint64_t)INT64_MAX;
}

static bool take_queue(const struct psi_peer *peer, const ps_v1_QueueAnswer *m, ps_queue_info *info)
{
    struct psi_queue_spec spec;
    if (!m->has_queue || psi_queue_spec_from_msg(&m->queue, &spec, NULL) != PS_OK) {
        return false;
    }
    snprintf(info->job, sizeof(info->job), "%s", peer->job);
    info->task = peer->task;
    info->kind = (ps_queue_kind)spec.kind;
    info->capacity = spec.capacity;
    info->min_after_dequeue = spec.min_after_dequeue;
    info->seed = spec.seed;
    info->epochs = spec.epochs;
    info->reduction = (ps_reduction)spec.reduction;
    info->component_count = spec.component_count;
    for (uint32_t i = 0; i < spec.component_count; i++) {
        const struct psi_queue_component *c = &spec.components[i];
        info->components[i] = (ps_component){.dtype = c->dtype, .shaped = c->shaped, .shape = c->shape};
    }
    return true;
}

static bool take_histogram(const uint64_t *from, size_t count, uint64_t to[PS_HISTOGRAM])
{
    if (count > PS_HISTOGRAM) {
        return false;
    }
    memset(to, 0, PS_HISTOGRAM * sizeof(*to));
    memcpy(to, from, count * sizeof(*to));
    return true;
}

static bool take_ages(const struct psi_peer *peer, const ps_v1_AgeAnswer *m, ps_age_info *info)
{
    (void)peer;
    return take_histogram(m->ages, m->ages_count, info->ages);
}

static bool take_round_rest(const struct psi_peer *peer, const ps_v1_RoundAnswer *m, ps_round_info *info)
{
    const ps_v1_SyncOptions *o = &m->options;
    (void)peer;
    info->phase = (ps_round_phase)m->phase;
    info->members = m->member_count;
    info->options = (ps_sync_options){.struct_bytes = sizeof(info->options),
                                      .mode = (ps_sync_mode)o->mode,
                                      .workers = o->workers,
                                      .replicas_to_aggregate = o->replicas,
                                      .on_worker_loss = (ps_worker_loss)o->on_loss,
                                      .staleness = o->staleness};
    info->max_norm = o->max_norm;
    info->max_norm_each = o->max_norm_each;
    return m->phase >= PS_ROUND_OPENING && m->phase <= PS_ROUND_FAILED && o->mode <= PS_SYNC_STALENESS &&
           o->on_loss <= PS_LOSS_FAIL && m->member_count <= PS_MEMBERS_MAX &&
           take_histogram(m->leads, m->leads_count, info->leads);
}

static bool take_checkpoint(const struct psi_peer *peer, const ps_v1_CheckpointAnswer *m, ps_checkpoint_info *info)
{
    (void)peer;
    info->step = m->step == 0 ? -1 : (int64_t)(m->step - 1);
    info->tasks = m->task_count;
    info->done = m->done;
    info->share = m->share == 0 || m->share > 1000001 ? -1 : (int32_t)(m->share - 1);
    info->state = m->failed ? PS_CHECKPOINT_FAILED : (ps_checkpoint_state)m->state;
    return m->state >= PS_CHECKPOINT_WHOLE && m->state <= PS_CHECKPOINT_UNUSABLE;
}

/* ---- from message to entry, for each row of lists.h ---- */

#define SAME(field) info.field = m->field;
#define TEXT(field) TEXT_OF(field, field)
#define TEXT_OF(field, from) good = good && PSI_BYTES_TEXT(m->from, info.field, sizeof(info.field)) == PS_OK;
#define OTHER(function) good = good && function(peer, m, &info);
#define GIVER(kind, name, whom, entry, type, order, message_type, fields)                                                        \
    static bool give_##entry(const struct psi_peer *peer, const struct psi_list_sink *sink, const void *message)                 \
    {                                                                                                                            \
        const ps_v1_##message_type *m = message;                                                                                 \
        type info;                                                                                                               \
        bool good = true;                                                                                                        \
        (void)peer;                                                                                                              \
        memset(&info, 0, sizeof(info));                                                                                          \
        fields;                                                                                                                  \
        if (good && sink->entry != NULL) {                                                                                       \
            sink->entry(sink->ctx, &info);                                                                                       \
        }                                                                                                                        \
        return good;                                                                                                             \
    }
PSI_LISTS(GIVER, GIVER)

static bool give_member(const struct psi_list_sink *sink, const ps_v1_MemberAnswer *m)
{
    ps_member_info info;
    bool good = true;
    memset(&info, 0, sizeof(info));
    PSI_MEMBER_FIELDS(TEXT, SAME)
    info.state = m->unheard ? PS_MEMBER_UNKNOWN : (ps_member_state)m->state;
    good = good && m->state >= PS_MEMBER_WORKS && m->state <= PS_MEMBER_WAITS &&
           (m->session.size == 0 || take_id(m->session.bytes, m->session.size, info.id));
    if (good && sink->member != NULL) {
        sink->member(sink->ctx, &info);
    }
    return good;
}

static ps_status give_members(const struct psi_list_sink *sink, const uint8_t **p, size_t *n, uint32_t count, struct psi_err *err)
{
    for (uint32_t i = 0; i < count; i++) {
        ps_v1_MemberAnswer m;
        bool end = false;
        ps_status st = psi_list_next(p, n, &ps_v1_MemberAnswer_msg, &m, &end, err);
        if (st == PS_OK && (end || !give_member(sink, &m))) {
            st = psi_fail(err, PS_INVALID_ARGUMENT, end ? "members are missing" : "a field of a member is out of range");
        }
        if (st != PS_OK) {
            return st;
        }
    }
    return PS_OK;
}

#define READER(kind, name, whom, entry, type, order, message, fields) [PSI_REQ_##kind] = {&ps_v1_##message##_msg, give_##entry},
static const struct reader {
    const pb_msgdesc_t *message;
    bool (*give)(const struct psi_peer *peer, const struct psi_list_sink *sink, const void *message);
} READERS[PSI_REQ_KINDS] = {PSI_LISTS(READER, READER)};

#define MEMBER(kind, name, whom, entry, type, order, message, fields) ps_v1_##message entry;

static ps_status give_all(struct psi_ask *ask, struct psi_err *err)
{
    const uint8_t *p = ask->answer.data;
    size_t n = ask->answer.len;
    const struct reader *reader = &READERS[ask->req->kind];
    for (;;) {
        union {
            PSI_LISTS(MEMBER, MEMBER)
        } m;
        bool end = false;
        ps_status st = psi_list_next(&p, &n, reader->message, &m, &end, err);
        if (st != PS_OK || end) {
            return st;
        }
        if (!reader->give(ask->peer, ask->req->dst, &m)) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "a field is out of range");
        }
        if (ask->req->kind == PSI_REQ_ROUNDS) {
            st = give_members(ask->req->dst, &p, &n, m.round.member_count, err);
            if (st != PS_OK) {
                return st;
            }
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
        ask->partial = true;
    }
    if (r->more) {
        return;
    }
    if (ask->partial) {
        psi_request_end(req, PS_RESOURCE_EXHAUSTED, PS_NOTHING_APPLIED, "%s at %s: its answer does not fit memory",
                        psi_request_name(req), ask->peer->name);
        return;
    }
    st = give_all(ask, &err);
    if (st != PS_OK) {
        psi_request_end(req, PS_INTERNAL, PS_NOTHING_APPLIED, "%s at %s: its answer is not understood: %s", psi_request_name(req),
                        ask->peer->name, err.text);
        return;
    }
    psi_request_end(req, PS_OK, PS_NOTHING_APPLIED, NULL);
}
