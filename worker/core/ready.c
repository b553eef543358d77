/* SPDX-License-Identifier: Apache-2.0 */
/* READY, WAIT_READY and STATUS: what a session does before it trains. No session trains if some variables are trained and others
 * have no value (half a model).
 *
 * Happy path: every variable is got, and the owners are asked for the status of all. The chief takes its number at the directory,
 * sends INIT for each variable, SYNC to the directory if the variables are or should be in rounds, then SEAL. Every other session
 * WAITs at the owners until the variables are sealed, asks for the status again, and compares hyperparameters and rounds with
 * those in force. If they differ, those in force may be left from an earlier training: the session waits until a connected chief
 * has made the model ready, and compares again. Each step starts control requests (asks) or inner requests; when all are
 * answered, psi_ready_pump() takes the next step. Failure: half a model is DATA_LOSS, before any INIT; with a lease only the
 * chief fails, and other sessions wait until it has mended the model. If a variable is lost before this session has used it,
 * READY begins again, and gets it. A newer chief, other hyperparameters or the deadline end READY; the error names them. */
#include "ready.h"

#include "common/mem.h"
#include "common/utf8.h"

#include <stdio.h>
#include <string.h>

enum { RETRY_MS = 100, TRIES_MAX = 5, OTHER_MS = 250 /* OTHER_MS: time in ms between two beats that ask about the chief */ };

static void ready_free(struct psi_ready *r)
{
    if (r != NULL) {
        psi_list_remove(&r->link);
        psi_free(r->inner);
        psi_free(r->vars);
        psi_free(r);
    }
}

void psi_ready_free_all(struct psi_client *c)
{
    struct psi_list *link = NULL;
    while ((link = psi_list_first(&c->composites)) != NULL) {
        ready_free(PSI_CONTAINER_OF(link, struct psi_ready, link));
    }
}

/* The container whose chief initialises the model: the global step's, which all programs share; else the first variable's. */
static const char *container_of(const struct psi_ready *r)
{
    for (uint32_t i = 0; i < r->var_count; i++) {
        if (strcmp(r->vars[i]->name, "global_step") == 0) {
            return r->vars[i]->container;
        }
    }
    return r->var_count > 0 ? r->vars[0]->container : PSI_CONTAINER_DEFAULT;
}

/* End the request with r->err, or with OK; drop its asks. */
static void end(struct psi_ready *r)
{
    struct psi_request *req = r->req;
    struct psi_client *c = req->owner;
    psi_ask_drop(c, req);
    for (uint32_t i = 0; i < r->var_count; i++) {
        while (r->inner[i].stage != PSI_STAGE_NONE && r->inner[i].stage != PSI_STAGE_DONE) {
            psi_request_expire(&r->inner[i]);
        }
    }
    struct psi_err err = r->err;
    bool failed = r->failed;
    if (req->kind == PSI_REQ_READY && req->dst != NULL) {
        *(struct psi_readied *)req->dst = (struct psi_readied){.chief_number = r->chief_number, .nothing = r->nothing && !failed};
    }
    ready_free(r);
    if (failed) {
        psi_request_end_as(req, err.code, err.reason, err.applied, "%s", err.text);
    } else {
        psi_request_end(req, PS_OK, PS_NOTHING_APPLIED, NULL);
    }
}

/* True for the STATUS of one variable. Many such requests may run at a time, so none may loop over all variables. */
static bool is_of_one(const struct psi_request *req)
{
    return req->kind == PSI_REQ_STATUS && req->var != NULL;
}

static uint32_t count_vars(const struct psi_request *req)
{
    uint32_t count = 0;
    struct psi_list *it = NULL;
    if (is_of_one(req)) {
        return 1;
    }
    PSI_LIST_FOREACH(it, &req->owner->variables) {
        count++;
    }
    return count;
}

