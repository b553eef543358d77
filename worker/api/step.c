/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A step: ps_should_stop() makes a lost session anew, ends the step before and begins the next one, with its hooks.
 * ps_step_done() waits for the step's pushes, for the other workers where the session is a member, and adds one to the global
 * step.
 *
 * Happy path of the addition: a spare record carries the addition to the variable's task, and the thread waits for the answer.
 * The session owns the record and its memory, so an addition goes on when its thread is interrupted. The next ps_step_done(),
 * of whatever thread, waits for that addition instead of a new one, and the step counts once. Failure modes: those of the
 * addition. When the session is made anew, earlier additions belong to a model that is gone, and are forgotten.
 */
#include "monitored.h"

#include "common/mem.h"

#include <stdio.h>
#include <string.h>

struct step {
    ps_request req;
    ps_session *session;
    struct psi_list link; /* in steps_left, or steps_spare */
    bool over;            /* under the lock: the addition has ended, with err or value */
    int64_t one, value;
    struct psi_err err;
};

static void on_added(void *ctx, ps_request *req, const ps_result *result)
{
    struct step *step = ctx;
    ps_session *s = step->session;
    (void)req;
    (void)pthread_mutex_lock(&s->lock);
    step->err = (struct psi_err){.code = result->status, .applied = result->applied, .reason = result->reason};
    (void)snprintf(step->err.text, sizeof(step->err.text), "%s", result->text);
    if (result->status == PS_OK && result->result_bytes == sizeof(step->value)) {
        memcpy(&step->value, result->result, sizeof(step->value));
    }
    step->over = true;
    (void)pthread_cond_broadcast(&s->changed);
    (void)pthread_mutex_unlock(&s->lock);
}

static struct step *of(struct psi_list *link)
{
    return link != NULL ? PSI_CONTAINER_OF(link, struct step, link) : NULL;
}

static void give(ps_session *s, struct psi_list *to, struct step *step)
{
    (void)pthread_mutex_lock(&s->lock);
    psi_list_push_front(to, &step->link);
    (void)pthread_mutex_unlock(&s->lock);
}

/* Begin to add one to the global step. */
static ps_status step_begin(ps_session *s, ps_variable *variable, struct step **out_step, struct psi_err *err)
{
    (void)pthread_mutex_lock(&s->lock);
    struct step *step = of(psi_list_pop_front(&s->steps_spare));
    (void)pthread_mutex_unlock(&s->lock);
    step = step != NULL ? step : psi_calloc(1, sizeof(*step));
    if (step == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "out of memory for a step");
    }
    step->session = s;
    step->one = 1;
    step->over = false;
    psi_list_init(&step->link);
    const struct psi_request what = {.kind = PSI_REQ_ADD, .src = &step->one, .bytes = sizeof(step->one), .scale = 1};
    const ps_status st = psi_api_start(variable, &what, 0, &step->req, on_added, step);
    if (st != PS_OK) {
        psi_api_last_error_get(err);
        give(s, &s->steps_spare, step);
        return st;
    }
    *out_step = step;
    return PS_OK;
}

/* Add one to the global step; *out_value: the new value. The addition of an interrupted call is awaited in place of a new one.
 * CANCELLED: interrupted; the addition goes on, for the next call. Blocks. */
static ps_status count_step(ps_session *s, int64_t *out_value, struct psi_err *err)
{
    ps_variable *variable = NULL;
    ps_status st = psi_api_global_step(s, &variable, err);
    if (st != PS_OK) {
        return st;
    }
    (void)pthread_mutex_lock(&s->lock);
    struct step *step = of(psi_list_pop_front(&s->steps_left));
    (void)pthread_mutex_unlock(&s->lock);
    st = step == NULL ? step_begin(s, variable, &step, err) : PS_OK;
    if (st != PS_OK) {
        return st;
    }
    const uint64_t begun_ns = psi_trace_now(s);
    (void)pthread_mutex_lock(&s->lock);
    while (!step->over && psi_api_interrupted(s, NULL) == PS_OK) {
        psi_api_wait(s, &s->changed);
    }
    const bool over = step->over;
    if (over) {
        *out_value = step->value;
        *err = step->err;
    }
    (void)pthread_mutex_unlock(&s->lock);
    psi_trace_span(s, "wait: count the step", begun_ns);
    st = over ? err->code : psi_api_interrupted(s, err);
    give(s, over ? &s->steps_spare : &s->steps_left, step);
    return st;
}

void psi_api_steps_forget(ps_session *s)
{
    (void)pthread_mutex_lock(&s->lock);
    psi_list_move_all(&s->steps_spare, &s->steps_left);
    (void)pthread_mutex_unlock(&s->lock);
}

void psi_api_steps_free(ps_session *s)
{
    struct step *step = NULL;
    psi_api_steps_forget(s);
    while ((step = of(psi_list_pop_front(&s->steps_spare))) != NULL) {
        psi_free(step);
    }
}

/* *out_counted: the step is counted; false: it was skipped. */
static ps_status make_step(ps_session *s, bool *out_counted)
{
    struct psi_err err = {0};
    if (psi_monitor_step(s, &err) != PS_OK) {
        return psi_api_last_error_set(&err);
    }
    if (psi_api_step_skipped(s)) {
        return PS_OK;
    }
    if (psi_api_trains(s, &err) != PS_OK) {
        return psi_api_refused(s, &err, "ps_step_done");
    }
    const uint64_t begun_ns = psi_trace_now(s);
    (void)pthread_mutex_lock(&s->lock);
    while (s->pushes > 0 && psi_api_interrupted(s, NULL) == PS_OK) {
        psi_api_wait(s, &s->changed);
    }
    (void)pthread_mutex_unlock(&s->lock);
    psi_trace_span(s, "wait: pushes", begun_ns);
    ps_status st = psi_api_go_on(s);
    if (st != PS_OK) {
        return st;
    }
    int64_t value = 0;
    const bool rounds = psi_api_in_rounds(s); /* the round counts the step */
    st = psi_api_sync_step(s, &value, &err);
    /* the addition comes last: a step that is broken off before is not counted, and is made again */
    if (st == PS_OK && !rounds) {
        st = count_step(s, &value, &err);
        /* the gradients of the step are applied */
        err.applied = err.applied == PS_NOTHING_APPLIED ? PS_MAYBE_PARTLY_APPLIED : err.applied;
    }
    if (st != PS_OK) {
        return psi_api_refused(s, &err, "ps_step_done");
    }
    psi_api_sync_counted(s);
    psi_api_set_global_step(s, value);
    *out_counted = true;
    return PS_OK;
}

static ps_status step_done(ps_session *s, bool *out_counted)
{
    ps_status st = psi_api_enter(s, true);
    if (st != PS_OK) {
        return st;
    }
    struct psi_err err = {0};
    bool alone = false;
    if (psi_api_alone_begin(s, false, &alone, &err) != PS_OK) {
        return psi_api_last_error_set(&err);
    }
    st = make_step(s, out_counted);
    if (alone) {
        psi_api_alone_end(s);
    }
    return st;
}

ps_status ps_step_done(ps_session *s)
{
    bool counted = false;
    struct psi_api_visit visit;
    psi_api_begin(s, &visit);
    ps_status st = PS_OK;
    if (s != NULL && psi_api_here(s) && psi_api_hooks_step_left(s)) {
        counted = true;
    } else {
        st = step_done(s, &counted);
    }
    if (s != NULL && (counted || st != PS_CANCELLED)) { /* an interrupted step is continued by the next call */
        psi_monitor_step_over(s, counted);
    }
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
