/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a request on a variable: stores the variable's new version, and copies gathered rows to the program's memory. */
#include "api.h"

#include "worker/core/rows.h"

void psi_api_note_version(ps_variable *v, const struct psi_request *req)
{
    bool reads = req->kind == PSI_REQ_PULL || req->kind == PSI_REQ_PUSH_PULL || req->kind == PSI_REQ_GATHER ||
                 req->kind == PSI_REQ_PUSH_PULL_ROWS;
    if (reads || req->kind == PSI_REQ_ASSIGN) {
        (void)pthread_mutex_lock(&v->session->lock);
        v->version = req->version;
        v->exact = req->exact || !reads;
        v->from = v->of_param || req->slot != 0 ? v->from : 1 + req->version;
        (void)pthread_mutex_unlock(&v->session->lock);
    }
}

void psi_api_rows_end(struct psi_request *req, bool good)
{
    if (req->kind != PSI_REQ_GATHER && req->kind != PSI_REQ_PUSH_ROWS && req->kind != PSI_REQ_SCATTER &&
        req->kind != PSI_REQ_PUSH_PULL_ROWS) {
        return;
    }
    struct psi_rows *r = (struct psi_rows *)(uintptr_t)req->src;
    if (good && r != NULL && r->came != NULL && r->to != NULL) {
        psi_rows_spread(r, r->came, r->to);
    }
    psi_rows_free(r);
    req->src = NULL;
}