static void collect_vars(struct psi_ready *r)
{
    const struct psi_request *req = r->req;
    struct psi_list *it = NULL;
    if (is_of_one(req)) {
        r->vars[r->var_count++] = req->var;
        return;
    }
    PSI_LIST_FOREACH(it, &req->owner->variables) {
        struct psi_var *var = PSI_CONTAINER_OF(it, struct psi_var, link);
        /* left out: queues, variables that do not belong to the model (`apart`), and, except by STATUS, those only looked up */
        bool mine = var->queue == NULL && !var->apart && (req->kind == PSI_REQ_STATUS || !var->found_only);
        bool asked_for = var->owner != UINT32_MAX || var->step != PSI_VAR_NEW;
        if (mine && asked_for) {
            r->vars[r->var_count++] = var;
        }
    }
}

void psi_ready_go(struct psi_request *req)
{
    struct psi_client *c = req->owner;
    uint32_t count = count_vars(req);
    struct psi_ready *r = psi_calloc(1, sizeof(*r));
    if (r != NULL) {
        psi_list_init(&r->link);
        r->req = req;
        r->vars = psi_calloc(count, sizeof(*r->vars));
        r->inner = psi_calloc(count, sizeof(*r->inner));
    }
    if (r == NULL || r->vars == NULL || r->inner == NULL) {
        ready_free(r);
        psi_request_end(req, PS_RESOURCE_EXHAUSTED, PS_NOTHING_APPLIED, "%s: no memory for %u variables", psi_request_name(req),
                        count);
        return;
    }
    collect_vars(r);
    if (req->kind == PSI_REQ_READY) {
        const struct psi_sync *sync = req->src;
        c->sync = sync != NULL ? *sync : (struct psi_sync){.mode = PS_SYNC_NONE, .step = c->sync.step};
        c->chief.readied = false;
    }
    if (req->kind == PSI_REQ_READY && r->var_count > 0) {
        psi_chief_want(c, container_of(r));
    }
    psi_request_move(req, PSI_STAGE_COMPOSITE);
    req->ready = r;
    psi_peer_want(psi_client_directory(c)); /* the directory's answers to beats say whether there is a chief */
    psi_list_push_back(&c->composites, &r->link);
}

/* psi_request.done of a request that READY has started. ABORTED with nothing applied makes READY begin again, at most TRIES_MAX
 * times; any other error ends READY. Called in the event that ends the request, not later from the list of done requests. */
static void inner_done(struct psi_request *inner)
{
    struct psi_ready *r = inner->ctx;
    r->pending--;
    if (inner->status == PS_ABORTED && r->tries < TRIES_MAX && inner->applied == PS_NOTHING_APPLIED) {
        r->tries++;
        r->retry = true; /* the task does not know the handle, or knows a newer chief: STATUS will show which */
    } else if (inner->status != PS_OK) {
        psi_ready_fail(r, inner->status, inner->err->reason, inner->applied, "%s", inner->err->text);
    }
    psi_client_err_free(inner->owner, inner->err);
    inner->err = NULL;
}

static void start_inner(struct psi_ready *r, uint32_t i, enum psi_request_kind kind)
{
    struct psi_client *c = r->req->owner;
    struct psi_request *inner = &r->inner[i];
    memset(inner, 0, sizeof(*inner));
    inner->kind = kind;
    inner->var = r->vars[i];
    inner->done = inner_done;
    inner->ctx = r;
    inner->deadline_ms = r->req->deadline_ms; /* READY's deadline ends the inner request */
    psi_request_prepare(c, inner);
    inner->flags |= PSI_REQUEST_INNER | PSI_REQUEST_SLOW_LOGGED;
    inner->chief_number = r->chief_number;
    r->pending++;
    psi_request_go(inner);
}

static void again_later(struct psi_ready *r, const struct psi_peer *peer, const char *text, uint32_t retry_ms)
{
    char where[PSI_WHERE_MAX];
    snprintf(r->why, sizeof(r->why), "%s: %s", psi_peer_where(peer, where, sizeof(where)), text);
    r->retry = true;
    r->again_ms = r->req->owner->now_ms + (retry_ms > RETRY_MS ? retry_ms : RETRY_MS);
}

/* True if SYNC named a variable that the directory does not know, as its task was restarted. STATUS will show which variable. */
static bool is_name_gone(const struct psi_ask *ask, const struct psi_reply *reply)
{
    return ask->op == PS_OP_SYNC && reply->status == PS_NOT_FOUND;
}

