/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How sessions of training programs (train.c) become ready, by the machine of readying (worker/core/readying.h): in the first
 * thread's call, and in every recovery. Monitored sessions compete for the lease of the chief, the others take the static chief.
 * Some programs have a restore function: it gives all variables values, some of them, or none, or fails; in its middle the
 * program may stand still for longer than its lease, or die. A chief that finds half of a model empties it in its recovery, if it
 * was ready before, or may start over.
 *
 * The oracle:
 *   - a restore function never gives a value to a variable that is sealed (sim_ready_change());
 *   - a session joins a model that is sealed;
 *   - whoever says that it has initialised the model has given no values, and says that it is the chief;
 *   - a model whose values were not restored has begun at step 0.
 */
#include "train.h"

#include "psd/state.h"
#include "worker/core/client.h"

#include <string.h>

enum { RESTORES_IN = 2, STARTS_OVER_IN = 3, STANDS_IN = 4, FAILS_IN = 12 };

void sim_ready_begin(struct sim *s, struct sim_train *t)
{
    t->restores = sim_one_in(s, RESTORES_IN);
    t->starts_over = sim_one_in(s, STARTS_OVER_IN);
}

void sim_ready_prepare(const struct sim *s, struct sim_call *call)
{
    const struct sim_program *p = call->program;
    struct sim_train *t = s->k.trains && p->role != SIM_FINAL ? s->train[p->index] : NULL;
    if (t == NULL) {
        return;
    }
    const struct psi_who loop = {.thread = 1 + THREADS, .on_loop = true};
    switch (call->op->kind) {
    case PSI_REQ_READY:
        call->req.dst = &call->readied;
        call->req.bytes = t->m.monitored && t->restores ? 1 : 0;
        call->req.chief_number = t->asks != NULL ? t->asks->readying.m.number : 0;
        break;
    case PSI_REQ_ASSIGN:
        call->req.chief_number = psi_session_event(&t->m, &loop, PSI_IN_RESTORE, 0);
        break;
    case PSI_REQ_RESET:
        call->req.chief_number = t->empties;
        break;
    default:
        break;
    }
}

void sim_ready_change(struct sim *s, const struct psd_change *c)
{
    if (s->k.trains && c->kind == PSD_CHANGE_SEGMENT && c->segment.last && c->segment.number->progress->kind == PSD_ASSIGN &&
        c->segment.number->progress->variable->sealed) {
        sim_fail(s, "ROLLED BACK: a restore function replaces the sealed value of '%s'",
                 c->segment.number->progress->variable->name);
    }
}

bool sim_ready_empties(struct sim *s, struct sim_program *p, struct sim_train *t, const struct thread *h)
{
    const struct psi_who who = sim_who(t, h);
    t->empties = psi_session_event(&t->m, &who, PSI_ON_TAKE_HALF, 0);
    if (t->empties == 0) {
        return false;
    }
    s->k.may_lose = true;
    s->count_train_emptied++;
    return sim_train_start(s, p, h, PSI_REQ_RESET, NULL) != NULL;
}

/* ---- the restore function ---- */

static void restore_begins(struct sim *s, struct sim_program *p, struct sim_train *t, struct thread *h)
{
    const struct psi_who who = sim_who(t, h);
    const uint64_t x = sim_below(s, FAILS_IN);
    (void)psi_session_event(&t->m, &who, PSI_ON_RESTORE, h->readying.m.number);
    h->readying.given = 0;
    h->readying.gives = x == 0 ? 0 : x == 1 ? (uint32_t)sim_below(s, s->k.vars + 1) : s->k.vars + 1;
    h->readying.restore_fails = x == 1 && sim_one_in(s, 2);
    s->count_train_restores++;
    if (!s->k.quiet && !s->healing && sim_one_in(s, STANDS_IN)) { /* others come to be the chief */
        p->stopped_until = s->now + s->k.lease_ms + sim_below(s, 2ull * s->k.lease_ms);
        sim_resumes(&p->resumed_at, p->stopped_until);
    }
}

/* The function has returned. True: STATUS asks what it has given. */
static bool restore_returns(struct sim *s, struct sim_program *p, struct sim_train *t, struct thread *h)
{
    const struct psi_who who = sim_who(t, h);
    (void)psi_session_event(&t->m, &who, PSI_ON_RESTORE, 0);
    const bool fine = !h->readying.restore_fails && psi_session_error(&t->m, &who, NULL) == PS_OK;
    return fine && sim_train_meet(s, p, h, PSI_REQ_STATUS, NULL);
}

/* STATUS is answered. False: some variables have values, and some have none. */
static bool looked(const struct sim *s, const struct sim_program *p, struct thread *h)
{
    uint32_t given = 0;
    for (uint32_t i = 0; i < s->k.vars; i++) {
        given += p->var[i]->initialised;
    }
    h->readying.m.restored = given > 0;
    return given == 0 || given == s->k.vars;
}

/* ---- what the machine asks for ---- */

static void over(struct sim *s, struct sim_program *p, struct sim_train *t, struct thread *h, bool ok, const struct psi_err *err)
{
    const struct psi_who who = sim_who(t, h);
    const struct psi_readying *r = &h->readying.m;
    h->readies = false;
    if (ok) {
        (void)psi_session_event(&t->m, &who, PSI_ON_WAS_READY, 0);
        t->ready = true;
        if (psi_readying_initialised(r) && (r->restored || r->readied.chief_number == 0)) {
            sim_fail(s, "INITIALISED: client%u says that it has initialised what was given", p->index);
        }
    }
    sim_train_readied(s, p, t, h, ok, err);
}

