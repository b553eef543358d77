/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a request outside the wire: checks at its start, the dispatch by kind, being put off, its end. What ends it from
 * outside, a deadline or a task that cannot be reached, is in deadline.c.
 *
 * Every request ends exactly once, through psi_request_ended(), and is then the caller's again. What a failed one says it did to
 * the task is decided where that is known: here only for requests that never had a number (nothing applied).
 */
#include "client.h"

#include "common/blob.h"
#include "common/mem.h"
#include "common/rng.h"
#include "common/shape.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DELAY_FIRST_MS 20u
#define DELAY_MAX_MS 1000u

const char *psi_request_kind_name(enum psi_request_kind kind)
{
    static const char *const NAMES[PSI_REQ_KINDS] = {
        [PSI_REQ_NONE] = "none",
        [PSI_REQ_PUSH] = "push",
        [PSI_REQ_PUSH_PULL] = "push_pull",
        [PSI_REQ_ASSIGN] = "assign",
        [PSI_REQ_INIT_FROM] = "init_from",
        [PSI_REQ_ADD] = "assign_add",
        [PSI_REQ_INIT] = "init",
        [PSI_REQ_PULL] = "pull",
        [PSI_REQ_GET] = "get",
        [PSI_REQ_LOOKUP] = "find",
        [PSI_REQ_STATUS] = "status",
        [PSI_REQ_READY] = "ready",
        [PSI_REQ_WAIT_READY] = "wait_ready",
        [PSI_REQ_RESET] = "reset",
        [PSI_REQ_DELETE] = "delete",
        [PSI_REQ_WAIT_CLUSTER] = "wait_cluster",
        [PSI_REQ_CLUSTER] = "cluster",
        [PSI_REQ_LOOK] = "cluster",
        [PSI_REQ_GOODBYE] = "goodbye",
        [PSI_REQ_INFO] = "info",
        [PSI_REQ_VARS] = "vars",
        [PSI_REQ_CONFIG] = "config",
        [PSI_REQ_SHUTDOWN] = "shutdown",
        [PSI_REQ_PING] = "ping",
        [PSI_REQ_CONTAINERS] = "containers",
        [PSI_REQ_CALL] = "call",
        [PSI_REQ_TASKS] = "tasks",
        [PSI_REQ_SESSIONS] = "sessions",
        [PSI_REQ_WAITS] = "waits",
        [PSI_REQ_STOP] = "stop",
        [PSI_REQ_STOP_AT] = "stop",
        [PSI_REQ_CONFIG_SET] = "config_set",
    };
    return (size_t)kind < PSI_REQ_KINDS && NAMES[kind] != NULL ? NAMES[kind] : "request";
}

bool psi_request_is_data(const struct psi_request *req)
{
    return req->kind >= PSI_REQ_PUSH && req->kind <= PSI_REQ_PULL;
}

static ps_status check_strings(const struct psi_request *req, struct psi_err *err)
{
    const char *kind = psi_request_kind_name(req->kind);
    const struct psi_var *var = req->var;
    bool assigns = req->kind == PSI_REQ_ASSIGN || req->kind == PSI_REQ_INIT_FROM;
    if (!assigns && req->kind != PSI_REQ_PULL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s of '%s': it holds strings; they are assigned and read whole", kind,
                        var->name);
    }
    if ((assigns ? req->src : req->dst) == NULL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s of '%s': no memory is given", kind, var->name);
    }
    if (req->part_elements != 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s of '%s': a part of it; strings are read whole", kind, var->name);
    }
    if (req->kind == PSI_REQ_PULL && req->bytes < psi_blob_bytes_max(var->elements)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s of '%s': %llu bytes are given, its strings may need %llu", kind, var->name,
                        (unsigned long long)req->bytes, (unsigned long long)psi_blob_bytes_max(var->elements));
    }
    ps_status st = assigns ? psi_blob_check(req->src, req->bytes, var->elements, err) : PS_OK;
    if (st != PS_OK) {
        psi_err_prefix(err, "%s of '%s'", kind, var->name);
    }
    return st;
}

