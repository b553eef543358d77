/* SPDX-License-Identifier: Apache-2.0 */
/* The asynchronous requests of ps.h: ps_x_start() checks, hands the request to the loop thread and returns. Happy path: begin(),
 * on the loop thread, starts the request in the core; request_done() runs the caller's callback, which may start the ps_request
 * again. A ps_request contains the core's request, so nothing is allocated. Failure modes: errors that are found at once (size,
 * scale, session) are returned, and the callback never runs; the callback gets all other errors, refusals of the core
 * included. */
#include "lock.h"
#include "monitored.h"
#include "parts.h"
#include "queue.h"

#include "common/mem.h"

#include <stdio.h>
#include <string.h>

struct psi_api_request {
    struct psi_request core; /* must be first; core.ctx: the program's ctx */
    struct psi_io_work work;
    ps_variable *variable;
    ps_done_fn done;
    uint32_t busy; /* atomic: 1 from the start until the callback is called; otherwise 0 */
};
/* a ps_request has room for a psi_api_request, and for its growth */
_Static_assert(sizeof(struct psi_api_request) <= 392 && sizeof(ps_request) == 512, "392 of 512 bytes");
_Static_assert(_Alignof(struct psi_api_request) <= _Alignof(ps_request), "and is aligned for it");

static struct psi_api_request *api_of(ps_request *req)
{
    return (struct psi_api_request *)(void *)req;
}

static void end(struct psi_api_request *r, const struct psi_err *err)
{
    ps_variable *v = r->variable;
    ps_session *s = v->session;
    ps_done_fn done = r->done;
    void *ctx = r->core.ctx;
    ps_result result = {.struct_bytes = sizeof(result),
                        .status = err->code,
                        .applied = err->applied,
                        .reason = psi_reason(err->reason, err->code),
                        .text = err->text};
    if (err->code == PS_OK) {
        result.applied = PS_NOTHING_APPLIED;
        result.version = r->core.version;
        result.exact = r->core.exact;
        result.result_bytes = r->core.result_bytes;
        memcpy(result.result, r->core.result, sizeof(result.result));
        psi_api_note_version(v, &r->core);
    }
    psi_api_rows_end(&r->core, err->code == PS_OK);
    __atomic_store_n(&r->busy, 0, __ATOMIC_RELEASE);
    done(ctx, (ps_request *)(void *)r, &result); /* done() may start r again or free it: r is not used below */
    s->landed++;
}

void psi_api_drained(void *session)
{
    ps_session *s = session;
    if (s->landed > 0) {
        (void)pthread_mutex_lock(&s->lock);
        s->in_flight -= s->landed;
        s->landed = 0;
        /* do not wake a single waiting thread that still needs answers to its step's pushes */
        if (s->sleepers > 1 || !psi_training_ending_waits(&s->train)) {
            psi_api_wake(s);
        }
        (void)pthread_mutex_unlock(&s->lock);
    }
}

static void request_done(struct psi_request *req)
{
    struct psi_api_request *r = PSI_CONTAINER_OF(req, struct psi_api_request, core);
    struct psi_err err;
    psi_err_none(&err);
    if (req->status != PS_OK && req->err != NULL) {
        err = *req->err;
    }
    err.code = req->status;
    err.applied = req->applied;
    ps_session *s = r->variable->session;
    if (err.code != PS_OK) {
        psi_api_cut(s, &err);
    }
    if (req->kind == PSI_REQ_ENQUEUE || req->kind == PSI_REQ_DEQUEUE) {
        PSI_IGNORE(psi_api_queue_ended(r->variable, psi_monitor_life(s), err.code, &err)); /* the status is in err */
    }
    end(r, &err);
}

static void begin(struct psi_io_work *work, struct psi_client *c)
{
    struct psi_api_request *r = PSI_CONTAINER_OF(work, struct psi_api_request, work);
    struct psi_err err;
    psi_err_none(&err);
    const ps_variable *v = r->variable;
    r->core.var = v->var;
    ps_status st = r->core.waited ? psi_api_interrupted_since(v->session, r->core.interrupts, &err) : PS_OK;
    st = st == PS_OK ? psi_api_has_var(v, &err) : st;
    st = st == PS_OK ? psi_client_start(c, &r->core, &err) : st;
    if (st != PS_OK) {
        err.code = st;
        end(r, &err);
    }
}