/* What the machine has asked for is done, or not. */
static void did(struct sim *s, struct sim_program *p, struct sim_train *t, struct thread *h, bool ok, const struct psi_err *err)
{
    const struct psi_err none = {.code = PS_UNAVAILABLE};
    const enum psi_readying_do next = psi_readying_next(&h->readying.m, ok);
    s->readying_marks |= h->readying.m.marks;
    if (next == PSI_READYING_RESTORE) {
        restore_begins(s, p, t, h);
    }
    for (uint32_t i = 0; next == PSI_READYING_JOIN && i <= s->k.vars; i++) {
        const struct sim_birth *b = sim_birth_find(s, p->var[i]->creation);
        if (b != NULL && b->alive && !b->sealed) {
            sim_fail(s, "NOT READY: client%u joins, and '%s' is not sealed", p->index, b->var->name);
        }
    }
    if (next == PSI_READYING_OVER) {
        over(s, p, t, h, ok, err != NULL ? err : &none);
    }
}

void sim_ready_starts(struct thread *h)
{
    h->readying.m = (struct psi_readying){.now = PSI_READYING_GET};
    h->readies = true;
}

void sim_ready_goes_on(struct sim *s, struct sim_program *p, struct sim_train *t, struct thread *h)
{
    const struct psi_who who = sim_who(t, h);
    struct psi_err err = {0};
    bool waits = false;
    switch (h->readying.m.now) {
    case PSI_READYING_GET:
        if (psi_session_error(&t->m, &who, &err) != PS_OK) {
            did(s, p, t, h, false, &err);
        } else if (h->call.interrupts != t->interrupts && !psi_session_recovers(&t->m)) {
            did(s, p, t, h, false, &(struct psi_err){.code = PS_CANCELLED, .reason = PS_REASON_INTERRUPTED});
        } else {
            h->readying.m.step_found = p->var[s->k.vars]->initialised;
            did(s, p, t, h, true, NULL);
        }
        return;
    case PSI_READYING_ASK:
        waits = sim_train_meet(s, p, h, PSI_REQ_READY, NULL);
        break;
    case PSI_READYING_RESTORE:
        if (t->m.restorer == who.thread && h->readying.given < h->readying.gives) {
            waits = sim_train_meet(s, p, h, PSI_REQ_ASSIGN, &s->var[h->readying.given++]);
            h->readying.given = waits ? h->readying.given : h->readying.gives;
            return; /* the function goes on, and returns with the session's error */
        }
        waits = restore_returns(s, p, t, h);
        break;
    case PSI_READYING_JOIN:
        if (s->sync.mode == PS_SYNC_NONE) {
            did(s, p, t, h, true, NULL);
            return;
        }
        waits = sim_train_meet(s, p, h, PSI_REQ_JOIN, NULL);
        break;
    default:
        waits = sim_train_meet(s, p, h, PSI_REQ_PULL, &s->var[s->k.vars]);
        break;
    }
    if (!waits) {
        PSI_IGNORE(psi_session_error(&t->m, &who, &err)); /* if there is none, did() gets a loss */
        did(s, p, t, h, false, err.code != PS_OK ? &err : NULL);
    }
}

static void asked(struct sim *s, struct sim_program *p, struct sim_train *t, struct thread *h, const struct sim_call *call)
{
    const struct psi_who who = sim_who(t, h);
    struct psi_readying *r = &h->readying.m;
    const ps_status st = call->op->status;
    const bool may_empty = (t->restores && t->m.readiness == PSI_READY_ONCE) || t->starts_over;
    r->readied = call->readied;
    psi_client_found(p->core, &r->found, &r->total);
    (void)psi_session_event(&t->m, &who, st == PS_DATA_LOSS && may_empty && t->m.monitored ? PSI_ON_READIED_HALF : PSI_ON_READIED,
                            r->readied.chief_number);
    if (st == PS_OK && !r->readied.nothing) {
        sim_check_ready(s, p);
    }
    if (st == PS_DATA_LOSS && t->m.leads != PSI_LEADS_HALF) {
        p->wants_reset = true;
        s->k.may_lose = true;
    }
}

void sim_ready_done(struct sim *s, struct sim_program *p, struct sim_train *t, struct thread *h, const struct sim_call *call)
{
    bool ok = call->op->status == PS_OK;
    struct psi_err err = call->req.err != NULL ? *call->req.err : (struct psi_err){0};
    err.code = call->op->status;
    psi_session_cuts(&t->m, &err);
    switch (h->readying.m.now) {
    case PSI_READYING_ASK:
        asked(s, p, t, h, call);
        break;
    case PSI_READYING_RESTORE:
        if (call->op->kind == PSI_REQ_ASSIGN) {
            if (!ok) { /* a call of the program that fails sticks */
                sim_train_fails(s, t, &err, false);
                h->readying.given = h->readying.gives;
            }
            return;
        }
        if (ok && !looked(s, p, h)) {
            ok = false;
            err.code = PS_FAILED_PRECONDITION;
        }
        break;
    case PSI_READYING_JOIN:
        if (ok) {
            psi_training_joined(&t->t, s->sync.mode);
            t->met = t->counted + sim_train_pending(t); /* a step that had met the others meets those of the new membership */
        }
        break;
    default:
        break;
    }
    did(s, p, t, h, ok, ok ? NULL : &err);
}
