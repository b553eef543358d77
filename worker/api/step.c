/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A step: ps_should_stop() recovers a lost session, ends the last step and begins the next one, with its hooks. ps_step_done()
 * waits for the step's pushes and, in rounds or with bounded staleness, for the other workers, and adds one to the global step.
 * The machine of training (worker/core/training.h) says what comes next.
 *
 * Happy path of the addition: a spare record carries the addition to the variable's task, and the thread waits for the answer.
 * The session owns the record and its memory, so an addition continues when its thread is interrupted. The next ps_step_done(),
 * of any thread, waits for this addition in place of a new one, so the step counts once. Failure modes: errors of the addition.
 * After a recovery earlier additions are forgotten, because their model is gone.
 */
#include "lock.h"
#include "monitored.h"
#include "training.h"

#include "common/mem.h"

#include <stdio.h>
#include <string.h>

/* An addition to the global step. */
struct step {
    ps_request req;
    ps_session *session;
    struct psi_training_add add;
};

/* Report the end of an addition to the machine of training. psi_api_drained() wakes the waiting thread. */
static void add_ends(ps_session *s, struct psi_training_add *add, const struct psi_training_add *added)
{
    (void)psi_api_train_event(s, &(struct psi_train_event){.kind = PSI_TRAIN_ADDED, .add = add, .added = added});
}

static void on_added(void *ctx, ps_request *req, const ps_result *result)
{
    struct step *step = ctx;
    struct psi_training_add added = {.err = {.code = result->status, .applied = result->applied, .reason = result->reason}};
    (void)req;
    (void)snprintf(added.err.text, sizeof(added.err.text), "%s", result->text);
    if (result->status == PS_OK && result->result_bytes == sizeof(added.value)) {
        memcpy(&added.value, result->result, sizeof(added.value));
    }
    add_ends(step->session, &step->add, &added);
}

static struct psi_training_add *add_new(ps_session *s)
{
    struct step *step = psi_calloc(1, sizeof(*step));
    if (step == NULL) {
        return NULL;
    }
    step->session = s;
    step->add.one = 1;
    psi_list_init(&step->add.link);
    return &step->add;
}

void psi_api_steps_free(ps_session *s)
{
    struct psi_list *it = NULL;
    psi_list_move_all(&s->train.adds_spare, &s->train.adds_left);
    while ((it = psi_list_pop_front(&s->train.adds_spare)) != NULL) {
        psi_free(PSI_CONTAINER_OF(it, struct step, add.link));
    }
}

/* A ps_step_done() in progress. */
struct ending {
    struct psi_err err; /* reason of a refusal */
    bool known;         /* a recovery has broken the step off: the call returns err, but the session does not fail by it */
    uint64_t waits_ns;  /* for a trace: time at which the thread began to wait; 0: no trace */
    const char *waits_for;
};

static void trace_wait(ps_session *s, struct ending *e, const char *next)
{
    if (e->waits_for != NULL) {
        psi_trace_span(s, e->waits_for, e->waits_ns);
    }
    e->waits_ns = psi_trace_now(s);
    e->waits_for = next;
}

/* Check that the step may end. False, with the reason in e->err: a recovery has broken the step off (e->known), or the session no
 * longer trains. Sets call->skips: a guard has skipped the step. */
static bool check(ps_session *s, struct psi_call *call, struct ending *e)
{
    e->known = psi_monitor_step(s, PSI_ON_STEP, &e->err) != PS_OK;
    if (e->known) {
        return false;
    }
    return psi_api_trains(s, PSI_ON_STEP_SKIPPED, &call->skips, &e->err) == PS_OK;
}

static ps_status add_start(ps_variable *variable, struct psi_training_add *add)
{
    struct step *step = PSI_CONTAINER_OF(add, struct step, add);
    const struct psi_request what = {.kind = PSI_REQ_ADD, .src = &add->one, .bytes = sizeof(add->one), .scale = 1};
    return psi_api_start(variable, &what, 0, &step->req, on_added, step);
}

