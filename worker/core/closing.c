/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How requests are ended early. When the session closes, the deadlines of all requests are brought forward, so that closing takes
 * bounded time. When threads are interrupted, the requests that they wait for end at once; so does a request that is cancelled. A
 * request ended by close has the text of an expired one, an interrupted request says that it was interrupted.
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
    c->scan_ms = 0; /* the next tick looks at all deadlines */
}

/* A request whose thread has waited since before this interrupt; NULL: none. */
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

/* End the request; it fails with CANCELLED. */
static void cut(struct psi_client *c, struct psi_request *req)
{
    req->flags |= PSI_REQUEST_CUT;
    req->deadline_ms = c->now_ms; /* for a request that cannot end before its connection does */
    psi_request_expire(req);
}

void psi_client_interrupt(struct psi_client *c, uint32_t interrupts, ps_reason reason, const char *why)
{
    struct psi_request *req = NULL;
    c->cut_reason = reason;
    c->cut_why = why;
    while ((req = interrupted(c, interrupts)) != NULL) { /* the end of one request may end others */
        cut(c, req);
    }
}

void psi_client_cancel(struct psi_client *c, struct psi_request *req, const char *why)
{
    if (req->stage == PSI_STAGE_DONE || (req->flags & PSI_REQUEST_CUT) != 0) {
        return;
    }
    c->cut_reason = PS_REASON_INTERRUPTED;
    c->cut_why = why;
    cut(c, req);
}
