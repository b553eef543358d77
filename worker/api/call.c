/* SPDX-License-Identifier: Apache-2.0 */
/* Blocking calls: the loop thread starts a request of the core, or several one after the other, and the caller's thread waits.
 * Happy path: psi_api_call_start() makes the loop thread run begin(), which calls prepare() and starts the request.
 * request_done() calls finish() and wakes up the thread in psi_api_call_wait(). The call is in the caller's memory; nothing is
 * allocated. No thread waits for a call with over(), which runs at its end. Failure modes: prepare() or the core refuses, or the
 * request fails: psi_api_call_wait() returns that error. The wait always ends, because deadlines of the core and interrupts
 * (interrupt.c) end every request. */
#include "lock.h"
#include "monitored.h"

#include <stdio.h>
#include <string.h>

enum { LEFT_MS_MIN = 50 }; /* least ms that a call still gets at or after the deadline of ps_session_set_deadline() */

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

/* End the call with *err, or NULL for success: run over(), or wake up the call's thread. The call must not be used afterwards: it
 * is in the memory of that thread, which may return as soon as the lock is released. */
static void call_end(struct psi_api_call *call, const struct psi_err *err)
{
    ps_session *s = call->session;
    if (err != NULL) {
        call->err = *err;
        psi_api_cut(s, &call->err);
    }
    if (call->over != NULL) {
        call->over(call);
        psi_api_landed(s, NULL, NULL);
    } else {
        psi_api_landed(s, &call->ended, &call->ended_cond);
    }
}

/* Call after success of the request (or of prepare(), if it made none): runs finish(), and begin() if finish() sets `again`. */
static void call_finish(struct psi_api_call *call)
{
    call->again = false;
    if (call->finish != NULL) {
        call->finish(call);
    }
    if (call->again) {
        psi_io_submit(call->session->io, &call->work);
    } else {
        call_end(call, NULL);
    }
}

static void request_done(struct psi_request *req)
{
    struct psi_api_call *call = req->ctx;
    if (req->status == PS_OK) {
        call_finish(call);
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

/* Loop thread: check that the call may send its next request: the session may have begun to close or to recover meanwhile. */
static ps_status may_go_on(const struct psi_api_call *call, struct psi_err *err)
{
    ps_session *s = call->session;
    const ps_status st = call->over == NULL ? psi_api_interrupted_since(s, call->req.interrupts, err) : PS_OK;
    return st == PS_OK && call->again ? psi_api_admit(s, &(struct psi_api_admission){0}, err) : st;
}

static void begin(struct psi_io_work *work, struct psi_client *c)
{
    struct psi_api_call *call = PSI_CONTAINER_OF(work, struct psi_api_call, work);
    struct psi_err err;
    psi_err_none(&err);
    call->client = c;
    ps_status st = may_go_on(call, &err);
    if (st == PS_OK && call->on != NULL) {
        call->req.var = call->on->var;
        st = psi_api_has_var(call->on, &err);
    }
    st = st == PS_OK && call->prepare != NULL ? call->prepare(call, &err) : st;
    if (st == PS_OK && call->req.kind != PSI_REQ_NONE) {
        call->req.done = request_done;
        call->req.ctx = call;
        st = psi_client_start(c, &call->req, &err);
        if (st == PS_OK) {
            return;
        }
    }
    if (st == PS_OK) {
        call_finish(call);
    } else {
        err.code = st;
        call_end(call, &err);
    }
}

ps_status psi_api_calls_start(ps_session *s, struct psi_list *works, struct psi_err *err)
{
    struct psi_list *it = NULL;
    struct psi_api_admission a = {0};
    PSI_LIST_FOREACH(it, works) {
        const struct psi_api_call *call = PSI_CONTAINER_OF(it, struct psi_api_call, work.link);
        a.when_closing = call->when_closing;
        a.requests++;
        a.threads += call->over == NULL ? 1 : 0;
    }
    ps_status st = psi_api_check(s, a.threads > 0, err);
    PSI_LIST_FOREACH(it, works) {
        const struct psi_api_call *call = PSI_CONTAINER_OF(it, struct psi_api_call, work.link);
        st = st == PS_OK ? psi_api_may_change(s, call->req.kind, err) : st;
    }
    st = st == PS_OK ? psi_api_admit(s, &a, err) : st;
    if (st != PS_OK) {
        return st;
    }
    PSI_LIST_FOREACH(it, works) {
        struct psi_api_call *call = PSI_CONTAINER_OF(it, struct psi_api_call, work.link);
        (void)pthread_cond_init(&call->ended_cond, NULL); /* cannot fail with default attributes */
        psi_err_none(&call->err);
        call->ended = false;
        call->again = false;
        call->work.run = begin;
        call->req.waited = call->over == NULL;
        call->req.interrupts = a.interrupts;
        call->req.deadline_ms = psi_api_deadline_ms(s, call->timeout_ms);
        if (call->req.kind == PSI_REQ_ASSIGN || call->req.kind == PSI_REQ_INIT_FROM) {
            call->req.chief_number = a.chief_number;
        }
    }
    psi_io_submit_all(s->io, works, a.threads > 0);
    return PS_OK;
}

ps_status psi_api_call_start(struct psi_api_call *call, struct psi_err *err)
{
    struct psi_list works;
    psi_list_init(&works);
    psi_list_push_back(&works, &call->work.link);
    return psi_api_calls_start(call->session, &works, err);
}

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
    psi_api_await_over(s, &call->ended, &call->ended_cond);
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
