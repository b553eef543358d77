/* SPDX-License-Identifier: Apache-2.0 */
/* What is done for a request apart from the wire protocol: checks at the start, dispatch by kind, its turn, delays, the end. For
 * deadlines and unreachable tasks see deadline.c. Every request ends exactly once, through psi_request_ended(); after that the
 * request belongs to the caller again.
 *
 * The requests of one variable are sent in call order, each as a whole: they wait in var->waiting; the first one becomes
 * var->current and enters a ready list of its peer; when all its frames are queued, the next request becomes current. Requests of
 * other variables need not wait. A mutation that is sent again from its middle after a reconnect (var->partial) is sent first. */
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
#define EARLY_MAX_MS 250u

/* Name of the call for error texts. k: the request's row of psi_kinds; psi_kind_of() would need req->owner, which may be NULL. */
static const char *name_of(const struct psi_request *req, const struct psi_kind *k)
{
    return req->kind == PSI_REQ_ADD && req->scale < 0 ? "assign_sub" : k->name;
}

static ps_status check_strings(const struct psi_request *req, const struct psi_kind *k, const struct psi_operand *v,
                               struct psi_err *err)
{
    if ((k->is & PSI_KIND_STRINGS) == 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s of '%s': it holds strings; they are assigned and read whole",
                        name_of(req, k), v->name);
    }
    if (req->part_elements != 0) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s of '%s': a part of it; strings are read whole", name_of(req, k), v->name);
    }
    bool reads = (k->is & PSI_KIND_READ) != 0;
    if (reads && req->bytes < psi_blob_bytes_max(v->elements)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s of '%s': %llu bytes are given, its strings may need %llu", name_of(req, k),
                        v->name, (unsigned long long)req->bytes, (unsigned long long)psi_blob_bytes_max(v->elements));
    }
    ps_status st = reads ? PS_OK : psi_blob_check(req->src, req->bytes, v->elements, err);
    if (st != PS_OK) {
        psi_err_prefix(err, "%s of '%s'", name_of(req, k), v->name);
    }
    return st;
}

static ps_status check_bytes(const struct psi_request *req, const struct psi_kind *k, const struct psi_operand *v,
                             struct psi_err *err)
{
    uint64_t bytes = 0;
    if (req->part_elements != 0 &&
        ((k->is & PSI_KIND_READ) == 0 || req->part_first >= v->elements || req->part_elements > v->elements - req->part_first)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s of '%s': elements %llu to %llu of %llu", name_of(req, k), v->name,
                        (unsigned long long)req->part_first, (unsigned long long)(req->part_first + req->part_elements - 1),
                        (unsigned long long)v->elements);
    }
    uint64_t elements = req->part_elements != 0 ? req->part_elements : v->elements;
    if (!psi_mul_bytes(elements, ps_dtype_bytes(v->dtype), &bytes) || req->bytes != bytes) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s of '%s': %llu bytes are given, the variable has %llu", name_of(req, k),
                        v->name, (unsigned long long)req->bytes, (unsigned long long)bytes);
    }
    return PS_OK;
}

/* Refuse bools other than 0 and 1, because ps_import() would refuse a file with such values. */
static ps_status check_bools(const struct psi_request *req, const struct psi_kind *k, const struct psi_operand *v,
                             struct psi_err *err)
{
    const uint8_t *src = req->src;
    for (uint64_t i = 0; i < req->bytes; i++) {
        if (src[i] > 1) {
            return psi_fail(err, PS_INVALID_ARGUMENT, "%s of '%s': element %llu is %u, a bool is 0 or 1", name_of(req, k),
                            v->name, (unsigned long long)i, src[i]);
        }
    }
    return PS_OK;
}

