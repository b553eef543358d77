/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ps_session_ready(): make the session's model ready, once.
 *
 * Happy path: get what was put aside and the global step -> READY -> join rounds, if asked for -> read the global step. In a
 * monitored session with a restore function READY ends before INIT if this session is the chief and nothing is live; the restore
 * function gives the values under the chief's number (restore.c), and a second READY goes on. Failure modes: those of READY. If
 * the chief of a monitored session that may start over finds half a model, its number is noted for the recovery.
 */
#include "monitored.h"

#include <string.h>

struct ready {
    struct psi_sync sync;
    struct psi_readied readied;
    bool stops;
    uint64_t number; /* chief number of the first READY, for the second */
    bool step_found;
    uint64_t incarnation, creation; /* of the global step */
    uint64_t first_version;         /* version with which the global step began: 0, or a checkpoint's */
    uint32_t found, total;
};

static ps_status prepare_ready(struct psi_api_call *call, struct psi_err *err)
{
    struct ready *r = call->arg;
    (void)err;
    r->step_found = call->variable->var->initialised;
    r->sync = psi_api_sync_of(call->session, call->variable->var);
    call->req.kind = PSI_REQ_READY;
    call->req.src = &r->sync;
    call->req.dst = &r->readied;
    call->req.bytes = r->stops;
    call->req.chief_number = r->number;
    return PS_OK;
}

static void finish_ready(struct psi_api_call *call)
{
    struct ready *r = call->arg;
    r->incarnation = call->variable->var->incarnation;
    r->creation = call->variable->var->creation;
    r->first_version = call->variable->var->checkpoint_version;
    psi_client_found(call->client, &r->found, &r->total);
}

static int64_t left_ms(uint64_t deadline_ms)
{
    const uint64_t now_ms = psi_io_now_ms();
    return deadline_ms > now_ms ? (int64_t)(deadline_ms - now_ms) : 1;
}

static ps_status run(ps_session *s, ps_variable *step, struct ready *r, uint64_t deadline_ms, struct psi_err *err)
{
    struct psi_api_call call = {.session = s,
                                .prepare = prepare_ready,
                                .finish = finish_ready,
                                .arg = r,
                                .variable = step,
                                .timeout_ms = left_ms(deadline_ms)};
    const ps_status st = psi_api_call_run(&call, err);
    psi_monitor_readied(s, &r->readied, st);
    return st;
}

static ps_status make_ready(ps_session *s, ps_variable *step, struct ready *r, struct psi_found *found, uint64_t deadline_ms,
                            struct psi_err *err)
{
    r->stops = psi_monitor_restores(s);
    ps_status st = run(s, step, r, deadline_ms, err);
    if (st == PS_OK && r->readied.nothing) {
        r->number = r->readied.chief_number;
        st = psi_monitor_restore(s, r->number, step, &found->restored, err);
        st = st == PS_OK ? run(s, step, r, deadline_ms, err) : st;
    }
    /* in a session without variables the global step counts */
    const bool none = r->found == 0 && (r->total > 0 || !r->step_found);
    found->initialised = r->readied.chief_number != 0 && none && !found->restored;
    return st == PS_OK ? psi_api_sync_join(s, left_ms(deadline_ms), err) : st;
}

void psi_api_set_global_step(ps_session *s, int64_t step)
{
    (void)pthread_mutex_lock(&s->lock);
    s->global_step = step;
    (void)pthread_mutex_unlock(&s->lock);
}

ps_status psi_api_ready(ps_session *s, int64_t timeout_ms, struct psi_found *out_found, struct psi_err *err)
{
    ps_variable *step = NULL;
    const uint64_t deadline_ms = psi_api_deadline_ms(s, timeout_ms);
    ps_status st = psi_api_global_step(s, &step, err); /* gets what was put aside too, whose errors come first */
    if (st != PS_OK) {
        return st;
    }
    PSI_IGNORE(psi_api_settle(s)); /* nothing is left of it, unless global_step was there already */
    if (psi_api_sticky(s, err) != PS_OK || psi_api_interrupted(s, err) != PS_OK) {
        return err->code;
    }
    struct ready r = {0};
    struct psi_found found = {0};
    st = make_ready(s, step, &r, &found, deadline_ms, err);
    struct psi_request read = {.kind = PSI_REQ_PULL, .dst = &found.step, .bytes = sizeof(found.step), .scale = 1};
    st = st == PS_OK ? psi_api_operate(step, &read, err) : st;
    if (st != PS_OK) {
        return st;
    }
    found.variables = (int)r.found;
    const uint64_t changes = read.version - r.first_version; /* each step is one change; a first value is none */
    if (found.step > 0 && read.version >= r.first_version && changes < (uint64_t)found.step) {
        found.model_step = found.step - (int64_t)changes;
    }
    found.incarnation = r.incarnation;
    found.creation = r.creation;
    *out_found = found;
    psi_monitor_was_ready(s, &found);
    psi_api_set_global_step(s, found.step);
    if (ps_is_chief(s)) {
        psi_api_log_balance(s);
    }
    return PS_OK;
}
