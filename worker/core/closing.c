/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that are ended early. When the session closes, all requests get an earlier deadline, so that closing takes bounded
 * time; their error is that of an expired request. When threads are interrupted, or a request is cancelled, the requests end at
 * once, and their error text says who interrupted or cancelled them. */
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
    c->scan_ms = 0; /* the next tick examines all deadlines */
}

/* A request that is not interrupted yet, and whose thread's call began before interrupt number `interrupts`; NULL: none. */
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

static void cut(struct psi_client *c, struct psi_request *req)
{
    req->flags |= PSI_REQUEST_CUT;
    /* a request with a known outcome cannot end while a frame of it is half sent: because of this deadline, scan() tries again */
    req->deadline_ms = c->now_ms;
    psi_request_expire(req);
}

void psi_client_interrupt(struct psi_client *c, uint32_t interrupts, ps_reason reason, const char *why)
{
    struct psi_request *req = NULL;
    c->cut_reason = reason;
    c->cut_why = why;
    /* each search starts anew: psi_request_expire() may have ended other requests of the list */
    while ((req = interrupted(c, interrupts)) != NULL) {
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