ps_status psi_request_check_values(const struct psi_request *req, const struct psi_kind *k, const struct psi_operand *v,
                                   struct psi_err *err)
{
    if ((k->is & PSI_KIND_NO_VALUE) != 0) {
        return PS_OK;
    }
    if ((k->is & PSI_KIND_SIGN) != 0 && (v->dtype == PS_BOOL || v->dtype == PS_STRING)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s of '%s': it holds %s; numbers can be added", name_of(req, k), v->name,
                        v->dtype == PS_BOOL ? "bool" : "strings");
    }
    const bool lacks = ((k->is & PSI_KIND_SRC) != 0 && req->src == NULL) || ((k->is & PSI_KIND_DST) != 0 && req->dst == NULL);
    /* a value without elements needs no memory; but strings always need memory for their offsets */
    if (lacks && (v->dtype == PS_STRING || v->elements > 0)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s of '%s': no memory is given", name_of(req, k), v->name);
    }
    ps_status st = v->dtype == PS_STRING ? check_strings(req, k, v, err) : check_bytes(req, k, v, err);
    if (st == PS_OK && v->dtype == PS_BOOL && (k->is & PSI_KIND_SRC) != 0) {
        st = check_bools(req, k, v, err);
    }
    if (st != PS_OK) {
        return st;
    }
    if ((k->is & PSI_KIND_SIGN) != 0 && req->scale != 1.0f && req->scale != -1.0f) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s of '%s': the sign is %g, it must be 1 or -1", name_of(req, k), v->name,
                        (double)req->scale);
    }
    if ((k->is & PSI_KIND_SCALE) != 0 && (!isfinite(req->scale) || req->scale <= 0.0f)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s of '%s': the scale is %g, it must be finite and above 0", name_of(req, k),
                        v->name, (double)req->scale);
    }
    const uintptr_t src = (uintptr_t)req->src, dst = (uintptr_t)req->dst;
    /* src and dst must not overlap: after a reconnect the gradient may be sent again when new values were already written */
    if (req->kind == PSI_REQ_PUSH_PULL && src < dst + req->bytes && dst < src + req->bytes) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s of '%s': the values would overwrite the gradient", k->name, v->name);
    }
    return PS_OK;
}

/* Check that the rows were prepared for a variable of this shape. psi_rows_new() has checked the indices. */
__attribute__((noinline)) static ps_status check_rows(const struct psi_request *req, const struct psi_kind *k,
                                                      struct psi_err *err)
{
    const struct psi_var *var = req->var;
    const struct psi_rows *r = req->src;
    uint64_t rows = 0, columns = 0;
    ps_status st = psi_rows_of(var->name, &var->shape, var->dtype, &rows, &columns, err);
    if (st != PS_OK) {
        return st;
    }
    if (r == NULL || r->variable_rows != rows || r->columns != columns || (req->dst == NULL && (k->is & PSI_KIND_DST) != 0)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s of '%s': no rows of it are given", k->name, var->name);
    }
    return (k->is & PSI_KIND_SCALE) == 0 || (isfinite(req->scale) && req->scale > 0)
               ? PS_OK
               : psi_fail(err, PS_INVALID_ARGUMENT, "%s of '%s': the scale is %g, it must be finite and above 0", k->name,
                          var->name, (double)req->scale);
}

static ps_status check_data(const struct psi_request *req, const struct psi_kind *k, struct psi_err *err)
{
    const struct psi_var *var = req->var;
    if (var == NULL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s: no variable is given", k->name);
    }
    if (var->owner == UINT32_MAX) {
        return psi_fail(err, PS_FAILED_PRECONDITION, "%s of '%s': get or create the variable first", k->name, var->name);
    }
    if ((var->queue != NULL) != (req->kind == PSI_REQ_WORK_END || req->kind == PSI_REQ_SET_STEP)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s of '%s': it is a %s", k->name, var->name,
                        var->queue != NULL ? "queue" : "variable");
    }
    if (var->queue != NULL && req->src == NULL) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s of '%s': no item is given", k->name, var->name);
    }
    if ((k->is & PSI_KIND_ROWS) != 0) {
        return check_rows(req, k, err);
    }
    const struct psi_operand v = {.name = var->name, .dtype = var->dtype, .elements = psi_var_elements(var, req->slot)};
    return psi_request_check_values(req, k, &v, err);
}

ps_status psi_request_check(struct psi_client *c, const struct psi_request *req, struct psi_err *err)
{
    if (req->done == NULL || req->deadline_ms == 0 || req->kind <= PSI_REQ_NONE || req->kind >= PSI_REQ_KINDS) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "a request without kind, deadline or callback");
    }
    const struct psi_kind *k = &c->kinds[req->kind];
    if ((k->is & PSI_KIND_DATA) != 0) {
        return check_data(req, k, err);
    }
    if (k->to == PSI_TO_TASK && (!c->known || req->task >= c->peer_count)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s: the cluster has no task %u", k->name, req->task);
    }
    if (((k->is & PSI_KIND_SRC) != 0 && req->src == NULL) || ((k->is & PSI_KIND_DST) != 0 && req->dst == NULL)) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "%s: no memory is given", k->name);
    }
    return k->check != NULL ? k->check(req, err) : PS_OK;
}