static ps_status start(ps_variable *v, const struct psi_request *what, int64_t timeout_ms, ps_request *req, ps_done_fn done,
                       void *ctx)
{
    struct psi_err err;
    psi_err_none(&err);
    ps_status st = v != NULL ? psi_api_values_check(v, what, &err) : psi_fail(&err, PS_INVALID_ARGUMENT, "the variable is NULL");
    return st == PS_OK ? psi_api_start(v, what, timeout_ms, req, done, ctx) : psi_api_last_error_set(&err);
}

/* Fill r for the loop thread; enter() sets the fields that need the session's lock. */
static void fill(struct psi_api_request *r, ps_variable *v, const struct psi_request *what, uint64_t deadline_ms, ps_done_fn done,
                 void *ctx)
{
    r->done = done;
    r->core.done = request_done;
    r->core.ctx = ctx;
    r->variable = v;
    r->core.kind = what->kind;
    r->core.src = what->src;
    r->core.dst = what->dst;
    r->core.bytes = what->bytes;
    r->core.scale = what->scale;
    r->core.waited = what->waited;
    r->core.interrupts = what->interrupts;
    r->core.deadline_ms = deadline_ms;
    r->work.run = begin;
    psi_list_init(&r->work.link);
}

/* Count the requests of the list as in flight, if the session accepts requests. locked: the caller holds the lock. */
static ps_status enter(ps_session *s, const struct psi_list *requests, bool locked, struct psi_err *err)
{
    struct psi_list *it = NULL;
    if (!locked) {
        (void)pthread_mutex_lock(&s->lock);
    }
    const ps_status st = psi_api_may_start(s, err);
    if (st == PS_OK) {
        PSI_LIST_FOREACH(it, requests) {
            struct psi_api_request *r = PSI_CONTAINER_OF(it, struct psi_api_request, work.link);
            r->core.from = r->variable->from;
            r->core.chief_number = r->core.kind == PSI_REQ_ASSIGN ? psi_api_chief_number(s) : 0;
            s->in_flight++;
        }
    }
    if (!locked) {
        (void)pthread_mutex_unlock(&s->lock);
    }
    return st;
}

/* Mark req as busy with a request for v. Fails if req is in flight already, or v's session accepts no such request. */
static ps_status claim(ps_variable *v, enum psi_request_kind kind, ps_request *req, ps_done_fn done, struct psi_err *err)
{
    ps_status st = req == NULL || done == NULL
                       ? psi_fail(err, PS_INVALID_ARGUMENT, "%s is NULL", req == NULL ? "the request" : "done")
                       : psi_api_check(v->session, false, err);
    st = st == PS_OK ? psi_api_may_change(v->session, kind, err) : st;
    return st != PS_OK || __atomic_exchange_n(&api_of(req)->busy, 1, __ATOMIC_ACQUIRE) == 0
               ? st
               : psi_fail(err, PS_FAILED_PRECONDITION, "variable '%s': the request is in flight", v->name);
}

/* A request for a variable in parts: each part that is asked has a request of its own. */
struct composite {
    struct psi_parts_op *op;
    struct psi_api_request *whole; /* the caller's request: marked as busy, but not given to the loop itself */
    uint32_t open_parts;           /* used on the loop thread: number of requests in `parts` that have not ended */
    struct psi_api_request parts[];
};

static void composite_end(struct composite *c)
{
    struct psi_err err;
    psi_err_none(&err);
    struct psi_api_request *r = c->whole;
    ps_result result = {.struct_bytes = sizeof(result), .applied = PS_NOTHING_APPLIED, .text = err.text};
    result.status = psi_parts_op_end(c->op, &result.version, &err);
    if (result.status != PS_OK) {
        result.applied = err.applied;
    }
    result.reason = psi_reason(err.reason, result.status);
    psi_parts_op_free(c->op);
    psi_free(c);
    const ps_done_fn done = r->done;
    void *ctx = r->core.ctx;
    __atomic_store_n(&r->busy, 0, __ATOMIC_RELEASE);
    done(ctx, (ps_request *)(void *)r, &result);
}

