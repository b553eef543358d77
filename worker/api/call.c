/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocking calls: one work on the loop thread, at most one request of the core, and a wait on the caller's thread.
 *
 * Happy path: psi_api_call_start() submits -> begin() on the loop: prepare(), psi_client_start() -> request_done(): finish() ->
 * the caller wakes up in psi_api_call_wait(). Everything is on the caller's stack; nothing is allocated. Failure modes: prepare()
 * or the core refuses, or the request fails: psi_api_call_wait() returns that error. The wait always ends, because the core's
 * deadlines end every request, and so does an interrupt (interrupt.c). The core logs requests that take longer than 5 s.
 */
#include "lock.h"
#include "monitored.h"

#include <stdio.h>
#include <string.h>

enum { LEFT_MS_MIN = 50 }; /* shortest time that ps_session_set_deadline() leaves */

void ps_session_set_deadline(ps_session *s, int64_t ms)
{
    if (s != NULL) {
        s->deadline_ms = ms > 0 ? psi_api_deadline_ms(s, ms) : 0;
    }
}

uint64_t psi_api_deadline_ms(const ps_session *s, int64_t timeout_ms)
{
    int64_t timeout = timeout_ms > 0 ? timeout_ms : s->operation_timeout_ms;
    uint64_t now = psi_io_now_ms();
    if (timeout_ms <= 0 && s->deadline_ms > 0) {
        return s->deadline_ms > now + LEFT_MS_MIN ? s->deadline_ms : now + LEFT_MS_MIN;
    }
    return (uint64_t)timeout > UINT64_MAX / 2 - now ? UINT64_MAX / 2 : now + (uint64_t)timeout;
}

int64_t psi_api_left_ms(const ps_session *s, int64_t timeout_ms)
{
    uint64_t deadline_ms = psi_api_deadline_ms(s, timeout_ms), now = psi_io_now_ms();
    return deadline_ms > now ? (int64_t)(deadline_ms - now) : 1;
}

int64_t psi_api_ready_timeout_ms(const ps_session *s)
{
    return s->deadline_ms > 0 ? 0 : s->ready_timeout_ms;
}

/* End the call. The caller's frame may be gone as soon as the lock is released. */
static void call_end(struct psi_api_call *call, const struct psi_err *err)
{
    ps_session *s = call->session;
    (void)pthread_mutex_lock(&s->lock);
    if (err != NULL) {
        call->err = *err;
        psi_session_cuts(&s->machine, &call->err);
    }
    call->ended = true;
    s->in_flight--;
    (void)pthread_cond_signal(&call->ended_cond);
    psi_api_wake(s);
    (void)pthread_mutex_unlock(&s->lock);
}

static void request_done(struct psi_request *req)
{
    struct psi_api_call *call = req->ctx;
    if (req->status == PS_OK) {
        if (call->finish != NULL) {
            call->finish(call);
        }
        call_end(call, NULL);
        return;
    }
    struct psi_err err;
    psi_err_none(&err);
    if (req->err != NULL) {
        err = *req->err;
    }
    err.code = req->status;
    err.applied = req->applied;
    call_end(call, &err);
}

static void begin(struct psi_io_work *work, struct psi_client *c)
{
    struct psi_api_call *call = PSI_CONTAINER_OF(work, struct psi_api_call, work);
    struct psi_err err;
    psi_err_none(&err);
    call->client = c;
    ps_status st = psi_api_interrupted_since(call->session, call->req.interrupts, &err);
    if (st == PS_OK && call->on != NULL) {
        call->req.var = call->on->var;
        st = psi_api_has_var(call->on, &err);
    }
    st = st == PS_OK && call->prepare != NULL ? call->prepare(call, &err) : st;
    if (st == PS_OK && call->req.kind != PSI_REQ_NONE) {
        call->req.done = request_done;
        call->req.ctx = call;
        call->req.deadline_ms = psi_api_deadline_ms(call->session, call->timeout_ms);
        st = psi_client_start(c, &call->req, &err);
        if (st == PS_OK) {
            return;
        }
    } else if (st == PS_OK && call->finish != NULL) {
        call->finish(call);
    }
    err.code = st;
    call_end(call, st == PS_OK ? NULL : &err);
}