#define TO(stage) (1u << PSI_STAGE_##stage)
#define GOES (TO(WAITING) | TO(GETTING) | TO(ASKED) | TO(COMPOSITE) | TO(DONE)) /* stages into which psi_kind.go() may move */
static const uint32_t WAYS[PSI_STAGES] = {
    [PSI_STAGE_NONE] = GOES | TO(EARLY) | TO(DELAYED),
    [PSI_STAGE_EARLY] = GOES,
    [PSI_STAGE_WAITING] = TO(TURN) | TO(NONE) | TO(DONE),
    [PSI_STAGE_TURN] = TO(SENDING) | TO(PULLING) | TO(NONE),
    [PSI_STAGE_SENDING] = TO(WINDOW) | TO(NONE),
    [PSI_STAGE_WINDOW] = TO(NONE),
    [PSI_STAGE_PULLING] = TO(NONE),
    [PSI_STAGE_DELAYED] = GOES | TO(NONE),
    [PSI_STAGE_GETTING] = TO(DONE),
    [PSI_STAGE_ASKED] = TO(DELAYED) | TO(DONE),
    [PSI_STAGE_COMPOSITE] = TO(DONE),
};

const char *psi_request_name(const struct psi_request *req)
{
    return name_of(req, psi_kind_of(req));
}

uint64_t psi_request_total(const struct psi_request *req)
{
    const uint32_t is = psi_kind_of(req)->is;
    if ((is & (PSI_KIND_NO_VALUE | PSI_KIND_ROWS)) != 0) {
        return (is & PSI_KIND_ROWS) != 0 ? ((const struct psi_rows *)req->src)->count : 0;
    }
    return req->var->dtype == PS_STRING ? req->bytes : psi_var_elements(req->var, req->slot);
}

ps_dtype psi_request_wire(const struct psi_request *req)
{
    return psi_request_is(req, PSI_KIND_WIRE) ? req->var->wire : req->var->dtype;
}

uint32_t psi_request_unit(const struct psi_request *req)
{
    return psi_request_is(req, PSI_KIND_ROWS) ? psi_rows_unit(((const struct psi_rows *)req->src)->row_bytes)
                                              : psi_wire_unit(psi_request_wire(req));
}

uint32_t psi_request_frame_bytes(const struct psi_request *req)
{
    return psi_kind_of(req)->op == PS_OP_PUSHPULL ? PSI_PAIR_FRAME_BYTES : PS_VALUES_FRAME_BYTES;
}

bool psi_request_is_multi(const struct psi_request *req)
{
    return psi_request_bytes(req, psi_request_total(req), psi_request_unit(req)) > psi_request_frame_bytes(req);
}

static void to_ready(struct psi_request *req)
{
    struct psi_peer *peer = req->owner->peers[req->var->owner];
    if (psi_request_reads(req)) {
        psi_list_push_back(psi_pull_is_small(req) ? &peer->ready_small_read : &peer->ready_read, &req->link);
    } else {
        psi_list_push_back(psi_request_is_multi(req) ? &peer->ready_multi : &peer->ready_single, &req->link);
    }
}

static void to_delayed(struct psi_request *req)
{
    struct psi_list *delayed = &req->owner->delayed;
    struct psi_list *at = delayed->prev;
    while (at != delayed && PSI_CONTAINER_OF(at, struct psi_request, link)->again_ms > req->again_ms) {
        at = at->prev;
    }
    psi_list_insert_before(at->next, &req->link);
}

