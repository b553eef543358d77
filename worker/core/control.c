/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that are one control request (ask.c): to the directory (such as RESET and BARRIER), or to one task (such as INFO and
 * CHECKPOINT_READ); also CLUSTER and GOODBYE, which concern the session itself. Lists are in control_list.c, CALL is in call.c.
 * Happy path: the ask is built and sent, and its answer ends the request. Failure: a request that is refused as "not ready yet"
 * is repeated until its deadline, but a full disk ends it. RESET, DELETE and SHUTDOWN are carried out at most once. INFO of a
 * task that is down fills the caller's struct with what this session knows about the task. */
#include "client.h"

#include "common/mem.h"
#include "common/name.h"

#include <stdio.h>
#include <string.h>

const char *psi_control_container(const struct psi_request *req)
{
    return req->src != NULL ? req->src : PSI_CONTAINER_DEFAULT;
}

const char *psi_control_name(const struct psi_request *req)
{
    return ((const struct psi_var_name *)req->src)->name;
}

ps_status psi_control_check_reset(const struct psi_request *req, struct psi_err *err)
{
    return req->src != NULL ? psi_container_name_check(req->src, strlen(req->src), err) : PS_OK;
}

ps_status psi_control_check_name(const struct psi_request *req, struct psi_err *err)
{
    const struct psi_var_name *n = req->src;
    const char *name = n != NULL && n->name != NULL ? n->name : "";
    ps_status st = psi_variable_name_check(name, strlen(name), err);
    return st == PS_OK && n->container != NULL ? psi_container_name_check(n->container, strlen(n->container), err) : st;
}

ps_status psi_control_check_barrier(const struct psi_request *req, struct psi_err *err)
{
    const struct psi_barrier *b = req->src;
    return b != NULL && b->count < 0 ? psi_fail(err, PS_INVALID_ARGUMENT, "barrier: the count is %d; 0 is all workers", b->count)
                                     : psi_control_check_name(req, err);
}

ps_status psi_control_check_jobs(const struct psi_request *req, struct psi_err *err)
{
    return req->src != NULL ? PS_OK : psi_fail(err, PS_INVALID_ARGUMENT, "wait_cluster: no jobs are given");
}

void psi_control_refused(struct psi_ask *ask, const struct psi_reply *r)
{
    struct psi_request *req = ask->req;
    char where[PSI_WHERE_MAX];
    bool full = r->status == PS_RESOURCE_EXHAUSTED && psi_request_is(req, PSI_KIND_DISK);
    if (psi_reply_repeatable(r) && !full && ask->peer->state != PSI_PEER_REFUSED) {
        req->flags &= (uint8_t)~PSI_REQUEST_SENT;
        psi_request_refused(req, r->status, r->reason, r->text);
        psi_request_delay(req, r->retry_after_ms);
        return;
    }
    const char *subject = psi_request_subject(req);
    /* the directory's text for DEADLINE_EXCEEDED names the tasks that it waited for: the directory is then not named */
    bool others = r->status == PS_DEADLINE_EXCEEDED && psi_request_is(req, PSI_KIND_OTHERS);
    psi_request_end_as(req, r->status, r->reason, r->applied, "%s%s%s%s%s%s: %s", psi_request_name(req),
                       subject != NULL ? " of '" : "", subject != NULL ? subject : "", subject != NULL ? "'" : "",
                       others ? "" : " at ", others ? "" : psi_peer_where(ask->peer, where, sizeof(where)), r->text);
}

void psi_control_plain(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r)
{
    (void)c;
    if (r->status != PS_OK) {
        psi_control_refused(ask, r);
    } else if (!r->more) {
        psi_request_end(ask->req, PS_OK, PS_NOTHING_APPLIED, NULL);
    }
}

void psi_control_not_understood(const struct psi_ask *ask)
{
    psi_request_end(ask->req, PS_INTERNAL, PS_NOTHING_APPLIED, "%s at %s: its answer is not understood",
                    psi_kind_of(ask->req)->name, ask->peer->name);
}

