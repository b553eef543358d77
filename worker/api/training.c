/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a thread of the program carries out what the machine of training (worker/core/training.h) decides. Happy path:
 * psi_api_train() asks the machine under the session's lock what to do next, does it, reports it, and asks again until the call
 * is over. What may wait is done without the lock. When a read or push ends, the machine gets an event, also under the lock.
 *
 * Failure modes: an action could not be carried out: the machine ends the call. The session has failed, or the call was
 * interrupted: psi_api_train() checks both under the lock each time that it asks.
 */
#include "training.h"

#include "lock.h"
#include "monitored.h"

/* Carry out PSI_DO_TAKE: the program gets the values of a parameter. If they are in the second buffer, the value buffers are
 * exchanged. For PSI_CALL_EXCHANGE the gradient buffers are exchanged instead. The caller holds the lock. */
static void take(const struct psi_call *call)
{
    ps_param *p = psi_api_param(call->at);
    if (call->kind == PSI_CALL_EXCHANGE) {
        const struct psk_block grad = p->grad;
        p->grad = p->apart;
        p->apart = grad;
        return;
    }
    if (call->exchange) {
        const struct psk_block value = p->value;
        p->value = p->next;
        p->next = value;
    }
    p->variable->of_param = true;
    p->variable->from = 1 + p->train.version; /* from now on the program computes gradients with these values */
}

/* Carry out what the machine asks for. The caller holds the lock, which is released meanwhile where a wait is possible. */
static void carry_out(ps_session *s, struct psi_call *call, enum psi_do what, psi_api_do_fn *does, void *ctx,
                      struct psi_list *works)
{
    bool ok = does(s, call, what, ctx, works, true);
    if (!ok) {
        (void)pthread_mutex_unlock(&s->lock);
        ok = does(s, call, what, ctx, works, false);
        (void)pthread_mutex_lock(&s->lock);
    }
    psi_training_did(&s->train, call, ok);
    if (!ok) {
        psi_api_wake(s);
    }
}

enum psi_call_end psi_api_train(ps_session *s, struct psi_call *call, psi_api_do_fn *does, void *ctx, struct psi_err *err)
{
    enum psi_do what = PSI_DO_OVER;
    struct psi_who who = psi_api_who(s);
    struct psi_list works;
    psi_list_init(&works);
    (void)pthread_mutex_lock(&s->lock);
    call->interrupts = psi_api_interrupts(s);
    do {
        const struct psi_now now = {.on_loop = who.on_loop,
                                    .interrupted = psi_api_interrupted(s, NULL) != PS_OK,
                                    .failed =
                                        !psi_session_runs(&s->machine) && psi_session_error(&s->machine, &who, NULL) != PS_OK};
        what = psi_training_next(&s->train, call, &now, err);
        if (what == PSI_DO_WAIT && !psi_list_empty(&works)) {
            (void)pthread_mutex_unlock(&s->lock);
            psi_io_submit_all(s->io, &works, true);
            (void)pthread_mutex_lock(&s->lock);
        } else if (what == PSI_DO_WAIT) {
            psi_api_wait(s, NULL, true);
        } else if (what == PSI_DO_TAKE) {
            take(call);
        } else if (what != PSI_DO_OVER) {
            carry_out(s, call, what, does, ctx, &works);
            who = psi_api_who(s); /* PSI_DO_CHECK changes who.life */
        }
    } while (what != PSI_DO_OVER);
    if (call->end == PSI_END_FAILED) {
        PSI_IGNORE(psi_session_error(&s->machine, &who, err)); /* now, because without the lock a recovery may clear it */
    }
    if (call->counted && !psi_session_bars(&s->machine, &who, NULL)) { /* else the step was of a model that is lost */
        s->global_step = call->value;
    }
    if (call->kind == PSI_CALL_STEP) {
        psi_api_wake(s);
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (!psi_list_empty(&works)) {
        psi_io_submit_all(s->io, &works, false);
    }
    return call->end;
}

/* Under the lock: true if a ps_step_done() that waits may add its step: it is not interrupted, and the session is not lost. */
static bool may_begin_add(ps_session *s)
{
    const struct psi_call *ending = s->train.ending;
    return ending != NULL && s->global_step_variable != NULL && s->machine.state == PSI_SESSION_RUNNING &&
           psi_api_interrupted_since(s, ending->interrupts, NULL) == PS_OK;
}

/* Report an event to the state machine of training; returns its answer. *out_begins: an addition to the global step that must
 * begin now; NULL: no addition begins. The caller holds the lock. */
static uint64_t take_event(ps_session *s, const struct psi_train_event *e, struct psi_training_add **out_begins)
{
    struct psi_training *t = &s->train;
    struct psi_training_param *p = e->param != NULL ? &e->param->train : NULL;
    const ps_result *r = e->result;
    const bool was_member = t->member != PSI_MEMBER_NONE;
    switch (e->kind) {
    case PSI_TRAIN_PARAM:
        psi_training_add(t, p);
        break;
    case PSI_TRAIN_READ:
        psi_training_read(t, p, r->status == PS_OK, r->version, r->exact);
        break;
    case PSI_TRAIN_PUSHED:
        psi_training_pushed(t, p, r->status == PS_OK, r->version, r->exact);
        *out_begins = may_begin_add(s) ? psi_training_begins_add(t) : NULL;
        break;
    case PSI_TRAIN_ADDED:
        e->add->err = e->added->err;
        e->add->value = e->added->value;
        e->add->over = true;
        break;
    case PSI_TRAIN_FETCHES:
        return psi_training_fetches(t, p);
    case PSI_TRAIN_HANDED:
        if (e->refused) {
            psi_training_refused(t, p);
        }
        psi_training_handed(t, p, e->number);
        psi_api_wake(s);
        break;
    case PSI_TRAIN_JOINED:
        psi_training_joined(t, e->mode);
        s->training = e->number;
        break;
    case PSI_TRAIN_STEPPED:
        psi_training_stepped(t);
        s->dropped = psi_monitor_dropped(s) + (int64_t)e->number;
        break;
    case PSI_TRAIN_FINISHED:
        s->finished = !e->refused;
        if (!e->refused) {
            psi_training_left(t);
        }
        break;
    case PSI_TRAIN_LOST:
        s->monitor->dropped = s->dropped;
        psi_training_left(t);
        break;
    case PSI_TRAIN_LEFT:
        psi_training_left(t);
        break;
    case PSI_TRAIN_TURN_OVER:
        psi_training_turn_over(t);
        psi_api_wake(s);
        break;
    }
    return was_member;
}

uint64_t psi_api_train_event(ps_session *s, const struct psi_train_event *e)
{
    struct psi_training_add *begins = NULL;
    (void)pthread_mutex_lock(&s->lock);
    const uint64_t answer = take_event(s, e, &begins);
    ps_variable *const step = s->global_step_variable;
    (void)pthread_mutex_unlock(&s->lock);
    if (begins != NULL) {
        psi_api_step_add(s, step, begins);
    }
    return answer;
}

ps_status psi_api_trained(ps_session *s, enum psi_call_end end, const struct psi_err *err)
{
    struct psi_err cut;
    psi_err_none(&cut);
    return end == PSI_END_FINE          ? PS_OK
           : end == PSI_END_INTERRUPTED ? psi_api_result(&cut, psi_api_interrupted(s, &cut))
                                        : psi_api_last_error_set(err);
}
