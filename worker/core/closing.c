/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of what is in flight. When the session closes, the deadlines of all requests are brought forward, so that close is
 * bounded. When threads are interrupted, the requests that they wait for end at once. Happy path: nothing is in flight. Failure
 * modes: none; a request that close ends says what every expired request says, and an interrupted one says that it was
 * interrupted.
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

/* The next request for which a thread waits since before this interrupt; NULL: there is none. */
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
    while ((req = interrupted(c, interrupts)) != NULL) { /* the end of one request may have ended others */
        req->flags |= PSI_REQUEST_CUT;
        req->deadline_ms = c->now_ms; /* for a request that cannot end before its connection does */
        psi_request_expire(req);
    }
}