bool psi_control_message(struct psi_ask *ask, const struct psi_reply *r, const pb_msgdesc_t *d, void *m)
{
    const uint8_t *p = r->body;
    size_t n = r->body_bytes;
    bool end = false;
    if (r->status != PS_OK) {
        psi_control_refused(ask, r);
        return false;
    }
    if (r->more) {
        return false; /* the message comes with the last frame of the answer */
    }
    if (psi_list_next(&p, &n, d, m, &end, NULL) != PS_OK || end) {
        psi_control_not_understood(ask);
        return false;
    }
    return true;
}

void psi_control_stop(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r)
{
    (void)c;
    struct psi_request *req = ask->req;
    ps_v1_StopAnswer m;
    if (!psi_control_message(ask, r, &ps_v1_StopAnswer_msg, &m)) {
        return;
    }
    if (req->dst != NULL) {
        *(uint32_t *)req->dst = m.sessions;
    }
    psi_request_end(req, PS_OK, PS_NOTHING_APPLIED, NULL);
}

void psi_control_u64(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r)
{
    (void)c;
    uint64_t count = 0;
    if (r->status != PS_OK) {
        psi_control_refused(ask, r);
    } else if (r->more || r->result_bytes != sizeof(count)) {
        psi_control_not_understood(ask);
    } else {
        memcpy(ask->req->dst, r->result, sizeof(count)); /* little-endian */
        psi_request_end(ask->req, PS_OK, PS_NOTHING_APPLIED, NULL);
    }
}

bool psi_control_body(const struct psi_reply *r, uint64_t *out_bytes)
{
    if (r->more || r->result_bytes != sizeof(*out_bytes)) {
        return false;
    }
    memcpy(out_bytes, r->result, sizeof(*out_bytes)); /* little-endian */
    return *out_bytes <= r->body_bytes && r->body_bytes - *out_bytes < 8;
}

void psi_control_job_done(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r)
{
    c->done_said = c->done_said || r->status == PS_OK;
    psi_control_plain(c, ask, r);
}

static void on_done_again(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r)
{
    (void)c;
    (void)ask;
    (void)r; /* the reply is ignored: JOB_DONE is sent again at every HELLO to a directory that does not know this session */
}

void psi_control_done_again(struct psi_peer *peer)
{
    struct psi_client *c = peer->c;
    struct psi_ask *ask =
        c->done_said && peer->index == c->directory ? psi_ask_new(peer, PS_OP_JOB_DONE, NULL, on_done_again, 0) : NULL;
    if (ask != NULL) { /* without memory nothing is sent: an operator can still end the job with psctl */
        psi_ask_start(ask);
    }
}

static void describe_task(const struct psi_peer *peer, ps_task_info *info)
{
    memset(info, 0, sizeof(*info));
    snprintf(info->job, sizeof(info->job), "%s", peer->job);
    info->task = peer->task;
    snprintf(info->address, sizeof(info->address), "%s", peer->address);
    info->directory = peer->index == peer->c->directory;
}

void psi_control_info_failed(struct psi_request *req)
{
    ps_task_info *info = req->dst;
    describe_task(req->owner->peers[req->task], info);
    snprintf(info->error, sizeof(info->error), "%.*s", (int)sizeof(info->error) - 1, req->err->text);
}

static bool take_containers(const ps_v1_SavesState *m, ps_saves_info *out)
{
    bool good = m->containers_count <= sizeof(out->containers) / sizeof(out->containers[0]);
    out->container_count = good ? m->containers_count : 0;
    for (uint32_t i = 0; i < out->container_count; i++) {
        ps_saved_container *of = &out->containers[i];
        of->step = (int64_t)(m->containers[i].step - 1); /* wire: 1 + step, 0: none */
        good = good && PSI_BYTES_TEXT(m->containers[i].container, of->container, sizeof(of->container)) == PS_OK &&
               m->containers[i].step <= (uint64_t)INT64_MAX + 1;
    }
    return good;
}

