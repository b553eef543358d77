/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of the requests of one variable: on the wire in call order, whole operation after whole operation.
 *
 * Happy path: a request waits in var->waiting; the first of them becomes var->current and enters a ready list of its peer;
 * when all of it is on the wire the next one has its turn. Operations on other variables are not held up. An operation that is
 * being sent again after a reconnect (var->partial) comes before everything in these lists. Failure: a variable that is lost ends
 * what has not been sent: ABORTED, nothing applied.
 */
#include "client.h"

#include "common/shape.h"

#include <string.h>

static bool is_read(const struct psi_request *req)
{
    return psi_request_is(req, PSI_KIND_READ) || (req->flags & PSI_REQUEST_PUSHED) != 0;
}

void psi_var_queue(struct psi_request *req)
{
    struct psi_client *c = req->owner;
    struct psi_var *var = req->var;
    if (var->lost) {
        psi_request_end(req, PS_ABORTED, (req->flags & PSI_REQUEST_PUSHED) != 0 ? PS_MAYBE_PARTLY_APPLIED : PS_NOTHING_APPLIED,
                        "%s of '%s' at %s: the variable is gone: it was reset or deleted, or its task restarted without it",
                        psi_kind_of(req)->name, var->name, c->peers[var->owner]->name);
        return;
    }
    req->stage = PSI_STAGE_WAITING;
    if (req->tries > 0 || (req->flags & PSI_REQUEST_PUSHED) != 0) {
        psi_list_push_front(&var->waiting, &req->link); /* it was called before those that wait */
    } else {
        psi_list_push_back(&var->waiting, &req->link);
    }
    if (!var->open) {
        psi_var_want(c, var);
        return;
    }
    struct psi_peer *peer = c->peers[var->owner];
    psi_peer_want(peer);
    psi_client_kick(peer);
    if (var->current == NULL) {
        psi_var_next(var);
    }
}

void psi_var_next(struct psi_var *var)
{
    var->current = NULL;
    if (!var->open || psi_list_empty(&var->waiting)) {
        return;
    }
    struct psi_request *req = PSI_CONTAINER_OF(psi_list_pop_front(&var->waiting), struct psi_request, link);
    struct psi_peer *peer = req->owner->peers[var->owner];
    bool multi = psi_push_total(req) * psi_wire_unit(psi_push_wire(req)) > PS_FRAME_BODY_MAX;
    var->current = req;
    req->stage = PSI_STAGE_READY;
    psi_list_push_back(is_read(req) ? &peer->ready_read : multi ? &peer->ready_multi : &peer->ready_single, &req->link);
    psi_client_kick(peer);
}

void psi_var_release(struct psi_request *req)
{
    struct psi_var *var = req->var;
    psi_list_remove(&req->link);
    if (req->stage == PSI_STAGE_PULLING) {
        psi_pull_forget(req);
    }
    if (var->current == req) {
        psi_var_next(var);
    }
}
