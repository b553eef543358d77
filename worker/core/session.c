/* SPDX-License-Identifier: Apache-2.0 */
/* State machine of a session (session.h). Happy path: an error from which the session can recover makes it LOST, and all calls
 * return this error. Then a thread recovers the session, while other threads are barred: it is DRAINING (requests at the old
 * client end), then MAKING (another client), then RUNNING again. A step in which the program had pushed is broken off. Failure
 * modes: any other error, or too many recoveries without a step, makes the session FAILED. A failed attempt is repeated from
 * DRAINING on, until the time is over or an error ends the session: it is DOOMED, then GIVEN_UP. An interrupt breaks the recovery
 * off, and the next call recovers. */
#include "session.h"

#include "ways.h"

#include <stdio.h>

static const uint8_t STATE_WAYS[PSI_SESSION_STATES] = {
    [PSI_SESSION_RUNNING] = PSI_TO(PSI_SESSION_LOST) | PSI_TO(PSI_SESSION_FAILED),
    [PSI_SESSION_LOST] = PSI_TO(PSI_SESSION_DRAINING) | PSI_TO(PSI_SESSION_FAILED),
    [PSI_SESSION_BROKEN_OFF] = PSI_TO(PSI_SESSION_DRAINING) | PSI_TO(PSI_SESSION_GIVEN_UP),
    [PSI_SESSION_DRAINING] = PSI_TO(PSI_SESSION_MAKING) | PSI_TO(PSI_SESSION_BROKEN_OFF) | PSI_TO(PSI_SESSION_DOOMED),
    [PSI_SESSION_MAKING] = PSI_TO(PSI_SESSION_RUNNING) | PSI_TO(PSI_SESSION_LOST) | PSI_TO(PSI_SESSION_DRAINING) |
                           PSI_TO(PSI_SESSION_BROKEN_OFF) | PSI_TO(PSI_SESSION_DOOMED),
    [PSI_SESSION_DOOMED] = PSI_TO(PSI_SESSION_FAILED) | PSI_TO(PSI_SESSION_GIVEN_UP),
    [PSI_SESSION_FAILED] = PSI_TO(PSI_SESSION_RUNNING), /* PSI_ON_QUIET: the error only said that the session closes */
    [PSI_SESSION_GIVEN_UP] = 0,
};
static const uint8_t STEP_WAYS[PSI_STEPS] = {
    [PSI_STEP_NEW] = PSI_TO(PSI_STEP_PULLED) | PSI_TO(PSI_STEP_PUSHED),
    [PSI_STEP_PULLED] = PSI_TO(PSI_STEP_PUSHED) | PSI_TO(PSI_STEP_BROKEN_PULLED) | PSI_TO(PSI_STEP_NEW),
    [PSI_STEP_PUSHED] = PSI_TO(PSI_STEP_BROKEN_PUSHED) | PSI_TO(PSI_STEP_NEW),
    [PSI_STEP_BROKEN_PULLED] = PSI_TO(PSI_STEP_BROKEN_PUSHED) | PSI_TO(PSI_STEP_PULLED) | PSI_TO(PSI_STEP_NEW),
    [PSI_STEP_BROKEN_PUSHED] = PSI_TO(PSI_STEP_NEW),
};
static const struct psi_ways TABLES[PSI_SESSION_MARKS] = {{"state", STATE_WAYS, PSI_SESSION_STATES, 0},
                                                          {"step", STEP_WAYS, PSI_STEPS, 0}};
_Static_assert(PSI_SESSION_STATES *PSI_SESSION_STATES <= 64 && PSI_STEPS * PSI_STEPS <= 64, "bits of a word of marks");

static void state_move(struct psi_session *m, enum psi_session_state to)
{
    m->state = (enum psi_session_state)psi_ways_move(&TABLES[0], &m->marks[0], m->state, to);
}

