/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Training in step with others: the options, and a session's steps as a member.
 *
 * Happy path: ps_session_sync() stores options -> ps_session_ready() takes them to the cluster and joins -> each push is noted;
 * ps_step_done() checks that all parameters were pushed, and waits for the end of the round -> ps_session_close() leaves. Failure
 * modes: options that contradict each other or the session's; a parameter that was pushed twice, or not at all; errors of the
 * directory. Like all errors of training they stick to the session.
 */
#include "lock.h"
#include "monitored.h"

#include "common/abi.h"

#include <string.h>

void ps_sync_options_init(ps_sync_options *options)
{
    if (options == NULL) {
        return;
    }
    memset(options, 0, sizeof(*options));
    options->struct_bytes = sizeof(*options);
    options->mode = PS_SYNC_ROUNDS;
}

static ps_status check(const ps_session *s, const ps_sync_options *o, struct psi_err *err)
{
    if (o->mode != PS_SYNC_NONE && o->mode != PS_SYNC_ROUNDS && o->mode != PS_SYNC_STALENESS) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "mode: %d is none of PS_SYNC_*", (int)o->mode);
    }
    if (o->on_worker_loss != PS_LOSS_WAIT && o->on_worker_loss != PS_LOSS_SHRINK && o->on_worker_loss != PS_LOSS_FAIL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "on_worker_loss: %d is none of PS_LOSS_*", (int)o->on_worker_loss);
    }
    if (o->mode == PS_SYNC_ROUNDS && s->prefetch) {
        return psi_fail(
            err, PS_INVALID_ARGUMENT,
            "prefetch: in rounds a gradient is of the values of its round, which are there when the one before is over");
    }
    if (o->workers > 0 && o->replicas_to_aggregate > o->workers) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "replicas_to_aggregate: %u of %u workers: no round would ever be over",
                        o->replicas_to_aggregate, o->workers);
    }
    if (o->mode == PS_SYNC_STALENESS ? o->replicas_to_aggregate != 0 : o->staleness != 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s",
                        o->staleness != 0 ? "staleness: in rounds nobody is ahead of the others"
                                          : "replicas_to_aggregate: of rounds only");
    }
    return PS_OK;
}

static ps_status set_options(ps_session *s, const ps_sync_options *options, struct psi_err *err)
{
    ps_sync_options o;
    ps_sync_options_init(&o);
    ps_status st = options != NULL ? psi_struct_take(options, &o, sizeof(o), "ps_sync_options_init", err) : PS_OK;
    st = st == PS_OK ? check(s, &o, err) : st;
    if (st != PS_OK) {
        return st;
    }
    if (psi_api_evaluates(s)) {
        return PS_OK; /* an evaluator is no member: it gets the options of the others, and does not train */
    }
    (void)pthread_mutex_lock(&s->lock);
    const bool late = s->train.member != PSI_MEMBER_NONE;
    s->sync = late ? s->sync : o;
    s->finished = late && s->finished;
    (void)pthread_mutex_unlock(&s->lock);
    return late ? psi_fail(err, PS_FAILED_PRECONDITION,
                           "the session is a member of rounds already: call it before ps_session_ready()")
                : PS_OK;
}

ps_status ps_session_sync(ps_session *s, const ps_sync_options *options)
{
    struct psi_err err = {0};
    ps_status st = psi_api_enter(s, false);
    return st != PS_OK || set_options(s, options, &err) == PS_OK ? st : psi_api_refused(s, &err, "ps_session_sync");
}

int64_t ps_dropped(ps_session *s)
{
    return s != NULL ? psi_api_look(s, &s->dropped) : 0;
}

struct psi_sync psi_api_sync_of(ps_session *s, struct psi_var *step)
{
    (void)pthread_mutex_lock(&s->lock);
    const ps_sync_options o = s->sync;
    const bool finished = s->finished;
    const uint64_t training = s->training;
    (void)pthread_mutex_unlock(&s->lock);
    return (struct psi_sync){.mode = o.mode,
                             .finished = finished,
                             .training = training,
                             .workers = o.workers,
                             .replicas = o.replicas_to_aggregate,
                             .on_loss = o.on_worker_loss,
                             .staleness = o.staleness,
                             .step = step};
}

/* Mode of the session's membership; NONE: it is no member. */
static ps_sync_mode member_of(ps_session *s)
{
    (void)pthread_mutex_lock(&s->lock);
    const ps_sync_mode mode = s->train.mode;
    (void)pthread_mutex_unlock(&s->lock);
    return mode;
}