void psi_request_move(struct psi_request *req, enum psi_request_stage to)
{
    struct psi_client *c = req->owner;
    PSI_ASSERT((WAYS[req->stage] >> to & 1u) != 0);
    psi_list_remove(&req->link);
    bool turn = to == PSI_STAGE_TURN || to == PSI_STAGE_SENDING;
    if (req->stage == PSI_STAGE_TURN || req->stage == PSI_STAGE_SENDING || turn) {
        PSI_ASSERT(req->var->current == (to == PSI_STAGE_TURN ? NULL : req));
        req->var->current = turn ? req : NULL;
    }
    req->stage = (uint8_t)to;
    switch (to) {
    case PSI_STAGE_EARLY:
        psi_list_push_back(&c->early, &req->link);
        break;
    case PSI_STAGE_WAITING:
        if (req->tries > 0 || (req->flags & PSI_REQUEST_PUSHED) != 0) {
            /* a request that was sent before, and is repeated, is older than those that wait: it goes to the front */
            psi_list_push_front(&req->var->waiting, &req->link);
        } else {
            psi_list_push_back(&req->var->waiting, &req->link);
        }
        break;
    case PSI_STAGE_TURN:
        to_ready(req);
        break;
    case PSI_STAGE_DELAYED:
        to_delayed(req);
        break;
    case PSI_STAGE_GETTING:
        psi_list_push_back(&req->var->getters, &req->link);
        break;
    case PSI_STAGE_DONE:
        if ((req->flags & PSI_REQUEST_INNER) == 0) {
            psi_list_push_back(&c->done, &req->link);
        }
        break;
    default:
        break;
    }
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
    req->arrived = 0;
    req->round = 0;    /* clears the other fields of its union too */
    req->frames = 0;   /* clears `taken` too */
    req->entry = NULL; /* clears `ready` and `ask` too */
    req->again_ms = 0;
    req->flying = 0;
    req->tries = 0;
    req->why = NULL;
    psi_list_init(&req->link);
    psi_list_push_back(&c->all, &req->all);
    c->pending++;
    uint64_t due = c->now_ms + PSI_SLOW_MS < req->deadline_ms ? c->now_ms + PSI_SLOW_MS : req->deadline_ms;
    c->scan_ms = due < c->scan_ms ? due : c->scan_ms;
}

void psi_request_go(struct psi_request *req)
{
    psi_kind_of(req)->go(req);
}

ps_status psi_client_start(struct psi_client *c, struct psi_request *req, struct psi_err *err)
{
    ps_status st = psi_request_check(c, req, err);
    if (st != PS_OK) {
        return st;
    }
    psi_request_prepare(c, req);
    req->begun_ns = c->now_ns;
    if (!c->known && !psi_request_is(req, PSI_KIND_STAYS)) {
        psi_request_move(req, PSI_STAGE_EARLY);
        psi_peer_want(c->peers[0]);
        psi_client_kick(c->peers[0]);
        return PS_OK;
    }
    psi_request_go(req);
    return PS_OK;
}

void psi_var_queue(struct psi_request *req)
{
    struct psi_client *c = req->owner;
    struct psi_var *var = req->var;
    if (var->lost) {
        psi_request_end_as(req, PS_ABORTED, PS_REASON_LOST, psi_request_applied(req),
                           "%s of '%s' at %s: the variable is gone for this session: it was reset or deleted, or its task was "
                           "restarted",
                           psi_request_name(req), var->name, c->peers[var->owner]->name);
        return;
    }
    psi_request_move(req, PSI_STAGE_WAITING);
    if (!var->open) {
        psi_var_want(c, var);
        return;
    }
    struct psi_peer *peer = c->peers[var->owner];
    psi_peer_want(peer);
    psi_client_kick(peer);
    psi_var_next(var);
}

void psi_var_next(struct psi_var *var)
{
    if (var->current != NULL || !var->open || psi_list_empty(&var->waiting)) {
        return;
    }
    struct psi_request *req = PSI_CONTAINER_OF(psi_list_first(&var->waiting), struct psi_request, link);
    psi_request_move(req, PSI_STAGE_TURN);
    psi_client_kick(req->owner->peers[var->owner]);
}

void psi_var_yield(struct psi_request *req, enum psi_request_stage to)
{
    psi_request_move(req, to);
    psi_var_next(req->var);
}

static void forget_chunks(struct psi_request *req)
{
    struct psi_peer *peer = req->owner->peers[req->var->owner];
    struct psi_list *it = NULL;
    struct psi_list *tmp = NULL;
    PSI_LIST_FOREACH(it, &peer->chunk_out) {
        if (PSI_CONTAINER_OF(it, struct psi_chunk, link)->req == req) {
            /* the request is over: values that still come are dropped */
            PSI_CONTAINER_OF(it, struct psi_chunk, link)->req = NULL;
        }
    }
    PSI_LIST_FOREACH_SAFE(it, tmp, &peer->chunk_again) {
        if (PSI_CONTAINER_OF(it, struct psi_chunk, link)->req == req) {
            psi_chunk_drop(peer, PSI_CONTAINER_OF(it, struct psi_chunk, link));
        }
    }
    req->flying = 0;
}