static void step_move(struct psi_session *m, enum psi_step to)
{
    m->step = (enum psi_step)psi_ways_move(&TABLES[1], &m->marks[1], m->step, to);
}

bool psi_session_unmarked(const uint64_t marks[PSI_SESSION_MARKS], char out[64])
{
    return psi_ways_unmarked(&TABLES[0], marks[0], out) || psi_ways_unmarked(&TABLES[1], marks[1], out);
}

void psi_session_init(struct psi_session *m, const ps_sync_options *sync)
{
    *m = (struct psi_session){.sync = sync};
}

void psi_session_check_invariants(const struct psi_session *m)
{
    const bool must_have_none = m->state == PSI_SESSION_RUNNING;
    const bool may_have_none = must_have_none || m->state == PSI_SESSION_DRAINING || m->state == PSI_SESSION_MAKING;
    PSI_ASSERT(!must_have_none || m->error.code == PS_OK);
    PSI_ASSERT(may_have_none || m->error.code != PS_OK);
    PSI_ASSERT(m->monitored || m->state == PSI_SESSION_RUNNING || m->state == PSI_SESSION_FAILED);
    PSI_ASSERT(!psi_session_recovers(m) || (m->recoverer != 0 && m->cause.code != PS_OK));
    PSI_ASSERT((m->restorer == 0) == (m->restoring == 0));
    PSI_ASSERT(m->leads == PSI_LEADS_NOT || m->chief_number != 0);
}

bool psi_session_recovers(const struct psi_session *m)
{
    return m->state == PSI_SESSION_DRAINING || m->state == PSI_SESSION_MAKING || m->state == PSI_SESSION_DOOMED;
}

bool psi_session_is_final(const struct psi_session *m)
{
    /* DRAINING: psi_session_fails() sets m->error only for an error that ends the session */
    return m->state == PSI_SESSION_FAILED || m->state == PSI_SESSION_GIVEN_UP || m->state == PSI_SESSION_DOOMED ||
           (m->state == PSI_SESSION_DRAINING && m->error.code != PS_OK);
}

bool psi_session_mends(const struct psi_session *m, const struct psi_err *err)
{
    if (err->unreached) {
        return false; /* the task was never connected, so nothing was lost that could come back */
    }
    if (!m->monitored || m->in_row >= m->recoveries_max) {
        return false;
    }
    switch (err->code) {
    case PS_ABORTED:
        if (m->sync->on_worker_loss == PS_LOSS_FAIL && psi_reason(err->reason, err->code) == (ps_reason)PS_ABORTED) {
            return false; /* a worker was lost, and the policy ends all workers */
        }
        /* CONFLICT, DISPLACED: two processes claim to be one task. If both recovered, each would displace the other for ever */
        return err->reason != PS_REASON_CONFLICT && err->reason != PS_REASON_DISPLACED;
    case PS_UNAVAILABLE:
        return err->reason != PS_REASON_OTHER_CLUSTER;
    case PS_DATA_LOSS: /* a part of the model is lost: the chief fails unless it may discard the rest (LEADS_HALF) */
        return m->leads != PSI_LEADS;
    case PS_DEADLINE_EXCEEDED:
        return err->reason == PS_REASON_NOT_CONNECTED;
    default:
        return false;
    }
}

/* The error because of which `who` must not use the session now (psi_session_bars()); PS_OK: none. */
static ps_status barred(const struct psi_session *m, const struct psi_who *who, struct psi_err *err)
{
    if (psi_session_recovers(m) && (who->on_loop ? m->state == PSI_SESSION_DRAINING : who->thread != m->recoverer)) {
        if (err != NULL) {
            *err = m->cause;
        }
        return m->cause.code;
    }
    return who->life == 0 || who->life == 1 + m->lives ? PS_OK : psi_fail(err, PS_ABORTED, PSI_STEP_IS_BROKEN);
}

bool psi_session_bars(const struct psi_session *m, const struct psi_who *who, struct psi_err *err)
{
    return barred(m, who, err) != PS_OK;
}