static void part_ended(void *ctx, ps_request *req, const ps_result *result)
{
    struct composite *c = ctx;
    struct psi_err err = {.code = result->status, .applied = result->applied, .reason = result->reason};
    (void)snprintf(err.text, sizeof(err.text), "%s", result->text);
    psi_parts_op_ended(c->op, (uint32_t)(api_of(req) - c->parts), &err, result->version);
    if (--c->open_parts == 0) {
        composite_end(c);
    }
}

/* Make the requests of op's parts for the claimed request r, count them as in flight, and append their works to `works`. */
static ps_status composite_start(struct psi_parts_op *op, const struct psi_request *what, int64_t timeout_ms,
                                 struct psi_api_request *r, struct psi_list *works, struct psi_err *err)
{
    ps_session *s = op->v->session;
    const uint64_t deadline_ms = psi_api_deadline_ms(s, timeout_ms);
    struct composite *c = psi_calloc(1, sizeof(*c) + op->cut.count * sizeof(c->parts[0]));
    if (c == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "'%s': no memory for the requests of its parts", op->v->name);
    }
    struct psi_list requests;
    psi_list_init(&requests);
    c->op = op;
    c->whole = r;
    for (uint32_t i = 0; i < op->cut.count; i++) {
        op->parts[i].req.waited = what->waited;
        op->parts[i].req.interrupts = what->interrupts;
        c->parts[i].busy = 1;
        fill(&c->parts[i], op->v->parts[i], &op->parts[i].req, deadline_ms, part_ended, c);
        if (op->parts[i].asked) {
            psi_list_push_back(&requests, &c->parts[i].work.link);
            c->open_parts++;
        }
    }
    const ps_status st = enter(s, &requests, false, err);
    if (st != PS_OK) {
        psi_free(c);
        return st;
    }
    for (uint32_t i = 0; i < op->cut.count; i++) {
        op->parts[i].req.src = op->parts[i].asked ? NULL : op->parts[i].req.src; /* c->parts[i] frees the rows at src, not op */
    }
    psi_list_move_all(works, &requests);
    return PS_OK;
}

/* Claim req, and append the works of the requests of op's parts to `works`. Owns op, also on failure. Sets the last error. */
static ps_status parts_start(struct psi_parts_op *op, const struct psi_request *what, int64_t timeout_ms, ps_request *req,
                             ps_done_fn done, void *ctx, struct psi_list *works)
{
    struct psi_err err;
    psi_err_none(&err);
    ps_status st = claim(op->v, what->kind, req, done, &err);
    if (st == PS_OK) {
        struct psi_api_request *r = api_of(req);
        r->done = done;
        r->core.ctx = ctx;
        st = composite_start(op, what, timeout_ms, r, works, &err);
        if (st != PS_OK) {
            __atomic_store_n(&r->busy, 0, __ATOMIC_RELEASE);
        }
    }
    if (st != PS_OK) {
        psi_parts_op_free(op);
        return psi_api_last_error_set(&err);
    }
    return PS_OK;
}

ps_status psi_parts_op_start(struct psi_parts_op *op, const struct psi_request *what, int64_t timeout_ms, ps_request *req,
                             ps_done_fn done, void *ctx)
{
    struct psi_list works;
    psi_list_init(&works);
    ps_session *s = op->v->session;
    const ps_status st = parts_start(op, what, timeout_ms, req, done, ctx, &works);
    if (st == PS_OK) {
        psi_io_submit_all(s->io, &works, false);
    }
    return st;
}

static ps_status values_start(ps_variable *v, const struct psi_request *what, int64_t timeout_ms, ps_request *req,
                              ps_done_fn done, void *ctx, struct psi_list *works)
{
    struct psi_err err = {0};
    struct psi_parts_op *op = NULL;
    ps_status st = psi_parts_op_new(v, what->kind, &op, &err);
    st = st == PS_OK ? psi_parts_op_values(op, what, &err) : st;
    if (st != PS_OK) {
        psi_parts_op_free(op);
        return psi_api_last_error_set(&err);
    }
    return parts_start(op, what, timeout_ms, req, done, ctx, works);
}

