/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Closing a session: the deadlines of what is in flight are brought forward, so that close is bounded whatever they were.
 * Happy path: nothing is in flight. Failure modes: none; a request that ends by it says what every expired request says.
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