static void ask_failed(struct psi_ready *r, const struct psi_ask *ask, const struct psi_reply *reply)
{
    char where[PSI_WHERE_MAX];
    if (reply->reason == PS_REASON_NEWER_CHIEF) {
        psi_chief_refused(r->req->owner, r->chief_number);
    }
    if (psi_reply_repeatable(reply) && ask->peer->state != PSI_PEER_REFUSED) {
        again_later(r, ask->peer, reply->text, reply->retry_after_ms);
    } else if ((reply->status == PS_ABORTED || is_name_gone(ask, reply)) && r->tries < TRIES_MAX) {
        r->tries++;
        r->retry = true;
    } else {
        psi_ready_fail(r, reply->status, reply->reason, reply->applied, "%s at %s: %s", psi_kind_of(r->req)->name,
                       psi_peer_where(ask->peer, where, sizeof(where)), reply->text);
    }
}

static void on_status(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *reply)
{
    struct psi_ready *r = ask->req->ready;
    const uint8_t *p = reply->body;
    size_t n = reply->body_bytes;
    ps_v1_OpenAnswer a;
    bool over = reply->status != PS_OK;
    struct psi_err err = {0};
    char where[PSI_WHERE_MAX];
    while (!over && psi_list_next(&p, &n, &ps_v1_OpenAnswer_msg, &a, &over, NULL) == PS_OK && !over) {
        struct psi_var *var = a.index >= 1 && a.index <= ask->var_count ? ask->vars[a.index - 1] : NULL;
        if (var == NULL) {
            continue;
        }
        ask->vars[a.index - 1] = NULL;
        ps_status st = psi_var_update(ask->peer, var, &a, &err);
        if (st == PS_NOT_FOUND || st == PS_ABORTED) {
            psi_var_lost(c, var, err.text);
        } else if (st == PS_UNAVAILABLE || st == PS_RESOURCE_EXHAUSTED) {
            again_later(r, ask->peer, err.text, 0);
        } else if (st != PS_OK) {
            psi_ready_fail(r, st, err.reason, PS_NOTHING_APPLIED, "'%s' at %s: %s", var->name,
                           psi_peer_where(ask->peer, where, sizeof(where)), err.text);
        }
    }
    if (reply->more && reply->status == PS_OK) {
        return;
    }
    r->pending--;
    if (reply->status != PS_OK) {
        ask_failed(r, ask, reply);
        return;
    }
    for (uint32_t i = 0; i < ask->var_count; i++) {
        r->retry = r->retry || ask->vars[i] != NULL; /* ask again: the answer lacks a variable */
    }
}

static void on_chief(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *reply)
{
    struct psi_ready *r = ask->req->ready;
    const uint8_t *p = reply->body;
    size_t n = reply->body_bytes;
    ps_v1_ChiefAnswer m;
    bool over = false;
    r->pending--;
    if (reply->status != PS_OK) {
        ask_failed(r, ask, reply);
    } else if (psi_list_next(&p, &n, &ps_v1_ChiefAnswer_msg, &m, &over, NULL) != PS_OK || over || m.number == 0) {
        psi_ready_fail(r, PS_INTERNAL, PS_REASON_NONE, PS_NOTHING_APPLIED, "the directory's answer holds no chief number");
    } else {
        r->chief_number = m.number;
        c->chief.number = m.number;
    }
}

static void on_fenced(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *reply)
{
    struct psi_ready *r = ask->req->ready;
    (void)c;
    r->pending--;
    if (reply->status != PS_OK) {
        ask_failed(r, ask, reply);
    }
}

static void on_synced(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *reply)
{
    struct psi_ready *r = ask->req->ready;
    r->pending--;
    if (reply->status != PS_OK) {
        ask_failed(r, ask, reply);
        return;
    }
    for (uint32_t i = 0; i < r->var_count; i++) {
        psi_sync_note(c, r->vars[i], psi_sync_is_trained(r->vars[i]) ? c->sync.mode : PS_SYNC_NONE);
    }
}