/* Copy what the directory says about checkpoints to *out. False: the message is invalid. */
static bool take_saves(const ps_v1_SavesState *m, ps_saves_info *out)
{
    const uint64_t most = (uint64_t)INT64_MAX + 1;
    *out = (ps_saves_info){.known = true,
                           .whole = m->whole,
                           .decided = m->decided,
                           .awaits_reset = m->awaits_reset,
                           .more_containers = m->more_containers,
                           .number = m->number,
                           .step = (int64_t)(m->step - 1), /* wire: 1 + value, 0: none */
                           .age_ms = (int64_t)(m->age_ms - 1),
                           .took_ms = m->took_ms,
                           .bytes = m->bytes,
                           .makes = m->makes,
                           .make_ms = m->make_ms,
                           .make_tasks = m->make_tasks,
                           .make_done = m->make_done,
                           .make_share = m->make_share,
                           .load_tasks = m->load_tasks,
                           .load_done = m->load_done,
                           .load_share = m->load_share,
                           .loads = m->loads,
                           .failed_attempts = m->failed_attempts,
                           .failed_number = m->failed_number,
                           .failed_age_ms = (int64_t)(m->failed_age_ms - 1),
                           .failed_status = m->failed_status <= PS_UNAUTHENTICATED ? (ps_status)m->failed_status : PS_UNKNOWN,
                           .failed_reason = psi_reason((ps_reason)m->failed_reason, (ps_status)m->failed_status),
                           .every_seconds = m->every_seconds,
                           .every_steps = m->every_steps};
    return take_containers(m, out) && PSI_BYTES_TEXT(m->failed, out->failed, sizeof(out->failed)) == PS_OK && m->step <= most &&
           m->age_ms <= most && m->failed_age_ms <= most;
}

void psi_control_info(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r)
{
    (void)c;
    struct psi_request *req = ask->req;
    ps_task_info *info = req->dst;
    ps_v1_InfoAnswer m;
    if (!psi_control_message(ask, r, &ps_v1_InfoAnswer_msg, &m)) {
        return;
    }
    describe_task(ask->peer, info);
    bool good = true;
#define TEXT(field) good = good && PSI_BYTES_TEXT(m.field, info->field, sizeof(info->field)) == PS_OK;
#define SAME(field) info->field = m.field;
    PSI_INFO_FIELDS(TEXT, SAME)
    /* a newer release may have further values, which `waiting_for` explains as text */
    info->waiting = m.waiting <= PS_WAITING_REFUSED ? (ps_waiting)m.waiting : PS_WAITING_UNSAID;
    good = good && (!m.has_saves || take_saves(&m.saves, &info->saves));
    if (!good) {
        describe_task(ask->peer, info);
        psi_control_not_understood(ask);
        return;
    }
    info->up = true;
    psi_request_end(req, PS_OK, PS_NOTHING_APPLIED, NULL);
}

/* Connect to all tasks of the directory's job (ps) before the program needs them, to find unreachable tasks early. */
static void want_tasks(struct psi_client *c)
{
    const char *job = psi_client_directory(c)->job;
    for (uint32_t i = 0; i < c->peer_count; i++) {
        if (strcmp(c->peers[i]->job, job) == 0) {
            psi_peer_want(c->peers[i]);
        }
    }
}

