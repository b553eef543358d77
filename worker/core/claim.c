/* SPDX-License-Identifier: Apache-2.0 */
/* CHIEF requests, by which a session claims the chief's lease at the directory (states: chief.c). Happy path: a claim that is due
 * is sent, one at a time. The answer grants the lease, or says how long another session holds it. Failure: if the directory is
 * not ready, or memory is short, the session claims again after RETRY_MS or later. If there is a newer chief, the session is
 * WAITING. After a final refusal it is NEVER. */
#include "client.h"

#include <stdio.h>

enum { RETRY_MS = PSI_CHIEF_RETRY_MS };

static void on_claim(struct psi_client *c, struct psi_ask *ask, const struct psi_reply *r)
{
    struct psi_chief *h = &c->chief;
    const uint8_t *p = r->body;
    size_t n = r->body_bytes;
    ps_v1_ChiefAnswer m;
    bool over = false;
    (void)ask;
    h->asked = false;
    if (h->state == PSI_CHIEF_NEVER) {
        return;
    }
    if (r->status == PS_ABORTED) {
        if (h->state != PSI_CHIEF_WAITING) {
            psi_chief_lost(c, r->text);
        }
    } else if (psi_reply_repeatable(r) || r->status == PS_DEADLINE_EXCEEDED) {
        h->until_ms = c->now_ms + (r->retry_after_ms > RETRY_MS ? r->retry_after_ms : RETRY_MS);
        snprintf(h->why, sizeof(h->why), "%s", r->text);
    } else if (r->status != PS_OK) {
        psi_client_log(c, PSI_LOG_WARN, "chief_refused", PSI_KV("container", h->container), PSI_KV("why", r->text));
        psi_chief_move(h, PSI_CHIEF_NEVER, UINT64_MAX);
    } else if (psi_list_next(&p, &n, &ps_v1_ChiefAnswer_msg, &m, &over, NULL) != PS_OK || over || (m.granted && m.number == 0)) {
        /* claim again later: the answer is invalid, perhaps because a directory of another release is starting */
        h->until_ms = c->now_ms + 10 * RETRY_MS;
    } else if (m.granted) {
        psi_chief_granted(c, m.number);
    } else {
        psi_chief_not_granted(c, &m);
    }
}

ps_status psi_chief_build(struct psi_ask *ask, const char *container, const ps_v1_Chief *m)
{
    ps_v1_ContainerItem in = ps_v1_ContainerItem_init_zero;
    PSI_BYTES_SET(in.container, container);
    ps_status st = psi_ask_meta(ask, &ps_v1_Chief_msg, m, NULL);
    return st == PS_OK ? psi_list_append(&ask->body, &ps_v1_ContainerItem_msg, &in, NULL) : st;
}

void psi_chief_pump(struct psi_client *c)
{
    struct psi_chief *h = &c->chief;
    bool may = h->state == PSI_CHIEF_ASKING || h->state == PSI_CHIEF_WAITING || h->state == PSI_CHIEF_HELD;
    if (!may || h->asked || h->until_ms > c->now_ms) {
        return;
    }
    const uint64_t above = h->renew && h->seen > h->number ? h->seen : h->number;
    const ps_v1_Chief m = {.number = above, .claim = true, .preferred = psi_chief_preferred(c), .renew = h->renew};
    struct psi_ask *ask = psi_ask_new(psi_client_directory(c), PS_OP_CHIEF, NULL, on_claim, 0);
    if (ask == NULL || psi_chief_build(ask, h->container, &m) != PS_OK) {
        psi_ask_free(ask);
        h->until_ms = c->now_ms + RETRY_MS;
        return;
    }
    h->asked = true;
    h->until_ms = UINT64_MAX; /* the answer decides when to claim next */
    psi_ask_start(ask);
}
