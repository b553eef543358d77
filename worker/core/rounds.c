/* SPDX-License-Identifier: Apache-2.0 */
/* Training in step with other sessions: SYNC, JOIN, STEP and LEAVE at the directory, and this session's membership (struct
 * psi_member). A member's pushes to variables in rounds are sent as CONTRIBUTE (push.c). Happy path: READY puts the variables in
 * rounds (the chief's SYNC) or finds them there. JOIN gives a membership, and the first round. In each round the session pushes,
 * then sends STEP, which waits for the next round. LEAVE ends the membership. Failure: all these requests may be carried out
 * twice, so they are sent again after a reconnect, also to a restarted directory. A STEP of a session that was taken for lost
 * joins again within its deadline, and reports this. */
#include "client.h"

#include <stdio.h>
#include <string.h>

bool psi_sync_is_trained(const struct psi_var *var)
{
    return var->queue == NULL && !var->found_only && var->optimizer.kind != PS_OPT_NONE;
}

void psi_sync_note(const struct psi_client *c, struct psi_var *var, ps_sync_mode mode)
{
    var->rounds = mode;
    var->contributes = mode == PS_SYNC_ROUNDS || (var->contributes && c->member.mode == PS_SYNC_ROUNDS);
}

bool psi_sync_contributes(const struct psi_request *req)
{
    return (req->kind == PSI_REQ_PUSH || req->kind == PSI_REQ_PUSH_ROWS) && req->var->contributes &&
           req->owner->member.mode == PS_SYNC_ROUNDS;
}

bool psi_sync_was_dropped(uint8_t op, const struct psi_reply *r)
{
    uint64_t dropped = 0;
    if (psi_op_contributes(op) && r->status == PS_OK && r->result_bytes == sizeof(dropped)) {
        memcpy(&dropped, r->result, sizeof(dropped));
    }
    return dropped == 1;
}

static ps_v1_SyncOptions options_of(const struct psi_client *c)
{
    const struct psi_sync *sync = &c->sync;
    const uint32_t workers = sync->workers;
    return (ps_v1_SyncOptions){.mode = (uint32_t)sync->mode,
                               .workers = sync->mode != PS_SYNC_NONE && workers == 0 ? psi_cluster_workers(&c->cluster) : workers,
                               .replicas = sync->replicas,
                               .on_loss = (uint32_t)sync->on_loss,
                               .staleness = sync->staleness,
                               .max_norm = sync->max_norm,
                               .max_norm_each = sync->max_norm_each,
                               .rows_per_step = sync->rows_per_step,
                               .rows_mean = (uint32_t)sync->rows_mean};
}

static ps_status give_container(struct psi_ask *ask, struct psi_err *err)
{
    ps_v1_ContainerItem m = ps_v1_ContainerItem_init_zero;
    PSI_BYTES_SET(m.container, ask->peer->c->sync.step->container);
    return psi_list_append(&ask->body, &ps_v1_ContainerItem_msg, &m, err);
}

static ps_status give_var(struct psi_ask *ask, const struct psi_var *var, struct psi_err *err)
{
    ps_v1_NameItem m = ps_v1_NameItem_init_zero;
    PSI_BYTES_SET(m.container, var->container);
    PSI_BYTES_SET(m.name, var->name);
    m.rows = var->by_rows && ask->peer->c->sync.mode == PS_SYNC_ROUNDS;
    return psi_list_append(&ask->body, &ps_v1_NameItem_msg, &m, err);
}

static ps_status check_rows(const struct psi_ask *ask, const struct psi_var *var, struct psi_err *err)
{
    const struct psi_sync *sync = &ask->peer->c->sync;
    if (!var->by_rows || sync->mode != PS_SYNC_ROUNDS) {
        return PS_OK;
    }
    if (sync->rows_per_step == 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT,
                        "'%s' is an embedding: in rounds ps_session_sync_rows() says how many of its rows a worker may push in a "
                        "step, for which memory is reserved",
                        var->name);
    }
    return (ask->peer->features & PS_FEATURE_ROUND_ROWS) != 0
               ? PS_OK
               : psi_fail_as(err, PS_UNIMPLEMENTED, PS_REASON_FEATURE,
                             "'%s' is an embedding, and the directory is of a release that has none in rounds; upgrade it",
                             var->name);
}