ps_status psi_api_start(ps_variable *v, const struct psi_request *what, int64_t timeout_ms, ps_request *req, ps_done_fn done,
                        void *ctx)
{
    struct psi_list works;
    psi_list_init(&works);
    const ps_status st = psi_api_start_in(v, what, timeout_ms, req, done, ctx, &works, false);
    if (st == PS_OK) {
        psi_io_submit_all(v->session->io, &works, false);
    }
    return st;
}

ps_status psi_api_start_in(ps_variable *v, const struct psi_request *what, int64_t timeout_ms, ps_request *req, ps_done_fn done,
                           void *ctx, struct psi_list *works, bool locked)
{
    if (v->parts != NULL) {
        PSI_ASSERT(!locked);
        return values_start(v, what, timeout_ms, req, done, ctx, works);
    }
    struct psi_err err;
    psi_err_none(&err);
    ps_status st = claim(v, what->kind, req, done, &err);
    if (st != PS_OK) {
        return locked ? st : psi_api_last_error_set(&err);
    }
    struct psi_api_request *r = api_of(req);
    ps_session *s = v->session;
    struct psi_list request;
    psi_list_init(&request);
    fill(r, v, what, psi_api_deadline_ms(s, timeout_ms), done, ctx);
    psi_list_push_back(&request, &r->work.link);
    st = enter(s, &request, locked, &err);
    if (st != PS_OK) {
        __atomic_store_n(&r->busy, 0, __ATOMIC_RELEASE);
        return locked ? st : psi_api_last_error_set(&err);
    }
    psi_list_move_all(works, &request);
    return PS_OK;
}

void psi_api_cancel(struct psi_client *c, ps_request *req, const char *why)
{
    psi_client_cancel(c, &api_of(req)->core, why);
}

ps_status ps_push_start(ps_variable *v, const void *grad, size_t grad_bytes, float scale, int64_t timeout_ms, ps_request *req,
                        ps_done_fn done, void *ctx)
{
    const struct psi_request what = {.kind = PSI_REQ_PUSH, .src = grad, .bytes = grad_bytes, .scale = scale};
    return start(v, &what, timeout_ms, req, done, ctx);
}

ps_status ps_pull_start(ps_variable *v, void *dst, size_t dst_bytes, int64_t timeout_ms, ps_request *req, ps_done_fn done,
                        void *ctx)
{
    const struct psi_request what = {.kind = PSI_REQ_PULL, .dst = dst, .bytes = dst_bytes, .scale = 1};
    return start(v, &what, timeout_ms, req, done, ctx);
}

ps_status ps_push_pull_start(ps_variable *v, const void *grad, size_t grad_bytes, void *dst, size_t dst_bytes, float scale,
                             int64_t timeout_ms, ps_request *req, ps_done_fn done, void *ctx)
{
    struct psi_err err = {0};
    const struct psi_request what = {.kind = PSI_REQ_PUSH_PULL, .src = grad, .dst = dst, .bytes = grad_bytes, .scale = scale};
    return psi_api_room_check(v, "push_pull", dst_bytes, &err) == PS_OK ? start(v, &what, timeout_ms, req, done, ctx)
                                                                        : psi_api_last_error_set(&err);
}

ps_status ps_assign_start(ps_variable *v, const void *src, size_t src_bytes, int64_t timeout_ms, ps_request *req, ps_done_fn done,
                          void *ctx)
{
    const struct psi_request what = {.kind = PSI_REQ_ASSIGN, .src = src, .bytes = src_bytes, .scale = 1};
    return start(v, &what, timeout_ms, req, done, ctx);
}

ps_status ps_assign_add_start(ps_variable *v, const void *delta, size_t delta_bytes, int64_t timeout_ms, ps_request *req,
                              ps_done_fn done, void *ctx)
{
    const struct psi_request what = {.kind = PSI_REQ_ADD, .src = delta, .bytes = delta_bytes, .scale = 1};
    return start(v, &what, timeout_ms, req, done, ctx);
}