void psi_var_release(struct psi_request *req)
{
    psi_target_release(req);
    if (req->flying > 0) {
        forget_chunks(req);
    }
    psi_var_yield(req, PSI_STAGE_NONE);
}

static struct psi_peer *peer_of_var(struct psi_client *c, const struct psi_var *var)
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
    if (psi_request_numbered(req)) {
        return req->entry->peer;
    }
    switch ((enum psi_kind_to)psi_kind_of(req)->to) {
    case PSI_TO_OWNER:
        return peer_of_var(c, req->var);
    case PSI_TO_DIRECTORY:
        return psi_client_directory(c);
    case PSI_TO_TASK:
        return c->peers[req->task];
    case PSI_TO_NOBODY:
        break;
    }
    return NULL;
}

const char *psi_request_subject(const struct psi_request *req)
{
    const struct psi_kind *k = psi_kind_of(req);
    return k->subject != NULL ? k->subject(req) : req->var != NULL ? req->var->name : NULL;
}

uint64_t psi_time_to_give(const struct psi_client *c, uint64_t deadline_ms)
{
    uint64_t left = deadline_ms > c->now_ms ? deadline_ms - c->now_ms : 1;
    uint64_t early = left / 10 < PSI_EARLY_MIN_MS ? PSI_EARLY_MIN_MS : left / 10 > EARLY_MAX_MS ? EARLY_MAX_MS : left / 10;
    early = early > left / 2 ? left / 2 : early;
    return left > early + 1 ? left - early : 1;
}

bool psi_reply_repeatable(const struct psi_reply *r)
{
    return (r->status == PS_RESOURCE_EXHAUSTED || r->status == PS_UNAVAILABLE) && r->applied == PS_NOTHING_APPLIED;
}

/* If the request has read or changed the global step, remember it: beats report it to the directory. */
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
    if (step >= 0) {
        c->step = (uint64_t)step + 1;
        snprintf(c->step_of, sizeof(c->step_of), "%s", var->container);
    }
}

void psi_request_ended(struct psi_request *req)
{
    struct psi_client *c = req->owner;
    PSI_ASSERT((req->flags & PSI_REQUEST_TARGET) == 0);
    learn_step(c, req);
    if (req->err != NULL && req->err->reason == PS_REASON_NEWER_CHIEF) {
        psi_chief_refused(c, req->chief_number);
    }
    psi_request_move(req, PSI_STAGE_DONE);
    req->entry = NULL;
    psi_list_remove(&req->all);
    psi_client_err_free(c, req->why);
    req->why = NULL;
    c->pending--;
    if ((req->flags & PSI_REQUEST_INNER) != 0) {
        req->done(req);
    }
}

static void end(struct psi_request *req, ps_status st, ps_reason reason, ps_applied applied, const char *format, va_list ap)
    __attribute__((format(printf, 5, 0)));
static void end(struct psi_request *req, ps_status st, ps_reason reason, ps_applied applied, const char *format, va_list ap)
{
    const bool cut = st != PS_OK && (req->flags & PSI_REQUEST_CUT) != 0;
    st = cut ? PS_CANCELLED : st;
    reason = cut ? req->owner->cut_reason : reason;
    req->status = st;
    req->applied = applied;
    if (st != PS_OK) {
        req->err = psi_client_verr(req->owner, st, reason, applied, format, ap);
        req->err->unreached = reason == PS_REASON_NOT_CONNECTED && psi_client_overdue(req->owner);
        if (cut && req->err != &req->owner->no_memory) {
            psi_err_prefix(req->err, "%s", req->owner->cut_why);
        }
        if (psi_kind_of(req)->failed != NULL) {
            psi_kind_of(req)->failed(req);
        }
    }
    psi_request_ended(req);
}

void psi_request_end(struct psi_request *req, ps_status st, ps_applied applied, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    end(req, st, PS_REASON_NONE, applied, format, ap);
    va_end(ap);
}

void psi_request_end_as(struct psi_request *req, ps_status st, ps_reason reason, ps_applied applied, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    end(req, st, reason, applied, format, ap);
    va_end(ap);
}

