/* SPDX-License-Identifier: Apache-2.0 */
/* ps_session_ready(): make the session's model ready, once. Happy path: get the parameters put aside and the global step, send
 * READY, join rounds if requested, and read the global step. For a chief with a restore function, if no variable has a value, the
 * first READY ends before it initialises variables; the function gives them values (restore.c), and a second READY completes the
 * work. Failure modes: those of READY. If only some variables have values, and this chief may discard them, the session keeps its
 * chief number, with which the recovery discards the values. */
#include "lock.h"
#include "monitored.h"

#include "worker/core/readying.h"

#include <string.h>

struct ready {
    struct psi_readying machine;
    ps_variable *step; /* the variable global_step */
    uint64_t deadline_ms;
    struct psi_sync sync;
    struct psi_request read; /* reads the global step */
    uint64_t first_version;  /* version of the variable global_step at its creation: 0, or the version in its checkpoint */
    struct psi_found found;
};

static ps_status prepare_ready(struct psi_api_call *call, struct psi_err *err)
{
    struct ready *r = call->arg;
    r->machine.step_found = call->variable->var->initialised;
    r->sync = psi_api_sync_of(call->session, call->variable->var);
    if (r->sync.max_norm > 0 && r->sync.mode != PS_SYNC_ROUNDS) {
        return psi_fail(err, PS_INVALID_ARGUMENT,
                        "ps_session_clip_norm(): it limits the averages of rounds, and the session trains without rounds; "
                        "ps_clip_global_norm() limits the gradients of single pushes");
    }
    psi_api_embeddings_note(call->session);
    call->req.kind = PSI_REQ_READY;
    call->req.src = &r->sync;
    call->req.dst = &r->machine.readied;
    call->req.bytes = psi_monitor_restores(call->session);
    call->req.chief_number = r->machine.number;
    return PS_OK;
}

static void finish_ready(struct psi_api_call *call)
{
    struct ready *r = call->arg;
    r->found.incarnation = call->variable->var->incarnation;
    r->found.creation = call->variable->var->creation;
    r->first_version = call->variable->var->checkpoint_version;
    psi_client_found(call->client, &r->machine.found, &r->machine.total);
}

static int64_t left_ms(uint64_t deadline_ms)
{
    const uint64_t now_ms = psi_io_now_ms();
    return deadline_ms > now_ms ? (int64_t)(deadline_ms - now_ms) : 1;
}

/* Get the global step, and the parameters whose gets were put aside. Returns the first error, which may be the session's. */
static ps_status get(ps_session *s, struct ready *r, struct psi_err *err)
{
    const ps_status st = psi_api_global_step(s, &r->step, err);
    if (st != PS_OK) {
        return st;
    }
    PSI_IGNORE(psi_api_settle(s, true)); /* psi_api_global_step() runs gets put aside only if it gets global_step now */
    return psi_api_sticky(s, err) != PS_OK || psi_api_interrupted(s, err) != PS_OK ? err->code : PS_OK;
}

static ps_status ask(ps_session *s, struct ready *r, struct psi_err *err)
{
    struct psi_api_call call = {.session = s,
                                .prepare = prepare_ready,
                                .finish = finish_ready,
                                .arg = r,
                                .variable = r->step,
                                .timeout_ms = left_ms(r->deadline_ms)};
    const ps_status st = psi_api_call_run(&call, err);
    psi_monitor_readied(s, &r->machine.readied, st);
    return st;
}

static ps_status carry_out(ps_session *s, struct ready *r, struct psi_err *err)
{
    switch (r->machine.now) {
    case PSI_READYING_GET:
        return get(s, r, err);
    case PSI_READYING_ASK:
        return ask(s, r, err);
    case PSI_READYING_RESTORE:
        return psi_monitor_restore(s, r->machine.number, r->step, &r->machine.restored, err);
    case PSI_READYING_JOIN:
        return psi_api_sync_join(s, left_ms(r->deadline_ms), err);
    default:
        r->read = (struct psi_request){.kind = PSI_REQ_PULL, .dst = &r->found.step, .bytes = sizeof(r->found.step), .scale = 1};
        return psi_api_operate(r->step, &r->read, err);
    }
}

void psi_api_set_global_step(ps_session *s, int64_t step)
{
    psi_api_copy(s, &s->global_step, &step, sizeof(step));
}

ps_status psi_api_ready(ps_session *s, int64_t timeout_ms, struct psi_found *out_found, struct psi_err *err)
{
    struct ready r = {.deadline_ms = psi_api_deadline_ms(s, timeout_ms)};
    ps_status st = PS_OK;
    do {
        st = carry_out(s, &r, err);
    } while (psi_readying_next(&r.machine, st == PS_OK) != PSI_READYING_OVER);
    if (st != PS_OK) {
        return st;
    }
    r.found.variables = (int)r.machine.found;
    r.found.model_step = psi_readying_model_step(r.found.step, r.read.version, r.first_version);
    r.found.restored = r.machine.restored;
    r.found.initialised = psi_readying_initialised(&r.machine);
    *out_found = r.found;
    psi_monitor_was_ready(s, &r.found);
    psi_api_set_global_step(s, r.found.step);
    if (ps_is_chief(s)) {
        psi_api_log_balance(s);
    }
    return PS_OK;
}