static ps_status append_jobs(struct psi_client *c, struct psi_ask *ask, const char *jobs, struct psi_err *err)
{
    uint32_t tasks = 0;
    while (*jobs != '\0') {
        size_t n = strcspn(jobs, ", ");
        char job[PS_JOB_BYTES_MAX + 1];
        char quoted[PSI_QUOTE_MAX];
        snprintf(job, sizeof(job), "%.*s", n < sizeof(job) ? (int)n : (int)sizeof(job) - 1, jobs);
        uint32_t count = n < sizeof(job) && n > 0 ? psi_cluster_num_tasks(&c->cluster, job) : 0;
        if (n > 0 && count == 0) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "the cluster has no tasks of job %s",
                            psi_quote(quoted, sizeof(quoted), jobs, n));
        }
        if (strcmp(job, psi_client_directory(c)->job) == 0) {
            want_tasks(c);
        }
        for (uint32_t t = 0; t < count; t++, tasks++) {
            ps_v1_TaskItem m = ps_v1_TaskItem_init_zero;
            PSI_BYTES_SET(m.job, job);
            m.task = psi_cluster_task_index(&c->cluster, job, t);
            ps_status st = psi_list_append(&ask->body, &ps_v1_TaskItem_msg, &m, err);
            if (st != PS_OK) {
                return st;
            }
        }
        jobs += n;
        jobs += *jobs != '\0' ? 1 : 0;
    }
    return tasks > 0 ? PS_OK : psi_fail(err, PS_INVALID_ARGUMENT, "no jobs are given");
}

ps_status psi_control_build_time(struct psi_ask *ask, struct psi_err *err)
{
    ps_v1_Wait m = {.timeout_ms = psi_time_to_give(ask->req->owner, ask->req->deadline_ms)};
    return psi_ask_meta(ask, &ps_v1_Wait_msg, &m, err);
}

ps_status psi_control_build_jobs(struct psi_ask *ask, struct psi_err *err)
{
    ps_status st = psi_control_build_time(ask, err);
    return st == PS_OK ? append_jobs(ask->req->owner, ask, ask->req->src, err) : st;
}

ps_status psi_control_build_reset(struct psi_ask *ask, struct psi_err *err)
{
    ps_v1_ContainerItem m = ps_v1_ContainerItem_init_zero;
    PSI_BYTES_SET(m.container, psi_control_container(ask->req));
    ps_v1_Wait time = {.timeout_ms = psi_time_to_give(ask->req->owner, ask->req->deadline_ms),
                       .chief_number = ask->req->chief_number};
    ps_status st = psi_ask_meta(ask, &ps_v1_Wait_msg, &time, err);
    return st == PS_OK ? psi_list_append(&ask->body, &ps_v1_ContainerItem_msg, &m, err) : st;
}

static ps_status give_name(struct psi_ask *ask, struct psi_err *err)
{
    ps_v1_NameItem m = ps_v1_NameItem_init_zero;
    const struct psi_var_name *n = ask->req->src;
    const char *container = n->container != NULL ? n->container : PSI_CONTAINER_DEFAULT;
    PSI_BYTES_SET(m.container, container);
    PSI_BYTES_SET(m.name, n->name);
    PSI_GIVE_KEY(ask->peer->c, container, &m);
    return psi_list_append(&ask->body, &ps_v1_NameItem_msg, &m, err);
}

ps_status psi_control_build_delete(struct psi_ask *ask, struct psi_err *err)
{
    ps_status st = psi_control_build_time(ask, err);
    return st == PS_OK ? give_name(ask, err) : st;
}

ps_status psi_control_build_barrier(struct psi_ask *ask, struct psi_err *err)
{
    ps_v1_Barrier m = {.timeout_ms = psi_time_to_give(ask->req->owner, ask->req->deadline_ms),
                       .count = (uint32_t)((const struct psi_barrier *)ask->req->src)->count};
    ps_status st = psi_ask_meta(ask, &ps_v1_Barrier_msg, &m, err);
    return st == PS_OK ? give_name(ask, err) : st;
}

ps_status psi_control_build_setting(struct psi_ask *ask, struct psi_err *err)
{
    const struct psi_setting *setting = ask->req->src;
    ps_v1_ConfigItem m = ps_v1_ConfigItem_init_zero;
    if (strlen(setting->name) > sizeof(m.name.bytes) || strlen(setting->value) > sizeof(m.value.bytes)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "name or value is too long: at most %zu and %zu bytes", sizeof(m.name.bytes),
                        sizeof(m.value.bytes));
    }
    PSI_BYTES_SET(m.name, setting->name);
    PSI_BYTES_SET(m.value, setting->value);
    return psi_list_append(&ask->body, &ps_v1_ConfigItem_msg, &m, err);
}