static ps_status check_data(const struct psi_request *req, struct psi_err *err)
{
    const char *kind = psi_request_kind_name(req->kind);
    const struct psi_var *var = req->var;
    if (var == NULL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s: no variable is given", kind);
    }
    if (var->owner == UINT32_MAX) {
        return psi_fail(err, PS_FAILED_PRECONDITION, "%s of '%s': get or create the variable first", kind, var->name);
    }
    if (req->kind == PSI_REQ_INIT) {
        return PS_OK;
    }
    if (var->dtype == PS_STRING) {
        return check_strings(req, err);
    }
    uint64_t bytes = 0;
    if (req->part_elements != 0 &&
        (req->kind != PSI_REQ_PULL || req->part_first >= var->elements || req->part_elements > var->elements - req->part_first)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s of '%s': elements %llu to %llu of %llu", kind, var->name,
                        (unsigned long long)req->part_first, (unsigned long long)(req->part_first + req->part_elements - 1),
                        (unsigned long long)var->elements);
    }
    uint64_t elements = req->part_elements != 0 ? req->part_elements : var->elements;
    if (!psi_mul_bytes(elements, ps_dtype_bytes(var->dtype), &bytes) || req->bytes != bytes) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s of '%s': %llu bytes are given, the variable has %llu", kind, var->name,
                        (unsigned long long)req->bytes, (unsigned long long)bytes);
    }
    bool reads = req->kind == PSI_REQ_PULL || req->kind == PSI_REQ_PUSH_PULL;
    if ((req->kind != PSI_REQ_PULL && req->src == NULL) || (reads && req->dst == NULL)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s of '%s': no memory is given", kind, var->name);
    }
    if (req->kind == PSI_REQ_ADD) {
        if (bytes > PS_RESULT_BYTES_MAX) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "%s of '%s': %llu bytes, at most %d: push it, then pull", kind, var->name,
                            (unsigned long long)bytes, PS_RESULT_BYTES_MAX);
        }
        if (req->scale != 1.0f && req->scale != -1.0f) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "%s of '%s': the sign is %g, it must be 1 or -1", kind, var->name,
                            (double)req->scale);
        }
    }
    bool pushes = req->kind == PSI_REQ_PUSH || req->kind == PSI_REQ_PUSH_PULL;
    if (pushes && (!isfinite(req->scale) || req->scale <= 0.0f)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s of '%s': the scale is %g, it must be finite and above 0", kind, var->name,
                        (double)req->scale);
    }
    return PS_OK;
}

ps_status psi_request_check(struct psi_client *c, const struct psi_request *req, struct psi_err *err)
{
    if (req->done == NULL || req->deadline_ms == 0 || req->kind <= PSI_REQ_NONE || req->kind >= PSI_REQ_KINDS) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "a request without kind, deadline or callback");
    }
    if (psi_request_is_data(req)) {
        return check_data(req, err);
    }
    if ((req->kind == PSI_REQ_GET || req->kind == PSI_REQ_LOOKUP) &&
        (req->var == NULL || req->var->must_exist != (req->kind == PSI_REQ_LOOKUP))) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s: no variable is given", psi_request_kind_name(req->kind));
    }
    return psi_control_check(c, req, err);
}

void psi_request_prepare(struct psi_client *c, struct psi_request *req)
{
    req->owner = c;
    req->stage = PSI_STAGE_NONE;
    req->flags = 0;
    req->started_ms = c->now_ms;
    req->status = PS_OK;
    req->applied = PS_NOTHING_APPLIED;
    req->version = 0;
    req->exact = false;
    req->result_bytes = 0;
    req->err = NULL;
    req->number = 0;
    req->offset = 0;
    req->offset2 = 0;
    req->counter = 0;
    req->counter2 = 0;
    req->extra = NULL;
    req->again_ms = 0;
    req->flying = 0;
    req->tries = 0;
    req->why_status = PS_OK;
    req->why[0] = '\0';
    psi_list_init(&req->link);
    psi_list_push_back(&c->all, &req->all);
    c->pending++;
    uint64_t due = c->now_ms + PSI_SLOW_MS < req->deadline_ms ? c->now_ms + PSI_SLOW_MS : req->deadline_ms;
    c->scan_ms = due < c->scan_ms ? due : c->scan_ms;
}

