/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of the requests of one variable: on the wire in call order, whole operation after whole operation.
 *
 * Happy path: a request waits; the first of them has its turn and enters a ready list of its peer; when all of it is on the wire
 * the next one has its turn. Operations on other variables are not held up. An operation that is
 * being sent again after a reconnect (var->partial) comes before everything in these lists. Failure: a variable that is lost ends
 * what has not been sent: ABORTED, nothing applied.
 */
#include "client.h"

void psi_var_queue(struct psi_request *req)
{
    struct psi_client *c = req->owner;
    struct psi_var *var = req->var;
    if (var->lost) {
        psi_request_end_as(req, PS_ABORTED, PS_REASON_LOST,
                           (req->flags & PSI_REQUEST_PUSHED) != 0 ? PS_MAYBE_PARTLY_APPLIED : PS_NOTHING_APPLIED,
                           "%s of '%s' at %s: the variable is gone: it was reset or deleted, or its task restarted without it",
                           psi_kind_of(req)->name, var->name, c->peers[var->owner]->name);
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

void psi_var_release(struct psi_request *req)
{
    if (req->flying > 0) {
        psi_pull_forget(req);
    }
    psi_var_yield(req, PSI_STAGE_NONE);
}