static void on_sealed(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *reply)
{
    struct psi_ready *r = ask->req->ready;
    r->pending--;
    if (reply->status != PS_OK) {
        if (reply->status == PS_DEADLINE_EXCEEDED && ask->op == PS_OP_WAIT) {
            r->wait_again = true; /* the variables are not sealed yet: WAIT is sent again, until READY's deadline */
            /* pause before the next WAIT if the task has answered this WAIT before its timeout */
            r->again_ms = c->now_ms < r->wait_ms ? c->now_ms + RETRY_MS : r->again_ms;
        } else {
            ask_failed(r, ask, reply);
        }
        return;
    }
    for (uint32_t i = 0; i < ask->var_count; i++) {
        ask->vars[i]->sealed = true;
        ask->vars[i]->initialised = true;
    }
}

static void no_memory(struct psi_ready *r)
{
    psi_ready_fail(r, PS_RESOURCE_EXHAUSTED, PS_REASON_NONE, PS_NOTHING_APPLIED, "%s: no memory", psi_kind_of(r->req)->name);
}

static void start_asks(struct psi_ready *r, uint8_t op, psi_ask_fn fn, const pb_msgdesc_t *meta, const void *m)
{
    struct psi_client *c = r->req->owner;
    struct psi_var **own = psi_calloc(r->var_count, sizeof(*own));
    if (own == NULL) {
        no_memory(r);
        return;
    }
    for (uint32_t t = 0; t < c->peer_count && !r->failed; t++) {
        uint32_t count = 0;
        for (uint32_t i = 0; i < r->var_count; i++) {
            if (r->vars[i]->owner == t) {
                own[count++] = r->vars[i];
            }
        }
        for (uint32_t from = 0; from < count;) {
            struct psi_ask *ask = psi_ask_new(c->peers[t], op, r->req, fn, count - from);
            uint32_t to = ask != NULL ? psi_var_fill(ask, own, from, count, op != PS_OP_OPEN, NULL) : from;
            if (to == from || (meta != NULL && psi_ask_meta(ask, meta, m, NULL) != PS_OK)) {
                psi_ask_free(ask);
                no_memory(r);
                break;
            }
            from = to;
            r->pending++;
            psi_ask_start(ask);
        }
    }
    psi_free(own);
}

/* True if the chief must send SYNC: this program asks for rounds, or an earlier program has put the variables into rounds. */
static bool says_how(const struct psi_ready *r)
{
    bool says = r->req->owner->sync.mode != PS_SYNC_NONE;
    for (uint32_t i = 0; i < r->var_count; i++) {
        says = says || r->vars[i]->rounds != PS_SYNC_NONE;
    }
    return says;
}

static void start_sync(struct psi_ready *r)
{
    struct psi_err err = {0};
    struct psi_ask *ask = psi_ask_new(psi_client_directory(r->req->owner), PS_OP_SYNC, r->req, on_synced, 0);
    ps_status st =
        ask != NULL ? psi_sync_build(ask, r->vars, r->var_count, &err) : psi_fail(&err, PS_RESOURCE_EXHAUSTED, "no memory");
    if (st != PS_OK) {
        psi_ask_free(ask);
        psi_ready_fail(r, st, err.reason, PS_MAYBE_PARTLY_APPLIED, "ready: the list of what is in rounds: %s", err.text);
        end(r);
        return;
    }
    r->step = READY_SYNC;
    r->pending++;
    psi_ask_start(ask);
}

static void start_seal(struct psi_ready *r)
{
    const ps_v1_Seal seal = {.chief_number = r->chief_number};
    r->step = READY_SEALED;
    start_asks(r, PS_OP_SEAL, on_sealed, &ps_v1_Seal_msg, &seal);
}

static void beat(struct psi_client *c)
{
    struct psi_peer *directory = psi_client_directory(c);
    if (directory->state == PSI_PEER_UP) {
        psi_ask_beat(directory);
    }
}