void psi_request_go(struct psi_request *req)
{
    struct psi_client *c = req->owner;
    if (psi_request_is_data(req)) {
        psi_var_queue(req);
        return;
    }
    switch (req->kind) {
    case PSI_REQ_GET:
    case PSI_REQ_LOOKUP:
        if (req->var->open) {
            psi_request_end(req, PS_OK, PS_NOTHING_APPLIED, NULL);
            return;
        }
        if (req->var->lost) {
            psi_request_end(req, PS_ABORTED, PS_NOTHING_APPLIED, "variable '%s' is gone: it was reset or deleted, or its task %s",
                            req->var->name, "restarted without it");
            return;
        }
        req->stage = PSI_STAGE_VAR;
        if (!psi_list_empty(&req->var->getters)) { /* what the others have been told holds for this one too */
            const struct psi_request *first = PSI_CONTAINER_OF(psi_list_first(&req->var->getters), struct psi_request, link);
            req->why_status = first->why_status;
            memcpy(req->why, first->why, sizeof(req->why));
        }
        psi_list_push_back(&req->var->getters, &req->link);
        psi_var_want(c, req->var);
        return;
    case PSI_REQ_READY:
    case PSI_REQ_WAIT_READY:
    case PSI_REQ_STATUS:
        psi_ready_go(req);
        return;
    default:
        psi_control_go(req);
        return;
    }
}

/* Whom whoever needs the variable waits for. */
static struct psi_peer *var_session(struct psi_client *c, const struct psi_var *var)
{
    struct psi_peer *directory = psi_client_directory(c);
    bool known = var->owner < c->peer_count;
    if (known && (var->open || var->lost || var->step == PSI_VAR_OPEN || var->step == PSI_VAR_OPENING)) {
        return c->peers[var->owner];
    }
    return directory->state == PSI_PEER_UP && var->held_by < c->peer_count ? c->peers[var->held_by] : directory;
}

struct psi_peer *psi_request_peer(const struct psi_request *req)
{
    struct psi_client *c = req->owner;
    if (!c->known) {
        return c->peers[0];
    }
    if (req->stage == PSI_STAGE_WINDOW) {
        return ((const struct psi_entry *)req->extra)->peer;
    }
    if (psi_request_is_data(req)) {
        return var_session(c, req->var);
    }
    switch (req->kind) {
    case PSI_REQ_GET:
    case PSI_REQ_LOOKUP:
        return var_session(c, req->var);
    case PSI_REQ_RESET:
    case PSI_REQ_DELETE:
    case PSI_REQ_WAIT_CLUSTER:
    case PSI_REQ_TASKS:
    case PSI_REQ_STOP:
        return psi_client_directory(c);
    case PSI_REQ_INFO:
    case PSI_REQ_VARS:
    case PSI_REQ_CONFIG:
    case PSI_REQ_SHUTDOWN:
    case PSI_REQ_PING:
    case PSI_REQ_CONTAINERS:
    case PSI_REQ_SESSIONS:
    case PSI_REQ_WAITS:
    case PSI_REQ_CALL:
    case PSI_REQ_CONFIG_SET:
    case PSI_REQ_STOP_AT:
        return c->peers[req->task];
    default:
        return NULL;
    }
}

bool psi_reply_repeatable(const struct psi_reply *r)
{
    return (r->status == PS_RESOURCE_EXHAUSTED || r->status == PS_UNAVAILABLE) && r->applied == PS_NOTHING_APPLIED;
}

/* ---- the end ---- */

static struct psi_err *new_err(struct psi_client *c)
{
    if (c->err_count > 0) {
        return c->errs[--c->err_count];
    }
    if (c->err_capacity < 64) {
        struct psi_err **more = psi_realloc(c->errs, (c->err_capacity + 16) * sizeof(*more));
        if (more != NULL) {
            c->errs = more;
            c->err_capacity += 16;
        }
    }
    return psi_malloc(sizeof(struct psi_err));
}

