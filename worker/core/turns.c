/* SPDX-License-Identifier: Apache-2.0 */
/* The order of the requests of one variable: they are sent in call order, each as a whole. Happy path: requests wait in
 * var->waiting; the first one becomes var->current and enters a ready list of its peer; when all its frames are queued, the next
 * request becomes current. Requests of other variables need not wait. A mutation that is sent again from its middle after a
 * reconnect (var->partial) is sent first. Failure: if a variable is lost, its requests without a sequence number end ABORTED. */
#include "client.h"

#include <stdio.h>

#define TO(step) (1u << PSI_VAR_##step)
static const uint8_t WAYS[PSI_VAR_STEPS] = {
    [PSI_VAR_NEW] = TO(CREATE),
    [PSI_VAR_CREATE] = TO(CREATING) | TO(NEW), /* to NEW: no task could be chosen */
    [PSI_VAR_CREATING] = TO(OPEN) | TO(DELAYED) | TO(NEW),
    [PSI_VAR_OPEN] = TO(OPENING),
    [PSI_VAR_OPENING] = TO(NEW) | TO(DELAYED),
    [PSI_VAR_DELAYED] = TO(CREATE) | TO(NEW),
};

void psi_var_move(struct psi_var *var, enum psi_var_step step, struct psi_list *list)
{
    PSI_ASSERT((WAYS[var->step] >> step & 1u) != 0);
    psi_list_remove(&var->step_link);
    var->step = (uint8_t)step;
    if (list != NULL) {
        psi_list_push_back(list, &var->step_link);
    }
}

void psi_var_want(struct psi_client *c, struct psi_var *var)
{
    if (var->step == PSI_VAR_NEW && !var->open && !var->lost) {
        var->tries = 0;
        var->held_by = UINT32_MAX;
        psi_var_move(var, PSI_VAR_CREATE, &c->want_create);
        psi_peer_want(psi_client_directory(c));
    }
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

void psi_var_lost(struct psi_client *c, struct psi_var *var, const char *why)
{
    if (!var->open) {
        return;
    }
    var->open = false;
    if (var->queue == NULL) {
        c->chief.readied = false; /* a part of the model is gone, so it is no longer ready */
        c->chief.ready = 0;
    }
    char where[PSI_WHERE_MAX];
    const struct psi_peer *peer = c->peers[var->owner];
    psi_lost_note(c, var, why);
    bool again = true;
    while (again) {
        again = false;
        struct psi_list *it = NULL;
        PSI_LIST_FOREACH(it, &c->all) {
            struct psi_request *req = PSI_CONTAINER_OF(it, struct psi_request, all);
            if (req->var != var || !psi_request_is(req, PSI_KIND_DATA) || psi_request_numbered(req)) {
                continue;
            }
            psi_var_release(req);
            psi_request_end_as(req, PS_ABORTED, PS_REASON_LOST, psi_request_applied(req), "%s of '%s' at %s: %s",
                               psi_request_name(req), var->name, psi_peer_where(peer, where, sizeof(where)), why);
            again = true;
            break;
        }
    }
    if (var->used || var->must_exist) {
        var->lost = true;
    } else {
        var->creation = 0; /* this session has not used the variable, so it may continue with a new one of that name */
    }
}