ps_status psi_session_error(const struct psi_session *m, const struct psi_who *who, struct psi_err *err)
{
    if (m->error.code == PS_OK) {
        return barred(m, who, err);
    }
    if (err != NULL) {
        *err = m->error;
    }
    return m->error.code;
}

ps_status psi_session_may_start(const struct psi_session *m, const struct psi_who *who, struct psi_err *err)
{
    const ps_status st = barred(m, who, err);
    if (st != PS_OK) {
        return st;
    }
    if (m->end != PSI_SESSION_OPEN) {
        return psi_fail_as(err, PS_FAILED_PRECONDITION, PS_REASON_CLOSING, "the session is closing");
    }
    return m->state == PSI_SESSION_BROKEN_OFF || m->state == PSI_SESSION_GIVEN_UP ? psi_session_error(m, who, err) : PS_OK;
}

bool psi_session_only_closes(const struct psi_session *m, const struct psi_err *err)
{
    return err->reason == PS_REASON_CLOSING && m->end != PSI_SESSION_LEFT;
}

static bool trains(const struct psi_session *m, const struct psi_who *who)
{
    return m->trainer == 0 || m->trainer == who->thread;
}

static uint64_t restoring(const struct psi_session *m, const struct psi_who *who)
{
    return m->restorer == who->thread || who->on_loop ? m->restoring : 0;
}

enum psi_stuck psi_session_fails(struct psi_session *m, const struct psi_who *who, const struct psi_err *err, bool final)
{
    const bool mends = !final && psi_session_mends(m, err);
    if (err->code == PS_OK || (!final && (m->state == PSI_SESSION_DRAINING || psi_session_bars(m, who, NULL)))) {
        /* no new error: the recovery has ended a request of the old client, or has refused a call of a broken step */
        return PSI_STUCK_NOT;
    }
    const bool failed = m->error.code != PS_OK && !psi_session_only_closes(m, &m->error);
    if (failed && (!m->monitored || !final || psi_session_is_final(m))) {
        return PSI_STUCK_NOT;
    }
    m->error = *err;
    switch (m->state) {
    case PSI_SESSION_RUNNING:
    case PSI_SESSION_LOST:
        state_move(m, mends ? PSI_SESSION_LOST : PSI_SESSION_FAILED);
        return mends ? PSI_STUCK_LOSS : PSI_STUCK_FIRST;
    case PSI_SESSION_BROKEN_OFF:
        state_move(m, PSI_SESSION_GIVEN_UP);
        return PSI_STUCK_FIRST;
    case PSI_SESSION_MAKING:
        state_move(m, mends ? PSI_SESSION_MAKING : PSI_SESSION_DOOMED);
        return PSI_STUCK_TRY;
    default:
        return psi_session_recovers(m) ? PSI_STUCK_TRY : PSI_STUCK_FIRST;
    }
}

bool psi_session_loses_queue(const struct psi_session *m, bool deletes, struct psi_err *err)
{
    if (!m->monitored || (err->code != PS_ABORTED && err->code != PS_CANCELLED) || err->reason != PS_REASON_LOST) {
        return false;
    }
    const bool own = err->code == PS_CANCELLED && deletes;
    err->code = own ? PS_CANCELLED : PS_ABORTED; /* CANCELLED: the program itself deleted the queue */
    return !own && psi_session_mends(m, err);
}

void psi_session_cuts(const struct psi_session *m, struct psi_err *err)
{
    const bool cut = m->state == PSI_SESSION_DRAINING || m->state == PSI_SESSION_BROKEN_OFF;
    if (cut && err->code == PS_DEADLINE_EXCEEDED) {
        err->code = m->cause.code;
        err->reason = m->cause.reason;
    }
}