/* End READY successfully. A chief sends a beat at once, by which waiting sessions learn that the model is ready. */
static void ready(struct psi_ready *r)
{
    struct psi_client *c = r->req->owner;
    for (uint32_t i = 0; i < r->var_count; i++) {
        r->vars[i]->used = true;
    }
    if (r->req->kind == PSI_REQ_READY && !r->nothing) {
        c->chief.readied = true;
        if (psi_client_is_chief(c)) {
            beat(c);
        }
    }
    end(r);
}

static void get(struct psi_ready *r);

/* True if the variable shows that a trained model exists. Only the chief counts unsealed values that another session gave by
 * ASSIGN: for other sessions these may be values of the present chief, which will initialise the rest. */
static bool is_sign(const struct psi_ready *r, const struct psi_var *var)
{
    return psi_ready_is_chief(r) ? psi_var_is_live(var) : psi_var_is_trained(var);
}

/* For the chief: set var->superseded for unsealed values of an earlier chief that are no part of the trained model. If no
 * variable is sealed, these are the values given by ASSIGN. If one is sealed, the model is the values of the chief with the
 * lowest seal number, because a chief seals only when all variables have a value; with PSI_CHIEF_STATIC also the values that a
 * newer chief gave by INIT, which keeps the values that it finds. */
static void weigh(struct psi_ready *r)
{
    const bool chief = psi_ready_is_chief(r);
    uint64_t first = UINT64_MAX;
    r->complete = chief && psi_ready_any(r, psi_var_is_sealed);
    for (uint32_t i = 0; i < r->var_count; i++) {
        const struct psi_var *var = r->vars[i];
        first = var->sealed && var->seal_number < first ? var->seal_number : first;
    }
    for (uint32_t i = 0; i < r->var_count; i++) {
        struct psi_var *var = r->vars[i];
        bool newer = r->req->owner->chief_mode == PSI_CHIEF_STATIC && var->provisional > first && !var->assigned;
        bool others = r->complete ? var->provisional != first && !newer : var->provisional != r->chief_number && var->assigned;
        var->superseded = chief && var->provisional != 0 && others;
    }
}

/* A variable that shows that a trained model exists (is_sign()) while another variable has no value; NULL: there is none. */
static const struct psi_var *half_a_model(const struct psi_ready *r)
{
    bool half = psi_ready_any(r, psi_var_lacks) || psi_ready_any(r, psi_var_is_left);
    for (uint32_t i = 0; half && i < r->var_count; i++) {
        if (is_sign(r, r->vars[i])) {
            return r->vars[i];
        }
    }
    return NULL;
}

/* True if the variable that showed a trained model at the previous status, while others had no value, still does so. Then the
 * missing values are lost: a chief sends SEAL only when all its INITs are answered. */
static bool still_live(struct psi_ready *r)
{
    uint64_t first = 0;
    for (uint32_t i = 0; i < r->var_count; i++) {
        const struct psi_var *var = r->vars[i];
        if (is_sign(r, var) && var->creation == r->live_before) {
            return true;
        }
        first = first == 0 && is_sign(r, var) ? var->creation : first;
    }
    r->live_before = first;
    return false;
}

static bool is_provisional(const struct psi_var *var)
{
    return !var->sealed && var->provisional != 0;
}

static void await_seals(struct psi_ready *r)
{
    struct psi_client *c = r->req->owner;
    ps_v1_Wait m = {.timeout_ms = psi_time_to_give(c, r->req->deadline_ms), .condition = PS_WAIT_SEALED};
    r->wait_again = false;
    r->wait_ms = c->now_ms + m.timeout_ms;
    start_asks(r, PS_OP_WAIT, on_sealed, &ps_v1_Wait_msg, &m);
}

/* PSI_CHIEF_STATIC: ask the directory for a chief number. The request names the highest number that the owners know, because a
 * restarted directory may not know it. With the lease, or in a READY that continues an earlier one, the number is known. */
