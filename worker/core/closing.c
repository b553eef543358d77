/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of what is in flight: the deadlines of all of it are brought forward when the session closes, so that close is bounded
 * whatever they were; what threads wait for ends at once when they are interrupted. Happy path: nothing is in flight. Failure
 * modes: none; a request that ends by it says what every expired request says, an interrupted one that it was interrupted.
 */
#include "client.h"

void psi_client_hasten(struct psi_client *c, uint64_t deadline_ms)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &c->all) {
        struct psi_request *req = PSI_CONTAINER_OF(it, struct psi_request, all);
        if (req->deadline_ms > deadline_ms) {
            req->deadline_ms = deadline_ms;
        }
    }
    c->scan_ms = 0; /* look at them again at the next tick */
}

/* The next one that a thread waits for since before this interrupt; NULL: none. */
static struct psi_request *interrupted(struct psi_client *c, uint32_t interrupts)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &c->all) {
        struct psi_request *req = PSI_CONTAINER_OF(it, struct psi_request, all);
        if (req->waited && req->interrupts != interrupts && (req->flags & PSI_REQUEST_CUT) == 0) {
            return req;
        }
    }
    return NULL;
}

void psi_client_interrupt(struct psi_client *c, uint32_t interrupts, ps_reason reason, const char *why)
{
    struct psi_request *req = NULL;
    c->cut_reason = reason;
    c->cut_why = why;
    while ((req = interrupted(c, interrupts)) != NULL) { /* others may have ended with the one before */
        req->flags |= PSI_REQUEST_CUT;
        req->deadline_ms = c->now_ms; /* of one that cannot end before its connection does */
        psi_request_expire(req);
    }
}