void psi_api_step_add(ps_session *s, ps_variable *variable, struct psi_training_add *add)
{
    struct psi_training_add added = {0};
    if (add_start(variable, add) != PS_OK) {
        psi_api_last_error_get(&added.err);
        add_ends(s, add, &added);
    }
}

/* Begin to add one to the global step. False: e->err has the reason. */
static bool add(ps_session *s, struct psi_call *call, struct ending *e)
{
    ps_variable *variable = NULL;
    ps_status st = psi_api_global_step(s, &variable, &e->err);
    call->add = st == PS_OK && call->add == NULL ? add_new(s) : call->add;
    if (st == PS_OK && call->add == NULL) {
        st = psi_fail(&e->err, PS_RESOURCE_EXHAUSTED, "out of memory for a step");
    }
    if (st == PS_OK) {
        call->add->over = false;
        st = add_start(variable, call->add);
        if (st != PS_OK) {
            psi_api_last_error_get(&e->err);
        }
    }
    if (st != PS_OK && e->err.applied == PS_NOTHING_APPLIED) {
        e->err.applied = PS_MAYBE_PARTLY_APPLIED; /* the gradients of the step are applied */
    }
    return st == PS_OK;
}

static bool step_does(ps_session *s, struct psi_call *call, enum psi_do what, void *ctx, struct psi_list *works, bool locked)
{
    (void)works;
    struct ending *e = ctx;
    bool ok = true;
    if (locked) {
        return false;
    }
    trace_wait(s, e, NULL);
    switch (what) {
    case PSI_DO_CHECK:
        ok = check(s, call, e);
        trace_wait(s, e, ok ? "wait: pushes" : NULL);
        break;
    case PSI_DO_STEP:
        ok = psi_api_sync_meet(s, call->first, &call->value, &e->err) == PS_OK;
        break;
    default: /* PSI_DO_ADD */
        ok = add(s, call, e);
        trace_wait(s, e, ok ? "wait: count the step" : NULL);
        break;
    }
    return ok;
}

/* End the step. *out_counted false with PS_OK: a guard has skipped the step. */
static ps_status make_step(ps_session *s, bool *out_counted)
{
    struct ending e = {0};
    struct psi_call call = {.kind = PSI_CALL_STEP, .nested = psi_monitor_in_restore(s)};
    const enum psi_call_end end = psi_api_train(s, &call, step_does, &e, &e.err);
    trace_wait(s, &e, NULL);
    *out_counted = call.counted;
    if (call.add_pending) {
        PSI_IGNORE(psi_api_interrupted(s, &e.err)); /* sets e.err, which is returned below */
        e.err.applied = PS_MAYBE_PARTLY_APPLIED;    /* the gradients of the step are applied */
    }
    return e.known                                      ? psi_api_last_error_set(&e.err)
           : call.add_pending || end == PSI_END_REFUSED ? psi_api_refused(s, &e.err, "ps_step_done")
                                                        : psi_api_trained(s, end, &e.err);
}

static ps_status step_done(ps_session *s, bool *out_counted)
{
    ps_status st = psi_api_enter(s, true);
    st = st == PS_OK ? psi_api_params_push_none(s) : st;
    return st == PS_OK ? make_step(s, out_counted) : st;
}

ps_status ps_step_done(ps_session *s)
{
    bool counted = false;
    struct psi_api_visit visit;
    psi_api_begin(s, &visit);
    ps_status st = PS_OK;
    if (s != NULL && psi_api_here(s) && psi_api_hook_event(s, PSI_IS_STEP_LEFT) != 0) {
        counted = true;
    } else {
        st = step_done(s, &counted);
    }
    if (s != NULL && (counted || st != PS_CANCELLED)) { /* CANCELLED: the next call continues the step */
        (void)psi_monitor_tell(s, PSI_ON_STEP_OVER, counted);
    }
    visit.life = counted ? 0 : visit.life; /* 0: the step is over, so hooks may use the session even after a recovery */
    st = psi_api_last(s, counted ? psi_api_hooks_step_done(s) : st);
    if (s != NULL && st != PS_CANCELLED) {
        psi_api_noted(&visit);
        if (s->trace != NULL) {
            psi_trace_end(s, true);
        }
    }
    psi_api_end(s);
    return st;
}