static void take_number(struct psi_ready *r)
{
    struct psi_client *c = r->req->owner;
    r->step = READY_CHIEF;
    if (c->chief_mode == PSI_CHIEF_LEASE || r->req->chief_number != 0 || r->fenced) {
        return;
    }
    ps_v1_Chief m = {.claim = false};
    for (uint32_t i = 0; i < r->var_count; i++) {
        m.number = r->vars[i]->chief_seen > m.number ? r->vars[i]->chief_seen : m.number;
    }
    struct psi_ask *ask = psi_ask_new(psi_client_directory(c), PS_OP_CHIEF, r->req, on_chief, 0);
    if (ask == NULL || psi_chief_build(ask, container_of(r), &m) != PS_OK) {
        psi_ask_free(ask);
        no_memory(r);
        end(r);
        return;
    }
    r->pending++;
    psi_ask_start(ask);
}

static void fail_half(struct psi_ready *r, const struct psi_var *live)
{
    char names[336], trained[64]; /* names [336]: leaves room for the rest of the error's text */
    psi_utf8_shorten(live->name, trained, sizeof(trained));
    psi_ready_name(r, psi_ready_any(r, psi_var_lacks) ? psi_var_lacks : psi_var_is_left, names, sizeof(names) - strlen(trained));
    psi_ready_fail(r, PS_DATA_LOSS, PS_REASON_LOST, PS_NOTHING_APPLIED,
                   "part of the model is lost: %s; the rest is %s, as '%s' is; start over or restore all of it; if this is "
                   "another model, give it a container of its own",
                   names, psi_var_is_trained(live) ? "trained" : "there by an import or assign", trained);
}

/* True if the chief, which is another session, must repair a model of which a part is lost (by a restore or a new start). */
static bool is_others_to_mend(const struct psi_ready *r)
{
    return r->req->kind == PSI_REQ_READY && r->req->owner->chief_mode == PSI_CHIEF_LEASE && !psi_ready_is_chief(r);
}

static void decide(struct psi_ready *r)
{
    struct psi_client *c = r->req->owner;
    /* c->found is only counted in a first READY: a READY that continues it also finds values given by the chief since */
    if (r->rounds == 1 && r->req->kind == PSI_REQ_READY && r->req->chief_number == 0) {
        c->found = 0;
        c->found_total = 0;
        for (uint32_t i = 0; i < r->var_count; i++) {
            const bool counts = r->vars[i] != c->sync.step;
            c->found_total += counts ? 1 : 0;
            c->found += counts && !psi_var_lacks(r->vars[i]) ? 1 : 0;
        }
    }
    if (r->req->kind == PSI_REQ_STATUS) {
        end(r);
        return;
    }
    for (uint32_t i = 0; r->chief_number != 0 && i < r->var_count; i++) {
        if (r->vars[i]->chief_seen > r->chief_number && c->chief_mode == PSI_CHIEF_LEASE) {
            psi_chief_refused(c, r->chief_number);
            r->step = READY_GET;
            return;
        }
        if (r->vars[i]->chief_seen > r->chief_number) {
            psi_ready_fail(r, PS_ABORTED, PS_REASON_NEWER_CHIEF, PS_NOTHING_APPLIED,
                           "a newer chief (number %llu, this one has %llu) initialises '%s' at %s",
                           (unsigned long long)r->vars[i]->chief_seen, (unsigned long long)r->chief_number, r->vars[i]->name,
                           c->peers[r->vars[i]->owner]->name);
            end(r);
            return;
        }
    }
    weigh(r);
    const struct psi_var *live = half_a_model(r);
    if (live != NULL && !still_live(r)) {
        get(r); /* ask again: the answers came at different times, and a chief may have given the missing values in between */
        return;
    }
    r->half = live != NULL;
    if (live != NULL && is_others_to_mend(r)) {
        r->step = READY_WAIT;
        r->again_ms = c->now_ms + RETRY_MS; /* pause: the owners answer at once if all variables are sealed */
        await_seals(r);
        return;
    }
    if (live != NULL) {
        fail_half(r, live);
        end(r);
        return;
    }
    if (r->req->kind == PSI_REQ_READY) {
        psi_ready_one_container(r);
    }
    if (r->failed) {
        end(r);
        return;
    }
    if (psi_ready_is_chief(r)) {
        take_number(r);
        return;
    }
    if (!psi_ready_any(r, psi_var_is_unsealed)) {
        const struct psi_var *other = r->req->kind == PSI_REQ_READY ? psi_ready_other(r) : NULL;
        if (other != NULL && (r->judged == 0 || r->judged != c->chief.ready)) {
            /* the directory may have reported a chief that is gone: forget this, and wait for the next report */
            c->chief.ready = 0;
            r->step = READY_OTHER;
            return;
        }
        if (other != NULL) {
            psi_ready_fail_other(r, other);
            end(r);
        } else {
            ready(r);
        }
        return;
    }
    r->step = READY_WAIT;
    if (r->rounds > 2) {
        r->again_ms = c->now_ms + RETRY_MS; /* pause: the model was sealed, and is no longer */
    }
    await_seals(r);
}