void psi_request_refused(struct psi_request *req, ps_status st, ps_reason reason, const char *text)
{
    psi_client_err_free(req->owner, req->why);
    req->why = st != PS_OK ? psi_client_err(req->owner, st, reason, PS_NOTHING_APPLIED, "%s", text) : NULL;
}

void psi_request_delay(struct psi_request *req, uint32_t retry_ms)
{
    struct psi_client *c = req->owner;
    uint32_t wait = DELAY_FIRST_MS << (req->tries < 6 ? req->tries : 6);
    wait = wait > DELAY_MAX_MS ? DELAY_MAX_MS : wait;
    wait = retry_ms > wait ? retry_ms : wait;
    wait = wait > 60000 ? 60000 : wait;
    req->tries++;
    req->again_ms = c->now_ms + wait - wait / 4 + psi_random_below(&c->random, wait / 2 + 1);
    req->again_ms = req->again_ms < c->now_ms + retry_ms && retry_ms <= 60000 ? c->now_ms + retry_ms : req->again_ms;
    psi_request_move(req, PSI_STAGE_DELAYED);
}

/* Text for an error: what req needs and a task of an older release cannot do. NULL: the task can do all that req needs. */
__attribute__((noinline)) static const char *lacks(const struct psi_peer *peer, const struct psi_request *req)
{
    if (psi_request_is(req, PSI_KIND_ROWS) && (peer->features & PS_FEATURE_ROWS) == 0) {
        return "has no operations on rows";
    }
    if (req->kind == PSI_REQ_PUSH_PULL_ROWS && (peer->features & PS_FEATURE_PULL_ROWS) == 0) {
        return "sends no values back for a push of rows";
    }
    if (req->kind == PSI_REQ_PUSH_ROWS && req->round != 0 && (peer->features & PS_FEATURE_ROUND_ROWS) == 0) {
        return "has no rows in rounds";
    }
    return req->kind == PSI_REQ_ADD && (peer->features & PS_FEATURE_LONG_ADDS) == 0 &&
                   req->var->elements * ps_dtype_bytes(req->var->dtype) > PS_RESULT_BYTES_MAX
               ? "adds 64 bytes at most"
               : NULL;
}
_Static_assert(PS_RESULT_BYTES_MAX == 64, "as the text says");

/* End req if the task lacks a feature that req needs. True: req was ended. */
static bool ends_unknown_there(const struct psi_peer *peer, struct psi_request *req)
{
    const char *what = psi_request_is(req, PSI_KIND_ROWS | PSI_KIND_SIGN) ? lacks(peer, req) : NULL;
    if (what == NULL) {
        return false;
    }
    char where[PSI_WHERE_MAX];
    const struct psi_var *var = req->var;
    psi_var_release(req);
    psi_request_end_as(req, PS_UNIMPLEMENTED, PS_REASON_FEATURE, PS_NOTHING_APPLIED,
                       "%s of '%s' at %s: the task is of a release that %s; upgrade it", psi_request_name(req), var->name,
                       psi_peer_where(peer, where, sizeof(where)), what);
    return true;
}

void psi_request_turns(struct psi_peer *peer)
{
    for (int multi = 0; multi < 2; multi++) {
        struct psi_list *head = multi != 0 ? &peer->ready_multi : &peer->ready_single;
        struct psi_list *it = head->next;
        while (it != head && psi_window_room(peer, multi != 0) && !peer->doomed) {
            struct psi_request *req = PSI_CONTAINER_OF(it, struct psi_request, link);
            it = it->next;
            if (req->var->partial == NULL && !ends_unknown_there(peer, req)) {
                psi_window_admit(peer, req);
            }
        }
    }
    /* large reads first, which use at most half of the chunks; then small reads, which may use all the rest */
    for (int small = 0; small < 2; small++) {
        struct psi_list *head = small != 0 ? &peer->ready_small_read : &peer->ready_read;
        struct psi_list *it = head->next;
        while (it != head && !peer->doomed && (small != 0 || peer->pull_bytes < PSI_PULL_BYTES_MAX) &&
               !psi_list_empty(&peer->chunk_free)) {
            struct psi_request *req = PSI_CONTAINER_OF(it, struct psi_request, link);
            it = it->next;
            if (req->var->partial == NULL && !ends_unknown_there(peer, req) && psi_pull_ask(peer, req)) {
                psi_var_yield(req, PSI_STAGE_PULLING);
            }
        }
    }
}