static bool recover(struct psi_session *m, const struct psi_who *who)
{
    if ((m->state != PSI_SESSION_LOST && m->state != PSI_SESSION_BROKEN_OFF) || m->end != PSI_SESSION_OPEN) {
        return false;
    }
    m->cause = m->error;
    m->error = (struct psi_err){0};
    m->recoverer = who->thread;
    state_move(m, PSI_SESSION_DRAINING);
    return true;
}

static void drained(struct psi_session *m)
{
    m->lives++;
    state_move(m, m->error.code == PS_OK ? PSI_SESSION_MAKING : PSI_SESSION_DOOMED);
}

bool psi_session_try_again(struct psi_session *m, const struct psi_err *err, bool in_time)
{
    /* NO_ROUNDS: a restored checkpoint has ended the rounds. The chief may begin new rounds soon, so try again */
    const bool asks = err->reason == PS_REASON_NO_ROUNDS && m->readiness == PSI_READY_ONCE;
    const bool mends = asks || psi_session_mends(m, err) || (err->code == PS_DEADLINE_EXCEEDED && !err->unreached);
    if (!mends || !in_time || m->end != PSI_SESSION_OPEN || psi_session_is_final(m)) {
        return false;
    }
    m->error = (struct psi_err){0}; /* errors of the attempt are dropped */
    state_move(m, PSI_SESSION_DRAINING);
    return true;
}

/* Break the present step off if it has pushed, because the model or client to which it pushed is gone. A step that has only
 * pulled continues if the recovering thread is the thread that trains. */
static void step_breaks(struct psi_session *m)
{
    const bool by_trainer = m->trainer == 0 || m->trainer == m->recoverer;
    switch (m->step) {
    case PSI_STEP_PULLED:
    case PSI_STEP_BROKEN_PULLED:
        step_move(m, by_trainer ? PSI_STEP_PULLED : PSI_STEP_BROKEN_PULLED);
        break;
    case PSI_STEP_PUSHED:
        step_move(m, PSI_STEP_BROKEN_PUSHED);
        break;
    default:
        break;
    }
}

static void made(struct psi_session *m)
{
    m->in_row++;
    step_breaks(m);
    state_move(m, m->state == PSI_SESSION_DOOMED ? PSI_SESSION_FAILED
                  : m->error.code != PS_OK       ? PSI_SESSION_LOST /* another error has come meanwhile */
                                                 : PSI_SESSION_RUNNING);
}

static void given_up(struct psi_session *m)
{
    state_move(m, PSI_SESSION_DOOMED);
    state_move(m, PSI_SESSION_GIVEN_UP);
}

static void broken_off(struct psi_session *m)
{
    if (psi_session_is_final(m)) {
        given_up(m);
        return;
    }
    m->error = m->cause;
    state_move(m, PSI_SESSION_BROKEN_OFF);
}

const struct psi_err *psi_session_doomed(struct psi_session *m, const struct psi_err *err)
{
    if (!psi_session_is_final(m) || psi_session_only_closes(m, &m->error)) {
        m->error = m->end != PSI_SESSION_OPEN ? m->cause : *err;
    }
    state_move(m, PSI_SESSION_DOOMED);
    return &m->error;
}

static void pulls(struct psi_session *m, const struct psi_who *who)
{
    if (m->step == PSI_STEP_NEW && trains(m, who)) {
        step_move(m, PSI_STEP_PULLED);
    }
}

static uint64_t steps(struct psi_session *m, const struct psi_who *who, bool pushes)
{
    const bool broken = m->step == PSI_STEP_BROKEN_PULLED || m->step == PSI_STEP_BROKEN_PUSHED;
    m->trainer = who->thread;
    if (pushes) {
        step_move(m, broken ? PSI_STEP_BROKEN_PUSHED : PSI_STEP_PUSHED);
    }
    return broken ? 0 : 1 + m->lives;
}

static void step_over(struct psi_session *m, const struct psi_who *who, bool counted)
{
    if (trains(m, who)) { /* a thread that does not train ends no step */
        step_move(m, PSI_STEP_NEW);
    }
    m->in_row = counted ? 0 : m->in_row;
}