/* Ask for the status of all variables, which are all open. A chief also sends SEAL, from which the owners learn its number and
 * refuse lower numbers. If it is not known who is chief, set r->claims and send nothing. */
static void look(struct psi_ready *r)
{
    struct psi_client *c = r->req->owner;
    bool lease = r->req->kind == PSI_REQ_READY && c->chief_mode == PSI_CHIEF_LEASE && r->var_count > 0;
    r->claims = lease && !psi_chief_settled(c);
    if (r->claims) {
        return;
    }
    r->chief_number = lease || r->req->chief_number != 0 ? c->chief.number : r->chief_number;
    if (r->req->chief_number != 0 && r->req->chief_number != r->chief_number) {
        psi_ready_fail(r, PS_ABORTED, PS_REASON_NEWER_CHIEF, PS_MAYBE_PARTLY_APPLIED,
                       "this session is not the chief any more that began to restore the model (number %llu)%s%s",
                       (unsigned long long)r->req->chief_number, c->chief.holder[0] != '\0' ? "; it is " : "", c->chief.holder);
        end(r);
        return;
    }
    if ((lease && r->chief_number != 0) || r->fenced) {
        const ps_v1_Seal fence = {.chief_number = r->chief_number, .fence = true};
        start_asks(r, PS_OP_SEAL, on_fenced, &ps_v1_Seal_msg, &fence);
    }
    r->step = READY_DECIDE;
    r->rounds++;
    start_asks(r, PS_OP_OPEN, on_status, NULL, NULL);
}

static void get(struct psi_ready *r)
{
    char names[440];
    if (psi_ready_any(r, psi_var_is_lost)) {
        psi_ready_name(r, psi_var_is_lost, names, sizeof(names));
        psi_ready_fail(r, PS_ABORTED, PS_REASON_LOST, PS_NOTHING_APPLIED, "reset, deleted or lost by a restart of its task: %s",
                       names);
        end(r);
        return;
    }
    for (uint32_t i = 0; i < r->var_count; i++) {
        if (!r->vars[i]->open) {
            start_inner(r, i, r->vars[i]->must_exist ? PSI_REQ_LOOKUP : PSI_REQ_GET);
        }
    }
    if (r->pending == 0) {
        look(r);
    }
}

/* End READY before the first INIT, because no variable has a trained value: the caller may run its restore function first. */
static void stop(struct psi_ready *r)
{
    r->nothing = true;
    ready(r);
}