void psi_client_err_free(struct psi_client *c, struct psi_err *e)
{
    if (e == NULL || e == &c->no_memory) {
        return;
    }
    if (c->err_count < c->err_capacity) {
        c->errs[c->err_count++] = e;
    } else {
        psi_free(e);
    }
}

static struct psi_err *make_err(struct psi_client *c, ps_status st, ps_applied applied, const char *format, va_list ap)
    __attribute__((format(printf, 4, 0)));
static struct psi_err *make_err(struct psi_client *c, ps_status st, ps_applied applied, const char *format, va_list ap)
{
    struct psi_err *e = new_err(c);
    if (e == NULL) {
        return &c->no_memory;
    }
    e->code = st;
    e->applied = applied;
    vsnprintf(e->text, sizeof(e->text), format, ap);
    return e;
}

struct psi_err *psi_client_err(struct psi_client *c, ps_status st, ps_applied applied, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    struct psi_err *e = make_err(c, st, applied, format, ap);
    va_end(ap);
    return e;
}

/* What the session's beats say of its progress: the value of the well-known variable, whoever asked for it. */
static void learn_step(struct psi_client *c, const struct psi_request *req)
{
    const struct psi_var *var = req->var;
    int64_t step = -1;
    if (req->status != PS_OK || var == NULL || var->dtype != PS_I64 || var->elements != 1 ||
        strcmp(var->name, "global_step") != 0) {
        return;
    }
    if (req->kind == PSI_REQ_ADD && req->result_bytes == sizeof(step)) {
        memcpy(&step, req->result, sizeof(step));
    } else if (req->kind == PSI_REQ_PULL) {
        memcpy(&step, req->dst, sizeof(step));
    }
    c->step = step < 0 ? c->step : (uint64_t)step + 1;
}

void psi_request_ended(struct psi_request *req)
{
    struct psi_client *c = req->owner;
    PSI_ASSERT(req->stage != PSI_STAGE_DONE && req->stage != PSI_STAGE_NONE);
    learn_step(c, req);
    req->stage = PSI_STAGE_DONE;
    req->extra = NULL;
    psi_list_remove(&req->link);
    psi_list_remove(&req->all);
    c->pending--;
    if ((req->flags & PSI_REQUEST_INNER) != 0) {
        psi_ready_inner(req);
    } else {
        psi_list_push_back(&c->done, &req->link);
    }
}

void psi_request_end(struct psi_request *req, ps_status st, ps_applied applied, const char *format, ...)
{
    struct psi_client *c = req->owner;
    if (req->stage == PSI_STAGE_NONE) {
        req->stage = PSI_STAGE_ASKED; /* ends before it went anywhere */
    }
    req->status = st;
    req->applied = applied;
    if (st != PS_OK) {
        va_list ap;
        va_start(ap, format);
        req->err = make_err(c, st, applied, format, ap);
        va_end(ap);
        if (req->kind == PSI_REQ_INFO) {
            psi_control_failed(req);
        }
    }
    psi_request_ended(req);
}

void psi_request_delay(struct psi_request *req, ps_status st, const char *why, uint32_t retry_ms)
{
    struct psi_client *c = req->owner;
    req->why_status = st;
    snprintf(req->why, sizeof(req->why), "%s", why);
    uint32_t wait = DELAY_FIRST_MS << (req->tries < 6 ? req->tries : 6);
    wait = wait > DELAY_MAX_MS ? DELAY_MAX_MS : wait;
    wait = retry_ms > wait ? retry_ms : wait;
    wait = wait > 60000 ? 60000 : wait;
    req->tries++;
    req->again_ms = c->now_ms + wait - wait / 4 + psi_random_below(&c->random, wait / 2 + 1);
    req->again_ms = req->again_ms < c->now_ms + retry_ms && retry_ms <= 60000 ? c->now_ms + retry_ms : req->again_ms;
    req->stage = PSI_STAGE_DELAYED;
    psi_list_remove(&req->link);
    struct psi_list *at = c->delayed.prev;
    while (at != &c->delayed && PSI_CONTAINER_OF(at, struct psi_request, link)->again_ms > req->again_ms) {
        at = at->prev;
    }
    psi_list_insert_before(at->next, &req->link);
}
