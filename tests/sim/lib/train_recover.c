/* SPDX-License-Identifier: Apache-2.0 */
/* Recoveries of training programs (train.c), by the machine of sessions (worker/core/session.h). What is in flight at the lost
 * client ends, the client goes, another one comes, gets everything again, and becomes ready (train_ready.c). An attempt that
 * fails is made again, until the time is over. */
#include "train.h"

#include "worker/core/client.h"

void sim_train_recover(struct sim *s, const struct sim_program *p, struct sim_train *t, const struct thread *h)
{
    const bool again = t->m.state == PSI_SESSION_BROKEN_OFF;
    if (sim_train_tell(t, h, PSI_ON_RECOVER, 0) == 0) {
        sim_fail(s, "NOT RECOVERED: a thread may not recover a lost session in state %d", (int)t->m.state);
    }
    sim_trace(s, "client%u.%u recovers%s", p->index, p->life, again ? " again" : "");
    t->recovery_ends = s->now + RECOVERY_MS;
    if (h == t->thread) {
        t->stepping = false;
        t->pushed = 0; /* the program has come to the end of its step, or pulls */
        t->pulled = false;
    }
    psi_client_hasten(p->core, s->now + DRAIN_MS);
}

/* What was in flight at the old client ends; then it goes. */
static void drain(struct sim *s, struct sim_program *p, struct sim_train *t, const struct thread *h)
{
    if (sim_train_is_busy(s, p, t)) {
        return;
    }
    sim_train_check_held(s, t);
    if (sim_ready_empties(s, p, t, h)) {
        return; /* until it is answered */
    }
    psi_training_left(&t->t);
    psi_training_forget(&t->t);
    t->met = t->added = t->counted + sim_train_pending(t);
    t->life++;
    for (uint32_t i = 0; i < s->k.vars; i++) {
        t->param[i].acknowledged = 0;
        t->param[i].t.version = 0;
        for (uint32_t k = 0; k < t->threads; k++) {
            t->thread[k].floor[i] = 0;
        }
    }
    (void)sim_train_tell(t, h, PSI_ON_DRAINED, 0);
    t->drained_life = p->life;
    sim_program_end_soon(s, p, 200); /* sim_train_ended() */
}

/* An attempt to recover has failed. */
static void attempt_failed(struct sim *s, struct sim_program *p, struct sim_train *t, const struct psi_err *err)
{
    const bool in_time = s->now < t->recovery_ends && !t->closing;
    const bool early = err->reason == PS_REASON_NO_ROUNDS;
    s->count_train_early += early;
    if (psi_session_try_again(&t->m, err, in_time)) {
        if (p->core != NULL) {
            psi_client_hasten(p->core, s->now + DRAIN_MS);
        }
        return;
    }
    if (early && in_time && t->ready && !psi_session_is_final(&t->m)) {
        sim_fail(s, "TOO EARLY: a recovery that comes before the chief has heard of the loss ends the session");
    }
    (void)psi_session_doomed(&t->m, err);
    (void)sim_train_tell(t, t->thread, PSI_ON_GIVE_UP, 0);
}

void sim_train_ended(struct sim *s, struct sim_program *p)
{
    struct sim_train *t = s->k.trains ? s->train[p->index] : NULL;
    if (t == NULL || p->role == SIM_FINAL || !psi_session_recovers(&t->m)) {
        return;
    }
    if (t->m.state == PSI_SESSION_MAKING && p->life != t->drained_life) { /* the new client is not ready */
        attempt_failed(s, p, t, &t->not_ready);
        if (t->m.state == PSI_SESSION_DRAINING) {
            (void)sim_train_tell(t, t->thread, PSI_ON_DRAINED, 0);
        }
    }
    t->anew = psi_session_recovers(&t->m);
    for (uint32_t i = 0; i < t->threads; i++) {
        if (t->thread[i].readies && t->m.recoverer == sim_who(t, &t->thread[i]).thread) {
            t->thread[i].readies = false; /* its attempt has failed with the client */
        }
    }
}

/* The new client is ready, and the session has joined or failed to. */
static void made(struct sim *s, struct sim_train *t, struct thread *h)
{
    if (!s->k.quiet && sim_one_in(s, 10)) { /* an error comes last */
        sim_train_fails(s, t, &(struct psi_err){.code = PS_ABORTED, .reason = PS_REASON_LOST}, sim_one_in(s, 2));
    }
    s->count_train_made++;
    sim_gets_made(s, t);
    (void)sim_train_tell(t, h, PSI_ON_MADE, 0);
    sim_hooks_come(t, h, PSI_HOOK_CREATED, true);
}

void sim_train_recovery_goes_on(struct sim *s, struct sim_program *p, struct sim_train *t, struct thread *h)
{
    if (t->m.state == PSI_SESSION_DRAINING) {
        drain(s, p, t, h);
    } else if (p->life == t->drained_life || h->op != NULL) {
        return; /* the old client is going, or JOIN is not answered */
    } else if (t->m.state == PSI_SESSION_DOOMED || s->now >= s->trainer[p->index].until) {
        (void)psi_session_doomed(&t->m, &t->m.cause);
        (void)sim_train_tell(t, h, PSI_ON_GIVE_UP, 0);
    } else if (h->readies) {
        sim_ready_goes_on(s, p, t, h);
    } else if (t->m.readiness == PSI_READY_NOT_ASKED) {
        made(s, t, h);
    } else {
        sim_ready_starts(h);
    }
}

void sim_train_readied(struct sim *s, struct sim_program *p, struct sim_train *t, struct thread *h, bool ok,
                       const struct psi_err *err)
{
    const bool cut = err->reason == PS_REASON_INTERRUPTED;
    if (psi_session_recovers(&t->m) && t->m.recoverer == sim_who(t, h).thread) {
        if (ok) {
            made(s, t, h);
        } else if (cut && !t->closing) {
            (void)sim_train_tell(t, h, PSI_ON_BREAK_OFF, 0);
        } else {
            attempt_failed(s, p, t, err);
        }
        return;
    }
    if (!ok && !cut) {
        sim_train_fails(s, t, err, false);
    }
    psi_training_turn_over(&t->t);
    sim_train_call_over(s, t, h);
    if (ok) {
        sim_hooks_come(t, h, PSI_HOOK_CREATED, false);
    }
}