/* Take the next step. Call when no ask and no inner request is pending. May end the request, and so free r. */
static void advance(struct psi_ready *r)
{
    struct psi_client *c = r->req->owner;
    if (r->failed) {
        end(r);
        return;
    }
    if (r->retry) {
        r->retry = false;
        r->wait_again = false;
        r->step = READY_GET;
    }
    if (r->step != READY_GET && psi_ready_any(r, psi_var_is_closed)) {
        r->step = READY_GET; /* a variable was lost: get it again, or fail */
    }
    enum ready_step step = r->step;
    switch (step) {
    case READY_GET:
        get(r);
        break;
    case READY_DECIDE:
        decide(r);
        break;
    case READY_CHIEF:
        if (c->chief_mode == PSI_CHIEF_STATIC && r->req->chief_number == 0 && !r->fenced &&
            psi_ready_any(r, psi_var_is_unsealed)) { /* ask again: another chief may have sealed variables since the status */
            r->fenced = true;
            r->step = READY_GET;
            get(r);
            break;
        }
        if (r->req->bytes != 0 && r->req->chief_number == 0 && !psi_ready_any(r, psi_var_is_live)) {
            stop(r);
            break;
        }
        if (r->complete && psi_ready_any(r, is_provisional)) { /* seal first: an INIT could replace a value that is not sealed */
            start_seal(r);
            break;
        }
        r->complete = false;
        r->step = READY_INIT;
        for (uint32_t i = 0; i < r->var_count; i++) {
            start_inner(r, i, PSI_REQ_INIT);
        }
        break;
    case READY_INIT:
        if (says_how(r)) {
            start_sync(r);
        } else {
            start_seal(r);
        }
        break;
    case READY_SYNC:
        start_seal(r);
        break;
    case READY_SEALED:
        if (r->complete) { /* sealed: INIT now keeps the values, and sets this chief's hyperparameters */
            r->step = READY_GET;
            break;
        }
        psi_client_log(c, PSI_LOG_INFO, "ready", PSI_KV("chief", r->chief_number), PSI_KV("variables", c->found_total),
                       PSI_KV("found", c->found));
        ready(r);
        break;
    case READY_WAIT:
        if (r->wait_again) {
            await_seals(r);
        } else {
            r->step = READY_GET;
        }
        break;
    case READY_OTHER:
        r->judged = c->chief.ready;
        if (r->judged != 0 || r->told != c->chief.told || r->connected != c->chief_connected) {
            r->told = c->chief.told;
            /* look again: a chief that came and went between two beats may have changed the model */
            r->connected = c->chief_connected;
            r->step = READY_GET;
        } else {
            beat(c);
            r->again_ms = c->now_ms + OTHER_MS;
        }
        break;
    }
}

/* If this session has become chief, end its wait for another session's seal. */
static void break_wait(struct psi_ready *r)
{
    struct psi_client *c = r->req->owner;
    bool chief = r->req->kind == PSI_REQ_READY && c->chief_mode == PSI_CHIEF_LEASE && psi_client_is_chief(c);
    if ((r->step == READY_WAIT || r->step == READY_OTHER) && chief && !r->failed) {
        psi_ask_drop(c, r->req);
        r->pending = 0;
        r->again_ms = 0;
        r->step = READY_GET;
    }
}

void psi_ready_pump(struct psi_client *c)
{
    struct psi_list *it = c->composites.next;
    while (it != &c->composites) {
        struct psi_ready *r = PSI_CONTAINER_OF(it, struct psi_ready, link);
        it = it->next;
        break_wait(r);
        if (r->claims && !psi_chief_settled(c)) {
            continue;
        }
        if (r->pending == 0 && (r->failed || r->again_ms <= c->now_ms)) {
            advance(r);
            it = c->composites.next; /* r may be freed */
        }
    }
}

void psi_ready_expire(struct psi_request *req)
{
    struct psi_ready *r = req->ready;
    char text[420];
    const char *subject = psi_request_subject(req);
    const struct psi_var *live = r->step == READY_WAIT && r->half ? half_a_model(r) : NULL;
    if (live != NULL) {
        fail_half(r, live);
    }
    ps_reason reason = psi_ready_explain(r, text, sizeof(text));
    ps_applied applied =
        r->step == READY_INIT || r->step == READY_SYNC || r->step == READY_SEALED ? PS_MAYBE_PARTLY_APPLIED : PS_NOTHING_APPLIED;
    psi_ready_fail(r, PS_DEADLINE_EXCEEDED, reason, applied, "%s%s%s%s: %llu ms are over, %s", psi_request_name(req),
                   subject != NULL ? " of '" : "", subject != NULL ? subject : "", subject != NULL ? "'" : "",
                   (unsigned long long)(req->owner->now_ms - req->started_ms), text);
    end(r);
}

bool psi_ready_slow(struct psi_request *req)
{
    char text[420];
    (void)psi_ready_explain(req->ready, text, sizeof(text));
    psi_client_log(req->owner, PSI_LOG_WARN, "waiting", PSI_KV("what", psi_request_name(req)),
                   PSI_KV("seconds", PSI_SLOW_MS / 1000), PSI_KV("why", text));
    return true;
}