ps_status psi_control_build_may(struct psi_ask *ask, struct psi_err *err)
{
    const struct psi_may *may = ask->req->src;
    ps_v1_MayItem m = ps_v1_MayItem_init_zero;
    if (strlen(may->who) > sizeof(m.who.bytes) || strlen(may->role) > sizeof(m.role.bytes)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "an identity that is too long: at most %zu bytes", sizeof(m.who.bytes));
    }
    PSI_BYTES_SET(m.who, may->who);
    PSI_BYTES_SET(m.role, may->role);
    PSI_BYTES_SET(m.container, may->container); /* checked before */
    m.rights = may->rights;
    return psi_list_append(&ask->body, &ps_v1_MayItem_msg, &m, err);
}

ps_status psi_control_build_rate(struct psi_ask *ask, struct psi_err *err)
{
    const struct psi_rate *rate = ask->req->src;
    ps_v1_SetRate m = ps_v1_SetRate_init_zero;
    ps_v1_ContainerItem in = ps_v1_ContainerItem_init_zero;
    PSI_BYTES_SET(m.name, rate->name != NULL ? rate->name : ""); /* both names were checked before */
    PSI_BYTES_SET(in.container, rate->container);
    m.rate = rate->rate;
    m.clear = rate->clear;
    m.token = rate->token;
    ps_status st = psi_ask_meta(ask, &ps_v1_SetRate_msg, &m, err);
    return st == PS_OK ? psi_list_append(&ask->body, &ps_v1_ContainerItem_msg, &in, err) : st;
}

ps_status psi_control_build_ping(struct psi_ask *ask, struct psi_err *err)
{
    ps_v1_Beat m = psi_ask_beat_of(ask->peer);
    m.said.size = 0; /* left out, because ask->meta has no room for the values that the step reported */
    return psi_ask_meta(ask, &ps_v1_Beat_msg, &m, err);
}

ps_status psi_control_range_check(const struct psi_request *req, struct psi_err *err)
{
    const struct psi_saved_range *range = req->dst;
    return range->out != NULL && range->bytes > 0 && range->bytes <= PS_CONTROL_BODY_MAX
               ? PS_OK
               : psi_fail(err, PS_INVALID_ARGUMENT, "checkpoint_read: %zu bytes; 1 to %d at a time", range->bytes,
                          PS_CONTROL_BODY_MAX);
}

ps_status psi_control_build_range(struct psi_ask *ask, struct psi_err *err)
{
    const struct psi_saved_range *range = ask->req->dst;
    ps_v1_CheckpointRead m = {.number = range->number,
                              .kind = range->kind,
                              .index = range->index,
                              .offset = range->offset,
                              .bytes = (uint32_t)range->bytes};
    return psi_ask_meta(ask, &ps_v1_CheckpointRead_msg, &m, err);
}

void psi_control_range(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r)
{
    (void)c;
    struct psi_saved_range *range = ask->req->dst;
    uint64_t bytes = 0;
    if (r->status != PS_OK) {
        psi_control_refused(ask, r);
        return;
    }
    if (!psi_control_body(r, &bytes) || bytes > range->bytes) {
        psi_control_not_understood(ask);
        return;
    }
    if (bytes > 0) {
        memcpy(range->out, r->body, (size_t)bytes);
    }
    range->out_bytes = (size_t)bytes;
    psi_request_end(ask->req, PS_OK, PS_NOTHING_APPLIED, NULL);
}

ps_status psi_control_build_events(struct psi_ask *ask, struct psi_err *err)
{
    const struct psi_events_from *from = ask->req->src;
    const ps_v1_Events m = {.life = from->life, .next = from->next, .wait_ms = (uint64_t)from->wait_ms};
    return psi_ask_meta(ask, &ps_v1_Events_msg, &m, err);
}