ps_status psi_sync_build(struct psi_ask *ask, struct psi_var *const *vars, uint32_t count, struct psi_err *err)
{
    struct psi_client *c = ask->peer->c;
    const ps_v1_Sync m = {.timeout_ms = psi_time_to_give(c, ask->req->deadline_ms),
                          .has_options = true,
                          .options = options_of(c),
                          .chief_number = c->chief.number,
                          .finished = c->sync.finished,
                          .training = c->sync.training};
    ps_status st = psi_ask_meta(ask, &ps_v1_Sync_msg, &m, err);
    const struct psi_var *first = c->sync.step;
    ask->body.max = PSI_SYNC_BYTES_MAX;
    st = st == PS_OK && first != NULL ? give_var(ask, first, err) : st;
    for (uint32_t i = 0; st == PS_OK && i < count; i++) {
        if (psi_sync_is_trained(vars[i]) && vars[i] != first) {
            st = check_rows(ask, vars[i], err);
            st = st == PS_OK ? give_var(ask, vars[i], err) : st;
        }
    }
    if (st != PS_OK && ask->body.len + PS_LIST_ITEM_BYTES_MAX > PSI_SYNC_BYTES_MAX) {
        st = psi_fail_as(err, PS_INVALID_ARGUMENT, PS_REASON_TOO_LARGE,
                         "the names of what is trained take more than %zu bytes: fewer variables, or shorter names",
                         PSI_SYNC_BYTES_MAX);
    }
    return st;
}

ps_status psi_sync_build_join(struct psi_ask *ask, struct psi_err *err)
{
    if (ask->peer->c->sync.mode == PS_SYNC_NONE) {
        return psi_fail(err, PS_FAILED_PRECONDITION, "ps_session_sync() and ps_session_ready() come first");
    }
    const struct psi_client *c = ask->peer->c;
    const ps_v1_Join m = {.timeout_ms = psi_time_to_give(c, ask->req->deadline_ms),
                          .has_options = true,
                          .options = options_of(c),
                          .training = c->member.training != 0 ? c->member.training : c->sync.training};
    ps_status st = psi_ask_meta(ask, &ps_v1_Join_msg, &m, err);
    return st == PS_OK ? give_container(ask, err) : st;
}

static ps_status check_member(const struct psi_ask *ask, struct psi_err *err)
{
    return ask->peer->c->member.mode != PS_SYNC_NONE
               ? PS_OK
               : psi_fail(err, PS_FAILED_PRECONDITION, "the session is no member of rounds");
}

static ps_status build_step(struct psi_ask *ask, struct psi_err *err)
{
    const struct psi_client *c = ask->peer->c;
    const struct psi_member *member = &c->member;
    const uint64_t usual_ms = c->now_ms + (uint64_t)c->operation_timeout_ms;
    const ps_v1_Step m = {.timeout_ms = psi_time_to_give(c, ask->req->deadline_ms),
                          .open_timeout_ms = usual_ms < ask->req->deadline_ms ? psi_time_to_give(c, usual_ms) : 0,
                          .member = member->id,
                          .round = member->round,
                          .steps = member->mode == PS_SYNC_STALENESS ? member->steps + 1 : 0};
    ps_status st = check_member(ask, err);
    st = st == PS_OK ? psi_ask_meta(ask, &ps_v1_Step_msg, &m, err) : st;
    return st == PS_OK ? give_container(ask, err) : st;
}

ps_status psi_sync_build_leave(struct psi_ask *ask, struct psi_err *err)
{
    const ps_v1_Leave m = {.member = ask->peer->c->member.id, .finished = ask->req->bytes != 0};
    ps_status st = check_member(ask, err);
    st = st == PS_OK ? psi_ask_meta(ask, &ps_v1_Leave_msg, &m, err) : st;
    return st == PS_OK ? give_container(ask, err) : st;
}

/* Read JOIN's answer into *m, and set c->member. False: a refusal, or an answer that is invalid or of an older release; the
 * request has ended or is delayed. */
static bool joined(struct psi_ask *ask, const struct psi_reply *r, ps_v1_JoinAnswer *m)
{
    struct psi_client *c = ask->peer->c;
    if (!psi_control_message(ask, r, &ps_v1_JoinAnswer_msg, m)) {
        return false;
    }
    if (m->member == 0 || (c->sync.mode == PS_SYNC_ROUNDS && m->round == 0) || m->step > INT64_MAX) {
        psi_control_not_understood(ask);
        return false;
    }
    if (m->options.max_norm != c->sync.max_norm) { /* a directory of an older release ignores max_norm, and answers 0 */
        psi_request_end_as(ask->req, PS_UNIMPLEMENTED, PS_REASON_FEATURE, PS_NOTHING_APPLIED,
                           "the rounds have no limit on norms: %s is of a release without it; upgrade the ps tasks",
                           ask->peer->name);
        return false;
    }
    c->member.mode = c->sync.mode;
    c->member.id = m->member;
    c->member.round = m->round;
    c->member.steps = m->steps;
    c->member.training = m->training;
    return true;
}

void psi_sync_joined(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r)
{
    ps_v1_JoinAnswer m;
    if (joined(ask, r, &m)) {
        psi_client_log(c, PSI_LOG_INFO, "joined", PSI_KV("member", m.member), PSI_KV("round", m.round));
        psi_request_end(ask->req, PS_OK, PS_NOTHING_APPLIED, NULL);
    }
}

