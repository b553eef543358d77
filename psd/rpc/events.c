/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes an EVENTS request, and hands it to psd_events_ask() (psd/base/events.c), which answers it, at once or later. Failure:
 * meta that cannot be decoded is answered with the error. */
#include "rpc.h"

#include "psd/base/events.h"

void psd_rpc_events(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    ps_v1_Events m;
    struct psi_err err;
    if (psi_msg_decode(&ps_v1_Events_msg, &m, r->meta, r->header.meta_bytes, &err) != PS_OK) {
        psd_reply(t, c, PS_OP_EVENTS, 0, r->header.id, 0, &err, 0, NULL, NULL);
        return;
    }
    psd_events_ask(t, c, r->header.id, &m);
}