ps_status psi_api_calls_start(ps_session *s, struct psi_list *works, struct psi_err *err)
{
    struct psi_list *it = NULL;
    uint32_t count = 0;
    bool when_closing = false;
    ps_status st = psi_api_check(s, true, err);
    if (st != PS_OK) {
        return st;
    }
    PSI_LIST_FOREACH(it, works) {
        const struct psi_api_call *call = PSI_CONTAINER_OF(it, struct psi_api_call, work.link);
        when_closing = call->when_closing;
        count++;
        st = st == PS_OK ? psi_api_may_change(s, call->req.kind, err) : st;
    }
    if (st != PS_OK) {
        return st;
    }
    const struct psi_who who = psi_api_who(s);
    (void)pthread_mutex_lock(&s->lock);
    st = psi_api_may_start(s, err);
    if (when_closing && st != PS_OK && psi_api_closes(s) && s->io != NULL && !psi_session_bars(&s->machine, &who, NULL)) {
        st = PS_OK;
    }
    const uint64_t chief_number = psi_api_chief_number(s);
    const unsigned interrupts = when_closing ? atomic_load(&s->interrupts) : psi_api_interrupts(s);
    s->in_flight += st == PS_OK ? count : 0;
    s->inside += st == PS_OK ? count : 0;
    (void)pthread_mutex_unlock(&s->lock);
    if (st != PS_OK) {
        return st;
    }
    PSI_LIST_FOREACH(it, works) {
        struct psi_api_call *call = PSI_CONTAINER_OF(it, struct psi_api_call, work.link);
        (void)pthread_cond_init(&call->ended_cond, NULL); /* cannot fail with default attributes */
        psi_err_none(&call->err);
        call->ended = false;
        call->work.run = begin;
        call->req.waited = true;
        call->req.interrupts = interrupts;
        if (call->req.kind == PSI_REQ_ASSIGN || call->req.kind == PSI_REQ_INIT_FROM) {
            call->req.chief_number = chief_number;
        }
    }
    psi_io_submit_all(s->io, works, true);
    return PS_OK;
}

ps_status psi_api_call_start(struct psi_api_call *call, struct psi_err *err)
{
    struct psi_list works;
    psi_list_init(&works);
    psi_list_push_back(&works, &call->work.link);
    return psi_api_calls_start(call->session, &works, err);
}

/* Add the thread's wait to a trace. */
static void trace_wait(const struct psi_api_call *call, uint64_t begun_ns)
{
    char name[PSI_SPAN_NAME_BYTES];
    if (begun_ns != 0 && call->req.kind != PSI_REQ_NONE) {
        (void)snprintf(name, sizeof(name), "wait: %s", psi_request_kind_name(call->req.kind));
        psi_trace_span(call->session, name, begun_ns);
    }
}

ps_status psi_api_call_wait(struct psi_api_call *call, struct psi_err *err)
{
    ps_session *s = call->session;
    const uint64_t begun_ns = psi_trace_now(s);
    (void)pthread_mutex_lock(&s->lock);
    while (!call->ended) {
        psi_api_wait(s, &call->ended_cond, true);
    }
    (void)pthread_mutex_unlock(&s->lock);
    trace_wait(call, begun_ns);
    psi_api_go_outside(s);
    (void)pthread_cond_destroy(&call->ended_cond);
    if (call->err.code != PS_OK && err != NULL) {
        *err = call->err;
    }
    return call->err.code;
}

ps_status psi_api_call_run(struct psi_api_call *call, struct psi_err *err)
{
    ps_status st = psi_api_call_start(call, err);
    return st == PS_OK ? psi_api_call_wait(call, err) : st;
}
