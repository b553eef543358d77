/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The threads of a program at the machine of training (worker/core/training.h): each asks under the session's lock what is next,
 * does it without the lock, and says so, until its call is over. Ends of requests are events under the same lock.
 *
 * Happy path: psi_api_train(). Failure modes: what was to be done is refused: the machine hears of it, and ends the call; the
 * session's failure and interrupts are looked at under the lock, each time.
 */
#include "training.h"

#include "lock.h"
#include "monitored.h"

/* The values of the second buffer become the value. The caller holds the lock. */
static void take(const struct psi_call *call)
{
    ps_param *p = psi_api_param(call->at);
    if (call->exchange) {
        const struct psk_block value = p->value;
        p->value = p->next;
        p->next = value;
    }
    p->variable->of_param = true;
    p->variable->from = 1 + p->train.version; /* a value that was read ahead does not count until the program has it */
}

enum psi_call_end psi_api_train(ps_session *s, struct psi_call *call, psi_api_do_fn *carry_out, void *ctx, struct psi_err *err)
{
    enum psi_do what = PSI_DO_OVER;
    const struct psi_who who = psi_api_who(s);
    struct psi_list works;
    psi_list_init(&works);
    (void)pthread_mutex_lock(&s->lock);
    call->interrupts = psi_api_interrupts(s);
    for (;;) {
        const struct psi_now now = {.on_loop = who.on_loop,
                                    .interrupted = psi_api_interrupted(s, NULL) != PS_OK,
                                    .failed =
                                        !psi_session_runs(&s->machine) && psi_session_error(&s->machine, &who, NULL) != PS_OK};
        what = psi_training_next(&s->train, call, &now, err);
        const bool hands_over = (what == PSI_DO_OVER || what == PSI_DO_WAIT) && !psi_list_empty(&works);
        if (what == PSI_DO_OVER && !hands_over) {
            break;
        }
        if (hands_over) {
            (void)pthread_mutex_unlock(&s->lock);
            psi_io_submit_all(s->io, &works, what == PSI_DO_WAIT);
            (void)pthread_mutex_lock(&s->lock);
            if (what == PSI_DO_OVER) {
                break;
            }
        } else if (what == PSI_DO_WAIT) {
            psi_api_wait(s, NULL, true);
        } else if (what == PSI_DO_TAKE) {
            take(call);
        } else {
            (void)pthread_mutex_unlock(&s->lock);
            const bool ok = carry_out(s, call, what, ctx, &works);
            (void)pthread_mutex_lock(&s->lock);
            psi_training_did(&s->train, call, ok);
            if (!ok) {
                psi_api_wake(s);
            }
        }
    }
    if (call->counted) {
        s->global_step = call->value;
    }
    if (call->kind == PSI_CALL_STEP) {
        psi_api_wake(s);
    }
    (void)pthread_mutex_unlock(&s->lock);
    return call->end;
}

ps_status psi_api_trained(ps_session *s, enum psi_call_end end)
{
    struct psi_err err = {0};
    return end == PSI_END_FINE          ? PS_OK
           : end == PSI_END_INTERRUPTED ? psi_api_result(&err, psi_api_interrupted(s, &err))
                                        : psi_api_go_on(s);
}