static void finish_join(struct psi_api_call *call)
{
    ps_session *s = call->session;
    (void)pthread_mutex_lock(&s->lock);
    psi_training_joined(&s->train, s->sync.mode);
    s->training = psi_client_member(call->client)->training;
    (void)pthread_mutex_unlock(&s->lock);
}

ps_status psi_api_sync_join(ps_session *s, int64_t timeout_ms, struct psi_err *err)
{
    const struct psi_sync how = psi_api_sync_of(s, NULL);
    if (how.mode == PS_SYNC_NONE || how.finished) {
        return PS_OK;
    }
    struct psi_api_call call = {.session = s, .finish = finish_join, .timeout_ms = timeout_ms, .req = {.kind = PSI_REQ_JOIN}};
    return psi_api_call_run(&call, err);
}

bool psi_api_in_rounds(ps_session *s)
{
    return member_of(s) == PS_SYNC_ROUNDS;
}

static void finish_step(struct psi_api_call *call)
{
    ps_session *s = call->session;
    (void)pthread_mutex_lock(&s->lock);
    psi_training_stepped(&s->train);
    s->dropped = psi_monitor_dropped(s) + (int64_t)psi_client_member(call->client)->dropped;
    (void)pthread_mutex_unlock(&s->lock);
}

/* What a failed STEP may have applied. The step's gradients were sent before: with bounded staleness they are applied; in
 * rounds they are staged, and the round may have been closed with them, or may still be. */
static ps_applied step_applied(ps_sync_mode mode, const struct psi_err *err)
{
    const bool in_doubt =
        err->code == PS_ABORTED || err->code == PS_UNAVAILABLE || err->code == PS_DEADLINE_EXCEEDED || err->code == PS_CANCELLED;
    return mode == PS_SYNC_STALENESS ? PS_MAYBE_PARTLY_APPLIED : in_doubt ? PS_OUTCOME_UNKNOWN : err->applied;
}

ps_status psi_api_sync_meet(ps_session *s, bool first, int64_t *out_step, struct psi_err *err)
{
    const ps_sync_mode mode = member_of(s);
    struct psi_stepped stepped = {0};
    struct psi_api_call call = {.session = s, .finish = finish_step, .req = {.kind = PSI_REQ_STEP, .dst = &stepped}};
    const int64_t ready_ms = psi_api_ready_timeout_ms(s);
    if (first && ready_ms > s->operation_timeout_ms) {
        call.timeout_ms = ready_ms; /* workers may have to start */
    }
    const ps_status st = psi_api_call_run(&call, err);
    if (st != PS_OK) {
        err->applied = step_applied(mode, err);
    } else if (mode == PS_SYNC_ROUNDS) {
        *out_step = stepped.step;
    }
    return st;
}

ps_status psi_api_sync_finish(ps_session *s, struct psi_err *err)
{
    if (member_of(s) == PS_SYNC_NONE) {
        return PS_OK;
    }
    struct psi_api_call call = {.session = s, .req = {.kind = PSI_REQ_LEAVE, .bytes = 1}};
    ps_status st = psi_api_call_run(&call, err);
    (void)pthread_mutex_lock(&s->lock);
    if (st == PS_OK) {
        psi_training_left(&s->train);
    }
    s->finished = st == PS_OK;
    (void)pthread_mutex_unlock(&s->lock);
    return st;
}

ps_status ps_sync_finish(ps_session *s)
{
    struct psi_err err = {0};
    ps_status st = psi_api_check(s, true, &err);
    st = st == PS_OK ? psi_api_sticky(s, &err) : st;
    return psi_api_result(&err, st == PS_OK ? psi_api_sync_finish(s, &err) : st);
}

void psi_api_sync_leave(ps_session *s)
{
    (void)pthread_mutex_lock(&s->lock);
    const bool finished = s->train.member != PSI_MEMBER_NONE && s->machine.error.code == PS_OK;
    psi_training_left(&s->train);
    (void)pthread_mutex_unlock(&s->lock);
    if (finished) {
        struct psi_api_call call = {
            .session = s, .timeout_ms = PSI_GOODBYE_MS, .when_closing = true, .req = {.kind = PSI_REQ_LEAVE, .bytes = 1}};
        PSI_IGNORE(psi_api_call_run(&call, NULL)); /* on failure the others take this session for lost */
    }
}