static void step_over(struct psi_request *req, int64_t step, bool taken, bool lost)
{
    struct psi_client *c = req->owner;
    struct psi_stepped *out = req->dst;
    *out = (struct psi_stepped){.step = step, .taken = taken, .lost = lost};
    if (c->member.mode == PS_SYNC_ROUNDS) {
        c->step = (uint64_t)step + 1;
        snprintf(c->step_of, sizeof(c->step_of), "%s", c->sync.step == NULL ? "" : c->sync.step->container);
        c->member.dropped += taken ? 0 : 1;
        if (!taken && !lost && (c->member.dropped & (c->member.dropped - 1)) == 0) { /* log drops number 1, 2, 4, 8 and so on */
            psi_client_log(c, PSI_LOG_WARN, "step_dropped", PSI_KV("dropped", c->member.dropped),
                           PSI_KV("round", c->member.round), PSI_KV("why", "enough others had completed the round before"));
        }
    }
    psi_request_end(req, PS_OK, PS_NOTHING_APPLIED, NULL);
}

static void on_rejoined(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r)
{
    ps_v1_JoinAnswer m;
    bool taken = ask->req->taken;
    if (!joined(ask, r, &m)) {
        return;
    }
    psi_client_log(c, PSI_LOG_WARN, "place_lost", PSI_KV("member", m.member), PSI_KV("round", m.round), PSI_KV("taken", taken),
                   PSI_KV("why", "the directory had not heard of this session for a lease"));
    /* a restarted directory may report an older global step: keep the last known one (c->step - 1) if that is higher */
    int64_t step = m.step + 1 < c->step ? (int64_t)c->step - 1 : (int64_t)m.step;
    step_over(ask->req, step, taken, true);
}

static void on_stepped(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r)
{
    struct psi_request *req = ask->req;
    struct psi_member *member = &c->member;
    struct ps_step_result result = {0};
    if (r->status != PS_OK) {
        psi_control_refused(ask, r);
        return;
    }
    if (r->result_bytes == sizeof(result)) {
        memcpy(&result, r->result, sizeof(result));
    }
    if ((result.flags & PS_STEP_LOST_PLACE) != 0) {
        req->rejoins = true;
        req->taken = member->mode == PS_SYNC_STALENESS || result.taken != 0;
        psi_sync_step_go(req);
        return;
    }
    bool over = member->mode == PS_SYNC_STALENESS || result.round > member->round;
    if (r->result_bytes != sizeof(result) || !over || result.step > INT64_MAX) {
        psi_control_not_understood(ask);
        return;
    }
    if (member->mode == PS_SYNC_ROUNDS) {
        member->round = result.round;
    } else {
        member->steps++;
    }
    step_over(req, (int64_t)result.step, member->mode == PS_SYNC_STALENESS || result.taken != 0, false);
}

void psi_sync_step_go(struct psi_request *req)
{
    if (req->rejoins) {
        psi_control_ask(req, PS_OP_JOIN, psi_sync_build_join, on_rejoined);
    } else {
        psi_control_ask(req, PS_OP_STEP, build_step, on_stepped);
    }
}

/* Take the answer to ROUNDS, which is sent when a STEP waits for long: log the members that this container's round waits for. */
static void on_missing(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r)
{
    const uint8_t *p = r->body;
    size_t n = r->body_bytes;
    ps_v1_RoundAnswer round;
    char container[PS_CONTAINER_BYTES_MAX + 1], text[sizeof(round.text.bytes) + 1];
    struct psi_list *it = NULL;
    bool end = r->status != PS_OK || ask->partial;
    ask->partial = true; /* later frames of the answer are not read */
    while (!end && psi_list_next(&p, &n, &ps_v1_RoundAnswer_msg, &round, &end, NULL) == PS_OK && !end) {
        bool ours = PSI_BYTES_TEXT(round.container, container, sizeof(container)) == PS_OK && c->sync.step != NULL &&
                    strcmp(container, c->sync.step->container) == 0 && PSI_BYTES_TEXT(round.text, text, sizeof(text)) == PS_OK;
        ps_v1_MemberAnswer member;
        for (uint32_t i = 0; !end && i < round.member_count; i++) {
            end = psi_list_next(&p, &n, &ps_v1_MemberAnswer_msg, &member, &end, NULL) != PS_OK || end;
        }
        PSI_LIST_FOREACH(it, &c->all) {
            if (ours && PSI_CONTAINER_OF(it, struct psi_request, all)->kind == PSI_REQ_STEP) {
                psi_client_log(c, PSI_LOG_WARN, "waiting", PSI_KV("what", "step"), PSI_KV("seconds", PSI_SLOW_MS / 1000),
                               PSI_KV("why", text));
            }
        }
    }
}

bool psi_sync_step_slow(struct psi_request *req)
{
    struct psi_peer *directory = psi_client_directory(req->owner);
    struct psi_ask *ask = psi_peer_down(directory) ? NULL : psi_ask_new(directory, PS_OP_ROUNDS, NULL, on_missing, 0);
    if (ask != NULL) {
        psi_ask_start(ask);
    }
    return ask != NULL;
}

void psi_sync_left(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r)
{
    if (r->status == PS_OK) {
        c->member.mode = PS_SYNC_NONE;
    }
    psi_control_plain(c, ask, r);
}