static void to_be_ready(struct psi_session *m, const struct psi_who *who)
{
    m->readiness = m->readiness == PSI_READY_NOT_ASKED ? PSI_READY_ASKED : m->readiness;
    m->trainer = who->thread;
}

static bool was_ready(struct psi_session *m)
{
    const bool first = m->readiness != PSI_READY_ONCE;
    m->readiness = PSI_READY_ONCE;
    return first;
}

static void readied(struct psi_session *m, uint64_t chief_number, bool half)
{
    m->chief_number = chief_number != 0 ? chief_number : m->chief_number;
    m->leads = chief_number == 0 ? PSI_LEADS_NOT : half ? PSI_LEADS_HALF : PSI_LEADS;
}

static uint64_t take_half(struct psi_session *m)
{
    const bool half = m->leads == PSI_LEADS_HALF;
    m->leads = half ? PSI_LEADS : m->leads;
    return half ? m->chief_number : 0;
}

static void restores(struct psi_session *m, const struct psi_who *who, uint64_t number)
{
    m->restoring = number;
    m->restorer = number != 0 ? who->thread : 0;
}

static void closes(struct psi_session *m, bool leaves)
{
    m->end = m->end == PSI_SESSION_LEFT || leaves ? PSI_SESSION_LEFT : PSI_SESSION_CLOSING;
}

static void quiet(struct psi_session *m)
{
    if (m->state == PSI_SESSION_FAILED && psi_session_only_closes(m, &m->error)) {
        psi_err_none(&m->error);
        state_move(m, PSI_SESSION_RUNNING);
    }
}

static bool may_recover(const struct psi_session *m)
{
    return m->state != PSI_SESSION_RUNNING && !psi_session_is_final(m);
}

uint64_t psi_session_event(struct psi_session *m, const struct psi_who *who, enum psi_session_event event, uint64_t number)
{
    switch (event) {
    case PSI_ON_RECOVER:
        return recover(m, who);
    case PSI_ON_DRAINED:
        drained(m);
        break;
    case PSI_ON_MADE:
        made(m);
        break;
    case PSI_ON_BREAK_OFF:
        broken_off(m);
        break;
    case PSI_ON_GIVE_UP:
        given_up(m);
        break;
    case PSI_ON_TAKE_HALF:
        return take_half(m);
    case PSI_ON_PULL:
        pulls(m, who);
        break;
    case PSI_ON_PUSH:
    case PSI_ON_STEP:
        return steps(m, who, event == PSI_ON_PUSH);
    case PSI_ON_STEP_OVER:
        step_over(m, who, number != 0);
        break;
    case PSI_ON_READY:
        to_be_ready(m, who);
        break;
    case PSI_ON_READIED:
    case PSI_ON_READIED_HALF:
        readied(m, number, event == PSI_ON_READIED_HALF);
        break;
    case PSI_ON_WAS_READY:
        return was_ready(m);
    case PSI_ON_RESTORE:
        restores(m, who, number);
        break;
    case PSI_ON_DELETE:
        m->deleting = number != 0 ? m->deleting + 1 : m->deleting - 1;
        break;
    case PSI_IN_RESTORE:
        return restoring(m, who);
    case PSI_ON_STOP:
        m->stop = number > m->stop ? (enum psi_stop)number : m->stop;
        break;
    case PSI_ON_LEAVE:
    case PSI_ON_CLOSE:
        closes(m, event == PSI_ON_LEAVE);
        break;
    case PSI_ON_QUIET:
        quiet(m);
        break;
    case PSI_IS_LOST:
        return !psi_session_is_final(m);
    case PSI_MAY_RECOVER:
        return may_recover(m);
    case PSI_IS_RECOVERING:
        return psi_session_recovers(m);
    case PSI_IS_CHIEF:
        return m->leads != PSI_LEADS_NOT;
    }
    return 0;
}