ps_status psi_control_build_saved_name(struct psi_ask *ask, struct psi_err *err)
{
    const struct psi_saved_name *of = ask->req->src;
    ps_v1_SavedNameItem m = {.number = of->number, .force = of->force, .spread = of->spread};
    ps_status st = psi_control_build_time(ask, err);
    st = st == PS_OK ? psi_list_append(&ask->body, &ps_v1_SavedNameItem_msg, &m, err) : st;
    for (size_t i = 0; st == PS_OK && i < of->container_count; i++) {
        ps_v1_ContainerItem named = ps_v1_ContainerItem_init_zero;
        PSI_BYTES_SET(named.container, of->containers[i]);
        st = psi_list_append(&ask->body, &ps_v1_ContainerItem_msg, &named, err);
    }
    return st;
}

ps_status psi_control_build_save(struct psi_ask *ask, struct psi_err *err)
{
    ps_v1_Wait m = {.timeout_ms = psi_time_to_give(ask->req->owner, ask->req->deadline_ms), .keeps = ask->req->keeps};
    return psi_ask_meta(ask, &ps_v1_Wait_msg, &m, err);
}

static void on_goodbye(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r)
{
    (void)c;
    (void)r;
    struct psi_request *req = ask->req;
    psi_peer_fail(ask->peer, "the session was closed");
    req->goodbyes--;
    if (req->goodbyes == 0) {
        psi_request_end(req, PS_OK, PS_NOTHING_APPLIED, NULL);
    }
}

void psi_control_goodbye(struct psi_request *req)
{
    struct psi_client *c = req->owner;
    psi_request_move(req, PSI_STAGE_ASKED);
    psi_chief_leave(c);
    for (uint32_t i = 0; i < c->peer_count; i++) {
        struct psi_peer *peer = c->peers[i];
        psi_peer_leave(peer);
        if (peer->state == PSI_PEER_UP && c->known && i == c->directory) {
            /* the last beat reports the global step, and its answer may ask the session to stop (stop_asked) */
            psi_ask_beat(peer);
        }
        /* GOODBYE goes to each task that has a connection, even before HELLO is answered */
        struct psi_ask *ask = peer->link != NULL ? psi_ask_new(peer, PS_OP_GOODBYE, req, on_goodbye, 0) : NULL;
        if (ask != NULL) {
            req->goodbyes++;
            psi_ask_start(ask);
        }
    }
    if (req->goodbyes == 0) {
        psi_request_end(req, PS_OK, PS_NOTHING_APPLIED, NULL);
    }
}

void psi_control_told(struct psi_request *req)
{
    psi_request_end(req, PS_OK, PS_NOTHING_APPLIED, NULL);
}

void psi_control_go(struct psi_request *req)
{
    const struct psi_kind *k = psi_kind_of(req);
    psi_control_ask(req, k->op, k->build, k->answer);
}

void psi_control_ask(struct psi_request *req, uint8_t op, ps_status (*build)(struct psi_ask *ask, struct psi_err *err),
                     psi_ask_fn answer)
{
    struct psi_err err = {0};
    struct psi_ask *ask = psi_ask_new(psi_request_peer(req), op, req, answer, 0);
    ps_status st = ask != NULL ? PS_OK : psi_fail(&err, PS_RESOURCE_EXHAUSTED, "no memory");
    st = st == PS_OK && build != NULL ? build(ask, &err) : st;
    if (st != PS_OK) {
        psi_ask_free(ask);
        psi_request_end(req, st, PS_NOTHING_APPLIED, "%s: %s", psi_request_name(req), err.text);
        return;
    }
    if (req->stage != PSI_STAGE_ASKED) {
        psi_request_move(req, PSI_STAGE_ASKED);
    }
    psi_ask_start(ask);
    bool looks = req->owner->fail_fast || psi_request_is(req, PSI_KIND_LOOKS);
    if (looks && ask->peer->state == PSI_PEER_WAIT && !ask->peer->key_refused) {
        /* dial now, not at the end of the back-off: a caller that asks for the state needs the present one */
        ask->peer->next_dial_ms = req->owner->now_ms;
    }
}
